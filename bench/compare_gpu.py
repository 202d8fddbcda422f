#!/usr/bin/env python3
"""Latency of Ingot on an NVIDIA GPU beside PyTorch's Inductor: fp16 or TF32, static shapes, weights frozen, CUDA graphs.

Inductor runs in a process for each network, which compiles it once and then measures it whenever it is asked; Ingot is
measured by `ingot bench`. Rounds alternate between the two. Both figures are GPU time by CUDA events: the median over the
runs of a round, then the median over rounds; the ratio is computed round by round.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from compare import ROOT, Child, geometric_mean, materialize

# network, batch
CASES = [("resnet50", 1), ("mobilenet_v2", 1), ("bert_base", 1), ("vit_b_16", 1), ("gpt2", 1), ("mlp_16x512", 1),
         ("resnet50", 32), ("bert_base", 32), ("vit_b_16", 32)]
SEQUENCE = {"bert_base": 128, "gpt2": 128, "bert_large": 384}


def peer_network(name, batch):
    """The network in PyTorch, with random weights, and its inputs."""
    import torch

    if name in ("resnet50", "mobilenet_v2", "vit_b_16", "efficientnet_b0", "densenet121"):
        import torchvision

        return getattr(torchvision.models, name)(weights=None), (torch.randn(batch, 3, 224, 224),)
    if name == "mlp_16x512":
        layers = [layer for _ in range(16) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())]
        return torch.nn.Sequential(*layers), (torch.randn(batch, 512),)
    import transformers

    ids = torch.randint(0, 1000, (batch, SEQUENCE[name]))
    if name in ("bert_base", "bert_large"):
        large = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
        config = transformers.BertConfig(return_dict=False, **(large if name == "bert_large" else {}))
        bert = transformers.BertModel(config, add_pooling_layer=False)
        return bert, (ids, torch.ones_like(ids))
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gpt2 = gpt2

        def forward(self, ids):
            return self.gpt2(ids).logits

    return Logits(), (ids,)


def to_gpu(network, inputs, precision="fp16"):
    """In fp16 or fp32 (tf32: its products in that), images and videos with their channels innermost."""
    import torch

    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    network, inputs = network.cuda().eval(), [x.cuda() for x in inputs]
    if precision == "fp16":
        network, inputs = network.half(), [x.half() if x.is_floating_point() else x for x in inputs]
    if inputs[0].dim() in formats:
        network = network.to(memory_format=formats[inputs[0].dim()])
        inputs = [x.to(memory_format=formats[x.dim()]) if x.dim() in formats else x for x in inputs]
    return network, inputs


class Captured:
    """A CUDA graph, and what owns the memory that it reads."""

    def __init__(self, graph, *owners):
        self.replay, self.owners = graph.replay, (graph, *owners)


def capture(network, inputs, mode=None):
    """A network compiled by Inductor (mode: torch.compile's) for the sizes of these inputs."""
    import torch
    import torch._inductor.config as config

    config.freezing = True
    torch.backends.cudnn.benchmark = True
    with torch.inference_mode():
        compiled = torch.compile(network, dynamic=False, mode=mode)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                compiled(*inputs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            compiled(*inputs)
    return Captured(graph, compiled, inputs)


def median_ms(captured, seconds):
    import time

    import torch

    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 20:
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        captured.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def peer_main(name, batch, precision):
    """Compiles, says that it is ready, and then answers each line (a number of seconds) with a median in ms."""
    captured = capture(*to_gpu(*peer_network(name, batch), precision))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"ms": median_ms(captured, float(line))}), flush=True)


class Peer(Child):
    """Starts compiling at once, in parallel with others; measuring begins when all are ready."""

    def __init__(self, name, batch, precision):
        super().__init__([sys.executable, __file__, "--peer", name, batch, precision])

    def measure(self, seconds):
        self.tell(seconds)
        return self.hear()["ms"]


