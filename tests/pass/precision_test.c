/*
 * Precisions: which values become narrow, which stay wide and why, and which nodes a pattern matches; then the results,
 * with the kernels of every target, against the reference evaluator in f32.
 */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "pass/fuse/regions.h"
#include "pass/precision/precision.h"
#include "support/check/kernel_cases.h"
#include "support/check/passes.h"

static const struct ig_target target = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = 90};

/* ---- What becomes narrow -------------------------------------------------------------------------------------------- */

struct decision {
    const char *nodes;     /* with inputs x, y: f32[batch,8] and z: i64[batch], and w, a constant f32[8,8] */
    const char *precision; /* "fp16", then rules, separated by spaces */
    const char *runs;      /* the nodes that run: operator and type */
    const char *kept;      /* why values stayed wide, in the order of values */
};

#define W "  %4 = constant() {data=hash:0000000000000001, initializer=\"w\"}: f32[8,8]\n"
#define MATMUL " {acc=f32, packed=0, n=0, math=0}: f32[batch,8] @ \"MatMul 'p'\"\n"
#define ROW " {axes=[1]}: f32[batch,1]\n"
#define F "f32[batch,8]"
#define H "f16[batch,8]"

static const struct decision decisions[] = {
    /* Two products: the value between them is stored once, narrow; inputs and outputs keep their types. */
    {W "  %5 = matmul(%0, %4)" MATMUL "  %6 = matmul(%5, %4)" MATMUL "  output \"o\" = %6\n", "fp16",
     "cast " H "; matmul " F "; cast " H "; matmul " F, ""},
    {W "  %5 = matmul(%0, %4)" MATMUL "  %6 = matmul(%5, %4)" MATMUL "  output \"o\" = %6\n", "bf16",
     "cast bf16[batch,8]; matmul " F "; cast bf16[batch,8]; matmul " F, ""},
    {W "  %5 = matmul(%0, %4)" MATMUL "  output \"o\" = %5\n", "fp32", "matmul " F, ""},
    {W "  %5 = matmul(%0, %4)" MATMUL "  output \"o\" = %5\n", "tf32", "matmul " F, ""},
    /* The rest of the region uses f32; softmax reads the narrow value, computes in f32, and gives a narrow one. */
    {W "  %5 = matmul(%0, %4)" MATMUL "  %6 = add(%5, %1): " F "\n  %7 = reduce_max(%6)" ROW "  %8 = sub(%6, %7): " F
       "\n  %9 = exp(%8): " F "\n  %10 = reduce_sum(%9)" ROW "  %11 = div(%9, %10): " F
       "\n  %12 = matmul(%11, %4)" MATMUL "  output \"o\" = %12\n",
     "fp16",
     "cast " H "; matmul " F "; add " F "; cast " H "; cast " F "; reduce_max f32[batch,1]; sub " F "; exp " F
     "; reduce_sum f32[batch,1]; div " F "; cast " H "; matmul " F,
     ""},
    /* A mask of large numbers makes the sum large, so it stays wide; so does a product that reads an exponential. */
    {W "  %5 = constant() {data=[-3.4e38]}: f32[]\n  %6 = mul(%1, %5): " F "\n  %7 = matmul(%0, %4)" MATMUL
       "  %8 = add(%7, %6): " F "\n  %9 = reduce_max(%8)" ROW "  %10 = sub(%8, %9): " F "\n  output \"o\" = %10\n",
     "fp16", "mul " F "; cast " H "; matmul " F "; add " F "; reduce_max f32[batch,1]; sub " F,
     "large or exact numbers; large or exact numbers; an output"},
    {W "  %5 = matmul(%0, %4)" MATMUL "  %6 = exp(%5): " F "\n  %7 = matmul(%6, %4)" MATMUL "  output \"o\" = %7\n",
     "fp16", "cast " H "; matmul " F "; exp " F "; matmul " F, "large or exact numbers; an output"},
    /* An exponential of what is not positive is in range, as in an ELU. */
    {W "  %5 = constant() {data=[0]}: f32[]\n  %6 = matmul(%0, %4)" MATMUL "  %7 = min(%6, %5): " F
       "\n  %8 = exp(%7): " F "\n  %9 = matmul(%8, %4)" MATMUL "  output \"o\" = %9\n",
     "fp16", "cast " H "; matmul " F "; min " F "; exp " F "; cast " H "; matmul " F, ""},
    /* Statistics of rows and of columns make activations where they meet, whose exponentials a softmax bounds; those of rows
     * alone stay statistics, and their quotient large. */
    {W "  %5 = reduce_sum(%0)" ROW "  %6 = reduce_sum(%3) {axes=[0]}: f32[1,8]\n  %7 = add(%5, %6): " F
       "\n  %8 = exp(%7): " F "\n  %9 = reduce_sum(%8)" ROW "  %10 = div(%8, %9): " F "\n  %11 = matmul(%10, %4)" MATMUL
       "  output \"o\" = %11\n",
     "fp16",
     "reduce_sum f32[batch,1]; reduce_sum f32[1,8]; add " F "; exp " F "; reduce_sum f32[batch,1]; div " F "; cast " H
     "; matmul " F,
     ""},
    /* What ranks exchange is in the range as it was, so that products of it are narrow; what one rank has for the others is not
     * known to them. */
    {W "  %5 = matmul(%3, %4) {acc=f32, packed=0, n=0, math=0}: f32[8,8]\n"
       "  %6 = all_gather(%5) {number=0, rank=0, axis=0, parts=[8,8]}: f32[16,8]\n"
       "  %7 = matmul(%6, %4) {acc=f32, packed=0, n=0, math=0}: f32[16,8]\n  output \"o\" = %7\n",
     "fp16", "cast f16[8,8]; matmul f32[8,8]; cast f16[8,8]; all_gather f16[16,8]; matmul f32[16,8]", ""},
    {W "  %5 = matmul(%3, %4) {acc=f32, packed=0, n=0, math=0}: f32[8,8]\n"
       "  %6 = all_gather(%5) {number=0, rank=0, axis=0, parts=[8,0]}: f32[8,8]\n"
       "  %7 = matmul(%6, %4) {acc=f32, packed=0, n=0, math=0}: f32[8,8]\n  output \"o\" = %7\n",
     "fp16", "cast f16[8,8]; matmul f32[8,8]; all_gather f32[8,8]; matmul f32[8,8]",
     "sent to another rank; sent to another rank; an output"},
    /* Values that are ordered or rounded are not narrowed first. */
    {W "  %5 = matmul(%0, %4)" MATMUL "  %6 = argmax(%5) {axis=1, last=0}: i64[batch,1]\n  output \"o\" = %6\n", "fp16",
     "cast " H "; matmul " F "; argmax i64[batch,1]", "ordered or scattered"},
    /* Patterns match operators or names; the last match counts. */
    {W "  %5 = matmul(%0, %4)" MATMUL "  output \"o\" = %5\n", "fp32 MatMul=bf16", "cast bf16[batch,8]; matmul " F, ""},
    {W "  %5 = matmul(%0, %4)" MATMUL "  output \"o\" = %5\n", "fp16 MatMul=bf16 p=fp32", "matmul " F, ""},
};

