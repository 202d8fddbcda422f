/* Movement: concatenation, gathers and scatters, tiles, blocks, sorting. */
#include "import/onnx/importer.h"
#include "import/onnx/op/arith.h"

ig_value ig_import_concat(struct ig_onnx_node *n) {
    if (!ig_onnx_attr(n, "axis")) ig_onnx_bad(n, "attribute 'axis' is missing");
    int axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", 0), ig_onnx_rank(n, ig_onnx_in(n, 0)));
    for (uint32_t i = 1; i < n->n_in; i++) {
        ig_value part = ig_onnx_in(n, i);
        ig_onnx_check_same_type(n, n->in[0], part);
        ig_onnx_check_rank(n, part, ig_onnx_rank(n, n->in[0]), ig_onnx_rank(n, n->in[0]), "an input");
    }
    return n->n_in == 1 ? n->in[0] : ig_build_concat(n->g, n->in, (int)n->n_in, axis);
}

/* ---- Gathers ---- */

static ig_value index_input(struct ig_onnx_node *n, uint32_t input) {
    ig_value index = ig_onnx_in(n, input);
    enum ingot_dtype type = ig_onnx_type(n, index);
    if (type != INGOT_I32 && type != INGOT_I64) ig_onnx_bad(n, "indices of type %s", ingot_dtype_name(type));
    return index;
}

ig_value ig_import_gather(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0), index = index_input(n, 1);
    int rank = ig_onnx_rank(n, x), result = rank - 1 + ig_onnx_rank(n, index);
    int axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", 0), rank);
    if (result > INGOT_MAX_RANK)
        ig_onnx_refuse(n, "the result has rank %d, at most %d is supported", result, INGOT_MAX_RANK);
    return ig_build_gather(n->g, x, index, axis);
}

ig_value ig_import_gather_elements(struct ig_onnx_node *n) {
    ig_value in[] = {ig_onnx_in(n, 0), index_input(n, 1)};
    int rank = ig_onnx_rank(n, in[0]);
    ig_onnx_check_rank(n, in[1], rank, rank, "input 1");
    struct ig_attr axis = ig_attr_of_int(ig_onnx_axis(n, ig_onnx_int(n, "axis", 0), rank));
    return ig_build_node(n->g, IG_OP_gather_elements, in, 2, 1, &axis, NULL);
}

ig_value ig_import_gather_nd(struct ig_onnx_node *n) {
    ig_value in[] = {ig_onnx_in(n, 0), index_input(n, 1)};
    int64_t batch = ig_onnx_int(n, "batch_dims", 0);
    int rank = ig_onnx_rank(n, in[0]), index_rank = ig_onnx_rank(n, in[1]);
    ig_onnx_check_rank(n, in[1], 1, INGOT_MAX_RANK, "input 1");
    if (batch < 0 || batch >= index_rank || batch >= rank)
        ig_onnx_bad(n, "attribute 'batch_dims' is %lld", (long long)batch);
    int64_t depth = ig_onnx_static_dim(n, in[1], index_rank - 1, "the size of the index's last axis");
    if (depth < 1 || batch + depth > rank)
        ig_onnx_bad(n, "indices of %lld coordinates for rank %d", (long long)depth, rank);
    if (index_rank - 1 + rank - depth - batch > INGOT_MAX_RANK)
        ig_onnx_refuse(n, "the result's rank is over %d", INGOT_MAX_RANK);
    struct ig_attr attr = ig_attr_of_int(batch);
    return ig_build_node(n->g, IG_OP_gather_nd, in, 2, 1, &attr, NULL);
}

static struct ig_attr scatter_reduction(struct ig_onnx_node *n) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    static const enum ig_scatter core[] = {IG_SCATTER_SET, IG_SCATTER_ADD, IG_SCATTER_MUL, IG_SCATTER_MAX,
                                           IG_SCATTER_MIN};
    return ig_attr_of_int(core[ig_onnx_choice(n, "reduction", names, 5, 0)]);
}

