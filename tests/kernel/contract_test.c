/* Matrix products with extreme shapes, prologues and epilogues, and tiles of products and convolutions, against the reference. */
#include <stdio.h>

#include "support/check/conv_cases.h"
#include "support/support.h"

enum { MOST = 128 };
static struct graph_case cases[MOST];
static char names[MOST][64];

static ig_value scalar(struct ig_graph *g, enum ingot_dtype dtype, double value) {
    return ig_build_scalar(g, dtype, value);
}

/* ---- Matrix products --------------------------------------------------------------------------------------------------- */

struct product {
    enum ingot_dtype a_dtype, b_dtype, acc;
    int a_rank, b_rank;
    int64_t a[4], b[4];
    bool constant;   /* b */
    bool transposed; /* b is given as [..., n, k] */
    bool bias, gelu, prologue;
    bool rounded; /* the result is stored in f16 */
    /* Not 0: a is given as [batch, heads, rows, each], and transposed and reshaped to [batch, rows, heads * each]. */
    int heads;
    /* With heads: a is reshaped to [batch, heads * each, rows] first, then transposed. Without: a is given as [k,
     * m]. */
    bool turned;
};

static void build_product(struct ig_graph *g, const void *argument) {
    const struct product *p = argument;
    struct ig_type a_type = sized_type(g, p->a_dtype, p->a_rank, p->a),
                   b_type = sized_type(g, p->b_dtype, p->b_rank, p->b);
    ig_value a = ig_build_input(g, "a", &a_type);
    ig_value b = p->constant ? random_constant(g, p->b_dtype, p->b_rank, p->b, 3) : ig_build_input(g, "b", &b_type);
    if (p->heads && p->turned) { /* the same, by way of [batch, heads, each, rows] and [batch, heads * each, rows] */
        ig_dim dims[3] = {a_type.dim[0], ig_dim_mul(g->dims, a_type.dim[1], a_type.dim[3]), a_type.dim[2]};
        a = ig_build_reshape(g, ig_build_transpose(g, a, (const int64_t[]){0, 1, 3, 2}), dims, 3);
        a = ig_build_transpose(g, a, (const int64_t[]){0, 2, 1});
    } else if (p->turned) {
        a = ig_build_transpose(g, a, (const int64_t[]){1, 0});
    } else if (p->heads) { /* [batch, heads, rows, each] -> [batch, rows, heads * each] */
        ig_dim dims[3] = {a_type.dim[0], a_type.dim[2], ig_dim_mul(g->dims, a_type.dim[1], a_type.dim[3])};
        a = ig_build_reshape(g, ig_build_transpose(g, a, (const int64_t[]){0, 2, 1, 3}), dims, 3);
    }
    if (p->prologue) a = ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_add, a, scalar(g, p->a_dtype, 0.5)), a);
    if (p->transposed) {
        int64_t perm[4] = {0, 1, 2, 3};
        perm[p->b_rank - 1] = p->b_rank - 2;
        perm[p->b_rank - 2] = p->b_rank - 1;
        b = ig_build_transpose(g, b, perm);
    }
    ig_value y = ig_build_matmul(g, a, b, p->acc);
    const struct ig_type *type = ig_type_of(g, y);
    int64_t columns = p->transposed ? p->b[p->b_rank - 2] : p->b[p->b_rank - 1];
    if (p->bias) y = ig_map2(g, IG_OP_add, y, random_constant(g, type->dtype, 1, &columns, 5));
    if (p->gelu) {
        ig_value e = ig_map1(g, IG_OP_erf, ig_map2(g, IG_OP_mul, y, scalar(g, p->acc, 0.70710678)));
        y = ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_mul, y, scalar(g, p->acc, 0.5)),
                    ig_map2(g, IG_OP_add, e, scalar(g, p->acc, 1)));
    }
    ig_build_output(g, "y", p->rounded ? ig_build_cast(g, y, INGOT_F16) : y);
}

