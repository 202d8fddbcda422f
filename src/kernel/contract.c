/*
 * Contractions: from a region to the problem that the schedules solve (contract.h), and the choice among them.
 */
#include "kernel/contract.h"

#include "kernel/contract_problem.h"
#include "kernel/cpu/contract.h"
#include "kernel/cuda/contract.h"
#include "kernel/schedules.h"

/* ---- Shorthands ----------------------------------------------------------------------------------------------------- */

int64_t ig_contract_const(const struct ig_contract *c, ig_dim d, int64_t otherwise) {
    int64_t value;
    return ig_dim_is_const(c->graph->dims, d, &value) ? value : otherwise;
}

ig_x ig_contract_dim(struct ig_contract *c, ig_dim d) {
    return ig_x_dim(c->k, d);
}

ig_x ig_contract_int(struct ig_contract *c, int64_t i) {
    return ig_x_index(c->k, i);
}

int ig_contract_scratch(struct ig_contract *c, ig_dim elements, const char *name) {
    struct ig_dims *dims = c->graph->dims;
    int buffer = ig_loops_scratch(c->k, c->dtype, ig_x_dim(c->k, c->kernel->scratch_bytes), name);
    int64_t line = 64 / (int64_t)ingot_dtype_size(c->dtype);
    ig_dim lines = ig_dim_ceil_div(dims, elements, ig_dim_const(dims, line));
    ig_dim bytes = ig_dim_mul(dims, lines, ig_dim_const(dims, 64));
    c->kernel->scratch_bytes = ig_dim_add(dims, c->kernel->scratch_bytes, bytes);
    return buffer;
}

enum ingot_dtype ig_contract_half(enum ingot_dtype dtype) {
    return dtype == INGOT_F16 || dtype == INGOT_BF16 ? dtype : INGOT_DTYPE_NONE;
}

/* GPUs have products of halves of their own, and micro-kernels only for what these do not do. */
bool ig_contract_can_convert(const struct ig_contract *c, enum ingot_dtype dtype) {
    if (dtype == c->dtype) return true;
    return c->dtype == INGOT_F32 && ig_contract_half(dtype) != INGOT_DTYPE_NONE && !ig_target_is_cuda(c->target);
}

ig_x ig_contract_depth_at(struct ig_contract *c, const ig_x *depth) {
    ig_x at = depth[0];
    for (int i = 1; i < c->depth_rank; i++)
        at = ig_x_add(c->k, ig_x_mul(c->k, at, ig_contract_dim(c, c->depth_dim[i])), depth[i]);
    return at;
}

ig_x ig_contract_packed_b(struct ig_contract *c, ig_x group, ig_x n, const ig_x *depth) {
    struct ig_loops *k = c->k;
    int64_t nr = ig_contract_attr_int(c, IG_ATTR_packed);
    ig_x width = ig_contract_int(c, nr);
    ig_dim panels = ig_dim_ceil_div(c->graph->dims, c->columns, ig_dim_const(c->graph->dims, nr));
    ig_x panel = ig_x_add(k, ig_x_mul(k, group, ig_contract_dim(c, panels)), ig_x_div(k, n, width));
    ig_x row = ig_x_add(k, ig_x_mul(k, panel, ig_contract_dim(c, c->depth)), ig_contract_depth_at(c, depth));
    ig_x at = ig_x_add(k, ig_x_mul(k, row, width), ig_x_mod(k, n, width));
    return ig_x_load(k, c->lower.buffer_of[c->node.in[1]], at);
}

bool ig_contract_is_packed(const struct ig_contract *c) {
    int64_t width = ig_contract_attr_int(c, IG_ATTR_packed), lanes = ig_micro_lanes(c->target, c->dtype);
    return width > 0 && width % lanes == 0 && width <= 4 * lanes;
}

/* ---- The problem ----------------------------------------------------------------------------------------------------------- */

ig_x ig_contract_a(struct ig_contract *c, ig_x b, ig_x m, const ig_x *depth) {
    return ig_x_cast(c->k, c->spatial ? ig_conv_a(c, b, m, depth) : ig_matmul_a(c, b, m, depth), c->dtype, false);
}

ig_x ig_contract_b(struct ig_contract *c, ig_x b, ig_x n, const ig_x *depth) {
    return ig_x_cast(c->k, c->spatial ? ig_conv_b(c, b, n, depth) : ig_matmul_b(c, b, n, depth), c->dtype, false);
}

