#!/usr/bin/env python3
"""One engine for many shapes beside an engine built for each: times, build times and sizes of files.

For every network, one engine is built with ranges for its symbols, and one for each of the sizes alone. Each round runs the
two at each size in turn; medians over the rounds, and the median of the rounds' ratios, are printed and written to a report.
For a GPU the time is the GPU's own, of a run behind another; for a CPU it is the latency, measured by two processes that
take turns of --seconds each, or of one run. On the CPU several sizes can be measured at once, each on processors of its own
(--cpus). Nothing is tuned.
"""
import argparse
import concurrent.futures
import contextlib
import datetime
import itertools
import json
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile
import time

from compare import ROOT, Child, geometric_mean, materialize

BATCHES = [1, 2, 4, 8, 16, 24, 32]
LENGTHS = [16, 64, 128, 384, 512]
# name: (network, symbols: (range, sizes))
CASES = {
    "resnet50": ("resnet50", {"batch": ("1:8:32", BATCHES)}),
    "bert_base": ("bert_base", {"batch": ("1:8:32", BATCHES), "sequence": ("128", [128])}),
    "bert_base by length": ("bert_base", {"batch": ("1:8:32", [1, 8, 32]), "sequence": ("16:128:512", LENGTHS)}),
    "vit_b_16": ("vit_b_16", {"batch": ("1:8:32", BATCHES)}),
    "mobilenet_v2": ("mobilenet_v2", {"batch": ("1:8:32", BATCHES)}),
    "efficientnet_b0": ("efficientnet_b0", {"batch": ("1:8:32", BATCHES)}),
}


def options(args):
    return ["--target", args.target] + (["--precision", args.precision] if args.precision else [])


def pinned(cpus, command):
    return (["taskset", "-c", cpus] if cpus else []) + [str(part) for part in command]


def build(args, model, engine, shapes, cpus):
    """Seconds that the build took; the engine's bytes."""
    command = [args.ingot, "build", model, "-o", engine, "-q", "--cache", "off", *options(args), *args.build_option]
    for name, spec in shapes.items():
        command += ["--shape", f"{name}={spec}"]
    start = time.monotonic()
    subprocess.run(pinned(cpus, command), check=True)
    return time.monotonic() - start, engine.stat().st_size


def measure_gpu(args, engine, shapes):
    command = [args.ingot, "bench", engine, "--json", "--seconds", args.seconds]
    for name, size in shapes.items():
        command += ["--shape", f"{name}={size}"]
    figures = json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)
    return figures["gpu_ms"]["p50"]


class Server(Child):
    """Runs an engine with one set of shapes."""

    def __init__(self, args, engine, shapes, cpus):
        bench = pathlib.Path(args.ingot).parent / "bench" / "size_server"
        super().__init__(pinned(cpus, [bench, args.threads, engine, *(f"{s}={n}" for s, n in shapes.items())]))
        self.hear()
        self.tell("")
        self.hear()

    def run(self, size, runs):
        self.tell(f"{size} " * runs)
        return self.hear()["ms"]


def measure_turns(args, engines, size, cpus):
    """The rounds' times of two engines with their shapes, whose first axis is `size`."""
    servers = [Server(args, *engine, cpus) for engine in engines]
    runs = max(1, int(1e3 * args.seconds / max(server.run(size, 1) for server in servers)))
    times = []
    for i in range(args.rounds):
        turn = [(server, server.run(size, runs)) for server in (servers if i % 2 else servers[::-1])]
        times.append([dict(turn)[server] for server in servers])
    for server in servers:
        server.close()
    return times


class Places:
    """Processors to work on, each pair of engines on its own, and threads that do so."""

    def __init__(self, args):
        cpus = args.cpus or [""]
        self.free = queue.SimpleQueue()
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=len(cpus))
        for place in cpus:
            self.free.put(place)

    @contextlib.contextmanager
    def take(self):
        cpus = self.free.get()
        try:
            yield cpus
        finally:
            self.free.put(cpus)


def name_of(shape):
    return ", ".join(f"{s}={v}" for s, v in shape.items())


