"""The image classifiers of torchvision 0.14, as torchvision builds them."""

import torchvision
from torchvision.models import efficientnet, mnasnet, mobilenetv2, resnet

from generators.calibration import normalisable_layers, randomise_batch_norms
from generators.images import make_images
from generators.network import Network

SIZES = {"inception_v3": 299}
# As with torchvision's trained weights: no auxiliary classifiers when inferring, and the channels
# of the input are rescaled in the graph.
INCEPTION = {"aux_logits": False, "transform_input": True, "init_weights": False}
OPTIONS = {"googlenet": INCEPTION, "inception_v3": INCEPTION}


def last_batch_norm(block):
    """The batch-norm before the addition, if `block` is a residual block."""
    if isinstance(block, resnet.BasicBlock):
        return block.bn2
    if isinstance(block, resnet.Bottleneck):
        return block.bn3
    if isinstance(block, mobilenetv2.InvertedResidual) and block.use_res_connect:
        return block.conv[-1]
    if isinstance(block, mnasnet._InvertedResidual) and block.apply_residual:
        return block.layers[-1]
    if isinstance(block, efficientnet.MBConv) and block.use_res_connect:
        return block.block[-1][1]
    return None


def build(name, seed):
    module = torchvision.models.get_model(name, weights=None, **OPTIONS.get(name, {})).eval()
    randomise_batch_norms(module, seed, last_batch_norm)
    size = SIZES.get(name, 224)
    return Network(module, lambda count, seed: {"input": make_images(count, seed, size)},
                   keep_batch_norms=True, calibrated=normalisable_layers(module))
