#!/usr/bin/env python3
"""Packages of PyPI that import onnxruntime, unchanged, on ONNX Runtime and on ingot.ort.

    pip install onnxruntime numpy magika nudenet ddddocr rapidocr-onnxruntime
    PYTHONPATH=build/python python bench/packages.py --picture people.jpg

Each case is a script with a package's own functions and the models of its wheel, run in a process of its own on either; what is
not installed is left out. Prints what was compared, the largest difference of numbers beside their magnitude, and the median
time of a call in alternating rounds.
"""

import argparse
import functools
import importlib.metadata
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time


def words(*texts):
    """Pictures of texts, as PNG."""
    from PIL import Image, ImageDraw, ImageFont

    for number, text in enumerate(texts):
        picture = Image.new("RGB", (34 * len(text) + 20, 64), "white")
        draw = ImageDraw.Draw(picture)
        for i, letter in enumerate(text):
            draw.text((12 + 32 * i, 4 + 5 * ((i + number) % 3)), letter, "black", ImageFont.load_default(40))
        png = io.BytesIO()
        picture.save(png, "PNG")
        yield png.getvalue()


def magika(picture):
    import magika

    detector = magika.Magika()
    root = pathlib.Path(__file__).parent.parent
    paths = sorted(path for suffix in ("py", "c", "h", "md", "onnx", "json", "txt", "png", "cu")
                   for path in list(root.glob(f"**/*.{suffix}"))[:8])[:64]
    paths = [path for path in paths if "build" not in path.parts]
    return lambda: [[result.output.label, float(result.score)] for result in detector.identify_paths(paths)]


def nudenet(picture):
    import cv2
    import nudenet

    detector, pixels = nudenet.NudeDetector(), cv2.imread(picture)
    height, width = (size // 2 for size in pixels.shape[:2])
    parts = [pixels[y:y + height, x:x + width].copy() for y in (0, height // 2, height) for x in (0, width // 2, width)]
    return lambda: [detector.detect(part) for part in (picture, *parts)]


def ddddocr_text(picture, **options):
    import ddddocr

    reader = ddddocr.DdddOcr(show_ad=False, **options)
    pictures = list(words("ingot", "K7pQ2", "8362", "onnx runtime", "w3x"))

    def run():
        found = [reader.classification(png, probability=True) for png in pictures]
        return [reader.classification(png) for png in pictures], found

    return run


def ddddocr_objects(picture):
    import ddddocr

    finder = ddddocr.DdddOcr(det=True, ocr=False, show_ad=False)
    data = [pathlib.Path(picture).read_bytes(), *words("K7pQ2", "target")]
    return lambda: [finder.detection(png) for png in data]


def rapidocr(picture):
    import numpy
    import rapidocr_onnxruntime
    from PIL import Image

    reader = rapidocr_onnxruntime.RapidOCR()
    lines = [numpy.asarray(Image.open(io.BytesIO(png))) for png in words("Ingot compiles", "a network", "x = 42")]
    return lambda: [reader(line)[0] for line in lines]


CASES = {
    "magika": ("magika", magika),
    "nudenet": ("nudenet", nudenet),
    "ddddocr text": ("ddddocr", ddddocr_text),
    "ddddocr beta": ("ddddocr", functools.partial(ddddocr_text, beta=True)),
    "ddddocr objects": ("ddddocr", ddddocr_objects),
    "rapidocr": ("rapidocr-onnxruntime", rapidocr),
}


def serve(case, on_ingot, picture):
    """Runs once for each line of the standard input, and answers with seconds and results."""
    if on_ingot:
        import ingot.ort

        ingot.ort.install()
    begin = time.perf_counter()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # packages greet
    run = CASES[case][1](picture)
    print(json.dumps(time.perf_counter() - begin), file=answers, flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        results = run()
        seconds = time.perf_counter() - begin
        print(json.dumps([seconds, results], default=float), file=answers, flush=True)


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]


def difference(ours, theirs):
    """(the largest difference of numbers, the largest number), or what else differs."""
    ours, theirs = leaves(ours), leaves(theirs)
    if len(ours) != len(theirs):
        return f"{len(ours)} results, expected {len(theirs)}"
    worst = largest = 0
    for a, b in zip(ours, theirs):
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            worst, largest = max(worst, abs(a - b)), max(largest, abs(b))
        elif a != b:
            return f"{a!r}, expected {b!r}"
    return worst, largest


def compare(case, picture, rounds):
    children = [subprocess.Popen([sys.executable, __file__, "--serve", case, "--on", kind, "--picture", picture], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE) for kind in ("onnxruntime", "ingot")]
    made = [json.loads(child.stdout.readline()) for child in children]
    times, results = ([], []), []
    for _ in range(rounds):
        results = []
        for child, row in zip(children, times):
            print("run", file=child.stdin, flush=True)
            seconds, result = json.loads(child.stdout.readline())
            row.append(seconds)
            results.append(result)
    for child in children:
        child.stdin.close()
        child.wait()
    theirs, ours = results
    found, n = difference(ours, theirs), len(leaves(theirs))
    found = f"{found[0]:.2g} of {found[1]:.4g}" if isinstance(found, tuple) else f"DIFFERS: {found}"
    package = CASES[case][0]
    seconds = " ".join(f"{statistics.median(row) * 1000:10.1f}" for row in times)
    print(f"{case:18} {importlib.metadata.version(package):8} {n:8} {found:24} {seconds}   {made[0]:.2f} {made[1]:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", default="", help="a photograph of people, for nudenet and ddddocr")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", help="cases, separated by commas")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--on", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.serve, given.on == "ingot", given.picture)
    print(f"{'case':18} {'version':8} {'values':>8} {'largest difference':24} {'peer, ms':>10} {'Ingot, ms':>10}   made in, s")
    for case, (package, _) in CASES.items():
        if given.only and case not in given.only.split(","):
            continue
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        compare(case, given.picture, given.rounds)


if __name__ == "__main__":
    main()
