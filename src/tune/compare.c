/*
 * Compares results with expected ones; see subject.h.
 *
 * Results of large batches have tens of millions of elements and are compared for every candidate. So correctness is
 * tested in stretches, by loops that compilers vectorise; only stretches with a suspicious element are compared one by
 * one.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/narrow.h"
#include "base/text.h"
#include "ir/eval/eval.h"
#include "tune/subject.h"

enum { STRETCH = 1024 };

/* What products may be off by, as a share of the largest. Sums as the tensor cores add up floats of 8 bits: docs/quantisation.md. */
static double of_products(const struct ig_subject *s) {
    const struct ig_node *anchor = &s->graph->nodes.at[s->region->anchor];
    if (anchor->op != IG_OP_matmul && anchor->op != IG_OP_conv) return 0;
    int64_t math = ig_attr_int(s->graph, anchor, IG_ATTR_math);
    return math == IG_MATH_TF32 ? 4e-3 : math == IG_MATH_FAST ? 2e-2 : 0;
}

/* The narrowest type among inputs and outputs determines the tolerance. */
static double tolerance(const struct ig_subject *s) {
    double products = of_products(s), most = products > 0 ? products : 1e-9;
    for (uint32_t i = 0; i < s->n_inputs + s->n_outputs; i++) {
        enum ingot_dtype dtype = i < s->n_inputs ? s->inputs[i].dtype : s->outputs[i - s->n_inputs].dtype;
        double own = dtype == INGOT_F32 ? 2e-4 : dtype == INGOT_F16 ? 4e-3 : dtype == INGOT_BF16 ? 3e-2 : 0;
        most = own > most ? own : most;
    }
    return most;
}

static bool has_float(const struct ig_subject *s) {
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        if (ig_dtype_is_float(s->inputs[i].dtype)) return true;
    }
    return false;
}

/* ---- Stretches --------------------------------------------------------------------------------------------------- */

/* Exact for finite values; infinity and NaN give some number. */
static float of_f16(uint16_t bits) {
    uint32_t wide = (uint32_t)(bits & 0x7fff) << 13;
    float magnitude;
    memcpy(&magnitude, &wide, sizeof magnitude);
    magnitude *= 0x1p112f;
    return bits & 0x8000 ? -magnitude : magnitude;
}

static float of_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Converts to f32; false if some elements are not numbers, or if the type is not compared in stretches. */
static bool widen(enum ingot_dtype dtype, const void *data, int64_t first, int count, float *out) {
    const uint16_t *halves = (const uint16_t *)data + first;
    unsigned largest = 0;
    switch (dtype) {
    case INGOT_F32: memcpy(out, (const float *)data + first, (size_t)count * sizeof *out); break;
    case INGOT_F16:
        for (int i = 0; i < count; i++) {
            unsigned magnitude = halves[i] & 0x7fff;
            largest = magnitude > largest ? magnitude : largest;
            out[i] = of_f16(halves[i]);
        }
        return largest < 0x7c00;
    case INGOT_BF16:
        for (int i = 0; i < count; i++)
            out[i] = of_bf16(halves[i]);
        break;
    default: return false;
    }
    int strange = 0;
    for (int i = 0; i < count; i++)
        strange += !(fabsf(out[i]) <= FLT_MAX);
    return strange == 0;
}

static double largest_of(enum ingot_dtype dtype, const void *data, int64_t first, int count) {
    float wide[STRETCH], most = 0;
    double largest = 0;
    if (widen(dtype, data, first, count, wide)) {
        for (int i = 0; i < count; i++)
            most = fabsf(wide[i]) > most ? fabsf(wide[i]) : most;
        return (double)most;
    }
    for (int64_t i = first; i < first + count; i++) {
        double e = fabs(ig_load_f64(dtype, data, i));
        if (isfinite(e) && e > largest) largest = e;
    }
    return largest;
}

