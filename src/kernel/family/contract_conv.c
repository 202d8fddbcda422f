/* Convolutions as contractions: see contract_problem.h. */
#include <string.h>

#include "ir/winograd.h"
#include "kernel/family/contract_problem.h"

static bool channels_last(const struct ig_contract *c) {
    return ig_contract_attr_int(c, IG_ATTR_channels_last) != 0;
}

/* The axis of the i-th spatial dimension, or of the channels (i = -1). */
static int conv_axis(const struct ig_contract *c, int i) {
    if (i < 0) return channels_last(c) ? c->spatial + 1 : 1;
    return i + (channels_last(c) ? 1 : 2);
}

bool ig_conv_init(struct ig_contract *c) {
    struct ig_dims *dims = c->graph->dims;
    const struct ig_type *x = ig_contract_in(c, 0), *out = ig_contract_out(c);
    const struct ig_attr *kernel = ig_contract_attr(c, IG_ATTR_kernel);
    c->spatial = x->rank - 2;
    if (c->spatial < 1 || c->spatial >= IG_CONTRACT_DEPTH) return false;
    c->groups = ig_contract_attr_int(c, IG_ATTR_groups);
    ig_contract_read_packing(c, c->spatial + 4);
    c->winograd = ig_winograd_of(c->graph, &c->node);
    c->batch = ig_dim_mul(dims, out->dim[0], ig_contract_as_dim(c, c->groups));
    c->columns = ig_dim_div(dims, out->dim[conv_axis(c, -1)], ig_contract_as_dim(c, c->groups));
    c->rows = ig_contract_as_dim(c, 1);
    c->depth = ig_contract_as_dim(c, 1);
    for (int i = 0; i < c->spatial; i++) {
        c->rows = ig_dim_mul(dims, c->rows, out->dim[conv_axis(c, i)]);
        c->depth_dim[i] = ig_contract_as_dim(c, kernel->ints[i]);
        c->depth = ig_dim_mul(dims, c->depth, c->depth_dim[i]);
    }
    c->depth_dim[c->spatial] = ig_dim_div(dims, x->dim[conv_axis(c, -1)], ig_contract_as_dim(c, c->groups));
    c->padded = ig_dim_mul(dims, c->depth, ig_contract_rounded(c, c->depth_dim[c->spatial]));
    c->depth = ig_dim_mul(dims, c->depth, c->depth_dim[c->spatial]);
    c->depth_rank = c->spatial + 1;
    return true;
}

bool ig_contract_padded(const struct ig_contract *c) {
    const struct ig_attr *before = ig_contract_attr(c, IG_ATTR_before), *after = ig_contract_attr(c, IG_ATTR_after);
    for (int i = 0; i < c->spatial; i++) {
        if (ig_contract_const(c, before->dims[i], 1) != 0 || ig_contract_const(c, after->dims[i], 1) != 0) return true;
    }
    return false;
}

/* The output's spatial index of row m. */
static void conv_spatial(struct ig_contract *c, ig_x m, ig_x *out_at) {
    const struct ig_type *out = ig_contract_out(c);
    struct ig_type space = {.dtype = out->dtype, .rank = c->spatial};
    memcpy(space.dim, out->dim + conv_axis(c, 0), (size_t)c->spatial * sizeof *space.dim);
    ig_lower_split(&c->lower, &space, m, out_at);
}

static ig_x conv_image(struct ig_contract *c, ig_x b, ig_x *out_group) {
    *out_group = ig_x_mod(c->k, b, ig_contract_int(c, c->groups));
    return ig_x_div(c->k, b, ig_contract_int(c, c->groups));
}

void ig_contract_window(struct ig_contract *c, ig_x b, ig_x m, ig_x *out_image, ig_x *out_origin) {
    struct ig_loops *k = c->k;
    const struct ig_attr *strides = ig_contract_attr(c, IG_ATTR_strides), *before = ig_contract_attr(c, IG_ATTR_before);
    ig_x group, at[INGOT_MAX_RANK];
    *out_image = conv_image(c, b, &group);
    conv_spatial(c, m, at);
    for (int i = 0; i < c->spatial; i++) {
        ig_x start = ig_x_mul(k, at[i], ig_contract_int(c, strides->ints[i]));
        out_origin[i] = ig_x_sub(k, start, ig_contract_dim(c, before->dims[i]));
    }
}

/* Are the rows of A exactly the input's positions? */
static bool is_pointwise(const struct ig_contract *c) {
    const struct ig_attr *strides = ig_contract_attr(c, IG_ATTR_strides);
    for (int i = 0; i < c->spatial; i++) {
        if (!ig_contract_is_one(c, c->depth_dim[i]) || strides->ints[i] != 1) return false;
    }
    return !ig_contract_padded(c);
}

