/* Lists as CUDA graphs; see list.h. */
#include "device/cuda/list.h"

#include <string.h>

#include "device/cuda/copy.h"
#include "device/cuda/library.h"
#include "device/cuda/parameters.h"
#include "device/cuda/tensor_map.h"

#define FIRST_CAPACITY 32
#define NONE UINT32_MAX
/* A rough estimate of what the driver keeps per node, on host and GPU together. */
#define BYTES_OF_A_NODE 2048

enum kind { KERNEL, COPY, LIBRARY };

/* The values of a kernel begin its block of parameters (parameters.h). Those of a copy are source and destination, then
 * the block of the copy kernel. Those of a library call are operands and sizes. */
struct item {
    enum kind kind;
    CUfunction function; /* of kernel nodes: KERNEL, and COPY if the copy kernel does it */
    const struct ig_library_call *call;
    const int64_t *sizes;  /* LIBRARY: points into `values` */
    CUgraphNode node;      /* NULL: not in the graph */
    const uint32_t *after; /* items; NULL: all before it */
    uint32_t n_after;
    uint64_t *values;
    uint64_t *block;            /* of parameters: KERNEL and COPY; within `values` */
    size_t block_size, maps_at; /* in bytes */
    void **operands;            /* LIBRARY */
    struct ig_tensor_map *maps; /* KERNEL */
    uint32_t n_maps, n_buffers;
    uint32_t n_values, grid, threads, shared;
    size_t scratch; /* bytes per block; LIBRARY: total bytes */
    size_t size;    /* of a copy */
    bool waits;
    bool changed;           /* `values` differ from `block`, and from the node's */
    bool skipped, disabled; /* skipped: leave this copy out; disabled: the executable does so */
    bool dirty;             /* linked into the list of nodes to update */
    uint32_t next_dirty;
};

struct ig_list {
    struct ig_arena arena; /* holds the items' arrays */
    struct item *items;
    uint32_t count, capacity;
    uint32_t first_dirty;
    size_t scratch;   /* the most bytes per block of any kernel */
    size_t workspace; /* the most total bytes of any library call */
    bool has_library;
    const uint32_t *next_after; /* `after` of the next item */
    uint32_t n_next_after;
    bool ordered;           /* some item has an explicit `after` */
    CUgraphNode *nodes;     /* room for the dependencies of one node */
    void *scratch_memory;   /* the address that the nodes were given */
    bool ready;             /* launches are of the graph, not of the items */
    CUgraph graph;          /* NULL: not built */
    CUgraphExec executable; /* NULL: must be instantiated (again) */
};

/* ---- Recording --------------------------------------------------------------------------------------------------- */

static enum ingot_status no_memory(struct ingot_error *error) {
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a list of launches");
}

enum ingot_status ig_cuda_list_create(struct ig_cuda *cuda, struct ig_list **out_list, struct ingot_error *error) {
    struct ig_list *list = ig_allocate(cuda->base.allocator, sizeof *list, _Alignof(struct ig_list));
    if (!list) return no_memory(error);
    ig_arena_init(&list->arena, cuda->base.allocator);
    list->first_dirty = NONE;
    *out_list = list;
    return INGOT_OK;
}

static void destroy_graph(struct ig_cuda *cuda, struct ig_list *list) {
    /* the driver defers it until launches in flight have ended */
    if (list->executable) IG_CUDA(cuda, cuGraphExecDestroy, list->executable);
    if (list->graph) IG_CUDA(cuda, cuGraphDestroy, list->graph);
    list->executable = NULL;
    list->graph = NULL;
}

void ig_cuda_list_destroy(struct ig_cuda *cuda, struct ig_list *list) {
    if (!list) return;
    destroy_graph(cuda, list);
    ig_release(cuda->base.allocator, list->items, list->capacity * sizeof *list->items);
    ig_arena_deinit(&list->arena);
    ig_release(cuda->base.allocator, list, sizeof *list);
}

size_t ig_cuda_list_bytes(const struct ig_list *list) {
    return sizeof *list + ig_arena_bytes(&list->arena) + list->capacity * sizeof *list->items +
           (size_t)list->count * BYTES_OF_A_NODE;
}

