#!/usr/bin/env python3
"""A random stream of batch sizes through one engine, beside peers.

Every run of the stream has a batch of its own, drawn uniformly; the same stream is measured sorted too. On a GPU (fp16) the
peers are PyTorch's Inductor with dynamic shapes, once with a CUDA graph captured by hand for every size, all in one memory
pool, and once with Inductor's own graph trees; both also where it is told that only the batch is dynamic. On the CPU (fp32)
the peer is ONNX Runtime with one session.

The protocol is the same for all: each engine is a process that has prepared every size and then answers streams. It
enqueues a run for each size and waits for the last one only; inputs and results stay in the GPU's memory (on the CPU, in
its own). Rounds go through the engines in turn. Figures are medians over rounds; ratios are computed round by round.
"""
import argparse
import datetime
import json
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from compare import ROOT, Child, geometric_mean, machine, materialize
from compare_gpu import SEQUENCE, gpu, peer_network, to_gpu

LARGEST = 32
SIZES = range(LARGEST, 0, -1)
NETWORKS = {"cuda": ["resnet50", "bert_base"], "cpu": ["resnet50", "bert_base", "mobilenet_v2"]}
WAYS = {"captured": "PyTorch, graphs captured by hand", "trees": "PyTorch, graph trees",
        "captured-batch": "PyTorch, graphs captured by hand, only the batch dynamic",
        "trees-batch": "PyTorch, graph trees, only the batch dynamic", "onnxruntime": "ONNX Runtime"}
PEERS = {"cuda": ["captured", "trees", "captured-batch", "trees-batch"], "cpu": ["onnxruntime"]}
MIB = 1 << 20

# ---- The peers' processes


def say(**figures):
    print(json.dumps(figures), flush=True)


def answer(run, wait):
    """Answers each line, a stream of sizes, with the ms of a run."""
    for line in sys.stdin:
        stream = [int(n) for n in line.split()]
        wait()
        start = time.perf_counter()
        for n in stream:
            run(n)
        wait()
        say(ms=1e3 * (time.perf_counter() - start) / len(stream))


def capture(compiled, inputs):
    """A graph for each size. The pool is shared, the largest comes first, and results are not kept, so that all use the same
    memory."""
    import torch

    with torch.cuda.stream(torch.cuda.Stream()):
        for n in SIZES:
            for _ in range(2):
                compiled(*inputs[n])
    torch.cuda.synchronize()
    graphs, pool = {}, None
    for n in SIZES:
        graphs[n] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[n], pool=pool):
            compiled(*inputs[n])
        pool = graphs[n].pool()
    return lambda n: graphs[n].replay()


def record(compiled, inputs):
    """Inductor runs a size once, records a graph at its second run, and replays it from then on."""
    import torch

    def run(n):
        torch.compiler.cudagraph_mark_step_begin()
        compiled(*inputs[n])

    for n in SIZES:
        for _ in range(3):
            run(n)
    return run


def torch_main(way, name):
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()  # others' compilations are there otherwise
    import torch
    import torch._inductor.config as config

    config.freezing = True
    config.triton.cudagraph_dynamic_shape_warn_limit = None
    torch._dynamo.config.recompile_limit = 2 * LARGEST
    torch.backends.cudnn.benchmark = True
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    say(bare=True)
    sys.stdin.readline()
    network, inputs = to_gpu(*peer_network(name, LARGEST))
    views = {n: [x[:n] for x in inputs] for n in SIZES}
    way, _, only = way.partition("-")
    for x in sum(views.values(), []) if only else []:
        torch._dynamo.mark_static(x, list(range(1, x.dim())))
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.inference_mode():
        mode = {"captured": None, "trees": "reduce-overhead"}[way]
        run = {"captured": capture, "trees": record}[way](torch.compile(network, dynamic=True, mode=mode), views)
        run(1)
        torch.cuda.synchronize()
        ready = time.perf_counter() - start
        torch.cuda.empty_cache()
        say(ready_ms=1e3 * ready, reserved_bytes=torch.cuda.memory_reserved())
        answer(run, torch.cuda.synchronize)


def onnxruntime_main(model, threads):
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    say(bare=True)
    sys.stdin.readline()
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    ready = time.perf_counter() - start
    random_numbers = np.random.default_rng(0)
    largest = {}
    for x in session.get_inputs():
        dims = [{"batch": LARGEST, "sequence": SEQUENCE["bert_base"]}[d] if isinstance(d, str) else d for d in x.shape]
        largest[x.name] = {"tensor(float)": lambda: random_numbers.standard_normal(dims, dtype=np.float32),
                           "tensor(int64)": lambda: random_numbers.integers(0, 1000, dims)}[x.type]()
        if "mask" in x.name:
            largest[x.name][:] = 1
    feeds = {n: {name: x[:n] for name, x in largest.items()} for n in SIZES}
    session.run(None, feeds[LARGEST])
    say(ready_ms=1e3 * ready)
    answer(lambda n: session.run(None, feeds[n]), lambda: None)


