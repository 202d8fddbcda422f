/* The products of a recurrence's steps by a CUDA block, or the blocks of a cluster, described for codegen
 * (codegen/cuda/recurrent/recurrent.c): everything that its text depends on. */
#ifndef IG_KERNEL_CUDA_RECURRENT_BLOCK_H
#define IG_KERNEL_CUDA_RECURRENT_BLOCK_H

#include <stdbool.h>

#include "ingot/ingot.h"

struct ig_cuda_recurrent {
    enum ingot_dtype weight;  /* f32, f64, f16 or bf16 */
    enum ingot_dtype element; /* of states and sums: f32 or f64 */
    int gates, units;         /* of the panel of weights that a block multiplies: gates * units sums */
    int hidden, stride;       /* elements of a state, and from one to the next */
    int rows;                 /* of a tile, at most */
    int parts, depth;         /* the sums' terms are divided into parts of `depth`, the last may be shorter */
    bool cores;               /* products on the tensor cores, of f16 or bf16 */
    int registers;            /* on them: steps of 16 terms of each part whose weights stay in registers */
    int kept;                 /* of each part: terms whose weights stay in shared memory */
    int threads, blocks;      /* blocks: of a cluster */
};

/* Elements of an operand on the tensor cores: eight columns for each four rows. */
static inline int ig_cuda_recurrent_slot(const struct ig_cuda_recurrent *recurrent) {
    return (recurrent->rows + 3) / 4 * 8 * ((recurrent->hidden + 15) / 16 * 16 + 8);
}

#endif
