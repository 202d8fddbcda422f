/* cuBLASLt calls on the CUDA device, on stand-ins for the driver and cuBLASLt. */
#include "support/support.h"

#include <string.h>

#include "base/narrow.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/cuda.h"
#include "fake_cublaslt/fake_cublaslt.h"
#include "ir/eval/eval.h"
#include "support/device/library_fixture.h"

enum { A, B, OUT, ADDEND, BIAS };
enum { ROWS = 3, COLUMNS = 5, DEPTH = 4, BATCH = 2 };

/* out = A B, all dense. */
static void plain_call(struct library_fixture *f) {
    f->call = (struct ig_library_call){.library = IG_LIBRARY_CUBLASLT,
                                       .a = A,
                                       .b = B,
                                       .out = OUT,
                                       .addend = IG_LIBRARY_NO_OPERAND,
                                       .bias = IG_LIBRARY_NO_OPERAND,
                                       .factor = IG_LIBRARY_NO_OPERAND,
                                       .scale = 1,
                                       .a_type = INGOT_F32,
                                       .b_type = INGOT_F32,
                                       .out_type = INGOT_F32};
    static const int64_t sizes[IG_LIBRARY_SIZES] = {BATCH,        ROWS, COLUMNS, DEPTH,           DEPTH,
                                                    ROWS * DEPTH, 0,    COLUMNS, DEPTH * COLUMNS, 0};
    memcpy(f->sizes, sizes, sizeof sizes);
}

static void begin(struct library_fixture *f) {
    library_begin(f, IG_LIBRARY_CUBLASLT, IG_LIBRARY_SIZES);
    plain_call(f);
}

static float expected(const struct library_fixture *f, int64_t batch, int64_t row, int64_t column) {
    const int64_t *z = f->sizes;
    float sum = 0;
    for (int64_t k = 0; k < z[IG_LIBRARY_DEPTH]; k++) {
        int64_t a = f->call.a_across ? k * z[IG_LIBRARY_A_LD] + row : row * z[IG_LIBRARY_A_LD] + k;
        int64_t b = f->call.b_along ? column * z[IG_LIBRARY_B_LD] + k : k * z[IG_LIBRARY_B_LD] + column;
        sum += library_at(f, A, z[IG_LIBRARY_A_OFFSET] + batch * z[IG_LIBRARY_A_STEP] + a) *
               library_at(f, B, z[IG_LIBRARY_B_OFFSET] + batch * z[IG_LIBRARY_B_STEP] + b);
    }
    if (f->call.addend != IG_LIBRARY_NO_OPERAND)
        sum += library_at(f, ADDEND, (batch * z[IG_LIBRARY_ROWS] + row) * z[IG_LIBRARY_COLUMNS] + column);
    if (f->call.bias != IG_LIBRARY_NO_OPERAND) sum += library_at(f, BIAS, column);
    return f->call.activation == IG_LIBRARY_RELU && sum < 0 ? 0 : sum;
}

/* Checks the results, and that the element after them is unchanged. */
static void assert_right(const struct library_fixture *f) {
    const int64_t *z = f->sizes;
    int64_t i = 0;
    for (int64_t b = 0; b < z[IG_LIBRARY_BATCH]; b++)
        for (int64_t r = 0; r < z[IG_LIBRARY_ROWS]; r++)
            for (int64_t c = 0; c < z[IG_LIBRARY_COLUMNS]; c++, i++)
                assert_true(library_at(f, OUT, i) == expected(f, b, r, c));
    assert_true(library_at(f, OUT, i) == library_fill(OUT, i));
}

/* ---- Products ---------------------------------------------------------------------------------------------------------- */

