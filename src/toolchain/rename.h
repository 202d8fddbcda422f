/*
 * Names in compiled code. Kernels are compiled under one name, and what is compiled fits all equal kernels, whatever they are
 * called. The names come in afterwards.
 */
#ifndef IG_TOOLCHAIN_RENAME_H
#define IG_TOOLCHAIN_RENAME_H

#include "toolchain/toolchain.h"

/* The name that kernels are compiled under; no shorter than any that they get. */
#define IG_ANY_KERNEL "ig_kernel_of_any_name"

/* The source with every identifier `from` replaced. */
const char *ig_source_rename(struct ig_job *job, const char *text, const char *from, const char *to);
/* The source without comments, which say which model it is from: no compiler's output depends on them. */
const char *ig_source_strip(struct ig_job *job, const char *text);
/* A copy of a cubin whose kernel is not called IG_ANY_KERNEL but `name`. Names stand in string tables only (ELF-64),
 * alone or at the end of a section's (".text.NAME"): the new one takes the old one's place, and zeroes what is left. */
struct ig_object_code ig_cubin_rename(struct ig_job *job, const struct ig_object_code *cubin, const char *name);
/* The same for PTX, which derives the names of parameters and variables from the kernel's. */
struct ig_object_code ig_ptx_rename(struct ig_job *job, const struct ig_object_code *ptx, const char *name);

#endif
