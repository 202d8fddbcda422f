/* The example network, built and run through the public API: for properties that hold for every engine. */
#ifndef TESTS_NETWORK_H
#define TESTS_NETWORK_H

#include "ingot/ingot.h"

#define TEST_DIGITS TEST_SOURCE_DIR "/examples/digits/digits.onnx"
enum { PIXELS = 64, CLASSES = 10 }; /* floats of a picture and of its result */

/* An engine in memory. */
struct test_network {
    struct ingot_model *model;
    void *data;
    size_t size;
};
/* Fails the test with the error's message on failure. `options` may be NULL. */
void test_network_build(struct test_network *network, const char *path, const struct ingot_build_options *options);
void test_network_release(struct test_network *network);

/* Are there GPU 0 and NVRTC, to build the network at `path` for it? Other errors of the build are for the tests to report. */
bool test_network_fits_gpu(const char *path, struct ingot_error *error);

/* Random pictures, always the same. */
void test_pictures(float *pixels, int count);

/* An allocator that counts and can fail: allocation number fail_at (from 1) fails; 0: none. Thread-safe. */
struct test_allocator {
    struct ingot_allocator base; /* user points to this struct */
    _Atomic long calls, live, bytes;
    long fail_at;
};
void test_allocator_init(struct test_allocator *allocator);

/* A deterministic number in [-1, 1]. */
float test_random(uint64_t *state);

#endif
