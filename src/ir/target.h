/* The machine that code is generated for. Decided by feature bits, never by model numbers. */
#ifndef IG_IR_TARGET_H
#define IG_IR_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/type.h"

enum ig_isa {
    IG_ISA_X86_64_V3, /* AVX2, FMA, F16C */
    IG_ISA_X86_64_V4, /* AVX-512 F/BW/CD/DQ/VL */
    IG_ISA_AMX,       /* v4 and AMX-TILE/BF16/INT8, AVX512-VNNI/BF16 */
    IG_ISA_CUDA,      /* an NVIDIA GPU: see sm */
    IG_ISA_COUNT
};

struct ig_target {
    enum ig_isa isa;
    int vector_bytes;     /* 32 or 64 */
    int vector_registers; /* 16 or 32 */
    bool vnni;            /* AVX-VNNI (v3) or AVX512-VNNI (v4, AMX): sums of four products of bytes a lane */
    int sm;               /* CUDA: compute capability times ten (80, 90, 100); 0 on CPUs */
    bool sm_own;          /* CUDA: may use architecture-specific features ("sm_90a": wgmma) */
};

/* The number of multiprocessors that cost models assume, since a target does not state it: an H100's. */
enum { IG_CUDA_PROCESSORS = 132 };

static inline bool ig_target_is_cuda(const struct ig_target *target) {
    return target->isa == IG_ISA_CUDA;
}

/* Can kernels start before the kernels they depend on have ended, and wait by themselves (griddepcontrol)? */
static inline bool ig_target_has_early_start(const struct ig_target *target) {
    return ig_target_is_cuda(target) && target->sm >= 90;
}

/* Can blocks form clusters, and access each other's shared memory? */
static inline bool ig_target_has_clusters(const struct ig_target *target) {
    return ig_target_is_cuda(target) && target->sm >= 90;
}

/* Does the copy engine bring pieces of memory to shared memory (cp.async.bulk), and is there enough for two blocks' rings? */
static inline bool ig_target_can_stream(const struct ig_target *target) {
    return ig_target_is_cuda(target) && (target->sm == 90 || target->sm / 10 == 10);
}

/* Are there warp-group products (wgmma)? */
static inline bool ig_target_has_warpgroups(const struct ig_target *target) {
    return ig_target_is_cuda(target) && target->sm == 90 && target->sm_own;
}

/* Columns of a packed weight panel (the attribute `packed` of matmul and conv): two vectors of f32, the width of the
 * contraction's micro-kernel. Defined here because the pack pass writes panels and the contract kernels read them. */
static inline int ig_target_nr(const struct ig_target *target) {
    return 2 * target->vector_bytes / 4;
}

/* The most channels that a group of one input has, if weights are packed for vectors to run along the channels (CPUs). */
enum { IG_TARGET_MOST_OUTPUTS = 64 };

/* The steps of the depth that packed weights have together (ops.def), for operands of these types: as many as
 * instructions sum at once; 1: none. */
static inline int ig_target_together(const struct ig_target *target, enum ingot_dtype a, enum ingot_dtype b) {
    if (target->isa == IG_ISA_AMX && a == INGOT_BF16 && b == INGOT_BF16) return 2;
    if (!ig_target_is_cuda(target) && (a == INGOT_U8 || a == INGOT_I8) && b == INGOT_I16) return 2;
    if (ig_target_is_cuda(target) || (a != INGOT_U8 && a != INGOT_I8) || b != INGOT_I8) return 1;
    if (a == INGOT_U8) return 4;
    return target->vnni ? 1 : 2;
}

/* The most shared memory for one block, in bytes; a multiprocessor has a kilobyte more, and each block takes one for
 * itself. */
static inline int ig_target_shared_bytes(const struct ig_target *target) {
    if (target->sm == 80) return 163 << 10;
    return target->sm == 90 || target->sm / 10 == 10 ? 227 << 10 : 99 << 10;
}

/* Units per packed panel of a recurrence's weights (ops.def), with elements of that many bytes: all gates of a unit lie
 * in one panel. On CPUs, its rows are two to four vectors long. On GPUs, each block of a cluster keeps a panel; few units are one
 * block's, which meets no other, and without clusters all are. On an H200 4 blocks of 64 units with weights of 16 bits took
 * 0.63 of the time of 8 of 32, and one of 48 0.57 of that of 3 of 16. Gates of up to 128 units with weights of 16 bits are those of 16
 * warps (kernel/cuda/recurrent.c). */
static inline int64_t ig_target_units(const struct ig_target *target, int gates, int element_bytes, int64_t hidden) {
    enum { MOST_BLOCKS = 8, FEW = 64, LEAST = 16, AT_ONCE = 4 };
    if (!ig_target_is_cuda(target)) return (gates == 1 ? 2 : 1) * target->vector_bytes / element_bytes;
    bool together = !ig_target_has_clusters(target) || hidden <= (gates > 1 && element_bytes == 2 ? 2 : 1) * FEW;
    int64_t units = together ? hidden : (hidden + MOST_BLOCKS - 1) / MOST_BLOCKS;
    int64_t least = !together && element_bytes == 2 ? FEW : LEAST;
    return units <= least ? least : (units + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
}

#endif
