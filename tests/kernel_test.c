/*
 * Elementwise, movement and row kernels against the reference evaluator: every operator in every type on hostile
 * numbers, every view, every reduction in every direction and size, and random trees of them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/graph_check.h"
#include "support/support.h"

/*
 * Tolerances, relative to each element.
 *   f32    the functions of the prelude are good to 3 units in the last place (2^-24 each), the exact operators to half
 *   f64    pow multiplies the error of its logarithm by its exponent, up to 1000; the others: 4 units of 2^-53
 *   f16    computed in f32 and rounded once more: half a unit of 2^-11, and one where two roundings meet
 *   bf16   the same with 2^-8
 */
static double tolerance_of(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_F32: return 3 * 0x1p-23;
    case INGOT_F64: return 64 * 0x1p-53;
    case INGOT_F16: return 0x1p-10;
    case INGOT_BF16: return 0x1p-7;
    default: return 0;
    }
}

/* Sums of n terms of size 1 in another order, and what follows from them; relative to the largest result. */
static double sum_tolerance(enum ingot_dtype dtype) {
    double unit = dtype == INGOT_F64 ? 1e-13 : 2e-6;
    return dtype == INGOT_F16 ? 2e-3 : dtype == INGOT_BF16 ? 2e-2 : ig_dtype_is_float(dtype) ? unit : 0;
}

static const enum ingot_dtype all_types[] = {INGOT_F32, INGOT_F64, INGOT_F16, INGOT_BF16, INGOT_I8,
                                             INGOT_I16, INGOT_I32, INGOT_I64, INGOT_U8,   INGOT_U16,
                                             INGOT_U32, INGOT_U64, INGOT_BOOL};
enum { TYPES = sizeof all_types / sizeof *all_types };

enum { MAX_CASES = 512 };
static struct graph_case cases[MAX_CASES];
static int case_count;

static struct graph_case *add_case(const char *name, void (*build)(struct ig_graph *, const void *),
                                   const void *argument, double tolerance, unsigned flags) {
    assert_true(case_count < MAX_CASES);
    cases[case_count] = (struct graph_case){name, build, argument, tolerance, flags, {5, 7, 33, 128}};
    return &cases[case_count++];
}

static void check_all(void) {
    int count = case_count;
    case_count = 0; /* before a failure leaves */
    check_graphs(cases, count);
}

/* ---- Every elementwise operator ---------------------------------------------------------------------------------------- */

static const struct {
    enum ig_op op;
    const char *operands;
} map_operators[] = {
#define IG_MAP(name, arity, operands, result, on_float, on_int) {IG_OP_##name, #operands},
#include "ir/ops.def"
};
enum { MAP_OPERATORS = sizeof map_operators / sizeof *map_operators };

static bool takes(const char *operands, enum ingot_dtype dtype) {
    if (!strcmp(operands, "ANY")) return true;
    if (dtype == INGOT_BOOL) return !strcmp(operands, "BOOL");
    if (ig_dtype_is_float(dtype)) return !strcmp(operands, "FLOAT") || !strcmp(operands, "NUM");
    return !strcmp(operands, "INT") || !strcmp(operands, "NUM");
}

/* mod of floats is a - b * floor(a / b), which means nothing where a / b has more digits than the type. */
static bool is_hostile_safe(enum ig_op op, enum ingot_dtype dtype) {
    return !(op == IG_OP_mod && ig_dtype_is_float(dtype));
}

/* All operators of one type: an output each. */
static void build_operators(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    struct ig_type type = sized_type(g, dtype, 1, (const int64_t[]){2003});
    ig_value x = ig_build_input(g, "x", &type), y = ig_build_input(g, "y", &type);
    for (int i = 0; i < MAP_OPERATORS; i++) {
        enum ig_op op = map_operators[i].op;
        if (!takes(map_operators[i].operands, dtype) || !is_hostile_safe(op, dtype)) continue;
        ig_value z = ig_op_info(op)->max_in == 1 ? ig_map1(g, op, x) : ig_map2(g, op, x, y);
        ig_build_output(g, ig_op_info(op)->name, z);
    }
}

static void every_operator_on_hostile_numbers(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        add_case(ingot_dtype_name(all_types[t]), build_operators, &all_types[t], tolerance_of(all_types[t]),
                 GRAPH_HOSTILE | GRAPH_EACH);
    }
    check_all();
}

