"""YOLOv2 (Redmon & Farhadi 2017) and YOLOv3 (Redmon & Farhadi 2018) for the 80 classes of COCO.

YOLOv2 answers its raw map; YOLOv3 decodes its three maps to boxes in the graph.
"""

import torch
from torch import nn

from generators.calibration import normalisable_layers, randomise_batch_norms
from generators.images import make_images
from generators.network import Network

SIZE = 416
CLASSES = 80
# Per scale, coarse to fine: widths and heights in pixels.
V3_ANCHORS = (((116, 90), (156, 198), (373, 326)), ((30, 61), (62, 45), (59, 119)),
              ((10, 13), (16, 30), (33, 23)))
V2_ANCHORS = 5


def conv(inputs, outputs, kernel, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs), nn.LeakyReLU(0.1, inplace=True))


def alternate(inputs, wide, count):
    """`count` convolutions, 3x3 to `wide` channels and 1x1 to half of that in turn."""
    layers = []
    for index in range(count):
        outputs, kernel = (wide, 3) if index % 2 == 0 else (wide // 2, 1)
        layers.append(conv(inputs, outputs, kernel))
        inputs = outputs
    return layers


class SpaceToDepth(nn.Module):
    """The 'reorg' layer: each 2x2 square of pixels becomes four times the channels."""

    def __init__(self, channels, size):
        super().__init__()
        self.split = (-1, channels, size // 2, 2, size // 2, 2)
        self.joined = (-1, channels * 4, size // 2, size // 2)

    def forward(self, x):
        return x.view(self.split).permute(0, 3, 5, 1, 2, 4).contiguous().view(self.joined)


class YoloV2(nn.Module):
    """Darknet-19 without its classifier, and a passthrough from its 26 x 26 map."""

    def __init__(self):
        super().__init__()
        self.fine = nn.Sequential(
            conv(3, 32, 3), nn.MaxPool2d(2), conv(32, 64, 3), nn.MaxPool2d(2),
            *alternate(64, 128, 3), nn.MaxPool2d(2), *alternate(128, 256, 3), nn.MaxPool2d(2),
            *alternate(256, 512, 5))
        self.coarse = nn.Sequential(nn.MaxPool2d(2), *alternate(512, 1024, 5),
                                    conv(1024, 1024, 3), conv(1024, 1024, 3))
        self.passthrough = nn.Sequential(conv(512, 64, 1), SpaceToDepth(64, SIZE // 16))
        self.head = nn.Sequential(conv(1024 + 256, 1024, 3),
                                  nn.Conv2d(1024, V2_ANCHORS * (5 + CLASSES), 1))

    def forward(self, images):
        fine = self.fine(images)
        return self.head(torch.cat((self.passthrough(fine), self.coarse(fine)), 1))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.squeeze = conv(channels, channels // 2, 1)
        self.expand = conv(channels // 2, channels, 3)

    def forward(self, x):
        return x + self.expand(self.squeeze(x))


def stage(inputs, outputs, blocks):
    return nn.Sequential(conv(inputs, outputs, 3, 2), *(Residual(outputs) for _ in range(blocks)))


class Neck(nn.Module):
    """Five convolutions that the next scale reads, and the two that give this scale's map."""

    def __init__(self, inputs, wide):
        super().__init__()
        narrow = wide // 2
        self.shared = nn.Sequential(conv(inputs, narrow, 1), *alternate(narrow, wide, 4))
        self.map = nn.Sequential(conv(narrow, wide, 3), nn.Conv2d(wide, 3 * (5 + CLASSES), 1))

    def forward(self, x):
        shared = self.shared(x)
        return shared, self.map(shared)


class Decode(nn.Module):
    """A map [N, 3 * 85, S, S] to boxes [N, 3 * S * S, 85]: centre, size, objectness, classes."""

    def __init__(self, size, anchors):
        super().__init__()
        self.stride = SIZE // size
        self.split = (-1, 3, 5 + CLASSES, size, size)
        self.joined = (-1, 3 * size * size, 5 + CLASSES)
        rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        grid = torch.stack((columns, rows), -1).float()
        self.register_buffer("grid", grid.view(1, 1, size, size, 2))
        self.register_buffer("anchors", torch.tensor(anchors).float().view(1, 3, 1, 1, 2))

    def forward(self, x):
        x = x.view(self.split).permute(0, 1, 3, 4, 2).contiguous()
        centre = (x[..., 0:2].sigmoid() + self.grid) * self.stride
        size = x[..., 2:4].exp() * self.anchors
        return torch.cat((centre, size, x[..., 4:].sigmoid()), -1).view(self.joined)


class YoloV3(nn.Module):
    """Darknet-53 and three scales, each of which reads the coarser one."""

    def __init__(self):
        super().__init__()
        self.fine = nn.Sequential(conv(3, 32, 3), stage(32, 64, 1), stage(64, 128, 2),
                                  stage(128, 256, 8))
        self.middle = stage(256, 512, 8)
        self.coarse = stage(512, 1024, 4)
        self.necks = nn.ModuleList([Neck(1024, 1024), Neck(256 + 512, 512), Neck(128 + 256, 256)])
        self.lateral = nn.ModuleList([conv(512, 256, 1), conv(256, 128, 1)])
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.decode = nn.ModuleList(
            Decode(SIZE // stride, anchors) for stride, anchors in zip((32, 16, 8), V3_ANCHORS))

    def forward(self, images):
        fine = self.fine(images)
        middle = self.middle(fine)
        shared, coarse_map = self.necks[0](self.coarse(middle))
        shared = torch.cat((self.upsample(self.lateral[0](shared)), middle), 1)
        shared, middle_map = self.necks[1](shared)
        shared = torch.cat((self.upsample(self.lateral[1](shared)), fine), 1)
        _, fine_map = self.necks[2](shared)
        maps = (coarse_map, middle_map, fine_map)
        return torch.cat([decode(x) for decode, x in zip(self.decode, maps)], 1)


def last_batch_norm(block):
    return block.expand[1] if isinstance(block, Residual) else None


def best_class_of_map(outputs):
    """The class with the highest score of all boxes of YOLOv2's map."""
    boxes = outputs[0].reshape(V2_ANCHORS, 5 + CLASSES, -1)
    return int(boxes[:, 5:].max(axis=(0, 2)).argmax())


def best_class_of_boxes(outputs):
    """The class of the best of YOLOv3's boxes: objectness times the class's probability."""
    boxes = outputs[0][0]
    return int((boxes[:, 4:5] * boxes[:, 5:]).max(axis=0).argmax())


def build(name, seed):
    module, answer, output = {
        "yolov2": (YoloV2, best_class_of_map, "map"),
        "yolov3": (YoloV3, best_class_of_boxes, "boxes"),
    }[name]
    module = module().eval()
    randomise_batch_norms(module, seed, last_batch_norm)
    return Network(module, lambda count, seed: {"input": make_images(count, seed, SIZE)},
                   outputs=(output,), answer=answer, keep_batch_norms=True,
                   calibrated=normalisable_layers(module))
