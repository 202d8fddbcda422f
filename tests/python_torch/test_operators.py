"""Where PyTorch's operators have rules of their own: promotion, rounding, NaN, empty tensors, no dimensions."""

import itertools
import math
import unittest

import torch
import torch.nn.functional as F
from helpers import TestCase

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 2.5, 7.0, math.inf, -math.inf, math.nan, 1e3, -1e-3]


class Elementwise(TestCase):
    def test_promotion(self):
        values = [
            torch.tensor([1, 2, 3], dtype=torch.int32),
            torch.tensor([True, False, True]),
            torch.tensor([0.5, 1.5, -2.5]),
            torch.tensor([1, 0, 250], dtype=torch.uint8),
            torch.tensor(2),
            torch.tensor(0.5, dtype=torch.float64),
            torch.tensor([1.0, 2.0, 3.0], dtype=torch.float16),
        ]

        def f(*xs):
            return [op(a, b) for op in (torch.add, torch.mul, torch.eq, torch.maximum) for a in xs for b in xs]

        self.check(f, *values)

    def test_numbers(self):
        x, i = torch.tensor([1.5, -2.0, 0.0]), torch.tensor([7, -7, 3])

        def f(x, i):
            return (
                x + 1,
                i + 1.5,
                i * True,
                2 - x,
                i / 2,
                i // 2,
                i % -3,
                x // 0.7,
                x % -0.7,
                2 ** i.abs(),
                x**2,
                i**2,
                i > 1.5,
            )

        self.check(f, x, i)

    def test_special_values(self):
        x = torch.tensor(SPECIAL)
        a = torch.tensor([p for p, _ in itertools.product(SPECIAL, SPECIAL)])
        b = torch.tensor([q for _, q in itertools.product(SPECIAL, SPECIAL)])

        def f(x, a, b):
            one = [x.sign(), x.round(), x.trunc(), x.relu(), x.sigmoid(), x.tanh(), x.isnan(), x.isinf(), x.abs()]
            one += [F.silu(x), F.softplus(x), F.elu(x), x.expm1(), x.clamp(-1, 1), x.nan_to_num(), x.signbit()]
            two = [torch.maximum(a, b), torch.fmax(a, b), torch.minimum(a, b), torch.fmod(a, b)]
            two += [
                torch.remainder(a, b),
                torch.div(a, b, rounding_mode="floor"),
                torch.div(a, b, rounding_mode="trunc"),
            ]
            return (
                one + two + [a < b, a >= b, a == b, a != b, torch.atan2(a, b), torch.copysign(a, b), torch.hypot(a, b)]
            )

        self.check(f, x, a, b)

    def test_parts_of_numbers(self):
        x = torch.tensor([*SPECIAL, 1e-45, 3e38, 0.99999994])
        self.check(lambda x: (torch.frexp(x), x.angle(), torch.frexp(x.half())), x)

    def test_integer_division(self):
        a = torch.tensor([7, -7, 7, -7, 0, 6, -6])
        b = torch.tensor([2, 2, -2, -2, 3, 3, 3])

        def f(a, b):
            return a // b, a % b, torch.fmod(a, b), torch.div(a, b), torch.div(a, b, rounding_mode="trunc")

        self.check(f, a, b)

    def test_booleans(self):
        a, b = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])

        def f(a, b):
            return (
                a + b,
                a * b,
                a & b,
                a | b,
                a ^ b,
                ~a,
                a < b,
                a == b,
                a.sum(),
                a.any(),
                a.all(),
                a.float() - b.float(),
            )

        self.check(f, a, b)

    def test_casts(self):
        x = torch.tensor([0.0, 1.9, -1.9, 3.5, 127.0])

        def f(x):
            return [x.to(t) for t in (torch.int8, torch.int32, torch.int64, torch.bool, torch.float16, torch.bfloat16)]

        self.check(f, x)

    def test_halves(self):
        for dtype in (torch.float16, torch.bfloat16):
            with self.subTest(dtype=dtype):
                x = torch.randn(4, 33).to(dtype)
                w, scale = torch.randn(5, 33).to(dtype), torch.randn(33).to(dtype)

                def f(x, w, scale):
                    return (
                        F.gelu(x),
                        F.softmax(x, -1),
                        F.layer_norm(x, (33,), scale),
                        x.sum(-1),
                        x.mean(),
                        F.linear(x, w),
                    )

                self.check(f, x, w, scale)


