#!/usr/bin/env python3
"""What narrow types cost in exactness: errors of each result of each network, beside Ingot's own fp32 on the same inputs.

    precision_errors.py [--target cuda] [--everywhere] [--output FILE.md] [--summary] [FOLDER ...]

A FOLDER holds model.onnx and test_data_set_N/input_K.pb, or .npz files of arrays by the names of inputs (as for `ingot
verify`); without any, the trained models of --models and the networks of ./dev bench are taken, whose weights materialize.py
fills in. Trained models get their own inputs; the others get --seeds sets: floats drawn anew and integers shuffled.
Needs the package ingot (PYTHONPATH=build/python), numpy, and onnx for .pb files.

Per result and precision, over all inputs: the cosine of what fp32 gives and the narrow build gives (as 1 - cosine), the root mean
square of the differences as a share of that of the values, the largest difference as a share of the largest value, and how
often the largest of the classes (the last axis; axis 1 of images, if it is the shorter one) is the same one. --everywhere narrows what the target gains
nothing from, too: on a CPU, it shows about what a GPU would give.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import ingot
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETWORKS = ["resnet50", "mobilenet_v2", "efficientnet_b0", "densenet121", "bert_base", "vit_b_16", "gpt2"]


def materialize(args, name):
    folder = args.work / name
    if not (folder / "model.onnx").exists():
        subprocess.run([sys.executable, args.models / "materialize.py", args.models / "structures" / f"{name}.onnx", folder,
                        "--no-reference"], check=True)
    return folder


def read_pb(path):
    import onnx

    return onnx.numpy_helper.to_array(onnx.load_tensor(path))


def inputs_of(folder, names, seeds):
    """Sets of inputs: those of the folder, or for networks of random weights more like them."""
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        sets.append([read_pb(data / f"input_{k}.pb") for k in range(len(names))])
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            sets.append([arrays[n] for n in names])
    for seed in range(1, seeds):
        random = np.random.default_rng(seed)
        sets.append([random.standard_normal(x.shape).astype(x.dtype) if np.issubdtype(x.dtype, np.floating)
                     else random.permutation(x.reshape(-1)).reshape(x.shape) for x in sets[0]])
    return sets


def results(engine, sets):
    runs = []
    for inputs in sets:
        y = engine(*inputs)
        runs.append([np.array(t) for t in (y if isinstance(y, tuple) else (y,))])
    return runs


def classes(y):
    """What each row of classes chose; None: there are none."""
    axis = 1 if y.ndim == 4 and y.shape[1] <= y.shape[3] else y.ndim - 1
    return np.argmax(y, axis).reshape(-1) if y.ndim > 1 and y.shape[axis] > 2 else None


def errors(exact, narrow):
    """Of one result over all sets: 1 - cosine, rms, largest, agreement (None: no classes)."""
    a = np.concatenate([y.astype(np.float64).reshape(-1) for y in exact])
    b = np.concatenate([y.astype(np.float64).reshape(-1) for y in narrow])
    size, other = np.sqrt(np.sum(a * a)), np.sqrt(np.sum(b * b))
    # |a/|a| - b/|b||^2 = 2 (1 - cosine), without the cancellation
    angle = np.sum((a / size - b / other) ** 2) / 2 if size > 0 and other > 0 else 0.0
    rms = np.sqrt(np.sum((a - b) ** 2)) / size if size > 0 else np.sqrt(np.sum(b * b))
    largest = np.max(np.abs(a - b)) / max(np.max(np.abs(a)), 1e-30)
    chosen = [(classes(x), classes(y)) for x, y in zip(exact, narrow)]
    same = [float(p == q) for x, y in chosen if x is not None for p, q in zip(x, y)]
    return angle, rms, largest, (sum(same), len(same)) if same else None


def compile_one(args, path, precision):
    rules = [f"*={precision}"] if args.everywhere and precision != "fp32" else None
    return ingot.compile(str(path), precision=precision, precision_of=rules, target=args.target, progress=False)


def measure(args, folder, seeds):
    """[(name of result, {precision: errors})]"""
    engine = compile_one(args, folder / "model.onnx", "fp32")
    sets = inputs_of(folder, [i.name for i in engine.inputs], seeds)
    exact, names = results(engine, sets), [o.name for o in engine.outputs]
    rows = [(name, {}) for name in names]
    for precision in args.precisions.split(","):
        narrow = results(compile_one(args, folder / "model.onnx", precision), sets)
        for k, (_, found) in enumerate(rows):
            y = [run[k] for run in exact]
            if y[0].size and np.issubdtype(y[0].dtype, np.floating):
                found[precision] = errors(y, [run[k] for run in narrow])
    return [r for r in rows if r[1]]


def cells(found):
    angle, rms, largest, same = found
    agreement = "" if same is None else f"{same[0]:.0f} of {same[1]}" if same[0] < same[1] else "all"
    return f"{angle:.1e} | {rms:.1e} | {largest:.1e} | {agreement}"


def header(precisions):
    return ["| network | result | " + " | ".join(f"{p}: 1 - cosine | rms | largest | top-1" for p in precisions) + " |",
            "|---|---" + "|---|---|---|---" * len(precisions) + "|"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--precisions", default="fp16,bf16")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--everywhere", action="store_true")
    parser.add_argument("--summary", action="store_true", help="of each network the result with the largest rms alone")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "ingot-bench")
    parser.add_argument("--output", type=pathlib.Path, help="where the table goes too")
    args = parser.parse_args()
    precisions = args.precisions.split(",")
    cases = [(f, 1) for f in args.folders]
    if not cases:
        cases = [(f, 1) for f in sorted((args.models / "real").glob("*")) if (f / "model.onnx").exists()]
        cases += [(materialize(args, n), args.seeds) for n in args.networks.split(",") if n]
    lines = header(precisions)
    print("\n".join(lines), flush=True)
    for folder, seeds in cases:
        try:
            rows = measure(args, folder, seeds)
        except (ingot.Error, OSError, KeyError) as problem:
            rows = []
            lines.append(f"| {folder.name} | failed: {str(problem)[:80]} |" + " |" * 4 * len(precisions))
            print(lines[-1], flush=True)
        if args.summary and rows:
            worst = max(rows, key=lambda r: max(f[1] for f in r[1].values()))
            rows = [(worst[0] + (f" (of {len(rows)})" if len(rows) > 1 else ""), worst[1])]
        for name, found in rows:
            lines.append(f"| {folder.name} | {name} | " + " | ".join(cells(found[p]) for p in precisions) + " |")
            print(lines[-1], flush=True)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
