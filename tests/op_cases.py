"""Small models of one op of ai.onnx each, for ops that onnx_cases.py has no word for."""

import numpy as np

from contrib_cases import OpCase, bytes_of, floats, number, random_of


def onnx_case(name, op, inputs, feeds, **more):
    return OpCase(name, op, tuple(inputs), feeds, domain="", **more)


def regions():
    image = floats("roi", 2, 7, 13, 11)
    boxes = np.array([[0, 0, 9, 9], [2.5, 1.25, 7.5, 12], [-3, -2, 4, 40], [5, 5, 5, 5]], np.float32)
    feeds = {"x": image, "rois": boxes, "batch": np.array([0, 1, 1, 0])}
    for name, more in (("plain", {}), ("adaptive", {"sampling_ratio": 0, "spatial_scale": 0.5}),
                       ("max", {"mode": "max", "sampling_ratio": 2}),
                       ("whole_pixels", {"coordinate_transformation_mode": "output_half_pixel"})):
        attributes = {"output_height": 3, "output_width": 5, "sampling_ratio": 2} | more
        yield onnx_case(f"RoiAlign_{name}", "RoiAlign", ("x", "rois", "batch"), feeds, attributes=attributes)
    yield onnx_case("RoiAlign_10", "RoiAlign", ("x", "rois", "batch"), feeds, opset=10,
                    attributes={"output_height": 2, "output_width": 2, "sampling_ratio": 3})


def samples():
    grid = floats("grid", 2, 5, 6, 2) * 0.8
    feeds = {"x": floats("sampled", 2, 9, 7, 8), "g": grid}
    for opset, modes in ((16, ("bilinear", "nearest", "bicubic")), (20, ("linear", "nearest", "cubic"))):
        for mode in modes:
            for padding in ("zeros", "border", "reflection"):
                for corners in (0, 1):
                    yield onnx_case(
                        f"GridSample_{opset}_{mode}_{padding}_{corners}", "GridSample", ("x", "g"), feeds, opset=opset,
                        attributes={"mode": mode, "padding_mode": padding, "align_corners": corners})
    volume = {"x": floats("volume", 1, 3, 4, 5, 6), "g": floats("grid3", 1, 2, 3, 4, 3) * 0.8}
    for mode in ("linear", "nearest"):
        yield onnx_case(f"GridSample_volume_{mode}", "GridSample", ("x", "g"), volume, opset=20,
                        attributes={"mode": mode})


def recurrent():
    steps, batch, size, hidden = 5, 3, 4, 6
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}
    lengths = np.array([2, 5, 3], np.int32)
    # In the order of the functions that have them. Affine and ScaledTanh have no defaults that engines agree on.
    parameters = {"LSTM": {}, "GRU": {"activation_alpha": [0.3, 0.2, 1.2], "activation_beta": [0.4, 0.7]},
                  "RNN": {"activation_alpha": [0.5], "activation_beta": [0.25]}}
    for op, count in gates.items():
        for name, directions, more, weights in (
                ("lengths", 1, {}, {"l": lengths}),
                ("lengths_reverse", 1, {"direction": "reverse"}, {"l": lengths}),
                ("lengths_both", 2, {"direction": "bidirectional"}, {"l": lengths}),
                ("clip", 1, {"clip": 0.3}, {}),
                ("functions", 2, parameters[op] | {"direction": "bidirectional", "activations": {
                    "LSTM": ["HardSigmoid", "Relu", "Softsign", "Sigmoid", "Elu", "Tanh"],
                    "GRU": ["HardSigmoid", "LeakyRelu", "Sigmoid", "ScaledTanh"], "RNN": ["Softplus", "Affine"]}[op]},
                 {})):
            arrays = {"w": floats("rw" + op, directions, count * hidden, size) / 2,
                      "r": floats("rr" + op, directions, count * hidden, hidden) / 2,
                      "b": floats("rb" + op, directions, 2 * count * hidden) / 2,
                      "h": floats("rh" + op, directions, batch, hidden) / 2} | weights
            inputs = ["x", "w", "r", "b", "l" if "l" in weights else "", "h"]
            yield onnx_case(f"{op}_{name}", op, inputs, {"x": floats("rx", steps, batch, size)}, weights=arrays,
                            attributes={"hidden_size": hidden} | more, outputs=3 if op == "LSTM" else 2, opset=14)
    arrays = {"w": floats("mw", 1, 8, 3) / 2, "r": floats("mr", 1, 8, 2) / 2}
    yield onnx_case("LSTM_computed_lengths", "LSTM", ("x", "w", "r", "", "l"),
                    {"x": floats("mx", 4, 2, 3), "l": np.array([3, 1], np.int32)}, weights=arrays,
                    attributes={"hidden_size": 2}, outputs=3, opset=14)
    yield onnx_case("LSTM_coupled", "LSTM", ("x", "w", "r"), {"x": floats("mx", 4, 2, 3)}, weights=arrays,
                    attributes={"hidden_size": 2, "input_forget": 1}, outputs=3, opset=14)
    long = {"w": floats("lw", 1, 6, 1) / 2, "r": floats("lr", 1, 6, 2) / 2}
    yield onnx_case("GRU_long", "GRU", ("x", "w", "r"), {"x": floats("lx", 1500, 1, 1)}, weights=long,
                    attributes={"hidden_size": 2}, outputs=2, opset=14)


