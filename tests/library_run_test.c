/* Contexts whose plan calls a library: on stand-ins for the driver and for cuBLASLt, and on devices without libraries. */
#include "support/support.h"

#include <string.h>

#include "device/cuda/cuda.h"
#include "device/null/null.h"
#include "fake_cublaslt/fake_cublaslt.h"
#include "runtime/runtime.h"
#include "support/counting_allocator.h"
#include "support/fake_driver.h"
#include "support/tiny_plan.h"

enum { DEPTH = 4, COLUMNS = 3, LARGEST = 50 };

/* y = relu(x w + b), f32[n]. */
struct fixture {
    struct tiny_plan tiny;
    struct ig_library_call call;
    struct ig_engine_file file;
    struct counting_allocator allocator;
    struct fake_driver driver;
    struct fake_cublaslt *lt;
    char path[4096];
    struct ig_device *device;
    struct ig_context *context;
    struct ingot_error error;
    float x[LARGEST * DEPTH], w[DEPTH * COLUMNS], b[COLUMNS];
};

static void make_plan(struct fixture *f, int64_t rows_of_y) {
    struct tiny_plan *t = &f->tiny;
    tiny_init(t);
    uint32_t kernel = tiny_kernel(t, "product", NULL);
    t->kernels[kernel] = (struct ig_plan_kernel){.portable = UINT64_MAX, .name = t->kernels[kernel].name, .library = 1};
    f->call = (struct ig_library_call){.library = IG_LIBRARY_CUBLASLT,
                                       .a = 0,
                                       .b = 1,
                                       .out = 3,
                                       .addend = IG_LIBRARY_NO_OPERAND,
                                       .bias = 2,
                                       .in_type = INGOT_F32,
                                       .out_type = INGOT_F32,
                                       .activation = IG_LIBRARY_RELU};
    t->plan.calls = &f->call;
    t->plan.n_calls = 1;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, LARGEST), depth = tiny_const(t, DEPTH), columns = tiny_const(t, COLUMNS);
    ig_slot one = tiny_const(t, 1), zero = tiny_const(t, 0);
    ig_slot rows = rows_of_y ? tiny_op(t, IG_SHAPE_MIN, n, tiny_const(t, rows_of_y)) : n;
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 2, (ig_slot[]){n, depth});
    uint32_t w = tiny_input(t, "w", INGOT_F32, 2, (ig_slot[]){depth, columns});
    uint32_t b = tiny_input(t, "b", INGOT_F32, 1, &columns);
    uint32_t y = tiny_output(t, "y", INGOT_F32, 2, (ig_slot[]){rows, columns});
    tiny_launch(t, kernel, one, (const uint32_t[]){x, w, b, y}, 4,
                (ig_slot[]){one, n, columns, depth, depth, zero, zero, columns, zero, zero}, IG_LIBRARY_SIZES);
    f->file = tiny_file(t);
}

static void begin(struct fixture *f, int64_t rows_of_y) {
    memset(f, 0, sizeof *f);
    counting_allocator_init(&f->allocator);
    fake_driver_open(&f->driver);
    f->lt = fake_cublaslt_open(f->path);
    make_plan(f, rows_of_y);
    for (int i = 0; i < LARGEST * DEPTH; i++)
        f->x[i] = (float)(i % 9 - 4);
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        f->w[i] = (float)(i % 5 - 2);
    for (int i = 0; i < COLUMNS; i++)
        f->b[i] = (float)i - 1;
}

static enum ingot_status open_context(struct fixture *f) {
    struct ig_context_config config = {
        .allocator = &f->allocator.base, .device = f->device, .max_instances = 4, .max_bytes = SIZE_MAX};
    return ig_context_create(&f->file, &config, &f->context, &f->error);
}

static void open_gpu(struct fixture *f, const char *library) {
    assert_int_equal(ig_device_cuda_create_with(f->driver.path, 0, &f->allocator.base, &f->device, &f->error),
                     INGOT_OK);
    ig_device_cuda_use_library(f->device, IG_LIBRARY_CUBLASLT, library);
}

