"""
PyTorch's modules on Ingot: torch.compile(module, backend="ingot"), torch.export, and reports of what would fall back.
docs/pytorch.md explains it. Importing this imports torch.
"""

from . import artifacts  # noqa: F401 (what torch.compiler.load_cache_artifacts finds by name)
from .errors import Fallback, FallbackWarning, Unsupported

__all__ = ["Fallback", "FallbackWarning", "Unsupported", "backend", "export", "report"]


def backend(module, example_inputs, *, mode=None, options=None):
    """The backend "ingot" of torch.compile."""
    from .dynamo import backend as call

    return call(module, example_inputs, mode=mode, options=options)


def report(module, args=(), kwargs=None, *, options=None, dynamic=None):
    """What would run outside of engines, and why: a Report. Nothing is compiled."""
    from .reporting import report as call

    return call(module, args, kwargs, options=options, dynamic=dynamic)


def export(program, args=(), kwargs=None, *, path=None, dynamic_shapes=None, via="aten", **options):
    """An engine of a torch.export.ExportedProgram or a module, and with `path` its file."""
    from .exporting import export as call

    return call(program, args, kwargs, path=path, dynamic_shapes=dynamic_shapes, via=via, **options)
