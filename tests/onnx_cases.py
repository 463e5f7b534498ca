"""Small ONNX models, each for one property of one op or for one combination of ops.

Sizes are odd and prime on purpose, so that they do not fit a tile or a vector.
"""

import dataclasses
import zlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


@dataclasses.dataclass
class Case:
    name: str
    opset: int
    nodes: list
    inputs: dict  # name -> shape; a string in a shape is a symbolic dimension
    weights: dict = dataclasses.field(default_factory=dict)  # array, or shape
    outputs: tuple = ("y",)
    low: float = None  # the inputs are uniform in low..high; default: normal
    high: float = None
    weights_are_inputs: bool = False  # list weights as inputs, as files before IR version 4 do

    def __post_init__(self):
        self.random = np.random.default_rng(zlib.crc32(self.name.encode()))
        self.weights = {name: self._array(value) for name, value in self.weights.items()}

    def _array(self, value):
        if isinstance(value, tuple):
            return self.random.uniform(-1, 1, value).astype(np.float32)
        return np.asarray(value)

    def model(self):
        inputs = [helper.make_tensor_value_info(name, FLOAT, shape)
                  for name, shape in self.inputs.items()]
        if self.weights_are_inputs:
            inputs += [helper.make_tensor_value_info(name, FLOAT, array.shape)
                       for name, array in self.weights.items()]
        # Without shapes: Lagoon must infer them.
        outputs = [helper.make_tensor_value_info(name, FLOAT, None) for name in self.outputs]
        graph = helper.make_graph(
            self.nodes, self.name, inputs, outputs,
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 3 if self.weights_are_inputs else 8
        return model

    def feed(self):
        """Input arrays. A symbolic dimension is 1, as in Lagoon."""
        arrays = {}
        for name, shape in self.inputs.items():
            shape = [size if isinstance(size, int) else 1 for size in shape]
            if self.low is None:
                array = self.random.standard_normal(shape)
            else:
                array = self.random.uniform(self.low, self.high, shape)
            arrays[name] = array.astype(np.float32)
        return arrays


def node(op, inputs, outputs="y", **attributes):
    """make_node with names in one string; '-' is an optional input that is left out."""
    inputs = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op, inputs, outputs.split(), name=f"{op}_{outputs.split()[0]}",
                            **attributes)


def single(name, op, shape, opset=13, inputs="x", weights=None, low=None, high=None, **attributes):
    """A model of one node with the input x."""
    return Case(f"{name}-{opset}", opset, [node(op, inputs, **attributes)], {"x": shape},
                weights or {}, low=low, high=high)


def conv(name, x, w, opset=13, bias=False, **attributes):
    weights = {"w": w, **({"b": (w[0],)} if bias else {})}
    return single(f"conv_{name}", "Conv", x, opset, "x w b" if bias else "x w", weights,
                  **attributes)


