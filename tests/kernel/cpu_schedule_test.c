/* The CPU schedules where what they read, or the loops they make, decides which one it is and how fast. */
#include <string.h>

#include "codegen/c/print.h"
#include "kernel/kernel.h"
#include "support/check/kernel_cases.h"
#include "support/check/passes.h"

static const struct ig_target cpu = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};

static const struct ig_kernel *only_kernel(struct ig_job *job, void (*build)(struct ig_graph *, const void *),
                                           const void *argument) {
    struct ig_pass_options options = {.target = &cpu};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    build(g, argument);
    g = passes_named(g, "pack fuse partition", &options);
    assert_int_equal(g->regions.count, 1);
    return ig_kernel_make(g, &g->regions.at[0], &cpu);
}

static void run_job(void (*body)(struct ig_job *, void *)) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, body, NULL, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) fail_msg("%s", error.message);
}

/* ---- Depthwise convolutions of a part of an image ------------------------------------------------------------------------ */

/* The convolution reads `channels` of `of`, and columns from `left` on of the image in memory, whose lines may be its columns,
 * or every second one of its lines. */
struct part {
    int64_t images, height, width, channels, first, of, left, kernel, stride, dilation;
    bool turned, flat, second;
    const char *tactic;
    int64_t outputs; /* of each channel; 0: one */
};

static ig_value build_part(struct ig_graph *g, const struct part *p) {
    const int64_t lines = p->height * (p->second ? 2 : 1);
    const int64_t upright[4] = {p->images, lines, p->width + p->left, p->of};
    const int64_t turned[4] = {p->images, p->width + p->left, lines, p->of};
    const int64_t flat[3] = {p->images, lines * (p->width + p->left), p->of};
    ig_value x =
        p->flat ? input(g, "x", INGOT_F32, 3, flat) : input(g, "x", INGOT_F32, 4, p->turned ? turned : upright);
    struct ig_type image = sized_type(g, INGOT_F32, 4, upright);
    if (p->flat) x = ig_build_reshape(g, x, image.dim, 4);
    if (p->turned) x = ig_build_transpose(g, x, (const int64_t[]){0, 2, 1, 3});
    if (p->second) x = ig_build_slice_axis(g, x, 1, number(g, 0), number(g, p->height), 2);
    x = ig_build_slice_axis(g, x, 2, number(g, p->left), number(g, p->width), 1);
    return ig_build_slice_axis(g, x, 3, number(g, p->first), number(g, p->channels), 1);
}

static void build_deep(struct ig_graph *g, const void *argument) {
    const struct part *p = argument;
    const int64_t outputs = p->channels * (p->outputs ? p->outputs : 1);
    const int64_t weights[4] = {outputs, 1, p->kernel, p->kernel}, taps[2] = {p->kernel, p->kernel};
    const int64_t strides[2] = {p->stride, p->stride}, dilations[2] = {p->dilation, p->dilation};
    ig_dim border = number(g, p->kernel / 2 * p->dilation), borders[2] = {border, border};
    struct ig_graph *const none[2] = {NULL, NULL};
    struct ig_attr attrs[] = {ig_attr_of_ints(strides, 2),
                              ig_attr_of_ints(dilations, 2),
                              ig_attr_of_dims(borders, 2),
                              ig_attr_of_dims(borders, 2),
                              ig_attr_of_int(p->channels),
                              ig_attr_of_dtype(INGOT_F32),
                              ig_attr_of_int(1),
                              ig_attr_of_int(0),
                              ig_attr_of_int(outputs),
                              ig_attr_of_ints(taps, 2),
                              ig_attr_of_int(IG_MATH_EXACT),
                              ig_attr_of_int(0)};
    ig_value in[2] = {build_part(g, p), random_constant(g, INGOT_F32, 4, weights, 3)};
    ig_build_output(g, "y", ig_build_node(g, IG_OP_conv, in, 2, 1, attrs, none));
}

