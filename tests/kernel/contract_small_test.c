/* Products of a small depth and few rows or columns, which GPUs compute as maps, against the reference evaluator. */
#include "support/check/kernel_cases.h"

struct small {
    enum ingot_dtype dtype, result;
    int64_t batch, rows, depth, columns; /* negative: symbols */
    bool turned, shared;                 /* B is a transpose; A is one matrix for all batches */
    bool biased;                         /* adds something for each row and column */
};

static void build(struct ig_graph *g, const void *argument) {
    const struct small *s = argument;
    const int64_t a[] = {s->batch, s->rows, s->depth}, one[] = {s->rows, s->depth};
    const int64_t b[] = {s->batch, s->depth, s->columns}, t[] = {s->batch, s->columns, s->depth};
    ig_value x = s->shared ? input(g, "x", s->dtype, 2, one) : input(g, "x", s->dtype, 3, a);
    ig_value y = s->turned ? ig_build_transpose(g, input(g, "y", s->dtype, 3, t), (const int64_t[]){0, 2, 1})
                           : input(g, "y", s->dtype, 3, b);
    enum ingot_dtype sum = s->dtype == INGOT_F64 ? INGOT_F64 : INGOT_F32;
    ig_value z = ig_build_matmul(g, x, y, sum);
    if (s->biased) {
        const int64_t all[] = {s->batch, s->rows, s->columns};
        ig_value bias = ig_build_cast(g, input(g, "bias", s->result, 3, all), sum);
        z = ig_map2(g, IG_OP_max, ig_map2(g, IG_OP_add, z, bias), ig_build_scalar(g, sum, 0.25));
    }
    ig_build_output(g, "z", ig_build_cast(g, z, s->result));
}

static const struct small cases[] = {
    {INGOT_F16, INGOT_F16, 3, 4, 4, 136, .shared = true}, /* heads that are mixed, 8 columns a thread */
    {INGOT_F16, INGOT_F16, 3, 4, 4, 137, .shared = true, .biased = true},
    {INGOT_BF16, INGOT_F32, 2, 300, 9, 1, .turned = false},
    {INGOT_F16, INGOT_F16, 5, 64, 9, 1, .turned = true, .biased = true},
    {INGOT_F32, INGOT_F16, 2, 1, 32, 77, .turned = false},
    {INGOT_F32, INGOT_F32, 2, 2, 32, 60, .turned = true},
    {INGOT_F16, INGOT_F16, 70, 16, 6, 16, .turned = true, .biased = true}, /* many small matrices */
    {INGOT_F16, INGOT_F16, 70, 16, 16, 6, .turned = false},
    {INGOT_F32, INGOT_F32, 1, 1, 1, 1, .turned = false},
    {INGOT_F16, INGOT_F16, -1, -2, 3, 5, .biased = true},
    {INGOT_F16, INGOT_F16, -1, -2, 20, -3, .turned = true}, /* neither side is known to be short */
    {INGOT_F16, INGOT_F16, -1, 5, 3, -2, .biased = true},
    {INGOT_F16, INGOT_F16, 2, 8, 8, -4, .shared = true},
    {INGOT_F64, INGOT_F64, 2, 7, 3, 40, .turned = false},
    {INGOT_F32, INGOT_F32, 0, 4, 4, 8, .turned = false},
    {INGOT_F32, INGOT_F32, 2, 4, 4, 0, .turned = false},
};
enum { CASES = sizeof cases / sizeof *cases };

static void check(unsigned flags) {
    for (int i = 0; i < CASES; i++) {
        struct graph_case *c =
            add_named_case(build, &cases[i], flags, (const int64_t[]){2, 9, 33, 128}, "number %d", i);
        bool half = cases[i].result == INGOT_F16;
        c->tolerance = half ? 0x1p-10 : cases[i].dtype == INGOT_F64 ? 1e-14 : 2e-6;
    }
    check_all();
}

static void test_small(void **state) {
    (void)state;
    check(0);
}

static void test_poisoned(void **state) {
    (void)state;
    check(GRAPH_POISON);
}

/* The graph as it is, without what passes make of it. */
static void test_raw(void **state) {
    (void)state;
    check(GRAPH_RAW);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_poisoned),
        cmocka_unit_test(test_raw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
