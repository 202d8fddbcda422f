/*
 * The pipeline, a straight line: specialise, passes, tuning, kernels, plan, machine code, explanation, engine file.
 */
#include <string.h>

#include "base/text.h"
#include "compile/compile.h"
#include "compile/estimates.h"
#include "compile/explain.h"
#include "compile/io_types.h"
#include "compile/objects.h"
#include "compile/options.h"
#include "compile/plan_build.h"
#include "compile/quads.h"
#include "compile/refit/adapters.h"
#include "compile/refit/literals.h"
#include "compile/refit/recipes.h"
#include "compile/refit/refit.h"
#include "compile/refit/structure.h"
#include "compile/shard/agree.h"
#include "compile/shard/shard.h"
#include "compile/specialize.h"
#include "compile/variants/tuning.h"
#include "compile/weights.h"
#include "ir/text/print.h"
#include "pass/fuse/profit.h"
#include "pass/pass.h"
#include "pass/precision/precision.h"

/* One build. */
struct build {
    struct ig_job *job;
    const struct ingot_build_options *options;
    struct ig_target_choice target;
    struct ig_kernel_compiler compiler;
    struct ig_initializers *initializers; /* of the model */
    const struct ig_graph *model;         /* as imported */
    struct ig_graph *imported;            /* and specialised: what passes began with */
    struct ig_graph *graph;               /* of the first rank */
    IG_VEC(struct ig_rank_graph) ranks;   /* all that the engine has a plan for; one, where it is for one */
    IG_VEC(struct ig_sharding) shardings; /* by number of ranks */
    struct ig_precisions precisions;
    const struct ig_fuse_rule *fuse_rules;
    struct ig_variant_set variants;
    struct ig_kernel_set kernels;
    struct ig_built_plan built;
    struct ig_explanation explanation;
    bool structure_cached, engine_cached;
    struct ig_quads quads; /* of the weights that were written */
    bool counts;           /* instead of compiling: see ig_compile_count */
};

static void report(const struct build *b, const char *what, unsigned done, unsigned total) {
    if (b->options->progress) b->options->progress(b->options->progress_user, what, done, total);
}

/* ---- Passes --------------------------------------------------------------------------------------------------- */

static uint32_t count_nodes(const struct ig_graph *g) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const struct ig_node *n = &g->nodes.at[i];
        if (!ig_info(g, n->out)->is_const) count++;
        for (int k = 0; k < 2; k++)
            count += n->body[k] ? count_nodes(n->body[k]) : 0;
    }
    return count;
}

static void dump(const struct build *b, const char *pass) {
    const struct ingot_build_options *o = b->options;
    if (!o->dump || !o->dump_after || (strcmp(o->dump_after, pass) != 0 && strcmp(o->dump_after, "all") != 0)) return;
    struct ig_text text;
    ig_text_init(&text, b->job);
    ig_text_printf(&text, "; after %s\n", pass);
    ig_graph_print(b->graph, IG_PRINT_REGIONS, &text);
    o->dump->write(o->dump->user, text.at, text.length);
}

/* The graphs that the engine has plans for, from the imported one. */
static void divide(struct build *b) {
    const struct ingot_build_options *o = b->options;
    if (o->n_ranks == 0) {
        ig_sharding_check_alone(b->graph);
        IG_PUSH(b->job, &b->ranks, ((struct ig_rank_graph){.graph = b->graph, .ranks = 1}));
        return;
    }
    struct ig_graph *needed = ig_rewrite(b->graph, NULL, NULL, NULL);
    for (size_t i = 0; i < o->n_ranks; i++) {
        struct ig_sharding sharding;
        const struct ingot_build_options asked = ig_sharding_options(b->model, needed, o, o->ranks[i]);
        ig_sharding_make(needed, &b->target.target, &b->precisions, &asked, (int)o->ranks[i], &sharding);
        IG_PUSH(b->job, &b->shardings, sharding);
        for (uint32_t r = 0; r < o->ranks[i]; r++)
            IG_PUSH(b->job, &b->ranks, ((struct ig_rank_graph){sharding.graphs[r], o->ranks[i], r}));
    }
}

