/*
 * Attention on GPUs: the template of codegen/cuda/attend.cu, with the change of the scores as loops over the registers in
 * which it leaves them, and the end of the region as loops over the results in shared memory.
 *
 * What the changes load (masks, mostly) is loaded while the step's keys are still on their way. Where few queries meet many
 * keys, the blocks of a cluster divide the keys between them ("flash decoding": Dao et al. 2023).
 */
#include <math.h>
#include <string.h>

#include "kernel/affine.h"
#include "kernel/attend.h"

enum { PROCESSORS = 132, MOST_LOADS = 3, MOST_PARTS = 32, WHOLE = 80 << 10 /* bytes of shared memory */ };

/* Where the lines of an operand are: `line` elements apart, with unit stride within. */
struct source {
    int buffer;
    ig_x base;
    ig_dim line;
};

/* A load that the change of the scores needs, and the registers that it goes to. */
struct early {
    ig_x load;
    int buffer;
};

struct schedule {
    struct ig_attention *a;
    struct ig_loops *k;
    struct ig_cuda_attend *t;
    int element, threads, rows, step; /* bytes; queries and keys of a block's step */
    ig_x head[INGOT_MAX_RANK], first_query;
    struct source q, key, value;
    ig_x at_query, at_key, slot; /* free variables of `rest`, */
    ig_x rest;                   /* what becomes of a score, but for the mask behind the diagonal: */
    bool diagonal;               /* a query sees keys up to its own number + offset */
    ig_dim offset;
    ig_x part;                /* of the keys, among `split` */
    ig_x seen;                /* keys that queries of the tile see */
    ig_x scale;               /* what scores are multiplied by, besides what the loops do */
    int scores, sums, state;  /* registers */
    int tile, maxima, totals; /* shared */
    struct early early[MOST_LOADS];
    int n_early;
};

