#!/usr/bin/env python3
"""Writes a decoder of texts with random weights of 4 bits, in the form of onnxruntime-genai: its
inputs, its nodes (GroupQueryAttention, MatMulNBits, GatherBlockQuantized) and their order.

Usage: genai.py SHAPE FILE [--accuracy N] [--layers N] [--past N]
       genai.py DEPTHxCOLUMNS FILE [--accuracy N]     (one product of one row)
"""

import argparse
import dataclasses
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32
SEED = 29


@dataclasses.dataclass
class Shape:
    vocabulary: int
    hidden: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    positions: int = 4096
    bias: bool = False  # of queries, keys and values
    theta: float = 10000.0

    @property
    def head(self):
        return self.hidden // self.heads


SHAPES = {"qwen2_0_5b": Shape(151936, 896, 4864, 24, 14, 2, bias=True, theta=1e6),
          "tinyllama": Shape(32000, 2048, 5632, 22, 32, 4),
          "small": Shape(96, 64, 96, 2, 4, 2, positions=64, bias=True)}


class Writer:
    """A graph under construction; weights are seeded by their order."""

    def __init__(self, shape, accuracy):
        self.shape, self.accuracy = shape, accuracy
        self.nodes, self.weights = [], []
        self.random = np.random.default_rng(SEED)

    def weight(self, name, array):
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, inputs, outputs, domain="", **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(helper.make_node(op, inputs, outputs, name=f"/{outputs[0]}", domain=domain, **attributes))
        return outputs[0]

    def microsoft(self, op, inputs, outputs, **attributes):
        return self.node(op, inputs, outputs, "com.microsoft", **attributes)

    def blocks(self, name, rows, depth):
        """Levels [rows,blocks,BLOCK/2] around 8, and scales [rows,blocks] that keep the size of activations."""
        count = depth // BLOCK
        levels = self.random.integers(0, 256, (rows, count, BLOCK // 2), dtype=np.uint8)
        spread = 4.6 * np.sqrt(depth)  # the deviation of levels, and the sum of `depth` products
        scales = (self.random.uniform(0.5, 1.5, (rows, count)) / spread).astype(np.float32)
        return self.weight(f"{name}.qweight", levels), self.weight(f"{name}.scales", scales)

    def linear(self, name, x, depth, columns):
        levels, scales = self.blocks(name, columns, depth)
        return self.multiply(name, x, levels, scales, depth, columns)

    def multiply(self, name, x, levels, scales, depth, columns):
        return self.microsoft("MatMulNBits", [x, levels, scales], name, K=depth, N=columns, bits=4, block_size=BLOCK,
                              accuracy_level=self.accuracy)

    def norm_weight(self, name):
        return self.weight(f"{name}.weight", self.random.uniform(0.5, 1.5, self.shape.hidden).astype(np.float32))


def lengths(w):
    """The last position of each row, and the number of keys, from the mask."""
    total = w.node("ReduceSum", ["attention_mask", w.weight("one", np.array([1]))], "mask/sum", keepdims=0)
    last = w.node("Sub", [total, w.weight("one/scalar", np.array(1))], "mask/last")
    w.node("Cast", [last], "seqlens_k", to=TensorProto.INT32)
    dims = w.node("Shape", ["attention_mask"], "mask/shape")
    keys = w.node("Gather", [dims, w.weight("axis", np.array(1))], "mask/keys", axis=0)
    w.node("Cast", [keys], "total_seq_len", to=TensorProto.INT32)


def rotary(w):
    shape = w.shape
    rates = shape.theta ** (-np.arange(0, shape.head, 2) / shape.head)
    angles = np.arange(shape.positions)[:, None] * rates
    return [w.weight("cos_cache", np.cos(angles).astype(np.float32)),
            w.weight("sin_cache", np.sin(angles).astype(np.float32))]


def attention(w, i, x, tables):
    shape, name = w.shape, f"layers.{i}/attn"
    columns = (shape.heads + 2 * shape.key_heads) * shape.head
    qkv = w.linear(f"{name}/qkv", x, shape.hidden, columns)
    if shape.bias:
        bias = w.weight(f"{name}/qkv.bias", w.random.normal(0, 0.5, columns).astype(np.float32))
        qkv = w.node("Add", [qkv, bias], f"{name}/qkv/add")
    past = [f"past_key_values.{i}.key", f"past_key_values.{i}.value"]
    present = [f"present.{i}.key", f"present.{i}.value"]
    w.microsoft("GroupQueryAttention", [qkv, "", "", *past, "seqlens_k", "total_seq_len", *tables], [name, *present],
                num_heads=shape.heads, kv_num_heads=shape.key_heads, do_rotary=1, rotary_interleaved=0,
                scale=shape.head ** -0.5)
    return w.linear(f"{name}/o_proj", name, shape.heads * shape.head, shape.hidden)


def gated(w, i, x):
    shape, name = w.shape, f"layers.{i}/mlp"
    gate = w.linear(f"{name}/gate", x, shape.hidden, shape.inner)
    up = w.linear(f"{name}/up", x, shape.hidden, shape.inner)
    active = w.node("Mul", [gate, w.node("Sigmoid", [gate], f"{name}/sigmoid")], f"{name}/silu")
    return w.linear(f"{name}/down", w.node("Mul", [active, up], f"{name}/product"), shape.inner, shape.hidden)


def decoder(shape, accuracy=4, past=None, positions=False):
    """`past`: one token behind so many, of one text; all shapes are fixed, and there is no mask. `positions`: learned
    positions too, by an input position_ids."""
    w = Writer(shape, accuracy)
    if past is not None:
        w.weight("attention_mask", np.ones((1, past + 1), np.int64))
    lengths(w)
    tables = rotary(w)
    table = w.blocks("embed", shape.vocabulary, shape.hidden)
    flat = [numpy_helper.to_array(w.weights[-2]).reshape(shape.vocabulary, -1)]
    w.weights[-2] = numpy_helper.from_array(flat[0], table[0])
    x = w.microsoft("GatherBlockQuantized", [table[0], "input_ids", table[1]], "embed", bits=4, block_size=BLOCK,
                    gather_axis=0, quantize_axis=1)
    x = w.node("Mul", [x, w.weight("embed/factor", np.array(shape.hidden ** 0.5, np.float32))], "embed/scaled")
    if positions:
        learned = w.random.standard_normal((shape.positions, shape.hidden)).astype(np.float32)
        places = w.node("Gather", [w.weight("embed/positions", learned), "position_ids"], "embed/places")
        x = w.node("Add", [x, places], "embed/placed")
    normal = w.node("SimplifiedLayerNormalization", [x, w.norm_weight("layers.0/norm")], "layers.0/norm", axis=-1,
                    epsilon=1e-6, stash_type=1)
    for i in range(shape.layers):
        for part, nexts in ((lambda y, i=i: attention(w, i, y, tables), f"layers.{i}/post_norm"),
                            (lambda y, i=i: gated(w, i, y), f"layers.{i + 1}/norm")):
            last = nexts == f"layers.{shape.layers}/norm"
            outputs = [nexts] if last else [nexts, "", "", f"{nexts}/sum"]
            normal = w.microsoft("SkipSimplifiedLayerNormalization", [x, part(normal), w.norm_weight(nexts)], outputs,
                                 epsilon=1e-6)
            x = outputs[-1]
    levels, scales = w.blocks("lm_head", shape.vocabulary, shape.hidden)
    w.multiply("logits", normal, levels, scales, shape.hidden, shape.vocabulary)
    return model_of(w, past, positions)


def value(name, kind, dims):
    return helper.make_tensor_value_info(name, kind, dims)


def model_of(w, past, positions):
    shape = w.shape
    batch, rows, keys, total = (("batch_size", "sequence_length", "past_sequence_length", "total_sequence_length")
                                if past is None else (1, 1, past, past + 1))

    def caches(prefix, length):
        return [value(f"{prefix}.{i}.{kind}", TensorProto.FLOAT, [batch, shape.key_heads, length, shape.head])
                for i in range(shape.layers) for kind in ("key", "value")]
    mask = [value("attention_mask", TensorProto.INT64, [batch, total])] if past is None else []
    places = [value("position_ids", TensorProto.INT64, [batch, rows])] if positions else []
    inputs = [value("input_ids", TensorProto.INT64, [batch, rows]), *mask, *places, *caches("past_key_values", keys)]
    outputs = [value("logits", TensorProto.FLOAT, [batch, rows, shape.vocabulary]), *caches("present", total)]
    return finish(w, inputs, outputs)


def product(depth, columns, accuracy):
    w = Writer(None, accuracy)
    w.linear("y", "x", depth, columns)
    return finish(w, [value("x", TensorProto.FLOAT, [1, depth])], [value("y", TensorProto.FLOAT, [1, columns])])


def finish(w, inputs, outputs):
    graph = helper.make_graph(w.nodes, "main_graph", inputs, outputs, w.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 10
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", help=f"{', '.join(SHAPES)}, or such as 896x4864")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--accuracy", type=int, default=4, help="accuracy_level of MatMulNBits")
    parser.add_argument("--layers", type=int, help="fewer than the shape has")
    parser.add_argument("--past", type=int, help="fixed shapes: one token behind so many")
    words = parser.parse_args()
    words.file.parent.mkdir(parents=True, exist_ok=True)
    if words.shape in SHAPES:
        shape = SHAPES[words.shape]
        shape = dataclasses.replace(shape, layers=words.layers or shape.layers)
        model = decoder(shape, words.accuracy, words.past)
    else:
        model = product(*map(int, words.shape.split("x")), words.accuracy)
    onnx.save(model, str(words.file))


if __name__ == "__main__":
    main()
