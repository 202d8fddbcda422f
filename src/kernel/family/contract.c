/* Contractions: chooses among the schedules and the vendor libraries. The problem is in contract_problem.c. */
#include "kernel/family/contract.h"

#include "ir/winograd.h"
#include "kernel/cpu/contract.h"
#include "kernel/cuda/contract/contract.h"
#include "kernel/schedules.h"

/* Multiply-adds, in vectors. */
static ig_dim work(struct ig_contract *c) {
    struct ig_dims *dims = c->graph->dims;
    ig_dim product = ig_dim_mul(dims, ig_dim_mul(dims, c->batch, c->rows), ig_dim_mul(dims, c->columns, c->depth));
    return ig_dim_ceil_div(dims, product, ig_dim_const(dims, ig_micro_lanes(c->target, c->dtype)));
}

static struct ig_contract *begin(struct ig_graph *graph, const struct ig_region *region, const struct ig_target *target,
                                 const struct ig_sizes *at, int choice) {
    struct ig_contract *c = IG_NEW(graph->job, struct ig_contract);
    *c = (struct ig_contract){
        .graph = graph, .region = region, .target = target, .at = at, .choice = choice, .choices = 1};
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

/* The request for a candidate while the schedules are tried in turn. */
struct asked {
    struct ig_graph *graph;
    const struct ig_region *region;
    const struct ig_target *target;
    const struct ig_sizes *at;
    int choice;   /* candidate, counted from the first of the schedules not yet tried */
    bool applied; /* has any schedule applied so far? */
};

/* Candidates are numbered schedule by schedule, over all schedules that apply. */
static struct ig_kernel *take(struct asked *a, const ig_contract_schedule *schedules) {
    for (int i = 0; schedules[i]; i++) {
        struct ig_contract *c = begin(a->graph, a->region, a->target, a->at, a->choice);
        if (!schedules[i](c)) continue; /* the next schedule begins with a new contraction */
        if (a->choice < c->choices) return end(c);
        a->choice -= c->choices;
        a->applied = true;
    }
    return NULL;
}

/* Plain code is the fallback if no schedule applies, and the answer to IG_CHOICE_PLAIN. */
struct ig_kernel *ig_kernel_contract(struct ig_graph *graph, const struct ig_region *region,
                                     const struct ig_target *target, const struct ig_sizes *at, int choice) {
    static const ig_contract_schedule cpu[] = {ig_contract_depthwise_dots,
                                               ig_contract_depthwise,
                                               ig_contract_parts,
                                               ig_contract_lines,
                                               ig_contract_blocks,
                                               ig_contract_gemm,
                                               NULL};
    static const ig_contract_schedule cuda[] = {ig_cuda_contract_banded_first, ig_cuda_contract_depthwise,
                                                ig_cuda_contract_banded_last,  ig_cuda_contract_taps,
                                                ig_cuda_contract_small,        ig_cuda_contract_patch_first,
                                                ig_cuda_contract_blocks,       ig_cuda_contract_gemm,
                                                ig_cuda_contract_patch_last,   NULL};
    static const ig_contract_schedule libraries[] = {ig_cuda_contract_product, ig_cuda_contract_convolution, NULL};
    static const ig_contract_schedule scaled_cuda[] = {ig_cuda_contract_gemm, NULL};
    static const ig_contract_schedule pushing[] = {ig_cuda_contract_blocks, ig_cuda_contract_gemm, NULL};
    static const ig_contract_schedule rows_first[] = {ig_cuda_contract_blocks, ig_cuda_contract_gemm, NULL};
    static const ig_contract_schedule winograd[] = {ig_contract_winograd, NULL}, none[] = {NULL};
    struct asked asked = {graph, region, target, at, choice, false};
    bool is_cuda =
        ig_target_is_cuda(target); /* The others read filters, which only plain code recovers from transformed ones. */
    bool transformed = ig_winograd_of(graph, &graph->nodes.at[region->anchor]) > 0;
    if (region->pushed) return choice == IG_CHOICE_PLAIN ? NULL : take(&asked, pushing);
    if (ig_contract_computes_rows(graph, region)) return choice == IG_CHOICE_PLAIN ? NULL : take(&asked, rows_first);
    bool scaled = graph->nodes.at[region->anchor].op == IG_OP_matmul_scaled; /* block by block */
    if (choice != IG_CHOICE_PLAIN) {
        const ig_contract_schedule *usual = is_cuda ? cuda : cpu, *special = is_cuda ? none : winograd;
        if (scaled) usual = is_cuda ? scaled_cuda : none;
        struct ig_kernel *kernel = take(&asked, transformed ? special : usual);
        if (!kernel && asked.applied && is_cuda && !scaled) kernel = take(&asked, libraries);
        if (kernel || asked.applied || choice > 0) return kernel;
    }
    struct ig_contract *c = begin(graph, region, target, at, 0);
    ig_contract_plain(c);
    return end(c);
}
