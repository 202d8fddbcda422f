#include "support/plan/cuda_case.h"

#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "support/support.h"

enum { TILE = 16, STEPS = 24 };

/* Each step adds two earlier values, chosen at random; the last one adds the last two, giving y. Some read their memory as a
 * part of a part of it. */
static void add_random_steps(struct cuda_case *f, uint32_t kernel, ig_slot tiles, ig_slot n, uint32_t x, uint32_t y) {
    struct tiny_plan *t = &f->tiny;
    ig_slot bytes = tiny_op(t, IG_SHAPE_MUL, n, tiny_const(t, sizeof(float)));
    uint32_t values[STEPS + 1] = {x};
    double factors[STEPS + 1] = {1}; /* multiples of x */
    uint32_t seed = f->seed;
    for (uint32_t i = 1; i <= STEPS; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t nearest = i > 6 ? i - 6 : 0, a = nearest + seed / 65536 % (i - nearest),
                 b = nearest + seed / 1024 % (i - nearest);
        if (i == STEPS) a = i - 1, b = i - 2;
        values[i] = i == STEPS ? y : tiny_arena(t, bytes);
        factors[i] = factors[a] + factors[b];
        uint32_t first = values[a];
        if (i % 3 == 0) first = tiny_alias(t, tiny_alias(t, first, IG_PLAN_NONE, bytes), tiny_const(t, 0), bytes);
        struct ig_plan_step *step =
            tiny_launch(t, kernel, tiles, (const uint32_t[]){first, values[b], values[i]}, 3, &n, 1);
        step->scratch = IG_PLAN_NONE;
    }
    f->factor = (float)factors[STEPS];
}

void cuda_plan(struct cuda_case *f) {
    struct tiny_plan *t = &f->tiny;
    tiny_init(t);
    uint32_t kernel = tiny_kernel(t, "add", NULL);
    t->kernels[kernel].entry = gpu_code_add_cubin(&f->code, 80); /* another generation's, so that the PTX runs */
    t->kernels[kernel].portable = gpu_code_add_text(&f->code, gpu_code_ptx);
    t->kernels[kernel].threads = TILE;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, LARGEST);
    ig_slot tiles = tiny_op(t, IG_SHAPE_DIV, tiny_op(t, IG_SHAPE_ADD, n, tiny_const(t, TILE - 1)), tiny_const(t, TILE));
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    if (f->seed) {
        add_random_steps(f, kernel, tiles, n, x, y);
    } else {
        uint32_t a = tiny_arena(t, tiny_op(t, IG_SHAPE_MUL, n, tiny_const(t, sizeof(float))));
        tiny_launch(t, kernel, tiles, (const uint32_t[]){x, x, a}, 3, &n, 1);
        tiny_launch(t, kernel, tiles, (const uint32_t[]){a, x, y}, 3, &n, 1);
        f->factor = 3;
    }
    f->file = tiny_file(t);
    f->file.code = f->code.bytes;
    f->file.code_size = f->code.size;
}

struct cuda_case *cuda_new(void) {
    struct cuda_case *f = aligned_alloc(64, (sizeof *f + 63) / 64 * 64);
    memset(f, 0, sizeof *f);
    counting_allocator_init(&f->allocator);
    return f;
}

bool cuda_open(struct cuda_case *f, const char *library, int ordinal) {
    if (ig_device_cuda_create_with(library, ordinal, &f->allocator.base, &f->device, &f->error)) return false;
    if (f->owner)
        f->file = f->owner->file, f->factor = f->owner->factor;
    else
        cuda_plan(f);
    /* No kernel reads weights, so host memory will do for them. */
    struct ig_context_config config = {.allocator = &f->allocator.base,
                                       .device = f->device,
                                       .max_instances = f->max_instances,
                                       .max_bytes = SIZE_MAX,
                                       .module = f->module,
                                       .activations = f->activations};
    cuda_must(f, ig_context_create(&f->file, &config, &f->context, &f->error));
    for (int i = 0; i < LARGEST; i++)
        f->x[i] = (float)i - 3;
    return true;
}

struct cuda_case *cuda_begin(bool fake, uint32_t seed, size_t max_instances) {
    struct cuda_case *f = cuda_new();
    f->seed = seed;
    f->max_instances = max_instances;
    if (fake) fake_driver_open(&f->driver);
    if (cuda_open(f, fake ? f->driver.path : NULL, 0)) return f;
    if (fake) fail_msg("%s", f->error.message);
    free(f);
    return NULL;
}

void cuda_close(struct cuda_case *f) {
    ig_context_destroy(f->context);
    f->device->api->destroy(f->device);
    assert_int_equal(f->allocator.live_count, 0);
}

void cuda_end(struct cuda_case *f, bool fake) {
    cuda_close(f);
    if (fake) assert_string_equal(f->driver.cuda->misuse, "");
    if (fake) assert_int_equal(f->driver.cuda->live, 0);
    free(f);
}

void cuda_must(struct cuda_case *f, enum ingot_status status) {
    if (status) fail_msg("%s", f->error.message);
}

void cuda_set_x(struct cuda_case *f, int64_t n) {
    struct ingot_tensor x = {INGOT_F32, 1, {n}, f->x, INGOT_HOST};
    cuda_must(f, ig_context_set_input(f->context, 0, &x, &f->error));
}

void cuda_enqueue(struct cuda_case *f, void *native) {
    cuda_must(f, ig_context_enqueue(f->context, native, &f->error));
}

void cuda_check(struct cuda_case *f, int64_t n) {
    struct ingot_tensor y;
    cuda_must(f, ig_context_output(f->context, 0, &y, &f->error));
    assert_int_equal(y.dims[0], n);
    for (int64_t i = 0; i < n; i++)
        assert_true(((float *)y.data)[i] == f->factor * f->x[i]);
}

void cuda_run(struct cuda_case *f, int64_t n) {
    cuda_set_x(f, n);
    cuda_must(f, ig_context_run(f->context, &f->error));
    cuda_check(f, n);
}

unsigned cuda_count(const char *log, const char *name) {
    unsigned found = 0;
    for (const char *at = log; (at = strstr(at, name)); at++)
        found++;
    return found;
}

void cuda_clear_log(struct cuda_case *f) {
    f->driver.cuda->log_size = 0;
    f->driver.cuda->log[0] = 0;
}

void *cuda_memory(struct cuda_case *f, enum ingot_memory memory, size_t size) {
    void *result = NULL;
    enum ingot_status status = memory == INGOT_CUDA
                                   ? f->device->api->allocate(f->device, size, &result, &f->error)
                                   : f->device->api->allocate_host(f->device, size, &result, &f->error);
    if (status) fail_msg("%s", f->error.message);
    return result;
}

void cuda_release(struct cuda_case *f, enum ingot_memory memory, void *at, size_t size) {
    (memory == INGOT_CUDA ? f->device->api->release : f->device->api->release_host)(f->device, at, size);
}
