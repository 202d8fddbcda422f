/*
 * Recurrences: a whole sequence of an LSTM, GRU or RNN in one kernel (operators and gate order as in ops.def).
 *
 * A tile is a block of batch rows, which are independent. A step multiplies the rows' previous states by the recurrent
 * weights and applies the gates. The weights lie in panels of a few units, with all gates of a unit in one row, so that
 * the micro-kernel of contractions leaves everything these units need in a small array, and the gates are one vector
 * loop over it right away. Weights that were not packed at compile time are packed by the first tile of each call.
 * States are kept in the compute type and double-buffered, since other units still read the old ones.
 *
 * A GRU that resets before its product needs that product between its gates: it takes two rounds over the panels.
 *
 * Several independent recurrences, such as the two directions of one layer, share a kernel: each has its own tiles.
 *
 * On GPUs, the blocks of a cluster share the units of a tile's rows (cuda/recurrent.c), unless the weights are not packed.
 *
 * A sequence shorter than the longest ends early: the steps past its end keep the states and give zeros; reversed, it
 * starts at its own end.
 */
#include "kernel/family/scan_recurrent.h"

#include "ir/turns.h"
#include "kernel/family/scan.h"

/* ---- Shorthands -------------------------------------------------------------------------------------------------- */

static ig_x num(struct ig_recurrence *r, int64_t i) {
    return ig_x_index(r->k, i);
}

static ig_x dim(struct ig_recurrence *r, ig_dim d) {
    return ig_x_dim(r->k, d);
}

static ig_dim constant(struct ig_recurrence *r, int64_t i) {
    return ig_dim_const(r->k->dims, i);
}

static int64_t known(const struct ig_recurrence *r, ig_dim d, int64_t otherwise) {
    int64_t value;
    return ig_dim_is_const(r->k->dims, d, &value) ? value : otherwise;
}

static struct ig_stmt *loop(struct ig_recurrence *r, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi,
                            ig_x *out_var) {
    return ig_s_for(r->k, body, kind, num(r, 0), hi, num(r, 1), out_var);
}

/* Element `at` of a vector operand. */
static ig_x vector(struct ig_recurrence *r, ig_value v, ig_x at) {
    return ig_lower_value(r->lower, v, &at);
}

ig_x ig_recurrence_in_batch(struct ig_recurrence *r, ig_value v, ig_x unit) {
    ig_x index[] = {ig_x_add(r->k, r->first_row, r->row), unit};
    return ig_lower_value(r->lower, v, index);
}

/* ---- Choosing the tile ------------------------------------------------------------------------------------------- */

/* On CPUs, registers hold the accumulators (rows times one panel row), that panel row and a broadcast element. The number
 * of tiles is one or even, since processors mostly have an even number of cores. */
static int rows_of_registers(const struct ig_recurrence *r) {
    int vectors = r->gates * r->units / ig_micro_lanes(r->target, r->dtype);
    if (vectors < 1) vectors = 1;
    int spare = r->target->vector_registers >= 32 ? 2 : 1;
    int rows = (r->target->vector_registers - vectors - spare) / vectors;
    rows = rows < 1 ? 1 : rows > 8 ? 8 : rows;
    int64_t batch = known(r, r->batch, 0);
    if (batch > rows) {
        int64_t pairs = (batch + 2 * rows - 1) / (2 * rows);
        rows = (int)((batch + 2 * pairs - 1) / (2 * pairs));
    }
    return rows;
}

/* In turns, all rows are one tile's, in blocks that the registers hold. */
static void choose_rows(struct ig_recurrence *r) {
    struct ig_dims *dims = r->k->dims;
    int rows = r->block ? r->block->rows : rows_of_registers(r);
    r->block_rows = rows;
    if (r->turns) rows = (int)known(r, r->batch, 1);
    ig_dim tiles = ig_dim_ceil_div(dims, r->batch, constant(r, rows));
    r->most_rows = rows;
    r->tiles = tiles;
    tiles = ig_dim_max(dims, tiles, constant(r, 1));
    r->per_tile = ig_dim_div(dims, r->batch, tiles);
    r->more = ig_dim_sub(dims, r->batch, ig_dim_mul(dims, r->per_tile, tiles));
}

static int scratch(struct ig_recurrence *r, ig_dim elements, const char *name) {
    if (r->number > 0) name = ig_format(r->k->job, "%s%d", name, r->number + 1);
    return ig_kernel_scratch(r->kernel, r->dtype, elements, name);
}

