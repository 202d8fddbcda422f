"""Text generation with a StaticCache: the tokens of eager PyTorch, written in place. INGOT_TEST_STEPS: how many, 32."""

import ctypes
import mmap
import os
import unittest

import torch
from helpers import TestCase, engines
from ingot.torch.importer import value_of

try:
    import transformers
except ImportError:
    transformers = None

STEPS = int(os.environ.get("INGOT_TEST_STEPS", "32"))
HEADS, HEAD_SIZE = 4, 8
PAGE = mmap.PAGESIZE // (HEAD_SIZE * 4)  # positions that a page of a head's keys has
PROMPT = 4
WRITABLE = -(-(PROMPT + STEPS) // PAGE) * PAGE  # positions in the pages that steps write to
LENGTH = WRITABLE + PAGE  # of the cache
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}


def llama():
    sizes = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(
        **sizes, num_attention_heads=HEADS, num_key_value_heads=2, max_position_embeddings=LENGTH
    )
    return transformers.LlamaForCausalLM(config)


def gpt2():
    config = transformers.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=HEADS, n_positions=LENGTH)
    config.update({"bos_token_id": 1, "eos_token_id": 2})
    return transformers.GPT2LMHeadModel(config)


def t5():
    sizes = {"vocab_size": 99, "d_model": 32, "d_kv": HEAD_SIZE, "d_ff": 40, "num_layers": 2, "num_heads": HEADS}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes))


def whisper():
    heads = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
    sizes = {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "num_mel_bins": 8}
    widths = {"encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_source_positions": 30}
    config = transformers.WhisperConfig(**sizes, **heads, **widths, **SPECIAL, max_target_positions=LENGTH)
    return transformers.WhisperForConditionalGeneration(config)


class Decoding:
    """A model with random weights, a prompt, a cache, and what is chosen by a generator of its own."""

    def __init__(self, make):
        torch.manual_seed(0)
        self.model = make().eval()
        for p in self.model.parameters():
            if p.dim() > 1:
                p.data *= 4  # so that logits differ

    def start(self):
        """The first logits, by eager PyTorch, which makes the cache."""
        self.random = torch.Generator().manual_seed(1)
        config = self.model.config.get_text_config(decoder=True)
        self.own = self.cache = transformers.StaticCache(config=config, max_cache_len=LENGTH)
        self.name, self.inputs = "input_ids", {}
        if self.model.config.is_encoder_decoder:
            hears = self.model.config.model_type == "whisper"
            source = torch.randint(3, 90, (1, 30), generator=self.random)
            source = torch.randn(1, 8, 60, generator=self.random) if hears else source
            crossed = transformers.StaticCache(config=config, max_cache_len=30)
            self.cache = transformers.EncoderDecoderCache(self.own, crossed)
            self.name, self.inputs = "decoder_input_ids", {"encoder_outputs": self.model.get_encoder()(source)}
        return self.step(self.model, torch.arange(3, 3 + PROMPT)[None])

    def step(self, call, ids):
        return call(**{self.name: ids}, past_key_values=self.cache, use_cache=True, **self.inputs).logits[:, -1]

    def tokens(self, call, logits):
        made = []
        for _ in range(STEPS):
            noise = torch.rand(logits.shape, generator=self.random).log().neg().log().neg()
            made.append((logits + noise).argmax(-1, keepdim=True))
            logits = self.step(call, made[-1])
        return [int(token) for token in made]

    def state(self):
        return [t for layer in self.own.layers for t in (layer.keys, layer.values)]

    def use_pages(self):
        """Moves the cache to pages of which those that no step writes to are read-only: a write there ends the process."""
        self.pages = []
        for layer in self.own.layers:
            for name in ("keys", "values"):
                old = getattr(layer, name)
                memory = mmap.mmap(-1, old.nbytes)
                new = torch.frombuffer(memory, dtype=old.dtype).view(old.shape)
                new.copy_(old)
                setattr(layer, name, new)
                self.pages.append(memory)
                for head in range(old.shape[1]):
                    self.protect(new[0, head, WRITABLE:])

    @staticmethod
    def protect(tensor):
        mprotect = ctypes.CDLL(None, use_errno=True).mprotect
        if mprotect(ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(tensor.nbytes), mmap.PROT_READ):
            raise OSError(ctypes.get_errno(), "mprotect")


@unittest.skipUnless(transformers, "transformers is not installed")
class StaticCache(TestCase):
    def check(self, make):
        plans, known = [], engines()
        decoding = Decoding(make)
        with torch.no_grad():
            expected = decoding.tokens(decoding.model, decoding.start())
            expected_state = decoding.state()
            call = self.compiled(decoding.model, on_plan=plans.append)
            for _ in range(2):  # the second time with another cache
                logits = decoding.start()
                decoding.use_pages()
                places = [t.data_ptr() for t in decoding.state()]
                self.assertEqual(decoding.tokens(call, logits), expected)
                self.assertEqual([t.data_ptr() for t in decoding.state()], places)
                self.assert_same(decoding.state(), expected_state)
        self.assertGreater(len(set(expected)), 4)
        self.assertEqual(len(plans), 1, "it was compiled again")
        (engine,) = engines(known)
        self.check_engine(engine, decoding)

    def check_engine(self, engine, decoding):
        """All of the cache is what it updates, and its own memory has no room for a copy of any part."""
        self.assertEqual(len(engine.updated), 3 * len(decoding.own.layers))  # keys, values, and how many there are
        session = engine.engine.session()
        given = [torch.zeros(value_of(node).shape, dtype=value_of(node).dtype) for node, _ in engine.arguments]
        session(*given)
        self.assertLess(session.memory()["arena_bytes"], min(t.nbytes for t in decoding.state()))

    def test_llama(self):
        self.check(llama)

    def test_gpt2(self):
        self.check(gpt2)

    def test_t5(self):
        self.check(t5)

    def test_whisper(self):
        self.check(whisper)


if __name__ == "__main__":
    unittest.main()
