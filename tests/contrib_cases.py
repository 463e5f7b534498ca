"""Small models of one op of com.microsoft each, or of an op that came to ai.onnx in opset 23."""

import dataclasses
import zlib

import numpy as np
from onnx import helper, numpy_helper

TYPES = {np.dtype(t): n for n, t in ((1, "float32"), (2, "uint8"), (3, "int8"), (6, "int32"), (7, "int64"),
                                     (9, "bool"), (10, "float16"), (11, "float64"))}


@dataclasses.dataclass
class OpCase:
    """`inputs`: in the node's order; a name of a weight or an input, "" for one that is left out."""
    name: str
    op: str
    inputs: tuple
    feeds: dict  # arrays that are inputs of the model
    weights: dict = dataclasses.field(default_factory=dict)  # arrays that are initialisers
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1  # or their names, "" for one that is left out
    opset: int = 17
    domain: str = "com.microsoft"
    steps: int = 0  # outputs are 8-bit integers, which may differ by so many
    compared: tuple = ()  # these outputs only; empty: all

    def output_names(self):
        return [f"y{i}" for i in range(self.outputs)] if isinstance(self.outputs, int) else list(self.outputs)

    def model(self):
        def value(name, array):
            return helper.make_tensor_value_info(name, TYPES[array.dtype], array.shape)
        node = helper.make_node(self.op, list(self.inputs), self.output_names(), name="n",
                                domain=self.domain, **self.attributes)
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.output_names() if name]
        graph = helper.make_graph(
            [node], self.name, [value(name, array) for name, array in self.feeds.items()], outputs,
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset),
                                                        helper.make_opsetid(self.domain or "com.microsoft", 1)])
        model.ir_version = 8
        return model


def random_of(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def floats(name, *shape):
    return random_of(name + "x").standard_normal(shape).astype(np.float32)


def bytes_of(name, *shape, kind=np.uint8):
    info = np.iinfo(kind)
    return random_of(name + "b").integers(info.min, info.max + 1, shape).astype(kind)


def number(value, kind=np.float32):
    return np.array(value, dtype=kind)


def activations():
    x = {"x": floats("act", 2, 5, 14)}
    bias = {"b": floats("bias", 14)}
    yield OpCase("gelu", "Gelu", ("x",), x)
    yield OpCase("bias_gelu", "BiasGelu", ("x", "b"), x, bias)
    yield OpCase("fast_gelu", "FastGelu", ("x",), x)
    yield OpCase("fast_gelu_bias", "FastGelu", ("x", "b"), x, bias)
    yield OpCase("quick_gelu", "QuickGelu", ("x",), x)
    yield OpCase("quick_gelu_alpha", "QuickGelu", ("x",), x, attributes={"alpha": 1.0})


def linear():
    x = {"x": floats("conv", 1, 3, 9, 11)}
    w = {"w": floats("w", 5, 3, 3, 3), "b": floats("wb", 5)}
    for activation, parameters in (("Relu", ()), ("Tanh", ()), ("Sigmoid", ()), ("LeakyRelu", (0.2,)),
                                   ("Clip", (-0.5, 0.75)), ("HardSigmoid", (0.3, 0.6))):
        attributes = {"activation": activation, "pads": [1, 1, 1, 1]}
        if parameters:
            attributes["activation_params"] = list(parameters)
        yield OpCase(f"fused_conv_{activation}", "FusedConv", ("x", "w", "b"), x, w, attributes)
    yield OpCase("fused_conv_sum", "FusedConv", ("x", "w", "b", "z"), x | {"z": floats("z", 1, 5, 9, 11)}, w,
                 {"activation": "Relu", "pads": [1, 1, 1, 1]})
    a = {"x": floats("gemm", 7, 6)}
    for activation, parameters in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.3}), ("Tanh", {})):
        yield OpCase(f"fused_gemm_{activation}", "FusedGemm", ("x", "w", "b"), a,
                     {"w": floats("gw", 5, 6), "b": floats("gb", 5)},
                     {"activation": activation, "transB": 1, "alpha": 0.5, **parameters})
    for name, a_shape, b_shape, attributes in (
            ("plain", (2, 3, 4, 5), (2, 3, 5, 6), {"alpha": 0.25}),
            ("transposed", (2, 3, 5, 4), (2, 3, 6, 5), {"transA": 1, "transB": 1, "alpha": 2.0}),
            ("batch_b", (3, 4, 5), (5, 3, 6), {"transBatchB": 1}),
            ("batch_both", (4, 3, 5), (6, 3, 5), {"transBatchA": 1, "transBatchB": 1, "transB": 1})):
        yield OpCase(f"fused_matmul_{name}", "FusedMatMul", ("a", "b"),
                     {"a": floats("a" + name, *a_shape), "b": floats("b" + name, *b_shape)}, {}, attributes)
    yield OpCase("fused_matmul_weights", "FusedMatMul", ("a", "b"), {"a": floats("a", 2, 4, 5)},
                 {"b": floats("b", 6, 5)}, {"transB": 1, "alpha": 0.5})
    yield OpCase("transpose_matmul", "TransposeMatMul", ("a", "b"), {"a": floats("a", 2, 5, 4)},
                 {"b": floats("b", 5, 6)}, {"transA": 1})
    yield OpCase("dynamic_pads", "ConvTransposeWithDynamicPads", ("x", "w", "p", "b"), x,
                 {"w": floats("tw", 3, 4, 3, 3), "p": np.array([1, 1, 1, 1]), "b": floats("tb", 4)},
                 {"strides": [2, 2]})