static void build_mod(struct ig_graph *g, const void *argument) {
    enum ingot_dtype dtype = *(const enum ingot_dtype *)argument;
    struct ig_type type = sized_type(g, dtype, 1, (const int64_t[]){100});
    ig_value x = ig_build_input(g, "x", &type), y = ig_build_input(g, "y", &type);
    ig_build_output(g, "z", ig_map2(g, IG_OP_mod, x, y));
}

static void mod_of_floats(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        add_case("mod", build_mod, &all_types[t], sum_tolerance(all_types[t]), 0);
    check_all();
}

/* ---- Casts --------------------------------------------------------------------------------------------------------------- */

static void build_casts(struct ig_graph *g, const void *argument) {
    enum ingot_dtype from = *(const enum ingot_dtype *)argument;
    struct ig_type type = sized_type(g, from, 1, (const int64_t[]){1501});
    ig_value x = ig_build_input(g, "x", &type);
    for (int t = 0; t < TYPES; t++) {
        if (all_types[t] == from) continue;
        ig_build_output(g, ig_format(g->job, "to_%s", ingot_dtype_name(all_types[t])),
                        ig_build_cast(g, x, all_types[t]));
        ig_build_output(g, ig_format(g->job, "sat_%s", ingot_dtype_name(all_types[t])),
                        ig_build_cast_saturating(g, x, all_types[t]));
    }
}

/* Rounding to a narrower type and on in the same kernel must really round. */
static void build_rounding(struct ig_graph *g, const void *argument) {
    (void)argument;
    struct ig_type type = sized_type(g, INGOT_F32, 1, (const int64_t[]){100});
    ig_value x = ig_build_input(g, "x", &type);
    for (int t = 2; t < 4; t++) {
        ig_value y = ig_build_cast(g, ig_build_cast(g, x, all_types[t]), INGOT_F32);
        ig_build_output(g, ig_format(g->job, "y%d", t), ig_map2(g, IG_OP_sub, x, y));
    }
}

static void every_cast(void **state) {
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        add_case(ingot_dtype_name(all_types[t]), build_casts, &all_types[t], 0, GRAPH_HOSTILE | GRAPH_EACH);
    }
    add_case("rounding", build_rounding, NULL, 1e-7, 0);
    check_all();
}

/* ---- Movement ------------------------------------------------------------------------------------------------------------- */

static ig_dim number(struct ig_graph *g, int64_t n) {
    return ig_dim_const(g->dims, n);
}

static ig_value input(struct ig_graph *g, const char *name, enum ingot_dtype dtype, int rank, const int64_t *sizes) {
    struct ig_type type = sized_type(g, dtype, rank, sizes);
    return ig_build_input(g, name, &type);
}

struct shaped {
    enum ingot_dtype dtype;
    int rank;
    int64_t sizes[INGOT_MAX_RANK];
};

