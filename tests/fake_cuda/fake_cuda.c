/* A stand-in for NVIDIA's driver; see fake_cuda.h. */
#include "fake_cuda/fake_cuda.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cuda/driver.h"
#include "fake_cuda/call.h"

#define EXPORT __attribute__((visibility("default")))
#define MAX_DEPTH 16
#define MAX_PARAMETERS 300
#define MAX_MAPS 4

static struct fake_cuda state;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local CUcontext stack[MAX_DEPTH];
static _Thread_local unsigned depth;

EXPORT fake_cuda_state_function fake_cuda_state;
EXPORT fake_cuda_depth_function fake_cuda_depth;
EXPORT fake_cuda_current_function fake_cuda_current;

struct fake_cuda *fake_cuda_state(void) {
    return &state;
}

unsigned fake_cuda_depth(void) {
    return depth;
}

void *fake_cuda_current(void) {
    return depth ? stack[depth - 1] : NULL;
}

/* Describes the machine for programs that do not set the state themselves. */
__attribute__((constructor)) static void read_environment(void) {
    const char *text = getenv("FAKE_CUDA");
    if (text && sscanf(text, "version=%d devices=%d sm=%d memory=%zu", &state.version, &state.devices, &state.sm,
                       &state.memory) != 4)
        abort();
    state.pools = 1;
}

/* ---- Every call ------------------------------------------------------------------------------------------------------- */

static void misuse(const char *function, const char *what) {
    if (!state.misuse[0]) snprintf(state.misuse, sizeof state.misuse, "%s: %s", function, what);
}

static CUresult enter(const char *function, bool needs_context) {
    pthread_mutex_lock(&mutex);
    state.calls++;
    size_t length = strlen(function);
    if (state.log_size + length + 2 <= sizeof state.log) {
        memcpy(state.log + state.log_size, function, length);
        state.log_size += length;
        memcpy(state.log + state.log_size++, " ", 2);
    }
    if (needs_context && depth == 0) misuse(function, "no current context");
    bool fails = state.fail_at && (!state.fail || strcmp(state.fail, function) == 0) && --state.fail_at == 0;
    int result = fails ? state.fail_result : needs_context ? state.lost : CUDA_SUCCESS;
    pthread_mutex_unlock(&mutex);
    return result;
}

/* The log, which begins anew: for those who load the driver and do not know its state. */
EXPORT const char *fake_cuda_take_log(void) {
    static char taken[sizeof state.log];
    pthread_mutex_lock(&mutex);
    memcpy(taken, state.log, sizeof taken);
    state.log_size = 0;
    state.log[0] = 0;
    pthread_mutex_unlock(&mutex);
    return taken;
}

#define CALL(needs_context)                                  \
    do {                                                     \
        CUresult result_ = enter(__func__, (needs_context)); \
        if (result_ != CUDA_SUCCESS) return result_;         \
    } while (0)

/* Every object begins with its kind. */
enum kind { STREAM = 0x51, EVENT, POOL, MODULE, GRAPH, EXECUTABLE };

static void count(int change) {
    pthread_mutex_lock(&mutex);
    state.live += (uint64_t)(int64_t)change;
    pthread_mutex_unlock(&mutex);
}

static void *create(enum kind kind, size_t size) {
    int *object = calloc(1, size);
    if (!object) abort();
    *object = (int)kind;
    count(1);
    return object;
}

/* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD: streams that nobody creates. */
static bool is_default_stream(const void *stream) {
    return stream == (const void *)1 || stream == (const void *)2;
}

static void check(const char *function, const void *object, enum kind kind) {
    if (kind == STREAM && is_default_stream(object)) misuse(function, "a default stream");
    if (!object || *(const int *)object != (int)kind) misuse(function, "not a handle");
}

/* Where work is enqueued: default streams too. */
static void check_stream(const char *function, const void *stream) {
    if (!is_default_stream(stream)) check(function, stream, STREAM);
}

