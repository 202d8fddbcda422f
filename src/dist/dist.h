/*
 * Groups: ranks that compute together, threads of one process or processes of one or several hosts, and what they do with
 * each other's tensors (base/collective.h).
 *
 * A group object is one rank's seat in the group. All ranks call the same functions in the same order, each on its seat;
 * a seat belongs to one thread at a time, and each rank needs a thread of its own, since a call waits for the others.
 * No wait is longer than the group's time limit.
 *
 * Calls are numbered, and ranks compare what they are about: one that is at another call, or at the same with other
 * sizes, is an error and not a wrong result (SEND and RECEIVE are compared by their two ranks). The first failure ends
 * the group on all ranks: it names the rank that is missing and what it did last, every later call returns it, and what
 * is left is to destroy the seat. A new group may be made at any time.
 */
#ifndef IG_DIST_DIST_H
#define IG_DIST_DIST_H

#include "base/collective.h"
#include "base/memory.h"
#include "base/stop.h"

struct ig_group;
struct ig_device; /* device/device.h */
struct ig_stream;

#define IG_GROUP_SECONDS 10.0 /* the time limit, unless the options say otherwise */

struct ig_group_options {
    const struct ingot_allocator *allocator; /* NULL: the C library's; borrowed for the seat's life */
    double seconds;                          /* the longest wait; 0: IG_GROUP_SECONDS */
};

/* Seats of `ranks` threads of this process. They share what they need; each is destroyed by itself. */
enum ingot_status ig_group_create_local(uint32_t ranks, const struct ig_group_options *options,
                                        struct ig_group **out_seats, struct ingot_error *error);
/* Makes a group of threads as it was at first, failures forgotten. None of its seats may be in a call. */
void ig_group_renew_local(struct ig_group *const *seats, uint32_t ranks);

enum ig_transport {
    IG_TRANSPORT_BEST, /* shared memory on one host; across hosts MPI */
    IG_TRANSPORT_SHARED,
    IG_TRANSPORT_MPI,
};
struct ig_join_options {
    struct ig_group_options group;
    const char *const *environment; /* that the launcher made: "NAME=value" …, NULL, like environ (place.h) */
    enum ig_transport transport;
    const char *mpi_library; /* the file of MPI's library; NULL: found by its usual names */
};
/* This process's seat, by what its launcher says. Waits for the other ranks, at most for the time limit: INGOT_TIMEOUT, which
 * says who is missing; INGOT_INCOMPATIBLE: a rank has another number of ranks or another version of Ingot;
 * INGOT_INVALID_ARGUMENT: nothing says which rank this is; INGOT_UNSUPPORTED: ranks on several hosts, and no MPI. */
enum ingot_status ig_group_join(const struct ig_join_options *options, struct ig_group **out_seat,
                                struct ingot_error *error);
/* Accepts NULL. Other ranks that wait for this one are told that it has left. */
void ig_group_destroy(struct ig_group *group);

uint32_t ig_group_rank(const struct ig_group *group);
uint32_t ig_group_ranks(const struct ig_group *group);
/* How many of them are on this host, as far as is known: at least 1. */
uint32_t ig_group_neighbours(const struct ig_group *group);
/* What carries its tensors: "shared memory", "MPI (…)", "NCCL …", "windows, NCCL …", "NCCL …; no windows: …". */
const char *ig_group_transport(const struct ig_group *group);
/* The memory that tensors go through: what the ranks of a host share, or this rank's buffers or window, which it may open yet. */
size_t ig_group_bytes(const struct ig_group *group);
/* What NCCL has been seen to take of this rank's GPU, in bytes: by how much the GPU's free memory fell while it connected the ranks, and
 * during the first calls of each kind and size. What others take or give back at that time counts too. 0: it has not been used. */
size_t ig_group_library_bytes(const struct ig_group *group);
/* Later waits take no longer, but for those of kernels, whose limit is the one at which windows were opened. */
void ig_group_set_time_limit(struct ig_group *group, double seconds);

struct ig_collective_call {
    struct ig_collective what;
    const struct ig_collective_sizes *sizes;
    /* Of ig_collective_bytes. Those of ALL_REDUCE and BROADCAST may be the same; else they do not overlap. */
    const void *source;
    void *destination;
    const char *label;          /* what it belongs to, for messages */
    const struct ig_stop *stop; /* asked while it waits: INGOT_CANCELLED; NULL: nobody asks */
};

/* Takes part in a collective; allocates nothing. INGOT_TIMEOUT: a rank did not come in time; INGOT_DEVICE: one has left or
 * died; INGOT_INCOMPATIBLE: one does something else. */
enum ingot_status ig_group_call(struct ig_group *group, const struct ig_collective_call *call,
                                struct ingot_error *error);
/* The same of tensors in GPU memory (nccl.h), in the order of a stream of the driver's, whose GPU, `device`, is current: returns when
 * the call is enqueued. INGOT_UNSUPPORTED by groups of CPUs. */
