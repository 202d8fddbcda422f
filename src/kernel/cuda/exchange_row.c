/*
 * An all-reduce together with what follows it: elementwise operators and reductions of the rows of its result, as the residual
 * and the norm in a decoder that is divided by tensors. A block for each row sends its rank's row, loads the other operands
 * while the others' rows are on their way, adds these up, and goes on as the schedule of rows does (row.c). Between the two
 * kernels that this replaces the result would go to memory and back, and another kernel would start.
 */
#include <math.h>

#include "kernel/cuda/exchange.h"
#include "kernel/cuda/exchange_block.h"
#include "kernel/cuda/row.h"
#include "kernel/schedules.h"

enum { LEAST_THREADS = 128, MOST_THREADS = 1024, MOST_BYTES = 32 << 10 /* of a row */, LINE = 8 /* bytes of data */ };

struct joined {
    struct ig_graph *g;
    const struct ig_region *region;
    const struct ig_node *collective;
    ig_value value; /* the reduced one, perhaps reshaped, as the rest of the region reads it */
    bool stored;    /* others read it too */
    struct ig_row row;
    int64_t elements, bytes; /* of a row */
    ig_dim rows, lines;
};

/* ---- What has such a kernel -------------------------------------------------------------------------------------- */

/* The only node of the region that reads v; NULL: none, or several. */
static const struct ig_node *only_reader(const struct joined *j, ig_value v) {
    const struct ig_node *reader = NULL;
    for (uint32_t i = 0; i < j->region->nodes.count; i++) {
        const struct ig_node *n = &j->g->nodes.at[j->region->nodes.at[i]];
        for (uint32_t k = 0; k < n->n_in; k++) {
            if (n->in[k] != v) continue;
            if (reader && reader != n) return NULL;
            reader = n;
        }
    }
    return reader;
}

/* From the reduced value through reshapes to one of the rows' shape. */
static bool find_value(struct joined *j) {
    j->value = j->collective->out;
    while (!ig_row_is_space_shape(&j->row, ig_type_of(j->g, j->value))) {
        const struct ig_node *reader = only_reader(j, j->value);
        if (!reader || reader->op != IG_OP_reshape) return false;
        j->value = reader->out;
    }
    return true;
}

/* Is the value read where it is needed alone: each element for itself, or reduced? */
static bool is_read_plainly(const struct joined *j) {
    for (uint32_t i = 0; i < j->region->nodes.count; i++) {
        const struct ig_node *n = &j->g->nodes.at[j->region->nodes.at[i]];
        bool reads = false;
        for (uint32_t k = 0; k < n->n_in; k++)
            reads = reads || n->in[k] == j->value;
        if (!reads || ig_row_is_reduction(n)) continue;
        if (ig_op_info(n->op)->family != IG_FAMILY_MAP) return false;
        if (!ig_row_is_space_shape(&j->row, ig_type_of(j->g, n->out))) return false;
    }
    return true;
}

/* Do rows lie one behind the other? */
static bool are_rows_together(const struct joined *j) {
    bool inside = false;
    int64_t n;
    for (int d = 0; d < j->row.space.rank; d++) {
        if (ig_dim_is_const(j->g->dims, j->row.space.dim[d], &n) && n == 1) continue;
        if (inside && !j->row.reduced[d]) return false;
        inside = j->row.reduced[d];
    }
    return inside;
}

/* May there be so few that the kernel can run? The runtime looks whether there are (runtime/frame/collective.c). */
static bool may_fit(const struct joined *j) {
    int64_t lo, hi;
    ig_dim_range(j->g->dims, j->rows, &lo, &hi);
    return lo <= IG_WINDOW_HEADERS && lo * ((j->bytes + LINE - 1) / LINE) <= IG_WINDOW_SHORT_LINES;
}

static bool is_float(enum ingot_dtype dtype) {
    return dtype == INGOT_F16 || dtype == INGOT_BF16 || dtype == INGOT_F32;
}

