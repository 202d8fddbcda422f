#!/usr/bin/env python3
"""Quantised twins of the networks of `./dev bench`: makes them with ONNX Runtime's own quantiser, and measures Ingot beside
ONNX Runtime and OpenVINO (where installed) on them.

A twin has QuantizeLinear and DequantizeLinear around its operators: weights of i8, symmetric, by channel; activations of u8
(u8s8) or of i8 (s8s8, symmetric), calibrated by minima and maxima of seeded data; u8s7 is u8s8 with weights of 7 bits, which ONNX
Runtime recommends for processors without VNNI, where its sums of 8 bits saturate. The float network is measured too.

    bench/quantised.py make --models ../shared/models --work /tmp/twins
    bench/quantised.py --models ../shared/models --work /tmp/twins --networks resnet50,mobilenet_v2
"""
import argparse
import pathlib
import shutil
import sys
import tempfile

import compare

KINDS = ("u8s8", "s8s8", "u8s7")
NETWORKS = ["resnet50", "mobilenet_v2", "bert_base", "vit_b_16"]


def calibration(folder, samples):
    """The network's own sample, and others: the same with seeded noise; integers, shuffled along their last axis."""
    import numpy as np
    import onnx
    from onnx import numpy_helper
    from onnxruntime.quantization import CalibrationDataReader

    feed = {}
    for name, file in compare.input_files(folder):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(file.read_bytes())
        feed[name] = numpy_helper.to_array(tensor)

    class Reader(CalibrationDataReader):
        def __init__(self):
            random = np.random.default_rng(0)
            self.left = [feed]
            for _ in range(samples - 1):
                self.left.append({
                    name: (x + random.standard_normal(x.shape).astype(x.dtype) * x.std() if x.dtype.kind == "f"
                           else random.permuted(x, axis=-1) if x.ndim else x) for name, x in feed.items()})

        def get_next(self):
            return self.left.pop(0) if self.left else None

    return Reader()


def make_twin(folder, kind, samples, work):
    """A folder with model.onnx and the inputs of `folder`, made once."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    twin = work / f"{folder.name}.{kind}"
    if (twin / "model.onnx").exists():
        return twin
    twin.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder / "test_data_set_0", twin / "test_data_set_0", dirs_exist_ok=True)
    prepared = twin / "prepared.onnx"
    quant_pre_process(str(folder / "model.onnx"), str(prepared), skip_symbolic_shape=True)
    signed = kind == "s8s8"
    quantize_static(str(prepared), str(twin / "partial.onnx"), calibration(folder, samples), quant_format=QuantFormat.QDQ,
                    per_channel=True, reduce_range=kind == "u8s7", weight_type=QuantType.QInt8,
                    activation_type=QuantType.QInt8 if signed else QuantType.QUInt8,
                    extra_options={"ActivationSymmetric": signed, "WeightSymmetric": True})
    prepared.unlink()
    (twin / "partial.onnx").rename(twin / "model.onnx")
    return twin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("measure", "make"), default="measure")
    parser.add_argument("--models", type=pathlib.Path, default=compare.ROOT.parent / "shared" / "models",
                        help="folder of exported architectures")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="some of models/structures")
    parser.add_argument("--kinds", default="u8s8,s8s8", help=", ".join(KINDS))
    parser.add_argument("--real", default="mobilenetv2-qdq-imagenet", help="quantised models of models/real; may be empty")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "ingot-twins",
                        help="folder where networks and their twins are kept")
    parser.add_argument("--samples", type=int, default=4, help="of calibration")
    parser.add_argument("--ingot", default=str(compare.ROOT / "build" / "ingot"))
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--precision", choices=compare.PRECISIONS, default="fp32", help="of what is not quantised")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    folders = []
    for name in filter(None, args.networks.split(",")):
        folder = compare.materialize(args, name, args.work)
        folders.append((name, folder))
        for kind in args.kinds.split(","):
            twin = make_twin(folder, kind, args.samples, args.work)
            print(f"{twin}: {(twin / 'model.onnx').stat().st_size / 1e6:.1f} MB", file=sys.stderr)
            folders.append((twin.name, twin))
    folders += [(name, args.models / "real" / name) for name in filter(None, args.real.split(","))]
    if args.command == "make":
        return
    peers = [p for p in compare.PEERS if compare.importlib.util.find_spec(p)]
    rows = compare.compare(folders, peers, args, args.work)
    quantised = {name for name, _ in folders} - set(args.networks.split(","))
    print(f"{compare.machine()}, {args.threads} threads, batch 1\n")
    print(compare.table(rows, quantised, peers))


if __name__ == "__main__":
    main()
