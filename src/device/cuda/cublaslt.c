/* The cuBLASLt binding: matrix products. See binding.h. */
#include "device/cuda/cublaslt.h"

#include "device/cuda/binding.h"

/* NVIDIA's recommendation for Hopper; enough for smaller GPUs too. */
#define MOST_WORKSPACE ((uint64_t)32 << 20)

struct ig_cublaslt {
    const struct ingot_allocator *allocator;
    cublasLtHandle handle;
    const char *(*cublasLtGetStatusString)(cublasStatus status);
#define FIELD(name, parameters) cublasStatus(*name) parameters;
    IG_CUBLASLT_FUNCTIONS(FIELD)
#undef FIELD
};

/* A prepared product. */
struct product {
    cublasLtMatmulDesc product;
    cublasLtMatrixLayout first, second, result;
    cublasLtMatmulAlgo algorithm;
    size_t workspace; /* bytes */
};

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static enum ingot_status check(const struct ig_cublaslt *lt, cublasStatus result, const char *what,
                               struct ingot_error *error) {
    enum ingot_status status = INGOT_DEVICE;
    switch (result) {
    case CUBLAS_STATUS_SUCCESS: return INGOT_OK;
    case CUBLAS_STATUS_ALLOC_FAILED: status = INGOT_OUT_OF_MEMORY; break;
    case CUBLAS_STATUS_INVALID_VALUE:
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED: status = INGOT_UNSUPPORTED; break;
    default: break;
    }
    const char *text = lt->cublasLtGetStatusString(result);
    return IG_ERR(error, status, "%s: %s (error %d of cuBLASLt)", what, text ? text : "no text", result);
}

