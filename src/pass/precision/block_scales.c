/*
 * block-scales: multiplies narrow numbers that have a scale for each block of the depth as such, on GPUs.
 *
 * Requires:   the graph as the importer writes it: constants not folded, so that dequantised weights are seen as such. It runs before
 *             narrow-weights, which would take the weights alone.
 * Guarantees: a matmul of a dequantised activation by a dequantised constant matrix, both of floats of 8 bits (f8e4m3fn, f8e5m2; sm_89
 *             and up) or both of bytes without zero points, at least one of which has scales for each 128 of the depth, becomes a
 *             matmul_scaled of the narrow numbers. Other scales of the two are uniform along the depth, and may vary along the rest.
 *             Blocks are those of DequantizeLinear, or axes of their own in a reshaped product by the scale. Products by floats of 8
 *             bits that have few rows are left to narrow-weights: kernels for few rows read dequantised activations.
 */
#include "ir/eval/eval.h"
#include "pass/match.h"
#include "pass/passes.h"

enum { BLOCK = 128, FEW_ROWS = 16, FIRST_FLOAT8_SM = 89 };

/* numbers * scale: of equal rank; along each axis the scale has the size of the numbers, a BLOCK-th of it (rounded up), or 1. */
struct operand {
    ig_value numbers, scale;
    bool in_blocks[INGOT_MAX_RANK]; /* by axis */
};

static bool is_float8(enum ingot_dtype dtype) {
    return dtype == INGOT_F8E4M3FN || dtype == INGOT_F8E5M2;
}

static bool is_byte(enum ingot_dtype dtype) {
    return dtype == INGOT_I8 || dtype == INGOT_U8;
}

static bool is_size(const struct ig_graph *g, ig_dim dim, int64_t size) {
    return dim == ig_dim_const(g->dims, size);
}