/* Of b->graph; only those of the first rank are reported. */
static void run_passes_on(struct build *b, bool reports) {
    struct ig_pass_options options = {.target = &b->target.target,
                                      .estimator = ig_estimates_open(b->job, &b->target.target),
                                      .precisions = &b->precisions,
                                      .fuse_rules = b->fuse_rules,
                                      .n_fuse_rules = b->options->n_fuse_of};
    dump(b, "import");
    for (int i = 0; i < ig_pass_count; i++) {
        const struct ig_pass *pass = &ig_passes[i];
        struct ig_pass_report r = {.name = pass->name, .nodes_before = count_nodes(b->graph)};
        r.ran = ig_pass_enabled(b->options, i);
        if (r.ran) {
            struct ig_where where = {.verb = "run pass", .name = pass->name};
            ig_where_push(b->job, &where);
            b->graph = pass->run(b->graph, &options);
            if (b->options->verify_passes) ig_graph_verify(b->graph, pass->name);
            ig_where_pop(b->job);
            dump(b, pass->name);
        }
        r.nodes_after = count_nodes(b->graph);
        if (reports) IG_PUSH(b->job, &b->explanation.passes, r);
    }
}

static void run_passes(struct build *b) {
    divide(b);
    for (uint32_t i = 0; i < b->ranks.count; i++) {
        b->graph = b->ranks.at[i].graph;
        run_passes_on(b, i == 0);
        ig_literals_to_memory(b->graph, &b->target.target);
        b->ranks.at[i].graph = b->graph;
    }
    b->graph = b->ranks.at[0].graph;
    for (uint32_t i = 0, first = 0; i < b->shardings.count; i++) {
        struct ig_sharding *s = &b->shardings.at[i];
        for (int r = 0; r < s->ranks; r++)
            s->graphs[r] = b->ranks.at[first++].graph;
        ig_sharding_verify(s);
        ig_shard_agree(s->graphs, s->ranks, &b->target.target);
        for (int r = 0; r < s->ranks; r++)
            ig_shard_push(s->graphs[r], &b->target.target);
        ig_shard_pair(s->graphs, s->ranks, &b->target.target);
    }
}

/* ---- Machine code --------------------------------------------------------------------------------------------- */

static void compile_progress(void *user, unsigned done, unsigned total) {
    report(user, "kernels", done, total);
}

static void note_refusals(const struct build *b) {
    const struct ingot_build_options *o = b->options;
    for (uint32_t i = 0; o->note && i < b->kernels.refusals.count; i++) {
        const struct ig_refusal *r = &b->kernels.refusals.at[i];
        o->note(o->note_user, ig_format(b->job, "a slower kernel was taken for one that failed%s%s: %s",
                                        *r->tactic ? ", " : "", r->tactic, r->error->message));
    }
}

static void make_code(struct build *b) {
    const struct ig_tuner *tuner = ig_tuning_run(b->graph, b->options, &b->target, &b->compiler);
    ig_variants_choose(b->graph, &b->target.target, tuner, b->options->variants, &b->variants);
    ig_kernel_set_init(&b->kernels, b->job, &b->compiler, tuner, &b->variants);
    ig_plan_build_ranks(b->ranks.at, b->ranks.count, b->imported, &b->kernels, &b->built);
    while (!ig_kernel_set_compile(&b->kernels, compile_progress, b)) {
        ig_kernel_set_restart(&b->kernels);
        ig_plan_build_ranks(b->ranks.at, b->ranks.count, b->imported, &b->kernels, &b->built);
    }
    note_refusals(b);
    ig_plan_set_entries(&b->built, &b->kernels);
}

