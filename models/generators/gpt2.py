"""GPT-2 small (Radford et al. 2019) of `transformers`: a prompt, and the token after it.

The prefill's outputs are the decode's inputs: keys and values of every layer.
"""

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from generators.calibration import randomise_affine
from generators.network import Network, last_token
from generators.text import make_tokens

LENGTH = 128
# Twice the usual: the biases, the same at every token, would outweigh what the tokens say.
SPREAD = 0.04


class Prefill(torch.nn.Module):
    """(input_ids, attention_mask) to (logits, key and value of layer 0, of layer 1, ...)."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        logits, present = self.model(input_ids=input_ids, attention_mask=attention_mask,
                                     use_cache=True, return_dict=False)
        return (logits, *(tensor for layer in present for tensor in layer))


class Decode(torch.nn.Module):
    """The same for one token behind `past`, a list of keys and values like the outputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        pairs = tuple(zip(past[::2], past[1::2]))
        logits, present = self.model(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
            past_key_values=pairs, use_cache=True, return_dict=False)
        return (logits, *(tensor for layer in present for tensor in layer))


def cache_names(prefix, layers):
    return [f"{prefix}.{layer}.{kind}" for layer in range(layers) for kind in ("key", "value")]


def build(name, seed):
    config = GPT2Config(initializer_range=SPREAD)
    model = GPT2LMHeadModel(config).eval()
    randomise_affine(model, seed)
    # The exporter puts a module back as it was: a wrapper left in training brings dropout back.
    prefill = Prefill(model).eval()

    def prompts(count, seed):
        return {"input_ids": make_tokens(count, LENGTH, config.vocab_size, seed),
                "attention_mask": np.ones((count, LENGTH), np.int64)}

    def continuations(count, seed):
        """The most probable token behind each prompt, and the cache that the prefill leaves."""
        with torch.no_grad():
            logits, *past = prefill(*map(torch.from_numpy, prompts(count, seed).values()))
        cache = zip(cache_names("past_key_values", config.n_layer), past)
        return {"input_ids": logits[:, -1:].argmax(-1).numpy(),
                "attention_mask": np.ones((count, LENGTH + 1), np.int64),
                "position_ids": np.full((count, 1), LENGTH),
                **{name: tensor.numpy() for name, tensor in cache}}

    outputs = ("logits", *cache_names("present", config.n_layer))
    if name == "gpt2_prefill":
        return Network(prefill, prompts, outputs, last_token)
    return Network(Decode(model).eval(), continuations, outputs, last_token)
