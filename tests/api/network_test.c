/* Networks made by code: what they compute, that they are what the import of a file makes, their errors, hostile operators. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph.h"
#include "support/counting_allocator.h"
#include "support/model/by_code.h"
#include "support/model/onnx_model.h"

static void take_text(void *user, const char *text, size_t length) {
    char **all = user;
    size_t before = *all ? strlen(*all) : 0;
    *all = realloc(*all, before + length + 1);
    memcpy(*all + before, text, length);
    (*all)[before + length] = 0;
}

static char *print(struct ingot_model *model) {
    char *text = NULL;
    struct ingot_sink sink = {&text, take_text};
    MUST(ingot_model_print(model, &sink, &by_code_error));
    return text;
}

/* ---- What networks compute */

enum { IN = 3, HIDDEN = 4 };
static const float w1[IN * HIDDEN] = {1, -2, 3, 0.5f, 0, 1, -1, 2, 4, 0.25f, -3, 1}, b1[HIDDEN] = {0.5f, 0, -1, 2};

/* y = sum over the hidden units of relu(x w1 + b1): one operator of ONNX's, and core ones. */
static struct ingot_network *perceptron(bool copy) {
    struct ingot_network *network = network_create();
    ingot_value x = network_input(network, "x", INGOT_F32, 2, (const char *const[]){"batch", "3"});
    ingot_value w = network_weight(network, "fc.weight", IN, HIDDEN, w1),
                b = network_weight(network, "fc.bias", HIDDEN, 0, b1);
    ingot_value h = network_add(network, "Gemm", INPUTS(x, w, b), NULL, 0);
    h = network_add(network, "max", INPUTS(h, network_scalar(network, 0)), NULL, 0);
    h = network_add(network, "reduce_sum", INPUTS(h), ATTRIBUTES(INTS("axes", 1)));
    h = network_add(network, "reshape", INPUTS(h), ATTRIBUTES(DIMS("dims", "batch")));
    MUST(ingot_network_output(network, "y", h, &by_code_error));
    return network;
}

static float expected(const float *x, const float *w) {
    float sum = 0;
    for (int j = 0; j < HIDDEN; j++) {
        float h = b1[j];
        for (int i = 0; i < IN; i++)
            h += x[i] * w[i * HIDDEN + j];
        sum += fmaxf(h, 0);
    }
    return sum;
}

static const float rows[2 * IN] = {1, 2, 3, -1, 0.5f, 0};

static void run(struct ingot_engine *engine, const float *w) {
    struct ingot_tensor x = {INGOT_F32, 2, {2, IN}, (void *)rows, INGOT_HOST}, y;
    struct ingot_context *context;
    MUST(ingot_context_create(engine, NULL, &context, &by_code_error));
    MUST(ingot_context_set_input(context, 0, &x, &by_code_error));
    MUST(ingot_context_run(context, &by_code_error));
    MUST(ingot_context_output(context, 0, &y, &by_code_error));
    assert_int_equal(y.rank, 1);
    assert_int_equal(y.dims[0], 2);
    for (int i = 0; i < 2; i++)
        assert_true(fabsf(((float *)y.data)[i] - expected(rows + i * IN, w)) < 1e-5f);
    ingot_context_destroy(context);
}

static void test_engine(void **state) {
    struct ingot_model *model = network_finish(perceptron(false));
    struct ingot_tensor_info info;
    struct ingot_engine *engine;
    void *data;
    size_t size;
    ingot_model_input(model, 0, &info);
    assert_string_equal(info.symbols[0], "batch");
    MUST(ingot_model_build_memory(model, NULL, &data, &size, &by_code_error));
    MUST(ingot_engine_load_memory(data, size, NULL, &engine, &by_code_error));
    run(engine, w1);
    float other[IN * HIDDEN];
    for (int i = 0; i < IN * HIDDEN; i++)
        other[i] = 3 - w1[i];
    struct ingot_named_tensor given = {"fc.weight", {INGOT_F32, 2, {IN, HIDDEN}, other, INGOT_HOST}, NULL, false};
    struct ingot_refit_options options = INGOT_REFIT_OPTIONS_INIT;
    options.partial = true;
    MUST(ingot_engine_refit(engine, &given, 1, &options, NULL, &by_code_error));
    run(engine, other);
    ingot_engine_release(engine);
    ingot_blob_release(model, data, size);
    ingot_model_destroy(model);
}