static struct ig_graph *parse(struct ig_job *job, const char *nodes) {
    static const char inputs[] = "graph {\n  input %0 \"x\": f32[batch,8]\n  input %1 \"y\": f32[batch,8]\n"
                                 "  input %2 \"z\": i64[batch]\n  input %3 \"u\": f32[8,8]\n";
    char *text = ig_format(job, "%s%s}\n", inputs, nodes);
    return ig_graph_parse(job, ig_dims_create(job), text, strlen(text));
}

/* Parses "fp16 A=fp32 B=bf16". */
static void read_precisions(struct ig_graph *g, const char *text, struct ig_precisions *out) {
    const char *of[4], *base = NULL;
    size_t n_of = 0;
    for (const char *at = text; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        const char *word = ig_format(g->job, "%.*s", (int)length, at);
        if (base) of[n_of++] = word;
        if (!base) base = word;
        at += length;
    }
    ig_precisions_parse(g, base, of, n_of, out);
    out->everywhere = true;
}

static struct ig_graph *run_pass(struct ig_graph *g, const char *pass, const char *precision,
                                 const struct ig_target *to) {
    struct ig_precisions precisions;
    read_precisions(g, precision, &precisions);
    struct ig_pass_options options = {.target = to, .precisions = &precisions};
    return passes_named(g, pass, &options);
}

