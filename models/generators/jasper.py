"""Jasper (Li et al. 2019) with 5 blocks of 3: speech to letters with 1-D convolutions."""

import numpy as np
from torch import nn

from generators.calibration import normalisable_layers, randomise_batch_norms
from generators.network import Network

FEATURES = 64  # mel bands
FRAMES = 256   # of 10 ms
LETTERS = 29
REPEATS = 3
BLOCKS = ((11, 256), (13, 384), (17, 512), (21, 640), (25, 768))  # kernel, channels


def conv_norm(inputs, outputs, kernel, stride=1, dilation=1):
    padding = dilation * (kernel // 2)
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, kernel, stride, padding, dilation, bias=False),
        nn.BatchNorm1d(outputs, eps=1e-3))


class Block(nn.Module):
    """REPEATS convolutions; before the last ReLU, a 1x1 convolution of the input is added."""

    def __init__(self, inputs, outputs, kernel):
        super().__init__()
        channels = [inputs] + [outputs] * REPEATS
        self.layers = nn.ModuleList(
            conv_norm(*pair, kernel) for pair in zip(channels, channels[1:]))
        self.residual = conv_norm(inputs, outputs, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = x
        for layer in self.layers[:-1]:
            y = self.relu(layer(y))
        return self.relu(self.layers[-1](y) + self.residual(x))


class Jasper(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [conv_norm(FEATURES, 256, 11, stride=2), nn.ReLU()], 256
        for kernel, outputs in BLOCKS:
            layers.append(Block(channels, outputs, kernel))
            channels = outputs
        layers += [conv_norm(channels, 896, 29, dilation=2), nn.ReLU(),
                   conv_norm(896, 1024, 1), nn.ReLU(), nn.Conv1d(1024, LETTERS, 1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, features):
        return self.layers(features).transpose(1, 2).log_softmax(-1)


def last_batch_norm(block):
    return block.layers[-1][1] if isinstance(block, Block) else None


def make_features(count, seed):
    """float32 [count, FEATURES, FRAMES] like normalised mel energies: smooth in both directions."""
    random = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(FEATURES)[:, None], np.fft.rfftfreq(FRAMES)[None, :])
    falloff = 1 / np.maximum(frequency, 0.02)
    noise = np.fft.rfft2(random.standard_normal((count, FEATURES, FRAMES)))
    features = np.fft.irfft2(noise * falloff, s=(FEATURES, FRAMES))
    features /= features.std(axis=(1, 2), keepdims=True)
    return (features + random.normal(0, 0.3, (count, 1, 1))).astype(np.float32)


def middle_letter(outputs):
    """The letter of the frame in the middle."""
    letters = outputs[0][0]
    return int(letters[len(letters) // 2].argmax())


def build(_, seed):
    module = Jasper().eval()
    randomise_batch_norms(module, seed, last_batch_norm)
    return Network(module, lambda count, seed: {"features": make_features(count, seed)},
                   outputs=("log_probabilities",), answer=middle_letter, keep_batch_norms=True,
                   calibrated=normalisable_layers(module))