/* Everything but compilers: the engine has a plan and no code. */
static void make_plan(struct build *b) {
    static const char no_code[64];
    b->compiler.target = &b->target.target;
    ig_variants_choose(b->graph, &b->target.target, NULL, b->options->variants, &b->variants);
    ig_kernel_set_init(&b->kernels, b->job, &b->compiler, NULL, &b->variants);
    ig_plan_build_ranks(b->ranks.at, b->ranks.count, b->imported, &b->kernels, &b->built);
    b->kernels.code = (struct ig_code){.bytes = (void *)(uintptr_t)no_code, .size = sizeof no_code};
}

/* ---- The engine ----------------------------------------------------------------------------------------------- */

/* Gives the writer the weights' bytes. */
struct weight_source {
    struct build *build;
    struct ig_weight_reader *reader;
    uint32_t *place; /* by weight: its number among those that are written */
    size_t *quad;    /* by weight: the bytes of a quad (quads.h), or 0 */
    uint32_t index;
    const void *data;
    size_t size;
};

static void read_piece(struct ig_job *job, void *argument) {
    struct weight_source *s = argument;
    s->data = ig_weights_read(s->reader, s->place[s->index], &s->size);
    if (s->quad[s->index]) ig_quads_count(s->data, s->size, s->quad[s->index], &s->build->quads);
}

/* Called by the writer, which must not be left by a raise: so a nested job call turns a raise into a status. */
static enum ingot_status read_weight(void *user, uint32_t index, const void **out_data, size_t *out_size,
                                     struct ingot_error *error) {
    struct weight_source *s = user;
    s->index = index;
    report(s->build, "weights", index + 1, s->build->built.weights.count);
    IG_TRY(ig_job_run(s->build->job, read_piece, s, error));
    *out_data = s->data;
    *out_size = s->size;
    return INGOT_OK;
}

/* Of an engine without weights, only those that depend on no initialiser are evaluated. */
static void open_weights(struct weight_source *s, const struct ig_engine_image *image) {
    struct build *b = s->build;
    uint32_t count = b->built.weights.count, written = 0;
    struct ig_weight *weights = IG_NEW_ARRAY(b->job, struct ig_weight, count + 1);
    s->place = IG_NEW_ARRAY(b->job, uint32_t, count + 1);
    s->quad = IG_NEW_ARRAY(b->job, size_t, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        if (image->stripped && image->refit.weights[i].recipe_size) continue;
        s->place[i] = written;
        s->quad[i] = ig_quad_size(&b->target.target, &b->built.weights.at[i]);
        weights[written++] = b->built.weights.at[i];
    }
    s->reader = ig_weights_open(b->job, weights, written, b->options->jobs);
}

static void write_engine(struct build *b, bool stripped, const struct ig_engine_sink *sink) {
    struct weight_source source = {.build = b};
    struct ig_engine_image image = {
        .target = b->target.name,
        .required_features = b->target.required_features,
        .plan = b->built.plan,
        .code = b->kernels.code.bytes,
        .code_size = b->kernels.code.size,
        .stripped = stripped,
        .weight_read = read_weight,
        .weight_user = &source,
        .explanation = b->counts ? "{}" : ig_explain(&b->explanation),
    };
    ig_recipes_make(b->job, b->initializers, &b->built, image.stripped, &image.refit);
    open_weights(&source, &image);
    struct ingot_error error;
    enum ingot_status status = ig_engine_write(&image, sink, b->job->allocator, &error);
    ig_weights_close(source.reader);
    if (status != INGOT_OK) ig_raise_error(b->job, &error);
}

/* ---- Structures --------------------------------------------------------------------------------------------------- */

static void copy_engine(struct ig_job *job, const void *data, size_t size, const struct ig_engine_sink *sink) {
    struct ingot_error error;
    if (sink->write(sink->user, data, size, &error) != INGOT_OK) ig_raise_error(job, &error);
}

