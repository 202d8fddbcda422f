/*
 * Mixtures of experts of which each computes all tokens, scaled by its share: as branches of a sum, which are divided by columns and
 * rows, and as products with an axis of experts, which is dealt out where it is asked for. Either way, one all-reduce brings the
 * experts together, also of numbers of experts that ranks do not divide, and results are those of one rank.
 */
#include <math.h>
#include <string.h>

#include "compile/shard/shard.h"
#include "ir/eval/eval.h"
#include "pass/pass.h"
#include "support/random/random_values.h"
#include "support/support.h"

enum { TOKENS = 6, WIDTH = 16, MOST_EXPERTS = 8, MOST_RANKS = 4 };

struct mixture {
    int experts, ranks;
    bool joined; /* their weights are one constant, with an axis of experts */
};

static void product(struct ig_text *t, const char *result, const char *x, const char *weights, const char *type) {
    ig_text_printf(t, "  %s = matmul(%s, %s) {acc=f32, packed=0, n=0, math=0}: %s @ \"MatMul 'expert'\"\n", result, x,
                   weights, type);
}

/* Experts with weights of their own, which are added up one after the other. */
static void add_branches(struct ig_job *job, struct ig_text *t, int experts) {
    for (int e = 0; e < experts; e++) {
        const int n = 100 + 10 * e;
        ig_text_printf(t, "  %%%d = constant() {data=hash:00000000dead%04x, initializer=\"up%d\"}: f32[16,24]\n", n, n,
                       e);
        ig_text_printf(t, "  %%%d = constant() {data=hash:00000000beef%04x, initializer=\"down%d\"}: f32[24,16]\n",
                       n + 1, n, e);
        product(t, ig_format(job, "%%%d", n + 2), "%0", ig_format(job, "%%%d", n), "f32[6,24]");
        ig_text_printf(t, "  %%%d = tanh(%%%d): f32[6,24]\n", n + 3, n + 2);
        product(t, ig_format(job, "%%%d", n + 4), ig_format(job, "%%%d", n + 3), ig_format(job, "%%%d", n + 1),
                "f32[6,16]");
        ig_text_printf(t, "  %%%d = slice(%%1) {starts=[0,%d], sizes=[6,1], steps=[1,1]}: f32[6,1]\n", n + 5, e);
        ig_text_printf(t, "  %%%d = mul(%%%d, %%%d): f32[6,16]\n", n + 6, n + 4, n + 5);
        if (e > 0) ig_text_printf(t, "  %%%d = add(%%%d, %%%d): f32[6,16]\n", n + 7, e > 1 ? n - 3 : n - 4, n + 6);
    }
    ig_text_printf(t, "  %%2 = add(%%%d, %%0): f32[6,16]\n", 107 + 10 * (experts - 1));
}

/* The same as products of all experts at once. */
static void add_joined(struct ig_job *job, struct ig_text *t, int e) {
    ig_text_printf(t, "  %%3 = constant() {data=hash:00000000deadbee1, initializer=\"up\"}: f32[%d,16,24]\n", e);
    ig_text_printf(t, "  %%4 = constant() {data=hash:00000000deadbee2, initializer=\"down\"}: f32[%d,24,16]\n", e);
    ig_text_add(t, "  %5 = reshape(%0) {dims=[1,6,16]}: f32[1,6,16]\n");
    product(t, "%6", "%5", "%3", ig_format(job, "f32[%d,6,24]", e));
    ig_text_printf(t, "  %%7 = tanh(%%6): f32[%d,6,24]\n", e);
    product(t, "%8", "%7", "%4", ig_format(job, "f32[%d,6,16]", e));
    ig_text_printf(t, "  %%9 = transpose(%%1) {perm=[1,0]}: f32[%d,6]\n", e);
    ig_text_printf(t, "  %%10 = reshape(%%9) {dims=[%d,6,1]}: f32[%d,6,1]\n", e, e);
    ig_text_printf(t, "  %%11 = mul(%%8, %%10): f32[%d,6,16]\n", e);
    ig_text_add(t, "  %12 = reduce_sum(%11) {axes=[0]}: f32[1,6,16]\n  %13 = reshape(%12) {dims=[6,16]}: f32[6,16]\n"
                   "  %2 = add(%13, %0): f32[6,16]\n");
}

