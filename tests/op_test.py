"""Ops of ai.onnx against ONNX Runtime."""

import pytest

import op_cases
from contrib_test import check_case


@pytest.mark.parametrize("case", list(op_cases.all_cases()), ids=lambda case: case.name)
def test_op_agrees_with_onnxruntime(lagoon, case, tmp_path):
    check_case(lagoon, case, tmp_path)