def convolutions():
    yield conv("plain", [1, 3, 9, 11], (5, 3, 3, 3))
    yield conv("opset9_bias", [1, 3, 9, 11], (17, 3, 3, 3), opset=9, bias=True, pads=[1, 1, 1, 1])
    yield conv("opset17", [1, 33, 7, 5], (19, 33, 1, 1), opset=17, bias=True)
    yield conv("batch", [3, 5, 7, 7], (6, 5, 3, 3), bias=True, pads=[1, 1, 1, 1])
    yield conv("stride", [1, 4, 13, 17], (8, 4, 3, 3), strides=[2, 3], pads=[1, 1, 1, 1])
    yield conv("unequal_pads", [1, 4, 9, 9], (3, 4, 3, 3), pads=[0, 2, 1, 3])
    yield conv("pads_beyond_kernel", [1, 2, 5, 5], (3, 2, 3, 3), pads=[4, 4, 4, 4])
    yield conv("dilation", [1, 3, 15, 13], (4, 3, 3, 3), dilations=[2, 3], pads=[2, 3, 2, 3])
    yield conv("wide_kernel", [1, 3, 31, 29], (8, 3, 7, 7), strides=[2, 2], pads=[3, 3, 3, 3])
    yield conv("flat_kernel", [1, 3, 9, 9], (4, 3, 1, 5), pads=[0, 2, 0, 2])
    yield conv("whole_image", [1, 7, 6, 6], (11, 7, 6, 6), bias=True)
    yield conv("same_upper", [1, 3, 10, 11], (4, 3, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2])
    yield conv("same_lower", [1, 3, 10, 11], (4, 3, 4, 4), auto_pad="SAME_LOWER", strides=[3, 2])
    yield conv("valid", [1, 3, 10, 11], (4, 3, 4, 4), auto_pad="VALID")
    yield conv("one_by_one_strided", [1, 16, 9, 9], (24, 16, 1, 1), strides=[2, 2])
    yield conv("one_pixel", [1, 130, 1, 1], (67, 130, 1, 1), bias=True)
    yield conv("deep", [1, 256, 7, 7], (65, 256, 3, 3), pads=[1, 1, 1, 1])
    yield conv("depthwise", [1, 13, 9, 9], (13, 1, 3, 3), bias=True, group=13, pads=[1, 1, 1, 1])
    yield conv("depthwise_stride", [2, 32, 11, 8], (32, 1, 5, 5), group=32, strides=[2, 2],
               pads=[2, 2, 2, 2])
    yield conv("depthwise_dilated", [1, 6, 12, 12], (6, 1, 3, 3), group=6, dilations=[2, 2])
    yield conv("grouped", [1, 12, 9, 9], (8, 6, 3, 3), bias=True, group=2, pads=[1, 1, 1, 1])
    yield conv("grouped_ones", [2, 9, 5, 5], (6, 3, 1, 1), group=3)
    yield conv("channel_multiplier", [1, 5, 9, 9], (15, 1, 3, 3), bias=True, group=5)
    yield conv("explicit_shape", [1, 3, 8, 8], (4, 3, 2, 2), opset=11, kernel_shape=[2, 2])


def pools():
    window = {"kernel_shape": [3, 3], "strides": [2, 2]}
    for opset in (11, 17):
        yield single("maxpool", "MaxPool", [1, 5, 13, 12], opset, **window)
        yield single("maxpool_ceil", "MaxPool", [1, 5, 12, 14], opset, ceil_mode=1, **window)
    yield single("maxpool", "MaxPool", [1, 5, 13, 12], 9, **window)
    yield single("maxpool_negative", "MaxPool", [1, 3, 8, 8], pads=[1, 1, 1, 1], low=-9, high=-1,
                 **window)
    yield single("maxpool_unequal", "MaxPool", [2, 3, 9, 7], kernel_shape=[2, 3], pads=[0, 1, 1, 2])
    yield single("maxpool_dilated", "MaxPool", [1, 3, 11, 11], kernel_shape=[3, 3],
                 dilations=[2, 2])
    yield single("maxpool_same", "MaxPool", [1, 3, 10, 9], auto_pad="SAME_UPPER", **window)
    yield single("averagepool", "AveragePool", [1, 5, 13, 12], 9, **window)
    padded = {**window, "pads": [1, 1, 1, 1]}
    yield single("averagepool_padded", "AveragePool", [1, 17, 11, 11], **padded)
    yield single("averagepool_counts", "AveragePool", [1, 17, 11, 11], count_include_pad=1,
                 **padded)
    yield single("averagepool_ceil", "AveragePool", [1, 4, 12, 12], ceil_mode=1, **window)
    yield single("averagepool_one", "AveragePool", [1, 9, 7, 7], kernel_shape=[7, 7])
    yield single("globalaverage", "GlobalAveragePool", [2, 19, 7, 5])
    yield single("globalmax", "GlobalMaxPool", [1, 19, 7, 5], low=-5, high=-1)


