/* What regions demand of a machine: graphs in text form, and the demands of their regions, counted by hand. And floors. */
#include <string.h>

#include "ir/text/print.h"
#include "kernel/cost.h"
#include "pass/fuse/regions.h"
#include "pass/passes.h"
#include "support/support.h"

struct demands {
    const char *nodes;   /* and outputs */
    const char *demands; /* a line for each region; what is zero is left out */
    bool attends;        /* attentions become regions */
};

static void add(struct ig_text *text, struct ig_dims *dims, const char *name, ig_dim dim) {
    int64_t value;
    if (ig_dim_is_const(dims, dim, &value) && value == 0) return;
    ig_text_printf(text, "%s%s: %s", text->length && text->at[text->length - 1] != '\n' ? "; " : "", name,
                   ig_dim_text(dims, dim));
}

static void count(struct ig_job *job, void *argument) {
    const struct demands *d = argument;
    const struct ig_target target = {.isa = IG_ISA_CUDA, .sm = 90};
    const struct ig_pass_options options = {.target = &target};
    const char *graph = ig_format(job, "graph {\n%s}\n", d->nodes);
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), graph, strlen(graph));
    if (d->attends) g = ig_pass_attend(g, &options);
    g = ig_pass_fuse(g, &options);
    struct ig_text text;
    ig_text_init(&text, job);
    for (uint32_t i = 0; i < g->regions.count; i++) {
        struct ig_region_demand demand;
        ig_region_demand(g, &g->regions.at[i], &demand);
        add(&text, g->dims, "constants", demand.constants);
        add(&text, g->dims, "reads", demand.reads);
        add(&text, g->dims, "writes", demand.writes);
        for (int u = 0; u < IG_UNIT_COUNT; u++)
            add(&text, g->dims, ig_unit_name(u), demand.operations[u]);
        add(&text, g->dims, "turns", demand.turns);
        ig_text_add(&text, "\n");
    }
    assert_string_equal(text.at, d->demands);
}

static void check_demands(struct demands d) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, count, &d, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

static void check(const char *nodes, const char *demands) {
    check_demands((struct demands){.nodes = nodes, .demands = demands});
}

static void check_attention(const char *nodes, const char *demands) {
    check_demands((struct demands){.nodes = nodes, .demands = demands, .attends = true});
}

#define WEIGHT(v, type) "  %" #v " = constant() {data=hash:0000000000000001, initializer=\"w" #v "\"}: " type "\n"
#define SCALAR(v, type, value) "  %" #v " = constant() {data=[" #value "]}: " type "[]\n"

static void test_elementwise(void **state) {
    (void)state;
    /* The bias is read once, the literal not at all; a cast is no operation. */
    check("  input %0 \"x\": f16[batch,6]\n" WEIGHT(1, "f32[6]")
              SCALAR(2, "f32", 0.5) "  %3 = cast(%0) {to=f32, saturate=0}: f32[batch,6]\n"
                                    "  %4 = add(%3, %1): f32[batch,6]\n"
                                    "  %5 = tanh(%4): f32[batch,6]\n"
                                    "  %6 = mul(%5, %2): f32[batch,6]\n"
                                    "  output \"y\" = %6\n",
          "constants: 24; reads: 12*batch; writes: 24*batch; arithmetic: 12*batch; special functions: 6*batch\n");
}

static void test_products(void **state) {
    (void)state;
    check("  input %0 \"x\": f16[batch,64]\n" WEIGHT(
              1, "f16[64,32]") "  %2 = matmul(%0, %1) {acc=f16, packed=0, n=0, math=0}: f16[batch,32]\n"
                               "  output \"y\" = %2\n",
          "constants: 4096; reads: 128*batch; writes: 64*batch; f16 products: 2048*batch\n");
    /* Batched, both operands computed; and what f32 may be rounded to. */
    check("  input %0 \"x\": f32[batch,3,n,8]\n  input %1 \"y\": f32[3,8,5]\n"
          "  %2 = matmul(%0, %1) {acc=f32, packed=0, n=0, math=1}: f32[batch,3,n,5]\n"
          "  output \"y\" = %2\n",
          "reads: 96*batch*n+480; writes: 60*batch*n; tf32 products: 120*batch*n\n");
}

