/*
 * Products and convolutions of bytes, u8 and i8 in every combination: the same sums in i32 as the reference evaluator's, with
 * operands over their whole range, and borders that are not 0.
 */
#include <math.h>

#include "kernel/kernel.h"
#include "pass/product/winograd.h"
#include "support/check/kernel_cases.h"
#include "support/check/passes.h"

/* ---- Products ---- */

struct product {
    int a_rank, b_rank;
    int64_t a[3], b[3];
    bool constant; /* b */
};

struct typed {
    enum ingot_dtype a, b;
    const void *shape; /* struct product or struct conv */
};

/* b over its whole range, as input or constant: constants repeat the extremes often. */
static ig_value second(struct ig_graph *g, const char *name, enum ingot_dtype dtype, int rank, const int64_t *dims,
                       bool constant) {
    if (!constant) return input(g, name, dtype, rank, dims);
    ig_value wide = ig_build_cast(g, random_constant(g, INGOT_I8, rank, dims, 3), INGOT_I32);
    wide = ig_map2(g, IG_OP_mul, wide, ig_build_scalar_int(g, INGOT_I32, 51));
    return ig_build_cast_saturating(g, wide, dtype);
}

static void build_product(struct ig_graph *g, const void *argument) {
    const struct typed *t = argument;
    const struct product *p = t->shape;
    ig_value a = input(g, "a", t->a, p->a_rank, p->a);
    ig_value b = second(g, "b", t->b, p->b_rank, p->b, p->constant);
    ig_build_output(g, "y", ig_build_matmul(g, a, b, INGOT_I32));
}

/* Activations by activations, as they lie and transposed: those of i8 among them are copied with steps of the depth together. */
static void build_activations(struct ig_graph *g, const void *argument) {
    const struct typed *t = argument;
    const struct product *p = t->shape;
    const int64_t turned[] = {p->b[0], p->b[2], p->b[1]};
    ig_value a = input(g, "a", t->a, 3, p->a), b = input(g, "turned", t->b, 3, turned);
    b = ig_build_transpose(g, b, (const int64_t[]){0, 2, 1});
    ig_build_output(g, "y", ig_build_matmul(g, a, input(g, "b", t->b, 3, p->b), INGOT_I32));
    ig_build_output(g, "z", ig_build_matmul(g, a, b, INGOT_I32));
}

static const struct product activations[] = {
    {3, 3, {2, 33, 64}, {2, 64, 50}, false},
    {3, 3, {2, 3, 12}, {2, 12, 70}, false},
    {3, 3, {2, 17, 9}, {2, 9, 33}, false},
    {3, 3, {1, -2, 128}, {1, 128, -3}, false},
};

static const struct product products[] = {
    {2, 2, {1, 1}, {1, 1}, true},        {2, 2, {1, 300}, {300, 77}, true}, {2, 2, {-3, 67}, {67, 40}, true},
    {2, 2, {23, 131}, {131, 39}, false}, {3, 2, {2, 9, 5}, {5, 33}, true},  {3, 3, {2, -2, 20}, {2, 20, -3}, false},
    {2, 2, {3, 0}, {0, 8}, false},       {2, 2, {0, 4}, {4, 8}, true},      {2, 2, {64, 1024}, {1024, 64}, true},
};

/* ---- Convolutions ---- */

struct conv {
    int spatial;
    int64_t batch, in, out, groups, size[2], kernel[2], stride[2], dilation[2], before[2], after[2], border;
    bool last, constant, bias, transformed;
};

static void build_conv(struct ig_graph *g, const void *argument) {
    const struct typed *t = argument;
    const struct conv *c = t->shape;
    int rank = c->spatial + 2;
    int64_t image[4] = {c->batch}, filters[4] = {c->out, c->in / c->groups}, border = c->border;
    image[c->last ? rank - 1 : 1] = c->in;
    ig_dim before[2], after[2];
    for (int i = 0; i < c->spatial; i++) {
        image[i + (c->last ? 1 : 2)] = c->size[i];
        filters[i + 2] = c->kernel[i];
        before[i] = number(g, c->before[i]);
        after[i] = number(g, c->after[i]);
    }
    if (t->a == INGOT_I8 && border != 0) border -= 128;
    ig_value in[] = {input(g, "x", t->a, rank, image), second(g, "w", t->b, rank, filters, c->constant), IG_NO_VALUE};
    if (c->transformed) in[1] = ig_winograd_integer_filters(g, in[1]);
    if (c->bias) in[2] = random_constant(g, INGOT_I32, 1, &c->out, 12);
    const struct ig_attr attrs[] = {ig_attr_of_ints(c->stride, c->spatial),
                                    ig_attr_of_ints(c->dilation, c->spatial),
                                    ig_attr_of_dims(before, c->spatial),
                                    ig_attr_of_dims(after, c->spatial),
                                    ig_attr_of_int(c->groups),
                                    ig_attr_of_dtype(INGOT_I32),
                                    ig_attr_of_int(c->last),
                                    ig_attr_of_int(0),
                                    ig_attr_of_int(c->out),
                                    ig_attr_of_ints(c->kernel, c->spatial),
                                    ig_attr_of_int(IG_MATH_EXACT),
                                    ig_attr_of_int(border)};
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_build_output(g, "y", ig_build_node(g, IG_OP_conv, in, c->bias ? 3 : 2, 1, attrs, none));
}

