"""The zoo's networks as ONNX files without their weights, which are filled in where they are needed.

What an exported initialiser of random numbers leaves behind is its mean, deviation and range, from which numbers like them
are made again, everywhere the same: so a hundred networks are a few megabytes. Constants that compress, such as masks and
tables of positions, are kept.
"""
import inspect
import os
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHRINK = 0.7  # of deviations: biases that were to cancel means no longer do, and would let activations grow from layer to layer
RANDOM = (TensorProto.FLOAT, TensorProto.FLOAT16)


# ---- Exporting


def export(network, exporter, batch, path):
    """Writes a network without its weights. `batch`: its fixed one, or None for a symbolic one; raises where that fails."""
    import torch

    torch.backends.mha.set_fastpath_enabled(False)  # one operator of PyTorch's own, which ONNX does not have
    module, inputs = network.build(), network.inputs(batch or 2)
    with torch.no_grad():
        model = (export_dynamo if exporter == "dynamo" else export_torchscript)(module, inputs, batch is None)
    if batch is None and not all("batch" in [d.dim_param for d in i.type.tensor_type.shape.dim[:1]] for i in model.graph.input):
        raise ValueError("the exporter fixed the batch")
    path.parent.mkdir(parents=True, exist_ok=True)
    for part in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.initializer):
        del part.metadata_props[:]  # where in Python each node comes from: most of the file
    strip(model, path.name + ".data")
    path.write_bytes(model.SerializeToString())


def export_dynamo(module, inputs, symbolic):
    import torch

    arguments = inspect.signature(module.forward).bind(*inputs.values()).arguments
    dims = {k: tuple({0: "batch"} for _ in v) if isinstance(v, tuple) else {0: "batch"} for k, v in arguments.items()}
    program = torch.onnx.export(module, tuple(inputs.values()), dynamo=True, input_names=list(inputs), verbose=False,
                                dynamic_shapes=dims if symbolic else None)
    return program.model_proto


def export_torchscript(module, inputs, symbolic):
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(module, tuple(inputs.values()), path, dynamo=False, input_names=list(inputs), opset_version=18,
                          dynamic_axes={name: {0: "batch"} for name in inputs} if symbolic else None)
        return onnx.load(path)


# ---- Weights


def strip(model, location):
    """Leaves of each tensor of random numbers what fill() needs, in its doc_string, and its place in the file `location`."""
    end = 0
    for t in model.graph.initializer:
        if t.data_type not in RANDOM:
            continue
        values = numpy_helper.to_array(t)
        data = values.tobytes()
        if len(data) < 2048 or len(zlib.compress(data[:1 << 20], 1)) < len(data[:1 << 20]) // 2:
            continue
        numbers = values.astype(np.float64)
        numbers = numbers.mean(), numbers.std(), numbers.min(), numbers.max()
        kept = TensorProto(name=t.name, data_type=t.data_type, dims=t.dims, data_location=TensorProto.EXTERNAL,
                           doc_string=" ".join(f"{n:.6g}" for n in numbers))
        for key, value in (("location", location), ("offset", end), ("length", len(data))):
            kept.external_data.add(key=key, value=str(value))
        t.CopyFrom(kept)
        end += (len(data) + 63) // 64 * 64


def fill(path):
    """Writes the file of weights beside a stripped model, if it is not there."""
    data = path.with_name(path.name + ".data")
    if data.exists():
        return
    tensors = [t for t in onnx.load(path, load_external_data=False).graph.initializer if t.doc_string]
    file, unfinished = tempfile.mkstemp(dir=path.parent)

    def write(t):
        mean, deviation, low, high = map(np.float32, t.doc_string.split())
        place = {entry.key: entry.value for entry in t.external_data}
        count = int(np.prod(t.dims))
        values = np.random.default_rng(zlib.crc32(t.name.encode())).standard_normal(count, dtype=np.float32)
        values = np.clip(values * (SHRINK * deviation) + mean, low, high).astype(onnx.helper.tensor_dtype_to_np_dtype(t.data_type))
        os.pwrite(file, values.tobytes(), int(place["offset"]))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(write, tensors):
            pass
    os.close(file)
    os.rename(unfinished, data)


# ---- Data


def write_inputs(network, path, batch, folder, precision="fp32"):
    """input_K.pb of a model's inputs, in its order, floats in that type. Returns [(name, file)]."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = onnx.load(path, load_external_data=False).graph
    inputs, files = network.inputs(batch), []
    for k, value in enumerate(graph.input):
        file = folder / f"input_{k}.pb"
        if not file.exists():
            file.write_bytes(tensor_proto(value.name, inputs[value.name], precision).SerializeToString())
        files.append((value.name, file))
    return files


def tensor_proto(name, tensor, precision):
    import torch

    if tensor.is_floating_point() and precision == "fp16":
        tensor = tensor.half()
    if tensor.is_floating_point() and precision == "bf16":
        raw = tensor.bfloat16().view(torch.int16).numpy().tobytes()
        return helper.make_tensor(name, TensorProto.BFLOAT16, tensor.shape, raw, raw=True)
    return numpy_helper.from_array(tensor.numpy(), name)


def write_outputs(path, folder):
    """output_K.pb of what ONNX Runtime computes from the inputs of a folder."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", 0))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {}
    for k, value in enumerate(session.get_inputs()):
        tensor = TensorProto()
        tensor.ParseFromString((folder / f"input_{k}.pb").read_bytes())
        feed[value.name] = numpy_helper.to_array(tensor)
    for k, (value, array) in enumerate(zip(session.get_outputs(), session.run(None, feed))):
        if not np.isfinite(array.astype(np.float64)).all():
            raise ValueError(f"ONNX Runtime's {value.name} is not finite")
        tensor = numpy_helper.from_array(np.ascontiguousarray(array), value.name)
        (folder / f"output_{k}.pb").write_bytes(tensor.SerializeToString())