static struct ig_graph *narrow(struct ig_graph *g, const char *precision, const struct ig_target *to) {
    return run_pass(g, "precision", precision, to);
}

static void summarize(struct ig_graph *g, struct ig_text *runs, struct ig_text *kept) {
    ig_text_add(runs, "");
    ig_text_add(kept, "");
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_info(g, n->out)->is_const) continue;
        ig_text_printf(runs, "%s%s ", runs->length ? "; " : "", ig_op_info(n->op)->name);
        ig_type_print(g->dims, ig_type_of(g, n->out), runs);
        const char *reason = ig_info(g, n->out)->kept;
        if (reason) ig_text_printf(kept, "%s%s", kept->length ? "; " : "", reason);
    }
}

static void check_decision(struct ig_job *job, void *argument) {
    const struct decision *d = argument;
    struct ig_graph *before = parse(job, d->nodes), *g = narrow(before, d->precision, &target);
    struct ig_text runs, kept;
    ig_text_init(&runs, job);
    ig_text_init(&kept, job);
    summarize(g, &runs, &kept);
    if (strcmp(runs.at, d->runs) != 0)
        fail_msg("%s:\n%sfound    %s\nexpected %s", d->precision, d->nodes, runs.at, d->runs);
    /* An empty `kept` is not compared: the reason of outputs that would be narrow is "an output". */
    if (*d->kept && strcmp(kept.at, d->kept) != 0) fail_msg("%s\nfound    %s\nexpected %s", d->nodes, kept.at, d->kept);
    for (uint32_t i = 0; i < g->outputs.count; i++)
        assert_int_equal(ig_type_of(g, g->outputs.at[i].value)->dtype,
                         ig_type_of(before, before->outputs.at[i].value)->dtype);
    /* The casts do not change the number of regions (a cast of a convolution's input would). */
    struct ig_pass_options options = {.target = &target};
    assert_int_equal(ig_pass_fuse(g, &options)->regions.count, ig_pass_fuse(before, &options)->regions.count);
}

static void run_job(void (*body)(struct ig_job *, void *), void *argument, enum ingot_status expected,
                    const char *message) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, body, argument, &error);
    if (status != expected) fail_msg("status %d: %s", status, error.message);
    if (message) assert_string_equal(error.message, message);
    ig_job_deinit(&job);
}

static void test_decisions(void **state) {
    for (size_t i = 0; i < sizeof decisions / sizeof *decisions; i++) {
        struct decision d = decisions[i];
        run_job(check_decision, &d, INGOT_OK, NULL);
    }
}

/* ---- Quotients that are quantised --------------------------------------------------------------------------------- */

