/*
 * Recurrences on GPUs: the blocks of a cluster share the units of a tile's rows, so that the recurrent weights stay in
 * their shared memory for the whole sequence, or as many of them as find room (persistent RNNs: Diamos et al. 2016).
 *
 * Each block holds all states of the rows, and multiplies them by its panel of weights. Its threads then compute the
 * gates of its units, a unit of a row each, and send the new states to the other blocks before the cluster meets; on the tensor cores
 * those whose registers have the sums, so that threads meet once a step. What
 * the gates need from the input is loaded before the products, into registers, since it comes from memory; by a block that shares with
 * no other, a step ahead.
 *
 * The products are on the tensor cores if the weights are narrow and the states bounded, so that these can be split into
 * two narrow numbers, and if all weights find room in the blocks.
 */
#include "kernel/family/scan_recurrent.h"

enum {
    MOST_THREADS = 512,
    MOST_ROWS = 4,
    WIDTH = 4, /* sums of a thread */
    PIECE = 4, /* terms of a part: a multiple */
    /* On the tensor cores: */
    STEP = 16, /* terms of an instruction */
    FEW_ROWS = 4,
    GROUP = 8, /* rows that an instruction multiplies, and units of a warp */
    MOST_WARPS = 16,
    FEW_WARPS = 8, /* whose threads have twice as many registers */
    SLOTS = 3,     /* operands: old and new states, states after the reset gate */
};