static enum ingot_status load(struct ig_cublaslt *lt, const char *file, struct ingot_error *error) {
    void *library;
    IG_TRY(ig_cuda_binding_load(IG_LIBRARY_CUBLASLT, file, &library, error));
#define FIND(function, parameters)                                \
    if (!ig_cuda_binding_find(library, #function, &lt->function)) \
        return IG_ERR(error, INGOT_DEVICE, "the cuBLASLt that was found has no %s", #function);
    IG_CUBLASLT_FUNCTIONS(FIND)
#undef FIND
    if (!ig_cuda_binding_find(library, "cublasLtGetStatusString", &lt->cublasLtGetStatusString))
        return IG_ERR(error, INGOT_DEVICE, "the cuBLASLt that was found does not tell its errors");
    return check(lt, lt->cublasLtCreate(&lt->handle), "cannot open cuBLASLt", error);
}

static void close_library(void *library) {
    struct ig_cublaslt *lt = library;
    if (lt->handle) lt->cublasLtDestroy(lt->handle);
    ig_release(lt->allocator, lt, sizeof *lt);
}

static enum ingot_status open_library(const struct ingot_allocator *allocator, const char *file, void **out_library,
                                      struct ingot_error *error) {
    struct ig_cublaslt *lt = ig_allocate(allocator, sizeof *lt, _Alignof(struct ig_cublaslt));
    if (!lt) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a library");
    lt->allocator = allocator;
    enum ingot_status status = load(lt, file, error);
    if (status != INGOT_OK)
        close_library(lt);
    else
        *out_library = lt;
    return status;
}

/* ---- Descriptions ------------------------------------------------------------------------------------------------ */

static int type_of(uint32_t dtype) {
    switch (dtype) {
    case INGOT_F16: return CUDA_R_16F;
    case INGOT_BF16: return CUDA_R_16BF;
    case INGOT_I8: return CUDA_R_8I;
    case INGOT_I32: return CUDA_R_32I;
    case INGOT_F8E4M3FN: return CUDA_R_8F_E4M3;
    case INGOT_F8E5M2: return CUDA_R_8F_E5M2;
    default: return CUDA_R_32F;
    }
}

/* Row-major matrices with `lines` rows of `length` elements; cuBLASLt, being column-major, sees them transposed. */
static cublasStatus describe_matrices(const struct ig_cublaslt *lt, uint32_t dtype, int64_t lines, int64_t length,
                                      int64_t ld, int64_t batch, int64_t step, cublasLtMatrixLayout *out_layout) {
    int32_t count = (int32_t)batch;
    cublasStatus status =
        lt->cublasLtMatrixLayoutCreate(out_layout, type_of(dtype), (uint64_t)length, (uint64_t)lines, ld);
    if (status || batch == 1) return status;
    status =
        lt->cublasLtMatrixLayoutSetAttribute(*out_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (status) return status;
    return lt->cublasLtMatrixLayoutSetAttribute(*out_layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                                sizeof step);
}

static uint32_t epilogue_of(const struct ig_library_call *c) {
    static const uint32_t activations[] = {0, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_GELU};
    uint32_t epilogue = activations[c->activation];
    if (c->bias != IG_LIBRARY_NO_OPERAND) epilogue |= CUBLASLT_EPILOGUE_BIAS;
    return epilogue ? epilogue : CUBLASLT_EPILOGUE_DEFAULT;
}

/* The addresses that belong to the description. The factor is given as the scale of a matrix. */
static cublasStatus set_addresses(const struct ig_cublaslt *lt, cublasLtMatmulDesc product,
                                  const struct ig_library_call *c, void *const *operands) {
    const struct {
        int attribute;
        uint32_t operand;
    } addresses[] = {{CUBLASLT_MATMUL_DESC_BIAS_POINTER, c->bias}, {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, c->factor}};
    cublasStatus status = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < 2 && !status; i++) {
        if (addresses[i].operand == IG_LIBRARY_NO_OPERAND) continue;
        void *const *address = &operands[addresses[i].operand];
        status = lt->cublasLtMatmulDescSetAttribute(product, addresses[i].attribute, address, sizeof *address);
    }
    return status;
}

static int compute_type(const struct ig_library_call *c) {
    if (ig_library_is_integer(c)) return CUBLAS_COMPUTE_32I;
    return c->rounded && !ig_library_is_float8(c) ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/* Without it, the library adds sums of floats of 8 bits up in f32 now and then, it does not say how often. */
static cublasStatus set_fast_sums(const struct ig_cublaslt *lt, cublasLtMatmulDesc product,
                                  const struct ig_library_call *c) {
    const int8_t fast = 1;
    if (!ig_library_is_float8(c) || !c->rounded) return CUBLAS_STATUS_SUCCESS;
    return lt->cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
}

static cublasStatus describe_product(const struct ig_cublaslt *lt, const struct ig_library_call *c,
                                     void *const *operands, struct product *p) {
    int scale = ig_library_is_integer(c) ? CUDA_R_32I : CUDA_R_32F;
    int32_t transpose_first = c->b_along ? CUBLAS_OP_T : 0, transpose_second = c->a_across ? CUBLAS_OP_T : 0;
    uint32_t epilogue = epilogue_of(c);
    cublasStatus status = lt->cublasLtMatmulDescCreate(&p->product, compute_type(c), scale);
    const struct {
        int attribute;
        const void *value;
    } attributes[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &transpose_first},
                      {CUBLASLT_MATMUL_DESC_TRANSB, &transpose_second},
                      {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue}};
    for (int i = 0; i < 3 && !status; i++)
        status = lt->cublasLtMatmulDescSetAttribute(p->product, attributes[i].attribute, attributes[i].value, 4);
    if (!status) status = set_fast_sums(lt, p->product, c);
    return status ? status : set_addresses(lt, p->product, c, operands);
}

static cublasStatus describe(const struct ig_cublaslt *lt, const struct ig_library_call *c, const int64_t *z,
                             void *const *operands, struct product *p) {
    int64_t batch = z[IG_LIBRARY_BATCH], rows = z[IG_LIBRARY_ROWS], columns = z[IG_LIBRARY_COLUMNS],
            depth = z[IG_LIBRARY_DEPTH];
    cublasStatus status = describe_product(lt, c, operands, p);
    if (!status)
        status = describe_matrices(lt, c->b_type, c->b_along ? columns : depth, c->b_along ? depth : columns,
                                   z[IG_LIBRARY_B_LD], batch, z[IG_LIBRARY_B_STEP], &p->first);
    if (!status)
        status = describe_matrices(lt, c->a_type, c->a_across ? depth : rows, c->a_across ? rows : depth,
                                   z[IG_LIBRARY_A_LD], batch, z[IG_LIBRARY_A_STEP], &p->second);
    return status ? status
                  : describe_matrices(lt, c->out_type, rows, columns, columns, batch, rows * columns, &p->result);
}

/* ---- The choice -------------------------------------------------------------------------------------------------- */

/* Split-K adds partial sums in the compute type: in the results' type they would be rounded in between. */
static cublasStatus prefer(const struct ig_cublaslt *lt, unsigned alignment, cublasLtMatmulPreference preference) {
    uint64_t workspace = MOST_WORKSPACE;
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, bytes = alignment;
    cublasStatus status = lt->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                   &workspace, sizeof workspace);
    if (!status)
        status = lt->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                          &scheme, sizeof scheme);
    for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES; i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES && !status;
         i++)
        status = lt->cublasLtMatmulPreferenceSetAttribute(preference, i, &bytes, sizeof bytes);
    return status;
}

static enum ingot_status nothing_fits(const struct ig_library_call *c, const int64_t *z, struct ingot_error *error) {
    return IG_ERR(error, INGOT_UNSUPPORTED, "cuBLASLt has no way to multiply %lld x %lld x %lld x %lld (%s)",
                  (long long)z[IG_LIBRARY_BATCH], (long long)z[IG_LIBRARY_ROWS], (long long)z[IG_LIBRARY_COLUMNS],
                  (long long)z[IG_LIBRARY_DEPTH], ingot_dtype_name((enum ingot_dtype)c->a_type));
}

