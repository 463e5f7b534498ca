"""The ONNX project's own backend node tests through the plug-in for ONNX Runtime."""

import os
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "comparators"))
import ort_nodes  # noqa: E402

pytestmark = pytest.mark.skipif(
    not os.environ.get("LAGOON_ORT_LIBRARY"),
    reason="LAGOON_ORT_LIBRARY names no plug-in: it is built without sanitizers")

# Cases that run wholly on Lagoon and are right, by the number of cases that the package onnx has (1.12: 922, 1.23: 1884).
# They may grow, and never shrink.
WHOLE = {922: 772, 1884: 1434}


@pytest.fixture(scope="module")
def results():
    return ort_nodes.run_all()


def test_no_case_that_is_right_on_the_cpu_fails(results):
    _, worse = ort_nodes.summary(results)
    assert not worse, worse


def test_enough_cases_run_wholly_on_lagoon(results):
    counts, _ = ort_nodes.summary(results)
    print(counts)
    assert counts["right_and_whole"] >= WHOLE.get(counts["cases"], min(WHOLE.values()))
