/* Attention of a block as CUDA C++: the description's numbers as constants, then the template (attend.cu), in a namespace
 * `attend`. */
#ifndef IG_CODEGEN_CUDA_ATTEND_H
#define IG_CODEGEN_CUDA_ATTEND_H

#include "base/text.h"
#include "kernel/cuda/attend_block.h"

/*
 * Declares, to be called by all threads of the block, with float arrays of each thread's own (`state`: twice the layout's
 * rows) and operands as addresses of their first element of the tile, the distance of their lines, and how many there are:
 *
 *     attend::begin(sums, state, q, ldq, queries, k, ldk, v, ldv, keys)
 *     attend::multiply(scores, step, k, ldk, v, ldv, keys)     the scores of step 0, 1, …; keys beyond the last are garbage
 *     attend::accumulate(scores, sums, state, step)            after they were changed
 *     attend::finish(tile, sums, state)
 */
void ig_cuda_attend(const struct ig_cuda_attend *attend, struct ig_text *text);

#endif
