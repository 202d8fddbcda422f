/* Contexts on hand-written plans; see runtime_case.h. */
#include "support/plan/runtime_case.h"

#include <stdlib.h>
#include <string.h>

#include "support/device/remote_device.h"
#include "support/support.h"

/* ---- Kernels --------------------------------------------------------------------------------------------------------- */

#define EACH_ELEMENT(i) for (int64_t i = begin * TILE; i < end * TILE && i < dim[0]; i++)

static void add(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    const float *a = buf[0], *b = buf[1];
    float *c = buf[2];
    memset(scratch, 1, 128);
    EACH_ELEMENT(i) c[i] = a[i] + b[i];
}

/* Adds the second operand's single element. */
static void shift(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    const float *a = buf[0], *w = buf[1];
    float *c = buf[2];
    EACH_ELEMENT(i) c[i] = a[i] + w[0];
}

static void negate(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    const float *a = buf[0];
    float *c = buf[1];
    EACH_ELEMENT(i) c[i] = -a[i];
}

static void count_up(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    float *c = buf[0];
    EACH_ELEMENT(i) c[i] = (float)i;
}

/* iteration i64, limit i64 -> condition bool: iteration + 1 < limit. */
static void below(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    *(unsigned char *)buf[2] = *(const int64_t *)buf[0] + 1 < *(const int64_t *)buf[1];
}

static void widen(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch) {
    float *c = buf[1];
    EACH_ELEMENT(i) c[i] = (float)*(const int64_t *)buf[0];
}

/* ---- Fixture --------------------------------------------------------------------------------------------------------- */

struct fixture *begin_plan(void) {
    struct fixture *f = aligned_alloc(64, (sizeof *f + 63) / 64 * 64);
    memset(f, 0, sizeof *f);
    f->remote = test_remote;
    tiny_init(&f->tiny);
    counting_allocator_init(&f->allocator);
    f->add = tiny_kernel(&f->tiny, "add", add);
    f->shift = tiny_kernel(&f->tiny, "shift", shift);
    f->negate = tiny_kernel(&f->tiny, "negate", negate);
    f->count_up = tiny_kernel(&f->tiny, "count_up", count_up);
    f->below = tiny_kernel(&f->tiny, "below", below);
    f->widen = tiny_kernel(&f->tiny, "widen", widen);
    return f;
}

static enum ingot_status open_remote(int ordinal, const struct ingot_allocator *allocator,
                                     struct ig_device **out_device, struct ingot_error *error) {
    return remote_device_create(1, allocator, out_device, error);
}

enum ingot_status try_context(struct fixture *f, struct ig_context_config config, unsigned threads) {
    config.allocator = &f->allocator.base;
    f->file = tiny_file(&f->tiny);
    if (!f->store.file) ig_resident_store_init(&f->store, &f->file, &f->allocator.base);
    if (threads == 0) {
        IG_TRY(ig_device_null_create(config.allocator, &f->device, &f->error));
    } else if (f->remote) {
        IG_TRY(remote_device_create(threads, config.allocator, &f->device, &f->error));
        struct ig_resident resident;
        IG_TRY(ig_resident_store_get(&f->store, open_remote, 0, 0, &resident, &f->error));
        config.weights = resident.weights;
        config.module = resident.module;
    } else {
        IG_TRY(ig_device_cpu_create(threads, config.allocator, &f->device, &f->error));
    }
    config.device = f->device;
    enum ingot_status status = ig_context_create(&f->file, &config, &f->context, &f->error);
    f->device->cache_bytes = 0; /* this machine's caches would decide whether batches are computed in parts */
    return status;
}

void make_context(struct fixture *f, unsigned threads, size_t max_instances, bool profile) {
    struct ig_context_config config = {.max_instances = max_instances, .max_bytes = SIZE_MAX, .profile = profile};
    if (try_context(f, config, threads) != INGOT_OK) fail_msg("%s", f->error.message);
}

void end_plan(struct fixture *f) {
    ig_context_destroy(f->context);
    if (f->device) f->device->api->destroy(f->device);
    if (f->store.file) ig_resident_store_deinit(&f->store);
    assert_int_equal(f->allocator.live_count, 0);
    assert_int_equal(f->allocator.wrong, 0);
    free(f);
}

