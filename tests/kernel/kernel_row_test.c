/* Row kernels: every reduction in every direction, size and type, and reductions in sequence, against the reference. */
#include "support/check/kernel_cases.h"

/* ---- Reductions ------------------------------------------------------------------------------------------------------------ */

struct reduced {
    struct shaped shape;
    int n_axes;
    int64_t axes[3];
};

static const enum ig_op reductions[] = {IG_OP_reduce_sum, IG_OP_reduce_mean, IG_OP_reduce_max, IG_OP_reduce_min};

static const struct reduced reduced[] = {
    {{INGOT_F32, 3, {3, 17, 1000}}, 1, {2}},    {{INGOT_F32, 3, {3, 17, 1000}}, 1, {1}},
    {{INGOT_F32, 3, {3, 17, 1000}}, 1, {0}},    {{INGOT_F32, 3, {3, 17, 100}}, 2, {1, 2}},
    {{INGOT_F32, 3, {5, 17, 70}}, 2, {0, 1}},   {{INGOT_F32, 3, {5, 17, 70}}, 2, {0, 2}},
    {{INGOT_F32, 3, {5, 17, 7}}, 3, {0, 1, 2}}, {{INGOT_F32, 3, {1, 1, 1}}, 1, {1}},
    {{INGOT_F32, 3, {2, 0, 3}}, 1, {1}},        {{INGOT_F32, 3, {2, 0, 3}}, 1, {2}},
    {{INGOT_F32, 3, {2, 3, 0}}, 1, {2}},        {{INGOT_F32, 3, {-1, -2, -3}}, 1, {2}},
    {{INGOT_F32, 3, {-1, -2, -3}}, 1, {0}},     {{INGOT_F32, 3, {-1, -2, -4}}, 2, {1, 2}},
    {{INGOT_F32, 3, {1, 2, 30000}}, 1, {2}},    {{INGOT_F32, 3, {1, 5000, 3}}, 1, {1}},
    {{INGOT_F64, 3, {3, 5, 200}}, 1, {2}},      {{INGOT_F64, 3, {3, 5, 66}}, 1, {1}},
    {{INGOT_F16, 3, {3, 5, 200}}, 1, {2}},      {{INGOT_BF16, 3, {3, 5, 66}}, 1, {1}},
    {{INGOT_I8, 3, {3, 5, 100}}, 1, {2}},       {{INGOT_U8, 3, {3, 5, 65}}, 1, {1}},
    {{INGOT_I16, 3, {2, 3, 31}}, 1, {2}},       {{INGOT_U16, 3, {2, 3, 31}}, 1, {1}},
    {{INGOT_I32, 3, {3, 5, 100}}, 1, {2}},      {{INGOT_U32, 3, {3, 5, 65}}, 1, {0}},
    {{INGOT_I64, 3, {3, 5, 100}}, 1, {2}},      {{INGOT_U64, 3, {3, 5, 65}}, 1, {1}},
    {{INGOT_F32, 3, {40, 9, 1}}, 1, {1}},       {{INGOT_F32, 3, {40, 17, 7}}, 2, {0, 2}},
    {{INGOT_I32, 3, {40, 7, 5}}, 2, {0, 2}},    {{INGOT_F16, 3, {70, 40, 4}}, 2, {0, 2}},
    {{INGOT_U8, 3, {20, 3, 12}}, 2, {0, 2}},    {{INGOT_F64, 3, {1100, 3, 2}}, 2, {0, 2}},
};
enum { REDUCED = sizeof reduced / sizeof *reduced };

