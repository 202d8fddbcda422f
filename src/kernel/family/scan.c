/*
 * Scans: running sums and products here, recurrences in scan_recurrent.c.
 *
 * A running total walks along its axis one element after the other. If the axis is not innermost, a tile is a chunk of
 * the inner elements with one total each, and every step is a vector loop; otherwise a tile is a row with one total.
 * Floats are accumulated as doubles, so that long rows stay as exact as short ones.
 *
 * On GPUs, many or short totals take one thread each. Few long ones take a block each: every thread sums its share of
 * the row, adds the sums of the shares before it, and walks its share once more.
 */
#include "kernel/family/scan.h"

#include "kernel/lower.h"
#include "kernel/schedules.h"

enum {
    CHUNK = 128,
    THREADS = 256,  /* GPUs: threads per block */
    MANY = 2048,    /* totals that keep a GPU busy with one thread each */
    SHORT_ROW = 64, /* steps that one thread sums faster than a block can synchronise */
};

struct cumulation {
    struct ig_graph *graph;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_node node;
    enum ingot_dtype dtype; /* accumulator type */
    struct ig_type type;    /* of the input and the output */
    ig_dim outer, n, inner; /* elements before, along and behind the axis */
    enum ig_op op;
    bool exclusive, reverse;
    int out;
};

static ig_x num(struct cumulation *c, int64_t i) {
    return ig_x_index(c->k, i);
}

static ig_x dim(struct cumulation *c, ig_dim d) {
    return ig_x_dim(c->k, d);
}

static ig_x neutral(struct cumulation *c) {
    int64_t value = c->op == IG_OP_mul;
    return ig_dtype_is_float(c->dtype) ? ig_x_float(c->k, c->dtype, (double)value) : ig_x_int(c->k, c->dtype, value);
}

static void init(struct cumulation *c) {
    struct ig_dims *dims = c->k->dims;
    c->type = *ig_type_of(c->graph, c->node.in[0]);
    int axis = (int)ig_attr_int(c->graph, &c->node, IG_ATTR_axis);
    c->outer = ig_dim_product(dims, c->type.dim, axis);
    c->n = c->type.dim[axis];
    c->inner = ig_dim_product(dims, c->type.dim + axis + 1, c->type.rank - axis - 1);
    c->dtype = ig_dtype_is_float(c->type.dtype) ? INGOT_F64 : ig_dtype_compute(c->type.dtype);
    c->op = c->node.op == IG_OP_cumprod ? IG_OP_mul : IG_OP_add;
    c->exclusive = ig_attr_int(c->graph, &c->node, IG_ATTR_exclusive) != 0;
    c->reverse = ig_attr_int(c->graph, &c->node, IG_ATTR_reverse) != 0;
    c->out = c->lower.buffer_of[c->node.out];
}

/* The offset of the element of step `step`. */
static ig_x position(struct cumulation *c, ig_x outer, ig_x step, ig_x inner) {
    struct ig_loops *k = c->k;
    if (c->reverse) step = ig_x_sub(k, ig_x_sub(k, dim(c, c->n), num(c, 1)), step);
    ig_x row = ig_x_add(k, ig_x_mul(k, outer, dim(c, c->n)), step);
    return ig_x_add(k, ig_x_mul(k, row, dim(c, c->inner)), inner);
}

static ig_x element(struct cumulation *c, ig_x at) {
    ig_x index[INGOT_MAX_RANK], x;
    if (ig_is_literal(c->graph, c->node.in[0])) {
        for (int i = 0; i < c->type.rank; i++)
            index[i] = num(c, 0);
        x = ig_lower_value(&c->lower, c->node.in[0], index);
    } else {
        x = ig_x_load(c->k, c->lower.buffer_of[c->node.in[0]], at);
    }
    return ig_x_cast(c->k, x, c->dtype, false);
}

static ig_x stored(struct cumulation *c, ig_x total) {
    return ig_x_cast(c->k, total, c->type.dtype, false);
}

static struct ig_stmt *tile_loop(struct cumulation *c, ig_dim tiles, ig_x *out_tile) {
    c->kernel->tiles = tiles;
    return ig_s_for(c->k, NULL, IG_FOR_TILE, num(c, 0), dim(c, tiles), num(c, 1), out_tile);
}

