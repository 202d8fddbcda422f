/* Graphs: inference and its messages, sharing of equal nodes, symbolic contents, the text form, the verifier. */
#include <stdio.h>
#include <string.h>

#include "ir/build.h"
#include "ir/text/print.h"
#include "support/support.h"

static struct ig_job job;
static struct ig_dims *dims;
static struct ig_graph *g;
static struct ingot_error error;

static int set_up(void **state) {
    ig_job_init(&job, &ig_libc_allocator);
    return 0;
}

static int tear_down(void **state) {
    ig_job_deinit(&job);
    return 0;
}

static enum ingot_status try_run(void (*body)(struct ig_job *, void *), void *argument) {
    return ig_job_run(&job, body, argument, &error);
}

static void run(void (*body)(struct ig_job *, void *)) {
    if (try_run(body, NULL) != INGOT_OK) fail_msg("%s", error.message);
}

static void start(struct ig_job *j) {
    dims = ig_dims_create(j);
    g = ig_graph_create(j, dims);
}

static ig_dim d(const char *text) {
    const char *end;
    ig_dim dim = ig_dim_parse(dims, text, &end);
    assert_true(dim != IG_DIM_NONE && *end == 0);
    return dim;
}

/* Adds an input of the type written as "f32[batch,3]". */
static ig_value input(const char *text) {
    struct ig_type type = {.rank = 0};
    char dtype[8] = "";
    const char *at = strchr(text, '[') + 1;
    memcpy(dtype, text, (size_t)(at - text - 1));
    type.dtype = ig_dtype_parse(dtype);
    while (*at != ']') {
        type.dim[type.rank++] = ig_dim_parse(dims, at, &at);
        if (*at == ',') at++;
    }
    return ig_build_input(g, "x", &type);
}

static void check_type(ig_value value, const char *expected) {
    struct ig_text text;
    ig_text_init(&text, &job);
    ig_type_print(dims, ig_type_of(g, value), &text);
    assert_string_equal(text.at, expected);
}

/* Checks the symbolic contents, as "[a,b,?]" or "unknown". */
static void check_elements(ig_value value, const char *expected) {
    const ig_dim *elements = ig_info(g, value)->elements;
    struct ig_text text;
    int64_t count = 0;
    ig_text_init(&text, &job);
    ig_dim_is_const(dims, ig_type_elements(dims, ig_type_of(g, value)), &count);
    ig_text_add(&text, elements != NULL ? "[" : "unknown");
    for (int64_t i = 0; elements != NULL && i < count; i++) {
        if (i > 0) ig_text_add(&text, ",");
        ig_dim_print(dims, elements[i], &text);
    }
    if (elements != NULL) ig_text_add(&text, "]");
    assert_string_equal(text.at, expected);
}

static ig_value i64s(int count, ...) {
    int64_t values[16];
    va_list args;
    va_start(args, count);
    for (int i = 0; i < count; i++)
        values[i] = va_arg(args, int);
    va_end(args);
    return ig_build_i64s(g, values, count);
}

/* ---- Sharing */

static void sharing_body(struct ig_job *j, void *argument) {
    start(j);
    ig_value x = input("f32[batch,8]"), half = ig_build_scalar(g, INGOT_F32, 0.5);
    assert_int_equal(half, ig_build_scalar(g, INGOT_F32, 0.5));
    assert_int_not_equal(half, ig_build_scalar(g, INGOT_F64, 0.5));
    assert_int_not_equal(half, ig_build_scalar(g, INGOT_F32, -0.5));
    assert_int_not_equal(ig_build_scalar(g, INGOT_F32, 0.0), ig_build_scalar(g, INGOT_F32, -0.0));
    ig_value product = ig_map2(g, IG_OP_mul, x, half);
    assert_int_equal(product, ig_map2(g, IG_OP_mul, x, half));
    assert_int_not_equal(product, ig_map2(g, IG_OP_add, x, half));
    int64_t last[1] = {1}, first[1] = {0};
    ig_value sum = ig_build_reduce(g, IG_OP_reduce_sum, x, last, 1);
    assert_int_equal(sum, ig_build_reduce(g, IG_OP_reduce_sum, x, last, 1));
    assert_int_not_equal(sum, ig_build_reduce(g, IG_OP_reduce_sum, x, first, 1));
    static const float weights[4] = {1, 2, 3, 4};
    struct ig_data a = {.bytes = weights, .size = sizeof weights, .initializer = "a"}, b = a;
    int64_t shape[1] = {4};
    b.initializer = "b"; /* refitted separately, so never merged */
    ig_value w = ig_build_constant(g, INGOT_F32, 1, shape, &a);
    assert_int_not_equal(w, ig_build_constant(g, INGOT_F32, 1, shape, &b));
    assert_int_equal(w, ig_build_constant(g, INGOT_F32, 1, shape, &a));
    assert_true(ig_info(g, ig_map1(g, IG_OP_neg, w))->is_const);
    assert_true(ig_info(g, ig_map1(g, IG_OP_neg, w))->is_refittable);
    assert_false(ig_info(g, half)->is_refittable);
    assert_false(ig_info(g, product)->is_const);
}

