/*
 * flatten-windows: windows over three axes become windows over two where they span no more.
 *
 * Requires:   layout (channels-last form).
 * Guarantees: a convolution or pool over [planes, rows, columns] whose windows lie in one plane each, at every plane, takes planes for
 *             images; one whose windows lie in one place of a plane each, at every place, takes all places for one axis. Both are
 *             reshapes of what lies in memory already. Separable convolutions of films (Tran et al. 2018) and whatever else counts
 *             an axis of its own so get the kernels of pictures. On GPUs convolutions of 16 bits and few channels
 *             whose windows span planes and rows take columns for images, which are copied in front of these: then a line of a window
 *             is one piece of memory (convolutions of lambda layers, Bello 2021). Results are the same.
 */
#include "pass/passes.h"
#include "pass/precision/precision.h"
#include "pass/view/view.h"

enum { PLANES, ROWS, COLUMNS, AXES };

/* What becomes of the axes. */
enum way { AS_THEY_ARE, PLANES_ARE_IMAGES, COLUMNS_ARE_IMAGES, PLACES_ARE_ONE };

/* Do windows begin at each element along an axis, and have one? */
static bool is_flat(struct ig_graph *g, const struct ig_node *n, int64_t taps, int axis) {
    const struct ig_attr *before = ig_attr(g, n, IG_ATTR_before);
    bool alone = taps == 1 && ig_attr(g, n, IG_ATTR_strides)->ints[axis] == 1;
    return alone && ig_dim_is(g->dims, before->dims[axis], 0);
}

/* The same of what is beyond the last element. */
static bool ends_flat(struct ig_graph *g, const struct ig_node *n, int axis) {
    ig_dim in = ig_type_of(g, n->in[0])->dim[1 + axis], out = ig_type_of(g, n->out)->dim[1 + axis];
    return in == out;
}

static bool is_window(struct ig_graph *g, const struct ig_node *n) {
    bool known = n->op == IG_OP_conv || n->op == IG_OP_pool_max || n->op == IG_OP_pool_sum || n->op == IG_OP_pool_avg;
    return known && ig_attr_int(g, n, IG_ATTR_channels_last) && ig_type_of(g, n->in[0])->rank == AXES + 2 &&
           (n->op != IG_OP_conv || ig_attr_int(g, n, IG_ATTR_packed) == 0);
}

/* An attribute that has a number, or a dim, for each axis, with those of the two that are left. */
static struct ig_attr of_two(struct ig_graph *g, const struct ig_attr *a, enum way way) {
    int first = way == PLANES_ARE_IMAGES ? ROWS : PLANES;
    if (a->kind == IG_KIND_INTS) {
        int64_t *ints = IG_NEW_ARRAY(g->job, int64_t, 2);
        ints[0] = a->ints[first];
        ints[1] = a->ints[first + 1];
        return ig_attr_of_ints(ints, 2);
    }
    ig_dim *of = IG_NEW_ARRAY(g->job, ig_dim, 2);
    of[0] = a->dims[first];
    of[1] = way == PLACES_ARE_ONE ? ig_dim_mul(g->dims, a->dims[ROWS], a->dims[COLUMNS]) : a->dims[first + 1];
    return ig_attr_of_dims(of, 2);
}

/* [images, planes, rows, columns, channels] with two axes of windows. */
static ig_value flatten(struct ig_graph *g, ig_value v, enum way way) {
    if (way == COLUMNS_ARE_IMAGES) v = ig_view_transpose(g, v, (int64_t[]){0, 3, 1, 2, 4});
    const struct ig_type t = *ig_type_of(g, v);
    ig_dim pictures[4] = {ig_dim_mul(g->dims, t.dim[0], t.dim[1]), t.dim[2], t.dim[3], t.dim[4]};
    ig_dim places[4] = {t.dim[0], t.dim[1], ig_dim_mul(g->dims, t.dim[2], t.dim[3]), t.dim[4]};
    return ig_view_reshape(g, v, way == PLACES_ARE_ONE ? places : pictures, 4);
}

