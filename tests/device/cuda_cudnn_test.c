/* cuDNN calls on the CUDA device, on stand-ins for the driver and cuDNN. */
#include "support/support.h"

#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cudnn.h"
#include "fake_cudnn/fake_cudnn.h"
#include "support/device/library_fixture.h"

enum { X, W, OUT, ADDEND, BIAS };

/* 2 images of 5 x 6 pixels and 4 channels, 6 filters of 3 x 2, asymmetric padding. */
static void plain_call(struct library_fixture *f) {
    f->call = (struct ig_library_call){.library = IG_LIBRARY_CUDNN,
                                       .operation = IG_LIBRARY_CONVOLUTION,
                                       .a = X,
                                       .b = W,
                                       .out = OUT,
                                       .addend = IG_LIBRARY_NO_OPERAND,
                                       .bias = IG_LIBRARY_NO_OPERAND,
                                       .factor = IG_LIBRARY_NO_OPERAND,
                                       .scale = 1,
                                       .a_type = INGOT_F32,
                                       .b_type = INGOT_F32,
                                       .out_type = INGOT_F32,
                                       .rounded = 1};
    static const int64_t sizes[] = {2, 4, 6, 1, 5, 6, 4, 6, 3, 2, 1, 1, 1, 1, 1, 0, 0, 1};
    memcpy(f->sizes, sizes, sizeof f->sizes);
}

static void begin(struct library_fixture *f) {
    library_begin(f, IG_LIBRARY_CUDNN, IG_LIBRARY_CONV_SIZES);
    plain_call(f);
}

/* The product of one pixel and one position of the filter, summed over the filter's group of channels. */
static float under(const struct library_fixture *f, int64_t image, int64_t y, int64_t x, int64_t filter,
                   int64_t position) {
    const int64_t *z = f->sizes;
    int64_t channels = z[IG_LIBRARY_CHANNELS], share = channels / z[IG_LIBRARY_GROUPS];
    int64_t first = filter / (z[IG_LIBRARY_FILTERS] / z[IG_LIBRARY_GROUPS]) * share;
    float sum = 0;
    if (y < 0 || y >= z[IG_LIBRARY_IN] || x < 0 || x >= z[IG_LIBRARY_IN + 1]) return 0;
    for (int64_t c = 0; c < share; c++) {
        int64_t pixel = (image * z[IG_LIBRARY_IN] + y) * z[IG_LIBRARY_IN + 1] + x;
        int64_t weight = filter * z[IG_LIBRARY_KERNEL] * z[IG_LIBRARY_KERNEL + 1] + position;
        sum += library_at(f, X, pixel * channels + first + c) * library_at(f, W, weight * share + c);
    }
    return sum;
}

static float expected(const struct library_fixture *f, int64_t i) {
    const int64_t *z = f->sizes, *stride = z + IG_LIBRARY_STRIDE, *dilation = z + IG_LIBRARY_DILATION;
    const int64_t *before = z + IG_LIBRARY_BEFORE, *kernel = z + IG_LIBRARY_KERNEL, *out = z + IG_LIBRARY_OUT;
    int64_t filters = z[IG_LIBRARY_FILTERS], filter = i % filters, pixel = i / filters;
    float sum = 0;
    for (int64_t p = 0; p < kernel[0] * kernel[1]; p++) {
        int64_t y = pixel / out[1] % out[0] * stride[0] - before[0] + p / kernel[1] * dilation[0];
        int64_t x = pixel % out[1] * stride[1] - before[1] + p % kernel[1] * dilation[1];
        sum += under(f, pixel / out[1] / out[0], y, x, filter, p);
    }
    if (f->call.addend != IG_LIBRARY_NO_OPERAND) sum += library_at(f, ADDEND, i);
    if (f->call.bias != IG_LIBRARY_NO_OPERAND) sum += library_at(f, BIAS, filter);
    return f->call.activation && sum < 0 ? 0 : sum;
}

/* Checks the results, and that the element after them is unchanged. */
static void assert_right(const struct library_fixture *f) {
    const int64_t *z = f->sizes;
    int64_t count = z[IG_LIBRARY_IMAGES] * z[IG_LIBRARY_OUT] * z[IG_LIBRARY_OUT + 1] * z[IG_LIBRARY_FILTERS];
    for (int64_t i = 0; i < count; i++)
        assert_true(library_at(f, OUT, i) == expected(f, i));
    assert_true(library_at(f, OUT, count) == library_fill(OUT, count));
}