ig_value ig_import_scatter_elements(struct ig_onnx_node *n) {
    ig_value in[] = {ig_onnx_in(n, 0), index_input(n, 1), ig_onnx_in(n, 2)};
    int rank = ig_onnx_rank(n, in[0]);
    ig_onnx_check_same_type(n, in[0], in[2]);
    ig_onnx_check_rank(n, in[1], rank, rank, "input 1");
    ig_onnx_check_rank(n, in[2], rank, rank, "input 2");
    struct ig_attr attrs[] = {ig_attr_of_int(ig_onnx_axis(n, ig_onnx_int(n, "axis", 0), rank)), scatter_reduction(n)};
    return ig_build_node(n->g, IG_OP_scatter_elements, in, 3, 1, attrs, NULL);
}

ig_value ig_import_scatter_nd(struct ig_onnx_node *n) {
    ig_value in[] = {ig_onnx_in(n, 0), index_input(n, 1), ig_onnx_in(n, 2)};
    ig_onnx_check_same_type(n, in[0], in[2]);
    ig_onnx_check_rank(n, in[1], 1, INGOT_MAX_RANK, "input 1");
    struct ig_attr attr = scatter_reduction(n);
    return ig_build_node(n->g, IG_OP_scatter_nd, in, 3, 1, &attr, NULL);
}

/* ---- Tiles and blocks ---- */

/* Repeats one axis: reshapes to [before, 1, axis, after], broadcasts, and reshapes back. */
static ig_value tile_axis(struct ig_onnx_node *n, ig_value x, int axis, ig_dim times) {
    struct ig_dims *dims = n->dims;
    struct ig_type type = *ig_type_of(n->g, x);
    ig_dim before = ig_dim_product(dims, type.dim, axis);
    ig_dim block = ig_dim_product(dims, type.dim + axis, type.rank - axis);
    ig_dim apart[] = {before, ig_dim_const(dims, 1), block}, stretched[] = {before, times, block};
    x = ig_build_broadcast(n->g, ig_build_reshape(n->g, x, apart, 3), stretched, 3);
    type.dim[axis] = ig_dim_mul(dims, type.dim[axis], times);
    return ig_build_reshape(n->g, x, type.dim, type.rank);
}

ig_value ig_import_tile(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    int rank = ig_onnx_rank(n, x), count;
    const ig_dim *repeats = ig_onnx_elements(n, 1, "repeats", &count);
    ig_dim one = ig_dim_const(n->dims, 1), zero = ig_dim_const(n->dims, 0);
    if (count != rank) ig_onnx_bad(n, "'repeats' has %d values, expected %d", count, rank);
    for (int i = rank - 1; i >= 0; i--) {
        if (repeats[i] != one) x = tile_axis(n, x, i, ig_dim_max(n->dims, repeats[i], zero));
    }
    return x;
}

/* Checks that x is [N, C, H, W]; returns the block size of DepthToSpace and SpaceToDepth. */
static int64_t block_size(struct ig_onnx_node *n, ig_value x) {
    int64_t block = ig_onnx_int(n, "blocksize", 0);
    ig_onnx_check_rank(n, x, 4, 4, "input 0");
    if (block < 1 || block > INT32_MAX) ig_onnx_bad(n, "attribute 'blocksize' is %lld", (long long)block);
    return block;
}

ig_value ig_import_depth_to_space(struct ig_onnx_node *n) {
    static const char *const modes[] = {"DCR", "CRD"};
    static const int64_t perms[2][6] = {{0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}};
    ig_value x = ig_onnx_in(n, 0);
    struct ig_dims *dims = n->dims;
    ig_dim b = ig_dim_const(dims, block_size(n, x)), square = ig_dim_mul(dims, b, b);
    int mode = ig_onnx_choice(n, "mode", modes, 2, 0);
    struct ig_type t = *ig_type_of(n->g, x);
    if (!ig_dim_divides(dims, square, t.dim[1])) ig_onnx_bad(n, "the channels are no multiple of the block");
    ig_dim c = ig_dim_div(dims, t.dim[1], square);
    ig_dim dcr[] = {t.dim[0], b, b, c, t.dim[2], t.dim[3]}, crd[] = {t.dim[0], c, b, b, t.dim[2], t.dim[3]};
    ig_dim whole[] = {t.dim[0], c, ig_dim_mul(dims, t.dim[2], b), ig_dim_mul(dims, t.dim[3], b)};
    x = ig_build_reshape(n->g, x, mode == 0 ? dcr : crd, 6);
    return ig_build_reshape(n->g, ig_build_transpose(n->g, x, perms[mode]), whole, 4);
}

