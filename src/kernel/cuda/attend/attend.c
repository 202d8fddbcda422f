/*
 * Attention on GPUs: the template of codegen/cuda/attend/attend.cu, with the change of the scores as loops over the registers
 * that it leaves them in, and the end of the region as loops over the results in shared memory.
 *
 * The loads that the change needs (masks, mostly) are issued while the copies of the step's keys are in flight. If few
 * queries meet many keys, the blocks of a cluster divide the keys ("flash decoding": Dao et al. 2023).
 */
#include "kernel/cuda/attend/attend.h"

#include <math.h>

#include "kernel/affine.h"

enum { MOST_PARTS = 32 };

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

/* ---- Operands ---------------------------------------------------------------------------------------------------- */

static bool is_aligned(struct ig_cuda_attention *s, ig_x place) {
    struct ig_affine sum;
    ig_dim piece = constant(s, 16 / s->element);
    ig_affine_of(s->k, place, &sum);
    bool aligned = ig_dim_divides(s->k->dims, piece, sum.constant);
    for (int i = 0; i < sum.count; i++)
        aligned = aligned && ig_dim_divides(s->k->dims, piece, sum.term[i].factor);
    return aligned;
}

/* Divides a position into what depends on the line and the rest. */
static void divide_position(struct ig_cuda_attention *s, ig_x position, ig_x line, struct ig_attention_source *out) {
    struct ig_affine sum, base, place = {.constant = constant(s, 0)};
    ig_affine_of(s->k, position, &sum);
    base = (struct ig_affine){.constant = sum.constant};
    for (int i = 0; i < sum.count; i++) {
        struct ig_affine *to = ig_x_contains(s->k, sum.term[i].atom, line) ? &place : &base;
        to->term[to->count++] = sum.term[i];
    }
    out->at = line;
    out->base = ig_affine_x(s->k, &base);
    out->place = ig_affine_x(s->k, &place);
    out->distance = ig_affine_factor(s->k, &place, line);
    if (ig_affine_entangled(s->k, &place, line)) out->distance = IG_DIM_NONE;
}

/* Locates an operand; `value` is its element as a function of the line and the place within the line. */
static bool find_source(struct ig_cuda_attention *s, ig_x value, ig_x line, ig_x within,
                        struct ig_attention_source *out) {
    struct ig_loops *k = s->k;
    const struct ig_x_node *n = ig_x_look(k, value);
    if (n->kind != IG_X_LOAD) return false;
    const struct ig_buffer *buffer = &k->buffers.at[n->i];
    if ((int)ingot_dtype_size(buffer->dtype) != s->element || buffer->nothing != IG_NO_X) return false;
    struct ig_affine sum;
    ig_x position = n->args[0], zero = num(s, 0);
    out->buffer = (int)n->i;
    ig_affine_of(k, position, &sum);
    if (ig_affine_entangled(k, &sum, within) || ig_affine_factor(k, &sum, within) != constant(s, 1)) return false;
    position = ig_x_substitute(k, position, &within, &zero, 1);
    divide_position(s, position, line, out);
    return is_aligned(s, out->base) && is_aligned(s, out->place);
}

/* Gives an operand its table, if it needs one: that of an operand before it with the same places, or a new one. */
static bool find_table(struct ig_cuda_attention *s, int which) {
    enum { MOST_LINES = 1024 };
    const struct ig_attention_source *own = &s->source[which];
    int64_t lines;
    s->t->table[which] = -1;
    if (own->distance != IG_DIM_NONE) return true;
    ig_dim count = which == IG_CUDA_ATTEND_QUERIES ? s->a->queries : s->a->keys;
    if (!ig_dim_is_const(s->k->dims, count, &lines) || lines > MOST_LINES || s->t->split > 1 || s->t->direct ||
        s->t->served)
        return false;
    for (int i = 0; i < which; i++) {
        const struct ig_attention_source *other = &s->source[i];
        ig_dim others = i == IG_CUDA_ATTEND_QUERIES ? s->a->queries : s->a->keys;
        if (s->t->table[i] < 0 || others != count) continue;
        if (ig_x_substitute(s->k, other->place, &other->at, &own->at, 1) == own->place)
            s->t->table[which] = s->t->table[i];
    }
    if (s->t->table[which] >= 0) return true;
    s->t->table[which] = s->t->table_lines;
    s->t->table_lines += (int)lines;
    return true;
}