#define PLANE(n, h, w, i, o, g, k, s, p, value)                                                                   \
    .spatial = 2, .batch = n, .size = {h, w}, .in = i, .out = o, .groups = g, .kernel = {k, k}, .stride = {s, s}, \
    .dilation = {1, 1}, .before = {p, p}, .after = {p, p}, .border = value

static const struct conv convs[] = {
    {PLANE(2, 9, 7, 5, 9, 1, 3, 1, 1, 0), .constant = true, .bias = true},
    {PLANE(2, 9, 7, 5, 9, 1, 3, 1, 1, 255), .constant = true, .bias = true},
    {PLANE(-1, -2, 7, 16, 40, 1, 3, 2, 1, 131), .constant = true, .last = true},
    {PLANE(1, 11, 12, 3, 24, 1, 7, 2, 3, 114), .constant = true, .bias = true}, /* a picture */
    {PLANE(1, 3, 3, 6, 17, 1, 3, 1, 4, 128), .last = true},                     /* windows wholly beyond the edges */
    {PLANE(2, 6, 5, 64, 40, 1, 1, 1, 0, 128), .constant = true},                /* a border that nothing reads */
    {PLANE(1, 6, 5, 8, 40, 1, 1, 2, 1, 7), .constant = true, .bias = true},
    {PLANE(1, 10, 9, 24, 24, 24, 3, 1, 1, 77), .constant = true, .bias = true}, /* depthwise */
    {PLANE(2, 8, 9, 20, 20, 20, 5, 2, 2, 200), .last = true, .bias = true},
    {PLANE(1, 8, 8, 12, 20, 4, 3, 1, 1, 9), .constant = true},
    {.spatial = 1,
     .batch = 2,
     .size = {30},
     .in = 5,
     .out = 18,
     .groups = 1,
     .kernel = {4},
     .stride = {3},
     .dilation = {2},
     .before = {3},
     .after = {1},
     .border = 3,
     .last = true,
     .constant = true},
    {.spatial = 2,
     .batch = 1,
     .size = {9, 30},
     .in = 512,
     .out = 70,
     .groups = 1,
     .kernel = {3, 3},
     .stride = {1, 1},
     .dilation = {7, 20},
     .before = {7, 20},
     .after = {7, 20},
     .border = 91,
     .last = true,
     .constant = true},                                          /* most taps of a block lie beyond the image */
    {PLANE(1, 9, 13, 3, 24, 1, 7, 2, 3, 114), .constant = true}, /* pictures that are not regrouped */
    {PLANE(2, 9, 13, 3, 24, 1, 3, 1, 1, 11), .constant = true, .bias = true},
    {PLANE(2, 5, 14, 32, 40, 1, 3, 1, 1, 131), .constant = true, .bias = true}, /* lines that share tiles of AMX */
    {PLANE(1, -4, 28, 64, 24, 1, 3, 1, 1, 0), .constant = true, .last = true},
    {PLANE(1, 7, 75, 64, 40, 1, 1, 2, 0, 0), .constant = true},
};

/* Filters transformed for F(2 x 2, 3 x 3). */
#define FILTERS(n, h, w, i, o, d, p, value)                                                                       \
    .spatial = 2, .batch = n, .size = {h, w}, .in = i, .out = o, .groups = 1, .kernel = {3, 3}, .stride = {1, 1}, \
    .dilation = {d, d}, .before = {p, p}, .after = {p, p}, .border = value, .last = true, .constant = true,       \
    .transformed = true

static const struct conv transformed[] = {
    {FILTERS(2, 9, 7, 16, 40, 1, 1, 131), .bias = true},
    {FILTERS(1, 1, 1, 2, 1, 1, 1, 255)}, /* one output of one tile */
    {FILTERS(1, 3, 4, 6, 17, 1, 4, 7)},  /* tiles wholly beyond the edges */
    {FILTERS(1, 14, 15, 40, 33, 1, 0, 0), .bias = true},
    {FILTERS(1, 2, 3, 1826, 5, 1, 1, 255), .bias = true}, /* sums near 2^31 */
    {FILTERS(-1, 11, 26, 6, 70, 4, 4, 128)},
    {FILTERS(-1, -2, 9, 6, 33, 1, 1, 9), .bias = true}, /* any number of lines: filters are recovered */
};

