/*
 * Products with weights of few bits (matmul_blocks): every form of codes, scales and zero points, packed and plain, on
 * shapes that fit nothing; with NaN and infinities among scales and activations. The reference evaluator dequantises each
 * weight with the same roundings, so that only sums differ.
 */
#include <math.h>

#include "import/onnx/apply.h"
#include "ir/blocks.h"
#include "ir/initializer.h"
#include "support/check/kernel_cases.h"
#include "support/check/rewrite_check.h"

/* Zero points; or none, and codes that are floats. */
enum zero { NO_ZERO, BYTES, FLOATS, CODES_E4M3, CODES_E5M2 };

struct product {
    int64_t rows; /* -1: the symbol "s0" */
    int64_t depth, columns;
    int bits;
    int64_t block;
    enum zero zero;
    bool table, hostile; /* hostile: NaN, infinities and denormals among the scales, NaN among codes of floats */
    enum ingot_dtype a, scale;
};

static const struct product products[] = {
    {1, 256, 48, 4, 128, NO_ZERO, false, false, INGOT_F32, INGOT_F32},
    {1, 384, 33, 4, 32, BYTES, false, false, INGOT_F32, INGOT_F16},
    {2, 200, 17, 4, 64, FLOATS, false, false, INGOT_F32, INGOT_F32},
    {3, 77, 5, 4, 16, BYTES, true, false, INGOT_F32, INGOT_BF16},
    {4, 130, 40, 4, 48, NO_ZERO, true, false, INGOT_F32, INGOT_F32},
    {5, 1030, 3, 4, 2048, BYTES, false, false, INGOT_F32, INGOT_F32},
    {9, 2100, 35, 4, 128, NO_ZERO, false, false, INGOT_F32, INGOT_F32},
    {-1, 160, 70, 4, 32, BYTES, false, false, INGOT_F32, INGOT_F32},
    {-1, 96, 64, 8, 32, NO_ZERO, false, false, INGOT_F32, INGOT_F32},
    {70, 128, 20, 4, 64, NO_ZERO, true, false, INGOT_F32, INGOT_F32},
    {1, 1, 1, 4, 16, BYTES, false, false, INGOT_F32, INGOT_F32},
    {1, 15, 2, 8, 16, BYTES, false, false, INGOT_F32, INGOT_F32},
    {2, 320, 40, 8, 64, BYTES, false, false, INGOT_F32, INGOT_F32},
    {7, 99, 31, 8, 999, FLOATS, false, false, INGOT_F32, INGOT_F16},
    {1, 256, 48, 4, 64, BYTES, false, false, INGOT_F16, INGOT_F16},
    {6, 146, 39, 4, 32, FLOATS, true, false, INGOT_F16, INGOT_F32},
    {17, 128, 24, 8, 128, BYTES, false, false, INGOT_F16, INGOT_F16},
    {1, 192, 32, 4, 64, NO_ZERO, false, false, INGOT_BF16, INGOT_BF16},
    {3, 300, 19, 4, 32, BYTES, true, false, INGOT_BF16, INGOT_BF16},
    {2, 64, 18, 8, 16, NO_ZERO, false, false, INGOT_BF16, INGOT_F32},
    {1, 512, 48, 2, 128, NO_ZERO, false, false, INGOT_F32, INGOT_F32},
    {2, 640, 33, 2, 64, BYTES, false, false, INGOT_F32, INGOT_F16},
    {3, 333, 17, 2, 32, FLOATS, false, false, INGOT_F32, INGOT_F32},
    {-1, 300, 35, 2, 48, NO_ZERO, false, false, INGOT_F32, INGOT_BF16},
    {11, 77, 5, 2, 16, BYTES, true, false, INGOT_F32, INGOT_F32},
    {1, 1, 1, 2, 16, BYTES, false, false, INGOT_F32, INGOT_F32},
    {5, 2050, 19, 2, 4096, BYTES, false, false, INGOT_F32, INGOT_F32},
    {2, 520, 40, 2, 32, BYTES, false, true, INGOT_F32, INGOT_F32},
    {1, 512, 48, 2, 64, BYTES, false, false, INGOT_F16, INGOT_F16},
    {17, 384, 24, 2, 128, NO_ZERO, false, false, INGOT_F16, INGOT_F32},
    {-1, 264, 39, 2, 16, BYTES, false, false, INGOT_F16, INGOT_F16},
    {3, 328, 32, 2, 32, NO_ZERO, false, false, INGOT_BF16, INGOT_BF16},
    {40, 136, 18, 2, 999, BYTES, false, false, INGOT_BF16, INGOT_F32},
    {2, 392, 20, 2, 32, NO_ZERO, false, true, INGOT_F16, INGOT_F16},
    {1, 140, 24, 2, 32, BYTES, false, true, INGOT_BF16, INGOT_BF16},
    {1, 200, 40, 4, 32, NO_ZERO, false, true, INGOT_F32, INGOT_F32},
    {3, 200, 40, 4, 16, BYTES, false, true, INGOT_F32, INGOT_F32},
    {2, 140, 40, 4, 64, BYTES, true, true, INGOT_F32, INGOT_F32},
    {2, 140, 40, 8, 32, BYTES, false, true, INGOT_F32, INGOT_F32},
    {1, 140, 24, 4, 32, BYTES, false, true, INGOT_F16, INGOT_F16},
    {2, 70, 20, 8, 16, NO_ZERO, false, true, INGOT_BF16, INGOT_F32},
    {1, 256, 48, 8, 32, CODES_E4M3, false, false, INGOT_F32, INGOT_BF16},
    {3, 200, 17, 8, 64, CODES_E5M2, false, false, INGOT_F32, INGOT_F32},
    {-1, 160, 33, 8, 32, CODES_E4M3, false, false, INGOT_F32, INGOT_F16},
    {2, 77, 19, 8, 77, CODES_E4M3, false, true, INGOT_F32, INGOT_F32},
    {2, 77, 19, 8, 16, CODES_E5M2, false, true, INGOT_F32, INGOT_BF16},
    {1, 256, 48, 8, 32, CODES_E4M3, false, false, INGOT_F16, INGOT_BF16},
    {3, 192, 40, 8, 32, CODES_E5M2, false, false, INGOT_F16, INGOT_F16},
    {9, 136, 24, 8, 32, CODES_E4M3, false, true, INGOT_F16, INGOT_BF16},
    {2, 64, 20, 8, 16, CODES_E4M3, false, true, INGOT_BF16, INGOT_BF16},
    {5, 160, 32, 8, 32, CODES_E5M2, false, true, INGOT_BF16, INGOT_F32},
    {4, 160, 32, 4, 32, NO_ZERO, true, false, INGOT_F16, INGOT_BF16},
    /* deep enough to be streamed on GPUs */
    {1, 3200, 33, 4, 128, BYTES, false, false, INGOT_F16, INGOT_F16},
    {3, 3136, 20, 4, 32, NO_ZERO, false, false, INGOT_F16, INGOT_F32},
    {9, 3208, 24, 4, 4096, NO_ZERO, false, false, INGOT_F16, INGOT_F16},
    {2, 3104, 18, 4, 16, BYTES, false, false, INGOT_F16, INGOT_F16},
    {1, 3200, 20, 4, 64, BYTES, true, false, INGOT_F16, INGOT_F16},
    {12, 3200, 18, 4, 128, BYTES, false, false, INGOT_BF16, INGOT_BF16},
    {2, 1600, 40, 8, 64, BYTES, false, false, INGOT_F16, INGOT_F16},
    {5, 1608, 17, 8, 32, CODES_E4M3, false, true, INGOT_F16, INGOT_BF16},
    {1, 3200, 19, 4, 128, BYTES, false, true, INGOT_F16, INGOT_F16},
    {1, 6400, 33, 2, 128, BYTES, false, false, INGOT_F16, INGOT_F16},
    {12, 6280, 18, 2, 32, NO_ZERO, false, false, INGOT_BF16, INGOT_F32},
    {3, 6408, 20, 2, 16, BYTES, false, true, INGOT_F16, INGOT_F16},
    {9, 6272, 24, 2, 256, NO_ZERO, false, false, INGOT_F16, INGOT_BF16},
};
enum { PRODUCTS = sizeof products / sizeof *products };

