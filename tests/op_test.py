"""Ops of ai.onnx against ONNX Runtime."""

import numpy as np
import onnx
import pytest

import op_cases
from contrib_test import check_case


@pytest.mark.parametrize("case", list(op_cases.all_cases()), ids=lambda case: case.name)
def test_op_agrees_with_onnxruntime(lagoon, case, tmp_path):
    check_case(lagoon, case, tmp_path)


def lstm(feeds=None, weights=None, **attributes):
    arrays = {"w": np.zeros((1, 8, 3), np.float32), "r": np.zeros((1, 8, 2), np.float32)} | (weights or {})
    return op_cases.onnx_case("lstm", "LSTM", ("x", "w", "r", "", "l"),
                              {"x": np.zeros((4, 2, 3), np.float32)} | (feeds or {}), weights=arrays,
                              attributes={"hidden_size": 2} | attributes, outputs=3, opset=14)


@pytest.mark.parametrize("case, words", [
    (lstm(weights={"l": np.array([5, 1], np.int32)}), "sequence_lens has a 5, the input has 4 steps"),
    (lstm(weights={"l": np.array([5], np.int32)}), "input 'l' has shape [1], expected [2]"),
    (lstm({"l": np.array([1, 2])}), "sequence_lens 'l' is INT64, must be INT32"),
    (lstm({"l": np.array([1, 2], np.int32)}, activations=["Tanh"]), "activations has 1 functions, must have 3"),
    (lstm({"l": np.array([1, 2], np.int32)}, activations=["Tanh", "Sine", "Tanh"]), "activation 'Sine' is not known"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_bad_node_is_refused_by_name(lagoon, case, words, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(case.model(), str(path))
    result = lagoon.run("inspect", path)
    assert result.returncode == 1
    assert words in result.stderr
