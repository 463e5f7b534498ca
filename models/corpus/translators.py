"""Encoder-decoders of `transformers`, in the pieces in which they are served."""

import torch

from corpus.once import Outputs, make


class Decoder(torch.nn.Module):
    """Tokens and the encoder's states to logits and keys and values. With a cache there are, instead
    of the states, for each layer keys and values of the decoder, then of the encoder."""

    def __init__(self, model, order):
        super().__init__()
        self.model = model
        self.order = order

    def forward(self, *inputs):
        named = dict(zip(self.order, inputs))
        cache = inputs[len(self.order):]
        # With a cache only the shape of the encoder's states matters.
        states = (cache[2].new_zeros(cache[2].shape[0], cache[2].shape[2], 1) if cache
                  else named.pop("encoder_hidden_states"))
        if cache:
            layers = range(0, len(cache), 4)
            named["past_key_values"] = tuple(tuple(cache[at:at + 4]) for at in layers)
        outputs = self.model(encoder_outputs=(states,), **named, use_cache=True, return_dict=False)
        # The encoder's keys and values do not change once they are there.
        kept = 2 if cache else 4
        return outputs[0], *(tensor for layer in outputs[1] for tensor in layer[:kept])


def build(model, part, order, config):
    """`part`: "encoder", "decoder" (with or without a cache) or "whole"."""
    module = make(model, config)
    if part == "encoder":
        return Outputs(module.get_encoder(), order)
    return Decoder(module, order) if part == "decoder" else Outputs(module, order)
