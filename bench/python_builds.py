#!/usr/bin/env python3
"""How engines are built in threads of one process: PYTHONPATH=build/python python3 bench/python_builds.py [--target cuda:sm_90a]

Builds as many different encoders as there are threads, one after the other and then at once, without a cache, and prints the ratio of
the times. `--jobs` is how many compilers each build may run at a time.
"""

import argparse
import statistics
import threading
import time

import ingot
import numpy as np


def encoder(width, layers=3):
    """Blocks of products, norms and softmax of one width, so that engines of two widths have no kernel in common."""
    net, rng = ingot.Network(), np.random.default_rng(width)
    x = net.input("x", "f32", ["n", width])

    def linear(x, name, rows, columns):
        return net.add("matmul", x, net.weight(name, rng.standard_normal((rows, columns), np.float32)), label=name)

    for i in range(layers):
        wide = width * (2 + i)
        h = net.add("Gelu", linear(x, f"{i}.up", width, wide))
        x = net.add("Softmax", net.add("add", x, linear(h, f"{i}.down", wide, width)), axis=1)
    net.output("y", x)
    return net


def build(width, given):
    engine = ingot.compile(encoder(width), target=given.target, jobs=given.jobs)
    if given.target == "cpu":
        engine(np.ones((2, width), np.float32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    widths = [64 + 16 * i for i in range(given.threads)]
    times = [], []
    for _ in range(given.rounds):
        begin = time.perf_counter()
        for width in widths:
            build(width, given)
        times[0].append(time.perf_counter() - begin)
        threads = [threading.Thread(target=build, args=(width, given)) for width in widths]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times[1].append(time.perf_counter() - begin)
    one, all_ = (statistics.median(row) for row in times)
    print(f"{given.threads} builds, {given.jobs} jobs each: {one:.2f} s one after the other, {all_:.2f} s at once, {one / all_:.2f} times as fast")


if __name__ == "__main__":
    main()
