/*
 * Elements of less than 8 bits, and floats of 8 bits and less, each in a byte of its own. Widening is exact. Bits of the byte that
 * are not the element's are ignored.
 */
#ifndef IG_BASE_NARROW_H
#define IG_BASE_NARROW_H

#include <stdbool.h>
#include <stdint.h>

#include "ingot/ingot.h"

/* Bits of an element of i4, u4, i2, u2 and the narrow floats; 0 for all other types. */
int ig_narrow_bits(enum ingot_dtype dtype);
/* f8e4m3fn and the like, f8e8m0, f4e2m1. */
bool ig_narrow_is_float(enum ingot_dtype dtype);
/* The value of a narrow integer. */
int ig_narrow_to_int(enum ingot_dtype dtype, uint8_t byte);
float ig_narrow_to_f32(enum ingot_dtype dtype, uint8_t byte);
/*
 * The nearest number of a narrow floating-point type, ties to even, rounded once. NaN stays NaN, without its
 * sign, which differs from processor to processor. Where the type has no such number,
 * what is beyond the largest number gives it if `saturate`, else infinity, or NaN in types without; f4e2m1 always saturates, and has -0
 * for NaN. f8e8m0 has no sign and is rounded down: the power of two at or below the magnitude; what is below the least one gives
 * it if `saturate`, else NaN.
 */
uint8_t ig_f64_to_narrow(enum ingot_dtype dtype, double value, bool saturate);
/*
 * Unpacks elements of a narrow type that lie side by side in bytes, the first in the lowest bits; those of
 * i4 and i2 repeat their sign. `packed` has
 * ig_narrow_packed_size bytes.
 */
void ig_narrow_unpack(enum ingot_dtype dtype, const uint8_t *packed, size_t count, uint8_t *out_bytes);
void ig_narrow_pack(enum ingot_dtype dtype, const uint8_t *bytes, size_t count, uint8_t *out_packed);
/* The bytes of `count` elements, packed. */
size_t ig_narrow_packed_size(enum ingot_dtype dtype, size_t count);

#endif