#define FLOATS .a_dtype = INGOT_F32, .b_dtype = INGOT_F32, .acc = INGOT_F32
static const struct product products[] = {
    {FLOATS, 2, 2, {1, 1}, {1, 1}, .constant = true},
    {FLOATS, 2, 2, {1, 300}, {300, 77}, .constant = true, .bias = true},
    {FLOATS, 2, 2, {128, 96}, {96, 100}, .constant = true, .bias = true, .gelu = true},
    {FLOATS, 2, 2, {49, 1024}, {1024, 64}, .constant = true, .bias = true}, /* rows that share cache sets: copied */
    {FLOATS, 2, 2, {37, 2500}, {2500, 513}, .constant = true},
    {FLOATS, 2, 2, {5, 1}, {1, 40}, .constant = true},
    {FLOATS, 2, 2, {3, 0}, {0, 8}, .constant = false, .bias = true},
    {FLOATS, 2, 2, {0, 4}, {4, 8}, .constant = true},
    {FLOATS, 3, 2, {2, 19, 64}, {64, 48}, .constant = true, .bias = true},
    {FLOATS, 3, 2, {-1, -2, 40}, {40, 24}, .constant = true, .bias = true, .gelu = true},
    {FLOATS, 3, 2, {-1, -2, 40}, {40, 24}, .constant = true, .prologue = true},
    {FLOATS, 2, 2, {9, 5}, {5, 33}, .constant = false},
    {FLOATS, 2, 2, {9, 50}, {33, 50}, .constant = false, .transposed = true, .bias = true},
    {FLOATS, 4, 4, {2, 3, 17, 20}, {2, 3, 20, 17}},
    {FLOATS, 4, 4, {2, 3, 17, 20}, {2, 3, 35, 20}, .transposed = true},
    {FLOATS, 4, 4, {2, 3, -2, 20}, {2, 3, -3, 20}, .transposed = true},
    {FLOATS, 4, 4, {-1, 3, -2, -3}, {-1, 3, -3, 20}},
    /* Several tiles along all axes, of which one is symbolic, or two. */
    {FLOATS, 4, 4, {-1, 3, 70, 20}, {-1, 3, 20, 150}},
    {FLOATS, 4, 4, {2, 3, -2, 20}, {2, 3, 20, 150}},
    {FLOATS, 4, 4, {-1, 3, -2, 20}, {-1, 3, 20, 150}},
    {FLOATS, 4, 4, {2, 1, 4, 8}, {1, 3, 8, 5}},
    {FLOATS, 2, 3, {4, 8}, {3, 8, 5}},
    {FLOATS, 4, 2, {2, 4, 10, 16}, {64, 70}, .constant = true, .heads = 4, .bias = true},
    {FLOATS, 4, 2, {-1, 4, -2, 16}, {64, 70}, .constant = true, .heads = 4, .bias = true},
    {FLOATS, 4, 2, {2, 4, 10, 16}, {64, 70}, .constant = true, .heads = 4, .turned = true},
    {FLOATS, 4, 2, {-1, 3, 9, 5}, {15, 8}, .constant = true, .heads = 3, .turned = true, .bias = true},
    {FLOATS, 2, 2, {6, 3}, {6, 4}, .turned = true, .bias = true}, /* fewer rows than a tile */
    {FLOATS, 2, 2, {300, 49}, {300, 36}, .turned = true},
    {FLOATS,
     2,
     2,
     {49, 2048},
     {2048, 20},
     .constant = true,
     .bias = true}, /* each share of a tile has a remainder of rows */
    {.a_dtype = INGOT_F64, .b_dtype = INGOT_F64, .acc = INGOT_F64, 2, 2, {23, 31}, {31, 19}, .constant = true},
    {.a_dtype = INGOT_U8, .b_dtype = INGOT_I8, .acc = INGOT_I32, 2, 2, {23, 131}, {131, 39}, .constant = true},
    {.a_dtype = INGOT_I8, .b_dtype = INGOT_I8, .acc = INGOT_I32, 2, 2, {6, 31}, {31, 19}},
    {.a_dtype = INGOT_I64, .b_dtype = INGOT_I64, .acc = INGOT_I64, 2, 2, {6, 31}, {31, 19}},
    {.a_dtype = INGOT_U32, .b_dtype = INGOT_U32, .acc = INGOT_U32, 2, 2, {6, 31}, {31, 19}, .constant = true},
    {.a_dtype = INGOT_F16, .b_dtype = INGOT_F16, .acc = INGOT_F32, 2, 2, {15, 64}, {64, 40}, .constant = true},
    {.a_dtype = INGOT_BF16, .b_dtype = INGOT_BF16, .acc = INGOT_BF16, 2, 2, {15, 64}, {64, 40}, .constant = true},
    {.a_dtype = INGOT_F16, .b_dtype = INGOT_F16, .acc = INGOT_F16, 2, 2, {15, 64}, {64, 40}},
};

static double tolerance_of(const struct product *p) {
    switch (p->acc) {
    case INGOT_F32: return 3e-6;
    case INGOT_F64: return 1e-14;
    case INGOT_F16: return 1e-3;
    case INGOT_BF16: return 8e-3;
    default: return 0;
    }
}

static void test_products(void **state) {
    (void)state;
    const int count = COUNT(products);
    assert_true(COUNT(ways) * count <= MOST);
    for (int i = 0; i < COUNT(ways) * count; i++) {
        const struct product *p = &products[i % count];
        snprintf(names[i], sizeof names[i], "product %d%s", i % count, ways[i / count].name);
        cases[i] =
            (struct graph_case){names[i], build_product, p, tolerance_of(p), ways[i / count].flags, {3, 29, 18, 0}};
    }
    check_graphs(cases, COUNT(ways) * count);
}

/* [s0 + 1, rows, 7] by [7, 33], the first two axes merged: the number of rows is a symbolic multiple of `rows`. */
static void build_multiple(struct ig_graph *g, const void *argument) {
    const int64_t *rows = argument, sizes[] = {-1, *rows, 7}, weights[] = {7, 33};
    struct ig_type type = sized_type(g, INGOT_F32, 3, sizes);
    ig_dim zero = ig_dim_const(g->dims, 0), one = ig_dim_const(g->dims, 1);
    ig_dim before[] = {zero, zero, zero}, after[] = {one, zero, zero};
    ig_value x = ig_build_pad(g, ig_build_input(g, "x", &type), before, after, IG_PAD_CONSTANT, IG_NO_VALUE);
    const struct ig_type *padded = ig_type_of(g, x);
    ig_dim merged[] = {ig_dim_mul(g->dims, padded->dim[0], padded->dim[1]), padded->dim[2]};
    x = ig_build_reshape(g, x, merged, 2);
    ig_build_output(g, "y", ig_build_matmul(g, x, random_constant(g, INGOT_F32, 2, weights, 5), INGOT_F32));
}

