"""torch.compile(module, backend="ingot")."""

import dataclasses
import re
import warnings

import ingot
import torch

from . import decompositions, peft
from .errors import Fallback, FallbackWarning
from .plan import make_plan
from .program import Program


@dataclasses.dataclass
class Options:
    """What torch.compile's `options` may say. docs/pytorch.md explains them."""

    precision: str | None = None  # "fp32", "tf32", "fp16", "bf16"
    target: str | None = None  # "cpu", "cuda:sm_90a"; None: where the tensors are
    opt_level: int | None = None  # 0 to 5
    passes: tuple | None = None  # "NAME=off"
    threads: int | None = None
    tune: float | None = None  # seconds
    cache: object = None
    artifacts: bool = False  # engines go into torch.compiler.save_cache_artifacts
    strict: bool = False  # raise Fallback where a part would run in eager PyTorch
    min_size: int = 3  # operators that an engine has at least, where a graph does not fit into one
    exclude: tuple = ()  # operators to leave to eager PyTorch: "aten.cumsum.default"
    dry: bool = False  # build no engines, tell nothing
    on_plan: object = None  # called with each plan; for reports

    def build_options(self):
        """Keyword arguments of ingot.compile."""
        wanted = ("precision", "target", "opt_level", "passes", "threads", "tune", "cache", "artifacts")
        return {k: getattr(self, k) for k in wanted if getattr(self, k) is not None}


def parse(options):
    known = {f.name for f in dataclasses.fields(Options)}
    for name in options or {}:
        if name not in known:
            raise ValueError(f"ingot has no option {name!r}; it has {', '.join(sorted(known))}")
    return Options(**(options or {}))


def backend(module, example_inputs, *, mode=None, options=None):
    """The backend that torch.compile calls for each graph that it captures."""
    from torch._dynamo.backends.common import aot_autograd

    chosen = parse(options)
    peft.count_writes()
    weights = _weights(module, example_inputs)

    def inference(graph, inputs):
        return compile_graph(graph, inputs, chosen, weights)

    compiled = aot_autograd(
        fw_compiler=lambda graph, inputs: _training(graph, chosen),
        bw_compiler=_eager,
        inference_compiler=inference,
        decompositions=decompositions.table(),
        keep_inference_input_mutations=True,
    )(module, example_inputs)
    return module.forward if chosen.dry else compiled


def _eager(graph, inputs):
    from functorch.compile import make_boxed_func

    return make_boxed_func(graph.forward)


def _training(graph, options):
    message = (
        "gradients are asked for, so this graph runs in eager PyTorch: call it under torch.no_grad() or "
        "torch.inference_mode(), or set requires_grad_(False)"
    )
    if options.strict or _is_saving():
        raise Fallback(message)
    warnings.warn(message, FallbackWarning, stacklevel=2)
    return _eager(graph, None)


def _is_saving():
    """Whether this is aot_compile, which saves what is compiled."""
    return getattr(torch._functorch.config, "bypass_autograd_cache_key", False)


def _weights(module, inputs):
    """
    Number of an argument, or name of an attribute -> (name, tensor), of those that are a module's parameters and buffers. They
    are attributes where dynamo prepares them for freezing (torch._inductor.config.freezing).
    """
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    found, names = {}, set()
    for i, (node, tensor) in enumerate(zip(placeholders, inputs)):
        if _is_weight(node) and type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided:
            name = _name_of(node)
            found[i] = (name if name not in names else f"{name} ({i})", tensor)
            names.add(name)
    attributes = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return found | {name: (name, tensor) for name, tensor in attributes}


def _is_weight(placeholder):
    """dynamo marks what stays where it is; that may also be a caller's cache, of which there can be many."""
    is_marked = (placeholder.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type")
    return is_marked and any(part in _source_of(placeholder) for part in ("._parameters[", "._buffers["))


def _source_of(placeholder):
    """Where dynamo has an argument from: "L['self']._modules['0']._parameters['weight']"."""
    source = getattr(placeholder, "_dynamo_source", None)
    name = source.name if source is not None else placeholder.name
    return name() if callable(name) else name


def _name_of(placeholder):
    """The name of a parameter in its module ("encoder.0.weight"), from dynamo's name of it."""
    source = _source_of(placeholder)
    name = re.sub(r"^[LG]\['\w+'\]", "", source) or source
    for part in ("._modules", "._parameters", "._buffers"):
        name = name.replace(part, "")
    return name.replace("['", ".").replace("']", "").strip(".")


def compile_graph(graph, inputs, options, weights=None):
    """A boxed callable for an ATen graph for inference. weights: as _weights gives them."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily():
        return _compile_graph(graph, inputs, options, weights or {})


def _compile_graph(graph, inputs, options, weights):
    plan = make_plan(graph, options.min_size, options.exclude)
    if options.on_plan is not None:
        options.on_plan(plan)
    if not options.dry:
        _tell(plan, options)
    if options.dry or not (plan.parts or _is_saving()):
        return _eager(graph, inputs)
    given = options.build_options()
    weights = _by_placeholder(graph, weights)
    try:
        if _is_saving():
            return _saved(graph, plan, weights, options, given)
        return _boxed(Program(plan, weights, given))
    except ingot.Unsupported as error:  # by the compiler, of what the importer took
        if options.strict or _is_saving():
            raise Fallback(str(error)) from error
        warnings.warn(f"all of a graph runs in eager PyTorch: {error}", FallbackWarning, stacklevel=2)
        return _eager(graph, inputs)


def _saved(graph, plan, weights, options, given):
    from .saving import SavedGraph

    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    names = {i: weights[n][0] for i, n in enumerate(placeholders) if n in weights}
    return SavedGraph(graph, names, (options.min_size, options.exclude), given).build(plan, weights)


def _boxed(program):
    def call(args):
        return program(args)

    call._boxed_call = True
    call.program = program
    return call


def _tell(plan, options):
    if not plan.outside:
        return
    text = describe(plan)
    if options.strict:
        raise Fallback(text)
    warnings.warn(text, FallbackWarning, stacklevel=2)


def describe(plan):
    """Which operators run in eager PyTorch, one to a line."""
    lines = [str(x) for x in plan.outside]
    counted = [
        f"{line}  ({lines.count(line)} times)" if lines.count(line) > 1 else line for line in dict.fromkeys(lines)
    ]
    total = plan.n_inside + len(plan.outside)
    head = f"{len(plan.outside)} of {total} operators run in eager PyTorch, {len(plan.parts)} engines the rest:"
    return "\n  ".join([head, *counted])


def _by_placeholder(graph, weights):
    """weights, by the placeholders of AOTAutograd's graph, whose arguments may be others than dynamo's."""
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    found = {}
    for i, node in enumerate(placeholders):
        desc = node.meta.get("desc")  # since PyTorch 2.9
        key = i if desc is None else getattr(desc, "idx", getattr(desc, "target", None))
        if key in weights and _describes(node.meta.get("val"), weights[key][1]):
            found[node] = weights[key]
    return found


def _describes(val, tensor):
    return isinstance(val, torch.Tensor) and val.dtype == tensor.dtype and tuple(val.shape) == tuple(tensor.shape)
