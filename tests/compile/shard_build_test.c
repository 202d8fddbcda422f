/*
 * Engines for several ranks: a plan for each, with the same collectives in the same order, of which each reads its part of
 * the weights; and passes that lose a collective, which must be found.
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
#include "ir/text/print.h"
#include "pass/pass.h"
#include "runtime/weight_set.h"
#include "support/random/random_values.h"
#include "support/support.h"

enum { WIDTH = 64, HIDDEN = 254 }; /* which 4 does not divide */

static const struct ig_target target = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
static const struct ig_precisions fp32 = {.base = IG_PRECISION_FP32};

/* Two layers, and one that is not divided: it has four columns. */
static const char network[] = "symbol batch from 1 to 64\ngraph {\n"
                              "  input %0 \"x\": f32[batch,64]\n"
                              "  %1 = constant() {data=hash:00000000deadbeef}: f32[64,254]\n"
                              "  %2 = constant() {data=hash:00000000cafebabe}: f32[254,64]\n"
                              "  %3 = constant() {data=[0.5,1.5,2.5,3.5]}: f32[4]\n"
                              "  %4 = matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[batch,254]\n"
                              "  %5 = tanh(%4): f32[batch,254]\n"
                              "  %6 = matmul(%5, %2) {acc=f32, packed=0, n=0, math=0}: f32[batch,64]\n"
                              "  %7 = add(%6, %0): f32[batch,64]\n"
                              "  %8 = reshape(%7) {dims=[batch,16,4]}: f32[batch,16,4]\n"
                              "  %9 = mul(%8, %3): f32[batch,16,4]\n"
                              "  output \"y\" = %9\n}\n";

static void in_job(void (*body)(struct ig_job *job, void *argument), void *argument) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, body, argument, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

/* ---- Engines ------------------------------------------------------------------------------------------------------ */

static const char *built_text = network, *built_target;

struct built {
    struct ingot_build_options options;
    struct ig_engine_memory bytes;
    struct ig_engine_file file;
    char decided[16]; /* the strategy */
};

static void compile(struct ig_job *job, void *argument) {
    struct built *b = argument;
    struct ig_graph *g = random_values_graph(job, built_text, NULL);
    const struct random_values values = random_values_change(job, g->initializers, 1, false);
    if (g->initializers->list.count > 0) g = random_values_graph(job, built_text, &values);
    struct ig_engine_sink sink = ig_engine_memory_sink(&b->bytes);
    ig_compile(job, g, &b->options, &sink);
}

static void build(struct built *b, const unsigned *ranks, size_t n_ranks, const char *sharding) {
    struct ingot_error error;
    *b = (struct built){.options = INGOT_BUILD_OPTIONS_INIT, .bytes = {.allocator = &ig_libc_allocator}};
    b->options.ranks = ranks;
    b->options.n_ranks = n_ranks;
    b->options.sharding = sharding;
    b->options.verify_passes = true;
    b->options.target = built_target;
    in_job(compile, b);
    if (ig_engine_open_memory(b->bytes.data, b->bytes.size, INGOT_VERIFY_ALL, &ig_libc_allocator, &b->file, &error))
        fail_msg("%s", error.message);
}

static void drop(struct built *b) {
    ig_engine_close(&b->file);
    ig_engine_memory_release(&b->bytes);
}

/* The collectives of a plan: "all_reduce f32; " */
static void describe(const struct ig_plan *p, uint32_t subplan, char *out, size_t size) {
    const struct ig_subplan *sub = &p->subplans[subplan];
    size_t length = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < sub->n_steps; i++) {
        const struct ig_plan_step *step = &p->steps[sub->steps + i];
        if (step->kind != IG_STEP_COLLECTIVE) continue;
        const struct ig_collective *c = &p->collectives[step->kernel];
        length += (size_t)snprintf(out + length, size - length, "%s %s of %u; ", ig_collective_name(c->kind),
                                   ingot_dtype_name((enum ingot_dtype)c->dtype), step->n_dims - 2);
        assert_true(length < size);
    }
}

static void check_collectives(const struct built *b, uint32_t ranks, const char *expected) {
    char text[256];
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t subplan = ig_plan_rank_subplan(&b->file.plan, ranks, r);
        assert_int_not_equal(subplan, IG_PLAN_NONE);
        describe(&b->file.plan, subplan, text, sizeof text);
        assert_string_equal(text, expected);
    }
}

