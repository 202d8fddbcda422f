#!/usr/bin/env python3
"""Writes decoders that take a token, or a few, behind a cache of keys and values, as ONNX files for several ranks.

    dist_networks.py decoder OUT.onnx [--layers 32] [--hidden 4096] [--heads 32] [--kv-heads 32] [--inner 11008] [--words 32000]
                     [--tokens 1] [--past 512] [--bits 16]
    dist_networks.py mixture OUT.onnx [--layers 4] [--hidden 2048] [--heads 16] [--kv-heads 4] [--inner 5632] [--experts 8] [--top 2]
                     [--words 32000] [--tokens 16] [--past 512] [--bits 16]

decoder: Llama's, by default of 7B: RMS norms, rotary embedding, attention of grouped queries over past_key.N and past_value.N and
what is new, SwiGLU. mixture: the same with a mixture of gated experts in place of SwiGLU, each of which computes all tokens,
weighted by the router, as graphs without data-dependent shapes do. All sizes are fixed, and the only result is the logits: new keys
and values stay in the run. Weights are windows of one random block (seeded), so that 13.5 GB are written in seconds, and lie
in OUT.onnx.data. Needs onnx and numpy.
"""
import argparse
import os

import numpy as np
import onnx
from onnx import TensorProto

from networks import LargeMaker, rotated, tensor

DEVIATION = 0.02  # of matrices


class BlockMaker(LargeMaker):
    """Matrices are windows of one block of random numbers, at places that depend on the seed."""
    block_size = 1 << 25

    def __init__(self, seed, bits):
        super().__init__(seed, bits)
        block = np.random.default_rng(seed).standard_normal(self.block_size, dtype=np.float32)
        self.block = (block * np.float32(DEVIATION)).astype(self.dtype)

    def fill(self, file, offset, count, mean, deviation):
        if deviation != DEVIATION:
            super().fill(file, offset, count, mean, deviation)
            return
        begin = np.random.default_rng((self.seed, offset)).integers(self.block_size - count)
        data = memoryview(self.block[begin:begin + count]).cast("B")
        while data:  # a write may end early
            written = os.pwrite(file, data, offset)
            data, offset = data[written:], offset + written

    def number(self, name, value):
        return self.constant(name, np.asarray(value, self.dtype))


def last(m):
    return m.constant("last", np.array([-1], np.int64))


def angles(m, size):
    """Cosines and sines of the rotary embedding, [tokens, size]."""
    down = m.op("Unsqueeze", "position", last(m))
    speeds = (1e4 ** (-np.arange(0, size, 2, dtype=np.float32) / np.float32(size))).reshape(1, -1)
    angle = m.op("Mul", m.cast(down, TensorProto.FLOAT), m.constant("speeds", speeds))
    angle = m.op("Concat", angle, angle, axis=-1)
    return m.cast(m.op("Cos", angle), m.type), m.cast(m.op("Sin", angle), m.type)


def visible(m, a):
    """A mask that hides what comes after each token, [tokens, past + tokens]; None: a single token sees all."""
    if a.tokens == 1:
        return None
    places = m.constant("places", np.arange(a.past + a.tokens, dtype=np.int64).reshape(1, -1))
    seen = m.op("LessOrEqual", places, m.op("Unsqueeze", "position", last(m)))
    return m.op("Where", seen, m.constant("seen", np.float32(0)), m.constant("hidden", np.float32(-1e9)))


def repeated(m, a, x, size):
    """Heads of keys or values, each as often as queries share it."""
    if a.kv_heads == a.heads:
        return x
    groups, length = a.heads // a.kv_heads, a.past + a.tokens
    x = m.op("Unsqueeze", x, m.constant("group_axis", np.array([2], np.int64)))
    x = m.op("Expand", x, m.constant("groups", np.array([1, a.kv_heads, groups, length, size], np.int64)))
    return m.op("Reshape", x, m.constant("ungrouped", np.array([1, a.heads, length, size], np.int64)))


