"""Dry runs: what of a module would run outside of engines."""

import dataclasses

import torch

from .dynamo import backend


@dataclasses.dataclass
class Graph:
    """One graph that torch.compile captured."""

    operators: int  # in all
    engines: int
    outside: list  # of plan.Outside: .operator, .reason, .source
    seams: list  # (node, bytes or None), of tensors that pass between engines and eager PyTorch

    @property
    def seam_bytes(self):
        return sum(size or 0 for _, size in self.seams)


@dataclasses.dataclass
class Report:
    """What would run where. str() gives it as text."""

    graphs: list
    breaks: list  # why torch.compile could not capture one graph: texts

    @property
    def outside(self):
        return [x for graph in self.graphs for x in graph.outside]

    @property
    def is_whole(self):
        """Whether everything is in one engine."""
        return len(self.graphs) == 1 and not self.outside and not self.breaks

    def __str__(self):
        lines = [f"{_counted(len(self.graphs), 'graph')}, {_counted(len(self.breaks), 'graph break')}"]
        lines += [f"  break: {text}" for text in self.breaks]
        if not self.graphs:
            lines.append(
                "  torch.compile captures nothing of it (recurrent layers: torch._dynamo.config.allow_rnn = True)"
            )
        for i, graph in enumerate(self.graphs):
            lines.append(
                f"graph {i}: {_counted(graph.operators, 'operator')}, {_counted(graph.engines, 'engine')}, "
                f"{len(graph.outside)} outside; {_counted(len(graph.seams), 'seam')}, {graph.seam_bytes} bytes"
            )
            lines += [f"  {x}" for x in graph.outside]
        return "\n".join(lines)


def _counted(n, noun):
    return f"{n} {noun}" + ("" if n == 1 else "s")


def report(module, args=(), kwargs=None, *, options=None, dynamic=None):
    """
    Captures a module with arguments as torch.compile does, runs it in eager PyTorch, and tells what would be outside of
    engines: each operator with the reason and the line in the user's program, and what passes the seams.
    """
    graphs = []
    given = {**(options or {}), "dry": True, "on_plan": lambda plan: graphs.append(_graph(plan))}
    torch._dynamo.reset()
    torch._dynamo.utils.counters["graph_break"].clear()
    with torch.no_grad():
        torch.compile(module, backend=backend, options=given, dynamic=dynamic)(*args, **(kwargs or {}))
    breaks = [" ".join(text.split()) for text in torch._dynamo.utils.counters["graph_break"]]
    torch._dynamo.reset()
    return Report(graphs, breaks)


def _graph(plan):
    return Graph(plan.n_inside + len(plan.outside), len(plan.parts), list(plan.outside), plan.seams())
