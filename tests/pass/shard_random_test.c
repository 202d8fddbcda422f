/*
 * Random networks divided among two to four ranks, as random estimates of times have it, and as is asked of some node: their
 * graphs in lockstep give what the network gives, every rank the same bits, before the passes and behind them; so do stages of a
 * pipeline, and nodes on any ranks. Numbers are
 * small and whole; where all steps are exact, results must be equal.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "pass/pass.h"
#include "pass/precision/precision.h"
#include "pass/shard/stage.h"
#include "support/random/random_network.h"
#include "support/support.h"

enum { NETWORKS = 500, MAX_STEPS = 9, MOST_RANKS = 4, MOST_PORTS = 4 };

struct trial {
    uint64_t seed;
    struct random_maker m;
    uint32_t divided, tables, asked, refused, sent, collectives[IG_OP_COUNT]; /* of all networks so far */
    int ranks;
    struct ig_shard_seeds seeds;
    struct ig_shard_result result;
};

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- Random estimates: computing takes long, exchanging may take anything ---------------------------------------- */

static double node_time(void *user, struct ig_graph *g, ig_node_id node, const double *in, const double *out,
                        double work) {
    const struct trial *t = user;
    return (double)(mixed(t->seed * 31 + node) % 100 + 1) * work;
}

static double collective_time(void *user, enum ig_op op, double bytes, int ranks) {
    const struct trial *t = user;
    return (double)(mixed(t->seed * 37 + (uint64_t)op + (uint64_t)bytes) % (t->seed % 3 ? 10 : 100));
}

static int64_t size_of(void *user, ig_dim dim) {
    struct trial *t = user;
    return random_size(&t->m, dim);
}

/* ---- Networks ----------------------------------------------------------------------------------------------------- */

static void make_inputs(struct trial *t, struct ingot_tensor *out_inputs) {
    struct random_maker *m = &t->m;
    for (uint32_t i = 0; i < m->g->inputs.count; i++) {
        struct ig_type type = *ig_type_of(m->g, m->g->inputs.at[i].value);
        out_inputs[i] = (struct ingot_tensor){.dtype = type.dtype, .rank = type.rank};
        for (int k = 0; k < type.rank; k++)
            out_inputs[i].dims[k] = random_size(m, type.dim[k]);
        int64_t count = ingot_tensor_elements(&out_inputs[i]);
        float *numbers = IG_NEW_ARRAY(m->job, float, (size_t)count + 1);
        for (int64_t k = 0; k < count; k++)
            numbers[k] = (float)((int64_t)(mixed(t->seed * 1000003 + i * 7919 + (uint64_t)k) % 9) - 4);
        out_inputs[i].data = numbers;
    }
}

static bool close_numbers(const struct ingot_tensor *a, const struct ingot_tensor *b, double tolerance) {
    double largest = 0;
    int64_t count = ingot_tensor_elements(a);
    if (a->dtype != b->dtype || a->rank != b->rank || ingot_tensor_elements(b) != count) return false;
    for (int64_t i = 0; i < count; i++) {
        double x = fabs(ig_load_f64(a->dtype, a->data, i));
        if (isfinite(x)) largest = fmax(largest, x);
    }
    for (int64_t i = 0; i < count; i++) {
        double x = ig_load_f64(a->dtype, a->data, i), y = ig_load_f64(b->dtype, b->data, i);
        if (x == y || (isnan(x) && isnan(y))) continue;
        if (!(fabs(x - y) <= tolerance * fmax(largest, 1))) return false;
    }
    return true;
}

static _Noreturn void fail_with(struct trial *t, struct ig_graph *rank, const char *what) {
    struct ig_text text;
    ig_text_init(&text, t->m.job);
    ig_graph_print(t->m.g, 0, &text);
    ig_text_add(&text, "became\n");
    ig_graph_print(rank, 0, &text);
    fprintf(stderr, "%s\n", text.at);
    fail_msg("network %llu: %s", (unsigned long long)t->seed, what);
    abort();
}

/* Is it a result of rank 0 alone, as a pipeline has them? */
static bool is_elsewhere(const struct ig_graph *g, uint32_t rank, uint32_t output) {
    const struct ig_type *type = ig_type_of(g, g->outputs.at[output].value);
    int64_t first;
    return rank > 0 && type->rank > 0 && ig_dim_is_const(g->dims, type->dim[0], &first) && first == 0;
}

