/* Collectives of tensors in GPU memory, by NCCL; see nccl.c. */
#ifndef IG_DIST_NCCL_H
#define IG_DIST_NCCL_H

#include "dist/dist.h"

/*
 * A seat of GPUs that open windows (ig_group_open_windows) and enqueue collectives on streams (ig_group_enqueue), beside what `host`,
 * the same rank's seat of a group on CPUs, does with host memory. Each rank has a GPU of its own. `host` is the new seat's from
 * now on; on failure it stays the caller's. What is enqueued needs NCCL (libnccl.so.2, libnccl.so, or `library`): such calls
 * return INGOT_DEVICE, naming what was tried, if it is missing; INGOT_UNSUPPORTED if it is older than 2.18. The ranks connect with
 * the first call that is enqueued.
 */
enum ingot_status ig_nccl_create(struct ig_group *host, const char *library, struct ig_group **out_seat,
                                 struct ingot_error *error);

/* Forgets a failure, after which the ranks connect anew: for groups of threads, with ig_group_renew_local of the hosts' seats,
 * of which *out_host is the seat's. A seat of CPUs is its own. Of all seats before any is used again. */
enum ingot_status ig_nccl_renew(struct ig_group *seat, struct ig_group **out_host, struct ingot_error *error);

#endif
