/* The recipes section: how each weight of the engine is computed from the model's initialisers. */
#ifndef IG_COMPILE_RECIPES_H
#define IG_COMPILE_RECIPES_H

#include "compile/plan_build.h"

/* Graphs in text form (docs/ir.md), one per weight that depends on an initialiser: its inputs are the initialisers by
 * name, its one output is the weight, named by its number. */
const char *ig_recipes_text(struct ig_job *job, const struct ig_built_plan *built);

#endif