static void make_buffers(struct ig_recurrence *r) {
    struct ig_dims *dims = r->k->dims;
    r->stride = ig_dim_mul(dims, ig_dim_ceil_div(dims, r->hidden, constant(r, 16)), constant(r, 16));
    ig_dim rows = ig_dim_mul(dims, r->stride, constant(r, r->most_rows));
    r->states = scratch(r, r->turns ? rows : ig_dim_mul(dims, rows, constant(r, 2)), "state");
    if (r->node.op == IG_OP_lstm) r->cells = r->turns ? r->out_c : scratch(r, rows, "cell");
    if (r->node.op == IG_OP_gru && !r->turns) {
        r->update = scratch(r, rows, "update");
        r->reset = scratch(r, rows, "reset");
    }
    const char *sums = r->number > 0 ? ig_format(r->k->job, "sums%d", r->number + 1) : "sums";
    r->sums = ig_loops_local(r->k, r->dtype, (int64_t)r->most_rows * r->gates * r->units, sums);
    if (!r->packs) {
        r->weights = r->lower->buffer_of[r->node.in[1]];
        return;
    }
    ig_dim panel = ig_dim_mul(dims, r->hidden, constant(r, r->gates * r->units));
    r->weights = scratch(r, ig_dim_mul(dims, r->panels, panel), "weights");
}

static void init(struct ig_recurrence *r) {
    const struct ig_type *xw = ig_type_of(r->graph, r->node.in[0]), *weights = ig_type_of(r->graph, r->node.in[1]);
    const int64_t element = (int64_t)ingot_dtype_size(ig_dtype_compute(xw->dtype));
    r->storage = xw->dtype;
    r->dtype = ig_dtype_compute(xw->dtype);
    r->gates = r->node.op == IG_OP_lstm ? 4 : r->node.op == IG_OP_gru ? 3 : 1;
    r->time = xw->dim[0];
    r->batch = xw->dim[1];
    r->hidden = weights->dim[1];
    r->units = ig_target_is_cuda(r->target) /* without blocks that share them, whole vectors */
                   ? ig_micro_lanes(r->target, r->dtype)
                   : (int)ig_target_units(r->target, r->gates, (int)element, known(r, r->hidden, 64));
    bool packed = weights->rank == 4;
    r->packs = !packed || weights->dtype != r->dtype || known(r, weights->dim[3], 0) != r->units;
    r->panels = ig_dim_ceil_div(r->k->dims, r->hidden, constant(r, r->units));
    r->reverse = ig_attr_int(r->graph, &r->node, IG_ATTR_reverse) != 0;
    r->lengths = ig_recurrence_operand(r, r->node.op == IG_OP_lstm ? 4 : 3);
    r->out_y = r->lower->buffer_of[r->node.out];
    r->out_h = r->lower->buffer_of[r->node.out + 1];
    r->out_c = r->node.op == IG_OP_lstm ? r->lower->buffer_of[r->node.out + 2] : -1;
    r->turns = ig_takes_turns(r->graph, &r->node, r->target);
}

static void allocate(struct ig_recurrence *r) {
    choose_rows(r);
    if (r->block) {
        ig_cuda_recurrent_buffers(r);
    } else {
        make_buffers(r);
    }
}

/* ---- A step ------------------------------------------------------------------------------------------------------ */

void ig_recurrence_sums(struct ig_recurrence *r, struct ig_stmt *body, const struct ig_recurrence_round *round,
                        ig_x first, ig_x rows) {
    struct ig_loops *k = r->k;
    int width = r->gates * r->units, lanes = ig_micro_lanes(r->target, r->dtype);
    int64_t skipped = (int64_t)round->first_gate * r->units;
    ig_x panel_at = ig_x_mul(k, ig_x_mul(k, r->panel, dim(r, r->hidden)), num(r, width));
    struct ig_call_arg args[] = {{-1, rows},
                                 {-1, num(r, round->gates * r->units / lanes)},
                                 {round->a, ig_x_add(k, round->a_at, ig_x_mul(k, first, dim(r, r->stride)))},
                                 {-1, dim(r, r->stride)},
                                 {r->weights, ig_x_add(k, panel_at, num(r, skipped))},
                                 {r->sums, ig_x_add(k, ig_x_mul(k, first, num(r, width)), num(r, skipped))},
                                 {-1, dim(r, r->hidden)},
                                 {-1, num(r, 1)}};
    ig_s_call(k, body, "gemm", args, 8);
}

