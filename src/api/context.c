/* ingot_context_*: an engine, a device of its own, perhaps a shared arena, and the runtime's context. */
#include "api/arena.h"
#include "api/device.h"
#include "api/engine.h"
#include "api/group.h"
#include "api/machines.h"
#include "api/options.h"
#include "api/ranks.h"
#include "base/cpu.h"
#include "base/memory.h"

#include <unistd.h>

#define DEFAULT_INSTANCE_BYTES ((size_t)256 << 20)
#define MAX_THREADS 1024
/* Threads that copy inputs and results of a GPU; more do not make it faster. */
#define COPYING_THREADS 4

struct ingot_context {
    const struct ingot_allocator *allocator;
    struct ingot_engine *engine;
    struct ingot_arena *arena; /* NULL: not shared */
    struct ig_device *device;
    struct ig_context *context; /* of this rank; of rank 0 if all are in this process */
    struct ig_ranks *ranks;     /* to which `context` belongs; NULL: the engine is not divided among threads */
    uint32_t n_ranks;           /* of this process */
    int ordinal;                /* of the GPU; 0 for the CPU */
    uint32_t gpus;              /* that the ranks share; 0: each has its own */
    struct ig_resident resident;
    bool has_resident;                        /* uses what the engine has there */
    struct ig_resident others[IG_MOST_RANKS]; /* on GPUs of this process's other ranks; no weights: none */
};

/* ---- Creation and destruction ------------------------------------------------------------------------------------ */

static enum ingot_status open_gpu(int ordinal, const struct ingot_allocator *allocator, struct ig_device **out_device,
                                  struct ingot_error *error) {
    return ig_device_cuda_create(ordinal, allocator, out_device, error);
}

/* Of the engine: for its code, which needs no threads. */
static enum ingot_status open_cpu(int ordinal, const struct ingot_allocator *allocator, struct ig_device **out_device,
                                  struct ingot_error *error) {
    return ig_device_cpu_create(1, allocator, out_device, error);
}

/* Of this rank: ranks on one host share its processors, unless each may use some only. */
static unsigned computing_threads(const struct ingot_context *context, const struct ingot_context_options *options) {
    const struct ingot_group *group = context->engine->group;
    unsigned threads = options->threads, sharers = context->n_ranks;
    if (group && !threads && ig_cpu_processors() == (unsigned)sysconf(_SC_NPROCESSORS_ONLN))
        sharers = ig_group_neighbours(group->seat);
    if (sharers <= 1) return threads;
    if (!threads) threads = ig_cpu_processors();
    return threads > sharers ? threads / sharers : 1;
}

static enum ingot_status open_device(struct ingot_context *context, const struct ingot_context_options *options,
                                     struct ingot_error *error) {
    struct ingot_engine *engine = context->engine;
    struct ig_resident *resident = &context->resident;
    context->ordinal = ig_target_is_gpu(engine->file.target) ? options->device : 0;
    ig_resident_store_drop_lost(&engine->resident, context->ordinal);
    if (!ig_target_is_gpu(engine->file.target)) {
        IG_TRY(ig_device_cpu_create(computing_threads(context, options), context->allocator, &context->device, error));
        IG_TRY(ig_resident_store_get(&engine->resident, open_cpu, 0, 0, resident, error));
    } else {
        IG_TRY(open_gpu(options->device, context->allocator, &context->device, error));
        IG_TRY(ig_resident_store_get(&engine->resident, open_gpu, options->device, 0, resident, error));
    }
    context->has_resident = true;
    return INGOT_OK;
}

/* Counts the processors only where needed, since that reads files. */
static unsigned copying_threads(const struct ingot_context *context, const struct ingot_context_options *options) {
    if (context->device->host_memory) return 1;
    unsigned threads = options->threads ? options->threads : ig_cpu_processors();
    return threads < COPYING_THREADS ? threads : COPYING_THREADS;
}

