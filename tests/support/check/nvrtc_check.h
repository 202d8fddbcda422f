/* Checks that kernels compile for a GPU, fast enough for thousands of them. */
#ifndef TESTS_NVRTC_CHECK_H
#define TESTS_NVRTC_CHECK_H

#include "toolchain/toolchain.h"

/*
 * Compiles sources whose kernels are all called "kernel" for `arch`, with the NVRTC of $INGOT_NVRTC or the system's.
 * Several are one program, since starting NVRTC takes as long as compiling a small kernel, and the optimiser is set to
 * be fast. If a program fails, its kernels are compiled one by one as builds do, and INGOT_TOOLCHAIN is raised with the
 * symbol of the failing one. Returns the bytes of machine code.
 */
size_t nvrtc_check(struct ig_job *job, const char *arch, const struct ig_source *sources, unsigned count);

#endif
