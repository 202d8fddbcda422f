/*
 * Convolutions of pictures on GPUs: an image with few channels is padded or regrouped so that windows consist of whole
 * vector loads.
 *
 * A pixel is padded with zero channels to a whole load, or half of one. If windows move by an even number of columns,
 * two neighbouring pixels of a row become one with twice the channels; the window is then half as wide and moves half
 * as far. It must begin at an even column: otherwise it is extended to the left by columns of zero weights. So a window
 * of 7 x 7 pixels of 3 channels, which has 147 weights, becomes one of 7 x 4 pairs with 224, where pixels of 8 channels
 * would need 392. Image data under the zero weights are multiplied by zero; if they are infinite, the result is NaN.
 */
#include "pass/picture.h"

#include "pass/view.h"

enum { FEWEST = 3, MOST = 8, LOAD = 16 /* bytes */ };

static struct ig_attr *attr_of(struct ig_attr *attrs, enum ig_attr_name name) {
    return &attrs[ig_attr_slot(IG_OP_conv, name)];
}

static const struct ig_attr *its(const struct ig_node *n, enum ig_attr_name name) {
    return &n->attr[ig_attr_slot(n->op, name)];
}

static int64_t size_of(struct ig_graph *g, ig_value v, int axis) {
    int64_t size = 0;
    return ig_dim_is_const(g->dims, ig_type_of(g, v)->dim[axis], &size) ? size : 0;
}

/* Pads one axis with zeros on both sides, and the next at its end. */
static ig_value pad_axes(struct ig_graph *g, ig_value v, int axis, int64_t before, int64_t after, int64_t next) {
    ig_dim below[INGOT_MAX_RANK], above[INGOT_MAX_RANK], zero = ig_dim_const(g->dims, 0);
    if (before == 0 && after == 0 && next == 0) return v;
    for (int i = 0; i < ig_type_of(g, v)->rank; i++)
        below[i] = above[i] = zero;
    below[axis] = ig_dim_const(g->dims, before);
    above[axis] = ig_dim_const(g->dims, after);
    if (next > 0) above[axis + 1] = ig_dim_const(g->dims, next);
    return ig_build_pad(g, v, below, above, IG_PAD_CONSTANT, IG_NO_VALUE);
}

/* Appends zero columns and channels to the image. If a cast produced it, pads the cast's operand, so that the cast's
 * region writes the zeros too. */
static ig_value pad_image(struct ig_graph *g, ig_value v, int64_t columns, int64_t channels) {
    ig_node_id id = g->values.at[v].node;
    enum ingot_dtype dtype = ig_type_of(g, v)->dtype;
    int rank = ig_type_of(g, v)->rank;
    if (id != IG_NO_NODE && g->nodes.at[id].op == IG_OP_cast) v = g->nodes.at[id].in[0];
    return ig_build_cast(g, pad_axes(g, v, rank - 2, 0, columns, channels), dtype);
}

/* Splits an axis into [size / parts, parts] by a reshape. */
static ig_value split_axis(struct ig_graph *g, ig_value v, int axis, int64_t parts) {
    const struct ig_type *type = ig_type_of(g, v);
    ig_dim dims[INGOT_MAX_RANK], by = ig_dim_const(g->dims, parts);
    for (int i = 0; i <= type->rank; i++)
        dims[i] = i <= axis ? type->dim[i] : type->dim[i - 1];
    dims[axis] = ig_dim_div(g->dims, type->dim[axis], by);
    dims[axis + 1] = by;
    return ig_view_reshape(g, v, dims, type->rank + 1);
}

/* [N, rows, columns, channels] to [N, rows, columns / 2, 2 x channels] */
static ig_value pair_pixels(struct ig_graph *g, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    ig_dim two = ig_dim_const(g->dims, 2);
    ig_dim dims[4] = {type->dim[0], type->dim[1], ig_dim_div(g->dims, type->dim[2], two),
                      ig_dim_mul(g->dims, type->dim[3], two)};
    return ig_view_reshape(g, v, dims, 4);
}

/* [M, channels, rows, columns] to [M, 2 x channels, rows, columns / 2] */
static ig_value pair_weights(struct ig_graph *g, ig_value w) {
    w = ig_view_transpose(g, split_axis(g, w, 3, 2), (int64_t[]){0, 4, 1, 2, 3});
    const struct ig_type *type = ig_type_of(g, w);
    ig_dim dims[4] = {type->dim[0], ig_dim_mul(g->dims, type->dim[1], type->dim[2]), type->dim[3], type->dim[4]};
    return ig_view_reshape(g, w, dims, 4);
}

