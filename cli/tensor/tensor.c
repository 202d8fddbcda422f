/* Tensors in memory: element access with conversion, types as text. */
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void named_tensor_free(struct named_tensor *tensor) {
    free(tensor->name);
    free(tensor->tensor.data);
    *tensor = (struct named_tensor){0};
}

void tensor_list_add(struct tensor_list *list, struct named_tensor tensor) {
    list->at = cli_resize(list->at, list->count + 1, sizeof *list->at);
    list->at[list->count++] = tensor;
}

struct named_tensor *tensor_list_find(const struct tensor_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i].name && strcmp(list->at[i].name, name) == 0) return &list->at[i];
    }
    return NULL;
}

void tensor_list_free(struct tensor_list *list) {
    for (size_t i = 0; i < list->count; i++)
        named_tensor_free(&list->at[i]);
    free(list->at);
    *list = (struct tensor_list){0};
}

enum ingot_status tensor_allocate(struct ingot_tensor *tensor, struct ingot_error *error) {
    size_t bytes = ingot_dtype_size(tensor->dtype);
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] < 0 || __builtin_mul_overflow(bytes, (size_t)tensor->dims[i], &bytes) ||
            bytes > (size_t)1 << 46) {
            char *type = tensor_type_text(tensor);
            cli_error(error, INGOT_BAD_TENSOR, "a tensor %s would have more than 2^46 bytes", type);
            free(type);
            return INGOT_BAD_TENSOR;
        }
    }
    tensor->data = calloc(bytes ? bytes : 1, 1);
    if (!tensor->data) return cli_error(error, INGOT_OUT_OF_MEMORY, "no memory for a tensor of %zu bytes", bytes);
    return INGOT_OK;
}

char *tensor_type_text(const struct ingot_tensor *tensor) {
    char dims[INGOT_MAX_RANK * 22 + 1] = "";
    size_t used = 0;
    for (int i = 0; i < tensor->rank; i++) {
        used += (size_t)snprintf(dims + used, sizeof dims - used, "%s%lld", i ? "," : "", (long long)tensor->dims[i]);
    }
    return cli_format("%s[%s]", ingot_dtype_name(tensor->dtype), dims);
}

bool dtype_is_float(enum ingot_dtype dtype) {
    return dtype == INGOT_F32 || dtype == INGOT_F16 || dtype == INGOT_BF16 || dtype == INGOT_F64;
}

/* ---- Half precision */

static double half_to_double(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31) return fraction ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

/* Nearest, ties to even. */
static uint16_t double_to_half(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    if (isnan(value)) return sign | 0x7e00;
    if (size >= 65520) return sign | 0x7c00;
    int exponent;
    frexp(size, &exponent);                               /* size = f * 2^exponent, f in [0.5, 1) */
    if (exponent < -13) exponent = -13;                   /* subnormal */
    double steps = nearbyint(ldexp(size, 11 - exponent)); /* of the last bit */
    return (uint16_t)(sign | (uint16_t)((exponent + 13) * 1024 + (int)steps));
}

