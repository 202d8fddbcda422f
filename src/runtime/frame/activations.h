/*
 * Activation memory: what the kernels of a run write and later kernels of the same run read. It holds nothing from one
 * run to the next, so any number of contexts can use the same memory in turn.
 *
 * Owned by one context, it needs neither lock nor events: the runs of a context follow each other anyway. Shared, it
 * belongs to one execution at a time. Threads take turns from ig_activations_begin to _end, for as long as enqueueing
 * takes. On the device the executions are ordered by an event: a stream waits for the last user, if that was on another
 * stream, and records the event again behind its own use; the host does not wait for the device. Where enqueueing
 * computes (the CPU), or reads scalars in between (control flow), the turn lasts as long. Contexts that do not share
 * have no lock in common.
 *
 * Shared memory is allocated and released by a device of its own, on a stream of its own. These and the event belong to
 * the thread whose turn it is. The event is recorded and awaited through the devices of contexts, which are devices of
 * the same GPU.
 */
#ifndef IG_RUNTIME_ACTIVATIONS_H
#define IG_RUNTIME_ACTIVATIONS_H

#include "device/device.h"

struct ig_activations;

struct ig_activations_config {
    const struct ingot_allocator *allocator;
    struct ig_device *device; /* outlives it; if it is shared, no one else uses this device */
    bool shared;
    size_t max_bytes; /* 0: no bound */
    void *data;       /* the caller's memory, which is never grown; NULL: memory of the device */
    size_t size;      /* of `data` */
    bool unordered;   /* for tests that must see the race: executions do not wait for each other */
};

enum ingot_status ig_activations_create(const struct ig_activations_config *config,
                                        struct ig_activations **out_activations, struct ingot_error *error);
/* Frees the memory behind its last user. Accepts NULL. */
void ig_activations_destroy(struct ig_activations *activations);

/* One use of the memory. */
struct ig_execution {
    const void *context; /* whose it is */
    struct ig_device *device;
    struct ig_stream *stream;
    const void *order; /* equal for executions that the device orders anyway: those of one stream */
};

/* Ensures `needed` bytes, not 0, and tells where they are; they may move or shrink before the next execution. On
 * failure (INGOT_OUT_OF_MEMORY, saying how many bytes are missing) executions that need less can still begin. */
enum ingot_status ig_activations_reserve(struct ig_activations *activations, size_t needed, char **out_base,
                                         struct ingot_error *error);
/* The same, and takes the turn: what `execution` enqueues until ig_activations_end has the memory to itself. On failure
 * nothing has begun. */
enum ingot_status ig_activations_begin(struct ig_activations *activations, const struct ig_execution *execution,
                                       size_t needed, char **out_base, struct ingot_error *error);
/* Follows every ig_activations_begin that succeeded, whether or not enqueueing did. */
enum ingot_status ig_activations_end(struct ig_activations *activations, const struct ig_execution *execution,
                                     struct ingot_error *error);

/* Only if it is shared; any thread may call these at any time. A context joins while it exists; trim and describe are
 * documented in ingot.h. */
void ig_activations_join(struct ig_activations *activations);
void ig_activations_leave(struct ig_activations *activations);
void ig_activations_trim(struct ig_activations *activations);
void ig_activations_describe(struct ig_activations *activations, struct ingot_arena_info *out_info);

#endif
