#!/usr/bin/env python3
"""Refits exported structures to a second set of random weights, and compares the engines with fresh builds of that set, byte by
byte.

    bench/refit_structures.py INGOT MODELS STRUCTURE.onnx... [--target TARGET[,PRECISION]]... [--cache FOLDER]

MODELS is the folder of materialize.py, which fills a structure with random weights. A line for each structure and target: how
many initialisers there are of each kind, how many got other values, seconds for a build and for a refit, and whether the bytes
are the same; last, one structural initialiser with another value, which must be refused by name. Needs onnx and numpy. Writes a
few times the size of a model to a temporary folder.
"""
import argparse, json, os, shutil, subprocess, sys, tempfile, time

import numpy as np
import onnx
from onnx import numpy_helper


def run(*command):
    begun = time.time()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, done.stderr.strip().split("\n")[-1], time.time() - begun


def other_values(tensor, rng):
    """Of the same kind: scaled and, where they are all equal, spread. Signs stay, so that variances are none below zero."""
    old = numpy_helper.to_array(tensor)
    noise = rng.standard_normal(old.shape).astype(np.float32)
    new = (old * (1 + 0.3 * np.tanh(noise)) + (0.1 * noise if not old.any() else 0)).astype(old.dtype)
    tensor.CopyFrom(numpy_helper.from_array(new, tensor.name))


def change(model, path, names, seed):
    rng, changed = np.random.default_rng(seed), 0
    for tensor in model.graph.initializer:
        if tensor.name in names and tensor.data_type in (1, 10, 11, 16):
            other_values(tensor, rng)
            changed += 1
    onnx.save(model, path)
    return changed


def same(a, b):
    return subprocess.run(["cmp", "-s", a, b]).returncode == 0


def refuse(ingot, folder, engine, initializers):
    """Another value of a structural initialiser of floats."""
    structural = [i["name"] for i in initializers if i["kind"] == "structural" and i["dtype"].startswith("f")]
    if not structural:
        return "none of floats"
    path = f"{folder}/third.onnx"
    model = onnx.load(f"{folder}/model.onnx")
    if not change(model, path, structural[:1], 3):
        return "not found"
    status, _, error, _ = run(ingot, "refit", engine, "--weights", path, "--check")
    os.remove(path)
    return "refused" if status == 3 and structural[0][:80] in error else f"WRONG: not refused: {error}"


def refit(ingot, folder, target, cache):
    kind, _, precision = target.partition(",")
    options = ["--target", kind, "--cache", cache, "--variants", "1", "--quiet"]
    options += ["--precision", precision] if precision else []
    model, first, second, new = (f"{folder}/{name}" for name in ("model.onnx", "first.ingot", "second.ingot", "new.ingot"))
    status, _, error, built = run(ingot, "build", model, "-o", first, *options)
    if status:
        return f"not built: {error}"
    initializers = json.loads(run(ingot, "inspect", first, "--initializers", "--json")[1])
    kinds = [sum(i["kind"] == kind for i in initializers) for kind in ("refittable", "structural", "unused")]
    names = {i["name"] for i in initializers if i["kind"] == "refittable"}
    proto = onnx.load(model)
    changed = change(proto, f"{folder}/second.onnx", names, 7)
    del proto
    head = f"{kinds[0]} refittable, {kinds[1]} structural, {kinds[2]} unused, {changed} changed | "
    if not changed:
        return head + "nothing to replace"
    status, _, error, took = run(ingot, "refit", first, "--weights", f"{folder}/second.onnx", "-o", new, "--quiet")
    if status:
        return head + f"WRONG: refit failed: {error}"
    status, _, error, _ = run(ingot, "build", f"{folder}/second.onnx", "-o", second, *options)
    if status:
        return head + f"WRONG: second not built: {error}"
    result = "the same bytes" if same(new, second) and not same(first, new) else "WRONG: other bytes"
    return head + f"build {built:.1f} s, refit {took:.1f} s | {result} | {refuse(ingot, folder, first, initializers)}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("ingot")
    parser.add_argument("models")
    parser.add_argument("structures", nargs="+")
    parser.add_argument("--target", action="append")
    parser.add_argument("--cache", default="off")
    arguments = parser.parse_args()
    wrong = 0
    for structure in arguments.structures:
        folder = tempfile.mkdtemp(prefix="refit-structures-")
        name = os.path.basename(structure).removesuffix(".onnx")
        status, _, error, _ = run(sys.executable, f"{arguments.models}/materialize.py", structure, folder, "--no-reference")
        for target in arguments.target or ["cpu"]:
            line = f"not materialised: {error}" if status else refit(arguments.ingot, folder, target, arguments.cache)
            wrong += any(mark in line for mark in ("WRONG: ", "not built", "not materialised"))
            print(f"{name} | {target} | {line}", flush=True)
        shutil.rmtree(folder)
    print(f"{wrong} went wrong")
    return wrong > 0


sys.exit(main())
