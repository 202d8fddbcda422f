/* Top-k and scatters with extreme shapes, types and indices, against the reference. */
#include "support/check/kernel_cases.h"

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

static const int64_t symbols[4] = {2, 11, 8, 0}; /* sizes */

/* ---- Top-k ---------------------------------------------------------------------------------------------------------- */

struct topk {
    int rank, axis;
    int64_t sizes[4], k; /* k < 0: a symbol, as for sizes */
    enum ingot_dtype dtype;
    bool smallest, only_values, only_indices, constant, rounded;
};

static void build_topk(struct ig_graph *g, const void *argument) {
    const struct topk *t = argument;
    struct ig_type type = sized_type(g, t->dtype, t->rank, t->sizes), k = sized_type(g, t->dtype, 1, &t->k);
    ig_value x = t->constant ? random_constant(g, t->dtype, t->rank, t->sizes, 3) : ig_build_input(g, "x", &type);
    /* Makes many elements equal, among them zeros of both signs. */
    if (t->rounded) {
        ig_value two = ig_build_scalar(g, t->dtype, 2);
        x = ig_map1(g, IG_OP_round, ig_map2(g, IG_OP_mul, x, two));
    }
    struct ig_attr attrs[] = {ig_attr_of_int(t->axis), ig_attr_of_dim(k.dim[0]), ig_attr_of_int(!t->smallest)};
    ig_value y = ig_build_node(g, IG_OP_topk, &x, 1, 2, attrs, NULL);
    if (!t->only_indices) ig_build_output(g, "values", y);
    if (!t->only_values) ig_build_output(g, "indices", y + 1);
}

#define UNPACK(...) \
    { __VA_ARGS__ }
#define ROWS(r, a, d, best, type) .rank = r, .axis = a, .sizes = UNPACK d, .k = best, .dtype = type

static const struct topk topks[] = {
    {ROWS(1, 0, (10), 3, INGOT_F32)},
    {ROWS(1, 0, (1), 1, INGOT_F32)},
    {ROWS(1, 0, (5), 0, INGOT_F32)},
    {ROWS(1, 0, (700), 700, INGOT_F32)},
    {ROWS(1, 0, (1000), 1, INGOT_F32)},
    {ROWS(2, 1, (3, 1025), 17, INGOT_F32)},
    {ROWS(2, 0, (37, 5), 8, INGOT_F32)},
    {ROWS(3, 1, (2, 300, 3), 300, INGOT_F32)},
    {ROWS(4, 2, (2, 3, 129, 2), 128, INGOT_F32)},
    {ROWS(2, 1, (0, 4), 2, INGOT_F32)},
    {ROWS(2, 1, (-3, -2), -3, INGOT_F32)},
    {ROWS(2, 1, (-1, -2), -1, INGOT_F32), .only_values = true},
    {ROWS(2, 0, (-2, -4), 3, INGOT_F32)},
    {ROWS(2, 1, (4, 260), 9, INGOT_F32), .only_indices = true},
    {ROWS(1, 0, (1), 1, INGOT_F32), .constant = true},
    /* Many rows; many equal elements; more results than shared memory has room for. */
    {ROWS(2, 1, (530, 260), 5, INGOT_F16), .rounded = true},
    {ROWS(2, 1, (540, 300), 128, INGOT_F32)},
    {ROWS(1, 0, (70000), 100, INGOT_I8)},
    {ROWS(2, 1, (2, 17000), 2100, INGOT_F32), .rounded = true},
    /* A list or a heap on CPUs: up to 48 results, of rows up to 256 times as long. */
    {ROWS(2, 1, (5, 600), 48, INGOT_F32), .rounded = true},
    {ROWS(2, 1, (5, 600), 49, INGOT_F32), .rounded = true},
    {ROWS(2, 1, (4, 512), 2, INGOT_F32)},
    {ROWS(2, 1, (4, 513), 2, INGOT_F32), .rounded = true},
    {ROWS(2, 1, (6, 48), 48, INGOT_F32), .rounded = true},
    {ROWS(3, 1, (2, 300, 3), 20, INGOT_F32)},
    {ROWS(2, 1, (3, 1000), 16, INGOT_F32), .rounded = true},
    {ROWS(2, 1, (3, 30), 17, INGOT_F32)},
};