def attention(m, a, h, layer, cos, sin, mask):
    size = a.hidden // a.heads
    q, k, v = (m.heads(m.linear(h, name, a.hidden, heads * size, bias=False), heads, size)
               for name, heads in (("q_proj", a.heads), ("k_proj", a.kv_heads), ("v_proj", a.kv_heads)))
    q, k = rotated(m, q, size, cos, sin), rotated(m, k, size, cos, sin)
    k = repeated(m, a, m.op("Concat", f"past_key.{layer}", k, axis=2), size)
    v = repeated(m, a, m.op("Concat", f"past_value.{layer}", v, axis=2), size)
    scores = m.cast(m.op("MatMul", q, m.op("Transpose", k, perm=[0, 1, 3, 2])), TensorProto.FLOAT)
    scores = m.op("Mul", scores, m.constant("scale", np.float32(size ** -0.5)))
    if mask:
        scores = m.op("Add", scores, mask)
    y = m.op("MatMul", m.cast(m.op("Softmax", scores, axis=-1), m.type), v)
    y = m.op("Transpose", y, perm=[0, 2, 1, 3])
    y = m.op("Reshape", y, m.constant("joined", np.array([0, 0, a.hidden], np.int64)))
    return m.linear(y, "o_proj", a.hidden, a.hidden, bias=False)


def gated(m, h, names, hidden, inner):
    """SwiGLU: down(silu(gate(h)) * up(h))."""
    gate = m.linear(h, names[0], hidden, inner, bias=False)
    y = m.op("Mul", m.op("Mul", gate, m.op("Sigmoid", gate)), m.linear(h, names[1], hidden, inner, bias=False))
    return m.linear(y, names[2], inner, hidden, bias=False)


def router(m, a, h):
    """The weights of the best experts for each token, which add up to 1, and which they are."""
    chances = m.op("Softmax", m.cast(m.linear(h, "gate", a.hidden, a.experts, bias=False), TensorProto.FLOAT), axis=-1)
    name = "/".join(m.path)
    best, which = f"{name}/best", f"{name}/which"
    m.nodes.append(onnx.helper.make_node("TopK", [chances, m.constant("top", np.array([a.top], np.int64))], [best, which],
                                         name=f"/{name}/TopK", axis=-1))
    return m.op("Div", best, m.op("ReduceSum", best, last(m), keepdims=1)), which


def experts(m, a, h):
    best, which = router(m, a, h)
    path, total = m.path, None
    for e in range(a.experts):
        m.path = path + [f"experts.{e}"]
        chosen = m.op("Equal", which, m.constant(f"expert_{e}", np.int64(e)))
        share = m.op("ReduceSum", m.op("Where", chosen, best, m.constant("zero", np.float32(0))), last(m), keepdims=1)
        y = m.op("Mul", gated(m, h, ("w1", "w3", "w2"), a.hidden, a.inner), m.cast(share, m.type))
        total = m.op("Add", total, y) if total else y
    m.path = path
    return total


def stack(a):
    m = BlockMaker(a.seed, a.bits)
    size, inputs = a.hidden // a.heads, []
    m.path = ["model"]
    x = m.op("Gather", m.weight("embed_tokens.weight", a.words, a.hidden), "input_ids")
    cos, sin = angles(m, size)
    mask = visible(m, a)
    for layer in range(a.layers):
        m.path = ["model", f"layers.{layer}"]
        h = m.rms_norm(x, "input_layernorm", a.hidden)
        m.path.append("self_attn")
        x = m.op("Add", x, attention(m, a, h, layer, cos, sin, mask))
        m.path = ["model", f"layers.{layer}"]
        h = m.rms_norm(x, "post_attention_layernorm", a.hidden)
        m.path.append("mlp")
        y = experts(m, a, h) if a.experts else gated(m, h, ("gate_proj", "up_proj", "down_proj"), a.hidden, a.inner)
        x = m.op("Add", x, y)
        inputs += [tensor(f"{name}.{layer}", m.type, 1, a.kv_heads, a.past, size) for name in ("past_key", "past_value")]
    m.path = ["model"]
    x = m.rms_norm(x, "norm", a.hidden)
    m.path = []
    m.linear(x, "lm_head", a.hidden, a.words, bias=False)
    m.nodes[-1].output[0] = "logits"
    m.save(a.out, [tensor("input_ids", TensorProto.INT64, 1, a.tokens), tensor("position", TensorProto.INT64, a.tokens), *inputs],
           [tensor("logits", m.type, 1, a.tokens, a.words)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    decoder = dict(layers=32, hidden=4096, heads=32, kv_heads=32, inner=11008, words=32000, tokens=1, past=512, bits=16)
    mixture = dict(decoder, layers=4, hidden=2048, heads=16, kv_heads=4, inner=5632, tokens=16, experts=8, top=2)
    for name, sizes in (("decoder", decoder), ("mixture", mixture)):
        command = commands.add_parser(name)
        command.set_defaults(experts=0)
        command.add_argument("out")
        for size, value in dict(sizes, seed=0).items():
            command.add_argument("--" + size.replace("_", "-"), type=int, default=value)
    stack(parser.parse_args())


if __name__ == "__main__":
    main()
