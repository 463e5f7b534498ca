#!/usr/bin/env python3
"""Writes the seeds of import_fuzz: small models that reach every part of the importer.

Usage: make_corpus.py [DIR]
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def constant(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def random_weights(name, *dims):
    return constant(name, np.arange(np.prod(dims)).reshape(dims) / 7.0)


def model(nodes, inputs, outputs, initializers=(), opset=13):
    def values(entries):
        return [helper.make_tensor_value_info(name, FLOAT, dims) for name, dims in entries.items()]
    graph = helper.make_graph(nodes, "seed", values(inputs), values(outputs), list(initializers))
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    proto.ir_version = 8
    return proto


def seeds():
    node = helper.make_node
    image = {"x": [1, 3, 8, 8]}
    yield "conv_bn_relu", model(
        [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
         node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]), node("Relu", ["n"], ["y"])],
        image, {"y": [1, 2, 8, 8]},
        [random_weights("w", 2, 3, 3, 3), *(constant(name, [1, 2]) for name in "sbmv")])
    yield "residual", model(
        [node("Conv", ["x", "w"], ["c"]), node("Add", ["c", "x"], ["a"]),
         node("Clip", ["a", "low", "high"], ["y"])],
        image, {"y": [1, 3, 8, 8]},
        [random_weights("w", 3, 3, 1, 1), constant("low", 0), constant("high", 6)])
    yield "pools", model(
        [node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
         node("AveragePool", ["p"], ["q"], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
         node("GlobalAveragePool", ["q"], ["g"]), node("Flatten", ["g"], ["y"])],
        image, {"y": [1, 3]})
    yield "gemm_softmax", model(
        [node("Gemm", ["x", "w", "b"], ["g"], transB=1, alpha=0.5), node("Softmax", ["g"], ["y"])],
        {"x": [2, 4]}, {"y": [2, 3]}, [random_weights("w", 3, 4), constant("b", [1, 2, 3])])
    yield "shape_arithmetic", model(
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["d"], axis=0),
         node("Unsqueeze", ["d", "axes"], ["u"]), node("Concat", ["u", "minus"], ["t"], axis=0),
         node("Reshape", ["x", "t"], ["y"])],
        {"x": [2, 3, 4]}, {"y": [2, 12]},
        [constant("zero", 0, np.int64), constant("axes", [0], np.int64), constant("minus", [-1], np.int64)])
    yield "moves", model(
        [node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
         node("Slice", ["t", "starts", "ends"], ["s"]),
         node("Pad", ["s", "pads"], ["p"]), node("Split", ["p", "sizes"], ["a", "b"], axis=3),
         node("Concat", ["b", "a"], ["y"], axis=3)],
        image, {"y": [1, 8, 9, 3]},
        [constant("starts", [0, 0], np.int64), constant("ends", [1, 8], np.int64),
         constant("pads", [0, 0, 0, 0, 0, 0, 1, 0], np.int64), constant("sizes", [1, 2], np.int64)])
    yield "elementwise", model(
        [node("Sigmoid", ["x"], ["a"]), node("Mul", ["a", "k"], ["b"]), node("Exp", ["b"], ["c"]),
         node("Div", ["c", "a"], ["d"]), node("Pow", ["d", "k"], ["e"]), node("Sum", ["e", "x"], ["y"])],
        {"x": [2, 5]}, {"y": [2, 5]}, [constant("k", [1, 2, 3, 4, 5])], opset=15)
    yield "reductions", model(
        [node("ReduceMean", ["x"], ["m"], axes=[2, 3], keepdims=1), node("Sub", ["x", "m"], ["d"]),
         node("ReduceMax", ["d"], ["y"], axes=[1], keepdims=0)],
        image, {"y": [1, 8, 8]}, opset=11)
    yield "old_opset", model(
        [node("Squeeze", ["x"], ["s"], axes=[0]), node("Unsqueeze", ["s"], ["u"], axes=[0]),
         node("Dropout", ["u"], ["d"], ratio=0.5), node("Softmax", ["d"], ["y"], axis=1)],
        {"x": [1, 2, 3]}, {"y": [1, 2, 3]}, opset=9)
    cycle = model([node("Relu", ["b"], ["a"]), node("Relu", ["a"], ["b"])], {"x": [1]}, {"b": [1]})
    yield "cycle", cycle
    yield "huge_shape", model([node("Relu", ["x"], ["y"])], {"x": [1 << 40, 1 << 30]}, {"y": [1 << 40, 1 << 30]})


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus")
    out.mkdir(parents=True, exist_ok=True)
    for name, proto in seeds():
        (out / f"{name}.onnx").write_bytes(proto.SerializeToString())
    (out / "truncated.onnx").write_bytes((out / "moves.onnx").read_bytes()[:200])


if __name__ == "__main__":
    main()
