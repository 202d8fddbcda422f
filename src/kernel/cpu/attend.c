/*
 * Attention on CPUs: the scores of a few queries at a time, which stay in the caches.
 *
 * A tile is a block of queries of one head. The micro-kernel of products computes their scores, a panel of keys at a
 * time, which are changed (scaled, masked) as they are stored, row by row. A softmax makes weights of each row, and the
 * micro-kernel multiplies them by the values, some keys at a time, whose panels then stay in the first cache. Keys and
 * values are copied into panels for all tiles of a head that a call has one after the other. So nothing in memory is as
 * large as queries times keys. Of a causal mask, keys that no query of the block sees are left out.
 *
 * In f32 that is all. In bf16, the products are done by the tiles of AMX: pairs of the depth lie together in panels, the
 * softmax rounds its weights, and there are zeros from the last key to the end of a tile's step.
 */
#include <math.h>

#include "kernel/cpu/attend.h"
#include "kernel/micro.h"

struct block {
    struct ig_attention *a;
    struct ig_loops *k;
    enum ingot_dtype operand; /* of products: f32 or bf16 */
    int lanes, nr, mr;
    int tile_groups;                /* of both products, in bf16 */
    int64_t step;                   /* keys that the second product takes at once: 1, or a tile's */
    int64_t rows;                   /* queries of a tile, a multiple of mr */
    int64_t depth, columns, panels; /* panels of values */
    ig_dim blocks;                  /* tiles of a head */
    ig_dim key_panels, padded;      /* padded: keys, a multiple of `step` */
    ig_dim line, weight_line;       /* between the rows of scores and weights */
    int lines;                 /* some rows of keys or values before they are packed: [nr or step][depth or columns] */
    int queries, keys, values; /* copies: [rows][depth], [panel][depth][nr], [panel][padded][nr] */
    int scores, totals, sums, piece; /* [rows][line], [rows], [rows / mr][panel][mr][nr], [mr][nr] */
    int weights;                     /* [rows][weight_line]; in f32 the same as scores */
    ig_x head[INGOT_MAX_RANK];
    ig_x first, count; /* of the tile: its first query, and how many it has */
    ig_x seen;         /* keys that are not beyond a causal mask */
};

static bool in_tiles(const struct block *s) {
    return s->tile_groups > 0;
}

/* Keys of a step of the second product. */
static int64_t long_step(const struct block *s) {
    enum { USUAL = 256 };
    return USUAL / s->step * s->step;
}

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

/* At least n elements, in an odd number of cache lines of `each`, so that rows do not crowd few sets of the first cache. */
static ig_dim odd_lines(struct block *s, ig_dim n, int each) {
    struct ig_dims *dims = s->k->dims;
    ig_dim pairs = ig_dim_div(dims, ig_dim_ceil_div(dims, n, constant(s, each)), constant(s, 2));
    return ig_dim_add(dims, ig_dim_mul(dims, pairs, constant(s, 2 * each)), constant(s, each));
}

static bool choose_sizes(struct block *s) {
    struct ig_dims *dims = s->k->dims;
    const struct ig_target *target = s->a->target;
    s->depth = known(s, s->a->depth, 0);
    s->columns = known(s, s->a->columns, 0);
    if (s->depth == 0 || s->columns == 0) return false;
    s->operand = ig_type_of(s->a->graph, s->a->scores.in[0])->dtype;
    if (s->operand != INGOT_F32) {
        if (ig_target_together(target, s->operand, s->operand) != 2 || s->depth % 2 != 0) return false;
        s->tile_groups = ig_micro_tile_groups(s->depth / 2);
        if (!in_tiles(s)) return false;
    }
    s->lanes = ig_micro_lanes(target, INGOT_F32);
    s->nr = ig_target_nr(target);
    s->mr = in_tiles(s) ? 32 : target->vector_registers >= 32 ? 14 : 6; /* codegen/c/gemm.c */
    s->step = in_tiles(s) ? 2 * s->tile_groups : 1;
    s->rows = choose_rows(s);
    s->panels = (s->columns + s->nr - 1) / s->nr;
    s->blocks = ig_dim_ceil_div(dims, s->a->queries, constant(s, s->rows));
    s->key_panels = ig_dim_ceil_div(dims, s->a->keys, constant(s, s->nr));
    s->padded = ig_dim_mul(dims, ig_dim_ceil_div(dims, s->a->keys, constant(s, s->step)), constant(s, s->step));
    ig_dim scored = ig_dim_mul(dims, s->key_panels, constant(s, s->nr));
    s->line = odd_lines(s, scored, 16);
    s->weight_line = in_tiles(s) ? odd_lines(s, ig_dim_max(dims, scored, s->padded), 32) : s->line;
    return true;
}

