/* Checks that kernels compile for a GPU, fast enough for thousands of them. */
#ifndef TESTS_NVRTC_CHECK_H
#define TESTS_NVRTC_CHECK_H

#include "toolchain/toolchain.h"

/* Prints the version of the NVRTC of $INGOT_NVRTC or the system's; if there is none, false and why. */
bool nvrtc_is_found(struct ingot_error *out_error);

/*
 * Compiles sources whose kernels are all called "kernel" for `arch`. Several are one program, since starting NVRTC takes as long as compiling a small kernel, and the optimiser is set to
 * be fast. If a program fails, its kernels are compiled one by one as builds do, and INGOT_TOOLCHAIN is raised with the
 * symbol of the failing one. Returns the bytes of machine code.
 */
size_t nvrtc_check(struct ig_job *job, const char *arch, const struct ig_source *sources, unsigned count);

/* Compiles each source as builds do; raises INGOT_TOOLCHAIN with the symbol of the first for which NVRTC notes a loss of
 * performance: products that follow each other instead of overlapping, or registers that are not handed over. */
void nvrtc_check_losses(struct ig_job *job, const char *arch, const struct ig_source *sources, unsigned count);

/* Runs a job, which is handed the name of an architecture and compiles for it, for each of them. Fails the test if one does not end
 * well; skips it if there is no NVRTC. */
void nvrtc_check_archs(void (*compile)(struct ig_job *job, void *arch), const char *const *archs, size_t count);

#endif
