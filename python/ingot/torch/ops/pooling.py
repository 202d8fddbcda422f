"""Pooling, and changing an image's size."""

import math

import torch

from .. import dims
from ..dtypes import FLOATS
from ..errors import Unsupported
from ..registry import register
from .convolution import _each


def _batched(b, x, spatial):
    return x if x.rank == spatial + 2 else b.unsqueeze(x, 0)


def _max_pool(b, x, spatial, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    if x.dtype not in FLOATS:
        raise Unsupported("pooling of integers")
    kernel = _each(kernel_size, spatial)
    stride, padding, dilation = _each(stride or kernel, spatial), _each(padding, spatial), _each(dilation, spatial)
    y = _batched(b, x, spatial)
    sizes = b.shape[-spatial:]
    options = {"kernel": kernel, "strides": stride, "dilations": dilation, "before": padding, "sizes": sizes}
    values = b.reshape(b.op("pool_max", y, **options), b.shape)
    if 1 not in b.used:
        return values, None
    places = b.op("pool_argmax", y, column_major=0, **options)
    plane = dims.product(x.shape[-spatial:])
    places = b.op("mod", places, b.number(plane, "i64"))  # PyTorch counts within a channel
    return values, b.reshape(places, b.shape)


@register("max_pool2d_with_indices", "max_pool2d", spatial=2)
@register("max_pool3d_with_indices", "max_pool3d", spatial=3)
@register("max_pool1d", "max_pool1d_with_indices", spatial=1)
def _max_pool_nd(b, x, *args, spatial, **kwargs):
    pair = _max_pool(b, x, spatial, *args, **kwargs)
    return pair if len(b.outputs) == 2 else pair[0]


@register("max_pool2d_with_indices_backward")
def _max_pool_backward(b, gradient, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
    planes, places = dims.product(x.shape[:-2]), dims.product(gradient.shape[-2:])
    flat = b.broadcast(b.number(0.0, gradient.dtype), [planes, dims.product(x.shape[-2:])])
    index, gradient = b.reshape(indices, [planes, places]), b.reshape(gradient, [planes, places])
    return b.reshape(b.op("scatter_elements", flat, index, gradient, axis=1, reduction=1), b.shape)


@register("avg_pool1d", spatial=1)
@register("avg_pool2d", spatial=2)
@register("avg_pool3d", spatial=3)
def _avg_pool(b, x, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True,
              divisor_override=None, *, spatial):  # fmt: skip
    if x.dtype not in FLOATS:
        raise Unsupported("pooling of integers")
    kernel = _each(kernel_size, spatial)
    stride, padding = _each(stride or kernel, spatial), _each(padding, spatial)
    options = {"kernel": kernel, "strides": stride, "dilations": [1] * spatial, "before": padding,
               "sizes": b.shape[-spatial:]}  # fmt: skip
    y = _batched(b, x, spatial)
    if divisor_override:
        y = b.div(b.op("pool_sum", y, **options), float(divisor_override))
    else:
        y = b.op("pool_avg", y, after=padding, count_pad=int(count_include_pad), **options)
    return b.reshape(y, b.shape)


def _bounds(i, size, count):
    """Where adaptive pooling's window i of count begins and ends."""
    return i * size // count, -(-(i + 1) * size // count)


def _averages(size, count):
    """The matrix [size, count] that averages each window."""
    matrix = torch.zeros(size, count)
    for i in range(count):
        first, end = _bounds(i, size, count)
        matrix[first:end, i] = 1 / (end - first)
    return matrix


@register("_adaptive_avg_pool2d", "adaptive_avg_pool2d", spatial=2)
@register("_adaptive_avg_pool3d", "adaptive_avg_pool3d", spatial=3)
@register("adaptive_avg_pool1d", spatial=1)
def _adaptive_avg_pool(b, x, output_size, *, spatial):
    dtype, x = x.dtype, b.cast(x, b.compute)
    for i, count in enumerate(_each(output_size, spatial)):
        axis = x.rank - spatial + i
        size = x.shape[axis]
        if count == 1:
            x = b.reduce("reduce_mean", x, [axis], True)
        elif count != size:
            if isinstance(size, str) or isinstance(count, str):
                raise Unsupported("adaptive pooling of unknown sizes")
            perm = [a for a in range(x.rank) if a != axis] + [axis]
            back = [perm.index(a) for a in range(x.rank)]
            x = b.transpose(b.op("MatMul", b.transpose(x, perm), b.constant(_averages(size, count), x.dtype)), back)
    return b.cast(x, dtype)


@register("adaptive_max_pool1d", spatial=1)
@register("adaptive_max_pool2d", spatial=2)
@register("adaptive_max_pool3d", spatial=3)
def _adaptive_max_pool(b, x, output_size, *, spatial):
    counts, sizes = _each(output_size, spatial), x.shape[-spatial:]
    if any(isinstance(n, str) for n in counts + sizes):
        raise Unsupported("adaptive pooling of unknown sizes")
    if any(n == 0 or s % n for s, n in zip(sizes, counts)):
        return _unequal_maxima(b, x, counts)
    kernel = [s // n for s, n in zip(sizes, counts)]
    return _max_pool(b, x, spatial, kernel)


def _windows(size, count):
    """[count, width]: the places in each window; the last is read again where one is smaller than the largest."""
    bounds = [_bounds(n, size, count) for n in range(count)]
    width = max((end - first for first, end in bounds), default=1)
    places = [[min(first + k, end - 1) for k in range(width)] for first, end in bounds]
    return torch.tensor(places, dtype=torch.int64).reshape(count, width)


def _unequal_maxima(b, x, counts):
    """(maxima of windows of unequal sizes, their places in the plane)"""
    spatial, lead = len(counts), x.rank - len(counts)
    if 0 in b.shape:
        return [b.broadcast(b.number(0, dtype), shape) for dtype, shape in b.outputs]
    plane, place = x.shape[lead:], torch.zeros([], dtype=torch.int64)
    for i, count in enumerate(counts):
        windows = _windows(plane[i], count)
        x = b.op("gather", x, b.constant(windows, "i64"), axis=lead + 2 * i)
        shape = [1] * (2 * i) + list(windows.shape) + [1] * (2 * (spatial - i - 1))
        place = place * plane[i] + windows.reshape(shape)
    # [..., counts and widths by turns] as [..., counts, all of a window]
    order = list(range(0, 2 * spatial, 2)) + list(range(1, 2 * spatial, 2))
    x = b.reshape(b.transpose(x, [*range(lead), *(lead + a for a in order)]), b.shape + [math.prod(x.shape[lead + 1 :: 2])])
    places = b.constant(place.permute(order).reshape(*counts, -1), "i64")
    values = b.reduce("reduce_max", x, [x.rank - 1], False)
    if 1 not in b.used:
        return values, None
    best = b.op("argmax", x, axis=x.rank - 1, last=0)
    places = b.broadcast(places, x.shape[:lead] + list(places.shape))
    return values, b.reshape(b.op("gather_elements", places, best, axis=x.rank - 1), b.shape)


# ---- Resizing


def _sizes_known(sizes):
    if any(isinstance(s, str) for s in sizes):
        raise Unsupported("resizing to unknown sizes")


def _resize(b, x, scales, **options):
    """ONNX Resize to the node's shape; scales: PyTorch's, per spatial axis, or None."""
    spatial = x.rank - 2
    _sizes_known(b.shape[2:])
    if scales is not None and all(s is not None for s in scales):
        wanted = [int(size * s) for size, s in zip(x.shape[2:], scales) if not isinstance(size, str)]
        if wanted == b.shape[2:]:
            factors = b.constant(torch.tensor([1.0, 1.0, *scales]), "f32")
            return b.reshape(b.op("Resize", x, None, factors, **options), b.shape)
    sizes = b.op("Resize", x, None, None, b.vector(*b.shape[2:]), axes=list(range(2, 2 + spatial)), **options)
    return b.reshape(sizes, b.shape)


def _scales(scales):
    return None if not scales else list(scales)


@register("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec", exact=False)
@register("_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec", exact=True)
def _nearest_vec(b, x, output_size, scale_factors, *, exact):
    return _nearest(b, x, _scales(scale_factors), exact)


@register("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", exact=False)
@register("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", exact=True)
def _nearest_sizes(b, x, output_size, *scales, exact, scales_h=None, scales_w=None, scales_d=None):
    given = [s for s in (*scales, scales_d, scales_h, scales_w) if s is not None]
    return _nearest(b, x, given if len(given) == x.rank - 2 else None, exact)


def _nearest(b, x, scales, exact):
    if exact:
        options = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    else:
        options = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return _resize(b, x, scales, mode="nearest", **options)


@register("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec", mode="linear")
@register("upsample_bicubic2d.vec", mode="cubic")
def _smooth_vec(b, x, output_size, align_corners, scale_factors, *, mode):
    return _smooth(b, x, align_corners, _scales(scale_factors), mode)


@register("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", mode="linear")
@register("upsample_bicubic2d", mode="cubic")
def _smooth_sizes(b, x, output_size, align_corners, *scales, mode, scales_h=None, scales_w=None, scales_d=None):
    given = [s for s in (*scales, scales_d, scales_h, scales_w) if s is not None]
    return _smooth(b, x, align_corners, given if len(given) == x.rank - 2 else None, mode)


@register("_upsample_bilinear2d_aa", mode="linear")
@register("_upsample_bicubic2d_aa", mode="cubic")
def _smooth_antialiased(b, x, output_size, align_corners, *scales, mode, scales_h=None, scales_w=None):
    given = [s for s in (*scales, scales_h, scales_w) if s is not None]
    return _antialiased(b, x, align_corners, given if len(given) == 2 else None, mode)


@register("_upsample_bilinear2d_aa.vec", mode="linear")
@register("_upsample_bicubic2d_aa.vec", mode="cubic")
def _smooth_antialiased_vec(b, x, output_size, align_corners, scale_factors, *, mode):
    return _antialiased(b, x, align_corners, _scales(scale_factors), mode)


def _antialiased(b, x, align_corners, scales, mode):
    _sizes_known([*b.shape[2:], *x.shape[2:]])
    if align_corners:
        raise Unsupported("antialiasing with aligned corners")
    if scales and [int(size * s) for size, s in zip(x.shape[2:], scales)] != b.shape[2:]:
        raise Unsupported("scales that do not give the size")
    return _smooth(b, x, align_corners, scales, mode, antialias=1, exclude_outside=1)


def _smooth(b, x, align_corners, scales, mode, **options):
    coordinates = "align_corners" if align_corners else "half_pixel"
    if mode == "cubic":
        options["cubic_coeff_a"] = -0.5 if "antialias" in options else -0.75
    return _resize(b, x, scales, mode=mode, coordinate_transformation_mode=coordinates, **options)
