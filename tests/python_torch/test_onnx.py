"""Two ways from a module to an engine, by ATen's operators and by PyTorch's ONNX export, and eager PyTorch: all three agree."""

import importlib.util
import os
import sys
import tempfile
import unittest
from unittest import mock

import ingot
import ingot.torch
import torch
from helpers import TestCase, tensors
from torch import nn
from torch.nn import functional as F


class Convolutions(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(),
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Hardswish(), nn.Conv2d(8, 16, 1), nn.MaxPool2d(3, 2, 1),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
        )  # fmt: skip


class Upsampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.ConvTranspose2d(6, 4, 4, stride=2, padding=1)
        self.norm = nn.GroupNorm(2, 6)

    def forward(self, x):
        y = F.silu(self.norm(self.down(x)))
        big = F.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        return torch.cat([self.up(y), big, F.interpolate(y, scale_factor=2.0, mode="nearest")], dim=1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        return self.out(y.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(40, 16), nn.Embedding(12, 16)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, activation="gelu", batch_first=True) for _ in range(2)
        )

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return x.mean(1), x[:, 0].softmax(-1)


class Gated(nn.Module):
    """A decoder's block: root-mean-square norm, rotary places, a gate."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(16))
        self.gate, self.up, self.down = nn.Linear(16, 24, bias=False), nn.Linear(16, 24, bias=False), nn.Linear(24, 16)

    def forward(self, x, cos, sin):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        left, right = y.chunk(2, dim=-1)
        y = y * cos + torch.cat([-right, left], dim=-1) * sin
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Indexing(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(10, 6))

    def forward(self, x, at):
        rows = self.table[at]
        picked = torch.gather(x, 1, at[:, None].expand(-1, x.shape[1]) % x.shape[1])
        spread = torch.zeros(4, 6).scatter_add(0, at[:, None].expand(-1, 6) % 4, rows)
        return picked, spread, x[:, ::2].flip(1), torch.where(x > 0, x, -2 * x)


class Sorting(nn.Module):
    def forward(self, x):
        values, places = torch.topk(x, 3, dim=-1)
        return values, places, x.argmax(-1), x.sort(dim=-1, descending=True).values, torch.cumsum(x, 1)


class Statistics(nn.Module):
    def forward(self, x):
        return (
            x.var(dim=(1, 2)), x.std(-1, unbiased=False), x.logsumexp(-1), x.amax((0, 2)), x.norm(dim=1), x.prod(-1),
            torch.log_softmax(x, 1), x.abs().sum(), x.clamp(-0.5, 0.5).mean((0, 1)),
        )  # fmt: skip


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = nn.Parameter(torch.randn(4, 5, 6))

    def forward(self, a, b):
        joined = torch.einsum("bij,bjk->bik", a, b)
        return joined, torch.einsum("bi,ijk,bk->bj", a[:, 0, :4], self.core, b[:, 0]), torch.baddbmm(joined, a, b, alpha=0.5)


class Whole(nn.Module):
    """Integers, booleans and types in between."""

    def forward(self, x, n):
        near = (x * 4).round().to(torch.int64)
        return near // 3, near % n, (near > n) & (x < 1), torch.bitwise_xor(near, n), near.to(torch.float16) * 0.5


class Padding(nn.Module):
    def forward(self, x):
        return F.pad(x, (1, 2, 0, 1), value=0.5), F.pad(x, (2, 1, 1, 1), mode="reflect"), F.avg_pool2d(x, 2), F.unfold(x, 2)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(5, 6, batch_first=True, bidirectional=True), nn.GRU(12, 4, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return *self.gru(y), h, c


class Perceptron(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 20), nn.GELU(approximate="tanh"), nn.LayerNorm(20), nn.Linear(20, 3), nn.Tanh())


def modules():
    """Name, module, arguments, and dynamic shapes with further arguments, or None."""
    batch = torch.export.Dim("batch", min=1, max=16)
    yield "convolutions", Convolutions(), (torch.randn(2, 3, 20, 20),), None
    yield "upsampling", Upsampling(), (torch.randn(1, 3, 12, 12),), None
    yield "attention", Attention(), (torch.randn(2, 7, 16), torch.rand(2, 7) > 0.2), None
    yield "encoder", Encoder(), (torch.randint(0, 40, (2, 9)),), None
    yield "gated", Gated(), (torch.randn(2, 5, 16), torch.randn(5, 16), torch.randn(5, 16)), None
    yield "indexing", Indexing(), (torch.randn(5, 6), torch.tensor([1, 0, 9, 3, 3])), None
    yield "sorting", Sorting(), (torch.randn(4, 9),), None
    yield "statistics", Statistics(), (torch.randn(3, 4, 5),), None
    yield "products", Products(), (torch.randn(2, 3, 4), torch.randn(2, 4, 6)), None
    yield "whole", Whole(), (torch.randn(4, 6), torch.tensor(3)), None
    yield "padding", Padding(), (torch.randn(1, 2, 6, 8),), None
    yield "recurrent", Recurrent(), (torch.randn(2, 4, 5),), None
    yield "a dynamic batch", Perceptron(), (torch.randn(3, 6),), (({0: batch},), [(torch.randn(n, 6),) for n in (1, 16)])


HAS_EXPORTER = importlib.util.find_spec("onnxscript") is not None


class TwoWays(TestCase):
    def results(self, engine, args):
        results = engine(*args)
        results = results if isinstance(results, (list, tuple)) else [results]
        return [torch.from_dlpack(r) for r in results]

    @unittest.skipUnless(HAS_EXPORTER, "torch.onnx.export needs the package onnxscript")
    def test_modules(self):
        for name, module, args, dynamic in modules():
            with self.subTest(name):
                shapes, more = dynamic or (None, [])
                program = torch.export.export(module.eval(), args, dynamic_shapes=shapes)
                engines = [ingot.torch.export(program, dynamic_shapes=shapes, via=via) for via in ("aten", "onnx")]
                for given in (args, *more):
                    with torch.no_grad():
                        expected = tensors(module(*given))
                    straight, by_onnx = (self.results(engine, given) for engine in engines)
                    self.assert_same(straight, expected)
                    self.assert_same(by_onnx, expected)
                    self.assert_same(by_onnx, straight)

    @unittest.skipUnless(HAS_EXPORTER, "torch.onnx.export needs the package onnxscript")
    def test_names_and_ranges(self):
        module, x = Perceptron().eval(), torch.randn(3, 6)
        shapes = ({0: torch.export.Dim("batch", min=1, max=16)},)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "perceptron.ingot")
            ingot.torch.export(module, (x,), dynamic_shapes=shapes, via="onnx", path=path)
            engine = ingot.load(path)
            self.assertEqual([(s.name, s.lo, s.hi) for s in engine.symbols], [("batch", 1, 16)])
            weights = {name: tensor * 2 for name, tensor in module.state_dict().items()}
            engine.refit(weights)  # by the names of PyTorch's parameters
            module.load_state_dict(weights)
            with torch.no_grad():
                self.assert_same(self.results(engine, (x,)), module(x))
            engine = ingot.torch.export(module, (x,), dynamic_shapes=shapes, via="onnx", shapes={"batch": (2, 3, 4)})
            self.assertEqual([(s.lo, s.hi) for s in engine.symbols], [(2, 4)])

    @unittest.skipUnless(HAS_EXPORTER, "torch.onnx.export needs the package onnxscript")
    def test_written_buffers_are_refused(self):
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(3))

            def forward(self, x):
                self.count.add_(x)
                return self.count * 2

        with self.assertRaisesRegex(ingot.torch.Unsupported, "writes to count.*via='aten'"):
            ingot.torch.export(Counting(), (torch.ones(3),), via="onnx")

    def test_refusals(self):
        module, args = nn.Linear(3, 2).eval(), (torch.ones(1, 3),)
        with self.assertRaisesRegex(ValueError, "via is 'tflite', expected 'aten' or 'onnx'"):
            ingot.torch.export(module, args, via="tflite")
        with mock.patch.dict(sys.modules, {"onnxscript": None}):
            with self.assertRaisesRegex(ImportError, "pip install onnxscript"):
                ingot.torch.export(module, args, via="onnx")


if __name__ == "__main__":
    unittest.main()
