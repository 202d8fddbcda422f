/* Files of weights: safetensors, what is wrong with hostile ones, and 2,000 damaged ones. (.npy and .npz are tested with the
 * command line's tensor files.) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "weights/weights.h"

struct file {
    unsigned char bytes[4096];
    size_t size;
};

static void compose(struct file *file, const char *header, size_t data_size) {
    uint64_t length = strlen(header);
    memcpy(file->bytes, &length, sizeof length);
    memcpy(file->bytes + sizeof length, header, (size_t)length);
    for (size_t i = 0; i < data_size; i++)
        file->bytes[sizeof length + length + i] = (unsigned char)(i + 1);
    file->size = sizeof length + (size_t)length + data_size;
}

struct reading {
    const unsigned char *data;
    size_t size;
    struct ig_tensors tensors;
};

static void read_body(struct ig_job *job, void *argument) {
    struct reading *r = argument;
    r->tensors.job = job;
    ig_safetensors_read(&r->tensors, r->data, r->size);
}

/* Reads a copy of exactly the file's size, so that AddressSanitizer detects reads beyond it. `skew` misaligns it. */
static enum ingot_status read_copy(struct ig_job *job, const struct file *file, size_t skew, struct reading *out,
                                   unsigned char **out_copy, struct ingot_error *error) {
    unsigned char *copy = malloc(file->size + skew + 1);
    memcpy(copy + skew, file->bytes, file->size);
    *out = (struct reading){.data = copy + skew, .size = file->size};
    *out_copy = copy;
    ig_job_init(job, &ig_libc_allocator);
    return ig_job_run(job, read_body, out, error);
}

static void refuse(const char *header, size_t data_size, const char *message) {
    struct file file;
    struct reading r;
    struct ig_job job;
    struct ingot_error error = {0};
    unsigned char *copy;
    compose(&file, header, data_size);
    assert_int_not_equal(read_copy(&job, &file, 0, &r, &copy, &error), INGOT_OK);
    assert_string_equal(error.message, message);
    ig_job_deinit(&job);
    free(copy);
}

static const char two[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                          "\"b\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[24,26]},"
                          "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                          "\"none\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[26,26]},"
                          "\"c\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[26,28]}}";

static void test_tensors(void **state) {
    for (size_t skew = 0; skew < 4; skew++) {
        struct file file;
        struct reading r;
        struct ig_job job;
        struct ingot_error error;
        unsigned char *copy;
        compose(&file, two, 28);
        if (read_copy(&job, &file, skew, &r, &copy, &error) != INGOT_OK) fail_msg("%s", error.message);
        assert_int_equal(r.tensors.list.count, 4);
        const unsigned char *data = r.data + file.size - 28;
        const struct ingot_named_tensor *b = &r.tensors.list.at[0], *a = &r.tensors.list.at[1];
        assert_string_equal(b->name, "b");
        assert_int_equal(b->tensor.dtype, INGOT_F16);
        assert_int_equal(b->tensor.rank, 0);
        assert_memory_equal(b->tensor.data, data + 24, 2);
        assert_string_equal(a->name, "a");
        assert_int_equal(a->tensor.dtype, INGOT_F32);
        assert_int_equal(a->tensor.dims[0] * 10 + a->tensor.dims[1], 23);
        assert_memory_equal(a->tensor.data, data, 24);
        assert_int_equal((uintptr_t)a->tensor.data % 4, 0);
        assert_int_equal(ingot_tensor_elements(&r.tensors.list.at[2].tensor), 0);
        assert_memory_equal(r.tensors.list.at[3].tensor.data, "\1\1", 2);
        ig_job_deinit(&job);
        free(copy);
    }
}

#define ONE(dtype, shape, offsets) "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void test_floats_of_8_bits(void **state) {
    static const struct {
        const char *header;
        enum ingot_dtype dtype;
    } types[] = {
        {ONE("F8_E4M3", "[4]", "[0,4]"), INGOT_F8E4M3FN},       {ONE("F8_E5M2", "[4]", "[0,4]"), INGOT_F8E5M2},
        {ONE("F8_E4M3FNUZ", "[4]", "[0,4]"), INGOT_F8E4M3FNUZ}, {ONE("F8_E5M2FNUZ", "[4]", "[0,4]"), INGOT_F8E5M2FNUZ},
        {ONE("F8_E8M0", "[4]", "[0,4]"), INGOT_F8E8M0},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct file file;
        struct reading r;
        struct ig_job job;
        struct ingot_error error;
        unsigned char *copy;
        compose(&file, types[i].header, 4);
        if (read_copy(&job, &file, 1, &r, &copy, &error) != INGOT_OK) fail_msg("%s", error.message);
        assert_int_equal(r.tensors.list.at[0].tensor.dtype, types[i].dtype);
        assert_memory_equal(r.tensors.list.at[0].tensor.data, "\1\2\3\4", 4);
        ig_job_deinit(&job);
        free(copy);
    }
}

