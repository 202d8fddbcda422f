/*
 * What the pass `float8` makes of products of dequantised floats of 8 bits: the types that are multiplied, the scales behind the
 * product, and nearly the same results.
 */
#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "pass/passes.h"
#include "support/check/apply.h"
#include "support/check/kernel_cases.h"
#include "support/check/passes.h"
#include "support/support.h"

struct form {
    enum ingot_dtype a, b;
    bool by_column, turned, conv, half, literal; /* literal: nothing may be rewritten */
    int64_t block;                               /* scales for as many of the depth */
};

static ig_value scalar(struct ig_graph *g, double value) {
    return ig_build_scalar(g, INGOT_F32, value);
}

/* Quantised and dequantised by a scale of any shape along an axis. */
static ig_value trip(struct ig_graph *g, ig_value x, ig_value scale, enum ingot_dtype dtype, int64_t axis,
                     int64_t block) {
    const struct ingot_attribute attributes[] = {attribute_int("axis", axis), attribute_int("block_size", block), {0}};
    ig_value zero = ig_build_cast(
        g, ig_build_broadcast(g, scalar(g, 0), ig_type_of(g, scale)->dim, ig_type_of(g, scale)->rank), dtype);
    ig_value q = apply(g, "QuantizeLinear", (ig_value[]){x, scale, zero}, 3, attributes);
    return apply(g, "DequantizeLinear", (ig_value[]){q, scale, zero}, 3, attributes);
}

static ig_value weights(struct ig_graph *g, const struct form *f) {
    const int64_t plain[] = {32, 24}, turned[] = {24, 32}, filters[] = {24, 32, 3, 3};
    ig_value w = random_constant(g, INGOT_F32, f->conv ? 4 : 2, f->conv ? filters : f->turned ? turned : plain, 5);
    int64_t n = 24, axis = f->conv || f->turned ? 0 : 1;
    const int64_t blocks[] = {2, 24};
    ig_value scale = scalar(g, 0.5);
    if (f->by_column)
        scale = ig_map2(g, IG_OP_mul, ig_map1(g, IG_OP_abs, random_constant(g, INGOT_F32, 1, &n, 3)), scale);
    if (f->by_column) scale = ig_map2(g, IG_OP_add, scale, scalar(g, 0.25));
    if (f->block)
        scale = ig_map2(g, IG_OP_add, ig_map1(g, IG_OP_abs, random_constant(g, INGOT_F32, 2, blocks, 3)), scale);
    w = trip(g, w, scale, f->b, f->block ? 0 : axis, f->block);
    return f->turned ? ig_build_transpose(g, w, (const int64_t[]){1, 0}) : w;
}

static ig_value product(struct ig_graph *g, const struct form *f) {
    const int64_t rows[] = {5, 32}, image[] = {2, 32, 5, 6};
    ig_value x = input(g, "x", INGOT_F32, f->conv ? 4 : 2, f->conv ? image : rows);
    ig_value a = trip(g, x, scalar(g, 0.03), f->a, 1, 0), w = weights(g, f);
    if (f->half) a = ig_build_cast(g, a, INGOT_F16), w = ig_build_cast(g, w, INGOT_F16);
    if (!f->conv) return ig_build_matmul(g, a, w, INGOT_F32);
    static const int64_t pads[] = {1, 1, 1, 1};
    const struct ingot_attribute attributes[] = {attribute_ints("pads", pads, 4), {0}};
    int64_t n = 24;
    return apply(g, "Conv", (ig_value[]){a, w, random_constant(g, INGOT_F32, 1, &n, 4)}, 3, attributes);
}

static const struct form forms[] = {
    {.a = INGOT_F8E4M3FN, .b = INGOT_F8E4M3FN},
    {INGOT_F8E5M2, INGOT_F8E4M3FN, .by_column = true},
    {INGOT_F8E4M3FN, INGOT_F8E5M2, .by_column = true, .turned = true},
    {INGOT_F8E4M3FN, INGOT_F8E4M3FN, .turned = true, .half = true},
    {INGOT_F8E4M3FN, INGOT_F8E4M3FN, .conv = true, .by_column = true},
    {INGOT_F8E4M3FN, INGOT_F8E4M3FN, .block = 16, .literal = true},
    {INGOT_F8E4M3FNUZ, INGOT_F8E4M3FNUZ, .literal = true},
};

static void fail_with(struct ig_job *job, struct ig_graph *g) {
    struct ig_text text;
    ig_text_init(&text, job);
    ig_graph_print(g, 0, &text);
    fail_msg("%s", text.at);
}

