"""torch.compile(backend="ingot"): fallback, mutation, aliasing, dynamic shapes, weights, training."""

import unittest
import unittest.mock
import warnings

import ingot.torch
import torch
import torch._inductor.config
from helpers import TestCase, engines
from ingot.torch.program import _addresses


class Counting(torch.nn.Module):
    """Writes to a buffer as a cache does."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("cache", torch.zeros(6, 4))

    def forward(self, x, at):
        self.cache.index_copy_(0, at, self.layer(x))
        return self.cache.sum(0)


class Fallback(TestCase):
    def test_tells_operator_reason_and_line(self):
        def f(x):
            y = torch.special.airy_ai(x)  # the line to be told
            return (y + 1).relu() * 2

        x = torch.randn(3)
        with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assert_same(self.compiled(f, strict=False)(x), f(x))
        text = "".join(str(w.message) for w in caught if issubclass(w.category, ingot.torch.FallbackWarning))
        for part in ("aten.special_airy_ai.default", "not implemented", "test_compile.py", "the line to be told"):
            self.assertIn(part, text)

    def test_strict_raises(self):
        with torch.no_grad(), self.assertRaises(Exception) as caught:
            self.compiled(torch.special.airy_ai)(torch.randn(3))
        self.assertIn("special_airy_ai", str(caught.exception))

    def test_parts_before_between_and_after(self):
        def f(x, y):
            a = (x * 2 + y).relu() @ y
            b = torch.special.airy_ai(a) + torch.special.airy_ai(y)
            c = (b.t() * 3 - a).sigmoid()
            return c.flip(0), a.t(), torch.special.airy_ai(c)

        x, y = torch.randn(4, 4), torch.randn(4, 4)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assert_same(self.compiled(f, strict=False)(x, y), f(x, y))

    def test_excluded_operators(self):
        plans = []

        def f(x):
            return (x.relu() + 1).tanh().cumsum(0)

        x = torch.randn(3)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call = self.compiled(f, strict=False, exclude=("aten.cumsum.default",), on_plan=plans.append)
            self.assert_same(call(x), f(x))
        self.assertEqual([o.operator for o in plans[0].outside], ["aten.cumsum.default"])

    def test_unknown_option(self):
        with torch.no_grad(), self.assertRaisesRegex(Exception, "no option 'precison'"):
            self.compiled(torch.relu, precison="fp16")(torch.randn(3))

    def test_values_decide_sizes(self):
        def f(x):
            return (torch.nonzero(x > 0).float() * 2 + 1).sum(0)

        x = torch.randn(9)
        with (
            torch.no_grad(),
            warnings.catch_warnings(),
            torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        ):
            warnings.simplefilter("ignore")
            call = self.compiled(f, strict=False)
            for _ in range(3):
                x = torch.randn(9)
                self.assert_same(call(x), f(x))


class State(TestCase):
    def test_buffers_are_written(self):
        a, b = Counting(), Counting()
        b.load_state_dict(a.state_dict())
        with torch.no_grad():
            call = self.compiled(a)
            for at in ([0, 1], [2, 3], [1, 5]):
                x, at = torch.randn(2, 4), torch.tensor(at)
                self.assert_same(call(x, at), b(x, at))
                self.assert_same(a.cache, b.cache)

    def test_caches_are_written_in_place(self):
        module, known = Counting(), engines()
        with torch.no_grad():
            self.compiled(module)(torch.randn(2, 4), torch.tensor([0, 1]))
        (engine,) = engines(known)
        self.assertEqual(list(engine.engine.updates.values()), [n.name for n in engine.updated])

    def test_inputs_are_written(self):
        def f(x, y):
            x.add_(1)
            y[0] = x.sum()
            return x * y

        x, y = torch.randn(3), torch.randn(3)
        x2, y2 = x.clone(), y.clone()
        with torch.no_grad():
            self.assert_same(self.compiled(f)(x, y), f(x2, y2))
        self.assert_same((x, y), (x2, y2))

    def test_results_that_are_inputs_and_views(self):
        def f(x, y):
            z = x + y
            return x, x.t(), z, z.t(), z[0], y.view(-1)

        x, y = torch.randn(3, 4), torch.randn(3, 4)
        with torch.no_grad():
            actual, expected = self.compiled(f)(x, y), f(x, y)
        self.assert_same(actual, expected)
        self.assertIs(actual[0], x)
        self.assertEqual(actual[1].data_ptr(), x.data_ptr())
        self.assertEqual([a.stride() for a in actual], [e.stride() for e in expected])
        self.assertEqual(actual[2].data_ptr(), actual[4].data_ptr())

    def test_threads(self):
        x = torch.randn(300, 40)
        with torch.no_grad():
            call = self.compiled(lambda x: (x @ x.T).relu(), threads=1)
            first = call(x)
            self.assert_same(call(x), first)

    def test_results_stay_after_the_next_call(self):
        call = self.check(lambda x: x * 2, torch.ones(3))
        with torch.no_grad():
            first = call(torch.ones(3))
            call(torch.zeros(3))
        self.assert_same(first, torch.full((3,), 2.0))

    def test_operands_in_any_layout(self):
        def f(x):
            return x.relu() + 1

        for x in (torch.randn(4, 6).t(), torch.randn(4, 6)[:, ::2], torch.randn(1, 6).expand(3, 6)):
            torch._dynamo.reset()
            self.check(f, x)
        image = torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last)
        call = self.check(torch.nn.Conv2d(3, 4, 3).eval(), image)
        with torch.no_grad():
            self.assertTrue(call(image).is_contiguous(memory_format=torch.channels_last))

    def test_weights_where_inductor_would_freeze_them(self):
        known, x = engines(), torch.randn(3, 4)
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)).eval()
        with torch._inductor.config.patch(freezing=True):
            call = self.check(module, x)
            (engine,) = engines(known)
            self.assertEqual((len(engine.weights), len(engine.arguments)), (8, 1))
            with torch.no_grad():
                module[0].weight.mul_(2)
                self.assert_same(call(x), module(x))

    def test_weights_written_and_replaced(self):
        known = engines()
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()
        x = torch.randn(3, 4)
        call = self.check(module, x)
        with torch.no_grad():
            module[0].weight.mul_(2)
            self.assert_same(call(x), module(x))
            module.load_state_dict({k: v + 1 for k, v in module.state_dict().items()})
            self.assert_same(call(x), module(x))
            (engine,) = engines(known)
            self.assertIn("0.weight", [info.name for info in engine.engine.initializers])
            del engine
            module[2].weight = torch.nn.Parameter(torch.randn(2, 4))
            self.assert_same(call(x), module(x))

    def test_weights_written_unseen(self):
        """Other data are seen, writes to `.data` as PyTorch counts them: not, unless it is told."""
        module, x = torch.nn.Linear(4, 3).eval(), torch.randn(2, 4)
        call = self.check(module, x)
        with torch.no_grad():
            module.weight.data = torch.randn(3, 4)
            self.assert_same(call(x), module(x))
            module.weight.data.mul_(2)
            torch.autograd.graph.increment_version(module.parameters())
            self.assert_same(call(x), module(x))

    def test_training_steps_between_calls(self):
        module, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        call = self.compiled(module)
        with unittest.mock.patch("ingot.torch.program._MOST_CHANGES", 4):  # then weights are inputs
            for step in range(6):
                module(x).square().sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                with torch.no_grad():
                    self.assert_same(call(x), module(x))

    def test_watch(self):
        for addresses in ((), _addresses()[:1], _addresses()):
            tensors = [torch.nn.Parameter(torch.randn(3)) for _ in range(5)]
            with torch.inference_mode():
                tensors.append(torch.randn(3))  # has no version
            watch = ingot._ingot._Watch([0, 2, 4, 5], torch.Tensor._version, *addresses)
            self.assertEqual(watch.changed(tensors), [0, 2, 4, 5])
            watch.accept(tensors)
            self.assertIsNone(watch.changed(tensors))
            with torch.no_grad():
                tensors[1].add_(1)
                tensors[2].add_(1)
            self.assertEqual(watch.changed(tensors), [2])
            tensors[0] = tensors[4]
            tensors[5] = tensors[1]
            self.assertEqual(watch.changed(tensors), [0, 2, 5])
            watch.accept(tensors)
            tensors[4].data = torch.randn(3)
            self.assertEqual(watch.changed(tensors), [0, 4] if addresses else None)
            watch.accept(tensors)
            torch.utils.swap_tensors(tensors[2], torch.nn.Parameter(torch.randn(3)))
            self.assertEqual(watch.changed(tensors), [2])
            with self.assertRaises(IndexError):
                watch.changed(tensors[:2])

    def test_watch_reads_quickly(self):
        """This PyTorch has the functions by which weights are watched in nanoseconds; without them it takes longer."""
        self.assertNotIn(0, _addresses())

    def test_tied_weights(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = torch.nn.Embedding(10, 4)
                self.head = torch.nn.Linear(4, 10, bias=False)
                self.head.weight = self.embed.weight

            def forward(self, i):
                return self.head(self.embed(i))

        self.check(Tied().eval(), torch.tensor([1, 2, 3]))


class Adapted(torch.nn.Module):
    """A linear layer with low-rank adapters, as PEFT has it: base_layer, lora_A and lora_B by name, one of which is active."""

    def __init__(self, base, names, rank=2):
        super().__init__()
        self.base_layer, self.active, self.scaling = base, [], 0.5
        self.lora_A, self.lora_B = torch.nn.ModuleDict(), torch.nn.ModuleDict()
        for name in names:
            self.lora_A[name] = torch.nn.Linear(base.in_features, rank, bias=False)
            self.lora_B[name] = torch.nn.Linear(rank, base.out_features, bias=False)
        self.original = None

    def forward(self, x):
        y = self.base_layer(x)
        for name in self.active if self.original is None else ():
            y = y + self.lora_B[name](self.lora_A[name](x)) * self.scaling
        return y

    def merge(self, name):
        """Writes through `.data`, as PEFT does."""
        self.unmerge()
        self.original = self.base_layer.weight.data.clone()
        self.base_layer.weight.data += self.lora_B[name].weight.data @ self.lora_A[name].weight.data * self.scaling

    def unmerge(self):
        if self.original is not None:
            self.base_layer.weight.data.copy_(self.original)
        self.original = None


class Adapters(TestCase):
    """Adapters applied, swapped, taken off: what came back is what was there, to the bit."""

    def setUp(self):
        super().setUp()
        first, second = (Adapted(torch.nn.Linear(8, 8), ("a", "b")) for _ in range(2))
        self.module, self.layers = torch.nn.Sequential(first, torch.nn.GELU(), second).eval(), (first, second)
        self.x = torch.randn(3, 8)
        self.plans = []
        self.call = self.compiled(self.module, on_plan=self.plans.append)

    def results(self, switch):
        found = {}
        with torch.no_grad():
            for name in (None, "a", "b", "a", None, "b"):
                switch(name)
                y = self.call(self.x)
                self.assert_same(y, self.module(self.x))
                self.assertTrue(torch.equal(y, found.setdefault(name, y)))
        self.assertFalse(torch.equal(found["a"], found["b"]) or torch.equal(found["a"], found[None]))

    def test_active_ones(self):
        def switch(name):
            for layer in self.layers:
                layer.active = [name] if name else []

        self.results(switch)
        self.assertEqual(len(self.plans), 3)  # none, a, b

    def test_merged_ones(self):
        def switch(name):
            for layer in self.layers:
                layer.merge(name) if name else layer.unmerge()
            torch.autograd.graph.increment_version(self.module.parameters())

        self.results(switch)
        self.assertLessEqual(len(self.plans), 2)  # with an original to return to, and without

    def test_loaded_ones(self):
        """One adapter whose weights are replaced by another's, as servers do."""
        weights = {
            name: {k: torch.randn_like(v) for k, v in self.module.state_dict().items() if ".a." in k} for name in "ab"
        }

        def switch(name):
            for layer in self.layers:
                layer.active = ["a"] if name else []
            if name:
                self.module.load_state_dict(weights[name], strict=False)

        self.results(switch)
        self.assertEqual(len(self.plans), 2)


