/*
 * The ONNX importer on models that the test builds: types and symbols, constants and the location of their data, exact
 * messages, and 2,000 mutations of a file.
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/onnx/import.h"
#include "ir/build.h"
#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "support/check/onnx_check.h"

/* ---- Types and symbols ---- */

static void inputs_have_symbols(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "a", TEST_FLOAT, "batch 3 ? 0 -1");
    test_input(&m, NULL, "b", TEST_FLOAT, "batch 3 batch+1 1 1");
    test_input(&m, NULL, "c", TEST_FLOAT, "past+1");
    test_node(&m, NULL, "Identity", "a", "y");
    test_node(&m, NULL, "Neg", "b", "z");
    test_output(&m, NULL, "y");
    test_output(&m, NULL, "z");
    struct ig_graph *graph = test_import(&m);
    assert_int_equal(graph->inputs.count, 3);
    test_assert_input(graph, 0, "a", "f32[batch,3,a.2,a.3,a.4]");
    test_assert_input(graph, 1, "b", "f32[batch,3,batch+1,1,1]");
    /* No input defines "past" alone, so the dim gets a symbol of its own. */
    test_assert_input(graph, 2, "c", "f32[c.0]");
    assert_true(graph->outputs.at[0].value == graph->inputs.at[0].value);
    assert_string_equal(graph->outputs.at[1].name, "z");
    test_assert_output(graph, 1, "f32[batch,3,batch+1,1,1]");
    test_model_deinit(&m);
}

static void add_metadata(struct test_model *m, Onnx__NodeProto *node, const char *scopes, const char *call) {
    const char *const texts[][2] = {{"pkg.torch.onnx.name_scopes", scopes}, {"pkg.torch.onnx.fx_node", call}};
    node->n_metadata_props = 2;
    node->metadata_props = IG_NEW_ARRAY(&m->job, Onnx__StringStringEntryProto *, 2);
    for (int i = 0; i < 2; i++) {
        node->metadata_props[i] = IG_NEW(&m->job, Onnx__StringStringEntryProto);
        onnx__string_string_entry_proto__init(node->metadata_props[i]);
        node->metadata_props[i]->key = ig_strdup(&m->job, texts[i][0]);
        node->metadata_props[i]->value = ig_strdup(&m->job, texts[i][1]);
    }
}

/* The name of PyTorch's parameter that a MatMul's second operand is the transpose of. */
static void assert_parameter(const char *initializer, const char *bias, const char *node_name, const char *scopes,
                             const char *call, const char *expected) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "2");
    test_floats(&m, NULL, initializer, "2 2", "1 2 3 4");
    test_floats(&m, NULL, bias, "2", "1 2");
    Onnx__NodeProto *node = test_node(&m, NULL, "MatMul", ig_format(&m.job, "x %s", initializer), "p");
    node->name = ig_strdup(&m.job, node_name);
    if (scopes) add_metadata(&m, node, scopes, call);
    test_node(&m, NULL, "Add", ig_format(&m.job, "p %s", bias), "y");
    test_output(&m, NULL, "y");
    const struct ig_initializer *weight = test_import(&m)->initializers->list.at[0];
    assert_string_equal(weight->name, initializer);
    if (expected) {
        assert_non_null(weight->alias);
        assert_string_equal(weight->alias, expected);
    } else {
        assert_null(weight->alias);
    }
    assert_true(weight->is_transposed == (expected != NULL));
    test_model_deinit(&m);
}