/* Rows whose elements come from groups in turns, as behind a shuffle of channels, and of these some. */
struct shuffled {
    int64_t groups, each, from, depth; /* depth: of the product, elements from `from` on */
};

static void build_shuffled(struct ig_graph *g, const void *argument) {
    const struct shuffled *p = argument;
    const int64_t sizes[] = {-1, p->groups, p->each}, weights[] = {p->depth, 33};
    struct ig_type type = sized_type(g, INGOT_F32, 3, sizes);
    ig_value x = ig_build_transpose(g, ig_build_input(g, "x", &type), (const int64_t[]){0, 2, 1});
    ig_dim rows[] = {type.dim[0], ig_dim_const(g->dims, p->groups * p->each)};
    x = ig_build_slice_axis(g, ig_build_reshape(g, x, rows, 2), 1, ig_dim_const(g->dims, p->from),
                            ig_dim_const(g->dims, p->depth), 1);
    ig_build_output(g, "y", ig_build_matmul(g, x, random_constant(g, INGOT_F32, 2, weights, 5), INGOT_F32));
}

/* All of the elements, a half, some that are no multiple of the groups, from within a turn, and more groups than runs are told apart. */
static void test_shuffled(void **state) {
    (void)state;
    static const struct shuffled shuffled[] = {{2, 58, 0, 116}, {2, 58, 58, 58}, {2, 29, 29, 28}, {2, 29, 0, 27},
                                               {3, 20, 7, 51},  {4, 9, 1, 32},   {4, 1, 0, 4},    {8, 5, 8, 32}};
    const int count = COUNT(shuffled);
    for (int i = 0; i < COUNT(ways) * count; i++) {
        snprintf(names[i], sizeof names[i], "shuffled %d%s", i % count, ways[i / count].name);
        cases[i] =
            (struct graph_case){names[i], build_shuffled, &shuffled[i % count], 1e-5, ways[i / count].flags, {37}};
    }
    check_graphs(cases, COUNT(ways) * count);
}

/* Of several matrices, each sample has the one that its number says: counted from the end, or beyond both ends. */
struct chosen {
    enum ingot_dtype dtype;
    int64_t a[3], b[3];                /* [samples, rows, depth] and [matrices, depth, columns] */
    bool constant, transposed, shared; /* shared: one number for all samples */
};

static void build_chosen(struct ig_graph *g, const void *argument) {
    const struct chosen *p = argument;
    struct ig_type a_type = sized_type(g, p->dtype, 3, p->a), b_type = sized_type(g, p->dtype, 3, p->b);
    struct ig_type number = sized_type(g, INGOT_I64, 1, (const int64_t[]){p->shared ? 1 : p->a[0]});
    ig_value a = ig_build_input(g, "a", &a_type);
    ig_value all = p->constant ? random_constant(g, p->dtype, 3, p->b, 3) : ig_build_input(g, "b", &b_type);
    ig_value b = ig_build_gather(g, all, ig_build_input(g, "number", &number), 0);
    if (p->transposed) b = ig_build_transpose(g, b, (const int64_t[]){0, 2, 1});
    ig_value y = ig_build_matmul(g, a, b, p->dtype);
    ig_build_output(g, "y", ig_map2(g, IG_OP_add, y, y));
}

static const struct chosen chosen[] = {
    {INGOT_F32, {3, 19, 64}, {5, 64, 16}, .constant = true},
    {INGOT_F32, {-1, -2, 33}, {4, 33, 7}, .constant = true},
    {INGOT_F32, {-1, 1, 16}, {4, 16, 130}, .constant = true},
    {INGOT_F32, {-1, 70, 1}, {2, 1, 1}, .constant = false},
    {INGOT_F32, {3, 9, 40}, {5, 24, 40}, .constant = true, .transposed = true},
    {INGOT_F32, {0, 9, 8}, {2, 8, 8}, .constant = true},
    {INGOT_F32, {-1, -2, 48}, {3, 48, 40}, .constant = true, .shared = true},
    {INGOT_F16, {-1, -2, 64}, {5, 64, 16}, .constant = true},
    {INGOT_F16, {3, 70, 16}, {5, 16, 72}, .constant = true},
    {INGOT_F64, {3, 9, 5}, {5, 5, 11}, .constant = true},
};

static void test_chosen(void **state) {
    (void)state;
    const int count = COUNT(chosen);
    for (int i = 0; i < COUNT(ways) * count; i++) {
        const struct chosen *p = &chosen[i % count];
        double tolerance = p->dtype == INGOT_F32 ? 3e-6 : p->dtype == INGOT_F16 ? 1e-3 : 1e-14;
        snprintf(names[i], sizeof names[i], "chosen %d%s", i % count, ways[i / count].name);
        cases[i] = (struct graph_case){names[i], build_chosen, p, tolerance, ways[i / count].flags, {3, 29, 18, 0}};
    }
    check_graphs(cases, COUNT(ways) * count);
}

/* Numbers of rows that are multiples of the micro-kernel's block, for each block size of a processor: no remainder. */
static void test_multiples(void **state) {
    (void)state;
    static const int64_t rows[] = {6, 14, 42, 5, 8, 12};
    for (int i = 0; i < COUNT(rows); i++) {
        snprintf(names[i], sizeof names[i], "a multiple of %lld rows", (long long)rows[i]);
        cases[i] = (struct graph_case){names[i], build_multiple, &rows[i], 1e-5, 0, {4}};
    }
    check_graphs(cases, COUNT(rows));
}

