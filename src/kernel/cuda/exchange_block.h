/*
 * A collective as a CUDA kernel, described for codegen (codegen/cuda/exchange.c): everything that its text depends on.
 *
 * The kernel writes to the windows of the other ranks' GPUs and reads its own (base/window.h). Each block exchanges with
 * the blocks of its number, so that they need not all be resident.
 */
#ifndef IG_KERNEL_CUDA_EXCHANGE_BLOCK_H
#define IG_KERNEL_CUDA_EXCHANGE_BLOCK_H

#include "base/collective.h"
#include "base/window.h"

struct ig_cuda_exchange {
    enum ig_collective_kind kind;
    enum ig_reduction reduction;
    enum ingot_dtype dtype;
    uint32_t ranks, root;
    bool early; /* the kernel itself waits for the one before it, after it has read what never changes */
    int even;   /* 16, 8, or 0: what lies together of a rank's part is a multiple of so many bytes */
    /* Not 0: a short all-reduce of a matrix whose rows have so many elements. Each block reduces one row, of which it needs
     * all, and has a multiple of 32 threads, at least 128. The kernel's opening is IG_EXCHANGE_OPENING. */
    int64_t row;
    bool pushed; /* by rows: the product before it has sent the rows, this rank's too to itself (ir/graph.h) */
};
#define IG_EXCHANGE_OPENING "exchange::rows all(seat);"

#endif
