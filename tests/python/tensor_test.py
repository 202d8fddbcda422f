"""Tensors that go in and come out: types, shapes, layouts, protocols, lifetimes."""

import array
import ctypes
import gc
import sys
import unittest
import weakref

import numpy as np

import ingot
import networks


class Inputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = networks.doubled()

    def test_every_type(self):
        for name, dtype in networks.DTYPES.items():
            with self.subTest(name):
                engine = networks.unary("not" if name == "bool" else "abs" if name[0] != "u" else "bitnot", name, ["n"])
                x = np.array([0, 1, 1], dtype)
                y = engine(x)
                self.assertEqual(y.dtype, dtype)
                expected = ~x if name == "bool" or name[0] == "u" else abs(x)
                np.testing.assert_array_equal(y, expected)

    def test_bf16(self):
        engine = networks.unary("neg", "bf16", ["n"])
        y = engine.session()(Bf16(np.array([0x3F80, 0xC000], np.uint16)))
        self.assertIsInstance(y, ingot.Tensor)
        self.assertEqual(y.dtype, "bf16")
        self.assertEqual(list(np.frombuffer(y, np.uint16)), [0xBF80, 0x4000])

    def test_narrow(self):
        for dtype, code, values in [("f8e4m3fn", 10, [1.0, -2.0]), ("f8e5m2", 12, [0.0078125, -8.0])]:
            net = ingot.Network()
            x = net.input("x", dtype, ["n"])
            wide = net.add("cast", x, to=ingot.dtype("f32"))
            net.output("y", wide)
            net.output("z", net.add("cast", wide, to=ingot.dtype(dtype)))
            net.output("i", net.add("cast", wide, to=ingot.dtype("i4")))
            codes = np.array([0x38, 0xC0] if code == 10 else [0x20, 0xC8], np.uint8)
            y, z, i = ingot.compile(net).session()(NarrowFloat(codes, code))
            self.assertEqual((list(np.asarray(y)), z.dtype, i.dtype), (values, dtype, "i4"))
            self.assertEqual(bytes(z), bytes(codes))
            self.assertEqual(i.tolist(), [int(v) for v in values])

    def test_empty_and_scalar(self):
        self.assertEqual(self.engine(np.zeros((0, 4), np.float32)).shape, (0, 4))
        y = networks.unary("neg", "f32", [])(np.array(3, np.float32))
        self.assertEqual((y.shape, float(y)), ((), -3))

    def test_layouts(self):
        base = np.arange(96, dtype=np.float32).reshape(8, 12)
        unaligned = np.frombuffer(b"\0" + base[:, :4].tobytes(), np.uint8)[1:].view(np.float32).reshape(8, 4)
        views = [base[:, ::3], base[::-1, 8:], base.T[:, :4], np.broadcast_to(base[0, :4], (5, 4)), base[::2, :4],
                 np.asfortranarray(base[:, :4]), unaligned, base[:0, :4], base[:1, ::-1][:, ::3]]
        for x in views:
            with self.subTest(x.strides):
                np.testing.assert_array_equal(self.engine(x), x + x)

    def test_dynamic_shapes(self):
        session = self.engine.session()
        for n in (1, 7, 0, 100, 7):
            x = np.random.rand(n, 4).astype(np.float32)
            np.testing.assert_array_equal(session(x), x + x)

    def test_buffers(self):
        y = self.engine(memoryview(array.array("f", [1, 2, 3, 4])).cast("B").cast("f", (1, 4)))
        self.assertIsInstance(y, ingot.Tensor)
        self.assertEqual(y.tolist(), [[2, 4, 6, 8]])
        self.assertEqual(self.engine(y).tolist(), [[4, 8, 12, 16]])  # Ingot's own, too

    def test_read_only(self):
        x = np.ones((1, 4), np.float32)
        x.flags.writeable = False
        self.assertEqual(self.engine(x).tolist(), [[2, 2, 2, 2]])

    def test_names(self):
        engine = networks.sum_and_difference()
        a, b = np.ones((2, 3), np.float32), np.full((2, 3), 5, np.float32)
        for both in (engine(a, b), engine(a, b=b), engine(b=b, a=a)):
            self.assertEqual([t[0, 0] for t in both], [6, -4])

    def test_refusals(self):
        engine = networks.sum_and_difference()
        x = np.ones((2, 3), np.float32)
        cases = [
            ((), {}, ValueError, "'a' is missing"),
            ((x,), {}, ValueError, "'b' is missing"),
            ((x, x, x), {}, ValueError, "3 inputs are given"),
            ((x, x), {"a": x}, ValueError, "'a' is given twice"),
            ((x, x), {"c": x}, ValueError, "no input 'c'"),
            ((x, None), {}, TypeError, "input 'b'"),
            ((x, [[1, 2, 3]]), {}, TypeError, "input 'b'"),
            ((x, x.astype(np.float64)), {}, ingot.InvalidArgument, "f64"),
            ((x, x.astype(">f4")), {}, ingot.InvalidArgument, "input 'b'"),
            ((x, x.astype(np.complex64)), {}, ingot.InvalidArgument, "input 'b'"),
            ((x, np.array(["abc"])), {}, ingot.InvalidArgument, "input 'b'"),
            ((x, x[0]), {}, ingot.InvalidArgument, "b"),
            ((x, x[:, :2]), {}, ingot.InvalidArgument, "b"),
            ((x, np.ones((3, 3), np.float32)), {}, ingot.Error, ""),
            ((x, np.ones((1,) * 9, np.float32)), {}, ingot.InvalidArgument, "9 dims"),
        ]
        for args, kwargs, error, message in cases:
            with self.subTest(message), self.assertRaisesRegex(error, message):
                engine(*args, **kwargs)
        self.assertEqual(engine(x, x)[0][0, 0], 2)  # as good as before