#define CONV(kernel, stride, dilation, before, after, groups, acc, n)                                         \
    "{strides=[" stride "], dilations=[" dilation "], before=[" before "], after=[" after "], groups=" groups \
    ", acc=" acc ", channels_last=0, packed=0, n=" n ", kernel=[" kernel "], math=0, border=0}"

static void test_convolutions(void **state) {
    (void)state;
    /* 3x3 with padding of 1 on 6x5: 16 x 13 of 18 x 15 taps are inside. */
    check("  input %0 \"x\": f32[batch,4,6,5]\n" WEIGHT(1, "f32[8,4,3,3]")
              WEIGHT(2, "f32[8]") "  %3 = conv(%0, %1, %2) " CONV("3,3", "1,1", "1,1", "1,1", "1,1", "1", "f32",
                                                                  "8") ": f32[batch,8,6,5]\n"
                                                                       "  output \"y\" = %3\n",
          "constants: 1184; reads: 480*batch; writes: 960*batch; f32 products: 6656*batch\n");
    /* Four groups, without padding. */
    check("  input %0 \"x\": f16[2,8,6,6]\n" WEIGHT(1, "f16[12,2,3,3]") "  %2 = conv(%0, %1) " CONV(
              "3,3", "1,1", "1,1", "0,0", "0,0", "4", "f16", "12") ": f16[2,12,4,4]\n"
                                                                   "  output \"y\" = %2\n",
          "constants: 432; reads: 1152; writes: 768; f16 products: 6912\n");
    /* 1x1 at a stride of 2: a quarter of the image. 3x3 at a stride of 2 on 8x8 without padding: 7 x 7 positions. */
    check("  input %0 \"x\": f32[1,4,8,8]\n" WEIGHT(1, "f32[2,4,1,1]") "  %2 = conv(%0, %1) " CONV(
              "1,1", "2,2", "1,1", "0,0", "0,0", "1", "f32", "2") ": f32[1,2,4,4]\n"
                                                                  "  output \"y\" = %2\n",
          "constants: 32; reads: 256; writes: 128; f32 products: 128\n");
    check("  input %0 \"x\": f32[1,1,8,8]\n" WEIGHT(1, "f32[1,1,3,3]") "  %2 = conv(%0, %1) " CONV(
              "3,3", "2,2", "1,1", "0,0", "0,0", "1", "f32", "1") ": f32[1,1,3,3]\n"
                                                                  "  output \"y\" = %2\n",
          "constants: 36; reads: 196; writes: 36; f32 products: 81\n");
    /* Along one axis of any length, dilated: the outer taps of four outputs lie outside. */
    check("  input %0 \"x\": f32[1,2,n]\n" WEIGHT(1, "f32[2,2,3]") "  %2 = conv(%0, %1) " CONV(
              "3", "1", "2", "2", "2", "1", "f32", "2") ": f32[1,2,n]\n"
                                                        "  output \"y\" = %2\n",
          "constants: 48; reads: 8*n; writes: 8*n; f32 products: 4*n+8*max(n-2,0)\n");
}

static void test_winograd(void **state) {
    (void)state;
    /* F(4x4,3x3): 2 x 2 tiles of 36 products each. */
    check("  input %0 \"x\": f32[batch,7,8,4]\n" WEIGHT(
              1, "f32[8,4,6,6]") "  %2 = conv(%0, %1) {strides=[1,1], dilations=[1,1], before=[1,1], after=[1,1], "
                                 "groups=1, acc=f32, "
                                 "channels_last=1, packed=0, n=8, kernel=[3,3], math=0, border=0}: f32[batch,7,8,8]\n"
                                 "  output \"y\" = %2\n",
          "constants: 4608; reads: 896*batch; writes: 1792*batch; f32 products: 4608*batch\n");
}

