/* Joins convolutions of one input; see join_branches.h. */
#include "pass/product/join_branches.h"

#include <string.h>

#include "pass/product/join_groups.h"
#include "pass/view/view.h"

enum { MAX_SPATIAL = INGOT_MAX_RANK - 2 };

/* A branch: x, convolved, plus a bias (or IG_NO_VALUE). Of a scaled input the weights are [M, 1, 1...] or a diagonal. */
struct branch {
    ig_value x, w, bias;
    const struct ig_node *conv; /* NULL: the scaled input */
};

static int64_t known(const struct ig_graph *g, ig_dim d) {
    int64_t value;
    return ig_dim_is_const(g->dims, d, &value) ? value : -1;
}

static bool read_conv(struct ig_graph *g, ig_value v, struct branch *out) {
    const struct ig_node *n = ig_def_op(g, v, IG_OP_conv);
    if (!n || !ig_info(g, n->in[1])->is_const || ig_attr_int(g, n, IG_ATTR_packed) != 0) return false;
    *out = (struct branch){n->in[0], n->in[1], n->n_in > 2 ? n->in[2] : IG_NO_VALUE, n};
    if (out->bias != IG_NO_VALUE && !ig_info(g, out->bias)->is_const) return false;
    const struct ig_type *w = ig_type_of(g, out->w), *y = ig_type_of(g, v);
    int64_t sizes[INGOT_MAX_RANK];
    return ig_dtype_is_float(y->dtype) && w->dtype == y->dtype && ig_type_is_static(g->dims, w, sizes) &&
           !ig_attr_int(g, n, IG_ATTR_channels_last) && w->rank - 2 <= MAX_SPATIAL;
}

/* ---- The input itself -------------------------------------------------------------------------------------------- */

/* c as [channels], if it is a constant that varies along axis 1 only of values of `like`; else IG_NO_VALUE. */
static ig_value by_channel(struct ig_graph *g, ig_value c, const struct ig_type *like) {
    const struct ig_type *type = ig_type_of(g, c);
    ig_dim channels = like->dim[1];
    if (!ig_info(g, c)->is_const || type->rank > like->rank || type->dtype != like->dtype) return IG_NO_VALUE;
    for (int i = 0; i < type->rank; i++) {
        bool along = like->rank - type->rank + i == 1;
        if (type->dim[i] != (along ? channels : ig_dim_const(g->dims, 1))) return IG_NO_VALUE;
    }
    if (like->rank - type->rank > 1) return IG_NO_VALUE; /* one number for all channels */
    return ig_view_reshape(g, c, &channels, 1);
}

/* v = x * scale + shift, or x * scale. */
static bool read_scaled(struct ig_graph *g, ig_value v, ig_value x, struct branch *out) {
    const struct ig_type type = *ig_type_of(g, x);
    const struct ig_node *sum = ig_def_op(g, v, IG_OP_add);
    *out = (struct branch){x, IG_NO_VALUE, IG_NO_VALUE, NULL};
    if (sum) {
        out->bias = by_channel(g, sum->in[1], &type);
        if (out->bias == IG_NO_VALUE) return false;
        v = sum->in[0];
    }
    const struct ig_node *product = ig_def_op(g, v, IG_OP_mul);
    if (!product || product->in[0] != x) return false;
    out->w = by_channel(g, product->in[1], &type);
    return out->w != IG_NO_VALUE;
}

/* The weights of a convolution of 1 x 1 with as many groups as `conv` that scales each channel; IG_NO_VALUE if groups are
 * neither one nor single channels. */
static ig_value weights_of_scale(struct ig_graph *g, ig_value scale, const struct branch *conv) {
    const struct ig_type w = *ig_type_of(g, conv->w);
    const int64_t n = known(g, w.dim[0]), groups = ig_attr_int(g, conv->conv, IG_ATTR_groups);
    const ig_dim channels = w.dim[0], one = ig_dim_const(g->dims, 1);
    if (groups != n && groups != 1) return IG_NO_VALUE;
    if (groups == 1)
        scale = ig_spread_diagonal(g, ig_view_reshape(g, scale, (ig_dim[]){one, channels, one}, 3), 1, n, 1);
    ig_dim dims[INGOT_MAX_RANK] = {channels, groups == 1 ? channels : one};
    for (int i = 2; i < w.rank; i++)
        dims[i] = one;
    return ig_view_reshape(g, scale, dims, w.rank);
}

/* ---- One window within another ----------------------------------------------------------------------------------- */

