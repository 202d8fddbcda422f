"""The examples of docs/pytorch.md run, and say that they agree with eager PyTorch."""

import contextlib
import io
import pathlib
import re
import runpy
import unittest

try:
    import transformers
except ImportError:
    transformers = None

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@unittest.skipUnless(transformers, "transformers is not installed")
class Examples(unittest.TestCase):
    def output(self, name):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            runpy.run_path(str(EXAMPLES / name))
        return text.getvalue()

    def test_generate(self):
        self.assertIn("as in eager PyTorch: True", self.output("generate.py"))

    def test_encoder(self):
        differences = re.findall(r"(\S+) from eager", self.output("encoder.py"))
        self.assertEqual(len(differences), 3)
        self.assertLess(max(map(float, differences)), 1e-4)


if __name__ == "__main__":
    unittest.main()
