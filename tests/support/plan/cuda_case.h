/*
 * Contexts on the CUDA device, on hand-made plans: y = (x + x) + x, f32[n]. On a stand-in for the driver, whose calls tests
 * count, or on GPU 0.
 */
#ifndef TESTS_SUPPORT_CUDA_CASE_H
#define TESTS_SUPPORT_CUDA_CASE_H

#include "runtime/runtime.h"
#include "support/counting_allocator.h"
#include "support/device/fake_driver.h"
#include "support/device/gpu_code.h"
#include "support/plan/tiny_plan.h"

#define LARGEST 524289

/* With a seed, y is a random sum of many steps, some of them independent. */
struct cuda_case {
    uint32_t seed;
    float factor; /* y is this multiple of x */
    size_t max_instances;
    struct ig_activations *activations; /* shared; NULL: none */
    const struct cuda_case *owner;      /* of the engine, and of `module`; NULL: this one */
    struct ig_module *module;           /* shared; NULL: none */
    struct tiny_plan tiny;
    struct gpu_code code;
    struct ig_engine_file file;
    struct counting_allocator allocator;
    struct fake_driver driver;
    struct ig_device *device;
    struct ig_context *context;
    struct ingot_error error;
    float x[LARGEST];
};

/* Where a context is not made by cuda_begin: the fixture, its plan, the context on a GPU (false if there is none). */
struct cuda_case *cuda_new(void);
void cuda_plan(struct cuda_case *f);
bool cuda_open(struct cuda_case *f, const char *library, int ordinal);
void cuda_close(struct cuda_case *f);

/* NULL if a real GPU is wanted and there is none. */
struct cuda_case *cuda_begin(bool fake, uint32_t seed, size_t max_instances);
void cuda_end(struct cuda_case *f, bool fake);

/* Fails the test on an error, with its message. */
void cuda_must(struct cuda_case *f, enum ingot_status status);
void cuda_set_x(struct cuda_case *f, int64_t n);
void cuda_enqueue(struct cuda_case *f, void *native);
void cuda_check(struct cuda_case *f, int64_t n);
void cuda_run(struct cuda_case *f, int64_t n);

/* On the device, or pinned. */
void *cuda_memory(struct cuda_case *f, enum ingot_memory memory, size_t size);
void cuda_release(struct cuda_case *f, enum ingot_memory memory, void *at, size_t size);

/* The driver calls since cuda_clear_log. */
void cuda_clear_log(struct cuda_case *f);
unsigned cuda_count(const char *log, const char *name);

#endif