/* A convolution over pairs of columns. */
struct pairing {
    int64_t image, front, back; /* zero columns: after the image's, before and after the window's */
    int64_t before, after;      /* padding, in pairs */
};

/* False if windows cannot move by pairs or sizes are unknown. */
static bool find_pairing(struct ig_graph *g, const struct ig_node *n, const ig_value *in, struct pairing *out) {
    int64_t before, after, stride, kernel;
    if (ig_type_of(g, in[0])->rank != 4 || its(n, IG_ATTR_dilations)->ints[1] != 1) return false;
    int64_t columns = size_of(g, in[0], 2);
    if (!ig_dim_is_const(g->dims, its(n, IG_ATTR_before)->dims[1], &before)) return false;
    if (!ig_dim_is_const(g->dims, its(n, IG_ATTR_after)->dims[1], &after)) return false;
    stride = its(n, IG_ATTR_strides)->ints[1];
    kernel = its(n, IG_ATTR_kernel)->ints[1];
    if (columns == 0 || stride % 2 != 0 || before < 0 || after < 0) return false;
    int64_t room = columns + before + after - kernel, count = room / stride + 1;
    if (room < 0) return false;
    out->image = columns % 2;
    out->front = before % 2;
    out->back = (out->front + kernel) % 2;
    out->before = (before + out->front) / 2;
    int64_t pairs = (columns + out->image) / 2 + out->before, taps = (out->front + kernel + out->back) / 2;
    out->after = (count - 1) * (stride / 2) + taps - pairs;
    if (out->after < 0) out->after = 0;
    return (pairs + out->after - taps) / (stride / 2) + 1 == count;
}

static void set_columns(struct ig_graph *g, struct ig_attr *attrs, const struct pairing *p) {
    const struct ig_attr *kernel = attr_of(attrs, IG_ATTR_kernel), *strides = attr_of(attrs, IG_ATTR_strides);
    int64_t taps[2] = {kernel->ints[0], (p->front + kernel->ints[1] + p->back) / 2};
    int64_t steps[2] = {strides->ints[0], strides->ints[1] / 2};
    ig_dim before[2] = {attr_of(attrs, IG_ATTR_before)->dims[0], ig_dim_const(g->dims, p->before)};
    ig_dim after[2] = {attr_of(attrs, IG_ATTR_after)->dims[0], ig_dim_const(g->dims, p->after)};
    *attr_of(attrs, IG_ATTR_kernel) = ig_attr_of_ints(ig_memdup(g->job, taps, sizeof taps), 2);
    *attr_of(attrs, IG_ATTR_strides) = ig_attr_of_ints(ig_memdup(g->job, steps, sizeof steps), 2);
    *attr_of(attrs, IG_ATTR_before) = ig_attr_of_dims(ig_memdup(g->job, before, sizeof before), 2);
    *attr_of(attrs, IG_ATTR_after) = ig_attr_of_dims(ig_memdup(g->job, after, sizeof after), 2);
}

void ig_picture_pack(struct ig_graph *g, struct ig_node *n, ig_value *in) {
    int rank = ig_type_of(g, in[0])->rank;
    int64_t channels = size_of(g, in[1], 1), element = (int64_t)ingot_dtype_size(ig_type_of(g, in[1])->dtype);
    bool many_positions = false;
    for (int i = 0; i < rank - 2; i++)
        many_positions |= its(n, IG_ATTR_kernel)->ints[i] > 1;
    if (!many_positions || channels < FEWEST || channels > MOST) return;
    int64_t wanted = channels <= MOST / 2 ? MOST / 2 : MOST;
    struct pairing p = {0};
    bool pairs = wanted * element < LOAD && find_pairing(g, n, in, &p);
    in[0] = pad_image(g, in[0], pairs ? p.image : 0, wanted - channels);
    in[1] = pad_axes(g, in[1], 1, 0, wanted - channels, 0);
    if (!pairs) return;
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    in[0] = pair_pixels(g, in[0]);
    in[1] = pair_weights(g, pad_axes(g, in[1], 3, p.front, p.back, 0));
    set_columns(g, attrs, &p);
    n->attr = attrs;
}
