/* Processes that verify case after case. */
#ifndef CLI_VERIFY_WORKER_H
#define CLI_VERIFY_WORKER_H

#include <poll.h>
#include <sys/types.h>

#include "verify.h"

struct outcome {
    enum verdict verdict;
    char message[INGOT_ERROR_MESSAGE_SIZE];
};

enum worker_state {
    WORKER_NONE, /* no process: never started, or it ended and was waited for */
    WORKER_IDLE,
    WORKER_BUSY,
    WORKER_LEAVING, /* has said what its last case came to, and ends */
};

struct worker {
    enum worker_state state;
    pid_t pid;
    int socket;
    size_t number;      /* the caller's, of its case */
    size_t done;        /* cases before it in this process */
    double deadline_ms; /* 0: none */
    size_t received;
    struct outcome outcome;
    bool ended_badly; /* one of its processes, on the way out: a leak or a crash that no case can answer for */
};

/* Whether the device is there, asked in a process of its own, since CUDA does not survive a fork: an exit status, after an
 * error message where that is not EXIT_DONE. */
int worker_check_device(const struct verify_arguments *arguments);
/* A new process for `worker`, which is none of the `count` at `all` that have one. False where there can be none (errno). */
bool worker_start(const struct verify_arguments *arguments, const struct worker *all, size_t count,
                  struct worker *worker);
/* Gives an idle worker a case, on so many processors where the arguments do not say how many. Where that fails, the process
 * has ended, and worker_receive will say how. */
void worker_give(const struct verify_arguments *arguments, struct worker *worker, size_t number, const char *path,
                 unsigned processors);
/* What poll can wait for: the worker says something, or ends. */
struct pollfd worker_poll(const struct worker *worker);
/* Takes what there is. True where `outcome` is now the whole outcome of case `number`: from then on the worker is idle,
 * leaving, or none. */
bool worker_receive(struct worker *worker);
/* Ends the process of a case that takes too long; worker_receive will tell of it. */
void worker_end_late(struct worker *worker);
/* Lets idle workers end, and waits for all. */
void worker_end_all(struct worker *workers, size_t count);

#endif
