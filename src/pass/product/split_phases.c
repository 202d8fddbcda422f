/*
 * split-phases: a transposed convolution becomes an ordinary one with more output channels, which are then interleaved.
 *
 * Requires:   nothing; runs after fold-batch-norm, which needs the convolution's original channels.
 * Guarantees: a stride-1 convolution without groups whose input is interleaved with zeros (s - 1 between neighbours,
 *             the importer's form of ConvTranspose) reads the original input. Its output at s*q + r depends on every
 *             s-th weight only, so each phase r is a small convolution; one convolution computes all phases, and a
 *             transpose puts them in place. Nothing is multiplied by the zeros. The weights are recipes.
 *             Phases with fewer taps get zeros for the others: so a NaN or an infinity of the input reaches results
 *             near its own, too.
 *             What one convolution computes in vain, zeros and positions beyond the result, is much of a small image's: on CPUs each
 *             phase has a convolution of its own there. An image of one position needs no convolution at all (single_position.c).
 *
 * Source: Shi et al. 2016, "Is the deconvolution layer the same as a convolutional layer?"
 */
#include <string.h>

#include "pass/match.h"
#include "pass/passes.h"
#include "pass/product/single_position.h"
#include "pass/view/view.h"

enum { MAX_PHASES = 64, MAX_SPATIAL = INGOT_MAX_RANK - 2 };

/* One spatial axis. Tap t of the old kernel and output s*q + r - shift meet at input q + offset where t = first + s*j. */
struct phase_axis {
    int64_t stride, kernel, before, after; /* of the old convolution over the spread input */
    int64_t shift;                         /* of the outputs that are computed together: 0 … stride - 1 */
    int64_t lowest, taps;                  /* of the new one: input q + lowest … q + lowest + taps - 1 */
    int64_t extra;                         /* outputs per phase beyond the input's size */
};

struct split {
    struct ig_graph *g;
    int spatial;
    struct phase_axis axis[MAX_SPATIAL];
    int64_t phases;
};

static int64_t floor_mod(int64_t a, int64_t b) {
    int64_t m = a % b;
    return m < 0 ? m + b : m;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b > 0);
}

static int64_t first_tap(const struct phase_axis *a, int64_t r) {
    return floor_mod(a->before + a->shift - r, a->stride);
}

static int64_t tap_count(const struct phase_axis *a, int64_t r) {
    int64_t first = first_tap(a, r);
    return first < a->kernel ? (a->kernel - first - 1) / a->stride + 1 : 0;
}

/* Offset from q of the input that the first tap of phase r reads; the division is exact by the choice of the tap. */
static int64_t first_offset(const struct phase_axis *a, int64_t r) {
    return (r + first_tap(a, r) - a->before - a->shift) / a->stride;
}

/* ---- Recognising ------------------------------------------------------------------------------------------------- */

static bool pads_only_gap(struct ig_graph *g, const struct ig_node *pad, int64_t *out_gap) {
    const struct ig_attr *before = ig_attr(g, pad, IG_ATTR_before), *after = ig_attr(g, pad, IG_ATTR_after);
    if (ig_attr_int(g, pad, IG_ATTR_mode) != IG_PAD_CONSTANT || before->count != 4) return false;
    if (pad->n_in > 1 && pad->in[1] != IG_NO_VALUE) return false;
    for (int i = 0; i < 4; i++) {
        if (!ig_dim_is(g->dims, before->dims[i], 0)) return false;
        if (i != 2 && !ig_dim_is(g->dims, after->dims[i], 0)) return false;
    }
    return ig_dim_is_const(g->dims, after->dims[2], out_gap);
}

/* Matches v = x with zeros between neighbours along axis: x reshaped to [a, size, 1, b], its third axis padded at the
 * end, reshaped to [.., size * s, ..], and the last zeros sliced off. */
static bool match_spread(struct ig_graph *g, ig_value v, int axis, ig_value *out_x, int64_t *out_stride) {
    const struct ig_node *slice = ig_def_op(g, v, IG_OP_slice);
    const struct ig_node *outer = slice ? ig_def_op(g, slice->in[0], IG_OP_reshape) : NULL;
    const struct ig_node *pad = outer ? ig_def_op(g, outer->in[0], IG_OP_pad) : NULL;
    int64_t gap;
    if (!pad || !pads_only_gap(g, pad, &gap) || gap < 1) return false;
    const struct ig_attr *starts = ig_attr(g, slice, IG_ATTR_starts), *steps = ig_attr(g, slice, IG_ATTR_steps);
    for (int i = 0; i < starts->count; i++) {
        if (!ig_dim_is(g->dims, starts->dims[i], 0) || steps->ints[i] != 1) return false;
    }
    struct ig_type apart = *ig_type_of(g, pad->in[0]), type = *ig_type_of(g, v);
    ig_dim stride = ig_dim_const(g->dims, gap + 1), zero = ig_dim_const(g->dims, 0);
    ig_dim size = ig_dim_sub(g->dims, ig_dim_mul(g->dims, apart.dim[1], stride), ig_dim_const(g->dims, gap));
    if (!ig_dim_is(g->dims, apart.dim[2], 1)) return false;
    if (type.dim[axis] != size && type.dim[axis] != ig_dim_max(g->dims, size, zero)) return false;
    if (apart.dim[0] != ig_dim_product(g->dims, type.dim, axis)) return false;
    if (apart.dim[3] != ig_dim_product(g->dims, type.dim + axis + 1, type.rank - axis - 1)) return false;
    type.dim[axis] = apart.dim[1];
    *out_x = ig_view_reshape(g, pad->in[0], type.dim, type.rank);
    *out_stride = gap + 1;
    return true;
}