/* All GPU candidates for some sizes: with and without warpgroups, with and without split-K; and in TF32. */
static void test_tiles(void **state) {
    (void)state;
    static const struct product sizes[] = {
        {FLOATS, 2, 2, {65, 520}, {520, 136}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {390, 75}, {390, 130}, .constant = true, .turned = true},
    };
    static const unsigned precisions[] = {0, GRAPH_FP16, GRAPH_TF32};
    static const char *const labels[] = {"", ", fp16", ", tf32"};
    enum { CHOICES = 12, WAYS = COUNT(precisions) };
    for (int i = 0; i < COUNT(sizes) * CHOICES * WAYS; i++) {
        int size = i / WAYS / CHOICES, choice = i / WAYS % CHOICES, way = i % WAYS;
        unsigned flags = precisions[way] + (unsigned)choice * GRAPH_CHOICE;
        snprintf(names[i], sizeof names[i], "product %d, tile %d%s", size, choice, labels[way]);
        cases[i] = (struct graph_case){names[i], build_product, &sizes[size], way ? 3e-3 : 1e-5, flags, {0}};
    }
    check_graphs_for_cuda(cases, COUNT(sizes) * CHOICES * WAYS);
}

/* Convolutions and products in TF32, whose weights lie along the depth if it is whole loads: all candidates. */
static void test_tf32(void **state) {
    (void)state;
    static const struct conv windows[] = {
        {PLANE(2, 9, 8, 36, 40, 3, 1, 1), .bias = true, .relu = true},
        {PLANE(-1, 7, -2, 3, 24, 7, 2, 3), .bias = true}, /* a picture */
        {PLANE(2, 9, 5, 16, 33, 1, 1, 0), .residual = true},
        {PLANE(2, 9, 5, 5, 33, 3, 1, 1)}, /* no whole loads */
        {GROUPED(2, 9, 8, 8, 4, 4, 3, 1, 1), .bias = true},
        {GROUPED(2, 9, 8, 3, 1, 1, 3, 1, 1), .bias = true}, /* depthwise */
    };
    enum { CHOICES = 6 };
    for (int i = 0; i < COUNT(windows) * CHOICES; i++) {
        unsigned flags = GRAPH_TF32 + (unsigned)(i % CHOICES) * GRAPH_CHOICE;
        int at = i / CHOICES;
        snprintf(names[i], sizeof names[i], "convolution %d in TF32, tile %d", at, i % CHOICES);
        cases[i] = (struct graph_case){names[i], build_conv, &windows[at], 3e-3, flags, {2, 9, 0, 0}};
    }
    check_graphs_for_cuda(cases, COUNT(windows) * CHOICES);
}

/* Few columns: warp groups swap the operands. A along and across the depth, and windows; in TF32 along only. */
static void test_swapped(void **state) {
    (void)state;
    static const struct product product = {FLOATS, 2, 2, {300, 136}, {136, 40}, .constant = true, .bias = true};
    static const struct product turned = {FLOATS, 2, 2, {200, 296}, {200, 72}, .constant = true, .turned = true};
    static const struct conv conv = {PLANE(2, 9, 20, 20, 36, 3, 1, 1), .bias = true, .relu = true};
    static const struct {
        void (*build)(struct ig_graph *g, const void *argument);
        const void *argument;
        unsigned flags;
    } kinds[] = {{build_product, &product, GRAPH_FP16},
                 {build_product, &turned, GRAPH_FP16},
                 {build_conv, &conv, GRAPH_FP16},
                 {build_conv, &conv, GRAPH_TF32}};
    enum { CHOICES = 5 };
    for (int i = 0; i < COUNT(kinds) * CHOICES; i++) {
        int kind = i / CHOICES, choice = i % CHOICES;
        unsigned flags = kinds[kind].flags + GRAPH_SWAPPED + (unsigned)choice * GRAPH_CHOICE;
        if (choice % 2 && kind < 2) flags += GRAPH_POISON;
        snprintf(names[i], sizeof names[i], "kind %d, tile %d", kind, choice);
        cases[i] = (struct graph_case){names[i], kinds[kind].build, kinds[kind].argument, 3e-3, flags, {0}};
    }
    check_graphs_for_cuda(cases, COUNT(kinds) * CHOICES);
}

/* Windows fetched by TMA, tap by tap: along one to three axes, strided, dilated, wholly in the padding; several images a
 * tile. In fp16, where channels are multiples of 64, and in TF32, where they are of 32. */