def gemms():
    x = [7, 19]
    for opset in (9, 13):
        yield single("gemm", "Gemm", x, opset, "x w b", {"w": (19, 23), "b": (23,)})
    yield single("gemm_transposed", "Gemm", x, inputs="x w b", weights={"w": (23, 19), "b": (23,)},
                 transB=1)
    yield single("gemm_scaled", "Gemm", x, inputs="x w b", weights={"w": (23, 19), "b": (23,)},
                 transB=1, alpha=0.5, beta=-2.0)
    yield single("gemm_no_bias", "Gemm", x, inputs="x w", weights={"w": (19, 23)}, alpha=3.0)
    yield single("gemm_bias_scalar", "Gemm", x, inputs="x w b", weights={"w": (19, 23), "b": (1,)})
    yield single("gemm_one_row", "Gemm", [1, 509], inputs="x w b",
                 weights={"w": (1000, 509), "b": (1000,)}, transB=1)
    yield single("gemm_one_column", "Gemm", [3, 50], inputs="x w", weights={"w": (50, 1)})
    yield single("matmul", "MatMul", x, inputs="x w", weights={"w": (19, 23)})
    yield single("matmul_rank3", "MatMul", [2, 7, 19], inputs="x w", weights={"w": (19, 23)})


def softmaxes():
    """Before opset 13 softmax runs over all axes from `axis` on, later over `axis` alone."""
    for op in ("Softmax", "LogSoftmax"):
        for opset in (9, 11, 13, 17):
            for axis in (1, 2, -1):
                yield single(f"{op.lower()}_axis{axis}", op, [2, 5, 3, 7], opset, axis=axis)
        yield single(f"{op.lower()}_default", op, [3, 4, 5], 11)
        yield single(f"{op.lower()}_default", op, [3, 4, 5], 13)
        yield single(f"{op.lower()}_large", op, [1, 1000], 13, low=-300, high=300)
    yield single("softmax_one", "Softmax", [4, 1])


def unaries():
    shape = [2, 3, 7, 5]
    for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "LeakyRelu", "HardSigmoid",
               "Identity"):
        yield single(op.lower(), op, shape, low=-6, high=6)
    yield single("hardswish", "HardSwish", shape, 14, low=-6, high=6)
    yield single("leakyrelu_slope", "LeakyRelu", shape, alpha=0.3)
    yield single("hardsigmoid_slope", "HardSigmoid", shape, alpha=0.4, beta=0.3)
    yield single("sigmoid_far", "Sigmoid", shape, low=-100, high=100)
    yield single("tanh_far", "Tanh", shape, low=-100, high=100)
    yield single("log", "Log", shape, low=0.01, high=50)
    yield single("sqrt", "Sqrt", shape, low=0, high=50)
    yield single("relu_rank1", "Relu", [37])
    bounds = {"low": np.float32(-0.5), "high": np.float32(0.75)}
    yield single("clip_attributes", "Clip", shape, 9, min=-0.5, max=0.75)
    yield single("clip_inputs", "Clip", shape, 11, "x low high", bounds)
    yield single("clip_low_only", "Clip", shape, 13, "x low", {"low": bounds["low"]})
    yield single("clip_high_only", "Clip", shape, 13, "x - high", {"high": bounds["high"]})
    yield single("clip_none", "Clip", shape, 13)