static bool all_ones(const struct ig_attr *a) {
    for (int i = 0; i < a->count; i++) {
        if (a->ints[i] != 1) return false;
    }
    return true;
}

/* Which inputs the outputs of a position read, for that shift. */
static void shift_outputs(struct phase_axis *a, int64_t shift) {
    int64_t highest = INT64_MIN;
    a->shift = shift;
    a->lowest = INT64_MAX;
    for (int64_t r = 0; r < a->stride; r++) {
        int64_t first = first_offset(a, r), last = first + tap_count(a, r) - 1;
        if (tap_count(a, r) == 0) continue;
        if (first < a->lowest) a->lowest = first;
        if (last > highest) highest = last;
    }
    a->taps = highest - a->lowest + 1;
    a->extra = ceil_div(a->before + a->after - a->kernel + 2 - a->stride + shift, a->stride);
}

/* The shift with the fewest taps: where a kernel has 4 and the stride is 2, the two outputs on either side of an input's edge
 * read the same two inputs, and those of one input three. */
static bool read_axis(struct split *s, const struct ig_graph *old, const struct ig_node *n, int i) {
    struct phase_axis *a = &s->axis[i];
    a->kernel = ig_attr(old, n, IG_ATTR_kernel)->ints[i];
    if (!ig_dim_is_const(s->g->dims, ig_attr(old, n, IG_ATTR_before)->dims[i], &a->before)) return false;
    if (!ig_dim_is_const(s->g->dims, ig_attr(old, n, IG_ATTR_after)->dims[i], &a->after)) return false;
    shift_outputs(a, 0);
    struct phase_axis best = *a;
    for (int64_t shift = 1; shift < a->stride; shift++) {
        shift_outputs(a, shift);
        if (a->taps < best.taps) best = *a;
    }
    *a = best;
    return a->lowest <= 0 && a->extra + a->lowest + a->taps - 1 >= 0;
}

/* Fills s and replaces *inout_x by the input before it was spread. */
static bool match(struct split *s, struct ig_rewriter *rw, const struct ig_node *n, ig_value *inout_x) {
    struct ig_graph *old = rw->in;
    s->g = rw->out;
    s->spatial = ig_type_of(s->g, *inout_x)->rank - 2;
    s->phases = 1;
    if (ig_attr_int(old, n, IG_ATTR_channels_last) || ig_attr_int(old, n, IG_ATTR_groups) != 1) return false;
    if (ig_attr_int(old, n, IG_ATTR_packed) || ig_attr_int(old, n, IG_ATTR_border) ||
        2 + 2 * s->spatial > INGOT_MAX_RANK)
        return false;
    if (!all_ones(ig_attr(old, n, IG_ATTR_strides)) || !all_ones(ig_attr(old, n, IG_ATTR_dilations))) return false;
    for (int i = s->spatial - 1; i >= 0; i--) {
        s->axis[i].stride = 1;
        match_spread(s->g, *inout_x, 2 + i, inout_x, &s->axis[i].stride);
        s->phases *= s->axis[i].stride;
        if (s->phases > MAX_PHASES || !read_axis(s, old, n, i)) return false;
    }
    return s->phases > 1;
}

/* ---- Building ---------------------------------------------------------------------------------------------------- */

static ig_dim number(const struct split *s, int64_t value) {
    return ig_dim_const(s->g->dims, value);
}

