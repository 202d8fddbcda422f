/*
 * The reference evaluator: every operator on values computed by hand or taken from NumPy's and ONNX's definitions. A
 * case is a line of the graph's text form with its inputs (%0, %1, …) and results written out as "f32[2,3] 1 2 3 4 5
 * 6".
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ir/build.h"
#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "support/support.h"

enum { MAX_TENSORS = 8, MAX_ELEMENTS = 4096 };

struct text_tensor {
    char type[64]; /* "f32[2,3]" */
    struct ingot_tensor tensor;
    double data[MAX_ELEMENTS]; /* large enough for any type */
};

struct text_case {
    const char *operation;
    int n_in, n_out;
    struct text_tensor *in, *out;
    struct ingot_tensor got[MAX_TENSORS];
};

static void read_tensor(const char *text, struct text_tensor *t) {
    size_t length = strcspn(text, " ");
    snprintf(t->type, sizeof t->type, "%.*s", (int)length, text);
    char dtype[16];
    snprintf(dtype, sizeof dtype, "%.*s", (int)strcspn(text, "["), text);
    t->tensor = (struct ingot_tensor){.dtype = ig_dtype_parse(dtype), .data = t->data};
    assert_int_not_equal(t->tensor.dtype, INGOT_DTYPE_NONE);
    char *at = strchr(text, '[') + 1;
    while (*at != ']') {
        t->tensor.dims[t->tensor.rank++] = strtoll(at, &at, 10);
        if (*at == ',') at++;
    }
    int64_t n = ingot_tensor_elements(&t->tensor);
    assert_true(n <= MAX_ELEMENTS);
    at++;
    for (int64_t i = 0; i < n; i++) {
        char *end;
        if (ig_dtype_is_float(t->tensor.dtype)) {
            ig_store_f64(t->tensor.dtype, t->data, i, strtod(at, &end));
        } else if (t->tensor.dtype == INGOT_U64) {
            ig_store_i64(t->tensor.dtype, t->data, i, (int64_t)strtoull(at, &end, 10));
        } else {
            ig_store_i64(t->tensor.dtype, t->data, i, strtoll(at, &end, 10));
        }
        if (end == at) fail_msg("'%s' has too few elements", text);
        at = end;
    }
    if (strspn(at, " ") != strlen(at)) fail_msg("'%s' has too many elements", text);
}

static char *graph_text(const struct text_case *c) {
    static char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "graph {\n");
    for (int i = 0; i < c->n_in; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "  input %%%d \"i%d\": %s\n", i, i, c->in[i].type);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "  ");
    for (int i = 0; i < c->n_out; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%%%d", i ? ", " : "", 90 + i);
    }
    const char *body = strchr(c->operation, '\n'); /* bodies follow the node's line */
    int line = body ? (int)(body - c->operation) : (int)strlen(c->operation);
    used += (size_t)snprintf(text + used, sizeof text - used, " = %.*s: ", line, c->operation);
    for (int i = 0; i < c->n_out; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", c->out[i].type);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "%s\n", body ? body : "");
    for (int i = 0; i < c->n_out; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "  output \"o%d\" = %%%d\n", i, 90 + i);
    }
    snprintf(text + used, sizeof text - used, "}\n");
    return text;
}

static void evaluate(struct ig_job *job, void *argument) {
    struct text_case *c = argument;
    struct ingot_tensor inputs[MAX_TENSORS];
    const char *text = graph_text(c);
    for (int i = 0; i < c->n_in; i++)
        inputs[i] = c->in[i].tensor;
    ig_eval_graph(job, ig_graph_parse(job, ig_dims_create(job), text, strlen(text)), inputs, c->got);
}

static void compare(const struct text_case *c, int which) {
    const struct ingot_tensor *got = &c->got[which], *want = &c->out[which].tensor;
    assert_int_equal(got->dtype, want->dtype);
    assert_int_equal(got->rank, want->rank);
    for (int i = 0; i < want->rank; i++)
        assert_int_equal(got->dims[i], want->dims[i]);
    for (int64_t i = 0; i < ingot_tensor_elements(want); i++) {
        if (!ig_dtype_is_float(want->dtype)) {
            if (ig_load_i64(got->dtype, got->data, i) == ig_load_i64(want->dtype, want->data, i)) continue;
            fail_msg("%s: element %" PRId64 " is %" PRId64 ", expected %" PRId64, c->operation, i,
                     ig_load_i64(got->dtype, got->data, i), ig_load_i64(want->dtype, want->data, i));
        }
        double a = ig_load_f64(got->dtype, got->data, i), b = ig_load_f64(want->dtype, want->data, i);
        if ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 2e-6 * fmax(1, fabs(b))) continue;
        fail_msg("%s: element %" PRId64 " is %.9g, expected %.9g", c->operation, i, a, b);
    }
}

/* check(operation, inputs..., "->", results..., NULL) */
static void check(const char *operation, ...) {
    static struct text_tensor in[MAX_TENSORS], out[MAX_TENSORS];
    struct text_case c = {.operation = operation, .in = in, .out = out};
    struct ig_job job;
    struct ingot_error error;
    bool results = false;
    va_list arguments;
    va_start(arguments, operation);
    for (const char *text; (text = va_arg(arguments, const char *));) {
        if (strcmp(text, "->") == 0) {
            results = true;
            continue;
        }
        assert_true(c.n_in < MAX_TENSORS && c.n_out < MAX_TENSORS);
        read_tensor(text, results ? &out[c.n_out++] : &in[c.n_in++]);
    }
    va_end(arguments);
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, evaluate, &c, &error) != INGOT_OK) fail_msg("%s: %s", operation, error.message);
    for (int i = 0; i < c.n_out; i++) {
        compare(&c, i);
        ig_eval_release(&job, &c.got[i]);
    }
    ig_job_deinit(&job);
}

/* ---- Elementwise */

static void test_float_unary(void **state) {
    check("neg(%0)", "f32[3] 1 -2 0", "->", "f32[3] -1 2 0", NULL);
    check("abs(%0)", "f32[3] 1 -2 -inf", "->", "f32[3] 1 2 inf", NULL);
    check("sign(%0)", "f32[4] 3 -2 0 nan", "->", "f32[4] 1 -1 0 nan", NULL);
    check("floor(%0)", "f32[4] 1.5 -1.5 2 -0.5", "->", "f32[4] 1 -2 2 -1", NULL);
    check("ceil(%0)", "f32[3] 1.5 -1.5 2", "->", "f32[3] 2 -1 2", NULL);
    check("round(%0)", "f32[6] 0.5 1.5 2.5 -0.5 -1.5 2.4", "->", "f32[6] 0 2 2 0 -2 2", NULL);
    check("sqrt(%0)", "f32[3] 4 2 -1", "->", "f32[3] 2 1.41421356 nan", NULL);
    check("exp(%0)", "f32[4] 0 1 -inf 100", "->", "f32[4] 1 2.71828183 0 inf", NULL);
    check("log(%0)", "f32[4] 1 2.71828183 0 -1", "->", "f32[4] 0 1 -inf nan", NULL);
    check("log1p(%0)", "f64[2] 1e-9 1", "->", "f64[2] 1e-9 0.69314718056", NULL);
    check("erf(%0)", "f32[4] 0 0.5 -2 inf", "->", "f32[4] 0 0.520499878 -0.995322265 1", NULL);
    check("normcdf(%0)", "f32[6] 0 1 -2 -inf inf nan", "->", "f32[6] 0.5 0.841344746 0.0227501319 0 1 nan", NULL);
    check("normcdf(%0)", "f64[2] -10 10", "->", "f64[2] 7.6198530241605e-24 1", NULL);
    check("sigmoid(%0)", "f32[4] 0 2 -100 100", "->", "f32[4] 0.5 0.880797078 0 1", NULL);
    check("isnan(%0)", "f32[3] nan inf 0", "->", "bool[3] 1 0 0", NULL);
    check("isinf(%0)", "f32[4] nan inf -inf 0", "->", "bool[4] 0 1 1 0", NULL);
}

