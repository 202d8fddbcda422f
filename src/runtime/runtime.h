/*
 * The runtime: contexts that run a loaded engine on a device.
 *
 * A context keeps, for every set of shapes that it has seen lately, a *plan instance*: the shape program's numbers, where
 * each buffer lies in the arena, and the launches with their addresses, captured as lists of the device. Running is then
 * to look the instance up, to patch in the addresses that the caller changed, and to launch.
 *
 * On a device with memory of its own, kernels see that memory alone: weights are brought there once (weights.h), inputs
 * and results of the host travel (transfer.h), and the host goes on while the device works.
 *
 * A context belongs to one thread at a time. Engines are only read, so that any number of contexts share one.
 */
#ifndef IG_RUNTIME_RUNTIME_H
#define IG_RUNTIME_RUNTIME_H

#include "device/device.h"
#include "engine/engine.h"

struct ig_context;

struct ig_context_config {
    const struct ingot_allocator *allocator;
    struct ig_device *device; /* for this context alone; outlives it */
    unsigned threads;         /* that copy large inputs and results, the caller's included */
    const void *weights;      /* where its kernels find them; NULL: where the file has them */
    size_t max_instances;     /* sets of shapes that stay prepared; at least 1 */
    size_t max_bytes;         /* of all of them, but for one, which stays in any case */
    bool profile;
    bool timing; /* has an effect where the device has a clock of its own */
};

/* `file` outlives the context. */
enum ingot_status ig_context_create(const struct ig_engine_file *file, const struct ig_context_config *config,
                                    struct ig_context **out_context, struct ingot_error *error);
void ig_context_destroy(struct ig_context *context);

/* As in ingot.h, which says what they do; indices are checked. */
enum ingot_status ig_context_set_input(struct ig_context *context, size_t index, const struct ingot_tensor *tensor,
                                       struct ingot_error *error);
enum ingot_status ig_context_set_output(struct ig_context *context, size_t index, enum ingot_memory memory, void *data,
                                        size_t size, struct ingot_error *error);
enum ingot_status ig_context_run(struct ig_context *context, struct ingot_error *error);
enum ingot_status ig_context_enqueue(struct ig_context *context, void *stream, struct ingot_error *error);
enum ingot_status ig_context_wait(struct ig_context *context, struct ingot_error *error);
enum ingot_status ig_context_timing(const struct ig_context *context, struct ingot_timing *out_timing,
                                    struct ingot_error *error);
enum ingot_status ig_context_output(const struct ig_context *context, size_t index, struct ingot_tensor *out_tensor,
                                    struct ingot_error *error);
size_t ig_context_profile(const struct ig_context *context, struct ingot_profile_row *rows, size_t capacity);
enum ingot_status ig_context_memory(struct ig_context *context, struct ingot_memory_info *out_info,
                                    struct ingot_error *error);

/* What is known of a tensor of the plan before shapes are bound. */
void ig_plan_tensor_info(const struct ig_plan *plan, const struct ig_plan_tensor *tensor,
                         struct ingot_tensor_info *out_info);

#endif
