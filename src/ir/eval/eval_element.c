/* Elements of every type: one at a time, and as rows of cells. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/narrow.h"
#include "ir/eval/eval_op.h"

double ig_load_f64(enum ingot_dtype dtype, const void *data, int64_t index) {
    union ig_cell cell;
    ig_cells_load(dtype, (const char *)data + index * (int64_t)ingot_dtype_size(dtype), 0, 1, &cell);
    if (ig_cells_are_float(dtype)) return cell.f;
    return dtype == INGOT_U64 ? (double)(uint64_t)cell.i : (double)cell.i;
}

/* Truncates. NaN gives 0; values outside of int64 give its lowest value, as hardware does. */
static int64_t truncate(double value) {
    if (isnan(value)) return 0;
    return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

int64_t ig_load_i64(enum ingot_dtype dtype, const void *data, int64_t index) {
    union ig_cell cell;
    ig_cells_load(dtype, (const char *)data + index * (int64_t)ingot_dtype_size(dtype), 0, 1, &cell);
    return ig_cells_are_float(dtype) ? truncate(cell.f) : cell.i;
}

void ig_store_f64(enum ingot_dtype dtype, void *data, int64_t index, double value) {
    union ig_cell cell = {.f = value};
    if (dtype == INGOT_BOOL) {
        cell.i = value != 0;
    } else if (dtype == INGOT_U64 && value >= 0x1p63 && value < 0x1p64) {
        cell.i = (int64_t)(uint64_t)value;
    } else if (!ig_cells_are_float(dtype)) {
        cell.i = truncate(value);
    }
    ig_cells_store(dtype, (char *)data + index * (int64_t)ingot_dtype_size(dtype), 0, 1, &cell);
}

void ig_store_i64(enum ingot_dtype dtype, void *data, int64_t index, int64_t value) {
    if (dtype == INGOT_F32) { /* not through double, which would round twice */
        ((float *)data)[index] = (float)value;
        return;
    }
    union ig_cell cell = {.i = value};
    if (ig_cells_are_float(dtype)) cell.f = (double)value;
    ig_cells_store(dtype, (char *)data + index * (int64_t)ingot_dtype_size(dtype), 0, 1, &cell);
}

/* The loop is written twice so that the compiler can vectorise the contiguous case. */
#define LOAD(type, field, convert)                                            \
    if (stride == (int64_t)sizeof(type)) {                                    \
        const type *restrict from = data;                                     \
        for (int64_t i = 0; i < count; i++)                                   \
            out_cells[i].field = convert(from[i]);                            \
    } else {                                                                  \
        const char *from = data;                                              \
        for (int64_t i = 0; i < count; i++)                                   \
            out_cells[i].field = convert(*(const type *)(from + i * stride)); \
    }                                                                         \
    break;

/* Of narrow floats, cells hold the codes. */
static void load_narrow(enum ingot_dtype dtype, const char *data, int64_t stride, int64_t count,
                        union ig_cell *restrict out_cells) {
    bool is_float = ig_narrow_is_float(dtype);
    uint8_t mask = (uint8_t)((1 << ig_narrow_bits(dtype)) - 1);
    for (int64_t i = 0; i < count; i++) {
        uint8_t byte = *(const uint8_t *)(data + i * stride);
        out_cells[i].i = is_float ? byte & mask : ig_narrow_to_int(dtype, byte);
    }
}

void ig_cells_load(enum ingot_dtype dtype, const void *data, int64_t stride, int64_t count,
                   union ig_cell *restrict out_cells) {
    switch (dtype) {
    case INGOT_F32: LOAD(float, f, (double))
    case INGOT_F64: LOAD(double, f, (double))
    case INGOT_F16: LOAD(uint16_t, f, (double)ig_f16_to_f32)
    case INGOT_BF16: LOAD(uint16_t, f, (double)ig_bf16_to_f32)
    case INGOT_I8: LOAD(int8_t, i, (int64_t))
    case INGOT_I16: LOAD(int16_t, i, (int64_t))
    case INGOT_I32: LOAD(int32_t, i, (int64_t))
    case INGOT_I64: LOAD(int64_t, i, (int64_t))
    case INGOT_BOOL: LOAD(uint8_t, i, (int64_t) !!)
    case INGOT_U8: LOAD(uint8_t, i, (int64_t))
    case INGOT_U16: LOAD(uint16_t, i, (int64_t))
    case INGOT_U32: LOAD(uint32_t, i, (int64_t))
    case INGOT_U64: LOAD(uint64_t, i, (int64_t))
    case INGOT_DTYPE_NONE: memset(out_cells, 0, (size_t)count * sizeof *out_cells); break;
    default: load_narrow(dtype, data, stride, count, out_cells); break;
    }
}

#define STORE(type, field, convert)                               \
    if (stride == (int64_t)sizeof(type)) {                        \
        type *restrict to = data;                                 \
        for (int64_t i = 0; i < count; i++)                       \
            to[i] = convert(cells[i].field);                      \
    } else {                                                      \
        char *to = data;                                          \
        for (int64_t i = 0; i < count; i++)                       \
            *(type *)(to + i * stride) = convert(cells[i].field); \
    }                                                             \
    break;

void ig_cells_store(enum ingot_dtype dtype, void *data, int64_t stride, int64_t count,
                    const union ig_cell *restrict cells) {
    switch (dtype) {
    case INGOT_F32: STORE(float, f, (float))
    case INGOT_F64: STORE(double, f, (double))
    case INGOT_F16: STORE(uint16_t, f, ig_f64_to_f16)
    case INGOT_BF16: STORE(uint16_t, f, ig_f64_to_bf16)
    case INGOT_I8: STORE(int8_t, i, (int8_t))
    case INGOT_I16: STORE(int16_t, i, (int16_t))
    case INGOT_I32: STORE(int32_t, i, (int32_t))
    case INGOT_I64: STORE(int64_t, i, (int64_t))
    case INGOT_BOOL: STORE(uint8_t, i, (uint8_t) !!)
    case INGOT_U8: STORE(uint8_t, i, (uint8_t))
    case INGOT_U16: STORE(uint16_t, i, (uint16_t))
    case INGOT_U32: STORE(uint32_t, i, (uint32_t))
    case INGOT_U64: STORE(uint64_t, i, (uint64_t))
    case INGOT_DTYPE_NONE: break;
    default: STORE(uint8_t, i, (uint8_t)) /* narrow: what was computed fits */
    }
}