def peer_main(way, network, threads):
    if way == "onnxruntime":
        onnxruntime_main(network, threads)
    else:
        torch_main(way, network)


# ---- Both sides


def gpu_bytes(pid):
    """What the driver says that a process uses of the GPU; None where it does not say."""
    out = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                         capture_output=True, text=True)
    for line in out.stdout.splitlines():
        row = [cell.strip() for cell in line.split(",")]
        if row[0] == str(pid) and row[-1].isdigit():
            return int(row[-1]) * MIB
    return None


def peak_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return None


class Engine(Child):
    """A process that answers streams of sizes. It prepares them when it is told to go."""

    def __init__(self, title, command, args, on_gpu):
        super().__init__((["taskset", "-c", args.cpus] if args.cpus else []) + [str(part) for part in command])
        self.title, self.on_gpu, self.build_s = title, on_gpu, None
        self.ms = {"random": [], "sorted": []}

    def go(self):
        self.hear()
        self.bare = gpu_bytes(self.process.pid) if self.on_gpu else None
        self.tell("")

    def become_ready(self, until=None):
        self.figures = self.hear(until)
        if not self.on_gpu:
            return
        if self.bare is not None:
            self.memory, self.counted = gpu_bytes(self.process.pid) - self.bare, "driver"
        elif "gpu_bytes" in self.figures:
            self.memory, self.counted = self.figures["gpu_bytes"], "device"
        else:
            self.memory, self.counted = self.figures["reserved_bytes"], "reserved"

    def measure(self, order, stream):
        """Adds the ms of a run."""
        self.tell(" ".join(map(str, stream)))
        figures = self.hear()
        if figures.get("captures"):
            raise RuntimeError(f"{self.title}: {figures['captures']} captures within a stream of sizes known")
        self.ms[order].append(figures["ms"])


def build(args, name, model):
    engine = args.work / f"{name}-stream.ingot"
    command = [args.ingot, "build", model, "-o", engine, "-q", "--target", args.target, "--shape", f"batch=1:8:{LARGEST}"]
    if name == "bert_base":
        command += ["--shape", f"sequence={SEQUENCE['bert_base']}"]
    if not args.cpu:
        command += ["--precision", "fp16"]
    start = time.monotonic()
    subprocess.run([str(part) for part in command + args.build_option], check=True)
    return engine, time.monotonic() - start


def start_ingot(args, name, model):
    file, seconds = build(args, name, model)
    server = args.size_server or pathlib.Path(args.ingot).parent / "bench" / "size_server"
    engine = Engine("Ingot", [server, args.threads, file], args, not args.cpu)
    engine.build_s = seconds
    engine.go()
    engine.become_ready()
    return engine


def start_peer(args, way, name, model):
    command = [sys.executable, __file__, "--peer", way, model if args.cpu else name, args.threads]
    return Engine(WAYS[way], command, args, not args.cpu)


def start_all(args, names):
    """Ingot first, one network at a time, so that nothing else is on the GPU. Then all peers at once, which compile for
    long. One that fails is left out."""
    models = {name: materialize(args, name, args.work) / "model.onnx" for name in names}
    engines = {name: [start_ingot(args, name, models[name])] for name in names}
    peers = [(name, start_peer(args, way, name, models[name])) for name in names for way in args.peers]
    for _, peer in peers:
        peer.go()
    until = time.monotonic() + args.patience
    for name, peer in peers:
        try:
            peer.become_ready(until)
            engines[name].append(peer)
            print(f"{name}, {peer.title}: ready", file=sys.stderr, flush=True)
        except RuntimeError as failure:
            print(failure, file=sys.stderr)
    return engines


def compare(args, engines):
    print("measuring", file=sys.stderr, flush=True)
    draw = random.Random(args.seed)
    stream = [draw.randint(1, LARGEST) for _ in range(args.runs)]
    orders = {"random": stream, "sorted": sorted(stream)}
    for rivals in engines.values():
        for _ in range(args.rounds):
            for order, sizes in orders.items():
                for engine in rivals:
                    time.sleep(args.pause)  # threads of the one before may still spin
                    engine.measure(order, sizes)
        for engine in rivals:
            if args.cpu:
                engine.memory, engine.counted = peak_bytes(engine.process.pid), "resident"
    return stream


# ---- The report


