"""Models with strings: BYTES in requests and answers, with Triton's stock clients."""

import json
import struct
import sys
import time

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import TensorProto, helper, numpy_helper

from conftest import ROOT
from server_process import serving, triton_input
from tiny_model import add_model, parameter

sys.path.insert(0, str(ROOT / "python"))

from lagoon import Client, LagoonProcess  # noqa: E402

STRING, FLOAT, INT32 = TensorProto.STRING, TensorProto.FLOAT, TensorProto.INT32


def model_of(nodes, inputs, outputs, constants=()):
    """`inputs` and `outputs`: (name, type, shape)."""
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*one) for one in inputs],
                              [helper.make_tensor_value_info(*one) for one in outputs], list(constants))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def same(shape):
    return model_of([helper.make_node("Identity", ["x"], ["y"])], [("x", STRING, shape)], [("y", STRING, shape)])


def sums(shape):
    """Triton's add and subtract models: numbers as text."""
    nodes = [helper.make_node("Cast", [name], [f"{name}_number"], to=INT32) for name in "ab"]
    for op, name in (("Add", "sum"), ("Sub", "difference")):
        nodes.append(helper.make_node(op, ["a_number", "b_number"], [f"{name}_number"]))
        nodes.append(helper.make_node("Cast", [f"{name}_number"], [name], to=STRING))
    return model_of(nodes, [(name, STRING, shape) for name in "ab"],
                    [(name, STRING, shape) for name in ("sum", "difference")])


def labels():
    """A classifier whose answer is the name of the class, and the text of its score."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["scores"]),
             helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
             helper.make_node("Gather", ["names", "best"], ["label"]),
             helper.make_node("Unsqueeze", ["label", "axes"], ["y"])]
    constants = [numpy_helper.from_array(np.eye(3, dtype=np.float32), "w"),
                 numpy_helper.from_array(np.array([1], np.int64), "axes"),
                 helper.make_tensor("names", STRING, [3], [b"cat", "schöner Hund".encode(), b"fox\0\xff"])]
    return model_of(nodes, [("x", FLOAT, ["n", 3])], [("y", STRING, ["n", 1])], constants)


def lower():
    """Lower case without stop words: as many as there are."""
    node = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="LOWER", stopwords=["the"],
                            locale="C")
    return model_of([node], [("x", STRING, ["n"])], [("y", STRING, ["m"])])


def length_of_words():
    """Words become numbers between two kernels of Lagoon: LabelEncoder, then a product."""
    nodes = [helper.make_node("LabelEncoder", ["x"], ["a"], domain="ai.onnx.ml", keys_strings=["one", "two"],
                              values_floats=[1.0, 2.0], default_float=-1.0),
             helper.make_node("Mul", ["a", "two"], ["b"]),
             helper.make_node("Exp", ["b"], ["y"])]
    return model_of(nodes, [("x", STRING, ["n"])], [("y", FLOAT, ["n"])],
                    [numpy_helper.from_array(np.array([2], np.float32), "two")])


def classifier():
    """As scikit-learn's classes of text are exported: an op of ai.onnx.ml with two outputs."""
    node = helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", post_transform="NONE",
                            coefficients=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], intercepts=[0.0] * 3,
                            classlabels_strings=["red", "green", "blue"], multi_class=0)
    return model_of([node], [("x", FLOAT, ["n", 3])], [("label", STRING, ["n"]), ("scores", FLOAT, ["n", 3])])


BATCHED = """max_batch_size: 8
dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 20000 }
"""


def add_models_without_engine(repository):
    add_model(repository, "same", same(["n"]))
    add_model(repository, "matrix", same(["r", 2]), BATCHED)
    add_model(repository, "padded", same(["n"]), parameter("lagoon.buckets.n", "4,8"))
    add_model(repository, "shaped", same([1, 2, 2]))


@pytest.fixture(scope="module", name="repository")
def fixture_repository(tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    add_models_without_engine(repository)
    add_model(repository, "sums", sums(["r", 3]))
    add_model(repository, "sums_batched", sums(["r", 3]), BATCHED)
    add_model(repository, "labels", labels(), BATCHED)
    add_model(repository, "lower", lower())
    add_model(repository, "words", length_of_words())
    add_model(repository, "classifier", classifier())
    return repository


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, repository):
    with serving(lagoon, repository) as running:
        yield running