/* Ranks on CPUs share the code and weights of rank 0; those on GPUs have the GPUs from the caller's on. */
static enum ingot_status open_rank(void *user, uint32_t rank, struct ig_context_config *inout_context,
                                   struct ingot_error *error) {
    struct ingot_context *context = user;
    struct ig_resident *resident = &context->others[rank];
    const uint32_t place = context->gpus ? rank * context->gpus / context->n_ranks : rank;
    const int ordinal = context->ordinal + (int)place;
    if (context->device->host_memory)
        return ig_device_cpu_create(context->device->threads, context->allocator, &inout_context->device, error);
    IG_TRY(open_gpu(ordinal, context->allocator, &inout_context->device, error));
    enum ingot_status status =
        ig_resident_store_get(&context->engine->resident, open_gpu, ordinal, rank, resident, error);
    if (status != INGOT_OK) {
        ig_device_release(inout_context->device);
        return status;
    }
    inout_context->weights = resident->weights;
    inout_context->module = resident->module;
    return INGOT_OK;
}

/* What several ranks cannot do with the memory of one caller. */
static enum ingot_status check_ranks(const struct ingot_context *context, const struct ingot_context_options *options,
                                     struct ingot_error *error) {
    const struct ingot_engine *engine = context->engine;
    if (options->arena)
        return IG_ERR(error, INGOT_UNSUPPORTED,
                      "a context of %u ranks cannot share an arena, which belongs to one run at a time",
                      context->n_ranks);
    for (size_t i = 0; i < ingot_engine_output_count(engine); i++)
        if (ingot_engine_updated_input(engine, i) != SIZE_MAX)
            return IG_ERR(error, INGOT_UNSUPPORTED,
                          "ranks of one process cannot update the same input: load the engine on a group of processes");
    return INGOT_OK;
}

static enum ingot_status make_ranks(struct ingot_context *context, const struct ingot_context_options *options,
                                    const struct ig_context_config *config, struct ingot_error *error) {
    IG_TRY(check_ranks(context, options, error));
    IG_TRY(ig_ranks_create(&(struct ig_ranks_config){.allocator = context->allocator,
                                                     .views = context->engine->views,
                                                     .context = config,
                                                     .open = open_rank,
                                                     .user = context,
                                                     .count = context->n_ranks,
                                                     .gpus = !context->device->host_memory,
                                                     .shared = context->gpus},
                           &context->ranks, error));
    context->context = ig_ranks_context(context->ranks, 0);
    return INGOT_OK;
}

/* The context of a rank of this process. */
static struct ig_context *rank_of(const struct ingot_context *context, uint32_t rank) {
    return context->ranks ? ig_ranks_context(context->ranks, rank) : context->context;
}

/* An engine for several ranks only. */
static enum ingot_status check_alone(const struct ingot_engine *engine, struct ingot_error *error) {
    unsigned first = 0;
    if (engine->views || ig_plan_rank_subplan(&engine->file.plan, 1, 0) != IG_PLAN_NONE) return INGOT_OK;
    ingot_engine_ranks(engine, &first, 1);
    return IG_ERR(error, INGOT_INCOMPATIBLE,
                  "the engine is for %u ranks: load it for so many, or on a group of so many processes", first);
}

static enum ingot_status check_gpus(const struct ingot_engine *engine, unsigned gpus, struct ingot_error *error) {
    const unsigned ranks = engine->group ? ingot_group_ranks(engine->group) : engine->views ? engine->n_views : 1;
    if (gpus == 0) return INGOT_OK;
    if (!ig_target_is_gpu(engine->file.target))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "gpus is %u, and the engine is for the CPU", gpus);
    if (gpus > ranks)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "gpus is %u, and the engine is loaded for %u rank%s", gpus, ranks,
                      ranks == 1 ? "" : "s");
    if (engine->group && gpus < ranks)
        return IG_ERR(error, INGOT_UNSUPPORTED,
                      "gpus is %u for %u processes: only ranks that are threads of one process share a GPU", gpus,
                      ranks);
    return INGOT_OK;
}

