"""Low-rank adapters: merged into the weights, and in slots that samples choose."""

import json
import pathlib
import tempfile
import unittest

import numpy as np

import ingot

LAYERS = {"first": (6, 8), "second": (8, 4)}  # name: in, out
RANK, ALPHA = 2, 3


def write_safetensors(path, tensors):
    header, blocks, at = {}, [], 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [at, at + tensor.nbytes]}
        blocks.append(tensor.tobytes())
        at += tensor.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blocks))


class Adapter:
    """What PEFT's save_pretrained writes, with random matrices, for some layers."""

    def __init__(self, folder, seed, layers=tuple(LAYERS), **config):
        self.folder, random = folder, np.random.default_rng(seed)
        self.matrices = {}  # name: A [rank, in], B [out, rank]
        for name in layers:
            n_in, n_out = LAYERS[name]
            self.matrices[name] = [random.uniform(-1, 1, shape).astype(np.float32) for shape in ((RANK, n_in), (n_out, RANK))]
        folder.mkdir()
        (folder / "adapter_config.json").write_text(
            json.dumps({"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, **config})
        )
        write_safetensors(folder / "adapter_model.safetensors", {
            f"base_model.model.{name}.lora_{letter}.weight": matrix
            for name, pair in self.matrices.items() for letter, matrix in zip("AB", pair)
        })  # fmt: skip

    def change(self, name):
        a, b = self.matrices.get(name, (np.zeros((RANK, LAYERS[name][0])), np.zeros((LAYERS[name][1], RANK))))
        return ALPHA / RANK * (b @ a)  # [out, in]


class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        random = np.random.default_rng(1)
        cls.base = {f"{name}.weight": random.uniform(-1, 1, (n_out, n_in)).astype(np.float32)
                    for name, (n_in, n_out) in LAYERS.items()}  # fmt: skip
        cls.x = random.uniform(-1, 1, (3, 6)).astype(np.float32)
        cls.one, cls.two = Adapter(cls.folder / "one", 1), Adapter(cls.folder / "two", 2, ["second"])

    def build(self, **options):
        net = ingot.Network()
        y = net.input("x", "f32", ["n", 6])
        for name, weight in self.base.items():
            w = net.weight(name, weight)
            y = net.add("matmul", y, net.add("transpose", w, perm=[1, 0]), label=name.removesuffix(".weight"))
        net.output("y", y)
        return ingot.compile(net, **options)

    def expected(self, adapter=None):
        y = self.x.astype(np.float64)
        for name in LAYERS:
            y = y @ (self.base[f"{name}.weight"] + (adapter.change(name) if adapter else 0)).T
        return y

    def check(self, y, adapter=None):
        np.testing.assert_allclose(y, self.expected(adapter), rtol=1e-4, atol=1e-4)

    def test_merged(self):
        engine = self.build()
        plain = engine(self.x)
        first = None
        for adapter in (self.one, self.two, self.one):
            tensors = ingot.open_adapter(adapter.folder, self.base)
            self.assertEqual(set(tensors), {f"{name}.weight" for name in adapter.matrices})
            self.assertIsInstance(tensors["second.weight"], ingot.Tensor)
            self.assertEqual(tensors["second.weight"].shape, (4, 8))
            with self.assertRaises(ValueError):
                tensors["second.weight"].numpy()[:] = 0
            engine.refit(self.base)  # takes the one before off
            engine.refit(tensors, partial=True)
            y = engine(self.x)
            self.check(y, adapter)
            if adapter is self.one and first is not None:
                np.testing.assert_array_equal(y, first)
            first = y if first is None else first
        engine.refit(self.base)
        np.testing.assert_array_equal(engine(self.x), plain)

    def test_base_is_a_file(self):
        path = self.folder / "base.safetensors"
        write_safetensors(path, self.base)
        from_file, from_dict = (ingot.open_adapter(str(self.one.folder), base) for base in (path, self.base))
        for name in from_dict:
            np.testing.assert_array_equal(from_file[name].numpy(), from_dict[name].numpy())

    def test_slots(self):
        engine = self.build(adapters=2, adapter_rank=RANK)
        self.check(engine(self.x, np.zeros(3, np.int64)))
        for slot, adapter in ((1, self.one), (2, self.two)):
            tensors = engine.open_slot(slot, adapter.folder)
            self.assertEqual(len(tensors), 4)  # of all layers
            engine.refit(tensors, partial=True)
        for slot, adapter in ((1, self.one), (2, self.two), (0, None), (3, None)):
            self.check(engine(self.x, np.full(3, slot)), adapter)
        mixed = engine(self.x, np.array([0, 1, 2]))
        for row, adapter in enumerate((None, self.one, self.two)):
            np.testing.assert_allclose(mixed[row], self.expected(adapter)[row], rtol=1e-4, atol=1e-4)
        engine.refit(engine.open_slot(1), partial=True)
        self.check(engine(self.x, np.ones(3, np.int64)))
        self.check(engine(self.x, np.full(3, 2)), self.two)

    def test_tensors_outlive_their_dict(self):
        tensor = ingot.open_adapter(self.one.folder, self.base).popitem()[1].numpy()
        self.assertEqual(tensor.size, len(tensor.tobytes()) // 4)

    def test_refusals(self):
        engine, plain = self.build(adapters=1, adapter_rank=RANK), self.build()
        dora = Adapter(self.folder / "dora", 3, use_dora=True)
        for error, message, call in (
            (ingot.FileError, "nowhere", lambda: ingot.open_adapter(self.folder / "nowhere", self.base)),
            (ingot.FileError, "none.npz", lambda: ingot.open_adapter(self.one.folder, self.folder / "none.npz")),
            (ingot.BadTensor, "first", lambda: ingot.open_adapter(self.one.folder, {"second.weight": self.base["second.weight"]})),
            (ingot.BadTensor, "first", lambda: ingot.open_adapter(self.one.folder, {**self.base, "first.weight": self.x})),
            (ingot.Unsupported, "DoRA|dora", lambda: ingot.open_adapter(dora.folder, self.base)),
            (TypeError, "", lambda: ingot.open_adapter(None, self.base)),
            (TypeError, "", lambda: ingot.open_adapter(self.one.folder)),
            ((ingot.Error, TypeError), "", lambda: ingot.open_adapter(self.one.folder, {"first.weight": 3})),
            (ingot.InvalidArgument, "slot", lambda: engine.open_slot(2, self.one.folder)),
            (ingot.InvalidArgument, "slot is 0", lambda: engine.open_slot(0)),
            (ingot.InvalidArgument, "slot is -1", lambda: engine.open_slot(-1)),
            (ingot.InvalidArgument, "slot", lambda: plain.open_slot(1, self.one.folder)),
            (ingot.FileError, "nowhere", lambda: engine.open_slot(1, self.folder / "nowhere")),
            (TypeError, "", lambda: engine.open_slot("1")),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()


if __name__ == "__main__":
    unittest.main()
