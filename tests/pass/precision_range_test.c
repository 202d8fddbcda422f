/*
 * Numbers that leave the range of half precision, or are small where that matters: networks with the patterns of trained
 * audio models and their like, in fp16 and bf16, with the kernels of every target against the reference evaluator in f32.
 * Each fails in fp16
 * where all values are narrow, the detector in bf16 too.
 */
#include <math.h>

#include "support/check/kernel_cases.h"

enum { SAMPLES = 64, BINS = 33, BANDS = 8, HIDDEN = 16 };

static ig_value scalar(struct ig_graph *g, double value) {
    return ig_build_scalar(g, INGOT_F32, value);
}

static ig_value with(struct ig_graph *g, enum ig_op op, ig_value x, double value) {
    return ig_map2(g, op, x, scalar(g, value));
}

/* A weight whose element [i][j] is f(i, j). */
static ig_value weight(struct ig_graph *g, const char *name, int64_t rows, int64_t columns,
                       double (*f)(int64_t, int64_t)) {
    float *bytes = ig_alloc(g->job, sizeof(float) * (size_t)(rows * columns) + 64);
    for (int64_t i = 0; i < rows * columns; i++)
        bytes[i] = (float)f(i / columns, i % columns);
    struct ig_data data = {.bytes = bytes, .size = sizeof(float) * (size_t)(rows * columns), .initializer = name};
    return ig_build_constant(g, INGOT_F32, 2, (int64_t[]){rows, columns}, ig_memdup(g->job, &data, sizeof data));
}

static double cosine(int64_t sample, int64_t bin) {
    return cos(2 * M_PI * (double)(sample * bin) / SAMPLES);
}

static double sine(int64_t sample, int64_t bin) {
    return sin(2 * M_PI * (double)(sample * bin) / SAMPLES);
}

/* Overlapping bands of a spectrum. */
static double band(int64_t bin, int64_t number) {
    return fmax(0, 1 - fabs((double)bin - 4.0 * (double)number - 2) / 4);
}

/* A loud tone, exactly in one bin. */
static double tone(int64_t frame, int64_t sample) {
    return sin(2 * M_PI * 5 * (double)sample / SAMPLES);
}

static ig_value product(struct ig_graph *g, ig_value x, int64_t from, int64_t to, uint32_t seed) {
    return ig_build_matmul(g, x, random_constant(g, INGOT_F32, 2, (int64_t[]){from, to}, seed), INGOT_F32);
}

/* The spectrum of frames: its real and imaginary parts. */
static void transform(struct ig_graph *g, ig_value frames, ig_value *out_re, ig_value *out_im) {
    *out_re = ig_build_matmul(g, frames, weight(g, "cosines", SAMPLES, BINS, cosine), INGOT_F32);
    *out_im = ig_build_matmul(g, frames, weight(g, "sines", SAMPLES, BINS, sine), INGOT_F32);
}

static ig_value power(struct ig_graph *g, ig_value re, ig_value im) {
    return ig_map2(g, IG_OP_add, ig_map2(g, IG_OP_mul, re, re), ig_map2(g, IG_OP_mul, im, im));
}

/* Frames of a sound of so large samples. */
static ig_value frames_of(struct ig_graph *g, double volume) {
    ig_value x = input(g, "x", INGOT_F32, 2, (int64_t[]){-2, SAMPLES});
    return with(g, IG_OP_mul, with(g, IG_OP_mul, x, sqrt(volume)), sqrt(volume));
}

/* A front end that divides a spectrum by its magnitude: squares, sums, a root, a reciprocal. */
static void build_phases(struct ig_graph *g, const void *argument) {
    ig_value re, im;
    transform(g, frames_of(g, *(const double *)argument), &re, &im);
    ig_value reciprocal = ig_map2(g, IG_OP_div, scalar(g, 1), ig_map1(g, IG_OP_sqrt, power(g, re, im)));
    /* Where the imaginary part is always zero, the phase is its sign. */
    ig_build_output(g, "phase", product(g, ig_map2(g, IG_OP_mul, re, reciprocal), BINS, 10, 1));
    ig_build_output(g, "turned", product(g, ig_map2(g, IG_OP_mul, im, reciprocal), BINS, 10, 2));
}

