/* Operators that move bytes, choose among them or add them up, as they do with what these stand for; see quantized.h. */
#include <math.h>

#include "pass/integer/quantized.h"
#include "pass/match.h"
#include "pass/view/view.h"

/* ---- Movement: the same operator on bytes, exactly ---- */

/* Zeros become zero points. Not on axes of one element: that is how gaps for transposed convolutions are made, which
 * split-phases knows with zeros only. */
static ig_value pad(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, struct ig_quantized *q) {
    struct ig_graph *g = rw->out;
    const struct ig_attr *before = ig_attr(rw->in, n, IG_ATTR_before), *after = ig_attr(rw->in, n, IG_ATTR_after);
    enum ig_pad_mode mode = (enum ig_pad_mode)ig_attr_int(rw->in, n, IG_ATTR_mode);
    bool valued = n->n_in > 1 && in[1] != IG_NO_VALUE;
    const struct ig_type type = *ig_type_of(g, q->bytes);
    ig_value value = IG_NO_VALUE;
    if (mode == IG_PAD_CONSTANT) {
        int64_t least = type.dtype == INGOT_I8 ? -128 : 0;
        if ((valued && !ig_match_value(g, in[1], 0)) || q->zero < least || q->zero > least + 255) return IG_NO_VALUE;
        for (int i = 0; i < type.rank; i++) {
            bool pads = !ig_dim_is(g->dims, before->dims[i], 0) || !ig_dim_is(g->dims, after->dims[i], 0);
            if (pads && ig_dim_is(g->dims, type.dim[i], 1)) return IG_NO_VALUE;
        }
        value = ig_build_scalar_int(g, type.dtype, q->zero);
    }
    return ig_build_pad(g, q->bytes, before->dims, after->dims, mode, value);
}

/* All parts must have one scale and one zero point. */
static ig_value concat(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, struct ig_quantized *q) {
    struct ig_graph *g = rw->out;
    ig_value *parts = IG_NEW_ARRAY(g->job, ig_value, n->n_in);
    for (uint32_t i = 0; i < n->n_in; i++) {
        struct ig_quantized part;
        if (!ig_match_quantized(g, in[i], &part) || part.zero != q->zero || !ig_same_scale(g, part.scale, q->scale) ||
            ig_type_of(g, part.bytes)->dtype != ig_type_of(g, q->bytes)->dtype)
            return IG_NO_VALUE;
        parts[i] = part.bytes;
    }
    return ig_build_concat(g, parts, (int)n->n_in, (int)ig_attr_int(rw->in, n, IG_ATTR_axis));
}

/* Of two values with one scale and zero point, or of a value and 0. */
static ig_value extreme(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, struct ig_quantized *q) {
    struct ig_graph *g = rw->out;
    struct ig_quantized other;
    enum ingot_dtype dtype = ig_type_of(g, q->bytes)->dtype;
    if (!ig_same_dims(ig_type_of(g, in[0]), ig_type_of(rw->in, n->out))) return IG_NO_VALUE;
    if (ig_match_value(g, in[1], 0)) {
        int64_t least = dtype == INGOT_I8 ? -128 : 0;
        if (q->zero < least || q->zero > least + 255) return IG_NO_VALUE;
        return ig_map2(g, n->op, q->bytes, ig_build_scalar_int(g, dtype, q->zero));
    }
    if (!ig_match_quantized(g, in[1], &other) || other.zero != q->zero || !ig_same_scale(g, other.scale, q->scale))
        return IG_NO_VALUE;
    if (ig_type_of(g, other.bytes)->dtype != dtype || !ig_same_dims(ig_type_of(g, in[1]), ig_type_of(g, in[0])))
        return IG_NO_VALUE;
    return ig_map2(g, n->op, q->bytes, other.bytes);
}

/* A window that lies beyond the edges has no maximum among the bytes. */
static bool windows_overlap(struct ig_rewriter *rw, const struct ig_node *n) {
    const struct ig_attr *before = ig_attr(rw->in, n, IG_ATTR_before), *kernel = ig_attr(rw->in, n, IG_ATTR_kernel);
    const struct ig_attr *dilations = ig_attr(rw->in, n, IG_ATTR_dilations);
    for (int i = 0; i < before->count; i++) {
        int64_t size;
        if (!ig_dim_is_const(rw->in->dims, before->dims[i], &size)) return false;
        if (size > (kernel->ints[i] - 1) * dilations->ints[i] || dilations->ints[i] != 1) return false;
    }
    return true;
}

/* Dequantised bytes in the form in which they are known, if the model has another: i8, say. */
static ig_value restated(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    struct ig_quantized q;
    if (ig_info(rw->in, n->out)->is_const || ig_type_of(rw->in, n->out)->dtype != INGOT_F32) return IG_NO_VALUE;
    if (!ig_match_quantized(g, ig_map2(g, n->op, in[0], in[1]), &q)) return ig_integer_fake(rw, n, in);
    return ig_build_dequantized(g, &q);
}

ig_value ig_integer_move(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    struct ig_quantized q;
    if (n->op == IG_OP_mul) return restated(rw, n, in);
    if (!ig_match_quantized(g, in[0], &q)) return IG_NO_VALUE;
    switch (n->op) {
    case IG_OP_pad: q.bytes = pad(rw, n, in, &q); break;
    case IG_OP_concat: q.bytes = concat(rw, n, in, &q); break;
    case IG_OP_max:
    case IG_OP_min: q.bytes = extreme(rw, n, in, &q); break;
    case IG_OP_gather: q.bytes = ig_build_copy(g, rw->in, n, (ig_value[]){q.bytes, in[1]}); break;
    case IG_OP_pool_max: q.bytes = windows_overlap(rw, n) ? ig_build_copy(g, rw->in, n, &q.bytes) : IG_NO_VALUE; break;
    default: q.bytes = ig_build_copy(g, rw->in, n, &q.bytes);
    }
    return q.bytes == IG_NO_VALUE ? IG_NO_VALUE : ig_build_dequantized(g, &q);
}

