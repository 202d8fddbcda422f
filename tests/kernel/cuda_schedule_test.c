/*
 * The GPU schedules at the sizes where their choices change, checked against the reference. (The other kernel tests run
 * these schedules too, on their own cases.) Also the guarantees that the printer relies on.
 */
#include <stdio.h>
#include <string.h>

#include "codegen/cuda/print.h"
#include "compile/estimates.h"
#include "ir/text/print.h"
#include "kernel/kernel.h"
#include "support/check/kernel_cases.h"
#include "support/check/passes.h"

/* ---- Rows ------------------------------------------------------------------------------------------------------------ */

struct row_case {
    struct shaped shape;
    int n_axes;
    int64_t axes[3];
};

/* Lengths just below, at and above a team, a warp, a block, and what fits in registers; symbolic and empty ones; one
 * element. */
static const struct row_case rows[] = {
    {{INGOT_F32, 3, {2, 3, 2}}, 1, {2}},
    {{INGOT_F32, 3, {2, 3, 31}}, 1, {2}},
    {{INGOT_F32, 3, {2, 3, 32}}, 1, {2}},
    {{INGOT_F32, 3, {5, 7, 33}}, 1, {2}},
    {{INGOT_F32, 3, {12, 16, 128}}, 1, {2}},
    {{INGOT_F32, 3, {1, 1, 1000}}, 1, {2}},
    {{INGOT_F32, 3, {1, 2, 1023}}, 1, {2}},
    {{INGOT_F32, 3, {1, 2, 1024}}, 1, {2}},
    {{INGOT_F32, 3, {1, 2, 1025}}, 1, {2}},
    {{INGOT_F32, 3, {2, 1, 4096}}, 1, {2}},
    {{INGOT_F32, 3, {1, 1, 12290}}, 1, {2}},
    {{INGOT_F32, 3, {1, 1, 32768}}, 1, {2}},
    {{INGOT_F32, 3, {1, 1, 32772}}, 1, {2}},
    {{INGOT_F32, 3, {1, 3, 1}}, 1, {2}},
    {{INGOT_F32, 3, {0, 3, 8}}, 1, {2}},
    {{INGOT_F32, 3, {-1, -2, -4}}, 1, {2}},
    {{INGOT_F32, 3, {-1, -2, 64}}, 2, {1, 2}},
    {{INGOT_F32, 3, {3, 14, 12}}, 2, {0, 2}},
    {{INGOT_F32, 3, {-1, 6, 20}}, 2, {0, 2}},
    {{INGOT_F32, 3, {9, 8, 12}}, 3, {0, 1, 2}},
    {{INGOT_F16, 3, {3, 5, 768}}, 1, {2}},
    {{INGOT_F16, 3, {3, 5, 40}}, 1, {2}},
    {{INGOT_BF16, 3, {3, 5, 4100}}, 1, {2}},
    {{INGOT_F64, 3, {3, 5, 130}}, 1, {2}},
    /* Kept in shared memory: one behind the other, and not. */
    {{INGOT_F16, 3, {1, 1, 110592}}, 1, {2}},
    {{INGOT_F16, 3, {3, 1, 36864}}, 2, {0, 2}},
    /* Columns. */
    {{INGOT_F32, 3, {1, 49, 2048}}, 1, {1}},
    {{INGOT_F32, 3, {2, 49, 70}}, 1, {1}},
    {{INGOT_F32, 3, {1, 3136, 9}}, 1, {1}},
    {{INGOT_F32, 3, {5, 2, 300}}, 1, {1}},
    {{INGOT_F32, 3, {300, 7, 33}}, 1, {0}},
    {{INGOT_F32, 3, {4, 9, 3}}, 2, {0, 1}},
    {{INGOT_F32, 3, {2, 0, 3}}, 1, {1}},
    {{INGOT_F32, 3, {-1, -3, -4}}, 1, {1}},
    {{INGOT_F16, 3, {2, 65, 24}}, 1, {1}},
    {{INGOT_F32, 3, {3, 20000, 2}}, 1, {1}},
    {{INGOT_F32, 3, {2, 1, 5000}}, 1, {1}},
    {{INGOT_F32, 3, {-4, 3, 1}}, 1, {0}},
};
enum { ROWS = sizeof rows / sizeof *rows };

static ig_value over(struct ig_graph *g, const struct row_case *r, enum ig_op op, ig_value x) {
    return ig_build_reduce(g, op, x, r->axes, r->n_axes);
}

static ig_value scalar(struct ig_graph *g, const struct row_case *r, double value) {
    return ig_build_scalar(g, r->shape.dtype, value);
}

static void build_softmax(struct ig_graph *g, const void *argument) {
    const struct row_case *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, 3, r->shape.sizes);
    ig_value e = ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_sub, x, over(g, r, IG_OP_reduce_max, x)));
    ig_build_output(g, "softmax", ig_map2(g, IG_OP_div, e, over(g, r, IG_OP_reduce_sum, e)));
}

static void build_norm(struct ig_graph *g, const void *argument) {
    const struct row_case *r = argument;
    ig_value x = input(g, "x", r->shape.dtype, 3, r->shape.sizes),
             residual = input(g, "r", r->shape.dtype, 3, r->shape.sizes);
    ig_value sum = ig_map2(g, IG_OP_add, x, residual);
    ig_value centred = ig_map2(g, IG_OP_sub, sum, over(g, r, IG_OP_reduce_mean, sum));
    ig_value variance = over(g, r, IG_OP_reduce_mean, ig_map2(g, IG_OP_mul, centred, centred));
    ig_value deviation = ig_map1(g, IG_OP_sqrt, ig_map2(g, IG_OP_add, variance, scalar(g, r, 1e-3)));
    ig_value scale = input(g, "scale", r->shape.dtype, 1, r->shape.sizes + 2);
    ig_build_output(g, "norm", ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_div, centred, deviation), scale));
    ig_build_output(g, "sum", sum);
}