static ig_dim blocks_of(struct ig_graph *g, ig_dim size) {
    return ig_dim_ceil_div(g->dims, size, ig_dim_const(g->dims, BLOCK));
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

static ig_value beneath(const struct ig_graph *g, ig_value v, enum ig_op op) {
    const struct ig_node *n;
    while ((n = ig_def_op(g, v, op)))
        v = n->in[0];
    return v;
}

/* Is it a constant of zeros, perhaps spread over blocks? */
static bool is_zero(struct ig_graph *g, ig_value v) {
    const struct ig_node *n;
    while ((n = ig_def(g, v)) &&
           (n->op == IG_OP_reshape || n->op == IG_OP_broadcast || n->op == IG_OP_slice || n->op == IG_OP_cast))
        v = n->in[0];
    if (!ig_info(g, v)->is_const) return false;
    struct ingot_tensor t = ig_const_tensor(g, v);
    int64_t count = ingot_tensor_elements(&t);
    bool zero = true;
    for (int64_t i = 0; i < count && zero; i++)
        zero = ig_load_f64(t.dtype, t.data, i) == 0;
    ig_const_release(g, v, &t);
    return zero;
}

/* Narrow numbers as f32, perhaps less a zero point of 0, perhaps reshaped. */
static bool match_numbers(struct ig_graph *g, ig_value v, ig_value *out) {
    ig_value x, y;
    v = beneath(g, v, IG_OP_reshape);
    if (ig_match_binary(g, v, IG_OP_sub, &x, &y)) {
        if (!ig_same_dims(ig_type_of(g, x), ig_type_of(g, v)) || !is_zero(g, y)) return false;
        v = beneath(g, x, IG_OP_reshape);
    }
    if (ig_type_of(g, v)->dtype != INGOT_F32 || !ig_match_unary(g, v, IG_OP_cast, out)) return false;
    enum ingot_dtype dtype = ig_type_of(g, *out)->dtype;
    return is_float8(dtype) || is_byte(dtype);
}

/* ---- Scales ------------------------------------------------------------------------------------------------------ */

/* Does the slice take all along the other axes, and the first along this one? */
static bool cuts_end(struct ig_graph *g, const struct ig_node *slice, int axis) {
    const struct ig_type *from = ig_type_of(g, slice->in[0]), *to = ig_type_of(g, slice->out);
    const struct ig_attr *starts = ig_attr(g, slice, IG_ATTR_starts), *steps = ig_attr(g, slice, IG_ATTR_steps);
    for (int i = 0; i < to->rank; i++) {
        if (!is_size(g, starts->dims[i], 0) || steps->ints[i] != 1) return false;
        if (i != axis && from->dim[i] != to->dim[i]) return false;
    }
    return true;
}

/* A reshape of a broadcast of each element to BLOCK of them along an axis of its own: the operand of the broadcast, of which the axis
 * has a BLOCK-th. */
static ig_value beneath_repeats(struct ig_graph *g, const struct ig_node *reshape, int axis) {
    const struct ig_node *spread = ig_def_op(g, reshape->in[0], IG_OP_broadcast);
    struct ig_type type = *ig_type_of(g, reshape->out);
    if (!spread) return IG_NO_VALUE;
    const struct ig_type wide = *ig_type_of(g, spread->out), narrow = *ig_type_of(g, spread->in[0]);
    ig_dim blocks = blocks_of(g, type.dim[axis]);
    int at = 0;
    while (at < wide.rank && at < narrow.rank && narrow.dim[at] == wide.dim[at])
        at++;
    if (narrow.rank != wide.rank || at == wide.rank || !is_size(g, narrow.dim[at], 1) ||
        !is_size(g, wide.dim[at], BLOCK))
        return IG_NO_VALUE;
    for (int i = at + 1; i < wide.rank; i++) {
        if (narrow.dim[i] != wide.dim[i]) return IG_NO_VALUE;
    }
    ig_dim before = ig_dim_mul(g->dims, ig_dim_product(g->dims, type.dim, axis), blocks);
    bool same = ig_dim_mul(g->dims, blocks, wide.dim[at]) == type.dim[axis] &&
                ig_dim_product(g->dims, wide.dim, at) == before &&
                ig_dim_product(g->dims, wide.dim + at + 1, wide.rank - at - 1) ==
                    ig_dim_product(g->dims, type.dim + axis + 1, type.rank - axis - 1);
    if (!same) return IG_NO_VALUE;
    type.dim[axis] = blocks;
    return ig_build_reshape(g, beneath(g, spread->in[0], IG_OP_reshape), type.dim, type.rank);
}

/* v with one element for each BLOCK along an axis, if it repeats them; else IG_NO_VALUE. */
static ig_value once_per_block(struct ig_graph *g, ig_value v, int axis) {
    const struct ig_node *n = ig_def(g, v);
    ig_value x = IG_NO_VALUE;
    if (n && n->op == IG_OP_reshape) return beneath_repeats(g, n, axis);
    if (n && n->op == IG_OP_cast) {
        enum ingot_dtype dtype = ig_type_of(g, v)->dtype;
        x = once_per_block(g, n->in[0], axis);
        return x == IG_NO_VALUE ? x : ig_build_cast(g, x, dtype);
    }
    if (!n || n->op != IG_OP_slice || !cuts_end(g, n, axis)) return IG_NO_VALUE;
    ig_dim blocks = blocks_of(g, ig_type_of(g, v)->dim[axis]);
    x = once_per_block(g, n->in[0], axis);
    return x == IG_NO_VALUE ? x : ig_build_slice_axis(g, x, axis, ig_dim_const(g->dims, 0), blocks, 1);
}

/* The scale of a product `by` it, that was reshaped to `type`: each axis of `type` is one of the product's, or two, the second of which are
 * the elements of a block. */
static bool match_scale(struct ig_graph *g, ig_value scale, const struct ig_type *by, const struct ig_type *type,
                        struct operand *out) {
    const struct ig_type own = *ig_type_of(g, scale);
    ig_dim dims[INGOT_MAX_RANK], all[INGOT_MAX_RANK + 1], one = ig_dim_const(g->dims, 1),
                                                          block = ig_dim_const(g->dims, BLOCK);
    int at = 0;
    for (int i = 0; i < by->rank; i++)
        all[i] = i < by->rank - own.rank ? one : own.dim[i - (by->rank - own.rank)];
    for (int i = 0; i < type->rank; i++) {
        bool whole = at < by->rank && by->dim[at] == type->dim[i];
        bool split = !whole && at + 1 < by->rank && by->dim[at + 1] == block && all[at + 1] == one &&
                     ig_dim_mul(g->dims, by->dim[at], block) == type->dim[i];
        if (!whole && !split) return false;
        dims[i] = all[at];
        out->in_blocks[i] = split;
        at += whole ? 1 : 2;
    }
    out->scale = ig_build_reshape(g, scale, dims, type->rank);
    return at == by->rank;
}

/* One scale for each block along the axis, wherever it is not uniform along it. */
static bool find_blocks(struct ig_graph *g, struct operand *o, int axis) {
    if (o->in_blocks[axis] || is_size(g, ig_type_of(g, o->scale)->dim[axis], 1)) return true;
    ig_value once = once_per_block(g, o->scale, axis);
    if (once == IG_NO_VALUE) return false;
    o->scale = once;
    return o->in_blocks[axis] = true;
}

/* v = numbers * scale, in f32. */
static bool match_operand(struct ig_graph *g, ig_value v, int depth_axis, struct operand *out) {
    const struct ig_type type = *ig_type_of(g, v);
    ig_value product = beneath(g, v, IG_OP_reshape), x, y;
    if (type.dtype != INGOT_F32 || !ig_match_binary(g, product, IG_OP_mul, &x, &y)) return false;
    const struct ig_type by = *ig_type_of(g, product);
    bool second = !match_numbers(g, x, &out->numbers);
    if (second && !match_numbers(g, y, &out->numbers)) return false;
    if (!ig_same_dims(ig_type_of(g, second ? y : x), &by)) return false;
    if (!match_scale(g, second ? x : y, &by, &type, out) || !find_blocks(g, out, depth_axis)) return false;
    out->numbers = ig_build_reshape(g, out->numbers, type.dim, type.rank);
    return true;
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

/* v, before it was rounded from f32. */
static ig_value unrounded(const struct ig_graph *g, ig_value v) {
    const struct ig_node *n = ig_def_op(g, v, IG_OP_cast);
    bool rounded = n && ig_type_of(g, v)->dtype != INGOT_F32 && ig_type_of(g, n->in[0])->dtype == INGOT_F32;
    return rounded ? n->in[0] : v;
}

static ig_value turned(struct ig_graph *g, ig_value v) {
    static const int64_t turn[] = {1, 0};
    return ig_build_transpose(g, v, turn);
}

/* Weights, as numbers [n, k] and scales [blocks, n], or [blocks, blocks of n] where neighbouring columns share theirs. */
static bool match_weights(struct ig_graph *g, ig_value v, struct operand *out, int64_t *out_columns) {
    const struct ig_type matrix = *ig_type_of(g, v);
    const struct ig_node *n;
    bool lies_along = false; /* as [n, k] */
    if (matrix.rank != 2 || !ig_info(g, v)->is_const) return false;
    v = unrounded(g, v);
    while ((n = ig_def_op(g, v, IG_OP_transpose))) {
        lies_along = !lies_along;
        v = n->in[0];
    }
    v = unrounded(g, v);
    int depth = lies_along, across = !lies_along;
    if (!match_operand(g, v, depth, out)) return false;
    bool shared = find_blocks(g, out, across) && !is_size(g, blocks_of(g, matrix.dim[1]), 1);
    *out_columns = shared ? BLOCK : 1;
    ig_dim dims[] = {blocks_of(g, matrix.dim[0]), shared ? blocks_of(g, matrix.dim[1]) : matrix.dim[1]};
    if (!lies_along) out->numbers = turned(g, out->numbers);
    if (lies_along) out->scale = turned(g, out->scale);
    out->scale = ig_build_broadcast(g, out->scale, dims, 2);
    out->in_blocks[0] = out->in_blocks[depth];
    return true;
}

static bool match_types(struct ig_graph *g, const struct ig_target *target, ig_value a, ig_value b) {
    enum ingot_dtype first = ig_type_of(g, a)->dtype, second = ig_type_of(g, b)->dtype;
    return (is_byte(first) && is_byte(second)) ||
           (is_float8(first) && is_float8(second) && target->sm >= FIRST_FLOAT8_SM);
}

static bool has_few_rows(struct ig_graph *g, const struct ig_type *y) {
    int64_t lo, hi;
    ig_dim_range(g->dims, ig_dim_product(g->dims, y->dim, y->rank - 1), &lo, &hi);
    return hi <= FEW_ROWS;
}

static bool rewrite(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    const struct ig_type result = *ig_type_of(rw->in, n->out);
    struct operand a = {0}, b = {0};
    int64_t columns;
    if (n->op != IG_OP_matmul || ig_attr_int(rw->in, n, IG_ATTR_packed) != 0 || ig_info(g, in[0])->is_const)
        return false;
    const struct ig_type type = *ig_type_of(g, in[0]);
    int depth = type.rank - 1;
    if (!match_operand(g, unrounded(g, in[0]), depth, &a) || !match_weights(g, in[1], &b, &columns)) return false;
    if (!match_types(g, rw->options->target, a.numbers, b.numbers) || (!a.in_blocks[depth] && !b.in_blocks[0]))
        return false;
    if (is_float8(ig_type_of(g, a.numbers)->dtype) && has_few_rows(g, &result)) return false;
    struct ig_type scales = type;
    scales.dim[depth] = blocks_of(g, type.dim[depth]);
    ig_value row = ig_build_cast(g, ig_build_broadcast(g, a.scale, scales.dim, scales.rank), INGOT_F32);
    ig_value y =
        ig_build_matmul_scaled(g, a.numbers, b.numbers, row, ig_build_cast(g, b.scale, INGOT_F32), BLOCK, columns);
    out_values[0] = ig_build_cast(g, y, result.dtype);
    return true;
}

struct ig_graph *ig_pass_block_scales(struct ig_graph *in, const struct ig_pass_options *options) {
    bool is_gpu = options->target && ig_target_is_cuda(options->target);
    return is_gpu ? ig_rewrite(in, options, rewrite, NULL) : in;
}
