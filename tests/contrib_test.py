"""Ops of com.microsoft and of opset 23 against ONNX Runtime."""

import numpy as np
import onnx
import pytest

import contrib_cases
from conftest import TOLERANCE, relative_error, run_onnxruntime
from corpus import genai


def check_case(lagoon, case, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(case.model(), str(path))
    expected = run_onnxruntime(path, case.feeds)
    actual = lagoon.infer(path, case.feeds, tmp_path)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        assert actual[name].shape == array.shape, name
        if case.compared and name not in case.compared:
            continue
        if np.issubdtype(array.dtype, np.integer):
            assert actual[name].dtype == array.dtype, name
            difference = np.abs(actual[name].astype(np.int32) - array.astype(np.int32))
            assert difference.max() <= case.steps, name
        else:
            error = relative_error(actual[name], array)
            assert error <= TOLERANCE, f"output '{name}': relative error {error:.2e}"


@pytest.mark.parametrize("case", list(contrib_cases.all_cases()), ids=lambda case: case.name)
def test_op_agrees_with_onnxruntime(lagoon, case, tmp_path):
    check_case(lagoon, case, tmp_path)


# Tokens, keys of the past, and length of the mask, of which so many are 1: a growing past, a prompt into an empty
# buffer, and a token into a buffer. The mask gives the number of keys.
@pytest.mark.parametrize("accuracy", (0, 4))
@pytest.mark.parametrize("tokens, past, mask, ones", ((1, 9, 10, 10), (5, 48, 5, 5), (1, 48, 48, 11)))
def test_decoder_of_genai_agrees_with_onnxruntime(lagoon, tmp_path, tokens, past, mask, ones, accuracy):
    shape = genai.SHAPES["small"]
    path = tmp_path / "model.onnx"
    onnx.save(genai.decoder(shape, accuracy), str(path))
    random = np.random.default_rng(7)
    feeds = {"input_ids": random.integers(0, shape.vocabulary, (1, tokens)),
             "attention_mask": (np.arange(mask)[None] < ones).astype(np.int64)}
    for layer in range(shape.layers):
        for kind in ("key", "value"):
            cache = random.standard_normal((1, shape.key_heads, past, shape.head))
            feeds[f"past_key_values.{layer}.{kind}"] = cache.astype(np.float32)
    expected = run_onnxruntime(path, feeds)["logits"]
    actual = lagoon.infer(path, feeds, tmp_path)["logits"]
    # What is rounded to 8 bits may fall on the other side of a half, and other layers follow.
    assert relative_error(actual, expected) <= (0.02 if accuracy == 4 else TOLERANCE)


@pytest.mark.parametrize("grids", (("a", "a", "a"), ("a", "b", "a"), ("b", "a", "a"), ("", "b", "a")))
@pytest.mark.parametrize("new", (1, 12))
def test_a_rounded_cache_agrees_with_onnxruntime(lagoon, tmp_path, grids, new):
    """A decoder's cache with new entries, of which `grids` are those of the old ones, the new ones and the whole. Its
    keys are multiplied by, transposed."""
    scales = {"a": (0.03, 117), "b": (0.011, 140)}
    nodes, weights, random = [], [], np.random.default_rng(new)
    def node(op, inputs, output, **attributes):
        nodes.append(onnx.helper.make_node(op, inputs, [output], **attributes))
        return output
    def rounded(x, grid, output):
        if not grid:
            return x
        scale, zero = (f"{x}_{name}" for name in ("scale", "zero"))
        weights.append(onnx.numpy_helper.from_array(np.float32(scales[grid][0]), scale))
        weights.append(onnx.numpy_helper.from_array(np.uint8(scales[grid][1]), zero))
        return node("DequantizeLinear", [node("QuantizeLinear", [x, scale, zero], f"{x}_q"), scale, zero], output)
    old, entry, whole = grids
    for name in ("key", "value"):
        joined = node("Concat", [rounded(f"past_{name}", old, f"old_{name}"), rounded(name, entry, f"new_{name}")],
                      f"joined_{name}", axis=2)
        rounded(joined, whole, f"present_{name}")
    scores = node("MatMul", ["query", node("Transpose", ["present_key"], "turned", perm=[0, 1, 3, 2])], "scores")
    node("MatMul", [node("Softmax", [rounded(scores, "b", "s")], "shares"), "present_value"], "y")
    feeds = {name: random.standard_normal((2, 3, size, 40), np.float32)
             for name, size in (("past_key", 37), ("key", new), ("past_value", 37), ("value", new), ("query", new))}
    def tensor(name, dims):
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
    graph = onnx.helper.make_graph(nodes, "cache", [tensor(name, array.shape) for name, array in feeds.items()],
                                   [tensor("y", None), tensor("present_key", None), tensor("present_value", None)],
                                   weights)
    path = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    expected, actual = run_onnxruntime(path, feeds), lagoon.infer(path, feeds, tmp_path)
    for name, array in expected.items():
        assert relative_error(actual[name], array) <= TOLERANCE, name
