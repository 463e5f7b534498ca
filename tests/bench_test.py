"""`lagoon bench`: reports that say what they measured, and errors that name what is missing."""

import json
import sys

import pytest
from conftest import ROOT

REPOSITORY = ROOT / "models" / "repository"


def run_bench(lagoon, tmp_path, *words):
    """(finished process, the report's metrics or None)."""
    path = tmp_path / "report.json"
    result = lagoon.run("bench", *words, "--json", path)
    return result, json.loads(path.read_text())["metrics"] if path.exists() else None


def test_memory_compares_peaks_of_fresh_processes(lagoon, tmp_path):
    result, metrics = run_bench(
        lagoon, tmp_path, "memory", "--zoo", REPOSITORY, "--models", "digits", "--python", sys.executable,
        "--onnxruntime-worker", ROOT / "bench" / "comparators" / "onnxruntime_worker.py")
    assert result.returncode == 0, result.stderr
    for side in ("lagoon", "onnxruntime"):
        assert 1 < metrics[f"peak_base_mib.{side}"] < 1000
        assert metrics[f"peak_mib.digits.{side}"] < 100  # the model has some thousand weights
    assert "memory_ratio_vs_onnxruntime.digits" in metrics


def test_models_reports_latency_and_blocks(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "models", "--zoo", REPOSITORY, "--models", "digits",
                                "--rounds", "1", "--seconds", "0.01", "--no-onnxruntime")
    assert result.returncode == 0, result.stderr
    assert metrics["kernels.digits"] >= 1
    for workers in (1, 2):
        assert metrics[f"latency_ms_p50.digits.w{workers}.b1.lagoon"] > 0
    assert 0 < metrics["block_us_p99.digits"] < 10_000


@pytest.mark.parametrize("words", [("models", "--models", "absent"), ("memory", "--models", "absent")])
def test_a_missing_model_is_named(lagoon, tmp_path, words):
    result, metrics = run_bench(lagoon, tmp_path, *words, "--zoo", REPOSITORY, "--no-onnxruntime")
    assert result.returncode == 1
    assert metrics is None
    assert "absent" in result.stderr
