"""Reductions and scans."""

import math

from .. import dims
from ..dtypes import FLOATS
from ..errors import Unsupported
from ..registry import register


def _wide(b, x):
    """The operand of a reduction, in the type in which PyTorch sums: halves in f32."""
    return b.cast(x, b.compute)


@register("sum", op="reduce_sum")
@register("prod", op="reduce_prod")
def _sum_of_all(b, x, *, op, dtype=None):
    return b.reduce(op, _wide(b, x), list(range(x.rank)), False)


@register("sum.dim_IntList", op="reduce_sum")
@register("prod.dim_int", op="reduce_prod")
def _sum(b, x, dim, keepdim=False, *, op, dtype=None):
    return b.reduce(op, _wide(b, x), b.axes(x, dim), keepdim)


@register("mean")
def _mean_of_all(b, x, *, dtype=None):
    return b.reduce("reduce_mean", _wide(b, x), list(range(x.rank)), False)


@register("mean.dim")
def _mean(b, x, dim, keepdim=False, *, dtype=None):
    return b.reduce("reduce_mean", _wide(b, x), b.axes(x, dim), keepdim)


def _extremum(b, op, x, axes, keepdim):
    if x.dtype == "bool":
        return b.cast(b.reduce(op, b.cast(x, "u8"), axes, keepdim), "bool")
    return b.reduce(op, x, axes, keepdim)


@register("amax", op="reduce_max")
@register("amin", op="reduce_min")
def _amax(b, x, dim=(), keepdim=False, *, op):
    return _extremum(b, op, x, b.axes(x, list(dim) if isinstance(dim, (list, tuple)) else dim), keepdim)


@register("max", op="reduce_max")
@register("min", op="reduce_min")
def _max_of_all(b, x, *, op):
    return _extremum(b, op, x, list(range(x.rank)), False)


@register("aminmax")
def _aminmax(b, x, *, dim=None, keepdim=False):
    axes = b.axes(x, dim)
    return _extremum(b, "reduce_min", x, axes, keepdim), _extremum(b, "reduce_max", x, axes, keepdim)


def _arg_extremum(b, op, x, axis, keepdim):
    if not x.rank:
        return b.number(0, "i64")
    if x.dtype == "bool":
        x = b.cast(x, "u8")
    y = b.op(op, x, axis=axis, last=0)
    return y if keepdim else b.reshape(y, x.shape[:axis] + x.shape[axis + 1 :])


@register("max.dim", op="max")
@register("min.dim", op="min")
def _max_along(b, x, dim, keepdim=False, *, op):
    axis = b.axis(x, dim)
    values = _extremum(b, "reduce_" + op, x, [axis] if x.rank else [], keepdim)
    return values, _arg_extremum(b, "arg" + op, x, axis, keepdim) if 1 in b.used else None


@register("argmax", op="argmax")
@register("argmin", op="argmin")
def _argmax(b, x, dim=None, keepdim=False, *, op):
    if dim is None:
        y = _arg_extremum(b, op, b.reshape(x, [dims.product(x.shape)]), 0, False)
        return b.reshape(y, b.shape)
    return _arg_extremum(b, op, x, b.axis(x, dim), keepdim)


@register("any", "any.dim", "any.dims", op="reduce_max")
@register("all", "all.dim", "all.dims", op="reduce_min")
def _any(b, x, dim=None, keepdim=False, *, op):
    flags = b.cast(b.cast(x, "bool"), "u8")
    return b.cast(b.reduce(op, flags, b.axes(x, dim), keepdim), b.dtype)


def _variance(b, x, dim, correction, keepdim):
    """(variance, mean) in the type in which PyTorch computes them."""
    x, axes = _wide(b, x), b.axes(x, dim)
    mean = b.reduce("reduce_mean", x, axes, True)
    distance = b.sub(x, mean)
    total = b.reduce("reduce_sum", b.mul(distance, distance), axes, keepdim)
    count = dims.product(x.shape[a] for a in axes)
    correction = 1 if correction is None else correction
    if isinstance(count, int):
        divisor = b.number(max(float(count - correction), 0.0), x.dtype)
    else:
        divisor = b.max(b.sub(b.number(count, x.dtype), float(correction)), 0.0)
    mean = mean if keepdim else b.reshape(mean, total.shape)
    return b.div(total, divisor), mean


@register("var.correction")
def _var(b, x, dim=None, *, correction=None, keepdim=False):
    return _variance(b, x, dim, correction, keepdim)[0]


@register("var.dim")
def _var_dim(b, x, dim, unbiased=True, keepdim=False):
    return _variance(b, x, dim, int(unbiased), keepdim)[0]


@register("std.correction")
def _std(b, x, dim=None, *, correction=None, keepdim=False):
    return b.op("sqrt", _variance(b, x, dim, correction, keepdim)[0])


@register("var_mean.correction")
def _var_mean(b, x, dim=None, *, correction=None, keepdim=False):
    return _variance(b, x, dim, correction, keepdim)


@register("std_mean.correction")
def _std_mean(b, x, dim=None, *, correction=None, keepdim=False):
    variance, mean = _variance(b, x, dim, correction, keepdim)
    return b.op("sqrt", variance), mean


@register("logsumexp")
def _logsumexp(b, x, dim, keepdim=False):
    x, axes = _wide(b, x), b.axes(x, dim)
    top = b.reduce("reduce_max", x, axes, True)
    top = b.where(b.op("isinf", top), 0.0, top)
    total = b.reduce("reduce_sum", b.op("exp", b.sub(x, top)), axes, True)
    return b.reshape(b.add(b.op("log", total), top), b.shape)


@register("linalg_vector_norm")
def vector_norm(b, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if x.dtype not in FLOATS:
        raise Unsupported("norms of integers")
    x, axes = b.op("abs", _wide(b, x)), b.axes(x, dim)
    if ord == math.inf or ord == -math.inf:
        return b.reduce("reduce_max" if ord > 0 else "reduce_min", x, axes, keepdim)
    if ord == 0:
        return b.reduce("reduce_sum", b.cast(b.op("not", b.eq(x, 0)), x.dtype), axes, keepdim)
    if ord == 1:
        return b.reduce("reduce_sum", x, axes, keepdim)
    if ord == 2:
        return b.op("sqrt", b.reduce("reduce_sum", b.mul(x, x), axes, keepdim))
    power = b.reduce("reduce_sum", b.op("pow", x, b.number(ord, x.dtype)), axes, keepdim)
    return b.op("pow", power, b.number(1.0 / ord, x.dtype))


@register("cumsum", op="cumsum")
@register("cumprod", op="cumprod")
def _cumulate(b, x, dim, *, op, dtype=None):
    x = _wide(b, x)
    return b.op(op, x, axis=b.axis(x, dim), exclusive=0, reverse=0) if x.rank else x


@register("logcumsumexp")
def _logcumsumexp(b, x, dim):
    if not x.rank:
        return x
    x, axis = _wide(b, x), b.axis(x, dim)
    top = b.reduce("reduce_max", x, [axis], True)
    top = b.where(b.op("isinf", top), 0.0, top)
    total = b.op("cumsum", b.op("exp", b.sub(x, top)), axis=axis, exclusive=0, reverse=0)
    return b.add(b.op("log", total), top)


@register("dist")
def _dist(b, x, y, p=2):
    return vector_norm(b, b.sub(b.cast(x, b.dtype), b.cast(y, b.dtype)), p)
