/*
 * Calls of libraries on a CUDA device: on a stream, or captured from one as a graph for a list (list.c). A library decides
 * by sizes and alignment what it does, which takes it some time; so what was decided is kept.
 */
#ifndef IG_DEVICE_CUDA_LIBRARY_H
#define IG_DEVICE_CUDA_LIBRARY_H

#include "device/cuda/context.h"

/* Loads the library where it is not loaded. INGOT_DEVICE, naming what was looked for, where it is missing. Within the
 * context, as all of these. */
enum ingot_status ig_cuda_library_need(struct ig_cuda *cuda, uint32_t library, struct ingot_error *error);
/* Bytes that the call needs as workspace. */
enum ingot_status ig_cuda_library_workspace(struct ig_cuda *cuda, const struct ig_library_call *call,
                                            const int64_t *sizes, void *const *operands, size_t *out_bytes,
                                            struct ingot_error *error);
enum ingot_status ig_cuda_library_enqueue(struct ig_cuda *cuda, const struct ig_library_call *call,
                                          const int64_t *sizes, void *const *operands, void *workspace, CUstream stream,
                                          struct ingot_error *error);
/* What it would enqueue, as a graph: to be destroyed by the caller. */
enum ingot_status ig_cuda_library_capture(struct ig_cuda *cuda, const struct ig_library_call *call,
                                          const int64_t *sizes, void *const *operands, void *workspace,
                                          CUgraph *out_graph, struct ingot_error *error);
/* Forgets all. No work may be under way. */
void ig_cuda_library_deinit(struct ig_cuda *cuda);

#endif
