/* What refitting needs (engine/refit.h): how each weight of the engine is computed from the model's initialisers. */
#ifndef IG_COMPILE_RECIPES_H
#define IG_COMPILE_RECIPES_H

#include "compile/plan_build.h"
#include "engine/refit.h"

/*
 * Fills the tables, in the job's arena, once nothing will be decided any more (ir/initializer.h). `all` are those of the
 * imported model. With `stripped`, those that can be replaced have no hash, so that the tables do not depend on them.
 */
void ig_recipes_make(struct ig_job *job, const struct ig_initializers *all, const struct ig_built_plan *built,
                     bool stripped, struct ig_refit_tables *out_tables);

/*
 * The value that a recipe computes from `initializers`, whose types must be those of its inputs: constants in a graph of
 * its own, so that ig_const_weight evaluates it as a build does. Raises INGOT_BAD_ENGINE if the text is no such recipe, or
 * its result is not of `size` bytes.
 */
struct ig_weight ig_recipe_read(struct ig_job *job, const char *text, size_t length,
                                const struct ingot_tensor *initializers, uint32_t n, uint64_t size);

#endif