static void test_rows(void **state) {
    (void)state;
    /* A softmax: per element an addition, a subtraction and two reductions; an exponential and a division. */
    check("  input %0 \"x\": f32[batch,n]\n  input %1 \"mask\": f32[batch,n]\n"
          "  %2 = add(%0, %1): f32[batch,n]\n"
          "  %3 = reduce_max(%2) {axes=[1]}: f32[batch,1]\n"
          "  %4 = sub(%2, %3): f32[batch,n]\n"
          "  %5 = exp(%4): f32[batch,n]\n"
          "  %6 = reduce_sum(%5) {axes=[1]}: f32[batch,1]\n"
          "  %7 = div(%5, %6): f32[batch,n]\n"
          "  output \"y\" = %7\n",
          "reads: 8*batch*n; writes: 4*batch*n; arithmetic: 4*batch*n; special functions: 2*batch*n\n");
}

static void test_partial_reads(void **state) {
    (void)state;
    /* Every other element of the last 8 of 64 columns. */
    check("  input %0 \"x\": f32[batch,64]\n"
          "  %1 = slice(%0) {starts=[0,56], sizes=[batch,4], steps=[1,2]}: f32[batch,4]\n"
          "  %2 = neg(%1): f32[batch,4]\n"
          "  output \"y\" = %2\n",
          "reads: 16*batch; writes: 16*batch; arithmetic: 4*batch\n");
    /* Two slices that overlap are at most all. */
    check("  input %0 \"x\": f32[8]\n"
          "  %1 = slice(%0) {starts=[0], sizes=[6], steps=[1]}: f32[6]\n"
          "  %2 = slice(%0) {starts=[2], sizes=[6], steps=[1]}: f32[6]\n"
          "  %3 = add(%1, %2): f32[6]\n"
          "  output \"y\" = %3\n",
          "reads: 32; writes: 24; arithmetic: 6\n");
    /* Rows of a table; and more rows than it has. */
    check("  input %0 \"ids\": i64[5]\n" WEIGHT(1, "f32[30,8]") "  %2 = gather(%1, %0) {axis=0}: f32[5,8]\n"
                                                                "  %3 = neg(%2): f32[5,8]\n"
                                                                "  output \"y\" = %3\n",
          "constants: 160; reads: 40; writes: 160; arithmetic: 40\n");
    check("  input %0 \"ids\": i64[5]\n" WEIGHT(1, "f32[3,8]") "  %2 = gather(%1, %0) {axis=0}: f32[5,8]\n"
                                                               "  %3 = neg(%2): f32[5,8]\n"
                                                               "  output \"y\" = %3\n",
          "constants: 96; reads: 40; writes: 160; arithmetic: 40\n");
    /* What is added by a pad is not read, nor what a broadcast repeats. */
    check("  input %0 \"x\": f32[1,6]\n"
          "  %1 = pad(%0) {before=[0,1], after=[0,1], mode=0}: f32[1,8]\n"
          "  %2 = broadcast(%1) {dims=[batch,8]}: f32[batch,8]\n"
          "  %3 = exp(%2): f32[batch,8]\n"
          "  output \"y\" = %3\n",
          "reads: 24; writes: 32*batch; special functions: 8*batch\n");
}

static void test_pooling(void **state) {
    (void)state;
    check("  input %0 \"x\": f32[batch,8,7,7]\n"
          "  %1 = pool_max(%0) {kernel=[3,3], strides=[2,2], dilations=[1,1], before=[1,1], sizes=[4,4], "
          "channels_last=0}: f32[batch,8,4,4]\n"
          "  output \"y\" = %1\n",
          "reads: 1568*batch; writes: 512*batch; arithmetic: 392*batch\n");
}

