/* Measures the candidates of one region; see measure.h, and tune.h for the comparisons. */
#include "tune/measure.h"

#include <string.h>

#include "base/memory.h"
#include "ir/eval/eval.h"
#include "ir/winograd.h"

#define MOST_REFERENCE_PRODUCTS 5e8

/* A candidate being measured, or the plain schedule, which is no candidate. */
struct trial {
    struct ig_tuned_candidate *candidate;
    struct ig_candidate_code code;
    struct ig_source source;
    const char *broken; /* why it is unusable: not compiled, failed or wrong; NULL: usable so far */
    bool unlucky;       /* ran out of memory, which may not recur: neither measured nor rejected */
};

struct ig_trials {
    IG_VEC(struct trial) list; /* the plain schedule, if needed, is the last */
    bool is_heavy;             /* too expensive for the reference at full size */
    bool has_plain;
};

/* One region being measured. */
struct measure {
    struct ig_measuring *m;
    struct ig_job *job;
    struct ig_tuned_region *region;
    struct ig_trials *trials;
    void **results, **expected; /* by output, for the current sizes */
    size_t *sizes;              /* of these, in bytes */
    uint32_t n_results;
    const char *lost; /* why the device is unusable; NULL: it works */
};

/* ---- Host memory for results ------------------------------------------------------------------------------------- */

static size_t bytes_of(const struct ingot_tensor *t) {
    return (size_t)ingot_tensor_elements(t) * ingot_dtype_size(t->dtype);
}

static void drop_results(void *resource) {
    struct measure *x = resource;
    for (uint32_t i = 0; i < x->n_results; i++) {
        ig_release(x->job->allocator, x->results[i], x->sizes[i]);
        ig_release(x->job->allocator, x->expected[i], x->sizes[i]);
    }
    x->n_results = 0;
}

static void make_results(struct measure *x, const struct ig_subject *s) {
    x->results = IG_NEW_ARRAY(x->job, void *, s->n_outputs + 1);
    x->expected = IG_NEW_ARRAY(x->job, void *, s->n_outputs + 1);
    x->sizes = IG_NEW_ARRAY(x->job, size_t, s->n_outputs + 1);
    for (uint32_t i = 0; i < s->n_outputs; i++) {
        x->sizes[i] = bytes_of(&s->outputs[i]) + 64;
        x->results[i] = ig_allocate(x->job->allocator, x->sizes[i], 64);
        x->expected[i] = ig_allocate(x->job->allocator, x->sizes[i], 64);
        x->n_results = i + 1;
        if (!x->results[i] || !x->expected[i]) ig_raise(x->job, INGOT_OUT_OF_MEMORY, "out of memory for results");
    }
}

/* ---- Compiling --------------------------------------------------------------------------------------------------- */

/* Errors that are not the candidate's fault fail the build. */
static void raise_if_foreign(struct ig_job *job, const struct ingot_error *error) {
    if (error->status == INGOT_OUT_OF_MEMORY || error->status == INGOT_IO) ig_raise_error(job, error);
}

struct printing {
    const struct ig_tune_options *options;
    struct trial *trial;
};

static void print(struct ig_job *job, void *argument) {
    struct printing *p = argument;
    struct trial *t = p->trial;
    t->source = (struct ig_source){t->code.symbol, p->options->print(p->options->user, t->code.kernel, t->code.symbol)};
    (void)job;
}

static void add_trial(const struct ig_measuring *m, struct ig_trials *trials, const struct ig_kernel *kernel,
                      struct ig_tuned_candidate *candidate) {
    struct trial t = {.candidate = candidate, .code = {.kernel = kernel}};
    IG_PUSH(m->job, &trials->list, t);
}

static bool is_affordable(const struct ig_measuring *m, const struct ig_tuned_region *r, const struct ig_sizes *sizes) {
    int lanes = m->options->target->vector_bytes / 4;
    return (double)ig_sizes_of(sizes, m->job, r->candidates.at[0].kernel->work) * lanes <= MOST_REFERENCE_PRODUCTS;
}

static struct ig_trials *make_trials(const struct ig_measuring *m, struct ig_tuned_region *r) {
    struct ig_trials *trials = IG_NEW(m->job, struct ig_trials);
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        if (ig_candidate_is_open(&r->candidates.at[i]))
            add_trial(m, trials, r->candidates.at[i].kernel, &r->candidates.at[i]);
    }
    trials->is_heavy = !is_affordable(m, r, r->tuned.at);
    if (!trials->is_heavy) return trials;
    /* Plain code recovers transformed filters. Random numbers, which stand for large weights, are none. */
    if (ig_winograd_of(r->graph, &r->graph->nodes.at[r->region->anchor])) return trials;
    const struct ig_kernel *plain = ig_kernel_candidate(r->graph, r->region, m->options->target, NULL, IG_CHOICE_PLAIN);
    trials->has_plain = plain != NULL;
    if (plain) add_trial(m, trials, plain, NULL);
    return trials;
}