static void identity_body(struct ig_job *j, void *argument) {
    start(j);
    ig_value x = input("f32[batch,8]"), y = input("i64[4,1,n]");
    struct ig_type type = *ig_type_of(g, x);
    int64_t straight[2] = {0, 1}, ones[2] = {1, 1};
    ig_dim zeros[2] = {d("0"), d("0")};
    int axes[2] = {0, 3};
    assert_int_equal(ig_build_cast(g, x, INGOT_F32), x);
    assert_int_equal(ig_build_reshape(g, x, type.dim, 2), x);
    assert_int_equal(ig_build_broadcast(g, x, type.dim, 2), x);
    assert_int_equal(ig_build_transpose(g, x, straight), x);
    assert_int_equal(ig_build_slice(g, x, zeros, type.dim, ones), x);
    assert_int_equal(ig_build_pad(g, x, zeros, zeros, IG_PAD_CONSTANT, IG_NO_VALUE), x);
    assert_int_equal(ig_build_concat(g, &x, 1, 1), x);
    assert_int_equal(ig_build_reduce(g, IG_OP_reduce_max, x, NULL, 0), x);
    check_type(ig_build_unsqueeze(g, y, axes, 2), "i64[1,4,1,1,n]");
    axes[0] = 1;
    check_type(ig_build_squeeze(g, y, axes, 1), "i64[4,n]");
    assert_int_equal(g->nodes.count, 2);
}

/* ---- Symbolic contents */

static void elements_body(struct ig_job *j, void *argument) {
    start(j);
    ig_dim shape_dims[4] = {d("batch"), d("3"), d("2*h"), d("w")};
    ig_value shape = ig_build_shape(g, shape_dims, 4), n = ig_build_shape_scalar(g, d("n"));
    ig_value picked = ig_build_gather(g, shape, i64s(2, 0, -1), 0);
    check_elements(picked, "[batch,w]");
    assert_non_null(ig_def_op(g, picked, IG_OP_shape));
    ig_value parts[2] = {picked, i64s(1, -1)};
    check_elements(ig_build_concat(g, parts, 2, 0), "[batch,w,-1]");
    check_elements(ig_build_slice_axis(g, shape, 0, d("2"), d("2"), 1), "[2*h,w]");
    check_elements(ig_build_slice_axis(g, shape, 0, d("3"), d("2"), -2), "[w,3]");
    ig_value halves = ig_map2(g, IG_OP_div, shape, ig_build_scalar_int(g, INGOT_I64, 2));
    check_elements(halves, "[floor(batch/2),1,h,floor(w/2)]");
    check_elements(ig_map2(g, IG_OP_mul, n, i64s(2, 2, 0)), "[2*n,0]");
    check_elements(ig_map2(g, IG_OP_sub, n, n), "[0]");
    check_elements(ig_build_cast(g, shape, INGOT_I32), "[batch,3,2*h,w]");
    assert_non_null(ig_def_op(g, ig_build_cast(g, shape, INGOT_I32), IG_OP_cast));
    check_elements(ig_map2(g, IG_OP_eq, shape, ig_build_scalar_int(g, INGOT_I64, -1)), "[0,0,0,0]");
    check_elements(ig_map2(g, IG_OP_eq, shape, ig_build_scalar_int(g, INGOT_I64, 3)), "[?,1,0,?]");
    ig_value is_minus_one = ig_map2(g, IG_OP_eq, i64s(4, -1, 5, -1, 6), ig_build_scalar_int(g, INGOT_I64, -1));
    check_elements(ig_build_where(g, is_minus_one, shape, i64s(4, 1, 1, 1, 1)), "[batch,1,2*h,1]");
    int64_t axis[1] = {0};
    check_elements(ig_build_reduce(g, IG_OP_reduce_prod, shape, axis, 1), "[6*batch*h*w]");
    check_elements(ig_build_reduce(g, IG_OP_reduce_max, picked, axis, 1), "[max(batch,w)]");
}