static void multiplies_in_all_layouts(void **state) {
    struct library_fixture f;
    for (int layout = 0; layout < 4; layout++) {
        begin(&f);
        f.call.a_across = layout & 1;
        f.call.b_along = (uint32_t)layout >> 1;
        f.sizes[IG_LIBRARY_A_LD] = f.call.a_across ? ROWS : DEPTH;
        f.sizes[IG_LIBRARY_B_LD] = f.call.b_along ? DEPTH + 1 : COLUMNS + 2; /* not dense */
        f.sizes[IG_LIBRARY_B_STEP] = layout == 3 ? 0 : 40; /* one matrix for the whole batch, or one each */
        f.sizes[IG_LIBRARY_A_OFFSET] = 4;
        assert_int_equal(library_launch(&f), INGOT_OK);
        assert_right(&f);
        library_end(&f);
    }
}

static void finishes_what_follows(void **state) {
    struct library_fixture f;
    begin(&f);
    f.call.bias = BIAS;
    f.call.addend = ADDEND;
    f.call.activation = IG_LIBRARY_RELU;
    f.call.rounded = 1;
    assert_int_equal(library_launch(&f), INGOT_OK);
    assert_right(&f);
    assert_int_equal(f.lt->epilogue, CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_BIAS);
    assert_int_equal(f.lt->compute, CUBLAS_COMPUTE_32F_FAST_TF32);
    library_end(&f);
}

/* Bytes, whose sums in i32 are exact, or floats of 8 bits: lines of 16 along the depth, and 16 columns. */
static void begin_narrow(struct library_fixture *f, enum ingot_dtype a, enum ingot_dtype b, enum ingot_dtype out) {
    enum { NARROW = 16 };
    begin(f);
    f->call.a_type = a, f->call.b_type = b, f->call.out_type = out;
    f->call.b_along = 1;
    static const int64_t sizes[IG_LIBRARY_SIZES] = {BATCH,         ROWS, NARROW, NARROW,          NARROW,
                                                    ROWS * NARROW, 0,    NARROW, NARROW * NARROW, NARROW};
    memcpy(f->sizes, sizes, sizeof sizes);
    for (int k = 0; k < LIBRARY_MOST; k++) {
        /* of floats: 1 or -1, and small ones, whose sums f16 has */
        ((int8_t *)f->operands[A])[k] = (int8_t)(a == INGOT_I8 ? k * 37 : 0x38 + (k % 3 ? 0 : 0x80));
        ((int8_t *)f->operands[B])[k] = (int8_t)(a == INGOT_I8 ? k * 59 - 128 : 0x3c + k % 3);
    }
}

static double narrow_at(const struct library_fixture *f, int operand, uint32_t dtype, int64_t i) {
    const void *data = f->operands[operand];
    bool coded = ig_narrow_is_float((enum ingot_dtype)dtype);
    return coded ? (double)ig_narrow_to_f32((enum ingot_dtype)dtype, ((const uint8_t *)data)[i])
                 : ig_load_f64((enum ingot_dtype)dtype, data, i);
}

static double narrow_sum(const struct library_fixture *f, int64_t i) {
    const int64_t *z = f->sizes;
    int64_t columns = z[IG_LIBRARY_COLUMNS], row = i / columns % ROWS, column = i % columns, batch = i / columns / ROWS;
    int64_t a = batch * z[IG_LIBRARY_A_STEP] + row * z[IG_LIBRARY_A_LD];
    int64_t b = z[IG_LIBRARY_B_OFFSET] + batch * z[IG_LIBRARY_B_STEP] + column * z[IG_LIBRARY_B_LD];
    double sum = 0;
    for (int64_t k = 0; k < z[IG_LIBRARY_DEPTH]; k++)
        sum += narrow_at(f, A, f->call.a_type, a + k) * narrow_at(f, B, f->call.b_type, b + k);
    return sum;
}

