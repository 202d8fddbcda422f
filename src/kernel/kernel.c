/*
 * From region to kernel: selects the family's schedule and fills in what all families share.
 */
#include "kernel/kernel.h"

#include <string.h>

#include "base/text.h"
#include "kernel/cuda/estimate.h"
#include "kernel/lower.h"
#include "kernel/schedules.h"

typedef struct ig_kernel *(*schedule_fn)(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                         const struct ig_sizes *at);
typedef struct ig_kernel *(*choice_fn)(struct ig_graph *, const struct ig_region *, const struct ig_target *,
                                       const struct ig_sizes *at, int choice);

static const schedule_fn schedules[IG_FAMILY_COUNT] = {
    [IG_FAMILY_MAP] = ig_kernel_map,   [IG_FAMILY_ROW] = ig_kernel_row,   [IG_FAMILY_WINDOW] = ig_kernel_window,
    [IG_FAMILY_SCAN] = ig_kernel_scan, [IG_FAMILY_REST] = ig_kernel_rest,
};

/* Families without a GPU schedule use the CPU's: the threads of a block share its loops. */
static const schedule_fn cuda_schedules[IG_FAMILY_COUNT] = {
    [IG_FAMILY_MAP] = ig_kernel_map_cuda,       [IG_FAMILY_ROW] = ig_kernel_row_cuda,
    [IG_FAMILY_WINDOW] = ig_kernel_window_cuda, [IG_FAMILY_SCAN] = ig_kernel_scan,
    [IG_FAMILY_REST] = ig_kernel_rest,          [IG_FAMILY_COLLECTIVE] = ig_kernel_exchange_cuda,
};
/* Families with several candidates, on CPUs and GPUs. */
static const choice_fn choosers[IG_FAMILY_COUNT] = {
    [IG_FAMILY_CONTRACT] = ig_kernel_contract, [IG_FAMILY_ATTEND] = ig_kernel_attend};
enum { CUDA_THREADS = 256 };

int ig_kernel_scratch(struct ig_kernel *kernel, enum ingot_dtype dtype, ig_dim elements, const char *name) {
    struct ig_loops *k = kernel->loops;
    ig_dim line = ig_dim_const(k->dims, 64), size = ig_dim_const(k->dims, (int64_t)ingot_dtype_size(dtype));
    int buffer = ig_loops_scratch(k, dtype, ig_x_dim(k, kernel->scratch_bytes), name);
    ig_dim lines = ig_dim_ceil_div(k->dims, ig_dim_mul(k->dims, elements, size), line);
    kernel->scratch_bytes = ig_dim_add(k->dims, kernel->scratch_bytes, ig_dim_mul(k->dims, lines, line));
    return buffer;
}

/* The ONNX nodes that a region came from, each once: "Conv 'c1', Relu 'r1', …". */
static const char *title(struct ig_graph *graph, const struct ig_region *region) {
    enum { LONGEST = 300 };
    struct ig_text text;
    ig_text_init(&text, graph->job);
    ig_text_add(&text, "");
    struct ig_map seen;
    ig_map_init(&seen, graph->job);
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        const char *origin = graph->nodes.at[region->nodes.at[i]].origin;
        uint32_t unused;
        if (!origin || ig_map_get_name(&seen, origin, &unused)) continue;
        ig_map_put_name(&seen, origin, 1);
        if (text.length > LONGEST) {
            ig_text_add(&text, ", ...");
            break;
        }
        ig_text_printf(&text, "%s%s", text.length ? ", " : "", origin);
    }
    return text.at;
}

static struct ig_kernel *schedule(struct ig_graph *graph, const struct ig_region *region,
                                  const struct ig_target *target, const struct ig_sizes *at, int choice) {
    enum ig_family family = region->family;
    if (choosers[family]) return choosers[family](graph, region, target, at, choice);
    schedule_fn only = (ig_target_is_cuda(target) ? cuda_schedules : schedules)[family];
    IG_ASSERT(graph->job, only != NULL);
    return choice == 0 ? only(graph, region, target, at) : NULL;
}

