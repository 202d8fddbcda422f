#!/usr/bin/env python3
"""Writes networks of repeated parts, with random weights (seeded), as ONNX files.

    networks.py encoder OUT.onnx [--layers 24] [--hidden 768] [--heads 12] [--inner 3072] [--classes 0]
    networks.py mixture OUT.onnx [--blocks 1] [--experts 8] [--hidden 4096] [--inner 14336] [--heads 32] [--top 2]
    networks.py decoder OUT.onnx [--layers 32] [--hidden 4096] [--heads 32] [--inner 11008] [--words 32000] [--bits 16]
    networks.py resnet OUT.onnx [--layers 50] [--classes 1000]
    networks.py twin MODEL.onnx OUT.onnx [--classes 5]

encoder: a BERT encoder, with or without a classification head. mixture: decoder blocks as in Mixtral or Qwen-MoE, RMS
norms, attention, and a mixture of gated experts: a router takes the best `top` of them for each token. Each expert
computes all tokens, weighted by the router, as graphs without data-dependent shapes do. decoder: Llama 2 (by default of 7B)
reading a prompt, in float16 or float32; its weights are made by all processors and never all in memory. resnet: ResNet-50,
-101 or -152. twin: the same structure with other weights and another head, as fine-tuning leaves it. Needs onnx and numpy.
Weights of more than a kilobyte lie in OUT.onnx.data.
"""
import argparse
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Maker:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.path, self.uses = [], [], [], {}

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
        self.uses[name] = self.uses.get(name, 0) + 1
        if self.uses[name] > 1:
            name += f"_{self.uses[name]}"
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


class LargeMaker(Maker):
    """Weights are written when the model is saved, in slabs of random numbers whose seeds are their places."""
    slab = 1 << 22  # elements

    def __init__(self, seed, bits):
        super().__init__(seed)
        self.seed, self.type = seed, TensorProto.FLOAT16 if bits == 16 else TensorProto.FLOAT
        self.dtype, self.end, self.data = np.dtype(f"float{bits}"), 0, []

    def weight(self, name, *shape, ones=False):
        name = ".".join(self.path + [name])
        count = int(np.prod(shape))
        w = TensorProto(name=name, data_type=self.type, dims=shape, data_location=TensorProto.EXTERNAL)
        self.data.append((self.end, count, 1 if ones else 0, 0.02 if len(shape) > 1 else 0.1, w))
        self.end += (count * self.dtype.itemsize + 63) // 64 * 64
        self.weights.append(w)
        return name

    def fill(self, file, offset, count, mean, deviation):
        values = np.random.default_rng((self.seed, offset)).standard_normal(count, dtype=np.float32)
        values = (values * np.float32(deviation) + np.float32(mean)).astype(self.dtype)
        os.pwrite(file, values.tobytes(), offset)

    def save(self, path, inputs, outputs):
        for offset, count, _, _, w in self.data:
            for key, value in (("location", os.path.basename(path) + ".data"), ("offset", offset),
                               ("length", count * self.dtype.itemsize)):
                w.external_data.add(key=key, value=str(value))
        graph = helper.make_graph(self.nodes, "network", inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        file = os.open(path + ".data", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(self.fill, file, offset + at * self.dtype.itemsize, min(self.slab, count - at), mean, by)
                    for offset, count, mean, by, _ in self.data for at in range(0, count, self.slab)]
            for job in jobs:
                job.result()
        os.close(file)

    def cast(self, x, kind):
        return self.op("Cast", x, to=kind)

    def rms_norm(self, x, name, hidden):
        self.path.append(name)
        x = self.cast(x, TensorProto.FLOAT)
        mean = self.op("ReduceMean", self.op("Mul", x, x), self.constant("last", np.array([-1], np.int64)), keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, self.constant("epsilon", np.float32(1e-5))))
        y = self.cast(self.op("Div", x, root), self.type)
        y = self.op("Mul", self.weight("weight", hidden, ones=True), y)
        self.path.pop()
        return y


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


