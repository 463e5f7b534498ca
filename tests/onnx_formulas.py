"""Formulas that exporters write as several ops and the compiler fuses, and some that only look alike."""

import math

import numpy as np

from onnx_cases import Case, node

PADS = [1, 1, 1, 1]


def scalars(**numbers):
    return {name: np.float32(number) for name, number in numbers.items()}


def layer_norm(x="x", y="y", axes=(-1,), square="Pow"):
    power = node("Pow", "c two", "p") if square == "Pow" else node("Mul", "c c", "p")
    return [node("ReduceMean", x, "m", axes=list(axes)), node("Sub", f"{x} m", "c"), power,
            node("ReduceMean", "p", "v", axes=list(axes)), node("Add", "v eps", "a"),
            node("Sqrt", "a", "s"), node("Div", "c s", y)]


def norms():
    numbers = scalars(two=2, eps=1e-5, one=1, three=3)
    x, scaled = {"x": [2, 7, 19]}, [node("Mul", "n g", "h"), node("Add", "h b")]
    parameters = {**numbers, "g": (19,), "b": (19,)}
    yield Case("layer_norm", 13, layer_norm(y="n") + scaled, x, parameters)
    yield Case("layer_norm_squares", 13, layer_norm(y="n", square="Mul") + scaled, x, parameters)
    yield Case("layer_norm_alone", 13, layer_norm(), x, numbers)
    yield Case("layer_norm_two_axes", 13, layer_norm(y="n", axes=(1, 2)) + scaled, x,
               {**numbers, "g": (7, 19), "b": (19,)})
    yield Case("layer_norm_bias_only", 13, layer_norm(y="n") + [node("Add", "b n")], x, parameters)
    yield Case("layer_norm_scale_is_an_input", 13, layer_norm(y="n") + [node("Mul", "n g")],
               {**x, "g": [19]}, numbers)
    yield Case("layer_norm_scale_by_row", 13, layer_norm(y="n") + [node("Mul", "n g")], x,
               {**numbers, "g": (7, 1)})
    yield Case("layer_norm_grows", 13, layer_norm(y="n") + [node("Mul", "n g")], x,
               {**numbers, "g": (3, 1, 1, 19)})
    yield Case("layer_norm_of_middle_axis", 13, layer_norm(axes=(1,)), x, numbers)
    yield Case("layer_norm_of_fourth_powers", 13, layer_norm(), x, {**numbers, "two": np.float32(4)})
    yield Case("layer_norm_used_twice", 13, layer_norm(y="n") + [node("Mul", "n g", "h"),
                                                                  node("Add", "h n")],
               x, parameters)
    rms = [node("Pow", "x two", "p"), node("ReduceMean", "p", "v", axes=[-1]),
           node("Add", "v eps", "a"), node("Sqrt", "a", "s")]
    yield Case("rms_norm", 13, rms + [node("Div", "one s", "r"), node("Mul", "x r", "n"),
                                      node("Mul", "g n")], x, parameters)
    yield Case("rms_norm_reciprocal", 13, rms + [node("Reciprocal", "s", "r"),
                                                 node("Mul", "r x", "n"), node("Mul", "n g")],
               x, parameters)
    yield Case("rms_norm_of_another", 13, rms + [node("Div", "z s")], {**x, "z": [2, 7, 19]},
               numbers)
    yield Case("rms_norm_then_bias", 13, rms + [node("Div", "x s", "n"), node("Add", "n b")], x,
               parameters)


