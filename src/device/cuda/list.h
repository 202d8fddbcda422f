/*
 * Recorded launches and copies: a CUDA graph made of explicit nodes, a chain in the order of recording, or, where their
 * order was told, with the edges that it asks for. The list keeps every node's parameters, so that an address can be replaced at any time: the node is then marked, and told before the
 * graph is launched again.
 *
 * A call of a library is a graph of its own within, captured from a stream; for other addresses it is captured anew.
 *
 * Where a kernel that comes after one other says that it waits for its predecessor itself, the edge to it is a programmatic one (sm_90 and up): it is
 * put onto the GPU while its predecessor ends (CUDA Programming Guide, "Programmatic Dependent Launch").
 */
#ifndef IG_DEVICE_CUDA_LIST_H
#define IG_DEVICE_CUDA_LIST_H

#include "device/cuda/context.h"

enum ingot_status ig_cuda_list_create(struct ig_cuda *cuda, struct ig_list **out_list, struct ingot_error *error);
/* Within the context. Launches that are under way are finished. */
void ig_cuda_list_destroy(struct ig_cuda *cuda, struct ig_list *list);

/* What is appended next comes after these items, and after no others. */
enum ingot_status ig_cuda_list_after(struct ig_list *list, const uint32_t *items, uint32_t count,
                                     struct ingot_error *error);
/* Appends a launch of `grid` blocks (0: nothing will be done) or a copy. */
enum ingot_status ig_cuda_list_add_kernel(struct ig_list *list, const struct ig_launch *launch, CUfunction function,
                                          uint32_t grid, struct ingot_error *error);
enum ingot_status ig_cuda_list_add_copy(struct ig_list *list, void *to, const void *from, size_t size,
                                        struct ingot_error *error);
enum ingot_status ig_cuda_list_add_library(struct ig_list *list, const struct ig_launch *launch,
                                           struct ingot_error *error);
/* Makes the graph of all that was appended, and brings it to the GPU. Within the context. */
enum ingot_status ig_cuda_list_finish(struct ig_cuda *cuda, struct ig_list *list, struct ig_stream *stream,
                                      struct ingot_error *error);

size_t ig_cuda_list_bytes(const struct ig_list *list);
void ig_cuda_list_patch(struct ig_list *list, uint32_t item, uint32_t buffer, void *address);
void ig_cuda_list_skip(struct ig_list *list, uint32_t item, bool skipped);
/* Within the context. */
enum ingot_status ig_cuda_list_launch(struct ig_cuda *cuda, struct ig_list *list, struct ig_stream *stream,
                                      struct ingot_error *error);

#endif