/* The same with the parts side by side, reduced over them. */
static void build_stacked_phases(struct ig_graph *g, const void *argument) {
    ig_value parts[2];
    transform(g, frames_of(g, *(const double *)argument), &parts[0], &parts[1]);
    ig_dim dims[] = {ig_type_of(g, parts[0])->dim[0], number(g, BINS), number(g, 1)};
    for (int i = 0; i < 2; i++)
        parts[i] = ig_build_reshape(g, parts[i], dims, 3);
    ig_value x = ig_build_concat(g, parts, 2, 2);
    ig_value sum = ig_build_reduce(g, IG_OP_reduce_sum, ig_map2(g, IG_OP_mul, x, x), (int64_t[]){2}, 1);
    ig_value unit = ig_map2(g, IG_OP_div, x, ig_map1(g, IG_OP_sqrt, sum));
    dims[1] = number(g, 2 * BINS);
    ig_build_output(g, "y", product(g, ig_build_reshape(g, unit, dims, 2), 2 * BINS, 10, 1));
}

/* The energies of bands, whose sums are a product. */
static ig_value bands_of(struct ig_graph *g, ig_value frames) {
    ig_value re, im;
    transform(g, frames, &re, &im);
    return ig_build_matmul(g, power(g, re, im), weight(g, "bands", BINS, BANDS, band), INGOT_F32);
}

/* Loudness beside a frame's: squares that a product sums are as large as squares. */
static void build_loudness(struct ig_graph *g, const void *argument) {
    ig_value energy = bands_of(g, frames_of(g, *(const double *)argument));
    ig_value whole = ig_build_reduce(g, IG_OP_reduce_mean, energy, (int64_t[]){1}, 1);
    ig_build_output(g, "y", product(g, ig_map2(g, IG_OP_div, energy, with(g, IG_OP_add, whole, 0.01)), BANDS, 10, 1));
}

static ig_value recurrence(struct ig_graph *g, ig_value xw, ig_value state) {
    static int64_t kinds[] = {IG_ACT_SIGMOID, IG_ACT_TANH};
    static double zeros[2];
    ig_value r = with(g, IG_OP_mul, random_constant(g, INGOT_F32, 2, (int64_t[]){3 * HIDDEN, HIDDEN}, 21), 0.5);
    ig_value in[] = {xw, r, state};
    struct ig_attr attrs[] = {ig_attr_of_int(0), ig_attr_of_ints(kinds, 2),   ig_attr_of_float(0),
                              ig_attr_of_int(0), ig_attr_of_floats(zeros, 2), ig_attr_of_floats(zeros, 2)};
    return ig_build_node(g, IG_OP_gru, in, 3, 2, attrs, NULL);
}

/* A voice detector: logarithms of bands, of which most are quiet beside a loud tone, a recurrence over time, attention over
 * its states, a probability. */
