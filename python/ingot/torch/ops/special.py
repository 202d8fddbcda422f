"""
Special functions of f32 and smaller, computed in f64: by series, asymptotic expansions and integrals (Abramowitz and Stegun,
chapters 6, 7, 9; each function names its formulas), which need no tables and, in f64, lose nothing that f32 could show.
"""

import math

from ..errors import Unsupported
from ..registry import register

INF, NAN, GAMMA = math.inf, math.nan, 0.57721566490153286061  # Euler's constant
PI = math.pi


def _wide(b, *operands):
    if b.dtype == "f64":
        raise Unsupported("a special function of f64: its formulas here are good for f32")
    return [b.tensor(x, "f64") for x in operands]


def in_f64(function):
    """A translation whose operands come as f64; a result of b.dtype is made of what it gives."""

    def translation(b, *operands, **options):
        return b.cast(function(b, *_wide(b, *operands), **options), b.dtype)

    return translation


def _polynomial(b, x, coefficients):
    """coefficients: of the highest power first."""
    y = b.number(coefficients[0], x.dtype)
    for c in coefficients[1:]:
        y = b.add(b.mul(y, x), c) if c else b.mul(y, x)
    return y


# ---- The gamma function and its derivatives (6.1, 6.3, 6.4)

_SHIFT = 8  # arguments from here on are found by asymptotic expansions; smaller ones are moved there by recurrences


def _is_pole(b, x):
    return b.both(b.le(x, 0), b.eq(x, b.op("floor", x)))


def _sin_pi(b, x):
    """sin(pi x), exactly 0 at integers."""
    whole = b.op("round", x)
    odd = b.eq(b.op("abs", b.op("fmod", whole, b.number(2.0, "f64"))), 1.0)
    y = b.op("sin", b.mul(b.sub(x, whole), PI))
    return b.where(odd, b.op("neg", y), y)


def _moved(b, x):
    """(x or x + _SHIFT, whether it was moved), of positive x."""
    small = b.lt(x, float(_SHIFT))
    return b.where(small, b.add(x, float(_SHIFT)), x), small


def _log_gamma(b, x):
    """log |gamma(x)|: 6.1.40, 6.1.15 and 6.1.17."""
    reflected = b.lt(x, 0.5)
    z = b.where(reflected, b.sub(1.0, x), x)
    y, small = _moved(b, z)
    inverse = b.div(1.0, y)
    square = b.mul(inverse, inverse)
    tail = b.mul(inverse, _polynomial(b, square, [-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12]))
    value = b.add(b.sub(b.mul(b.sub(y, 0.5), b.op("log", y)), y), b.add(tail, 0.5 * math.log(2 * PI)))
    product = z
    for i in range(1, _SHIFT):
        product = b.mul(product, b.add(z, float(i)))
    value = b.sub(value, b.op("log", b.where(small, product, 1.0)))
    sine = b.op("abs", _sin_pi(b, x))
    value = b.where(reflected, b.sub(b.sub(math.log(PI), b.op("log", sine)), value), value)
    return b.where(b.either(b.op("isinf", x), _is_pole(b, x)), INF, value)


@register("lgamma")
@in_f64
def _lgamma(b, x):
    return _log_gamma(b, x)


@register("digamma", "special_digamma")
@in_f64
def _digamma(b, x):
    """6.3.18, 6.3.5 and 6.3.7; at 0 infinite, with the other sign, at other poles NaN."""
    return _psi(b, x)


def _psi(b, x):
    reflected = b.lt(x, 0)
    z = b.where(reflected, b.sub(1.0, x), x)
    y, small = _moved(b, z)
    inverse = b.div(1.0, y)
    square = b.mul(inverse, inverse)
    series = [-691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12]
    tail = b.mul(square, _polynomial(b, square, series))
    value = b.sub(b.sub(b.op("log", y), b.mul(inverse, 0.5)), tail)
    total = b.number(0.0, "f64")
    for i in range(_SHIFT):
        total = b.add(total, b.div(1.0, b.add(z, float(i))))
    value = b.sub(value, b.where(small, total, 0.0))
    turn = b.sub(x, b.op("round", x))
    value = b.where(reflected, b.sub(value, b.div(PI, b.op("tan", b.mul(turn, PI)))), value)
    pole = b.where(b.eq(x, 0), b.op("neg", b.div(1.0, x)), NAN)
    return b.where(_is_pole(b, x), pole, value)


