/*
 * Invalid attributes of operators that are not elementwise: a model with one is built for CUDA or refused with a
 * reason, and the compiler accesses no memory but its own (checked by AddressSanitizer).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ingot/ingot.h"
#include "support/beside.h"
#include "support/model/onnx_model.h"
#include "support/support.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MOST_TEXT 512

static char nvrtc[4096];

/* Inputs: a letter and dims; "f" is an input of the model, "i" a constant with the numbers after the bracket. */
static const struct {
    const char *op;
    int opset;
    const char *inputs, *outputs, *attributes;
} cases[] = {
    {"Conv", 17, "f[2 4 9 9];f[6 2 3 3];f[6]", "y",
     "group=2; kernel_shape=[3 3]; strides=[2 1]; pads=[1 1 1 1]; dilations=[1 2]; auto_pad='NOTSET'"},
    {"ConvTranspose", 17, "f[2 4 5 5];f[4 3 3 3]", "y",
     "group=2; kernel_shape=[3 3]; strides=[2 2]; pads=[1 1 1 1]; dilations=[1 1]; output_padding=[1 1]; "
     "output_shape=[10 10]"},
    {"MaxPool", 17, "f[2 4 9 9]", "y",
     "kernel_shape=[3 3]; strides=[2 2]; pads=[1 1 1 1]; dilations=[1 1]; ceil_mode=1"},
    {"AveragePool", 19, "f[2 4 9 9]", "y",
     "kernel_shape=[3 3]; strides=[2 2]; pads=[1 1 1 1]; dilations=[1 1]; count_include_pad=1; ceil_mode=1"},
    {"LpPool", 18, "f[2 4 9 9]", "y", "kernel_shape=[3 3]; strides=[2 2]; pads=[1 1 1 1]; p=2"},
    {"Gemm", 17, "f[4 8];f[8 6];f[6]", "y", "transA=0; transB=0; alpha=0.5f; beta=2f"},
    {"Einsum", 17, "f[3 4];f[4 5]", "y", "equation='ij,jk->ik'"},
    {"Softmax", 17, "f[3 4 5]", "y", "axis=-1"},
    {"LogSoftmax", 11, "f[3 4 5]", "y", "axis=1"},
    {"LayerNormalization", 17, "f[3 4 8];f[8];f[8]", "y m d", "axis=-1; epsilon=1e-5f; stash_type=1"},
    {"GroupNormalization", 21, "f[2 8 5 5];f[8];f[8]", "y", "num_groups=4; epsilon=1e-5f"},
    {"BatchNormalization", 15, "f[2 4 5 5];f[4];f[4];f[4];f[4]", "y", "epsilon=1e-5f; momentum=0.9f; training_mode=0"},
    {"LRN", 17, "f[2 6 5 5]", "y", "size=3; alpha=1e-4f; beta=0.75f; bias=1f"},
    {"Attention", 23, "f[2 8 32];f[2 12 16];f[2 12 16]", "y",
     "q_num_heads=4; kv_num_heads=2; is_causal=1; scale=0.25f; softcap=2f; softmax_precision=1; "
     "qk_matmul_output_mode=0"},
    {"Gather", 17, "f[3 4 5];i[2]0 2", "y", "axis=1"},
    {"GatherElements", 17, "f[3 4];i[3 1]0 1 2", "y", "axis=1"},
    {"GatherND", 17, "f[2 3 4];i[2 1]0 1", "y", "batch_dims=1"},
    {"ScatterElements", 18, "f[3 4];i[1 4]0 1 2 0;f[1 4]", "y", "axis=0; reduction='add'"},
    {"ScatterND", 18, "f[4 3];i[2 1]0 3;f[2 3]", "y", "reduction='max'"},
    {"Concat", 17, "f[3 4];f[3 5]", "y", "axis=1"},
    {"Split", 18, "f[3 7]", "a b c", "axis=1; num_outputs=3"},
    {"Transpose", 17, "f[2 3 4 5]", "y", "perm=[0 2 3 1]"},
    {"Reshape", 17, "f[2 3 4];i[2]0 -1", "y", "allowzero=0"},
    {"Flatten", 17, "f[2 3 4]", "y", "axis=2"},
    {"ReduceSum", 11, "f[2 3 4]", "y", "axes=[0 2]; keepdims=1"},
    {"ReduceL2", 17, "f[2 3 4]", "y", "axes=[1]; keepdims=0"},
    {"ArgMax", 17, "f[2 3 4]", "y", "axis=1; keepdims=0; select_last_index=1"},
    {"TopK", 17, "f[3 9];i[1]4", "v i", "axis=1; largest=1; sorted=1"},
    {"CumSum", 17, "f[3 9];i[]1", "y", "exclusive=1; reverse=1"},
    {"DepthToSpace", 17, "f[1 8 3 3]", "y", "blocksize=2; mode='CRD'"},
    {"SpaceToDepth", 17, "f[1 2 4 4]", "y", "blocksize=2"},
    {"Pad", 17, "f[3 4];i[4]1 0 0 2", "y", "mode='reflect'"},
    {"Resize", 19, "f[1 2 4 4];_;_;i[4]1 2 8 7", "y",
     "mode='cubic'; coordinate_transformation_mode='half_pixel'; cubic_coeff_a=-0.75f; exclude_outside=0; "
     "nearest_mode='floor'; antialias=0; axes=[0 1 2 3]; keep_aspect_ratio_policy='stretch'; extrapolation_value=0f"},
    {"GridSample", 20, "f[1 2 4 4];f[1 3 3 2]", "y", "mode='linear'; padding_mode='zeros'; align_corners=0"},
    {"LSTM", 17, "f[5 2 3];f[1 16 3];f[1 16 4]", "y h c",
     "hidden_size=4; direction='forward'; layout=0; input_forget=0; clip=3f"},
    {"GRU", 17, "f[5 2 3];f[1 12 3];f[1 12 4]", "y h", "hidden_size=4; direction='reverse'; linear_before_reset=1"},
    {"OneHot", 17, "i[3]0 1 2;i[]5;f[2]", "y", "axis=-1"},
    {"Trilu", 17, "f[3 4 5]", "y", "upper=0"},
    {"EyeLike", 17, "f[3 4]", "y", "k=1; dtype=1"},
    {"Cast", 17, "f[3 4]", "y", "to=10"},
    {"QuantizeLinear", 17, "f[3 4];f[4]", "y", "axis=1"},
    {"ReverseSequence", 17, "f[4 3];i[3]1 2 3", "y", "batch_axis=1; time_axis=0"},
};

