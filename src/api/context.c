/* ingot_context_*: an engine, a device of its own, and the runtime's context. */
#include "api/engine.h"
#include "api/options.h"
#include "base/cpu.h"
#include "base/memory.h"

#include <string.h>

#define DEFAULT_INSTANCES 16
#define MAX_THREADS 1024

struct ingot_context {
    const struct ingot_allocator *allocator;
    struct ingot_engine *engine;
    struct ig_device *device;
    struct ig_context *context;
};

/* ---- Life ---------------------------------------------------------------------------------------------------------------- */

static enum ingot_status check_machine(const struct ig_engine_file *file, struct ingot_error *error) {
    if (strncmp(file->target, "cpu", 3) != 0)
        return IG_ERR(error, INGOT_INCOMPATIBLE, "the engine is for '%s': this library runs engines for cpu",
                      file->target);
    uint64_t missing = file->required_features & ~ig_cpu_features();
    if (missing)
        return IG_ERR(error, INGOT_INCOMPATIBLE, "the engine for '%s' needs %s, which this processor lacks",
                      file->target, ig_cpu_feature_name(missing));
    if ((file->required_features & IG_CPU_AMX_TILE) && !ig_cpu_request_amx())
        return IG_ERR(error, INGOT_INCOMPATIBLE, "the engine needs AMX, which the operating system does not grant");
    return INGOT_OK;
}

static enum ingot_status fill(struct ingot_context *context, const struct ingot_context_options *options,
                              struct ingot_error *error) {
    IG_TRY(ig_device_cpu_create(options->threads, context->allocator, &context->device, error));
    struct ig_context_config config = {.allocator = context->allocator,
                                       .device = context->device,
                                       .max_instances = options->max_plan_instances ? options->max_plan_instances
                                                                                    : DEFAULT_INSTANCES,
                                       .profile = options->profile};
    return ig_context_create(&context->engine->file, &config, &context->context, error);
}

enum ingot_status ingot_context_create(struct ingot_engine *engine, const struct ingot_context_options *given,
                                       struct ingot_context **out_context, struct ingot_error *error) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    const struct ingot_allocator *allocator;
    if (!engine || !out_context)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_context_create: %s is NULL",
                      engine ? "out_context" : "engine");
    IG_TRY(ig_options_read("ingot_context_options", given, sizeof options, &options, error));
    IG_TRY(ig_options_allocator(options.allocator, engine->allocator, &allocator, error));
    if (options.threads > MAX_THREADS)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "threads is %u, at most %d make sense", options.threads,
                      MAX_THREADS);
    IG_TRY(check_machine(&engine->file, error));
    struct ingot_context *context = ig_allocate(allocator, sizeof *context, _Alignof(struct ingot_context));
    if (!context) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a context");
    context->allocator = allocator;
    context->engine = engine;
    ingot_engine_retain(engine);
    enum ingot_status status = fill(context, &options, error);
    if (status != INGOT_OK)
        ingot_context_destroy(context);
    else
        *out_context = context;
    return status;
}

void ingot_context_destroy(struct ingot_context *context) {
    if (!context) return;
    ig_context_destroy(context->context);
    if (context->device) context->device->api->destroy(context->device);
    ingot_engine_release(context->engine);
    ig_release(context->allocator, context, sizeof *context);
}

/* ---- Use ----------------------------------------------------------------------------------------------------------------- */

static enum ingot_status refuse_null(const char *function, const char *argument, struct ingot_error *error) {
    return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%s: %s is NULL", function, argument);
}

enum ingot_status ingot_context_set_input(struct ingot_context *context, size_t index,
                                          const struct ingot_tensor *tensor, struct ingot_error *error) {
    if (!context || !tensor) return refuse_null("ingot_context_set_input", context ? "tensor" : "context", error);
    return ig_context_set_input(context->context, index, tensor, error);
}

enum ingot_status ingot_context_set_output(struct ingot_context *context, size_t index, void *data, size_t size,
                                           struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_set_output", "context", error);
    return ig_context_set_output(context->context, index, data, size, error);
}

enum ingot_status ingot_context_run(struct ingot_context *context, struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_run", "context", error);
    /* Weights whose check was put off are checked behind the first run, so that its kernels start at once. That is safe:
     * kernels clamp the indices that they read, and the results are not given out unless the check passes. */
    IG_TRY(ig_engine_refuse_bad_weights(context->engine, error));
    IG_TRY(ig_context_run(context->context, error));
    return ig_engine_trust_weights(context->engine, error);
}

enum ingot_status ingot_context_output(const struct ingot_context *context, size_t index,
                                       struct ingot_tensor *out_tensor, struct ingot_error *error) {
    if (!context || !out_tensor) return refuse_null("ingot_context_output", context ? "out_tensor" : "context", error);
    IG_TRY(ig_engine_refuse_bad_weights(context->engine, error));
    return ig_context_output(context->context, index, out_tensor, error);
}

size_t ingot_context_profile(const struct ingot_context *context, struct ingot_profile_row *rows, size_t capacity) {
    return context ? ig_context_profile(context->context, rows, rows ? capacity : 0) : 0;
}

enum ingot_status ingot_context_memory(struct ingot_context *context, struct ingot_memory_info *out_info,
                                       struct ingot_error *error) {
    if (!context || !out_info) return refuse_null("ingot_context_memory", context ? "out_info" : "context", error);
    return ig_context_memory(context->context, out_info, error);
}
