/* Collects what steps demand; see demands.h. */
#include "compile/demands.h"

#include "kernel/cost.h"

void ig_demands_init(struct ig_demands *d, struct ig_slots *slots) {
    *d = (struct ig_demands){.job = slots->job, .slots = slots, .n_shape_instrs = slots->instrs.count};
    ig_map_init(&d->index, slots->job);
}

/* What depends on a size that nobody knows when shapes are bound counts as nothing: a floor may be too low. */
static ig_slot slot_of(struct ig_demands *d, ig_dim dim) {
    return ig_slots_get(d->slots, ig_slots_knows(d->slots, dim) ? dim : ig_dim_const(d->slots->dims, 0));
}

static uint32_t add(struct ig_demands *d, const struct ig_plan_demand *record) {
    uint32_t number;
    if (ig_map_get(&d->index, record, sizeof *record, &number)) return number;
    IG_PUSH(d->job, &d->records, *record);
    ig_map_put(&d->index, record, sizeof *record, d->records.count);
    return d->records.count;
}

uint32_t ig_demands_of_region(struct ig_demands *d, struct ig_graph *graph, const struct ig_region *region) {
    struct ig_region_demand demand;
    ig_region_demand(graph, region, &demand);
    struct ig_plan_demand record = {.constants = slot_of(d, demand.constants),
                                    .reads = slot_of(d, demand.reads),
                                    .writes = slot_of(d, demand.writes),
                                    .turns = slot_of(d, demand.turns)};
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        record.operations[u] = slot_of(d, demand.operations[u]);
    return add(d, &record);
}

uint32_t ig_demands_of_copy(struct ig_demands *d, ig_slot bytes) {
    ig_slot zero = slot_of(d, ig_dim_const(d->slots->dims, 0));
    struct ig_plan_demand record = {.constants = zero, .reads = bytes, .writes = bytes, .turns = zero};
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        record.operations[u] = zero;
    return add(d, &record);
}

void ig_demands_finish(struct ig_demands *d, struct ig_plan *plan) {
    plan->instrs = d->slots->instrs.at;
    plan->n_instrs = d->n_shape_instrs;
    plan->demand_instrs = d->slots->instrs.at + d->n_shape_instrs;
    plan->n_demand_instrs = d->slots->instrs.count - d->n_shape_instrs;
    plan->demands = d->records.at;
    plan->n_demands = d->records.count;
}
