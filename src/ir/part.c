/* Parts of tensors; see part.h. */
#include "ir/part.h"

enum { CUDA_ALIGNMENT = 16 };

/* Is 0 <= start and start + size <= dim, whatever the symbols' values? */
static bool is_within(struct ig_dims *dims, ig_dim start, ig_dim size, ig_dim dim) {
    return ig_dim_less(dims, start, ig_dim_const(dims, 0)) == IG_NO &&
           ig_dim_less(dims, dim, ig_dim_add(dims, start, size)) == IG_NO;
}

bool ig_part_begin(struct ig_graph *g, const struct ig_node *n, ig_dim *out_begin) {
    struct ig_dims *dims = g->dims;
    if (n->op != IG_OP_slice) return false;
    const struct ig_type *whole = ig_type_of(g, n->in[0]), *part = ig_type_of(g, n->out);
    const struct ig_attr *starts = ig_attr(g, n, IG_ATTR_starts), *steps = ig_attr(g, n, IG_ATTR_steps);
    ig_dim stride = ig_dim_const(dims, 1), one = stride, zero = ig_dim_const(dims, 0);
    bool cut = false; /* a later axis is not taken whole, so that this one must have size 1 */
    *out_begin = zero;
    for (int i = whole->rank - 1; i >= 0; i--) {
        if (cut && part->dim[i] != one) return false;
        if (steps->ints[i] != 1 && part->dim[i] != one) return false;
        bool all = starts->dims[i] == zero && part->dim[i] == whole->dim[i];
        if (!all && !is_within(dims, starts->dims[i], part->dim[i], whole->dim[i])) return false;
        cut = cut || !all;
        *out_begin = ig_dim_add(dims, *out_begin, ig_dim_mul(dims, starts->dims[i], stride));
        stride = ig_dim_mul(dims, stride, whole->dim[i]);
    }
    return true;
}

bool ig_part_is_aligned(struct ig_graph *g, const struct ig_target *target, enum ingot_dtype dtype, ig_dim begin) {
    if (!target || !ig_target_is_cuda(target)) return true;
    int64_t group = CUDA_ALIGNMENT / (int64_t)ingot_dtype_size(dtype);
    return ig_dim_divides(g->dims, ig_dim_const(g->dims, group), begin);
}

bool ig_part_is_row_of_parts(const struct ig_graph *g, const struct ig_node *n) {
    if (n->op != IG_OP_concat) return false;
    int64_t axis = ig_attr_int(g, n, IG_ATTR_axis), size;
    for (int64_t i = 0; i < axis; i++) {
        if (!ig_dim_is_const(g->dims, ig_type_of(g, n->out)->dim[i], &size) || size != 1) return false;
    }
    return true;
}

ig_value ig_part_base(const struct ig_graph *g, ig_value v) {
    const struct ig_node *n;
    while (!ig_info(g, v)->is_const && (n = ig_def_op(g, v, IG_OP_reshape)))
        v = n->in[0];
    return v;
}

const struct ig_node *ig_part_stored(const struct ig_graph *g, ig_value output) {
    ig_value v = ig_part_base(g, output);
    const struct ig_node *n = ig_info(g, v)->is_const ? NULL : ig_def_op(g, v, IG_OP_concat);
    return n && n->region == IG_NO_REGION ? n : NULL;
}

bool ig_part_is_given(const struct ig_graph *g, ig_value v) {
    for (;;) {
        const struct ig_node *n = ig_def(g, v);
        if (ig_info(g, v)->is_const) return false;
        if (!n) return true;
        if (n->region != IG_NO_REGION || (n->op != IG_OP_reshape && n->op != IG_OP_slice)) return false;
        v = n->in[0];
    }
}

uint32_t ig_part_producer(const struct ig_graph *g, ig_value v) {
    for (;;) {
        const struct ig_node *n = ig_info(g, v)->is_const ? NULL : ig_def(g, v);
        if (!n) return IG_NO_REGION;
        if (n->region != IG_NO_REGION || n->n_in == 0) return n->region;
        v = n->in[0];
    }
}
