#!/usr/bin/env python3
"""Writes a model of large matrices with external data, for measurements of builds: blocks of two products with bias and
ReLU, [batch, K] x [K, N] x [N, K]. Random numbers, the same at every call."""
import argparse
import os

import numpy
import onnx
from onnx import TensorProto, helper


def external(name, dims, offset, length):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="where to write model.onnx and weights.bin")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--inner", type=int, default=4096, help="K")
    parser.add_argument("--outer", type=int, default=16384, help="N")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    random = numpy.random.default_rng(1)
    nodes, initializers, offset, value = [], [], 0, "x"
    with open(os.path.join(options.folder, "weights.bin"), "wb") as file:
        for block in range(2 * options.blocks):
            k, n = (options.inner, options.outer) if block % 2 == 0 else (options.outer, options.inner)
            for name, dims in ((f"w{block}", (k, n)), (f"b{block}", (n,))):
                data = random.standard_normal(dims, dtype=numpy.float32) * numpy.float32(0.02)
                file.write(data.tobytes())
                initializers.append(external(name, dims, offset, data.nbytes))
                offset += data.nbytes
            nodes.append(helper.make_node("MatMul", [value, f"w{block}"], [f"m{block}"]))
            nodes.append(helper.make_node("Add", [f"m{block}", f"b{block}"], [f"a{block}"]))
            nodes.append(helper.make_node("Relu", [f"a{block}"], [f"r{block}"]))
            value = f"r{block}"
    graph = helper.make_graph(
        nodes, "large", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", options.inner])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["batch", options.inner])], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with open(os.path.join(options.folder, "model.onnx"), "wb") as file:
        file.write(model.SerializeToString())


main()
