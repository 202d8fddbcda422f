#include "support/dist/plain.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "dist/group.h"

/* ---- Values ------------------------------------------------------------------------------------------------------ */

void plain_fill(enum ingot_dtype dtype, void *to, size_t count, uint32_t seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 88172645463325252u;
    const size_t size = ingot_dtype_size(dtype);
    for (size_t i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        uint64_t bits = state >> 3;
        float small = (float)((int)(state >> 20 & 0xffff) - 0x8000) / 4096;
        double same = (double)small / 3;
        uint16_t half = dtype == INGOT_F16 ? ig_f32_to_f16(small) : ig_f32_to_bf16(small);
        bool any = state >> 60 & 1;
        const void *from = &bits;
        if (!any && (dtype == INGOT_F16 || dtype == INGOT_BF16)) from = &half;
        if (!any && dtype == INGOT_F32) from = &small;
        if (!any && dtype == INGOT_F64) from = &same;
        if (dtype == INGOT_BOOL) bits &= 1;
        memcpy((char *)to + i * size, from, size);
    }
}

static float load_float(enum ingot_dtype dtype, const void *at) {
    uint16_t bits;
    float x;
    if (dtype == INGOT_F32) {
        memcpy(&x, at, sizeof x);
        return x;
    }
    memcpy(&bits, at, sizeof bits);
    return dtype == INGOT_F16 ? ig_f16_to_f32(bits) : ig_bf16_to_f32(bits);
}

static void store_float(enum ingot_dtype dtype, float x, void *at) {
    uint16_t bits = dtype == INGOT_F16 ? ig_f32_to_f16(x) : ig_f32_to_bf16(x);
    if (dtype == INGOT_F32)
        memcpy(at, &x, sizeof x);
    else
        memcpy(at, &bits, sizeof bits);
}

/* ---- What is expected -------------------------------------------------------------------------------------------- */

#define CHOOSE(reduction, a, b, is_nan) \
    ((is_nan) ? (a) + (b) : ((reduction) == IG_REDUCE_MAX) == ((a) > (b)) ? (a) : (b))
#define COMBINE(reduction, a, b, is_nan) ((reduction) == IG_REDUCE_SUM ? (a) + (b) : CHOOSE(reduction, a, b, is_nan))

static void reduce_floats(const struct ig_collective *what, const void *const *from, uint32_t ranks, void *to) {
    const enum ingot_dtype dtype = (enum ingot_dtype)what->dtype;
    float sum = load_float(dtype, from[0]);
    for (uint32_t r = 1; r < ranks; r++) {
        const float x = load_float(dtype, from[r]);
        sum = COMBINE(what->reduction, sum, x, isnan(sum) || isnan(x));
    }
    store_float(dtype, sum, to);
}

static void reduce_doubles(const struct ig_collective *what, const void *const *from, uint32_t ranks, void *to) {
    double sum, x;
    memcpy(&sum, from[0], sizeof sum);
    for (uint32_t r = 1; r < ranks; r++) {
        memcpy(&x, from[r], sizeof x);
        sum = COMBINE(what->reduction, sum, x, isnan(sum) || isnan(x));
    }
    memcpy(to, &sum, sizeof sum);
}