static ig_value codes_of(struct ig_graph *g, int64_t rows, int64_t columns, int most, uint32_t seed) {
    int64_t dims[] = {rows, columns};
    size_t size = (size_t)(rows * columns);
    uint8_t *bytes = IG_NEW_ARRAY(g->job, uint8_t, size);
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(seed >> 24 & (uint32_t)most);
    }
    struct ig_data data = {.bytes = bytes, .size = size};
    return ig_build_constant(g, INGOT_U8, 2, dims, &data);
}

/* Floats of 8 bits from codes. Those that are not finite are in every fifth column, or nowhere. */
static ig_value floats_of(struct ig_graph *g, const struct product *p) {
    enum ingot_dtype dtype = p->zero == CODES_E4M3 ? INGOT_F8E4M3FN : INGOT_F8E5M2;
    int64_t dims[] = {p->columns, p->depth};
    size_t size = (size_t)(dims[0] * dims[1]);
    uint8_t *bytes = IG_NEW_ARRAY(g->job, uint8_t, size);
    uint32_t seed = 5;
    int largest = dtype == INGOT_F8E4M3FN ? 0x7e : 0x7b;
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(seed >> 24);
        bool kept = p->hostile && i / (size_t)p->depth % 5 == 2;
        if (!kept && (bytes[i] & 0x7f) > largest) bytes[i] &= 0x83;
    }
    struct ig_data data = {.bytes = bytes, .size = size};
    return ig_build_constant(g, dtype, 2, dims, &data);
}