static bool grow(struct ig_list *list) {
    if (list->capacity > UINT32_MAX / 4) return false;
    uint32_t capacity = list->capacity ? 2 * list->capacity : FIRST_CAPACITY;
    const struct ingot_allocator *allocator = list->arena.allocator;
    struct item *items = ig_allocate(allocator, capacity * sizeof *items, _Alignof(struct item));
    if (!items) return false;
    if (list->count) memcpy(items, list->items, list->count * sizeof *items);
    ig_release(allocator, list->items, list->capacity * sizeof *list->items);
    list->items = items;
    list->capacity = capacity;
    return true;
}

/* Appends an item with n_values values, and `more` bytes behind them; NULL if out of memory. */
static struct item *add(struct ig_list *list, enum kind kind, uint32_t n_values, size_t more) {
    uint64_t *values = ig_arena_alloc(&list->arena, n_values * sizeof *values + more);
    if (!values || (list->count == list->capacity && !grow(list))) return NULL;
    struct item *item = &list->items[list->count++];
    *item = (struct item){.kind = kind,
                          .values = values,
                          .n_values = n_values,
                          .after = list->next_after,
                          .n_after = list->n_next_after,
                          .changed = true,
                          .next_dirty = NONE};
    list->next_after = NULL;
    return item;
}

enum ingot_status ig_cuda_list_after(struct ig_list *list, const uint32_t *items, uint32_t count,
                                     struct ingot_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        if (items[i] >= list->count)
            return IG_ERR(error, INGOT_INVALID_ARGUMENT, "a launch cannot come after number %u of %u", items[i],
                          list->count);
    }
    uint32_t *copy = ig_arena_alloc(&list->arena, (count + 1) * sizeof *copy);
    if (!copy) return no_memory(error);
    if (count) memcpy(copy, items, count * sizeof *copy);
    list->next_after = copy;
    list->n_next_after = count;
    list->ordered = true;
    return INGOT_OK;
}

static uint64_t address(const void *memory) {
    return (uint64_t)(uintptr_t)memory;
}

/* Copies the kernel's tensor maps; they are encoded when its node is added or updated. */
static bool add_maps(struct ig_list *list, struct item *item, const struct ig_launch *launch) {
    if (launch->n_maps == 0) return true;
    item->maps = ig_arena_alloc(&list->arena, launch->n_maps * sizeof *item->maps);
    if (item->maps) memcpy(item->maps, launch->maps, launch->n_maps * sizeof *item->maps);
    item->n_maps = launch->n_maps;
    return item->maps;
}

enum ingot_status ig_cuda_list_add_kernel(struct ig_list *list, const struct ig_launch *launch,
                                          struct ig_cuda_function function, uint32_t grid, struct ingot_error *error) {
    const uint32_t n_values = ig_cuda_launch_values(launch);
    const size_t size = function.maps_at + launch->n_maps * sizeof(CUtensorMap);
    struct item *item = add(list, KERNEL, n_values, size - n_values * sizeof(uint64_t));
    if (!item || !add_maps(list, item, launch)) return no_memory(error);
    ig_cuda_block_fill(item->values, launch, NULL); /* scratch memory is set when the graph is built */
    item->block = item->values;
    item->block_size = size;
    item->maps_at = function.maps_at;
    item->function = function.handle;
    item->n_buffers = launch->n_buffers;
    item->grid = grid;
    item->threads = launch->threads;
    item->shared = launch->shared;
    item->scratch = launch->scratch;
    item->waits = launch->waits;
    if (grid && launch->scratch > list->scratch) list->scratch = launch->scratch;
    return INGOT_OK;
}

enum { COPY_VALUES = 2, COPY_PARAMETERS = 3 };

enum ingot_status ig_cuda_list_add_copy(struct ig_list *list, void *to, const void *from, size_t size,
                                        struct ingot_error *error) {
    struct item *item = add(list, COPY, COPY_VALUES + COPY_PARAMETERS, 0);
    if (!item) return no_memory(error);
    item->values[0] = address(from);
    item->values[1] = address(to);
    item->block = item->values + COPY_VALUES;
    item->block_size = COPY_PARAMETERS * sizeof *item->block;
    item->size = size;
    item->grid = ig_cuda_copy_blocks(size);
    item->threads = IG_CUDA_COPY_THREADS;
    return INGOT_OK;
}

