"""Operators that move elements and leave them as they are."""

from .. import dims
from ..errors import Unsupported
from ..registry import register

CONSTANT, REFLECT, EDGE, WRAP = range(4)  # modes of Ingot's "pad"


@register("view", "_unsafe_view", "reshape", "view_copy", "_reshape_alias", "_reshape_copy", "prims::view_of")
@register("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy", "squeeze_copy.dim", "unsqueeze", "unsqueeze_copy")
@register("flatten.using_ints", "unflatten.int", "ravel", "atleast_1d", "atleast_2d", "view_as")
def _view(b, x, *rest, **options):
    return b.reshape(x, b.shape)


@register("view.dtype")
def _view_dtype(b, x, dtype):
    if x.dtype != b.dtype:
        raise Unsupported("a view of the elements' bytes")
    return x


@register("expand", "expand_copy", "broadcast_to", "expand_as")
def _expand(b, x, *rest, **options):
    return b.broadcast(x, b.shape)


@register("permute", "permute_copy")
def _permute(b, x, dims):
    return b.transpose(x, dims)


@register("transpose.int", "transpose_copy.int", "swapaxes", "swapdims")
def _transpose(b, x, dim0, dim1):
    perm = list(range(x.rank))
    if perm:
        dim0, dim1 = b.axis(x, dim0), b.axis(x, dim1)
        perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return b.transpose(x, perm)


@register("t", "t_copy", "mT")
def _t(b, x):
    return _transpose(b, x, -2, -1) if x.rank >= 2 else x


@register("movedim.intlist", "movedim.int")
def _movedim(b, x, source, destination):
    source, destination = ([a] if isinstance(a, int) else a for a in (source, destination))
    source, destination = [b.axis(x, a) for a in source], [b.axis(x, a) for a in destination]
    perm = [None] * x.rank
    for s, d in zip(source, destination):
        perm[d] = s
    rest = iter(a for a in range(x.rank) if a not in source)
    return b.transpose(x, [next(rest) if p is None else p for p in perm])


@register("slice.Tensor", "slice_copy.Tensor")
def _slice(b, x, dim=0, start=None, end=None, step=1):
    axis = b.axis(x, dim)
    return b.slice(x, axis, dims.clamped(start, x.shape[axis]) or 0, b.shape[axis], step)


@register("narrow", "narrow_copy")
def _narrow(b, x, dim, start, length):
    axis = b.axis(x, dim)
    return b.slice(x, axis, dims.clamped(start, x.shape[axis]), length)


def _position(index, size):
    return dims.add(size, index) if isinstance(index, int) and index < 0 else index


@register("select.int", "select_copy.int")
def _select(b, x, dim, index):
    axis = b.axis(x, dim)
    return b.reshape(b.slice(x, axis, _position(index, x.shape[axis]), 1), b.shape)


@register("split_with_sizes", "split_with_sizes_copy", "split.Tensor", "split.sizes", "chunk", "unsafe_split.Tensor")
@register(
    "unsafe_split_with_sizes", "tensor_split.sections", "tensor_split.indices", "split_copy.Tensor", "unsafe_chunk"
)
def _split(b, x, sizes, dim=0):
    axis, start, parts = b.axis(x, dim), 0, []
    for _, shape in b.outputs:
        parts.append(b.slice(x, axis, start, shape[axis]))
        start = dims.add(start, shape[axis])
    return parts


@register("unbind.int", "unbind_copy.int")
def _unbind(b, x, dim=0):
    axis = b.axis(x, dim)
    return [b.reshape(b.slice(x, axis, i, 1), shape) for i, (_, shape) in enumerate(b.outputs)]


@register("cat", "concat", "concatenate")
def _cat(b, tensors, dim=0):
    tensors = [x for x in tensors if x.shape != [0] or len(b.shape) == 1]
    return b.concat([b.cast(x, b.dtype) for x in tensors], dim)


