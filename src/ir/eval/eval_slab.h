/*
 * Evaluates a constant in slabs: ranges of its first axis, each by itself and by any thread, so that a weight of any
 * size passes through the caches on its way into a file, on all processors. The result is the evaluator's, bit by bit,
 * since each operator is evaluated by the same function, on less.
 */
#ifndef IG_IR_EVAL_SLAB_H
#define IG_IR_EVAL_SLAB_H

#include "ir/eval/eval.h"

struct ig_slab_value; /* a value on the way to the result */

struct ig_slabs {
    struct ig_graph *graph;
    uint32_t count;
    int axis;     /* of the result; those before it have size 1 */
    int64_t rows; /* of that axis, in each slab but the last */
    int64_t dim;  /* all rows */
    size_t row_bytes;
    size_t held; /* bytes in memory of what had to be evaluated as a whole */
    struct ig_slab_value *root, *values;
};

/*
 * Divides `value`, a constant, into slabs of about `bytes` bytes. What they need that cannot be divided is evaluated
 * now, and so is all of a constant of which no part can be. To be called by the job's thread; raises. The memory of
 * these values is not the job's: only ig_slabs_close frees it.
 */
struct ig_slabs *ig_slabs_open(struct ig_graph *graph, ig_value value, size_t bytes);
void ig_slabs_close(struct ig_slabs *slabs);
/* Asks the system to read what the slabs are made of, if it lies in a file. */
void ig_slabs_prefetch(const struct ig_slabs *slabs);

/*
 * Evaluates a slab: contiguous elements in row-major order. `*out_owned` is the memory that they lie in, which the
 * caller frees by ig_slab_free; NULL: they lie in the model or in `slabs`. To be called by any threads at once, each with
 * a job of its own, while the graph does not change; raises.
 */
struct ig_slab {
    const void *data;
    size_t size; /* in bytes */
    void *owned;
};
void ig_slab_evaluate(struct ig_job *job, const struct ig_slabs *slabs, uint32_t index, struct ig_slab *out_slab);
/* `allocator`: that of the job which evaluated it. */
void ig_slab_free(const struct ingot_allocator *allocator, struct ig_slab *slab);

#endif