static ig_x num(struct schedule *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct schedule *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct schedule *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static struct ig_stmt *loop(struct schedule *s, struct ig_stmt *body, enum ig_for_kind kind, int64_t hi,
                            ig_x *out_var) {
    return ig_s_for(s->k, body, kind, num(s, 0), num(s, hi), num(s, 1), out_var);
}

/* ---- Does it apply? ------------------------------------------------------------------------------------------------- */

static bool choose_math(struct schedule *s) {
    struct ig_graph *g = s->a->graph;
    enum ingot_dtype dtype = ig_type_of(g, s->a->scores.in[0])->dtype;
    bool rounded = ig_attr_int(g, &s->a->scores, IG_ATTR_math) == IG_MATH_TF32 &&
                   ig_attr_int(g, &s->a->product, IG_ATTR_math) == IG_MATH_TF32;
    if (ig_type_of(g, s->a->scores.in[1])->dtype != dtype || ig_type_of(g, s->a->product.in[1])->dtype != dtype)
        return false;
    s->element = (int)ingot_dtype_size(dtype);
    switch (dtype) {
    case INGOT_F32: s->t->math = rounded ? IG_CUDA_TF32 : IG_CUDA_FMA; return true;
    case INGOT_F16: s->t->math = IG_CUDA_F16; return true;
    case INGOT_BF16: s->t->math = IG_CUDA_BF16; return true;
    default: return false;
    }
}

/* Elements of a head: copied 16 bytes at a time, padded to what the instructions take. */
static bool choose_depth(struct schedule *s) {
    int64_t depth, columns, piece = 16 / s->element, whole = s->t->math == IG_CUDA_FMA ? 32 : 16;
    if (!ig_dim_is_const(s->k->dims, s->a->depth, &depth) || !ig_dim_is_const(s->k->dims, s->a->columns, &columns))
        return false;
    if (depth < 1 || columns < 1 || depth > 128 || columns > 128 || depth % piece || columns % piece) return false;
    s->t->depth = (int)((depth + 15) / 16 * 16);
    s->t->columns = (int)((columns + whole - 1) / whole * whole);
    s->t->depth_bytes = (int)depth * s->element;
    s->t->column_bytes = (int)columns * s->element;
    return true;
}

/* ---- Operands ------------------------------------------------------------------------------------------------------- */

static bool is_aligned(struct schedule *s, const struct source *from) {
    struct ig_affine sum;
    ig_dim piece = constant(s, 16 / s->element);
    ig_affine_of(s->k, from->base, &sum);
    bool aligned = ig_dim_divides(s->k->dims, piece, sum.constant) && ig_dim_divides(s->k->dims, piece, from->line);
    for (int i = 0; i < sum.count; i++)
        aligned = aligned && ig_dim_divides(s->k->dims, piece, sum.term[i].factor);
    return aligned;
}

/* `value` is an element as a function of its line and its place in it. */
static bool find_source(struct schedule *s, ig_x value, ig_x line, ig_x place, struct source *out) {
    struct ig_loops *k = s->k;
    const struct ig_x_node *n = ig_x_look(k, value);
    if (n->kind != IG_X_LOAD) return false;
    const struct ig_buffer *buffer = &k->buffers.at[n->i];
    if ((int)ingot_dtype_size(buffer->dtype) != s->element || buffer->nothing != IG_NO_X) return false;
    struct ig_affine sum;
    ig_x position = n->args[0], zeros[2] = {num(s, 0), num(s, 0)};
    out->buffer = (int)n->i;
    ig_affine_of(k, position, &sum);
    if (ig_affine_entangled(k, &sum, line) || ig_affine_entangled(k, &sum, place)) return false;
    if (ig_affine_factor(k, &sum, place) != constant(s, 1)) return false;
    out->line = ig_affine_factor(k, &sum, line);
    out->base = ig_x_substitute(k, position, (ig_x[]){line, place}, zeros, 2);
    return is_aligned(s, out);
}

static bool find_sources(struct schedule *s) {
    struct ig_attention *a = s->a;
    ig_x query = ig_x_free_var(s->k, a->queries), key = ig_x_free_var(s->k, a->keys);
    ig_x depth = ig_x_free_var(s->k, a->depth), column = ig_x_free_var(s->k, a->columns);
    return find_source(s, ig_attention_query(a, s->head, query, depth), query, depth, &s->q) &&
           find_source(s, ig_attention_key(a, s->head, key, depth), key, depth, &s->key) &&
           find_source(s, ig_attention_value(a, s->head, key, column), key, column, &s->value);
}

/* ---- Tiles ---------------------------------------------------------------------------------------------------------- */

/* Warps along queries and keys, and the keys of a warp's step, or the most of them; whether warps multiply in groups; blocks
 * that share the keys. */
static const struct shape {
    int m, n, keys;
    bool warpgroups;
    int split;
} shapes[] = {{1, 4, 32, false, 1}, {2, 2, 32, false, 1}, {4, 1, 64, false, 1}, {4, 1, 128, true, 1},
              {1, 4, 32, false, 8}, {1, 4, 32, false, 4}, {1, 4, 32, false, 2}, {4, 1, 64, true, 1},
              {8, 1, 128, true, 1}, {8, 1, 64, true, 1},  {2, 4, 32, false, 1}, {1, 8, 16, false, 1},
              {4, 2, 32, false, 1}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };
/* Which is which: the last small one, by groups, those that split. */
enum { LARGEST = 2, GROUP = 3, GROUP_OF_WIDE = 7, SPLIT = 4, SPLITS = 3 };

static int64_t guess(struct schedule *s, ig_dim d, int64_t usual) {
    int64_t lo, hi;
    ig_dim_range(s->k->dims, d, &lo, &hi);
    return hi < usual ? hi : lo > usual ? lo : usual;
}

/* The instructions for groups read lines of 64 bytes, or panels of 128. */
static bool can_group(const struct schedule *s) {
    const struct ig_cuda_attend *t = s->t;
    bool lines = (t->depth == 32 || t->depth % 64 == 0) && (t->columns == 32 || t->columns % 64 == 0);
    return lines && s->element == 2 && s->a->target->sm == 90 && s->a->target->sm_own;
}

/* By clusters. */
static bool can_split(const struct schedule *s) {
    return s->a->target->sm >= 90;
}

/* Which shape is best: groups of warps, where their 64 queries are no fewer than half used; beside
 * the results of a wide head their registers hold fewer scores. Else the smallest tiles of queries that are done all at once,
 * for a few queries are soon ready and many read the keys less often. */
static int best_shape(struct schedule *s) {
    int64_t heads = guess(s, s->a->heads, 12), queries = guess(s, s->a->queries, 128);
    int64_t keys = guess(s, s->a->keys, 128), tiles = heads * ((queries + 15) / 16);
    if (can_group(s) && queries >= 32) return s->t->columns <= 64 ? GROUP : GROUP_OF_WIDE;
    /* Where few blocks would read many keys, several share them. */
    for (int i = SPLIT; i < SPLIT + SPLITS && can_split(s); i++) {
        if (tiles * shapes[i].split <= PROCESSORS && keys >= shapes[i].split * 128) return i;
    }
    for (int i = 0; i < LARGEST; i++) {
        int64_t rows = 16 * shapes[i].m;
        if (heads * ((queries + rows - 1) / rows) <= PROCESSORS) return i;
    }
    return LARGEST;
}

/* Of a block: 163 and 227 KiB on the chips for data centres, 99 on their smaller kin. */
static int most_shared(const struct schedule *s) {
    int sm = s->a->target->sm;
    return sm == 80 || sm == 90 || sm == 100 ? 160 << 10 : 99 << 10;
}

/* Steps of up to `most` keys, such that little of the last is empty; all in shared memory where there are few. */
static void divide_keys(struct schedule *s, int64_t most) {
    int64_t keys, best = INT64_MAX;
    if (!ig_dim_is_const(s->k->dims, s->a->keys, &keys) || keys < 1) return;
    int64_t fewest = (keys + most - 1) / most;
    for (int64_t steps = fewest; steps < fewest + 3; steps++) {
        int64_t each = ((keys + steps - 1) / steps + 15) / 16 * 16;
        if (each * steps >= best || each < 32) continue;
        best = each * steps;
        s->t->keys = (int)each;
    }
    int64_t steps = (keys + s->t->keys - 1) / s->t->keys;
    if (steps > 4) return;
    s->t->whole = true;
    s->t->stages = (int)steps;
    if (ig_cuda_attend_shared(s->t) <= WHOLE) return;
    s->t->whole = false;
    s->t->stages = 2;
}

static bool can_be(const struct schedule *s, const struct shape *shape) {
    return (!shape->warpgroups || can_group(s)) && (shape->split == 1 || can_split(s));
}

/* The shapes in their order, the best one before all others; -1: there are no more. */
static int shape_of_choice(struct schedule *s, int choice) {
    int best = best_shape(s);
    for (int i = 0; i < N_SHAPES && choice > 0; i++) {
        if (i != best && can_be(s, &shapes[i]) && --choice == 0) return i;
    }
    return choice == 0 ? best : -1;
}

static bool choose_shape(struct schedule *s, int choice) {
    int which = shape_of_choice(s, choice);
    if (which < 0) return false;
    s->t->split = shapes[which].split;
    s->t->warpgroups = shapes[which].warpgroups;
    s->t->warps_m = shapes[which].m;
    s->t->warps_n = shapes[which].n;
    s->t->keys = shapes[which].keys;
    s->t->stages = 2;
    if (s->t->warpgroups) divide_keys(s, s->t->keys);
    /* Where heads are long, their keys fill the shared memory, and their results the registers. */
    if (s->element == 4 && s->t->depth + s->t->columns > 160) s->t->keys = 16;
    while (ig_cuda_attend_shared(s->t) > most_shared(s) && s->t->warps_n > 1)
        s->t->warps_n /= 2;
    s->threads = ig_cuda_attend_threads(s->t);
    s->rows = ig_cuda_attend_rows(s->t);
    s->step = s->t->keys * s->t->warps_n;
    return ig_cuda_attend_shared(s->t) <= most_shared(s);
}

/* Places of a thread for its scores: a power of two, for compilers to see through what follows from it. */
static int places(struct ig_cuda_attend_layout l) {
    int n = 1;
    while (n < l.blocks * l.rows * l.columns)
        n *= 2;
    return n;
}

static void make_buffers(struct schedule *s) {
    struct ig_cuda_attend_layout scores = ig_cuda_attend_scores(s->t), sums = ig_cuda_attend_sums(s->t);
    int parts = ig_cuda_attend_parts(s->t), results = parts * s->rows * (s->t->columns + IG_CUDA_ATTEND_PAD) * 4;
    s->scores = ig_loops_spread(s->k, INGOT_F32, s->threads, places(scores), "scores");
    s->sums = ig_loops_spread(s->k, INGOT_F32, s->threads, sums.blocks * sums.rows * sums.columns, "sums");
    s->state = ig_loops_spread(s->k, INGOT_F32, s->threads, 2 * scores.rows, "state");
    s->tile = ig_loops_shared(s->k, INGOT_F32, 0, "tile");
    s->maxima = ig_loops_shared(s->k, INGOT_F32, results, "maxima");
    s->totals = ig_loops_shared(s->k, INGOT_F32, results + parts * s->rows * 4, "totals");
    s->a->kernel->attend = s->t;
    s->a->kernel->threads = s->threads;
    s->a->kernel->shared_bytes = ig_cuda_attend_shared(s->t);
    s->a->kernel->cluster = s->t->split > 1 ? s->t->split : 0;
}

/* ---- Scores --------------------------------------------------------------------------------------------------------- */

/* An element of the scores: where it is in the registers, and what it is the score of. */
struct element {
    ig_x slot, query, key;
};

/* Loops over all scores of all threads. */
static struct ig_stmt *each_score(struct schedule *s, struct ig_stmt *body, ig_x step, struct element *out) {
    struct ig_loops *k = s->k;
    struct ig_cuda_attend_layout l = ig_cuda_attend_scores(s->t);
    ig_x thread, block, row, column;
    body = loop(s, body, IG_FOR_SIMD, s->threads, &thread);
    ig_x warp = ig_x_div(k, thread, num(s, 32)), lane = ig_x_mod(k, thread, num(s, 32));
    ig_x m = ig_x_div(k, warp, num(s, s->t->warps_n)), n = ig_x_mod(k, warp, num(s, s->t->warps_n));
    body = loop(s, body, IG_FOR_UNROLL, l.blocks, &block);
    body = loop(s, body, IG_FOR_UNROLL, l.rows, &row);
    body = loop(s, body, IG_FOR_UNROLL, l.columns, &column);
    ig_x slot = ig_x_add(k, ig_x_mul(k, block, num(s, l.rows)), row);
    slot = ig_x_add(k, ig_x_mul(k, slot, num(s, l.columns)), column);
    out->slot = ig_x_add(k, ig_x_mul(k, thread, num(s, places(l))), slot);
    ig_x query = ig_x_add(k, ig_x_mul(k, m, num(s, 16)), ig_x_div(k, lane, num(s, l.lanes)));
    query = ig_x_add(k, query, ig_x_mul(k, row, num(s, 16 / l.rows)));
    out->query = ig_x_add(k, s->first_query, query);
    ig_x key = ig_x_add(k, ig_x_mul(k, step, num(s, s->step)), ig_x_mul(k, n, num(s, s->t->keys)));
    key = ig_x_add(k, key, ig_x_mul(k, block, num(s, l.lanes * l.columns)));
    key = ig_x_add(k, key, ig_x_mul(k, ig_x_mod(k, lane, num(s, l.lanes)), num(s, l.columns)));
    out->key = ig_x_add(k, key, column);
    return body;
}

static ig_x last(struct schedule *s, ig_dim d) {
    return dim(s, ig_dim_sub(s->k->dims, d, constant(s, 1)));
}

static void find_change(struct schedule *s) {
    struct ig_loops *k = s->k;
    s->at_query = ig_x_free_var(k, s->a->queries);
    s->at_key = ig_x_free_var(k, s->a->keys);
    s->slot = ig_x_free_var(k, constant(s, (int64_t)s->threads * places(ig_cuda_attend_scores(s->t))));
    ig_x score = ig_x_load(k, s->scores, s->slot), keys = dim(s, s->a->keys);
    ig_x x = ig_attention_changed(s->a, s->head, s->at_query, s->at_key, score);
    s->rest = x;
    s->diagonal = ig_attention_diagonal(s->a, x, score, s->at_query, s->at_key, &s->rest, &s->offset);
    s->seen = keys;
    if (!s->diagonal) return;
    /* The tiles that see most come first. */
    ig_dim blocks = ig_dim_ceil_div(k->dims, s->a->queries, constant(s, s->rows));
    ig_x end = ig_x_mul(k, dim(s, ig_dim_sub(k->dims, blocks, constant(s, 1))), num(s, s->rows));
    s->first_query = ig_x_sub(k, end, s->first_query);
    ig_dim from_first = ig_dim_add(k->dims, s->offset, constant(s, s->rows));
    s->seen = ig_x_min(k, keys, ig_x_add(k, s->first_query, dim(s, from_first)));
}

/* What becomes of the score at an element; beyond the last query, or key, what is loaded is the last one's. */
static ig_x changed(struct schedule *s, const struct element *e) {
    ig_x from[] = {s->at_query, s->at_key, s->slot}, to[] = {ig_x_min(s->k, e->query, last(s, s->a->queries)),
                                                             ig_x_min(s->k, e->key, last(s, s->a->keys)), e->slot};
    return ig_x_substitute(s->k, s->rest, from, to, 3);
}

/* Collects the loads of parameters in x, the outermost ones; false where there are too many. */
static bool collect_loads(struct schedule *s, ig_x x) {
    const struct ig_x_node n = *ig_x_look(s->k, x);
    if (n.kind == IG_X_LOAD && n.i == s->scores) return true;
    if (n.kind == IG_X_LOAD) {
        for (int i = 0; i < s->n_early; i++) {
            if (s->early[i].load == x) return true;
        }
        if (s->n_early == MOST_LOADS) return false;
        s->early[s->n_early++].load = x;
        return true;
    }
    for (int i = 0; i < 3; i++) {
        if (n.args[i] != IG_NO_X && !collect_loads(s, n.args[i])) return false;
    }
    return true;
}

static void load_early(struct schedule *s, struct ig_stmt *body, ig_x step) {
    struct ig_cuda_attend_layout l = ig_cuda_attend_scores(s->t);
    struct element e;
    struct ig_stmt *loops = each_score(s, body, step, &e);
    if (!collect_loads(s, changed(s, &e))) s->n_early = 0;
    for (int i = 0; i < s->n_early; i++) {
        enum ingot_dtype dtype = ig_x_look(s->k, s->early[i].load)->dtype;
        s->early[i].buffer = ig_loops_spread(s->k, dtype, s->threads, places(l), ig_format(s->k->job, "early%d", i));
        ig_s_store(s->k, loops, s->early[i].buffer, e.slot, s->early[i].load);
    }
    if (s->n_early == 0) body->body.count--; /* no loop */
}

/* The loads in x, which are in the same order as those of load_early, come from registers. */
static ig_x take_early(struct schedule *s, ig_x x, ig_x slot) {
    struct schedule again = *s;
    ig_x from[MOST_LOADS], to[MOST_LOADS];
    if (s->n_early == 0) return x;
    again.n_early = 0;
    IG_ASSERT(s->k->job, collect_loads(&again, x) && again.n_early == s->n_early);
    for (int i = 0; i < s->n_early; i++) {
        from[i] = again.early[i].load;
        to[i] = ig_x_load(s->k, s->early[i].buffer, slot);
    }
    return ig_x_substitute(s->k, x, from, to, s->n_early);
}

/* Where x is the score times a positive number, or alone: the number. */
static bool find_scale(struct schedule *s, ig_x x, ig_x score) {
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

/* Keys that there are not, and those behind the diagonal, have no weight. */
static void drop_keys(struct schedule *s, struct ig_stmt *body, ig_x step, ig_x all_have, bool behind_diagonal) {
    struct element e;
    struct ig_loops *k = s->k;
    ig_x end = ig_x_mul(k, ig_x_add(k, step, num(s, 1)), num(s, s->step));
    body = each_score(s, ig_s_if(k, body, ig_x_less(k, all_have, end)), step, &e);
    ig_x x = ig_x_load(k, s->scores, e.slot), none = ig_x_float(k, INGOT_F32, -INFINITY);
    ig_x has = behind_diagonal ? ig_x_add(k, e.query, ig_x_add(k, dim(s, s->offset), num(s, 1))) : dim(s, s->a->keys);
    ig_s_store(k, body, s->scores, e.slot, ig_x_select(k, ig_x_less(k, e.key, has), x, none));
}

static void drop_unseen_keys(struct schedule *s, struct ig_stmt *body, ig_x step) {
    struct ig_dims *dims = s->k->dims;
    ig_x first_sees = ig_x_add(s->k, s->first_query, dim(s, ig_dim_add(dims, s->offset, constant(s, 1))));
    drop_keys(s, body, step, first_sees, true);
}

static void drop_missing_keys(struct schedule *s, struct ig_stmt *body, ig_x step) {
    struct ig_dims *dims = s->k->dims;
    bool whole = ig_dim_divides(dims, constant(s, s->step), s->a->keys);
    bool hidden = s->diagonal && ig_dim_add(dims, s->offset, s->a->queries) == s->a->keys; /* from all queries */
    if (!whole && !hidden) drop_keys(s, body, step, dim(s, s->a->keys), false);
}

static void change_scores(struct schedule *s, struct ig_stmt *body, ig_x step) {
    struct element e;
    struct ig_stmt *loops = each_score(s, body, step, &e);
    ig_x x = take_early(s, changed(s, &e), e.slot);
    if (find_scale(s, x, ig_x_load(s->k, s->scores, e.slot))) {
        body->body.count--; /* no loop */
    } else {
        ig_s_store(s->k, loops, s->scores, e.slot, x);
    }
    if (s->diagonal) drop_unseen_keys(s, body, step);
    drop_missing_keys(s, body, step);
}

/* ---- Calls ---------------------------------------------------------------------------------------------------------- */

static struct ig_call_arg address(const struct source *from) {
    return (struct ig_call_arg){from->buffer, from->base};
}

static struct ig_call_arg number(ig_x x) {
    return (struct ig_call_arg){-1, x};
}

static struct ig_call_arg array(struct schedule *s, int buffer) {
    return (struct ig_call_arg){buffer, num(s, 0)};
}

/* The keys of this block: from *out_first, `keys` of them. */
static ig_x find_share(struct schedule *s, ig_x *out_first_step) {
    struct ig_loops *k = s->k;
    ig_x step = num(s, s->step), steps = ig_x_div(k, ig_x_add(k, s->seen, num(s, s->step - 1)), step);
    *out_first_step = num(s, 0);
    if (s->t->split == 1) return s->seen;
    ig_x share = ig_x_div(k, ig_x_add(k, steps, num(s, s->t->split - 1)), num(s, s->t->split));
    *out_first_step = ig_x_min(k, ig_x_mul(k, s->part, share), steps);
    ig_x end = ig_x_min(k, s->seen, ig_x_mul(k, ig_x_add(k, *out_first_step, share), step));
    return ig_x_max(k, ig_x_sub(k, end, ig_x_mul(k, *out_first_step, step)), num(s, 0));
}

static struct source moved(struct schedule *s, struct source from, ig_x lines) {
    from.base = ig_x_add(s->k, from.base, ig_x_mul(s->k, lines, dim(s, from.line)));
    return from;
}

static void walk(struct schedule *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    struct ig_attention *a = s->a;
    ig_x step, first, ldq = dim(s, s->q.line), ldk = dim(s, s->key.line), ldv = dim(s, s->value.line);
    ig_x keys = find_share(s, &first), first_key = ig_x_mul(k, first, num(s, s->step));
    struct source q = moved(s, s->q, s->first_query), key = moved(s, s->key, first_key),
                  value = moved(s, s->value, first_key);
    ig_x left = ig_x_sub(k, dim(s, a->queries), s->first_query);
    struct ig_call_arg begin[] = {array(s, s->sums), array(s, s->state), address(&q),     number(ldq), number(left),
                                  address(&key),     number(ldk),        address(&value), number(ldv), number(keys)};
    ig_s_call(k, body, "__syncthreads", NULL, 0); /* the tile before may still be read */
    ig_s_call(k, body, "attend::begin", begin, 10);
    ig_x steps = dim(s, ig_dim_ceil_div(k->dims, a->keys, constant(s, s->step)));
    if (s->diagonal || s->t->split > 1) steps = ig_x_div(k, ig_x_add(k, keys, num(s, s->step - 1)), num(s, s->step));
    body = ig_s_for(k, body, IG_FOR_SERIAL, num(s, 0), steps, num(s, 1), &step);
    ig_s_name(k, step, "step");
    ig_x of_all = ig_x_add(k, first, step);
    load_early(s, body, of_all);
    struct ig_call_arg multiply[] = {array(s, s->scores), number(step), address(&key), number(ldk),
                                     address(&value),     number(ldv),  number(keys)};
    ig_s_call(k, body, "attend::multiply", multiply, 7);
    change_scores(s, body, of_all);
    struct ig_call_arg add[] = {array(s, s->scores), array(s, s->sums), array(s, s->state),
                                number(step),        number(left),      number(s->scale)};
    ig_s_call(k, body, "attend::accumulate", add, 6);
}

/* ---- Results -------------------------------------------------------------------------------------------------------- */

/* Elements that a thread stores at once: 16 bytes of the widest output. */
static int vector_of(struct schedule *s) {
    size_t most = 2;
    for (uint32_t i = 0; i < s->a->region->outputs.count; i++) {
        size_t size = ingot_dtype_size(ig_type_of(s->a->graph, s->a->region->outputs.at[i])->dtype);
        most = size > most ? size : most;
    }
    int64_t columns = s->t->column_bytes / s->element;
    int vector = most > 8 ? 1 : (int)(16 / most);
    while (columns % vector)
        vector /= 2;
    return vector;
}

/* What the warps, and blocks, that shared a query found, brought together: the factor of each one's results, and the whole sum. */
static ig_x bring_together(struct schedule *s, ig_x row, ig_x *out_factors) {
    struct ig_loops *k = s->k;
    int parts = ig_cuda_attend_parts(s->t);
    ig_x least = ig_x_float(k, INGOT_F32, -INFINITY), zero = ig_x_float(k, INGOT_F32, 0), most = IG_NO_X,
         total = IG_NO_X;
    for (int n = 0; n < parts; n++) {
        ig_x one = ig_x_load(k, s->maxima, ig_x_add(k, row, num(s, n * s->rows)));
        most = most == IG_NO_X ? one : ig_x_map2(k, IG_OP_max, most, one);
    }
    ig_x nothing = ig_x_map2(k, IG_OP_eq, most, least), base = ig_x_select(k, nothing, zero, most);
    for (int n = 0; n < parts; n++) {
        ig_x at = ig_x_add(k, row, num(s, n * s->rows)),
             apart = ig_x_map2(k, IG_OP_sub, ig_x_load(k, s->maxima, at), base);
        ig_x one = ig_x_float(k, INGOT_F32, 1), same = ig_x_map2(k, IG_OP_eq, ig_x_load(k, s->maxima, at), most);
        out_factors[n] = parts == 1 ? one : ig_x_select(k, same, one, ig_x_map1(k, IG_OP_exp, apart));
        ig_x part = ig_x_map2(k, IG_OP_mul, out_factors[n], ig_x_load(k, s->totals, at));
        total = total == IG_NO_X ? part : ig_x_map2(k, IG_OP_add, total, part);
    }
    /* Softmax of -infinity alone is NaN. */
    if (s->a->parts.guarded) return total;
    return ig_x_select(k, nothing, ig_x_float(k, INGOT_F32, NAN), total);
}

static void store_results(struct schedule *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    int parts = ig_cuda_attend_parts(s->t);
    if (s->t->split > 1) body = ig_s_if(k, body, ig_x_less(k, s->part, num(s, 1)));
    int vector = vector_of(s), across = s->t->column_bytes / s->element / vector;
    int line = s->t->columns + IG_CUDA_ATTEND_PAD;
    ig_x slot, j = num(s, 0), factors[MOST_PARTS] = {0}, sum = IG_NO_X;
    ig_x left = ig_x_sub(k, dim(s, s->a->queries), s->first_query);
    bool exact = ig_dim_divides(k->dims, constant(s, s->rows), s->a->queries);
    ig_x rows = exact ? num(s, s->rows) : ig_x_min(k, num(s, s->rows), left);
    body = ig_s_for(k, body, IG_FOR_SIMD, num(s, 0), ig_x_mul(k, rows, num(s, across)), num(s, 1), &slot);
    ig_x row = ig_x_div(k, slot, num(s, across)), column = ig_x_mod(k, slot, num(s, across));
    ig_x total = bring_together(s, row, factors);
    if (vector > 1) body = loop(s, body, IG_FOR_VECTOR, vector, &j);
    column = ig_x_add(k, ig_x_mul(k, column, num(s, vector)), j);
    for (int n = 0; n < parts; n++) {
        ig_x at = ig_x_mul(k, ig_x_add(k, row, num(s, n * s->rows)), num(s, line));
        ig_x part = ig_x_map2(k, IG_OP_mul, factors[n], ig_x_load(k, s->tile, ig_x_add(k, at, column)));
        sum = sum == IG_NO_X ? part : ig_x_map2(k, IG_OP_add, sum, part);
    }
    ig_x query = ig_x_add(k, s->first_query, row);
    ig_attention_store(s->a, body, s->head, query, column, ig_attention_result(s->a, sum, total));
}

/* ---- All ------------------------------------------------------------------------------------------------------------ */

static const char *tactic(struct schedule *s) {
    static const char *const names[] = {"fp32", "tf32", "fp16", "bf16"};
    return ig_format(s->k->job, "attend %s%s, tiles of %d queries, steps of %d keys%s, %dx%d warps%s",
                     names[s->t->math], s->t->warpgroups ? " wgmma" : "", s->rows, s->step,
                     s->t->whole ? ", all at once" : "", s->t->warps_m, s->t->warps_n,
                     s->t->split > 1 ? ig_format(s->k->job, ", keys in %d", s->t->split) : "");
}

bool ig_attention_cuda(struct ig_attention *a, int choice) {
    struct schedule s = {.a = a, .k = a->k, .t = IG_NEW(a->k->job, struct ig_cuda_attend)};
    struct ig_dims *dims = a->k->dims;
    ig_x tile;
    if (!choose_math(&s) || !choose_depth(&s) || !choose_shape(&s, choice)) return false;
    ig_dim blocks = ig_dim_ceil_div(dims, a->queries, constant(&s, s.rows));
    a->kernel->tiles = ig_dim_mul(dims, ig_dim_mul(dims, a->heads, blocks), constant(&s, s.t->split));
    struct ig_stmt *body = ig_s_for(s.k, NULL, IG_FOR_TILE, num(&s, 0), dim(&s, a->kernel->tiles), num(&s, 1), &tile);
    s.part = ig_attention_split(a, &tile, constant(&s, s.t->split));
    s.first_query = ig_x_mul(s.k, ig_attention_split(a, &tile, blocks), num(&s, s.rows));
    ig_attention_head(a, tile, s.head);
    if (!find_sources(&s)) return false;
    make_buffers(&s);
    find_change(&s);
    walk(&s, body);
    struct ig_call_arg finish[] = {array(&s, s.tile), array(&s, s.sums), array(&s, s.state), number(s.scale)};
    ig_s_call(s.k, body, "attend::finish", finish, 4);
    store_results(&s, body);
    a->kernel->tactic = tactic(&s);
    return true;
}