static void test_window_producers(void **state) {
    (void)state;
    static const struct conv windows[] = {
        {PLANE(2, 9, 11, 64, 136, 3, 1, 1), .bias = true, .relu = true},
        {PLANE(-1, 7, -2, 128, 72, 3, 2, 1), .residual = true},
        {PLANE(3, 5, 4, 64, 80, 2, 1, 3)},
        {F32, .spatial = 2, .batch = 2, .size = {9, 14}, .in = 64, .out = 72, .kernel = {1, 5}, .stride = {2, 3},
         .dilation = {1, 2}, .before = {0, 5}, .after = {1, 2}, .groups = 1, .last = true, .bias = true},
        {F32, .spatial = 1, .batch = 3, .size = {70}, .in = 64, .out = 72, .kernel = {3}, .stride = {1},
         .dilation = {2}, .before = {2}, .after = {2}, .groups = 1, .last = true, .bias = true},
        {VOLUME(2, 4, 5, 6, 64, 72, 3, 1, 1), .bias = true},
        {F32, .spatial = 3, .batch = 2, .size = {5, 6, 7}, .in = 64, .out = 72, .kernel = {3, 1, 2},
         .stride = {2, 1, 3}, .dilation = {1, 1, 2}, .before = {1, 0, 2}, .after = {1, 0, 1}, .groups = 1, .last = true,
         .relu = true},
        {PLANE(-1, -2, 5, 64, 72, 1, 2, 0), .bias = true},
    };
    enum { CHOICES = 3 };
    for (int i = 0; i < COUNT(windows) * CHOICES; i++) {
        int at = i / CHOICES, choice = i % CHOICES;
        unsigned flags = (choice < 2 ? GRAPH_FP16 : GRAPH_TF32) + GRAPH_MAPS + (unsigned)(4 * choice) * GRAPH_CHOICE;
        if (choice == 1) flags += GRAPH_POISON;
        snprintf(names[i], sizeof names[i], "windows %d, producer %d", at, choice);
        cases[i] = (struct graph_case){names[i], build_conv, &windows[at], 3e-3, flags, {2, 9, 0, 0}};
    }
    check_graphs_for_cuda(cases, COUNT(windows) * CHOICES);
}

/* Tiles fetched by TMA: operands along and across the depth, several tiles per block, edges, NaN. */
static void check_producers(unsigned precision) {
    static const struct product sizes[] = {
        {FLOATS, 2, 2, {392, 72}, {-2, 72}, .transposed = true}, /* columns are not kept where their number is open */
        {FLOATS, 2, 2, {300, 136}, {136, 264}, .constant = true, .bias = true, .gelu = true},
        {FLOATS, 2, 2, {-2, 72}, {264, 72}, .transposed = true},
        {FLOATS, 2, 2, {1181, 8}, {8, 136}, .constant = true},
        {FLOATS, 2, 2, {72, 280}, {72, 136}, .turned = true, .bias = true},
        {FLOATS, 2, 2, {140, 72}, {72, 267}, .constant = true, .bias = true}, /* columns one by one */
        {FLOATS, 2, 2, {140, 72}, {72, 270}, .constant = true, .bias = true}, /* two by two */
    };
    /* Tiles in more than one band of 16 rows of tiles, the last one of another height. */
    static const struct product banded = {FLOATS, 2, 2, {-3, 8}, {8, 264}, .constant = true};
    enum { CHOICES = 10, BANDED = 2 };
    for (int i = 0; i < COUNT(sizes) * CHOICES; i++) {
        int size = i / CHOICES;
        unsigned flags = precision + GRAPH_MAPS + (i % 2 ? GRAPH_POISON : 0u) + (unsigned)(i % CHOICES) * GRAPH_CHOICE;
        snprintf(names[i], sizeof names[i], "product %d, producer %d", size, i % CHOICES);
        cases[i] = (struct graph_case){names[i], build_product, &sizes[size], 3e-3, flags, {0, 301}};
    }
    for (int i = 0; i < BANDED; i++) {
        unsigned flags = precision + GRAPH_MAPS + (unsigned)i * GRAPH_CHOICE;
        int at = COUNT(sizes) * CHOICES + i;
        snprintf(names[at], sizeof names[at], "bands, producer %d", i);
        cases[at] = (struct graph_case){names[at], build_product, &banded, 3e-3, flags, {0, 0, 2410}};
    }
    check_graphs_for_cuda(cases, COUNT(sizes) * CHOICES + BANDED);
}

/* Products of many matrices, as they lie in their operands. */
struct matrices {
    enum { APART, TRANSPOSED, WEIGHTS, HEADS, BY_ROW, BY_COLUMN, PART } kind;
    int64_t batch, heads, rows, depth, columns;
    bool residual;
};

static ig_value floats(struct ig_graph *g, const char *name, int rank, const int64_t *sizes) {
    struct ig_type type = sized_type(g, INGOT_F32, rank, sizes);
    return ig_build_input(g, name, &type);
}

/* Part number `which` of x[batch, rows, parts, heads, depth]: [batch, heads, rows, depth]. */
static ig_value part_of(struct ig_graph *g, ig_value x, int64_t which) {
    const struct ig_type *type = ig_type_of(g, x);
    const ig_dim without[4] = {type->dim[0], type->dim[1], type->dim[3], type->dim[4]};
    x = ig_build_slice_axis(g, x, 2, ig_dim_const(g->dims, which), ig_dim_const(g->dims, 1), 1);
    return ig_build_transpose(g, ig_build_reshape(g, x, without, 4), (const int64_t[]){0, 2, 1, 3});
}

