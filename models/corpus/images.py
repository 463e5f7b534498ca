"""Classification and segmentation: torchvision's models, with height and width open."""

import torch
import torchvision

from generators import torchvision_cnns
from generators.calibration import BATCH_NORMS, randomise_batch_norms

SEED = 14


class Segmenter(torch.nn.Module):
    """The map of classes as the only output; torchvision gives a dict."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return self.model(image)["out"]


def last_batch_norm(block):
    """The batch-norm before the addition of a residual block, or None."""
    if getattr(block, "use_res_connect", False):
        return [layer for layer in block.modules() if isinstance(layer, BATCH_NORMS)][-1]
    return torchvision_cnns.last_batch_norm(block)


def build(model, kind="classification"):
    segments = kind == "segmentation"
    options = {"weights_backbone": None} if segments else {}
    module = torchvision.models.get_model(model, weights=None, **options)
    randomise_batch_norms(module, SEED, last_batch_norm)
    return Segmenter(module) if segments else module
