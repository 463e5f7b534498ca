#!/usr/bin/env python3
"""Numbers of PyTorch that the tests of src/learn compare with: a network's outputs and gradients, and ten steps of Adam.

Usage: .venv/bin/python tools/learn_golden.py >src/learn/pytorch_golden.txt
A line of the file is a name and its values, matrices row by row. Weights are inputs x outputs, as in src/learn.
"""
import torch

SIZES = [5, 7, 6, 3]
SAMPLES = 4
STEPS = 10
RATE = 0.01


def write(name, tensor):
    print(name, *(f"{value:.9g}" for value in tensor.detach().reshape(-1).tolist()))


def flat(network, pick):
    """The parameters of all layers, as Mlp::parameters() has them."""
    parts = []
    for layer in network:
        if isinstance(layer, torch.nn.Linear):
            parts += [pick(layer.weight).T.reshape(-1), pick(layer.bias)]
    return torch.cat(parts)


def main():
    torch.manual_seed(1)
    layers = []
    for size, following in zip(SIZES, SIZES[1:]):
        layers += [torch.nn.Linear(size, following), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers[:-1])
    inputs = torch.randn(SAMPLES, SIZES[0], requires_grad=True)
    factors = torch.randn(SAMPLES, SIZES[-1])  # the loss is the sum of the outputs times these
    write("inputs", inputs)
    write("factors", factors)
    write("parameters", flat(network, lambda tensor: tensor))
    write("outputs", network(inputs))
    (network(inputs) * factors).sum().backward()
    write("gradient", flat(network, lambda tensor: tensor.grad))
    write("input_gradient", inputs.grad)
    adam = torch.optim.Adam(network.parameters(), lr=RATE)
    for _ in range(STEPS):
        adam.zero_grad()
        (network(inputs.detach()) * factors).sum().backward()
        adam.step()
    write("after_adam", flat(network, lambda tensor: tensor))


main()
