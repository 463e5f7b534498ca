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
    steps, size, hidden = 5, 4, 6
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
                ("many", 1, {}, {}),
                ("functions", 2, parameters[op] | {"direction": "bidirectional", "activations": {
                    "LSTM": ["HardSigmoid", "Relu", "Softsign", "Sigmoid", "Elu", "Tanh"],
                    "GRU": ["HardSigmoid", "LeakyRelu", "Sigmoid", "ScaledTanh"], "RNN": ["Softplus", "Affine"]}[op]},
                 {})):
            batch = 15 if name == "many" else 3
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
    some = floats("qn", 3, 33)
    some[:, 5:9] = [np.nan, np.inf, -np.inf, -np.nan]
    yield onnx_case("QuantizeLinear_nan", "QuantizeLinear", ("x", "s", "z"), {"x": some}, weights=ranks, opset=17)
    yield onnx_case("DynamicQuantizeLinear", "DynamicQuantizeLinear", ("x",), {"x": floats("dyn", 7, 91)}, outputs=3,
                    opset=17, steps=1)


def resizes():
    image = {"x": floats("resized", 1, 2, 20, 7)}
    scales = {"s": number([1, 1, 0.3, 1.7])}
    sizes = {"n": np.array([1, 2, 6, 11])}
    for coordinates in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"):
        for mode, more in (("nearest", "round_prefer_floor"), ("nearest", "round_prefer_ceil"), ("nearest", "floor"),
                           ("nearest", "ceil"), ("linear", None), ("cubic", None)):
            attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
            if more:
                attributes["nearest_mode"] = more
            name = f"Resize_{coordinates}_{mode}_{more}"
            if (coordinates, more) == ("half_pixel_symmetric", "ceil"):
                continue  # the middle pixel lies on a whole number: rounding errors decide
            yield onnx_case(f"{name}_scales", "Resize", ("x", "", "s"), image, weights=scales, attributes=attributes,
                            opset=19)
            yield onnx_case(f"{name}_sizes", "Resize", ("x", "", "", "n"), image, weights=sizes, attributes=attributes,
                            opset=19)