static const struct shaped shapes[] = {
    {INGOT_F32, 3, {4, 5, 70}},  {INGOT_F16, 3, {3, 17, 33}}, {INGOT_I64, 3, {1, 1, 1}},   {INGOT_BOOL, 3, {2, 3, 129}},
    {INGOT_F32, 3, {-1, -2, 6}}, {INGOT_F64, 3, {7, 1, 19}},  {INGOT_U8, 3, {-3, -4, -1}}, {INGOT_F32, 3, {0, 3, 4}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void build_transposes(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    static const int64_t perms[][3] = {{0, 2, 1}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    ig_value x = input(g, "x", s->dtype, 3, s->sizes);
    for (int p = 0; p < 5; p++)
        ig_build_output(g, ig_format(g->job, "y%d", p), ig_build_transpose(g, x, perms[p]));
}

static void build_slices(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 3, s->sizes);
    const struct ig_type type = *ig_type_of(g, x);
    ig_dim one = number(g, 1);
    /* Backwards, every second, and the inside. */
    ig_dim starts[3] = {ig_dim_sub(g->dims, type.dim[0], one), number(g, 0), number(g, 0)};
    ig_dim sizes[3] = {type.dim[0], ig_dim_ceil_div(g->dims, type.dim[1], number(g, 2)), type.dim[2]};
    ig_build_output(g, "y", ig_build_slice(g, x, starts, sizes, (const int64_t[]){-1, 2, 1}));
    ig_build_output(g, "z", ig_build_slice_axis(g, x, 2, one, ig_dim_sub(g->dims, type.dim[2], one), 1));
    ig_build_output(g, "w", ig_build_slice_axis(g, x, 2, ig_dim_sub(g->dims, type.dim[2], one), type.dim[2], -1));
}

/* Reflection needs more elements than it adds. */
static ig_dim amount(struct ig_graph *g, enum ig_pad_mode mode, int64_t size, int64_t wanted) {
    bool few = mode == IG_PAD_REFLECT && size >= 0 && size <= wanted;
    return number(g, few ? size - 1 : wanted);
}

static void build_pads(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 3, s->sizes);
    for (int m = IG_PAD_CONSTANT; m <= IG_PAD_WRAP; m++) {
        enum ig_pad_mode mode = (enum ig_pad_mode)m;
        if (s->sizes[0] == 0 && mode != IG_PAD_CONSTANT) continue; /* nothing to repeat */
        static const int64_t wanted[4][3] = {{1, 0, 2}, {2, 1, 1}, {0, 9, 0}, {0, 11, 0}};
        ig_dim amounts[4][3];
        for (int i = 0; i < 4; i++) {
            for (int d = 0; d < 3; d++)
                amounts[i][d] = amount(g, mode, s->sizes[d] < 0 ? 7 : s->sizes[d], wanted[i][d]);
        }
        ig_value value = mode == IG_PAD_CONSTANT ? ig_build_scalar(g, s->dtype, 1) : IG_NO_VALUE;
        ig_value all = ig_build_pad(g, x, amounts[0], amounts[1], mode, value);
        ig_build_output(g, ig_format(g->job, "all%d", m), all);
        ig_build_output(g, ig_format(g->job, "rows%d", m),
                        ig_build_pad(g, x, amounts[2], amounts[3], mode, IG_NO_VALUE));
    }
}

static void build_concats(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    int64_t other[3] = {s->sizes[0], s->sizes[1], 3};
    ig_value x = input(g, "x", s->dtype, 3, s->sizes), y = input(g, "y", s->dtype, 3, other);
    int64_t none[3] = {s->sizes[0], s->sizes[1], 0};
    ig_value empty = input(g, "e", s->dtype, 3, none);
    ig_value both = ig_build_concat(g, (const ig_value[]){x, empty, y, x}, 4, 2);
    ig_build_output(g, "both", both);
    ig_build_output(g, "twice", ig_build_concat(g, (const ig_value[]){x, x, x}, 3, 0));
    if (ig_dtype_is_float(s->dtype)) ig_build_output(g, "used", ig_map2(g, IG_OP_mul, both, both));
    ig_build_output(g, "turned", ig_build_transpose(g, both, (const int64_t[]){2, 1, 0}));
}

static void build_gathers(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 3, s->sizes);
    ig_value index = input(g, "i", INGOT_I64, 2, (const int64_t[]){2, 9}),
             flat = input(g, "j", INGOT_I32, 1, (const int64_t[]){6});
    if (s->sizes[0] == 0) { /* from the axes that have elements */
        ig_build_output(g, "y", ig_build_gather(g, x, flat, 1));
        return;
    }
    for (int axis = 0; axis < 3; axis++)
        ig_build_output(g, ig_format(g->job, "y%d", axis), ig_build_gather(g, x, axis == 1 ? index : flat, axis));
    struct ig_graph *const none[2] = {NULL, NULL};
    struct ig_attr axis = ig_attr_of_int(2), batch = ig_attr_of_int(1);
    struct ig_type type = *ig_type_of(g, x);
    type.dtype = INGOT_I64;
    ig_value elements = ig_build_input(g, "k", &type);
    ig_build_output(g, "elements",
                    ig_build_node(g, IG_OP_gather_elements, (ig_value[]){x, elements}, 2, 1, &axis, none));
    ig_value tuples =
        ig_build_input(g, "t", &(struct ig_type){INGOT_I64, 3, {type.dim[0], number(g, 4), number(g, 2)}});
    ig_build_output(g, "nd", ig_build_node(g, IG_OP_gather_nd, (ig_value[]){x, tuples}, 2, 1, &batch, none));
}