static void make_buffers(struct block *s) {
    struct ig_dims *dims = s->k->dims;
    struct ig_kernel *kernel = s->a->kernel;
    ig_dim panel = constant(s, s->depth * s->nr), wide = constant(s, s->panels * s->nr);
    ig_dim rows = constant(s, s->rows);
    int64_t lines = s->nr * s->depth;
    if (in_tiles(s) && lines < s->step * s->columns) lines = s->step * s->columns;
    s->lines = ig_kernel_scratch(kernel, s->operand, constant(s, lines), "lines");
    s->keys = ig_kernel_scratch(kernel, s->operand, ig_dim_mul(dims, s->key_panels, panel), "keys");
    s->values = ig_kernel_scratch(kernel, s->operand, ig_dim_mul(dims, s->padded, wide), "values");
    s->queries = ig_kernel_scratch(kernel, s->operand, constant(s, s->rows * s->depth), "queries");
    s->scores = ig_kernel_scratch(kernel, INGOT_F32, ig_dim_mul(dims, rows, s->line), "scores");
    s->weights = s->scores;
    if (in_tiles(s))
        s->weights = ig_kernel_scratch(kernel, s->operand, ig_dim_mul(dims, rows, s->weight_line), "weights");
    s->totals = ig_kernel_scratch(kernel, INGOT_F32, constant(s, s->rows), "totals");
    s->sums = ig_kernel_scratch(kernel, INGOT_F32, ig_dim_mul(dims, constant(s, s->rows), wide), "sums");
    s->piece = ig_loops_local(s->k, INGOT_F32, (int64_t)s->mr * s->nr, "piece");
}

/* The numbers of rows that blocks of `count` queries have: they are divided evenly. */
static uint64_t block_rows(const struct block *s, int64_t count) {
    int64_t blocks = (count + s->mr - 1) / s->mr;
    return count <= 0 ? 0 : (uint64_t)1 << count / blocks | (uint64_t)1 << (count + blocks - 1) / blocks;
}

