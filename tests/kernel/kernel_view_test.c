/* Views in kernels: every kind, in all kinds of shapes, and random trees of views, elementwise operators and
 * reductions. */
#include <stdio.h>
#include <string.h>

#include "support/check/kernel_cases.h"

/* ---- Movement ------------------------------------------------------------------------------------------------------------- */

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
    /* Reversed, every second element, and the inside. */
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
    /* Parts that are computed, one of them a concatenation, and the whole in two types. */
    ig_value same = ig_build_cast(g, ig_map2(g, IG_OP_eq, x, x), s->dtype);
    ig_value inner =
        ig_build_concat(g, (const ig_value[]){same, ig_build_cast(g, ig_map2(g, IG_OP_eq, same, x), s->dtype)}, 2, 1);
    ig_value computed =
        ig_build_concat(g, (const ig_value[]){inner, ig_build_concat(g, (const ig_value[]){x, x}, 2, 1)}, 2, 2);
    ig_build_output(g, "computed", computed);
    ig_build_output(g, "rounded", ig_build_cast(g, computed, s->dtype == INGOT_F16 ? INGOT_F32 : INGOT_F16));
    ig_build_output(g, "twice", ig_build_concat(g, (const ig_value[]){x, x, x}, 3, 0));
    if (ig_dtype_is_float(s->dtype)) ig_build_output(g, "used", ig_map2(g, IG_OP_mul, both, both));
    ig_build_output(g, "turned", ig_build_transpose(g, both, (const int64_t[]){2, 1, 0}));
}

static void build_gathers(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 3, s->sizes);
    ig_value index = input(g, "i", INGOT_I64, 2, (const int64_t[]){2, 9}),
             flat = input(g, "j", INGOT_I32, 1, (const int64_t[]){6});
    if (s->sizes[0] == 0) { /* only from axes with elements */
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

/* Reshapes between other views, so that indices must be split by division. */
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

/* Short rows, whose elements are statements of their own, with loads that a comparison chooses between. */
static void build_choices(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 2, s->sizes), y = input(g, "y", s->dtype, 2, s->sizes);
    ig_value z = input(g, "z", s->dtype, 2, s->sizes), row = input(g, "row", s->dtype, 1, s->sizes + 1);
    ig_value large = ig_map2(g, IG_OP_max, ig_map2(g, IG_OP_max, row, z), x);
    ig_build_output(g, "choice", ig_build_where(g, ig_map2(g, IG_OP_lt, x, row), y, large));
    ig_build_output(g, "either", ig_build_where(g, ig_map2(g, IG_OP_lt, x, z), z, y));
}

