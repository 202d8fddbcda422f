"""Gathering and scattering."""

from .. import dims
from ..dtypes import FLOATS
from ..errors import Unsupported
from ..registry import register
from .reduction import vector_norm

SCATTER = {"add": 1, "sum": 1, "multiply": 2, "prod": 2, "amax": 3, "amin": 4}  # modes of Ingot's scatters


def _indices(b, x):
    return x if x.dtype in ("i32", "i64") else b.cast(x, "i64")


@register("embedding")
def _embedding(b, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return b.op("gather", weight, _indices(b, indices), axis=0)


@register("embedding_renorm")
def _embedding_renorm(b, weight, indices, max_norm, norm_type):
    """Rows that are read, and whose norm is larger, get this norm."""
    count = dims.product(indices.shape)
    index, ones = b.reshape(_indices(b, indices), [count, 1]), b.broadcast(b.number(1, "u8"), [count])
    rows = b.broadcast(b.number(0, "u8"), [weight.shape[0]])
    read = b.cast(b.op("scatter_nd", rows, b.cast(index, "i64"), ones, reduction=0), "bool")
    norm = vector_norm(b, weight, norm_type, [1])
    scale = b.where(b.both(read, b.lt(float(max_norm), norm)), b.div(float(max_norm), b.add(norm, 1e-7)), 1.0)
    return b.mul(weight, b.unsqueeze(scale, 1))


@register("index_select")
def _index_select(b, x, dim, index):
    if not x.rank:
        return x
    y = b.op("gather", x, _indices(b, b.reshape(index, index.shape or [1])), axis=b.axis(x, dim))
    return b.reshape(y, b.shape)


@register("take")
def _take(b, x, index):
    return b.op("gather", b.reshape(x, [dims.product(x.shape)]), _indices(b, index), axis=0)


def _cut(b, x, shape, but):
    """x, cut to a shape in all axes but one."""
    sizes = [d if axis == but else s for axis, (d, s) in enumerate(zip(x.shape, shape))]
    if sizes == list(x.shape):
        return x
    return b.op("slice", x, starts=[0] * x.rank, sizes=sizes, steps=[1] * x.rank)


@register("gather")
def _gather(b, x, dim, index, *, sparse_grad=False):
    if not x.rank:
        return b.broadcast(x, b.shape)
    if not index.rank:
        return b.reshape(b.op("gather", x, _indices(b, index), axis=0), [])
    if 0 in b.shape:
        return b.broadcast(b.number(0, x.dtype), b.shape)
    axis = b.axis(x, dim)
    return b.op("gather_elements", _cut(b, x, index.shape, axis), _indices(b, index), axis=axis)


def _scattered(b, x, dim, index, source, reduction):
    if index.shape == [0] and x.rank != 1:
        return x
    shape = b.shape
    if not x.rank:
        x = b.reshape(x, [1])
    if not index.rank:
        index = b.reshape(index, [1])
    source = b.cast(source, x.dtype)
    if not source.rank:
        source = b.broadcast(source, index.shape)
    source = _cut(b, source, index.shape, None)
    y = b.op("scatter_elements", x, _indices(b, index), source, axis=b.axis(x, dim), reduction=reduction)
    return b.reshape(y, shape)


@register("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce")
def _scatter(b, x, dim, index, source, *, reduce=None):
    source = source if hasattr(source, "rank") else b.number(source, x.dtype)
    return _scattered(b, x, dim, index, source, SCATTER[reduce] if reduce else 0)


@register("scatter_add")
def _scatter_add(b, x, dim, index, source):
    return _scattered(b, x, dim, index, source, SCATTER["add"])


IDENTITIES = {"sum": 0, "mean": 0, "prod": 1, "amax": -float("inf"), "amin": float("inf")}


@register("scatter_reduce.two")
def _scatter_reduce(b, x, dim, index, source, reduce, *, include_self=True):
    return _reduced_into(b, x, reduce, include_self, source, lambda to, s, r: _scattered(b, to, dim, index, s, r))


def _reduced_into(b, x, reduce, include_self, source, scatter):
    """scatter(to, source, mode): puts source's elements where they belong."""
    if x.dtype not in FLOATS and (reduce == "mean" or not include_self):
        raise Unsupported(f"integers with reduce={reduce!r}, include_self={include_self}")
    source = b.cast(source, x.dtype)
    start = x if include_self else scatter(x, b.broadcast(b.number(IDENTITIES[reduce], x.dtype), source.shape), 0)
    y = scatter(start, source, SCATTER["sum" if reduce == "mean" else reduce])
    if reduce != "mean":
        return y
    one = b.number(1.0, x.dtype)
    counts = scatter(
        b.broadcast(one if include_self else b.number(0.0, x.dtype), x.shape),
        b.broadcast(one, source.shape),
        SCATTER["sum"],
    )
    return b.div(y, b.max(counts, 1.0))


# ---- Indexing with lists of tensors


def _parts(b, x, indices):
    """
    Transposes the indexed axes of x to the front. Returns x, the indices as one i64 [..., n], the number of axes indexed,
    the rank of the index, and where PyTorch puts its axes in the result.
    """
    if any(i is not None and i.dtype in ("bool", "u8") for i in indices):
        raise Unsupported("a result whose size depends on values")
    axes = [a for a, i in enumerate(indices) if i is not None]
    given = [_indices(b, indices[a]) for a in axes]
    given = [b.cast(i, "i64") for i in given]
    shape = []
    for i in given:
        shape = dims.numpy_shape(shape, i.shape)
    rest = [a for a in range(x.rank) if a not in axes]
    place = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    stacked = b.concat([b.unsqueeze(b.broadcast(i, shape), -1) for i in given], -1)
    return b.transpose(x, axes + rest), stacked, len(axes), len(shape), place, axes + rest


@register("index.Tensor", "_unsafe_index.Tensor")
def _index(b, x, indices):
    axes = [a for a, i in enumerate(indices) if i is not None]
    if not axes:
        return x
    if len(axes) == 1 and indices[axes[0]].dtype not in ("bool", "u8"):
        return b.op("gather", x, _indices(b, indices[axes[0]]), axis=axes[0])
    x, index, _, rank, place, _ = _parts(b, x, indices)
    y = b.op("gather_nd", x, index, batch_dims=0)
    rest = list(range(rank, y.rank))
    return b.transpose(y, rest[:place] + list(range(rank)) + rest[place:])


@register("index_put", "_unsafe_index_put")
def _index_put(b, x, indices, values, accumulate=False):
    values = b.cast(values, x.dtype)
    given = [i for i in indices if i is not None]
    if len(given) == 1 and given[0].dtype == "bool":
        return _masked_put(b, x, indices, values, accumulate)
    axes = [a for a, i in enumerate(indices) if i is not None]
    if not axes:
        y = b.broadcast(values, b.shape)
        return b.add(x, y) if accumulate else y
    reduction = SCATTER["add"] if accumulate else 0
    if len(axes) == 1 and given[0].rank == 1 and given[0].dtype not in ("bool", "u8"):
        shape = list(x.shape)
        shape[axes[0]] = given[0].shape[0]
        return _along(b, x, axes[0], _indices(b, given[0]), b.broadcast(values, shape), reduction)
    moved, index, count, rank, place, perm = _parts(b, x, indices)
    rest = list(moved.shape[count:])
    shape = index.shape[:-1]
    # The values broadcast to the shape that indexing would give; then the index's axes go to the front.
    values = b.broadcast(values, rest[:place] + shape + rest[place:])
    order = list(range(place, place + rank)) + list(range(place)) + list(range(place + rank, values.rank))
    values = b.transpose(values, order)
    y = b.op("scatter_nd", moved, index, values, reduction=reduction)
    return b.transpose(y, [perm.index(a) for a in range(y.rank)])


def _masked_put(b, x, indices, values, accumulate):
    axis = next(a for a, i in enumerate(indices) if i is not None)
    mask = indices[axis]
    if dims.product(values.shape) == 1:
        values = b.reshape(values, [])
    elif values.rank > x.rank - axis - mask.rank:  # else the same ones for each
        values = _one_by_one(b, x, axis, mask, values)
    mask = b.reshape(mask, mask.shape + [1] * (x.rank - axis - mask.rank))
    return b.where(mask, b.add(x, values) if accumulate else values, x)


def _one_by_one(b, x, axis, mask, values):
    """values[i], for the i-th one of a mask of x's first axes, where the one is."""
    if axis or values.rank != x.rank - mask.rank + 1:
        raise Unsupported("as many values as a mask has ones, along a later axis")
    flat = b.cast(b.reshape(mask, [dims.product(mask.shape)]), "i64")
    place = b.op("cumsum", flat, axis=0, exclusive=1, reverse=0)
    place = b.min(place, dims.sub(values.shape[0], 1))
    rows = b.op("gather", b.broadcast(values, values.shape[:1] + x.shape[mask.rank :]), place, axis=0)
    return b.reshape(rows, x.shape)


def _along(b, x, dim, index, source, reduction):
    """x with source[..., i, ...] put at index[i] of an axis."""
    shape = list(x.shape)
    if not x.rank:
        x, source = b.reshape(x, [1]), b.reshape(source, [1])
    axis = b.axis(x, dim)
    index = b.cast(b.reshape(index, index.shape or [1]), "i64")
    source = source if source.rank == x.rank else b.reshape(source, [1] * (x.rank - source.rank) + source.shape)
    if axis:  # not transposed: where x is a cache, it is written in place
        index = b.broadcast(b.reshape(index, index.shape + [1] * (x.rank - 1 - axis)), source.shape)
        y = b.op("scatter_elements", x, index, source, axis=axis, reduction=reduction)
    else:
        y = b.op("scatter_nd", x, b.unsqueeze(index, -1), source, reduction=reduction)
    return b.reshape(y, shape)


@register("index_add")
def _index_add(b, x, dim, index, source, *, alpha=1):
    source = b.cast(source, x.dtype)
    source = source if alpha == 1 else b.mul(source, alpha)
    return _along(b, x, dim, index, source, SCATTER["add"])


@register("index_reduce")
def _index_reduce(b, x, dim, index, source, reduce, *, include_self=True):
    return _reduced_into(b, x, reduce, include_self, source, lambda to, s, r: _along(b, to, dim, index, s, r))


@register("index_copy")
def _index_copy(b, x, dim, index, source):
    return _along(b, x, dim, index, source, 0)


@register("index_fill.int_Scalar", "index_fill.int_Tensor")
def _index_fill(b, x, dim, index, value):
    axis, shape = b.axis(x, dim), list(x.shape) or [1]
    shape[axis] = index.shape[0] if index.rank else 1
    return _along(b, x, dim, index, b.broadcast(b.tensor(value, x.dtype), shape), 0)


@register("put")
def _put(b, x, index, source, accumulate=False):
    flat = b.reshape(x, [dims.product(x.shape)])
    index = b.reshape(_indices(b, index), [dims.product(index.shape), 1])
    source = b.reshape(b.cast(source, x.dtype), [index.shape[0]])
    y = b.op("scatter_nd", flat, b.cast(index, "i64"), source, reduction=SCATTER["add"] if accumulate else 0)
    return b.reshape(y, b.shape)


@register("masked_scatter")
def _masked_scatter(b, x, mask, source):
    x, mask = b.broadcast(x, b.shape), b.broadcast(mask, b.shape)
    flat = b.reshape(mask, [dims.product(b.shape)])
    place = b.op("cumsum", b.cast(flat, "i64"), axis=0, exclusive=1, reverse=0)
    source = b.reshape(source, [dims.product(source.shape)])
    place = b.min(place, dims.sub(source.shape[0], 1))
    taken = b.reshape(b.op("gather", source, place, axis=0), b.shape)
    return b.where(mask, taken, x)


@register("one_hot")
def _one_hot(b, x, num_classes=-1):
    if num_classes < 0:
        raise Unsupported("one_hot of unknown width")
    classes = b.iota([num_classes])
    return b.cast(b.eq(b.unsqueeze(x, -1), classes), "i64")