def activations():
    numbers = scalars(half=0.5, one=1, root=math.sqrt(2), inverse=math.sqrt(0.5), three=3,
                      cubic=0.044715, factor=math.sqrt(2 / math.pi), other=0.7)
    x = {"x": [3, 5, 17]}
    erf = [node("Div", "x root", "d"), node("Erf", "d", "e"), node("Add", "e one", "g")]
    yield Case("gelu_product_first", 13, erf + [node("Mul", "x g", "m"), node("Mul", "m half")], x,
               numbers)
    yield Case("gelu_half_first", 13, erf + [node("Mul", "x half", "m"), node("Mul", "m g")], x,
               numbers)
    yield Case("gelu_half_of_gate", 13, erf + [node("Mul", "half g", "m"), node("Mul", "x m")], x,
               numbers)
    yield Case("gelu_by_product", 13, [node("Mul", "x inverse", "d"), *erf[1:],
                                       node("Mul", "x g", "m"), node("Mul", "m half")], x, numbers)
    yield Case("gelu_of_another", 13, erf + [node("Mul", "z g", "m"), node("Mul", "m half")],
               {**x, "z": [3, 5, 17]}, numbers)
    yield Case("gelu_other_factor", 13, erf + [node("Mul", "x g", "m"), node("Mul", "m other")], x,
               numbers)
    tanh = [node("Pow", "x three", "p"), node("Mul", "cubic p", "q"), node("Add", "x q", "a"),
            node("Mul", "a factor", "f"), node("Tanh", "f", "t"), node("Add", "t one", "g"),
            node("Mul", "half x", "m"), node("Mul", "m g")]
    yield Case("gelu_tanh", 13, tanh, x, numbers)
    yield Case("swish", 13, [node("Sigmoid", "x", "s"), node("Mul", "x s")], x)
    yield Case("swish_of_another", 13, [node("Sigmoid", "x", "s"), node("Mul", "z s")],
               {**x, "z": [3, 5, 17]})


def attention(scores, inputs, weights=None, transposed="0231", heads=2):
    """q, k and v [1, rows, heads, columns] as [1, heads, rows, columns]; `scores` makes t of s."""
    nodes = [node("Transpose", "q", "qt", perm=[0, 2, 1, 3]),
             node("Transpose", "k", "kt", perm=[int(axis) for axis in transposed]),
             node("Transpose", "v", "vt", perm=[0, 2, 1, 3]), node("MatMul", "qt kt", "s"),
             *scores, node("Softmax", "t", "p", axis=-1), node("MatMul", "p vt", "o"),
             node("Transpose", "o", "y", perm=[0, 2, 1, 3])]
    shapes = {"q": [1, 7, heads, 16], "k": [1, 13, heads, 16], "v": [1, 13, heads, 11], **inputs}
    return nodes, shapes, {**scalars(scale=4, low=-1e4), **(weights or {})}


def attentions():
    scale = node("Div", "s scale", "t")
    for label, scores, inputs in (
            ("scaled", [scale], {}),
            ("unscaled", [node("Identity", "s", "t")], {}),
            ("masked", [node("Div", "s scale", "d"), node("Add", "d mask", "t")],
             {"mask": [1, 1, 1, 13]}),
            ("mask_first", [node("Div", "s scale", "d"), node("Add", "mask d", "t")],
             {"mask": [1, 2, 7, 13]}),
            ("mask_by_row", [node("Add", "s mask", "t")], {"mask": [7, 1]}),
            ("chosen", [node("Greater", "mask low", "b"), node("Where", "b s low", "t")],
             {"mask": [1, 1, 7, 13]}),
            ("masked_then_scaled", [node("Add", "s mask", "d"), node("Div", "d scale", "t")],
             {"mask": [1, 1, 1, 13]})):
        yield Case(f"attention_{label}", 13, *attention(scores, inputs))
    keep = {"keep": np.tril(np.ones((7, 13), bool), 3)}
    choice = [node("Div", "s scale", "d"), node("Where", "keep d low", "w"),
              node("Add", "w mask", "t")]
    yield Case("attention_causal", 13, *attention(choice, {"mask": [1, 1, 1, 13]}, keep))
    inverted = [node("Div", "s scale", "d"), node("Where", "keep low d", "t")]
    yield Case("attention_inverted", 13, *attention(inverted, {}, keep))
    nodes, shapes, weights = attention([node("Identity", "s", "t")], {})
    nodes[3:4] = [node("Mul", "qt scale", "qs"), node("MatMul", "qs kt", "s")]
    yield Case("attention_scaled_queries", 13, nodes, shapes, weights)
    nodes, shapes, weights = attention([scale], {})
    yield Case("attention_of_heads", 13, nodes[:-1], shapes, weights, ("o",))
    yield Case("attention_probabilities_too", 13, nodes, shapes, weights, ("y", "p"))