/* Data that the caller changes after the call, and data at any address. */
static void test_copies(void **state) {
    struct ingot_network *network = network_create();
    _Alignas(8) char bytes[sizeof(float) + 1];
    float one = 1, result;
    memcpy(bytes + 1, &one, sizeof one);
    struct ingot_tensor tensor = {INGOT_F32, 0, {0}, bytes + 1, INGOT_HOST}, y;
    ingot_value a, b, c;
    MUST(ingot_network_weight(network, "a", &tensor, false, &a, &by_code_error));
    tensor.data = &one;
    MUST(ingot_network_weight(network, "b", &tensor, true, &b, &by_code_error));
    MUST(ingot_network_constant(network, &tensor, &c, &by_code_error));
    memset(bytes, 0, sizeof bytes);
    one = 100;
    ingot_value sum =
        network_add(network, "add", INPUTS(network_add(network, "Add", INPUTS(a, b), NULL, 0), c), NULL, 0);
    MUST(ingot_network_output(network, "y", sum, &by_code_error));
    struct ingot_model *model = network_finish(network);
    MUST(ingot_model_evaluate(model, NULL, 0, &y, 1, &by_code_error));
    memcpy(&result, y.data, sizeof result);
    assert_true(result == 3);
    ingot_model_destroy(model);
}

/* ---- The same as a file's */

static void test_same_as_import(void **state) {
    struct test_model file;
    size_t size;
    struct ingot_model *imported;
    test_model_init(&file, 21);
    test_input(&file, NULL, "x", TEST_FLOAT, "batch 4 h w");
    Onnx__NodeProto *pool = test_node(&file, NULL, "MaxPool", "x", "pooled");
    Onnx__NodeProto *softmax = test_node(&file, NULL, "Softmax", "pooled", "y");
    Onnx__NodeProto *relu = test_node(&file, NULL, "LeakyRelu", "x", "z");
    pool->name = "pooled";
    softmax->name = "y";
    relu->name = "z";
    test_attributes(&file, pool, "kernel_shape=[3 3]; strides=[2 2]; auto_pad='SAME_UPPER'");
    test_attributes(&file, softmax, "axis=1");
    test_attributes(&file, relu, "alpha=0.25f");
    test_output(&file, NULL, "y");
    test_output(&file, NULL, "z");
    void *packed = test_model_pack(&file, &size);
    MUST(ingot_model_load_memory(packed, size, NULL, NULL, &imported, &by_code_error));

    struct ingot_network_options options = INGOT_NETWORK_OPTIONS_INIT;
    struct ingot_network *network;
    options.onnx_opset = 21;
    MUST(ingot_network_create(&options, &network, &by_code_error));
    ingot_value x = network_input(network, "x", INGOT_F32, 4, (const char *const[]){"batch", "4", "h", "w"}), y, z;
    struct ingot_attribute pooling[] = {INTS("kernel_shape", 3, 3),
                                        INTS("strides", 2, 2),
                                        {"auto_pad", INGOT_ATTRIBUTE_STRING, 0, {.string = "SAME_UPPER"}}};
    struct ingot_operator op = network_operator("MaxPool", &x, 1, pooling, 3);
    op.label = "pooled";
    MUST(ingot_network_add(network, &op, &y, 1, &by_code_error));
    op = network_operator("Softmax", &y, 1, (struct ingot_attribute[]){INT("axis", 1)}, 1);
    op.label = "y";
    MUST(ingot_network_add(network, &op, &y, 1, &by_code_error));
    op = network_operator("LeakyRelu", &x, 1,
                          (struct ingot_attribute[]){{"alpha", INGOT_ATTRIBUTE_FLOAT, 0, {.f = 0.25}}}, 1);
    op.label = "z";
    MUST(ingot_network_add(network, &op, &z, 1, &by_code_error));
    MUST(ingot_network_output(network, "y", y, &by_code_error));
    MUST(ingot_network_output(network, "z", z, &by_code_error));
    struct ingot_model *made = network_finish(network);
    char *one = print(imported), *other = print(made);
    assert_string_equal(one, other);
    free(one);
    free(other);
    ingot_model_destroy(made);
    ingot_model_destroy(imported);
    test_model_deinit(&file);
}