bool ig_cuda_attention_find_sources(struct ig_cuda_attention *s) {
    struct ig_attention *a = s->a;
    struct ig_attention_source *of = s->source;
    ig_x query = ig_x_free_var(s->k, a->queries), key = ig_x_free_var(s->k, a->keys);
    ig_x depth = ig_x_free_var(s->k, a->depth), column = ig_x_free_var(s->k, a->columns);
    if (!find_source(s, ig_attention_query(a, s->head, query, depth), query, depth, &of[IG_CUDA_ATTEND_QUERIES]) ||
        !find_source(s, ig_attention_key(a, s->head, key, depth), key, depth, &of[IG_CUDA_ATTEND_KEYS]) ||
        !find_source(s, ig_attention_value(a, s->head, key, column), key, column, &of[IG_CUDA_ATTEND_VALUES]))
        return false;
    for (int i = 0; i < 3; i++) {
        if (!find_table(s, i)) return false;
    }
    return ig_cuda_attend_shared(s->t) <= ig_cuda_attention_most_shared(s);
}

/* Writes the tables: each by the first operand that reads it. */
void ig_cuda_attention_write_tables(struct ig_cuda_attention *s, struct ig_stmt *body) {
    int written = 0;
    ig_x line;
    for (int i = 0; i < 3; i++) {
        const struct ig_attention_source *from = &s->source[i];
        int64_t lines = 0;
        if (s->t->table[i] < written || from->distance != IG_DIM_NONE) continue;
        ig_dim_is_const(s->k->dims, i == IG_CUDA_ATTEND_QUERIES ? s->a->queries : s->a->keys, &lines);
        struct ig_stmt *each = loop(s, body, IG_FOR_SIMD, lines, &line);
        ig_x place = ig_x_substitute(s->k, from->place, &from->at, &line, 1);
        ig_s_store(s->k, each, s->tables, ig_x_add(s->k, line, num(s, s->t->table[i])), place);
        written = s->t->table[i] + (int)lines;
    }
}

/* The type of narrow results. */
static enum ingot_dtype narrow_type(const struct ig_cuda_attention *s) {
    return ig_type_of(s->a->graph, s->a->scores.in[0])->dtype;
}

/* Served blocks of a multiprocessor: as many as have registers for scores, results and weights. */
static int resident_of(const struct ig_cuda_attention *s) {
    return s->t->warps_m > 4 ? 1 : s->t->columns <= 64 ? 4 : 2;
}

/* Others, of one warpgroup: as many as have registers for scores, results and what is added to the scores, for which compilers leave room
 * for fewer; 0: whatever they make of it. */
static int resident_beside_tables(const struct ig_cuda_attention *s) {
    enum { OTHERS = 28, FOUR = 128, THREE = 168 }; /* registers of a thread */
    struct ig_cuda_attend_layout scores = ig_cuda_attend_scores(s->t), sums = ig_cuda_attend_sums(s->t);
    const int own = scores.blocks * scores.rows * scores.columns;
    int all = OTHERS + own + sums.blocks * sums.rows * sums.columns;
    for (int i = 0; i < s->n_early; i++)
        all += own * (int)ingot_dtype_size(s->k->buffers.at[s->early[i].buffer].dtype) / 4;
    if (s->n_early == 0 || !s->t->warpgroups || s->t->warps_m > 4 || all > THREE) return 0;
    return all <= FOUR ? 4 : 3;
}

