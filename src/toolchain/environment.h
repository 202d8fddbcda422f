/* What a compiler sees of this machine: the same everywhere, so that its output is. */
#ifndef IG_TOOLCHAIN_ENVIRONMENT_H
#define IG_TOOLCHAIN_ENVIRONMENT_H

#include "base/job.h"

/* Where programs are looked for. The library reads no environment variable; who wants $PATH searched looks there and
 * passes the path found (as the command line does). */
#define IG_SEARCH_PATH "/usr/local/bin:/usr/bin:/bin"

/* The environment of a compiler process: messages in English, temporary files in `folder` (NULL: wherever it likes), and
 * none of the variables by which compilers change what they produce (CPATH, GCC_EXEC_PREFIX, SOURCE_DATE_EPOCH, …). */
const char *const *ig_compiler_environment(struct ig_job *job, const char *folder);

/* A private folder for temporary files, removed with what is in it where the job fails, or by ig_folder_remove. */
struct ig_folder {
    struct ig_job *job;
    const char *path;
};
struct ig_folder *ig_folder_create(struct ig_job *job);
void ig_folder_remove(struct ig_folder *folder);

#endif
