"""`lagoon bench robot` and `disb` beside what the operating system offers."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench_test import REPOSITORY, WORKLOAD, run_bench
from conftest import ROOT

WORKER = ROOT / "bench" / "comparators" / "comparator_worker.py"
DIGITS = REPOSITORY / "digits" / "1" / "model.onnx"
ROBOT = {"--realtime": DIGITS, "--background": f"{DIGITS},{DIGITS}", "--rate": 400, "--seconds": 0.3, "--trials": 1,
         "--python": sys.executable, "--comparator-worker": WORKER}


def run_robot(lagoon, tmp_path, **words):
    """`words` in place of the short settings; their names without dashes."""
    options = ROBOT | {f"--{name}": value for name, value in words.items()}
    return run_bench(lagoon, tmp_path, "robot", *(word for option in options.items() for word in option))


def test_robot_compares_clients_of_their_own_with_the_operating_system(lagoon, tmp_path):
    result, metrics = run_robot(lagoon, tmp_path, transport="grpc,http,process",
                                systems="lagoon:reset,onnxruntime:idle,onnxruntime:fifo,onnxruntime:cgroup")
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    skipped = report["skipped"]
    assert set(skipped) <= {"onnxruntime:fifo", "onnxruntime:cgroup"}
    assert all("root" in why and f"{system} is skipped: {why}" in result.stderr for system, why in skipped.items())
    assert [model["name"] for model in report["models"]] == ["digits", "digits-2", "digits-3"]
    assert report["models"][0]["inputs"] == {"image": [1, 1, 8, 8]}
    systems = [f"lagoon:reset@{transport}" for transport in ("grpc", "http", "process")] + ["onnxruntime:idle"]
    for system in systems:
        for name in ("latency_normalized_p50", "latency_normalized_p99", "late_fraction", "background_per_second", "background_work"):
            value = f"robot_{name}.{system}"
            assert metrics[f"{value}_low"] <= metrics[value] <= metrics[f"{value}_high"], value
        assert 0 <= metrics[f"robot_late_fraction.{system}"] <= 1
        assert metrics[f"robot_failed_requests.{system}"] == 0
        for window in ("alone", "both"):
            assert 0 < metrics[f"robot_latency_ms_p50.{system}.{window}"] <= metrics[f"robot_latency_ms_p99.{system}.{window}"]
        assert metrics[f"robot_background_per_second.{system}.digits-2"] >= 0
        assert metrics[f"robot_background_vs_best_os.{system}"] >= 0 and system in result.stderr
    assert report["best_os"].startswith("onnxruntime:") and metrics["windows_repeated"] >= 0
    assert metrics["robot_background_alone_per_second.digits-3"] > 0
    judged = {target["metric"] for target in report["targets"]}
    assert {f"robot_{name}.{systems[0]}" for name in ("latency_normalized_p99", "late_fraction", "background_vs_best_os")} <= judged


@pytest.mark.parametrize("words, named", [
    ({"systems": "frob:x"}, "'frob:x' is no system"),
    ({"systems": "lagoon:frob"}, "'frob'"),
    ({"systems": "onnxruntime:frob"}, "onnxruntime:plain|nice19|idle|cgroup|fifo"),
    ({"systems": "lagoon:paella:depth=2,extra_blocks=-4"}, "extra_blocks"),
    ({"rate": 1}, "fewer than 5"),
    ({"rate": 100_000, "seconds": 6}, "more than 500000"),
    ({"rate": 100_000, "systems": "lagoon:reset"}, "give a lower --rate"),
    ({"realtime": "absent.onnx"}, "there is no file absent.onnx"),
    ({"files": REPOSITORY, "background": "b,a"}, "`./run corpus --make --only 'a,b'` makes what is missing"),
    ({"background": ""}, "--background has an empty name"),
    ({"shape": "image"}, "INPUT=AxBxC"),
    ({"shape": "imgae=1x1x8x8"}, "no model has an input 'imgae'; there are digits/image, digits-2/image"),
    ({"shape": "image=1x1x8x9"}, "input 'image' has the shape [1,1,8,8]"),
    ({"transport": "pigeon"}, "pigeon"),
    ({"python": "no-such-python", "systems": "onnxruntime:idle"}, "--systems without onnxruntime leaves it out"),
])
def test_robot_says_what_is_wrong(words, named, lagoon, tmp_path):
    result, metrics = run_robot(lagoon, tmp_path, **words)
    assert 0 < result.returncode < 128 and metrics is None
    assert named in result.stderr


def children_of(pid):
    """The programs of a process's children, by their process number."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            found[int(child)] = Path(f"/proc/{child}/comm").read_text().strip()
    return found


@pytest.mark.parametrize("with_signal", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_a_robot_that_a_signal_ends(with_signal, lagoon, tmp_path):
    words = ROBOT | {"--seconds": 600, "--systems": "lagoon:reset"}
    robot = subprocess.Popen([lagoon.binary, "bench", "robot", *(str(word) for option in words.items() for word in option)],
                             env=os.environ | {"TMPDIR": str(tmp_path)}, stderr=subprocess.DEVNULL, cwd=ROOT)
    children = {}
    try:
        await_true(lambda: len(children_of(robot.pid)) == 5 or robot.poll() is not None)  # the keeper, the server, three clients
        children = children_of(robot.pid)
        assert robot.poll() is None and {"lagoon", "lagoon-bench", "lagoon-keeper"} <= set(children.values())
        assert list(tmp_path.glob("lagoon-bench-*"))
    finally:
        robot.send_signal(with_signal)
    assert robot.wait(60) == -with_signal
    await_true(lambda: not any(Path(f"/proc/{child}/exe").exists() for child in children))
    await_true(lambda: not list(tmp_path.iterdir()))


def await_true(condition):
    """A minute at most."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_disb_compares_schedulers_with_the_best_setting_of_the_operating_system(lagoon, tmp_path):
    (tmp_path / "pair.json").write_text(json.dumps(WORKLOAD))
    result, metrics = run_bench(lagoon, tmp_path, "disb", "--zoo", REPOSITORY, "--workload", tmp_path / "pair.json",
                                "--schedulers", "reset,lagoon", "--settings", "idle,cgroup,fifo", "--requests", "40",
                                "--windows", "2", "--python", sys.executable, "--comparator-worker", WORKER)
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report["skipped"]) <= {"onnxruntime-fifo", "onnxruntime-cgroup"}
    best = report["best_os"].removesuffix(".newest")  # the best of both clients
    assert best in {"onnxruntime-idle", "onnxruntime-cgroup", "onnxruntime-fifo"} - set(report["skipped"])
    assert metrics["throughput_normalized.onnxruntime-idle"] > 0
    for name in ("throughput_vs_best_os.pair", "realtime_latency_normalized_p90.lagoon"):
        assert 0 < metrics[f"{name}_low"] <= metrics[f"{name}_high"], name
    assert metrics["throughput_vs_best_os.pair.reset"] > 0
    assert "throughput_vs_best_os.pair" in {target["metric"] for target in report["targets"]}
