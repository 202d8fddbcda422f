/* Regions, candidates, times and choices; see tune.h. measure.c measures one region. */
#include "tune/tune.h"

#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/text.h"
#include "tune/measure.h"

enum { MOST_CANDIDATES = 48, ROUNDS = 2 /* candidates per compiler job in a batch */ };

struct ig_tuner {
    struct ig_job *job;
    struct ig_tune_options options;
    struct ig_timing_cache *cache;
    struct ig_map by_fingerprint;
    IG_VEC(struct ig_tuned_region) regions;
    uint64_t weights;      /* bytes of all weights */
    struct ig_map counted; /* weights already counted, by graph and value */
    const char *device;    /* this machine's; NULL: it has none for the target */
    const char *no_device; /* why `device` is NULL */
};

static double system_now(void *user) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Regions ----------------------------------------------------------------------------------------------------- */

struct ig_tuner *ig_tuner_create(struct ig_job *job, const struct ig_tune_options *options,
                                 struct ig_timing_cache *cache) {
    struct ig_tuner *t = IG_NEW(job, struct ig_tuner);
    *t = (struct ig_tuner){.job = job, .options = *options, .cache = cache};
    if (!t->options.now) t->options.now = system_now;
    t->device = ig_bench_device(job, options->target, options->features, options->gpu, &t->no_device);
    ig_map_init(&t->by_fingerprint, job);
    ig_map_init(&t->counted, job);
    return t;
}

const char *ig_tuner_fingerprint(struct ig_graph *graph, const struct ig_region *region,
                                 const struct ig_target *target) {
    const char *text = ig_region_fingerprint(graph, region, target);
    char *digits = ig_alloc(graph->job, 33);
    ig_hash128_print(ig_hash128(text, strlen(text)), digits);
    return digits;
}

static void count_weights(struct ig_tuner *t, struct ig_graph *g, const struct ig_region *region) {
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        struct {
            const struct ig_graph *graph;
            uint64_t value;
        } key = {g, region->inputs.at[i]};
        uint32_t unused;
        int64_t elements;
        const struct ig_value_info *info = ig_info(g, region->inputs.at[i]);
        if (!info->is_const || ig_map_get(&t->counted, &key, sizeof key, &unused)) continue;
        ig_map_put(&t->counted, &key, sizeof key, 1);
        if (ig_dim_is_const(g->dims, ig_type_elements(g->dims, &info->type), &elements))
            t->weights += (uint64_t)elements * ingot_dtype_size(info->type.dtype);
    }
}

/* Several choices may give the same candidate. */
static bool is_known(const struct ig_tuned_region *r, const char *tactic) {
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        if (strcmp(r->candidates.at[i].kernel->tactic, tactic) == 0) return true;
    }
    return false;
}

struct asking {
    const struct ig_tuner *tuner;
    const struct ig_tuned_region *region;
    int choice;
    struct ig_kernel *kernel;
};

static void ask(struct ig_job *job, void *argument) {
    struct asking *a = argument;
    a->kernel = ig_kernel_candidate(a->region->graph, a->region->region, a->tuner->options.target,
                                    &a->tuner->options.sizes, a->choice);
    (void)job;
}

/* Stops at the first choice that fails. If that is number 0, there is no kernel, and whoever needs it reports the
 * error. */
static void find_candidates(struct ig_tuner *t, struct ig_tuned_region *r) {
    struct ingot_error error;
    for (int i = 0; i < MOST_CANDIDATES; i++) {
        struct asking a = {.tuner = t, .region = r, .choice = i};
        enum ingot_status status = ig_job_run(t->job, ask, &a, &error);
        if (status == INGOT_OUT_OF_MEMORY) ig_raise_error(t->job, &error);
        if (status != INGOT_OK || !a.kernel) return;
        const struct ig_kernel *kernel = a.kernel;
        if (!kernel->tactic || is_known(r, kernel->tactic) || (kernel->library && t->options.generated)) continue;
        struct ig_tuned_candidate c = {.kernel = kernel, .choice = i};
        IG_PUSH(t->job, &r->candidates, c);
    }
}