/* ---- Models -------------------------------------------------------------------------------------------------------------- */

static void add_input(struct test_model *m, const char *name, const char *text) {
    const char *end = strchr(text, ']'), *stop = strchr(text, ';');
    if (!stop) stop = text + strlen(text);
    const char *dims = ig_strndup(&m->job, text + 2, (size_t)(end - text - 2));
    if (text[0] == 'f')
        test_input(m, NULL, name, TEST_FLOAT, dims);
    else
        test_ints(m, NULL, name, dims, ig_strndup(&m->job, end + 1, (size_t)(stop - end - 1)));
}

/* Adds the inputs; returns their names. */
static const char *add_inputs(struct test_model *m, const char *text) {
    char *names = ig_alloc(&m->job, 256);
    for (int i = 0; text; i++, text = text ? text + 1 : NULL) {
        const char *name = *text == '_' ? "_" : ig_format(&m->job, "i%d", i);
        if (*text != '_') add_input(m, name, text);
        strcat(strcat(names, name), " ");
        text = strchr(text, ';');
    }
    return names;
}

static enum ingot_status build(const void *data, size_t size, const char *precision, struct ingot_error *error) {
    struct ingot_build_options options = INGOT_BUILD_OPTIONS_INIT;
    struct ingot_model *model;
    void *engine;
    size_t engine_size;
    options.target = "cuda:sm_90a";
    options.precision = precision;
    options.nvrtc = nvrtc;
    options.jobs = 1;
    enum ingot_status status = ingot_model_load_memory(data, size, NULL, NULL, &model, error);
    if (status != INGOT_OK) return status;
    status = ingot_model_build_memory(model, &options, &engine, &engine_size, error);
    if (status == INGOT_OK) ingot_blob_release(model, engine, engine_size);
    ingot_model_destroy(model);
    return status;
}

static enum ingot_status build_case(size_t index, const char *attributes, const char *precision,
                                    struct ingot_error *error) {
    struct test_model m;
    size_t size;
    test_model_init(&m, cases[index].opset);
    for (const char *at = cases[index].outputs; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        test_output(&m, NULL, ig_strndup(&m.job, at, length));
        at += length;
    }
    Onnx__NodeProto *node =
        test_node(&m, NULL, cases[index].op, add_inputs(&m, cases[index].inputs), cases[index].outputs);
    test_attributes(&m, node, attributes);
    const void *data = test_model_pack(&m, &size);
    enum ingot_status status = build(data, size, precision, error);
    test_model_deinit(&m);
    return status;
}

