#include "support/device/device_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "support/support.h"

/* ---- Kernels --------------------------------------------------------------------------------------------------------- */

static void add_kernel(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    const float *a = buf[0], *b = buf[1];
    float *c = buf[2];
    for (int64_t i = begin * TILE; i < end * TILE && i < dim[0]; i++)
        c[i] = a[i] + b[i];
}

static void twice_kernel(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    float *a = buf[0];
    for (int64_t i = begin * TILE; i < end * TILE && i < dim[0]; i++)
        a[i] *= 2;
}

/* Counts each tile, and fills the scratch memory: if two workers shared it, that would be a data race. */
static void mark_kernel(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    int *marks = buf[0];
    memset(scratch, (int)begin & 0xff, (size_t)dim[0]);
    for (int64_t i = begin; i < end; i++)
        marks[i]++;
}

/* Counts each call. */
static void call_kernel(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    int *calls = buf[0];
    calls[begin]++;
}

/* Reads what the previous step wrote at both ends. */
static void pair_kernel(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    const float *a = buf[0];
    float *b = buf[1];
    for (int64_t i = begin * TILE; i < end * TILE && i < dim[0]; i++)
        b[i] = a[i] + a[dim[0] - 1 - i];
}

/* ---- Set-up ---------------------------------------------------------------------------------------------------------- */

static enum ingot_status create_device(struct fixture *f, struct subject subject, struct ingot_error *error) {
    const struct ingot_allocator *allocator = &f->allocator.base;
    switch (subject.kind) {
    case NULL_DEVICE: return ig_device_null_create(allocator, &f->device, error);
    case CPU: return ig_device_cpu_create(subject.threads, allocator, &f->device, error);
    case FAKE_GPU: return ig_device_cuda_create_with(f->driver.path, 1, allocator, &f->device, error);
    case GPU: return ig_device_cuda_create(0, allocator, &f->device, error);
    }
    return INGOT_INTERNAL;
}

static void make_cpu_code(struct fixture *f) {
    f->add = (struct kernel){stub_code_add(&f->code, add_kernel), "add"};
    f->twice = (struct kernel){stub_code_add(&f->code, twice_kernel), "twice"};
    f->mark = (struct kernel){stub_code_add(&f->code, mark_kernel), "mark"};
    f->pair = (struct kernel){stub_code_add(&f->code, pair_kernel), "pair"};
    f->call = (struct kernel){stub_code_add(&f->code, call_kernel), "call"};
    f->late = f->twice;
    f->portable = f->late_portable = UINT64_MAX;
}

/* The cubins are for sm_20, which no GPU is, so that every GPU runs the PTX. */
static void make_gpu_code(struct fixture *f) {
    uint64_t cubin = gpu_code_add_cubin(&f->gpu_code, 20);
    f->portable = gpu_code_add_text(&f->gpu_code, gpu_code_ptx);
    f->add = (struct kernel){cubin, "add"};
    f->twice = (struct kernel){cubin, "twice"};
    f->mark = (struct kernel){cubin, "mark"};
    f->pair = (struct kernel){cubin, "pair"};
    f->late = (struct kernel){gpu_code_add_cubin(&f->gpu_code, 20), "twice_late"};
    f->late_portable = gpu_code_add_text(&f->gpu_code, gpu_code_late_ptx);
}

void fixture_begin(struct fixture *f, struct subject subject) {
    struct ingot_error error = {0};
    bool gpu = subject.kind == FAKE_GPU || subject.kind == GPU;
    memset(f, 0, sizeof *f);
    counting_allocator_init(&f->allocator);
    if (subject.kind == FAKE_GPU) fake_driver_open(&f->driver);
    f->computes = subject.kind != NULL_DEVICE;
    f->unready = subject.unready;
    if (create_device(f, subject, &error) != INGOT_OK) fail_msg("%s", error.message);
    f->api = f->device->api;
    assert_int_equal(f->device->host_memory, !gpu);
    (gpu ? make_gpu_code : make_cpu_code)(f);
    const void *code = gpu ? f->gpu_code.bytes : f->code.bytes;
    size_t size = gpu ? f->gpu_code.size : f->code.size;
    assert_int_equal(f->api->module_create(f->device, code, size, &f->module, &error), INGOT_OK);
    assert_int_equal(f->api->stream_create(f->device, &f->stream, &error), INGOT_OK);
}

