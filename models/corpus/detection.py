"""Detection: torchvision's detectors on small backbones, from one image of any size to boxes.

Random scores would all be about the same. Each layer that has a bias is scaled to outputs of
deviation 1, and the layers of scores and boxes get a spread, so that some boxes are clearly better
than others.
"""

import torch
from torchvision.models import detection
from torchvision.models.detection import backbone_utils, faster_rcnn, keypoint_rcnn, mask_rcnn
from torchvision.models.detection.ssdlite import ssdlite320_mobilenet_v3_large
from torchvision.ops import feature_pyramid_network

from generators.calibration import CHANNEL_MEAN, normalise_output
from generators.images import make_images

CLASSES = 21
SIZES = {"min_size": 256, "max_size": 384}
LAST_LEVEL = feature_pyramid_network.LastLevelP6P7


def pyramid(**options):
    return backbone_utils.resnet_fpn_backbone(
        backbone_name="resnet18", weights=None, norm_layer=torch.nn.BatchNorm2d,
        trainable_layers=5, **options)


def one_stage(make):
    backbone = pyramid(returned_layers=[2, 3, 4], extra_blocks=LAST_LEVEL(256, 256))
    return make(backbone, CLASSES, score_thresh=0.2, detections_per_img=50, **SIZES)


def two_stage(make, classes=CLASSES, detections=20, **heads):
    """With heads of a quarter of the published width."""
    return make(pyramid(), box_head=faster_rcnn.TwoMLPHead(256 * 7 * 7, 256),
                box_predictor=faster_rcnn.FastRCNNPredictor(256, classes),
                box_score_thresh=0.2, box_detections_per_img=detections,
                rpn_post_nms_top_n_test=200, **heads, **SIZES)


def make_keypoint_rcnn():
    return two_stage(
        detection.KeypointRCNN, classes=2, detections=4,
        keypoint_head=keypoint_rcnn.KeypointRCNNHeads(256, (128,) * 4),
        keypoint_predictor=keypoint_rcnn.KeypointRCNNPredictor(128, 17))


MAKERS = {
    "faster_rcnn": lambda: two_stage(detection.FasterRCNN),
    "mask_rcnn": lambda: two_stage(
        detection.MaskRCNN, mask_predictor=mask_rcnn.MaskRCNNPredictor(256, 256, CLASSES)),
    "keypoint_rcnn": make_keypoint_rcnn,
    "retinanet": lambda: one_stage(detection.RetinaNet),
    "fcos": lambda: one_stage(detection.FCOS),
    "ssdlite": lambda: ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=CLASSES, score_thresh=0.3),
    "faster_rcnn_mobilenet": lambda: detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=CLASSES, box_score_thresh=0.2),
}


class Detector(torch.nn.Module):
    """One image [3, height, width] to the tensors of its detections, in torchvision's order."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return tuple(self.model([image])[0].values())


def spread(model):
    """Scales the layers without a batch-norm behind them, in one pass over four images."""
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = None
            layer.train()
    plain = [layer for layer in model.modules() if getattr(layer, "bias", None) is not None
             and isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear))]
    hooks = [layer.register_forward_hook(once) for layer in plain]
    with torch.no_grad():
        model(list(torch.from_numpy(make_images(4, 3, 320)) / 4 + 0.5))
    for hook in hooks:
        hook.remove()
    for name, layer in model.named_modules():
        if layer in plain and any(word in name for word in ("bbox", "regression")):
            scale(layer, 0.1, 0)
        elif layer in plain and any(word in name for word in ("cls_logits", "cls_score")):
            scale(layer, 2, 0)
    if isinstance(model, (detection.RetinaNet, detection.FCOS)):
        # All classes of all places compete with their sigmoids: most have to be low.
        model.head.classification_head.cls_logits.bias.data.sub_(6)


def scale(layer, factor, mean):
    """Outputs of mean 0.5 and deviation 1 become outputs of `mean` and `factor`."""
    layer.weight.data.mul_(factor)
    layer.bias.data.sub_(CHANNEL_MEAN).mul_(factor).add_(mean)


def once(layer, inputs, output):
    """A forward hook that scales a layer at its first call: heads run once for every level."""
    if getattr(layer, "is_scaled", False) or output.shape[0] == 0:
        return None
    layer.is_scaled = True
    return normalise_output(layer, inputs, output)


def build(model):
    module = MAKERS[model]().eval()
    spread(module)
    module.eval()
    return Detector(module)
