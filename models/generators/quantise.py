"""QDQ and QOperator versions of models, by ONNX Runtime's quantiser. It needs a newer onnx than Debian's PyTorch, so
it runs as a program of its own (run()):

    PYTHONPATH=ONNX:MODELS quantise.py FROM.onnx TO.onnx INPUTS.npz
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from generators import ModelError

MODELS = pathlib.Path(__file__).resolve().parents[1]


def run(module, words, onnx_folder):
    """Runs a module of `models` with the onnx in `onnx_folder`. Raises with the last line of its output on failure."""
    environment = {**os.environ, "PYTHONPATH": f"{onnx_folder}{os.pathsep}{MODELS}"}
    # The tool leaves files in the folder in which it runs.
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([sys.executable, "-W", "ignore", "-m", module, *map(str, words)],
                                env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        said = result.stderr.strip().splitlines() or ["no message"]
        raise ModelError(f"ONNX Runtime's quantiser failed: {said[-1]}")


def prepare(source, target):
    """The quantiser wants inferred shapes, and weights that are initializers: ONNX Runtime's basic optimisations fold
    what is not. The tool's symbolic shape inference takes minutes for models with branches, and raises plain Exception
    for a shape that it does not understand: then onnx's own inference has to do."""
    import onnx
    from onnxruntime.quantization.shape_inference import quant_pre_process
    nodes = onnx.load(source, load_external_data=False).graph.node
    if not any(node.op_type in ("If", "Loop") for node in nodes):
        try:
            quant_pre_process(source, target)
            return
        except Exception:  # pylint: disable=broad-exception-caught
            pass
    quant_pre_process(source, target, skip_symbolic_shape=True)


def static(source, target, rows, quant_format="QDQ", only=None):
    """Activations as uint8, weights as int8 of 7 bits: with 8 bits, ONNX Runtime's own kernels saturate on a CPU
    without VNNI. `rows`: the calibration's inputs, each {name: array}. `only`: the ops to quantise. Users leave out
    the arithmetic around attention, because a mask of -3e38 needs all of a scale's range."""
    from onnxruntime import quantization

    class Samples(quantization.CalibrationDataReader):
        def __init__(self):
            self.rows = iter(rows)

        def get_next(self):
            return next(self.rows, None)

    quantization.quantize_static(
        source, target, Samples(), quant_format=quantization.QuantFormat[quant_format], reduce_range=True,
        op_types_to_quantize=only, activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8)


def main():
    source, target, inputs = sys.argv[1:]
    with np.load(inputs) as arrays:
        columns = {name: arrays[name] for name in arrays.files}
    count = len(next(iter(columns.values())))
    rows = [{name: array[i:i + 1] for name, array in columns.items()} for i in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        prepared = pathlib.Path(folder) / "prepared.onnx"
        prepare(source, prepared)
        static(prepared, target, rows)


if __name__ == "__main__":
    main()
