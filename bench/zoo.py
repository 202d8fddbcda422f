#!/usr/bin/env python3
"""The zoo: exports, verifies and measures the architectures of zoo/zoo_list.py. See bench/README.md.

Each command takes the cases that have no result yet, one after the other, and keeps what it found, a failure's message too, as
a file in WORK/results/COMMAND; so it can be run in slices and again.
"""
import argparse
import collections
import contextlib
import datetime
import json
import math
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import compare
import compare_gpu
from compare import ROOT, Child, geometric_mean

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "zoo"))
import zoo_list
import zoo_onnx
import zoo_torch

EXPORTERS = ("dynamo", "torchscript")
BATCH = 2  # what symbolic batches are verified with


class Failed(Exception):
    """What goes wrong with one network; its text becomes the result."""


def run(command, seconds=None, **options):
    """What a command prints; Failed with its last words if it fails or takes too long."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds, **options)
    except subprocess.TimeoutExpired:
        raise Failed(f"took longer than {seconds} s") from None
    if done.returncode < 0:
        raise Failed(signal.strsignal(-done.returncode))
    if done.returncode:
        raise Failed(last_words(done.stderr) or last_words(done.stdout))
    return done.stdout


def last_words(text):
    """The last exception of Python's and what it says, or else the last lines."""
    raised = [m.start() for m in re.finditer(r"^[\w.]+(Error|Exception|Exit|Interrupt)\b", text, re.MULTILINE)]
    return text[raised[-1]:][:1500] if raised else "\n".join(text.strip().splitlines()[-8:])[-1500:]


# ---- Cases and results


class Results:
    def __init__(self, args, name):
        self.folder = args.work / "results" / name
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, case):
        return self.folder / ("-".join(map(str, case)) + ".json")

    def has(self, case):
        return self.path(case).exists()

    def put(self, case, result):
        """A case is a tuple of strings and numbers; a result a dict, with "error" if it failed."""
        unfinished = self.path(case).with_suffix(".part")
        unfinished.write_text(json.dumps({"case": case, "date": str(datetime.date.today()), **result}, indent=1) + "\n")
        unfinished.rename(self.path(case))
        print(*case, result.get("error", result.get("summary", "")), sep="\t", flush=True)

    def all(self):
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]


def names(args):
    """What --only and --slice leave of the list."""
    known = zoo_list.networks()
    chosen = args.only.split(",") if args.only else list(known)
    for name in chosen:
        if name not in known:
            sys.exit(f"no network {name}")
    i, _, n = args.slice.partition("/")
    return chosen[int(i) - 1::int(n)]


def each(args, results, cases, measure, jobs=1):
    """Takes one case after the other, or `jobs` at once, until the time is over."""
    def one(case):
        if time.monotonic() > args.until:
            return
        try:
            result = measure(*case)
        except Exception as error:  # one network's failure is a result
            result = {"error": str(error) or repr(error)}
        results.put(case, result)

    with ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(one, [case for case in cases if args.again or not results.has(case)]):
            pass


def child(args, function, *arguments):
    """One of the functions named in CHILDREN, in a process of its own with its share of the processors."""
    run([sys.executable, __file__, "--child", function, *arguments], args.patience,
        env={**os.environ, "OMP_NUM_THREADS": str(threads(args))})