/* The ranks' results against the network's, and against each other's. */
static void compare(struct trial *t, struct ig_graph *const *graphs, int ranks, const struct ingot_tensor *inputs,
                    const struct ingot_tensor *expected, double tolerance) {
    struct ingot_tensor found[MOST_RANKS * MOST_PORTS];
    uint32_t outputs = t->m.g->outputs.count;
    ig_eval_ranks(t->m.job, graphs, (uint32_t)ranks, inputs, found);
    for (uint32_t i = 0; i < outputs * (uint32_t)ranks; i++) {
        if (is_elsewhere(graphs[i / outputs], i / outputs, i % outputs)) continue;
        if (!close_numbers(&expected[i % outputs], &found[i], tolerance))
            fail_with(t, graphs[i / outputs], ig_format(t->m.job, "rank %u of %d differs", i / outputs, ranks));
        size_t size = (size_t)ingot_tensor_elements(&found[i]) * ingot_dtype_size(found[i].dtype);
        if (size && memcmp(found[i].data, found[i % outputs].data, size) != 0)
            fail_with(t, graphs[i / outputs], "ranks have different bits");
    }
    for (uint32_t i = 0; i < outputs * (uint32_t)ranks; i++)
        ig_eval_release(t->m.job, &found[i]);
}

static void run_passes(struct trial *t, struct ig_graph **graphs, int ranks) {
    static const struct ig_target target = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
    static const struct ig_precisions precisions = {.everywhere = true};
    const struct ig_pass_options options = {.target = &target, .precisions = &precisions};
    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i < ig_pass_count; i++) {
            graphs[r] = ig_passes[i].run(graphs[r], &options);
            ig_graph_verify(graphs[r], ig_passes[i].name);
        }
    }
    ig_shard_check(graphs, ranks);
}

static void search(struct ig_job *job, void *argument) {
    struct trial *t = argument;
    const struct ig_shard_costs costs = {node_time, collective_time, size_of, t};
    ig_shard_search(t->m.g, t->ranks, t->seeds, &costs, &t->result);
}

/* Asks something of a node of two thirds of the networks. Where it cannot be divided so, the search says it, and nothing is asked. */
static void plan(struct trial *t) {
    static const enum ig_shard_how hows[] = {IG_SHARD_WHOLE, IG_SHARD_DIVIDED, IG_SHARD_AXIS, IG_SHARD_COLUMNS,
                                             IG_SHARD_ROWS};
    static const unsigned seeds[] = {IG_SEED_TENSOR, IG_SEED_BATCH, IG_SEED_TENSOR | IG_SEED_BATCH};
    struct ig_graph *g = t->m.g;
    const uint64_t dice = mixed(t->seed);
    const ig_node_id node = (ig_node_id)(dice % (g->nodes.count + 1));
    struct ig_shard_ask ask = {.text = "", .how = hows[dice / 1000 % 5], .axis = (int)(dice / 5000 % 3)};
    struct ig_shard_asks asks = {.of = IG_NEW_ARRAY(t->m.job, const struct ig_shard_ask *, g->nodes.count + 1)};
    struct ingot_error error;
    bool asks_some = t->seed % 3 > 0 && node < g->nodes.count && !ig_info(g, g->nodes.at[node].out)->is_const;
    if (asks_some) asks.of[node] = &ask;
    if (asks_some) g->nodes.at[node].origin = "some node";
    t->seeds = (struct ig_shard_seeds){seeds[t->seed / 7 % 3], &asks};
    enum ingot_status status = ig_job_run(t->m.job, search, t, &error);
    t->asked += asks_some;
    t->refused += status != INGOT_OK;
    if (status == INGOT_OK) {
        assert_true(!asks_some || ig_shard_asks_allow(&asks, g, node, t->result.plan.divisions[node]));
        return;
    }
    assert_int_equal(status, INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "some node cannot be divided so: "));
    t->seeds.asks = NULL;
    search(t->m.job, t);
}

/* Gathers from tables that the ranks have ranges of. */
static uint32_t count_tables(const struct trial *t) {
    const struct ig_graph *g = t->m.g;
    uint32_t count = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        const struct ig_division *d = t->result.plan.divisions[id];
        count += d && n->op == IG_OP_gather && ig_info(g, n->in[0])->is_const && d->out[0].kind == IG_LAYOUT_PARTIAL;
    }
    return count;
}

/* The ranks' graphs of a plan: right before the passes and behind them. */
static void check_plan(struct trial *t, const struct ig_shard_plan *plan, const struct ingot_tensor *inputs,
                       const struct ingot_tensor *expected, struct ig_graph **out_graphs) {
    for (int r = 0; r < plan->ranks; r++) {
        out_graphs[r] = ig_shard_split(t->m.g, plan, r);
        ig_graph_verify(out_graphs[r], "splitting");
    }
    ig_shard_check(out_graphs, plan->ranks);
    compare(t, out_graphs, plan->ranks, inputs, expected, t->m.exact ? 0 : 1e-4);
    struct ig_graph *graphs[MOST_RANKS];
    memcpy(graphs, out_graphs, (size_t)plan->ranks * sizeof *graphs);
    run_passes(t, graphs, plan->ranks);
    compare(t, graphs, plan->ranks, inputs, expected, t->m.exact ? 0 : 1e-3);
}

