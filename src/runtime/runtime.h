/*
 * The runtime: contexts that run a loaded engine on a device.
 *
 * A context keeps a *plan instance* for every set of shapes that it has seen lately: the values of the shape program,
 * the arena offset of each buffer, and the launches with their addresses, captured as lists of the device. A run looks
 * the instance up, patches addresses that the caller has changed, and launches.
 *
 * On a device with memory of its own, kernels access only that: weights are uploaded once (resident.h), inputs and
 * results are copied (transfer.h), and the host continues while the device works.
 *
 * A context belongs to one thread at a time. Engines are read-only, so that any number of contexts share one.
 */
#ifndef IG_RUNTIME_RUNTIME_H
#define IG_RUNTIME_RUNTIME_H

#include "device/device.h"
#include "engine/engine.h"
#include "runtime/context/results.h"
#include "runtime/weight_places.h"

struct ig_activations;
struct ig_group;
struct ig_machine;
struct ig_context;

struct ig_context_config {
    const struct ingot_allocator *allocator;
    struct ig_device *device;               /* used by this context alone; outlives it and its leases unless they are
                                         * released by ig_device_release */
    unsigned threads;                       /* that copy large inputs and results, the caller's included */
    const struct ig_weight_places *weights; /* outlive their use; NULL: in the mapped file */
    /* The seat of the rank whose plan this is, which belongs to the context's thread while it runs; outlives the context.
     * NULL: the plan is for one rank. */
    struct ig_group *group;
    struct ig_module *module;           /* the engine's code, for all its contexts; NULL: loaded for this one */
    size_t max_instances;               /* sets of shapes kept prepared; 0: as many as max_bytes allows */
    size_t max_bytes;                   /* of all instances; the most recent always stays */
    struct ig_activations *activations; /* shared, of the same device; outlives the context; NULL: its own */
    bool profile;
    const struct ig_machine *machine; /* that the device is, for the floors of profiles; NULL: not known */
    bool whole_batches;               /* none is computed in parts; see parts.h */
    bool timing;                      /* ignored unless the device has its own clock */
};

/* `file` must outlive the context. */
enum ingot_status ig_context_create(const struct ig_engine_file *file, const struct ig_context_config *config,
                                    struct ig_context **out_context, struct ingot_error *error);
void ig_context_destroy(struct ig_context *context);
/* Later runs use other weights, of the same sizes. Waits for the runs in flight: nothing uses the old ones afterwards. */
enum ingot_status ig_context_set_weights(struct ig_context *context, const struct ig_weight_places *weights,
                                         struct ingot_error *error);

/* Documented in ingot.h; these check indices. */
enum ingot_status ig_context_set_input(struct ig_context *context, size_t index, const struct ingot_tensor *tensor,
                                       struct ingot_error *error);
enum ingot_status ig_context_set_output(struct ig_context *context, size_t index, enum ingot_memory memory, void *data,
                                        size_t size, struct ingot_error *error);
enum ingot_status ig_context_set_output_fresh(struct ig_context *context, size_t index, enum ingot_memory memory,
                                              struct ingot_error *error);
enum ingot_status ig_context_take_output(struct ig_context *context, size_t index, struct ingot_tensor *out_tensor,
                                         struct ingot_error *error);
enum ingot_status ig_context_allocate(struct ig_context *context, enum ingot_memory memory, size_t size,
                                      void **out_data, struct ingot_error *error);
void ig_context_free(struct ig_context *context, enum ingot_memory memory, void *data, size_t size);
enum ingot_status ig_context_lease(struct ig_context *context, struct ig_results **out_lease,
                                   struct ingot_error *error);
enum ingot_status ig_context_trim(struct ig_context *context, struct ingot_error *error);
enum ingot_status ig_context_run(struct ig_context *context, struct ingot_error *error);
enum ingot_status ig_context_enqueue(struct ig_context *context, void *stream, struct ingot_error *error);
enum ingot_status ig_context_wait(struct ig_context *context, struct ingot_error *error);
enum ingot_status ig_context_wait_for(struct ig_context *context, double seconds, struct ingot_error *error);
enum ingot_status ig_context_set_time_limit(struct ig_context *context, double seconds, struct ingot_error *error);
/* From any thread. */
void ig_context_cancel(struct ig_context *context);
enum ingot_status ig_context_timing(const struct ig_context *context, struct ingot_timing *out_timing,
                                    struct ingot_error *error);
enum ingot_status ig_context_output(struct ig_context *context, size_t index, struct ingot_tensor *out_tensor,
                                    struct ingot_error *error);
/* Of several ranks on GPUs: returns when the runs enqueued have been done, or the group has failed, whose kernels wait no longer then.
 * For other contexts it does nothing. */
enum ingot_status ig_context_await_ranks(struct ig_context *context, struct ingot_error *error);
/* Waits for all work, whatever the limits and requests, and ignores failures. */
void ig_context_finish(struct ig_context *context);
/* The last run's results are not given out any more. */
void ig_context_drop_results(struct ig_context *context);
size_t ig_context_profile(const struct ig_context *context, struct ingot_profile_row *rows, size_t capacity);
void ig_context_plans(const struct ig_context *context, struct ingot_plans_info *out_info);
enum ingot_status ig_context_prepare_shapes(struct ig_context *context, const struct ingot_tensor *inputs,
                                            size_t n_inputs, bool background, struct ingot_error *error);
enum ingot_status ig_context_prepared(struct ig_context *context, struct ingot_error *error);
/* What preparing in the background needs first, once: a device for its thread, of the same kind as the context's, which
 * is the context's from now on, also on failure. */
bool ig_context_has_preparer(const struct ig_context *context);
enum ingot_status ig_context_use_preparer(struct ig_context *context, struct ig_device *device,
                                          struct ingot_error *error);
enum ingot_status ig_context_set_batch(struct ig_context *context, const struct ingot_batch_options *options,
                                       struct ingot_error *error);
void ig_context_batch(const struct ig_context *context, struct ingot_batch_info *out_info);
size_t ig_context_exchanges(const struct ig_context *context, struct ingot_exchange_row *rows, size_t capacity);
enum ingot_status ig_context_memory(struct ig_context *context, struct ingot_memory_info *out_info,
                                    struct ingot_error *error);

/* Describes a tensor of the plan before shapes are bound. */
void ig_plan_tensor_info(const struct ig_plan *plan, const struct ig_plan_tensor *tensor,
                         struct ingot_tensor_info *out_info);

#endif
