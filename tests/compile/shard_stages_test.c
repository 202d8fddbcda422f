/*
 * Pipelines: where a network is cut, what each rank reads of its weights, and that ranks agree on the type of what they exchange
 * where types are narrow.
 */
#include <stdio.h>
#include <string.h>

#include "compile/compile.h"
#include "compile/shard/shard.h"
#include "engine/engine.h"
#include "ir/text/print.h"
#include "pass/pass.h"
#include "support/random/random_values.h"
#include "support/support.h"

/* Two layers of 256 x 1024 x 256 and a mask, which is cheap. */
static const char network[] = "symbol batch from 1 to 64\ngraph {\n"
                              "  input %0 \"x\": f32[batch,256]\n"
                              "  input %1 \"mask\": f32[batch,1]\n"
                              "  %2 = constant() {data=hash:00000000deadbee1, initializer=\"a\"}: f32[256,1024]\n"
                              "  %3 = constant() {data=hash:00000000deadbee2, initializer=\"b\"}: f32[1024,256]\n"
                              "  %4 = constant() {data=hash:00000000deadbee3, initializer=\"c\"}: f32[256,1024]\n"
                              "  %5 = constant() {data=hash:00000000deadbee4, initializer=\"d\"}: f32[1024,256]\n"
                              "  %6 = abs(%1): f32[batch,1]\n"
                              "  %7 = matmul(%0, %2) {acc=f32, packed=0, n=0, math=0}: f32[batch,1024]\n"
                              "  %8 = tanh(%7): f32[batch,1024]\n"
                              "  %9 = matmul(%8, %3) {acc=f32, packed=0, n=0, math=0}: f32[batch,256]\n"
                              "  %10 = mul(%9, %6): f32[batch,256]\n"
                              "  %11 = matmul(%10, %4) {acc=f32, packed=0, n=0, math=0}: f32[batch,1024]\n"
                              "  %12 = tanh(%11): f32[batch,1024]\n"
                              "  %13 = matmul(%12, %5) {acc=f32, packed=0, n=0, math=0}: f32[batch,256]\n"
                              "  %14 = mul(%13, %6): f32[batch,256]\n"
                              "  output \"y\" = %14\n}\n";

enum { LAYERS_BYTES = 4 * 256 * 1024 * 4, MOST_RANKS = 5 };

static void in_job(void (*body)(struct ig_job *job, void *argument), void *argument) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, body, argument, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

static const struct ig_target target = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};

static const struct ig_precisions fp32 = {.base = IG_PRECISION_FP32};
static const struct ig_precisions fp16 = {.base = IG_PRECISION_FP16, .everywhere = true};

static void divide(struct ig_job *job, int ranks, const struct ig_target *to, const struct ig_precisions *precisions,
                   struct ig_sharding *out) {
    const struct ingot_build_options options = {.sharding = "pipeline"};
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), network, strlen(network));
    ig_sharding_make(ig_rewrite(g, NULL, NULL, NULL), to, precisions, &options, ranks, out);
}

static uint32_t count(const struct ig_graph *g, enum ig_op op) {
    uint32_t found = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++)
        found += g->nodes.at[id].op == op;
    return found;
}

/* The cut is where 256 numbers cross it, not 1024, and both ranks compute the mask. */
static void check_cut(struct ig_job *job, void *argument) {
    struct ig_sharding s;
    divide(job, 2, &target, &fp32, &s);
    assert_string_equal(s.considered[s.chosen].name, "pipeline");
    assert_int_equal(s.collectives, 1); /* what crosses; the result is where it is */
    for (int r = 0; r < 2; r++) {
        assert_int_equal(count(s.graphs[r], IG_OP_matmul), 2);
        assert_int_equal(count(s.graphs[r], IG_OP_abs), 1);
        for (ig_node_id id = 0; id < s.graphs[r]->nodes.count; id++) {
            const struct ig_node *n = &s.graphs[r]->nodes.at[id];
            int64_t width;
            if (!ig_gathers_from_one(s.graphs[r], n)) continue;
            assert_true(ig_dim_is_const(s.graphs[r]->dims, ig_type_of(s.graphs[r], n->out)->dim[1], &width));
            assert_int_equal(width, 256);
        }
    }
    const struct ig_strategy *c = &s.considered[s.chosen];
    assert_true(c->result.slowest < 0.6 * c->result.time);
    assert_true(c->memory.weights == LAYERS_BYTES / 2);
}

static void test_cut(void **state) {
    in_job(check_cut, NULL);
}

/* Whatever a rank finds out about what it has, it does not know of the others'. */
static void check_narrow(struct ig_job *job, void *argument) {
    const bool is_gpu = *(const bool *)argument;
    const struct ig_target gpu = {.isa = IG_ISA_CUDA, .sm = 90}, *const to = is_gpu ? &gpu : &target;
    const struct ig_pass_options options = {.target = to, .precisions = &fp16};
    struct ig_sharding s;
    divide(job, 2, to, &fp16, &s);
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < ig_pass_count; i++)
            s.graphs[r] = ig_passes[i].run(s.graphs[r], &options);
        uint32_t narrow = 0, sent = 0;
        for (ig_value v = 0; v < s.graphs[r]->values.count; v++)
            narrow += ig_type_of(s.graphs[r], v)->dtype == INGOT_F16;
        assert_true(narrow > 0); /* so that ranks could differ */
        for (ig_node_id id = 0; id < s.graphs[r]->nodes.count; id++) {
            const struct ig_node *n = &s.graphs[r]->nodes.at[id];
            if (!ig_gathers_from_one(s.graphs[r], n)) continue;
            sent++;
            assert_int_equal(ig_type_of(s.graphs[r], n->out)->dtype, INGOT_F16);
        }
        assert_int_equal(sent, 1);
    }
    ig_sharding_verify(&s);
}

