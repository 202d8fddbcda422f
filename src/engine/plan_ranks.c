/* The main plans of an engine for several ranks; see plan.h. */
#include "engine/plan.h"

uint32_t ig_plan_rank_subplan(const struct ig_plan *plan, uint32_t ranks, uint32_t rank) {
    if (plan->n_ranks == 0) return ranks == 1 && rank == 0 ? 0 : IG_PLAN_NONE;
    for (uint32_t i = 0; i < plan->n_ranks; i++) {
        if (plan->ranks[i].ranks == ranks && plan->ranks[i].rank == rank) return plan->ranks[i].subplan;
    }
    return IG_PLAN_NONE;
}

uint32_t ig_plan_degrees(const struct ig_plan *plan, uint32_t *out_degrees, uint32_t capacity) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->n_ranks; i++) {
        if (plan->ranks[i].rank != 0) continue;
        if (count < capacity) out_degrees[count] = plan->ranks[i].ranks;
        count++;
    }
    if (plan->n_ranks == 0 && capacity > 0) out_degrees[0] = 1;
    return plan->n_ranks ? count : 1;
}