def norms():
    x = {"x": floats("norm", 2, 5, 12)}
    skip = {"s": floats("skip", 2, 5, 12)}
    w = {"g": floats("gamma", 12), "b": floats("beta", 12), "c": floats("bias", 12)}
    yield OpCase("layer_norm_opset_12", "LayerNormalization", ("x", "g", "b"), x, w, {"axis": -1}, opset=12,
                 domain="")
    yield OpCase("simplified", "SimplifiedLayerNormalization", ("x", "g"), x, w, {"epsilon": 1e-3}, domain="")
    yield OpCase("skip_layer_norm", "SkipLayerNormalization", ("x", "s", "g", "b", "c"), x | skip, w,
                 {"epsilon": 1e-5}, outputs=("y", "", "", "sum"))
    yield OpCase("skip_layer_norm_short", "SkipLayerNormalization", ("x", "s", "g"), x | skip, w)
    yield OpCase("skip_simplified", "SkipSimplifiedLayerNormalization", ("x", "s", "g", "c"), x | skip, w,
                 {"epsilon": 1e-5}, outputs=("y", "", "", "sum"))
    ids = {"ids": random_of("ids").integers(0, 30, (2, 6)).astype(np.int32)}
    segments = {"segments": random_of("seg").integers(0, 2, (2, 6)).astype(np.int32)}
    mask = {"mask": np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], dtype=np.int32)}
    tables = {"w": floats("words", 30, 12), "p": floats("positions", 10, 12), "t": floats("types", 2, 12),
              "g": w["g"], "b": w["b"]}
    yield OpCase("embed", "EmbedLayerNormalization", ("ids", "segments", "w", "p", "t", "g", "b", "mask"),
                 ids | segments | mask, tables, outputs=2)
    yield OpCase("embed_sum", "EmbedLayerNormalization", ("ids", "", "w", "p", "", "g", "b"), ids, tables,
                 outputs=("y", "", "sum"))


def attention():
    x = {"x": floats("attn", 2, 6, 8)}
    w = {"w": floats("qkv", 8, 24), "b": floats("qkvb", 24)}
    heads = {"num_heads": 2}
    rows = np.array([[1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1]], dtype=np.int32)
    for name, mask in (("none", None), ("rows", rows), ("lengths", np.array([4, 6], dtype=np.int32)),
                       ("ranges", np.array([4, 6, 0, 1], dtype=np.int32)),
                       ("full", np.tile(rows[:, None, :], (1, 6, 1)))):
        feeds = x if mask is None else x | {"m": mask}
        names = ("x", "w", "b") if mask is None else ("x", "w", "b", "m")
        yield OpCase(f"attention_{name}", "Attention", names, feeds, w, heads)
    yield OpCase("attention_causal", "Attention", ("x", "w", "b", "m"), x | {"m": rows * 0 + 1}, w,
                 heads | {"unidirectional": 1, "scale": 0.3})
    yield OpCase("attention_past", "Attention", ("x", "w", "b", "", "past"),
                 {"x": floats("attn1", 2, 3, 8), "past": floats("past", 2, 2, 2, 4, 4)}, w,
                 heads | {"unidirectional": 1}, outputs=2)
    yield OpCase("attention_bias", "Attention", ("x", "w", "b", "", "", "r"), x | {"r": floats("r", 1, 2, 6, 6)}, w,
                 heads)
    yield OpCase("attention_sizes", "Attention", ("x", "w", "b"), x,
                 {"w": floats("qkv", 8, 8 + 8 + 12), "b": floats("qkvb", 28)},
                 heads | {"qkv_hidden_sizes": [8, 8, 12]})


