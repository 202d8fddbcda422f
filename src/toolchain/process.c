/*
 * Children started by posix_spawn and watched by poll; see process.h.
 *
 * All children of one call are a process group, and its leader is a guard: a shell that waits for the end of a pipe
 * that only this process can write to. When this process ends in whatever way, the guard ends the group and removes the
 * folder. prctl(PR_SET_PDEATHSIG) would end compiler drivers but not the compilers that they started, and would remove
 * nothing.
 */
#define _GNU_SOURCE /* pipe2 */
#include "toolchain/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "toolchain/environment.h"

#define OUTPUT_LIMIT ((size_t)64 << 10)

struct child {
    pid_t pid;
    int output; /* the read end of its pipe */
    unsigned tag;
    struct ig_text text;
};

struct ig_processes {
    struct ig_job *job;
    pid_t guard; /* the leader of the children's process group; 0: none, and each child leads its own */
    int leash;   /* the end of the pipe that the guard's input comes from */
    unsigned count, capacity;
    struct child *children; /* running ones first */
    struct pollfd *polls;
};

/* Waits for the child. Returns 0 if the application makes the system reap children: then there is no status. */
static int reap(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) return 0;
    }
    return status;
}

/* Waits until the pipe's other end is closed, so that a killed compiler's own children write no more files. The
 * timeout is for a process that has left the group and holds the pipe. */
static void await_end(int output) {
    char piece[4096];
    struct pollfd watch = {.fd = output, .events = POLLIN};
    while (poll(&watch, 1, 1000) > 0 && read(output, piece, sizeof piece) > 0)
        continue;
}

/* A descriptor of the child, or /dev/null where `fd` is negative. */
static int give(posix_spawn_file_actions_t *actions, int fd, int as) {
    return fd < 0 ? posix_spawn_file_actions_addopen(actions, as, "/dev/null", O_RDWR, 0)
                  : posix_spawn_file_actions_adddup2(actions, fd, as);
}

/* Sets up the child's files, group and signals; returns an errno. */
static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, int input, int output,
                   pid_t group) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int failure = give(actions, input, STDIN_FILENO);
    if (!failure) failure = give(actions, output, STDOUT_FILENO);
    if (!failure) failure = give(actions, output, STDERR_FILENO);
    if (!failure) failure = posix_spawnattr_setpgroup(attributes, group);
    if (!failure) failure = posix_spawnattr_setsigmask(attributes, &none);
    if (!failure) failure = posix_spawnattr_setsigdefault(attributes, &all);
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    return failure ? failure : posix_spawnattr_setflags(attributes, flags);
}

/* Starts a process in a group (0: that it leads itself); returns an errno. */
static int spawn(pid_t *out_pid, int input, int output, pid_t group, const char *const *argv,
                 const char *const *environment) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failure = posix_spawn_file_actions_init(&actions);
    if (failure) return failure;
    failure = posix_spawnattr_init(&attributes);
    if (!failure) {
        failure = prepare(&actions, &attributes, input, output, group);
        if (!failure) {
            failure = posix_spawn(out_pid, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv,
                                  (char *const *)(uintptr_t)environment);
        }
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return failure;
}

/* Kills what still runs, the compilers' own children and the guard included. */
static void kill_all(void *resource) {
    struct ig_processes *processes = resource;
    if (processes->guard) {
        kill(-processes->guard, SIGKILL);
        reap(processes->guard);
        close(processes->leash);
        processes->guard = 0;
    }
    for (unsigned i = 0; i < processes->count; i++) {
        kill(-processes->children[i].pid, SIGKILL); /* nothing where it was of the guard's group */
        await_end(processes->children[i].output);
        close(processes->children[i].output);
        reap(processes->children[i].pid);
    }
    processes->count = 0;
}

/* Starts the guard. Without a shell there is none: then compilers that run when this process is killed end by
 * themselves, and their folder remains. */