static void elements_more_body(struct ig_job *j, void *argument) {
    start(j);
    ig_dim square[2] = {d("2"), d("2")}, pads[1] = {d("1")}, none[1] = {d("0")}, iota_dims[2] = {d("2"), d("3")};
    ig_dim shape_dims[4] = {d("a"), d("b"), d("c"), d("4")};
    int64_t swap[2] = {1, 0};
    ig_value shape = ig_build_shape(g, shape_dims, 4);
    ig_value table = ig_build_reshape(g, shape, square, 2);
    check_elements(ig_build_transpose(g, table, swap), "[a,c,b,4]");
    assert_non_null(ig_def_op(g, ig_build_transpose(g, table, swap), IG_OP_reshape));
    check_elements(ig_build_pad(g, shape, pads, none, IG_PAD_CONSTANT, ig_build_scalar_int(g, INGOT_I64, 7)),
                   "[7,a,b,c,4]");
    check_elements(ig_build_iota(g, iota_dims, 2, 1), "[0,1,2,0,1,2]");
    assert_non_null(ig_def_op(g, ig_build_iota(g, iota_dims, 2, 1), IG_OP_iota));
    int axes[1] = {1};
    ig_value in[3] = {shape, ig_build_unsqueeze(g, i64s(2, 3, 0), axes, 1), i64s(2, 9, 8)};
    struct ig_attr set = ig_attr_of_int(IG_SCATTER_SET), zero = ig_attr_of_int(0);
    check_elements(ig_build_node(g, IG_OP_scatter_nd, in, 3, 1, &set, NULL), "[8,b,c,9]");
    check_elements(ig_build_node(g, IG_OP_gather_nd, in, 2, 1, &zero, NULL), "[4,a]");
    struct ig_attr sum[3] = {ig_attr_of_int(0), ig_attr_of_int(0), ig_attr_of_int(0)};
    check_elements(ig_build_node(g, IG_OP_cumsum, &shape, 1, 1, sum, NULL), "[a,a+b,a+b+c,a+b+c+4]");
    /* Contents that do not fit their type, overflow, or are too many become unknown, which is no error. */
    check_elements(ig_map1(g, IG_OP_neg, ig_build_cast(g, i64s(1, 3), INGOT_U8)), "unknown");
    ig_value huge = ig_build_scalar_int(g, INGOT_I64, INT64_MAX);
    check_elements(ig_map2(g, IG_OP_add, huge, huge), "unknown");
    check_elements(ig_map2(g, IG_OP_div, shape, ig_build_scalar_int(g, INGOT_I64, 0)), "[0,0,0,0]");
    ig_dim long_dims[1] = {d("1025")};
    check_elements(ig_build_iota(g, long_dims, 1, 0), "unknown");
    check_elements(ig_map2(g, IG_OP_add, input("i64[2]"), i64s(2, 1, 2)), "unknown");
}

static void recipes_body(struct ig_job *j, void *argument) {
    static const int32_t zero_points[2] = {3, 4};
    struct ig_data data = {.bytes = zero_points, .size = sizeof zero_points, .initializer = "zero_point"};
    int64_t shape[1] = {2};
    start(j);
    ig_value w = ig_build_constant(g, INGOT_I32, 1, shape, &data);
    ig_value twice = ig_map2(g, IG_OP_add, w, w);
    check_elements(twice, "[6,8]");
    assert_non_null(ig_def_op(g, twice, IG_OP_add)); /* a recipe, because refitting changes it */
    ig_value sum = ig_map2(g, IG_OP_add, i64s(2, 1, 2), i64s(2, 3, 4));
    assert_non_null(ig_def_op(g, sum, IG_OP_constant));
    int64_t found[2];
    int n;
    assert_true(ig_const_ints(g, sum, found, 2, &n));
    assert_int_equal(n, 2);
    assert_int_equal(found[0] * 10 + found[1], 46);
    assert_false(ig_const_ints(g, sum, found, 1, &n));
    double scalar;
    assert_true(ig_const_scalar(g, ig_build_scalar(g, INGOT_F16, 1.5), &scalar));
    assert_true(scalar == 1.5);
    assert_false(ig_const_scalar(g, sum, &scalar));
}

/* ---- Inference and its messages */

static void inference_body(struct ig_job *j, void *argument) {
    start(j);
    ig_value image = input("f32[n,64,h,w]"), a = input("f32[b,1,s,64]"), m = input("f32[12,64,t]");
    check_type(ig_build_matmul(g, a, m, INGOT_F32), "f32[b,12,s,t]");
    check_type(ig_map2(g, IG_OP_lt, a, input("f32[s,1]")), "bool[b,1,s,64]");
    int64_t two[2] = {2, 2}, one[2] = {1, 1}, three[2] = {3, 3};
    ig_dim pad[2] = {d("1"), d("1")};
    struct ig_attr conv[] = {ig_attr_of_ints(two, 2),
                             ig_attr_of_ints(one, 2),
                             ig_attr_of_dims(pad, 2),
                             ig_attr_of_dims(pad, 2),
                             ig_attr_of_int(1),
                             ig_attr_of_dtype(INGOT_F32),
                             ig_attr_of_int(0),
                             ig_attr_of_int(0),
                             ig_attr_of_int(128),
                             ig_attr_of_ints(three, 2),
                             ig_attr_of_int(IG_MATH_EXACT),
                             ig_attr_of_int(0)};
    ig_value in[2] = {image, input("f32[128,64,3,3]")};
    ig_value out = ig_build_node(g, IG_OP_conv, in, 2, 1, conv, NULL);
    check_type(out, "f32[n,128,floor((h+1)/2),floor((w+1)/2)]");
    in[0] = out;
    in[1] = input("f32[128,128,3,3]");
    check_type(ig_build_node(g, IG_OP_conv, in, 2, 1, conv, NULL), "f32[n,128,floor((h+3)/4),floor((w+3)/4)]");
    assert_int_equal(g->assumptions.count, 0);
    check_type(ig_map2(g, IG_OP_add, input("f32[n,5]"), input("f32[k,m]")), "f32[n,5]");
    assert_int_equal(g->assumptions.count, 2);
    ig_dim split[3] = {d("n"), d("floor(64*h*w/64)"), d("64")};
    check_type(ig_build_reshape(g, image, split, 3), "f32[n,h*w,64]");
}

