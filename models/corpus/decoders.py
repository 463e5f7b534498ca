"""Decoders of texts, of `transformers`: logits of the next tokens, with or without a KV cache."""

import torch

from corpus.once import make


class Decoder(torch.nn.Module):
    """Inputs by `order`, then keys and values of each layer if there is a cache. Outputs: the
    logits, then keys and values of each layer."""

    def __init__(self, model, order):
        super().__init__()
        self.model = model
        self.order = order

    def forward(self, *inputs):
        named = dict(zip(self.order, inputs))
        cache = inputs[len(self.order):]
        if cache:
            named["past_key_values"] = tuple(zip(cache[::2], cache[1::2]))
        outputs = self.model(**named, use_cache=True, return_dict=False)
        return outputs[0], *(tensor for layer in outputs[1] for tensor in layer)


def build(model, order, config):
    """`model`: a class of `transformers`; `order`: the inputs before the cache."""
    return Decoder(make(model, config), order)
