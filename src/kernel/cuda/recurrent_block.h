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
    int parts, depth; /* on CUDA cores: the sums' terms are divided into parts of `depth`, the last may be shorter */
    /* Products on the tensor cores, of f16 or bf16. A warp has eight units, and a thread all gates of one, in rows / 4 rows: its sums,
     * states and cells stay in its registers. Rows are 4 or a multiple of 8. */
    bool cores;
    int registers;       /* on them: steps of 16 terms whose weights stay in registers */
    int kept;            /* terms whose weights stay in shared memory; on CUDA cores, of each part */
    int threads, blocks; /* blocks: of a cluster */
    int resident;        /* on the tensor cores: blocks of a multiprocessor, which wait by turns; else 0 */
};

/* On the tensor cores. Units in whole warps; columns of instructions: states come as two numbers each. */
static inline int ig_cuda_recurrent_whole_units(const struct ig_cuda_recurrent *recurrent) {
    return (recurrent->units + 7) / 8 * 8;
}
static inline int ig_cuda_recurrent_columns(const struct ig_cuda_recurrent *recurrent) {
    return 2 * recurrent->rows;
}
/* Elements between columns, and of a term of the kept weights, for which gates come in pairs. */
static inline int ig_cuda_recurrent_column(const struct ig_cuda_recurrent *recurrent) {
    return (recurrent->hidden + 15) / 16 * 16 + 8;
}
static inline int ig_cuda_recurrent_term(const struct ig_cuda_recurrent *recurrent) {
    return (recurrent->gates + 1) / 2 * 2 * ig_cuda_recurrent_whole_units(recurrent) + 8;
}

#endif
