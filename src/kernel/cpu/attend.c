/*
 * Attention on CPUs: the scores of a few queries at a time, which stay in the caches.
 *
 * A tile is a block of queries of one head. The micro-kernel of products computes their scores, a panel of keys at a
 * time, which are changed (scaled, masked) as they are stored, row by row. A softmax makes weights of each row, and the
 * micro-kernel multiplies them by the values, some keys at a time, whose panels then stay in the first cache. Keys and
 * values are copied into panels for all tiles of a head that a call has one after the other. So nothing in memory is as
 * large as queries times keys. Of a causal mask, keys that no query of the block sees are left out.
 */
#include <math.h>

#include "kernel/cpu/attend.h"
#include "kernel/micro.h"

struct block {
    struct ig_attention *a;
    struct ig_loops *k;
    int lanes, nr, mr;
    int64_t rows;                    /* queries of a tile, a multiple of mr */
    int64_t depth, columns, panels;  /* panels of values */
    ig_dim blocks;                   /* tiles of a head */
    ig_dim key_panels, line;         /* line: between the rows of scores */
    int queries, keys, values;       /* copies: [rows][depth], [panel][depth][nr], [panel][key][nr] */
    int scores, totals, sums, piece; /* [rows][line], [rows], [rows / mr][panel][mr][nr], [mr][nr] */
    ig_x head[INGOT_MAX_RANK];
    ig_x first, count; /* of the tile: its first query, and how many it has */
    ig_x seen;         /* keys that are not beyond a causal mask */
};

enum { STEP = 256 }; /* keys of a step of the second product */

