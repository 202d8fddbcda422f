/*
 * ingot verify: many cases, a line for each.
 *
 * Every case runs in a process of its own, several at a time: a case that crashes or eats all memory is one failed case.
 * Lines come in the order of the arguments, unless any order will do.
 */
#include "verify.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a case's process writes to its pipe. */
struct outcome {
    enum verdict verdict;
    char message[INGOT_ERROR_MESSAGE_SIZE];
};

struct child {
    pid_t pid; /* 0: not started; -1: done */
    int pipe;
    double deadline_ms; /* 0: none */
    size_t received;
    struct outcome outcome;
    bool printed;
};

static void run_child(const struct verify_arguments *arguments, const char *path, int pipe) {
    struct outcome outcome;
    memset(&outcome, 0, sizeof outcome);
    outcome.verdict = verify_case(arguments, path, outcome.message, sizeof outcome.message);
    const char *at = (const char *)&outcome;
    for (size_t left = sizeof outcome; left > 0;) {
        ssize_t written = write(pipe, at, left);
        if (written <= 0) break;
        at += written;
        left -= (size_t)written;
    }
    exit(0); /* not _exit: sanitizers look for leaks on the way out */
}

/* Processors for one more case, its compilers and then its threads, beside `running` others and with `waiting` to come: together they have
 * about as many as there are, and the last cases, which are alone, more of them. */
static unsigned share_of_processors(const struct verify_arguments *arguments, size_t running, size_t waiting) {
    size_t beside = running + waiting, together = beside < arguments->parallel ? beside : arguments->parallel;
    size_t share = together ? arguments->processors / together : arguments->processors;
    return share > 1 ? (unsigned)share : 1;
}

/* The case uses `processors` where the caller did not say how many. */
static bool start(const struct verify_arguments *arguments, const char *path, unsigned processors,
                  struct child *child) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    fflush(NULL);
    child->pid = fork();
    if (child->pid == 0) {
        struct verify_arguments own = *arguments;
        if (own.build.jobs == 0) own.build.jobs = processors;
        if (own.context.threads == 0) own.context.threads = processors;
        close(ends[0]);
        run_child(&own, path, ends[1]);
    }
    close(ends[1]);
    child->pipe = ends[0];
    child->deadline_ms = arguments->timeout > 0 ? now_ms() + 1e3 * arguments->timeout : 0;
    if (child->pid > 0) return true;
    close(ends[0]);
    child->pid = 0;
    return false;
}

/* Takes what there is; at the pipe's end the case is over, and how it ended is known. */
static void receive(struct child *child) {
    char *to = (char *)&child->outcome + child->received;
    ssize_t got = read(child->pipe, to, sizeof child->outcome - child->received);
    if (got < 0 && errno == EINTR) return;
    if (got > 0) {
        child->received += (size_t)got;
        if (child->received < sizeof child->outcome) return;
    }
    int status = 0;
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    close(child->pipe);
    child->pid = -1;
    if (child->received == sizeof child->outcome && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    child->outcome.verdict = VERDICT_FAILED;
    if (child->deadline_ms > 0 && now_ms() > child->deadline_ms) {
        snprintf(child->outcome.message, sizeof child->outcome.message, "took longer than it may");
    } else if (WIFSIGNALED(status)) {
        snprintf(child->outcome.message, sizeof child->outcome.message, "crashed (%s)", strsignal(WTERMSIG(status)));
    } else {
        snprintf(child->outcome.message, sizeof child->outcome.message, "the process ended with status %d",
                 WEXITSTATUS(status));
    }
}

/* Milliseconds until the next deadline, for poll; -1: there is none. */
static int time_left(const struct child *children, size_t count) {
    double left = -1, now = now_ms();
    for (size_t i = 0; i < count; i++) {
        if (children[i].pid <= 0 || children[i].deadline_ms == 0) continue;
        double own = children[i].deadline_ms > now ? children[i].deadline_ms - now : 0;
        if (left < 0 || own < left) left = own;
    }
    return left < 0 ? -1 : left > 1e6 ? 1000000 : (int)left + 1;
}

/* A case that takes too long is ended; that it was shows when its pipe closes. */
static void end_late_ones(struct child *children, size_t count) {
    double now = now_ms();
    for (size_t i = 0; i < count; i++) {
        if (children[i].pid > 0 && children[i].deadline_ms > 0 && now > children[i].deadline_ms) {
            kill(children[i].pid, SIGKILL);
        }
    }
}

static void wait_for_some(struct child *children, size_t count) {
    struct pollfd *polls = cli_alloc(count, sizeof *polls);
    struct child **of = cli_alloc(count, sizeof *of);
    nfds_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (children[i].pid <= 0) continue;
        polls[n] = (struct pollfd){children[i].pipe, POLLIN, 0};
        of[n++] = &children[i];
    }
    if (poll(polls, n, time_left(children, count)) > 0) {
        for (nfds_t i = 0; i < n; i++) {
            if (polls[i].revents) receive(of[i]);
        }
    }
    end_late_ones(children, count);
    free(polls);
    free(of);
}