/* A transposed input, an argmax and a small result beside it. */
static void build_turned(struct ig_graph *g, const void *argument) {
    const struct row_case *r = argument;
    const int64_t turned[3] = {r->shape.sizes[1], r->shape.sizes[0], r->shape.sizes[2]};
    ig_value x = input(g, "x", r->shape.dtype, 3, turned);
    x = ig_build_transpose(g, x, (const int64_t[]){1, 0, 2});
    ig_value far = ig_map1(g, IG_OP_abs, ig_map2(g, IG_OP_sub, x, over(g, r, IG_OP_reduce_mean, x)));
    ig_build_output(g, "most", over(g, r, IG_OP_reduce_max, far));
    if (r->n_axes > 1) return;
    struct ig_graph *const none[2] = {NULL, NULL};
    struct ig_attr attrs[2] = {ig_attr_of_int(r->axes[0]), ig_attr_of_int(0)};
    ig_build_output(g, "where", ig_build_node(g, IG_OP_argmax, &x, 1, 1, attrs, none));
}

static void test_rows(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        double tolerance = 4 * sum_tolerance(rows[i].shape.dtype);
        add_case("softmax", build_softmax, &rows[i], tolerance, i & 1 ? 0 : GRAPH_POISON);
        add_case("norm", build_norm, &rows[i], tolerance, 0);
        add_case("turned", build_turned, &rows[i], tolerance, 0);
    }
    check_all_for_cuda();
}

/* ---- Maps ------------------------------------------------------------------------------------------------------------- */

static const struct shaped maps[] = {
    {INGOT_F32, 3, {1, 1, 1}},
    {INGOT_F32, 3, {1, 1, 4096}},
    {INGOT_F32, 3, {1, 1, 4099}},
    {INGOT_F32, 3, {3, 33, 65}},
    {INGOT_F32, 3, {3, 64, 96}},
    {INGOT_F32, 3, {-1, -3, -4}},
    {INGOT_F32, 3, {2, 12, 100}},
    {INGOT_F32, 3, {2, 9, 1000}},
    {INGOT_F32, 3, {2, 1000, 17}},
    {INGOT_F32, 3, {0, 16, 16}},
    {INGOT_F16, 3, {3, 64, 96}},
    {INGOT_F16, 3, {3, 35, 41}},
    {INGOT_I8, 3, {3, 48, 64}},
    {INGOT_BOOL, 3, {2, 33, 48}},
    {INGOT_I64, 3, {2, 34, 36}},
    {INGOT_F64, 3, {-2, 5, -4}},
    {INGOT_U8, 3, {1, 1, 65535}},
    {INGOT_F32, 3, {1, -2, 6}},
    {INGOT_F32, 3, {16, 256, 512}},
    /* Fewer elements than an access of 16 bytes, and slightly more. */
    {INGOT_F32, 3, {1, 1, 2}},
    {INGOT_F32, 3, {1, 1, 3}},
    {INGOT_F32, 3, {1, 1, 5}},
    {INGOT_F32, 3, {1, 3, 1}},
    {INGOT_F32, 3, {3, 1, 1}},
    {INGOT_F32, 3, {1, 3, 3}},
    {INGOT_F16, 3, {1, 1, 7}},
    {INGOT_U8, 3, {1, 1, 3}},
    {INGOT_U8, 3, {3, 1, 5}},
    {INGOT_I64, 3, {1, 1, 1}},
    {INGOT_F64, 3, {1, 1, 3}},
    {INGOT_BOOL, 3, {1, 5, 3}},
    {INGOT_I8, 3, {2, 3, 2}},
    {INGOT_F32, 3, {1, 1, 127}},
    {INGOT_F16, 3, {1, 1, 1023}},
};
enum { MAPS = sizeof maps / sizeof *maps };

static enum ig_op plus(enum ingot_dtype dtype) {
    return dtype == INGOT_BOOL ? IG_OP_xor : IG_OP_add;
}

static void build_map(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 3, s->sizes), y = input(g, "y", s->dtype, 3, s->sizes);
    ig_value bias = input(g, "bias", s->dtype, 1, s->sizes + 2);
    ig_value sum = ig_map2(g, plus(s->dtype), x, y);
    ig_build_output(g, "flat", sum);
    ig_build_output(g, "biased", ig_map2(g, plus(s->dtype), sum, bias));
    ig_build_output(g, "cast", ig_build_cast(g, x, s->dtype == INGOT_F32 ? INGOT_F16 : INGOT_F32));
}

static void build_transposes(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    const int64_t turned[3] = {s->sizes[0], s->sizes[2], s->sizes[1]};
    ig_value x = input(g, "x", s->dtype, 3, s->sizes), y = input(g, "y", s->dtype, 3, turned);
    ig_value back = ig_build_transpose(g, x, (const int64_t[]){0, 2, 1});
    ig_build_output(g, "sum", ig_map2(g, plus(s->dtype), back, y));
    ig_build_output(g, "other", ig_build_transpose(g, x, (const int64_t[]){2, 0, 1}));
    ig_build_output(g, "outer", ig_build_transpose(g, x, (const int64_t[]){1, 0, 2}));
}

