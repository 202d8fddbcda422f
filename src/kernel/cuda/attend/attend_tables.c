/*
 * Attention on GPUs: loads from tables that are packed for it (pass/product/pack_tables.h), four scores of a thread at a time. Those of
 * a step are issued before the softmax of the step before, and so are there when its products are. See attend.h.
 */
#include "kernel/affine.h"
#include "kernel/cuda/attend/attend.h"

/* Four scores of a thread's row in 16 neighbouring keys: two of each eight. */
enum { TOGETHER = 16, EIGHT = 8, LANES = 4 };

static ig_x num(struct ig_cuda_attention *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_dim constant(struct ig_cuda_attention *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static ig_x last(struct ig_cuda_attention *s, ig_dim d) {
    return ig_x_dim(s->k, ig_dim_sub(s->k->dims, d, constant(s, 1)));
}

static ig_dim groups_of(struct ig_cuda_attention *s) {
    return ig_dim_ceil_div(s->k->dims, s->a->keys, constant(s, TOGETHER));
}

/* Where the first of four scores of lane at_lane in the sixteen at_group is, if the four are neighbours, else IG_NO_X. */
static ig_x first_of_four(struct ig_cuda_attention *s, ig_x load, ig_x at_key) {
    struct ig_loops *k = s->k;
    ig_dim two = constant(s, 2);
    ig_x of_two = ig_x_free_var(k, two), neighbour = ig_x_free_var(k, two), vars[] = {of_two, neighbour};
    ig_x key = ig_x_add(k, ig_x_mul(k, s->at_group, num(s, TOGETHER)), ig_x_mul(k, of_two, num(s, EIGHT)));
    key = ig_x_add(k, ig_x_add(k, key, ig_x_mul(k, s->at_lane, num(s, 2))), neighbour);
    ig_x place = ig_x_substitute(k, ig_x_look(k, load)->args[0], &at_key, &key, 1), zeros[] = {num(s, 0), num(s, 0)};
    struct ig_affine sum;
    ig_affine_of(k, place, &sum);
    if (ig_affine_entangled(k, &sum, of_two) || ig_affine_factor(k, &sum, of_two) != two) return IG_NO_X;
    if (ig_affine_entangled(k, &sum, neighbour) || ig_affine_factor(k, &sum, neighbour) != constant(s, 1))
        return IG_NO_X;
    if (ig_affine_entangled(k, &sum, s->at_group) || ig_affine_factor(k, &sum, s->at_group) != constant(s, TOGETHER))
        return IG_NO_X;
    return ig_x_substitute(k, place, vars, zeros, 2);
}

static void make_variables(struct ig_cuda_attention *s) {
    s->at_group = ig_x_free_var(s->k, groups_of(s));
    s->at_lane = ig_x_free_var(s->k, constant(s, LANES));
}

bool ig_cuda_attention_is_packed(struct ig_cuda_attention *s, ig_x load, ig_x key) {
    make_variables(s);
    return first_of_four(s, load, key) != IG_NO_X;
}

/* Has a warp's step whole sixteens of keys, dealt to four lanes by two? */
static bool has_packed_order(const struct ig_cuda_attention *s) {
    struct ig_cuda_attend_layout l = ig_cuda_attend_scores(s->t);
    return !s->t->direct && l.lanes == LANES && l.columns == 2 && s->t->keys % TOGETHER == 0;
}

void ig_cuda_attention_find_packed(struct ig_cuda_attention *s) {
    bool any = has_packed_order(s);
    make_variables(s);
    for (int i = 0; i < s->n_early; i++)
        s->early[i].first = any ? first_of_four(s, s->early[i].load, s->at_key) : IG_NO_X;
}

bool ig_cuda_attention_has_packed(const struct ig_cuda_attention *s) {
    for (int i = 0; i < s->n_early; i++) {
        if (s->early[i].first != IG_NO_X) return true;
    }
    return false;
}

/* Past the last sixteen keys these are loaded again, and past the last query its own: nobody counts them. */
void ig_cuda_attention_load_packed(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key) {
    struct ig_loops *k = s->k;
    for (int i = 0; i < s->n_early; i++) {
        const struct ig_attention_load *early = &s->early[i];
        const int table = (int)ig_x_look(k, early->load)->i;
        ig_x thread;
        if (early->first == IG_NO_X) continue;
        struct ig_stmt *each = ig_s_for(k, body, IG_FOR_SIMD, num(s, 0), num(s, s->threads), num(s, 1), &thread);
        ig_x n = ig_x_mod(k, ig_x_div(k, thread, num(s, 32)), num(s, s->t->warps_n));
        ig_x group = ig_x_mul(k, n, num(s, s->t->keys / TOGETHER));
        group = ig_x_add(k, ig_x_div(k, first_key, num(s, TOGETHER)), group);
        for (int row = 0; row < ig_cuda_attend_scores(s->t).rows; row++) {
            ig_x query = ig_cuda_attention_query_of(s, thread, num(s, row));
            ig_x from[] = {s->at_query, s->at_group, s->at_lane};
            ig_x to[] = {ig_x_min(k, query, last(s, s->a->queries)), num(s, 0), ig_x_mod(k, thread, num(s, LANES))};
            ig_x first = ig_x_substitute(k, early->first, from, to, 3);
            struct ig_call_arg args[] = {{early->buffer, num(s, 0)},
                                         {table, first},
                                         {-1, num(s, row)},
                                         {-1, group},
                                         {-1, last(s, groups_of(s))}};
            ig_s_call(k, each, "attend::load_packed", args, 5);
        }
    }
}
