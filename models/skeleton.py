#!/usr/bin/env python3
"""Copies models of the zoo without their weights: a few KB each, for the package that runs on machines without a network.

Every large fp32 weight with two or more dimensions moves into external data, which is not written. Its doc_string says
"normal MEAN DEVIATION" for the elements that the weight had, and `lagoon make-weights FOLDER` writes weights like
these. Tensors with one dimension stay in the file: the variances of a normalisation must not be random.

Usage: skeleton.py --out DIR [--zoo DIR] NAME...
"""

import argparse
import math
import pathlib
import shutil

import onnx
from onnx import numpy_helper

DATA = "weights.bin"
ALIGNMENT = 64
SMALLEST = 4096  # bytes; smaller weights stay in the file


def empty(tensor, offset, normals):
    """Takes the elements out of `tensor`. Returns the offset in the file at which the next weight can begin."""
    values = numpy_helper.to_array(tensor)
    mean, deviation = normals.get(tensor.name) or (values.mean(dtype="f8"), values.std(dtype="f8"))
    for field in ("raw_data", "float_data", "external_data"):
        tensor.ClearField(field)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.doc_string = f"normal {mean:.9g} {deviation:.9g}"
    for key, value in (("location", DATA), ("offset", offset), ("length", values.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    return -(-(offset + values.nbytes) // ALIGNMENT) * ALIGNMENT


def is_large(shape):
    """True if an fp32 weight of this shape is taken out of the file."""
    return len(shape) >= 2 and 4 * math.prod(shape) >= SMALLEST


def copy(source, target, normals=None):
    """Copies the model's folder; returns the size of its file in bytes.

    `normals`: {name of a weight: (mean, deviation)}. For other weights both are measured.
    """
    (target / "1").mkdir(parents=True, exist_ok=True)
    model = onnx.load(source / "1" / "model.onnx")
    offset = 0
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and is_large(tensor.dims):
            offset = empty(tensor, offset, normals or {})
    path = target / "1" / "model.onnx"
    path.write_bytes(model.SerializeToString())
    shutil.copyfile(source / "config.pbtxt", target / "config.pbtxt")
    return path.stat().st_size


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--zoo", type=pathlib.Path, metavar="DIR", default=pathlib.Path(__file__).parent / "zoo")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", required=True)
    arguments = parser.parse_args()
    for name in arguments.names:
        size = copy(arguments.zoo / name, arguments.out / name)
        print(f"{name}: {size / 1e6:.2f} MB without its weights", flush=True)


if __name__ == "__main__":
    main()