void ig_tuner_add(struct ig_tuner *t, struct ig_graph *graph, const struct ig_region *region) {
    const char *fingerprint = ig_tuner_fingerprint(graph, region, t->options.target);
    uint32_t at;
    count_weights(t, graph, region);
    if (ig_map_get_name(&t->by_fingerprint, fingerprint, &at)) {
        t->regions.at[at].uses++;
        return;
    }
    struct ig_tuned_region r = {.graph = graph, .region = region, .fingerprint = fingerprint, .uses = 1};
    find_candidates(t, &r);
    ig_map_put_name(&t->by_fingerprint, fingerprint, t->regions.count);
    IG_PUSH(t->job, &t->regions, r);
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

static struct ig_timing key_of(const struct ig_tuner *t, const struct ig_tuned_region *r, const char *device,
                               const struct ig_tuned_candidate *c) {
    return (struct ig_timing){.fingerprint = r->fingerprint,
                              .tactic = c->kernel->tactic,
                              .shapes = r->tuned.shapes,
                              .device = device,
                              .compiler = t->options.compiler};
}

static bool has_times(const struct ig_tuner *t, const struct ig_tuned_region *r, const char *device) {
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        struct ig_timing key = key_of(t, r, device, &r->candidates.at[i]);
        if (ig_timing_cache_get(t->cache, &key)) return true;
    }
    return false;
}

/* This machine's device if there are times for it, else the first by name with times; NULL: there are no times. */
static const char *choose_device(const struct ig_tuner *t, const struct ig_tuned_region *r) {
    const char *first = NULL;
    if (t->device && has_times(t, r, t->device)) return t->device;
    for (uint32_t i = 0; i < t->cache->timings.count; i++) {
        const struct ig_timing *timing = &t->cache->timings.at[i];
        if (strcmp(timing->fingerprint, r->fingerprint) != 0 || (first && strcmp(timing->device, first) >= 0)) continue;
        if (has_times(t, r, timing->device)) first = timing->device;
    }
    return first;
}

/* Reads the times of a device; NULL: forgets all times. */
static void read_times(struct ig_tuner *t, struct ig_tuned_region *r, const char *device) {
    r->tuned.device = device;
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        struct ig_tuned_candidate *c = &r->candidates.at[i];
        c->nanoseconds = 0;
        c->reason = NULL;
        if (!device) continue;
        struct ig_timing key = key_of(t, r, device, c);
        const struct ig_timing *timing = ig_timing_cache_get(t->cache, &key);
        if (!timing) continue;
        c->nanoseconds = timing->nanoseconds ? timing->nanoseconds : 1;
        c->reason = timing->reason;
    }
}

static void write_times(struct ig_tuner *t, struct ig_tuned_region *r) {
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        struct ig_tuned_candidate *c = &r->candidates.at[i];
        if (!c->is_new) continue;
        struct ig_timing timing = key_of(t, r, r->tuned.device, c);
        timing.nanoseconds = c->nanoseconds;
        timing.reason = c->reason;
        ig_timing_cache_put(t->cache, &timing);
    }
}

/* Chooses the fastest candidate; without times, the first that is neither rejected nor a library call; else the plain
 * schedule, if there is one. */
static void choose(struct ig_tuner *t, struct ig_tuned_region *r) {
    const struct ig_tuned_candidate *best = NULL, *first = NULL;
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        const struct ig_tuned_candidate *c = &r->candidates.at[i];
        struct ig_rival rival = {c->kernel->tactic, c->nanoseconds, c->reason};
        IG_PUSH(t->job, &r->tuned.rivals, rival);
        if (c->nanoseconds == IG_TIMING_REJECTED) continue;
        if (!first && !c->kernel->library) first = c;
        if (c->nanoseconds && (!best || c->nanoseconds < best->nanoseconds)) best = c;
    }
    best = best ? best : first;
    if (best) {
        r->tuned.choice = best->choice;
        return;
    }
    struct ingot_error ignored;
    struct asking a = {.tuner = t, .region = r, .choice = IG_CHOICE_PLAIN};
    bool has_plain = ig_job_run(t->job, ask, &a, &ignored) == INGOT_OK && a.kernel;
    r->tuned.choice = has_plain ? IG_CHOICE_PLAIN : 0;
}

