/*
 * Random graphs through all passes. They compute with small integers, on which every rewrite is exact, so each pass
 * must give the same bits as the graph before it. Sizes are small, some are 1; the batch is usually symbolic.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "pass/pass.h"
#include "pass/precision/precision.h"
#include "support/random/random_graph.h"
#include "support/support.h"

enum { GRAPHS = 400, STEPS = 14, MAX_ELEMENTS = 3000, BATCH = 2 };

static const struct ig_target target = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};

/* ---- Graphs ------------------------------------------------------------------------------------------------------- */

static void make_graph(struct random_maker *m) {
    struct ig_type type = {.dtype = INGOT_F32, .rank = 4};
    for (int i = 0; i < 2; i++) {
        type.rank = 3 + (int)random_pick(m, 2);
        type.dim[0] = random_pick(m, 3) ? ig_dim_symbol(m->g->dims, "batch") : random_dim(m, 1 + random_pick(m, 2));
        for (int k = 1; k < type.rank; k++) {
            static const int64_t sizes[] = {1, 2, 3, 4, 6};
            type.dim[k] = random_dim(m, sizes[random_pick(m, 5)]);
        }
        IG_PUSH(m->job, &m->pool, ig_build_input(m->g, i ? "y" : "x", &type));
    }
    for (int i = 0; i < STEPS; i++) {
        ig_value x = m->pool.at[random_pick(m, 4) ? m->pool.count - 1 : (uint32_t)random_pick(m, m->pool.count)];
        ig_value y = random_plain_steps[random_pick(m, random_plain_step_count)](m, x);
        if (random_elements(m, ig_type_of(m->g, y)) <= MAX_ELEMENTS && ig_type_of(m->g, y)->rank <= 6)
            IG_PUSH(m->job, &m->pool, y);
    }
    ig_build_output(m->g, "a", m->pool.at[m->pool.count - 1]);
    ig_build_output(m->g, "b", m->pool.at[random_pick(m, m->pool.count)]);
}

static void make_inputs(struct random_maker *m, struct ingot_tensor *out_inputs) {
    for (uint32_t i = 0; i < m->g->inputs.count; i++) {
        struct ig_type type = *ig_type_of(m->g, m->g->inputs.at[i].value);
        out_inputs[i] = (struct ingot_tensor){.dtype = INGOT_F32, .rank = type.rank};
        for (int k = 0; k < type.rank; k++)
            out_inputs[i].dims[k] = random_size(m, type.dim[k]);
        int64_t count = random_elements(m, &type);
        float *numbers = IG_NEW_ARRAY(m->job, float, (size_t)count + 1);
        for (int64_t k = 0; k < count; k++)
            numbers[k] = (float)(random_pick(m, 9) - 4);
        out_inputs[i].data = numbers;
    }
}

static bool same_numbers(const struct ingot_tensor *a, const struct ingot_tensor *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i]) return false;
    }
    for (int64_t i = 0; i < ingot_tensor_elements(a); i++) {
        if (ig_load_f64(a->dtype, a->data, i) != ig_load_f64(b->dtype, b->data, i)) return false;
    }
    return true;
}

static void fail_with_graphs(struct ig_graph *before, struct ig_graph *after, uint64_t seed, const char *pass) {
    struct ig_text text;
    ig_text_init(&text, before->job);
    ig_graph_print(before, 0, &text);
    ig_text_add(&text, "became\n");
    ig_graph_print(after, 0, &text);
    fail_msg("graph %llu: pass %s changes a result\n%s", (unsigned long long)seed, pass, text.at);
}

static void run_passes(struct random_maker *m, uint64_t seed) {
    /* Numbers are small integers, exact in every precision. */
    const struct ig_precisions precisions = {.base = (enum ig_precision)(seed % IG_PRECISION_COUNT),
                                             .everywhere = true};
    struct ig_pass_options options = {.target = &target, .precisions = &precisions};
    struct ingot_tensor inputs[2], expected[2], found[2];
    struct ig_graph *g = m->g;
    make_inputs(m, inputs);
    ig_graph_verify(g, "construction");
    ig_eval_graph(m->job, g, inputs, expected);
    for (int i = 0; i < ig_pass_count; i++) {
        struct ig_graph *next = ig_passes[i].run(g, &options);
        ig_graph_verify(next, ig_passes[i].name);
        ig_eval_graph(m->job, next, inputs, found);
        for (int k = 0; k < 2; k++) {
            if (!same_numbers(&expected[k], &found[k])) fail_with_graphs(g, next, seed, ig_passes[i].name);
            ig_eval_release(m->job, &found[k]);
        }
        g = next;
    }
    for (int k = 0; k < 2; k++)
        ig_eval_release(m->job, &expected[k]);
}

static void check_graph(struct ig_job *job, void *argument) {
    uint64_t seed = *(const uint64_t *)argument;
    struct random_maker m = {
        .job = job, .g = ig_graph_create(job, ig_dims_create(job)), .state = seed * 7919 + 1, .sizes = {BATCH, 1}};
    make_graph(&m);
    run_passes(&m, seed);
}

static void test_random_graphs(void **state) {
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        struct ig_job job;
        struct ingot_error error = {0};
        ig_job_init(&job, &ig_libc_allocator);
        if (ig_job_run(&job, check_graph, &seed, &error))
            fail_msg("graph %llu: %s", (unsigned long long)seed, error.message);
        ig_job_deinit(&job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