/* Sums wrap around: computed without a sign, from words that have the sign of their type. */
static uint64_t load_integer(enum ingot_dtype dtype, const void *at) {
    uint32_t word;
    uint64_t wide;
    memcpy(&word, at, sizeof word);
    if (dtype == INGOT_I32) return (uint64_t)(int64_t)(int32_t)word;
    if (dtype == INGOT_U32) return word;
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static void reduce_integers(const struct ig_collective *what, const void *const *from, uint32_t ranks, void *to) {
    const enum ingot_dtype dtype = (enum ingot_dtype)what->dtype;
    const bool has_sign = dtype == INGOT_I32 || dtype == INGOT_I64;
    uint64_t sum = load_integer(dtype, from[0]);
    for (uint32_t r = 1; r < ranks; r++) {
        const uint64_t x = load_integer(dtype, from[r]);
        const bool greater = has_sign ? (int64_t)sum > (int64_t)x : sum > x;
        if (what->reduction == IG_REDUCE_SUM)
            sum += x;
        else if ((what->reduction == IG_REDUCE_MAX) != greater)
            sum = x;
    }
    memcpy(to, &sum, ingot_dtype_size(dtype));
}

/* A call, as one rank sees it. */
struct plain {
    const struct ig_collective *what;
    const struct ig_collective_sizes *sizes;
    uint32_t ranks, rank;
    void *const *sources;
    size_t element; /* bytes */
};

/* Of the elements number `at` of all sources, the element number `to` of the result. */
static void reduce(const struct plain *p, size_t at, char *result, size_t to) {
    const void *from[IG_MOST_RANKS];
    for (uint32_t r = 0; r < p->ranks; r++)
        from[r] = (const char *)p->sources[r] + at * p->element;
    switch (p->what->dtype) {
    case INGOT_F16:
    case INGOT_BF16:
    case INGOT_F32: reduce_floats(p->what, from, p->ranks, result + to * p->element); break;
    case INGOT_F64: reduce_doubles(p->what, from, p->ranks, result + to * p->element); break;
    default: reduce_integers(p->what, from, p->ranks, result + to * p->element);
    }
}

static void gather(const struct plain *p, char *result) {
    for (size_t o = 0; o < p->sizes->outer; o++) {
        for (uint32_t r = 0; r < p->ranks; r++) {
            const size_t bytes = p->sizes->parts[r] * p->sizes->inner * p->element;
            memcpy(result, (const char *)p->sources[r] + o * bytes, bytes);
            result += bytes;
        }
    }
}

static void scatter(const struct plain *p, char *result) {
    const struct ig_collective_sizes *s = p->sizes;
    const size_t line = s->parts[p->rank] * s->inner, whole = ig_sizes_whole(s, p->ranks) * s->inner;
    const size_t before = ig_sizes_before(s, p->rank) * s->inner;
    for (size_t o = 0; o < s->outer; o++)
        for (size_t i = 0; i < line; i++)
            reduce(p, o * whole + before + i, result, o * line + i);
}

void plain_collective(const struct ig_collective *what, const struct ig_collective_sizes *sizes, uint32_t ranks,
                      uint32_t rank, void *const *sources, void *result) {
    const struct plain p = {what, sizes, ranks, rank, sources, ingot_dtype_size((enum ingot_dtype)what->dtype)};
    const size_t block = ig_sizes_block(sizes), bytes = block * p.element;
    switch (what->kind) {
    case IG_ALL_REDUCE:
        for (size_t i = 0; i < block; i++)
            reduce(&p, i, result, i);
        break;
    case IG_ALL_GATHER: gather(&p, result); break;
    case IG_REDUCE_SCATTER: scatter(&p, result); break;
    case IG_ALL_TO_ALL:
        for (uint32_t r = 0; r < ranks; r++)
            memcpy((char *)result + r * bytes, (const char *)sources[r] + rank * bytes, bytes);
        break;
    default: memcpy(result, sources[what->peer], bytes);
    }
}

bool plain_is_same(const struct ig_collective *what, const void *expected, const void *found) {
    const enum ingot_dtype dtype = (enum ingot_dtype)what->dtype;
    double e, f;
    if (memcmp(expected, found, ingot_dtype_size(dtype)) == 0) return true;
    if (!ig_collective_reduces(what->kind) || dtype == INGOT_I32 || dtype == INGOT_U32 || dtype == INGOT_I64 ||
        dtype == INGOT_U64)
        return false;
    if (dtype == INGOT_F64) {
        memcpy(&e, expected, sizeof e);
        memcpy(&f, found, sizeof f);
    } else {
        e = (double)load_float(dtype, expected);
        f = (double)load_float(dtype, found);
    }
    return (isnan(e) && isnan(f)) || (what->reduction != IG_REDUCE_SUM && e == 0 && f == 0);
}