static void test_ranks(void **state) {
    struct built alone, b;
    uint32_t degrees[4];
    build(&alone, NULL, 0, NULL);
    assert_int_equal(alone.file.plan.n_ranks, 0);
    assert_int_equal(alone.file.plan.n_collectives, 0);
    uint64_t whole = ig_plan_weight_bytes(&alone.file.plan, 0);
    build(&b, (const unsigned[]){1, 2, 4}, 3, "tensor");
    assert_int_equal(b.file.plan.n_ranks, 7);
    assert_int_equal(ig_plan_degrees(&b.file.plan, degrees, 4), 3);
    assert_int_equal(degrees[2], 4);
    check_collectives(&b, 1, "");
    check_collectives(&b, 2, "all_reduce f32 of 2; ");
    check_collectives(&b, 4, "all_reduce f32 of 4; ");
    assert_int_equal(ig_plan_weight_bytes(&b.file.plan, 0), whole);
    for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
        for (uint32_t r = 0; r < ranks; r++)
            assert_in_range(ig_plan_weight_bytes(&b.file.plan, ig_plan_rank_subplan(&b.file.plan, ranks, r)), 1,
                            whole * 5 / 4 / ranks); /* panels are padded */
    }
    assert_true(b.file.plan.symbols[0].mixes != IG_PLAN_NONE);
    drop(&b);
    drop(&alone);
}

/* What all ranks need alike is stored once: with two ranks that divide the batch, the weights of one. */
static void test_shared_weights(void **state) {
    struct built alone, b;
    build(&alone, NULL, 0, NULL);
    build(&b, (const unsigned[]){2}, 1, "batch");
    assert_int_equal(b.file.plan.n_ranks, 2);
    check_collectives(&b, 2, "all_gather f32 of 2; ");
    assert_int_equal(b.file.weights_size, alone.file.weights_size);
    drop(&b);
    build(&b, (const unsigned[]){2}, 1, "tensor");
    assert_in_range(b.file.weights_size, 1, alone.file.weights_size * 5 / 4);
    drop(&b);
    drop(&alone);
}

/* ---- Vocabularies ------------------------------------------------------------------------------------------------- */

enum { WORDS = 16401, RANKS = 3 };

/* An odd number of columns, then of rows, which begin at multiples of 64 on each rank. */
static const char vocabulary[] = "graph {\n"
                                 "  input %0 \"x\": f32[2,8]\n"
                                 "  %1 = constant() {data=hash:00000000deadbee1, initializer=\"w\"}: f32[8,16401]\n"
                                 "  %2 = constant() {data=hash:00000000deadbee2, initializer=\"v\"}: f32[16401,4]\n"
                                 "  %3 = matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[2,16401]\n"
                                 "  %4 = tanh(%3): f32[2,16401]\n"
                                 "  %5 = matmul(%4, %2) {acc=f32, packed=0, n=0, math=0}: f32[2,4]\n"
                                 "  output \"y\" = %5\n  output \"z\" = %4\n}\n";

static struct ig_graph *parse_vocabulary(struct ig_job *job) {
    struct ig_graph *g = random_values_graph(job, vocabulary, NULL);
    const struct random_values values = random_values_change(job, g->initializers, 1, false);
    return random_values_graph(job, vocabulary, &values);
}

static void divide_vocabulary(struct ig_job *job, void *argument) {
    const struct ingot_build_options options = {.sharding = "tensor"};
    struct ig_sharding sharding;
    struct ingot_tensor expected[2], found[2 * RANKS];
    float x[16];
    struct ingot_tensor in = {.dtype = INGOT_F32, .rank = 2, .dims = {2, 8}, .data = x};
    for (int i = 0; i < 16; i++)
        x[i] = (float)(i - 8) / 16;
    struct ig_graph *g = parse_vocabulary(job);
    ig_eval_graph(job, g, &in, expected);
    ig_sharding_make(ig_rewrite(g, NULL, NULL, NULL), &target, &fp32, &options, RANKS, &sharding);
    ig_node_id first = 0;
    while (sharding.graphs[1]->nodes.at[first].op != IG_OP_matmul)
        first++;
    const struct ig_node *product = &sharding.graphs[1]->nodes.at[first];
    int64_t own;
    assert_true(ig_dim_is_const(g->dims, ig_type_of(sharding.graphs[1], product->out)->dim[1], &own));
    assert_int_equal(own % 64, 0);
    ig_eval_ranks(job, sharding.graphs, RANKS, &in, found);
    for (int r = 0; r < RANKS; r++) {
        const float *y = found[2 * r].data, *z = found[2 * r + 1].data;
        for (int i = 0; i < 8; i++)
            assert_true(fabsf(y[i] - ((float *)expected[0].data)[i]) < 1e-2f);
        assert_int_equal(found[2 * r + 1].dims[1], WORDS);
        for (int i = 0; i < 2 * WORDS; i++)
            assert_true(fabsf(z[i] - ((float *)expected[1].data)[i]) < 1e-5f);
    }
}

