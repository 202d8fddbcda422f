/* Element types, tensors and the version: the part of the public API that needs nothing else. */
#include "ingot/ingot.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[INGOT_DTYPE_COUNT] = {
    [INGOT_DTYPE_NONE] = {"none", 0},
    [INGOT_F32] = {"f32", 4},
    [INGOT_F16] = {"f16", 2},
    [INGOT_BF16] = {"bf16", 2},
    [INGOT_F64] = {"f64", 8},
    [INGOT_I8] = {"i8", 1},
    [INGOT_I16] = {"i16", 2},
    [INGOT_I32] = {"i32", 4},
    [INGOT_I64] = {"i64", 8},
    [INGOT_U8] = {"u8", 1},
    [INGOT_U16] = {"u16", 2},
    [INGOT_U32] = {"u32", 4},
    [INGOT_U64] = {"u64", 8},
    [INGOT_BOOL] = {"bool", 1},
    [INGOT_I4] = {"i4", 1},
    [INGOT_U4] = {"u4", 1},
    [INGOT_I2] = {"i2", 1},
    [INGOT_U2] = {"u2", 1},
    [INGOT_F8E4M3FN] = {"f8e4m3fn", 1},
    [INGOT_F8E5M2] = {"f8e5m2", 1},
    [INGOT_F8E4M3FNUZ] = {"f8e4m3fnuz", 1},
    [INGOT_F8E5M2FNUZ] = {"f8e5m2fnuz", 1},
    [INGOT_F8E8M0] = {"f8e8m0", 1},
    [INGOT_F4E2M1] = {"f4e2m1", 1},
};

const char *ingot_version(void) {
    return INGOT_VERSION;
}

size_t ingot_dtype_size(enum ingot_dtype dtype) {
    return (size_t)dtype < INGOT_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *ingot_dtype_name(enum ingot_dtype dtype) {
    return (size_t)dtype < INGOT_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

int64_t ingot_tensor_elements(const struct ingot_tensor *tensor) {
    if (!tensor || tensor->rank < 0 || tensor->rank > INGOT_MAX_RANK) return 0;
    int64_t elements = 1;
    bool overflow = false;
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] <= 0) return 0;
        overflow |= __builtin_mul_overflow(elements, tensor->dims[i], &elements);
    }
    return overflow ? INT64_MAX : elements;
}