/* A table of 512 positions limits the sequence; later nodes know this limit. */
static void narrowing_body(struct ig_job *j, void *argument) {
    int64_t lo, hi;
    start(j);
    ig_value x = input("f32[seq,8]"), table = input("f32[512,8]");
    ig_value rows = ig_build_slice_axis(g, table, 0, d("0"), ig_dim_min(dims, d("seq"), d("512")), 1);
    check_type(rows, "f32[min(seq,512),8]");
    ig_map2(g, IG_OP_add, x, rows);
    ig_map2(g, IG_OP_add, x, input("f32[n,8]"));
    assert_int_equal(g->assumptions.count, 2);
    /* A slice of at most one row is taken to be one row, and broadcasts; so the batch is at least 1. */
    ig_value row = ig_build_slice_axis(g, input("f32[1,8]"), 0, d("0"), ig_dim_min(dims, d("batch"), d("1")), 1);
    check_type(ig_map2(g, IG_OP_add, input("f32[batch,8]"), row), "f32[batch,8]");
    ig_graph_assume_equal(g, d("past+2"), d("min(past+2,8)"));
    ig_graph_narrow_symbols(g);
    ig_dim_range(dims, d("past"), &lo, &hi);
    assert_int_equal(hi, 6);
    ig_dim_range(dims, d("batch"), &lo, &hi);
    assert_int_equal(lo, 1);
    assert_int_equal(hi, INT32_MAX);
    ig_dim_range(dims, d("seq"), &lo, &hi);
    assert_int_equal(lo, 0);
    assert_int_equal(hi, 512);
    struct ig_graph *copy = ig_graph_create(j, dims), *old = g;
    ig_value in = ig_build_input(copy, "table", ig_type_of(g, table));
    ig_value again = ig_build_copy(copy, old, ig_def(old, rows), &in);
    g = copy;
    check_type(again, "f32[seq,8]");
}

/* A one-node text that must be refused, with a message that contains `message`. */
struct refusal {
    const char *text, *message;
};

static void parse_body(struct ig_job *j, void *argument) {
    dims = ig_dims_create(j);
    g = ig_graph_parse(j, dims, argument, strlen(argument));
}

