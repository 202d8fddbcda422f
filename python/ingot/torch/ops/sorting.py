"""Sorting, and what is found by order: medians, modes, running extrema, places among sorted values."""

from .. import dims
from ..dtypes import FLOATS
from ..errors import Unsupported
from ..registry import register

NAN = float("nan")


@register("topk")
def _topk(b, x, k, dim=-1, largest=True, sorted=True):
    if not x.rank:
        return x, b.number(0, "i64")
    return b.op("topk", x, outputs=2, axis=b.axis(x, dim), k=k, largest=int(largest))


@register("sort", "sort.stable", "argsort.stable", "argsort")
def _sort(b, x, *args, stable=None, dim=-1, descending=False):
    if args and isinstance(args[0], bool):  # the stable overload's first
        args = args[1:]
    dim, descending = (*args, *((dim, descending)[len(args) :]))
    if not x.rank:
        pair = x, b.number(0, "i64")
    else:
        axis = b.axis(x, dim)
        flags = b.cast(x, "u8") if x.dtype == "bool" else x
        values, places = b.op("topk", flags, outputs=2, axis=axis, k=x.shape[axis], largest=int(descending))
        pair = b.cast(values, x.dtype), places
    return pair if len(b.outputs) == 2 else pair[1]


@register("kthvalue")
def _kthvalue(b, x, k, dim=-1, keepdim=False):
    if not x.rank:
        return x, b.number(0, "i64")
    axis = b.axis(x, dim)
    pair = _sorted(b, x, axis)
    return [b.reshape(b.slice(y, axis, dims.sub(k, 1), 1), b.shape) for y in pair]


def _sorted(b, x, axis):
    return b.op("topk", x, outputs=2, axis=axis, k=x.shape[axis], largest=0)


@register("median", "median.dim", ignore_nan=False)
@register("nanmedian", "nanmedian.dim", ignore_nan=True)
def _median(b, x, dim=None, keepdim=False, *, ignore_nan):
    """The lower of two in the middle. A NaN is the median of all that it is among, unless it is to be ignored."""
    pair = (x, b.number(0, "i64")) if not x.rank else _median_along(b, x, dim, ignore_nan)
    pair = [b.reshape(y, shape) for y, (_, shape) in zip(pair, b.outputs)]
    return pair if len(b.outputs) == 2 else pair[0]


def _median_along(b, x, dim, ignore_nan):
    if dim is None:
        x, dim = b.reshape(x, [dims.product(x.shape)]), 0
    axis = b.axis(x, dim)
    size = x.shape[axis]
    if size == 0:
        return b.broadcast(b.number(NAN if x.dtype in FLOATS else 0, x.dtype), b.shape), None
    middle = dims.floordiv(dims.sub(size, 1), 2)
    if x.dtype not in FLOATS:
        return [b.slice(y, axis, middle, 1) for y in _sorted(b, x, axis)]
    values, places = _sorted(b, x, axis)  # NaN last
    missing = b.reduce("reduce_sum", b.cast(b.op("isnan", x), "i64"), [axis], True)
    first_nan = b.op("argmax", x, axis=axis, last=0)
    if ignore_nan:
        count = b.sub(b.number(size, "i64"), missing)
        middle = b.div(b.max(b.sub(count, 1), 0), 2)
        pair = [b.op("gather_elements", y, middle, axis=axis) for y in (values, places)]
        wrong = b.eq(count, 0)
    else:
        pair = [b.slice(y, axis, middle, 1) for y in (values, places)]
        wrong = b.lt(0, missing)
    return b.where(wrong, NAN, pair[0]), b.where(wrong, first_nan, pair[1])


@register("mode")
def _mode(b, x, dim=-1, keepdim=False):
    """The smallest of the most frequent values, and its last place."""
    if not x.rank:
        return x, b.number(0, "i64")
    axis, dtype = b.axis(x, dim), x.dtype
    x = b.cast(x, "u8") if dtype == "bool" else x
    counts = b.cast(b.eq(b.unsqueeze(x, axis), b.unsqueeze(x, axis + 1)), "i64")
    counts = b.reduce("reduce_sum", counts, [axis + 1], False)
    frequent = b.eq(counts, b.reduce("reduce_max", counts, [axis], True))
    highest = b.reduce("reduce_max", x, [axis], True)
    values = b.reduce("reduce_min", b.where(frequent, x, highest), [axis], True)
    places = b.iota([1] * axis + [x.shape[axis]] + [1] * (x.rank - axis - 1), axis)
    places = b.reduce("reduce_max", b.where(b.eq(x, values), places, -1), [axis], True)
    return [b.reshape(y, b.shape) for y in (b.cast(values, dtype), places)]


@register("cummax", largest=True)
@register("cummin", largest=False)
def _running_extremum(b, x, dim, *, largest):
    """
    The extremum up to each element and its last place. By doubling: after a step, each element knows the extremum of twice
    as many before it. From the first NaN on all is NaN.
    """
    if not x.rank:
        return x, b.number(0, "i64")
    axis, size, dtype = b.axis(x, dim), x.shape[b.axis(x, dim)], x.dtype
    if isinstance(size, str):
        raise Unsupported("running extrema along an axis of unknown size")
    values = b.cast(x, "u8") if dtype == "bool" else x
    places = b.broadcast(b.iota([1] * axis + [size] + [1] * (x.rank - axis - 1), axis), x.shape)
    step = 1
    while step < size:
        early = [_shifted(b, y, axis, step) for y in (values, places)]
        stays = b.le(early[0], values) if largest else b.le(values, early[0])
        if dtype in FLOATS:
            stays = b.either(b.op("isnan", values), b.both(stays, b.negate(b.op("isnan", early[0]))))
        values, places = b.where(stays, values, early[0]), b.where(stays, places, early[1])
        step *= 2
    return b.cast(values, dtype), places


def _shifted(b, x, axis, step):
    """x, each element that of `step` places before; the first ones as they are."""
    return b.concat([b.slice(x, axis, 0, step), b.slice(x, axis, 0, x.shape[axis] - step)], axis)


@register("searchsorted.Tensor", "searchsorted.Scalar")
def _searchsorted(b, sequence, x, *, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        sequence = b.op("gather_elements", sequence, sorter, axis=sequence.rank - 1)
    if not hasattr(x, "rank"):
        x = b.number(x, sequence.dtype if sequence.dtype in FLOATS or isinstance(x, int) else "f32")
    right = right or side == "right"
    if sequence.rank == 1:
        bounds = b.reshape(sequence, [1] * x.rank + sequence.shape)
    else:
        bounds = b.unsqueeze(sequence, -2)
    return _counted_below(b, bounds, b.unsqueeze(x, -1), right)


@register("bucketize.Tensor")
def _bucketize(b, x, boundaries, *, out_int32=False, right=False):
    bounds = b.reshape(boundaries, [1] * x.rank + boundaries.shape)
    return _counted_below(b, bounds, b.unsqueeze(x, -1), right)


def _counted_below(b, bounds, x, or_equal):
    bounds, x = b.promoted(bounds, x)
    below = b.le(bounds, x) if or_equal else b.lt(bounds, x)
    y = b.cast(below, "i64")
    return b.reduce("reduce_sum", y, [y.rank - 1], False)
