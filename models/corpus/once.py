"""Models of `transformers` that run once for each request: texts, images, speech."""

import torch
import transformers

from generators.calibration import randomise_affine

SEED = 14


class Outputs(torch.nn.Module):
    """The first `count` outputs of a model as a tuple; `order` names the inputs."""

    def __init__(self, model, order, count=1):
        super().__init__()
        self.model = model
        self.order = order
        self.count = count

    def forward(self, *inputs):
        outputs = self.model(**dict(zip(self.order, inputs)), return_dict=False)
        return tuple(outputs[:self.count])


class MeanPooling(torch.nn.Module):
    """One vector of length 1 for each text, as the MiniLM models for sentences give."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        states = self.model(input_ids, attention_mask, return_dict=False)[0]
        mask = attention_mask.unsqueeze(-1).expand(states.size()).float()
        mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, p=2, dim=1)


def make(model, config):
    """The model with random weights, and biases and scales that differ from 0 and 1."""
    made = getattr(transformers, model)
    module = made(made.config_class(**config))
    randomise_affine(module, SEED)
    return module


def build(model, order, config, pooled=False, outputs=1):
    """`model`: a class of `transformers`; `config`: the fields of its configuration that differ from
    the defaults."""
    module = make(model, config)
    return MeanPooling(module) if pooled else Outputs(module, order, outputs)