static void build_reductions(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, 3, r->shape.sizes);
    /* Reductions of a computed value share one kernel; those of x itself have a kernel each. */
    if (r > reduced + 4) x = ig_map1(g, IG_OP_abs, x);
    for (int i = 0; i < 4; i++) {
        ig_build_output(g, ig_op_info(reductions[i])->name, ig_build_reduce(g, reductions[i], x, r->axes, r->n_axes));
    }
    struct ig_graph *const none[2] = {NULL, NULL};
    for (int i = 0; r->n_axes == 1 && i < 4; i++) {
        struct ig_attr attrs[2] = {ig_attr_of_int(r->axes[0]), ig_attr_of_int(i & 1)};
        enum ig_op op = i & 2 ? IG_OP_argmin : IG_OP_argmax;
        ig_build_output(g, ig_format(g->job, "arg%d", i), ig_build_node(g, op, &x, 1, 1, attrs, none));
    }
}

/* Separate, because products of many numbers leave the range of float32, at a point that depends on the order. */
static void build_products(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, 3, r->shape.sizes);
    ig_build_output(g, "prod", ig_build_reduce(g, IG_OP_reduce_prod, x, r->axes, r->n_axes));
}

static void every_reduction(void **state) {
    (void)state;
    for (int i = 0; i < REDUCED; i++) {
        double tolerance = sum_tolerance(reduced[i].shape.dtype);
        add_case("reduce", build_reductions, &reduced[i], tolerance, i & 1 ? 0 : GRAPH_POISON);
        add_case("product", build_products, &reduced[i], tolerance, 0);
    }
    check_all();
}

/* ---- Rows: reductions in sequence -------------------------------------------------------------------------------------------- */

static ig_value over(struct ig_graph *g, const struct reduced *r, enum ig_op op, ig_value x) {
    return ig_build_reduce(g, op, x, r->axes, r->n_axes);
}

static ig_value scalar(struct ig_graph *g, const struct reduced *r, double value) {
    return ig_build_scalar(g, r->shape.dtype, value);
}

static void build_softmax(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, r->shape.rank, r->shape.sizes);
    x = ig_map2(g, IG_OP_mul, x, scalar(g, r, 8));
    ig_value shifted = ig_map2(g, IG_OP_sub, x, over(g, r, IG_OP_reduce_max, x));
    ig_value e = ig_map1(g, IG_OP_exp, shifted), sum = over(g, r, IG_OP_reduce_sum, e);
    ig_build_output(g, "softmax", ig_map2(g, IG_OP_div, e, sum));
    ig_build_output(g, "log", ig_map2(g, IG_OP_sub, shifted, ig_map1(g, IG_OP_log, sum)));
}

static void build_norm(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, r->shape.rank, r->shape.sizes),
             residual = input(g, "r", r->shape.dtype, r->shape.rank, r->shape.sizes);
    x = ig_map2(g, IG_OP_add, x, residual);
    ig_value centred = ig_map2(g, IG_OP_sub, x, over(g, r, IG_OP_reduce_mean, x));
    ig_value variance = over(g, r, IG_OP_reduce_mean, ig_map2(g, IG_OP_mul, centred, centred));
    ig_value deviation = ig_map1(g, IG_OP_sqrt, ig_map2(g, IG_OP_add, variance, scalar(g, r, 1e-3)));
    ig_value scale = input(g, "scale", r->shape.dtype, r->shape.rank - 2, r->shape.sizes + 2);
    ig_value y = ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_div, centred, deviation), scale);
    ig_build_output(g, "sum", x);
    ig_build_output(g, "norm", y);
    ig_build_output(g, "deviation", deviation);
}

/* A softmax of what a mask of bytes and codes of a byte leave, both of which all images share. */
static void build_masked(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    int64_t shared[3] = {1, r->shape.sizes[1], r->shape.sizes[2]};
    ig_value x = input(g, "x", r->shape.dtype, 3, r->shape.sizes);
    ig_value mask = input(g, "mask", INGOT_BOOL, 3, shared), codes = input(g, "codes", INGOT_I8, 3, shared);
    ig_value bias = ig_map2(g, IG_OP_mul, ig_build_cast(g, codes, r->shape.dtype), scalar(g, r, 1.0 / 64));
    x = ig_map2(g, IG_OP_add, x, bias);
    ig_value negative = ig_map2(g, IG_OP_lt, x, scalar(g, r, 0));
    x = ig_build_where(g, negative, ig_map2(g, IG_OP_mul, x, scalar(g, r, 0.25)), x);
    x = ig_build_where(g, mask, scalar(g, r, -20), x);
    ig_value e = ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_sub, x, over(g, r, IG_OP_reduce_max, x)));
    ig_build_output(g, "softmax", ig_map2(g, IG_OP_div, e, over(g, r, IG_OP_reduce_sum, e)));
    ig_build_output(g, "masked", x);
}

