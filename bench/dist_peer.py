"""One rank of PyTorch's side of compare_dist.py: a network divided by hand among processes, one GPU each, compiled by Inductor
and captured in a CUDA graph together with its collectives (NCCL).

decoder and mixture, of dist_networks.py, are divided by tensors as in Megatron: heads and the inner axis, or experts; an
all-reduce behind the attention and one behind the layers or experts; columns of the vocabulary, gathered. A layer is one compiled
function, which begins with the sum that the layer before has left, so that this is fused with the norm behind it. Other networks
are divided by their batch, and the results are gathered. On the CPU (Gloo, fp32), for trying this out, nothing is captured.
"""
import json
import os
import statistics
import sys
import time

from compare_gpu import peer_network, to_gpu

EPSILON = 1e-5


def say(**figures):
    print(json.dumps(figures), flush=True)


# ---- Divided by tensors


def all_reduce(x):
    import torch.distributed
    import torch.distributed._functional_collectives as collectives

    return collectives.all_reduce(x, "sum", torch.distributed.group.WORLD) if torch.distributed.get_world_size() > 1 else x


def rms_norm(x, weight):
    import torch

    y = x.float()
    return (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + EPSILON)).to(x.dtype) * weight


def rotate(x, cos, sin):
    import torch

    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def attention(h, w, sizes, cos, sin, position, mask):
    import torch.nn.functional as F

    tokens, size = h.shape[0], sizes["size"]
    q, k, v = F.linear(h, w["qkv"]).split([sizes["heads"] * size, sizes["kv_heads"] * size, sizes["kv_heads"] * size], -1)
    q, k, v = (x.view(tokens, -1, size).transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    w["keys"][:, :, position] = rotate(k, cos, sin)
    w["values"][:, :, position] = v
    y = F.scaled_dot_product_attention(rotate(q, cos, sin), w["keys"], w["values"], attn_mask=mask,
                                       enable_gqa=sizes["heads"] != sizes["kv_heads"])
    return F.linear(y.squeeze(0).transpose(0, 1).reshape(tokens, -1), w["out"])


def gated(h, w):
    import torch.nn.functional as F

    gate, up = F.linear(h, w["gate_up"]).chunk(2, -1)
    return F.linear(F.silu(gate) * up, w["down"])


def experts(h, w, sizes):
    """This rank's experts, each on all tokens: [experts, tokens, …]."""
    import torch
    import torch.nn.functional as F

    best, which = F.linear(h, w["router"]).float().softmax(-1).topk(sizes["top"], -1)
    shares = torch.zeros(h.shape[0], sizes["experts"], device=h.device).scatter(1, which, best / best.sum(-1, keepdim=True))
    own = shares[:, sizes["first_expert"]:sizes["first_expert"] + w["down"].shape[0]].t().unsqueeze(-1).to(h.dtype)
    gate, up = torch.matmul(h, w["gate_up"].transpose(1, 2)).chunk(2, -1)
    return (torch.matmul(F.silu(gate) * up, w["down"].transpose(1, 2)) * own).sum(0)


def layer(x, left, w, sizes, cos, sin, position, mask):
    x = x + left
    x = x + all_reduce(attention(rms_norm(x, w["norm"]), w, sizes, cos, sin, position, mask))
    h = rms_norm(x, w["second_norm"])
    return x, all_reduce(experts(h, w, sizes) if sizes["experts"] else gated(h, w))


class Stack:
    """A rank's part of a decoder."""

    def __init__(self, c, rank, ranks, device, dtype):
        import torch

        self.ranks, size, hidden = ranks, c["hidden"] // c["heads"], c["hidden"]
        own = lambda count: count // ranks
        self.sizes = {"size": size, "heads": own(c["heads"]), "kv_heads": own(c["kv_heads"]), "experts": c["experts"],
                      "top": c.get("top", 0), "first_expert": rank * own(c["experts"])}

        def weight(*shape, deviation=0.02):
            return (torch.randn(*shape, device=device) * deviation).to(dtype)

        length = c["past"] + c["tokens"]
        inner = (own(c["experts"]), 2 * c["inner"]) if c["experts"] else (2 * own(c["inner"]),)
        self.layers = [{
            "norm": torch.ones(hidden, device=device, dtype=dtype), "second_norm": torch.ones(hidden, device=device, dtype=dtype),
            "qkv": weight((self.sizes["heads"] + 2 * self.sizes["kv_heads"]) * size, hidden),
            "out": weight(hidden, self.sizes["heads"] * size),
            "gate_up": weight(*inner, hidden), "down": weight(*inner[:-1], hidden, inner[-1] // 2),
            **({"router": weight(c["experts"], hidden)} if c["experts"] else {}),
            **{name: weight(1, self.sizes["kv_heads"], length, size, deviation=1) for name in ("keys", "values")},
        } for _ in range(c["layers"])]
        self.table, self.head = weight(c["words"], hidden), weight(own(c["words"]), hidden)
        self.norm = torch.ones(hidden, device=device, dtype=dtype)
        self.ids = torch.arange(c["tokens"], device=device)
        self.position = torch.arange(c["past"], length, device=device)
        speeds = 1e4 ** (-torch.arange(0, size, 2, device=device) / size)
        self.speeds = torch.cat((speeds, speeds))
        self.mask = None if c["tokens"] == 1 else torch.arange(length, device=device) <= self.position[:, None]
        self.dtype, self.all = dtype, torch.empty(ranks * c["tokens"], own(c["words"]), device=device, dtype=dtype)

    def compile(self):
        import torch

        self.begin, self.layer, self.end = (
            torch.compile(f, dynamic=False, fullgraph=True) for f in (self.begin, layer, self.end))

    def begin(self):
        import torch

        x = self.table[self.ids]
        angle = self.position[:, None] * self.speeds
        return x, torch.zeros_like(x), angle.cos().to(self.dtype), angle.sin().to(self.dtype)

    def end(self, x, left):
        import torch.nn.functional as F

        return F.linear(rms_norm(x + left, self.norm), self.head)

    def __call__(self):
        import torch.distributed

        x, left, cos, sin = self.begin()
        for w in self.layers:
            x, left = self.layer(x, left, w, self.sizes, cos, sin, self.position, self.mask)
        logits = self.end(x, left)
        if self.ranks == 1:
            return logits
        torch.distributed.all_gather_into_tensor(self.all, logits)
        return self.all.view(self.ranks, *logits.shape).transpose(0, 1).flatten(1)


# ---- Divided by batch


class Batch:
    """A rank's part of the batch, and the gathering of the results; parts are equal."""

    def __init__(self, c, ranks, device):
        network, inputs = peer_network(c["network"], c["batch"] // ranks)
        self.network, self.inputs = to_gpu(network, inputs) if device == "cuda" else (network.eval(), inputs)
        self.ranks = ranks

    def compile(self):
        import torch

        self.network = torch.compile(self.network, dynamic=False)

    def __call__(self):
        import torch

        result = self.network(*self.inputs)
        result = result[0] if isinstance(result, (tuple, list)) else result
        if self.ranks == 1:
            return result
        whole = result.new_empty(self.ranks * result.shape[0], *result.shape[1:])
        torch.distributed.all_gather_into_tensor(whole, result.contiguous())
        return whole


# ---- Measuring


def captured(run):
    """A CUDA graph; NCCL's watchdog asks for events meanwhile, so only this thread's calls may not disturb the capture."""
    import torch

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        run()
    return graph.replay


def gpu_times(replay, count):
    """Times of the second of two replays in a row each, so that neither the host nor a rank that comes late is waited for."""
    import torch

    times = []
    for _ in range(count):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        replay()
        start.record()
        replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return times


def host_times(run, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - begin))
    return times


def main():
    """Arguments: the case in JSON, cuda or cpu. Rank and number of ranks are in the environment, as torchrun puts them. Answers each
    line, a number of runs, which must be the same on all ranks."""
    import torch
    import torch._inductor.config as config

    c, device = json.loads(sys.argv[1]), sys.argv[2]
    rank, ranks, gpu = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), device == "cuda"
    if gpu:
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl" if gpu else "gloo", **({"device_id": torch.device("cuda", rank)} if gpu else {}))
    config.freezing = "network" in c  # with functions of given weights it has nothing to do
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(rank)
    with torch.inference_mode():
        if "network" in c:
            run = Batch(c, ranks, device)
        else:
            run = Stack(c, rank, ranks, device, torch.half if gpu else torch.float)
        run.compile()
        replay, measure = (captured(run), gpu_times) if gpu else (run, host_times)
        measure(replay, 3)
        say(ready=True, versions=[torch.__version__, ".".join(map(str, torch.cuda.nccl.version())) if gpu else "Gloo"],
            ms=statistics.median(measure(replay, 5)))
        for line in sys.stdin:
            torch.distributed.barrier()
            say(ms=statistics.median(measure(replay, int(line))))


if __name__ == "__main__":
    main()
