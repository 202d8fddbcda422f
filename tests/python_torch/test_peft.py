"""PEFT's adapters on modules that torch.compile has compiled: applied, swapped, merged, taken off and deleted."""

import importlib.util
import unittest
import warnings

import ingot.torch
import torch
from helpers import TestCase


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(20, 16)
        self.conv = torch.nn.Conv1d(16, 16, 3, padding=1)
        self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 8)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.second(torch.nn.functional.gelu(self.first(x)))


@unittest.skipUnless(importlib.util.find_spec("peft"), "needs the package peft")
class Peft(TestCase):
    def setUp(self):
        super().setUp()
        import peft

        self.peft = peft
        self.plans = []
        self.tokens = torch.randint(0, 20, (2, 5))

    def config(self, rank=4, targets=("first", "second"), **more):
        return self.peft.LoraConfig(
            r=rank, lora_alpha=8, target_modules=list(targets), init_lora_weights=False, **more
        )

    def adapted(self, base=None, **more):
        """A module with the adapters "one" and "two", compiled; "one" is active."""
        self.model = self.peft.get_peft_model(base or Net(), self.config(**more), adapter_name="one").eval()
        self.model.add_adapter("two", self.config(2, ["second"]))
        self.compile()

    def compile(self, **options):
        self.call = self.compiled(self.model, on_plan=self.plans.append, **options)

    def run_both(self):
        """The compiled module's result, which is that of eager PyTorch."""
        with torch.no_grad():
            y = self.call(self.tokens)
            self.assert_same(y, self.model(self.tokens))
        return y

    def test_swapped(self):
        self.adapted()
        results = {}
        for name in ("one", "two", "one", "two", None, "one", None):
            if name:
                self.model.set_adapter(name)
                y = self.run_both()
            else:
                with self.model.disable_adapter():
                    y = self.run_both()
            self.assertTrue(torch.equal(y, results.setdefault(name, y)), name)
        self.assertEqual(len({tuple(y.flatten().tolist()) for y in results.values()}), 3)
        self.assertLessEqual(len(self.plans), 4)

    def test_of_all_kinds_of_layers(self):
        self.adapted(targets=("embed", "conv", "first"))
        first = self.run_both()
        self.model.set_adapter("two")
        self.run_both()
        self.model.set_adapter("one")
        self.assertTrue(torch.equal(self.run_both(), first))
        self.model.merge_adapter()
        self.assert_same(self.run_both(), first)

    def test_several_at_once(self):
        self.adapted()
        one = self.run_both()
        self.model.base_model.set_adapter(["one", "two"])
        self.assertFalse(torch.equal(self.run_both(), one))
        self.model.base_model.set_adapter("one")
        self.assertTrue(torch.equal(self.run_both(), one))

    def test_merged(self):
        """Merges write through `.data`, and what is merged later is another adapter: no result is of earlier weights."""
        self.adapted()
        beside = self.run_both()
        for turn in range(3):
            self.model.merge_adapter(safe_merge=turn == 1)
            self.assert_same(self.run_both(), beside)
            self.model.unmerge_adapter()
            self.assert_same(self.run_both(), beside)
            with torch.no_grad():  # training goes on
                for name, p in self.model.named_parameters():
                    if "lora_B.one" in name:
                        p.mul_(1.5)
            before, beside = beside, self.run_both()
            self.assertGreater(float((before - beside).abs().max()), 1e-2)
        self.model.set_adapter("two")
        self.model.merge_adapter()
        self.run_both()
        self.model.unmerge_adapter()
        self.model.set_adapter("one")
        self.assert_same(self.run_both(), beside)

    def test_disabled_while_merged(self):
        """PEFT takes it off within the forward call, which eager PyTorch then does."""
        self.adapted()
        self.compile(strict=False)
        with self.model.disable_adapter():
            plain = self.run_both()
        self.model.merge_adapter()
        merged = self.run_both()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ingot.torch.FallbackWarning)
            with self.model.disable_adapter(), torch.no_grad():
                self.assert_same(self.call(self.tokens), plain)
                self.assert_same(self.model(self.tokens), plain)
        self.assertGreater(float((merged - plain).abs().max()), 1e-2)

    def test_deleted(self):
        self.adapted()
        one = self.run_both()
        self.model.delete_adapter("two")
        self.assertTrue(torch.equal(self.run_both(), one))
        self.model.add_adapter("two", self.config(3, ["first"]))
        self.model.set_adapter("two")
        two = self.run_both()
        self.assertFalse(torch.equal(two, one))
        self.model.set_adapter("one")
        self.assertTrue(torch.equal(self.run_both(), one))
        plain = self.model.unload()
        with torch.no_grad():
            self.assert_same(self.compiled(plain)(self.tokens), plain(self.tokens))

    def test_loaded(self):
        """Another adapter's weights in the place of one's, by load_state_dict and by PEFT's hot swap."""
        self.adapted()
        state = self.peft.get_peft_model_state_dict(self.model, adapter_name="one")
        states = [state, {k: torch.randn_like(v) for k, v in state.items()}]
        states = [{k: v.clone() for k, v in state.items()} for state in states]
        results = [self.run_both(), None]
        for turn in range(1, 5):
            state = {k: v.clone() for k, v in states[turn % 2].items()}
            if turn < 3:
                self.peft.set_peft_model_state_dict(self.model, state, adapter_name="one")
            else:
                self.swap(self.model, state)
            y = self.run_both()
            if results[turn % 2] is None:
                results[turn % 2] = y
            self.assertTrue(torch.equal(y, results[turn % 2]))
        self.assertFalse(torch.equal(*results))
        self.assertEqual(len(self.plans), 1)  # refits

    def test_hot_swaps_of_modules_that_stay(self):
        """After prepare_model_for_compiled_hotswap, PEFT copies into the parameters through `.data`."""
        from peft.utils.hotswap import prepare_model_for_compiled_hotswap

        self.model = self.peft.get_peft_model(Net(), self.config(), adapter_name="one").eval()
        prepare_model_for_compiled_hotswap(self.model, target_rank=8)
        self.compile()
        state = self.peft.get_peft_model_state_dict(self.model, adapter_name="one")
        first = self.run_both()
        for scale in (2, 3):
            self.swap(self.call, {k: v * scale for k, v in state.items()})
            y = self.run_both()
            self.assertFalse(torch.equal(y, first))
            first = y

    def swap(self, model, state):
        """PEFT's hot swap into the adapter "one"."""
        from peft.utils import hotswap

        state = {k.replace(".weight", ".one.weight"): v for k, v in state.items()}
        hotswap.hotswap_adapter_from_state_dict(
            model=model, state_dict=state, adapter_name="one", config=self.model.peft_config["one"]
        )

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "needs the package transformers")
    def test_a_transformer(self):
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig(
            vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
            max_position_embeddings=16,
        )  # fmt: skip
        lora = {"task_type": "SEQ_CLS", "target_modules": ["query", "value"], "init_lora_weights": False}
        model = self.peft.get_peft_model(
            BertForSequenceClassification(config), self.peft.LoraConfig(r=4, **lora), adapter_name="one"
        ).eval()
        model.add_adapter("two", self.peft.LoraConfig(r=8, **lora))
        call, ids = self.compiled(model), torch.randint(0, 50, (2, 7))
        results = {}
        with torch.no_grad():
            for name in ("one", "two", "one", "merged", "two", "one"):
                model.set_adapter("one" if name == "merged" else name)
                if name == "merged":
                    model.merge_adapter(safe_merge=True)
                y = call(input_ids=ids).logits
                self.assert_same(y, model(input_ids=ids).logits)
                if name == "merged":
                    self.assert_same(y, results["one"])
                    model.unmerge_adapter()
                    results.clear()  # taking it off rounds
                results.setdefault(name, y)
                self.assertTrue(torch.equal(y, results[name]))


if __name__ == "__main__":
    unittest.main()
