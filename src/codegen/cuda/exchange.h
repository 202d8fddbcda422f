/* A collective as CUDA C++: the description's numbers as constants, then the templates (exchange.cu, and exchange_row.cu for
 * one by rows), in the namespace `exchange`. */
#ifndef IG_CODEGEN_CUDA_EXCHANGE_H
#define IG_CODEGEN_CUDA_EXCHANGE_H

#include "base/text.h"
#include "kernel/cuda/exchange_block.h"

/*
 * Declares, for all threads of all blocks together,
 *
 *     exchange::run(source, destination, seat, number, outer, inner, part0, part1, …)
 *
 * with the sizes of base/collective.h, one part for each rank, and the number of the collective in its plan. Of an all-reduce
 * by rows it declares a class: the kernel begins with `exchange::rows all(seat);`, in which it waits for the one before, and
 * each block calls
 *
 *     SEND_ROWS(source, number, lines);      its row to the others; where ranks share a GPU, a launch may end here
 *     all.take(row, destination);            the reduced row, to shared memory and, if that is given, the destination
 *     all.leave();                           at the end
 */
void ig_cuda_exchange(const struct ig_cuda_exchange *exchange, struct ig_text *text);
/* Declares `exchange::push`, with which a product sends the rows that the kernel behind it reduces (exchange_push.cu); NULL: it does
 * nothing. */
void ig_cuda_push(const struct ig_cuda_exchange *exchange, struct ig_text *text);

#endif