/* A message of several lines (a compiler's) becomes one. */
static void print_message(const char *message) {
    fputs(": ", stdout);
    for (; *message; message++)
        putchar(*message == '\n' ? ' ' : *message);
}

static void print_outcome(const char *path, const struct outcome *outcome) {
    static const char *const names[] = {"passed ", "FAILED ", "skipped"};
    printf("%s  %s", names[outcome->verdict], path);
    if (outcome->message[0]) print_message(outcome->message);
    putchar('\n');
    fflush(stdout);
}

static int verify_all(const struct verify_arguments *arguments, char **paths, size_t count) {
    struct child *children = cli_alloc(count, sizeof *children);
    size_t counts[3] = {0}, next = 0, printed = 0, running = 0;
    bool full = false;
    while (printed < count) {
        while (!full && next < count && running < arguments->parallel) {
            unsigned share = share_of_processors(arguments, running, count - next);
            if (!start(arguments, paths[next], share, &children[next])) {
                full = running > 0; /* wait until one is done */
                if (full) break;
                free(children);
                fprintf(stderr, "error: cannot start a process: %s\n", strerror(errno));
                return EXIT_SYSTEM;
            }
            next++;
            running++;
        }
        size_t before = 0, after = 0;
        for (size_t i = printed; i < next; i++)
            before += children[i].pid > 0;
        wait_for_some(children + printed, next - printed);
        for (size_t i = printed; i < next; i++)
            after += children[i].pid > 0;
        running = after;
        full = full && after == before;
        for (size_t i = printed; i < next && (arguments->any_order || children[i].pid == -1); i++) {
            if (children[i].pid != -1 || children[i].printed) continue;
            print_outcome(paths[i], &children[i].outcome);
            counts[children[i].outcome.verdict]++;
            children[i].printed = true;
        }
        while (printed < next && children[printed].printed)
            printed++;
    }
    free(children);
    printf("%zu passed, %zu failed, %zu skipped\n", counts[VERDICT_PASSED], counts[VERDICT_FAILED],
           counts[VERDICT_SKIPPED]);
    return counts[VERDICT_FAILED] ? EXIT_DIFFERENT : EXIT_DONE;
}

static bool read_tolerance(const char *text, double *out_value) {
    char *end;
    if (!text) return true;
    *out_value = strtod(text, &end);
    return end != text && *end == 0 && *out_value >= 0;
}

int cmd_verify(int argc, char **argv) {
    struct verify_arguments a = {.build = BUILD_ARGUMENTS_DEFAULT};
    const struct option_row rows[] = {
        {"rtol", 0, OPTION_TEXT, "R", "relative tolerance (default 1e-3, for narrower precisions\nmore)", &a.rtol},
        {"atol", 0, OPTION_TEXT, "A",
         "absolute tolerance (default 1e-6 + 1e-4 max|expected|,\nfor narrower precisions more)", &a.atol},
        {"shape", 's', OPTION_LIST, "NAME=SPEC", "a symbol or input of a model without data; repeatable",
         &a.build.shapes},
        {"seed", 0, OPTION_UNSIGNED, "N", "of the random inputs (default 0)", &a.seed},
        CONTEXT_OPTION_ROWS(a.context),
        {"parallel", 'p', OPTION_UNSIGNED, "N", "cases at once (default: one per processor)", &a.parallel},
        {"any-order", 0, OPTION_FLAG, NULL, "prints a case's line when it is over", &a.any_order},
        {"timeout", 0, OPTION_NUMBER, "S", "seconds that a case may take (default: as long as it takes)", &a.timeout},
        {"verify-passes", 0, OPTION_FLAG, NULL, "checks the graph after every pass", &a.build.verify_passes},
        BUILD_OPTION_ROWS(a.build),
        {0},
    };
    const struct option_table table = {
        "verify", "MODEL|FOLDER... [OPTION...]",
        "Builds, runs and compares. A FOLDER holds model.onnx and expected outputs: test_data_set_N/input_K.pb and\n"
        "output_K.pb, or .npz files with arrays named as the model's inputs and outputs; a tolerance.json in it "
        "(rtol,\n"
        "atol, mean: the largest mean error) overrides the tolerances, and the options here override that. A MODEL "
        "alone\n"
        "is compared with the reference evaluator on random inputs. --target reference runs that evaluator itself.\n"
        "Prints a line for each, then the counts. What Ingot refuses to do counts as skipped, with the reason.\n",
        rows};
    int status, count = options_parse(&table, argc, argv, &status);
    if (count == 0) status = cli_usage("verify", "no model or folder is given");
    if (count > 0) {
        if (!read_tolerance(a.rtol, &a.given.rtol) || !read_tolerance(a.atol, &a.given.atol)) {
            status = cli_usage("verify", "tolerances are numbers from 0 up");
        } else {
            long processors = sysconf(_SC_NPROCESSORS_ONLN);
            a.build.device = a.context.device;
            if (count > 1) a.build.quiet = true;
            a.processors = processors > 0 ? (unsigned)processors : 1;
            if (a.parallel == 0) a.parallel = a.processors;
            status = verify_all(&a, argv, (size_t)count);
        }
    }
    build_arguments_free(&a.build);
    return status;
}
