"""Requests through a front get what the member itself answers: tensors of all sizes, strings, classes, sequences, errors."""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from classes_test import doubling
from conftest import ROOT
from sequence_test import CONFIG, VALUES, accumulator, expected, value, words
from strings_test import same
from tritonclient.utils import InferenceServerException

from server_process import ServerProcess, triton_input
from tiny_model import add_model

sys.path.insert(0, str(ROOT / "python"))

from lagoon import LagoonProcess  # noqa: E402

MODULES = {"http": triton_http, "grpc": triton_grpc}
BIG = 16_000_000  # elements of 64 MB
MIB = 1 << 20


@pytest.fixture(scope="module", name="member")
def fixture_member(lagoon, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    add_model(repository, "same", same(["n"]))
    add_model(repository, "big", doubling(["n"]))
    add_model(repository, "pair", doubling([1, 6]))
    add_model(repository, "sums", accumulator(), CONFIG % "direct { }")
    server = ServerProcess(lagoon, repository, "--engine", "none", "--workers", 1).wait_ready()
    yield server
    server.close()


class Front(LagoonProcess):
    """A server in front of one member."""

    def __init__(self, lagoon, member, *words):
        super().__init__("serve", "--fleet", member, *words, path=lagoon.binary)
        self.wait_ready()

    def await_models(self, *models):
        deadline = time.monotonic() + 60
        with self.http() as client:
            while not all(client.is_model_ready(model) for model in models):
                assert time.monotonic() < deadline, self.log_tail()
                time.sleep(0.05)
        return self

    def http(self):
        return triton_http.InferenceServerClient(f"127.0.0.1:{self.ports['http']}", network_timeout=60, connection_timeout=60)

    def grpc(self):
        return triton_grpc.InferenceServerClient(f"127.0.0.1:{self.ports['grpc']}")


@pytest.fixture(scope="module", name="front")
def fixture_front(lagoon, member):
    server = Front(lagoon, member.url("grpc"))
    yield server.await_models("same", "big", "pair", "sums")
    server.kill()


def ask(server, edge, model, tensors, outputs=(), **given):
    module = MODULES[edge]
    with getattr(server, edge)() as client:
        answer = client.infer(model, [triton_input(module, *tensor) for tensor in tensors],
                              outputs=[module.InferRequestedOutput(name, **words) for name, words in outputs] or None, **given)
        return answer.as_numpy(outputs[0][0] if outputs else "y")


@pytest.mark.parametrize("edge", ("http", "grpc"))
@pytest.mark.parametrize("elements", (0, 1, 150_528, BIG))
def test_tensors_of_all_sizes(front, edge, elements):
    x = np.arange(elements, dtype=np.float32)
    assert np.array_equal(ask(front, edge, "big", [("x", x)]), 2 * x)


@pytest.mark.parametrize("edge", ("http", "grpc"))
def test_strings(front, edge):
    given = np.array([b"ab", "\u00e7".encode(), b"", bytes(range(256)), b"x" * MIB], dtype=np.object_)
    assert np.array_equal(ask(front, edge, "same", [("x", given, "BYTES")]), given)


@pytest.mark.parametrize("edge", ("http", "grpc"))
def test_classes_and_named_outputs(front, edge):
    x = np.array([[0, 1, 2, 3, 9, 5]], np.float32)
    assert ask(front, edge, "pair", [("x", x)], [("y", {"class_count": 2})]).ravel().tolist() == [b"18.000000:4", b"10.000000:5"]
    answer = ask(front, edge, "pair", [("x", x)], [("y", {})], request_id='a "quoted" id', priority=1, timeout=60_000_000)
    assert np.array_equal(answer, 2 * x)


@pytest.mark.parametrize("edge", ("http", "grpc"))
def test_sequences(front, edge):
    got = [int(ask(front, edge, "sums", [("INPUT", np.full((1, 1), number, np.int32), "INT32")], [("OUTPUT", {})],
                   **words(index, 7))) for index, number in enumerate(VALUES)]
    assert got == expected(7)
    with front.http() as client:
        client.infer("sums", value(triton_http, 5), sequence_id="camera 'one'", sequence_start=True)
        assert int(client.infer("sums", value(triton_http, 6), sequence_id="camera 'one'").as_numpy("OUTPUT")) == 11


@pytest.mark.parametrize("edge", ("http", "grpc"))
@pytest.mark.parametrize("tensors, given", (
    ([("x", np.zeros((1, 5), np.float32))], {}),
    ([("x", np.zeros((1, 6), np.int32))], {}),
    ([("other", np.zeros((1, 6), np.float32))], {}),
    ([("x", np.zeros((1, 6), np.float32))], {"model_version": "7"}),
    ([("x", np.zeros((1, 6), np.float32))], {"outputs": [("z", {})]}),
    ([("x", np.zeros((1, 6), np.float32))], {"model": "none"}),
    ([("INPUT", np.zeros((1, 1), np.int32))], {"model": "sums"}),
))
def test_errors_are_those_of_the_member(front, member, edge, tensors, given):
    told = []
    for server in (member, front):
        with pytest.raises(InferenceServerException) as error:
            ask(server, edge, given.get("model", "pair"), tensors, given.get("outputs", ()),
                model_version=given.get("model_version", ""))
        told.append((error.value.status(), error.value.message()))
    assert told[0] == told[1]


def test_a_member_whose_http_cannot_be_reached_is_refused_with_its_address(lagoon, tmp_path):
    """HTTP does not listen on the address that has joined."""
    repository = tmp_path / "models"
    add_model(repository, "pair", doubling([1, 6]))
    member = ServerProcess(lagoon, repository, "--engine", "none", "--grpc-address", "127.0.0.2").wait_ready()
    front = Front(lagoon, f"127.0.0.2:{member.ports['grpc']}")
    try:
        deadline = time.monotonic() + 60
        says = f"no connection for requests to HTTP of 127.0.0.2:{member.ports['http']} has come about"
        while says not in front.log_file.read_text():
            assert time.monotonic() < deadline, front.log_file.read_text()
            time.sleep(0.05)
        with pytest.raises(InferenceServerException, match="503"):
            ask(front, "http", "pair", [("x", np.zeros((1, 6), np.float32))])
    finally:
        front.kill()
        member.close()


def test_many_requests_at_once(front):
    """More than there may be connections of a front to a member."""
    def send(index):
        return ask(front, "grpc" if index % 2 else "http", "pair", [("x", np.full((1, 6), index, np.float32))])

    with ThreadPoolExecutor(300) as clients:
        answers = list(clients.map(send, range(900)))
    assert [answer[0, 0] for answer in answers] == [2 * index for index in range(900)]


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_member_with_an_address_of_ipv6(lagoon, tmp_path):
    add_model(tmp_path, "pair", doubling([1, 6]))
    member = LagoonProcess("serve", "--models", tmp_path, "--engine", "none", "--address", "::1", path=lagoon.binary).wait_ready()
    front = Front(lagoon, f"[::1]:{member.ports['grpc']}")
    try:
        x = np.ones((1, 6), np.float32)
        assert np.array_equal(ask(front.await_models("pair"), "http", "pair", [("x", x)]), 2 * x)
    finally:
        front.kill()
        member.kill()


def test_requests_at_a_member_that_hangs_end_in_time(lagoon, tmp_path):
    """They are answered when the front has lost the member, and the front serves when the member is back."""
    add_model(tmp_path, "big", doubling(["n"]))
    member = LagoonProcess("serve", "--models", tmp_path, "--engine", "none", path=lagoon.binary).wait_ready()
    front = Front(lagoon, f"127.0.0.1:{member.ports['grpc']}", "--lost-after-ms", 1000).await_models("big")
    errors = []

    def send():
        with pytest.raises(InferenceServerException) as error:
            while True:
                ask(front, "http", "big", [("x", np.zeros(150_528, np.float32))])
        errors.append(error.value.status())

    try:
        clients = [threading.Thread(target=send) for _ in range(4)]
        for client in clients:
            client.start()
        time.sleep(0.3)
        os.kill(member.pid, signal.SIGSTOP)
        for client in clients:
            client.join(30)
        assert errors == ["503"] * 4
        os.kill(member.pid, signal.SIGCONT)
        assert ask(front.await_models("big"), "http", "big", [("x", np.ones(1, np.float32))]) == [2]
    finally:
        front.kill()
        member.kill()
