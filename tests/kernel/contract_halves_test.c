/* Products and convolutions of bf16, whose weights are packed in pairs where the target multiplies these (AMX), against the
 * reference evaluator. */
#include "support/check/kernel_cases.h"

struct halves {
    int64_t rows, depth, columns; /* a product; rows 0: a convolution */
    int64_t batch, size[2], in, out, groups, kernel, stride, dilation, pad;
    enum ingot_dtype result;
};

static ig_value finish(struct ig_graph *g, const struct halves *h, ig_value y) {
    int64_t columns = h->rows ? h->columns : h->out;
    y = ig_map2(g, IG_OP_add, y, random_constant(g, INGOT_F32, 1, &columns, 5));
    return ig_build_cast(g, ig_map2(g, IG_OP_max, y, ig_build_scalar(g, INGOT_F32, 0)), h->result);
}

static void build_product(struct ig_graph *g, const void *argument) {
    const struct halves *h = argument;
    const int64_t a[] = {h->rows, h->depth}, b[] = {h->depth, h->columns};
    ig_value x = input(g, "x", INGOT_BF16, 2, a);
    ig_value w = ig_build_cast(g, random_constant(g, INGOT_F32, 2, b, 3), INGOT_BF16);
    ig_build_output(g, "y", finish(g, h, ig_build_matmul(g, x, w, INGOT_F32)));
}

/* Activations by activations, as they lie and transposed. */
static void build_activations(struct ig_graph *g, const void *argument) {
    const struct halves *h = argument;
    const int64_t a[] = {2, h->rows, h->depth}, b[] = {2, h->depth, h->columns}, t[] = {2, h->columns, h->depth};
    ig_value x = input(g, "x", INGOT_BF16, 3, a), turned = input(g, "t", INGOT_BF16, 3, t);
    turned = ig_build_transpose(g, turned, (const int64_t[]){0, 2, 1});
    ig_build_output(g, "y", finish(g, h, ig_build_matmul(g, x, input(g, "w", INGOT_BF16, 3, b), INGOT_F32)));
    ig_build_output(g, "z", finish(g, h, ig_build_matmul(g, x, turned, INGOT_F32)));
}

static void build_conv(struct ig_graph *g, const void *argument) {
    const struct halves *h = argument;
    const int64_t image[] = {h->batch, h->size[0], h->size[1], h->in};
    const int64_t filters[] = {h->out, h->in / h->groups, h->kernel, h->kernel};
    const int64_t kernel[] = {h->kernel, h->kernel}, strides[] = {h->stride, h->stride};
    const int64_t dilations[] = {h->dilation, h->dilation};
    ig_dim pads[] = {number(g, h->pad), number(g, h->pad)};
    ig_value w = ig_build_cast(g, random_constant(g, INGOT_F32, 4, filters, 3), INGOT_BF16);
    ig_value in[] = {input(g, "x", INGOT_BF16, 4, image), w, IG_NO_VALUE};
    const struct ig_attr attrs[] = {ig_attr_of_ints(strides, 2),
                                    ig_attr_of_ints(dilations, 2),
                                    ig_attr_of_dims(pads, 2),
                                    ig_attr_of_dims(pads, 2),
                                    ig_attr_of_int(h->groups),
                                    ig_attr_of_dtype(INGOT_F32),
                                    ig_attr_of_int(1),
                                    ig_attr_of_int(0),
                                    ig_attr_of_int(h->out),
                                    ig_attr_of_ints(kernel, 2),
                                    ig_attr_of_int(IG_MATH_EXACT),
                                    ig_attr_of_int(0)};
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_build_output(g, "y", finish(g, h, ig_build_node(g, IG_OP_conv, in, 2, 1, attrs, none)));
}

static const struct halves products[] = {
    {1, 1, 1, .result = INGOT_F32},      {1, 300, 77, .result = INGOT_BF16},  {15, 33, 40, .result = INGOT_F32},
    {16, 64, 32, .result = INGOT_BF16},  {17, 131, 33, .result = INGOT_F32},  {-3, 96, 64, .result = INGOT_BF16},
    {49, 768, 100, .result = INGOT_F32}, {70, 3000, 40, .result = INGOT_F32}, {33, 34, 16, .result = INGOT_BF16},
};

#define PLANE(n, h, w, i, o, g, k, s, d, p) \
    .batch = n, .size = {h, w}, .in = i, .out = o, .groups = g, .kernel = k, .stride = s, .dilation = d, .pad = p

static const struct halves convs[] = {
    {PLANE(2, 9, 7, 5, 9, 1, 3, 1, 1, 1), .result = INGOT_BF16},
    {PLANE(1, 21, 17, 3, 64, 1, 7, 2, 1, 3), .result = INGOT_BF16},
    {PLANE(1, 13, 11, 64, 24, 1, 1, 1, 1, 0), .result = INGOT_F32},
    {PLANE(2, 8, 8, 32, 70, 1, 3, 2, 1, 1), .result = INGOT_BF16},
    {PLANE(1, 8, 9, 20, 40, 4, 3, 1, 1, 1), .result = INGOT_F32},
    {PLANE(1, 10, 9, 24, 24, 24, 3, 1, 1, 1), .result = INGOT_BF16}, /* depthwise */
    {PLANE(1, 9, 30, 128, 40, 1, 3, 1, 7, 7), .result = INGOT_F32},  /* taps beyond the image */
    {PLANE(-1, -2, 7, 16, 40, 1, 3, 1, 1, 1), .result = INGOT_BF16},
    {PLANE(2, 5, 14, 32, 40, 1, 3, 1, 1, 1), .result = INGOT_BF16}, /* lines that share tiles of AMX */
    {PLANE(1, 7, 75, 64, 40, 1, 1, 2, 1, 0), .result = INGOT_F32},
};

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

static void check(void (*build)(struct ig_graph *, const void *), const struct halves *shapes, int count) {
    for (int i = 0; i < count; i++) {
        struct graph_case *c =
            add_named_case(build, &shapes[i], GRAPH_VNNI, (const int64_t[]){2, 9, 33, 0}, "number %d", i);
        c->tolerance = shapes[i].result == INGOT_BF16 ? 0x1p-8 : 2e-5;
    }
    check_all();
}

static void test_products(void **state) {
    (void)state;
    check(build_product, products, COUNT(products));
    check(build_activations, products, COUNT(products));
}

static void test_convolutions(void **state) {
    (void)state;
    check(build_conv, convs, COUNT(convs));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_convolutions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