static const enum ingot_dtype numeric[] = {INGOT_F32, INGOT_F16, INGOT_BF16, INGOT_F64, INGOT_I8,  INGOT_I16,
                                           INGOT_I32, INGOT_I64, INGOT_U8,   INGOT_U16, INGOT_U32, INGOT_U64};

static void test_topk(void **state) {
    static struct topk variants[2 * COUNT(topks)];
    (void)state;
    for (int i = 0; i < COUNT(variants); i++) {
        variants[i] = topks[i / 2];
        variants[i].smallest = i % 2;
        bool poison = (i / 2 + i) % 2;
        add_named_case(build_topk, &variants[i], GRAPH_RAW | (poison ? GRAPH_POISON : 0), symbols, "top-k %d%s%s",
                       i / 2, i % 2 ? ", smallest" : "", poison ? ", poisoned" : "");
    }
    check_all();
}

static void test_topk_of_types(void **state) {
    static struct topk variants[2 * COUNT(numeric)];
    (void)state;
    for (int i = 0; i < COUNT(variants); i++) {
        enum ingot_dtype dtype = numeric[i / 2];
        variants[i] = (struct topk){ROWS(2, 1, (3, 333), 40, dtype), .smallest = i % 2};
        variants[i].rounded = i / 2 % 2 != i % 2 && ig_dtype_is_float(dtype);
        add_named_case(build_topk, &variants[i], GRAPH_RAW | (variants[i].rounded ? GRAPH_POISON : GRAPH_HOSTILE),
                       symbols, "top-k of %s, %d", ingot_dtype_name(dtype), i % 2);
    }
    check_all();
}

/* ---- Scatters ------------------------------------------------------------------------------------------------------- */

struct scatter {
    int rank, axis; /* axis -1: scatter_nd */
    int64_t data[4];
    int index_rank;
    int64_t index[4];
    int update_rank; /* scatter_nd */
    int64_t updates[4];
    enum ingot_dtype dtype, index_dtype;
    enum ig_scatter how;
    bool constant;     /* data, indices and updates */
    unsigned repeated; /* scatter_elements: bit set of the axes along which indices are repetitions */
    bool gathered;     /* updates are elements of the input, by numbers along the first axis */
    int followed;      /* 1: the result is twice the scatter's, and the data; 2: and that is a result, too */
};

static ig_value tensor(struct ig_graph *g, const char *name, bool constant, enum ingot_dtype dtype, int rank,
                       const int64_t *sizes, uint32_t seed) {
    struct ig_type type = sized_type(g, dtype, rank, sizes);
    return constant ? random_constant(g, dtype, rank, sizes, seed) : ig_build_input(g, name, &type);
}

