/* Fusion by profit: what pays is fused, and nothing else; decisions are recorded, and the same every time. */
#include "pass/fuse/profit.h"

#include <string.h>

#include "compile/estimates.h"
#include "compile/options.h"
#include "ir/text/print.h"
#include "pass/fuse/regions.h"
#include "support/random/random_graph.h"
#include "support/support.h"

static const struct ig_target *gpu(struct ig_job *job, const char *name) {
    struct ig_target_choice *choice = IG_NEW(job, struct ig_target_choice);
    ig_target_parse(job, name, choice);
    return &choice->target;
}

/* One letter per region. */
static const char *families(struct ig_graph *g) {
    static const char letters[] = {
        [IG_FAMILY_MAP] = 'm',    [IG_FAMILY_ROW] = 'r',  [IG_FAMILY_CONTRACT] = 'c', [IG_FAMILY_WINDOW] = 'w',
        [IG_FAMILY_ATTEND] = 'a', [IG_FAMILY_SCAN] = 's', [IG_FAMILY_REST] = 'x',     [IG_FAMILY_CONTROL] = 'f',
    };
    char *text = IG_NEW_ARRAY(g->job, char, g->regions.count + 1);
    for (uint32_t i = 0; i < g->regions.count; i++)
        text[i] = letters[g->regions.at[i].family];
    return text;
}

/* ---- By the kernels that regions would get ------------------------------------------------------------------------- */

struct network {
    const char *text;
    const char *fused;     /* without estimates */
    const char *by_profit; /* with them */
    bool taken;            /* is any view stored because of them? */
};

static void check_network(struct ig_job *job, void *argument) {
    const struct network *n = argument;
    static const char *const names[] = {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_120"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct ig_target *target = gpu(job, names[i]);
        struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), n->text, strlen(n->text));
        struct ig_pass_options options = {.target = target};
        assert_string_equal(families(ig_pass_fuse(g, &options)), n->fused);
        options.estimator = ig_estimates_open(job, target);
        struct ig_graph *divided = ig_pass_fuse(g, &options);
        ig_graph_verify(divided, "fuse");
        assert_string_equal(families(divided), n->by_profit);
        assert_true(divided->decided.count > 0);
        bool any = false;
        for (uint32_t d = 0; d < divided->decided.count; d++) {
            assert_true(divided->decided.at[d].proposed > 0 && divided->decided.at[d].other > 0);
            any = any || divided->decided.at[d].taken;
        }
        assert_int_equal(any, n->taken);
    }
}

static void check(const struct network *network) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check_network, (void *)network, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

#define SWAPPED(batch, columns)                                                                   \
    "graph {\n  input %0 \"x\": f16[" batch ",196,768]\n  input %1 \"w\": f16[196," columns "]\n" \
    "  %2 = transpose(%0) {perm=[0,2,1]}: f16[" batch ",768,196]\n"                               \
    "  %3 = matmul(%2, %1) {acc=f32, packed=0, n=0, math=0}: f32[" batch ",768," columns "]\n"    \
    "  output \"y\" = %3\n}\n"

/* A product over the tokens of a mixer: its first operand lies across, in batches. */
static void test_swapped_operand(void **state) {
    check(&(struct network){SWAPPED("32", "384"), "c", "mc", true});
}

/* Where little is read, a kernel of its own costs more than it saves. */
static void test_small_operand(void **state) {
    check(&(struct network){"graph {\n  input %0 \"x\": f32[2,16,64]\n"
                            "  %1 = transpose(%0) {perm=[0,2,1]}: f32[2,64,16]\n"
                            "  %2 = reduce_max(%1) {axes=[2]}: f32[2,64,1]\n"
                            "  %3 = sub(%1, %2): f32[2,64,16]\n"
                            "  output \"y\" = %3\n}\n",
                            "mr", "r", false});
}

/* The pixels of a picture, flattened with the channels first, in a classifier. */
static void test_flattened_picture(void **state) {
    check(&(struct network){"graph {\n  input %0 \"x\": f16[32,7,7,512]\n  input %1 \"w\": f16[25088,4096]\n"
                            "  %2 = transpose(%0) {perm=[0,3,1,2]}: f16[32,512,7,7]\n"
                            "  %3 = reshape(%2) {dims=[32,25088]}: f16[32,25088]\n"
                            "  %4 = matmul(%3, %1) {acc=f32, packed=0, n=0, math=0}: f32[32,4096]\n"
                            "  output \"y\" = %4\n}\n",
                            "c", "mc", true});
}

