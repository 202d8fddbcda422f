/*
 * What narrow types gain on each target: the one place that knows; see precision.h.
 *
 * GPUs multiply them faster and move them faster. CPUs without arithmetic in them convert them to f32 first: each stored
 * activation costs a conversion on both sides, and the caches hold it anyway, so that only weights gain that are read from
 * memory for few rows. Then a product takes the time of reading its weights, of which half is left.
 */
#include "ir/build.h"
#include "pass/precision/precision.h"

/* So many rows are multiplied in the time in which memory gives the weights in f32, and so many weights do not stay in the
 * caches from one run to the next. */
enum { FEW_ROWS = 4, MANY_WEIGHTS = 1 << 18 };

/* Do kernels of the target multiply this type, and not convert it to f32 first? */
static bool multiplies(const struct ig_target *target, enum ingot_dtype dtype) {
    (void)dtype;
    return ig_target_is_cuda(target);
}

/* The rows of a product, or the positions of a convolution, at usual sizes; false if they are not known. */
static bool rows_of(const struct ig_graph *g, const struct ig_node *n, int64_t *out_rows) {
    const struct ig_type *t = ig_type_of(g, n->out);
    bool last = n->op == IG_OP_conv && !ig_attr_int(g, n, IG_ATTR_channels_last);
    int columns = last ? 1 : t->rank - 1;
    *out_rows = 1;
    for (int i = 0; i < t->rank; i++) {
        int64_t size;
        if (i == columns) continue;
        if (!ig_dim_usual(g->dims, t->dim[i], &size)) return false;
        *out_rows *= size;
    }
    return true;
}

static bool has_many_weights(struct ig_graph *g, ig_value w) {
    int64_t count;
    return ig_info(g, w)->is_const && ig_dim_is_const(g->dims, ig_type_elements(g->dims, ig_type_of(g, w)), &count) &&
           count >= MANY_WEIGHTS;
}

enum ig_gain ig_precision_gain(const struct ig_target *target, struct ig_graph *g, const struct ig_node *n,
                               enum ingot_dtype dtype) {
    int64_t rows;
    if (multiplies(target, dtype)) return IG_GAIN_OPERANDS;
    bool few = has_many_weights(g, n->in[1]) && rows_of(g, n, &rows) && rows <= FEW_ROWS;
    return few ? IG_GAIN_WEIGHTS : IG_GAIN_NOTHING;
}

bool ig_precision_gains_stored(const struct ig_target *target, enum ingot_dtype dtype) {
    return multiplies(target, dtype);
}