/* The product's operands, and its result beside the literal graph's. */
static void check_form(struct ig_job *job, void *argument) {
    const struct form *f = argument;
    static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .sm = 90}, old = {.isa = IG_ISA_CUDA, .sm = 80},
                                  cpu = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
    const struct ig_pass_options options = {.target = &gpu}, without = {.target = &old}, none = {.target = &cpu};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    ig_build_output(g, "y", product(g, f));
    assert_ptr_equal(ig_pass_float8(g, &without), g);
    assert_ptr_equal(ig_pass_float8(g, &none), g);
    /* In the order of a build, where narrow-weights leaves such products to float8. */
    struct ig_graph *after = passes_named(g, f->literal ? "float8" : "narrow-weights float8", &options);
    int products = 0;
    for (ig_node_id id = 0; id < after->nodes.count; id++) {
        const struct ig_node *n = &after->nodes.at[id];
        if (n->op != IG_OP_matmul && n->op != IG_OP_conv) continue;
        products++;
        bool narrow = ig_type_of(after, n->in[0])->dtype == f->a && ig_type_of(after, n->in[1])->dtype == f->b;
        if (narrow != !f->literal) fail_with(job, after);
        assert_true(f->literal || n->n_in == 2 || n->in[2] == IG_NO_VALUE);
    }
    assert_int_equal(products, 1);
    float numbers[2 * 32 * 5 * 6];
    for (int i = 0; i < 2 * 32 * 5 * 6; i++)
        numbers[i] = (float)((i * 37) % 241 - 120) / 30;
    struct ingot_tensor x = {.dtype = INGOT_F32, .rank = 2, .dims = {5, 32}, .data = numbers};
    if (f->conv) x = (struct ingot_tensor){.dtype = INGOT_F32, .rank = 4, .dims = {2, 32, 5, 6}, .data = numbers};
    assert_nearly_same(g, after, &x, f->half ? 2e-3 : 1e-5, 1);
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

/* ---- Products of one value ---- */

static const struct form parts[] = {
    {.a = INGOT_F8E4M3FN, .b = INGOT_F8E4M3FN},
    {.a = INGOT_F8E4M3FN, .b = INGOT_F8E4M3FN, .by_column = true},
    {.a = INGOT_F8E4M3FN, .b = INGOT_F8E4M3FN, .turned = true},
};
enum { PARTS = sizeof parts / sizeof *parts };

/* Queries, keys and values of one quantised value: one product with the weights side by side, whatever their scales are. */
static void check_merged(struct ig_job *job, void *argument) {
    (void)argument;
    static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .sm = 90};
    const struct ig_pass_options options = {.target = &gpu};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    const int64_t rows[] = {5, 32}, n = 24, order[] = {1, 0};
    ig_value a = trip(g, input(g, "x", INGOT_F32, 2, rows), scalar(g, 0.03), INGOT_F8E4M3FN, 1, 0);
    for (int i = 0; i < PARTS; i++) {
        ig_value y = ig_build_matmul(g, a, weights(g, &parts[i]), INGOT_F32);
        y = ig_map2(g, IG_OP_add, y, random_constant(g, INGOT_F32, 1, &n, (unsigned)i));
        if (i != 1) y = ig_map2(g, IG_OP_mul, y, scalar(g, 0.35)); /* of queries and keys */
        ig_build_output(g, ig_format(job, "y%d", i), ig_build_transpose(g, y, order));
    }
    struct ig_graph *apart = passes_named(g, "float8", &options);
    struct ig_graph *after = passes_named(apart, "merge-matmul", &options);
    int products = 0;
    for (ig_node_id id = 0; id < after->nodes.count; id++) {
        const struct ig_node *node = &after->nodes.at[id];
        if (node->op != IG_OP_matmul) continue;
        products++;
        assert_int_equal(ig_type_of(after, node->in[1])->dtype, INGOT_F8E4M3FN);
        assert_true(ig_type_of(after, node->out)->dim[1] == number(after, PARTS * n));
    }
    if (products != 1) fail_with(job, after);
    float numbers[5 * 32];
    for (int i = 0; i < 5 * 32; i++)
        numbers[i] = (float)((i * 37) % 241 - 120) / 30;
    struct ingot_tensor x = {.dtype = INGOT_F32, .rank = 2, .dims = {5, 32}, .data = numbers}, want[PARTS], got[PARTS];
    ig_eval_graph(job, apart, &x, want);
    ig_eval_graph(job, after, &x, got);
    for (int i = 0; i < PARTS; i++) {
        assert_memory_equal(want[i].data, got[i].data, (size_t)(5 * n) * sizeof(float));
        ig_eval_release(job, &want[i]);
        ig_eval_release(job, &got[i]);
    }
}

static void test_merged(void **state) {
    struct ig_job job;
    struct ingot_error error = {0};
    (void)state;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check_merged, NULL, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_merged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
