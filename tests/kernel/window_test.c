/* Pooling with extreme shapes and windows, against the reference. */
#include <stdio.h>

#include "support/check/graph_check.h"
#include "support/support.h"

struct pool {
    enum ig_op op;
    enum ingot_dtype dtype;
    int spatial;
    int64_t batch, channels, size[3], kernel[3], stride[3], dilation[3], before[3], after[3], out[3];
    bool last, count_pad, column_major, epilogue;
    bool widened; /* from f16 */
    bool strips;  /* large enough for strips of windows on GPUs, which are channels-last, and of no positions */
};

static void build_pool(struct ig_graph *g, const void *argument) {
    const struct pool *p = argument;
    int64_t sizes[INGOT_MAX_RANK];
    sizes[0] = p->batch;
    sizes[p->last ? p->spatial + 1 : 1] = p->channels;
    for (int i = 0; i < p->spatial; i++)
        sizes[i + (p->last ? 1 : 2)] = p->size[i];
    struct ig_type type = sized_type(g, p->widened ? INGOT_F16 : p->dtype, p->spatial + 2, sizes);
    ig_value x = ig_build_cast(g, ig_build_input(g, "x", &type), p->dtype);
    ig_dim before[3], after[3], out[3];
    for (int i = 0; i < p->spatial; i++) {
        int64_t span = (p->kernel[i] - 1) * p->dilation[i] + 1;
        before[i] = ig_dim_const(g->dims, p->before[i]);
        after[i] = ig_dim_const(g->dims, p->after[i]);
        ig_dim room = ig_dim_add(g->dims, type.dim[i + (p->last ? 1 : 2)],
                                 ig_dim_const(g->dims, p->before[i] + p->after[i] - span + p->stride[i]));
        out[i] = p->out[i] ? ig_dim_const(g->dims, p->out[i])
                           : ig_dim_div(g->dims, room, ig_dim_const(g->dims, p->stride[i]));
    }
    struct ig_attr attrs[8] = {ig_attr_of_ints(p->kernel, p->spatial),   ig_attr_of_ints(p->stride, p->spatial),
                               ig_attr_of_ints(p->dilation, p->spatial), ig_attr_of_dims(before, p->spatial),
                               ig_attr_of_dims(out, p->spatial),         ig_attr_of_int(p->last)};
    if (p->op == IG_OP_pool_argmax) attrs[6] = ig_attr_of_int(p->column_major);
    if (p->op == IG_OP_pool_avg) {
        attrs[6] = ig_attr_of_dims(after, p->spatial);
        attrs[7] = ig_attr_of_int(p->count_pad);
    }
    struct ig_graph *const none[2] = {NULL, NULL};
    ig_value y = ig_build_node(g, p->op, &x, 1, 1, attrs, none);
    if (p->epilogue) y = ig_map2(g, IG_OP_mul, y, random_constant(g, p->dtype, 1, (const int64_t[]){1}, 4));
    ig_build_output(g, "y", y);
}

#define PLANE(type, n, c, h, w, k, s, d, b, a)                                                                  \
    .dtype = type, .spatial = 2, .batch = n, .channels = c, .size = {h, w}, .kernel = {k, k}, .stride = {s, s}, \
    .dilation = {d, d}, .before = {b, b}, .after = {a, a}