struct ig_kernel *ig_kernel_make(struct ig_graph *graph, const struct ig_region *region,
                                 const struct ig_target *target) {
    struct ig_kernel *kernel = ig_kernel_candidate(graph, region, target, NULL, 0);
    IG_ASSERT(graph->job, kernel != NULL);
    return kernel;
}

double ig_kernel_cost(const struct ig_kernel *kernel, const struct ig_sizes *at) {
    int64_t sizes[IG_MODEL_SIZES];
    if (!kernel->model.cost) return 0;
    for (int i = 0; i < IG_MODEL_SIZES; i++)
        sizes[i] = ig_sizes_guess(at, kernel->model.sizes[i]);
    return kernel->model.cost(kernel, sizes);
}

/* The models of products, attentions and exchanges know what their templates do, but nothing of operands that loops fill in. */
double ig_kernel_estimate(const struct ig_kernel *kernel, const struct ig_sizes *at) {
    bool filled = kernel->gemm && kernel->gemm->a == IG_CUDA_FILLED,
         templated = kernel->gemm || kernel->attend || kernel->blocks || kernel->depthwise || kernel->banded ||
                     kernel->patch || kernel->exchange;
    if (kernel->threads == 0 || kernel->library) return 0;
    double model = templated ? ig_kernel_cost(kernel, at) : 0;
    double loops = filled || !templated ? ig_cuda_estimate(kernel, at) : 0;
    return model > loops ? model : loops;
}

static void note_bytes(struct ig_graph *graph, const struct ig_region *region, struct ig_kernel *kernel) {
    struct ig_dims *dims = graph->dims;
    kernel->bytes.count = 0;
    for (uint32_t i = 0; i < region->inputs.count + region->outputs.count; i++) {
        bool is_input = i < region->inputs.count;
        ig_value v = is_input ? region->inputs.at[i] : region->outputs.at[i - region->inputs.count];
        const struct ig_type *type = ig_type_of(graph, v);
        if (is_input && ig_is_literal(graph, v)) continue;
        ig_dim size = ig_dim_const(dims, (int64_t)ingot_dtype_size(type->dtype));
        IG_PUSH(graph->job, &kernel->bytes, ig_dim_mul(dims, ig_type_elements(dims, type), size));
    }
}

static void complete(struct ig_graph *graph, const struct ig_region *region, const struct ig_target *target,
                     struct ig_kernel *kernel) {
    kernel->family = region->family;
    if (ig_target_is_cuda(target) && kernel->threads == 0) kernel->threads = CUDA_THREADS;
    if (kernel->scratch_bytes == IG_DIM_NONE) kernel->scratch_bytes = ig_dim_const(graph->dims, 0);
    if (ig_target_is_cuda(target) && !kernel->library) ig_cuda_finish(kernel);
    note_bytes(graph, region, kernel);
    kernel->literals.count = 0;
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        ig_value v = region->inputs.at[i];
        if (ig_is_literal(graph, v)) IG_PUSH(graph->job, &kernel->literals, v);
    }
    kernel->dims.count = 0;
    for (uint32_t i = 0; i < kernel->loops->dim_params.count; i++)
        IG_PUSH(graph->job, &kernel->dims, kernel->loops->dim_params.at[i]);
}

struct ig_kernel *ig_kernel_candidate(struct ig_graph *graph, const struct ig_region *region,
                                      const struct ig_target *target, const struct ig_sizes *at, int choice) {
    struct ig_where where = {.verb = "schedule a kernel", .kind = title(graph, region)};
    struct ig_sizes usual;
    ig_where_push(graph->job, &where);
    if (!at) ig_sizes_usual(graph->dims, graph->job, &usual);
    struct ig_kernel *kernel = schedule(graph, region, target, at ? at : &usual, choice);
    if (kernel) {
        kernel->title = where.kind;
        complete(graph, region, target, kernel);
    }
    ig_where_pop(graph->job);
    return kernel;
}
