/*
 * layout: convolutions and pooling windows become channels-last (NHWC).
 *
 * Requires:   nothing; works best after move-views.
 * Guarantees: every conv and pool has channels_last = 1. No transpose is left between two of them unless an operator in
 *             between really needs the other order. On GPUs, convolutions over separate patches of a picture become
 *             matrix products instead.
 *
 * One sweep. A convolution of x becomes transpose(conv(transpose(x))), and the operators that follow absorb the
 * transpose (sink*.c): elementwise operators with per-channel constants transposed as recipes, residual adds,
 * concatenations, reductions, resizing gathers, reshapes that split or merge axes in place. So the next convolution's
 * own transpose meets its inverse, and both vanish. Mixed operands become channels-last if at least half of them are. A
 * convolutional network ends up with one transpose at its entry, which is part of the first convolution's addressing,
 * and one where it leaves four dimensions, or on GPUs before what enlarges a picture that no convolution follows.
 */
#include "base/map.h"
#include "pass/passes.h"
#include "pass/view/view.h"

static bool is_window(const struct ig_node *n) {
    return n->op == IG_OP_conv || ig_op_info(n->op)->family == IG_FAMILY_WINDOW;
}

static bool has_windows(const struct ig_graph *g) {
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (is_window(n)) return true;
        for (int b = 0; b < 2; b++) {
            if (n->body[b] && has_windows(n->body[b])) return true;
        }
    }
    return false;
}

static ig_value to_channels_last(struct ig_graph *g, const struct ig_node *n, const ig_value *in) {
    int64_t perm[INGOT_MAX_RANK];
    int rank = ig_type_of(g, in[0])->rank;
    ig_value operands[3] = {IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE};
    for (uint32_t i = 0; i < n->n_in; i++)
        operands[i] = in[i];
    ig_perm_to_last(rank, perm);
    operands[0] = ig_view_transpose(g, in[0], perm);
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    attrs[ig_attr_slot(n->op, IG_ATTR_channels_last)].i = 1;
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    ig_value last = ig_build_node(g, n->op, operands, n->n_in, n->n_out, attrs, no_bodies);
    ig_perm_to_first(rank, perm);
    return ig_view_transpose(g, last, perm);
}

/* Is this a patch embedding, like the first convolution of a vision transformer: windows that tile the image without
 * overlap or gap, at least four columns wide, and fewer channels than a vector load of a GPU has elements? */
static bool is_patches(struct ig_graph *g, const struct ig_graph *of, const struct ig_node *n, const ig_value *in) {
    const struct ig_type *x = ig_type_of(g, in[0]), *w = ig_type_of(g, in[1]);
    const struct ig_attr *strides = &n->attr[ig_attr_slot(n->op, IG_ATTR_strides)];
    const struct ig_attr *before = &n->attr[ig_attr_slot(n->op, IG_ATTR_before)];
    const struct ig_attr *after = &n->attr[ig_attr_slot(n->op, IG_ATTR_after)];
    int64_t channels, size, kernel;
    if (ig_attr_int(of, n, IG_ATTR_groups) != 1 || 2 * x->rank - 2 > INGOT_MAX_RANK) return false;
    if (!ig_dim_is_const(g->dims, x->dim[1], &channels) || channels >= 8) return false;
    for (int i = 2; i < x->rank; i++) {
        if (!ig_dim_is_const(g->dims, w->dim[i], &kernel) || !ig_dim_is_const(g->dims, x->dim[i], &size)) return false;
        if ((i == x->rank - 1 && kernel < 4) || strides->ints[i - 2] != kernel || size % kernel != 0) return false;
        if (!ig_dim_is(g->dims, before->dims[i - 2], 0) || !ig_dim_is(g->dims, after->dims[i - 2], 0)) return false;
    }
    return true;
}

/* Multiplies the matrix of patches, [N, patches, C x kernel...], with the weights. Gathering it in this order costs no
 * more than channels-last. */
static ig_value multiply_patches(struct ig_graph *g, const struct ig_node *n, const ig_value *in) {
    const struct ig_type *x = ig_type_of(g, in[0]), *w = ig_type_of(g, in[1]);
    ig_dim split[INGOT_MAX_RANK], out_dims[INGOT_MAX_RANK], one = ig_dim_const(g->dims, 1);
    int64_t perm[INGOT_MAX_RANK];
    int spatial = x->rank - 2, rank = 2 + 2 * spatial;
    ig_dim patches = one, depth = w->dim[1], columns = w->dim[0];
    split[0] = out_dims[0] = x->dim[0];
    split[1] = x->dim[1];
    perm[0] = 0;
    perm[1 + spatial] = 1;
    for (int i = 0; i < spatial; i++) {
        split[2 + 2 * i] = out_dims[1 + i] = ig_dim_div(g->dims, x->dim[2 + i], w->dim[2 + i]);
        split[3 + 2 * i] = w->dim[2 + i];
        perm[1 + i] = 2 + 2 * i;
        perm[2 + spatial + i] = 3 + 2 * i;
        patches = ig_dim_mul(g->dims, patches, out_dims[1 + i]);
        depth = ig_dim_mul(g->dims, depth, w->dim[2 + i]);
    }
    out_dims[1 + spatial] = columns;
    ig_value a = ig_view_transpose(g, ig_view_reshape(g, in[0], split, rank), perm);
    a = ig_view_reshape(g, a, (ig_dim[]){x->dim[0], patches, depth}, 3);
    ig_value b = ig_view_reshape(g, in[1], (ig_dim[]){columns, depth}, 2);
    b = ig_view_transpose(g, b, (int64_t[]){1, 0});
    ig_value product = ig_build_matmul(g, a, b, (enum ingot_dtype)n->attr[ig_attr_slot(n->op, IG_ATTR_acc)].i);
    if (n->n_in > 2) product = ig_map2(g, IG_OP_add, product, in[2]);
    ig_perm_to_first(x->rank, perm);
    return ig_view_transpose(g, ig_view_reshape(g, product, out_dims, x->rank), perm);
}

struct state {
    struct ig_map layouts;
    struct ig_followed followed;
};

static bool change_layout(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    enum ig_family family = ig_op_info(n->op)->family;
    if (n->n_out != 1 || n->n_in == 0 || family == IG_FAMILY_CONTROL) return false;
    struct state *state = rw->state;
    bool ends = ig_target_is_cuda(rw->options->target) && !ig_is_followed(&state->followed, rw->in, n);
    struct ig_sink s = {.g = rw->out, .eager = true, .layouts = &state->layouts, .ends = ends};
    if (is_window(n) && !ig_attr_int(rw->in, n, IG_ATTR_channels_last)) {
        bool patches =
            n->op == IG_OP_conv && ig_target_is_cuda(rw->options->target) && is_patches(rw->out, rw->in, n, in);
        out_values[0] = patches ? multiply_patches(rw->out, n, in) : to_channels_last(rw->out, n, in);
        ig_sink_mark(&s, out_values[0]);
        return true;
    }
    out_values[0] = ig_sink_node(&s, n->op, in, n->n_in, n->attr);
    return true;
}

struct ig_graph *ig_pass_layout(struct ig_graph *in, const struct ig_pass_options *options) {
    if (!has_windows(in)) return in;
    struct state state = {0};
    ig_map_init(&state.layouts, in->job);
    return ig_pass_move_views(ig_rewrite(in, options, change_layout, &state), options);
}