static void test_vocabulary(void **state) {
    in_job(divide_vocabulary, NULL);
}

/* A layer beside a product of so many columns, which is divided only where it is not small. */
struct routed {
    int columns;
    uint32_t collectives;
};

static void divide_routed(struct ig_job *job, void *argument) {
    struct routed *routed = argument;
    const struct ingot_build_options options = {.sharding = "tensor"};
    struct ig_sharding sharding;
    char text[1024];
    snprintf(text, sizeof text,
             "graph {\n"
             "  input %%0 \"x\": f32[2,512]\n"
             "  %%1 = constant() {data=hash:00000000deadbee1, initializer=\"w\"}: f32[512,4096]\n"
             "  %%2 = constant() {data=hash:00000000deadbee2, initializer=\"v\"}: f32[4096,512]\n"
             "  %%3 = constant() {data=hash:00000000deadbee3, initializer=\"r\"}: f32[512,%d]\n"
             "  %%4 = matmul(%%0, %%1) {acc=f32, packed=0, n=0, math=0}: f32[2,4096]\n"
             "  %%5 = tanh(%%4): f32[2,4096]\n"
             "  %%6 = matmul(%%5, %%2) {acc=f32, packed=0, n=0, math=0}: f32[2,512]\n"
             "  %%7 = matmul(%%0, %%3) {acc=f32, packed=0, n=0, math=0}: f32[2,%d]\n"
             "  output \"y\" = %%6\n  output \"z\" = %%7\n}\n",
             routed->columns, routed->columns);
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), text, strlen(text));
    ig_sharding_make(ig_rewrite(g, NULL, NULL, NULL), &target, &fp32, &options, 2, &sharding);
    routed->collectives = sharding.collectives;
}

static void test_small_product(void **state) {
    struct routed small = {2, 0}, larger = {32, 0};
    in_job(divide_routed, &small);
    assert_int_equal(small.collectives, 1); /* the layer's sum */
    in_job(divide_routed, &larger);
    assert_int_equal(larger.collectives, 2);
}

/* ---- Parts of stored weights -------------------------------------------------------------------------------------- */

/* Queries and what is like them, keys and values of fewer heads, an attention's end, two layers of 40 columns, which are no whole
 * panels for each of two ranks; and words. */
static const char heads[] = "graph {\n"
                            "  input %0 \"x\": f32[5,64]\n"
                            "  %1 = constant() {data=hash:00000000deadbee1, initializer=\"w1\"}: f32[64,128]\n"
                            "  %2 = constant() {data=hash:00000000deadbee2, initializer=\"w2\"}: f32[64,64]\n"
                            "  %3 = constant() {data=hash:00000000deadbee3, initializer=\"w3\"}: f32[64,64]\n"
                            "  %4 = constant() {data=hash:00000000deadbee4, initializer=\"w4\"}: f32[128,64]\n"
                            "  %5 = constant() {data=hash:00000000deadbee5, initializer=\"w5\"}: f32[64,40]\n"
                            "  %6 = constant() {data=hash:00000000deadbee6, initializer=\"w6\"}: f32[40,64]\n"
                            "  %19 = constant() {data=hash:00000000deadbee7, initializer=\"w7\"}: f32[64,64]\n"
                            "  %7 = matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}: f32[5,128]\n"
                            "  %8 = matmul(%0, %2) {acc=f32, packed=0, n=0, math=0}: f32[5,64]\n"
                            "  %9 = matmul(%0, %3) {acc=f32, packed=0, n=0, math=0}: f32[5,64]\n"
                            "  %10 = mul(%8, %9): f32[5,64]\n"
                            "  %11 = matmul(%10, %19) {acc=f32, packed=0, n=0, math=0}: f32[5,64]\n"
                            "  %12 = tanh(%7): f32[5,128]\n"
                            "  %13 = matmul(%12, %4) {acc=f32, packed=0, n=0, math=0}: f32[5,64]\n"
                            "  %14 = add(%11, %13): f32[5,64]\n"
                            "  %15 = tanh(%14): f32[5,64]\n"
                            "  %16 = matmul(%15, %5) {acc=f32, packed=0, n=0, math=0}: f32[5,40]\n"
                            "  %17 = exp(%16): f32[5,40]\n"
                            "  %18 = matmul(%17, %6) {acc=f32, packed=0, n=0, math=0}: f32[5,64]\n"
                            "  %20 = constant() {data=hash:00000000deadbee8, initializer=\"w8\"}: f32[64,16401]\n"
                            "  %21 = matmul(%18, %20) {acc=f32, packed=0, n=0, math=0}: f32[5,16401]\n"
                            "  output \"y\" = %21\n}\n";