/* Destroys the object even if it returns an error. */
static CUresult destroy(const char *function, void *object, enum kind kind) {
    CUresult result = enter(function, kind != GRAPH && kind != EXECUTABLE);
    check(function, object, kind);
    if (object) *(int *)object = 0;
    free(object);
    count(-1);
    return result;
}

CUresult fake_call(const char *function, bool needs_context) {
    return enter(function, needs_context);
}

void fake_misuse(const char *function, const char *what) {
    misuse(function, what);
}

void fake_count(int change, int64_t bytes) {
    count(change);
    pthread_mutex_lock(&mutex);
    state.used += (uint64_t)bytes;
    pthread_mutex_unlock(&mutex);
}

/* ---- Contexts --------------------------------------------------------------------------------------------------------- */

struct CUctx_st {
    int device;
};
static struct CUctx_st contexts[FAKE_DEVICES] = {{0}, {1}, {2}, {3}};

static int current_device(void) {
    return depth ? stack[depth - 1]->device : 0;
}

static unsigned retained; /* references to primary contexts */

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    CALL(false);
    *context = &contexts[device];
    count(1);
    pthread_mutex_lock(&mutex);
    retained++;
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    CUresult result = enter(__func__, false);
    count(-1);
    pthread_mutex_lock(&mutex);
    if (--retained == 0) state.lost = 0;
    pthread_mutex_unlock(&mutex);
    return result;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
    CALL(false);
    if (depth == MAX_DEPTH) abort();
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    CUresult result = enter(__func__, true);
    if (depth) *context = stack[--depth];
    return result;
}

/* ---- Memory ----------------------------------------------------------------------------------------------------------- */

struct CUmemPoolHandle_st {
    int kind;
};
struct CUstream_st {
    struct fake_stream base;
};
/* Of this thread; a thread begins in the mode that forbids most, 0. */
static _Thread_local int capture_mode;
struct CUevent_st {
    int kind;
    bool recorded, timed;
    bool captured; /* the last record is part of a graph */
    struct timespec at;
};

/* NULL: the stream is not captured. */
static CUgraph captured_graph(CUstream stream) {
    return is_default_stream(stream) ? NULL : stream->base.capturing;
}

static CUresult take(CUdeviceptr *memory, size_t size) {
    void *address = size <= state.memory ? aligned_alloc(512, (size + 511) / 512 * 512) : NULL;
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(address, 0xa5, size);
    *memory = (uintptr_t)address;
    if (state.code.add_memory) state.code.add_memory(address, size);
    fake_count(1, (int64_t)malloc_usable_size(address));
    return CUDA_SUCCESS;
}

static CUresult give_back(const char *function, CUdeviceptr memory) {
    CUresult result = enter(function, true);
    if (state.code.remove_memory && memory) state.code.remove_memory((void *)(uintptr_t)memory);
    fake_count(-1, -(int64_t)malloc_usable_size((void *)(uintptr_t)memory));
    free((void *)(uintptr_t)memory);
    return result;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    CALL(true);
    *available = state.memory / 2 - state.used;
    *total = state.memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t size) {
    CALL(true);
    return take(memory, size);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr memory) {
    return give_back(__func__, memory);
}

EXPORT CUresult cuMemHostAlloc(void **memory, size_t size, unsigned flags) {
    CALL(true);
    CUdeviceptr address = 0;
    CUresult result = take(&address, size);
    *memory = (void *)(uintptr_t)address;
    return result;
}

EXPORT CUresult cuMemFreeHost(void *memory) {
    return give_back(__func__, (uintptr_t)memory);
}

EXPORT CUresult cuMemHostRegister_v2(void *memory, size_t size, unsigned flags) {
    CALL(true);
    if (!memory || size == 0) misuse(__func__, "nothing to pin");
    if (state.code.add_memory) state.code.add_memory(memory, size);
    count(1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostUnregister(void *memory) {
    CUresult result = enter(__func__, true);
    if (state.code.remove_memory) state.code.remove_memory(memory);
    count(-1);
    return result;
}

EXPORT CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer) {
    CALL(true);
    if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_POINTER) misuse(__func__, "unknown attribute");
    *(CUdeviceptr *)value = pointer;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    CALL(true);
    *pool = create(POOL, sizeof **pool);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    return destroy(__func__, pool, POOL);
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *memory, size_t size, CUmemoryPool pool, CUstream stream) {
    CALL(true);
    check(__func__, pool, POOL);
    check_stream(__func__, stream);
    return take(memory, size);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
    check_stream(__func__, stream);
    return give_back(__func__, memory);
}

