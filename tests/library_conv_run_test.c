/* A context whose plan calls cuDNN for a convolution of any number of images: on stand-ins for the driver and for cuDNN. */
#include "support/support.h"

#include <string.h>

#include "device/cuda/cuda.h"
#include "fake_cudnn/fake_cudnn.h"
#include "runtime/runtime.h"
#include "support/counting_allocator.h"
#include "support/fake_driver.h"
#include "support/tiny_plan.h"

enum { SIZE = 5, CHANNELS = 2, FILTERS = 3, OUT = 3, LARGEST = 20, PIXELS = SIZE * SIZE * CHANNELS };

/* y = relu(x convolved by w, 3 x 3, without padding, + b), f32[n,3,3,3]. */
struct fixture {
    struct tiny_plan tiny;
    struct ig_library_call call;
    struct ig_engine_file file;
    struct counting_allocator allocator;
    struct fake_driver driver;
    struct fake_cudnn *cudnn;
    char path[4096];
    struct ig_device *device;
    struct ig_context *context;
    struct ingot_error error;
    float x[LARGEST * PIXELS], w[FILTERS * 9 * CHANNELS], b[FILTERS];
};

static void make_plan(struct fixture *f) {
    struct tiny_plan *t = &f->tiny;
    tiny_init(t);
    uint32_t kernel = tiny_kernel(t, "convolution", NULL);
    t->kernels[kernel] = (struct ig_plan_kernel){.portable = UINT64_MAX, .name = t->kernels[kernel].name, .library = 1};
    f->call = (struct ig_library_call){.library = IG_LIBRARY_CUDNN,
                                       .operation = IG_LIBRARY_CONVOLUTION,
                                       .a = 0,
                                       .b = 1,
                                       .out = 3,
                                       .addend = IG_LIBRARY_NO_OPERAND,
                                       .bias = 2,
                                       .in_type = INGOT_F32,
                                       .out_type = INGOT_F32,
                                       .rounded = 1,
                                       .activation = IG_LIBRARY_RELU};
    t->plan.calls = &f->call;
    t->plan.n_calls = 1;
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
    f->file = tiny_file(t);
}

static void begin(struct fixture *f, const char *library) {
    memset(f, 0, sizeof *f);
    counting_allocator_init(&f->allocator);
    fake_driver_open(&f->driver);
    f->cudnn = fake_cudnn_open(f->path);
    make_plan(f);
    for (int i = 0; i < LARGEST * PIXELS; i++)
        f->x[i] = (float)(i % 9 - 4);
    for (int i = 0; i < FILTERS * 9 * CHANNELS; i++)
        f->w[i] = (float)(i % 5 - 2);
    for (int i = 0; i < FILTERS; i++)
        f->b[i] = (float)i - 1;
    assert_int_equal(ig_device_cuda_create_with(f->driver.path, 0, &f->allocator.base, &f->device, &f->error),
                     INGOT_OK);
    ig_device_cuda_use_library(f->device, IG_LIBRARY_CUDNN, library ? library : f->path);
}

static enum ingot_status open_context(struct fixture *f) {
    struct ig_context_config config = {
        .allocator = &f->allocator.base, .device = f->device, .max_instances = 4, .max_bytes = SIZE_MAX};
    return ig_context_create(&f->file, &config, &f->context, &f->error);
}

static void end(struct fixture *f) {
    ig_context_destroy(f->context);
    f->device->api->destroy(f->device);
    assert_int_equal(f->allocator.live_count, 0);
    assert_int_equal(f->driver.cuda->live + f->cudnn->live, 0);
    assert_string_equal(f->driver.cuda->misuse, "");
    assert_string_equal(f->cudnn->misuse, "");
}

static enum ingot_status run(struct fixture *f, int64_t n) {
    const struct ingot_tensor inputs[] = {{INGOT_F32, 4, {n, SIZE, SIZE, CHANNELS}, f->x, INGOT_HOST},
                                          {INGOT_F32, 4, {FILTERS, 3, 3, CHANNELS}, f->w, INGOT_HOST},
                                          {INGOT_F32, 1, {FILTERS}, f->b, INGOT_HOST}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(ig_context_set_input(f->context, i, &inputs[i], &f->error), INGOT_OK);
    return ig_context_run(f->context, &f->error);
}

static float expected(const struct fixture *f, int64_t i) {
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
    static struct fixture f;
    static const int64_t counts[] = {7, 1, LARGEST, 0, 7, 3};
    begin(&f, NULL);
    assert_int_equal(open_context(&f), INGOT_OK);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        struct ingot_tensor y;
        assert_int_equal(run(&f, counts[k]), INGOT_OK);
        assert_int_equal(ig_context_output(f.context, 0, &y, &f.error), INGOT_OK);
        for (int64_t i = 0; i < counts[k] * OUT * OUT * FILTERS; i++)
            assert_true(((const float *)y.data)[i] == expected(&f, i));
    }
    assert_int_equal(f.cudnn->questions, 4); /* once for each number; nothing is asked for nothing */
    end(&f);
}

static void says_what_library_it_needs(void **state) {
    static struct fixture f;
    begin(&f, "libno-such-cudnn.so.1");
    assert_int_equal(open_context(&f), INGOT_DEVICE);
    assert_non_null(strstr(f.error.message, "the engine needs cuDNN: cannot load libno-such-cudnn.so.1 ("));
    end(&f);
    begin(&f, NULL);
    f.cudnn->version = 8907;
    assert_int_equal(open_context(&f), INGOT_DEVICE);
    assert_string_equal(f.error.message,
                        "the engine needs cuDNN: the cuDNN that was found is 8.9.7, Ingot needs 9.0 or later");
    end(&f);
}

/* What the library has no way for is said when the shapes are bound. */
static void says_what_the_library_does_not_do(void **state) {
    static struct fixture f;
    begin(&f, NULL);
    assert_int_equal(open_context(&f), INGOT_OK);
    f.cudnn->ways = 0;
    assert_int_equal(run(&f, 2), INGOT_UNSUPPORTED);
    assert_non_null(strstr(f.error.message, "cuDNN 9.19.0 has no way to convolve 2 x 5 x 5 x 2"));
    f.cudnn->ways = 1;
    assert_int_equal(run(&f, 2), INGOT_OK);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolves_any_number_of_images),
        cmocka_unit_test(says_what_library_it_needs),
        cmocka_unit_test(says_what_the_library_does_not_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