/* What flatten has made two of is three axes again. */
static ig_value unflatten(struct ig_graph *g, ig_value v, const struct ig_type *result, enum way way) {
    if (way != COLUMNS_ARE_IMAGES) return ig_view_reshape(g, v, result->dim, result->rank);
    const ig_dim turned[] = {result->dim[0], result->dim[3], result->dim[1], result->dim[2], result->dim[4]};
    return ig_view_transpose(g, ig_view_reshape(g, v, turned, result->rank), (int64_t[]){0, 2, 3, 1, 4});
}

static ig_value build(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, enum way way) {
    struct ig_graph *g = rw->out;
    static const enum ig_attr_name by_axis[] = {IG_ATTR_kernel, IG_ATTR_strides, IG_ATTR_dilations,
                                                IG_ATTR_before, IG_ATTR_after,   IG_ATTR_sizes};
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    ig_value operands[3] = {flatten(g, in[0], way), IG_NO_VALUE, IG_NO_VALUE};
    for (size_t i = 0; i < sizeof by_axis / sizeof *by_axis; i++) {
        int slot = ig_attr_slot(n->op, by_axis[i]);
        if (slot >= 0) attrs[slot] = of_two(g, &attrs[slot], way);
    }
    for (uint32_t i = 1; i < n->n_in; i++)
        operands[i] = in[i];
    if (n->op == IG_OP_conv) {
        const struct ig_type w = *ig_type_of(g, in[1]);
        int first = 2 + (way == PLANES_ARE_IMAGES ? ROWS : PLANES);
        operands[1] = ig_view_reshape(g, in[1], (ig_dim[]){w.dim[0], w.dim[1], w.dim[first], w.dim[first + 1]}, 4);
    }
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    ig_value flat = ig_build_node(g, n->op, operands, n->n_in, 1, attrs, no_bodies);
    const struct ig_type result = *ig_type_of(rw->in, n->out);
    return unflatten(g, flat, &result, way);
}

/* A convolution in one group whose elements are no more than half of a GPU's load, of 16 bits: those of 32 are copied one by one in any case. */
static bool is_thin(const struct ig_rewriter *rw, const struct ig_node *n) {
    enum { HALF_LOAD = 8 /* bytes */ };
    int64_t channels, size;
    if (n->op != IG_OP_conv || !ig_target_is_cuda(rw->options->target)) return false;
    const struct ig_type *image = ig_type_of(rw->in, n->in[0]);
    size = (int64_t)ingot_dtype_size(ig_precision_of_operand(rw->options->precisions, n, image->dtype));
    return size == 2 && ig_attr_int(rw->in, n, IG_ATTR_groups) == 1 &&
           ig_dim_is_const(rw->in->dims, image->dim[1 + AXES], &channels) && channels * size <= HALF_LOAD;
}

static enum way find_way(const struct ig_rewriter *rw, const struct ig_node *n) {
    const struct ig_attr *taps = ig_attr(rw->in, n, IG_ATTR_kernel);
    bool flat[AXES];
    for (int i = 0; i < AXES; i++)
        flat[i] = is_flat(rw->in, n, taps->ints[i], i) && ends_flat(rw->in, n, i);
    if (flat[PLANES]) return flat[ROWS] && flat[COLUMNS] ? AS_THEY_ARE : PLANES_ARE_IMAGES;
    if (!flat[COLUMNS]) return AS_THEY_ARE;
    if (flat[ROWS]) return PLACES_ARE_ONE;
    return is_thin(rw, n) ? COLUMNS_ARE_IMAGES : AS_THEY_ARE;
}

static bool flatten_window(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    const enum way way = is_window(rw->in, n) ? find_way(rw, n) : AS_THEY_ARE;
    bool *any = rw->state;
    if (way == AS_THEY_ARE) return false;
    *any = true;
    out_values[0] = build(rw, n, in, way);
    return true;
}

struct ig_graph *ig_pass_flatten_windows(struct ig_graph *in, const struct ig_pass_options *options) {
    bool any = false;
    struct ig_graph *out = ig_rewrite(in, options, flatten_window, &any);
    return any ? ig_pass_move_views(out, options) : in;
}
