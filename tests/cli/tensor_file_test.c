/* The command line's tensor files: .npy in all variants, .npz, ONNX TensorProto, and 2,000 damaged .npy files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "base/memory.h"
#include "support/support.h"
#include "tensor/tensor.h"
#include "weights/weights.h"

/* ---- .npy */

struct file {
    unsigned char bytes[8192];
    size_t size;
};

/* Composes a .npy file of a version from header text and data. */
static void compose(struct file *file, int version, const char *header, const void *data, size_t size) {
    size_t start = version == 1 ? 10 : 12, length = strlen(header);
    memset(file, 0, sizeof *file);
    memcpy(file->bytes, "\x93NUMPY", 6);
    file->bytes[6] = (unsigned char)version;
    file->bytes[8] = length & 255;
    file->bytes[9] = (unsigned char)(length >> 8);
    memcpy(file->bytes + start, header, length);
    if (size > 0) memcpy(file->bytes + start + length, data, size);
    file->size = start + length + size;
}

static struct ingot_tensor parsed(const struct file *file) {
    struct ingot_tensor tensor;
    struct ingot_error error;
    if (ig_npy_parse(file->bytes, file->size, &ig_libc_allocator, &tensor, &error) != INGOT_OK)
        fail_msg("%s", error.message);
    return tensor;
}

static void refuse(const struct file *file, const char *message) {
    struct ingot_tensor tensor;
    struct ingot_error error;
    assert_int_equal(ig_npy_parse(file->bytes, file->size, &ig_libc_allocator, &tensor, &error), INGOT_BAD_TENSOR);
    assert_string_equal(error.message, message);
}

static void test_versions(void **state) {
    const float data[] = {1, 2, 3, 4, 5, 6};
    struct file file;
    for (int version = 1; version <= 3; version++) {
        compose(&file, version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", data, sizeof data);
        struct ingot_tensor t = parsed(&file);
        assert_int_equal(t.dtype, INGOT_F32);
        assert_int_equal(t.rank, 2);
        assert_int_equal(t.dims[0], 2);
        assert_int_equal(t.dims[1], 3);
        assert_memory_equal(t.data, data, sizeof data);
        free(t.data);
    }
    compose(&file, 1, "{\"shape\":(6,),\"fortran_order\":False,\"descr\":\"=f4\"}", data, sizeof data);
    struct ingot_tensor t = parsed(&file);
    assert_int_equal(t.rank, 1);
    free(t.data);
    compose(&file, 4, "{}", NULL, 0);
    refuse(&file, ".npy of version 4, expected 1 to 3");
}

static void test_orders(void **state) {
    const int16_t data[] = {1, 2, 3, 4, 5, 6};
    const unsigned char big[] = {1, 2, 255, 254};
    struct file file;
    compose(&file, 1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3)}", data, sizeof data);
    struct ingot_tensor t = parsed(&file);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 3; j++)
            assert_int_equal(((int16_t *)t.data)[i * 3 + j], data[j * 2 + i]);
    }
    free(t.data);
    compose(&file, 1, "{'descr': '>i2', 'fortran_order': False, 'shape': (2,)}", big, sizeof big);
    t = parsed(&file);
    assert_int_equal(((int16_t *)t.data)[0], 258);
    assert_int_equal(((int16_t *)t.data)[1], -2);
    free(t.data);
}

static void test_types(void **state) {
    static const struct {
        const char *code;
        enum ingot_dtype dtype;
    } types[] = {{"<f2", INGOT_F16}, {"<f8", INGOT_F64},  {"|i1", INGOT_I8},  {"<i4", INGOT_I32},
                 {"<i8", INGOT_I64}, {"|u1", INGOT_U8},   {"<u2", INGOT_U16}, {"<u4", INGOT_U32},
                 {"<u8", INGOT_U64}, {"|b1", INGOT_BOOL}, {"?", INGOT_BOOL},  {"<V2", INGOT_BF16}};
    const unsigned char data[8] = {2, 0, 0, 0, 0, 0, 0, 0};
    struct file file;
    char header[128];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': ()}", types[i].code);
        compose(&file, 1, header, data, ingot_dtype_size(types[i].dtype));
        struct ingot_tensor t = parsed(&file);
        assert_int_equal(t.dtype, types[i].dtype);
        assert_int_equal(t.rank, 0);
        if (t.dtype == INGOT_BOOL) assert_int_equal(*(unsigned char *)t.data, 1);
        free(t.data);
    }
    compose(&file, 1, "{'descr': '<c8', 'fortran_order': False, 'shape': ()}", data, 8);
    refuse(&file, "elements of type '<c8' are not supported");
    compose(&file, 1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", data, 4);
    refuse(&file, "records with fields are not supported");
}

