/*
 * Concurrent child processes and their output. Each child has its own pipe, and end-of-file on it signals the child's
 * end: no signal handlers, and no waiting for children that are not ours.
 */
#ifndef IG_TOOLCHAIN_PROCESS_H
#define IG_TOOLCHAIN_PROCESS_H

#include "base/job.h"

struct ig_processes;

/* For at most `capacity` children at once. If the job fails first, they are killed and reaped. If this process is killed,
 * they and their own children are ended, and `folder` (an absolute path; NULL: none) is removed with its contents, by a
 * process that waits for that. */
struct ig_processes *ig_processes_create(struct ig_job *job, unsigned capacity, const char *folder);
/* Removes the registration with the job; no child may be running. */
void ig_processes_destroy(struct ig_processes *processes);

/*
 * Starts the program argv[0] (a path) with the given environment; it inherits nothing else: no open input, default
 * signals. Fewer than `capacity` children may be running. `tag` identifies it in ig_process_wait. Raises
 * INGOT_TOOLCHAIN if it cannot be started.
 */
void ig_process_start(struct ig_processes *processes, const char *const *argv, const char *const *environment,
                      unsigned tag);

struct ig_process_end {
    unsigned tag;
    int exit_status; /* -1: killed by a signal */
    int signal;
    const char *output; /* the first 64 KiB of stdout and stderr; NUL-terminated, in the arena */
};
/* Waits for the next child to end. At least one must be running. */
struct ig_process_end ig_process_wait(struct ig_processes *processes);

unsigned ig_processes_running(const struct ig_processes *processes);

#endif