static double bfloat_to_double(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

static uint16_t double_to_bfloat(double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (isnan(value)) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- Floats of 8 bits and less */

struct narrow_float {
    int bits, mantissa, bias;
    int infinity, nan; /* the least codes of these magnitudes; 0: none */
    bool negative_zero_is_nan;
};

static const struct narrow_float narrow_floats[INGOT_DTYPE_COUNT] = {
    [INGOT_F8E4M3FN] = {8, 3, 7, 0, 0x7f, false}, [INGOT_F8E5M2] = {8, 2, 15, 0x7c, 0x7d, false},
    [INGOT_F8E4M3FNUZ] = {8, 3, 8, 0, 0, true},   [INGOT_F8E5M2FNUZ] = {8, 2, 16, 0, 0, true},
    [INGOT_F4E2M1] = {4, 1, 1, 0, 0, false},
};

static double narrow_to_double(enum ingot_dtype dtype, int code) {
    const struct narrow_float *f = &narrow_floats[dtype];
    if (dtype == INGOT_F8E8M0) return code == 255 ? (double)NAN : ldexp(1, code - 127);
    double sign = code >> (f->bits - 1) ? -1 : 1;
    int size = code & ((1 << (f->bits - 1)) - 1), exponent = size >> f->mantissa, fraction = size % (1 << f->mantissa);
    if ((f->nan && size >= f->nan) || (f->negative_zero_is_nan && size == 0 && sign < 0)) return (double)NAN;
    if (f->infinity && size == f->infinity) return sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - f->bias - f->mantissa);
    return sign * ldexp((1 << f->mantissa) + fraction, exponent - f->bias - f->mantissa);
}

int dtype_packed_bits(enum ingot_dtype dtype) {
    switch (dtype) {
    case INGOT_I4:
    case INGOT_U4:
    case INGOT_F4E2M1: return 4;
    case INGOT_I2:
    case INGOT_U2: return 2;
    default: return 0;
    }
}

/* ---- Elements */

double tensor_get(const struct ingot_tensor *tensor, int64_t index) {
    const void *data = tensor->data;
    switch (tensor->dtype) {
    case INGOT_F32: return (double)((const float *)data)[index];
    case INGOT_F64: return ((const double *)data)[index];
    case INGOT_F16: return half_to_double(((const uint16_t *)data)[index]);
    case INGOT_BF16: return bfloat_to_double(((const uint16_t *)data)[index]);
    case INGOT_U64: return (double)((const uint64_t *)data)[index];
    case INGOT_F8E4M3FN:
    case INGOT_F8E5M2:
    case INGOT_F8E4M3FNUZ:
    case INGOT_F8E5M2FNUZ:
    case INGOT_F8E8M0:
    case INGOT_F4E2M1: return narrow_to_double(tensor->dtype, (int)tensor_get_int(tensor, index));
    default: return (double)tensor_get_int(tensor, index);
    }
}

int64_t tensor_get_int(const struct ingot_tensor *tensor, int64_t index) {
    const void *data = tensor->data;
    switch (tensor->dtype) {
    case INGOT_I8: return ((const int8_t *)data)[index];
    case INGOT_I16: return ((const int16_t *)data)[index];
    case INGOT_I32: return ((const int32_t *)data)[index];
    case INGOT_I64: return ((const int64_t *)data)[index];
    case INGOT_U16: return ((const uint16_t *)data)[index];
    case INGOT_U32: return ((const uint32_t *)data)[index];
    case INGOT_U64: return (int64_t)((const uint64_t *)data)[index];
    case INGOT_I4: return ((((const uint8_t *)data)[index] & 15) ^ 8) - 8;
    case INGOT_I2: return ((((const uint8_t *)data)[index] & 3) ^ 2) - 2;
    case INGOT_U4:
    case INGOT_F4E2M1: return ((const uint8_t *)data)[index] & 15;
    case INGOT_U2: return ((const uint8_t *)data)[index] & 3;
    default: return ((const uint8_t *)data)[index];
    }
}

void tensor_set(const struct ingot_tensor *tensor, int64_t index, double value) {
    void *data = tensor->data;
    switch (tensor->dtype) {
    case INGOT_F32: ((float *)data)[index] = (float)value; break;
    case INGOT_F64: ((double *)data)[index] = value; break;
    case INGOT_F16: ((uint16_t *)data)[index] = double_to_half(value); break;
    case INGOT_BF16: ((uint16_t *)data)[index] = double_to_bfloat(value); break;
    case INGOT_I8: ((int8_t *)data)[index] = (int8_t)value; break;
    case INGOT_I16: ((int16_t *)data)[index] = (int16_t)value; break;
    case INGOT_I32: ((int32_t *)data)[index] = (int32_t)value; break;
    case INGOT_I64: ((int64_t *)data)[index] = (int64_t)value; break;
    case INGOT_U16: ((uint16_t *)data)[index] = (uint16_t)value; break;
    case INGOT_U32: ((uint32_t *)data)[index] = (uint32_t)value; break;
    case INGOT_U64: ((uint64_t *)data)[index] = (uint64_t)value; break;
    case INGOT_BOOL: ((uint8_t *)data)[index] = value != 0; break;
    default: ((uint8_t *)data)[index] = (uint8_t)value; break;
    }
}

enum ingot_status tensor_cast(const struct ingot_tensor *from, enum ingot_dtype dtype, struct ingot_tensor *out_tensor,
                              struct ingot_error *error) {
    int64_t count = ingot_tensor_elements(from);
    struct ingot_tensor to = *from;
    to.dtype = dtype;
    CLI_TRY(tensor_allocate(&to, error));
    for (int64_t i = 0; i < count; i++)
        tensor_set(&to, i, tensor_get(from, i));
    *out_tensor = to;
    return INGOT_OK;
}
