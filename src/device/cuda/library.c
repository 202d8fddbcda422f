/* Vendor library calls and the cache of their prepared ways; see library.h. */
#include "device/cuda/library.h"

#include <string.h>

#include "device/cuda/binding.h"

/* Capacity of the cache of ways: the calls of a large network at a few sets of shapes. */
#define MOST_KEPT 512
#define MOST_ALIGNMENT 16u

static const struct ig_cuda_binding *const bindings[IG_LIBRARY_COUNT] = {
    [IG_LIBRARY_CUBLASLT] = &ig_cublaslt_binding,
    [IG_LIBRARY_CUDNN] = &ig_cudnn_binding,
};

struct kept {
    struct ig_library_call call;
    int64_t sizes[IG_LIBRARY_MOST_SIZES]; /* unused ones are 0 */
    unsigned alignment;
    void *way;
    size_t workspace; /* bytes */
};

struct ig_cuda_libraries {
    void *open[IG_LIBRARY_COUNT]; /* the bindings' states; NULL: not opened yet */
    CUstream capture;             /* calls are captured from it */
    struct kept kept[MOST_KEPT];
    uint32_t count, next; /* entries in use; the next one to evict */
};

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* The device's table, created on first use; NULL, with `out_status`, on failure. */
static struct ig_cuda_libraries *table(struct ig_cuda *cuda, enum ingot_status *out_status, struct ingot_error *error) {
    if (cuda->libraries) return cuda->libraries;
    struct ig_cuda_libraries *l = ig_allocate(cuda->base.allocator, sizeof *l, _Alignof(struct ig_cuda_libraries));
    if (!l) {
        *out_status = IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a library");
        return NULL;
    }
    *out_status =
        IG_CUDA_STATUS(cuda, error, "cannot create a stream", cuStreamCreate, &l->capture, CU_STREAM_NON_BLOCKING);
    if (*out_status == INGOT_OK) return cuda->libraries = l;
    ig_release(cuda->base.allocator, l, sizeof *l);
    return NULL;
}

enum ingot_status ig_cuda_library_need(struct ig_cuda *cuda, uint32_t library, struct ingot_error *error) {
    enum ingot_status status = INGOT_OK;
    if (library >= IG_LIBRARY_COUNT)
        return IG_ERR(error, INGOT_UNSUPPORTED, "library number %u is not known on GPUs", library);
    struct ig_cuda_libraries *l = table(cuda, &status, error);
    if (!l || l->open[library]) return status;
    return bindings[library]->open(cuda->base.allocator, cuda->library_files[library], &l->open[library], error);
}

static void discard(struct ig_cuda_libraries *l, struct kept *k) {
    if (k->way) bindings[k->call.library]->discard(l->open[k->call.library], k->way);
    k->way = NULL;
}

void ig_cuda_library_deinit(struct ig_cuda *cuda) {
    struct ig_cuda_libraries *l = cuda->libraries;
    if (!l) return;
    for (uint32_t i = 0; i < l->count; i++)
        discard(l, &l->kept[i]);
    for (uint32_t i = 0; i < IG_LIBRARY_COUNT; i++) {
        if (l->open[i]) bindings[i]->close(l->open[i]);
    }
    IG_CUDA(cuda, cuStreamDestroy, l->capture);
    ig_release(cuda->base.allocator, l, sizeof *l);
    cuda->libraries = NULL;
}

/* ---- The cache of ways ------------------------------------------------------------------------------------------- */

/* The largest power of two, up to 16, that divides all addresses. Absent operands do not count. */
static unsigned alignment_of(const struct ig_library_call *c, const int64_t *sizes, void *const *operands) {
    const uint32_t used[] = {c->a, c->b, c->out, c->addend, c->bias};
    size_t element = ingot_dtype_size((enum ingot_dtype)c->a_type);
    uintptr_t all = MOST_ALIGNMENT;
    if (c->operation == IG_LIBRARY_PRODUCT)
        all |= (uintptr_t)sizes[IG_LIBRARY_A_OFFSET] * element | (uintptr_t)sizes[IG_LIBRARY_B_OFFSET] * element;
    for (int i = 0; i < 5; i++) {
        if (used[i] != IG_LIBRARY_NO_OPERAND) all |= (uintptr_t)operands[used[i]];
    }
    return (unsigned)(all & -all);
}

