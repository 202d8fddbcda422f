/* Streams, events, copies and launches of a CUDA device. All require ig_cuda_enter. */
#ifndef IG_DEVICE_CUDA_STREAM_H
#define IG_DEVICE_CUDA_STREAM_H

#include "device/cuda/context.h"

/* `native`: a stream of the caller's to wrap; NULL: creates one. An adopted stream that was let go has no handle. */
enum ingot_status ig_cuda_stream_create(struct ig_cuda *cuda, CUstream native, struct ig_stream **out_stream,
                                        struct ingot_error *error);
void ig_cuda_stream_destroy(struct ig_cuda *cuda, struct ig_stream *stream);
void ig_cuda_stream_wait_all(struct ig_cuda *cuda);

enum ingot_status ig_cuda_event_create(struct ig_cuda *cuda, bool timed, struct ig_event **out_event,
                                       struct ingot_error *error);
void ig_cuda_event_destroy(struct ig_cuda *cuda, struct ig_event *event);
enum ingot_status ig_cuda_event_elapsed(struct ig_cuda *cuda, struct ig_event *begin, struct ig_event *end,
                                        uint64_t *out_nanoseconds, struct ingot_error *error);
CUevent ig_cuda_event_handle(const struct ig_event *event);

enum ingot_status ig_cuda_copy(struct ig_cuda *cuda, struct ig_stream *stream, void *to, const void *from, size_t size,
                               struct ingot_error *error);
enum ingot_status ig_cuda_launch(struct ig_cuda *cuda, struct ig_stream *stream, const struct ig_launch *launch,
                                 struct ingot_error *error);

#endif