#define IMAGE(n, h, w, c, f, o, l, k, s, d) n, h, w, c, f, o, l, k, s, d
static const struct part parts[] = {
    {IMAGE(1, 9, 10, 24, 24, 72, 0, 3, 1, 1), .tactic = "depthwise"}, /* the second of three */
    {IMAGE(2, 7, 12, 13, 5, 20, 3, 5, 2, 1), .tactic = "depthwise"},
    {IMAGE(1, 8, 9, 16, 0, 16, 0, 3, 1, 2), .turned = true, .tactic = "depthwise"},
    {IMAGE(-1, 6, 5, 9, 30, 40, 1, 3, 1, 1), .second = true, .tactic = "depthwise"},
    {IMAGE(2, 6, 9, 200, 56, 256, 0, 7, 1, 1), .flat = true, .tactic = "depthwise"},
    {IMAGE(0, 4, 4, 8, 8, 16, 0, 3, 1, 1), .tactic = "depthwise"},
    {IMAGE(1, 9, 10, 24, 24, 72, 1, 3, 1, 1), .tactic = "groups side by side", .outputs = 2},
    {IMAGE(1, 8, 9, 15, 0, 16, 0, 7, 2, 1), .turned = true, .tactic = "groups side by side", .outputs = 16},
    {IMAGE(1, 8, 9, 15, 0, 16, 0, 3, 1, 1), .tactic = "gemm", .outputs = 3},
};

static void check_part_tactics(struct ig_job *job, void *argument) {
    (void)argument;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *tactic = only_kernel(job, build_deep, &parts[i])->tactic;
        if (!strstr(tactic, parts[i].tactic)) fail_msg("part %zu: %s", i, tactic);
    }
}

static void test_parts(void **state) {
    static const int64_t sizes[4] = {3};
    (void)state;
    run_job(check_part_tactics);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int poison = 0; poison < 2; poison++)
            add_named_case(build_deep, &parts[i], poison ? GRAPH_POISON : 0, sizes, "part %zu%s", i,
                           poison ? ", poisoned" : "")
                ->tolerance = 2e-6;
    check_all();
}

/* ---- Rows that lie the other way round ------------------------------------------------------------------------------------ */

/* (x^T times y) by weights: the rows that are copied are columns of x in memory. */
static void build_gated(struct ig_graph *g, const void *argument) {
    const int64_t *sizes = argument, x[3] = {sizes[0], sizes[2], sizes[1]}, y[3] = {sizes[0], sizes[1], sizes[2]};
    ig_value turned = ig_build_transpose(g, input(g, "x", INGOT_F32, 3, x), (const int64_t[]){0, 2, 1});
    ig_value rows = ig_map2(g, IG_OP_mul, turned, input(g, "y", INGOT_F32, 3, y));
    ig_build_output(g, "z", ig_build_matmul(g, rows, random_constant(g, INGOT_F32, 2, sizes + 2, 5), INGOT_F32));
}

/* Batch, rows, depth and columns. */
static const int64_t gated[][4] = {{1, 130, 200, 40}, {2, 7, 64, 16}, {3, 1, 70, 20}, {-1, 33, 65, 17}, {1, 40, 1, 8}};

static void check_gated_text(struct ig_job *job, void *argument) {
    (void)argument;
    const char *text = ig_c_kernel(job, only_kernel(job, build_gated, gated[0]), "kernel", &cpu);
    assert_non_null(strstr(text, "rows copied"));
    assert_non_null(strstr(text, " += 64) {"));
}

static void test_gated(void **state) {
    static const int64_t sizes[4] = {3};
    (void)state;
    run_job(check_gated_text);
    for (size_t i = 0; i < sizeof gated / sizeof *gated; i++)
        for (int poison = 0; poison < 2; poison++)
            add_named_case(build_gated, gated[i], poison ? GRAPH_POISON : 0, sizes, "gated %zu%s", i,
                           poison ? ", poisoned" : "")
                ->tolerance = 2e-6;
    check_all();
}

/* ---- Masks of bytes ------------------------------------------------------------------------------------------------------- */

/* A softmax of what a mask leaves of x, which with sizes[2] is computed. */
static void build_masked(struct ig_graph *g, const void *argument) {
    const int64_t *sizes = argument, axes[1] = {1};
    ig_value mask = input(g, "mask", INGOT_BOOL, 2, sizes), x = input(g, "x", INGOT_F32, 2, sizes);
    ig_value none = ig_build_scalar(g, INGOT_F32, -1e4);
    if (sizes[2]) x = ig_map2(g, IG_OP_mul, x, input(g, "y", INGOT_F32, 2, sizes));
    x = ig_build_where(g, mask, none, x);
    ig_value e = ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_sub, x, ig_build_reduce(g, IG_OP_reduce_max, x, axes, 1)));
    ig_build_output(g, "y", ig_map2(g, IG_OP_div, e, ig_build_reduce(g, IG_OP_reduce_sum, e, axes, 1)));
}

