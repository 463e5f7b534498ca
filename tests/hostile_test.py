"""Effects of hostile HTTP clients on other clients. Each attack has a control run without the attack.

The assertions hold on any machine: no other client is shut out, memory is bounded, statuses are
right. The figures (another client's p50 and p99 with and without the attack, memory, duration) are
appended as lines of JSON to the file LAGOON_HOSTILE_JSON. LAGOON_HOSTILE_SECONDS is the length of
each of the two runs (default 1).
"""

import contextlib
import http.client
import json
import os
import pathlib
import resource
import select
import socket
import statistics
import threading
import time

import onnx
import pytest
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from conftest import DIGITS
from server_process import ServerProcess, serving

MIB = 1 << 20
SECONDS = float(os.environ.get("LAGOON_HOSTILE_SECONDS", "1"))
FIGURES = os.environ.get("LAGOON_HOSTILE_JSON", "")
# Limit for all bodies and answers above 1 MiB together (docs/guide/clients.md, "Memory").
LARGE = 333 * MIB
SLACK = 96 * MIB  # the server's other memory: buffers kept for reuse, heaps of the threads
PATIENCE = 60  # seconds; a client that waits longer counts as shut out

IMAGE_BYTES = 4 * 3 * 224 * 224
DIGIT = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8],
                                "data": [0.0] * 64}]}).encode()
IMAGE_HEAD = json.dumps({"inputs": [{"name": "image", "datatype": "FP32",
                                     "shape": [1, 3, 224, 224],
                                     "parameters": {"binary_data_size": IMAGE_BYTES}}]}).encode()
IMAGE = IMAGE_HEAD + bytes(IMAGE_BYTES)
WIDE = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1],
                               "data": [0.12345678]}]}).encode()


def save(folder, name, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    file = folder / name / "1" / "model.onnx"
    file.parent.mkdir(parents=True)
    onnx.save(model, str(file))


def value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory):
    """A repository with 'digits', 'image' (an input of 602 KB) and 'wide' (an answer of 6.6 MB of JSON)."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "digits").symlink_to(DIGITS)
    save(folder, "image", [helper.make_node("GlobalAveragePool", ["image"], ["means"])],
         [value("image", [1, 3, 224, 224])], [value("means", [1, 3, 1, 1])])
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [1, 600_000])
    save(folder, "wide", [helper.make_node("Expand", ["x", "shape"], ["y"])],
         [value("x", [1, 1])], [value("y", [1, 600_000])], [shape])
    return folder


@pytest.fixture(name="server")
def fixture_server(lagoon, folder):
    with serving(lagoon, folder) as server:
        yield server


def resident(server):
    for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the server has ended:\n" + server.log())


def connect(server, port="http", receive_buffer=0):
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(PATIENCE)
    connection.connect(("127.0.0.1", server.ports[port]))
    return connection


def post(model, framing, json_bytes=None):
    extra = "" if json_bytes is None else f"Inference-Header-Content-Length: {json_bytes}\r\n"
    return (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: a\r\n{extra}{framing}\r\n\r\n"
            ).encode()


def sized(model, body, json_bytes=None):
    return post(model, f"Content-Length: {len(body)}", json_bytes) + body


def answer(connection):
    """(status, headers in lower case, body) of the next answer."""
    reply = http.client.HTTPResponse(connection)
    reply.begin()
    body = reply.read()
    return reply.status, {k.lower(): v.lower() for k, v in reply.getheaders()}, body


def ask(server, request):
    with contextlib.closing(connect(server)) as connection:
        connection.sendall(request)
        return answer(connection)


class Neighbour:
    """A client that sends one request in a loop over one connection, and samples the server's memory."""

    def __init__(self, server, request):
        self.server, self.request = server, request
        self.latencies, self.failures, self.peak = [], [], 0
        self.end = threading.Event()
        self.thread = threading.Thread(target=self._loop)

    def _loop(self):
        connection = connect(self.server)
        while not self.end.is_set():
            begin = time.monotonic()
            try:
                connection.sendall(self.request)
                status, _, body = answer(connection)
                if status != 200:
                    self.failures.append(f"{status} {body[:200]}")
                    connection.close()
                    connection = connect(self.server)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                connection.close()
                connection = connect(self.server)
            self.latencies.append(time.monotonic() - begin)
            self.peak = max(self.peak, resident(self.server))
        connection.close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.thread.join()

    def figures(self):
        sorted_ms = sorted(1000 * latency for latency in self.latencies)
        return {"requests": len(sorted_ms), "failures": len(self.failures),
                "p50_ms": round(statistics.median(sorted_ms), 3),
                "p99_ms": round(sorted_ms[int(0.99 * (len(sorted_ms) - 1))], 3),
                "peak_rss_mb": round(self.peak / MIB, 1)}