static enum ingot_status fill(struct ingot_context *context, const struct ingot_context_options *options,
                              struct ingot_error *error) {
    struct ig_machine machine;
    bool gpu = ig_target_is_gpu(context->engine->file.target);
    IG_TRY(open_device(context, options, error));
    if (options->profile && gpu) IG_TRY(ig_machines_gpu(options->device, &machine, error));
    if (options->profile && !gpu) IG_TRY(ig_machines_cpu(context->device, options->machines, &machine, error));
    struct ig_context_config config = {.allocator = context->allocator,
                                       .device = context->device,
                                       .threads = copying_threads(context, options),
                                       .weights = context->resident.weights,
                                       .module = context->resident.module,
                                       .max_instances = options->max_plan_instances,
                                       .max_bytes = options->max_plan_bytes,
                                       .activations = context->arena ? ig_arena_activations(context->arena) : NULL,
                                       .profile = options->profile,
                                       .machine = options->profile ? &machine : NULL,
                                       .whole_batches = options->whole_batches,
                                       .timing = options->timing};
    struct ingot_group *group = context->engine->group;
    if (group && gpu) IG_TRY(ig_group_use_gpus(group, options->gpus, error));
    if (context->n_ranks > 1) return make_ranks(context, options, &config, error);
    config.group = group ? group->seat : NULL;
    const struct ig_engine_file *file = context->engine->views ? context->engine->views : &context->engine->file;
    if (group && gpu && file->plan.n_collectives > 0)
        IG_TRY(ig_group_open_windows(group->seat, context->device, error));
    return ig_context_create(file, &config, &context->context, error);
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
    if (!options.max_plan_bytes) options.max_plan_bytes = DEFAULT_INSTANCE_BYTES;
    if (options.device < 0) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "device is %d", options.device);
    IG_TRY(check_alone(engine, error));
    IG_TRY(check_gpus(engine, options.gpus, error));
    IG_TRY(ig_machine_check(&engine->file, options.device, error));
    if (options.arena)
        IG_TRY(ig_arena_check(options.arena, ig_target_is_gpu(engine->file.target), options.device, error));
    struct ingot_context *context = ig_allocate(allocator, sizeof *context, _Alignof(struct ingot_context));
    if (!context) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a context");
    context->allocator = allocator;
    context->engine = engine;
    context->n_ranks = engine->views ? engine->n_views : 1;
    context->gpus = options.gpus;
    context->arena = options.arena;
    ingot_engine_retain(engine);
    ingot_arena_retain(options.arena);
    enum ingot_status status = fill(context, &options, error);
    if (status != INGOT_OK)
        ingot_context_destroy(context);
    else
        *out_context = context;
    return status;
}

void ingot_context_destroy(struct ingot_context *context) {
    if (!context) return;
    if (context->ranks)
        ig_ranks_destroy(context->ranks);
    else
        ig_context_destroy(context->context);
    for (uint32_t r = 1; r < context->n_ranks; r++)
        if (context->others[r].weights) ig_resident_store_put(&context->engine->resident, &context->others[r]);
    if (context->has_resident) ig_resident_store_put(&context->engine->resident, &context->resident);
    ig_device_release(context->device); /* leases may go on using it */
    ingot_arena_release(context->arena);
    ingot_engine_release(context->engine);
    ig_release(context->allocator, context, sizeof *context);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

enum ingot_status ingot_context_allocate(struct ingot_context *context, enum ingot_memory memory, size_t size,
                                         void **out_data, struct ingot_error *error) {
    if (!context || !out_data)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_context_allocate: %s is NULL",
                      context ? "out_data" : "context");
    return ig_context_allocate(context->context, memory, size, out_data, error);
}

void ingot_context_free(struct ingot_context *context, enum ingot_memory memory, void *data, size_t size) {
    if (context && data) ig_context_free(context->context, memory, data, size);
}

enum ingot_status ingot_context_pin(struct ingot_context *context, void *data, size_t size, struct ingot_error *error) {
    if (!context || !data)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_context_pin: %s is NULL", context ? "data" : "context");
    if (size == 0) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_context_pin: size is 0");
    const struct ig_device_api *api = context->device->api;
    return api->pin_host ? api->pin_host(context->device, data, size, error) : INGOT_OK;
}

void ingot_context_unpin(struct ingot_context *context, void *data) {
    if (!context || !data) return;
    const struct ig_device_api *api = context->device->api;
    if (api->unpin_host) api->unpin_host(context->device, data);
}

/* ---- Inputs, outputs and runs ------------------------------------------------------------------------------------ */

static enum ingot_status refuse_null(const char *function, const char *argument, struct ingot_error *error) {
    return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%s: %s is NULL", function, argument);
}

