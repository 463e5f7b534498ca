"""bench/comparators/comparator_worker.py: the line protocol, its times, its errors."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from conftest import DIGITS, ROOT

WORKER = ROOT / "bench" / "comparators" / "comparator_worker.py"
MODEL = DIGITS / "1" / "model.onnx"


class Worker:
    def __init__(self, *words):
        self.process = subprocess.Popen(
            [sys.executable, WORKER, *map(str, words)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def receive(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, cmd, **words):
        self.send(json.dumps({"cmd": cmd, **words}))
        reply = self.receive()
        assert reply.pop("ok"), reply
        return reply

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(name="start_worker")
def fixture_start_worker():
    workers = []

    def start(*words):
        workers.append(Worker(*words))
        return workers[-1]
    yield start
    for worker in workers:
        worker.close()


@pytest.fixture(name="worker")
def fixture_worker(start_worker):
    return start_worker(MODEL, "--threads", 1)


def test_info_tells_the_settings_in_force(start_worker):
    cpu = max(os.sched_getaffinity(0))
    worker = start_worker(MODEL, "--threads", 1, "--no-spinning", "--cpus", cpu, "--nice", 19)
    info = worker.ask("info")
    assert (info["threads"], info["spinning"], info["cpus"], info["nice"]) == (1, False, [cpu], 19)
    assert info["inputs"] == [{"name": "image", "shape": [1, 1, 8, 8], "type": "tensor(float)"}]
    assert 10_000 < info["peak_rss_kib"] < 1_000_000
    assert os.sched_getaffinity(worker.process.pid) == {cpu}
    assert os.getpriority(os.PRIO_PROCESS, worker.process.pid) == 19


def test_a_worker_of_the_idle_class_takes_its_inputs_from_files(start_worker, tmp_path):
    image = np.linspace(0, 1, 64, dtype=np.float32)
    image.tofile(tmp_path / "image")
    worker = start_worker(MODEL, "--policy", "idle", "--input", "image", "1x1x8x8", tmp_path / "image")
    assert worker.ask("info")["policy"] == "idle"
    assert os.sched_getscheduler(worker.process.pid) == os.SCHED_IDLE
    (tmp_path / "values").mkdir()
    used = worker.ask("values", folder=str(tmp_path / "values"))["inputs"]
    assert [one["name"] for one in used] == ["image"]
    assert (np.fromfile(used[0]["file"], np.float32) == image).all()


def test_openvino_gives_the_answers_of_onnxruntime(start_worker, tmp_path):
    pytest.importorskip("openvino", reason="OpenVINO is not installed: `pip install openvino`")
    outputs = []
    for engine in ("onnxruntime", "openvino"):
        (tmp_path / engine).mkdir()
        worker = start_worker(MODEL, "--engine", engine, "--threads", 1)
        info = worker.ask("info")
        assert engine in info
        assert info["inputs"] == [{"name": "image", "shape": [1, 1, 8, 8], "type": "tensor(float)"}]
        assert len(worker.ask("run", n=3)["latencies_us"]) == 3
        outputs.append({output["name"]: np.fromfile(output["file"], np.float32)
                        for output in worker.ask("values", folder=str(tmp_path / engine))["outputs"]})
    assert outputs[0].keys() == outputs[1].keys()
    for name, values in outputs[0].items():
        np.testing.assert_allclose(outputs[1][name], values, rtol=1e-3, atol=1e-5)


def test_an_engine_that_is_not_there_is_named(start_worker):
    worker = start_worker(MODEL, "--engine", "tensorflow")
    worker.process.stdin.close()
    assert worker.process.wait(60) == 2
    assert "'tensorflow'" in worker.process.stderr.read()


def test_pinned_worker_uses_a_thread_per_cpu_unless_told(start_worker):
    cpu = min(os.sched_getaffinity(0))
    assert start_worker(MODEL, "--cpus", cpu).ask("info")["threads"] == 1


def test_run_times_every_run_but_the_warm_up(worker):
    before = time.monotonic_ns()
    latencies = worker.ask("run", n=50, warmup=10)["latencies_us"]
    assert len(latencies) == 50
    assert min(latencies) > 0
    assert sum(latencies) * 1e3 < time.monotonic_ns() - before


def test_open_loop_waits_for_each_arrival(worker):
    worker.ask("info")  # waits until the worker is up
    arrivals = [0, 20_000, 40_000.5, 60_000]
    start = time.monotonic_ns() + 50_000_000
    reply = worker.ask("open_loop", arrivals_us=arrivals, start_ns=start)
    assert time.monotonic_ns() >= start + 60_000_000
    assert len(reply["latencies_us"]) == len(reply["starts_us"]) == len(arrivals)
    assert all(begin >= 0 for begin in reply["starts_us"])
    assert all(end > begin for begin, end in zip(reply["starts_us"], reply["latencies_us"]))


def test_open_loop_counts_from_the_intended_arrival(worker):
    """The start is 100 ms ago: every latency contains this delay."""
    arrivals = [0, 1, 2]
    reply = worker.ask("open_loop", arrivals_us=arrivals,
                       start_ns=time.monotonic_ns() - 100_000_000)
    assert min(reply["latencies_us"]) > 99_000
    ends = np.add(arrivals, reply["latencies_us"])
    assert (np.diff(ends) > 0).all()


def test_open_loop_says_when_runs_ended(worker):
    """What ends after a window is no throughput of the window."""
    reply = worker.ask("open_loop", arrivals_us=[0, 1, 2], start_ns=time.monotonic_ns() - 100_000_000)
    assert reply["ends_us"] == sorted(reply["ends_us"]) and reply["ends_us"][0] > 99_000
    assert reply["from_arrival_us"] == reply["latencies_us"]


def test_open_loop_gives_up(worker):
    now = time.monotonic_ns()
    assert worker.ask("open_loop", arrivals_us=[0, 1, 2], start_ns=now, give_up_ns=now)["latencies_us"] == []
    assert len(worker.ask("open_loop", arrivals_us=[0, 1, 2], give_up_ns=now + 60_000_000_000)["latencies_us"]) == 3


def test_open_loop_may_take_the_newest_request(worker):
    """All arrivals are over: only the last one runs, and its latency counts from the call."""
    reply = worker.ask("open_loop", arrivals_us=[0, 1, 2], newest=True,
                       start_ns=time.monotonic_ns() - 100_000_000)
    assert len(reply["latencies_us"]) == len(reply["ends_us"]) == 1
    assert reply["from_arrival_us"][0] > 99_000 > reply["latencies_us"][0] + 50_000


def test_loop_stops_at_the_end_and_stamps_every_completion(worker):
    worker.ask("info")  # waits until the worker is up
    start = time.monotonic_ns() + 20_000_000
    reply = worker.ask("loop", start_ns=start, end_ns=start + 50_000_000)
    completions = reply["completions_us"]
    assert reply["count"] == sum(stamp <= 50_000 for stamp in completions) > 0
    assert completions == sorted(completions) and completions[0] > 0
    assert len(completions) - reply["count"] <= 1
    assert time.monotonic_ns() >= start + 50_000_000


def test_loop_that_is_over_runs_nothing(worker):
    now = time.monotonic_ns()
    assert worker.ask("loop", start_ns=now - 2000, end_ns=now - 1000) == {
        "count": 0, "completions_us": []}


@pytest.mark.parametrize("line, expected", [
    ("nonsense", "not JSON"),
    ("[" * 100_000, "not JSON"),
    ("[1]", "JSON object"),
    ('{"cmd": "fly"}', "unknown cmd 'fly'"),
    ('{"cmd": ["run"]}', "unknown cmd"),
    ('{"cmd": "run", "n": -1}', "'n' is -1"),
    ('{"cmd": "run", "n": 1e9}', "'n' is"),
    ('{"cmd": "run", "n": true}', "'n' is True"),
    ('{"cmd": "open_loop"}', "'arrivals_us'"),
    ('{"cmd": "open_loop", "arrivals_us": [2, 1]}', "ascend"),
    ('{"cmd": "open_loop", "arrivals_us": [-1]}', "ascend"),
    ('{"cmd": "open_loop", "arrivals_us": [1e300]}', "one hour"),
    ('{"cmd": "open_loop", "arrivals_us": [NaN]}', "ascend"),
    ('{"cmd": "open_loop", "arrivals_us": ["1"]}', "numbers"),
    ('{"cmd": "open_loop", "arrivals_us": [1], "newest": 1}', "'newest'"),
    ('{"cmd": "loop", "start_ns": 9, "end_ns": 8}', "'end_ns'"),
    ('{"cmd": "loop"}', "'end_ns' is None"),
    ('{"cmd": "loop", "start_ns": 9000000000000000000, "end_ns": 9000000000000000001}',
     "'start_ns'"),
])
def test_bad_request_is_answered_and_survived(worker, line, expected):
    worker.send(line)
    reply = worker.receive()
    assert reply["ok"] is False
    assert expected in reply["error"]
    assert len(worker.ask("run", n=1)["latencies_us"]) == 1


@pytest.mark.parametrize("words, expected", [
    (["no-such.onnx"], "no-such.onnx"),
    ([MODEL, "--cpus", "4095"], "OSError"),
    ([MODEL, "--cpus", "x"], "ValueError"),
    ([MODEL, "--input", "picture", "1", "none"], "no inputs ['picture'], the model has ['image']"),
])
def test_worker_that_cannot_start_says_why_and_exits(start_worker, words, expected):
    worker = start_worker(*words)
    reply = worker.receive()
    assert reply["ok"] is False
    assert expected in reply["error"]
    assert worker.process.wait(30) == 1


def test_quit_and_end_of_input_end_the_process(start_worker):
    quitting, closing = start_worker(MODEL), start_worker(MODEL)
    quitting.send('{"cmd": "quit"}')
    assert quitting.process.wait(30) == 0
    closing.process.communicate(timeout=30)  # closes its stdin
    assert closing.process.returncode == 0
