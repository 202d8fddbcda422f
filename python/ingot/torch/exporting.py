"""Engine files from torch.export's programs."""

import os
import tempfile

import ingot

import torch
from torch.export.graph_signature import InputKind, OutputKind

from . import decompositions, dims
from .dynamo import describe
from .errors import Fallback, Unsupported
from .importer import Importer, is_tensor, value_of
from .plan import is_check, make_plan


def export(program, args=(), kwargs=None, *, path=None, dynamic_shapes=None, via="aten", **options):
    """
    An engine that needs no PyTorch to run.

    program         a torch.export.ExportedProgram; or a module, which torch.export then captures with `args`, `kwargs` and
                    `dynamic_shapes`
    path            where the engine's file is to be written; None: nowhere
    via             "aten": straight from PyTorch's operators; "onnx": by torch.onnx.export, which needs the package onnxscript,
                    and Ingot's importer of ONNX: for programs with operators that only this way has
    options         keyword arguments of ingot.compile (target, precision, ...)

    Inputs have the names of the module's arguments, weights those of its state_dict. Buffers that the module writes to become
    further inputs, by the buffers' names, in whose memory the engine writes (not in ONNX, where this is Unsupported). Raises
    Fallback, with the list of operators, if not all of the program can be in the engine; ingot.Unsupported by way of ONNX.
    """
    if via not in ("aten", "onnx"):
        raise ValueError(f"via is {via!r}, expected 'aten' or 'onnx'")
    if not isinstance(program, torch.export.ExportedProgram):
        with torch.no_grad():
            program = torch.export.export(program, tuple(args), kwargs, dynamic_shapes=dynamic_shapes)
    if path is not None:
        options["path"] = path
    if via == "onnx":
        return _compile_onnx(program, dynamic_shapes, **options)
    with dims.named(_dim_names(program, dynamic_shapes)):
        model = to_model(program)
    return ingot.compile(model, **options)


def _compile_onnx(program, dynamic_shapes, *, shapes=(), **options):
    try:
        import onnxscript  # noqa: F401 (torch.onnx.export asks for it in a longer message)
    except ImportError as error:
        raise ImportError("via='onnx' is by PyTorch's exporter, which is missing: pip install onnxscript") from error
    signature = program.run_decompositions({}).graph_signature  # which tells what is written to
    written = {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}
    if written:
        names = ", ".join(sorted(written.values()))
        raise Unsupported(f"a program that writes to {names}, which ONNX cannot say: use via='aten'")
    exported = torch.onnx.export(program, dynamic_shapes=dynamic_shapes, dynamo=True, verbose=False)
    with tempfile.TemporaryDirectory() as folder:  # the weights may be too large for one message
        file = os.path.join(folder, "model.onnx")
        exported.save(file, external_data=True)
        model = ingot.Model(file)
        sizes = {size for info in model.inputs for size in info.shape}
        ranges = _ranges(program, _dim_names(program, dynamic_shapes))
        ranges = {name: bounds for name, bounds in ranges.items() if name in sizes}
        return ingot.compile(model, shapes={**ranges, **dict(shapes or ())}, **options)


def _ranges(program, names):
    """{name: (least, usual, largest)} of the sizes of inputs, as ingot.compile takes them; names: _dim_names."""
    ranges = {}
    for node in program.graph.nodes:
        sizes = value_of(node).shape if node.op == "placeholder" and is_tensor(value_of(node)) else ()
        for size in sizes:
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                symbol, env = size.node.expr, size.node.shape_env
                least, largest = dims.range_of(symbol, env, program.range_constraints)
                ranges[names.get(symbol.name, symbol.name)] = (least, size.node.hint, largest)
    return ranges


def _dim_names(program, dynamic_shapes):
    """symbol's name -> name of the caller's torch.export.Dim, where each says one thing alone."""
    shapes = dynamic_shapes.values() if isinstance(dynamic_shapes, dict) else dynamic_shapes or ()
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    given = [nodes[name] for name in program.graph_signature.user_inputs if name in nodes]
    names = {}
    for node, shape in zip(given, shapes):
        axes = (
            shape.items() if isinstance(shape, dict) else enumerate(shape) if isinstance(shape, (list, tuple)) else ()
        )
        for axis, dim in axes:
            size = value_of(node).shape[axis] if is_tensor(value_of(node)) and isinstance(axis, int) else None
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and hasattr(dim, "__name__"):
                names[size.node.expr.name] = dim.__name__
    return names if len(set(names.values())) == len(names) and not names.keys() & set(names.values()) else {}


def to_model(program):
    """An ingot.Model of an ExportedProgram."""
    with torch.no_grad():
        program = program.run_decompositions(decompositions.table(exported=True))
    plan = make_plan(program.graph_module)
    if plan.outside or plan.epilogue:
        raise Fallback(describe(plan))
    module = program.graph_module
    importer = Importer(module, program.range_constraints)
    signature = program.graph_signature
    nodes = {n.name: n for n in module.graph.nodes}
    specs = {nodes[s.arg.name]: s for s in signature.input_specs if getattr(s.arg, "name", None) in nodes}
    written = set(signature.buffers_to_mutate.values())
    given = [n for n, s in specs.items() if s.kind == InputKind.USER_INPUT and is_tensor(value_of(n))]
    state = {s.target: n for n, s in specs.items() if s.kind == InputKind.BUFFER and s.target in written}
    for node in given:
        importer.add_input(node)
    for name, node in state.items():
        importer.add_input(node, name)
    for node, spec in specs.items():
        if spec.kind not in (InputKind.USER_INPUT, InputKind.TOKEN) and spec.target not in state:
            importer.values[node] = importer.add_weight(spec.target, _tensor_of(spec, program))
    for node in module.graph.nodes:
        if node.op == "call_function" and not is_check(node) and _gives_tensors(node):
            importer.add_node(node)
    used = set(state)
    for spec in signature.output_specs:
        if spec.kind == OutputKind.TOKEN:
            continue
        node = nodes.get(getattr(spec.arg, "name", None))
        if node is None or not is_tensor(value_of(node)):
            raise Unsupported(f"a result that is no tensor: {spec.arg}")
        value = importer.values[node].raw
        if spec.kind == OutputKind.BUFFER_MUTATION:
            importer.network.update(
                _unique(f"{spec.target} (new)", used), importer.values[state[spec.target]].raw, value
            )
        elif spec.kind == OutputKind.USER_OUTPUT:
            importer.network.output(_unique(node.name, used), value)
        else:
            raise Unsupported(f"a program that writes to its arguments: {spec.target}")
    return importer.network.finish()


def _gives_tensors(node):
    val = value_of(node)
    return is_tensor(val) or isinstance(val, (tuple, list))


def _unique(name, used):
    count, wanted = 1, name
    while name in used:
        count += 1
        name = f"{wanted}_{count}"
    used.add(name)
    return name


def _tensor_of(spec, program):
    is_constant = spec.kind == InputKind.CONSTANT_TENSOR or (spec.kind == InputKind.BUFFER and not spec.persistent)
    return (program.constants if is_constant else program.state_dict)[spec.target]