static void build_scatter(struct ig_graph *g, const void *argument) {
    const struct scatter *s = argument;
    bool nd = s->axis < 0;
    ig_value in[3];
    in[0] = tensor(g, "data", s->constant, s->dtype, s->rank, s->data, 1);
    int64_t indices[4];
    for (int i = 0; i < s->index_rank; i++)
        indices[i] = s->repeated >> i & 1 ? 1 : s->index[i];
    in[1] = tensor(g, "indices", s->constant, s->index_dtype, s->index_rank, indices, 2);
    const struct ig_type all = sized_type(g, s->index_dtype, s->index_rank, s->index);
    if (s->repeated) in[1] = ig_build_broadcast(g, in[1], all.dim, all.rank);
    int rank = nd ? s->update_rank : s->index_rank;
    in[2] = tensor(g, "updates", false, s->dtype, rank, nd ? s->updates : s->index, 3);
    if (s->gathered) {
        ig_value numbers[] = {in[2], tensor(g, "numbers", false, INGOT_I64, rank, nd ? s->updates : s->index, 4)};
        struct ig_attr axis = ig_attr_of_int(0);
        in[2] = ig_build_node(g, IG_OP_gather_elements, numbers, 2, 1, &axis, NULL);
    }
    struct ig_attr attrs[2] = {ig_attr_of_int(nd ? (int64_t)s->how : s->axis), ig_attr_of_int(s->how)};
    ig_value y = ig_build_node(g, nd ? IG_OP_scatter_nd : IG_OP_scatter_elements, in, 3, 1, attrs, NULL);
    if (s->followed != 1) ig_build_output(g, "y", y);
    if (s->followed) ig_build_output(g, "more", ig_map2(g, IG_OP_add, ig_map2(g, IG_OP_add, y, y), in[0]));
}

/* Indices are -5 … 5: some are out of range, many are repeated. */
#define ELEMENTS(axis_, r, d, i) \
    { .rank = r, .axis = axis_, .data = UNPACK d, .index_rank = r, .index = UNPACK i }
#define ND(r, d, ir, i, ur, u)                                                                           \
    {                                                                                                    \
        .rank = r, .axis = -1, .data = UNPACK d, .index_rank = ir, .index = UNPACK i, .update_rank = ur, \
        .updates = UNPACK u                                                                              \
    }

static const struct scatter scatters[] = {
    ELEMENTS(0, 1, (4), (9)),
    ELEMENTS(0, 1, (1), (1)),
    ELEMENTS(0, 1, (3), (0)),
    ELEMENTS(0, 2, (3, 5), (8, 4)),
    ELEMENTS(1, 2, (3, 5), (2, 8)),
    ELEMENTS(1, 3, (1, 4, 33), (1, 7, 20)),
    ELEMENTS(2, 3, (2, 5, 3), (2, 5, 3)),
    ELEMENTS(0, 2, (0, 3), (0, 2)),
    ELEMENTS(1, 2, (300, 400), (299, 7)),
    ELEMENTS(0, 2, (300, 400), (7, 399)),
    ELEMENTS(1, 3, (-1, -2, -3), (-1, 5, -3)),
    ELEMENTS(0, 2, (-4, 3), (0, 2)),
    ND(1, (4), 2, (9, 1), 1, (9)),
    ND(1, (1), 2, (1, 1), 1, (1)),
    ND(2, (4, 7), 2, (6, 1), 2, (6, 7)),
    ND(2, (4, 7), 2, (6, 2), 1, (6)),
    ND(3, (5, 3, 17), 3, (2, 3, 2), 3, (2, 3, 17)),
    ND(2, (4, 5), 1, (2), 0, (1)),
    ND(2, (4, 5), 1, (1), 1, (5)),
    ND(2, (4, 5), 2, (3, 0), 3, (3, 4, 5)),
    ND(2, (400, 300), 2, (30, 1), 2, (30, 300)),
    ND(3, (1, 500, 100), 2, (5, 1), 3, (5, 500, 100)),
    ND(2, (9, 40), 2, (1500, 1), 2, (1500, 40)),
    ND(3, (4, 6, 7), 3, (40, 3, 2), 3, (40, 3, 7)),
    ND(2, (300, 130), 2, (65, 1), 2, (65, 130)),
    ND(2, (10, 16384), 2, (30, 1), 2, (30, 16384)),
    ND(2, (4, 5), 2, (0, 1), 2, (0, 5)),
    ND(2, (0, 5), 2, (3, 1), 2, (3, 5)),
    ND(3, (-1, -2, 6), 2, (-3, 2), 2, (-3, 6)),
    ND(0, (1), 2, (2, 0), 1, (2)),
};

static const enum ig_scatter ways[] = {IG_SCATTER_SET, IG_SCATTER_ADD, IG_SCATTER_MUL, IG_SCATTER_MAX, IG_SCATTER_MIN};