/* The weights that a rank reads, in the order of its buffers, as its process has them. */
static size_t read_weights(struct built *b, uint32_t ranks, uint32_t rank, unsigned char *out, size_t capacity) {
    struct ig_weight_set *set;
    struct ingot_error error;
    size_t size = 0;
    const struct ig_plan *p = &b->file.plan;
    const struct ig_subplan *sub = &p->subplans[ig_plan_rank_subplan(p, ranks, rank)];
    b->file.seats = (struct ig_plan_seats){ranks, rank, 1};
    if (ig_weight_set_of_file(&b->file, &ig_libc_allocator, &set, &error)) fail_msg("%s", error.message);
    for (uint32_t i = 0; i < sub->n_buffers; i++) {
        const struct ig_plan_buffer *buffer = &p->buffers[sub->buffers + i];
        if (buffer->kind != IG_PLAN_WEIGHT) continue;
        const size_t bytes = ig_plan_fixed_bytes(p, buffer);
        assert_true(size + bytes <= capacity);
        memcpy(out + size, ig_weight_address(&set->places, 64 * (uint64_t)buffer->index), bytes);
        size += bytes;
    }
    ig_weight_set_destroy(set, NULL, &ig_libc_allocator);
    return size;
}

/* An engine for several numbers of ranks has hardly more than the one for one, and each rank what an engine for its number has. */
static void test_parts(void **state) {
    static const char *const targets[] = {"cpu:x86-64-v3", "cpu:x86-64-v4"};
    enum { MOST = 1 << 23 };
    unsigned char *of_own = malloc(MOST), *of_parts = malloc(MOST);
    for (size_t i = 0; i < 2; i++) {
        struct built alone, both, own;
        built_text = heads;
        built_target = targets[i];
        build(&alone, NULL, 0, NULL);
        build(&both, (const unsigned[]){1, 2, 4}, 3, "tensor");
        assert_true(both.file.plan.n_copies > 0);
        const uint64_t ragged = 4 * (64 * 48 + 40 * 64); /* of 40 columns, which are more panels when divided */
        assert_in_range(both.file.section_size, alone.file.section_size, alone.file.section_size + 6 * ragged);
        for (unsigned ranks = 2; ranks <= 4; ranks += 2) {
            build(&own, &ranks, 1, "tensor");
            assert_int_equal(own.file.plan.n_copies, 0);
            for (uint32_t r = 0; r < ranks; r++) {
                const size_t size = read_weights(&own, ranks, r, of_own, MOST);
                assert_int_equal(read_weights(&both, ranks, r, of_parts, MOST), size);
                assert_memory_equal(of_own, of_parts, size);
            }
            drop(&own);
        }
        drop(&both);
        drop(&alone);
    }
    built_text = network;
    built_target = NULL;
    free(of_own);
    free(of_parts);
}

static void test_same_bytes(void **state) {
    struct built a, b;
    build(&a, (const unsigned[]){2, 3}, 2, NULL);
    build(&b, (const unsigned[]){2, 3}, 2, NULL);
    assert_int_equal(a.bytes.size, b.bytes.size);
    assert_memory_equal(a.bytes.data, b.bytes.data, a.bytes.size);
    drop(&b);
    drop(&a);
}

/* ---- Mistakes ----------------------------------------------------------------------------------------------------- */

struct mistake {
    unsigned ranks[2];
    size_t n_ranks;
    const char *sharding, *message, *shard, *objective;
    uint64_t memory;
};

