#!/usr/bin/env python3
"""Random quantised graphs of several operators: the reference evaluator beside ONNX Runtime without its optimisations.

Each graph quantises its input and computes on what is dequantised, as quantisers write it, or by the operators on bytes. Every
quantised value is a result of the graph. Where one differs, what was quantised is compared: it is the same number (then one of the
two is wrong), or one that was summed up or rounded in another order, with a tie between the two; what is computed from a value
that differs is left out. NaN, which ONNX leaves open, stays NaN in Ingot's maxima; ONNX Runtime's windows skip it.

    bench/random_quantised.py --first 0 --graphs 1000

needs ONNX Runtime, onnx, NumPy and Ingot's Python package. docs/quantisation.md says what is expected. ONNX Runtime adds products of u8
by i8 in 16 bits on processors without VNNI, where they saturate, and what switches that off is an optimisation: so operators on bytes
get weights of u8.
"""
import argparse
import collections
import sys
import time

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import ingot

AT_ONCE = 16  # graphs of a model
KNOWN = ("graphs", "values", "elements", "different", "behind")  # what is counted besides differences
SCALES = (0.5, 0.25, 0.1, 0.0371, 1, 0.7231, 2.3, 0.003)  # some make ties
TYPES = {
    T.UINT8: (np.uint8, 0, 255), T.INT8: (np.int8, -128, 127), T.UINT16: (np.uint16, 0, 65535),
    T.INT16: (np.int16, -32768, 32767), T.INT4: (ml_dtypes.int4, -8, 7), T.UINT4: (ml_dtypes.uint4, 0, 15),
    T.FLOAT8E4M3FN: (ml_dtypes.float8_e4m3fn, 0, 0), T.FLOAT8E5M2: (ml_dtypes.float8_e5m2, 0, 0)}
BYTES = (T.UINT8, T.INT8)


class Value:
    """A tensor: quantised ones have a scale and a zero point; `behind` are the results that it is computed from."""

    def __init__(self, name, shape, behind=frozenset(), dtype=T.FLOAT, scale=None, zero=None, rounded=False):
        self.name, self.shape, self.behind, self.dtype = name, tuple(shape), behind, dtype
        self.scale, self.zero, self.rounded = scale, zero, rounded


def centre(at, q):
    """Bytes less their zero point, exactly."""
    return at[q.name].astype(np.float64) - q.zero


def factor(a, b, result):
    return np.float64(a) * np.float64(b) / np.float64(result)