/* ---- What files say about themselves */

static void test_metadata(void **state) {
    struct test_model file;
    struct ingot_model *model;
    struct ingot_model_metadata about;
    size_t size;
    test_model_init(&file, 21);
    test_input(&file, NULL, "x", TEST_FLOAT, "3");
    test_node(&file, NULL, "Relu", "x", "y");
    test_output(&file, NULL, "y");
    Onnx__StringStringEntryProto one = ONNX__STRING_STRING_ENTRY_PROTO__INIT, two = one;
    Onnx__StringStringEntryProto *entries[] = {&one, &two};
    one.key = "names";
    one.value = "{0: 'cat'}";
    two.key = "empty";
    file.proto->producer_name = "pytorch";
    file.proto->has_model_version = 1;
    file.proto->model_version = 7;
    file.proto->doc_string = "What it is.";
    file.proto->metadata_props = entries;
    file.proto->n_metadata_props = 2;
    void *packed = test_model_pack(&file, &size);
    MUST(ingot_model_load_memory(packed, size, NULL, NULL, &model, &by_code_error));
    ingot_model_describe(model, &about);
    assert_string_equal(about.producer, "pytorch");
    assert_string_equal(about.producer_version, "");
    assert_string_equal(about.description, "What it is.");
    assert_int_equal(about.version, 7);
    assert_int_equal(about.n_properties, 2);
    assert_string_equal(about.properties[0].key, "names");
    assert_string_equal(about.properties[0].value, "{0: 'cat'}");
    assert_string_equal(about.properties[1].value, "");
    ingot_model_destroy(model);
    test_model_deinit(&file);
    model = network_finish(perceptron(false));
    ingot_model_describe(model, &about);
    assert_string_equal(about.producer, "");
    assert_int_equal(about.n_properties, 0);
    ingot_model_destroy(model);
}

/* ---- Sizes */

