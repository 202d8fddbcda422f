/*
 * The elements of tensors, cut out of a model before it is unpacked: what protobuf-c makes of the rest, with the elements
 * attached, must be what it makes of the whole file, and it must refuse both or neither. For every truncation of a file
 * and for random damage.
 */
#include <stdlib.h>
#include <string.h>

#include "import/onnx/importer.h"
#include "support/check/onnx_check.h"
#include "support/support.h"

enum { MUTATIONS = 4000 };

/* ---- A file with elements wherever the format may have them ---- */

static Onnx__TensorProto *attribute_tensor(struct test_model *m, Onnx__NodeProto *node, const char *name) {
    test_attr_int(m, node, name, 0);
    Onnx__AttributeProto *attribute = node->attribute[node->n_attribute - 1];
    attribute->t = IG_NEW(&m->job, Onnx__TensorProto);
    onnx__tensor_proto__init(attribute->t);
    attribute->t->has_raw_data = 1;
    attribute->t->raw_data = (ProtobufCBinaryData){8, (uint8_t *)ig_strdup(&m->job, "constant")};
    return attribute->t;
}

static const uint8_t *make_file(struct test_model *m, size_t *out_size) {
    static const float numbers[] = {1, 2, 3, 4, 5, 6};
    static uint8_t many[300];
    test_model_init(m, 17);
    test_input(m, NULL, "x", TEST_FLOAT, "2 3");
    test_raw(m, NULL, "w", TEST_FLOAT, "2 3", numbers, sizeof numbers);
    test_raw(m, NULL, "empty", TEST_FLOAT, "0", numbers, 0);
    test_raw(m, NULL, "many", TEST_UINT8, "300", many, sizeof many);
    test_floats(m, NULL, "typed", "2", "1 2");
    attribute_tensor(m, test_node(m, NULL, "Constant", "", "k"), "value");
    Onnx__GraphProto *branch = test_graph(m);
    test_raw(m, branch, "inner", TEST_FLOAT, "6", numbers, sizeof numbers);
    test_node(m, branch, "Neg", "inner", "t");
    test_attr_graph(m, test_node(m, NULL, "If", "x", "y"), "then_branch", branch);
    Onnx__FunctionProto *function = test_function(m, "local", "F", "a", "b");
    attribute_tensor(m, test_function_node(m, function, "Constant", "", "b"), "value");
    Onnx__SparseTensorProto *sparse = IG_NEW(&m->job, Onnx__SparseTensorProto);
    onnx__sparse_tensor_proto__init(sparse);
    sparse->values = m->graph->initializer[0];
    sparse->indices = m->graph->initializer[2];
    m->graph->sparse_initializer = &sparse;
    m->graph->n_sparse_initializer = 1;
    return test_model_pack(m, out_size);
}

/* ---- Comparisons ---- */

static void attach(ProtobufCMessage *message, const struct ig_onnx_message *cut);

static void attach_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                         const struct ig_onnx_message *cut) {
    char *at = (char *)message + field->offset;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) return;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t count;
        ProtobufCMessage **list;
        memcpy(&count, (char *)message + field->quantifier_offset, sizeof count);
        memcpy(&list, at, sizeof list);
        for (size_t i = 0; i < count; i++)
            attach(list[i], cut);
    } else {
        ProtobufCMessage *one;
        memcpy(&one, at, sizeof one);
        if (one) attach(one, cut);
    }
}

/* Gives every tensor of a message its elements. */
static void attach(ProtobufCMessage *message, const struct ig_onnx_message *cut) {
    if (message->descriptor == &onnx__tensor_proto__descriptor) {
        Onnx__TensorProto *tensor = (Onnx__TensorProto *)message;
        uint32_t index;
        if (!tensor->has_raw_data) return;
        assert_int_equal(tensor->raw_data.len, sizeof index);
        memcpy(&index, tensor->raw_data.data, sizeof index);
        assert_true(index < cut->n_raw);
        tensor->raw_data = cut->raw[index];
    }
    for (unsigned i = 0; i < message->descriptor->n_fields; i++)
        attach_field(message, &message->descriptor->fields[i], cut);
}

static void *take(void *job, size_t size) {
    return ig_alloc(job, size ? size : 1);
}

static void keep(void *job, void *memory) {
    (void)job;
    (void)memory;
}

struct file {
    const uint8_t *data;
    size_t size;
    bool is_sound, is_cut; /* found out */
};

static void compare(struct ig_job *job, void *argument) {
    struct file *file = argument;
    ProtobufCAllocator allocator = {take, keep, job};
    const struct ig_onnx_message cut = ig_onnx_cut(job, file->data, file->size);
    const Onnx__ModelProto *plain = onnx__model_proto__unpack(&allocator, file->size, file->data);
    Onnx__ModelProto *other = onnx__model_proto__unpack(&allocator, cut.size, cut.data);
    file->is_sound = plain != NULL;
    file->is_cut = cut.raw != NULL;
    assert_true((plain == NULL) == (other == NULL));
    for (uint32_t i = 0; i < cut.n_raw; i++)
        assert_true(cut.raw[i].data >= file->data && cut.raw[i].data + cut.raw[i].len <= file->data + file->size);
    if (!plain) return;
    if (file->is_cut) attach(&other->base, &cut);
    const size_t size = onnx__model_proto__get_packed_size(plain);
    uint8_t *expected = ig_alloc(job, size + 1), *found = ig_alloc(job, size + 1);
    assert_int_equal(onnx__model_proto__get_packed_size(other), size);
    onnx__model_proto__pack(plain, expected);
    onnx__model_proto__pack(other, found);
    assert_memory_equal(found, expected, size);
}

