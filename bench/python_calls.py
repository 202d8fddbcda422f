#!/usr/bin/env python3
"""What a call from Python costs beyond the library's own: PYTHONPATH=build/python python3 bench/python_calls.py

Three inputs and one output of four numbers each, on the CPU. Times are the least of 100 rounds, in nanoseconds, and as
multiples of a call of an empty C function in the same run. "the run itself" is the call with everything bound.
"""

import time

import ingot
import numpy as np


def measure(call, calls=5_000, rounds=100):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        times.append((time.perf_counter_ns() - begin) / calls)
    return min(times)


def tensors(kind):
    arrays = [np.ones(4, np.float32) for _ in range(3)]
    if kind == "numpy":
        return arrays
    if kind == "buffer":
        return [memoryview(array) for array in arrays]
    import torch

    return [torch.from_numpy(array) for array in arrays]


def main():
    net = ingot.Network()
    a, b, c = (net.input(name, "f32", [4]) for name in "abc")
    net.output("y", net.add("add", net.add("add", a, b), c))
    session = ingot.compile(net).session(threads=1)
    x = tensors("numpy")
    rows = [("an empty C function", measure(ingot._ingot._nothing))]
    session.bind(x, [np.zeros(4, np.float32)])
    rows.append(("run_bound()", measure(session.run_bound)))
    for kind in ("numpy", "buffer", "torch"):
        try:
            x, y, z = tensors(kind)
        except ImportError:
            continue
        rows.append((f"session(x, y, z), {kind}", measure(lambda: session(x, y, z))))
    empty = rows[0][1]
    for name, nanoseconds in rows:
        print(f"{name:28} {nanoseconds:8.0f} ns {nanoseconds / empty:7.1f}")


if __name__ == "__main__":
    main()