/* ---- Sums and means ---- */

/* The product of the sizes of the reduced axes, or of the kernel; 0 if it is not known. */
static int64_t count_of(struct ig_rewriter *rw, const struct ig_node *n) {
    bool reduces = n->op == IG_OP_reduce_mean || n->op == IG_OP_reduce_sum;
    const struct ig_attr *list = ig_attr(rw->in, n, reduces ? IG_ATTR_axes : IG_ATTR_kernel);
    int64_t count = 1;
    for (int i = 0; i < list->count; i++) {
        int64_t size = reduces ? 0 : list->ints[i];
        if (reduces && !ig_dim_is_const(rw->in->dims, ig_type_of(rw->in, n->in[0])->dim[list->ints[i]], &size))
            return 0;
        if (size <= 0 || size > (1 << 22) / count) return 0; /* sums of bytes then have less than 31 bits */
        count *= size;
    }
    return count;
}

/* Do all windows have the kernel's number of elements, by which the sums are divided? */
static bool are_whole(const struct ig_rewriter *rw, const struct ig_node *n) {
    struct ig_dims *d = rw->in->dims;
    const struct ig_attr *before = ig_attr(rw->in, n, IG_ATTR_before), *after = ig_attr(rw->in, n, IG_ATTR_after);
    const struct ig_attr *kernel = ig_attr(rw->in, n, IG_ATTR_kernel), *sizes = ig_attr(rw->in, n, IG_ATTR_sizes);
    const struct ig_attr *strides = ig_attr(rw->in, n, IG_ATTR_strides);
    const struct ig_attr *dilations = ig_attr(rw->in, n, IG_ATTR_dilations);
    bool padding_counts = ig_attr_int(rw->in, n, IG_ATTR_count_pad);
    int first = ig_attr_int(rw->in, n, IG_ATTR_channels_last) ? 1 : 2;
    for (int i = 0; i < before->count; i++) {
        bool padded = !ig_dim_is(d, before->dims[i], 0) || !ig_dim_is(d, after->dims[i], 0);
        ig_dim room = ig_dim_add(d, before->dims[i], after->dims[i]);
        room = ig_dim_add(d, room, ig_type_of(rw->in, n->in[0])->dim[first + i]);
        room = ig_dim_sub(d, room, ig_dim_const(d, (kernel->ints[i] - 1) * dilations->ints[i] + 1));
        ig_dim last = ig_dim_sub(d, sizes->dims[i], ig_dim_const(d, 1));
        room = ig_dim_sub(d, room, ig_dim_mul(d, last, ig_dim_const(d, strides->ints[i])));
        int64_t lo, hi;
        ig_dim_range(d, room, &lo, &hi);
        if (lo < 0 || (padded && !padding_counts)) return false;
    }
    return true;
}

static ig_value scaled_sum(struct ig_graph *g, ig_value sum, ig_value scale, int64_t count) {
    if (count != 1) scale = ig_map2(g, IG_OP_div, scale, ig_build_scalar(g, INGOT_F32, (double)count));
    return ig_map2(g, IG_OP_mul, ig_build_cast(g, sum, INGOT_F32), scale);
}

static ig_value mean_of_windows(struct ig_rewriter *rw, const struct ig_node *n, const struct ig_quantized *q,
                                int64_t count) {
    struct ig_graph *g = rw->out;
    if (n->op == IG_OP_pool_avg && !are_whole(rw, n)) {
        /* Sums of up to 65,793 bytes are exact in f32, too. */
        ig_value x = ig_build_centered(g, q->bytes, q->zero, INGOT_F32);
        return count > 65793 ? IG_NO_VALUE : ig_map2(g, IG_OP_mul, ig_build_copy(g, rw->in, n, &x), q->scale);
    }
    ig_value x = ig_build_centered(g, q->bytes, q->zero, INGOT_I32);
    struct ig_graph *const none[2] = {NULL, NULL};
    x = ig_build_node(g, IG_OP_pool_sum, &x, 1, 1, n->attr, none); /* its attributes are the first of pool_avg's */
    return scaled_sum(g, x, q->scale, n->op == IG_OP_pool_avg ? count : 1);
}

ig_value ig_integer_mean(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *g = rw->out;
    struct ig_quantized q;
    int64_t count = count_of(rw, n);
    if (count == 0 || !ig_match_quantized(g, in[0], &q)) return IG_NO_VALUE;
    if (n->op == IG_OP_pool_avg || n->op == IG_OP_pool_sum) return mean_of_windows(rw, n, &q, count);
    const struct ig_attr *axes = ig_attr(rw->in, n, IG_ATTR_axes);
    ig_value sum = ig_build_cast(g, q.bytes, INGOT_I32);
    sum = ig_build_reduce(g, IG_OP_reduce_sum, sum, axes->ints, axes->count);
    if (q.zero) sum = ig_map2(g, IG_OP_sub, sum, ig_build_scalar_int(g, INGOT_I32, count * q.zero));
    return scaled_sum(g, sum, q.scale, n->op == IG_OP_reduce_mean ? count : 1);
}
