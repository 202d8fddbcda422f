/* Sample points; see samples.h. */
#include "compile/variants/samples.h"

#include <math.h>
#include <string.h>

/* The most sample points, and the most values of one symbol. */
enum { MOST_POINTS = 160, MOST_VALUES = 48 };
/* The most symbols that vary; and the values of one symbol, or of each of several, at which times are measured. */
enum { MOST_SYMBOLS = 4, FEW_ALONE = 6, FEW_TOGETHER = 3 };
/* Beyond so many times the usual value nothing changes much any more. */
enum { FARTHEST = 64 };

struct values {
    int64_t at[MOST_VALUES]; /* ascending */
    double weights[MOST_VALUES];
    int count;
};

static void add_value(struct values *v, int64_t value) {
    int at = v->count;
    while (at > 0 && v->at[at - 1] >= value)
        at--;
    if (v->count == MOST_VALUES || (at < v->count && v->at[at] == value)) return;
    memmove(v->at + at + 1, v->at + at, (size_t)(v->count - at) * sizeof *v->at);
    v->at[at] = value;
    v->count++;
}

/* Every doubling of a size counts the same, however many values of it are looked at. */
static void weigh(struct values *v) {
    for (int i = 0; i < v->count; i++) {
        double below = (double)v->at[i > 0 ? i - 1 : i], above = (double)v->at[i + 1 < v->count ? i + 1 : i];
        v->weights[i] = v->count > 1 ? log(above / below) : 1;
    }
}

/* Adds `count` values at equal ratios, the first of them lo, the last hi. */
static void add_ratios(struct values *v, int64_t lo, int64_t hi, int count) {
    double ratio = count > 1 ? pow((double)hi / (double)lo, 1.0 / (count - 1)) : 1, at = (double)lo;
    for (int i = 0; i + 1 < count; i++, at *= ratio)
        add_value(v, (int64_t)(at + 0.5));
    add_value(v, hi);
}

/* The part of a symbol's range that is looked at: no symbol is 0, since then nothing is computed. */
static void bound(struct ig_dims *dims, ig_dim symbol, int64_t usual, int64_t *out_lo, int64_t *out_hi) {
    ig_dim_range(dims, symbol, out_lo, out_hi);
    *out_lo = *out_lo < 1 ? 1 : *out_lo;
    usual = usual < *out_lo ? *out_lo : usual;
    if (*out_hi / FARTHEST > usual) *out_hi = FARTHEST * usual;
}

/* Powers of two, and these times three. */
static void add_round_values(struct values *v, int64_t lo, int64_t hi, int most) {
    for (int64_t value = 1; value <= hi && v->count < most; value *= 2) {
        if (value >= lo) add_value(v, value);
        if (3 * value >= lo && 3 * value <= hi && v->count < most) add_value(v, 3 * value);
    }
}

/* All values of a small range. Of a large one its ends, the usual value and round numbers, which most sizes in use are;
 * then values at about equal ratios, as long as there is room. */
static void sample(struct ig_dims *dims, ig_dim symbol, int64_t usual, int most, struct values *v) {
    int64_t lo, hi;
    bound(dims, symbol, usual, &lo, &hi);
    for (int64_t value = lo; value <= hi && hi - lo < most; value++)
        add_value(v, value);
    if (hi - lo >= most) {
        if (usual >= lo && usual <= hi) add_value(v, usual);
        add_value(v, lo);
        add_value(v, hi);
        add_round_values(v, lo, hi, most);
        add_ratios(v, lo, hi, most - v->count + 2);
    }
    weigh(v);
}

