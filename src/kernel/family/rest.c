/*
 * The rest family: top-k here, scatters in rest_scatter.c.
 *
 * Top-k: a tile is one row along the axis; a micro-kernel (micro.h) selects.
 */
#include "kernel/family/rest.h"

#include "kernel/lower.h"
#include "kernel/schedules.h"

struct topk {
    struct ig_graph *graph;
    const struct ig_region *region;
    struct ig_kernel *kernel;
    struct ig_loops *k;
    struct ig_lower lower;
    struct ig_node node;
    ig_dim outer, n, inner, best; /* elements before, along and behind the axis; the number of results */
    int keys;
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

static int key_bytes(struct topk *t, enum ingot_dtype dtype) {
    int64_t lo, hi;
    ig_dim_range(t->k->dims, t->n, &lo, &hi);
    return ingot_dtype_size(dtype) == 8 || hi > UINT32_MAX ? 16 : 8;
}

static void emit(struct topk *t) {
    struct ig_dims *dims = t->k->dims;
    enum ingot_dtype dtype = ig_type_of(t->graph, t->node.in[0])->dtype;
    struct ig_micro micro = {.kind = IG_MICRO_TOPK, .name = "topk", .dtype = dtype, .key_bytes = key_bytes(t, dtype)};
    micro.largest = ig_attr_int(t->graph, &t->node, IG_ATTR_largest) != 0;
    ig_x tile;
    t->kernel->tiles = ig_dim_mul(dims, t->outer, t->inner);
    struct ig_stmt *body = ig_s_for(t->k, NULL, IG_FOR_TILE, num(t, 0), dim(t, t->kernel->tiles), num(t, 1), &tile);
    ig_s_name(t->k, tile, "row");
    if (ig_is_literal(t->graph, t->node.in[0])) {
        emit_literal(t, body);
        return;
    }
    t->kernel->scratch_bytes = ig_dim_mul(dims, t->best, ig_dim_const(dims, micro.key_bytes));
    t->keys = ig_loops_scratch(t->k, INGOT_U64, num(t, 0), "keys");
    IG_PUSH(t->graph->job, &t->kernel->micros, micro);
    emit_row(t, body, tile);
}

static struct ig_kernel *topk_kernel(struct ig_graph *graph, const struct ig_region *region) {
    struct topk t = {.graph = graph, .region = region, .kernel = IG_NEW(graph->job, struct ig_kernel)};
    t.node = graph->nodes.at[region->anchor];
    t.k = t.kernel->loops = ig_loops_create(graph->job, graph->dims);
    ig_lower_init(&t.lower, t.k, graph, region);
    init(&t);
    emit(&t);
    t.kernel->tactic = "top-k, a heap a row";
    struct ig_dims *dims = graph->dims;
    ig_dim each = ig_dim_add(dims, t.n, ig_dim_mul(dims, t.best, ig_dim_const(dims, 8)));
    t.kernel->work = ig_dim_mul(dims, t.kernel->tiles, each);
    return t.kernel;
}

struct ig_kernel *ig_kernel_rest(struct ig_graph *graph, const struct ig_region *region, const struct ig_target *target,
                                 const struct ig_sizes *at) {
    switch (graph->nodes.at[region->anchor].op) {
    case IG_OP_topk: return topk_kernel(graph, region);
    case IG_OP_scatter_elements:
    case IG_OP_scatter_nd: return ig_kernel_scatter(graph, region, target);
    default:
        ig_raise(graph->job, INGOT_INTERNAL, "no kernel for %s", ig_op_info(graph->nodes.at[region->anchor].op)->name);
    }
}
