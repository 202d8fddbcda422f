"""PyTorch's element types, and Ingot's names of them."""

import functools

import torch

from .errors import Unsupported

NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.bool: "bool",
}
TYPES = {name: dtype for dtype, name in NAMES.items()}

FLOATS = ("f32", "f64", "f16", "bf16")
HALVES = ("f16", "bf16")
UNSIGNED = ("u8", "u16", "u32", "u64")


def name_of(dtype):
    """Ingot's name of a torch.dtype ("f32")."""
    try:
        return NAMES[dtype]
    except KeyError:
        raise Unsupported(f"element type {str(dtype).removeprefix('torch.')}") from None


@functools.lru_cache(maxsize=None)
def _result_type(operands):
    """torch.result_type of any number of operands: (name, has dimensions) of tensors, or a number's Python type."""
    stand_ins = [
        x(1) if isinstance(x, type) else torch.empty([1] if x[1] else [], dtype=TYPES[x[0]], device="meta")
        for x in operands
    ]
    tensors = [x for x in stand_ins if isinstance(x, torch.Tensor)]
    if not tensors:
        return name_of(torch.result_type(*stand_ins[:1], *stand_ins[-1:]))
    # The rank of operands counts before their type does: those with dimensions decide, then those without, then numbers.
    result = None
    for group in (
        [x for x in tensors if x.dim()],
        [x for x in tensors if not x.dim()],
        [x for x in stand_ins if not isinstance(x, torch.Tensor)],
    ):
        for x in group:
            result = x if result is None else torch.empty_like(result, dtype=torch.result_type(result, x))
    return name_of(result.dtype)


def result_type(*operands):
    """The element type in which PyTorch computes with values (they have .dtype and .rank) and Python's numbers."""
    key = tuple(
        type(x) if isinstance(x, (bool, int, float)) else int if isinstance(x, str) else (x.dtype, x.rank > 0)
        for x in operands
    )
    return _result_type(key)
