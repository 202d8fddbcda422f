/* Narrow types: all codes, and rounding at, below and above the middle of each two neighbours. */
#include "base/narrow.h"

#include <math.h>
#include <string.h>

#include "support/support.h"

static const struct {
    enum ingot_dtype dtype;
    int largest, infinity, nan; /* codes; infinity as what is beyond the largest becomes */
    float least, most;
} floats[] = {
    {INGOT_F8E4M3FN, 0x7e, 0x7f, 0x7f, 0x1p-9f, 448},    {INGOT_F8E5M2, 0x7b, 0x7c, 0x7e, 0x1p-16f, 57344},
    {INGOT_F8E4M3FNUZ, 0x7f, 0x80, 0x80, 0x1p-10f, 240}, {INGOT_F8E5M2FNUZ, 0x7f, 0x80, 0x80, 0x1p-17f, 57344},
    {INGOT_F4E2M1, 0x07, 0x07, 0x08, 0.5f, 6},
};
enum { N_FLOATS = sizeof floats / sizeof *floats };

static int code_of(int i, double value, bool saturate) {
    return ig_f64_to_narrow(floats[i].dtype, value, saturate);
}

static bool has_negative_zero(enum ingot_dtype dtype) {
    return dtype != INGOT_F8E4M3FNUZ && dtype != INGOT_F8E5M2FNUZ;
}

static void test_all_codes(void **state) {
    for (int i = 0; i < N_FLOATS; i++) {
        enum ingot_dtype dtype = floats[i].dtype;
        int sign = 1 << (ig_narrow_bits(dtype) - 1);
        assert_true(ig_narrow_to_f32(dtype, 0) == 0 && !signbit(ig_narrow_to_f32(dtype, 0)));
        assert_true(ig_narrow_to_f32(dtype, 1) == floats[i].least);
        assert_true(ig_narrow_to_f32(dtype, (uint8_t)floats[i].largest) == floats[i].most);
        for (int code = 0; code < 2 * sign; code++) {
            float value = ig_narrow_to_f32(dtype, (uint8_t)code);
            int size = code & (sign - 1);
            if (!isfinite(value)) {
                assert_true(size > floats[i].largest || (code == sign && !has_negative_zero(dtype)));
                continue;
            }
            assert_true(size <= floats[i].largest);
            assert_int_equal(code_of(i, (double)value, false), code);
            assert_int_equal(code_of(i, (double)value, true), code);
            if (size > 0) {
                assert_true(fabsf(value) > fabsf(ig_narrow_to_f32(dtype, (uint8_t)(size - 1))));
                assert_int_equal(signbit(value) != 0, code >= sign);
            }
        }
    }
    assert_true(ig_narrow_to_f32(INGOT_F8E5M2, 0xfc) == -INFINITY && isnan(ig_narrow_to_f32(INGOT_F8E5M2, 0x7d)));
    assert_true(isnan(ig_narrow_to_f32(INGOT_F8E4M3FN, 0xff)) && isnan(ig_narrow_to_f32(INGOT_F8E4M3FNUZ, 0x80)));
    assert_true(ig_narrow_to_f32(INGOT_F4E2M1, 0xf5) == 3); /* the high bits are nobody's */
}

static void test_rounding(void **state) {
    for (int i = 0; i < N_FLOATS; i++) {
        int sign = 1 << (ig_narrow_bits(floats[i].dtype) - 1);
        for (int code = 0; code < floats[i].largest; code++) {
            double low = (double)ig_narrow_to_f32(floats[i].dtype, (uint8_t)code);
            double high = (double)ig_narrow_to_f32(floats[i].dtype, (uint8_t)(code + 1)), middle = (low + high) / 2;
            int even = code & 1 ? code + 1 : code;
            assert_int_equal(code_of(i, middle, false), even);
            assert_int_equal(code_of(i, nextafter(middle, 0), false), code);
            assert_int_equal(code_of(i, nextafter(middle, INFINITY), false), code + 1);
            bool vanishes = even == 0 && !has_negative_zero(floats[i].dtype);
            assert_int_equal(code_of(i, -middle, true), vanishes ? 0 : even | sign);
        }
    }
}