/* Reshapes between movement, so that indices are really taken apart. */
static void build_reshapes(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 3, s->sizes);
    const struct ig_type type = *ig_type_of(g, x);
    ig_value turned = ig_build_transpose(g, x, (const int64_t[]){1, 0, 2});
    ig_dim all = ig_type_elements(g->dims, &type);
    ig_value flat = ig_build_reshape(g, turned, &all, 1);
    ig_build_output(g, "flat", ig_map2(g, IG_OP_eq, flat, flat));
    ig_dim front[2] = {ig_dim_mul(g->dims, type.dim[0], type.dim[1]), type.dim[2]};
    ig_value merged = ig_build_reshape(g, turned, front, 2);
    ig_build_output(g, "merged", ig_build_transpose(g, merged, (const int64_t[]){1, 0}));
    ig_dim back[3] = {type.dim[2], type.dim[0], type.dim[1]};
    ig_value crossed = ig_build_reshape(g, turned, back, 3);
    ig_build_output(g, "crossed", ig_build_transpose(g, crossed, (const int64_t[]){2, 0, 1}));
}

static void build_broadcasts(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 3, s->sizes);
    ig_value row = input(g, "row", s->dtype, 1, s->sizes + 2);
    ig_value column = input(g, "column", s->dtype, 2, (const int64_t[]){s->sizes[1], 1});
    ig_value page = input(g, "page", s->dtype, 3, (const int64_t[]){s->sizes[0], 1, 1});
    ig_value y = ig_map2(g, IG_OP_eq, ig_build_where(g, ig_map2(g, IG_OP_eq, x, row), column, x), page);
    ig_build_output(g, "y", y);
    ig_build_output(g, "outer", ig_map2(g, IG_OP_eq, row, column));
    const struct ig_type type = *ig_type_of(g, x);
    ig_build_output(g, "wide", ig_build_broadcast(g, column, type.dim, 3));
    ig_value iota = ig_build_iota(g, type.dim, 3, 1);
    ig_build_output(g, "iota", ig_map2(g, IG_OP_add, iota, ig_build_cast(g, x, INGOT_I64)));
}

static void every_view(void **state) {
    (void)state;
    static void (*const builders[])(struct ig_graph *, const void *) = {
        build_transposes, build_slices, build_pads, build_concats, build_gathers, build_reshapes, build_broadcasts};
    static const char *const names[] = {"transpose", "slice", "pad", "concat", "gather", "reshape", "broadcast"};
    for (int b = 0; b < 7; b++) {
        for (int s = 0; s < SHAPES; s++)
            add_case(names[b], builders[b], &shapes[s], 0, 0);
    }
    check_all();
}

/* ---- Reductions ------------------------------------------------------------------------------------------------------------ */

struct reduced {
    struct shaped shape;
    int n_axes;
    int64_t axes[3];
};

static const enum ig_op reductions[] = {IG_OP_reduce_sum, IG_OP_reduce_mean, IG_OP_reduce_max, IG_OP_reduce_min};

static void build_reductions(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, 3, r->shape.sizes);
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

/* Apart, because products of many numbers leave the range of float32, and when depends on the order. */
static void build_products(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, 3, r->shape.sizes);
    ig_build_output(g, "prod", ig_build_reduce(g, IG_OP_reduce_prod, x, r->axes, r->n_axes));
}

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
    {{INGOT_F32, 3, {40, 9, 1}}, 1, {1}},
};
enum { REDUCED = sizeof reduced / sizeof *reduced };

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
    ig_value x = input(g, "x", r->shape.dtype, 3, r->shape.sizes);
    x = ig_map2(g, IG_OP_mul, x, scalar(g, r, 8));
    ig_value shifted = ig_map2(g, IG_OP_sub, x, over(g, r, IG_OP_reduce_max, x));
    ig_value e = ig_map1(g, IG_OP_exp, shifted), sum = over(g, r, IG_OP_reduce_sum, e);
    ig_build_output(g, "softmax", ig_map2(g, IG_OP_div, e, sum));
    ig_build_output(g, "log", ig_map2(g, IG_OP_sub, shifted, ig_map1(g, IG_OP_log, sum)));
}

static void build_norm(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, 3, r->shape.sizes),
             residual = input(g, "r", r->shape.dtype, 3, r->shape.sizes);
    x = ig_map2(g, IG_OP_add, x, residual);
    ig_value centred = ig_map2(g, IG_OP_sub, x, over(g, r, IG_OP_reduce_mean, x));
    ig_value variance = over(g, r, IG_OP_reduce_mean, ig_map2(g, IG_OP_mul, centred, centred));
    ig_value deviation = ig_map1(g, IG_OP_sqrt, ig_map2(g, IG_OP_add, variance, scalar(g, r, 1e-3)));
    ig_value scale = input(g, "scale", r->shape.dtype, 1, r->shape.sizes + 2);
    ig_value y = ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_div, centred, deviation), scale);
    ig_build_output(g, "sum", x);
    ig_build_output(g, "norm", y);
    ig_build_output(g, "deviation", deviation);
}

