/*
 * The part of NVIDIA's cuBLASLt that Ingot uses: types, values and functions, declared here because its headers are not
 * present where Ingot is built. Names and layouts are those of the cuBLAS documentation, chapter "Using the cuBLASLt
 * API", of CUDA 12 and 13, which agree on all of this. The library is loaded when an engine or the tuner first needs
 * it.
 *
 * The library is column-major: a matrix of r rows and c columns has leading dimension r. Ingot's row-major matrices are
 * passed as their transposes, and out = A B as outᵀ = Bᵀ Aᵀ, with Ingot's B as its first operand. Its bias, one element
 * per row, then has one element per column of Ingot's result.
 */
#ifndef IG_DEVICE_CUDA_CUBLASLT_H
#define IG_DEVICE_CUDA_CUBLASLT_H

#include <stddef.h>

#include "device/cuda/driver.h"

typedef int cublasStatus;
typedef struct cublasLtContext *cublasLtHandle;
typedef struct cublasLtDesc *cublasLtMatmulDesc;
typedef struct cublasLtLayout *cublasLtMatrixLayout;
typedef struct cublasLtPreference *cublasLtMatmulPreference;

enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

enum { /* element types and compute types */
       CUDA_R_32F = 0,
       CUDA_R_16F = 2,
       CUDA_R_8I = 3,
       CUDA_R_32I = 10,
       CUDA_R_16BF = 14,
       CUDA_R_8F_E4M3 = 28,
       CUDA_R_8F_E5M2 = 29,
       CUBLAS_COMPUTE_32F = 68,
       CUBLAS_COMPUTE_32I = 72,
       CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};

enum { /* attributes of layouts, products and preferences, and their values */
       CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
       CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
       CUBLASLT_MATMUL_DESC_TRANSA = 3,
       CUBLASLT_MATMUL_DESC_TRANSB = 4,
       CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
       CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
       CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17, /* of an f32 that the first matrix is multiplied by, if of 8 bits */
       CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,      /* int8_t: sums of floats of 8 bits stay in the tensor cores */
       CUBLAS_OP_T = 1,
       CUBLASLT_EPILOGUE_DEFAULT = 1,
       CUBLASLT_EPILOGUE_RELU = 2,
       CUBLASLT_EPILOGUE_BIAS = 4,
       CUBLASLT_EPILOGUE_GELU = 32,
       CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
       CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
       CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
};

typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo;

typedef struct {
    cublasLtMatmulAlgo algo;
    size_t workspaceSize;
    cublasStatus state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult;

/* Every function: F(name, parameters). */
#define IG_CUBLASLT_FUNCTIONS(F)                                                                                      \
    F(cublasLtCreate, (cublasLtHandle * handle))                                                                      \
    F(cublasLtDestroy, (cublasLtHandle handle))                                                                       \
    F(cublasLtMatmulDescCreate, (cublasLtMatmulDesc * product, int compute_type, int scale_type))                     \
    F(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc product))                                                        \
    F(cublasLtMatmulDescSetAttribute, (cublasLtMatmulDesc product, int attribute, const void *value, size_t size))    \
    F(cublasLtMatrixLayoutCreate,                                                                                     \
      (cublasLtMatrixLayout * layout, int type, uint64_t rows, uint64_t columns, int64_t ld))                         \
    F(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout layout))                                                     \
    F(cublasLtMatrixLayoutSetAttribute, (cublasLtMatrixLayout layout, int attribute, const void *value, size_t size)) \
    F(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference * preference))                                        \
    F(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference preference))                                         \
    F(cublasLtMatmulPreferenceSetAttribute,                                                                           \
      (cublasLtMatmulPreference preference, int attribute, const void *value, size_t size))                           \
    F(cublasLtMatmulAlgoGetHeuristic,                                                                                 \
      (cublasLtHandle handle, cublasLtMatmulDesc product, cublasLtMatrixLayout a, cublasLtMatrixLayout b,             \
       cublasLtMatrixLayout c, cublasLtMatrixLayout d, cublasLtMatmulPreference preference, int wanted,               \
       cublasLtMatmulHeuristicResult *results, int *found))                                                           \
    F(cublasLtMatmul, (cublasLtHandle handle, cublasLtMatmulDesc product, const void *alpha, const void *a,           \
                       cublasLtMatrixLayout a_layout, const void *b, cublasLtMatrixLayout b_layout, const void *beta, \
                       const void *c, cublasLtMatrixLayout c_layout, void *d, cublasLtMatrixLayout d_layout,          \
                       const cublasLtMatmulAlgo *algo, void *workspace, size_t workspace_size, CUstream stream))

#endif
