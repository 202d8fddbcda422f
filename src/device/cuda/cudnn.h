/*
 * The part of NVIDIA's cuDNN that Ingot uses, the graph part of its backend API: types, values and functions, declared
 * here because its headers are not present where Ingot is built. Names and values are those of the cuDNN 9
 * documentation, "cudnn_graph Library". The library is loaded when an engine or the tuner first needs it.
 *
 * Everything is a descriptor with attributes: created, filled, and finalized, which is when errors are reported. The
 * heuristics turn an operation graph into engine configurations; a configuration becomes an execution plan; a variant
 * pack gives the plan its addresses. Dims of tensors are in the order N, C, H, W; the strides give the memory layout.
 */
#ifndef IG_DEVICE_CUDA_CUDNN_H
#define IG_DEVICE_CUDA_CUDNN_H

#include <stddef.h>
#include <stdint.h>

#include "device/cuda/driver.h"

typedef int cudnnStatus;
typedef struct cudnnContext *cudnnHandle;
typedef void *cudnnBackendDescriptor;

enum { /* status codes: the thousands are the category */
       CUDNN_STATUS_SUCCESS = 0,
       CUDNN_STATUS_BAD_PARAM = 2000,
       CUDNN_STATUS_NOT_SUPPORTED = 3000,
       CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
       CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
};

enum { /* descriptor kinds */
       CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0,
       CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
       CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
       CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
       CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
       CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
       CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
       CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
       CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
       CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
};

enum { /* attribute types */
       CUDNN_TYPE_HANDLE = 0,
       CUDNN_TYPE_DATA_TYPE = 1,
       CUDNN_TYPE_BOOLEAN = 2,
       CUDNN_TYPE_INT64 = 3,
       CUDNN_TYPE_FLOAT = 4,
       CUDNN_TYPE_VOID_PTR = 6,
       CUDNN_TYPE_CONVOLUTION_MODE = 7,
       CUDNN_TYPE_HEUR_MODE = 8,
       CUDNN_TYPE_NUMERICAL_NOTE = 11,
       CUDNN_TYPE_POINTWISE_MODE = 14,
       CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
       CUDNN_TYPE_BEHAVIOR_NOTE = 19,
};

enum { /* attributes */
       CUDNN_ATTR_POINTWISE_MODE = 0,
       CUDNN_ATTR_POINTWISE_MATH_PREC = 1,
       CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,
       CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101,
       CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
       CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,
       CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,
       CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
       CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,
       CUDNN_ATTR_ENGINEHEUR_MODE = 200,
       CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
       CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
       CUDNN_ATTR_ENGINECFG_ENGINE = 300,
       CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
       CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
       CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,
       CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
       CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
       CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752,
       CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,
       CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
       CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
       CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
       CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
       CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
       CUDNN_ATTR_TENSOR_STRIDES = 903,
       CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
       CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907,
       CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
       CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
       CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
       CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303,
       CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE = 1305,
};

enum { /* values */
       CUDNN_DATA_FLOAT = 0,
       CUDNN_DATA_HALF = 2,
       CUDNN_DATA_BFLOAT16 = 9,
       CUDNN_CROSS_CORRELATION = 1,
       CUDNN_POINTWISE_ADD = 0,
       CUDNN_POINTWISE_RELU_FWD = 100,
       CUDNN_HEUR_MODE_FALLBACK = 2,
       CUDNN_HEUR_MODE_A = 3,
       CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
       CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
       CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP = 9,
       CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION = 0,
};

/* Every function: F(name, parameters). */
#define IG_CUDNN_FUNCTIONS(F)                                                                                       \
    F(cudnnCreate, (cudnnHandle * handle))                                                                          \
    F(cudnnDestroy, (cudnnHandle handle))                                                                           \
    F(cudnnSetStream, (cudnnHandle handle, CUstream stream))                                                        \
    F(cudnnBackendCreateDescriptor, (int kind, cudnnBackendDescriptor *descriptor))                                 \
    F(cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor descriptor))                                           \
    F(cudnnBackendSetAttribute,                                                                                     \
      (cudnnBackendDescriptor descriptor, int attribute, int type, int64_t count, const void *elements))            \
    F(cudnnBackendGetAttribute,                                                                                     \
      (cudnnBackendDescriptor descriptor, int attribute, int type, int64_t wanted, int64_t *found, void *elements)) \
    F(cudnnBackendFinalize, (cudnnBackendDescriptor descriptor))                                                    \
    F(cudnnBackendExecute, (cudnnHandle handle, cudnnBackendDescriptor plan, cudnnBackendDescriptor variant_pack))

#endif