def report(name, **figures):
    line = json.dumps({"name": name, **figures})
    print(line)
    if FIGURES:
        with open(FIGURES, "a", encoding="utf-8") as file:
            file.write(line + "\n")


@contextlib.contextmanager
def beside(name, server, attack, request=None):
    """Runs the neighbour without the attack, then with it; yields the second neighbour.

    `attack` is called with an ExitStack, which closes the connections that the attack leaves open.
    """
    request = request or sized("digits", DIGIT)
    with Neighbour(server, request) as control:
        time.sleep(SECONDS)
    begin = time.monotonic()
    with contextlib.ExitStack() as stack, Neighbour(server, request) as neighbour:
        attack(stack)
        time.sleep(SECONDS)
        yield neighbour
    report(name, control=control.figures(), attack=neighbour.figures(),
           attack_s=round(time.monotonic() - begin, 3))
    assert not control.failures, control.failures[:3]
    assert not neighbour.failures, neighbour.failures[:3]


def opens(stack, server, request, port="http", receive_buffer=0):
    connection = stack.enter_context(contextlib.closing(connect(server, port, receive_buffer)))
    with contextlib.suppress(OSError):  # refused before all was sent
        connection.sendall(request)
    return connection


@pytest.mark.parametrize("framing", (f"Content-Length: {64 * MIB}", "Transfer-Encoding: chunked"))
@pytest.mark.parametrize("request_", (sized("digits", DIGIT), sized("image", IMAGE, len(IMAGE_HEAD))),
                         ids=("small", "medium"))
def test_bodies_that_are_declared_and_never_sent(server, framing, request_):
    """B2: eight such clients once shut out every other client for 84 s."""
    def attack(stack):
        for _ in range(32):
            opens(stack, server, post("digits", framing))

    with beside("declared bodies, " + framing.split(":")[0], server, attack, request_):
        pass


@pytest.mark.parametrize("request_", (sized("digits", DIGIT), sized("image", IMAGE, len(IMAGE_HEAD))),
                         ids=("small", "medium"))
def test_large_bodies_that_never_end(server, request_):
    """720 MiB in bodies that stop before their end: other clients are served, memory is bounded."""
    before = resident(server)

    def attack(stack):
        piece = bytes(MIB)
        for _ in range(12):
            connection = opens(stack, server, post("digits", f"Content-Length: {64 * MIB}"))
            with contextlib.suppress(OSError):
                for _ in range(60):
                    connection.sendall(piece)

    with beside("large bodies that never end", server, attack, request_) as neighbour:
        pass
    assert neighbour.peak - before < LARGE + SLACK


def test_chunked_clients_are_served_as_sized_ones_are(server):
    """B3: 8 of 16 well-behaved chunked clients were once refused."""
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in
                      (IMAGE[at:at + 65536] for at in range(0, len(IMAGE), 65536)))
    head = post("image", "Transfer-Encoding: chunked", len(IMAGE_HEAD))
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        clients = [opens(stack, server, head + chunks) for _ in range(16)]
        for client in clients:  # all bodies have been sent, but not their last chunks
            client.sendall(b"0\r\n\r\n")
        statuses = [answer(client)[0] for client in clients]
    report("16 chunked clients", statuses=statuses, attack_s=round(time.monotonic() - begin, 3))
    assert statuses == [200] * 16


@pytest.mark.parametrize("encoding", ("gzip", "xchunked", "identity", "chunked, gzip",
                                      "gzip, chunked"))
def test_unknown_transfer_encoding_smuggles_nothing(server, encoding):
    """B4: the body was once taken for the next request."""
    hidden = b"GET /v2/health/live HTTP/1.1\r\nHost: smuggled\r\n\r\n"
    with contextlib.closing(connect(server)) as connection:
        connection.sendall(post("digits", f"Transfer-Encoding: {encoding}") + hidden)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 501 "), received[:300]
    assert received.count(b"HTTP/1.1 ") == 1, received
    assert b"Connection: close" in received