static void multiplies_bytes(void **state) {
    struct library_fixture f;
    begin_narrow(&f, INGOT_I8, INGOT_I8, INGOT_I32);
    assert_null(ig_library_call_error(&f.call));
    assert_int_equal(library_launch(&f), INGOT_OK);
    for (int64_t i = 0; i < BATCH * ROWS * f.sizes[IG_LIBRARY_COLUMNS]; i++)
        assert_true(narrow_at(&f, OUT, INGOT_I32, i) == narrow_sum(&f, i));
    assert_int_equal(f.lt->compute, CUBLAS_COMPUTE_32I);
    library_end(&f);
}

static void multiplies_floats_of_8_bits(void **state) {
    struct library_fixture f;
    for (int fast = 0; fast < 2; fast++) {
        begin_narrow(&f, INGOT_F8E4M3FN, fast ? INGOT_F8E5M2 : INGOT_F8E4M3FN, fast ? INGOT_F32 : INGOT_F16);
        f.call.rounded = (uint32_t)fast;
        f.call.scale = 0.5F;
        f.call.factor = BIAS;
        ((float *)f.operands[BIAS])[0] = 0.25F;
        assert_null(ig_library_call_error(&f.call));
        assert_int_equal(library_launch(&f), INGOT_OK);
        for (int64_t i = 0; i < BATCH * ROWS * f.sizes[IG_LIBRARY_COLUMNS]; i++)
            assert_true(narrow_at(&f, OUT, f.call.out_type, i) == narrow_sum(&f, i) / 8);
        assert_int_equal(f.lt->fast, fast);
        assert_int_equal(f.lt->compute, CUBLAS_COMPUTE_32F);
        library_end(&f);
    }
}

static void does_nothing_for_nothing(void **state) {
    struct library_fixture f;
    begin(&f);
    f.sizes[IG_LIBRARY_ROWS] = 0;
    assert_int_equal(library_launch(&f), INGOT_OK);
    assert_right(&f);
    assert_int_equal(f.lt->products + f.lt->questions, 0);
    library_end(&f);
}

/* The library is queried once per product, and again when addresses are less aligned. */
static void asks_once(void **state) {
    struct library_fixture f;
    begin(&f);
    f.call.choice = 1;
    for (int i = 0; i < 3; i++)
        assert_int_equal(library_launch(&f), INGOT_OK);
    assert_int_equal(f.lt->questions, 1);
    assert_int_equal(f.lt->alignment, 16);
    assert_int_equal(f.lt->way, 1);
    f.call.choice = 7; /* beyond the last, so the last */
    f.operands[A] = (float *)f.operands[A] + 1;
    assert_int_equal(library_launch(&f), INGOT_OK);
    assert_right(&f);
    f.operands[A] = (float *)f.operands[A] - 1;
    assert_int_equal(f.lt->questions, 2);
    assert_int_equal(f.lt->alignment, 4);
    assert_int_equal(f.lt->way, 2);
    library_end(&f);
}

/* ---- Lists ------------------------------------------------------------------------------------------------------------- */

static struct ig_list *record(struct library_fixture *f) {
    struct ig_list *list = NULL;
    struct ig_launch l = library_launch_of(f);
    assert_int_equal(f->api->list_begin(f->device, f->stream, &f->error), INGOT_OK);
    assert_int_equal(f->api->launch(f->device, f->stream, &l, &f->error), INGOT_OK);
    assert_int_equal(f->api->copy(f->device, f->stream, f->operands[ADDEND], f->operands[OUT], 4, &f->error), INGOT_OK);
    if (f->api->list_end(f->device, f->stream, &list, &f->error)) return NULL;
    if (f->api->list_ready(f->device, f->stream, list, &f->error) == INGOT_OK) return list;
    f->api->list_destroy(f->device, list);
    return NULL;
}

static enum ingot_status replay(struct library_fixture *f, struct ig_list *list) {
    return f->api->list_launch(f->device, f->stream, list, &f->error);
}