/* Scales of both signs, some of them not finite. */
static ig_value hostile_scales(struct ig_graph *g, const int64_t *dims) {
    static const float special[] = {INFINITY, NAN, 0, 1e-40f, -INFINITY, -0.0f};
    size_t count = (size_t)(dims[0] * dims[1]);
    float *scales = IG_NEW_ARRAY(g->job, float, count);
    for (size_t i = 0; i < count; i++)
        scales[i] = i % 7 == 3 ? special[i / 7 % 6] : (float)(i % 5) - 1.75f;
    struct ig_data data = {.bytes = scales, .size = count * sizeof *scales};
    return ig_build_constant(g, INGOT_F32, 2, dims, &data);
}

static void build_product(struct ig_graph *g, const void *argument) {
    const struct product *p = argument;
    int64_t a_dims[] = {p->rows, p->depth}, dims[] = {p->columns, (p->depth + p->block - 1) / p->block},
            entries[] = {1 << p->bits};
    ig_value a = input(g, "a", p->a, 2, a_dims);
    struct ig_blocks b = {.bits = p->bits, .block = p->block, .zero = IG_NO_VALUE, .table = IG_NO_VALUE};
    bool floats = p->zero == CODES_E4M3 || p->zero == CODES_E5M2;
    b.codes = floats ? floats_of(g, p) : codes_of(g, p->columns, p->depth, (1 << p->bits) - 1, (uint32_t)p->depth);
    b.scale = p->hostile ? hostile_scales(g, dims) : random_constant(g, INGOT_F32, 2, dims, 2);
    b.scale = ig_build_cast(g, b.scale, p->scale);
    if (p->zero == BYTES) b.zero = codes_of(g, dims[0], dims[1], (1 << p->bits) - 1, 3);
    if (p->zero == FLOATS) b.zero = random_constant(g, INGOT_F32, 2, dims, 3);
    if (p->table) b.table = random_constant(g, INGOT_F32, 1, entries, 4);
    b.offset = p->zero == NO_ZERO && !p->table ? 1 << (p->bits - 1) : 0;
    ig_build_output(g, "y", ig_build_matmul_blocks(g, a, &b, p->a));
}

static double tolerance(const struct product *p) {
    return sum_tolerance(p->a) * (p->a == INGOT_F32 ? 4 : 1);
}

static void forms(void **state) {
    (void)state;
    for (int i = 0; i < PRODUCTS; i++) {
        const struct product *p = &products[i];
        static const int64_t sizes[] = {5, 7, 33, 128};
        struct graph_case *c =
            add_named_case(build_product, p, 0, sizes, "%lldx%lldx%lld, %d bits, blocks of %lld", (long long)p->rows,
                           (long long)p->depth, (long long)p->columns, p->bits, (long long)p->block);
        c->tolerance = tolerance(p);
        if (i % 4 == 1) add_case("plain codes", build_product, p, tolerance(p), GRAPH_RAW);
    }
    check_all();
}