enum ingot_status ig_cuda_list_add_library(struct ig_list *list, const struct ig_launch *launch,
                                           struct ingot_error *error) {
    struct ig_library_call *call = ig_arena_alloc(&list->arena, sizeof *call);
    void **operands = ig_arena_alloc(&list->arena, launch->n_buffers * sizeof *operands);
    struct item *item = call && operands ? add(list, LIBRARY, launch->n_buffers + launch->n_dims, 0) : NULL;
    if (!item) return no_memory(error);
    *call = *launch->library;
    for (uint32_t i = 0; i < launch->n_buffers; i++) {
        item->values[i] = address(launch->buffers[i]);
        operands[i] = launch->buffers[i];
    }
    item->operands = operands;
    memcpy(item->values + launch->n_buffers, launch->dims, launch->n_dims * sizeof *launch->dims);
    item->call = call;
    item->sizes = (const int64_t *)(item->values + launch->n_buffers);
    list->has_library = true;
    return INGOT_OK;
}

static CUDA_KERNEL_NODE_PARAMS kernel_parameters(const struct item *item, struct ig_cuda_extra *extra) {
    return (CUDA_KERNEL_NODE_PARAMS){.func = item->function,
                                     .gridDimX = item->grid,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = item->threads,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .sharedMemBytes = item->shared,
                                     .extra = ig_cuda_pass(extra, item->block, item->block_size)};
}

static CUDA_MEMCPY3D copy_parameters(const struct item *item) {
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = item->values[0],
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = item->values[1],
                           .WidthInBytes = item->size,
                           .Height = 1,
                           .Depth = 1};
}

static bool does_nothing(const struct item *item) {
    switch (item->kind) {
    case KERNEL: return item->grid == 0;
    case COPY: return item->size == 0;
    case LIBRARY: return ig_library_is_empty(item->call, item->sizes);
    }
    return true;
}

static void set_scratch(struct item *item, void *memory) {
    if (item->kind == KERNEL) item->values[item->n_values - 1] = item->scratch ? address(memory) : 0;
}

/* ---- Parameters -------------------------------------------------------------------------------------------------- */

static enum ingot_status encode_maps(struct ig_cuda *cuda, const struct item *item, struct ingot_error *error) {
    char *map = (char *)item->block + item->maps_at;
    for (uint32_t i = 0; i < item->n_maps && item->grid > 0; i++, map += sizeof(CUtensorMap))
        IG_TRY(ig_cuda_encode_tensor_map(cuda, &item->maps[i], item->values[item->maps[i].buffer],
                                         (const int64_t *)item->values + item->n_buffers, map, error));
    return INGOT_OK;
}

/* Sets the parameters of the copy kernel; false if it cannot do this copy. */
static bool prepare_copy(struct ig_cuda *cuda, const struct item *item) {
    return ig_cuda_copy_parameters(cuda, item->values[0], item->values[1], item->size, item->block);
}

/* Adds to the block of parameters what follows from the values: tensor maps, or what the copy kernel takes. */
static enum ingot_status complete(struct ig_cuda *cuda, struct item *item, struct ingot_error *error) {
    if (!item->changed || does_nothing(item)) return INGOT_OK;
    if (item->kind == COPY) item->function = prepare_copy(cuda, item) ? ig_cuda_copy_kernel(cuda) : NULL;
    if (item->kind == KERNEL) IG_TRY(encode_maps(cuda, item, error));
    item->changed = false;
    return INGOT_OK;
}

/* ---- The graph --------------------------------------------------------------------------------------------------- */

static bool has_programmatic_edges(const struct ig_cuda *cuda) {
    return cuda->info.sm >= 90;
}

/* More shared memory than this: a few such blocks fill a multiprocessor. */
#define LARGE_BLOCK (48u << 10)

