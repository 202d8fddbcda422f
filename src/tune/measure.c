/* Measuring the candidates of one region; see measure.h, and tune.h for what is compared with what. */
#include "tune/measure.h"

#include <string.h>

#include "base/memory.h"
#include "ir/eval.h"

#define MOST_REFERENCE_PRODUCTS 5e8

/* A candidate on its way, or the plain schedule, which has no candidate. */
struct trial {
    struct ig_tuned_candidate *candidate;
    struct ig_candidate_code code;
    struct ig_source source;
    bool broken; /* not compiled, failed or wrong */
};

struct measure {
    struct ig_measuring *m;
    struct ig_job *job;
    IG_VEC(struct trial) trials; /* the plain schedule is the last, where it is needed */
    bool is_heavy;               /* too much for the reference at full size */
    bool has_plain;
    void **results, **expected; /* by output, at the size that is being worked on */
    size_t *sizes;              /* of those */
    uint32_t n_results;
    bool lost; /* the device failed */
};

/* ---- Host memory for results ------------------------------------------------------------------------------------------- */

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

/* ---- Compiling ---------------------------------------------------------------------------------------------------------- */

static void add_trial(struct measure *x, const struct ig_kernel *kernel, struct ig_tuned_candidate *candidate) {
    const struct ig_tune_options *o = x->m->options;
    struct trial t = {.candidate = candidate};
    t.code.kernel = kernel;
    t.code.symbol = ig_format(x->job, "candidate_%u", x->trials.count);
    t.source = (struct ig_source){t.code.symbol, o->print(o->user, kernel, t.code.symbol)};
    IG_PUSH(x->job, &x->trials, t);
}

struct compiling {
    struct measure *x;
    uint32_t first, count;
};

static void compile(struct ig_job *job, void *argument) {
    struct compiling *c = argument;
    const struct ig_tune_options *o = c->x->m->options;
    struct ig_source *sources = IG_NEW_ARRAY(job, struct ig_source, c->count + 1);
    struct ig_code *code = IG_NEW(job, struct ig_code);
    for (uint32_t i = 0; i < c->count; i++)
        sources[i] = c->x->trials.at[c->first + i].source;
    o->compile(o->user, sources, c->count, code);
    for (uint32_t i = 0; i < c->count; i++) {
        c->x->trials.at[c->first + i].code.code = code;
        c->x->trials.at[c->first + i].code.index = i;
    }
}

/* All at once; where that fails, one by one, to find out which. */
static void compile_trials(struct measure *x) {
    struct ingot_error error;
    struct compiling all = {x, 0, x->trials.count};
    if (ig_job_run(x->job, compile, &all, &error) == INGOT_OK) return;
    for (uint32_t i = 0; i < x->trials.count; i++) {
        struct compiling one = {x, i, 1};
        if (ig_job_run(x->job, compile, &one, &error) != INGOT_OK) x->trials.at[i].broken = true;
    }
}

/* ---- Checking ------------------------------------------------------------------------------------------------------------ */

static bool is_affordable(struct measure *x, const struct ig_sizes *sizes) {
    int lanes = x->m->options->target->vector_bytes / 4;
    ig_dim work = x->m->region->candidates.at[0].kernel->work;
    return (double)ig_sizes_of(sizes, x->job, work) * lanes <= MOST_REFERENCE_PRODUCTS;
}

static void expect_reference(struct measure *x, const struct ig_subject *s) {
    struct ingot_tensor *outputs = IG_NEW_ARRAY(x->job, struct ingot_tensor, s->n_outputs + 1);
    ig_subject_evaluate(s, outputs);
    for (uint32_t i = 0; i < s->n_outputs; i++) {
        memcpy(x->expected[i], outputs[i].data, bytes_of(&outputs[i]));
        ig_eval_release(x->job, &outputs[i]);
    }
}

/* Runs a trial; false, and broken, where that fails. A GPU is of no use any more after a kernel that failed on it. */
static bool run(struct measure *x, struct trial *t, void *const *results) {
    struct ingot_error error = {INGOT_OK, ""};
    if (t->broken || x->lost) return false;
    if (ig_bench_run(x->m->bench, &t->code, results, &error) == INGOT_OK) return true;
    t->broken = true;
    x->lost = ig_target_is_cuda(x->m->options->target) && error.status == INGOT_DEVICE;
    return false;
}

