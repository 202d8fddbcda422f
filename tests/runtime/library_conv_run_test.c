/* A context whose plan calls cuDNN for a convolution of any number of images, on stand-ins for the driver and cuDNN. */
#include "support/support.h"

#include <string.h>

#include "device/cuda/cuda.h"
#include "fake_cudnn/fake_cudnn.h"
#include "support/plan/library_run.h"

enum { SIZE = 5, CHANNELS = 2, FILTERS = 3, OUT = 3, LARGEST = 20 };

/* y = relu(conv(x, w) + b), 3 x 3 without padding, f32[n,3,3,3]. */
static void begin(struct library_run *f) {
    const struct ig_library_call call = {
        .library = IG_LIBRARY_CUDNN, .operation = IG_LIBRARY_CONVOLUTION, .rounded = 1};
    uint32_t kernel = library_run_begin(f, call);
    struct tiny_plan *t = &f->tiny;
    ig_slot n = tiny_symbol(t, "n", 0, 0, 0, LARGEST), size = tiny_const(t, SIZE), three = tiny_const(t, 3);
    ig_slot two = tiny_const(t, 2), one = tiny_const(t, 1), none = tiny_const(t, 0);
    tiny_subplan(t);
    uint32_t x = tiny_input(t, "x", INGOT_F32, 4, (ig_slot[]){n, size, size, two});
    uint32_t w = tiny_input(t, "w", INGOT_F32, 4, (ig_slot[]){three, three, three, two});
    uint32_t b = tiny_input(t, "b", INGOT_F32, 1, &three);
    uint32_t y = tiny_output(t, "y", INGOT_F32, 4, (ig_slot[]){n, three, three, three});
    tiny_launch(t, kernel, one, (const uint32_t[]){x, w, b, y}, 4,
                (ig_slot[]){n, two, three, one, size, size, three, three, three, three, one, one, one, one, none, none,
                            none, none},
                IG_LIBRARY_CONV_SIZES);
    f->inputs[0] = (struct ingot_tensor){INGOT_F32, 4, {0, SIZE, SIZE, CHANNELS}, f->x, INGOT_HOST};
    f->inputs[1] = (struct ingot_tensor){INGOT_F32, 4, {FILTERS, 3, 3, CHANNELS}, f->w, INGOT_HOST};
    f->inputs[2] = (struct ingot_tensor){INGOT_F32, 1, {FILTERS}, f->b, INGOT_HOST};
    library_open_gpu(&f->on, IG_LIBRARY_CUDNN);
}

static float expected(const struct library_run *f, int64_t i) {
    int64_t filter = i % FILTERS, pixel = i / FILTERS, image = pixel / OUT / OUT;
    int64_t row = pixel / OUT % OUT, column = pixel % OUT;
    float sum = f->b[filter];
    for (int64_t k = 0; k < 9; k++) {
        int64_t at = ((image * SIZE + row + k / 3) * SIZE + column + k % 3) * CHANNELS;
        for (int64_t c = 0; c < CHANNELS; c++)
            sum += f->x[at + c] * f->w[(filter * 9 + k) * CHANNELS + c];
    }
    return sum > 0 ? sum : 0;
}

static void convolves_any_number_of_images(void **state) {
    static struct library_run f;
    static const int64_t counts[] = {7, 1, LARGEST, 0, 7, 3};
    begin(&f);
    assert_int_equal(library_run_open(&f), INGOT_OK);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        assert_int_equal(library_run(&f, counts[k]), INGOT_OK);
        const float *y = library_run_result(&f);
        for (int64_t i = 0; i < counts[k] * OUT * OUT * FILTERS; i++)
            assert_true(y[i] == expected(&f, i));
    }
    assert_int_equal(f.on.cudnn->questions, 4); /* once per batch size; 0 images need no query */
    library_run_end(&f);
}

static void says_what_library_it_needs(void **state) {
    static struct library_run f;
    begin(&f);
    ig_device_cuda_use_library(f.on.device, IG_LIBRARY_CUDNN, "libno-such-cudnn.so.1");
    assert_int_equal(library_run_open(&f), INGOT_DEVICE);
    assert_non_null(strstr(f.on.error.message, "the engine needs cuDNN: cannot load libno-such-cudnn.so.1 ("));
    library_run_end(&f);
    begin(&f);
    f.on.cudnn->version = 8907;
    assert_int_equal(library_run_open(&f), INGOT_DEVICE);
    assert_string_equal(f.on.error.message,
                        "the engine needs cuDNN: the cuDNN that was found is 8.9.7, Ingot needs 9.0 or later");
    library_run_end(&f);
}

/* A convolution without an algorithm is refused when shapes are bound. */
static void says_what_the_library_does_not_do(void **state) {
    static struct library_run f;
    begin(&f);
    assert_int_equal(library_run_open(&f), INGOT_OK);
    f.on.cudnn->ways = 0;
    assert_int_equal(library_run(&f, 2), INGOT_UNSUPPORTED);
    assert_non_null(strstr(f.on.error.message, "cuDNN 9.19.0 has no way to convolve 2 x 5 x 5 x 2"));
    f.on.cudnn->ways = 1;
    assert_int_equal(library_run(&f, 2), INGOT_OK);
    library_run_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolves_any_number_of_images),
        cmocka_unit_test(says_what_library_it_needs),
        cmocka_unit_test(says_what_the_library_does_not_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
