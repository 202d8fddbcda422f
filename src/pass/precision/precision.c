/*
 * precision: contractions read, and memory between kernels holds, the narrow type that was requested.
 *
 * Requires:   the graph as it will be divided into regions: after layout, before pack.
 * Guarantees: f32 contractions of precision fp16 or bf16 read operands of that type and still produce f32, in which
 *             their epilogue is computed; weights are cast, as a recipe. Values that one region stores and another
 *             reads are narrow if their range and their readers allow it (precision_range.c, precision_storage.c).
 *             So are a recurrence's weights on GPUs.
 *             Everything else stays f32: computation inside regions, statistics, inputs and outputs of the graph and of
 *             the bodies of control flow. On GPUs, contractions of precision tf32 are marked, and those of fp16 whose
 *             operands may exceed its range.
 *
 * A value is rounded once, when it is stored: readers in its own region see it in f32. So the pass must know the
 * regions before they are formed, and forms them once for itself. The casts that it adds do not change them: a cast to
 * a narrow type ends the region that stores it, and a cast to f32 is read through like a view (fuse/form.c).
 */
#include "pass/precision/precision.h"

#include "pass/fuse/regions.h"
#include "pass/passes.h"
#include "pass/view/view.h"

struct narrowing {
    const struct ig_precisions *precisions;
    struct ig_graph *g; /* the old graph, with regions */
    const struct ig_range *ranges;
    const struct ig_storage *storage;
    int64_t weights;  /* of all products */
    ig_value *narrow; /* by value: the stored form, in the new graph */
};

/* Only f32 values are narrowed; other types stay as they are. */
static bool is_wide_float(const struct ig_graph *g, ig_value v) {
    return ig_type_of(g, v)->dtype == INGOT_F32;
}

static ig_value cast_to(struct ig_rewriter *rw, ig_value v, enum ingot_dtype dtype) {
    return ig_build_cast(rw->out, v, dtype);
}