static void emit_rows(struct cumulation *c) {
    struct ig_loops *k = c->k;
    ig_x row, step;
    struct ig_stmt *body = tile_loop(c, c->outer, &row);
    ig_s_name(k, row, "row");
    int total = ig_s_acc(k, body, c->dtype, neutral(c));
    body = ig_s_for(k, body, IG_FOR_SERIAL, num(c, 0), dim(c, c->n), num(c, 1), &step);
    ig_x at = position(c, row, step, num(c, 0));
    if (c->exclusive) {
        ig_s_store(k, body, c->out, at, stored(c, ig_x_acc(k, total, c->dtype)));
        ig_s_update(k, body, total, c->op, element(c, at));
        return;
    }
    ig_s_update(k, body, total, c->op, element(c, at));
    ig_s_store(k, body, c->out, at, stored(c, ig_x_acc(k, total, c->dtype)));
}

static void emit_chunks(struct cumulation *c) {
    struct ig_loops *k = c->k;
    ig_dim chunks = ig_dim_ceil_div(k->dims, c->inner, ig_dim_const(k->dims, CHUNK));
    int totals = ig_loops_local(k, c->dtype, CHUNK, "totals");
    ig_x tile, step, lane;
    struct ig_stmt *body = tile_loop(c, ig_dim_mul(k->dims, c->outer, chunks), &tile);
    ig_x outer = ig_x_div(k, tile, dim(c, chunks));
    ig_x first = ig_x_mul(k, ig_x_mod(k, tile, dim(c, chunks)), num(c, CHUNK));
    ig_x lanes = ig_x_min(k, num(c, CHUNK), ig_x_sub(k, dim(c, c->inner), first));
    struct ig_stmt *clear = ig_s_for(k, body, IG_FOR_SIMD, num(c, 0), lanes, num(c, 1), &lane);
    ig_s_store(k, clear, totals, lane, neutral(c));
    body = ig_s_for(k, body, IG_FOR_SERIAL, num(c, 0), dim(c, c->n), num(c, 1), &step);
    body = ig_s_for(k, body, IG_FOR_SIMD, num(c, 0), lanes, num(c, 1), &lane);
    ig_x at = position(c, outer, step, ig_x_add(k, first, lane)), before = ig_x_load(k, totals, lane);
    ig_x after = ig_x_map2(k, c->op, before, element(c, at));
    if (c->exclusive) {
        ig_s_store(k, body, c->out, at, stored(c, before));
        ig_s_store(k, body, totals, lane, after);
    } else {
        ig_s_store(k, body, totals, lane, after);
        ig_s_store(k, body, c->out, at, stored(c, ig_x_load(k, totals, lane)));
    }
}

/* ---- GPUs -------------------------------------------------------------------------------------------------------- */

/* Accumulates steps lo … hi-1, starting from `initial`; stores the running totals if `out`. Returns the total. */
static ig_x emit_steps(struct cumulation *c, struct ig_stmt *body, ig_x outer, ig_x inner, ig_x lo, ig_x hi,
                       ig_x initial, bool out) {
    struct ig_loops *k = c->k;
    ig_x step;
    int acc = ig_s_acc(k, body, c->dtype, initial);
    ig_x total = ig_x_acc(k, acc, c->dtype);
    struct ig_stmt *steps = ig_s_for(k, body, IG_FOR_SERIAL, lo, hi, num(c, 1), &step);
    ig_x at = position(c, outer, step, inner);
    if (out && c->exclusive) ig_s_store(k, steps, c->out, at, stored(c, total));
    ig_s_update(k, steps, acc, c->op, element(c, at));
    if (out && !c->exclusive) ig_s_store(k, steps, c->out, at, stored(c, total));
    return total;
}

