/*
 * attend: permits the fuse pass to make regions of attentions.
 *
 * Requires:   nothing.
 * Guarantees: nothing is rewritten. The graph is marked, and so are those that later passes derive from it.
 *
 * It also decides which attentions qualify: on GPUs, those whose queries, keys and values lie in memory in the form
 * that the kernel (kernel/cuda/attend/attend.c) copies, as rows of 16-byte pieces; on CPUs those of several queries, in f32,
 * or in bf16 where AMX has tiles for it. Otherwise the two products and the softmax between them stay separate regions.
 * These conditions are about profit only: kernels handle any attention.
 */
#include "pass/fuse/attend.h"

#include "pass/passes.h"

struct attends {
    struct ig_graph *g;
    const bool *stored;
    const struct ig_target *target;
    bool is_cuda;
};

static bool known(const struct attends *s, ig_dim d, int64_t *out) {
    return ig_dim_is_const(s->g->dims, d, out);
}

/* The operand's axis of which the result's `axis` is the innermost part, so that a step along either moves equally far
 * in memory; -1: none. */
static int axis_before_reshape(const struct attends *s, const struct ig_type *from, const struct ig_type *to,
                               int axis) {
    struct ig_dims *dims = s->g->dims;
    ig_dim after = ig_dim_product(dims, to->dim + axis + 1, to->rank - axis - 1);
    for (int i = from->rank - 1; i >= 0; i--) {
        int64_t n;
        if (known(s, from->dim[i], &n) && n == 1) continue;
        if (ig_dim_product(dims, from->dim + i + 1, from->rank - i - 1) != after) continue;
        return ig_dim_divides(dims, to->dim[axis], from->dim[i]) ? i : -1;
    }
    return -1;
}

static int axis_before(const struct attends *s, const struct ig_node *view, int axis) {
    const struct ig_type *from = ig_type_of(s->g, view->in[0]), *to = ig_type_of(s->g, view->out);
    switch (view->op) {
    case IG_OP_transpose: return (int)ig_attr(s->g, view, IG_ATTR_perm)->ints[axis];
    case IG_OP_slice: return ig_attr(s->g, view, IG_ATTR_steps)->ints[axis] == 1 ? axis : -1;
    case IG_OP_reshape: return axis_before_reshape(s, from, to, axis);
    case IG_OP_broadcast: {
        int before = axis - (to->rank - from->rank);
        return before >= 0 && from->dim[before] == to->dim[axis] ? before : -1;
    }
    default: return -1;
    }
}

/* Are elements adjacent along the axis adjacent in memory? Looks through views down to the stored value. */
static bool is_innermost(const struct attends *s, ig_value v, int axis) {
    for (;;) {
        const struct ig_node *n = ig_info(s->g, v)->is_const ? NULL : ig_def(s->g, v);
        bool view = n && ig_op_info(n->op)->family == IG_FAMILY_VIEW && n->op != IG_OP_concat;
        if (!view || (s->stored[v] && n->op != IG_OP_reshape)) return axis == ig_type_of(s->g, v)->rank - 1;
        if ((axis = axis_before(s, n, axis)) < 0) return false;
        v = n->in[0];
    }
}

/* Can the kernel copy this operand: is the axis (counted from the last) a head's depth, contiguous and made of whole
 * 16-byte pieces? */
static bool is_heads(const struct attends *s, ig_value v, int from_last, enum ingot_dtype dtype) {
    const struct ig_type *type = ig_type_of(s->g, v);
    int axis = type->rank - 1 - from_last;
    int64_t depth;
    if (type->rank < 2 || type->dtype != dtype || !known(s, type->dim[axis], &depth)) return false;
    int64_t piece = 16 / (int64_t)ingot_dtype_size(dtype);
    return depth >= piece && depth <= IG_ATTEND_MOST_DEPTH && depth % piece == 0 && is_innermost(s, v, axis);
}

static bool is_plain_product(const struct attends *s, const struct ig_node *n) {
    return ig_attr_int(s->g, n, IG_ATTR_packed) == 0 && ig_attr_int(s->g, n, IG_ATTR_acc) == INGOT_F32;
}

