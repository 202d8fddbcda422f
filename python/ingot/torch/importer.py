"""
From ATen graphs (torch.fx, as AOTAutograd and torch.export make them) to networks of Ingot's.

A node is supported if its translation succeeds: there is no second description of what is supported that could differ from
the first. ingot_network_add leaves a network as it was when it fails, so a whole graph is tried on one network, where what
is not supported becomes an input.
"""

import operator
import os

import ingot

import torch

from . import dims, ops, outside, registry  # noqa: F401 (ops fills the registry)
from .builder import Builder, Value
from .dtypes import name_of
from .errors import Unsupported

_HOST_SIZES = (torch.SymInt, int)


def value_of(node):
    """What PyTorch knows of a node's result: a FakeTensor, SymInt, or a list of these."""
    return node.meta.get("val")


def source_of(node):
    """The user's line that a node comes from, such as "model.py:31: x = self.conv(x)", or None."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines() if line.strip()]
    for i in range(len(lines) - 1, -1, -1):
        if lines[i].startswith('File "'):
            path, number, *_ = lines[i][6:].replace('", line ', "\0").replace(", in ", "\0").split("\0")
            code = ": " + lines[i + 1] if i + 1 < len(lines) else ""
            return f"{os.path.basename(path)}:{number}{code}"
    return None


def label_of(node):
    """The module that a node belongs to ("layer1.0.conv1"), else the node's own name."""
    stack = node.meta.get("nn_module_stack")
    if stack:
        path = list(stack.values())[-1][0]
        path = path.removeprefix("L['self'].").removeprefix("L['self']").replace("_modules['", "").replace("']", "")
        if path:
            return f"{path}:{node.name}"
    return node.name


def is_tensor(val):
    return isinstance(val, torch.Tensor)


class Importer:
    """Translates nodes of one graph into one network."""

    def __init__(self, module, ranges=None, network=None):
        """ranges: sympy symbol -> its ValueRanges, where others than the ShapeEnv's hold; network: one that has begun."""
        self.module, self.ranges = module, ranges or {}
        self.is_inner = network is not None  # all symbols have been declared
        self.network = network or ingot.Network()
        self.builder = Builder(self.network)
        self.values = {}  # node -> Value, or list of Values and None
        self.symbols = set()  # names of those that are sizes of inputs
        self.arguments = []  # of a call, in order: nodes, and names of symbols

    # ---- What the graph begins with

    def add_input(self, node, name=None):
        """An input of a node's type and dims, in the order in which its elements lie in memory."""
        val = value_of(node)
        if val.layout != torch.strided or val.is_quantized:
            raise Unsupported(f"a tensor of layout {val.layout}")
        dtype, shape, order = name_of(val.dtype), dims.shape(val), memory_order(val)
        for size in val.shape:
            if isinstance(size, torch.SymInt) and not size.node.expr.is_Symbol:
                self._declare_symbols([size])
        value = Value(self.network.input(name or node.name, dtype, [shape[axis] for axis in order]))
        self.arguments.append(node)
        for size in val.shape:
            self._tell_range(size)
        self.values[node] = self.builder.transpose(value, inverse(order))

    def _tell_range(self, size):
        for symbol in dims.symbols(size):
            if symbol.name not in self.symbols:
                self.symbols.add(symbol.name)
                self.network.set_range(dims.name(symbol), *dims.range_of(symbol, size.node.shape_env, self.ranges))

    def _declare_symbols(self, sizes):
        """Symbols that are no input's size yet come as inputs."""
        for size in () if self.is_inner else sizes:
            for symbol in sorted(dims.symbols(size), key=str):
                if symbol.name not in self.symbols:
                    self.network.size_input(f"size of {dims.name(symbol)}", dims.name(symbol))
                    self.arguments.append(symbol.name)
                    self._tell_range(size)

    def add_output(self, name, value, val):
        """An output with the elements in the order in which the FakeTensor's lie."""
        self.network.output(name, self.builder.transpose(value, memory_order(val)).raw)

    def add_weight(self, name, tensor, order=None):
        """order: of the axes that the network's weight of this name has; None: the tensor's own."""
        name_of(tensor.dtype)
        if order is None or order == sorted(order):
            return Value(self.network.weight(name, host_tensor(tensor)))
        value = Value(self.network.weight(name, host_tensor(tensor.permute(order))))
        return self.builder.transpose(value, inverse(order))

    # ---- Nodes

    def add_node(self, node):
        """Translates a call. Raises Unsupported, with the reason."""
        if node.target is operator.getitem:
            self.values[node] = self._item(node)
            return
        translate = registry.TABLE.get(node.target)
        if translate is None:
            raise Unsupported(outside.why(node.target))
        val = value_of(node)
        results = [x for x in (val if isinstance(val, (list, tuple)) else [val])]
        for x in results:
            if is_tensor(x):
                self._declare_symbols(x.shape)
        args = [self.argument(a) for a in node.args]
        kwargs = {k: self.argument(a) for k, a in node.kwargs.items()}
        several = isinstance(val, (list, tuple))
        used = {u.args[1] for u in node.users if u.target is operator.getitem and u.users} if several else {0}
        try:
            self.builder.enter(node, label_of(node), source_of(node), val, used)
            made = translate(self.builder, *args, **kwargs)
            made = list(made) if isinstance(made, (list, tuple)) else [made]
            # PyTorch's FakeTensors of results that nobody reads may be wrong: a GPU's LSTM has states of four axes in 2.11.
            made = [self._checked(x, like) if i in used else None for i, (x, like) in enumerate(zip(made, results))]
        except ingot.Error as error:
            raise Unsupported(str(error)) from error
        except (TypeError, AttributeError) as error:
            raise Unsupported(f"an argument of an unexpected kind ({error})") from error
        self.values[node] = made if several else made[0]

    def _item(self, node):
        value = self.values[node.args[0]][node.args[1]]
        if value is None and node.users:
            raise Unsupported(f"result {node.args[1]} of {node.args[0].target}")
        return value

    def _checked(self, value, val):
        """The value with PyTorch's element type. A result of another shape would be a defect here."""
        if value is None or not is_tensor(val):
            return value
        value = self.builder.cast(value, name_of(val.dtype))
        shape = dims.shape(val)
        same = len(shape) == value.rank and all(
            a == b for a, b in zip(shape, value.shape) if isinstance(a, int) and isinstance(b, int)
        )
        if not same:
            raise Unsupported(f"a translation that gives {list(value.shape)} instead of {shape}")
        return value

    def argument(self, a):
        """An argument of a node as translations take it."""
        if isinstance(a, torch.fx.Node):
            return self._node_argument(a)
        if isinstance(a, (list, tuple)):
            return [self.argument(x) for x in a]
        if isinstance(a, complex):
            raise Unsupported("complex numbers")
        if isinstance(a, torch.SymInt):
            return self._size(a)
        if isinstance(a, (torch.SymFloat, torch.SymBool)):
            raise Unsupported("a number that depends on sizes")
        return a

    def _node_argument(self, node):
        if node in self.values:
            return self.values[node]
        if node.op == "get_attr":
            return self.constant_of(node)
        val = value_of(node)
        if isinstance(val, _HOST_SIZES):
            return self._size(val)
        if isinstance(val, float):
            return val
        if is_tensor(val):
            name_of(val.dtype)
            raise Unsupported("an operand that is outside and that engines cannot read")
        raise Unsupported(f"an argument that is {type(val).__name__}")

    def _size(self, size):
        self._declare_symbols([size])
        return dims.of(size)

    def constant_of(self, node):
        tensor = attribute_of(self.module, node.target)
        if isinstance(tensor, torch.fx.GraphModule):  # a body of control flow
            return tensor
        self.values[node] = self.builder.constant(real_tensor(tensor), name_of(tensor.dtype))
        return self.values[node]