def positions(m, ids, size):
    """Cosines and sines of the rotary embedding, [length, size], and a mask, [length, length], that hides what comes later."""
    length = m.op("Gather", m.op("Shape", ids), m.constant("one", np.int64(1)))
    place = m.op("Range", m.constant("zero", np.int64(0)), length, m.constant("one", np.int64(1)))
    across = m.op("Unsqueeze", place, m.constant("front", np.array([0], np.int64)))
    down = m.op("Unsqueeze", place, m.constant("back", np.array([1], np.int64)))
    speeds = (1e4 ** (-np.arange(0, size, 2, dtype=np.float32) / np.float32(size))).reshape(1, -1)
    angle = m.op("Mul", m.cast(down, TensorProto.FLOAT), m.constant("speeds", speeds))
    angle = m.op("Concat", angle, angle, axis=-1)
    mask = m.op("Where", m.op("LessOrEqual", across, down), m.constant("seen", np.float32(0)),
                m.constant("hidden", np.float32(-1e9)))
    return m.cast(m.op("Cos", angle), m.type), m.cast(m.op("Sin", angle), m.type), mask


def rotated(m, x, size, cos, sin):
    def part(begin, end):
        return m.op("Slice", x, *(m.constant(f"at_{i}", np.array([i], np.int64)) for i in (begin, end, 3)))
    turned = m.op("Concat", m.op("Neg", part(size // 2, size)), part(0, size // 2), axis=-1)
    return m.op("Add", m.op("Mul", x, cos), m.op("Mul", turned, sin))


def decoder(a):
    m = LargeMaker(a.seed, a.bits)
    size = a.hidden // a.heads
    m.path = ["model"]
    x = m.op("Gather", m.weight("embed_tokens.weight", a.words, a.hidden), "input_ids")
    cos, sin, mask = positions(m, "input_ids", size)
    scale = m.constant("scale", np.asarray(size ** -0.5, np.float32))
    for layer in range(a.layers):
        m.path = ["model", f"layers.{layer}"]
        h = m.rms_norm(x, "input_layernorm", a.hidden)
        m.path = ["model", f"layers.{layer}", "self_attn"]
        q, k, v = (m.heads(m.linear(h, n, a.hidden, a.hidden, bias=False), a.heads, size)
                   for n in ("q_proj", "k_proj", "v_proj"))
        q, k = rotated(m, q, size, cos, sin), rotated(m, k, size, cos, sin)
        scores = m.cast(m.op("MatMul", q, m.op("Transpose", k, perm=[0, 1, 3, 2])), TensorProto.FLOAT)
        scores = m.op("Add", m.op("Mul", scores, scale), mask)
        y = m.op("MatMul", m.cast(m.op("Softmax", scores, axis=-1), m.type), v)
        y = m.op("Transpose", y, perm=[0, 2, 1, 3])
        y = m.op("Reshape", y, m.constant("joined", np.array([0, 0, a.hidden], np.int64)))
        x = m.op("Add", x, m.linear(y, "o_proj", a.hidden, a.hidden, bias=False))
        m.path = ["model", f"layers.{layer}"]
        h = m.rms_norm(x, "post_attention_layernorm", a.hidden)
        m.path = ["model", f"layers.{layer}", "mlp"]
        gate = m.linear(h, "gate_proj", a.hidden, a.inner, bias=False)
        y = m.op("Mul", m.op("Mul", gate, m.op("Sigmoid", gate)), m.linear(h, "up_proj", a.hidden, a.inner, bias=False))
        x = m.op("Add", x, m.linear(y, "down_proj", a.inner, a.hidden, bias=False))
    m.path = ["model"]
    x = m.rms_norm(x, "norm", a.hidden)
    m.path = []
    m.linear(x, "lm_head", a.hidden, a.words, bias=False)
    m.nodes[-1].output[0] = "logits"
    m.save(a.out, [tensor("input_ids", TensorProto.INT64, "batch", "length")],
           [tensor("logits", m.type, "batch", "length", a.words)])


def resnet(a):
    m = Maker(a.seed)

    def conv(x, name, n_in, n_out, kernel, stride=1, relu=True):
        m.path = [name]
        w = m.weight("weight", n_out, n_in, kernel, kernel)
        y = m.op("Conv", x, w, m.weight("bias", n_out), strides=[stride] * 2, pads=[kernel // 2] * 4)
        return m.op("Relu", y) if relu else y

    x = conv("x", "conv1", 3, 64, 7, 2)
    x = m.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, blocks in enumerate({50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}[a.layers]):
        inner = 64 << stage
        for block in range(blocks):
            name, stride = f"layer{stage + 1}.{block}", 2 if stage and not block else 1
            y = conv(conv(x, name + ".conv1", channels, inner, 1), name + ".conv2", inner, inner, 3, stride)
            y = conv(y, name + ".conv3", inner, 4 * inner, 1, relu=False)
            if block == 0:
                x = conv(x, name + ".downsample", channels, 4 * inner, 1, stride, relu=False)
            x = m.op("Relu", m.op("Add", y, x))
            channels = 4 * inner
    m.path = ["fc"]
    x = m.op("Flatten", m.op("GlobalAveragePool", x))
    m.op("Gemm", x, m.weight("weight", a.classes, channels), m.weight("bias", a.classes), transB=1)
    m.nodes[-1].output[0] = "y"
    m.save(a.out, [tensor("x", TensorProto.FLOAT, "batch", 3, 224, 224)],
           [tensor("y", TensorProto.FLOAT, "batch", a.classes)])


def change_head(model, weights, classes):
    """The number of results of the last matrix product, which at most a bias follows; else a product is added."""
    nodes = list(model.graph.node)
    head = [n for n in nodes if n.op_type in ("MatMul", "Gemm") and n.input[1] in weights][-1]
    after = nodes[nodes.index(head):]
    if len(after) > 2:
        return add_head(model, weights, classes)
    old = list(weights[head.input[1]].dims)[-1 if head.op_type == "MatMul" else 0]
    for w in {i for n in after for i in n.input if i in weights}:
        w = weights[w]
        values = numpy_helper.to_array(w)
        w.CopyFrom(numpy_helper.from_array(np.resize(values, [classes if d == old else d for d in w.dims]), w.name))
    for out in model.graph.output:
        for d in out.type.tensor_type.shape.dim:
            if d.dim_value == old:
                d.dim_value = classes


def add_head(model, weights, classes):
    """A classification of the first position, as a fine-tuned encoder has it."""
    out = model.graph.output[0]
    batch, _, hidden = out.type.tensor_type.shape.dim
    head = [numpy_helper.from_array(np.full((classes, hidden.dim_value), 0.02, np.float32), "classifier.weight"),
            numpy_helper.from_array(np.zeros(classes, np.float32), "classifier.bias"),
            numpy_helper.from_array(np.asarray(0), "classifier.position")]
    model.graph.initializer.extend(head)
    weights.update({w.name: w for w in model.graph.initializer})
    model.graph.node.extend([
        helper.make_node("Gather", [out.name, "classifier.position"], ["classifier.first"], axis=1),
        helper.make_node("Gemm", ["classifier.first", "classifier.weight", "classifier.bias"], ["classes"], transB=1)])
    out.CopyFrom(tensor("classes", TensorProto.FLOAT, batch.dim_param or batch.dim_value, classes))


def twin(a):
    """Other values for all float weights, and another number of classes, or a head for so many."""
    model = onnx.load(a.model)
    random = np.random.default_rng(a.seed + 1)
    weights = {w.name: w for w in model.graph.initializer}
    if a.classes:
        change_head(model, weights, a.classes)
    for name, w in weights.items():
        if w.data_type != TensorProto.FLOAT or len(w.dims) == 0:
            continue
        values = numpy_helper.to_array(w)
        new = random.standard_normal(values.shape, dtype=np.float32) * np.float32(values.std()) + np.float32(values.mean())
        w.CopyFrom(numpy_helper.from_array(new, name))
    save(model, a.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for make, sizes in ((encoder, dict(layers=24, hidden=768, heads=12, inner=3072, classes=0)),
                        (mixture, dict(blocks=1, experts=8, hidden=4096, inner=14336, heads=32, top=2)),
                        (decoder, dict(layers=32, hidden=4096, heads=32, inner=11008, words=32000, bits=16)),
                        (resnet, dict(layers=50, classes=1000)), (twin, dict(classes=5))):
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