static bool is_same(const struct kept *a, const struct kept *b) {
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): a scale of other bits is another scale */
    return a->alignment == b->alignment && memcmp(&a->call, &b->call, sizeof a->call) == 0 &&
           memcmp(a->sizes, b->sizes, sizeof a->sizes) == 0;
}

/* Finds the way in the cache, or prepares it. The result is valid until the next call. */
static enum ingot_status find(struct ig_cuda *cuda, const struct ig_library_call *call, const int64_t *sizes,
                              void *const *operands, const struct kept **out_kept, struct ingot_error *error) {
    IG_TRY(ig_cuda_library_need(cuda, call->library, error));
    struct ig_cuda_libraries *l = cuda->libraries;
    struct kept new = {.call = *call, .alignment = alignment_of(call, sizes, operands)};
    memcpy(new.sizes, sizes, ig_library_size_count(call) * sizeof *sizes);
    for (uint32_t i = 0; i < l->count; i++) {
        *out_kept = &l->kept[i];
        if (is_same(*out_kept, &new)) return INGOT_OK;
    }
    const struct ig_cuda_call asked = {call, sizes, operands, new.alignment};
    IG_TRY(bindings[call->library]->prepare(l->open[call->library], &asked, &new.way, &new.workspace, error));
    uint32_t at = l->count < MOST_KEPT ? l->count++ : l->next++ % MOST_KEPT;
    discard(l, &l->kept[at]);
    l->kept[at] = new;
    *out_kept = &l->kept[at];
    return INGOT_OK;
}

enum ingot_status ig_cuda_library_workspace(struct ig_cuda *cuda, const struct ig_library_call *call,
                                            const int64_t *sizes, void *const *operands, size_t *out_bytes,
                                            struct ingot_error *error) {
    const struct kept *kept;
    IG_TRY(find(cuda, call, sizes, operands, &kept, error));
    *out_bytes = kept->workspace;
    return INGOT_OK;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

enum ingot_status ig_cuda_library_enqueue(struct ig_cuda *cuda, const struct ig_library_call *call,
                                          const int64_t *sizes, void *const *operands, void *workspace, CUstream stream,
                                          struct ingot_error *error) {
    const struct kept *kept;
    IG_TRY(find(cuda, call, sizes, operands, &kept, error));
    const struct ig_cuda_call asked = {call, sizes, operands, kept->alignment};
    return bindings[call->library]->enqueue(cuda->libraries->open[call->library], kept->way, &asked, workspace, stream,
                                            error);
}

/* Relaxed mode, since the library may first have to load code, which is not work of the stream. */
enum ingot_status ig_cuda_library_capture(struct ig_cuda *cuda, const struct ig_library_call *call,
                                          const int64_t *sizes, void *const *operands, void *workspace,
                                          CUgraph *out_graph, struct ingot_error *error) {
    const struct kept *kept;
    CUgraph graph = NULL;
    IG_TRY(find(cuda, call, sizes, operands, &kept, error)); /* prepares it outside the capture */
    CUstream stream = cuda->libraries->capture;
    IG_CUDA_TRY(cuda, error, "cannot capture a stream", cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    enum ingot_status status = ig_cuda_library_enqueue(cuda, call, sizes, operands, workspace, stream, error);
    CUresult result = IG_CUDA(cuda, cuStreamEndCapture, stream, &graph); /* even after a failure */
    if (status == INGOT_OK)
        status = ig_cuda_driver_check(&cuda->driver, result, error, "cannot capture what %s does",
                                      ig_library_name(call->library));
    if (status == INGOT_OK)
        *out_graph = graph;
    else if (graph)
        IG_CUDA(cuda, cuGraphDestroy, graph);
    return status;
}
