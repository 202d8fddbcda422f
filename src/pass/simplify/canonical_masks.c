/*
 * Masks that are constants, as exporters leave them for a fixed number of tokens: one that hides nothing, or all but a band about the
 * diagonal, of which a causal one is half.
 *
 * Written in indices they take no memory, and schedules see which keys no query reads (kernel/family/attend_diagonal.c).
 */
#include <math.h>

#include "ir/eval/eval.h"
#include "ir/infer/elements.h"
#include "pass/simplify/canonical.h"
#include "pass/view/view.h"

enum { MOST = 1 << 22 /* elements */, FLAG_OPERATORS = 32, FLOAT_OPERATORS = 1 };

/* ---- Contents ---------------------------------------------------------------------------------------------------- */

/* Does the expression of a constant, of at most *budget operators, compute from data alone? What is written in indices already stays. */
static bool is_from_data(const struct ig_graph *g, ig_value v, int *budget) {
    const struct ig_node *n = ig_def(g, v);
    if (!n || n->op == IG_OP_iota || --*budget < 0) return false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE && !is_from_data(g, n->in[i], budget)) return false;
    }
    return true;
}

/* Looks through broadcasts at a constant of some type; its contents, which decide nothing yet. */
static bool look(struct ig_graph *g, ig_value *v, enum ingot_dtype dtype, struct ingot_tensor *out_tensor) {
    const struct ig_node *wide;
    int64_t count;
    int budget = dtype == INGOT_BOOL ? FLAG_OPERATORS : FLOAT_OPERATORS;
    while (*v != IG_NO_VALUE && (wide = ig_def_op(g, *v, IG_OP_broadcast)))
        *v = wide->in[0];
    if (*v == IG_NO_VALUE || !ig_info(g, *v)->is_const || ig_type_of(g, *v)->dtype != dtype) return false;
    if (!ig_dim_is_const(g->dims, ig_type_elements(g->dims, ig_type_of(g, *v)), &count)) return false;
    if (count < 1 || count > MOST || !is_from_data(g, *v, &budget)) return false;
    *out_tensor = ig_const_weight(g, *v);
    return true;
}

static double at(const struct ingot_tensor *t, int64_t i) {
    return ig_load_f64(t->dtype, t->data, i);
}

static bool is_uniform(const struct ingot_tensor *t) {
    const int64_t count = ingot_tensor_elements(t);
    int64_t i = 1;
    while (i < count && at(t, i) == at(t, 0))
        i++;
    return i >= count;
}

bool ig_match_flag(struct ig_graph *g, ig_value v, bool *out_flag) {
    struct ingot_tensor flags;
    double single;
    if (ig_match_scalar(g, v, &single)) {
        *out_flag = single != 0;
        return true;
    }
    if (!look(g, &v, INGOT_BOOL, &flags)) return false;
    const bool uniform = is_uniform(&flags);
    *out_flag = at(&flags, 0) != 0;
    ig_const_release(g, v, &flags);
    if (uniform) ig_const_decides(g, v);
    return uniform;
}

/* ---- Bands ------------------------------------------------------------------------------------------------------- */

/* Element (row, column) is `inside` where row + least <= column <= row + most, and `outside` elsewhere; without a least: before it, too. */
struct band {
    int64_t rows, columns, least, most;
    bool has_least;
    double inside, outside;
};

static bool is_inside(const struct band *b, int64_t row, int64_t column) {
    return column <= row + b->most && (!b->has_least || column >= row + b->least);
}

/* The band that the first row's end and the last row's beginning tell of, if all elements of all matrices agree, and each row has some inside.
 * Of few elements, the builder makes data again of what is written in indices. */
static bool read_band(const struct ingot_tensor *t, struct band *b) {
    if (t->rank < 2) return false;
    *b = (struct band){.rows = t->dims[t->rank - 2], .columns = t->dims[t->rank - 1], .inside = at(t, 0)};
    if (b->rows < 2 || b->columns < 2 || b->rows * b->columns <= IG_ELEMENTS_MAX) return false;
    while (b->most + 1 < b->columns && at(t, b->most + 1) == b->inside)
        b->most++;
    if (b->most + 1 == b->columns) return false;
    b->outside = at(t, b->most + 1);
    int64_t before = 0;
    while (before < b->columns && at(t, (b->rows - 1) * b->columns + before) == b->outside)
        before++;
    if (before == b->columns) return false;
    b->has_least = before > 0;
    b->least = before - (b->rows - 1);
    const int64_t count = ingot_tensor_elements(t);
    for (int64_t i = 0; i < count; i++) {
        const bool inside = is_inside(b, i / b->columns % b->rows, i % b->columns);
        if (at(t, i) != (inside ? b->inside : b->outside)) return false;
    }
    return true;
}

static bool find_band(struct ig_graph *g, ig_value v, enum ingot_dtype dtype, struct band *b) {
    struct ingot_tensor contents;
    if (!look(g, &v, dtype, &contents)) return false;
    const bool found = read_band(&contents, b);
    ig_const_release(g, v, &contents);
    if (found) ig_const_decides(g, v);
    return found;
}

static ig_value moved(struct ig_graph *g, ig_value index, int64_t by) {
    return by == 0 ? index : ig_map2(g, IG_OP_add, index, ig_build_scalar_int(g, INGOT_I64, by));
}

/* `inside` in the band, else `outside`. The choice by the band's end comes last, as schedules look for it there. */
static ig_value choose(struct ig_graph *g, const struct band *b, ig_value inside, ig_value outside) {
    const ig_dim dims[] = {ig_dim_const(g->dims, b->rows), ig_dim_const(g->dims, b->columns)};
    const ig_value row = ig_build_iota(g, dims, 2, 0), column = ig_build_iota(g, dims, 2, 1);
    if (b->has_least)
        inside = ig_build_where(g, ig_map2(g, IG_OP_le, moved(g, row, b->least), column), inside, outside);
    return ig_build_where(g, ig_map2(g, IG_OP_le, column, moved(g, row, b->most)), inside, outside);
}

ig_value ig_choose_by_band(struct ig_graph *g, ig_value mask, ig_value yes, ig_value no) {
    struct band b;
    if (!find_band(g, mask, INGOT_BOOL, &b)) return IG_NO_VALUE;
    return b.inside != 0 ? choose(g, &b, yes, no) : choose(g, &b, no, yes);
}

ig_value ig_mask_of_band(struct ig_graph *g, ig_value v) {
    const double hidden = -ldexp(1, 100);
    const enum ingot_dtype dtype = ig_type_of(g, v)->dtype;
    struct band b;
    if (!ig_dtype_is_float(dtype) || !ig_info(g, v)->is_const) return IG_NO_VALUE;
    if (!find_band(g, v, dtype, &b) || b.inside != 0 || !(b.outside < hidden)) return IG_NO_VALUE;
    return choose(g, &b, ig_build_scalar(g, dtype, 0), ig_build_scalar(g, dtype, b.outside));
}
