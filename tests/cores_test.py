"""A server with few cores: one, a quota below one, cores that are taken away while it serves; and a system that refuses
threads of a lower class. A real-time model beside best-effort work keeps answering, and best-effort work goes on."""

import concurrent.futures
import contextlib
import ctypes
import os
import pathlib
import struct
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


def refuse(calls):
    """The calling thread, and programs that it starts, get EPERM from these calls of the system, by their numbers."""
    refused, allowed = 0x00050000 | 1, 0x7fff0000  # SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW
    steps = [(0x20, 0, 0, 0)]  # load the call's number
    steps += [(0x15, len(calls) - i, 0, call) for i, call in enumerate(calls)]
    steps += [(0x06, 0, 0, allowed), (0x06, 0, 0, refused)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    if libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) != 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        pytest.skip(f"the system takes no filter of calls: {os.strerror(ctypes.get_errno())}")


def nice_values(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return {int(task.joinpath("stat").read_text().rpartition(")")[2].split()[16]) for task in tasks}


SCHED_SETSCHEDULER, SETPRIORITY, SCHED_SETATTR = 144, 141, 314  # on x86-64


@pytest.mark.parametrize("calls, nice", [((SCHED_SETSCHEDULER, SCHED_SETATTR), 19),
                                         ((SCHED_SETSCHEDULER, SCHED_SETATTR, SETPRIORITY), 0)],
                         ids=["no-idle-class", "no-lower-priority"])
def test_a_system_that_refuses_the_idle_class(lagoon, models, calls, nice):
    with contextlib.ExitStack() as stack:
        def start():  # in a thread that ends: a filter stays for good
            refuse(calls)
            return stack.enter_context(serving(lagoon, models, "--engine", "none"))

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            server = pool.submit(start).result()
        answers_beside_background(server)
        assert max(nice_values(server.process.pid)) == nice
