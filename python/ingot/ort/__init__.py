"""The part of ONNX Runtime's Python API that scripts use, on Ingot:

    import ingot.ort as onnxruntime

or, for scripts that cannot be changed, `ingot.ort.install()` before they import onnxruntime. docs/python.md lists what there
is and what differs. Needs numpy.
"""

import sys
import types as _types

from . import errors as _errors
from .options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from .providers import get_all_providers, get_available_providers, get_device
from .session import InferenceSession, ModelMetadata, NodeArg
from .values import IOBinding, OrtDevice, OrtValue

__version__ = "1.23.0"  # of the API that this follows: scripts compare it

__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata", "NodeArg",
    "OrtDevice", "OrtValue", "RunOptions", "SessionOptions", "disable_telemetry_events", "enable_telemetry_events",
    "get_all_providers", "get_available_providers", "get_build_info", "get_device", "get_version_string", "install",
    "preload_dlls", "set_default_logger_severity", "set_default_logger_verbosity", "set_seed",
]


def set_default_logger_severity(severity):
    """Nothing is logged."""


def set_default_logger_verbosity(verbosity):
    """Nothing is logged."""


def set_seed(seed):
    """Random operators have the seeds that the model gives them."""


def preload_dlls(cuda=True, cudnn=True, msvc=True, directory=None):
    """Libraries are found when they are needed."""


def enable_telemetry_events():
    """There is no telemetry."""


def disable_telemetry_events():
    """There is no telemetry."""


def get_version_string():
    return __version__


def get_build_info():
    import ingot

    return f"Build Info: Ingot {ingot.__version__}"


def _module(name, **members):
    module = _types.ModuleType(name)
    module.__dict__.update(members)
    return module


# onnxruntime.capi.onnxruntime_pybind11_state, whose exceptions scripts catch.
_state = {kind.__name__: kind for kind in _errors.ALL}
_state.update(SessionOptions=SessionOptions, RunOptions=RunOptions, NodeArg=NodeArg, ModelMetadata=ModelMetadata,
              GraphOptimizationLevel=GraphOptimizationLevel, ExecutionMode=ExecutionMode, OrtDevice=OrtDevice,
              get_available_providers=get_available_providers, get_all_providers=get_all_providers, get_device=get_device)
capi = _module(
    "onnxruntime.capi",
    onnxruntime_pybind11_state=_module("onnxruntime.capi.onnxruntime_pybind11_state", **_state),
    _pybind_state=_module("onnxruntime.capi._pybind_state", **_state),
    onnxruntime_inference_collection=_module("onnxruntime.capi.onnxruntime_inference_collection",
                                             InferenceSession=InferenceSession, IOBinding=IOBinding, OrtValue=OrtValue),
)


def install():
    """Makes `import onnxruntime` give this module, in this process. Refuses where ONNX Runtime has been imported already."""
    there = sys.modules.get("onnxruntime")
    if there is not None and there is not sys.modules[__name__]:
        raise RuntimeError("onnxruntime has been imported already: call ingot.ort.install() before")
    sys.modules["onnxruntime"] = sys.modules[__name__]
    sys.modules["onnxruntime.capi"] = capi
    for name in ("onnxruntime_pybind11_state", "_pybind_state", "onnxruntime_inference_collection"):
        sys.modules[f"onnxruntime.capi.{name}"] = getattr(capi, name)