/* ---- Convolutions ------------------------------------------------------------------------------------------------------ */

static void convolves(void **state) {
    static const int64_t sizes[][IG_LIBRARY_CONV_SIZES] = {
        {2, 4, 6, 1, 5, 6, 4, 6, 3, 2, 1, 1, 1, 1, 1, 0, 0, 1}, /* padding on two sides */
        {1, 4, 6, 2, 7, 8, 3, 2, 2, 3, 2, 3, 2, 2, 0, 1, 0, 0}, /* strides, dilations and groups */
        {3, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}, /* one pixel */
        {1, 2, 3, 1, 1, 9, 1, 4, 1, 3, 1, 2, 1, 1, 0, 0, 0, 0}, /* one axis */
    };
    struct library_fixture f;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        begin(&f);
        memcpy(f.sizes, sizes[i], sizeof f.sizes);
        assert_int_equal(library_launch(&f), INGOT_OK);
        assert_right(&f);
        library_end(&f);
    }
}

static void finishes_what_follows(void **state) {
    struct library_fixture f;
    for (int i = 0; i < 8; i++) {
        begin(&f);
        if (i & 1) f.call.bias = BIAS;
        if (i & 2) f.call.addend = ADDEND;
        if (i & 4) f.call.activation = IG_LIBRARY_RELU;
        assert_int_equal(library_launch(&f), INGOT_OK);
        assert_right(&f);
        library_end(&f);
    }
}

static void does_nothing_for_nothing(void **state) {
    struct library_fixture f;
    begin(&f);
    f.sizes[IG_LIBRARY_IMAGES] = 0;
    assert_int_equal(library_launch(&f), INGOT_OK);
    assert_right(&f);
    assert_int_equal(f.cudnn->convolutions + f.cudnn->questions, 0);
    library_end(&f);
}

/* ---- Choosing an algorithm --------------------------------------------------------------------------------------------- */

/* The library is queried once per convolution, and again when addresses are less aligned. */
static void asks_once(void **state) {
    struct library_fixture f;
    begin(&f);
    f.call.choice = 1;
    for (int i = 0; i < 3; i++)
        assert_int_equal(library_launch(&f), INGOT_OK);
    assert_int_equal(f.cudnn->questions, 1);
    assert_int_equal(f.cudnn->alignment, 16);
    assert_int_equal(f.cudnn->way, 1);
    f.call.choice = 7; /* beyond the last, so the last */
    f.operands[X] = (float *)f.operands[X] + 1;
    assert_int_equal(library_launch(&f), INGOT_OK);
    assert_right(&f);
    f.operands[X] = (float *)f.operands[X] - 1;
    assert_int_equal(f.cudnn->questions, 2);
    assert_int_equal(f.cudnn->alignment, 4);
    assert_int_equal(f.cudnn->way, 2);
    library_end(&f);
}

/* The configuration that is executed for a choice; -1: refused. */
static int way_of(uint32_t choice, const struct fake_cudnn *library, bool rounded) {
    struct library_fixture f;
    begin(&f);
    *f.cudnn = *library;
    f.call.choice = choice;
    f.call.rounded = rounded;
    int way = library_launch(&f) == INGOT_OK ? f.cudnn->way : -1;
    if (way >= 0) assert_right(&f);
    if (way < 0) assert_int_equal(f.error.status, INGOT_UNSUPPORTED);
    library_end(&f);
    return way;
}

static void passes_over_what_is_impossible(void **state) {
    struct fake_cudnn library = FAKE_CUDNN;
    library.ways = library.tensor_cores = 4;
    library.impossible = 1 << 1 | 1 << 3;
    assert_int_equal(way_of(0, &library, true), 0);
    assert_int_equal(way_of(1, &library, true), 2); /* the next one */
    assert_int_equal(way_of(3, &library, true), 2); /* the nearest one before it */
    library.impossible = 0xf;
    assert_int_equal(way_of(0, &library, true), -1);
    library.impossible = 0;
    library.workspace = (int64_t)1 << 40;
    assert_int_equal(way_of(0, &library, true), -1);
}

/* Exact f32 convolutions do not use tensor cores. No convolution uses a configuration that accumulates in halves or in
 * no fixed order, or that is compiled at run time. */
