#!/usr/bin/env python3
"""Contexts of one engine at once on the CPU: throughput beside that of one context, and of processes kept apart.

Every round runs each case in turn. As many processes as processors, of one thread each, share nothing of Ingot's: more than
they do, the machine does not give. Then the threads that a context takes by default are counted,
where affinity allows three processors and where a control group's quota allows some.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from compare import ROOT, machine, materialize


def start(args, engine, *options, cpus=None, group=None):
    command = [args.ingot, "bench", engine, "--json", "--seconds", args.seconds, *options]
    command = (["taskset", "-c", cpus] if cpus else []) + list(map(str, command))
    if group:
        command = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(group / "cgroup.procs"), *command]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(process):
    """Runs a second."""
    out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(process.args)} failed")
    return json.loads(out)["throughput_per_s"]


def count_threads(process):
    """The most threads that the process has at once."""
    most = 0
    while process.poll() is None:
        with contextlib.suppress(OSError):
            most = max(most, len(os.listdir(f"/proc/{process.pid}/task")))
        time.sleep(0.01)
    return most


def measure_rounds(args, engine, processors):
    n = len(processors)
    def processes(places):
        return sum(map(finish, [start(args, engine, "--threads", 1, cpus=cpus) for cpus in places]))

    cases = {
        "1 context": lambda: finish(start(args, engine, "--contexts", 1)),
        "4 contexts": lambda: finish(start(args, engine, "--contexts", 4)),
        "1 context, 1 thread": lambda: finish(start(args, engine, "--contexts", 1, "--threads", 1)),
        f"{n} contexts, 1 thread each": lambda: finish(start(args, engine, "--contexts", n, "--threads", 1)),
        f"{n} processes, 1 thread each": lambda: processes([None] * n),
        f"{n} processes, each pinned": lambda: processes(map(str, processors)),
    }
    figures = {title: [] for title in cases}
    for _ in range(args.rounds):
        for title, measure in cases.items():
            figures[title].append(measure())
    return figures


@contextlib.contextmanager
def control_group(processors):
    """A group whose quota is that of so many processors, of version 2 or 1; None where none can be made."""
    root, period = pathlib.Path("/sys/fs/cgroup"), 100000
    unified = (root / "cgroup.controllers").exists()
    group = (root if unified else root / "cpu") / f"ingot-bench-{os.getpid()}"
    try:
        if unified:
            (root / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        if unified:
            (group / "cpu.max").write_text(f"{processors * period} {period}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(processors * period))
    except OSError as failure:
        print(f"no control group: {failure}", file=sys.stderr)
        yield None
        return
    yield group
    group.rmdir()


def measure_limited(args, engine, processors):
    """Rows of where a context runs, its threads, and its runs a second."""
    three = ",".join(map(str, processors[:3]))
    half = max(1, len(processors) // 4)
    rows = []
    with control_group(half) as group:
        places = {"everywhere": {}, f"taskset -c {three}": {"cpus": three}}
        if group:
            places[f"control group, quota of {half}"] = {"group": group}
        for place, options in places.items():
            process = start(args, engine, **options)
            rows.append((place, count_threads(process), finish(process)))
        if group:
            process = start(args, engine, "--threads", len(processors), group=group)
            rows.append((f"the same with --threads {len(processors)}", count_threads(process), finish(process)))
    return rows


def ratio(figures, a, b):
    return statistics.median(x / y for x, y in zip(figures[a], figures[b]))


def report(args, figures, limited):
    one, four, single, many, apart, pinned = figures
    lines = [f"# Contexts at once on the CPU, {args.network}, fp32, batch 1, {datetime.date.today()}", "",
             f"Machine: {machine()}, {os.cpu_count()} processors", "",
             f"Command: `bench/compare_contexts.py {' '.join(sys.argv[1:])}`; {args.rounds} interleaved rounds of "
             f"{args.seconds} s, medians.", "", "| case | runs a second | of all rounds |", "|---|---|---|"]
    lines += [f"| {title} | {statistics.median(values):.1f} | {' '.join(f'{v:.0f}' for v in values)} |"
              for title, values in figures.items()]
    lines += ["", "| ratio, round by round | median |", "|---|---|"]
    lines += [f"| {a} / {b} | {ratio(figures, a, b):.3f} |"
              for a, b in ((four, one), (many, single), (apart, single), (pinned, single), (many, apart), (many, pinned))]
    lines += ["", "| one context, where | threads of the process | runs a second |", "|---|---|---|"]
    lines += [f"| {place} | {threads} | {rate:.1f} |" for place, threads, rate in limited]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ingot", default=str(ROOT / "build" / "ingot"))
    parser.add_argument("--models", type=pathlib.Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--network", default="mobilenet_v2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "ingot-bench")
    parser.add_argument("--output", type=pathlib.Path, help="the report (default: standard output)")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    engine = args.work / f"{args.network}-contexts.ingot"
    model = materialize(args, args.network, args.work) / "model.onnx"
    subprocess.run([args.ingot, "build", str(model), "-o", str(engine), "-q"], check=True)
    processors = sorted(os.sched_getaffinity(0))
    text = report(args, measure_rounds(args, engine, processors), measure_limited(args, engine, processors))
    if args.output:
        args.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