static void test_symbols(void **state) {
    struct ingot_network *network = network_create();
    struct ingot_tensor_info info;
    struct ingot_model *model;
    ingot_value n, late;
    ingot_value x = network_input(network, "x", INGOT_F32, 1, (const char *const[]){"2*seq+1"});
    MUST(ingot_network_output(network, "y", x, &by_code_error));
    assert_int_equal(ingot_network_finish(network, &model, &by_code_error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(by_code_error.message, "'seq'"));
    MUST(ingot_network_size_input(network, "seq", "seq", &late, &by_code_error));
    MUST(ingot_network_size_input(network, "n", "n", &n, &by_code_error));
    MUST(ingot_network_set_range(network, "n", 1, 8, &by_code_error));
    MUST(ingot_network_set_range(network, "n", 0, 6, &by_code_error));
    assert_int_equal(ingot_network_set_range(network, "n", 7, 9, &by_code_error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_network_set_range(network, "m", 7, 9, &by_code_error), INGOT_INVALID_ARGUMENT);
    ingot_value iota = network_add(network, "iota", NULL, 0, ATTRIBUTES(DIMS("dims", "n", "3"), INT("axis", 0)));
    MUST(ingot_network_describe(network, iota, &info, &by_code_error));
    assert_int_equal(info.dtype, INGOT_I64);
    assert_int_equal(info.dims[0], -1);
    assert_string_equal(info.symbols[0], "n");
    assert_int_equal(info.dims[1], 3);
    MUST(ingot_network_output(network, "z", iota, &by_code_error));
    model = network_finish(network);
    float data[5] = {0};
    int64_t two = 2, four = 4;
    struct ingot_tensor inputs[] = {{INGOT_F32, 1, {5}, data, INGOT_HOST},
                                    {INGOT_I64, 0, {0}, &two, INGOT_HOST},
                                    {INGOT_I64, 0, {0}, &four, INGOT_HOST}};
    struct ingot_tensor outputs[2];
    MUST(ingot_model_evaluate(model, inputs, 3, outputs, 2, &by_code_error));
    assert_int_equal(outputs[1].dims[0], 4);
    assert_int_equal(((int64_t *)outputs[1].data)[3 * 3], 3);
    ingot_model_destroy(model);
}

/* ---- Control flow */

static void test_bodies(void **state) {
    struct ingot_network *network = network_create(), *body, *stranger = network_create(), *other;
    ingot_value x = network_input(network, "x", INGOT_F32, 1, (const char *const[]){"n"});
    MUST(ingot_network_create_body(network, &body, &by_code_error));
    network_input(body, "i", INGOT_I64, 0, NULL);
    ingot_value going = network_input(body, "going", INGOT_BOOL, 0, NULL);
    ingot_value carried = network_input(body, "x", INGOT_F32, 1, (const char *const[]){"n"});
    ingot_value doubled = network_add(body, "add", INPUTS(carried, carried), NULL, 0);
    MUST(ingot_network_output(body, "going", going, &by_code_error));
    MUST(ingot_network_output(body, "x", doubled, &by_code_error));
    struct ingot_tensor three = {INGOT_I64, 0, {0}, &(int64_t){3}, INGOT_HOST}, y;
    ingot_value trip;
    MUST(ingot_network_constant(network, &three, &trip, &by_code_error));
    struct ingot_attribute attributes[] = {
        INT("carried", 1), INT("trip", 3), {"body", INGOT_ATTRIBUTE_BODY, 0, {.body = body}}};
    struct ingot_operator loop = network_operator("loop", (ingot_value[]){trip, INGOT_NO_VALUE, x}, 3, attributes, 3);
    ingot_value out;
    assert_int_equal(ingot_network_add(stranger, &loop, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT);
    MUST(ingot_network_add(network, &loop, &out, 1, &by_code_error));
    assert_int_equal(ingot_network_add(network, &loop, &out, 1, &by_code_error),
                     INGOT_INVALID_ARGUMENT); /* given twice */
    loop.n_attributes = 2;
    assert_int_equal(ingot_network_add(network, &loop, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(by_code_error.message, "'body' is missing"));
    assert_int_equal(ingot_network_output(body, "late", doubled, &by_code_error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_network_finish(body, &(struct ingot_model *){NULL}, &by_code_error), INGOT_INVALID_ARGUMENT);
    MUST(ingot_network_create_body(body, &other, &by_code_error)); /* within a body */
    MUST(ingot_network_output(network, "y", out, &by_code_error));
    struct ingot_model *model = network_finish(network);
    struct ingot_tensor given = {INGOT_F32, 1, {2}, (float[]){1, -0.5f}, INGOT_HOST};
    MUST(ingot_model_evaluate(model, &given, 1, &y, 1, &by_code_error));
    assert_true(((float *)y.data)[0] == 8 && ((float *)y.data)[1] == -4);
    ingot_model_destroy(model);
    ingot_network_destroy(stranger);
}

/* ---- Errors: the message, and a network that is as it was */

static void expect(enum ingot_status status, enum ingot_status expected_status, const char *part) {
    if (status != expected_status || !strstr(by_code_error.message, part))
        fail_msg("status %d: %s; expected %d: %s", (int)status, by_code_error.message, (int)expected_status, part);
}

static void test_errors(void **state) {
    struct ingot_network *network = perceptron(false);
    struct ingot_tensor bad = {INGOT_F32, 1, {4}, NULL, INGOT_HOST};
    ingot_value x = 0, out = 77;
    struct ingot_operator op = network_operator("matmul", (ingot_value[]){x, network_scalar(network, 1)}, 2, NULL, 0);
    op.label = "layer7";
    op.source = "net.py:12";
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_BAD_MODEL,
           "cannot add 'layer7' (matmul, net.py:12)");
    op.name = "Conv";
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_BAD_MODEL,
           "cannot add 'layer7' (Conv, net.py:12)");
    op.name = "conf";
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_UNSUPPORTED, "no core operator 'conf'");
    op.name = "com.microsoft.Nothing";
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_UNSUPPORTED, "com.microsoft.Nothing");
    op.name = "constant";
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT, "ingot_network_constant");
    op.name = NULL;
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT, "no name");
    op = network_operator("neg", (ingot_value[]){1000}, 1, NULL, 0);
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT, "input 0 is no value");
    op = network_operator("neg", &x, 1, NULL, 0);
    expect(ingot_network_add(network, &op, (ingot_value[2]){0}, 2, &by_code_error), INGOT_INVALID_ARGUMENT,
           "2 outputs");
    op = network_operator("reduce_sum", &x, 1, NULL, 0);
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT,
           "attribute 'axes' is missing");
    op = network_operator("reduce_sum", &x, 1, ATTRIBUTES(INT("axes", 1)));
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT,
           "'axes' is an integer, expected integers");
    op = network_operator("reduce_sum", &x, 1, ATTRIBUTES(INTS("axes", 5)));
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_BAD_MODEL, "reduce_sum");
    op = network_operator("reduce_sum", &x, 1, ATTRIBUTES(INTS("axes", 1), INTS("axes", 1)));
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT, "'axes' is given twice");
    op = network_operator("reduce_sum", &x, 1, ATTRIBUTES(INTS("axes", 1), INT("keepdim", 1)));
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT, "no attribute 'keepdim'");
    op = network_operator("matmul", (ingot_value[]){x, x}, 2, ATTRIBUTES(INT("packed", 16)));
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT, "no attribute 'packed'");
    op = network_operator("reshape", &x, 1, ATTRIBUTES(DIMS("dims", "foo", "3")));
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT, "symbol 'foo'");
    op = network_operator("reshape", &x, 1, ATTRIBUTES(DIMS("dims", "batch+", "3")));
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT, "'batch+' is no dim");
    op = network_operator("Softmax", &x, 1, ATTRIBUTES(DIMS("axis", "1")));
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT, "'axis'");
    op = network_operator("Softmax", &x, 1, ATTRIBUTES(INTS("axis", 1)));
    expect(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_BAD_MODEL, "'axis' is not an integer");
    op = network_operator("If", &x, 1, NULL, 0);
    assert_int_not_equal(ingot_network_add(network, &op, &out, 1, &by_code_error), INGOT_OK);
    expect(ingot_network_weight(network, "w", &bad, false, &out, &by_code_error), INGOT_INVALID_ARGUMENT,
           "'w' (weight): the tensor has no data");
    bad.dims[0] = -4;
    expect(ingot_network_constant(network, &bad, &out, &by_code_error), INGOT_INVALID_ARGUMENT, "dim -4");
    bad = (struct ingot_tensor){INGOT_F32, 3, {INT64_MAX, INT64_MAX, 5}, &out, INGOT_HOST};
    expect(ingot_network_constant(network, &bad, &out, &by_code_error), INGOT_INVALID_ARGUMENT, "too large");
    bad = (struct ingot_tensor){INGOT_F32, 9, {1}, &out, INGOT_HOST};
    expect(ingot_network_constant(network, &bad, &out, &by_code_error), INGOT_INVALID_ARGUMENT, "rank 9");
    bad = (struct ingot_tensor){(enum ingot_dtype)99, 1, {1}, &out, INGOT_HOST};
    expect(ingot_network_constant(network, &bad, &out, &by_code_error), INGOT_INVALID_ARGUMENT, "type 99");
    bad = (struct ingot_tensor){INGOT_F32, 1, {1}, &out, INGOT_HOST};
    expect(ingot_network_weight(network, "fc.bias", &bad, true, &out, &by_code_error), INGOT_INVALID_ARGUMENT,
           "already a weight");
    expect(ingot_network_weight(network, "", &bad, true, &out, &by_code_error), INGOT_INVALID_ARGUMENT, "name");
    const char *dims[] = {"batch", "-3"};
    expect(ingot_network_input(network, "x", INGOT_F32, 0, NULL, &out, &by_code_error), INGOT_INVALID_ARGUMENT,
           "already an input");
    expect(ingot_network_input(network, "z", INGOT_F32, 2, dims, &out, &by_code_error), INGOT_INVALID_ARGUMENT,
           "negative");
    dims[1] = "2 3";
    expect(ingot_network_input(network, "z", INGOT_F32, 2, dims, &out, &by_code_error), INGOT_INVALID_ARGUMENT,
           "no dim");
    dims[1] = NULL;
    expect(ingot_network_input(network, "z", INGOT_F32, 2, dims, &out, &by_code_error), INGOT_INVALID_ARGUMENT,
           "no dim");
    expect(ingot_network_input(network, "z", INGOT_F32, 9, dims, &out, &by_code_error), INGOT_INVALID_ARGUMENT,
           "rank 9");
    expect(ingot_network_input(network, "z", INGOT_DTYPE_NONE, 0, NULL, &out, &by_code_error), INGOT_INVALID_ARGUMENT,
           "type");
    expect(ingot_network_size_input(network, "z", "a b", &out, &by_code_error), INGOT_INVALID_ARGUMENT,
           "no name of a symbol");
    expect(ingot_network_output(network, "y", x, &by_code_error), INGOT_INVALID_ARGUMENT, "already an output");
    expect(ingot_network_output(network, "z", 1000, &by_code_error), INGOT_INVALID_ARGUMENT, "1000 is no value");
    expect(ingot_network_describe(network, 1000, &(struct ingot_tensor_info){0}, &by_code_error),
           INGOT_INVALID_ARGUMENT, "1000");
    expect(ingot_network_add(NULL, &op, &out, 1, &by_code_error), INGOT_INVALID_ARGUMENT, "no network");
    assert_int_equal(out, 77);
    struct ingot_network_options options = INGOT_NETWORK_OPTIONS_INIT;
    options.onnx_opset = 1000;
    expect(ingot_network_create(&options, &(struct ingot_network *){NULL}, &by_code_error), INGOT_UNSUPPORTED,
           "opset 1000");

    /* None of this left anything. */
    struct ingot_model *model = network_finish(network);
    struct ingot_tensor given = {INGOT_F32, 2, {2, IN}, (void *)rows, INGOT_HOST}, y;
    MUST(ingot_model_evaluate(model, &given, 1, &y, 1, &by_code_error));
    assert_true(fabsf(((float *)y.data)[1] - expected(rows + IN, w1)) < 1e-5f);
    ingot_model_destroy(model);
    struct ingot_network *empty = network_create();
    expect(ingot_network_finish(empty, &model, &by_code_error), INGOT_INVALID_ARGUMENT, "no outputs");
    ingot_network_destroy(empty);
    ingot_network_destroy(NULL);
}

