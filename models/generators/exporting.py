"""From a model's entry to its ONNX file, and the check that the file computes what torch does.

Whatever decides a model's bytes is here or in its family: `zoo.py` makes it again when they change.
"""

import importlib
import warnings

import numpy as np
import onnxruntime
import torch

from generators import ModelError
from generators.calibration import calibrate

CHECKED_INPUTS = 16
MODULE_INPUTS = 2  # of these, also with torch: it may need seconds for one
MIN_ANSWERS = 4
TOLERANCE = 1e-4
BATCHED_INPUTS = 3  # these run once more, at once
TYPES = {"tensor(float)": "TYPE_FP32", "tensor(int64)": "TYPE_INT64"}


def build(name, entry):
    """The calibrated network of a model."""
    torch.manual_seed(entry.seed)
    network = importlib.import_module(f"generators.{entry.family}").build(name, entry.seed)
    if entry.calibration > 0:
        calibrate(network, entry.calibration, entry.seed)
    return network


def export(network, path):
    """Writes what torch's exporter makes of the network, for any number of requests at once."""
    inputs = network.sample(1, 0)
    names = [*inputs, *network.outputs]
    options = {"dynamic_axes": {name: {0: "batch"} for name in names}}
    if network.keep_batch_norms:
        options.update(do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.module, tuple(map(torch.from_numpy, inputs.values())), str(path),
            opset_version=network.opset, input_names=list(inputs),
            output_names=list(network.outputs), **options)


def open_session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def compare(actual, expected, what):
    """The largest difference, relative to the largest value; fails above TOLERANCE."""
    if actual.shape != expected.shape:
        raise ModelError(f"{what} has shape {list(actual.shape)}, expected {list(expected.shape)}")
    if not np.isfinite(actual).all():
        raise ModelError(f"{what} has values that are not finite")
    error = float(np.abs(actual - expected).max() / max(np.abs(expected).max(), 1e-30))
    if not error <= TOLERANCE:
        raise ModelError(f"{what} differs by {error:.1e} of the largest value, "
                         f"at most {TOLERANCE:.0e} is allowed")
    return error


def run_module(module, row):
    with torch.no_grad():
        outputs = module(*map(torch.from_numpy, row.values()))
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    return [output.numpy() for output in outputs]


def check_batch(network, session, inputs, singles):
    """The largest error of a batch against the outputs of the same inputs one by one."""
    rows = {name: array[:BATCHED_INPUTS] for name, array in inputs.items()}
    batch = session.run(list(network.outputs), rows)
    return max(compare(output, np.concatenate(parts),
                       f"output '{name}' of a batch of {BATCHED_INPUTS}")
               for name, output, parts in zip(network.outputs, batch, zip(*singles)))


def check(network, path, seed):
    """(different answers, largest relative error) over the check inputs; raises ModelError."""
    session = open_session(path)
    inputs = network.sample(CHECKED_INPUTS, seed)
    answers, singles, error = set(), [], 0.0
    for index in range(CHECKED_INPUTS):
        row = {name: array[index:index + 1] for name, array in inputs.items()}
        outputs = session.run(list(network.outputs), row)
        if index < MODULE_INPUTS:
            for name, *pair in zip(network.outputs, outputs, run_module(network.module, row)):
                error = max(error, compare(*pair, f"output '{name}' of input {index}"))
        answers.add(network.answer(outputs))
        if index < BATCHED_INPUTS:
            singles.append(outputs)
    error = max(error, check_batch(network, session, inputs, singles))
    if len(answers) < MIN_ANSWERS:
        raise ModelError(f"{CHECKED_INPUTS} inputs give {len(answers)} different answers, "
                         f"at least {MIN_ANSWERS} are needed")
    return len(answers), error


def describe_tensors(kind, tensors):
    """The `input` or `output` field of config.pbtxt; a named dimension is open."""
    entries = []
    for tensor in tensors:
        dims = ", ".join(str(dim if isinstance(dim, int) else -1) for dim in tensor.shape)
        entries.append(f'  {{\n    name: "{tensor.name}"\n    data_type: {TYPES[tensor.type]}\n'
                       f"    dims: [ {dims} ]\n  }}")
    return f"{kind} [\n" + ",\n".join(entries) + "\n]\n"


def make_config(name, path, realtime):
    session = open_session(path)
    config = f'name: "{name}"\nplatform: "onnxruntime_onnx"\nmax_batch_size: 0\n'
    config += describe_tensors("input", session.get_inputs())
    config += describe_tensors("output", session.get_outputs())
    return config + ("optimization { priority: PRIORITY_MAX }\n" if realtime else "")
