"""PyTorch's portable cache, and aot_compile: what one process compiled, another does not compile again."""

import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch
from helpers import TestCase
from ingot.torch import artifacts

LOAD = """
import sys
import ingot.torch
import torch
from unittest import mock

sys.path.insert(0, sys.argv[2])
from test_artifacts import Net

info = torch.compiler.load_cache_artifacts(open(sys.argv[1], "rb").read())
assert len(info.artifacts["ingot"]) == 1, info
torch.manual_seed(1)
module, x = Net().eval(), torch.randn(5, 4)
built, compile = [], ingot.compile
with torch.no_grad(), mock.patch("ingot.compile", lambda *a, **k: built.append(compile(*a, **k)) or built[-1]):
    y = torch.compile(module, backend=ingot.torch.backend, options={"artifacts": True})(x)
    torch.testing.assert_close(y, module(x))
assert [e.report["structure_cached"] for e in built] == [True], built
assert torch.compiler.save_cache_artifacts()[1].artifacts["ingot"] == info.artifacts["ingot"]
"""


LOAD_FUNCTION = """
import sys
import ingot
import torch
from unittest import mock

sys.path.insert(0, sys.argv[2])
from test_artifacts import Net

torch.manual_seed(1)
module = Net().eval()
with open(sys.argv[1], "rb") as file:
    function = torch.compiler.load_compiled_function(file)
with torch.no_grad(), mock.patch("ingot.compile", side_effect=AssertionError("it is built again")):
    for rows in (5, 3, 9):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(function(module, x), module(x))
        module.layers[0].weight.mul_(1.5)
"""


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.GELU(), torch.nn.Linear(9, 3))

    def forward(self, x):
        return self.layers(x).softmax(-1)


needs_aot_compile = unittest.skipUnless(
    hasattr(torch.compiler, "load_compiled_function"), "this PyTorch has no aot_compile"
)


class Artifacts(TestCase):
    @unittest.skipUnless(artifacts.CacheArtifactManager, "this PyTorch has no portable cache that backends can use")
    def test_another_process(self):
        module, x = Net().eval(), torch.randn(5, 4)
        with torch.no_grad():
            self.assert_same(self.compiled(module, artifacts=True)(x), module(x))
        content, info = torch.compiler.save_cache_artifacts()
        self.assertEqual(len(info.artifacts["ingot"]), 1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "artifacts")
            with open(path, "wb") as file:
                file.write(content)
            self.assert_done(LOAD, path)

    @needs_aot_compile
    def test_aot_compile(self):
        """Another process runs what was compiled, with any batch, and with weights of its own."""
        module, x = Net().eval(), torch.randn(5, 4)
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            function = self.compiled(module, dynamic=True).forward.aot_compile(((x,), {}))
            self.assert_same(function(module, x), module(x))
            path = os.path.join(folder, "function")
            function.save_compiled_function(path)
            self.assert_done(LOAD_FUNCTION, path)

    @needs_aot_compile
    def test_aot_compile_with_a_part_outside(self):
        def f(x):
            return torch.special.airy_ai((x * 2).relu() + 1).tanh() * 3 + 1

        x = torch.randn(5)
        for part in (f, torch.special.airy_ai):  # some of it outside, and all of it
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function = self.compiled(lambda x: part(x), strict=False).aot_compile(((x,), {}))
                self.assert_same(function(x), part(x))

    @needs_aot_compile
    def test_aot_compile_with_gradients(self):
        with self.assertRaisesRegex(Exception, "gradients are asked for"):
            self.compiled(Net(), strict=False).forward.aot_compile(((torch.randn(5, 4),), {}))

    def assert_done(self, program, path):
        here = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run([sys.executable, "-c", program, path, here], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def test_not_with_a_cache_of_ones_own(self):
        with torch.no_grad(), self.assertRaisesRegex(Exception, "exclude each other"):
            self.compiled(Net().eval(), artifacts=True, cache="somewhere")(torch.randn(5, 4))


if __name__ == "__main__":
    unittest.main()
