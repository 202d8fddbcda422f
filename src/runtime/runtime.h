/*
 * The runtime: contexts that run a loaded engine on a device.
 *
 * A context keeps, for every set of shapes that it has seen lately, a *plan instance*: the shape program's numbers, where
 * each buffer lies in the arena, and the launches with their addresses, captured as lists of the device. Running is then
 * to look the instance up, to patch in the addresses that the caller changed, and to launch.
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
    size_t max_instances;     /* sets of shapes that stay prepared; at least 1 */
    bool profile;
};

/* `file` outlives the context. */
enum ingot_status ig_context_create(const struct ig_engine_file *file, const struct ig_context_config *config,
                                    struct ig_context **out_context, struct ingot_error *error);
void ig_context_destroy(struct ig_context *context);

/* As in ingot.h, which says what they do; indices are checked. */
enum ingot_status ig_context_set_input(struct ig_context *context, size_t index, const struct ingot_tensor *tensor,
                                       struct ingot_error *error);
enum ingot_status ig_context_set_output(struct ig_context *context, size_t index, void *data, size_t size,
                                        struct ingot_error *error);
enum ingot_status ig_context_run(struct ig_context *context, struct ingot_error *error);
enum ingot_status ig_context_output(const struct ig_context *context, size_t index, struct ingot_tensor *out_tensor,
                                    struct ingot_error *error);
size_t ig_context_profile(const struct ig_context *context, struct ingot_profile_row *rows, size_t capacity);
enum ingot_status ig_context_memory(struct ig_context *context, struct ingot_memory_info *out_info,
                                    struct ingot_error *error);

/* What is known of a tensor of the plan before shapes are bound. */
void ig_plan_tensor_info(const struct ig_plan *plan, const struct ig_plan_tensor *tensor,
                         struct ingot_tensor_info *out_info);

#endif
