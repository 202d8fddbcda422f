/* Attention: derives the problem (attend.h) from a region, and lowers what is spliced into the loops of its
 * schedules. */
#include <string.h>

#include "kernel/family/attend.h"

static ig_x num(struct ig_attention *a, int64_t i) {
    return ig_x_index(a->k, i);
}

static ig_x dim(struct ig_attention *a, ig_dim d) {
    return ig_x_dim(a->k, d);
}

static ig_dim constant(struct ig_attention *a, int64_t i) {
    return ig_dim_const(a->graph->dims, i);
}

static ig_x f32(struct ig_attention *a, double x) {
    return ig_x_float(a->k, INGOT_F32, x);
}

/* ---- The problem ------------------------------------------------------------------------------------------------- */

void ig_attention_read(struct ig_attention *a) {
    struct ig_graph *g = a->graph;
    if (!ig_attend_match(g, NULL, a->region->anchor, &a->parts))
        ig_raise(g->job, INGOT_INTERNAL, "a region of the attend family without an attention");
    a->scores = g->nodes.at[a->parts.scores];
    a->product = g->nodes.at[a->parts.product];
    a->score_type = *ig_type_of(g, a->scores.out);
    a->out_type = *ig_type_of(g, a->product.out);
    int rank = a->score_type.rank;
    IG_ASSERT(g->job, rank >= 2 && a->out_type.rank == rank);
    a->heads = ig_dim_product(g->dims, a->score_type.dim, rank - 2);
    a->queries = a->score_type.dim[rank - 2];
    a->keys = a->score_type.dim[rank - 1];
    const struct ig_type *q = ig_type_of(g, a->scores.in[0]);
    a->depth = q->dim[q->rank - 1];
    a->columns = a->out_type.dim[rank - 1];
}

void ig_attention_head(struct ig_attention *a, ig_x head, ig_x *out_index) {
    struct ig_type heads = a->score_type;
    heads.rank -= 2;
    ig_lower_split(&a->lower, &heads, head, out_index);
}

/* An element of an operand; the operand's head index follows from NumPy's broadcasting rule. */
static ig_x operand(struct ig_attention *a, ig_value v, const ig_x *head, ig_x row, ig_x column) {
    struct ig_dims *dims = a->graph->dims;
    struct ig_type type = *ig_type_of(a->graph, v);
    ig_x index[INGOT_MAX_RANK];
    for (int i = 0; i < type.rank - 2; i++) {
        int j = i + a->score_type.rank - type.rank;
        int64_t n = 0;
        index[i] = ig_dim_is_const(dims, type.dim[i], &n) && n == 1 ? num(a, 0) : head[j];
        if (n == 1 || type.dim[i] == a->score_type.dim[j]) continue;
        /* The dim may be 1 at run time. */
        index[i] = ig_x_min(a->k, index[i], dim(a, ig_dim_sub(dims, type.dim[i], constant(a, 1))));
    }
    index[type.rank - 2] = row;
    index[type.rank - 1] = column;
    return ig_lower_value(&a->lower, v, index);
}

ig_x ig_attention_query(struct ig_attention *a, const ig_x *head, ig_x query, ig_x depth) {
    return operand(a, a->scores.in[0], head, query, depth);
}

ig_x ig_attention_key(struct ig_attention *a, const ig_x *head, ig_x key, ig_x depth) {
    return operand(a, a->scores.in[1], head, depth, key);
}

ig_x ig_attention_value(struct ig_attention *a, const ig_x *head, ig_x key, ig_x column) {
    return operand(a, a->product.in[1], head, key, column);
}

/* ---- Expressions spliced into the loops -------------------------------------------------------------------------- */

static ig_x at_hand(void *user, ig_value v, const ig_x *index) {
    struct ig_attention *a = user;
    if (v != a->at_hand) return IG_NO_X;
    const struct ig_type *type = ig_type_of(a->graph, v);
    for (int i = 0; i < type->rank; i++) {
        int64_t n;
        bool one = ig_dim_is_const(a->graph->dims, type->dim[i], &n) && n == 1;
        a->astray |= index[i] != a->position[i] && !one;
    }
    return ig_x_cast(a->k, a->value, type->dtype, false);
}

static void take_in_hand(struct ig_attention *a, ig_value v, const ig_x *head, ig_x row, ig_x column, ig_x value) {
    int rank = a->score_type.rank;
    memcpy(a->position, head, (size_t)(rank - 2) * sizeof *head);
    a->position[rank - 2] = row;
    a->position[rank - 1] = column;
    a->at_hand = v;
    a->value = value;
    a->lower.known = at_hand;
    a->lower.user = a;
}

ig_x ig_attention_changed(struct ig_attention *a, const ig_x *head, ig_x query, ig_x key, ig_x score) {
    ig_x index[INGOT_MAX_RANK];
    struct ig_type from = a->score_type, to = *ig_type_of(a->graph, a->parts.changed);
    from.rank -= 2;
    to.rank -= 2;
    ig_lower_reindex(&a->lower, &from, head, &to, index);
    index[to.rank] = query;
    index[to.rank + 1] = key;
    take_in_hand(a, a->scores.out, head, query, key, score);
    ig_x x = ig_x_cast(a->k, ig_lower_value(&a->lower, a->parts.changed, index), INGOT_F32, false);
    a->lower.known = NULL;
    return x;
}

ig_x ig_attention_result(struct ig_attention *a, ig_x sum, ig_x total) {
    struct ig_loops *k = a->k;
    if (a->parts.guarded) total = ig_x_select(k, ig_x_map2(k, IG_OP_eq, total, f32(a, 0)), f32(a, 1), total);
    ig_x inverse = ig_x_map2(k, IG_OP_div, f32(a, 1), total);
    ig_x none = ig_x_less(k, dim(a, a->keys), num(a, 1));
    ig_x result = ig_x_select(k, none, f32(a, 0), ig_x_map2(k, IG_OP_mul, sum, inverse));
    if (!a->parts.repaired) return result;
    /* All weights become zero: 0 * sum, which is still NaN if a value is infinite or NaN. */
    return ig_x_select(k, ig_x_map1(k, IG_OP_isnan, total), ig_x_map2(k, IG_OP_mul, sum, f32(a, 0)), result);
}

/* Outputs have the shape of the product, or are transposes of it. */
void ig_attention_store(struct ig_attention *a, struct ig_stmt *body, const ig_x *head, ig_x query, ig_x column,
                        ig_x result) {
    take_in_hand(a, a->product.out, head, query, column, result);
    for (uint32_t i = 0; i < a->region->outputs.count; i++) {
        ig_value v = a->region->outputs.at[i];
        struct ig_type type = *ig_type_of(a->graph, v);
        const struct ig_node *order = ig_def_op(a->graph, v, IG_OP_transpose);
        const int64_t *perm = order ? ig_attr(a->graph, order, IG_ATTR_perm)->ints : NULL;
        ig_x index[INGOT_MAX_RANK];
        IG_ASSERT(a->graph->job, type.rank == a->out_type.rank);
        for (int d = 0; d < type.rank; d++) {
            int from = perm ? (int)perm[d] : d;
            IG_ASSERT(a->graph->job, type.dim[d] == a->out_type.dim[from]);
            index[d] = a->position[from];
        }
        ig_x value = ig_lower_value(&a->lower, v, index);
        ig_s_store(a->k, body, a->lower.buffer_of[v], ig_lower_linear(&a->lower, &type, index), value);
    }
    a->lower.known = NULL;
}
