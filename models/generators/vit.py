"""ViT-B/16 (Dosovitskiy et al. 2021) of `transformers`.

Not torchvision's: torch 1.13 cannot export the fused attention that it runs when inferring.
"""

from transformers import ViTConfig, ViTForImageClassification

from generators.calibration import randomise_affine
from generators.images import make_images
from generators.network import Network


def build(_, seed):
    config = ViTConfig(num_labels=1000, return_dict=False, initializer_range=0.04)
    module = ViTForImageClassification(config).eval()
    randomise_affine(module, seed)
    return Network(module, lambda count, seed: {"pixel_values": make_images(count, seed)},
                   outputs=("logits",), opset=17, calibrated=[module.classifier])
