"""
Text generation with a static cache: python3 examples/generate.py, with PyTorch, transformers and the package (build/python).

A small Llama with random weights reads a prompt in eager PyTorch, then makes one token after the other in an engine that writes
keys and values into the cache where it lies.
"""

import ingot.torch
import torch
import transformers

torch.manual_seed(0)
sizes = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 256,
}
config = transformers.LlamaConfig(**sizes)
model = transformers.LlamaForCausalLM(config).eval()
step = torch.compile(model, backend=ingot.torch.backend, fullgraph=True)  # backend="ingot" where the wheel is installed


def generate(step, prompt, count):
    cache = transformers.StaticCache(config=config, max_cache_len=prompt.shape[1] + count)
    logits = model(prompt, past_key_values=cache).logits
    tokens = [logits[:, -1:].argmax(-1)]
    while len(tokens) < count:
        tokens.append(step(tokens[-1], past_key_values=cache).logits.argmax(-1))
    return torch.cat(tokens, 1)


with torch.inference_mode():
    prompt = torch.randint(256, (1, 8))
    tokens = generate(step, prompt, 32)
    print(tokens.tolist())
    print("as in eager PyTorch:", torch.equal(tokens, generate(model, prompt, 32)))