#define QUOTIENT "  %4 = constant() {data=[3.0]}: f32[]\n  %5 = div(%0, %4): " F "\n"
static const struct {
    const char *nodes, *precision;
    bool divides;
} quotients[] = {
    {QUOTIENT "  %6 = cast(%5) {to=f8e4m3fn, saturate=1}: f8e4m3fn[batch,8]\n  output \"o\" = %6\n", "fp32", true},
    {QUOTIENT "  %6 = cast(%5) {to=f8e4m3fn, saturate=1}: f8e4m3fn[batch,8]\n  output \"o\" = %6\n", "tf32", true},
    {QUOTIENT "  %6 = cast(%5) {to=f8e4m3fn, saturate=1}: f8e4m3fn[batch,8]\n  output \"o\" = %6\n", "fp16", false},
    {QUOTIENT "  %6 = round(%5): " F "\n  %7 = cast(%6) {to=i8, saturate=1}: i8[batch,8]\n  output \"o\" = %7\n",
     "bf16", false},
    /* truncated */
    {QUOTIENT "  %6 = cast(%5) {to=i8, saturate=1}: i8[batch,8]\n  output \"o\" = %6\n", "fp16", true},
    /* rounded to integers of more bits, or also read by what rounds it to those */
    {QUOTIENT "  %6 = round(%5): " F "\n  %7 = cast(%6) {to=i32, saturate=1}: i32[batch,8]\n  output \"o\" = %7\n",
     "fp16", true},
    {QUOTIENT "  %6 = cast(%5) {to=f8e4m3fn, saturate=1}: f8e4m3fn[batch,8]\n  output \"o\" = %6\n"
              "  %7 = floor(%5): " F "\n  output \"p\" = %7\n",
     "fp16", true},
};

static void check_quotients(struct ig_job *job, void *argument) {
    (void)argument;
    for (size_t i = 0; i < sizeof quotients / sizeof *quotients; i++) {
        struct ig_graph *g =
            run_pass(parse(job, quotients[i].nodes), "use-reciprocals", quotients[i].precision, &target);
        bool divides = false;
        for (ig_node_id id = 0; id < g->nodes.count; id++)
            divides |= g->nodes.at[id].op == IG_OP_div && !ig_info(g, g->nodes.at[id].out)->is_const;
        if (divides != quotients[i].divides) fail_msg("quotient %zu %s", i, divides ? "divides" : "does not divide");
    }
}

static void test_quotients(void **state) {
    (void)state;
    run_job(check_quotients, NULL, INGOT_OK, NULL);
}

/* ---- Thin convolutions --------------------------------------------------------------------------------------------- */

/* Films of one channel, whose windows do not span columns: of two axes where elements are going to have 16 bits (flatten_windows.c). */
static void check_thin(struct ig_job *job, void *argument) {
    static const char film[] =
        "  %4 = reshape(%0) {dims=[batch,2,2,2,1]}: f32[batch,2,2,2,1]\n"
        "  %5 = constant() {data=hash:0000000000000001, initializer=\"w\"}: f32[3,1,2,2,1]\n"
        "  %6 = conv(%4, %5) {strides=[1,1,1], dilations=[1,1,1], before=[0,0,0], after=[0,0,0], groups=1, acc=f32, "
        "channels_last=1, packed=0, n=3, kernel=[2,2,1], math=0, border=0}: f32[batch,1,1,2,3]\n  output \"o\" = %6\n";
    static const char *const precisions[] = {"fp16", "bf16", "fp32", "tf32"};
    for (int i = 0; i < 4; i++) {
        struct ig_graph *g = run_pass(parse(job, film), "flatten-windows", precisions[i], argument);
        for (ig_node_id id = 0; id < g->nodes.count; id++) {
            const struct ig_node *n = &g->nodes.at[id];
            if (n->op == IG_OP_conv) assert_int_equal(ig_type_of(g, n->in[0])->rank, i < 2 ? 4 : 5);
        }
    }
}

static void test_thin(void **state) {
    (void)state;
    run_job(check_thin, (void *)&gpu, INGOT_OK, NULL);
}

/* TF32 is an attribute of the product, and only on GPUs; in fp16, that of products whose operand may be too large for it, but
 * not of exact numbers. */