class Graph:
    def __init__(self, seed):
        self.prefix, self.r = f"g{seed}_", np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.feeds, self.results, self.count = [], [], [], {}, [], 0
        self.build()

    # ---- Writing

    def pick(self, n):
        return int(self.r.integers(n))

    def name(self):
        self.count += 1
        return f"{self.prefix}{self.count}"

    def constant(self, array):
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.asarray(array), name) if not isinstance(array, onnx.TensorProto) else array)
        return name

    def typed(self, dtype, numbers):
        """A constant of a narrow type."""
        return self.constant(np.asarray(numbers).astype(TYPES[dtype][0]))

    def node(self, op, inputs, shape, behind, domain="", dtype=T.FLOAT, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        v = Value(names[0], shape, behind, dtype)
        v.more = names[1:]
        return v

    def keep(self, v, what, before):
        """Makes a quantised value a result; `before`: the value that was quantised, if there is one."""
        v.behind = v.behind | {len(self.results)}
        shown = v
        if TYPES.get(v.dtype, (np.int32,))[0].__module__.startswith("ml_dtypes"):  # ONNX Runtime gives NumPy no such results
            shown = self.node("Cast", [v.name], v.shape, v.behind, to=T.FLOAT)
            shown.scale, shown.zero = v.scale, v.zero
        self.results.append((shown, what, before))
        return v

    # ---- Quantising

    def scale(self):
        return np.float32(SCALES[self.pick(len(SCALES))] if self.pick(3) else self.r.uniform(0.01, 2))

    def zero(self, dtype):
        _, low, high = TYPES[dtype]
        if dtype not in BYTES:
            return 0
        return (0, low, high, 114 + low, 131 + low, 128 + low)[self.pick(6)]

    def quantized(self, x, dtype=None):
        form = None if dtype else (None, None, None, "axis", "block")[self.pick(5)]
        dtype = dtype or (list(TYPES)[self.pick(len(TYPES))] if self.pick(5) == 0 else BYTES[self.pick(2)])
        scale, zero, how = self.scale(), self.zero(dtype), {}
        if form:  # numbers of their own along an axis, or for each block of one
            axis, block = self.pick(len(x.shape)), 1 + self.pick(4)
            shape = [-(-size // block) if i == axis else size for i, size in enumerate(x.shape)]
            shape = shape if form == "block" else (x.shape[axis],)
            scale, zero = np.full(shape, scale) * self.r.choice([0.5, 1, 1.37], shape).astype(np.float32), np.full(shape, zero)
            how = {"axis": axis, "block_size": block} if form == "block" else {"axis": axis}
        names = [x.name, self.constant(scale), self.typed(dtype, zero)]
        v = self.node("QuantizeLinear", names, x.shape, x.behind, dtype=dtype, **how)
        v.scale, v.zero, v.names, v.how = scale, zero, names[1:], how
        return self.keep(v, f"QuantizeLinear to {T.DataType.Name(dtype).lower()}", x)

    def dequantized(self, q):
        v = self.node("DequantizeLinear", [q.name, *q.names], q.shape, q.behind, **q.how)
        v.rounded, v.of = True, q
        return v

    def trip(self, x, dtype=None):
        return self.dequantized(self.quantized(x, dtype))

    def settled(self, x, dtype=None):
        return x if x.rounded else self.trip(x, dtype)

    def weight(self, shape, axis):
        """Dequantised, by channel or not."""
        dtype = T.INT8 if self.pick(4) else T.UINT8
        by_channel = self.pick(2)
        count = shape[axis] if by_channel else 1
        scale = self.r.uniform(0.005, 0.02, count).astype(np.float32) if self.pick(2) else np.full(count, 1 / 128, np.float32)
        zero = np.full(count, 0 if dtype == T.INT8 else 128)
        _, low, high = TYPES[dtype]
        q = self.typed(dtype, self.r.integers(low, high + 1, shape))
        if not by_channel:
            scale, zero = scale[0], zero[0]
        v = self.node("DequantizeLinear", [q, self.constant(scale), self.typed(dtype, zero)], shape, frozenset(),
                      **({"axis": axis} if by_channel else {}))
        v.scale = scale
        return v

    # ---- Steps: from values to a value

    def conv(self, x):
        if len(x.shape) != 4:
            return None
        x = self.settled(x, BYTES[self.pick(2)])
        n, c, h, w = x.shape
        kernel, stride = (3, 1)[self.pick(2)], 1 + self.pick(2)
        groups = c if self.pick(3) == 0 else 1
        m = c if groups > 1 else 1 + self.pick(12)
        weight = self.weight((m, c // groups, kernel, kernel), 0)
        inputs = [x.name, weight.name]
        if self.pick(2):
            bias = self.constant(self.r.integers(-2000, 2000, m).astype(np.int32))
            scale = np.broadcast_to(np.float32(0.01) * weight.scale, (m,)).astype(np.float32)
            inputs.append(self.node("DequantizeLinear", [bias, self.constant(scale)], (m,), frozenset(), axis=0).name)
        out = [(size - 1) // stride + 1 for size in (h, w)]
        return self.node("Conv", inputs, (n, m, *out), x.behind, group=groups, strides=[stride] * 2, pads=[kernel // 2] * 4)

    def matmul(self, x):
        x = self.settled(x, BYTES[self.pick(2)])
        m = 1 + self.pick(16)
        weight = self.weight((x.shape[-1], m), 1)
        return self.node("MatMul", [x.name, weight.name], (*x.shape[:-1], m), x.behind)

    def unary(self, x):
        op = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip", "Abs", "Neg", "HardSigmoid", "Sqrt")[self.pick(9)]
        inputs = [x.name]
        if op == "Clip":
            inputs += [self.constant(np.float32(0)), self.constant(np.float32(6))]
        return self.node(op, inputs, x.shape, x.behind)

    def binary(self, x):
        alike = [v for v in self.values if v.shape == x.shape]
        y = alike[self.pick(len(alike))]
        return self.node(("Add", "Add", "Sub", "Mul")[self.pick(4)], [x.name, y.name], x.shape, x.behind | y.behind)

    def concat(self, x):
        alike = [v for v in self.values if v.shape == x.shape]
        y = alike[self.pick(len(alike))]
        shape = (x.shape[0], 2 * x.shape[1], *x.shape[2:])
        return self.node("Concat", [x.name, y.name], shape, x.behind | y.behind, axis=1)

    def pool(self, x):
        if len(x.shape) != 4 or min(x.shape[2:]) < 2:
            return None
        x = self.settled(x)
        n, c, h, w = x.shape
        op = ("MaxPool", "AveragePool", "GlobalAveragePool")[self.pick(3)]
        if op == "GlobalAveragePool":
            return self.node(op, [x.name], (n, c, 1, 1), x.behind)
        return self.node(op, [x.name], (n, c, h - 1, w - 1), x.behind, kernel_shape=[2, 2])

    def mean(self, x):
        x = self.settled(x)
        axes = self.constant(np.array([len(x.shape) - 1]))
        return self.node("ReduceMean", [x.name, axes], (*x.shape[:-1], 1), x.behind, keepdims=1)

    def move(self, x):
        rank = len(x.shape)
        if self.pick(2):
            perm = [*range(rank - 2), rank - 1, rank - 2]
            return self.node("Transpose", [x.name], [x.shape[i] for i in perm], x.behind, perm=perm)
        shape = (x.shape[0], x.shape[1], int(np.prod(x.shape[2:])))
        return self.node("Reshape", [x.name, self.constant(np.array(shape))], shape, x.behind)

    def softmax(self, x):
        return self.node("Softmax", [self.settled(x).name], x.shape, x.behind, axis=-1)

    # ---- On bytes

    def bytes_of(self, x, types=(T.UINT8,)):
        x = self.settled(x, types[self.pick(len(types))])
        q = getattr(x, "of", None)
        return q if q and q.dtype in types and not q.how else self.quantized(x, types[self.pick(len(types))])

    def byte_weight(self, shape):
        """The bytes and their zero point, by name, and what they stand for."""
        w, zero = self.r.integers(0, 256, shape), (128, 120)[self.pick(2)]
        return self.typed(T.UINT8, w), self.typed(T.UINT8, zero), (w - zero).astype(np.float64)

    def result(self, v, q_scale, q_zero, dtype, names, what):
        v.scale, v.zero, v.names, v.dtype, v.how = q_scale, q_zero, names, dtype, {}
        return self.dequantized(self.keep(v, what, None))

    def new_scale(self, dtype):
        scale, zero = self.scale(), self.zero(dtype)
        return scale, zero, [self.constant(scale), self.typed(dtype, zero)]

    def qlinear_matmul(self, x):
        q = self.bytes_of(x)
        m = 1 + self.pick(16)
        w, middle, centred = self.byte_weight((q.shape[-1], m))
        scale, zero, names = self.new_scale(q.dtype)
        v = self.node("QLinearMatMul", [q.name, *q.names, w, self.constant(np.float32(0.01)), middle, *names],
                      (*q.shape[:-1], m), q.behind)
        v.quotient = lambda at: centre(at, q) @ centred * factor(q.scale, np.float32(0.01), scale)
        return self.result(v, scale, zero, q.dtype, names, "QLinearMatMul")

    def qlinear_conv(self, x):
        if len(x.shape) != 4:
            return None
        q = self.bytes_of(x)
        n, c, h, w = q.shape
        m = 1 + self.pick(12)
        weight, middle, centred = self.byte_weight((m, c, 3, 3))
        scale, zero, names = self.new_scale(q.dtype)
        w_scale, bias = np.float32(self.r.uniform(0.005, 0.02)), np.zeros(m, np.int32)
        inputs = [q.name, *q.names, weight, self.constant(w_scale), middle, *names]
        if self.pick(2):
            bias = self.r.integers(-2000, 2000, m).astype(np.int32)
            inputs.append(self.constant(bias))
        v = self.node("QLinearConv", inputs, (n, m, h, w), q.behind, pads=[1] * 4)

        def quotient(at):
            windows = np.lib.stride_tricks.sliding_window_view(np.pad(centre(at, q), ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
            return (np.einsum("nchwij,mcij->nmhw", windows, centred) + bias[:, None, None]) * factor(q.scale, w_scale, scale)

        v.quotient = quotient
        return self.result(v, scale, zero, q.dtype, names, "QLinearConv")

    def qlinear_binary(self, x):
        a = self.bytes_of(x, BYTES)
        alike = [v.of for v in self.values if v.shape == a.shape and getattr(v, "of", None) and v.of.dtype == a.dtype and not v.of.how]
        b = alike[self.pick(len(alike))] if alike else a
        scale, zero, names = self.new_scale(a.dtype)
        op = ("QLinearAdd", "QLinearMul")[self.pick(2)]
        v = self.node(op, [a.name, *a.names, b.name, *b.names, *names], a.shape, a.behind | b.behind, "com.microsoft")
        if op == "QLinearAdd":
            v.quotient = lambda at: (centre(at, a) * a.scale + centre(at, b) * b.scale) / np.float64(scale)
        else:
            v.quotient = lambda at: centre(at, a) * centre(at, b) * factor(a.scale, b.scale, scale)
        return self.result(v, scale, zero, a.dtype, names, op)

    def integer_matmul(self, x):
        q = self.bytes_of(x)
        m = 1 + self.pick(16)
        w, middle, _ = self.byte_weight((q.shape[-1], m))
        v = self.node("MatMulInteger", [q.name, w, q.names[1], middle], (*q.shape[:-1], m), q.behind, dtype=T.INT32)
        self.keep(v, "MatMulInteger", None)
        f = self.node("Cast", [v.name], v.shape, v.behind, to=T.FLOAT)
        return self.node("Mul", [f.name, self.constant(np.float32(q.scale * np.float32(0.01)))], v.shape, f.behind)

    def dynamic(self, x):
        x = self.dequantized(self.bytes_of(x, BYTES))  # of NaN nothing is defined
        v = self.node("DynamicQuantizeLinear", [x.name], x.shape, x.behind, dtype=T.UINT8, outputs=3)
        self.keep(v, "DynamicQuantizeLinear", None)
        f = self.node("DequantizeLinear", [v.name, *v.more], x.shape, v.behind)
        f.rounded = True
        return f

    # ---- The graph

    def build(self):
        r = self.r
        shape = (1 + self.pick(2), 1 + self.pick(6), 3 + self.pick(5), 3 + self.pick(5))
        x = Value(self.name(), shape)
        self.inputs.append(helper.make_tensor_value_info(x.name, T.FLOAT, shape))
        data = r.normal(0, 1, shape).astype(np.float32) * np.float32(10.0 ** r.integers(-2, 3))
        if self.pick(2):  # many ties
            data = (np.round(data) * np.float32(SCALES[self.pick(len(SCALES))] / 2)).astype(np.float32)
        if self.pick(8) == 0:
            special = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-40, -0.0, 1e10], np.float32)
            data = np.where(r.integers(0, 6, shape) == 0, special[r.integers(0, 8, shape)], data)
        self.feeds[x.name] = data
        x = self.trip(x, BYTES[self.pick(2)])
        self.values = [x]
        steps = [self.conv, self.conv, self.matmul, self.unary, self.unary, self.binary, self.binary, self.concat, self.pool,
                 self.mean, self.move, self.softmax, self.qlinear_matmul, self.qlinear_conv, self.qlinear_binary,
                 self.integer_matmul, self.dynamic]
        for _ in range(2 + self.pick(6)):
            x = self.values[-1 - self.pick(min(2, len(self.values)))]
            y = steps[self.pick(len(steps))](x)
            if y is None or np.prod(y.shape) > 3000:
                continue
            self.values.append(y if y.rounded or self.pick(8) == 0 else self.trip(y))
        if not self.values[-1].rounded:
            self.trip(self.values[-1])


def run(graphs):
    """The results of both, by name: quantised values and what was quantised."""
    wanted = {}
    for g in graphs:
        for v, _, before in g.results:
            wanted[v.name] = v.dtype
            if before is not None and before.name not in g.feeds:
                wanted[before.name] = T.FLOAT
    shapes = {v.name: v.shape for g in graphs for r in g.results for v in (r[0], r[2]) if v is not None}
    outputs = [helper.make_tensor_value_info(n, d, shapes[n]) for n, d in wanted.items()]
    graph = helper.make_graph(sum((g.nodes for g in graphs), []), "random", sum((g.inputs for g in graphs), []), outputs,
                              sum((g.weights for g in graphs), []))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    feeds = {k: v for g in graphs for k, v in g.feeds.items()}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    theirs = dict(zip(wanted, session.run(list(wanted), feeds)))
    model = ingot.Model(data)
    tensors = model.evaluate(*[feeds[i.name] for i in model.inputs])
    return feeds, theirs, {info.name: np.asarray(t) for info, t in zip(model.outputs, tensors)}


def compare(g, feeds, theirs, ours, counts, verbose):
    different = set()
    for at, (v, what, before) in enumerate(g.results):
        if v.behind - {at} & different:
            counts["behind"] += 1
            different.add(at)
            continue
        a, b = ours[v.name], theirs[v.name]
        counts["values"] += 1
        counts["elements"] += a.size
        a64, b64 = a.astype(np.float64), b.astype(np.float64)
        wrong = ~((a64 == b64) | (np.isnan(a64) & np.isnan(b64)))
        if not wrong.any():
            continue
        different.add(at)
        counts["different"] += int(wrong.sum())
        kind = explain(v, what, before, wrong, a64, b64, feeds, theirs, ours)
        for name, n in kind.items():
            counts[name] += n
        if verbose or any(not name.startswith("tie") for name in kind):
            first = np.argwhere(wrong)[0]
            print(f"{v.name} ({what}, scale {np.ravel(v.scale)[:4]}, zero {np.ravel(v.zero)[:4]}): {dict(kind)}; at {first}: {a[tuple(first)]}, "
                  f"ONNX Runtime {b[tuple(first)]}")


def explain(v, what, before, wrong, a, b, feeds, theirs, ours):
    kind = collections.Counter()
    if before is None:
        near = np.abs(a - b)[wrong] <= 1
        if hasattr(v, "quotient"):
            q = v.quotient(ours)[wrong]
            near &= np.abs(np.abs(q - np.floor(q)) - 0.5) <= 1e-6 * np.maximum(np.abs(q), 1)
        else:
            near &= False
        kind[f"tie of {what}"] += int(near.sum())
        kind[f"{what} is another"] += int((~near).sum())
        return collections.Counter({k: n for k, n in kind.items() if n})
    if before.name in feeds:
        kind["the same number quantised otherwise"] += int(wrong.sum())
        return kind
    x, y = (r[before.name][wrong].astype(np.float64) for r in (ours, theirs))
    size = np.abs(ours[before.name].astype(np.float64))
    largest = np.max(size, where=np.isfinite(size), initial=0)
    same, lost = x == y, np.isnan(x) != np.isnan(y)
    close = np.abs(x - y) <= 1e-5 * largest
    kind["the same number quantised otherwise"] += int(same.sum())
    kind["tie between two sums"] += int((~same & close).sum())
    kind["NaN, which its maximum leaves out"] += int(lost.sum())
    kind["other numbers"] += int((~same & ~close & ~lost).sum())
    return collections.Counter({k: n for k, n in kind.items() if n})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first graph's number")
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--verbose", action="store_true", help="show ties too")
    args = parser.parse_args()
    counts, begin = collections.Counter(), time.monotonic()
    for at in range(0, args.graphs, AT_ONCE):
        graphs = [Graph(args.first + i) for i in range(at, min(at + AT_ONCE, args.graphs))]
        try:
            together = run(graphs)
            for g in graphs:
                compare(g, *together, counts, args.verbose)
            counts["graphs"] += len(graphs)
        except Exception:  # one of them: each by itself
            for g in graphs:
                try:
                    compare(g, *run([g]), counts, args.verbose)
                    counts["graphs"] += 1
                except Exception as error:
                    counts["not run"] += 1
                    print(f"{g.prefix}: {str(error).splitlines()[0][:300]}")
        if at // AT_ONCE % 64 == 63 or at + AT_ONCE >= args.graphs:
            print(f"{time.monotonic() - begin:.0f} s: {dict(counts)}", flush=True)
    return 1 if any(not k.startswith(("tie", "NaN")) for k in counts if k not in KNOWN) else 0


if __name__ == "__main__":
    sys.exit(main())
