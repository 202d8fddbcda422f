/*
 * A CUDA device on the fake driver and one fake vendor library, and a call of that library: for tests of bindings and,
 * without stream and operands, for tests of their callers (library_run.h).
 */
#ifndef TESTS_LIBRARY_FIXTURE_H
#define TESTS_LIBRARY_FIXTURE_H

#include "base/library.h"
#include "device/device.h"
#include "support/counting_allocator.h"
#include "support/device/fake_driver.h"

enum { LIBRARY_OPERANDS = 5, LIBRARY_MOST = 1024 }; /* elements per operand */

struct fake_cublaslt;
struct fake_cudnn;

struct library_fixture {
    struct counting_allocator allocator;
    struct fake_driver driver;
    char path[4096];          /* of the library */
    struct fake_cublaslt *lt; /* the fake, if cuBLASLt */
    struct fake_cudnn *cudnn; /* the fake, if cuDNN */
    struct ig_device *device;
    const struct ig_device_api *api;
    struct ig_stream *stream;
    struct ig_library_call call;
    int64_t sizes[IG_LIBRARY_CONV_SIZES];
    uint32_t n_sizes; /* as many as the operation has */
    void *operands[LIBRARY_OPERANDS];
    struct ingot_error error;
};

/* Creates the fakes, one of them for `library`, and an allocator, but no device. */
void library_open(struct library_fixture *f, uint32_t library);
/* Creates the CUDA device and tells it the library's path. */
void library_open_gpu(struct library_fixture *f, uint32_t library);
/* Destroys the device; checks that the allocator, driver and library have no live objects and saw no misuse. */
void library_close(struct library_fixture *f);

/* Creates everything; operand i has library_fill(i, k) at element k. */
void library_begin(struct library_fixture *f, uint32_t library, uint32_t n_sizes);
void library_end(struct library_fixture *f);
float library_fill(int operand, int64_t element);
float library_at(const struct library_fixture *f, int operand, int64_t element);
struct ig_launch library_launch_of(const struct library_fixture *f);
enum ingot_status library_launch(struct library_fixture *f);

#endif