/* Blocks that start early go where there is room: several to each multiprocessor that their predecessor leaves idle,
 * where they stay. Where there are fewer than multiprocessors, and large ones, the time of a run is that of the most
 * crowded multiprocessor; after the predecessor's end they are spread evenly. */
static bool would_crowd(const struct ig_cuda *cuda, const struct item *before, const struct item *item) {
    return item->grid < cuda->info.processors && item->shared > LARGE_BLOCK && before->shared > LARGE_BLOCK;
}

/* May the item be scheduled while `before`, its only predecessor or NULL, drains? */
static bool starts_early(const struct ig_cuda *cuda, const struct item *before, const struct item *item) {
    return has_programmatic_edges(cuda) && item->waits && before && before->function && !does_nothing(before) &&
           before->size < IG_CUDA_COPY_LARGE && !would_crowd(cuda, before, item);
}

/* A multiprocessor divides its memory between shared memory and L1 cache as the kernel on it prefers, and changes that only
 * when it is idle. Small kernels, which last some microseconds, all prefer the same division, so that they run side by side
 * and begin while others end; large ones lose more by less cache. */
static bool prefers_shared_memory(const struct ig_cuda *cuda, const struct item *item) {
    return item->grid <= 2 * cuda->info.processors;
}

static CUresult add_programmatic_edge(struct ig_cuda *cuda, CUgraph graph, CUgraphNode from, CUgraphNode to) {
    const CUgraphEdgeData edge = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                  .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    return IG_CUDA(cuda, cuGraphAddDependencies, graph, &from, &to, &edge, 1);
}

/* The dependencies of a node. */
struct place {
    const CUgraphNode *after;
    size_t n_after;
    const struct item *only; /* the only predecessor; NULL: none or several */
};

static struct place place_of(const struct ig_list *list, const struct item *item, const struct item *before) {
    struct place place = {.after = list->nodes};
    if (!list->ordered && before) list->nodes[place.n_after++] = before->node;
    if (!list->ordered) {
        place.only = before;
    } else if (item->after) {
        for (uint32_t i = 0; i < item->n_after; i++)
            list->nodes[place.n_after++] = list->items[item->after[i]].node;
        place.only = item->n_after == 1 ? &list->items[item->after[0]] : NULL;
    } else {
        for (const struct item *other = list->items; other < item; other++)
            list->nodes[place.n_after++] = other->node;
    }
    return place;
}

static CUresult add_kernel_node(struct ig_cuda *cuda, CUgraph graph, struct item *item, const struct place *place) {
    struct ig_cuda_extra extra;
    const CUDA_KERNEL_NODE_PARAMS kernel = kernel_parameters(item, &extra);
    bool early = starts_early(cuda, place->only, item);
    CUresult result =
        IG_CUDA(cuda, cuGraphAddKernelNode, &item->node, graph, place->after, early ? 0 : place->n_after, &kernel);
    if (result == CUDA_SUCCESS && prefers_shared_memory(cuda, item)) {
        const CUlaunchAttributeValue most = {.sharedMemCarveout = CU_SHAREDMEM_CARVEOUT_MAX_SHARED};
        (void)IG_CUDA(cuda, cuGraphKernelNodeSetAttribute, item->node, /* a hint: failing does no harm */
                      CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &most);
    }
    return result == CUDA_SUCCESS && early ? add_programmatic_edge(cuda, graph, place->only->node, item->node) : result;
}

static enum ingot_status add_library_node(struct ig_cuda *cuda, struct ig_list *list, struct item *item,
                                          const struct place *place, struct ingot_error *error) {
    CUgraph child;
    IG_TRY(ig_cuda_library_capture(cuda, item->call, item->sizes, item->operands, list->scratch_memory, &child, error));
    CUresult result =
        IG_CUDA(cuda, cuGraphAddChildGraphNode, &item->node, list->graph, place->after, place->n_after, child);
    IG_CUDA(cuda, cuGraphDestroy, child); /* the node has a clone */
    return ig_cuda_driver_check(&cuda->driver, result, error, "cannot add a call of a library to a graph");
}