static void test_trigonometry(void **state) {
    check("sin(%0)", "f32[2] 0 1", "->", "f32[2] 0 0.841470985", NULL);
    check("cos(%0)", "f32[2] 0 1", "->", "f32[2] 1 0.540302306", NULL);
    check("tan(%0)", "f32[2] 0 1", "->", "f32[2] 0 1.557407725", NULL);
    check("asin(%0)", "f32[2] 1 2", "->", "f32[2] 1.570796327 nan", NULL);
    check("acos(%0)", "f32[2] 0 1", "->", "f32[2] 1.570796327 0", NULL);
    check("atan(%0)", "f32[2] 1 inf", "->", "f32[2] 0.785398163 1.570796327", NULL);
    check("sinh(%0)", "f32[1] 1", "->", "f32[1] 1.175201194", NULL);
    check("cosh(%0)", "f32[1] 1", "->", "f32[1] 1.543080635", NULL);
    check("tanh(%0)", "f32[2] 1 -inf", "->", "f32[2] 0.761594156 -1", NULL);
    check("asinh(%0)", "f32[1] 1", "->", "f32[1] 0.881373587", NULL);
    check("acosh(%0)", "f32[1] 2", "->", "f32[1] 1.316957897", NULL);
    check("atanh(%0)", "f32[2] 0.5 1", "->", "f32[2] 0.549306144 inf", NULL);
}

static void test_float_binary(void **state) {
    check("add(%0, %1)", "f32[2,2] 1 2 3 4", "f32[2] 10 20", "->", "f32[2,2] 11 22 13 24", NULL);
    check("sub(%0, %1)", "f32[2,1] 1 2", "f32[1,3] 1 2 3", "->", "f32[2,3] 0 -1 -2 1 0 -1", NULL);
    check("mul(%0, %1)", "f32[2] 2 inf", "f32[2] 3 0", "->", "f32[2] 6 nan", NULL);
    check("div(%0, %1)", "f32[3] 1 -1 0", "f32[3] 4 0 0", "->", "f32[3] 0.25 -inf nan", NULL);
    check("mod(%0, %1)", "f32[4] 5 -5 5 -5", "f32[4] 3 3 -3 -3", "->", "f32[4] 2 1 -1 -2", NULL);
    check("fmod(%0, %1)", "f32[4] 5 -5 5 -5", "f32[4] 3 3 -3 -3", "->", "f32[4] 2 -2 2 -2", NULL);
    check("pow(%0, %1)", "f32[4] 2 2 0 -8", "f32[4] 10 -1 0 3", "->", "f32[4] 1024 0.5 1 -512", NULL);
    check("min(%0, %1)", "f32[3] 1 nan 2", "f32[3] 2 1 nan", "->", "f32[3] 1 nan nan", NULL);
    check("max(%0, %1)", "f32[3] 1 nan 2", "f32[3] 2 1 nan", "->", "f32[3] 2 nan nan", NULL);
    check("eq(%0, %1)", "f32[3] 1 nan 0", "f32[3] 1 nan -0", "->", "bool[3] 1 0 1", NULL);
    check("lt(%0, %1)", "f32[3] 1 nan 0", "f32[3] 2 1 0", "->", "bool[3] 1 0 0", NULL);
    check("le(%0, %1)", "f32[3] 1 nan 0", "f32[3] 2 1 0", "->", "bool[3] 1 0 1", NULL);
    check("add(%0, %1)", "f32[0,2]", "f32[2] 1 2", "->", "f32[0,2]", NULL);
    check("add(%0, %1)", "f16[2] 1 60000", "f16[2] 0.00048828125 10000", "->", "f16[2] 1 inf", NULL);
    check("add(%0, %1)", "bf16[2] 1 256", "bf16[2] 0.00390625 1", "->", "bf16[2] 1 256", NULL); /* ties to even */
}

static void test_integers(void **state) {
    check("add(%0, %1)", "i8[2] 127 -128", "i8[2] 1 -1", "->", "i8[2] -128 127", NULL);
    check("sub(%0, %1)", "u8[2] 3 5", "u8[2] 5 3", "->", "u8[2] 254 2", NULL);
    check("mul(%0, %1)", "i64[2] 4611686018427387904 -3", "i64[2] 2 7", "->", "i64[2] -9223372036854775808 -21", NULL);
    check("div(%0, %1)", "i32[4] 7 -7 7 -2147483648", "i32[4] 2 2 0 -1", "->", "i32[4] 3 -3 0 -2147483648", NULL);
    check("div(%0, %1)", "i64[1] -9223372036854775808", "i64[1] -1", "->", "i64[1] -9223372036854775808", NULL);
    check("mod(%0, %1)", "i32[5] 7 -7 7 -7 7", "i32[5] 3 3 -3 -3 0", "->", "i32[5] 1 2 -2 -1 0", NULL);
    check("fmod(%0, %1)", "i32[4] 7 -7 7 -7", "i32[4] 3 3 -3 -3", "->", "i32[4] 1 -1 1 -1", NULL);
    check("mod(%0, %1)", "u64[1] 18446744073709551615", "u64[1] 10", "->", "u64[1] 5", NULL);
    check("div(%0, %1)", "u64[1] 18446744073709551615", "u64[1] 2", "->", "u64[1] 9223372036854775807", NULL);
    check("pow(%0, %1)", "i32[6] 3 2 -1 -1 2 0", "i32[6] 4 31 3 -3 -1 0", "->", "i32[6] 81 -2147483648 -1 -1 0 1",
          NULL);
    check("lt(%0, %1)", "u64[1] 18446744073709551615", "u64[1] 1", "->", "bool[1] 0", NULL);
    check("lt(%0, %1)", "i64[1] -1", "i64[1] 1", "->", "bool[1] 1", NULL);
    check("max(%0, %1)", "u8[2] 200 1", "u8[2] 100 2", "->", "u8[2] 200 2", NULL);
    check("abs(%0)", "i8[3] -128 -5 5", "->", "i8[3] -128 5 5", NULL);
    check("sign(%0)", "i64[3] -7 0 9", "->", "i64[3] -1 0 1", NULL);
    check("neg(%0)", "i32[2] -2147483648 4", "->", "i32[2] -2147483648 -4", NULL);
    check("eq(%0, %1)", "i64[2] 9007199254740993 2", "i64[2] 9007199254740992 2", "->", "bool[2] 0 1", NULL);
}