static bool measure(struct joined *j) {
    struct ig_row *r = &j->row;
    struct ig_dims *dims = j->g->dims;
    const enum ingot_dtype dtype = ig_type_of(j->g, j->collective->out)->dtype;
    if (j->collective->op != IG_OP_all_reduce || !is_float(dtype)) return false;
    if (!r->regular || r->columns || !ig_dim_is_const(dims, r->count, &j->elements)) return false;
    j->bytes = j->elements * (int64_t)ingot_dtype_size(dtype);
    j->rows = ig_row_results(r);
    j->lines = ig_dim_mul(dims, j->rows, ig_dim_const(dims, (j->bytes + LINE - 1) / LINE));
    return j->elements >= 2 && j->bytes <= MOST_BYTES && may_fit(j) && are_rows_together(j) && find_value(j) &&
           is_read_plainly(j);
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

/* Two lines for each, which are what a thread of the rest loads at once. */
static int threads_for(int64_t bytes) {
    int64_t threads = (bytes + 16 * 32 - 1) / (16 * 32) * 32;
    return (int)(threads < LEAST_THREADS ? LEAST_THREADS : threads > MOST_THREADS ? MOST_THREADS : threads);
}

/* The rest of the region: the reduced value is not its to store. */
static void leave_value_out(struct joined *j) {
    struct ig_region *rest = ig_memdup(j->g->job, j->region, sizeof *rest);
    rest->outputs.at = ig_memdup(j->g->job, j->region->outputs.at, j->region->outputs.count * sizeof(ig_value));
    rest->outputs.count = 0;
    for (uint32_t i = 0; i < j->region->outputs.count; i++) {
        ig_value v = j->region->outputs.at[i];
        j->stored = j->stored || v == j->collective->out;
        if (v != j->collective->out) rest->outputs.at[rest->outputs.count++] = v;
    }
    j->row.region = rest;
}

static struct ig_row_arrival arrive(struct joined *j) {
    struct ig_loops *k = j->row.k;
    ig_x zero = ig_x_index(k, 0);
    const enum ingot_dtype dtype = ig_type_of(j->g, j->value)->dtype;
    const int *buffer_of = j->row.lower.buffer_of;
    ig_exchange_seat(k, j->g, j->region); /* for the opening */
    struct ig_row_arrival a = {.value = j->value, .buffer = ig_loops_shared(k, dtype, 0, "reduced")};
    const struct ig_call_arg source = {buffer_of[j->collective->in[0]], zero}, row = {a.buffer, zero};
    const struct ig_call_arg number = {-1, ig_x_dim(k, ig_exchange_number(k->dims))},
                             lines = {-1, ig_x_dim(k, j->lines)};
    a.first = (struct ig_row_call){"SEND_ROWS", {source, number, lines}, 3};
    a.arrives = (struct ig_row_call){"all.take", {row}, 1};
    if (j->stored) a.arrives.args[a.arrives.n_args++] = (struct ig_call_arg){buffer_of[j->collective->out], zero};
    a.last = (struct ig_row_call){"all.leave", {{0}}, 0};
    return a;
}

/* Microseconds: what an all-reduce takes (ig_exchange_time), a block's part of it, and each pass over a row that is in registers. An
 * assumption: the block sends and receives 40 GB/s beyond what all of them do. Rows that are pushed are under way while their product
 * ends (bench/results/ranks/2026-11-28-pushes.md). */
struct problem {
    int64_t bytes, lines, passes;
    uint32_t ranks;
    bool pushed;
};
enum { PUSHED_NANOSECONDS = 1300 /* saved */ };

static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    const struct problem *p = kernel->model.problem;
    const int64_t most = IG_WINDOW_SHORT_LINES / p->lines;
    const double rows = (double)(sizes[0] < most ? sizes[0] : most);
    return ig_exchange_time(fmin(rows, IG_WINDOW_HEADERS) * (double)p->bytes, p->ranks) +
           (double)(p->ranks - 1) * (double)p->bytes / 4e4 + 0.15 * (double)p->passes -
           (p->pushed ? PUSHED_NANOSECONDS / 1e3 : 0);
}

static void make_model(struct joined *j, uint32_t ranks) {
    struct problem *p = IG_NEW(j->g->job, struct problem);
    ig_dim one = ig_dim_const(j->g->dims, 1);
    *p = (struct problem){j->bytes, (j->bytes + LINE - 1) / LINE, j->row.passes + 1, ranks, j->region->pushed != 0};
    j->row.kernel->model = (struct ig_kernel_model){{j->rows, one, one, one}, p, cost};
}

struct ig_kernel *ig_kernel_exchange_row_cuda(struct ig_graph *graph, const struct ig_region *region,
                                              const struct ig_target *target, const struct ig_sizes *at) {
    struct joined j = {.g = graph, .region = region, .collective = &graph->nodes.at[region->anchor]};
    ig_row_init(&j.row, graph, region, at, false);
    if (!measure(&j)) return NULL;
    leave_value_out(&j);
    struct ig_kernel *kernel = j.row.kernel;
    const struct ig_collective what = ig_exchange_collective(graph, j.collective);
    struct ig_cuda_exchange *e = IG_NEW(graph->job, struct ig_cuda_exchange);
    *e = (struct ig_cuda_exchange){.kind = IG_ALL_REDUCE,
                                   .reduction = (enum ig_reduction)what.reduction,
                                   .dtype = (enum ingot_dtype)what.dtype,
                                   .ranks = (uint32_t)ig_attr_int(graph, j.collective, IG_ATTR_ranks),
                                   .early = ig_target_has_early_start(target),
                                   .even = j.bytes % LINE == 0 ? LINE : 0,
                                   .row = j.elements,
                                   .pushed = region->pushed != 0};
    kernel->exchange = e;
    kernel->opening = IG_EXCHANGE_OPENING;
    kernel->threads = threads_for(j.bytes);
    kernel->shared_bytes = (int)((j.bytes + 15) / 16 * 16);
    /* The first of all, where the runtime finds them. */
    ig_loops_dim(kernel->loops, ig_exchange_number(graph->dims));
    ig_loops_dim(kernel->loops, j.lines);
    const struct ig_row_arrival arrival = arrive(&j);
    if (!ig_row_arrived_cuda(&j.row, &arrival)) return NULL;
    make_model(&j, e->ranks);
    ig_row_finish(&j.row);
    kernel->tactic = ig_format(graph->job, "%s%s through windows of %u GPUs, %s", ig_collective_name(what.kind),
                               e->pushed ? " of pushed rows" : "", e->ranks, kernel->tactic);
    return kernel;
}
