/*
 * What the pass `block-scales` makes of products of numbers that were dequantised with scales by blocks of the depth, as the importer
 * writes DequantizeLinear and as exporters of PyTorch's models do: what is multiplied, how many scales there are, and nearly the same
 * results.
 */
#include "ir/text/print.h"
#include "pass/passes.h"
#include "support/check/apply.h"
#include "support/check/kernel_cases.h"
#include "support/check/passes.h"
#include "support/support.h"

enum a_scale { BLOCKS, TOKENS, ONE, OWN_AXES };
enum b_scale { BY_COLUMN, BY_SQUARES, SQUARES_REPEATED, PLAIN };

struct form {
    enum ingot_dtype a, b;
    enum a_scale a_scale;
    enum b_scale b_scale;
    int64_t rows, depth, columns; /* rows -1: a symbol */
    bool turned, half, images;    /* images: the first operand has three axes */
    double zero;
    int sm;                    /* 0: 90 */
    int64_t scales_of_columns; /* what matmul_scaled gets; 0: there is none */
};

#define E4M3 .a = INGOT_F8E4M3FN, .b = INGOT_F8E4M3FN
#define S8 .a = INGOT_I8, .b = INGOT_I8
static const struct form forms[] = {
    {E4M3, BLOCKS, BY_COLUMN, 20, 300, 24, .scales_of_columns = 24},
    {E4M3, BLOCKS, BY_COLUMN, 20, 300, 24, .turned = true, .half = true, .scales_of_columns = 24},
    {E4M3, OWN_AXES, BY_SQUARES, 20, 384, 256, .turned = true, .scales_of_columns = 2},
    {E4M3, OWN_AXES, BY_SQUARES, 20, 384, 256, .scales_of_columns = 2},
    {E4M3, BLOCKS, SQUARES_REPEATED, 20, 384, 200, .images = true, .scales_of_columns = 2},
    {E4M3, BLOCKS, SQUARES_REPEATED, 20, 384, 100, .turned = true, .scales_of_columns = 100},
    {E4M3, TOKENS, BY_SQUARES, 20, 256, 256, .scales_of_columns = 2},
    {E4M3, ONE, BY_COLUMN, 20, 300, 24, .scales_of_columns = 24},
    {E4M3, BLOCKS, PLAIN, -1, 256, 136, .scales_of_columns = 2},
    {.a = INGOT_F8E5M2, .b = INGOT_F8E4M3FN, BLOCKS, BY_COLUMN, 17, 129, 8, .scales_of_columns = 8},
    {E4M3, BLOCKS, BY_COLUMN, 20, 100, 24, .scales_of_columns = 24},
    {S8, BLOCKS, BY_COLUMN, 1, 300, 24, .sm = 80, .scales_of_columns = 24},
    {.a = INGOT_U8, .b = INGOT_I8, OWN_AXES, BY_SQUARES, 20, 384, 256, .scales_of_columns = 2},
    {S8, BLOCKS, BY_COLUMN, 20, 300, 24, .zero = 3},  /* a zero point */
    {E4M3, TOKENS, PLAIN, 20, 300, 24},               /* nothing varies along the depth */
    {E4M3, BLOCKS, BY_COLUMN, 16, 300, 24},           /* few rows */
    {E4M3, BLOCKS, BY_COLUMN, 20, 300, 24, .sm = 80}, /* no such tensor cores */
    {.a = INGOT_F8E4M3FN, .b = INGOT_I8, BLOCKS, BY_COLUMN, 20, 300, 24},
    {.a = INGOT_F8E4M3FNUZ, .b = INGOT_F8E4M3FNUZ, BLOCKS, BY_COLUMN, 20, 300, 24},
};

static ig_value scalar(struct ig_graph *g, double value) {
    return ig_build_scalar(g, INGOT_F32, value);
}

static ig_value reshaped(struct ig_graph *g, ig_value v, int rank, const int64_t *sizes) {
    ig_dim dims[INGOT_MAX_RANK];
    struct ig_type type = *ig_type_of(g, v);
    for (int i = 0; i < rank; i++)
        dims[i] = sizes[i] < 0 ? type.dim[-1 - sizes[i]] : number(g, sizes[i]);
    return ig_build_reshape(g, v, dims, rank);
}

static ig_value positive(struct ig_graph *g, int rank, const int64_t *sizes, uint32_t seed, double least) {
    ig_value v = ig_map1(g, IG_OP_abs, random_constant(g, INGOT_F32, rank, sizes, seed));
    return ig_map2(g, IG_OP_mul, ig_map2(g, IG_OP_add, v, scalar(g, 0.5)), scalar(g, least));
}

