"""`lagoon serve` end to end with the stock Triton client, over HTTP (JSON and binary) and gRPC."""

import concurrent.futures
import contextlib
import json
import pathlib
import threading

import grpc
import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import TensorProto, helper

from conftest import ROOT, TOLERANCE, relative_error, run_onnxruntime
from server_process import serving, triton_input

SAMPLES = sorted((ROOT / "models" / "digits" / "samples").glob("*.json"))


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, repository):
    with serving(lagoon, repository) as server:
        yield server


class HttpEdge:
    """One way to send requests; GrpcEdge below is another, with the same methods."""
    module = triton_http

    def __init__(self, server, binary):
        self.client = server.http(concurrency=8)
        self.binary = binary

    def infer(self, model, name, array, output, **words):
        inputs = [triton_input(triton_http, name, array, binary_data=self.binary)]
        outputs = [triton_http.InferRequestedOutput(output, binary_data=self.binary)]
        return self.client.infer(model, inputs, outputs=outputs, **words).as_numpy(output)

    def json(self, method, *words):
        return getattr(self.client, method)(*words)


class GrpcEdge:
    module = triton_grpc

    def __init__(self, server):
        self.client = server.grpc()

    def infer(self, model, name, array, output, **words):
        inputs = [triton_input(triton_grpc, name, array)]
        return self.client.infer(model, inputs, **words).as_numpy(output)

    def json(self, method, *words):
        return getattr(self.client, method)(*words, as_json=True)


@pytest.fixture(name="edge", params=("http-json", "http-binary", "grpc"))
def fixture_edge(request, server):
    if request.param == "grpc":
        edge = GrpcEdge(server)
    else:
        edge = HttpEdge(server, binary=request.param == "http-binary")
    yield edge
    edge.client.close()


def test_whole_test_split_of_digits(edge, test_split, digit_scores):
    images, labels = test_split
    scores = np.concatenate([edge.infer("digits", "image", image[None], "scores")
                             for image in images])
    assert np.array_equal(scores.argmax(axis=1), digit_scores.argmax(axis=1))
    assert (scores.argmax(axis=1) == labels).mean() >= 0.97
    assert max(map(relative_error, scores, digit_scores)) <= TOLERANCE


def test_resnet18_agrees_with_onnxruntime(edge, zoo):
    from zoo import make_images
    for image in make_images(2, seed=4712):
        expected = run_onnxruntime(zoo("resnet18"), {"input": image[None]})["output"]
        actual = edge.infer("resnet18", "input", image[None], "output")
        assert relative_error(actual, expected) <= TOLERANCE
        assert actual.argmax() == expected.argmax()


def test_health(edge):
    assert edge.client.is_server_live()
    assert edge.client.is_server_ready()
    assert edge.client.is_model_ready("digits")
    assert edge.client.is_model_ready("digits", "1")


@pytest.mark.parametrize("model, version", (("absent", ""), ("digits", "7")))
def test_model_that_is_not_there_is_not_ready(edge, model, version):
    assert not edge.client.is_model_ready(model, version)


@pytest.mark.parametrize("algorithm", ("gzip", "deflate"))
def test_compressed_requests(edge, algorithm, test_split, digit_scores):
    word = "compression_algorithm" if edge.module is triton_grpc else "request_compression_algorithm"
    scores = edge.infer("digits", "image", test_split[0][:1], "scores", **{word: algorithm})
    assert relative_error(scores, digit_scores[:1]) <= TOLERANCE


@pytest.mark.parametrize("shape", ((4096,), (3, 40, 50)))
def test_large_tensors_of_open_shapes(lagoon, tmp_path, shape):
    """As JSON of more than 16 KiB, and as a raw body."""
    names = ["n", "h", "w"] if len(shape) == 1 else [3, "h", "w"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "open",
                              *([helper.make_tensor_value_info(name, TensorProto.FLOAT, names[:len(shape)])]
                                for name in "xy"))
    file = tmp_path / "open" / "1" / "model.onnx"
    file.parent.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), str(file))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    with serving(lagoon, tmp_path, "--engine", "none") as server:
        assert np.array_equal(HttpEdge(server, binary=False).infer("open", "x", x, "y"), -x)
        status, answer = server.post("/v2/models/open/infer", x.tobytes(),
                                     {"Inference-Header-Content-Length": "0"}, raw=True)
        if len(shape) > 1:
            assert status == 400 and b"more than one open dimension" in answer
        else:
            assert status == 200 and answer.endswith((-x).tobytes())


def threads_of(server):
    """The names of the server's threads, and how long each had a core, in ns (0 where the system does not tell)."""
    threads = []
    for folder in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            name, times = (folder / "comm").read_text().strip(), folder / "schedstat"
            threads.append((name, int(times.read_text().split()[0]) if times.exists() else 0))
    return threads