static void check_tf32(struct ig_job *job, void *argument) {
    static const struct {
        const char *nodes, *precision;
        enum ig_math math;
    } cases[] = {
        {W "  %5 = matmul(%0, %4)" MATMUL "  output \"o\" = %5\n", "tf32", IG_MATH_TF32},
        {W "  %5 = mul(%0, %0): " F "\n  %6 = matmul(%5, %4)" MATMUL "  output \"o\" = %6\n", "fp16", IG_MATH_TF32},
        {W "  %5 = mul(%0, %0): " F "\n  %6 = matmul(%5, %4)" MATMUL "  output \"o\" = %6\n", "fp32", IG_MATH_EXACT},
        {W "  %5 = cast(%2) {to=f32, saturate=0}: f32[batch]\n  %6 = reshape(%5) {dims=[batch,1]}: f32[batch,1]\n  %7 "
           "= broadcast(%6) {dims=[batch,8]}: " F "\n  %8 = matmul(%7, %4)" MATMUL "  output \"o\" = %8\n",
         "fp16", IG_MATH_EXACT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ig_graph *g = narrow(parse(job, cases[i].nodes), cases[i].precision, &gpu);
        const struct ig_node *n = ig_def_op(g, g->outputs.at[0].value, IG_OP_matmul);
        assert_non_null(n);
        assert_int_equal(ig_attr_int(g, n, IG_ATTR_math), cases[i].math);
        assert_int_equal(ig_type_of(g, n->in[0])->dtype, INGOT_F32);
    }
}

static void test_tf32(void **state) {
    run_job(check_tf32, NULL, INGOT_OK, NULL);
}

/* ---- Patterns ------------------------------------------------------------------------------------------------------- */

static void check_patterns(struct ig_job *job, void *argument) {
    static const struct {
        const char *pattern, *origin;
        bool fits;
    } cases[] = {
        {"Conv", "Conv 'a'", true},     {"a", "Conv 'a'", true},        {"Conv 'a'", "Conv 'a'", true},
        {"Con", "Conv 'a'", false},     {"*", "Conv 'a'", true},        {"?", "Conv 'a'", true},
        {"??", "Conv 'a'", false},      {"/l.*/q", "M '/l.0/q'", true}, {"/l.*/q", "M '/l.0/k'", false},
        {"*a*b*", "M 'xaxxabx'", true}, {"*a*b", "M 'xaxbx'", false},   {"", "M ''", true},
        {"a=b", "M 'a=b'", true},       {"M", "M 'x", false},           {"'", "'", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ig_precision_rule rule = {cases[i].pattern, strlen(cases[i].pattern), IG_PRECISION_BF16};
        struct ig_precisions p = {.rules = &rule, .n_rules = 1};
        bool fits = ig_precision_of(&p, cases[i].origin) == IG_PRECISION_BF16;
        if (fits != cases[i].fits) fail_msg("'%s' and \"%s\"", cases[i].pattern, cases[i].origin);
    }
    struct ig_precisions none = {.base = IG_PRECISION_FP16};
    assert_int_equal(ig_precision_of(&none, NULL), IG_PRECISION_FP16);
}

static void refuse(struct ig_job *job, void *argument) {
    narrow(parse(job, decisions[0].nodes), argument, &target);
}

static void test_patterns(void **state) {
    run_job(check_patterns, NULL, INGOT_OK, NULL);
    run_job(refuse, "fp8", INGOT_INVALID_ARGUMENT, "unknown precision 'fp8': expected fp32, tf32, fp16 or bf16");
    run_job(refuse, "fp16 p", INGOT_INVALID_ARGUMENT, "unknown precision 'p': expected PATTERN=TYPE");
    run_job(refuse, "fp16 =fp32", INGOT_INVALID_ARGUMENT, "unknown precision '=fp32': expected PATTERN=TYPE");
    run_job(refuse, "fp16 p=half", INGOT_INVALID_ARGUMENT,
            "unknown precision 'half': expected fp32, tf32, fp16 or bf16");
    run_job(refuse, "fp16 q=fp32", INGOT_INVALID_ARGUMENT, "precision 'q=fp32': the model has no such node");
}

/* ---- Numbers -------------------------------------------------------------------------------------------------------- */

static ig_value scalar(struct ig_graph *g, double value) {
    return ig_build_scalar(g, INGOT_F32, value);
}

static ig_value weights(struct ig_graph *g, int rank, const int64_t *dims, uint32_t seed) {
    return random_constant(g, INGOT_F32, rank, dims, seed);
}

static ig_value product(struct ig_graph *g, ig_value x, int64_t from, int64_t to, uint32_t seed) {
    return ig_build_matmul(g, x, weights(g, 2, (int64_t[]){from, to}, seed), INGOT_F32);
}

static ig_value softmax(struct ig_graph *g, ig_value x) {
    int64_t axis = ig_type_of(g, x)->rank - 1;
    ig_value e = ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_sub, x, ig_build_reduce(g, IG_OP_reduce_max, x, &axis, 1)));
    return ig_map2(g, IG_OP_div, e, ig_build_reduce(g, IG_OP_reduce_sum, e, &axis, 1));
}

