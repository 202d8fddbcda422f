"""Tensors in GPU memory, on the emulator (tests/emulator), whose device memory can be read like any other."""

import ctypes
import os
import unittest

import numpy as np

import ingot
from tensor_test import DlTensor


def setUpModule():
    if "emulator" not in os.environ.get("INGOT_NVRTC", ""):
        raise unittest.SkipTest("not on the emulator")


class OnGpu(DlTensor):
    """A tensor in GPU memory that shows itself by __dlpack__."""

    def __init__(self, values, cuda):
        super().__init__(values)
        address = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(values.nbytes)) == 0
        ctypes.memmove(address.value, values.ctypes.data, values.nbytes)
        self.managed.tensor.data = address.value
        self.managed.tensor.device[0] = 2
        self.device = (2, 0)
        self.streams = []

    def __dlpack__(self, *, stream, max_version):
        self.streams.append(stream)
        return super().__dlpack__()


def contents(tensor):
    count = int(np.prod(tensor.shape))
    return np.array((ctypes.c_float * count).from_address(tensor.data_address)).reshape(tensor.shape)


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
        for stream in (None, -1, 1, 2, self.stream.value, 1 << 40):
            self.assertIn("dltensor", repr(y.__dlpack__(stream=stream)))
        for stream in (0, -2):
            with self.assertRaises(BufferError):
                y.__dlpack__(stream=stream)
        with self.assertRaises(TypeError):
            y.__dlpack__(stream="1")
        with self.assertRaises(BufferError):
            y.__dlpack__(copy=True)

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