static void copy(CUdeviceptr to, CUdeviceptr from, size_t size) {
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
}

/* Where a stream is captured, its work becomes nodes of the graph. */
struct parameters;
static bool is_captured_copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t size);
static bool is_captured_kernel(CUstream stream, CUfunction function, unsigned grid, unsigned threads, unsigned shared,
                               const struct parameters *parameters);

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    CALL(true);
    check_stream(__func__, stream);
    if (!is_captured_copy(stream, to, from, size)) copy(to, from, size);
    return CUDA_SUCCESS;
}

/* ---- Code: a cubin of the GPU's own architecture, or text that begins like PTX ---------------------------------------- */

struct CUmod_st {
    int kind;
    void *loaded; /* returned by state.code.load */
};

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n_options, int *options,
                                   void **values) {
    CALL(true);
    const unsigned char *bytes = image;
    if (memcmp(bytes,
               "\x7f"
               "ELF",
               4) == 0) {
        if (bytes[49] != state.sm) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    } else if (memcmp(bytes, ".version ", 9) != 0) {
        for (unsigned i = 0; i < n_options; i++)
            if (options[i] == CU_JIT_ERROR_LOG_BUFFER) strcpy(values[i], "line 1: no PTX");
        return 218;
    }
    void *loaded = state.code.load ? state.code.load(image) : NULL;
    if (state.code.load && !loaded) return 218;
    *module = create(MODULE, sizeof **module);
    (*module)->loaded = loaded;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module) {
    if (state.code.unload) state.code.unload(module->loaded);
    return destroy(__func__, module, MODULE);
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    CALL(true);
    check(__func__, module, MODULE);
    if (state.code.find) *function = (CUfunction)(uintptr_t)state.code.find(module->loaded, name);
    if (state.code.find) return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    for (size_t i = 0; i < FAKE_KERNELS && state.kernels[i].name; i++) {
        if (strcmp(state.kernels[i].name, name) != 0) continue;
        *function = (CUfunction)&state.kernels[i];
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    CALL(true);
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) misuse(__func__, "unknown attribute");
    state.shared_limit = (unsigned)value;
    return CUDA_SUCCESS;
}

/* Offset of a kernel's first tensor map: aligned to 64 bytes in memory, where the parameters of an sm_90 begin at
 * BEGIN. */
static size_t first_map(const struct fake_kernel *kernel) {
    enum { BEGIN = 0x210 };
    return (BEGIN + 8 * (size_t)(kernel->n_parameters - kernel->n_maps) + 63) / 64 * 64 - BEGIN;
}

EXPORT CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *out_offset, size_t *out_size) {
    const struct fake_kernel *kernel = (const struct fake_kernel *)function;
    const size_t n_values = kernel->n_parameters - kernel->n_maps;
    CALL(true);
    if (index >= kernel->n_parameters) return CUDA_ERROR_INVALID_VALUE;
    *out_offset = index < n_values ? 8 * index : first_map(kernel) + (index - n_values) * sizeof(CUtensorMap);
    *out_size = index < n_values ? 8 : sizeof(CUtensorMap);
    return CUDA_SUCCESS;
}

/* A launch's parameters. */
struct parameters {
    uint64_t values[MAX_PARAMETERS];
    struct fake_tensor_map maps[MAX_MAPS];
    void *at[MAX_PARAMETERS];
};

static void take_part(void *to, size_t want, const char *block, size_t size, size_t offset) {
    if (offset < size) memcpy(to, block + offset, want < size - offset ? want : size - offset);
}

