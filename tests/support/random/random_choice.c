#include "support/random/random_choice.h"

#include "compile/estimates.h"
#include "compile/specialize.h"
#include "compile/variants/samples.h"
#include "compile/variants/tuning.h"
#include "pass/precision/precision.h"
#include "support/check/passes.h"

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* The graph as the build's tuner sees it. */
static struct ig_graph *passed(struct ig_graph *g, const struct ingot_build_options *options,
                               const struct ig_target *target) {
    struct ig_precisions precisions;
    struct ig_pass_options o = {
        .target = target, .estimator = ig_estimates_open(g->job, target), .precisions = &precisions};
    ig_precisions_parse(g, options->precision, NULL, 0, &precisions);
    precisions.everywhere = true;
    return passes_of_build(ig_specialize(g, NULL, 0, false), options, &o);
}

/* Adds random times of all candidates of the graph's regions at some sizes. */
static void add_times(struct ig_graph *g, const struct ig_tune_options *options, uint64_t *seed,
                      struct ig_timing_cache *cache) {
    struct ig_timing_cache none;
    ig_timing_cache_init(&none, g->job);
    struct ig_tuner *tuner = ig_tuner_create(g->job, options, &none);
    for (uint32_t r = 0; r < g->regions.count; r++)
        ig_tuner_add(tuner, g, &g->regions.at[r]);
    ig_tuner_run(tuner);
    for (uint32_t r = 0; r < g->regions.count; r++) {
        const char *fingerprint = ig_tuner_fingerprint(g, &g->regions.at[r], options->target);
        const struct ig_tuned *tuned = ig_tuner_get(tuner, fingerprint);
        for (uint32_t i = 0; tuned && i < tuned->rivals.count; i++) {
            struct ig_timing timing = {.fingerprint = fingerprint,
                                       .tactic = tuned->rivals.at[i].tactic,
                                       .shapes = tuned->shapes,
                                       .device = "chance",
                                       .compiler = options->compiler,
                                       .nanoseconds = 1 + next(seed)};
            ig_timing_cache_put(cache, &timing);
        }
    }
}

void random_choices_write(struct ig_graph *graph, const struct ingot_build_options *options, uint64_t seed,
                          const char *path) {
    struct ig_job *job = graph->job;
    struct ig_target_choice target;
    struct ig_kernel_compiler compiler;
    struct ig_timing_cache cache;
    struct ig_samples sizes;
    ig_target_parse(job, options->target, &target);
    ig_kernel_compiler_find(job, &target.target, options, NULL, &compiler);
    struct ig_graph *g = passed(graph, options, &target.target);
    struct ig_tune_options o = {.target = &target.target, .generated = true};
    o.compiler = ig_format(job, "ingot %s, %s", INGOT_VERSION, compiler.version);
    ig_timing_cache_init(&cache, job);
    ig_samples_make_few(g, &sizes);
    for (uint32_t i = 0; i < sizes.points.count; i++) {
        o.sizes = sizes.points.at[i];
        add_times(g, &o, &seed, &cache);
    }
    ig_timing_cache_save(&cache, path);
}
