#!/usr/bin/env python3
"""Trains the small convolutional network of the demo and writes it as ONNX, with pictures to classify.

    python3 -m venv .venv && .venv/bin/pip install numpy scikit-learn onnx pillow
    .venv/bin/python tools/train-digits.py examples/digits

The data are scikit-learn's handwritten digits (1,797 pictures of 8x8 pixels, 17 grey levels; UCI ML repository, CC BY 4.0).
The network is conv 3x3 1->16, ReLU, conv 3x3 16->32, ReLU, max pool 2x2, dense 512->10, softmax, trained by Adam in plain
NumPy on four fifths of the data; the pictures written are from the rest. Seeded: the same files each time on one machine.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits

RNG = np.random.default_rng(7)


def columns(x):
    """The 3x3 neighbourhoods of each pixel, zero-padded: [n, c, h, w] -> [n, h, w, c*9]."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    parts = [padded[:, :, i:i + h, j:j + w] for i in range(3) for j in range(3)]
    return np.stack(parts, axis=2).reshape(n, c * 9, h, w).transpose(0, 2, 3, 1)


def scatter_columns(d, c):
    """The transpose of columns(): sums the gradients of neighbourhoods back into pixels."""
    n, h, w, _ = d.shape
    d = d.transpose(0, 3, 1, 2).reshape(n, c, 9, h, w)
    padded = np.zeros((n, c, h + 2, w + 2), np.float32)
    for k in range(9):
        padded[:, :, k // 3:k // 3 + h, k % 3:k % 3 + w] += d[:, :, k]
    return padded[:, :, 1:-1, 1:-1]


def forward(p, x):
    a0 = columns(x)
    z1 = (a0 @ p["w1"].reshape(16, -1).T + p["b1"]).transpose(0, 3, 1, 2)
    h1 = np.maximum(z1, 0)
    a1 = columns(h1)
    z2 = (a1 @ p["w2"].reshape(32, -1).T + p["b2"]).transpose(0, 3, 1, 2)
    h2 = np.maximum(z2, 0)
    windows = h2.reshape(len(x), 32, 4, 2, 4, 2)
    pooled = windows.max(axis=(3, 5))
    flat = pooled.reshape(len(x), -1)
    logits = flat @ p["w3"] + p["b3"]
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True), (a0, h1, a1, h2, windows, pooled, flat)


def gradients(p, x, y):
    probabilities, (a0, h1, a1, h2, windows, pooled, flat) = forward(p, x)
    n = len(x)
    d = probabilities
    d[np.arange(n), y] -= 1
    d /= n
    g = {"w3": flat.T @ d, "b3": d.sum(0)}
    dp = (d @ p["w3"].T).reshape(pooled.shape)
    winners = windows == pooled[:, :, :, None, :, None]
    dh2 = (winners * dp[:, :, :, None, :, None]).reshape(h2.shape) * (h2 > 0)
    dz2 = dh2.transpose(0, 2, 3, 1).reshape(-1, 32)
    g["w2"] = (dz2.T @ a1.reshape(-1, 144)).reshape(p["w2"].shape)
    g["b2"] = dz2.sum(0)
    da1 = (dz2 @ p["w2"].reshape(32, -1)).reshape(a1.shape)
    dh1 = scatter_columns(da1, 16) * (h1 > 0)
    dz1 = dh1.transpose(0, 2, 3, 1).reshape(-1, 16)
    g["w1"] = (dz1.T @ a0.reshape(-1, 9)).reshape(p["w1"].shape)
    g["b1"] = dz1.sum(0)
    return g


def train(x, y, epochs=14, batch=64, rate=2e-3):
    p = {"w1": RNG.standard_normal((16, 1, 3, 3)) * (2 / 9) ** .5, "b1": np.zeros(16),
         "w2": RNG.standard_normal((32, 16, 3, 3)) * (2 / 144) ** .5, "b2": np.zeros(32),
         "w3": RNG.standard_normal((512, 10)) * (1 / 512) ** .5, "b3": np.zeros(10)}
    p = {k: v.astype(np.float32) for k, v in p.items()}
    m, v = ({k: np.zeros_like(a) for k, a in p.items()} for _ in range(2))
    step = 0
    for _ in range(epochs):
        order = RNG.permutation(len(x))
        for at in range(0, len(x), batch):
            rows = order[at:at + batch]
            step += 1
            for k, g in gradients(p, x[rows], y[rows]).items():
                m[k] = .9 * m[k] + .1 * g
                v[k] = .999 * v[k] + .001 * g * g
                p[k] -= rate * (m[k] / (1 - .9 ** step)) / (np.sqrt(v[k] / (1 - .999 ** step)) + 1e-8)
    return p


def export(p, path):
    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], "conv1", pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "conv2.weight", "conv2.bias"], ["c2"], "conv2", pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("MaxPool", ["r2"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "dense.weight", "dense.bias"], ["logits"], "dense"),
        helper.make_node("Softmax", ["logits"], ["probability"], "softmax", axis=1),
    ]
    names = {"w1": "conv1.weight", "b1": "conv1.bias", "w2": "conv2.weight", "b2": "conv2.bias",
             "w3": "dense.weight", "b3": "dense.bias"}
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(p[k], name) for k, name in names.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="ingot tools/train-digits.py")
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    x = (digits.images / 16).astype(np.float32)[:, None]
    order = np.random.default_rng(3).permutation(len(x))
    held_out = order[:len(x) // 5]
    kept = order[len(x) // 5:]
    p = train(x[kept], digits.target[kept])
    answers = forward(p, x[held_out])[0].argmax(1)
    print(f"right on {np.mean(answers == digits.target[held_out]):.1%} of {len(held_out)} pictures not trained on")
    export(p, folder / "digits.onnx")
    (folder / "labels.txt").write_text("".join(f"{name}\n" for name in
                                               "zero one two three four five six seven eight nine".split()))
    for digit in range(10):
        row = next(r for r in held_out if digits.target[r] == digit)
        grey = np.round(digits.images[row] / 16 * 255).astype(np.uint8)
        Image.fromarray(grey).resize((96, 96), Image.Resampling.BICUBIC).save(folder / f"{digit}.png")


main()