/* Copies a parameter block as NVIDIA's driver does, no further than its size; parameters beyond it are zero here.
 * Returns false if the block is larger than the kernel's parameters. */
static bool take_parameters(const struct fake_kernel *kernel, void **extra, struct parameters *out) {
    const uint32_t n_values = kernel->n_parameters - kernel->n_maps;
    const size_t maps = n_values < kernel->n_parameters ? first_map(kernel) : 8 * (size_t)n_values;
    if (kernel->n_parameters > MAX_PARAMETERS || kernel->n_maps > MAX_MAPS) abort();
    if (!extra || extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER || extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE ||
        extra[4] != CU_LAUNCH_PARAM_END) {
        misuse(__func__, "a kernel without a block of parameters");
        return false;
    }
    const char *block = extra[1];
    const size_t size = *(const size_t *)extra[3];
    *out = (struct parameters){0};
    for (uint32_t i = 0; i < n_values; i++)
        take_part(&out->values[i], 8, block, size, 8 * (size_t)i);
    for (uint32_t i = 0; i < kernel->n_maps; i++)
        take_part(&out->maps[i], sizeof *out->maps, block, size, maps + i * sizeof *out->maps);
    return size <= maps + kernel->n_maps * sizeof *out->maps;
}

/* Pointers to the parameters, as the test's kernel functions receive them. */
static void **pointers(const struct fake_kernel *kernel, struct parameters *parameters) {
    const uint32_t n_values = kernel->n_parameters - kernel->n_maps;
    for (uint32_t i = 0; i < kernel->n_parameters; i++)
        parameters->at[i] = i < n_values ? (void *)&parameters->values[i] : (void *)&parameters->maps[i - n_values];
    return parameters->at;
}

static void run_kernel(CUfunction function, unsigned grid, unsigned threads, unsigned shared,
                       struct parameters *parameters) {
    const struct fake_kernel *kernel = (const struct fake_kernel *)function;
    if (!state.code.run) {
        kernel->run(grid, threads, pointers(kernel, parameters));
        return;
    }
    if (state.later != CUDA_SUCCESS || fake_has_failed(current_device())) return;
    const char *why = state.code.run(kernel, grid, threads, shared, pointers(kernel, parameters));
    if (why) fake_fail_later(current_device(), why);
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **separate,
                               void **extra) {
    struct parameters parameters;
    CALL(true);
    check_stream(__func__, stream);
    if (grid_x == 0 || block_x == 0) misuse(__func__, "an empty launch");
    if (!take_parameters((const struct fake_kernel *)function, extra, &parameters)) return CUDA_ERROR_INVALID_VALUE;
    if (!is_captured_kernel(stream, function, grid_x, block_x, shared, &parameters))
        run_kernel(function, grid_x, block_x, shared, &parameters);
    return CUDA_SUCCESS;
}

static void note_carveout(const char *function, int attribute, const CUlaunchAttributeValue *value) {
    if (attribute != CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) misuse(function, "an attribute");
    __atomic_fetch_add(&state.carveouts, value->sharedMemCarveout == 100, __ATOMIC_RELAXED);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **separate, void **extra) {
    struct parameters parameters;
    CALL(true);
    check_stream(__func__, config->hStream);
    if (config->gridDimX == 0 || config->blockDimX == 0) misuse(__func__, "an empty launch");
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            __atomic_fetch_add(&state.early_launches, attribute->value.programmaticStreamSerializationAllowed == 1,
                               __ATOMIC_RELAXED);
        else
            note_carveout(__func__, attribute->id, &attribute->value);
    }
    if (!take_parameters((const struct fake_kernel *)function, extra, &parameters)) return CUDA_ERROR_INVALID_VALUE;
    if (!is_captured_kernel(config->hStream, function, config->gridDimX, config->blockDimX, config->sharedMemBytes,
                            &parameters))
        run_kernel(function, config->gridDimX, config->blockDimX, config->sharedMemBytes, &parameters);
    return CUDA_SUCCESS;
}

/* ---- Streams and events ----------------------------------------------------------------------------------------------- */

