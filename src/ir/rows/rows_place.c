/*
 * Integers that follow from the numbers of their rows: indices that models compute to address their own row in what was
 * flattened, or that they count along with other indices. See rows_rule.h.
 */
#include <math.h>

#include "ir/build.h"
#include "ir/rows/rows_rule.h"

typedef void (*place_fn)(struct ig_rows *x, struct ig_rows_at *out);

static ig_dim zero(const struct ig_rows *x) {
    return ig_dim_const(x->graph->dims, 0);
}

static bool is_known(const struct ig_rows_at *at) {
    return at->step != IG_DIM_NONE;
}

/* Is the magnitude of a times that of b small enough for arithmetic, whatever the symbols are? */
static bool product_fits(const struct ig_rows *x, ig_dim a, ig_dim b) {
    double most = 1;
    for (int i = 0; i < 2; i++) {
        int64_t lo, hi;
        ig_dim_range(x->graph->dims, i ? b : a, &lo, &hi);
        most *= fmax(1, fmax(fabs((double)lo), fabs((double)hi)));
    }
    return most < 0x1p60;
}

static bool all_fit(const struct ig_rows *x, const struct ig_rows_at *at, ig_dim factor) {
    return product_fits(x, at->step, factor) && product_fits(x, at->least, factor) && product_fits(x, at->most, factor);
}

/* Indices along an axis of `count` elements are 0 to count - 1. */
static void place_below(const struct ig_rows *x, ig_dim count, struct ig_rows_at *out) {
    out->least = zero(x);
    out->most = ig_dim_sub(x->graph->dims, count, ig_dim_const(x->graph->dims, 1));
}

static void place_iota(struct ig_rows *x, struct ig_rows_at *out) {
    const struct ig_type *type = ig_type_of(x->graph, x->node->out);
    int axis = (int)ig_attr_int(x->graph, x->node, IG_ATTR_axis);
    out->step = axis == out->axis ? out->inner : zero(x);
    place_below(x, axis == out->axis ? out->inner : type->dim[axis], out);
}

static void place_same(struct ig_rows *x, struct ig_rows_at *out) {
    out->step = x->in[0].step;
    out->least = x->in[0].least;
    out->most = x->in[0].most;
}

static void place_add(struct ig_rows *x, struct ig_rows_at *out) {
    const struct ig_rows_at *a = &x->in[0], *b = &x->in[1];
    ig_dim one = ig_dim_const(x->graph->dims, 1);
    if (!is_known(a) || !is_known(b) || !all_fit(x, a, one) || !all_fit(x, b, one)) return;
    out->step = ig_dim_add(x->graph->dims, a->step, b->step);
    out->least = ig_dim_add(x->graph->dims, a->least, b->least);
    out->most = ig_dim_add(x->graph->dims, a->most, b->most);
}

/* By one number, which is not negative. */
static void place_mul(struct ig_rows *x, struct ig_rows_at *out) {
    struct ig_dims *dims = x->graph->dims;
    bool second = is_known(&x->in[1]) && x->in[1].step == zero(x) && x->in[1].least == x->in[1].most;
    const struct ig_rows_at *a = &x->in[second ? 0 : 1], *b = &x->in[second ? 1 : 0];
    if (!is_known(a) || !is_known(b) || b->step != zero(x) || b->least != b->most) return;
    if (!all_fit(x, a, b->least) || ig_dim_less(dims, b->least, zero(x)) != IG_NO) return;
    out->step = ig_dim_mul(dims, a->step, b->least);
    out->least = ig_dim_mul(dims, a->least, b->least);
    out->most = ig_dim_mul(dims, a->most, b->least);
}

static const place_fn places[IG_OP_COUNT] = {
    [IG_OP_iota] = place_iota,      [IG_OP_reshape] = place_same, [IG_OP_transpose] = place_same,
    [IG_OP_broadcast] = place_same, [IG_OP_slice] = place_same,   [IG_OP_cast] = place_same,
    [IG_OP_add] = place_add,        [IG_OP_mul] = place_mul,
};

/* Of integers whose contents are known numbers, or all the same. */
static bool place_elements(const struct ig_rows *x, struct ig_rows_at *out) {
    const ig_dim *elements;
    int count;
    if (out->axis != IG_ROWS_NONE || !ig_elements(x->graph, x->node->out, &elements, &count) || count == 0)
        return false;
    ig_dim least = elements[0], most = elements[0], one = ig_dim_const(x->graph->dims, 1);
    for (int i = 0; i < count; i++) {
        if (!product_fits(x, elements[i], one)) return false;
    }
    for (int i = 1; i < count; i++) {
        if (elements[i] != least && ig_dim_less(x->graph->dims, least, elements[i]) != IG_YES) {
            if (ig_dim_less(x->graph->dims, elements[i], least) != IG_YES) return false;
            least = elements[i];
        }
        if (elements[i] != most && ig_dim_less(x->graph->dims, elements[i], most) != IG_YES) {
            if (ig_dim_less(x->graph->dims, most, elements[i]) != IG_YES) return false;
            most = elements[i];
        }
    }
    *out = (struct ig_rows_at){.axis = IG_ROWS_NONE, .step = zero(x), .least = least, .most = most};
    return true;
}

void ig_rows_place(struct ig_rows *x) {
    if (ig_type_of(x->graph, x->node->out)->dtype != INGOT_I64) return; /* others may wrap */
    if (!place_elements(x, x->out) && places[x->node->op]) places[x->node->op](x, x->out);
}

bool ig_rows_stays(const struct ig_rows *x, const struct ig_rows_at *index, const struct ig_type *type,
                   const struct ig_rows_at *at) {
    struct ig_dims *dims = x->graph->dims;
    if (index->axis == IG_ROWS_NONE || !is_known(index)) return false;
    return ig_rows_multiple(x, type->dim[at->axis]) == at->inner && index->step == at->inner &&
           ig_dim_less(dims, index->least, zero(x)) == IG_NO && ig_dim_less(dims, index->most, at->inner) == IG_YES;
}
