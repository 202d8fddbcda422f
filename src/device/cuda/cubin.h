/*
 * Checks on a cubin before the driver gets it. A cubin is an ELF file of machine EM_CUDA. The driver takes its address
 * without a size and follows the tables inside, so these must end within the code. (Sources: the ELF-64 object file
 * format; the flags were read off the output of NVIDIA's assemblers of CUDA 11 to 13.)
 */
#ifndef IG_DEVICE_CUDA_CUBIN_H
#define IG_DEVICE_CUDA_CUBIN_H

#include "base/error.h"

/* Does `code` hold a complete cubin within `size` bytes? */
bool ig_cubin_is_whole(const void *code, size_t size);
/* The architecture of a complete cubin: 90 for sm_90 (and for sm_90a, which looks the same); 0 if its kind is
 * unknown. */
unsigned ig_cubin_architecture(const void *code);

#endif