@pytest.fixture(scope="module", name="alone")
def fixture_alone(lagoon, tmp_path_factory):
    """A server without an engine."""
    repository = tmp_path_factory.mktemp("alone")
    add_models_without_engine(repository)
    add_model(repository, "sums", sums(["r", 3]))
    with serving(lagoon, repository, "--engine", "none") as running:
        yield running


EDGES = pytest.mark.parametrize("edge", ("json", "binary", "grpc"))


def strings(*elements):
    return np.array([element if isinstance(element, bytes) else element.encode() for element in elements], np.object_)


def ask(edge, server, model, inputs, outputs):
    module = triton_grpc if edge == "grpc" else triton_http
    words = {} if edge == "grpc" else {"binary_data": edge == "binary"}
    tensors = [triton_input(module, name, array, "FP32" if array.dtype == np.float32 else "BYTES", **words)
               for name, array in inputs.items()]
    wanted = [module.InferRequestedOutput(name, **words) for name in outputs]
    with server.grpc() if edge == "grpc" else server.http() as client:
        answer = client.infer(model, tensors, outputs=wanted)
        return [texts(answer.as_numpy(name)) for name in outputs]


def texts(array):
    if array.dtype != np.object_:
        return array
    flat = [text.encode() if isinstance(text, str) else text for text in array.ravel()]
    return strings(*flat).reshape(array.shape) if flat else array


@EDGES
@pytest.mark.parametrize("which", ("server", "alone"))
def test_strings_come_back_as_they_are(request, edge, which):
    server = request.getfixturevalue(which)
    given = strings("ab", "ç", "", "a\0b", "x" * 100_000)
    [answer] = ask(edge, server, "same", {"x": given}, ["y"])
    assert np.array_equal(answer, given)
    given = given[:4].reshape(2, 2)
    [answer] = ask(edge, server, "matrix", {"x": given}, ["y"])
    assert np.array_equal(answer, given)
    [answer] = ask(edge, server, "shaped", {"x": given.reshape(1, 2, 2)}, ["y"])
    assert np.array_equal(answer, given.reshape(1, 2, 2))


@pytest.mark.parametrize("edge", ("binary", "grpc"))
def test_bytes_that_are_no_text_come_back(server, edge):
    given = strings(bytes(range(256)), b"\xff\xfe", b"\0")
    assert np.array_equal(ask(edge, server, "same", {"x": given}, ["y"])[0], given)


def test_in_json_bytes_that_are_no_text_are_replaced(server):
    with server.http() as client:
        outputs = [triton_http.InferRequestedOutput("y", binary_data=False)]
        answer = client.infer("same", [triton_input(triton_http, "x", strings(b"a\xff"), "BYTES")], outputs=outputs)
        assert answer.get_response()["outputs"][0]["data"] == ["a\ufffd"]


@EDGES
def test_no_elements_are_an_answer_too(server, edge):
    [answer] = ask(edge, server, "same", {"x": np.zeros(0, np.object_)}, ["y"])
    assert answer.shape == (0,)
    [answer] = ask(edge, server, "lower", {"x": strings("the")}, ["y"])
    assert np.array_equal(answer, strings(""))  # as the op says


@EDGES
@pytest.mark.parametrize("model", ("sums", "sums_batched"))
def test_numbers_as_text_are_added(server, edge, model):
    a, b = np.arange(6).reshape(2, 3), np.arange(6)[::-1].reshape(2, 3) * 10
    given = {"a": strings(*map(str, a.ravel())).reshape(2, 3), "b": strings(*map(str, b.ravel())).reshape(2, 3)}
    answers = ask(edge, server, model, given, ["sum", "difference"])
    for answer, expected in zip(answers, (a + b, a - b)):
        assert np.array_equal(answer, strings(*map(str, expected.ravel())).reshape(2, 3))


@EDGES
def test_classes_have_names(server, edge):
    x = np.array([[0, 2, 1], [5, 1, 2]], np.float32)
    [answer] = ask(edge, server, "labels", {"x": x}, ["y"])
    assert np.array_equal(answer, strings("schöner Hund", "cat").reshape(2, 1))
    if edge != "json":
        [answer] = ask(edge, server, "labels", {"x": np.array([[0, 1, 2]], np.float32)}, ["y"])
        assert np.array_equal(answer, strings(b"fox\0\xff").reshape(1, 1))


@EDGES
def test_an_op_gives_texts_and_numbers(server, edge):
    x = np.array([[0, 2, 1], [5, 1, 2]], np.float32)
    label, scores = ask(edge, server, "classifier", {"x": x}, ["label", "scores"])
    assert np.array_equal(label, strings("green", "red")) and np.array_equal(scores, x)