static void test_recurrence(void **state) {
    (void)state;
    check("  input %0 \"x\": f32[time,batch,64]\n" WEIGHT(
              1, "f32[64,16]") "  input %2 \"h\": f32[batch,16]\n  input %3 \"c\": f32[batch,16]\n"
                               "  %4, %5, %6 = lstm(%0, %1, %2, %3) {reverse=0, activations=[0,1,1], clip=0.0, "
                               "input_forget=0, alphas=[0,0,0], "
                               "betas=[0,0,0]}: f32[time,batch,16], f32[batch,16], f32[batch,16]\n"
                               "  output \"y\" = %4\n",
          "constants: 4096; reads: 256*batch*time+128*batch; writes: 64*batch*time; f32 products: 1024*batch*time; "
          "special functions: 80*batch*time; turns: max(time-1,0)\n");
}

#define ATTENTION(mask)                                                                                            \
    "  input %0 \"q\": f16[batch,4,q,8]\n  input %1 \"k\": f16[batch,4,k,8]\n  input %2 \"v\": f16[batch,4,k,8]\n" \
    "  %3 = transpose(%1) {perm=[0,1,3,2]}: f16[batch,4,8,k]\n"                                                    \
    "  %4 = matmul(%0, %3) {acc=f32, packed=0, n=0, math=0}: f32[batch,4,q,k]\n" mask                              \
    "  %8 = reduce_max(%7) {axes=[3]}: f32[batch,4,q,1]\n"                                                         \
    "  %9 = sub(%7, %8): f32[batch,4,q,k]\n"                                                                       \
    "  %10 = exp(%9): f32[batch,4,q,k]\n"                                                                          \
    "  %11 = reduce_sum(%10) {axes=[3]}: f32[batch,4,q,1]\n"                                                       \
    "  %12 = div(%10, %11): f32[batch,4,q,k]\n"                                                                    \
    "  %13 = cast(%12) {to=f16, saturate=0}: f16[batch,4,q,k]\n"                                                   \
    "  %14 = matmul(%13, %2) {acc=f32, packed=0, n=0, math=0}: f32[batch,4,q,8]\n"                                 \
    "  output \"y\" = %14\n"

static void test_attention(void **state) {
    (void)state;
    check_attention(ATTENTION(SCALAR(5, "f32", 0.5) "  %7 = mul(%4, %5): f32[batch,4,q,k]\n"),
                    "reads: 128*batch*k+64*batch*q; writes: 128*batch*q; f16 products: 64*batch*k*q; "
                    "arithmetic: 16*batch*k*q; special functions: 8*batch*k*q\n");
}

/* Query number i sees i + 1 keys: 3240 scores of 6400 a head. The mask is not read. */
static void test_causal_attention(void **state) {
    (void)state;
    check_attention("  input %0 \"q\": f16[2,80,8]\n  input %1 \"k\": f16[2,80,8]\n  input %2 \"v\": f16[2,80,8]\n"
                    "  %3 = transpose(%1) {perm=[0,2,1]}: f16[2,8,80]\n"
                    "  %4 = matmul(%0, %3) {acc=f32, packed=0, n=0, math=0}: f32[2,80,80]\n"
                    "  %5 = iota() {dims=[1,1,80], axis=2}: i64[1,1,80]\n"
                    "  %6 = iota() {dims=[1,80,1], axis=1}: i64[1,80,1]\n"
                    "  %7 = le(%5, %6): bool[1,80,80]\n" SCALAR(
                        8, "f32", -inf) "  %9 = where(%7, %4, %8): f32[2,80,80]\n"
                                        "  %10 = reduce_max(%9) {axes=[2]}: f32[2,80,1]\n"
                                        "  %11 = sub(%9, %10): f32[2,80,80]\n"
                                        "  %12 = exp(%11): f32[2,80,80]\n"
                                        "  %13 = reduce_sum(%12) {axes=[2]}: f32[2,80,1]\n"
                                        "  %14 = div(%12, %13): f32[2,80,80]\n"
                                        "  %15 = cast(%14) {to=f16, saturate=0}: f16[2,80,80]\n"
                                        "  %16 = matmul(%15, %2) {acc=f32, packed=0, n=0, math=0}: f32[2,80,8]\n"
                                        "  output \"y\" = %16\n",
                    "reads: 7680; writes: 5120; f16 products: 103680; arithmetic: 25920; special functions: 12960\n");
}

/* ---- Floors ------------------------------------------------------------------------------------------------------- */

