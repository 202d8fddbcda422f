/*
 * Rows that a product's kernel computes before it multiplies them, a normalisation mostly: each block computes all of them, in shared
 * memory, and saves a kernel of one block in a chain that is bound by its length. For the product they are an operand in a buffer.
 */
#ifndef IG_KERNEL_CUDA_CONTRACT_ROWS_H
#define IG_KERNEL_CUDA_CONTRACT_ROWS_H

#include "kernel/family/contract.h"

enum { IG_CUDA_ROWS_FIRST = 4 /* at most */ };

struct ig_cuda_rows;

/* What the region computes of A with reductions (c->first); from then on A is a buffer. NULL: there are other numbers of rows, or they are
 * of several matrices, or no rows of the usual kind. */
struct ig_cuda_rows *ig_cuda_rows_find(struct ig_contract *c);
int ig_cuda_rows_most(const struct ig_cuda_rows *rows); /* 0 of NULL */
/* Nanoseconds that so many rows take, of `depth` elements, in a kernel of `tiles`: each block computes them for each of its tiles. From
 * decoders with 1024 and 4096 elements, whose norms lost to kernels of their own at the latter. */
double ig_cuda_rows_time(int most, int64_t depth, int64_t tiles);
/* Where they lie in dynamic shared memory, as that many elements, once c->kernel->threads is known; false: the kernel cannot compute them. */
bool ig_cuda_rows_prepare(struct ig_cuda_rows *rows, int offset);
/* What is loaded for them before the kernel waits for the preceding one; and their computation. */
void ig_cuda_rows_emit_constants(struct ig_cuda_rows *rows, struct ig_stmt *body);
void ig_cuda_rows_emit(struct ig_cuda_rows *rows, struct ig_stmt *body);

#endif