def binaries():
    left, right = [2, 5, 7, 3], [2, 5, 7, 3]
    for op in ("Add", "Sub", "Mul", "Div", "Min", "Max"):
        yield Case(f"{op.lower()}_inputs", 13, [node(op, "a b")], {"a": left, "b": right})
    for label, shape in (("scalar", ()), ("one", (1,)), ("row", (3,)), ("channel", (5, 1, 1)),
                         ("outer", (2, 1, 1, 1)), ("inner", (7, 3))):
        yield single(f"add_{label}", "Add", left, inputs="x w",
                     weights={"w": np.full(shape, 1.25, np.float32)})
        yield single(f"sub_reverse_{label}", "Sub", left, inputs="w x", weights={"w": shape})
    yield Case("mul_both_ways", 13, [node("Mul", "a b")], {"a": [4, 1, 3], "b": [5, 1]})
    yield Case("mul_gate", 13, [node("Mul", "a b")], {"a": [1, 9, 5, 5], "b": [1, 9, 1, 1]})
    yield Case("add_itself", 13, [node("Add", "x x")], {"x": [3, 5]})
    yield single("pow_two", "Pow", left, inputs="x w", weights={"w": np.float32(2)})
    yield single("pow_root", "Pow", left, inputs="x w", weights={"w": np.float32(0.3)}, low=0.01,
                 high=9)
    yield Case("sum_of_three", 13, [node("Sum", "a b c")], {"a": [2, 3], "b": [2, 3], "c": [2, 3]})
    yield Case("max_of_three", 13, [node("Max", "a b c")], {"a": [2, 3], "b": [2, 3], "c": [2, 3]})


def reductions():
    shape = [2, 5, 7, 3]
    for op in ("ReduceMean", "ReduceMax", "ReduceMin"):
        for axes in ([1], [2, 3], [-1], [0, 1, 2, 3]):
            label = "_".join(str(axis) for axis in axes)
            yield single(f"{op.lower()}_{label}", op, shape, 11, axes=axes, keepdims=0)
    yield single("reducemean_keep", "ReduceMean", shape, axes=[2, 3], keepdims=1)
    yield single("reducemean_all", "ReduceMean", shape)
    yield single("reducesum_attribute", "ReduceSum", shape, 11, axes=[1, 2])
    yield single("reducesum_input", "ReduceSum", shape, 13, "x axes", {"axes": np.array([1, 2])})
    yield single("reducesum_noop", "ReduceSum", shape, 13, noop_with_empty_axes=1)
    yield single("reducemean_apart", "ReduceMean", shape, axes=[1, 3], keepdims=0)


def moves():
    shape = [2, 3, 4, 5]
    for permutation in ([0, 2, 3, 1], [3, 2, 1, 0], [1, 0, 2, 3], [0, 1, 3, 2]):
        yield single(f"transpose_{''.join(map(str, permutation))}", "Transpose", shape,
                     perm=permutation)
    yield single("transpose_default", "Transpose", [3, 4, 5])
    yield single("flatten", "Flatten", shape)
    yield single("flatten_axis0", "Flatten", shape, axis=0)
    yield single("flatten_axis-1", "Flatten", shape, 11, axis=-1)
    for label, target in (("fixed", [6, 20]), ("infer", [0, -1, 2]), ("rank5", [1, 2, 3, 4, 5])):
        yield single(f"reshape_{label}", "Reshape", shape, inputs="x s",
                     weights={"s": np.array(target)})
    yield single("squeeze_attribute", "Squeeze", [2, 1, 3, 1], 11, axes=[1, 3])
    yield single("squeeze_input", "Squeeze", [2, 1, 3, 1], 13, "x a", {"a": np.array([-1])})
    yield single("unsqueeze_attribute", "Unsqueeze", [2, 3], 9, axes=[0, 3])
    yield single("unsqueeze_input", "Unsqueeze", [2, 3], 13, "x a", {"a": np.array([0, -1])})
    for axis in (0, 1, 2, 3, -1):
        second = list(shape)
        second[axis] = 7
        yield Case(f"concat_axis{axis}", 13, [node("Concat", "a b a", axis=axis)],
                   {"a": shape, "b": second})
    yield Case("concat_twenty", 13, [node("Concat", " ".join(["x"] * 20), axis=1)],
               {"x": [1, 3, 2, 2]})
    pads = [0, 1, 0, 2, 0, 0, 3, 1]
    yield single("pad_attribute", "Pad", shape, 9, pads=pads, value=1.5)
    yield single("pad_input", "Pad", shape, 13, "x p v", {"p": np.array(pads), "v": np.float32(-2)})
    yield single("pad_default", "Pad", shape, 11, "x p", {"p": np.array(pads)})
    yield Case("split_equal", 11, [node("Split", "x", "y z", axis=1)], {"x": [2, 6, 3]},
               outputs=("y", "z"))
    yield Case("split_sizes", 13, [node("Split", "x s", "y z", axis=1)], {"x": [2, 7, 3]},
               {"s": np.array([2, 5])}, ("y", "z"))
    yield Case("split_attribute", 11, [node("Split", "x", "y z", axis=-1, split=[1, 4])],
               {"x": shape}, outputs=("y", "z"))
    yield from slices(shape)


