/*
 * Loop IR to CUDA C, for NVRTC: a text has no #include. A block does a tile at a time; its threads share the SIMD loops
 * of the tile and execute all else together (the rules are in print.c).
 */
#ifndef IG_CODEGEN_CUDA_PRINT_H
#define IG_CODEGEN_CUDA_PRINT_H

#include "kernel/kernel.h"

/* The whole translation unit of a kernel; its one external function is
 *     extern "C" __global__ void SYMBOL(T0 *buffer 0, …, long long dim 0, …, long long tiles, char *scratch)
 * where `scratch` has kernel->scratch_bytes for each block of the grid, whose blocks do the tiles in turns: block b does
 * b, b + gridDim.x, and so on. */
const char *ig_cuda_kernel(struct ig_job *job, const struct ig_kernel *kernel, const char *symbol,
                           const struct ig_target *target);

#endif
