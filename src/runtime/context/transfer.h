/*
 * Copies of inputs to a device with memory of its own, and of results back.
 *
 * Inputs from host memory lie in one block on the device, and at the same offsets in a pinned staging block that the
 * device fetches from. Small inputs are one copy, which is part of the run like its kernels. Larger ones are pipelined:
 * the host stages one piece while the previous one is being copied to the device. The staging block is double-buffered,
 * so that a run's inputs can be staged while the last run's are in use.
 *
 * Large inputs are staged by several threads and copied on a stream of their own, concurrently with the previous run,
 * into device memory that is double-buffered too; from the caller's pinned memory they are copied in the same way, where
 * a run is in flight. Large results leave in the same way during the next run, where a run
 * is enqueued behind two that may be in flight (a stream of their own costs the host several calls). Where the caller
 * wants them in other memory, they arrive in parts: the host copies one while the next is in flight. The memory that
 * results are staged in, or stay in, is that of results.h.
 */
#ifndef IG_RUNTIME_TRANSFER_H
#define IG_RUNTIME_TRANSFER_H

#include "device/device.h"
#include "runtime/context/copier.h"

/* Staged inputs up to this size are one copy. */
#define IG_TRANSFER_SMALL ((size_t)1 << 20)
/* From this size, a transfer pays for a stream and threads of its own. */
#define IG_TRANSFER_LARGE ((size_t)2 << 20)
/* The most parts that large results are divided into. */
enum { IG_TRANSFER_PARTS = 8 };

/* The bytes that a run needs, and how it transfers them. */
struct ig_transfer_sizes {
    size_t inputs, outputs;               /* of the device's blocks */
    size_t pinned_inputs, pinned_outputs; /* their parts that are staged in pinned memory */
    size_t kept_outputs;                  /* results that stay in device memory that the context owns */
    /* Staged inputs are one copy, which the caller enqueues or captures. */
    bool inputs_at_once;
    bool inputs_beside;   /* staged inputs are copied on a stream of their own */
    size_t direct_inputs; /* large inputs in the caller's pinned memory: double-buffered on the device */
    size_t host_outputs;  /* all results that go to the host, staged or not */
    /* Those results are double-buffered on the device and may leave on a stream of their own. */
    bool outputs_beside;
    bool outputs_in_parts;
};

struct ig_transfer {
    struct ig_device *device;
    unsigned threads;       /* for large host copies, the caller's included */
    char *inputs, *outputs; /* device blocks */
    size_t inputs_size, outputs_size;
    /* Double-buffered device blocks, for inputs_beside, direct_inputs and outputs_beside. */
    char *inputs_twice, *direct_twice, *outputs_twice;
    size_t inputs_twice_size, direct_twice_size, outputs_twice_size;
    char *pinned_inputs;
    size_t pinned_inputs_size;
    char *pinned_outputs; /* the pinned block of this run's results, not owned: see results.h */
    size_t pinned_outputs_size;
    size_t cleared;             /* bytes of the blocks of results that have been written */
    unsigned half;              /* index of the half that this run uses */
    size_t written, on_the_way; /* bytes of inputs staged so far; of these, bytes whose copy is enqueued */
    /* NULL until first needed for something large. */
    struct ig_copier *copier;
    struct ig_stream *beside;
    struct ig_event *arrived; /* recorded on `beside` after the inputs */
    struct ig_stream *away;
    struct ig_event *computed;                 /* recorded on the run's stream: the results may leave */
    struct ig_event *left[2];                  /* recorded on `away`, by half: the results have left */
    unsigned last_left;                        /* the half of the last results that left */
    bool leaving;                              /* copies on `away` may be in flight */
    const char *leaving_from, *leaving_to;     /* a range that encloses the destinations of these copies */
    struct ig_event *parts[IG_TRANSFER_PARTS]; /* by part of results: it has arrived */
    size_t part_bytes;                         /* size of one part; 0: results do not come in parts */
};

/* `threads` may copy large transfers, the caller's included. */
void ig_transfer_init(struct ig_transfer *transfer, struct ig_device *device, unsigned threads);
void ig_transfer_deinit(struct ig_transfer *transfer);