static void emit_threads(struct cumulation *c) {
    struct ig_loops *k = c->k;
    ig_dim totals = ig_dim_mul(k->dims, c->outer, c->inner);
    ig_x tile, thread;
    struct ig_stmt *body = tile_loop(c, ig_dim_ceil_div(k->dims, totals, ig_dim_const(k->dims, CHUNK)), &tile);
    body = ig_s_for(k, body, IG_FOR_SIMD, num(c, 0), num(c, CHUNK), num(c, 1), &thread);
    ig_x number = ig_x_add(k, ig_x_mul(k, tile, num(c, CHUNK)), thread);
    body = ig_s_if(k, body, ig_x_less(k, number, dim(c, totals)));
    ig_x outer = ig_x_div(k, number, dim(c, c->inner)), inner = ig_x_mod(k, number, dim(c, c->inner));
    emit_steps(c, body, outer, inner, num(c, 0), dim(c, c->n), neutral(c), true);
    c->kernel->threads = CHUNK;
    c->kernel->tactic = "running totals, a thread each";
}

static void emit_blocks(struct cumulation *c) {
    struct ig_loops *k = c->k;
    ig_x share = dim(c, ig_dim_ceil_div(k->dims, c->n, ig_dim_const(k->dims, THREADS))), tile, thread, before;
    int sums = ig_loops_local(k, c->dtype, THREADS, "sums");
    struct ig_stmt *body = tile_loop(c, ig_dim_mul(k->dims, c->outer, c->inner), &tile);
    ig_x outer = ig_x_div(k, tile, dim(c, c->inner)), inner = ig_x_mod(k, tile, dim(c, c->inner));
    for (int round = 0; round < 2; round++) {
        struct ig_stmt *threads = ig_s_for(k, body, IG_FOR_SIMD, num(c, 0), num(c, THREADS), num(c, 1), &thread);
        ig_x lo = ig_x_mul(k, thread, share), hi = ig_x_min(k, ig_x_add(k, lo, share), dim(c, c->n));
        if (round == 0) {
            ig_s_store(k, threads, sums, thread, emit_steps(c, threads, outer, inner, lo, hi, neutral(c), false));
            continue;
        }
        int acc = ig_s_acc(k, threads, c->dtype, neutral(c));
        struct ig_stmt *all = ig_s_for(k, threads, IG_FOR_SERIAL, num(c, 0), thread, num(c, 1), &before);
        ig_s_update(k, all, acc, c->op, ig_x_load(k, sums, before));
        emit_steps(c, threads, outer, inner, lo, hi, ig_x_acc(k, acc, c->dtype), true);
    }
    c->kernel->threads = THREADS;
    c->kernel->tactic = "running totals, a block each";
}

static void emit_cuda(struct cumulation *c) {
    int64_t totals, n;
    bool many = ig_dim_is_const(c->k->dims, ig_dim_mul(c->k->dims, c->outer, c->inner), &totals) && totals >= MANY;
    if (many || (ig_dim_is_const(c->k->dims, c->n, &n) && n <= SHORT_ROW)) {
        emit_threads(c);
    } else {
        emit_blocks(c);
    }
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

static struct ig_kernel *cumulate(struct ig_graph *graph, const struct ig_region *region,
                                  const struct ig_target *target) {
    struct cumulation c = {.graph = graph, .kernel = IG_NEW(graph->job, struct ig_kernel)};
    c.node = graph->nodes.at[region->anchor];
    c.k = c.kernel->loops = ig_loops_create(graph->job, graph->dims);
    ig_lower_init(&c.lower, c.k, graph, region);
    init(&c);
    int64_t inner;
    bool rows = ig_dim_is_const(graph->dims, c.inner, &inner) && inner == 1;
    if (ig_target_is_cuda(target)) {
        emit_cuda(&c);
    } else if (rows) {
        emit_rows(&c);
    } else {
        emit_chunks(&c);
    }
    if (!c.kernel->tactic)
        c.kernel->tactic = rows ? "running total, a row at a time" : "running totals, vectors behind the axis";
    ig_dim lanes = ig_dim_const(graph->dims, rows ? 1 : ig_micro_lanes(target, c.dtype));
    c.kernel->work = ig_dim_ceil_div(graph->dims, ig_type_elements(graph->dims, &c.type), lanes);
    return c.kernel;
}

struct ig_kernel *ig_kernel_scan(struct ig_graph *graph, const struct ig_region *region, const struct ig_target *target,
                                 const struct ig_sizes *at) {
    enum ig_op op = graph->nodes.at[region->anchor].op;
    if (op == IG_OP_cumsum || op == IG_OP_cumprod) return cumulate(graph, region, target);
    return ig_kernel_recurrent(graph, region, target, at);
}