/* ---- Changes --------------------------------------------------------------------------------------------------------------- */

static const char *const bad_numbers[] = {"-1",
                                          "0",
                                          "2",
                                          "3",
                                          "7",
                                          "100",
                                          "2147483648",
                                          "-2147483649",
                                          "4294967296",
                                          "4611686018427387904",
                                          "9223372036854775807",
                                          "-9223372036854775808"};
static const char *const bad_floats[] = {"0f", "-1f", "nanf", "inff", "-inff", "1e-45f", "3e38f"};
static const char *const bad_strings[] = {"''", "'nonsense'", "'%s%n'", "'NEAREST'", "'->'", "'ij,jk->il'", "'...'"};
static const char *const bad_lists[] = {"[]",
                                        "[0]",
                                        "[1]",
                                        "[-1 -1]",
                                        "[0 0]",
                                        "[1 1]",
                                        "[3 3 3]",
                                        "[9 9 9 9]",
                                        "[0 0 0 0]",
                                        "[1 2 3 4 5 6 7 8 9 10]",
                                        "[-1 1 1 -1]",
                                        "[4611686018427387904 4611686018427387904]",
                                        "[9223372036854775807 1 1 1]",
                                        "[1 -9223372036854775808]",
                                        "[2147483648 1]"};

/* Replacements for `text`: the bad values of its own type, then one of each type. */
static const char *replacement(const char *text, size_t length, size_t number) {
    static const struct {
        const char *const *at;
        size_t count;
    } lists[] = {{bad_numbers, COUNT(bad_numbers)},
                 {bad_floats, COUNT(bad_floats)},
                 {bad_strings, COUNT(bad_strings)},
                 {bad_lists, COUNT(bad_lists)}};
    size_t own = text[0] == '\'' ? 2 : text[0] == '[' ? 3 : text[length - 1] == 'f' ? 1 : 0;
    if (number < lists[own].count) return lists[own].at[number];
    number -= lists[own].count;
    return number < COUNT(lists) ? lists[number].at[1] : NULL; /* one of each type */
}

/* Replaces the value of one attribute; returns false if there are no more such changes. */
static bool change(const char *attributes, size_t attribute, size_t number, char *out) {
    const char *at = attributes;
    for (size_t i = 0; at && i < attribute; i++)
        at = strstr(at, "; ") ? strstr(at, "; ") + 2 : NULL;
    if (!at) return false;
    const char *value = strchr(at, '=') + 1, *end = strstr(value, "; ");
    if (!end) end = value + strlen(value);
    const char *other = replacement(value, (size_t)(end - value), number);
    if (other) snprintf(out, MOST_TEXT, "%.*s%s%s", (int)(value - attributes), attributes, other, end);
    return other != NULL;
}

static size_t attribute_count(const char *attributes) {
    size_t count = 1;
    for (const char *at = attributes; (at = strstr(at, "; ")); at++)
        count++;
    return count;
}

/* ---- Tests --------------------------------------------------------------------------------------------------------------- */

static void cases_are_built(void **state) {
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ingot_error error = {0};
        if (build_case(i, cases[i].attributes, "fp32", &error)) fail_msg("%s: %s", cases[i].op, error.message);
    }
}

static void try_change(size_t index, const char *attributes, const char *precision, unsigned *counts) {
    struct ingot_error error = {0};
    enum ingot_status status = build_case(index, attributes, precision, &error);
    bool is_understood = status == INGOT_OK || status == INGOT_BAD_MODEL || status == INGOT_UNSUPPORTED;
    if (!is_understood || (status != INGOT_OK && !strstr(error.message, cases[index].op)))
        fail_msg("%s (%s): status %d, '%s'", cases[index].op, attributes, (int)status, error.message);
    counts[status == INGOT_OK]++;
}

static void changed_attributes_are_refused_or_built(void **state) {
    unsigned counts[2] = {0}, tried = 0;
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (size_t a = 0; a < attribute_count(cases[i].attributes); a++) {
            char changed[MOST_TEXT];
            for (size_t k = 0; change(cases[i].attributes, a, k, changed); k++) {
                try_change(i, changed, tried++ % 2 ? "fp32" : "fp16", counts);
            }
        }
    }
    print_message("%u refused, %u built\n", counts[0], counts[1]);
    assert_true(counts[0] > 50 && counts[1] > 50);
}

int main(void) {
    static const char name[] = "fake_nvrtc.so";
    test_beside(name, nvrtc, sizeof nvrtc);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_are_built),
        cmocka_unit_test(changed_attributes_are_refused_or_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