def multi_head():
    q = {"q": floats("q", 2, 3, 8)}
    kv = {"k": floats("k", 2, 5, 8), "v": floats("v", 2, 5, 12)}
    heads = {"num_heads": 2}
    yield OpCase("mha", "MultiHeadAttention", ("q", "k", "v"), q | kv, {}, heads)
    yield OpCase("mha_bias", "MultiHeadAttention", ("q", "k", "v", "b"), q | kv, {"b": floats("mb", 28)}, heads)
    yield OpCase("mha_mask", "MultiHeadAttention", ("q", "k", "v", "", "m"),
                 q | kv | {"m": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=np.int32)}, {}, heads)
    yield OpCase("mha_scores", "MultiHeadAttention", ("q", "k", "v", "", "", "r"),
                 q | kv | {"r": floats("r", 1, 2, 3, 5)}, {}, heads | {"scale": 0.2})
    past = {"pk": floats("pk", 2, 2, 4, 4), "pv": floats("pv", 2, 2, 4, 4)}
    square = {"k": floats("k", 2, 3, 8), "v": floats("v", 2, 3, 8)}
    yield OpCase("mha_past", "MultiHeadAttention", ("q", "k", "v", "", "", "", "pk", "pv"), q | square | past, {},
                 heads, outputs=3)
    yield OpCase("mha_causal", "MultiHeadAttention", ("q", "k", "v"), q | square, {}, heads | {"unidirectional": 1})
    for name, rows in (("rectangle", 3), ("one", 1)):  # more keys than queries: the last query keeps all of them
        yield OpCase(f"mha_causal_{name}", "MultiHeadAttention", ("q", "k", "v"), {"q": floats("q", 2, rows, 8)} | kv, {},
                     heads | {"unidirectional": 1})
        yield OpCase(f"mha_causal_{name}_past", "MultiHeadAttention", ("q", "k", "v", "", "", "", "pk", "pv"),
                     {"q": floats("q", 2, rows, 8), "k": kv["k"], "v": floats("v8", 2, 5, 8)} | past, {},
                     heads | {"unidirectional": 1}, outputs=3)
    tall = {"k": floats("k", 2, 2, 8), "v": floats("v", 2, 2, 8)}
    yield OpCase("mha_causal_tall", "MultiHeadAttention", ("q", "k", "v"), q | tall, {}, heads | {"unidirectional": 1})
    cross = {"k": floats("ck", 2, 2, 5, 4), "v": floats("cv", 2, 2, 5, 4)}
    yield OpCase("mha_cross", "MultiHeadAttention", ("q", "k", "v"), q | cross, {}, heads)


