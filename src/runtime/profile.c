/* Profiles: what the steps took, and the least that they could have taken for the shapes that were bound last. */
#include "base/cpu_time.h"
#include "runtime/context/context.h"
#include "runtime/parts.h"

static const char *step_name(const struct ig_plan *plan, const struct ig_plan_step *step) {
    switch ((enum ig_plan_step_kind)step->kind) {
    case IG_STEP_KERNEL: return ig_plan_text(plan, plan->kernels[step->kernel].name);
    case IG_STEP_COPY: return "copy";
    case IG_STEP_IF: return "if";
    case IG_STEP_LOOP: return "loop";
    case IG_STEP_COLLECTIVE: return ig_collective_name(plan->collectives[step->kernel].kind);
    }
    return "unknown";
}

/* The values of all slots, those of the demand program too; NULL if they cannot be known. The caller's symbols: for the whole
 * of a batch that is computed in parts, without the rows that were added to round it up. */
static int64_t *evaluate(const struct ig_context *context, size_t *out_size) {
    const struct ig_plan *plan = context->plan;
    const struct ig_batch *batch = &context->batch;
    *out_size = ((size_t)ig_shape_slots(plan) + plan->n_demand_instrs + 1) * sizeof(int64_t);
    if (!context->current || !context->machine.name) return NULL;
    int64_t *slots = ig_allocate(context->env.allocator, *out_size, _Alignof(int64_t));
    for (uint32_t i = 0; slots && i < plan->n_symbols; i++)
        slots[i] = context->current->slots[i];
    if (slots && batch->by != IG_PLAN_NONE) slots[batch->by] = batch->rows;
    if (slots && ig_shape_evaluate_demands(plan, slots)) return slots;
    ig_release(context->env.allocator, slots, *out_size);
    return NULL;
}

static double value(const int64_t *slots, ig_slot slot) {
    return slots[slot] > 0 ? (double)slots[slot] : 0;
}

static struct ig_demand demand_of(const struct ig_plan_demand *d, const int64_t *slots) {
    struct ig_demand demand = {.constants = value(slots, d->constants),
                               .reads = value(slots, d->reads),
                               .writes = value(slots, d->writes),
                               .turns = value(slots, d->turns)};
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        demand.operations[u] = value(slots, d->operations[u]);
    return demand;
}

/* The floor and, on CPUs, the estimate. */
static void add_figures(const struct ig_context *context, const int64_t *slots, const struct ig_plan_step *step,
                        struct ingot_profile_row *row) {
    const struct ig_plan *plan = context->plan;
    const double weights = (double)context->env.file->weights_size;
    const double runs = (double)row->calls / (double)ig_parts_count(context);
    struct ig_demand demand = demand_of(&plan->demands[step->demand - 1], slots);
    struct ig_floor floor = ig_floor_of(&context->machine, &demand, weights);
    row->floor_ms = floor.time / 1e3 * runs;
    if (step->kind == IG_STEP_KERNEL) {
        enum ig_cpu_kind kind = (enum ig_cpu_kind)plan->kernels[step->kernel].kind;
        row->estimate_ms =
            ig_cpu_time(kind, &context->machine, &demand, weights, value(slots, step->tiles)) / 1e3 * runs;
    }
    row->bound = floor.bound;
    row->bytes = demand.constants + demand.reads + demand.writes;
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        row->operations += demand.operations[u];
}

size_t ig_context_profile(const struct ig_context *context, struct ingot_profile_row *rows, size_t capacity) {
    if (!context->times) return 0;
    const struct ig_plan *plan = context->plan;
    size_t size;
    int64_t *slots = capacity ? evaluate(context, &size) : NULL;
    size_t count = 0;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const struct ig_plan_step *step = &plan->steps[s];
        if (plan->n_ranks && context->times[s].calls == 0) continue; /* another rank's */
        if (count++ >= capacity) continue;
        struct ingot_profile_row *row = &rows[count - 1];
        *row = (struct ingot_profile_row){.kernel = step_name(plan, step),
                                          .origin = ig_plan_text(plan, step->label),
                                          .calls = context->times[s].calls,
                                          .total_ms = (double)context->times[s].nanoseconds / 1e6,
                                          .shortest_ms = (double)context->times[s].shortest / 1e6};
        if (slots && step->demand) add_figures(context, slots, step, row);
    }
    if (slots) ig_release(context->env.allocator, slots, size);
    return count;
}