bool ig_place_window(const struct ig_graph *g, const struct ig_node *large, const struct ig_node *small,
                     int64_t *out_at) {
    const struct ig_attr *kernel = ig_attr(g, large, IG_ATTR_kernel), *strides = ig_attr(g, large, IG_ATTR_strides);
    const struct ig_attr *dilations = ig_attr(g, large, IG_ATTR_dilations), *before = ig_attr(g, large, IG_ATTR_before);
    for (int i = 0; i < kernel->count; i++) {
        int64_t size = small ? ig_attr(g, small, IG_ATTR_kernel)->ints[i] : 1;
        int64_t stride = small ? ig_attr(g, small, IG_ATTR_strides)->ints[i] : 1;
        int64_t dilation = small && size > 1 ? ig_attr(g, small, IG_ATTR_dilations)->ints[i] : dilations->ints[i];
        int64_t own = small ? known(g, ig_attr(g, small, IG_ATTR_before)->dims[i]) : 0;
        int64_t all = known(g, before->dims[i]), ahead = all - own;
        if (own < 0 || all < 0 || stride != strides->ints[i] || dilation != dilations->ints[i]) return false;
        if (ahead < 0 || ahead % dilation != 0 || ahead / dilation + size > kernel->ints[i]) return false;
        out_at[i] = ahead / dilation;
    }
    return true;
}

ig_value ig_window_within(struct ig_graph *g, ig_value w, const struct ig_node *large, const int64_t *at) {
    const struct ig_attr *kernel = ig_attr(g, large, IG_ATTR_kernel);
    const struct ig_type own = *ig_type_of(g, w);
    ig_dim before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    bool whole = true;
    for (int i = 0; i < own.rank; i++) {
        const int64_t ahead = i < 2 ? 0 : at[i - 2];
        const int64_t behind = i < 2 ? 0 : kernel->ints[i - 2] - known(g, own.dim[i]) - ahead;
        before[i] = ig_dim_const(g->dims, ahead);
        after[i] = ig_dim_const(g->dims, behind);
        whole = whole && ahead == 0 && behind == 0;
    }
    return whole ? w : ig_build_pad(g, w, before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
}

static ig_value join(struct ig_graph *g, const struct branch *large, const struct branch *small) {
    int64_t at[MAX_SPATIAL] = {0};
    if (!ig_place_window(g, large->conv, small->conv, at)) return IG_NO_VALUE;
    const int64_t groups = ig_attr_int(g, large->conv, IG_ATTR_groups);
    if (small->conv && groups != ig_attr_int(g, small->conv, IG_ATTR_groups)) return IG_NO_VALUE;
    ig_value w = small->conv ? small->w : weights_of_scale(g, small->w, large), bias = large->bias;
    if (w == IG_NO_VALUE) return IG_NO_VALUE;
    if (bias == IG_NO_VALUE)
        bias = small->bias;
    else if (small->bias != IG_NO_VALUE)
        bias = ig_map2(g, IG_OP_add, bias, small->bias);
    const struct ig_attr *attrs = large->conv->attr; /* in the arena: nodes are appended */
    w = ig_window_within(g, w, large->conv, at);
    ig_value in[3] = {large->x, ig_map2(g, IG_OP_add, large->w, w), bias};
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    return ig_build_node(g, IG_OP_conv, in, bias == IG_NO_VALUE ? 2 : 3, 1, attrs, no_bodies);
}

ig_value ig_join_branches(struct ig_graph *g, ig_value a, ig_value b) {
    struct branch first, second;
    const struct ig_type type = *ig_type_of(g, a);
    if (!ig_same_dims(&type, ig_type_of(g, b))) return IG_NO_VALUE;
    bool a_is_conv = read_conv(g, a, &first), b_is_conv = read_conv(g, b, &second);
    if (a_is_conv && b_is_conv) {
        if (first.x != second.x) return IG_NO_VALUE;
        ig_value joined = join(g, &first, &second);
        return joined == IG_NO_VALUE ? join(g, &second, &first) : joined;
    }
    if (!a_is_conv && !b_is_conv) return IG_NO_VALUE;
    const struct branch conv = a_is_conv ? first : second;
    struct branch scaled;
    if (!ig_same_dims(&type, ig_type_of(g, conv.x)) || !read_scaled(g, a_is_conv ? b : a, conv.x, &scaled))
        return IG_NO_VALUE;
    return join(g, &conv, &scaled);
}