/* Like dequantisation along an axis: a scale and a zero point per index of the middle dim, clipped; narrowed and
 * transposed. */
static void build_channels(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    const int64_t of_channels[3] = {1, s->sizes[1], 1};
    ig_value x = ig_build_cast(g, input(g, "x", s->dtype, 3, s->sizes), INGOT_F32);
    ig_value scale = input(g, "scale", INGOT_F32, 3, of_channels), zero = input(g, "zero", INGOT_F32, 3, of_channels);
    ig_value scaled = ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_sub, x, zero), scale);
    ig_value limit = ig_build_scalar(g, INGOT_F32, 0.75);
    ig_value clipped = ig_map2(g, IG_OP_max, ig_map1(g, IG_OP_neg, limit), ig_map2(g, IG_OP_min, scaled, limit));
    ig_build_output(g, "clipped", clipped);
    ig_build_output(g, "narrow", ig_build_cast(g, clipped, INGOT_F16));
    ig_build_output(g, "columns", ig_build_transpose(g, scaled, (const int64_t[]){2, 1, 0}));
}

/* Concatenated parts and slices, at offsets where accesses of 16 bytes are aligned and where they are not. */
static void build_pieces(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 3, s->sizes);
    const struct ig_type type = *ig_type_of(g, x);
    ig_dim last = type.dim[2], one = number(g, 1);
    ig_build_output(g, "twice", ig_build_concat(g, (const ig_value[]){x, x}, 2, 2));
    ig_build_output(g, "thrice", ig_build_concat(g, (const ig_value[]){x, x, x}, 3, 1));
    if (s->sizes[2] == 1) return;
    ig_value inner = ig_build_slice_axis(g, x, 2, one, ig_dim_sub(g->dims, last, one), 1);
    ig_build_output(g, "inner", ig_map2(g, plus(s->dtype), inner, inner));
}

/* Joined pieces that begin within units of memory, one of them empty, and elements by indices along the last dim. */
static void build_joined(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    const int64_t other[2] = {s->sizes[0], 3}, none[2] = {s->sizes[0], 0};
    ig_value x = input(g, "x", s->dtype, 2, s->sizes), y = input(g, "y", s->dtype, 2, other);
    ig_value pieces[4] = {x, input(g, "e", s->dtype, 2, none), y, ig_map2(g, plus(s->dtype), x, x)};
    ig_build_output(g, "joined", ig_build_concat(g, pieces, 4, 1));
}

static void build_joined_two(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value pieces[2] = {input(g, "x", s->dtype, 2, s->sizes), input(g, "y", s->dtype, 2, s->sizes)};
    ig_build_output(g, "joined", ig_build_concat(g, pieces, 2, 1));
}

static void build_gathered(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    const int64_t count[1] = {1000};
    ig_value x = input(g, "x", s->dtype, 2, s->sizes), index = input(g, "i", INGOT_I64, 1, count);
    ig_build_output(g, "y", ig_build_gather(g, x, index, 1));
}

static const struct shaped joined[] = {{INGOT_F16, 2, {5000, 26}}, {INGOT_F16, 2, {77, 26}}, {INGOT_F32, 2, {300, 9}},
                                       {INGOT_U8, 2, {1, 5}},      {INGOT_I8, 2, {-1, 12}},  {INGOT_F16, 2, {0, 26}}};
static const struct shaped gathered[] = {{INGOT_F16, 2, {300, 28}}, {INGOT_F32, 2, {3, 28}}};

static void test_pieces(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++) {
        add_case("joined", build_joined, &joined[i], 0, GRAPH_POISON);
        add_case("joined two", build_joined_two, &joined[i], 0, 0);
    }
    for (size_t i = 0; i < sizeof gathered / sizeof *gathered; i++)
        add_case("gathered", build_gathered, &gathered[i], 0, 0);
    check_all_for_cuda();
}

static void test_maps(void **state) {
    (void)state;
    for (int i = 0; i < MAPS; i++) {
        double tolerance = tolerance_of(maps[i].dtype);
        unsigned flags = GRAPH_EACH | (i & 1 ? 0 : GRAPH_POISON);
        add_case("map", build_map, &maps[i], sum_tolerance(maps[i].dtype), flags & ~(unsigned)GRAPH_EACH);
        add_case("transposes", build_transposes, &maps[i], tolerance, flags);
        add_case("pieces", build_pieces, &maps[i], tolerance, flags);
        add_case("channels", build_channels, &maps[i], 1e-3, flags & ~(unsigned)GRAPH_EACH);
    }
    check_all_for_cuda();
}

/* ---- What the printer may rely on ---------------------------------------------------------------------------------------- */

struct checked {
    const struct ig_kernel *kernel;
    int divided; /* number of enclosing vector loops */
    bool in_team, in_vector;
};

static void check_stmt(const struct checked *c, const struct ig_stmt *s);

static void check_loop(const struct checked *c, const struct ig_stmt *s) {
    struct checked inner = *c;
    const struct ig_loops *k = c->kernel->loops;
    if (s->for_kind == IG_FOR_SIMD) inner.divided++;
    if (s->for_kind == IG_FOR_TEAM) {
        assert_true(s->lanes >= 1 && s->lanes <= 32 && (s->lanes & (s->lanes - 1)) == 0);
        assert_int_equal(c->kernel->threads % s->lanes, 0);
        assert_true(!c->in_team && c->divided == 0);
        inner.in_team = true;
    }
    if (s->for_kind == IG_FOR_VECTOR) {
        const struct ig_x_node *lo = ig_x_look(k, s->lo), *hi = ig_x_look(k, s->hi);
        assert_true(lo->kind == IG_X_INT && lo->i == 0 && hi->kind == IG_X_INT);
        assert_true(hi->i == 2 || hi->i == 4 || hi->i == 8 || hi->i == 16);
        assert_true(!c->in_vector);
        inner.in_vector = true;
    }
    assert_false(c->in_vector);
    for (uint32_t i = 0; i < s->body.count; i++)
        check_stmt(&inner, s->body.at[i]);
}

