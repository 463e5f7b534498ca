"""An LSTM translator after GNMT (Wu et al. 2016, sections 3.1 to 3.3), at half its width.

The encoder's first layer reads both ways, upper layers have residual connections; the first decoder
layer asks the attention, whose context the layers above it read. The target is given (as when a
translation is scored, or the words so far when one is made), so that each layer runs over all words
at once.
"""

import torch
from torch import nn

from generators.calibration import randomise_affine
from generators.network import Network, last_token
from generators.text import make_tokens

SOURCE = 32
TARGET = 16
LAYERS = 4
SIZES = {"gnmt": (512, 32000), "gnmt_tiny": (128, 4000)}  # width, vocabulary


class Attention(nn.Module):
    """Additive attention (Bahdanau et al. 2015)."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, queries, memory):
        summed = self.query(queries).unsqueeze(2) + self.key(memory).unsqueeze(1)
        scores = self.score(torch.tanh(summed + self.bias)).squeeze(-1)
        return torch.matmul(scores.softmax(-1), memory)


class Encoder(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.first = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.second = nn.LSTM(2 * width, width, batch_first=True)
        self.upper = nn.ModuleList(
            nn.LSTM(width, width, batch_first=True) for _ in range(LAYERS - 2))

    def forward(self, source):
        x = self.second(self.first(self.embedding(source))[0])[0]
        for layer in self.upper:
            x = x + layer(x)[0]
        return x


class Decoder(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.first = nn.LSTM(width, width, batch_first=True)
        self.attention = Attention(width)
        self.upper = nn.ModuleList(
            nn.LSTM(2 * width, width, batch_first=True) for _ in range(LAYERS - 1))
        self.classifier = nn.Linear(width, vocabulary)

    def forward(self, target, memory):
        x = self.first(self.embedding(target))[0]
        context = self.attention(x, memory)
        for index, layer in enumerate(self.upper):
            y = layer(torch.cat((x, context), -1))[0]
            x = y if index == 0 else x + y
        return self.classifier(x)


class Gnmt(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.encoder = Encoder(width, vocabulary)
        self.decoder = Decoder(width, vocabulary)

    def forward(self, source, target):
        return self.decoder(target, self.encoder(source))


def build(name, seed):
    width, vocabulary = SIZES[name]
    module = Gnmt(width, vocabulary).eval()
    for parameter in module.parameters():  # torch's own are so small that all states stay near 0
        if parameter.dim() > 1:
            parameter.data.mul_(3)
    randomise_affine(module, seed)

    def sample(count, seed):
        return {"source": make_tokens(count, SOURCE, vocabulary, seed),
                "target": make_tokens(count, TARGET, vocabulary, seed + 1)}
    return Network(module, sample, outputs=("logits",), answer=last_token)
