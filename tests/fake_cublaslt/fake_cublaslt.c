/* A stand-in for cuBLASLt; see fake_cublaslt.h. All matrices are column-major, as in the real one. */
#include "fake_cublaslt/fake_cublaslt.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/narrow.h"
#include "device/cuda/cublaslt.h"
#include "fake_cuda/fake_cuda.h"

#define EXPORT __attribute__((visibility("default")))

static struct fake_cublaslt state = {.ways = 3, .workspace = 4096};

EXPORT fake_cublaslt_state_function fake_cublaslt_state;

struct fake_cublaslt *fake_cublaslt_state(void) {
    return &state;
}

enum kind { HANDLE = 0x61, PRODUCT, LAYOUT, PREFERENCE };

struct cublasLtContext {
    int kind;
};
struct cublasLtDesc {
    int kind, compute, scale;
    int32_t transpose[2];
    uint32_t epilogue;
    const void *bias;
    const float *factor;
    int8_t fast;
};
struct cublasLtLayout {
    int kind, type;
    int64_t rows, columns, ld, step;
    int32_t batch;
};
struct cublasLtPreference {
    int kind;
    uint64_t workspace;
    uint32_t scheme, alignment[4];
};

static void misuse(const char *function, const char *what) {
    if (!state.misuse[0]) snprintf(state.misuse, sizeof state.misuse, "%s: %s", function, what);
}

static void check(const char *function, const void *object, enum kind kind) {
    if (!object || *(const int *)object != (int)kind) misuse(function, "not a handle");
}

static bool fails(void) {
    return state.fail_at && --state.fail_at == 0;
}

#define CALL() \
    if (fails()) return state.fail_status

static void *create(enum kind kind, size_t size) {
    int *object = calloc(1, size);
    if (!object) abort();
    *object = (int)kind;
    state.live++;
    return object;
}

static cublasStatus destroy(const char *function, void *object, enum kind kind) {
    check(function, object, kind);
    *(int *)object = 0;
    free(object);
    state.live--;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- The library ----------------------------------------------------------------------------------------------------- */

EXPORT size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) {
    return 130100;
}

EXPORT const char *cublasLtGetStatusString(cublasStatus status);
const char *cublasLtGetStatusString(cublasStatus status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "the functionality is not supported" : "some text";
}

EXPORT cublasStatus cublasLtCreate(cublasLtHandle *handle) {
    CALL();
    *handle = create(HANDLE, sizeof **handle);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus cublasLtDestroy(cublasLtHandle handle) {
    return destroy(__func__, handle, HANDLE);
}

/* ---- Descriptors ----------------------------------------------------------------------------------------------------- */

EXPORT cublasStatus cublasLtMatmulDescCreate(cublasLtMatmulDesc *product, int compute_type, int scale_type) {
    CALL();
    *product = create(PRODUCT, sizeof **product);
    (*product)->compute = compute_type;
    (*product)->scale = scale_type;
    (*product)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    if (scale_type != (compute_type == CUBLAS_COMPUTE_32I ? CUDA_R_32I : CUDA_R_32F)) misuse(__func__, "unknown scale");
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus cublasLtMatmulDescDestroy(cublasLtMatmulDesc product) {
    return destroy(__func__, product, PRODUCT);
}

static void set(const char *function, void *field, size_t wanted, const void *value, size_t size) {
    if (size != wanted)
        misuse(function, "a value of a wrong size");
    else
        memcpy(field, value, size);
}

EXPORT cublasStatus cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc p, int attribute, const void *value,
                                                   size_t size) {
    CALL();
    check(__func__, p, PRODUCT);
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: set(__func__, &p->transpose[0], 4, value, size); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: set(__func__, &p->transpose[1], 4, value, size); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: set(__func__, &p->epilogue, 4, value, size); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: set(__func__, &p->bias, sizeof p->bias, value, size); break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: set(__func__, &p->factor, sizeof p->factor, value, size); break;
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM: set(__func__, &p->fast, 1, value, size); break;
    default: misuse(__func__, "unknown attribute");
    }
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus cublasLtMatrixLayoutCreate(cublasLtMatrixLayout *layout, int type, uint64_t rows, uint64_t columns,
                                               int64_t ld) {
    CALL();
    if (rows == 0 || columns == 0 || ld < (int64_t)rows) misuse(__func__, "lines that overlap");
    *layout = create(LAYOUT, sizeof **layout);
    (*layout)->type = type;
    (*layout)->rows = (int64_t)rows;
    (*layout)->columns = (int64_t)columns;
    (*layout)->ld = ld;
    (*layout)->batch = 1;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout layout) {
    return destroy(__func__, layout, LAYOUT);
}

EXPORT cublasStatus cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout l, int attribute, const void *value,
                                                     size_t size) {
    CALL();
    check(__func__, l, LAYOUT);
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: set(__func__, &l->batch, 4, value, size); break;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: set(__func__, &l->step, 8, value, size); break;
    default: misuse(__func__, "unknown attribute");
    }
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference *preference) {
    CALL();
    *preference = create(PREFERENCE, sizeof **preference);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference preference) {
    return destroy(__func__, preference, PREFERENCE);
}