class Training(TestCase):
    def test_gradients_in_eager(self):
        module, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = self.compiled(module, strict=False)(x)
        self.assertTrue(any("gradients" in str(w.message) for w in caught))
        y.sum().backward()
        self.assert_same(module.bias.grad, torch.full((2,), 4.0))

    def test_batch_statistics(self):
        a, b = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
        x = torch.randn(5, 3)
        with torch.no_grad():
            self.assert_same(self.compiled(a)(x), b(x))
        self.assert_same(a.running_var, b.running_var)


class Shapes(TestCase):
    def test_one_engine_for_all_sizes(self):
        plans = []
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)).eval()
        with torch.no_grad():
            call = self.compiled(module, dynamic=True, on_plan=plans.append)
            for batch in (2, 3, 5, 17, 4):
                x = torch.randn(batch, 4)
                self.assert_same(call(x), module(x))
        self.assertEqual(len(plans), 1)

    def test_sizes_that_change(self):
        plans = []

        def f(x):
            y = x.reshape(x.shape[0] // 2, 2, -1).transpose(0, 1)
            return torch.cat([y, y[:, :1]], 1), x[1:-1], x.sum() / x.shape[1], torch.arange(x.shape[0]) + 1, x.mean(0)

        with torch.no_grad():
            call = self.compiled(f, on_plan=plans.append)
            for rows, columns in ((4, 6), (6, 6), (8, 10), (10, 3)):
                x = torch.randn(rows, columns)
                self.assert_same(call(x), f(x))
        self.assertLessEqual(len(plans), 3)

    def test_numbers_as_arguments(self):
        def f(x, n):
            return x[:n] * n + torch.ones(n, 1)

        with torch.no_grad():
            call = self.compiled(f, dynamic=True)
            for n in (2, 3, 5):
                x = torch.randn(8, 4)
                self.assert_same(call(x, n), f(x, n))

    def test_dynamic_attention(self):
        layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
        with torch.no_grad():
            call = self.compiled(layer, dynamic=True)
            for batch, time in ((2, 5), (3, 9), (4, 2)):
                x = torch.randn(batch, time, 16)
                self.assert_same(call(x), layer(x))

    def test_fallback_with_dynamic_sizes(self):
        def f(x):
            y = torch.special.airy_ai((x * 2).relu() + 1)
            return (y + x.shape[0]).reshape(-1).tanh() * 2

        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call = self.compiled(f, dynamic=True, strict=False)
            for rows in (3, 5):
                x = torch.randn(rows, 4)
                self.assert_same(call(x), f(x))


class Report(TestCase):
    def test_outside_and_seams(self):
        def f(x):
            y = torch.special.airy_ai((x + 1).relu() * 2)
            return (y - 1).tanh().sum(0)

        report = ingot.torch.report(f, (torch.randn(3, 4),))
        self.assertFalse(report.is_whole)
        (outside,) = report.outside
        self.assertEqual(outside.operator, "aten.special_airy_ai.default")
        self.assertIn("test_compile.py", outside.source)
        self.assertEqual(report.graphs[0].engines, 2)
        self.assertEqual(report.graphs[0].seam_bytes, 2 * 3 * 4 * 4)
        self.assertIn("airy_ai", str(report))

    def test_whole(self):
        self.assertTrue(ingot.torch.report(torch.nn.Linear(3, 2), (torch.randn(1, 3),)).is_whole)


if __name__ == "__main__":
    unittest.main()