static ig_value layer_norm(struct ig_graph *g, ig_value x) {
    int64_t axis = ig_type_of(g, x)->rank - 1;
    ig_value d = ig_map2(g, IG_OP_sub, x, ig_build_reduce(g, IG_OP_reduce_mean, x, &axis, 1));
    ig_value variance = ig_build_reduce(g, IG_OP_reduce_mean, ig_map2(g, IG_OP_mul, d, d), &axis, 1);
    return ig_map2(g, IG_OP_div, d, ig_map1(g, IG_OP_sqrt, ig_map2(g, IG_OP_add, variance, scalar(g, 1e-5))));
}

/* A transformer layer: products with constants and of values, views between them, a mask of -3.4e38. */
static void build_layer(struct ig_graph *g, const void *argument) {
    ig_value x = input(g, "x", INGOT_F32, 2, (int64_t[]){-2, 24}),
             mask = input(g, "mask", INGOT_F32, 2, (int64_t[]){1, -2});
    const int64_t swap[] = {1, 0};
    ig_value n = layer_norm(g, x), q = product(g, n, 24, 16, 1), k = product(g, n, 24, 16, 2),
             v = product(g, n, 24, 24, 3);
    ig_value scores = ig_build_matmul(g, q, ig_build_transpose(g, k, swap), INGOT_F32);
    ig_value hidden = ig_build_cast(g, ig_map2(g, IG_OP_lt, mask, scalar(g, 0)), INGOT_F32);
    scores = ig_map2(g, IG_OP_mul, scores, scalar(g, 0.25));
    scores = ig_map2(g, IG_OP_add, scores, ig_map2(g, IG_OP_mul, hidden, scalar(g, -3.4e38)));
    ig_value y = ig_map2(g, IG_OP_add, x, ig_build_matmul(g, softmax(g, scores), v, INGOT_F32));
    ig_value h = product(g, layer_norm(g, y), 24, 65, 4);
    h = ig_map2(g, IG_OP_mul, h, ig_map1(g, IG_OP_sigmoid, h));
    ig_build_output(g, "y", ig_map2(g, IG_OP_add, y, product(g, h, 65, 24, 5)));
}

struct convolution {
    int64_t channels, out, kernel, stride, pad, groups;
};

static ig_value convolve(struct ig_graph *g, ig_value x, const struct convolution *c, uint32_t seed) {
    int64_t dims[] = {c->out, c->channels / c->groups, c->kernel, c->kernel};
    int64_t strides[] = {c->stride, c->stride}, ones[] = {1, 1}, kernel[] = {c->kernel, c->kernel};
    ig_dim pad[] = {number(g, c->pad), number(g, c->pad)};
    struct ig_attr attrs[] = {ig_attr_of_ints(strides, 2),
                              ig_attr_of_ints(ones, 2),
                              ig_attr_of_dims(pad, 2),
                              ig_attr_of_dims(pad, 2),
                              ig_attr_of_int(c->groups),
                              ig_attr_of_dtype(INGOT_F32),
                              ig_attr_of_int(0),
                              ig_attr_of_int(0),
                              ig_attr_of_int(c->out),
                              ig_attr_of_ints(kernel, 2),
                              ig_attr_of_int(IG_MATH_EXACT),
                              ig_attr_of_int(0)};
    ig_value in[] = {x, weights(g, 4, dims, seed), weights(g, 1, &c->out, seed + 1)};
    struct ig_graph *const none[2] = {NULL, NULL};
    return ig_map2(g, IG_OP_max, ig_build_node(g, IG_OP_conv, in, 3, 1, attrs, none), scalar(g, 0));
}

