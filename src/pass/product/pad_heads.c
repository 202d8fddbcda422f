/*
 * pad-heads: on GPUs, the queries, keys and values of an attention get zeros up to whole loads of 16 bytes.
 *
 * Requires:   attend (which permits attentions in one kernel); before precision, which keeps wide what stays in one.
 * Guarantees: where a head's depth is no multiple of 16 bytes, zeros behind its queries and keys add nothing to their products, and the
 *             columns that the values' zeros make are cut off, so that one kernel can copy all three (fuse/attend.c). Results are
 *             the same.
 *
 * Three copies of what a head reads cost less than to store its scores and weights, if there are some queries: with 16 of them (tnt_s_patch16_224) they cost more.
 */
#include "ir/attend.h"
#include "pass/fuse/attend.h"
#include "pass/passes.h"
#include "pass/precision/precision.h"
#include "pass/view/view.h"

enum { LOAD = 16 /* bytes */, LEAST_QUERIES = 32 };

struct padding {
    struct ig_graph *in;
    /* By node of the old graph: the elements of a load, if heads are to be padded to such, or 0. */
    int64_t *scores, *product;
};

/* Elements of a load, in the type that the node's operands will have. */
static int64_t load_of(const struct ig_pass_options *options, const struct ig_node *n, enum ingot_dtype dtype) {
    return LOAD / (int64_t)ingot_dtype_size(ig_precision_of_operand(options->precisions, n, dtype));
}

/* What the last axis misses to whole loads; 0: nothing, or that is not known. */
static int64_t missing(const struct ig_graph *g, const struct ig_type *type, int64_t load) {
    int64_t size;
    if (!ig_dim_is_const(g->dims, type->dim[type->rank - 1], &size) || size > IG_ATTEND_MOST_DEPTH) return 0;
    return (load - size % load) % load;
}

static bool is_float(enum ingot_dtype dtype) {
    return dtype == INGOT_F32 || dtype == INGOT_F16 || dtype == INGOT_BF16;
}

static void find_attentions(struct padding *p, const struct ig_pass_options *options) {
    struct ig_graph *g = p->in;
    const uint32_t *uses = ig_graph_use_counts(g);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        struct ig_attend a;
        int64_t lo, queries;
        if (g->nodes.at[id].op != IG_OP_matmul || !ig_attend_match(g, uses, id, &a)) continue;
        const struct ig_type *q = ig_type_of(g, g->nodes.at[a.scores].in[0]), *v = ig_type_of(g, g->nodes.at[id].in[1]);
        ig_dim_range(g->dims, q->dim[q->rank - 2], &lo, &queries);
        if (!is_float(q->dtype) || v->dtype != q->dtype || queries < LEAST_QUERIES) continue;
        const int64_t load = load_of(options, &g->nodes.at[id], q->dtype);
        p->scores[a.scores] = missing(g, q, load) > 0 ? load : 0;
        p->product[id] = missing(g, v, load) > 0 ? load : 0;
    }
}

/* With zeros behind the elements of the last axis. */
static ig_value padded(struct ig_graph *g, ig_value v, int64_t load) {
    const struct ig_type type = *ig_type_of(g, v);
    ig_dim none[INGOT_MAX_RANK], after[INGOT_MAX_RANK];
    for (int i = 0; i < type.rank; i++)
        none[i] = after[i] = ig_dim_const(g->dims, 0);
    after[type.rank - 1] = ig_dim_const(g->dims, missing(g, &type, load));
    return ig_build_pad(g, v, none, after, IG_PAD_CONSTANT, IG_NO_VALUE);
}

/* The same behind the one before, where keys have their depth, which stays innermost in memory. */
static ig_value padded_keys(struct ig_graph *g, ig_value v, int64_t load) {
    return ig_view_swap(g, padded(g, ig_view_swap(g, v), load));
}

static ig_value multiply(struct ig_graph *g, const struct ig_node *n, ig_value a, ig_value b) {
    const ig_value in[] = {a, b};
    struct ig_graph *const no_bodies[2] = {NULL, NULL};
    return ig_build_node(g, n->op, in, 2, 1, ig_attrs_copy(g, n->op, n->attr), no_bodies);
}

/* The first columns, as many as there were. */
static ig_value cut(struct ig_graph *g, ig_value v, ig_dim columns) {
    return ig_build_slice_axis(g, v, ig_type_of(g, v)->rank - 1, ig_dim_const(g->dims, 0), columns, 1);
}

static bool pad_product(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    const struct padding *p = rw->state;
    struct ig_graph *g = rw->out;
    if (rw->in != p->in || n->n_out != 1) return false; /* within a body, or none of these */
    const ig_node_id id = (ig_node_id)(n - rw->in->nodes.at);
    const struct ig_type *type = ig_type_of(rw->in, n->out);
    if (p->scores[id]) {
        out_values[0] = multiply(g, n, padded(g, in[0], p->scores[id]), padded_keys(g, in[1], p->scores[id]));
        return true;
    }
    if (!p->product[id]) return false;
    out_values[0] = cut(g, multiply(g, n, in[0], padded(g, in[1], p->product[id])), type->dim[type->rank - 1]);
    return true;
}

struct ig_graph *ig_pass_pad_heads(struct ig_graph *in, const struct ig_pass_options *options) {
    if (!in->attends || !ig_target_is_cuda(options->target)) return in;
    struct padding p = {.in = in,
                        .scores = IG_NEW_ARRAY(in->job, int64_t, in->nodes.count + 1),
                        .product = IG_NEW_ARRAY(in->job, int64_t, in->nodes.count + 1)};
    find_attentions(&p, options);
    return ig_rewrite(in, options, pad_product, &p);
}