_ZETA_DIRECT = 9  # terms that are added one by one, before the Euler-Maclaurin formula finds the rest
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _positive_zeta(b, s, q):
    """The sum of (q + k)^-s over k = 0, 1, ... for positive q: 23.2.5, the rest by Euler and Maclaurin's formula."""
    minus_s = b.op("neg", s)
    total = b.op("pow", q, minus_s)
    for k in range(1, _ZETA_DIRECT):
        total = b.add(total, b.op("pow", b.add(q, float(k)), minus_s))
    w = b.add(q, float(_ZETA_DIRECT))
    power = b.op("pow", w, minus_s)
    total = b.add(total, b.add(b.div(b.mul(power, w), b.sub(s, 1.0)), b.mul(power, 0.5)))
    # B_2j / (2j)! s (s + 1) ... (s + 2j - 2) w^(-s - 2j + 1)
    factor = b.div(b.mul(power, s), w)
    for j, number in enumerate(_BERNOULLI, 1):
        total = b.add(total, b.mul(factor, number / math.factorial(2 * j)))
        factor = b.mul(factor, b.div(b.mul(b.add(s, 2.0 * j - 1), b.add(s, 2.0 * j)), b.mul(w, w)))
    return b.where(b.op("isinf", q), 0.0, total)


def _hurwitz_zeta(b, s, q):
    """
    The Hurwitz zeta function. Of negative q, the terms of negative numbers are those of 1 - fraction(q) and so on, up to
    -q, for integer s; for others they are no real numbers.
    """
    count = b.op("ceil", b.max(b.op("neg", q), 0.0))
    fraction = b.where(b.lt(q, 0), b.add(q, count), q)
    total = _positive_zeta(b, s, fraction)
    mirrored = b.sub(1.0, fraction)
    below = b.sub(_positive_zeta(b, s, mirrored), _positive_zeta(b, s, b.add(mirrored, count)))
    odd = b.eq(b.op("fmod", s, b.number(2.0, "f64")), 1.0)
    below = b.where(b.eq(s, b.op("floor", s)), b.where(odd, b.op("neg", below), below), NAN)
    total = b.where(b.lt(q, 0), b.add(total, below), total)
    total = b.where(_is_pole(b, q), INF, total)
    return b.where(b.eq(s, 1.0), INF, b.where(b.lt(s, 1.0), NAN, total))


@register("special_zeta", "special_zeta.self_scalar", "special_zeta.other_scalar")
@in_f64
def _zeta(b, s, q):
    return _hurwitz_zeta(b, s, q)


@register("polygamma", "special_polygamma")
def _polygamma(b, n, x):
    """6.4.10"""
    (x,) = _wide(b, x)
    if n == 0:
        return b.cast(_psi(b, x), b.dtype)
    zeta = _hurwitz_zeta(b, b.number(n + 1, "f64"), x)
    return b.cast(b.mul(zeta, float(math.factorial(n)) * (1 if n % 2 else -1)), b.dtype)


# ---- The error function's relatives (7.1)


def _scaled_erfc(b, x):
    """exp(x^2) erfc(x): 7.1.1 below 2.5, where 1 - erf(x) is not small; from there on 7.4.11, by the trapezoidal rule."""
    small = b.lt(x, 2.5)
    near = b.where(small, x, 0.0)
    low = b.mul(b.op("exp", b.mul(near, near)), b.sub(1.0, b.op("erf", near)))
    square, step = b.mul(x, x), 0.4
    total = b.div(1.0, square)
    for j in range(1, 16):
        t = (j * step) ** 2
        total = b.add(total, b.div(2 * math.exp(-t), b.add(square, t)))
    high = b.mul(b.mul(x, total), step / PI)
    return b.where(small, low, b.where(b.op("isinf", x), 0.0, high))


@register("special_erfcx")
@in_f64
def _erfcx(b, x):
    return _scaled_erfc(b, x)


def _normal_quantile(b, p):
    """The x with ndtr(x) = p, for p in (0, 1/2]: Newton's method on log(ndtr(x)) = log(p), which is concave."""
    log_p = b.op("log", p)
    x = b.op("neg", b.op("sqrt", b.mul(b.sub(math.log(0.5), log_p), 2.0)))  # ndtr(x) <= exp(-x^2 / 2) / 2: from below
    for _ in range(6):
        ratio = b.mul(_scaled_erfc(b, b.mul(x, -math.sqrt(0.5))), math.sqrt(PI / 2))  # ndtr(x) / its derivative
        value = b.sub(b.op("log", ratio), b.add(b.mul(b.mul(x, x), 0.5), 0.5 * math.log(2 * PI)))
        x = b.sub(x, b.mul(b.sub(value, log_p), ratio))
    return x


