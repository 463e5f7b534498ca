"""MobileNet V1 at full width: depthwise separable convolutions (Howard et al. 2017, table 1)."""

from torch import nn

from generators.calibration import normalisable_layers, randomise_batch_norms
from generators.images import make_images
from generators.network import Network

# (channels, stride) of the thirteen depthwise separable layers.
LAYERS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1),
          (512, 1), (512, 1), (1024, 2), (1024, 1))


def conv_norm(inputs, outputs, kernel, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class MobileNetV1(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        layers, channels = [conv_norm(3, 32, 3, stride=2)], 32
        for outputs, stride in LAYERS:
            depthwise = conv_norm(channels, channels, 3, stride, groups=channels)
            layers.append(nn.Sequential(depthwise, conv_norm(channels, outputs, 1)))
            channels = outputs
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, images):
        return self.classifier(self.pool(self.features(images)).flatten(1))


def build(_, seed):
    module = MobileNetV1().eval()
    randomise_batch_norms(module, seed)
    return Network(module, lambda count, seed: {"input": make_images(count, seed)},
                   keep_batch_norms=True, calibrated=normalisable_layers(module))