static void linear_layers_tell_their_parameters(void **state) {
    static const char scopes[] = "['', 'm', 'm.fc.0', 'linear_2']";
    static const char call[] =
        "target=torch.ops.aten.linear.default](args = (%x, %p_m_fc_0_weight, %p_b), kwargs = {})";
    (void)state;
    assert_parameter("val_1", "b", "node_MatMul_3", scopes, call, "m.fc.0.weight");
    /* The call is of something else, of another parameter, or of a longer name; the list is none. */
    assert_parameter("val_1", "b", "n", scopes, "target=torch.ops.aten.matmul.default](args = (%x, %p_m_fc_0_weight)",
                     NULL);
    assert_parameter("val_1", "b", "n", scopes, "target=torch.ops.aten.linear.default](args = (%x, %p_m_fc_0_w)", NULL);
    assert_parameter("val_1", "b", "n", scopes, "target=torch.ops.aten.linear.default](args = (%x, %p_m_fc_0_weight_2)",
                     NULL);
    assert_parameter("val_1", "b", "n", "", call, NULL);
    assert_parameter("val_1", "b", "n", "'", call, NULL);
    assert_parameter("val_1", "b", "n", ",'',", call, NULL);
    assert_parameter("val_1", "b", "n", "['linear']", call, NULL);
    assert_parameter("val_1", "m.fc.0.weight", "n", scopes, call, NULL); /* the name is another's */
    /* TorchScript's exporter. */
    assert_parameter("onnx::MatMul_12", "m.layer.0.fc.bias", "/m/layer.0/fc/MatMul", NULL, NULL, "m.layer.0.fc.weight");
    assert_parameter("onnx::MatMul_12", "b", "/m/layer.0/fc/MatMul", NULL, NULL, NULL);
    assert_parameter("m.w", "m.layer.0.fc.bias", "/m/layer.0/fc/MatMul", NULL, NULL, NULL);
    assert_parameter("onnx::MatMul_12", ".bias", "/MatMul", NULL, NULL, NULL);
    assert_parameter("onnx::MatMul_12", "m.fc.bias", "m/fc/MatMul", NULL, NULL, NULL);
}

static void small_integer_inputs_have_contents(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "2 3");
    test_input(&m, NULL, "shape", TEST_INT64, "2");
    test_node(&m, NULL, "Reshape", "x shape", "y");
    test_output(&m, NULL, "y");
    struct ig_graph *graph = test_import(&m);
    const ig_dim *elements;
    int count;
    assert_true(ig_elements(graph, graph->inputs.at[1].value, &elements, &count));
    assert_int_equal(count, 2);
    assert_string_equal(ig_dim_text(graph->dims, elements[1]), "\"shape[1]\"");
    /* Known at run time only: a size, 0 (copied) or -1 (inferred). */
    float x[] = {1, 2, 3, 4, 5, 6};
    int64_t shapes[][2] = {{3, 2}, {-1, 1}, {0, 3}, {0, -1}, {1, -1}};
    int64_t results[][2] = {{3, 2}, {6, 1}, {2, 3}, {2, 3}, {1, 6}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct ingot_tensor inputs[] = {{INGOT_F32, 2, {2, 3}, x, INGOT_HOST},
                                        {INGOT_I64, 1, {2}, shapes[i], INGOT_HOST}};
        struct test_evaluation e = {.graph = graph, .inputs = inputs};
        struct ingot_error error = {0};
        if (ig_job_run(&m.job, test_evaluate, &e, &error) != INGOT_OK) fail_msg("%s", error.message);
        assert_int_equal(e.outputs[0].dims[0], results[i][0]);
        assert_int_equal(e.outputs[0].dims[1], results[i][1]);
        ig_eval_release(&m.job, &e.outputs[0]);
    }
    test_model_deinit(&m);
}

static void shape_arithmetic_leaves_no_trace(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "batch seq 12");
    test_ints(&m, NULL, "one", "1", "1");
    test_ints(&m, NULL, "tail", "2", "3 -1");
    test_ints(&m, NULL, "zero", "1", "0");
    test_node(&m, NULL, "Shape", "x", "shape");
    test_node(&m, NULL, "Slice", "shape zero one", "batch");
    test_node(&m, NULL, "Concat", "batch tail", "target");
    test_attr_int(&m, m.graph->node[2], "axis", 0);
    test_node(&m, NULL, "Reshape", "x target", "y");
    test_output(&m, NULL, "y");
    struct ig_graph *graph = test_import(&m);
    test_assert_output(graph, 0, "f32[batch,3,4*seq]");
    assert_true(ig_def_op(graph, graph->outputs.at[0].value, IG_OP_reshape)->in[0] == graph->inputs.at[0].value);
    test_model_deinit(&m);
}

static void sizes_come_back_from_floats(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "1 1 h w");
    test_floats(&m, NULL, "scale", "2", "0.7 1.5");
    test_ints(&m, NULL, "two", "1", "2");
    test_ints(&m, NULL, "four", "1", "4");
    test_node(&m, NULL, "Shape", "x", "shape");
    test_node(&m, NULL, "Slice", "shape two four", "space");
    test_attr_int(&m, test_node(&m, NULL, "Cast", "space", "wide"), "to", TEST_FLOAT);
    test_node(&m, NULL, "Mul", "wide scale", "scaled");
    test_node(&m, NULL, "Floor", "scaled", "floored");
    test_attr_int(&m, test_node(&m, NULL, "Cast", "floored", "sizes"), "to", TEST_INT64);
    test_node(&m, NULL, "ConstantOfShape", "sizes", "y");
    test_output(&m, NULL, "y");
    test_assert_output(test_import(&m), 0, "f32[floor(7*h/10),w+floor(w/2)]");
    test_model_deinit(&m);
}