ig_value ig_import_space_to_depth(struct ig_onnx_node *n) {
    static const int64_t perm[] = {0, 3, 5, 1, 2, 4};
    ig_value x = ig_onnx_in(n, 0);
    struct ig_dims *dims = n->dims;
    ig_dim b = ig_dim_const(dims, block_size(n, x));
    struct ig_type t = *ig_type_of(n->g, x);
    ig_dim h = ig_dim_div(dims, t.dim[2], b), w = ig_dim_div(dims, t.dim[3], b);
    ig_dim split[] = {t.dim[0], t.dim[1], h, b, w, b};
    ig_dim deep[] = {t.dim[0], ig_dim_mul(dims, t.dim[1], ig_dim_mul(dims, b, b)), h, w};
    x = ig_build_reshape(n->g, x, split, 6);
    return ig_build_reshape(n->g, ig_build_transpose(n->g, x, perm), deep, 4);
}

/* ---- Sorting and sequences ---- */

ig_value ig_import_topk(struct ig_onnx_node *n) {
    ig_value x = ig_onnx_in(n, 0);
    ig_onnx_check_rank(n, x, 1, INGOT_MAX_RANK, "input 0");
    int axis = ig_onnx_axis(n, ig_onnx_int(n, "axis", -1), ig_onnx_rank(n, x));
    ig_dim k = n->opset >= 10 ? ig_onnx_element(n, 1, "K") : ig_dim_const(n->dims, ig_onnx_int(n, "k", 0));
    if (ig_dim_less(n->dims, ig_onnx_dim(n, x, axis), k) == IG_YES) {
        ig_onnx_bad(n, "K is %s, the axis has only %s", ig_dim_text(n->dims, k),
                    ig_dim_text(n->dims, ig_onnx_dim(n, x, axis)));
    }
    struct ig_attr attrs[] = {ig_attr_of_int(axis), ig_attr_of_dim(k),
                              ig_attr_of_int(ig_onnx_flag(n, "largest", true))};
    ig_value values = ig_build_node(n->g, IG_OP_topk, &x, 1, 2, attrs, NULL);
    if (n->n_out > 1) n->out[1] = values + 1;
    return values;
}

/* Reverses the first lengths[b] steps of every sequence b: step t < lengths[b] is taken from lengths[b] - 1 - t. */
ig_value ig_import_reverse_sequence(struct ig_onnx_node *n) {
    struct ig_graph *g = n->g;
    ig_value x = ig_onnx_in(n, 0), lengths = ig_build_cast(g, ig_onnx_in(n, 1), INGOT_I64);
    struct ig_type type = *ig_type_of(g, x);
    int64_t time = ig_onnx_int(n, "time_axis", 0), batch = ig_onnx_int(n, "batch_axis", 1);
    ig_onnx_check_rank(n, x, 2, INGOT_MAX_RANK, "input 0");
    if (!(time == 0 && batch == 1) && !(time == 1 && batch == 0)) ig_onnx_bad(n, "the axes are not 0 and 1");
    ig_value step = ig_onnx_along(n, ig_build_iota(g, &type.dim[time], 1, 0), (int)time, type.rank);
    lengths = ig_onnx_along(n, lengths, (int)batch, type.rank);
    ig_value mirrored = ig_sub(g, ig_sub(g, lengths, step), ig_build_scalar_int(g, INGOT_I64, 1));
    ig_value index = ig_build_where(g, ig_lt(g, step, lengths), mirrored, step);
    ig_value in[] = {x, ig_build_broadcast(g, index, type.dim, type.rank)};
    struct ig_attr axis = ig_attr_of_int(time);
    return ig_build_node(g, IG_OP_gather_elements, in, 2, 1, &axis, NULL);
}
