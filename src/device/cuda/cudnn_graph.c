/* Operation graphs for cuDNN; see cudnn_graph.h. */
#include "device/cuda/cudnn_graph.h"

/* ---- Descriptors ------------------------------------------------------------------------------------------------- */

cudnnBackendDescriptor ig_cudnn_begin(struct ig_cudnn_set *set, int kind) {
    cudnnBackendDescriptor d = NULL;
    if (!set->status && set->count == IG_CUDNN_MOST_DESCRIPTORS) set->status = CUDNN_STATUS_BAD_PARAM;
    if (!set->status) set->status = set->cudnn->cudnnBackendCreateDescriptor(kind, &d);
    if (set->status) return NULL;
    set->at[set->count++] = d;
    return d;
}

void ig_cudnn_put(struct ig_cudnn_set *set, cudnnBackendDescriptor d, int attribute, int type, int64_t count,
                  const void *elements) {
    if (!set->status) set->status = set->cudnn->cudnnBackendSetAttribute(d, attribute, type, count, elements);
}

void ig_cudnn_finish(struct ig_cudnn_set *set, cudnnBackendDescriptor d) {
    if (!set->status) set->status = set->cudnn->cudnnBackendFinalize(d);
}

void ig_cudnn_drop(struct ig_cudnn_set *set, int kept) {
    while (set->count > kept)
        set->cudnn->cudnnBackendDestroyDescriptor(set->at[--set->count]);
}

