"""
What PEFT does to weights: it merges, takes off and hot-swaps adapters by writes through `.data`, which PyTorch does not count. Here
these functions of PEFT's count them, so that engines see the new weights.
"""

import functools
import sys

import torch


def count_writes():
    """Wraps what has been imported of PEFT, once. Called for each graph that is compiled: before, nobody watches weights."""
    tuners, hotswap = (sys.modules.get(name) for name in ("peft.tuners.tuners_utils", "peft.utils.hotswap"))
    if tuners is not None:
        for kind in _kinds(tuners.BaseTunerLayer):
            for name in ("merge", "unmerge"):
                if name in vars(kind):
                    _wrap(kind, name, lambda layer, *args, **kwargs: layer.get_base_layer())
    if hotswap is not None:
        _wrap(hotswap, "hotswap_adapter_from_state_dict", lambda model, *args, **kwargs: model)


def _kinds(kind):
    yield kind
    for child in kind.__subclasses__():
        yield from _kinds(child)


def _wrap(owner, name, find):
    """find: of the function's arguments, the module whose parameters it writes to."""
    function = vars(owner)[name]
    if getattr(function, "counts_writes", False):
        return

    @functools.wraps(function)
    def counting(*args, **kwargs):
        if torch.compiler.is_compiling():  # as a part of a graph, it is PyTorch's matter
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            written = (p for p in find(*args, **kwargs).parameters() if not p.is_inference())
            torch.autograd.graph.increment_version(tuple(written))

    counting.counts_writes = True
    setattr(owner, name, counting)
