/*
 * Quantisation as kernels for GPUs compute it (codegen/cuda/quantize.c), without divisions and conversions: the evaluator's bytes,
 * bit by bit, for numbers at ties and beside them, NaN, infinities and what is beyond the type.
 */
#include <math.h>
#include <string.h>

#include "support/check/kernel_cases.h"

/* ---- Quotients ---- */

static const float divisors[] = {3.0f,           0.1f,
                                 0.0745706335f,  1.99999988f,
                                 1.00000012f,    0x1.fffffep-40f,
                                 0x1.8p60f,      0x1.000002p-63f,
                                 0x1.6a09e6p20f, 7.0f,
                                 0x1.2492p-9f,   0.6f,
                                 1e-5f,          0.25f};
enum { DIVISORS = sizeof divisors / sizeof *divisors };

static float corrected(float q, float x, float by, float inverse) {
    return fmaf(fmaf(-by, q, x), inverse, q);
}

/* All significands: after one correction where the condition of quantize.c holds, after two always. */
static void test_quotients(void **state) {
    (void)state;
    int once = 0;
    for (int d = 0; d < DIVISORS; d++) {
        float by = divisors[d], inverse = 1 / by;
        bool suffices = fabsf(fmaf(by, inverse, -1)) <= 0x1p-25f;
        once += suffices;
        for (int i = 0; i < 1 << 23; i++) {
            float x = 1 + (float)i * 0x1p-23f, want = x / by, q = corrected(x * inverse, x, by, inverse);
            if (!suffices) q = corrected(q, x, by, inverse);
            if (q != want) fail_msg("%a / %a is %a, not %a", (double)x, (double)by, (double)want, (double)q);
        }
    }
    assert_in_range(once, 4, DIVISORS - 2);
}

/* ---- Rounding ---- */

static float saturated(float a) {
    return a > 1 ? 1 : a > 0 ? a : 0;
}

/* ig_whole of prelude_quantize.c. */
static int32_t whole(float a, int more) {
    const float least = 0x1p-149f;
    float y = more % 2 ? saturated(fmaf(a, least, (float)(more - 1) * least) + least)
                       : saturated(fmaf(a, least, (float)more * least));
    int32_t bits;
    memcpy(&bits, &y, sizeof bits);
    return bits;
}

static void check_whole(float a, int more) {
    float want = isnan(a) ? 0 : fminf(fmaxf(rintf(a) + (float)more, 0), 300);
    int32_t got = whole(a, more);
    if ((float)(got < 300 ? got : 300) != want) fail_msg("%a + %d is %d, not %g", (double)a, more, got, (double)want);
}

/* Numbers of all sizes, and those at ties and beside them. */
static void test_rounding(void **state) {
    (void)state;
    static const int more[] = {0, 128, 7, -5, 121, 255, 256};
    for (size_t m = 0; m < sizeof more / sizeof *more; m++) {
        for (uint64_t i = 0; i < (uint64_t)1 << 32; i += 4099) {
            uint32_t bits = (uint32_t)i;
            float a;
            memcpy(&a, &bits, sizeof a);
            check_whole(a, more[m]);
        }
        for (int k = -600; k <= 600; k++) {
            float tie = (float)k / 2;
            check_whole(tie, more[m]);
            check_whole(nextafterf(tie, INFINITY), more[m]);
            check_whole(nextafterf(tie, -INFINITY), more[m]);
        }
    }
}

/* ---- Kernels ---- */

struct form {
    enum ingot_dtype to;
    float scale;
    int zero;
    int low, high; /* of the byte, afterwards */
};

static ig_value number_of(struct ig_graph *g, double value) {
    return ig_build_scalar(g, INGOT_F32, value);
}

/* x / scale, or x, as QuantizeLinear is imported. */
static ig_value quantized(struct ig_graph *g, ig_value x, const struct form *f) {
    ig_value y = f->scale == 1 ? x : ig_map2(g, IG_OP_div, x, number_of(g, (double)f->scale)),
             lowest = number_of(g, -128);
    if (f->to == INGOT_F8E4M3FN) return ig_build_cast_saturating(g, y, f->to);
    y = ig_map1(g, IG_OP_round, y);
    if (f->zero) y = ig_map2(g, IG_OP_add, y, number_of(g, f->zero));
    if (f->to == INGOT_I8) y = ig_build_where(g, ig_map2(g, IG_OP_lt, lowest, y), y, lowest);
    y = ig_build_cast_saturating(g, y, f->to);
    if (f->low > (f->to == INGOT_I8 ? -128 : 0)) y = ig_map2(g, IG_OP_max, y, ig_build_scalar_int(g, f->to, f->low));
    if (f->high < (f->to == INGOT_I8 ? 127 : 255)) y = ig_map2(g, IG_OP_min, y, ig_build_scalar_int(g, f->to, f->high));
    return y;
}

