"""Ops of com.microsoft and of opset 23 against ONNX Runtime."""

import numpy as np
import onnx
import pytest

import contrib_cases
from conftest import TOLERANCE, relative_error, run_onnxruntime


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
