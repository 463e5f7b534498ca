"""Quantised versions of models, by ONNX Runtime's tools. A program of its own, because the tools
need a newer onnx than Debian's PyTorch:

    PYTHONPATH=MODELS:ONNX quantising.py ID FROM.onnx TO.onnx
"""

import pathlib
import sys
import tempfile

import onnx
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

from corpus import CorpusError
from corpus.catalogue import read
from corpus.inputs import make_inputs

ROWS = 4  # calibration inputs: the same case with other seeds


class Samples(quantization.CalibrationDataReader):
    """Inputs of the first case."""

    def __init__(self, model):
        self.rows = iter([make_inputs(model.inputs, model.cases[0], seed + 1)
                          for seed in range(ROWS)])

    def get_next(self):
        return next(self.rows, None)


def dynamic(_, source, target):
    quantization.quantize_dynamic(source, target, weight_type=quantization.QuantType.QInt8)


def static(model, source, target, quant_format):
    """Activations as uint8, weights as int8 of 7 bits: with 8 bits, ONNX Runtime's own kernels
    saturate on a CPU without VNNI. `only` of the source: the ops to quantise. Users leave out the
    arithmetic around attention, because a mask of -3e38 needs all of a scale's range."""
    quantization.quantize_static(
        source, target, Samples(model), quant_format=quant_format, reduce_range=True,
        op_types_to_quantize=model.source.get("only"),
        activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8)


def optimised(_, source, target):
    """The graph as ONNX Runtime writes it after its own fusions, with ops of com.microsoft."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


HOW = {
    "optimised": optimised,
    "dynamic": dynamic,
    "static-qdq": lambda *words: static(*words, quantization.QuantFormat.QDQ),
    "static-qoperator": lambda *words: static(*words, quantization.QuantFormat.QOperator),
}


def prepare(source, target):
    """The quantiser wants inferred shapes, and weights that are initializers: ONNX Runtime's basic
    optimisations fold what is not. The tool's symbolic shape inference takes minutes for models with
    branches, and raises plain Exception for a shape that it does not understand: then onnx's own
    inference has to do."""
    nodes = onnx.load(source, load_external_data=False).graph.node
    if not any(node.op_type in ("If", "Loop") for node in nodes):
        try:
            quant_pre_process(source, target)
            return
        except Exception:  # pylint: disable=broad-exception-caught
            pass
    quant_pre_process(source, target, skip_symbolic_shape=True)


def main():
    name, source, target = sys.argv[1:]
    model = read()[name]
    how = model.source["how"]
    if how not in HOW:
        raise CorpusError(f"'{name}': there is no way '{how}' to quantise, there are {list(HOW)}")
    with tempfile.TemporaryDirectory() as folder:
        prepared = source
        if how != "optimised":
            prepared = pathlib.Path(folder) / "prepared.onnx"
            prepare(source, prepared)
        HOW[how](model, prepared, target)


if __name__ == "__main__":
    main()
