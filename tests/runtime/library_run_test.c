/* Contexts whose plan calls a library, on stand-ins for the driver and cuBLASLt, and on devices without libraries. */
#include "support/support.h"

#include <string.h>

#include "device/cuda/cuda.h"
#include "device/null/null.h"
#include "fake_cublaslt/fake_cublaslt.h"
#include "support/plan/library_run.h"

enum { DEPTH = 4, COLUMNS = 3, LARGEST = 50 };

/* y = relu(x w + b) for n rows; y has at most rows_of_y rows, if that is not 0. */
static void begin(struct library_run *f, int64_t rows_of_y) {
    uint32_t kernel = library_run_begin(f, (struct ig_library_call){.library = IG_LIBRARY_CUBLASLT});
    struct tiny_plan *t = &f->tiny;
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
    f->inputs[0] = (struct ingot_tensor){INGOT_F32, 2, {0, DEPTH}, f->x, INGOT_HOST};
    f->inputs[1] = (struct ingot_tensor){INGOT_F32, 2, {DEPTH, COLUMNS}, f->w, INGOT_HOST};
    f->inputs[2] = (struct ingot_tensor){INGOT_F32, 1, {COLUMNS}, f->b, INGOT_HOST};
}

static void check(struct library_run *f, int64_t n) {
    const float *y = library_run_result(f);
    for (int64_t i = 0; i < n * COLUMNS; i++) {
        float sum = f->b[i % COLUMNS];
        for (int k = 0; k < DEPTH; k++)
            sum += f->x[i / COLUMNS * DEPTH + k] * f->w[k * COLUMNS + i % COLUMNS];
        assert_true(y[i] == (sum > 0 ? sum : 0));
    }
}

static void runs_any_shape(void **state) {
    static struct library_run f;
    begin(&f, 0);
    library_open_gpu(&f.on, IG_LIBRARY_CUBLASLT);
    assert_int_equal(library_run_open(&f), INGOT_OK);
    static const int64_t sizes[] = {7, 1, LARGEST, 0, 7, 32};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(library_run(&f, sizes[i]), INGOT_OK);
        check(&f, sizes[i]);
    }
    assert_int_equal(f.on.lt->questions, 4); /* once per size; 0 rows need no query */
    library_run_end(&f);
}

static void says_what_library_it_needs(void **state) {
    static struct library_run f;
    begin(&f, 0);
    library_open_gpu(&f.on, IG_LIBRARY_CUBLASLT);
    ig_device_cuda_use_library(f.on.device, IG_LIBRARY_CUBLASLT, "libno-such-cublaslt.so.1");
    assert_int_equal(library_run_open(&f), INGOT_DEVICE);
    assert_non_null(strstr(f.on.error.message, "the engine needs cuBLASLt: cannot load libno-such-cublaslt.so.1 ("));
    library_run_end(&f);
}

/* Whatever the engine's sizes are, the library is never told to write beyond an operand. */
static void refuses_sizes_that_do_not_fit(void **state) {
    static struct library_run f;
    begin(&f, 5);
    library_open_gpu(&f.on, IG_LIBRARY_CUBLASLT);
    assert_int_equal(library_run_open(&f), INGOT_OK);
    assert_int_equal(library_run(&f, 5), INGOT_OK);
    check(&f, 5);
    assert_int_equal(library_run(&f, 6), INGOT_BAD_ENGINE);
    assert_non_null(strstr(f.on.error.message, "a call of cuBLASLt has results that are larger than their operand"));
    assert_int_equal(f.on.lt->products, 1);
    library_run_end(&f);
}

static void other_devices_have_no_libraries(void **state) {
    static struct library_run f;
    begin(&f, 0);
    assert_int_equal(ig_device_cpu_create(1, &f.on.allocator.base, &f.on.device, &f.on.error), INGOT_OK);
    assert_int_equal(library_run_open(&f), INGOT_UNSUPPORTED);
    assert_non_null(strstr(f.on.error.message, "the engine needs cuBLASLt: cuBLASLt is a library for GPUs"));
    library_run_end(&f);
    begin(&f, 0);
    assert_int_equal(ig_device_null_create(&f.on.allocator.base, &f.on.device, &f.on.error), INGOT_OK);
    assert_int_equal(library_run_open(&f), INGOT_OK);
    assert_int_equal(library_run(&f, 2), INGOT_OK);
    assert_non_null(strstr(ig_device_null_record(f.on.device), "need_library cuBLASLt\n"));
    assert_non_null(strstr(ig_device_null_record(f.on.device), "cuBLASLt buffers="));
    library_run_end(&f);
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
