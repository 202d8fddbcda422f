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
 *     w.keep(memory, panel, operands)    copies as much of it as stays in the chip; memory: shared, for its kept part
 *     w.multiply(sums, operand, rows, first, count)
 *                                        sums of `count` gates from `first` on
 *     recurrent::meet()                  waits for all blocks of the cluster
 *     recurrent::share(operand, states, rows)
 *                                        makes the block's units of each row the operand of all blocks; meets
 *
 * Sums, states and operands are in dynamic shared memory. Sums take the place of `parts` arrays [rows][gates][units], and
 * end up in the first. On the tensor cores, operands are of slots of ig_cuda_recurrent_slot elements, elsewhere they are
 * the states.
 */
void ig_cuda_recurrent(const struct ig_cuda_recurrent *recurrent, struct ig_text *text);

#endif
