#!/usr/bin/env python3
"""Writes networks of repeated parts, with random weights (seeded), as ONNX files.

    networks.py encoder OUT.onnx [--layers 24] [--hidden 768] [--heads 12] [--inner 3072] [--classes 0]
    networks.py mixture OUT.onnx [--blocks 1] [--experts 8] [--hidden 4096] [--inner 14336] [--heads 32] [--top 2]
    networks.py twin MODEL.onnx OUT.onnx [--classes 5]

encoder: a BERT encoder, with or without a classification head. mixture: decoder blocks as in Mixtral or Qwen-MoE, RMS
norms, attention, and a mixture of gated experts: a router takes the best `top` of them for each token. Each expert
computes all tokens, weighted by the router, as graphs without data-dependent shapes do. twin: the same structure with
other weights and another head, as fine-tuning leaves it. Needs onnx and numpy. Weights of more than a kilobyte lie in
OUT.onnx.data.
"""
import argparse
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Maker:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.path = [], [], []

    def weight(self, name, *shape, ones=False):
        name = ".".join(self.path + [name])
        values = self.random.standard_normal(shape, dtype=np.float32) * np.float32(0.02 if len(shape) > 1 else 0.1)
        self.weights.append(numpy_helper.from_array(values + np.float32(1) if ones else values, name))
        return name

    def constant(self, name, value):
        if not any(w.name == name for w in self.weights):
            self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, kind, *inputs, name=None, **attributes):
        name = "/" + "/".join(self.path + [name or kind])
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=name, **attributes))
        return out

    def linear(self, x, name, n_in, n_out, bias=True):
        self.path.append(name)
        y = self.op("MatMul", x, self.weight("weight", n_in, n_out))
        if bias:
            y = self.op("Add", y, self.weight("bias", n_out))
        self.path.pop()
        return y

    def heads(self, x, heads, size):
        shape = self.constant(f"heads_{heads}_{size}", np.array([0, 0, heads, size], np.int64))
        return self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def attention(self, x, hidden, heads, mask=None, bias=True):
        size = hidden // heads
        q, k, v = (self.heads(self.linear(x, n, hidden, hidden, bias), heads, size) for n in ("query", "key", "value"))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.constant(f"scale_{size}", np.float32(size ** -0.5)))
        if mask:
            scores = self.op("Add", scores, mask)
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        y = self.op("Transpose", y, perm=[0, 2, 1, 3])
        y = self.op("Reshape", y, self.constant(f"joined_{hidden}", np.array([0, 0, hidden], np.int64)))
        return self.linear(y, "output", hidden, hidden, bias)

    def layer_norm(self, x, name, hidden):
        self.path.append(name)
        y = self.op("LayerNormalization", x, self.weight("weight", hidden, ones=True), self.weight("bias", hidden),
                    axis=-1, epsilon=1e-12)
        self.path.pop()
        return y

    def rms_norm(self, x, name, hidden):
        self.path.append(name)
        square = self.op("Mul", x, x)
        mean = self.op("ReduceMean", square, self.constant("last", np.array([-1], np.int64)), keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, self.constant("epsilon", np.float32(1e-5))))
        y = self.op("Mul", self.op("Div", x, root), self.weight("weight", hidden, ones=True))
        self.path.pop()
        return y

    def save(self, path, inputs, outputs):
        graph = helper.make_graph(self.nodes, "network", inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        save(model, path)


def save(model, path):
    """Large weights beside the model, small models in one file."""
    data = os.path.basename(path) + ".data"
    if os.path.exists(path + ".data"):
        os.remove(path + ".data")
    large = sum(len(w.raw_data) for w in model.graph.initializer) > 1 << 20
    onnx.save(model, path, save_as_external_data=large, location=data if large else None, size_threshold=1024)


def tensor(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, list(shape))


def gelu(m, x):
    half = m.op("Mul", x, m.constant("half", np.float32(0.5)))
    erf = m.op("Erf", m.op("Div", x, m.constant("root_2", np.float32(2 ** 0.5))))
    return m.op("Mul", half, m.op("Add", erf, m.constant("one", np.float32(1))))


def encoder(a):
    m = Maker(a.seed)
    x = "x"
    mask = m.op("Mul", m.op("Sub", m.constant("one", np.float32(1)), "mask"), m.constant("low", np.float32(-1e9)))
    for layer in range(a.layers):
        m.path = ["encoder", f"layer.{layer}", "attention"]
        x = m.layer_norm(m.op("Add", m.attention(x, a.hidden, a.heads, mask), x), "norm", a.hidden)
        m.path = ["encoder", f"layer.{layer}", "mlp"]
        y = m.linear(gelu(m, m.linear(x, "up", a.hidden, a.inner)), "down", a.inner, a.hidden)
        x = m.layer_norm(m.op("Add", y, x), "norm", a.hidden)
    m.path = ["head"]
    shape = [a.hidden]
    if a.classes:
        x = m.op("Gather", x, m.constant("first", np.int64(0)), axis=1)
        x = m.linear(m.op("Tanh", m.linear(x, "pooler", a.hidden, a.hidden)), "classifier", a.hidden, a.classes)
        shape = [a.classes]
    m.nodes[-1].output[0] = "y"
    m.save(a.out, [tensor("x", TensorProto.FLOAT, "batch", "length", a.hidden),
                   tensor("mask", TensorProto.FLOAT, "batch", 1, 1, "length")],
           [tensor("y", TensorProto.FLOAT, "batch", *(["length"] if not a.classes else []), *shape)])


def mixture(a):
    m = Maker(a.seed)
    x = "x"
    for block in range(a.blocks):
        m.path = [f"layers.{block}", "attention"]
        h = m.rms_norm(x, "norm", a.hidden)
        x = m.op("Add", m.attention(h, a.hidden, a.heads, bias=False), x)
        x = m.op("Add", experts(m, a, x, f"layers.{block}"), x)
    m.nodes[-1].output[0] = "y"
    shape = ["batch", "length", a.hidden]
    m.save(a.out, [tensor("x", TensorProto.FLOAT, *shape)], [tensor("y", TensorProto.FLOAT, *shape)])


def experts(m, a, x, block):
    m.path = [block, "mixture"]
    h = m.rms_norm(x, "norm", a.hidden)
    chances = m.op("Softmax", m.linear(h, "gate", a.hidden, a.experts, bias=False), axis=-1)
    best, which = f"best{block}", f"which{block}"
    m.nodes.append(helper.make_node("TopK", [chances, m.constant("top", np.array([a.top], np.int64))], [best, which],
                                    name=f"/{block}/mixture/TopK", axis=-1))
    best = m.op("Div", best, m.op("ReduceSum", best, m.constant("last", np.array([-1], np.int64)), keepdims=1))
    total = None
    for e in range(a.experts):
        m.path = [block, "mixture", f"experts.{e}"]
        chosen = m.op("Equal", which, m.constant(f"expert_{e}", np.int64(e)))
        share = m.op("Where", chosen, best, m.constant("zero", np.float32(0)))
        share = m.op("ReduceSum", share, m.constant("last", np.array([-1], np.int64)), keepdims=1)
        gate = m.linear(h, "w1", a.hidden, a.inner, bias=False)
        gate = m.op("Mul", gate, m.op("Sigmoid", gate))
        y = m.op("Mul", gate, m.linear(h, "w3", a.hidden, a.inner, bias=False))
        y = m.op("Mul", m.linear(y, "w2", a.inner, a.hidden, bias=False), share)
        total = m.op("Add", total, y) if total else y
    m.path = [block]
    return total


def twin(a):
    """Other values for all float weights; the last matrix product and its bias get another number of results."""
    model = onnx.load(a.model)
    random = np.random.default_rng(a.seed + 1)
    weights = {w.name: w for w in model.graph.initializer}
    head = [n for n in model.graph.node if n.op_type in ("MatMul", "Gemm") and n.input[1] in weights][-1]
    old = [d for d in weights[head.input[1]].dims][-1 if head.op_type == "MatMul" else 0]
    after = list(model.graph.node)[list(model.graph.node).index(head):]
    read = {i for n in after for i in n.input}
    for name, w in weights.items():
        if w.data_type != TensorProto.FLOAT or len(w.dims) == 0:
            continue
        shape = [a.classes if name in read and a.classes and d == old else d for d in w.dims]
        values = numpy_helper.to_array(w)
        new = random.standard_normal(shape, dtype=np.float32) * np.float32(values.std()) + np.float32(values.mean())
        w.CopyFrom(numpy_helper.from_array(new, name))
    for out in model.graph.output:
        for d in out.type.tensor_type.shape.dim:
            if a.classes and d.dim_value == old:
                d.dim_value = a.classes
    save(model, a.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for make, sizes in ((encoder, dict(layers=24, hidden=768, heads=12, inner=3072, classes=0)),
                        (mixture, dict(blocks=1, experts=8, hidden=4096, inner=14336, heads=32, top=2)), (twin, dict(classes=5))):
        command = commands.add_parser(make.__name__)
        command.set_defaults(make=make)
        if make is twin:
            command.add_argument("model")
        command.add_argument("out")
        for name, value in dict(sizes, seed=0).items():
            command.add_argument("--" + name, type=int, default=value)
    a = parser.parse_args()
    a.make(a)


if __name__ == "__main__":
    main()
