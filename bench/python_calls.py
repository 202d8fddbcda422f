#!/usr/bin/env python3
"""What a call from Python costs beyond the library's own: PYTHONPATH=build/python python3 bench/python_calls.py [--target cuda]

Three inputs and one output of four numbers each. Times are the least of 100 rounds, in nanoseconds, and as multiples of a call
of an empty C function in the same run. run_bound() is the call with everything bound. On a GPU the tensors are PyTorch's, in its
memory, calls are on its stream, and a round ends before the GPU's queue is full, so that the times are the host's; the GPU is
waited for between rounds.
"""

import argparse
import time

import ingot
import numpy as np


def measure(call, calls=5_000, rounds=100, settle=lambda: None):
    times = []
    for _ in range(rounds):
        settle()
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


def network():
    net = ingot.Network()
    a, b, c = (net.input(name, "f32", [4]) for name in "abc")
    net.output("y", net.add("add", net.add("add", a, b), c))
    return net


def measure_on_cpu():
    session = ingot.compile(network()).session(threads=1)
    session.bind(tensors("numpy"), [np.zeros(4, np.float32)])
    yield "run_bound()", measure(session.run_bound)
    for kind in ("numpy", "buffer", "torch"):
        try:
            x, y, z = tensors(kind)
        except ImportError:
            continue
        yield f"session(x, y, z), {kind}", measure(lambda: session(x, y, z))


def measure_on_gpu():
    import torch

    queue = {"calls": 200, "settle": torch.cuda.synchronize}
    x, y, z, result = (torch.ones(4, device="cuda") for _ in range(4))
    session = ingot.compile(network(), target="cuda").session(stream=torch.cuda.current_stream().cuda_stream)
    yield "session(x, y, z), torch", measure(lambda: session(x, y, z), **queue)
    session.bind([x, y, z], [result])
    yield "run_bound()", measure(session.run_bound, **queue)
    yield "torch.add(x, y)", measure(lambda: torch.add(x, y), **queue)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    rows = [("an empty C function", measure(ingot._ingot._nothing))]
    rows += measure_on_gpu() if given.target == "cuda" else measure_on_cpu()
    empty = rows[0][1]
    for name, nanoseconds in rows:
        print(f"{name:28} {nanoseconds:8.0f} ns {nanoseconds / empty:7.1f}")


if __name__ == "__main__":
    main()