static const struct refusal refusals[] = {
    {"%1 = add(%0, %0): f32[2,3]", NULL},
    {"%1 = constant {data=[1,2]}: i64[3]", "expected '('"},
    {"%1 = constant() {data=[1,2]}: i64[3]", "the data do not fit the type"},
    {"%1 = constant() {data=[1,2,3,4]}: f32[4]\n%2 = add(%0, %1): f32[2,3]",
     "add(f32[2,3], f32[4]): the shapes cannot be broadcast (axis 1)"},
    {"%1 = transpose(%0) {perm=[1,0]}: f32[3,2]\n%2 = add(%0, %1): f32[2,3]", "add(f32[2,3], f32[3,2])"},
    {"%1 = cast(%0) {to=i64, saturate=0}: i64[2,3]\n%2 = exp(%1): i64[2,3]", "expected a floating-point type"},
    {"%1 = cast(%0) {to=i64, saturate=0}: i64[2,3]\n%2 = add(%0, %1): i64[2,3]", "different types"},
    {"%1 = reshape(%0) {dims=[4,2]}: f32[4,2]", "6 elements cannot be reshaped to 8"},
    {"%1 = transpose(%0) {perm=[0,0]}: f32[2,2]", "perm is no permutation"},
    {"%1 = transpose(%0) {perm=[0]}: f32[2,2]", "attribute 'perm' has 1 values, expected 2"},
    {"%1 = broadcast(%0) {dims=[5,3]}: f32[5,3]", "dim 2 cannot be broadcast to 5"},
    {"%1 = slice(%0) {starts=[0,1], sizes=[2,3], steps=[1,1]}: f32[2,3]", "axis 1: elements 1 to 3 are outside of 3"},
    {"%1 = slice(%0) {starts=[0,0], sizes=[2,3], steps=[1,0]}: f32[2,3]", "the step is 0"},
    {"%1 = pad(%0) {before=[2,0], after=[0,0], mode=1}: f32[4,3]", "cannot be reflected"},
    {"%1 = concat(%0, %0) {axis=2}: f32[2,3]", "axis 2 is outside of rank 2"},
    {"%1 = gather(%0, %0) {axis=0}: f32[2,3]", "indices have type f32"},
    {"%1 = reduce_sum(%0) {axes=[1,1]}: f32[2,1]", "axis 1 occurs twice"},
    {"%1 = matmul(%0, %0) {acc=f32, packed=0, n=0, math=0}: f32[2,3]",
     "matmul(f32[2,3], f32[2,3]): inner dims 3 and 2 differ"},
    {"%1 = constant() {data=[1,2,3,4,5,6]}: u8[2,3]\n"
     "%2 = matmul_blocks(%0, %1, %0) {acc=f32, bits=4, block=2, offset=0, packed=0, n=0}: f32[2,2]",
     "dims of scales and blocks 3 and 2 differ"},
    {"%1 = constant() {data=[1,2,3,4,5,6]}: u8[2,3]\n"
     "%2 = matmul_blocks(%0, %1, %0) {acc=f32, bits=4, block=1, offset=0, packed=1, n=2}: f32[2,2]",
     "input 1 has rank 2, expected 3"},
    {"%1 = matmul_blocks(%0, %0, %0) {acc=f32, bits=4, block=1, offset=0, packed=0, n=0}: f32[2,2]",
     "input 1 has type f32, expected u8"},
    {"%1 = matmul_blocks(%0, %0, %0) {acc=f32, bits=3, block=1, offset=0, packed=0, n=0}: f32[2,2]", "codes of 3 bits"},
    {"%1 = matmul_blocks(%0, %0, %0) {acc=f32, bits=4, block=0, offset=0, packed=0, n=0}: f32[2,2]", "blocks of 0"},
    {"%1 = matmul_blocks(%0, %0, %0) {acc=i32, bits=4, block=1, offset=0, packed=0, n=0}: f32[2,2]",
     "unknown type of the result"},
#define SCALED(attributes) \
    "%1 = constant() {data=[1,2,3,4,5,6]}: u8[2,3]\n%2 = matmul_scaled(%1, %1, %0, %0) {" attributes "}: f32[2,2]"
    {SCALED("acc=f32, block=1, columns=1"), "dims of scales and blocks 2 and 3 differ"},
    {SCALED("acc=f32, block=2, columns=1"), "dims of scales and blocks 3 and 2 differ"},
    {SCALED("acc=i32, block=1, columns=1"), "scaled sums are accumulated in f32 only"},
    {SCALED("acc=f32, block=0, columns=1"), "blocks of 0"},
    {SCALED("acc=f32, block=1, columns=0"), "scales for 0 columns"},
    {"%1 = matmul_scaled(%0, %0, %0, %0) {acc=f32, block=1, columns=1}: f32[2,2]",
     "the operands are neither floats of 8 bits nor bytes"},
    {"%1 = matmul(%0, %0) {acc=i32, packed=0, n=0, math=0}: f32[2,3]", "type f32 cannot be accumulated in i32"},
#define CONV                                                                                                          \
    "conv(%1, %1) {strides=[1], dilations=[1], before=[0], after=[0], groups=1, acc=i32, channels_last=0, packed=0, " \
    "n=1, kernel=[1], math=0, border="
    {"%1 = constant() {data=[1]}: i8[1,1,1]\n%2 = " CONV "-128}: i32[1,1,1]", NULL},
    {"%1 = constant() {data=[1]}: i8[1,1,1]\n%2 = " CONV "128}: i32[1,1,1]", "128 beyond the edges of i8"},
    {"%1 = constant() {data=[1]}: u8[1,1,1]\n%2 = " CONV "-1}: i32[1,1,1]", "-1 beyond the edges of u8"},
    {"%1 = constant() {data=[1]}: i32[1,1,1]\n%2 = " CONV "1}: i32[1,1,1]", "1 beyond the edges of i32"},
    {"%1, %2 = topk(%0) {axis=1, k=4, largest=1}: f32[2,4], i64[2,4]", "k = 4 is more than the 3 elements"},
    {"%1 = add(%0): f32[2,3]", "1 inputs do not fit"},
    {"%1 = add(%0, -): f32[2,3]", "input 1 is missing"},
    {"%1 = where(%0, %0, %0): f32[2,3]", "input 0 has type f32, expected bool"},
    {"%1 = add(%0, %0): f32[2,4]", "line 3, column 6: result 0 is f32[2,3]"},
    {"%1 = add(%0, %7): f32[2,3]", "line 3, column 14: %7 is not defined"},
    {"%0 = add(%0, %0): f32[2,3]", "%0 is defined twice"},
    {"%1 = ad(%0, %0): f32[2,3]", "there is no such operator"},
    {"%1 = constant() {data=hash:0000000000000001}: f32[999999999999]", "the data do not fit the type"},
    {"%1 = constant() {data=[1], initializer=w}: f32[1]", "expected a string"},
    {"%1 = iota() {dims=[n,?], axis=0}: i64[n,2]", "attribute 'dims' is not known"},
    {"%1 = reshape(%0) {dims=[1,1,1,1,1,1,1,2,3]}: f32[6]", "rank 9"},
    {"output \"y\" = %1", "%1 is not defined"},
    {"output \"y\" = %0 updates 0", NULL},
    {"output \"y\" = %0 updates 1", "there is no input to update"},
    {"output \"y\" = %0 updates -1", "there is no input to update"},
    {"%1 = reshape(%0) {dims=[6]}: f32[6]\noutput \"y\" = %1 updates 0", "of different types"},
    {"output \"y\" = %0 updates 0\noutput \"z\" = %0 updates 0", "updated already"},
};

static void messages(void **state) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char text[512];
        snprintf(text, sizeof text, "graph {\ninput %%0 \"x\": f32[2,3]\n%s\n}\n", refusals[i].text);
        enum ingot_status status = try_run(parse_body, text);
        if (refusals[i].message == NULL) {
            assert_int_equal(status, INGOT_OK);
            continue;
        }
        if (status != INGOT_BAD_MODEL || strstr(error.message, refusals[i].message) == NULL)
            fail_msg("'%s' gives: %s", refusals[i].text, status == INGOT_OK ? "no error" : error.message);
    }
}

/* ---- The text form */