/* Trials of any regions, compiled together. */
struct compiling {
    const struct ig_tune_options *options;
    struct trial **trials;
    uint32_t count;
};

static void compile(struct ig_job *job, void *argument) {
    const struct compiling *c = argument;
    struct ig_source *sources = IG_NEW_ARRAY(job, struct ig_source, c->count + 1);
    struct ig_code *code = IG_NEW(job, struct ig_code);
    for (uint32_t i = 0; i < c->count; i++)
        sources[i] = c->trials[i]->source;
    c->options->compile(c->options->user, sources, c->count, code);
    for (uint32_t i = 0; i < c->count; i++) {
        c->trials[i]->code.code = code;
        c->trials[i]->code.index = i;
    }
}

/* Compiles all together; if that fails, each half by itself, down to the trials at fault. */
static void compile_trials(struct ig_job *job, const struct compiling *c) {
    struct ingot_error error;
    struct compiling all = *c;
    if (c->count == 0 || ig_job_run(job, compile, &all, &error) == INGOT_OK) return;
    raise_if_foreign(job, &error);
    if (c->count == 1) {
        c->trials[0]->broken = ig_format(job, "not compiled: %s", error.message);
        return;
    }
    const struct compiling halves[] = {{c->options, c->trials, c->count / 2},
                                       {c->options, c->trials + c->count / 2, c->count - c->count / 2}};
    compile_trials(job, &halves[0]);
    compile_trials(job, &halves[1]);
}

void ig_measure_compile(struct ig_measuring *m, struct ig_tuned_region *const *regions, uint32_t count) {
    struct ingot_error error;
    IG_VEC(struct trial *) all = {0};
    for (uint32_t i = 0; i < count; i++) {
        struct ig_trials *trials = regions[i]->trials = make_trials(m, regions[i]);
        for (uint32_t k = 0; k < trials->list.count; k++) {
            struct trial *t = &trials->list.at[k];
            struct printing p = {m->options, t};
            if (t->code.kernel->library) continue;
            t->code.symbol = ig_format(m->job, "candidate_%u", all.count);
            if (ig_job_run(m->job, print, &p, &error) == INGOT_OK) {
                IG_PUSH(m->job, &all, t);
            } else {
                raise_if_foreign(m->job, &error);
                t->broken = ig_format(m->job, "not printed: %s", error.message);
            }
        }
    }
    compile_trials(m->job, &(struct compiling){m->options, all.at, all.count});
}

/* ---- Checking ---------------------------------------------------------------------------------------------------- */

static void expect_reference(struct measure *x, const struct ig_subject *s) {
    struct ingot_tensor *outputs = IG_NEW_ARRAY(x->job, struct ingot_tensor, s->n_outputs + 1);
    ig_subject_evaluate(s, outputs);
    for (uint32_t i = 0; i < s->n_outputs; i++) {
        memcpy(x->expected[i], outputs[i].data, bytes_of(&outputs[i]));
        ig_eval_release(x->job, &outputs[i]);
    }
}

/* Notes why a trial failed, and whether the device is lost: after some failures it does nothing any more. */
static void fail(struct measure *x, struct trial *t, const char *what, const struct ingot_error *error) {
    struct ingot_error second;
    t->broken = ig_format(x->job, "%s: %s", what, error->message);
    t->unlucky = error->status == INGOT_OUT_OF_MEMORY;
    if (ig_bench_check(x->m->bench, &second) != INGOT_OK) x->lost = t->broken;
}

/* Runs a trial; if that fails, marks it as broken and returns false. */
static bool run(struct measure *x, struct trial *t, void *const *results) {
    struct ingot_error error = {INGOT_OK, ""};
    if (t->broken || x->lost) return false;
    if (ig_bench_run(x->m->bench, &t->code, results, &error) == INGOT_OK) return true;
    fail(x, t, "not run", &error);
    return false;
}

static void check(struct measure *x, const struct ig_subject *s, struct trial *t) {
    if (!run(x, t, x->results)) return;
    for (uint32_t i = 0; i < s->n_outputs && !t->broken; i++) {
        const char *wrong = ig_subject_compare(s, i, x->expected[i], x->results[i]);
        if (wrong) t->broken = ig_format(x->job, "wrong: of output %u, %s", i, wrong);
    }
}

static void begin(struct measure *x, const struct ig_subject *s, uint64_t weights) {
    struct ingot_error error;
    make_results(x, s);
    if (ig_bench_begin(x->m->bench, s, weights, &error) != INGOT_OK) ig_raise_error(x->job, &error);
}

static void end(struct measure *x, struct ig_subject *s) {
    ig_bench_end(x->m->bench);
    drop_results(x);
    ig_subject_destroy(s);
}

/* The sizes at which each symbol is the smallest allowed, but not 0. */
static struct ig_sizes least_sizes(struct measure *x) {
    const struct ig_sizes *given = x->region->tuned.at;
    struct ig_sizes least = {.dims = given->dims};
    for (uint32_t i = 0; i < given->symbols.count; i++) {
        int64_t lo, hi;
        ig_dim_range(given->dims, given->symbols.at[i], &lo, &hi);
        ig_sizes_set(&least, x->job, given->symbols.at[i], lo > 1 ? lo : 1);
    }
    return least;
}

