/*
 * Prints loop IR as freestanding C: no #include, no libc and no external symbol; gcc and clang compile it.
 */
#ifndef IG_CODEGEN_C_PRINT_H
#define IG_CODEGEN_C_PRINT_H

#include "kernel/kernel.h"

/* The translation unit of a kernel; its one external function is `symbol`. */
const char *ig_c_kernel(struct ig_job *job, const struct ig_kernel *kernel, const char *symbol,
                        const struct ig_target *target);

#endif