static ig_x num(struct block *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct block *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct block *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static int64_t known(const struct block *s, ig_dim d, int64_t otherwise) {
    int64_t value;
    return ig_dim_is_const(s->k->dims, d, &value) ? value : otherwise;
}

static struct ig_stmt *loop(struct block *s, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi, ig_x *out_var) {
    return ig_s_for(s->k, body, kind, num(s, 0), hi, num(s, 1), out_var);
}

static ig_x at(struct block *s, ig_x row, ig_x stride, ig_x column) {
    return ig_x_add(s->k, ig_x_mul(s->k, row, stride), column);
}

static ig_x ceil_div(struct block *s, ig_x x, int64_t by) {
    return ig_x_div(s->k, ig_x_add(s->k, x, num(s, by - 1)), num(s, by));
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

/* As many queries as have scores for a part of the second cache, in tiles of equal size. */
static int64_t choose_rows(const struct block *s) {
    enum { USUAL = 512, MOST_BLOCKS = 8 };
    int64_t budget = s->a->target->vector_bytes == 64 ? 256 << 10 : 128 << 10;
    int64_t keys = known(s, s->a->keys, USUAL), queries = known(s, s->a->queries, 0);
    int64_t blocks = budget / (4 * (keys > 0 ? keys : 1)) / s->mr;
    blocks = blocks < 1 ? 1 : blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks;
    if (queries <= 0) return blocks * s->mr;
    int64_t tiles = (queries + blocks * s->mr - 1) / (blocks * s->mr), each = (queries + tiles - 1) / tiles;
    return (each + s->mr - 1) / s->mr * s->mr;
}

static bool choose_sizes(struct block *s) {
    struct ig_dims *dims = s->k->dims;
    const struct ig_target *target = s->a->target;
    s->depth = known(s, s->a->depth, 0);
    s->columns = known(s, s->a->columns, 0);
    if (s->depth == 0 || s->columns == 0) return false;
    s->lanes = ig_micro_lanes(target, INGOT_F32);
    s->nr = ig_target_nr(target);
    s->mr = target->vector_registers >= 32 ? 14 : 6; /* codegen/c/gemm.c */
    s->rows = choose_rows(s);
    s->panels = (s->columns + s->nr - 1) / s->nr;
    s->blocks = ig_dim_ceil_div(dims, s->a->queries, constant(s, s->rows));
    s->key_panels = ig_dim_ceil_div(dims, s->a->keys, constant(s, s->nr));
    /* An odd number of cache lines, so that rows do not crowd few sets of the first cache. */
    ig_dim pairs = ig_dim_div(dims, ig_dim_ceil_div(dims, s->a->keys, constant(s, 16)), constant(s, 2));
    s->line = ig_dim_add(dims, ig_dim_mul(dims, pairs, constant(s, 32)), constant(s, 16));
    return true;
}

static void make_buffers(struct block *s) {
    struct ig_dims *dims = s->k->dims;
    struct ig_kernel *kernel = s->a->kernel;
    ig_dim panel = constant(s, s->depth * s->nr), wide = constant(s, s->panels * s->nr);
    s->keys = ig_kernel_scratch(kernel, INGOT_F32, ig_dim_mul(dims, s->key_panels, panel), "keys");
    s->values = ig_kernel_scratch(kernel, INGOT_F32, ig_dim_mul(dims, s->a->keys, wide), "values");
    s->queries = ig_kernel_scratch(kernel, INGOT_F32, constant(s, s->rows * s->depth), "queries");
    s->scores = ig_kernel_scratch(kernel, INGOT_F32, ig_dim_mul(dims, constant(s, s->rows), s->line), "scores");
    s->totals = ig_kernel_scratch(kernel, INGOT_F32, constant(s, s->rows), "totals");
    s->sums = ig_kernel_scratch(kernel, INGOT_F32, ig_dim_mul(dims, constant(s, s->rows), wide), "sums");
    s->piece = ig_loops_local(s->k, INGOT_F32, (int64_t)s->mr * s->nr, "piece");
}

static void make_micros(struct block *s) {
    int64_t queries = known(s, s->a->queries, -1), last = queries < 0 ? 0 : queries % s->rows % s->mr;
    struct ig_micro micro = {.kind = IG_MICRO_GEMM, .name = "score", .dtype = INGOT_F32, .nr = s->nr};
    micro.rows = queries < 0 ? ((uint64_t)2 << s->mr) - 2 : (uint64_t)1 << s->mr | (uint64_t)1 << last;
    micro.vectors = 1u << s->nr / s->lanes;
    micro.lda = s->depth;
    IG_PUSH(s->k->job, &s->a->kernel->micros, micro);
    micro.name = "weigh";
    micro.lda = known(s, s->line, 0);
    IG_PUSH(s->k->job, &s->a->kernel->micros, micro);
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

/* Stores an element, or zero where `there` does not hold. */
static void store(struct block *s, struct ig_stmt *body, int buffer, ig_x index, ig_x value, ig_x there) {
    value = ig_x_cast(s->k, value, INGOT_F32, false);
    if (there != IG_NO_X) value = ig_x_select(s->k, there, value, ig_x_float(s->k, INGOT_F32, 0));
    ig_s_store(s->k, body, buffer, index, value);
}

static void copy_keys(struct block *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x panel, depth, j, there = IG_NO_X;
    body = loop(s, body, IG_FOR_SERIAL, dim(s, s->key_panels), &panel);
    body = loop(s, body, IG_FOR_SERIAL, num(s, s->depth), &depth);
    body = loop(s, body, IG_FOR_SIMD, num(s, s->nr), &j);
    ig_x key = at(s, panel, num(s, s->nr), j), line = at(s, panel, num(s, s->depth), depth), from = key;
    if (!ig_dim_divides(k->dims, constant(s, s->nr), s->a->keys)) {
        there = ig_x_less(k, key, dim(s, s->a->keys));
        from = ig_x_min(k, key, ig_x_sub(k, dim(s, s->a->keys), num(s, 1)));
    }
    store(s, body, s->keys, at(s, line, num(s, s->nr), j), ig_attention_key(s->a, s->head, from, depth), there);
}

static void copy_values(struct block *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x panel, key, j, there = IG_NO_X;
    body = loop(s, body, IG_FOR_SERIAL, num(s, s->panels), &panel);
    body = loop(s, body, IG_FOR_SERIAL, dim(s, s->a->keys), &key);
    body = loop(s, body, IG_FOR_SIMD, num(s, s->nr), &j);
    ig_x column = at(s, panel, num(s, s->nr), j), line = at(s, panel, dim(s, s->a->keys), key), from = column;
    if (s->columns % s->nr != 0) {
        there = ig_x_less(k, column, num(s, s->columns));
        from = ig_x_min(k, column, num(s, s->columns - 1));
    }
    store(s, body, s->values, at(s, line, num(s, s->nr), j), ig_attention_value(s->a, s->head, key, from), there);
}

static void copy_queries(struct block *s, struct ig_stmt *body) {
    ig_x row, depth;
    body = loop(s, body, IG_FOR_SERIAL, s->count, &row);
    body = loop(s, body, IG_FOR_SIMD, num(s, s->depth), &depth);
    ig_x value = ig_attention_query(s->a, s->head, ig_x_add(s->k, s->first, row), depth);
    store(s, body, s->queries, at(s, row, num(s, s->depth), depth), value, IG_NO_X);
}

/* ---- The two products, and the softmax between them ---------------------------------------------------------------- */

/* A loop over blocks of up to mr rows of the tile: the first row, and how many there are. */
static struct ig_stmt *loop_blocks(struct block *s, struct ig_stmt *body, ig_x *out_nth, ig_x *out_row,
                                   ig_x *out_rows) {
    body = loop(s, body, IG_FOR_SERIAL, ceil_div(s, s->count, s->mr), out_nth);
    *out_row = ig_x_mul(s->k, *out_nth, num(s, s->mr));
    *out_rows = ig_x_min(s->k, num(s, s->mr), ig_x_sub(s->k, s->count, *out_row));
    return body;
}

/* Stores `width` scores of `rows` rows, changed. */
static void store_scores(struct block *s, struct ig_stmt *body, ig_x row, ig_x rows, ig_x first_key, ig_x width) {
    struct ig_loops *k = s->k;
    ig_x i, j;
    body = loop(s, body, IG_FOR_SERIAL, rows, &i);
    body = loop(s, body, IG_FOR_SIMD, width, &j);
    ig_x score = ig_x_load(k, s->piece, at(s, i, num(s, s->nr), j));
    ig_x mine = ig_x_add(k, row, i), key = ig_x_add(k, first_key, j);
    score = ig_attention_changed(s->a, s->head, ig_x_add(k, s->first, mine), key, score);
    ig_s_store(k, body, s->scores, at(s, mine, dim(s, s->line), key), score);
}

static void emit_scores(struct block *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x panel, nth, row, rows, width = num(s, s->nr);
    body = loop(s, body, IG_FOR_SERIAL, ceil_div(s, s->seen, s->nr), &panel);
    ig_x first = ig_x_mul(k, panel, width), left = ig_x_sub(k, s->seen, first);
    body = loop_blocks(s, body, &nth, &row, &rows);
    struct ig_call_arg args[] = {{-1, rows},
                                 {-1, num(s, s->nr / s->lanes)},
                                 {s->queries, ig_x_mul(k, row, num(s, s->depth))},
                                 {-1, num(s, s->depth)},
                                 {s->keys, ig_x_mul(k, panel, num(s, s->depth * s->nr))},
                                 {s->piece, num(s, 0)},
                                 {-1, num(s, s->depth)},
                                 {-1, num(s, 1)}};
    ig_s_call(k, body, "score", args, 8);
    /* Loops of constant length are shorter. */
    ig_x part = ig_x_less(k, left, width);
    store_scores(s, ig_s_if(k, body, ig_x_map1(k, IG_OP_not, part)), row, rows, first, width);
    store_scores(s, ig_s_if(k, body, part), row, rows, first, left);
}

/* Replaces the scores of each row by exp(score - maximum), and stores their sums. */
static void emit_softmax(struct block *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x row, key, zero = ig_x_float(k, INGOT_F32, 0), least = ig_x_float(k, INGOT_F32, -INFINITY);
    body = loop(s, body, IG_FOR_SERIAL, s->count, &row);
    int most = ig_s_acc(k, body, INGOT_F32, least);
    struct ig_stmt *each = loop(s, body, IG_FOR_SIMD, s->seen, &key);
    ig_s_update(k, each, most, IG_OP_max, ig_x_load(k, s->scores, at(s, row, dim(s, s->line), key)));
    int total = ig_s_acc(k, body, INGOT_F32, zero);
    each = loop(s, body, IG_FOR_SIMD, s->seen, &key);
    ig_x place = at(s, row, dim(s, s->line), key), base = ig_x_acc(k, most, INGOT_F32);
    if (s->a->parts.guarded) base = ig_x_select(k, ig_x_map2(k, IG_OP_eq, base, least), zero, base);
    ig_x weight = ig_x_map1(k, IG_OP_exp, ig_x_map2(k, IG_OP_sub, ig_x_load(k, s->scores, place), base));
    ig_s_update(k, each, total, IG_OP_add, weight);
    if (s->a->parts.repaired) weight = ig_x_select(k, ig_x_map1(k, IG_OP_isnan, weight), zero, weight);
    ig_s_store(k, each, s->scores, place, weight);
    ig_s_store(k, body, s->totals, row, ig_x_acc(k, total, INGOT_F32));
}

static ig_x sums_at(struct block *s, ig_x nth, ig_x panel) {
    return ig_x_mul(s->k, at(s, nth, num(s, s->panels), panel), num(s, (int64_t)s->mr * s->nr));
}

static void emit_sums(struct block *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x step, panel, nth, row, rows;
    body = loop(s, body, IG_FOR_SERIAL, ceil_div(s, s->seen, STEP), &step);
    ig_x first = ig_x_mul(k, step, num(s, STEP)), left = ig_x_sub(k, s->seen, first);
    body = loop(s, body, IG_FOR_SERIAL, num(s, s->panels), &panel);
    body = loop_blocks(s, body, &nth, &row, &rows);
    ig_x line = at(s, panel, dim(s, s->a->keys), first);
    struct ig_call_arg args[] = {{-1, rows},
                                 {-1, num(s, s->nr / s->lanes)},
                                 {s->scores, at(s, row, dim(s, s->line), first)},
                                 {-1, dim(s, s->line)},
                                 {s->values, ig_x_mul(k, line, num(s, s->nr))},
                                 {s->sums, sums_at(s, nth, panel)},
                                 {-1, ig_x_min(k, num(s, STEP), left)},
                                 {-1, ig_x_select(k, ig_x_less(k, step, num(s, 1)), num(s, 1), num(s, 0))}};
    ig_s_call(k, body, "weigh", args, 8);
}

/* Stores `width` columns of the results from a panel's first on. */
static void store_columns(struct block *s, struct ig_stmt *body, ig_x panel, int64_t width) {
    struct ig_loops *k = s->k;
    ig_x nth, row, rows, i, j;
    body = loop_blocks(s, body, &nth, &row, &rows);
    body = loop(s, body, IG_FOR_SERIAL, rows, &i);
    body = loop(s, body, IG_FOR_SIMD, num(s, width), &j);
    ig_x sum = ig_x_load(k, s->sums, ig_x_add(k, sums_at(s, nth, panel), at(s, i, num(s, s->nr), j)));
    ig_x mine = ig_x_add(k, row, i), column = at(s, panel, num(s, s->nr), j);
    ig_x result = ig_attention_result(s->a, sum, ig_x_load(k, s->totals, mine));
    ig_attention_store(s->a, body, s->head, ig_x_add(k, s->first, mine), column, result);
}

static void emit_results(struct block *s, struct ig_stmt *body) {
    ig_x panel;
    int64_t full = s->columns / s->nr, rest = s->columns % s->nr;
    struct ig_stmt *each = loop(s, body, IG_FOR_SERIAL, num(s, full), &panel);
    if (full > 0) store_columns(s, each, panel, s->nr);
    if (rest > 0) store_columns(s, body, num(s, full), rest);
}

/* The keys that the tile's queries see: all, or those before the diagonal of its last query. */
static ig_x seen_keys(struct block *s) {
    struct ig_loops *k = s->k;
    struct ig_attention *a = s->a;
    ig_x query = ig_x_free_var(k, a->queries), key = ig_x_free_var(k, a->keys), rest;
    ig_x score = ig_x_load(k, s->piece, key), changed = ig_attention_changed(a, s->head, query, key, score);
    ig_dim offset;
    if (!ig_attention_diagonal(a, changed, score, query, key, &rest, &offset)) return dim(s, a->keys);
    ig_x end = ig_x_add(k, ig_x_add(k, s->first, s->count), dim(s, offset));
    return ig_x_min(k, dim(s, a->keys), end);
}

bool ig_attention_cpu(struct ig_attention *a) {
    struct block s = {.a = a, .k = a->k};
    struct ig_loops *k = a->k;
    if (!choose_sizes(&s)) return false;
    make_buffers(&s);
    make_micros(&s);
    a->kernel->tiles = ig_dim_mul(k->dims, a->heads, s.blocks);
    a->kernel->tactic = ig_format(k->job, "attend, %lld queries a tile", (long long)s.rows);
    ig_x tile;
    struct ig_stmt *body = loop(&s, NULL, IG_FOR_TILE, dim(&s, a->kernel->tiles), &tile);
    ig_x head = tile, nth = ig_x_split_off(k, &head, s.blocks);
    ig_attention_head(a, head, s.head);
    s.first = ig_x_mul(k, nth, num(&s, s.rows));
    s.count = ig_x_min(k, num(&s, s.rows), ig_x_sub(k, dim(&s, a->queries), s.first));
    s.seen = seen_keys(&s);
    ig_x copied = ig_x_and(k, ig_x_less(k, ig_x_begin(k), tile), ig_x_less(k, num(&s, 0), nth));
    struct ig_stmt *once = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, copied));
    copy_keys(&s, once);
    copy_values(&s, once);
    copy_queries(&s, body);
    emit_scores(&s, body);
    emit_softmax(&s, body);
    emit_sums(&s, body);
    emit_results(&s, body);
    return !a->astray;
}
