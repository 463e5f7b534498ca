"""A server with few cores: one, a quota below one, cores that are taken away while it serves. A real-time model beside
best-effort work keeps answering, and best-effort work keeps its minimum."""

import contextlib
import os
import pathlib
import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from server_process import serving, triton_http, triton_input

CORES = sorted(os.sched_getaffinity(0))


@pytest.fixture(name="models")
def fixture_models(tmp_path):
    """camera: real-time, y = -x. text: best-effort, y = x x 64 times, so that it computes for a while."""
    graphs = {"camera": [helper.make_node("Neg", ["x"], ["y"])],
              "text": [helper.make_node("MatMul", [f"t{i}" if i else "x", "x"], [f"t{i + 1}" if i < 63 else "y"])
                       for i in range(64)]}
    for name, nodes in graphs.items():
        graph = helper.make_graph(nodes, name, *([helper.make_tensor_value_info(tensor, TensorProto.FLOAT, [256, 256])]
                                                 for tensor in "xy"))
        file = tmp_path / name / "1" / "model.onnx"
        file.parent.mkdir(parents=True)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), str(file))
    (tmp_path / "camera" / "config.pbtxt").write_text("optimization { priority: PRIORITY_MAX }\n")
    return tmp_path


@contextlib.contextmanager
def on_cores(cores):
    """Programs that start meanwhile have these cores."""
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, CORES)


def ask(client, model, x):
    return client.infer(model, [triton_input(triton_http, "x", x, binary_data=True)]).as_numpy("y")


def answers_beside_background(server, between=lambda: None):
    """40 right answers of the camera beside a closed loop of the text model, which must get answers, too. `between`
    runs after half of them."""
    x = np.eye(256, dtype=np.float32)  # all powers are the same, without rounding
    stop, answered, errors = threading.Event(), [], []

    def loop():
        try:
            client = server.http()
            while not stop.is_set() or not answered:
                answered.append(np.array_equal(ask(client, "text", x), x))
            client.close()
        except Exception as error:  # pylint: disable=broad-exception-caught
            errors.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        client = server.http()
        for i in range(40):
            assert np.array_equal(ask(client, "camera", x * i), -x * i)
            if i == 20:
                between()
        client.close()
    finally:
        stop.set()
        thread.join()
    assert not errors and answered and all(answered), errors


def test_one_core(lagoon, models):
    with on_cores(CORES[:1]), serving(lagoon, models, "--engine", "none") as server:
        answers_beside_background(server)


@pytest.mark.parametrize("scheduler", ("reset", "lagoon"))
def test_cores_are_taken_away_while_it_serves(lagoon, models, scheduler):
    with serving(lagoon, models, "--engine", "none", "--scheduler", scheduler) as server:
        def take():
            for thread in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
                with contextlib.suppress(OSError):  # a thread may end meanwhile
                    os.sched_setaffinity(int(thread.name), CORES[:1])

        answers_beside_background(server, between=take)


@contextlib.contextmanager
def quota_of_half_a_core():
    """A control group's file that takes numbers of processes; skips the test where the system permits none."""
    root = pathlib.Path("/sys/fs/cgroup")
    old = (root / "cpu" / "cgroup.procs").exists()
    group = (root / "cpu" if old else root) / f"lagoon-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        try:
            if old:
                (group / "cpu.cfs_period_us").write_text("100000")
                (group / "cpu.cfs_quota_us").write_text("50000")
            else:
                (group / "cpu.max").write_text("50000 100000")
        except OSError as error:
            pytest.skip(f"no quota can be set: {error}")
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def test_a_quota_below_one_core(lagoon, models):
    with quota_of_half_a_core() as processes:
        with serving(lagoon, models, "--engine", "none") as server:
            processes.write_text(str(server.process.pid))
            answers_beside_background(server)
