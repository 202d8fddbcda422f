/* Regions, candidates, times and the choice; see tune.h. Measuring one region is measure.c. */
#include "tune/tune.h"

#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "tune/measure.h"

enum { MOST_CANDIDATES = 24 };

struct ig_tuner {
    struct ig_job *job;
    struct ig_tune_options options;
    struct ig_timing_cache *cache;
    struct ig_map by_fingerprint;
    IG_VEC(struct ig_tuned_region) regions;
    uint64_t weights;      /* bytes of all weights */
    struct ig_map counted; /* weights that were, by graph and value */
    const char *device;    /* of this machine; NULL: none for the target */
};

/* ---- Regions ---------------------------------------------------------------------------------------------------------- */

struct ig_tuner *ig_tuner_create(struct ig_job *job, const struct ig_tune_options *options,
                                 struct ig_timing_cache *cache) {
    struct ig_tuner *t = IG_NEW(job, struct ig_tuner);
    *t = (struct ig_tuner){.job = job, .options = *options, .cache = cache};
    t->device = ig_bench_device(job, options->target, options->features, options->gpu);
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

/* Two numbers of candidates may stand for the same one. */
static bool is_known(const struct ig_tuned_region *r, const char *tactic) {
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        if (strcmp(r->candidates.at[i].kernel->tactic, tactic) == 0) return true;
    }
    return false;
}

static void find_candidates(struct ig_tuner *t, struct ig_tuned_region *r) {
    for (int i = 0; i < MOST_CANDIDATES; i++) {
        struct ig_kernel *kernel = ig_kernel_candidate(r->graph, r->region, t->options.target, i);
        if (!kernel) return;
        if (!kernel->tactic || is_known(r, kernel->tactic)) continue;
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

/* ---- Times -------------------------------------------------------------------------------------------------------------- */

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

/* This machine's, if there are times of it or some are to be measured; else the first that there are times of, by name. */
static const char *choose_device(const struct ig_tuner *t, const struct ig_tuned_region *r) {
    const char *first = NULL;
    if (t->device && (t->options.seconds > 0 || has_times(t, r, t->device))) return t->device;
    for (uint32_t i = 0; i < t->cache->timings.count; i++) {
        const struct ig_timing *timing = &t->cache->timings.at[i];
        if (strcmp(timing->fingerprint, r->fingerprint) != 0 || (first && strcmp(timing->device, first) >= 0)) continue;
        if (has_times(t, r, timing->device)) first = timing->device;
    }
    return first;
}

static void read_times(struct ig_tuner *t, struct ig_tuned_region *r) {
    r->tuned.device = choose_device(t, r);
    for (uint32_t i = 0; r->tuned.device && i < r->candidates.count; i++) {
        struct ig_timing key = key_of(t, r, r->tuned.device, &r->candidates.at[i]);
        const struct ig_timing *timing = ig_timing_cache_get(t->cache, &key);
        if (timing) r->candidates.at[i].nanoseconds = timing->nanoseconds ? timing->nanoseconds : 1;
    }
}

static void write_times(struct ig_tuner *t, struct ig_tuned_region *r) {
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        struct ig_tuned_candidate *c = &r->candidates.at[i];
        if (!c->is_new) continue;
        struct ig_timing timing = key_of(t, r, r->tuned.device, c);
        timing.nanoseconds = c->nanoseconds;
        ig_timing_cache_put(t->cache, &timing);
    }
}

/* The fastest; without times the first that was not rejected. */
static void choose(struct ig_tuner *t, struct ig_tuned_region *r) {
    const struct ig_tuned_candidate *best = NULL, *first = NULL;
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        const struct ig_tuned_candidate *c = &r->candidates.at[i];
        struct ig_rival rival = {c->kernel->tactic, c->nanoseconds};
        IG_PUSH(t->job, &r->tuned.rivals, rival);
        if (c->nanoseconds == IG_TIMING_REJECTED) continue;
        if (!first) first = c;
        if (c->nanoseconds && (!best || c->nanoseconds < best->nanoseconds)) best = c;
    }
    best = best ? best : first;
    r->tuned.choice = best ? best->choice : 0;
}

/* ---- The budget ----------------------------------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct sizing {
    struct ig_tuner *tuner;
    struct ig_tuned_region *region;
};

/* Raises where a size depends on more than the sizes of symbols. */
static void size_region(struct ig_job *job, void *argument) {
    struct sizing *z = argument;
    struct ig_tuned_region *r = z->region;
    const struct ig_sizes *sizes = &z->tuner->options.sizes;
    r->tuned.shapes = ig_subject_shapes(r->graph, r->region, sizes);
    r->work = (double)ig_sizes_of(sizes, job, r->candidates.at[0].kernel->work) * r->uses;
}

static bool is_complete(const struct ig_tuned_region *r) {
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        if (!r->candidates.at[i].nanoseconds) return false;
    }
    return true;
}

/* The region with the most work that is not measured yet. */
static struct ig_tuned_region *next_region(struct ig_tuner *t) {
    struct ig_tuned_region *best = NULL;
    for (uint32_t i = 0; i < t->regions.count; i++) {
        struct ig_tuned_region *r = &t->regions.at[i];
        if (!r->open || (best && r->work <= best->work)) continue;
        best = r;
    }
    return best;
}

static unsigned measure_all(struct ig_tuner *t) {
    unsigned count = 0, done = 0, total = 0;
    double end = now() + t->options.seconds;
    struct ig_bench *bench = NULL;
    struct ig_tuned_region *r;
    for (uint32_t i = 0; i < t->regions.count; i++)
        total += t->regions.at[i].open;
    while ((r = next_region(t)) != NULL && now() < end) {
        if (!bench) bench = ig_bench_open(t->job, t->options.target, t->options.features, t->options.gpu);
        struct ig_measuring m = {.job = t->job,
                                 .options = &t->options,
                                 .bench = bench,
                                 .region = r,
                                 .weights = t->weights,
                                 .end = end,
                                 .now = now};
        bool usable = ig_measure(&m);
        count += m.measured;
        write_times(t, r);
        r->open = false;
        if (t->options.progress) t->options.progress(t->options.user, ++done, total);
        if (!usable) break;
    }
    if (bench) ig_bench_close(bench);
    return count;
}

unsigned ig_tuner_run(struct ig_tuner *t) {
    unsigned count = 0;
    for (uint32_t i = 0; i < t->regions.count; i++) {
        struct ig_tuned_region *r = &t->regions.at[i];
        struct sizing sizing = {t, r};
        struct ingot_error error;
        if (r->candidates.count < 2 || ig_job_run(t->job, size_region, &sizing, &error) != INGOT_OK) continue;
        r->sized = true;
        read_times(t, r);
        r->open = t->options.seconds > 0 && !is_complete(r);
    }
    if (t->options.seconds > 0) count = measure_all(t);
    for (uint32_t i = 0; i < t->regions.count; i++) {
        if (t->regions.at[i].sized) choose(t, &t->regions.at[i]);
    }
    return count;
}

const struct ig_tuned *ig_tuner_get(const struct ig_tuner *t, const char *fingerprint) {
    uint32_t at;
    if (!ig_map_get_name(&t->by_fingerprint, fingerprint, &at)) return NULL;
    return t->regions.at[at].sized ? &t->regions.at[at].tuned : NULL;
}