static int count_of(const char *text, const char *what) {
    int count = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        count++;
    return count;
}

static void check_masked(struct ig_job *job, void *argument) {
    (void)argument;
    for (int64_t computed = 0; computed < 2; computed++) {
        const int64_t sizes[3] = {50, 70, computed};
        const char *text = ig_c_kernel(job, only_kernel(job, build_masked, sizes), "kernel", &cpu);
        assert_int_equal(count_of(text, " x0["), !computed);
        assert_int_equal(count_of(text, "ig_pick_f32(x0["), computed);
        const char *read = strstr(text, "x0["), *most = strstr(text, "reduction(max");
        assert_true(read && most && read < most);
    }
}

static void test_masked(void **state) {
    (void)state;
    run_job(check_masked);
}

/* ---- Rows side by side --------------------------------------------------------------------------------------------------- */

/* Normalises groups of channels of a picture: its pixels, groups, channels of a group. */
static void build_groups(struct ig_graph *g, const void *argument) {
    const int64_t *sizes = argument, axes[2] = {0, 2};
    ig_value x = input(g, "x", INGOT_F32, 3, sizes);
    ig_value centred = ig_map2(g, IG_OP_sub, x, ig_build_reduce(g, IG_OP_reduce_mean, x, axes, 2));
    ig_value variance = ig_build_reduce(g, IG_OP_reduce_mean, ig_map2(g, IG_OP_mul, centred, centred), axes, 2);
    ig_value scale = input(g, "scale", INGOT_F32, 2, (const int64_t[]){sizes[1], 1});
    ig_value by = ig_map2(g, IG_OP_div, scale, ig_map1(g, IG_OP_sqrt, variance));
    ig_build_output(g, "y", ig_map2(g, IG_OP_mul, centred, by));
}

static const struct {
    int64_t sizes[3];
    const char *tactic;
} groups[] = {
    {{100, 32, 4}, "columns in pieces of 4, 3 passes, blocks of 32"},
    {{100, 50, 6}, "columns in pieces of 6, 3 passes, blocks of 17"},
    {{100, 3, 64}, "columns in pieces of 64, 3 passes, blocks of 2"},
    {{100, 3, 65}, "rows, 3 passes, 1 per tile"},
    {{10, 32, 4}, "rows, 3 passes, 68 per tile"},
    {{100, 32, 1}, "columns, 3 passes, blocks of 64"},
};

static void check_groups(struct ig_job *job, void *argument) {
    (void)argument;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const struct ig_kernel *k = only_kernel(job, build_groups, groups[i].sizes);
        assert_string_equal(k->tactic, groups[i].tactic);
        /* What is the same for a whole row is not computed for each of its elements. */
        const char *text = ig_c_kernel(job, k, "kernel", &cpu), *root = strstr(text, " / ig_sqrt_f32(");
        assert_non_null(root);
        assert_non_null(strstr(root, "for (int64_t"));
    }
}

static void test_groups(void **state) {
    (void)state;
    run_job(check_groups);
}

/* ---- Numbers for groups of channels -------------------------------------------------------------------------------------- */

/* What is given for each group: of all pictures, or of each; with `lines`, for each line of a picture too. */
struct scaled {
    int64_t pictures, height, width, groups, piece;
    enum ingot_dtype dtype;
    bool own, lines, joined;
};

/* Normalises by given means and factors. */
static void build_scaled(struct ig_graph *g, const void *argument) {
    const struct scaled *s = argument;
    const int64_t sizes[5] = {s->pictures, s->height, s->width, s->groups, s->piece};
    const int64_t of_groups[5] = {s->own ? s->pictures : 1, s->lines ? s->height : 1, 1, s->groups, 1};
    ig_value x = input(g, "x", s->dtype, 5, sizes), mean = input(g, "mean", s->dtype, 5, of_groups);
    ig_value factor = ig_map1(g, IG_OP_exp, input(g, "factor", s->dtype, 5, of_groups));
    ig_value of_channels = input(g, "scale", s->dtype, 2, sizes + 3);
    ig_value y = ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_sub, x, mean), factor);
    ig_build_output(g, "y", ig_map1(g, IG_OP_tanh, ig_map2(g, IG_OP_mul, y, of_channels)));
    ig_build_output(g, "z", ig_map2(g, IG_OP_add, y, of_channels));
}

