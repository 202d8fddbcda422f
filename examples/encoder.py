"""
An encoder of transformers with any batch and length: python3 examples/encoder.py, with PyTorch, transformers and the package.

One engine serves all sizes. The weights are random here; BertModel.from_pretrained("bert-base-uncased") has trained ones.
"""

import ingot.torch
import torch
import transformers

config = transformers.BertConfig(hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4)
model = transformers.BertModel(config).eval()
compiled = torch.compile(
    model, backend=ingot.torch.backend, dynamic=True
)  # backend="ingot" where the wheel is installed

with torch.inference_mode():
    for batch, length in (2, 12), (5, 40), (3, 7):
        ids = torch.randint(1000, (batch, length))
        mask = (torch.arange(length) < length - 2).long().expand(batch, length)
        result = compiled(ids, attention_mask=mask).last_hidden_state
        difference = (result - model(ids, attention_mask=mask).last_hidden_state).abs().max()
        print(f"{tuple(result.shape)}, {difference:.1g} from eager PyTorch")