static void build_detector(struct ig_graph *g, const void *argument) {
    enum { FRAMES = 12 };
    ig_value x = input(g, "x", INGOT_F32, 2, (int64_t[]){FRAMES, SAMPLES});
    ig_value state = input(g, "h", INGOT_F32, 2, (int64_t[]){1, HIDDEN});
    x = ig_map2(g, IG_OP_add, with(g, IG_OP_mul, x, *(const double *)argument), weight(g, "tone", 1, SAMPLES, tone));
    ig_value features = ig_map1(g, IG_OP_log, with(g, IG_OP_add, bands_of(g, x), 1e-6));
    ig_value xw = product(g, features, BANDS, 3 * HIDDEN, 3);
    ig_dim three[] = {number(g, FRAMES), number(g, 1), number(g, 3 * HIDDEN)};
    ig_value y = recurrence(g, ig_build_reshape(g, xw, three, 3), state);
    ig_value states = ig_build_reshape(g, y, (ig_dim[]){number(g, FRAMES), number(g, HIDDEN)}, 2);
    ig_value keys = ig_map1(g, IG_OP_tanh, product(g, states, HIDDEN, HIDDEN, 4));
    ig_value scores = with(g, IG_OP_mul, product(g, keys, HIDDEN, 1, 5), 4);
    const int64_t time[] = {0}, swap[] = {1, 0};
    ig_value e =
        ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_sub, scores, ig_build_reduce(g, IG_OP_reduce_max, scores, time, 1)));
    ig_value share = ig_map2(g, IG_OP_div, e, ig_build_reduce(g, IG_OP_reduce_sum, e, time, 1));
    ig_value gathered = ig_build_matmul(g, ig_build_transpose(g, share, swap), states, INGOT_F32);
    ig_build_output(g, "probability",
                    ig_map1(g, IG_OP_sigmoid, with(g, IG_OP_mul, product(g, gathered, HIDDEN, 1, 6), 2)));
    ig_build_output(g, "features", product(g, with(g, IG_OP_mul, features, 0.1), BANDS, 7, 7));
}

/* Attention without a softmax: what products give is divided by what products give. */
static void build_linear_attention(struct ig_graph *g, const void *argument) {
    ig_value x = input(g, "x", INGOT_F32, 2, (int64_t[]){-2, 24});
    const int64_t swap[] = {1, 0}, rows[] = {0};
    ig_value q = with(g, IG_OP_max, product(g, x, 24, 16, 1), 0), k = with(g, IG_OP_max, product(g, x, 24, 16, 2), 0);
    for (int i = 0; i < 2; i++)
        q = with(g, IG_OP_mul, q, *(const double *)argument);
    ig_value kv = ig_build_matmul(g, ig_build_transpose(g, k, swap), product(g, x, 24, 8, 3), INGOT_F32);
    ig_value sum = ig_build_transpose(g, ig_build_reduce(g, IG_OP_reduce_sum, k, rows, 1), swap);
    ig_value divisor = with(g, IG_OP_add, ig_build_matmul(g, q, sum, INGOT_F32), 1e-9);
    ig_build_output(g, "y", ig_map2(g, IG_OP_div, ig_build_matmul(g, q, kv, INGOT_F32), divisor));
}

/* Samples of 16 bits, as they are. */
static void build_samples(struct ig_graph *g, const void *argument) {
    ig_value x = input(g, "x", INGOT_I16, 2, (int64_t[]){-2, SAMPLES}), re, im;
    x = ig_build_cast(g, ig_map2(g, IG_OP_mul, x, ig_build_scalar_int(g, INGOT_I16, 6000)), INGOT_F32);
    transform(g, x, &re, &im);
    ig_value beneath = ig_map2(g, IG_OP_sub, re, ig_build_reduce(g, IG_OP_reduce_max, re, (int64_t[]){1}, 1));
    ig_build_output(g, "y", product(g, with(g, IG_OP_mul, beneath, 1e-5), BINS, 10, 1));
}

static void test_ranges(void **state) {
    static const double quiet = 0x1p-26, loud = 32000, fair = 1e-3, small = 0x1p-11;
    static const struct {
        unsigned flag;
        double tolerance;
    } types[] = {{GRAPH_FP16, 4e-3}, {GRAPH_BF16, 3e-2}};
    for (int i = 0; i < 2; i++) {
        double tolerance = types[i].tolerance;
        unsigned flag = types[i].flag;
        add_case("phases, quiet", build_phases, &quiet, tolerance, flag);
        add_case("phases, loud", build_phases, &loud, tolerance, flag);
        add_case("stacked phases", build_stacked_phases, &quiet, tolerance, flag);
        add_case("loudness", build_loudness, &loud, tolerance, flag);
        add_case("detector", build_detector, &fair, tolerance, flag);
        add_case("linear attention", build_linear_attention, &small, tolerance, flag);
        add_case("samples", build_samples, NULL, tolerance, flag);
    }
    check_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