EXPORT cublasStatus cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference p, int attribute, const void *value,
                                                         size_t size) {
    CALL();
    check(__func__, p, PREFERENCE);
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: set(__func__, &p->workspace, 8, value, size); break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: set(__func__, &p->scheme, 4, value, size); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        set(__func__, &p->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], 4, value, size);
        break;
    default: misuse(__func__, "unknown attribute");
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- Heuristics ------------------------------------------------------------------------------------------------------ */

static bool is_f8(int type) {
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

static bool is_of(int64_t size, int64_t multiple) {
    return size % multiple == 0;
}

/* What the library says of bytes: i8 alone, of which it sums up and no more, with lines along the depth of whole words. */
static bool are_bytes(cublasLtMatmulDesc p, cublasLtMatrixLayout a, cublasLtMatrixLayout b, cublasLtMatrixLayout d) {
    bool lines = p->transpose[0] && !p->transpose[1] && is_of(a->ld | b->ld | d->ld | a->rows | d->rows, 4);
    return lines && p->compute == CUBLAS_COMPUTE_32I && a->type == b->type && d->type == CUDA_R_32I &&
           p->epilogue == CUBLASLT_EPILOGUE_DEFAULT && !p->factor && !p->fast;
}

/* And of floats of 8 bits. */
static bool are_floats(cublasLtMatmulDesc p, cublasLtMatrixLayout a, cublasLtMatrixLayout b, cublasLtMatrixLayout d) {
    bool lines = p->transpose[0] && !p->transpose[1] && is_of(a->ld | b->ld | d->ld | a->rows | d->rows, 16);
    bool known = is_f8(a->type) && is_f8(b->type) && (a->type == CUDA_R_8F_E4M3 || b->type == CUDA_R_8F_E4M3);
    bool bias = (p->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
    return lines && known && p->compute == CUBLAS_COMPUTE_32F &&
           (d->type == CUDA_R_16F || d->type == CUDA_R_16BF || (d->type == CUDA_R_32F && !bias));
}

static bool are_wide(cublasLtMatmulDesc p, cublasLtMatrixLayout a, cublasLtMatrixLayout b, cublasLtMatrixLayout d) {
    return a->type == b->type && (d->type == a->type || d->type == CUDA_R_32F) && !p->factor && !p->fast;
}

static bool are_types(cublasLtMatmulDesc p, cublasLtMatrixLayout a, cublasLtMatrixLayout b, cublasLtMatrixLayout d) {
    return a->type == CUDA_R_8I ? are_bytes(p, a, b, d)
           : is_f8(a->type)     ? are_floats(p, a, b, d)
                                : are_wide(p, a, b, d);
}

static void check_shapes(const char *function, cublasLtMatmulDesc p, cublasLtMatrixLayout a, cublasLtMatrixLayout b,
                         cublasLtMatrixLayout d) {
    int64_t m = p->transpose[0] ? a->columns : a->rows, k = p->transpose[0] ? a->rows : a->columns;
    int64_t n = p->transpose[1] ? b->rows : b->columns, depth = p->transpose[1] ? b->columns : b->rows;
    if (m != d->rows || n != d->columns || k != depth) misuse(function, "matrices that do not fit");
    if (a->batch != b->batch || a->batch != d->batch) misuse(function, "batches that do not fit");
    if (!are_types(p, a, b, d)) misuse(function, "types that do not fit");
    if ((p->epilogue & CUBLASLT_EPILOGUE_BIAS) && !p->bias) misuse(function, "no bias");
}

EXPORT cublasStatus cublasLtMatmulAlgoGetHeuristic(cublasLtHandle handle, cublasLtMatmulDesc product,
                                                   cublasLtMatrixLayout a, cublasLtMatrixLayout b,
                                                   cublasLtMatrixLayout c, cublasLtMatrixLayout d,
                                                   cublasLtMatmulPreference preference, int wanted,
                                                   cublasLtMatmulHeuristicResult *results, int *found) {
    CALL();
    check(__func__, handle, HANDLE);
    check(__func__, preference, PREFERENCE);
    check_shapes(__func__, product, a, b, d);
    if (state.ways < 0) return -state.ways;
    if (state.workspace > preference->workspace) return CUBLAS_STATUS_NOT_SUPPORTED;
    state.questions++;
    state.alignment = preference->alignment[0];
    state.epilogue = product->epilogue;
    state.compute = product->compute;
    state.fast = product->fast;
    *found = state.ways < wanted ? state.ways : wanted;
    for (int i = 0; i < *found; i++) {
        memset(&results[i], 0, sizeof results[i]);
        results[i].algo.data[0] = 0xa190 + (uint64_t)i;
        results[i].workspaceSize = state.workspace;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- Execution ------------------------------------------------------------------------------------------------------- */

/* An enqueued product, self-contained: its descriptors may be destroyed before it executes. */
struct work {
    struct cublasLtLayout a, b, d;
    int32_t transpose[2];
    uint32_t epilogue;
    double alpha, beta;
    const float *factor;
    const void *bias, *first, *second, *addend;
    void *out;
    int way;
};
_Static_assert(sizeof(struct work) <= FAKE_WORK_BYTES, "work fits into a node");

static double load(int type, const void *data, int64_t i) {
    uint16_t half;
    if (type == CUDA_R_32F) return (double)((const float *)data)[i];
    if (type == CUDA_R_8I) return ((const int8_t *)data)[i];
    if (type == CUDA_R_8F_E4M3) return (double)ig_narrow_to_f32(INGOT_F8E4M3FN, ((const uint8_t *)data)[i]);
    if (type == CUDA_R_8F_E5M2) return (double)ig_narrow_to_f32(INGOT_F8E5M2, ((const uint8_t *)data)[i]);
    memcpy(&half, (const char *)data + 2 * i, sizeof half);
    return (double)(type == CUDA_R_16F ? ig_f16_to_f32(half) : ig_bf16_to_f32(half));
}

static void store(int type, void *data, int64_t i, double value) {
    if (type == CUDA_R_32I) {
        ((int32_t *)data)[i] = (int32_t)value;
        return;
    }
    if (type == CUDA_R_32F) {
        ((float *)data)[i] = (float)value;
        return;
    }
    uint16_t half = type == CUDA_R_16F ? ig_f32_to_f16((float)value) : ig_f32_to_bf16((float)value);
    memcpy((char *)data + 2 * i, &half, sizeof half);
}

static double activate(uint32_t epilogue, double x) {
    if (epilogue & CUBLASLT_EPILOGUE_RELU) return x > 0 ? x : 0;
    if (epilogue & CUBLASLT_EPILOGUE_GELU) return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return x;
}

static double element(const struct cublasLtLayout *l, bool transposed, const void *data, int64_t batch, int64_t row,
                      int64_t column) {
    int64_t at = transposed ? row * l->ld + column : column * l->ld + row;
    return load(l->type, data, batch * l->step + at);
}

static void multiply(const void *data) {
    const struct work *w = data;
    int64_t depth = w->transpose[0] ? w->a.rows : w->a.columns;
    for (int64_t i = 0; i < w->d.batch * w->d.columns * w->d.rows; i++) {
        int64_t batch = i / (w->d.rows * w->d.columns), column = i / w->d.rows % w->d.columns, row = i % w->d.rows;
        int64_t at = batch * w->d.step + column * w->d.ld + row;
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += element(&w->a, w->transpose[0], w->first, batch, row, k) *
                   element(&w->b, w->transpose[1], w->second, batch, k, column);
        sum *= w->alpha * (w->factor ? (double)*w->factor : 1);
        if (w->beta != 0) sum += w->beta * load(w->d.type, w->addend, at);
        if (w->epilogue & CUBLASLT_EPILOGUE_BIAS) sum += load(w->d.type, w->bias, row);
        store(w->d.type, w->out, at, activate(w->epilogue, sum));
    }
    state.products++;
    state.way = w->way;
}

static double scale_of(cublasLtMatmulDesc product, const void *scale) {
    return product->scale == CUDA_R_32I ? *(const int32_t *)scale : (double)*(const float *)scale;
}

EXPORT cublasStatus cublasLtMatmul(cublasLtHandle handle, cublasLtMatmulDesc product, const void *alpha, const void *a,
                                   cublasLtMatrixLayout a_layout, const void *b, cublasLtMatrixLayout b_layout,
                                   const void *beta, const void *c, cublasLtMatrixLayout c_layout, void *d,
                                   cublasLtMatrixLayout d_layout, const cublasLtMatmulAlgo *algo, void *workspace,
                                   size_t workspace_size, CUstream stream) {
    CALL();
    check(__func__, handle, HANDLE);
    check(__func__, product, PRODUCT);
    check_shapes(__func__, product, a_layout, b_layout, d_layout);
    double by = scale_of(product, alpha), plus = scale_of(product, beta);
    if ((product->scale == CUDA_R_32I && (by != 1 || plus != 0)) || c_layout != d_layout)
        misuse(__func__, "not what was asked for");
    if (algo->data[0] >> 4 != 0xa19) misuse(__func__, "an unknown algorithm");
    if (workspace_size < state.workspace || (state.workspace && !workspace)) misuse(__func__, "too little workspace");
    if (workspace_size) memset(workspace, 0x5a, workspace_size);
    struct work w = {.a = *a_layout,
                     .b = *b_layout,
                     .d = *d_layout,
                     .transpose = {product->transpose[0], product->transpose[1]},
                     .epilogue = product->epilogue,
                     .alpha = by,
                     .beta = plus,
                     .factor = product->factor,
                     .bias = product->bias,
                     .first = a,
                     .second = b,
                     .addend = c,
                     .out = d,
                     .way = (int)(algo->data[0] & 15)};
    struct fake_stream *s = (struct fake_stream *)stream;
    s->enqueue(s, multiply, &w, sizeof w);
    return CUBLAS_STATUS_SUCCESS;
}
