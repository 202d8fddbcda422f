"""What torch.compile(backend="ingot") and torch.export make of one network of the zoo, beside eager PyTorch."""
import json
import pathlib
import time

import zoo_list

BATCH = 2


def tensors(result):
    """The tensors of a module's results, which are tensors or nests of these."""
    import torch

    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict) or hasattr(result, "to_tuple"):
        result = result.values() if isinstance(result, dict) else result.to_tuple()
    return [t for item in result if item is not None for t in tensors(item)]


def error(found, expected):
    """The largest difference, relative to the largest magnitude of each result; infinity where the results are of other kinds."""
    import torch

    if len(found) != len(expected) or any(f.shape != e.shape or f.dtype != e.dtype for f, e in zip(found, expected)):
        return float("inf")
    errors = [0.0]
    for f, e in zip(found, expected):
        if not e.is_floating_point():
            errors.append(float((f != e).float().mean()) if e.numel() else 0.0)
        elif e.numel():
            f, e = f.double(), e.double()
            same_nan = torch.equal(f.isnan(), e.isnan())
            difference = (f - e).nan_to_num(0, 0, 0).abs().max()
            errors.append(float(difference / e.nan_to_num(0, 0, 0).abs().max().clamp_min(1e-6)) if same_nan else float("inf"))
    return max(errors)


def dtype_of(precision):
    import torch

    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]


def try_network(name, way, precision, device, path):
    """Writes what was found to the file: graphs, engines, operators outside with reasons, seams, seconds, the error."""
    import ingot.torch as backend
    import torch

    torch._dynamo.config.allow_rnn = True
    network = zoo_list.networks()[name]
    module = network.build().to(device)
    inputs = [x.to(device) for x in network.inputs(BATCH).values()]
    with torch.no_grad():
        expected = tensors(module(*inputs))
        row = {}
        if precision != "fp32":  # beside the same arithmetic in eager PyTorch
            dtype = dtype_of(precision)
            module = module.to(dtype)
            inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
            eager = tensors(module(*inputs))
            expected = [e.to(f.dtype) for e, f in zip(expected, eager)]
            row["error_of_eager"] = error(eager, expected)
        if way == "compile":
            report = backend.report(module, tuple(inputs))
            row |= {"graphs": len(report.graphs), "engines": sum(g.engines for g in report.graphs),
                    "operators": sum(g.operators for g in report.graphs), "outside": [str(x) for x in report.outside],
                    "breaks": report.breaks, "seam_bytes": sum(g.seam_bytes for g in report.graphs)}
            torch._dynamo.reset()
            compiled = torch.compile(module, backend=backend.backend)
            began = time.monotonic()
            found = tensors(compiled(*inputs))
        else:
            began = time.monotonic()
            engine = backend.export(module, tuple(inputs), target="cuda" if device == "cuda" else None)
            found = tensors(engine(*inputs))
        row |= {"seconds": time.monotonic() - began, "error_of": error(found, expected)}
    pathlib.Path(path).write_text(json.dumps(row))
