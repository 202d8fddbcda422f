/*
 * Contexts on hand-made plans, for the tests of the runtime: a fixture, kernels that are C functions, and the plan that
 * most tests run, y = -((x + w) + x).
 */
#ifndef TESTS_SUPPORT_RUNTIME_CASE_H
#define TESTS_SUPPORT_RUNTIME_CASE_H

#include "runtime/resident.h"
#include "runtime/runtime.h"
#include "support/counting_allocator.h"
#include "support/plan/tiny_plan.h"

#define TILE 32

struct fixture {
    struct tiny_plan tiny;
    struct ig_engine_file file;
    struct counting_allocator allocator;
    bool remote; /* on a device of remote_device.h, not the CPU */
    struct ig_resident_store store;
    struct ig_device *device;
    struct ig_context *context;
    struct ingot_error error;
    uint32_t add, shift, negate, count_up, below, widen; /* kernels */
};

/* The `remote` of new fixtures. */
extern bool test_remote;
/* Set-up functions that choose, and a test's two rows, one for each. */
int test_on_cpu(void **state);
int test_on_remote(void **state);
#define TEST_ON_BOTH(test)                                 \
    {"cpu: " #test, test, test_on_cpu, NULL, NULL}, {      \
        "remote: " #test, test, test_on_remote, NULL, NULL \
    }

#define RAMP 100000
extern float ramp[RAMP];

#define LAUNCH(f, kernel, n, ...) \
    launch((f), (kernel), (n), (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

struct fixture *begin_plan(void);
/* The fixture sets the allocator and the device of `config`; threads 0 is the null device. */
enum ingot_status try_context(struct fixture *f, struct ig_context_config config, unsigned threads);
void make_context(struct fixture *f, unsigned threads, size_t max_instances, bool profile);
void end_plan(struct fixture *f);
ig_slot tiles_for(struct tiny_plan *t, ig_slot n);
ig_slot bytes_for(struct tiny_plan *t, ig_slot n);
void launch(struct fixture *f, uint32_t kernel, ig_slot n, const uint32_t *operands, uint32_t n_operands);
struct ingot_tensor vector(float *data, int64_t n);
struct ingot_tensor scalar_i64(int64_t *data);
struct ingot_tensor scalar_bool(unsigned char *data);
void set_input(struct fixture *f, size_t index, struct ingot_tensor tensor);
void run(struct fixture *f);
struct ingot_tensor output(struct fixture *f, size_t index);
void expect_refusal(struct fixture *f, enum ingot_status found, enum ingot_status wanted, const char *text);
void fill_ramp(void);
struct fixture *chain(int64_t lo, int64_t hi);
void check_chain(struct fixture *f, int64_t n);
void run_chain(struct fixture *f, int64_t n);

#endif
