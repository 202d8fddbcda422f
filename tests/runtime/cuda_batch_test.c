/* Batches rounded up and sizes prepared on the CUDA device: the driver calls of a run, on a stand-in for the driver. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "runtime/runtime.h"
#include "support/counting_allocator.h"
#include "support/device/fake_driver.h"
#include "support/device/gpu_code.h"
#include "support/plan/tiny_plan.h"

enum { TILE = 16, LARGEST = 1000 };

/* y = (x + x) + x, f32[n]. */
struct fixture {
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

static void make_plan(struct fixture *f) {
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
    uint32_t a = tiny_arena(t, tiny_op(t, IG_SHAPE_MUL, n, tiny_const(t, sizeof(float))));
    tiny_launch(t, kernel, tiles, (const uint32_t[]){x, x, a}, 3, &n, 1);
    tiny_launch(t, kernel, tiles, (const uint32_t[]){a, x, y}, 3, &n, 1);
    f->file = tiny_file(t);
    f->file.code = f->code.bytes;
    f->file.code_size = f->code.size;
}

static void must(struct fixture *f, enum ingot_status status) {
    if (status) fail_msg("%s", f->error.message);
}

static struct fixture *begin(void) {
    struct fixture *f = aligned_alloc(64, (sizeof *f + 63) / 64 * 64);
    memset(f, 0, sizeof *f);
    counting_allocator_init(&f->allocator);
    fake_driver_open(&f->driver);
    must(f, ig_device_cuda_create_with(f->driver.path, 0, &f->allocator.base, &f->device, &f->error));
    make_plan(f);
    /* No kernel reads weights, so host memory will do for them. */
    struct ig_context_config config = {.allocator = &f->allocator.base, .device = f->device, .max_bytes = SIZE_MAX};
    must(f, ig_context_create(&f->file, &config, &f->context, &f->error));
    for (int i = 0; i < LARGEST; i++)
        f->x[i] = (float)i - 3;
    return f;
}

static void end(struct fixture *f) {
    ig_context_destroy(f->context);
    f->device->api->destroy(f->device);
    assert_int_equal(f->allocator.live_count, 0);
    assert_string_equal(f->driver.cuda->misuse, "");
    assert_int_equal(f->driver.cuda->live, 0);
    free(f);
}

static unsigned count(const struct fixture *f, const char *name) {
    unsigned found = 0;
    for (const char *at = f->driver.cuda->log; (at = strstr(at, name)); at++)
        found++;
    return found;
}

static void clear_log(struct fixture *f) {
    f->driver.cuda->log_size = 0;
    f->driver.cuda->log[0] = 0;
}

static void check(struct fixture *f, int64_t n) {
    struct ingot_tensor y;
    must(f, ig_context_wait(f->context, &f->error));
    must(f, ig_context_output(f->context, 0, &y, &f->error));
    assert_int_equal(y.dims[0], n);
    for (int64_t i = 0; i < n; i++)
        assert_true(((float *)y.data)[i] == 3 * f->x[i]);
}

/* Enqueues a run; returns the driver calls that it took. */
static uint64_t enqueue(struct fixture *f, enum ingot_memory memory, void *data, int64_t n) {
    const struct ingot_tensor x = {INGOT_F32, 1, {n}, data, memory};
    must(f, ig_context_set_input(f->context, 0, &x, &f->error));
    clear_log(f);
    uint64_t before = ig_device_cuda_calls(f->device);
    must(f, ig_context_enqueue(f->context, NULL, &f->error));
    return ig_device_cuda_calls(f->device) - before;
}

static void round_up(struct fixture *f) {
    static const int64_t sizes[] = {32, 100};
    const struct ingot_batch_options options = {sizeof options, "n", sizes, 2};
    must(f, ig_context_set_batch(f->context, &options, &f->error));
}

enum { PUSH_AND_POP = 2 };

/* Within a rounded size nothing is captured, and a run from host memory costs what an exact one does. */
static void rounded_sizes_are_captured_once(void **state) {
    struct fixture *f = begin();
    round_up(f);
    enqueue(f, INGOT_HOST, f->x, 100);
    enqueue(f, INGOT_HOST, f->x, 3);
    check(f, 3);
    size_t allocations = f->allocator.calls;
    for (int64_t n = 100; n >= 0; n--) {
        assert_int_equal(enqueue(f, INGOT_HOST, f->x, n), 2 + PUSH_AND_POP); /* launch, event */
        assert_int_equal(count(f, "cuGraphLaunch"), 1);
        check(f, n);
    }
    assert_int_equal(f->allocator.calls, allocations);
    struct ingot_plans_info plans;
    ig_context_plans(f->context, &plans);
    assert_int_equal(plans.captures, 2);
    end(f);
}

/* Copies that depend on the number of rows are not in the captured launch. */
static void other_memory_costs_a_copy(void **state) {
    struct fixture *f = begin();
    void *data;
    round_up(f);
    must(f, f->device->api->allocate(f->device, sizeof f->x, &data, &f->error));
    memcpy(data, f->x, sizeof f->x); /* the stand-in's memory is the host's */
    for (int64_t n = 100; n >= 31; n -= 23) {
        enqueue(f, INGOT_CUDA, data, n);
        check(f, n);
    }
    size_t allocations = f->allocator.calls;
    for (int64_t n = 1; n <= 100; n++) {
        bool copied = n != 32 && n != 100;
        enqueue(f, INGOT_CUDA, data, n);
        assert_int_equal(count(f, "cuGraphLaunch"), 1);
        assert_int_equal(count(f, "cuMemcpy"), 1 + copied); /* the result leaves apart too: no list has copies now */
        assert_int_equal(count(f, "Instantiate"), 0);
        check(f, n);
    }
    assert_int_equal(f->allocator.calls, allocations);
    f->device->api->release(f->device, data, sizeof f->x);
    end(f);
}

/* What is captured in the background serves the first run: two launches of the whole are prepared with their copies, and
 * only addresses are patched. */
static void prepared_sizes_are_captured_in_the_background(void **state) {
    struct fixture *f = begin();
    struct ig_device *device;
    round_up(f);
    must(f, ig_device_cuda_create_with(f->driver.path, 0, &f->allocator.base, &device, &f->error));
    must(f, ig_context_use_preparer(f->context, device, &f->error));
    for (int64_t n = 100; n >= 20; n -= 80) {
        const struct ingot_tensor x = {INGOT_F32, 1, {n}, NULL, INGOT_HOST};
        must(f, ig_context_prepare_shapes(f->context, &x, 1, true, &f->error));
    }
    must(f, ig_context_prepared(f->context, &f->error));
    struct ingot_plans_info plans;
    ig_context_plans(f->context, &plans);
    assert_int_equal(plans.captures, 2);
    size_t allocations = f->allocator.calls;
    for (int64_t n = 100; n >= 1; n--) {
        enqueue(f, INGOT_HOST, f->x, n);
        assert_int_equal(count(f, "cuGraphLaunch"), 1);
        assert_int_equal(count(f, "Instantiate") + count(f, "Alloc") + count(f, "cuMemcpy"), 0);
        check(f, n);
    }
    assert_int_equal(f->allocator.calls, allocations);
    ig_context_plans(f->context, &plans);
    assert_int_equal(plans.captures, 2);
    end(f);
}

/* A call of the driver that fails, on whichever thread, fails the preparation and nothing else. */
static void driver_calls_may_fail_in_the_background(void **state) {
    static const char *const calls[] = {"cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags",
                                        "cuGraphUpload"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct fixture *f = begin();
        struct ig_device *device;
        must(f, ig_device_cuda_create_with(f->driver.path, 0, &f->allocator.base, &device, &f->error));
        must(f, ig_context_use_preparer(f->context, device, &f->error));
        f->driver.cuda->fail = calls[i];
        f->driver.cuda->fail_at = 1;
        f->driver.cuda->fail_result = 2;
        const struct ingot_tensor x = {INGOT_F32, 1, {50}, NULL, INGOT_HOST};
        must(f, ig_context_prepare_shapes(f->context, &x, 1, true, &f->error));
        if (ig_context_prepared(f->context, &f->error) == INGOT_OK) fail_msg("%s did not fail", calls[i]);
        must(f, ig_context_prepared(f->context, &f->error)); /* told once */
        f->driver.cuda->fail = NULL;
        f->driver.cuda->fail_at = 0;
        enqueue(f, INGOT_HOST, f->x, 50);
        check(f, 50);
        end(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounded_sizes_are_captured_once),
        cmocka_unit_test(other_memory_costs_a_copy),
        cmocka_unit_test(prepared_sizes_are_captured_in_the_background),
        cmocka_unit_test(driver_calls_may_fail_in_the_background),
    };
    return cmocka_run_group_tests_name("rounded batches on the CUDA device", tests, NULL, NULL);
}
