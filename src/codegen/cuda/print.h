/*
 * Prints loop IR as CUDA C for NVRTC, without any #include. A block does one tile at a time; its threads divide the
 * SIMD loops of the tile and execute everything else together (the rules are in statement.c).
 */
#ifndef IG_CODEGEN_CUDA_PRINT_H
#define IG_CODEGEN_CUDA_PRINT_H

#include "kernel/kernel.h"

/* The translation unit of a kernel; its one external function is
 *     extern "C" __global__ void SYMBOL(T0 *buffer 0, …, long long dim 0, …, long long tiles, char *scratch)
 * where `scratch` has kernel->scratch_bytes per block of the grid. Block b does tiles b, b + gridDim.x, and so on. */
const char *ig_cuda_kernel(struct ig_job *job, const struct ig_kernel *kernel, const char *symbol,
                           const struct ig_target *target);

#endif
