"""Engines, sessions and builds: files, threads, bindings, errors, weights."""

import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

import numpy as np

import ingot
import networks
from onnx_file import model, node

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


class Engines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_kinds_of_arrays(self):
        """Arrays whose fields are read directly, and those that need the long way."""
        session = networks.doubled().session()
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        read_only = x.copy()
        read_only.setflags(write=False)
        record = np.zeros(3, dtype=[("a", np.float32, 4), ("b", np.int8)])
        record["a"] = x
        for array in (x, x.view(np.matrix), read_only, x[::-1], np.asfortranarray(x), record["a"], x[:0], np.array(x, order="F").T.T):
            for _ in range(2):
                np.testing.assert_array_equal(session(array), 2 * np.asarray(array))
        for array in (x.astype(">f4"), x.astype(np.complex64), x.astype(object), x.astype("U4"), record):
            for _ in range(2):
                with self.assertRaises((ingot.InvalidArgument, ingot.Unsupported, TypeError, BufferError)):
                    session(array)
        np.testing.assert_array_equal(session(x), 2 * x)

    def test_onnx(self):
        engine = ingot.compile(DIGITS, shapes={"batch": (1, 1, 8)}, precision="fp32")
        self.assertEqual([(i.name, i.dtype, i.shape) for i in engine.inputs], [("image", "f32", ("batch", 1, 8, 8))])
        self.assertEqual(engine.symbols[0][:3], ("batch", 1, 8))
        image = np.random.default_rng(1).random((3, 1, 8, 8), np.float32)
        reference, = ingot.Model(DIGITS).evaluate(image)
        np.testing.assert_allclose(engine(image=image), reference, rtol=1e-4, atol=1e-6)
        with self.assertRaises(ingot.InvalidArgument):
            engine(np.zeros((9, 1, 8, 8), np.float32))
        self.assertGreater(len(engine.explanation()), 0)
        self.assertGreater(engine.report["regions"], 0)
        self.assertTrue(any(i.kind == "refittable" for i in engine.initializers))

    def test_ranks(self):
        """Threads that compute a run together, each its part of the network."""
        image = np.random.default_rng(1).random((5, 1, 8, 8), np.float32)
        reference, = ingot.Model(DIGITS).evaluate(image)
        path = self.folder / "ranks.ingot"
        for sharding in ("tensor", "batch", "pipeline"):
            engine = ingot.compile(DIGITS, path=path, ranks=[1, 3], sharding=sharding)
            np.testing.assert_allclose(engine(image=image), reference, rtol=1e-4, atol=1e-6)
            for ranks in (0, 1, 3):
                np.testing.assert_allclose(ingot.load(path, ranks=ranks)(image), reference, rtol=1e-4, atol=1e-6)
            with self.assertRaises(ingot.Incompatible):
                ingot.load(path, ranks=2)
        np.testing.assert_allclose(ingot.compile(DIGITS, ranks=2)(image), reference, rtol=1e-4, atol=1e-6)
        for wrong in ([2, 1], 0, 65):
            with self.assertRaises(ingot.InvalidArgument):
                ingot.compile(DIGITS, ranks=wrong)
        for wrong in ("two", [None], -1):
            with self.assertRaises((TypeError, OverflowError, ValueError)):
                ingot.compile(DIGITS, ranks=wrong)
        with self.assertRaises(ingot.InvalidArgument):
            ingot.compile(DIGITS, ranks=2, sharding="rows")

    def test_refit_of_ranks(self):
        """Parts that are copied together from stored weights follow them."""

        def network(seed):
            random = np.random.default_rng(seed)
            weights = {name: random.standard_normal(shape, np.float32) for name, shape in
                       (("w", (64, 256)), ("v", (256, 64)))}
            nodes = [node("MatMul", ["x", "w"], ["h"]), node("Tanh", ["h"], ["t"]), node("MatMul", ["t", "v"], ["y"])]
            return model(nodes, [("x", "float32", ["n", 64])], [("y", "float32", ["n", 64])], weights), weights

        x = np.random.default_rng(3).standard_normal((5, 64), np.float32)
        (first, old), (second, new) = network(1), network(2)
        for options in ({"sharding": "tensor", "shard_of": {"*": "auto"}}, {"sharding": "pipeline"}):
            engine, other = (ingot.compile(m, ranks=[1, 2, 4], **options) for m in (first, second))
            before = engine(x)
            self.assertFalse(np.array_equal(before, other(x)))
            for weights, expected in ((new, other(x)), (old, before), (new, other(x))):
                engine.refit(weights)
                np.testing.assert_array_equal(engine(x), expected)

    def test_ranks_of_pickled_engines(self):
        image = np.random.default_rng(2).random((1, 1, 8, 8), np.float32)
        expected = ingot.compile(DIGITS)(image)
        path = self.folder / "ranks.ingot"
        for ranks in (2, 3):
            engine = ingot.compile(DIGITS, path=path, ranks=ranks, sharding="tensor")
            again = pickle.loads(pickle.dumps(engine))
            session = ingot.load(path, ranks=ranks).session(threads=ranks)
            for _ in range(3):
                np.testing.assert_allclose(engine(image), expected, rtol=1e-4, atol=1e-6)
                np.testing.assert_array_equal(session(image), engine(image))
            np.testing.assert_array_equal(again(image), engine(image))
        with self.assertRaises(ingot.Incompatible):
            ingot.load(path, ranks=2)
        with self.assertRaises(ingot.Incompatible):
            ingot.load(path).session()
        with self.assertRaises(ingot.InvalidArgument):
            ingot.load(path, ranks=65)

    def test_ways_in(self):
        data = DIGITS.read_bytes()
        x = np.zeros((1, 1, 8, 8), np.float32)
        expected = ingot.compile(str(DIGITS))(x)

        class Proto:
            def SerializeToString(self):
                return data

        for source in (data, bytearray(data), Proto(), ingot.Model(DIGITS)):
            np.testing.assert_array_equal(ingot.compile(source)(x), expected)
        model = ingot.Model(DIGITS)
        self.assertIn("graph", model.text())
        self.assertEqual(model.metadata["version"] >= 0, True)

    def test_files(self):
        engine = networks.doubled()
        x = np.ones((1, 4), np.float32)
        path = self.folder / "a.ingot"
        engine.save(path)
        built = ingot.compile(DIGITS, path=self.folder / "b.ingot")
        self.assertEqual(os.path.getsize(self.folder / "b.ingot"), len(built.tobytes()))
        others = [ingot.load(path), ingot.load(str(path), verify="later"), ingot.load(engine.tobytes()),
                  ingot.load(memoryview(path.read_bytes())), pickle.loads(pickle.dumps(engine))]
        for other in others:
            self.assertEqual(other(x).tolist(), [[2] * 4])
            self.assertEqual(other.tobytes(), engine.tobytes())

    def test_errors(self):
        damaged = bytearray(networks.doubled().tobytes())
        damaged[len(damaged) // 2] ^= 1
        cases = [
            (lambda: ingot.load(self.folder / "none.ingot"), ingot.FileError, OSError),
            (lambda: ingot.load(b""), ingot.BadEngine, ValueError),
            (lambda: ingot.load(b"no engine at all" * 100), ingot.BadEngine, ValueError),
            (lambda: ingot.load(damaged), ingot.BadEngine, ingot.Error),
            (lambda: ingot.load(b"", verify="never"), ingot.InvalidArgument, ValueError),
            (lambda: ingot.load(3), TypeError, TypeError),
            (lambda: ingot.Model(b"\xff\xff\xff"), ingot.BadModel, ValueError),
            (lambda: ingot.Model(self.folder / "none.onnx"), ingot.FileError, OSError),
            (lambda: ingot.compile(DIGITS, target="pdp11"), ingot.InvalidArgument, ValueError),
            (lambda: ingot.compile(DIGITS, cc="/nonexistent/cc"), ingot.Toolchain, ingot.Error),
            (lambda: ingot.compile(DIGITS, shapes={"nothing": 3}), ingot.InvalidArgument, ValueError),
            (lambda: ingot.compile(DIGITS, shapes={"batch": (1, 2)}), ingot.InvalidArgument, ValueError),
            (lambda: ingot.compile(DIGITS, colour="red"), TypeError, TypeError),
            (lambda: ingot.compile(DIGITS, cache=3), TypeError, TypeError),
            (lambda: networks.doubled().session(stream=1), ingot.InvalidArgument, ValueError),
            (lambda: networks.doubled().session(arena=3), TypeError, TypeError),
        ]
        for number, (call, error, base) in enumerate(cases):
            with self.subTest(number), self.assertRaises(error) as caught:
                call()
            self.assertIsInstance(caught.exception, base)
        self.assertEqual(ingot.BadModel.status, "bad model")

    def test_import_is_light(self):
        """Nothing but the extension: whatever else there is comes when it is asked for."""
        code = ("import sys; before = set(sys.modules); import ingot; print(*sorted(set(sys.modules) - before)); "
                "assert callable(ingot.compile) and ingot.compile is ingot.compile and 'compile' in dir(ingot); "
                "from ingot import AsyncQueue, compile")  # fmt: skip
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertEqual(out.split(), ["ingot", "ingot._ingot"])

    def test_no_compiler(self):
        """The error says what to do."""
        script = ("import ingot, sys\ntry: ingot.compile(sys.argv[1])\nexcept ingot.Toolchain as error: print(error)")
        with tempfile.TemporaryDirectory() as empty:
            environment = {"PATH": empty, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
            found = subprocess.run([sys.executable, "-c", script, str(DIGITS)], env=environment, check=True,
                                   capture_output=True, text=True)
        self.assertRegex(found.stdout, r"no C compiler.*pip install 'libingot\[cc\]'|^$")  # nothing: ziglang is installed

    def test_callbacks(self):
        seen = []
        ingot.compile(DIGITS, progress=lambda what, done, total: seen.append((what, done, total)))
        self.assertTrue(seen)

        def fail(*_):
            raise KeyError("stop")

        with self.assertRaises(KeyError):
            ingot.compile(DIGITS, progress=fail)

    def test_cache(self):
        with ingot_cache(self.folder / "cache") as cache:
            first = ingot.compile(DIGITS, cache=cache)
            second = ingot.compile(DIGITS, cache=self.folder / "cache")
            self.assertGreater(first.report["kernels_compiled"], 0)
            self.assertTrue(second.report["structure_cached"])
            self.assertEqual(first.tobytes(), second.tobytes())
            self.assertGreater(cache.info()["entries"], 0)
            self.assertEqual(len(cache.list()), cache.info()["entries"])
            entries = cache.export_file(self.folder / "cache.file")
            self.assertEqual(entries, len(cache.list()))
            cache.prune(0)
            self.assertEqual(cache.list(), [])
            self.assertEqual(cache.import_file(self.folder / "cache.file"), (entries, entries))
            self.assertTrue(ingot.compile(DIGITS, cache=cache).report["structure_cached"])
            with self.assertRaises((ingot.Error, OSError)):
                cache.import_file(self.folder / "none")

    def test_refit(self):
        engine = networks.product(np.ones((4, 3), np.float32))
        x = np.ones((2, 4), np.float32)
        session = engine.session()
        before = session(x)
        info = engine.refit({"w": np.full((4, 3), 2, np.float32)})
        self.assertEqual(info["changed"], 1)
        self.assertEqual((before[0, 0], session(x)[0, 0]), (4, 8))
        with self.assertRaises(ingot.Unsupported):
            engine.save(self.folder / "x.ingot")
        for bad in ({}, {"v": x}, {"w": x}, {"w": 3}, {3: x}):
            with self.assertRaises((ingot.Error, TypeError)):
                engine.refit(bad)
        path = self.folder / "p.ingot"
        networks.product(np.ones((4, 3), np.float32)).save(path)
        ingot.refit_file(path, {"w": np.full((4, 3), 3, np.float32)}, path)
        self.assertEqual(ingot.load(path)(x)[0, 0], 12)

    def test_borrowed_weights(self):
        random = np.random.default_rng(1)
        weights = {"shift": random.random(64, np.float32), "dense": random.random((24, 64), np.float32)}
        engine = networks.shifted_product(weights, strip_weights=True)
        x = random.random((3, 64), np.float32)

        def expected():
            return networks.shifted_product(weights)(x)

        info = engine.refit(weights, borrow=True)
        self.assertEqual((info["borrowed"], info["borrowed_bytes"]), (1, 256))
        self.assertEqual(info["owned_bytes"], info["weight_bytes"])
        self.assertEqual({i.name: i.is_borrowed for i in engine.initializers}, {"shift": True, "dense": False})
        session, idle = engine.session(), engine.session()
        np.testing.assert_array_equal(session(x), expected())
        idle(x)
        weights["shift"] += 1
        np.testing.assert_array_equal(session(x), expected())
        weights["dense"] *= 2
        self.assertEqual(engine.refit(weights, borrow=True)["weights"], 1)
        np.testing.assert_array_equal(session(x), expected())

        # Memory that is read is kept, as long as it is: a session has the weights of its last run.
        gone = weakref.ref(weights["shift"])
        weights["shift"] = random.random(64, np.float32)
        engine.refit(weights, borrow=True)
        self.assertIsNotNone(gone())
        np.testing.assert_array_equal(session(x), expected())
        self.assertIsNotNone(gone())
        np.testing.assert_array_equal(idle(x), expected())
        self.assertIsNone(gone())
        gone = weakref.ref(weights["shift"])
        engine.refit(weights)
        wanted = expected()
        weights["shift"] = None
        self.assertIsNotNone(gone())
        np.testing.assert_array_equal(session(x), wanted)
        np.testing.assert_array_equal(idle(x), wanted)
        self.assertIsNone(gone())

    def test_borrowing_goes_wrong(self):
        weights = {"shift": np.ones(64, np.float32), "dense": np.ones((24, 64), np.float32)}
        engine = networks.shifted_product(weights)
        for bad in (np.ones((64, 2), np.float32)[:, 0], np.ones(32, np.float32), np.ones(64), None):
            with self.assertRaises((ingot.InvalidArgument, TypeError)):
                engine.refit({"shift": bad}, partial=True, borrow=True)
        with self.assertRaisesRegex(ingot.InvalidArgument, "a dict"):
            engine.refit(str(DIGITS), borrow=True)
        with self.assertRaises(TypeError):
            ingot.refit_file("x.ingot", weights, borrow=True)
        mine = weakref.ref(weights["shift"])
        engine.refit(weights, borrow=True)
        del weights
        x = np.ones((1, 64), np.float32)
        self.assertEqual(engine(x)[0, 0], 128)
        self.assertIsNotNone(mine())
        del engine
        self.assertIsNone(mine())


class ingot_cache:
    def __init__(self, folder):
        self.cache = ingot.Cache(folder)

    def __enter__(self):
        return self.cache

    def __exit__(self, *_):
        del self.cache


class Sessions(unittest.TestCase):
    def test_bound(self):
        engine = networks.sum_and_difference()
        session = engine.session(threads=1)
        a, b = np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)
        total, difference = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
        session.bind({"a": a, "b": b}, [total, difference])
        self.assertIsNone(session.run_bound())
        self.assertEqual((total[0, 0], difference[0, 0]), (2, 0))
        b[:] = 3
        other = session(a, a)  # a call in between has memory of its own
        session.run_bound()
        self.assertEqual((total[0, 0], difference[0, 0], other[0][0, 0]), (4, -2, 2))
        session.bind([a, b])
        self.assertEqual(session.run_bound()[1][0, 0], -2)
        session.unbind()
        with self.assertRaises(ingot.InvalidArgument):
            session.run_bound()

    def test_bound_refusals(self):
        session = networks.sum_and_difference().session()
        a = np.ones((2, 3), np.float32)
        read_only = np.ones((2, 3), np.float32)
        read_only.flags.writeable = False
        for inputs, outputs in [([a], None), ({"a": a, "c": a}, None), ([a, a], [a]), ([a, a.T.copy().T], None),
                                ([a, a], [a, read_only]), ([a, a], [a, a.astype(np.float64)]), ([a, a], [a, a[0]]),
                                ([a, a], [a, a[:, ::-1]]), ([a, None], None)]:
            with self.assertRaises((ingot.InvalidArgument, TypeError)):
                session.bind(inputs, outputs)
        small, fitting = np.zeros((1, 3), np.float32), np.zeros((2, 3), np.float32)
        for outputs in ([small, fitting], [np.zeros((5, 3), np.float32), fitting]):
            session.bind([a, a], outputs)
            with self.assertRaises(ingot.Error):
                session.run_bound()

    def test_enqueue(self):
        session = networks.doubled().session()
        runs = [session.enqueue(np.full((1, 4), i, np.float32)) for i in range(5)]
        self.assertEqual([run.result()[0, 0] for run in runs], [0, 2, 4, 6, 8])
        self.assertTrue(runs[0].done())
        runs[0].wait(timeout=0)
        with self.assertRaises(ingot.InvalidArgument):
            runs[0].wait(timeout=-1)

    def test_threads_on_one_engine(self):
        engine = networks.product(np.eye(64, dtype=np.float32))
        wrong = []

        def work(seed):
            x = np.full((5, 64), seed, np.float32)
            for _ in range(200):
                if (engine(x) != seed).any():
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(wrong, [])

    def test_the_lock_is_released(self):
        engine = networks.product(np.zeros((2048, 2048), np.float32))
        session = engine.session(threads=1)
        x, count, done = np.zeros((512, 2048), np.float32), [0], threading.Event()

        def run():
            for _ in range(10):
                session(x)
            done.set()

        threading.Thread(target=run).start()
        while not done.is_set():  # gets a turn while runs are under way
            count[0] += 1
            time.sleep(0)
        self.assertGreater(count[0], 100)

    def test_one_session_in_two_threads(self):
        session = networks.product(np.zeros((2048, 2048), np.float32)).session(threads=1)
        x, errors, stop = np.zeros((512, 2048), np.float32), [], threading.Event()

        def run():
            while not stop.is_set() and not errors:
                try:
                    session(x)
                except ingot.Error as error:
                    errors.append(str(error))

        threads = [threading.Thread(target=run) for _ in range(2)]
        [t.start() for t in threads]
        [t.join(60) for t in threads]
        stop.set()
        self.assertIn("another thread", errors[0])

    def test_what_it_tells(self):
        arena = ingot.Arena()
        session = networks.doubled().session(profile=True, arena=arena, threads=1)
        session(np.ones((2, 4), np.float32))
        profile = session.profile()
        self.assertGreater(sum(row.calls for row in profile), 0)
        self.assertIn(profile[0].kernel, str(profile).splitlines()[1])
        self.assertIn("<td>" + profile[0].kernel + "</td>", profile._repr_html_())
        explanation = networks.doubled().explanation()
        self.assertEqual(explanation["precision"], "fp32")
        self.assertIn(f"<td>{explanation['kernels'][0]['name']}</td>", explanation._repr_html_())
        self.assertGreaterEqual(session.memory()["arena_bytes"], 0)
        self.assertEqual(session.plans()["instances"], 1)
        self.assertEqual(arena.info()["sessions"], 1)
        with self.assertRaises(ingot.Unsupported):
            session.timing()
        session.set_batch("n", [4, 8])
        self.assertEqual(session(np.ones((3, 4), np.float32)).shape, (3, 4))
        self.assertEqual(session.batch()["computed_rows"], 4)
        session.set_batch(None)
        session.set_time_limit(100)
        session.cancel()
        session.wait()
        session.trim()
        arena.trim()

    def test_prepare(self):
        session = networks.sum_and_difference().session()
        x = np.ones((5, 3), np.float32)
        for number, inputs in enumerate((
            [(8, 3), (8, 3)], {"b": [4, 3], "a": (4, 3)}, [x, (5, 3)], iter([(6, 3), x[[0] * 6]]),
            [x[:2], np.ones((2, 6), np.float32)[:, ::2]],
        ), 1):  # fmt: skip
            session.prepare(inputs, background=number % 2 == 0)
            session.prepare_wait()
            self.assertEqual(session.plans()["instances"], number)
        session.prepare([(8, 3), (8, 3)])
        self.assertEqual(session.plans()["instances"], 5)
        held = session(x, x)  # what was prepared serves runs, and runs that are over are left alone
        self.assertEqual(session.plans()["misses"], 5)
        session.prepare([(9, 3), (9, 3)], True)
        np.testing.assert_array_equal(held[0], 2 * x)
        np.testing.assert_array_equal(session(x[:4], x[:4])[1], 0 * x[:4])
        session.prepare_wait()

    def test_prepare_with_bound_tensors(self):
        session = networks.sum_and_difference().session()
        x, outputs = np.ones((5, 3), np.float32), [np.zeros((5, 3), np.float32) for _ in range(2)]
        session.bind([x, x], outputs)
        session.run_bound()
        session.prepare([(4, 3), (4, 3)])
        outputs[0][:] = 0
        session.run_bound()
        np.testing.assert_array_equal(outputs[0], 2 * x)

    def test_prepare_sizes(self):
        """Inputs whose elements are sizes must be given as tensors."""
        net = ingot.Network()
        net.size_input("size", "m")
        x = net.input("x", "f32", ["n"])
        net.output("y", net.add("broadcast", x, dims=["m", "n"]))
        session = ingot.compile(net).session()
        session.prepare([np.array(3), (4,)])
        self.assertEqual(session(np.array(3), np.ones(4, np.float32)).shape, (3, 4))
        self.assertEqual(session.plans()["misses"], 1)
        with self.assertRaisesRegex(ingot.InvalidArgument, "'size' holds sizes"):
            session.prepare([(), (4,)])

    def test_prepare_refusals(self):
        session = networks.sum_and_difference().session()
        for error, message, inputs, keywords in (
            (ingot.InvalidArgument, "1 inputs are given, the engine has 2", [(4, 3)], {}),
            (ingot.InvalidArgument, "input 'b' is missing", {"a": (4, 3), "c": (4, 3)}, {}),
            (ingot.InvalidArgument, "input 'b': the shape has the dim -1", [(4, 3), (-1, 3)], {}),
            (ingot.InvalidArgument, "input 'a': the shape has 9 dims", [(1,) * 9, (4, 3)], {}),
            (ingot.InvalidArgument, "'a'", [(4, 5), (4, 3)], {}),
            (ingot.InvalidArgument, "'b'", [(4, 3), (5, 3)], {}),
            (ingot.InvalidArgument, "'a'", [np.ones((4, 3)), (4, 3)], {}),
            (ingot.InvalidArgument, "device is 'tpu'", [(4, 3), (4, 3)], {"device": "tpu"}),
            (ingot.InvalidArgument, "the engine is for the CPU", [(4, 3), (4, 3)], {"device": "cuda"}),
            (TypeError, "input 'a'", [5, (4, 3)], {}),
            (TypeError, "", [("4", 3), (4, 3)], {}),
            (TypeError, "", 5, {}),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                session.prepare(inputs, **keywords)
        self.assertEqual(session.plans()["instances"], 0)
        np.testing.assert_array_equal(session(*[np.ones((2, 3), np.float32)] * 2)[0], 2)

    def test_queue(self):
        engine, results = networks.doubled(), []
        with ingot.AsyncQueue(engine, sessions=3, callback=lambda y, user: results.append((user, y[0, 0]))) as jobs:
            futures = [jobs.submit(np.full((1, 4), i, np.float32), user=i) for i in range(50)]
        self.assertEqual(sorted(results), [(i, 2 * i) for i in range(50)])
        self.assertEqual(futures[7].result()[0, 0], 14)
        with self.assertRaises(ValueError), ingot.AsyncQueue(engine) as jobs:
            jobs.submit()


if __name__ == "__main__":
    unittest.main()
