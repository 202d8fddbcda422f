/* Regions, candidates, times and choices; see tune.h. agenda.c measures. */
#include "tune/tune.h"

#include <string.h>
#include <time.h>

#include "base/hash/hash.h"
#include "base/text.h"
#include "tune/tuner.h"

/* Candidates of a region; and, of the generated ones, those that are measured at further sizes. */
enum { MOST_CANDIDATES = 48, FEW = 4 };
/* Bytes of a region's operands at further sizes: ranges may be open, and so their ends far. */
#define MOST_BYTES (1ll << 30)

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
    const char *text = ig_region_fingerprint(graph, region, target).text;
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
    a->kernel = ig_kernel_candidate(a->region->graph, a->region->region, a->tuner->options.target, a->region->tuned.at,
                                    a->choice);
    (void)job;
}

/* At further sizes, only the first few generated candidates and the first of each library are. */
static bool is_wanted(const struct ig_tuner *t, const struct ig_tuned_region *r, const struct ig_kernel *kernel) {
    if (!kernel->tactic || is_known(r, kernel->tactic)) return false;
    if (kernel->library) return !t->options.generated && (r->further == 0 || kernel->library->choice == 0);
    return r->further == 0 || r->candidates.count < FEW;
}

static bool has_libraries(const struct ig_tuned_region *r) {
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        if (r->candidates.at[i].kernel->library) return true;
    }
    return false;
}

/* Stops at the first choice that fails. If that is number 0, there is no kernel, and whoever needs it reports the
 * error. Libraries come behind the generated candidates. */
