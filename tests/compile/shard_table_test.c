/*
 * Tables of words that ranks divide: by odd numbers of rows, with indices of either type and from the end, at symbolic sizes, alone
 * and as weights of a product. Results are those of one rank, to the bit where nothing is multiplied, and each rank reads its
 * part of the weights.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile/compile.h"
#include "compile/shard/shard.h"
#include "engine/engine.h"
#include "ir/build.h"
#include "ir/eval/eval.h"
#include "pass/pass.h"
#include "support/plan/engine_bytes.h"
#include "support/random/random_values.h"
#include "support/support.h"

struct table_case {
    int64_t words;
    int width, ranks;
    const char *index; /* its type */
    bool tied;
    const char *sharding, *ask; /* NULL: nothing is asked */
    bool widths; /* its rows are divided, not dealt out: here because there is hardly anything else to exchange */
};

/* ---- Networks ----------------------------------------------------------------------------------------------------- */

/* Words and a small table of positions, a layer, and how well words follow. */
static const char *network(struct ig_job *job, const struct table_case *c) {
    const int w = c->width;
    struct ig_text t;
    ig_text_init(&t, job);
    ig_text_printf(
        &t,
        "symbol batch from 1 to 64\nsymbol length from 1 to 64\ngraph {\n  input %%0 \"ids\": %s[batch,length]\n"
        "  input %%1 \"at\": i64[length]\n",
        c->index);
    ig_text_printf(&t, "  %%2 = constant() {data=hash:00000000deadbee1, initializer=\"words\"}: f32[%lld,%d]\n",
                   (long long)c->words, w);
    ig_text_printf(&t, "  %%3 = constant() {data=hash:00000000deadbee2, initializer=\"positions\"}: f32[64,%d]\n", w);
    ig_text_printf(&t, "  %%4 = constant() {data=hash:00000000deadbee3, initializer=\"layer\"}: f32[%d,%d]\n", w, w);
    ig_text_printf(&t, "  %%5 = gather(%%2, %%0) {axis=0}: f32[batch,length,%d] @ \"Gather 'words'\"\n", w);
    ig_text_printf(&t, "  %%6 = gather(%%3, %%1) {axis=0}: f32[length,%d] @ \"Gather 'positions'\"\n", w);
    ig_text_printf(&t, "  %%7 = add(%%5, %%6): f32[batch,length,%d]\n", w);
    ig_text_printf(&t, "  %%8 = matmul(%%7, %%4) {acc=f32, packed=0, n=0, math=0}: f32[batch,length,%d]\n", w);
    if (c->tied) {
        ig_text_printf(&t, "  %%9 = transpose(%%2) {perm=[1,0]}: f32[%d,%lld]\n", w, (long long)c->words);
        ig_text_printf(&t, "  %%10 = matmul(%%8, %%9) {acc=f32, packed=0, n=0, math=0}: f32[batch,length,%lld]\n",
                       (long long)c->words);
    }
    ig_text_printf(&t, "  output \"y\" = %%%d\n  output \"found\" = %%5\n}\n", c->tied ? 10 : 8);
    return t.at;
}

static struct ig_graph *make(struct ig_job *job, const struct table_case *c) {
    const char *text = network(job, c);
    struct ig_graph *g = random_values_graph(job, text, NULL);
    const struct random_values values = random_values_change(job, g->initializers, 1, false);
    return random_values_graph(job, text, &values);
}

/* ---- In lockstep -------------------------------------------------------------------------------------------------- */

enum { MOST_RANKS = 4, MOST_IDS = 3 * 11 };

/* The first and the last rows of each range, from both ends, and words in between. */
static int64_t word_of(const struct table_case *c, int i) {
    const int64_t near = c->words * (i % (c->ranks + 1)) / c->ranks + i % 3 - 1, own = near < 0 ? 0 : near;
    const int64_t word = i % 2 ? (own < c->words ? own : c->words - 1) : (int64_t)i * 7919 % c->words;
    return i % 5 < 2 ? word - c->words : word;
}

static void compare(const struct ingot_tensor *want, const struct ingot_tensor *found, double tolerance) {
    assert_int_equal(ingot_tensor_elements(want), ingot_tensor_elements(found));
    for (int64_t i = 0; i < ingot_tensor_elements(want); i++) {
        const float x = ((const float *)want->data)[i], y = ((const float *)found->data)[i];
        if (tolerance == 0 ? memcmp(&x, &y, sizeof x) != 0 : !(fabs((double)x - (double)y) <= tolerance))
            fail_msg("element %lld is %g, not %g", (long long)i, (double)y, (double)x);
    }
}

