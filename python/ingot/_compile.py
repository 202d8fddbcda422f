"""ingot.compile: from whatever is a network to an engine."""

import os
import sys

from ._ingot import Engine, InvalidArgument, Model, Network, Toolchain


def _model_of(source):
    if isinstance(source, Model):
        return source
    if isinstance(source, Network):
        return source.finish()
    if hasattr(source, "SerializeToString"):  # onnx.ModelProto
        return Model(source.SerializeToString())
    if hasattr(source, "state_dict") or hasattr(source, "graph_signature"):
        raise TypeError("ingot.compile takes no PyTorch modules: use torch.compile(module, backend='ingot')")
    return Model(source)


def _dim_text(dim):
    """8, "1:8:32" or (1, 8, 32): a size, or the least, the usual and the largest."""
    if isinstance(dim, (tuple, list)):
        if len(dim) != 3:
            raise InvalidArgument(f"a range is {tuple(dim)}, expected (least, usual, largest)")
        return ":".join(str(size) for size in dim)
    return str(dim)


def _shape_texts(shapes, model):
    """Specifications of symbols ("1:8:32") and of whole inputs ("1x3x224x224"), as the library has them."""
    inputs = {info.name for info in model.inputs}
    texts = {}
    for name, spec in shapes.items():
        if name in inputs and isinstance(spec, (tuple, list)):
            texts[name] = "x".join(_dim_text(dim) for dim in spec)
        else:
            texts[name] = _dim_text(spec)
    return texts


class _Bar:
    """Progress on a terminal, by tqdm where it is installed."""

    def __init__(self):
        from tqdm import tqdm

        self.bar = tqdm(total=0, leave=False, bar_format="{desc} {n}/{total} |{bar}| {elapsed}")

    def __call__(self, what, done, total):
        self.bar.set_description_str(what, refresh=False)
        self.bar.total = total
        self.bar.n = done
        self.bar.refresh()

    def close(self):
        self.bar.close()


def _bar_or_none():
    if not (sys.stderr and sys.stderr.isatty()):
        return None
    try:
        return _Bar()
    except ImportError:
        return None


def _patterns(patterns):
    """{"*attention*": "fp32"} or a list of "PATTERN=TYPE"."""
    if isinstance(patterns, dict):
        return [f"{pattern}={value}" for pattern, value in patterns.items()]
    return patterns


def compile(
    source,
    *,
    path=None,
    target=None,
    precision=None,
    shapes=None,
    opt_level=3,
    tune=0,
    cache=None,
    progress=None,
    cc=None,
    nvrtc=None,
    precision_of=None,
    fuse_of=None,
    io_types=None,
    shard_of=None,
    **options,
):
    """Builds an engine.

    source: an ONNX file's path, its bytes, an onnx.ModelProto, an ingot.Model or an ingot.Network (which is finished by it).
    path: the engine's file; without it, the engine is in memory alone (Engine.save writes it).
    target: "cpu" (this machine's, the default), "cpu:x86-64-v3", "cpu:x86-64-v4", either with "+vnni", "cpu:amx", "cuda" (this
        machine's GPU, whose number is the option `device`; calls with tensors in host memory run there, too), "cuda:sm_90a" and so on.
    precision: "fp32" (the default), "tf32", "fp16" or "bf16": what products read and what is stored (docs/precision.md).
    precision_of, fuse_of, shard_of (how nodes are divided among ranks): {PATTERN of nodes' names or operators: value}, or a list of
        "PATTERN=value".
    io_types: {PATTERN of inputs' and outputs' names: "fp32", "fp16" or "bf16"}, for floats, in place of the model's type.
    shapes: {symbol: size or (least, usual, largest)} and {input: its shape, of such}.
    opt_level: 0 to 5. tune: measure candidates for at most so many seconds; timing_caches: files of such measurements.
    cache: an ingot.Cache, or the path of its folder.
    progress: called with (what, done, total); None: a bar on a terminal, if tqdm is installed; False: silence.
    cc, nvrtc: paths of the compilers; None: found ($CC, cc, gcc, clang, ziglang; NVRTC as cuda-pathfinder does).
    Further options: jobs, passes ("NAME=off"), verify_passes, portable, tactics, variants, strip_weights, note (called with a
        sentence on what was skipped), adapters, adapter_rank, adapter_layers, strict_qdq (quantised models as they are written),
        ranks (a number of threads or GPUs that compute a run together, or an ascending list of such numbers, of which the engine
        is loaded for the last: docs/distributed.md) sharding ("auto", "none", "batch", "tensor", "mixed" or "pipeline"), objective
        ("latency" or "throughput") and memory (the bytes that a rank may need).

    Returns an ingot.Engine, whose `report` says what the build did. Raises ingot.BadModel, Unsupported, InvalidArgument,
    Toolchain (no compiler) and ingot's other errors. Other threads run meanwhile.
    """
    from . import _tools
    from ._ingot import Cache

    model = _model_of(source)
    if isinstance(cache, (str, bytes, os.PathLike)):
        cache = Cache(cache)
    is_cuda = target is not None and target.startswith("cuda")
    bar = _bar_or_none() if progress is None else None
    if bar:
        progress = bar
    try:
        return model.build(
            path,
            target=target,
            precision=precision,
            shapes=_shape_texts(shapes, model) if shapes else None,
            opt_level=opt_level,
            tune=tune,
            cache=cache,
            progress=progress or None,
            cc=cc or (None if is_cuda else _tools.find_cc()),
            nvrtc=nvrtc or (_tools.find_nvrtc() if is_cuda else None),
            precision_of=_patterns(precision_of),
            fuse_of=_patterns(fuse_of),
            io_types=_patterns(io_types),
            shard_of=_patterns(shard_of),
            **options,
        )
    except Toolchain as error:
        advice = "pip install 'libingot[cuda13]' has NVRTC" if is_cuda else "pip install 'libingot[cc]' has a compiler"
        raise Toolchain(f"{error} ({advice})") from None
    finally:
        if bar:
            bar.close()


__all__ = ["compile", "Engine"]