/* ---- Hostile operators: every operator, with attributes of every name and kind, never breaks an invariant */

static const char *const core_names[] = {
#define IG_MAP(name, ...) #name,
#define IG_OP(name, ...) #name,
#include "ir/ops.def"
};
static const char *const onnx_names[] = {
#define IG_ONNX(domain, op, ...) #op,
#include "import/onnx/operators.def"
#undef IG_ONNX
};
static const char *const onnx_attributes[] = {
    "axis",     "axes",        "perm",      "kernel_shape", "strides",     "pads",    "dilations",
    "group",    "to",          "keepdims",  "alpha",        "auto_pad",    "mode",    "value",
    "equation", "hidden_size", "direction", "split",        "num_outputs", "epsilon", "blocksize"};

struct noise {
    uint64_t state;
    int64_t ints[4];
    double floats[4];
};

static uint64_t next(struct noise *noise) {
    noise->state = noise->state * 6364136223846793005u + 1442695040888963407u;
    return noise->state >> 33;
}

static int64_t some_int(struct noise *noise) {
    static const int64_t choices[] = {0, 1, 2, 3, -1, -2, 5, 64, INT32_MAX, INT64_MAX, INT64_MIN, 1ll << 40};
    return choices[next(noise) % (sizeof choices / sizeof *choices)];
}