@register("stack")
def _stack(b, tensors, dim=0):
    axis = dim % len(b.shape)
    return b.concat([b.unsqueeze(b.cast(x, b.dtype), axis) for x in tensors], axis)


@register("flip")
def _flip(b, x, dims):
    if not x.rank:
        return x
    axes = [b.axis(x, a) for a in dims]
    if not axes:
        return x
    starts = [_last(d) if i in axes else 0 for i, d in enumerate(x.shape)]
    steps = [-1 if i in axes else 1 for i in range(x.rank)]
    return b.op("slice", x, starts=starts, sizes=list(x.shape), steps=steps)


def _last(size):
    return dims.maximum(dims.sub(size, 1), 0)


@register("roll")
def _roll(b, x, shifts, axes=()):
    shifts, axes = ([a] if isinstance(a, int) else list(a) for a in (shifts, axes))
    if 0 in x.shape:
        return x
    if not axes:
        flat = b.reshape(x, [dims.product(x.shape)])
        return b.reshape(_rolled(b, flat, shifts[0], 0), b.shape)
    for shift, axis in zip(shifts, axes):
        x = _rolled(b, x, shift, b.axis(x, axis))
    return x


def _rolled(b, x, shift, axis):
    size = x.shape[axis]
    if isinstance(size, str) or isinstance(shift, str):
        raise Unsupported("rolling along an axis of unknown size")
    shift %= size
    if shift == 0:
        return x
    return b.concat([b.slice(x, axis, size - shift, shift), b.slice(x, axis, 0, size - shift)], axis)


@register("repeat", "tile")
def _repeat(b, x, repeats):
    shape = [1] * (len(repeats) - x.rank) + list(x.shape)
    repeats = [1] * (len(shape) - len(repeats)) + list(repeats)
    if 0 in repeats:
        return b.broadcast(b.number(0, x.dtype), b.shape)
    inner = [d for d in shape for d in (1, d)]
    outer = [d for pair in zip(repeats, shape) for d in pair]
    return b.reshape(b.broadcast(b.reshape(x, inner), outer), b.shape)


@register("repeat_interleave.self_int")
def _repeat_interleave(b, x, repeats, dim=None, *, output_size=None):
    if dim is None:
        x, dim = b.reshape(x, [dims.product(x.shape)]), 0
    x = b.reshape(x, x.shape or [1])
    axis = b.axis(x, dim) + 1
    y = b.unsqueeze(x, axis)
    return b.reshape(b.broadcast(y, y.shape[:axis] + [repeats] + y.shape[axis + 1 :]), b.shape)


# ---- Padding