static void end(struct fixture *f) {
    ig_context_destroy(f->context);
    f->device->api->destroy(f->device);
    assert_int_equal(f->allocator.live_count, 0);
    assert_int_equal(f->driver.cuda->live + f->lt->live, 0);
    assert_string_equal(f->driver.cuda->misuse, "");
    assert_string_equal(f->lt->misuse, "");
}

static enum ingot_status run(struct fixture *f, int64_t n) {
    const struct ingot_tensor inputs[] = {{INGOT_F32, 2, {n, DEPTH}, f->x, INGOT_HOST},
                                          {INGOT_F32, 2, {DEPTH, COLUMNS}, f->w, INGOT_HOST},
                                          {INGOT_F32, 1, {COLUMNS}, f->b, INGOT_HOST}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(ig_context_set_input(f->context, i, &inputs[i], &f->error), INGOT_OK);
    return ig_context_run(f->context, &f->error);
}

static void check(struct fixture *f, int64_t n) {
    struct ingot_tensor y;
    assert_int_equal(ig_context_output(f->context, 0, &y, &f->error), INGOT_OK);
    for (int64_t i = 0; i < n * COLUMNS; i++) {
        float sum = f->b[i % COLUMNS];
        for (int k = 0; k < DEPTH; k++)
            sum += f->x[i / COLUMNS * DEPTH + k] * f->w[k * COLUMNS + i % COLUMNS];
        assert_true(((const float *)y.data)[i] == (sum > 0 ? sum : 0));
    }
}

static void runs_any_shape(void **state) {
    static struct fixture f;
    begin(&f, 0);
    open_gpu(&f, f.path);
    assert_int_equal(open_context(&f), INGOT_OK);
    static const int64_t sizes[] = {7, 1, LARGEST, 0, 7, 32};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(run(&f, sizes[i]), INGOT_OK);
        check(&f, sizes[i]);
    }
    assert_int_equal(f.lt->questions, 4); /* once for each size; nothing is asked for nothing */
    end(&f);
}

static void says_what_library_it_needs(void **state) {
    static struct fixture f;
    begin(&f, 0);
    open_gpu(&f, "libno-such-cublaslt.so.1");
    assert_int_equal(open_context(&f), INGOT_DEVICE);
    assert_non_null(strstr(f.error.message, "the engine needs cuBLASLt: cannot load libno-such-cublaslt.so.1 ("));
    end(&f);
}

/* Whatever an engine says, the library is not told to write beyond an operand. */
static void refuses_sizes_that_do_not_fit(void **state) {
    static struct fixture f;
    begin(&f, 5);
    open_gpu(&f, f.path);
    assert_int_equal(open_context(&f), INGOT_OK);
    assert_int_equal(run(&f, 5), INGOT_OK);
    check(&f, 5);
    assert_int_equal(run(&f, 6), INGOT_BAD_ENGINE);
    assert_non_null(strstr(f.error.message, "a call of cuBLASLt has results that are larger than their operand"));
    assert_int_equal(f.lt->products, 1);
    end(&f);
}

static void other_devices_have_no_libraries(void **state) {
    static struct fixture f;
    begin(&f, 0);
    assert_int_equal(ig_device_cpu_create(1, &f.allocator.base, &f.device, &f.error), INGOT_OK);
    assert_int_equal(open_context(&f), INGOT_UNSUPPORTED);
    assert_non_null(strstr(f.error.message, "the engine needs cuBLASLt: cuBLASLt is a library for GPUs"));
    end(&f);
    begin(&f, 0);
    assert_int_equal(ig_device_null_create(&f.allocator.base, &f.device, &f.error), INGOT_OK);
    assert_int_equal(open_context(&f), INGOT_OK);
    assert_int_equal(run(&f, 2), INGOT_OK);
    assert_non_null(strstr(ig_device_null_record(f.device), "need_library cuBLASLt\n"));
    assert_non_null(strstr(ig_device_null_record(f.device), "cuBLASLt buffers="));
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_any_shape),
        cmocka_unit_test(says_what_library_it_needs),
        cmocka_unit_test(refuses_sizes_that_do_not_fit),
        cmocka_unit_test(other_devices_have_no_libraries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