/* What is stored in another order is computed as it is stored; but not for each of many copies. */
static void test_computed_beneath(void **state) {
    check(&(struct network){"graph {\n  input %0 \"x\": f16[32,192,784]\n  input %1 \"y\": f16[32,192,784]\n"
                            "  %2 = add(%0, %1): f16[32,192,784]\n"
                            "  %3 = transpose(%2) {perm=[0,2,1]}: f16[32,784,192]\n"
                            "  output \"z\" = %3\n}\n",
                            "mm", "m", false});
    check(&(struct network){"graph {\n  input %0 \"x\": f32[32,1,1,192]\n  input %1 \"y\": f32[32,56,56,192]\n"
                            "  %2 = erf(%0): f32[32,1,1,192]\n  %3 = exp(%2): f32[32,1,1,192]\n"
                            "  %4 = sin(%3): f32[32,1,1,192]\n"
                            "  %5 = broadcast(%4) {dims=[32,56,56,192]}: f32[32,56,56,192]\n"
                            "  %6 = mul(%5, %1): f32[32,56,56,192]\n"
                            "  output \"z\" = %6\n}\n",
                            "mm", "mm", true});
}

/* ---- By estimates that tests make up ------------------------------------------------------------------------------- */

static bool is_movement(const struct ig_node *n) {
    return n->op == IG_OP_transpose || n->op == IG_OP_slice || n->op == IG_OP_gather || n->op == IG_OP_pad;
}

static uint32_t movements(struct ig_graph *g, const struct ig_region *region) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < region->nodes.count; i++)
        count += is_movement(&g->nodes.at[region->nodes.at[i]]);
    return count;
}

/* Reading through a view always costs more than storing it. */
static double views_cost(void *user, struct ig_graph *g, const struct ig_region *region) {
    double each = region->family == IG_FAMILY_MAP ? 1 : 1000;
    return 10 + each * movements(g, region);
}

/* Storing always costs more. */
static double kernels_cost(void *user, struct ig_graph *g, const struct ig_region *region) {
    return region->family == IG_FAMILY_MAP ? 1000 : 10;
}

static const struct ig_estimator planted = {views_cost, NULL}, opposite = {kernels_cost, NULL};

static struct ig_graph *make_graph(struct ig_job *job, uint64_t seed) {
    enum { STEPS = 16 };
    struct random_maker m = {.job = job, .g = ig_graph_create(job, ig_dims_create(job)), .state = seed * 7919 + 1};
    m.sizes[0] = m.sizes[1] = 2;
    m.max_elements = 3000;
    struct ig_type type = {.dtype = INGOT_F32, .rank = 4};
    static const int64_t sizes[] = {2, 3, 4, 6};
    for (int k = 0; k < type.rank; k++)
        type.dim[k] = random_dim(&m, sizes[k]);
    IG_PUSH(job, &m.pool, ig_build_input(m.g, "x", &type));
    for (int i = 0; i < STEPS; i++) {
        ig_value x = m.pool.at[random_pick(&m, 4) ? m.pool.count - 1 : (uint32_t)random_pick(&m, m.pool.count)];
        ig_value y = random_plain_steps[random_pick(&m, random_plain_step_count)](&m, x);
        if (random_elements(&m, ig_type_of(m.g, y)) <= 3000 && ig_type_of(m.g, y)->rank <= 6) IG_PUSH(job, &m.pool, y);
    }
    ig_build_output(m.g, "y", m.pool.at[m.pool.count - 1]);
    return m.g;
}

/* Views that products and rows read through. */
static uint32_t read_through(struct ig_graph *g) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < g->regions.count; r++) {
        enum ig_family family = g->regions.at[r].family;
        for (uint32_t i = 0; i < g->regions.at[r].nodes.count; i++) {
            const struct ig_node *n = &g->nodes.at[g->regions.at[r].nodes.at[i]];
            count += (family == IG_FAMILY_CONTRACT || family == IG_FAMILY_ROW) && n->region != r && is_movement(n) &&
                     !ig_info(g, n->out)->is_const;
        }
    }
    return count;
}

static struct ig_graph *divide(struct ig_graph *g, const struct ig_estimator *estimator) {
    struct ig_pass_options options = {.target = gpu(g->job, "cuda:sm_90a"), .estimator = estimator};
    struct ig_graph *divided = ig_pass_fuse(g, &options);
    ig_graph_verify(divided, "fuse");
    return divided;
}

static const char *text_of(struct ig_graph *g) {
    struct ig_text text;
    ig_text_init(&text, g->job);
    ig_graph_print(g, IG_PRINT_REGIONS, &text);
    return text.at;
}

static void check_planted(struct ig_job *job, void *argument) {
    struct ig_graph *g = make_graph(job, *(uint64_t *)argument);
    struct ig_graph *fused = divide(g, NULL), *declined = divide(g, &planted);
    assert_int_equal(read_through(declined), 0);
    if (read_through(fused) > 0) assert_true(declined->decided.count > 0);
    assert_string_equal(text_of(declined), text_of(divide(g, &planted)));
    struct ig_graph *taken = divide(g, &opposite);
    for (uint32_t i = 0; i < taken->decided.count; i++)
        assert_false(taken->decided.at[i].taken);
}