/* Have the softmax's results the rows and batches of the product, so that none is broadcast? */
static bool same_rows(const struct ig_type *weights, const struct ig_type *out) {
    if (weights->rank != out->rank) return false;
    for (int i = 0; i < out->rank - 1; i++) {
        if (weights->dim[i] != out->dim[i]) return false;
    }
    return true;
}

/* On CPUs the kernel copies its operands from wherever they lie, which some queries are worth. */
static bool pays_on_cpu(const struct attends *s, const struct ig_node *scores, const struct ig_node *product) {
    enum { LEAST_QUERIES = 16 };
    const struct ig_type *q = ig_type_of(s->g, scores->in[0]), *out = ig_type_of(s->g, product->out);
    int64_t depth, columns, lo, hi;
    if (!known(s, q->dim[q->rank - 1], &depth) || !known(s, out->dim[out->rank - 1], &columns)) return false;
    ig_dim_range(s->g->dims, out->dim[out->rank - 2], &lo, &hi);
    return depth <= IG_ATTEND_MOST_DEPTH && columns <= IG_ATTEND_MOST_DEPTH && hi >= LEAST_QUERIES;
}

/* In bf16, whole tiles of AMX are wanted. */
static bool suits_processor(const struct attends *s, enum ingot_dtype dtype, const struct ig_node *scores) {
    enum { LEAST_DEPTH = 16 };
    const struct ig_type *q = ig_type_of(s->g, scores->in[0]);
    int64_t depth;
    if (dtype == INGOT_F32) return true;
    if (ig_target_together(s->target, dtype, dtype) != 2) return false;
    return known(s, q->dim[q->rank - 1], &depth) && depth % LEAST_DEPTH == 0;
}

static bool pays(const struct attends *s, const struct ig_attend *a) {
    const struct ig_node *scores = &s->g->nodes.at[a->scores], *product = &s->g->nodes.at[a->product];
    enum ingot_dtype dtype = ig_type_of(s->g, scores->in[0])->dtype;
    if (dtype != INGOT_F32 && dtype != INGOT_F16 && dtype != INGOT_BF16) return false;
    if (!is_plain_product(s, scores) || !is_plain_product(s, product)) return false;
    if (ig_type_of(s->g, product->in[0])->dtype != dtype) return false;
    if (!same_rows(ig_type_of(s->g, product->in[0]), ig_type_of(s->g, product->out))) return false;
    if (!s->is_cuda) return suits_processor(s, dtype, scores) && pays_on_cpu(s, scores, product);
    return is_heads(s, scores->in[0], 0, dtype) && is_heads(s, scores->in[1], 1, dtype) &&
           is_heads(s, product->in[1], 0, dtype);
}

/* Does an attention found earlier end inside this one? */
static bool overlaps(const struct ig_attend *const *found, const struct ig_attend *a) {
    for (uint32_t i = 0; i < a->nodes.count; i++) {
        if (found[a->nodes.at[i]]) return true;
    }
    return false;
}

const struct ig_attend **ig_find_attends(struct ig_graph *g, const uint32_t *uses, const bool *stored,
                                         const struct ig_pass_options *options) {
    if (!options->target) return NULL;
    struct attends s = {
        .g = g, .stored = stored, .target = options->target, .is_cuda = ig_target_is_cuda(options->target)};
    uint32_t count = g->nodes.count;
    const struct ig_attend **found = IG_NEW_ARRAY(g->job, const struct ig_attend *, count + 1);
    for (ig_node_id id = 0; id < count; id++) {
        struct ig_attend a;
        if (g->nodes.at[id].op != IG_OP_matmul || !ig_attend_match(g, uses, id, &a)) continue;
        if (overlaps(found, &a) || !pays(&s, &a)) continue;
        found[id] = ig_memdup(g->job, &a, sizeof a);
    }
    return found;
}

static void mark(struct ig_graph *g) {
    g->attends = true;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        for (int b = 0; b < 2; b++) {
            if (g->nodes.at[id].body[b]) mark(g->nodes.at[id].body[b]);
        }
    }
}

struct ig_graph *ig_pass_attend(struct ig_graph *in, const struct ig_pass_options *options) {
    struct ig_graph *out = ig_rewrite(in, options, NULL, NULL);
    mark(out);
    return out;
}