static void enqueue(struct fake_stream *stream, void (*run)(const void *data), const void *data, size_t size);

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    CALL(true);
    *stream = create(STREAM, sizeof **stream);
    (*stream)->base.enqueue = enqueue;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
    return destroy(__func__, stream, STREAM);
}

EXPORT CUresult cuStreamSynchronize(CUstream stream) {
    CALL(true);
    check_stream(__func__, stream);
    if (captured_graph(stream)) misuse(__func__, "a stream that is captured");
    CUresult later = state.later;
    if (later == CUDA_SUCCESS) return fake_take_failure(current_device());
    state.later = CUDA_SUCCESS;
    return later;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    CALL(true);
    check_stream(__func__, stream);
    check(__func__, event, EVENT);
    if (event->recorded && event->captured != (captured_graph(stream) != NULL))
        misuse(__func__, "an order across the boundary of a capture");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
    CALL(true);
    *event = create(EVENT, sizeof **event);
    (*event)->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event) {
    return destroy(__func__, event, EVENT);
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    CALL(true);
    check(__func__, event, EVENT);
    check_stream(__func__, stream);
    event->recorded = true;
    event->captured = captured_graph(stream) != NULL;
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent event) {
    CALL(true);
    check(__func__, event, EVENT);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventQuery(CUevent event) {
    CALL(true);
    check(__func__, event, EVENT);
    pthread_mutex_lock(&mutex);
    bool ready = state.not_ready == 0;
    if (!ready) state.not_ready--;
    pthread_mutex_unlock(&mutex);
    return ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
    CALL(true);
    if (!begin->recorded || !end->recorded) misuse(__func__, "not recorded");
    if (!begin->timed || !end->timed) misuse(__func__, "not timed");
    *milliseconds = 1.5f;
    if (state.has_clock)
        *milliseconds = (float)(1e3 * (double)(end->at.tv_sec - begin->at.tv_sec) +
                                1e-6 * (double)(end->at.tv_nsec - begin->at.tv_nsec));
    return CUDA_SUCCESS;
}

/* ---- Graphs: of the nodes that are ready, the one added last runs first ------------------------------------------------- */

struct CUgraphNode_st {
    unsigned number;
    unsigned *after, n_after;      /* dependencies, by number */
    CUfunction function;           /* NULL: a copy, or a library's work */
    void (*run)(const void *data); /* a library's work, or NULL */
    unsigned char data[FAKE_WORK_BYTES];
    unsigned grid, threads, shared;
    struct parameters parameters;
    CUdeviceptr from, to;
    size_t size;
    bool disabled;
};

struct CUgraph_st {
    int kind;
    unsigned n_nodes;
    CUgraphNode *nodes;
};

struct CUgraphExec_st {
    int kind;
    CUgraph graph; /* must outlive changes of nodes */
    struct CUgraph_st copy;
};

static void append_node(struct CUgraph_st *graph, CUgraphNode node) {
    graph->nodes = realloc(graph->nodes, (graph->n_nodes + 1) * sizeof *graph->nodes);
    if (!graph->nodes) abort();
    graph->nodes[graph->n_nodes] = node;
    node->number = graph->n_nodes++;
}

static CUgraphNode new_node(void) {
    CUgraphNode node = calloc(1, sizeof *node);
    if (!node) abort();
    return node;
}

static void free_nodes(struct CUgraph_st *graph) {
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        free(graph->nodes[i]->after);
        free(graph->nodes[i]);
    }
    free(graph->nodes);
}

