/*
 * Narrow types. As in half.c, floats are rounded once, by integer arithmetic. The formats: OCP 8-bit floating point (OFP8),
 * "FNUZ" of Noune et al. (arXiv 2206.02915), and the OCP microscaling formats (MX) for f8e8m0 and f4e2m1.
 */
#include "base/narrow.h"

#include <math.h>
#include <string.h>

enum { NO_CODE = -1 };

/* A floating-point format with a sign. Codes are those of positive numbers. */
struct format {
    int bits, mantissa, bias;
    int largest, infinity; /* NO_CODE: there is none */
    int nan;               /* what NaN becomes */
    bool unsigned_zero;    /* the code of -0 is the only NaN */
};

static const struct format formats[INGOT_DTYPE_COUNT] = {
    [INGOT_F8E4M3FN] = {8, 3, 7, 0x7e, NO_CODE, 0x7f, false},
    [INGOT_F8E5M2] = {8, 2, 15, 0x7b, 0x7c, 0x7e, false},
    [INGOT_F8E4M3FNUZ] = {8, 3, 8, 0x7f, NO_CODE, 0x80, true},
    [INGOT_F8E5M2FNUZ] = {8, 2, 16, 0x7f, NO_CODE, 0x80, true},
    [INGOT_F4E2M1] = {4, 1, 1, 0x7, NO_CODE, 0x8, false},
};

int ig_narrow_bits(enum ingot_dtype dtype) {
    if (dtype == INGOT_I4 || dtype == INGOT_U4) return 4;
    if (dtype == INGOT_I2 || dtype == INGOT_U2) return 2;
    return dtype == INGOT_F8E8M0 ? 8 : (size_t)dtype < INGOT_DTYPE_COUNT ? formats[dtype].bits : 0;
}

bool ig_narrow_is_float(enum ingot_dtype dtype) {
    return dtype == INGOT_F8E8M0 || ((size_t)dtype < INGOT_DTYPE_COUNT && formats[dtype].bits);
}

static bool has_sign(enum ingot_dtype dtype) {
    return dtype == INGOT_I4 || dtype == INGOT_I2;
}

int ig_narrow_to_int(enum ingot_dtype dtype, uint8_t byte) {
    int bits = ig_narrow_bits(dtype), value = byte & ((1 << bits) - 1);
    return has_sign(dtype) && value >> (bits - 1) ? value - (1 << bits) : value;
}

float ig_narrow_to_f32(enum ingot_dtype dtype, uint8_t byte) {
    if (dtype == INGOT_F8E8M0) return byte == 0xff ? NAN : ldexpf(1, byte - 127);
    const struct format *f = &formats[dtype];
    int code = byte & ((1 << f->bits) - 1), negative = code >> (f->bits - 1), size = code & ((1 << (f->bits - 1)) - 1);
    if (f->unsigned_zero ? code == f->nan : size > f->largest && size != f->infinity) return NAN;
    int exponent = size >> f->mantissa, fraction = size & ((1 << f->mantissa) - 1);
    int whole = exponent ? fraction + (1 << f->mantissa) : fraction;
    float value =
        size == f->infinity ? INFINITY : ldexpf((float)whole, (exponent ? exponent : 1) - f->bias - f->mantissa);
    return negative ? -value : value;
}

/* Rounds a finite magnitude, given by its bits, to a code that may be larger than the format's largest. */
static int64_t rounded(uint64_t bits, const struct format *f) {
    if (bits >> 52 == 0) return 0; /* a double this small is far below half the smallest number */
    uint64_t mantissa = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
    int target = (int)(bits >> 52) - 1023 + f->bias; /* at least 1: normal */
    int shift = 52 - f->mantissa + (target < 1 ? 1 - target : 0);
    if (shift > 54) return 0;
    uint64_t kept = mantissa >> shift, rest = mantissa - (kept << shift), half = (uint64_t)1 << (shift - 1);
    if (rest > half || (rest == half && (kept & 1))) kept++;
    /* A normal number's `kept` includes the leading one, which counts as one exponent. */
    return (int64_t)kept + (target > 1 ? (int64_t)(target - 1) << f->mantissa : 0);
}

static uint8_t to_power_of_two(double value, bool saturate) {
    double size = fabs(value);
    if (isnan(value)) return 0xff;
    if (size < 0x1p-127) return saturate ? 0 : 0xff;
    if (size >= 0x1p128) return saturate ? 0xfe : 0xff;
    return (uint8_t)(ilogb(size) + 127);
}

uint8_t ig_f64_to_narrow(enum ingot_dtype dtype, double value, bool saturate) {
    if (dtype == INGOT_F8E8M0) return to_power_of_two(value, saturate);
    const struct format *f = &formats[dtype];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int sign = (int)(bits >> 63) << (f->bits - 1);
    if (isnan(value)) return (uint8_t)f->nan;
    bits &= ~((uint64_t)1 << 63);
    int64_t code = isinf(value) ? INT64_MAX : rounded(bits, f);
    if (code > f->largest) {
        bool bounded = saturate || dtype == INGOT_F4E2M1;
        code = bounded ? f->largest : f->infinity != NO_CODE ? f->infinity : f->nan;
    }
    return (uint8_t)(f->unsigned_zero && code == 0 ? 0 : code | sign);
}

/* Types of whole bytes are not packed. */
static int packed_bits(enum ingot_dtype dtype) {
    int bits = ig_narrow_bits(dtype);
    return bits == 2 || bits == 4 ? bits : 8;
}

size_t ig_narrow_packed_size(enum ingot_dtype dtype, size_t count) {
    size_t each = (size_t)(8 / packed_bits(dtype));
    return count / each + (count % each != 0);
}

void ig_narrow_unpack(enum ingot_dtype dtype, const uint8_t *packed, size_t count, uint8_t *out_bytes) {
    int bits = packed_bits(dtype);
    size_t each = (size_t)(8 / bits);
    for (size_t i = 0; i < count; i++) {
        uint8_t code = (uint8_t)(packed[i / each] >> ((int)(i % each) * bits)) & (uint8_t)((1 << bits) - 1);
        out_bytes[i] = has_sign(dtype) ? (uint8_t)ig_narrow_to_int(dtype, code) : code;
    }
}

void ig_narrow_pack(enum ingot_dtype dtype, const uint8_t *bytes, size_t count, uint8_t *out_packed) {
    int bits = packed_bits(dtype), mask = (1 << bits) - 1;
    size_t each = (size_t)(8 / bits);
    for (size_t i = 0; i < count; i++) {
        int place = (int)(i % each) * bits, before = place ? out_packed[i / each] : 0;
        out_packed[i / each] = (uint8_t)(before | (bytes[i] & mask) << place);
    }
}
