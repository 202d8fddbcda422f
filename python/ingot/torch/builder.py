"""What translations of single ATen nodes are written with: one ingot.Network, and helpers in PyTorch's terms."""

import math

import ingot

import torch

from . import dims
from .dtypes import FLOATS, HALVES, TYPES, name_of, result_type
from .errors import Unsupported


class Value:
    """A tensor of the network: .raw, the ingot.Value; .dtype, Ingot's name; .shape, a list of dims; .rank."""

    __slots__ = ("raw", "dtype", "shape", "rank")

    def __init__(self, raw):
        self.raw, self.dtype, self.shape = raw, str(raw.dtype), list(raw.shape)
        self.rank = len(self.shape)


class Builder:
    """
    Adds operators to a network for one ATen node after the other. `shape`, `dtype` and `outputs` describe the node's
    results, as PyTorch knows them; a translation may rely on them.
    """

    def __init__(self, network):
        self.network = network
        self.label = self.source = self.node = None
        self.outputs = []  # (dtype, dims) of each tensor result
        self.used = {0}  # which results of the node anything uses

    @property
    def dtype(self):
        """The element type of the node's first result."""
        return self.outputs[0][0]

    @property
    def shape(self):
        """The dims of the node's first result."""
        return self.outputs[0][1]

    def enter(self, node, label, source, val, used):
        """Begins a node. `val`: its meta["val"]; `used`: the numbers of the results that anything reads."""
        self.node, self.label, self.source = node, label, source
        results = val if isinstance(val, (tuple, list)) else [val]
        self.outputs = [
            (name_of(x.dtype), dims.shape(x)) if isinstance(x, torch.Tensor) else (None, None) for x in results
        ]
        self.used = used

    def operand(self, index):
        """What PyTorch knows of the node's argument: a FakeTensor."""
        return self.node.args[index].meta["val"]

    # ---- Operators

    def op(self, name, *inputs, outputs=1, **attributes):
        """Adds an operator of ONNX's or of Ingot's own (lower case). None among the inputs: left out."""
        attributes = {k: v for k, v in attributes.items() if v is not None}
        inputs = [None if x is None else x.raw for x in inputs]
        made = self.network.add(name, *inputs, outputs=outputs, label=self.label, source=self.source, **attributes)
        return Value(made) if outputs == 1 else tuple(map(Value, made))

    def loop(self, trip, carried, captured, step):
        """
        What is carried after `trip` iterations: a number, or a value that is known during the run alone.
        step(builder, iteration, *carried, *captured) gives the next; it sees nothing but its arguments.
        """
        body = self.network.body()
        inner = Builder(body)
        inner.node, inner.label, inner.source, inner.outputs = self.node, self.label, self.source, self.outputs
        iteration, condition = body.input("iteration", "i64", []), body.input("condition", "bool", [])
        given = [*carried, *captured]
        values = [Value(body.input(f"value {i}", v.dtype, v.shape)) for i, v in enumerate(given)]
        body.output("condition", condition)
        for i, v in enumerate(step(inner, Value(iteration), *values)):
            body.output(f"carried {i}", v.raw)
        known = isinstance(trip, (int, str))
        raw = [(self.number(trip, "i64") if known else trip).raw, None, *(v.raw for v in given)]
        options = {"trip": trip} if known else {}
        made = self.network.add("loop", *raw, outputs=len(carried), label=self.label, source=self.source,
                                body=body, carried=len(carried), **options)  # fmt: skip
        return [Value(made)] if len(carried) == 1 else list(map(Value, made))

    def constant(self, data, dtype):
        """A constant of the given type: a number, or a torch.Tensor of any type."""
        if isinstance(data, torch.Tensor):
            data = data.to(TYPES[dtype])
        return Value(self.network.constant(data, dtype))

    def vector(self, *integers):
        """An i64 constant of rank 1, as ONNX's operators take axes and sizes."""
        return self.constant(torch.tensor(integers, dtype=torch.int64), "i64")

    def number(self, x, dtype):
        """A scalar: a number, or a dim."""
        if isinstance(x, str):
            return self.cast(self.op("shape", values=[x], scalar=1), dtype)
        if dtype == "bool":
            x = bool(x)
        elif dtype not in FLOATS:
            if isinstance(x, float) and not math.isfinite(x):
                raise Unsupported(f"the number {x} as {dtype}")
            x = int(x)
        return self.constant(x, dtype)

    def tensor(self, x, dtype):
        """A value, number or dim as a value of the given type."""
        return self.number(x, dtype) if isinstance(x, (bool, int, float, str)) else self.cast(x, dtype)

    def cast(self, x, dtype):
        if x.dtype == dtype:
            return x
        if dtype == "bool":
            return self.op("not", self.op("eq", x, self.number(0, x.dtype)))
        return self.op("cast", x, to=ingot.DType(dtype))

    def promoted(self, *operands):
        """All operands, in the type in which PyTorch computes with them; booleans stay booleans."""
        dtype = result_type(*operands)
        return [self.tensor(x, dtype) for x in operands]

    @property
    def compute(self):
        """The type in which PyTorch computes several steps of the node's results: halves in f32."""
        return "f32" if self.dtype in HALVES else self.dtype

    # ---- Movement. Axes may be negative.

    def reshape(self, x, shape):
        return self.op("reshape", x, dims=list(shape))

    def broadcast(self, x, shape):
        return self.op("broadcast", x, dims=list(shape))

    def transpose(self, x, perm):
        perm = [p % max(x.rank, 1) for p in perm]
        return x if perm == list(range(len(perm))) else self.op("transpose", x, perm=perm)

    def unsqueeze(self, x, axis):
        axis %= x.rank + 1
        shape = list(x.shape)
        return self.reshape(x, shape[:axis] + [1] + shape[axis:])

    def slice(self, x, axis, start, size, step=1):
        """`size` elements along one axis, from `start` on."""
        axis = self.axis(x, axis)
        starts, sizes, steps = [0] * x.rank, list(x.shape), [1] * x.rank
        starts[axis], sizes[axis], steps[axis] = start, size, step
        return self.op("slice", x, starts=starts, sizes=sizes, steps=steps)

    def concat(self, parts, axis):
        parts = list(parts)
        return parts[0] if len(parts) == 1 else self.op("concat", *parts, axis=self.axis(parts[0], axis))

    def pad(self, x, before, after, mode=0, value=None):
        value = () if value is None else (self.number(value, x.dtype),)
        return self.op("pad", x, *value, before=list(before), after=list(after), mode=mode)

    def iota(self, shape, axis=0):
        """i64: each element's index along an axis."""
        return self.op("iota", dims=list(shape), axis=axis)

    def axis(self, x, axis):
        return axis % max(x.rank, 1)

    def axes(self, x, axes):
        """A list of axes, sorted; None, or where PyTorch means all by it an empty one: all."""
        if axes is None or axes == []:
            return list(range(x.rank))
        return sorted({self.axis(x, a) for a in ([axes] if isinstance(axes, int) else axes)}) if x.rank else []

    # ---- Small arithmetic. Operands of one type; numbers take the other's.

    def _two(self, name, a, b):
        dtype = b.dtype if isinstance(a, (bool, int, float, str)) else a.dtype
        return self.op(name, self.tensor(a, dtype), self.tensor(b, dtype))

    def add(self, a, b):
        return self._two("add", a, b)

    def sub(self, a, b):
        return self._two("sub", a, b)

    def mul(self, a, b):
        return self._two("mul", a, b)

    def div(self, a, b):
        return self._two("div", a, b)

    def min(self, a, b):
        return self._two("min", a, b)

    def max(self, a, b):
        return self._two("max", a, b)

    def eq(self, a, b):
        return self._two("eq", a, b)

    def lt(self, a, b):
        return self._two("lt", a, b)

    def le(self, a, b):
        return self._two("le", a, b)

    def both(self, a, b):
        return self.op("and", a, b)

    def either(self, a, b):
        return self.op("or", a, b)

    def negate(self, a):
        return self.op("not", a)

    def where(self, condition, a, b):
        dtype = b.dtype if isinstance(a, (bool, int, float, str)) else a.dtype
        return self.op("where", condition, self.tensor(a, dtype), self.tensor(b, dtype))

    def reduce(self, name, x, axes, keepdim):
        """A reduction over sorted axes."""
        y = self.op(name, x, axes=list(axes)) if axes else x
        return y if keepdim else self.reshape(y, [d for i, d in enumerate(x.shape) if i not in axes])
