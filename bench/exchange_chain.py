#!/usr/bin/env python3
"""Writes chains of all-reduces of f16[n,HIDDEN] as ONNX files for several ranks, with nothing between them or with what a decoder has there.

    exchange_chain.py OUT.onnx [--norm none|rms|layer] [--links 50] [--hidden 4096]

none: x = AllReduce(x). rms, layer: h = h + AllReduce(x), x = norm(h). What one more kernel between two all-reduces takes, and what is left of
it where it is joined with the one before (docs/distributed.md), in microseconds of a run divided by the links:

    for norm in none rms layer; do
        bench/exchange_chain.py $norm.onnx --norm $norm
        ingot build $norm.onnx -o $norm.ingot --target cuda --precision fp16 --ranks 2
        ingot build $norm.onnx -o $norm-apart.ingot --target cuda --precision fp16 --ranks 2 --fuse 'AllReduce=off'
        for n in 1 8 32 64 65; do
            ingot bench $norm.ingot --ranks 2 --shape n=$n
            ingot bench $norm-apart.ingot --ranks 2 --shape n=$n
        done
    done

Of 4096 columns, rows have 8 KiB: up to 64 of them, 512 KiB, are joined. Needs onnx and numpy.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--norm", choices=("none", "rms", "layer"), default="none")
    parser.add_argument("--links", type=int, default=50)
    parser.add_argument("--hidden", type=int, default=4096)
    a = parser.parse_args()
    random = np.random.default_rng(0)
    nodes, weights = [helper.make_node("Neg", ["given"], ["x0"])], []

    def weight(name):
        data = random.standard_normal(a.hidden).astype(np.float16)
        weights.append(numpy_helper.from_array(data, name))
        return name

    hidden = "given"
    for i in range(a.links):
        x, total = f"x{i}", f"sum{i}"
        nodes.append(helper.make_node("AllReduce", [x], [total], f"link {i}", domain="com.microsoft"))
        if a.norm == "none":
            nodes[-1].output[0] = f"x{i + 1}"
            continue
        nodes.append(helper.make_node("Add", [hidden, total], [f"h{i}"]))
        hidden = f"h{i}"
        inputs = [hidden, weight(f"scale{i}")] + ([weight(f"bias{i}")] if a.norm == "layer" else [])
        operator = "RMSNormalization" if a.norm == "rms" else "LayerNormalization"
        nodes.append(helper.make_node(operator, inputs, [f"x{i + 1}"], f"norm {i}", axis=-1))
    shape = ["n", a.hidden]
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("given", TensorProto.FLOAT16, shape)],
                              [helper.make_tensor_value_info(f"x{a.links}", TensorProto.FLOAT16, shape)], weights)
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), a.out)


if __name__ == "__main__":
    main()