/* Depthwise, packed on GPUs whatever the channels; and groups, of which GPUs join several. */
static const struct conv grouped[] = {
    {PLANE(-1, 9, 14, 17, 17, 17, 3, 1, 1, 131), .constant = true, .bias = true},
    {PLANE(2, 7, 8, 3, 3, 3, 5, 2, 2, 255), .constant = true},
    {PLANE(1, 1, 1, 16, 16, 16, 3, 1, 1, 128), .constant = true},
    {PLANE(2, -2, 6, 10, 10, 10, 2, 1, 5, 7), .constant = true, .last = true}, /* windows wholly beyond the edges */
    {.spatial = 2,
     .batch = 1,
     .size = {13, 29},
     .in = 8,
     .out = 8,
     .groups = 8,
     .kernel = {7, 3},
     .stride = {1, 2},
     .dilation = {2, 9},
     .before = {0, 4},
     .after = {6, 11},
     .border = 91,
     .last = true,
     .constant = true},
    {.spatial = 1,
     .batch = -1,
     .size = {40},
     .in = 6,
     .out = 6,
     .groups = 6,
     .kernel = {9},
     .stride = {1},
     .dilation = {1},
     .before = {8},
     .after = {0},
     .border = 3,
     .last = true,
     .constant = true},
    {PLANE(-1, 9, 9, 32, 64, 8, 3, 2, 1, 131), .constant = true, .bias = true},
    {PLANE(1, 7, 6, 30, 15, 15, 3, 1, 1, 200), .constant = true, .last = true},
    {PLANE(2, 6, 5, 6, 18, 3, 1, 1, 0, 0), .constant = true},
    {PLANE(1, 5, 5, 34, 51, 17, 3, 1, 3, 9), .constant = true, .last = true, .bias = true},
};

/* ---- The combinations of types ---- */

static const enum ingot_dtype bytes[] = {INGOT_U8, INGOT_I8};
#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

static void check(void (*build)(struct ig_graph *, const void *), const void *shapes, size_t size, int count,
                  const char *what) {
    static struct typed all[4 * 20];
    static const int64_t sizes[] = {2, 9, 33, 0};
    assert_true(4 * count <= COUNT(all));
    for (int i = 0; i < 4 * count; i++) {
        all[i] = (struct typed){bytes[i % 4 / 2], bytes[i % 2], (const char *)shapes + (size_t)(i / 4) * size};
        add_named_case(build, &all[i], GRAPH_HOSTILE | GRAPH_VNNI, sizes, "%s %d, %s x %s", what, i / 4,
                       ingot_dtype_name(all[i].a), ingot_dtype_name(all[i].b));
    }
    check_all();
}

static void test_products(void **state) {
    (void)state;
    check(build_product, products, sizeof *products, COUNT(products), "product");
    check(build_activations, activations, sizeof *activations, COUNT(activations), "activations");
}

static void test_convolutions(void **state) {
    (void)state;
    check(build_conv, convs, sizeof *convs, COUNT(convs), "convolution");
    check(build_conv, grouped, sizeof *grouped, COUNT(grouped), "in groups");
}

static void test_transformed(void **state) {
    (void)state;
    static struct typed all[2 * COUNT(transformed)];
    for (int i = 0; i < COUNT(all); i++) {
        all[i] = (struct typed){bytes[i % 2], INGOT_I8, &transformed[i / 2]};
        add_named_case(build_conv, &all[i], GRAPH_HOSTILE, (const int64_t[]){2, 9, 33, 0}, "filters %d, %s", i / 2,
                       ingot_dtype_name(all[i].a));
    }
    check_all();
}

/* ---- Results that are quantised ---- */

struct quantised {
    enum ingot_dtype dtype;
    double zero, scale; /* NaN: no rounding, no zero point */
    int64_t rows, columns;
};

/* The bytes, dequantised, plus others, quantised and bounded. */
static ig_value residual(struct ig_graph *g, const struct quantised *q, ig_value stored) {
    const int64_t shape[] = {q->rows, q->columns};
    ig_value r = ig_build_cast(g, input(g, "r", q->dtype, 2, shape), INGOT_F32);
    ig_value y = ig_map2(g, IG_OP_mul, ig_build_cast(g, stored, INGOT_F32), ig_build_scalar(g, INGOT_F32, 0.7));
    y = ig_map2(g, IG_OP_add, y, ig_map2(g, IG_OP_mul, r, ig_build_scalar(g, INGOT_F32, 0.9)));
    y = ig_map2(g, IG_OP_add, ig_map1(g, IG_OP_round, y), ig_build_scalar(g, INGOT_F32, 5));
    return ig_map2(g, IG_OP_max, ig_build_cast_saturating(g, y, q->dtype), ig_build_scalar_int(g, q->dtype, 11));
}

