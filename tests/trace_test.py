"""`--trace`: the file of a run on a real device, and the picture drawn from a file."""

import collections
import json
import os
import signal
import subprocess
import sys

import pytest
import tritonclient.http as triton_http

from conftest import DIGITS, ROOT
from server_process import ServerProcess, triton_input

REPOSITORY = ROOT / "models" / "repository"
UNITS, JOBS = 1, 2  # pids in the file
# Few requests, so that all of them fit.
WORKLOAD = {"time": 1, "tasks": [
    {"id": "camera_rt", "load": {"type": "periodic", "frequency": 100}, "client": {"model_name": "digits"}},
    {"id": "other_be", "load": {"type": "periodic", "frequency": 200}, "client": {"model_name": "digits"}}]}


class Trace:
    """A trace file. Checks that rows have no overlaps and that each block belongs to its job."""

    def __init__(self, path):
        content = json.loads(path.read_text())
        self.other = content["otherData"]
        self.events = content["traceEvents"]
        named = {(event["pid"], event["tid"]) for event in self.events if event["name"] == "thread_name"}
        slices = [event for event in self.events if event["ph"] == "X"]
        assert {(event["pid"], event["tid"]) for event in slices} <= named
        self.blocks = [event for event in slices if "block" in event["cat"].split(",")]
        self.runs = [event for event in slices if event["pid"] == UNITS and event["cat"].startswith("job")]
        jobs = [event for event in slices if event["pid"] == JOBS]
        self.jobs = {(event["args"]["run"], event["args"]["job"]): event for event in jobs}
        assert len(self.jobs) == len(jobs)
        for group in (self.blocks, self.runs, jobs):
            self.check_rows(group)
        for block in self.blocks:
            job = self.jobs[block["args"]["run"], block["args"]["job"]]
            assert job["ts"] <= block["ts"] and self.end(block) <= self.end(job), (block, job)
            assert job["args"]["class"] in block["cat"].split(",")

    @staticmethod
    def end(event):
        """The end of an event in ns, as Perfetto computes it."""
        return int(event["ts"] * 1000) + int(event["dur"] * 1000)

    def check_rows(self, slices):
        rows = collections.defaultdict(list)
        for event in slices:
            rows[event["pid"], event["tid"]].append(event)
        for row in rows.values():
            row.sort(key=lambda event: (event["ts"], event["dur"]))
            for before, after in zip(row, row[1:]):
                assert self.end(before) <= int(after["ts"] * 1000), (before, after)

    def named(self, name):
        return [event for event in self.events if event["name"] == name]


def disb(lagoon, tmp_path, *words):
    (tmp_path / "pair.json").write_text(json.dumps(WORKLOAD))
    return lagoon.run("bench", "disb", "--zoo", REPOSITORY, "--workload", tmp_path / "pair.json",
                      "--schedulers", "reset,lagoon", "--requests", "40", "--windows", "1", "--no-onnxruntime",
                      "--json", tmp_path / "report.json", *words)


def test_disb_traces_every_scheduler(lagoon, tmp_path):
    result = disb(lagoon, tmp_path, "--trace", tmp_path / "trace.json")
    assert result.returncode == 0, result.stderr
    trace = Trace(tmp_path / "trace.json")
    assert trace.other["device"] == "cpu" and trace.other["units"] >= 1
    assert trace.other["dropped_events"] == 0
    assert {job["args"]["scheduler"] for job in trace.jobs.values()} == {"reset", "lagoon"}
    assert {job["args"]["model"] for job in trace.jobs.values()} == {"camera_rt", "other_be"}
    assert {job["args"]["outcome"] for job in trace.jobs.values()} == {"done"}
    assert len(trace.named("arrival")) == len(trace.jobs)
    assert {event["ph"] for event in trace.named("launches in the device")} == {"C"}
    committed = collections.Counter((block["args"]["run"], block["args"]["job"])
                                    for block in trace.blocks if block["args"]["committed"])
    assert set(committed) == set(trace.jobs)
    assert len(set(committed.values())) == 1  # one model: every job has the same number of blocks


