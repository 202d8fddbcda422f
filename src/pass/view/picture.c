/*
 * Convolutions of pictures: an image with few channels is padded or regrouped so that windows consist of whole vector loads on
 * GPUs, and on CPUs of the steps that their dot products take together.
 *
 * A pixel is padded with zero channels to a whole load, or half of one. If windows move by an even number of columns,
 * two neighbouring pixels of a row become one with twice the channels; the window is then half as wide and moves half
 * as far. It must begin at an even column: otherwise it is extended to the left by columns of zero weights. So a window
 * of 7 x 7 pixels of 3 channels, which has 147 weights, becomes one of 7 x 4 pairs with 224, where pixels of 8 channels
 * would need 392. Image data under the zero weights are multiplied by zero; if they are infinite, the result is NaN.
 *
 * Pictures of one or two channels, such as spectrograms, mostly keep these. Their pixels are paired as often as windows move by an even
 * number of columns, and the window is extended to the right until each of its lines is whole loads of neighbouring pixels,
 * if it is half that wide.
 */
#include "pass/view/picture.h"

#include "pass/match.h"
#include "pass/view/view.h"

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

/* ---- Elementwise operators on one value and numbers: a cast, a quantisation ---- */

enum { DEEPEST = 8 };

static bool is_elementwise(const struct ig_node *n) {
    return n && (ig_op_info(n->op)->is_map || n->op == IG_OP_cast || n->op == IG_OP_where);
}

/* The one value that v is computed from elementwise, beside numbers; v itself if it is computed otherwise, IG_NO_VALUE if there are
 * several. */
static ig_value origin_of(struct ig_graph *g, ig_value v, int depth) {
    const struct ig_node *n = ig_def(g, v);
    ig_value found = IG_NO_VALUE;
    if (!is_elementwise(n) || depth == DEEPEST) return v;
    const struct ig_node copy = *n;
    for (uint32_t i = 0; i < copy.n_in; i++) {
        double unused;
        if (ig_info(g, copy.in[i])->is_const) {
            if (!ig_match_scalar(g, copy.in[i], &unused)) return v;
            continue;
        }
        ig_value from = origin_of(g, copy.in[i], depth + 1);
        if (from == IG_NO_VALUE || (found != IG_NO_VALUE && from != found)) return IG_NO_VALUE;
        found = from;
    }
    return found;
}

/* v with `to` instead of `from`. */
static ig_value computed_from(struct ig_graph *g, ig_value v, ig_value from, ig_value to) {
    ig_value in[3];
    if (v == from || ig_info(g, v)->is_const) return v == from ? to : v;
    const struct ig_node n = *ig_def(g, v);
    for (uint32_t i = 0; i < n.n_in; i++)
        in[i] = computed_from(g, n.in[i], from, to);
    return ig_build_copy(g, g, &n, in);
}

/* Does 0 become 0? */
static bool keeps_zero(struct ig_graph *g, ig_value v, ig_value from) {
    double zero;
    ig_value y = computed_from(g, v, from, ig_build_scalar(g, ig_type_of(g, from)->dtype, 0));
    return ig_match_scalar(g, y, &zero) && zero == 0;
}

/* Appends zero columns and channels to the image. If it is computed elementwise, perhaps before it is transposed, pads what it is
 * computed from, so that one region does all of it. */
