/*
 * Vendor library calls: the compiler describes them, an engine stores them, a device executes them.
 *
 * There are two operations. cuBLASLt does the matrix product with its epilogue,
 *
 *     out[b] = activation(scale factor (A[b] B[b]) + addend[b] + bias)
 *
 * with rows x columns results for each of `batch` pairs of matrices. A has a line of `depth` elements per row or,
 * transposed, a line of `rows` elements per element of the depth; B has a line of `columns` elements per element of the
 * depth or, transposed, a line of `depth` elements per column. Lines are `ld` elements apart, matrices `step`; the
 * first matrix begins `offset` elements into its operand. Out and the addend are dense. The bias has one element per
 * column, the factor is one number. Products of bytes are sums in i32 and nothing else. Matrices of bytes and of floats of 8 bits
 * have their lines along the depth.
 *
 * cuDNN does the convolution over two axes with its epilogue,
 *
 *     out = activation(convolution of A by the filters B + addend + bias)
 *
 * with all tensors dense and channels-last: A is [images, height, width, channels], B [filters, kernel height, kernel
 * width, channels / groups], out and the addend [images, out height, out width, filters]; the bias has one element per
 * filter. `before` and `after` are the zero padding of each axis of A.
 *
 * A description names no algorithm: algorithms belong to one version of a library, which ranks them for given sizes;
 * `choice` is a rank. So an engine runs with other versions of the library and for sizes known only at run time, and
 * contains nothing that a library would have to trust.
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
    IG_LIBRARY_GELU, /* the tanh approximation; not in cuDNN */
    IG_LIBRARY_ACTIVATION_COUNT
};

/* A record of the engine file. */
struct ig_library_call {
    uint32_t library, operation;
    uint32_t choice;       /* rank among the library's algorithms, from 0; past the last: the last */
    uint32_t a, b, out;    /* operand numbers */
    uint32_t addend, bias; /* or IG_LIBRARY_NO_OPERAND */
    uint32_t factor;       /* an f32 in memory, for floats of 8 bits; or IG_LIBRARY_NO_OPERAND */
    float scale;           /* 1: none. For floats by cuBLASLt */
    /* f32, f16 or bf16, the same for both; for cuBLASLt also i8, or floats of 8 bits in any mix but two f8e5m2. */
    uint32_t a_type, b_type;
    /* Of out, addend and bias: f32 or a_type; of integers i32, of floats of 8 bits f32, f16 or bf16. */
    uint32_t out_type;
    /* 1: f32 operands may be rounded to tf32; sums of floats of 8 bits be those of the tensor cores. */
    uint32_t rounded;
    uint32_t a_across, b_along; /* 1: transposed, see above; 0 for convolutions */
    uint32_t activation;
};

/* The sizes of a product, in this order. */
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

/* The sizes of a convolution; per axis, first the height's, then the width's. */
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

/* "cuBLASLt"; and the file names tried, for people: "libcublasLt.so.13, libcublasLt.so.12". */
const char *ig_library_name(uint32_t library);
const char *ig_library_files(uint32_t library);

/* Does it multiply bytes, or floats of 8 bits? Of valid calls. */
bool ig_library_is_integer(const struct ig_library_call *call);
bool ig_library_is_float8(const struct ig_library_call *call);
/* The number of sizes of a call. */
uint32_t ig_library_size_count(const struct ig_library_call *call);
/* NULL if the description is valid, else what is wrong with it. */
const char *ig_library_call_error(const struct ig_library_call *call);
/* The same for its use with that many operands and sizes. */
const char *ig_library_use_error(const struct ig_library_call *call, uint32_t n_operands, uint32_t n_sizes);
/* The same for actual sizes: they must be within the library's integer range, and all accesses within the operands,
 * whose sizes are operand_bytes. */
const char *ig_library_sizes_error(const struct ig_library_call *call, const int64_t *sizes,
                                   const size_t *operand_bytes);
/* Is there no result to compute? */
bool ig_library_is_empty(const struct ig_library_call *call, const int64_t *sizes);

#endif