static void test_bits_and_booleans(void **state) {
    check("bitnot(%0)", "u8[2] 0 15", "->", "u8[2] 255 240", NULL);
    check("bitand(%0, %1)", "i32[1] 12", "i32[1] 10", "->", "i32[1] 8", NULL);
    check("bitor(%0, %1)", "i32[1] 12", "i32[1] 10", "->", "i32[1] 14", NULL);
    check("bitxor(%0, %1)", "i32[1] 12", "i32[1] 10", "->", "i32[1] 6", NULL);
    check("shl(%0, %1)", "u8[4] 1 1 255 1", "u8[4] 7 8 4 200", "->", "u8[4] 128 0 240 0", NULL);
    check("shr(%0, %1)", "u8[3] 128 255 255", "u8[3] 7 4 8", "->", "u8[3] 1 15 0", NULL);
    check("shl(%0, %1)", "u64[2] 1 1", "u64[2] 63 64", "->", "u64[2] 9223372036854775808 0", NULL);
    check("not(%0)", "bool[2] 0 1", "->", "bool[2] 1 0", NULL);
    check("and(%0, %1)", "bool[4] 0 0 1 1", "bool[4] 0 1 0 1", "->", "bool[4] 0 0 0 1", NULL);
    check("or(%0, %1)", "bool[4] 0 0 1 1", "bool[4] 0 1 0 1", "->", "bool[4] 0 1 1 1", NULL);
    check("xor(%0, %1)", "bool[4] 0 0 1 1", "bool[4] 0 1 0 1", "->", "bool[4] 0 1 1 0", NULL);
    check("eq(%0, %1)", "bool[2] 0 1", "bool[2] 1 1", "->", "bool[2] 0 1", NULL);
    check("where(%0, %1, %2)", "bool[2,1] 1 0", "i64[2] 1 2", "i64[1] -9007199254740993", "->",
          "i64[2,2] 1 2 -9007199254740993 -9007199254740993", NULL);
}

static void test_cast(void **state) {
    check("cast(%0) {to=i32, saturate=0}", "f32[5] 1.9 -1.9 nan 0.5 2147483648", "->", "i32[5] 1 -1 0 0 -2147483648",
          NULL);
    check("cast(%0) {to=u8, saturate=0}", "f32[3] 257 -1 255", "->", "u8[3] 1 255 255", NULL);
    check("cast(%0) {to=u8, saturate=1}", "f32[5] 257 -1 255 nan inf", "->", "u8[5] 255 0 255 0 255", NULL);
    check("cast(%0) {to=i8, saturate=1}", "i32[3] 200 -200 5", "->", "i8[3] 127 -128 5", NULL);
    check("cast(%0) {to=u64, saturate=0}", "f64[1] 1e19", "->", "u64[1] 10000000000000000000", NULL);
    check("cast(%0) {to=i64, saturate=1}", "f32[2] 1e30 -1e30", "->", "i64[2] 9223372036854775807 -9223372036854775808",
          NULL);
    check("cast(%0) {to=bool, saturate=0}", "f32[4] 0 -0 0.1 nan", "->", "bool[4] 0 0 1 1", NULL);
    check("cast(%0) {to=f32, saturate=0}", "u64[1] 18446744073709551615", "->", "f32[1] 18446744073709551616", NULL);
    /* rounded once */
    check("cast(%0) {to=f32, saturate=0}", "i64[1] 9007199791611905", "->", "f32[1] 9007200328482816", NULL);
    check("cast(%0) {to=f16, saturate=0}", "f32[4] 65519 65520 5.9604645e-8 2.9802322e-8", "->",
          "f16[4] 65504 inf 5.9604645e-8 0", NULL);
    check("cast(%0) {to=f32, saturate=0}", "bool[2] 1 0", "->", "f32[2] 1 0", NULL);
}

/* ---- Sources, views, movement */

static void test_views(void **state) {
    check("reshape(%0) {dims=[3,2]}", "f32[2,3] 1 2 3 4 5 6", "->", "f32[3,2] 1 2 3 4 5 6", NULL);
    check("reshape(%0) {dims=[]}", "f32[1,1] 7", "->", "f32[] 7", NULL);
    check("reshape(%0) {dims=[0,5]}", "f32[3,0]", "->", "f32[0,5]", NULL);
    check("transpose(%0) {perm=[1,0]}", "i16[2,3] 1 2 3 4 5 6", "->", "i16[3,2] 1 4 2 5 3 6", NULL);
    check("transpose(%0) {perm=[2,0,1]}", "u8[2,1,3] 1 2 3 4 5 6", "->", "u8[3,2,1] 1 4 2 5 3 6", NULL);
    check("broadcast(%0) {dims=[2,2,2]}", "f64[2,1] 1 2", "->", "f64[2,2,2] 1 1 2 2 1 1 2 2", NULL);
    check("slice(%0) {starts=[1,2], sizes=[1,2], steps=[1,-1]}", "f32[2,3] 1 2 3 4 5 6", "->", "f32[1,2] 6 5", NULL);
    check("slice(%0) {starts=[0], sizes=[0], steps=[1]}", "f32[2] 1 2", "->", "f32[0]", NULL);
    check("slice(%0) {starts=[1], sizes=[2], steps=[3]}", "f32[5] 0 1 2 3 4", "->", "f32[2] 1 4", NULL);
    check("iota() {dims=[2,3], axis=1}", "->", "i64[2,3] 0 1 2 0 1 2", NULL);
    check("iota() {dims=[2,0], axis=1}", "->", "i64[2,0]", NULL);
    check("shape() {values=[4,5], scalar=0}", "->", "i64[2] 4 5", NULL);
    check("shape() {values=[4], scalar=1}", "->", "i64[] 4", NULL);
    check("constant() {data=[1.5,-2]}", "->", "f32[2] 1.5 -2", NULL);
}

static void test_pad(void **state) {
    check("pad(%0) {before=[0,1], after=[1,0], mode=0}", "f32[1,2] 1 2", "->", "f32[2,3] 0 1 2 0 0 0", NULL);
    check("pad(%0, %1) {before=[2], after=[0], mode=0}", "i8[1] 1", "i8[] 9", "->", "i8[3] 9 9 1", NULL);
    check("pad(%0) {before=[2], after=[2], mode=1}", "f32[3] 1 2 3", "->", "f32[7] 3 2 1 2 3 2 1", NULL);
    check("pad(%0) {before=[2], after=[1], mode=2}", "f32[2] 1 2", "->", "f32[5] 1 1 1 2 2", NULL);
    check("pad(%0) {before=[1,1], after=[1,1], mode=3}", "f32[2,2] 1 2 3 4", "->",
          "f32[4,4] 4 3 4 3 2 1 2 1 4 3 4 3 2 1 2 1", NULL);
    check("pad(%0) {before=[1], after=[1], mode=0}", "f32[0]", "->", "f32[2] 0 0", NULL);
}