static enum ingot_status add_node(struct ig_cuda *cuda, struct ig_list *list, struct item *item,
                                  const struct place *place, struct ingot_error *error) {
    IG_TRY(complete(cuda, item, error));
    if (item->kind == LIBRARY && !does_nothing(item)) return add_library_node(cuda, list, item, place, error);
    CUresult result;
    if (does_nothing(item)) {
        result = IG_CUDA(cuda, cuGraphAddEmptyNode, &item->node, list->graph, place->after, place->n_after);
    } else if (!item->function) {
        const CUDA_MEMCPY3D copy = copy_parameters(item);
        result = IG_CUDA(cuda, cuGraphAddMemcpyNode, &item->node, list->graph, place->after, place->n_after, &copy,
                         cuda->context);
    } else {
        result = add_kernel_node(cuda, list->graph, item, place);
    }
    return ig_cuda_driver_check(&cuda->driver, result, error, "cannot add launch %u of %u to a graph",
                                (unsigned)(item - list->items), list->count);
}

/* Adds a node per item. An item that does nothing is left out or, in an ordered list, is an empty node that carries
 * the order on. */
static enum ingot_status fill_graph(struct ig_cuda *cuda, struct ig_list *list, struct ingot_error *error) {
    const struct item *before = NULL;
    for (uint32_t i = 0; i < list->count; i++) {
        struct item *item = &list->items[i];
        item->node = NULL;
        item->dirty = item->disabled = false;
        if (does_nothing(item) && !list->ordered) continue;
        const struct place place = place_of(list, item, before);
        IG_TRY(add_node(cuda, list, item, &place, error));
        before = item;
    }
    list->first_dirty = NONE;
    return INGOT_OK;
}

static CUresult tell_skipped(struct ig_cuda *cuda, const struct ig_list *list, struct item *item) {
    if (!item->node || item->skipped == item->disabled) return CUDA_SUCCESS;
    CUresult result = IG_CUDA(cuda, cuGraphNodeSetEnabled, list->executable, item->node, !item->skipped);
    if (result == CUDA_SUCCESS) item->disabled = item->skipped;
    return result;
}

static enum ingot_status disable_skipped(struct ig_cuda *cuda, struct ig_list *list, struct ingot_error *error) {
    for (uint32_t i = 0; i < list->count; i++) {
        CUresult result = tell_skipped(cuda, list, &list->items[i]);
        IG_TRY(ig_cuda_driver_check(&cuda->driver, result, error, "cannot leave copy %u out of a graph", i));
    }
    return INGOT_OK;
}

static enum ingot_status make_graph(struct ig_cuda *cuda, struct ig_list *list, struct ig_stream *stream,
                                    struct ingot_error *error) {
    IG_CUDA_TRY(cuda, error, "cannot create a graph", cuGraphCreate, &list->graph, 0);
    IG_TRY(fill_graph(cuda, list, error));
    IG_CUDA_TRY(cuda, error, "cannot make a graph ready", cuGraphInstantiate, &list->executable, list->graph, 0);
    IG_TRY(disable_skipped(cuda, list, error));
    return IG_CUDA_STATUS(cuda, error, "cannot bring a graph to the GPU", cuGraphUpload, list->executable,
                          stream->handle);
}

/* Finds the workspace of library calls, which depends on the alignment of their operands. */
static enum ingot_status find_workspace(struct ig_cuda *cuda, struct ig_list *list, struct ingot_error *error) {
    list->workspace = 0;
    for (uint32_t i = 0; list->has_library && i < list->count; i++) {
        struct item *item = &list->items[i];
        if (item->kind != LIBRARY || does_nothing(item)) continue;
        IG_TRY(ig_cuda_library_workspace(cuda, item->call, item->sizes, item->operands, &item->scratch, error));
        if (item->scratch > list->workspace) list->workspace = item->scratch;
    }
    return INGOT_OK;
}

static enum ingot_status reserve(struct ig_cuda *cuda, const struct ig_list *list, struct ig_stream *stream,
                                 struct ingot_error *error) {
    if (list->scratch) IG_TRY(ig_cuda_reserve_scratch(cuda, stream, list->scratch, error));
    return ig_cuda_reserve_workspace(cuda, stream, list->workspace, error);
}

