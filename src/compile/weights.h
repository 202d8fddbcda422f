/* The bytes of weights, in order, for whom writes them to a file or to memory. */
#ifndef IG_COMPILE_WEIGHTS_H
#define IG_COMPILE_WEIGHTS_H

#include "compile/plan_build.h"

struct ig_weight_reader;

/*
 * Evaluates the weights' recipes by `jobs` threads (0: one per processor), that of the caller included, some slabs
 * ahead of what is read. In memory are a few megabytes per thread and what cannot be evaluated in slabs: at most two
 * weights. The graphs must not change while the reader is open. It closes with the job.
 */
struct ig_weight_reader *ig_weights_open(struct ig_job *job, const struct ig_weight *weights, uint32_t count,
                                         unsigned jobs);
/* The next bytes of weight `index`, which follows or is the one read before; weights without bytes are skipped. They are
 * valid until the next call. Raises what the evaluation raises. */
const void *ig_weights_read(struct ig_weight_reader *reader, uint32_t index, size_t *out_size);
void ig_weights_close(struct ig_weight_reader *reader);

#endif