/* Fixed sizes: arithmetic goes on with the integers that a cast gives. */
static void fixed_sizes_come_back_from_floats(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "25 7");
    test_ints(&m, NULL, "more", "2", "-1 4");
    test_node(&m, NULL, "Shape", "x", "shape");
    test_attr_int(&m, test_node(&m, NULL, "Cast", "shape", "wide"), "to", TEST_FLOAT);
    test_node(&m, NULL, "Sqrt", "wide", "scaled");
    test_node(&m, NULL, "Ceil", "scaled", "rounded");
    test_attr_int(&m, test_node(&m, NULL, "Cast", "rounded", "sizes"), "to", TEST_INT64);
    test_node(&m, NULL, "Add", "sizes more", "target");
    test_node(&m, NULL, "ConstantOfShape", "target", "y");
    test_output(&m, NULL, "y");
    test_assert_output(test_import(&m), 0, "f32[4,7]");
    test_model_deinit(&m);
}

/* Range(1, float(w), 0.5), as detectors do that make their grids in floats. */
static void ranges_end_at_sizes_in_floats(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "1 w");
    test_floats(&m, NULL, "one", "", "1");
    test_floats(&m, NULL, "half", "", "0.5");
    test_ints(&m, NULL, "at", "", "1");
    test_node(&m, NULL, "Shape", "x", "shape");
    test_node(&m, NULL, "Gather", "shape at", "size");
    test_attr_int(&m, test_node(&m, NULL, "Cast", "size", "wide"), "to", TEST_FLOAT);
    test_node(&m, NULL, "Range", "one wide half", "y");
    test_output(&m, NULL, "y");
    test_assert_output(test_import(&m), 0, "f32[2*max(w-1,0)]");
    test_model_deinit(&m);
}

/* ---- Constants ---- */

static void initialisers_are_constants(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "2");
    test_input(&m, NULL, "w", TEST_FLOAT, "2"); /* also an input, with this default: a constant */
    test_floats(&m, NULL, "w", "2", "3 4");
    test_node(&m, NULL, "Add", "x w", "y");
    test_output(&m, NULL, "y");
    struct ig_graph *graph = test_import(&m);
    assert_int_equal(graph->inputs.count, 1);
    const struct ig_node *add = ig_def_op(graph, graph->outputs.at[0].value, IG_OP_add);
    assert_non_null(add);
    bool found = false;
    for (uint32_t i = 0; i < 2; i++) {
        const struct ig_node *constant = ig_def_op(graph, add->in[i], IG_OP_constant);
        if (!constant) continue;
        found = true;
        assert_string_equal(constant->attr[0].data->initializer, "w");
        assert_true(ig_info(graph, constant->out)->is_const);
    }
    assert_true(found);
    test_model_deinit(&m);
}

/* Checks one constant, given raw or in the typed field that the caller filled, against its elements as doubles. */
static void check_constant(struct test_model *m, Onnx__TensorProto *tensor, enum ingot_dtype dtype,
                           const double *values, int count) {
    test_output(m, NULL, tensor->name);
    struct ig_graph *graph = test_import(m);
    struct ingot_tensor constant = ig_const_tensor(graph, graph->outputs.at[0].value);
    assert_int_equal(constant.dtype, dtype);
    assert_int_equal(ingot_tensor_elements(&constant), count);
    for (int i = 0; i < count; i++)
        assert_true(ig_load_f64(dtype, constant.data, i) == values[i]);
    ig_const_release(graph, graph->outputs.at[0].value, &constant);
    test_model_deinit(m);
}

