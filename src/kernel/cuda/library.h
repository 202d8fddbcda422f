/*
 * Contractions by vendors' libraries (base/library.h): what the candidates of cuBLASLt (library_product.c) and of cuDNN
 * (library_conv.c) share. They stand beside the generated ones, for regions that are nothing but a contraction with what
 * the libraries can do after it:
 *
 *     cast(activation(addend + (bias + contraction)))      in any order of the sums, each part but the contraction optional
 *
 * They have no code: what they are is their kernel's `library`, and their dims are the sizes of the call. A bias must be of
 * the results' type; where it is not, and is a constant, it is rounded when the engine is written.
 */
#ifndef IG_KERNEL_CUDA_LIBRARY_H
#define IG_KERNEL_CUDA_LIBRARY_H

#include "kernel/cuda/contract.h"

struct ig_library_region {
    struct ig_contract *c;
    struct ig_library_call *call;
    ig_value bias, addend; /* IG_NO_VALUE: none */
};

/* Describes what follows the contraction, the types, and the operands but A and B. False where it is not what the library
 * does. */
bool ig_library_region_init(struct ig_library_region *region, struct ig_contract *c, enum ig_library library,
                            enum ig_library_operation operation);
/* Makes the call, which is complete, the kernel, with so many sizes; `choices`: of the library, that are worth measuring. */
void ig_library_region_finish(struct ig_library_region *region, const ig_dim *sizes, int choices);

#endif