static void takes_what_is_exact_enough(void **state) {
    struct fake_cudnn library = FAKE_CUDNN;
    library.tensor_cores = 2;
    assert_int_equal(way_of(0, &library, true), 0);
    assert_int_equal(way_of(0, &library, false), 2);
    library.compiled = 1;
    assert_int_equal(way_of(0, &library, true), 1);
    library.compiled = 0;
    for (int note = 0; note < 10; note++) {
        bool is_welcome = note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                          note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
                          note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
        library.noted = 0;
        library.note = note;
        assert_int_equal(way_of(0, &library, true), is_welcome ? 0 : 1);
    }
    library.tensor_cores = 3;
    assert_int_equal(way_of(0, &library, false), -1);
}

/* ---- Lists ------------------------------------------------------------------------------------------------------------- */

static void runs_in_lists(void **state) {
    struct library_fixture f;
    struct ig_list *list;
    begin(&f);
    f.call.bias = BIAS;
    struct ig_launch l = library_launch_of(&f);
    assert_int_equal(f.api->list_begin(f.device, f.stream, &f.error), INGOT_OK);
    assert_int_equal(f.api->launch(f.device, f.stream, &l, &f.error), INGOT_OK);
    assert_int_equal(f.api->list_end(f.device, f.stream, &list, &f.error), INGOT_OK);
    assert_int_equal(f.api->list_ready(f.device, f.stream, list, &f.error), INGOT_OK);
    assert_int_equal(f.cudnn->convolutions, 0);
    uint64_t calls = ig_device_cuda_calls(f.device);
    assert_int_equal(f.api->list_launch(f.device, f.stream, list, &f.error), INGOT_OK);
    assert_int_equal(ig_device_cuda_calls(f.device) - calls, 3); /* push, launch, pop */
    assert_right(&f);
    /* Another address, the same algorithm. */
    void *x = f.operands[X];
    f.operands[X] = f.operands[ADDEND];
    f.api->list_patch(f.device, list, 0, X, f.operands[X]);
    assert_int_equal(f.api->list_launch(f.device, f.stream, list, &f.error), INGOT_OK);
    assert_right(&f);
    f.operands[X] = x;
    assert_int_equal(f.cudnn->questions, 1);
    /* Without a list. */
    assert_int_equal(library_launch(&f), INGOT_OK);
    assert_right(&f);
    assert_int_equal(f.cudnn->convolutions, 3);
    f.api->list_destroy(f.device, list);
    library_end(&f);
}

/* ---- Failures ---------------------------------------------------------------------------------------------------------- */

static void says_what_library_it_looked_for(void **state) {
    struct library_fixture f;
    begin(&f);
    ig_device_cuda_use_library(f.device, IG_LIBRARY_CUDNN, "libno-such-cudnn.so.1");
    assert_int_equal(f.api->need_library(f.device, IG_LIBRARY_CUDNN, &f.error), INGOT_DEVICE);
    assert_non_null(strstr(f.error.message, "cannot load libno-such-cudnn.so.1 ("));
    ig_device_cuda_use_library(f.device, IG_LIBRARY_CUDNN, "libm.so.6");
    assert_int_equal(library_launch(&f), INGOT_DEVICE);
    assert_string_equal(f.error.message, "the cuDNN that was found tells neither its version nor its errors");
    ig_device_cuda_use_library(f.device, IG_LIBRARY_CUDNN, f.path);
    f.cudnn->version = 8907;
    assert_int_equal(library_launch(&f), INGOT_DEVICE);
    assert_string_equal(f.error.message, "the cuDNN that was found is 8.9.7, Ingot needs 9.0 or later");
    library_end(&f);
}

static void refuses_what_the_library_does_not_do(void **state) {
    struct library_fixture f;
    for (int i = 0; i < 2; i++) {
        begin(&f);
        f.cudnn->ways = i ? 0 : -CUDNN_STATUS_NOT_SUPPORTED;
        assert_int_equal(library_launch(&f), INGOT_UNSUPPORTED);
        assert_string_equal(f.error.message, "cuDNN 9.19.0 has no way to convolve 2 x 5 x 6 x 4 by 6 filters of 3 x 2 "
                                             "in 1 group, and what follows (f32)");
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
            f.call.activation = IG_LIBRARY_RELU;
            if (which) {
                f.driver.cuda->fail_result = 700;
                f.driver.cuda->fail_at = n;
            } else {
                f.cudnn->fail_status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
                f.cudnn->fail_at = n;
            }
            enum ingot_status status = library_launch(&f);
            failed = which ? f.driver.cuda->fail_at == 0 : f.cudnn->fail_at == 0;
            if (failed && !which) assert_int_equal(status, INGOT_OUT_OF_MEMORY);
            if (!failed) assert_right(&f);
            f.driver.cuda->fail_at = f.cudnn->fail_at = 0;
            library_end(&f);
            assert_true(n < 400);
        }
    }
}