static ig_x num(struct ig_recurrence *r, int64_t i) {
    return ig_x_index(r->k, i);
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

/* Bytes in dynamic shared memory. */
struct layout {
    int64_t states, cells, update, reset, sums, kept, end;
};

static struct layout lay_out(const struct ig_recurrence *r, const struct ig_cuda_recurrent *b) {
    int64_t element = (int64_t)ingot_dtype_size(b->element), rows = (int64_t)b->rows * b->stride * element;
    int64_t width = (int64_t)b->gates * b->units;
    struct layout l = {.cells = 2 * rows};
    l.update = l.cells + (r->node.op == IG_OP_lstm ? rows : 0);
    l.reset = l.update + (r->node.op == IG_OP_gru ? rows : 0);
    l.sums = l.reset + (r->node.op == IG_OP_gru ? rows : 0);
    l.kept = l.sums + b->parts * b->rows * width * element;
    l.end = l.kept + b->parts * b->kept * width * (int64_t)ingot_dtype_size(b->weight);
    return l;
}

/* The same on the tensor cores: operands, and weights that find no room in registers. */
static int64_t bytes_of_cores(const struct ig_cuda_recurrent *b) {
    int64_t operand = (int64_t)ig_cuda_recurrent_columns(b) * ig_cuda_recurrent_column(b);
    return 2 * (SLOTS * operand + (int64_t)b->kept * ig_cuda_recurrent_term(b));
}

/* As few rows as give each multiprocessor a block, or `each`, since all rows wait for each step. */
static int rows_of_cluster(const struct ig_recurrence *r, int blocks, int each, int most, const struct ig_sizes *at) {
    int64_t batch = at ? ig_sizes_guess(at, r->batch) : 1, clusters = IG_CUDA_PROCESSORS * each / (blocks * r->count);
    int64_t rows = (batch + larger((int)clusters, 1) - 1) / larger((int)clusters, 1);
    return rows < 1 ? 1 : rows > most ? most : (int)rows;
}

/* Threads that have no sums of their own share the terms of the others'. */
static void choose_parts(struct ig_cuda_recurrent *b) {
    int groups = b->gates * b->units / WIDTH, most = larger(b->hidden / (2 * PIECE), 1);
    b->parts = larger(MOST_THREADS / groups, 1);
    if (b->parts > most) b->parts = most;
    b->depth = ((b->hidden + b->parts - 1) / b->parts + PIECE - 1) / PIECE * PIECE;
    b->parts = larger((b->hidden + b->depth - 1) / b->depth, 1);
    b->kept = 0;
    b->threads = larger(groups * b->parts, b->units * b->rows);
    b->threads = b->threads > MOST_THREADS ? MOST_THREADS : (b->threads + 31) / 32 * 32;
}

static bool choose_kept(const struct ig_recurrence *r, struct ig_cuda_recurrent *b) {
    int64_t line = (int64_t)b->parts * b->gates * b->units * (int64_t)ingot_dtype_size(b->weight);
    int64_t room = ig_target_shared_bytes(r->target) - lay_out(r, b).end;
    if (room < 0) return false;
    int64_t kept = room / line / PIECE * PIECE;
    b->kept = kept < b->depth ? (int)kept : b->depth;
    return true;
}

/* Are the states numbers between -1 and 1, but for the first? */
static bool is_bounded(const struct ig_recurrence *r) {
    const struct ig_attr *activations = ig_attr(r->graph, &r->node, IG_ATTR_activations);
    for (int i = 0; i < r->gates - 1; i++) {
        switch ((enum ig_activation)activations->ints[i]) {
        case IG_ACT_SIGMOID:
        case IG_ACT_TANH:
        case IG_ACT_HARD_SIGMOID:
        case IG_ACT_SOFTSIGN: break;
        default: return false;
        }
    }
    return r->node.op == IG_OP_lstm || r->node.op == IG_OP_gru;
}

/* The tensor cores: false if they do not suit. Few rows need one instruction for both numbers of their states. */
static bool choose_cores(const struct ig_recurrence *r, struct ig_cuda_recurrent *b, const struct ig_sizes *at) {
    int warps = ig_cuda_recurrent_whole_units(b) / GROUP, steps = (b->hidden + STEP - 1) / STEP;
    if ((b->weight != INGOT_F16 && b->weight != INGOT_BF16) || b->element != INGOT_F32) return false;
    if (warps > MOST_WARPS || !is_bounded(r)) return false;
    bool few = warps <= FEW_WARPS;
    struct ig_cuda_recurrent own = *b;
    own.cores = true;
    own.resident = b->blocks > 1 || !few ? 1 : warps <= FEW_WARPS / 2 ? 4 : 2;
    own.rows = rows_of_cluster(r, b->blocks, own.resident, few ? 2 * GROUP : GROUP, at);
    own.rows = own.rows <= FEW_ROWS ? FEW_ROWS : (own.rows + GROUP - 1) / GROUP * GROUP;
    own.registers = few ? 16 : 8;
    if (own.registers > steps) own.registers = steps;
    own.kept = (steps - own.registers) * STEP;
    own.threads = warps * 32;
    while (own.rows > GROUP && bytes_of_cores(&own) > ig_target_shared_bytes(r->target))
        own.rows -= GROUP;
    if (bytes_of_cores(&own) > ig_target_shared_bytes(r->target)) return false;
    *b = own;
    return true;
}

/* Are the weights a packed operand in memory, of known size? */
static bool is_packed(const struct ig_recurrence *r) {
    ig_value weights = r->node.in[1];
    const struct ig_type *type = ig_type_of(r->graph, weights);
    int64_t sizes[4];
    if (type->rank != 4 || !r->lower->is_input[weights] || ig_is_literal(r->graph, weights)) return false;
    for (int i = 0; i < 4; i++) {
        if (!ig_dim_is_const(r->k->dims, type->dim[i], &sizes[i])) return false;
    }
    bool whole = sizes[0] * sizes[3] >= sizes[1] && sizes[0] <= 8 && sizes[3] % WIDTH == 0 && sizes[1] > 0;
    return whole && sizes[0] * sizes[3] < 1 << 15 && (sizes[0] == 1 || ig_target_has_clusters(r->target));
}

bool ig_cuda_recurrent_choose(struct ig_recurrence *r, const struct ig_sizes *at) {
    if (!ig_target_is_cuda(r->target) || !is_packed(r)) return false;
    const struct ig_type *type = ig_type_of(r->graph, r->node.in[1]);
    int64_t blocks, hidden, units;
    ig_dim_is_const(r->k->dims, type->dim[0], &blocks);
    ig_dim_is_const(r->k->dims, type->dim[1], &hidden);
    ig_dim_is_const(r->k->dims, type->dim[3], &units);
    struct ig_cuda_recurrent *b = IG_NEW(r->k->job, struct ig_cuda_recurrent);
    *b = (struct ig_cuda_recurrent){
        .weight = type->dtype,
        .element = r->dtype,
        .gates = r->gates,
        .units = (int)units,
        .hidden = (int)hidden,
        .stride = (int)(blocks * units),
        .rows = rows_of_cluster(r, (int)blocks, 1, MOST_ROWS, at),
        .blocks = (int)blocks,
    };
    r->block = b;
    if (choose_cores(r, b, at)) return true;
    for (; b->rows > 0; b->rows--) {
        choose_parts(b);
        if (choose_kept(r, b)) return true;
    }
    r->block = NULL;
    return false;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* The block's units of all rows; on the tensor cores in whole warps. */
static int64_t places(const struct ig_recurrence *r) {
    const struct ig_cuda_recurrent *b = r->block;
    return (int64_t)b->rows * (b->cores ? ig_cuda_recurrent_whole_units(b) : b->units);
}

/* In registers. */
static void own_buffers(struct ig_recurrence *r, const char *number) {
    struct ig_loops *k = r->k;
    int64_t count = places(r);
    r->states = ig_loops_spread(k, r->dtype, count, 1, ig_format(k->job, "state%s", number));
    r->sums = ig_loops_spread(k, r->dtype, count, r->gates, ig_format(k->job, "sums%s", number));
    if (r->node.op == IG_OP_lstm)
        r->cells = ig_loops_spread(k, r->dtype, count, 1, ig_format(k->job, "cell%s", number));
    if (r->node.op == IG_OP_gru) {
        r->update = ig_loops_spread(k, r->dtype, count, 1, ig_format(k->job, "update%s", number));
        r->reset = ig_loops_spread(k, r->dtype, count, 1, ig_format(k->job, "reset%s", number));
    }
}

void ig_cuda_recurrent_buffers(struct ig_recurrence *r) {
    const struct ig_cuda_recurrent *b = r->block;
    struct layout l = lay_out(r, b);
    struct ig_loops *k = r->k;
    r->units = b->units;
    r->panels = ig_dim_const(k->dims, b->blocks);
    r->stride = ig_dim_const(k->dims, b->stride);
    r->weights = r->lower->buffer_of[r->node.in[1]];
    r->packs = false;
    r->own = b->cores;
    r->kernel->threads = b->threads;
    r->kernel->shared_bytes = (int)(b->cores ? bytes_of_cores(b) : l.end);
    r->kernel->cluster = b->blocks > 1 ? b->blocks : 0;
    r->kernel->resident = b->resident;
    r->kernel->recurrent = b;
    const char *number = r->number > 0 ? ig_format(k->job, "%d", r->number + 1) : "";
    r->inputs = ig_loops_spread(k, r->dtype, places(r), b->gates, ig_format(k->job, "input%s", number));
    if (r->own) {
        own_buffers(r, number);
        return;
    }
    r->states = ig_loops_shared(k, b->element, l.states, ig_format(k->job, "state%s", number));
    r->sums = ig_loops_shared(k, b->element, l.sums, ig_format(k->job, "sums%s", number));
    r->kept = ig_loops_shared(k, b->weight, l.kept, ig_format(k->job, "kept%s", number));
    if (r->node.op == IG_OP_lstm)
        r->cells = ig_loops_shared(k, b->element, l.cells, ig_format(k->job, "cell%s", number));
    if (r->node.op == IG_OP_gru) {
        r->update = ig_loops_shared(k, b->element, l.update, ig_format(k->job, "update%s", number));
        r->reset = ig_loops_shared(k, b->element, l.reset, ig_format(k->job, "reset%s", number));
    }
}

/* ---- Emitting ---------------------------------------------------------------------------------------------------- */

static const char *name_of(const struct ig_recurrence *r, int buffer) {
    return r->k->buffers.at[buffer].name;
}

/* The row and the unit of the block that an iteration has. On the tensor cores a thread has those of its sums (mma.sync): of eight units
 * of its warp one, of eight rows two; of four rows one. */
static void locate(struct ig_recurrence *r, ig_x *out_row, ig_x *out_lane) {
    struct ig_loops *k = r->k;
    const struct ig_cuda_recurrent *b = r->block;
    if (!b->cores) {
        *out_row = ig_x_div(k, r->iteration, num(r, r->units));
        *out_lane = ig_x_mod(k, r->iteration, num(r, r->units));
        return;
    }
    ig_x thread = ig_x_mod(k, r->iteration, num(r, b->threads)), slot = ig_x_div(k, r->iteration, num(r, b->threads));
    ig_x quarter = ig_x_mod(k, thread, num(r, 4));
    *out_lane = ig_x_div(k, thread, num(r, 4));
    if (b->rows == FEW_ROWS) {
        ig_x low = ig_x_mod(k, quarter, num(r, 2)), high = ig_x_div(k, quarter, num(r, 2));
        *out_row = ig_x_add(k, ig_x_mul(k, low, num(r, 2)), high);
        return;
    }
    ig_x pair = ig_x_mod(k, slot, num(r, 2)), group = ig_x_div(k, slot, num(r, 2));
    *out_row = ig_x_add(k, ig_x_mul(k, quarter, num(r, 2)), ig_x_add(k, pair, ig_x_mul(k, group, num(r, GROUP))));
}

/* Loops over the block's units of all rows, and says whether there is such a row and unit: r->row and r->unit exist in
 * any case, since what does not depend on the condition is loaded before it. */
static ig_x unit_loop(struct ig_recurrence *r, struct ig_stmt **body) {
    struct ig_loops *k = r->k;
    *body = ig_s_for(k, *body, IG_FOR_SIMD, num(r, 0), num(r, places(r)), num(r, 1), &r->iteration);
    ig_x row, last = ig_x_sub(k, r->rows, num(r, 1));
    locate(r, &row, &r->lane);
    ig_x unit = ig_x_add(k, ig_x_mul(k, r->panel, num(r, r->units)), r->lane);
    r->row = ig_x_min(k, row, last);
    r->unit = ig_x_min(k, unit, num(r, r->block->hidden - 1));
    r->length = ig_recurrence_length(r);
    ig_x exists = ig_x_and(k, ig_x_less(k, row, r->rows), ig_x_less(k, unit, num(r, r->block->hidden)));
    return r->own ? ig_x_and(k, exists, ig_x_less(k, r->lane, num(r, r->units))) : exists;
}

struct ig_stmt *ig_cuda_recurrent_places(struct ig_recurrence *r, struct ig_stmt *body) {
    unit_loop(r, &body);
    return body;
}

/* What the gates of a step take from the input. */
static void emit_inputs(struct ig_recurrence *r, struct ig_stmt *body, ig_x step) {
    const ig_x now = r->step;
    r->step = step;
    unit_loop(r, &body);
    for (int g = 0; g < r->gates; g++) {
        ig_x at = ig_x_add(r->k, ig_x_mul(r->k, r->iteration, num(r, r->gates)), num(r, g));
        ig_s_store(r->k, body, r->inputs, at, ig_recurrence_input(r, g));
    }
    r->step = now;
}

/* A step ahead? Where blocks meet, all that they have loaded must have come. */
static bool loads_ahead(const struct ig_recurrence *r) {
    return r->block->blocks == 1;
}

static void emit_next_inputs(struct ig_recurrence *r, struct ig_stmt *body) {
    ig_x last = ig_x_dim(r->k, ig_dim_sub(r->k->dims, r->time, ig_dim_const(r->k->dims, 1)));
    emit_inputs(r, body, ig_x_min(r->k, ig_x_add(r->k, r->step, num(r, 1)), last));
}

/* States of the tile's rows, of which products are computed: in `buffer` from `at` on; on the tensor cores in a slot, too. */
struct operand {
    int buffer;
    ig_x at, slot;
};

static void emit_share(struct ig_recurrence *r, struct ig_stmt *body, const struct operand *o) {
    const char *from = name_of(r, o->buffer);
    ig_s_text(r->k, body,
              r->own ? ig_format(r->k->job, "weights.share((int)@%u, %s);", (unsigned)o->slot, from)
                     : ig_format(r->k->job, "recurrent::share(%s + @%u, (int)@%u);", from, (unsigned)o->at,
                                 (unsigned)r->rows));
}

static void emit_product(struct ig_recurrence *r, struct ig_stmt *body, const struct ig_recurrence_round *round,
                         const struct operand *from) {
    const char *sums = name_of(r, r->sums);
    ig_s_text(r->k, body,
              r->own ? ig_format(r->k->job, "weights.multiply<%d, %d>(%s, (int)@%u);", round->first_gate, round->gates,
                                 sums, (unsigned)from->slot)
                     : ig_format(r->k->job, "weights.multiply(%s, %s + @%u, (int)@%u, %d, %d);", sums,
                                 name_of(r, from->buffer), (unsigned)from->at, (unsigned)r->rows, round->first_gate,
                                 round->gates));
}

/* The gates of one round, from the states `from`; what they store as `to` goes to all blocks. */
static void emit_round(struct ig_recurrence *r, struct ig_stmt *body, const struct ig_recurrence_round *round,
                       const struct operand *from, const struct operand *to) {
    struct ig_loops *k = r->k;
    emit_product(r, body, round, from);
    struct ig_stmt *units = body;
    ig_x exists = unit_loop(r, &units);
    units = ig_s_if(k, units, exists);
    if (r->length == IG_NO_X) {
        ig_recurrence_gates(r, units, round->number);
    } else {
        ig_x goes_on = ig_x_less(k, r->step, r->length);
        ig_recurrence_gates(r, ig_s_if(k, units, goes_on), round->number);
        if (to->buffer == r->states) ig_recurrence_rest(r, ig_s_if(k, units, ig_x_map1(k, IG_OP_not, goes_on)));
    }
    if (to->buffer == r->states && loads_ahead(r)) emit_next_inputs(r, body);
    emit_share(r, body, to);
}

void ig_cuda_recurrent_begin(struct ig_recurrence *r, struct ig_stmt *body) {
    struct ig_loops *k = r->k;
    ig_x panel = ig_x_mul(k, r->panel, num(r, (int64_t)r->block->hidden * r->gates * r->units));
    const char *memory = r->own ? "ig_shared" : name_of(r, r->kept);
    ig_s_text(k, body,
              ig_format(k->job,
                        "recurrent::weights weights;\n"
                        "weights.keep((recurrent::weight *)%s, (const recurrent::weight *)%s + @%u);",
                        memory, name_of(r, r->weights), (unsigned)panel));
    ig_s_text(k, body, "recurrent::meet();");
    struct operand first = {r->states, num(r, 0), num(r, 0)};
    if (r->own) emit_share(r, body, &first);
    if (!loads_ahead(r)) return;
    emit_inputs(r, ig_s_if(k, body, ig_x_less(k, num(r, 0), ig_x_dim(k, r->time))), num(r, 0));
}

void ig_cuda_recurrent_step(struct ig_recurrence *r, struct ig_stmt *body) {
    struct ig_loops *k = r->k;
    struct ig_recurrence_round all = {.gates = r->gates}, candidate = {.number = 1, .first_gate = 2, .gates = 1};
    ig_x odd = ig_x_mod(k, r->step, num(r, 2));
    struct operand before = {r->states, r->old_at, odd}, after = {r->states, r->new_at, ig_x_sub(k, num(r, 1), odd)};
    struct operand reset = {r->reset, num(r, 0), num(r, 2)};
    if (!loads_ahead(r)) emit_inputs(r, body, r->step);
    if (!ig_recurrence_has_two_rounds(r)) {
        emit_round(r, body, &all, &before, &after);
        return;
    }
    all.gates = 2;
    emit_round(r, body, &all, &before, &reset);
    emit_round(r, body, &candidate, &reset, &after);
}

struct ig_stmt *ig_cuda_recurrent_units(struct ig_recurrence *r, struct ig_stmt *body) {
    ig_x exists = unit_loop(r, &body);
    return ig_s_if(r->k, body, exists);
}