/* A fusion that always costs more is declined in every network, and one that never does in none. */
static void test_planted_fusion(void **state) {
    enum { NETWORKS = 400 };
    for (uint64_t seed = 0; seed < NETWORKS; seed++) {
        struct ig_job job;
        struct ingot_error error = {0};
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, check_planted, &seed, &error)) fail_msg("seed %u: %s", (unsigned)seed, error.message);
        ig_job_deinit(&job);
    }
}

/* ---- Attentions ----------------------------------------------------------------------------------------------------- */

static const char attention[] = "graph {\n"
                                "  input %0 \"q\": f16[8,64,32]\n"
                                "  input %1 \"k\": f16[8,64,32]\n"
                                "  input %2 \"v\": f16[8,64,32]\n"
                                "  %3 = transpose(%1) {perm=[0,2,1]}: f16[8,32,64]\n"
                                "  %4 = matmul(%0, %3) {acc=f32, packed=0, n=0, math=0}: f32[8,64,64]\n"
                                "  %5 = reduce_max(%4) {axes=[2]}: f32[8,64,1]\n"
                                "  %6 = sub(%4, %5): f32[8,64,64]\n"
                                "  %7 = exp(%6): f32[8,64,64]\n"
                                "  %8 = reduce_sum(%7) {axes=[2]}: f32[8,64,1]\n"
                                "  %9 = div(%7, %8): f32[8,64,64]\n"
                                "  %10 = cast(%9) {to=f16, saturate=0}: f16[8,64,64]\n"
                                "  %11 = matmul(%10, %2) {acc=f32, packed=0, n=0, math=0}: f32[8,64,32]\n"
                                "  output \"y\" = %11\n"
                                "}\n";

static double attentions_cost(void *user, struct ig_graph *g, const struct ig_region *region) {
    return region->family == IG_FAMILY_ATTEND ? 1000 : 10;
}

static void check_attention(struct ig_job *job, void *argument) {
    const struct ig_estimator dear = {attentions_cost, NULL};
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), attention, strlen(attention));
    g->attends = true;
    assert_string_equal(families(divide(g, NULL)), "a");
    assert_string_equal(families(divide(g, ig_estimates_open(job, gpu(job, "cuda:sm_90a")))), "a");
    struct ig_graph *declined = divide(g, &dear);
    assert_string_equal(families(declined), "crc");
    uint32_t taken = 0;
    for (uint32_t i = 0; i < declined->decided.count; i++) {
        const struct ig_decided *d = &declined->decided.at[i];
        if (!d->taken) continue;
        assert_string_equal(d->otherwise, "several kernels");
        assert_true(d->proposed > d->other);
        taken++;
    }
    assert_int_equal(taken, 1);
}

static void test_attention(void **state) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check_attention, NULL, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

/* ---- The user's word ------------------------------------------------------------------------------------------------ */

static const char named[] =
    "graph {\n  input %0 \"x\": f16[32,196,768]\n  input %1 \"w\": f16[196,384]\n"
    "  %2 = transpose(%0) {perm=[0,2,1]}: f16[32,768,196] @ \"Transpose 'tokens'\"\n"
    "  %3 = matmul(%2, %1) {acc=f32, packed=0, n=0, math=0}: f32[32,768,384] @ \"MatMul 'mix'\"\n"
    "  output \"y\" = %3\n}\n";

struct wrong_rule {
    struct ig_graph *g;
    const char *const *text;
};

static void parse_wrong(struct ig_job *job, void *argument) {
    const struct wrong_rule *rule = argument;
    ig_fuse_rules_parse(rule->g, rule->text, 1);
}

static void check_rules(struct ig_job *job, void *argument) {
    static const struct {
        const char *rules[2];
        const char *families;
    } cases[] = {{{"tokens=on", NULL}, "c"},
                 {{"tokens=off", NULL}, "mc"},
                 {{"mix=on", NULL}, "mc"},
                 {{"tok*=off", "*=on"}, "c"},
                 {{"*=on", "Transpose=off"}, "mc"}};
    const struct ig_target *target = gpu(job, "cuda:sm_90a");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), named, strlen(named));
        size_t count = cases[i].rules[1] ? 2 : 1;
        struct ig_pass_options options = {.target = target,
                                          .estimator = ig_estimates_open(job, target),
                                          .fuse_rules = ig_fuse_rules_parse(g, cases[i].rules, count),
                                          .n_fuse_rules = count};
        assert_string_equal(families(ig_pass_fuse(g, &options)), cases[i].families);
    }
    static const char *const wrong[] = {"tokens", "tokens=maybe", "=on", "other=on"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), named, strlen(named));
        struct ingot_error error;
        struct wrong_rule rule = {g, &wrong[i]};
        assert_int_equal(ig_job_run(job, parse_wrong, &rule, &error), INGOT_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, wrong[i]));
    }
}

static void test_rules(void **state) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check_rules, NULL, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swapped_operand),   cmocka_unit_test(test_small_operand),
        cmocka_unit_test(test_flattened_picture), cmocka_unit_test(test_planted_fusion),
        cmocka_unit_test(test_attention),         cmocka_unit_test(test_rules),
        cmocka_unit_test(test_computed_beneath),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
