"""
What aot_compile saves of a graph: its nodes, and its engines without their weights, which the loading process has. AOTAutograd
saves the rest, of whatever is an OutputCode.
"""

import threading

import ingot

import torch
from torch._inductor.output_code import OutputCode
from torch.fx._graph_pickler import GraphPickler, Options

from .plan import make_plan
from .program import Program


class Contents:
    """The engines of a program, in the order in which they are built: those that were saved, or new ones, for saving."""

    def __init__(self, saved=()):
        self.saved, self.made = list(saved), []

    def build(self, model, artifacts=False, **options):
        """As ingot.compile."""
        engine = self._load() or ingot.compile(model, **options)
        self.made.append(engine.tobytes())
        return engine

    def _load(self):
        try:
            return ingot.load(self.saved.pop(0)) if self.saved else None
        except ingot.Incompatible:  # made on a machine that has more
            return None


class SavedGraph(OutputCode):
    """Runs a graph, and can be pickled."""

    def __init__(self, graph, names, chosen, given):
        """names: number of a placeholder -> name of the weight; chosen: of make_plan; given: options of ingot.compile."""
        super().__init__()
        self.graph, self.names, self.chosen, self.given = graph, names, chosen, given
        self.pickled, self.contents, self.program = None, Contents(), None
        self._boxed_call = True

    def build(self, plan, weights):
        """weights: placeholder -> (name, tensor)."""
        self.program = Program(plan, weights, self.given, self.contents)
        return self

    def __call__(self, args):
        if self.program is None:
            self._restore(args)
        return self.program(args)

    def _restore(self, args):
        with _lock:
            if self.program is None:
                places = [n for n in self.graph.graph.nodes if n.op == "placeholder"]
                weights = {places[i]: (name, args[i]) for i, name in self.names.items()}
                self.build(make_plan(self.graph, *self.chosen), weights)

    def prepare_for_serialization(self):
        self.pickled = GraphPickler.dumps(self.graph, Options(ops_filter=None, node_metadata_key_filter=_is_kept))
        self.contents = self.contents.made
        self.graph = self.program = None

    def post_compile(self, example_inputs, constants, graph_kwargs):
        if self.graph is None:
            mode = torch._guards.detect_fake_mode(example_inputs)
            self.graph = GraphPickler.loads(self.pickled, mode)
            self.graph.recompile()
            self.contents, self.pickled = Contents(self.contents), None

    def set_triton_bundle(self, triton_bundle):
        pass


_lock = threading.Lock()


def _is_kept(key):
    return key in ("val", "stack_trace")
