/* What code is generated for. Decided by feature bits, never by model numbers. */
#ifndef IG_IR_TARGET_H
#define IG_IR_TARGET_H

#include <stdbool.h>

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
    int sm;               /* CUDA: ten times the compute capability (80, 90, 100); 0 on CPUs */
    bool sm_own;          /* CUDA: also what only this architecture has ("sm_90a": wgmma) */
};

/* Multiprocessors of the GPU that choices have in mind, of which a target says nothing: an H100's. */
enum { IG_CUDA_PROCESSORS = 132 };

static inline bool ig_target_is_cuda(const struct ig_target *target) {
    return target->isa == IG_ISA_CUDA;
}

/* Kernels may be started before those that they depend on have ended, and wait by themselves (griddepcontrol). */
static inline bool ig_target_has_early_start(const struct ig_target *target) {
    return ig_target_is_cuda(target) && target->sm >= 90;
}

/* Groups of four warps multiply together (wgmma). */
static inline bool ig_target_has_warpgroups(const struct ig_target *target) {
    return ig_target_is_cuda(target) && target->sm == 90 && target->sm_own;
}

/* Columns of a packed weight panel (the attribute `packed` of matmul and conv): two vectors of f32, the width of the
 * contraction's micro-kernel. Decided here because the layout pass packs and the contract kernels read. */
static inline int ig_target_nr(const struct ig_target *target) {
    return 2 * target->vector_bytes / 4;
}

/* Units of a packed panel of a recurrence's weights (ops.def), of elements of that many bytes: the gates of one unit lie
 * in one panel, and its rows are two to four vectors long. */
static inline int ig_target_units(const struct ig_target *target, int gates, int element_bytes) {
    return (gates == 1 ? 2 : 1) * target->vector_bytes / element_bytes;
}

#endif
