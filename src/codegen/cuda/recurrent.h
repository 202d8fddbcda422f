/* The products of a recurrence's steps as CUDA C++: the description's numbers as constants, then the template
 * (recurrent.cu), in the namespace `recurrent`. */
#ifndef IG_CODEGEN_CUDA_RECURRENT_H
#define IG_CODEGEN_CUDA_RECURRENT_H

#include "base/text.h"
#include "kernel/cuda/recurrent_block.h"

/*
 * Declares, for all threads of a block together,
 *
 *     recurrent::keep(kept, panel)      copies the part of a panel of weights that stays in shared memory
 *     recurrent::multiply(sums, states, kept, panel, rows, first, count)
 *                                       sums of `count` gates from `first` on; states: of the tile's rows
 *     recurrent::meet()                 waits for all blocks of the cluster
 *     recurrent::share(states, rows)    the block's units of each row, to all blocks of the cluster; meets
 *
 * kept, sums and states are in dynamic shared memory, panel is not: [hidden][gates][units]. Sums take the place of
 * `parts` arrays [rows][gates][units], and end up in the first.
 */
void ig_cuda_recurrent(const struct ig_cuda_recurrent *recurrent, struct ig_text *text);

#endif
