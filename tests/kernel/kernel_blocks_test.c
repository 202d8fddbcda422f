/*
 * Products with weights of few bits (matmul_blocks): every form of codes, scales and zero points, packed and plain, on
 * shapes that fit nothing; with NaN and infinities among scales and activations. The reference evaluator dequantises each
 * weight with the same roundings, so that only sums differ.
 */
#include <math.h>

#include "ir/blocks.h"
#include "support/check/kernel_cases.h"

enum zero { NO_ZERO, BYTES, FLOATS };

struct product {
    int64_t rows; /* -1: the symbol "s0" */
    int64_t depth, columns;
    int bits;
    int64_t block;
    enum zero zero;
    bool table, hostile; /* hostile: NaN, infinities and denormals among the scales */
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
    {1, 200, 40, 4, 32, NO_ZERO, false, true, INGOT_F32, INGOT_F32},
    {3, 200, 40, 4, 16, BYTES, false, true, INGOT_F32, INGOT_F32},
    {2, 140, 40, 4, 64, BYTES, true, true, INGOT_F32, INGOT_F32},
    {2, 140, 40, 8, 32, BYTES, false, true, INGOT_F32, INGOT_F32},
    {1, 140, 24, 4, 32, BYTES, false, true, INGOT_F16, INGOT_F16},
    {2, 70, 20, 8, 16, NO_ZERO, false, true, INGOT_BF16, INGOT_F32},
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
            entries[] = {16};
    ig_value a = input(g, "a", p->a, 2, a_dims);
    struct ig_blocks b = {.bits = p->bits, .block = p->block, .zero = IG_NO_VALUE, .table = IG_NO_VALUE};
    b.codes = codes_of(g, p->columns, p->depth, (1 << p->bits) - 1, (uint32_t)p->depth);
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

static void epilogues(void **state) {
    static const struct product p = {.depth = 192, .columns = 50, .block = 64};
    (void)state;
    add_case("epilogue", build_epilogue, &p, sum_tolerance(INGOT_F32) * 4, 0);
    add_case("epilogue in f16", build_epilogue, &p, 1e-2, GRAPH_FP16);
    add_case("epilogue in bf16", build_epilogue, &p, 5e-2, GRAPH_BF16);
    check_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(hostile_rows),
        cmocka_unit_test(epilogues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