static void test_concat(void **state) {
    check("concat(%0, %1, %2) {axis=1}", "i32[2,1] 1 2", "i32[2,0]", "i32[2,2] 3 4 5 6", "->", "i32[2,3] 1 3 4 2 5 6",
          NULL);
    check("concat(%0, %1) {axis=0}", "f16[1,2] 1 2", "f16[1,2] 3 4", "->", "f16[2,2] 1 2 3 4", NULL);
}

static void test_gather(void **state) {
    check("gather(%0, %1) {axis=0}", "f32[3,2] 1 2 3 4 5 6", "i64[2] 2 -3", "->", "f32[2,2] 5 6 1 2", NULL);
    check("gather(%0, %1) {axis=1}", "f32[2,3] 1 2 3 4 5 6", "i32[1,2] 0 2", "->", "f32[2,1,2] 1 3 4 6", NULL);
    check("gather(%0, %1) {axis=0}", "f32[3] 1 2 3", "i64[] 1", "->", "f32[] 2", NULL);
    check("gather(%0, %1) {axis=0}", "f32[3] 1 2 3", "i64[0]", "->", "f32[0]", NULL);
    check("gather(%0, %1) {axis=0}", "f32[3] 1 2 3", "i64[2] 1000000 -1000000", "->", "f32[2] 3 1", NULL); /* clamped */
    check("gather_elements(%0, %1) {axis=1}", "f32[2,2] 1 2 3 4", "i64[2,2] 0 0 1 -2", "->", "f32[2,2] 1 1 4 3", NULL);
    check("gather_nd(%0, %1) {batch_dims=0}", "f32[2,2] 0 1 2 3", "i64[2,2] 0 0 1 1", "->", "f32[2] 0 3", NULL);
    check("gather_nd(%0, %1) {batch_dims=0}", "f32[2,2] 0 1 2 3", "i64[2,1] 1 0", "->", "f32[2,2] 2 3 0 1", NULL);
    check("gather_nd(%0, %1) {batch_dims=1}", "f32[2,2,2] 0 1 2 3 4 5 6 7", "i64[2,1] 1 0", "->", "f32[2,2] 2 3 4 5",
          NULL);
}

static void test_scatter(void **state) {
    check("scatter_elements(%0, %1, %2) {axis=1, reduction=0}", "f32[1,5] 1 2 3 4 5", "i64[1,2] 1 -2", "f32[1,2] 11 21",
          "->", "f32[1,5] 1 11 3 21 5", NULL);
    check("scatter_elements(%0, %1, %2) {axis=0, reduction=1}", "f32[2] 1 2", "i64[3] 0 0 9", "f32[3] 10 20 30", "->",
          "f32[2] 31 2", NULL); /* 9 is out of range: ignored */
    check("scatter_elements(%0, %1, %2) {axis=0, reduction=2}", "i32[2] 3 2", "i64[2] 0 0", "i32[2] 10 20", "->",
          "i32[2] 600 2", NULL);
    check("scatter_elements(%0, %1, %2) {axis=0, reduction=3}", "f32[2] 1 5", "i64[2] 0 1", "f32[2] nan 3", "->",
          "f32[2] nan 5", NULL);
    check("scatter_nd(%0, %1, %2) {reduction=0}", "f32[4] 1 2 3 4", "i64[2,1] 3 0", "f32[2] 9 8", "->",
          "f32[4] 8 2 3 9", NULL);
    check("scatter_nd(%0, %1, %2) {reduction=4}", "f32[2,2] 1 2 3 4", "i64[1,1] -1", "f32[1,2] 0 9", "->",
          "f32[2,2] 1 2 0 4", NULL);
}

/* ---- Reductions and scans */

static void test_reduce(void **state) {
    check("reduce_sum(%0) {axes=[1]}", "f32[2,3] 1 2 3 4 5 6", "->", "f32[2,1] 6 15", NULL);
    check("reduce_sum(%0) {axes=[0,2]}", "f32[2,2,2] 1 2 3 4 5 6 7 8", "->", "f32[1,2,1] 14 22", NULL);
    check("reduce_sum(%0) {axes=[0]}", "i8[3] 100 100 100", "->", "i8[1] 44", NULL);
    check("reduce_sum(%0) {axes=[1]}", "f32[2,0]", "->", "f32[2,1] 0 0", NULL);
    check("reduce_mean(%0) {axes=[0]}", "f32[4] 1 2 3 5", "->", "f32[1] 2.75", NULL);
    check("reduce_mean(%0) {axes=[0]}", "i32[2] -1 -2", "->", "i32[1] -1", NULL);
    check("reduce_mean(%0) {axes=[0]}", "f32[0]", "->", "f32[1] nan", NULL);
    check("reduce_prod(%0) {axes=[0]}", "f32[3] 2 3 4", "->", "f32[1] 24", NULL);
    check("reduce_prod(%0) {axes=[0]}", "i64[0]", "->", "i64[1] 1", NULL);
    check("reduce_max(%0) {axes=[1]}", "f32[2,3] 1 nan 3 -5 -2 -3", "->", "f32[2,1] nan -2", NULL);
    check("reduce_max(%0) {axes=[0]}", "f32[0]", "->", "f32[1] -inf", NULL);
    check("reduce_max(%0) {axes=[0]}", "i16[0]", "->", "i16[1] -32768", NULL);
    check("reduce_min(%0) {axes=[0]}", "u64[2] 18446744073709551615 3", "->", "u64[1] 3", NULL);
    check("reduce_min(%0) {axes=[0]}", "u8[0]", "->", "u8[1] 255", NULL);
    check("reduce_sum(%0) {axes=[0]}", "f32[3] 1e20 1 -1e20", "->", "f32[1] 0", NULL);
    check("reduce_sum(%0) {axes=[0]}", "f32[3] 16777216 1 1", "->", "f32[1] 16777218", NULL); /* not summed in f32 */
    check("argmax(%0) {axis=1, last=0}", "f32[2,3] 1 3 3 -1 -2 -1", "->", "i64[2,1] 1 0", NULL);
    check("argmax(%0) {axis=1, last=1}", "f32[2,3] 1 3 3 -1 -2 -1", "->", "i64[2,1] 2 2", NULL);
    check("argmin(%0) {axis=0, last=0}", "u64[3] 5 18446744073709551615 5", "->", "i64[1] 0", NULL);
    check("argmax(%0) {axis=0, last=0}", "f32[4] 1 nan 9 nan", "->", "i64[1] 1", NULL);
}

