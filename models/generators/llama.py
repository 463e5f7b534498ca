"""Two decoder layers after Llama 2 (Touvron et al. 2023).

RMSNorm (Zhang & Sennrich 2019), rotary embedding (Su et al. 2021), grouped-query attention (Ainslie
et al. 2023) and SwiGLU (Shazeer 2020).
"""

import math

import torch
from torch import nn
from torch.nn import functional

from generators.calibration import randomise_affine
from generators.network import Network, last_token
from generators.text import make_tokens

LENGTH = 128
VOCABULARY = 32000
WIDTH = 1024
HIDDEN = 2816
LAYERS = 2
HEADS = 16
GROUPS = 4  # heads of keys and values
HEAD_WIDTH = WIDTH // HEADS


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class Rotary(nn.Module):
    """Turns pairs of a head's dimensions (i, i + half) by an angle that grows with the position."""

    def __init__(self):
        super().__init__()
        frequency = 10000 ** (-torch.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)
        angle = torch.outer(torch.arange(LENGTH).float(), frequency).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x, positions):
        cos, sin = self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)
        left, right = x[..., :HEAD_WIDTH // 2], x[..., HEAD_WIDTH // 2:]
        return x * cos + torch.cat((-right, left), -1) * sin


def split_heads(x, heads):
    return x.view(-1, LENGTH, heads, HEAD_WIDTH).transpose(1, 2)


def repeat_groups(x):
    """Every head of a group reads the group's keys and values."""
    x = x.unsqueeze(2).expand(-1, GROUPS, HEADS // GROUPS, LENGTH, HEAD_WIDTH)
    return x.reshape(-1, HEADS, LENGTH, HEAD_WIDTH)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, GROUPS * HEAD_WIDTH, bias=False)
        self.value = nn.Linear(WIDTH, GROUPS * HEAD_WIDTH, bias=False)
        self.output = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, positions, mask, rotary):
        query = rotary(split_heads(self.query(x), HEADS), positions)
        key = repeat_groups(rotary(split_heads(self.key(x), GROUPS), positions))
        value = repeat_groups(split_heads(self.value(x), GROUPS))
        scores = torch.matmul(query, key.transpose(2, 3)) / math.sqrt(HEAD_WIDTH) + mask
        summed = torch.matmul(scores.softmax(-1), value)
        return self.output(summed.transpose(1, 2).reshape(-1, LENGTH, WIDTH))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.attention = RmsNorm(), Attention()
        self.hidden_norm = RmsNorm()
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x, *context):
        x = x + self.attention(self.attention_norm(x), *context)
        y = self.hidden_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.rotary = Rotary()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RmsNorm()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        mask = torch.full((LENGTH, LENGTH), torch.finfo(torch.float32).min).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, input_ids, position_ids):
        x = self.embedding(input_ids)
        for layer in self.layers:
            x = layer(x, position_ids, self.mask, self.rotary)
        return self.head(self.norm(x))


def build(_, seed):
    module = Llama().eval()
    randomise_affine(module, seed)

    def sample(count, seed):
        positions = torch.arange(LENGTH).repeat(count, 1).numpy()
        return {"input_ids": make_tokens(count, LENGTH, VOCABULARY, seed),
                "position_ids": positions}
    return Network(module, sample, outputs=("logits",), answer=last_token, opset=17)
