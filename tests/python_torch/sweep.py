#!/usr/bin/env python3
"""
Runs the samples of PyTorch's own operator database (op_db, fp32 on the CPU) through Ingot and compares with eager PyTorch.

    sweep.py [--samples N] [--only NAME,...] [--reference] [--dynamo] [--jobs N] [--out FILE]

Without --dynamo, graphs are traced by make_fx, with the backend's decompositions: the same graphs, ten times as fast. FILE
(operators.txt) gets one line for each entry: passed, samples, what fell back and why; whatever is wrong is printed.
"""

import argparse
import collections
import itertools
import multiprocessing
import signal
import sys
import traceback
import warnings

import ingot
import ingot.torch
import torch
import torch.utils._pytree as pytree
from ingot.torch import decompositions
from ingot.torch.registry import TABLE
from ingot.torch import dynamo as backends
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.testing._internal.common_methods_invocations import op_db

# Entries whose values nobody promises.
UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


class Uncaptured(Exception):
    """make_fx cannot trace a sample."""


UNCAPTURED = (Uncaptured, DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)


class Timeout(Exception):
    pass


def _alarm(*_):
    raise Timeout("30 seconds passed")


def compile_traced(f, tensors, options):
    """As torch.compile's inference path does it, without dynamo."""
    try:
        traced = _traced(f, tensors)
    except RuntimeError as error:
        raise Uncaptured(type(error).__name__) from error
    call = backends.compile_graph(traced, tensors, options)
    return lambda *xs: call(list(xs))


def _traced(f, tensors):
    table = decompositions.table()
    traced = make_fx(f, decomposition_table=table, tracing_mode="fake")(*tensors)
    functional = torch.func.functionalize(traced, remove="mutations_and_views")
    traced = make_fx(functional, decomposition_table=table, tracing_mode="fake")(*tensors)
    traced.graph.eliminate_dead_code()  # as AOTAutograd does
    return traced


def run_sample(op, sample, dynamo):
    """(outcome, detail): pass, fallback, wrong or error."""
    args = (sample.input, *sample.args)
    leaves, spec = pytree.tree_flatten((args, sample.kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    tensors = [leaves[i] for i in places]

    def f(*xs):
        full = list(leaves)
        for i, x in zip(places, xs):
            full[i] = x
        a, k = pytree.tree_unflatten(full, spec)
        return op(*a, **k)

    outside = []
    options = backends.Options(on_plan=lambda plan: outside.extend(plan.outside))
    with torch.no_grad():
        try:
            expected = f(*[t.clone() for t in tensors])
        except RuntimeError:  # it reads beyond the elements, which a copy does not have
            expected = f(*tensors)
        if dynamo:
            torch._dynamo.reset()
            named = {"on_plan": options.on_plan}
            call = torch.compile(f, backend=ingot.torch.backend, options=named, fullgraph=True, dynamic=False)
        else:
            call = compile_traced(f, tensors, options)
        actual = call(*tensors)
    if outside:
        return "fallback", "; ".join(sorted({f"{o.operator}: {o.reason}" for o in outside}))
    if op.name in UNDEFINED:
        return "pass", ""
    # What does not depend on a decomposition's choice of signs, say, as the database defines it.
    expected, actual = (sample.output_process_fn_grad(x) for x in (expected, actual))
    expected, actual = pytree.tree_leaves(expected), pytree.tree_leaves(actual)
    if len(expected) != len(actual):
        return "wrong", f"{len(actual)} results instead of {len(expected)}"
    for e, a in zip(expected, actual):
        if isinstance(e, torch.Tensor):
            torch.testing.assert_close(a, e, rtol=1e-4, atol=2e-5, equal_nan=True)
        elif e != a and e == e:
            return "wrong", f"{a} instead of {e}"
    return "pass", ""


def outcome_of(op, sample, dynamo):
    """run_sample, within 30 seconds, with what it raises as an outcome."""
    signal.alarm(30)
    try:
        return run_sample(op, sample, dynamo)
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())[:200]
    except UNCAPTURED as error:
        return "uncaptured", type(error).__name__
    except Exception as error:  # noqa: BLE001
        if VERBOSE:
            traceback.print_exc()
        return "error", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    finally:
        signal.alarm(0)


def run_entry(op, samples, dynamo):
    """(the entry's name, outcome -> count, detail -> count)"""
    name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
    counts, details = collections.Counter(), collections.Counter()
    torch.manual_seed(0)
    try:
        found = list(itertools.islice(op.sample_inputs("cpu", torch.float32), samples))
    except Exception as error:  # noqa: BLE001
        return name, counts, collections.Counter({f"no samples: {type(error).__name__}": 1})
    for sample in found:
        outcome, detail = outcome_of(op, sample, dynamo)
        counts[outcome] += 1
        if detail:
            details[detail] += 1
    return name, counts, details


def _run_numbered(task):
    return run_entry(op_db[task[0]], *task[1:])


def sweep(only, samples, dynamo, jobs):
    """run_entry of each entry of the database, or of those named, by some processes side by side."""
    named = (n for n, op in enumerate(op_db) if not only or op.name in only)
    fit = [n for n in named if not op_db[n].name.startswith("jiterator")]
    tasks = [(n, samples, dynamo) for n in fit if torch.float32 in op_db[n].supported_dtypes("cpu")]
    if jobs == 1:
        yield from map(_run_numbered, tasks)
        return
    torch.set_num_threads(1)
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(_run_numbered, tasks, chunksize=4)


VERBOSE = False


def main():
    global VERBOSE
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--samples", type=int, default=10**9, help="at most so many samples of an entry")
    parser.add_argument("--only", default="", help="names of entries, separated by commas")
    parser.add_argument("--reference", action="store_true", help="the reference evaluator in place of engines")
    parser.add_argument("--dynamo", action="store_true", help="capture with torch.compile")
    parser.add_argument("--jobs", type=int, default=1, help="so many processes")
    parser.add_argument("--out", help="write the list of all entries to this file")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    VERBOSE = options.verbose
    if options.reference:
        ingot.compile = lambda model, **_: model.evaluate
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _alarm)
    only = set(filter(None, options.only.split(",")))
    total, lines = collections.Counter(), []
    for name, counts, details in sweep(only, options.samples, options.dynamo, options.jobs):
        total.update(counts)
        line = f"{name} {counts['pass']}/{sum(counts.values())}"
        for kind in ("fallback", "uncaptured", "wrong", "error"):
            line += f" {kind} {counts[kind]}" if counts[kind] else ""
        line += "".join(f" | {d} ({n})" for d, n in details.most_common(3))
        lines.append(line)
        if VERBOSE or counts["wrong"] or counts["error"]:
            print(line, flush=True)
    summary = ", ".join(f"{kind} {total[kind]}" for kind in ("pass", "fallback", "uncaptured", "wrong", "error"))
    print(f"{sum(total.values())} samples: {summary}")
    if options.out:
        with open(options.out, "w") as file:
            file.write(
                f"# Written by sweep.py: samples of op_db (PyTorch {torch.__version__.split('+')[0]}): {summary}\n"
            )
            file.write("\n".join(sorted(lines)) + "\n")
            names = sorted(str(overload) for overload in TABLE)
            file.write(f"\n# {len(names)} ATen operators have translations:\n" + "\n".join(names) + "\n")
    return 1 if total["wrong"] or total["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