static void put_descriptor(struct ig_cudnn_set *set, cudnnBackendDescriptor d, int attribute,
                           cudnnBackendDescriptor value) {
    ig_cudnn_put(set, d, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* A graph under construction. Each tensor has its own identifier; those of intermediate results follow the
 * operands'. */
struct graph {
    struct ig_cudnn_set *set;
    const struct ig_cuda_call *call;
    int64_t next_id;
    cudnnBackendDescriptor operations[4]; /* convolution, two sums, activation */
    int n_operations, left;               /* left: how many operations still follow */
};

static int type_of(uint32_t dtype) {
    return dtype == INGOT_F16 ? CUDNN_DATA_HALF : dtype == INGOT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/* A dense tensor in NHWC. `id` 0: a virtual one, an intermediate result in f32. */
static cudnnBackendDescriptor tensor(struct graph *g, int64_t id, uint32_t dtype, int64_t n, int64_t c, int64_t h,
                                     int64_t w) {
    const int64_t dims[] = {n, c, h, w}, strides[] = {h * w * c, 1, w * c, c}, alignment = g->call->alignment;
    bool is_virtual = id == 0;
    int type = is_virtual ? CUDNN_DATA_FLOAT : type_of(dtype);
    if (is_virtual) id = g->next_id++;
    cudnnBackendDescriptor d = ig_cudnn_begin(g->set, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    ig_cudnn_put(g->set, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    ig_cudnn_put(g->set, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    ig_cudnn_put(g->set, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    ig_cudnn_put(g->set, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    ig_cudnn_put(g->set, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (is_virtual) ig_cudnn_put(g->set, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    ig_cudnn_finish(g->set, d);
    return d;
}

/* A tensor of the results' shape. */
static cudnnBackendDescriptor like_results(struct graph *g, int64_t id) {
    const int64_t *z = g->call->sizes;
    return tensor(g, id, g->call->what->out_type, z[IG_LIBRARY_IMAGES], z[IG_LIBRARY_FILTERS], z[IG_LIBRARY_OUT],
                  z[IG_LIBRARY_OUT + 1]);
}

/* The output of an operation: the results if it is the last one, else a virtual tensor. */
static cudnnBackendDescriptor result_of(struct graph *g) {
    return like_results(g, g->left ? 0 : IG_CUDNN_OUT);
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

static cudnnBackendDescriptor begin_operation(struct graph *g, int kind) {
    cudnnBackendDescriptor d = ig_cudnn_begin(g->set, kind);
    g->operations[g->n_operations++] = d;
    return d;
}

static cudnnBackendDescriptor windows(struct graph *g) {
    const int64_t *z = g->call->sizes, axes = 2;
    int compute = CUDNN_DATA_FLOAT, mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendDescriptor d = ig_cudnn_begin(g->set, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const struct {
        int attribute, first;
    } sizes[] = {{CUDNN_ATTR_CONVOLUTION_DILATIONS, IG_LIBRARY_DILATION},
                 {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, IG_LIBRARY_STRIDE},
                 {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, IG_LIBRARY_BEFORE},
                 {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, IG_LIBRARY_AFTER}};
    ig_cudnn_put(g->set, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes);
    ig_cudnn_put(g->set, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    ig_cudnn_put(g->set, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    for (int i = 0; i < 4; i++)
        ig_cudnn_put(g->set, d, sizes[i].attribute, CUDNN_TYPE_INT64, axes, &z[sizes[i].first]);
    ig_cudnn_finish(g->set, d);
    return d;
}

static cudnnBackendDescriptor convolve(struct graph *g) {
    const struct ig_library_call *c = g->call->what;
    const int64_t *z = g->call->sizes;
    const float one = 1, zero = 0;
    cudnnBackendDescriptor x = tensor(g, IG_CUDNN_X, c->a_type, z[IG_LIBRARY_IMAGES], z[IG_LIBRARY_CHANNELS],
                                      z[IG_LIBRARY_IN], z[IG_LIBRARY_IN + 1]);
    cudnnBackendDescriptor w =
        tensor(g, IG_CUDNN_W, c->b_type, z[IG_LIBRARY_FILTERS], z[IG_LIBRARY_CHANNELS] / z[IG_LIBRARY_GROUPS],
               z[IG_LIBRARY_KERNEL], z[IG_LIBRARY_KERNEL + 1]);
    cudnnBackendDescriptor y = result_of(g), how = windows(g);
    cudnnBackendDescriptor d = begin_operation(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    put_descriptor(g->set, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    put_descriptor(g->set, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    put_descriptor(g->set, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    put_descriptor(g->set, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how);
    ig_cudnn_put(g->set, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    ig_cudnn_put(g->set, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
    ig_cudnn_finish(g->set, d);
    return y;
}

/* f(x) or, with an operand, f(x, other). */
static cudnnBackendDescriptor pointwise(struct graph *g, int mode, cudnnBackendDescriptor x,
                                        cudnnBackendDescriptor other) {
    int compute = CUDNN_DATA_FLOAT;
    g->left--;
    cudnnBackendDescriptor how = ig_cudnn_begin(g->set, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    ig_cudnn_put(g->set, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    ig_cudnn_put(g->set, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    ig_cudnn_finish(g->set, how);
    cudnnBackendDescriptor y = result_of(g);
    cudnnBackendDescriptor d = begin_operation(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    put_descriptor(g->set, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    put_descriptor(g->set, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (other) put_descriptor(g->set, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other);
    put_descriptor(g->set, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    ig_cudnn_finish(g->set, d);
    return y;
}

/* Adds the addend before the bias: cuDNN has engines for sum, bias and ReLU in this order only. */
static void follow(struct graph *g, cudnnBackendDescriptor y) {
    const struct ig_library_call *c = g->call->what;
    if (c->addend != IG_LIBRARY_NO_OPERAND) y = pointwise(g, CUDNN_POINTWISE_ADD, y, like_results(g, IG_CUDNN_ADDEND));
    if (c->bias != IG_LIBRARY_NO_OPERAND) {
        cudnnBackendDescriptor bias =
            tensor(g, IG_CUDNN_BIAS, c->out_type, 1, g->call->sizes[IG_LIBRARY_FILTERS], 1, 1);
        y = pointwise(g, CUDNN_POINTWISE_ADD, y, bias);
    }
    if (c->activation == IG_LIBRARY_RELU) pointwise(g, CUDNN_POINTWISE_RELU_FWD, y, NULL);
}

cudnnBackendDescriptor ig_cudnn_graph(struct ig_cudnn_set *set, const struct ig_cuda_call *call) {
    const struct ig_library_call *c = call->what;
    struct graph g = {.set = set, .call = call, .next_id = IG_CUDNN_BIAS + 1};
    g.left =
        (c->addend != IG_LIBRARY_NO_OPERAND) + (c->bias != IG_LIBRARY_NO_OPERAND) + (c->activation == IG_LIBRARY_RELU);
    follow(&g, convolve(&g));
    cudnnBackendDescriptor d = ig_cudnn_begin(set, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    ig_cudnn_put(set, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g.n_operations, g.operations);
    ig_cudnn_put(set, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &set->cudnn->handle);
    ig_cudnn_finish(set, d);
    return d;
}
