"""Requests whose values, sizes or number once ended, silenced or filled a server, beside a control.

As in hostile_test.py, assertions hold on any machine, and the figures go to LAGOON_HOSTILE_JSON.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import select
import socket
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DIGITS
from hostile_test import (DIGIT, LARGE, MIB, PATIENCE, SLACK, Neighbour, answer, ask, beside, connect,
                          opens, report, resident, sized)
from server_process import ServerProcess, serving

WIDE_ELEMENTS = 4 << 20  # an answer of 16 MiB, and of some 80 MB as JSON
LONG_ROW = 32 << 20  # its largest element takes several pauses of the real-time client
PAUSE = 0.004


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def integers(name, values):
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


def save(folder, name, nodes, inputs, outputs, constants=(), config=""):
    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    file = folder / name / "1" / "model.onnx"
    file.parent.mkdir(parents=True)
    onnx.save(model, str(file))
    if config:
        (folder / name / "config.pbtxt").write_text(config)


def real_time_digits(folder):
    """The digits model with real-time priority."""
    (folder / "digits" / "1").mkdir(parents=True)
    (folder / "digits" / "1" / "model.onnx").symlink_to(DIGITS / "1" / "model.onnx")
    (folder / "digits" / "config.pbtxt").write_text("optimization { priority: PRIORITY_MAX }\n")


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("values")
    real_time_digits(folder)
    node = helper.make_node
    save(folder, "rows", [node("Relu", ["x"], ["y"])], [value("x", ["n", 4])], [value("y", ["n", 4])])
    save(folder, "vector", [node("Relu", ["x"], ["y"])], [value("x", ["n"])], [value("y", ["n"])])
    save(folder, "filled", [node("ConstantOfShape", ["p"], ["y"])],
         [value("p", [1], TensorProto.INT64)], [value("y", ["n"])])
    save(folder, "range", [node("Range", ["a", "b", "c"], ["y"])],
         [value(name, []) for name in "abc"], [value("y", ["n"])])
    save(folder, "wide", [node("Expand", ["x", "shape"], ["y"])], [value("x", [1, 1])],
         [value("y", [1, WIDE_ELEMENTS])], [integers("shape", [1, WIDE_ELEMENTS])])
    # The largest of a long row, which the model makes itself: the request is small.
    save(folder, "long", [node("Expand", ["x", "shape"], ["row"]), node("ArgMax", ["row"], ["y"], axis=1)],
         [value("x", [1, 1])], [value("y", [1, 1], TensorProto.INT64)], [integers("shape", [1, LONG_ROW])])
    scatter = [node("Expand", ["x", "shape"], ["row"]), node("ScatterElements", ["row", "at", "one"], ["out"], axis=1),
               node("ReduceSum", ["out"], ["y"])]
    save(folder, "scatter", scatter, [value("x", [1, 1]), value("one", [1, 1])], [value("y", [1, 1])],
         [integers("shape", [1, LONG_ROW]), helper.make_tensor("at", TensorProto.INT64, [1, 1], [5])])
    return folder


@pytest.fixture(name="server")
def fixture_server(lagoon, folder):
    with serving(lagoon, folder, "--engine", "none") as server:
        yield server


def tensor(name, shape, data, datatype="FP32"):
    return {"name": name, "shape": shape, "datatype": datatype, "data": data}


def infer(model, *tensors):
    return sized(model, json.dumps({"inputs": tensors}).encode())


def scalars(**values):
    return [tensor(name, [], [number]) for name, number in values.items()]


def output(body):
    return json.loads(body)["outputs"][0]


def test_requests_without_rows_are_answered(server):
    """Such a request once ended every process that it reached."""
    wrong = []

    def attack(_):
        for _ in range(20):
            for model, shape in (("rows", [0, 4]), ("vector", [0])):
                status, _, body = ask(server, infer(model, tensor("x", shape, [])))
                if status != 200 or output(body)["shape"] != shape or output(body)["data"]:
                    wrong.append((status, body))

    with beside("no rows", server, attack):
        pass
    assert not wrong, wrong[:3]
    array = np.zeros([0, 4], np.float32)
    import tritonclient.grpc as triton_grpc  # pylint: disable=import-outside-toplevel
    with server.grpc() as client:
        sent = triton_grpc.InferInput("x", [0, 4], "FP32")
        sent.set_data_from_numpy(array)
        assert client.infer("rows", [sent]).as_numpy("y").shape == (0, 4)


def test_answers_without_elements_come(server):
    """A request whose outputs are empty constants was never answered, and held its model."""
    empty = [infer("filled", tensor("p", [1], [0], "INT64")), infer("range", *scalars(a=0, b=0, c=1))]
    statuses = []

    def attack(_):
        for request in empty * 10:
            status, _, body = ask(server, request)
            statuses.append((status, output(body)["shape"] if status == 200 else body))

    with beside("empty answers", server, attack):
        pass
    assert statuses == [(200, [0])] * 20


def test_a_size_from_a_value_holds_no_other_model(server):
    """One Range of 1.9e9 numbers once held the compiling thread for 16 s, and 7 GB."""
    before = resident(server)
    waited = []

    def attack(stack):
        for end in (1.9e9, 1.8e9):
            opens(stack, server, infer("range", *scalars(a=0, b=end, c=1)))
        time.sleep(0.2)
        begin = time.monotonic()
        status, _, body = ask(server, infer("rows", tensor("x", [7, 4], [1] * 28)))
        waited.append(time.monotonic() - begin)
        assert status == 200 and output(body)["data"] == [1] * 28

    with beside("a size from a value", server, attack) as neighbour:
        pass
    report("a size from a value: others", new_shape_s=round(waited[0], 3))
    assert neighbour.peak - before < LARGE + SLACK


def test_json_answers_that_are_never_read(server):
    """300 requests of 150 bytes once took 15 GB: computed outputs waited for their rendering."""
    before = resident(server)
    request = infer("wide", tensor("x", [1, 1], [0.12345678]))

    def attack(stack):
        for _ in range(80):
            opens(stack, server, request, receive_buffer=4096)
        time.sleep(5)

    with beside("JSON answers never read", server, attack) as neighbour:
        pass
    report("JSON answers never read: memory", before_mb=round(before / MIB, 1), peak_mb=round(neighbour.peak / MIB, 1))
    assert neighbour.peak - before < 2 * LARGE + SLACK


@contextlib.contextmanager
def little_memory(size):
    """Processes that are started inside this context can map at most `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def most_mapped(server):
    """Most bytes that the server has mapped at once."""
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmPeak:\s+(\d+) kB", status)[1]) * 1024


def cpu_time(server, thread):
    """The CPU time of the server's threads of this name, in ticks of the system."""
    ticks = 0
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        with contextlib.suppress(OSError):
            name, fields = re.search(r"\((.*)\) (.*)", (task / "stat").read_text(), re.S).groups()
            if name == thread:
                ticks += sum(map(int, fields.split()[11:13]))
    return ticks


def await_json(server, connection):
    """Waits for an answer, PATIENCE from when the server last worked on JSON. Its thread has a low priority, so it
    gets little of a core that other programs take: with a twentieth, nine answers of 80 MB take more than a minute."""
    worked, since = -1, time.monotonic()
    while not select.select([connection], [], [], 1)[0]:
        now = cpu_time(server, "lagoon-json")
        if now != worked:
            worked, since = now, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            raise socket.timeout


def test_a_server_that_may_not_map_enough_ends_with_an_error(lagoon, folder):
    """It crashed where the thread that hands gRPC its connections could not start. With just enough to start, it did
    not stop, or crashed when it stopped."""
    with serving(lagoon, folder, "--engine", "none") as server:
        needed = most_mapped(server)
    for less in [step * MIB // 10 for step in range(60)] + [step * MIB for step in range(6, 40, 4)]:
        with little_memory(needed - less):
            process = ServerProcess(lagoon, folder, "--engine", "none")
        try:
            process.wait_ready().close()
        except AssertionError as error:  # it did not start
            assert "exit code 1)" in str(error), error


def test_memory_that_runs_out_loses_no_request(lagoon, folder):
    """A request was once lost for ever, and the server crashed when it stopped."""
    with serving(lagoon, folder, "--engine", "none") as server:
        needed = most_mapped(server)  # depends on the number of threads, and so of cores
    with little_memory(needed + 96 * MIB):
        process = ServerProcess(lagoon, folder, "--engine", "none")
    outcomes = {}
    lock = threading.Lock()
    request = infer("wide", tensor("x", [1, 1], [0.5]))
    begin = time.monotonic()

    def client(server):
        try:
            with contextlib.closing(connect(server)) as connection:
                connection.sendall(request)
                await_json(server, connection)
                outcome = str(answer(connection)[0])
        except socket.timeout:
            outcome = "never"
        except (OSError, http.client.HTTPException):
            outcome = "cut"
        with lock:
            outcomes[outcome] = outcomes.get(outcome, 0) + 1

    with contextlib.closing(process.wait_ready()) as server:
        threads = [threading.Thread(target=client, args=(server,)) for _ in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        alive = ask(server, sized("digits", DIGIT))[0]
        stop = time.monotonic()
        server.terminate()
        code = server.process.wait(60)
        report("memory runs out", outcomes=outcomes, alive=alive, exit_code=code,
               attack_s=round(stop - begin, 3), stop_s=round(time.monotonic() - stop, 3))
    assert set(outcomes) <= {"200", "413", "500", "503"}, outcomes
    assert alive == 200


@pytest.mark.parametrize("scheduler", ("reset", "lagoon"))
@pytest.mark.parametrize("model, tensors", (("long", ["x"]), ("scatter", ["x", "one"])), ids=("argmax", "scatter"))
def test_long_blocks_end_beside_a_busy_real_time_client(lagoon, folder, scheduler, model, tensors):
    """A block that took longer than the pause between two real-time requests never ended."""
    request = infer(model, *(tensor(name, [1, 1], [1.0]) for name in tensors))
    latencies, failures = [], []
    done = threading.Event()

    def real_time(server):
        with contextlib.closing(connect(server)) as connection:
            due = time.monotonic()
            while not done.is_set():
                begin = time.monotonic()
                connection.sendall(sized("digits", DIGIT))
                if answer(connection)[0] != 200:
                    failures.append("real-time")
                latencies.append(time.monotonic() - begin)
                due = max(due + PAUSE, time.monotonic())
                time.sleep(max(0.0, due - time.monotonic()))

    with serving(lagoon, folder, "--engine", "none", "--scheduler", scheduler) as server:
        begin = time.monotonic()
        alone = ask(server, request)[0]
        alone_s = time.monotonic() - begin
        thread = threading.Thread(target=real_time, args=(server,))
        thread.start()
        time.sleep(0.2)
        begin = time.monotonic()
        try:
            status = ask(server, request)[0]
        except socket.timeout:
            status = "never"
        beside_s = time.monotonic() - begin
        done.set()
        thread.join()
        sorted_ms = sorted(1000 * latency for latency in latencies)
        report(f"long block: {model}, {scheduler}", alone_s=round(alone_s, 3), beside_s=round(beside_s, 3),
               status=status, real_time_p99_ms=round(sorted_ms[int(0.99 * (len(sorted_ms) - 1))], 3),
               requests=len(sorted_ms))
    assert alone == 200 and status == 200 and not failures


def test_a_model_whose_shapes_cannot_be_told_disturbs_no_other(lagoon, tmp_path):
    """GatherND with indices of an open last dimension once ended the server at start, or at a load."""
    real_time_digits(tmp_path)
    save(tmp_path, "gather", [helper.make_node("GatherND", ["x", "p"], ["y"])],
         [value("x", ["n", "m"]), value("p", ["k", "r"], TensorProto.INT64)], [value("y", None)])
    with serving(lagoon, tmp_path, "--engine", "none", "--model-control", "explicit", "--load-model", "digits") as server:
        status, _ = server.post("/v2/repository/models/gather/load", b"{}", port="metrics")
        assert status in (200, 400)
        assert ask(server, sized("digits", DIGIT))[0] == 200
    with serving(lagoon, tmp_path, "--engine", "none") as server:
        assert ask(server, sized("digits", DIGIT))[0] == 200
        request = infer("gather", tensor("x", [2, 2], [1, 2, 3, 4]), tensor("p", [1, 1], [1], "INT64"))
        assert ask(server, request)[0] in (200, 404, 503)


def test_clients_see_no_folders_of_the_server(lagoon, tmp_path):
    """Neither in answers to inferences, nor of a repository whose path is relative and has a space."""
    repository = tmp_path / "my models"
    real_time_digits(repository)
    save(repository, "shaped", [helper.make_node("Reshape", ["x", "p"], ["y"])],
         [value("x", ["n"]), value("p", [1], TensorProto.INT64)], [value("y", None)])
    (repository / "cut" / "1").mkdir(parents=True)
    (repository / "cut" / "1" / "model.onnx").write_bytes(b"no model")
    words = ("--engine", "none", "--model-control", "explicit", "--load-model", "*")
    with serving(lagoon, os.path.relpath(repository), *words) as server:
        wrong = infer("shaped", tensor("x", [4], [1, 2, 3, 4]), tensor("p", [1], [3], "INT64"))
        answers = [ask(server, wrong)[::2], server.post("/v2/repository/models/cut/load", b"{}", port="metrics", raw=True),
                   server.post("/v2/repository/index", b"", raw=True)]
        assert [status for status, _ in answers] == [400, 400, 200]
        for _, body in answers:
            assert b"model.onnx" in body, body
            for folder in (b"my models", b"models/", b"cut/", b"shaped/", b"1/"):
                assert folder not in body, body