static void run(struct ig_job *job, const struct table_case *c, struct ig_graph *g, const struct ig_sharding *s,
                int64_t batch, int64_t length) {
    int64_t ids[MOST_IDS], at[11];
    int32_t narrow[MOST_IDS];
    struct ingot_tensor in[2] = {{.dtype = INGOT_I64, .rank = 2, .dims = {batch, length}, .data = ids},
                                 {.dtype = INGOT_I64, .rank = 1, .dims = {length}, .data = at}};
    struct ingot_tensor want[2], found[2 * MOST_RANKS];
    for (int i = 0; i < MOST_IDS; i++)
        narrow[i] = (int32_t)(ids[i] = word_of(c, i));
    for (int i = 0; i < 11; i++)
        at[i] = i;
    if (strcmp(c->index, "i32") == 0) in[0].dtype = INGOT_I32, in[0].data = narrow;
    ig_eval_graph(job, g, in, want);
    ig_eval_ranks(job, s->graphs, (uint32_t)c->ranks, in, found);
    for (int r = 0; r < c->ranks; r++) {
        compare(&want[0], &found[2 * r], 1e-4);
        compare(&want[1], &found[2 * r + 1], 0);
    }
}

/* What a rank reads of the weights, and whether it gathers from parts of the rows, or within them. */
static void check_graph(const struct table_case *c, const struct ig_graph *g) {
    const bool widths = c->widths;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        int64_t dims[INGOT_MAX_RANK];
        if (n->op != IG_OP_gather || !ig_type_is_static(g->dims, ig_type_of(g, n->in[0]), dims)) continue;
        if (dims[0] <= 64) continue; /* positions */
        assert_in_range(dims[0], widths ? c->words : c->words / c->ranks - 64,
                        widths ? c->words : c->words / c->ranks + 64);
        assert_in_range(dims[1], widths ? c->width / c->ranks : c->width, widths ? c->width / c->ranks + 1 : c->width);
    }
}

static void divide(struct ig_job *job, void *argument) {
    static const struct ig_target target = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
    static const struct ig_precisions fp32 = {.base = IG_PRECISION_FP32};
    const struct table_case *c = argument;
    struct ingot_build_options options = {.sharding = c->sharding, .shard_of = &c->ask, .n_shard_of = c->ask != NULL};
    struct ig_graph *g = ig_rewrite(make(job, c), NULL, NULL, NULL);
    struct ig_sharding s;
    ig_sharding_make(g, &target, &fp32, &options, c->ranks, &s);
    assert_true(s.considered[s.chosen].result.divided > 0);
    for (int r = 0; r < c->ranks; r++)
        check_graph(c, s.graphs[r]);
    run(job, c, g, &s, 3, 11);
    run(job, c, g, &s, 1, 1);
    run(job, c, g, &s, 2, 3);
}

static void in_job(void (*body)(struct ig_job *job, void *argument), const void *argument) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, body, (void *)argument, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

static void test_lockstep(void **state) {
    static const struct table_case cases[] = {
        {30522, 12, 4, "i64", false, "tensor", NULL, true},
        {30522, 12, 4, "i64", false, "tensor", "words=rows", false},
        {30522, 12, 4, "i32", false, "mixed", "words=rows", false},
        {50257, 8, 3, "i64", true, "tensor", NULL, false},
        {50257, 8, 2, "i32", true, "mixed", NULL, false},
        {1031, 8, 3, "i32", true, "tensor", NULL, false},
        {50257, 8, 4, "i64", true, "tensor", "words=axis2", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        in_job(divide, &cases[i]);
}

/* ---- Engines ------------------------------------------------------------------------------------------------------ */

struct built {
    struct table_case c;
    const unsigned *ranks;
    size_t n_ranks;
    struct ig_engine_file *file;
    void (*check)(const struct built *built);
};

static void build(struct ig_job *job, void *argument) {
    struct built *b = argument;
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct engine_bytes bytes;
    struct ig_engine_file file;
    struct ingot_error error;
    options.ranks = b->ranks;
    options.n_ranks = b->n_ranks;
    options.sharding = "tensor";
    options.verify_passes = true;
    struct ig_engine_sink sink = engine_bytes_sink(&bytes, job);
    ig_compile(job, make(job, &b->c), &options, &sink);
    if (ig_engine_open_memory(bytes.data, bytes.size, INGOT_VERIFY_ALL, &ig_libc_allocator, &file, &error))
        ig_raise_error(job, &error);
    b->file = &file;
    b->check(b);
    ig_engine_close(&file);
}

static void check_shares(const struct built *b) {
    const struct ig_plan *p = &b->file->plan;
    const uint64_t whole = ig_plan_weight_bytes(p, ig_plan_rank_subplan(p, 1, 0));
    for (size_t i = 0; i < b->n_ranks; i++) {
        for (uint32_t r = 0; r < b->ranks[i]; r++) {
            const uint64_t own = ig_plan_weight_bytes(p, ig_plan_rank_subplan(p, b->ranks[i], r));
            assert_in_range(own * b->ranks[i] * 10, 0, whole * 11);
        }
    }
    assert_in_range(b->file->section_size, whole, whole * 21 / 20);
}

/* Of an engine for several numbers of ranks, each rank reads 1.1 times its share, and weights are stored once. */
static void test_shares(void **state) {
    static const unsigned ranks[] = {1, 2, 4};
    struct built b = {.ranks = ranks, .n_ranks = 3, .check = check_shares};
    b.c = (struct table_case){30522, 64, 4, "i64", false, NULL, NULL, false};
    in_job(build, &b);
    b.c.tied = true;
    in_job(build, &b);
    b.c.words = 50257;
    in_job(build, &b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lockstep), cmocka_unit_test(test_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
