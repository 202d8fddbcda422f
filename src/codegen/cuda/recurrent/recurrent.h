/* The products of a recurrence's steps as CUDA C++: the description's numbers as constants, then the template
 * (recurrent.cu), in the namespace `recurrent`. */
#ifndef IG_CODEGEN_CUDA_RECURRENT_H
#define IG_CODEGEN_CUDA_RECURRENT_H

#include "base/text.h"
#include "kernel/cuda/recurrent_block.h"

/*
 * Declares, for all threads of a block together,
 *
 *     recurrent::weights w               the block's panel, [hidden][gates][units]
 *     w.keep(memory, panel)              copies as much of it as stays in the chip; memory: shared, for its kept part
 *     recurrent::meet()                  waits for all blocks of the cluster
 *
 * On CUDA cores, where sums and states are in dynamic shared memory,
 *
 *     w.multiply(sums, states, rows, first, count)
 *                                        sums of `count` gates from `first` on: in `parts` arrays [rows][gates][units], at the end in
 *                                        the first
 *     recurrent::share(states, rows)     gives the block's units of each row to all blocks; meets
 *
 * and on the tensor cores, where each thread has those of its places, and memory is the beginning of dynamic shared memory,
 *
 *     w.multiply<first, count>(sums, slot)   by the states that have been shared as operand number `slot`
 *     w.share(slot, states)                  makes the states of all blocks' threads an operand of all blocks; meets
 */
void ig_cuda_recurrent(const struct ig_cuda_recurrent *recurrent, struct ig_text *text);

#endif
