/* A stand-in for cuDNN; see fake_cudnn.h. */
#include "fake_cudnn/fake_cudnn.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "device/cuda/cudnn.h"
#include "fake_cuda/fake_cuda.h"

#define EXPORT __attribute__((visibility("default")))

static struct fake_cudnn state = FAKE_CUDNN;

EXPORT fake_cudnn_state_function fake_cudnn_state;

struct fake_cudnn *fake_cudnn_state(void) {
    return &state;
}

static void misuse(const char *function, const char *what) {
    if (!state.misuse[0]) snprintf(state.misuse, sizeof state.misuse, "%s: %s", function, what);
}

static bool fails(void) {
    return state.fail_at && --state.fail_at == 0;
}

#define CALL() \
    if (fails()) return state.fail_status

/* ---- Descriptors ----------------------------------------------------------------------------------------------------- */

enum { MOST_ATTRIBUTES = 12, MOST_BYTES = 64, LIVING = 0xd15c };

struct attribute {
    int name, type;
    int64_t count;
    unsigned char bytes[MOST_BYTES];
};

/* An execution plan's work, self-contained: its descriptors may be destroyed before it executes. */
struct work {
    int32_t x[4], w[4], y[4], stride[2], dilation[2], before[2], after[2];
    int type, out_type, activation, way;
    bool adds, has_bias;
    const void *from[5]; /* by operand identifier - 1: x, w, out, addend, bias */
};
_Static_assert(sizeof(struct work) <= FAKE_WORK_BYTES, "work fits into a node");

struct descriptor {
    int living, kind, count, way;
    bool finalized;
    struct attribute attributes[MOST_ATTRIBUTES];
    struct descriptor *graph; /* the operation graph of a configuration */
    struct work work;         /* of an execution plan */
};

struct cudnnContext {
    int living;
    CUstream stream;
};

static struct descriptor *check(const char *function, cudnnBackendDescriptor d) {
    static struct descriptor none;
    if (!d || ((struct descriptor *)d)->living != LIVING) {
        misuse(function, "not a descriptor");
        return &none;
    }
    return d;
}

static size_t size_of_type(int type) {
    switch (type) {
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_FLOAT: return 4;
    case CUDNN_TYPE_BOOLEAN: return 1;
    default: return 8;
    }
}

static const struct attribute *find(const struct descriptor *d, int name) {
    for (int i = 0; i < d->count; i++) {
        if (d->attributes[i].name == name) return &d->attributes[i];
    }
    return NULL;
}

static const void *need(const char *function, const struct descriptor *d, int name, int type, int64_t count) {
    static const unsigned char nothing[MOST_BYTES];
    const struct attribute *a = find(d, name);
    if (a && a->type == type && (count == 0 || a->count == count)) return a->bytes;
    misuse(function, "an attribute is missing or of another type");
    return nothing;
}

static struct descriptor *need_descriptor(const char *function, const struct descriptor *d, int name) {
    struct descriptor *value;
    memcpy(&value, need(function, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1), sizeof value);
    value = check(function, value);
    if (!value->finalized) misuse(function, "a descriptor that is not finalized");
    return value;
}

static int need_int(const char *function, const struct descriptor *d, int name, int type) {
    int value;
    memcpy(&value, need(function, d, name, type, 1), sizeof value);
    return value;
}

/* ---- The library ----------------------------------------------------------------------------------------------------- */

EXPORT size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) {
    return state.version;
}

EXPORT const char *cudnnGetErrorString(cudnnStatus status);
const char *cudnnGetErrorString(cudnnStatus status) {
    return status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "some text";
}

