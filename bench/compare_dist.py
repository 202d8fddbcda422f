#!/usr/bin/env python3
"""Latency of Ingot on one GPU and on several beside PyTorch on several, and the planner's predictions.

    compare_dist.py [--ranks 2] [--cases decoder:32,bert_large:8,…] [--layers 32]

Ingot is `ingot bench` of an engine for each number of ranks; the plan is the planner's own. PyTorch is dist_peer.py, a process
for each GPU: networks divided by hand, by tensors or by their batch, Inductor, and a CUDA graph with NCCL's calls in it; where
dividing does not pay (bert_base and resnet50 of batch 1) it is one GPU; some networks have no peer here, and tell of predictions
only. All compile at once; then each case is measured in alternating
rounds. Figures are medians of GPU time of a run behind another, then of the rounds; of PyTorch's ranks the slowest counts. Every
result is whole on every GPU, on both sides. Cases that fail say why and stop no others. With --target cpu all is tried out on
processors, in fp32, end to end.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import types

from compare import ROOT, Child, geometric_mean, machine, materialize
from compare_gpu import SEQUENCE, gpu

HERE = pathlib.Path(__file__).resolve().parent
SYMBOLS = {"bert_large": {"sequence": 384}, "bert_base": {"sequence": 128}, "gpt2": {"sequence": 128},
           "llama_block8": {"step": 1, "past": 512}}
# network: how PyTorch divides it; the number behind the colon: layers, or the batch
NETWORKS = {"decoder": "tensor", "mixture": "tensor", "bert_large": "batch", "vit_b_16": "batch", "bert_base": "single",
            "resnet50": "single", "gpt2": "none", "llama_block8": "none", "convnext_tiny": "none", "mobilenet_v2": "none"}
CASES = "decoder:32,bert_large:8,vit_b_16:32,bert_base:1,resnet50:1,mixture:4"
STACKS = {
    "decoder": dict(hidden=4096, heads=32, kv_heads=32, inner=11008, words=32000, tokens=1, past=512, experts=0),
    "mixture": dict(hidden=2048, heads=16, kv_heads=4, inner=5632, words=32000, tokens=16, past=512, experts=8, top=2),
}
SMALL = dict(hidden=128, heads=4, kv_heads=4, inner=352, words=1000, past=16)  # instead, on processors


class Case:
    """A network with its engines and its peer, whose processes compile from the beginning."""

    def __init__(self, text, args):
        self.network, _, number = text.partition(":")
        if self.network not in NETWORKS:
            sys.exit(f"there is no case {self.network}: cases are {', '.join(NETWORKS)}")
        self.number, self.args = int(number or 1), args
        self.name, self.ways = f"{self.network} {self.number}", NETWORKS[self.network]
        self.stack = None
        if self.ways == "tensor":
            self.stack = dict(STACKS[self.network], **(SMALL if args.cpu else {}), layers=self.number)
        self.peers, self.ready, self.notes, self.engines = [], None, [], {}
        self.times = {"one": [], "several": [], "peer": []}
        self.reports = {}

    def note(self, text):
        self.notes.append(text)
        print(f"- {self.name}: {text}", flush=True)

    # ---- The peer

    def start_peer(self):
        if self.ways == "none":
            return
        self.peer_ranks = 1 if self.ways == "single" else self.args.ranks
        case = self.stack or {"network": self.network, "batch": self.number}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for rank in range(self.peer_ranks):
            log = open(self.args.work / f"peer-{self.network}-{rank}.log", "wb")
            own = {"RANK": str(rank), "WORLD_SIZE": str(self.peer_ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            command = [self.args.python, HERE / "dist_peer.py", json.dumps(case), "cpu" if self.args.cpu else "cuda"]
            self.peers.append(Child(command, env={"TORCHINDUCTOR_COMPILE_THREADS": "4", **os.environ, **own}, stderr=log))

    def end_peer(self):
        for peer in self.peers:
            peer.process.kill()
            peer.process.wait()
        self.peers = []

    def hear_peer(self, until):
        try:
            return [peer.hear(until) for peer in self.peers]
        except RuntimeError as error:
            text = (self.args.work / f"peer-{self.network}-0.log").read_text(errors="replace").strip().splitlines()
            what = "took too long" if "too long" in str(error) else "ended"
            self.note(f"PyTorch {what}: {text[-1] if text else 'no message'} (log: peer-{self.network}-*.log)")
            self.end_peer()
            return None

    def await_peer(self, until):
        self.ready = self.hear_peer(until) if self.peers else None

    def measure_peer(self):
        if not self.peers or not self.ready:
            return
        ms = max(told["ms"] for told in self.ready)
        for peer in self.peers:
            peer.tell(max(10, int(1e3 * self.args.seconds / ms / 2)))
        told = self.hear_peer(time.monotonic() + 60)
        if told:
            self.times["peer"].append(max(one["ms"] for one in told))

    # ---- Ingot

    def model(self):
        args = self.args
        if not self.stack:
            return materialize(args, self.network, args.work) / "model.onnx"
        path = args.work / f"{self.network}-{self.number}.onnx"
        sizes = [f"--{key.replace('_', '-')}={value}" for key, value in self.stack.items() if value]
        if not path.exists():
            subprocess.run([args.python, HERE / "dist_networks.py", self.network, path, "--bits", "32" if args.cpu else "16",
                            *sizes], check=True)
        return path

    def build(self):
        args = self.args
        begin, model = time.time(), self.model()
        self.model_s = time.time() - begin
        for ranks in (1, args.ranks):
            engine = args.work / f"{self.network}-{self.number}-of-{ranks}.ingot"
            command = [args.ingot, "build", str(model), "-o", str(engine), "--quiet", "--cache", "off", "--target", args.target,
                       "--precision", args.precision, "--ranks", str(ranks)]
            if not self.stack:
                symbols = {"batch": self.number, **SYMBOLS.get(self.network, {})}
                command += [word for name, size in symbols.items() for word in ("--shape", f"{name}={size}")]
            begin = time.time()
            if not (args.reuse and engine.exists()):
                built = subprocess.run(command + args.build_option, capture_output=True, text=True)
                if built.returncode:
                    self.note(f"cannot build for {ranks}: {built.stderr.strip()}")
                    continue
            self.engines[ranks] = engine
            self.reports[f"build_s_{ranks}"], self.reports[f"bytes_{ranks}"] = time.time() - begin, engine.stat().st_size
            self.reports[f"plan_{ranks}"] = self.plan(engine, ranks)

    def plan(self, engine, ranks):
        """The strategy, and the predicted time in ms, of an engine for so many ranks."""
        out = subprocess.run([self.args.ingot, "inspect", str(engine), "--json"], capture_output=True, text=True, check=True)
        told = json.loads(out.stdout)
        for sharding in told["sharding"]:
            if sharding["ranks"] == ranks:
                kernels = sharding.get("kernels_us", 0)  # only of GPUs
                us = kernels + sharding["links_us"] if kernels else sharding["us"]
                return {"strategy": sharding["strategy"], "predicted_ms": us / 1e3,
                        "collectives": sharding["collectives"], "considered": sharding["considered"]}
        return {"strategy": "none", "predicted_ms": told["figures"]["estimate_us"] / 1e3}

    def measure_ingot(self, key, ranks):
        if ranks not in self.engines:
            return
        command = [self.args.ingot, "bench", str(self.engines[ranks]), "--json", "--seconds", str(self.args.seconds), "--ranks",
                   str(ranks), *self.args.bench_option]
        try:
            out = subprocess.run(command, capture_output=True, text=True, timeout=180)
        except subprocess.TimeoutExpired:
            out = types.SimpleNamespace(returncode=1, stderr="took too long")
        if out.returncode:
            self.note(f"ingot bench with {ranks} ranks: {out.stderr.strip()}")
            del self.engines[ranks]  # once is enough
            return
        report = json.loads(out.stdout)
        self.reports[f"bench_{ranks}"] = report
        self.times[key].append(report["latency_ms" if self.args.cpu else "gpu_ms"]["p50"])

    def measure(self):
        for _ in range(self.args.rounds):
            self.measure_ingot("one", 1)
            self.measure_ingot("several", self.args.ranks)
            self.measure_peer()
        self.end_peer()

    # ---- Reporting

    def median(self, key):
        return statistics.median(self.times[key]) if self.times[key] else None

    def ratio(self, a, b):
        """Of two series, round by round."""
        pairs = list(zip(self.times[a], self.times[b]))
        return statistics.median(x / y for x, y in pairs) if pairs else None

    def predictions(self):
        """For one rank and for several: the predicted time over the measured one."""
        for key, ranks in (("one", 1), ("several", self.args.ranks)):
            plan = self.reports.get(f"plan_{ranks}")
            yield plan["predicted_ms"], plan["predicted_ms"] / self.median(key) if plan and self.times[key] else None

    def row(self):
        def text(value, digits=3):
            return "-" if value is None else f"{value:.{digits}f}"

        plan = self.reports.get(f"plan_{self.args.ranks}", {})
        cells = [self.name, plan.get("strategy", "-"), text(self.median("one")), text(self.median("several")),
                 text(self.ratio("one", "several"), 2), f"{text(self.median('peer'))} ({NETWORKS[self.network]})",
                 text(self.ratio("peer", "several"), 2)]
        for ms, share in (self.predictions() if len(self.engines) == 2 else ((None, None),) * 2):
            cells.append(f"{text(ms)} ({100 * (share - 1):+.0f}%)" if share else text(ms))
        return "| " + " | ".join(cells) + " |"


def judge(cases):
    """How many networks are predicted within 15%, on one GPU and on several."""
    told = []
    for key, name in ((0, "one"), (1, "several")):
        shares = [share for case in cases if len(case.engines) == 2 for share in [list(case.predictions())[key][1]] if share]
        told.append(f"{sum(abs(share - 1) <= 0.15 for share in shares)} of {len(shares)} on {name}")
    return "Predicted within 15%: " + ", ".join(told) + "."


def header(ranks):
    return (f"| network | plan for {ranks} | Ingot ms, 1 | Ingot ms, {ranks} | times as fast | PyTorch ms (divided by) "
            f"| PyTorch / Ingot | predicted ms, 1 | predicted ms, {ranks} |\n" + "|---" * 9 + "|")


def write(args, cases):
    """All that is known so far."""
    found = {case.name: {"times_ms": case.times, "ratio": case.ratio("one", "several"),
                         "peer_ratio": case.ratio("peer", "several"), "peer": case.ready and case.ready[0]["versions"], "notes": case.notes, **case.reports} for case in cases}
    args.output.write_text(json.dumps({"date": str(datetime.date.today()), "machine": machine() if args.cpu else gpu(), "ranks":
                                       args.ranks, "command": sys.argv[1:], "cases": found}, indent=1) + "\n")


def run(args, cases):
    end = time.monotonic() + args.until
    for case in cases if not args.no_peer else ():
        case.start_peer()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        building = {case: pool.submit(case.build) for case in cases}
        for case in cases:
            try:
                building[case].result()
            except (subprocess.CalledProcessError, OSError, KeyError) as error:
                case.note(f"{type(error).__name__}: {error}")
    print(f"built after {args.until - end + time.monotonic():.0f} s", flush=True)
    for case in cases:
        case.await_peer(min(end, time.monotonic() + args.patience))
    print(f"all ready after {args.until - end + time.monotonic():.0f} s\n{header(args.ranks)}", flush=True)
    for case in cases:
        if time.monotonic() < end:
            case.measure()
            print(case.row(), flush=True)
        else:
            case.note("not measured: --until has passed")
        write(args, cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ingot", default=str(ROOT / "build" / "ingot"))
    parser.add_argument("--models", type=pathlib.Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--ranks", type=int, default=2, help="how many GPUs")
    parser.add_argument("--cases", default=CASES, help="with layers or the batch behind the colon: " + CASES)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--build-option", action="append", default=[], help="handed to ingot build; repeatable")
    parser.add_argument("--bench-option", action="append", default=[], help="handed to ingot bench; repeatable")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--python", default=sys.executable, help="that has torch, torchvision, transformers, onnx and numpy")
    parser.add_argument("--patience", type=float, default=300, help="seconds that a peer may take beyond the builds")
    parser.add_argument("--until", type=float, default=3600, help="seconds after which no case begins")
    parser.add_argument("--reuse", action="store_true", help="engines that are in --work already")
    parser.add_argument("--jobs", type=int, default=3, help="networks that are written and built at once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "ingot-bench")
    parser.add_argument("--output", type=pathlib.Path, help="JSON; default: dist.json in --work")
    args = parser.parse_args()
    args.cpu = args.target.startswith("cpu")
    args.precision = "fp32" if args.cpu else args.precision
    args.work.mkdir(parents=True, exist_ok=True)
    args.output = args.output or args.work / "dist.json"
    cases = [Case(text, args) for text in args.cases.split(",")]
    try:
        run(args, cases)
    finally:
        for case in cases:
            case.end_peer()
    print(f"\n{header(args.ranks)}")
    for case in cases:
        print(case.row())
    print("\n" + judge(cases))
    ratios = [r for case in cases if (r := case.ratio("peer", "several"))]
    if ratios:
        print(f"\nGeometric mean of PyTorch / Ingot: {geometric_mean(ratios):.2f}. Written to {args.output}")


if __name__ == "__main__":
    main()
