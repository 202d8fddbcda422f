/*
 * Convolutions over one or two axes by cuDNN; see library.h. cuDNN gets filters with channels innermost: weights, which
 * the pack pass has turned into a matrix (pass/product/pack.c), are transposed back (library_operand.c).
 */
#include "kernel/cuda/library.h"

enum { CHOICES = 4 }; /* of the library's algorithms; more are not worth measuring */

static ig_dim constant(struct ig_contract *c, int64_t i) {
    return ig_dim_const(c->graph->dims, i);
}

/* Are the weights constants of the form [groups, 1, kernel..., channels, columns and zeros], or [1, columns, kernel...,
 * channels, 1]? */
static bool are_filters(struct ig_contract *c) {
    ig_value w = c->node.in[1];
    const struct ig_type *type = ig_type_of(c->graph, w);
    if (!c->lower.is_input[w] || !ig_info(c->graph, w)->is_const) return false;
    if (ig_contract_attr_int(c, IG_ATTR_packed) == 1 && c->groups == 1) return true;
    return ig_contract_attr_int(c, IG_ATTR_packed) >= ig_contract_const(c, c->columns, INT64_MAX) &&
           type->rank == c->spatial + 4 && ig_contract_const(c, type->dim[1], 0) == 1 &&
           ig_contract_const(c, type->dim[0], 0) == c->groups;
}

/* cuDNN has no engine worth using if groups have a single channel. */
static bool is_depthwise(struct ig_contract *c) {
    return c->groups > 1 && ig_contract_const(c, c->depth_dim[c->spatial], 0) == 1;
}

/* Sizes along two axes; a convolution over one axis gets of_missing for the first. */
static void put_axes(struct ig_contract *c, const ig_dim *of_axes, int64_t of_missing, ig_dim *out_sizes) {
    out_sizes[0] = c->spatial == 2 ? of_axes[0] : constant(c, of_missing);
    out_sizes[1] = of_axes[c->spatial - 1];
}

static void put_attribute(struct ig_contract *c, enum ig_attr_name name, int64_t of_missing, ig_dim *out_sizes) {
    const struct ig_attr *attr = ig_contract_attr(c, name);
    ig_dim of_axes[2];
    for (int i = 0; i < c->spatial; i++)
        of_axes[i] = attr->kind == IG_KIND_DIMS ? attr->dims[i] : constant(c, attr->ints[i]);
    put_axes(c, of_axes, of_missing, out_sizes);
}

static void find_sizes(struct ig_contract *c, ig_dim *sizes) {
    const struct ig_type *x = ig_contract_in(c, 0), *y = ig_contract_out(c);
    sizes[IG_LIBRARY_IMAGES] = x->dim[0];
    sizes[IG_LIBRARY_CHANNELS] = x->dim[c->spatial + 1];
    sizes[IG_LIBRARY_FILTERS] = y->dim[c->spatial + 1];
    sizes[IG_LIBRARY_GROUPS] = constant(c, c->groups);
    put_axes(c, x->dim + 1, 1, &sizes[IG_LIBRARY_IN]);
    put_axes(c, y->dim + 1, 1, &sizes[IG_LIBRARY_OUT]);
    put_axes(c, c->depth_dim, 1, &sizes[IG_LIBRARY_KERNEL]);
    put_attribute(c, IG_ATTR_strides, 1, &sizes[IG_LIBRARY_STRIDE]);
    put_attribute(c, IG_ATTR_dilations, 1, &sizes[IG_LIBRARY_DILATION]);
    put_attribute(c, IG_ATTR_before, 0, &sizes[IG_LIBRARY_BEFORE]);
    put_attribute(c, IG_ATTR_after, 0, &sizes[IG_LIBRARY_AFTER]);
}

/* Is no padding negative? Negative padding cuts pixels off, which cuDNN does not support. */
static bool is_padding(struct ig_contract *c, const ig_dim *sizes) {
    for (int i = IG_LIBRARY_BEFORE; i < IG_LIBRARY_CONV_SIZES; i++) {
        int64_t lo, hi;
        ig_dim_range(c->graph->dims, sizes[i], &lo, &hi);
        if (lo < 0) return false;
    }
    return true;
}

/* An epilogue must begin with a bias, and results must have the operands' type: for everything else cuDNN compiles its
 * engines at run time, which takes seconds per new shape. */
static bool has_engine(const struct ig_library_region *r) {
    bool follows = r->addend != IG_NO_VALUE || r->call->activation;
    return r->call->a_type == r->call->out_type && (r->bias != IG_NO_VALUE || !follows);
}

bool ig_cuda_contract_convolution(struct ig_contract *c) {
    struct ig_library_region r;
    ig_dim sizes[IG_LIBRARY_CONV_SIZES];
    if (c->spatial < 1 || c->spatial > 2 || is_depthwise(c)) return false;
    if (!c->lower.is_input[c->node.in[0]] || !are_filters(c)) return false;
    if (!ig_library_region_init(&r, c, IG_LIBRARY_CUDNN, IG_LIBRARY_CONVOLUTION)) return false;
    if (!has_engine(&r)) return false;
    find_sizes(c, sizes);
    if (!is_padding(c, sizes)) return false;
    r.call->a = (uint32_t)c->lower.buffer_of[c->node.in[0]];
    r.call->b = (uint32_t)c->lower.buffer_of[c->node.in[1]];
    ig_library_adapt(c->kernel, r.call->b);
    return ig_library_region_finish(&r, sizes, CHOICES);
}