enum ingot_status ingot_context_set_input(struct ingot_context *context, size_t index,
                                          const struct ingot_tensor *tensor, struct ingot_error *error) {
    if (!context || !tensor) return refuse_null("ingot_context_set_input", context ? "tensor" : "context", error);
    for (uint32_t r = 0; r < context->n_ranks; r++)
        IG_TRY(ig_context_set_input(rank_of(context, r), index, tensor, error));
    return INGOT_OK;
}

enum ingot_status ingot_context_set_output(struct ingot_context *context, size_t index, void *data, size_t size,
                                           struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_set_output", "context", error);
    return ig_context_set_output(context->context, index, INGOT_HOST, data, size, error);
}

enum ingot_status ingot_context_set_output_in(struct ingot_context *context, size_t index, enum ingot_memory memory,
                                              void *data, size_t size, struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_set_output_in", "context", error);
    return ig_context_set_output(context->context, index, memory, data, size, error);
}

enum ingot_status ingot_context_set_output_fresh(struct ingot_context *context, size_t index, enum ingot_memory memory,
                                                 struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_set_output_fresh", "context", error);
    return ig_context_set_output_fresh(context->context, index, memory, error);
}

/* The runs in flight end with the old ones. */
static struct ig_resident *resident_of(struct ingot_context *context, uint32_t rank) {
    return context->others[rank].weights ? &context->others[rank] : &context->resident;
}

static enum ingot_status take_new_weights(struct ingot_context *context, struct ingot_error *error) {
    if (context->ranks)
        IG_TRY(ig_ranks_wait(context->ranks, NULL, error)); /* each on its thread, and a failure only once */
    for (uint32_t r = 0; r < context->n_ranks; r++)
        IG_TRY(ig_context_set_weights(rank_of(context, r), resident_of(context, r)->weights, error)); /* waits */
    for (uint32_t r = 0; r < context->n_ranks; r++)
        if (r == 0 || context->others[r].weights)
            ig_resident_store_switch(&context->engine->resident, resident_of(context, r));
    for (uint32_t r = 0; r < context->n_ranks; r++)
        IG_TRY(ig_context_set_weights(rank_of(context, r), resident_of(context, r)->weights, error));
    return INGOT_OK;
}

/* `runs`: several ranks may as well wait for the end. */
static enum ingot_status enqueue(struct ingot_context *context, void *stream, bool runs, struct ingot_error *error) {
    struct ig_ranks *ranks = context->ranks;
    /* A deferred check of the weights follows the first run's launch, so that its kernels start at once. This is
     * safe: kernels clamp the indices that they read, and results are given out only if the check passes. */
    IG_TRY(ig_engine_refuse_bad_weights(context->engine, error));
    if (ig_resident_is_old(&context->resident)) IG_TRY(take_new_weights(context, error));
    if (ranks && stream) return IG_ERR(error, INGOT_UNSUPPORTED, "a run of several ranks of a process has no stream");
    if (!ranks)
        IG_TRY(ig_context_enqueue(context->context, stream, error));
    else
        IG_TRY(runs ? ig_ranks_run(ranks, error) : ig_ranks_enqueue(ranks, error));
    return ig_engine_trust_weights(context->engine, error);
}

enum ingot_status ingot_context_enqueue(struct ingot_context *context, void *stream, struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_enqueue", "context", error);
    return enqueue(context, stream, false, error);
}

enum ingot_status ingot_context_wait(struct ingot_context *context, struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_wait", "context", error);
    return context->ranks ? ig_ranks_wait(context->ranks, NULL, error) : ig_context_wait(context->context, error);
}

enum ingot_status ingot_context_wait_for(struct ingot_context *context, double seconds, struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_wait_for", "context", error);
    return context->ranks ? ig_ranks_wait(context->ranks, &seconds, error)
                          : ig_context_wait_for(context->context, seconds, error);
}

enum ingot_status ingot_context_set_time_limit(struct ingot_context *context, double seconds,
                                               struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_set_time_limit", "context", error);
    for (uint32_t r = 0; r < context->n_ranks; r++)
        IG_TRY(ig_context_set_time_limit(rank_of(context, r), seconds, error));
    return INGOT_OK;
}

