/* What a tuner measures, in which order, and for how long; measure.c measures one region. */
#include "base/text.h"
#include "tune/tuner.h"

enum { ROUNDS = 2 /* candidates per compiler job in a batch */ };

/* The regions to measure: at the usual sizes first, and those with the most work first. */
struct agenda {
    struct ig_tuner *tuner;
    IG_VEC(struct ig_tuned_region *) regions;
    uint32_t next; /* the first region not yet compiled */
    double end;    /* when the budget is spent */
    double rate;   /* seconds of compilation per candidate; 0: unknown */
    struct ig_measuring measuring;
};

static double now(const struct ig_tuner *t) {
    return t->options.now(t->options.user);
}

static void open_bench(struct ig_job *job, void *argument) {
    struct agenda *a = argument;
    const struct ig_tune_options *o = &a->tuner->options;
    a->measuring.bench = ig_bench_open(job, o->target, o->features, o->gpu, o->device);
}

static void note(const struct ig_tuner *t, const char *text) {
    if (t->options.note) t->options.note(t->options.user, text);
}

static bool is_before(const struct ig_tuned_region *a, const struct ig_tuned_region *b) {
    return a->further != b->further ? a->further < b->further : a->work > b->work;
}

static void make_agenda(struct agenda *a) {
    struct ig_tuner *t = a->tuner;
    for (uint32_t i = 0; i < t->regions.count; i++) {
        struct ig_tuned_region *r = &t->regions.at[i];
        if (!r->open) continue;
        IG_PUSH(t->job, &a->regions, r);
        uint32_t at = a->regions.count - 1;
        for (; at > 0 && is_before(r, a->regions.at[at - 1]); at--)
            a->regions.at[at] = a->regions.at[at - 1];
        a->regions.at[at] = r;
    }
}

/* Leaves out candidates that call a library which this machine lacks. Times they already have still count. */
static void leave_out(struct agenda *a, uint32_t library, const char *why) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->regions.count; i++) {
        struct ig_tuned_region *r = a->regions.at[i];
        for (uint32_t k = 0; k < r->candidates.count; k++) {
            const struct ig_library_call *call = r->candidates.at[k].kernel->library;
            if (call && call->library == library) r->candidates.at[k].is_absent = true;
        }
        if (!ig_tuned_region_is_complete(r)) a->regions.at[kept++] = r;
    }
    a->regions.count = kept;
    note(a->tuner, ig_format(a->tuner->job, "%s is not measured: %s", ig_library_name(library), why));
}

static bool wants_library(const struct agenda *a, uint32_t library) {
    for (uint32_t i = 0; i < a->regions.count; i++) {
        const struct ig_tuned_region *r = a->regions.at[i];
        for (uint32_t k = 0; k < r->candidates.count; k++) {
            const struct ig_tuned_candidate *c = &r->candidates.at[k];
            if (!c->nanoseconds && c->kernel->library && c->kernel->library->library == library) return true;
        }
    }
    return false;
}

static void find_libraries(struct agenda *a) {
    struct ingot_error error;
    for (uint32_t library = 0; library < IG_LIBRARY_COUNT; library++) {
        if (!wants_library(a, library)) continue;
        if (ig_bench_need_library(a->measuring.bench, library, &error) != INGOT_OK)
            leave_out(a, library, error.message);
    }
}

static uint32_t count_missing(const struct ig_tuned_region *r) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->candidates.count; i++)
        count += ig_candidate_is_open(&r->candidates.at[i]);
    return count;
}

/* The number of regions to compile together: enough for the compiler's jobs, but no more than there is time for. */
static uint32_t batch_size(const struct agenda *a) {
    uint32_t count = 0, candidates = 0;
    double left = a->end - now(a->tuner);
    while (left > 0 && a->next + count < a->regions.count && candidates < ROUNDS * a->tuner->options.jobs) {
        candidates += count_missing(a->regions.at[a->next + count]);
        if (a->rate * candidates > left) break;
        count++;
    }
    return count;
}

static void compile_batch(struct agenda *a, uint32_t count) {
    uint32_t candidates = 0;
    double begin = now(a->tuner);
    for (uint32_t i = 0; i < count; i++)
        candidates += count_missing(a->regions.at[a->next + i]);
    ig_measure_compile(&a->measuring, a->regions.at + a->next, count);
    if (candidates) a->rate = (now(a->tuner) - begin) / candidates;
}

static void count_incomplete(const struct agenda *a, bool further, uint32_t *out_missing, uint32_t *out_all) {
    *out_missing = *out_all = 0;
    for (uint32_t i = 0; i < a->regions.count; i++) {
        if ((a->regions.at[i]->further > 0) != further) continue;
        *out_missing += !ig_tuned_region_is_complete(a->regions.at[i]);
        ++*out_all;
    }
}

/* Notes what remains unmeasured. */
static void conclude(const struct agenda *a, const char *failure) {
    struct ig_tuner *t = a->tuner;
    const char *why = failure ? failure : "the time was up";
    uint32_t missing, all;
    count_incomplete(a, false, &missing, &all);
    if (missing) note(t, ig_format(t->job, "%u of %u kernels are not tuned, or in part: %s", missing, all, why));
    count_incomplete(a, true, &missing, &all);
    if (missing)
        note(t, ig_format(t->job, "%u of %u measurements of kernels at further sizes are not made, or in part: %s",
                          missing, all, why));
}

static void write_times(struct ig_tuner *t, struct ig_tuned_region *r) {
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        struct ig_tuned_candidate *c = &r->candidates.at[i];
        if (!c->is_new) continue;
        struct ig_timing timing = ig_tuner_key(t, r, r->tuned.device, c);
        timing.nanoseconds = c->nanoseconds;
        timing.reason = c->reason;
        ig_timing_cache_put(t->cache, &timing);
    }
}

static void measure_agenda(struct agenda *a) {
    struct ig_tuner *t = a->tuner;
    const char *failure = NULL;
    bool usable = true;
    uint32_t count;
    while (usable && (count = batch_size(a)) > 0) {
        compile_batch(a, count);
        for (uint32_t i = 0; i < count && usable && now(t) < a->end; i++) {
            struct ig_tuned_region *r = a->regions.at[a->next + i];
            usable = ig_measure(&a->measuring, r);
            write_times(t, r);
            if (!failure || !usable) failure = a->measuring.failure;
            if (t->options.progress) t->options.progress(t->options.user, a->next + i + 1, a->regions.count);
        }
        a->next += count;
    }
    conclude(a, failure);
}

unsigned ig_agenda_run(struct ig_tuner *t) {
    struct agenda a = {.tuner = t, .end = now(t) + t->options.seconds};
    struct ingot_error error;
    make_agenda(&a);
    if (a.regions.count == 0) return 0;
    if (!t->device) {
        note(t, ig_format(t->job, "not tuned, the first choices are taken: %s", t->no_device));
        return 0;
    }
    if (ig_job_run(t->job, open_bench, &a, &error) != INGOT_OK) {
        note(t, ig_format(t->job, "not tuned, the first choices are taken: %s", error.message));
        return 0;
    }
    a.measuring = (struct ig_measuring){
        .job = t->job, .options = &t->options, .bench = a.measuring.bench, .weights = t->weights, .end = a.end};
    find_libraries(&a);
    measure_agenda(&a);
    ig_bench_close(a.measuring.bench);
    return a.measuring.measured;
}
