#!/usr/bin/env python3
"""Latency of Ingot beside ONNX Runtime and OpenVINO: batch 1, the same inputs, interleaved rounds.

Every measurement is a process of its own with the same number of threads, so that no pool of one engine spins beside
another's. Within a process: warm-up, then timed runs for a fixed time; the figure is the median. The table shows the
median over rounds and the ratio Ingot / peer, computed round by round.
"""
import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import math
import pathlib
import platform
import select
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
PRECISIONS = {"fp32": "f32", "fp16": "f16", "bf16": "bf16"}  # by OpenVINO's names
NETWORKS = ["resnet50", "mobilenet_v2", "efficientnet_b0", "densenet121", "bert_base", "vit_b_16", "gpt2"]


class Child:
    """A process that is told lines, and answers in lines of JSON objects."""

    def __init__(self, command, **options):
        self.name = " ".join(map(str, command))
        self.process = subprocess.Popen(list(map(str, command)), bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        **options)

    def tell(self, line):
        self.process.stdin.write(f"{line}\n".encode())

    def hear(self, until=None):
        """`until`: when to give up, by time.monotonic."""
        while until is None or select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))[0]:
            line = self.process.stdout.readline()
            if line.startswith(b"{"):  # libraries print too
                return json.loads(line)
            if not line:
                raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")
        self.process.kill()
        raise RuntimeError(f"{self.name} took too long")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def peer_main(engine, model, data, threads, seconds, precision):
    """Runs in a child process: prints the median latency in ms of one peer on one model."""
    import numpy as np
    import onnx
    from onnx import numpy_helper

    initializers = set()
    inputs = []
    graph = onnx.load(model, load_external_data=False).graph
    initializers = {t.name for t in graph.initializer}
    names = [i.name for i in graph.input if i.name not in initializers]
    for k, name in enumerate(names):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((pathlib.Path(data) / f"input_{k}.pb").read_bytes())
        inputs.append((name, np.array(numpy_helper.to_array(tensor), order="C")))  # a copy that may be written
    del graph
    if engine == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        feed = dict(inputs)

        def once():
            session.run(None, feed)
    else:
        import openvino

        core = openvino.Core()
        network = core.read_model(model)
        network.reshape({name: list(x.shape) for name, x in inputs})
        compiled = core.compile_model(network, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": PRECISIONS[precision]})
        request = compiled.create_infer_request()
        tensors = [openvino.Tensor(x, shared_memory=True) for _, x in inputs]

        def once():
            request.infer(tensors, share_outputs=True)
    for _ in range(3):
        once()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        once()
        times.append(time.perf_counter() - start)
    print(1e3 * statistics.median(times))


def measure_peer(engine, model, data, args):
    out = subprocess.run([sys.executable, __file__, "--peer", engine, str(model), str(data), str(args.threads),
                          str(args.seconds), args.precision], capture_output=True, text=True)
    if out.returncode:
        print(f"{engine} failed on {model}: {out.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return float(out.stdout.split()[-1])


def measure_ingot(engine, data, args):
    command = [args.ingot, "bench", str(engine), "--json", "--threads", str(args.threads), "--seconds", str(args.seconds)]
    for name, file in data:
        command += ["--input", f"{name}={file}"]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        print(f"ingot failed on {engine}: {out.stderr.strip()}", file=sys.stderr)
        return None
    return json.loads(out.stdout)["latency_ms"]["p50"]


def materialize(args, name, work):
    folder = work / name
    if not (folder / "model.onnx").exists():
        subprocess.run([sys.executable, str(args.models / "materialize.py"),
                        str(args.models / "structures" / f"{name}.onnx"), str(folder), "--no-reference"], check=True)
    return folder


def input_files(folder):
    import onnx

    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    initializers = {t.name for t in graph.initializer}
    names = [i.name for i in graph.input if i.name not in initializers]
    return [(n, folder / "test_data_set_0" / f"input_{k}.pb") for k, n in enumerate(names)]


def machine():
    model = "unknown processor"
    flags = set()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
        if line.startswith("flags"):
            flags = set(line.split(":", 1)[1].split())
    levels = [f for f in ("avx2", "avx512f", "avx512_vnni", "amx_bf16") if f in flags]
    return f"{model}, {platform.processor() or platform.machine()}, {' '.join(levels)}"


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def compare(folders, peers, args, work):
    rows = {}
    for name, folder in folders:
        engine = work / f"{name}.ingot"
        built = subprocess.run([args.ingot, "build", str(folder / "model.onnx"), "-o", str(engine),
                                "--target", args.target, "--precision", args.precision], capture_output=True, text=True)
        if built.returncode:
            print(f"ingot cannot build {name}: {built.stderr.strip()}", file=sys.stderr)
            continue
        rows[name] = {"ingot": [], "onnxruntime": [], "openvino": [], "folder": folder, "engine": engine}
    for _ in range(args.rounds):
        for row in rows.values():
            row["ingot"].append(measure_ingot(row["engine"], input_files(row["folder"]), args))
            for peer in peers:
                row[peer].append(measure_peer(peer, row["folder"] / "model.onnx",
                                              row["folder"] / "test_data_set_0", args))
    return rows


def ratio(row, peer):
    pairs = [(a, b) for a, b in zip(row["ingot"], row[peer]) if a and b]
    return statistics.median(a / b for a, b in pairs) if pairs else None


def table(rows, networks, peers):
    lines = ["| network | Ingot ms | " + " | ".join(f"{PEERS[p]} ms" for p in peers) + " | " +
             " | ".join(f"Ingot / {PEERS[p]}" for p in peers) + " |", "|---" * (2 + 2 * len(peers)) + "|"]
    for name, row in rows.items():
        cells = [name]
        for key in ("ingot", *peers):
            times = [t for t in row[key] if t]
            cells.append(f"{statistics.median(times):.3f}" if times else "failed")
        for peer in peers:
            r = ratio(row, peer)
            cells.append(f"{r:.2f}" if r else "-")
        lines.append("| " + " | ".join(cells) + " |")
    for peer in peers:
        ratios = [r for name, row in rows.items() if name in networks and (r := ratio(row, peer))]
        if ratios:
            lines.append(f"\nGeometric mean of Ingot / {PEERS[peer]} over the {len(ratios)} networks: "
                         f"**{geometric_mean(ratios):.3f}** (largest {max(ratios):.2f}).")
    return "\n".join(lines)


def real_models(args, work):
    """The third of models/real on which ONNX Runtime is fastest."""
    timed = []
    for folder in sorted((args.models / "real").glob("*")):
        if not (folder / "test_data_set_0").is_dir():
            continue
        ms = measure_peer("onnxruntime", folder / "model.onnx", folder / "test_data_set_0",
                          argparse.Namespace(threads=args.threads, seconds=0.2, precision=args.precision))
        if ms:
            timed.append((ms, folder))
    timed.sort(key=lambda t: t[0])
    return [(folder.name, folder) for _, folder in timed[:max(1, len(timed) // 3)]]


def main():
    if sys.argv[1:2] == ["--peer"]:
        engine, model, data, threads, seconds, precision = sys.argv[2:]
        peer_main(engine, model, data, int(threads), float(seconds), precision)
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ingot", default=str(ROOT / "build" / "ingot"))
    parser.add_argument("--models", type=pathlib.Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--target", default="cpu", help="what Ingot builds for; cpu:x86-64-v3 keeps it to AVX2")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32", help="of Ingot and OpenVINO; ONNX Runtime has fp32 alone")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--no-real", action="store_true", help="leave out the small trained models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "ingot-bench")
    parser.add_argument("--output", type=pathlib.Path, help="default: bench/results/cpu/DATE-cpu-LEVEL.md")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    networks = [n for n in args.networks.split(",") if n]
    if not args.models.is_dir():
        sys.exit(f"no models in {args.models}: give a folder with --models")
    folders = [(n, materialize(args, n, args.work)) for n in networks]
    if not args.no_real:
        folders += real_models(args, args.work)
    versions = {p: importlib.metadata.version(p) for p in PEERS if importlib.util.find_spec(p)}
    rows = compare(folders, list(versions), args, args.work)
    text = table(rows, networks, list(versions))
    print(text)

    level = "amx" if "amx_bf16" in machine() else "avx512" if "avx512f" in machine() else "avx2"
    output = args.output or ROOT / "bench" / "results" / "cpu" / f"{datetime.date.today()}-cpu-{level}.md"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(f"# CPU, {args.precision}, batch 1, {args.threads} threads, {datetime.date.today()}\n\n"
                      f"Machine: {machine()}. Ingot's target: {args.target}.\n\nCommand: `./dev bench {' '.join(sys.argv[1:])}`\n\n"
                      f"{', '.join(f'{PEERS[p]} {v}' for p, v in versions.items())}; "
                      f"{args.rounds} interleaved rounds of {args.seconds} s, medians.\n\n{text}\n")
    print(f"\nwritten to {output}")


if __name__ == "__main__":
    main()