@register("special_ndtri")
@in_f64
def _ndtri(b, p):
    upper = b.lt(0.5, p)
    x = _normal_quantile(b, b.where(upper, b.sub(1.0, p), p))
    x = b.where(upper, b.op("neg", x), x)
    x = b.where(b.eq(p, 0), -INF, b.where(b.eq(p, 1), INF, x))
    return b.where(b.both(b.le(0, p), b.le(p, 1)), x, NAN)


@register("erfinv", "special_erfinv")
@in_f64
def _erfinv(b, y):
    """By Newton's method on erf(x) = y where y is small, else as a quantile of the normal distribution."""
    size = b.op("abs", y)
    near = b.min(size, 0.5)
    x = b.mul(near, math.sqrt(PI) / 2)
    for _ in range(5):
        slope = b.mul(b.op("exp", b.op("neg", b.mul(x, x))), 2 / math.sqrt(PI))
        x = b.sub(x, b.div(b.sub(b.op("erf", x), near), slope))
    tail = b.mul(_normal_quantile(b, b.mul(b.sub(1.0, b.max(size, 0.5)), 0.5)), -math.sqrt(0.5))
    x = b.where(b.lt(size, 0.5), x, b.where(b.eq(size, 1), INF, tail))
    x = b.where(b.lt(y, 0), b.op("neg", x), x)
    return b.where(b.le(size, 1.0), x, NAN)


# ---- Bessel functions (9.1, 9.2, 9.6, 9.7)

_SERIES_TERMS = 56


def _harmonic(k):
    return math.fsum(1 / i for i in range(1, k + 1))


def _series(b, t, order, sign, weight=lambda k: 1.0):
    """The sum of weight(k) (sign t)^k / (k! (k + order)!), where t = (x / 2)^2: 9.1.10 and 9.6.10."""
    terms = [weight(k) * sign**k / math.factorial(k) / math.factorial(k + order) for k in range(_SERIES_TERMS)]
    return _polynomial(b, t, terms[::-1])


def _hankel(order, count):
    """The coefficients a_k of 9.2.5 and 9.7.1: (mu - 1)(mu - 9) ... / (k! 8^k)."""
    mu, a = 4 * order * order, [1.0]
    for k in range(1, count):
        a.append(a[-1] * (mu - (2 * k - 1) ** 2) / (8 * k))
    return a


def _modified_first(b, x, order):
    """exp(-|x|) I_order(x): 9.6.10 up to 18, then 9.7.1."""
    size = b.op("abs", x)
    near, far = b.min(size, 18.0), b.max(size, 18.0)
    t = b.mul(b.mul(near, near), 0.25)
    low = b.mul(_series(b, t, order, 1), b.op("exp", b.op("neg", near)))
    low = b.mul(low, b.mul(near, 0.5)) if order else low
    signed = [a * (-1) ** k for k, a in enumerate(_hankel(order, 20))]
    high = b.div(_polynomial(b, b.div(1.0, far), signed[::-1]), b.op("sqrt", b.mul(far, 2 * PI)))
    y = b.where(b.lt(size, 18.0), low, high)
    return b.where(b.lt(x, 0), b.op("neg", y), y) if order else y


@register("i0", "special_i0", "special_modified_bessel_i0", order=0, scaled=False)
@register("special_i0e", order=0, scaled=True)
@register("special_i1", "special_modified_bessel_i1", order=1, scaled=False)
@register("special_i1e", order=1, scaled=True)
def _modified_bessel_i(b, x, *, order, scaled):
    (x,) = _wide(b, x)
    y = _modified_first(b, x, order)
    if not scaled:
        y = b.mul(b.op("exp", b.op("abs", x)), y)  # as in PyTorch NaN at infinities
    return b.cast(y, b.dtype)


@register("special_modified_bessel_k0", order=0, scaled=False)
@register("special_modified_bessel_k1", order=1, scaled=False)
@register("special_scaled_modified_bessel_k0", order=0, scaled=True)
@register("special_scaled_modified_bessel_k1", order=1, scaled=True)
def _modified_bessel_k(b, x, *, order, scaled):
    """9.6.11 below 1; from there on the integral 9.6.24, by the trapezoidal rule."""
    (x,) = _wide(b, x)
    near, far = b.min(x, 1.0), b.max(x, 1.0)
    t = b.mul(b.mul(near, near), 0.25)
    logarithm = b.add(b.op("log", b.mul(near, 0.5)), GAMMA)
    if order == 0:
        low = b.sub(_series(b, t, 0, 1, _harmonic), b.mul(logarithm, _series(b, t, 0, 1)))
    else:
        sums = _series(b, t, 1, 1, lambda k: (_harmonic(k) + _harmonic(k + 1)) / 2)
        inner = b.sub(b.mul(logarithm, _series(b, t, 1, 1)), sums)
        low = b.add(b.div(1.0, near), b.mul(inner, b.mul(near, 0.5)))
    low = b.mul(low, b.op("exp", near)) if scaled else low
    # exp(-x (cosh(t) - 1)) cosh(order t) over t = u / sqrt(x)
    step, high, narrow = 0.3, b.number(0.5, "f64"), b.div(0.5, b.op("sqrt", far))
    for j in range(1, 31):
        sine = b.op("sinh", b.mul(narrow, j * step))
        square = b.mul(b.mul(sine, sine), 2.0)
        term = b.op("exp", b.op("neg", b.mul(far, square)))
        high = b.add(high, b.mul(term, b.add(square, 1.0)) if order else term)
    high = b.mul(high, b.mul(narrow, 2 * step))
    high = b.where(b.op("isinf", far), 0.0, high)
    high = high if scaled else b.mul(high, b.op("exp", b.op("neg", far)))
    y = b.where(b.lt(x, 1.0), low, high)
    return b.cast(b.where(b.eq(x, 0), INF, b.where(b.lt(x, 0), NAN, y)), b.dtype)


