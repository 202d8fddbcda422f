/*
 * The rest family: top-k here, scatters in rest_scatter.c.
 *
 * Top-k: a tile is one row along the axis; a micro-kernel (micro.h) selects. On GPUs it is a row of each warp of the
 * block, if rows are many or short.
 */
#include "kernel/family/rest.h"

#include "kernel/lower.h"
#include "kernel/schedules.h"

enum {
    WARP = 32,
    TEAM_THREADS = 256,  /* per block, if warps do rows */
    TEAM_KEPT = 128,     /* results in shared memory for each row */
    BLOCK_BYTES = 16384, /* of keys in shared memory for a block's row */
    SHORT = 256,         /* elements per row, for which a warp is enough */
    FEW = 1024,          /* for which four are */
    MIDDLE = 4096,       /* for which it is, if there are many rows */
    LONG = 16384,        /* from which a block shall have all its threads */
    MANY_ROWS = 16 * IG_CUDA_PROCESSORS,
};

struct topk {
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_node node;
    ig_dim outer, n, inner, best; /* elements before, along and behind the axis; the number of results */
    ig_dim rows;
    int keys; /* a buffer; -1: none */
};

static ig_x num(struct topk *t, int64_t i) {
    return ig_x_index(t->k, i);
}

static ig_x dim(struct topk *t, ig_dim d) {
    return ig_x_dim(t->k, d);
}

static void init(struct topk *t) {
    struct ig_dims *dims = t->k->dims;
    const struct ig_type *x = ig_type_of(t->graph, t->node.in[0]);
    int64_t axis = ig_attr_int(t->graph, &t->node, IG_ATTR_axis);
    t->outer = ig_dim_product(dims, x->dim, (int)axis);
    t->n = x->dim[axis];
    t->inner = ig_dim_product(dims, x->dim + axis + 1, x->rank - (int)axis - 1);
    t->best = ig_attr(t->graph, &t->node, IG_ATTR_k)->dim;
    t->rows = ig_dim_mul(dims, t->outer, t->inner);
}

/* A row of one literal element: the result is known. */
static void emit_literal(struct topk *t, struct ig_stmt *body) {
    const struct ig_type *x = ig_type_of(t->graph, t->node.in[0]);
    ig_x index[INGOT_MAX_RANK], j;
    for (int i = 0; i < x->rank; i++)
        index[i] = num(t, 0);
    ig_x value = ig_lower_value(&t->lower, t->node.in[0], index);
    int values = t->lower.buffer_of[t->node.out], indices = t->lower.buffer_of[t->node.out + 1];
    body = ig_s_for(t->k, body, IG_FOR_SERIAL, num(t, 0), dim(t, t->best), num(t, 1), &j);
    if (values >= 0) ig_s_store(t->k, body, values, j, value);
    if (indices >= 0) ig_s_store(t->k, body, indices, j, num(t, 0));
}

/* The address of element `at` of an output; null if the output is unused. */
static struct ig_call_arg out_arg(struct topk *t, ig_value v, ig_x at) {
    int buffer = t->lower.buffer_of[v];
    return (struct ig_call_arg){buffer, buffer < 0 ? num(t, 0) : at};
}

static void emit_row(struct topk *t, struct ig_stmt *body, ig_x tile) {
    struct ig_loops *k = t->k;
    ig_x outer = ig_x_div(k, tile, dim(t, t->inner)), inner = ig_x_mod(k, tile, dim(t, t->inner));
    ig_dim in_step = ig_dim_mul(k->dims, t->n, t->inner), out_step = ig_dim_mul(k->dims, t->best, t->inner);
    ig_x from = ig_x_add(k, ig_x_mul(k, outer, dim(t, in_step)), inner);
    ig_x to = ig_x_add(k, ig_x_mul(k, outer, dim(t, out_step)), inner);
    struct ig_call_arg args[] = {{t->lower.buffer_of[t->node.in[0]], from},
                                 {-1, dim(t, t->inner)},
                                 {-1, dim(t, t->n)},
                                 out_arg(t, t->node.out, to),
                                 out_arg(t, t->node.out + 1, to),
                                 {-1, dim(t, t->inner)},
                                 {-1, dim(t, t->best)},
                                 {t->keys, num(t, 0)}};
    ig_s_call(k, body, "topk", args, 8);
}

static int64_t most(struct topk *t, ig_dim d) {
    int64_t lo, hi;
    ig_dim_range(t->k->dims, d, &lo, &hi);
    return hi;
}

static int key_bytes(struct topk *t, enum ingot_dtype dtype) {
    return ingot_dtype_size(dtype) == 8 || most(t, t->n) > UINT32_MAX ? 16 : 8;
}

