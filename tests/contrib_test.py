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
