"""Videos, scans, and what makes images and sound from a few numbers: convolutions over three axes, and transposed ones."""

import torch
import torchvision
from torch import nn


class UNet(nn.Module):
    """A U-Net of three levels over volumes."""

    def __init__(self):
        super().__init__()

        def level(channels, width):
            return nn.Sequential(nn.Conv3d(channels, width, 3, padding=1), nn.BatchNorm3d(width), nn.ReLU(),
                                 nn.Conv3d(width, width, 3, padding=1), nn.BatchNorm3d(width), nn.ReLU())

        self.down = nn.ModuleList([level(1, 16), level(16, 32), level(32, 64)])
        self.grow = nn.ModuleList([nn.ConvTranspose3d(64, 32, 2, 2), nn.ConvTranspose3d(32, 16, 2, 2)])
        self.up = nn.ModuleList([level(64, 32), level(32, 16)])
        self.pool, self.classes = nn.MaxPool3d(2), nn.Conv3d(16, 2, 1)

    def forward(self, volume):
        fine = self.down[0](volume)
        middle = self.down[1](self.pool(fine))
        x = self.down[2](self.pool(middle))
        for grow, up, skipped in zip(self.grow, self.up, (middle, fine)):
            x = up(torch.cat([grow(x), skipped], 1))
        return self.classes(x)


def generator():
    """After DCGAN: an image of 64 x 64 from 100 numbers."""
    widths = (512, 256, 128, 64)
    layers = [nn.ConvTranspose2d(100, widths[0], 4, 1, 0, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    for wide, narrow in zip(widths, widths[1:]):
        layers += [nn.ConvTranspose2d(wide, narrow, 4, 2, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(widths[-1], 3, 4, 2, 1), nn.Tanh())


def vocoder():
    """After HiFi-GAN, without its residual blocks: 256 samples of sound from each column of a spectrogram."""
    layers, width = [nn.Conv1d(80, 256, 7, padding=3)], 256
    for kernel, stride in ((16, 8), (16, 8), (4, 2), (4, 2)):
        layers += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(width, width // 2, kernel, stride, (kernel - stride) // 2),
                   nn.Conv1d(width // 2, width // 2, 7, padding=3)]
        width //= 2
    return nn.Sequential(*layers, nn.LeakyReLU(0.1), nn.Conv1d(width, 1, 7, padding=3), nn.Tanh())


def build(model):
    own = {"unet": UNet, "generator": generator, "vocoder": vocoder}
    return own[model]() if model in own else getattr(torchvision.models.video, model)()
