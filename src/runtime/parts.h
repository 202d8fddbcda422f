/*
 * Large batches in parts, where the device uses host memory: if the samples of a batch do not affect each other and its
 * activations do not fit the caches, a run of n rows is several runs, in turn, of an instance for fewer rows, each on the
 * next rows of the caller's inputs and outputs. The last part begins where it ends with the last row, so that one instance
 * serves. Arenas are as large as a part needs. How many rows are computed together may show in the last bits.
 *
 * Every part reads all weights. So the batch stays whole if that would move more memory than the activations do.
 */
#ifndef IG_RUNTIME_PARTS_H
#define IG_RUNTIME_PARTS_H

#include "runtime/context/context.h"

/* Decides, with the current instance, which is for the whole batch. Returns the rows of a part; 0: it stays whole. */
int64_t ig_parts_choose(struct ig_context *context);
/* Has the symbols say so many rows, of which a part consists. */
void ig_parts_take(struct ig_context *context, int64_t rows);

/* How many parts the current instance takes for the bound inputs: mostly 1. */
int64_t ig_parts_count(const struct ig_context *context);
/* Binds inputs and outputs to the rows of a part; those of part 0 are bound. */
void ig_parts_bind(struct ig_context *context, int64_t part);

#endif