/* GPUs: who does a row, and how many of its results fit in shared memory. */
static void choose_team(struct topk *t, struct ig_micro *micro, const struct ig_sizes *at) {
    int64_t n = ig_sizes_guess(at, t->n), rows = ig_sizes_guess(at, t->rows);
    if (most(t, t->best) <= TEAM_KEPT && (n <= SHORT || (n <= MIDDLE && rows >= MANY_ROWS))) {
        t->kernel->threads = TEAM_THREADS;
        micro->team = WARP;
        micro->kept = TEAM_KEPT;
        return;
    }
    micro->team = t->kernel->threads = n <= FEW ? 128 : n < MIDDLE ? 256 : n < LONG ? 512 : 1024;
    micro->kept = BLOCK_BYTES / micro->key_bytes;
}

/* The tile loop; on GPUs, the loop over the rows of a tile inside it, if warps do them. */
static struct ig_stmt *row_loop(struct topk *t, const struct ig_micro *micro, ig_x *out_row) {
    struct ig_dims *dims = t->k->dims;
    int64_t each = micro->team == WARP ? TEAM_THREADS / WARP : 1;
    t->kernel->tiles = ig_dim_ceil_div(dims, t->rows, ig_dim_const(dims, each));
    struct ig_stmt *body = ig_s_for(t->k, NULL, IG_FOR_TILE, num(t, 0), dim(t, t->kernel->tiles), num(t, 1), out_row);
    ig_s_name(t->k, *out_row, each > 1 ? "tile" : "row");
    if (each == 1) return body;
    ig_x first = ig_x_mul(t->k, *out_row, num(t, each));
    ig_x end = ig_x_min(t->k, ig_x_add(t->k, first, num(t, each)), dim(t, t->rows));
    body = ig_s_for(t->k, body, IG_FOR_TEAM, first, end, num(t, 1), out_row);
    body->lanes = WARP;
    ig_s_name(t->k, *out_row, "row");
    return body;
}

static void emit(struct topk *t, const struct ig_target *target, const struct ig_sizes *at) {
    struct ig_dims *dims = t->k->dims;
    enum ingot_dtype dtype = ig_type_of(t->graph, t->node.in[0])->dtype;
    struct ig_micro micro = {.kind = IG_MICRO_TOPK, .name = "topk", .dtype = dtype, .key_bytes = key_bytes(t, dtype)};
    micro.largest = ig_attr_int(t->graph, &t->node, IG_ATTR_largest) != 0;
    bool literal = ig_is_literal(t->graph, t->node.in[0]);
    if (ig_target_is_cuda(target) && !literal) choose_team(t, &micro, at);
    ig_x row;
    struct ig_stmt *body = row_loop(t, &micro, &row);
    if (literal) {
        emit_literal(t, body);
        return;
    }
    t->kernel->scratch_bytes = ig_dim_const(dims, 0);
    if (most(t, t->best) > micro.kept) {
        t->kernel->scratch_bytes = ig_dim_mul(dims, t->best, ig_dim_const(dims, micro.key_bytes));
        t->keys = ig_loops_scratch(t->k, INGOT_U64, num(t, 0), "keys");
    }
    IG_PUSH(t->graph->job, &t->kernel->micros, micro);
    emit_row(t, body, row);
    t->kernel->tactic = !micro.team ? "top-k, a heap or list a row"
                                    : ig_format(t->graph->job, "top-k, %s a row, %d threads",
                                                micro.team == WARP ? "a warp" : "a block", t->kernel->threads);
}

static struct ig_kernel *topk_kernel(struct ig_graph *graph, const struct ig_region *region,
                                     const struct ig_target *target, const struct ig_sizes *at) {
    struct topk t = {.graph = graph, .region = region, .kernel = IG_NEW(graph->job, struct ig_kernel), .keys = -1};
    t.node = graph->nodes.at[region->anchor];
    t.k = t.kernel->loops = ig_loops_create(graph->job, graph->dims);
    ig_lower_init(&t.lower, t.k, graph, region);
    init(&t);
    t.kernel->tactic = "top-k of a literal";
    emit(&t, target, at);
    struct ig_dims *dims = graph->dims;
    ig_dim each = ig_dim_add(dims, t.n, ig_dim_mul(dims, t.best, ig_dim_const(dims, 8)));
    t.kernel->work = ig_dim_mul(dims, t.rows, each);
    return t.kernel;
}

struct ig_kernel *ig_kernel_rest(struct ig_graph *graph, const struct ig_region *region, const struct ig_target *target,
                                 const struct ig_sizes *at) {
    switch (graph->nodes.at[region->anchor].op) {
    case IG_OP_topk: return topk_kernel(graph, region, target, at);
    case IG_OP_scatter_elements:
    case IG_OP_scatter_nd: return ig_kernel_scatter(graph, region, target);
    default:
        ig_raise(graph->job, INGOT_INTERNAL, "no kernel for %s", ig_op_info(graph->nodes.at[region->anchor].op)->name);
    }
}