/* Float sums in double (the reference) and in float differ in their last bits. */
static double tolerance_for(enum ingot_dtype dtype, enum ig_scatter how) {
    if (!ig_dtype_is_float(dtype) || how == IG_SCATTER_SET || how == IG_SCATTER_MAX || how == IG_SCATTER_MIN) return 0;
    return dtype == INGOT_F64 ? 1e-14 : dtype == INGOT_F32 ? 1e-6 : dtype == INGOT_F16 ? 4e-3 : 4e-2;
}

static void add_scatter(struct scatter *s, const struct scatter *shape, enum ingot_dtype dtype,
                        enum ingot_dtype index_dtype, enum ig_scatter how, bool constant, unsigned flags) {
    *s = *shape;
    s->dtype = dtype;
    s->index_dtype = index_dtype;
    s->how = how;
    s->constant = constant;
    add_named_case(build_scatter, s, GRAPH_RAW | flags, symbols, "scatter %d of %s by %s, reduction %d%s",
                   (int)(shape - scatters), ingot_dtype_name(dtype), ingot_dtype_name(index_dtype), (int)how,
                   constant ? ", constants" : "")
        ->tolerance = tolerance_for(dtype, how);
}

static bool is_static(const struct scatter *s) {
    for (int i = 0; i < 4; i++) {
        if (s->data[i] < 0 || s->index[i] < 0) return false;
    }
    return true;
}

static void test_scatter(void **state) {
    static struct scatter variants[6 * COUNT(scatters)];
    (void)state;
    int n = 0;
    for (int i = 0; i < COUNT(scatters); i++) {
        add_scatter(&variants[n++], &scatters[i], INGOT_F32, INGOT_I64, IG_SCATTER_SET, false, GRAPH_POISON);
        add_scatter(&variants[n++], &scatters[i], INGOT_F32, INGOT_I32, IG_SCATTER_ADD, false, 0);
        bool nd = scatters[i].axis < 0;
        int rank = nd ? scatters[i].update_rank : scatters[i].rank;
        if (i % 3 == 0 && rank > 0) {
            add_scatter(&variants[n], &scatters[i], INGOT_F16, INGOT_I64, i % 2 ? IG_SCATTER_SET : IG_SCATTER_ADD,
                        false, 0);
            variants[n++].gathered = true;
        }
        if (i % 2 && nd) {
            add_scatter(&variants[n], &scatters[i], INGOT_F32, INGOT_I32, i % 3 ? IG_SCATTER_ADD : IG_SCATTER_MAX,
                        false, 0);
            variants[n++].followed = 1 + i / 2 % 2;
        }
        if (!is_static(&scatters[i])) continue;
        add_scatter(&variants[n++], &scatters[i], INGOT_F32, INGOT_I64, IG_SCATTER_SET, true, 0);
        add_scatter(&variants[n++], &scatters[i], INGOT_F16, INGOT_I64, IG_SCATTER_SET, i % 2, GRAPH_POISON);
    }
    check_all();
}

static void test_scatter_of_types(void **state) {
    static const int shapes[] = {3, 16};
    static struct scatter variants[COUNT(ways) * COUNT(numeric) + 1];
    (void)state;
    int n = 0;
    for (int i = 0; i < COUNT(ways) * COUNT(numeric); i++) {
        enum ig_scatter how = ways[i % COUNT(ways)];
        enum ingot_dtype dtype = numeric[i / COUNT(ways)];
        const struct scatter *shape = &scatters[shapes[i % 2]];
        bool exact = !ig_dtype_is_float(dtype) || tolerance_for(dtype, how) == 0;
        add_scatter(&variants[n++], shape, dtype, INGOT_I64, how, false, exact ? GRAPH_POISON : 0);
    }
    add_scatter(&variants[n++], &scatters[3], INGOT_BOOL, INGOT_I64, IG_SCATTER_SET, false, 0);
    check_all();
}

