"""Weights that engines read in the module's memory, and the bytes of those that they have beside it."""

import contextlib
import gc
import threading
import unittest
import unittest.mock
import weakref

import ingot
import torch
from helpers import TestCase, engines
from ingot.torch import artifacts


class Net(torch.nn.Module):
    """On the CPU, engines read all but the linear layer's weight as it is."""

    def __init__(self, words=500):
        super().__init__()
        self.words = torch.nn.Embedding(words, 64)
        self.norm = torch.nn.LayerNorm(64)
        self.dense = torch.nn.Linear(64, 24)

    def forward(self, ids):
        return self.dense(self.norm(self.words(ids)))


def bytes_of(*tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


@contextlib.contextmanager
def full_engines():
    """Beside each engine that is built, one that has its weights: a list of these."""
    found, build = [], artifacts.build

    def both(model, artifacts=False, **options):
        found.append(ingot.compile(model, **{k: v for k, v in options.items() if k != "strip_weights"}))
        return build(model, artifacts, **options)

    with unittest.mock.patch.object(artifacts, "build", both):
        yield found


class Weights(TestCase):
    def setUp(self):
        super().setUp()
        self.known = engines()
        self.net, self.ids = Net().eval(), torch.arange(0, 490, 7)
        self.enterContext(torch.no_grad())

    def engine(self):
        found = engines(self.known)
        self.assertEqual(len(found), 1)
        return found[0]

    @contextlib.contextmanager
    def refits(self, count):
        """Within it, so many refits of the engine make weights."""
        engine, made = self.engine(), []
        library = engine.engine

        class Counting:
            def __getattr__(self, name):
                return getattr(library, name)

            def __call__(self, *args):
                return library(*args)

            def refit(self, *args, **kwargs):
                info = library.refit(*args, **kwargs)
                made.append(info)
                return info

        engine.engine = Counting()
        yield
        engine.engine = library
        self.assertEqual(len(made), count)

    def test_growth(self):
        call = self.compiled(self.net)
        self.assert_same(call(self.ids), self.net(self.ids))
        dense = bytes_of(self.net.dense.weight)
        engine = self.engine()
        self.assertEqual(engine.memory["borrowed_bytes"], bytes_of(*self.net.parameters()) - dense)
        self.assertLessEqual(engine.memory["owned_bytes"], dense * 32 // 24)  # whole panels
        names = {name for name, _ in self.net.named_parameters()}
        self.assertEqual({name.rsplit(".", 1)[0] for name in engine.in_place}, {"words", "norm", "dense"})
        self.assertEqual(engine.in_place, names - {"dense.weight"})

    def test_growth_at_most_two_per_cent(self):
        net, ids = Net(5000).eval(), self.ids
        call = self.compiled(net)
        self.assert_same(call(ids), net(ids))
        self.assertLess(self.engine().memory["owned_bytes"], 0.02 * bytes_of(*net.parameters()))

    def test_same_bits_as_of_an_engine_with_weights(self):
        with full_engines() as full:
            y = self.compiled(self.net)(self.ids)
        self.assertEqual(len(full), 1)
        self.assertTrue(torch.equal(y, full[0](self.ids)))

    def test_written_in_place(self):
        call = self.compiled(self.net)
        call(self.ids)
        with self.refits(0):
            self.net.words.weight.add_(torch.randn(500, 64))
            self.net.norm.bias.add_(1)
            self.assert_same(call(self.ids), self.net(self.ids))
        with self.refits(1):
            self.net.dense.weight.mul_(2)
            self.assert_same(call(self.ids), self.net(self.ids))

    def test_written_unseen(self):
        """Writes that PyTorch does not count are seen where the engine reads the memory itself."""
        call = self.compiled(self.net)
        call(self.ids)
        self.net.words.weight.data += torch.randn(500, 64)
        with self.refits(0):
            self.assert_same(call(self.ids), self.net(self.ids))

    def test_load_state_dict(self):
        call = self.compiled(self.net)
        call(self.ids)
        for assign in (False, True):
            other = Net().eval()
            with self.refits(1):
                self.net.load_state_dict(other.state_dict(), assign=assign)
                self.assert_same(call(self.ids), other(self.ids))
        self.assertEqual(self.engine().memory["borrowed_bytes"], bytes_of(*self.net.parameters()) - 64 * 24 * 4)

    def test_replaced(self):
        call = self.compiled(self.net)
        call(self.ids)
        gone = weakref.ref(self.net.words.weight.untyped_storage())
        address = self.net.words.weight.data_ptr()
        self.net.words.weight.data = torch.randn(500, 64)
        self.assertNotEqual(self.net.words.weight.data_ptr(), address)
        self.assert_same(call(self.ids), self.net(self.ids))
        gc.collect()
        self.assertIsNone(gone())  # nothing keeps what no run reads any more
        self.net.words.weight = torch.nn.Parameter(torch.randn(500, 64))
        self.assert_same(call(self.ids), self.net(self.ids))

    def test_optimiser_steps(self):
        call = self.compiled(self.net)
        call(self.ids)
        optimiser = torch.optim.SGD(self.net.parameters(), lr=0.5)
        for _ in range(3):
            with torch.enable_grad():
                self.net(self.ids).square().mean().backward()
            optimiser.step()
            optimiser.zero_grad()
            with self.refits(1):
                self.assert_same(call(self.ids), self.net(self.ids))

    def test_changes_with_every_call(self):
        """What is read in place costs nothing to change, and does not become an input."""
        call = self.compiled(self.net)
        call(self.ids)
        engine = self.engine()
        with self.refits(0):
            for _ in range(40):
                self.net.words.weight.normal_()
                self.assert_same(call(self.ids), self.net(self.ids))
        self.assertEqual([e for e in engines(self.known) if e.weights], [engine])
        self.assertEqual(len(engine.weights), 5)

    def test_views_and_transposes(self):
        """Weights that lie in memory in other ways: in another order, read in place or not; with gaps, copied."""
        net = self.net
        net.words.weight = torch.nn.Parameter(torch.randn(500, 128)[:, :64])
        net.norm.weight = torch.nn.Parameter(torch.randn(65)[1:])
        net.dense.weight = torch.nn.Parameter(torch.randn(64, 24).t())
        call = self.compiled(net)
        for _ in range(3):
            self.assert_same(call(self.ids), net(self.ids))
            for p in net.parameters():
                p.add_(torch.randn_like(p))

    def test_channels_last(self):
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 1)).eval()
        x = torch.randn(2, 3, 9, 9)
        for memory_format in (torch.channels_last, torch.contiguous_format):
            net, x = net.to(memory_format=memory_format), x.to(memory_format=memory_format)
            torch._dynamo.reset()
            call = self.compiled(net)
            self.assert_same(call(x), net(x))
            net[0].weight.mul_(2)
            self.assert_same(call(x), net(x))

    def test_the_module_is_gone(self):
        """The compiled function keeps the memory that it reads."""
        net = self.net
        function = self.compiled(lambda ids: torch.nn.functional.embedding(ids, net.words.weight) * 2 + 1)
        expected = net.words(self.ids) * 2 + 1
        self.assert_same(function(self.ids), expected)

    def test_threads(self):
        """Weights that others replace while threads call: each result is of some weights, and nobody reads freed memory."""
        call = self.compiled(self.net)
        call(self.ids)
        wrong = []

        def work():
            with torch.no_grad():
                for _ in range(40):
                    y = call(torch.zeros(7, dtype=torch.int64))
                    if not torch.isfinite(y).all():
                        wrong.append(y)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.net.words.weight.data = torch.randn(500, 64)
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assert_same(call(self.ids), self.net(self.ids))


if __name__ == "__main__":
    unittest.main()