def epilogues():
    """Functions and residuals after convolutions and products with matrices."""
    x, w = {"x": [1, 40, 9, 9]}, {"w": (40, 40, 3, 3), "b": (40,)}
    c = node("Conv", "x w b", "c", pads=PADS)
    for op, attributes in (("LeakyRelu", {"alpha": 0.1}), ("Sigmoid", {}), ("Tanh", {}),
                           ("HardSwish", {}), ("HardSigmoid", {"alpha": 0.3}), ("Softplus", {}),
                           ("Elu", {"alpha": 0.5})):
        last = node(op, "c", "a", **attributes)
        yield Case(f"conv_{op.lower()}", 14, [c, last], x, w, ("a",))
        yield Case(f"conv_{op.lower()}_residual", 14, [c, last, node("Add", "x a")], x, w)
    yield Case("conv_relu_residual", 13, [c, node("Relu", "c", "a"), node("Add", "a x")], x, w)
    yield Case("conv_residual_leakyrelu", 13,
               [c, node("Add", "c x", "a"), node("LeakyRelu", "a")], x, w)
    swish = [node("Sigmoid", "c", "s"), node("Mul", "c s")]
    yield Case("conv_swish", 13, [c, *swish], x, w)
    depthwise = node("Conv", "x d", "c", group=40, pads=PADS)
    yield Case("depthwise_swish", 13, [depthwise, *swish], x, {"d": (40, 1, 3, 3)})
    yield Case("grouped_leakyrelu", 13, [node("Conv", "x d", "c", group=2, pads=PADS),
                                         node("LeakyRelu", "c")], x, {"d": (40, 20, 3, 3)})
    yield Case("gemv_sigmoid_residual", 13,
               [node("MatMul", "x w", "m"), node("Sigmoid", "m", "s"), node("Add", "s x")],
               {"x": [1, 61]}, {"w": (61, 61)})
    squeeze = [node("GlobalAveragePool", "x", "p"), node("Conv", "p r", "q"),
               node("Sigmoid", "q", "e"), node("Mul", "q e", "h"), node("Conv", "h u", "k"),
               node("Sigmoid", "k", "g"), node("Mul", "x g")]
    yield Case("squeeze_excite", 13, squeeze, x, {"r": (5, 40, 1, 1), "u": (40, 5, 1, 1)})


def signals():
    """Convolutions over one axis."""
    x, w = {"x": [2, 20, 53]}, {"w": (20, 20, 5), "u": (20, 1, 3), "b": (20,)}
    c = node("Conv", "x w b", "c", pads=[2, 2])
    yield Case("conv1d", 13, [node("Conv", "x w b", pads=[1, 3], strides=[2], dilations=[2])], x, w)
    yield Case("conv1d_chain", 13, [c, node("Relu", "c", "r"), node("Conv", "r w", "d", pads=[2, 2]),
                                    node("Add", "d x", "a"), node("Relu", "a")], x, w)
    yield Case("conv1d_depthwise", 13, [c, node("Conv", "c u", "d", group=20, pads=[1, 1]),
                                        node("Sigmoid", "d", "s"), node("Mul", "d s", "m"),
                                        node("Add", "m c")], x, w)
    yield Case("conv1d_bias", 13, [node("Conv", "x w", "d", pads=[2, 2]), node("Add", "d k")], x,
               {**w, "k": (20, 1)})
    yield Case("conv1d_pool_softmax", 13,
               [c, node("MaxPool", "c", "p", kernel_shape=[3], strides=[2]),
                node("Transpose", "p", "t", perm=[0, 2, 1]), node("Softmax", "t", axis=-1)], x, w)
    split = {"s": np.array([2, 4, 5, 7, 11]), "m": np.array([2, 20, 7, 11])}
    image = node("Conv", "x w", "c", pads=PADS)
    yield Case("channel_shuffle", 13,
               [image, node("Reshape", "c s", "r"), node("Transpose", "r", "t", perm=[0, 2, 1, 3, 4]),
                node("Reshape", "t m", "d"), node("Conv", "d w", pads=PADS)],
               {"x": [2, 20, 7, 11]}, {"w": (20, 20, 3, 3), **split})
    yield Case("split_channels_to_rows", 13,
               [image, node("Reshape", "c s", "r"), node("Transpose", "r", perm=[0, 1, 3, 4, 2])],
               {"x": [2, 20, 7, 11]}, {"w": (20, 20, 3, 3), **split})
    yield Case("upsample_between", 13,
               [image, node("Resize", "c - z", "u", mode="nearest"), node("Conv", "u w", pads=PADS)],
               {"x": [2, 20, 7, 11]}, {"w": (20, 20, 3, 3), "z": np.array([1, 1, 2, 2], np.float32)})


def formulas():
    yield from signals()
    yield from norms()
    yield from activations()
    yield from attentions()
    yield from epilogues()