void fixture_end(struct fixture *f) {
    f->api->stream_destroy(f->device, f->stream);
    f->api->module_destroy(f->device, f->module);
    f->api->destroy(f->device);
    assert_int_equal(f->allocator.live_count, 0);
    assert_int_equal(f->allocator.wrong, 0);
    if (!f->driver.cuda) return;
    assert_string_equal(f->driver.cuda->misuse, "");
    assert_int_equal(f->driver.depth(), 0);
}

void *fixture_allocate(struct fixture *f, size_t size) {
    void *memory = NULL;
    assert_int_equal(f->api->allocate(f->device, size, &memory, NULL), INGOT_OK);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    return memory;
}

struct ig_list *fixture_end_list(struct fixture *f) {
    struct ig_list *list = NULL;
    assert_int_equal(f->api->list_end(f->device, f->stream, &list, NULL), INGOT_OK);
    if (f->api->list_ready && !f->unready)
        assert_int_equal(f->api->list_ready(f->device, f->stream, list, NULL), INGOT_OK);
    return list;
}

void fixture_wait(struct fixture *f) {
    struct ingot_error error = {0};
    if (f->api->stream_wait(f->device, f->stream, &error) != INGOT_OK) fail_msg("%s", error.message);
}

void fixture_copy(struct fixture *f, struct ig_stream *stream, void *to, const void *from, size_t size) {
    struct ingot_error error = {0};
    if (f->api->copy(f->device, stream, to, from, size, &error) != INGOT_OK) fail_msg("%s", error.message);
}

void fixture_move(struct fixture *f, void *to, const void *from, size_t size) {
    fixture_copy(f, f->stream, to, from, size);
    fixture_wait(f);
}

float *fixture_floats(struct fixture *f, int64_t n, float value) {
    size_t size = (size_t)n * sizeof(float);
    float *host = malloc(size), *memory = fixture_allocate(f, size);
    for (int64_t i = 0; i < n; i++)
        host[i] = value;
    fixture_move(f, memory, host, size);
    free(host);
    return memory;
}

void fixture_expect(struct fixture *f, const float *memory, int64_t n, float value) {
    if (!f->computes) return;
    size_t size = (size_t)n * sizeof(float);
    float *host = malloc(size);
    fixture_move(f, host, memory, size);
    for (int64_t i = 0; i < n; i++)
        if (host[i] != value) fail_msg("element %lld is %g, not %g", (long long)i, (double)host[i], (double)value);
    free(host);
}

struct ig_launch fixture_launch_of(const struct fixture *f, struct kernel kernel, void *const *buffers,
                                   uint32_t n_buffers, const int64_t *dim, int64_t tiles) {
    return (struct ig_launch){.module = f->module,
                              .entry = kernel.entry,
                              .portable = f->portable,
                              .name = kernel.name,
                              .threads = TILE,
                              .buffers = buffers,
                              .n_buffers = n_buffers,
                              .dims = dim,
                              .n_dims = 1,
                              .tiles = tiles};
}

void fixture_launch(struct fixture *f, struct kernel kernel, void *const *buffers, uint32_t n_buffers, int64_t dim,
                    int64_t tiles, size_t scratch, uint32_t max_workers) {
    struct ingot_error error = {0};
    struct ig_launch launch = fixture_launch_of(f, kernel, buffers, n_buffers, &dim, tiles);
    launch.scratch = scratch;
    launch.max_workers = max_workers;
    if (f->api->launch(f->device, f->stream, &launch, &error) != INGOT_OK) fail_msg("%s", error.message);
}
