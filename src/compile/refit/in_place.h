/* Which weights an engine can read where the model's initialisers lie. */
#ifndef IG_COMPILE_IN_PLACE_H
#define IG_COMPILE_IN_PLACE_H

#include "base/job.h"
#include "engine/engine.h"

/*
 * By weight: has it the bytes of its one initialiser, whatever these are, and may it lie apart from the other weights? A
 * recipe of transposes and reshapes that cancel out, such as those that pack a linear layer's weight for a GPU, leaves the
 * bytes as they are.
 */
void ig_in_place_find(struct ig_job *job, const struct ig_engine_file *file, bool *out_can);

/* Of a recipe: do the views in it leave the bytes of its one input as they are? False where that cannot be told. Raises
 * what is no recipe. */
bool ig_in_place_leaves_bytes(struct ig_job *job, const char *recipe, size_t length);

#endif