static void check_stmt(const struct checked *c, const struct ig_stmt *s) {
    const struct ig_loops *k = c->kernel->loops;
    if (s->kind == IG_S_FOR) {
        check_loop(c, s);
        return;
    }
    if (s->kind == IG_S_STORE) {
        enum ig_buffer_kind kind = k->buffers.at[s->buffer].kind;
        if (kind == IG_BUFFER_SPREAD) assert_true(c->divided == 1);
        if (kind == IG_BUFFER_LOCAL || kind == IG_BUFFER_SCRATCH) assert_false(c->in_team);
    }
    for (uint32_t i = 0; i < s->body.count; i++)
        check_stmt(c, s->body.at[i]);
}

/* Checks the registers that a thread keeps between loops, and shared memory, against the limits of every GPU. */
static void check_memory(const struct ig_kernel *kernel) {
    const struct ig_loops *k = kernel->loops;
    int64_t shared = 0, kept = 0;
    for (uint32_t i = 0; i < k->buffers.count; i++) {
        const struct ig_buffer *b = &k->buffers.at[i];
        if (b->kind == IG_BUFFER_LOCAL) shared += b->elements * (int64_t)ingot_dtype_size(b->dtype);
        if (b->kind == IG_BUFFER_SPREAD) {
            assert_int_equal(b->elements % b->width, 0);
            kept += b->elements * (int64_t)ingot_dtype_size(b->dtype);
        }
    }
    assert_true(shared <= 48 * 1024);
    bool team = strstr(kernel->tactic, "teams") != NULL;
    if (!team) assert_true(kept <= (int64_t)kernel->threads * 64 * 4);
    if (team) assert_true(kept <= 32 * 64 * 4);
    assert_true(kernel->threads >= 32 && kernel->threads <= 1024 && kernel->threads % 32 == 0);
}

typedef void builder(struct ig_graph *g, const void *argument);

static void check_kernels(struct ig_job *job, builder *build, const void *argument) {
    const struct ig_target target = {.isa = IG_ISA_CUDA, .vector_bytes = 32, .vector_registers = 16, .sm = 90};
    struct ig_pass_options options = {.target = &target};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    build(g, argument);
    g = passes_named(g, "fuse", &options);
    for (uint32_t r = 0; r < g->regions.count; r++) {
        const struct ig_kernel *kernel = ig_kernel_make(g, &g->regions.at[r], &target);
        struct checked c = {.kernel = kernel};
        check_stmt(&c, kernel->loops->top);
        check_memory(kernel);
    }
}

static void check_promises(struct ig_job *job, void *argument) {
    (void)argument;
    for (int i = 0; i < ROWS; i++) {
        check_kernels(job, build_softmax, &rows[i]);
        check_kernels(job, build_norm, &rows[i]);
        check_kernels(job, build_turned, &rows[i]);
    }
    for (int i = 0; i < MAPS; i++) {
        check_kernels(job, build_map, &maps[i]);
        check_kernels(job, build_transposes, &maps[i]);
        check_kernels(job, build_pieces, &maps[i]);
        check_kernels(job, build_channels, &maps[i]);
    }
}

static void run_job(void (*body)(struct ig_job *, void *), void *argument) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, body, argument, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) fail_msg("%s", error.message);
}

static void test_promises(void **state) {
    (void)state;
    run_job(check_promises, NULL);
}

/* ---- Choices ------------------------------------------------------------------------------------------------------------- */

struct choice {
    builder *build;
    struct row_case shape;
    const char *tactic;
};

static void build_one_transpose(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 3, s->sizes);
    ig_build_output(g, "y", ig_build_transpose(g, x, (const int64_t[]){0, 2, 1}));
}

static void build_one_map(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_build_output(g, "y", ig_map1(g, IG_OP_neg, input(g, "x", s->dtype, 3, s->sizes)));
}

/* Of [rows, depth] and [depth, columns]. */
static void build_one_product(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    ig_value x = input(g, "x", s->dtype, 2, s->sizes), w = input(g, "w", s->dtype, 2, s->sizes + 1);
    ig_build_output(g, "y", ig_build_matmul(g, x, w, INGOT_F32));
}

/* Of so many pairs of heads, [rows, 64] each: those of x[2, rows, heads, 64], of which the first pair is not read. */
static void build_products_of_heads(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    const int64_t sizes[4] = {2, s->sizes[1], s->sizes[0] + 1, 64};
    ig_value x = input(g, "x", s->dtype, 4, sizes);
    x = ig_build_slice_axis(g, x, 2, ig_dim_const(g->dims, 1), ig_dim_const(g->dims, s->sizes[0]), 1);
    ig_value a = ig_build_transpose(g, x, (const int64_t[]){0, 2, 1, 3}),
             b = ig_build_transpose(g, x, (const int64_t[]){0, 2, 3, 1});
    ig_build_output(g, "y", ig_build_cast(g, ig_build_matmul(g, a, b, INGOT_F32), s->dtype));
}