/* `found` is what the build makes but for the weights; NULL: it has made that. */
static void produce(struct build *b, const struct ig_engine_file *found, const struct ig_engine_sink *sink) {
    const struct ingot_build_options *o = b->options;
    if (!found) {
        write_engine(b, o->strip_weights, sink);
    } else if (o->strip_weights) {
        copy_engine(b->job, found->data, found->size, sink);
    } else {
        const struct ig_refit_input input = {
            .file = found, .progress = o->progress, .progress_user = o->progress_user, .jobs = o->jobs};
        ig_refit_complete(b->job, &input, b->initializers, sink);
    }
}

static void release_memory(void *memory) {
    ig_engine_memory_release(memory);
}

/* An engine in memory, until it is dropped or the job fails. */
static struct ig_engine_memory *new_memory(struct ig_job *job) {
    struct ig_engine_memory *memory = IG_NEW(job, struct ig_engine_memory);
    memory->allocator = job->allocator;
    ig_defer(job, release_memory, memory);
    return memory;
}

static void drop_memory(struct ig_job *job, struct ig_engine_memory *memory) {
    ig_undefer(job, memory);
    ig_engine_memory_release(memory);
}

/* "cuda:sm_90a, fp16, NVRTC 13.0" */
static const char *label_of(const struct build *b) {
    return ig_format(b->job, "%s, %s, %s", b->target.name, ig_precisions_text(b->job, &b->precisions),
                     b->compiler.version);
}

/* A structure with a kernel that failed is not kept, since next time it may not. */
static bool is_kept(const struct build *b) {
    return b->kernels.refusals.count == 0;
}

static void keep_structure(struct build *b, struct ig_structures *structures) {
    struct ig_engine_memory *memory = new_memory(b->job);
    const struct ig_engine_sink sink = ig_engine_memory_sink(memory);
    write_engine(b, true, &sink);
    ig_structures_keep(structures, label_of(b), memory);
    drop_memory(b->job, memory);
}

static uint64_t weights_size(const struct build *b, const struct ig_engine_file *found) {
    const struct ig_weight *last = b->built.weights.count ? &b->built.weights.at[b->built.weights.count - 1] : NULL;
    if (found) return ig_refit_weights_size(&found->refit);
    return last ? last->offset + last->size : 0;
}

/* From the cache of engines, or through memory into it. */
static void produce_kept(struct build *b, struct ig_structures *structures, const struct ig_engine_file *found,
                         const struct ig_engine_sink *sink) {
    b->engine_cached = found && ig_structures_copy_engine(structures, sink);
    if (b->engine_cached) return;
    struct ig_engine_memory *memory = new_memory(b->job);
    const struct ig_engine_sink to_memory = ig_engine_memory_sink(memory);
    produce(b, found, &to_memory);
    ig_structures_keep_engine(structures, label_of(b), memory);
    copy_engine(b->job, memory->data, memory->size, sink);
    drop_memory(b->job, memory);
}

/* ---- The pipeline -------------------------------------------------------------------------------------------------- */

/* What the ranks of each number of ranks read, and what their kernels take, by their own cost models; of a pipeline no rank's are
 * those of a run. */
static void price_plans(struct build *b) {
    for (uint32_t i = 0; i < b->shardings.count; i++) {
        struct ig_sharding *s = &b->shardings.at[i];
        struct ig_figures figures;
        uint32_t subplan = ig_plan_rank_subplan(&b->built.plan, (uint32_t)s->ranks, 0);
        ig_figures_make(s->graphs[0], subplan, &b->built, &b->kernels, NULL, &figures);
        if (figures.estimated && !s->considered[s->chosen].result.stages) s->kernels = figures.estimate;
        for (uint32_t r = 0; r < (uint32_t)s->ranks; r++) {
            const uint32_t own = ig_plan_rank_subplan(&b->built.plan, (uint32_t)s->ranks, r);
            const uint64_t bytes = ig_plan_weight_bytes(&b->built.plan, own);
            if (bytes > s->weights) s->weights = bytes;
        }
    }
}

