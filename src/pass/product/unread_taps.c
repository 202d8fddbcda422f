/*
 * unread-taps: convolutions leave out what of their kernels meets nothing but padding.
 *
 * Requires:   nothing; runs after split-phases, whose phases are convolutions, too.
 * Guarantees: along every spatial axis whose sizes are known, the first and the last tap of a convolution with constant weights read an
 *             element of the input for some output. So a 3 x 3 kernel whose taps lie 36 apart is one of 1 x 1 for images of 28 x 28, and a
 *             positional convolution over 128 places one of 98 for 49. Results are the same, but where a weight that is left out is infinite or NaN.
 *             The weights are recipes.
 */
#include "pass/match.h"
#include "pass/passes.h"
#include "pass/view/view.h"

enum { MAX_SPATIAL = INGOT_MAX_RANK - 2 };

struct taps {
    int64_t count, stride, dilation, before, after, inputs, outputs; /* along one axis */
    int64_t first, read;                                             /* of those that are read */
};

/* Does tap t read an element for some output? If any does, then the first that is not before the input. */
static bool is_read(const struct taps *a, int64_t t) {
    int64_t at = t * a->dilation - a->before, output = at < 0 ? (-at + a->stride - 1) / a->stride : 0;
    return output < a->outputs && at + output * a->stride < a->inputs;
}

/* What remains must have padding of its own, or none. */
static void find_read(struct taps *a) {
    int64_t first = 0, last = a->count - 1;
    while (first <= last && !is_read(a, first))
        first++;
    while (last > first && !is_read(a, last))
        last--;
    if (first > last || a->before < first * a->dilation) first = 0;
    if (last < first || a->after < (a->count - 1 - last) * a->dilation) last = a->count - 1;
    a->first = first;
    a->read = last - first + 1;
}

/* The taps along axis i; all are read where sizes are not known. */
static struct taps taps_along(const struct ig_graph *g, const struct ig_node *n, int i) {
    struct taps a = {.count = ig_attr(g, n, IG_ATTR_kernel)->ints[i],
                     .stride = ig_attr(g, n, IG_ATTR_strides)->ints[i],
                     .dilation = ig_attr(g, n, IG_ATTR_dilations)->ints[i]};
    a.read = a.count;
    if (ig_dim_is_const(g->dims, ig_type_of(g, n->in[0])->dim[2 + i], &a.inputs) &&
        ig_dim_is_const(g->dims, ig_type_of(g, n->out)->dim[2 + i], &a.outputs) &&
        ig_dim_is_const(g->dims, ig_attr(g, n, IG_ATTR_before)->dims[i], &a.before) &&
        ig_dim_is_const(g->dims, ig_attr(g, n, IG_ATTR_after)->dims[i], &a.after) && a.before >= 0 && a.after >= 0)
        find_read(&a);
    return a;
}

static bool match(const struct ig_graph *g, const struct ig_node *n) {
    return n->op == IG_OP_conv && ig_info(g, n->in[1])->is_const && !ig_attr_int(g, n, IG_ATTR_channels_last) &&
           !ig_attr_int(g, n, IG_ATTR_packed) && !ig_attr_int(g, n, IG_ATTR_border);
}

static bool rewrite(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct ig_graph *g = rw->out;
    if (!match(rw->in, n)) return false;
    const int spatial = ig_type_of(rw->in, n->out)->rank - 2;
    struct ig_type w = *ig_type_of(g, in[1]);
    ig_dim starts[INGOT_MAX_RANK], before[MAX_SPATIAL], after[MAX_SPATIAL];
    int64_t steps[INGOT_MAX_RANK], kernel[MAX_SPATIAL], unread = 0;
    for (int i = 0; i < w.rank; i++) {
        starts[i] = ig_dim_const(g->dims, 0);
        steps[i] = 1;
    }
    for (int i = 0; i < spatial; i++) {
        const struct taps a = taps_along(rw->in, n, i);
        const int64_t behind = a.count - a.first - a.read;
        unread += a.count - a.read;
        starts[2 + i] = ig_dim_const(g->dims, a.first);
        w.dim[2 + i] = ig_dim_const(g->dims, kernel[i] = a.read);
        before[i] = ig_dim_sub(g->dims, ig_attr(rw->in, n, IG_ATTR_before)->dims[i],
                               ig_dim_const(g->dims, a.first * a.dilation));
        after[i] =
            ig_dim_sub(g->dims, ig_attr(rw->in, n, IG_ATTR_after)->dims[i], ig_dim_const(g->dims, behind * a.dilation));
    }
    if (unread == 0) return false;
    struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
    attrs[ig_attr_slot(n->op, IG_ATTR_before)] = ig_attr_of_dims(before, spatial);
    attrs[ig_attr_slot(n->op, IG_ATTR_after)] = ig_attr_of_dims(after, spatial);
    attrs[ig_attr_slot(n->op, IG_ATTR_kernel)] = ig_attr_of_ints(kernel, spatial);
    const ig_value inputs[3] = {in[0], ig_build_slice(g, in[1], starts, w.dim, steps),
                                n->n_in > 2 ? in[2] : IG_NO_VALUE};
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    out_values[0] = ig_build_node(g, n->op, inputs, (int)n->n_in, 1, attrs, no_bodies);
    return true;
}

struct ig_graph *ig_pass_unread_taps(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, rewrite, NULL);
}
