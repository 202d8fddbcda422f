"""Operators that make tensors from nothing."""

from ..dtypes import FLOATS
from ..errors import Unsupported
from ..registry import register


@register("full", "new_full")
def _full(b, *args, **options):
    return b.broadcast(b.number(args[-1], b.dtype), b.shape)


@register("full_like")
def _full_like(b, x, value, **options):
    return b.broadcast(b.number(value, b.dtype), b.shape)


@register("fill.Scalar", "fill.Tensor")
def _fill(b, x, value):
    return b.broadcast(b.tensor(value, b.dtype), b.shape)


@register("zeros", "zeros_like", "new_zeros", "empty.memory_format", "empty_like", "new_empty", value=0)
@register("empty_strided", "new_empty_strided", "empty_permuted", "_efficientzerotensor", value=0)
@register("ones", "ones_like", "new_ones", value=1)
def _filled(b, *args, value, **options):
    return b.broadcast(b.number(value, b.dtype), b.shape)


@register("scalar_tensor")
def _scalar_tensor(b, value, **options):
    return b.number(value, b.dtype)


@register("arange.start_step", "arange", "arange.start")
def _arange(b, *args, **options):
    start, step = (0, 1) if len(args) == 1 else (args[0], args[2] if len(args) == 3 else 1)
    dtype = "f64" if any(isinstance(a, float) for a in args) else "i64"
    y = b.cast(b.iota(b.shape), dtype)
    y = y if step == 1 else b.mul(y, step)
    return b.cast(y if start == 0 else b.add(y, start), b.dtype)


@register("prims::iota")
def _iota(b, length, *, start, step, dtype, device, requires_grad):
    return _arange(b, start, None, step)


@register("linspace")
def _linspace(b, start, end, steps, **options):
    if not isinstance(steps, int) or isinstance(start, str) or isinstance(end, str):
        raise Unsupported("linspace of unknown size")
    if steps == 1:
        return b.broadcast(b.number(start, b.dtype), b.shape)
    compute = b.compute if b.dtype in FLOATS else "f32"
    place, step = b.cast(b.iota(b.shape), compute), (end - start) / max(steps - 1, 1)
    front = b.add(b.mul(place, float(step)), float(start))
    back = b.sub(float(end), b.mul(b.sub(float(steps - 1), place), float(step)))
    return b.cast(b.where(b.lt(place, float(steps // 2)), front, back), b.dtype)


@register("eye", "eye.m")
def _eye(b, *args, **options):
    rows, columns = b.shape
    return b.cast(b.eq(b.iota([rows, 1], 0), b.iota([1, columns], 1)), b.dtype)
