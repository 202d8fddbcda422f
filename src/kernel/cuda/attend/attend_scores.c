/*
 * Attention on GPUs: the change of the scores, as loops over the registers that the template leaves them in. Its loads
 * (masks, mostly) are issued while the copies of the step's keys are in flight. See attend.h.
 */
#include "kernel/cuda/attend/attend.h"

#include <math.h>

#include "kernel/affine.h"

static ig_x num(struct ig_cuda_attention *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct ig_cuda_attention *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct ig_cuda_attention *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static struct ig_stmt *loop(struct ig_cuda_attention *s, struct ig_stmt *body, enum ig_for_kind kind, int64_t hi,
                            ig_x *out_var) {
    return ig_s_for(s->k, body, kind, num(s, 0), num(s, hi), num(s, 1), out_var);
}

int ig_cuda_attention_places(const struct ig_cuda_attention *s) {
    struct ig_cuda_attend_layout l = ig_cuda_attend_scores(s->t);
    int n = 1;
    while (n < l.blocks * l.rows * l.columns)
        n *= 2;
    return n;
}

ig_x ig_cuda_attention_query_of(struct ig_cuda_attention *s, ig_x thread, ig_x row) {
    struct ig_loops *k = s->k;
    struct ig_cuda_attend_layout l = ig_cuda_attend_scores(s->t);
    ig_x warp = ig_x_div(k, thread, num(s, 32)), lane = ig_x_mod(k, thread, num(s, 32));
    ig_x m = ig_x_div(k, warp, num(s, s->t->warps_n));
    ig_x query = ig_x_add(k, ig_x_mul(k, m, num(s, 16)), ig_x_div(k, lane, num(s, l.lanes)));
    query = ig_x_add(k, query, ig_x_mul(k, row, num(s, 16 / l.rows)));
    return ig_x_add(k, s->first_query, query);
}

/* The register (block, row, column) of a thread that has `columns` side by side. */
static ig_x slot_of(struct ig_cuda_attention *s, ig_x thread, ig_x block, ig_x row, ig_x column, int columns) {
    struct ig_loops *k = s->k;
    ig_x slot = ig_x_add(k, ig_x_mul(k, block, num(s, ig_cuda_attend_scores(s->t).rows)), row);
    slot = ig_x_add(k, ig_x_mul(k, slot, num(s, columns)), column);
    return ig_x_add(k, ig_x_mul(k, thread, num(s, ig_cuda_attention_places(s))), slot);
}

struct ig_stmt *ig_cuda_attention_each_score(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key,
                                             struct ig_attention_element *out) {
    struct ig_loops *k = s->k;
    struct ig_cuda_attend_layout l = ig_cuda_attend_scores(s->t);
    ig_x thread, block, row, column, two = num(s, 2);
    body = loop(s, body, IG_FOR_SIMD, s->threads, &thread);
    ig_x warp = ig_x_div(k, thread, num(s, 32)), lane = ig_x_mod(k, thread, num(s, 32));
    ig_x n = ig_x_mod(k, warp, num(s, s->t->warps_n));
    body = loop(s, body, IG_FOR_UNROLL, l.blocks, &block);
    body = loop(s, body, IG_FOR_UNROLL, l.rows, &row);
    body = loop(s, body, IG_FOR_VECTOR, l.columns, &column);
    out->slot = slot_of(s, thread, block, row, column, l.columns);
    ig_x of_two = ig_x_add(k, ig_x_mul(k, ig_x_mod(k, block, two), num(s, l.columns)), column);
    out->packed_slot = slot_of(s, thread, ig_x_div(k, block, two), row, of_two, 2 * l.columns);
    out->query = ig_cuda_attention_query_of(s, thread, row);
    int each = l.lanes * l.columns; /* keys of a warp's block, of which it has neighbours or every warps_n-th */
    ig_x key = ig_x_add(k, first_key, ig_x_mul(k, n, num(s, s->t->direct ? each : s->t->keys)));
    key = ig_x_add(k, key, ig_x_mul(k, block, num(s, s->t->direct ? each * s->t->warps_n : each)));
    key = ig_x_add(k, key, ig_x_mul(k, ig_x_mod(k, lane, num(s, l.lanes)), num(s, l.columns)));
    out->key = ig_x_add(k, key, column);
    return body;
}

static ig_x last(struct ig_cuda_attention *s, ig_dim d) {
    return dim(s, ig_dim_sub(s->k->dims, d, constant(s, 1)));
}

/* Collects the outermost loads of parameters in x; false if there are too many. */
static bool collect_loads(struct ig_cuda_attention *s, ig_x x) {
    const struct ig_x_node n = *ig_x_look(s->k, x);
    if (n.kind == IG_X_LOAD && n.i == s->scores) return true;
    if (n.kind == IG_X_LOAD) {
        for (int i = 0; i < s->n_early; i++) {
            if (s->early[i].load == x) return true;
        }
        if (s->n_early == IG_ATTENTION_LOADS) return false;
        s->early[s->n_early++].load = x;
        return true;
    }
    for (int i = 0; i < 3; i++) {
        if (n.args[i] != IG_NO_X && !collect_loads(s, n.args[i])) return false;
    }
    return true;
}

static enum ig_attention_reads what_is_read(struct ig_cuda_attention *s, ig_x x, ig_x query, ig_x key) {
    const struct ig_x_node n = *ig_x_look(s->k, x);
    enum ig_attention_reads most = IG_ATTENTION_READS_NOTHING;
    if (n.kind == IG_X_LOAD && !ig_x_contains(s->k, x, query)) return IG_ATTENTION_READS_ROWS;
    if (n.kind == IG_X_LOAD)
        return ig_cuda_attention_is_packed(s, x, key) ? IG_ATTENTION_READS_PACKED : IG_ATTENTION_READS_EACH;
    for (int i = 0; i < 3; i++) {
        enum ig_attention_reads one = n.args[i] == IG_NO_X ? most : what_is_read(s, n.args[i], query, key);
        if (one > most) most = one;
    }
    return most;
}

enum ig_attention_reads ig_cuda_attention_change_reads(struct ig_cuda_attention *s) {
    ig_x head[INGOT_MAX_RANK], query = ig_x_free_var(s->k, s->a->queries), key = ig_x_free_var(s->k, s->a->keys);
    for (int i = 0; i < s->a->score_type.rank - 2; i++)
        head[i] = ig_x_free_var(s->k, s->a->score_type.dim[i]);
    ig_x score = ig_x_acc(s->k, ig_loops_acc(s->k), INGOT_F32);
    return what_is_read(s, ig_attention_changed(s->a, head, query, key, score), query, key);
}

void ig_cuda_attention_find_change(struct ig_cuda_attention *s) {
    struct ig_loops *k = s->k;
    s->at_query = ig_x_free_var(k, s->a->queries);
    s->at_key = ig_x_free_var(k, s->a->keys);
    s->slot = ig_x_free_var(k, constant(s, (int64_t)s->threads * ig_cuda_attention_places(s)));
    ig_x score = ig_x_load(k, s->scores, s->slot), keys = dim(s, s->a->keys);
    ig_x x = ig_attention_changed(s->a, s->head, s->at_query, s->at_key, score);
    s->rest = x;
    s->diagonal = ig_attention_diagonal(s->a, x, score, s->at_query, s->at_key, &s->rest, &s->offset);
    s->late = !collect_loads(s, s->rest);
    if (s->late) s->n_early = 0;
    for (int i = 0; i < s->n_early; i++) {
        /* As they are stored: who converts a number waits for it. */
        enum ingot_dtype dtype = k->buffers.at[ig_x_look(k, s->early[i].load)->i].dtype;
        s->early[i].buffer =
            ig_loops_spread(k, dtype, s->threads, ig_cuda_attention_places(s), ig_format(k->job, "early%d", i));
    }
    ig_cuda_attention_find_packed(s);
    s->seen = keys;
    if (!s->diagonal) return;
    /* Tiles whose queries see the most keys come first. */
    ig_dim blocks = ig_dim_ceil_div(k->dims, s->a->queries, constant(s, s->rows));
    ig_x end = ig_x_mul(k, dim(s, ig_dim_sub(k->dims, blocks, constant(s, 1))), num(s, s->rows));
    s->first_query = ig_x_sub(k, end, s->first_query);
    ig_dim from_first = ig_dim_add(k->dims, s->offset, constant(s, s->rows));
    s->seen = ig_x_min(k, keys, ig_x_add(k, s->first_query, dim(s, from_first)));
}

/* ---- Loads ------------------------------------------------------------------------------------------------------- */

struct ig_attention_element ig_cuda_attention_clamped(struct ig_cuda_attention *s,
                                                      const struct ig_attention_element *e) {
    return (struct ig_attention_element){.slot = e->slot,
                                         .query = ig_x_min(s->k, e->query, last(s, s->a->queries)),
                                         .key = ig_x_min(s->k, e->key, last(s, s->a->keys)),
                                         .packed_slot = e->packed_slot};
}

static ig_x load_at(struct ig_cuda_attention *s, int i, const struct ig_attention_element *e) {
    ig_x from[] = {s->at_query, s->at_key}, to[] = {e->query, e->key};
    return ig_x_substitute(s->k, s->early[i].load, from, to, 2);
}

/* Does clamping the queries (or the keys) change any load? */
static bool is_clamped(struct ig_cuda_attention *s, const struct ig_attention_element *e, bool by_query) {
    struct ig_attention_element safe = ig_cuda_attention_clamped(s, e), part = *e;
    if (by_query)
        part.query = safe.query;
    else
        part.key = safe.key;
    for (int i = 0; i < s->n_early; i++) {
        if (s->early[i].first == IG_NO_X && load_at(s, i, &part) != load_at(s, i, e)) return true;
    }
    return false;
}

static void store_loads(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key, bool safe) {
    struct ig_attention_element e;
    body = ig_cuda_attention_each_score(s, body, first_key, &e);
    struct ig_attention_element at = safe ? ig_cuda_attention_clamped(s, &e) : e;
    for (int i = 0; i < s->n_early; i++) {
        if (s->early[i].first == IG_NO_X) ig_s_store(s->k, body, s->early[i].buffer, e.slot, load_at(s, i, &at));
    }
}

/* Most steps have all their keys, and most tiles all their queries; there the loads need no clamps, and their
 * addresses differ by constants. */
void ig_cuda_attention_load_early(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key) {
    struct ig_loops *k = s->k;
    int others = 0;
    for (int i = 0; i < s->n_early; i++) {
        others += s->early[i].first == IG_NO_X;
    }
    if (others == 0) return;
    struct ig_attention_element e;
    ig_cuda_attention_each_score(s, body, first_key, &e);
    body->body.count--; /* remove the empty loop */
    ig_x last_key = ig_x_add(k, first_key, num(s, s->step - 1));
    ig_x last_query = ig_x_add(k, s->first_query, num(s, s->rows - 1)), whole = IG_NO_X, partial = IG_NO_X;
    if (is_clamped(s, &e, false)) {
        whole = ig_x_less(k, last_key, dim(s, s->a->keys));
        partial = ig_x_less(k, last(s, s->a->keys), last_key);
    }
    if (is_clamped(s, &e, true)) {
        ig_x all = ig_x_less(k, last_query, dim(s, s->a->queries));
        ig_x some = ig_x_less(k, last(s, s->a->queries), last_query);
        whole = whole == IG_NO_X ? all : ig_x_and(k, whole, all);
        partial = partial == IG_NO_X ? some : ig_x_map2(k, IG_OP_or, partial, some);
    }
    if (whole == IG_NO_X) {
        store_loads(s, body, first_key, false);
        return;
    }
    store_loads(s, ig_s_if(k, body, whole), first_key, false);
    store_loads(s, ig_s_if(k, body, partial), first_key, true);
}

/* ---- Scores ------------------------------------------------------------------------------------------------------ */

/* The changed score of an element: from the registers that hold the loads or, if these are too many, the memory. */
static ig_x changed(struct ig_cuda_attention *s, const struct ig_attention_element *e) {
    enum { PLACES = 3 };
    struct ig_attention_element at = s->late ? ig_cuda_attention_clamped(s, e) : *e;
    ig_x from[PLACES + IG_ATTENTION_LOADS] = {s->at_query, s->at_key, s->slot},
                       to[PLACES + IG_ATTENTION_LOADS] = {at.query, at.key, at.slot};
    for (int i = 0; i < s->n_early; i++) {
        from[PLACES + i] = s->early[i].load;
        to[PLACES + i] = ig_x_load(s->k, s->early[i].buffer, s->early[i].first == IG_NO_X ? e->slot : e->packed_slot);
    }
    return ig_x_substitute(s->k, s->rest, from, to, PLACES + s->n_early);
}

/* Is x the score, possibly times a positive constant? Sets s->scale. */
static bool find_scale(struct ig_cuda_attention *s, ig_x x, ig_x score) {
    const struct ig_x_node *n = ig_x_look(s->k, x);
    s->scale = ig_x_float(s->k, INGOT_F32, 1);
    if (x == score) return true;
    if (s->t->math == IG_CUDA_FMA || n->kind != IG_X_MAP || n->op != IG_OP_mul) return false;
    ig_x other = n->args[0] == score ? n->args[1] : n->args[1] == score ? n->args[0] : IG_NO_X;
    const struct ig_x_node *by = other == IG_NO_X ? NULL : ig_x_look(s->k, other);
    if (!by || by->kind != IG_X_FLOAT || !(by->f > 0x1p-60 && by->f < 0x1p60)) return false;
    s->scale = other;
    return true;
}

/* Takes the weight from keys past the last one of the block or, if behind_diagonal, beyond the diagonal. `body` is of
 * steps that reach past `all_have` keys. */
static void drop_keys(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key, ig_x all_have,
                      bool behind_diagonal) {
    struct ig_attention_element e;
    struct ig_loops *k = s->k;
    body = ig_cuda_attention_each_score(s, body, first_key, &e);
    ig_x x = ig_x_load(k, s->scores, e.slot), none = ig_x_float(k, INGOT_F32, -INFINITY);
    ig_x has = behind_diagonal ? ig_x_add(k, e.query, ig_x_add(k, dim(s, s->offset), num(s, 1))) : all_have;
    ig_s_store(k, body, s->scores, e.slot, ig_x_select(k, ig_x_less(k, e.key, has), x, none));
}

static struct ig_stmt *if_past(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key, ig_x all_have) {
    return ig_s_if(s->k, body, ig_x_less(s->k, all_have, ig_x_add(s->k, first_key, num(s, s->step))));
}

static void drop_unseen_keys(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key) {
    struct ig_dims *dims = s->k->dims;
    ig_x first_sees = ig_x_add(s->k, s->first_query, dim(s, ig_dim_add(dims, s->offset, constant(s, 1))));
    drop_keys(s, if_past(s, body, first_key, first_sees), first_key, first_sees, true);
}

/* Blocks that share the keys have whole steps, but for direct ones. Where the number of keys is known, so is which step is the
 * last, and compilers see which of its elements have a key. */
static void drop_missing_keys(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key) {
    struct ig_dims *dims = s->k->dims;
    bool shared = s->t->direct && s->t->split > 1, whole = ig_dim_divides(dims, constant(s, s->step), s->a->keys);
    /* The diagonal hides missing keys from all queries. */
    bool hidden = s->diagonal && ig_dim_add(dims, s->offset, s->a->queries) == s->a->keys;
    if (!shared && (whole || hidden)) return;
    ig_x all_have = shared ? s->end : dim(s, s->a->keys);
    int64_t keys;
    body = if_past(s, body, first_key, all_have);
    if (!shared && ig_dim_is_const(dims, s->a->keys, &keys)) first_key = num(s, keys / s->step * s->step);
    drop_keys(s, body, first_key, all_have, false);
}

void ig_cuda_attention_change_scores(struct ig_cuda_attention *s, struct ig_stmt *body, ig_x first_key) {
    struct ig_attention_element e;
    struct ig_stmt *loops = ig_cuda_attention_each_score(s, body, first_key, &e);
    ig_x x = changed(s, &e);
    if (find_scale(s, x, ig_x_load(s->k, s->scores, e.slot))) {
        body->body.count--; /* remove the empty loop */
    } else {
        ig_s_store(s->k, loops, s->scores, e.slot, x);
    }
    if (s->diagonal) drop_unseen_keys(s, body, first_key);
    drop_missing_keys(s, body, first_key);
}
