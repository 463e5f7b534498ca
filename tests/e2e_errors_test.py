"""Bad input to a running server: a clear error on every edge, and other clients are not disturbed."""

import contextlib
import http.client
import json
import socket
import struct
import time

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from conftest import DIGITS, TOLERANCE, copy_model, relative_error
from server_process import serving, triton_input

INFER = "/v2/models/digits/infer"
IMAGE = np.zeros((1, 1, 8, 8), np.float32)


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, zoo, tmp_path_factory):
    folder = tmp_path_factory.mktemp("errors")
    (folder / "digits").symlink_to(DIGITS)
    (folder / "resnet18").symlink_to(zoo("resnet18").parent.parent)
    resnet = zoo("resnet18").parent.parent
    copy_model(resnet, folder, "small_queue",
               'dynamic_batching { default_queue_policy { max_queue_size: 1 } }\n')
    copy_model(resnet, folder, "camera",
               'parameters { key: "lagoon.overflow" value { string_value: "newest_wins" } }\n'
               'parameters { key: "lagoon.max_queue_size" value { string_value: "1" } }\n')
    with serving(lagoon, folder) as server:
        yield server


@pytest.fixture(autouse=True)
def fixture_still_serves(server, test_split, digit_scores):
    """After every test: a new client gets the right answer."""
    yield
    assert server.process.poll() is None, server.log()
    client = server.http()
    result = client.infer("digits", [triton_input(triton_http, "image", test_split[0][0][None])])
    assert relative_error(result.as_numpy("scores"), digit_scores[:1]) <= TOLERANCE
    client.close()


def infer_http(server, model, tensors, **words):
    client = server.http()
    try:
        return client.infer(model, [triton_input(triton_http, *tensor) for tensor in tensors],
                            **words)
    finally:
        client.close()


def infer_grpc(server, model, tensors, **words):
    with server.grpc() as client:
        return client.infer(model, [triton_input(triton_grpc, *tensor) for tensor in tensors],
                            **words)


EDGES = pytest.mark.parametrize("infer", (infer_http, infer_grpc), ids=("http", "grpc"))
# Errors as (HTTP status, gRPC status).
NOT_FOUND = ("404", "StatusCode.NOT_FOUND")
INVALID = ("400", "StatusCode.INVALID_ARGUMENT")
EXPIRED = ("504", "StatusCode.DEADLINE_EXCEEDED")
FULL = ("503", "StatusCode.UNAVAILABLE")


@EDGES
@pytest.mark.parametrize("model, tensors, words, status, expected", [
    ("absent", [("image", IMAGE)], {}, NOT_FOUND, ["absent"]),
    ("digits", [("image", IMAGE)], {"model_version": "7"}, NOT_FOUND, ["digits", "7"]),
    ("digits", [("image", IMAGE.astype(np.int64), "INT64")], {}, INVALID,
     ["digits", "image", "INT64", "FP32"]),
    ("digits", [("image", np.zeros((1, 8, 8), np.float32))], {}, INVALID,
     ["digits", "image", "[1,8,8]", "[1,1,8,8]"]),
    ("digits", [("image", np.zeros((2, 1, 8, 8), np.float32))], {}, INVALID,
     ["image", "[2,1,8,8]"]),
    ("digits", [("picture", IMAGE)], {}, INVALID, ["picture", "image"]),
    ("digits", [("image", IMAGE), ("image", IMAGE)], {}, INVALID, ["image"]),
    ("digits", [("image", IMAGE), ("more", IMAGE)], {}, INVALID, ["more"]),
    ("digits", [], {}, INVALID, ["image"]),
], ids=("model", "version", "type", "rank", "batch", "name", "twice", "extra", "missing"))
def test_wrong_request_is_named(server, infer, model, tensors, words, status, expected):
    with pytest.raises(InferenceServerException) as error:
        infer(server, model, tensors, **words)
    assert error.value.status() in status
    for word in expected:
        assert word in error.value.message().replace(", ", ","), error.value.message()


@pytest.mark.parametrize("module, edge", ((triton_http, infer_http), (triton_grpc, infer_grpc)),
                         ids=("http", "grpc"))
def test_unknown_output_is_named(server, module, edge):
    with pytest.raises(InferenceServerException) as error:
        edge(server, "digits", [("image", IMAGE)], outputs=[module.InferRequestedOutput("logits")])
    assert error.value.status() in INVALID
    assert "logits" in error.value.message()


