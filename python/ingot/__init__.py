"""Ingot: compile trained neural networks into engines, and run them.

    engine = ingot.compile("model.onnx", shapes={"batch": (1, 8, 32)})
    engine.save("model.ingot")
    y = ingot.load("model.ingot")(x)

Tensors are whatever speaks DLPack or the buffer protocol: NumPy arrays, PyTorch tensors, array.array. Results are of the kind
that the inputs are. docs/python.md is the guide.
"""

from . import _ingot
from ._ingot import *  # noqa: F403 (what it has depends on the library that is linked)
from ._ingot import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._compile import compile
    from ._queue import AsyncQueue

can_compile = hasattr(_ingot, "Model")
"""Whether this is the whole library (the distribution libingot), not the run-time one alone (libingot-rt)."""


def __getattr__(name):
    # Loaded when they are asked for: PyTorch takes seconds to import, and who runs engines needs none of the rest.
    if name == "AsyncQueue":
        from ._queue import AsyncQueue

        return AsyncQueue
    if name == "compile" and can_compile:
        from ._compile import compile

        return globals().setdefault(name, compile)
    if name in ("torch", "ort"):
        import importlib

        try:
            return importlib.import_module(f"ingot.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"ingot.{name}":
                raise
    if name in ("compile", "Model", "Network", "Cache", "refit_file", "open_adapter") and not can_compile:
        raise Unsupported(f"ingot.{name} needs the whole library: pip install libingot")  # noqa: F405
    raise AttributeError(f"module 'ingot' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), "AsyncQueue", "ort", "torch", *(["compile"] if can_compile else [])})