static void build_matrices(struct ig_graph *g, const void *argument) {
    const struct matrices *m = argument;
    const int64_t b = m->batch, h = m->heads, r = m->rows, d = m->depth, c = m->columns;
    const int64_t turned[] = {0, 1, 3, 2};
    ig_value x, y;
    switch (m->kind) {
    case TRANSPOSED:
        x = floats(g, "x", 4, (const int64_t[]){b, h, r, d});
        y = ig_build_transpose(g, floats(g, "y", 4, (const int64_t[]){b, h, c, d}), turned);
        break;
    case WEIGHTS: /* lines of no whole loads are filled up */
        x = random_constant(g, INGOT_F32, 2, (const int64_t[]){r, d}, 1);
        y = floats(g, "y", 3, (const int64_t[]){b, d, c});
        break;
    case HEADS:
        x = floats(g, "x", 5, (const int64_t[]){b, r, 3, h, d});
        y = ig_build_transpose(g, part_of(g, x, 2), turned);
        x = part_of(g, x, 1);
        break;
    case BY_ROW: /* one second matrix for all heads */
        x = floats(g, "x", 4, (const int64_t[]){b, h, r, d});
        y = floats(g, "y", 4, (const int64_t[]){b, 1, d, c});
        break;
    case BY_COLUMN: /* one for all of the batch */
        x = ig_build_transpose(g, floats(g, "x", 4, (const int64_t[]){b, h, d, r}), turned);
        y = floats(g, "y", 3, (const int64_t[]){h, d, c});
        break;
    case PART: /* the last columns of a wider matrix */
        x = floats(g, "x", 2, (const int64_t[]){r, 64 + d});
        x = ig_build_slice_axis(g, x, 1, ig_dim_const(g->dims, 64), ig_dim_const(g->dims, d), 1);
        y = floats(g, "y", 2, (const int64_t[]){d, c});
        break;
    default: x = floats(g, "x", 4, (const int64_t[]){b, h, r, d}); y = floats(g, "y", 4, (const int64_t[]){b, h, d, c});
    }
    y = ig_build_matmul(g, x, y, INGOT_F32);
    if (m->residual) {
        const struct ig_type type = *ig_type_of(g, y);
        y = ig_map2(g, IG_OP_add, y, ig_build_input(g, "r", &type));
    }
    ig_build_output(g, "z", y);
}

/* Fetched by TMA from where each batch's matrices begin: of two axes, shared along one or both, edges within and between them, NaN. */
static void check_matrices(const unsigned *precisions, int n_precisions, const struct matrices *sizes, int n) {
    enum { CHOICES = 4 };
    for (int i = 0; i < n * CHOICES; i++) {
        const struct matrices *m = &sizes[i / CHOICES];
        unsigned flags = precisions[i % n_precisions] + GRAPH_MAPS + GRAPH_DEMANDED + (i % 2 ? GRAPH_POISON : 0u);
        snprintf(names[i], sizeof names[i], "matrices %d, producer %d", i / CHOICES, i % CHOICES);
        flags += (unsigned)(i % CHOICES * 3) * GRAPH_CHOICE;
        cases[i] = (struct graph_case){names[i], build_matrices, m, 2e-2, flags, {3, 2, 130, 0}};
    }
    check_graphs_for_cuda(cases, n * CHOICES);
}

static void test_matrices(void **state) {
    (void)state;
    static const struct matrices sizes[] = {
        {APART, -1, 2, 130, 72, 72, true},       {APART, 2, 1, -3, 8, 136, false},
        {TRANSPOSED, 2, 3, 70, 136, 200, false}, {WEIGHTS, -1, 1, 150, 68, 136, true},
        {WEIGHTS, 1, 1, 70, 9, 72, false},       {HEADS, -1, 3, 130, 64, 0, false},
        {BY_ROW, 2, 3, 70, 72, 72, false},       {BY_COLUMN, 3, 2, 136, 70, 72, true},
        {PART, 1, 1, 300, 72, 136, false},
    };
    static const unsigned precisions[] = {GRAPH_FP16, GRAPH_FP16, GRAPH_BF16};
    check_matrices(precisions, COUNT(precisions), sizes, COUNT(sizes));
}

static void test_matrices_tf32(void **state) {
    (void)state;
    static const struct matrices sizes[] = {
        {TRANSPOSED, 2, -2, 70, 36, 72, true},
        {HEADS, 2, 2, 70, 40, 0, false},
    };
    static const unsigned precisions[] = {GRAPH_TF32};
    check_matrices(precisions, COUNT(precisions), sizes, COUNT(sizes));
}

/* Groups that take turns, and columns that stay in shared memory: fewer blocks of columns than the emulator has
 * multiprocessors, and more. The columns of the last are dealt out. */
static void test_kept_columns(void **state) {
    (void)state;
    static const struct product sizes[] = {
        {FLOATS, 2, 2, {-2, 72}, {72, 72}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {300, 136}, {136, 288}, .constant = true, .bias = true, .gelu = true, .rounded = true},
    };
    static const unsigned precisions[] = {GRAPH_FP16, GRAPH_FP16, GRAPH_BF16, GRAPH_TF32};
    enum { CHOICES = 12 };
    int count = 0;
    for (int p = 0; p < COUNT(precisions); p++) {
        for (int choice = p < 2 ? 0 : CHOICES / 2; choice < CHOICES; choice++) {
            unsigned flags =
                precisions[p] + GRAPH_MAPS + (choice % 2 ? GRAPH_POISON : 0u) + (unsigned)choice * GRAPH_CHOICE;
            snprintf(names[count], sizeof names[count], "kept %d, producer %d", p, choice);
            cases[count] =
                (struct graph_case){names[count], build_product, &sizes[p > 0], p == 2 ? 2e-2 : 3e-3, flags, {0, 1181}};
            count++;
        }
    }
    check_graphs_for_cuda(cases, count);
}

static void test_producers(void **state) {
    (void)state;
    check_producers(GRAPH_FP16);
}

static void test_producers_tf32(void **state) {
    (void)state;
    check_producers(GRAPH_TF32);
}

