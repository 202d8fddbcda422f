"""Losses that PyTorch has as one operator."""

import contextlib

from ..dtypes import FLOATS
from ..registry import register

# What defines the operators is imported late.
with contextlib.suppress(ImportError):  # older versions do not have it
    import torch.nn.modules.linear_cross_entropy  # noqa: F401


def _logits(b, x, weight, bias):
    y = b.op("MatMul", b.cast(x, b.compute), b.transpose(b.cast(weight, b.compute), [1, 0]))
    return y if bias is None else b.add(y, b.cast(bias, b.compute))


def _cross_entropies(b, logits, target, class_weight, ignore_index):
    """(the loss of each row, the weight of each row); target is a class of each row, or the probabilities of all."""
    logs = b.op("LogSoftmax", logits, axis=1)
    if target.dtype in FLOATS:
        weight = b.cast(target, logs.dtype)
        weight = weight if class_weight is None else b.mul(weight, b.unsqueeze(b.cast(class_weight, logs.dtype), 0))
        return b.op("neg", b.reduce("reduce_sum", b.mul(weight, logs), [1], False)), None
    ignored = b.eq(target, ignore_index)
    target = b.where(ignored, b.number(0, target.dtype), target)
    weight = b.broadcast(b.number(1.0, logs.dtype), target.shape)
    if class_weight is not None:
        weight = b.op("gather", b.cast(class_weight, logs.dtype), target, axis=0)
    weight = b.where(ignored, 0.0, weight)
    own = b.reshape(b.op("gather_elements", logs, b.unsqueeze(target, 1), axis=1), target.shape)
    return b.op("neg", b.mul(weight, b.where(ignored, 0.0, own))), weight


@register("torch_nn::_linear_cross_entropy_batch_chunked")
def _linear_cross_entropy(b, x, weight, target, bias, class_weight, reduction, ignore_index, *options):
    losses, weights = _cross_entropies(b, _logits(b, x, weight, bias), target, class_weight, ignore_index)
    loss = b.reduce("reduce_sum", losses, [0], False)
    if reduction == "mean":
        count = b.number(x.shape[0], loss.dtype) if weights is None else b.reduce("reduce_sum", weights, [0], False)
        loss = b.div(loss, count)
    return loss, None, None, None  # gradients


@register("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction")
def _linear_cross_entropies(b, x, weight, target, bias, class_weight, ignore_index, *options):
    return _cross_entropies(b, _logits(b, x, weight, bias), target, class_weight, ignore_index)[0]