/* An expensive value that three passes need, and an argmax between sums. */
static void build_chain(struct ig_graph *g, const void *argument) {
    const struct reduced *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, 3, r->shape.sizes);
    ig_value t = ig_map2(g, IG_OP_mul, ig_map1(g, IG_OP_tanh, x), scalar(g, r, 2));
    ig_value mean = over(g, r, IG_OP_reduce_mean, t);
    ig_value far = ig_map2(g, IG_OP_sub, t, mean);
    ig_value most = over(g, r, IG_OP_reduce_max, ig_map1(g, IG_OP_abs, far));
    ig_build_output(g, "far", ig_map2(g, IG_OP_div, far, ig_map2(g, IG_OP_add, most, scalar(g, r, 1))));
    ig_build_output(g, "t", t);
    ig_build_output(g, "mean", mean);
}

static const struct reduced rows[] = {
    {{INGOT_F32, 3, {4, 32, 768}}, 1, {2}},  {{INGOT_F32, 3, {3, 17, 33}}, 1, {2}},
    {{INGOT_F32, 3, {3, 17, 130}}, 1, {1}},  {{INGOT_F32, 3, {6, 5, 1000}}, 1, {0}},
    {{INGOT_F32, 3, {2, 9, 20}}, 2, {1, 2}}, {{INGOT_F32, 3, {2, 9, 20}}, 2, {0, 1}},
    {{INGOT_F32, 3, {3, 1, 1}}, 1, {2}},     {{INGOT_F32, 3, {2, 3, 1}}, 1, {2}},
    {{INGOT_F32, 3, {-1, -2, -4}}, 1, {2}},  {{INGOT_F32, 3, {-1, -3, -4}}, 1, {1}},
    {{INGOT_F32, 3, {0, 3, 5}}, 1, {2}},     {{INGOT_F32, 3, {2, 1, 9000}}, 1, {2}},
    {{INGOT_F64, 3, {2, 3, 40}}, 1, {2}},    {{INGOT_F16, 3, {2, 3, 40}}, 1, {2}},
    {{INGOT_BF16, 3, {2, 13, 80}}, 1, {1}},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void reductions_in_sequence(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        double tolerance = 4 * sum_tolerance(rows[i].shape.dtype);
        add_case("softmax", build_softmax, &rows[i], tolerance, 0);
        add_case("norm", build_norm, &rows[i], tolerance, 0);
        add_case("chain", build_chain, &rows[i], tolerance, 0);
    }
    check_all();
}

/* ---- Random trees -------------------------------------------------------------------------------------------------------------- */

struct forest {
    struct ig_graph *g;
    uint32_t state;
    ig_value values[64];
    int count;
};

static uint32_t dice(struct forest *f, uint32_t n) {
    f->state = f->state * 1664525u + 1013904223u;
    return (f->state >> 10) % n;
}