static void explain(struct build *b) {
    price_plans(b);
    b->explanation.graph = b->graph;
    b->explanation.set = &b->kernels;
    b->explanation.built = &b->built;
    b->explanation.shardings = b->shardings.at;
    b->explanation.n_shardings = b->shardings.count;
    b->explanation.target = b->target.name;
    b->explanation.compiler = b->compiler.version;
    b->explanation.opt_level = b->options->opt_level;
    b->explanation.precision = ig_precisions_text(b->job, &b->precisions);
    ig_figures_make(b->graph, 0, &b->built, &b->kernels, NULL, &b->explanation.figures);
}

static void specialize(struct build *b, struct ig_graph *imported) {
    bool in_parts = !ig_target_is_cuda(&b->target.target) && b->options->n_ranks == 0;
    b->graph = b->imported = ig_specialize(imported, b->options->shapes, b->options->n_shapes, in_parts);
}

static void make_structure(struct build *b) {
    specialize(b, b->imported);
    run_passes(b);
    make_code(b);
    explain(b);
}

static void end_session(void *session) {
    ig_cache_end(session);
}

/* NULL: there is no cache. */
static struct ig_cache_session *begin_session(struct ig_job *job, const struct ingot_build_options *options) {
    const struct ig_cache_notes notes = {options->note, options->note_user};
    if (!options->cache) return NULL;
    struct ig_cache_session *session = IG_NEW(job, struct ig_cache_session);
    ig_cache_begin(session, options->cache, &notes);
    ig_defer(job, end_session, session);
    return session;
}

/* As much as the caller's version of the library knows. */
static void write_report(const struct build *b, struct ingot_build_report *out_report) {
    struct ingot_build_report r = {.struct_size = out_report->struct_size,
                                   .structure_cached = b->structure_cached,
                                   .engine_cached = b->engine_cached};
    r.quads_proved = b->quads.proved;
    r.quads_widened = b->quads.widened;
    ig_objects_count(b->compiler.objects, &r.kernels_cached, &r.kernels_compiled);
    ig_kernel_set_count(&b->kernels, &r.regions, &r.regions_new);
    memcpy(out_report, &r, r.struct_size < sizeof r ? r.struct_size : sizeof r);
}

enum point { LOW, USUAL, HIGH };

/* The network's sizes that are counted: the smallest that are not empty, the usual ones and, where the range is bounded, the largest. */
static void add_point(struct build *b, enum point which, struct ig_counts *counts) {
    enum { BOUND = 1 << 20 };
    struct ig_count_point *point = &counts->points[counts->n_points++];
    struct ig_sizes at;
    const struct ig_plan *plan = &b->built.plan;
    ig_sizes_usual(b->graph->dims, b->job, &at);
    point->symbols = IG_NEW_ARRAY(b->job, int64_t, plan->n_symbols + 1);
    for (uint32_t i = 0; i < plan->n_symbols; i++) {
        const struct ig_plan_symbol *s = &plan->symbols[i];
        ig_dim symbol = ig_dim_symbol(b->graph->dims, plan->strings + s->name);
        if (which == LOW && s->hi <= BOUND) ig_sizes_set(&at, b->job, symbol, s->lo > 1 ? s->lo : 1);
        if (which == HIGH && s->hi <= BOUND) ig_sizes_set(&at, b->job, symbol, s->hi);
        point->symbols[i] = ig_sizes_of(&at, b->job, symbol);
    }
    ig_figures_make(b->graph, 0, &b->built, &b->kernels, &at, &point->figures);
    bool again = counts->n_points > 1 && strcmp(point[-1].figures.sizes, point->figures.sizes) == 0;
    counts->n_points -= again;
}