static void choices_in_short_rows(void **state) {
    (void)state;
    static const struct shaped rows[] = {{INGOT_F32, 2, {5, 5}},  {INGOT_F32, 2, {40, 3}}, {INGOT_F32, 2, {33, 7}},
                                         {INGOT_F64, 2, {21, 2}}, {INGOT_F16, 2, {50, 5}}, {INGOT_I32, 2, {19, 6}},
                                         {INGOT_U8, 2, {70, 5}},  {INGOT_F32, 2, {-1, 5}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add_case("choices", build_choices, &rows[i], 0, 0);
    check_all();
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

/* A rotary embedding of neighbours: the elements of each pair exchanged, every second one negated. */
static void build_pairs(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 3, s->sizes), turn = input(g, "turn", s->dtype, 2, s->sizes + 1);
    const struct ig_type type = *ig_type_of(g, x);
    ig_dim one = number(g, 1), two = number(g, 2);
    ig_dim halves[4] = {type.dim[0], type.dim[1], ig_dim_div(g->dims, type.dim[2], two), two};
    ig_value pairs = ig_build_reshape(g, x, halves, 4);
    ig_value exchanged = ig_build_reshape(g, ig_build_slice_axis(g, pairs, 3, one, two, -1), type.dim, 3);
    ig_value at = ig_build_iota(g, type.dim + 2, 1, 0);
    ig_value odd = ig_map2(g, IG_OP_mod, at, ig_build_scalar_int(g, INGOT_I64, 2));
    ig_value even = ig_map2(g, IG_OP_eq, odd, ig_build_scalar_int(g, INGOT_I64, 0));
    exchanged = ig_build_where(g, even, ig_map1(g, IG_OP_neg, exchanged), exchanged);
    ig_build_output(g, "y", ig_map2(g, IG_OP_add, x, ig_map2(g, IG_OP_mul, exchanged, turn)));
    ig_build_output(g, "backwards",
                    ig_build_slice_axis(g, x, 2, ig_dim_sub(g->dims, type.dim[2], one), type.dim[2], -1));
}

static void exchanged_pairs(void **state) {
    (void)state;
    static const struct shaped rows[] = {{INGOT_F32, 3, {3, 5, 64}},
                                         {INGOT_F16, 3, {2, 7, 6}},
                                         {INGOT_BF16, 3, {1, 1, 2}},
                                         {INGOT_F64, 3, {2, 3, 10}},
                                         {INGOT_F16, 3, {-1, -2, 32}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add_case("pairs", build_pairs, &rows[i], rows[i].dtype == INGOT_F64 ? 1e-12 : sum_tolerance(rows[i].dtype), 0);
    check_all();
}

/* So many elements that on GPUs a thread has several, of rows such that neither one access holds several nor all tiles are whole. */
static void build_many(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 2, s->sizes);
    ig_dim none[2] = {number(g, 0), number(g, 0)}, before[2] = {number(g, 1), number(g, 0)};
    ig_value padded = ig_build_pad(g, x, before, none, IG_PAD_CONSTANT, IG_NO_VALUE);
    ig_value y = input(g, "y", s->dtype, 2, (const int64_t[]){s->sizes[0] + 1, s->sizes[1]});
    ig_build_output(g, "sum", ig_map2(g, IG_OP_add, padded, y));
}

static void many_elements(void **state) {
    (void)state;
    static const struct shaped rows = {INGOT_F16, 2, {57000, 19}};
    add_case("many", build_many, &rows, 1e-3, 0);
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

/* Repeats or cuts each axis of the value so that it has `type`. */
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
                                       IG_OP_floor, IG_OP_erf, IG_OP_sin,  IG_OP_normcdf};
    static const enum ig_op binary[] = {IG_OP_add, IG_OP_sub, IG_OP_mul, IG_OP_min, IG_OP_max};
    if (dice(f, 3) == 0) return ig_map1(f->g, unary[dice(f, 8)], a);
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

/* Every other one divided into kernels as builds do, by estimates. */
static void random_trees(void **state) {
    (void)state;
    enum { TREES = 60 };
    static char names[TREES][16];
    for (uintptr_t seed = 0; seed < TREES; seed++) {
        snprintf(names[seed], sizeof names[seed], "tree %d", (int)seed);
        add_case(names[seed], build_forest, (const void *)seed, 1e-5, seed % 2 ? GRAPH_ESTIMATED : 0);
    }
    check_all();
}

/* Stacked caches, each stored in its place in the result, and rounded beside it; those of many heads are prefetched. */
static void build_caches(struct ig_graph *g, const void *argument) {
    const int64_t *heads = argument, past_size[] = {1, *heads, -1, 8}, size[] = {1, *heads, 3, 8};
    ig_value layers[3];
    for (int i = 0; i < 3; i++) {
        ig_value past = input(g, ig_format(g->job, "p%d", i), INGOT_F32, 4, past_size);
        ig_value pair[] = {past, ig_map1(g, IG_OP_neg, input(g, ig_format(g->job, "x%d", i), INGOT_F32, 4, size))};
        layers[i] = ig_build_concat(g, pair, 2, 2);
        ig_build_output(g, ig_format(g->job, "h%d", i), ig_build_cast(g, layers[i], INGOT_F16));
    }
    ig_build_output(g, "y", ig_build_concat(g, layers, 3, 0));
}

static void stored_in_place(void **state) {
    (void)state;
    static const int64_t heads[] = {2, 2100};
    add_case("caches", build_caches, &heads[0], 1e-3, 0);
    add_case("large caches", build_caches, &heads[1], 1e-3, 0);
    check_all();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_view),    cmocka_unit_test(choices_in_short_rows), cmocka_unit_test(exchanged_pairs),
        cmocka_unit_test(many_elements), cmocka_unit_test(random_trees),          cmocka_unit_test(stored_in_place),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