void ig_cuda_attention_make_buffers(struct ig_cuda_attention *s) {
    struct ig_cuda_attend_layout scores = ig_cuda_attend_scores(s->t), sums = ig_cuda_attend_sums(s->t);
    int parts = ig_cuda_attend_parts(s->t), results = parts * s->rows * ig_cuda_attend_tile_row(s->t) * 4;
    s->scores = ig_loops_spread(s->k, INGOT_F32, s->threads, ig_cuda_attention_places(s), "scores");
    s->sums = ig_loops_spread(s->k, INGOT_F32, s->threads, sums.blocks * sums.rows * sums.columns, "sums");
    s->state = ig_loops_spread(s->k, INGOT_F32, s->threads, 2 * scores.rows, "state");
    int at = ig_cuda_attend_results_at(s->t);
    s->tile = ig_loops_shared(s->k, s->t->narrow ? narrow_type(s) : INGOT_F32, at, "tile");
    if (!s->t->narrow) {
        s->maxima = ig_loops_shared(s->k, INGOT_F32, at + results, "maxima");
        s->totals = ig_loops_shared(s->k, INGOT_F32, at + results + parts * s->rows * 4, "totals");
    }
    if (s->t->table_lines) s->tables = ig_loops_shared(s->k, INGOT_I64, ig_cuda_attend_tables_at(s->t), "tables");
    s->a->kernel->attend = s->t;
    s->a->kernel->threads = ig_cuda_attend_threads(s->t);
    s->a->kernel->shared_bytes = ig_cuda_attend_shared(s->t);
    if (s->t->served) s->a->kernel->resident = resident_of(s);
    s->a->kernel->cluster = s->t->split > 1 ? s->t->split : 0;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static struct ig_call_arg number(ig_x x) {
    return (struct ig_call_arg){-1, x};
}

static struct ig_call_arg array(struct ig_cuda_attention *s, int buffer) {
    return (struct ig_call_arg){buffer, num(s, 0)};
}

/* This block's share of the keys: returns their number; *out_first: the first of them. Shares are whole steps, or direct
 * blocks of eight keys, so that all have about as many. Sets s->end. */
static ig_x find_share(struct ig_cuda_attention *s, ig_x *out_first) {
    struct ig_loops *k = s->k;
    int unit = s->t->direct ? 8 : s->step;
    *out_first = num(s, 0);
    s->end = s->seen;
    if (s->t->split == 1) return s->seen;
    ig_x units = ig_x_div(k, ig_x_add(k, s->seen, num(s, unit - 1)), num(s, unit));
    ig_x share = ig_x_div(k, ig_x_add(k, units, num(s, s->t->split - 1)), num(s, s->t->split));
    ig_x first = ig_x_min(k, ig_x_mul(k, s->part, share), units);
    *out_first = ig_x_mul(k, first, num(s, unit));
    s->end = ig_x_min(k, s->seen, ig_x_mul(k, ig_x_add(k, first, share), num(s, unit)));
    return ig_x_max(k, ig_x_sub(k, s->end, *out_first), num(s, 0));
}

/* The address of an operand from a line on, and the distance of its lines or, if they are listed, the line's number. */
void ig_cuda_attention_locate(struct ig_cuda_attention *s, int which, ig_x first, struct ig_call_arg out[2]) {
    const struct ig_attention_source *from = &s->source[which];
    bool listed = from->distance == IG_DIM_NONE;
    ig_x base = from->base;
    if (!listed) base = ig_x_add(s->k, base, ig_x_mul(s->k, first, dim(s, from->distance)));
    out[0] = (struct ig_call_arg){from->buffer, base};
    out[1] = number(listed ? first : dim(s, from->distance));
}

/* The steps of a block, by the template's functions or, directly, by those of its operands. */
static void walk(struct ig_cuda_attention *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    struct ig_attention *a = s->a;
    bool direct = s->t->direct;
    ig_x step, first_key, keys = find_share(s, &first_key);
    struct ig_call_arg q[2], key[2], value[2];
    ig_cuda_attention_locate(s, IG_CUDA_ATTEND_QUERIES, s->first_query, q);
    ig_cuda_attention_locate(s, IG_CUDA_ATTEND_KEYS, first_key, key);
    ig_cuda_attention_locate(s, IG_CUDA_ATTEND_VALUES, first_key, value);
    ig_x left = ig_x_sub(k, dim(s, a->queries), s->first_query);
    struct ig_call_arg serve[] = {key[0], key[1], value[0], value[1], number(keys)};
    struct ig_call_arg begin[] = {
        array(s, s->sums), array(s, s->state), q[0],        q[1], number(left), key[0], key[1],
        value[0],          value[1],           number(keys)};
    ig_cuda_attention_write_tables(s, body);
    if (!direct) ig_s_call(k, body, "__syncthreads", NULL, 0); /* the preceding tile may still be read */
    if (s->t->served) {
        ig_s_call(k, body, "ATTEND_SERVE", serve, 5);
        ig_s_call(k, body, "attend::begin_served", begin, 5);
    } else {
        ig_s_call(k, body, direct ? "operands.begin" : "attend::begin", begin, 10);
    }
    ig_x steps = dim(s, ig_dim_ceil_div(k->dims, a->keys, constant(s, s->step)));
    if (s->diagonal || s->t->split > 1) steps = ig_x_div(k, ig_x_add(k, keys, num(s, s->step - 1)), num(s, s->step));
    ig_cuda_attention_load_packed(s, body, first_key);
    body = ig_s_for(k, body, IG_FOR_SERIAL, num(s, 0), steps, num(s, 1), &step);
    ig_s_name(k, step, "step");
    first_key = ig_x_add(k, first_key, ig_x_mul(k, step, num(s, s->step)));
    ig_cuda_attention_load_early(s, body, first_key);
    struct ig_call_arg multiply[] = {array(s, s->scores), number(step), key[0], key[1], value[0], value[1],
                                     number(keys)};
    static const char *const multiply_names[] = {"attend::multiply", "attend::multiply_served", "operands.multiply"};
    static const char *const add_names[] = {"attend::accumulate", "attend::accumulate_served", "operands.accumulate"};
    int way = direct ? 2 : s->t->served;
    ig_s_call(k, body, multiply_names[way], multiply, way ? 2 : 7);
    ig_cuda_attention_change_scores(s, body, first_key);
    /* Those of the next step: there is time until its products are there. */
    ig_x more = ig_x_less(k, ig_x_add(k, step, num(s, 1)), steps);
    if (ig_cuda_attention_has_packed(s))
        ig_cuda_attention_load_packed(s, ig_s_if(k, body, more), ig_x_add(k, first_key, num(s, s->step)));
    struct ig_call_arg add[] = {array(s, s->scores), array(s, s->sums), array(s, s->state),
                                number(step),        number(left),      number(s->scale)};
    if (way) add[4] = add[5];
    ig_s_call(k, body, add_names[way], add, way ? 5 : 6);
}

void ig_cuda_attention_finish(struct ig_cuda_attention *s, struct ig_stmt *body) {
    ig_x left = ig_x_sub(s->k, dim(s, s->a->queries), s->first_query);
    struct ig_call_arg tile = array(s, s->tile), sums = array(s, s->sums), state = array(s, s->state);
    if (s->t->narrow) {
        struct ig_call_arg none = number(ig_x_less(s->k, dim(s, s->a->keys), num(s, 1)));
        ig_s_call(s->k, body, "attend::finish_narrow", (struct ig_call_arg[]){tile, sums, state, none}, 4);
        if (s->t->served) ig_s_call(s->k, body, "attend::end_served", NULL, 0);
        return;
    }
    if (s->t->direct) {
        ig_s_call(s->k, body, "operands.finish",
                  (struct ig_call_arg[]){tile, sums, state, number(left), number(s->scale)}, 5);
        return;
    }
    ig_s_call(s->k, body, "attend::finish", (struct ig_call_arg[]){tile, sums, state, number(s->scale)}, 4);
    if (s->t->split > 1) ig_s_call(s->k, body, "attend::gather", (struct ig_call_arg[]){tile, number(left)}, 2);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* Of a tile's rows, those that may have a query. */
static int most_rows(const struct ig_cuda_attention *s) {
    int64_t queries;
    bool few = ig_dim_is_const(s->k->dims, s->a->queries, &queries) && queries < s->rows;
    return few ? (int)queries : s->rows;
}

/* Elements per store: 16 bytes of the widest output, or as many as let all threads store some. */
static int vector_of(struct ig_cuda_attention *s) {
    size_t most = 2;
    for (uint32_t i = 0; i < s->a->region->outputs.count; i++) {
        size_t size = ingot_dtype_size(ig_type_of(s->a->graph, s->a->region->outputs.at[i])->dtype);
        most = size > most ? size : most;
    }
    int64_t columns = s->t->column_bytes / s->element;
    int vector = most > 8 ? 1 : (int)(16 / most);
    while (columns % vector || (vector > 1 && most_rows(s) * columns < (int64_t)vector * s->threads))
        vector /= 2;
    return vector;
}

/* Combines what the warps and blocks that share a query found: returns the total weight; out_factors: the factor of
 * each part's sums. */
static ig_x bring_together(struct ig_cuda_attention *s, ig_x row, ig_x *out_factors) {
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
    /* Softmax of scores that are all -infinity is NaN. */
    if (s->a->parts.guarded) return total;
    return ig_x_select(k, nothing, ig_x_float(k, INGOT_F32, NAN), total);
}

void ig_cuda_attention_store_results(struct ig_cuda_attention *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    int parts = ig_cuda_attend_parts(s->t);
    if (s->t->split > 1) body = ig_s_if(k, body, ig_x_less(k, s->part, num(s, 1)));
    int vector = vector_of(s), across = s->t->column_bytes / s->element / vector;
    int line = ig_cuda_attend_tile_row(s->t);
    ig_x slot, j = num(s, 0), factors[MOST_PARTS] = {0}, sum = IG_NO_X;
    body = loop(s, body, IG_FOR_SIMD, (int64_t)most_rows(s) * across, &slot);
    ig_x row = ig_x_div(k, slot, num(s, across)), column = ig_x_mod(k, slot, num(s, across));
    ig_x left = ig_x_sub(k, dim(s, s->a->queries), s->first_query);
    bool exact = ig_dim_divides(k->dims, constant(s, s->rows), s->a->queries);
    if (!exact) body = ig_s_if(k, body, ig_x_less(k, row, left));
    ig_x total = s->t->narrow ? IG_NO_X : bring_together(s, row, factors);
    if (vector > 1) body = loop(s, body, IG_FOR_VECTOR, vector, &j);
    column = ig_x_add(k, ig_x_mul(k, column, num(s, vector)), j);
    for (int n = 0; n < parts; n++) {
        ig_x at = ig_x_mul(k, ig_x_add(k, row, num(s, n * s->rows)), num(s, line));
        ig_x part = ig_x_load(k, s->tile, ig_x_add(k, at, column));
        if (!s->t->narrow) part = ig_x_map2(k, IG_OP_mul, factors[n], part);
        sum = sum == IG_NO_X ? part : ig_x_map2(k, IG_OP_add, sum, part);
    }
    ig_x query = ig_x_add(k, s->first_query, row);
    ig_x result = s->t->narrow ? sum : ig_attention_result(s->a, sum, total);
    ig_attention_store(s->a, body, s->head, query, column, result);
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

static const char *tactic(struct ig_cuda_attention *s) {
    static const char *const names[] = {"fp32", "tf32", "fp16", "bf16"};
    const char *more = s->t->split > 1 ? ig_format(s->k->job, ", keys in %d", s->t->split) : "";
    if (s->t->turns) more = ig_format(s->k->job, ", %d heads in turn", s->t->turns);
    if (s->t->direct)
        return ig_format(s->k->job, "attend %s direct, tiles of %d queries, steps of %d keys, %d warps%s",
                         names[s->t->math], s->rows, s->step, s->t->warps_n, more);
    return ig_format(s->k->job, "attend %s%s%s, tiles of %d queries, steps of %d keys%s, %dx%d warps%s",
                     names[s->t->math], s->t->warpgroups ? " wgmma" : "", s->t->served ? " served" : "", s->rows,
                     s->step, s->t->whole ? ", all at once" : "", s->t->warps_m, s->t->warps_n, more);
}

bool ig_attention_cuda(struct ig_attention *a, int choice) {
    struct ig_cuda_attention s = {.a = a, .k = a->k, .t = IG_NEW(a->k->job, struct ig_cuda_attend)};
    struct ig_dims *dims = a->k->dims;
    ig_x tile;
    if (!ig_cuda_attention_choose(&s, choice)) return false;
    a->kernel->tactic = tactic(&s);
    if (s.t->turns) return ig_cuda_attention_in_turns(&s);
    ig_dim blocks = ig_dim_ceil_div(dims, a->queries, constant(&s, s.rows));
    a->kernel->tiles = ig_dim_mul(dims, ig_dim_mul(dims, a->heads, blocks), constant(&s, s.t->split));
    struct ig_stmt *body = ig_s_for(s.k, NULL, IG_FOR_TILE, num(&s, 0), dim(&s, a->kernel->tiles), num(&s, 1), &tile);
    s.part = ig_x_split_off(a->k, &tile, constant(&s, s.t->split));
    s.first_query = ig_x_mul(s.k, ig_x_split_off(a->k, &tile, blocks), num(&s, s.rows));
    ig_attention_head(a, tile, s.head);
    if (!ig_cuda_attention_find_sources(&s)) return false;
    ig_cuda_attention_make_buffers(&s);
    ig_cuda_attention_find_change(&s);
    if (!s.t->served) a->kernel->resident = resident_beside_tables(&s);
    if (s.t->direct) ig_s_text(s.k, body, "attend::direct operands;");
    walk(&s, body);
    ig_cuda_attention_finish(&s, body);
    ig_cuda_attention_store_results(&s, body);
    return true;
}
