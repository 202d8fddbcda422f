"""Attention."""

import math

from .. import dims
from ..errors import Unsupported
from ..registry import register


def _attention(b, query, key, value, mask=None, is_causal=False, scale=None):
    """
    softmax(scale * query key^T + mask) value, over the last two axes; axes before them are broadcast. Heads of key and
    value may serve several of the query's.
    """
    if scale is None:
        width = query.shape[-1]
        if isinstance(width, str):
            raise Unsupported("attention over a width that is unknown")
        scale = 1 / math.sqrt(width) if width else 1.0
    lead = b.shape[:-2]
    if len({tuple(x.shape[:-3]) for x in (query, key, value)}) > 1 and max(x.rank for x in (query, key, value)) > 4:
        raise Unsupported("attention that is broadcast along one of more than four axes")
    four = lambda x: x if x.rank == 4 else _to_four(b, x)  # noqa: E731
    q, k, v = four(query), four(key), four(value)
    if mask is not None:
        if mask.rank > 4 or (mask.rank == 4 and query.rank > 4):
            raise Unsupported("a mask of an axis before the heads, for attention of more than four axes")
        if mask.rank < 2:
            raise Unsupported("a mask of less than two axes")
    y = b.op("Attention", q, k, v, *([] if mask is None else [mask]), is_causal=int(is_causal), scale=float(scale))
    return b.reshape(y, lead + y.shape[-2:])


def _to_four(b, x):
    extra = max(x.rank - 3, 0)
    return b.reshape(x, [1] * (3 - x.rank) + [dims.product(x.shape[:extra])] + list(x.shape[extra:]))


def _check(dropout_p):
    if dropout_p:
        raise Unsupported("dropout in training mode")