static struct ingot_attribute some_attribute(struct noise *noise, const char *name) {
    static const char *const dims[] = {"batch", "2*batch+1", "0", "-1", "3", "floor(seq/0)", "9223372036854775807"};
    static const char *const strings[] = {"", "SAME_UPPER", "linear", "ij,jk->ik", "reverse", "\xff"};
    static int64_t pair[] = {1, -7};
    static struct ingot_tensor tensor = {INGOT_I64, 1, {2}, pair, INGOT_HOST};
    struct ingot_attribute a = {.name = name, .kind = 1 + next(noise) % 8};
    for (int i = 0; i < 4; i++) {
        noise->ints[i] = some_int(noise);
        noise->floats[i] = next(noise) % 3 ? (double)some_int(noise) : NAN;
    }
    if (a.kind == INGOT_ATTRIBUTE_INT) a.i = some_int(noise);
    if (a.kind == INGOT_ATTRIBUTE_FLOAT) a.f = next(noise) % 2 ? 0.5 : INFINITY;
    if (a.kind == INGOT_ATTRIBUTE_STRING) a.string = strings[next(noise) % 6];
    if (a.kind == INGOT_ATTRIBUTE_DTYPE) a.dtype = (enum ingot_dtype)(next(noise) % (INGOT_DTYPE_COUNT + 1));
    if (a.kind == INGOT_ATTRIBUTE_TENSOR) a.tensor = &tensor;
    if (a.kind == INGOT_ATTRIBUTE_INTS || a.kind == INGOT_ATTRIBUTE_FLOATS || a.kind == INGOT_ATTRIBUTE_DIMS) {
        a.count = next(noise) % 5;
        a.ints = noise->ints;
        if (a.kind == INGOT_ATTRIBUTE_FLOATS) a.floats = noise->floats;
        if (a.kind == INGOT_ATTRIBUTE_DIMS) a.dims = &dims[next(noise) % 4];
        if (a.kind == INGOT_ATTRIBUTE_DIMS && a.count > 3) a.count = 3;
    }
    return a;
}

