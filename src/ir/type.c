/* Types of values and element types. */
#include "ir/type.h"

#include <string.h>

#include "base/narrow.h"

bool ig_dtype_is_float(enum ingot_dtype dtype) {
    return dtype == INGOT_F32 || dtype == INGOT_F16 || dtype == INGOT_BF16 || dtype == INGOT_F64;
}

bool ig_dtype_is_signed(enum ingot_dtype dtype) {
    return dtype == INGOT_I8 || dtype == INGOT_I16 || dtype == INGOT_I32 || dtype == INGOT_I64;
}

bool ig_dtype_is_integer(enum ingot_dtype dtype) {
    return dtype >= INGOT_I8 && dtype <= INGOT_U64;
}

bool ig_dtype_is_narrow(enum ingot_dtype dtype) {
    return ig_narrow_bits(dtype) != 0;
}

enum ingot_dtype ig_dtype_beside(enum ingot_dtype narrow) {
    if (ig_narrow_is_float(narrow)) return INGOT_F32;
    return narrow == INGOT_I4 || narrow == INGOT_I2 ? INGOT_I8 : INGOT_U8;
}

bool ig_dtype_rounds_f64(enum ingot_dtype narrow) {
    return ig_narrow_is_float(narrow) && narrow != INGOT_F8E8M0;
}

enum ingot_dtype ig_dtype_compute(enum ingot_dtype dtype) {
    return dtype == INGOT_F16 || dtype == INGOT_BF16 ? INGOT_F32 : dtype;
}

enum ingot_dtype ig_dtype_parse(const char *name) {
    for (int dtype = INGOT_DTYPE_NONE + 1; dtype < INGOT_DTYPE_COUNT; dtype++) {
        if (strcmp(ingot_dtype_name((enum ingot_dtype)dtype), name) == 0) return (enum ingot_dtype)dtype;
    }
    return INGOT_DTYPE_NONE;
}

struct ig_type ig_type_make(enum ingot_dtype dtype, int rank, const ig_dim *dims) {
    struct ig_type type = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank && i < INGOT_MAX_RANK; i++)
        type.dim[i] = dims[i];
    return type;
}

bool ig_same_dims(const struct ig_type *a, const struct ig_type *b) {
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

bool ig_type_same(const struct ig_type *a, const struct ig_type *b) {
    return a->dtype == b->dtype && ig_same_dims(a, b);
}

bool ig_type_is_static(const struct ig_dims *dims, const struct ig_type *type, int64_t *out_dims) {
    for (int i = 0; i < type->rank; i++) {
        if (!ig_dim_is_const(dims, type->dim[i], out_dims != NULL ? &out_dims[i] : NULL)) return false;
    }
    return true;
}

ig_dim ig_type_elements(struct ig_dims *dims, const struct ig_type *type) {
    return ig_dim_product(dims, type->dim, type->rank);
}

void ig_type_print(const struct ig_dims *dims, const struct ig_type *type, struct ig_text *text) {
    ig_text_printf(text, "%s[", ingot_dtype_name(type->dtype));
    for (int i = 0; i < type->rank; i++) {
        if (i > 0) ig_text_add(text, ",");
        ig_dim_print(dims, type->dim[i], text);
    }
    ig_text_add(text, "]");
}