static const struct form forms[] = {
    {INGOT_U8, 0.3f, 0, 0, 255},
    {INGOT_U8, 0.0745706335f, 7, 0, 255},
    {INGOT_U8, 1, 0, 0, 255},
    {INGOT_U8, 1.99999988f, 128, 128, 255},
    {INGOT_U8, 1, 255, 3, 200},
    {INGOT_I8, 0.1f, 0, -128, 127},
    {INGOT_I8, 3, 0, 0, 127},
    {INGOT_I8, 1, -5, -128, 127},
    {INGOT_I8, 1.00000012f, 0, -100, 6},
    {INGOT_I8, 0x1.6a09e6p20f, 0, -128, 127},
    {INGOT_I8, 0.05f, -7, -7, 127},
    {INGOT_I8, 0.7f, 31, -128, 100},
    {INGOT_I8, 0.2f, -128, -128, 127},
    {INGOT_U8, 0.15f, 3, 3, 127},
    {INGOT_F8E4M3FN, 0.3f, 0, 0, 0},
    {INGOT_F8E4M3FN, 0.0178571437f, 0, 0, 0},
    {INGOT_F8E4M3FN, 1, 0, 0, 0},
    {INGOT_F8E4M3FN, 0x1.000002p-63f, 0, 0, 0},
    {INGOT_F8E4M3FN, 1e30f, 0, 0, 0},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* Of any floats; and of those beside ties, (k + 1/2) * scale, by up to three units in the last place. With columns that four do
 * not divide, elements are stored one by one. */
static void build(struct ig_graph *g, const void *argument) {
    const struct form *f = argument;
    const int64_t even[] = {-1, 64}, odd[] = {-2, 33};
    ig_value x = input(g, "x", INGOT_F32, 2, even), y = input(g, "y", INGOT_F32, 2, odd);
    ig_value k = input(g, "k", INGOT_I16, 2, even), near = input(g, "near", INGOT_I8, 2, even);
    ig_value tie = ig_map2(g, IG_OP_mod, ig_build_cast(g, k, INGOT_I32), ig_build_scalar_int(g, INGOT_I32, 300));
    tie = ig_map2(g, IG_OP_add, ig_build_cast(g, tie, INGOT_F32), number_of(g, 0.5));
    tie = ig_map2(g, IG_OP_mul, tie, number_of(g, (double)f->scale));
    ig_value units = ig_build_cast(g, ig_map2(g, IG_OP_mod, near, ig_build_scalar_int(g, INGOT_I8, 4)), INGOT_F32);
    units = ig_map2(g, IG_OP_add, ig_map2(g, IG_OP_mul, units, number_of(g, 0x1p-23)), number_of(g, 1));
    ig_build_output(g, "any", quantized(g, x, f));
    ig_build_output(g, "odd", quantized(g, y, f));
    ig_build_output(g, "ties", quantized(g, ig_map2(g, IG_OP_mul, tie, units), f));
    if (f->to == INGOT_F8E4M3FN) return;
    ig_value again = ig_build_cast(g, quantized(g, x, f), INGOT_F32);
    again = ig_map2(g, IG_OP_sub, again, number_of(g, f->zero));
    ig_build_output(g, "dequantised", ig_map2(g, IG_OP_mul, again, number_of(g, (double)f->scale)));
    ig_value bytes = input(g, "bytes", f->to, 2, even);
    ig_value sum =
        ig_map2(g, IG_OP_add, ig_map2(g, IG_OP_mul, ig_build_cast(g, bytes, INGOT_F32), number_of(g, 0.7)), again);
    ig_build_output(g, "sum", quantized(g, sum, f));
}

static void test_kernels(void **state) {
    (void)state;
    for (int i = 0; i < FORMS; i++) {
        const char *name = ingot_dtype_name(forms[i].to);
        static const int64_t sizes[] = {16, 9, 2, 2};
        add_named_case(build, &forms[i], GRAPH_HOSTILE | GRAPH_EACH, sizes, "%s, form %d, hostile", name, i);
        add_named_case(build, &forms[i], GRAPH_EACH, sizes, "%s, form %d", name, i);
    }
    check_all_for_cuda();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quotients), cmocka_unit_test(test_rounding),
                                       cmocka_unit_test(test_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