/* The file lies in a block of its own size, so that AddressSanitizer detects reads beyond it. */
static enum ingot_status check(const uint8_t *data, size_t size, struct file *out_file) {
    struct ig_job job;
    struct ingot_error error = {INGOT_OK, ""};
    uint8_t *block = malloc(size ? size : 1);
    assert_non_null(block);
    if (size) memcpy(block, data, size);
    *out_file = (struct file){.data = block, .size = size};
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, compare, out_file, &error);
    ig_job_deinit(&job);
    free(block);
    return status;
}

static void every_truncation(void **state) {
    struct test_model m;
    struct file file;
    size_t size;
    const uint8_t *data = make_file(&m, &size);
    assert_int_equal(check(data, size, &file), INGOT_OK);
    assert_true(file.is_sound && file.is_cut);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(check(data, i, &file), INGOT_OK);
    test_model_deinit(&m);
}

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void random_damage(void **state) {
    struct test_model m;
    struct file file;
    size_t size;
    unsigned sound = 0, cut = 0;
    uint64_t seed = 0x9e3779b97f4a7c15u;
    const uint8_t *data = make_file(&m, &size);
    uint8_t *bytes = ig_alloc(&m.job, size);
    for (int i = 0; i < MUTATIONS; i++) {
        memcpy(bytes, data, size);
        for (uint64_t n = next_random(&seed) % 3 + 1; n > 0; n--) {
            const uint64_t at = next_random(&seed) % size, what = next_random(&seed);
            bytes[at] = what % 3 == 0 ? (uint8_t)(what >> 8) : (uint8_t)(bytes[at] ^ 1u << what % 8);
        }
        assert_int_equal(check(bytes, size, &file), INGOT_OK);
        sound += file.is_sound;
        cut += file.is_cut;
    }
    assert_true(sound > MUTATIONS / 10 && sound < MUTATIONS && cut > MUTATIONS / 10 && cut < MUTATIONS);
    test_model_deinit(&m);
}

/* Encodings that no writer makes. */
static void odd_encodings(void **state) {
    static const struct {
        const char *bytes;
        size_t size;
        bool is_sound;
    } cases[] = {
        /* graph { initializer { raw_data } }, twice with different elements: the last one counts */
        {"\x3a\x0a\x2a\x08\x4a\x02"
         "ab\x4a\x02"
         "cd",
         12, true},
        /* two graphs with one tensor each */
        {"\x3a\x05\x2a\x03\x4a\x01z\x3a\x05\x2a\x03\x4a\x01y", 14, true},
        /* lengths and tags of more bytes than they need */
        {"\xba\x80\x80\x80\x00\x87\x80\x80\x80\x00\x2a\x84\x00\x4a\x81\x00z", 17, true},
        {"\x3a\x88\x80\x80\x80\x80\x00\x2a\x03\x4a\x01z", 12, false}, /* a length of six bytes */
        {"\x3a\xff\xff\xff\xff\x0f", 6, false},                       /* of 4 GB */
        {"\x3a\x04\x2a\x02\x4b\x4c", 6, false},                       /* raw_data as a group */
        {"\x3a\x04\x2a\x02\x48\x05", 6, false},                       /* raw_data as a number */
        {"\x38\x05", 2, false},                                       /* the graph as a number */
        {"\x3a\x02\x2a\x05", 4, false},                               /* a tensor that ends behind its graph */
        {"\x02\x01z\x3a\x05\x2a\x03\x4a\x01z", 10, false},            /* field 0 */
        {"", 0, true},
    };
    struct file file;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(check((const uint8_t *)cases[i].bytes, cases[i].size, &file), INGOT_OK);
        if (file.is_sound != cases[i].is_sound) fail_msg("case %zu", i);
    }
}

/* ---- Alignment ---- */

struct import {
    const uint8_t *file;
    size_t size;
    struct ig_initializers *found;
};

static void import(struct ig_job *job, void *argument) {
    struct import *i = argument;
    i->found = ig_import_onnx_initializers(job, i->file, i->size, NULL);
}

/* Large tensors stay where they are in the file, small ones are aligned to their type. */
static void large_tensors_stay_in_the_file(void **state) {
    enum { COUNT = IG_DATA_LARGE / 8 };
    static int64_t numbers[COUNT];
    struct test_model m;
    struct ingot_error error;
    test_model_init(&m, 17);
    for (int i = 0; i < COUNT; i++)
        numbers[i] = i;
    for (int i = 0; i < 8; i++) { /* names of all lengths, and so places of all kinds */
        char *name = ig_strndup(&m.job, "largelarge", (size_t)i + 1);
        test_raw(&m, NULL, name, TEST_INT64, ig_format(&m.job, "%d", COUNT), numbers, sizeof numbers);
        test_raw(&m, NULL, ig_format(&m.job, "s%s", name), TEST_INT64, "5", numbers, 40);
    }
    struct import i = {0};
    i.file = test_model_pack(&m, &i.size);
    if (ig_job_run(&m.job, import, &i, &error) != INGOT_OK) fail_msg("%s", error.message);
    assert_int_equal(i.found->list.count, 16);
    unsigned misaligned = 0;
    for (uint32_t k = 0; k < 16; k++) {
        const struct ig_initializer *one = i.found->list.at[k];
        const uint8_t *bytes = one->bytes;
        assert_memory_equal(bytes, numbers, one->size);
        misaligned += (uintptr_t)bytes % 8 != 0;
        if (one->size == 40)
            assert_int_equal((uintptr_t)bytes % 8, 0);
        else
            assert_true(bytes > i.file && bytes + one->size <= i.file + i.size);
    }
    assert_true(misaligned > 0);
    test_model_deinit(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_truncation),
        cmocka_unit_test(random_damage),
        cmocka_unit_test(odd_encodings),
        cmocka_unit_test(large_tensors_stay_in_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
