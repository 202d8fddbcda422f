/*
 * What the copy engine (TMA) fetches of a contraction's operands: whether it can, and the tensor maps of the kernel
 * (base/tensor_map.h). `batch` or `batches` are the dim that ig_cuda_batch gives.
 */
#ifndef IG_KERNEL_CUDA_CONTRACT_MAPS_H
#define IG_KERNEL_CUDA_CONTRACT_MAPS_H

#include "kernel/cuda/contract/contract.h"

/* Is the first element of the operand that of its buffer? */
bool ig_cuda_begins_buffer(struct ig_contract *c, const struct ig_cuda_source *from);

/* Describes the windows that A has, for the template, and where they begin and end, if that is known. */
void ig_cuda_describe_windows(struct ig_contract *c, struct ig_cuda_gemm *gemm, const struct ig_cuda_source *a);
/* Bytes of the depth that a box of A holds: 64 or 128. */
int ig_cuda_map_step(struct ig_contract *c, const struct ig_cuda_gemm *gemm, const struct ig_cuda_source *a);
/* Can it fetch both operands? They must be matrices that begin where their buffers do, or windows. */
bool ig_cuda_can_map(struct ig_contract *c, const struct ig_cuda_gemm *gemm, const struct ig_cuda_source *a,
                     const struct ig_cuda_source *b, ig_dim batch);
/* Can it fetch B and patches of the image that A's windows have? Bytes of a pixel's channels that a patch then holds: 16 to 128; or
 * 0. */
int ig_cuda_patch_slice(struct ig_contract *c, const struct ig_cuda_gemm *gemm, const struct ig_cuda_source *a,
                        const struct ig_cuda_source *b);
/* Finds how far B's columns of a batch lie from those of the one before, in columns: all, or none if batches share them. `batch` is the
 * number of a batch in B's base. False if those of all batches are not one matrix along the depth. */
bool ig_cuda_find_columns_apart(struct ig_contract *c, const struct ig_cuda_source *b, ig_dim batches, ig_x batch,
                                ig_dim *out_apart);

/* Sets the kernel's maps: of both operands, for a producer; or of the columns of B, and of a second product's, for a stream. */
void ig_cuda_map_operands(struct ig_contract *c, const struct ig_cuda_gemm *gemm, const struct ig_cuda_source *a,
                          const struct ig_cuda_source *b, ig_dim rows);
void ig_cuda_map_columns(struct ig_contract *c, const struct ig_cuda_gemm *gemm, const struct ig_cuda_source *b,
                         const struct ig_cuda_source *second, ig_dim batches, ig_dim apart);

#endif