static void typed_fields_are_read(void **state) {
    static const struct {
        int type;
        enum ingot_dtype dtype;
    } narrow[] = {{2, INGOT_U8}, {3, INGOT_I8}, {4, INGOT_U16}, {5, INGOT_I16}, {6, INGOT_I32}};
    struct test_model m;
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        int32_t data[] = {1, 127, 0};
        test_model_init(&m, 17);
        Onnx__TensorProto *t = test_raw(&m, NULL, "c", narrow[i].type, "3", "", 0);
        t->has_raw_data = 0;
        t->n_int32_data = 3;
        t->int32_data = data;
        check_constant(&m, t, narrow[i].dtype, (double[]){1, 127, 0}, 3);
    }
    uint64_t unsigned_data[] = {7, UINT32_MAX};
    test_model_init(&m, 17);
    Onnx__TensorProto *t = test_raw(&m, NULL, "c", 12, "2", "", 0);
    t->has_raw_data = 0;
    t->n_uint64_data = 2;
    t->uint64_data = unsigned_data;
    check_constant(&m, t, INGOT_U32, (double[]){7, (double)UINT32_MAX}, 2);
    int32_t halves[] = {0x3c00, 0xc000};
    test_model_init(&m, 17);
    t = test_raw(&m, NULL, "c", TEST_FLOAT16, "2", "", 0);
    t->has_raw_data = 0;
    t->n_int32_data = 2;
    t->int32_data = halves;
    check_constant(&m, t, INGOT_F16, (double[]){1, -2}, 2);
}

static void raw_data_are_read(void **state) {
    struct test_model m;
    static const float floats[] = {1.5f, -2};
    test_model_init(&m, 17);
    check_constant(&m, test_raw(&m, NULL, "c", TEST_FLOAT, "2 1", floats, sizeof floats), INGOT_F32,
                   (double[]){1.5, -2}, 2);
    /* Bools become 0 or 1, whatever the file contains. */
    test_model_init(&m, 17);
    check_constant(&m, test_raw(&m, NULL, "c", TEST_BOOL, "3", "\0\1\7", 3), INGOT_BOOL, (double[]){0, 1, 1}, 3);
    test_model_init(&m, 17);
    check_constant(&m, test_raw(&m, NULL, "c", TEST_FLOAT, "0 5", "", 0), INGOT_F32, NULL, 0);
}

static void sizes_of_data_are_checked(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_floats(&m, NULL, "w", "2 3", "1 2 3");
    test_output(&m, NULL, "w");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "tensor 'w' has 3 elements of data, expected 6");
    test_model_init(&m, 17);
    test_raw(&m, NULL, "w", TEST_FLOAT, "2", "12345", 5);
    test_output(&m, NULL, "w");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "tensor 'w' has 5 bytes of data, expected 8");
    test_model_init(&m, 17);
    test_raw(&m, NULL, "w", TEST_FLOAT, "4611686018427387904 4", "", 0);
    test_output(&m, NULL, "w");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "tensor 'w' is too large");
    test_model_init(&m, 17);
    test_raw(&m, NULL, "w", TEST_FLOAT, "-2", "", 0);
    test_output(&m, NULL, "w");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "tensor 'w' has the dim -2");
    test_model_init(&m, 17);
    test_raw(&m, NULL, "w", TEST_STRING, "1", "", 0);
    test_output(&m, NULL, "w");
    test_expect_error(&m, NULL, INGOT_UNSUPPORTED, "type string of tensor 'w' is not supported");
    test_model_init(&m, 17);
    test_raw(&m, NULL, "w", TEST_FLOAT, "1 1 1 1 1 1 1 1 1", "1234", 4);
    test_output(&m, NULL, "w");
    test_expect_error(&m, NULL, INGOT_UNSUPPORTED, "tensor 'w' has rank 9; at most 8 is supported");
}

/* ---- External data ---- */

struct folder {
    char path[64];
};

static struct folder make_folder(void) {
    struct folder folder = {"/tmp/ingot-import-XXXXXX"};
    assert_non_null(mkdtemp(folder.path));
    char file[128];
    snprintf(file, sizeof file, "%s/weights.bin", folder.path);
    FILE *stream = fopen(file, "wb");
    assert_non_null(stream);
    static const float data[] = {0, 1, 2, 3};
    assert_int_equal(fwrite("x", 1, 1, stream), 1); /* so that the data are not aligned */
    assert_int_equal(fwrite(data, sizeof data, 1, stream), 1);
    fclose(stream);
    return folder;
}

static void remove_folder(const struct folder *folder) {
    char file[128];
    snprintf(file, sizeof file, "%s/weights.bin", folder->path);
    unlink(file);
    snprintf(file, sizeof file, "%s/link", folder->path);
    unlink(file);
    assert_int_equal(rmdir(folder->path), 0);
}

