/*
 * The part of NVIDIA's driver API that Ingot uses: types, values and functions, declared here because its headers are
 * not present where Ingot is built, and loaded at run time because its library may be absent where Ingot runs. Names
 * and layouts are those of the CUDA Driver API reference, version 12.4 and later. Handles are opaque pointers.
 */
#ifndef IG_DEVICE_CUDA_DRIVER_H
#define IG_DEVICE_CUDA_DRIVER_H

#include "base/error.h"

#define IG_CUDA_LIBRARY "libcuda.so.1"
/* The oldest driver that has all of IG_CUDA_FUNCTIONS. */
#define IG_CUDA_OLDEST_DRIVER 12040

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUarray_st *CUarray;
typedef unsigned long long CUmemGenericAllocationHandle;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    CUDA_ERROR_LAUNCH_FAILED = 719, /* 714 to 719: all of this kind */
};

enum {                                      /* of cuDeviceGetAttribute */
       CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13, /* kHz, as that of the memory */
       CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
       CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
       CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37, /* bits */
       CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
       CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
       CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
       CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
};

enum { /* flags and attributes of the functions below */
       CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
       CU_STREAM_NON_BLOCKING = 1,
       CU_EVENT_DISABLE_TIMING = 2,
       CU_MEMHOSTALLOC_PORTABLE = 1,
       CU_MEMHOSTREGISTER_PORTABLE = 1,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
       CU_JIT_ERROR_LOG_BUFFER = 5,
       CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
       CU_MEM_ALLOCATION_TYPE_PINNED = 1,
       CU_MEM_LOCATION_TYPE_DEVICE = 1,
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
       CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
       CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
       CU_MEMORYTYPE_UNIFIED = 4,
       CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1,
       CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1,
       CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
       CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 14,
       CU_SHAREDMEM_CARVEOUT_MAX_SHARED = 100,
       CU_STREAM_CAPTURE_MODE_RELAXED = 2,
       CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
       CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1,
       CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2,
       CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
       CU_TENSOR_MAP_SWIZZLE_NONE = 0,
       CU_TENSOR_MAP_SWIZZLE_32B = 1,
       CU_TENSOR_MAP_SWIZZLE_64B = 2,
       CU_TENSOR_MAP_SWIZZLE_128B = 3,
       CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2,
       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
};

/* The stream that has no handle of its own, and cannot be captured. */
#define CU_STREAM_LEGACY ((CUstream)1)
#define CU_STREAM_PER_THREAD ((CUstream)2)

/* Keys and end of the `extra` argument of launches. */
#define CU_LAUNCH_PARAM_END ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)

/* Passed to kernels by value. */
typedef struct {
    _Alignas(64) uint64_t opaque[16];
} CUtensorMap;

