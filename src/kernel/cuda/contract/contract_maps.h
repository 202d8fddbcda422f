/*
 * What the copy engine (TMA) fetches of a contraction's operands: whether it can, and the tensor maps of the kernel
 * (base/tensor_map.h).
 */
#ifndef IG_KERNEL_CUDA_CONTRACT_MAPS_H
#define IG_KERNEL_CUDA_CONTRACT_MAPS_H

#include "kernel/cuda/contract/contract.h"

/* Is the first element of the operand that of its buffer, for all batches? */
bool ig_cuda_begins_buffer(struct ig_contract *c, const struct ig_cuda_source *from);

/* The batches as two axes, of which the inner one counts faster, and the number of a batch as that of variables along both. A
 * convolution has one. */
struct ig_cuda_batches {
    ig_dim count, inner, outer;
    ig_x at, at_inner, at_outer;
};
struct ig_cuda_batches ig_cuda_batches(struct ig_contract *c);

/* Where the matrices of an operand lie: the first, and how far others along the inner and the outer axis, in elements; 0: there is
 * one for all. */
struct ig_cuda_matrices {
    ig_dim begin, apart[2];
};
/* Finds them; the number of a batch in the operand's base is batches->at. False if they do not lie so. */
bool ig_cuda_find_matrices(struct ig_contract *c, const struct ig_cuda_source *from,
                           const struct ig_cuda_batches *batches, struct ig_cuda_matrices *out_matrices);

/* Describes the windows that A has, for the template, and where they begin and end, if that is known. */
void ig_cuda_describe_windows(struct ig_contract *c, struct ig_cuda_gemm *gemm, const struct ig_cuda_source *a);
/* Bytes of the depth that a box of A holds: 64 or 128. */
int ig_cuda_map_step(struct ig_contract *c, const struct ig_cuda_gemm *gemm, const struct ig_cuda_source *a);
/* Can it fetch both operands? They must be matrices, or windows. */
bool ig_cuda_can_map(struct ig_contract *c, const struct ig_cuda_gemm *gemm, const struct ig_cuda_source *a,
                     const struct ig_cuda_source *b, const struct ig_cuda_batches *batches);
/* Can it fetch B and patches of the image that A's windows have? Bytes of a pixel's channels that a patch then holds: 16 to 128; or
 * 0. */
int ig_cuda_patch_slice(struct ig_contract *c, const struct ig_cuda_gemm *gemm, const struct ig_cuda_source *a,
                        const struct ig_cuda_source *b);
/* Finds how far B's columns of a batch lie from those of the one before, in columns: all, or none if batches share them. False if those
 * of all batches are not one matrix along the depth. */
bool ig_cuda_find_columns_apart(struct ig_contract *c, const struct ig_cuda_source *b,
                                const struct ig_cuda_batches *batches, ig_dim *out_apart);

/* Sets the kernel's maps: of both operands, for a producer, and tells the template which matrices they are of; or of the columns of B,
 * and of a second product's, for a stream. */
void ig_cuda_map_operands(struct ig_contract *c, struct ig_cuda_gemm *gemm, const struct ig_cuda_source *a,
                          const struct ig_cuda_source *b, const struct ig_cuda_batches *batches, ig_dim rows);
void ig_cuda_map_columns(struct ig_contract *c, const struct ig_cuda_gemm *gemm, const struct ig_cuda_source *b,
                         const struct ig_cuda_source *second, ig_dim batches, ig_dim apart);

#endif