enum ingot_status ig_cuda_list_finish(struct ig_cuda *cuda, struct ig_list *list, struct ig_stream *stream,
                                      struct ingot_error *error) {
    if (list->count == 0) return INGOT_OK;
    IG_TRY(find_workspace(cuda, list, error));
    if (!stream->launcher) IG_TRY(reserve(cuda, list, stream, error));
    list->scratch_memory = stream->launcher ? stream->launcher->scratch : stream->scratch;
    for (uint32_t i = 0; i < list->count; i++)
        set_scratch(&list->items[i], list->scratch_memory);
    if (!list->nodes) list->nodes = ig_arena_alloc(&list->arena, list->count * sizeof *list->nodes);
    return list->nodes ? INGOT_OK : no_memory(error);
}

enum ingot_status ig_cuda_list_ready(struct ig_cuda *cuda, struct ig_list *list, struct ig_stream *stream,
                                     struct ingot_error *error) {
    if (list->count == 0 || list->executable) return INGOT_OK;
    IG_TRY(ig_cuda_list_finish(cuda, list, stream, error)); /* operands may have changed */
    enum ingot_status status = make_graph(cuda, list, stream, error);
    if (status != INGOT_OK) destroy_graph(cuda, list);
    list->ready |= status == INGOT_OK;
    return status;
}

/* ---- Updates and launches ---------------------------------------------------------------------------------------- */

static void mark(struct ig_list *list, uint32_t i) {
    struct item *item = &list->items[i];
    if (item->dirty || !item->node || does_nothing(item)) return;
    item->dirty = true;
    item->next_dirty = list->first_dirty;
    list->first_dirty = i;
}

void ig_cuda_list_patch(struct ig_list *list, uint32_t i, uint32_t buffer, void *memory) {
    struct item *item = &list->items[i];
    if (item->values[buffer] == address(memory)) return;
    item->values[buffer] = address(memory);
    if (item->kind == LIBRARY) item->operands[buffer] = memory;
    item->changed = true;
    mark(list, i);
}

void ig_cuda_list_skip(struct ig_list *list, uint32_t i, bool skipped) {
    list->items[i].skipped = skipped;
    mark(list, i);
}

/* New addresses may be less aligned and need another algorithm with more workspace: then the graph must be rebuilt. */
static bool tell_library_node(struct ig_cuda *cuda, struct ig_list *list, const struct item *item) {
    CUgraph child;
    size_t workspace;
    struct ingot_error ignored;
    if (ig_cuda_library_workspace(cuda, item->call, item->sizes, item->operands, &workspace, &ignored) != INGOT_OK ||
        workspace > list->workspace)
        return false;
    if (ig_cuda_library_capture(cuda, item->call, item->sizes, item->operands, list->scratch_memory, &child,
                                &ignored) != INGOT_OK)
        return false;
    CUresult result = IG_CUDA(cuda, cuGraphExecChildGraphNodeSetParams, list->executable, item->node, child);
    IG_CUDA(cuda, cuGraphDestroy, child);
    return result == CUDA_SUCCESS;
}

static bool tell_node(struct ig_cuda *cuda, struct ig_list *list, const struct item *item) {
    if (item->kind == LIBRARY) return tell_library_node(cuda, list, item);
    if (item->function) {
        struct ingot_error ignored;
        if (encode_maps(cuda, item, &ignored) != INGOT_OK || (item->kind == COPY && !prepare_copy(cuda, item)))
            return false;
        struct ig_cuda_extra extra;
        const CUDA_KERNEL_NODE_PARAMS kernel = kernel_parameters(item, &extra);
        return IG_CUDA(cuda, cuGraphExecKernelNodeSetParams, list->executable, item->node, &kernel) == CUDA_SUCCESS;
    }
    const CUDA_MEMCPY3D copy = copy_parameters(item);
    return IG_CUDA(cuda, cuGraphExecMemcpyNodeSetParams, list->executable, item->node, &copy, cuda->context) ==
           CUDA_SUCCESS;
}