ig_x ig_recurrence_length(struct ig_recurrence *r) {
    struct ig_loops *k = r->k;
    if (r->lengths == IG_NO_VALUE) return IG_NO_X;
    ig_x length = ig_x_cast(k, vector(r, r->lengths, ig_x_add(k, r->first_row, r->row)), INGOT_I64, false);
    return ig_x_max(k, ig_x_min(k, length, dim(r, r->time)), num(r, 0));
}

struct ig_stmt *ig_recurrence_rows(struct ig_recurrence *r, struct ig_stmt *body) {
    return loop(r, body, IG_FOR_SERIAL, r->rows, &r->row);
}

/* Loops over the rows of the tile; with lengths, only over those whose sequence still runs in this step, or (`ended`)
 * has ended. */
static struct ig_stmt *row_loop(struct ig_recurrence *r, struct ig_stmt *body, bool ended) {
    struct ig_loops *k = r->k;
    body = ig_recurrence_rows(r, body);
    r->length = ig_recurrence_length(r);
    if (r->length == IG_NO_X) return body;
    ig_x goes_on = ig_x_less(k, r->step, r->length);
    return ig_s_if(k, body, ended ? ig_x_map1(k, IG_OP_not, goes_on) : goes_on);
}

static void emit_units(struct ig_recurrence *r, struct ig_stmt *body, const struct ig_recurrence_round *round,
                       ig_x count) {
    body = row_loop(r, body, false);
    body = loop(r, body, IG_FOR_SIMD, count, &r->lane);
    r->unit = ig_x_add(r->k, ig_x_mul(r->k, r->panel, num(r, r->units)), r->lane);
    ig_recurrence_gates(r, body, round->number);
}

/* If sizes are known, full panels and a shorter last one are emitted separately, so that both have loops of constant
 * length. */
void ig_recurrence_units(struct ig_recurrence *r, struct ig_stmt *body, const struct ig_recurrence_round *round) {
    struct ig_loops *k = r->k;
    int64_t hidden = known(r, r->hidden, 0), rest = hidden % r->units;
    if (hidden > r->units && rest > 0) {
        ig_x full = ig_x_less(k, ig_x_add(k, r->panel, num(r, 1)), dim(r, r->panels));
        emit_units(r, ig_s_if(k, body, full), round, num(r, r->units));
        emit_units(r, ig_s_if(k, body, ig_x_map1(k, IG_OP_not, full)), round, num(r, rest));
        return;
    }
    ig_x left = ig_x_sub(k, dim(r, r->hidden), ig_x_mul(k, r->panel, num(r, r->units)));
    ig_x count = hidden == 0 ? ig_x_min(k, num(r, r->units), left) : num(r, rest ? rest : r->units);
    emit_units(r, body, round, count);
}

/* Every other step walks the panels backwards: if the weights exceed the second cache, half of them are still there. */
static void emit_panels(struct ig_recurrence *r, struct ig_stmt *body, const struct ig_recurrence_round *round) {
    struct ig_loops *k = r->k;
    body = loop(r, body, IG_FOR_SERIAL, dim(r, r->panels), &r->panel);
    ig_x turn = ig_x_sub(k, ig_x_sub(k, dim(r, r->panels), num(r, 1)), ig_x_mul(k, r->panel, num(r, 2)));
    r->panel = ig_x_add(k, r->panel, ig_x_mul(k, ig_x_mod(k, r->step, num(r, 2)), turn));
    ig_recurrence_sums(r, body, round, num(r, 0), r->rows);
    ig_recurrence_units(r, body, round);
}

void ig_recurrence_rest(struct ig_recurrence *r, struct ig_stmt *body) {
    struct ig_loops *k = r->k;
    if (!r->own)
        ig_s_store(k, body, r->states, ig_x_add(k, r->new_at, ig_recurrence_position(r)), ig_recurrence_old_state(r));
    if (r->out_y < 0) return;
    ig_x index[] = {r->step, ig_x_add(k, r->first_row, r->row), r->unit};
    ig_s_store(k, body, r->out_y, ig_lower_linear(r->lower, ig_type_of(r->graph, r->node.out), index),
               ig_x_float(k, r->dtype, 0));
}

