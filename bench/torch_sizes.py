#!/usr/bin/env python3
"""Throughput with sizes that vary, through PyTorch and through the C API: PYTHONPATH=build/python python3 bench/torch_sizes.py

A BERT is compiled by torch.compile(dynamic=True), and exported to an engine file with a symbolic batch and length. Then a stream of
random batches and lengths goes through each in turn, in alternating rounds of one process: calls of the compiled module, calls of
a session of the engine, and runs of a context of the engine by the functions of ingot.h (through ctypes, which adds a
microsecond or two to each). On a GPU (half precision) the tensors are in its memory and a round ends with one wait; on the
CPU (fp32, one thread) each run ends before the next, and the times are the processor's. Prints the medians, and how many graphs
and engines were made.
"""

import argparse
import ctypes
import pathlib
import random
import statistics
import tempfile
import time

import ingot
import ingot.torch
import torch


class Tensor(ctypes.Structure):
    """struct ingot_tensor"""

    _fields_ = [("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("dims", ctypes.c_int64 * 8), ("data", ctypes.c_void_p),
                ("memory", ctypes.c_int)]  # fmt: skip


class Options(ctypes.Structure):
    """The beginning of struct ingot_context_options; the rest has its defaults."""

    _fields_ = [("size", ctypes.c_size_t), ("allocator", ctypes.c_void_p), ("threads", ctypes.c_uint)]


I64, HOST, CUDA = 8, 0, 2  # of enum ingot_dtype and enum ingot_memory


class Context:
    """A context of the library that the package has loaded, by the functions of ingot.h."""

    def __init__(self, path, threads, on_gpu):
        maps = pathlib.Path("/proc/self/maps").read_text()
        self.library = ctypes.CDLL(next(x.split()[-1] for x in maps.splitlines() if "/libingot.so" in x))
        self.error = ctypes.create_string_buffer(4096)
        self.on_gpu, self.memory = on_gpu, CUDA if on_gpu else HOST
        engine, self.context = ctypes.c_void_p(), ctypes.c_void_p()
        options = Options(ctypes.sizeof(Options), None, threads)
        self.must(self.library.ingot_engine_load(str(path).encode(), None, ctypes.byref(engine), self.error))
        self.must(self.library.ingot_context_create(engine, ctypes.byref(options), ctypes.byref(self.context), self.error))
        if on_gpu:
            zero = ctypes.c_size_t(0)
            self.must(self.library.ingot_context_set_output_in(self.context, zero, CUDA, None, zero, self.error))

    def must(self, status):
        if status:
            raise RuntimeError(self.error.raw[4:].split(bytes(1))[0].decode())

    def tensors(self, inputs):
        dims = ctypes.c_int64 * 8
        return [Tensor(I64, x.dim(), dims(*x.shape), x.data_ptr(), self.memory) for x in inputs]

    def run(self, tensors):
        for i, tensor in enumerate(tensors):
            self.must(self.library.ingot_context_set_input(self.context, ctypes.c_size_t(i), ctypes.byref(tensor), self.error))
        if self.on_gpu:
            self.must(self.library.ingot_context_enqueue(self.context, None, self.error))
        else:
            self.must(self.library.ingot_context_run(self.context, self.error))

    def wait(self):
        self.must(self.library.ingot_context_wait(self.context, self.error))


def bert(args):
    import transformers

    small = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
    config = transformers.BertConfig(return_dict=False, **(small if args.small else {}))
    module = transformers.BertModel(config, add_pooling_layer=False).eval().to(args.device)
    return module.half() if args.device == "cuda" else module


def stream(args):
    """Inputs of random sizes."""
    numbers, inputs = random.Random(1), []
    for _ in range(args.sizes):
        shape = numbers.randint(1, args.batch), numbers.randint(2, args.length)
        ids = torch.randint(0, 1000, shape, device=args.device)
        inputs.append((ids, torch.ones_like(ids)))
    return inputs


def export(module, inputs, args, path):
    dims = {0: torch.export.Dim("batch", min=1, max=args.batch), 1: torch.export.Dim("length", min=2, max=args.length)}
    target = {"target": "cuda"} if args.device == "cuda" else {}
    ingot.torch.export(module, inputs[0], dynamic_shapes={"input_ids": dims, "attention_mask": dims}, path=path, **target)


def run_all(function, calls):
    for arguments in calls:
        function(*arguments)


def ways(module, inputs, args, path):
    """name -> (a function that runs the stream, one that waits)"""
    counts = {"graphs": 0, "engines": 0}

    def backend(graph, example, **rest):
        counts["graphs"] += 1
        return ingot.torch.backend(graph, example, options={"strict": True, "threads": 1})

    build = ingot.torch.artifacts.build

    def counted(*arguments, **options):
        counts["engines"] += 1
        return build(*arguments, **options)

    ingot.torch.artifacts.build = counted
    compiled = torch.compile(module, backend=backend, dynamic=True)
    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    session = ingot.load(path).session(threads=1)
    context = Context(path, 1, args.device == "cuda")
    tensors = [context.tensors(x) for x in inputs]
    return counts, {
        "torch.compile": (lambda: run_all(compiled, inputs), wait),
        "a session": (lambda: run_all(session, inputs), wait),
        "the C API": (lambda: run_all(context.run, [(x,) for x in tensors]), context.wait),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--small", action="store_true", help="4 layers of 128 instead of BERT base's 12 of 768")
    parser.add_argument("--sizes", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16, help="the largest")
    parser.add_argument("--length", type=int, default=128, help="the largest")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    clock = time.perf_counter if args.device == "cuda" else time.process_time
    module, inputs, times = bert(args), stream(args), {}
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bert.ingot"
        export(module, inputs, args, path)
        counts, found = ways(module, inputs, args, path)
        for turn in range(args.rounds + 2):  # all sizes are known after the first two
            for name, (run, wait) in found.items():
                begin = clock()
                run()
                wait()
                times.setdefault(name, []).append(clock() - begin)
    times = {name: list_of[2:] for name, list_of in times.items()}
    for name, list_of in times.items():
        ratio = statistics.median(a / b for a, b in zip(list_of, times["the C API"]))
        print(f"{name:14} {statistics.median(list_of) / args.sizes * 1e3:9.4f} ms a run, {ratio:.3f} of the C API's time")
    print(f"{counts['graphs']} graphs of dynamo's, {counts['engines']} engines built")


if __name__ == "__main__":
    main()
