/*
 * Recorded launches and copies: a CUDA graph of explicit nodes, a chain in recording order or, where dependencies are
 * given (ig_cuda_list_after), a graph with these edges. The list keeps the parameters of every node, so that an address
 * can be replaced at any time: the node is marked, and updated before the next launch of the graph. Until the graph has
 * been made (ig_cuda_list_ready), the items are launched one by one.
 *
 * A library call is a child graph captured from a stream. When its addresses change, it is captured again.
 *
 * If a kernel with one predecessor waits for it by itself (griddepcontrol.wait), the edge between them is programmatic
 * (sm_90 and up), and so is its launch without a graph: the kernel is scheduled while its predecessor drains (CUDA
 * Programming Guide, "Programmatic Dependent Launch"). Kernels of few large blocks are an exception.
 */
#ifndef IG_DEVICE_CUDA_LIST_H
#define IG_DEVICE_CUDA_LIST_H

#include "device/cuda/module.h"

enum ingot_status ig_cuda_list_create(struct ig_cuda *cuda, struct ig_list **out_list, struct ingot_error *error);
/* Requires ig_cuda_enter. Launches in flight still complete: the driver defers the destruction of their graph. */
void ig_cuda_list_destroy(struct ig_cuda *cuda, struct ig_list *list);

/* The next appended item depends on these items only. */
enum ingot_status ig_cuda_list_after(struct ig_list *list, const uint32_t *items, uint32_t count,
                                     struct ingot_error *error);
/* Appends a launch of `grid` blocks (0: a no-op), a copy or a library call. */
enum ingot_status ig_cuda_list_add_kernel(struct ig_list *list, const struct ig_launch *launch,
                                          struct ig_cuda_function function, uint32_t grid, struct ingot_error *error);
enum ingot_status ig_cuda_list_add_copy(struct ig_list *list, void *to, const void *from, size_t size,
                                        struct ingot_error *error);
enum ingot_status ig_cuda_list_add_library(struct ig_list *list, const struct ig_launch *launch,
                                           struct ingot_error *error);
/* Ends recording: ensures the memory that launches need. Requires ig_cuda_enter. */
enum ingot_status ig_cuda_list_finish(struct ig_cuda *cuda, struct ig_list *list, struct ig_stream *stream,
                                      struct ingot_error *error);
/* Builds the graph and uploads it to the GPU, if that has not been done. Requires ig_cuda_enter. */
enum ingot_status ig_cuda_list_ready(struct ig_cuda *cuda, struct ig_list *list, struct ig_stream *stream,
                                     struct ingot_error *error);

size_t ig_cuda_list_bytes(const struct ig_list *list);
void ig_cuda_list_patch(struct ig_list *list, uint32_t item, uint32_t buffer, void *address);
void ig_cuda_list_skip(struct ig_list *list, uint32_t item, bool skipped);
/* Requires ig_cuda_enter. */
enum ingot_status ig_cuda_list_launch(struct ig_cuda *cuda, struct ig_list *list, struct ig_stream *stream,
                                      struct ingot_error *error);

#endif