static ig_value pad_image(struct ig_graph *g, ig_value v, int64_t columns, int64_t channels) {
    int rank = ig_type_of(g, v)->rank;
    int64_t perm[INGOT_MAX_RANK];
    const struct ig_node *turned = ig_def_op(g, v, IG_OP_transpose);
    for (int i = 0; turned && i < rank; i++)
        perm[i] = ig_attr(g, turned, IG_ATTR_perm)->ints[i];
    ig_value last = turned ? turned->in[0] : v, from = origin_of(g, last, 0);
    bool computed = from != IG_NO_VALUE && from != last && ig_dtype_is_float(ig_type_of(g, from)->dtype);
    if (!computed || !ig_same_dims(ig_type_of(g, from), ig_type_of(g, last)) || !keeps_zero(g, last, from))
        return pad_axes(g, v, rank - 2, 0, columns, channels);
    ig_value image = turned ? ig_build_transpose(g, from, perm) : from;
    return computed_from(g, last, from, pad_axes(g, image, rank - 2, 0, columns, channels));
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

/* [N, ..., columns, channels] to [N, ..., columns / 2, 2 x channels] */
static ig_value pair_pixels(struct ig_graph *g, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    ig_dim dims[INGOT_MAX_RANK], two = ig_dim_const(g->dims, 2);
    int last = type->rank - 1;
    for (int i = 0; i < last; i++)
        dims[i] = type->dim[i];
    dims[last - 1] = ig_dim_div(g->dims, type->dim[last - 1], two);
    dims[last] = ig_dim_mul(g->dims, type->dim[last], two);
    return ig_view_reshape(g, v, dims, type->rank);
}

/* [M, channels, ..., columns] to [M, 2 x channels, ..., columns / 2] */
static ig_value pair_weights(struct ig_graph *g, ig_value w) {
    ig_dim dims[INGOT_MAX_RANK];
    int64_t perm[INGOT_MAX_RANK];
    int rank = ig_type_of(g, w)->rank;
    perm[0] = 0;
    perm[1] = rank;
    for (int i = 1; i < rank; i++)
        perm[i + 1] = i;
    w = ig_view_transpose(g, split_axis(g, w, rank - 1, 2), perm);
    const struct ig_type *type = ig_type_of(g, w);
    dims[0] = type->dim[0];
    dims[1] = ig_dim_mul(g->dims, type->dim[1], type->dim[2]);
    for (int i = 2; i < rank; i++)
        dims[i] = type->dim[i + 1];
    return ig_view_reshape(g, w, dims, rank);
}

/* A convolution over pairs of columns. */
struct pairing {
    int64_t image, front, back; /* zero columns: after the image's, before and after the window's */
    int64_t before, after;      /* padding, in pairs */
};

/* False if windows cannot move by pairs or sizes are unknown. */
static bool find_pairing(struct ig_graph *g, const struct ig_node *n, const ig_value *in, struct pairing *out) {
    int64_t before, after, stride, kernel, columns;
    int axis = ig_type_of(g, in[0])->rank - 3;
    if (axis < 1 || its(n, IG_ATTR_dilations)->ints[axis] != 1) return false;
    columns = size_of(g, in[0], axis + 1);
    if (!ig_dim_is_const(g->dims, its(n, IG_ATTR_before)->dims[axis], &before)) return false;
    if (!ig_dim_is_const(g->dims, its(n, IG_ATTR_after)->dims[axis], &after)) return false;
    stride = its(n, IG_ATTR_strides)->ints[axis];
    kernel = its(n, IG_ATTR_kernel)->ints[axis];
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

/* A copy of an attribute with another last element. */
static struct ig_attr with_last_int(struct ig_graph *g, const struct ig_attr *attr, int64_t last) {
    int64_t *ints = ig_memdup(g->job, attr->ints, (size_t)attr->count * sizeof *ints);
    ints[attr->count - 1] = last;
    return ig_attr_of_ints(ints, attr->count);
}

static struct ig_attr with_last_dim(struct ig_graph *g, const struct ig_attr *attr, int64_t last) {
    ig_dim *dims = ig_memdup(g->job, attr->dims, (size_t)attr->count * sizeof *dims);
    dims[attr->count - 1] = ig_dim_const(g->dims, last);
    return ig_attr_of_dims(dims, attr->count);
}

static void set_columns(struct ig_graph *g, struct ig_attr *attrs, int spatial, const struct pairing *p) {
    struct ig_attr *kernel = attr_of(attrs, IG_ATTR_kernel), *strides = attr_of(attrs, IG_ATTR_strides);
    struct ig_attr *before = attr_of(attrs, IG_ATTR_before), *after = attr_of(attrs, IG_ATTR_after);
    *kernel = with_last_int(g, kernel, (p->front + kernel->ints[spatial - 1] + p->back) / 2);
    *strides = with_last_int(g, strides, strides->ints[spatial - 1] / 2);
    *before = with_last_dim(g, before, p->before);
    *after = with_last_dim(g, after, p->after);
}

/* The same convolution over pairs of columns. */
static void take_pairs(struct ig_graph *g, struct ig_node *n, ig_value *in, const struct pairing *p) {
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    const int rank = ig_type_of(g, in[0])->rank;
    in[0] = pair_pixels(g, in[0]);
    in[1] = pair_weights(g, pad_axes(g, in[1], rank - 1, p->front, p->back, 0));
    set_columns(g, attrs, rank - 2, p);
    n->attr = attrs;
}

/* Extends windows that move by one column to the right, until a line of them is whole loads. False if it cannot be, or if the depth
 * becomes so long that no kernel keeps the image's patch (kernel/cuda/contract/contract_patch.c). */
static bool fill_lines(struct ig_graph *g, struct ig_node *n, ig_value *in, int64_t each) {
    enum { LONGEST = 1152 };
    const int rank = ig_type_of(g, in[0])->rank, axis = rank - 3;
    int64_t after, kernel = its(n, IG_ATTR_kernel)->ints[axis], more = (each - kernel % each) % each;
    int64_t depth = size_of(g, in[1], 1) * (kernel + more);
    for (int i = 0; i < axis; i++)
        depth *= its(n, IG_ATTR_kernel)->ints[i];
    if (more > kernel || its(n, IG_ATTR_strides)->ints[axis] != 1 || its(n, IG_ATTR_dilations)->ints[axis] != 1 ||
        depth > LONGEST || !ig_dim_is_const(g->dims, its(n, IG_ATTR_after)->dims[axis], &after))
        return false;
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    *attr_of(attrs, IG_ATTR_kernel) = with_last_int(g, its(n, IG_ATTR_kernel), kernel + more);
    *attr_of(attrs, IG_ATTR_after) = with_last_dim(g, its(n, IG_ATTR_after), after + more);
    in[1] = pad_axes(g, in[1], rank - 1, 0, more, 0);
    n->attr = attrs;
    return true;
}

/* One or two channels, of 16 bits, on GPUs: padding them multiplies the products, which pays if pixels can be paired and these are of few
 * columns, so that whole loads arrive by the copy engine. */
static bool is_thin(struct ig_graph *g, const struct ig_node *n, const ig_value *in) {
    enum { FEW_COLUMNS = 96 };
    struct pairing p;
    return size_of(g, in[1], 1) < FEWEST && !(size_of(g, in[1], 0) <= FEW_COLUMNS && find_pairing(g, n, in, &p));
}

static bool pack_thin(struct ig_graph *g, struct ig_node *n, ig_value *in, int64_t channels) {
    struct pairing p;
    for (; 2 * channels <= MOST / 2 && find_pairing(g, n, in, &p); channels *= 2) {
        in[0] = pad_image(g, in[0], p.image, 0);
        take_pairs(g, n, in, &p);
    }
    return ig_type_of(g, in[0])->rank > 3 && fill_lines(g, n, in, MOST / channels);
}

bool ig_picture_pack(struct ig_graph *g, struct ig_node *n, ig_value *in, const struct ig_target *target) {
    int rank = ig_type_of(g, in[0])->rank;
    int64_t channels = size_of(g, in[1], 1), element = (int64_t)ingot_dtype_size(ig_type_of(g, in[1])->dtype);
    bool many_positions = false;
    for (int i = 0; i < rank - 2; i++)
        many_positions |= its(n, IG_ATTR_kernel)->ints[i] > 1;
    if (!many_positions || channels < 1 || channels > MOST) return false;
    if (channels < FEWEST && (element != 2 || !ig_target_is_cuda(target))) return false;
    if (is_thin(g, n, in)) return pack_thin(g, n, in, channels);
    int64_t wanted = channels <= MOST / 2 ? MOST / 2 : MOST;
    struct pairing p = {0};
    bool pairs = wanted * element < LOAD && find_pairing(g, n, in, &p);
    if (p.image > 0 && its(n, IG_ATTR_border)->i != 0) pairs = false; /* zeros beside the image are no border */
    in[0] = pad_image(g, in[0], pairs ? p.image : 0, wanted - channels);
    in[1] = pad_axes(g, in[1], 1, 0, wanted - channels, 0);
    if (pairs) take_pairs(g, n, in, &p);
    return false;
}