static const struct scaled scaled[] = {
    {1, 20, 30, 32, 4, INGOT_F32, .joined = true},
    {3, 20, 30, 32, 4, INGOT_F32, .own = true, .joined = true},
    {-1, 9, -2, 12, 3, INGOT_F32, .own = true, .joined = true},
    {2, 50, 7, 10, 2, INGOT_F16, .joined = true},
    {2, 5, 7, 30, 5, INGOT_F64, .own = true, .joined = true},
    {0, 5, 7, 30, 5, INGOT_F32, .joined = true},
    {1, 40, 6, 32, 4, INGOT_F32, .lines = true},
    {1, 40, 6, 3, 4, INGOT_F32, .joined = false},
    {1, 40, 6, 300, 4, INGOT_F32, .joined = false},
    {1, 40, 6, 30, 9, INGOT_F32, .joined = false},
};

static void check_scaled_text(struct ig_job *job, void *argument) {
    (void)argument;
    for (size_t i = 0; i < sizeof scaled / sizeof *scaled; i++) {
        const char *text = ig_c_kernel(job, only_kernel(job, build_scaled, &scaled[i]), "kernel", &cpu);
        if ((strstr(text, "kept") != NULL) != scaled[i].joined) fail_msg("scaled %zu: %s", i, text);
        /* Exponentials are taken before the loop over pixels. */
        const char *exp = strstr(text, "= ig_exp_");
        if (scaled[i].joined && exp && !strstr(exp, "for (int64_t")) fail_msg("scaled %zu: %s", i, text);
    }
}

static void test_scaled(void **state) {
    static const int64_t sizes[4] = {3, 40};
    (void)state;
    run_job(check_scaled_text);
    for (size_t i = 0; i < sizeof scaled / sizeof *scaled; i++)
        for (int poison = 0; poison < 2; poison++)
            add_named_case(build_scaled, &scaled[i], poison ? GRAPH_POISON : 0, sizes, "scaled %zu%s", i,
                           poison ? ", poisoned" : "")
                ->tolerance = sum_tolerance(scaled[i].dtype);
    check_all();
}

/* ---- Operands that are read across their lines --------------------------------------------------------------------------- */

struct turned {
    struct shaped shape; /* of what is read: some matrices */
    enum { WHOLE, BACKWARDS, GATHERED, PADDED } how;
    bool turned;
};

/* A transpose, of all, of the lines in turn backwards, of lines that are looked up, or with a border, beside others. */
static void build_turned(struct ig_graph *g, const void *argument) {
    const struct turned *t = argument;
    ig_value x = input(g, "x", t->shape.dtype, 3, t->shape.sizes);
    const struct ig_type type = *ig_type_of(g, x);
    ig_dim one = number(g, 1), lines = type.dim[1];
    if (t->how == BACKWARDS) x = ig_build_slice_axis(g, x, 1, ig_dim_sub(g->dims, lines, one), lines, -1);
    if (t->how == GATHERED) x = ig_build_gather(g, x, input(g, "i", INGOT_I64, 1, (const int64_t[]){50}), 1);
    ig_dim border[3] = {number(g, 0), one, one};
    if (t->how == PADDED) x = ig_build_pad(g, x, border, border, IG_PAD_CONSTANT, IG_NO_VALUE);
    ig_value y = ig_build_transpose(g, x, (const int64_t[]){0, 2, 1});
    if (ig_dtype_is_float(t->shape.dtype) && t->how == WHOLE) {
        int64_t sizes[3] = {t->shape.sizes[0], t->shape.sizes[2], t->shape.sizes[1]};
        ig_value z = input(g, "z", t->shape.dtype, 3, sizes);
        ig_value line = ig_build_slice_axis(g, z, 1, number(g, 0), one, 1);
        y = ig_map2(g, IG_OP_add, ig_map2(g, IG_OP_mul, y, z), line);
    }
    ig_build_output(g, "y", t->how == WHOLE ? y : ig_map1(g, IG_OP_neg, y));
}

