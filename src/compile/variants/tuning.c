/* Tuning as part of a build; see tuning.h and tune/tune.h. */
#include "compile/variants/tuning.h"

#include <string.h>

#include "base/cpu.h"
#include "compile/variants/samples.h"

struct tuning {
    const struct ingot_build_options *options;
    const struct ig_kernel_compiler *compiler;
    struct ig_job *job;
};

static const char *print(void *user, const struct ig_kernel *kernel, const char *symbol) {
    const struct tuning *t = user;
    return ig_kernel_compiler_print(t->job, t->compiler, kernel, symbol);
}

static void compile(void *user, const struct ig_source *sources, unsigned count, struct ig_code *out_code) {
    const struct tuning *t = user;
    ig_kernel_compiler_run(t->job, t->compiler, sources, count, NULL, NULL, out_code);
}

static void progress(void *user, unsigned done, unsigned total) {
    const struct tuning *t = user;
    if (t->options->progress) t->options->progress(t->options->progress_user, "tuning", done, total);
}

static void note(void *user, const char *text) {
    const struct tuning *t = user;
    if (t->options->note) t->options->note(t->options->note_user, text);
}

/* Also adds the bodies of control flow, whose kernels are like any others. */
static void add_regions(struct ig_tuner *tuner, struct ig_graph *g) {
    for (uint32_t i = 0; i < g->regions.count; i++) {
        const struct ig_region *region = &g->regions.at[i];
        if (ig_family_has_kernels(region->family) && !region->pushed) { /* which has one kernel */
            ig_tuner_add(tuner, g, region);
            continue;
        }
        for (int k = 0; k < 2; k++) {
            struct ig_graph *body = g->nodes.at[region->anchor].body[k];
            if (body) add_regions(tuner, body);
        }
    }
}

bool ig_tuning_is_wanted(const struct ingot_build_options *options) {
    return options->opt_level > 0 && (options->tune_seconds > 0 || options->n_timing_caches > 0);
}

const struct ig_tuner *ig_tuning_run(struct ig_graph *graph, const struct ingot_build_options *options,
                                     const struct ig_target_choice *target, const struct ig_kernel_compiler *compiler) {
    struct ig_job *job = graph->job;
    if (!ig_tuning_is_wanted(options)) return NULL;
    struct tuning *t = IG_NEW(job, struct tuning);
    *t = (struct tuning){options, compiler, job};
    struct ig_timing_cache *cache = IG_NEW(job, struct ig_timing_cache);
    ig_timing_cache_init(cache, job);
    for (size_t i = 0; i < options->n_timing_caches; i++)
        ig_timing_cache_load(cache, options->timing_caches[i]);
    const char *last = options->n_timing_caches > 0 ? options->timing_caches[options->n_timing_caches - 1] : NULL;
    if (last && options->tune_seconds > 0) ig_timing_cache_check(job, last);
    struct ig_tune_options o = {.target = compiler->target,
                                .features = target->required_features,
                                .gpu = options->device,
                                .compiler = ig_format(job, "ingot %s, %s", INGOT_VERSION, compiler->version),
                                .jobs = options->jobs ? options->jobs : ig_cpu_processors(),
                                .generated = options->tactics && strcmp(options->tactics, "generated") == 0,
                                .seconds = options->tune_seconds,
                                .print = print,
                                .compile = compile,
                                .progress = progress,
                                .note = note,
                                .user = t};
    struct ig_samples samples;
    ig_samples_make_few(graph, &samples);
    o.sizes = samples.points.at[0];
    if (options->variants > 1) {
        o.further = samples.points.at + 1;
        o.n_further = samples.points.count - 1;
    }
    struct ig_tuner *tuner = ig_tuner_create(job, &o, cache);
    add_regions(tuner, graph);
    unsigned measured = ig_tuner_run(tuner);
    if (last && measured > 0) ig_timing_cache_save(cache, last);
    return tuner;
}