EXPORT cudnnStatus cudnnCreate(cudnnHandle *handle) {
    CALL();
    *handle = calloc(1, sizeof **handle);
    (*handle)->living = LIVING;
    state.live++;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus cudnnDestroy(cudnnHandle handle) {
    if (!handle || handle->living != LIVING) misuse(__func__, "not a handle");
    free(handle);
    state.live--;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus cudnnSetStream(cudnnHandle handle, CUstream stream) {
    CALL();
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus cudnnBackendCreateDescriptor(int kind, cudnnBackendDescriptor *descriptor) {
    CALL();
    struct descriptor *d = calloc(1, sizeof *d);
    if (!d) abort();
    d->living = LIVING;
    d->kind = kind;
    *descriptor = d;
    state.live++;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus cudnnBackendDestroyDescriptor(cudnnBackendDescriptor descriptor) {
    if (check(__func__, descriptor) != descriptor) return CUDNN_STATUS_BAD_PARAM;
    ((struct descriptor *)descriptor)->living = 0;
    free(descriptor);
    state.live--;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus cudnnBackendSetAttribute(cudnnBackendDescriptor descriptor, int name, int type, int64_t count,
                                            const void *elements) {
    CALL();
    struct descriptor *d = check(__func__, descriptor);
    size_t size = size_of_type(type) * (size_t)count;
    if (d->finalized) misuse(__func__, "finalized already");
    if (count < 1 || size > MOST_BYTES || d->count == MOST_ATTRIBUTES) {
        misuse(__func__, "too much");
        return CUDNN_STATUS_BAD_PARAM;
    }
    struct attribute *a = &d->attributes[d->count++];
    *a = (struct attribute){.name = name, .type = type, .count = count};
    memcpy(a->bytes, elements, size);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Heuristics ------------------------------------------------------------------------------------------------------ */

static int notes_of(int way, int *notes) {
    int count = 0;
    if (way < state.tensor_cores) notes[count++] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (way == state.noted) notes[count++] = state.note;
    return count;
}

EXPORT cudnnStatus cudnnBackendGetAttribute(cudnnBackendDescriptor descriptor, int name, int type, int64_t wanted,
                                            int64_t *found, void *elements) {
    CALL();
    struct descriptor *d = check(__func__, descriptor);
    struct descriptor **others = elements;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        *found = state.ways < wanted ? state.ways : wanted;
        for (int i = 0; i < *found; i++) {
            struct descriptor *c = check(__func__, others[i]);
            if (c->kind != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) misuse(__func__, "no configuration");
            c->graph = need_descriptor(__func__, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
            c->way = i;
            c->finalized = true;
        }
        break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        *found = 1;
        check(__func__, others[0])->way = d->way;
        break;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: *found = notes_of(d->way, elements); break;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
        *found = state.compiled >> d->way & 1;
        if (*found) *(int *)elements = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
        break;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: memcpy(elements, &state.workspace, sizeof state.workspace); break;
    default: misuse(__func__, "an unknown attribute");
    }
    (void)type;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Operation graphs ------------------------------------------------------------------------------------------------ */

struct tensor {
    int32_t dims[4];
    int type;
    int64_t id;
    bool is_virtual;
};

static struct tensor tensor_of(const struct descriptor *d) {
    struct tensor t = {.type = need_int(__func__, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE),
                       .is_virtual = find(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL) != NULL};
    int64_t dims[4], strides[4];
    memcpy(dims, need(__func__, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4), sizeof dims);
    memcpy(strides, need(__func__, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4), sizeof strides);
    memcpy(&t.id, need(__func__, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1), sizeof t.id);
    memcpy(&state.alignment, need(__func__, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1), 8);
    for (int i = 0; i < 4; i++) {
        if (dims[i] < 1) misuse(__func__, "nothing");
        t.dims[i] = (int32_t)dims[i];
    }
    if (strides[1] != 1 || strides[3] != dims[1] || strides[2] != dims[1] * dims[3] ||
        strides[0] != dims[1] * dims[2] * dims[3])
        misuse(__func__, "not dense with channels innermost");
    if (t.is_virtual && t.type != CUDNN_DATA_FLOAT) misuse(__func__, "rounded on the way");
    return t;
}

static void axes(const struct descriptor *d, int name, int32_t *out) {
    int64_t values[2];
    memcpy(values, need(__func__, d, name, CUDNN_TYPE_INT64, 2), sizeof values);
    out[0] = (int32_t)values[0];
    out[1] = (int32_t)values[1];
}

static struct descriptor *convolution(const struct descriptor *d, struct work *w) {
    const struct descriptor *how = need_descriptor(__func__, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
    struct descriptor *y = need_descriptor(__func__, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
    struct tensor x = tensor_of(need_descriptor(__func__, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X));
    struct tensor filters = tensor_of(need_descriptor(__func__, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W));
    struct tensor result = tensor_of(y);
    memcpy(w->x, x.dims, sizeof w->x);
    memcpy(w->w, filters.dims, sizeof w->w);
    memcpy(w->y, result.dims, sizeof w->y);
    w->type = x.type;
    axes(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, w->stride);
    axes(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, w->dilation);
    axes(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, w->before);
    axes(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, w->after);
    if (x.type != filters.type || x.id != 1 || filters.id != 2) misuse(__func__, "operands that do not fit");
    if (x.dims[1] % filters.dims[1] || filters.dims[0] != result.dims[1]) misuse(__func__, "channels that do not fit");
    for (int i = 0; i < 2; i++) {
        int32_t reach = w->dilation[i] * (w->w[2 + i] - 1) + 1;
        if ((w->x[2 + i] + w->before[i] + w->after[i] - reach) / w->stride[i] + 1 != w->y[2 + i])
            misuse(__func__, "results that do not fit");
    }
    return y;
}

static struct descriptor *pointwise(const struct descriptor *d, const struct descriptor *x, struct work *w) {
    const struct descriptor *how = need_descriptor(__func__, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    int mode = need_int(__func__, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE);
    if (need_descriptor(__func__, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) != x) misuse(__func__, "not in a row");
    if (mode == CUDNN_POINTWISE_ADD) {
        struct tensor b = tensor_of(need_descriptor(__func__, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
        bool is_bias = b.id == 5;
        if (b.dims[1] != w->y[1] || b.dims[0] != (is_bias ? 1 : w->y[0])) misuse(__func__, "a sum that does not fit");
        if (b.id != 4 && b.id != 5) misuse(__func__, "an unknown summand");
        *(is_bias ? &w->has_bias : &w->adds) = true;
    } else {
        if (mode != CUDNN_POINTWISE_RELU_FWD) misuse(__func__, "an unknown activation");
        w->activation = mode;
    }
    return need_descriptor(__func__, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
}

static void read_graph(const struct descriptor *graph, struct work *w) {
    struct descriptor *operations[MOST_BYTES / 8], *y = NULL;
    const struct attribute *a = find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    memcpy(operations, need(__func__, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0),
           sizeof operations);
    need(__func__, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1);
    for (int64_t i = 0; a && i < a->count; i++) {
        const struct descriptor *d = check(__func__, operations[i]);
        y = i == 0 ? convolution(d, w) : pointwise(d, y, w);
        struct tensor t = tensor_of(y);
        bool is_last = i == a->count - 1;
        if (t.is_virtual == is_last || (is_last && t.id != 3)) misuse(__func__, "results in a wrong place");
        w->out_type = t.type;
    }
}

EXPORT cudnnStatus cudnnBackendFinalize(cudnnBackendDescriptor descriptor) {
    CALL();
    struct descriptor *d = check(__func__, descriptor);
    if (d->finalized) misuse(__func__, "finalized already");
    d->finalized = true;
    if (d->kind == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
        struct work ignored = {0};
        read_graph(d, &ignored);
    } else if (d->kind == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
        need(__func__, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1);
        state.questions++;
        if (state.ways < 0) return -state.ways;
    } else if (d->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        const struct descriptor *c = need_descriptor(__func__, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        if (state.impossible >> c->way & 1) return CUDNN_STATUS_NOT_SUPPORTED;
        read_graph(c->graph, &d->work);
        d->work.way = c->way;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Execution ------------------------------------------------------------------------------------------------------- */

static double load(int type, const void *data, int64_t i) {
    uint16_t half;
    if (type == CUDNN_DATA_FLOAT) return (double)((const float *)data)[i];
    memcpy(&half, (const char *)data + 2 * i, sizeof half);
    return (double)(type == CUDNN_DATA_HALF ? ig_f16_to_f32(half) : ig_bf16_to_f32(half));
}

static void store(int type, void *data, int64_t i, float value) {
    if (type == CUDNN_DATA_FLOAT) {
        ((float *)data)[i] = value;
        return;
    }
    uint16_t half = type == CUDNN_DATA_HALF ? ig_f32_to_f16(value) : ig_f32_to_bf16(value);
    memcpy((char *)data + 2 * i, &half, sizeof half);
}

/* The sum over one filter's window, for one output pixel. */
static double window(const struct work *w, int64_t image, int64_t row, int64_t column, int64_t filter) {
    int64_t per_group = w->w[1], first = filter / (w->w[0] / (w->x[1] / per_group)) * per_group;
    double sum = 0;
    for (int64_t i = 0; i < w->w[2] * w->w[3]; i++) {
        int64_t y = row * w->stride[0] - w->before[0] + i / w->w[3] * w->dilation[0];
        int64_t x = column * w->stride[1] - w->before[1] + i % w->w[3] * w->dilation[1];
        if (y < 0 || y >= w->x[2] || x < 0 || x >= w->x[3]) continue;
        int64_t pixel = ((image * w->x[2] + y) * w->x[3] + x) * w->x[1] + first;
        int64_t weight = (filter * w->w[2] * w->w[3] + i) * per_group;
        for (int64_t c = 0; c < per_group; c++)
            sum += load(w->type, w->from[0], pixel + c) * load(w->type, w->from[1], weight + c);
    }
    return sum;
}

static void convolve(const void *data) {
    const struct work *w = data;
    int64_t filters = w->y[1], columns = w->y[3], rows = w->y[2];
    void *out = (void *)(uintptr_t)w->from[2];
    for (int64_t i = 0; i < w->y[0] * rows * columns * filters; i++) {
        int64_t pixel = i / filters, filter = i % filters;
        double sum = window(w, pixel / columns / rows, pixel / columns % rows, pixel % columns, filter);
        if (w->adds) sum += load(w->out_type, w->from[3], i);
        if (w->has_bias) sum += load(w->out_type, w->from[4], filter);
        if (w->activation && sum < 0) sum = 0;
        store(w->out_type, out, i, (float)sum);
    }
    state.convolutions++;
    state.way = w->way;
}

EXPORT cudnnStatus cudnnBackendExecute(cudnnHandle handle, cudnnBackendDescriptor plan,
                                       cudnnBackendDescriptor variant_pack) {
    CALL();
    const struct descriptor *p = check(__func__, plan), *v = check(__func__, variant_pack);
    const struct attribute *ids = find(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    struct work w = p->work;
    int64_t id[MOST_BYTES / 8];
    void *address[MOST_BYTES / 8], *workspace;
    struct fake_stream *s = (struct fake_stream *)handle->stream;
    if (!p->finalized || !v->finalized || !s) {
        misuse(__func__, "not ready");
        return CUDNN_STATUS_BAD_PARAM;
    }
    memcpy(id, need(__func__, v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 0), sizeof id);
    memcpy(address, need(__func__, v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 0), sizeof address);
    memcpy(&workspace, need(__func__, v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1), 8);
    for (int64_t i = 0; ids && i < ids->count; i++) {
        if (id[i] < 1 || id[i] > 5) misuse(__func__, "an unknown operand");
        if (id[i] >= 1 && id[i] <= 5) w.from[id[i] - 1] = address[i];
    }
    if (!w.from[0] || !w.from[1] || !w.from[2] || (w.adds && !w.from[3]) || (w.has_bias && !w.from[4]))
        misuse(__func__, "an operand is missing");
    if (state.workspace && !workspace)
        misuse(__func__, "no workspace");
    else
        memset(workspace, 0x5a, (size_t)state.workspace);
    s->enqueue(s, convolve, &w, sizeof w);
    return CUDNN_STATUS_SUCCESS;
}
