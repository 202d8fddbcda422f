"""The table of ATen operators that have a translation."""

import torch

TABLE = {}  # OpOverload -> function(builder, *args, **kwargs)


def register(*names, **fixed):
    """
    Makes a function the translation of overloads of torch.ops.aten ("add.Tensor"; "relu" is relu.default). Names that the
    installed PyTorch does not have are passed over. `fixed` are further keyword arguments of the function.
    """

    def decorate(function):
        for name in names:
            overload = find(name)
            if overload is not None:
                TABLE[overload] = _with(function, fixed) if fixed else function
        return function

    return decorate


def find(name):
    """The operator of a name such as "add.Tensor", "prims::iota" or "higher_order::cond"; None if there is none."""
    space, _, rest = name.partition("::") if "::" in name else ("aten", "", name)
    packet, _, overload = rest.partition(".")
    try:
        found = getattr(getattr(torch.ops, space), packet)
        return found if space == "higher_order" else getattr(found, overload or "default")
    except AttributeError:
        return None


def _with(function, fixed):
    def call(builder, *args, **kwargs):
        return function(builder, *args, **fixed, **kwargs)

    return call
