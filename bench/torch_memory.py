#!/usr/bin/env python3
"""What torch.compile(backend="ingot") keeps of a module's weights beside the module's own.

    PYTHONPATH=build/python python3 bench/torch_memory.py [--device cpu] [--batch N] [--networks NAME,...]

A process for each network: bytes of the module's parameters and buffers, of the engines' weights that are read there and of
those that engines have made, and by how much the memory in use grows with the compilation and the first calls: on a GPU that
of the GPU (cudaMemGetInfo; kernels, activations and the driver's part included), and of the host (resident, what is freed
given back). Modules are in half precision on a GPU, images channels-last, and in fp32 on the CPU. The results are compared
with eager PyTorch's.
"""
import argparse
import gc
import json
import subprocess
import sys

import compare_gpu

NETWORKS = ["bert_base", "resnet50", "vit_b_16", "gpt2", "mlp_16x512"]


def resident():
    """Bytes of this process in memory."""
    import ctypes

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))


def used(device):
    import torch

    if device == "cpu":
        return 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return total - free


def measure(name, device, batch):
    import ingot.torch
    import torch
    from ingot.torch.program import Engine

    torch.manual_seed(0)
    network, inputs = compare_gpu.peer_network(name, batch)
    network.eval()
    if device == "cuda":
        network, inputs = compare_gpu.to_gpu(network, inputs)
    weights = {id(p): p for p in [*network.parameters(), *network.buffers()]}.values()
    size = sum(p.numel() * p.element_size() for p in weights)
    with torch.inference_mode():
        expected = network(*inputs)  # what eager PyTorch loads is not counted
        gpu, host = used(device), resident()
        call = torch.compile(network, backend=ingot.torch.backend, dynamic=False, options={"strict": True})
        for _ in range(3):
            result = call(*inputs)
        grown_gpu, grown_host = used(device) - gpu, resident() - host
    engines = [x for x in gc.get_objects() if type(x) is Engine]
    if isinstance(result, (tuple, list)):
        result, expected = result[0], expected[0]
    print(json.dumps({
        "network": name, "device": device, "batch": batch, "module": size,
        "borrowed": sum(e.memory["borrowed_bytes"] for e in engines),
        "owned": sum(e.memory["owned_bytes"] for e in engines),
        "grown_gpu": grown_gpu, "grown_host": grown_host,
        "difference": float((result.float() - expected.float()).abs().max() / max(float(expected.abs().max()), 1e-30)),
    }))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        return measure(args.one, args.device, args.batch)
    print("| network | module, MB | read there, MB | made, MB | made / module | GPU grew, MB | host grew, MB | difference |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.networks.split(","):
        command = [sys.executable, __file__, "--one", name, "--device", args.device, "--batch", str(args.batch)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"| {name} | failed |")
            continue
        r = json.loads(done.stdout.splitlines()[-1])
        mb = [f"{r[key] / 1e6:.1f}" for key in ("module", "borrowed", "owned")]
        grown = [f"{r[key] / 1e6:.1f}" for key in ("grown_gpu", "grown_host")]
        cells = [name, *mb, f"{r['owned'] / r['module']:.3f}", *grown, f"{r['difference']:.1e}"]
        print("| " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