static struct ig_graph *make(struct ig_job *job, const struct mixture *m) {
    struct ig_text t;
    ig_text_init(&t, job);
    ig_text_printf(&t, "graph {\n  input %%0 \"x\": f32[6,16]\n  input %%1 \"shares\": f32[6,%d]\n", m->experts);
    if (m->joined)
        add_joined(job, &t, m->experts);
    else
        add_branches(job, &t, m->experts);
    ig_text_add(&t, "  output \"y\" = %2\n}\n");
    struct ig_graph *g = random_values_graph(job, t.at, NULL);
    const struct random_values values = random_values_change(job, g->initializers, 1, false);
    return ig_rewrite(random_values_graph(job, t.at, &values), NULL, NULL, NULL);
}

/* Elements of the weights that a rank's products read. */
static double weights_of(struct ig_graph *g) {
    double sum = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        int64_t dims[INGOT_MAX_RANK];
        if (n->op != IG_OP_matmul || !ig_type_is_static(g->dims, ig_type_of(g, n->in[1]), dims)) continue;
        double count = 1;
        for (int i = 0; i < ig_type_of(g, n->in[1])->rank; i++)
            count *= (double)dims[i];
        sum += count;
    }
    return sum;
}

static void check(struct ig_job *job, void *argument) {
    static const struct ig_target target = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
    static const struct ig_precisions fp32 = {.base = IG_PRECISION_FP32};
    static const char *const ask = "expert=axis0";
    const struct mixture *m = argument;
    const struct ingot_build_options options = {
        .sharding = m->joined ? "none" : "tensor", .shard_of = &ask, .n_shard_of = m->joined};
    float x[TOKENS * WIDTH], shares[TOKENS * MOST_EXPERTS];
    struct ingot_tensor in[2] = {{.dtype = INGOT_F32, .rank = 2, .dims = {TOKENS, WIDTH}, .data = x},
                                 {.dtype = INGOT_F32, .rank = 2, .dims = {TOKENS, m->experts}, .data = shares}};
    struct ingot_tensor want, found[MOST_RANKS];
    struct ig_sharding s;
    for (int i = 0; i < TOKENS * WIDTH; i++)
        x[i] = (float)(i * 37 % 19 - 9) / 8;
    for (int i = 0; i < TOKENS * m->experts; i++)
        shares[i] = (float)(i * 29 % 7) / 7;
    struct ig_graph *g = make(job, m);
    ig_sharding_make(g, &target, &fp32, &options, m->ranks, &s);
    assert_int_equal(s.collectives, 1);
    for (int r = 0; r < m->ranks; r++) {
        const int most = m->joined ? (m->experts + m->ranks - 1) / m->ranks : m->experts;
        const int width = m->joined ? 24 : (24 + m->ranks - 1) / m->ranks;
        assert_true(weights_of(s.graphs[r]) <= 2.0 * most * width * WIDTH);
    }
    ig_eval_graph(job, g, in, &want);
    ig_eval_ranks(job, s.graphs, (uint32_t)m->ranks, in, found);
    for (int r = 0; r < m->ranks; r++) {
        assert_memory_equal(found[r].data, found[0].data, sizeof x);
        for (int i = 0; i < TOKENS * WIDTH; i++) {
            const double a = ((const float *)want.data)[i], b = ((const float *)found[r].data)[i];
            if (!(fabs(a - b) <= 1e-5 * fmax(1, fabs(a)))) fail_msg("element %d is %g, not %g", i, b, a);
        }
    }
    for (int r = 0; r < m->ranks; r++)
        ig_eval_release(job, &found[r]);
    ig_eval_release(job, &want);
}

static void test_mixtures(void **state) {
    static const struct mixture mixtures[] = {{8, 2, false}, {5, 2, false}, {8, 3, false}, {2, 4, false},
                                              {8, 2, true},  {5, 2, true},  {8, 3, true}};
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++) {
        struct mixture m = mixtures[i];
        struct ig_job job;
        struct ingot_error error;
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, check, &m, &error)) fail_msg("%s", error.message);
        ig_job_deinit(&job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixtures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
