"""Models with the shapes of the zoo's, with random weights. Needs PyTorch, but neither torchvision nor transformers.

make(name) gives a module in evaluation mode, make_input(name, batch) its input.
"""

import torch
from torch import nn
from torch.nn import functional

TOKENS = 128


def conv_norm(inputs, outputs, kernel, stride=1, groups=1, activation=nn.ReLU):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class Residual(nn.Module):
    """A block of ResNet (He et al. 2016): two 3x3 convolutions, or a bottleneck of three."""

    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            self.body = nn.Sequential(conv_norm(inputs, width, 1), conv_norm(width, width, 3, stride),
                                      conv_norm(width, outputs, 1, activation=None))
        else:
            self.body = nn.Sequential(conv_norm(inputs, width, 3, stride),
                                      conv_norm(width, width, 3, activation=None))
        same = inputs == outputs and stride == 1
        self.skip = nn.Identity() if same else conv_norm(inputs, outputs, 1, stride, activation=None)

    def forward(self, x):
        return functional.relu(self.body(x) + self.skip(x))


def resnet(depths, bottleneck):
    layers, inputs = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for stage, depth in enumerate(depths):
        for block in range(depth):
            width = 64 << stage
            layers.append(Residual(inputs, width, 2 if stage > 0 and block == 0 else 1, bottleneck))
            inputs = 4 * width if bottleneck else width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def vgg19():
    """Simonyan and Zisserman 2015, configuration E."""
    layers, inputs = [], 3
    for width, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU()]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(),
                         nn.Linear(4096, 1000))


class Inverted(nn.Module):
    """A block of MobileNetV2 (Sandler et al. 2018)."""

    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        wide = inputs * expansion
        expand = [conv_norm(inputs, wide, 1, activation=nn.ReLU6)] if expansion > 1 else []
        self.body = nn.Sequential(*expand, conv_norm(wide, wide, 3, stride, wide, nn.ReLU6),
                                  conv_norm(wide, outputs, 1, activation=None))
        self.same = inputs == outputs and stride == 1

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


def mobilenet_v2():
    layers, inputs = [conv_norm(3, 32, 3, 2, activation=nn.ReLU6)], 32
    for expansion, outputs, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                              (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(count):
            layers.append(Inverted(inputs, outputs, stride if block == 0 else 1, expansion))
            inputs = outputs
    return nn.Sequential(*layers, conv_norm(inputs, 1280, 1, activation=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(1280, 1000))


def leaky():
    return nn.LeakyReLU(0.1)


class DarkResidual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(conv_norm(width, width // 2, 1, activation=leaky),
                                  conv_norm(width // 2, width, 3, activation=leaky))

    def forward(self, x):
        return x + self.body(x)


class YoloV3(nn.Module):
    """Redmon and Farhadi 2018: Darknet-53 and three heads for 80 classes, without the boxes' decoding."""

    def __init__(self):
        super().__init__()

        def stage(inputs, outputs, count):
            return nn.Sequential(conv_norm(inputs, outputs, 3, 2, activation=leaky),
                                 *[DarkResidual(outputs) for _ in range(count)])

        def neck(inputs, width):
            layers = []
            for _ in range(2):
                layers += [conv_norm(inputs, width, 1, activation=leaky), conv_norm(width, 2 * width, 3, activation=leaky)]
                inputs = 2 * width
            return nn.Sequential(*layers, conv_norm(inputs, width, 1, activation=leaky))

        def head(width):
            return nn.Sequential(conv_norm(width, 2 * width, 3, activation=leaky), nn.Conv2d(2 * width, 255, 1))

        self.fine = nn.Sequential(conv_norm(3, 32, 3, activation=leaky), stage(32, 64, 1), stage(64, 128, 2),
                                  stage(128, 256, 8))
        self.middle, self.coarse = stage(256, 512, 8), stage(512, 1024, 4)
        self.necks = nn.ModuleList([neck(1024, 512), neck(768, 256), neck(384, 128)])
        self.heads = nn.ModuleList([head(512), head(256), head(128)])
        self.lateral = nn.ModuleList([conv_norm(512, 256, 1, activation=leaky), conv_norm(256, 128, 1, activation=leaky)])

    def forward(self, x):
        fine = self.fine(x)
        middle = self.middle(fine)
        x = self.necks[0](self.coarse(middle))
        maps = [self.heads[0](x)]
        for i, below in enumerate((middle, fine)):
            x = functional.interpolate(self.lateral[i](x), scale_factor=2, mode="nearest")
            x = self.necks[i + 1](torch.cat((x, below), 1))
            maps.append(self.heads[i + 1](x))
        return torch.cat([m.flatten(2) for m in maps], 2)


def attend(q, k, v, causal):
    if hasattr(functional, "scaled_dot_product_attention"):  # from PyTorch 2.0 on
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if causal:
        scores = scores + torch.full(scores.shape[-2:], float("-inf"), device=q.device, dtype=q.dtype).triu(1)
    return scores.softmax(-1) @ v


class Transformer(nn.Module):
    """A transformer of BERT's or GPT-2's shape over TOKENS tokens."""

    def __init__(self, vocabulary, width, layers, heads, causal, outputs):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(TOKENS, width))
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "first": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
            "second": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width),
        }) for _ in range(layers))
        self.heads, self.causal = heads, causal
        self.last = nn.Linear(width, outputs)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions
        batch, length, width = x.shape
        for block in self.blocks:
            q, k, v = block["qkv"](block["first"](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = attend(q, k, v, self.causal)
            x = x + block["out"](mixed.transpose(1, 2).reshape(batch, length, width))
            x = x + block["down"](functional.gelu(block["up"](block["second"](x)), approximate="tanh"))
        return self.last(x if self.causal else x[:, 0])


BUILDERS = {
    "resnet18": lambda: resnet((2, 2, 2, 2), False),
    "resnet50": lambda: resnet((3, 4, 6, 3), True),
    "resnet152": lambda: resnet((3, 8, 36, 3), True),
    "vgg19": vgg19,
    "mobilenet_v2": mobilenet_v2,
    "yolov3": YoloV3,
    "bert_base": lambda: Transformer(30522, 768, 12, 12, False, 20),
    "bert_tiny": lambda: Transformer(8192, 256, 2, 4, False, 20),
    "gpt2_prefill": lambda: Transformer(50257, 768, 12, 12, True, 50257),
}


def reads_tokens(name):
    return name in ("bert_base", "bert_tiny", "gpt2_prefill")


def make(name):
    if name not in BUILDERS:
        raise ValueError(f"no model '{name}'; there are {', '.join(BUILDERS)}")
    return BUILDERS[name]().eval()


def make_input(name, batch):
    if reads_tokens(name):
        return torch.randint(0, 8192, (batch, TOKENS))
    size = 416 if name == "yolov3" else 224
    return torch.rand(batch, 3, size, size)
