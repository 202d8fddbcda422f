/*
 * The results that a context owns: a pool of sets of buffers, one set a run. The context writes to a set that nobody
 * holds. A caller may take a lease on the last run's set: from then on no run writes to it, until it is released, from
 * any thread. With k leases held there are k + 1 sets; without leases one set serves all runs.
 *
 * Work on the caller's streams may go on reading a set when the lease is released: an event tells the next run where it
 * ends. Mostly that is the stream of the leased run, and the next run is on it, too. Then nothing need be recorded, so that
 * this is put off, as long as the stream is known to exist: ingot.h says that it does until a wait.
 *
 * The pool belongs to the context and to the leases, and the last of them destroys it. While the context exists, only
 * its thread uses the pool's device, but for what device.h allows any thread.
 */
#ifndef IG_RUNTIME_RESULTS_H
#define IG_RUNTIME_RESULTS_H

#include <stdatomic.h>

#include "device/device.h"

struct ig_results_pool;

/* What is known of the run whose results are leased. */
enum ig_outcome { IG_OUTCOME_OPEN, IG_OUTCOME_GOOD, IG_OUTCOME_BAD };

/* A stream of the caller's whose work reads a leased set. Kept with the set for later leases. */
struct ig_reader {
    struct ig_reader *next;
    void *native;         /* the stream; NULL: none, the reader is free */
    struct ig_event *end; /* of its work */
    bool ended;           /* the lease was released; a later run has not waited for its work yet */
    bool unmarked;        /* then: `end` is to be recorded once another stream, or the host, waits for it */
};

/* A set; once leased, also the lease. */
struct ig_results {
    struct ig_results_pool *pool;
    struct ig_results *next;
    char *host, *device; /* two blocks; `host` is pinned, `device` NULL unless the device has memory of its own */
    size_t host_size, device_size;
    bool taken;           /* the run whose results it has was leased; only the context's thread uses this */
    atomic_bool leased;   /* somebody holds the lease, or work may read the set for ever (ig_results_release) */
    atomic_int outcome;   /* an enum ig_outcome */
    struct ig_event *end; /* of the leased run; NULL: never leased while in flight */
    void *native;         /* the caller's stream that the leased run was enqueued on, which exists; NULL: none */
    /* Streams that read it; the holder's until the lease is released, then the context's. */
    struct ig_reader *readers;
    /* By output, of the leased run: dtype INGOT_DTYPE_NONE if the result is not in the set. */
    struct ingot_tensor *tensors;
};

/* `device` gains an owner. */
enum ingot_status ig_results_pool_create(struct ig_device *device, size_t n_outputs,
                                         const struct ingot_allocator *allocator, struct ig_results_pool **out_pool,
                                         struct ingot_error *error);
/* The context gives the pool up, once its work is done; it must not use its device any more. Accepts NULL. */
void ig_results_pool_drop(struct ig_results_pool *pool);
/* Bytes of all sets. */
size_t ig_results_pool_bytes(const struct ig_results_pool *pool);
/* Frees the memory of the sets that nobody holds; no run may be in flight. */
void ig_results_pool_trim(struct ig_results_pool *pool);
/* From now on streams of the caller's on which runs were enqueued need not exist. */
void ig_results_pool_let_go(struct ig_results_pool *pool);
/* The context has waited for all its runs, with this result. */
void ig_results_pool_settle(struct ig_results_pool *pool, bool good);

/* A set that nobody holds, with room for so many bytes if possible: `first`, else `second` (either may be NULL), else
 * any, since patching addresses costs time. NULL if all are held. */
struct ig_results *ig_results_find(const struct ig_results_pool *pool, struct ig_results *first,
                                   struct ig_results *second, size_t host, size_t device);
/* Adds a set without memory. */
enum ingot_status ig_results_add(struct ig_results_pool *pool, struct ig_results **out_results,
                                 struct ingot_error *error);
bool ig_results_have_room(const struct ig_results *results, size_t host, size_t device);
/* Grows a set that nobody holds; no run may be in flight. */
enum ingot_status ig_results_reserve(struct ig_results *results, size_t host, size_t device, struct ingot_error *error);
/* Orders work enqueued on `stream` from now on behind the readers of an earlier lease. `native`: the caller's stream that
 * this is, if it is one. INGOT_UNSUPPORTED where a reader's end is not marked and its stream is being captured now. */
enum ingot_status ig_results_follow_readers(struct ig_results *results, struct ig_stream *stream, const void *native,
                                            struct ingot_error *error);

/* Leases a set whose `tensors` are filled in. `stream`: where the run's last work was enqueued; NULL: nothing of it is
 * in flight. `native`: the caller's stream that this is, if it is one. */
enum ingot_status ig_results_lease(struct ig_results *results, struct ig_stream *stream, void *native,
                                   struct ingot_error *error);

/* ---- By a lease's holder, on any thread; documented in ingot.h ---- */

enum ingot_status ig_results_wait(struct ig_results *results, struct ingot_error *error);
enum ingot_status ig_results_wait_for(struct ig_results *results, double seconds, struct ingot_error *error);
enum ingot_status ig_results_output(const struct ig_results *results, size_t index, struct ingot_tensor *out_tensor,
                                    struct ingot_error *error);
enum ingot_status ig_results_follow(struct ig_results *results, void *native, struct ingot_error *error);
/* Where a reader's stream is being captured, nothing can tell the end of what was on it before: the set is out of use for
 * good. */
void ig_results_release(struct ig_results *results);
enum ingot_status ig_results_release_after(struct ig_results *results, void *native, struct ingot_error *error);

#endif
