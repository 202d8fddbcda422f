/*
 * Products and convolutions of bytes on GPUs' tensor cores, by every kind of kernel: i8 and u8 in any mix, whose sums are
 * exact, with what follows a quantised product, and floats of 8 bits. What is multiplied at the edges of tiles, and how it is
 * stored, differs from kernel to kernel.
 */
#include "support/check/kernel_cases.h"

struct typed {
    enum ingot_dtype a, b;
};

enum end { SUMS, BYTES, HALVES, RESIDUAL };

struct product {
    int64_t rows, depth, columns; /* rows -1 … -4: a symbol (kernel_cases.h) */
    struct typed of;
    enum end end;
    int64_t side;         /* of the images of a convolution, whose channels are the depth; 0: a matrix product */
    int64_t taps, stride; /* 0: 3, of stride 1 */
    int64_t border;
    bool dynamic; /* the second operand is an input, transposed for products */
    bool fast;
};

/* y as i8, of which NaN would be the lowest. */
static ig_value quantized(struct ig_graph *g, ig_value y) {
    ig_value lowest = ig_build_scalar(g, INGOT_F32, -128);
    y = ig_map1(g, IG_OP_round, y);
    y = ig_build_where(g, ig_map2(g, IG_OP_lt, lowest, y), y, lowest);
    return ig_build_cast_saturating(g, y, INGOT_I8);
}

/* A quantised product plus an input of its shape, quantised again and bounded: the end of a residual block. */
static ig_value plus_residual(struct ig_graph *g, const struct product *p, ig_value y) {
    const int64_t sizes[] = {p->rows, p->side, p->side, p->columns};
    ig_value residual = ig_build_cast(g, input(g, "residual", INGOT_I8, 4, sizes), INGOT_F32);
    y = ig_map2(g, IG_OP_mul, ig_build_cast(g, quantized(g, y), INGOT_F32), ig_build_scalar(g, INGOT_F32, 1.3));
    residual = ig_map2(g, IG_OP_mul, residual, ig_build_scalar(g, INGOT_F32, 0.7));
    y = quantized(g, ig_map2(g, IG_OP_add, y, residual));
    return ig_map2(g, IG_OP_max, y, ig_build_scalar_int(g, INGOT_I8, 0));
}

/* i32 sums plus a constant, scaled by channel, rounded, moved and saturated: as QLinearMatMul and QLinearConv. Sums of floats
 * are scaled alike. */
static ig_value ended(struct ig_graph *g, const struct product *p, ig_value y) {
    bool integers = ig_type_of(g, y)->dtype == INGOT_I32;
    if (p->end == SUMS) return y;
    if (integers) y = ig_map2(g, IG_OP_add, y, random_constant(g, INGOT_I32, 1, &p->columns, 12));
    y = ig_build_cast(g, y, INGOT_F32);
    ig_value scale = ig_build_cast(g, random_constant(g, INGOT_F16, 1, &p->columns, 5), INGOT_F32);
    y = ig_map2(g, IG_OP_mul, y, ig_map2(g, IG_OP_mul, scale, ig_build_scalar(g, INGOT_F32, 0x1p-12)));
    if (p->end == HALVES) return ig_build_cast(g, y, INGOT_F16);
    if (p->end == RESIDUAL) return plus_residual(g, p, y);
    y = ig_map2(g, IG_OP_add, ig_map1(g, IG_OP_round, y), ig_build_scalar(g, INGOT_F32, 3));
    return ig_build_cast_saturating(g, y, INGOT_U8);
}

static ig_value conv(struct ig_graph *g, const struct product *p, ig_value x, enum ingot_dtype acc, enum ig_math math) {
    int64_t size = p->taps ? p->taps : 3, step = p->stride ? p->stride : 1;
    const int64_t filter[] = {p->columns, p->depth, size, size}, ones[] = {1, 1}, taps[] = {size, size};
    const int64_t strides[] = {step, step};
    struct ig_graph *const none[2] = {NULL, NULL};
    const ig_dim padding[] = {number(g, size / 2), number(g, size / 2)};
    const struct ig_attr attrs[] = {ig_attr_of_ints(strides, 2), ig_attr_of_ints(ones, 2), ig_attr_of_dims(padding, 2),
                                    ig_attr_of_dims(padding, 2), ig_attr_of_int(1),        ig_attr_of_dtype(acc),
                                    ig_attr_of_int(1),           ig_attr_of_int(0),        ig_attr_of_int(p->columns),
                                    ig_attr_of_ints(taps, 2),    ig_attr_of_int(math),     ig_attr_of_int(p->border)};
    const ig_value in[] = {x, random_constant(g, p->of.b, 4, filter, 1)};
    return ig_build_node(g, IG_OP_conv, in, 2, 1, attrs, none);
}