_FAR = 13.0  # from here on asymptotic expansions; below, alternating series lose no more than 1e-11


def _far_waves(b, x, order):
    """(P, Q, cos(chi), sin(chi), sqrt(2 / (pi x))) of 9.2.5 and 9.2.6."""
    a, inverse = _hankel(order, 22), b.div(1.0, x)
    square = b.mul(inverse, inverse)
    p = _polynomial(b, square, [a[2 * k] * (-1) ** k for k in range(11)][::-1])
    q = b.mul(inverse, _polynomial(b, square, [a[2 * k + 1] * (-1) ** k for k in range(11)][::-1]))
    chi = b.sub(x, (2 * order + 1) * PI / 4)
    return p, q, b.op("cos", chi), b.op("sin", chi), b.op("sqrt", b.div(2 / PI, x))


def _first_bessel(b, x, order):
    """J_order(x): 9.1.10, then 9.2.5"""
    size = b.op("abs", x)
    near, far = b.min(size, _FAR), b.max(size, _FAR)
    t = b.mul(b.mul(near, near), 0.25)
    low = _series(b, t, order, -1)
    low = b.mul(low, b.mul(near, 0.5)) if order else low
    p, q, cosine, sine, scale = _far_waves(b, far, order)
    high = b.mul(scale, b.sub(b.mul(p, cosine), b.mul(q, sine)))
    y = b.where(b.lt(size, _FAR), low, b.where(b.op("isinf", x), 0.0, high))
    return b.where(b.lt(x, 0), b.op("neg", y), y) if order else y


@register("special_bessel_j0", order=0)
@register("special_bessel_j1", order=1)
def _bessel_j(b, x, *, order):
    return b.cast(_first_bessel(b, *_wide(b, x), order), b.dtype)


@register("special_bessel_y0", order=0)
@register("special_bessel_y1", order=1)
def _bessel_y(b, x, *, order):
    """9.1.11, then 9.2.6"""
    (x,) = _wide(b, x)
    near, far = b.min(x, _FAR), b.max(x, _FAR)
    t = b.mul(b.mul(near, near), 0.25)
    logarithm = b.op("log", b.mul(near, 0.5))
    if order == 0:
        sums = b.sub(b.mul(b.add(logarithm, GAMMA), _series(b, t, 0, -1)), _series(b, t, 0, -1, _harmonic))
        low = b.mul(sums, 2 / PI)
    else:
        psi = _series(b, t, 1, -1, lambda k: _harmonic(k) + _harmonic(k + 1) - 2 * GAMMA)
        half = b.mul(near, 0.5)
        wave = b.sub(b.mul(logarithm, b.mul(_series(b, t, 1, -1), 2.0)), psi)
        low = b.mul(b.sub(b.mul(half, wave), b.div(1.0, half)), 1 / PI)
    p, q, cosine, sine, scale = _far_waves(b, far, order)
    high = b.mul(scale, b.add(b.mul(p, sine), b.mul(q, cosine)))
    y = b.where(b.lt(x, _FAR), low, b.where(b.op("isinf", x), 0.0, high))
    return b.cast(b.where(b.eq(x, 0), -INF, b.where(b.lt(x, 0), NAN, y)), b.dtype)


@register("special_spherical_bessel_j0")
@in_f64
def _spherical_bessel_j0(b, x):
    """10.1.11"""
    size = b.op("abs", x)
    x = b.where(b.eq(x, 0), 1.0, x)
    y = b.where(b.op("isinf", x), 0.0, b.div(b.op("sin", x), x))
    return b.where(b.eq(size, 0), 1.0, y)