def compare_size(args, places, case, one, alone, shape):
    """The rounds' times of both engines, and what the one for this size took to build and has."""
    network, symbols = CASES[case]
    bound = {s: v for s, v in shape.items() if ":" in symbols[s][0]}
    with places.take() as cpus:
        seconds, size = build(args, args.cache / network / "model.onnx", alone, shape, cpus)
        if args.target.startswith("cuda"):
            times = [[measure_gpu(args, one, bound), measure_gpu(args, alone, {})] for _ in range(args.rounds)]
        else:
            times = measure_turns(args, [(one, bound), (alone, {})], next(iter(shape.values())), cpus)
    alone.unlink()
    print(f"{case}, {name_of(shape)}: {statistics.median(a / b for a, b in times):.3f}", file=sys.stderr, flush=True)
    return times, seconds, size


class Case:
    """All sizes of a network, measured as places become free."""

    def __init__(self, args, places, name, folder):
        network, symbols = CASES[name]
        folder.mkdir()
        one = folder / "one.ingot"
        with places.take() as cpus:
            model = materialize(args, network, args.cache) / "model.onnx"
            self.seconds, self.size = build(args, model, one, {s: spec for s, (spec, _) in symbols.items()}, cpus)
        self.shapes = [dict(zip(symbols, values)) for values in itertools.product(*(sizes for _, sizes in symbols.values()))]
        self.jobs = [places.pool.submit(compare_size, args, places, name, one, folder / f"{i}.ingot", shape)
                     for i, shape in reversed(list(enumerate(self.shapes)))]  # the largest take longest

    def results(self):
        results = [job.result() for job in reversed(self.jobs)]
        rows = [(name_of(shape), *map(statistics.median, zip(*times)), statistics.median(a / b for a, b in times))
                for shape, (times, _, _) in zip(self.shapes, results)]
        return {"rows": rows, "seconds": self.seconds, "fixed_seconds": statistics.median(r[1] for r in results),
                "size": self.size, "fixed_size": statistics.median(r[2] for r in results)}


def report(args, results, out):
    print(f"# One engine for every size beside one for each ({args.target})\n", file=out)
    print(f"{datetime.date.today()}; {args.machine}; `bench/compare_shapes.py {' '.join(sys.argv[1:])}`; medians of "
          f"{args.rounds} rounds.\n", file=out)
    print("| network | sizes | geometric mean | largest | build, s | fixed, s | ratio | bytes ratio |", file=out)
    print("|---|---|---|---|---|---|---|---|", file=out)
    for name, r in results.items():
        ratios = [ratio for *_, ratio in r["rows"]]
        print(f"| {name} | {len(ratios)} | {geometric_mean(ratios):.3f} | {max(ratios):.3f} | {r['seconds']:.1f} | "
              f"{r['fixed_seconds']:.1f} | {r['seconds'] / r['fixed_seconds']:.2f} | "
              f"{r['size'] / r['fixed_size']:.3f} |", file=out)
    for name, r in results.items():
        print(f"\n## {name}\n\n| size | one engine, ms | its own engine, ms | ratio |\n|---|---|---|---|", file=out)
        for shape, ours, alone, ratio in r["rows"]:
            print(f"| {shape} | {ours:.4f} | {alone:.4f} | {ratio:.3f} |", file=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ingot", type=pathlib.Path, default=ROOT / "build" / "ingot")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build" / "models", help="folder for filled models")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--precision", help="default: fp16 for a GPU, fp32 for a CPU")
    parser.add_argument("--networks", default=",".join(CASES), help="default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each measurement")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpus", action="append", help="CPU: processors to build and to measure on, such as 2,3; repeatable: "
                        "sizes are measured on each at the same time")
    parser.add_argument("--build-option", action="append", default=[], help="for ingot build; repeatable")
    parser.add_argument("--machine", default="this machine")
    parser.add_argument("--output", type=pathlib.Path, help="the report (default: standard output)")
    args = parser.parse_args()
    if not args.precision and args.target.startswith("cuda"):
        args.precision = "fp16"
    places, results = Places(args), {}
    with tempfile.TemporaryDirectory() as folder:
        cases = {name: Case(args, places, name, pathlib.Path(folder) / str(i))
                 for i, name in enumerate(args.networks.split(","))}
        for name, case in cases.items():
            results[name] = case.results()
            with (open(args.output, "w") if args.output else open("/dev/null", "w")) as out:
                report(args, results, out)
    report(args, results, sys.stdout)


if __name__ == "__main__":
    main()
