"""OrtValue and IOBinding: tensors that the caller places."""

import ctypes

import numpy

import ingot

from . import errors, types


def _device(device_type):
    kind = device_type.lower()
    if kind not in ("cpu", "cuda", "gpu"):
        raise errors.invalid_argument(f"Unsupported device type: {device_type}")
    return "cpu" if kind == "cpu" else "cuda"


def _host_array(pointer, shape, dtype):
    """An array over memory that the caller keeps."""
    count = int(numpy.prod(shape, dtype=numpy.int64)) * dtype.itemsize
    memory = (ctypes.c_char * count).from_address(pointer) if count else b""
    return numpy.frombuffer(memory, dtype).reshape(shape)


class OrtDevice:
    """Where a value is."""

    def __init__(self, kind, device_id=0):
        self._kind, self._id = kind, device_id

    @staticmethod
    def make(device_type, device_id=0):
        return OrtDevice(_device(device_type), device_id)

    def device_id(self):
        return self._id

    def device_type(self):
        """0: the CPU, 1: a GPU."""
        return int(self._kind != "cpu")

    def device_mem_type(self):
        return 0


class _Capsule:
    """An exporter of a tensor that was exported already; where it is, the capsule says."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return 1, 0


class OrtValue:
    """A tensor. On the CPU it is an array; on a GPU whatever object the results are, or one of the caller's (a
    torch.Tensor), read through DLPack."""

    def __init__(self, tensor):
        self._tensor = tensor
        self._view = ingot.as_tensor(tensor)

    @staticmethod
    def ortvalue_from_numpy(array, device_type="cpu", device_id=0):
        if _device(device_type) != "cpu":
            raise errors.make(errors.NotImplemented, 9, "NOT_IMPLEMENTED",
                              "copies to a GPU: give a tensor that lies there (OrtValue.from_dlpack)")
        return OrtValue(numpy.ascontiguousarray(array))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(array, onnx_element_type):
        """A value over the array's bytes, read as elements of another type of the same size (bfloat16 in uint16)."""
        dtype = types.of_any(onnx_element_type)
        if dtype is None:
            raise errors.invalid_argument(f"unknown type of elements: {onnx_element_type}")
        return OrtValue(numpy.ascontiguousarray(array).view(types.to_numpy(dtype)))

    @staticmethod
    def ortvalue_from_shape_and_type(shape, element_type=numpy.float32, device_type="cpu", device_id=0):
        if _device(device_type) != "cpu":
            raise errors.make(errors.NotImplemented, 9, "NOT_IMPLEMENTED",
                              "memory of a GPU: give a tensor that lies there (OrtValue.from_dlpack)")
        return OrtValue(numpy.zeros(tuple(shape), types.to_numpy(types.of_any(element_type))))

    @staticmethod
    def from_dlpack(tensor, is_bool_tensor=False):
        """Of an object with __dlpack__, or of what that returned."""
        if isinstance(tensor, OrtValue):
            return OrtValue(tensor._tensor)
        return OrtValue(tensor if hasattr(tensor, "__dlpack__") else ingot.as_tensor(_Capsule(tensor)))

    def numpy(self):
        """The array on the CPU; what runs write there is seen in it."""
        if self.device_name() != "cpu":
            raise RuntimeError("the value is on a GPU")
        return numpy.asarray(self._tensor)

    def shape(self):
        return list(self._view.shape)

    def data_type(self):
        return types.name(self._view.dtype)

    def element_type(self):
        return next(number for number, ours in types._ONNX.items() if ours == str(self._view.dtype))

    def data_ptr(self):
        return self._view.data_address

    def tensor_size_in_bytes(self):
        return self._view.nbytes

    def device_name(self):
        return self._view.device.split(":")[0]

    def is_tensor(self):
        return True

    def is_sparse_tensor(self):
        return False

    def is_tensor_sequence(self):
        return False

    def has_value(self):
        return True

    def update_inplace(self, array):
        numpy.copyto(self.numpy(), array, casting="no")

    def __dlpack__(self, **arguments):
        return self._exporter().__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._exporter().__dlpack_device__()

    def _exporter(self):
        """NumPy does not export all types; tensors on a GPU know their streams."""
        return self._view if self.device_name() == "cpu" else self._tensor

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        array = array if dtype is None else array.astype(dtype, copy=False)
        return array.copy() if copy else array