/* Sums in i32 and in f32, scaled per channel to somewhat more than the range of bytes; those in f32 are of one product, so that
 * they are exact, and some are NaN or infinite. */
static void build_quantised(struct ig_graph *g, const void *argument) {
    const struct quantised *q = argument;
    const int64_t a[] = {q->rows, 50}, b[] = {50, q->columns}, one_column[] = {q->rows, 1}, one_row[] = {1, q->columns};
    ig_value x = input(g, "x", INGOT_U8, 2, a), f = input(g, "f", INGOT_F32, 2, one_column);
    ig_value sums[] = {ig_build_matmul(g, x, second(g, "w", INGOT_I8, 2, b, true), INGOT_I32),
                       ig_build_matmul(g, f, random_constant(g, INGOT_F32, 2, one_row, 4), INGOT_F32)};
    for (int i = 0; i < 2; i++) {
        ig_value y = ig_build_cast(g, sums[i], INGOT_F32);
        y = ig_map2(g, IG_OP_mul, y, random_constant(g, INGOT_F32, 1, &q->columns, 5));
        y = ig_map2(g, IG_OP_mul, y, ig_build_scalar(g, INGOT_F32, i ? 0x1p-2 : q->scale));
        if (q->zero == q->zero) {
            y = ig_map1(g, IG_OP_round, y);
            if (q->zero != 0) y = ig_map2(g, IG_OP_add, y, ig_build_scalar(g, INGOT_F32, q->zero));
        }
        ig_value stored = ig_build_cast_saturating(g, y, q->dtype);
        ig_build_output(g, i ? "g" : "y", stored);
        if (i == 0) ig_build_output(g, "residual", residual(g, q, stored));
    }
}

static const struct quantised quantised[] = {
    {INGOT_U8, 0, 0x1p-6, 20, 64}, {INGOT_U8, 131, 0x1p-8, 3, 77}, {INGOT_U8, NAN, 0x1p-6, 40, 33},
    {INGOT_I8, 0, 0x1p-7, 20, 64}, {INGOT_I8, -5, 0x1p-8, 7, 19},  {INGOT_I8, NAN, 0x1p-7, 40, 100},
    {INGOT_I8, 127, 0x1p-8, 1, 1}, {INGOT_U8, 1, 0x1p100, 9, 16},  {INGOT_I8, -128, 0x1p100, 9, 48},
};

static void test_quantised(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(quantised); i++) {
        add_named_case(build_quantised, &quantised[i], GRAPH_POISON | GRAPH_VNNI, (const int64_t[]){0, 0, 0, 0},
                       "quantised %d", i);
    }
    check_all();
}

/* ---- How the second activation is copied ---- */

static bool has_micro(const struct ig_kernel *kernel, enum ig_micro_kind kind) {
    for (uint32_t i = 0; i < kernel->micros.count; i++)
        if (kernel->micros.at[i].kind == kind) return true;
    return false;
}

/* By micro-kernels, as it lies and transposed, and not element by element. */
static void check_copies(struct ig_job *job, void *argument) {
    static const struct ig_target target = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
    static const enum ig_micro_kind kinds[] = {IG_MICRO_INTERLEAVE, IG_MICRO_PACK};
    const struct typed t = {INGOT_U8, INGOT_I8, &activations[0]};
    const struct ig_pass_options options = {.target = &target};
    (void)argument;
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    build_activations(g, &t);
    g = passes_named(g, "pack fuse partition", &options);
    int found[2] = {0, 0};
    for (uint32_t r = 0; r < g->regions.count; r++) {
        if (g->regions.at[r].family != IG_FAMILY_CONTRACT) continue;
        const struct ig_kernel *kernel = ig_kernel_make(g, &g->regions.at[r], &target);
        for (int i = 0; i < 2; i++)
            found[i] += has_micro(kernel, kinds[i]);
    }
    assert_int_equal(found[0], 1);
    assert_int_equal(found[1], 1);
}

static void test_copies(void **state) {
    (void)state;
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, check_copies, NULL, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) fail_msg("%s", error.message);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copies), cmocka_unit_test(test_products),
                                       cmocka_unit_test(test_convolutions), cmocka_unit_test(test_transformed),
                                       cmocka_unit_test(test_quantised)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
