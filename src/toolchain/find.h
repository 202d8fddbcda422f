/* Which compiler this is. */
#ifndef IG_TOOLCHAIN_FIND_H
#define IG_TOOLCHAIN_FIND_H

#include "toolchain/toolchain.h"

/* A line for each program that takes part: which one the driver is, gcc's cc1 and the assembler (program.h), "-" where there
 * is none. A driver that is a script is known by its text. */
const char *ig_toolchain_programs(struct ig_job *job, const struct ig_toolchain *toolchain);

#endif
