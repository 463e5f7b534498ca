"""The ONNX project's own backend node tests, run by bench/comparators/onnx_nodes.py."""

import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "comparators"))

import onnx_nodes  # pylint: disable=wrong-import-position


@pytest.fixture(scope="module")
def results(lagoon):
    return onnx_nodes.run_all(lagoon.binary)


@pytest.fixture(scope="module")
def metrics(results):
    found = onnx_nodes.metrics(results)
    print(*(f"{name} {value:.4g}" for name, value in found.items()), sep="\n")
    return found


def test_no_case_fails(results, metrics):
    failed = [f"{result.name}: {result.detail}" for result in results if result.status == "failed"]
    assert not failed, "\n".join(failed)
    assert metrics["onnx_nodes_failed"] == 0


def test_the_docs_say_what_runs(results):
    """This also shows when a case that once passed is refused."""
    page = (ROOT / "docs" / "guide" / "ops.md").read_text()
    renewed = onnx_nodes.with_table(page, results)
    assert renewed == page, "run `lagoon bench onnx-nodes --docs docs/guide/ops.md` and look at the change"


def test_enough_ops_and_cases_pass(metrics):
    assert metrics["onnx_ops_supported"] >= 120
    assert metrics["onnx_claimed_op_cases_passed_ratio"] >= 0.8
    assert metrics["onnx_nodes_passed_ratio"] >= 0.5