/* Every operator that is not elementwise; make_everything adds the elementwise ones. */
static const char all_ops[] =
    "  %4 \"flags\" = lt(%0, %0): bool[2,3]\n"
    "  %5 = where(%4, %0, %0): f32[2,3]\n"
    "  %6 = cast(%0) {to=f16, saturate=0}: f16[2,3]\n"
    "  %7 = constant() {data=[1,-0,nan,inf,0.1]}: f32[5]\n"
    "  %8 \"w\" = constant() {data=hash:00000000deadbeef, initializer=\"w\"}: f32[4,3,3,3]\n"
    "  %9 = shape() {values=[n,2*n+1,floor(n/2)], scalar=0}: i64[3]\n"
    "  %10 = iota() {dims=[n,2], axis=1}: i64[n,2]\n"
    "  %11 = reshape(%0) {dims=[6]}: f32[6]\n"
    "  %12 = transpose(%0) {perm=[1,0]}: f32[3,2]\n"
    "  %13 = broadcast(%0) {dims=[n,2,3]}: f32[n,2,3]\n"
    "  %14 = slice(%0) {starts=[0,2], sizes=[1,2], steps=[1,-1]}: f32[1,2]\n"
    "  %15 = pad(%0, -) {before=[0,1], after=[n,0], mode=0}: f32[n+2,4]\n"
    "  %16 = concat(%0, %5, %0) {axis=0}: f32[6,3]\n"
    "  %17 = gather(%0, %3) {axis=1}: f32[2,2,3]\n"
    "  %18 = gather_elements(%0, %3) {axis=1}: f32[2,3]\n"
    "  %19 = gather_nd(%1, %3) {batch_dims=0}: f32[2,w]\n"
    "  %20 = scatter_elements(%0, %3, %0) {axis=0, reduction=1}: f32[2,3]\n"
    "  %21 = scatter_nd(%1, %3, %19) {reduction=0}: f32[n,3,h,w]\n"
    "  %22 = reduce_sum(%0) {axes=[1]}: f32[2,1]\n"
    "  %23 = reduce_mean(%0) {axes=[0,1]}: f32[1,1]\n"
    "  %24 = reduce_prod(%0) {axes=[0]}: f32[1,3]\n"
    "  %25 = reduce_max(%0) {axes=[0]}: f32[1,3]\n"
    "  %26 = reduce_min(%0) {axes=[]}: f32[2,3]\n"
    "  %27 = argmax(%0) {axis=1, last=0}: i64[2,1]\n"
    "  %28 = argmin(%0) {axis=0, last=1}: i64[1,3]\n"
    "  %29 = cumsum(%0) {axis=1, exclusive=0, reverse=1}: f32[2,3]\n"
    "  %30 = cumprod(%0) {axis=1, exclusive=1, reverse=0}: f32[2,3]\n"
    "  %31 \"values\", %32 \"indices\" = topk(%0) {axis=1, k=2, largest=1}: f32[2,2], i64[2,2]\n"
    "  %33 = matmul(%0, %12) {acc=f32, packed=0, n=0, math=0}: f32[2,2] @ \"MatMul 'a \\\"b\\\"'\"\n"
    "  %34 = conv(%1, %8) {strides=[1,1], dilations=[1,1], before=[1,1], after=[1,1], groups=1, acc=f32, "
    "channels_last=0, packed=0, n=4, kernel=[3,3], math=0, border=0}: f32[n,4,h,w]\n"
    "  %35 = pool_max(%1) {kernel=[2,2], strides=[2,2], dilations=[1,1], before=[0,0], "
    "sizes=[floor(h/2),floor(w/2)], channels_last=0}: f32[n,3,floor(h/2),floor(w/2)]\n"
    "  %36 = pool_argmax(%1) {kernel=[2,2], strides=[2,2], dilations=[1,1], before=[0,0], "
    "sizes=[floor(h/2),floor(w/2)], channels_last=0, column_major=0}: i64[n,3,floor(h/2),floor(w/2)]\n"
    "  %37 = pool_sum(%1) {kernel=[2,2], strides=[2,2], dilations=[1,1], before=[0,0], "
    "sizes=[floor(h/2),floor(w/2)], channels_last=1}: f32[n,floor(h/2),floor(w/2),w]\n"
    "  %38 = pool_avg(%1) {kernel=[2,2], strides=[2,2], dilations=[1,1], before=[0,0], "
    "sizes=[h,w], channels_last=0, after=[1,1], count_pad=1}: f32[n,3,h,w]\n"
    "  %39 = constant() {data=hash:00000000deadbeef}: f32[7,2,20]\n"
    "  %40 = constant() {data=hash:00000000deadbeef}: f32[20,5]\n"
    "  %41 = constant() {data=[0,0,0,0,0,0,0,0,0,0]}: f32[2,5]\n"
    "  %42 \"y\", %43, %44 = lstm(%39, %40, %41, %41, -, -) {reverse=1, activations=[0,1,1], clip=0.5, input_forget=0, "
    "alphas=[0,0,0.1], betas=[0,0,0]}: f32[7,2,5], f32[2,5], f32[2,5]\n"
    "  %45 = constant() {data=hash:00000000deadbeef}: f32[7,2,15]\n"
    "  %46 = constant() {data=hash:00000000deadbeef}: f32[15,5]\n"
    "  %47, %48 = gru(%45, %46, %41) {reverse=0, activations=[0,1], clip=0, linear_before_reset=0, alphas=[0,0], "
    "betas=[0,0]}: f32[7,2,5], f32[2,5]\n"
    "  %49 = constant() {data=hash:00000000deadbeef}: f32[7,2,5]\n"
    "  %50 = constant() {data=hash:00000000deadbeef}: f32[5,5]\n"
    "  %51, %52 = rnn(%49, %50, %41) {reverse=0, activations=[1], clip=0, alphas=[0], betas=[0]}: f32[7,2,5], "
    "f32[2,5]\n"
    "  %53 = if(%2, %0): f32[2,3] @ \"If 'i'\"\n"
    "  then {\n"
    "    input %0 \"x\": f32[2,3]\n"
    "    output \"a\" = %0\n"
    "  }\n"
    "  else {\n"
    "    input %0 \"x\": f32[2,3]\n"
    "    %1 = neg(%0): f32[2,3]\n"
    "    output \"a\" = %1\n"
    "  }\n"
    "  %54, %55 = loop(-, %2, %0) {trip=n, carried=1}: f32[2,3], f32[n,2,3]\n"
    "  body {\n"
    "    input %0 \"i\": i64[]\n"
    "    input %1 \"c\": bool[]\n"
    "    input %2 \"x\": f32[2,3]\n"
    "    %3 = abs(%2): f32[2,3]\n"
    "    output \"c\" = %1\n"
    "    output \"x\" = %3\n"
    "    output \"s\" = %3\n"
    "  }\n"
    "  %56 = constant() {data=[1,2,3,4,5,6]}: u8[2,3]\n"
    "  %57 = matmul_blocks(%0, %56, %22, -, -) {acc=f32, bits=4, block=3, offset=8, packed=0, n=0}: f32[2,2]\n"
    "  %58 = all_reduce(%0) {number=0, ranks=2, reduction=0}: f32[2,3]\n"
    "  %59 = all_gather(%1) {number=1, rank=1, axis=0, parts=[n+1,n]}: f32[2*n+1,3,h,w]\n"
    "  %60 = reduce_scatter(%0) {number=2, rank=0, axis=1, parts=[1,2], reduction=1}: f32[2,1]\n"
    "  %61 = all_to_all(%0) {number=3, ranks=2}: f32[2,3]\n"
    "  %62 = broadcast_from(%0) {number=4, ranks=4, root=3}: f32[2,3]\n"
    "  %63 = constant() {data=[1,2]}: f32[1,2]\n"
    "  %64 = matmul_scaled(%56, %56, %22, %63) {acc=f32, block=3, columns=1}: f32[2,2]\n";

