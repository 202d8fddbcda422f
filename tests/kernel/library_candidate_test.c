/* The regions for which library calls are candidates, and their call records. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "ir/text/print.h"
#include "kernel/kernel.h"
#include "pass/fuse/regions.h"
#include "pass/pass.h"
#include "pass/passes.h"

struct expectation {
    const char *text;
    bool is_candidate;
    bool rounded_bias, has_bias, has_addend, has_factor;
    struct ig_library_call call;          /* library and operation, types, layouts, activation and scale (0: none) */
    int64_t sizes[IG_LIBRARY_MOST_SIZES]; /* -1: depends on symbols */
};

static const struct ig_target sm_90 = {.isa = IG_ISA_CUDA, .sm = 90, .vector_bytes = 16};

/* The library's first candidate. Checks that library calls come after all other candidates, in the order of their
 * ranks. */
static const struct ig_kernel *find(struct ig_graph *g, const struct ig_region *region, uint32_t library) {
    const struct ig_kernel *first[IG_LIBRARY_COUNT] = {0};
    uint32_t counts[IG_LIBRARY_COUNT] = {0};
    bool any = false;
    for (int i = 0; i < 64; i++) {
        const struct ig_kernel *k = ig_kernel_candidate(g, region, &sm_90, NULL, i);
        if (!k) break;
        assert_true(k->library || !any);
        assert_true(i > 0 || !k->library);
        if (!k->library) continue;
        any = true;
        assert_int_equal(k->library->choice, counts[k->library->library]++);
        assert_null(ig_library_call_error(k->library));
        if (k->library->choice == 0) first[k->library->library] = k;
    }
    assert_true(counts[library] == 0 || counts[library] == 4);
    return first[library];
}

static void check(struct ig_job *job, void *argument) {
    const struct expectation *e = argument;
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), e->text, strlen(e->text));
    struct ig_pass_options options = {.target = &sm_90};
    g = ig_pass_fuse(g, &options);
    assert_int_equal(g->regions.count, 1);
    const struct ig_kernel *k = find(g, &g->regions.at[0], e->call.library);
    assert_int_equal(k != NULL, e->is_candidate);
    if (!k) return;
    const struct ig_library_call *call = k->library;
    assert_int_equal(call->operation, e->call.operation);
    assert_int_equal(k->dims.count, ig_library_size_count(call));
    for (uint32_t i = 0; i < k->dims.count; i++) {
        int64_t size = -1;
        if (!ig_dim_is_const(g->dims, k->dims.at[i], &size)) size = -1;
        if (size != e->sizes[i]) fail_msg("size %u is %lld, not %lld", i, (long long)size, (long long)e->sizes[i]);
    }
    assert_int_equal(ig_library_is_adapted(k, call->bias), e->rounded_bias);
    assert_int_equal(call->bias != IG_LIBRARY_NO_OPERAND, e->has_bias);
    assert_int_equal(call->addend != IG_LIBRARY_NO_OPERAND, e->has_addend);
    assert_int_equal(call->a_type, e->call.a_type);
    assert_int_equal(call->b_type, e->call.b_type);
    assert_int_equal(call->factor != IG_LIBRARY_NO_OPERAND, e->has_factor);
    assert_true(call->scale == (e->call.scale != 0 ? e->call.scale : 1));
    assert_int_equal(call->out_type, e->call.out_type);
    assert_int_equal(call->rounded, e->call.rounded);
    assert_int_equal(call->a_across, e->call.a_across);
    assert_int_equal(call->b_along, e->call.b_along);
    assert_int_equal(call->activation, e->call.activation);
}

static void expect(const struct expectation *e) {
    struct ig_job job;
    struct ingot_error error = {0};
    struct expectation copy = *e;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, check, &copy, &error)) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

#define MATMUL "{acc=f32, packed=0, n=0, math=0}"
#define TF32 "{acc=f32, packed=0, n=0, math=1}"