static enum ingot_status choose(const struct ig_cublaslt *lt, const struct ig_library_call *c, const int64_t *sizes,
                                cublasLtMatmulPreference preference, struct product *p, struct ingot_error *error) {
    cublasLtMatmulHeuristicResult results[IG_LIBRARY_MOST_CHOICES] = {0};
    int found = 0, wanted = (int)c->choice + 1;
    cublasStatus status = lt->cublasLtMatmulAlgoGetHeuristic(lt->handle, p->product, p->first, p->second, p->result,
                                                             p->result, preference, wanted, results, &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return nothing_fits(c, sizes, error);
    IG_TRY(check(lt, status, "cannot ask cuBLASLt how to multiply", error));
    found = found < wanted ? found : wanted;
    while (found > 0 && (results[found - 1].state || results[found - 1].workspaceSize > MOST_WORKSPACE))
        found--;
    if (found <= 0) return nothing_fits(c, sizes, error);
    p->algorithm = results[found - 1].algo;
    p->workspace = results[found - 1].workspaceSize;
    return INGOT_OK;
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

static void discard(void *library, void *way) {
    const struct ig_cublaslt *lt = library;
    struct product *p = way;
    if (p->product) lt->cublasLtMatmulDescDestroy(p->product);
    if (p->first) lt->cublasLtMatrixLayoutDestroy(p->first);
    if (p->second) lt->cublasLtMatrixLayoutDestroy(p->second);
    if (p->result) lt->cublasLtMatrixLayoutDestroy(p->result);
    ig_release(lt->allocator, p, sizeof *p);
}

static enum ingot_status decide(const struct ig_cublaslt *lt, const struct ig_cuda_call *call, struct product *p,
                                struct ingot_error *error) {
    cublasLtMatmulPreference preference = NULL;
    cublasStatus result = describe(lt, call->what, call->sizes, call->operands, p);
    if (!result) result = lt->cublasLtMatmulPreferenceCreate(&preference);
    if (!result) result = prefer(lt, call->alignment, preference);
    enum ingot_status status = check(lt, result, "cannot describe a product to cuBLASLt", error);
    if (status == INGOT_OK) status = choose(lt, call->what, call->sizes, preference, p, error);
    if (preference) lt->cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

static enum ingot_status prepare(void *library, const struct ig_cuda_call *call, void **out_way, size_t *out_workspace,
                                 struct ingot_error *error) {
    const struct ig_cublaslt *lt = library;
    struct product *p = ig_allocate(lt->allocator, sizeof *p, _Alignof(struct product));
    if (!p) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a product");
    enum ingot_status status = decide(lt, call, p, error);
    if (status != INGOT_OK) {
        discard(library, p);
        return status;
    }
    *out_way = p;
    *out_workspace = p->workspace;
    return INGOT_OK;
}

static const void *matrix(const struct ig_cuda_call *call, uint32_t operand, uint32_t type, int64_t offset) {
    return (const char *)call->operands[operand] + (size_t)offset * ingot_dtype_size((enum ingot_dtype)type);
}

static enum ingot_status enqueue(void *library, const void *way, const struct ig_cuda_call *call, void *workspace,
                                 CUstream stream, struct ingot_error *error) {
    const struct ig_cublaslt *lt = library;
    const struct product *p = way;
    const struct ig_library_call *c = call->what;
    bool adds = c->addend != IG_LIBRARY_NO_OPERAND;
    const float alpha = c->scale, beta = adds ? 1 : 0;
    const int32_t whole_alpha = 1, whole_beta = 0;
    bool integer = ig_library_is_integer(c);
    const void *by = integer ? (const void *)&whole_alpha : &alpha, *plus = integer ? (const void *)&whole_beta : &beta;
    const void *first = matrix(call, c->b, c->b_type, call->sizes[IG_LIBRARY_B_OFFSET]);
    const void *second = matrix(call, c->a, c->a_type, call->sizes[IG_LIBRARY_A_OFFSET]);
    void *out = call->operands[c->out];
    IG_TRY(check(lt, set_addresses(lt, p->product, c, call->operands), "cannot give addresses to cuBLASLt", error));
    cublasStatus status = lt->cublasLtMatmul(lt->handle, p->product, by, first, p->first, second, p->second, plus,
                                             adds ? call->operands[c->addend] : out, p->result, out, p->result,
                                             &p->algorithm, workspace, p->workspace, stream);
    return check(lt, status, "cannot multiply by cuBLASLt", error);
}

const struct ig_cuda_binding ig_cublaslt_binding = {open_library, close_library, prepare, discard, enqueue};
