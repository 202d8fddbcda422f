"""
Orthogonal polynomials, by their recurrences (Abramowitz and Stegun, 22.7). The degree is a tensor's value, so the recurrence is
a loop as long as the largest degree.
"""

import math

from ..errors import Unsupported
from ..registry import find, TABLE


def _recurrence(b, x, degree, first, step):
    """p_n(x) of p_0 = 1, p_1 = first, p_(k+1) = step(builder, k, x, p_k, p_(k-1)); 0 where the degree n is negative."""
    shape = b.shape
    if 0 in shape:
        return b.broadcast(b.number(0.0, x.dtype), shape)
    x, degree, first = (b.broadcast(y, shape) for y in (x, degree, first))
    one = b.broadcast(b.number(1.0, x.dtype), shape)
    # Counted from 0; k = 1 makes p_2.
    longest = b.reduce("reduce_max", degree, list(range(len(shape))), False)
    trip = b.max(b.sub(longest, 1), 0)

    def next_one(b, i, before, value, x, degree):
        k = b.add(i, 1)
        made = step(b, b.cast(k, x.dtype), x, value, before)
        going = b.lt(k, degree)
        return [b.where(going, value, before), b.where(going, made, value)]

    _, y = b.loop(trip, [one, first], [x, degree], next_one)
    return b.where(b.lt(degree, 0), 0.0, b.where(b.eq(degree, 0), 1.0, y))


def _chebyshev_step(b, k, x, p, before):
    return b.sub(b.mul(b.add(x, x), p), before)


def _chebyshev(b, x, degree, factor, shift, longest, closed):
    """
    factor: of x in p_1, with `shift`. Between -1 and 1, where the recurrence would lose accuracy, degrees of more than
    `longest` are found by closed(builder, angle, degree).
    """
    angle = b.op("acos", b.min(b.max(x, -1.0), 1.0))
    inside = b.both(b.lt(b.op("abs", x), 1.0), b.lt(longest, degree))
    first = b.add(b.mul(x, float(factor)), float(shift))
    y = _recurrence(b, x, b.where(inside, 0, degree), first, _chebyshev_step)
    return b.where(inside, closed(b, angle, b.cast(degree, x.dtype)), y)


def _first_kind(b, angle, n):
    return b.op("cos", b.mul(n, angle))


def _second_kind(b, angle, n):
    return b.div(b.op("sin", b.mul(b.add(n, 1.0), angle)), b.op("sin", angle))


def _third_kind(b, angle, n):
    return b.div(b.op("cos", b.mul(b.add(n, 0.5), angle)), b.op("cos", b.mul(angle, 0.5)))


def _fourth_kind(b, angle, n):
    return b.div(b.op("sin", b.mul(b.add(n, 0.5), angle)), b.op("sin", b.mul(angle, 0.5)))


_KINDS = {
    "t": (1, 0, _first_kind),
    "u": (2, 0, _second_kind),
    "v": (2, -1, _third_kind),
    "w": (2, 1, _fourth_kind),
}
_LONGEST = 8  # degree that the recurrence finds between -1 and 1


def _operands(b, x, degree):
    if b.dtype not in ("f32", "f64"):
        raise Unsupported(f"polynomials of {b.dtype}")
    return b.tensor(x, b.dtype), b.tensor(degree, "i64")


def _of_kind(kind, shifted):
    factor, shift, closed = _KINDS[kind]

    def function(b, x, degree):
        x, degree = _operands(b, x, degree)
        x = b.sub(b.add(x, x), 1.0) if shifted else x
        return _chebyshev(b, x, degree, factor, shift, _LONGEST, closed)

    return function


_HERMITE_LIMIT = {"f32": 128, "f64": 512}  # PyTorch's; NaN beyond


def _hermite(factor):
    def function(b, x, degree):
        x, degree = _operands(b, x, degree)
        limit = _HERMITE_LIMIT[x.dtype]

        def step(b, k, x, p, before):
            return b.sub(b.mul(b.mul(x, float(factor)), p), b.mul(b.mul(k, float(factor)), before))

        y = _recurrence(b, x, b.min(degree, limit), b.mul(x, float(factor)), step)
        return b.where(b.lt(limit, degree), math.nan, y)

    return function


def _laguerre(b, x, degree):
    x, degree = _operands(b, x, degree)

    def step(b, k, x, p, before):
        slope = b.add(b.add(k, k), b.sub(1.0, x))
        return b.div(b.sub(b.mul(slope, p), b.mul(k, before)), b.add(k, 1.0))

    return _recurrence(b, x, degree, b.sub(1.0, x), step)


def _legendre(b, x, degree):
    x, degree = _operands(b, x, degree)

    def step(b, k, x, p, before):
        slope = b.mul(b.add(b.add(k, k), 1.0), x)
        return b.div(b.sub(b.mul(slope, p), b.mul(k, before)), b.add(k, 1.0))

    return _recurrence(b, x, degree, x, step)


def _fill_table():
    functions = {
        "hermite_polynomial_h": _hermite(2),
        "hermite_polynomial_he": _hermite(1),
        "laguerre_polynomial_l": _laguerre,
        "legendre_polynomial_p": _legendre,
    }
    for kind in _KINDS:
        functions[f"chebyshev_polynomial_{kind}"] = _of_kind(kind, False)
        functions[f"shifted_chebyshev_polynomial_{kind}"] = _of_kind(kind, True)
    for name, function in functions.items():
        for overload in ("default", "x_scalar", "n_scalar"):
            operator = find(f"special_{name}.{overload}")
            if operator is not None:
                TABLE[operator] = function


_fill_table()