def test_grpc_tensor_of_the_wrong_size_is_refused(server):
    tensor = triton_input(triton_grpc, "image", IMAGE)
    tensor._raw_content = tensor._raw_content[:-4]
    with server.grpc() as client, pytest.raises(InferenceServerException) as error:
        client.infer("digits", [tensor])
    assert error.value.status() == INVALID[1]
    assert "252" in error.value.message() and "256" in error.value.message()


def request_body(**changes):
    tensor = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [0.0] * 64}
    tensor.update(changes)
    tensor = {key: value for key, value in tensor.items() if value is not None}
    return json.dumps({"inputs": [tensor]}).encode()


@pytest.mark.parametrize("body", [
    b"", b"nonsense", b"{", b"[]", b"null", b'"text"', b"{}", b'{"inputs": 1}', b'{"inputs": [1]}',
    b'{"inputs": [{}]}', b"\xff\xfe{}", b"[" * 100_000, b'{"inputs":' * 20_000,
    request_body(data=[0.0] * 63), request_body(data=[0.0] * 65), request_body(data=["0"] * 64),
    request_body(data=[[0.0] * 64, []]), request_body(data={"a": 1}), request_body(data=None),
    request_body(data=[1e400] * 64), request_body(shape=[1, 1, 8, -8]),
    request_body(shape=[2**62, 2**62]),
    request_body(shape=[1.5]), request_body(shape="1,1,8,8"), request_body(shape=[1] * 100_000),
    request_body(shape=None), request_body(datatype=None), request_body(name=7),
    request_body(parameters={"binary_data_size": 256}), request_body(parameters=[]),
], ids=lambda body: body[:24].decode(errors="replace") + f"..{len(body)}")
def test_bad_json_is_answered_with_400(server, body):
    status, reply = server.post(INFER, body)
    assert status == 400
    assert reply["error"].strip()


@pytest.mark.parametrize("datatype, expected", (("FP33", 400), ("fp32", 400), ("", 400),
                                                ("BYTES", 400)))
def test_datatype_that_is_not_the_models_is_named(server, datatype, expected):
    status, reply = server.post(INFER, request_body(datatype=datatype))
    assert status == expected
    assert "'image'" in reply["error"] and datatype in reply["error"]


BINARY = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8],
                                 "parameters": {"binary_data_size": 256}}]}).encode()


@pytest.mark.parametrize("length, body", [
    ("nonsense", BINARY + bytes(256)), ("-1", BINARY + bytes(256)),
    (str(2**64), BINARY + bytes(256)),
    ("9999", BINARY + bytes(256)), (str(len(BINARY) - 1), BINARY + bytes(256)),
    (str(len(BINARY)), BINARY + bytes(255)), (str(len(BINARY)), BINARY + bytes(257)),
    (str(len(BINARY)), BINARY),
    (str(len(BINARY)), BINARY.replace(b"256", b"-25") + bytes(256)),
    (str(len(BINARY) + 17), BINARY.replace(b"256", b"99999999999999999999") + bytes(256)),
])
def test_binary_tensor_that_does_not_add_up_is_answered_with_400(server, length, body):
    status, reply = server.post(INFER, body, {"Inference-Header-Content-Length": length})
    assert status == 400
    assert reply["error"].strip()


def test_well_formed_binary_tensor_is_served(server):
    """A valid request of the same form as the cases above: those fail for their errors, not for their form."""
    request = json.loads(BINARY)
    request["outputs"] = [{"name": "scores", "parameters": {"binary_data": False}}]
    header = json.dumps(request).encode()
    status, reply = server.post(INFER, header + bytes(256),
                                {"Inference-Header-Content-Length": str(len(header))})
    assert status == 200, reply
    assert len(reply["outputs"][0]["data"]) == 10


def exchange(server, data, port="http"):
    """The raw answer to raw bytes."""
    with socket.create_connection(("127.0.0.1", server.ports[port]), timeout=30) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


@pytest.mark.parametrize("request_head, status", [
    (b"GET /v2/models/digits/infer HTTP/1.1\r\nHost: a\r\n\r\n", b"405"),
    (b"POST /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", b"405"),
    (b"GET /v3 HTTP/1.1\r\nHost: a\r\n\r\n", b"404"),
    (b"GET /v2/models/../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", b"404"),
    (b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", b"400"),
    (b"nonsense\r\n\r\n", b"400"),
    (b"GET /v2 HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", b"431"),
])
def test_bad_http_is_answered_with_its_status(server, request_head, status):
    try:
        answer = exchange(server, request_head)
    except ConnectionResetError:
        pytest.fail("the connection was reset before the answer could be read")
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]