def write_mlp(folder):
    """16 layers of 512 x 512 with ReLU, as an ONNX model."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for i in range(16):
        w = (random.standard_normal((512, 512)) * (2 / 512) ** 0.5).astype(np.float32)
        weights += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(np.zeros(512, np.float32), f"b{i}")]
        nodes += [helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"h{i}"], f"linear{i}"),
                  helper.make_node("Relu", [f"h{i}"], [f"y{i}"], f"relu{i}")]
        value = f"y{i}"
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 512])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["batch", 512])], weights)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx")


def build(name, batch, args):
    """Builds an engine; returns its path and the build time."""
    folder = args.work / name
    if name.startswith("mlp"):
        write_mlp(folder)
    else:
        folder = materialize(args, name, args.work)
    engine = args.work / f"{name}-{batch}.ingot"
    command = [args.ingot, "build", str(folder / "model.onnx"), "-o", str(engine), "--cache", "off", "--target", args.target,
               "--precision", args.precision, "--shape", f"batch={batch}"]
    if name in SEQUENCE:
        command += ["--shape", f"sequence={SEQUENCE[name]}"]
    subprocess.run(command + args.build_option, check=True)
    return engine


def measure_ingot(engine, args, *options):
    out = subprocess.run([args.ingot, "bench", str(engine), "--json", "--seconds", str(args.seconds), *options],
                         capture_output=True, text=True)
    if out.returncode:
        print(f"ingot failed on {engine}: {out.stderr.strip()}", file=sys.stderr)
        return None
    return json.loads(out.stdout)


def library_kernels(engine, args):
    """How many of the engine's kernels are library calls, and to which libraries: "4 of 31 (cuBLASLt)"."""
    out = subprocess.run([args.ingot, "inspect", str(engine), "--json"], capture_output=True, text=True, check=True)
    explanation = json.loads(out.stdout)
    libraries = explanation.get("libraries", [])
    calls = sum(library["kernels"] for library in libraries)
    names = ", ".join(library["name"] for library in libraries)
    return f"{calls} of {len(explanation['kernels'])}" + (f" ({names})" if names else "")


def compare(engine, peer, args):
    ingot, other, host = [], [], []
    for _ in range(args.rounds):
        report = measure_ingot(engine, args)
        if report:
            ingot.append(report["gpu_ms"]["p50"])
            host.append([report[key]["p50"] for key in ("enqueue_us", "enqueue_row_us", "enqueue_idle_us")])
        if peer:
            other.append(peer.measure(args.seconds))
    if peer:
        peer.close()
    return ingot, other, host, library_kernels(engine, args)


def gpu():
    return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                          capture_output=True, text=True).stdout.strip()


def main():
    if sys.argv[1:2] == ["--peer"]:
        peer_main(sys.argv[2], int(sys.argv[3]), sys.argv[4])
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ingot", default=str(ROOT / "build" / "ingot"))
    parser.add_argument("--models", type=pathlib.Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--cases", help="such as resnet50:1,bert_base:32 (default: all)")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--build-option", action="append", default=[], help="handed to ingot build; repeatable")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "ingot-bench")
    parser.add_argument("--output", type=pathlib.Path, help="default: bench/results/gpu/networks/DATE-gpu.md")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    cases = CASES
    if args.cases:
        cases = [(name, int(batch)) for name, _, batch in (case.partition(":") for case in args.cases.split(","))]
    lines = ["| network | batch | Ingot ms | Inductor ms | Ingot / Inductor | Ingot's host time, behind a run / in a row / idle, µs "
             "| kernels of a library |", "|---" * 7 + "|"]
    ratios = {}
    peers = [None if args.no_peer else Peer(*case, args.precision) for case in cases]
    for peer in peers:
        if peer:
            peer.hear()
    engines = [build(*case, args) for case in cases]
    for (name, batch), engine, peer in zip(cases, engines, peers):
        ingot, other, host, library = compare(engine, peer, args)
        cells = [name, str(batch)]
        for times in (ingot, other):
            cells.append(f"{statistics.median(times):.3f}" if times else "-")
        if ingot and other:
            ratios[name, batch] = statistics.median(a / b for a, b in zip(ingot, other))
        cells.append(f"{ratios[name, batch]:.2f}" if (name, batch) in ratios else "-")
        cells.append(" / ".join(f"{statistics.median(times):.1f}" for times in zip(*host)) or "-")
        cells.append(library)
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    for text, chosen in (("batch 1", [r for (_, b), r in ratios.items() if b == 1]),
                         ("batch 32", [r for (_, b), r in ratios.items() if b == 32])):
        if chosen:
            lines.append(f"\nGeometric mean at {text}: **{geometric_mean(chosen):.3f}** (largest {max(chosen):.2f}).")
    output = args.output or ROOT / "bench" / "results" / "gpu" / "networks" / f"{datetime.date.today()}-gpu.md"
    output.write_text(f"# GPU, {args.precision}, {datetime.date.today()}\n\nMachine: {gpu()}\n\n"
                      f"Command: `bench/compare_gpu.py {' '.join(sys.argv[1:])}`\n\n" + "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
