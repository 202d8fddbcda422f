"""InferenceSession."""

import datetime
import json
import os
import pathlib
import threading

import numpy

import ingot

from . import errors, options, providers, types
from .values import IOBinding, OrtValue

_LEVELS = {
    options.GraphOptimizationLevel.ORT_DISABLE_ALL: 0,
    options.GraphOptimizationLevel.ORT_ENABLE_BASIC: 1,
    options.GraphOptimizationLevel.ORT_ENABLE_EXTENDED: 2,
}


class NodeArg:
    """An input or output: its name, its type ('tensor(float)'), and its shape, a list of int, of str where a size has a name, and
    of None where it has none."""

    def __init__(self, info):
        self.name = info.name
        self.type = types.name(info.dtype)
        self.shape = [self._dim(info.name, axis, dim) for axis, dim in enumerate(info.shape)]
        self._dtype = types.to_numpy(info.dtype)

    @staticmethod
    def _dim(name, axis, dim):
        """Sizes without a name get 'x.0' from Ingot's importer."""
        return None if dim == f"{name}.{axis}" or (isinstance(dim, str) and f"{name}." in dim) else dim

    def __repr__(self):
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class ModelMetadata:
    """What the model's file says about itself."""

    def __init__(self, metadata):
        self.producer_name = metadata["producer"]
        self.graph_name = metadata["graph_name"]
        self.domain = metadata["domain"]
        self.description = metadata["description"]
        self.graph_description = metadata["graph_description"]
        self.version = metadata["version"]
        self.custom_metadata_map = dict(metadata["properties"])


class _Pool:
    """Sessions of one engine: a run takes one and gives it back, a binding keeps one while it lives."""

    def __init__(self, engine, **arguments):
        self._engine, self._arguments = engine, arguments
        self._idle, self.made = [], []

    def take(self):
        try:
            return self._idle.pop()
        except IndexError:
            self.made.append(self._engine.session(**self._arguments))
            return self.made[-1]

    def give(self, session):
        self._idle.append(session)


