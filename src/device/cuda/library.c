/* Calls of libraries; see library.h. */
#include "device/cuda/library.h"

#include <string.h>

#include "device/cuda/cublaslt.h"

/* Of products that are kept ready: as many as the matrix products of a large network at a few sets of shapes. */
#define MOST_KEPT 512
#define MOST_ALIGNMENT 16u

struct kept {
    struct ig_library_call call;
    int64_t sizes[IG_LIBRARY_SIZES];
    unsigned alignment;
    struct ig_cublaslt_product product;
};

struct ig_cuda_libraries {
    struct ig_cublaslt cublaslt;
    cublasLtHandle handle;
    CUstream capture; /* from which launches are captured */
    struct kept kept[MOST_KEPT];
    uint32_t count, next; /* how many there are; the one to be replaced next */
};

/* ---- Loading -------------------------------------------------------------------------------------------------------- */

static enum ingot_status open_library(struct ig_cuda *cuda, struct ig_cuda_libraries *l, struct ingot_error *error) {
    IG_TRY(ig_cublaslt_load(&l->cublaslt, cuda->cublaslt_file, error));
    IG_CUDA_TRY(cuda, error, "cannot create a stream", cuStreamCreate, &l->capture, CU_STREAM_NON_BLOCKING);
    return ig_cublaslt_check(&l->cublaslt, l->cublaslt.cublasLtCreate(&l->handle), "cannot open cuBLASLt", error);
}

enum ingot_status ig_cuda_library_need(struct ig_cuda *cuda, uint32_t library, struct ingot_error *error) {
    if (library != IG_LIBRARY_CUBLASLT)
        return IG_ERR(error, INGOT_UNSUPPORTED, "library number %u is not known on GPUs", library);
    if (cuda->libraries) return INGOT_OK;
    struct ig_cuda_libraries *l = ig_allocate(cuda->base.allocator, sizeof *l, _Alignof(struct ig_cuda_libraries));
    if (!l) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a library");
    cuda->libraries = l;
    enum ingot_status status = open_library(cuda, l, error);
    if (status != INGOT_OK) ig_cuda_library_deinit(cuda);
    return status;
}

void ig_cuda_library_deinit(struct ig_cuda *cuda) {
    struct ig_cuda_libraries *l = cuda->libraries;
    if (!l) return;
    for (uint32_t i = 0; i < l->count; i++)
        ig_cublaslt_product_destroy(&l->cublaslt, &l->kept[i].product);
    if (l->handle) l->cublaslt.cublasLtDestroy(l->handle);
    if (l->capture) IG_CUDA(cuda, cuStreamDestroy, l->capture);
    ig_release(cuda->base.allocator, l, sizeof *l);
    cuda->libraries = NULL;
}

/* ---- What is kept ---------------------------------------------------------------------------------------------------- */

/* Of which all addresses are multiples. Operands that are not there are 0. */
static unsigned alignment_of(const struct ig_library_call *c, const int64_t *sizes, void *const *operands) {
    const uint32_t used[] = {c->a, c->b, c->out, c->addend, c->bias};
    size_t element = ingot_dtype_size((enum ingot_dtype)c->in_type);
    uintptr_t all = MOST_ALIGNMENT;
    all |= (uintptr_t)sizes[IG_LIBRARY_A_OFFSET] * element | (uintptr_t)sizes[IG_LIBRARY_B_OFFSET] * element;
    for (int i = 0; i < 5; i++) {
        if (used[i] != IG_LIBRARY_NO_OPERAND) all |= (uintptr_t)operands[used[i]];
    }
    return (unsigned)(all & -all);
}

static bool is_same(const struct kept *k, const struct ig_library_call *call, const int64_t *sizes,
                    unsigned alignment) {
    return k->alignment == alignment && memcmp(&k->call, call, sizeof *call) == 0 &&
           memcmp(k->sizes, sizes, sizeof k->sizes) == 0;
}

/* The product that does it, made where there is none. Valid until the next call. */
static enum ingot_status find(struct ig_cuda *cuda, const struct ig_library_call *call, const int64_t *sizes,
                              void *const *operands, const struct ig_cublaslt_product **out_product,
                              struct ingot_error *error) {
    IG_TRY(ig_cuda_library_need(cuda, call->library, error));
    struct ig_cuda_libraries *l = cuda->libraries;
    struct kept new = {.call = *call, .alignment = alignment_of(call, sizes, operands)};
    for (uint32_t i = 0; i < l->count; i++) {
        if (!is_same(&l->kept[i], call, sizes, new.alignment)) continue;
        *out_product = &l->kept[i].product;
        return INGOT_OK;
    }
    memcpy(new.sizes, sizes, sizeof new.sizes);
    IG_TRY(
        ig_cublaslt_product_create(&l->cublaslt, l->handle, call, sizes, operands, new.alignment, &new.product, error));
    uint32_t at = l->count < MOST_KEPT ? l->count++ : l->next++ % MOST_KEPT;
    ig_cublaslt_product_destroy(&l->cublaslt, &l->kept[at].product);
    l->kept[at] = new;
    *out_product = &l->kept[at].product;
    return INGOT_OK;
}

enum ingot_status ig_cuda_library_workspace(struct ig_cuda *cuda, const struct ig_library_call *call,
                                            const int64_t *sizes, void *const *operands, size_t *out_bytes,
                                            struct ingot_error *error) {
    const struct ig_cublaslt_product *product;
    IG_TRY(find(cuda, call, sizes, operands, &product, error));
    *out_bytes = product->workspace;
    return INGOT_OK;
}

/* ---- Work ------------------------------------------------------------------------------------------------------------ */

enum ingot_status ig_cuda_library_enqueue(struct ig_cuda *cuda, const struct ig_library_call *call,
                                          const int64_t *sizes, void *const *operands, void *workspace, CUstream stream,
                                          struct ingot_error *error) {
    const struct ig_cublaslt_product *product;
    IG_TRY(find(cuda, call, sizes, operands, &product, error));
    return ig_cublaslt_product_enqueue(&cuda->libraries->cublaslt, cuda->libraries->handle, product, call, sizes,
                                       operands, workspace, stream, error);
}

/* Relaxed: the library may have to load code first, which is no work of the stream. */
enum ingot_status ig_cuda_library_capture(struct ig_cuda *cuda, const struct ig_library_call *call,
                                          const int64_t *sizes, void *const *operands, void *workspace,
                                          CUgraph *out_graph, struct ingot_error *error) {
    const struct ig_cublaslt_product *product;
    CUgraph graph = NULL;
    IG_TRY(find(cuda, call, sizes, operands, &product, error));
    CUstream stream = cuda->libraries->capture;
    IG_CUDA_TRY(cuda, error, "cannot capture a stream", cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    enum ingot_status status = ig_cublaslt_product_enqueue(&cuda->libraries->cublaslt, cuda->libraries->handle, product,
                                                           call, sizes, operands, workspace, stream, error);
    CUresult result = IG_CUDA(cuda, cuStreamEndCapture, stream, &graph); /* in any case */
    if (status == INGOT_OK)
        status = ig_cuda_driver_check(&cuda->driver, result, error, "cannot capture what cuBLASLt does");
    if (status == INGOT_OK)
        *out_graph = graph;
    else if (graph)
        IG_CUDA(cuda, cuGraphDestroy, graph);
    return status;
}