/* Windows of [taps, 1] of a picture of [height, 9] pixels with so many channels. */
static void build_tall_windows(struct ig_graph *g, const void *argument) {
    const struct shaped *s = argument;
    const int64_t picture[4] = {1, s->sizes[0], 9, s->sizes[2]}, ones[2] = {1, 1}, taps[2] = {s->sizes[1], 1};
    const int64_t weights[4] = {32, s->sizes[2], s->sizes[1], 1};
    ig_dim zero = ig_dim_const(g->dims, 0), none_before[2] = {zero, zero};
    struct ig_graph *const none[2] = {NULL, NULL};
    struct ig_attr attrs[] = {ig_attr_of_ints(ones, 2),
                              ig_attr_of_ints(ones, 2),
                              ig_attr_of_dims(none_before, 2),
                              ig_attr_of_dims(none_before, 2),
                              ig_attr_of_int(1),
                              ig_attr_of_dtype(INGOT_F32),
                              ig_attr_of_int(1),
                              ig_attr_of_int(0),
                              ig_attr_of_int(32),
                              ig_attr_of_ints(taps, 2),
                              ig_attr_of_int(IG_MATH_EXACT),
                              ig_attr_of_int(0)};
    ig_value in[2] = {input(g, "x", s->dtype, 4, picture), random_constant(g, s->dtype, 4, weights, 3)};
    ig_build_output(g, "y", ig_build_node(g, IG_OP_conv, in, 2, 1, attrs, none));
}

/* Of so many heads, queries and keys, of 64 elements. */
static void build_attention(struct ig_graph *g, const void *argument) {
    const struct row_case *r = argument;
    const int64_t *n = r->shape.sizes, q[3] = {n[0], n[1], 64}, k[3] = {n[0], n[2], 64};
    ig_value keys = ig_build_transpose(g, input(g, "k", r->shape.dtype, 3, k), (const int64_t[]){0, 2, 1});
    ig_value s = ig_build_matmul(g, input(g, "q", r->shape.dtype, 3, q), keys, INGOT_F32);
    ig_value e = ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_sub, s, over(g, r, IG_OP_reduce_max, s)));
    ig_value w = ig_build_cast(g, ig_map2(g, IG_OP_div, e, over(g, r, IG_OP_reduce_sum, e)), r->shape.dtype);
    ig_value y = ig_build_matmul(g, w, input(g, "v", r->shape.dtype, 3, k), INGOT_F32);
    ig_build_output(g, "y", ig_build_cast(g, y, r->shape.dtype));
}

static const struct choice choices[] = {
    {build_softmax,
     {{INGOT_F32, 3, {12, 128, 128}}, 1, {2}},
     "rows, 3 passes, teams of 32 in blocks of 128, 4 elements at once"},
    {build_softmax,
     {{INGOT_F16, 3, {12, 128, 128}}, 1, {2}},
     "rows, 3 passes, teams of 16 in blocks of 128, 8 elements at once"},
    {build_softmax, {{INGOT_F32, 3, {1, 8, 8192}}, 1, {2}}, "rows, 3 passes, blocks of 512, 4 elements at once"},
    /* Of 16 bits, long ones stay in shared memory, and the variance needs no pass of its own. */
    {build_softmax,
     {{INGOT_F16, 3, {1, 8, 110592}}, 1, {2}},
     "rows, 3 passes, 8 blocks of 512, 8 elements at once, kept in shared memory"},
    {build_norm,
     {{INGOT_F16, 3, {12, 128, 128}}, 1, {2}},
     "rows, 2 passes, teams of 16 in blocks of 128, 8 elements at once"},
    {build_norm,
     {{INGOT_F32, 3, {12, 128, 128}}, 1, {2}},
     "rows, 3 passes, teams of 32 in blocks of 128, 4 elements at once"},
    {build_one_transpose, {{INGOT_F32, 3, {1, 64, 64}}, 0, {0}}, "map, blocks of 32 x 32 through shared memory"},
    {build_one_map, {{INGOT_F32, 3, {1, 128, 768}}, 0, {0}}, "map, 1 x 4 elements a thread"},
    {build_one_map, {{INGOT_F16, 3, {1, 128, 768}}, 0, {0}}, "map, 1 x 8 elements a thread"},
    {build_one_map, {{INGOT_F32, 3, {64, 1024, 1024}}, 0, {0}}, "map, 4 x 4 elements a thread"},
    /* Few rows, or columns, and a small depth; a little too many; sides of which neither is known. */
    {build_one_product, {{INGOT_F16, 3, {4, 4, 136}}, 0, {0}}, "small products, 8 columns a thread"},
    {build_one_product, {{INGOT_F32, 3, {2, 32, 60}}, 0, {0}}, "small products, 4 columns a thread"},
    {build_one_product, {{INGOT_F16, 3, {300, 9, 1}}, 0, {0}}, "small products, 1 rows a thread"},
    {build_one_product, {{INGOT_F16, 3, {4, 4, -3}}, 0, {0}}, "small products, 1 columns a thread"},
    {build_one_product, {{INGOT_F16, 3, {16, 16, 16}}, 0, {0}}, "small products, 1 rows a thread"},
    {build_one_product,
     {{INGOT_F16, 3, {4, 17, 136}}, 0, {0}},
     "gemm f16 16x64x64, 128 threads, 2 stages, along x across"},
    {build_one_product,
     {{INGOT_F16, 3, {1, 33, 136}}, 0, {0}},
     "gemm f16 16x64x64, 128 threads, 2 stages, along x across"},
    {build_one_product,
     {{INGOT_F16, 3, {-1, 16, -3}}, 0, {0}},
     "gemm f16 32x32x64, 128 threads, 2 stages, along x across"},
    /* The copy engine brings the matrices of heads. */
    {build_products_of_heads,
     {{INGOT_F16, 3, {12, 1024}}, 0, {0}},
     "gemm f16 tma in turns 128x128x64, 384 threads, 7 stages, along x along"},
    /* Windows of many taps are copied by the template as those of few. */
    {build_tall_windows,
     {{INGOT_F16, 3, {128, 5, 24}}, 0, {0}},
     "gemm f16 16x32x64, 64 threads, 2 stages, windows x along"},
    {build_tall_windows,
     {{INGOT_F16, 3, {128, 65, 24}}, 0, {0}},
     "gemm f16 wgmma 64x32x64, 128 threads, 6 stages, windows x along, depth in 4"},
    /* Those whose pixels are whole slices come in patches, if all taps of one can be unrolled. */
    {build_tall_windows,
     {{INGOT_F16, 3, {5000, 5, 32}}, 0, {0}},
     "gemm f16 tma in 4 turns, B kept, patches of 16x8 128x32x32, 640 threads, 8 stages, windows x along"},
    {build_tall_windows,
     {{INGOT_F16, 3, {128, 65, 32}}, 0, {0}},
     "gemm f16 wgmma 64x32x64, 128 threads, 5 stages, windows x along, depth in 8"},
    /* Short pieces are stored line by line, if they begin within units of memory. */
    {build_joined_two, {{INGOT_F16, 2, {100000, 26}}, 0, {0}}, "map, 2 elements a thread, 2 parts of 39 lines"},
    {build_joined_two, {{INGOT_F16, 2, {100000, 32}}, 0, {0}}, "map, 1 x 8 elements a thread, 2 parts"},
    {build_gathered, {{INGOT_F16, 2, {1000, 28}}, 0, {0}}, "map, 1 x 4 elements a thread"},
    {build_gathered, {{INGOT_F16, 2, {100, 28}}, 0, {0}}, "map, 1 x 1 elements a thread"},
    /* Somewhat more keys than are a step otherwise, of warpgroups, are one; many more are several. */
    {build_attention,
     {{INGOT_F16, 3, {12, 197, 197}}, 1, {2}},
     "attend fp16 wgmma, tiles of 64 queries, steps of 208 keys, all at once, 4x1 warps"},
    {build_attention,
     {{INGOT_F16, 3, {12, 197, 225}}, 1, {2}},
     "attend fp16 wgmma, tiles of 64 queries, steps of 80 keys, all at once, 4x1 warps"},
};