def test_answers_that_are_never_read(server):
    """B5: 120 such clients once held 800 MB; 1024 would have held 6.6 GB."""
    before = resident(server)

    def attack(stack):
        for _ in range(120):
            connection = opens(stack, server, sized("wide", WIDE), receive_buffer=4096)
            select.select([connection], [], [], PATIENCE)  # until an answer or a refusal begins

    with beside("answers never read", server, attack) as neighbour:
        held = resident(server)
    report("answers never read: memory", before_mb=round(before / MIB, 1),
           held_mb=round(held / MIB, 1), peak_mb=round(neighbour.peak / MIB, 1))
    assert neighbour.peak - before < LARGE + SLACK


def test_headers_that_come_slowly(server):
    def attack(stack):
        for _ in range(200):
            opens(stack, server, b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\nX: ")

    with beside("slow headers", server, attack):
        pass


@contextlib.contextmanager
def few_descriptors(count):
    """Processes that are started inside this context have at most `count` open files and sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def live_over_grpc(server):
    with server.grpc() as client:
        return client.is_server_live(client_timeout=PATIENCE)


def wait_until_served(server):
    """Both ports answer; each may still count connections that clients have closed just now."""
    asks = [lambda: ask(server, sized("digits", DIGIT))[0] == 200, lambda: live_over_grpc(server)]
    deadline = time.monotonic() + PATIENCE
    while asks and time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException, InferenceServerException):
            if asks[0]():
                asks.pop(0)
                continue
        time.sleep(0.05)
    assert not asks, "the server did not recover:\n" + server.log()


@pytest.mark.parametrize("port", ("http", "grpc"))
def test_a_flood_of_connections_leaves_no_client_waiting(lagoon, folder, port):
    """B13: with few descriptors, idle sockets on the gRPC port once made HTTP clients hang."""
    with few_descriptors(256):
        process = ServerProcess(lagoon, folder)
    with contextlib.closing(process.wait_ready()) as server, contextlib.ExitStack() as stack:
        neighbour = opens(stack, server, b"")
        for _ in range(400):
            connection = stack.enter_context(contextlib.closing(socket.socket()))
            connection.settimeout(1)
            with contextlib.suppress(OSError):  # the backlog is full
                connection.connect(("127.0.0.1", server.ports[port]))
        neighbour.sendall(sized("digits", DIGIT))
        assert answer(neighbour)[0] == 200
        begin = time.monotonic()
        late = opens(stack, server, sized("digits", DIGIT))
        with contextlib.suppress(ConnectionResetError):  # closed without reading the request
            assert answer(late)[0] in (200, 503)
        report(f"400 connections to {port}", late_client_s=round(time.monotonic() - begin, 3))
        stack.close()
        wait_until_served(server)  # gRPC's own listener once closed its port for ever


def test_header_limit_is_what_it_says(server):
    fields = b"a: b\r\n" * 3000  # 18 KB; once accepted if sent in one piece
    assert ask(server, b"GET /v2 HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n")[0] == 431


def test_draining_tells_clients_to_go(lagoon, folder):
    """B10: requests in flight are answered; later ones get 503 and `Connection: close`."""
    outcomes = {"200": 0, "503": 0, "refused": 0, "cut": 0}
    kept_open = []
    lock = threading.Lock()
    signalled = threading.Event()

    def loop(server):
        connection = connect(server)
        while True:
            try:
                connection.sendall(sized("digits", DIGIT))
                status, fields, _ = answer(connection)
                outcome = str(status)
                closes = fields["connection"] == "close"
            except (OSError, http.client.HTTPException):
                outcome, closes = "cut", True
            with lock:
                if signalled.is_set():
                    outcomes[outcome] = outcomes.get(outcome, 0) + 1
                if outcome == "503" and not closes:
                    kept_open.append(fields)
            if closes:
                connection.close()
                try:
                    connection = connect(server)
                except OSError:
                    with lock:
                        outcomes["refused"] += 1
                    return

    with contextlib.closing(ServerProcess(lagoon, folder).wait_ready()) as server:
        with contextlib.ExitStack() as stack:
            pending = [opens(stack, server, sized("image", IMAGE, len(IMAGE_HEAD)))
                       for _ in range(16)]
            threads = [threading.Thread(target=loop, args=(server,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            first = answer(pending[0])[0]  # after all other requests have been sent
            signalled.set()
            server.terminate()
            statuses = [first] + [answer(connection)[0] for connection in pending[1:]]
            for thread in threads:
                thread.join()
        assert server.wait() == 0, server.log()
        report("drain", after_the_signal=outcomes, in_flight=statuses)
        assert set(statuses) <= {200, 503}
        assert set(outcomes) <= {"200", "503", "refused", "cut"}
        assert not kept_open, kept_open[:3]