class IOBinding:
    """The inputs and outputs of runs to come, bound to an ingot.Session that it keeps."""

    def __init__(self, session):
        self._session, self._pool = session, session._pool
        self._inputs = {}
        self._outputs = {}  # by name: a tensor, or None: what the run makes
        self._results = {}
        self._bound = None  # the ingot.Session
        self._is_current = False  # what is bound there is what is asked for now

    def __del__(self):
        if getattr(self, "_bound", None) is not None:
            self._bound.unbind()
            self._pool.give(self._bound)

    # ---- Inputs

    def bind_cpu_input(self, name, array):
        self._bind_input(name, numpy.asarray(array, order="C"))

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        self._bind_input(name, self._wrap(name, device_type, device_id, element_type, shape, buffer_ptr))

    def bind_ortvalue_input(self, name, value):
        self._bind_input(name, value._tensor)

    def _bind_input(self, name, tensor):
        self._session._find_input(name)
        self._inputs[name] = tensor
        self._is_current = False

    def clear_binding_inputs(self):
        self._inputs.clear()
        self._is_current = False

    # ---- Outputs

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        tensor = None
        if buffer_ptr is not None:
            tensor = self._wrap(name, device_type, device_id, element_type, shape, buffer_ptr)
        elif _device(device_type) != "cpu" and not self._session._is_cuda:
            raise errors.invalid_argument(f"output '{name}' is to be on a GPU, but the session runs on the CPU")
        self._bind_output(name, tensor)

    def bind_ortvalue_output(self, name, value):
        self._bind_output(name, value._tensor)

    def _bind_output(self, name, tensor):
        self._session._find_output(name)
        self._outputs[name] = tensor
        self._is_current = False

    def clear_binding_outputs(self):
        self._outputs.clear()
        self._results = {}
        self._is_current = False

    def get_outputs(self):
        return [OrtValue(self._results[name]) for name in self._outputs]

    def copy_outputs_to_cpu(self):
        return [numpy.array(self._results[name]) for name in self._outputs]

    # ---- Runs are complete when they return

    def synchronize_inputs(self):
        pass

    def synchronize_outputs(self):
        pass

    @staticmethod
    def _wrap(name, device_type, device_id, element_type, shape, pointer):
        dtype = types.of_any(element_type)
        if dtype is None:
            raise errors.invalid_argument(f"'{name}' has elements of an unknown type: {element_type}")
        if _device(device_type) == "cpu":
            return _host_array(int(pointer), tuple(shape), types.to_numpy(dtype))
        return ingot.from_address(int(pointer), tuple(shape), dtype, f"cuda:{device_id}")

    def _run(self):
        given = {name: tensor for name, tensor in self._outputs.items() if tensor is not None}
        has_all = len(given) == len(self._session._outputs)
        if not self._is_current:
            missing = [node.name for node in self._session._inputs if node.name not in self._inputs]
            if missing:
                raise errors.invalid_argument(f"Required inputs ({missing}) are missing from the binding.")
            if self._bound is None:
                self._bound = self._pool.take()
            self._bound.bind(self._inputs, given if has_all else None)
            self._is_current = True
        results = self._bound.run_bound()
        if has_all:
            self._results = given
            return
        # Where runs make some of the outputs, they make all.
        results = self._session._named(results)
        for name, tensor in given.items():
            numpy.copyto(numpy.asarray(tensor), numpy.asarray(results[name]), casting="no")
        self._results = {name: given.get(name, results[name]) for name in self._outputs}
