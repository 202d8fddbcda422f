"""ingot.torch.export: engines that need no PyTorch."""

import os
import tempfile
import unittest

import ingot
import ingot.torch
import torch
from helpers import TestCase, tensors


class Export(TestCase):
    def check_export(self, module, args, kwargs=None, dynamic_shapes=None, more=()):
        engine = ingot.torch.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
        for given in (args, *more):
            with torch.no_grad():
                expected = tensors(module(*given, **(kwargs or {})))
            results = engine(*given, *(kwargs or {}).values())
            results = results if isinstance(results, (list, tuple)) else [results]
            self.assert_same([torch.from_dlpack(r) for r in results], expected)
        return engine

    def test_classifier(self):
        module = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(), torch.nn.Linear(8, 4),
        ).eval()  # fmt: skip
        batch = {0: torch.export.Dim("batch", min=1, max=64)}
        more = [(torch.randn(n, 3, 8, 8),) for n in (1, 7)]
        engine = self.check_export(module, (torch.randn(2, 3, 8, 8),), dynamic_shapes=(batch,), more=more)
        self.assertEqual([(s.name, s.lo, s.hi) for s in engine.symbols], [("batch", 1, 64)])

    def test_recurrent(self):
        for kind in (torch.nn.LSTM, torch.nn.GRU):
            for bidirectional in (False, True):
                with self.subTest(kind=kind.__name__, bidirectional=bidirectional):
                    module = kind(5, 6, 2, batch_first=True, bidirectional=bidirectional).eval()
                    self.check_export(module, (torch.randn(3, 4, 5),))

    def test_attention_in_windows(self):
        class Windows(torch.nn.Module):
            def forward(self, x, mask):
                y = torch.nn.functional.scaled_dot_product_attention(x, x + 1, x)
                return y + torch.nn.functional.scaled_dot_product_attention(x, y, x, attn_mask=mask)

        mask = torch.rand(5, 5) > 0.3
        mask[:, 0] = True
        self.check_export(Windows(), (torch.randn(2, 3, 4, 5, 6), mask))
        self.check_export(Windows(), (torch.randn(2, 2, 3, 4, 5, 6), mask))

    def test_buffers_become_inputs(self):
        class Counting(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("cache", torch.zeros(6, 4))

            def forward(self, x, at):
                self.cache.index_copy_(0, at, x * 2)
                return self.cache.sum(0)

        module, cache = Counting(), torch.zeros(6, 4)
        engine = ingot.torch.export(module, (torch.randn(2, 4), torch.tensor([0, 1])))
        self.assertEqual([info.name for info in engine.inputs], ["x", "at", "cache"])
        for at in ([0, 1], [2, 1]):
            x, at = torch.randn(2, 4), torch.tensor(at)
            y = engine(x, at, cache)[0]
            self.assert_same(y, module(x, at))
            self.assert_same(cache, module.cache)

    def test_program_and_file(self):
        module, x = torch.nn.Linear(4, 3).eval(), torch.randn(2, 4)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "linear.ingot")
            ingot.torch.export(torch.export.export(module, (x,)), path=path)
            self.assertGreater(os.path.getsize(path), 0)

    def test_refuses_what_would_fall_back(self):
        class Bessel(torch.nn.Module):
            def forward(self, x):
                return torch.special.airy_ai(x)

        with self.assertRaisesRegex(ingot.torch.Fallback, "special_airy_ai"):
            ingot.torch.export(Bessel(), (torch.randn(3),))


if __name__ == "__main__":
    unittest.main()
