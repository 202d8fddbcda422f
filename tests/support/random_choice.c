#include "support/random_choice.h"

#include "compile/specialize.h"
#include "compile/tuning.h"
#include "pass/pass.h"
#include "pass/precision.h"

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* The graph as the build's tuner sees it. */
static struct ig_graph *passed(struct ig_graph *g, const struct ingot_build_options *options,
                               const struct ig_target *target) {
    struct ig_precisions precisions;
    struct ig_pass_options o = {.target = target, .precisions = &precisions};
    ig_precisions_parse(g, options->precision, NULL, 0, &precisions);
    g = ig_specialize(g, NULL, 0);
    for (int i = 0; i < ig_pass_count; i++)
        if (ig_pass_enabled(options, i)) g = ig_passes[i].run(g, &o);
    return g;
}

void random_choices_write(struct ig_graph *graph, const struct ingot_build_options *options, uint64_t seed,
                          const char *path) {
    struct ig_job *job = graph->job;
    struct ig_target_choice target;
    struct ig_kernel_compiler compiler;
    struct ig_timing_cache none, cache;
    ig_target_parse(job, options->target, &target);
    ig_kernel_compiler_find(job, &target.target, options, &compiler);
    struct ig_graph *g = passed(graph, options, &target.target);
    struct ig_tune_options o = {.target = &target.target, .generated = true};
    o.compiler = ig_format(job, "ingot %s, %s", INGOT_VERSION, compiler.version);
    ig_timing_cache_init(&none, job);
    ig_timing_cache_init(&cache, job);
    ig_sizes_usual(g->dims, g->job, &o.sizes);
    struct ig_tuner *tuner = ig_tuner_create(job, &o, &none);
    for (uint32_t r = 0; r < g->regions.count; r++)
        ig_tuner_add(tuner, g, &g->regions.at[r]);
    ig_tuner_run(tuner);
    for (uint32_t r = 0; r < g->regions.count; r++) {
        const char *fingerprint = ig_tuner_fingerprint(g, &g->regions.at[r], &target.target);
        const struct ig_tuned *tuned = ig_tuner_get(tuner, fingerprint);
        for (uint32_t i = 0; tuned && i < tuned->rivals.count; i++) {
            struct ig_timing timing = {.fingerprint = fingerprint,
                                       .tactic = tuned->rivals.at[i].tactic,
                                       .shapes = ig_subject_shapes(g, &g->regions.at[r], &o.sizes),
                                       .device = "chance",
                                       .compiler = o.compiler,
                                       .nanoseconds = 1 + next(&seed)};
            ig_timing_cache_put(&cache, &timing);
        }
    }
    ig_timing_cache_save(&cache, path);
}