static void test_beyond_the_range(void **state) {
    static const double beyond[] = {INFINITY, 1e300, 1e6};
    for (int i = 0; i < N_FLOATS; i++) {
        int sign = 1 << (ig_narrow_bits(floats[i].dtype) - 1), largest = floats[i].largest;
        double most = (double)floats[i].most;
        double step = most - (double)ig_narrow_to_f32(floats[i].dtype, (uint8_t)(largest - 1));
        /* "Beyond" is judged after rounding. The code behind the largest is even where that is odd. */
        double edge = most + step / 2;
        assert_int_equal(code_of(i, nextafter(edge, 0), false), largest);
        assert_int_equal(code_of(i, edge, false), largest & 1 ? floats[i].infinity : largest);
        assert_int_equal(code_of(i, nextafter(edge, INFINITY), false), floats[i].infinity);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(code_of(i, beyond[k], true), largest);
            assert_int_equal(code_of(i, -beyond[k], true), largest | sign);
            assert_int_equal(code_of(i, beyond[k], false), floats[i].infinity);
            assert_int_equal(code_of(i, -beyond[k], false), floats[i].infinity | sign);
        }
        assert_int_equal(code_of(i, NAN, true), floats[i].nan);
        assert_int_equal(code_of(i, copysign(NAN, -1), true), floats[i].nan);
        assert_int_equal(code_of(i, NAN, false), floats[i].nan);
        assert_int_equal(code_of(i, -5e-324, true), has_negative_zero(floats[i].dtype) ? sign : 0);
        assert_int_equal(code_of(i, -0.0, true), has_negative_zero(floats[i].dtype) ? sign : 0);
    }
}

static void test_powers_of_two(void **state) {
    for (int code = 0; code < 255; code++) {
        float value = ig_narrow_to_f32(INGOT_F8E8M0, (uint8_t)code);
        assert_true(value == ldexpf(1, code - 127));
        for (int saturate = 0; saturate < 2; saturate++) {
            assert_int_equal(ig_f64_to_narrow(INGOT_F8E8M0, (double)value, saturate), code);
            assert_int_equal(ig_f64_to_narrow(INGOT_F8E8M0, -1.999 * (double)value, saturate), code);
        }
    }
    assert_true(isnan(ig_narrow_to_f32(INGOT_F8E8M0, 255)));
    static const double beyond[] = {INFINITY, 0x1p128, 0, -0.0, 0x1.fp-128};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ig_f64_to_narrow(INGOT_F8E8M0, beyond[i], true), i < 2 ? 254 : 0);
        assert_int_equal(ig_f64_to_narrow(INGOT_F8E8M0, beyond[i], false), 255);
    }
    assert_int_equal(ig_f64_to_narrow(INGOT_F8E8M0, NAN, true), 255);
}

static void test_integers(void **state) {
    for (int byte = 0; byte < 256; byte++) {
        assert_int_equal(ig_narrow_to_int(INGOT_U4, (uint8_t)byte), byte % 16);
        assert_int_equal(ig_narrow_to_int(INGOT_U2, (uint8_t)byte), byte % 4);
        assert_int_equal(ig_narrow_to_int(INGOT_I4, (uint8_t)byte), byte % 16 < 8 ? byte % 16 : byte % 16 - 16);
        assert_int_equal(ig_narrow_to_int(INGOT_I2, (uint8_t)byte), byte % 4 < 2 ? byte % 4 : byte % 4 - 4);
    }
}

/* The first element has the lowest bits; the rest of the last byte is no element's. */
static void test_packing(void **state) {
    static const uint8_t packed[] = {0x1b, 0xe4, 0xf7};
    uint8_t bytes[12], back[3];
    ig_narrow_unpack(INGOT_U4, packed, 5, bytes);
    assert_memory_equal(bytes, ((uint8_t[]){0xb, 0x1, 0x4, 0xe, 0x7}), 5);
    ig_narrow_unpack(INGOT_I4, packed, 5, bytes);
    assert_memory_equal(bytes, ((uint8_t[]){0xfb, 0x1, 0x4, 0xfe, 0x7}), 5);
    ig_narrow_pack(INGOT_I4, bytes, 5, back);
    assert_memory_equal(back, ((uint8_t[]){0x1b, 0xe4, 0x07}), 3);
    ig_narrow_unpack(INGOT_U2, packed, 9, bytes);
    assert_memory_equal(bytes, ((uint8_t[]){3, 2, 1, 0, 0, 1, 2, 3, 3}), 9);
    ig_narrow_unpack(INGOT_I2, packed, 9, bytes);
    assert_memory_equal(bytes, ((uint8_t[]){255, 254, 1, 0, 0, 1, 254, 255, 255}), 9);
    ig_narrow_pack(INGOT_I2, bytes, 9, back);
    assert_memory_equal(back, ((uint8_t[]){0x1b, 0xe4, 0x03}), 3);
    static const size_t counts[] = {0, 1, 2, 3, 4, 5}, halves[] = {0, 1, 1, 2, 2, 3}, quarters[] = {0, 1, 1, 1, 1, 2};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ig_narrow_packed_size(INGOT_I4, counts[i]), halves[i]);
        assert_int_equal(ig_narrow_packed_size(INGOT_U2, counts[i]), quarters[i]);
        assert_int_equal(ig_narrow_packed_size(INGOT_F8E5M2, counts[i]), counts[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_codes),     cmocka_unit_test(test_rounding), cmocka_unit_test(test_beyond_the_range),
        cmocka_unit_test(test_powers_of_two), cmocka_unit_test(test_integers), cmocka_unit_test(test_packing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