/* The weights of one phase, as a kernel over the new taps. */
static ig_value phase_weights(const struct split *s, ig_value w, int64_t phase) {
    struct ig_type type = *ig_type_of(s->g, w);
    ig_dim starts[INGOT_MAX_RANK], before[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    int64_t steps[INGOT_MAX_RANK];
    for (int i = 0; i < type.rank; i++) {
        starts[i] = before[i] = after[i] = number(s, 0);
        steps[i] = 1;
    }
    for (int i = s->spatial - 1; i >= 0; i--) {
        const struct phase_axis *a = &s->axis[i];
        int64_t r = phase % a->stride, count = tap_count(a, r);
        phase /= a->stride;
        int64_t front = count ? first_offset(a, r) - a->lowest : 0;
        starts[2 + i] = number(s, count ? first_tap(a, r) : 0);
        steps[2 + i] = a->stride;
        type.dim[2 + i] = number(s, count);
        before[2 + i] = number(s, front);
        after[2 + i] = number(s, a->taps - count - front);
    }
    w = ig_build_slice(s->g, w, starts, type.dim, steps);
    return ig_build_pad(s->g, w, before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
}

/* Of inputs q + lowest … for all outputs q of the axes, to m channels. */
static ig_value build_conv(struct split *s, const struct ig_node *n, ig_value x, ig_value w, ig_value bias, int64_t m) {
    ig_dim before[MAX_SPATIAL], after[MAX_SPATIAL];
    int64_t kernel[MAX_SPATIAL];
    for (int i = 0; i < s->spatial; i++) {
        const struct phase_axis *a = &s->axis[i];
        before[i] = number(s, -a->lowest);
        after[i] = number(s, a->extra + a->lowest + a->taps - 1);
        kernel[i] = a->taps;
    }
    struct ig_attr *attrs = ig_attrs_copy(s->g, n->op, n->attr);
    attrs[ig_attr_slot(n->op, IG_ATTR_before)] = ig_attr_of_dims(before, s->spatial);
    attrs[ig_attr_slot(n->op, IG_ATTR_after)] = ig_attr_of_dims(after, s->spatial);
    attrs[ig_attr_slot(n->op, IG_ATTR_kernel)] = ig_attr_of_ints(kernel, s->spatial);
    attrs[ig_attr_slot(n->op, IG_ATTR_n)] = ig_attr_of_int(m);
    const ig_value in[3] = {x, w, bias};
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    return ig_build_node(s->g, n->op, in, bias == IG_NO_VALUE ? 2 : 3, 1, attrs, no_bodies);
}

static ig_value build_joined(struct split *s, const struct ig_node *n, ig_value x, ig_value w, ig_value bias) {
    ig_value parts[MAX_PHASES];
    const int64_t m = n->attr[ig_attr_slot(n->op, IG_ATTR_n)].i;
    for (int64_t p = 0; p < s->phases; p++)
        parts[p] = phase_weights(s, w, p);
    if (bias != IG_NO_VALUE) {
        ig_dim wide[2] = {number(s, s->phases), number(s, m)}, flat = number(s, s->phases * m);
        bias = ig_build_reshape(s->g, ig_build_broadcast(s->g, bias, wide, 2), &flat, 1);
    }
    return build_conv(s, n, x, ig_build_concat(s->g, parts, (int)s->phases, 0), bias, s->phases * m);
}

/* ---- Each phase by itself ---------------------------------------------------------------------------------------- */

/* The axes of one phase, whose convolution has its own taps only. */
static struct split alone(const struct split *s, int64_t phase) {
    struct split own = *s;
    for (int i = s->spatial - 1; i >= 0; i--) {
        struct phase_axis *a = &own.axis[i];
        const int64_t r = phase % a->stride;
        phase /= a->stride;
        shift_outputs(a, 0);
        a->lowest = first_offset(a, r);
        a->taps = tap_count(a, r);
    }
    return own;
}

/* Does it read inputs from the first to the last output on, as convolutions with padding can? */
static bool is_conv(const struct split *own) {
    for (int i = 0; i < own->spatial; i++) {
        const struct phase_axis *a = &own->axis[i];
        if (a->taps == 0 || a->lowest > 0 || a->extra + a->lowest + a->taps - 1 < 0) return false;
    }
    return true;
}

/* Multiplications for each pair of channels; 0: the image's size is not known. */
static int64_t products_of(const struct split *s, const struct ig_type *x) {
    int64_t products = 1, size;
    for (int i = 0; i < s->spatial; i++) {
        if (!ig_dim_is_const(s->g->dims, x->dim[2 + i], &size)) return 0;
        products *= (size + s->axis[i].extra) * s->axis[i].taps;
    }
    return products;
}

/* Is a tenth saved, and more than other kernels cost? */
static bool pays_apart(const struct split *s, const struct ig_node *n, ig_value x, const struct ig_target *target) {
    enum { LEAST = 4 << 20 /* multiplications: some 15 us of two cores */ };
    const struct ig_type *type = ig_type_of(s->g, x);
    int64_t apart = 0, joined = products_of(s, type) * s->phases, channels;
    if (!target || ig_target_is_cuda(target) || !ig_dim_is_const(s->g->dims, type->dim[1], &channels)) return false;
    for (int64_t p = 0; p < s->phases; p++) {
        const struct split own = alone(s, p);
        if (!is_conv(&own)) return false;
        apart += products_of(&own, type);
    }
    const int64_t pairs = channels * n->attr[ig_attr_slot(n->op, IG_ATTR_n)].i;
    return joined - apart > joined / 11 && (joined - apart) * pairs > LEAST;
}

/* Each phase's outputs, [N, M, q...], and between them those of the others: [N, M, q*s...], cut to the old result's size. */
static ig_value build_apart(struct split *s, const struct ig_node *n, ig_value x, ig_value w, ig_value bias,
                            const struct ig_type *result) {
    ig_value parts[MAX_PHASES];
    struct ig_type type;
    ig_dim starts[INGOT_MAX_RANK];
    int64_t count = s->phases, ones[INGOT_MAX_RANK];
    for (int64_t p = 0; p < s->phases; p++) {
        struct split own = alone(s, p);
        ig_value v = build_conv(&own, n, x, phase_weights(&own, w, p), bias, n->attr[ig_attr_slot(n->op, IG_ATTR_n)].i);
        struct ig_type apart = type = *ig_type_of(s->g, v);
        apart.rank = 2 + 2 * s->spatial;
        for (int i = 0; i < s->spatial; i++) {
            apart.dim[2 + 2 * i] = type.dim[2 + i];
            apart.dim[3 + 2 * i] = number(s, 1);
        }
        parts[p] = ig_view_reshape(s->g, v, apart.dim, apart.rank);
    }
    for (int i = s->spatial - 1; i >= 0; i--) {
        count /= s->axis[i].stride;
        for (int64_t p = 0; p < count; p++)
            parts[p] = ig_build_concat(s->g, parts + p * s->axis[i].stride, (int)s->axis[i].stride, 3 + 2 * i);
    }
    for (int i = 0; i < type.rank; i++) {
        starts[i] = number(s, 0);
        ones[i] = 1;
        if (i >= 2) type.dim[i] = ig_dim_mul(s->g->dims, type.dim[i], number(s, s->axis[i - 2].stride));
    }
    return ig_build_slice(s->g, ig_view_reshape(s->g, parts[0], type.dim, type.rank), starts, result->dim, ones);
}

/* [N, phases*M, q...] to [N, M, q*s...], cut to the old result's size. */
static ig_value interleave(struct split *s, ig_value v, const struct ig_type *result) {
    struct ig_type type = *ig_type_of(s->g, v);
    ig_dim apart[INGOT_MAX_RANK], together[INGOT_MAX_RANK], starts[INGOT_MAX_RANK];
    int64_t perm[INGOT_MAX_RANK], ones[INGOT_MAX_RANK];
    int rank = 0, count = 0, phase_axis[MAX_SPATIAL], channels;
    apart[rank++] = type.dim[0];
    for (int i = 0; i < s->spatial; i++) {
        phase_axis[i] = rank;
        if (s->axis[i].stride > 1) apart[rank++] = number(s, s->axis[i].stride);
    }
    channels = rank;
    apart[rank++] = result->dim[1];
    for (int i = 0; i < s->spatial; i++)
        apart[rank++] = type.dim[2 + i];
    perm[count++] = 0;
    perm[count++] = channels;
    for (int i = 0; i < s->spatial; i++) {
        perm[count++] = channels + 1 + i;
        if (s->axis[i].stride > 1) perm[count++] = phase_axis[i];
    }
    for (int i = 0; i < result->rank; i++) {
        starts[i] = number(s, i < 2 ? 0 : s->axis[i - 2].shift);
        ones[i] = 1;
        together[i] = i < 2 ? result->dim[i] : ig_dim_mul(s->g->dims, type.dim[i], number(s, s->axis[i - 2].stride));
    }
    v = ig_view_transpose(s->g, ig_view_reshape(s->g, v, apart, rank), perm);
    v = ig_view_reshape(s->g, v, together, result->rank);
    return ig_build_slice(s->g, v, starts, result->dim, ones);
}

static bool split(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct split s;
    ig_value x = in[0], product = ig_multiply_position(rw, n, in);
    if (product != IG_NO_VALUE) {
        out_values[0] = product;
        return true;
    }
    if (n->op != IG_OP_conv || !match(&s, rw, n, &x)) return false;
    const ig_value bias = n->n_in > 2 ? in[2] : IG_NO_VALUE;
    struct ig_type result = *ig_type_of(rw->in, n->out);
    out_values[0] = pays_apart(&s, n, x, rw->options->target)
                        ? build_apart(&s, n, x, in[1], bias, &result)
                        : interleave(&s, build_joined(&s, n, x, in[1], bias), &result);
    return true;
}

struct ig_graph *ig_pass_split_phases(struct ig_graph *in, const struct ig_pass_options *options) {
    return ig_rewrite(in, options, split, NULL);
}