static char everything[32768];

static void append(const char *format, ...) {
    size_t length = strlen(everything);
    va_list args;
    va_start(args, format);
    vsnprintf(everything + length, sizeof everything - length, format, args);
    va_end(args);
}

/* all_ops, and every elementwise operator on operands of suitable types. */
static void make_everything(void) {
    static const char *const operand[] = {"%0", "%3", "%0", "%4", "%3"};
    static const char *const type[] = {"f32[2,3]", "i64[2,3]", "f32[2,3]", "bool[2,3]", "i64[2,3]"};
    int number = 65;
    everything[0] = 0;
    append("symbol n from 1 to 64\ngraph {\n  input %%0 \"x\": f32[2,3]\n  input %%1 \"image\": f32[n,3,h,w]\n"
           "  input %%2 \"c\": bool[]\n  input %%3 \"indices\": i64[2,3] = [0,1,2,?,n-1,\"a b\"]\n");
    append("%s", all_ops);
    for (int op = 0; op < IG_OP_COUNT; op++) {
        const struct ig_op_info *info = ig_op_info((enum ig_op)op);
        if (!info->is_map) continue;
        const char *in = operand[info->operands];
        append("  %%%d = %s(%s%s%s): %s\n", number++, info->name, in, info->min_in > 1 ? ", " : "",
               info->min_in > 1 ? in : "", info->result_bool ? "bool[2,3]" : type[info->operands]);
    }
    append("  output \"x\" = %%0 updates 0\n  output \"y \\\\ \\x01\" = %%%d\n}\n", number - 1);
}

static const char *print(struct ig_graph *graph, unsigned flags) {
    struct ig_text text;
    ig_text_init(&text, &job);
    ig_graph_print(graph, flags, &text);
    return text.at;
}

static void round_trip_body(struct ig_job *j, void *argument) {
    bool seen[IG_OP_COUNT] = {false};
    make_everything();
    parse_body(j, everything);
    assert_string_equal(print(g, 0), everything);
    for (ig_node_id id = 0; id < g->nodes.count; id++)
        seen[g->nodes.at[id].op] = true;
    for (int op = 0; op < IG_OP_COUNT; op++) {
        if (!seen[op]) fail_msg("%s does not occur", ig_op_info((enum ig_op)op)->name);
    }
    ig_graph_verify(g, "parsing");
}