static void test_options(void **state) {
    static const struct mistake mistakes[] = {
        {{0}, 1, NULL, "an engine for 0 ranks: from 1 to 64 can be", NULL, NULL, 0},
        {{65}, 1, NULL, "an engine for 65 ranks", NULL, NULL, 0},
        {{2, 2}, 2, NULL, "the numbers of ranks must ascend: 2 comes after 2", NULL, NULL, 0},
        {{2}, 1, "columns", "unknown sharding 'columns'", NULL, NULL, 0},
        {{2}, 0, NULL, "shard '*=whole': say for how many ranks the engine is", "*=whole", NULL, 0},
        {{2}, 1, NULL, "shard '*=left': expected PATTERN=HOW, where HOW is auto, whole,", "*=left", NULL, 0},
        {{2}, 1, NULL, "shard '=whole': expected PATTERN=HOW", "=whole", NULL, 0},
        {{2}, 1, NULL, "shard 'x=axis8': expected PATTERN=HOW", "x=axis8", NULL, 0},
        {{2}, 1, NULL, "shard 'x=rows': the model has no such node", "x=rows", NULL, 0},
        {{2}, 1, NULL, "unknown objective 'best': expected latency or throughput", NULL, "best", 0},
        {{2}, 0, NULL, "a limit of memory: say for how many ranks the engine is", NULL, NULL, 1000},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct built b = {.options = INGOT_BUILD_OPTIONS_INIT, .bytes = {.allocator = &ig_libc_allocator}};
        struct ig_job job;
        struct ingot_error error;
        b.options.ranks = mistakes[i].ranks;
        b.options.n_ranks = mistakes[i].n_ranks;
        b.options.sharding = mistakes[i].sharding;
        b.options.objective = mistakes[i].objective;
        b.options.memory = mistakes[i].memory;
        b.options.shard_of = &mistakes[i].shard;
        b.options.n_shard_of = mistakes[i].shard != NULL;
        ig_job_init(&job, &ig_libc_allocator);
        assert_int_equal(ig_job_run(&job, compile, &b, &error), INGOT_INVALID_ARGUMENT);
        ig_job_deinit(&job);
        if (!strstr(error.message, mistakes[i].message)) fail_msg("%s", error.message);
        ig_engine_memory_release(&b.bytes);
    }
}

/* ---- Memory, throughput ------------------------------------------------------------------------------------------- */

/* The network for one sample. */
static struct ig_graph *parse_single(struct ig_job *job) {
    struct ig_text text;
    ig_text_init(&text, job);
    for (const char *at = strchr(network, '\n') + 1; *at;) {
        bool is_batch = strncmp(at, "batch", 5) == 0;
        ig_text_add_n(&text, is_batch ? "1" : at, 1);
        at += is_batch ? 5 : 1;
    }
    return ig_graph_parse(job, ig_dims_create(job), text.at, text.length);
}

/* The strategy for two ranks that may need so many bytes: its name, or the message. */
static void decide(struct ig_job *job, void *argument) {
    struct built *b = argument;
    struct ig_sharding sharding;
    ig_sharding_make(ig_rewrite(parse_single(job), NULL, NULL, NULL), &target, &fp32, &b->options, 2, &sharding);
    const struct ig_strategy *chosen = &sharding.considered[sharding.chosen];
    if (b->options.memory) assert_true(chosen->memory.weights + chosen->memory.values <= (double)b->options.memory);
    snprintf(b->decided, sizeof b->decided, "%s", chosen->name);
}

static void expect_decision(uint64_t memory, const char *objective, const char *sharding, const char *expected) {
    struct built b = {.options = INGOT_BUILD_OPTIONS_INIT};
    struct ig_job job;
    struct ingot_error error;
    b.options.memory = memory;
    b.options.objective = objective;
    b.options.sharding = sharding;
    ig_job_init(&job, &ig_libc_allocator);
    const char *found = ig_job_run(&job, decide, &b, &error) ? error.message : b.decided;
    assert_string_equal(found, expected);
    ig_job_deinit(&job);
}

/* The weights are 64 x 254 and 254 x 64 floats and four more, 130064 bytes; at tanh, there are its operand, its result and the
 * input. */
