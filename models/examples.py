#!/usr/bin/env python3
"""Writes the example models of `./run serve`: models/examples, committed, without their large weights.

Each model of the zoo gets the random weights that `lagoon make-weights` will make later. Then one pass
over seeded inputs sets the statistics of its batch-norms and the scale and bias of its last layer, so
that answers differ between inputs. The values that the pass sets are a few hundred KB and stay in the
file; the weights are left out. So `./run serve` needs no Python. The pass does not give the same bits
on every machine: the committed files are what counts.

Usage: examples.py [--out DIR] [NAME...]
"""

import argparse
import dataclasses
import pathlib
import tempfile

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from generators import ModelError
from generators.calibration import CHANNEL_MEAN, calibrate, normalisable_layers
from generators.catalogue import CATALOGUE, REALTIME
from generators.exporting import build, check, export, make_config
from generators.made_up import made_up
from skeleton import copy, is_large
from zoo import CHECK_SEED

NAMES = ("resnet18", "mobilenet_v2")
MOST_BYTES = 1 << 20  # size limit of a committed file


class MadeUpWeights:
    """The weights of a module that are left out of its file. Each has a number, in the exporter's order, and a
    deviation."""

    def __init__(self, module):
        large = {name: parameter for name, parameter in module.named_parameters() if is_large(parameter.shape)}
        self.module, self.numbers = module, {name: number for number, name in enumerate(large)}
        self.deviations = {name: np.float32(parameter.data.std()) for name, parameter in large.items()}
        for name in large:
            self.fill(name)

    def fill(self, name):
        weight = self.module.get_parameter(name)
        values = made_up(self.numbers[name], 0, self.deviations[name], tuple(weight.shape))
        weight.data.copy_(torch.from_numpy(values))

    def normalise_layer(self, name):
        """A forward hook like calibration.normalise_output, but with one scale for all channels of the layer, so that
        `lagoon make-weights` can still make the weight."""
        def hook(layer, _, output):
            axes = [axis for axis in range(output.dim()) if axis != 1]
            mean, scale = output.mean(axes), 1 / output.std(axes).square().mean().sqrt()
            self.deviations[name] *= np.float32(scale)
            self.fill(name)
            layer.bias.data.sub_(mean).mul_(scale).add_(CHANNEL_MEAN)
            shape = [1, -1] + [1] * (output.dim() - 2)
            return (output - mean.view(shape)) * scale + CHANNEL_MEAN
        return hook

    def calibrate(self, network, entry):
        """Sets, in one pass, the batch-norms, and the scale of each layer that no batch-norm follows."""
        plain = normalisable_layers(self.module)
        hooks = [layer.register_forward_hook(self.normalise_layer(f"{name}.weight"))
                 for name, layer in self.module.named_modules() if any(layer is other for other in plain)]
        network.calibrated = []
        calibrate(network, entry.calibration, entry.seed)
        for hook in hooks:
            hook.remove()

    def check(self, original, skeleton):
        """Raises unless `lagoon make-weights` gives the skeleton exactly the weights of the original."""
        values = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(original).graph.initializer}
        tensors = onnx.load(skeleton, load_external_data=False).graph.initializer
        for number, tensor in enumerate(tensor for tensor in tensors if tensor.external_data):
            mean, deviation = map(float, tensor.doc_string.split()[1:])
            expected = values[tensor.name]
            if not np.array_equal(made_up(number, mean, deviation, expected.shape), expected):
                raise ModelError(f"weight '{tensor.name}' is not the made-up weight number {number}")


def make(name, out):
    entry = CATALOGUE[name]
    network = build(name, dataclasses.replace(entry, calibration=0))
    weights = MadeUpWeights(network.module)
    weights.calibrate(network, entry)
    with tempfile.TemporaryDirectory() as folder:
        whole = pathlib.Path(folder) / name
        path = whole / "1" / "model.onnx"
        path.parent.mkdir(parents=True)
        export(network, path)
        answers, error = check(network, path, entry.seed + CHECK_SEED)
        (whole / "config.pbtxt").write_text(make_config(name, path, name in REALTIME))
        size = copy(whole, out / name, {key: (0, value) for key, value in weights.deviations.items()})
        weights.check(path, out / name / "1" / "model.onnx")
    if size > MOST_BYTES:
        raise ModelError(f"{name}: the file has {size} bytes without weights, at most {MOST_BYTES} are allowed")
    print(f"{name}: {size / 1e3:.0f} KB, {answers} answers to 16 inputs, error {error:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=NAMES)
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", default=pathlib.Path(__file__).parent / "examples")
    arguments = parser.parse_args()
    for name in arguments.names:
        make(name, arguments.out)


if __name__ == "__main__":
    main()