static const struct pool pools[] = {
    {PLANE(INGOT_F32, 1, 64, 12, 13, 3, 2, 1, 1, 1)},
    {PLANE(INGOT_F32, 2, 5, 7, 6, 2, 2, 1, 0, 0), .epilogue = true},
    {PLANE(INGOT_F32, 1, 130, 5, 5, 3, 1, 2, 2, 2)},
    {PLANE(INGOT_F32, 1, 3, 4, 4, 5, 3, 1, 4, 4)},                /* windows wholly in the padding */
    {PLANE(INGOT_F32, 1, 2, 6, 6, 3, 2, 1, 0, 0), .out = {3, 3}}, /* rounded up: the last window extends beyond x */
    {PLANE(INGOT_F32, 1, 1, 1, 1, 1, 1, 1, 0, 0)},
    {PLANE(INGOT_F32, 1, 200, 7, 7, 7, 1, 1, 0, 0)},
    {PLANE(INGOT_F32, -1, 9, -2, -3, 3, 2, 1, 1, 1)},
    {PLANE(INGOT_F32, 0, 9, 4, 4, 2, 1, 1, 0, 0)},
    {PLANE(INGOT_F16, 1, 20, 9, 9, 3, 2, 1, 1, 1)},
    {PLANE(INGOT_F64, 1, 20, 9, 9, 3, 2, 1, 1, 1)},
    {PLANE(INGOT_I8, 1, 20, 9, 9, 3, 2, 1, 1, 1)},
    {PLANE(INGOT_U8, 1, 20, 9, 9, 3, 2, 1, 1, 1)},
    {PLANE(INGOT_I8, 2, 16, 7, 8, 3, 2, 1, 1, 1)}, /* four bytes at once */
    {PLANE(INGOT_U8, 1, 24, 6, 5, 2, 1, 1, 1, 1)},
    {PLANE(INGOT_I8, 1, 8, 5, 4, 3, 1, 1, 3, 3)}, /* windows beyond the edges, where no element is */
    {PLANE(INGOT_F32, 1, 64, 66, 67, 3, 1, 1, 1, 1), .strips = true},
    {PLANE(INGOT_F16, 1, 64, 66, 67, 3, 1, 1, 1, 1), .epilogue = true, .strips = true},
    {PLANE(INGOT_F32, 1, 128, 66, 67, 3, 1, 1, 1, 1), .strips = true, .widened = true},
    {PLANE(INGOT_F32, 1, 1024, 70, -3, 3, 1, 1, 1, 1), .strips = true}, /* of as many windows as the run says */
    {.dtype = INGOT_F32,
     .spatial = 3,
     .batch = 2,
     .channels = 64,
     .size = {6, 13, 15},
     .kernel = {2, 2, 3},
     .stride = {1, 1, 1},
     .dilation = {1, 1, 1},
     .before = {1, 1, 1},
     .after = {1, 1, 1},
     .strips = true},
    {.dtype = INGOT_F32,
     .spatial = 1,
     .batch = 2,
     .channels = 10,
     .size = {23},
     .kernel = {4},
     .stride = {3},
     .dilation = {2},
     .before = {2},
     .after = {3}},
    {.dtype = INGOT_F32,
     .spatial = 3,
     .batch = 1,
     .channels = 6,
     .size = {4, 5, 6},
     .kernel = {2, 3, 2},
     .stride = {2, 1, 3},
     .dilation = {1, 2, 1},
     .before = {1, 1, 0},
     .after = {0, 2, 1}},
};

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

/* Every pool in both layouts, without the layout pass, each also with NaN and infinities in its input. */
static void check_pools(enum ig_op op, bool flag) {
    static struct pool variants[2 * COUNT(pools)];
    struct graph_case cases[4 * COUNT(pools)] = {0};
    char names[2 * COUNT(pools)][64];
    int count = 0;
    for (int i = 0; i < 2 * COUNT(pools); i++) {
        variants[i] = pools[i / 2];
        if (pools[i / 2].strips && (i % 2 == 0 || op == IG_OP_pool_argmax)) continue;
        variants[i].op = op;
        variants[i].last = i % 2;
        variants[i].count_pad = variants[i].column_major = flag;
        if (op == IG_OP_pool_argmax) variants[i].epilogue = false;
        snprintf(names[i], sizeof names[i], "pool %d, channels %s", i / 2, i % 2 ? "last" : "first");
        double tolerance = variants[i].dtype == INGOT_F16 ? 1e-3 : 1e-6;
        for (int poison = 0; poison < 2; poison++) {
            cases[count++] = (struct graph_case){
                names[i], build_pool, &variants[i], tolerance, GRAPH_RAW | (poison ? GRAPH_POISON : 0), {2, 11, 8, 0}};
        }
    }
    check_graphs(cases, count);
}

static void test_maximum(void **state) {
    (void)state;
    check_pools(IG_OP_pool_max, false);
}

static void test_place_of_maximum(void **state) {
    (void)state;
    check_pools(IG_OP_pool_argmax, false);
    check_pools(IG_OP_pool_argmax, true);
}

static void test_sum(void **state) {
    (void)state;
    check_pools(IG_OP_pool_sum, false);
}

static void test_average(void **state) {
    (void)state;
    check_pools(IG_OP_pool_avg, false);
    check_pools(IG_OP_pool_avg, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_place_of_maximum),
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_average),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