static bool is_narrow(const struct narrowing *s, ig_value v) {
    return s->storage[v].dtype != INGOT_DTYPE_NONE;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Is n in the region that computes v, so that it sees v before rounding? */
static bool same_region(const struct narrowing *s, const struct ig_node *n, ig_value v) {
    const struct ig_node *producer = ig_def(s->g, v);
    return producer && producer->region != IG_NO_REGION && producer->region == n->region;
}

/* v as node n reads it: f32. */
static ig_value read_wide(struct ig_rewriter *rw, const struct ig_node *n, ig_value v) {
    const struct narrowing *s = rw->state;
    if (!is_narrow(s, v) || same_region(s, n, v)) return rw->map[v];
    return cast_to(rw, s->narrow[v], INGOT_F32);
}

/* v as node n reads it, in a narrow type. What is wide in memory is narrowed beneath views, where its elements lie in
 * their own order, and where other readers may want the same. */
static ig_value read_narrow(struct ig_rewriter *rw, const struct ig_node *n, ig_value v, enum ingot_dtype dtype) {
    const struct narrowing *s = rw->state;
    if (is_narrow(s, v) && !same_region(s, n, v)) return cast_to(rw, s->narrow[v], dtype);
    const struct ig_node *view = ig_info(s->g, v)->is_const ? NULL : ig_def(s->g, v);
    bool whole = view && (view->op == IG_OP_reshape || view->op == IG_OP_transpose || view->op == IG_OP_broadcast);
    if (!whole || view->region != IG_NO_REGION) return cast_to(rw, rw->map[v], dtype);
    ig_value in = read_narrow(rw, view, view->in[0], dtype);
    return ig_build_copy(rw->out, s->g, view, &in);
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

/* The type in which a contraction reads its operands: narrow, unless one may exceed the range, small results matter, or
 * integers are multiplied and the results rounded to integers. */
static enum ingot_dtype operand_dtype(const struct narrowing *s, const struct ig_node *n) {
    enum ingot_dtype dtype = ig_precision_dtype(ig_precision_of(s->precisions, n->origin));
    if (s->ranges[n->in[0]].rounded || s->ranges[n->out].small) return INGOT_F32;
    for (int i = 0; i < 2; i++) {
        if (!is_wide_float(s->g, n->in[i])) return INGOT_F32;
        if (dtype == INGOT_F16 && s->ranges[n->in[i]].large) return INGOT_F32;
    }
    return is_wide_float(s->g, n->out) ? dtype : INGOT_F32;
}

/* May a product of f32 operands be rounded to TF32, where that is asked for, or where only the range forbids f16? TF32 has f16's
 * digits and f32's range. What comes from integers stays exact, and where small results matter. */
static bool multiplies_in_tf32(const struct ig_rewriter *rw, const struct ig_node *n) {
    const struct narrowing *s = rw->state;
    enum ig_precision asked = ig_precision_of(s->precisions, n->origin);
    if (!ig_target_is_cuda(rw->options->target) || !is_wide_float(s->g, n->in[0])) return false;
    if (asked == IG_PRECISION_TF32) return true;
    if (asked != IG_PRECISION_FP16 || !is_wide_float(s->g, n->in[1])) return false;
    if (s->ranges[n->in[0]].rounded || s->ranges[n->out].small) return false;
    return !s->ranges[n->in[0]].quantized && !s->ranges[n->in[1]].quantized;
}

/* Weights that are stored as codes are dequantised to the type of the first operand. Their scales are cast to it. */
static ig_value rewrite_coded(struct ig_rewriter *rw, const struct ig_node *n) {
    const struct narrowing *s = rw->state;
    enum ingot_dtype dtype = ig_precision_dtype(ig_precision_of(s->precisions, n->origin));
    bool fits = is_wide_float(s->g, n->in[0]) && is_wide_float(s->g, n->out) && !s->ranges[n->in[0]].rounded &&
                !(dtype == INGOT_F16 && (s->ranges[n->in[0]].large || s->ranges[n->in[2]].large));
    ig_value in[5] = {IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE};
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = n->in[i] == IG_NO_VALUE ? IG_NO_VALUE : rw->map[n->in[i]];
    in[0] = fits && dtype != INGOT_F32 ? read_narrow(rw, n, n->in[0], dtype) : read_wide(rw, n, n->in[0]);
    if (fits && is_wide_float(s->g, n->in[2])) in[2] = cast_to(rw, in[2], dtype);
    return ig_build_node(rw->out, n->op, in, n->n_in, 1, n->attr, NULL);
}

static ig_value rewrite_contraction(struct ig_rewriter *rw, const struct ig_node *n) {
    const struct narrowing *s = rw->state;
    if (n->op == IG_OP_matmul_blocks) return rewrite_coded(rw, n);
    enum ingot_dtype dtype = operand_dtype(s, n);
    enum ig_gain gain = ig_precision_gain(rw->options->target, s->g, n, dtype, s->weights);
    if (ig_precision_is_ordered(s->precisions, n->origin)) gain = IG_GAIN_OPERANDS;
    ig_value in[3] = {IG_NO_VALUE, IG_NO_VALUE, IG_NO_VALUE};
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == IG_NO_VALUE) continue;
        bool is_narrow = dtype != INGOT_F32 && (i == 0 ? gain == IG_GAIN_OPERANDS : i == 1 && gain != IG_GAIN_NOTHING);
        in[i] = is_narrow ? read_narrow(rw, n, n->in[i], dtype) : read_wide(rw, n, n->in[i]);
    }
    struct ig_attr *attrs = ig_attrs_copy(rw->out, n->op, n->attr);
    if (dtype == INGOT_F32 && multiplies_in_tf32(rw, n)) attrs[ig_attr_slot(n->op, IG_ATTR_math)].i = IG_MATH_TF32;
    return ig_build_node(rw->out, n->op, in, n->n_in, 1, attrs, no_bodies);
}

/* Rebuilds a movement so that it moves narrow values. */
static ig_value rewrite_movement(struct ig_rewriter *rw, const struct ig_node *n, enum ingot_dtype dtype) {
    ig_value *in = IG_NEW_ARRAY(rw->in->job, ig_value, n->n_in + 1);
    for (uint32_t i = 0; i < n->n_in; i++) {
        in[i] = n->in[i];
        if (in[i] != IG_NO_VALUE)
            in[i] = is_wide_float(rw->in, in[i]) ? read_narrow(rw, n, in[i], dtype) : rw->map[in[i]];
    }
    return ig_build_copy(rw->out, rw->in, n, in);
}

/* Are these the recurrent weights of a recurrence, which GPUs convert as they multiply? */
static bool are_narrow_weights(const struct ig_rewriter *rw, const struct ig_node *n, uint32_t input) {
    const struct narrowing *s = rw->state;
    bool recurs = n->op == IG_OP_lstm || n->op == IG_OP_gru || n->op == IG_OP_rnn;
    if (!recurs || input != 1 || !ig_target_is_cuda(rw->options->target)) return false;
    return ig_info(s->g, n->in[1])->is_const && is_wide_float(s->g, n->in[1]) && !s->ranges[n->in[1]].large;
}

/* Is this a large table of what an attention adds to scores, a number for each, such as biases by relative position and masks of windows?
 * Blocks of GPUs read it from the second-level cache, for each of a head's or a window's images anew, and more of it than of queries, keys and
 * values (bench/results/gpu/convolutions/2026-11-30-pools-and-pictures.md). */