/* A mobile network's block: pointwise and depthwise convolutions, residual, concatenation, pool, mean, product. */
static void build_block(struct ig_graph *g, const void *argument) {
    ig_value x = input(g, "x", INGOT_F32, 4, (int64_t[]){1, 3, 14, 14});
    ig_value a = convolve(g, x, &(struct convolution){3, 16, 3, 1, 1, 1}, 1);
    ig_value b = convolve(g, a, &(struct convolution){16, 48, 1, 1, 0, 1}, 3);
    b = convolve(g, b, &(struct convolution){48, 48, 3, 1, 1, 48}, 5);
    b = ig_map2(g, IG_OP_add, convolve(g, b, &(struct convolution){48, 16, 1, 1, 0, 1}, 7), a);
    ig_value parts[] = {a, b}, c = ig_build_concat(g, parts, 2, 1);
    c = convolve(g, c, &(struct convolution){32, 20, 3, 2, 0, 2}, 9);
    ig_value mean = ig_build_reduce(g, IG_OP_reduce_mean, c, (int64_t[]){2, 3}, 2);
    ig_value row = ig_build_reshape(g, mean, (ig_dim[]){number(g, 1), number(g, 20)}, 2);
    ig_build_output(g, "y", product(g, row, 20, 10, 11));
    ig_build_output(g, "a", c);
}

/* A chain of products of odd sizes; the argument is the number of columns. */
static void build_chain(struct ig_graph *g, const void *argument) {
    const int64_t *columns = argument;
    ig_value x = input(g, "x", INGOT_F32, 2, (int64_t[]){-1, 33});
    x = product(g, x, 33, *columns, 1);
    ig_build_output(g, "y", product(g, x, *columns, 7, 2));
}

/* Magnitudes beyond fp16, which stay wide because their ranges are known. */
static void build_large(struct ig_graph *g, const void *argument) {
    ig_value x = input(g, "x", INGOT_F32, 2, (int64_t[]){-2, 16});
    int64_t axis = 1;
    ig_value big = ig_map2(g, IG_OP_mul, product(g, x, 16, 16, 1), scalar(g, 1e6));
    ig_value e = ig_map1(g, IG_OP_exp, ig_map2(g, IG_OP_mul, product(g, x, 16, 16, 2), scalar(g, 20)));
    ig_value sum = ig_build_reduce(g, IG_OP_reduce_sum, e, &axis, 1);
    ig_build_output(g, "e", ig_map2(g, IG_OP_div, product(g, e, 16, 8, 4), sum));
    ig_build_output(g, "b", ig_map2(g, IG_OP_mul, product(g, big, 16, 5, 3), scalar(g, 1e-6)));
}

static void test_numbers(void **state) {
    static const int64_t columns[] = {1, 2, 17, 64};
    static const struct {
        unsigned flag;
        double tolerance; /* a few roundings to 11 or 8 bits */
    } types[] = {{GRAPH_FP16, 4e-3}, {GRAPH_BF16, 3e-2}};
    for (int i = 0; i < 2; i++) {
        add_case("layer", build_layer, NULL, types[i].tolerance, types[i].flag);
        add_case("block", build_block, NULL, types[i].tolerance, types[i].flag);
        add_case("block, raw", build_block, NULL, types[i].tolerance, types[i].flag | GRAPH_RAW);
        add_case("large", build_large, NULL, types[i].tolerance, types[i].flag);
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
            add_case("chain", build_chain, &columns[k], types[i].tolerance, types[i].flag);
            add_case("chain, poisoned", build_chain, &columns[k], types[i].tolerance, types[i].flag | GRAPH_POISON);
        }
    }
    check_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions), cmocka_unit_test(test_tf32),     cmocka_unit_test(test_quotients),
        cmocka_unit_test(test_thin),      cmocka_unit_test(test_patterns), cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