def test_announced_oversized_body_is_refused_before_it_is_sent(server):
    head = (f"POST {INFER} HTTP/1.1\r\nHost: a\r\nContent-Length: {10**15}\r\n\r\n").encode()
    with socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=30) as connection:
        connection.sendall(head)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413"), answer[:200]


def test_oversized_body_is_refused(server):
    status, reply = server.post(INFER, bytes(80 << 20))
    assert status == 413
    assert reply["error"].strip()


def test_oversized_grpc_message_is_refused(server):
    with pytest.raises(InferenceServerException) as error:
        infer_grpc(server, "digits", [("image", np.zeros((1, 65 << 20), np.float32))])
    assert error.value.status() == "StatusCode.RESOURCE_EXHAUSTED"


@pytest.mark.parametrize("port", ("http", "grpc", "metrics"))
@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_disturb_nothing(server, port, seed):
    data = np.random.default_rng(seed).bytes(4096)
    try:
        exchange(server, data, port)
    except OSError:
        pass  # noise may be answered by a reset of the connection


@EDGES
def test_expired_request_is_answered_as_such(server, infer):
    image = np.zeros((1, 3, 224, 224), np.float32)
    before, _ = server.metrics()
    with pytest.raises(InferenceServerException) as error:
        infer(server, "resnet18", [("input", image)], timeout=100)  # us: less than its first layer
    assert error.value.status() in EXPIRED
    assert "resnet18" in error.value.message()
    after, _ = server.metrics()
    misses = ("lagoon_deadline_misses_total", "resnet18")
    assert after[misses] == before[misses] + 1


def ask_many(server, model, count):
    """[(status, answer)] of `count` requests whose last bytes arrive together."""
    head = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 3, 224, 224],
                                   "parameters": {"binary_data_size": 4 * 3 * 224 * 224}}]}).encode()
    body = head + bytes(4 * 3 * 224 * 224)
    request = (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: test\r\nContent-Length: {len(body)}\r\n"
               f"Inference-Header-Content-Length: {len(head)}\r\nConnection: close\r\n\r\n").encode() + body
    clients = [socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=60) for _ in range(count)]
    for client in clients:
        client.sendall(request[:-1])
    for client in clients:
        client.sendall(request[-1:])
    results = []
    for client in clients:
        with contextlib.closing(client), contextlib.closing(http.client.HTTPResponse(client)) as response:
            response.begin()
            results.append((response.status, json.loads(response.read())))
    return results


@pytest.mark.parametrize("model", ("small_queue", "camera"))
def test_overflow_is_answered_at_once(server, model):
    """With a queue of one request, some requests are served and the others refused; none hangs."""
    results = ask_many(server, model, 12)
    answers = [answer["outputs"][0]["data"] for status, answer in results if status == 200]
    errors = [(status, answer["error"]) for status, answer in results if status != 200]
    assert answers and errors
    assert all(str(status) in FULL and model in message for status, message in errors), errors
    assert all(answer == answers[0] for answer in answers)


def connect_and_leave(server, head, body, linger):
    connection = socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=30)
    connection.sendall(head + body)
    if linger is not None:
        time.sleep(linger)
    # Closes with a reset instead of an orderly shutdown, which is harder for the server.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.parametrize("part", (0.0, 0.5, 1.0), ids=("head", "half-body", "whole"))
def test_client_that_leaves_mid_request_disturbs_nothing(server, part):
    tensor = {"name": "input", "datatype": "FP32", "shape": [1, 3, 224, 224],
              "parameters": {"binary_data_size": 602112}}
    header = json.dumps({"inputs": [tensor]}).encode()
    body = header + bytes(602112)
    head = (f"POST /v2/models/resnet18/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
            f"Inference-Header-Content-Length: {len(header)}\r\n\r\n").encode()
    for index in range(8):
        connect_and_leave(server, head, body[:int(part * len(body))], linger=0.002 * (index % 4))


def test_cancelled_grpc_calls_disturb_nothing(server):
    image = np.zeros((1, 3, 224, 224), np.float32)
    with server.grpc() as client:
        contexts = [client.async_infer("resnet18", [triton_input(triton_grpc, "input", image)],
                                       lambda result, error: None) for _ in range(8)]
        for context in contexts:
            context.cancel()


def test_grpc_client_timeout_is_honoured(server):
    image = np.zeros((1, 3, 224, 224), np.float32)
    with pytest.raises(InferenceServerException) as error:
        infer_grpc(server, "resnet18", [("input", image)], client_timeout=0.001)
    assert error.value.status() == EXPIRED[1]