def grouped():
    def case(name, rows, past, attributes=None, packed=False, bias=None):
        q = {"q": floats("gq", 1, rows, 64 if not packed else 64 + 64)}
        kv = {} if packed else {"k": floats("gk", 1, rows, 32), "v": floats("gv", 1, rows, 32)}
        cache = {"pk": floats("gpk", 1, 2, past, 16), "pv": floats("gpv", 1, 2, past, 16)} if past else {}
        total = past + rows
        angles = np.outer(np.arange(32), 1.0 / 100 ** (np.arange(8) / 8)).astype(np.float32)
        weights = {"last": np.array([total - 1], dtype=np.int32), "total": number(total, np.int32),
                   "cos": np.cos(angles), "sin": np.sin(angles)}
        inputs = ("q", *(("", "") if packed else ("k", "v")), *(("pk", "pv") if past else ("", "")),
                  "last", "total", "cos", "sin")
        feeds = q | kv | cache
        if bias is not None:
            inputs, feeds = (*inputs, "", "bias"), feeds | {"bias": bias}
        return OpCase(name, "GroupQueryAttention", inputs, feeds, weights,
                      {"num_heads": 4, "kv_num_heads": 2} | (attributes or {}), outputs=3)
    yield case("gqa", 5, 0)
    yield case("gqa_step", 1, 6)
    yield case("gqa_rotary", 5, 0, {"do_rotary": 1})
    yield case("gqa_rotary_step", 1, 6, {"do_rotary": 1, "rotary_interleaved": 1})
    yield case("gqa_packed", 1, 6, {"do_rotary": 1}, packed=True)
    yield case("gqa_window", 7, 0, {"local_window_size": 3})
    yield case("gqa_window_step", 1, 9, {"local_window_size": 3})
    for name, attributes in (("gqa_batch", {}), ("gqa_batch_rotary", {"do_rotary": 1, "local_window_size": 4})):
        one = case(name, 1, 6, attributes)
        feeds = {key: np.concatenate([array, array[..., ::-1]]) for key, array in one.feeds.items()}
        yield dataclasses.replace(one, feeds=feeds | {"last": np.array([6, 6], np.int32)},
                                  weights={key: one.weights[key] for key in ("total", "cos", "sin")})
        yield dataclasses.replace(one, name=name + "_ragged", feeds=feeds | {"last": np.array([6, 3], np.int32)},
                                  weights={key: one.weights[key] for key in ("total", "cos", "sin")},
                                  compared=("y0",))  # the rest of a row's cache may have anything
    yield case("gqa_softcap", 5, 0, {"softcap": 5.0, "scale": 0.5})
    # The past is a buffer with room for 12 keys; ONNX Runtime leaves what is behind the keys in use undefined.
    for name, rows, total, last in (("first", 5, 5, (4,)), ("step", 1, 7, (6,)), ("chunk", 3, 9, (8,)),
                                    ("ragged", 1, 7, (6, 3))):
        one = case(f"gqa_buffer_{name}", rows, 12, {"do_rotary": 1})
        feeds = {key: np.concatenate([array, array[..., ::-1]])[:len(last)] for key, array in one.feeds.items()}
        yield dataclasses.replace(one, feeds=feeds | {"last": np.array(last, np.int32)}, compared=("y0",),
                                  weights={"total": number(total, np.int32), "cos": one.weights["cos"], "sin": one.weights["sin"]})


def rotary():
    angles = np.outer(np.arange(20), 1.0 / 100 ** (np.arange(4) / 4)).astype(np.float32)
    tables = {"cos": np.cos(angles), "sin": np.sin(angles)}
    rows, heads = {"x": floats("rot", 2, 5, 24)}, {"x": floats("rot4", 2, 3, 5, 8)}
    positions = {"p": random_of("pos").integers(0, 20, (2, 5)).astype(np.int64)}
    yield OpCase("rotary_rows", "RotaryEmbedding", ("x", "p", "cos", "sin"), rows | positions, tables)
    yield OpCase("rotary_offset", "RotaryEmbedding", ("x", "p", "cos", "sin"), heads | {"p": np.array([7])}, tables)
    yield OpCase("rotary_interleaved", "RotaryEmbedding", ("x", "p", "cos", "sin"), heads | positions, tables,
                 {"interleaved": 1})
    partial = {"x": floats("rot", 2, 5, 36)}
    yield OpCase("rotary_partial", "RotaryEmbedding", ("x", "p", "cos", "sin"), partial | positions, tables,
                 {"num_heads": 3, "rotary_embedding_dim": 8})
    yield OpCase("onnx_rotary", "RotaryEmbedding", ("x", "cos", "sin", "p"), heads | positions, tables, opset=23,
                 domain="")
    yield OpCase("onnx_rotary_rows", "RotaryEmbedding", ("x", "cos", "sin", "p"), rows | positions, tables,
                 {"num_heads": 3, "interleaved": 1}, opset=23, domain="")
    yield OpCase("onnx_rotary_given", "RotaryEmbedding", ("x", "cos", "sin"), heads,
                 {"cos": tables["cos"][:10].reshape(2, 5, 4), "sin": tables["sin"][:10].reshape(2, 5, 4)}, opset=23,
                 domain="")