int64_t ig_contract_border(const struct ig_contract *c) {
    return c->spatial && ig_contract_padded(c) ? ig_contract_attr_int(c, IG_ATTR_border) : 0;
}

/* An element of that type beyond the edges. */
static ig_x border(struct ig_contract *c, enum ingot_dtype dtype) {
    dtype = ig_dtype_compute(dtype);
    if (ig_dtype_is_float(dtype)) return ig_x_float(c->k, dtype, 0);
    return ig_x_int(c->k, dtype, ig_contract_border(c));
}

ig_x ig_conv_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth) {
    struct ig_loops *k = c->k;
    const struct ig_type *x = ig_contract_in(c, 0);
    const struct ig_attr *dilations = ig_contract_attr(c, IG_ATTR_dilations);
    ig_value a = c->node.in[0];
    ig_x group, index[INGOT_MAX_RANK], origin[INGOT_MAX_RANK] = {0}, inside = ig_x_int(k, INGOT_BOOL, 1);
    ig_x image = conv_image(c, b, &group);
    ig_x channel = ig_x_add(k, ig_x_mul(k, group, ig_contract_dim(c, c->depth_dim[c->spatial])), depth[c->spatial]);
    if (is_pointwise(c) && channels_last(c) && c->lower.is_input[a]) {
        ig_x row = ig_x_add(k, ig_x_mul(k, image, ig_contract_dim(c, c->rows)), m);
        ig_x at = ig_x_mul(k, row, ig_contract_dim(c, x->dim[conv_axis(c, -1)]));
        return ig_x_load(k, c->lower.buffer_of[a], ig_x_add(k, at, channel));
    }
    ig_contract_window(c, b, m, &image, origin);
    index[0] = image;
    index[conv_axis(c, -1)] = channel;
    for (int i = 0; i < c->spatial; i++) {
        ig_dim size = x->dim[conv_axis(c, i)];
        ig_x at = ig_x_add(k, origin[i], ig_x_mul(k, depth[i], ig_contract_int(c, dilations->ints[i])));
        if (ig_contract_padded(c)) {
            inside = ig_x_and(k, inside, ig_x_less(k, ig_contract_int(c, -1), at));
            inside = ig_x_and(k, inside, ig_x_less(k, at, ig_contract_dim(c, size)));
            ig_x last = ig_contract_dim(c, ig_dim_sub(c->graph->dims, size, ig_contract_as_dim(c, 1)));
            at = ig_x_max(k, ig_x_min(k, at, last), ig_contract_int(c, 0));
        }
        index[conv_axis(c, i)] = at;
    }
    ig_x value = ig_lower_value(&c->lower, a, index);
    return ig_contract_padded(c) ? ig_x_select(k, inside, value, border(c, x->dtype)) : value;
}

/* ---- Transformed filters ----------------------------------------------------------------------------------------- */

/* The type in which filters are recovered. */
static enum ingot_dtype filter_type(const struct ig_contract *c) {
    return ig_dtype_is_float(c->dtype) ? c->dtype : INGOT_F32;
}

/* Element (i, j) of the transformed filter of column n and a channel. */
static ig_x transformed(struct ig_contract *c, ig_x n, ig_x channel, ig_x i, ig_x j) {
    struct ig_loops *k = c->k;
    int64_t t = c->winograd + IG_WINOGRAD_KERNEL - 1, nr = ig_contract_attr_int(c, IG_ATTR_packed);
    ig_x together = ig_contract_int(c, c->together), width = ig_contract_int(c, nr);
    if (nr == 0)
        return ig_x_cast(k, ig_lower_value(&c->lower, c->node.in[1], (const ig_x[]){n, channel, i, j}), filter_type(c),
                         false);
    ig_x at = ig_x_add(k, ig_x_mul(k, ig_x_div(k, n, width), ig_contract_int(c, t)), i);
    at = ig_x_add(k, ig_x_mul(k, at, ig_contract_int(c, t)), j);
    at = ig_x_mul(k, at, ig_contract_dim(c, ig_dim_div(k->dims, c->depth_dim[2], ig_contract_as_dim(c, c->together))));
    at = ig_x_add(k, at, ig_x_div(k, channel, together));
    at = ig_x_add(k, ig_x_mul(k, at, width), ig_x_mod(k, n, width));
    at = ig_x_add(k, ig_x_mul(k, at, together), ig_x_mod(k, channel, together));
    return ig_x_cast(k, ig_x_load(k, c->lower.buffer_of[c->node.in[1]], at), filter_type(c), false);
}