static void test_floor(void **state) {
    (void)state;
    struct ig_machine m = {.name = "test", .memory = 10, .cache = 100, .cache_bytes = 1000, .step = 2, .turn = 3};
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        m.rate[u] = 50;
    struct ig_demand d = {.reads = 400, .writes = 500};
    struct ig_floor f = ig_floor_of(&m, &d, 0);
    assert_string_equal(f.bound, "cache"); /* all of it fits */
    assert_float_equal(f.time, 9 + 2, 1e-9);
    d.writes = 1600; /* 1000 of 2000 do not */
    f = ig_floor_of(&m, &d, 0);
    assert_string_equal(f.bound, "memory");
    assert_float_equal(f.time, 100 + 2, 1e-9);
    /* Of 4000 bytes of weights a cache of 1000 keeps a quarter. */
    d = (struct ig_demand){.constants = 800};
    f = ig_floor_of(&m, &d, 4000);
    assert_float_equal(f.time, 60 + 2, 1e-9);
    f = ig_floor_of(&m, &d, 800);
    assert_string_equal(f.bound, "cache");
    d.operations[IG_UNIT_F16] = 1000;
    f = ig_floor_of(&m, &d, 800);
    assert_string_equal(f.bound, "f16 products");
    assert_float_equal(f.time, 20 + 2, 1e-9);
    d.turns = 9;
    f = ig_floor_of(&m, &d, 800);
    assert_string_equal(f.bound, "turns");
    assert_float_equal(f.time, 20 + 27 + 2, 1e-9);
    f = ig_floor_of(&m, &(struct ig_demand){0}, 0);
    assert_string_equal(f.bound, "step");
    assert_float_equal(f.time, 2, 1e-9);
}

/* Every rate of every generation is there, generations in between are those before, and figures of a device count. */
static void test_machines(void **state) {
    (void)state;
    static const int generations[] = {75, 80, 86, 87, 89, 90, 100, 103, 120, 121, 200};
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        struct ig_machine m = ig_machine_of_gpu(&(struct ig_gpu_figures){.sm = generations[i]});
        assert_true(m.memory > 0 && m.cache > m.memory && m.cache_bytes > 0 && m.step > 0 && m.turn > 0);
        for (int u = 0; u < IG_UNIT_COUNT; u++)
            assert_true(m.rate[u] > 0);
    }
    struct ig_machine a = ig_machine_of_gpu(&(struct ig_gpu_figures){.sm = 90});
    struct ig_machine b = ig_machine_of_gpu(&(struct ig_gpu_figures){.sm = 90, .processors = 66, .memory = 7});
    assert_float_equal(a.rate[IG_UNIT_F16], 2 * b.rate[IG_UNIT_F16], 1);
    assert_float_equal(b.memory, 7, 1e-9);
    for (unsigned threads = 0; threads < 3; threads++) {
        const struct ig_target amx = {.isa = IG_ISA_AMX}, avx2 = {.isa = IG_ISA_X86_64_V3};
        struct ig_machine fast = ig_target_machine(&amx, threads), slow = ig_target_machine(&avx2, threads);
        for (int u = 0; u < IG_UNIT_COUNT; u++)
            assert_true(slow.rate[u] > 0 && fast.rate[u] > slow.rate[u]);
        assert_true(fast.rate[IG_UNIT_BF16] > 5 * fast.rate[IG_UNIT_SIMPLE]);
        assert_float_equal(fast.rate[IG_UNIT_BF16] / fast.rate[IG_UNIT_F32], 6, 1e-9); /* products of parts */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),  cmocka_unit_test(test_products),
        cmocka_unit_test(test_convolutions), cmocka_unit_test(test_winograd),
        cmocka_unit_test(test_rows),         cmocka_unit_test(test_partial_reads),
        cmocka_unit_test(test_pooling),      cmocka_unit_test(test_recurrence),
        cmocka_unit_test(test_attention),    cmocka_unit_test(test_causal_attention),
        cmocka_unit_test(test_floor),        cmocka_unit_test(test_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
