/*
 * Times of collectives: start + bytes / rate, with the bytes that a rank sends by the usual algorithms. GPUs: two H200 with
 * 18 lanes of NVLink, all-reduces of fp16 through windows in a CUDA graph (8 KiB 3.0 us, 64 KiB 3.5, 1 MiB 8.4, 4 MiB 22, 16 MiB
 * 85); what a further rank takes is an assumption.
 * CPUs: two ranks that share memory, all-reduces of f32 on two cores of which other work took a part (4 KiB 1.1 us, 64 KiB 8, 1 MiB
 * 133, 16 MiB 2440).
 */
#include "compile/shard/links.h"

static const struct ig_link nvlink = {"NVLink", 3, 1, 200e3}, shared_memory = {"shared memory", 1, 0.5, 7.5e3};

const struct ig_link *ig_link_of(const struct ig_target *target) {
    return ig_target_is_cuda(target) ? &nvlink : &shared_memory;
}

double ig_link_time(const struct ig_link *link, enum ig_op op, double bytes, int ranks) {
    if (ranks < 2) return 0;
    double part = (double)(ranks - 1) / ranks;
    double sent = op == IG_OP_all_reduce ? 2 * part : op == IG_OP_broadcast_from ? 1 : part;
    return link->start + link->step * (ranks - 2) + sent * bytes / link->rate;
}
