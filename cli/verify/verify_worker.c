/*
 * The processes of `ingot verify`. Each takes case after case, so that what is expensive to open, such as a GPU and
 * NVIDIA's compiler, is opened once. It ends after a failed case, because a crash, a sticky error of a GPU's context or
 * a memory fault could affect later cases.
 */
#include "verify/verify_worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The message to a worker; the path follows it. */
struct request {
    size_t length;
    unsigned processors;
};

static bool send_all(int socket, const void *data, size_t size) {
    for (const char *at = data; size > 0;) {
        ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* ---- In the worker */

static bool read_all(int socket, void *data, size_t size) {
    for (char *to = data; size > 0;) {
        ssize_t got = read(socket, to, size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        to += got;
        size -= (size_t)got;
    }
    return true;
}

static enum verdict do_case(const struct verify_arguments *arguments, const char *path, unsigned processors,
                            int socket) {
    struct verify_arguments own = *arguments;
    struct outcome outcome;
    memset(&outcome, 0, sizeof outcome);
    if (own.build.jobs == 0) own.build.jobs = processors;
    if (own.context.threads == 0) own.context.threads = processors;
    outcome.verdict = verify_case(&own, path, outcome.message, sizeof outcome.message);
    fflush(stdout); /* dumps precede the case's line */
    return send_all(socket, &outcome, sizeof outcome) ? outcome.verdict : VERDICT_FAILED;
}

static bool is_for_gpu(const struct verify_arguments *arguments) {
    return arguments->build.target && strncmp(arguments->build.target, "cuda", 4) == 0;
}

static _Noreturn void work(const struct verify_arguments *arguments, int socket) {
    struct ingot_gpu *gpu = NULL;
    struct request request;
    enum verdict verdict = VERDICT_PASSED;
    /* On failure the cases themselves report it. */
    if (is_for_gpu(arguments)) ingot_gpu_hold((int)arguments->context.device, &gpu, NULL);
    while (verdict != VERDICT_FAILED && read_all(socket, &request, sizeof request)) {
        char *path = cli_alloc(request.length + 1, 1);
        bool whole = read_all(socket, path, request.length);
        verdict = whole ? do_case(arguments, path, request.processors, socket) : VERDICT_FAILED;
        free(path);
    }
    ingot_gpu_release(gpu);
    exit(0); /* not _exit: sanitizers look for leaks on the way out */
}

/* ---- In the parent */

int worker_check_device(const struct verify_arguments *arguments) {
    struct ingot_gpu_info info;
    struct ingot_error error;
    if (!is_for_gpu(arguments)) return EXIT_DONE;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        exit(ingot_gpu_describe((int)arguments->context.device, &info, &error) ? cli_fail(&error) : EXIT_DONE);
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (pid > 0 && WIFEXITED(status)) return WEXITSTATUS(status);
    fprintf(stderr, "error: the process that was to ask for GPU %u could not be started, or crashed\n",
            arguments->context.device);
    return EXIT_SYSTEM;
}

bool worker_start(const struct verify_arguments *arguments, const struct worker *all, size_t count,
                  struct worker *worker) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < count; i++) {
            if (all[i].state != WORKER_NONE) close(all[i].socket); /* else those workers would never see end-of-file */
        }
        close(ends[0]);
        work(arguments, ends[1]);
    }
    int reason = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        errno = reason;
        return false;
    }
    *worker = (struct worker){.state = WORKER_IDLE, .pid = pid, .socket = ends[0], .ended_badly = worker->ended_badly};
    return true;
}

void worker_give(const struct verify_arguments *arguments, struct worker *worker, size_t number, const char *path,
                 unsigned processors) {
    struct request request;
    memset(&request, 0, sizeof request);
    request.length = strlen(path);
    request.processors = processors;
    worker->state = WORKER_BUSY;
    worker->number = number;
    worker->received = 0;
    worker->deadline_ms = arguments->timeout > 0 ? now_ms() + 1e3 * arguments->timeout : 0;
    if (send_all(worker->socket, &request, sizeof request)) send_all(worker->socket, path, request.length);
}

struct pollfd worker_poll(const struct worker *worker) {
    return (struct pollfd){worker->socket, POLLIN, 0};
}

/* Reaps the process, which has closed its end of the socket; returns its exit status. */
static int wait_for(struct worker *worker) {
    int status = 0;
    close(worker->socket);
    while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    worker->state = WORKER_NONE;
    return status;
}

static void say_how_it_ended(struct worker *worker, int status) {
    struct outcome *o = &worker->outcome;
    o->verdict = VERDICT_FAILED;
    if (worker->deadline_ms > 0 && now_ms() > worker->deadline_ms) {
        snprintf(o->message, sizeof o->message, "took longer than it may");
    } else if (WIFSIGNALED(status)) {
        snprintf(o->message, sizeof o->message, "crashed (%s)", strsignal(WTERMSIG(status)));
    } else {
        snprintf(o->message, sizeof o->message, "the process ended with status %d", WEXITSTATUS(status));
    }
}

/* The outcomes of its cases have been received. */
static void check_end(struct worker *worker, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    worker->ended_badly = true;
    if (WIFSIGNALED(status))
        fprintf(stderr, "error: a process crashed at the end of its %zu cases (%s)\n", worker->done,
                strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "error: a process ended its %zu cases with status %d\n", worker->done, WEXITSTATUS(status));
}

/* Handles end-of-file on the socket. */
static bool receive_end(struct worker *worker) {
    bool busy = worker->state == WORKER_BUSY;
    int status = wait_for(worker);
    if (busy)
        say_how_it_ended(worker, status);
    else
        check_end(worker, status);
    return busy;
}

bool worker_receive(struct worker *worker) {
    char rest, *to = worker->state == WORKER_BUSY ? (char *)&worker->outcome + worker->received : &rest;
    size_t room = worker->state == WORKER_BUSY ? sizeof worker->outcome - worker->received : 1;
    ssize_t got = read(worker->socket, to, room);
    if (got < 0 && errno == EINTR) return false;
    if (got <= 0) return receive_end(worker);
    worker->received += (size_t)got;
    if (worker->state != WORKER_BUSY || worker->received < sizeof worker->outcome) return false;
    worker->state = worker->outcome.verdict == VERDICT_FAILED ? WORKER_LEAVING : WORKER_IDLE;
    worker->done++;
    return true;
}

void worker_end_late(struct worker *worker) {
    bool works = worker->state == WORKER_BUSY || worker->state == WORKER_LEAVING;
    if (works && worker->deadline_ms > 0 && now_ms() > worker->deadline_ms) kill(worker->pid, SIGKILL);
}

void worker_end_all(struct worker *workers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (workers[i].state != WORKER_NONE) shutdown(workers[i].socket, SHUT_WR);
    }
    for (size_t i = 0; i < count; i++) {
        if (workers[i].state != WORKER_NONE) check_end(&workers[i], wait_for(&workers[i]));
    }
}
