/*
 * What narrow types gain on each target: the one place that knows; see precision.h.
 *
 * GPUs multiply them faster and move them faster, and so do CPUs with AMX, in bf16. CPUs without arithmetic in them convert
 * them to f32 first: each stored activation costs a conversion on both sides, and the caches hold it anyway, so that only
 * weights gain that are read from memory for few rows. Then a product takes the time of reading its weights, of which half is
 * left.
 */
#include "ir/build.h"
#include "pass/precision/precision.h"

/* Rows that are multiplied while memory gives the weights in f32: converting takes 2 instructions a vector from bf16, 1 from
 * f16. Weights that gain: of the whole network, more than the caches next to a processor keep from one run to the next; of
 * one product, enough to matter. Measured on a Sapphire Rapids: products of 1024 x 1024 weights take 0.59, 0.73 and 1.00 of
 * their time with bf16 at 1, 4 and 8 rows, and 0.50, 0.50 and 0.80 with f16. */
enum { FEW_ROWS_BF16 = 4, FEW_ROWS_F16 = 8, MANY_WEIGHTS = 1 << 20, SOME_WEIGHTS = 1 << 16 };

/* Do kernels of the target multiply this type, and not convert it to f32 first? */
static bool multiplies(const struct ig_target *target, enum ingot_dtype dtype) {
    return ig_target_is_cuda(target) || ig_target_together(target, dtype, dtype) > 1;
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

static int64_t constant_weights(struct ig_graph *g, const struct ig_node *n) {
    int64_t count;
    bool known = ig_info(g, n->in[1])->is_const &&
                 ig_dim_is_const(g->dims, ig_type_elements(g->dims, ig_type_of(g, n->in[1])), &count);
    return known ? count : 0;
}

int64_t ig_precision_weights(struct ig_graph *g) {
    int64_t all = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_op_info(n->op)->family == IG_FAMILY_CONTRACT) all += constant_weights(g, n);
    }
    return all;
}

enum ig_gain ig_precision_gain(const struct ig_target *target, struct ig_graph *g, const struct ig_node *n,
                               enum ingot_dtype dtype, int64_t weights) {
    int64_t rows, few = dtype == INGOT_F16 ? FEW_ROWS_F16 : FEW_ROWS_BF16;
    if (multiplies(target, dtype)) return IG_GAIN_OPERANDS;
    bool read = weights >= MANY_WEIGHTS && constant_weights(g, n) >= SOME_WEIGHTS;
    return read && rows_of(g, n, &rows) && rows <= few ? IG_GAIN_WEIGHTS : IG_GAIN_NOTHING;
}

bool ig_precision_gains_stored(const struct ig_target *target, enum ingot_dtype dtype) {
    return multiplies(target, dtype);
}