static void test_scan(void **state) {
    check("cumsum(%0) {axis=0, exclusive=0, reverse=0}", "f32[3] 1 2 3", "->", "f32[3] 1 3 6", NULL);
    check("cumsum(%0) {axis=0, exclusive=1, reverse=0}", "f32[3] 1 2 3", "->", "f32[3] 0 1 3", NULL);
    check("cumsum(%0) {axis=0, exclusive=0, reverse=1}", "i32[3] 1 2 3", "->", "i32[3] 6 5 3", NULL);
    check("cumsum(%0) {axis=0, exclusive=1, reverse=1}", "i32[3] 1 2 3", "->", "i32[3] 5 3 0", NULL);
    check("cumsum(%0) {axis=0, exclusive=0, reverse=0}", "f32[2,2] 1 2 3 4", "->", "f32[2,2] 1 2 4 6", NULL);
    check("cumprod(%0) {axis=1, exclusive=0, reverse=0}", "f32[1,3] 2 3 4", "->", "f32[1,3] 2 6 24", NULL);
    check("cumprod(%0) {axis=0, exclusive=1, reverse=0}", "i64[3] 2 3 4", "->", "i64[3] 1 2 6", NULL);
    check("topk(%0) {axis=0, k=2, largest=1}", "f32[4] 1 4 3 4", "->", "f32[2] 4 4", "i64[2] 1 3", NULL);
    check("topk(%0) {axis=1, k=2, largest=0}", "f32[2,3] 3 1 2 9 8 9", "->", "f32[2,2] 1 2 8 9", "i64[2,2] 1 2 1 0",
          NULL);
    check("topk(%0) {axis=0, k=1, largest=1}", "u64[2] 1 18446744073709551615", "->", "u64[1] 18446744073709551615",
          "i64[1] 1", NULL);
    check("topk(%0) {axis=0, k=2, largest=0}", "f32[3] nan 2 1", "->", "f32[2] 1 2", "i64[2] 2 1", NULL);
}

/* ---- Contractions and windows */

static void test_matmul(void **state) {
    check("matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}", "f32[2,2] 1 2 3 4", "f32[2,2] 5 6 7 8", "->",
          "f32[2,2] 19 22 43 50", NULL);
    check("matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}", "f32[2,1,2] 1 2 3 4", "f32[2,1] 1 10", "->",
          "f32[2,1,1] 21 43", NULL);
    check("matmul(%0, %1) {acc=f32, packed=0, n=0, math=0}", "f32[2,0]", "f32[0,1]", "->", "f32[2,1] 0 0", NULL);
    check("matmul(%0, %1) {acc=i32, packed=0, n=0, math=0}", "u8[1,2] 255 255", "i8[2,1] -128 127", "->",
          "i32[1,1] -255", NULL);
    check("matmul(%0, %1) {acc=i64, packed=0, n=0, math=0}", "i64[1,2] 9007199254740993 1", "i64[2,1] 1 0", "->",
          "i64[1,1] 9007199254740993", NULL);
    check("matmul(%0, %1) {acc=f32, packed=2, n=3, math=0}", "f32[1,2] 1 10", "f32[2,2,2] 1 2 3 4 5 0 6 0", "->",
          "f32[1,3] 31 42 65", NULL);
}

/* (code - offset - zero) * scale, rounded to the type of the first operand; two blocks, of which the last is short. */
static void test_matmul_blocks(void **state) {
#define BLOCKS(bits, block, offset) " {acc=f32, bits=" bits ", block=" block ", offset=" offset ", packed=0, n=0}"
    check("matmul_blocks(%0, %1, %2)" BLOCKS("4", "2", "8"), "f32[1,3] 1 10 100", "u8[2,3] 9 7 8 15 0 10",
          "f32[2,2] 1 2 0.5 3", "->", "f32[1,2] -9 563.5", NULL);
    check("matmul_blocks(%0, %1, %2, %3)" BLOCKS("8", "4", "0"), "f32[2,1] 1 -1", "u8[1,1] 255", "f32[1,1] 2",
          "u8[1,1] 200", "->", "f32[2,1] 110 -110", NULL);
    check("matmul_blocks(%0, %1, %2, -, %3)" BLOCKS("4", "4", "0"), "f16[1,2] 1 1", "u8[1,2] 1 15", "f32[1,1] 1",
          "f32[16] 0 2049 0 0 0 0 0 0 0 0 0 0 0 0 0 0.5", "->", "f32[1,1] 2048.5", NULL);
    check("matmul_blocks(%0, %1, %2)" BLOCKS("4", "2", "8"), "f32[0,3]", "u8[2,3] 9 7 8 15 0 10", "f32[2,2] 1 2 0.5 3",
          "->", "f32[0,2]", NULL);
    check("matmul_blocks(%0, %1, %2)" BLOCKS("4", "2", "8"), "f32[1,0]", "u8[2,0]", "f32[2,0]", "->", "f32[1,2] 0 0",
          NULL);
}

/* Sums of blocks of the depth, of which the last is short, times the scales of their row and of their columns. Floats are given by
 * their codes: 1 2 3, and 1 10 96 -1 0 2. */
static void test_matmul_scaled(void **state) {
#define SCALED(columns) "matmul_scaled(%0, %1, %2, %3) {acc=f32, block=2, columns=" columns "}"
    check(SCALED("1"), "u8[1,3] 1 2 3", "i8[2,3] 1 10 100 -1 0 2", "f32[1,2] 2 0.5", "f32[2,2] 1 3 10 100", "->",
          "f32[1,2] 1542 294", NULL);
    check(SCALED("2"), "f8e4m3fn[1,3] 56 64 68", "f8e5m2[2,3] 60 73 86 188 0 64", "f32[1,2] 2 0.5", "f32[2,1] 1 10",
          "->", "f32[1,2] 1482 28", NULL);
    check(SCALED("1"), "i8[2,3] 127 127 1 0 0 0", "u8[1,3] 255 255 2", "f32[2,2] 0 inf 0 nan", "f32[2,1] 5 1", "->",
          "f32[2,1] inf nan", NULL);
    check(SCALED("1"), "u8[1,0]", "i8[2,0]", "f32[1,0]", "f32[0,2]", "->", "f32[1,2] 0 0", NULL);
    check(SCALED("1"), "u8[0,3]", "i8[2,3] 1 10 100 -1 0 2", "f32[0,2]", "f32[2,2] 1 3 10 100", "->", "f32[0,2]", NULL);
}

#define CONV_TAIL(groups, last, packed, n, kernel)                                                   \
    "groups=" groups ", acc=f32, channels_last=" last ", packed=" packed ", n=" n ", kernel=" kernel \
    ", math=0, border=0}"