def test_what_does_not_fit_is_counted_and_said(lagoon, tmp_path):
    result = disb(lagoon, tmp_path, "--trace", tmp_path / "trace.json", "--trace-capacity", "200")
    assert result.returncode == 0, result.stderr
    assert "did not fit" in result.stderr + result.stdout
    trace = Trace(tmp_path / "trace.json")
    assert 0 < len(trace.blocks) <= 200
    assert trace.other["dropped_blocks"] > 0 and trace.other["dropped_events"] > 0


@pytest.fixture(name="repository")
def fixture_repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "digits").symlink_to(DIGITS)
    return folder


def serve(lagoon, repository, path, images):
    """Serves `images` and stops. Returns the server's log."""
    server = ServerProcess(lagoon, repository, "--trace", path).wait_ready()
    try:
        client = server.http()
        for image in images:
            client.infer("digits", [triton_input(triton_http, "image", image[None])])
        client.close()
        server.terminate(signal.SIGTERM)
        server.wait()
        return server.log()
    finally:
        server.close()


def test_serve_writes_its_trace_when_it_stops(lagoon, repository, tmp_path, test_split):
    log = serve(lagoon, repository, tmp_path / "trace.json", test_split[0][:5])
    assert "perfetto" in log
    trace = Trace(tmp_path / "trace.json")
    assert len(trace.jobs) == 5
    assert len(trace.named("arrival")) == 5
    assert {"conv2d", "softmax", "input", "output"} <= {block["name"] for block in trace.blocks}


def test_serve_without_requests_writes_an_empty_trace(lagoon, repository, tmp_path):
    serve(lagoon, repository, tmp_path / "trace.json", [])
    trace = Trace(tmp_path / "trace.json")
    assert not trace.blocks and not trace.jobs
    assert trace.other["dropped_blocks"] == trace.other["dropped_events"] == 0


def test_file_that_cannot_be_made_is_an_error_before_anything_runs(lagoon, repository, tmp_path):
    for words in (("serve", "--models", repository), ("bench", "disb"), ("bench", "contention")):
        result = lagoon.run(*words, "--trace", tmp_path / "absent" / "trace.json", timeout=60)
        assert result.returncode == 1
        assert "absent/trace.json" in result.stderr and "No such file" in result.stderr
        assert not result.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this machine")
def test_no_space_is_an_error(lagoon, tmp_path):
    result = disb(lagoon, tmp_path, "--trace", "/dev/full")
    assert result.returncode == 1
    assert "/dev/full" in result.stderr and "No space" in result.stderr
    assert (tmp_path / "report.json").exists()  # the report is written even so


def test_capacity_without_a_trace_is_refused(lagoon, repository):
    result = lagoon.run("serve", "--models", repository, "--trace-capacity", "5", timeout=60)
    assert 0 < result.returncode < 128 and "--trace" in result.stderr


def plot(*words):
    return subprocess.run([sys.executable, ROOT / "tools" / "plot_trace.py", *map(str, words)], capture_output=True,
                          text=True, timeout=120, check=False)


def test_the_picture_in_the_docs_comes_from_the_trace_beside_it(tmp_path):
    out = tmp_path / "figure.svg"
    result = plot(ROOT / "docs" / "images" / "reef-figure-6.json", "--unit-us", 100, "--out", out)
    assert result.returncode == 0, result.stderr
    text = out.read_text()
    for word in ("unit 0", "unit 3", "v1 K1", "padding", "revocation", "b2, r2 arrive"):
        assert word in text, word


def test_what_is_no_trace_is_not_drawn(tmp_path):
    (tmp_path / "bad.json").write_text("{}")
    result = plot(tmp_path / "bad.json", "--out", tmp_path / "x.svg")
    assert result.returncode == 1 and "bad.json" in result.stderr
    assert not (tmp_path / "x.svg").exists()