/* Rows whose sequence has ended. */
static void emit_ended(struct ig_recurrence *r, struct ig_stmt *body) {
    if (r->lengths == IG_NO_VALUE) return;
    body = loop(r, row_loop(r, body, true), IG_FOR_SIMD, dim(r, r->hidden), &r->unit);
    ig_recurrence_rest(r, body);
}

bool ig_recurrence_has_two_rounds(const struct ig_recurrence *r) {
    return r->node.op == IG_OP_gru && !ig_recurrence_resets_product(r);
}

static void emit_step(struct ig_recurrence *r, struct ig_stmt *body) {
    struct ig_loops *k = r->k;
    ig_x size = ig_x_mul(k, num(r, r->most_rows), dim(r, r->stride));
    r->old_at = ig_x_mul(k, ig_x_mod(k, r->step, num(r, 2)), size);
    r->new_at = ig_x_sub(k, size, r->old_at);
    if (r->block) {
        ig_cuda_recurrent_step(r, body);
        return;
    }
    struct ig_recurrence_round all = {.gates = r->gates, .a = r->states, .a_at = r->old_at};
    if (ig_recurrence_has_two_rounds(r)) {
        struct ig_recurrence_round candidate = {
            .number = 1, .first_gate = 2, .gates = 1, .a = r->reset, .a_at = num(r, 0)};
        all.gates = 2;
        emit_panels(r, body, &all);
        emit_panels(r, body, &candidate);
    } else {
        emit_panels(r, body, &all);
    }
    emit_ended(r, body);
}

/* ---- Packing, first and last states ------------------------------------------------------------------------------ */

/* The recurrent weight in row g*hidden + unit and column `depth`, whatever the layout of the operand. */
static ig_x plain_weight(struct ig_recurrence *r, ig_x g, ig_x unit, ig_x depth) {
    struct ig_loops *k = r->k;
    ig_value v = r->node.in[1];
    const struct ig_type *type = ig_type_of(r->graph, v);
    ig_x index[4] = {ig_x_add(k, ig_x_mul(k, g, dim(r, r->hidden)), unit), depth};
    if (type->rank == 4) {
        ig_x units = dim(r, type->dim[3]);
        index[0] = ig_x_div(k, unit, units);
        index[2] = g;
        index[3] = ig_x_mod(k, unit, units);
    }
    return ig_lower_value(r->lower, v, index);
}

/* Lanes beyond the last unit are not initialised: nothing reads their results. */
static void emit_packing(struct ig_recurrence *r, struct ig_stmt *body, ig_x tile, ig_x own) {
    struct ig_loops *k = r->k;
    ig_x panel, g, lane, depth;
    ig_x done = ig_x_and(k, ig_x_less(k, ig_x_begin(k), tile), ig_x_less(k, num(r, 0), own));
    body = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, done));
    body = loop(r, body, IG_FOR_SERIAL, dim(r, r->panels), &panel);
    body = loop(r, body, IG_FOR_SERIAL, num(r, r->gates), &g);
    ig_x first = ig_x_mul(k, panel, num(r, r->units));
    ig_x left = ig_x_sub(k, dim(r, r->hidden), first);
    body = loop(r, body, IG_FOR_SERIAL, ig_x_min(k, num(r, r->units), left), &lane);
    body = loop(r, body, IG_FOR_SIMD, dim(r, r->hidden), &depth);
    ig_x row = ig_x_add(k, ig_x_mul(k, panel, dim(r, r->hidden)), depth);
    ig_x at = ig_x_add(k, ig_x_mul(k, row, num(r, r->gates)), g);
    at = ig_x_add(k, ig_x_mul(k, at, num(r, r->units)), lane);
    ig_s_store(k, body, r->weights, at, plain_weight(r, g, ig_x_add(k, first, lane), depth));
}

/* Every unit of the rows; where blocks share the units, each begins with all of them, all rows at once. */
static void emit_start(struct ig_recurrence *r, struct ig_stmt *body) {
    if (r->own) {
        body = ig_cuda_recurrent_places(r, body);
    } else if (r->block) {
        ig_x at, units = dim(r, r->hidden);
        body = loop(r, body, IG_FOR_SIMD, ig_x_mul(r->k, r->rows, units), &at);
        r->row = ig_x_div(r->k, at, units);
        r->unit = ig_x_mod(r->k, at, units);
    } else {
        body = loop(r, loop(r, body, IG_FOR_SERIAL, r->rows, &r->row), IG_FOR_SIMD, dim(r, r->hidden), &r->unit);
    }
    ig_s_store(r->k, body, r->states, ig_recurrence_position(r), ig_recurrence_in_batch(r, r->node.in[2], r->unit));
    if (r->node.op != IG_OP_lstm) return;
    ig_s_store(r->k, body, r->cells, ig_recurrence_position(r), ig_recurrence_in_batch(r, r->node.in[3], r->unit));
}