/* NaN and infinities among the activations, and any magnitudes. */
static void hostile_rows(void **state) {
    (void)state;
    for (int i = 0; i < PRODUCTS; i += 3)
        add_case("hostile rows", build_product, &products[i], tolerance(&products[i]), GRAPH_POISON);
    check_all();
}

/* What stands before and behind the product is part of its kernel. */
static void build_epilogue(struct ig_graph *g, const void *argument) {
    const struct product *p = argument;
    int64_t a_dims[] = {-1, 3, p->depth}, dims[] = {p->columns, p->depth / p->block}, bias[] = {p->columns};
    ig_value a = input(g, "a", INGOT_F32, 3, a_dims), scale = random_constant(g, INGOT_F32, 1, &p->depth, 7);
    struct ig_blocks b = {.bits = 4, .block = p->block, .zero = IG_NO_VALUE, .table = IG_NO_VALUE, .offset = 8};
    b.codes = codes_of(g, p->columns, p->depth, 15, 5);
    b.scale = random_constant(g, INGOT_F32, 2, dims, 6);
    ig_value y = ig_build_matmul_blocks(g, ig_map2(g, IG_OP_mul, a, scale), &b, INGOT_F32);
    y = ig_map2(g, IG_OP_add, y, random_constant(g, INGOT_F32, 1, bias, 8));
    ig_build_output(g, "y", ig_map2(g, IG_OP_mul, y, ig_map1(g, IG_OP_sigmoid, y)));
}

/* Behind the last candidate, also of codes that no template multiplies, come calls of libraries, which know no codes. */
static void candidates(void **state) {
    static const struct product halves[] = {{3, 264, 40, 4, 32, BYTES, .a = INGOT_BF16, .scale = INGOT_F16},
                                            {3, 264, 40, 4, 32, BYTES, .a = INGOT_F16, .scale = INGOT_F16}};
    (void)state;
    for (int i = 0; i < 2; i++)
        add_case("candidates", build_product, &halves[i], tolerance(&halves[i]), 30 * GRAPH_CHOICE);
    check_all_for_cuda();
}

static void epilogues(void **state) {
    static const struct product p = {.depth = 192, .columns = 50, .block = 64};
    (void)state;
    add_case("epilogue", build_epilogue, &p, sum_tolerance(INGOT_F32) * 4, 0);
    add_case("epilogue in f16", build_epilogue, &p, 1e-2, GRAPH_FP16);
    add_case("epilogue in bf16", build_epilogue, &p, 5e-2, GRAPH_BF16);
    check_all();
}

/* ---- A decoder's token: a norm, and a gate and what it lets through ---- */

struct token {
    struct product p; /* rows: -4 for any number up to 4 */
    bool normed, gated;
};

static ig_value norm_of(struct ig_graph *g, ig_value x, int64_t depth) {
    static const int64_t last = 1;
    ig_value mean = ig_build_reduce(g, IG_OP_reduce_mean, ig_map2(g, IG_OP_mul, x, x), &last, 1);
    mean = ig_map2(g, IG_OP_add, mean, ig_build_scalar(g, INGOT_F32, 1e-5));
    x = ig_map2(g, IG_OP_div, x, ig_map1(g, IG_OP_sqrt, mean));
    return ig_map2(g, IG_OP_mul, x, random_constant(g, INGOT_F32, 1, &depth, 7));
}

