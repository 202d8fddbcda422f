/*
 * join-windows: on GPUs, depthwise convolutions of the parts of an image's channels become one of all channels.
 *
 * Requires:   canonicalize; before fold-batch-norm, which folds what follows into the weights, and before move-views and layout.
 * Guarantees: where a value's channels are divided, each part is convolved depthwise with windows of its own size, and the results are joined
 *             again in the same order ("mixed depthwise convolution", Tan and Le, 2019; positions of CoaT, Xu et al., 2021), one
 *             convolution has the largest window, with zeros around the smaller ones. The sums get zeros as further terms: results are the same,
 *             but next to values that are infinite or NaN, which the zeros make NaN.
 *
 * Each part by itself is a kernel, or two where its channels are no whole loads of 16 bytes, and another joins them; taps are cheap beside
 * that, in particular where tensor cores multiply them (kernel/cuda/contract/contract_banded.c).
 */
#include "pass/passes.h"
#include "pass/product/join_branches.h"
#include "pass/view/view.h"

enum { MOST_PARTS = 16, MOST_TIMES = 4 /* of the taps there were */ };

/* The parts of a concatenation along the channels: convolutions in the new graph. */
struct parts {
    ig_value x; /* of all channels */
    struct ig_node conv[MOST_PARTS];
    int64_t at[MOST_PARTS][INGOT_MAX_RANK]; /* where each one's window lies in the largest */
    int64_t channels[MOST_PARTS], all;
    int count, largest;
    bool biased;
};

static bool is_depthwise(const struct ig_graph *g, const struct ig_node *n, int64_t *out_channels) {
    const struct ig_type *w = ig_type_of(g, n->in[1]);
    int64_t sizes[INGOT_MAX_RANK];
    if (!ig_info(g, n->in[1])->is_const || ig_attr_int(g, n, IG_ATTR_packed) != 0 ||
        ig_attr_int(g, n, IG_ATTR_channels_last) || ig_attr_int(g, n, IG_ATTR_border) || n->n_in > 3)
        return false;
    if (n->n_in > 2 && n->in[2] != IG_NO_VALUE && !ig_info(g, n->in[2])->is_const) return false;
    if (!ig_type_is_static(g->dims, w, sizes) || w->dtype != ig_type_of(g, n->out)->dtype) return false;
    *out_channels = sizes[0];
    return sizes[1] == 1 && ig_attr_int(g, n, IG_ATTR_groups) == sizes[0] &&
           ig_dim_is(g->dims, ig_type_of(g, n->in[0])->dim[1], sizes[0]);
}

/* Is v the `channels` channels of another value from `first` on? Returns that. */
static ig_value match_part(const struct ig_graph *g, ig_value v, int64_t first) {
    const struct ig_node *n = ig_def_op(g, v, IG_OP_slice);
    if (!n) return IG_NO_VALUE;
    const struct ig_type *whole = ig_type_of(g, n->in[0]), *part = ig_type_of(g, v);
    for (int i = 0; i < whole->rank; i++) {
        if (ig_attr(g, n, IG_ATTR_steps)->ints[i] != 1) return IG_NO_VALUE;
        if (i != 1 && part->dim[i] != whole->dim[i]) return IG_NO_VALUE;
        if (!ig_dim_is(g->dims, ig_attr(g, n, IG_ATTR_starts)->dims[i], i == 1 ? first : 0)) return IG_NO_VALUE;
    }
    return n->in[0];
}

static int64_t taps_of(const struct ig_graph *g, const struct ig_node *n) {
    const struct ig_attr *kernel = ig_attr(g, n, IG_ATTR_kernel);
    int64_t taps = 1;
    for (int i = 0; i < kernel->count; i++)
        taps *= kernel->ints[i];
    return taps;
}

static bool find_parts(const struct ig_rewriter *rw, const struct ig_node *concat, const ig_value *in,
                       struct parts *out) {
    struct ig_graph *g = rw->out;
    *out = (struct parts){.x = IG_NO_VALUE, .count = (int)concat->n_in};
    if (concat->n_in < 2 || concat->n_in > MOST_PARTS || ig_attr_int(rw->in, concat, IG_ATTR_axis) != 1) return false;
    for (int i = 0; i < out->count; i++) {
        const struct ig_node *n = ig_def_op(g, in[i], IG_OP_conv);
        if (!n || rw->uses[concat->in[i]] != 1 || !is_depthwise(g, n, &out->channels[i])) return false;
        ig_value x = match_part(g, n->in[0], out->all);
        if (x == IG_NO_VALUE || (i > 0 && x != out->x)) return false;
        out->x = x;
        out->conv[i] = *n;
        out->all += out->channels[i];
        out->biased = out->biased || (n->n_in > 2 && n->in[2] != IG_NO_VALUE);
        if (taps_of(g, n) > taps_of(g, &out->conv[out->largest])) out->largest = i;
    }
    for (int i = 0; i < out->count; i++) {
        if (!ig_place_window(g, &out->conv[out->largest], &out->conv[i], out->at[i])) return false;
    }
    return ig_dim_is(g->dims, ig_type_of(g, out->x)->dim[1], out->all);
}

static bool pays(const struct ig_graph *g, const struct parts *p) {
    int64_t taps = 0;
    for (int i = 0; i < p->count; i++)
        taps += p->channels[i] * taps_of(g, &p->conv[i]);
    return p->all * taps_of(g, &p->conv[p->largest]) <= MOST_TIMES * taps;
}

static ig_value bias_of(struct ig_graph *g, const struct parts *p, int i) {
    const struct ig_node *n = &p->conv[i];
    if (n->n_in > 2 && n->in[2] != IG_NO_VALUE) return n->in[2];
    const ig_dim channels = ig_dim_const(g->dims, p->channels[i]);
    return ig_build_broadcast(g, ig_build_scalar(g, ig_type_of(g, n->out)->dtype, 0), &channels, 1);
}

static bool rewrite(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    struct parts p;
    ig_value weights[MOST_PARTS], biases[MOST_PARTS];
    if (n->op != IG_OP_concat || !find_parts(rw, n, in, &p) || !pays(g, &p)) return false;
    const struct ig_node *largest = &p.conv[p.largest];
    for (int i = 0; i < p.count; i++) {
        weights[i] = ig_window_within(g, p.conv[i].in[1], largest, p.at[i]);
        if (p.biased) biases[i] = bias_of(g, &p, i);
    }
    struct ig_attr *attrs = ig_attrs_copy(g, IG_OP_conv, largest->attr);
    attrs[ig_attr_slot(IG_OP_conv, IG_ATTR_groups)] = ig_attr_of_int(p.all);
    attrs[ig_attr_slot(IG_OP_conv, IG_ATTR_n)] = ig_attr_of_int(p.all);
    const ig_value operands[3] = {p.x, ig_build_concat(g, weights, p.count, 0),
                                  p.biased ? ig_build_concat(g, biases, p.count, 0) : IG_NO_VALUE};
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    out_values[0] = ig_build_node(g, IG_OP_conv, operands, p.biased ? 3 : 2, 1, attrs, no_bodies);
    return true;
}

struct ig_graph *ig_pass_join_windows(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_target_is_cuda(options->target) ? ig_rewrite(in, options, rewrite, NULL) : in;
}
