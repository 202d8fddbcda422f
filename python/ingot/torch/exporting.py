"""Engine files from torch.export's programs."""

import ingot

import torch
from torch.export.graph_signature import InputKind, OutputKind

from . import decompositions
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

    Inputs have the names of the module's arguments, weights those of its state_dict. Buffers that the module writes to are not
    kept by an engine: it has their new values as further outputs, by the buffers' names. Raises Fallback, with the list of
    operators, if not all of the program can be in the engine.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        with torch.no_grad():
            program = torch.export.export(program, tuple(args), kwargs, dynamic_shapes=dynamic_shapes)
    model = to_model(program)
    if path is not None:
        options["path"] = path
    return ingot.compile(model, **options)


def to_model(program):
    """An ingot.Model of an ExportedProgram."""
    with torch.no_grad():
        program = program.run_decompositions(decompositions.table(exported=True))
    plan = make_plan(program.graph_module)
    if plan.outside or plan.epilogue:
        raise Fallback(describe(plan))
    module = program.graph_module
    importer = Importer(module, program.range_constraints)
    nodes = {n.name: n for n in module.graph.nodes}
    specs = {s.arg.name: s for s in program.graph_signature.input_specs if hasattr(s.arg, "name")}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            _placeholder(importer, node, specs[node.name], program)
    for node in module.graph.nodes:
        if node.op == "call_function" and not is_check(node) and _gives_tensors(node):
            importer.add_node(node)
    used = set()
    for spec in program.graph_signature.output_specs:
        node = nodes.get(getattr(spec.arg, "name", None))
        if node is None or not is_tensor(value_of(node)):
            raise Unsupported(f"a result that is no tensor: {spec.arg}")
        name = spec.target if spec.kind == OutputKind.BUFFER_MUTATION else node.name
        name = _unique(name, used)
        importer.network.output(name, importer.values[node].raw)
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


def _placeholder(importer, node, spec, program):
    if spec.kind == InputKind.USER_INPUT:
        if is_tensor(value_of(node)):
            importer.add_input(node)
        return
    if spec.kind == InputKind.CONSTANT_TENSOR:
        tensor = program.constants[spec.target]
    elif spec.kind == InputKind.BUFFER and not spec.persistent:
        tensor = program.constants[spec.target]
    else:
        tensor = program.state_dict[spec.target]
    importer.values[node] = importer.add_weight(spec.target, tensor)
