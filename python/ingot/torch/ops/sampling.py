"""Sampling images at computed places."""

from ..errors import Unsupported
from ..registry import register

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")


@register("grid_sampler_2d", "grid_sampler_3d", "grid_sampler")
def _grid_sampler(b, x, grid, interpolation_mode, padding_mode, align_corners):
    if interpolation_mode == 2 and padding_mode == 1:
        raise Unsupported(
            "bicubic sampling with border padding"
        )  # ONNX cuts coordinates, PyTorch each of the 16 places
    return b.op(
        "GridSample",
        x,
        grid,
        mode=MODES[interpolation_mode],
        padding_mode=PADDINGS[padding_mode],
        align_corners=int(align_corners),
    )


@register("affine_grid_generator")
def _affine_grid(b, theta, size, align_corners):
    if any(isinstance(s, str) for s in size):
        raise Unsupported("an affine grid of unknown size")
    return b.op("AffineGrid", theta, b.vector(*size), align_corners=int(align_corners))
