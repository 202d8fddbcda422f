/* The environment of compiler processes; see environment.h. */
#define _GNU_SOURCE /* mkdtemp under -std=c11 */
#include "toolchain/environment.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const *ig_compiler_environment(struct ig_job *job, const char *folder) {
    const char **environment = IG_NEW_ARRAY(job, const char *, 4);
    unsigned n = 0;
    environment[n++] = "PATH=" IG_SEARCH_PATH;
    environment[n++] = "LC_ALL=C";
    if (folder) environment[n++] = ig_format(job, "TMPDIR=%s", folder);
    return environment; /* the rest is NULL */
}

/* Ignores failures: there is nobody left to report to, and what remains are temporary files. */
static void remove_folder(void *resource) {
    struct ig_folder *folder = resource;
    DIR *listing = opendir(folder->path);
    if (listing) {
        for (struct dirent *entry; (entry = readdir(listing));) {
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
                unlinkat(dirfd(listing), entry->d_name, 0);
            }
        }
        closedir(listing);
    }
    rmdir(folder->path);
}

struct ig_folder *ig_folder_create(struct ig_job *job) {
    struct ig_folder *folder = IG_NEW(job, struct ig_folder);
    char *path = ig_strdup(job, P_tmpdir "/ingot-XXXXXX");
    folder->job = job;
    folder->path = path;
    if (!mkdtemp(path)) ig_raise(job, INGOT_IO, "cannot make a folder in '%s': %s", P_tmpdir, strerror(errno));
    ig_defer(job, remove_folder, folder);
    return folder;
}

void ig_folder_remove(struct ig_folder *folder) {
    remove_folder(folder);
    ig_undefer(folder->job, folder);
}
