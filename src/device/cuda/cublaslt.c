/* Loading cuBLASLt, and matrix products by it; see cublaslt.h. */
#include "device/cuda/cublaslt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* What NVIDIA advises for Hopper; smaller GPUs do with it too. */
#define MOST_WORKSPACE ((uint64_t)32 << 20)

/* ---- Loading -------------------------------------------------------------------------------------------------------- */

/* POSIX promises that what dlsym returns can be called, ISO C has no cast for it. */
static bool find(void *library, const char *symbol, void *out_function) {
    void *address = dlsym(library, symbol);
    memcpy(out_function, &address, sizeof address);
    return address != NULL;
}

/* The library has threads and handlers at exit: never unloaded. */
static void *open_file(const char *file) {
    return dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* The first of a list with commas. */
static void *open_first(const char *files) {
    char name[64];
    while (*files) {
        size_t length = strcspn(files, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, files);
        void *library = open_file(name);
        if (library) return library;
        files += length + strspn(files + length, ", ");
    }
    return NULL;
}

enum ingot_status ig_cublaslt_load(struct ig_cublaslt *lt, const char *file, struct ingot_error *error) {
    const char *files = file ? file : ig_library_files(IG_LIBRARY_CUBLASLT);
    if (lt->library) return INGOT_OK;
    *lt = (struct ig_cublaslt){0};
    void *library = file ? open_file(file) : open_first(files);
    if (!library) {
        const char *reason = dlerror();
        return IG_ERR(error, INGOT_DEVICE, "cannot load any of %s (%s)", files, reason ? reason : "unknown");
    }
#define FIND(function, parameters)                \
    if (!find(library, #function, &lt->function)) \
        return IG_ERR(error, INGOT_DEVICE, "the cuBLASLt that was found has no %s", #function);
    IG_CUBLASLT_FUNCTIONS(FIND)
#undef FIND
    if (!find(library, "cublasLtGetVersion", &lt->cublasLtGetVersion) ||
        !find(library, "cublasLtGetStatusString", &lt->cublasLtGetStatusString))
        return IG_ERR(error, INGOT_DEVICE, "the cuBLASLt that was found tells neither its version nor its errors");
    lt->version = lt->cublasLtGetVersion();
    lt->library = library;
    return INGOT_OK;
}

enum ingot_status ig_cublaslt_check(const struct ig_cublaslt *lt, cublasStatus result, const char *what,
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

/* ---- Descriptions ---------------------------------------------------------------------------------------------------- */

static int type_of(uint32_t dtype) {
    return dtype == INGOT_F16 ? CUDA_R_16F : dtype == INGOT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* Matrices of `lines` lines of `length` elements. */
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

static cublasStatus set_bias(const struct ig_cublaslt *lt, cublasLtMatmulDesc product, const struct ig_library_call *c,
                             void *const *operands) {
    if (c->bias == IG_LIBRARY_NO_OPERAND) return CUBLAS_STATUS_SUCCESS;
    return lt->cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &operands[c->bias],
                                              sizeof operands[c->bias]);
}

static cublasStatus describe_product(const struct ig_cublaslt *lt, const struct ig_library_call *c,
                                     void *const *operands, struct ig_cublaslt_product *p) {
    int compute = c->rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    int32_t transpose_first = c->b_along ? CUBLAS_OP_T : 0, transpose_second = c->a_across ? CUBLAS_OP_T : 0;
    uint32_t epilogue = epilogue_of(c);
    cublasStatus status = lt->cublasLtMatmulDescCreate(&p->product, compute, CUDA_R_32F);
    const struct {
        int attribute;
        const void *value;
    } attributes[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &transpose_first},
                      {CUBLASLT_MATMUL_DESC_TRANSB, &transpose_second},
                      {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue}};
    for (int i = 0; i < 3 && !status; i++)
        status = lt->cublasLtMatmulDescSetAttribute(p->product, attributes[i].attribute, attributes[i].value, 4);
    return status ? status : set_bias(lt, p->product, c, operands);
}

static cublasStatus describe(const struct ig_cublaslt *lt, const struct ig_library_call *c, const int64_t *z,
                             void *const *operands, struct ig_cublaslt_product *p) {
    int64_t batch = z[IG_LIBRARY_BATCH], rows = z[IG_LIBRARY_ROWS], columns = z[IG_LIBRARY_COLUMNS],
            depth = z[IG_LIBRARY_DEPTH];
    cublasStatus status = describe_product(lt, c, operands, p);
    if (!status)
        status = describe_matrices(lt, c->in_type, c->b_along ? columns : depth, c->b_along ? depth : columns,
                                   z[IG_LIBRARY_B_LD], batch, z[IG_LIBRARY_B_STEP], &p->first);
    if (!status)
        status = describe_matrices(lt, c->in_type, c->a_across ? depth : rows, c->a_across ? rows : depth,
                                   z[IG_LIBRARY_A_LD], batch, z[IG_LIBRARY_A_STEP], &p->second);
    return status ? status
                  : describe_matrices(lt, c->out_type, rows, columns, columns, batch, rows * columns, &p->result);
}

/* ---- The choice ------------------------------------------------------------------------------------------------------ */

/* Shares of a sum are added in the type that is computed in: in the results' they would be rounded on the way. */
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
                  (long long)z[IG_LIBRARY_DEPTH], ingot_dtype_name((enum ingot_dtype)c->in_type));
}

static enum ingot_status choose(const struct ig_cublaslt *lt, cublasLtHandle handle, const struct ig_library_call *c,
                                const int64_t *sizes, cublasLtMatmulPreference preference,
                                struct ig_cublaslt_product *p, struct ingot_error *error) {
    cublasLtMatmulHeuristicResult results[IG_LIBRARY_MOST_CHOICES] = {0};
    int found = 0, wanted = (int)c->choice + 1;
    cublasStatus status = lt->cublasLtMatmulAlgoGetHeuristic(handle, p->product, p->first, p->second, p->result,
                                                             p->result, preference, wanted, results, &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return nothing_fits(c, sizes, error);
    IG_TRY(ig_cublaslt_check(lt, status, "cannot ask cuBLASLt how to multiply", error));
    found = found < wanted ? found : wanted;
    while (found > 0 && (results[found - 1].state || results[found - 1].workspaceSize > MOST_WORKSPACE))
        found--;
    if (found <= 0) return nothing_fits(c, sizes, error);
    p->algorithm = results[found - 1].algo;
    p->workspace = results[found - 1].workspaceSize;
    return INGOT_OK;
}

/* ---- Products -------------------------------------------------------------------------------------------------------- */

void ig_cublaslt_product_destroy(const struct ig_cublaslt *lt, struct ig_cublaslt_product *p) {
    if (p->product) lt->cublasLtMatmulDescDestroy(p->product);
    if (p->first) lt->cublasLtMatrixLayoutDestroy(p->first);
    if (p->second) lt->cublasLtMatrixLayoutDestroy(p->second);
    if (p->result) lt->cublasLtMatrixLayoutDestroy(p->result);
    *p = (struct ig_cublaslt_product){0};
}

enum ingot_status ig_cublaslt_product_create(const struct ig_cublaslt *lt, cublasLtHandle handle,
                                             const struct ig_library_call *call, const int64_t *sizes,
                                             void *const *operands, unsigned alignment,
                                             struct ig_cublaslt_product *out_product, struct ingot_error *error) {
    struct ig_cublaslt_product p = {0};
    cublasLtMatmulPreference preference = NULL;
    cublasStatus result = describe(lt, call, sizes, operands, &p);
    if (!result) result = lt->cublasLtMatmulPreferenceCreate(&preference);
    if (!result) result = prefer(lt, alignment, preference);
    enum ingot_status status = ig_cublaslt_check(lt, result, "cannot describe a product to cuBLASLt", error);
    if (status == INGOT_OK) status = choose(lt, handle, call, sizes, preference, &p, error);
    if (preference) lt->cublasLtMatmulPreferenceDestroy(preference);
    if (status != INGOT_OK)
        ig_cublaslt_product_destroy(lt, &p);
    else
        *out_product = p;
    return status;
}

static const void *matrix(void *const *operands, uint32_t operand, int64_t offset, uint32_t dtype) {
    return (const char *)operands[operand] + (size_t)offset * ingot_dtype_size((enum ingot_dtype)dtype);
}

enum ingot_status ig_cublaslt_product_enqueue(const struct ig_cublaslt *lt, cublasLtHandle handle,
                                              const struct ig_cublaslt_product *p, const struct ig_library_call *c,
                                              const int64_t *sizes, void *const *operands, void *workspace,
                                              CUstream stream, struct ingot_error *error) {
    bool adds = c->addend != IG_LIBRARY_NO_OPERAND;
    const float alpha = 1, beta = adds ? 1 : 0;
    const void *first = matrix(operands, c->b, sizes[IG_LIBRARY_B_OFFSET], c->in_type);
    const void *second = matrix(operands, c->a, sizes[IG_LIBRARY_A_OFFSET], c->in_type);
    void *out = operands[c->out];
    IG_TRY(ig_cublaslt_check(lt, set_bias(lt, p->product, c, operands), "cannot give a bias to cuBLASLt", error));
    cublasStatus status = lt->cublasLtMatmul(handle, p->product, &alpha, first, p->first, second, p->second, &beta,
                                             adds ? operands[c->addend] : out, p->result, out, p->result, &p->algorithm,
                                             workspace, p->workspace, stream);
    return ig_cublaslt_check(lt, status, "cannot multiply by cuBLASLt", error);
}