void ig_contract_position(struct ig_contract *c, ig_x b, ig_x m, ig_x n, ig_x *out_index) {
    if (c->spatial)
        ig_conv_position(c, b, m, n, out_index);
    else
        ig_matmul_position(c, b, m, n, out_index);
}

bool ig_contract_init(struct ig_contract *c) {
    c->node = c->graph->nodes.at[c->region->anchor];
    c->k = ig_loops_create(c->graph->job, c->graph->dims);
    c->kernel->loops = c->k;
    c->kernel->scratch_bytes = ig_dim_const(c->graph->dims, 0);
    c->linear = c->sum = IG_NO_X;
    ig_lower_init(&c->lower, c->k, c->graph, c->region);
    c->dtype = ig_dtype_compute((enum ingot_dtype)ig_contract_attr_int(c, IG_ATTR_acc));
    if (c->node.op == IG_OP_conv) return ig_conv_init(c);
    if (c->node.op == IG_OP_matmul) ig_matmul_init(c);
    return c->node.op == IG_OP_matmul;
}

/* Multiply-adds over the lanes of a vector. */
static ig_dim work(struct ig_contract *c) {
    struct ig_dims *dims = c->graph->dims;
    ig_dim product = ig_dim_mul(dims, ig_dim_mul(dims, c->batch, c->rows), ig_dim_mul(dims, c->columns, c->depth));
    return ig_dim_ceil_div(dims, product, ig_dim_const(dims, ig_micro_lanes(c->target, c->dtype)));
}

static struct ig_contract *begin(struct ig_graph *graph, const struct ig_region *region, const struct ig_target *target,
                                 int choice) {
    struct ig_contract *c = IG_NEW(graph->job, struct ig_contract);
    *c = (struct ig_contract){.graph = graph, .region = region, .target = target, .choice = choice, .choices = 1};
    c->kernel = IG_NEW(graph->job, struct ig_kernel);
    c->kernel->family = IG_FAMILY_CONTRACT;
    if (!ig_contract_init(c)) {
        ig_raise(graph->job, INGOT_UNSUPPORTED, "a convolution over %d spatial axes (1 to 3 are supported)",
                 c->spatial);
    }
    return c;
}

static struct ig_kernel *end(struct ig_contract *c) {
    c->kernel->work = work(c);
    return c->kernel;
}

/* What is asked for, on the way through the schedules. */
struct asked {
    struct ig_graph *graph;
    const struct ig_region *region;
    const struct ig_target *target;
    int choice;   /* of those that are still to come */
    bool applied; /* one of the schedules so far */
};

/* The candidates of the first schedule that applies, then those of the next one, and so on. */
static struct ig_kernel *take(struct asked *a, const ig_contract_schedule *schedules) {
    for (int i = 0; schedules[i]; i++) {
        struct ig_contract *c = begin(a->graph, a->region, a->target, a->choice);
        if (!schedules[i](c)) continue; /* the next one starts afresh */
        if (a->choice < c->choices) return end(c);
        a->choice -= c->choices;
        a->applied = true;
    }
    return NULL;
}

/* Plain code is for what no schedule applies to. */
struct ig_kernel *ig_kernel_contract(struct ig_graph *graph, const struct ig_region *region,
                                     const struct ig_target *target, int choice) {
    static const ig_contract_schedule cpu[] = {ig_contract_depthwise, ig_contract_lines, ig_contract_gemm, NULL};
    static const ig_contract_schedule cuda[] = {ig_cuda_contract_depthwise, ig_cuda_contract_gemm, NULL};
    static const ig_contract_schedule libraries[] = {ig_cuda_contract_product, ig_cuda_contract_convolution, NULL};
    struct asked asked = {graph, region, target, choice, false};
    bool is_cuda = ig_target_is_cuda(target);
    if (choice != IG_CHOICE_PLAIN) {
        struct ig_kernel *kernel = take(&asked, is_cuda ? cuda : cpu);
        if (!kernel && asked.applied && is_cuda) kernel = take(&asked, libraries);
        if (kernel || asked.applied || choice > 0) return kernel;
    }
    struct ig_contract *c = begin(graph, region, target, 0);
    ig_contract_plain(c);
    return end(c);
}