def inline(module, network, arguments):
    """
    The results of a graph, added to a network that has begun: a list. arguments: a Value for each placeholder that is a
    tensor; what others are, the graph knows.
    """
    importer = Importer(module, network=network)
    values = iter(arguments)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            value = next(values)
            if is_tensor(value_of(node)):
                importer.values[node] = value
        elif node.op == "call_function" and (is_tensor(value_of(node)) or isinstance(value_of(node), (tuple, list))):
            try:
                importer.add_node(node)
            except Unsupported as error:
                raise Unsupported(f"in its body: {node.target}: {error}") from error
        elif node.op == "output":
            results = node.args[0] if isinstance(node.args[0], (tuple, list)) else [node.args[0]]
            return [importer.argument(x) for x in results]
    return []


def host_tensor(tensor):
    """A weight's data as networks take them: themselves where they lie densely in host memory, else a copy."""
    return tensor.detach().cpu().contiguous()


def real_tensor(tensor):
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(tensor, FakeTensor):
        if tensor.constant is None:
            raise Unsupported("a tensor without data")
        tensor = tensor.constant
    return host_tensor(tensor)


def attribute_of(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module


def memory_order(val):
    """
    The axes of a dense tensor from the outermost in memory to the innermost; as they are for one that is not dense, or of
    unknown strides.
    """
    axes = list(range(val.dim()))
    sizes, strides = val.shape, val.stride()
    if any(isinstance(s, torch.SymInt) and not s.node.expr.is_Integer for s in (*sizes, *strides)):
        return _symbolic_order(val) or axes
    order = sorted((a for a in axes if sizes[a] != 1), key=lambda a: -int(strides[a]))
    step = 1
    for axis in reversed(order):
        if strides[axis] != step:
            return axes
        step *= int(sizes[axis])
    if order == sorted(order):
        return axes
    rest = [a for a in axes if sizes[a] == 1]
    return rest + order


def _symbolic_order(val):
    """memory_order where sizes are symbols: some order in which each stride is the product of the sizes after it."""
    import sympy

    def expr(x):
        return x.node.expr if isinstance(x, torch.SymInt) else sympy.Integer(x)

    sizes, strides = [expr(s) for s in val.shape], [expr(s) for s in val.stride()]
    left, order, step = {a for a in range(len(sizes)) if sizes[a] != 1}, [], sympy.Integer(1)
    while left:
        axis = next((a for a in sorted(left, reverse=True) if sympy.expand(strides[a] - step) == 0), None)
        if axis is None:
            return None
        left.remove(axis)
        order.insert(0, axis)
        step *= sizes[axis]
    if order == sorted(order):
        return None
    return [a for a in range(len(sizes)) if sizes[a] == 1] + order


def inverse(order):
    result = [0] * len(order)
    for i, axis in enumerate(order):
        result[axis] = i
    return result