/* Stores the last states. */
static void emit_end(struct ig_recurrence *r, struct ig_stmt *body) {
    struct ig_loops *k = r->k;
    if (r->out_h < 0 && r->out_c < 0) return;
    ig_dim odd = ig_dim_mod(k->dims, r->time, constant(r, 2));
    ig_x last = ig_x_mul(k, ig_x_mul(k, num(r, r->most_rows), dim(r, r->stride)), dim(r, odd));
    if (r->block) {
        body = ig_cuda_recurrent_units(r, body);
    } else {
        body = loop(r, loop(r, body, IG_FOR_SERIAL, r->rows, &r->row), IG_FOR_SIMD, dim(r, r->hidden), &r->unit);
    }
    ig_x index[] = {ig_x_add(k, r->first_row, r->row), r->unit}, at = ig_recurrence_position(r);
    ig_x to = ig_lower_linear(r->lower, ig_type_of(r->graph, r->node.out + 1), index);
    ig_x h = ig_x_load(k, r->states, r->own ? at : ig_x_add(k, last, at));
    if (r->out_h >= 0) ig_s_store(k, body, r->out_h, to, ig_x_cast(k, h, r->storage, false));
    if (r->out_c < 0) return;
    ig_s_store(k, body, r->out_c, to, ig_x_cast(k, ig_x_load(k, r->cells, at), r->storage, false));
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

static void make_micro(struct ig_recurrence *r) {
    enum { CUDA_THREADS = 256 };
    int lanes = ig_micro_lanes(r->target, r->dtype), width = r->gates * r->units;
    struct ig_micro micro = {.kind = IG_MICRO_GEMM, .name = "gemm", .dtype = r->dtype, .nr = width};
    int64_t per_tile = known(r, r->per_tile, -1), more = known(r, r->more, -1), tiles = known(r, r->tiles, -1);
    for (int rows = 1; rows <= r->block_rows; rows++) {
        bool used = per_tile < 0 || (rows == per_tile && more < tiles) || (rows == per_tile + 1 && more > 0);
        if (r->turns) used = rows == r->most_rows % r->block_rows || (rows == r->block_rows && rows <= r->most_rows);
        if (used) micro.rows |= 1u << rows;
    }
    micro.vectors =
        ig_recurrence_has_two_rounds(r) ? 1u << 2 * r->units / lanes | 1u << r->units / lanes : 1u << width / lanes;
    int64_t stride = known(r, r->stride, 0);
    micro.lda = stride > 0 ? stride : 0;
    if (ig_target_is_cuda(r->target)) r->kernel->threads = CUDA_THREADS;
    IG_PUSH(r->k->job, &r->kernel->micros, micro);
}

/* Emits tile `own` of the recurrence, which is tile `tile` of the kernel. */
static void emit(struct ig_recurrence *r, struct ig_stmt *body, ig_x tile, ig_x own) {
    struct ig_loops *k = r->k;
    r->first_row = ig_x_add(k, ig_x_mul(k, own, dim(r, r->per_tile)), ig_x_min(k, own, dim(r, r->more)));
    ig_x longer = ig_x_select(k, ig_x_less(k, own, dim(r, r->more)), num(r, 1), num(r, 0));
    r->rows = ig_x_add(k, dim(r, r->per_tile), longer);
    if (r->packs) emit_packing(r, body, tile, own);
    emit_start(r, body);
    if (r->block) ig_cuda_recurrent_begin(r, body);
    struct ig_stmt *steps = loop(r, body, IG_FOR_SERIAL, dim(r, r->time), &r->step);
    ig_s_name(k, r->step, "step");
    emit_step(r, steps);
    emit_end(r, body);
}

static ig_dim work(struct ig_recurrence *r) {
    struct ig_dims *dims = r->k->dims;
    ig_dim units = ig_dim_mul(dims, ig_dim_mul(dims, r->time, r->batch), r->hidden);
    ig_dim each = ig_dim_mul(dims, ig_dim_add(dims, r->hidden, constant(r, 16)), constant(r, r->gates));
    return ig_dim_ceil_div(dims, ig_dim_mul(dims, units, each), constant(r, ig_micro_lanes(r->target, r->dtype)));
}

/* The recurrences of the region; the fuse pass ensures that they have one kind and size. */
static uint32_t find_recurrences(struct ig_recurrence *first, const struct ig_region *region, const struct ig_sizes *at,
                                 struct ig_recurrence **out_all) {
    struct ig_graph *graph = first->graph;
    struct ig_recurrence *all = IG_NEW_ARRAY(graph->job, struct ig_recurrence, region->nodes.count);
    enum ig_op op = graph->nodes.at[region->anchor].op;
    uint32_t count = 0;
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        const struct ig_node *node = &graph->nodes.at[region->nodes.at[i]];
        if (node->op != op) continue;
        all[count] = *first;
        all[count].node = *node;
        all[count].number = (int)count;
        count++;
    }
    bool clusters = true, turns = true; /* of all or none */
    for (uint32_t i = 0; i < count; i++) {
        all[i].count = (int)count;
        init(&all[i]);
        clusters = ig_cuda_recurrent_choose(&all[i], at) && clusters;
        turns = all[i].turns && turns;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!clusters) all[i].block = NULL;
        all[i].turns = turns;
        allocate(&all[i]);
    }
    *out_all = all;
    return count;
}