static ig_value matmul(struct ig_graph *g, const struct product *p, ig_value x, enum ingot_dtype acc,
                       enum ig_math math) {
    const int64_t matrix[] = {p->depth, p->columns}, turned[] = {p->columns, p->depth}, order[] = {1, 0};
    struct ig_graph *const none[2] = {NULL, NULL};
    const struct ig_attr attrs[] = {ig_attr_of_dtype(acc), ig_attr_of_int(0), ig_attr_of_int(0), ig_attr_of_int(math)};
    ig_value w = p->dynamic ? ig_build_transpose(g, input(g, "w", p->of.b, 2, turned), order)
                            : random_constant(g, p->of.b, 2, matrix, 1);
    const ig_value in[] = {x, w};
    return ig_build_node(g, IG_OP_matmul, in, 2, 1, attrs, none);
}

static void build(struct ig_graph *g, const void *argument) {
    const struct product *p = argument;
    const int64_t sizes[] = {p->rows, p->side ? p->side : p->depth, p->side, p->depth};
    bool integers = p->of.a == INGOT_I8 || p->of.a == INGOT_U8;
    enum ingot_dtype acc = integers ? INGOT_I32 : INGOT_F32;
    enum ig_math math = p->fast ? IG_MATH_FAST : IG_MATH_EXACT;
    ig_value x = input(g, "x", p->of.a, p->side ? 4 : 2, sizes);
    ig_value y = p->side ? conv(g, p, x, acc, math) : matmul(g, p, x, acc, math);
    ig_build_output(g, "y", ended(g, p, y));
}

#define S8 \
    { INGOT_I8, INGOT_I8 }
#define U8S8 \
    { INGOT_U8, INGOT_I8 }
#define S8U8 \
    { INGOT_I8, INGOT_U8 }
#define E4M3 \
    { INGOT_F8E4M3FN, INGOT_F8E4M3FN }
#define E5M2 \
    { INGOT_F8E5M2, INGOT_F8E4M3FN }

struct listed {
    struct product p;
    /* How many kernels with tensor maps, of all in the cost model's order, with operands swapped, by patches of images, and by those that the
     * copy engine brings. */
    int maps, first, swapped, patches, brought;
};

static const struct listed integers[] = {
    {{.rows = 300, .depth = 256, .columns = 288, .of = U8S8, .end = BYTES}, .maps = 9, .first = 9, .swapped = 1},
    {{.rows = 300, .depth = 256, .columns = 288, .of = S8, .end = SUMS}, .maps = 2, .first = 2},
    {{.rows = -4, .depth = 384, .columns = 192, .of = S8U8, .end = HALVES}, .maps = 4, .first = 2, .swapped = 1},
    {{.rows = 130, .depth = 144, .columns = 72, .of = U8S8, .end = BYTES, .dynamic = true}, .maps = 2, .first = 4},
    {{.rows = 20, .depth = 200, .columns = 40, .of = S8, .end = BYTES}, .first = 2}, /* copies of 8 bytes */
    {{.rows = 20, .depth = 67, .columns = 41, .of = U8S8, .end = BYTES}, .first = 2},
    {{.rows = 3, .depth = 1024, .columns = 64, .of = S8, .end = BYTES}, .first = 3}, /* depths divided among blocks */
    {{.rows = 2, .depth = 128, .columns = 160, .of = U8S8, .end = BYTES, .side = 9},
     .maps = 3,
     .first = 5,
     .swapped = 1,
     .brought = 2},
    {{.rows = 2, .depth = 128, .columns = 64, .of = U8S8, .end = BYTES, .side = 9, .border = 131}, .first = 4},
    {{.rows = 2, .depth = 128, .columns = 160, .of = S8, .end = RESIDUAL, .side = 9, .taps = 1}, .maps = 6, .first = 2},
    {{.rows = 3, .depth = 64, .columns = 72, .of = S8, .end = RESIDUAL, .side = 12}, .maps = 3, .first = 1},
    {{.rows = 3, .depth = 64, .columns = 96, .of = U8S8, .end = BYTES, .side = 12},
     .maps = 4, /* steps of 64 bytes */
     .brought = 3},
    {{.rows = 2, .depth = 48, .columns = 40, .of = S8, .end = SUMS, .side = 11, .stride = 2}, .brought = 2},
    {{.rows = 1, .depth = 16, .columns = 24, .of = S8U8, .end = BYTES, .side = 13, .taps = 4}, .brought = 2},
    {{.rows = 1, .depth = 3, .columns = 40, .of = U8S8, .end = BYTES, .side = 70, .border = 7},
     .first = 2}, /* pictures, whose channels are padded */
    {{.rows = 2, .depth = 3, .columns = 40, .of = S8, .end = BYTES, .side = 23, .taps = 7, .stride = 2},
     .patches = 3}, /* pairs of pixels of four channels, two of them in a chunk */
    {{.rows = 1, .depth = 8, .columns = 24, .of = S8U8, .end = SUMS, .side = 12, .taps = 4}, .patches = 1},
    {{.rows = 1, .depth = 5, .columns = 7, .of = U8S8, .end = BYTES, .side = 9}, .patches = 1},
    /* one and two channels, sixteen and eight pixels of which are a chunk */
    {{.rows = 1, .depth = 1, .columns = 24, .of = S8, .end = SUMS, .side = 40, .taps = 16}, .patches = 1},
    {{.rows = 1, .depth = 2, .columns = 24, .of = S8, .end = SUMS, .side = 30, .taps = 8}, .patches = 1},
    {{.rows = -1, .depth = 16, .columns = 9, .of = U8S8, .end = BYTES, .side = 17}, .patches = 2},
    {{.rows = 2, .depth = 40, .columns = 200, .of = S8, .end = SUMS, .side = 11, .stride = 2}, .patches = 2},
    {{.rows = 1, .depth = 36, .columns = 24, .of = S8, .end = SUMS, .side = 7, .border = -5}, .first = 2},
};

