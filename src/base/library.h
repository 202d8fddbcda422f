/*
 * Calls of vendors' libraries: what the compiler describes, an engine holds and a device carries out.
 *
 * There are two operations. The matrix product with what follows it is cuBLASLt's,
 *
 *     out[b] = activation(A[b] B[b] + addend[b] + bias)
 *
 * with rows x columns results for each of `batch` pairs of matrices. A has a line of `depth` elements for each row, or, where
 * it is transposed, a line of `rows` elements for each element of the depth; B has a line of `columns` elements for each
 * element of the depth, or, transposed, a line of `depth` elements for each column. Lines are `ld` elements apart, matrices
 * `step`; the first one begins `offset` elements into its operand. Out and the addend are dense. The bias has an element for
 * each column.
 *
 * The convolution over two axes with what follows it is cuDNN's,
 *
 *     out = activation(convolution of A by the filters B + addend + bias)
 *
 * with all tensors dense and channels innermost: A is [images, height, width, channels], B [filters, kernel height, kernel
 * width, channels / groups], out and the addend [images, out height, out width, filters]; the bias has an element for each
 * filter. There are `before` and `after` zeros around each axis of A.
 *
 * A description does not name an algorithm: algorithms are the business of one version of a library, which tells for given
 * sizes what it would take first, second and so on (`choice`). So an engine runs with other versions of the library, for
 * sizes that are known at run time only, and holds nothing that a library would have to trust.
 */
#ifndef IG_BASE_LIBRARY_H
#define IG_BASE_LIBRARY_H

#include "base/error.h"

enum ig_library { IG_LIBRARY_CUBLASLT, IG_LIBRARY_CUDNN, IG_LIBRARY_COUNT };
enum ig_library_operation { IG_LIBRARY_PRODUCT, IG_LIBRARY_CONVOLUTION, IG_LIBRARY_OPERATION_COUNT };

#define IG_LIBRARY_NO_OPERAND UINT32_MAX
#define IG_LIBRARY_MOST_CHOICES 8u

enum ig_library_activation {
    IG_LIBRARY_NO_ACTIVATION,
    IG_LIBRARY_RELU,
    IG_LIBRARY_GELU, /* the one by tanh; not cuDNN's */
    IG_LIBRARY_ACTIVATION_COUNT
};

/* A record of the engine file. */
struct ig_library_call {
    uint32_t library, operation;
    uint32_t choice;            /* 0: what the library would take first; beyond its last choice: the last */
    uint32_t a, b, out;         /* numbers of operands */
    uint32_t addend, bias;      /* or IG_LIBRARY_NO_OPERAND */
    uint32_t in_type;           /* of A and B: f32, f16 or bf16 */
    uint32_t out_type;          /* of out, addend and bias: f32 or in_type */
    uint32_t rounded;           /* 1: f32 operands may be rounded to tf32 */
    uint32_t a_across, b_along; /* 1: transposed, see above; 0 for convolutions */
    uint32_t activation;
};

/* The sizes of a product: numbers in this order. */
enum ig_library_size {
    IG_LIBRARY_BATCH,
    IG_LIBRARY_ROWS,
    IG_LIBRARY_COLUMNS,
    IG_LIBRARY_DEPTH,
    IG_LIBRARY_A_LD,
    IG_LIBRARY_A_STEP,
    IG_LIBRARY_A_OFFSET,
    IG_LIBRARY_B_LD,
    IG_LIBRARY_B_STEP,
    IG_LIBRARY_B_OFFSET,
    IG_LIBRARY_SIZES
};

/* Those of a convolution; for each axis first the height's, then the width's. */
enum ig_library_conv_size {
    IG_LIBRARY_IMAGES,
    IG_LIBRARY_CHANNELS,
    IG_LIBRARY_FILTERS,
    IG_LIBRARY_GROUPS,
    IG_LIBRARY_IN,
    IG_LIBRARY_OUT = IG_LIBRARY_IN + 2,
    IG_LIBRARY_KERNEL = IG_LIBRARY_OUT + 2,
    IG_LIBRARY_STRIDE = IG_LIBRARY_KERNEL + 2,
    IG_LIBRARY_DILATION = IG_LIBRARY_STRIDE + 2,
    IG_LIBRARY_BEFORE = IG_LIBRARY_DILATION + 2,
    IG_LIBRARY_AFTER = IG_LIBRARY_BEFORE + 2,
    IG_LIBRARY_CONV_SIZES = IG_LIBRARY_AFTER + 2,
    IG_LIBRARY_MOST_SIZES = IG_LIBRARY_CONV_SIZES
};

/* "cuBLASLt", and the files that are tried, for people: "libcublasLt.so.13, libcublasLt.so.12". */
const char *ig_library_name(uint32_t library);
const char *ig_library_files(uint32_t library);

/* How many sizes a call has. */
uint32_t ig_library_size_count(const struct ig_library_call *call);
/* NULL where the description makes sense, else what is wrong with it. */
const char *ig_library_call_error(const struct ig_library_call *call);
/* The same for its use with so many operands and sizes. */
const char *ig_library_use_error(const struct ig_library_call *call, uint32_t n_operands, uint32_t n_sizes);
/* The same for numbers: whether a library can count so far, and all that it will touch is inside the operands, of which
 * operand_bytes tells the sizes. */
const char *ig_library_sizes_error(const struct ig_library_call *call, const int64_t *sizes,
                                   const size_t *operand_bytes);
/* True where there is no result to compute. */
bool ig_library_is_empty(const struct ig_library_call *call, const int64_t *sizes);

#endif
