"""Histograms, segments, bags, medians and running extrema: through engines, on values where PyTorch has rules of its own."""

import math
import unittest

import torch
import torch.nn.functional as F
from helpers import TestCase


class Counting(TestCase):
    def test_histograms(self):
        x = torch.tensor([0.0, 0.1, 0.5, 0.5, 0.99, 1.0, -3.0, 2.0, math.nan])
        clean, weight = x[:8], torch.rand(8)
        edges = torch.tensor([-3.0, 0.1, 0.5, 2.0])

        def f(x, clean, weight, edges):
            y = [torch.histc(x, 4, 0, 1), torch.histc(clean, 5), torch.histc(clean[:1], 3)]
            y += torch.histogram(clean, 6), torch.histogram(clean, edges, weight=weight, density=True)
            return y + [torch.histogram(clean, 3, range=(0.0, 1.0)), torch.histogram(clean[:0], 2)]

        self.check(f, x, clean, weight, edges)

    def test_segments(self):
        x = torch.randn(6, 3)
        x[1, 2] = math.nan
        lengths = torch.tensor([2, 0, 3, 1])

        def f(x, lengths):
            kinds = ("sum", "mean", "max", "min", "prod")
            y = [torch.segment_reduce(x, kind, lengths=lengths, unsafe=True) for kind in kinds]
            return y + [torch.segment_reduce(x, kind, lengths=lengths, initial=0.5, unsafe=True) for kind in kinds]

        self.check(f, x, lengths)

    def test_bags(self):
        weight, offsets = torch.randn(7, 4), torch.tensor([0, 3, 3, 5])
        indices = torch.tensor([1, 2, 2, 0, 6, 3])

        def f(weight, indices, offsets):
            bags = [F.embedding_bag(indices, weight, offsets, mode=mode) for mode in ("sum", "mean", "max")]
            bags += [F.embedding_bag(indices, weight, offsets, mode=mode, padding_idx=2) for mode in ("mean", "max")]
            return bags + [F.embedding_bag(indices[:5], weight, offsets, include_last_offset=True)]

        self.check(f, weight, indices, offsets)

    def test_places_of_ones(self):
        x = torch.tensor([[0, 2, 0], [1, 0, 3]])

        def f(x):
            return [torch.nonzero_static(x, size=n, fill_value=-7) for n in (0, 2, 3, 5)]

        self.check(f, x)


class Order(TestCase):
    def test_medians(self):
        x = torch.tensor([[1.0, math.nan, 3.0, 2.0], [math.inf, -math.inf, 0.0, 5.0], [math.nan] * 4])

        def f(x):
            some = x[:2]  # which of several NaN it is, PyTorch does not promise
            return x.median(), x.median(1), x.nanmedian(), some.nanmedian(1), some.median(0, keepdim=True), x[1].median()

        self.check(f, x)

    def test_modes(self):
        x = torch.tensor([[3, 1, 3, 1, 2], [0, 0, 0, 0, 0], [5, 4, 3, 2, 1]])
        self.check(lambda x: (x.mode(1), x.mode(0, keepdim=True), x.float().mode(-1)), x)

    def test_running_extrema(self):
        x = torch.tensor([[1.0, 3.0, 3.0, 2.0, 7.0], [2.0, math.nan, 5.0, math.nan, 1.0], [-math.inf, 0.0, -0.0, 1, 1]])
        self.check(lambda x: (x.cummax(1), x.cummin(1), x.cummax(0), x[0, :1].cummin(0), (x > 1).cummax(1)), x)


if __name__ == "__main__":
    unittest.main()