static const struct listed floats[] = {
    {{.rows = 300, .depth = 256, .columns = 288, .of = E4M3, .end = HALVES}, .maps = 9, .first = 8, .swapped = 1},
    {{.rows = 300, .depth = 512, .columns = 128, .of = E5M2, .end = SUMS}, .maps = 2, .first = 2},
    {{.rows = 300, .depth = 256, .columns = 288, .of = E4M3, .end = HALVES, .fast = true},
     .maps = 3,
     .first = 2,
     .swapped = 1},
    {{.rows = -4, .depth = 384, .columns = 192, .of = {INGOT_F8E4M3FN, INGOT_F8E5M2}, .end = HALVES},
     .maps = 2,
     .first = 1},
    {{.rows = 130, .depth = 144, .columns = 72, .of = {INGOT_F8E5M2, INGOT_F8E5M2}, .end = SUMS, .dynamic = true},
     .first = 3},
    {{.rows = 20, .depth = 67, .columns = 41, .of = E4M3, .end = SUMS}, .first = 2},
    {{.rows = 3, .depth = 1024, .columns = 64, .of = E4M3, .end = SUMS}, .first = 3},
    {{.rows = 2, .depth = 128, .columns = 160, .of = E4M3, .end = HALVES, .side = 9}, .maps = 2, .first = 3},
    {{.rows = 3, .depth = 192, .columns = 64, .of = E4M3, .end = HALVES, .side = 8}, .maps = 2},
    {{.rows = 2, .depth = 64, .columns = 96, .of = E5M2, .end = HALVES, .side = 9, .fast = true}, .brought = 2},
    {{.rows = 210, .depth = 256, .columns = 208, .of = E4M3, .end = HALVES}, .maps = 12},
};

static void check(const struct listed *list, int count, double tolerance) {
    static const int64_t sizes[] = {2, 9, 33, 257};
    static const struct {
        unsigned flag;
        const char *name;
    } kinds[] = {{GRAPH_MAPS, "map"},
                 {0, "all"},
                 {GRAPH_SWAPPED, "swapped"},
                 {GRAPH_PATCH, "patch"},
                 {GRAPH_MAPS | GRAPH_PATCH, "brought"}};
    for (int i = 0; i < count; i++) {
        const struct product *p = &list[i].p;
        const int most[] = {list[i].maps, list[i].first, list[i].swapped, list[i].patches, list[i].brought};
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
            for (int choice = 0; choice < most[kind]; choice++) {
                struct graph_case *added =
                    add_named_case(build, p, kinds[kind].flag | (unsigned)choice * GRAPH_CHOICE, sizes,
                                   "%lld x %lld x %lld, %s x %s%s, %s %d", (long long)p->rows, (long long)p->depth,
                                   (long long)p->columns, ingot_dtype_name(p->of.a), ingot_dtype_name(p->of.b),
                                   p->side ? ", windows" : "", kinds[kind].name, choice);
                added->tolerance = tolerance;
            }
        }
    }
    check_all_for_cuda();
}

static void test_integers(void **state) {
    (void)state;
    check(integers, sizeof integers / sizeof *integers, 0);
}

/* Products of such floats are exact in f32, and so are those sums; results in f16 are rounded once more. */
static void test_floats(void **state) {
    (void)state;
    check(floats, sizeof floats / sizeof *floats, sum_tolerance(INGOT_F16));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_integers), cmocka_unit_test(test_floats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
