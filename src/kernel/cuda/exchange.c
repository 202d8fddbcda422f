/*
 * Collectives as kernels of GPUs that reach each other's memory (exchange_block.h, codegen/cuda/exchange.cu). Small ones
 * have a block for each 256 lines, since what takes time then is the way there and back.
 */
#include "kernel/cuda/exchange.h"

#include "kernel/cuda/exchange_block.h"
#include "kernel/lower.h"
#include "kernel/schedules.h"

/* Its symbol, which no model can have: what stands in its place is in the plan (compile/plan_build.c). */
#define NUMBER "the number of the collective"

static bool is_reduced(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F16:
    case INGOT_BF16:
    case INGOT_F32:
    case INGOT_F64:
    case INGOT_I32:
    case INGOT_U32:
    case INGOT_I64:
    case INGOT_U64: return true;
    default: return false;
    }
}

bool ig_exchange_has_kernel(const struct ig_graph *graph, const struct ig_region *region,
                            const struct ig_target *target) {
    const struct ig_node *n = &graph->nodes.at[region->anchor];
    const bool reduces = n->op == IG_OP_all_reduce || n->op == IG_OP_reduce_scatter;
    return ig_target_is_cuda(target) && !ig_is_literal(graph, n->in[0]) &&
           (!reduces || is_reduced(ig_type_of(graph, n->out)->dtype));
}

ig_dim ig_exchange_number(struct ig_dims *dims) {
    return ig_dim_symbol(dims, NUMBER);
}

int ig_exchange_seat(struct ig_loops *loops, const struct ig_graph *graph, const struct ig_region *region) {
    int count = (int)region->outputs.count;
    for (uint32_t i = 0; i < region->inputs.count; i++)
        count += !ig_is_literal(graph, region->inputs.at[i]);
    return ig_loops_param(loops, count, INGOT_U64, true, "seat");
}

struct ig_collective ig_exchange_collective(const struct ig_graph *graph, const struct ig_node *n) {
    static const enum ig_collective_kind kinds[IG_OP_COUNT] = {[IG_OP_all_reduce] = IG_ALL_REDUCE,
                                                               [IG_OP_all_gather] = IG_ALL_GATHER,
                                                               [IG_OP_reduce_scatter] = IG_REDUCE_SCATTER,
                                                               [IG_OP_all_to_all] = IG_ALL_TO_ALL,
                                                               [IG_OP_broadcast_from] = IG_BROADCAST};
    struct ig_collective what = {.kind = kinds[n->op], .dtype = (uint32_t)ig_type_of(graph, n->out)->dtype};
    if (ig_collective_reduces(what.kind)) what.reduction = (uint32_t)ig_attr_int(graph, n, IG_ATTR_reduction);
    if (what.kind == IG_BROADCAST) what.peer = (uint32_t)ig_attr_int(graph, n, IG_ATTR_root);
    return what;
}

uint32_t ig_exchange_sizes(const struct ig_graph *graph, const struct ig_node *n,
                           ig_dim out_sizes[IG_EXCHANGE_MOST_SIZES]) {
    struct ig_dims *dims = graph->dims;
    const struct ig_type type = *ig_type_of(graph, n->in[0]);
    const bool divides = n->op == IG_OP_all_gather || n->op == IG_OP_reduce_scatter;
    ig_dim outer = ig_dim_const(dims, 1), inner = ig_type_elements(dims, &type);
    if (divides) {
        const int axis = (int)ig_attr_int(graph, n, IG_ATTR_axis);
        outer = ig_dim_product(dims, type.dim, axis);
        inner = ig_dim_product(dims, type.dim + axis + 1, type.rank - axis - 1);
    } else if (n->op == IG_OP_all_to_all) {
        inner = ig_dim_product(dims, type.dim + 1, type.rank - 1);
    }
    out_sizes[0] = outer;
    out_sizes[1] = inner;
    const struct ig_attr *parts = divides ? ig_attr(graph, n, IG_ATTR_parts) : NULL;
    const uint32_t ranks = divides ? (uint32_t)parts->count : (uint32_t)ig_attr_int(graph, n, IG_ATTR_ranks);
    for (uint32_t r = 0; r < ranks; r++)
        out_sizes[2 + r] = parts ? parts->dims[r] : ig_dim_const(dims, 0);
    return 2 + ranks;
}

/* The elements of the longest message. */
static ig_dim longest(struct ig_dims *dims, const struct ig_cuda_exchange *e, const ig_dim *sizes) {
    ig_dim length = ig_dim_mul(dims, sizes[0], sizes[1]), most = ig_dim_const(dims, 0);
    if (!ig_collective_divides(e->kind)) return length;
    for (uint32_t r = 0; r < e->ranks; r++)
        most = ig_dim_max(dims, most, sizes[2 + r]);
    return ig_dim_mul(dims, length, most);
}

/* Is what lies together of each part a multiple of `unit` elements? */
static bool is_even(struct ig_dims *dims, const struct ig_cuda_exchange *e, const ig_dim *sizes, ig_dim unit) {
    if (e->kind == IG_ALL_TO_ALL) return ig_dim_divides(dims, unit, sizes[1]);
    for (uint32_t r = 0; r < e->ranks && ig_collective_divides(e->kind); r++)
        if (!ig_dim_divides(dims, unit, ig_dim_mul(dims, sizes[2 + r], sizes[1]))) return false;
    return true;
}

