"""Whole networks, small and with random weights: one engine each, with eager PyTorch's results."""

import random
import unittest
import unittest.mock

import ingot
import torch
from helpers import TestCase

try:
    import torchvision
except ImportError:
    torchvision = None
try:
    import timm
except ImportError:
    timm = None
try:
    import transformers
except ImportError:
    transformers = None

TEXT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}


def tokens(length=12):
    return torch.randint(3, 90, (2, length))


class OwnModules(TestCase):
    def test_transformer_encoder(self):
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.check(torch.nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 7, 32))

    def test_transformer_encoder_with_masks(self):
        """PyTorch's fast layers mask where a mask is not 0; what is masked throughout gives NaN."""
        layer, x = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), torch.randn(2, 5, 32)
        later, padded = torch.ones(5, 5).triu(1).bool(), torch.arange(5).repeat(2, 1) > 2
        for masks in (
            {"src_mask": later},
            {"src_mask": torch.full((5, 5), -0.5).triu(1)},
            {"src_key_padding_mask": padded},
            {"src_mask": later, "src_key_padding_mask": padded},
            {"src_mask": torch.ones(5, 5).triu().bool()},
        ):
            with self.subTest(masks=masks):
                self.check(layer, x, **masks)
                torch._dynamo.reset()
        attention = torch.nn.MultiheadAttention(32, 4, batch_first=True).eval()
        self.check(attention, x, x, x, attn_mask=later, need_weights=False)

    def test_transformer_decoder(self):
        layer = torch.nn.TransformerDecoderLayer(32, 4, 64, batch_first=True, norm_first=True)
        decoder = torch.nn.TransformerDecoder(layer, 2).eval()
        mask = torch.nn.Transformer.generate_square_subsequent_mask(5)
        self.check(decoder, torch.randn(2, 5, 32), torch.randn(2, 7, 32), tgt_mask=mask, tgt_is_causal=True)

    def test_unet(self):
        class Unet(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.down = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
                self.norm = torch.nn.GroupNorm(2, 8)
                self.up = torch.nn.ConvTranspose2d(8, 4, 2, stride=2)
                self.out = torch.nn.Conv2d(7, 2, 3, padding=1)

            def forward(self, x):
                y = torch.nn.functional.silu(self.norm(self.down(x)))
                return self.out(torch.cat([self.up(y), x], 1))

        self.check(Unet().eval(), torch.randn(1, 3, 16, 16))

    def test_recurrent_layers(self):
        for kind in (torch.nn.LSTM, torch.nn.GRU):
            with self.subTest(kind=kind.__name__), torch._dynamo.config.patch(allow_rnn=True):
                self.check(kind(4, 5, 2, batch_first=True, bidirectional=True).eval(), torch.randn(2, 3, 4))

    def test_recurrent_cell(self):
        cell, x, state = torch.nn.LSTMCell(5, 6), torch.randn(3, 5), (torch.randn(3, 6), torch.randn(3, 6))
        self.check(cell, x, state)
        self.check(torch.nn.GRUCell(5, 6), x, state[0])


@unittest.skipUnless(torchvision, "torchvision is not installed")
class Torchvision(TestCase):
    def check_model(self, name, size=64, **options):
        self.check(getattr(torchvision.models, name)(weights=None, **options).eval(), torch.randn(1, 3, size, size))

    def test_resnet18(self):
        self.check_model("resnet18")

    def test_mobilenet_v3_small(self):
        self.check_model("mobilenet_v3_small")

    def test_squeezenet1_1(self):
        self.check_model("squeezenet1_1")

    def test_shufflenet_v2_x0_5(self):
        self.check_model("shufflenet_v2_x0_5")


@unittest.skipUnless(timm, "timm is not installed")
class Timm(TestCase):
    def check_model(self, name, size=64, **options):
        self.check(timm.create_model(name, **options).eval(), torch.randn(1, 3, size, size))

    def test_vit(self):
        self.check_model("vit_tiny_patch16_224", img_size=64, depth=2)

    def test_swin(self):
        self.check_model("swin_tiny_patch4_window7_224", 112, img_size=112, depths=(1, 1, 1, 1), embed_dim=24)

    def test_convnext(self):
        self.check_model("convnext_atto", depths=(1, 1, 1, 1))


@unittest.skipUnless(transformers, "transformers is not installed")
class Transformers(TestCase):
    def check_model(self, model, config, values, **kwargs):
        config = getattr(transformers, config)(**values)
        self.check(getattr(transformers, model)(config).eval(), **kwargs)

    def test_bert(self):
        mask = (torch.arange(12) < 9).long().repeat(2, 1)
        self.check_model("BertModel", "BertConfig", TEXT, input_ids=tokens(), attention_mask=mask)

    def test_gpt2(self):
        config = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1}
        config["eos_token_id"] = 2
        self.check_model("GPT2LMHeadModel", "GPT2Config", config, input_ids=tokens(), use_cache=False)

    def test_llama(self):
        config = {**TEXT, "num_key_value_heads": 2}
        self.check_model("LlamaForCausalLM", "LlamaConfig", config, input_ids=tokens(), use_cache=False)

    def test_t5(self):
        config = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 4}
        inputs = {"input_ids": tokens(), "decoder_input_ids": tokens(5)}
        self.check_model("T5ForConditionalGeneration", "T5Config", config, use_cache=False, **inputs)

    def test_generation_with_a_static_cache(self):
        config = transformers.LlamaConfig(**TEXT, num_key_value_heads=2)
        model = transformers.LlamaForCausalLM(config).eval()

        def generate(call):
            cache, ids, places = (
                transformers.StaticCache(config=config, max_cache_len=16),
                tokens(4)[:1],
                torch.arange(4),
            )
            made = []
            for _ in range(6):
                y = call(input_ids=ids, past_key_values=cache, cache_position=places, use_cache=True)
                ids, places = y.logits[:, -1].argmax(-1, keepdim=True), places[-1:] + 1
                made.append(int(ids))
            return made

        with torch.no_grad():
            torch.manual_seed(1)
            expected = generate(model)
            torch.manual_seed(1)
            self.assertEqual(generate(self.compiled(model)), expected)

    def test_dynamic_batch(self):
        model = transformers.BertModel(transformers.BertConfig(**TEXT)).eval()
        plans = []
        with torch.no_grad():
            call = self.compiled(model, dynamic=True, on_plan=plans.append)
            for batch, length in ((2, 8), (3, 11), (5, 6)):
                ids = torch.randint(3, 90, (batch, length))
                self.assert_same(call(ids), model(ids))
        self.assertEqual(len(plans), 1)

    def test_random_sizes(self):
        """100 sizes of batches and texts: a graph for the first, one for all, one for batches of 1; an engine of each."""
        model = transformers.BertModel(transformers.BertConfig(**TEXT)).eval()
        plans, sizes = [], random.Random(0)
        with torch.no_grad(), unittest.mock.patch("ingot.compile", wraps=ingot.compile) as builds:
            call = self.compiled(model, dynamic=None, on_plan=plans.append)
            for i in range(100):
                batch, length = 1 if i == 50 else sizes.randint(1, 16), sizes.randint(2, 64)
                ids = torch.randint(3, 90, (batch, length))
                mask = (torch.arange(length) < sizes.randint(1, length)).long().expand(batch, length)
                self.assert_same(call(ids, attention_mask=mask), model(ids, attention_mask=mask))
        self.assertLessEqual(len(plans), 3)
        self.assertEqual(builds.call_count, len(plans))


if __name__ == "__main__":
    unittest.main()