static void check_choices(struct ig_job *job, void *argument) {
    (void)argument;
    const struct ig_target target = {
        .isa = IG_ISA_CUDA, .vector_bytes = 32, .vector_registers = 16, .sm = 90, .sm_own = true};
    struct ig_pass_options options = {.target = &target};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
        choices[i].build(g, &choices[i].shape);
        g = passes_named(g, "attend pack fuse partition", &options);
        IG_ASSERT(job, g->regions.count == 1);
        assert_string_equal(ig_kernel_make(g, &g->regions.at[0], &target)->tactic, choices[i].tactic);
    }
}

static void test_choices(void **state) {
    (void)state;
    run_job(check_choices, NULL);
}

/* ---- Tiles of products --------------------------------------------------------------------------------------------------- */

static void build_rows_by_weights(struct ig_graph *g, const void *argument) {
    const int64_t *sizes = argument, a[2] = {-1, sizes[0]};
    ig_value x = input(g, "x", INGOT_F16, 2, a), w = input(g, "w", INGOT_F16, 2, sizes);
    ig_build_output(g, "y", ig_build_matmul(g, x, w, INGOT_F32));
}

static bool divides_by_rows(struct ig_job *job, const int64_t *sizes) {
    const struct ig_target target = {.isa = IG_ISA_CUDA, .vector_bytes = 32, .vector_registers = 16, .sm = 80};
    struct ig_pass_options options = {.target = &target};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    build_rows_by_weights(g, sizes);
    g = passes_named(g, "fuse partition", &options);
    IG_ASSERT(job, g->regions.count == 1);
    const struct ig_kernel *kernel = ig_kernel_make(g, &g->regions.at[0], &target);
    return strstr(ig_cuda_kernel(job, kernel, "kernel", &target), " % d") != NULL;
}

/* The number of a tile is divided by a symbolic number only if the weights are large, for which tiles are ordered column
 * by column. */
static void check_divisions(struct ig_job *job, void *argument) {
    (void)argument;
    assert_false(divides_by_rows(job, (const int64_t[]){512, 512}));
    assert_true(divides_by_rows(job, (const int64_t[]){4096, 4096}));
}

static void test_divisions(void **state) {
    (void)state;
    run_job(check_divisions, NULL);
}

/* Columns are not kept for an open number of batches, though one is expected. */
static void check_batches(struct ig_job *job, void *argument) {
    const int64_t sizes[3] = {-1, 512, 72}, weights[2] = {1024, 512};
    const struct ig_target target = {
        .isa = IG_ISA_CUDA, .vector_bytes = 32, .vector_registers = 16, .sm = 90, .sm_own = true};
    struct ig_pass_options options = {.target = &target};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    struct ig_sizes at;
    (void)argument;
    ig_value x = input(g, "x", INGOT_F16, 3, sizes), w = random_constant(g, INGOT_F16, 2, weights, 1);
    ig_dim batch = ig_type_of(g, x)->dim[0];
    ig_build_output(g, "y", ig_build_cast(g, ig_build_matmul(g, w, x, INGOT_F32), INGOT_F16));
    g = passes_named(g, "pack fuse partition", &options);
    ig_sizes_usual(g->dims, job, &at);
    ig_sizes_set(&at, job, batch, 1);
    int served = 0;
    for (int choice = 0;; choice++) {
        const struct ig_kernel *k = ig_kernel_candidate(g, &g->regions.at[0], &target, &at, choice);
        if (!k || k->library) break;
        served += k->gemm && k->gemm->producer;
        assert_true(!k->gemm || !k->gemm->kept);
    }
    assert_true(served > 0);
}

