/*
 * What is looked at in a cubin before the driver gets it. A cubin is an ELF file of machine EM_CUDA; the driver takes its
 * address without a size and follows the tables in it, so it is checked here that they end where the code does. (Sources:
 * the ELF-64 object file format; the flags were read off the output of NVIDIA's assemblers of CUDA 11 to 13.)
 */
#ifndef IG_DEVICE_CUDA_CUBIN_H
#define IG_DEVICE_CUDA_CUBIN_H

#include "base/error.h"

/* Is there a whole cubin within the `size` bytes at `code`? */
bool ig_cubin_is_whole(const void *code, size_t size);
/* The architecture that a whole cubin is for: 90 for sm_90 (and for sm_90a, which looks the same); 0 where the cubin is
 * of a kind that is not known here. */
unsigned ig_cubin_architecture(const void *code);

#endif