class Bf16:
    """A tensor of bf16 that only DLPack can show."""

    def __init__(self, bits):
        self.tensor = DlTensor(bits)
        self.tensor.managed.tensor.dtype.code = 4

    def __dlpack__(self, **_):
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


class NarrowFloat(Bf16):
    """A tensor of floats of 8 bits, by DLPack's code for them."""

    def __init__(self, bits, code):
        super().__init__(bits)
        self.tensor.managed.tensor.dtype.code = code


class DlType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DlpackTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("dtype", DlType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class DlManaged(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", DELETER),
                ("flags", ctypes.c_uint64), ("tensor", DlpackTensor)]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class DlTensor:
    """An exporter written by hand, which counts its deleter's calls; tests spoil its fields."""

    def __init__(self, values):
        self.values, self.deleted = values, 0
        self.shape = (ctypes.c_int64 * max(1, values.ndim))(*values.shape)
        self.deleter = DELETER(self.delete)
        code = {"f": 2, "i": 0, "u": 1}[values.dtype.kind]
        self.managed = DlManaged(1, 0, None, self.deleter, 0,
                                 DlpackTensor(values.ctypes.data, (1, 0), values.ndim, DlType(code, 8 * values.itemsize, 1),
                                              self.shape, None, 0))
        self.device = (1, 0)

    def delete(self, _):
        self.deleted += 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        return new_capsule(ctypes.addressof(self.managed), b"dltensor_versioned", None)


class Dlpack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = networks.doubled()

    def test_capsule_in(self):
        exporter = DlTensor(np.ones((2, 4), np.float32))
        self.assertEqual(self.engine(exporter).tolist(), [[2] * 4] * 2)
        self.assertEqual(exporter.deleted, 1)

    def test_byte_offset(self):
        exporter = DlTensor(np.arange(8, dtype=np.float32).reshape(2, 4))
        exporter.shape[0] = 1
        exporter.managed.tensor.offset = 16
        self.assertEqual(self.engine(exporter).tolist(), [[8, 10, 12, 14]])

    def test_hostile(self):
        spoil = {
            "ndim -1": lambda e: setattr(e.managed.tensor, "ndim", -1),
            "ndim 9": lambda e: setattr(e.managed.tensor, "ndim", 9),
            "no shape": lambda e: setattr(e.managed.tensor, "shape", None),
            "a negative dim": lambda e: e.shape.__setitem__(0, -2),
            "a huge dim": lambda e: e.shape.__setitem__(0, 2**62),
            "no data": lambda e: setattr(e.managed.tensor, "data", None),
            "lanes": lambda e: setattr(e.managed.tensor.dtype, "lanes", 4),
            "4 bits": lambda e: setattr(e.managed.tensor.dtype, "bits", 4),
            "24 bits": lambda e: setattr(e.managed.tensor.dtype, "bits", 24),
            "a complex type": lambda e: setattr(e.managed.tensor.dtype, "code", 5),
            "another device": lambda e: e.managed.tensor.device.__setitem__(0, 8),
            "a GPU": lambda e: e.managed.tensor.device.__setitem__(0, 2),
            "version 2": lambda e: setattr(e.managed, "major", 2),
        }
        for name, change in spoil.items():
            exporter = DlTensor(np.ones((2, 4), np.float32))
            change(exporter)
            with self.subTest(name), self.assertRaises(ingot.InvalidArgument):
                self.engine(exporter)
            self.assertEqual(exporter.deleted, 1, name)

    def test_odd_protocols(self):
        class Odd:
            def __init__(self, device, capsule):
                self.device, self.capsule = device, capsule

            def __dlpack_device__(self):
                return self.device

            def __dlpack__(self, **_):
                return self.capsule

        for device, capsule in [("cpu", None), ((1,), None), ((1, 0), None), ((1, 0), 3), ((1, 0), object())]:
            with self.assertRaises((ingot.InvalidArgument, TypeError)):
                self.engine(Odd(device, capsule))

    def test_old_protocol(self):
        class Old:  # before max_version
            def __init__(self, tensor):
                self.tensor = tensor

            def __dlpack__(self, stream=None):
                return self.tensor.__dlpack__()

            def __dlpack_device__(self):
                return self.tensor.__dlpack_device__()

        y = self.engine.session()(memoryview(np.ones((1, 4), np.float32)))
        self.assertEqual(self.engine(Old(y)).tolist(), [[4] * 4])

    def test_out(self):
        y = self.engine(memoryview(np.ones((2, 4), np.float32)))
        self.assertEqual(y.__dlpack_device__(), (1, 0))
        np.testing.assert_array_equal(np.from_dlpack(y), np.full((2, 4), 2))
        for kwargs in ({}, {"max_version": (1, 0)}, {"max_version": (0, 8)}, {"copy": True}, {"dl_device": (1, 0)}):
            self.assertIn("dltensor", repr(y.__dlpack__(**kwargs)))
        for kwargs in ({"stream": 1}, {"stream": 0}, {"dl_device": (2, 0)}):
            with self.assertRaises(BufferError):
                y.__dlpack__(**kwargs)
        with self.assertRaises(TypeError):
            y.__dlpack__(max_version=3)

    def test_capsules_do_not_leak(self):
        y = self.engine(memoryview(np.ones((2, 4), np.float32)))
        before = sys.getrefcount(y)
        y.__dlpack__(), y.__dlpack__(max_version=(1, 1)), np.from_dlpack(y)
        gc.collect()
        self.assertEqual(sys.getrefcount(y), before)


class Results(unittest.TestCase):
    def test_held_results_stay(self):
        session = networks.doubled().session()
        held, expected = [], []
        for i in range(20):
            x = np.full((3, 4), i, np.float32)
            y = session(x)
            if i % 3:
                held.append(y[1:] if i % 2 else y)  # views keep their base
                expected.append(2 * i)
        del session
        for y, value in zip(held, expected):
            self.assertTrue((y == value).all())

    def test_buffers_are_used_again(self):
        session = networks.doubled().session()
        x = np.ones((3, 4), np.float32)
        addresses = {session(x).ctypes.data for _ in range(20)}
        self.assertLessEqual(len(addresses), 2)

    def test_protocols(self):
        y = networks.doubled()(memoryview(np.ones((1, 4), np.float32)))
        self.assertEqual((y.shape, y.dtype, y.device, y.nbytes), ((1, 4), "f32", "cpu", 16))
        self.assertEqual(np.asarray(y).tolist(), [[2] * 4])
        self.assertEqual(np.array(y, dtype=np.int32).dtype, np.int32)
        self.assertEqual(memoryview(y).tolist(), [[2] * 4])
        self.assertTrue(np.shares_memory(y.numpy(), np.asarray(y)))
        self.assertIn("f32(1, 4)", repr(y))
        with self.assertRaises(ValueError):
            y.item()

    def test_arrays(self):
        """Arrays over results, and over memory that may not be written."""
        y = networks.doubled()(np.ones((2, 4), np.float32))
        self.assertTrue(y.flags.c_contiguous and y.flags.aligned and y.flags.writeable and not y.flags.owndata)
        self.assertEqual((y.shape, y.strides, y.dtype), ((2, 4), (16, 4), np.float32))
        shown = ingot.as_tensor(memoryview(b"abc")).numpy()
        self.assertEqual((shown.tolist(), shown.flags.writeable), ([97, 98, 99], False))

    def test_types_cannot_be_made(self):
        for kind in (ingot.Tensor, ingot.Session, ingot.Engine, ingot.Run, ingot.Value):
            with self.assertRaises(TypeError):
                kind()

    def test_references(self):
        engine = networks.sum_and_difference()
        session = engine.session()
        a, b = np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)
        session(a, b)
        counts = [sys.getrefcount(o) for o in (a, b, session, engine)]
        for _ in range(500):
            session(a, b), session(a, b=b), engine(a, b)
            for bad in ((a,), (a, None), (a, a[:1])):
                try:
                    session(*bad)
                except (ValueError, TypeError, ingot.Error):
                    pass
        del bad
        after = [sys.getrefcount(o) for o in (a, b, session, engine)]
        self.assertEqual(after, counts)

    def test_inputs_are_let_go(self):
        class Array(np.ndarray):  # which weak references can point to
            pass

        session = networks.doubled().session()
        x = np.ones((1, 4), np.float32).view(Array)
        session(x)
        session.bind([x])
        gone = weakref.ref(x)
        del x
        self.assertIsNotNone(gone())
        session.unbind()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
