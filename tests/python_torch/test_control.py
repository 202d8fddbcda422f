"""Control flow that graphs hold: cond, while_loop, map, scan."""

import unittest
import warnings

import ingot.torch
import torch
from helpers import TestCase
from torch._higher_order_ops.map import map as over_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop


class Gated(torch.nn.Module):
    """Takes one of two layers, by the values of the input."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        def both(x):
            y = self.second(x)
            return y.relu(), y.mean(0)

        return torch.cond(x.sum() > 0, lambda x: (self.first(x).tanh(), x.sum(0)), both, (x,))


class Newton(torch.nn.Module):
    """Square roots by Newton's method, until they are near, with a branch in each step."""

    def forward(self, x):
        def going(step, y):
            return ((y * y - x).abs().max() > 1e-4).logical_and(step < 50)

        def body(step, y):
            y = torch.cond(step % 2 == 0, lambda y: (y + x / y) / 2, lambda y: (x / y + y) * 0.5, (y,))
            return step + 1, y

        return while_loop(going, body, (torch.tensor(0), x.clone()))


class Rows(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 3))

    def forward(self, x):
        return over_rows(lambda row, w: (row @ w).relu() + torch.tensor([1.0, 2.0, 3.0]), x, self.weight)


class Smooth(torch.nn.Module):
    def forward(self, x):
        return scan(lambda kept, row: (kept * 0.5 + row, (kept - row).sin()), torch.zeros(4), x)


class Control(TestCase):
    def check_sizes(self, module, make, sizes):
        """One engine each, with fixed sizes and with symbols."""
        for dynamic in (False, True):
            with self.subTest(dynamic=dynamic), torch.no_grad():
                torch._dynamo.reset()
                call = self.compiled(module, dynamic=dynamic)
                for size in sizes if dynamic else sizes[:1]:
                    x = make(size)
                    self.assert_same(call(x), module(x))

    def test_cond(self):
        module, x = Gated().eval(), torch.rand(3, 4)
        call = self.check(module, x)
        with torch.no_grad():
            self.assert_same(call(-x), module(-x))
        for sign in (1, -1):
            self.check_sizes(module, lambda n: sign * torch.rand(n, 4), (3, 5, 2))

    def test_while_loop(self):
        self.check_sizes(Newton(), lambda n: torch.rand(n) + 0.5, (3, 5, 2))

    def test_no_step(self):
        self.check(Newton(), torch.ones(3))

    def test_map(self):
        self.check_sizes(Rows().eval(), lambda n: torch.randn(n, 2, 4), (3, 5, 2))

    def test_scan(self):
        self.check_sizes(Smooth(), lambda n: torch.randn(n, 4), (3, 5, 2))

    def test_outside(self):
        """A branch with an operator that has no translation: all of it is outside, and says which."""

        def f(x):
            y = (x * 2).relu() + 1
            return torch.cond(y.sum() > 0, lambda y: torch.special.airy_ai(y), lambda y: y + 1, (y,))

        x = torch.randn(3)
        with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assert_same(self.compiled(f, strict=False)(x), f(x))
        text = "".join(str(w.message) for w in caught)
        self.assertIn("cond: in its body: aten.special_airy_ai.default: not implemented", text)

    def test_export(self):
        module, x = Gated().eval(), torch.rand(3, 4)
        engine = ingot.torch.export(module, (x,))
        with torch.no_grad():
            for given in (x, -x):
                self.assert_same(engine(given), module(given))


if __name__ == "__main__":
    unittest.main()