static void test_hostile_operators(void **state) {
    enum { CORE = sizeof core_names / sizeof *core_names, ONNX = sizeof onnx_names / sizeof *onnx_names };
    struct noise noises[4] = {{.state = 1}, {.state = 2}, {.state = 3}, {.state = 4}};
    unsigned made = 0;
    for (int round = 0; round < 40; round++) {
        struct ingot_network *network = network_create();
        ingot_value values[8];
        values[0] = network_input(network, "a", INGOT_F32, 2, (const char *const[]){"batch", "3"});
        values[1] = network_input(network, "b", INGOT_F32, 4, (const char *const[]){"batch", "4", "seq", "7"});
        values[2] = network_input(network, "c", INGOT_I64, 1, (const char *const[]){"batch"});
        values[3] = network_input(network, "d", INGOT_BOOL, 0, NULL);
        values[4] = network_input(network, "e", INGOT_F16, 3, (const char *const[]){"seq", "3", "5"});
        values[5] = network_weight(network, "w", 3, 4, w1);
        values[6] = INGOT_NO_VALUE;
        MUST(ingot_network_constant(network, &(struct ingot_tensor){INGOT_I64, 1, {2}, (int64_t[]){-1, 3}, INGOT_HOST},
                                    &values[7], &by_code_error));
        for (int i = 0; i < CORE + ONNX; i++) {
            struct ingot_attribute attributes[3];
            ingot_value inputs[4], outputs[3];
            size_t n_attributes = next(&noises[3]) % 4;
            for (size_t j = 0; j < n_attributes; j++) {
                const char *name = i < CORE ? ig_attr_name_text((enum ig_attr_name)(next(&noises[j]) % IG_ATTR_COUNT))
                                            : onnx_attributes[next(&noises[j]) % 21];
                attributes[j] = some_attribute(&noises[j], name);
            }
            for (int j = 0; j < 4; j++)
                inputs[j] = values[next(&noises[3]) % 8];
            struct ingot_operator op = network_operator(i < CORE ? core_names[i] : onnx_names[i - CORE], inputs,
                                                        next(&noises[3]) % 5, attributes, n_attributes);
            enum ingot_status status =
                ingot_network_add(network, &op, outputs, 1 + next(&noises[3]) % 3, &by_code_error);
            if (status == INGOT_INTERNAL) fail_msg("round %d, %s: %s", round, op.name, by_code_error.message);
            if (status != INGOT_OK) continue;
            char name[32];
            snprintf(name, sizeof name, "y%u", made++);
            MUST(ingot_network_output(network, name, outputs[0], &by_code_error));
        }
        struct ingot_model *model;
        MUST(ingot_network_output(network, "last", values[0], &by_code_error));
        if (ingot_network_finish(network, &model, &by_code_error) == INGOT_OK) {
            free(print(model));
            ingot_model_destroy(model);
        } else {
            ingot_network_destroy(network);
        }
    }
    assert_true(made > 200);
}