static CUresult set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters) {
    node->function = parameters->func;
    node->grid = parameters->gridDimX;
    node->threads = parameters->blockDimX;
    node->shared = parameters->sharedMemBytes;
    if (node->grid == 0 || node->threads == 0) misuse(__func__, "an empty launch");
    bool taken = take_parameters((const struct fake_kernel *)node->function, parameters->extra, &node->parameters);
    return taken ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void set_copy(CUgraphNode node, const CUDA_MEMCPY3D *parameters) {
    node->from = parameters->srcDevice;
    node->to = parameters->dstDevice;
    node->size = parameters->WidthInBytes;
    if (node->size == 0 || parameters->Height != 1 || parameters->Depth != 1) misuse(__func__, "an empty copy");
}

static void add_edge(const char *function, CUgraphNode node, unsigned after) {
    for (unsigned i = 0; i < node->n_after; i++) {
        if (node->after[i] == after) misuse(function, "an edge that is there already");
    }
    node->after = realloc(node->after, (node->n_after + 1) * sizeof *node->after);
    if (!node->after) abort();
    node->after[node->n_after++] = after;
}

static CUgraphNode add_node(const char *function, CUgraph graph, const CUgraphNode *after, size_t n_after) {
    check(function, graph, GRAPH);
    pthread_mutex_lock(&mutex);
    state.edges += n_after;
    pthread_mutex_unlock(&mutex);
    CUgraphNode node = new_node();
    append_node(graph, node);
    for (size_t i = 0; i < n_after; i++)
        add_edge(function, node, after[i]->number);
    return node;
}

/* Behind what was captured before. */
static CUgraphNode append_work(CUgraph graph) {
    CUgraphNode before = graph->n_nodes ? graph->nodes[graph->n_nodes - 1] : NULL;
    return add_node(__func__, graph, &before, before ? 1 : 0);
}

static bool is_captured_copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t size) {
    CUgraph graph = captured_graph(stream);
    if (!graph) return false;
    CUgraphNode node = append_work(graph);
    node->to = to;
    node->from = from;
    node->size = size;
    return true;
}

static bool is_captured_kernel(CUstream stream, CUfunction function, unsigned grid, unsigned threads, unsigned shared,
                               const struct parameters *parameters) {
    CUgraph graph = captured_graph(stream);
    if (!graph) return false;
    CUgraphNode node = append_work(graph);
    node->function = function;
    node->grid = grid;
    node->threads = threads;
    node->shared = shared;
    node->parameters = *parameters;
    return true;
}

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    CALL(false);
    *graph = create(GRAPH, sizeof **graph);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph) {
    if (graph) free_nodes(graph);
    return destroy(__func__, graph, GRAPH);
}

EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                                        const CUDA_KERNEL_NODE_PARAMS *parameters) {
    CALL(true);
    *node = add_node(__func__, graph, after, n_after);
    return set_kernel(*node, parameters);
}

EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                                     const CUDA_MEMCPY3D *parameters, CUcontext context) {
    CALL(true);
    *node = add_node(__func__, graph, after, n_after);
    set_copy(*node, parameters);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                          const CUgraphEdgeData *edges, size_t n_edges) {
    CALL(false);
    for (size_t i = 0; i < n_edges; i++) {
        if (from[i]->number >= to[i]->number) misuse(__func__, "a circle");
        if (!from[i]->function || !to[i]->function) misuse(__func__, "a programmatic edge of a copy");
        add_edge(__func__, to[i], from[i]->number);
        state.programmatic_edges += edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
                                    edges[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after) {
    CALL(true);
    *node = add_node(__func__, graph, after, n_after);
    return CUDA_SUCCESS;
}

/* A captured graph holds exactly one library call. */
static void set_child(const char *function, CUgraphNode node, CUgraph child) {
    check(function, child, GRAPH);
    if (child->n_nodes != 1 || !child->nodes[0]->run) {
        misuse(function, "not one call of a library");
        return;
    }
    node->run = child->nodes[0]->run;
    memcpy(node->data, child->nodes[0]->data, sizeof node->data);
}

EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                                         CUgraph child) {
    CALL(true);
    *node = add_node(__func__, graph, after, n_after);
    set_child(__func__, *node, child);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    CALL(true);
    check(__func__, stream, STREAM);
    if (stream->base.capturing || mode != CU_STREAM_CAPTURE_MODE_RELAXED) misuse(__func__, "a capture of that kind");
    stream->base.capturing = create(GRAPH, sizeof(struct CUgraph_st));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    CUresult result = enter(__func__, true);
    check(__func__, stream, STREAM);
    if (!stream->base.capturing) misuse(__func__, "nothing is captured");
    *graph = stream->base.capturing;
    stream->base.capturing = NULL;
    return result;
}

/* Neither is work, so they are not logged. */
EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    check_stream(__func__, stream);
    *status = captured_graph(stream) ? 1 : 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

static void enqueue(struct fake_stream *stream, void (*run)(const void *data), const void *data, size_t size) {
    check(__func__, stream, STREAM);
    if (depth == 0) misuse(__func__, "no current context");
    if (size > FAKE_WORK_BYTES) abort();
    if (!stream->capturing) {
        run(data);
        return;
    }
    CUgraphNode node = append_work(stream->capturing);
    node->run = run;
    memcpy(node->data, data, size);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
    CALL(true);
    check(__func__, graph, GRAPH);
    *executable = create(EXECUTABLE, sizeof **executable);
    (*executable)->graph = graph;
    for (unsigned i = 0; i < graph->n_nodes; i++) {
        CUgraphNode node = new_node();
        *node = *graph->nodes[i];
        node->after = calloc(node->n_after + 1, sizeof *node->after);
        if (!node->after) abort();
        if (node->n_after) memcpy(node->after, graph->nodes[i]->after, node->n_after * sizeof *node->after);
        append_node(&(*executable)->copy, node);
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec executable) {
    if (executable) free_nodes(&executable->copy);
    return destroy(__func__, executable, EXECUTABLE);
}

static CUgraphNode node_of(const char *function, CUgraphExec executable, CUgraphNode node) {
    check(function, executable, EXECUTABLE);
    check(function, executable->graph, GRAPH);
    return executable->copy.nodes[node->number];
}

EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS *parameters) {
    CALL(true);
    return set_kernel(node_of(__func__, executable, node), parameters);
}

EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                               const CUDA_MEMCPY3D *parameters, CUcontext context) {
    CALL(true);
    set_copy(node_of(__func__, executable, node), parameters);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraph child) {
    CALL(true);
    set_child(__func__, node_of(__func__, executable, node), child);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned enabled) {
    CALL(true);
    CUgraphNode own = node_of(__func__, executable, node);
    if (!own->function && !own->size) misuse(__func__, "neither a kernel nor a copy");
    own->disabled = !enabled;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, int attribute, const CUlaunchAttributeValue *value) {
    CALL(true);
    if (!node->function) misuse(__func__, "no kernel");
    note_carveout(__func__, attribute, value);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphUpload(CUgraphExec executable, CUstream stream) {
    CALL(true);
    check(__func__, executable, EXECUTABLE);
    check_stream(__func__, stream);
    return CUDA_SUCCESS;
}

static bool is_ready(const struct CUgraphNode_st *node, const bool *done) {
    bool ready = !done[node->number];
    for (unsigned i = 0; i < node->n_after; i++)
        ready = ready && done[node->after[i]];
    return ready;
}

static CUgraphNode last_ready(const struct CUgraph_st *graph, const bool *done) {
    for (unsigned n = graph->n_nodes; n-- > 0;) {
        if (is_ready(graph->nodes[n], done)) return graph->nodes[n];
    }
    misuse(__func__, "a circle");
    return NULL;
}

static void run_node(CUgraphNode node) {
    if (node->function)
        run_kernel(node->function, node->grid, node->threads, node->shared, &node->parameters);
    else if (node->run)
        node->run(node->data);
    else if (node->size)
        copy(node->to, node->from, node->size);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
    CALL(true);
    check(__func__, executable, EXECUTABLE);
    check_stream(__func__, stream);
    unsigned count = executable->copy.n_nodes;
    bool *done = calloc(count + 1, sizeof *done);
    if (!done) abort();
    for (unsigned n = 0; n < count; n++) {
        CUgraphNode node = last_ready(&executable->copy, done);
        if (!node) break;
        if (!node->disabled) run_node(node);
        done[node->number] = true;
    }
    free(done);
    return CUDA_SUCCESS;
}