/* The first wrong element, or -1. */
static int64_t find_wrong(enum ingot_dtype dtype, const void *expected, const void *got, int64_t first, int count,
                          double allowed) {
    float wanted[STRETCH], found[STRETCH];
    if (widen(dtype, expected, first, count, wanted) && widen(dtype, got, first, count, found)) {
        float most = 0;
        for (int i = 0; i < count; i++) {
            float off = fabsf(wanted[i] - found[i]);
            most = off > most ? off : most;
        }
        if ((double)most <= allowed) return -1;
    }
    for (int64_t i = first; i < first + count; i++) {
        double e = ig_load_f64(dtype, expected, i), x = ig_load_f64(dtype, got, i);
        bool same = isnan(e) ? isnan(x) : isinf(e) ? x == e : fabs(x - e) <= allowed;
        if (!same) return i;
    }
    return -1;
}

/* Of floats of 8 and 4 bits: neighbours, or numbers as near as `allowed`. */
static bool is_near(enum ingot_dtype dtype, uint8_t expected, uint8_t got, double allowed) {
    double e = (double)ig_narrow_to_f32(dtype, expected), x = (double)ig_narrow_to_f32(dtype, got);
    int sign = dtype == INGOT_F8E8M0 ? 0 : 1 << (ig_narrow_bits(dtype) - 1);
    int at = expected & sign ? -(expected & ~sign) : expected, found = got & sign ? -(got & ~sign) : got;
    if (isnan(e) || isnan(x)) return isnan(e) && isnan(x);
    return abs(at - found) <= 1 || fabs(x - e) <= allowed;
}

static const char *compare_narrow(const struct ig_subject *s, const struct ingot_tensor *t, const uint8_t *expected,
                                  const uint8_t *got) {
    int64_t count = ingot_tensor_elements(t);
    double largest = 0, allowed = tolerance(s);
    for (int64_t i = 0; i < count; i++) {
        double e = fabs((double)ig_narrow_to_f32(t->dtype, expected[i]));
        if (isfinite(e) && e > largest) largest = e;
    }
    for (int64_t i = 0; i < count; i++) {
        if (is_near(t->dtype, expected[i], got[i], allowed * largest)) continue;
        return ig_format(s->job, "element %lld is %g instead of %g", (long long)i,
                         (double)ig_narrow_to_f32(t->dtype, got[i]), (double)ig_narrow_to_f32(t->dtype, expected[i]));
    }
    return NULL;
}

static int stretch_at(int64_t first, int64_t count) {
    return count - first < STRETCH ? (int)(count - first) : STRETCH;
}

static const char *compare_floats(const struct ig_subject *s, const struct ingot_tensor *t, const void *expected,
                                  const void *got) {
    int64_t count = ingot_tensor_elements(t);
    double largest = 0, allowed = tolerance(s);
    for (int64_t i = 0; i < count; i += STRETCH) {
        double here = largest_of(t->dtype, expected, i, stretch_at(i, count));
        largest = here > largest ? here : largest;
    }
    for (int64_t i = 0; i < count; i += STRETCH) {
        int64_t wrong = find_wrong(t->dtype, expected, got, i, stretch_at(i, count), allowed * largest);
        if (wrong < 0) continue;
        return ig_format(s->job, "element %lld is %g instead of %g", (long long)wrong,
                         ig_load_f64(t->dtype, got, wrong), ig_load_f64(t->dtype, expected, wrong));
    }
    return NULL;
}

const char *ig_subject_compare(const struct ig_subject *s, uint32_t output, const void *expected, const void *got) {
    const struct ingot_tensor *t = &s->outputs[output];
    if (ig_dtype_is_float(t->dtype)) return compare_floats(s, t, expected, got);
    if (ig_narrow_is_float(t->dtype)) return compare_narrow(s, t, expected, got);
    int64_t count = ingot_tensor_elements(t), allowed = t->dtype != INGOT_BOOL && has_float(s) ? 1 : 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t e = ig_load_i64(t->dtype, expected, i), x = ig_load_i64(t->dtype, got, i);
        if (x == e || (allowed && (x - e == 1 || e - x == 1))) continue;
        return ig_format(s->job, "element %lld is %lld instead of %lld", (long long)i, (long long)x, (long long)e);
    }
    return NULL;
}
