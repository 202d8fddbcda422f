/* NCCL's library, loaded at run time: 2.18 to 2.x. Its API: NCCL user guide, and nccl.h of 2.18, of whose configuration this has the
 * beginning: libraries take the size and the version of what they are given. */
#ifndef IG_DIST_NCCL_LIBRARY_H
#define IG_DIST_NCCL_LIBRARY_H

#include "base/error.h"

#define IG_NCCL_OLDEST 21800

enum { IG_NCCL_SUCCESS = 0, IG_NCCL_IN_PROGRESS = 7 };
typedef int ig_nccl_result;
typedef struct ncclComm *ig_nccl_comm;

struct ig_nccl_id {
    char bytes[128];
};

struct ig_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
};

struct ig_nccl_library {
    void *file; /* NULL: there is none */
    int version;
    ig_nccl_result (*GetVersion)(int *version);
    const char *(*GetErrorString)(ig_nccl_result result);
    const char *(*GetLastError)(ig_nccl_comm comm);
    ig_nccl_result (*GetUniqueId)(struct ig_nccl_id *id);
    ig_nccl_result (*CommInitRankConfig)(ig_nccl_comm *comm, int ranks, struct ig_nccl_id id, int rank,
                                         struct ig_nccl_config *config);
    ig_nccl_result (*CommGetAsyncError)(ig_nccl_comm comm, ig_nccl_result *result);
    ig_nccl_result (*CommFinalize)(ig_nccl_comm comm);
    ig_nccl_result (*CommDestroy)(ig_nccl_comm comm);
    ig_nccl_result (*CommAbort)(ig_nccl_comm comm);
    ig_nccl_result (*GroupStart)(void);
    ig_nccl_result (*GroupEnd)(void);
    ig_nccl_result (*AllReduce)(const void *from, void *to, size_t count, int type, int op, ig_nccl_comm comm,
                                void *stream);
    ig_nccl_result (*AllGather)(const void *from, void *to, size_t count, int type, ig_nccl_comm comm, void *stream);
    ig_nccl_result (*ReduceScatter)(const void *from, void *to, size_t count, int type, int op, ig_nccl_comm comm,
                                    void *stream);
    ig_nccl_result (*Reduce)(const void *from, void *to, size_t count, int type, int op, int root, ig_nccl_comm comm,
                             void *stream);
    ig_nccl_result (*Broadcast)(const void *from, void *to, size_t count, int type, int root, ig_nccl_comm comm,
                                void *stream);
    ig_nccl_result (*Send)(const void *from, size_t count, int type, int peer, ig_nccl_comm comm, void *stream);
    ig_nccl_result (*Recv)(void *to, size_t count, int type, int peer, ig_nccl_comm comm, void *stream);
};

/* Loads the library of that file or, if it is NULL, by its usual names, as one of `out_library`'s own. INGOT_DEVICE, naming what was
 * tried, if it is missing; INGOT_UNSUPPORTED if it is older than 2.18. Unload it in any case. */
enum ingot_status ig_nccl_load(const char *file, struct ig_nccl_library *out_library, struct ingot_error *error);
void ig_nccl_unload(struct ig_nccl_library *library);

#endif