static void external_model(struct test_model *m, const char *location, const char *offset, const char *length) {
    const char *keys[] = {"location", "offset", "length"}, *values[] = {location, offset, length};
    test_model_init(m, 17);
    Onnx__TensorProto *t = test_raw(m, NULL, "w", TEST_FLOAT, "3", "", 0);
    t->has_raw_data = 0;
    t->has_data_location = 1;
    t->data_location = 1;
    t->external_data = ig_alloc_array(&m->job, 3, sizeof *t->external_data);
    for (int i = 0; i < 3; i++) {
        if (!values[i]) continue;
        Onnx__StringStringEntryProto *entry = ig_alloc(&m->job, sizeof *entry);
        onnx__string_string_entry_proto__init(entry);
        entry->key = ig_strdup(&m->job, keys[i]);
        entry->value = ig_strdup(&m->job, values[i]);
        t->external_data[t->n_external_data++] = entry;
    }
    test_output(m, NULL, "w");
}

static void external_data_are_mapped(void **state) {
    struct folder folder = make_folder();
    struct test_model m;
    struct ig_graph *graph;
    struct ingot_error error = {0};
    external_model(&m, "./weights.bin", "5", "12");
    assert_int_equal(test_model_import(&m, folder.path, &graph, &error), INGOT_OK);
    struct ingot_tensor constant = ig_const_tensor(graph, graph->outputs.at[0].value);
    for (int i = 0; i < 3; i++)
        assert_true(ig_load_f64(INGOT_F32, constant.data, i) == i + 1);
    ig_const_release(graph, graph->outputs.at[0].value, &constant);
    test_model_deinit(&m);
    remove_folder(&folder);
}

static void external_data_stay_in_their_folder(void **state) {
    static const char *const outside[] = {"../weights.bin", "/etc/passwd", "a/../../b", "", "link"};
    struct folder folder = make_folder();
    struct test_model m;
    char link[128], message[256];
    snprintf(link, sizeof link, "%s/link", folder.path);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        external_model(&m, outside[i], "0", NULL);
        snprintf(message, sizeof message, "tensor 'w' lies in '%s', outside of the model's folder", outside[i]);
        test_expect_error(&m, folder.path, INGOT_BAD_MODEL, message);
    }
    external_model(&m, "weights.bin", "6", NULL);
    test_expect_error(&m, folder.path, INGOT_BAD_MODEL,
                      "the data of tensor 'w' reach beyond the end of 'weights.bin' (17 bytes)");
    external_model(&m, "weights.bin", "18446744073709551615", NULL);
    test_expect_error(&m, folder.path, INGOT_BAD_MODEL,
                      "offset of the external data of tensor 'w' is '18446744073709551615', expected a number");
    external_model(&m, "weights.bin", "0", "8");
    test_expect_error(&m, folder.path, INGOT_BAD_MODEL, "tensor 'w' has 8 bytes of external data, expected 12");
    external_model(&m, NULL, NULL, NULL);
    test_expect_error(&m, folder.path, INGOT_BAD_MODEL, "the external data of tensor 'w' have no location");
    external_model(&m, "weights.bin", NULL, NULL);
    test_expect_error(&m, NULL, INGOT_BAD_MODEL,
                      "tensor 'w' lies in the file 'weights.bin', but the model has no folder");
    remove_folder(&folder);
}

/* ---- Messages ---- */

static void messages_tell_the_story(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "1 3 8 8");
    test_node(&m, NULL, "NonMaxSuppression", "x x", "y");
    test_output(&m, NULL, "y");
    test_expect_error(
        &m, NULL, INGOT_UNSUPPORTED,
        "cannot import node 'y_node' (NonMaxSuppression): operator NonMaxSuppression of opset 17 is not supported");
    test_model_init(&m, 17);
    test_opset(&m, "com.example", 2);
    test_input(&m, NULL, "x", TEST_FLOAT, "1");
    test_node(&m, NULL, "com.example.Magic", "x", "y");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_UNSUPPORTED,
                      "cannot import node 'y_node' (Magic): operator com.example.Magic of opset 2 is not supported");
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "1 3 8 8");
    test_floats(&m, NULL, "w", "1 3 1 1", "1 2 3");
    test_attr_ints(&m, test_node(&m, NULL, "Conv", "x w", "y"), "pads", "0 0 0");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL,
                      "cannot import node 'y_node' (Conv): attribute 'pads' has 3 values, expected 4");
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "1 3");
    test_attr_int(&m, test_node(&m, NULL, "Softmax", "x", "y"), "axis", 2);
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL,
                      "cannot import node 'y_node' (Softmax): axis 2 is out of range for rank 2");
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "1 3");
    test_node(&m, NULL, "Mul", "x", "y");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "cannot import node 'y_node' (Mul): input 1 is missing");
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "1 3");
    test_input(&m, NULL, "i", TEST_INT64, "1 3");
    test_node(&m, NULL, "Mul", "x i", "y");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "cannot import node 'y_node' (Mul): inputs have types f32 and i64");
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "1 3");
    test_attr_string(&m, test_node(&m, NULL, "Gather", "x x", "y"), "axis", "one");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "cannot import node 'y_node' (Gather): indices of type f32");
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, "1 3");
    test_attr_string(&m, test_node(&m, NULL, "Softmax", "x", "y"), "axis", "one");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_BAD_MODEL,
                      "cannot import node 'y_node' (Softmax): attribute 'axis' is not an integer");
}