/* Quantised, if it is not yet, and dequantised, as the importer writes it. */
static ig_value trip(struct ig_graph *g, ig_value x, ig_value scale, const struct form *f, enum ingot_dtype dtype,
                     int64_t axis, int64_t block) {
    const struct ingot_attribute attributes[] = {attribute_int("axis", axis), attribute_int("block_size", block), {0}};
    const struct ig_type *type = ig_type_of(g, scale);
    ig_value zero = ig_build_cast(g, ig_build_broadcast(g, scalar(g, f->zero), type->dim, type->rank), dtype);
    ig_value q = apply(g, "QuantizeLinear", (ig_value[]){x, scale, zero}, 3, attributes);
    return apply(g, "DequantizeLinear", (ig_value[]){q, scale, zero}, 3, attributes);
}

static double largest_of(enum ingot_dtype dtype) {
    return dtype == INGOT_F8E4M3FN ? 448 : dtype == INGOT_F8E5M2 ? 57344 : 127;
}

static ig_value activation(struct ig_graph *g, const struct form *f) {
    int64_t blocks = (f->depth + 127) / 128;
    const int64_t rows[] = {f->rows, f->depth}, images[] = {2, f->rows, f->depth}, last[] = {2};
    const int64_t scales[] = {f->rows, blocks}, image_scales[] = {2, f->rows, blocks};
    int rank = f->images ? 3 : 2;
    ig_value x = input(g, "x", INGOT_F32, rank, f->images ? images : rows);
    ig_value s = input(g, "s", INGOT_F32, rank, f->images ? image_scales : scales);
    s = ig_map2(g, IG_OP_add, ig_map2(g, IG_OP_mul, s, scalar(g, 0.01)), scalar(g, 0.02));
    if (f->a_scale == BLOCKS) return trip(g, x, s, f, f->a, rank - 1, 128);
    if (f->a_scale == ONE) return trip(g, x, scalar(g, 0.02), f, f->a, 1, 0);
    if (f->a_scale == TOKENS) {
        ig_value one = ig_build_reduce(g, IG_OP_reduce_max, s, (const int64_t[]){1}, 1);
        ig_value q = ig_build_cast_saturating(g, ig_map2(g, IG_OP_div, x, one), f->a);
        return ig_map2(g, IG_OP_mul, ig_build_cast(g, q, INGOT_F32), one);
    }
    /* The largest of each block becomes the largest number of the type. */
    ig_value cut = reshaped(g, x, 3, (const int64_t[]){-1, blocks, 128});
    ig_value most = ig_build_reduce(g, IG_OP_reduce_max, ig_map1(g, IG_OP_abs, cut), last, 1);
    s = ig_map2(g, IG_OP_add, ig_map2(g, IG_OP_div, most, scalar(g, largest_of(f->a))), scalar(g, 1e-6));
    ig_value q = ig_map2(g, IG_OP_div, cut, s);
    if (ingot_dtype_size(f->a) == 1 && (f->a == INGOT_U8 || f->a == INGOT_I8)) q = ig_map1(g, IG_OP_round, q);
    q = ig_build_cast_saturating(g, q, f->a);
    return reshaped(g, ig_map2(g, IG_OP_mul, ig_build_cast(g, q, INGOT_F32), s), 2, (const int64_t[]){-1, f->depth});
}

/* A scale for each 128 x 128, repeated along columns, which lie along `axis`. */
static ig_value repeated(struct ig_graph *g, const struct form *f, int64_t blocks) {
    int64_t across = (f->columns + 127) / 128;
    const int64_t along[] = {across, 1, blocks}, over[] = {across, 128, blocks}, sizes[] = {blocks, across, 1};
    const int64_t wide[] = {blocks, across, 128},
                  all[] = {f->turned ? across * 128 : blocks, f->turned ? blocks : across * 128};
    ig_dim dims[3];
    for (int i = 0; i < 3; i++)
        dims[i] = number(g, f->turned ? over[i] : wide[i]);
    ig_value s = positive(g, 3, f->turned ? along : sizes, 3, 0.01);
    s = reshaped(g, ig_build_broadcast(g, s, dims, 3), 2, all);
    return ig_build_slice_axis(g, s, f->turned ? 0 : 1, number(g, 0), number(g, f->columns), 1);
}