static void check(struct measure *x, const struct ig_subject *s, struct trial *t) {
    if (!run(x, t, x->results)) return;
    for (uint32_t i = 0; i < s->n_outputs && !t->broken; i++)
        t->broken = ig_subject_compare(s, i, x->expected[i], x->results[i]) != NULL;
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

/* Sizes at which all symbols are as small as they may be, but not 0. */
static struct ig_sizes least_sizes(struct measure *x) {
    const struct ig_sizes *given = &x->m->options->sizes;
    struct ig_sizes least = {.dims = given->dims};
    for (uint32_t i = 0; i < given->symbols.count; i++) {
        int64_t lo, hi;
        ig_dim_range(given->dims, given->symbols.at[i], &lo, &hi);
        ig_sizes_set(&least, x->job, given->symbols.at[i], lo > 1 ? lo : 1);
    }
    return least;
}

/* Checks everything by the reference at the least sizes, if that is possible. */
static void check_small(struct measure *x) {
    struct ig_sizes least = least_sizes(x);
    if (!is_affordable(x, &least)) return;
    struct ig_subject *s = ig_subject_create(x->m->region->graph, x->m->region->region, &least);
    begin(x, s, 0);
    expect_reference(x, s);
    for (uint32_t i = 0; i < x->trials.count; i++)
        check(x, s, &x->trials.at[i]);
    end(x, s);
}

/* ---- Timing -------------------------------------------------------------------------------------------------------------- */

static void reject(struct measure *x, struct trial *t) {
    t->candidate->nanoseconds = IG_TIMING_REJECTED;
    t->candidate->is_new = true;
    x->m->measured++;
}

static void time_trial(struct measure *x, struct trial *t, uint64_t *best) {
    struct ingot_error error = {INGOT_OK, ""};
    uint64_t time;
    if (ig_bench_time(x->m->bench, &t->code, *best, &time, &error) != INGOT_OK) {
        x->lost = ig_target_is_cuda(x->m->options->target) && error.status == INGOT_DEVICE;
        reject(x, t);
        return;
    }
    t->candidate->nanoseconds = time ? time : 1;
    t->candidate->is_new = true;
    x->m->measured++;
    if (!*best || time < *best) *best = time;
}

static void time_all(struct measure *x, const struct ig_subject *s) {
    uint64_t best = 0;
    for (uint32_t i = 0; i < x->trials.count && !x->lost; i++) {
        struct trial *t = &x->trials.at[i];
        if (!t->candidate) continue;
        if (i > 0 && x->m->now() > x->m->end) return;
        check(x, s, t);
        if (t->broken) {
            reject(x, t);
        } else {
            time_trial(x, t, &best);
        }
    }
}

/* What the results at full size should be: the reference's, the plain schedule's, or, in a family without one, those of the
 * first candidate that is not broken. False where nothing tells. */
static bool expect(struct measure *x, const struct ig_subject *s) {
    if (!x->is_heavy) {
        expect_reference(x, s);
        return true;
    }
    if (x->has_plain) return run(x, &x->trials.at[x->trials.count - 1], x->expected);
    for (uint32_t i = 0; i < x->trials.count; i++) {
        if (run(x, &x->trials.at[i], x->expected)) return true;
    }
    return false;
}

static void measure(struct ig_job *job, void *argument) {
    struct measure *x = argument;
    struct ig_tuned_region *r = x->m->region;
    const struct ig_tune_options *o = x->m->options;
    ig_defer(job, drop_results, x);
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        if (!r->candidates.at[i].nanoseconds) add_trial(x, r->candidates.at[i].kernel, &r->candidates.at[i]);
    }
    x->is_heavy = !is_affordable(x, &o->sizes);
    if (x->is_heavy) {
        const struct ig_kernel *plain = ig_kernel_candidate(r->graph, r->region, o->target, IG_CHOICE_PLAIN);
        x->has_plain = plain != NULL;
        if (plain) add_trial(x, plain, NULL);
    }
    compile_trials(x);
    if (x->is_heavy) check_small(x);
    struct ig_subject *s = ig_subject_create(r->graph, r->region, &o->sizes);
    begin(x, s, x->m->weights);
    if (expect(x, s)) time_all(x, s);
    end(x, s);
    ig_undefer(job, x);
}

bool ig_measure(struct ig_measuring *m) {
    struct ingot_error error;
    struct measure *x = IG_NEW(m->job, struct measure); /* not on the stack: a cleanup of the job knows it */
    x->m = m;
    x->job = m->job;
    if (ig_job_run(m->job, measure, x, &error) != INGOT_OK) ig_bench_end(m->bench);
    return !x->lost;
}
