"""PyTorch's portable cache: what one process compiled, another does not compile again."""

import os
import subprocess
import sys
import tempfile
import unittest

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


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.GELU(), torch.nn.Linear(9, 3))

    def forward(self, x):
        return self.layers(x).softmax(-1)


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
            here = os.path.dirname(os.path.abspath(__file__))
            done = subprocess.run([sys.executable, "-c", LOAD, path, here], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def test_not_with_a_cache_of_ones_own(self):
        with torch.no_grad(), self.assertRaisesRegex(Exception, "exclude each other"):
            self.compiled(Net().eval(), artifacts=True, cache="somewhere")(torch.randn(5, 4))


if __name__ == "__main__":
    unittest.main()