/* The recurrences' tiles follow one another; each body is guarded by its range of tiles. */
static void emit_all(struct ig_recurrence *all, uint32_t count) {
    struct ig_loops *k = all->k;
    struct ig_kernel *kernel = all->kernel;
    ig_dim start = constant(all, 0);
    ig_x tile;
    int blocks = kernel->cluster > 1 ? kernel->cluster : 1;
    kernel->tiles = ig_dim_mul(k->dims, all->tiles, constant(all, count * blocks));
    struct ig_stmt *top = ig_s_for(k, NULL, IG_FOR_TILE, num(all, 0), dim(all, kernel->tiles), num(all, 1), &tile);
    ig_s_name(k, tile, "tile");
    ig_x block = ig_x_mod(k, tile, num(all, blocks));
    tile = ig_x_div(k, tile, num(all, blocks));
    for (uint32_t i = 0; i < count; i++) {
        struct ig_stmt *body = top;
        all[i].panel = block;
        ig_dim end = ig_dim_add(k->dims, start, all[i].tiles);
        ig_x own = ig_x_sub(k, tile, dim(all, start));
        if (count > 1) {
            ig_x begun = ig_x_less(k, num(all, -1), own);
            body = ig_s_if(k, body, ig_x_and(k, begun, ig_x_less(k, tile, dim(all, end))));
        }
        emit(&all[i], body, tile, own);
        start = end;
    }
}

struct ig_kernel *ig_kernel_recurrent(struct ig_graph *graph, const struct ig_region *region,
                                      const struct ig_target *target, const struct ig_sizes *at) {
    struct ig_kernel *kernel = IG_NEW(graph->job, struct ig_kernel);
    struct ig_recurrence *all, first = {.graph = graph, .target = target, .kernel = kernel};
    first.k = kernel->loops = ig_loops_create(graph->job, graph->dims);
    first.lower = IG_NEW(graph->job, struct ig_lower);
    ig_lower_init(first.lower, first.k, graph, region);
    kernel->scratch_bytes = ig_dim_const(graph->dims, 0);
    uint32_t count = find_recurrences(&first, region, at, &all);
    if (!all->block) make_micro(all);
    if (all->turns)
        ig_recurrence_emit_turns(all, count);
    else
        emit_all(all, count);
    kernel->work = ig_dim_mul(graph->dims, work(all), ig_dim_const(graph->dims, count));
    const char *what = ig_format(graph->job, "%s%s, %d rows a tile", count > 1 ? "several " : "",
                                 ig_op_info(all->node.op)->name, all->most_rows);
    const struct ig_cuda_recurrent *b = all->block;
    const char *kept = b && b->cores ? "all on the tensor cores"
                       : b           ? ig_format(graph->job, "%d of %d weights kept", b->kept, b->depth)
                                     : "";
    kernel->tactic =
        b ? ig_format(graph->job, "%s, %d blocks of %d threads with %d units, %s", what, b->blocks, b->threads,
                      b->units, kept)
          : ig_format(graph->job, "%s, panels of %d units%s%s", what, all->units,
                      all->packs ? ", packed in the kernel" : "", all->turns ? ", threads share steps" : "");
    return kernel;
}