typedef struct {
    int allocType, handleTypes;
    struct {
        int type, id;
    } location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

typedef struct {
    int type, requestedHandleTypes;
    struct {
        int type, id;
    } location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType, gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

typedef struct {
    struct {
        int type, id;
    } location;
    int flags;
} CUmemAccessDesc;

typedef struct {
    char bytes[16];
} CUuuid;

typedef struct {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
    CUkernel kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

typedef union {
    char pad[64];
    int programmaticStreamSerializationAllowed;
    unsigned sharedMemCarveout;
} CUlaunchAttributeValue;

typedef struct {
    int id;
    char pad[4];
    CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

typedef struct {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

typedef struct {
    unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;

/* Every function: F(name, symbol in the library, parameters). Functions that changed over time have a version in the
 * symbol's name. */
#define IG_CUDA_FUNCTIONS(F)                                                                                           \
    F(cuInit, "cuInit", (unsigned flags))                                                                              \
    F(cuDriverGetVersion, "cuDriverGetVersion", (int *version))                                                        \
    F(cuGetErrorName, "cuGetErrorName", (CUresult error, const char **text))                                           \
    F(cuGetErrorString, "cuGetErrorString", (CUresult error, const char **text))                                       \
    F(cuDeviceGetCount, "cuDeviceGetCount", (int *count))                                                              \
    F(cuDeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                                    \
    F(cuDeviceGetName, "cuDeviceGetName", (char *name, int length, CUdevice device))                                   \
    F(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice device))                      \
    F(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                                      \
    F(cuDeviceGetUuid, "cuDeviceGetUuid_v2", (CUuuid * uuid, CUdevice device))                                         \
    F(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))                    \
    F(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                                    \
    F(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))                                                    \
    F(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context))                                                    \
    F(cuMemGetInfo, "cuMemGetInfo_v2", (size_t * unused, size_t * total))                                              \
    F(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr * memory, size_t size))                                                \
    F(cuMemFree, "cuMemFree_v2", (CUdeviceptr memory))                                                                 \
    F(cuMemHostAlloc, "cuMemHostAlloc", (void **memory, size_t size, unsigned flags))                                  \
    F(cuMemFreeHost, "cuMemFreeHost", (void *memory))                                                                  \
    F(cuMemHostRegister, "cuMemHostRegister_v2", (void *memory, size_t size, unsigned flags))                          \
    F(cuMemHostUnregister, "cuMemHostUnregister", (void *memory))                                                      \
    F(cuPointerGetAttribute, "cuPointerGetAttribute", (void *value, int attribute, CUdeviceptr pointer))               \
    F(cuMemPoolCreate, "cuMemPoolCreate", (CUmemoryPool * pool, const CUmemPoolProps *properties))                     \
    F(cuMemPoolDestroy, "cuMemPoolDestroy", (CUmemoryPool pool))                                                       \
    F(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                                                              \
      (CUdeviceptr * memory, size_t size, CUmemoryPool pool, CUstream stream))                                         \
    F(cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr memory, CUstream stream))                                         \
    F(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity",                                                  \
      (size_t * granularity, const CUmemAllocationProp *properties, int option))                                       \
    F(cuMemCreate, "cuMemCreate",                                                                                      \
      (CUmemGenericAllocationHandle * memory, size_t size, const CUmemAllocationProp *properties, uint64_t flags))     \
    F(cuMemRelease, "cuMemRelease", (CUmemGenericAllocationHandle memory))                                             \
    F(cuMemAddressReserve, "cuMemAddressReserve",                                                                      \
      (CUdeviceptr * address, size_t size, size_t alignment, CUdeviceptr wish, uint64_t flags))                        \
    F(cuMemAddressFree, "cuMemAddressFree", (CUdeviceptr address, size_t size))                                        \
    F(cuMemMap, "cuMemMap",                                                                                            \
      (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle memory, uint64_t flags))          \
    F(cuMemUnmap, "cuMemUnmap", (CUdeviceptr address, size_t size))                                                    \
    F(cuMemSetAccess, "cuMemSetAccess",                                                                                \
      (CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count))                                 \
    F(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle",                                                      \
      (CUmemGenericAllocationHandle * memory, void *address))                                                          \
    F(cuMemExportToShareableHandle, "cuMemExportToShareableHandle",                                                    \
      (void *descriptor, CUmemGenericAllocationHandle memory, int type, uint64_t flags))                               \
    F(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle",                                                \
      (CUmemGenericAllocationHandle * memory, void *descriptor, int type))                                             \
    F(cuMemcpyAsync, "cuMemcpyAsync", (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))                \
    F(cuModuleLoadDataEx, "cuModuleLoadDataEx",                                                                        \
      (CUmodule * module, const void *image, unsigned n_options, int *options, void **values))                         \
    F(cuModuleUnload, "cuModuleUnload", (CUmodule module))                                                             \
    F(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction * function, CUmodule module, const char *name))          \
    F(cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction function, int attribute, int value))                       \
    F(cuStreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))                                           \
    F(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                                        \
    F(cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                                   \
    F(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))                        \
    F(cuEventCreate, "cuEventCreate", (CUevent * event, unsigned flags))                                               \
    F(cuEventDestroy, "cuEventDestroy_v2", (CUevent event))                                                            \
    F(cuEventRecord, "cuEventRecord", (CUevent event, CUstream stream))                                                \
    F(cuEventSynchronize, "cuEventSynchronize", (CUevent event))                                                       \
    F(cuEventQuery, "cuEventQuery", (CUevent event))                                                                   \
    F(cuEventElapsedTime, "cuEventElapsedTime", (float *milliseconds, CUevent begin, CUevent end))                     \
    F(cuLaunchKernel, "cuLaunchKernel",                                                                                \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared, CUstream stream, void **parameters, void **extra))                           \
    F(cuLaunchKernelEx, "cuLaunchKernelEx",                                                                            \
      (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra))                            \
    F(cuGraphCreate, "cuGraphCreate", (CUgraph * graph, unsigned flags))                                               \
    F(cuGraphDestroy, "cuGraphDestroy", (CUgraph graph))                                                               \
    F(cuGraphAddKernelNode, "cuGraphAddKernelNode_v2",                                                                 \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t n_after,                                    \
       const CUDA_KERNEL_NODE_PARAMS *parameters))                                                                     \
    F(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode",                                                                    \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t n_after, const CUDA_MEMCPY3D *parameters,   \
       CUcontext context))                                                                                             \
    F(cuGraphAddEmptyNode, "cuGraphAddEmptyNode",                                                                      \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t n_after))                                   \
    F(cuGraphAddChildGraphNode, "cuGraphAddChildGraphNode",                                                            \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t n_after, CUgraph child))                    \
    F(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, int mode))                                    \
    F(cuStreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                                    \
    F(cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream stream, int *status))                                      \
    F(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *mode))                             \
    F(cuGraphInstantiate, "cuGraphInstantiateWithFlags",                                                               \
      (CUgraphExec * executable, CUgraph graph, unsigned long long flags))                                             \
    F(cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec executable))                                              \
    F(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2",                                             \
      (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters))                           \
    F(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams",                                                \
      (CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D *parameters, CUcontext context))                  \
    F(cuGraphExecChildGraphNodeSetParams, "cuGraphExecChildGraphNodeSetParams",                                        \
      (CUgraphExec executable, CUgraphNode node, CUgraph child))                                                       \
    F(cuGraphKernelNodeSetAttribute, "cuGraphKernelNodeSetAttribute",                                                  \
      (CUgraphNode node, int attribute, const CUlaunchAttributeValue *value))                                          \
    F(cuGraphNodeSetEnabled, "cuGraphNodeSetEnabled", (CUgraphExec executable, CUgraphNode node, unsigned enabled))    \
    F(cuGraphAddDependencies, "cuGraphAddDependencies_v2",                                                             \
      (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edges, size_t count))     \
    F(cuFuncGetParamInfo, "cuFuncGetParamInfo",                                                                        \
      (CUfunction function, size_t index, size_t * out_offset, size_t * out_size))                                     \
    F(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                                                \
      (CUtensorMap * map, int type, uint32_t rank, CUdeviceptr memory, const uint64_t *sizes, const uint64_t *strides, \
       const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill))              \
    F(cuTensorMapEncodeIm2col, "cuTensorMapEncodeIm2col",                                                              \
      (CUtensorMap * map, int type, uint32_t rank, CUdeviceptr memory, const uint64_t *sizes, const uint64_t *strides, \
       const int *lower, const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave,  \
       int swizzle, int promotion, int fill))                                                                          \
    F(cuGraphUpload, "cuGraphUpload", (CUgraphExec executable, CUstream stream))                                       \
    F(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec executable, CUstream stream))

struct ig_cuda_driver {
    void *library;
    int version; /* the newest CUDA that it knows: 13000 is 13.0 */
#define IG_CUDA_FIELD(name, symbol, parameters) CUresult(*name) parameters;
    IG_CUDA_FUNCTIONS(IG_CUDA_FIELD)
#undef IG_CUDA_FIELD
};

/* Loads the driver's library (IG_CUDA_LIBRARY where `library` is NULL; it stays loaded as long as the process) and
 * initialises the driver. INGOT_DEVICE where it is missing or too old. */
enum ingot_status ig_cuda_driver_load(struct ig_cuda_driver *driver, const char *library, struct ingot_error *error);

/* Does this failure of work on the GPU make all later calls fail in the same way, until the GPU's context has been
 * destroyed? */
bool ig_cuda_driver_is_lost(CUresult result);

/* INGOT_OK for CUDA_SUCCESS; else fills `error` with "<what>: CUDA_ERROR_… (the driver's text)". */
enum ingot_status ig_cuda_driver_check(const struct ig_cuda_driver *driver, CUresult result, struct ingot_error *error,
                                       const char *what, ...) __attribute__((format(printf, 4, 5)));

#endif
