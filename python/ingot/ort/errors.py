"""ONNX Runtime's exceptions, and which of them an error of Ingot's becomes."""

import contextlib

import ingot


class Fail(Exception):
    """What has no name of its own."""


class InvalidArgument(Exception):
    """Inputs that do not fit the model, and unknown names."""


class NoSuchFile(Exception):
    """The model's file is missing."""


class NoModel(Exception):
    """There is no model."""


class EngineError(Exception):
    """The device failed."""


class RuntimeException(Exception):
    """A run failed."""


class InvalidProtobuf(Exception):
    """The file is no ONNX model."""


class ModelLoaded(Exception):
    """Never raised; scripts name it."""


class NotImplemented(Exception):  # noqa: A001 - the peer's name
    """The model has an operator or a type that Ingot does not have."""


class InvalidGraph(Exception):
    """The model contradicts its own standard."""


class EPFail(Exception):
    """The device that was asked for cannot be used."""


ALL = (Fail, InvalidArgument, NoSuchFile, NoModel, EngineError, RuntimeException, InvalidProtobuf, ModelLoaded,
       NotImplemented, InvalidGraph, EPFail)

# In the order in which they are looked for.
_BECOME = (
    (ingot.InvalidArgument, InvalidArgument, 2, "INVALID_ARGUMENT"),
    (ingot.FileError, NoSuchFile, 3, "NO_SUCHFILE"),
    (ingot.BadModel, InvalidGraph, 10, "INVALID_GRAPH"),
    (ingot.Unsupported, NotImplemented, 9, "NOT_IMPLEMENTED"),
    (ingot.DeviceError, EngineError, 5, "ENGINE_ERROR"),
    (ingot.Error, Fail, 1, "FAIL"),
)


def make(kind, code, name, text):
    """An exception with a message in the peer's form, which some scripts search."""
    return kind(f"[ONNXRuntimeError] : {code} : {name} : {text}")


def invalid_argument(text):
    return make(InvalidArgument, 2, "INVALID_ARGUMENT", text)


@contextlib.contextmanager
def translated(loading=False):
    """Turns Ingot's exceptions into the peer's."""
    try:
        yield
    except ingot.Error as error:
        for ours, kind, code, name in _BECOME:
            if isinstance(error, ours):
                if loading and kind is InvalidGraph and "is no ONNX model" in str(error):
                    kind, code, name = InvalidProtobuf, 7, "INVALID_PROTOBUF"
                raise make(kind, code, name, str(error)) from error
        raise
