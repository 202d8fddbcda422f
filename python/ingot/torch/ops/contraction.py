"""Matrix products."""

import torch

from ..dtypes import FLOATS
from ..errors import Unsupported
from ..registry import register
from .reduction import vector_norm


def _product(b, x, y):
    if x.dtype not in FLOATS:
        raise Unsupported(f"products of {x.dtype}")
    return b.op("MatMul", x, y)


@register("mm", "bmm", "matmul")
def _mm(b, x, y, out_dtype=None):
    return _product(b, x, y)


@register("mv")
def _mv(b, x, y):
    return b.reshape(_product(b, x, b.unsqueeze(y, 1)), b.shape)


@register("dot", "vdot")
def _dot(b, x, y):
    return b.reshape(_product(b, b.unsqueeze(x, 0), b.unsqueeze(y, 1)), [])


@register("outer", "ger")
def _outer(b, x, y):
    return b.mul(b.cast(b.unsqueeze(x, 1), b.dtype), b.cast(b.unsqueeze(y, 0), b.dtype))


def _sum_of(b, x, product, beta, alpha):
    if alpha != 1:
        product = b.mul(product, float(alpha))
    if beta == 0:
        return product
    return b.add(product, x if beta == 1 else b.mul(x, float(beta)))


@register("addmm")
def _addmm(b, x, left, right, *, beta=1, alpha=1):
    if left.dtype not in FLOATS:
        raise Unsupported(f"products of {left.dtype}")
    if beta == 0:
        return _sum_of(b, None, _product(b, left, right), 0, alpha)
    return b.op("Gemm", left, right, x, alpha=float(alpha), beta=float(beta))


@register("baddbmm")
def _baddbmm(b, x, left, right, *, beta=1, alpha=1):
    return _sum_of(b, x, _product(b, left, right), beta, alpha)


@register("addbmm")
def _addbmm(b, x, left, right, *, beta=1, alpha=1):
    product = b.reduce("reduce_sum", _product(b, left, right), [0], False)
    return _sum_of(b, x, product, beta, alpha)


@register("addmv")
def _addmv(b, x, matrix, vector, *, beta=1, alpha=1):
    return _sum_of(b, x, b.reshape(_product(b, matrix, b.unsqueeze(vector, 1)), b.shape), beta, alpha)


@register("addr")
def _addr(b, x, left, right, *, beta=1, alpha=1):
    product = b.mul(b.cast(b.unsqueeze(left, 1), b.dtype), b.cast(b.unsqueeze(right, 0), b.dtype))
    return _sum_of(b, b.cast(x, b.dtype), product, beta, alpha)


@register("linear")
def _linear(b, x, weight, bias=None):
    if weight.rank == 1:
        y = b.reshape(_product(b, x, b.unsqueeze(weight, 1)), b.shape)
    elif x.rank == 2 and x.dtype in FLOATS:
        return b.op("Gemm", x, weight, *([] if bias is None else [bias]), transB=1)
    else:
        y = _product(b, x, b.transpose(weight, [1, 0]))
    return y if bias is None else b.add(y, bias)


@register("einsum")
def _einsum(b, equation, operands, *, path=None):
    return b.op("Einsum", *[b.cast(x, b.dtype) for x in operands], equation=equation.replace(" ", ""))


@register("_cdist_forward")
def _cdist(b, x, y, p, compute_mode=None):
    distance = b.sub(b.unsqueeze(x, -2), b.unsqueeze(y, -3))
    return vector_norm(b, distance, p, [-1])


@register("_pdist_forward")
def _pdist(b, x, p=2):
    """The distances of all pairs of rows, i before j."""
    count = x.shape[0]
    if isinstance(count, str):
        raise Unsupported("distances of an unknown number of rows")
    pairs = torch.triu_indices(count, count, 1)
    left, right = (b.op("gather", x, b.constant(i, "i64"), axis=0) for i in pairs)
    return vector_norm(b, b.sub(left, right), p, [1])


@register("_trilinear")
def _trilinear(b, x, y, z, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """The sum over some axes of the product of three tensors, each with axes of size 1 put in."""
    product = None
    for operand, axes in ((x, expand1), (y, expand2), (z, expand3)):
        for axis in sorted(axes):
            operand = b.unsqueeze(operand, axis)
        product = operand if product is None else b.mul(product, operand)
    return b.reduce("reduce_sum", product, b.axes(product, sumdim), False)
