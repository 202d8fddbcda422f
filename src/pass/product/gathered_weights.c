/*
 * gathered-weights: rows that each choose a matrix of a list are multiplied by all of them, and choose among the results.
 *
 * Requires:   move-views (views between a gather and its product are gone); before merge-matmul, precision and pack.
 * Guarantees: a product of one row, or one column, by matrices that are gathered from a constant list [matrices, …], as exporters
 *             write a mixture's experts, becomes one product of all rows by the matrices side by side, and a gather of each row's
 *             part of the result. The weights are a recipe. Elements are the same sums.
 *
 * Each row would read a matrix of its own, as large as it is however few they are. By all matrices there is as much more to
 * multiply as there are matrices, but at the rate of a product of many rows.
 */
#include "pass/passes.h"
#include "pass/view/view.h"

enum {
    /* Matrices up to which multiplying by all of them is faster than reading one for each row, on CPUs and GPUs. */
    MOST_OF_CPU = 32,
    MOST_OF_GPU = 128
};

/* [rows] indices into `list`, whose matrices are gathered. */
struct choice {
    ig_value list, index;
};

/* In the new graph. */
static bool read_gathered(const struct ig_graph *g, ig_value v, struct choice *out) {
    const struct ig_node *n = ig_def(g, v);
    if (!n || (n->op != IG_OP_gather && n->op != IG_OP_gather_nd)) return false;
    *out = (struct choice){n->in[0], n->in[1]};
    const struct ig_type *list = ig_type_of(g, out->list), *index = ig_type_of(g, out->index);
    if (!ig_info(g, out->list)->is_const || ig_info(g, out->index)->is_const || list->rank != 3) return false;
    if (n->op == IG_OP_gather) return ig_attr_int(g, n, IG_ATTR_axis) == 0 && index->rank == 1;
    return ig_attr_int(g, n, IG_ATTR_batch_dims) == 0 && index->rank == 2 && ig_dim_is(g->dims, index->dim[1], 1);
}

/* The results of all take less memory than the gathered matrices as long as there are fewer matrices than the depth has elements. */
static bool pays(const struct ig_graph *g, const struct ig_target *target, ig_dim rows, ig_dim depth,
                 const struct ig_type *list) {
    int64_t sizes[INGOT_MAX_RANK], count, elements;
    if (!target || !ig_type_is_static(g->dims, list, sizes) || !ig_dim_usual(g->dims, rows, &count)) return false;
    if (!ig_dim_is_const(g->dims, depth, &elements) || sizes[0] >= elements) return false;
    return sizes[0] <= count && sizes[0] <= (ig_target_is_cuda(target) ? MOST_OF_GPU : MOST_OF_CPU);
}

/* The matrices side by side, [depth, matrices * columns]. */
static ig_value side_by_side(struct ig_graph *g, ig_value list, bool along) {
    const struct ig_type type = *ig_type_of(g, list);
    ig_dim columns = type.dim[along ? 1 : 2], depth = type.dim[along ? 2 : 1];
    ig_value w = ig_build_transpose(g, list, along ? (const int64_t[]){2, 0, 1} : (const int64_t[]){1, 0, 2});
    return ig_view_reshape(g, w, (const ig_dim[]){depth, ig_dim_mul(g->dims, type.dim[0], columns)}, 2);
}

/* The rows of x, [rows, depth]; or, if each is repeated, as a token is for its experts, what they are before that, and how often. */
static ig_value distinct_rows(struct ig_graph *g, ig_value x, ig_dim rows, ig_dim depth, ig_dim *out_times) {
    const struct ig_node *shaped = ig_def_op(g, x, IG_OP_reshape);
    const struct ig_node *repeated = ig_def_op(g, shaped ? shaped->in[0] : x, IG_OP_broadcast);
    *out_times = ig_dim_const(g->dims, 1);
    if (!repeated) return ig_view_reshape(g, x, (const ig_dim[]){rows, depth}, 2);
    const struct ig_type once = *ig_type_of(g, repeated->in[0]), all = *ig_type_of(g, repeated->out);
    const bool fits = once.rank == 3 && all.rank == 3 && once.dim[0] == all.dim[0] && once.dim[2] == depth &&
                      ig_dim_is(g->dims, once.dim[1], 1);
    if (!fits) return ig_view_reshape(g, x, (const ig_dim[]){rows, depth}, 2);
    *out_times = all.dim[1];
    return ig_view_reshape(g, repeated->in[0], (const ig_dim[]){once.dim[0], depth}, 2);
}

static bool multiply_by_all(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    struct choice c;
    if (n->op != IG_OP_matmul || ig_attr_int(rw->in, n, IG_ATTR_packed) != 0) return false;
    const bool left = read_gathered(g, in[0], &c); /* the matrix: its lines lie along the depth */
    if (!left && !read_gathered(g, in[1], &c)) return false;
    const struct ig_type x = *ig_type_of(g, in[left ? 1 : 0]), list = *ig_type_of(g, c.list);
    if (x.rank != 3 || !ig_dim_is(g->dims, x.dim[left ? 2 : 1], 1)) return false;
    const ig_dim rows = ig_type_of(g, c.index)->dim[0], depth = x.dim[left ? 1 : 2], columns = list.dim[left ? 1 : 2];
    if (x.dim[0] != rows || !pays(g, rw->options->target, rows, depth, &list)) return false;
    ig_dim times, one = ig_dim_const(g->dims, 1);
    ig_value v = distinct_rows(g, in[left ? 1 : 0], rows, depth, &times);
    const ig_dim distinct = ig_type_of(g, v)->dim[0];
    v = ig_build_matmul(g, v, side_by_side(g, c.list, left), (enum ingot_dtype)ig_attr_int(rw->in, n, IG_ATTR_acc));
    const ig_dim width = ig_type_of(g, v)->dim[1];
    v = ig_view_reshape(g, v, (const ig_dim[]){distinct, one, width}, 3);
    v = ig_build_broadcast(g, v, (const ig_dim[]){distinct, times, width}, 3);
    v = ig_view_reshape(g, v, (const ig_dim[]){rows, list.dim[0], columns}, 3);
    ig_value index = ig_view_reshape(g, c.index, (const ig_dim[]){rows, one}, 2);
    const struct ig_attr batch = ig_attr_of_int(1);
    v = ig_build_node(g, IG_OP_gather_nd, (const ig_value[]){v, index}, 2, 1, &batch, NULL);
    const struct ig_type *result = ig_type_of(rw->in, n->out);
    out_values[0] = ig_view_reshape(g, v, result->dim, result->rank);
    return true;
}

struct ig_graph *ig_pass_gathered_weights(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, multiply_by_all, NULL);
}