static ig_value weights(struct ig_graph *g, const struct form *f) {
    int64_t k = f->depth, n = f->columns, blocks = (k + 127) / 128;
    const int64_t lying[] = {f->turned ? n : k, f->turned ? k : n};
    const int64_t scales[] = {f->turned ? n : blocks, f->turned ? blocks : n};
    ig_value w = random_constant(g, INGOT_F32, 2, lying, 5);
    if (f->b_scale == BY_SQUARES) {
        const int64_t apart[] = {lying[0] / 128, 128, lying[1] / 128, 128}, squares[] = {apart[0], 1, apart[2], 1};
        ig_value q = ig_map2(g, IG_OP_mul, w, scalar(g, 100));
        q = ig_build_cast_saturating(g, f->b == INGOT_I8 ? ig_map1(g, IG_OP_round, q) : q, f->b);
        q = reshaped(g, ig_build_cast(g, q, INGOT_F32), 4, apart);
        w = reshaped(g, ig_map2(g, IG_OP_mul, q, positive(g, 4, squares, 3, 0.01)), 2, lying);
    } else {
        ig_value s = f->b_scale == PLAIN       ? scalar(g, 0.01)
                     : f->b_scale == BY_COLUMN ? positive(g, 2, scales, 3, 0.01)
                                               : repeated(g, f, blocks);
        w = trip(g, w, s, f, f->b, f->turned ? 1 : 0, f->b_scale == PLAIN ? 0 : 128);
    }
    return f->turned ? ig_build_transpose(g, w, (const int64_t[]){1, 0}) : w;
}

static ig_value product(struct ig_graph *g, const struct form *f) {
    ig_value a = activation(g, f), w = weights(g, f);
    if (f->half) a = ig_build_cast(g, a, INGOT_F16), w = ig_build_cast(g, w, INGOT_F16);
    return ig_build_matmul(g, a, w, f->half ? INGOT_F16 : INGOT_F32);
}

static void fail_with(struct ig_job *job, struct ig_graph *g, const char *what) {
    struct ig_text text;
    ig_text_init(&text, job);
    ig_graph_print(g, 0, &text);
    fail_msg("%s:\n%s", what, text.at);
}

/* The scales of a product of narrow numbers, and that nothing else multiplies. */
static void check_graph(struct ig_job *job, const struct form *f, struct ig_graph *g) {
    int products = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (n->op != IG_OP_matmul && n->op != IG_OP_matmul_scaled && n->op != IG_OP_matmul_blocks) continue;
        products++;
        if ((n->op == IG_OP_matmul_scaled) != (f->scales_of_columns > 0)) fail_with(job, g, "a product");
        if (n->op != IG_OP_matmul_scaled) continue;
        assert_int_equal(ig_type_of(g, n->in[0])->dtype, f->a);
        assert_int_equal(ig_type_of(g, n->in[1])->dtype, f->b);
        assert_true(ig_type_of(g, n->in[3])->dim[0] == number(g, (f->depth + 127) / 128));
        assert_true(ig_type_of(g, n->in[3])->dim[1] == number(g, f->scales_of_columns));
    }
    assert_int_equal(products, 1);
}

/* The product's operands, and its result beside the literal graph's. */
static void check_form(struct ig_job *job, void *argument) {
    enum { ROWS = 20, DEPTH = 384 };
    const struct form *f = argument;
    const struct ig_target gpu = {.isa = IG_ISA_CUDA, .sm = f->sm ? f->sm : 90},
                           cpu = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
    const struct ig_pass_options options = {.target = &gpu}, none = {.target = &cpu};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    ig_build_output(g, "y", product(g, f));
    assert_ptr_equal(ig_pass_block_scales(g, &none), g);
    struct ig_graph *after = passes_named(g, "dead-code block-scales narrow-weights integers float8", &options);
    check_graph(job, f, f->scales_of_columns ? after : passes_named(g, "block-scales", &options));
    static float numbers[2 * ROWS * DEPTH], scales[2 * ROWS * 3];
    for (int i = 0; i < 2 * ROWS * DEPTH; i++)
        numbers[i] = (float)((i * 37) % 241 - (f->a == INGOT_U8 ? 0 : 120)) / 30;
    for (int i = 0; i < 2 * ROWS * 3; i++)
        scales[i] = (float)(i * 7 % 11);
    int64_t rows = f->rows < 0 ? 19 : f->rows, blocks = (f->depth + 127) / 128;
    struct ingot_tensor inputs[] = {{.dtype = INGOT_F32, .rank = 2, .dims = {rows, f->depth}, .data = numbers},
                                    {.dtype = INGOT_F32, .rank = 2, .dims = {rows, blocks}, .data = scales}};
    if (f->images) {
        inputs[0] = (struct ingot_tensor){INGOT_F32, 3, {2, rows, f->depth}, numbers, INGOT_HOST};
        inputs[1] = (struct ingot_tensor){INGOT_F32, 3, {2, rows, blocks}, scales, INGOT_HOST};
    }
    assert_nearly_same(g, after, inputs, f->half ? 2e-3 : 1e-5, 0.1);
}

static void test_forms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct ig_job job;
        struct ingot_error error = {0};
        struct form form = forms[i];
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, check_form, &form, &error)) fail_msg("form %d: %s", (int)i, error.message);
        ig_job_deinit(&job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
