"""Quantised versions of models, by ONNX Runtime's tools; a program of its own (generators/quantise.py):

    python -m corpus.quantising ID FROM.onnx TO.onnx
"""

import pathlib
import sys
import tempfile

import onnxruntime
from onnxruntime import quantization

from corpus import CorpusError
from corpus.catalogue import read
from corpus.inputs import make_inputs
from generators import quantise

ROWS = 4  # calibration inputs: the first case with other seeds


def dynamic(_, source, target):
    quantization.quantize_dynamic(source, target, weight_type=quantization.QuantType.QInt8)


def static(model, source, target, quant_format):
    rows = [make_inputs(model.inputs, model.cases[0], seed + 1) for seed in range(ROWS)]
    quantise.static(source, target, rows, quant_format, model.source.get("only"))


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
    "static-qdq": lambda *words: static(*words, "QDQ"),
    "static-qoperator": lambda *words: static(*words, "QOperator"),
}


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
            quantise.prepare(source, prepared)
        HOW[how](model, prepared, target)


if __name__ == "__main__":
    main()
