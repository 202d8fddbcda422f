/*
 * Any region with reductions, whatever their shapes: one reduction after the other into scratch memory, then the
 * outputs, all in one tile. The fuse pass forms regular regions; this is the fallback for others. See row.h.
 */
#include "kernel/family/row.h"

static ig_x num(struct ig_row *r, int64_t i) {
    return ig_x_index(r->k, i);
}

static ig_x known(void *user, ig_value v, const ig_x *index) {
    struct ig_row *r = user;
    if (r->cache_of[v] < 0) return IG_NO_X;
    return ig_x_load(r->k, r->cache_of[v], ig_lower_linear(&r->lower, ig_type_of(r->graph, v), index));
}

static void add_result(struct ig_row *r, ig_value v) {
    struct ig_dims *dims = r->k->dims;
    const struct ig_type *type = ig_type_of(r->graph, v);
    enum ingot_dtype dtype = ig_dtype_compute(type->dtype);
    int buffer = ig_loops_scratch(r->k, dtype, ig_x_dim(r->k, r->scratch), ig_format(r->k->job, "result%u", v));
    ig_dim bytes = ig_dim_mul(dims, ig_type_elements(dims, type), ig_dim_const(dims, (int64_t)ingot_dtype_size(dtype)));
    ig_dim line = ig_dim_const(dims, 64);
    r->scratch = ig_dim_add(dims, r->scratch, ig_dim_mul(dims, ig_dim_ceil_div(dims, bytes, line), line));
    r->cache_of[v] = buffer;
}

/* Loops over the dims of a type where which[i] == wanted (NULL: all dims); dims of size 1 get no loop. */
static struct ig_stmt *loops(struct ig_row *r, struct ig_stmt *body, const struct ig_type *type, const bool *which,
                             bool wanted, ig_x *index) {
    int64_t n;
    for (int i = 0; i < type->rank; i++) {
        if (which && which[i] != wanted) continue;
        index[i] = num(r, 0);
        if (ig_dim_is_const(r->k->dims, type->dim[i], &n) && n == 1) continue;
        body = ig_s_for(r->k, body, IG_FOR_SERIAL, num(r, 0), ig_x_dim(r->k, type->dim[i]), num(r, 1), &index[i]);
    }
    return body;
}

static void axes_of(struct ig_row *r, const struct ig_node *n, bool *out_reduced) {
    for (int i = 0; i < INGOT_MAX_RANK; i++)
        out_reduced[i] = false;
    if (n->op == IG_OP_argmax || n->op == IG_OP_argmin) {
        out_reduced[ig_attr_int(r->graph, n, IG_ATTR_axis)] = true;
        return;
    }
    const struct ig_attr *axes = ig_attr(r->graph, n, IG_ATTR_axes);
    for (int i = 0; i < axes->count; i++)
        out_reduced[axes->ints[i]] = true;
}

/* Accumulates a step over the reduced axes; `index` holds the kept ones. */
static ig_x accumulate(struct ig_row *r, struct ig_stmt *body, struct ig_row_step *step, const bool *reduced,
                       ig_x extremum, ig_x *index) {
    const struct ig_type type = *ig_type_of(r->graph, step->in);
    enum ingot_dtype dtype = step->dtype == INGOT_F32 ? INGOT_F64 : step->dtype;
    step->acc = ig_s_acc(r->k, body, dtype, ig_x_cast(r->k, ig_row_neutral(r, step), dtype, false));
    body = loops(r, body, &type, reduced, true, index);
    ig_x place = num(r, 0);
    if (step->is_place) place = index[ig_attr_int(r->graph, ig_def(r->graph, step->value), IG_ATTR_axis)];
    ig_x term = ig_row_term(r, step, ig_lower_value(&r->lower, step->in, index), extremum, place);
    ig_s_update(r->k, body, step->acc, step->update, ig_x_cast(r->k, term, dtype, false));
    return ig_x_cast(r->k, ig_x_acc(r->k, step->acc, dtype), step->dtype, false);
}

static void emit_reduction(struct ig_row *r, struct ig_stmt *body, uint32_t *next) {
    struct ig_row_step *step = &r->steps.at[(*next)++];
    const struct ig_node node = *ig_def(r->graph, step->value);
    const struct ig_type type = *ig_type_of(r->graph, step->in);
    bool reduced[INGOT_MAX_RANK];
    axes_of(r, &node, reduced);
    r->count = ig_dim_const(r->k->dims, 1);
    for (int i = 0; i < type.rank; i++) {
        if (reduced[i]) r->count = ig_dim_mul(r->k->dims, r->count, type.dim[i]);
    }
    ig_x index[INGOT_MAX_RANK] = {0}, at[INGOT_MAX_RANK];
    body = loops(r, body, &type, reduced, false, index);
    for (int i = 0; i < type.rank; i++)
        at[i] = reduced[i] ? num(r, 0) : index[i];
    ig_x value = accumulate(r, body, step, reduced, IG_NO_X, index);
    if (node.op == IG_OP_argmax || node.op == IG_OP_argmin) {
        step = &r->steps.at[(*next)++];
        value = accumulate(r, body, step, reduced, value, index);
    }
    add_result(r, step->value);
    ig_s_store(r->k, body, r->cache_of[step->value], ig_lower_linear(&r->lower, ig_type_of(r->graph, step->value), at),
               ig_row_result(r, step, value));
}

void ig_row_staged(struct ig_row *r) {
    r->lower.known = known;
    r->lower.user = r;
    r->space = *ig_type_of(r->graph, r->steps.at[0].in);
    r->kernel->tiles = ig_dim_const(r->k->dims, 1);
    ig_x tile;
    struct ig_stmt *body = ig_s_for(r->k, NULL, IG_FOR_TILE, num(r, 0), num(r, 1), num(r, 1), &tile);
    for (uint32_t next = 0; next < r->steps.count;)
        emit_reduction(r, body, &next);
    for (uint32_t i = 0; i < r->region->outputs.count; i++) {
        ig_value v = r->region->outputs.at[i];
        const struct ig_type type = *ig_type_of(r->graph, v);
        ig_x index[INGOT_MAX_RANK];
        struct ig_stmt *inner = loops(r, body, &type, NULL, false, index);
        ig_s_store(r->k, inner, r->lower.buffer_of[v], ig_lower_linear(&r->lower, &type, index),
                   ig_lower_value(&r->lower, v, index));
    }
    r->kernel->tactic = "reductions in stages";
}