/* Called when the scratch memory differs from the nodes': on another stream, or after it has grown. */
static void replace_scratch(struct ig_list *list, void *memory) {
    list->scratch_memory = memory;
    for (uint32_t i = 0; i < list->count; i++) {
        if (!list->items[i].scratch) continue;
        set_scratch(&list->items[i], memory);
        list->items[i].changed = true;
        mark(list, i);
    }
}

/* Updates the marked nodes. A skipped copy is updated only when it is included again, since each update costs a
 * call. False if the driver refuses a change (a copy from another kind of memory). */
static bool tell_nodes(struct ig_cuda *cuda, struct ig_list *list) {
    while (list->first_dirty != NONE) {
        struct item *item = &list->items[list->first_dirty];
        if (item->changed && !item->skipped && !tell_node(cuda, list, item)) return false;
        if (tell_skipped(cuda, list, item) != CUDA_SUCCESS) return false;
        item->changed = item->changed && item->skipped;
        item->dirty = false;
        list->first_dirty = item->next_dirty;
    }
    return true;
}

/* A kernel that waits for its predecessor itself may be started early, as by a programmatic edge. */
static CUresult launch_kernel(struct ig_cuda *cuda, const struct item *item, bool early, CUstream stream) {
    struct ig_cuda_extra extra;
    CUlaunchAttribute attributes[2];
    unsigned count = 0;
    if (early)
        attributes[count++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                                  .value = {.programmaticStreamSerializationAllowed = 1}};
    if (prefers_shared_memory(cuda, item))
        attributes[count++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                                  .value = {.sharedMemCarveout = CU_SHAREDMEM_CARVEOUT_MAX_SHARED}};
    const CUlaunchConfig config = {.gridDimX = item->grid,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = item->threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = item->shared,
                                   .hStream = stream,
                                   .attrs = attributes,
                                   .numAttrs = count};
    return IG_CUDA(cuda, cuLaunchKernelEx, &config, item->function, NULL,
                   ig_cuda_pass(&extra, item->block, item->block_size));
}

static enum ingot_status launch_item(struct ig_cuda *cuda, const struct ig_list *list, struct item *item, bool early,
                                     const struct ig_stream *stream, struct ingot_error *error) {
    if (item->kind == LIBRARY)
        return ig_cuda_library_enqueue(cuda, item->call, item->sizes, item->operands, list->scratch_memory,
                                       stream->handle, error);
    IG_TRY(complete(cuda, item, error));
    CUresult result = item->function
                          ? launch_kernel(cuda, item, early, stream->handle)
                          : IG_CUDA(cuda, cuMemcpyAsync, item->values[1], item->values[0], item->size, stream->handle);
    return ig_cuda_driver_check(&cuda->driver, result, error, "cannot launch item %u of %u",
                                (unsigned)(item - list->items), list->count);
}

/* Without a graph: in the order of recording, which respects all dependencies. */
static enum ingot_status launch_items(struct ig_cuda *cuda, struct ig_list *list, struct ig_stream *stream,
                                      struct ingot_error *error) {
    const struct item *before = NULL;
    for (uint32_t i = 0; i < list->count; i++) {
        struct item *item = &list->items[i];
        if (does_nothing(item) || item->skipped) continue;
        IG_TRY(launch_item(cuda, list, item, starts_early(cuda, before, item), stream, error));
        before = item;
    }
    return INGOT_OK;
}

enum ingot_status ig_cuda_list_launch(struct ig_cuda *cuda, struct ig_list *list, struct ig_stream *stream,
                                      struct ingot_error *error) {
    if (list->count == 0) return INGOT_OK;
    if (!list->ready) IG_TRY(find_workspace(cuda, list, error));
    if (list->scratch || list->workspace) {
        IG_TRY(reserve(cuda, list, stream, error));
        if (list->scratch_memory != stream->scratch) replace_scratch(list, stream->scratch);
    }
    if (!list->ready) return launch_items(cuda, list, stream, error);
    if (!list->executable || !tell_nodes(cuda, list)) {
        destroy_graph(cuda, list);
        IG_TRY(ig_cuda_list_ready(cuda, list, stream, error));
    }
    return IG_CUDA_STATUS(cuda, error, "cannot launch a graph", cuGraphLaunch, list->executable, stream->handle);
}