static const struct turned turned[] = {
    {{INGOT_F32, 3, {2, 150, 37}}, WHOLE, true},     {{INGOT_I64, 3, {1, 70, 40}}, WHOLE, true},
    {{INGOT_F64, 3, {3, 33, 20}}, WHOLE, true},      {{INGOT_I32, 3, {1, 9, 9}}, WHOLE, true},
    {{INGOT_F32, 3, {-1, -2, -3}}, WHOLE, true},     {{INGOT_F32, 3, {2, 0, 37}}, WHOLE, true},
    {{INGOT_F32, 3, {2, 150, 37}}, BACKWARDS, true}, {{INGOT_F32, 3, {2, 60, 37}}, GATHERED, false},
    {{INGOT_F32, 3, {2, 70, 37}}, PADDED, false},    {{INGOT_F16, 3, {2, 70, 37}}, WHOLE, false},
    {{INGOT_BOOL, 3, {2, 70, 37}}, WHOLE, false},    {{INGOT_F32, 3, {2, 1300, 21}}, WHOLE, true},
};

static void check_turned_text(struct ig_job *job, void *argument) {
    (void)argument;
    for (size_t i = 0; i < sizeof turned / sizeof *turned; i++) {
        if (turned[i].shape.sizes[1] == 0) continue; /* of several regions */
        const char *text = ig_c_kernel(job, only_kernel(job, build_turned, &turned[i]), "kernel", &cpu);
        if ((strstr(text, "turn_") != NULL) != turned[i].turned) fail_msg("turned %zu: %s", i, text);
    }
}

/* Few lines of the result are tiles enough for many threads if they are long. */
static void check_turned_tiles(struct ig_job *job, void *argument) {
    static const struct turned image = {{INGOT_F32, 3, {1, 512 * 512, 3 * 16}}, BACKWARDS, true};
    (void)argument;
    const struct ig_kernel *kernel = only_kernel(job, build_turned, &image);
    int64_t tiles = 0;
    assert_true(ig_dim_is_const(kernel->loops->dims, kernel->tiles, &tiles));
    assert_int_equal(tiles, 3 * 512);
}

static void test_turned(void **state) {
    static const int64_t sizes[4] = {3, 90, 21};
    (void)state;
    run_job(check_turned_text);
    run_job(check_turned_tiles);
    for (size_t i = 0; i < sizeof turned / sizeof *turned; i++)
        for (int poison = 0; poison < 2; poison++)
            add_named_case(build_turned, &turned[i], poison ? GRAPH_POISON : 0, sizes, "turned %zu%s", i,
                           poison ? ", poisoned" : "")
                ->tolerance = turned[i].how == WHOLE ? sum_tolerance(turned[i].shape.dtype) : 0;
    check_all();
}

/* ---- Loops that run once -------------------------------------------------------------------------------------------------- */

static void build_long_softmax(struct ig_graph *g, const void *argument) {
    const int64_t *sizes = argument, axes[1] = {1};
    ig_value x = input(g, "x", INGOT_F32, 2, sizes);
    ig_value e = ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_sub, x, ig_build_reduce(g, IG_OP_reduce_max, x, axes, 1)));
    ig_build_output(g, "y", ig_map2(g, IG_OP_div, e, ig_build_reduce(g, IG_OP_reduce_sum, e, axes, 1)));
}

/* Of a tile that is one row no loop is made: gcc would not vectorise those within it. */
static void check_once(struct ig_job *job, void *argument) {
    (void)argument;
    const char *one =
        ig_c_kernel(job, only_kernel(job, build_long_softmax, (const int64_t[]){50, 3000}), "kernel", &cpu);
    const char *some =
        ig_c_kernel(job, only_kernel(job, build_long_softmax, (const int64_t[]){50, 30}), "kernel", &cpu);
    assert_null(strstr(one, "for (int64_t row"));
    assert_non_null(strstr(one, "{ const int64_t row"));
    assert_non_null(strstr(some, "for (int64_t row"));
}

static void test_once(void **state) {
    (void)state;
    run_job(check_once);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts),  cmocka_unit_test(test_gated),
                                       cmocka_unit_test(test_once),   cmocka_unit_test(test_masked),
                                       cmocka_unit_test(test_groups), cmocka_unit_test(test_scaled),
                                       cmocka_unit_test(test_turned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