static void test_conv(void **state) {
    check("conv(%0, %1) {strides=[1], dilations=[1], before=[1], after=[1], " CONV_TAIL("1", "0", "0", "1", "[3]"),
          "f32[1,1,4] 1 2 3 4", "f32[1,1,3] 1 10 100", "->", "f32[1,1,4] 210 321 432 43", NULL);
    check("conv(%0, %1, %2) {strides=[2], dilations=[1], before=[0], after=[0], " CONV_TAIL("1", "0", "0", "2", "[1]"),
          "f32[1,2,3] 1 2 3 4 5 6", "f32[2,2,1] 1 0 1 1", "f32[2] 100 200", "->", "f32[1,2,2] 101 103 205 209", NULL);
    check("conv(%0, %1) {strides=[1], dilations=[2], before=[0], after=[0], " CONV_TAIL("1", "0", "0", "1", "[2]"),
          "f32[1,1,4] 1 2 3 4", "f32[1,1,2] 1 10", "->", "f32[1,1,2] 31 42", NULL);
    /* depthwise, and two groups of two */
    check("conv(%0, %1) {strides=[1], dilations=[1], before=[0], after=[0], " CONV_TAIL("2", "0", "0", "2", "[2]"),
          "f32[1,2,3] 1 2 3 4 5 6", "f32[2,1,2] 1 10 1 100", "->", "f32[1,2,2] 21 32 504 605", NULL);
    check("conv(%0, %1) {strides=[1], dilations=[1], before=[0], after=[0], " CONV_TAIL("2", "0", "0", "2", "[1]"),
          "f32[1,4,1] 1 2 3 4", "f32[2,2,1] 1 10 100 1000", "->", "f32[1,2,1] 21 4300", NULL);
    /* the first case, channels last, and its weights packed by 2 */
    check("conv(%0, %1) {strides=[1], dilations=[1], before=[1], after=[1], " CONV_TAIL("1", "1", "0", "1", "[3]"),
          "f32[1,4,1] 1 2 3 4", "f32[1,1,3] 1 10 100", "->", "f32[1,4,1] 210 321 432 43", NULL);
    check("conv(%0, %1) {strides=[1], dilations=[1], before=[1], after=[1], " CONV_TAIL("1", "1", "2", "1", "[3]"),
          "f32[1,4,1] 1 2 3 4", "f32[1,1,3,1,2] 1 0 10 0 100 0", "->", "f32[1,4,1] 210 321 432 43", NULL);
    check("conv(%0, %1) {strides=[1], dilations=[1], before=[0], after=[0], " CONV_TAIL("2", "1", "1", "2", "[2]"),
          "f32[1,3,2] 1 4 2 5 3 6", "f32[2,2] 1 1 10 100", "->", "f32[1,2,2] 21 504 32 605", NULL);
    /* bytes, whose border is not 0 */
#define BYTES(groups, n)                                                                                             \
    "conv(%0, %1) {strides=[1], dilations=[1], before=[1], after=[2], groups=" groups ", acc=i32, channels_last=0, " \
    "packed=0, n=" n ", kernel=[2], math=0, border=100}"
    check(BYTES("1", "1"), "u8[1,1,2] 255 3", "i8[1,1,2] -128 1", "->", "i32[1,1,4] -12545 -32637 -284 -12700", NULL);
    check(BYTES("1", "1"), "i8[1,2,1] -128 3", "u8[1,2,2] 255 1 0 1", "->", "i32[1,1,3] 25375 -32440 25700", NULL);
    check(BYTES("2", "2"), "u8[1,2,1] 1 2", "u8[2,1,2] 1 10 1 10", "->", "i32[1,2,3] 110 1001 1100 120 1002 1100",
          NULL);
    /* 2-D, a window that lies wholly in the padding */
    check("conv(%0, %1) {strides=[2,2], dilations=[1,1], before=[2,2], after=[0,0], " CONV_TAIL("1", "0", "0", "1",
                                                                                                "[2,2]"),
          "f32[1,1,2,2] 1 2 3 4", "f32[1,1,2,2] 1 1 1 1", "->", "f32[1,1,2,2] 0 0 0 10", NULL);
}

static void test_pool(void **state) {
    check("pool_max(%0) {kernel=[2], strides=[1], dilations=[1], before=[1], sizes=[4], channels_last=0}",
          "f32[1,1,3] -1 -2 -3", "->", "f32[1,1,4] -1 -1 -2 -3", NULL);
    check("pool_max(%0) {kernel=[2], strides=[2], dilations=[1], before=[0], sizes=[2], channels_last=1}",
          "f32[1,4,2] 1 8 2 7 3 nan 4 5", "->", "f32[1,2,2] 2 8 4 nan", NULL);
    check("pool_max(%0) {kernel=[2], strides=[1], dilations=[2], before=[0], sizes=[2], channels_last=0}",
          "u8[1,1,4] 1 9 3 4", "->", "u8[1,1,2] 3 9", NULL);
    check("pool_argmax(%0) {kernel=[2,2], strides=[1,1], dilations=[1,1], before=[0,0], sizes=[1,2], channels_last=0, "
          "column_major=0}",
          "f32[1,2,2,3] 1 2 3 4 5 6 9 1 1 1 1 9", "->", "i64[1,2,1,2] 4 5 6 11", NULL);
    check("pool_argmax(%0) {kernel=[2,2], strides=[1,1], dilations=[1,1], before=[0,0], sizes=[1,2], channels_last=0, "
          "column_major=1}",
          "f32[1,1,2,3] 1 2 3 4 5 6", "->", "i64[1,1,1,2] 3 5", NULL);
    check("pool_sum(%0) {kernel=[3], strides=[1], dilations=[1], before=[1], sizes=[3], channels_last=0}",
          "f32[1,1,3] 1 2 4", "->", "f32[1,1,3] 3 7 6", NULL);
    check("pool_avg(%0) {kernel=[3], strides=[1], dilations=[1], before=[1], sizes=[3], channels_last=0, after=[1], "
          "count_pad=0}",
          "f32[1,1,3] 1 2 4", "->", "f32[1,1,3] 1.5 2.33333333 3", NULL);
    check("pool_avg(%0) {kernel=[3], strides=[1], dilations=[1], before=[1], sizes=[3], channels_last=0, after=[1], "
          "count_pad=1}",
          "f32[1,1,3] 1 2 4", "->", "f32[1,1,3] 1 2.33333333 2", NULL);
    /* a window that extends beyond the padding (ceil mode): elements beyond it are not counted */
    check("pool_avg(%0) {kernel=[2], strides=[2], dilations=[1], before=[0], sizes=[2], channels_last=0, after=[0], "
          "count_pad=1}",
          "f32[1,1,3] 1 3 5", "->", "f32[1,1,2] 2 5", NULL);
}

/* ---- Recurrences: one hidden unit, so that a step is worked out easily */