@EDGES
def test_the_data_decide_how_many_strings_there_are(server, edge):
    [answer] = ask(edge, server, "lower", {"x": strings("The", "the", "CAT", "the", "Sat")}, ["y"])
    assert np.array_equal(answer, strings("cat", "sat"))
    [answer] = ask(edge, server, "lower", {"x": strings("A", "B", "C", "D", "E")}, ["y"])
    assert np.array_equal(answer, strings("a", "b", "c", "d", "e"))


@EDGES
def test_words_become_numbers_before_lagoon_s_own_kernels(server, edge):
    [answer] = ask(edge, server, "words", {"x": strings("two", "one", "three")}, ["y"])
    assert np.allclose(answer, np.exp([4.0, 2.0, -2.0]))


def test_requests_of_one_batch_keep_their_strings(server):
    def numbers(seed):
        values = np.random.default_rng(seed).integers(-999, 999, (1 + seed % 3, 3))
        return values, strings(*map(str, values.ravel())).reshape(values.shape)
    with server.grpc() as client:
        before = client.get_inference_statistics("sums_batched", as_json=True)["model_stats"][0]
        answers = []
        for seed in range(60):
            inputs = [triton_input(triton_grpc, name, numbers(seed + shift)[1][:1], "BYTES")
                      for name, shift in (("a", 0), ("b", 1000))]
            client.async_infer("sums_batched", inputs, lambda result, error: answers.append((result, error)),
                               request_id=str(seed))
        while len(answers) < 60:
            client.is_server_live()
        for result, error in answers:
            assert error is None
            seed = int(result.get_response().id)
            expected = numbers(seed)[0][:1] + numbers(seed + 1000)[0][:1]
            assert np.array_equal(result.as_numpy("sum").astype(np.int64), expected)
        after = client.get_inference_statistics("sums_batched", as_json=True)["model_stats"][0]
        runs = int(after["execution_count"]) - int(before.get("execution_count", 0))
        assert runs < 60, "no requests ran together"


@EDGES
def test_padding_adds_no_strings(server, edge):
    for count in (1, 3, 4, 7, 9):
        given = strings(*(f"text {i}" for i in range(count)))
        assert np.array_equal(ask(edge, server, "padded", {"x": given}, ["y"])[0], given)


def binary(server, model, shape, data):
    head = json.dumps({"inputs": [{"name": "x", "datatype": "BYTES", "shape": shape,
                                   "parameters": {"binary_data_size": len(data)}}]}).encode()
    return server.post(f"/v2/models/{model}/infer", head + data, {"Inference-Header-Content-Length": str(len(head))})


@pytest.mark.parametrize("data,says", [
    (struct.pack("<I", 3) + b"abc", "1 elements"),
    (struct.pack("<I", 1) * 2 + b"a", "beyond the end"),
    (struct.pack("<I", 0xffffffff) + b"abc", "beyond the end"),
    (b"ab", "beyond the end"),
    (struct.pack("<I", 0) * 3, "3 elements"),
    (b"", "0 elements"),
])
def test_lengths_and_counts_that_lie_are_refused(server, data, says):
    status, reply = binary(server, "same", [2], data)
    assert status == 400 and says in reply["error"] and "'x'" in reply["error"]


@pytest.mark.parametrize("shape", ([1 << 40], [1 << 20, 1 << 20], [-1], [0]))
def test_shapes_that_lie_are_refused(server, shape):
    status, reply = binary(server, "same", shape, struct.pack("<I", 1) + b"a")
    assert status == 400 and reply["error"]


def test_a_text_that_is_no_number_fails_alone(server):
    good, bad = strings("1", "2", "3").reshape(1, 3), strings("1", "x", "").reshape(1, 3)
    for model in ("sums", "sums_batched"):
        with pytest.raises(triton_http.InferenceServerException, match="Cast"):
            ask("binary", server, model, {"a": good, "b": bad}, ["sum"])
        assert np.array_equal(ask("binary", server, model, {"a": good, "b": good}, ["sum"])[0],
                              strings("2", "4", "6").reshape(1, 3))


def test_a_huge_string_and_many_empty_ones(server):
    huge = strings(b"\xee" * (16 << 20))
    assert np.array_equal(ask("binary", server, "same", {"x": huge}, ["y"])[0], huge)
    many = strings(*[b""] * 300_000)
    assert np.array_equal(ask("binary", server, "same", {"x": many}, ["y"])[0], many)