def pools():
    for op in ("AveragePool", "MaxPool", "LpPool"):
        for number_of, (shape, kernel, strides, pads, dilations) in enumerate((
                ((2, 3, 4, 4), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
                ((1, 5, 9, 10), (3, 4), (3, 2), (0, 1, 2, 3), (1, 1)),
                ((1, 2, 11, 9), (2, 3), (2, 3), (1, 0, 0, 1), (2, 1)),
                ((1, 3, 13), (4,), (3,), (1, 0), (1,)),
                ((1, 2, 5, 6, 7), (2, 3, 3), (2, 2, 3), (0, 1, 1, 1, 1, 0), (1, 1, 1)))):
            for ceil in (0, 1):
                attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": ceil}
                if op != "LpPool":  # engines ignore its dilations
                    attributes["dilations"] = dilations
                elif max(dilations) > 1:
                    continue
                counts = (0, 1) if op == "AveragePool" else (None,)
                for count in counts:
                    more = {} if count is None else {"count_include_pad": count}
                    yield onnx_case(f"{op}_{number_of}_{ceil}_{count}", op, ("x",), {"x": floats("pool", *shape)},
                                    attributes=attributes | more, opset=19)


def masked():
    feeds = {"q": floats("q", 2, 3, 4, 8), "k": floats("k", 2, 3, 5, 8), "v": floats("v", 2, 3, 5, 6)}
    flags = random_of("keep").integers(0, 2, (2, 1, 4, 5)).astype(bool)
    flags[1, 0, 2] = False
    flags[0, 0, 0] = False
    adds = np.where(flags, random_of("add").standard_normal(flags.shape), -np.inf).astype(np.float32)
    for kind, mask in (("bool", flags), ("float", adds)):
        for rank in (4, 2):
            own = mask if rank == 4 else mask[1, 0]
            for where in ("input", "constant"):
                given = feeds | {"m": own} if where == "input" else feeds
                yield onnx_case(f"Attention_{kind}_{rank}_{where}", "Attention", ("q", "k", "v", "m"), given,
                                weights={} if where == "input" else {"m": own}, opset=23)
    yield onnx_case("Attention_causal_dead_row", "Attention", ("q", "k", "v", "m"), feeds | {"m": flags},
                    attributes={"is_causal": 1}, opset=23)


def transforms():
    # With a length of its own, ONNX Runtime 1.32 differs from numpy.fft.irfft; a test of the compiler has those.
    for axis, length in ((1, None), (2, None)):
        spectrum = {"x": floats("spectrum", 2, 6, 7, 2)}
        weights = {"a": np.array(axis)} | ({} if length is None else {"n": np.array(length)})
        inputs = ("x", "" if length is None else "n", "a")
        yield onnx_case(f"DFT_to_real_{axis}_{length}", "DFT", inputs, spectrum, weights=weights,
                        attributes={"inverse": 1, "onesided": 1}, opset=20)


def deformed():
    for name, x, w, groups, offset_groups, window in (
            ("plain", (1, 2, 6, 6), (3, 2, 3, 3), 1, 1, {"pads": [1, 1, 1, 1]}),
            ("groups", (2, 4, 7, 5), (6, 2, 2, 3), 2, 2, {"strides": [2, 1], "pads": [0, 1, 1, 0]}),
            ("dilated", (1, 3, 9, 8), (4, 3, 3, 2), 1, 3, {"dilations": [2, 3]}),
            ("one_pixel", (1, 2, 1, 5), (2, 2, 1, 1), 1, 1, {})):
        strides, dilations = window.get("strides", [1, 1]), window.get("dilations", [1, 1])
        pads = window.get("pads", [0, 0, 0, 0])
        out = [(x[2 + i] + pads[i] + pads[2 + i] - (w[2 + i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in (0, 1)]
        points = offset_groups * w[2] * w[3]
        feeds = {"x": floats("dx" + name, *x), "o": floats("do" + name, x[0], 2 * points, *out) * 2,
                 "m": floats("dm" + name, x[0], points, *out)}
        weights = {"w": floats("dw" + name, *w), "b": floats("db" + name, w[0])}
        attributes = {"group": groups, "offset_group": offset_groups, "kernel_shape": w[2:]} | window
        yield onnx_case(f"DeformConv_{name}", "DeformConv", ("x", "w", "o", "b", "m"), feeds, weights=weights,
                        attributes=attributes, opset=19)
        yield onnx_case(f"DeformConv_{name}_bare", "DeformConv", ("x", "w", "o"),
                        {"x": feeds["x"], "o": feeds["o"]}, weights={"w": weights["w"]}, attributes=attributes,
                        opset=19)


def quantised_tables():
    indices = {"i": np.array([[0, 5, 2], [3, 3, 1]])}
    for bits, columns in ((4, 24), (8, 48)):
        for zeros in (False, True):
            weights = {"w": bytes_of("table", 6, columns), "s": floats("scales", 6, 3) ** 2}
            inputs = ["w", "i", "s"]
            if zeros:
                weights["z"] = bytes_of("zeros", 6, 2 if bits == 4 else 3)
                inputs.append("z")
            yield OpCase(f"GatherBlockQuantized_{bits}_{zeros}", "GatherBlockQuantized", tuple(inputs), indices,
                         weights, {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}, opset=21)


def ml_case(name, op, attributes, x=None, outputs=1):
    rows = random_of("ml").standard_normal((9, 4)).astype(np.float32) if x is None else x
    return OpCase(name, op, ("x",), {"x": rows}, {}, attributes, outputs, domain="ai.onnx.ml")


def forest(classes, trees=5, depth=4, mode="BRANCH_LEQ", signs=True):
    """Full trees, in which every leaf gives something to one class."""
    random = random_of(f"forest{classes}{mode}")
    nodes = {name: [] for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids",
                                   "falsenodeids", "missing_value_tracks_true", "hitrates")}
    leaves = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        for node in range(2 ** depth - 1):
            leaf = node >= 2 ** (depth - 1) - 1
            values = (tree, node, int(random.integers(4)), "LEAF" if leaf else mode, float(random.normal()),
                      0 if leaf else 2 * node + 1, 0 if leaf else 2 * node + 2, int(random.integers(2)), 1.0)
            for name, value in zip(nodes, values):
                nodes[name].append(value)
            if leaf:
                weight = float(random.normal()) if signs else float(random.random()) / trees
                for name, value in zip(leaves, (tree, node, (tree + node) % classes, weight)):
                    leaves[name].append(value)
    return {f"nodes_{name}": value for name, value in nodes.items()}, leaves


def classical():
    yield ml_case("Scaler", "Scaler", {"offset": [1.0, 2.0, 3.0, 4.0], "scale": [0.5, 2.0, 1.0, 3.0]})
    yield ml_case("Scaler_integers", "Scaler", {"offset": [1.0], "scale": [0.5]}, np.arange(12).reshape(3, 4))
    zeros = np.concatenate([floats("rows", 5, 4), np.zeros((1, 4), np.float32)])
    for norm in ("MAX", "L1", "L2"):
        yield ml_case(f"Normalizer_{norm}", "Normalizer", {"norm": norm}, zeros)
    yield ml_case("Binarizer", "Binarizer", {"threshold": 0.25})
    for transform in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        for classes in (1, 2, 3):
            coefficients = floats(f"coefficients{classes}", classes * 4).tolist()
            more = {"coefficients": coefficients, "intercepts": floats(f"intercepts{classes}", classes).tolist(),
                    "post_transform": transform}
            yield ml_case(f"LinearRegressor_{transform}_{classes}", "LinearRegressor", more | {"targets": classes})
            labels = {"classlabels_ints": list(range(3, 3 + max(classes, 2)))}
            yield ml_case(f"LinearClassifier_{transform}_{classes}", "LinearClassifier", more | labels, outputs=2)
    for mode in ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"):
        nodes, leaves = forest(2, mode=mode)
        targets = {f"target_{name}": value for name, value in leaves.items()} | {"n_targets": 2}
        for aggregate in ("SUM", "AVERAGE"):
            yield ml_case(f"TreeEnsembleRegressor_{mode}_{aggregate}", "TreeEnsembleRegressor",
                          nodes | targets | {"aggregate_function": aggregate, "base_values": [0.5, -1.0]})
    missing = floats("missing", 9, 4)
    missing[::2, 1] = missing[1::3, 2] = np.nan
    nodes, leaves = forest(1)
    targets = {f"target_{name}": value for name, value in leaves.items()} | {"n_targets": 1}
    yield ml_case("TreeEnsembleRegressor_missing", "TreeEnsembleRegressor", nodes | targets, missing)
    for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
        for classes in (1, 3):
            for signs in (True, False):
                nodes, leaves = forest(classes, signs=signs)
                given = {f"class_{name}": value for name, value in leaves.items()}
                labels = {"classlabels_int64s": list(range(max(classes, 2))), "post_transform": transform}
                yield ml_case(f"TreeEnsembleClassifier_{transform}_{classes}_{signs}", "TreeEnsembleClassifier",
                              nodes | given | labels, outputs=2)


def all_cases():
    for family in (regions, samples, recurrent, integers, resizes, pools, masked, transforms, deformed,
                   quantised_tables, classical):
        yield from family()
