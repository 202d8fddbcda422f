"""
ingot.ort: what scripts written for ONNX Runtime do. Where ORT_ITSELF is set, the same cases run on ONNX Runtime, whose
behaviour they state.
"""

import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import numpy

import onnx_file

if os.environ.get("ORT_ITSELF"):
    import onnxruntime as ort
else:
    import ingot.ort as ort

state = ort.capi.onnxruntime_pybind11_state
CPU = ["CPUExecutionProvider"]


def perceptron():
    rng = numpy.random.default_rng(3)
    w, b = rng.standard_normal((3, 4), numpy.float32), rng.standard_normal(4, numpy.float32)
    made = onnx_file.model(
        [onnx_file.node("Gemm", ["x", "w", "b"], ["h"]), onnx_file.node("Relu", ["h"], ["y"]),
         onnx_file.node("ReduceSum", ["y"], ["sum"], keepdims=0)],
        [("x", "float32", ["batch", 3])], [("y", "float32", ["batch", 4]), ("sum", "float32", [])],
        {"w": w, "b": b}, {"names": "{0: 'cat'}", "stride": "32"})
    return made, lambda x: numpy.maximum(x @ w + b, 0)


def identity(dtype, shape=("n",)):
    return onnx_file.model([onnx_file.node("Identity", ["x"], ["y"])], [("x", dtype, shape)], [("y", dtype, shape)])


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model, cls.expected = perceptron()
        cls.expected = staticmethod(cls.expected)
        cls.x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3) - 2
        cls.session = ort.InferenceSession(cls.model, providers=CPU)

    # ---- Loading

    def test_sources(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            path.write_bytes(self.model)
            for source in (path, str(path), self.model):
                session = ort.InferenceSession(source, ort.SessionOptions(), CPU)
                numpy.testing.assert_allclose(session.run(None, {"x": self.x})[0], self.expected(self.x), 1e-5)
            self.assertEqual(ort.InferenceSession(str(path), providers=CPU)._model_path, str(path))

    def test_bad_sources(self):
        with self.assertRaisesRegex(state.NoSuchFile, "NO_SUCHFILE.*doesn't exist"):
            ort.InferenceSession("/nowhere/model.onnx", providers=CPU)
        with self.assertRaises(state.InvalidProtobuf):
            ort.InferenceSession(b"this is no model", providers=CPU)
        with self.assertRaises(TypeError):
            ort.InferenceSession(42, providers=CPU)

    # ---- What it is

    def test_nodes(self):
        x, = self.session.get_inputs()
        self.assertEqual((x.name, x.type, x.shape), ("x", "tensor(float)", ["batch", 3]))
        y, total = self.session.get_outputs()
        self.assertEqual((y.name, y.type, y.shape), ("y", "tensor(float)", ["batch", 4]))
        self.assertEqual((total.name, total.shape), ("sum", []))
        self.assertEqual(self.session.get_overridable_initializers(), [])
        unnamed = ort.InferenceSession(identity("int64", [None, 2]), providers=CPU).get_inputs()[0]
        self.assertEqual((unnamed.type, unnamed.shape), ("tensor(int64)", [None, 2]))

    def test_metadata(self):
        about = self.session.get_modelmeta()
        self.assertEqual(about.custom_metadata_map, {"names": "{0: 'cat'}", "stride": "32"})
        self.assertEqual((about.producer_name, about.graph_name), ("tests", "graph"))
        self.assertEqual((about.domain, about.description), ("", ""))

    def test_providers(self):
        self.assertIn("CPUExecutionProvider", ort.get_available_providers())
        self.assertIn("CPUExecutionProvider", ort.get_all_providers())
        self.assertIn(ort.get_device(), ("CPU", "GPU"))
        self.assertEqual(self.session.get_providers(), CPU)
        self.assertEqual(self.session.get_provider_options(), {"CPUExecutionProvider": {}})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            session = ort.InferenceSession(self.model, providers=["NoSuchExecutionProvider", "CPUExecutionProvider"])
        self.assertTrue(any("NoSuchExecutionProvider" in str(w.message) for w in caught))
        self.assertEqual(session.get_providers(), CPU)
        session = ort.InferenceSession(self.model, providers=[("CPUExecutionProvider", {})])
        self.assertEqual(session.get_providers(), CPU)
        session.set_providers(CPU)
        numpy.testing.assert_allclose(session.run(["y"], {"x": self.x})[0], self.expected(self.x), 1e-5)

    # ---- Running

    def test_run(self):
        for names in (None, [], ["y", "sum"], ["sum", "y"], ["sum"]):
            results = self.session.run(names, {"x": self.x})
            self.assertEqual(len(results), len(names or ["y", "sum"]))
            for name, result in zip(names or ["y", "sum"], results):
                expected = self.expected(self.x)
                numpy.testing.assert_allclose(result, expected if name == "y" else expected.sum(), 1e-5)

    def test_layouts(self):
        wide = numpy.arange(24, dtype=numpy.float32).reshape(4, 6)
        for x in (wide[::2, ::2], wide.T[:4, :3], numpy.asfortranarray(wide[:, :3]), wide[:0, :3], wide[::-1, :3]):
            numpy.testing.assert_allclose(self.session.run(["y"], {"x": x})[0], self.expected(x), 1e-5)

    def test_lists(self):
        """Lists become arrays of the input's type, as magika gives them."""
        for dtype in ("float32", "int32", "int64"):
            session = ort.InferenceSession(identity(dtype), providers=CPU)
            y, = session.run(None, {"x": [1, 2, 3]})
            self.assertEqual((y.dtype, y.tolist()), (dtype, [1, 2, 3]))

    def test_outputs_stay(self):
        """Results that are held are not overwritten by later runs, and may be written to."""
        first, _ = self.session.run(None, {"x": self.x})
        kept = [self.session.run(["y"], {"x": self.x + i})[0] for i in range(20)]
        numpy.testing.assert_allclose(first, self.expected(self.x), 1e-5)
        for i, y in enumerate(kept):
            numpy.testing.assert_allclose(y, self.expected(self.x + i), 1e-5)
        first += 1
        self.assertTrue(first.flags.writeable)

    def test_types(self):
        for dtype in ("float32", "float16", "float64", "int8", "uint8", "int32", "int64", "bool"):
            session = ort.InferenceSession(identity(dtype), providers=CPU)
            x = numpy.array([0, 1, 0, 3]).astype(dtype)
            y, = session.run(None, {"x": x})
            self.assertEqual(y.dtype, x.dtype)
            numpy.testing.assert_array_equal(y, x)

    def test_errors(self):
        run = self.session.run
        with self.assertRaisesRegex(ValueError, r"Required inputs \(\['x'\]\) are missing from input feed"):
            run(None, {})
        with self.assertRaisesRegex(state.InvalidArgument, "Invalid input name: z"):
            run(None, {"x": self.x, "z": self.x})
        with self.assertRaisesRegex(state.InvalidArgument, "Invalid output name"):
            run(["z"], {"x": self.x})
        with self.assertRaisesRegex(state.InvalidArgument, r"Actual: \(tensor\(double\)\) , expected: \(tensor\(float\)\)"):
            run(None, {"x": self.x.astype(numpy.float64)})
        with self.assertRaisesRegex(state.InvalidArgument, "Invalid rank for input: x Got: 1 Expected: 2"):
            run(None, {"x": self.x[0]})
        with self.assertRaisesRegex(state.InvalidArgument, "index: 1 Got: 2 Expected: 3"):
            run(None, {"x": self.x[:, :2]})

    def test_threads(self):
        wrong = []

        def work(seed):
            x = numpy.random.default_rng(seed).standard_normal((seed + 1, 3), numpy.float32)
            for _ in range(50):
                if not numpy.allclose(self.session.run(["y"], {"x": x})[0], self.expected(x), 1e-4, 1e-5):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_async(self):
        done, got = threading.Event(), []

        def callback(results, user_data, error):
            got.append((results, user_data, error))
            done.set()

        self.session.run_async(["y"], {"x": self.x}, callback, "mine")
        self.assertTrue(done.wait(60))
        results, user_data, error = got[0]
        self.assertEqual((user_data, error), ("mine", ""))
        numpy.testing.assert_allclose(results[0], self.expected(self.x), 1e-5)

    # ---- Options

    def test_options(self):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.enable_cpu_mem_arena = False
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.add_session_config_entry("session.dynamic_block_base", "4")
        self.assertEqual(options.get_session_config_entry("session.dynamic_block_base"), "4")
        options.add_free_dimension_override_by_name("batch", 2)
        session = ort.InferenceSession(self.model, sess_options=options, providers=CPU)
        self.assertEqual(session.get_inputs()[0].shape, [2, 3])
        numpy.testing.assert_allclose(session.run(["y"], {"x": self.x}, ort.RunOptions())[0], self.expected(self.x), 1e-5)
        self.assertEqual(session.get_session_options().intra_op_num_threads, 1)
        ort.set_default_logger_severity(3)

    def test_profile(self):
        with tempfile.TemporaryDirectory() as folder:
            options = ort.SessionOptions()
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(folder, "profile")
            session = ort.InferenceSession(self.model, options, CPU)
            session.run(None, {"x": self.x})
            path = session.end_profiling()
            self.assertIn('"name"', pathlib.Path(path).read_text())
        if not os.environ.get("ORT_ITSELF"):
            self.assertEqual(self.session.end_profiling(), "")

    # ---- Values and bindings

    def test_values(self):
        value = ort.OrtValue.ortvalue_from_numpy(self.x.copy())  # which it shares
        self.assertEqual((value.shape(), value.data_type(), value.device_name()), ([2, 3], "tensor(float)", "cpu"))
        self.assertTrue(value.is_tensor() and value.has_value())
        y, total = self.session.run_with_ort_values(None, {"x": value})
        numpy.testing.assert_allclose(y.numpy(), self.expected(self.x), 1e-5)
        value.update_inplace(self.x + 1)
        numpy.testing.assert_array_equal(value.numpy(), self.x + 1)
        self.assertEqual(value.tensor_size_in_bytes(), 24)
        same = numpy.asarray(value, dtype=numpy.float32)
        self.assertEqual(same.ctypes.data, value.data_ptr())
        self.assertEqual(numpy.asarray(value, dtype=numpy.float64).dtype, numpy.float64)
        made = ort.OrtValue.ortvalue_from_shape_and_type([2, 5], numpy.int64)
        self.assertEqual((made.shape(), made.data_type()), ([2, 5], "tensor(int64)"))

    def test_values_by_dlpack(self):
        for array in (numpy.arange(6.0), numpy.array([True, False]), numpy.zeros((2, 0, 3), numpy.float32)):
            value = ort.OrtValue.ortvalue_from_numpy(array)
            self.assertEqual(value.__dlpack_device__(), (1, 0))
            for again in (ort.OrtValue.from_dlpack(value), ort.OrtValue.from_dlpack(value.__dlpack__())):
                self.assertEqual((again.shape(), again.data_type()), (value.shape(), value.data_type()))
                numpy.testing.assert_array_equal(again.numpy(), array)
                if array.size:
                    self.assertEqual(again.data_ptr(), value.data_ptr())
        words = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(numpy.arange(4, dtype=numpy.uint16), 10)  # float16
        self.assertEqual((words.element_type(), words.shape()), (10, [4]))
        self.assertEqual(ort.OrtDevice.make("cpu", 0).device_type(), 0)

    def test_inputs_that_are_outputs(self):
        model = onnx_file.model([onnx_file.node("Neg", ["x"], ["y"])], [("x", "float32", [2])],
                                [("y", "float32", [2]), ("x", "float32", [2])])
        session, held = ort.InferenceSession(model, providers=CPU), []
        for i in range(4):
            x = numpy.full(2, i, numpy.float32)
            held.append(session.run(None, {"x": x}))
            self.assertFalse(numpy.shares_memory(held[-1][1], x))
        for i, (y, x) in enumerate(held):
            self.assertEqual((y.tolist(), x.tolist()), ([-i, -i], [i, i]))

    def test_quantised_lstm(self):
        """DynamicQuantizeLSTM: ONNX's LSTM with weights of 8 bits. ONNX Runtime rounds the other operands too."""
        rng = numpy.random.default_rng(5)
        tolerance = 0.05 if os.environ.get("ORT_ITSELF") else 1e-5
        for per_channel in (False, True):
            with self.subTest(per_channel=per_channel):
                hidden, shape = 4, (2, 16) if per_channel else (2,)
                w, r = (rng.integers(-128, 128, (2, rows, 4 * hidden), numpy.int8) for rows in (3, hidden))
                scales = [rng.uniform(0.002, 0.004, shape).astype(numpy.float32) for _ in "wr"]
                zeros = [numpy.zeros(shape, numpy.int8) if per_channel else rng.integers(-9, 9, shape, numpy.int8) for _ in "wr"]
                bias = rng.uniform(-1, 1, (2, 8 * hidden)).astype(numpy.float32)
                ports = [("x", "float32", ["t", "n", 3])], [("y", "float32", ["t", 2, "n", hidden])]
                attributes = {"hidden_size": hidden, "direction": "bidirectional"}
                wide = [((q.astype(numpy.float32) - z.reshape(2, 1, -1)) * s.reshape(2, 1, -1)).transpose(0, 2, 1)
                        for q, s, z in zip((w, r), scales, zeros)]
                plain = onnx_file.model([onnx_file.node("LSTM", ["x", "w", "r", "b"], ["y"], **attributes)], *ports,
                                        {"w": wide[0], "r": wide[1], "b": bias})
                names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
                weights = {"w": w, "r": r, "b": bias, "ws": scales[0], "wz": zeros[0], "rs": scales[1], "rz": zeros[1]}
                quantised = onnx_file.model(
                    [onnx_file.node("DynamicQuantizeLSTM", names, ["y"], "com.microsoft", **attributes)], *ports, weights,
                    domains=["com.microsoft"])
                x = rng.standard_normal((5, 2, 3), numpy.float32)
                expected, got = (ort.InferenceSession(m, providers=CPU).run(None, {"x": x})[0] for m in (plain, quantised))
                self.assertGreater(abs(expected).max(), 0.1)
                numpy.testing.assert_allclose(got, expected, tolerance, tolerance)

    def test_other_weights(self):
        options = ort.SessionOptions()
        w, b = numpy.ones((3, 4), numpy.float32), numpy.zeros(4, numpy.float32)
        values = ort.OrtValue.ortvalue_from_numpy(w), ort.OrtValue.ortvalue_from_numpy(b)
        options.add_initializer("w", values[0])
        options.add_initializer("b", values[1])
        session = ort.InferenceSession(self.model, options, CPU)
        numpy.testing.assert_allclose(session.run(["y"], {"x": self.x})[0], numpy.maximum(self.x @ w, 0), 1e-5)

    def test_binding(self):
        binding = self.session.io_binding()
        binding.bind_cpu_input("x", self.x)
        y = numpy.zeros((2, 4), numpy.float32)
        binding.bind_output("y", "cpu", 0, numpy.float32, y.shape, y.ctypes.data)
        binding.bind_output("sum")
        self.session.run_with_iobinding(binding)
        numpy.testing.assert_allclose(y, self.expected(self.x), 1e-5)
        for results in (binding.copy_outputs_to_cpu(), [value.numpy() for value in binding.get_outputs()]):
            numpy.testing.assert_allclose(results[0], self.expected(self.x), 1e-5)
            numpy.testing.assert_allclose(results[1], self.expected(self.x).sum(), 1e-5)
        # All bound, by pointers, with the same binding again.
        x, total = self.x + 3, numpy.zeros((), numpy.float32)
        binding.clear_binding_outputs()
        binding.bind_input("x", "cpu", 0, numpy.float32, x.shape, x.ctypes.data)
        binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(y))
        binding.bind_output("sum", "cpu", 0, numpy.float32, (), total.ctypes.data)
        for _ in range(3):
            total[...] = 0
            self.session.run_with_iobinding(binding)
            numpy.testing.assert_allclose(total, self.expected(x).sum(), 1e-5)
        with self.assertRaises(Exception):
            binding.bind_cpu_input("z", self.x)
        with self.assertRaises(Exception):
            self.session.run_with_iobinding(self.session.io_binding())

    def test_binding_stays(self):
        """What is bound is read and written by each run, until something else is bound."""
        x, y, total = self.x.copy(), numpy.zeros((2, 4), numpy.float32), numpy.zeros((), numpy.float32)
        bindings = [self.session.io_binding() for _ in range(2)]
        for binding in bindings:
            binding.bind_input("x", "cpu", 0, numpy.float32, x.shape, x.ctypes.data)
            binding.bind_output("y", "cpu", 0, numpy.float32, y.shape, y.ctypes.data)
            binding.bind_output("sum", "cpu", 0, numpy.float32, (), total.ctypes.data)
        for i in range(4):
            x += 1
            self.session.run_with_iobinding(bindings[i % 2])
            numpy.testing.assert_allclose(y, self.expected(x), 1e-5)
            self.session.run(["y"], {"x": x[:1]})  # meanwhile
        bindings[0].bind_cpu_input("x", numpy.asfortranarray(-x))
        self.session.run_with_iobinding(bindings[0])
        numpy.testing.assert_allclose(y, self.expected(-x), 1e-5)
        kept = []
        bindings[1].clear_binding_outputs()
        bindings[1].bind_output("y")
        for _ in range(3):
            x += 1
            self.session.run_with_iobinding(bindings[1])
            kept.append((bindings[1].copy_outputs_to_cpu()[0], self.expected(x)))
        for got, expected in kept:
            numpy.testing.assert_allclose(got, expected, 1e-5)
        bindings[1].bind_input("x", "cpu", 0, numpy.float64, x.shape, x.ctypes.data)
        with self.assertRaises(Exception):
            self.session.run_with_iobinding(bindings[1])

    # ---- Other scripts' habits

    def test_subclass(self):
        """As insightface's, which is pickled by its path."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            pathlib.Path(path).write_bytes(self.model)
            session = pickle.loads(pickle.dumps(Pickable(path, providers=CPU)))
            numpy.testing.assert_allclose(session.run(["y"], {"x": self.x})[0], self.expected(self.x), 1e-5)
            self.assertEqual(session._providers, CPU)

    @unittest.skipIf(os.environ.get("ORT_ITSELF"), "of ingot.ort alone")
    def test_install(self):
        script = ("import ingot.ort; ingot.ort.install(); import onnxruntime as o, onnxruntime.capi as c\n"
                  "from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument\n"
                  "from onnxruntime import InferenceSession\nassert o is ingot.ort and InferenceSession\n"
                  "import sys; sys.modules['onnxruntime'] = c\n"
                  "try: ingot.ort.install()\nexcept RuntimeError: pass\nelse: raise SystemExit(1)")
        subprocess.run([sys.executable, "-c", script], check=True)

    @unittest.skipIf(os.environ.get("ORT_ITSELF"), "of ingot.ort alone")
    def test_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            options = ort.SessionOptions()
            options.add_session_config_entry("ingot.cache", folder)
            reports = [ort.InferenceSession(self.model, options, CPU)._engine.report for _ in range(2)]
            self.assertFalse(reports[0]["engine_cached"])
            self.assertTrue(reports[1]["engine_cached"])


class Pickable(ort.InferenceSession):
    def __init__(self, path, **kwargs):
        super().__init__(path, **kwargs)
        self.path = path

    def __getstate__(self):
        return {"path": self.path}

    def __setstate__(self, values):
        self.__init__(values["path"], providers=CPU)


if __name__ == "__main__":
    unittest.main()
