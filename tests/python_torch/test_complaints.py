"""
What users of Torch-TensorRT have complained about, by the numbers of its issues and pull requests (pytorch/TensorRT), as far as a
machine without a GPU can try it. A docstring says where a complaint is about more than that.
"""

import os
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import ingot
import ingot.torch
import torch
from helpers import TestCase


class Difference(torch.nn.Module):
    def forward(self, a, b):
        return a - b


class DifferenceTurned(torch.nn.Module):
    def forward(self, a, b):
        return b - a


def layers(n=6, width=16):
    return torch.nn.Sequential(*[x for _ in range(n) for x in (torch.nn.Linear(width, width), torch.nn.ReLU())]).eval()


def export(module, *args, rows=None, **options):
    """An engine; with `rows`, the largest number of them, of any number."""
    shapes = ({0: torch.export.Dim("n", min=1, max=rows)},) if rows else None
    return ingot.torch.export(module, args, dynamic_shapes=shapes, **options)


def state(module):
    return {name: tensor.detach().contiguous() for name, tensor in module.state_dict().items()}


class EngineCache(TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_key_has_edges_attributes_and_shapes(self):
        """Its key hashes names of operators, without edges, attributes or the weights' shapes."""
        x, y = torch.randn(3, 4), torch.randn(3, 4)
        pairs = [((Difference(), DifferenceTurned()), (x, y)),
                 ((torch.nn.LeakyReLU(0.1), torch.nn.LeakyReLU(0.3)), (x,)),
                 ((torch.nn.Softmax(0), torch.nn.Softmax(1)), (x,)),
                 ((torch.nn.Linear(4, 3), torch.nn.Linear(4, 5)), (x,))]  # fmt: skip
        for modules, args in pairs:
            for module in modules * 2:
                with self.subTest(module=module), torch.no_grad():
                    self.assert_same(export(module, *args, cache=self.folder)(*args), module(*args))

    def test_2674_equal_layers_are_built_once(self):
        report = export(layers(), torch.randn(2, 16)).report
        self.assertLess(report["kernels_compiled"], 3)
        self.assertEqual(report["regions"], 6)

    def test_3249_a_hit_builds_nothing(self):
        """A hit took longer than a build. Here the compiler is not called, and the engine has the same bytes; docs/reuse.md has
        the times."""
        module, x = layers(), torch.randn(2, 16)
        engines = [export(module, x, cache=self.folder) for _ in range(2)]
        self.assertEqual(engines[1].report["kernels_compiled"], 0)
        self.assertTrue(engines[1].report["structure_cached"])
        self.assertEqual(engines[0].tobytes(), engines[1].tobytes())

    def test_eviction_keeps_the_bound_and_never_refuses(self):
        cache = ingot.Cache(self.folder, max_bytes=20_000)
        for width in range(4, 12):
            module, x = layers(2, width), torch.randn(2, width)
            with torch.no_grad():
                self.assert_same(export(module, x, cache=cache)(x), module(x))
        self.assertLessEqual(cache.info()["bytes"], 20_000 * 17 // 16)
        self.assertGreater(cache.info()["entries"], 0)


class Refit(TestCase):
    def test_3255_engines_without_weights(self):
        """Stripped engines gave zeros after a refit. Here they refuse to run before."""
        module, x = layers(), torch.randn(2, 16)
        engine = export(module, x, strip_weights=True)
        with self.assertRaises(ingot.BadEngine):
            engine(x)
        engine.refit(state(module))
        with torch.no_grad():
            self.assert_same(engine(x), module(x))

    def test_3437_results_of_a_refit(self):
        """To the bit those of a build with these weights."""
        a, b, x = layers(), layers(), torch.randn(2, 16)
        engine = export(a, x)
        engine.refit(state(b))
        self.assertTrue(torch.equal(engine(x), export(b, x)(x)))

    def test_3586_saved_after_a_refit(self):
        a, b, x = layers(), layers(), torch.randn(2, 16)
        with tempfile.TemporaryDirectory() as folder:
            path, fresh = os.path.join(folder, "a.ingot"), os.path.join(folder, "b.ingot")
            export(a, x, path=path)
            export(b, x, path=fresh)
            ingot.refit_file(path, state(b), path)
            with open(path, "rb") as one, open(fresh, "rb") as other:
                self.assertEqual(one.read(), other.read())

    def test_4342_only_what_changed(self):
        """A refit set all weights, also for an adapter that touches one of them."""
        module, x = layers(8), torch.randn(2, 16)
        engine = export(module, x)
        self.assertEqual(engine.refit(state(layers(8)))["weights"], 16)
        engine.refit(state(module))
        with torch.no_grad():
            module[4].weight.mul_(1.5)
        info = engine.refit({"4.weight": module[4].weight.detach()}, partial=True)
        self.assertEqual((info["changed"], info["unchanged"], info["weights"]), (1, 0, 1))
        with torch.no_grad():
            self.assert_same(engine(x), module(x))


class Outputs(TestCase):
    def test_3275_buffers_are_used_again(self):
        """It kept buffers for the last shapes alone. Results that nobody holds are written again, for shapes that alternate too."""
        session = export(layers(1), torch.randn(2, 16), rows=64).session(threads=1)
        addresses = {session(torch.randn(rows, 16)).data_ptr() for rows in [2, 64, 7] * 10}
        self.assertLessEqual(len(addresses), 3)

    def test_3276_results_that_are_held_stay(self):
        """Views of what a call computed, too."""

        def f(x):
            y = (x * 2).relu()
            return y, y.t(), y[1], y.sum(0)

        call, held = self.compiled(f, dynamic=True), []
        with torch.no_grad():
            for rows in (3, 5, 3, 5, 4):
                x = torch.randn(rows, 4)
                held.append((call(x), f(x)))
            for got, expected in held:
                self.assert_same(got, expected)


class Graphs(TestCase):
    def test_3792_alternating_shapes(self):
        """Each change of shapes recorded its CUDA graph again. A session keeps a plan for each shape (on a GPU with its graph:
        tests/runtime/cuda_run_test.c)."""
        session = export(layers(2), torch.randn(2, 16), rows=64).session(threads=1)
        for rows in (2, 64, 2, 64):
            session(torch.randn(rows, 16))
        before = session.plans()
        for rows in (2, 64) * 8:
            session(torch.randn(rows, 16))
        self.assertEqual(session.plans()["misses"], before["misses"])

    def test_3310_threads(self):
        """Wrong results where threads shared an engine, which then got a lock. Here a module's calls follow each other, and calls of
        an engine run side by side."""
        module = layers(3)
        engine = export(module, torch.randn(2, 16), rows=64)
        call, wrong = self.compiled(module, dynamic=True), []
        with torch.no_grad():
            call(torch.randn(5, 16))

        def work(seed):
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for rows in range(2, 30):
                    x = torch.randn(rows, 16, generator=generator)
                    for got in (engine(x), call(x)):
                        if not torch.allclose(got, module(x), 1e-4, 1e-4):
                            wrong.append((seed, rows))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_3755_graph_breaks(self):
        """Zeros came out where a graph broke (with CUDA graphs, which are the GPU's part of it)."""

        def f(x):
            y = (x @ x).relu() + 1
            torch._dynamo.graph_break()
            return (y * 2).tanh() @ x

        x = torch.randn(4, 4)
        with torch.no_grad():
            call = self.compiled(f, fullgraph=False)
            for _ in range(3):
                self.assert_same(call(x), f(x))


class Memory(TestCase):
    def test_4503_memory_for_the_shapes_at_hand(self):
        """Workspaces were made for the largest shapes, and four times too large."""
        session = export(layers(4, 64), torch.randn(2, 64), rows=4096).session(threads=1)
        session(torch.randn(2, 64))
        memory = session.memory()
        self.assertGreater(memory["lower_bound_bytes"], 0)
        self.assertLessEqual(memory["arena_bytes"] + memory["scratch_bytes"], 2 * memory["lower_bound_bytes"])
        self.assertLessEqual(memory["lower_bound_bytes"], 2 * 2 * 64 * 4)

    def test_2326_3966_563_engines_share_activations(self):
        arena = ingot.Arena()
        sessions = [export(layers(4, 64), torch.randn(256, 64)).session(arena=arena, threads=1) for _ in range(3)]
        sizes = []
        for session in sessions:
            session(torch.randn(256, 64))
            sizes.append(arena.info()["bytes"])
        self.assertGreater(sizes[0], 0)
        self.assertEqual(sizes, sizes[:1] * 3)


class Partition(TestCase):
    def test_2098_no_engines_of_single_operators(self):
        """Over 130 blocks were slower than eager PyTorch. Operators that stand alone between others that are not supported make no
        engines, and the report says so."""

        def f(x):
            for _ in range(20):
                x = x.cumsum(0) + 1
            return x

        x, outside = torch.randn(3), {"exclude": ("aten.cumsum.default",)}
        report = ingot.torch.report(f, (x,), options=outside)
        self.assertEqual((report.graphs[0].engines, len(report.outside)), (0, 40))
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assert_same(self.compiled(f, strict=False, **outside)(x), f(x))

    def test_3525_saved(self):
        """Results of torch.compile could not be saved. aot_compile's can (test_artifacts.py), and ingot.torch.export makes of the same
        module one file that runs where there is no PyTorch."""
        module, x = layers(2), torch.ones(1, 16)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            path = os.path.join(folder, "net.ingot")
            export(module, x, path=path)
            script = (f"import ingot, sys; y = ingot.load({path!r})(memoryview(b'\\0\\0\\x80\\x3f' * 16).cast('f', (1, 16)))\n"
                      "assert 'torch' not in sys.modules; print(y.tolist()[0])")  # fmt: skip
            found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
            self.assert_same(torch.tensor([eval(found)]), module(x))


class SeveralGpus(TestCase):
    def test_4380_4388_4464_collectives(self):
        """Collectives were ignored where there was no communicator, or mixed up. Ingot has none: they run in PyTorch, and are
        reported."""
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        functional = torch.distributed._functional_collectives

        def f(x):
            y = functional.all_reduce((x * 2).relu() + 1, "sum", torch.distributed.group.WORLD)
            return (y + 1).tanh() * 2

        x = torch.randn(4)
        report = ingot.torch.report(f, (x,))
        self.assertTrue(any("all_reduce" in outside.operator for outside in report.outside))
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assert_same(self.compiled(f, strict=False)(x), f(x))


if __name__ == "__main__":
    unittest.main()
