"""ingot.Network."""

import gc
import unittest
import weakref

import numpy as np

import ingot


class Networks(unittest.TestCase):
    def test_values(self):
        net = ingot.Network()
        x = net.input("x", "f32", ["batch", 3, "2*n+1"])
        self.assertEqual((x.shape, x.dtype, x.rank), (("batch", 3, "2*n+1"), "f32", 3))
        self.assertIsInstance(x.dtype, ingot.DType)
        self.assertIs(x.network, net)

    def test_constants(self):
        for value, dtype, expected in [(2, None, 2), (2.5, None, 2.5), (True, None, True), (3, "f16", 3), (1.5, "bf16", 0x3FC0),
                                       (-1, "i8", -1), (2, ingot.dtype("u64"), 2), (np.arange(3), None, [0, 1, 2])]:
            net = ingot.Network()
            constant = net.constant(value, dtype)
            net.output("y", constant)
            if dtype:
                self.assertEqual(constant.dtype, dtype)
            y, = net.finish().evaluate()
            got = np.frombuffer(y, np.uint16)[0] if dtype == "bf16" else y.numpy().tolist()
            self.assertEqual(got, expected)
        net = ingot.Network()
        for value, dtype in [(300, "i8"), (-1, "u8"), (1.5, "i32"), ([1], None), (np.ones(2), "f32"), (1, "f31")]:
            with self.assertRaises((ingot.InvalidArgument, TypeError)):
                net.constant(value, dtype)

    def test_attributes(self):
        net = ingot.Network()
        x = net.input("x", "f32", ["n", 6])
        y = net.add("reshape", x, dims=["n", 2, 3])
        y = net.add("transpose", y, perm=[0, 2, 1])
        y = net.add("cast", y, to=ingot.dtype("f64"))
        a, b = net.add("Split", y, outputs=2, axis=2, num_outputs=2)
        c = net.add("LeakyRelu", net.add("Cast", b, to=ingot.dtype("f32")), alpha=0.5)
        net.output("a", a)
        net.output("c", c)
        model = net.finish()
        x = np.arange(-6, 6, dtype=np.float32).reshape(2, 6)
        expected = x.reshape(2, 2, 3).transpose(0, 2, 1)
        a, c = ingot.compile(model)(x)
        np.testing.assert_array_equal(a, expected[:, :, :1].astype(np.float64))
        np.testing.assert_array_equal(c, np.where(expected < 0, expected / 2, expected)[:, :, 1:])

    def test_optional_inputs(self):
        net = ingot.Network()
        x = net.input("x", "f32", [4])
        net.output("y", net.add("Clip", x, None, net.constant(1.0)))
        y = ingot.compile(net)(np.array([-2, 0, 1, 2], np.float32))
        self.assertEqual(y.tolist(), [-2, 0, 1, 1])

    def test_ranges_and_sizes(self):
        net = ingot.Network()
        x = net.input("x", "f32", ["n"])
        net.set_range("n", 2, 5)
        size = net.size_input("length", "m")
        net.output("y", net.add("broadcast", net.add("reduce_sum", x, axes=[0]), dims=["m"]))
        self.assertEqual((size.dtype, size.shape), ("i64", ()))
        engine = ingot.compile(net)
        y = engine(np.ones(3, np.float32), np.array(2, np.int64))
        self.assertEqual(y.tolist(), [3, 3])
        with self.assertRaises(ingot.Error):
            engine(np.ones(6, np.float32), np.array(2, np.int64))

    def test_types_of_inputs_and_outputs(self):
        def network():
            net = ingot.Network()
            x, state, n = net.input("x", "f32", ["n", 4]), net.input("state", "f32", [4]), net.input("count", "i32", [])
            weight = net.weight("weight", np.arange(16, dtype=np.float32).reshape(4, 4) / 16)
            y = net.add("add", net.add("matmul", x, weight), net.add("cast", n, to=ingot.dtype("f32")))
            net.output("y", y)
            net.output("same", x)
            net.update("next", state, net.add("add", state, state))
            return net

        x, state = np.array([[1, -2, 3, 0.1], [np.inf, 0, np.nan, 65504]], np.float16), np.full(4, 0.3, np.float16)
        plain = ingot.compile(network())
        given = ingot.compile(network(), io_types={"*": "fp16", "same": "fp32"})
        self.assertEqual([str(port.dtype) for port in given.inputs], ["f16", "f16", "i32"])
        self.assertEqual([str(port.dtype) for port in given.outputs], ["f16", "f32", "f16"])
        wide = state.astype(np.float32)
        expected = [plain(x.astype(np.float32), wide, np.int32(7))[0].astype(np.float16)]
        for weight in (None, np.full((4, 4), 0.5, np.float32)):
            if weight is not None:
                for engine in (plain, given):
                    engine.refit({"weight": weight})
                expected = [plain(x.astype(np.float32), wide, np.int32(7))[0].astype(np.float16)]
            before = state.copy()
            y, same, _ = given(x, state, np.int32(7))
            np.testing.assert_array_equal(y, expected[0])
            np.testing.assert_array_equal(same, x.astype(np.float32))
            np.testing.assert_array_equal(state, before + before)
        with self.assertRaisesRegex(ingot.InvalidArgument, "output 'next' is stored in the memory of input 'state'"):
            ingot.compile(network(), io_types={"state": "bf16"})
        with self.assertRaisesRegex(ingot.InvalidArgument, "'count=fp16': the model has no such input or output of floats"):
            ingot.compile(network(), io_types=["count=fp16"])

    def test_updates(self):
        net = ingot.Network()
        state, x = net.input("state", "f32", [3]), net.input("x", "f32", [3])
        net.update("next", state, net.add("add", state, x))
        net.output("y", net.add("neg", x))
        engine = ingot.compile(net)
        self.assertEqual(engine.updates, {"next": "state"})
        memory, x = np.zeros(3, np.float32), np.ones(3, np.float32)
        for _ in range(3):
            y, following = engine(memory, x)  # those that update come last
            self.assertIs(following, memory)
        self.assertEqual((memory[0], y[0]), (3, -1))
        session = engine.session()
        session.bind([memory, x], [y])
        session.run_bound()
        self.assertEqual(memory[0], 4)
        frozen = np.zeros(3, np.float32)
        frozen.flags.writeable = False
        for bad in (frozen, np.zeros(6, np.float32)[::2]):
            with self.assertRaises(ingot.InvalidArgument):
                engine(bad, x)

    def test_weights_are_kept(self):
        class Array(np.ndarray):
            pass

        weight = np.full((2, 2), 3, np.float32).view(Array)
        gone = weakref.ref(weight)
        net = ingot.Network()
        net.output("y", net.add("matmul", net.input("x", "f32", ["n", 2]), net.weight("w", weight)))
        del weight
        model = net.finish()
        del net
        gc.collect()
        self.assertIsNotNone(gone())
        engine = ingot.compile(model)
        del model
        gc.collect()
        self.assertIsNone(gone())  # the engine has packed weights of its own
        self.assertEqual(engine(np.ones((1, 2), np.float32)).tolist(), [[6, 6]])

    def test_errors(self):
        net, other = ingot.Network(), ingot.Network()
        x, foreign = net.input("x", "f32", [3, 4]), other.input("x", "f32", [3])
        cases = [
            (lambda: net.add("matmul", x, x, label="layer7", source="net.py:12"), ingot.BadModel, "layer7.*net.py:12"),
            (lambda: net.add("no_such", x), ingot.Unsupported, "no_such"),
            (lambda: net.add("NoSuch", x), ingot.Unsupported, "NoSuch"),
            (lambda: net.add("neg", foreign), ingot.InvalidArgument, "another network"),
            (lambda: net.add("neg", 3), TypeError, "Value"),
            (lambda: net.add(3, x), TypeError, "name"),
            (lambda: net.add("neg", x, outputs=0), ingot.InvalidArgument, "outputs"),
            (lambda: net.add("neg", x, colour=object()), TypeError, ""),
            (lambda: net.add("neg", x, label=3), TypeError, "label"),
            (lambda: net.input("x", "f32", [3]), ingot.Error, "x"),
            (lambda: net.input("z", "f31", [3]), ingot.InvalidArgument, "f31"),
            (lambda: net.input("z", "f32", ["2*"]), ingot.Error, ""),
            (lambda: net.input("z", "f32", 3), TypeError, ""),
            (lambda: net.weight("w", [1, 2]), TypeError, ""),
            (lambda: net.output("y", None), TypeError, ""),
            (lambda: net.finish(), ingot.InvalidArgument, "output"),
            (lambda: ingot.Network(onnx_opset=-3), ingot.Error, ""),
        ]
        for number, (call, error, message) in enumerate(cases):
            with self.subTest(number), self.assertRaisesRegex(error, message):
                call()
        net.output("y", net.add("neg", x))  # as it was
        model = net.finish()
        for call in (lambda: net.finish(), lambda: net.add("neg", x), lambda: x.shape, lambda: net.body()):
            with self.assertRaisesRegex(ingot.InvalidArgument, "finished"):
                call()
        self.assertIn("Value", repr(x))
        self.assertEqual(model.evaluate(np.ones((3, 4), np.float32))[0].tolist()[0][0], -1)

    def test_bodies(self):
        net = ingot.Network()
        condition, x = net.input("condition", "bool", []), net.input("x", "f32", [2])
        bodies = []
        for op in ("neg", "abs"):
            body = net.body()
            body.output("y", body.add(op, body.input("x", "f32", [2])))
            bodies.append(body)
        y = net.add("if", condition, x, **{"then": bodies[0], "else": bodies[1]})
        net.output("y", y)
        engine = ingot.compile(net)
        x = np.array([1, -2], np.float32)
        self.assertEqual(engine(np.array(True), x).tolist(), [-1, 2])
        self.assertEqual(engine(np.array(False), x).tolist(), [1, 2])


if __name__ == "__main__":
    unittest.main()
