"""From an entry of the list to an ONNX file, as torch's exporter writes it."""

import importlib
import warnings

import torch

from corpus.inputs import make_inputs
from generators.calibration import BATCH_NORMS

SEED = 14


def open_dims(tensors):
    """torch's `dynamic_axes`, from the dims of inputs and outputs that are words."""
    return {name: {axis: dim for axis, dim in enumerate(dims) if isinstance(dim, str)}
            for name, dims in tensors.items() if any(isinstance(dim, str) for dim in dims)}


def set_statistics(module, inputs):
    """One pass over the inputs sets the statistics of all batch-norms, so that no activation runs
    away or dies out."""
    layers = [layer for layer in module.modules() if isinstance(layer, BATCH_NORMS)]
    for layer in layers:
        layer.momentum = None
        layer.train()
    with torch.no_grad():
        if layers:
            module(*inputs)
    module.eval()


def tensors(model, sizes):
    return tuple(map(torch.from_numpy, make_inputs(model.inputs, sizes).values()))


def build(model):
    """The module with random weights, and its inputs for the first case."""
    torch.manual_seed(SEED)
    family = importlib.import_module(f"corpus.{model.source['family']}")
    module = family.build(**model.source["arguments"]).eval()
    sizes = model.cases[0]
    if "batch" in sizes:
        set_statistics(module, tensors(model, {**sizes, "batch": 4}))
    return module, tensors(model, sizes)


def export(model, path):
    """Writes the file of an architecture."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, inputs = build(model)
        dims = {**{name: spec["dims"] for name, spec in model.inputs.items()}, **model.outputs}
        torch.onnx.export(module, inputs, str(path), opset_version=model.opset,
                          input_names=list(model.inputs), output_names=list(model.outputs),
                          dynamic_axes=open_dims(dims))