/* An expensive value that three passes need: a mean, the largest distance from it, and an elementwise result. */
static void build_chain(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, r->shape.rank, r->shape.sizes);
    ig_value t = ig_map2(g, IG_OP_mul, ig_map1(g, IG_OP_tanh, x), scalar(g, r, 2));
    ig_value mean = over(g, r, IG_OP_reduce_mean, t);
    ig_value far = ig_map2(g, IG_OP_sub, t, mean);
    ig_value most = over(g, r, IG_OP_reduce_max, ig_map1(g, IG_OP_abs, far));
    ig_build_output(g, "far", ig_map2(g, IG_OP_div, far, ig_map2(g, IG_OP_add, most, scalar(g, r, 1))));
    ig_build_output(g, "t", t);
    ig_build_output(g, "mean", mean);
}

/* Rows of a table, which a row kernel stores besides its own results, because another kernel reads them too. */
static void build_table(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, 3, r->shape.sizes);
    ig_value j = input(g, "j", INGOT_I32, 1, (const int64_t[]){6});
    if (r->shape.sizes[0] != 0) x = ig_build_gather(g, x, j, 0); /* only from axes with elements */
    ig_value mean = over(g, r, IG_OP_reduce_mean, ig_map1(g, IG_OP_abs, x));
    ig_value y = ig_map2(g, IG_OP_div, x, ig_map2(g, IG_OP_add, mean, scalar(g, r, 1)));
    ig_value most = ig_build_reduce(g, IG_OP_reduce_max, y, (const int64_t[]){0, 1, 2}, 3);
    ig_build_output(g, "y", ig_map2(g, IG_OP_add, x, most));
}

static const struct reduced rows[] = {
    {{INGOT_F32, 3, {4, 32, 768}}, 1, {2}},  {{INGOT_F32, 3, {3, 17, 33}}, 1, {2}},
    {{INGOT_F32, 3, {3, 17, 130}}, 1, {1}},  {{INGOT_F32, 3, {6, 5, 1000}}, 1, {0}},
    {{INGOT_F32, 3, {2, 9, 20}}, 2, {1, 2}}, {{INGOT_F32, 3, {2, 9, 20}}, 2, {0, 1}},
    {{INGOT_F32, 3, {3, 1, 1}}, 1, {2}},     {{INGOT_F32, 3, {2, 3, 1}}, 1, {2}},
    {{INGOT_F32, 3, {-1, -2, -4}}, 1, {2}},  {{INGOT_F32, 3, {-1, -3, -4}}, 1, {1}},
    {{INGOT_F32, 3, {0, 3, 5}}, 1, {2}},     {{INGOT_F32, 3, {2, 1, 9000}}, 1, {2}},
    {{INGOT_F64, 3, {2, 3, 40}}, 1, {2}},    {{INGOT_F16, 3, {2, 3, 40}}, 1, {2}},
    {{INGOT_BF16, 3, {2, 13, 80}}, 1, {1}},  {{INGOT_F16, 3, {2, 300, 24}}, 1, {1}},
    {{INGOT_F32, 3, {1, 3, 20001}}, 1, {2}}, {{INGOT_F16, 3, {3, 60, 300}}, 2, {1, 2}},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void reductions_in_sequence(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        double tolerance = 4 * sum_tolerance(rows[i].shape.dtype);
        add_case("softmax", build_softmax, &rows[i], tolerance, 0);
        add_case("norm", build_norm, &rows[i], tolerance, 0);
        add_case("chain", build_chain, &rows[i], tolerance, 0);
        add_case("table", build_table, &rows[i], tolerance, 0);
        add_case("masked", build_masked, &rows[i], tolerance, 0);
        add_case("masked, poisoned", build_masked, &rows[i], tolerance, GRAPH_POISON);
    }
    check_all();
}