def _read(model):
    """(what ingot.Model takes, the path or None)."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if not os.path.exists(path):
            raise errors.make(errors.NoSuchFile, 3, "NO_SUCHFILE",
                              f"Load model from {path} failed:Load model {path} failed. File doesn't exist")
        return path, path
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), None
    raise TypeError(f"Unable to load from type '{type(model)}'")


class InferenceSession:
    """As onnxruntime.InferenceSession. The model is compiled when the session is made, or taken from the cache of engines in
    the user's cache folder. Any number of threads may run it at once."""

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, **kwargs):
        self._source, self._model_path = _read(path_or_bytes)
        self._sess_options = sess_options or options.SessionOptions()
        self._profile_name = None
        self._build(providers, provider_options)

    # ---- Building

    def _build(self, wanted, wanted_options):
        self._chosen = providers.chosen(wanted, wanted_options)
        first, first_options = self._chosen[0]
        self._is_cuda = first == providers.CUDA
        device = int(first_options.get("device_id", 0))
        with errors.translated(loading=True):
            model = ingot.Model(self._source)
            self._metadata = ModelMetadata(model.metadata)
            engine = model.build(**self._build_options(device))
            if self._sess_options._initializers:
                engine.refit({name: value._tensor for name, value in self._sess_options._initializers.items()}, partial=True)
        self._engine = engine
        self._inputs = [NodeArg(info) for info in engine.inputs]
        self._outputs = [NodeArg(info) for info in engine.outputs]
        arguments = {"threads": max(0, int(self._sess_options.intra_op_num_threads)), "profile": self._profiles()}
        if self._is_cuda:
            arguments["device"] = device
        self._pool = _Pool(engine, **arguments)

    def _profiles(self):
        return bool(self._sess_options.enable_profiling)

    def _build_options(self, device):
        entries, given = self._sess_options._entries, {}
        level = _LEVELS.get(self._sess_options.graph_optimization_level)
        if level is not None:
            given["opt_level"] = level
        if self._is_cuda:
            given.update(target="cuda", device=device)
        if self._sess_options._dims:
            given["shapes"] = {name: str(size) for name, size in self._sess_options._dims.items()}
        if "ingot.precision" in entries:
            given["precision"] = entries["ingot.precision"]
        if "ingot.tune" in entries:
            given["tune"] = float(entries["ingot.tune"])
        cache = _cache(entries.get("ingot.cache"))
        if cache is not None:
            given["cache"] = cache
        return given

    def set_providers(self, providers=None, provider_options=None):
        """Builds the session again, for other devices."""
        self._build(providers, provider_options)

    # ---- What it is

    def get_inputs(self):
        return list(self._inputs)

    def get_outputs(self):
        return list(self._outputs)

    def get_overridable_initializers(self):
        """None: Ingot compiles initialisers into the engine."""
        return []

    def get_modelmeta(self):
        return self._metadata

    def get_providers(self):
        return [name for name, _ in self._chosen]

    def get_provider_options(self):
        return {name: dict(given) for name, given in self._chosen}

    def get_session_options(self):
        return self._sess_options

    @property
    def _providers(self):
        return self.get_providers()

    @property
    def _provider_options(self):
        return self.get_provider_options()

    def disable_fallback(self):
        """There is none: what Ingot cannot do fails."""

    def enable_fallback(self):
        """There is none."""

    def get_profiling_start_time_ns(self):
        return 0

    # ---- Names and values

    def _find_input(self, name):
        for node in self._inputs:
            if node.name == name:
                return node
        raise errors.invalid_argument(f"Invalid input name: {name}")

    def _find_output(self, name):
        for node in self._outputs:
            if node.name == name:
                return node
        raise errors.invalid_argument(f"Invalid output name:{name}")

    def _check(self, node, array):
        if array.dtype != node._dtype:
            raise errors.invalid_argument(f"Unexpected input data type. Actual: ({types.numpy_name(array.dtype)}) , "
                                          f"expected: ({node.type})")
        if array.ndim != len(node.shape):
            raise errors.invalid_argument(f"Invalid rank for input: {node.name} Got: {array.ndim} Expected: "
                                          f"{len(node.shape)} Please fix either the inputs/outputs or the model.")
        wrong = [f" index: {axis} Got: {got} Expected: {expected}"
                 for axis, (got, expected) in enumerate(zip(array.shape, node.shape))
                 if isinstance(expected, int) and got != expected]
        if wrong:
            raise errors.invalid_argument(f"Got invalid dimensions for input: {node.name} for the following indices\n"
                                          + "\n".join(wrong) + "\n Please fix either the inputs/outputs or the model.")

    def _feed(self, given):
        """The inputs by name, checked; arrays may be of any layout."""
        missing = [node.name for node in self._inputs if node.name not in given]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(given)}).")
        feed = {}
        for name, value in given.items():
            node = self._find_input(name)
            if isinstance(value, OrtValue):
                feed[name] = value._tensor
                continue
            array = value if isinstance(value, numpy.ndarray) else numpy.asarray(value, node._dtype)
            self._check(node, array)
            feed[name] = array
        return feed

    def _wanted(self, names):
        for name in names or ():
            self._find_output(name)
        return list(names) if names else [node.name for node in self._outputs]

    # ---- Running

    def _run(self, feed):
        """All outputs, by name."""
        with errors.translated():
            session = self._pool.take()
            try:
                return self._named(session(**feed))
            finally:
                self._pool.give(session)

    def _named(self, results):
        return dict(zip((node.name for node in self._outputs), results if isinstance(results, tuple) else (results,)))

    def run(self, output_names, input_feed, run_options=None):
        """The outputs as arrays, which stay as they are while they are held."""
        wanted = self._wanted(output_names)
        results = self._run(self._feed(input_feed))
        return [numpy.asarray(results[name]) for name in wanted]

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        wanted = self._wanted(output_names)
        results = self._run(self._feed(input_dict_ort_values))
        return [OrtValue(results[name]) for name in wanted]

    def run_async(self, output_names, input_feed, callback, user_data, run_options=None):
        """Calls callback(results, user_data, error) from another thread; `error` is "" if all went well."""
        wanted, feed = self._wanted(output_names), self._feed(input_feed)

        def work():
            try:
                results = self._run(feed)
                arrays, error = [numpy.asarray(results[name]) for name in wanted], ""
            except Exception as exception:  # the callback gets it, whatever it is
                arrays, error = [], str(exception)
            callback(arrays, user_data, error)

        threading.Thread(target=work, daemon=True).start()

    def io_binding(self):
        return IOBinding(self)

    def run_with_iobinding(self, iobinding, run_options=None):
        with errors.translated():
            iobinding._run()

    # ---- Profiles

    def end_profiling(self):
        """Writes the time of each kernel so far as a trace for Chrome, and returns the file's name; '' without profiling."""
        if not self._profiles():
            return ""
        events = []
        for thread, session in enumerate(self._pool.made):
            at = 0.0
            for row in session.profile():
                events.append({"cat": "Node", "pid": os.getpid(), "tid": thread, "dur": row.total_ms * 1000, "ts": at,
                               "ph": "X", "name": row.kernel, "args": {"origin": row.origin, "calls": row.calls}})
                at += row.total_ms * 1000
        stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        path = pathlib.Path(f"{self._sess_options.profile_file_prefix}_{stamp}.json")
        path.write_text("[\n" + ",\n".join(json.dumps(event) for event in events) + "\n]\n")  # an event a line
        return str(path)


_caches, _caches_lock = {}, threading.Lock()


def _cache(folder):
    """The cache of engines in `folder`; None: the user's cache folder, 'off': no cache."""
    if folder == "off":
        return None
    if folder is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(base, "ingot")
    with _caches_lock:
        if folder not in _caches:
            try:
                os.makedirs(folder, mode=0o700, exist_ok=True)
                _caches[folder] = ingot.Cache(folder, engines=True)
            except (ingot.Error, OSError):
                _caches[folder] = None  # a read-only home: build each time
        return _caches[folder]