static void products(void **state) {
    expect(
        &(struct expectation){.text = "graph {\n  input %0 \"x\": f32[n,64]\n  input %1 \"w\": f32[64,32]\n"
                                      "  %2 = matmul(%0, %1) " TF32 ": f32[n,32]\n  output \"y\" = %2\n}\n",
                              .is_candidate = true,
                              .call = {.a_type = INGOT_F32, .b_type = INGOT_F32, .out_type = INGOT_F32, .rounded = 1},
                              .sizes = {1, -1, 32, 64, 64, 0, 0, 32, 0, 0}});
    /* A transposed second operand, in a batch. */
    expect(&(struct expectation){
        .text = "graph {\n  input %0 \"x\": f16[6,9,16]\n  input %1 \"w\": f16[6,7,16]\n"
                "  %2 = transpose(%1) {perm=[0,2,1]}: f16[6,16,7]\n"
                "  %3 = matmul(%0, %2) " MATMUL ": f32[6,9,7]\n  %4 = cast(%3) {to=f16, saturate=0}: f16[6,9,7]\n"
                "  output \"y\" = %4\n}\n",
        .is_candidate = true,
        .call = {.a_type = INGOT_F16, .b_type = INGOT_F16, .out_type = INGOT_F16, .b_along = 1},
        .sizes = {6, 9, 7, 16, 16, 144, 0, 16, 112, 0}});
}