def slices(shape):
    yield single("slice_attribute", "Slice", shape, 9, starts=[1, 0], ends=[3, -2], axes=[1, 3])
    for label, words in (("plain", ([1, 1], [3, 9], [2, 3], [1, 1])),
                         ("steps", ([0, 1], [3, 5], [1, 3], [2, 3])),
                         ("negative", ([-3], [-1], [-2], [1])),
                         ("beyond", ([-99], [2**62], [3], [2]))):
        arrays = dict(zip(("st", "en", "ax", "sp"), map(np.array, words)))
        yield single(f"slice_{label}", "Slice", shape, 13, "x st en ax sp", arrays)
    for op in ("Exp", "Sigmoid", "Relu"):
        yield Case(f"slice_{op.lower()}", 13, [node("Slice", "x st en ax", "s"), node(op, "s")],
                   {"x": shape}, {"st": np.array([1, 1]), "en": np.array([3, 9]),
                                  "ax": np.array([2, 3])})


def batch_norm_weights(channels, prefix=""):
    random = np.random.default_rng(channels)
    names = [prefix + name for name in ("g", "s", "m", "v")]
    arrays = [random.uniform(0.5, 1.5, channels) for _ in names]
    return " ".join(names), {name: array.astype(np.float32) for name, array in zip(names, arrays)}


def fusions():
    """Ops that the compiler fuses, and similar graphs that it must not fuse."""
    x, w, pads = {"x": [1, 6, 9, 9]}, {"w": (6, 6, 3, 3), "b": (6,)}, [1, 1, 1, 1]
    names, norm = batch_norm_weights(6)
    c = node("Conv", "x w b", "c", pads=pads)
    n = node("BatchNormalization", f"c {names}", "n", epsilon=1e-3)
    for opset in (9, 13, 15):
        yield Case(f"conv_norm_relu-{opset}", opset, [c, n, node("Relu", "n")], x, {**w, **norm})
    yield Case("norm_alone", 13, [node("BatchNormalization", f"x {names}")], x, norm)
    _, joined = batch_norm_weights(12)
    yield Case("norm_of_join_relu", 13,
               [c, node("Concat", "x c", "j", axis=1),
                node("BatchNormalization", f"j {names}", "n"), node("Relu", "n")],
               {"x": [2, 6, 9, 9]}, {**w, **joined})
    yield Case("norm_after_shared_conv", 13, [c, n, node("Add", "c n")], x, {**w, **norm})
    yield Case("norm_of_output", 13, [c, n], x, {**w, **norm}, ("c", "n"))
    yield Case("residual", 13, [c, n, node("Add", "n x", "a"), node("Relu", "a")], x, {**w, **norm})
    yield Case("residual_other_side", 13, [c, node("Add", "x c", "a"), node("Relu", "a")], x, w)
    yield Case("residual_of_itself", 13, [c, node("Add", "c c")], x, w)
    yield Case("residual_broadcast", 13, [c, node("Add", "c r")], {**x, "r": [1, 6, 1, 1]}, w)
    yield Case("residual_two_convs", 13,
               [c, node("Conv", "x w", "d", pads=pads), node("Add", "c d", "a"), node("Relu", "a")],
               x, w)
    yield Case("residual_then_used", 13, [c, node("Add", "c x", "a"), node("Relu", "a", "r"),
                                          node("Sub", "r a")], x, w)
    yield Case("conv_clip", 13, [c, node("Clip", "c lo hi")], x,
               {**w, "lo": np.float32(0), "hi": np.float32(0.5)})
    yield Case("conv_relu_relu", 13,
               [c, node("Relu", "c", "r"), node("Neg", "r", "n"), node("Relu", "n")], x, w)
    yield Case("conv_bias_add", 13, [node("Conv", "x w", "c", pads=pads), node("Add", "c k")], x,
               {"w": (6, 6, 3, 3), "k": (6, 1, 1)})
    yield Case("conv_scalar_mul", 13, [c, node("Mul", "c k")], x, {**w, "k": np.float32(0.25)})
    yield Case("depthwise_norm_clip", 11,
               [node("Conv", "x d", "c", group=6, pads=pads), n, node("Clip", "n lo hi")], x,
               {"d": (6, 1, 3, 3), **norm, "lo": np.float32(0), "hi": np.float32(6)})
    yield Case("gemm_relu_residual", 13,
               [node("Gemm", "x w b", "g"), node("Add", "g x", "a"), node("Relu", "a")],
               {"x": [3, 10]},
               {"w": (10, 10), "b": (10,)})
    yield Case("matmul_bias", 13, [node("MatMul", "x w", "m"), node("Add", "m b")],
               {"x": [4, 5, 10]},
               {"w": (10, 7), "b": (7,)})