static void test_damage(void **state) {
    const float data[] = {1, 2};
    struct file file;
    compose(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", data, sizeof data);
    refuse(&file, "it has 8 bytes of elements, which is not the size of f32[3]");
    compose(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", data, sizeof data);
    refuse(&file, "it has 8 bytes of elements, which is not the size of f32[1]");
    compose(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", data, 0);
    refuse(&file, "it has 0 bytes of elements, which is not the size of f32[4611686018427387904,4]");
    compose(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", data, 4);
    refuse(&file, "rank 9 is more than 8");
    compose(&file, 1, "{'descr': '<f4', 'shape': (2,)}", data, sizeof data);
    refuse(&file, "its header is no dict of descr, fortran_order and shape");
    compose(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", data, sizeof data);
    refuse(&file, "its header is no dict of descr, fortran_order and shape");
    file.size = 30;
    refuse(&file, "it is cut off in the header");
    file.size = 5;
    refuse(&file, "not a .npy file");
    compose(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7)}", data, 0);
    struct ingot_tensor t = parsed(&file);
    assert_int_equal(ingot_tensor_elements(&t), 0);
    free(t.data);
}

static void write_and_read(const struct ingot_tensor *tensor) {
    struct file file;
    size_t size = (size_t)ingot_tensor_elements(tensor) * ingot_dtype_size(tensor->dtype);
    char header[IG_NPY_HEADER];
    size_t header_size = ig_npy_header(tensor, header);
    assert_int_equal(header_size % 64, 0);
    memcpy(file.bytes, header, header_size);
    if (size > 0) memcpy(file.bytes + header_size, tensor->data, size);
    file.size = header_size + size;
    struct ingot_tensor back = parsed(&file);
    assert_int_equal(back.dtype, tensor->dtype);
    assert_int_equal(back.rank, tensor->rank);
    for (int i = 0; i < back.rank; i++)
        assert_int_equal(back.dims[i], tensor->dims[i]);
    if (size > 0) assert_memory_equal(back.data, tensor->data, size);
    free(back.data);
}

static void test_round_trip(void **state) {
    unsigned char data[256];
    for (int i = 0; i < 256; i++)
        data[i] = (unsigned char)(i % 2);
    for (int dtype = 1; dtype < INGOT_DTYPE_COUNT; dtype++) {
        write_and_read(&(struct ingot_tensor){(enum ingot_dtype)dtype, 0, {0}, data, INGOT_HOST});
        write_and_read(&(struct ingot_tensor){(enum ingot_dtype)dtype, 1, {5}, data, INGOT_HOST});
        write_and_read(&(struct ingot_tensor){(enum ingot_dtype)dtype, 3, {2, 3, 4}, data, INGOT_HOST});
        write_and_read(&(struct ingot_tensor){(enum ingot_dtype)dtype, 8, {1, 1, 1, 1, 1, 1, 1, 0}, data, INGOT_HOST});
    }
}

/* Overwrites, inserts or deletes bytes, truncates, or repeats pieces; half the time within the header. */
static void mutate(struct file *file, uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    uint32_t random = *seed >> 7;
    size_t header = random & 1 ? 90 : file->size, at = (random >> 1) % (header < file->size ? header : file->size);
    *seed = *seed * 1664525u + 1013904223u;
    unsigned char byte = (unsigned char)(*seed >> 24);
    switch ((*seed >> 8) % 6) {
    case 0: file->bytes[at] = byte; break;
    case 1: file->bytes[at] ^= (unsigned char)(1 << byte % 8); break;
    case 2: file->size = at; break;
    case 3:
        memmove(file->bytes + at, file->bytes + at + 1, file->size - at - 1);
        file->size--;
        break;
    case 4:
        memmove(file->bytes + at + 1, file->bytes + at, file->size - at);
        file->bytes[at] = "0123456789,()'{}:TF<>x\0\xff"[byte % 24];
        file->size++;
        break;
    default: file->bytes[at] = "0123456789,()'{}:TF<>x\0\xff"[byte % 24]; break;
    }
}

static void test_mutations(void **state) {
    enum { MUTATIONS = 2000 };
    const double data[] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint32_t seed = 1;
    int refused = 0;
    for (int i = 0; i < MUTATIONS; i++) {
        struct file file;
        struct ingot_tensor tensor;
        struct ingot_error error = {INGOT_OK, ""};
        compose(&file, 1 + i % 3,
                "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 4), }                          \n", data,
                sizeof data);
        for (int n = i % 5; n >= 0 && file.size > 1; n--)
            mutate(&file, &seed);
        /* A block of exactly the file's size, so that AddressSanitizer detects reads beyond it. */
        unsigned char *copy = malloc(file.size ? file.size : 1);
        memcpy(copy, file.bytes, file.size);
        if (ig_npy_parse(copy, file.size, &ig_libc_allocator, &tensor, &error) == INGOT_OK) {
            assert_true(ingot_tensor_elements(&tensor) <= 64);
            free(tensor.data);
        } else {
            assert_int_equal(error.status, INGOT_BAD_TENSOR);
            assert_true(strlen(error.message) > 0);
            refused++;
        }
        free(copy);
    }
    assert_true(refused > MUTATIONS / 4);
}

/* ---- .npz */

static void test_npz(void **state) {
    char path[] = "/tmp/ingot-test-XXXXXX.npz";
    int fd = mkstemps(path, 4), code;
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    const int32_t numbers[] = {7, 8, 9};
    struct file one, two;
    compose(&one, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}", numbers, sizeof numbers);
    compose(&two, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': ()}", numbers, 4);
    zip_t *archive = zip_open(path, ZIP_CREATE, &code);
    assert_non_null(archive);
    zip_file_add(archive, "a.npy", zip_source_buffer(archive, one.bytes, one.size, 0), 0);
    zip_file_add(archive, "b/c.npy", zip_source_buffer(archive, two.bytes, two.size, 0), 0);
    assert_int_equal(zip_close(archive), 0);

    struct tensor_list list = {0};
    struct ingot_error error;
    if (tensor_file_read(path, &list, &error) != INGOT_OK) fail_msg("%s", error.message);
    assert_int_equal(list.count, 2);
    assert_int_equal(tensor_get_int(&tensor_list_find(&list, "a")->tensor, 2), 9);
    assert_int_equal(tensor_list_find(&list, "b/c")->tensor.rank, 0);
    assert_null(tensor_list_find(&list, "c"));
    tensor_list_free(&list);

    /* Each byte is damaged in turn: the file is refused with a message, or the damage has no effect. */
    unsigned char *bytes;
    size_t size;
    assert_int_equal(file_read(path, &bytes, &size, &error), INGOT_OK);
    for (size_t i = 0; i < size; i++) {
        FILE *file = fopen(path, "wb");
        bytes[i] ^= 0x55;
        fwrite(bytes, 1, size, file);
        fclose(file);
        bytes[i] ^= 0x55;
        error.message[0] = 0;
        if (tensor_file_read(path, &list, &error) != INGOT_OK) assert_true(strlen(error.message) > 0);
        tensor_list_free(&list);
    }
    free(bytes);
    unlink(path);
}

/* ---- ONNX TensorProto, written by hand: field number << 3 | wire type, then the value */

static void expect_onnx(const void *bytes, size_t size, const char *type) {
    struct named_tensor t;
    struct ingot_error error;
    if (onnx_tensor_parse(bytes, size, &t, &error) != INGOT_OK) fail_msg("%s", error.message);
    char *text = tensor_type_text(&t.tensor);
    assert_string_equal(text, type);
    free(text);
    named_tensor_free(&t);
}

static void refuse_onnx(const void *bytes, size_t size, const char *message) {
    struct named_tensor t;
    struct ingot_error error;
    assert_int_not_equal(onnx_tensor_parse(bytes, size, &t, &error), INGOT_OK);
    assert_string_equal(error.message, message);
}

static void test_onnx(void **state) {
    expect_onnx("\x08\x02\x10\x06\x4a\x08\1\0\0\0\2\0\0\0", 14, "i32[2]"); /* raw data */
    expect_onnx("\x10\x01\x22\x04\0\0\x80\x3f", 8, "f32[]");               /* float_data */
    expect_onnx("\x08\x02\x10\x0a\x2a\x03\x80\x78\x01", 9, "f16[2]");      /* bits in int32_data */
    expect_onnx("\x08\x00\x10\x07", 4, "i64[0]");
    refuse_onnx("\x08\x02\x10\x06\x4a\x04\1\0\0\0", 10, "its data do not have the size of i32[2]");
    refuse_onnx("\x08\x01\x10\x01\x3a\x01\x05", 7, "its data are in a field of another type");
    refuse_onnx("\x08\x01\x10\x08", 4, "tensors of strings are not supported");
    refuse_onnx("\x08\x01\x10\x63", 4, "it is no ONNX tensor (element type 99)");
    refuse_onnx("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01", 13, "dim 0 is -1");
    refuse_onnx("\xff\xff", 2, "it is no ONNX tensor");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions), cmocka_unit_test(test_orders),     cmocka_unit_test(test_types),
        cmocka_unit_test(test_damage),   cmocka_unit_test(test_round_trip), cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_npz),      cmocka_unit_test(test_onnx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
