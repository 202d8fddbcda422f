/* Which program a file is. */
#ifndef IG_TOOLCHAIN_PROGRAM_H
#define IG_TOOLCHAIN_PROGRAM_H

#include "base/job.h"

/*
 * A text that differs for different programs: size and build ID, which linkers compute from the contents (ELF note
 * NT_GNU_BUILD_ID), because hashing 141 MB of NVRTC takes longer than all else in a build that finds its structure. For a file
 * that has none, such as a script, the hash of its bytes; "-" if it cannot be read.
 */
const char *ig_program_identity(struct ig_job *job, const char *path);

#endif
