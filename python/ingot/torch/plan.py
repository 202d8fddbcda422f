"""
Which nodes of a graph run in engines, and which in eager PyTorch.

Nodes are levelled: a node's level is that of its inputs, one more than that of inputs of the other kind. All supported nodes
of a level make one part, so that parts cannot depend on each other in a circle, and a graph that is supported throughout is
one part. Where tensors are on several GPUs, or between one of several and the host, PyTorch copies: an engine is on one.
"""

import operator
from dataclasses import dataclass, field

import torch

from .errors import Unsupported
from .importer import Importer, is_tensor, source_of, value_of

_MUTATIONS = (torch.ops.aten.copy_.default,)
# Checks of an engine's results, which run in eager PyTorch behind it: they raise what PyTorch raises.
_RESULT_CHECKS = (torch.ops.aten._linalg_check_errors.default,)
# Checks of values; engines make none. What would have failed here has undefined results.
_CHECKS = (
    "_assert_async",
    "_assert_scalar",
    "_assert_tensor_metadata",
    "_functional_assert_async",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
    "_functional_sym_constrain_range",
    "_functional_sym_constrain_range_for_size",
)


@dataclass
class Outside:
    """An operator that runs in eager PyTorch."""

    operator: str  # "aten.nonzero.default"
    reason: str
    source: str | None  # the user's line
    node: str  # its name in the graph

    def __str__(self):
        where = f"  [{self.source}]" if self.source else ""
        return f"{self.operator}: {self.reason}{where}"


@dataclass
class Plan:
    module: torch.fx.GraphModule
    level: dict = field(default_factory=dict)  # node -> level: even in an engine, odd outside
    place: dict = field(default_factory=dict)  # node -> the number of the GPU that it is on; None: the host
    outside: list = field(default_factory=list)  # Outside
    views: list = field(default_factory=list)  # nodes of results that share memory: views of one result, made last
    checks: list = field(default_factory=list)  # nodes that give nothing, but may raise
    epilogue: list = field(default_factory=list)  # nodes that write to inputs, after all else

    @property
    def parts(self):
        """(level, place) -> the nodes of an engine, in order."""
        parts = {}
        for node in self.module.graph.nodes:
            if node in self.level and self.level[node] % 2 == 0:
                parts.setdefault(self.part_of(node), []).append(node)
        return parts

    def part_of(self, node):
        return self.level[node], self.place.get(node)

    @property
    def n_inside(self):
        return sum(1 for n, level in self.level.items() if level % 2 == 0 and n.target is not operator.getitem)

    def seams(self):
        """The tensors that pass between engines and eager PyTorch, as (producer, bytes or None where not known)."""
        found = {}
        for node, level in self.level.items():
            if is_tensor(value_of(node)) and any(self.level.get(u, level) % 2 != level % 2 for u in node.users):
                val = value_of(node)
                count = val.numel()
                found[node.name] = int(count) * val.element_size() if isinstance(count, int) else None
        return list(found.items())


def is_size(node):
    """Whether a node's result is an integer on the host that follows from sizes, which engines know by themselves."""
    val = value_of(node)
    return isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)) and not _reads_data(node)


def _reads_data(node):
    return node.target is torch.ops.aten._local_scalar_dense.default


def is_check(node):
    return getattr(getattr(node.target, "overloadpacket", None), "__name__", None) in _CHECKS


def _is_view(node):
    """Whether a node's result shares the memory of its first argument."""
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.arguments:
        return False
    alias = schema.arguments[0].alias_info
    return alias is not None and not alias.is_write


def _shared_views(graph):
    """The nodes between results that share memory and the result or intermediate whose memory it is."""
    result = next(n for n in graph.nodes if n.op == "output")
    chains = {}  # base -> chains of views that lead from it to a result
    for node in result.all_input_nodes:
        chain = []
        while _is_view(node):
            chain.append(node)
            node = node.args[0]
        chains.setdefault(node, []).append(chain)
    shared = {n for several in chains.values() if len(several) > 1 for chain in several for n in chain}
    return [n for n in graph.nodes if n in shared]


