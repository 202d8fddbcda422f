/* What a plan leaves for the host to decide; see uncaptured.h. */
#include "runtime/frame/uncaptured.h"

static const char *reason_of(const struct ig_plan_step *step) {
    switch ((enum ig_plan_step_kind)step->kind) {
    case IG_STEP_IF: return "its condition is known only during the run: the host reads it and launches the branch";
    case IG_STEP_LOOP:
        return "whether it goes on is known only during the run: the host reads that and launches each iteration";
    case IG_STEP_KERNEL:
    case IG_STEP_COPY:
    case IG_STEP_COLLECTIVE: break;
    }
    return NULL;
}

/* Is input i one whose elements are sizes? */
static bool holds_sizes(const struct ig_plan *plan, uint32_t i) {
    for (uint32_t s = 0; s < plan->n_symbols; s++) {
        if (plan->symbols[s].axis == IG_PLAN_NONE && plan->symbols[s].input == i) return true;
    }
    return false;
}

static void add(struct ingot_uncaptured_row *rows, size_t capacity, size_t *count, const char *origin,
                const char *reason) {
    if (*count < capacity) rows[*count] = (struct ingot_uncaptured_row){origin, reason};
    ++*count;
}

size_t ig_plan_uncaptured(const struct ig_plan *plan, struct ingot_uncaptured_row *rows, size_t capacity) {
    size_t count = 0;
    for (uint32_t i = 0; i < plan->subplans[0].n_inputs; i++) {
        const char *name = plan->strings + plan->tensors[plan->subplans[0].inputs + i].name;
        if (holds_sizes(plan, i))
            add(rows, capacity, &count, name,
                "its elements decide shapes: if it is in GPU memory, the host reads them before each run");
    }
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const char *reason = reason_of(&plan->steps[s]);
        if (reason) add(rows, capacity, &count, plan->strings + plan->steps[s].label, reason);
    }
    return count;
}
