/* Children started by posix_spawn and watched by poll; see process.h. */
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

#define OUTPUT_LIMIT ((size_t)64 << 10)

struct child {
    pid_t pid;
    int output; /* the read end of its pipe */
    unsigned tag;
    struct ig_text text;
};

struct ig_processes {
    struct ig_job *job;
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

/* Kills what still runs. Each child leads a process group, so that the compiler's own children end with it. */
static void kill_all(void *resource) {
    struct ig_processes *processes = resource;
    for (unsigned i = 0; i < processes->count; i++) {
        kill(-processes->children[i].pid, SIGKILL);
        await_end(processes->children[i].output);
        close(processes->children[i].output);
        reap(processes->children[i].pid);
    }
    processes->count = 0;
}

struct ig_processes *ig_processes_create(struct ig_job *job, unsigned capacity) {
    struct ig_processes *processes = IG_NEW(job, struct ig_processes);
    processes->job = job;
    processes->capacity = capacity ? capacity : 1;
    processes->children = IG_NEW_ARRAY(job, struct child, processes->capacity);
    processes->polls = IG_NEW_ARRAY(job, struct pollfd, processes->capacity);
    ig_defer(job, kill_all, processes);
    return processes;
}

void ig_processes_destroy(struct ig_processes *processes) {
    kill_all(processes);
    ig_undefer(processes->job, processes);
}

unsigned ig_processes_running(const struct ig_processes *processes) {
    return processes->count;
}

/* Sets up the child's files, group and signals; returns an errno. */
static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, int output) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int failure = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!failure) failure = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
    if (!failure) failure = posix_spawn_file_actions_adddup2(actions, output, STDERR_FILENO);
    if (!failure) failure = posix_spawnattr_setpgroup(attributes, 0);
    if (!failure) failure = posix_spawnattr_setsigmask(attributes, &none);
    if (!failure) failure = posix_spawnattr_setsigdefault(attributes, &all);
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    return failure ? failure : posix_spawnattr_setflags(attributes, flags);
}

static int spawn(pid_t *out_pid, int output, const char *const *argv, const char *const *environment) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failure = posix_spawn_file_actions_init(&actions);
    if (failure) return failure;
    failure = posix_spawnattr_init(&attributes);
    if (!failure) {
        failure = prepare(&actions, &attributes, output);
        if (!failure) {
            failure = posix_spawn(out_pid, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv,
                                  (char *const *)(uintptr_t)environment);
        }
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return failure;
}

void ig_process_start(struct ig_processes *processes, const char *const *argv, const char *const *environment,
                      unsigned tag) {
    struct ig_job *job = processes->job;
    IG_ASSERT(job, processes->count < processes->capacity);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) ig_raise(job, INGOT_DEVICE, "cannot make a pipe: %s", strerror(errno));
    struct child child = {.output = ends[0], .tag = tag};
    ig_text_init(&child.text, job);
    int failure = spawn(&child.pid, ends[1], argv, environment);
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