static void make_micros(struct block *s) {
    int64_t queries = known(s, s->a->queries, -1);
    struct ig_micro micro = {.kind = IG_MICRO_GEMM, .name = "score", .dtype = INGOT_F32, .nr = s->nr};
    micro.together = in_tiles(s) ? 2 : 0;
    micro.tile_groups = s->tile_groups;
    micro.rows = queries < 0 ? ((uint64_t)2 << s->mr) - 2
                             : (queries < s->rows ? 0 : block_rows(s, s->rows)) | block_rows(s, queries % s->rows);
    micro.vectors = 1u << s->nr / s->lanes;
    micro.lda = s->depth;
    IG_PUSH(s->k->job, &s->a->kernel->micros, micro);
    micro.name = "weigh";
    micro.lda = known(s, s->weight_line, 0);
    IG_PUSH(s->k->job, &s->a->kernel->micros, micro);
    enum ingot_dtype word = in_tiles(s) ? INGOT_I32 : INGOT_F32;
    struct ig_micro pack = {.kind = IG_MICRO_PACK, .name = "pack", .dtype = word, .nr = s->nr};
    IG_PUSH(s->k->job, &s->a->kernel->micros, pack);
    struct ig_micro join = {
        .kind = IG_MICRO_INTERLEAVE, .name = "join", .dtype = s->operand, .nr = s->nr, .together = 2};
    if (in_tiles(s)) IG_PUSH(s->k->job, &s->a->kernel->micros, join);
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

/* Stores an element, or zero where `there` does not hold. */
static void store(struct block *s, struct ig_stmt *body, int buffer, ig_x index, ig_x value, ig_x there) {
    value = ig_x_cast(s->k, value, INGOT_F32, false);
    if (there != IG_NO_X) value = ig_x_select(s->k, there, value, ig_x_float(s->k, INGOT_F32, 0));
    ig_s_store(s->k, body, buffer, index, value);
}

/* `count` keys from `first` on, a panel of which becomes [depth][nr], or pairs of the depth as words. */
static void copy_keys(struct block *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x panel, row, depth, width = num(s, s->nr), line = num(s, s->depth),
                            words = num(s, s->depth / (in_tiles(s) ? 2 : 1));
    body = loop(s, body, IG_FOR_SERIAL, dim(s, s->key_panels), &panel);
    ig_x first = ig_x_mul(k, panel, width), count = ig_x_min(k, width, ig_x_sub(k, dim(s, s->a->keys), first));
    struct ig_stmt *rows = loop(s, body, IG_FOR_SERIAL, count, &row);
    struct ig_stmt *each = loop(s, rows, IG_FOR_SIMD, line, &depth);
    ig_x value = ig_attention_key(s->a, s->head, ig_x_add(k, first, row), depth);
    store(s, each, s->lines, at(s, row, line, depth), value, IG_NO_X);
    struct ig_call_arg args[] = {
        {s->lines, num(s, 0)}, {-1, words}, {s->keys, ig_x_mul(k, first, line)}, {-1, words}, {-1, count}};
    ig_s_call(k, body, "pack", args, 5);
}

static void copy_values(struct block *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x panel, key, j, there = IG_NO_X;
    body = loop(s, body, IG_FOR_SERIAL, num(s, s->panels), &panel);
    body = loop(s, body, IG_FOR_SERIAL, dim(s, s->a->keys), &key);
    body = loop(s, body, IG_FOR_SIMD, num(s, s->nr), &j);
    ig_x column = at(s, panel, num(s, s->nr), j), line = at(s, panel, dim(s, s->padded), key), from = column;
    if (s->columns % s->nr != 0) {
        there = ig_x_less(k, column, num(s, s->columns));
        from = ig_x_min(k, column, num(s, s->columns - 1));
    }
    store(s, body, s->values, at(s, line, num(s, s->nr), j), ig_attention_value(s->a, s->head, key, from), there);
}

/* As many keys at a time as a tile takes; zeros behind the last. */
static void join_values(struct block *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x step, row, column, line = num(s, s->columns), keys = dim(s, s->a->keys);
    body = loop(s, body, IG_FOR_SERIAL, ig_x_div(k, dim(s, s->padded), num(s, s->step)), &step);
    struct ig_stmt *rows = loop(s, body, IG_FOR_SERIAL, num(s, s->step), &row);
    struct ig_stmt *each = loop(s, rows, IG_FOR_SIMD, line, &column);
    ig_x first = ig_x_mul(k, step, num(s, s->step)), key = ig_x_add(k, first, row), there = IG_NO_X;
    if (s->padded != s->a->keys) {
        there = ig_x_less(k, key, keys);
        key = ig_x_min(k, key, ig_x_sub(k, keys, num(s, 1)));
    }
    ig_x value = ig_attention_value(s->a, s->head, key, column);
    store(s, each, s->lines, at(s, row, line, column), value, there);
    for (int64_t panel = 0; panel < s->panels; panel++) {
        int64_t left = s->columns - panel * s->nr;
        ig_x to = at(s, num(s, panel), dim(s, s->padded), first);
        struct ig_call_arg args[] = {{s->lines, num(s, panel * s->nr)},
                                     {-1, line},
                                     {s->values, ig_x_mul(k, to, num(s, s->nr))},
                                     {-1, num(s, s->step)},
                                     {-1, num(s, left < s->nr ? left : s->nr)}};
        ig_s_call(k, body, "join", args, 5);
    }
}

static void copy_queries(struct block *s, struct ig_stmt *body) {
    ig_x row, depth;
    body = loop(s, body, IG_FOR_SERIAL, s->count, &row);
    body = loop(s, body, IG_FOR_SIMD, num(s, s->depth), &depth);
    ig_x value = ig_attention_query(s->a, s->head, ig_x_add(s->k, s->first, row), depth);
    store(s, body, s->queries, at(s, row, num(s, s->depth), depth), value, IG_NO_X);
}

/* ---- The two products, and the softmax between them ---------------------------------------------------------------- */

/* A loop over blocks of up to mr rows of the tile, which are divided evenly: the first row, and how many there are. */
static struct ig_stmt *loop_blocks(struct block *s, struct ig_stmt *body, ig_x *out_nth, ig_x *out_row,
                                   ig_x *out_rows) {
    struct ig_loops *k = s->k;
    ig_x blocks = ceil_div(s, s->count, s->mr);
    body = loop(s, body, IG_FOR_SERIAL, blocks, out_nth);
    *out_row = ig_x_div(k, ig_x_mul(k, *out_nth, s->count), blocks);
    ig_x end = ig_x_div(k, ig_x_mul(k, ig_x_add(k, *out_nth, num(s, 1)), s->count), blocks);
    *out_rows = ig_x_sub(k, end, *out_row);
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
    body = ig_s_if(k, body, part);
    store_scores(s, body, row, rows, first, left);
    /* What lies behind counts for nothing, and spares the softmax a remainder. */
    ig_x i, j;
    body = loop(s, body, IG_FOR_SERIAL, rows, &i);
    body = ig_s_for(k, body, IG_FOR_SIMD, left, width, num(s, 1), &j);
    ig_x place = at(s, ig_x_add(k, row, i), dim(s, s->line), ig_x_add(k, first, j));
    ig_s_store(k, body, s->scores, place, ig_x_float(k, INGOT_F32, -INFINITY));
}

/* Makes weights of the scores of each row, exp(score - maximum), and stores their sums. */
static void emit_softmax(struct block *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x row, key, zero = ig_x_float(k, INGOT_F32, 0), least = ig_x_float(k, INGOT_F32, -INFINITY);
    ig_x scored = ig_x_mul(k, ceil_div(s, s->seen, s->nr), num(s, s->nr));
    body = loop(s, body, IG_FOR_SERIAL, s->count, &row);
    int most = ig_s_acc(k, body, INGOT_F32, least);
    struct ig_stmt *each = loop(s, body, IG_FOR_SIMD, scored, &key);
    ig_s_update(k, each, most, IG_OP_max, ig_x_load(k, s->scores, at(s, row, dim(s, s->line), key)));
    int total = ig_s_acc(k, body, INGOT_F32, zero);
    each = loop(s, body, IG_FOR_SIMD, scored, &key);
    ig_x place = at(s, row, dim(s, s->line), key), base = ig_x_acc(k, most, INGOT_F32);
    if (s->a->parts.guarded) base = ig_x_select(k, ig_x_map2(k, IG_OP_eq, base, least), zero, base);
    ig_x weight = ig_x_map1(k, IG_OP_exp, ig_x_map2(k, IG_OP_sub, ig_x_load(k, s->scores, place), base));
    ig_s_update(k, each, total, IG_OP_add, weight);
    if (s->a->parts.repaired) weight = ig_x_select(k, ig_x_map1(k, IG_OP_isnan, weight), zero, weight);
    ig_s_store(k, each, s->weights, at(s, row, dim(s, s->weight_line), key), weight);
    ig_s_store(k, body, s->totals, row, ig_x_acc(k, total, INGOT_F32));
    if (!in_tiles(s)) return;
    ig_x end = ig_x_mul(k, ceil_div(s, s->seen, s->step), num(s, s->step));
    each = ig_s_for(k, body, IG_FOR_SIMD, scored, end, num(s, 1), &key);
    ig_s_store(k, each, s->weights, at(s, row, dim(s, s->weight_line), key), zero);
}

static ig_x sums_at(struct block *s, ig_x nth, ig_x panel) {
    return ig_x_mul(s->k, at(s, nth, num(s, s->panels), panel), num(s, (int64_t)s->mr * s->nr));
}

static void emit_sums(struct block *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    ig_x step, panel, nth, row, rows;
    ig_x most = num(s, long_step(s)), seen = ig_x_mul(k, ceil_div(s, s->seen, s->step), num(s, s->step));
    body = loop(s, body, IG_FOR_SERIAL, ceil_div(s, s->seen, long_step(s)), &step);
    ig_x first = ig_x_mul(k, step, most), left = ig_x_sub(k, seen, first);
    body = loop(s, body, IG_FOR_SERIAL, num(s, s->panels), &panel);
    body = loop_blocks(s, body, &nth, &row, &rows);
    ig_x line = at(s, panel, dim(s, s->padded), first);
    struct ig_call_arg args[] = {{-1, rows},
                                 {-1, num(s, s->nr / s->lanes)},
                                 {s->weights, at(s, row, dim(s, s->weight_line), first)},
                                 {-1, dim(s, s->weight_line)},
                                 {s->values, ig_x_mul(k, line, num(s, s->nr))},
                                 {s->sums, sums_at(s, nth, panel)},
                                 {-1, ig_x_min(k, most, left)},
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
    a->kernel->tactic =
        ig_format(k->job, "attend, %lld queries a tile%s", (long long)s.rows, in_tiles(&s) ? ", tiles" : "");
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
    if (in_tiles(&s))
        join_values(&s, once);
    else
        copy_values(&s, once);
    copy_queries(&s, body);
    emit_scores(&s, body);
    emit_softmax(&s, body);
    emit_sums(&s, body);
    emit_results(&s, body);
    return !a->astray;
}