/* Every second candidate of n graphs of few rows, in the first of four precisions; `arguments` of so many bytes each. */
static void check_few_rows(const char *name, void (*build)(struct ig_graph *, const void *), const void *arguments,
                           size_t bytes, int n, int choices, int precisions) {
    static const unsigned flags[] = {GRAPH_FP16, GRAPH_FP16 + GRAPH_POISON, GRAPH_BF16, 0};
    static const double tolerances[] = {3e-3, 3e-3, 2e-2, 1e-5};
    for (int i = 0; i < n * choices; i++) {
        const void *argument = (const char *)arguments + (size_t)(i / choices) * bytes;
        unsigned flag = flags[i % precisions] + (unsigned)(i % choices * 2) * GRAPH_CHOICE;
        snprintf(names[i], sizeof names[i], "%s %d, choice %d", name, i / choices, i % choices * 2);
        cases[i] = (struct graph_case){names[i], build, argument, tolerances[i % precisions], flag, {1, 3, 7, 13}};
    }
    check_graphs_for_cuda(cases, n * choices);
}

/* Few rows, whose weights go from memory to registers: on CUDA cores and on tensor cores, narrow blocks and wide ones,
 * clusters, depths that end within a step, columns that end within a block, fewer rows than the tile has, NaN. */
static void test_direct(void **state) {
    (void)state;
    static const struct product sizes[] = {
        {FLOATS, 2, 2, {-1, 516}, {516, 136}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {-2, 1100}, {1100, 40}, .constant = true},
        {FLOATS, 2, 2, {-3, 264}, {264, 72}, .constant = true, .gelu = true},
        {FLOATS, 2, 2, {-4, 1036}, {1036, 72}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {-3, 516}, {516, 136}, .constant = true},
        {FLOATS, 2, 2, {2, 4}, {4, 8}, .constant = true},
    };
    check_few_rows("few rows", build_product, sizes, sizeof *sizes, COUNT(sizes), 10, 4);
}

/* Few rows by weights that stream through shared memory: on CUDA cores and on tensor cores, columns shorter than a piece and
 * longer than a ring, depths that end within a step, columns that end within a block or a group, fewer columns than warps,
 * fewer rows than the tile has, products one by one, NaN. */
static void test_stream(void **state) {
    (void)state;
    static const struct product sizes[] = {
        {FLOATS, 2, 2, {1, 520}, {520, 136}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {3, 9224}, {9224, 13}, .constant = true},
        {FLOATS, 2, 2, {1, 264}, {264, 2200}, .constant = true, .gelu = true},
        {FLOATS, 2, 2, {13, 1032}, {1032, 77}, .constant = true, .bias = true},
        {FLOATS, 2, 2, {8, 520}, {520, 136}, .constant = true},
        {FLOATS, 2, 2, {16, 2048}, {2048, 18}, .constant = true},
        {FLOATS, 2, 2, {2, 1000}, {1000, 3}, .constant = true},
        {FLOATS, 3, 2, {5, 1, 776}, {776, 50}, .constant = true},
        {FLOATS, 3, 3, {3, 11, 328}, {3, 72, 328}, .transposed = true},
        {FLOATS, 3, 3, {2, 6, 1096}, {2, 50, 1096}, .transposed = true, .bias = true},
    };
    check_few_rows("streamed", build_product, sizes, sizeof *sizes, COUNT(sizes), 4, 4);
}

struct twins {
    int64_t rows, depth, columns;
    bool both; /* the second product is a result too */
};

/* What a gate lets through: two products of one operand, which a kernel before them computes. */
static void build_twins(struct ig_graph *g, const void *argument) {
    const struct twins *t = argument;
    struct ig_type type = sized_type(g, INGOT_F32, 3, (const int64_t[]){1, t->rows, t->depth});
    ig_value x = ig_map1(g, IG_OP_neg, ig_build_input(g, "x", &type));
    ig_value gate = random_constant(g, INGOT_F32, 2, (const int64_t[]){t->depth, t->columns}, 1);
    ig_value let = random_constant(g, INGOT_F32, 2, (const int64_t[]){t->depth, t->columns}, 2);
    gate = ig_build_matmul(g, x, gate, INGOT_F32);
    let = ig_build_matmul(g, x, let, INGOT_F32);
    ig_build_output(g, "y", ig_map2(g, IG_OP_mul, ig_map1(g, IG_OP_sigmoid, gate), let));
    if (t->both) ig_build_output(g, "z", let);
}

static void test_twins(void **state) {
    (void)state;
    static const struct twins sizes[] = {
        {1, 1024, 192, false}, {3, 264, 72, true}, {8, 520, 136, false}, {16, 1032, 40, true}, {2, 8, 8, false},
    };
    check_few_rows("twins", build_twins, sizes, sizeof *sizes, COUNT(sizes), 9, 3);
}

struct first_rows {
    int64_t rows; /* -1: the symbol s0, but at most 4 */
    int64_t depth, columns;
    bool layer; /* less the mean, and with a bias */
    bool twin, reshaped;
};

static ig_value mean_of(struct ig_graph *g, ig_value x) {
    const int64_t last = ig_type_of(g, x)->rank - 1;
    return ig_build_reduce(g, IG_OP_reduce_mean, x, &last, 1);
}

