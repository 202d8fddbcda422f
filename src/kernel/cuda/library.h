/*
 * Contractions by vendor libraries (base/library.h): shared by the candidates of cuBLASLt (library_product.c) and of
 * cuDNN (library_conv.c). They compete with the generated kernels, for regions that consist of a contraction and an
 * epilogue that the libraries can do:
 *
 *     cast(activation(addend + (bias + scale * contraction)))
 *
 * with the summands in any order, and every part but the contraction optional. The scale is a number, for cuBLASLt only.
 *
 * cuBLASLt also multiplies bytes, whose sums in i32 have to be the region's results: what it makes of them otherwise is rounded in a
 * way that is not documented, and our kernels' bytes are to be the same. And it multiplies floats of 8 bits, where their sums
 * may be fast ones (IG_MATH_FAST): how often it adds them up in f32 is not documented either. A product that is quantised, or has
 * a scale for each column, stays with the generated kernels.
 *
 * They have no code: the kernel's `library` describes the call, and its dims are the call's sizes. A bias must have the
 * type of the results; a constant one that has not is rounded when the engine is written.
 */
#ifndef IG_KERNEL_CUDA_LIBRARY_H
#define IG_KERNEL_CUDA_LIBRARY_H

#include "kernel/cuda/contract/contract.h"

struct ig_library_region {
    struct ig_contract *c;
    struct ig_library_call *call;
    ig_value bias, addend, factor; /* IG_NO_VALUE: none */
};

/* Describes the epilogue, the types, and the operands other than A and B. False if the library cannot do it. */
bool ig_library_region_init(struct ig_library_region *region, struct ig_contract *c, enum ig_library library,
                            enum ig_library_operation operation);
/* Makes the completed call the kernel, with its sizes; `choices`: how many of the library's algorithms are worth
 * measuring. False if the library does not do such calls. */
bool ig_library_region_finish(struct ig_library_region *region, const ig_dim *sizes, int choices);

#endif