class Reductions(TestCase):
    def test_axes(self):
        x = torch.randn(2, 3, 4)

        def f(x):
            return (
                x.sum(),
                x.sum(1),
                x.sum((0, -1), keepdim=True),
                x.mean(-1),
                x.amax((1, 2)),
                x.max(1),
                x.argmin(),
                x.var(0),
            )

        self.check(f, x)

    def test_empty(self):
        x = torch.randn(0, 3)

        def f(x):
            return x.sum(0), x.prod(0), x.any(0), x.all(0), x.mean(0), x.sum(1)

        self.check(f, x)

    def test_no_dimensions(self):
        x = torch.tensor(2.5)

        def f(x):
            return x.sum(), x.max(0), x.softmax(0), x.cumsum(0), x.argmax(), x.sort(), x.mean(0, keepdim=True), x[None]

        self.check(f, x)

    def test_integers_widen(self):
        x = torch.tensor([[200, 100], [3, 4]], dtype=torch.uint8)

        def f(x):
            return x.sum(), x.prod(0), x.cumsum(1), x.amax(0), x.float().std()

        self.check(f, x)

    def test_nan_in_maxima(self):
        x = torch.tensor([[1.0, math.nan, 3.0], [-math.inf, math.inf, 0.0]])

        def f(x):
            return x.amax(1), x.amin(1), x.logsumexp(1), x.isnan().any(1)

        self.check(f, x)

    def test_sorting(self):
        x = torch.tensor([[3, 1, 2, 1], [0, 0, 5, -1]])

        def f(x):
            return (
                x.sort(stable=True),
                x.sort(descending=True, stable=True),
                x[:1, 1:].topk(1),
                x.float().kthvalue(2).values,
            )

        self.check(f, x)


class Indexing(TestCase):
    def test_reads(self):
        x, i, j = torch.randn(4, 5, 6), torch.tensor([0, -1, 2]), torch.tensor([[1], [3]])

        def f(x, i, j):
            return (
                x[i],
                x[:, i],
                x[i, i],
                x[:, j, i],
                x[i, :, i],
                x[1:, ::2, -3:],
                x[..., 1],
                x.flip(0, 2),
                x.roll(2, 1),
            )

        self.check(f, x, i, j)

    def test_gather_and_scatter(self):
        x, index = torch.randn(4, 5), torch.tensor([[0, 1, 2], [2, 0, 3]])

        def f(x, index):
            y = x.scatter(0, index, -1.0), x.scatter_add(0, index, torch.ones(2, 3)), x.gather(0, index)
            return *y, x.scatter_reduce(0, index, x, "amax", include_self=False), x.index_add(1, index[0], x[:, :3])

        self.check(f, x, index)

    def test_writes(self):
        x, i, v = torch.randn(4, 5), torch.tensor([0, 2]), torch.randn(2, 5)

        def f(x, i, v):
            a, b, c = x.clone(), x.clone(), x.clone()
            a[i] = v
            b[:, 1:4:2] = 7
            c[c > 0] = 0
            d, e = x.clone(), x.clone()
            d[x[:, 0] > -9] = x.flip(0)
            e[x[:, 0] > 0] = v[0]
            y = [a, b, c, d, e, torch.as_strided_scatter(x, v[0], (5,), (3,), 2)]
            return *y, x.index_put((i, i), v[:, 0], accumulate=True), x.masked_fill(x < 0, -1)

        self.check(f, x, i, v)

    def test_movement(self):
        x = torch.randn(2, 3, 4)

        def f(x):
            y = [x.permute(2, 0, 1), x.transpose(0, -1), x.unsqueeze(1), x.repeat(2, 1, 1), x.repeat_interleave(2, 1)]
            y += [
                x.tril(),
                x.triu(1),
                x.diagonal(1, 1, 2),
                x.unfold(2, 2, 1),
                F.pad(x, (1, -1, 2, 0)),
                x.chunk(2, 1)[1],
            ]
            return y + [F.pad(x, (2, 1), mode="reflect"), torch.cat([x, x[:, :1]], 1), torch.stack([x, x], -1), x.mT]

        self.check(f, x)


