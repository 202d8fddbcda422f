/*
 * pad-channels: on GPUs, images between convolutions get zero channels up to whole loads of 16 bytes.
 *
 * Requires:   layout (channels-last form), precision (final types).
 * Guarantees: the input of a convolution without groups whose types have 16 bits, and whose channels are no multiple of 8, has zero
 *             weights beyond them, so that windows are copied in pieces of 16 bytes, or by the copy engine. Values pass on what
 *             was added: a convolution makes the zeros by weights of its own, elementwise operators that make finite numbers
 *             of zeros and reshapes of other axes keep it, and what else reads the value reads a slice. Other inputs are padded themselves where the window
 *             has several positions. The weights are recipes. Results are the same.
 *
 * A third of the channels is the most that is wasted: half of what there were.
 */
#include "pass/match.h"
#include "pass/passes.h"
#include "pass/view/view.h"

enum { LOAD = 16, ELEMENT = 2 /* bytes */ };

struct padding {
    struct ig_graph *in;
    bool *able, *wanted; /* by old value: can be made with more channels, and is wanted so */
    ig_value *padded;    /* by old value: the new one with more channels, or IG_NO_VALUE */
};

static int64_t channels_of(struct ig_graph *g, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    int64_t size = 0;
    return type->rank > 0 && ig_dim_is_const(g->dims, type->dim[type->rank - 1], &size) ? size : 0;
}

static int64_t whole(int64_t channels) {
    int64_t each = LOAD / ELEMENT;
    return (channels + each - 1) / each * each;
}

static bool is_uneven(struct ig_graph *g, ig_value v) {
    int64_t channels = channels_of(g, v);
    return ingot_dtype_size(ig_type_of(g, v)->dtype) == ELEMENT && ig_dtype_is_float(ig_type_of(g, v)->dtype) &&
           whole(channels) != channels && 2 * whole(channels) <= 3 * channels;
}

static bool is_plain_conv(struct ig_graph *g, const struct ig_node *n) {
    return n->op == IG_OP_conv && ig_attr_int(g, n, IG_ATTR_channels_last) && ig_attr_int(g, n, IG_ATTR_groups) == 1 &&
           ig_attr_int(g, n, IG_ATTR_border) == 0 && ig_info(g, n->in[1])->is_const;
}

static bool has_window(struct ig_graph *g, const struct ig_node *n) {
    const struct ig_attr *kernel = ig_attr(g, n, IG_ATTR_kernel);
    bool many = false;
    for (int i = 0; i < kernel->count; i++)
        many |= kernel->ints[i] > 1;
    return many;
}

/* Of one pixel, as of channels' factors, little is read. */
static bool is_one_pixel(struct ig_graph *g, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    bool one = true;
    for (int i = 1; i < type->rank - 1; i++)
        one &= ig_dim_is(g->dims, type->dim[i], 1);
    return one;
}

/* Are its results finite where its operands are zero, or constants, whatever these are? */
static bool is_finite_map(const struct ig_node *n) {
    switch (n->op) {
    case IG_OP_add:
    case IG_OP_sub:
    case IG_OP_mul:
    case IG_OP_min:
    case IG_OP_max:
    case IG_OP_abs:
    case IG_OP_neg:
    case IG_OP_sigmoid:
    case IG_OP_tanh:
    case IG_OP_normcdf:
    case IG_OP_cast: return true;
    default: return false;
    }
}

/* Does the operand have a number for each channel of the result? */
static bool has_channels(struct ig_graph *g, const struct ig_node *n, ig_value operand) {
    return channels_of(g, operand) == channels_of(g, n->out);
}

/* A reshape of what lies beside the channels. */
static bool keeps_channels(struct ig_graph *g, const struct ig_node *n) {
    return n->op == IG_OP_reshape && channels_of(g, n->out) > 0 && has_channels(g, n, n->in[0]);
}

static bool is_able(struct padding *p, const struct ig_node *n) {
    bool able = false, passes = is_finite_map(n) || keeps_channels(p->in, n);
    if (is_plain_conv(p->in, n)) return true;
    for (uint32_t i = 0; passes && i < n->n_in; i++)
        able |= has_channels(p->in, n, n->in[i]) && p->able[n->in[i]];
    return able;
}

