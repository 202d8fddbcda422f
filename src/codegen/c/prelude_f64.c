/*
 * The prelude's transcendental functions of float64 (but for the trigonometric ones): a few units in the last place,
 * all special values. Shifts and conversions of 64-bit integers are written so that AVX2 has instructions for them.
 * Coefficients: tools/minimax.py.
 */
#include "codegen/c/tables.h"

const struct ig_code_function ig_c_functions_f64[] = {
    {"ig_exp_f64", NULL, "ig_bits_f64 ig_of_bits_f64",
     "INLINE double ig_exp_f64(double a) {\n"
     "    const double low = a < -746.0 ? -746.0 : a;\n"
     "    const double x = low > 710.0 ? 710.0 : low;\n"
     "    const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52;\n"
     "    const double turns = shifted - 0x1.8p52;\n"
     "    const double r = (x - turns * 0x1.62e42fefa38p-1) - turns * 0x1.ef35793c7673p-45;\n"
     "    double p = 2.5117728829401493e-08;\n"
     "    p = p * r + 2.7631260338893454e-07;\n"
     "    p = p * r + 2.7557216698322805e-06;\n"
     "    p = p * r + 2.480148999848544e-05;\n"
     "    p = p * r + 0.00019841269916983558;\n"
     "    p = p * r + 0.0013888888946961577;\n"
     "    p = p * r + 0.0083333333333073575;\n"
     "    p = p * r + 0.041666666666515619;\n"
     "    p = p * r + 0.16666666666666699;\n"
     "    p = p * r + 0.50000000000000122;\n"
     "    const int64_t k = ig_bits_f64(shifted) - 0x4338000000000000;\n"
     "    const int64_t half = ig_bits_f64(turns * 0.5 + 0x1.8p52) - 0x4338000000000000;\n"
     "    const double first = ig_of_bits_f64((half + 1023) << 52), second = ig_of_bits_f64((k - half + 1023) << 52);\n"
     "    return (1.0 + (r + r * r * p)) * first * second;\n"
     "}\n"},
    /* e^a - 1 for |a| up to 700. */
    {"ig_expm1_f64", NULL, "ig_bits_f64 ig_of_bits_f64",
     "INLINE double ig_expm1_f64(double a) {\n"
     "    const double shifted = a * 0x1.71547652b82fep+0 + 0x1.8p52;\n"
     "    const double turns = shifted - 0x1.8p52;\n"
     "    const double r = (a - turns * 0x1.62e42fefa38p-1) - turns * 0x1.ef35793c7673p-45;\n"
     "    double p = 2.5117728829401493e-08;\n"
     "    p = p * r + 2.7631260338893454e-07;\n"
     "    p = p * r + 2.7557216698322805e-06;\n"
     "    p = p * r + 2.480148999848544e-05;\n"
     "    p = p * r + 0.00019841269916983558;\n"
     "    p = p * r + 0.0013888888946961577;\n"
     "    p = p * r + 0.0083333333333073575;\n"
     "    p = p * r + 0.041666666666515619;\n"
     "    p = p * r + 0.16666666666666699;\n"
     "    p = p * r + 0.50000000000000122;\n"
     "    const double scale = ig_of_bits_f64((ig_bits_f64(shifted) - 0x4338000000000000 + 1023) << 52);\n"
     "    return scale * (r + r * r * p) + (scale - 1.0);\n"
     "}\n"},
    /* log(1 + f) = f - (f^2/2 - s (f^2/2 + z p(z))) with s = f / (2 + f) and z = s^2. */
    {"ig_log_f64", NULL, "ig_bits_f64 ig_of_bits_f64",
     "INLINE double ig_log_f64(double a) {\n"
     "    const _Bool tiny = a < 0x1p-1022;\n"
     "    const uint64_t bits = (uint64_t)ig_bits_f64(tiny ? a * 0x1p54 : a);\n"
     "    const uint64_t k = (bits + 0x00095f619980c433) >> 52; /* the exponent and 1023 */\n"
     "    const double f = ig_of_bits_f64((int64_t)(bits - (k << 52) + 0x3ff0000000000000)) - 1.0;\n"
     "    const double turns = ig_of_bits_f64((int64_t)(k | 0x4330000000000000)) - (tiny ? 0x1p52 + 1077.0 : 0x1p52 + "
     "1023.0);\n"
     "    const double half = 0.5 * f * f, s = f / (2.0 + f), z = s * s;\n"
     "    double p = 0.1461773530822984;\n"
     "    p = p * z + 0.1533160809364548;\n"
     "    p = p * z + 0.18182892883882268;\n"
     "    p = p * z + 0.22222211077402484;\n"
     "    p = p * z + 0.28571428626372103;\n"
     "    p = p * z + 0.399999999998985;\n"
     "    p = p * z + 0.66666666666666696;\n"
     "    const double sum = turns * 0x1.62e42fefa38p-1 - ((half - (s * (half + z * p) + turns * "
     "0x1.ef35793c7673p-45)) - f);\n"
     "    const double positive = a == __builtin_inf() ? a : sum;\n"
     "    const double any = a < 0.0 ? __builtin_nan(\"\") : positive;\n"
     "    return a == 0.0 ? -__builtin_inf() : a != a ? a : any;\n"
     "}\n"},
    /* log(u) with u = 1 + a, plus a correction for what u lost of a. */
    {"ig_log1p_f64", NULL, "ig_log_f64",
     "INLINE double ig_log1p_f64(double a) {\n"
     "    const double u = 1.0 + a;\n"
     "    const double lost = a > 1.0 ? 1.0 - (u - a) : a - (u - 1.0);\n"
     "    const double sum = ig_log_f64(u) + lost / u;\n"
     "    const double any = u > 0.0 && u < __builtin_inf() ? sum : ig_log_f64(u);\n"
     "    return a == 0.0 ? a : any;\n"
     "}\n"},
    {"ig_sigmoid_f64", NULL, "ig_exp_f64",
     "INLINE double ig_sigmoid_f64(double a) {\n"
     "    const double e = ig_exp_f64(-__builtin_fabs(a));\n"
     "    return (a < 0.0 ? e : 1.0) / (1.0 + e);\n"
     "}\n"},
    {"ig_tanh_f64", NULL, "ig_expm1_f64",
     "INLINE double ig_tanh_f64(double a) {\n"
     "    const double size = __builtin_fabs(a);\n"
     "    const double t = ig_expm1_f64(2.0 * (size > 22.0 ? 22.0 : size));\n"
     "    return __builtin_copysign(t / (t + 2.0), a);\n"
     "}\n"},
    {"ig_sinh_f64", NULL, "ig_expm1_f64 ig_exp_f64",
     "INLINE double ig_sinh_f64(double a) {\n"
     "    const double size = __builtin_fabs(a);\n"
     "    const double t = ig_expm1_f64(size > 22.0 ? 22.0 : size);\n"
     "    const double h = ig_exp_f64(0.5 * size);\n"
     "    return __builtin_copysign(size > 22.0 ? 0.5 * h * h : 0.5 * (t + t / (t + 1.0)), a);\n"
     "}\n"},
    {"ig_cosh_f64", NULL, "ig_exp_f64",
     "INLINE double ig_cosh_f64(double a) {\n"
     "    const double h = ig_exp_f64(0.5 * __builtin_fabs(a));\n"
     "    return 0.5 * h * h + 0.5 / h / h;\n"
     "}\n"},
    {"ig_asinh_f64", NULL, "ig_log1p_f64 ig_log_f64",
     "INLINE double ig_asinh_f64(double a) {\n"
     "    const double size = __builtin_fabs(a), square = size * size;\n"
     "    const double near = ig_log1p_f64(size + square / (1.0 + __builtin_sqrt(square + 1.0)));\n"
     "    const double far = ig_log_f64(size) + 0x1.62e42fefa39efp-1;\n"
     "    return __builtin_copysign(size > 0x1p28 ? far : near, a);\n"
     "}\n"},
    {"ig_acosh_f64", NULL, "ig_log1p_f64 ig_log_f64",
     "INLINE double ig_acosh_f64(double a) {\n"
     "    const double t = a - 1.0;\n"
     "    const double near = ig_log1p_f64(t + __builtin_sqrt(2.0 * t + t * t));\n"
     "    const double far = ig_log_f64(a) + 0x1.62e42fefa39efp-1;\n"
     "    return a < 1.0 ? __builtin_nan(\"\") : a > 0x1p28 ? far : near;\n"
     "}\n"},
    {"ig_atanh_f64", NULL, "ig_log1p_f64",
     "INLINE double ig_atanh_f64(double a) {\n"
     "    const double size = __builtin_fabs(a);\n"
     "    const double twice = ig_log1p_f64(2.0 * size / (1.0 - size));\n"
     "    return __builtin_copysign(0.5 * twice, a);\n"
     "}\n"},
    /* erf for |a| up to 1: a polynomial in a^2. */
    {"ig_erf_near_f64", NULL, NULL,
     "INLINE double ig_erf_near_f64(double a) {\n"
     "    const double z = a * a;\n"
     "    double p = -7.8011945728887973e-10;\n"
     "    p = p * z + 1.3722978065719944e-08;\n"
     "    p = p * z - 1.6209175996683016e-07;\n"
     "    p = p * z + 1.6447517639512486e-06;\n"
     "    p = p * z - 1.492474465563391e-05;\n"
     "    p = p * z + 0.000120552953198177;\n"
     "    p = p * z - 0.00085483259896633229;\n"
     "    p = p * z + 0.0052239776074224946;\n"
     "    p = p * z - 0.026866170643276056;\n"
     "    p = p * z + 0.11283791670945252;\n"
     "    p = p * z - 0.37612638903183548;\n"
     "    p = p * z + 1.1283791670955126;\n"
     "    return a * p;\n"
     "}\n"},
    /* 1 - erf(a) for a of at least 1: e^(-a^2) times a polynomial in t = (a - 2) / (a + 2), which ends where the result */
    /* is less than half a unit of 1. */
    {"ig_erfc_far_f64", NULL, "ig_exp_f64",
     "INLINE double ig_erfc_far_f64(double a) {\n"
     "    const double x = a > 6.0 ? 6.0 : a;\n"
     "    const double t = (x - 2.0) / (x + 2.0);\n"
     "    double p = -1.2644135712711967e-05;\n"
     "    p = p * t - 2.6611536742734734e-05;\n"
     "    p = p * t + 2.7623160336512669e-05;\n"
     "    p = p * t + 0.00017428846873755635;\n"
     "    p = p * t + 4.3536162196754513e-05;\n"
     "    p = p * t - 0.00098197647879451171;\n"
     "    p = p * t - 0.0008471425904890788;\n"
     "    p = p * t + 0.0069974617856450143;\n"
     "    p = p * t + 0.0037328923985376046;\n"
     "    p = p * t - 0.078978581016415528;\n"
     "    p = p * t + 0.24165819424246882;\n"
     "    p = p * t - 0.42718584741395682;\n"
     "    p = p * t + 0.25539567631050575;\n"
     "    return ig_exp_f64(-a * a) * p;\n"
     "}\n"},
    {"ig_erf_f64", NULL, "ig_erf_near_f64 ig_erfc_far_f64",
     "INLINE double ig_erf_f64(double a) {\n"
     "    const double size = __builtin_fabs(a);\n"
     "    const double far = __builtin_copysign(1.0 - ig_erfc_far_f64(size), a);\n"
     "    return size < 1.0 ? ig_erf_near_f64(a) : far;\n"
     "}\n"},
    /* Digits of the smaller tail are lost as its logarithm grows, and all of them below -8; the absolute error stays */
    /* below a unit of 1. */
    {"ig_normcdf_f64", NULL, "ig_erf_near_f64 ig_erfc_far_f64",
     "INLINE double ig_normcdf_f64(double a) {\n"
     "    const double size = __builtin_fabs(a) * 0x1.6a09e667f3bcdp-1;\n"
     "    const double tail = 0.5 * (size < 1.0 ? 1.0 - ig_erf_near_f64(size) : ig_erfc_far_f64(size));\n"
     "    return a < 0.0 ? tail : 1.0 - tail;\n"
     "}\n"},
    /* |a|^b = e^(b log |a|), log |a| with twice the digits: its error is multiplied by up to 1000. Then the special */
    /* cases of IEEE 754: what is 1 in spite of NaN, signs of odd powers, no roots of negative numbers. */
    {"ig_pow_f64", NULL, "ig_bits_f64 ig_of_bits_f64",
     "INLINE double ig_pow_f64(double a, double b) {\n"
     "    const double size = __builtin_fabs(a);\n"
     "    const uint64_t bits = (uint64_t)ig_bits_f64(size < 0x1p-1022 ? size * 0x1p54 : size);\n"
     "    const uint64_t k = (bits + 0x00095f619980c433) >> 52;\n"
     "    const double f = ig_of_bits_f64((int64_t)(bits - (k << 52) + 0x3ff0000000000000)) - 1.0;\n"
     "    const double turns =\n"
     "        ig_of_bits_f64((int64_t)(k | 0x4330000000000000)) - (size < 0x1p-1022 ? 0x1p52 + 1077.0 : 0x1p52 + "
     "1023.0);\n"
     "    const double d = 2.0 + f, s = f / d, z = s * s;\n"
     "    const double rest = (__builtin_fma(-s, d, f) - s * (f - (d - 2.0))) / d;\n"
     "    double p = 0.1461773530822984;\n"
     "    p = p * z + 0.1533160809364548;\n"
     "    p = p * z + 0.18182892883882268;\n"
     "    p = p * z + 0.22222211077402484;\n"
     "    p = p * z + 0.28571428626372103;\n"
     "    p = p * z + 0.399999999998985;\n"
     "    p = p * z + 0.66666666666666696;\n"
     "    const double whole_part = turns * 0x1.62e42fefa38p-1;\n"
     "    const double sum = whole_part + 2.0 * s;\n"
     "    const double tail = (2.0 * s - (sum - whole_part)) + (2.0 * rest + s * z * p + turns * "
     "0x1.ef35793c7673p-45);\n"
     "    const double log_high = sum + tail, log_low = (sum - log_high) + tail;\n"
     "    const double y = size == 0.0 ? -__builtin_inf() : size == __builtin_inf() ? size : log_high;\n"
     "    const double high = b * y;\n"
     "    const double low = __builtin_fma(b, y, -high) + b * log_low;\n"
     "    const double bounded = high < -746.0 ? -746.0 : high > 710.0 ? 710.0 : high;\n"
     "    const double shifted = bounded * 0x1.71547652b82fep+0 + 0x1.8p52;\n"
     "    const double exponent = shifted - 0x1.8p52;\n"
     "    const double rough = __builtin_fma(-exponent, 0x1.62e42fefa38p-1, bounded);\n"
     "    const double finer = (bounded == high ? low : 0.0) - exponent * 0x1.ef35793c7673p-45;\n"
     "    const double r = rough + finer, lost = (rough - r) + finer;\n"
     "    double q = 2.5117728829401493e-08;\n"
     "    q = q * r + 2.7631260338893454e-07;\n"
     "    q = q * r + 2.7557216698322805e-06;\n"
     "    q = q * r + 2.480148999848544e-05;\n"
     "    q = q * r + 0.00019841269916983558;\n"
     "    q = q * r + 0.0013888888946961577;\n"
     "    q = q * r + 0.0083333333333073575;\n"
     "    q = q * r + 0.041666666666515619;\n"
     "    q = q * r + 0.16666666666666699;\n"
     "    q = q * r + 0.50000000000000122;\n"
     "    /* 1 + r is exact in two parts, so that powers that are whole numbers come out whole. */\n"
     "    const double one_r = 1.0 + r;\n"
     "    const double grown = one_r + ((r - (one_r - 1.0)) + (r * r * q + lost));\n"
     "    const int64_t whole = ig_bits_f64(shifted) - 0x4338000000000000;\n"
     "    const int64_t half = ig_bits_f64(exponent * 0.5 + 0x1.8p52) - 0x4338000000000000;\n"
     "    const double power = grown * ig_of_bits_f64((half + 1023) << 52) * ig_of_bits_f64((whole - half + 1023) << "
     "52);\n"
     "    const double odd = b - 2.0 * __builtin_floor(0.5 * b); /* 1 where it is odd */\n"
     "    const double sign = odd == 1.0 ? __builtin_copysign(power, a) : power;\n"
     "    const double root = __builtin_floor(b) == b ? sign : __builtin_nan(\"\");\n"
     "    const double negative = a == -__builtin_inf() ? sign : root;\n"
     "    const double real = a < 0.0 ? negative : sign;\n"
     "    const double unit = __builtin_fabs(b) == __builtin_inf() ? 1.0 : real;\n"
     "    const double known = size == 1.0 ? unit : real;\n"
     "    const double any = a != a ? a : b != b ? b : known;\n"
     "    return a == 1.0 ? 1.0 : b == 0.0 ? 1.0 : any;\n"
     "}\n"},
};
const size_t ig_c_functions_f64_count = sizeof ig_c_functions_f64 / sizeof *ig_c_functions_f64;
