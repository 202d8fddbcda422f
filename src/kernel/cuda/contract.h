/*
 * Contractions on GPUs: the schedules, and what their parts share. contract.c makes the loops of a matrix product,
 * contract_operand.c finds out where operands lie, contract_choose.c chooses the tiles.
 */
#ifndef IG_KERNEL_CUDA_CONTRACT_H
#define IG_KERNEL_CUDA_CONTRACT_H

#include "kernel/contract.h"
#include "kernel/cuda/gemm_block.h"

/* The schedules, as in kernel/contract.h. */
bool ig_cuda_contract_gemm(struct ig_contract *c);
bool ig_cuda_contract_depthwise(struct ig_contract *c);
/* Candidates that are calls of a library; false where it has nothing to offer for the region (library.h). They come behind
 * those of the schedules, to be taken only where they were measured. */
bool ig_cuda_contract_product(struct ig_contract *c);
bool ig_cuda_contract_convolution(struct ig_contract *c);

/* Where an operand lies, for the template's copies. */
struct ig_cuda_source {
    enum ig_cuda_operand kind;
    int buffer;
    int copy;                           /* bytes copied at once */
    ig_x base;                          /* ALONG, ACROSS, WINDOWS: the first element, of the group or batch at hand */
    ig_dim ld;                          /* ALONG, ACROSS */
    ig_x line, position;                /* LISTED: where a line begins, as an expression of the variable `line` */
    int64_t piece;                      /* LISTED */
    ig_dim piece_stride;                /* LISTED */
    ig_dim height, width, pixel, below; /* WINDOWS: of the input; `pixel`: channels of all groups, `below`: of one */
};

/* The rows of a convolution on a GPU run over all images: c->batch counts groups. Sets the two from c's. */
ig_dim ig_cuda_rows(struct ig_contract *c);
ig_dim ig_cuda_batch(struct ig_contract *c);
/* The number of the matrix and the row in it, as contract.h counts them, of row m of group or batch b. */
void ig_cuda_locate(struct ig_contract *c, ig_x b, ig_x m, ig_x *out_b, ig_x *out_m);

/* Where the elements of A and B of batch b are, both of type `element`; kind FILLED where no copy fits. */
struct ig_cuda_source ig_cuda_source_a(struct ig_contract *c, ig_x b, enum ingot_dtype element);
struct ig_cuda_source ig_cuda_source_b(struct ig_contract *c, ig_x b, enum ingot_dtype element);

/* What the choice of tiles depends on. */
struct ig_cuda_problem {
    int64_t batch, rows, columns, depth; /* guesses where they are not known */
    enum ig_cuda_math math;
    enum ig_cuda_operand a, b;
    int a_copy, b_copy;
    int sm;
    bool warpgroups; /* the target has wgmma */
    bool heavy;      /* what is done on the sums takes exponentials or the like */
    bool mapped;     /* the copy engine finds the operands */
};
/* Tiles, warps, stages and splits for a problem, the cost model's first choice first: at most `most` descriptions that
 * are otherwise like *gemm. Any of them computes the right thing: a tuner may measure them. Returns how many. */
int ig_cuda_gemm_candidates(const struct ig_cuda_problem *problem, const struct ig_cuda_gemm *gemm, int most,
                            struct ig_cuda_gemm *out_candidates);
/* Time of a candidate by the cost model, in microseconds. */
double ig_cuda_gemm_cost(const struct ig_cuda_problem *problem, const struct ig_cuda_gemm *gemm);

#endif