def _unthread_checks(graph):
    """
    Makes plain calls of the checks that AOTAutograd calls with a token, which keeps them in order; there is nothing else
    whose order could be seen.
    """
    for node in list(graph.nodes):
        if str(node.target) != "with_effects" or node.args[1] not in _RESULT_CHECKS:
            continue
        token, check, *args = node.args
        with graph.inserting_before(node):
            plain = graph.call_function(check, tuple(args), dict(node.kwargs))
        plain.meta = {k: v for k, v in node.meta.items() if k != "val"}
        for item in list(node.users):
            item.replace_all_uses_with(token)
            graph.erase_node(item)
        graph.erase_node(node)


def make_plan(module, min_size=3, exclude=()):
    """
    Tries every node. min_size: the least number of operators that an engine is made of where a graph does not fit into one.
    exclude: names of operators to leave outside.
    """
    _unthread_checks(module.graph)
    plan = Plan(module, views=_shared_views(module.graph))
    reasons = _try_all(plan, exclude, _find_places(plan))
    _level(plan, reasons)
    if reasons:
        for nodes in plan.parts.values():
            operators = [n for n in nodes if n.target is not operator.getitem]
            if len(operators) < min_size:
                for n in nodes:
                    reasons[n] = f"stands alone: an engine has at least {min_size} operators"
        _level(plan, reasons)
    for node, reason in reasons.items():
        if node.target is not operator.getitem:
            plan.outside.append(Outside(str(node.target), reason, source_of(node), node.name))
    return plan


def _places(node):
    """Where a node's tensors are: numbers of GPUs, None for the host."""
    val = value_of(node)
    tensors = [x for x in (val if isinstance(val, (list, tuple)) else [val]) if is_tensor(x)]
    return {x.device.index or 0 if x.device.type == "cuda" else None for x in tensors}


def _find_places(plan):
    """Fills in plan.place. node -> reason, of those whose tensors are in several places."""
    nodes, apart = plan.module.graph.nodes, {}
    gpus = set().union(*(_places(n) for n in nodes)) - {None}
    if len(gpus) < 2:  # what is on the host goes there with the rest
        plan.place = dict.fromkeys(nodes, next(iter(gpus), None))
        return apart
    for node in nodes:
        places = _places(node).union(*(_places(source) for source in node.all_input_nodes))
        plan.place[node] = next(iter(places), None)
        if len(places) > 1:
            names = ("the host" if place is None else f"cuda:{place}" for place in places)
            apart[node] = f"tensors on {' and '.join(sorted(names))}"
    return apart


def _try_all(plan, exclude, apart):
    """node -> reason, of all that are not supported. apart: as _find_places gives them."""
    importer, reasons = Importer(plan.module), {}
    for node in plan.module.graph.nodes:
        if node.op == "placeholder":
            _stand_in(importer, node)
        if node.op != "call_function" or is_size(node):
            continue
        if is_check(node):
            continue
        if node.target in _MUTATIONS or node.target in _RESULT_CHECKS:
            (plan.epilogue if node.target in _MUTATIONS else plan.checks).append(node)
            continue
        try:
            if str(node.target) in exclude:
                raise Unsupported("excluded by the caller")
            if node in apart:
                raise Unsupported(apart[node])
            importer.add_node(node)
        except Unsupported as error:
            reasons[node] = str(error)
            _stand_in(importer, node)
        except KeyError:  # an item of what is outside
            reasons[node] = "an item of it"
            _stand_in(importer, node)
    return reasons


def _stand_in(importer, node):
    """An input for what a node outside gives; nothing where no engine could read that."""
    if not is_tensor(value_of(node)):
        return
    try:
        importer.add_input(node)
    except Unsupported:
        pass


def _level(plan, reasons):
    plan.level = {}
    for node in plan.module.graph.nodes:
        if node.op != "call_function" or is_size(node) or is_check(node):
            continue
        if node in plan.epilogue or node in plan.checks:
            continue
        parity = 1 if node in reasons else 0
        level = parity
        for source in node.all_input_nodes:
            below = plan.level.get(source)
            if below is not None:
                level = max(level, below if below % 2 == parity else below + 1)
        plan.level[node] = level