static void find_wanted(struct padding *p) {
    struct ig_graph *g = p->in;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (n->n_out == 1) p->able[n->out] = is_able(p, n);
    }
    for (ig_node_id id = g->nodes.count; id-- > 0;) {
        const struct ig_node *n = &g->nodes.at[id];
        if (is_plain_conv(g, n) && is_uneven(g, n->in[0]) && !is_one_pixel(g, n->in[0]) &&
            (has_window(g, n) || p->able[n->in[0]]))
            p->wanted[n->in[0]] = true;
        if (n->n_out != 1 || !p->wanted[n->out] || !p->able[n->out] || is_plain_conv(g, n)) continue;
        for (uint32_t i = 0; i < n->n_in; i++)
            p->wanted[n->in[i]] |= has_channels(g, n, n->in[i]);
    }
}

/* The new value of `old`, with whole loads of channels. */
static ig_value padded_of(struct ig_rewriter *rw, ig_value old) {
    struct padding *p = rw->state;
    if (p->padded[old] == IG_NO_VALUE) {
        int64_t channels = channels_of(p->in, old);
        p->padded[old] =
            ig_build_pad_end(rw->out, rw->map[old], ig_type_of(p->in, old)->rank - 1, whole(channels) - channels);
    }
    return p->padded[old];
}

/* The convolution of an input with more channels, if it is wanted so, with so many more results. */
static ig_value pad_conv(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, int64_t more) {
    struct padding *p = rw->state;
    struct ig_graph *g = rw->out;
    struct ig_node conv = *n;
    ig_value operands[3] = {in[0], in[1], n->n_in > 2 ? in[2] : IG_NO_VALUE};
    if (p->wanted[n->in[0]]) {
        operands[0] = padded_of(rw, n->in[0]);
        operands[1] = ig_build_pad_end(g, operands[1], 1, channels_of(g, operands[0]) - channels_of(p->in, n->in[0]));
    }
    if (more > 0) {
        struct ig_attr *attrs = ig_attrs_copy(g, n->op, n->attr);
        attrs[ig_attr_slot(n->op, IG_ATTR_n)].i += more;
        conv.attr = attrs;
        operands[1] = ig_build_pad_end(g, operands[1], 0, more);
        if (operands[2] != IG_NO_VALUE) operands[2] = ig_build_pad_end(g, operands[2], 0, more);
    }
    return ig_build_copy(g, rw->in, &conv, operands);
}

static ig_value pad_map(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    ig_value operands[3];
    if (n->op == IG_OP_reshape) {
        struct ig_type type = *ig_type_of(rw->in, n->out);
        ig_value padded = padded_of(rw, n->in[0]);
        type.dim[type.rank - 1] = ig_dim_const(rw->out->dims, channels_of(rw->out, padded));
        return ig_view_reshape(rw->out, padded, type.dim, type.rank);
    }
    for (uint32_t i = 0; i < n->n_in; i++)
        operands[i] = has_channels(rw->in, n, n->in[i]) ? padded_of(rw, n->in[i]) : in[i];
    return ig_build_copy(rw->out, rw->in, n, operands);
}

static bool pad_channels(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct padding *p = rw->state;
    struct ig_graph *g = rw->out;
    if (rw->in != p->in || n->n_out != 1) return false; /* within a body, or not one of these operators */
    bool conv = is_plain_conv(p->in, n), makes = p->wanted[n->out] && p->able[n->out];
    if (!makes && !(conv && p->wanted[n->in[0]])) return false;
    int64_t channels = channels_of(p->in, n->out), more = makes ? whole(channels) - channels : 0;
    ig_value made = conv ? pad_conv(rw, n, in, more) : pad_map(rw, n, in);
    out_values[0] = made;
    if (more == 0) return true;
    p->padded[n->out] = made;
    out_values[0] = ig_build_slice_axis(g, made, ig_type_of(g, made)->rank - 1, ig_dim_const(g->dims, 0),
                                        ig_dim_const(g->dims, channels), 1);
    return true;
}

struct ig_graph *ig_pass_pad_channels(struct ig_graph *in, const struct ig_pass_options *options) {
    if (!ig_target_is_cuda(options->target)) return in;
    struct padding p = {.in = in,
                        .able = IG_NEW_ARRAY(in->job, bool, in->values.count + 1),
                        .wanted = IG_NEW_ARRAY(in->job, bool, in->values.count + 1),
                        .padded = IG_NEW_ARRAY(in->job, ig_value, in->values.count + 1)};
    for (uint32_t v = 0; v < in->values.count; v++)
        p.padded[v] = IG_NO_VALUE;
    find_wanted(&p);
    return ig_rewrite(in, options, pad_channels, &p);
}