class Layers(TestCase):
    def test_convolutions(self):
        x, w = torch.randn(2, 4, 9, 8), torch.randn(6, 2, 3, 3)

        def f(x, w):
            y = F.conv2d(x, w, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)
            return (
                y,
                F.conv_transpose2d(y, w[:, :2], stride=2, padding=1, output_padding=1),
                F.conv1d(x[:, :, 0], w[:, :, 0], groups=2),
            )

        self.check(f, x, w)

    def test_pools(self):
        x = torch.randn(1, 2, 7, 9)

        def f(x):
            y = [F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False)]
            y += [F.max_pool2d(x, 2, return_indices=True), F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, (3, 4))]
            return y + [F.adaptive_max_pool2d(x, (3, 4)), F.interpolate(x, scale_factor=2), F.avg_pool1d(x[0], 2)]

        self.check(f, x)

    def test_places_of_adaptive_maxima(self):
        x = torch.randn(2, 3, 7, 9)
        x[0, 0, 2, 3] = math.nan

        def f(x):
            pool = F.adaptive_max_pool2d
            y = [pool(x, (3, 4), return_indices=True), pool(x, (9, 2), return_indices=True), pool(x[0], 1, True)]
            return y + [F.adaptive_max_pool1d(x[0], 5, True), F.adaptive_max_pool3d(x, (2, 3, 4), True)]

        self.check(f, x)

    @unittest.skipUnless(hasattr(F, "linear_cross_entropy"), "of newer versions of PyTorch")
    @unittest.skipUnless(torch.__version__ >= (2, 15), "before PyTorch 2.15 dynamo cannot trace them")
    def test_chunked_losses(self):
        x, w, classes = torch.randn(5, 4), torch.randn(3, 4), torch.tensor([0, 2, -100, 1, 2])
        options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2, allow_retain_graph=True)

        def f(x, w, classes):
            def loss(target, reduction):
                return F.linear_cross_entropy(x, w, target, reduction=reduction, options=options)

            kinds = ("mean", "sum", "none")
            return [loss(t, kind) for t in (classes, torch.softmax(x[:, :3], 1)) for kind in kinds]

        self.check(f, x, w, classes)

    def test_interpolation(self):
        x = torch.randn(1, 2, 5, 7)

        def f(x):
            y = [F.interpolate(x, size=(8, 3), mode=m) for m in ("nearest", "nearest-exact", "bilinear", "bicubic")]
            y += [F.interpolate(x, size=n, mode=m, antialias=True) for n in ((3, 2), (8, 4)) for m in ("bilinear", "bicubic")]
            return y + [F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True)]

        self.check(f, x)

    def test_normalisations(self):
        x, w = torch.randn(3, 4, 5), torch.randn(4)

        def f(x, w):
            y = [F.layer_norm(x, (4, 5)), F.group_norm(x, 2, w, w), F.instance_norm(x), F.rms_norm(x, (5,))]
            return y + [F.batch_norm(x, w, w.abs(), w, w), F.log_softmax(x, 1), F.normalize(x, dim=1)]

        self.check(f, x, w)

    def test_attention(self):
        q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 4, 9, 8), torch.randn(2, 4, 9, 5)
        mask = torch.rand(6, 9) > 0.3
        mask[:, 0] = True

        def f(q, k, v, mask):
            y = F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, mask)
            grouped = F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
            return *y, grouped, F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.5)

        self.check(f, q, k, v, mask)

    def test_products(self):
        a, b, v = torch.randn(3, 4), torch.randn(4, 5), torch.randn(4)

        def f(a, b, v):
            y = a @ b, a @ v, v @ v, torch.addmm(a[:, :1], a, b, beta=0.5, alpha=2), torch.einsum("ij,jk->ki", a, b)
            y += F.bilinear(a, a, torch.stack([v[:, None] * v, v[:, None] + v]), v[:2]), F.pdist(a), F.pdist(a, 1)
            return *y, torch.bmm(a[None], b[None]), torch.outer(v, v), torch.cdist(a, b.T[:, :4])

        self.check(f, a, b, v)

    def test_creation(self):
        x = torch.randn(3, 4)

        def f(x):
            y = torch.arange(1, 10, 3), torch.full((2,), 7), torch.eye(3), torch.linspace(0, 1, 5), torch.zeros_like(x)
            return (
                *y,
                x.new_ones(2),
                torch.arange(0.0, 1.0, 0.25),
                x + torch.arange(4),
                F.one_hot(torch.tensor([0, 2]), 4),
            )

        self.check(f, x)


if __name__ == "__main__":
    unittest.main()