/* ---- The budget -------------------------------------------------------------------------------------------------- */

static double now(const struct ig_tuner *t) {
    return t->options.now(t->options.user);
}

struct sizing {
    struct ig_tuner *tuner;
    struct ig_tuned_region *region;
};

/* Raises if a size depends on more than the sizes of symbols. */
static void size_region(struct ig_job *job, void *argument) {
    struct sizing *z = argument;
    struct ig_tuned_region *r = z->region;
    const struct ig_sizes *sizes = &z->tuner->options.sizes;
    r->tuned.shapes = ig_subject_shapes(r->graph, r->region, sizes);
    r->work = (double)ig_sizes_of(sizes, job, r->candidates.at[0].kernel->work) * r->uses;
}

static bool is_complete(const struct ig_tuned_region *r) {
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        if (ig_candidate_is_open(&r->candidates.at[i])) return false;
    }
    return true;
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

/* The regions to measure, those with the most work first. */
struct agenda {
    struct ig_tuner *tuner;
    IG_VEC(struct ig_tuned_region *) regions;
    uint32_t next; /* the first region not yet compiled */
    double end;    /* when the budget is spent */
    double rate;   /* seconds of compilation per candidate; 0: unknown */
    struct ig_measuring measuring;
};

static void open_bench(struct ig_job *job, void *argument) {
    struct agenda *a = argument;
    const struct ig_tune_options *o = &a->tuner->options;
    a->measuring.bench = ig_bench_open(job, o->target, o->features, o->gpu, o->device);
}

static void note(const struct ig_tuner *t, const char *text) {
    if (t->options.note) t->options.note(t->options.user, text);
}

static void make_agenda(struct agenda *a) {
    struct ig_tuner *t = a->tuner;
    for (uint32_t i = 0; i < t->regions.count; i++) {
        struct ig_tuned_region *r = &t->regions.at[i];
        if (!r->open) continue;
        IG_PUSH(t->job, &a->regions, r);
        uint32_t at = a->regions.count - 1;
        for (; at > 0 && a->regions.at[at - 1]->work < r->work; at--)
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
        if (!is_complete(r)) a->regions.at[kept++] = r;
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

/* Notes what remains unmeasured. */
static void conclude(const struct agenda *a, const char *failure) {
    struct ig_tuner *t = a->tuner;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < a->regions.count; i++)
        missing += !is_complete(a->regions.at[i]);
    if (!missing) return;
    if (failure)
        note(t,
             ig_format(t->job, "%u of %u kernels are not tuned, or in part: %s", missing, a->regions.count, failure));
    else
        note(t, ig_format(t->job, "%u of %u kernels are not tuned, or in part: the time was up", missing,
                          a->regions.count));
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

/* Returns the number of candidates measured. */
static unsigned measure_all(struct ig_tuner *t) {
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

unsigned ig_tuner_run(struct ig_tuner *t) {
    unsigned count = 0;
    for (uint32_t i = 0; i < t->regions.count; i++) {
        struct ig_tuned_region *r = &t->regions.at[i];
        struct sizing sizing = {t, r};
        struct ingot_error error;
        if (r->candidates.count < 2 || ig_job_run(t->job, size_region, &sizing, &error) != INGOT_OK) continue;
        r->sized = true;
        read_times(t, r, t->device);
        r->open = t->options.seconds > 0 && !is_complete(r);
    }
    if (t->options.seconds > 0) count = measure_all(t);
    /* Reads times from the cache even if just measured, so that the decision is the same when the cache is used
     * again. */
    for (uint32_t i = 0; i < t->regions.count; i++) {
        struct ig_tuned_region *r = &t->regions.at[i];
        if (!r->sized) continue;
        read_times(t, r, choose_device(t, r));
        choose(t, r);
    }
    return count;
}

const struct ig_tuned *ig_tuner_get(const struct ig_tuner *t, const char *fingerprint) {
    uint32_t at;
    if (!ig_map_get_name(&t->by_fingerprint, fingerprint, &at)) return NULL;
    return t->regions.at[at].sized ? &t->regions.at[at].tuned : NULL;
}
