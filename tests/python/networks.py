"""Small engines for the tests, made by code."""

import numpy as np

import ingot

DTYPES = {
    "f32": np.float32, "f16": np.float16, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
}


def unary(op, dtype, shape):
    """An engine y = op(x)."""
    net = ingot.Network()
    net.output("y", net.add(op, net.input("x", dtype, shape)))
    return ingot.compile(net, opt_level=1)


def doubled(shape=("n", 4)):
    """An engine y = x + x, of f32."""
    net = ingot.Network()
    x = net.input("x", "f32", shape)
    net.output("y", net.add("add", x, x))
    return ingot.compile(net)


def sum_and_difference():
    """An engine with two inputs and two outputs, of f32["n", 3]."""
    net = ingot.Network()
    a, b = net.input("a", "f32", ["n", 3]), net.input("b", "f32", ["n", 3])
    net.output("sum", net.add("add", a, b))
    net.output("difference", net.add("sub", a, b))
    return ingot.compile(net)


def product(weight):
    """An engine y = x @ w, with the weight "w"."""
    net = ingot.Network()
    x, w = net.input("x", "f32", ["n", weight.shape[0]]), net.weight("w", weight)
    net.output("y", net.add("matmul", x, w, label="product"))
    return ingot.compile(net)


def shifted_product(weights, **options):
    """y = (x + shift) dense^T"""
    net = ingot.Network()
    x = net.add("Add", net.input("x", "f32", ["n", 64]), net.weight("shift", weights["shift"].copy()))
    net.output("y", net.add("matmul", x, net.add("transpose", net.weight("dense", weights["dense"].copy()), perm=[1, 0])))
    return ingot.compile(net, **options)