static void test_hostile(void **state) {
    refuse(ONE("F32", "[2]", "[0,8]"), 4, "cannot read 'a': its data, bytes 0 to 8 of 4, are not in the file");
    refuse(ONE("F32", "[2]", "[8,0]"), 8, "cannot read 'a': its data, bytes 8 to 0 of 8, are not in the file");
    refuse(ONE("F32", "[2]", "[-8,0]"), 8, "cannot read 'a': it has no data_offsets");
    refuse(ONE("F32", "[2]", "[0,8,9]"), 8, "cannot read 'a': it has no data_offsets");
    refuse(ONE("F32", "[2]", "\"all\""), 8, "cannot read 'a': it has no data_offsets");
    refuse(ONE("F32", "[3]", "[0,8]"), 8,
           "cannot read 'a': it has 8 bytes of data, which is not the size of its shape");
    refuse(ONE("F32", "[4611686018427387904,4]", "[0,0]"), 0,
           "cannot read 'a': it has 0 bytes of data, which is not the size of its shape");
    refuse(ONE("F32", "[-1]", "[0,0]"), 0, "cannot read 'a': dim 0 of its shape is no size");
    refuse(ONE("F32", "[1.5]", "[0,4]"), 4, "cannot read 'a': dim 0 of its shape is no size");
    refuse(ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "cannot read 'a': rank 9 is more than 8");
    refuse(ONE("F6_E2M3", "[4]", "[0,4]"), 4, "cannot read 'a': elements of type 'F6_E2M3' are not supported");
    refuse(ONE("F32", "[1]", "[0,4]"), 8, "it has 8 bytes of data, and tensors for 4");
    refuse(ONE("F32", "[1]", "[4,8]"), 8, "its tensors leave a hole at byte 0");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
           6, "its tensors overlap at byte 4");
    refuse("{\"a\":1}", 0, "cannot read 'a': it has no dtype or no shape");
    refuse("[]", 0, "its header is no JSON object");
    refuse("{\"a\":{},\"a\":{}}", 0, "its header is no valid JSON: duplicate object key near '\"a\"'");
}

static void test_header_lengths(void **state) {
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, INT64_MAX, 100000001, 1000, 3};
    struct file file;
    struct reading r;
    struct ig_job job;
    struct ingot_error error;
    unsigned char *copy;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        compose(&file, "{}", 0);
        memcpy(file.bytes, &lengths[i], 8);
        assert_int_equal(read_copy(&job, &file, 0, &r, &copy, &error), INGOT_BAD_TENSOR);
        ig_job_deinit(&job);
        free(copy);
    }
    compose(&file, "{}", 0);
    for (file.size = 0; file.size < 10; file.size++) {
        assert_int_equal(read_copy(&job, &file, 0, &r, &copy, &error), INGOT_BAD_TENSOR);
        ig_job_deinit(&job);
        free(copy);
    }
}

static void test_mutations(void **state) {
    enum { MUTATIONS = 2000 };
    uint64_t seed = 1;
    int refused = 0;
    for (int i = 0; i < MUTATIONS; i++) {
        struct file file;
        struct reading r;
        struct ig_job job;
        struct ingot_error error = {0};
        unsigned char *copy;
        compose(&file, two, 28);
        for (int n = i % 4; n >= 0; n--) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(seed >> 33) % file.size;
            unsigned char byte = (unsigned char)(seed >> 20);
            file.bytes[at] = seed >> 60 < 12 ? (unsigned char)"0123456789[]{}\",:-F"[byte % 19] : byte;
        }
        if (i % 7 == 0) file.size -= (size_t)(seed >> 40) % file.size;
        if (read_copy(&job, &file, (size_t)i % 3, &r, &copy, &error) == INGOT_OK) {
            for (uint32_t k = 0; k < r.tensors.list.count; k++) { /* all of it can be read */
                const struct ingot_tensor *t = &r.tensors.list.at[k].tensor;
                size_t bytes = (size_t)ingot_tensor_elements(t) * ingot_dtype_size(t->dtype);
                if (bytes > 0) assert_true(memchr(t->data, 0x100, bytes) || bytes <= file.size);
            }
        } else {
            assert_true(strlen(error.message) > 0);
            refused++;
        }
        ig_job_deinit(&job);
        free(copy);
    }
    assert_true(refused > MUTATIONS / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tensors), cmocka_unit_test(test_floats_of_8_bits),
                                       cmocka_unit_test(test_hostile), cmocka_unit_test(test_header_lengths),
                                       cmocka_unit_test(test_mutations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
