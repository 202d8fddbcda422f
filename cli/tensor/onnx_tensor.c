/* ONNX TensorProto files (.pb), read by protobuf-c with the importer's schema. */
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "tensor/tensor.h"

/* TensorProto.DataType */
static const enum ingot_dtype dtypes[] = {
    [1] = INGOT_F32,     [2] = INGOT_U8,          [3] = INGOT_I8,    [4] = INGOT_U16,       [5] = INGOT_I16,
    [6] = INGOT_I32,     [7] = INGOT_I64,         [9] = INGOT_BOOL,  [10] = INGOT_F16,      [11] = INGOT_F64,
    [12] = INGOT_U32,    [13] = INGOT_U64,        [16] = INGOT_BF16, [17] = INGOT_F8E4M3FN, [18] = INGOT_F8E4M3FNUZ,
    [19] = INGOT_F8E5M2, [20] = INGOT_F8E5M2FNUZ, [21] = INGOT_U4,   [22] = INGOT_I4,       [23] = INGOT_F4E2M1,
    [24] = INGOT_F8E8M0, [25] = INGOT_U2,         [26] = INGOT_I2,
};
static const char *const unsupported[] = {
    [8] = "strings", [14] = "complex64", [15] = "complex128", [27] = "float6", [28] = "float6"};

static enum ingot_dtype dtype_of(const Onnx__TensorProto *proto) {
    size_t type = proto->data_type < 0 ? 0 : (size_t)proto->data_type;
    return type < sizeof dtypes / sizeof *dtypes ? dtypes[type] : INGOT_DTYPE_NONE;
}

static enum ingot_status refuse_type(int type, struct ingot_error *error) {
    bool known = type >= 0 && (size_t)type < sizeof unsupported / sizeof *unsupported && unsupported[type];
    if (known) return cli_error(error, INGOT_UNSUPPORTED, "tensors of %s are not supported", unsupported[type]);
    return cli_error(error, INGOT_BAD_TENSOR, "it is no ONNX tensor (element type %d)", type);
}

/* The bytes of n elements in a file, where several of less than 8 bits share one. */
static size_t stored_count(enum ingot_dtype dtype, size_t n) {
    size_t each = dtype_packed_bits(dtype) ? (size_t)(8 / dtype_packed_bits(dtype)) : 1;
    return n / each + (n % each != 0);
}

/* Gives each element a byte of its own, from the last on: the first has the lowest bits. */
static void unpack(const struct ingot_tensor *tensor, size_t n) {
    int bits = dtype_packed_bits(tensor->dtype);
    bool is_signed = tensor->dtype == INGOT_I4 || tensor->dtype == INGOT_I2;
    uint8_t *data = tensor->data;
    for (size_t i = n; bits && i-- > 0;) {
        size_t each = (size_t)(8 / bits);
        int code = data[i / each] >> (int)(i % each) * bits & ((1 << bits) - 1), sign = 1 << (bits - 1);
        data[i] = (uint8_t)(is_signed ? (code ^ sign) - sign : code);
    }
}

/* The typed fields: each type is stored in one of them, floats of 16 bits and less as their bits in int32_data. */
static bool copy_typed(const Onnx__TensorProto *proto, struct ingot_tensor *tensor, size_t n) {
    char *data = tensor->data;
    size_t size = ingot_dtype_size(tensor->dtype);
    switch (tensor->dtype) {
    case INGOT_F32:
        if (proto->n_float_data != n) return false;
        if (n) memcpy(data, proto->float_data, n * size);
        return true;
    case INGOT_F64:
        if (proto->n_double_data != n) return false;
        if (n) memcpy(data, proto->double_data, n * size);
        return true;
    case INGOT_I64:
        if (proto->n_int64_data != n) return false;
        if (n) memcpy(data, proto->int64_data, n * size);
        return true;
    case INGOT_U32:
    case INGOT_U64:
        if (proto->n_uint64_data != n) return false;
        for (size_t i = 0; i < n; i++)
            memcpy(data + i * size, &proto->uint64_data[i], size); /* little-endian */
        return true;
    default:
        if (proto->n_int32_data != n) return false;
        for (size_t i = 0; i < n; i++)
            memcpy(data + i * size, &proto->int32_data[i], size);
        return true;
    }
}

static enum ingot_status convert(const Onnx__TensorProto *proto, struct ingot_tensor *tensor,
                                 struct ingot_error *error) {
    tensor->dtype = dtype_of(proto);
    if (tensor->dtype == INGOT_DTYPE_NONE) return refuse_type(proto->data_type, error);
    if (proto->n_external_data > 0 || (proto->has_data_location && proto->data_location != 0)) {
        return cli_error(error, INGOT_BAD_TENSOR, "its elements lie in another file");
    }
    if (proto->n_dims > INGOT_MAX_RANK) {
        return cli_error(error, INGOT_UNSUPPORTED, "rank %zu is more than %d", proto->n_dims, INGOT_MAX_RANK);
    }
    tensor->rank = (int)proto->n_dims;
    size_t bytes = ingot_dtype_size(tensor->dtype), present = proto->has_raw_data ? proto->raw_data.len : 0;
    for (int i = 0; i < tensor->rank; i++) {
        tensor->dims[i] = proto->dims[i];
        if (proto->dims[i] < 0 || __builtin_mul_overflow(bytes, (size_t)proto->dims[i], &bytes)) {
            return cli_error(error, INGOT_BAD_TENSOR, "dim %d is %lld", i, (long long)proto->dims[i]);
        }
    }
    size_t n = bytes / ingot_dtype_size(tensor->dtype);
    size_t typed =
        proto->n_float_data + proto->n_double_data + proto->n_int64_data + proto->n_uint64_data + proto->n_int32_data;
    size_t stored = stored_count(tensor->dtype, n), stored_bytes = stored * ingot_dtype_size(tensor->dtype);
    if (proto->has_raw_data ? present != stored_bytes : typed != stored) { /* checked before allocating */
        char *type = tensor_type_text(tensor);
        cli_error(error, INGOT_BAD_TENSOR, "its data do not have the size of %s", type);
        free(type);
        return INGOT_BAD_TENSOR;
    }
    CLI_TRY(tensor_allocate(tensor, error));
    if (proto->has_raw_data) {
        if (stored_bytes > 0) memcpy(tensor->data, proto->raw_data.data, stored_bytes);
    } else if (!copy_typed(proto, tensor, stored)) {
        free(tensor->data);
        return cli_error(error, INGOT_BAD_TENSOR, "its data are in a field of another type");
    }
    unpack(tensor, n);
    return INGOT_OK;
}

enum ingot_status onnx_tensor_parse(const void *data, size_t size, struct named_tensor *out_tensor,
                                    struct ingot_error *error) {
    struct named_tensor tensor = {0};
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, size, data);
    if (!proto) return cli_error(error, INGOT_BAD_TENSOR, "it is no ONNX tensor");
    enum ingot_status status = convert(proto, &tensor.tensor, error);
    if (status == INGOT_OK) {
        if (proto->name && proto->name[0]) tensor.name = cli_strdup(proto->name);
        *out_tensor = tensor;
    }
    onnx__tensor_proto__free_unpacked(proto, NULL);
    return status;
}
