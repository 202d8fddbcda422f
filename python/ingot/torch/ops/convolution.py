"""Convolutions."""

from ..errors import Unsupported
from ..registry import register


def _each(value, count):
    """A list of `count`, of a number or a list of one or `count`."""
    value = [value] if isinstance(value, int) else list(value)
    return value * count if len(value) == 1 else value


@register("convolution", "_convolution")
def _convolution(b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *cudnn):
    spatial = weight.rank - 2
    stride, padding, dilation = (_each(v, spatial) for v in (stride, padding, dilation))
    batched = x.rank == weight.rank
    x = x if batched else b.unsqueeze(x, 0)
    options = {"strides": stride, "pads": padding + padding, "dilations": dilation, "group": groups}
    if transposed:
        options["output_padding"] = _each(output_padding, spatial)
    y = b.op("ConvTranspose" if transposed else "Conv", x, weight, *([] if bias is None else [bias]), **options)
    return y if batched else b.reshape(y, y.shape[1:])


@register("conv1d", "conv2d", "conv3d")
def _conv(b, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolution(b, x, weight, bias, stride, padding, dilation, False, 0, groups)


@register("conv1d.padding", "conv2d.padding", "conv3d.padding")
def _conv_same(b, x, weight, bias=None, stride=1, padding="valid", dilation=1, groups=1):
    if padding == "valid":
        return _convolution(b, x, weight, bias, stride, 0, dilation, False, 0, groups)
    spatial = weight.rank - 2
    totals = [d * (k - 1) for d, k in zip(_each(dilation, spatial), weight.shape[2:])]
    x = x if x.rank == weight.rank else b.unsqueeze(x, 0)
    before, after = [t // 2 for t in totals], [t - t // 2 for t in totals]
    options = {"strides": _each(stride, spatial), "dilations": _each(dilation, spatial), "group": groups}
    y = b.op("Conv", x, weight, *([] if bias is None else [bias]), pads=before + after, **options)
    return b.reshape(y, b.shape)


@register("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def _conv_transpose(b, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _convolution(b, x, weight, bias, stride, padding, dilation, True, output_padding, groups)


@register("col2im")
def _col2im(b, x, output_size, kernel_size, dilation, padding, stride):
    if any(isinstance(s, str) for s in output_size):
        raise Unsupported("col2im to unknown sizes")
    batched = x.rank == 3
    x = x if batched else b.unsqueeze(x, 0)
    y = b.op(
        "Col2Im",
        x,
        b.vector(*output_size),
        b.vector(*kernel_size),
        dilations=list(dilation),
        pads=list(padding) * 2,
        strides=list(stride),
    )
    return b.reshape(y, b.shape)


@register("im2col")
def _im2col(b, x, kernel_size, dilation, padding, stride):
    batched = x.rank == 4
    x = x if batched else b.unsqueeze(x, 0)
    x = b.pad(x, [0, 0, *padding], [0, 0, *padding])
    for i, axis in enumerate((2, 4)):
        size = x.shape[axis]
        if isinstance(size, str):
            raise Unsupported("im2col of unknown sizes")
        count = (size - dilation[i] * (kernel_size[i] - 1) - 1) // stride[i] + 1
        place = b.add(b.mul(b.iota([kernel_size[i], 1], 0), dilation[i]), b.mul(b.iota([1, count], 1), stride[i]))
        x = b.op("gather", x, place, axis=axis)
    return b.reshape(b.transpose(x, [0, 1, 2, 4, 3, 5]), b.shape)  # n, c, kernel y, kernel x, y, x