static void start_guard(struct ig_processes *processes, const char *folder) {
    /* Ignores the signal by which it ends the group. Removes the folder again if a compiler was still writing to it. */
    static const char watch[] = "trap '' TERM; read none; kill -TERM 0; test -z \"$0\" || rm -rf \"$0\" || "
                                "{ sleep 1; rm -rf \"$0\"; }";
    const char *const argv[] = {"/bin/sh", "-c", watch, folder ? folder : "", NULL};
    const char *const *environment = ig_compiler_environment(processes->job, NULL);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    int failure = spawn(&processes->guard, ends[0], -1, 0, argv, environment);
    close(ends[0]);
    if (!failure) {
        processes->leash = ends[1];
        return;
    }
    processes->guard = 0;
    close(ends[1]);
}

struct ig_processes *ig_processes_create(struct ig_job *job, unsigned capacity, const char *folder) {
    struct ig_processes *processes = IG_NEW(job, struct ig_processes);
    processes->job = job;
    processes->capacity = capacity ? capacity : 1;
    processes->children = IG_NEW_ARRAY(job, struct child, processes->capacity);
    processes->polls = IG_NEW_ARRAY(job, struct pollfd, processes->capacity);
    ig_defer(job, kill_all, processes);
    start_guard(processes, folder);
    return processes;
}

void ig_processes_destroy(struct ig_processes *processes) {
    kill_all(processes);
    ig_undefer(processes->job, processes);
}

unsigned ig_processes_running(const struct ig_processes *processes) {
    return processes->count;
}

void ig_process_start(struct ig_processes *processes, const char *const *argv, const char *const *environment,
                      unsigned tag) {
    struct ig_job *job = processes->job;
    IG_ASSERT(job, processes->count < processes->capacity);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) ig_raise(job, INGOT_DEVICE, "cannot make a pipe: %s", strerror(errno));
    struct child child = {.output = ends[0], .tag = tag};
    ig_text_init(&child.text, job);
    int failure = spawn(&child.pid, -1, ends[1], processes->guard, argv, environment);
    close(ends[1]);
    if (failure) {
        close(ends[0]);
        ig_raise(job, INGOT_TOOLCHAIN, "cannot run '%s': %s", argv[0], strerror(failure));
    }
    processes->children[processes->count++] = child; /* from here on the cleanup covers it */
}

/* Reads the output that is available; true at its end. */
static bool drain(struct child *child) {
    char piece[4096];
    ssize_t length = read(child->output, piece, sizeof piece);
    if (length < 0) return errno != EINTR && errno != EAGAIN;
    size_t room = OUTPUT_LIMIT - child->text.length;
    ig_text_add_n(&child->text, piece, (size_t)length < room ? (size_t)length : room);
    return length == 0;
}

static struct ig_process_end finish(struct ig_processes *processes, unsigned index) {
    struct child child = processes->children[index];
    processes->children[index] = processes->children[--processes->count];
    close(child.output);
    int status = reap(child.pid);
    return (struct ig_process_end){
        .tag = child.tag,
        .exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
        .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
        .output = child.text.at ? child.text.at : "",
    };
}

struct ig_process_end ig_process_wait(struct ig_processes *processes) {
    struct ig_job *job = processes->job;
    IG_ASSERT(job, processes->count > 0);
    for (;;) {
        for (unsigned i = 0; i < processes->count; i++) {
            processes->polls[i] = (struct pollfd){.fd = processes->children[i].output, .events = POLLIN};
        }
        if (poll(processes->polls, processes->count, -1) < 0) {
            if (errno == EINTR) continue;
            ig_raise(job, INGOT_DEVICE, "cannot wait for a process: %s", strerror(errno));
        }
        for (unsigned i = 0; i < processes->count; i++) {
            if (processes->polls[i].revents && drain(&processes->children[i])) return finish(processes, i);
        }
    }
}