static void test_memory(void **state) {
    const uint64_t whole = 130064 + (254 + 254 + 64) * 4;
    expect_decision(0, NULL, NULL, "none");
    expect_decision(whole, NULL, NULL, "none");
    expect_decision(whole - 1, NULL, NULL, "tensor");
    expect_decision(whole, "throughput", NULL, "replicas");
    expect_decision(whole - 1, "throughput", NULL, "pipeline");
    expect_decision(whole, "throughput", "none", "none");
    expect_decision(whole - 1, NULL, "none",
                    "no plan for 2 ranks fits 0.132 MB of memory each: 'none' needs 0.132 MB, of which weights are "
                    "0.130 MB");
    expect_decision(
        1000, NULL, NULL,
        "no plan for 2 ranks fits 0.001 MB of memory each: 'tensor', the smallest, needs 0.066 MB, of which "
        "weights are 0.065 MB");
}

static void compile_collective(struct ig_job *job, void *argument) {
    static const char text[] = "graph {\n  input %0 \"x\": f32[4]\n"
                               "  %1 = all_reduce(%0) {number=0, ranks=2, reduction=0}: f32[4]\n"
                               "  output \"y\" = %1\n}\n";
    struct built *b = argument;
    struct ig_engine_sink sink = ig_engine_memory_sink(&b->bytes);
    ig_compile(job, ig_graph_parse(job, ig_dims_create(job), text, strlen(text)), &b->options, &sink);
}

/* A network with collectives of its own is one rank's: an engine for that many ranks, and none for one machine. */
static void test_collective_of_a_model(void **state) {
    static const unsigned ranks[] = {2};
    static const struct {
        size_t n_ranks;
        const char *sharding, *message;
    } cases[] = {
        {0, NULL, "all_reduce is a collective, so the model is one rank's: say for how many ranks the engine is"},
        {1, "tensor",
         "sharding 'tensor': the model is one rank's, with collectives of its own, and is not divided again"},
        {1, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct built b = {.options = INGOT_BUILD_OPTIONS_INIT, .bytes = {.allocator = &ig_libc_allocator}};
        struct ig_job job;
        struct ingot_error error = {0};
        b.options.ranks = ranks;
        b.options.n_ranks = cases[i].n_ranks;
        b.options.sharding = cases[i].sharding;
        ig_job_init(&job, &ig_libc_allocator);
        enum ingot_status status = ig_job_run(&job, compile_collective, &b, &error);
        ig_job_deinit(&job);
        assert_int_equal(status, cases[i].message ? INGOT_INVALID_ARGUMENT : INGOT_OK);
        if (cases[i].message) assert_string_equal(error.message, cases[i].message);
        ig_engine_memory_release(&b.bytes);
    }
}

/* ---- Passes that lose a collective -------------------------------------------------------------------------------- */

static bool drop_collective(struct ig_rewriter *rw, const struct ig_node *n, const ig_value *in, ig_value *out_values) {
    if (n->op != IG_OP_all_reduce) return false;
    out_values[0] = in[0]; /* has its type */
    return true;
}

struct planted {
    int from, to; /* ranks whose graphs lose it */
};

static void plant(struct ig_job *job, void *argument) {
    const struct planted *planted = argument;
    const struct ingot_build_options options = {.sharding = "tensor"};
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), network, strlen(network));
    struct ig_sharding sharding;
    ig_sharding_make(ig_rewrite(g, NULL, NULL, NULL), &target, &fp32, &options, 3, &sharding);
    assert_int_equal(sharding.collectives, 1);
    ig_sharding_verify(&sharding);
    for (int r = planted->from; r < planted->to; r++)
        sharding.graphs[r] = ig_rewrite(sharding.graphs[r], NULL, drop_collective, NULL);
    ig_sharding_verify(&sharding);
}

static void expect_found(struct planted planted, const char *expected) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    assert_int_equal(ig_job_run(&job, plant, &planted, &error), INGOT_INTERNAL);
    ig_job_deinit(&job);
    if (!strstr(error.message, expected)) fail_msg("'%s' does not say '%s'", error.message, expected);
}

static void test_dropped(void **state) {
    expect_found((struct planted){1, 2},
                 "the graphs of ranks 0 and 1 differ in collective 0: all_reduce of rank 0, none");
    expect_found((struct planted){0, 1}, "none of rank 0, all_reduce of rank 1");
    expect_found((struct planted){0, 3}, "passes have left 0 of 1 collectives");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),      cmocka_unit_test(test_shared_weights),
        cmocka_unit_test(test_options),    cmocka_unit_test(test_collective_of_a_model),
        cmocka_unit_test(test_dropped),    cmocka_unit_test(test_memory),
        cmocka_unit_test(test_parts),      cmocka_unit_test(test_vocabulary),
        cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_small_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
