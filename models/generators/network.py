"""What a family hands over: a module with random weights, its inputs, how to read its answer."""

import dataclasses
from collections.abc import Callable

import numpy as np
import torch


def first_output(outputs):
    """The class of a classifier whose scores are the first output, [1, classes]."""
    return int(outputs[0][0].argmax())


def last_token(outputs):
    """The next token, of logits [1, tokens, vocabulary] as the first output."""
    return int(outputs[0][0, -1].argmax())


@dataclasses.dataclass
class Network:
    """One architecture, before calibration and export.

    `sample(count, seed)` gives {input: array of `count` rows}, in the order the module takes
    them, the same at every call. A row of each is one request.
    """

    module: torch.nn.Module
    sample: Callable[[int, int], dict[str, np.ndarray]]
    outputs: tuple[str, ...] = ("output",)
    # One request's outputs, in order, to the class, token or letter that it answers.
    answer: Callable[[list[np.ndarray]], int] = first_output
    opset: int = 13
    # The exporter would fold batch-norms into convolutions: kept, they are for Lagoon's own fusion.
    keep_batch_norms: bool = False
    # Layers whose outputs calibration normalises (see `calibration.calibrate`).
    calibrated: list[torch.nn.Module] = dataclasses.field(default_factory=list)
