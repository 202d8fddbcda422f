/*
 * Code for a GPU: the functions in an engine's code section. Each is loaded when it is first launched or captured: from
 * the cubin at its entry or, if that is for another GPU, from the PTX beside it. Devices of one GPU may share a module,
 * on any threads: a lock is held while a function is looked up, not when a captured list is launched.
 */
#ifndef IG_DEVICE_CUDA_MODULE_H
#define IG_DEVICE_CUDA_MODULE_H

#include "device/cuda/context.h"

struct ig_cuda_function {
    CUfunction handle;
    size_t maps_at; /* the offset of the first tensor map in the block of parameters, which ends there if it has none */
};

enum ingot_status ig_cuda_module_create(struct ig_cuda *cuda, const void *code, size_t size,
                                        struct ig_module **out_module, struct ingot_error *error);
/* Requires ig_cuda_enter. No work that uses the module may be in flight. */
void ig_cuda_module_destroy(struct ig_cuda *cuda, struct ig_module *module);

/* The function of a launch, configured for its dynamic shared memory. Requires ig_cuda_enter. Cached: later calls call
 * neither the driver nor the allocator. */
enum ingot_status ig_cuda_module_function(struct ig_cuda *cuda, const struct ig_launch *launch,
                                          struct ig_cuda_function *out_function, struct ingot_error *error);

#endif