static void models_are_checked(void **state) {
    struct test_model m;
    test_model_init(&m, 6);
    test_input(&m, NULL, "x", TEST_FLOAT, "1");
    test_node(&m, NULL, "Relu", "x", "y");
    test_output(&m, NULL, "y");
    test_expect_error(
        &m, NULL, INGOT_UNSUPPORTED,
        "cannot import node 'y_node' (Relu): operator Relu of opset 6 is not supported, only opset 7 and up");
    test_model_init(&m, 17);
    m.proto->ir_version = 2;
    test_expect_error(&m, NULL, INGOT_UNSUPPORTED, "IR version 2 is not supported, only 3 and up");
    test_model_init(&m, 17);
    m.proto->has_ir_version = 0;
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "the file is no ONNX model: it has no IR version");
    test_model_init(&m, 17);
    m.proto->graph = NULL;
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "the file is no ONNX model: it has no graph");
    test_model_init(&m, 17);
    test_expect_error(&m, NULL, INGOT_BAD_MODEL, "the graph has no outputs");
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_FLOAT, NULL);
    test_output(&m, NULL, "x");
    test_expect_error(&m, NULL, INGOT_UNSUPPORTED, "input 'x' has no shape: its rank must be known");
    test_model_init(&m, 17);
    test_input(&m, NULL, "x", TEST_STRING, "1");
    test_output(&m, NULL, "x");
    test_expect_error(&m, NULL, INGOT_UNSUPPORTED, "type string of input 'x' is not supported");
}

/* An unsupported input is refused at the node that reads it, or, if none does, by its own name. */
static void inputs_are_refused_by_their_readers(void **state) {
    struct test_model m;
    test_model_init(&m, 17);
    test_input(&m, NULL, "unread", TEST_STRING, "1");
    test_input(&m, NULL, "x", TEST_STRING, "1");
    test_node(&m, NULL, "Identity", "x", "y");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_UNSUPPORTED,
                      "cannot import node 'y_node' (Identity): type string of input 'x' is not supported");
    test_model_init(&m, 17);
    test_input(&m, NULL, "unread", TEST_STRING, "1");
    test_input(&m, NULL, "x", TEST_FLOAT, "1");
    test_node(&m, NULL, "Identity", "x", "y");
    test_output(&m, NULL, "y");
    test_expect_error(&m, NULL, INGOT_UNSUPPORTED, "type string of input 'unread' is not supported");
}

/* ---- Mutations ---- */

/* A model with a little of everything. */
static void *make_rich_file(struct test_model *m, size_t *out_size) {
    test_model_init(m, 17);
    test_add_scale_function(m);
    test_input(m, NULL, "x", TEST_FLOAT, "batch 3 8 8");
    test_input(m, NULL, "c", TEST_BOOL, "");
    test_floats(m, NULL, "k", "2 3 1 1", "1 2 3 4 5 6");
    test_ints(m, NULL, "target", "3", "0 2 -1");
    test_ints(m, NULL, "starts", "1", "-3");
    test_ints(m, NULL, "ends", "1", "1000");
    test_ints(m, NULL, "axes", "1", "2");
    test_attr_ints(m, test_node(m, NULL, "Conv", "x k", "conv"), "strides", "2 2");
    test_attr_ints(m, test_node(m, NULL, "MaxPool", "conv", "pool"), "kernel_shape", "2 2");
    test_node(m, NULL, "Reshape", "pool target", "flat");
    test_node(m, NULL, "Slice", "flat starts ends axes", "part");
    test_attr_int(m, test_node(m, NULL, "Softmax", "part", "soft"), "axis", -1);
    test_node(m, NULL, "local.Scale", "soft", "scaled");
    Onnx__GraphProto *then_branch = test_graph(m), *else_branch = test_graph(m);
    test_node(m, then_branch, "Neg", "scaled", "t");
    test_output(m, then_branch, "t");
    test_node(m, else_branch, "Exp", "scaled", "e");
    test_output(m, else_branch, "e");
    Onnx__NodeProto *node = test_node(m, NULL, "If", "c", "y");
    test_attr_graph(m, node, "then_branch", then_branch);
    test_attr_graph(m, node, "else_branch", else_branch);
    test_attr_int(m, test_node(m, NULL, "Concat", "y y", "z"), "axis", 2);
    test_output(m, NULL, "z");
    return test_model_pack(m, out_size);
}

