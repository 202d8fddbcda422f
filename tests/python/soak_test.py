"""
Everything at once: engines are built, called with changing shapes, refitted, given adapters and thrown away by threads that know
nothing of each other, while results are compared and the process's memory is watched.

    soak_test.py                           as a test: some hundred builds
    soak_test.py --minutes 30              prints the memory each minute
    soak_test.py --builds 20 --no-memory    little, for ThreadSanitizer; or in $SOAK
"""

import argparse
import collections
import os
import sys
import tempfile
import threading
import time
import traceback

import numpy as np

import ingot
import ingot.ort
import onnx_file

MEBIBYTE = 1 << 20


def resident():
    """The process's resident memory in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE


def close(a, b):
    return a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-4)


class Soak:
    """Threads that work until `stop` is set; a failure stops all."""

    def __init__(self, folder):
        self.stop = threading.Event()
        self.failures, self.counts = [], collections.Counter()
        self.cache = ingot.Cache(os.path.join(folder, "cache"), max_bytes=64 * MEBIBYTE)
        self.rng = np.random.default_rng(7)
        self.weights = [{"w1": self.random(16, 32), "w2": self.random(32, 8)} for _ in range(2)]
        self.engine = ingot.compile(self.perceptron(self.weights[0]), cache=self.cache)
        self.arena = ingot.Arena()
        self.adapter_weights = self.random(16, 8)
        self.adapters = [(self.random(4, 16), self.random(8, 4)) for _ in range(2)]
        self.adapted = ingot.compile(self.linear(self.adapter_weights), adapters=2, adapter_rank=4)
        self.ort_weight = self.random(3, 4)
        model = onnx_file.model([onnx_file.node("MatMul", ["x", "w"], ["y"])], [("x", "float32", ["n", 3])],
                                [("y", "float32", ["n", 4])], {"w": self.ort_weight})
        options = ingot.ort.SessionOptions()
        options.add_session_config_entry("ingot.cache", os.path.join(folder, "ort"))
        self.ort = ingot.ort.InferenceSession(model, options)

    def random(self, *shape):
        return self.rng.standard_normal(shape, np.float32) / 4

    # ---- Networks

    @staticmethod
    def perceptron(weights):
        net = ingot.Network()
        h = net.add("matmul", net.input("x", "f32", ["n", 16]), net.weight("w1", weights["w1"]), label="first")
        net.output("y", net.add("matmul", net.add("Relu", h), net.weight("w2", weights["w2"]), label="second"))
        return net

    def expected(self, x):
        """By either set of weights: a run has the one or the other, and no mixture."""
        return [np.maximum(x @ w["w1"], 0) @ w["w2"] for w in self.weights]

    @staticmethod
    def linear(weight):
        net = ingot.Network()
        x, w = net.input("x", "f32", ["n", 16]), net.weight("layer.weight", weight)
        net.output("y", net.add("matmul", x, w, label="layer"))
        return net

    def check(self, what, got, possible):
        self.counts[what] += 1
        if not any(close(got, expected) for expected in possible):
            raise AssertionError(f"{what}: a wrong result")

    # ---- Work: each of these is done again and again by a thread of its own

    def call(self, rng):
        x = rng.standard_normal((rng.integers(1, 65), 16), np.float32)
        self.check("calls", self.engine(x), self.expected(x))

    def hold(self, rng):
        """A session of its own on a shared arena, whose results stay while later runs have other sizes."""
        session = self.engine.session(threads=1, arena=self.arena)
        if rng.integers(2):
            session.set_batch("n")
        held = []
        for _ in range(8):
            x = rng.standard_normal((rng.integers(1, 33), 16), np.float32)
            held.append((session(x), self.expected(x)))
        for got, possible in held:
            self.check("held results", got, possible)

    def bound(self, rng):
        x, y = np.zeros((4, 16), np.float32), np.zeros((4, 8), np.float32)
        session = self.engine.session(threads=2)
        session.bind([x], [y])
        for _ in range(8):
            x[...] = rng.standard_normal(x.shape, np.float32)
            session.run_bound()
            self.check("bound runs", y, self.expected(x))

    def queue(self, rng):
        with ingot.AsyncQueue(self.engine, sessions=2) as jobs:
            xs = [rng.standard_normal((n + 1, 16), np.float32) for n in range(8)]
            futures = [jobs.submit(x) for x in xs]
        for x, future in zip(xs, futures):
            self.check("queued runs", future.result(), self.expected(x))

    def refit(self, rng):
        self.engine.refit(self.weights[self.counts["refits"] % 2])
        self.counts["refits"] += 1
        self.stop.wait(0.002)

    def adapt(self, rng):
        """Adapters A, B, none and A in a slot, and samples that choose it."""
        x = rng.standard_normal((6, 16), np.float32)
        choice, first = np.array([0, 1, 0, 1, 0, 2], np.int64), None
        none = np.zeros((4, 16), np.float32), np.zeros((8, 4), np.float32)
        for a, b in (*self.adapters, none, self.adapters[0]):
            self.adapted.refit({"layer.lora_A.1.weight": a, "layer.lora_B.1.weight": b}, partial=True)
            expected = x @ self.adapter_weights
            expected[choice == 1] += x[choice == 1] @ a.T @ b.T
            got = self.adapted(x, choice)
            self.check("adapters", got, [expected])
            if a is self.adapters[0][0]:
                first = got if first is None else first
                if not np.array_equal(got, first):
                    raise AssertionError("an adapter that came back has other results")

    def onnxruntime(self, rng):
        x, y = rng.standard_normal((5, 3), np.float32), np.zeros((5, 4), np.float32)
        self.check("ort runs", self.ort.run(None, {"x": x})[0], [x @ self.ort_weight])
        binding = self.ort.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
        self.ort.run_with_iobinding(binding)
        self.check("ort bindings", y, [x @ self.ort_weight])

    def build(self, rng):
        """An engine of a kind that is new now and then, saved, loaded and run."""
        width, factor = int(rng.integers(1, 9)) * 4, float(rng.integers(1, 100))
        net = ingot.Network()
        x = net.input("x", "f32", ["n", width])
        net.output("y", net.add("mul", x, net.constant(np.full(width, factor, np.float32))))
        engine = ingot.compile(net, cache=self.cache if rng.integers(2) else None)
        x = rng.standard_normal((3, width), np.float32)
        for one in (engine, ingot.load(engine.tobytes())):
            self.check("built engines", one(x), [x * np.float32(factor)])
        self.counts["builds"] += 1

    def refuse(self, rng):
        """Errors, whose exceptions cross threads' states."""
        for wrong in (np.zeros((1, 15), np.float32), np.zeros((1, 16)), "text", None):
            try:
                self.engine(wrong)
            except (ingot.InvalidArgument, TypeError):
                continue
            raise AssertionError("a wrong input was taken")
        self.counts["refusals"] += 1
        self.stop.wait(0.002)

    # ---- Threads

    def repeat(self, work, seed):
        rng = np.random.default_rng(seed)
        while not self.stop.is_set():
            try:
                work(rng)
            except BaseException:
                self.failures.append(traceback.format_exc())
                self.stop.set()

    def start(self):
        """Four threads build at once."""
        work = [self.call, self.call, self.hold, self.bound, self.queue, self.refit, self.adapt, self.onnxruntime, self.refuse]
        self.threads = [threading.Thread(target=self.repeat, args=(one, seed))
                        for seed, one in enumerate(work + [self.build] * 4)]
        for thread in self.threads:
            thread.start()

    def finish(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def watch(soak, builds, minutes):
    """Waits until so much is done; returns the memory each second in the latter three quarters."""
    begin, memory, told = time.monotonic(), [], 0
    while not soak.stop.wait(1):
        seconds = time.monotonic() - begin
        memory.append(resident())
        if minutes and seconds >= 60 * told:
            print(f"{told:4} min {memory[-1]:7.1f} MiB  {dict(soak.counts)}", flush=True)
            told += 1
        if seconds >= 60 * minutes if minutes else soak.counts["builds"] >= builds:
            break
    return memory[len(memory) // 4:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--builds", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--no-memory", action="store_true", help="let the memory grow, as ThreadSanitizer's does")
    given = parser.parse_args(sys.argv[1:] or os.environ.get("SOAK", "").split())
    sys.setswitchinterval(1e-4)  # so that threads interleave in more ways
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(folder)
        soak.start()
        memory = watch(soak, given.builds, given.minutes)
        soak.finish()
        print(dict(soak.counts))
        for failure in soak.failures[:3]:
            print(failure)
    if soak.failures:
        return 1
    half = len(memory) // 2
    growth = min(memory[half:], default=0) - min(memory[:half], default=0) if half else 0
    print(f"memory: {min(memory, default=0):.1f} to {max(memory, default=0):.1f} MiB; its least grew by {growth:.1f} MiB")
    return int(growth > 16 and not given.no_memory)


if __name__ == "__main__":
    sys.exit(main())