/* The value made to have `type` by repetition or cutting: the first elements of each axis. */
static ig_value fitted(struct forest *f, ig_value v, const struct ig_type *type) {
    struct ig_graph *g = f->g;
    const struct ig_type own = *ig_type_of(g, v);
    ig_dim before[INGOT_MAX_RANK], after[INGOT_MAX_RANK], starts[INGOT_MAX_RANK];
    static const int64_t ones[INGOT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (int i = 0; i < own.rank; i++) {
        before[i] = starts[i] = number(g, 0);
        ig_dim more = ig_dim_sub(g->dims, type->dim[i], own.dim[i]);
        after[i] = ig_dim_max(g->dims, more, number(g, 0));
    }
    v = ig_build_pad(g, v, before, after, IG_PAD_EDGE, IG_NO_VALUE);
    return ig_build_slice(g, v, starts, type->dim, ones);
}

static ig_value grow_map(struct forest *f, ig_value a, ig_value b) {
    static const enum ig_op unary[] = {IG_OP_neg,   IG_OP_abs, IG_OP_tanh, IG_OP_sigmoid,
                                       IG_OP_floor, IG_OP_erf, IG_OP_sin};
    static const enum ig_op binary[] = {IG_OP_add, IG_OP_sub, IG_OP_mul, IG_OP_min, IG_OP_max};
    if (dice(f, 3) == 0) return ig_map1(f->g, unary[dice(f, 7)], a);
    const struct ig_type type = *ig_type_of(f->g, a);
    b = fitted(f, b, &type);
    if (dice(f, 6) == 0) return ig_build_where(f->g, ig_map2(f->g, IG_OP_lt, a, b), b, ig_map1(f->g, IG_OP_neg, a));
    return ig_map2(f->g, binary[dice(f, 5)], a, b);
}

static ig_value grow_view(struct forest *f, ig_value a, ig_value b) {
    struct ig_graph *g = f->g;
    const struct ig_type type = *ig_type_of(g, a);
    static const int64_t perms[][3] = {{0, 2, 1}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}};
    int axis = (int)dice(f, 3);
    switch (dice(f, 5)) {
    case 0: return ig_build_transpose(g, a, perms[dice(f, 4)]);
    case 1: return ig_build_reshape(g, a, (const ig_dim[]){type.dim[2], type.dim[0], type.dim[1]}, 3);
    case 2: {
        struct ig_type fit = type;
        fit.dim[axis] = ig_type_of(g, b)->dim[axis];
        return ig_build_concat(g, (const ig_value[]){a, fitted(f, b, &fit)}, 2, axis);
    }
    case 3: {
        ig_dim amount[3] = {number(g, 0), number(g, 0), number(g, 0)};
        amount[axis] = number(g, dice(f, 3));
        return ig_build_pad(g, a, amount, amount, (enum ig_pad_mode)(dice(f, 2) * IG_PAD_EDGE), IG_NO_VALUE);
    }
    default:
        return ig_build_slice_axis(g, a, axis, ig_dim_sub(g->dims, type.dim[axis], number(g, 1)), type.dim[axis], -1);
    }
}

static ig_value grow_row(struct forest *f, ig_value a) {
    static const enum ig_op ops[] = {IG_OP_reduce_mean, IG_OP_reduce_max, IG_OP_reduce_min};
    int64_t axis = dice(f, 3);
    return ig_map2(f->g, IG_OP_sub, a, ig_build_reduce(f->g, ops[dice(f, 3)], a, &axis, 1));
}

static void build_forest(struct ig_graph *g, const void *argument) {
    struct forest f = {.g = g, .state = (uint32_t)(uintptr_t)argument * 7919u + 1};
    static const int64_t sizes[][3] = {{2, 3, 40}, {4, 1, 9}, {-1, 6, 16}, {3, 7, -2}};
    const int64_t *size = sizes[dice(&f, 4)];
    for (int i = 0; i < 3; i++)
        f.values[f.count++] = input(g, ig_format(g->job, "x%d", i), INGOT_F32, 3, size);
    int grown = 4 + (int)dice(&f, 10);
    for (int i = 0; i < grown; i++) {
        ig_value a = f.values[f.count - 1 - (int)dice(&f, 3)], b = f.values[dice(&f, (uint32_t)f.count)];
        uint32_t kind = dice(&f, 8);
        ig_value v = kind < 4 ? grow_map(&f, a, b) : kind < 7 ? grow_view(&f, a, b) : grow_row(&f, a);
        f.values[f.count++] = v;
    }
    for (int i = 0; i < 2; i++)
        ig_build_output(g, ig_format(g->job, "y%d", i), f.values[f.count - 1 - i * 2]);
}

static void random_trees(void **state) {
    (void)state;
    for (uintptr_t seed = 0; seed < 60; seed++) {
        char *name = test_malloc(16);
        snprintf(name, 16, "tree %d", (int)seed);
        add_case(name, build_forest, (const void *)seed, 1e-5, 0);
    }
    struct graph_case copy[60];
    memcpy(copy, cases, sizeof copy);
    check_all();
    for (int i = 0; i < 60; i++)
        test_free((void *)(uintptr_t)copy[i].name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_on_hostile_numbers),
        cmocka_unit_test(mod_of_floats),
        cmocka_unit_test(every_cast),
        cmocka_unit_test(every_view),
        cmocka_unit_test(every_reduction),
        cmocka_unit_test(reductions_in_sequence),
        cmocka_unit_test(random_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