def table(engines):
    lines = ["| network | engine | built in, s | all 32 sizes ready, s | random order, ms a run | sorted, ms a run "
             "| memory, MiB | counted by |", "|---" * 8 + "|"]
    for name, rivals in engines.items():
        for e in rivals:
            lines.append(f"| {name} | {e.title} | {'-' if e.build_s is None else f'{e.build_s:.1f}'} | "
                         f"{1e-3 * e.figures['ready_ms']:.3f} | {statistics.median(e.ms['random']):.3f} | "
                         f"{statistics.median(e.ms['sorted']):.3f} | {e.memory / MIB:.0f} | {e.counted} |")
    return lines


def ratios(engines):
    lines = ["| network | peer | its time / Ingot's, random order | sorted | its memory / Ingot's |", "|---" * 5 + "|"]
    times = []
    for name, (ingot, *peers) in engines.items():
        for peer in peers:
            by_order = [statistics.median(b / a for a, b in zip(ingot.ms[order], peer.ms[order])) for order in ingot.ms]
            times.append(by_order[0])
            lines.append(f"| {name} | {peer.title} | {by_order[0]:.3f} | {by_order[1]:.3f} | "
                         f"{peer.memory / ingot.memory:.2f} |")
    if times:
        lines.append(f"\nGeometric mean of the random orders: **{geometric_mean(times):.3f}**, least {min(times):.3f}.")
    return lines


COUNTED = {
    "driver": "driver: what the driver says that the process uses, less what it used with nothing but a CUDA context",
    "device": "device: the growth of the GPU's used memory, while nothing else ran",
    "reserved": "reserved: PyTorch's own pools alone, without graphs, libraries and code",
    "resident": "resident: the peak of the process's resident memory, weights included",
}


def report(args, engines, stream):
    counted = sorted({e.counted for rivals in engines.values() for e in rivals})
    where = machine() if args.cpu else gpu()
    threads = f", {args.threads} threads" if args.cpu else ""
    ingot = [f"- {name}: loaded in {f['load_ms']:.1f} ms, context {f['create_ms']:.1f} ms, sizes {f['prepare_ms']:.1f} ms; "
             f"plans {f['plan_bytes'] / MIB:.1f} MiB" for name, f in ((name, e[0].figures) for name, e in engines.items())]
    lines = [f"# A stream of batch sizes, {args.target}{threads}, {datetime.date.today()}", "",
             f"Machine: {where}, {os.cpu_count()} cores{f', pinned to {args.cpus}' if args.cpus else ''}", "",
             f"Command: `bench/compare_stream.py {shlex.join(sys.argv[1:])}`", "",
             f"{len(stream)} runs a stream, sizes 1 to {LARGEST}, seed {args.seed}, {statistics.mean(stream):.1f} on average; "
             f"{args.rounds} interleaved rounds, medians.", "", *table(engines), "", *ratios(engines), "",
             "Memory is counted by:",
             *(f"- {COUNTED[c]}" for c in counted), "", "Ingot's time until all sizes are ready:", *ingot]
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["--peer"]:
        peer_main(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ingot", default=str(ROOT / "build" / "ingot"))
    parser.add_argument("--size-server", help="default: bench/size_server beside ingot")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--target", default="cuda", help="cuda or cpu, with or without an architecture")
    parser.add_argument("--networks", help="default: all that the target has")
    parser.add_argument("--peers", help="of " + ", ".join(WAYS) + "; default: all of the target; '': none")
    parser.add_argument("--patience", type=float, default=600, help="seconds; peers that compile for longer are left out")
    parser.add_argument("--runs", type=int, help="of a stream (default: 1000 on a GPU, 32 on the CPU)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="that compute, on the CPU")
    parser.add_argument("--cpus", help="pins the engines' processes to these, such as 2,3")
    parser.add_argument("--build-option", action="append", default=[], help="handed to ingot build; repeatable")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "ingot-bench")
    parser.add_argument("--output", type=pathlib.Path, help="the report (default: standard output)")
    args = parser.parse_args()
    args.cpu = args.target.startswith("cpu")
    kind = "cpu" if args.cpu else "cuda"
    args.runs = args.runs or (32 if args.cpu else 1000)
    args.pause = 0.1 if args.cpu else 0
    args.peers = PEERS[kind] if args.peers is None else [way for way in args.peers.split(",") if way]
    args.work.mkdir(parents=True, exist_ok=True)
    engines = start_all(args, args.networks.split(",") if args.networks else NETWORKS[kind])
    text = report(args, engines, compare(args, engines))
    for rivals in engines.values():
        for engine in rivals:
            engine.close()
    if args.output:
        args.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