bool ig_transfer_has_room(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes);
/* Grows to these sizes; no run may be in flight. Memory that grows loses its contents and its address. */
enum ingot_status ig_transfer_reserve(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                      struct ingot_error *error);
/* Frees all blocks; no run may be in flight. */
void ig_transfer_trim(struct ig_transfer *transfer);
/* Clears the device's blocks of results, as far as they are copied to a pinned block of this size, and that block; no run
 * may be in flight. For runs with more pinned_outputs than `cleared`: their copies to the host include what lies between
 * results and is never written. */
enum ingot_status ig_transfer_clear(struct ig_transfer *transfer, struct ig_stream *stream, struct ingot_error *error);

/* Chooses the half for the next run. `busy`: the last run may be in flight and using its half. */
void ig_transfer_choose_half(struct ig_transfer *transfer, bool busy);
/* The chosen half of the staging block. */
char *ig_transfer_pinned(const struct ig_transfer *transfer);
/* The device address of the staged input at offset `place`. */
char *ig_transfer_input(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes, size_t place);

/* The device address of the direct input at offset `place`. */
char *ig_transfer_direct(const struct ig_transfer *transfer, size_t place);
/* Direct inputs on a stream of their own, behind `after` (NULL: nothing): begin; enqueue each copy; end. Work enqueued on
 * `stream` afterwards finds them on the device. */
enum ingot_status ig_transfer_begin_direct(struct ig_transfer *transfer, struct ig_event *after,
                                           struct ingot_error *error);
enum ingot_status ig_transfer_send_direct(struct ig_transfer *transfer, void *to, const void *from, size_t bytes,
                                          struct ingot_error *error);
enum ingot_status ig_transfer_end_direct(struct ig_transfer *transfer, struct ig_stream *stream,
                                         struct ingot_error *error);

/* Inputs: begin, once no run uses the chosen half; put each staged input in the order of their offsets; end. Work
 * enqueued on `stream` afterwards finds them on the device. */
void ig_transfer_begin(struct ig_transfer *transfer);
enum ingot_status ig_transfer_put(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                  struct ig_stream *stream, size_t place, const void *data, size_t bytes,
                                  struct ingot_error *error);
enum ingot_status ig_transfer_end(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                  struct ig_stream *stream, struct ingot_error *error);
/* Waits for the copies in flight on streams of their own. */
void ig_transfer_settle(struct ig_transfer *transfer);

/* The device address of the result for the host at offset `place`. */
char *ig_transfer_output(const struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes, size_t place);
/* Makes `stream` wait, before a run, for results of earlier runs that still leave from the same half; with `all`, for
 * all that leave. */
enum ingot_status ig_transfer_follow(struct ig_transfer *transfer, struct ig_stream *stream, bool all,
                                     struct ingot_error *error);
/* May results in flight be written to this memory? Conservative: may be true where they are not. */
bool ig_transfer_leaves_to(const struct ig_transfer *transfer, const void *memory, size_t bytes);
/* Results on a stream of their own: begin, ordered after the work on `stream`; enqueue each copy; end. */
enum ingot_status ig_transfer_begin_leaving(struct ig_transfer *transfer, struct ig_stream *stream,
                                            struct ingot_error *error);
enum ingot_status ig_transfer_leave(struct ig_transfer *transfer, void *to, const void *from, size_t bytes,
                                    struct ingot_error *error);
enum ingot_status ig_transfer_end_leaving(struct ig_transfer *transfer, struct ingot_error *error);
/* Call after the host has waited for the last run. */
void ig_transfer_has_left(struct ig_transfer *transfer);
/* Results in parts: fetch enqueues their copies to the staging block; deliver copies those at `place` from there,
 * waiting for each part. */
enum ingot_status ig_transfer_fetch_parts(struct ig_transfer *transfer, const struct ig_transfer_sizes *sizes,
                                          struct ig_stream *stream, struct ingot_error *error);
enum ingot_status ig_transfer_deliver(struct ig_transfer *transfer, size_t place, void *to, size_t bytes,
                                      struct ingot_error *error);

/* Total of device and pinned memory. */
size_t ig_transfer_bytes(const struct ig_transfer *transfer);

/* Grows device memory, or pinned host memory, to at least `needed` bytes; its contents are lost. */
enum ingot_status ig_device_grow(struct ig_device *device, bool pinned, size_t needed, void **memory, size_t *size,
                                 struct ingot_error *error);

#endif