def _amounts(x, pad):
    """PyTorch's list, last axis first, as (before, after) of all axes."""
    before, after = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        before[x.rank - 1 - i], after[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return before, after


def _padded(b, x, pad, mode, value=None):
    """Negative amounts are cut off afterwards."""
    before, after = _amounts(x, pad)
    cuts = [(axis, _cut(before[axis]), _cut(after[axis])) for axis in range(x.rank)]
    y = b.pad(x, [_grown(p) for p in before], [_grown(p) for p in after], mode, value)
    for axis, front, back in cuts:
        if front or back:
            y = b.slice(y, axis, front, dims.sub(y.shape[axis], front + back))
    return y


def _cut(amount):
    return max(-amount, 0) if isinstance(amount, int) else 0


def _grown(amount):
    return max(amount, 0) if isinstance(amount, int) else amount


@register("constant_pad_nd")
def _constant_pad(b, x, pad, value=0):
    return _padded(b, x, pad, CONSTANT, value)


@register("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", mode=REFLECT)
@register("replication_pad1d", "replication_pad2d", "replication_pad3d", mode=EDGE)
@register("_pad_circular", mode=WRAP)
def _pad_by_content(b, x, padding, mode):
    return _padded(b, x, padding, mode)


@register("pad")
def _pad(b, x, pad, mode="constant", value=None):
    modes = {"constant": CONSTANT, "reflect": REFLECT, "replicate": EDGE, "circular": WRAP}
    return _padded(b, x, pad, modes[mode], value)


# ---- Diagonals, windows, blocks


def _comparison(b, shape, diagonal):
    """Where the column's index minus the row's is at most `diagonal`, in the last two axes."""
    rows, columns = shape[-2:]
    row, column = b.iota([rows, 1], 0), b.iota([1, columns], 1)
    return b.le(column, b.add(row, diagonal))


@register("tril")
def _tril(b, x, diagonal=0):
    return b.where(_comparison(b, x.shape, diagonal), x, 0)


@register("triu")
def _triu(b, x, diagonal=0):
    return b.where(_comparison(b, x.shape, dims.sub(diagonal, 1)), b.number(0, x.dtype), x)


@register("diagonal", "diagonal_copy")
def _diagonal(b, x, offset=0, dim1=0, dim2=1):
    dim1, dim2 = b.axis(x, dim1), b.axis(x, dim2)
    rest = [a for a in range(x.rank) if a not in (dim1, dim2)]
    x = b.transpose(x, rest + [dim1, dim2])
    rows, columns = x.shape[-2:]
    count = b.shape[-1]
    if count == 0:
        return b.broadcast(b.number(0, x.dtype), b.shape)
    first = offset if offset >= 0 else dims.mul(-offset, columns)
    index = b.add(b.mul(b.iota([count]), dims.add(columns, 1)), first)
    flat = b.reshape(x, x.shape[:-2] + [dims.mul(rows, columns)])
    return b.op("gather", flat, index, axis=flat.rank - 1)


@register("unfold", "unfold_copy")
def _unfold(b, x, dimension, size, step):
    if not x.rank:
        return b.reshape(x, b.shape)
    axis = b.axis(x, dimension)
    count = b.shape[axis]
    index = b.add(b.mul(b.iota([count, 1], 0), step), b.iota([1, size], 1))
    y = b.op("gather", x, index, axis=axis)
    return b.transpose(y, [a for a in range(y.rank) if a != axis + 1] + [axis + 1])


def _strided_places(b, x, size, stride, storage_offset):
    """Where in memory, counted in elements, the elements of an as_strided of the node's first argument lie."""
    like = b.operand(0)
    if any(isinstance(d, str) for d in [*size, *stride, *x.shape]) or not like.is_contiguous() or like.storage_offset():
        raise Unsupported("as_strided of what does not lie densely in memory")
    last = (storage_offset or 0) + sum((n - 1) * step for n, step in zip(size, stride))
    if 0 not in size and last >= dims.product(x.shape):
        raise Unsupported("as_strided beyond the elements")
    index = b.number(storage_offset or 0, "i64")
    for axis, (n, step) in enumerate(zip(size, stride)):
        place = b.mul(b.iota([n] + [1] * (len(size) - 1 - axis)), step)
        index = b.add(index, place)
    return b.broadcast(index, size)


@register("as_strided", "as_strided_copy")
def _as_strided(b, x, size, stride, storage_offset=None):
    places = _strided_places(b, x, size, stride, storage_offset)
    return b.op("gather", b.reshape(x, [dims.product(x.shape)]), places, axis=0)


@register("as_strided_scatter")
def _as_strided_scatter(b, x, source, size, stride, storage_offset=None):
    places = _strided_places(b, x, size, stride, storage_offset)
    flat = b.reshape(x, [dims.product(x.shape)])
    source = b.broadcast(b.cast(source, x.dtype), places.shape)
    return b.reshape(b.op("scatter_nd", flat, b.unsqueeze(places, -1), source, reduction=0), b.shape)


@register("pixel_shuffle")
def _pixel_shuffle(b, x, upscale_factor):
    *lead, channels, height, width = x.shape
    r, n = upscale_factor, len(lead)
    x = b.reshape(x, lead + [dims.floordiv(channels, r * r), r, r, height, width])
    return b.reshape(b.transpose(x, [*range(n), n, n + 3, n + 1, n + 4, n + 2]), b.shape)


@register("pixel_unshuffle")
def _pixel_unshuffle(b, x, downscale_factor):
    *lead, channels, height, width = x.shape
    r, n = downscale_factor, len(lead)
    x = b.reshape(x, lead + [channels, dims.floordiv(height, r), r, dims.floordiv(width, r), r])
    return b.reshape(b.transpose(x, [*range(n), n, n + 2, n + 4, n + 1, n + 3]), b.shape)


@register("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(b, x, groups):
    batch, channels, *rest = x.shape
    y = b.reshape(x, [batch, groups, dims.floordiv(channels, groups), *rest])
    return b.reshape(b.transpose(y, [0, 2, 1, *range(3, y.rank)]), b.shape)


# ---- Writing into a copy


@register("copy")
def _copy(b, x, source, non_blocking=False):
    return b.broadcast(b.cast(source, b.dtype), b.shape)


def _inserted(b, x, part, axis, start, step=1):
    """x with part (of the same rank) at start, start + step ... along an axis."""
    size, count = x.shape[axis], part.shape[axis]
    if step == 1:
        end = dims.add(start, count)
        pieces = [part]
        if start != 0:
            pieces.insert(0, b.slice(x, axis, 0, start))
        if end != size:
            pieces.append(b.slice(x, axis, end, dims.sub(size, end)))
        return b.concat(pieces, axis)
    position = [1] * x.rank
    position[axis] = size
    place = b.sub(b.iota(position, axis), start)
    hit = b.both(b.le(0, place), b.eq(b.op("mod", place, b.number(step, "i64")), 0))
    index = b.reshape(b.min(b.max(b.div(place, step), 0), dims.sub(count, 1)), [size])
    return b.where(hit, b.op("gather", part, index, axis=axis), x)


@register("diagonal_scatter")
def _diagonal_scatter(b, x, source, offset=0, dim1=0, dim2=1):
    dim1, dim2 = b.axis(x, dim1), b.axis(x, dim2)
    perm = [a for a in range(x.rank) if a not in (dim1, dim2)] + [dim1, dim2]
    x = b.transpose(x, perm)
    rows, columns = x.shape[-2:]
    row, column = b.iota([rows, 1], 0), b.iota([1, columns], 1)
    hit = b.eq(column, b.add(row, offset))
    place = b.sub(column if offset <= 0 else row, 0)
    count = source.shape[-1]
    if count == 0:
        return b.transpose(x, [perm.index(a) for a in range(x.rank)])
    index = b.reshape(b.min(place, dims.sub(count, 1)), [place.shape[0] if offset > 0 else place.shape[1]])
    spread = b.op("gather", b.cast(source, x.dtype), index, axis=source.rank - 1)
    spread = b.unsqueeze(spread, -1 if offset > 0 else -2)
    return b.transpose(b.where(hit, spread, x), [perm.index(a) for a in range(x.rank)])


@register("slice_scatter")
def _slice_scatter(b, x, source, dim=0, start=None, end=None, step=1):
    axis = b.axis(x, dim)
    size = x.shape[axis]
    first, last = dims.clamped(start, size) or 0, dims.clamped(end, size)
    last = size if last is None else last
    count = dims.floordiv(dims.add(dims.maximum(dims.sub(last, first), 0), step - 1), step)
    if count == 0:
        return x
    shape = x.shape[:axis] + [count] + x.shape[axis + 1 :]
    return _inserted(b, x, b.broadcast(b.cast(source, x.dtype), shape), axis, first, step)


@register("select_scatter")
def _select_scatter(b, x, source, dim, index):
    axis = b.axis(x, dim)
    shape = x.shape[:axis] + [1] + x.shape[axis + 1 :]
    source = b.reshape(b.cast(source, x.dtype), shape)
    return _inserted(b, x, source, axis, _position(index, x.shape[axis]))