struct attempt {
    const void *data;
    size_t size;
};

static void import_attempt(struct ig_job *job, void *argument) {
    struct attempt *attempt = argument;
    struct ig_graph *graph = ig_import_onnx(job, attempt->data, attempt->size, NULL, false, NULL);
    ig_graph_verify(graph, "import");
}

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Flips, overwrites, cuts, or moves bytes. Returns the new size. */
static size_t mutate(uint8_t *bytes, size_t size, uint64_t *seed) {
    int changes = 1 + (int)(next_random(seed) % 4);
    for (int i = 0; i < changes && size > 0; i++) {
        size_t at = next_random(seed) % size;
        switch (next_random(seed) % 5) {
        case 0: bytes[at] ^= (uint8_t)(1u << next_random(seed) % 8); break;
        case 1: bytes[at] = (uint8_t)next_random(seed); break;
        case 2: bytes[at] = next_random(seed) % 2 ? 0xff : 0; break;
        case 3: size = at; break;
        default: memmove(bytes + at, bytes + at / 2, size - at); break;
        }
    }
    return size;
}

static void mutations_end_well_or_with_a_message(void **state) {
    struct test_model m;
    size_t size;
    const uint8_t *file = make_rich_file(&m, &size);
    uint64_t seed = 0x1d872b41c3f5a9e7u;
    int accepted = 0;
    for (int i = 0; i < 2000; i++) {
        /* A block of exactly the file's size, so that AddressSanitizer detects reads beyond it. */
        uint8_t *bytes = malloc(size);
        assert_non_null(bytes);
        memcpy(bytes, file, size);
        struct attempt attempt = {.data = bytes};
        attempt.size = i == 0 ? size : mutate(bytes, size, &seed);
        bytes = realloc(bytes, attempt.size ? attempt.size : 1);
        attempt.data = bytes;
        struct ig_job job;
        struct ingot_error error = {0};
        ig_job_init(&job, &ig_libc_allocator);
        enum ingot_status status = ig_job_run(&job, import_attempt, &attempt, &error);
        if (i == 0 && status != INGOT_OK) fail_msg("the file itself: %s", error.message);
        if (status == INGOT_OK)
            accepted++;
        else if (status == INGOT_INTERNAL || error.message[0] == '\0')
            fail_msg("mutation %d: %s", i, error.message);
        ig_job_deinit(&job);
        free(bytes);
    }
    assert_true(accepted > 0);
    test_model_deinit(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_have_symbols),
        cmocka_unit_test(linear_layers_tell_their_parameters),
        cmocka_unit_test(small_integer_inputs_have_contents),
        cmocka_unit_test(shape_arithmetic_leaves_no_trace),
        cmocka_unit_test(sizes_come_back_from_floats),
        cmocka_unit_test(fixed_sizes_come_back_from_floats),
        cmocka_unit_test(ranges_end_at_sizes_in_floats),
        cmocka_unit_test(initialisers_are_constants),
        cmocka_unit_test(typed_fields_are_read),
        cmocka_unit_test(raw_data_are_read),
        cmocka_unit_test(sizes_of_data_are_checked),
        cmocka_unit_test(external_data_are_mapped),
        cmocka_unit_test(external_data_stay_in_their_folder),
        cmocka_unit_test(messages_tell_the_story),
        cmocka_unit_test(models_are_checked),
        cmocka_unit_test(inputs_are_refused_by_their_readers),
        cmocka_unit_test(mutations_end_well_or_with_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
