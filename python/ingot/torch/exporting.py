"""Engine files from torch.export's programs."""

import ingot

import torch
from torch.export.graph_signature import InputKind, OutputKind

from . import decompositions, dims
from .dynamo import describe
from .errors import Fallback, Unsupported
from .importer import Importer, is_tensor, value_of
from .plan import is_check, make_plan


def export(program, args=(), kwargs=None, *, path=None, dynamic_shapes=None, **options):
    """
    An engine that needs no PyTorch to run.

    program         a torch.export.ExportedProgram; or a module, which torch.export then captures with `args`, `kwargs` and
                    `dynamic_shapes`
    path            where the engine's file is to be written; None: nowhere
    options         keyword arguments of ingot.compile (target, precision, ...)

    Inputs have the names of the module's arguments, weights those of its state_dict. Buffers that the module writes to become
    further inputs, by the buffers' names, in whose memory the engine writes. Raises Fallback, with the list of operators, if
    not all of the program can be in the engine.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        with torch.no_grad():
            program = torch.export.export(program, tuple(args), kwargs, dynamic_shapes=dynamic_shapes)
    with dims.named(_dim_names(program, dynamic_shapes)):
        model = to_model(program)
    if path is not None:
        options["path"] = path
    return ingot.compile(model, **options)


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