def graphs():
    """Shapes of graphs: branches, several inputs and outputs, constants, folded shapes."""
    x = {"x": [1, 4, 6, 6]}
    w = {"w": (4, 4, 3, 3)}
    c = node("Conv", "x w", "c", pads=[1, 1, 1, 1])
    yield Case("output_and_its_user", 13, [c, node("Relu", "c")], x, w, ("c", "y"))
    yield Case("output_is_input", 13, [node("Relu", "x"), node("Identity", "x", "z")], x, {},
               ("y", "z"))
    yield Case("unused_input", 13, [node("Relu", "x")], {**x, "ignored": [3]})
    yield Case("unused_node", 13, [node("Relu", "x"), node("Sigmoid", "x", "unused")], x)
    yield Case("weights_as_inputs", 9, [c, node("Relu", "c")], x, w, weights_are_inputs=True)
    yield Case("symbolic_batch", 13, [c, node("Relu", "c")], {"x": ["N", 4, 6, 6]}, w)
    yield Case("dropout", 13, [node("Dropout", "x", "d"), node("Relu", "d")], x)
    yield Case("constant_node", 13,
               [helper.make_node("Constant", [], ["k"],
                                 value=numpy_helper.from_array(np.float32([2.5]))),
                node("Mul", "x k")], x)
    yield Case("folded_reshape", 13, [
        node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "target", axis=0), node("Reshape", "x target")], x,
        {"zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1])})
    yield Case("fire_module", 13, [
        node("Conv", "x s", "sq"), node("Relu", "sq", "sr"), node("Conv", "sr e1", "a"),
        node("Relu", "a", "ar"),
        node("Conv", "sr e3", "b", pads=[1, 1, 1, 1]), node("Relu", "b", "br"),
        node("Concat", "ar br", axis=1)], x,
               {"s": (3, 4, 1, 1), "e1": (5, 3, 1, 1), "e3": (7, 3, 3, 3)})
    yield Case("image_to_rows_and_back", 13, [
        c, node("Flatten", "c", "f"), node("Reshape", "f back", "i"), node("Add", "i x")], x,
        {**w, "back": np.array([1, 4, 6, 6])})
    yield Case("flatten_of_image_feeds_gemm", 13, [
        c, node("Flatten", "c", "f"), node("Gemm", "f g b", transB=1)], x,
        {**w, "g": (9, 144), "b": (9,)})
    yield Case("channels_last_inside", 13, [
        c, node("Transpose", "c", "t", perm=[0, 2, 3, 1]), node("Add", "t k", "u"),
        node("Transpose", "u", perm=[0, 3, 1, 2])], x, {**w, "k": (4,)})
    yield Case("squeeze_and_excite", 13, [
        c, node("GlobalAveragePool", "c", "p"), node("Conv", "p e", "q"), node("Sigmoid", "q", "g"),
        node("Mul", "c g")], x, {**w, "e": (4, 4, 1, 1)})
    yield Case("long_chain", 13,
               [node("Relu", f"v{i}" if i else "x", f"v{i + 1}" if i < 99 else "y")
                for i in range(100)], x)


def attention():
    """Products of two computed tensors, as in transformers."""
    q, k, v = [2, 3, 7, 16], [2, 3, 11, 16], [2, 3, 11, 16]
    scale = {"scale": np.float32(0.25)}
    yield Case("attention", 13,
               [node("Transpose", "k", "t", perm=[0, 1, 3, 2]), node("MatMul", "q t", "s"),
                node("Mul", "s scale", "m"), node("Softmax", "m", "p", axis=-1),
                node("MatMul", "p v")], {"q": q, "k": k, "v": v}, scale)
    yield Case("matmul_broadcast", 13, [node("MatMul", "a b")], {"a": [3, 1, 5, 7], "b": [2, 7, 9]})
    yield Case("matmul_vectors", 13, [node("MatMul", "a b")], {"a": [7], "b": [2, 7, 9]})
    for flip_a in (0, 1):
        for flip_b in (0, 1):
            a, b = ([7, 5], [5, 9])
            yield Case(f"gemm_computed_{flip_a}{flip_b}", 13,
                       [node("Gemm", "a b c", transA=flip_a, transB=flip_b, alpha=0.5, beta=2.0)],
                       {"a": a[::-1] if flip_a else a, "b": b[::-1] if flip_b else b, "c": [7, 9]})
    gelu = [node("Div", "x r2", "d"), node("Erf", "d", "e"), node("Add", "e one", "o"),
            node("Mul", "x o", "p"), node("Mul", "p half")]
    yield Case("gelu", 13, gelu, {"x": [5, 67]},
               {"r2": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)})
    yield single("layernorm", "LayerNormalization", [3, 5, 67], 17, "x s b",
                 {"s": (67,), "b": (67,)})
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        yield Case(f"{op.lower()}_both_ways", 14,
                   [node(op, "x w r b", "y h", hidden_size=13, direction="bidirectional")],
                   {"x": [6, 2, 5]}, {"w": (2, gates * 13, 5), "r": (2, gates * 13, 13),
                                      "b": (2, 2 * gates * 13)}, ("y", "h"))