/* A norm, and one product or two that alone read it. */
static void build_first_rows(struct ig_graph *g, const void *argument) {
    const struct first_rows *f = argument;
    const int64_t sizes[] = {1, f->rows, f->depth};
    struct ig_type type = sized_type(g, INGOT_F32, f->reshaped ? 3 : 2, f->reshaped ? sizes : sizes + 1);
    ig_value x = ig_build_input(g, "x", &type), w[2];
    if (f->rows < 0) {
        ig_dim rows = ig_dim_min(g->dims, type.dim[0], ig_dim_const(g->dims, 4));
        x = ig_build_slice_axis(g, x, 0, ig_dim_const(g->dims, 0), rows, 1);
    }
    if (f->layer) x = ig_map2(g, IG_OP_sub, x, mean_of(g, x));
    ig_value variance = mean_of(g, ig_map2(g, IG_OP_mul, x, x));
    variance = ig_map2(g, IG_OP_add, variance, ig_build_scalar(g, INGOT_F32, 1e-5));
    x = ig_map2(g, IG_OP_div, x, ig_map1(g, IG_OP_sqrt, variance));
    x = ig_map2(g, IG_OP_mul, x, random_constant(g, INGOT_F32, 1, &f->depth, 3));
    if (f->layer) x = ig_map2(g, IG_OP_add, x, random_constant(g, INGOT_F32, 1, &f->depth, 4));
    if (f->reshaped) {
        const struct ig_type merged = sized_type(g, INGOT_F32, 2, sizes + 1);
        x = ig_build_reshape(g, x, merged.dim, 2);
    }
    for (int i = 0; i < 2; i++)
        w[i] = random_constant(g, INGOT_F32, 2, (const int64_t[]){f->depth, f->columns}, (uint32_t)i);
    ig_value y = ig_build_matmul(g, x, w[0], INGOT_F32);
    if (f->twin) y = ig_map2(g, IG_OP_mul, ig_map1(g, IG_OP_sigmoid, y), ig_build_matmul(g, x, w[1], INGOT_F32));
    ig_build_output(g, "y", y);
}

/* Rows that a product computes first: one by all threads, several by a warp each; longer than what stays in registers; on CUDA cores and on
 * tensor cores; NaN; a number of rows that is open. */
static void test_rows_first(void **state) {
    (void)state;
    static const struct first_rows sizes[] = {
        {.rows = 1, .depth = 1024, .columns = 136},
        {.rows = 1, .depth = 520, .columns = 72, .layer = true, .reshaped = true},
        {.rows = 1, .depth = 264, .columns = 2200},
        {.rows = 1, .depth = 520, .columns = 72, .twin = true},
        {.rows = 3, .depth = 264, .columns = 40, .layer = true},
        {.rows = 4, .depth = 2056, .columns = 24, .reshaped = true},
        {.rows = 2, .depth = 264, .columns = 72, .twin = true, .reshaped = true},
        {.rows = -1, .depth = 520, .columns = 72, .layer = true},
    };
    enum { CHOICES = 3 };
    static const unsigned precisions[] = {GRAPH_FP16, GRAPH_FP16 + GRAPH_POISON, GRAPH_BF16};
    static const double tolerances[] = {3e-3, 3e-3, 2e-2};
    for (int i = 0; i < COUNT(sizes) * CHOICES; i++) {
        snprintf(names[i], sizeof names[i], "rows first %d, choice %d", i / CHOICES, i % CHOICES);
        unsigned flags = precisions[i % COUNT(precisions)] + GRAPH_ROWS_FIRST + (unsigned)(i % CHOICES) * GRAPH_CHOICE;
        cases[i] = (struct graph_case){
            names[i], build_first_rows, &sizes[i / CHOICES], tolerances[i % COUNT(tolerances)], flags, {3}};
    }
    check_graphs_for_cuda(cases, COUNT(sizes) * CHOICES);
}

/* Means of an image's channels, in front of a classifier: several lines make one row of the product. */
static void build_pooled(struct ig_graph *g, const void *argument) {
    const int64_t images = *(const int64_t *)argument, sizes[] = {images, 520, 5, 7}, weights[] = {520, 72};
    const int64_t places[] = {2, 3};
    const struct ig_type type = sized_type(g, INGOT_F32, 4, sizes), rows = sized_type(g, INGOT_F32, 2, sizes);
    ig_value x = ig_build_reduce(g, IG_OP_reduce_mean, ig_build_input(g, "x", &type), places, 2);
    x = ig_build_reshape(g, x, rows.dim, 2);
    ig_build_output(g, "y", ig_build_matmul(g, x, random_constant(g, INGOT_F32, 2, weights, 1), INGOT_F32));
}

static void test_pooled(void **state) {
    (void)state;
    static const int64_t images[] = {1, 2, 4};
    for (int i = 0; i < COUNT(images); i++)
        cases[i] = (struct graph_case){"pooled", build_pooled, &images[i], 3e-3, GRAPH_FP16 + GRAPH_ESTIMATED, {0}};
    check_graphs_for_cuda(cases, COUNT(images));
}

/* contract_test [PATTERN]: runs only the tests whose names match. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),       cmocka_unit_test(test_chosen),   cmocka_unit_test(test_multiples),
        cmocka_unit_test(test_tiles),          cmocka_unit_test(test_shuffled), cmocka_unit_test(test_producers),
        cmocka_unit_test(test_tf32),           cmocka_unit_test(test_swapped),  cmocka_unit_test(test_window_producers),
        cmocka_unit_test(test_producers_tf32), cmocka_unit_test(test_direct),   cmocka_unit_test(test_stream),
        cmocka_unit_test(test_pooled),         cmocka_unit_test(test_twins),    cmocka_unit_test(test_rows_first),
        cmocka_unit_test(test_kept_columns),   cmocka_unit_test(test_matrices), cmocka_unit_test(test_matrices_tf32),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