/* by[position], position 0 … 2 */
static ig_x one_of(struct ig_contract *c, ig_x position, ig_x first, ig_x second, ig_x third) {
    ig_x others = ig_x_select(c->k, ig_x_less(c->k, position, ig_contract_int(c, 2)), second, third);
    return ig_x_select(c->k, ig_x_less(c->k, position, ig_contract_int(c, 1)), first, others);
}

/* Undoes the transform along one axis: g[0] = f0 * u[0], g[1] = f1 * (u[1] - u[2]), g[2] = u[t - 1]. */
struct undoing {
    ig_x from, factor, second; /* position in u, factor, and 1 if u[2] is subtracted, else 0 */
};

static struct undoing undo(struct ig_contract *c, ig_x position) {
    struct ig_winograd w;
    ig_winograd_init(&w, c->winograd);
    enum ingot_dtype type = filter_type(c);
    ig_x zero = ig_x_float(c->k, type, 0), one = ig_x_float(c->k, type, 1);
    return (struct undoing){
        one_of(c, position, ig_contract_int(c, 0), ig_contract_int(c, 1), ig_contract_int(c, w.t - 1)),
        one_of(c, position, ig_x_float(c->k, type, w.inverse[0][0]), ig_x_float(c->k, type, w.inverse[1][1]), one),
        one_of(c, position, zero, one, zero)};
}

/* The element of the filter itself. */
static ig_x recovered(struct ig_contract *c, ig_x n, const ig_x *depth) {
    struct ig_loops *k = c->k;
    struct undoing y = undo(c, depth[0]), x = undo(c, depth[1]);
    ig_x two = ig_contract_int(c, 2), line[2];
    for (int i = 0; i < 2; i++) {
        ig_x at = i == 0 ? y.from : two;
        ig_x second = ig_x_map2(k, IG_OP_mul, transformed(c, n, depth[2], at, two), x.second);
        line[i] = ig_x_map2(k, IG_OP_sub, transformed(c, n, depth[2], at, x.from), second);
    }
    ig_x both = ig_x_map2(k, IG_OP_sub, line[0], ig_x_map2(k, IG_OP_mul, line[1], y.second));
    ig_x filter = ig_x_map2(k, IG_OP_mul, ig_x_map2(k, IG_OP_mul, both, x.factor), y.factor);
    if (ig_dtype_is_float(c->dtype)) return filter;
    return ig_x_cast(k, ig_x_map2(k, IG_OP_div, filter, ig_x_float(k, INGOT_F32, IG_WINOGRAD_SCALE)), c->dtype, false);
}

/* ---- Elements of C ----------------------------------------------------------------------------------------------- */

ig_x ig_conv_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth) {
    ig_x group, index[INGOT_MAX_RANK];
    conv_image(c, b, &group);
    if (c->winograd) return recovered(c, n, depth);
    int64_t packed = ig_contract_attr_int(c, IG_ATTR_packed);
    if (ig_contract_without_panels(c)) { /* [kernel..., C/groups, M]; depthwise: [kernel..., C] */
        for (int i = 0; i <= c->spatial; i++)
            index[i] = depth[i];
        bool lines = ig_contract_lines_together(c), depthwise = lines || ig_contract_in(c, 1)->rank == c->spatial + 1;
        ig_x column = ig_x_add(c->k, ig_x_mul(c->k, group, ig_contract_dim(c, c->columns)), n);
        index[depthwise ? c->spatial : c->spatial + 1] = depthwise ? group : column;
        if (lines) {
            ig_x four = ig_contract_int(c, 4);
            index[0] = ig_x_div(c->k, depth[0], four);
            index[c->spatial + 1] = ig_x_mod(c->k, depth[0], four);
        }
        return ig_lower_value(&c->lower, c->node.in[1], index);
    }
    if (packed > 0) return ig_contract_packed_b(c, group, n, depth);
    index[0] = ig_x_add(c->k, ig_x_mul(c->k, group, ig_contract_dim(c, c->columns)), n);
    index[1] = depth[c->spatial];
    for (int i = 0; i < c->spatial; i++)
        index[i + 2] = depth[i];
    return ig_lower_value(&c->lower, c->node.in[1], index);
}

void ig_conv_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index) {
    ig_x group;
    out_index[0] = conv_image(c, b, &group);
    conv_spatial(c, m, out_index + conv_axis(c, 0));
    out_index[conv_axis(c, -1)] = ig_x_add(c->k, ig_x_mul(c->k, group, ig_contract_dim(c, c->columns)), n);
}
