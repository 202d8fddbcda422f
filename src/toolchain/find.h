/* Which compiler this is. */
#ifndef IG_TOOLCHAIN_FIND_H
#define IG_TOOLCHAIN_FIND_H

#include "toolchain/toolchain.h"

/* A line for each program that takes part: the hash of the driver's file, of gcc's cc1 and of the assembler, "-" where
 * there is none. A driver that is a script is known by its text. */
const char *ig_toolchain_programs(struct ig_job *job, const struct ig_toolchain *toolchain);

#endif