static void find_candidates(struct ig_tuner *t, struct ig_tuned_region *r) {
    struct ingot_error error;
    bool all = r->further == 0 || has_libraries(&t->regions.at[r->usual]);
    for (int i = 0; i < MOST_CANDIDATES && (all || r->candidates.count < FEW); i++) {
        struct asking a = {.tuner = t, .region = r, .choice = i};
        enum ingot_status status = ig_job_run(t->job, ask, &a, &error);
        if (status == INGOT_OUT_OF_MEMORY) ig_raise_error(t->job, &error);
        if (status != INGOT_OK || !a.kernel) return;
        const struct ig_kernel *kernel = a.kernel;
        if (!is_wanted(t, r, kernel)) continue;
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
    struct ig_tuned_region r = {
        .graph = graph, .region = region, .fingerprint = fingerprint, .uses = 1, .usual = t->regions.count};
    r.tuned.at = &t->options.sizes;
    find_candidates(t, &r);
    ig_map_put_name(&t->by_fingerprint, fingerprint, t->regions.count);
    IG_PUSH(t->job, &t->regions, r);
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

struct ig_timing ig_tuner_key(const struct ig_tuner *t, const struct ig_tuned_region *r, const char *device,
                              const struct ig_tuned_candidate *c) {
    return (struct ig_timing){.fingerprint = r->fingerprint,
                              .tactic = c->kernel->tactic,
                              .shapes = r->tuned.shapes,
                              .device = device,
                              .compiler = t->options.compiler};
}

static bool has_times(const struct ig_tuner *t, const struct ig_tuned_region *r, const char *device) {
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        struct ig_timing key = ig_tuner_key(t, r, device, &r->candidates.at[i]);
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
        struct ig_timing key = ig_tuner_key(t, r, device, c);
        const struct ig_timing *timing = ig_timing_cache_get(t->cache, &key);
        if (!timing) continue;
        c->nanoseconds = timing->nanoseconds ? timing->nanoseconds : 1;
        c->reason = timing->reason;
    }
}

/* Chooses the fastest candidate; without times, the first that is neither rejected nor a library call; else the plain
 * schedule, if there is one. */
static void choose(struct ig_tuner *t, struct ig_tuned_region *r) {
    const struct ig_tuned_candidate *best = NULL, *first = NULL;
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        const struct ig_tuned_candidate *c = &r->candidates.at[i];
        struct ig_rival rival = {c->kernel, c->choice, c->kernel->tactic, c->nanoseconds, c->reason};
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

bool ig_tuned_region_is_complete(const struct ig_tuned_region *r) {
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        if (ig_candidate_is_open(&r->candidates.at[i])) return false;
    }
    return true;
}

/* ---- Further sizes ----------------------------------------------------------------------------------------------- */

static double bytes_of(struct ig_graph *g, const struct ig_sizes *sizes, ig_value v) {
    const struct ig_type *type = ig_type_of(g, v);
    double bytes = (double)ingot_dtype_size(type->dtype);
    for (int i = 0; i < type->rank; i++)
        bytes *= (double)ig_sizes_of(sizes, g->job, type->dim[i]);
    return bytes;
}

static double bytes_of_operands(const struct ig_tuned_region *r) {
    double bytes = 0;
    for (uint32_t i = 0; i < r->region->inputs.count; i++)
        bytes += bytes_of(r->graph, r->tuned.at, r->region->inputs.at[i]);
    for (uint32_t i = 0; i < r->region->outputs.count; i++)
        bytes += bytes_of(r->graph, r->tuned.at, r->region->outputs.at[i]);
    return bytes;
}

/* Raises if a size depends on more than the sizes of symbols, or if further sizes are too large. */
static void size_region(struct ig_job *job, void *argument) {
    struct ig_tuned_region *r = argument;
    const struct ig_sizes *sizes = r->tuned.at;
    r->tuned.shapes = ig_subject_shapes(r->graph, r->region, sizes);
    if (r->further > 0 && bytes_of_operands(r) > (double)MOST_BYTES)
        ig_raise(job, INGOT_UNSUPPORTED, "operands of more than %lld bytes", MOST_BYTES);
    r->work = (double)ig_sizes_of(sizes, job, r->candidates.at[0].kernel->work) * r->uses;
}

static void size(struct ig_tuner *t, struct ig_tuned_region *r) {
    struct ingot_error error;
    r->sized = r->candidates.count >= 2 && ig_job_run(t->job, size_region, r, &error) == INGOT_OK;
}

/* Is there the region at the same sizes already? */
static bool is_repeated(const struct ig_tuner *t, const struct ig_tuned_region *r) {
    for (uint32_t i = 0; i < t->regions.count; i++) {
        const struct ig_tuned_region *other = &t->regions.at[i];
        if (other->usual == r->usual && strcmp(other->tuned.shapes, r->tuned.shapes) == 0) return true;
    }
    return false;
}

/* Adds the regions whose cost depends on sizes at these sizes too. */
static void add_further(struct ig_tuner *t) {
    uint32_t count = t->regions.count;
    for (uint32_t i = 0; i < count * t->options.n_further; i++) {
        const struct ig_tuned_region *usual = &t->regions.at[i % count];
        struct ig_tuned_region r = {.graph = usual->graph,
                                    .region = usual->region,
                                    .fingerprint = usual->fingerprint,
                                    .uses = usual->uses,
                                    .further = i / count + 1,
                                    .usual = i % count};
        if (!usual->sized || !usual->candidates.at[0].kernel->model.cost) continue;
        r.tuned.at = &t->options.further[i / count];
        r.tuned.shapes = ig_subject_shapes(r.graph, r.region, r.tuned.at);
        if (is_repeated(t, &r)) continue;
        find_candidates(t, &r);
        size(t, &r);
        if (r.sized) IG_PUSH(t->job, &t->regions, r);
    }
}

/* ---- The decision ------------------------------------------------------------------------------------------------ */

/* Reads the times that decide, of one device at all sizes. */
static void read_final_times(struct ig_tuner *t, struct ig_tuned_region *r) {
    struct ig_tuned_region *usual = &t->regions.at[r->usual];
    if (!usual->device) usual->device = choose_device(t, r);
    read_times(t, r, usual->device && has_times(t, r, usual->device) ? usual->device : NULL);
}

/* A candidate that was rejected at further sizes must not run at the usual ones: its kernel would serve all sizes. */
static void reject_everywhere(struct ig_tuner *t, const struct ig_tuned_region *r) {
    struct ig_tuned_region *usual = &t->regions.at[r->usual];
    for (uint32_t i = 0; i < r->candidates.count; i++) {
        const struct ig_tuned_candidate *c = &r->candidates.at[i];
        for (uint32_t k = 0; k < usual->candidates.count && c->nanoseconds == IG_TIMING_REJECTED; k++) {
            struct ig_tuned_candidate *same = &usual->candidates.at[k];
            if (strcmp(same->kernel->tactic, c->kernel->tactic) != 0 || same->nanoseconds == IG_TIMING_REJECTED)
                continue;
            same->nanoseconds = IG_TIMING_REJECTED;
            same->reason = ig_format(t->job, "at %s: %s", r->tuned.shapes, c->reason ? c->reason : "rejected");
        }
    }
}

/* From the cache alone even if just measured, so that the decision is the same when the cache is used again. */
static void decide(struct ig_tuner *t) {
    for (uint32_t i = 0; i < t->regions.count; i++) {
        struct ig_tuned_region *r = &t->regions.at[i];
        if (!r->sized) continue;
        read_final_times(t, r);
        if (r->further > 0) reject_everywhere(t, r);
    }
    for (uint32_t i = 0; i < t->regions.count; i++) {
        struct ig_tuned_region *r = &t->regions.at[i];
        if (r->sized) choose(t, r);
        if (r->further > 0 && r->tuned.device) IG_PUSH(t->job, &t->regions.at[r->usual].tuned.elsewhere, &r->tuned);
    }
}

unsigned ig_tuner_run(struct ig_tuner *t) {
    uint32_t count = t->regions.count;
    for (uint32_t i = 0; i < count; i++)
        size(t, &t->regions.at[i]);
    add_further(t);
    for (uint32_t i = 0; i < t->regions.count; i++) {
        struct ig_tuned_region *r = &t->regions.at[i];
        if (!r->sized) continue;
        read_times(t, r, t->device);
        r->open = t->options.seconds > 0 && !ig_tuned_region_is_complete(r);
    }
    unsigned measured = t->options.seconds > 0 ? ig_agenda_run(t) : 0;
    decide(t);
    return measured;
}

const struct ig_tuned *ig_tuner_get(const struct ig_tuner *t, const char *fingerprint) {
    uint32_t at;
    if (!ig_map_get_name(&t->by_fingerprint, fingerprint, &at)) return NULL;
    return t->regions.at[at].sized ? &t->regions.at[at].tuned : NULL;
}
