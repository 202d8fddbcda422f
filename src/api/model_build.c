/* ingot_model_build: compiles a model into an engine, in a file or in memory. */
#include <stdio.h>
#include <string.h>

#include "api/device.h"
#include "api/model.h"
#include "api/options.h"
#include "compile/compile.h"
#include "pass/pass.h"

enum { DEFAULT_VARIANTS = 12, DEFAULT_ADAPTER_RANK = 16, MOST_ADAPTERS = 4096, MOST_ADAPTER_RANK = 4096 };

static enum ingot_status read_options(const struct ingot_build_options *given, struct ingot_build_options *options,
                                      struct ingot_error *error) {
    IG_TRY(ig_options_read("ingot_build_options", given, sizeof *options, options, error));
    if (options->opt_level < 0 || options->opt_level > 5) {
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "optimisation level %d, expected 0 to 5", options->opt_level);
    }
    if (options->device < 0) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "device is %d", options->device);
    if ((options->n_shapes > 0 && !options->shapes) || (options->n_pass_switches > 0 && !options->pass_switches) ||
        (options->n_precision_of > 0 && !options->precision_of) ||
        (options->n_timing_caches > 0 && !options->timing_caches) || (options->n_fuse_of > 0 && !options->fuse_of) ||
        (options->n_shard_of > 0 && !options->shard_of) ||
        (options->n_adapter_layers > 0 && !options->adapter_layers) ||
        (options->n_io_types > 0 && !options->io_types)) {
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "a count without its array in the build options");
    }
    if (options->tactics && strcmp(options->tactics, "all") != 0 && strcmp(options->tactics, "generated") != 0) {
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "tactics are 'all' or 'generated', not '%s'", options->tactics);
    }
    if (!(options->tune_seconds >= 0)) {
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%g seconds for tuning, expected 0 or more",
                      options->tune_seconds);
    }
    if (options->adapters > MOST_ADAPTERS || options->adapter_rank > MOST_ADAPTER_RANK) {
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%u slots for adapters of rank %u, expected at most %d of rank %d",
                      options->adapters, options->adapter_rank, MOST_ADAPTERS, MOST_ADAPTER_RANK);
    }
    if (options->variants == 0) options->variants = DEFAULT_VARIANTS;
    if (options->adapter_rank == 0) options->adapter_rank = DEFAULT_ADAPTER_RANK;
    return INGOT_OK;
}

/* Replaces the target "cuda", this machine's GPU, by its architecture's name, stored in `name`. */
static enum ingot_status resolve_target(struct ingot_build_options *options, char *name, struct ingot_error *error) {
    struct ig_device_cuda_info gpu;
    if (!options->target || strcmp(options->target, "cuda") != 0) return INGOT_OK;
    enum ingot_status status = ig_machine_gpu(options->device, &gpu, error);
    if (status != INGOT_OK) {
        ig_error_prefix(error, "target 'cuda' is this machine's GPU");
        return status;
    }
    snprintf(name, IG_TARGET_SIZE, "cuda:%s", gpu.arch);
    options->target = name;
    return INGOT_OK;
}

enum ingot_status ig_build_options_read(const struct ingot_build_options *given,
                                        struct ingot_build_options *out_options, char *target,
                                        struct ingot_error *error) {
    IG_TRY(read_options(given, out_options, error));
    return resolve_target(out_options, target, error);
}

/* ---- To a file */

struct to_file {
    struct ig_graph *graph;
    const struct ingot_build_options *options;
    const char *path;
};

static void file_abort(void *writer) {
    ig_file_writer_abort(writer);
}

static void file_body(struct ig_job *job, void *argument) {
    struct to_file *to = argument;
    struct ig_file_writer *writer = IG_NEW(job, struct ig_file_writer);
    struct ingot_error error = {INGOT_INTERNAL, ""};
    if (ig_file_writer_open(writer, to->path, job->allocator, &error) != INGOT_OK) ig_raise_error(job, &error);
    ig_defer(job, file_abort, writer);
    struct ig_engine_sink sink = ig_engine_file_sink(writer);
    ig_compile(job, to->graph, to->options, &sink);
    if (ig_file_writer_commit(writer, &error) != INGOT_OK) ig_raise_error(job, &error);
    ig_undefer(job, writer);
    ig_file_writer_abort(writer); /* a no-op after the commit */
}

enum ingot_status ingot_model_build(struct ingot_model *model, const struct ingot_build_options *options,
                                    const char *path, struct ingot_error *error) {
    if (!model || !path) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_model_build: NULL argument");
    struct ingot_build_options whole = INGOT_BUILD_OPTIONS_INIT;
    char target[IG_TARGET_SIZE];
    IG_TRY(ig_build_options_read(options, &whole, target, error));
    struct to_file to = {model->graph, &whole, path};
    return ig_job_run(&model->job, file_body, &to, error);
}

/* ---- To memory */

struct to_memory {
    struct ig_graph *graph;
    const struct ingot_build_options *options;
    struct ig_engine_memory memory;
};

static void memory_body(struct ig_job *job, void *argument) {
    struct to_memory *to = argument;
    struct ig_engine_sink sink = ig_engine_memory_sink(&to->memory);
    ig_compile(job, to->graph, to->options, &sink);
    if (!ig_engine_memory_fit(&to->memory)) ig_raise(job, INGOT_OUT_OF_MEMORY, "out of memory");
}

enum ingot_status ingot_model_build_memory(struct ingot_model *model, const struct ingot_build_options *options,
                                           void **out_data, size_t *out_size, struct ingot_error *error) {
    if (!model || !out_data || !out_size) {
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_model_build_memory: NULL argument");
    }
    struct ingot_build_options whole = INGOT_BUILD_OPTIONS_INIT;
    char target[IG_TARGET_SIZE];
    IG_TRY(ig_build_options_read(options, &whole, target, error));
    struct to_memory to = {model->graph, &whole, {.allocator = model->allocator}};
    enum ingot_status status = ig_job_run(&model->job, memory_body, &to, error);
    if (status != INGOT_OK) {
        ig_engine_memory_release(&to.memory);
        return status;
    }
    *out_data = to.memory.data;
    *out_size = to.memory.size;
    return INGOT_OK;
}

void ingot_blob_release(struct ingot_model *model, void *data, size_t size) {
    if (data) ig_release(model->allocator, data, size ? size : 1);
}

/* ---- Passes */

size_t ingot_pass_list(struct ingot_pass_info *passes, size_t capacity) {
    for (size_t i = 0; i < (size_t)ig_pass_count && i < capacity; i++) {
        passes[i] = (struct ingot_pass_info){ig_passes[i].name, ig_passes[i].description, ig_passes[i].level};
    }
    return (size_t)ig_pass_count;
}