@pytest.mark.parametrize("protocol", ("http", "grpc"))
def test_large_answers_beside_a_real_time_model(lagoon, tmp_path, protocol):
    """They come whole. Over HTTP a thread of low priority sends those of best-effort models."""
    for name in ("camera", "text"):
        graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], name,
                                  *([helper.make_tensor_value_info(tensor, TensorProto.FLOAT, ["n"])] for tensor in "xy"))
        file = tmp_path / name / "1" / "model.onnx"
        file.parent.mkdir(parents=True)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), str(file))
    (tmp_path / "camera" / "config.pbtxt").write_text("optimization { priority: PRIORITY_MAX }\n")
    x = np.arange(2_000_000, dtype=np.float32)

    def sending(server):
        return sum(time for name, time in threads_of(server) if name == "lagoon-answers")

    with serving(lagoon, tmp_path, "--engine", "none") as server:
        edge = HttpEdge(server, binary=True) if protocol == "http" else GrpcEdge(server)
        assert np.array_equal(edge.infer("camera", "x", x, "y"), -x)
        before = sending(server)
        for _ in range(3):
            assert np.array_equal(edge.infer("text", "x", x, "y"), -x)
        if before > 0 and protocol == "http":
            assert sending(server) > before
        edge.client.close()


def test_threads_are_named_by_what_they_do(server):
    names = [name for name, _ in threads_of(server)]
    assert names.count("lagoon") == 1, names  # the main thread
    for name in ("lagoon-edge-0", "lagoon-edge-1", "lagoon-json", "lagoon-answers", "lagoon-cpu-0",
                 "lagoon-idle-0", "lagoon-news", "lagoon-timer", "lagoon-reopen"):
        assert names.count(name) == 1, (name, names)


def test_server_metadata(edge):
    metadata = edge.json("get_server_metadata")
    assert metadata["name"] == "lagoon"
    assert metadata["version"]


def test_model_metadata(edge):
    metadata = edge.json("get_model_metadata", "digits")
    assert metadata["name"] == "digits"
    assert metadata["versions"] == ["1"]
    described = [(tensor["name"], tensor["datatype"], [int(size) for size in tensor["shape"]])
                 for tensor in metadata["inputs"] + metadata["outputs"]]
    assert described == [("image", "FP32", [1, 1, 8, 8]), ("scores", "FP32", [1, 10])]


def test_model_config(edge):
    config = edge.json("get_model_config", "resnet18")
    config = config.get("config", config)  # over gRPC the config is inside a field
    assert config["name"] == "resnet18"
    assert config["input"][0]["data_type"] == "TYPE_FP32"
    assert [int(size) for size in config["input"][0]["dims"]] == [-1, 3, 224, 224]
    assert config["optimization"]["priority"] == "PRIORITY_MAX"


def read_statistics(edge, model):
    models = edge.json("get_inference_statistics", model)["model_stats"]
    assert [entry["name"] for entry in models] == [model]
    return models[0]


def test_statistics_count_what_was_asked(edge, test_split):
    before = read_statistics(edge, "digits")
    for image in test_split[0][:5]:
        edge.infer("digits", "image", image[None], "scores")
    after = read_statistics(edge, "digits")
    stage = lambda entry, name, key: int(entry["inference_stats"].get(name, {}).get(key, 0))
    assert int(after["inference_count"]) - int(before.get("inference_count", 0)) == 5
    assert int(after["execution_count"]) - int(before.get("execution_count", 0)) == 5
    for name in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert stage(after, name, "count") - stage(before, name, "count") == 5, name
        assert stage(after, name, "ns") >= stage(before, name, "ns"), name
    assert stage(after, "success", "ns") > stage(before, "success", "ns")
    assert stage(after, "fail", "count") == stage(before, "fail", "count")


def test_request_id_model_and_version_come_back(edge, test_split):
    words = {"binary_data": edge.binary} if isinstance(edge, HttpEdge) else {}
    inputs = [triton_input(edge.module, "image", test_split[0][0][None], **words)]
    result = edge.client.infer("digits", inputs, model_version="1", request_id="order-66")
    response = result.get_response()
    get = response.get if isinstance(response, dict) else lambda key: getattr(response, key)
    assert (get("id"), get("model_name"), get("model_version")) == ("order-66", "digits", "1")


@pytest.mark.parametrize("priority", (0, 1, 2, 255))
def test_priority_changes_no_answer(edge, test_split, digit_scores, priority):
    scores = edge.infer("digits", "image", test_split[0][3][None], "scores", priority=priority)
    assert relative_error(scores, digit_scores[3:4]) <= TOLERANCE


def test_generous_timeout_changes_no_answer(edge, test_split, digit_scores):
    scores = edge.infer("digits", "image", test_split[0][4][None], "scores", timeout=30_000_000)
    assert relative_error(scores, digit_scores[4:5]) <= TOLERANCE


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_sample_request_is_answered_as_by_curl(server, sample):
    status, reply = server.post("/v2/models/digits/infer", sample.read_bytes())
    assert status == 200, reply
    output = reply["outputs"][0]
    assert (output["name"], output["datatype"], output["shape"]) == ("scores", "FP32", [1, 10])
    assert int(np.argmax(output["data"])) == int(sample.stem.removeprefix("digit-"))