/* Where kernels would store it as it is in the model, it is sent so. */
static void check_wide(struct ig_job *job, void *argument) {
    static const struct ig_precisions where_it_gains = {.base = IG_PRECISION_FP16};
    struct ig_sharding s;
    divide(job, 2, &target, &where_it_gains, &s);
    for (ig_node_id id = 0; id < s.graphs[0]->nodes.count; id++) {
        const struct ig_node *n = &s.graphs[0]->nodes.at[id];
        if (ig_gathers_from_one(s.graphs[0], n)) assert_int_equal(ig_type_of(s.graphs[0], n->out)->dtype, INGOT_F32);
    }
    assert_int_equal(s.collectives, 1);
}

static void test_narrow(void **state) {
    in_job(check_wide, NULL);
    for (int is_gpu = 0; is_gpu < 2; is_gpu++)
        in_job(check_narrow, &(bool){is_gpu});
}

struct built {
    struct ingot_build_options options;
    struct ig_engine_memory bytes;
    struct ig_engine_file file;
};

static void compile(struct ig_job *job, void *argument) {
    struct built *b = argument;
    struct ig_graph *g = random_values_graph(job, network, NULL);
    const struct random_values values = random_values_change(job, g->initializers, 1, false);
    struct ig_engine_sink sink = ig_engine_memory_sink(&b->bytes);
    ig_compile(job, random_values_graph(job, network, &values), &b->options, &sink);
}

static void build(struct built *b, const unsigned *ranks, size_t n_ranks) {
    struct ingot_error error;
    *b = (struct built){.options = INGOT_BUILD_OPTIONS_INIT, .bytes = {.allocator = &ig_libc_allocator}};
    b->options.ranks = ranks;
    b->options.n_ranks = n_ranks;
    b->options.sharding = "pipeline";
    b->options.verify_passes = true;
    in_job(compile, b);
    if (ig_engine_open_memory(b->bytes.data, b->bytes.size, INGOT_VERIFY_ALL, &ig_libc_allocator, &b->file, &error))
        fail_msg("%s", error.message);
}

static void drop(struct built *b) {
    ig_engine_close(&b->file);
    ig_engine_memory_release(&b->bytes);
}

/* Each rank reads its stage's weights, of which the engine has one copy; more ranks than layers do no harm. */
static void test_weights(void **state) {
    static const unsigned ranks[] = {1, 2, 4, MOST_RANKS};
    struct built b, again;
    build(&b, ranks, 4);
    build(&again, ranks, 4);
    assert_int_equal(b.bytes.size, again.bytes.size);
    assert_memory_equal(b.bytes.data, again.bytes.data, b.bytes.size);
    assert_in_range(b.file.section_size, LAYERS_BYTES, LAYERS_BYTES + 1024);
    for (int i = 0; i < 4; i++) {
        uint64_t sum = 0;
        for (unsigned r = 0; r < ranks[i]; r++) {
            const uint32_t own = ig_plan_rank_subplan(&b.file.plan, ranks[i], r);
            const uint64_t bytes = ig_plan_weight_bytes(&b.file.plan, own);
            if (ranks[i] <= 2) assert_in_range(bytes, LAYERS_BYTES / ranks[i], LAYERS_BYTES / ranks[i] + 256);
            if (ranks[i] > 2) assert_true(bytes < LAYERS_BYTES / 2 + 256);
            sum += bytes;
        }
        assert_in_range(sum, LAYERS_BYTES, LAYERS_BYTES + 1024);
    }
    drop(&again);
    drop(&b);
}

/* What a rank exchanges with which other, of a plan for three: " send 1", " send nothing". */
static void describe(const struct ig_plan *p, uint32_t rank, char *out, size_t size) {
    const struct ig_subplan *sub = &p->subplans[ig_plan_rank_subplan(p, 3, rank)];
    size_t length = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < sub->n_steps; i++) {
        const struct ig_plan_step *step = &p->steps[sub->steps + i];
        if (step->kind != IG_STEP_COLLECTIVE) continue;
        const struct ig_collective *c = &p->collectives[step->kernel];
        const ig_slot inner = p->dims[step->dims + 1];
        const struct ig_shape_instr *instr = inner < p->n_symbols ? NULL : &p->instrs[inner - p->n_symbols];
        const bool nothing = instr && instr->op == IG_SHAPE_CONST && instr->value == 0;
        length += (size_t)snprintf(out + length, size - length, " %s %s", ig_collective_name(c->kind),
                                   nothing ? "nothing" : (const char *const[]){"0", "1", "2"}[c->peer]);
        assert_true(length < size);
    }
}

/* On processors, neighbours exchange; the others do not wait for them. */
static void test_pairs(void **state) {
    static const unsigned ranks[] = {3};
    static const char *const expected[] = {" send nothing receive 1", " receive 2 send 0", " send 1 send nothing"};
    struct built b;
    char found[100];
    build(&b, ranks, 1);
    for (uint32_t r = 0; r < 3; r++) {
        describe(&b.file.plan, r, found, sizeof found);
        assert_string_equal(found, expected[r]);
    }
    drop(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cut), cmocka_unit_test(test_narrow),
                                       cmocka_unit_test(test_weights), cmocka_unit_test(test_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