enum ingot_status ig_group_enqueue(struct ig_group *group, const struct ig_collective_call *call,
                                   struct ig_device *device, void *stream, struct ingot_error *error);
bool ig_group_enqueues(const struct ig_group *group);
/* The ranks have so many GPUs, each the same number of ranks or one more: before windows are opened, on all seats. They exchange
 * through windows alone, so that results do not depend on that number, and it is an error if there can be none. If there are
 * fewer than ranks, which are threads then, their calls are split into launches (base/window.h). 0: each rank has a GPU, and what
 * suits windows less takes another way. */
void ig_group_share_gpus(struct ig_group *group, uint32_t gpus);
bool ig_group_has_windows_alone(const struct ig_group *group);
bool ig_group_splits_calls(const struct ig_group *group);
/* Of such a group, between two launches of a call: what is enqueued on this rank's stream from then on comes behind what all ranks
 * enqueued on theirs before they called this. */
enum ingot_status ig_group_meet(struct ig_group *group, struct ig_stream *stream, struct ingot_error *error);
/*
 * Windows (base/window.h), through which kernels of the ranks' GPUs exchange by themselves. All ranks call this together, each with
 * the device that its kernels run on; later calls do nothing. INGOT_OK also where there can be none.
 */
enum ingot_status ig_group_open_windows(struct ig_group *group, struct ig_device *device, struct ingot_error *error);
/* May this rank's kernels of two runs be under way? Not if other ranks of this process have its GPU too, of this group or of another:
 * kernels that wait could keep each other from it. */
bool ig_group_may_overlap(const struct ig_group *group);
/* Whose work is under way on the seat; NULL: nobody's. The group only keeps it. */
void *ig_group_user(const struct ig_group *group);
void ig_group_set_user(struct ig_group *group, void *user);
/* The address of this rank's struct ig_window_seat, in the memory of its GPU; NULL: there are no windows. */
void *ig_group_seat(const struct ig_group *group);
/* Kernels name their calls by numbers; how messages shall name them. */
enum ingot_status ig_group_name_call(struct ig_group *group, uint32_t number, const char *label,
                                     struct ingot_error *error);
/* Windows or NCCL (ways.c), for a call of which the larger tensor has so many bytes; all ranks are told the same. OPEN: they measure
 * both, all of them, and then choose. */
enum ig_way { IG_WAY_WINDOWS, IG_WAY_NCCL, IG_WAY_OPEN };
enum ig_way ig_group_way(const struct ig_group *group, const struct ig_collective_call *call, size_t bytes);
struct ig_way_times {
    uint64_t windows, nccl; /* nanoseconds of a call; 0: it could not be measured */
};
/* Of calls that are open, before the first is enqueued: connects the ranks by NCCL. If one cannot, all do without from then on, and
 * nothing is open any more. */
enum ingot_status ig_group_connect(struct ig_group *group, struct ig_device *device, bool *out_connected,
                                   struct ingot_error *error);
/* All ranks bring what they measured; from then on the way is known for calls of that kind and about that size. */
enum ingot_status ig_group_choose_way(struct ig_group *group, const struct ig_collective_call *call, size_t bytes,
                                      const struct ig_way_times *mine, struct ingot_error *error);
struct ig_way_measured {
    uint32_t kind;
    size_t bytes;
    struct ig_way_times slowest; /* of the ranks */
    bool by_nccl;
};
/* What has been measured, up to IG_MOST_WAYS; returns how much that is. */
enum { IG_MOST_WAYS = 16 };
size_t ig_group_ways(const struct ig_group *group, struct ig_way_measured *out, size_t capacity);
/* While what was enqueued is waited for, and behind it: the failure of one of them. */
enum ingot_status ig_group_look(struct ig_group *group, struct ingot_error *error);
/* Nanoseconds that a wait may take. */
uint64_t ig_group_limit(const struct ig_group *group);
/* Returns when all ranks have come. */
enum ingot_status ig_group_barrier(struct ig_group *group, const char *label, struct ingot_error *error);
/* out_all[r * size …] = what rank r brings, of host memory. */
enum ingot_status ig_group_gather(struct ig_group *group, const void *mine, size_t size, void *out_all,
                                  const char *label, struct ingot_error *error);
/* Do all ranks bring the same bytes? If not, INGOT_INCOMPATIBLE on all: "rank 1 has another `what`". */
enum ingot_status ig_group_agree(struct ig_group *group, const void *data, size_t size, const char *what,
                                 struct ingot_error *error);
/* Tries every kind of collective on known data, small and large. INGOT_DEVICE if a result is wrong. */
enum ingot_status ig_group_test(struct ig_group *group, struct ingot_error *error);
/* Ends the group for a reason of this rank's: others are told at their next call or in the one that waits for it. */
void ig_group_fail(struct ig_group *group, enum ingot_status status, const char *reason);
/* INGOT_OK, or the failure that ended the group. */
enum ingot_status ig_group_failure(const struct ig_group *group, struct ingot_error *error);

#endif
