/*
 * Calls of vendor libraries on a CUDA device: enqueued on a stream, or captured as a child graph for a list (list.c). A
 * library takes a while to choose an algorithm, by sizes and alignment; the choices are cached.
 */
#ifndef IG_DEVICE_CUDA_LIBRARY_H
#define IG_DEVICE_CUDA_LIBRARY_H

#include "device/cuda/context.h"

/* Loads the library if it is not loaded. INGOT_DEVICE, naming the files tried, if it is missing. Requires
 * ig_cuda_enter, like all of these. */
enum ingot_status ig_cuda_library_need(struct ig_cuda *cuda, uint32_t library, struct ingot_error *error);
/* The workspace that the call needs, in bytes. */
enum ingot_status ig_cuda_library_workspace(struct ig_cuda *cuda, const struct ig_library_call *call,
                                            const int64_t *sizes, void *const *operands, size_t *out_bytes,
                                            struct ingot_error *error);
enum ingot_status ig_cuda_library_enqueue(struct ig_cuda *cuda, const struct ig_library_call *call,
                                          const int64_t *sizes, void *const *operands, void *workspace, CUstream stream,
                                          struct ingot_error *error);
/* The call as a graph, which the caller destroys. */
enum ingot_status ig_cuda_library_capture(struct ig_cuda *cuda, const struct ig_library_call *call,
                                          const int64_t *sizes, void *const *operands, void *workspace,
                                          CUgraph *out_graph, struct ingot_error *error);
/* Frees everything. No such work may be in flight. */
void ig_cuda_library_deinit(struct ig_cuda *cuda);

#endif
