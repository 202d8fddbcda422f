/* Do kernels compile for a GPU? For tests that ask it of thousands. */
#ifndef TESTS_NVRTC_CHECK_H
#define TESTS_NVRTC_CHECK_H

#include "toolchain/toolchain.h"

/*
 * Compiles sources whose kernels are all called "kernel" for `arch`, by the NVRTC of $INGOT_NVRTC or the system's. Several
 * are one program, for NVRTC takes as long to begin one as to compile a small kernel, and optimisation is asked to be quick.
 * Where a program fails, its kernels are compiled as builds do, one by one, and INGOT_TOOLCHAIN is raised with the symbol of
 * the one that fails. Returns the bytes of machine code.
 */
size_t nvrtc_check(struct ig_job *job, const char *arch, const struct ig_source *sources, unsigned count);

#endif