void ingot_context_cancel(struct ingot_context *context) {
    for (uint32_t r = 0; context && r < context->n_ranks; r++)
        ig_context_cancel(rank_of(context, r));
}

enum ingot_status ingot_context_run(struct ingot_context *context, struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_run", "context", error);
    IG_TRY(enqueue(context, NULL, true, error));
    return context->ranks ? INGOT_OK : ig_context_wait(context->context, error);
}

enum ingot_status ingot_context_timing(const struct ingot_context *context, struct ingot_timing *out_timing,
                                       struct ingot_error *error) {
    if (!context || !out_timing) return refuse_null("ingot_context_timing", context ? "out_timing" : "context", error);
    return ig_context_timing(context->context, out_timing, error);
}

enum ingot_status ingot_context_output(const struct ingot_context *context, size_t index,
                                       struct ingot_tensor *out_tensor, struct ingot_error *error) {
    if (!context || !out_tensor) return refuse_null("ingot_context_output", context ? "out_tensor" : "context", error);
    IG_TRY(ig_engine_refuse_bad_weights(context->engine, error));
    return ig_context_output(context->context, index, out_tensor, error);
}

enum ingot_status ingot_context_take_output(struct ingot_context *context, size_t index,
                                            struct ingot_tensor *out_tensor, struct ingot_error *error) {
    if (!context || !out_tensor)
        return refuse_null("ingot_context_take_output", context ? "out_tensor" : "context", error);
    IG_TRY(ig_engine_refuse_bad_weights(context->engine, error));
    return ig_context_take_output(context->context, index, out_tensor, error);
}

/* ---- Leases ------------------------------------------------------------------------------------------------------ */

/* An ingot_lease is an ig_results under another name. */
static struct ig_results *results_of(const struct ingot_lease *lease) {
    return (struct ig_results *)(uintptr_t)lease;
}

enum ingot_status ingot_context_lease(struct ingot_context *context, struct ingot_lease **out_lease,
                                      struct ingot_error *error) {
    struct ig_results *results;
    if (!context || !out_lease) return refuse_null("ingot_context_lease", context ? "out_lease" : "context", error);
    IG_TRY(ig_engine_refuse_bad_weights(context->engine, error));
    if (context->ranks) IG_TRY(ig_ranks_await(context->ranks, error)); /* of which a lease knows rank 0 only */
    IG_TRY(ig_context_lease(context->context, &results, error));
    *out_lease = (struct ingot_lease *)results;
    return INGOT_OK;
}

enum ingot_status ingot_lease_wait(struct ingot_lease *lease, struct ingot_error *error) {
    if (!lease) return refuse_null("ingot_lease_wait", "lease", error);
    return ig_results_wait(results_of(lease), error);
}

enum ingot_status ingot_lease_wait_for(struct ingot_lease *lease, double seconds, struct ingot_error *error) {
    if (!lease) return refuse_null("ingot_lease_wait_for", "lease", error);
    return ig_results_wait_for(results_of(lease), seconds, error);
}

enum ingot_status ingot_lease_output(const struct ingot_lease *lease, size_t index, struct ingot_tensor *out_tensor,
                                     struct ingot_error *error) {
    if (!lease || !out_tensor) return refuse_null("ingot_lease_output", lease ? "out_tensor" : "lease", error);
    return ig_results_output(results_of(lease), index, out_tensor, error);
}

enum ingot_status ingot_lease_follow(struct ingot_lease *lease, void *stream, struct ingot_error *error) {
    if (!lease) return refuse_null("ingot_lease_follow", "lease", error);
    return ig_results_follow(results_of(lease), stream, error);
}

void ingot_lease_release(struct ingot_lease *lease) {
    if (lease) ig_results_release(results_of(lease));
}

enum ingot_status ingot_lease_release_after(struct ingot_lease *lease, void *stream, struct ingot_error *error) {
    if (!lease) return refuse_null("ingot_lease_release_after", "lease", error);
    return ig_results_release_after(results_of(lease), stream, error);
}

enum ingot_status ingot_context_trim(struct ingot_context *context, struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_trim", "context", error);
    for (uint32_t r = 0; r < context->n_ranks; r++)
        IG_TRY(ig_context_trim(rank_of(context, r), error));
    return INGOT_OK;
}