def windows():
    """Convolutions, poolings and normalisations in less common forms: over one or three axes, transposed, computed."""
    yield conv("one_axis", [1, 5, 33], (7, 5, 3), bias=True, pads=[1, 1], strides=[2])
    yield conv("three_axes", [1, 3, 5, 6, 7], (4, 3, 3, 2, 3), bias=True, pads=[1, 0, 1, 1, 0, 1])
    yield conv("many_groups", [1, 130, 5, 5], (260, 1, 3, 3), group=130)
    yield Case("conv_computed", 13, [node("Conv", "x w", pads=[1, 1, 1, 1], strides=[2, 1])],
               {"x": [2, 4, 9, 9], "w": [6, 4, 3, 3]})
    for stride in (1, 2, 3):
        yield single(f"transposed_{stride}", "ConvTranspose", [1, 4, 5, 6], inputs="x w b",
                     weights={"w": (4, 3, 3, 3), "b": (3,)}, strides=[stride, stride],
                     pads=[1, 1, 1, 1])
    yield single("transposed_groups", "ConvTranspose", [1, 4, 5, 6], inputs="x w",
                 weights={"w": (4, 3, 3, 3)}, group=2, strides=[2, 2], dilations=[2, 1],
                 output_padding=[1, 0])
    yield single("maxpool_one_axis", "MaxPool", [1, 5, 33], kernel_shape=[3], strides=[2])
    yield single("averagepool_three_axes", "AveragePool", [1, 3, 5, 6, 7], kernel_shape=[2, 2, 2])
    yield single("globalaverage_one_axis", "GlobalAveragePool", [2, 5, 33])
    names, norm = batch_norm_weights(6)
    yield single("instancenorm", "InstanceNormalization", [2, 6, 5, 5], inputs="x g s",
                 weights={"g": norm["g"], "s": norm["s"]})
    yield single("instancenorm_large", "InstanceNormalization", [1, 6, 150, 150], inputs="x g s",
                 weights={"g": norm["g"], "s": norm["s"]})
    yield Case("groupnorm_large", 21, [node("GroupNormalization", "x g s", num_groups=2)], {"x": [2, 6, 90, 97]},
               {"g": norm["g"], "s": norm["s"]})
    yield single("layernorm_large", "LayerNormalization", [2, 3, 90, 97], 17, "x s b",
                 {"s": (3, 90, 97), "b": (3, 90, 97)}, axis=1)
    yield Case("batchnorm_computed", 13, [node("BatchNormalization", f"x {names}")],
               {"x": [2, 6, 5, 5], "m": [6], "v": [6]}, {"g": norm["g"], "s": norm["s"]},
               low=0.5, high=2)
    yield single("lrn", "LRN", [2, 7, 5, 5], size=5)
    for mode in ("nearest", "linear", "cubic"):
        yield single(f"resize_{mode}", "Resize", [1, 2, 5, 7], inputs="x - scales",
                     weights={"scales": np.array([1, 1, 2, 1.5], np.float32)}, mode=mode)
        for name, scales in (("grown", [1, 1, 1.5, 3]), ("shrunk", [1, 1, 0.75, 2])):
            between = [node("Conv", "x w", "a"), node("Resize", "a - scales", "b", mode=mode),
                       node("Concat", "b b", "c", axis=1), node("Sigmoid", "c", "d"), node("Conv", "d v")]
            yield Case(f"resize_{mode}_{name}_between_convs", 13, between, {"x": [2, 3, 8, 7]},
                       {"w": (9, 3, 1, 1), "v": (4, 18, 3, 3), "scales": np.array(scales, np.float32)})


