/*
 * Scans: running sums and products here, recurrences in scan_recurrent.c.
 *
 * A running total walks along its axis one element after the other. Where elements lie behind the axis, a tile is a
 * chunk of these with a total each, and every step is a vector loop; otherwise a tile is a row with one total. Floats
 * are summed as doubles, so that long rows stay as exact as short ones.
 */
#include "kernel/scan.h"

#include "kernel/lower.h"

enum { CHUNK = 128 };

struct cumulation {
    struct ig_graph *graph;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_node node;
    enum ingot_dtype dtype; /* of the totals */
    struct ig_type type;    /* of the input and the output */
    ig_dim outer, n, inner; /* elements before the axis, along it, behind it */
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

/* The position of step `step` along the axis. */
static ig_x position(struct cumulation *c, ig_x outer, ig_x step, ig_x inner) {
    struct ig_loops *k = c->k;
    if (c->reverse) step = ig_x_sub(k, ig_x_sub(k, dim(c, c->n), num(c, 1)), step);
    ig_x row = ig_x_add(k, ig_x_mul(k, outer, dim(c, c->n)), step);
    return ig_x_add(k, ig_x_mul(k, row, dim(c, c->inner)), inner);
}

static ig_x element(struct cumulation *c, ig_x at) {
    ig_x index[INGOT_MAX_RANK], x;
    if (ig_lower_is_literal(c->graph, c->node.in[0])) {
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

static struct ig_kernel *cumulate(struct ig_graph *graph, const struct ig_region *region,
                                  const struct ig_target *target) {
    struct cumulation c = {.graph = graph, .kernel = IG_NEW(graph->job, struct ig_kernel)};
    c.node = graph->nodes.at[region->anchor];
    c.k = c.kernel->loops = ig_loops_create(graph->job, graph->dims);
    ig_lower_init(&c.lower, c.k, graph, region);
    init(&c);
    int64_t inner;
    bool rows = ig_dim_is_const(graph->dims, c.inner, &inner) && inner == 1;
    if (rows) {
        emit_rows(&c);
    } else {
        emit_chunks(&c);
    }
    c.kernel->tactic = rows ? "running total, a row at a time" : "running totals, vectors behind the axis";
    ig_dim lanes = ig_dim_const(graph->dims, rows ? 1 : ig_micro_lanes(target, c.dtype));
    c.kernel->work = ig_dim_ceil_div(graph->dims, ig_type_elements(graph->dims, &c.type), lanes);
    return c.kernel;
}

struct ig_kernel *ig_kernel_scan(struct ig_graph *graph, const struct ig_region *region,
                                 const struct ig_target *target) {
    enum ig_op op = graph->nodes.at[region->anchor].op;
    if (op == IG_OP_cumsum || op == IG_OP_cumprod) return cumulate(graph, region, target);
    return ig_kernel_recurrent(graph, region, target);
}
