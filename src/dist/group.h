/* What back ends of groups have in common. */
#ifndef IG_DIST_GROUP_H
#define IG_DIST_GROUP_H

#include <stdatomic.h>

#include "dist/dist.h"

struct ig_windows; /* windows.h */

struct ig_group_api {
    void (*destroy)(struct ig_group *group);
    /* The sizes have been checked, and there is no empty exchange of a pair. `signature` is equal on ranks whose calls go
     * together. */
    enum ingot_status (*call)(struct ig_group *group, const struct ig_collective_call *call, uint64_t signature,
                              struct ingot_error *error);
    /* Of tensors in GPU memory, on a stream of the driver's; and whether what was enqueued has failed since. NULL: not at
     * all. */
    enum ingot_status (*enqueue)(struct ig_group *group, const struct ig_collective_call *call,
                                 struct ig_device *device, void *stream, struct ingot_error *error);
    enum ingot_status (*look)(struct ig_group *group, struct ingot_error *error);
    /* Descriptors of all ranks' open files, for ranks of one host: out_files[r] is the caller's, but for this rank's own, which
     * stays what it is. NULL: there is no way. */
    enum ingot_status (*share_files)(struct ig_group *group, int own, int *out_files, struct ingot_error *error);
    /* See dist.h; NULL: never any. */
    enum ingot_status (*open_windows)(struct ig_group *group, struct ig_device *device, struct ingot_error *error);
    struct ig_windows *(*windows)(const struct ig_group *group);
    /* See ig_group_connect. */
    enum ingot_status (*connect)(struct ig_group *group, struct ig_device *device, bool *out_connected,
                                 struct ingot_error *error);
    bool (*has_gpu_alone)(const struct ig_group *group); /* see ig_group_may_overlap; NULL: yes */
    /* Could NCCL do the call too, on all ranks? NULL: never. */
    bool (*has_both_ways)(const struct ig_group *group, const struct ig_collective_call *call);
    size_t (*bytes)(const struct ig_group *group);
    size_t (*library_bytes)(const struct ig_group *group); /* NULL: 0 */
    /* Tells other ranks that this one has failed. */
    void (*fail)(struct ig_group *group, const char *reason);
};

/* Whether windows or NCCL; see ways.c. Written in calls of all ranks, while others may read. */
struct ig_ways {
    size_t crossing;                               /* bytes */
    atomic_ullong known[IG_COLLECTIVE_COUNT];      /* bit b: of 2^b bytes to less than twice that */
    atomic_ullong nccl[IG_COLLECTIVE_COUNT];       /* of those, which are NCCL's */
    struct ig_way_measured measured[IG_MOST_WAYS]; /* the first ones */
    size_t n_measured;
};
void ig_ways_init(struct ig_ways *ways);

struct ig_group {
    const struct ig_group_api *api;
    const struct ingot_allocator *allocator;
    uint32_t rank, ranks;
    uint32_t neighbours; /* ranks on this host */
    uint32_t gpus;       /* see ig_group_share_gpus */
    uint64_t limit;      /* nanoseconds */
    char transport[96];
    struct ig_ways ways;
    void *user;                 /* see ig_group_user */
    struct ingot_error failure; /* status INGOT_OK: none */
};

/* Fills what is common, from options that may be NULL. */
void ig_group_init(struct ig_group *group, const struct ig_group_api *api, uint32_t rank, uint32_t ranks,
                   const struct ig_group_options *options);

/* ig_group_test with the calls that it is about made by `call`, on host memory. */
typedef enum ingot_status (*ig_group_caller)(struct ig_group *group, const struct ig_collective_call *call,
                                             struct ingot_error *error);
enum ingot_status ig_group_test_by(struct ig_group *group, ig_group_caller call, struct ingot_error *error);

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

/* The elements of all dims, parts not included; and the sum of the parts. */
size_t ig_sizes_block(const struct ig_collective_sizes *sizes);
size_t ig_sizes_whole(const struct ig_collective_sizes *sizes, uint32_t ranks);
/* The parts before a rank's. */
size_t ig_sizes_before(const struct ig_collective_sizes *sizes, uint32_t rank);

#endif