/* ---- Validation of call records ---------------------------------------------------------------------------------------- */

static void checks_descriptions(void **state) {
    struct library_fixture f = {0};
    plain_call(&f);
    const struct ig_library_call good = f.call;
    assert_null(ig_library_call_error(&good));
    assert_null(ig_library_use_error(&good, 3, IG_LIBRARY_CONV_SIZES));
    assert_non_null(ig_library_use_error(&good, 3, IG_LIBRARY_SIZES));
    struct ig_library_call bad[] = {good, good, good, good, good};
    bad[0].library = IG_LIBRARY_CUBLASLT;
    bad[1].operation = IG_LIBRARY_PRODUCT;
    bad[2].a_across = 1;
    bad[3].b_along = 1;
    bad[4].activation = IG_LIBRARY_ACTIVATION_COUNT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_non_null(ig_library_call_error(&bad[i]));
    bad[0].operation = IG_LIBRARY_PRODUCT;
    bad[0].activation = IG_LIBRARY_GELU;
    assert_null(ig_library_call_error(&bad[0]));
    bad[0] = good;
    bad[0].activation = IG_LIBRARY_GELU; /* not supported by cuDNN */
    assert_non_null(ig_library_call_error(&bad[0]));
}

static void checks_sizes(void **state) {
    struct library_fixture f = {0};
    plain_call(&f);
    f.call.bias = BIAS;
    f.call.addend = ADDEND;
    const size_t exact[LIBRARY_OPERANDS] = {4 * 2 * 5 * 6 * 4, 4 * 6 * 3 * 2 * 4, 4 * 2 * 4 * 6 * 6, 4 * 2 * 4 * 6 * 6,
                                            4 * 6};
    assert_null(ig_library_sizes_error(&f.call, f.sizes, exact));
    for (int i = 0; i < LIBRARY_OPERANDS; i++) {
        size_t less[LIBRARY_OPERANDS];
        memcpy(less, exact, sizeof less);
        less[i] -= 4;
        assert_non_null(ig_library_sizes_error(&f.call, f.sizes, less));
    }
    static const int64_t hostile[] = {-1, INT64_MIN, INT64_MAX, INT32_MAX, (int64_t)INT32_MAX + 1, 1 << 20};
    for (int i = 0; i < IG_LIBRARY_CONV_SIZES; i++) {
        for (size_t k = 0; k < sizeof hostile / sizeof *hostile; k++) {
            f.sizes[i] = hostile[k];
            assert_non_null(ig_library_sizes_error(&f.call, f.sizes, exact));
            plain_call(&f);
        }
        if (i == IG_LIBRARY_AFTER || i == IG_LIBRARY_BEFORE + 1) continue; /* already 0 */
        f.sizes[i] = 0;
        bool is_nothing =
            i == IG_LIBRARY_IMAGES || i == IG_LIBRARY_FILTERS || i == IG_LIBRARY_OUT || i == IG_LIBRARY_OUT + 1;
        assert_int_equal(ig_library_sizes_error(&f.call, f.sizes, exact) == NULL, is_nothing);
        plain_call(&f);
    }
    f.sizes[IG_LIBRARY_GROUPS] = 4; /* divides the channels but not the filters */
    assert_non_null(ig_library_sizes_error(&f.call, f.sizes, exact));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolves),
        cmocka_unit_test(finishes_what_follows),
        cmocka_unit_test(does_nothing_for_nothing),
        cmocka_unit_test(asks_once),
        cmocka_unit_test(passes_over_what_is_impossible),
        cmocka_unit_test(takes_what_is_exact_enough),
        cmocka_unit_test(runs_in_lists),
        cmocka_unit_test(says_what_library_it_looked_for),
        cmocka_unit_test(refuses_what_the_library_does_not_do),
        cmocka_unit_test(gives_everything_back),
        cmocka_unit_test(checks_descriptions),
        cmocka_unit_test(checks_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