static void test_batches(void **state) {
    (void)state;
    run_job(check_batches, NULL);
}

/* ---- Operands of convolutions ------------------------------------------------------------------------------------------------ */

/* A convolution, or a depthwise one, of an image that lies in memory as a matrix, which a view left in no region. */
static void build_flat_conv(struct ig_graph *g, bool deep, bool bytes) {
    const int64_t flat[2] = {128, 32}, weights[4] = {32, deep ? 1 : 32, 3, 3}, ones[2] = {1, 1}, taps[2] = {3, 3};
    ig_dim one = ig_dim_const(g->dims, 1), eight = ig_dim_const(g->dims, 8), half[2] = {one, one};
    ig_dim sizes[4] = {ig_dim_const(g->dims, 2), eight, eight, ig_dim_const(g->dims, 32)};
    enum ingot_dtype dtype = bytes ? INGOT_I8 : INGOT_F16;
    struct ig_graph *const none[2] = {NULL, NULL};
    struct ig_attr attrs[] = {ig_attr_of_ints(ones, 2),
                              ig_attr_of_ints(ones, 2),
                              ig_attr_of_dims(half, 2),
                              ig_attr_of_dims(half, 2),
                              ig_attr_of_int(deep ? 32 : 1),
                              ig_attr_of_dtype(bytes ? INGOT_I32 : INGOT_F32),
                              ig_attr_of_int(1),
                              ig_attr_of_int(0),
                              ig_attr_of_int(32),
                              ig_attr_of_ints(taps, 2),
                              ig_attr_of_int(IG_MATH_EXACT),
                              ig_attr_of_int(0)};
    ig_value in[2] = {ig_build_reshape(g, input(g, "x", dtype, 2, flat), sizes, 4)};
    in[1] = random_constant(g, dtype, 4, weights, 3);
    ig_build_output(g, "y", ig_build_node(g, IG_OP_conv, in, 2, 1, attrs, none));
}

/* It is copied by the template from where it lies, and not element by element. */
static void check_flat_convs(struct ig_job *job, void *argument) {
    const struct ig_target target = {.isa = IG_ISA_CUDA, .vector_bytes = 32, .vector_registers = 16, .sm = 80};
    struct ig_pass_options options = {.target = &target};
    (void)argument;
    for (int i = 0; i < 4; i++) {
        bool deep = i % 2;
        struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
        build_flat_conv(g, deep, i >= 2);
        g = passes_named(g, "pack fuse partition", &options);
        assert_int_equal(g->regions.count, 1);
        int by_threads = 0;
        for (int choice = 0;; choice++) {
            const struct ig_kernel *k = ig_kernel_candidate(g, &g->regions.at[0], &target, NULL, choice);
            if (!k || k->library) break;
            assert_true(deep || !k->gemm || k->gemm->a == IG_CUDA_WINDOWS);
            if (choice == 0) assert_int_equal(k->depthwise || k->banded, deep);
            by_threads += k->depthwise != NULL;
        }
        assert_int_equal(by_threads, deep);
    }
}

static void test_flat_convs(void **state) {
    (void)state;
    run_job(check_flat_convs, NULL);
}

/* Depthwise convolutions with large windows are multiplied by banded matrices; those with small ones by threads, which is
 * a candidate of the others too. */
static void check_windows(struct ig_job *job, void *argument) {
    static const struct {
        const char *type;
        int channels, taps;
        bool first, any;
    } cases[] = {{"f16", 96, 7, true, true},   {"bf16", 96, 9, true, true},   {"f16", 96, 3, false, true},
                 {"f32", 96, 7, false, false}, {"f16", 100, 7, false, false}, {"f16", 96, 31, false, false}};
    const struct ig_target target = {.isa = IG_ISA_CUDA, .vector_bytes = 32, .vector_registers = 16, .sm = 90};
    (void)argument;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int c = cases[i].channels, taps = cases[i].taps, pad = taps / 2;
        const char *t = cases[i].type;
        const char *text = ig_format(
            job,
            "graph {\n  input %%0 \"x\": %s[32,56,56,%d]\n  input %%1 \"w\": %s[%d,%d,%d]\n  %%2 = conv(%%0, %%1) "
            "{strides=[1,1], dilations=[1,1], before=[%d,%d], after=[%d,%d], groups=%d, acc=f32, channels_last=1, "
            "packed=1, "
            "n=%d, kernel=[%d,%d], math=0, border=0}: f32[32,56,56,%d]\n  output \"y\" = %%2\n}\n",
            t, c, t, taps, taps, c, pad, pad, pad, pad, c, c, taps, taps, c);
        struct ig_pass_options options = {.target = &target};
        struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), text, strlen(text));
        g = passes_named(g, "fuse", &options);
        int banded = 0, by_threads = 0;
        const struct ig_kernel *k;
        for (int choice = 0; (k = ig_kernel_candidate(g, &g->regions.at[0], &target, NULL, choice)); choice++) {
            if (choice == 0) assert_int_equal(k->banded != NULL, cases[i].first);
            banded += k->banded != NULL;
            by_threads += k->depthwise != NULL;
        }
        assert_int_equal(banded > 0, cases[i].any);
        assert_int_equal(by_threads, 1);
    }
}