static void build_token(struct ig_graph *g, const void *argument) {
    const struct token *t = argument;
    const struct product *p = &t->p;
    int64_t a_dims[] = {p->rows < 0 ? -1 : p->rows, p->depth},
            dims[] = {p->columns, (p->depth + p->block - 1) / p->block};
    ig_value a = input(g, "a", INGOT_F32, 2, a_dims), y[2];
    if (p->rows < 0) {
        ig_dim rows = ig_dim_min(g->dims, ig_type_of(g, a)->dim[0], ig_dim_const(g->dims, -p->rows));
        a = ig_build_slice_axis(g, a, 0, ig_dim_const(g->dims, 0), rows, 1);
    }
    ig_value table = random_constant(g, INGOT_F32, 1, (const int64_t[]){1 << p->bits}, 4);
    a = t->normed ? norm_of(g, a, p->depth) : ig_map1(g, IG_OP_neg, a);
    for (uint32_t i = 0; i < 2; i++) {
        struct ig_blocks b = {
            .bits = p->bits, .block = p->block, .zero = IG_NO_VALUE, .table = p->table ? table : IG_NO_VALUE};
        b.codes = codes_of(g, p->columns, p->depth, (1 << p->bits) - 1, 5 + i);
        b.scale = ig_build_cast(g, random_constant(g, INGOT_F32, 2, dims, 6 + i), p->scale);
        if (p->zero == BYTES) b.zero = codes_of(g, dims[0], dims[1], (1 << p->bits) - 1, 8 + i);
        b.offset = p->zero == NO_ZERO && !p->table ? 1 << (p->bits - 1) : 0;
        if (i == 0 || t->gated) y[i] = ig_build_matmul_blocks(g, a, &b, INGOT_F32);
    }
    if (t->gated) y[0] = ig_map2(g, IG_OP_mul, ig_map1(g, IG_OP_abs, y[0]), y[1]);
    ig_build_output(g, "y", y[0]);
}

