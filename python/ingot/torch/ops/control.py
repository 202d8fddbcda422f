"""Control flow: PyTorch's higher-order operators. Their branches and bodies are graphs, which become bodies of if and loop."""

from .. import importer
from ..builder import Builder, Value
from ..errors import Unsupported
from ..registry import register


def _tensors(values):
    """Those that a body takes as inputs: sizes are known in it by themselves."""
    return [x for x in values if hasattr(x, "rank")]


def _body(b, values):
    """A body with an input for each value, and these inputs."""
    body = b.network.body()
    return body, [Value(body.input(f"input {i}", x.dtype, x.shape)) for i, x in enumerate(values)]


def _called(body, module, arguments, inputs):
    """The results of a graph in a body. arguments: of the graph, of which the tensors are the body's inputs."""
    tensors = iter(inputs)
    return importer.inline(module, body, [next(tensors) if hasattr(x, "rank") else x for x in arguments])


def _finish(body, results):
    for i, value in enumerate(results):
        if not hasattr(value, "rank"):
            raise Unsupported("a body with a result that is no tensor")
        body.output(f"output {i}", value.raw)
    return body


def _several(made):
    return list(made) if isinstance(made, (tuple, list)) else [made]


@register("higher_order::cond")
def _cond(b, condition, true_graph, false_graph, operands=()):
    if not hasattr(condition, "rank"):
        raise Unsupported("a condition that is no tensor")
    given, bodies = _tensors(operands), {}
    for name, graph in (("then", true_graph), ("else", false_graph)):
        body, inputs = _body(b, given)
        bodies[name] = _finish(body, _called(body, graph, operands, inputs))
    return _several(b.op("if", condition, *given, outputs=len(b.outputs), **bodies))


@register("higher_order::while_loop")
def _while_loop(b, condition_graph, body_graph, carried, more=()):
    if len(_tensors(carried)) != len(carried):
        raise Unsupported("a loop that carries numbers")
    (first,) = importer.inline(condition_graph, b.network, [*carried, *more])
    captured = _tensors(more)
    body, (_, _, *inputs) = _body(b, [b.number(0, "i64"), first, *carried, *captured])
    results = _called(body, body_graph, [*carried, *more], inputs)
    again = inputs[len(carried) :]
    (condition,) = _called(body, condition_graph, [*carried, *more], results + again)
    _finish(body, [condition, *results])
    forever = b.number(2**62, "i64")
    return _several(
        b.op("loop", forever, first, *carried, *captured, outputs=len(carried), carried=len(carried), body=body)
    )


def _steps(b, graph, carried, along, more):
    """A loop over the first axis of `along`: graph(carried, rows, more) gives what is carried on, and rows of results."""
    if len(_tensors([*carried, *along])) != len(carried) + len(along):
        raise Unsupported("a loop over numbers")
    count, captured = along[0].shape[0], [*along, *_tensors(more)]
    body, (step, going, *inputs) = _body(b, [b.number(0, "i64"), b.number(True, "bool"), *carried, *captured])
    kept, rows, rest = inputs[: len(carried)], inputs[len(carried) :][: len(along)], inputs[len(carried) + len(along) :]
    rows = [Builder(body).op("gather", x, step, axis=0) for x in rows]
    results = _called(body, graph, [*carried, *along, *more], [*kept, *rows, *rest])
    _finish(body, [going, *results])
    made = b.op(
        "loop", b.number(count, "i64"), None, *carried, *captured,
        outputs=len(results), trip=str(count), carried=len(carried), body=body,
    )  # fmt: skip
    return _several(made)


@register("higher_order::map_impl")
def _map(b, graph, along, more=()):
    return _steps(b, graph, [], along, more)


@register("higher_order::scan")
def _scan(b, graph, initial, along, more=()):
    return _steps(b, graph, initial, along, more)