def test_a_raw_body_is_one_string(server):
    status, reply = server.post("/v2/models/same/infer", b"a\xff", {"Inference-Header-Content-Length": "0"}, raw=True)
    assert status == 200 and reply.endswith(b"\2\0\0\0a\xff")
    status, reply = server.post("/v2/models/matrix/infer", b"ab", {"Inference-Header-Content-Length": "0"})
    assert status == 400 and "more than one string" in reply["error"]


def test_generate_takes_and_gives_text(server):
    status, reply = server.post("/v2/models/same/generate", b'{"x": "hello"}')
    assert status == 200 and reply["y"] == "hello"
    status, reply = server.post("/v2/models/lower/generate", b'{"x": ["the", "AB", "C"]}')
    assert status == 200 and reply["y"] == ["ab", "c"]


def test_the_thin_client_sends_and_reads_strings(server):
    client = Client(f"http://{server.url('http')}")
    given = strings("ab", "", b"\xff\0")
    assert np.array_equal(client.infer("same", {"x": given})["y"], given)
    assert np.array_equal(client.infer("same", {"x": np.array(["ç", "a"])})["y"], strings("ç", "a"))
    assert client.infer("same", {"x": given[:0]})["y"].shape == (0,)
    client.close()


def test_metadata_and_statistics_name_the_type(server):
    with server.http() as client:
        metadata = client.get_model_metadata("sums")
        assert {tensor["datatype"] for tensor in metadata["inputs"] + metadata["outputs"]} == {"BYTES"}
        assert client.get_model_config("sums")["input"][0]["data_type"] == "TYPE_STRING"
        ask("json", server, "sums", {name: strings("1", "2", "3").reshape(1, 3) for name in "ab"}, ["sum"])
        assert client.get_inference_statistics("sums")["model_stats"][0]["inference_count"] > 0


def test_without_an_engine_the_message_says_what_to_install(alone):
    with alone.http() as client:
        assert not client.is_model_ready("sums")
    assert "input 0 'a' holds strings" in alone.log() and "pip install onnxruntime" in alone.log()


def test_classes_of_strings_are_refused(server):
    body = {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": ["a"]}],
            "outputs": [{"name": "y", "parameters": {"classification": 1}}]}
    status, reply = server.post("/v2/models/same/infer", json.dumps(body).encode())
    assert status == 400 and "BYTES" in reply["error"]


def test_infer_reads_and_writes_text(lagoon, tmp_path):
    onnx.save(lower(), tmp_path / "lower.onnx")
    for name, array, expected in (("wide", np.array(["the", "AB", "cÐ𝄞ç"]), ["ab", "cÐ𝄞ç"]),
                                  ("bytes", np.array([b"A", b"the", b"c"]), ["a", "c"])):
        np.save(tmp_path / f"{name}.npy", array)
        result = lagoon.run("infer", tmp_path / "lower.onnx", "--input", tmp_path / f"{name}.npy",
                            "--output-dir", tmp_path / name)
        assert result.returncode == 0, result.stderr
        assert np.load(tmp_path / name / "y.npy").tolist() == [text.encode() for text in expected]
    (tmp_path / "x.json").write_text('["Two", "words"]')
    result = lagoon.run("infer", tmp_path / "lower.onnx", "--input", tmp_path / "x.json")
    assert result.returncode == 0, result.stderr
    assert "'two'" in result.stdout and "'words'" in result.stdout
    np.save(tmp_path / "numbers.npy", np.zeros(2, np.float32))
    result = lagoon.run("infer", tmp_path / "lower.onnx", "--input", tmp_path / "numbers.npy")
    assert result.returncode == 1 and "holds FP32" in result.stderr


def test_strings_pass_a_fleet(lagoon, server):
    front = LagoonProcess("serve", "--fleet", server.url("grpc"), path=lagoon.binary).wait_ready(60)
    try:
        with triton_http.InferenceServerClient(f"127.0.0.1:{front.ports['http']}") as client:
            given = strings("ab", b"\xff\0", "")
            deadline = time.monotonic() + 60
            while not client.is_model_ready("same"):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            for _ in range(3):
                answer = client.infer("same", [triton_input(triton_http, "x", given, "BYTES")])
                assert np.array_equal(answer.as_numpy("y"), given)
    finally:
        front.kill()
