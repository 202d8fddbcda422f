/*
 * Devices under test in the conformance suite: the null device, CPU devices, a CUDA device on the fake driver, and one
 * on GPU 0. All have code with the same kernels. A failure in a helper fails the test.
 */
#ifndef TESTS_SUPPORT_DEVICE_FIXTURE_H
#define TESTS_SUPPORT_DEVICE_FIXTURE_H

#include "device/device.h"
#include "support/counting_allocator.h"
#include "support/device/fake_driver.h"
#include "support/device/gpu_code.h"
#include "support/device/stub_code.h"

#define TILE 16

struct kernel {
    uint64_t entry;
    const char *name;
};

enum kind { NULL_DEVICE, CPU, FAKE_GPU, GPU };
struct subject {
    enum kind kind;
    unsigned threads; /* of a CPU device */
    bool unready;     /* lists are launched without being made ready */
};

/* A device under test. */
struct fixture {
    struct counting_allocator allocator;
    struct fake_driver driver;
    struct ig_device *device;
    const struct ig_device_api *api;
    struct ig_stream *stream;
    struct ig_module *module;
    struct stub_code code;
    struct gpu_code gpu_code;
    uint64_t portable, late_portable;
    struct kernel add, twice, mark, pair, late; /* late: like twice, but waits for its predecessor on GPUs */
    struct kernel call;                         /* CPU */
    bool computes, unready;
};

void fixture_begin(struct fixture *f, struct subject subject);
/* Checks that nothing is left allocated and that the fake driver has seen no misuse. */
void fixture_end(struct fixture *f);

void *fixture_allocate(struct fixture *f, size_t size);
float *fixture_floats(struct fixture *f, int64_t n, float value);
/* If the device computes: checks that all n elements are `value`. */
void fixture_expect(struct fixture *f, const float *memory, int64_t n, float value);

/* Ends the list that is recorded on the stream and, as the subject wants, makes it ready. */
struct ig_list *fixture_end_list(struct fixture *f);

void fixture_wait(struct fixture *f);
void fixture_copy(struct fixture *f, struct ig_stream *stream, void *to, const void *from, size_t size);
/* Copies between device memory and the test's memory, and waits. */
void fixture_move(struct fixture *f, void *to, const void *from, size_t size);

/* A launch with one dim. */
struct ig_launch fixture_launch_of(const struct fixture *f, struct kernel kernel, void *const *buffers,
                                   uint32_t n_buffers, const int64_t *dim, int64_t tiles);
void fixture_launch(struct fixture *f, struct kernel kernel, void *const *buffers, uint32_t n_buffers, int64_t dim,
                    int64_t tiles, size_t scratch, uint32_t max_workers);

#endif