static void data_body(struct ig_job *j, void *argument) {
    unsigned char bytes[251];
    int64_t shape[1] = {251};
    for (int i = 0; i < 251; i++)
        bytes[i] = (unsigned char)(i * 7);
    start(j);
    for (int size = 17; size < 20; size++) { /* each remainder modulo 3, for base 64 */
        struct ig_data data = {.bytes = bytes, .size = (size_t)size};
        shape[0] = size;
        ig_build_output(g, "w", ig_build_constant(g, INGOT_U8, 1, shape, &data));
    }
    const char *full = print(g, IG_PRINT_DATA), *brief = print(g, 0);
    parse_body(j, (void *)full);
    assert_string_equal(print(g, IG_PRINT_DATA), full);
    assert_string_equal(print(g, 0), brief);
    const struct ig_node *node = ig_def(g, g->outputs.at[2].value);
    assert_memory_equal(ig_attr(g, node, IG_ATTR_data)->data->bytes, bytes, 19);
    parse_body(j, (void *)brief);
    assert_string_equal(print(g, 0), brief);
}

/* A graph that is parsed, and its copy through the builder, print the same. */
static void copy_body(struct ig_job *j, void *argument) {
    make_everything();
    parse_body(j, everything);
    struct ig_graph *from = g, *to = ig_graph_create(j, dims);
    ig_value map[256];
    for (uint32_t i = 0; i < from->inputs.count; i++) {
        const struct ig_port *port = &from->inputs.at[i];
        map[port->value] = ig_build_input(to, port->name, ig_type_of(from, port->value));
    }
    for (ig_node_id id = 0; id < from->nodes.count; id++) {
        const struct ig_node *node = &from->nodes.at[id];
        ig_value in[16];
        for (uint32_t i = 0; i < node->n_in; i++)
            in[i] = node->in[i] == IG_NO_VALUE ? IG_NO_VALUE : map[node->in[i]];
        ig_value out = ig_build_copy(to, from, node, in);
        for (uint32_t i = 0; i < node->n_out; i++)
            map[node->out + i] = out + i;
    }
    ig_graph_verify(to, "copying");
    assert_true(to->nodes.count < from->nodes.count); /* lt occurs twice; reduce_min over no axes is dropped */
}

static void damaged(void **state) {
    uint32_t random = 1;
    make_everything();
    size_t length = strlen(everything);
    for (int i = 0; i < 3000; i++) {
        static char text[sizeof everything];
        memcpy(text, everything, length + 1);
        for (int k = 0; k < 1 + i % 3; k++) {
            random = random * 1664525u + 1013904223u;
            size_t at = (random >> 8) % length;
            random = random * 1664525u + 1013904223u;
            switch (random >> 30) {
            case 0: text[at] = (char)(random >> 16); break;
            case 1: text[at] = "0123456789[]{}(),%\"-"[(random >> 10) % 20]; break;
            case 2: memmove(text + at, text + at + 1, length - at); break;
            default: text[at] = 0; break;
            }
        }
        ig_job_deinit(&job);
        ig_job_init(&job, &ig_libc_allocator);
        enum ingot_status status = try_run(parse_body, text);
        if (status != INGOT_OK && status != INGOT_BAD_MODEL && status != INGOT_UNSUPPORTED)
            fail_msg("%d: %s", i, error.message);
    }
}

/* ---- The verifier */

static void verify_body(struct ig_job *j, void *argument) {
    int which = *(int *)argument;
    start(j);
    ig_value x = input("f32[2,3]"), y = ig_map1(g, IG_OP_exp, x), z = ig_map1(g, IG_OP_log, y);
    ig_build_output(g, "z", z);
    ig_graph_verify(g, "building");
    if (which == 1) g->values.at[y].type.dim[0] = d("4");
    if (which == 2) g->values.at[z].is_const = true;
    if (which == 3) ((ig_value *)g->nodes.at[0].in)[0] = z;
    if (which == 4) g->outputs.at[0].value = 99;
    if (which == 5) g->values.at[y].node = IG_NO_NODE;
    if (which == 6) g->nodes.at[1].n_out = 7;
    if (which == 7) g->nodes.at[1].op = IG_OP_add;
    ig_graph_verify(g, "the test");
}

static void verifier(void **state) {
    int which = 0;
    assert_int_equal(try_run(verify_body, &which), INGOT_OK);
    for (which = 1; which <= 7; which++) {
        assert_int_equal(try_run(verify_body, &which), INGOT_INTERNAL);
        assert_non_null(strstr(error.message, "the graph is broken after the test"));
    }
}

static void sharing(void **state) {
    run(sharing_body);
}
static void identities(void **state) {
    run(identity_body);
}
static void elements(void **state) {
    run(elements_body);
}
static void more_elements(void **state) {
    run(elements_more_body);
}
static void recipes(void **state) {
    run(recipes_body);
}
static void inference(void **state) {
    run(inference_body);
}
static void narrowing(void **state) {
    run(narrowing_body);
}
static void round_trip(void **state) {
    run(round_trip_body);
}
static void data_text(void **state) {
    run(data_body);
}
static void copies(void **state) {
    run(copy_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sharing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(identities, set_up, tear_down),
        cmocka_unit_test_setup_teardown(elements, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_elements, set_up, tear_down),
        cmocka_unit_test_setup_teardown(recipes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(inference, set_up, tear_down),
        cmocka_unit_test_setup_teardown(narrowing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verifier, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
