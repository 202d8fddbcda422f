"""Options of sessions and runs. Those that have no meaning here are kept and otherwise ignored, as the peer ignores options
that a build of it does not have."""

import enum


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    DEFAULT = 0
    PRIORITY_BASED = 1


class SessionOptions:
    """As onnxruntime.SessionOptions. Of its fields, these have an effect: intra_op_num_threads, graph_optimization_level,
    enable_profiling and profile_file_prefix; and the entries of add_session_config_entry whose keys begin with 'ingot.':
    'ingot.precision' ('fp16'), 'ingot.tune' (seconds), 'ingot.cache' (a folder, or 'off')."""

    def __init__(self):
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order = ExecutionOrder.DEFAULT
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.enable_profiling = False
        self.profile_file_prefix = "onnxruntime_profile_"
        self.optimized_model_filepath = ""
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self.use_deterministic_compute = False
        self.use_per_session_threads = True
        self._entries = {}
        self._dims = {}
        self._initializers = {}

    def add_session_config_entry(self, key, value):
        self._entries[str(key)] = str(value)

    def get_session_config_entry(self, key):
        if key not in self._entries:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self._entries[key]

    def has_session_config_entry(self, key):
        return key in self._entries

    def add_free_dimension_override_by_name(self, name, value):
        self._dims[name] = int(value)

    def add_free_dimension_override_by_denotation(self, denotation, value):
        raise NotImplementedError("dims are overridden by name only")

    def add_initializer(self, name, value):
        """An OrtValue in the place of the model's own weight of that name."""
        self._initializers[name] = value

    def add_external_initializers(self, names, values):
        raise NotImplementedError("external data are read from the model's folder")

    def register_custom_ops_library(self, path):
        raise NotImplementedError("libraries of custom operators are made for another runtime")


class RunOptions:
    """As onnxruntime.RunOptions; a run that has begun is not stopped by `terminate`."""

    def __init__(self):
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.terminate = False
        self.only_execute_path_to_fetches = False
        self.training_mode = False
        self._entries = {}

    def add_run_config_entry(self, key, value):
        self._entries[str(key)] = str(value)

    def get_run_config_entry(self, key):
        return self._entries[key]
