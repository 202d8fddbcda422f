#!/usr/bin/env python3
"""torch.compile(backend="ingot") beside Inductor, as a program of PyTorch sees them: calls of the compiled module.

    PYTHONPATH=build/python python3 bench/compare_torch.py [--device cpu] [--batch N] [--networks NAME,...]

A process for each network compiles it with each way in turn, all networks at once; when all are ready, each measures its
ways in alternating rounds: the wall time of a call (synchronised, median), the wall time and the GPU's time of a call among
many. On a GPU the modules are in half precision, and the peers are the modes "reduce-overhead" and "max-autotune"; on the
CPU they are in fp32, and the peer is Inductor with frozen weights. Compile times are those of the first call, in an empty
cache, with the other networks' compilers at work.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import compare_gpu
from compare import Child, geometric_mean

NETWORKS = ["resnet50", "bert_base", "gpt2", "vit_b_16", "mobilenet_v2", "mlp_16x512"]
WAYS = {"cuda": ["ingot", "default", "reduce-overhead", "max-autotune"], "cpu": ["ingot", "freezing"]}


def compiled(network, way, threads):
    import ingot.torch
    import torch

    if way == "ingot":
        options = {"strict": True, **({"threads": threads} if threads else {})}
        return torch.compile(network, backend=ingot.torch.backend, dynamic=False, options=options)
    return torch.compile(network, dynamic=False, mode=way if "-" in way else None)


class Way:
    """A network compiled one way."""

    def __init__(self, network, inputs, way, threads):
        import torch
        import torch._inductor.config

        self.call, self.inputs = compiled(network, way, threads), inputs
        self.wait = torch.cuda.synchronize if inputs[0].is_cuda else lambda: None
        begin = time.perf_counter()
        with torch._inductor.config.patch(freezing=way == "freezing"):
            result = self.call(*inputs)
        self.wait()
        self.compile_s = time.perf_counter() - begin
        # Copies, since Inductor's next call overwrites them.
        self.result = [x.clone() for x in (result if isinstance(result, (tuple, list)) else [result])]
        for _ in range(3):  # graphs are captured by later calls
            self.call(*inputs)
        self.wait()

    def measure(self, seconds):
        import torch

        call, inputs, wait = self.call, self.inputs, self.wait
        times, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 10:
            begin = time.perf_counter()
            call(*inputs)
            wait()
            times.append(time.perf_counter() - begin)
        found = {"wall": statistics.median(times) * 1e3}
        if not inputs[0].is_cuda:
            return found
        count = max(10, int(seconds / found["wall"] * 1e3))
        begin = time.perf_counter()
        for _ in range(count):
            call(*inputs)
        wait()
        found["many"] = (time.perf_counter() - begin) / count * 1e3
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(20_000_000)  # so that the host is ahead
        start.record()
        for _ in range(20):
            call(*inputs)
        stop.record()
        stop.synchronize()
        found["gpu"] = start.elapsed_time(stop) / 20
        return found


def worst_difference(ways):
    """Of Ingot's results from a peer's, as a share of the largest value."""
    first, second = (w.result for w in ways[:2])
    return max(float((a.float() - b.float()).abs().max() / max(b.float().abs().max(), 1e-30)) for a, b in zip(first, second))


def network_main(name, args):
    """Compiles, tells how long that took, then answers each line with figures of each way."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()  # before torch is imported
    import torch

    network, inputs = compare_gpu.peer_network(name, args.batch)
    if args.device == "cuda":
        network, inputs = compare_gpu.to_gpu(network, inputs)
        torch.backends.cudnn.benchmark = True
    elif args.threads:
        torch.set_num_threads(args.threads)
    network.eval()
    ways, failed = {}, {}
    with torch.inference_mode():
        for way in args.ways:
            try:
                ways[way] = Way(network, inputs, way, args.threads)
            except Exception as error:
                failed[way] = f"{type(error).__name__}: {str(error)[:300]}"
        ready = {"compile": {w: x.compile_s for w, x in ways.items()}, "failed": failed}
        if len(ways) > 1:
            ready["difference"] = worst_difference(list(ways.values()))
        print(json.dumps(ready), flush=True)
        for line in sys.stdin:
            print(json.dumps({w: x.measure(float(line)) for w, x in ways.items()}), flush=True)


def median_ratio(rounds, way, figure):
    return statistics.median(r["ingot"][figure] / r[way][figure] for r in rounds)


def report(name, ready, rounds, args):
    """Prints a network's rows; returns way -> figure -> ratio."""
    for way, reason in ready["failed"].items():
        print(f"- {name}: {way} failed: {reason}\n")
    ratios = {}
    for way, seconds in ready["compile"].items():
        cells = [name, way, f"{seconds:.1f}"]
        for figure in args.figures:
            cells.append(f"{statistics.median(r[way][figure] for r in rounds):.3f}")
        if way != "ingot" and "ingot" in ready["compile"]:
            ratios[way] = {f: median_ratio(rounds, way, f) for f in args.figures}
            cells += [f"{ratios[way][f]:.2f}" for f in args.figures]
        print("| " + " | ".join(cells) + " |")
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=lambda s: s.split(","), default=NETWORKS)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--ways", type=lambda s: s.split(","))
    parser.add_argument("--threads", type=int, help="on the CPU")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="a round of one way")
    parser.add_argument("--patience", type=float, default=3600, help="seconds for all compilers; what is not ready then is left out")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.ways = args.ways or WAYS[args.device]
    args.figures = ["wall", "many", "gpu"] if args.device == "cuda" else ["wall"]
    if args.child:
        return network_main(args.child, args)
    options = ["--batch", args.batch, "--device", args.device, "--ways", ",".join(args.ways)]
    options += ["--threads", args.threads] if args.threads else []
    start = lambda name: Child([sys.executable, __file__, "--child", name, *options])
    # One after the other where they would take each other's processors.
    children = {name: start(name) for name in args.networks} if args.device == "cuda" else {}
    print("| network | way | compile s | " + " | ".join(f"{f} ms" for f in args.figures) + " | "
          + " | ".join(f"{f} ratio" for f in args.figures) + " |\n|" + "---|" * (3 + 2 * len(args.figures)))
    until, ready, ratios = time.monotonic() + args.patience, {}, {}
    for name, child in children.items():
        try:
            ready[name] = child.hear(until)
        except RuntimeError as error:
            child.process.kill()
            print(f"- {name}: {error}\n")
    for name in ready if children else args.networks:
        child = children.get(name) or start(name)
        told = ready.get(name) or child.hear()
        rounds = []
        for _ in range(args.rounds):
            child.tell(args.seconds)
            rounds.append(child.hear())
        child.close()
        ratios[name] = report(name, told, rounds, args)
        print(f"{name}: results differ by {told.get('difference', 0):.1e} of the largest", file=sys.stderr, flush=True)
    for way in args.ways[1:]:
        means = [f"{f} {geometric_mean([r[way][f] for r in ratios.values() if way in r]):.2f}" for f in args.figures
                 if any(way in r for r in ratios.values())]
        print(f"\nbeside {way}: geometric mean of the ratios: {', '.join(means)}")


if __name__ == "__main__":
    main()