def threads(args):
    return max(1, os.cpu_count() // args.jobs)


# ---- Models


def model_path(args, name, exporter, batch=None):
    """A network with a symbolic batch, or if the exporter fixed it, with this one; Failed if there is neither."""
    for folder in (exporter, f"{exporter}-{batch}"):
        path = args.work / "models" / name / folder / "model.onnx"
        if path.exists():
            return path
    raise Failed(f"there is no model of {exporter}")


@contextlib.contextmanager
def filled(args, path):
    """A model with its weights beside it, which are removed again unless they are to stay."""
    zoo_onnx.fill(path)
    yield path
    if not args.keep:
        path.with_name(path.name + ".data").unlink(missing_ok=True)


@contextlib.contextmanager
def data_folder(path):
    """Where `ingot verify` finds data beside a model."""
    folder = path.parent / "test_data_set_0"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def exporters(args):
    return EXPORTERS if args.exporter == "any" else (args.exporter,)


def exporter_of(args, name):
    """The first one that could export a network."""
    for exporter in exporters(args):
        with contextlib.suppress(Failed):
            model_path(args, name, exporter, 1)
            return exporter
    raise Failed("no exporter wrote it")


def batches(args, name):
    large = zoo_list.networks()[name].large
    return [large if batch == "large" else int(batch) for batch in args.batches.split(",")]


def build(args, path, batch, engine, *options):
    run([args.ingot, "build", path, "-o", engine, "-q", "--target", args.target, "--precision", args.precision,
         *(["--shape", f"batch={batch}"] if is_symbolic(path) else []), *options], args.patience)


def is_symbolic(path):
    return path.parent.name in EXPORTERS


# ---- export


def export(args):
    def measure(name, exporter):
        start, folder = time.monotonic(), args.work / "models" / name
        try:
            child(args, "export", name, exporter, folder / exporter)
            return {"seconds": time.monotonic() - start}
        except Failed as error:
            why = str(error)
        for batch in sorted({1, zoo_list.networks()[name].large}):
            child(args, "export", name, exporter, folder / f"{exporter}-{batch}", batch)
        return {"seconds": time.monotonic() - start, "fixed": why, "summary": "with fixed batches"}

    each(args, Results(args, "export"), [(n, e) for e in exporters(args) for n in names(args)], measure, args.jobs)


def export_child(name, exporter, folder, batch=None):
    zoo_onnx.export(zoo_list.networks()[name], exporter, batch and int(batch), pathlib.Path(folder) / "model.onnx")


# ---- verify


def verify(args):
    def measure(name, exporter):
        path = model_path(args, name, exporter, 1)
        with filled(args, path), data_folder(path) as data:
            child(args, "outputs", name, path, BATCH if is_symbolic(path) else 1, data)
            command = [args.ingot, "verify", path.parent, "--target", args.target, "--precision", args.precision,
                       "--threads", str(threads(args)), "--timeout", str(args.patience)]
            out = subprocess.run(command, capture_output=True, text=True)
        line = (out.stdout.splitlines() or [out.stderr])[0].replace(f" {path.parent}", "")
        return {"summary": "right"} if line.startswith("passed") else {"error": line}

    written = [(n, e) for e in exporters(args) for n in names(args)
               if list((args.work / "models" / n).glob(f"{e}*/model.onnx"))]
    each(args, Results(args, f"verify-{args.target.partition(':')[0]}-{args.precision}"), written, measure, args.jobs)


def outputs_child(name, path, batch, folder):
    folder, path = pathlib.Path(folder), pathlib.Path(path)
    zoo_onnx.write_inputs(zoo_list.networks()[name], path, int(batch), folder)
    zoo_onnx.write_outputs(path, folder)


# ---- torch


TOLERANCE = {"fp32": 1e-3, "fp16": 3e-2, "bf16": 2e-1}  # of the largest difference, relative to the largest magnitude


def torch(args):
    def measure(name, way):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "row.json"
            child(args, "torch", name, way, args.precision, args.target, path)
            row = json.loads(path.read_text())
        own = row.get("error_of_eager", 0)  # some networks lose more than the tolerance in half precision anyway
        if row["error_of"] > max(TOLERANCE[args.precision], 1.1 * own):
            return row | {"error": f"wrong: the largest error is {row['error_of']:.2g}, eager PyTorch's {own:.2g}"}
        return row | {"summary": describe_graphs(row)}

    each(args, Results(args, f"torch-{args.target}-{args.precision}"),
         [(n, way) for way in ("compile", "export") if args.way in (way, "both") for n in names(args)], measure, args.jobs)


def describe_graphs(row):
    if "graphs" not in row:
        return f"right, in {row['seconds']:.1f} s{beside_eager(row)}"
    whole = row["graphs"] == 1 and row["engines"] == 1 and not row["outside"] and not row["breaks"]
    parts = "one engine" if whole else f"{row['engines']} engines in {row['graphs']} graphs, {len(row['outside'])} operators outside"
    return f"right, {parts}, in {row['seconds']:.1f} s{beside_eager(row)}"


def beside_eager(row):
    """Where both are further from fp32 than the tolerance for halves."""
    if row["error_of"] <= TOLERANCE["fp16"] or "error_of_eager" not in row:
        return ""
    return f", off by {row['error_of']:.2g} as eager PyTorch by {row['error_of_eager']:.2g}"


def report_torch(rows):
    """Networks that are one engine in one line, the others with what is outside."""
    lines = []
    for way in ("compile", "export"):
        chosen = [row for row in rows if row["case"][1] == way]
        right = [row for row in chosen if "error" not in row]
        whole = [row for row in right if describe_graphs(row).startswith("right, one engine") or way == "export"]
        lines += [f"{way}: {len(chosen)} networks, {len(right)} right, {len(whole)} of them as one engine: "
                  f"{', '.join(row['case'][0] for row in whole)}.", ""]
        lines += [f"- {row['case'][0]}: {one_line(row.get('error') or describe_graphs(row))}" for row in chosen if row not in whole]
        for row in right:
            lines += [f"  - {row['case'][0]}: {one_line(reason)}" for reason in (row.get("outside") or []) + (row.get("breaks") or [])]
        lines.append("")
    return "\n".join(lines)


# ---- cpu


def cpu(args):
    def measure(name, batch):
        path = model_path(args, name, exporter_of(args, name), batch)
        with filled(args, path), tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            inputs = zoo_onnx.write_inputs(zoo_list.networks()[name], path, batch, folder)
            build(args, path, batch, folder / "e.ingot", *(["--tune", args.tune] if args.tune else []))
            ingot, other = [], []
            for _ in range(args.rounds):
                ingot.append(compare.measure_ingot(folder / "e.ingot", inputs, args))
                other.append(compare.measure_peer("onnxruntime", path, folder, args))
            if not all(ingot):
                raise Failed("ingot bench failed")
            report = json.loads(run([args.ingot, "bench", folder / "e.ingot", "--json", "--profile", "--seconds", args.seconds,
                                     "--threads", args.threads, *input_options(inputs)]))
        return times(ingot, other) | {"slowest": slowest(report), "floor_ms": floor(report)}

    each(args, Results(args, run_name(args, f"cpu-{args.threads}threads")),
         [(n, b) for n in names(args) for b in batches(args, n)], measure)


def run_name(args, *parts):
    return "-".join(map(str, (*parts, *([f"tune{args.tune}"] if args.tune else []))))


def input_options(inputs):
    return [option for name, file in inputs for option in ("--input", f"{name}={file}")]


def times(ingot, other):
    """Medians over the rounds, and the median of the rounds' ratios."""
    pairs = [(a, b) for a, b in zip(ingot, other) if a and b]
    result = {"ingot_ms": statistics.median(ingot), "ingot_rounds": ingot, "peer_rounds": other}
    if pairs:
        ratio = statistics.median(a / b for a, b in pairs)
        result |= {"peer_ms": statistics.median(b for _, b in pairs), "ratio": ratio, "summary": f"{ratio:.2f}"}
    return result


def slowest(report):
    """The kernel that takes most of a run: its name, its share, how often it is called, and what it computes."""
    total, calls, origin = collections.Counter(), collections.Counter(), {}
    for row in report["profile"]:
        if row["calls"]:
            total[row["kernel"]] += row["total_ms"] / row["calls"]
            calls[row["kernel"]] += 1
            origin.setdefault(row["kernel"], row["origin"])
    if not total:
        return None
    kernel, ms = total.most_common(1)[0]
    return {"kernel": kernel, "share": ms / sum(total.values()), "calls": calls[kernel], "origin": origin[kernel]}


def floor(report):
    """The sum of the floors of a run's kernels, in milliseconds."""
    return sum(row["floor_ms"] / row["calls"] for row in report["profile"] if row["calls"])


# ---- gpu


class Peer(Child):
    """Inductor on one network, at several batches: compiles them at once, and measures them when it is told to."""

    def __init__(self, args, name):
        self.log = tempfile.TemporaryFile("w+")
        self.batches = batches(args, name)
        share = max(1, os.cpu_count() // args.at_once)
        super().__init__([sys.executable, __file__, "--child", "inductor", name, args.precision, args.mode, *self.batches],
                         stderr=self.log, env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": str(share)})

    def wait(self, until):
        """The batches that were compiled: each with None, or why it could not be. Nothing if it takes too long."""
        try:
            return {int(batch): error for batch, error in self.hear(until).items()}
        except RuntimeError as error:
            if time.monotonic() > until:
                return {}
            self.log.seek(0)
            words = f"{error}: {last_words(self.log.read())}"
            return dict.fromkeys(self.batches, words)

    def measure(self, batch, seconds):
        self.tell(f"{batch} {seconds}")
        return self.hear(time.monotonic() + 60)["ms"]


def inductor_child(name, precision, mode, *sizes):
    """Says which batches were compiled, and then answers each line, a batch and a number of seconds, with a median in ms."""
    import torch

    torch.set_num_threads(1)
    network, captured, errors = zoo_list.networks()[name], {}, {}
    for batch in map(int, sizes):
        try:
            module, inputs = compare_gpu.to_gpu(network.build(trained=False), network.inputs(batch).values(), precision)
            captured[batch] = compare_gpu.capture(module, inputs, None if mode == "default" else mode)
            errors[batch] = None
        except Exception as error:  # noqa: BLE001, whatever a compiler may raise
            errors[batch] = f"{type(error).__name__}: {error}"[:1500]
        torch.cuda.empty_cache()
    print(json.dumps(errors), flush=True)
    for line in sys.stdin:
        batch, seconds = line.split()
        print(json.dumps({"ms": compare_gpu.median_ms(captured[int(batch)], float(seconds))}), flush=True)


def gpu(args):
    """So many networks at once: all are compiled side by side, by both, then measured one after the other."""
    results = Results(args, run_name(args, "gpu", args.precision, args.mode))
    left = [n for n in names(args) if args.again or not all(results.has((n, b)) for b in batches(args, n))]
    for i in range(0, len(left), args.at_once):
        if time.monotonic() > args.until:
            print("the time is over")
            return
        gpu_wave(args, results, left[i:i + args.at_once])


def gpu_wave(args, results, wave):
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(6) as pool:
        folder = pathlib.Path(folder)
        peers = {name: Peer(args, name) for name in wave}
        engines = {}  # tuning needs the GPU for itself
        if not args.tune:
            engines = {(n, b): pool.submit(build_for_gpu, args, n, b, folder) for n in wave for b in batches(args, n)}
        until = min(args.until, time.monotonic() + args.patience)
        compiled = {name: peer.wait(until) for name, peer in peers.items()}
        print(f"ready: {', '.join(name for name in wave if compiled[name])}", flush=True)
        for engine in engines.values():
            engine.exception()  # waits for all
        for name in wave:
            for batch in batches(args, name):
                if time.monotonic() > args.until or not compiled[name]:
                    break  # left for the next time
                try:
                    built = engines[name, batch].result() if engines else build_for_gpu(args, name, batch, folder)
                    result = measure_on_gpu(args, *built, peers[name], batch, compiled[name][batch])
                except Exception as error:
                    result = {"error": str(error) or repr(error)}
                results.put((name, batch), result)
            peers[name].process.kill()


def build_for_gpu(args, name, batch, folder):
    path = model_path(args, name, exporter_of(args, name), batch)
    inputs = zoo_onnx.write_inputs(zoo_list.networks()[name], path, batch, folder / f"{name}-{batch}", args.precision)
    zoo_onnx.fill(path)
    engine = folder / f"{name}-{batch}.ingot"
    start = time.monotonic()
    # The peer's module is in half precision, its inputs and results too.
    types = ["--io-type", f"*={args.precision}"] if args.precision in ("fp16", "bf16") else []
    build(args, path, batch, engine, *types, *(["--tune", args.tune] if args.tune else []))
    return engine, inputs, time.monotonic() - start


def measure_on_gpu(args, engine, inputs, build_s, peer, batch, error):
    ingot, other = [], []
    for last in [False] * (args.rounds - 1) + [True]:
        report = json.loads(run([args.ingot, "bench", engine, "--json", "--seconds", args.seconds, *input_options(inputs),
                                 *(["--profile"] if last else [])], 60))
        ingot.append(report["gpu_ms"]["p50"])
        if not error:
            other.append(peer.measure(batch, args.seconds / 2))
    engine.unlink()
    return times(ingot, other) | {"build_s": build_s, "slowest": slowest(report), "floor_ms": floor(report), "peer_error": error}


# ---- report


def report(args):
    networks, text = zoo_list.networks(), []
    for name in args.results or sorted(p.name for p in (args.work / "results").iterdir()):
        rows = [row for row in Results(args, name).all() if row["case"][0] in networks]
        table = report_times if name.startswith(("cpu", "gpu")) else report_torch if name.startswith("torch") else report_counts
        text.append(f"## {name}\n\n" + table(rows))
    print("\n\n".join(text))


def report_counts(rows):
    failed = [row for row in rows if "error" in row or "fixed" in row]
    lines = [f"{len(rows)} cases, {sum('error' in r for r in rows)} failed" +
             (f", {sum('fixed' in r for r in rows)} with fixed batches" if any("fixed" in r for r in rows) else "") + ".", ""]
    lines += [f"- {' '.join(map(str, r['case']))}: {one_line(r.get('error', r.get('fixed')))}" for r in failed]
    return "\n".join(lines)


def one_line(text, length=300):
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= length else text[:length] + "…"


def report_times(rows):
    """A table sorted by the ratio, worst first; means by batch, of 1 and of larger ones."""
    networks = zoo_list.networks()
    measured = sorted((r for r in rows if "ratio" in r), key=lambda r: -r["ratio"])
    lines = []
    for title, chosen in (("batch 1", [r["ratio"] for r in measured if r["case"][1] == 1]),
                          ("larger batches", [r["ratio"] for r in measured if r["case"][1] > 1])):
        if chosen:
            lines += [f"{title}: {len(chosen)} cases, geometric mean **{geometric_mean(chosen):.3f}**, "
                      f"{sum(x > 1 for x in chosen)} over 1.00, {sum(x > 1.05 for x in chosen)} over 1.05, "
                      f"{sum(x > 1.1 for x in chosen)} over 1.10, largest {max(chosen):.2f}.", ""]
    floors = [(r["floor_ms"] / r["peer_ms"], r["floor_ms"] / r["ingot_ms"]) for r in measured if r.get("floor_ms")]
    if floors:
        beside_peer, beside_ingot = (geometric_mean(column) for column in zip(*floors))
        lines += [f"Floors of {len(floors)} cases: geometric means {beside_peer:.3f} of the peer's time, {beside_ingot:.3f} of Ingot's.",
                  ""]
    lines += ["| network | kind | batch | Ingot ms | peer ms | ratio | floor ms | most time in | share | what it computes |",
              "|---" * 10 + "|"]
    for row in measured:
        (name, batch), most = row["case"], row["slowest"]
        lines.append(f"| {name} | {networks[name].kind} | {batch} | {row['ingot_ms']:.3f} | {row['peer_ms']:.3f} | "
                     f"{row['ratio']:.2f} | {row.get('floor_ms', math.nan):.3f} | {most['kernel']} x{most['calls']} | "
                     f"{100 * most['share']:.0f}% | {one_line(most['origin'], 90)} |")
    for row in rows:
        if "ratio" not in row:
            problem = row.get("error") or f"the peer failed, Ingot takes {row['ingot_ms']:.3f} ms: {row.get('peer_error')}"
            lines += ["", f"- {' '.join(map(str, row['case']))}: {one_line(problem)}"]
    return "\n".join(lines)


# ---- The command line


def list_networks(args):
    for name in names(args):
        network = zoo_list.networks()[name]
        print(f"{name}\t{network.kind}\tbatch 1 and {network.large}")


def command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(function, text, **defaults):
        c = commands.add_parser(function.__name__.replace("_networks", ""), help=text, description=text)
        c.set_defaults(function=function, **defaults)
        c.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "ingot-zoo",
                       help="the folder of models and results (default: %(default)s)")
        c.add_argument("--only", help="networks, separated by commas (default: all)")
        c.add_argument("--slice", default="1/1", help="I/N: every Nth network, beginning with the Ith")
        return c

    def resumable(c):
        c.add_argument("--limit", type=float, default=1e9, help="seconds after which no further case is begun")
        c.add_argument("--patience", type=float, default=600, help="seconds that one step of one case may take")
        c.add_argument("--again", action="store_true", help="takes cases that have a result, too")
        c.add_argument("--exporter", default="any", choices=[*EXPORTERS, "any"],
                       help="whose models; any: for measuring, the first one's of dynamo and torchscript that has one")
        c.add_argument("--ingot", default=str(ROOT / "build" / "ingot"))
        if c.get_default("jobs"):
            c.add_argument("--jobs", type=int, default=1, help="cases at once (default: %(default)s)")
        c.add_argument("--keep", action="store_true", help="leaves the weights that were filled in")
        c.add_argument("--precision", default=c.get_default("precision"), choices=["fp32", "tf32", "fp16", "bf16"])
        c.add_argument("--target", default=c.get_default("target"))

    def measuring(c, rounds, seconds, batches):
        c.add_argument("--batches", default=batches, help="such as 1,large or 16 (default: %(default)s)")
        c.add_argument("--rounds", type=int, default=rounds)
        c.add_argument("--seconds", type=float, default=seconds,
                       help="that a round measures each side (default: %(default)s)")
        c.add_argument("--tune", type=int, default=0, help="seconds that Ingot may tune")

    command(list_networks, "prints the networks")
    resumable(command(export, "writes models, by both of PyTorch's exporters", precision="fp32", target="cpu", jobs=1))
    resumable(command(verify, "compares Ingot's results with ONNX Runtime's", precision="fp32", target="cpu", jobs=1))
    c = command(torch, "tries torch.compile and torch.export beside eager PyTorch", precision="fp32", target="cpu", jobs=1)
    resumable(c)
    c.add_argument("--way", default="both", choices=["compile", "export", "both"])
    c = command(cpu, "measures Ingot beside ONNX Runtime", precision="fp32", target="cpu")
    resumable(c)
    measuring(c, 5, 1.0, "1")
    c.add_argument("--threads", type=int, default=2)
    c = command(gpu, "measures Ingot beside Inductor with CUDA graphs", precision="fp16", target="cuda")
    resumable(c)
    measuring(c, 3, 0.2, "1,large")
    c.add_argument("--mode", default="default", choices=["default", "max-autotune-no-cudagraphs"], help="Inductor's")
    c.add_argument("--at-once", type=int, default=16, help="networks that are compiled side by side (default: %(default)s)")
    c = command(report, "prints tables of results")
    c.add_argument("results", nargs="*", help="folders of WORK/results (default: all)")
    return parser


CHILDREN = {"export": export_child, "outputs": outputs_child, "inductor": inductor_child,
            "torch": zoo_torch.try_network}


def main():
    if sys.argv[1:2] == ["--child"]:
        CHILDREN[sys.argv[2]](*sys.argv[3:])
        return
    args = command_line().parse_args()
    args.until = time.monotonic() + getattr(args, "limit", 0)
    args.function(args)


if __name__ == "__main__":
    main()