size_t ingot_context_profile(const struct ingot_context *context, struct ingot_profile_row *rows, size_t capacity) {
    return context ? ig_context_profile(context->context, rows, rows ? capacity : 0) : 0;
}

size_t ingot_context_exchanges(const struct ingot_context *context, struct ingot_exchange_row *rows, size_t capacity) {
    return context ? ig_context_exchanges(context->context, rows, rows ? capacity : 0) : 0;
}

enum ingot_status ingot_context_memory(struct ingot_context *context, struct ingot_memory_info *out_info,
                                       struct ingot_error *error) {
    if (!context || !out_info) return refuse_null("ingot_context_memory", context ? "out_info" : "context", error);
    return ig_context_memory(context->context, out_info, error);
}

enum ingot_status ingot_context_plans(const struct ingot_context *context, struct ingot_plans_info *out_info,
                                      struct ingot_error *error) {
    if (!context || !out_info) return refuse_null("ingot_context_plans", context ? "out_info" : "context", error);
    ig_context_plans(context->context, out_info);
    return INGOT_OK;
}

enum ingot_status ingot_context_set_batch(struct ingot_context *context, const struct ingot_batch_options *given,
                                          struct ingot_error *error) {
    struct ingot_batch_options options = INGOT_BATCH_OPTIONS_INIT;
    if (!context) return refuse_null("ingot_context_set_batch", "context", error);
    IG_TRY(ig_options_read("ingot_batch_options", given, sizeof options, &options, error));
    if (given && !options.symbol) return refuse_null("ingot_context_set_batch", "symbol", error);
    for (uint32_t r = 0; r < context->n_ranks; r++)
        IG_TRY(ig_context_set_batch(rank_of(context, r), given ? &options : NULL, error));
    return INGOT_OK;
}

enum ingot_status ingot_context_batch(const struct ingot_context *context, struct ingot_batch_info *out_info,
                                      struct ingot_error *error) {
    if (!context || !out_info) return refuse_null("ingot_context_batch", context ? "out_info" : "context", error);
    ig_context_batch(context->context, out_info);
    return INGOT_OK;
}

/* A device belongs to one thread, so the thread that prepares has another one. */
static enum ingot_status start_preparer(struct ingot_context *context, struct ingot_error *error) {
    struct ig_device *device;
    ig_device_opener open = ig_target_is_gpu(context->engine->file.target) ? open_gpu : open_cpu;
    if (ig_context_has_preparer(context->context)) return INGOT_OK;
    IG_TRY(open(context->ordinal, context->allocator, &device, error));
    return ig_context_use_preparer(context->context, device, error);
}

/* Never in the background: the ranks' threads leave no processor for that. */
static enum ingot_status prepare_ranks(struct ingot_context *context, const struct ingot_tensor *inputs,
                                       size_t n_inputs, struct ingot_error *error) {
    for (uint32_t r = 0; r < context->n_ranks; r++)
        IG_TRY(ig_context_prepare_shapes(rank_of(context, r), inputs, n_inputs, false, error));
    return INGOT_OK;
}

enum ingot_status ingot_context_prepare(struct ingot_context *context, const struct ingot_tensor *inputs,
                                        size_t n_inputs, unsigned flags, struct ingot_error *error) {
    const bool background = flags & INGOT_PREPARE_IN_BACKGROUND;
    if (!context) return refuse_null("ingot_context_prepare", "context", error);
    if (!inputs && n_inputs) return refuse_null("ingot_context_prepare", "inputs", error);
    if (flags & ~(unsigned)INGOT_PREPARE_IN_BACKGROUND)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_context_prepare: flags are %#x", flags);
    if (context->ranks) return prepare_ranks(context, inputs, n_inputs, error);
    if (background) IG_TRY(start_preparer(context, error));
    return ig_context_prepare_shapes(context->context, inputs, n_inputs, background, error);
}

enum ingot_status ingot_context_prepare_wait(struct ingot_context *context, struct ingot_error *error) {
    if (!context) return refuse_null("ingot_context_prepare_wait", "context", error);
    return ig_context_prepared(context->context, error);
}
