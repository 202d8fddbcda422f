"""Normalisations and softmax."""

import math

from .. import dims
from ..errors import Unsupported
from ..registry import register


def _filled(b, value, size, dtype):
    return b.broadcast(b.number(value, dtype), [size])


@register("native_layer_norm")
def _native_layer_norm(b, x, normalized_shape, weight, bias, eps):
    axis = x.rank - len(normalized_shape)
    wanted = 3 if b.used & {1, 2} else 1
    scale = b.broadcast(b.number(1.0, x.dtype), list(normalized_shape)) if weight is None else weight
    inputs = [x, scale] if bias is None else [x, scale, bias]
    results = b.op("LayerNormalization", *inputs, outputs=wanted, axis=axis, epsilon=float(eps))
    return results if wanted == 3 else (results, None, None)


@register("layer_norm")
def _layer_norm(b, x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return _native_layer_norm(b, x, normalized_shape, weight, bias, eps)[0]


@register("rms_norm", "_fused_rms_norm")
def _rms_norm(b, x, normalized_shape, weight=None, eps=None):
    if eps is None:
        eps = {"f32": 1.1920928955078125e-07, "f64": 2.220446049250313e-16}.get(x.dtype, 1.1920928955078125e-07)
    scale = b.broadcast(b.number(1.0, x.dtype), list(normalized_shape)) if weight is None else weight
    y = b.op("RMSNormalization", x, scale, axis=x.rank - len(normalized_shape), epsilon=float(eps))
    return (y, None) if len(b.outputs) == 2 else y


def _statistics(b, x, axes, eps):
    """(x - mean) / sqrt(variance + eps), mean, variance, 1 / sqrt(variance + eps), all with the axes kept."""
    mean = b.reduce("reduce_mean", x, axes, True)
    distance = b.sub(x, mean)
    variance = b.reduce("reduce_mean", b.mul(distance, distance), axes, True)
    inverse = b.div(1.0, b.op("sqrt", b.add(variance, float(eps))))
    return b.mul(distance, inverse), mean, variance, inverse


def _per_channel(b, x, weight, bias):
    shape = [x.shape[1]] + [1] * (x.rank - 2)
    if weight is not None:
        x = b.mul(x, b.reshape(b.cast(weight, x.dtype), shape))
    return x if bias is None else b.add(x, b.reshape(b.cast(bias, x.dtype), shape))


@register("native_group_norm")
def _native_group_norm(b, x, weight, bias, batch, channels, inner, groups, eps):
    if b.used & {1, 2}:
        wide = b.cast(x, b.compute)
        grouped = b.reshape(wide, [x.shape[0], groups, dims.floordiv(dims.product(x.shape[1:]), groups)])
        y, mean, _, inverse = _statistics(b, grouped, [2], eps)
        y = _per_channel(b, b.reshape(y, x.shape), weight, bias)
        return y, b.reshape(mean, [x.shape[0], groups]), b.reshape(inverse, [x.shape[0], groups])
    scale = _filled(b, 1.0, x.shape[1], x.dtype) if weight is None else weight
    shift = _filled(b, 0.0, x.shape[1], x.dtype) if bias is None else bias
    y = b.op("GroupNormalization", x, scale, shift, num_groups=groups, epsilon=float(eps))
    return y, None, None


@register("group_norm")
def _group_norm(b, x, groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return _native_group_norm(b, x, weight, bias, None, None, None, groups, eps)[0]


@register("_native_batch_norm_legit_no_training")
def _batch_norm(b, x, weight, bias, mean, variance, momentum, eps):
    scale = _filled(b, 1.0, x.shape[1], x.dtype) if weight is None else weight
    shift = _filled(b, 0.0, x.shape[1], x.dtype) if bias is None else bias
    y = b.op("BatchNormalization", x, scale, shift, mean, variance, epsilon=float(eps))
    empty = b.broadcast(b.number(0.0, "f32"), [0]) if b.used & {1, 2} else None
    return y, empty, empty


@register("_batch_norm_no_update")
def _batch_norm_no_update(b, x, weight, bias, mean, variance, momentum, eps):
    return *_batch_norm(b, x, weight, bias, mean, variance, momentum, eps), None


@register("batch_norm", "native_batch_norm")
def _any_batch_norm(b, x, weight, bias, mean, variance, training, momentum, eps, cudnn_enabled=True):
    if training:
        results = _batch_statistics_norm(b, x, weight, bias, training, momentum, eps)
    else:
        results = _batch_norm(b, x, weight, bias, mean, variance, momentum, eps)
    return results if len(b.outputs) == 3 else results[0]


@register("_native_batch_norm_legit.no_stats")
def _batch_statistics_norm(b, x, weight, bias, training, momentum, eps):
    y, mean, _, inverse = _statistics(b, b.cast(x, b.compute), [a for a in range(x.rank) if a != 1], eps)
    return _per_channel(b, y, weight, bias), b.reshape(mean, [x.shape[1]]), b.reshape(inverse, [x.shape[1]])


@register("_native_batch_norm_legit_functional", "_batch_norm_with_update_functional")
def _updating_batch_norm(b, x, weight, bias, mean, variance, *rest):
    """In training mode: the new running statistics are results, too."""
    *training, momentum, eps = rest
    if training and not training[0]:
        return *_batch_norm(b, x, weight, bias, mean, variance, momentum, eps), mean, variance
    axes, channels = [a for a in range(x.rank) if a != 1], [x.shape[1]]
    y, m, v, inverse = _statistics(b, b.cast(x, b.compute), axes, eps)
    count = dims.product(x.shape[a] for a in axes)
    if isinstance(count, str) or count < 2:
        raise Unsupported("running statistics of batches of unknown size")
    old_m, old_v = b.cast(mean, y.dtype), b.cast(variance, y.dtype)
    new_m = b.add(b.mul(b.reshape(m, channels), float(momentum)), b.mul(old_m, 1.0 - momentum))
    unbiased = b.mul(b.reshape(v, channels), count / (count - 1))
    new_v = b.add(b.mul(unbiased, float(momentum)), b.mul(old_v, 1.0 - momentum))
    saved = [b.reshape(m, channels), b.reshape(inverse, channels)]
    reserve = [b.broadcast(b.number(0, dtype), shape) for dtype, shape in b.outputs[3:-2]]  # cuDNN's; empty here
    return _per_channel(b, y, weight, bias), *saved, *reserve, new_m, new_v


@register("instance_norm")
def _instance_norm(b, x, weight, bias, mean, variance, use_input_stats, momentum, eps, cudnn_enabled):
    if not use_input_stats:
        return _batch_norm(b, x, weight, bias, mean, variance, momentum, eps)[0]
    scale = _filled(b, 1.0, x.shape[1], x.dtype) if weight is None else weight
    shift = _filled(b, 0.0, x.shape[1], x.dtype) if bias is None else bias
    return b.op("InstanceNormalization", x, scale, shift, epsilon=float(eps))


@register("_softmax", "softmax.int", op="Softmax")
@register("_log_softmax", "log_softmax.int", op="LogSoftmax")
def _softmax(b, x, dim, *rest, op, dtype=None):
    x = b.cast(x, b.compute)
    if not x.rank:
        x, shape = b.reshape(x, [1]), []
        return b.reshape(b.op(op, x, axis=0), shape)
    return b.op(op, x, axis=b.axis(x, dim))


@register("_safe_softmax")
def _safe_softmax(b, x, dim, dtype=None):
    """Zeros where all of a row is -inf."""
    y = _softmax(b, x, dim, op="Softmax")
    masked = b.eq(b.reduce("reduce_max", b.cast(x, y.dtype), [b.axis(x, dim)] if x.rank else [], True), -math.inf)
    return b.where(masked, 0.0, y)