static void test_recurrent(void **state) {
    const char *rnn = "rnn(%0, %1, %2) {reverse=0, activations=[2], clip=0, alphas=[0], betas=[0]}"; /* relu */
    check(rnn, "f32[3,1,1] 1 2 3", "f32[1,1] 10", "f32[1,1] 1", "->", "f32[3,1,1] 11 112 1123", "f32[1,1] 1123", NULL);
    check("rnn(%0, %1, %2) {reverse=1, activations=[2], clip=0, alphas=[0], betas=[0]}", "f32[3,1,1] 1 2 3",
          "f32[1,1] 10", "f32[1,1] 1", "->", "f32[3,1,1] 1321 132 13", "f32[1,1] 1321", NULL);
    /* the second sequence has length 1 */
    check("rnn(%0, %1, %2, %3) {reverse=0, activations=[2], clip=0, alphas=[0], betas=[0]}", "f32[2,2,1] 1 2 3 4",
          "f32[1,1] 10", "f32[2,1] 0 0", "i32[2] 2 1", "->", "f32[2,2,1] 1 2 13 0", "f32[2,1] 13 2", NULL);
    check("rnn(%0, %1, %2) {reverse=0, activations=[3], clip=2, alphas=[10], betas=[1]}", "f32[1,1,1] 5", "f32[1,1] 1",
          "f32[1,1] 0", "->", "f32[1,1,1] 21", "f32[1,1] 21", NULL); /* affine of the clipped */
    /* LSTM with affine gates x -> x: i=1 o=2 f=3 g=4, h0=0, c0=5: c = 3*5 + 1*4 = 19, h = 2*19 */
    const char *identity = "activations=[3,3,3], clip=0, input_forget=0, alphas=[1,1,1], betas=[0,0,0]}";
    char text[256];
    snprintf(text, sizeof text, "lstm(%%0, %%1, %%2, %%3) {reverse=0, %s", identity);
    check(text, "f32[1,1,4] 1 2 3 4", "f32[4,1] 0 0 0 0", "f32[1,1] 0", "f32[1,1] 5", "->", "f32[1,1,1] 38",
          "f32[1,1] 38", "f32[1,1] 19", NULL);
    /* peepholes 1 each: i=1+5 f=3+5 c=8*5+6*4=64 o=2+64 h=66*64 */
    snprintf(text, sizeof text, "lstm(%%0, %%1, %%2, %%3, -, %%4) {reverse=0, %s", identity);
    check(text, "f32[1,1,4] 1 2 3 4", "f32[4,1] 0 0 0 0", "f32[1,1] 0", "f32[1,1] 5", "f32[3] 1 1 1", "->",
          "f32[1,1,1] 4224", "f32[1,1] 4224", "f32[1,1] 64", NULL);
    /* GRU, z=0.25 r=2 x=3, h0=4, R=(0,0,10): linear_before_reset 0: 3+10*(2*4)=83, 1: 3+2*(10*4+1)=85 */
    const char *tail = "activations=[3,3], clip=0, linear_before_reset=%d, alphas=[1,1], betas=[0,0]}";
    char options[160];
    snprintf(options, sizeof options, tail, 0);
    snprintf(text, sizeof text, "gru(%%0, %%1, %%2) {reverse=0, %s", options);
    check(text, "f32[1,1,3] 0.25 2 3", "f32[3,1] 0 0 10", "f32[1,1] 4", "->", "f32[1,1,1] 63.25", "f32[1,1] 63.25",
          NULL);
    snprintf(options, sizeof options, tail, 1);
    snprintf(text, sizeof text, "gru(%%0, %%1, %%2, -, %%3) {reverse=0, %s", options);
    check(text, "f32[1,1,3] 0.25 2 3", "f32[3,1] 0 0 10", "f32[1,1] 4", "f32[1] 1", "->", "f32[1,1,1] 64.75",
          "f32[1,1] 64.75", NULL);
}

/* ---- Control flow */

static void test_control(void **state) {
    const char *choose = "if(%0, %1)\n"
                         "  then {\n    input %0 \"x\": f32[2]\n    output \"y\" = %0\n  }\n"
                         "  else {\n    input %0 \"x\": f32[2]\n    %1 = neg(%0): f32[2]\n    output \"y\" = %1\n  }";
    check(choose, "bool[] 1", "f32[2] 1 2", "->", "f32[2] 1 2", NULL);
    check(choose, "bool[] 0", "f32[2] 1 2", "->", "f32[2] -1 -2", NULL);
    /* adds the iteration to the carried value; stacks the iteration and the value before */
    const char *loop =
        "loop(%0, %1, %2) {trip=3, carried=1}\n"
        "  body {\n    input %0 \"i\": i64[]\n    input %1 \"c\": bool[]\n    input %2 \"x\": i64[]\n"
        "    %3 = add(%2, %0): i64[]\n    output \"c\" = %1\n    output \"x\" = %3\n    output \"s\" = %0\n"
        "    output \"t\" = %2\n  }";
    check(loop, "i64[] 3", "bool[] 1", "i64[] 10", "->", "i64[] 13", "i64[3] 0 1 2", "i64[3] 10 10 11", NULL);
    const char *until =
        "loop(%0, %1, %2) {trip=?, carried=1}\n"
        "  body {\n    input %0 \"i\": i64[]\n    input %1 \"c\": bool[]\n    input %2 \"x\": f32[1]\n"
        "    %3 = add(%2, %2): f32[1]\n    %4 = constant() {data=[100]}: f32[1]\n    %5 = lt(%3, %4): bool[1]\n"
        "    %6 = reshape(%5) {dims=[]}: bool[]\n    output \"c\" = %6\n    output \"x\" = %3\n  }";
    check(until, "i64[] 1000", "bool[] 1", "f32[1] 3", "->", "f32[1] 192", NULL);
    check(until, "i64[] 2", "bool[] 1", "f32[1] 3", "->", "f32[1] 12", NULL);
    check(until, "i64[] 2", "bool[] 0", "f32[1] 3", "->", "f32[1] 3", NULL);
}

/* ---- Chains of strided views, at sizes at which copies are tiled */

static void fill_big(struct ig_job *job, void *argument) {
    (void)argument;
    enum { A = 67, B = 131, C = 3 };
    const char *text = "graph {\n  input %0 \"x\": i32[67,131,3]\n"
                       "  %1 = transpose(%0) {perm=[2,1,0]}: i32[3,131,67]\n"
                       "  %2 = slice(%1) {starts=[2,0,66], sizes=[3,130,33], steps=[-1,1,-2]}: i32[3,130,33]\n"
                       "  %3 = reshape(%2) {dims=[390,33]}: i32[390,33]\n"
                       "  %4 = transpose(%3) {perm=[1,0]}: i32[33,390]\n  output \"y\" = %4\n}\n";
    int32_t *data = ig_alloc_array(job, A * B * C, sizeof *data);
    for (int i = 0; i < A * B * C; i++)
        data[i] = i;
    struct ingot_tensor x = {INGOT_I32, 3, {A, B, C}, data, INGOT_HOST}, y;
    ig_eval_graph(job, ig_graph_parse(job, ig_dims_create(job), text, strlen(text)), &x, &y);
    for (int i = 0; i < 33; i++) {
        for (int j = 0; j < 390; j++) {
            int channel = 2 - j / 130, column = j % 130, row = 66 - 2 * i;
            assert_int_equal(((int32_t *)y.data)[i * 390 + j], (row * B + column) * C + channel);
        }
    }
    ig_eval_release(job, &y);
}

static void test_big_views(void **state) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, fill_big, NULL, &error) != INGOT_OK) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

/* ---- Symbols and refusals */

struct attempt {
    const char *text;
    struct ingot_tensor inputs[2], output;
};

static void attempt_body(struct ig_job *job, void *argument) {
    struct attempt *a = argument;
    struct ig_graph *graph = ig_graph_parse(job, ig_dims_create(job), a->text, strlen(a->text));
    ig_eval_graph(job, graph, a->inputs, &a->output);
    ig_eval_release(job, &a->output);
}