ig_slot tiles_for(struct tiny_plan *t, ig_slot n) {
    return tiny_op(t, IG_SHAPE_DIV, tiny_op(t, IG_SHAPE_ADD, n, tiny_const(t, TILE - 1)), tiny_const(t, TILE));
}

ig_slot bytes_for(struct tiny_plan *t, ig_slot n) {
    return tiny_op(t, IG_SHAPE_MUL, n, tiny_const(t, sizeof(float)));
}

void launch(struct fixture *f, uint32_t kernel, ig_slot n, const uint32_t *operands, uint32_t n_operands) {
    tiny_launch(&f->tiny, kernel, tiles_for(&f->tiny, n), operands, n_operands, &n, 1);
}
struct ingot_tensor vector(float *data, int64_t n) {
    return (struct ingot_tensor){.dtype = INGOT_F32, .rank = 1, .dims = {n}, .data = data};
}

struct ingot_tensor scalar_i64(int64_t *data) {
    return (struct ingot_tensor){.dtype = INGOT_I64, .rank = 0, .data = data};
}

struct ingot_tensor scalar_bool(unsigned char *data) {
    return (struct ingot_tensor){.dtype = INGOT_BOOL, .rank = 0, .data = data};
}

void set_input(struct fixture *f, size_t index, struct ingot_tensor tensor) {
    if (ig_context_set_input(f->context, index, &tensor, &f->error) != INGOT_OK) fail_msg("%s", f->error.message);
}

void run(struct fixture *f) {
    if (ig_context_run(f->context, &f->error) != INGOT_OK) fail_msg("%s", f->error.message);
}

struct ingot_tensor output(struct fixture *f, size_t index) {
    struct ingot_tensor tensor;
    if (ig_context_output(f->context, index, &tensor, &f->error) != INGOT_OK) fail_msg("%s", f->error.message);
    return tensor;
}

void expect_refusal(struct fixture *f, enum ingot_status found, enum ingot_status wanted, const char *text) {
    assert_int_equal(found, wanted);
    assert_int_equal(f->error.status, wanted);
    if (!strstr(f->error.message, text)) fail_msg("'%s' does not say '%s'", f->error.message, text);
}

bool test_remote;

int test_on_cpu(void **state) {
    (void)state;
    test_remote = false;
    return 0;
}

int test_on_remote(void **state) {
    (void)state;
    test_remote = true;
    return 0;
}
float ramp[RAMP];

void fill_ramp(void) {
    for (size_t i = 0; i < sizeof ramp / sizeof *ramp; i++)
        ramp[i] = (float)(i % 1000) - 3;
}

/* ---- y = -((x + w) + x), with x f32[n] ----------------------------------------------------------------------------------- */

struct fixture *chain(int64_t lo, int64_t hi) {
    struct fixture *f = begin_plan();
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, lo, hi);
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 1, &n), y = tiny_output(t, "y", INGOT_F32, 1, &n);
    uint32_t w = tiny_weight(t, 2, (const float[]){10}, 1);
    uint32_t a = tiny_arena(t, bytes_for(t, n)), b = tiny_arena(t, bytes_for(t, n));
    LAUNCH(f, f->shift, n, x, w, a);
    LAUNCH(f, f->add, n, a, x, b);
    LAUNCH(f, f->negate, n, b, y);
    return f;
}

void check_chain(struct fixture *f, int64_t n) {
    struct ingot_tensor y = output(f, 0);
    assert_int_equal(y.dtype, INGOT_F32);
    assert_int_equal(y.rank, 1);
    assert_int_equal(y.dims[0], n);
    assert_non_null(y.data);
    for (int64_t i = 0; i < n; i++)
        assert_true(((float *)y.data)[i] == -(2 * ramp[i] + 10));
}

void run_chain(struct fixture *f, int64_t n) {
    set_input(f, 0, vector(n ? ramp : NULL, n));
    run(f);
    check_chain(f, n);
}
