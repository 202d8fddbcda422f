"""Tensors in GPU memory, on the emulator (tests/emulator), whose device memory can be read like any other."""

import ctypes
import os
import unittest

import numpy as np

import ingot
from onnx_file import model, node
from tensor_test import DlTensor


def setUpModule():
    if "emulator" not in os.environ.get("INGOT_NVRTC", ""):
        raise unittest.SkipTest("not on the emulator")


class OnGpu(DlTensor):
    """A tensor in GPU memory that shows itself by __dlpack__."""

    def __init__(self, values, cuda, gpu=0):
        super().__init__(values)
        address = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(values.nbytes)) == 0
        ctypes.memmove(address.value, values.ctypes.data, values.nbytes)
        self.managed.tensor.data = address.value
        self.managed.tensor.device[:] = self.device = (2, gpu)
        self.streams = []

    refuse = None

    def __dlpack__(self, *, stream, max_version):
        if self.refuse:
            self.refuse()
        self.streams.append(stream)
        return super().__dlpack__()


class Framework(OnGpu):
    """A framework's tensor in GPU memory: its type has DLPack's C exchange API."""

    current_stream = 0

    def __init__(self, values, cuda, managed=None):
        if managed is None:
            super().__init__(values, cuda)
        self.imported = managed  # the address of a DLManagedTensorVersioned
        self.data_address = ctypes.c_uint64.from_address(managed + 32).value if managed else None

    def drop(self):
        deleter = ctypes.c_void_p.from_address(self.imported + 16).value
        ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(deleter)(self.imported)


def exchange_api():
    """The capsule with the functions for Framework: reads, imports and tells the current stream."""
    functions = [ctypes.PYFUNCTYPE(ctypes.c_int, *arguments) for arguments in (
        (ctypes.py_object, ctypes.c_void_p), (ctypes.c_void_p, ctypes.POINTER(ctypes.py_object)),
        (ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)),
    )]  # fmt: skip

    def read(tensor, out):
        ctypes.memmove(out, ctypes.byref(tensor.managed.tensor), 48)
        return 0

    def import_managed(managed, out):
        tensor = Framework(None, None, managed)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
        ctypes.c_void_p.from_address(ctypes.addressof(out.contents)).value = id(tensor)
        return 0

    def current_stream(type, device, out):
        out[0] = Framework.current_stream
        return 0

    calls = [make(call) for make, call in zip(functions, (read, import_managed, current_stream))]
    pointers = [ctypes.cast(call, ctypes.c_void_p).value for call in calls]
    # version 1.1, previous, allocate, export_managed, import_managed, read, current_stream
    api = (ctypes.c_uint64 * 7)(1 | 1 << 32, 0, 0, 0, pointers[1], pointers[0], pointers[2])
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    Framework.kept = calls, api
    return new(ctypes.addressof(api), b"dlpack_exchange_api", None)


Framework.__dlpack_c_exchange_api__ = exchange_api()


def contents_at(address, shape):
    return np.array((ctypes.c_float * int(np.prod(shape))).from_address(address)).reshape(shape)


def contents(tensor):
    return contents_at(tensor.data_address, tensor.shape)


class Gpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        net = ingot.Network()
        x = net.input("x", "f32", ["n", 4])
        net.output("y", net.add("add", x, x))
        cls.engine = ingot.compile(net, target=ingot.gpu_info(0)["target"])
        cls.values = np.arange(8, dtype=np.float32).reshape(2, 4)
        cls.engine(cls.values)  # makes the GPU's context
        cls.cuda = ctypes.CDLL("libcuda.so.1")
        cls.stream = ctypes.c_void_p()
        assert cls.cuda.cuStreamCreate(ctypes.byref(cls.stream), 1) == 0
        cls.session = cls.engine.session(stream=cls.stream.value, timing=True)
        cls.cuda.fake_cuda_take_log.restype = ctypes.c_char_p

    def new_stream(self):
        stream = ctypes.c_void_p()
        assert self.cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
        return stream.value

    def calls(self):
        """What has been asked of the driver since: waits of streams for events, records of events, waits of the host."""
        log = self.cuda.fake_cuda_take_log().decode().split()
        syncs = [name for name in log if "Synchronize" in name or name == "cuEventQuery"]
        return log.count("cuStreamWaitEvent"), log.count("cuEventRecord"), len(syncs)

    def test_host_memory(self):
        y = self.session(self.values)
        np.testing.assert_array_equal(y, 2 * self.values)
        self.assertIsInstance(y, np.ndarray)
        self.assertIn("compute_ms", self.session.timing())
        np.testing.assert_array_equal(self.session.enqueue(self.values).result(), 2 * self.values)

    def test_gpu_memory(self):
        x = OnGpu(self.values, self.cuda)
        y = self.session(x)
        self.assertEqual((y.device, y.__dlpack_device__(), y.shape), ("cuda:0", (2, 0), (2, 4)))
        self.assertEqual((x.streams, x.deleted), ([self.stream.value], 1))
        z = self.session(y)  # in place of a copy
        self.session.wait()
        np.testing.assert_array_equal(contents(y), 2 * self.values)
        np.testing.assert_array_equal(contents(z), 4 * self.values)
        for use in (y.numpy, lambda: memoryview(y), y.tolist):
            with self.assertRaises((ingot.InvalidArgument, BufferError)):
                use()

    def test_default_stream(self):
        """A session without a stream runs GPU tensors on the default one, and again, by then captured."""
        session = self.engine.session()
        for _ in range(3):
            x = OnGpu(self.values, self.cuda)
            y = session(x)
            self.assertEqual(x.streams, [1])
            session.wait()
            np.testing.assert_array_equal(contents(y), 2 * self.values)
            np.testing.assert_array_equal(contents(self.engine(x)), 2 * self.values)

    def test_streams(self):
        y = self.session(OnGpu(self.values, self.cuda))
        other = self.new_stream()
        # The run's own stream and -1 need no order; others wait on the GPU, and the host never does.
        for stream, waits in ((None, 1), (-1, 0), (1, 1), (2, 1), (self.stream.value, 0), (other, 1), (other, 1)):
            with self.subTest(stream=stream):
                self.calls()
                self.assertIn("dltensor", repr(y.__dlpack__(stream=stream)))
                self.assertEqual(self.calls(), (waits, 0, 0))
        for stream in (0, -2):
            with self.assertRaises(BufferError):
                y.__dlpack__(stream=stream)
        with self.assertRaises(TypeError):
            y.__dlpack__(stream="1")
        with self.assertRaises(BufferError):
            y.__dlpack__(copy=True)
        self.calls()
        del y  # an event for each reader, but for the run's own stream
        self.assertEqual(self.calls(), (0, 3, 0))
        y = self.session(OnGpu(self.values, self.cuda))
        self.assertEqual(self.calls()[::2], (3, 0))  # the memory is used again behind all of them
        np.testing.assert_array_equal(contents(y), 2 * self.values)

    def test_streams_of_others_tensors(self):
        """Who made the memory orders it for the stream that is asked for; nobody can where it is an address alone."""
        x = OnGpu(self.values, self.cuda)
        y, z = ingot.as_tensor(x), ingot.from_address(x.managed.tensor.data, (2, 4), "f32", "cuda", owner=x)
        for stream in (None, 1, 2, 7, -1):
            for tensor in (y, z, ingot.from_address(x.managed.tensor.data, (2, 4), "f32", "cuda")):
                self.assertIn("dltensor", repr(tensor.__dlpack__(stream=stream)))
        self.assertEqual(x.streams, [1, 1, 1, 2, 7, -1])  # the first by as_tensor
        np.testing.assert_array_equal(contents(self.session(y)), 2 * self.values)
        self.assertEqual(x.streams[-1], self.stream.value)

        def refuse(**_):
            raise BufferError("no such stream")

        x.refuse = refuse
        with self.assertRaisesRegex(BufferError, "no such stream"):
            y.__dlpack__(stream=8)
        with self.assertRaises(BufferError):
            y.__dlpack__(stream=0)

    def test_sessions_on_other_streams(self):
        """A session that reads another's result has its stream wait, not the host; so does the memory, when it is let go."""
        other = self.engine.session(stream=self.new_stream())
        other(self.session(OnGpu(self.values, self.cuda)))
        for turn in range(3):
            y = self.session(OnGpu(self.values, self.cuda))
            self.calls()
            z = other(y)
            waits, _, syncs = self.calls()
            self.assertGreaterEqual(waits, 1)
            self.assertEqual(syncs, 0)
            del y
            self.assertEqual(self.calls(), (0, 1, 0))
            np.testing.assert_array_equal(contents(z), 4 * self.values)
            del z  # so that the next run needs no new memory

    def test_frameworks_current_stream(self):
        """Results that become a framework's tensors are in order on its current stream, too."""
        for session, current, waits in (
            (self.engine.session(), 0, 0),  # runs on the current stream
            (self.engine.session(), self.new_stream(), 0),
            (self.engine.session(stream=self.stream.value), self.stream.value, 0),
            (self.engine.session(stream=self.stream.value), 0, 1),
            (self.engine.session(stream=self.stream.value), self.new_stream(), 1),
        ):
            Framework.current_stream = current
            x = Framework(self.values, self.cuda)
            session(x).drop()
            self.calls()
            y = session(x)
            self.assertIsInstance(y, Framework)
            self.assertEqual(self.calls()[2], 0)
            np.testing.assert_array_equal(contents_at(y.data_address, (2, 4)), 2 * self.values)
            y.drop()
            self.assertEqual(self.calls(), (0, waits, 0))

    def test_results_asked_for_later(self):
        """Of an enqueued run: by then the framework's current stream may be another one."""
        Framework.current_stream = self.new_stream()
        session = self.engine.session()
        run = session.enqueue(Framework(self.values, self.cuda))
        Framework.current_stream = 0
        self.calls()
        y = run.result()
        self.assertEqual(self.calls()[0], 0)  # the host has waited for it
        del run
        y.drop()
        self.assertEqual(self.calls(), (0, 1, 0))

    def test_prepare(self):
        session = self.engine.session(stream=self.stream.value)
        session.prepare([(2, 4)], device="cuda")
        session.prepare({"x": (3, 4)}, background=True, device="cuda")
        session.prepare([OnGpu(np.ones((5, 4), np.float32), self.cuda)])
        session.prepare_wait()
        self.assertEqual(session.plans()["captures"], 3)
        for n in (2, 3, 5):
            y = session(OnGpu(np.ones((n, 4), np.float32), self.cuda))
            self.assertEqual(y.device, "cuda:0")
            session.wait()
            np.testing.assert_array_equal(contents(y), np.full((n, 4), 2))
        self.assertEqual((session.plans()["misses"], session.plans()["captures"]), (3, 3))
        x = OnGpu(self.values, self.cuda)
        x.managed.tensor.device[1] = 3
        with self.assertRaisesRegex(ingot.InvalidArgument, "input 'x': the tensor is not on the session's device"):
            session.prepare([x])

    def test_streams_that_are_captured(self):
        """What is released while its reader's stream is captured is used no more."""
        stream = self.new_stream()
        y = self.session(OnGpu(self.values, self.cuda))
        address = y.data_address
        self.assertEqual(self.cuda.cuCtxPushCurrent_v2(self.context()), 0)
        self.assertEqual(self.cuda.cuStreamBeginCapture_v2(ctypes.c_void_p(stream), 2), 0)
        self.calls()
        capsule = y.__dlpack__(stream=stream)
        self.assertEqual(self.calls(), (0, 0, 1))  # the host has waited
        del capsule, y
        self.assertEqual(self.calls(), (0, 0, 0))
        graph = ctypes.c_void_p()
        self.assertEqual(self.cuda.cuStreamEndCapture(ctypes.c_void_p(stream), ctypes.byref(graph)), 0)
        self.cuda.cuGraphDestroy(graph)
        self.cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        held = [self.session(OnGpu(self.values, self.cuda)) for _ in range(4)]
        self.assertNotIn(address, [y.data_address for y in held])

    def context(self):
        context = ctypes.c_void_p()
        self.assertEqual(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), 0)
        self.cuda.cuDevicePrimaryCtxRelease_v2(0)
        return context

    def test_ways_to_name_a_stream(self):
        class Framework:
            cuda_stream = self.stream.value

        class Protocol:
            def __cuda_stream__(_):
                return 0, self.stream.value

        for stream in (Framework(), Protocol()):
            x = OnGpu(self.values, self.cuda)
            self.engine.session(stream=stream)(x)
            self.assertEqual(x.streams, [self.stream.value])
        with self.assertRaises(AttributeError):
            self.engine.session(stream=object())

    def test_bound(self):
        x, y = OnGpu(self.values, self.cuda), np.zeros((2, 4), np.float32)
        self.session.bind([x], [y])
        self.session.run_bound()
        np.testing.assert_array_equal(y, 2 * self.values)
        self.session.bind([x])
        z = self.session.run_bound()
        self.session.wait()
        np.testing.assert_array_equal(contents(z), 2 * self.values)
        self.session.unbind()
        self.assertEqual(x.deleted, 2)

    def test_held_results_stay(self):
        held = [self.session(OnGpu(np.full((1, 4), i, np.float32), self.cuda)) for i in range(6)]
        self.session.wait()
        self.assertEqual([contents(y)[0, 0] for y in held], [2 * i for i in range(6)])

    def test_borrowed_weights(self):
        net = ingot.Network()
        net.output("y", net.add("add", net.input("x", "f32", ["n", 4]), net.weight("w", np.zeros(4, np.float32))))
        engine = ingot.compile(net, target=ingot.gpu_info(0)["target"], strip_weights=True)
        first, second = (OnGpu(np.full(4, i, np.float32), self.cuda) for i in (1, 2))
        info = engine.refit({"w": first}, borrow=True)
        self.assertEqual((info["borrowed"], info["borrowed_bytes"], info["owned_bytes"]), (1, 16, 0))
        np.testing.assert_array_equal(engine(self.values), self.values + 1)
        ctypes.memmove(first.managed.tensor.data, np.full(4, 5, np.float32).ctypes.data, 16)
        np.testing.assert_array_equal(engine(self.values), self.values + 5)
        engine.refit({"w": second}, borrow=True)
        self.assertEqual(first.deleted, 0)
        np.testing.assert_array_equal(engine(self.values), self.values + 2)
        self.assertEqual(first.deleted, 1)
        engine.refit({"w": first})  # a copy
        self.assertEqual(first.deleted, 2)
        ctypes.memmove(first.managed.tensor.data, np.zeros(4, np.float32).ctypes.data, 16)
        np.testing.assert_array_equal(engine(self.values), self.values + 5)
        self.assertEqual(second.deleted, 1)
        engine.refit({"w": np.ones(4, np.float32)}, borrow=True)  # host memory: a copy, too
        np.testing.assert_array_equal(engine(self.values), self.values + 1)
        first.managed.tensor.device[1] = 3
        with self.assertRaises(ingot.Error):
            engine.refit({"w": first}, borrow=True)
        np.testing.assert_array_equal(engine(self.values), self.values + 1)

    def test_two_gpus(self):
        """An engine that is called runs where its inputs are; a session on its own GPU alone."""
        for gpu in (1, 1, 0, 1, 0):
            x = OnGpu(self.values, self.cuda, gpu)
            y, z = self.engine(x), self.engine(x=x)
            self.assertEqual((y.device, y.__dlpack_device__(), z.device), (f"cuda:{gpu}", (2, gpu), f"cuda:{gpu}"))
            session = self.engine.session(device=gpu)
            self.assertEqual(session(y).device, f"cuda:{gpu}")
            session.wait()
            np.testing.assert_array_equal(contents(y), 2 * self.values)
            np.testing.assert_array_equal(contents(z), 2 * self.values)
            with self.assertRaisesRegex(ingot.InvalidArgument, f"'x' is on GPU {gpu}, the session on GPU {1 - gpu}"):
                self.engine.session(device=1 - gpu)(x)
            np.testing.assert_array_equal(self.engine(self.values), 2 * self.values)  # host memory goes to either
        net = ingot.Network()
        net.output("y", net.add("add", net.input("a", "f32", ["n", 4]), net.input("b", "f32", ["n", 4])))
        engine = ingot.compile(net, target=ingot.gpu_info(1)["target"], device=1)
        a, b = (OnGpu(self.values, self.cuda, gpu) for gpu in (0, 1))
        with self.assertRaisesRegex(ingot.InvalidArgument, "'b' is on GPU 1, the session on GPU 0"):
            engine(a, b)
        self.assertEqual(engine(b, b).device, "cuda:1")

    def test_an_embedding_that_gives_logits_too(self):
        """In half precision its matrix is read in place twice, although no whole loads hold so many columns."""
        weights = np.random.default_rng(1).standard_normal((77, 64)).astype(np.float16)
        net = ingot.Network()
        w = net.weight("w", weights)
        x = net.add("gather", w, net.input("i", "i64", [32]), axis=0)
        net.output("y", net.add("matmul", net.add("tanh", x), net.add("transpose", w, perm=[1, 0])))
        engine = ingot.compile(net, target="cuda:sm_90a", strip_weights=True)
        given = OnGpu(weights, self.cuda)
        info = engine.refit({"w": given}, borrow=True)
        self.assertEqual((info["owned_bytes"], info["borrowed_bytes"]), (0, 2 * weights.nbytes))
        i = np.arange(32) * 2
        expected = np.tanh(weights[i].astype(np.float32)).astype(np.float16).astype(np.float32) @ weights.T.astype(np.float32)
        np.testing.assert_allclose(engine(i), expected, rtol=2e-3, atol=2e-2)

    def test_scales_by_blocks(self):
        """A model of bytes with scales for each 128 of the depth, through the importer: multiplied as bytes, and refitted."""
        rng = np.random.default_rng(2)
        x, s = rng.standard_normal((21, 300)).astype(np.float32), rng.uniform(0.01, 0.03, (21, 3)).astype(np.float32)
        blocked = {"block_size": 128}
        onnx = model(
            [
                node("QuantizeLinear", ["x", "s"], ["q"], axis=1, output_dtype=3, **blocked),
                node("DequantizeLinear", ["q", "s"], ["a"], axis=1, **blocked),
                node("DequantizeLinear", ["w", "ws"], ["b"], axis=0, **blocked),
                node("MatMul", ["a", "b"], ["y"]),
            ],
            [("x", "float32", ["n", 300]), ("s", "float32", ["n", 3])],
            [("y", "float32", ["n", 40])],
            opset=21,
            initializers={"w": np.zeros((300, 40), np.int8), "ws": np.ones((3, 40), np.float32)},
        )
        engine = ingot.compile(onnx, target=ingot.gpu_info(0)["target"])
        tactics = [kernel["tactic"] for kernel in engine.explanation()["kernels"]]
        self.assertTrue([tactic for tactic in tactics if tactic.startswith("gemm i8") and tactic.endswith(", scaled")], tactics)
        a = np.clip(np.round(x / s.repeat(128, 1)[:, :300]), -128, 127) * s.repeat(128, 1)[:, :300].astype(np.float64)
        np.testing.assert_array_equal(engine(x, s), np.zeros((21, 40)))
        for _ in range(2):
            w = rng.integers(-128, 128, (300, 40)).astype(np.int8)
            ws = rng.uniform(0.01, 0.02, (3, 40)).astype(np.float32)
            engine.refit({"w": w, "ws": ws})
            y = a @ (w * ws.repeat(128, 0)[:300].astype(np.float64))
            np.testing.assert_allclose(engine(x, s), y, rtol=1e-5, atol=1e-5 * np.abs(y).max())

    def test_weights_borrowed_on_the_second_gpu(self):
        net = ingot.Network()
        net.output("y", net.add("add", net.input("x", "f32", ["n", 4]), net.weight("w", np.zeros(4, np.float32))))
        engine = ingot.compile(net, target=ingot.gpu_info(1)["target"], strip_weights=True)
        w, x = OnGpu(np.full(4, 3, np.float32), self.cuda, 1), OnGpu(self.values, self.cuda, 1)
        self.assertEqual(engine.refit({"w": w}, borrow=True)["borrowed"], 1)
        session = engine.session(device=1)
        for y in (session(x), engine(x)):
            session.wait()
            np.testing.assert_array_equal(contents(y), self.values + 3)
        with self.assertRaisesRegex(ingot.Error, "GPU"):  # whose kernels cannot read that memory
            engine(OnGpu(self.values, self.cuda, 0))

    def test_refusals(self):
        net = ingot.Network()
        net.output("y", net.add("neg", net.input("x", "f32", ["n", 4])))
        x = OnGpu(self.values, self.cuda)
        with self.assertRaisesRegex(ingot.InvalidArgument, "the engine is for the CPU"):
            ingot.compile(net)(x)
        x.managed.tensor.device[1] = 3
        with self.assertRaisesRegex(ingot.InvalidArgument, "GPU 3"):
            self.session(x)
        strides = (ctypes.c_int64 * 2)(1, 2)
        x = OnGpu(self.values, self.cuda)
        x.managed.tensor.strides = strides
        with self.assertRaisesRegex(ingot.InvalidArgument, "contiguous"):
            self.session(x)


if __name__ == "__main__":
    unittest.main()
