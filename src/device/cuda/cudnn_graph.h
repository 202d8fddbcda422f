/*
 * cuDNN descriptors: a convolution and its epilogue as an operation graph. Used by cudnn.c only.
 */
#ifndef IG_DEVICE_CUDA_CUDNN_GRAPH_H
#define IG_DEVICE_CUDA_CUDNN_GRAPH_H

#include "device/cuda/binding.h"
#include "device/cuda/cudnn.h"

struct ig_cudnn {
    const struct ingot_allocator *allocator;
    size_t version; /* 91900 is 9.19.0 */
    cudnnHandle handle;
    CUstream stream; /* the stream last set on the handle */
    size_t (*cudnnGetVersion)(void);
    const char *(*cudnnGetErrorString)(cudnnStatus status);
#define IG_CUDNN_FIELD(name, parameters) cudnnStatus(*name) parameters;
    IG_CUDNN_FUNCTIONS(IG_CUDNN_FIELD)
#undef IG_CUDNN_FIELD
};

/* Descriptors that are created and destroyed together. The first failure is kept in `status` and turns all later calls
 * into no-ops, so that callers check once, at the end. */
enum { IG_CUDNN_MOST_DESCRIPTORS = 24 };
struct ig_cudnn_set {
    const struct ig_cudnn *cudnn;
    cudnnStatus status;
    int count;
    cudnnBackendDescriptor at[IG_CUDNN_MOST_DESCRIPTORS];
};

cudnnBackendDescriptor ig_cudnn_begin(struct ig_cudnn_set *set, int kind);
void ig_cudnn_put(struct ig_cudnn_set *set, cudnnBackendDescriptor d, int attribute, int type, int64_t count,
                  const void *elements);
void ig_cudnn_finish(struct ig_cudnn_set *set, cudnnBackendDescriptor d);
/* Destroys all but the first `kept`. */
void ig_cudnn_drop(struct ig_cudnn_set *set, int kept);

/* Unique ids of the operands in a variant pack. */
enum ig_cudnn_tensor { IG_CUDNN_X = 1, IG_CUDNN_W, IG_CUDNN_OUT, IG_CUDNN_ADDEND, IG_CUDNN_BIAS };

/* The operation graph of a convolution. Valid only if the set's status is CUDNN_STATUS_SUCCESS. */
cudnnBackendDescriptor ig_cudnn_graph(struct ig_cudnn_set *set, const struct ig_cuda_call *call);

#endif