/* Rows of a norm are computed first, which only one kernel may read: so gates that have norms fail where twins are not joined. */
static void tokens(void **state) {
    (void)state;
    static const struct token cases[] = {
        {{1, 1024, 136, 4, 128, NO_ZERO, .scale = INGOT_F32}, .normed = true},
        {{3, 264, 40, 4, 32, BYTES, .scale = INGOT_BF16}, .normed = true},
        {{1, 3208, 40, 4, 4096, NO_ZERO, .scale = INGOT_F32}, .normed = true},
        {{-4, 520, 72, 8, 64, BYTES, .scale = INGOT_F32}, .normed = true},
        {{1, 1024, 136, 4, 128, NO_ZERO, .scale = INGOT_F32}, .normed = true, .gated = true},
        {{4, 264, 40, 2, 32, BYTES, .scale = INGOT_F32}, .normed = true, .gated = true},
        {{1, 3208, 2200, 4, 128, BYTES, .scale = INGOT_BF16}, .normed = true},
        {{1, 200, 24, 4, 64, NO_ZERO, true, .scale = INGOT_F32}, .normed = true, .gated = true},
        {{9, 520, 72, 4, 32, BYTES, .scale = INGOT_F32}, .gated = true},
        {{16, 3208, 24, 4, 64, NO_ZERO, .scale = INGOT_F32}, .gated = true},
        {{1, 1608, 40, 8, 64, NO_ZERO, .scale = INGOT_F32}, .gated = true},
        {{2, 8, 8, 4, 16, NO_ZERO, .scale = INGOT_F32}, .gated = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const unsigned precisions[] = {GRAPH_FP16, GRAPH_FP16 + GRAPH_POISON, GRAPH_BF16};
        static const int64_t sizes[] = {3, 7, 33, 128};
        const struct token *t = &cases[i];
        for (size_t j = 0; j < sizeof precisions / sizeof *precisions; j++) {
            const unsigned flags = precisions[j] + (t->normed ? GRAPH_ROWS_FIRST : 0);
            add_named_case(build_token, t, flags, sizes, "token %zu, precision %zu", i, j)->tolerance =
                j < 2 ? 1e-2 : 5e-2;
        }
    }
    check_all();
}

/* ---- As models have them: which products keep their weights narrow, and that the results are the same ---- */

enum form {
    NBITS,
    BNB4,
    PER_TENSOR,
    PER_COLUMN,
    PER_DEPTH,
    BLOCKED,
    BLOCKED_TURNED,
    QKV,
    MXFP8,
    MXFP8_WIDE,
    MXFP4,
    NVFP4
};

struct imported {
    enum form form;
    int bits;
    int64_t rows, depth, columns, block;
    bool zero;
    int products; /* that keep their weights narrow */
};

static const struct imported imported[] = {
    {NBITS, 4, 3, 200, 17, 32, true, 1},
    {NBITS, 4, 1, 128, 40, 64, false, 1},
    {NBITS, 8, 2, 130, 9, 16, true, 1},
    {NBITS, 2, 1, 96, 12, 32, true, 1},
    {NBITS, 4, 64, 64, 8, 32, false, 0},
    {BNB4, 4, 2, 128, 12, 64, false, 1},
    {BNB4, 4, 2, 100, 5, 64, false, 0},
    {PER_TENSOR, 8, 2, 48, 20, 0, true, 1},
    {PER_COLUMN, 8, 2, 48, 20, 0, true, 1},
    {PER_DEPTH, 8, 2, 48, 20, 0, true, 0},
    {BLOCKED, 8, 3, 100, 20, 32, true, 1},
    {BLOCKED, 8, 3, 100, 20, 8, true, 0},
    {BLOCKED_TURNED, 8, 1, 100, 20, 48, true, 1},
    {QKV, 4, 1, 64, 16, 32, true, 1},
    {MXFP8, 8, 1, 128, 20, 32, false, 2},
    {MXFP8, 8, 3, 96, 24, 32, true, 2},
    {MXFP8_WIDE, 8, 2, 128, 20, 32, false, 2},
    {MXFP4, 4, 1, 160, 33, 32, false, 2},
    {MXFP4, 4, 5, 96, 16, 32, true, 2},
    {NVFP4, 4, 1, 128, 24, 16, false, 2},
    {NVFP4, 4, 4, 80, 20, 16, true, 2},
    {NVFP4, 4, 64, 64, 16, 16, false, 0},
    {MXFP8, 8, 2, 64, 16, 8, false, 0},
    {NBITS, 2, 3, 1000, 33, 128, false, 1},
    {NBITS, 2, 70, 64, 8, 32, true, 0},
    {BLOCKED, 2, 3, 300, 20, 32, true, 1},
    {BLOCKED, 2, 1, 520, 33, 64, false, 1},
    {BLOCKED_TURNED, 2, 5, 264, 19, 128, true, 1},
    {BLOCKED_TURNED, 2, 2, 100, 20, 16, false, 1},
    {PER_COLUMN, 2, 2, 48, 20, 0, true, 1},
    {PER_TENSOR, 2, 1, 48, 20, 0, true, 1},
    {BLOCKED, 4, 2, 100, 20, 32, true, 1},
    {QKV, 2, 1, 128, 16, 32, true, 1},
};
enum { IMPORTED = sizeof imported / sizeof *imported };

/* An ONNX operator on values of the graph; attributes end with a nameless one. */
static ig_value apply(struct ig_graph *g, const char *name, const ig_value *inputs, int count,
                      const struct ingot_attribute *attributes) {
    struct ig_initializers *initializers = ig_initializers_create(g->job);
    struct ig_onnx *import = ig_onnx_begin_nodes(g->job, g->dims, initializers, 0);
    ingot_value values[4];
    struct ingot_operator op = {.name = name, .inputs = values, .n_inputs = (size_t)count, .attributes = attributes};
    for (int i = 0; i < count; i++)
        values[i] = inputs[i];
    while (attributes && attributes[op.n_attributes].name)
        op.n_attributes++;
    ig_value result;
    ig_onnx_add_node(import, g, &op, &result, 1);
    return result;
}

static struct ingot_attribute of_int(const char *name, int64_t i) {
    return (struct ingot_attribute){.name = name, .kind = INGOT_ATTRIBUTE_INT, .i = i};
}

static ig_value nbits(struct ig_graph *g, const struct imported *m, ig_value a, uint32_t seed) {
    int64_t blocks = (m->depth + m->block - 1) / m->block, bytes = m->block * m->bits / 8;
    int64_t scales[] = {m->columns, blocks};
    ig_dim shape[] = {number(g, m->columns), number(g, blocks), number(g, bytes)};
    ig_value codes = ig_build_reshape(g, codes_of(g, m->columns, blocks * bytes, 255, seed), shape, 3);
    ig_value in[] = {a, codes, random_constant(g, INGOT_F32, 2, scales, seed),
                     codes_of(g, m->columns, (blocks * m->bits + 7) / 8, 255, seed + 1)};
    const struct ingot_attribute attributes[] = {
        of_int("N", m->columns), of_int("K", m->depth), of_int("bits", m->bits), of_int("block_size", m->block), {0}};
    return apply(g, "com.microsoft.MatMulNBits", in, m->zero ? 4 : 3, attributes);
}

static ig_value bnb4(struct ig_graph *g, const struct imported *m, ig_value a) {
    int64_t count = m->columns * m->depth, blocks = (count + m->block - 1) / m->block;
    ig_dim flat = number(g, (count + 1) / 2);
    ig_value codes = ig_build_reshape(g, codes_of(g, 1, (count + 1) / 2, 255, 1), &flat, 1);
    ig_value in[] = {a, codes, random_constant(g, INGOT_F32, 1, &blocks, 2)};
    const struct ingot_attribute attributes[] = {
        of_int("N", m->columns), of_int("K", m->depth), of_int("quant_type", 1), of_int("block_size", m->block), {0}};
    return apply(g, "com.microsoft.MatMulBnb4", in, 3, attributes);
}

static ig_value bytes_of(struct ig_graph *g, enum ingot_dtype dtype, const int64_t *dims, int mask, int plus,
                         uint32_t seed) {
    size_t size = (size_t)(dims[0] * dims[1]);
    uint8_t *bytes = IG_NEW_ARRAY(g->job, uint8_t, size);
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (uint8_t)((int)(seed >> 24 & (uint32_t)mask) + plus);
    }
    struct ig_data data = {.bytes = bytes, .size = size};
    return ig_build_constant(g, dtype, 2, dims, &data);
}

