/*
 * Attention on GPUs: many heads of few keys, such as those of windows. A block does several heads in turn, for which what
 * is added to the scores (biases by relative position, masks) is the same, and keeps it in registers: so it is read once
 * for all of them, and not element by element while a head is waited for. See attend.h and codegen/cuda/attend/attend_turns.cu.
 */
#include <math.h>

#include "kernel/affine.h"
#include "kernel/cuda/attend/attend.h"

static ig_x num(struct ig_cuda_attention *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct ig_cuda_attention *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct ig_cuda_attention *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

/* ---- Does it apply? ---------------------------------------------------------------------------------------------- */

static ig_x sum(struct ig_cuda_attention *s, ig_x a, ig_x b) {
    return a == IG_NO_X ? b : ig_x_map2(s->k, IG_OP_add, a, b);
}

/* Takes x apart into score * factor + addend; false if it is something else. That addends are summed first rounds
 * otherwise. */
static bool take_apart(struct ig_cuda_attention *s, ig_x x, ig_x score) {
    s->factor = s->addend = IG_NO_X;
    while (x != score) {
        const struct ig_x_node n = *ig_x_look(s->k, x);
        if (n.kind != IG_X_MAP || n.dtype != INGOT_F32 || (n.op != IG_OP_add && n.op != IG_OP_mul)) return false;
        bool first = ig_x_contains(s->k, n.args[0], score);
        ig_x other = n.args[first];
        if (ig_x_contains(s->k, other, score)) return false;
        if (n.op == IG_OP_add && s->factor != IG_NO_X) return false; /* (score + a) * b */
        if (n.op == IG_OP_add)
            s->addend = sum(s, s->addend, other);
        else
            s->factor = s->factor == IG_NO_X ? other : ig_x_map2(s->k, IG_OP_mul, s->factor, other);
        x = n.args[!first];
    }
    return true;
}

static bool contains(struct ig_cuda_attention *s, ig_x x, ig_x what) {
    return x != IG_NO_X && ig_x_contains(s->k, x, what);
}

/* The index of a head in the scores' own dims, from that in the grid. */
static void place_head(struct ig_cuda_attention *s, const ig_x *at) {
    struct ig_type own = s->a->score_type;
    own.rank -= 2;
    ig_lower_reindex(&s->a->lower, &s->grid, at, &own, s->head);
}

/* Finds factor and addend at s->head; false if the change is of another form. */
static bool find_factor_and_addend(struct ig_cuda_attention *s) {
    s->at_query = ig_x_free_var(s->k, s->a->queries);
    s->at_key = ig_x_free_var(s->k, s->a->keys);
    ig_x score = ig_x_acc(s->k, ig_loops_acc(s->k), INGOT_F32);
    ig_x changed = ig_attention_changed(s->a, s->head, s->at_query, s->at_key, score);
    return take_apart(s, changed, score) && !contains(s, s->factor, s->at_query) && !contains(s, s->factor, s->at_key);
}

bool ig_cuda_attention_can_turn(struct ig_cuda_attention *s) {
    enum { MOST_KEYS = 64 /* whose scores and addends fit the registers */ };
    int64_t keys;
    ig_x at[INGOT_MAX_RANK];
    bool turns = false;
    if (s->t->math == IG_CUDA_FMA || !ig_dim_is_const(s->k->dims, s->a->keys, &keys) || keys < 1 || keys > MOST_KEYS)
        return false;
    s->grid = *ig_type_of(s->a->graph, s->a->parts.changed);
    s->grid.rank -= 2;
    for (int i = 0; i < s->grid.rank; i++)
        at[i] = ig_x_free_var(s->k, s->grid.dim[i]);
    place_head(s, at);
    if (!find_factor_and_addend(s)) return false;
    for (int i = 0; i < s->grid.rank; i++) {
        int64_t n;
        s->turning[i] = !contains(s, s->addend, at[i]);
        turns |= s->turning[i] && !(ig_dim_is_const(s->k->dims, s->grid.dim[i], &n) && n == 1);
    }
    return turns;
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

/* The product of the dims in which a block's heads differ, or of the others. */
static ig_dim count_heads(struct ig_cuda_attention *s, bool turning) {
    ig_dim product = constant(s, 1);
    for (int i = 0; i < s->grid.rank; i++) {
        if (s->turning[i] == turning) product = ig_dim_mul(s->k->dims, product, s->grid.dim[i]);
    }
    return product;
}

static void split_head(struct ig_cuda_attention *s, ig_x others, ig_x turn) {
    ig_x at[INGOT_MAX_RANK];
    for (int i = s->grid.rank - 1; i >= 0; i--)
        at[i] = ig_x_split_off(s->k, s->turning[i] ? &turn : &others, s->grid.dim[i]);
    place_head(s, at);
}

/* Keeps the addends of a tile in registers: -infinity for keys past the last. */
static void keep_addends(struct ig_cuda_attention *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    struct ig_attention_element e;
    s->addends = ig_loops_spread(k, INGOT_F32, s->threads, ig_cuda_attention_places(s), "addends");
    struct ig_stmt *each = ig_cuda_attention_each_score(s, body, num(s, 0), &e);
    struct ig_attention_element at = ig_cuda_attention_clamped(s, &e);
    ig_x from[] = {s->at_query, s->at_key}, to[] = {at.query, at.key};
    ig_x x = ig_x_float(k, INGOT_F32, 0);
    if (s->addend != IG_NO_X) x = ig_x_substitute(k, s->addend, from, to, 2);
    ig_x has = ig_x_less(k, e.key, dim(s, s->a->keys));
    ig_s_store(k, each, s->addends, e.slot, ig_x_select(k, has, x, ig_x_float(k, INGOT_F32, -INFINITY)));
}

static void change_scores(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x factor) {
    struct ig_attention_element e;
    struct ig_stmt *each = ig_cuda_attention_each_score(s, body, num(s, 0), &e);
    ig_x x = ig_x_load(s->k, s->scores, e.slot);
    if (factor != IG_NO_X) x = ig_x_map2(s->k, IG_OP_mul, x, factor);
    ig_s_store(s->k, each, s->scores, e.slot, ig_x_map2(s->k, IG_OP_add, x, ig_x_load(s->k, s->addends, e.slot)));
}

/* Starts to fetch the operands of a turn; `open`: the variable that stands for it in their addresses. */
static void fetch(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x open, ig_x turn, ig_x left) {
    struct ig_call_arg args[10] = {{-1, turn}, {-1, left}};
    static const int at[] = {2, 5, 7};
    for (int i = 0; i < 3; i++) {
        ig_cuda_attention_locate(s, i, i == IG_CUDA_ATTEND_QUERIES ? s->first_query : num(s, 0), &args[at[i]]);
        args[at[i]].index = ig_x_substitute(s->k, args[at[i]].index, &open, &turn, 1);
    }
    args[4] = (struct ig_call_arg){-1, ig_x_sub(s->k, dim(s, s->a->queries), s->first_query)};
    args[9] = (struct ig_call_arg){-1, dim(s, s->a->keys)};
    ig_s_call(s->k, body, "attend::fetch", args, 10);
}

static void walk(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x open, ig_x turns) {
    struct ig_loops *k = s->k;
    ig_x turn, zero = num(s, 0), one = num(s, 1);
    ig_s_call(k, body, "__syncthreads", NULL, 0); /* the preceding tile's results may still be read */
    fetch(s, body, open, zero, one);
    keep_addends(s, body);
    body = ig_s_for(k, body, IG_FOR_SERIAL, zero, turns, one, &turn);
    ig_s_name(k, turn, "turn");
    fetch(s, body, open, ig_x_add(k, turn, one), ig_x_sub(k, ig_x_sub(k, turns, turn), one));
    struct ig_call_arg scores = {s->scores, zero}, sums = {s->sums, zero}, state = {s->state, zero};
    struct ig_call_arg which = {-1, turn}, left = {-1, ig_x_sub(k, dim(s, s->a->queries), s->first_query)};
    ig_s_call(k, body, "attend::wait_turn", NULL, 0);
    ig_s_call(k, body, "__syncthreads", NULL, 0);
    ig_s_call(k, body, "attend::multiply_turn", (struct ig_call_arg[]){scores, which}, 2);
    ig_x factor = s->factor == IG_NO_X ? IG_NO_X : ig_x_substitute(k, s->factor, &open, &turn, 1);
    change_scores(s, body, factor);
    ig_s_call(k, body, "attend::accumulate_turn", (struct ig_call_arg[]){scores, sums, state, which, left}, 5);
    ig_cuda_attention_finish(s, body);
    for (int i = 0; i < s->a->score_type.rank - 2; i++)
        s->head[i] = ig_x_substitute(k, s->head[i], &open, &turn, 1);
    ig_cuda_attention_store_results(s, body);
}

/* A tile is the queries of a block, of up to `turns` heads. Neighbouring tiles have neighbouring heads, whose operands lie
 * side by side. */
bool ig_cuda_attention_in_turns(struct ig_cuda_attention *s) {
    struct ig_loops *k = s->k;
    struct ig_dims *dims = k->dims;
    struct ig_attention *a = s->a;
    ig_dim blocks = ig_dim_ceil_div(dims, a->queries, constant(s, s->rows)), per_tile = constant(s, s->t->turns);
    ig_dim turning = count_heads(s, true), others = count_heads(s, false);
    ig_dim parts = ig_dim_ceil_div(dims, turning, per_tile);
    a->kernel->tiles = ig_dim_mul(dims, ig_dim_mul(dims, others, blocks), parts);
    ig_x tile, open = ig_x_free_var(k, per_tile);
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, num(s, 0), dim(s, a->kernel->tiles), num(s, 1), &tile);
    ig_x other = ig_x_split_off(k, &tile, others);
    s->first_query = ig_x_mul(k, ig_x_split_off(k, &tile, blocks), num(s, s->rows));
    ig_x first = ig_x_mul(k, tile, num(s, s->t->turns));
    split_head(s, other, ig_x_add(k, first, open));
    if (!ig_cuda_attention_find_sources(s)) return false;
    for (int i = 0; i < 3; i++) {
        if (s->source[i].distance == IG_DIM_NONE && ig_x_contains(k, s->source[i].place, open)) return false;
    }
    ig_cuda_attention_make_buffers(s);
    /* Five blocks hide each other's waits, if results and addends leave room. */
    if (s->t->columns <= 32 && s->threads == 128) a->kernel->resident = 5;
    if (!find_factor_and_addend(s) || contains(s, s->addend, open)) return false;
    s->scale = ig_x_float(k, INGOT_F32, 1);
    ig_cuda_attention_write_tables(s, body);
    ig_x left = ig_x_sub(k, dim(s, turning), first);
    walk(s, body, open, ig_x_min(k, left, num(s, s->t->turns)));
    return true;
}