def test_async_http_answers_belong_to_their_requests(server, test_split, digit_scores):
    client = server.http(concurrency=8)
    images = test_split[0][:64]
    pending = [client.async_infer("digits", [triton_input(triton_http, "image", image[None])],
                                  request_id=str(index)) for index, image in enumerate(images)]
    for index, request in enumerate(pending):
        result = request.get_result()
        assert result.get_response()["id"] == str(index)
        assert relative_error(result.as_numpy("scores"), digit_scores[index:index + 1]) <= TOLERANCE
    client.close()


def test_async_grpc_answers_belong_to_their_requests(server, test_split, digit_scores):
    answers = [concurrent.futures.Future() for _ in range(64)]
    with server.grpc() as client:
        for index, answer in enumerate(answers):
            def done(result, error, answer=answer):
                answer.set_exception(error) if error else answer.set_result(result)
            image = test_split[0][index][None]
            client.async_infer("digits", [triton_input(triton_grpc, "image", image)], done,
                               request_id=str(index))
        for index, answer in enumerate(answers):
            result = answer.result(60)
            assert result.get_response().id == str(index)
            assert relative_error(result.as_numpy("scores"),
                                  digit_scores[index:index + 1]) <= TOLERANCE


@pytest.mark.parametrize("service, expected", [(b"", 1), (b"inference.GRPCInferenceService", 1)])
def test_grpc_health_protocol_says_serving(server, service, expected):
    """grpc.health.v1.Health/Check, with messages written as bytes: {1: service} -> {1: status}."""
    with grpc.insecure_channel(server.url("grpc")) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        request = b"\x0a" + bytes([len(service)]) + service if service else b""
        assert check(request, timeout=30) == bytes([8, expected])


def test_grpc_health_protocol_does_not_know_other_services(server):
    with grpc.insecure_channel(server.url("grpc")) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.RpcError) as error:
            check(b"\x0a\x06absent", timeout=30)
        assert error.value.code() == grpc.StatusCode.NOT_FOUND


def test_metrics_count_and_are_described(server, test_split):
    edge = HttpEdge(server, binary=True)
    before, _ = server.metrics()
    for image in test_split[0][:3]:
        edge.infer("digits", "image", image[None], "scores")
    after, text = server.metrics()
    for name in ("nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count"):
        assert after[name, "digits"] - before.get((name, "digits"), 0) == 3, name
    for name in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        assert (f"nv_inference_{name}_duration_us", "digits") in after, name
    assert 'version="1"' in text
    families = {name for name, _ in after if name.startswith(("nv_", "lagoon_"))}
    assert any(name.startswith("lagoon_") for name in families)
    for name in families:
        base = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        assert f"# TYPE {name} " in text or f"# TYPE {base} " in text, name
        assert f"# HELP {name} " in text or f"# HELP {base} " in text, name


def test_real_time_and_best_effort_together_answer_the_same_bits(server):
    """Preemption does not change answers: under contention they have the same bits as alone."""
    from zoo import make_images
    image = make_images(1, seed=4713)
    alone = {}
    answers = {"resnet18": [], "mobilenet_v2": []}
    edge = HttpEdge(server, binary=True)
    for model in answers:
        alone[model] = edge.infer(model, "input", image, "output")
    before, _ = server.metrics()
    stop = threading.Event()

    def keep_asking():
        own = HttpEdge(server, binary=True)
        while not stop.is_set():
            answers["mobilenet_v2"].append(own.infer("mobilenet_v2", "input", image, "output"))
        own.client.close()

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        background = [pool.submit(keep_asking) for _ in range(2)]
        try:
            for _ in range(100):
                answers["resnet18"].append(edge.infer("resnet18", "input", image, "output"))
        finally:
            stop.set()
        for future in background:
            future.result()
    assert len(answers["mobilenet_v2"]) >= 2
    for model, outputs in answers.items():
        assert all(np.array_equal(output, alone[model]) for output in outputs), model
    after, _ = server.metrics()
    key = ("lagoon_revocations_total", "mobilenet_v2")
    assert after[key] > before.get(key, 0)  # else nothing was preempted and the test means nothing
    edge.client.close()


def test_many_clients_at_once(server, test_split, digit_scores):
    def ask(first):
        edge = GrpcEdge(server) if first % 2 else HttpEdge(server, binary=True)
        rows = range(first, 360, 16)
        scores = [edge.infer("digits", "image", test_split[0][row][None], "scores") for row in rows]
        edge.client.close()
        return rows, scores

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for rows, scores in pool.map(ask, range(16)):
            for row, score in zip(rows, scores):
                assert relative_error(score, digit_scores[row:row + 1]) <= TOLERANCE


def test_json_with_nested_data_and_whitespace(server, test_split, digit_scores):
    body = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8],
                        "data": test_split[0][0][None].tolist()}]}
    status, reply = server.post("/v2/models/digits/versions/1/infer",
                                json.dumps(body, indent=2).encode())
    assert status == 200, reply
    scores = np.array(reply["outputs"][0]["data"], np.float32).reshape(1, 10)
    assert relative_error(scores, digit_scores[:1]) <= TOLERANCE
