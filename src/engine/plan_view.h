/* The plan of one rank of an engine for several: the file as that rank sees it. */
#ifndef IG_ENGINE_PLAN_VIEW_H
#define IG_ENGINE_PLAN_VIEW_H

#include "engine/engine.h"

/*
 * A copy of `file`, which must outlive it, whose subplan 0 is the rank's main plan: whoever follows it need not know of ranks.
 * Everything else is the file's. INGOT_INCOMPATIBLE, with the numbers that there are, if it has no plans for so many ranks.
 */
enum ingot_status ig_plan_view_create(const struct ig_engine_file *file, uint32_t ranks, uint32_t rank,
                                      const struct ingot_allocator *allocator, struct ig_engine_file *out_view,
                                      struct ingot_error *error);
void ig_plan_view_destroy(struct ig_engine_file *view, const struct ingot_allocator *allocator);

#endif
