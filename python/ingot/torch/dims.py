"""Sizes: Python's int where known, else the text of an expression of symbols as Ingot reads it ("2*s0+1")."""

import contextlib
import contextvars

import sympy

import torch
from torch.utils._sympy import functions

from .errors import Unsupported

MAXIMUM = 2**31 - 1  # of Ingot's symbols

# What symbols are called in networks, where not as in PyTorch ("s77"): the caller's names of them.
_names = contextvars.ContextVar("names", default={})


@contextlib.contextmanager
def named(names):
    """names: symbol's name in PyTorch -> in networks, within the context."""
    token = _names.set(names)
    try:
        yield
    finally:
        _names.reset(token)


def name(symbol):
    """A sympy symbol's name in networks."""
    return _names.get().get(symbol.name, symbol.name)


def text(expr):
    """A sympy expression as a dim: an int, or text. Unsupported where Ingot has no such function."""
    if isinstance(expr, int):
        return expr
    if expr.is_Integer:
        return int(expr)
    return _text(expr)


def _text(expr):
    if expr.is_Integer:
        return str(int(expr))
    if expr.is_Symbol:
        return name(expr)
    if isinstance(expr, functions.Identity):
        return _text(expr.args[0])
    if isinstance(expr, sympy.Add):
        return "+".join(f"({_text(x)})" for x in expr.args)
    if isinstance(expr, sympy.Mul) and all(not x.is_Rational or x.is_Integer for x in expr.args):
        return "*".join(f"({_text(x)})" for x in expr.args)
    if isinstance(expr, (sympy.Pow, functions.PowByNatural)):
        base, exponent = expr.args
        if exponent.is_Integer and 0 < int(exponent) <= 8:
            return "*".join([f"({_text(base)})"] * int(exponent))
    if isinstance(expr, (functions.FloorDiv, functions.CleanDiv)):
        return "floor(({})/({}))".format(*map(_text, expr.args))
    if isinstance(expr, functions.CeilDiv):
        a, b = map(_text, expr.args)
        return f"floor((({a})+({b})-1)/({b}))"
    if isinstance(expr, functions.ModularIndexing):
        a, b, c = map(_text, expr.args)
        return f"mod(floor(({a})/({b})),{c})"
    if isinstance(expr, (functions.Mod, functions.PythonMod, sympy.Mod)):
        return "mod({},{})".format(*map(_text, expr.args))
    if isinstance(expr, (functions.Max, sympy.Max)):
        return _nested("max", expr.args)
    if isinstance(expr, (functions.Min, sympy.Min)):
        return _nested("min", expr.args)
    raise Unsupported(f"the size {expr}")


def _nested(function, args):
    result = _text(args[0])
    for x in args[1:]:
        result = f"{function}({result},{_text(x)})"
    return result


def of(size):
    """An int or torch.SymInt as a dim."""
    return text(size.node.expr) if isinstance(size, torch.SymInt) else int(size)


def shape(tensor):
    """The dims of a (fake) tensor."""
    return [of(size) for size in tensor.shape]


def symbols(size):
    """The sympy symbols that an int or SymInt contains."""
    return size.node.expr.free_symbols if isinstance(size, torch.SymInt) else set()


def range_of(symbol, shape_env, ranges):
    """(lo, hi) of a sympy symbol, by `ranges` or else the ShapeEnv, cut to what Ingot's symbols can be."""
    bounds = ranges.get(symbol, shape_env.var_to_range.get(symbol))
    if bounds is None:
        return 0, MAXIMUM

    def integer(x):
        return int(x) if getattr(x, "is_Integer", False) else None

    lo, hi = integer(bounds.lower), integer(bounds.upper)
    return max(lo or 0, 0), MAXIMUM if hi is None else min(max(hi, 0), MAXIMUM)


def _both(a, b):
    return isinstance(a, int) and isinstance(b, int)


def add(a, b):
    return a + b if _both(a, b) else a if b == 0 else b if a == 0 else f"({a})+({b})"


def sub(a, b):
    return a - b if _both(a, b) else a if b == 0 else 0 if a == b else f"({a})-({b})"


def mul(a, b):
    return a * b if _both(a, b) else 0 if 0 in (a, b) else a if b == 1 else b if a == 1 else f"({a})*({b})"


def floordiv(a, b):
    return a // b if _both(a, b) else a if b == 1 else f"floor(({a})/({b}))"


def minimum(a, b):
    return min(a, b) if _both(a, b) else f"min({a},{b})"


def maximum(a, b):
    return max(a, b) if _both(a, b) else f"max({a},{b})"


def product(sizes):
    result = 1
    for size in sizes:
        result = mul(result, size)
    return result


def clamped(index, size):
    """A position as slices take it: from the end if negative, cut to 0..size."""
    if index is None:
        return None
    if isinstance(index, int):
        if index < 0:
            return maximum(add(size, index), 0)
        if index == 0:
            return 0
        if not isinstance(size, int) and index >= MAXIMUM:
            return size
    return minimum(index, size)


def numpy_shape(a, b):
    """The shape that two shapes broadcast to. Where sizes are not known to be equal, the one that is not 1."""
    a, b = [1] * (len(b) - len(a)) + list(a), [1] * (len(a) - len(b)) + list(b)
    return [y if x == 1 else x for x, y in zip(a, b)]
