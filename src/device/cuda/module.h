/*
 * Code that can be run on a GPU: the functions of an engine's code section. Each is loaded when it is first launched or
 * recorded: from the cubin at its entry or, where that is for another GPU, from the PTX that stands beside it.
 */
#ifndef IG_DEVICE_CUDA_MODULE_H
#define IG_DEVICE_CUDA_MODULE_H

#include "device/cuda/context.h"

enum ingot_status ig_cuda_module_create(struct ig_cuda *cuda, const void *code, size_t size,
                                        struct ig_module **out_module, struct ingot_error *error);
/* Within the context. No work that uses it may be under way. */
void ig_cuda_module_destroy(struct ig_cuda *cuda, struct ig_module *module);

/* The function of a launch, ready for its dynamic shared memory. Within the context. Once a function was asked for, asking
 * again calls neither the driver nor the allocator. */
enum ingot_status ig_cuda_module_function(struct ig_cuda *cuda, const struct ig_launch *launch,
                                          CUfunction *out_function, struct ingot_error *error);

#endif
