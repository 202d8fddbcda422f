/* The type of a value: element type and symbolic dims. Passed by value. */
#ifndef IG_IR_TYPE_H
#define IG_IR_TYPE_H

#include "ir/dim/dim.h"

struct ig_type {
    enum ingot_dtype dtype;
    int rank;
    ig_dim dim[INGOT_MAX_RANK];
};

/* Types that there is arithmetic for. */
bool ig_dtype_is_float(enum ingot_dtype dtype);
bool ig_dtype_is_signed(enum ingot_dtype dtype);  /* signed integers */
bool ig_dtype_is_integer(enum ingot_dtype dtype); /* signed or unsigned, not bool */
/* i4, u4, i2, u2 and floats of 8 bits and less: elements are stored, moved and cast, but not computed with. So they are
 * neither floats nor integers; kernels and the evaluator hold the bytes of such elements. */
bool ig_dtype_is_narrow(enum ingot_dtype dtype);
/* The only type that a narrow type is cast to, and the one that it is cast from: i8, u8, or f32. Casts to and from all others
 * are composed by ig_build_cast. */
enum ingot_dtype ig_dtype_beside(enum ingot_dtype narrow);
/* Is f64 cast to this narrow type too, so that it is rounded once? */
bool ig_dtype_rounds_f64(enum ingot_dtype narrow);
/* The type that kernels compute in: f32 for f16 and bf16, otherwise the type itself. */
enum ingot_dtype ig_dtype_compute(enum ingot_dtype dtype);
enum ingot_dtype ig_dtype_parse(const char *name); /* INGOT_DTYPE_NONE if unknown */

struct ig_type ig_type_make(enum ingot_dtype dtype, int rank, const ig_dim *dims);
bool ig_type_same(const struct ig_type *a, const struct ig_type *b);
/* True if every dim is a constant; fills out_dims (may be NULL). */
bool ig_type_is_static(const struct ig_dims *dims, const struct ig_type *type, int64_t *out_dims);
/* Equal shapes, symbolically; ignores element types. */
bool ig_same_dims(const struct ig_type *a, const struct ig_type *b);
ig_dim ig_type_elements(struct ig_dims *dims, const struct ig_type *type);
/* "f32[batch,3,224,224]" */
void ig_type_print(const struct ig_dims *dims, const struct ig_type *type, struct ig_text *text);

#endif
