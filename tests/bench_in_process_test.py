"""`lagoon bench in-process`: ONNX Runtime, the plug-in and liblagoon in one program, and the plug-in by others' tests."""

import json
import math
import os
import subprocess
import sys

import pytest
from bench_test import run_bench
from conftest import DIGITS, ROOT

FILE = DIGITS / "1" / "model.onnx"
WAYS = ("ort", "ort_one_thread", "ort_nice19", "plugin", "lagoon")
MODELS = ("digits", "digits-2", "digits-3")
SHORT = {"--realtime": FILE, "--background": f"{FILE},{FILE}", "--steps": 100, "--rounds": 1, "--seconds": 0.1, "--nodes": "none",
         "--corpus": "none", "--python": sys.executable}
pytestmark = pytest.mark.skipif(not os.environ.get("LAGOON_ORT_LIBRARY"),
                                reason="LAGOON_ORT_LIBRARY names no plug-in: it is built without sanitizers")


def run_in_process(lagoon, tmp_path, **words):
    """`words` in place of the short settings; their names without dashes."""
    options = SHORT | {f"--{name}": value for name, value in words.items()}
    return run_bench(lagoon, tmp_path, "in-process", *(word for option in options.items() for word in option))


def test_the_ways_are_compared_in_one_run(lagoon, tmp_path):
    result, metrics = run_in_process(lagoon, tmp_path)
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [model["name"] for model in report["models"]] == list(MODELS)
    assert report["machine"]["processor"] and set(report["processes"]) == set(WAYS)
    assert [process["nice"] for process in report["processes"]["ort_nice19"]] == [0, 19, 19]
    claimed, nodes = report["processes"]["plugin"][0]["on_lagoon"]["digits"]
    assert claimed == nodes > 0
    for way in WAYS:
        for model in MODELS:
            assert metrics[f"together_over_alone.{way}.{model}"] > 0
            assert metrics[f"alone_ms_p50.{way}.{model}"] > 0
        assert metrics[f"control_steps.{way}"] >= 100
        assert 0 <= metrics[f"missed_deadlines.{way}"] <= metrics[f"control_steps.{way}"]
        fraction = metrics[f"missed_deadlines.{way}"] / metrics[f"control_steps.{way}"]
        assert metrics[f"missed_fraction.{way}"] == pytest.approx(fraction, abs=0.5)
        for model in MODELS[1:]:
            assert metrics[f"per_second.{way}.{model}"] > 0
        assert metrics[f"work.{way}"] > 0 and way in result.stderr
        for name in ("added_us", "added_apart_us"):
            assert 0 < metrics[f"{name}_p50.{way}"] <= metrics[f"{name}_p99.{way}"]
        assert (f"in_turn_over_alone.{way}" in metrics) == (way != "ort_nice19")
    judged = {target["metric"] for target in report["targets"]}
    assert judged == {f"{name}.{way}" for name in ("missed_fraction", "in_turn_over_alone") for way in ("plugin", "lagoon")}
    assert "plugin_corpus_models" not in metrics and "plugin_node_tests" not in metrics


def test_a_loop_that_is_too_fast_misses_its_deadlines(lagoon, tmp_path, zoo):
    """A detector that takes milliseconds as the controller of a loop of 1000 Hz, on ONNX Runtime: nearly all steps are late."""
    result, metrics = run_in_process(lagoon, tmp_path, ways="ort", realtime=zoo("resnet18"), rate=1000)
    assert result.returncode == 0, result.stderr
    assert metrics["missed_deadlines.ort"] > 50 and metrics["missed_fraction.ort"] > 0.5


def test_the_plug_in_is_judged_by_others_tests(lagoon, tmp_path, monkeypatch):
    monkeypatch.delenv("LAGOON_CORPUS", raising=False)
    name = "mobilenet_v3_small"
    subprocess.run([sys.executable, "-W", "ignore", ROOT / "models" / "corpus" / "make.py", "--only", name, "--out", tmp_path], check=True)
    result, metrics = run_in_process(lagoon, tmp_path, ways="none", nodes="test_add", corpus=f"{name},minilm*", files=tmp_path)
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert metrics["plugin_node_tests"] >= 2 and metrics["plugin_node_tests_failed"] == 0
    assert metrics["plugin_node_tests_whole"] > 0
    assert metrics["plugin_corpus_models"] == 1 and metrics["plugin_corpus_models_without_file"] >= 1
    assert report["plugin_corpus"][name]["status"] == "right"
    claimed, nodes = report["plugin_corpus"][name]["on_lagoon"]
    assert 0 < claimed <= nodes
    assert math.isclose(metrics["plugin_corpus_ratio_geomean"], metrics[f"plugin_corpus_ratio.{name}"])
    assert "missed_deadlines.ort" not in metrics


@pytest.mark.parametrize("words, named", [
    ({"ways": "frob"}, "'frob' is no way; there are ort, ort_one_thread, ort_nice19, plugin, lagoon"),
    ({"ways": "none"}, "nothing is left"),
    ({"steps": 2, "rounds": 3}, "--steps 2 are fewer than one in each of --rounds 3"),
    ({"rate": 0}, "--rate"),
    ({"realtime": "absent.onnx"}, "there is no file absent.onnx"),
    ({"background": "b,a", "files": ROOT / "tests"}, "`./run corpus --make --only 'a,b'` makes what is missing"),
    ({"shape": "image=1x1x8x9"}, "input 'image' has the shape [1,1,8,8]"),
    ({"python": "no-such-python"}, "no-such-python"),
    ({"ways": "lagoon", "liblagoon": "absent.so"}, "absent.so"),
    ({"ways": "plugin", "plugin": "absent.so"}, "absent.so"),
    ({"ways": "none", "nodes": "frobnicate"}, "no node test has 'frobnicate' in its name"),
    ({"ways": "none", "corpus": "frobnicate"}, "no model matches 'frobnicate'"),
    ({"ways": "none", "corpus": "mobilenet_v3_small", "files": ROOT / "tests"}, "./run corpus --make --only 'mobilenet_v3_small'"),
], ids=str)
def test_it_says_what_is_wrong(words, named, lagoon, tmp_path):
    result, metrics = run_in_process(lagoon, tmp_path, **words)
    assert 0 < result.returncode < 128 and metrics is None
    assert named in result.stderr, result.stderr