@register("scaled_dot_product_attention")
def _sdpa(b, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    _check(dropout_p)
    return _attention(b, query, key, value, attn_mask, is_causal, scale)


@register("_scaled_dot_product_flash_attention_for_cpu")
def _flash_cpu(b, query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    _check(dropout_p)
    sums = _log_sum_exp(b, query, key, attn_mask, is_causal, scale) if 1 in b.used else None
    return _attention(b, query, key, value, attn_mask, is_causal, scale), sums


def _log_sum_exp(b, query, key, mask, is_causal, scale):
    """log(sum(exp(scale * query key^T + mask))) over the keys."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = b.op("MatMul", b.cast(query, "f32"), b.transpose(b.cast(key, "f32"), [0, 1, 3, 2]))
    scores = b.mul(scores, float(scale))
    if is_causal:
        rows, columns = scores.shape[-2:]
        scores = b.where(b.le(b.iota([1, columns], 1), b.iota([rows, 1], 0)), scores, -math.inf)
    if mask is not None:
        scores = b.where(mask, scores, -math.inf) if mask.dtype == "bool" else b.add(scores, b.cast(mask, "f32"))
    top = b.reduce("reduce_max", scores, [3], True)
    total = b.reduce("reduce_sum", b.op("exp", b.sub(scores, top)), [3], True)
    return b.reshape(b.add(b.op("log", total), top), b.outputs[1][1])


@register("_scaled_dot_product_flash_attention")
def _flash(b, query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    _check(dropout_p)
    return (_attention(b, query, key, value, None, is_causal, scale), *[None] * 8)


@register("_scaled_dot_product_efficient_attention")
def _efficient(b, query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    _check(dropout_p)
    return (_attention(b, query, key, value, attn_bias, is_causal, scale), *[None] * 3)


@register("_scaled_dot_product_cudnn_attention")
def _cudnn(b, query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False,
           return_debug_mask=False, *, scale=None):  # fmt: skip
    _check(dropout_p)
    return (_attention(b, query, key, value, attn_bias, is_causal, scale), *[None] * 8)


@register("_scaled_dot_product_attention_math")
@register("_scaled_dot_product_fused_attention_overrideable")
def _math(b, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *rest, scale=None, **options):
    _check(dropout_p)
    return (_attention(b, query, key, value, attn_mask, is_causal, scale), *[None] * (len(b.outputs) - 1))


# ---- Layers that PyTorch has as one operator for inference


def _heads(b, x, heads):
    """[batch, time, heads * width] as [batch, heads, time, width]."""
    batch, time, width = x.shape
    return b.transpose(b.reshape(x, [batch, time, heads, dims.floordiv(width, heads)]), [0, 2, 1, 3])


def _affine(b, x, weight, bias):
    y = b.op("MatMul", x, b.transpose(weight, [1, 0]))
    return y if bias is None else b.add(y, bias)


def _allowed(b, mask, kind):
    """What these layers' masks leave: they mask where a number is not 0, whatever it is."""
    if kind not in (0, 1, 2):
        raise Unsupported("a mask of an unknown kind")
    allowed = b.negate(b.cast(mask, "bool"))
    return b.reshape(allowed, [mask.shape[0], 1, 1, mask.shape[1]]) if kind == 1 else allowed  # 1: of keys, by batch


def _self_attention(b, x, heads, qkv_weight, qkv_bias, out_weight, out_bias, allowed=None):
    qkv, width = _affine(b, x, qkv_weight, qkv_bias), out_weight.shape[0]
    q, k, v = (_heads(b, b.slice(qkv, 2, dims.mul(width, i), width), heads) for i in range(3))
    scale = 1 / math.sqrt(q.shape[3])
    y = b.op("Attention", q, k, v, *([] if allowed is None else [allowed]), is_causal=0, scale=scale)
    if allowed is not None:  # where nothing is left, PyTorch has 0 / 0
        some = b.reduce("reduce_max", b.cast(allowed, "u8"), [allowed.rank - 1], True)
        y = b.where(b.cast(some, "bool"), y, math.nan)
    return _affine(b, b.reshape(b.transpose(y, [0, 2, 1, 3]), x.shape), out_weight, out_bias)


@register("_transformer_encoder_layer_fwd")
def _encoder_layer(b, x, width, heads, qkv_weight, qkv_bias, out_weight, out_bias, use_gelu, norm_first, eps,
                   norm1_weight, norm1_bias, norm2_weight, norm2_bias, ffn1_weight, ffn1_bias, ffn2_weight, ffn2_bias,
                   mask=None, mask_type=None):  # fmt: skip
    allowed = None if mask is None else _allowed(b, mask, mask_type)

    def norm(y, weight, bias):
        return b.op("LayerNormalization", y, weight, bias, axis=2, epsilon=float(eps))

    def attend(y):
        return _self_attention(b, y, heads, qkv_weight, qkv_bias, out_weight, out_bias, allowed)

    def feed(y):
        y = _affine(b, y, ffn1_weight, ffn1_bias)
        y = b.op("Gelu", y) if use_gelu else b.max(y, 0)
        return _affine(b, y, ffn2_weight, ffn2_bias)

    if norm_first:
        x = b.add(x, attend(norm(x, norm1_weight, norm1_bias)))
        return b.add(x, feed(norm(x, norm2_weight, norm2_bias)))
    x = norm(b.add(x, attend(x)), norm1_weight, norm1_bias)
    return norm(b.add(x, feed(x)), norm2_weight, norm2_bias)


@register("_native_multi_head_attention")
def _native_attention(b, query, key, value, width, heads, qkv_weight, qkv_bias, out_weight, out_bias,
                      mask=None, need_weights=True, average_attn_weights=True, mask_type=None):  # fmt: skip
    if need_weights or not b.operand(0) is b.operand(1) is b.operand(2):
        raise Unsupported("multi-head attention with weights as a result, or of several tensors")
    allowed = None if mask is None else _allowed(b, mask, mask_type)
    return _self_attention(b, query, heads, qkv_weight, qkv_bias, out_weight, out_bias, allowed), None