/* Bytes, along the depth: the sums alone. */
static void bytes(void **state) {
    static const char text[] = "graph {\n  input %%0 \"x\": %s[%d,%d]\n  input %%1 \"w\": i8[%d,%d]\n"
                               "  %%2 = transpose(%%1) {perm=[1,0]}: i8[%d,%d]\n"
                               "  %%3 = matmul(%%0, %%2) {acc=i32, packed=0, n=0, math=0}: i32[%d,%d]\n%s}\n";
    static const char sums[] = "  output \"y\" = %3\n";
    static const char scaled[] =
        "  %4 = cast(%3) {to=f32, saturate=0}: f32[17,8]\n  %5 = constant() {data=[0.5]}: f32[]\n"
        "  %6 = mul(%4, %5): f32[17,8]\n  output \"y\" = %6\n";
    static const struct {
        const char *type, *rest;
        int rows, depth, columns;
        bool is_candidate;
    } cases[] = {{"i8", sums, 17, 16, 8, true},      {"i8", sums, 17, 131064, 8, true}, {"u8", sums, 17, 16, 8, false},
                 {"i8", sums, 17, 131072, 8, false}, {"i8", sums, 17, 12, 8, false},    {"i8", sums, 17, 16, 12, false},
                 {"i8", sums, 16, 16, 8, false},     {"i8", scaled, 17, 16, 8, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char whole[1024];
        int rows = cases[i].rows, depth = cases[i].depth, n = cases[i].columns;
        snprintf(whole, sizeof whole, text, cases[i].type, rows, depth, n, depth, depth, n, rows, n, cases[i].rest);
        expect(
            &(struct expectation){.text = whole,
                                  .is_candidate = cases[i].is_candidate,
                                  .call = {.a_type = INGOT_I8, .b_type = INGOT_I8, .out_type = INGOT_I32, .b_along = 1},
                                  .sizes = {1, rows, n, depth, depth, 0, 0, depth, 0, 0}});
    }
}

/* Floats of 8 bits, with one scale, where fast sums are asked for. */
static void floats_of_8_bits(void **state) {
    static const char text[] = "graph {\n  input %%0 \"x\": %s[n,32]\n  input %%1 \"w\": %s[%d,32]\n"
                               "  %%2 = transpose(%%1) {perm=[1,0]}: %s[32,%d]\n"
                               "  %%3 = matmul(%%0, %%2) {acc=f32, packed=0, n=0, math=%d}: f32[n,%d]\n  %s\n"
                               "  %%5 = mul(%%3, %%4): f32[n,%d]\n  input %%6 \"b\": f16[%d]\n  %%7 = cast(%%6) "
                               "{to=f32, saturate=0}: f32[%d]\n"
                               "  %%8 = add(%%5, %%7): f32[n,%d]\n  %%9 = cast(%%8) {to=f16, saturate=0}: f16[n,%d]\n  "
                               "output \"y\" = %%9\n}\n";
    static const char number[] = "%4 = constant() {data=[0.75]}: f32[]", memory[] = "input %4 \"s\": f32[]";
    static const struct {
        const char *a, *b, *scale;
        int columns, math;
        bool is_candidate;
    } cases[] = {{"f8e4m3fn", "f8e4m3fn", number, 16, IG_MATH_FAST, true},
                 {"f8e4m3fn", "f8e4m3fn", memory, 16, IG_MATH_FAST, true},
                 {"f8e5m2", "f8e4m3fn", number, 48, IG_MATH_FAST, true},
                 {"f8e4m3fn", "f8e4m3fn", number, 16, IG_MATH_EXACT, false},
                 {"f8e5m2", "f8e5m2", number, 16, IG_MATH_FAST, false},
                 {"f8e4m3fn", "f8e4m3fn", number, 24, IG_MATH_FAST, false},
                 {"f8e4m3fn", "f8e4m3fn", "input %4 \"s\": f32[16]", 16, IG_MATH_FAST, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char whole[2048];
        int n = cases[i].columns;
        bool factor = cases[i].scale == memory;
        snprintf(whole, sizeof whole, text, cases[i].a, cases[i].b, n, cases[i].b, n, cases[i].math, n, cases[i].scale,
                 n, n, n, n, n);
        expect(&(struct expectation){.text = whole,
                                     .is_candidate = cases[i].is_candidate,
                                     .has_bias = true,
                                     .has_factor = factor,
                                     .call = {.a_type = strcmp(cases[i].a, "f8e5m2") ? INGOT_F8E4M3FN : INGOT_F8E5M2,
                                              .b_type = INGOT_F8E4M3FN,
                                              .out_type = INGOT_F16,
                                              .rounded = 1,
                                              .b_along = 1,
                                              .scale = factor ? 1 : 0.75F},
                                     .sizes = {1, -1, n, 32, 32, 0, 0, 32, 0, 0}});
    }
}

static const char follow_up[] =
    "graph {\n  input %0 \"x\": f16[5,64]\n  input %1 \"w\": f16[64,32]\n  input %2 \"b\": f16[32]\n"
    "  input %3 \"r\": f16[5,32]\n  %4 = matmul(%0, %1) " MATMUL ": f32[5,32]\n"
    "  %5 = cast(%2) {to=f32, saturate=0}: f32[32]\n  %6 = add(%4, %5): f32[5,32]\n"
    "  %7 = cast(%3) {to=f32, saturate=0}: f32[5,32]\n  %8 = add(%7, %6): f32[5,32]\n"
    "  %9 = constant() {data=[0]}: f32[]\n  %10 = max(%8, %9): f32[5,32]\n"
    "  %11 = cast(%10) {to=f16, saturate=0}: f16[5,32]\n  output \"y\" = %11\n}\n";

static void what_follows(void **state) {
    expect(&(struct expectation){
        .text = follow_up,
        .is_candidate = true,
        .has_bias = true,
        .has_addend = true,
        .call = {.a_type = INGOT_F16, .b_type = INGOT_F16, .out_type = INGOT_F16, .activation = IG_LIBRARY_RELU},
        .sizes = {1, 5, 32, 64, 64, 0, 0, 32, 0, 0}});
    /* A constant bias of another type is rounded. */
    expect(&(struct expectation){
        .text = "graph {\n  input %0 \"x\": f16[5,4]\n  input %1 \"w\": f16[4,2]\n"
                "  %2 = constant() {data=[1,2]}: f32[2]\n  %3 = matmul(%0, %1) " MATMUL ": f32[5,2]\n"
                "  %4 = add(%3, %2): f32[5,2]\n  %5 = cast(%4) {to=f16, saturate=0}: f16[5,2]\n"
                "  output \"y\" = %5\n}\n",
        .is_candidate = true,
        .has_bias = true,
        .rounded_bias = true,
        .call = {.a_type = INGOT_F16, .b_type = INGOT_F16, .out_type = INGOT_F16},
        .sizes = {1, 5, 2, 4, 4, 0, 0, 2, 0, 0}});
}

static void gelu(void **state) {
    expect(&(struct expectation){
        .text =
            "graph {\n  input %0 \"x\": f32[5,8]\n  input %1 \"w\": f32[8,6]\n"
            "  %2 = matmul(%0, %1) " MATMUL ": f32[5,6]\n  %3 = mul(%2, %2): f32[5,6]\n  %4 = mul(%2, %3): f32[5,6]\n"
            "  %5 = constant() {data=[0.044715]}: f32[]\n  %6 = mul(%4, %5): f32[5,6]\n  %7 = add(%2, %6): f32[5,6]\n"
            "  %8 = constant() {data=[1.5957692]}: f32[]\n  %9 = mul(%7, %8): f32[5,6]\n"
            "  %10 = sigmoid(%9): f32[5,6]\n  %11 = mul(%2, %10): f32[5,6]\n  output \"y\" = %11\n}\n",
        .is_candidate = true,
        .call = {.a_type = INGOT_F32, .b_type = INGOT_F32, .out_type = INGOT_F32, .activation = IG_LIBRARY_GELU},
        .sizes = {1, 5, 6, 8, 8, 0, 0, 6, 0, 0}});
}

/* Regions that one library call cannot compute. */
static void nothing_else(void **state) {
    static const char *const texts[] = {
        /* another activation */
        "graph {\n  input %0 \"x\": f32[5,8]\n  input %1 \"w\": f32[8,6]\n  %2 = matmul(%0, %1) " MATMUL ": f32[5,6]\n"
        "  %3 = sigmoid(%2): f32[5,6]\n  output \"y\" = %3\n}\n",
        /* SiLU, which looks like GELU */
        "graph {\n  input %0 \"x\": f32[5,8]\n  input %1 \"w\": f32[8,6]\n  %2 = matmul(%0, %1) " MATMUL ": f32[5,6]\n"
        "  %3 = sigmoid(%2): f32[5,6]\n  %4 = mul(%2, %3): f32[5,6]\n  output \"y\" = %4\n}\n",
        /* a maximum with a number other than 0 */
        "graph {\n  input %0 \"x\": f32[5,8]\n  input %1 \"w\": f32[8,6]\n  %2 = matmul(%0, %1) " MATMUL ": f32[5,6]\n"
        "  %3 = constant() {data=[1]}: f32[]\n  %4 = max(%2, %3): f32[5,6]\n  output \"y\" = %4\n}\n",
        /* an addend per row */
        "graph {\n  input %0 \"x\": f32[5,8]\n  input %1 \"w\": f32[8,6]\n  input %2 \"b\": f32[5,1]\n"
        "  %3 = matmul(%0, %1) " MATMUL ": f32[5,6]\n  %4 = add(%3, %2): f32[5,6]\n  output \"y\" = %4\n}\n",
        /* two addends of the same shape */
        "graph {\n  input %0 \"x\": f32[5,8]\n  input %1 \"w\": f32[8,6]\n  input %2 \"b\": f32[5,6]\n"
        "  input %3 \"c\": f32[5,6]\n  %4 = matmul(%0, %1) " MATMUL ": f32[5,6]\n  %5 = add(%4, %2): f32[5,6]\n"
        "  %6 = add(%5, %3): f32[5,6]\n  output \"y\" = %6\n}\n",
        /* a bias of another type that is not constant */
        "graph {\n  input %0 \"x\": f16[5,8]\n  input %1 \"w\": f16[8,6]\n  input %2 \"b\": f32[6]\n"
        "  %3 = matmul(%0, %1) " MATMUL ": f32[5,6]\n  %4 = add(%3, %2): f32[5,6]\n"
        "  %5 = cast(%4) {to=f16, saturate=0}: f16[5,6]\n  output \"y\" = %5\n}\n",
        /* a depth that may be 0 */
        "graph {\n  input %0 \"x\": f32[5,k]\n  input %1 \"w\": f32[k,6]\n  %2 = matmul(%0, %1) " MATMUL ": f32[5,6]\n"
        "  output \"y\" = %2\n}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect(&(struct expectation){.text = texts[i]});
}

static void pointwise_convolutions(void **state) {
    static const char text[] =
        "graph {\n  input %%0 \"x\": f16[2,5,5,16]\n  input %%1 \"w\": f16[1,1,%d,%d,16,8]\n  %%2 = constant() "
        "{data=[1,2,3,4,5,6,7,8]}: f32[8]\n"
        "  %%3 = conv(%%0, %%1, %%2) {strides=[1,1], dilations=[1,1], before=[0,0], after=[0,0], groups=1, acc=f32, "
        "channels_last=1, packed=8, n=8, kernel=[%d,%d], math=0, border=0}: f32[2,%d,%d,8]\n"
        "  %%4 = cast(%%3) {to=f16, saturate=0}: f16[2,%d,%d,8]\n  output \"y\" = %%4\n}\n";
    for (int kernel = 1; kernel <= 2; kernel++) {
        char whole[1024];
        int size = 6 - kernel;
        snprintf(whole, sizeof whole, text, kernel, kernel, kernel, kernel, size, size, size, size);
        expect(&(struct expectation){.text = whole,
                                     .is_candidate = kernel == 1,
                                     .has_bias = true,
                                     .rounded_bias = true,
                                     .call = {.a_type = INGOT_F16, .b_type = INGOT_F16, .out_type = INGOT_F16},
                                     .sizes = {1, 50, 8, 16, 16, 0, 0, 8, 0, 0}});
    }
}

/* ---- cuDNN --------------------------------------------------------------------------------------------------------------- */

/* x: f16[n,9,9,8] in groups, 8 filters of 3 x 3 in the form of the pack pass, followed by `rest`. */
static void conv_text(char *out, size_t size, int groups, const char *rest) {
    int at = snprintf(out, size, "graph {\n  input %%0 \"x\": f16[n,9,9,8]\n  %%1 = constant() {data=[1");
    for (int i = 1; i < 576; i++)
        at += snprintf(out + at, size - (size_t)at, ",%d", i % 3);
    snprintf(out + at, size - (size_t)at,
             "]}: f16[%d,1,3,3,%d,8]\n"
             "  %%2 = conv(%%0, %%1) {strides=[2,1], dilations=[1,2], before=[0,2], after=[0,2], groups=%d, acc=f32, "
             "channels_last=1, packed=8, n=8, kernel=[3,3], math=0, border=0}: f32[n,4,9,8]\n%s}\n",
             groups, 8 / groups, groups, rest);
}

static void convolutions(void **state) {
    static const char plain[] = "  %3 = cast(%2) {to=f16, saturate=0}: f16[n,4,9,8]\n  output \"y\" = %3\n";
    static const char sum[] =
        "  %3 = constant() {data=[1,2,3,4,5,6,7,8]}: f32[8]\n  %4 = add(%2, %3): f32[n,4,9,8]\n"
        "  input %5 \"z\": f16[n,4,9,8]\n  %6 = cast(%5) {to=f32, saturate=0}: f32[n,4,9,8]\n"
        "  %7 = add(%4, %6): f32[n,4,9,8]\n  %8 = constant() {data=[0]}: f32[]\n  %9 = max(%7, %8): f32[n,4,9,8]\n"
        "  %10 = cast(%9) {to=f16, saturate=0}: f16[n,4,9,8]\n  output \"y\" = %10\n";
    static const char without_bias[] = "  %3 = constant() {data=[0]}: f32[]\n  %4 = max(%2, %3): f32[n,4,9,8]\n"
                                       "  %5 = cast(%4) {to=f16, saturate=0}: f16[n,4,9,8]\n  output \"y\" = %5\n";
    struct ig_library_call call = {.library = IG_LIBRARY_CUDNN,
                                   .operation = IG_LIBRARY_CONVOLUTION,
                                   .a_type = INGOT_F16,
                                   .b_type = INGOT_F16,
                                   .out_type = INGOT_F16};
    struct expectation e = {
        .is_candidate = true, .call = call, .sizes = {-1, 8, 8, 1, 9, 9, 4, 9, 3, 3, 2, 1, 1, 2, 0, 2, 0, 2}};
    char text[4096];
    e.text = text;
    conv_text(text, sizeof text, 1, plain);
    expect(&e);
    conv_text(text, sizeof text, 2, plain);
    e.sizes[IG_LIBRARY_GROUPS] = 2;
    expect(&e);
    e.is_candidate = false;
    conv_text(text, sizeof text, 8, plain); /* depthwise */
    expect(&e);
    conv_text(text, sizeof text, 1, without_bias);
    expect(&e);
    conv_text(text, sizeof text, 1, "  output \"y\" = %2\n"); /* not rounded */
    expect(&e);
    conv_text(text, sizeof text, 1, sum);
    e.is_candidate = e.has_bias = e.rounded_bias = e.has_addend = true;
    e.sizes[IG_LIBRARY_GROUPS] = 1;
    e.call.activation = IG_LIBRARY_RELU;
    expect(&e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(bytes),
        cmocka_unit_test(floats_of_8_bits),
        cmocka_unit_test(what_follows),
        cmocka_unit_test(gelu),
        cmocka_unit_test(nothing_else),
        cmocka_unit_test(pointwise_convolutions),
        cmocka_unit_test(convolutions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
