/* The environment of compiler processes: the same on every machine, so that the output is. */
#ifndef IG_TOOLCHAIN_ENVIRONMENT_H
#define IG_TOOLCHAIN_ENVIRONMENT_H

#include "base/job.h"

/* The search path for programs. The library reads no environment variables; a caller that wants $PATH searched does so
 * and passes the path found (as the command line does). */
#define IG_SEARCH_PATH "/usr/local/bin:/usr/bin:/bin"

/* The environment of a compiler process: messages in English, temporary files in `folder` (NULL: the default), and none
 * of the variables that change what compilers produce (CPATH, GCC_EXEC_PREFIX, SOURCE_DATE_EPOCH, …). */
const char *const *ig_compiler_environment(struct ig_job *job, const char *folder);

/* A private folder for temporary files, removed with its contents by ig_folder_remove, or when the job fails. */
struct ig_folder {
    struct ig_job *job;
    const char *path;
};
struct ig_folder *ig_folder_create(struct ig_job *job);
void ig_folder_remove(struct ig_folder *folder);

#endif