def all_cases():
    families = (attention, windows, convolutions, pools, gemms, softmaxes, unaries, binaries, reductions, moves,
                fusions, graphs)
    cases = [case for family in families for case in family()]
    assert len({case.name for case in cases}) == len(cases), "two cases have one name"
    return cases


# Models that Lagoon refuses: name -> (nodes, op that the message names, opset).
# The input is x, constants are w and w2.
REFUSED = {
    "unknown_op": ([node("Frobnicate", "x")], "Frobnicate", 13),
    "computed_axes": ([node("Cast", "x", "a", to=TensorProto.INT64), node("Reshape", "w a")],
                      "Reshape", 13),
    "custom_domain": ([helper.make_node("Fancy", ["x"], ["y"], name="Fancy_y",
                                        domain="com.example")],
                      "Fancy", 13),
    "sub_graph": ([node("If", "w", then_branch=helper.make_graph([node("Relu", "x")], "t", [], []),
                        else_branch=helper.make_graph([node("Relu", "x")], "e", [], []))], "If",
                  13),
    "wrong_type": ([node("Cast", "x", "i", to=TensorProto.INT32), node("Softmax", "i")], "Softmax",
                   13),
    "channels_do_not_match": ([node("Conv", "x w2")], "Conv", 13),
    "missing_input": ([node("Add", "x nowhere")], "Add", 13),
    "new_opset": ([node("Relu", "x")], "", 99),
    "old_opset": ([node("Relu", "x")], "Relu", 5),
}


def refused_model(name):
    nodes, _, opset = REFUSED[name]
    weights = {"w": (4, 4, 3, 3), "w2": (4, 7, 3, 3)}
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info("x", FLOAT, [4, 4, 3, 3])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(np.ones(shape, np.float32), key)
         for key, shape in weights.items()])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.example", 1)]
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = 8
    return model