static bool is_table_of_scores(const struct ig_rewriter *rw, const struct ig_node *n, uint32_t input) {
    enum { LARGE = 1 << 11 /* numbers of a head */ };
    const struct narrowing *s = rw->state;
    const ig_value v = n->in[input];
    if (n->region == IG_NO_REGION || s->g->regions.at[n->region].family != IG_FAMILY_ATTEND) return false;
    if (v == IG_NO_VALUE || !ig_info(s->g, v)->is_const || !is_wide_float(s->g, v) || s->ranges[v].large ||
        !ig_target_is_cuda(rw->options->target))
        return false;
    const struct ig_type *type = ig_type_of(s->g, v), *out = ig_type_of(s->g, n->out);
    int64_t numbers = 1;
    for (int i = 1; i <= 2; i++) {
        int64_t size;
        if (type->rank < 2 || type->dim[type->rank - i] != out->dim[out->rank - i]) return false;
        if (!ig_dim_is_const(s->g->dims, type->dim[type->rank - i], &size)) return false;
        numbers *= size;
    }
    return numbers >= LARGE;
}

static ig_value rewrite_other(struct ig_rewriter *rw, const struct ig_node *n) {
    const struct narrowing *s = rw->state;
    const enum ingot_dtype dtype = ig_precision_dtype(ig_precision_of(s->precisions, n->origin));
    ig_value *in = IG_NEW_ARRAY(rw->in->job, ig_value, n->n_in + 1);
    for (uint32_t i = 0; i < n->n_in; i++) {
        in[i] = n->in[i] == IG_NO_VALUE ? IG_NO_VALUE : read_wide(rw, n, n->in[i]);
        if (are_narrow_weights(rw, n, i)) in[i] = cast_to(rw, rw->map[n->in[i]], dtype);
        if (dtype == INGOT_F16 && is_table_of_scores(rw, n, i))
            in[i] = cast_to(rw, cast_to(rw, rw->map[n->in[i]], dtype), INGOT_F32);
    }
    return ig_build_copy(rw->out, rw->in, n, in);
}

static struct ig_graph *narrow_graph(struct ig_graph *in, const struct ig_pass_options *options);

/* Inputs and outputs of bodies keep their types; each body is narrowed as a graph of its own. */
static ig_value rewrite_control(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in) {
    struct ig_graph *body[2] = {NULL, NULL};
    for (int b = 0; b < 2; b++) {
        if (n->body[b]) body[b] = narrow_graph(n->body[b], rw->options);
    }
    return ig_build_node(rw->out, n->op, in, n->n_in, n->n_out, n->attr, body);
}

static bool rewrite(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    struct narrowing *s = rw->state;
    enum ig_family family = ig_op_info(n->op)->family;
    if (ig_info(rw->in, n->out)->is_const) return false;
    if ((family == IG_FAMILY_VIEW || family == IG_FAMILY_COLLECTIVE) && is_narrow(s, n->out)) {
        s->narrow[n->out] = rewrite_movement(rw, n, s->storage[n->out].dtype);
        out_values[0] = cast_to(rw, s->narrow[n->out], INGOT_F32);
        return true;
    }
    bool scaled = n->op == IG_OP_matmul_scaled; /* whose operands are narrow already, and whose scales stay wide */
    ig_value first = family == IG_FAMILY_CONTRACT && !scaled ? rewrite_contraction(rw, n)
                     : family == IG_FAMILY_CONTROL           ? rewrite_control(rw, n, in)
                                                             : rewrite_other(rw, n);
    for (uint32_t o = 0; o < n->n_out; o++) {
        const struct ig_storage *storage = &s->storage[n->out + o];
        out_values[o] = first + o;
        if (storage->dtype != INGOT_DTYPE_NONE) s->narrow[n->out + o] = cast_to(rw, first + o, storage->dtype);
        if (storage->reason) ig_build_kept(rw->out, first + o, storage->reason);
    }
    return true;
}

/* ---- The pass ---------------------------------------------------------------------------------------------------- */

static struct ig_graph *narrow_graph(struct ig_graph *in, const struct ig_pass_options *options) {
    struct narrowing s = {.precisions = options->precisions};
    s.g = in->regions.count > 0 ? in : ig_regions_stored(in, options);
    s.ranges = ig_precision_ranges(s.g);
    s.weights = ig_precision_weights(s.g);
    s.storage = ig_precision_storage(s.g, options->target, s.precisions, s.ranges);
    s.narrow = IG_NEW_ARRAY(in->job, ig_value, s.g->values.count + 1);
    return ig_rewrite(s.g, options, rewrite, &s);
}

struct ig_graph *ig_pass_precision(struct ig_graph *in, const struct ig_pass_options *options) {
    const struct ig_precisions *p = options->precisions;
    if (!p || (p->base == IG_PRECISION_FP32 && p->n_rules == 0)) return in;
    return narrow_graph(in, options);
}