/* Checks all trials against the reference at the least sizes, if that is affordable. */
static void check_small(struct measure *x) {
    struct ig_sizes least = least_sizes(x);
    if (!is_affordable(x->m, x->region, &least)) return;
    struct ig_subject *s = ig_subject_create(x->region->graph, x->region->region, &least);
    begin(x, s, 0);
    expect_reference(x, s);
    for (uint32_t i = 0; i < x->trials->list.count; i++)
        check(x, s, &x->trials->list.at[i]);
    end(x, s);
}

/* ---- Timing ------------------------------------------------------------------------------------------------------ */

static void decide(struct measure *x, struct trial *t, uint64_t nanoseconds) {
    if (t->unlucky) return;
    t->candidate->nanoseconds = t->broken ? IG_TIMING_REJECTED : nanoseconds ? nanoseconds : 1;
    t->candidate->reason = t->broken;
    t->candidate->is_new = true;
    x->m->measured++;
}

static void time_trial(struct measure *x, struct trial *t, uint64_t *best) {
    struct ingot_error error = {INGOT_OK, ""};
    uint64_t time = 0;
    if (ig_bench_time(x->m->bench, &t->code, *best, &time, &error) != INGOT_OK) {
        fail(x, t, "not run again", &error);
    } else if (!*best || time < *best) {
        *best = time;
    }
    decide(x, t, time);
}

/* The fastest of the candidates timed earlier. */
static uint64_t best_so_far(const struct ig_tuned_region *r) {
    uint64_t best = 0;
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        uint64_t time = r->candidates.at[i].nanoseconds;
        if (time && time != IG_TIMING_REJECTED && (!best || time < best)) best = time;
    }
    return best;
}

/* Is it the cost model's first choice, or a library's? */
static bool is_favourite(const struct measure *x, uint32_t i) {
    const struct ig_library_call *call = x->trials->list.at[i].code.kernel->library;
    return i == 0 || (call && call->choice == 0);
}

/* Times the favourites first, since the time may not suffice for the others. */
static void time_all(struct measure *x, const struct ig_subject *s) {
    uint64_t best = best_so_far(x->region);
    for (uint32_t k = 0; k < 2 * x->trials->list.count; k++) {
        uint32_t i = k % x->trials->list.count;
        struct trial *t = &x->trials->list.at[i];
        if (!t->candidate || is_favourite(x, i) != (k == i)) continue;
        if (k > 0 && x->m->options->now(x->m->options->user) > x->m->end) return;
        check(x, s, t);
        if (!t->broken && !x->lost) time_trial(x, t, &best);
    }
}

/* Rejects broken candidates, also one that lost the device, so that it does not do so again next time. */
static void reject_broken(struct measure *x) {
    for (uint32_t i = 0; i < x->trials->list.count; i++) {
        struct trial *t = &x->trials->list.at[i];
        if (t->candidate && t->broken && !t->candidate->is_new) decide(x, t, 0);
    }
}

/* Obtains the expected results at full size: the reference's, the plain schedule's or, in a family without one, those
 * of the first candidate that runs. False if there are none. */
static bool expect(struct measure *x, const struct ig_subject *s) {
    struct ig_trials *trials = x->trials;
    if (!trials->is_heavy) {
        expect_reference(x, s);
        return true;
    }
    if (trials->has_plain) return run(x, &trials->list.at[trials->list.count - 1], x->expected);
    for (uint32_t i = 0; i < trials->list.count; i++) {
        if (run(x, &trials->list.at[i], x->expected)) return true;
    }
    return false;
}

static void measure(struct ig_job *job, void *argument) {
    struct measure *x = argument;
    struct ig_tuned_region *r = x->region;
    ig_defer(job, drop_results, x);
    if (x->trials->is_heavy) check_small(x);
    struct ig_subject *s = ig_subject_create(r->graph, r->region, r->tuned.at);
    begin(x, s, x->m->weights);
    if (expect(x, s)) {
        time_all(x, s);
    } else {
        x->m->failure = "nothing tells what is right";
    }
    end(x, s);
    ig_undefer(job, x);
}

bool ig_measure(struct ig_measuring *m, struct ig_tuned_region *region) {
    struct ingot_error error;
    struct measure *x = IG_NEW(m->job, struct measure); /* not on the stack: a cleanup of the job uses it */
    *x = (struct measure){.m = m, .job = m->job, .region = region, .trials = region->trials};
    m->failure = NULL;
    if (ig_job_run(m->job, measure, x, &error) != INGOT_OK) {
        ig_bench_end(m->bench);
        m->failure = ig_strdup(m->job, error.message);
    }
    if (x->lost) m->failure = x->lost;
    reject_broken(x);
    region->trials = NULL;
    return !x->lost;
}
