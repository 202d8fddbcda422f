#!/usr/bin/env python3
"""Makes the twin of a float32 ONNX model that multiplies floats of 8 bits, as NVIDIA's Model Optimizer quantises.

    float8.py MODEL.onnx OUT.onnx [--largest 8]

Before each matrix product (MatMul, or Gemm without scales) by a constant, QuantizeLinear and DequantizeLinear of f8e4m3fn stand on
both operands: on the weights by column, from their largest magnitudes; on activations with one scale, for magnitudes up to
--largest. Nothing is calibrated: the twins are for measuring time, and the error that comes of it. Needs onnx and numpy.
"""
import argparse
import os

import numpy as np
import onnx
import onnx.version_converter
from onnx import TensorProto, helper, numpy_helper

LARGEST_CODE = 448.0  # of f8e4m3fn


class Twin:
    def __init__(self, model, largest):
        self.graph, self.scale = model.graph, largest / LARGEST_CODE
        self.weights = {w.name: w for w in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.weights[node.output[0]] = node.attribute[0].t
        self.nodes, self.known, self.products = [], {}, 0

    def add(self, name, values):
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(values, np.float32), name))

    def trip(self, x, scale, zero, **attributes):
        """x, quantised and dequantised."""
        if (x, scale) not in self.known:
            name = f"{x}/f8.{len(self.known)}"
            self.nodes.append(helper.make_node("QuantizeLinear", [x, scale, zero], [name + ".q"], **attributes))
            self.nodes.append(helper.make_node("DequantizeLinear", [name + ".q", scale, zero], [name], **attributes))
            self.known[x, scale] = name
        return self.known[x, scale]

    def weight(self, name, axis):
        values = numpy_helper.to_array(self.weights[name])
        most = np.abs(values).max(axis=1 - axis)
        if name + "/scale" not in self.weights:
            self.weights[name + "/scale"] = None
            self.add(name + "/scale", np.where(most > 0, most / LARGEST_CODE, 1))
            self.graph.initializer.append(helper.make_tensor(name + "/zero", TensorProto.FLOAT8E4M3FN, [len(most)],
                                                             bytes(len(most)), raw=True))
        return self.trip(name, name + "/scale", name + "/zero", axis=axis)

    def visit(self, node):
        fields = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = node.op_type == "MatMul" or (node.op_type == "Gemm" and not fields.get("transA") and
                                             fields.get("alpha", 1) == 1 and fields.get("beta", 1) == 1)
        constant = plain and node.input[1] in self.weights and len(self.weights[node.input[1]].dims) == 2
        if constant and self.weights[node.input[1]].data_type == TensorProto.FLOAT:
            node.input[0] = self.trip(node.input[0], "f8/scale", "f8/zero")
            node.input[1] = self.weight(node.input[1], 0 if fields.get("transB") else 1)
            self.products += 1
        self.nodes.append(node)

    def make(self):
        self.add("f8/scale", self.scale)
        self.graph.initializer.append(helper.make_tensor("f8/zero", TensorProto.FLOAT8E4M3FN, [], bytes(1), raw=True))
        for node in list(self.graph.node):
            self.visit(node)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--largest", type=float, default=8)
    a = parser.parse_args()
    model = onnx.load(a.model)
    if next(o.version for o in model.opset_import if o.domain == "") < 19:
        model = onnx.version_converter.convert_version(model, 19)
    twin = Twin(model, a.largest)
    twin.make()
    large = sum(len(w.raw_data) for w in model.graph.initializer) > 1 << 20
    data = os.path.basename(a.out) + ".data"
    if os.path.exists(a.out + ".data"):
        os.remove(a.out + ".data")
    onnx.save(model, a.out, save_as_external_data=large, location=data if large else None, size_threshold=1024)
    print(f"{a.out}: {twin.products} products of floats of 8 bits")


if __name__ == "__main__":
    main()
