/*
 * Child processes, several at once, with what they print. Children are told apart by a pipe each, whose end says that
 * the child is done: no signal handler, no waiting for children that are not ours.
 */
#ifndef IG_TOOLCHAIN_PROCESS_H
#define IG_TOOLCHAIN_PROCESS_H

#include "base/job.h"

struct ig_processes;

/* Room for `capacity` children at once. They are killed and reaped where the job fails before they end. */
struct ig_processes *ig_processes_create(struct ig_job *job, unsigned capacity);
/* Gives the registration with the job back; nothing may be running. */
void ig_processes_destroy(struct ig_processes *processes);

/*
 * Starts the program at the path argv[0] with the environment `environment` and nothing else of
 * ours: no open input, default signals. There must be room. `tag` comes back with its end. Raises INGOT_TOOLCHAIN where
 * it cannot be started.
 */
void ig_process_start(struct ig_processes *processes, const char *const *argv, const char *const *environment,
                      unsigned tag);

struct ig_process_end {
    unsigned tag;
    int exit_status; /* -1: killed by a signal */
    int signal;
    const char *output; /* what it wrote to stdout and stderr, its first 64 KiB; terminated, in the arena */
};
/* Waits for the next child to end. At least one must be running. */
struct ig_process_end ig_process_wait(struct ig_processes *processes);

unsigned ig_processes_running(const struct ig_processes *processes);

#endif