static void test_windows(void **state) {
    (void)state;
    run_job(check_windows, NULL);
}

/* ---- Neighbours in shared memory ----------------------------------------------------------------------------------------- */

static void build_biased(struct ig_graph *g, const void *argument) {
    const int64_t *sizes = argument, a[2] = {-1, sizes[0]};
    ig_value x = input(g, "x", INGOT_F16, 2, a), w = input(g, "w", INGOT_F16, 2, sizes);
    ig_value bias = input(g, "bias", INGOT_F32, 1, sizes + 1);
    ig_build_output(g, "y", ig_map2(g, IG_OP_add, ig_build_matmul(g, x, w, INGOT_F32), bias));
}

/* Sums that lie side by side are loaded together, explicitly: NVRTC joins single loads as it happens to, so that the same
 * source gives several cubins. */
static void check_neighbours(struct ig_job *job, void *argument) {
    const struct ig_target target = {.isa = IG_ISA_CUDA, .vector_bytes = 32, .vector_registers = 16, .sm = 80};
    struct ig_pass_options options = {.target = &target};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    (void)argument;
    build_biased(g, (const int64_t[]){512, 512});
    g = passes_named(g, "fuse partition", &options);
    assert_int_equal(g->regions.count, 1);
    const char *text = ig_cuda_kernel(job, ig_kernel_make(g, &g->regions.at[0], &target), "kernel", &target);
    assert_non_null(strstr(text, "*const sums = "));
    assert_non_null(strstr(text, ", sums + "));
    assert_null(strstr(text, "sums["));
}

static void test_neighbours(void **state) {
    (void)state;
    run_job(check_neighbours, NULL);
}

/* ---- What a predecessor may still write ---------------------------------------------------------------------------------- */

/* Where kernels begin before their predecessors end, only weights are declared as data that nobody changes: NVIDIA's assembler
 * moves loads of such data before the wait. A product of three channels, copied element by element, read what was not there
 * yet. */
static void check_changing(struct ig_job *job, void *argument) {
    struct ig_target target = {.isa = IG_ISA_CUDA, .vector_bytes = 32, .vector_registers = 16, .sm = 90};
    struct ig_pass_options options = {.target = &target};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    const int64_t x[2] = {1024, 3}, w[2] = {3, 64};
    (void)argument;
    ig_value product =
        ig_build_matmul(g, input(g, "x", INGOT_F16, 2, x), random_constant(g, INGOT_F16, 2, w, 3), INGOT_F32);
    ig_build_output(g, "y", product);
    g = passes_named(g, "fuse partition", &options);
    assert_int_equal(g->regions.count, 1);
    const char *text = ig_cuda_kernel(job, ig_kernel_make(g, &g->regions.at[0], &target), "kernel", &target);
    assert_non_null(strstr(text, "(const uint16_t *x0,\n"));
    assert_non_null(strstr(text, "const uint16_t *__restrict__ x1,\n"));
    target.sm = 80; /* nothing begins early */
    text = ig_cuda_kernel(job, ig_kernel_make(g, &g->regions.at[0], &target), "kernel", &target);
    assert_non_null(strstr(text, "(const uint16_t *__restrict__ x0,\n"));
}

static void test_changing(void **state) {
    (void)state;
    run_job(check_changing, NULL);
}

/* An all-reduce by rows waits for its predecessor behind loads of what never changes; what it loads then may change. */
static void check_changing_rows(struct ig_job *job, void *argument) {
    static const char layer[] = "graph {\n  input %0 \"x\": f16[n,64]\n  input %1 \"r\": f16[n,64]\n"
                                "  %2 = neg(%0): f16[n,64]\n"
                                "  %3 = all_reduce(%2) {number=0, ranks=4, reduction=0}: f16[n,64]\n"
                                "  %4 = add(%1, %3): f16[n,64]\n  %5 = reduce_mean(%4) {axes=[1]}: f16[n,1]\n"
                                "  %6 = sub(%4, %5): f16[n,64]\n  output \"y\" = %6\n}\n";
    struct ig_target target = {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90};
    struct ig_pass_options options = {.target = &target, .estimator = ig_estimates_open(job, &target)};
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), layer, sizeof layer - 1);
    (void)argument;
    g = passes_named(g, "fuse", &options);
    assert_non_null(g->regions.at[1].joined);
    const char *text = ig_cuda_kernel(job, ig_kernel_make(g, g->regions.at[1].joined, &target), "kernel", &target);
    const char *body = strstr(text, "kernel(const uint16_t *x0,\n    const uint16_t *x1,\n");
    assert_non_null(body);
    const char *waits = strstr(body, "exchange::rows all(seat);"), *loads = strstr(body, "x1 +");
    assert_true(waits && loads && waits < loads);
    assert_null(strstr(body, "griddepcontrol.wait")); /* it is in the class */
}

static void test_changing_rows(void **state) {
    (void)state;
    run_job(check_changing_rows, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),     cmocka_unit_test(test_maps),       cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_promises), cmocka_unit_test(test_choices),    cmocka_unit_test(test_divisions),
        cmocka_unit_test(test_batches),  cmocka_unit_test(test_neighbours), cmocka_unit_test(test_flat_convs),
        cmocka_unit_test(test_windows),  cmocka_unit_test(test_changing),   cmocka_unit_test(test_changing_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