def weights_of(name, *shape, kind=np.int8):
    """ONNX Runtime's products of UINT8 and large INT8 saturate on CPUs without VNNI."""
    return bytes_of(name, *shape, kind=kind) if kind == np.uint8 else bytes_of(name, *shape, kind=kind) // np.int8(3)


def integers():
    for kind, zero in ((np.uint8, 131), (np.int8, 3)):
        weights = {"w": weights_of("mi", 700, 37, kind=kind), "xz": number(120, np.uint8),
                   "wz": number(zero, kind)}
        name = np.dtype(kind).name
        for rows in (1, 5, 53):
            yield onnx_case(f"MatMulInteger_{name}_{rows}", "MatMulInteger", ("x", "w", "xz", "wz"),
                            {"x": bytes_of("mx", 2, rows, 700)}, weights=weights, opset=17)
        each = {"w": weights["w"], "xz": weights["xz"],
                "wz": random_of("wz").integers(0, 9, 37).astype(kind)}
        yield onnx_case(f"MatMulInteger_columns_{name}", "MatMulInteger", ("x", "w", "xz", "wz"),
                        {"x": bytes_of("mx", 9, 700)}, weights=each, opset=17)
    yield onnx_case("MatMulInteger_computed", "MatMulInteger", ("x", "w", "xz"),
                    {"x": bytes_of("ca", 2, 3, 7, 21), "w": bytes_of("cb", 2, 3, 21, 19)},
                    weights={"xz": number(7, np.uint8)}, opset=17)
    for name, shape, image, more in (
            ("long", (5, 40, 3, 3), (1, 40, 9, 7), {"pads": [1, 1, 1, 1]}),
            ("groups", (6, 20, 5, 3), (2, 40, 9, 7), {"group": 2, "strides": [2, 1], "dilations": [1, 2]}),
            ("line", (4, 90, 5), (1, 90, 31), {"pads": [2, 2], "strides": [2]}),
            ("short", (5, 3, 3, 3), (1, 3, 9, 7), {})):
        yield onnx_case(f"ConvInteger_{name}", "ConvInteger", ("x", "w", "xz"), {"x": bytes_of("ci" + name, *image)},
                        weights={"w": bytes_of("cw" + name, *shape, kind=np.uint8), "xz": number(119, np.uint8)},
                        attributes=more, opset=17)
    convolution = {"xs": number(0.02), "xz": number(128, np.uint8), "w": weights_of("qw", 5, 3, 3, 3),
                   "ws": floats("qws", 5) ** 2 / 90 + 0.001, "wz": np.zeros(5, np.int8), "ys": number(0.11),
                   "yz": number(99, np.uint8), "b": random_of("qb").integers(-900, 900, 5).astype(np.int32)}
    yield onnx_case("QLinearConv", "QLinearConv", ("x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"),
                    {"x": bytes_of("qx", 2, 3, 9, 7)}, weights=convolution, attributes={"pads": [1, 1, 1, 1]}, steps=1,
                    opset=17)
    ranks = {"s": number([0.05]), "z": number(7, np.uint8)}
    yield onnx_case("DequantizeLinear_ranks", "DequantizeLinear", ("x", "s", "z"), {"x": bytes_of("dq", 3, 5, 33)},
                    weights=ranks, opset=17)
    yield onnx_case("QuantizeLinear_ranks", "QuantizeLinear", ("x", "s", "z"), {"x": floats("ql", 3, 5, 33) * 9},
                    weights=ranks, opset=17)
    yield onnx_case("DynamicQuantizeLinear", "DynamicQuantizeLinear", ("x",), {"x": floats("dyn", 7, 91)}, outputs=3,
                    opset=17, steps=1)


def all_cases():
    for family in (regions, samples, recurrent, integers):
        yield from family()
