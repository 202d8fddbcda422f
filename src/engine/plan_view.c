/* Plans of single ranks; see plan_view.h. */
#include "engine/plan_view.h"

#include <stdio.h>
#include <string.h>

#include "base/collective.h"
#include "base/memory.h"

/* "1, 2, 4" */
static void say_degrees(const struct ig_plan *plan, char *out_text, size_t size) {
    uint32_t degrees[IG_MOST_RANKS], count = ig_plan_degrees(plan, degrees, IG_MOST_RANKS);
    out_text[0] = '\0';
    for (uint32_t i = 0; i < count && i < IG_MOST_RANKS; i++) {
        size_t length = strlen(out_text);
        snprintf(out_text + length, size - length, "%s%u", i ? ", " : "", degrees[i]);
    }
}

static size_t table_size(const struct ig_plan *plan) {
    return plan->n_subplans * sizeof *plan->subplans;
}

enum ingot_status ig_plan_view_create(const struct ig_engine_file *file, uint32_t ranks, uint32_t rank,
                                      const struct ingot_allocator *allocator, struct ig_engine_file *out_view,
                                      struct ingot_error *error) {
    const struct ig_plan *plan = &file->plan;
    uint32_t main = ig_plan_rank_subplan(plan, ranks, rank);
    if (main == IG_PLAN_NONE) {
        char degrees[300];
        say_degrees(plan, degrees, sizeof degrees);
        return IG_ERR(error, INGOT_INCOMPATIBLE, "the engine has no plan for %u rank%s: it was built for %s", ranks,
                      ranks == 1 ? "" : "s", degrees);
    }
    struct ig_subplan *table = ig_allocate(allocator, table_size(plan), _Alignof(struct ig_subplan));
    if (!table) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for the plan of a rank");
    memcpy(table, plan->subplans, table_size(plan));
    table[0] = plan->subplans[main];
    *out_view = *file;
    out_view->plan.subplans = table;
    return INGOT_OK;
}

void ig_plan_view_destroy(struct ig_engine_file *view, const struct ingot_allocator *allocator) {
    ig_release(allocator, (void *)(uintptr_t)view->plan.subplans, table_size(&view->plan));
    *view = (struct ig_engine_file){0};
}
