/* Worker processes, which verify one case after another. */
#ifndef CLI_VERIFY_WORKER_H
#define CLI_VERIFY_WORKER_H

#include <poll.h>
#include <sys/types.h>

#include "verify/verify.h"

struct outcome {
    enum verdict verdict;
    char message[INGOT_ERROR_MESSAGE_SIZE];
};

enum worker_state {
    WORKER_NONE, /* no process: never started, or it has ended and was reaped */
    WORKER_IDLE,
    WORKER_BUSY,
    WORKER_LEAVING, /* has reported its last case, and is ending */
};

struct worker {
    enum worker_state state;
    pid_t pid;
    int socket;
    size_t number;      /* the caller's number of its case */
    size_t done;        /* earlier cases in this process */
    double deadline_ms; /* 0: none */
    size_t received;
    struct outcome outcome;
    bool ended_badly; /* one of its processes failed while exiting: a leak or a crash that belongs to no case */
};

/* Is the device available? Asked in a separate process, since CUDA does not survive a fork. Returns an exit status,
 * after printing an error unless it is EXIT_DONE. */
int worker_check_device(const struct verify_arguments *arguments);
/* Starts a process for `worker`. `all` are the `count` workers, some of which have one. False, with errno, if that
 * fails. */
bool worker_start(const struct verify_arguments *arguments, const struct worker *all, size_t count,
                  struct worker *worker);
/* Gives an idle worker a case, with that many processors unless the arguments say how many. If that fails, the process
 * has ended, and worker_receive reports it. */
void worker_give(const struct verify_arguments *arguments, struct worker *worker, size_t number, const char *path,
                 unsigned processors);
/* For poll: ready when the worker has sent something or has ended. */
struct pollfd worker_poll(const struct worker *worker);
/* Receives what is available. True if `outcome` is now the complete outcome of case `number`; the worker then is idle,
 * leaving, or none. */
bool worker_receive(struct worker *worker);
/* Kills the process of a case that timed out; worker_receive reports it. */
void worker_end_late(struct worker *worker);
/* Lets idle workers exit, and waits for all. */
void worker_end_all(struct worker *workers, size_t count);

#endif
