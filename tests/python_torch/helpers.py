"""What the tests of ingot.torch share."""

import gc
import unittest

import ingot.torch
import torch
import torch.utils._pytree as pytree
from ingot.torch.program import Engine

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}


def tensors(result):
    """The tensors of any structure, in order."""
    if hasattr(result, "to_tuple"):
        result = result.to_tuple()
    return [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]


def engines(known=()):
    """The engines that live, but those in `known`: garbage of earlier tests may live on."""
    return [x for x in gc.get_objects() if type(x) is Engine and not any(x is k for k in known)]


class TestCase(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(0)

    def compiled(self, module, *, dynamic=None, fullgraph=True, **options):
        options.setdefault("strict", True)
        return torch.compile(module, backend=ingot.torch.backend, options=options, dynamic=dynamic, fullgraph=fullgraph)

    def assert_same(self, actual, expected, tolerance=None):
        """The same structure, element types, shapes and, within the type's tolerance, values; NaN is NaN."""
        actual, expected = tensors(actual), tensors(expected)
        self.assertEqual(len(actual), len(expected))
        for a, e in zip(actual, expected):
            limit = tolerance or TOLERANCE.get(e.dtype, 0)
            scale = float(e[e.isfinite()].abs().max()) if e.is_floating_point() and e.isfinite().any() else 1.0
            torch.testing.assert_close(a, e, rtol=limit, atol=limit * max(scale, 1e-3), equal_nan=True)

    def check(self, module, *args, tolerance=None, dynamic=False, **kwargs):
        """One engine gives what eager PyTorch gives. Returns the compiled module."""
        with torch.no_grad():
            expected = module(*args, **kwargs)
            call = self.compiled(module, dynamic=dynamic)
            self.assert_same(call(*args, **kwargs), expected, tolerance)
        return call