/* ---- Memory that runs out */

static enum ingot_status make(const struct ingot_allocator *allocator) {
    struct ingot_network_options options = INGOT_NETWORK_OPTIONS_INIT;
    struct ingot_network *network;
    struct ingot_model *model;
    ingot_value x, y;
    options.allocator = allocator;
    enum ingot_status status = ingot_network_create(&options, &network, &by_code_error);
    if (status) return status;
    struct ingot_tensor tensor = {INGOT_F32, 1, {HIDDEN}, (void *)b1, INGOT_HOST};
    status = ingot_network_input(network, "x", INGOT_F32, 2, (const char *const[]){"batch", "4"}, &x, &by_code_error);
    if (!status) status = ingot_network_weight(network, "b", &tensor, true, &y, &by_code_error);
    struct ingot_operator op = network_operator("Add", (ingot_value[]){x, y}, 2, NULL, 0);
    if (!status) status = ingot_network_add(network, &op, &y, 1, &by_code_error);
    if (!status) status = ingot_network_output(network, "y", y, &by_code_error);
    if (!status) status = ingot_network_finish(network, &model, &by_code_error);
    if (status) {
        ingot_network_destroy(network);
    } else {
        ingot_model_destroy(model);
    }
    return status;
}

static void test_failing_allocations(void **state) {
    enum ingot_status status = INGOT_OUT_OF_MEMORY;
    for (size_t n = 1; status != INGOT_OK; n++) {
        struct counting_allocator allocator;
        counting_allocator_init(&allocator);
        allocator.fail_at = n;
        status = make(&allocator.base);
        if (status != INGOT_OK) assert_int_equal(status, INGOT_OUT_OF_MEMORY);
        assert_int_equal(allocator.live_count, 0);
        assert_int_equal(allocator.wrong, 0);
        assert_true(n < 10000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_same_as_import),
        cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_hostile_operators),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
