/* ingot_arena_*: activation memory that contexts share. */
#include "api/arena.h"

#include <stdatomic.h>
#include <stdio.h>

#include "api/options.h"
#include "base/memory.h"

struct ingot_arena {
    const struct ingot_allocator *allocator;
    atomic_size_t references;
    enum ingot_memory memory;
    int number; /* of the GPU */
    struct ig_device *device;
    struct ig_activations *activations;
};

static enum ingot_status check_options(const struct ingot_arena_options *options, struct ingot_error *error) {
    if (options->memory != INGOT_HOST && options->memory != INGOT_CUDA)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "memory is %d, an arena's is INGOT_HOST or INGOT_CUDA",
                      (int)options->memory);
    if (options->device < 0) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "device is %d", options->device);
    if (!options->data && options->size)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "size is %zu, but data is NULL", options->size);
    if (options->data && options->max_bytes)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "max_bytes is %zu, but an arena in given memory never grows",
                      options->max_bytes);
    if ((uintptr_t)options->data % 64 != 0)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "data is not aligned to 64 bytes");
    return INGOT_OK;
}

/* Allocating on the CPU needs no threads. */
static enum ingot_status open_device(struct ingot_arena *arena, struct ingot_error *error) {
    if (arena->memory == INGOT_HOST) return ig_device_cpu_create(1, arena->allocator, &arena->device, error);
    return ig_device_cuda_create(arena->number, arena->allocator, &arena->device, error);
}

static enum ingot_status fill(struct ingot_arena *arena, const struct ingot_arena_options *options,
                              struct ingot_error *error) {
    IG_TRY(open_device(arena, error));
    const struct ig_activations_config config = {.allocator = arena->allocator,
                                                 .device = arena->device,
                                                 .shared = true,
                                                 .max_bytes = options->max_bytes,
                                                 .data = options->data,
                                                 .size = options->size};
    return ig_activations_create(&config, &arena->activations, error);
}

enum ingot_status ingot_arena_create(const struct ingot_arena_options *given, struct ingot_arena **out_arena,
                                     struct ingot_error *error) {
    struct ingot_arena_options options = INGOT_ARENA_OPTIONS_INIT;
    const struct ingot_allocator *allocator;
    if (!out_arena) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_arena_create: out_arena is NULL");
    IG_TRY(ig_options_read("ingot_arena_options", given, sizeof options, &options, error));
    IG_TRY(ig_options_allocator(options.allocator, &ig_libc_allocator, &allocator, error));
    IG_TRY(check_options(&options, error));
    struct ingot_arena *arena = ig_allocate(allocator, sizeof *arena, _Alignof(struct ingot_arena));
    if (!arena) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an arena");
    arena->allocator = allocator;
    arena->memory = options.memory;
    arena->number = options.device;
    atomic_init(&arena->references, 1);
    enum ingot_status status = fill(arena, &options, error);
    if (status != INGOT_OK)
        ingot_arena_release(arena);
    else
        *out_arena = arena;
    return status;
}

void ingot_arena_retain(struct ingot_arena *arena) {
    if (arena) atomic_fetch_add_explicit(&arena->references, 1, memory_order_relaxed);
}

void ingot_arena_release(struct ingot_arena *arena) {
    /* Acquire and release: whatever other threads did with the arena happens before it is destroyed. */
    if (!arena || atomic_fetch_sub_explicit(&arena->references, 1, memory_order_acq_rel) != 1) return;
    ig_activations_destroy(arena->activations);
    if (arena->device) arena->device->api->destroy(arena->device);
    ig_release(arena->allocator, arena, sizeof *arena);
}

void ingot_arena_trim(struct ingot_arena *arena) {
    if (arena) ig_activations_trim(arena->activations);
}

enum ingot_status ingot_arena_describe(struct ingot_arena *arena, struct ingot_arena_info *out_info,
                                       struct ingot_error *error) {
    if (!arena || !out_info)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_arena_describe: %s is NULL", arena ? "out_info" : "arena");
    ig_activations_describe(arena->activations, out_info);
    return INGOT_OK;
}

/* ---- Contexts ---------------------------------------------------------------------------------------------------- */

enum ingot_status ig_arena_check(const struct ingot_arena *arena, bool on_gpu, int device, struct ingot_error *error) {
    char is[32] = "the CPU", wanted[32] = "the CPU";
    bool fits = arena->memory == (on_gpu ? INGOT_CUDA : INGOT_HOST) && (!on_gpu || arena->number == device);
    if (fits) return INGOT_OK;
    if (arena->memory == INGOT_CUDA) snprintf(is, sizeof is, "GPU %d", arena->number);
    if (on_gpu) snprintf(wanted, sizeof wanted, "GPU %d", device);
    return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the arena is for %s, but the context runs on %s", is, wanted);
}

struct ig_activations *ig_arena_activations(const struct ingot_arena *arena) {
    return arena->activations;
}