static void emit(struct ig_kernel *kernel, const struct ig_graph *graph, const struct ig_region *region,
                 const ig_dim *sizes, uint32_t n_sizes) {
    struct ig_loops *k = kernel->loops;
    struct ig_call_arg args[4 + IG_EXCHANGE_MOST_SIZES];
    ig_x tile, zero = ig_x_index(k, 0);
    ig_loops_dim(k, ig_exchange_number(k->dims)); /* the first of all, where the runtime finds it */
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, zero, ig_x_dim(k, kernel->tiles), ig_x_index(k, 1), &tile);
    const int seat = ig_exchange_seat(k, graph, region);
    args[0] = (struct ig_call_arg){0, zero};
    args[1] = (struct ig_call_arg){1, zero};
    args[2] = (struct ig_call_arg){seat, zero};
    args[3] = (struct ig_call_arg){-1, ig_x_dim(k, ig_exchange_number(k->dims))};
    for (uint32_t i = 0; i < n_sizes; i++)
        args[4 + i] = (struct ig_call_arg){-1, ig_x_dim(k, sizes[i])};
    ig_s_call(k, body, "exchange::run", args, (int)(4 + n_sizes));
}

/* Measured on two H200 (bench/results/ranks/2026-11-28-exchanges.md): words with epochs beside them, and long messages. */
double ig_exchange_time(double bytes, uint32_t ranks) {
    const double others = (double)ranks - 1;
    const double start = bytes <= IG_WINDOW_SHORT ? 2.95 : 3.6, rate = bytes <= IG_WINDOW_SHORT ? 150e3 : 212e3;
    return start + others - 1 + others * bytes / rate;
}

struct problem {
    uint32_t ranks;
    double size; /* of an element */
};

static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    const struct problem *p = kernel->model.problem;
    return ig_exchange_time((double)sizes[0] * p->size, p->ranks);
}

static void make_model(struct ig_kernel *kernel, struct ig_job *job, struct ig_dims *dims, ig_dim elements) {
    const struct ig_cuda_exchange *e = kernel->exchange;
    struct problem *p = IG_NEW(job, struct problem);
    ig_dim one = ig_dim_const(dims, 1);
    *p = (struct problem){e->ranks, (double)ingot_dtype_size(e->dtype)};
    kernel->model = (struct ig_kernel_model){{elements, one, one, one}, p, cost};
}

struct ig_kernel *ig_kernel_exchange_cuda(struct ig_graph *graph, const struct ig_region *region,
                                          const struct ig_target *target, const struct ig_sizes *at) {
    if (region->nodes.count > 1) return ig_kernel_exchange_row_cuda(graph, region, target, at);
    const struct ig_node n = graph->nodes.at[region->anchor];
    const struct ig_collective what = ig_exchange_collective(graph, &n);
    struct ig_dims *dims = graph->dims;
    struct ig_kernel *kernel = IG_NEW(graph->job, struct ig_kernel);
    struct ig_cuda_exchange *e = IG_NEW(graph->job, struct ig_cuda_exchange);
    ig_dim sizes[IG_EXCHANGE_MOST_SIZES];
    const uint32_t n_sizes = ig_exchange_sizes(graph, &n, sizes);
    const ig_dim unit = ig_dim_const(dims, 8 / (int64_t)ingot_dtype_size((enum ingot_dtype)what.dtype)),
                 one = ig_dim_const(dims, 1);
    *e = (struct ig_cuda_exchange){.kind = (enum ig_collective_kind)what.kind,
                                   .reduction = (enum ig_reduction)what.reduction,
                                   .dtype = (enum ingot_dtype)what.dtype,
                                   .ranks = n_sizes - 2,
                                   .root = what.peer};
    e->early = ig_target_has_early_start(target);
    e->even = is_even(dims, e, sizes, ig_dim_mul(dims, unit, ig_dim_const(dims, 2))) ? 16
              : is_even(dims, e, sizes, unit)                                        ? 8
                                                                                     : 0;
    kernel->exchange = e;
    kernel->loops = ig_loops_create(graph->job, dims);
    make_model(kernel, graph->job, dims, longest(dims, e, sizes));
    ig_dim lines = ig_dim_ceil_div(dims, longest(dims, e, sizes), unit);
    ig_dim blocks = ig_dim_ceil_div(dims, lines, ig_dim_const(dims, IG_WINDOW_THREADS));
    kernel->tiles = ig_dim_min(dims, ig_dim_max(dims, blocks, one), ig_dim_const(dims, IG_WINDOW_HEADERS));
    kernel->threads = IG_WINDOW_THREADS;
    kernel->work = lines;
    kernel->tactic = ig_format(graph->job, "%s through windows of %u GPUs", ig_collective_name(what.kind), e->ranks);
    struct ig_lower lower;
    ig_lower_init(&lower, kernel->loops, graph, region);
    emit(kernel, graph, region, sizes, n_sizes);
    return kernel;
}