#define REPEATED(axis_, r, d, i, repeated_) \
    { .rank = r, .axis = axis_, .data = UNPACK d, .index_rank = r, .index = UNPACK i, .repeated = repeated_ }

/* Indices of whole rows, and repetitions along other axes than the last ones. */
static const struct scatter of_rows[] = {
    REPEATED(0, 2, (9, 40), (150, 40), 2),
    REPEATED(0, 2, (9, 40), (150, 33), 2),
    REPEATED(1, 3, (2, 9, 40), (2, 70, 40), 4),
    REPEATED(1, 3, (3, 4, 17), (2, 30, 17), 5),
    REPEATED(0, 3, (4, 5, 17), (30, 5, 17), 6),
    REPEATED(0, 3, (4, 5, 17), (30, 5, 17), 4),
    REPEATED(0, 3, (4, 5, 17), (30, 5, 17), 2),
    REPEATED(1, 2, (30, 4), (30, 9), 1),
    REPEATED(1, 3, (-1, -2, -3), (-1, 5, -3), 4),
    REPEATED(0, 2, (400, 300), (70, 300), 2),
    REPEATED(0, 2, (4, 5), (0, 5), 2),
    REPEATED(0, 2, (0, 5), (3, 5), 2),
    REPEATED(2, 4, (2, 3, 9, 33), (2, 3, 70, 33), 8),
    REPEATED(0, 2, (4, 5), (30, 5), 3),
    /* several positions a thread: ranges that end at warps, or within them, two positions, and more axes */
    REPEATED(1, 3, (3, 200, 128), (3, 150, 128), 4),
    REPEATED(1, 3, (2, 300, 136), (2, 1100, 136), 4),
    REPEATED(1, 3, (5, 120, 66), (5, 90, 66), 4),
    REPEATED(1, 4, (2, 200, 3, 64), (2, 100, 3, 64), 12),
    REPEATED(0, 2, (300, 256), (40, 256), 2),
    REPEATED(1, 3, (-1, -2, 64), (-1, 70, 64), 4),
};

static void test_scatter_of_rows(void **state) {
    static struct scatter variants[3 * COUNT(of_rows)];
    (void)state;
    for (int i = 0; i < 3 * COUNT(of_rows); i++) {
        struct scatter *s = &variants[i];
        enum ig_scatter how = i % 3 == 0 ? IG_SCATTER_SET : i % 3 == 1 ? IG_SCATTER_ADD : IG_SCATTER_MIN;
        enum ingot_dtype dtype = i % 3 == 2 ? INGOT_F16 : INGOT_F32;
        *s = of_rows[i / 3];
        s->dtype = dtype;
        s->index_dtype = i % 2 ? INGOT_I32 : INGOT_I64;
        s->how = how;
        s->followed = how == IG_SCATTER_ADD ? i / 3 % 3 : 0;
        add_named_case(build_scatter, s, how == IG_SCATTER_ADD ? 0 : GRAPH_POISON, symbols, "rows %d, reduction %d",
                       i / 3, (int)how)
            ->tolerance = tolerance_for(dtype, how);
    }
    check_all();
}

/* Indices of all magnitudes: nearly all are out of range. */
static void test_scatter_far_outside(void **state) {
    static struct scatter variants[COUNT(scatters)];
    (void)state;
    for (int i = 0; i < COUNT(scatters); i++) {
        bool wide = i % 2;
        add_scatter(&variants[i], &scatters[i], INGOT_I32, wide ? INGOT_I64 : INGOT_I32,
                    wide ? IG_SCATTER_SET : IG_SCATTER_ADD, false, GRAPH_HOSTILE);
    }
    check_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topk),
        cmocka_unit_test(test_topk_of_types),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_scatter_of_types),
        cmocka_unit_test(test_scatter_of_rows),
        cmocka_unit_test(test_scatter_far_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
