/*
 * ingot verify: many cases, one line each.
 *
 * Several worker processes run in parallel, each verifying one case after another; a case that crashes, times out or
 * exhausts memory is one failed case. If a case fails in a process that ran others before it, a new process repeats it,
 * so that the verdict is about that case alone; the first outcome is reported too, since something may be wrong with
 * the earlier cases. Lines are printed in the order of the arguments, unless any order will do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verify/verify_worker.h"

struct result {
    bool over, printed, again; /* again: repeated in a new process; until `over`, `outcome` is the first one */
    struct outcome outcome;
};

struct run {
    const struct verify_arguments *arguments;
    char **paths;
    size_t count, next; /* cases, and how many of them have been started */
    struct result *results;
    struct worker *workers;
    size_t n_workers, running, n_again;
    size_t *again; /* cases to repeat in a new process */
    size_t printed, counts[3];
};

/* Processors for one more case, for its compilers and then its threads. Concurrent cases share all processors; towards
 * the end, when fewer cases run, each gets more. */
static unsigned share_of_processors(const struct run *r) {
    size_t beside = r->running + r->n_again + (r->count - r->next);
    size_t together = beside < r->n_workers ? beside : r->n_workers;
    size_t share = together ? r->arguments->processors / together : r->arguments->processors;
    return share > 1 ? (unsigned)share : 1;
}

static struct worker *find_worker(const struct run *r, enum worker_state state) {
    for (size_t i = 0; i < r->n_workers; i++) {
        if (r->workers[i].state == state) return &r->workers[i];
    }
    return NULL;
}

/* Starts a case on an available worker; false if no case or no worker is available. */
static bool begin_one(struct run *r) {
    struct worker *idle = find_worker(r, WORKER_IDLE), *none = find_worker(r, WORKER_NONE);
    bool again = r->n_again > 0 && none;
    if (!again && (r->next == r->count || (!idle && !none))) return false;
    struct worker *worker = !again && idle ? idle : none;
    if (worker->state == WORKER_NONE && !worker_start(r->arguments, r->workers, r->n_workers, worker)) return false;
    unsigned share = share_of_processors(r);
    size_t number = again ? r->again[--r->n_again] : r->next++;
    worker_give(r->arguments, worker, number, r->paths[number], share);
    r->running++;
    return true;
}

static bool was_late(const struct worker *worker) {
    return worker->deadline_ms > 0 && now_ms() > worker->deadline_ms;
}

/* The second verdict counts; if it differs, the first message is kept. */
static void keep_first_message(const struct outcome *first, struct outcome *second) {
    static const char what[] = "failed first in a process that had done other cases: ";
    if (second->verdict == VERDICT_FAILED) return;
    snprintf(second->message, sizeof second->message, "%s%.*s", what, (int)(sizeof first->message - sizeof what),
             first->message);
}

/* Records the outcome of a finished case, or schedules its repetition. */
static void settle(struct run *r, const struct worker *worker) {
    struct result *result = &r->results[worker->number];
    struct outcome outcome = worker->outcome;
    bool alone = worker->done == (worker->state == WORKER_NONE ? 0 : 1);
    r->running--;
    if (outcome.verdict == VERDICT_FAILED && !alone && !was_late(worker)) {
        r->again[r->n_again++] = worker->number;
        result->again = true;
    } else {
        if (result->again) keep_first_message(&result->outcome, &outcome);
        result->over = true;
    }
    result->outcome = outcome;
}

/* Milliseconds until the next deadline, for poll; -1: there is none. */
static int time_left(const struct run *r) {
    double left = -1, now = now_ms();
    for (size_t i = 0; i < r->n_workers; i++) {
        const struct worker *w = &r->workers[i];
        if ((w->state != WORKER_BUSY && w->state != WORKER_LEAVING) || w->deadline_ms == 0) continue;
        double own = w->deadline_ms > now ? w->deadline_ms - now : 0;
        if (left < 0 || own < left) left = own;
    }
    return left < 0 ? -1 : left > 1e6 ? 1000000 : (int)left + 1;
}

static void wait_for_some(struct run *r) {
    struct pollfd *polls = cli_alloc(r->n_workers, sizeof *polls);
    struct worker **of = cli_alloc(r->n_workers, sizeof *of);
    nfds_t n = 0;
    for (size_t i = 0; i < r->n_workers; i++) {
        if (r->workers[i].state != WORKER_BUSY && r->workers[i].state != WORKER_LEAVING) continue;
        polls[n] = worker_poll(&r->workers[i]);
        of[n++] = &r->workers[i];
    }
    if (poll(polls, n, time_left(r)) > 0) {
        for (nfds_t i = 0; i < n; i++) {
            if (polls[i].revents && worker_receive(of[i])) settle(r, of[i]);
        }
    }
    for (size_t i = 0; i < r->n_workers; i++)
        worker_end_late(&r->workers[i]);
    free(polls);
    free(of);
}

/* Joins the lines of a message (a compiler's) into one. */
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

static void print_what_is_over(struct run *r) {
    bool any = r->arguments->any_order;
    for (size_t i = r->printed; i < r->next && (any || r->results[i].over); i++) {
        if (!r->results[i].over || r->results[i].printed) continue;
        print_outcome(r->paths[i], &r->results[i].outcome);
        r->counts[r->results[i].outcome.verdict]++;
        r->results[i].printed = true;
    }
    while (r->printed < r->next && r->results[r->printed].printed)
        r->printed++;
}

static int finish(struct run *r) {
    bool well = r->counts[VERDICT_FAILED] == 0;
    worker_end_all(r->workers, r->n_workers);
    for (size_t i = 0; i < r->n_workers; i++)
        well = well && !r->workers[i].ended_badly;
    free(r->workers);
    free(r->results);
    free(r->again);
    return well ? EXIT_DONE : EXIT_DIFFERENT;
}

static int verify_all(const struct verify_arguments *arguments, char **paths, size_t count) {
    struct run r = {.arguments = arguments, .paths = paths, .count = count};
    r.n_workers = count < arguments->parallel ? count : arguments->parallel;
    r.workers = cli_alloc(r.n_workers, sizeof *r.workers);
    r.results = cli_alloc(count, sizeof *r.results);
    r.again = cli_alloc(r.n_workers, sizeof *r.again);
    while (r.printed < count) {
        while (begin_one(&r))
            continue;
        bool working = r.running > 0 || find_worker(&r, WORKER_LEAVING);
        if (!working) {
            fprintf(stderr, "error: cannot start a process: %s\n", strerror(errno));
            finish(&r);
            return EXIT_SYSTEM;
        }
        wait_for_some(&r);
        print_what_is_over(&r);
    }
    int status = finish(&r);
    printf("%zu passed, %zu failed, %zu skipped\n", r.counts[VERDICT_PASSED], r.counts[VERDICT_FAILED],
           r.counts[VERDICT_SKIPPED]);
    return status;
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
        RUN_RANK_OPTION_ROWS(a.build),
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
            status = worker_check_device(&a);
            if (status == EXIT_DONE) status = verify_all(&a, argv, (size_t)count);
        }
    }
    build_arguments_free(&a.build);
    return status;
}
