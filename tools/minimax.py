#!/usr/bin/env python3
"""Finds the polynomials of the kernels' math functions (src/codegen/c/prelude_*.c) by the Remez exchange algorithm.

Each row of TARGETS is a function g(t) on an interval and a degree; the printed coefficients, lowest first, minimise the
largest error of the polynomial p(t), relative to the weight that the row gives (E. Remez, 1934; see also J.-M. Muller,
Elementary Functions, chapter 3). Needs mpmath.
"""
import sys

import mpmath as mp

mp.mp.prec = 200


def remez(g, lo, hi, degree, weight):
    """Coefficients and largest weighted error of the best polynomial."""
    n = degree + 2
    nodes = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / n) for i in range(n)]
    grid = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / (40 * n)) for i in range(40 * n)]
    values = [(t, g(t), weight(t)) for t in grid]
    for _ in range(12):
        a = mp.matrix(n, n)
        b = mp.matrix(n, 1)
        for r, t in enumerate(nodes):
            for c in range(degree + 1):
                a[r, c] = t**c
            a[r, degree + 1] = (-1) ** r / weight(t)
            b[r] = g(t)
        solution = mp.lu_solve(a, b)
        coefficients = [solution[i] for i in range(degree + 1)]
        errors = [w * (y - mp.polyval(coefficients[::-1], t)) for t, y, w in values]
        peaks, start = [], 0
        for i in range(1, len(errors) + 1):
            if i == len(errors) or errors[i] * errors[start] < 0:
                peaks.append(max(range(start, i), key=lambda j: abs(errors[j])))
                start = i
        worst = max(abs(e) for e in errors)
        if len(peaks) < n:
            break
        while len(peaks) > n:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        nodes = [grid[i] for i in peaks]
        if worst < abs(solution[degree + 1]) * mp.mpf("1.02"):
            break
    return coefficients, worst


def near_zero(f, limit):
    """f where its formula is not 0/0, its limit at 0."""
    return lambda t: f(t) if abs(t) > mp.mpf(10) ** -25 else mp.mpf(limit)


HALF_LN2 = mp.log(2) / 2
ROOT = mp.sqrt(2)
ONE = lambda t: mp.mpf(1)


def log_tail(f):
    """(log(1+f) - f + f^2/2) / f^3"""
    return (mp.log1p(f) - f + f * f / 2) / f**3


def atanh_tail(z):
    """((log((1+s)/(1-s)) - 2 s) / s) / z for s^2 = z"""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / (s * z)


def erfcx(a):
    return mp.erfc(a) * mp.exp(a * a)


def of_square(f, power):
    """z -> f(sqrt z) / sqrt(z)^power"""
    return lambda z: f(mp.sqrt(z)) / mp.sqrt(z) ** power


def normal_tail(a):
    """The standard normal distribution function of -a."""
    return mp.erfc(a / ROOT) / 2


QUARTER = mp.pi / 4
TARGETS = {
    # name: function, from, to, degree, weight
    "exp_f32": (near_zero(lambda r: (mp.expm1(r) - r) / (r * r), 0.5), -HALF_LN2, HALF_LN2, 4, lambda r: r * r / mp.exp(r) + mp.mpf(10)**-6),
    "exp_f64": (near_zero(lambda r: (mp.expm1(r) - r) / (r * r), 0.5), -HALF_LN2, HALF_LN2, 9, lambda r: r * r + mp.mpf(10)**-6),
    "log_f32": (near_zero(log_tail, mp.mpf(1) / 3), 1 / ROOT - 1, ROOT - 1, 8, lambda f: f * f + mp.mpf(10)**-4),
    "log_f64": (near_zero(atanh_tail, mp.mpf(2) / 3), mp.mpf(0), (3 - 2 * ROOT)**2, 6, ONE),
    "erf_f32": (near_zero(of_square(mp.erf, 1), 2 / mp.sqrt(mp.pi)), mp.mpf(0), mp.mpf(1), 6, ONE),
    "erfc_f32": (lambda a: mp.log(mp.erfc(a)) / a, mp.mpf(1), mp.mpf(4), 6, lambda a: a * mp.erfc(a)),
    "exp2_f32": (near_zero(lambda r: (2**r - 1) / r, mp.log(2)), mp.mpf(-1) / 2, mp.mpf(1) / 2, 4, lambda r: abs(r) / 2**r + mp.mpf(10)**-6),
    # The weight is the error of a times the function, as in GELU, until that becomes small.
    "normcdf_f32": (near_zero(lambda a: (mp.log(normal_tail(a), 2) + 1) / a, -mp.sqrt(2 / mp.pi) / mp.log(2)), mp.mpf(0), mp.mpf(6), 7,
                    lambda a: a * max(normal_tail(a) * (1 + a), mp.mpf(10)**-6)),
    "erf_f64": (near_zero(of_square(mp.erf, 1), 2 / mp.sqrt(mp.pi)), mp.mpf(0), mp.mpf(1), 11, ONE),
    "erfc_f64": (lambda t: erfcx(2 * (1 + t) / (1 - t)), mp.mpf(-1) / 3, mp.mpf(1) / 2, 12,
                 lambda t: mp.exp(-(2 * (1 + t) / (1 - t))**2)),
    "sin_f32": (near_zero(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(-1) / 6), mp.mpf(0), QUARTER**2, 2, lambda z: z + mp.mpf(10)**-6),
    "cos_f32": (near_zero(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mp.mpf(1) / 24), mp.mpf(0), QUARTER**2, 2, lambda z: z * z + mp.mpf(10)**-6),
    "sin_f64": (near_zero(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(-1) / 6), mp.mpf(0), QUARTER**2, 5, lambda z: z + mp.mpf(10)**-6),
    "cos_f64": (near_zero(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mp.mpf(1) / 24), mp.mpf(0), QUARTER**2, 5, lambda z: z * z + mp.mpf(10)**-6),
    "asin_f64": (near_zero(lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(1) / 6), mp.mpf(0), mp.mpf(1) / 4, 11, lambda z: z + mp.mpf(10)**-6),
    "atan_f64": (near_zero(lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(-1) / 3), mp.mpf(0), (ROOT - 1)**2, 10, lambda z: z + mp.mpf(10)**-6),
}


def main():
    names = sys.argv[1:] or list(TARGETS)
    for name in names:
        coefficients, worst = remez(*TARGETS[name])
        digits = 9 if name.endswith("f32") else 17
        print(name, "error", mp.nstr(worst, 3))
        for c in coefficients:
            print("   ", mp.nstr(c, digits + 2, min_fixed=0, max_fixed=0))


if __name__ == "__main__":
    main()
