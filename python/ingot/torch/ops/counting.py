"""Counting, and what is as long as a count: histograms, segments, bags, positions of ones."""

from .. import dims
from ..dtypes import FLOATS
from ..errors import Unsupported
from ..registry import register
from .indexing import SCATTER

INF = float("inf")


def added_at(b, places, values, count, start=0.0, reduce="sum"):
    """[count], where values[i] was put at places[i]; what belongs at `count` is dropped. Both are flat."""
    to = b.broadcast(b.number(start, values.dtype), [dims.add(count, 1)])
    y = b.op("scatter_nd", to, b.unsqueeze(places, -1), values, reduction=SCATTER[reduce])
    return b.slice(y, 0, 0, count)


# ---- Histograms


def _flat(b, x):
    return b.reshape(x, [dims.product(x.shape)])


def _linspace(b, low, high, count):
    """`count` values from low to high, both scalars of one type, rounded as torch.linspace rounds them."""
    place = b.cast(b.iota([count]), low.dtype)
    step = b.div(b.sub(high, low), float(max(count - 1, 1)))
    front = b.add(low, b.mul(step, place))
    back = b.sub(high, b.mul(step, b.sub(float(count - 1), place)))
    return b.where(b.lt(place, float(count // 2)), front, back)


def _extrema(b, x):
    return tuple(b.reduce(op, _flat(b, x), [0], False) for op in ("reduce_min", "reduce_max"))


def _with_margin(b, low, high, margin):
    """The outer edges of bins, further apart where both are equal."""
    equal = b.eq(low, high)
    return b.where(equal, b.sub(low, margin), low), b.where(equal, b.add(high, margin), high)


@register("histc")
def _histc(b, x, bins=100, min=0, max=0):
    if x.dtype not in FLOATS:
        raise Unsupported("histc of integers")
    x = _flat(b, x)
    if min == max and x.shape[0] != 0:
        low, high = _extrema(b, x)
    else:
        low, high = b.number(float(min), x.dtype), b.number(float(max), x.dtype)
    low, high = _with_margin(b, low, high, 1.0)
    place = b.div(b.mul(b.sub(x, low), float(bins)), b.sub(high, low))
    place = b.min(b.cast(place, "i64"), bins - 1)
    inside = b.both(b.le(low, x), b.le(x, high))
    return added_at(b, b.where(inside, place, bins), b.broadcast(b.number(1.0, x.dtype), x.shape), bins)


def _equal_bins(b, x, count, given):
    """The edges of `count` equal bins over a given range or, without one, over all of x."""
    if given:
        low, high = (b.number(float(v), x.dtype) for v in given)
    elif dims.product(x.shape) == 0:
        low, high = b.number(0.0, x.dtype), b.number(1.0, x.dtype)
    else:
        low, high = _extrema(b, x)
    return _linspace(b, *_with_margin(b, low, high, 0.5), count + 1)


def _bin_of(b, x, edges):
    """The number of the bin that each value lies in, the last edge in the last one; the number of bins for those outside."""
    bins = edges.shape[0] - 1
    below = b.le(b.unsqueeze(edges, 0), b.unsqueeze(x, 1))
    place = b.sub(b.reduce("reduce_sum", b.cast(below, "i64"), [1], False), 1)
    first, last = b.slice(edges, 0, 0, 1), b.slice(edges, 0, bins, 1)
    inside = b.both(b.le(first, x), b.le(x, last))
    return b.where(inside, b.min(place, bins - 1), bins)


def _histogram(b, columns, edges, weight, density):
    """The histogram of points given by their coordinates, over bins between the edges of each coordinate."""
    counts = [e.shape[0] - 1 for e in edges]
    total = dims.product(counts)
    place, inside = b.number(0, "i64"), None
    for x, e, count in zip(columns, edges, counts):
        bin = _bin_of(b, x, e)
        place = b.add(b.mul(place, count), bin)
        here = b.lt(bin, count)
        inside = here if inside is None else b.both(inside, here)
    place = b.where(inside, place, total)
    weight = b.broadcast(b.number(1.0, b.dtype), place.shape) if weight is None else _flat(b, weight)
    hist = b.reshape(added_at(b, place, weight, total), counts)
    if density:
        hist = b.div(hist, b.reduce("reduce_sum", hist, list(range(hist.rank)), True))
        for i, (e, count) in enumerate(zip(edges, counts)):
            width = b.sub(b.slice(e, 0, 1, count), b.slice(e, 0, 0, count))
            hist = b.div(hist, b.reshape(width, [count if a == i else 1 for a in range(hist.rank)]))
    return hist


@register("histogram.bins_tensor")
def _histogram_of_edges(b, x, bins, *, weight=None, density=False):
    return _histogram(b, [_flat(b, x)], [bins], weight, density), bins


@register("histogram.bin_ct")
def _histogram_of_count(b, x, bins=100, *, range=None, weight=None, density=False):
    x = _flat(b, x)
    edges = _equal_bins(b, x, bins, range)
    return _histogram(b, [x], [edges], weight, density), edges


def _columns(b, x):
    """The coordinates of points [..., n], n flat tensors."""
    x = b.reshape(x, [dims.product(x.shape[:-1]), x.shape[-1]])
    return [b.reshape(b.slice(x, 1, i, 1), [x.shape[0]]) for i in range(x.shape[1])]


def _edges(b, x, bins, given):
    columns = enumerate(zip(_columns(b, x), bins))
    return [_equal_bins(b, c, count, given[2 * i : 2 * i + 2] if given else None) for i, (c, count) in columns]


@register("_histogramdd_bin_edges")
def _histogramdd_bin_edges(b, x, bins, *, range=None, weight=None, density=False):
    return _edges(b, x, bins, range)


@register("_histogramdd_from_bin_cts")
def _histogramdd_from_bin_cts(b, x, bins, *, range=None, weight=None, density=False):
    return _histogram(b, _columns(b, x), _edges(b, x, bins, range), weight, density)


@register("_histogramdd_from_bin_tensors")
def _histogramdd_from_bin_tensors(b, x, bins, *, weight=None, density=False):
    return _histogram(b, _columns(b, x), bins, weight, density)


@register("nonzero_static")
def _nonzero_static(b, x, *, size, fill_value=-1):
    shape = x.shape
    mask = _flat(b, b.cast(x, "bool"))
    count = b.reduce("reduce_sum", b.cast(mask, "i64"), [0], True)
    before = b.op("cumsum", b.cast(mask, "i64"), axis=0, exclusive=1, reverse=0)
    place = b.where(b.both(mask, b.lt(before, size)), before, size)
    rest = added_at(b, place, b.iota(mask.shape), size, 0)
    columns = []
    for extent in reversed(shape):
        columns.insert(0, b.op("mod", rest, b.number(extent, "i64")))
        rest = b.div(rest, extent)
    if not columns:
        return b.broadcast(b.number(0, "i64"), [size, 0])
    missing = b.le(count, b.iota([size]))
    return b.concat([b.unsqueeze(b.where(missing, fill_value, c), 1) for c in columns], 1)


# ---- Segments

_STARTS = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -INF, "min": INF}
_REDUCTIONS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


def _reduced_segments(b, x, axis, starts, ends, reduce, start):
    """
    x, reduced along an axis over each segment [start, end); starts and ends are [outer..., segments], with one dim for
    each of x's axes before `axis`.
    """
    lead, size, segments = x.shape[:axis], x.shape[axis], ends.shape[-1]
    place = b.iota([size, 1], 0)
    number = b.cast(b.le(b.unsqueeze(ends, -2), place), "i64")
    number = b.reduce("reduce_sum", number, [number.rank - 1], False)
    if segments:
        early = b.lt(b.iota([size], 0), b.slice(starts, -1, 0, 1))
        number = b.where(early, segments, number)
    rest = x.shape[axis + 1 :]
    index = b.broadcast(b.reshape(number, lead + [size] + [1] * len(rest)), x.shape)
    to = b.broadcast(b.number(float(start), x.dtype), lead + [dims.add(segments, 1)] + rest)
    y = b.op("scatter_elements", to, index, x, axis=axis, reduction=SCATTER[_REDUCTIONS[reduce]])
    return b.slice(y, axis, 0, segments)


@register("segment_reduce")
def _segment_reduce(b, x, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    axis = b.axis(x, axis)
    if indices is not None or (lengths is None and offsets is None):
        raise Unsupported("segments by indices")
    if offsets is not None:
        count = dims.sub(offsets.shape[-1], 1)
        starts, ends = b.slice(offsets, -1, 0, count), b.slice(offsets, -1, 1, count)
        lengths = b.sub(ends, starts)
    else:
        ends = b.op("cumsum", lengths, axis=lengths.rank - 1, exclusive=0, reverse=0)
        starts = b.sub(ends, lengths)
    start = _STARTS[reduce] if initial is None else initial
    y = _reduced_segments(b, x, axis, starts, ends, reduce, start)
    if reduce == "mean":
        lengths = b.cast(b.reshape(lengths, lengths.shape + [1] * (x.rank - axis - 1)), x.dtype)
        mean = b.div(y, b.max(lengths, 1.0))
        y = mean if initial is not None else b.where(b.eq(lengths, 0), b.number(float("nan"), x.dtype), mean)
    return y


_BAGS = ("sum", "mean", "max")


@register("_embedding_bag_forward_only", "_embedding_bag")
def _embedding_bag(b, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False,
                   per_sample_weights=None, include_last_offset=False, padding_idx=-1):  # fmt: skip
    reduce, count = _BAGS[mode], indices.shape[0]
    starts = b.cast(offsets, "i64")
    bags = dims.sub(starts.shape[0], int(include_last_offset))
    if include_last_offset:
        ends = b.slice(starts, 0, 1, bags)
        starts = b.slice(starts, 0, 0, bags)
    else:
        ends = b.concat([b.slice(starts, 0, 1, dims.sub(bags, 1)), b.reshape(b.number(count, "i64"), [1])], 0)
    indices = b.cast(indices, "i64")
    rows = b.op("gather", weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = b.mul(rows, b.unsqueeze(per_sample_weights, 1))
    ones = b.broadcast(b.number(1.0, weight.dtype), [count])
    if padding_idx >= 0:
        padding = b.eq(indices, padding_idx)
        ones = b.where(padding, 0.0, ones)
        rows = b.where(b.unsqueeze(padding, 1), b.number(_STARTS[reduce], rows.dtype), rows)
    sizes = b.unsqueeze(_reduced_segments(b, ones, 0, starts, ends, "sum", 0.0), 1)
    y = _reduced_segments(b, rows, 0, starts, ends, reduce, _STARTS[reduce])
    if reduce == "mean":
        y = b.div(y, b.max(sizes, 1.0))
    elif reduce == "max":
        y = b.where(b.eq(sizes, 0), 0.0, y)
    return y, None, None, None
