#include "support/device/library_fixture.h"

#include <string.h>

#include "device/cuda/cuda.h"
#include "fake_cublaslt/fake_cublaslt.h"
#include "fake_cudnn/fake_cudnn.h"
#include "support/support.h"

void library_open(struct library_fixture *f, uint32_t library) {
    memset(f, 0, sizeof *f);
    counting_allocator_init(&f->allocator);
    fake_driver_open(&f->driver);
    if (library == IG_LIBRARY_CUBLASLT)
        f->lt = fake_cublaslt_open(f->path);
    else
        f->cudnn = fake_cudnn_open(f->path);
}

void library_open_gpu(struct library_fixture *f, uint32_t library) {
    assert_int_equal(ig_device_cuda_create_with(f->driver.path, 0, &f->allocator.base, &f->device, &f->error),
                     INGOT_OK);
    ig_device_cuda_use_library(f->device, library, f->path);
}

void library_close(struct library_fixture *f) {
    f->device->api->destroy(f->device);
    assert_int_equal(f->allocator.live_count, 0);
    assert_int_equal(f->driver.cuda->live, 0);
    assert_string_equal(f->driver.cuda->misuse, "");
    assert_int_equal(f->lt ? f->lt->live : f->cudnn->live, 0);
    assert_string_equal(f->lt ? f->lt->misuse : f->cudnn->misuse, "");
}

void library_begin(struct library_fixture *f, uint32_t library, uint32_t n_sizes) {
    library_open(f, library);
    library_open_gpu(f, library);
    f->api = f->device->api;
    f->n_sizes = n_sizes;
    assert_int_equal(f->api->stream_create(f->device, &f->stream, &f->error), INGOT_OK);
    for (int i = 0; i < LIBRARY_OPERANDS; i++) {
        size_t bytes = LIBRARY_MOST * sizeof(float);
        assert_int_equal(f->api->allocate(f->device, bytes, &f->operands[i], &f->error), INGOT_OK);
        for (int k = 0; k < LIBRARY_MOST; k++)
            ((float *)f->operands[i])[k] = library_fill(i, k);
    }
}

void library_end(struct library_fixture *f) {
    for (int i = 0; i < LIBRARY_OPERANDS; i++)
        f->api->release(f->device, f->operands[i], LIBRARY_MOST * sizeof(float));
    f->api->stream_destroy(f->device, f->stream);
    library_close(f);
}

float library_fill(int operand, int64_t element) {
    return (float)((7 * element + 3 * operand) % 11 - 5);
}

float library_at(const struct library_fixture *f, int operand, int64_t element) {
    return ((const float *)f->operands[operand])[element];
}

struct ig_launch library_launch_of(const struct library_fixture *f) {
    return (struct ig_launch){.library = &f->call,
                              .buffers = f->operands,
                              .n_buffers = LIBRARY_OPERANDS,
                              .dims = f->sizes,
                              .n_dims = f->n_sizes};
}

enum ingot_status library_launch(struct library_fixture *f) {
    struct ig_launch l = library_launch_of(f);
    return f->api->launch(f->device, f->stream, &l, &f->error);
}