/* DequantizeLinear, and a product; the weight may lie as its transpose. */
static ig_value dequantized(struct ig_graph *g, const struct imported *m, ig_value a) {
    static const int64_t turn[] = {1, 0};
    bool turned = m->form == BLOCKED_TURNED, blocked = turned || m->form == BLOCKED;
    int axis = turned || m->form == PER_COLUMN ? 1 : 0;
    int64_t sizes[] = {turned ? m->columns : m->depth, turned ? m->depth : m->columns},
            scales[2] = {sizes[0], sizes[1]};
    if (blocked) scales[axis] = (sizes[axis] + m->block - 1) / m->block;
    bool is_signed = m->bits == 4 || !m->zero;
    enum ingot_dtype dtype = m->bits == 8 ? INGOT_U8 : m->bits == 4 ? INGOT_I4 : is_signed ? INGOT_I2 : INGOT_U2;
    int mask = (1 << m->bits) - 1, least = is_signed ? -(1 << (m->bits - 1)) : 0;
    ig_value in[] = {bytes_of(g, dtype, sizes, mask, least, 1), IG_NO_VALUE, IG_NO_VALUE};
    if (blocked) {
        in[1] = random_constant(g, INGOT_F32, 2, scales, 2);
        in[2] = bytes_of(g, dtype, scales, mask, least, 3);
    } else if (m->form == PER_TENSOR) {
        in[1] = ig_build_scalar(g, INGOT_F32, 0.125);
        in[2] = ig_build_scalar_int(g, dtype, 100 & mask);
    } else {
        ig_dim flat = number(g, sizes[axis]);
        in[1] = random_constant(g, INGOT_F32, 1, &sizes[axis], 2);
        in[2] = ig_build_reshape(g, bytes_of(g, dtype, (int64_t[]){1, sizes[axis]}, mask, least, 3), &flat, 1);
    }
    const struct ingot_attribute attributes[] = {of_int("axis", axis), of_int("block_size", m->block), {0}};
    ig_value w = apply(g, "DequantizeLinear", in, m->zero ? 3 : 2, attributes);
    return ig_build_matmul(g, a, turned ? ig_build_transpose(g, w, turn) : w, INGOT_F32);
}

/* The microscaling formats, and NVFP4: weights, perhaps as their transpose, and scales as they are stored. Scales are around 1; of
 * those that are powers of two, a line is of NaN and one of the least. */
