/* A collective as CUDA C++: the description's numbers as constants, then the template (exchange.cu), in the namespace
 * `exchange`. */
#ifndef IG_CODEGEN_CUDA_EXCHANGE_H
#define IG_CODEGEN_CUDA_EXCHANGE_H

#include "base/text.h"
#include "kernel/cuda/exchange_block.h"

/*
 * Declares, for all threads of all blocks together,
 *
 *     exchange::run(source, destination, seat, number, outer, inner, part0, part1, …)
 *
 * with the sizes of base/collective.h, one part for each rank, and the number of the collective in its plan.
 */
void ig_cuda_exchange(const struct ig_cuda_exchange *exchange, struct ig_text *text);

#endif