static void runs_in_lists(void **state) {
    struct library_fixture f;
    begin(&f);
    f.call.bias = BIAS;
    struct ig_list *list = record(&f);
    assert_non_null(list);
    assert_int_equal(f.lt->products, 0);
    uint64_t calls = ig_device_cuda_calls(f.device);
    assert_int_equal(replay(&f, list), INGOT_OK);
    assert_int_equal(ig_device_cuda_calls(f.device) - calls, 3); /* push, launch, pop */
    assert_right(&f);
    assert_true(library_at(&f, ADDEND, 0) == library_at(&f, OUT, 0));
    assert_int_equal(f.driver.cuda->edges, 1);
    f.api->list_destroy(f.device, list);
    library_end(&f);
}

static void follows_addresses(void **state) {
    struct library_fixture f;
    begin(&f);
    struct ig_list *list = record(&f);
    f.api->list_patch(f.device, list, 0, A, f.operands[BIAS]);
    void *a = f.operands[A];
    f.operands[A] = f.operands[BIAS];
    assert_int_equal(replay(&f, list), INGOT_OK);
    assert_right(&f);
    assert_int_equal(f.lt->questions, 1);
    /* A less aligned address, and an algorithm that needs more workspace: a new graph. */
    f.lt->workspace = 1 << 20;
    f.operands[A] = (float *)a + 1;
    f.api->list_patch(f.device, list, 0, A, f.operands[A]);
    assert_int_equal(replay(&f, list), INGOT_OK);
    assert_right(&f);
    assert_int_equal(f.lt->questions, 2);
    /* Another stream has its own workspace. */
    struct ig_stream *other;
    assert_int_equal(f.api->stream_create(f.device, &other, &f.error), INGOT_OK);
    assert_int_equal(f.api->list_launch(f.device, other, list, &f.error), INGOT_OK);
    assert_right(&f);
    f.api->stream_destroy(f.device, other);
    f.operands[A] = a;
    f.api->list_destroy(f.device, list);
    library_end(&f);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------------- */

static void says_what_library_it_looked_for(void **state) {
    struct library_fixture f;
    begin(&f);
    ig_device_cuda_use_library(f.device, IG_LIBRARY_CUBLASLT, "libno-such-cublaslt.so.1");
    assert_int_equal(f.api->need_library(f.device, IG_LIBRARY_CUBLASLT, &f.error), INGOT_DEVICE);
    assert_non_null(strstr(f.error.message, "cannot load libno-such-cublaslt.so.1 ("));
    assert_int_equal(library_launch(&f), INGOT_DEVICE);
    ig_device_cuda_use_library(f.device, IG_LIBRARY_CUBLASLT, "libm.so.6");
    assert_int_equal(library_launch(&f), INGOT_DEVICE);
    assert_non_null(strstr(f.error.message, "the cuBLASLt that was found has no cublasLtCreate"));
    assert_int_equal(f.api->need_library(f.device, IG_LIBRARY_COUNT, &f.error), INGOT_UNSUPPORTED);
    library_end(&f);
}

static void refuses_what_the_library_does_not_do(void **state) {
    struct library_fixture f;
    for (int i = 0; i < 2; i++) {
        begin(&f);
        f.lt->ways = i ? 0 : -CUBLAS_STATUS_NOT_SUPPORTED;
        assert_int_equal(library_launch(&f), INGOT_UNSUPPORTED);
        assert_string_equal(f.error.message, "cuBLASLt has no way to multiply 2 x 3 x 5 x 4 (f32)");
        assert_null(record(&f));
        assert_int_equal(f.error.status, INGOT_UNSUPPORTED);
        library_end(&f);
    }
}

/* Whichever call of the library or the driver fails: the error is reported and nothing leaks. */
static void gives_everything_back(void **state) {
    struct library_fixture f;
    for (int which = 0; which < 2; which++) {
        bool failed = true;
        for (uint64_t n = 1; failed; n++) {
            begin(&f);
            f.call.bias = BIAS;
            if (which) {
                f.driver.cuda->fail_result = 700;
                f.driver.cuda->fail_at = n;
            } else {
                f.lt->fail_status = CUBLAS_STATUS_ALLOC_FAILED;
                f.lt->fail_at = n;
            }
            struct ig_list *list = NULL;
            struct ig_launch l = library_launch_of(&f);
            struct ingot_error ignored;
            enum ingot_status status = f.api->list_begin(f.device, f.stream, &f.error);
            if (status == INGOT_OK) status = f.api->launch(f.device, f.stream, &l, &f.error);
            bool ended = f.api->list_end(f.device, f.stream, &list, status ? &ignored : &f.error) == INGOT_OK;
            if (status == INGOT_OK && !ended) status = f.error.status;
            if (ended && status == INGOT_OK) status = replay(&f, list);
            if (ended && status == INGOT_OK) status = f.api->list_ready(f.device, f.stream, list, &f.error);
            if (ended && status == INGOT_OK) status = replay(&f, list);
            failed = which ? f.driver.cuda->fail_at == 0 : f.lt->fail_at == 0;
            if (failed && !which) assert_int_equal(status, INGOT_OUT_OF_MEMORY);
            if (!failed) assert_int_equal(status, INGOT_OK);
            f.driver.cuda->fail_at = f.lt->fail_at = 0;
            if (ended) f.api->list_destroy(f.device, list);
            library_end(&f);
            assert_true(n < 200);
        }
    }
}

/* ---- Validation of call records ---------------------------------------------------------------------------------------- */

static void checks_descriptions(void **state) {
    struct library_fixture f = {0};
    plain_call(&f);
    const struct ig_library_call good = f.call;
    assert_null(ig_library_call_error(&good));
    assert_null(ig_library_use_error(&good, 3, IG_LIBRARY_SIZES));
    assert_non_null(ig_library_use_error(&good, 2, IG_LIBRARY_SIZES));
    assert_non_null(ig_library_use_error(&good, 3, IG_LIBRARY_SIZES - 1));
    struct ig_library_call bad[] = {good, good, good, good, good, good, good, good};
    bad[0].library = IG_LIBRARY_COUNT;
    bad[1].choice = IG_LIBRARY_MOST_CHOICES;
    bad[2].a_type = bad[2].b_type = INGOT_F64;
    bad[3].out_type = INGOT_F16;
    bad[4].rounded = 2;
    bad[5].a_across = 2;
    bad[6].activation = IG_LIBRARY_ACTIVATION_COUNT;
    bad[7].a_type = bad[7].b_type = INGOT_F16, bad[7].rounded = 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_non_null(ig_library_call_error(&bad[i]));
    bad[0] = good;
    bad[0].bias = 3;
    assert_non_null(ig_library_use_error(&bad[0], 3, IG_LIBRARY_SIZES));
    bad[0] = good;
    bad[0].factor = BIAS;
    assert_non_null(ig_library_call_error(&bad[0]));
    bad[0].a_type = bad[0].b_type = INGOT_F8E4M3FN, bad[0].b_along = 1;
    assert_null(ig_library_call_error(&bad[0]));
    assert_non_null(ig_library_use_error(&bad[0], BIAS, IG_LIBRARY_SIZES));
    const size_t bytes[LIBRARY_OPERANDS] = {4096, 4096, 4096, 4096, 3};
    f.sizes[IG_LIBRARY_B_LD] = DEPTH;
    assert_string_equal(ig_library_sizes_error(&bad[0], f.sizes, bytes), "a factor that is not there");
}

/* Of the types of 8 bits. */
static void checks_narrow_descriptions(void **state) {
    struct library_fixture f = {0};
    plain_call(&f);
    struct ig_library_call bytes = f.call, floats = f.call;
    bytes.a_type = bytes.b_type = INGOT_I8, bytes.out_type = INGOT_I32, bytes.b_along = 1;
    floats.a_type = floats.b_type = INGOT_F8E4M3FN, floats.out_type = INGOT_F16, floats.b_along = 1;
    assert_null(ig_library_call_error(&bytes));
    assert_null(ig_library_call_error(&floats));
    enum { EACH = 9 };
    struct ig_library_call bad[2 * EACH];
    for (int i = 0; i < EACH; i++)
        bad[i] = bytes, bad[EACH + i] = floats;
    bad[0].b_type = INGOT_U8;
    bad[1].out_type = INGOT_F32;
    bad[2].b_along = 0;
    bad[3].a_across = 1;
    bad[4].bias = BIAS;
    bad[5].addend = ADDEND;
    bad[6].scale = 0.5F;
    bad[7].activation = IG_LIBRARY_RELU;
    bad[8].rounded = 1;
    bad[9].b_type = INGOT_F16;
    bad[10].a_type = bad[10].b_type = INGOT_F8E5M2;
    bad[11].out_type = INGOT_F8E4M3FN;
    bad[12].b_along = 0;
    bad[13].a_across = 1;
    bad[14].bias = BIAS, bad[14].out_type = INGOT_F32;
    bad[15].library = IG_LIBRARY_CUDNN, bad[15].operation = IG_LIBRARY_CONVOLUTION;
    bad[16].b_type = INGOT_F8E4M3FNUZ;
    bad[17].rounded = 2;
    for (int i = 0; i < 2 * EACH; i++)
        assert_non_null(ig_library_call_error(&bad[i]));
}

static void checks_sizes(void **state) {
    struct library_fixture f = {0};
    plain_call(&f);
    f.call.bias = BIAS;
    f.call.addend = ADDEND;
    const size_t exact[LIBRARY_OPERANDS] = {4 * BATCH * ROWS * DEPTH, 4 * BATCH * DEPTH * COLUMNS,
                                            4 * BATCH * ROWS * COLUMNS, 4 * BATCH * ROWS * COLUMNS, 4 * COLUMNS};
    assert_null(ig_library_sizes_error(&f.call, f.sizes, exact));
    for (int i = 0; i < LIBRARY_OPERANDS; i++) {
        size_t less[LIBRARY_OPERANDS];
        memcpy(less, exact, sizeof less);
        less[i] -= 4;
        assert_non_null(ig_library_sizes_error(&f.call, f.sizes, less));
    }
    static const int64_t hostile[] = {-1, INT64_MIN, INT64_MAX, INT32_MAX, (int64_t)INT32_MAX + 1, 1 << 20};
    const size_t most[LIBRARY_OPERANDS] = {4096, 4096, 4096, 4096, 4096};
    for (int i = 0; i < IG_LIBRARY_SIZES; i++) {
        for (size_t k = 0; k < sizeof hostile / sizeof *hostile; k++) {
            plain_call(&f);
            f.sizes[i] = hostile[k];
            assert_non_null(ig_library_sizes_error(&f.call, f.sizes, most));
        }
    }
    plain_call(&f);
    f.sizes[IG_LIBRARY_DEPTH] = 0;
    assert_non_null(ig_library_sizes_error(&f.call, f.sizes, most));
    f.sizes[IG_LIBRARY_BATCH] = 0;
    assert_null(ig_library_sizes_error(&f.call, f.sizes, most));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multiplies_in_all_layouts),
        cmocka_unit_test(finishes_what_follows),
        cmocka_unit_test(multiplies_bytes),
        cmocka_unit_test(multiplies_floats_of_8_bits),
        cmocka_unit_test(does_nothing_for_nothing),
        cmocka_unit_test(asks_once),
        cmocka_unit_test(runs_in_lists),
        cmocka_unit_test(follows_addresses),
        cmocka_unit_test(says_what_library_it_looked_for),
        cmocka_unit_test(refuses_what_the_library_does_not_do),
        cmocka_unit_test(gives_everything_back),
        cmocka_unit_test(checks_descriptions),
        cmocka_unit_test(checks_narrow_descriptions),
        cmocka_unit_test(checks_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