/* The stages as planned, and each node on any rank, or on all. */
static void check_places(struct trial *t, const struct ingot_tensor *inputs, const struct ingot_tensor *expected) {
    const struct ig_shard_costs costs = {node_time, collective_time, size_of, t};
    struct ig_graph *graphs[MOST_RANKS];
    struct ig_shard_result planned;
    const struct ig_shard_numbers numbers = {t->seed % 2 ? ig_precision_ranges(t->m.g) : NULL, NULL};
    ig_shard_stages(t->m.g, t->ranks, numbers, &costs, &planned);
    check_plan(t, &planned.plan, inputs, expected, graphs);
    int *places = IG_NEW_ARRAY(t->m.job, int, t->m.g->nodes.count + 1);
    for (ig_node_id id = 0; id < t->m.g->nodes.count; id++)
        places[id] = (int)(mixed(t->seed * 41 + id) % (uint64_t)(t->ranks + 1)) + IG_EVERY_RANK;
    const struct ig_shard_plan random = {.ranks = t->ranks, .divisions = planned.plan.divisions, .places = places};
    check_plan(t, &random, inputs, expected, graphs);
    for (ig_node_id id = 0; id < graphs[0]->nodes.count; id++)
        t->sent += ig_gathers_from_one(graphs[0], &graphs[0]->nodes.at[id]);
}

static void check_network(struct ig_job *job, void *argument) {
    struct trial *t = argument;
    struct ingot_tensor inputs[MOST_PORTS], expected[MOST_PORTS];
    struct ig_graph *graphs[MOST_RANKS];
    const int ranks = 2 + (int)(t->seed % 3);
    t->m = (struct random_maker){.job = job,
                                 .g = ig_graph_create(job, ig_dims_create(job)),
                                 .state = t->seed * 7919 + 1,
                                 .sizes = {1 + (int64_t)(t->seed / 3 % 6), 1 + (int64_t)(t->seed / 18 % 6)},
                                 .max_elements = 2000,
                                 .whole = true,
                                 .exact = true,
                                 .tables = true,
                                 .largest = 1 << 24};
    random_network(&t->m, 1 + (int)(t->seed % MAX_STEPS));
    t->m.g = ig_rewrite(t->m.g, NULL, NULL, NULL);
    make_inputs(t, inputs);
    ig_eval_graph(job, t->m.g, inputs, expected);
    t->ranks = ranks;
    plan(t);
    t->divided += t->result.divided;
    t->tables += count_tables(t);
    check_plan(t, &t->result.plan, inputs, expected, graphs);
    for (ig_node_id id = 0; id < graphs[0]->nodes.count; id++)
        t->collectives[graphs[0]->nodes.at[id].op]++;
    check_places(t, inputs, expected);
    for (uint32_t i = 0; i < t->m.g->outputs.count; i++)
        ig_eval_release(job, &expected[i]);
}

static void test_random_networks(void **state) {
    struct trial t = {0};
    for (t.seed = 0; t.seed < NETWORKS; t.seed++) {
        struct ig_job job;
        struct ingot_error error;
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, check_network, &t, &error))
            fail_msg("network %llu: %s", (unsigned long long)t.seed, error.message);
        ig_job_deinit(&job);
    }
    print_message("asked %u times, refused %u\n", t.asked, t.refused);
    print_message("%u nodes divided, %u of them tables, %u all_reduce, %u all_gather, %u reduce_scatter\n", t.divided,
                  t.tables, t.collectives[IG_OP_all_reduce], t.collectives[IG_OP_all_gather],
                  t.collectives[IG_OP_reduce_scatter]);
    print_message("%u values sent to other ranks\n", t.sent);
    assert_true(t.sent > NETWORKS);
    assert_in_range(t.refused, t.asked / 10, t.asked * 3 / 4);
    assert_true(t.divided > 2 * NETWORKS);
    assert_true(t.tables > NETWORKS / 10);
    assert_true(t.collectives[IG_OP_all_reduce] > NETWORKS / 10);
    assert_true(t.collectives[IG_OP_all_gather] > NETWORKS / 5);
    assert_true(t.collectives[IG_OP_reduce_scatter] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