static ig_value microscaled(struct ig_graph *g, const struct imported *m, ig_value a, bool turned) {
    static const int64_t turn[] = {1, 0};
    bool powers = m->form != NVFP4;
    int axis = turned ? 1 : 0, line = 1 - axis;
    enum ingot_dtype dtype = m->form == MXFP8 ? INGOT_F8E4M3FN : m->form == MXFP8_WIDE ? INGOT_F8E5M2 : INGOT_F4E2M1;
    int64_t dims[] = {m->depth, m->depth}, scales[2];
    dims[line] = scales[line] = m->columns;
    scales[axis] = (m->depth + m->block - 1) / m->block;
    int mask = dtype == INGOT_F4E2M1 ? 0xf : dtype == INGOT_F8E4M3FN ? 0xf7 : 0xbb; /* no NaN */
    ig_value in[] = {bytes_of(g, dtype, dims, mask, 0, 3), IG_NO_VALUE, IG_NO_VALUE};
    if (powers) {
        int64_t one[] = {scales[0], scales[1]}, rest[] = {scales[0], scales[1]};
        one[line] = 1;
        rest[line] -= 2;
        ig_value parts[] = {bytes_of(g, INGOT_F8E8M0, one, 0, 0xff, 0), bytes_of(g, INGOT_F8E8M0, one, 0, 0, 0),
                            bytes_of(g, INGOT_F8E8M0, rest, 7, 124, 4)};
        in[1] = ig_build_concat(g, parts, 3, line);
    } else {
        ig_value whole[] = {bytes_of(g, INGOT_F8E4M3FN, scales, 7, 0x30, 4), ig_build_scalar(g, INGOT_F32, 0.0371)};
        in[1] = apply(g, "DequantizeLinear", whole, 2, NULL);
    }
    ig_value zero = ig_build_broadcast(g, ig_build_scalar(g, INGOT_F32, 0), ig_type_of(g, in[1])->dim, 2);
    if (m->zero) in[2] = ig_build_cast(g, zero, dtype);
    const struct ingot_attribute attributes[] = {
        of_int("axis", axis), of_int("block_size", m->block), of_int("output_dtype", powers ? 1 : 0), {0}};
    ig_value w = apply(g, "DequantizeLinear", in, m->zero ? 3 : 2, attributes);
    return ig_build_matmul(g, a, turned ? ig_build_transpose(g, w, turn) : w, INGOT_F32);
}

static void build_imported(struct ig_graph *g, const void *argument) {
    const struct imported *m = argument;
    int64_t dims[] = {m->rows, m->depth}, halves[] = {1, 2, 8};
    ig_value a = input(g, "a", INGOT_F32, 2, dims);
    for (int i = 0; m->form == QKV && i < 3; i++) { /* views read the results, so that they become one product */
        ig_dim shape[3];
        for (int j = 0; j < 3; j++)
            shape[j] = number(g, halves[j]);
        ig_value y = ig_build_reshape(g, nbits(g, m, a, 10 * (uint32_t)i + 1), shape, 3);
        ig_build_output(g, (const char *[]){"q", "k", "v"}[i], ig_map1(g, IG_OP_neg, y));
    }
    if (m->form == QKV) return;
    ig_build_output(g, "y",
                    m->form == NBITS   ? nbits(g, m, a, 1)
                    : m->form == BNB4  ? bnb4(g, m, a)
                    : m->form >= MXFP8 ? microscaled(g, m, a, false)
                                       : dequantized(g, m, a));
    if (m->form >= MXFP8) ig_build_output(g, "turned", microscaled(g, m, a, true));
}

static void count_products(struct ig_job *job, void *argument) {
    const struct imported *m = argument;
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    build_imported(g, m);
    g = rewrite_by_passes(g, "narrow-weights canonicalize merge-matmul");
    int found = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (n->op != IG_OP_matmul_blocks) continue;
        assert_int_equal(ig_attr_int(g, n, IG_ATTR_bits), m->bits);
        found++;
    }
    assert_int_equal(found, m->products);
}

static void models(void **state) {
    (void)state;
    for (int i = 0; i < IMPORTED; i++) {
        rewrite_in_job(count_products, &imported[i], "narrow-weights");
        add_case("as imported", build_imported, &imported[i], sum_tolerance(INGOT_F32) * 4, 0);
    }
    check_all();
}

/* kernel_blocks_test [PATTERN]: runs only the tests whose names match. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates), cmocka_unit_test(forms),  cmocka_unit_test(hostile_rows),
        cmocka_unit_test(epilogues),  cmocka_unit_test(tokens), cmocka_unit_test(models),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
