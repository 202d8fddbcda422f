/*
 * Products of u8 by i8 where sums of two products fit 16 bits or just not: weights at the limit, in panels that have quads of
 * both kinds (codegen/c/gemm_quads.c), and bytes that are all 255, so that what saturates shows.
 */
#include "support/check/kernel_cases.h"

struct limits {
    enum ingot_dtype a;
    int64_t rows, depth, columns;
    int every;       /* each such quad is proved, whatever the column; 0: none, 1: all */
    bool transposed; /* B is computed by the network, and its rows are columns */
};

/* Two weights each: up to 6 of them are proved. */
static const int8_t pairs[][2] = {{64, 64}, {-64, -64}, {127, 1},   {-128, 0},  {127, -128},  {-1, -127}, {64, 65},
                                  {127, 2}, {-64, -65}, {-128, -1}, {127, 127}, {-128, -128}, {2, 127},   {-3, -126}};

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static int8_t *make_weights(struct ig_graph *g, const struct limits *l) {
    enum { PROVED = 6, ALL = sizeof pairs / sizeof *pairs };
    int64_t depth = l->depth, columns = l->columns;
    int8_t *w = ig_alloc(g->job, (size_t)(depth * columns) + 64);
    uint32_t state = 7;
    for (int64_t k = 0; k < depth; k += 2) {
        bool proved = l->every && k / 4 % l->every == 0;
        for (int64_t n = 0; n < columns; n++) {
            const int8_t *pair = pairs[next(&state) % (uint32_t)(proved ? PROVED : ALL)];
            for (int64_t i = 0; i < 2 && k + i < depth; i++)
                w[l->transposed ? n * depth + k + i : (k + i) * columns + n] = pair[i];
        }
    }
    return w;
}

static ig_value constant(struct ig_graph *g, const struct limits *l) {
    const int64_t dims[] = {l->transposed ? l->columns : l->depth, l->transposed ? l->depth : l->columns};
    struct ig_data data = {
        .bytes = make_weights(g, l), .size = (size_t)(l->depth * l->columns), .initializer = "weights"};
    return ig_build_constant(g, INGOT_I8, 2, dims, ig_memdup(g->job, &data, sizeof data));
}

static ig_value product(struct ig_graph *g, const struct limits *l, ig_value x, ig_value w) {
    if (!l->transposed) return ig_build_matmul(g, x, w, INGOT_I32);
    /* The same numbers, but no constant any more. */
    ig_value most = ig_map2(g, IG_OP_max, input(g, "most", INGOT_I8, 0, NULL), ig_build_scalar_int(g, INGOT_I8, 127));
    w = ig_map2(g, IG_OP_min, w, most);
    return ig_build_matmul(g, x, ig_build_transpose(g, w, (const int64_t[]){1, 0}), INGOT_I32);
}

static void build_limits(struct ig_graph *g, const void *argument) {
    const struct limits *l = argument;
    const int64_t shape[] = {l->rows, l->depth};
    ig_value x = input(g, "x", l->a, 2, shape), w = constant(g, l);
    ig_value most = ig_map2(g, IG_OP_max, x, ig_build_scalar_int(g, l->a, l->a == INGOT_U8 ? 255 : 127));
    ig_build_output(g, "y", product(g, l, x, w));
    ig_build_output(g, "z", product(g, l, most, w));
}

/* The same weights as filters of 3x3 over 8 channels, or of 1x1. */
static void build_images(struct ig_graph *g, const void *argument) {
    const struct limits *l = argument;
    int64_t size = l->depth % 9 == 0 ? 3 : 1, channels = l->depth / size / size;
    const int64_t image[] = {1, channels, 7, l->rows}, filters[] = {l->columns, channels, size, size};
    struct limits turned = *l;
    turned.transposed = true;
    struct ig_data data = {
        .bytes = make_weights(g, &turned), .size = (size_t)(l->depth * l->columns), .initializer = "weights"};
    ig_value x = input(g, "x", l->a, 4, image);
    ig_value w = ig_build_constant(g, INGOT_I8, 4, filters, ig_memdup(g->job, &data, sizeof data));
    x = ig_map2(g, IG_OP_max, x, ig_build_scalar_int(g, l->a, l->a == INGOT_U8 ? 254 : 126));
    const int64_t ones[] = {1, 1}, kernel[] = {size, size};
    ig_dim pad[] = {number(g, size / 2), number(g, size / 2)};
    const struct ig_attr attrs[] = {ig_attr_of_ints(ones, 2),
                                    ig_attr_of_ints(ones, 2),
                                    ig_attr_of_dims(pad, 2),
                                    ig_attr_of_dims(pad, 2),
                                    ig_attr_of_int(1),
                                    ig_attr_of_dtype(INGOT_I32),
                                    ig_attr_of_int(0),
                                    ig_attr_of_int(0),
                                    ig_attr_of_int(l->columns),
                                    ig_attr_of_ints(kernel, 2),
                                    ig_attr_of_int(IG_MATH_EXACT),
                                    ig_attr_of_int(l->a == INGOT_U8 ? 255 : 0)};
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_build_output(g, "y", ig_build_node(g, IG_OP_conv, (ig_value[]){x, w}, 2, 1, attrs, none));
}

static const struct limits products[] = {
    {INGOT_U8, 33, 64, 40, 2, false}, {INGOT_U8, 33, 64, 40, 1, false},   {INGOT_U8, 33, 70, 17, 0, false},
    {INGOT_I8, 40, 36, 16, 3, false}, {INGOT_U8, 70, 2600, 20, 2, false}, /* several steps of the depth */
    {INGOT_U8, 5, 64, 40, 2, false},                                      /* one block of rows: no list */
    {INGOT_U8, -3, 64, 40, 2, false}, {INGOT_U8, 40, 64, 24, 3, true},    {INGOT_U8, 40, 34, 24, 2, true},
};

static const struct limits images[] = {
    {INGOT_U8, 9, 72, 40, 2, false}, {INGOT_I8, 9, 72, 24, 2, false}, {INGOT_U8, 12, 64, 33, 3, false}};

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

static void test_limits(void **state) {
    static const int64_t sizes[] = {2, 9, 33, 0};
    (void)state;
    for (int i = 0; i < COUNT(products); i++)
        add_named_case(build_limits, &products[i], GRAPH_HOSTILE, sizes, "product %d", i);
    for (int i = 0; i < COUNT(images); i++)
        add_named_case(build_images, &images[i], GRAPH_HOSTILE, sizes, "images %d", i);
    check_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