static void count_families(struct ig_graph *g, struct ig_counts *counts) {
    for (uint32_t i = 0; i < g->regions.count; i++) {
        const struct ig_region *region = &g->regions.at[i];
        counts->families[region->family]++;
        for (int k = 0; k < 2; k++) {
            if (g->nodes.at[region->anchor].body[k]) count_families(g->nodes.at[region->anchor].body[k], counts);
        }
    }
}

void ig_compile_count(struct ig_job *job, struct ig_graph *graph, const struct ingot_build_options *options,
                      const struct ig_engine_sink *sink, struct ig_counts *out_counts) {
    if (graph->initializers) ig_initializers_begin_build(graph->initializers);
    if (options->n_io_types) graph = ig_io_types_set(graph, options);
    struct build b = {
        .job = job, .options = options, .initializers = graph->initializers, .model = graph, .counts = true};
    ig_pass_switches_check(job, options);
    ig_sharding_check(job, options);
    ig_target_parse(job, options->target, &b.target);
    ig_precisions_parse(graph, options->precision, options->precision_of, options->n_precision_of, &b.precisions);
    specialize(&b, graph);
    run_passes(&b);
    make_plan(&b);
    *out_counts = (struct ig_counts){.target = b.target.name,
                                     .precision = ig_precisions_text(job, &b.precisions),
                                     .kernels = b.kernels.kernels.count};
    count_families(b.graph, out_counts);
    add_point(&b, LOW, out_counts);
    add_point(&b, USUAL, out_counts);
    add_point(&b, HIGH, out_counts);
    for (uint32_t i = 0; i < b.built.weights.count; i++)
        out_counts->weights += b.built.weights.at[i].size;
    write_engine(&b, true, sink);
}

void ig_compile_divide(struct ig_job *job, struct ig_graph *graph, const struct ingot_build_options *options,
                       struct ig_sharding *out_sharding) {
    if (options->n_io_types) graph = ig_io_types_set(graph, options);
    struct build b = {.job = job, .options = options, .initializers = graph->initializers, .model = graph};
    ig_sharding_check(job, options);
    ig_target_parse(job, options->target, &b.target);
    specialize(&b, graph);
    IG_ASSERT(job, options->n_ranks == 1);
    divide(&b);
    *out_sharding = b.shardings.at[0];
}

void ig_compile(struct ig_job *job, struct ig_graph *graph, const struct ingot_build_options *options,
                const struct ig_engine_sink *sink) {
    if (graph->initializers) ig_initializers_begin_build(graph->initializers);
    if (options->n_io_types) graph = ig_io_types_set(graph, options);
    if (options->adapters) graph = ig_adapters_add(graph, options);
    struct build b = {
        .job = job, .options = options, .initializers = graph->initializers, .model = graph, .imported = graph};
    ig_pass_switches_check(job, options);
    ig_sharding_check(job, options);
    ig_target_parse(job, options->target, &b.target);
    struct ig_cache_session *session = begin_session(job, options);
    ig_kernel_compiler_find(job, &b.target.target, options, session, &b.compiler);
    ig_precisions_parse(graph, options->precision, options->precision_of, options->n_precision_of, &b.precisions);
    b.fuse_rules = ig_fuse_rules_parse(graph, options->fuse_of, options->n_fuse_of);
    struct ig_structures *structures = ig_structures_open(graph, options, &b.target, &b.compiler, session);
    const struct ig_engine_file *found = structures ? ig_structures_find(structures) : NULL;
    b.structure_cached = found != NULL;
    if (!found) make_structure(&b);
    bool kept = structures && is_kept(&b);
    if (kept && !found) keep_structure(&b, structures);
    if (kept && !options->strip_weights && ig_structures_keeps_engine(structures, weights_size(&b, found))) {
        produce_kept(&b, structures, found, sink);
    } else {
        produce(&b, found, sink);
    }
    if (structures) ig_structures_close(structures);
    if (session) {
        ig_undefer(job, session);
        ig_cache_end(session);
    }
    if (options->report) write_report(&b, options->report);
}
