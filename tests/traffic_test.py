"""The clients of the fleet's tests see lost, doubled and wrong answers: against a server that makes them."""

import contextlib
import json
import socket
import sys
import threading

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "fleet"))

from traffic import Connection, Traffic, percentile  # noqa: E402


class FaultyServer:
    """Answers each request with its id and the value 1, but the request number `at` with the fault."""

    def __init__(self, fault, at=5):
        self._fault, self._at = fault, at
        self._number = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, connection):
        stream = connection.makefile("rb")
        while line := stream.readline():
            size = 0
            while (line := stream.readline().strip()):
                if line.lower().startswith(b"content-length:"):
                    size = int(line.split(b":")[1])
            body = json.loads(stream.read(size))
            self._number += 1
            answers = self._fault(body["id"]) if self._number == self._at else [(200, body["id"], 1)]
            if not answers:
                connection.shutdown(socket.SHUT_RDWR)
                connection.close()
                return
            for status, name, value in answers:
                text = json.dumps({"id": name, "value": value}).encode()
                connection.sendall(f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)

    def close(self):
        self._listener.close()


@pytest.mark.parametrize("fault, counts", [
    (lambda name: [(200, name, 1)], {}),
    (lambda name: [], {"lost": 1}),
    (lambda name: [(200, name, 1), (200, name, 1)], {"doubled": 1}),
    (lambda name: [(200, name, 2)], {"wrong": 1}),
    (lambda name: [(500, name, 1)], {"wrong": 1}),
    (lambda name: [(404, name, 1)], {"unknown": 1}),
    (lambda name: [(503, name, 1)], {"unavailable": 1})])
def test_every_fault_is_counted(fault, counts):
    server = FaultyServer(fault)
    with Traffic("127.0.0.1", server.port, "m", {}, lambda answer: answer["value"] == 1, clients=1) as traffic:
        traffic.wait(20)
    server.close()
    expected = {"unavailable": 0, "unknown": 0, "wrong": 0, "doubled": 0, "lost": 0, **counts}
    found = traffic.counts()
    assert {name: found[name] for name in expected} == expected, traffic.problems
    assert found["sent"] == found["answered"] + found["lost"]
    assert len(traffic.milliseconds) == found["answered"] - sum(expected[name] for name in ("unavailable", "unknown", "wrong", "doubled"))


def test_a_doubled_last_answer_is_seen():
    server = FaultyServer(lambda name: [(200, name, 1), (200, "more", 1)], at=1)
    connection = Connection("127.0.0.1", server.port, 30)
    assert connection.ask("/", b'{"id": "first"}')[0] == 200
    assert connection.has_more()
    other = Connection("127.0.0.1", server.port, 30)
    assert other.ask("/", b'{"id": "second"}')[0] == 200
    assert not other.has_more()
    server.close()


def test_clients_wait_for_a_server_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Traffic("127.0.0.1", port, "m", {}, lambda answer: True, clients=1) as traffic:
        with pytest.raises(TimeoutError, match="0 of 1 good answers"):
            traffic.wait(1, seconds=0.2)
    assert traffic.sent == 0


def test_percentiles_are_values_of_the_list():
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile(list(range(1, 101)), 0.99) == 99
    assert percentile([7], 0.99) == 7