/* Pictures of pixels of groups of channels, each group over all pixels. */
#define GROUPS(type, n, pixels, groups, channels)              \
    {                                                          \
        {INGOT_##type, 4, {n, pixels, groups, channels}}, 2, { \
            1, 3                                               \
        }                                                      \
    }
static const struct reduced groups[] = {
    GROUPS(F32, 2, 100, 6, 4),   GROUPS(F16, 1, 1500, 32, 4), GROUPS(F16, 2, 3000, 5, 2),  GROUPS(BF16, 1, 200, 3, 10),
    GROUPS(F32, -1, -4, 3, 8),   GROUPS(F16, 1, 70, 2, 64),   GROUPS(F64, 2, 80, 3, 3),    GROUPS(F32, 1, 4099, 9, 6),
    GROUPS(F32, 0, 100, 6, 4),   GROUPS(F16, 3, 700, 1, 8),   GROUPS(F16, 140, 65, 20, 4), GROUPS(F32, -1, 6000, 4, 3),
    GROUPS(F32, 2, 40, 50, 6),   GROUPS(F32, 1, 30, 3, 70),   GROUPS(F32, 1, 16, 130, 2),  GROUPS(F16, 1, 4096, 16, 4),
    GROUPS(F16, 1, 4099, 16, 4),
};
enum { GROUP_CASES = sizeof groups / sizeof *groups };

static void groups_side_by_side(void **state) {
    (void)state;
    for (int i = 0; i < GROUP_CASES; i++) {
        double tolerance = 4 * sum_tolerance(groups[i].shape.dtype);
        add_case("softmax of groups", build_softmax, &groups[i], tolerance, 0);
        add_case("norm of groups", build_norm, &groups[i], tolerance, i & 1 ? 0 : GRAPH_POISON);
        add_case("chain of groups", build_chain, &groups[i], tolerance, 0);
    }
    check_all();
}

/* Softmax over the tokens of the keys among queries, keys and values [images, tokens, 3, heads, columns], whose heads are no whole accesses. */
static void build_keys(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    const int64_t *n = r->shape.sizes, all[] = {n[0], n[1], 3, n[2], n[3]};
    struct ig_type keys = sized_type(g, r->shape.dtype, 4, n);
    ig_value x = input(g, "x", r->shape.dtype, 5, all);
    x = ig_build_slice_axis(g, x, 2, ig_dim_const(g->dims, 1), ig_dim_const(g->dims, 1), 1);
    x = ig_build_reshape(g, x, keys.dim, 4);
    ig_value e = ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_sub, x, over(g, r, IG_OP_reduce_max, x)));
    ig_build_output(g, "softmax", ig_map2(g, IG_OP_div, e, over(g, r, IG_OP_reduce_sum, e)));
}

static const struct reduced keys[] = {
    {{INGOT_F16, 4, {3, 1100, 8, 19}}, 1, {1}},
    {{INGOT_F16, 4, {140, 90, 8, 5}}, 1, {1}},
    {{INGOT_F16, 4, {-1, -4, 3, 7}}, 1, {1}},
    {{INGOT_F32, 4, {2, 70, 4, 6}}, 1, {1}},
};

static void keys_of_odd_heads(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        add_case("softmax of keys", build_keys, &keys[i], 4 * sum_tolerance(keys[i].shape.dtype), 0);
    check_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reduction),
        cmocka_unit_test(reductions_in_sequence),
        cmocka_unit_test(keys_of_odd_heads),
        cmocka_unit_test(groups_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