static enum ingot_status attempt(struct attempt *a, struct ingot_error *error) {
    struct ig_job job;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, attempt_body, a, error);
    ig_job_deinit(&job);
    return status;
}

static const char two_inputs[] = "graph {\n  input %0 \"x\": f32[n,2]\n  input %1 \"y\": f32[2*n+1]\n"
                                 "  %2 = reshape(%0) {dims=[2*n]}: f32[2*n]\n  output \"o\" = %2\n}\n";

static void test_symbols(void **state) {
    float data[16] = {0};
    struct ingot_error error;
    struct attempt a = {
        two_inputs, {{INGOT_F32, 2, {3, 2}, data, INGOT_HOST}, {INGOT_F32, 1, {7}, data, INGOT_HOST}}, {0}};
    assert_int_equal(attempt(&a, &error), INGOT_OK);
    assert_int_equal(a.output.dims[0], 6);
    a.inputs[1].dims[0] = 6; /* 2*n+1 is 7 */
    assert_int_equal(attempt(&a, &error), INGOT_INVALID_ARGUMENT);
    assert_string_equal(error.message, "input 'y' has size 6 along axis 0, expected 7 (2*n+1)");
    a.inputs[1].dims[0] = 7;
    a.inputs[0].dims[1] = 3;
    assert_int_equal(attempt(&a, &error), INGOT_INVALID_ARGUMENT);
    assert_string_equal(error.message, "input 'x' has size 3 along axis 1, expected 2 (2)");
    a.inputs[0] = (struct ingot_tensor){INGOT_F64, 2, {3, 2}, data, INGOT_HOST};
    assert_int_equal(attempt(&a, &error), INGOT_INVALID_ARGUMENT);
    assert_string_equal(error.message, "input 'x' is f64, expected f32");
    a.inputs[0] = (struct ingot_tensor){INGOT_F32, 1, {6}, data, INGOT_HOST};
    assert_int_equal(attempt(&a, &error), INGOT_INVALID_ARGUMENT);
    assert_string_equal(error.message, "input 'x' has rank 1, expected 2");
}

static void test_value_symbols(void **state) {
    int64_t size[2] = {2, 3};
    float x = 5;
    struct ingot_error error;
    struct attempt a = {"graph {\n  input %0 \"size\": i64[2] = [\"size[0]\",\"size[1]\"]\n  input %1 \"x\": f32[]\n"
                        "  %2 = broadcast(%1) {dims=[\"size[0]\",\"size[1]\"+1]}: f32[\"size[0]\",\"size[1]\"+1]\n"
                        "  output \"o\" = %2\n}\n",
                        {{INGOT_I64, 1, {2}, size, INGOT_HOST}, {INGOT_F32, 0, {0}, &x, INGOT_HOST}},
                        {0}};
    if (attempt(&a, &error) != INGOT_OK) fail_msg("%s", error.message);
    assert_int_equal(a.output.dims[0], 2);
    assert_int_equal(a.output.dims[1], 4);
    size[0] = -1;
    assert_int_equal(attempt(&a, &error), INGOT_INVALID_ARGUMENT);
}

static void test_refusals(void **state) {
    float data[16] = {0};
    struct ingot_error error;
    struct attempt a = {"graph {\n  input %0 \"x\": f32[n]\n  input %1 \"y\": f32[m]\n"
                        "  %2 = add(%0, %1): f32[n]\n  output \"o\" = %2\n}\n",
                        {{INGOT_F32, 1, {3}, data, INGOT_HOST}, {INGOT_F32, 1, {4}, data, INGOT_HOST}},
                        {0}};
    enum ingot_status status = attempt(&a, &error);
    assert_true(status == INGOT_INVALID_ARGUMENT);
    a = (struct attempt){"graph {\n  input %0 \"x\": f32[n]\n  input %1 \"y\": f32[m]\n"
                         "  %2 = slice(%0) {starts=[2], sizes=[m], steps=[1]}: f32[m]\n  output \"o\" = %2\n}\n",
                         {{INGOT_F32, 1, {3}, data, INGOT_HOST}, {INGOT_F32, 1, {4}, data, INGOT_HOST}},
                         {0}};
    assert_int_equal(attempt(&a, &error), INGOT_INVALID_ARGUMENT);
    a.inputs[1].dims[0] = 1;
    assert_int_equal(attempt(&a, &error), INGOT_OK);
}

/* ---- Constants */

static void constants_body(struct ig_job *job, void *argument) {
    (void)argument;
    enum { N = 3000 };
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    float *values = ig_alloc_array(job, N + 1, sizeof *values);
    for (int i = 0; i < N; i++)
        values[i] = (float)i;
    struct ig_data *data = IG_NEW(job, struct ig_data), *skewed = IG_NEW(job, struct ig_data);
    *data = (struct ig_data){.bytes = values, .size = N * sizeof *values, .initializer = "w"};
    int64_t dims[] = {N / 2, 2}, perm[] = {1, 0};
    ig_value w = ig_build_constant(g, INGOT_F32, 2, dims, data);
    struct ingot_tensor plain = ig_const_tensor(g, w);
    assert_ptr_equal(plain.data, values); /* no copy */
    ig_const_release(g, w, &plain);

    ig_value t = ig_build_transpose(g, w, perm);
    struct ingot_tensor large = ig_const_tensor(g, t);
    assert_int_equal(large.dims[0], 2);
    assert_true(((float *)large.data)[1] == 2 && ((float *)large.data)[N / 2] == 1);
    ig_const_release(g, t, &large);
    struct ingot_tensor lent = ig_const_tensor(g, t); /* not released: the job releases it */
    assert_non_null(lent.data);

    ig_value sum = ig_build_reduce(g, IG_OP_reduce_sum, w, (const int64_t[]){0, 1}, 2);
    struct ingot_tensor small = ig_const_tensor(g, sum), again = ig_const_tensor(g, sum);
    assert_ptr_equal(small.data, again.data); /* cached */
    assert_true(*(float *)small.data == (float)(N * (N - 1) / 2));
    ig_const_release(g, sum, &small);
    assert_true(*(float *)again.data == (float)(N * (N - 1) / 2));

    memmove((char *)values + 1, values, N * sizeof *values); /* as in a file without alignment */
    *skewed = (struct ig_data){.bytes = (char *)values + 1, .size = N * sizeof *values};
    struct ingot_tensor moved = ig_const_tensor(g, ig_build_constant(g, INGOT_F32, 2, dims, skewed));
    assert_int_equal((uintptr_t)moved.data % sizeof(float), 0);
    assert_true(((float *)moved.data)[7] == 7);
}

static void test_constants(void **state) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, constants_body, NULL, &error) != INGOT_OK) fail_msg("%s", error.message);
    ig_job_deinit(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_unary),
        cmocka_unit_test(test_trigonometry),
        cmocka_unit_test(test_float_binary),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_bits_and_booleans),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_concat),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_matmul_blocks),
        cmocka_unit_test(test_matmul_scaled),
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_big_views),
        cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_value_symbols),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