/* The symbols that inputs determine and that may vary, in their order. */
static int find_symbols(struct ig_graph *g, ig_dim *out_symbols, int most) {
    int count = 0;
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const struct ig_type *type = ig_type_of(g, g->inputs.at[i].value);
        for (int k = 0; k < type->rank; k++) {
            int64_t lo, hi;
            bool known = ig_dim_look(g->dims, type->dim[k]).kind != IG_DIM_SYMBOL;
            ig_dim_range(g->dims, type->dim[k], &lo, &hi);
            for (int s = 0; s < count && !known; s++)
                known = out_symbols[s] == type->dim[k];
            if (!known && lo < hi && count < most) out_symbols[count++] = type->dim[k];
        }
    }
    return count;
}

/* The usual point, then every combination of the symbols' values. */
static void combine(struct ig_graph *g, const ig_dim *symbols, const struct values *values, int n,
                    struct ig_samples *out) {
    int combinations = n > 0;
    for (int s = 0; s < n; s++)
        combinations *= values[s].count;
    out->weights = IG_NEW_ARRAY(g->job, double, combinations + 1);
    double sum = 0;
    for (int i = 0; i <= combinations; i++) {
        struct ig_sizes point;
        double weight = i > 0;
        ig_sizes_usual(g->dims, g->job, &point);
        for (int s = 0, rest = i - 1; i > 0 && s < n; rest /= values[s].count, s++) {
            ig_sizes_set(&point, g->job, symbols[s], values[s].at[rest % values[s].count]);
            weight *= values[s].weights[rest % values[s].count];
        }
        IG_PUSH(g->job, &out->points, point);
        out->weights[i] = weight;
        sum += weight;
    }
    for (int i = 0; i <= combinations && sum > 0; i++)
        out->weights[i] /= sum;
}

void ig_samples_make(struct ig_graph *g, struct ig_samples *out) {
    ig_dim symbols[MOST_SYMBOLS];
    struct values values[MOST_SYMBOLS];
    struct ig_sizes usual;
    *out = (struct ig_samples){0};
    memset(values, 0, sizeof values);
    ig_sizes_usual(g->dims, g->job, &usual);
    int n = find_symbols(g, symbols, MOST_SYMBOLS);
    int most = n > 1 ? (int)pow(MOST_POINTS, 1.0 / n) : MOST_VALUES;
    for (int s = 0; s < n; s++)
        sample(g->dims, symbols[s], ig_sizes_of(&usual, g->job, symbols[s]), most, &values[s]);
    combine(g, symbols, values, n, out);
}

/* How many of the symbols have a value inside of their range, not at an end. */
static int count_inner(const struct ig_sizes *point, struct ig_job *job, const ig_dim *symbols,
                       const struct values *values, int n) {
    int count = 0;
    for (int s = 0; s < n; s++) {
        int64_t value = ig_sizes_of(point, job, symbols[s]);
        count += value != values[s].at[0] && value != values[s].at[values[s].count - 1];
    }
    return count;
}

void ig_samples_make_few(struct ig_graph *g, struct ig_samples *out) {
    enum { MOST = 2 }; /* more symbols would make too many points */
    ig_dim symbols[MOST];
    struct values values[MOST];
    struct ig_sizes usual;
    int64_t lo, hi;
    *out = (struct ig_samples){0};
    memset(values, 0, sizeof values);
    ig_sizes_usual(g->dims, g->job, &usual);
    int n = find_symbols(g, symbols, MOST);
    for (int s = 0; s < n; s++) {
        bound(g->dims, symbols[s], ig_sizes_of(&usual, g->job, symbols[s]), &lo, &hi);
        add_ratios(&values[s], lo, hi, n > 1 ? FEW_TOGETHER : FEW_ALONE);
    }
    combine(g, symbols, values, n, out);
    /* A stable sort of few: points at more ends first. */
    for (uint32_t i = 2; i < out->points.count; i++) {
        struct ig_sizes point = out->points.at[i];
        uint32_t at = i;
        for (; at > 1 && count_inner(&out->points.at[at - 1], g->job, symbols, values, n) >
                             count_inner(&point, g->job, symbols, values, n);
             at--)
            out->points.at[at] = out->points.at[at - 1];
        out->points.at[at] = point;
    }
    out->weights = NULL;
}
