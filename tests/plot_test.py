"""bench/plots/plot.py: draws from a bench's JSON, and refuses one that lacks what it needs."""

import json
import subprocess
import sys

import pytest
from PIL import Image

from conftest import ROOT

PLOT = ROOT / "bench" / "plots" / "plot.py"
SCHEDULERS = {  # normalised p50, p99, share, preemption p50, p99
    "reset": (1.02, 1.07, 0.93, 9, 44),
    "wait": (1.06, 1.61, 0.95, 80, 390),
    "streams": (1.9, 2.6, 1.02, None, None),
    "sequential": (1.8, 4.4, 0.98, None, None),
    "onnxruntime_defaults": (3.5, 6.6, 0.42, None, None),
    "onnxruntime_pinned": (1.9, 2.1, 0.7, None, None),
}
MODELS = ("resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1", "vgg19")


def contention():
    metrics = {}
    for name, (p50, p99, share, quick, slow) in SCHEDULERS.items():
        metrics[f"realtime_latency_normalized_p50.{name}"] = p50
        metrics[f"realtime_latency_normalized_p99.{name}"] = p99
        metrics[f"best_effort_share_of_leftover.{name}"] = share
        if quick:
            metrics[f"preemption_us_p50.{name}"] = quick
            metrics[f"preemption_us_p99.{name}"] = slow
    return {"commit": "0123456789abcdef0123", "machine": {"cpu": "Test CPU, 2 cores"}, "metrics": metrics}


def models():
    metrics = {}
    for index, model in enumerate(MODELS):
        metrics[f"latency_ratio_vs_onnxruntime.{model}.w1"] = 1.0 + index * 0.07
        metrics[f"latency_ratio_vs_onnxruntime.{model}.w2"] = 1.22 - index * 0.05
        metrics[f"kernel_gap_us_p50.{model}"] = 0.5 + index * 0.4
    return {"metrics": metrics}


def run_plot(folder, content, *words):
    file = folder / "report.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return subprocess.run([sys.executable, PLOT, str(file), "--out", str(folder / "out"), *words],
                          capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("content, name, texts", [
    (contention(), "contention", [*SCHEDULERS, "6.60", "0.42", "Test CPU", "0123456789ab"]),
    (models(), "models", [*MODELS, "1.28", "2.10"]),
], ids=("contention", "models"))
def test_figure_shows_every_row_and_its_numbers(content, name, texts, tmp_path):
    result = run_plot(tmp_path, content)
    assert result.returncode == 0, result.stderr
    target = tmp_path / "out" / f"{name}.svg"
    assert result.stdout.split() == [str(target)]
    svg = target.read_text()
    for text in texts:
        shown = text.removeprefix("onnxruntime_")
        assert f">{shown}" in svg or f" {shown}" in svg, text
    assert target.stat().st_size < 200_000


@pytest.mark.parametrize("content", (contention(), models()), ids=("contention", "models"))
def test_png_is_small_and_not_blank(content, tmp_path):
    result = run_plot(tmp_path, content, "--format", "png")
    assert result.returncode == 0, result.stderr
    path, = (tmp_path / "out").iterdir()
    assert path.stat().st_size < 200_000
    image = Image.open(path).convert("L")
    assert image.width >= 800
    dark = sum(image.histogram()[:128])
    assert 0.005 < dark / (image.width * image.height) < 0.5


def test_same_numbers_give_the_same_bytes(tmp_path):
    drawn = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        assert run_plot(folder, contention()).returncode == 0
        drawn.append((folder / "out" / "contention.svg").read_bytes())
    assert drawn[0] == drawn[1]


def test_one_file_with_both_gives_both_figures(tmp_path):
    both = contention()
    both["metrics"].update(models()["metrics"])
    assert run_plot(tmp_path, both).returncode == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["contention.svg", "models.svg"]


def without(content, metric, value=None):
    if value is None:
        del content["metrics"][metric]
    else:
        content["metrics"][metric] = value
    return content


@pytest.mark.parametrize("content, expected", [
    ("no json", "report.json"),
    ("[]", "metrics"),
    ({"metrics": {}}, "metrics"),
    ({"metrics": {"other": 1}}, "no metric"),
    (without(contention(), "best_effort_share_of_leftover.reset"), "best_effort_share_of_leftover.reset"),
    (without(contention(), "realtime_latency_normalized_p50.wait", "fast"), "'fast'"),
    (without(contention(), "realtime_latency_normalized_p99.wait", float("inf")), "p99.wait"),
    (without(contention(), "preemption_us_p50.reset", True), "preemption_us_p50.reset"),
    ({"metrics": {"latency_ratio_vs_onnxruntime.resnet18": 1.0}}, "MODEL.wN"),
])
def test_incomplete_report_is_refused_by_name(content, expected, tmp_path):
    result = run_plot(tmp_path, content)
    assert result.returncode == 1
    assert expected in result.stderr
    assert "Traceback" not in result.stderr
    assert not list((tmp_path / "out").glob("*"))