def opset23():
    q = {"q": floats("oq", 2, 4, 3, 8)}
    kv = {"k": floats("ok", 2, 2, 5, 8), "v": floats("ov", 2, 2, 5, 6)}

    def case(name, feeds, inputs=("q", "k", "v"), attributes=None, outputs=1):
        return OpCase(name, "Attention", inputs, feeds, {}, attributes or {}, outputs, opset=23, domain="")
    yield case("onnx_attention", q | kv)
    yield case("onnx_attention_bias", q | kv | {"m": floats("om", 3, 5)}, ("q", "k", "v", "m"), {"scale": 0.4})
    yield case("onnx_attention_flags", q | kv | {"m": np.tri(3, 5, 1, dtype=bool)}, ("q", "k", "v", "m"),
               {"softcap": 3.0})
    yield case("onnx_attention_softcap", q | kv | {"m": floats("om", 3, 5)}, ("q", "k", "v", "m"), {"softcap": 3.0})
    yield case("onnx_attention_causal", q | kv, attributes={"is_causal": 1})
    past = {"pk": floats("opk", 2, 2, 4, 8), "pv": floats("opv", 2, 2, 4, 6)}
    yield case("onnx_attention_past", q | kv | past, ("q", "k", "v", "", "pk", "pv"), {}, 3)
    rows = {"q": floats("oq", 2, 3, 16), "k": floats("ok", 2, 3, 8), "v": floats("ov", 2, 3, 8)}
    yield case("onnx_attention_rows", rows, attributes={"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1})
    yield OpCase("rms_norm", "RMSNormalization", ("x", "g"), {"x": floats("rms", 2, 5, 12)}, {"g": floats("rg", 12)},
                 {"epsilon": 1e-4}, opset=23, domain="")
    yield OpCase("rms_norm_axis", "RMSNormalization", ("x", "g"), {"x": floats("rms", 2, 5, 12)},
                 {"g": floats("rg", 5, 12)}, {"axis": 1}, opset=23, domain="")


def quantised():
    scale = {"xs": number(0.05), "ws": number(0.04), "ys": number(0.06), "xz": number(120, np.uint8),
             "wz": number(130, np.uint8), "yz": number(110, np.uint8)}
    x = {"x": bytes_of("q", 2, 3, 6, 5)}
    w = {"w": bytes_of("qw", 2, 3, 6, 5)}
    both = ("x", "xs", "xz", "w", "ws", "wz", "ys", "yz")
    one = ("x", "xs", "xz", "ys", "yz")
    for op in ("QLinearAdd", "QLinearMul"):
        yield OpCase(op, op, both, x, w | scale, steps=1)
    yield OpCase("QLinearSigmoid", "QLinearSigmoid", one, x, scale | {"ys": number(1 / 256), "yz": number(0, np.uint8)},
                 steps=1)
    yield OpCase("QLinearLeakyRelu", "QLinearLeakyRelu", one, x, scale, {"alpha": 0.1}, steps=1)
    yield OpCase("QLinearConcat", "QLinearConcat", ("ys", "yz", "x", "xs", "xz", "w", "ws", "wz"), x, w | scale,
                 {"axis": 1}, steps=1)
    for last in (0, 1):
        yield OpCase(f"QLinearGlobalAveragePool_{last}", "QLinearGlobalAveragePool", one, x, scale,
                     {"channels_last": last}, steps=1)
        yield OpCase(f"QLinearAveragePool_{last}", "QLinearAveragePool", one, x, scale,
                     {"channels_last": last, "kernel_shape": [2, 2], "strides": [1, 1]}, steps=1)
    yield OpCase("QLinearSoftmax", "QLinearSoftmax", one, x, scale | {"ys": number(1 / 256), "yz": number(0, np.uint8)},
                 {"axis": -1, "opset": 13}, steps=1)
    yield OpCase("QLinearSoftmax_flat", "QLinearSoftmax", one, x,
                 scale | {"ys": number(1 / 256), "yz": number(0, np.uint8)}, {"axis": 2, "opset": 12}, steps=1)
    yield OpCase("QLinearWhere", "QLinearWhere", ("c", "x", "xs", "xz", "w", "ws", "wz", "ys", "yz"),
                 x | {"c": floats("c", 2, 3, 6, 5) > 0}, w | scale, steps=1)
    signed = {"x": bytes_of("s", 4, 12, kind=np.int8)}
    # With larger weights ONNX Runtime's sums of products of bytes saturate on CPUs without VNNI.
    matrix = {"w": bytes_of("sw", 12, 7, kind=np.int8) // 2, "ws": floats("sws", 7) ** 2 / 50 + 0.01,
              "wz": np.zeros(7, np.int8), "xs": number(0.03), "xz": number(-5, np.int8)}
    yield OpCase("QGemm", "QGemm", ("x", "xs", "xz", "w", "ws", "wz", "c", "ys", "yz"), signed,
                 matrix | {"c": random_of("c").integers(-900, 900, 7).astype(np.int32), "ys": number(0.2),
                           "yz": number(3, np.int8)}, {"alpha": 0.75}, steps=1)
    yield OpCase("QGemm_float", "QGemm", ("x", "xs", "xz", "w", "ws", "wz"), signed, matrix)
    yield OpCase("MatMulIntegerToFloat", "MatMulIntegerToFloat", ("x", "w", "xs", "ws", "xz", "wz", "b"), signed,
                 matrix | {"b": floats("b", 7)})
    real = {"x": floats("dyn", 4, 12)}
    yield OpCase("DynamicQuantizeMatMul", "DynamicQuantizeMatMul", ("x", "w", "ws", "wz", "b"), real,
                 matrix | {"b": floats("b", 7)})
    yield OpCase("QAttention", "QAttention", ("x", "w", "b", "xs", "ws", "m", "xz", "wz"),
                 {"x": bytes_of("qa", 2, 4, 8), "m": np.array([3, 4], np.int32)},
                 {"w": bytes_of("qaw", 8, 24, kind=np.int8) // 2, "b": floats("qab", 24), "xs": number(0.02),
                  "ws": number(0.01), "xz": number(125, np.uint8), "wz": number(0, np.int8)}, {"num_heads": 2})
    yield OpCase("QuantizeLinear", "QuantizeLinear", ("x", "xs", "xz"), real, scale, steps=1)
    yield OpCase("DequantizeLinear", "DequantizeLinear", ("x", "xs", "xz"), x, scale)
    yield OpCase("NhwcMaxPool", "NhwcMaxPool", ("x",), x, {}, {"kernel_shape": [2, 2], "strides": [2, 1]})


def blocks():
    for name, bits, zero, level, block in (("plain", 4, None, 0, 16), ("zero", 4, "packed", 0, 16), ("bytes", 8, None, 0, 16),
                                           ("ragged", 4, None, 1, 32), ("rounded", 4, None, 4, 32),
                                           ("rounded_zero", 4, "packed", 4, 16), ("rounded_bytes", 8, None, 4, 32)):
        for rows in (1, 5) if level else (5,):
            k, n = 48, 10
            count = -(-k // block)
            weights = {"w": bytes_of("nb" + name, n, count, block * bits // 8),
                       "s": floats("nbs", n * count) ** 2 / 10}
            inputs = ["x", "w", "s"]
            if zero:
                weights["z"] = bytes_of("nbz", n * ((count * bits + 7) // 8))
                inputs.append("z")
            yield OpCase(f"MatMulNBits_{name}" + (f"_{rows}" if level else ""), "MatMulNBits", tuple(inputs),
                         {"x": floats("nbx", 2, rows, k)}, weights,
                         {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": level})


def small():
    x = {"x": floats("small", 4, 5)}
    yield OpCase("trilu", "Trilu", ("x", "k"), x, {"k": np.array(1)}, {"upper": 0})
    yield OpCase("expand_dims", "ExpandDims", ("x", "a"), x, {"a": number(-1, np.int32)})
    for metric in ("euclidean", "sqeuclidean"):
        yield OpCase(f"cdist_{metric}", "CDist", ("x", "w"), x, {"w": floats("cd", 3, 5)}, {"metric": metric})


def all_cases():
    for family in (activations, linear, norms, attention, multi_head, grouped, rotary, opset23, quantised, blocks,
                   small):
        yield from family()
