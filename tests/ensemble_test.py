"""Ensembles: models that Triton runs as the steps of one request."""

import contextlib
import itertools
import json
import os
import queue

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shared_memory
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from server_process import serving

MODULES = pytest.mark.parametrize("module", (triton_http, triton_grpc), ids=("http", "grpc"))
KEYS = itertools.count()
WEIGHTS = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
CONFIG = """
name: "pipeline"
platform: "ensemble"
max_batch_size: 8
input [ { name: "RAW" data_type: TYPE_UINT8 dims: [ 4 ] } ]
output [ { name: "SCORES" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" },
         { name: "PICTURE" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling { step [
  { model_name: "classify" model_version: -1
    input_map { key: "pixels" value: "PICTURE" } output_map { key: "scores" value: "SCORES" } },
  { model_name: "prepare" model_version: -1
    input_map { key: "raw" value: "RAW" } output_map { key: "picture" value: "PICTURE" } } ] }
"""


def add_model(repository, name, nodes, inputs, outputs, constants=(), config="max_batch_size: 8"):
    def infos(tensors):
        return [helper.make_tensor_value_info(tensor, kind, ["batch", size]) for tensor, kind, size in tensors]
    graph = helper.make_graph(nodes, name, infos(inputs), infos(outputs), list(constants))
    folder = repository / name / "1"
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    (folder.parent / "config.pbtxt").write_text(config)


def add_prepare(repository, config="max_batch_size: 8"):
    """picture = raw / 255"""
    add_model(repository, "prepare",
              [helper.make_node("Cast", ["raw"], ["number"], to=TensorProto.FLOAT),
               helper.make_node("Mul", ["number", "factor"], ["picture"])],
              [("raw", TensorProto.UINT8, 4)], [("picture", TensorProto.FLOAT, 4)],
              [helper.make_tensor("factor", TensorProto.FLOAT, [1], [1 / 255])], config)


def add_classify(repository, config="max_batch_size: 8 dynamic_batching { }"):
    """scores = pixels x WEIGHTS"""
    add_model(repository, "classify", [helper.make_node("MatMul", ["pixels", "weights"], ["scores"])],
              [("pixels", TensorProto.FLOAT, 4)], [("scores", TensorProto.FLOAT, 3)],
              [helper.make_tensor("weights", TensorProto.FLOAT, [4, 3], WEIGHTS.ravel())], config)


def add_ensemble(repository, config=CONFIG, name="pipeline"):
    (repository / name / "1").mkdir(parents=True, exist_ok=True)
    (repository / name / "config.pbtxt").write_text(config.replace('name: "pipeline"', f'name: "{name}"', 1))
    (repository / name / "labels.txt").write_text("cat\ndog\nfox\n")


def add_all(repository):
    add_prepare(repository)
    add_classify(repository)
    add_ensemble(repository)


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    add_all(repository)
    with serving(lagoon, repository) as server:
        yield server


def client_of(module, server):
    return contextlib.closing(server.http() if module is triton_http else server.grpc())


def pixels(rows=2):
    return np.random.default_rng(rows).integers(0, 256, (rows, 4), dtype=np.uint8)


def input_of(module, raw):
    tensor = module.InferInput("RAW", raw.shape, "UINT8")
    tensor.set_data_from_numpy(raw)
    return [tensor]


def expected(raw):
    picture = raw.astype(np.float32) / 255
    return picture, picture @ WEIGHTS


@MODULES
@pytest.mark.parametrize("rows", (1, 3, 8))
def test_a_request_runs_through_the_steps(server, module, rows):
    raw = pixels(rows)
    picture, scores = expected(raw)
    with client_of(module, server) as client:
        result = client.infer("pipeline", input_of(module, raw), request_id="mine")
        np.testing.assert_allclose(result.as_numpy("SCORES"), scores, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(result.as_numpy("PICTURE"), picture, rtol=1e-5)
        answer = result.get_response()
        assert (answer["id"] if module is triton_http else answer.id) == "mine"
        result = client.infer("pipeline", input_of(module, raw), outputs=[module.InferRequestedOutput("PICTURE")])
        np.testing.assert_allclose(result.as_numpy("PICTURE"), picture, rtol=1e-5)
        assert result.as_numpy("SCORES") is None


@MODULES
def test_classes_priorities_and_deadlines_work(server, module):
    raw = pixels()
    _, scores = expected(raw)
    with client_of(module, server) as client:
        output = module.InferRequestedOutput("SCORES", class_count=1)
        classes = client.infer("pipeline", input_of(module, raw), outputs=[output]).as_numpy("SCORES")
        best = [row[0].decode().split(":")[1:] for row in classes]
        assert best == [[str(index), ("cat", "dog", "fox")[index]] for index in scores.argmax(1)]
        client.infer("pipeline", input_of(module, raw), priority=2, timeout=60_000_000)
        with pytest.raises(InferenceServerException, match="Request timeout expired: model 'pipeline'"):
            client.infer("pipeline", input_of(module, raw), timeout=1)
        with pytest.raises(InferenceServerException, match="'pipeline'.*'NOTHING'.*'SCORES', 'PICTURE'"):
            client.infer("pipeline", input_of(module, raw), outputs=[module.InferRequestedOutput("NOTHING")])
        with pytest.raises(InferenceServerException, match="'pipeline'.*a batch of 9; the model takes 1 to 8"):
            client.infer("pipeline", input_of(module, pixels(9)))


@MODULES
def test_tensors_may_lie_in_shared_memory(server, module):
    raw = pixels()
    key = f"/lagoon-ensemble-{os.getpid()}-{next(KEYS)}"
    handle = shared_memory.create_shared_memory_region("region", key, 64)
    try:
        with client_of(module, server) as client:
            client.unregister_system_shared_memory()
            client.register_system_shared_memory("data", key, 64)
            shared_memory.set_shared_memory_region(handle, [raw])
            tensor = module.InferInput("RAW", raw.shape, "UINT8")
            tensor.set_shared_memory("data", raw.nbytes)
            output = module.InferRequestedOutput("SCORES")
            output.set_shared_memory("data", 24, offset=32)
            client.infer("pipeline", [tensor], outputs=[output])
            scores = shared_memory.get_contents_as_numpy(handle, np.float32, [2, 3], offset=32)
            np.testing.assert_allclose(scores, expected(raw)[1], rtol=1e-4, atol=1e-5)
            client.unregister_system_shared_memory()
    finally:
        shared_memory.destroy_shared_memory_region(handle)


def test_json_and_streams_reach_ensembles_too(server):
    raw = pixels()
    scores = expected(raw)[1]
    body = {"inputs": [{"name": "RAW", "shape": [2, 4], "datatype": "UINT8", "data": raw.ravel().tolist()}],
            "outputs": [{"name": "SCORES"}], "parameters": {"lagoon_stages": True}}
    status, answer = server.post("/v2/models/pipeline/infer", json.dumps(body).encode())
    assert status == 200 and answer["outputs"][0]["shape"] == [2, 3]
    np.testing.assert_allclose(answer["outputs"][0]["data"], scores.ravel(), rtol=1e-4, atol=1e-5)
    stages = {key: value for key, value in answer["parameters"].items() if key.endswith("_us")}
    assert stages and all(value >= 0 for value in stages.values()), stages
    answers = queue.Queue()
    with client_of(triton_grpc, server) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for _ in range(3):
            client.async_stream_infer("pipeline", input_of(triton_grpc, raw))
        for _ in range(3):
            result, error = answers.get(timeout=60)
            assert error is None
            np.testing.assert_allclose(result.as_numpy("SCORES"), scores, rtol=1e-4, atol=1e-5)
        client.stop_stream()


def test_clients_see_an_ensemble(lagoon, tmp_path):
    add_all(tmp_path)
    with serving(lagoon, tmp_path) as server, client_of(triton_http, server) as client:
        metadata = client.get_model_metadata("pipeline")
        assert metadata["platform"] == "ensemble"
        assert metadata["inputs"] == [{"name": "RAW", "datatype": "UINT8", "shape": [-1, 4]}]
        config = client.get_model_config("pipeline")
        assert config["platform"] == "ensemble" and config["max_batch_size"] == 8
        steps = config["ensemble_scheduling"]["step"]
        assert [step["model_name"] for step in steps] == ["classify", "prepare"]
        assert steps[0]["input_map"] == {"pixels": "PICTURE"}
        for rows in (1, 3):
            client.infer("pipeline", input_of(triton_http, pixels(rows)))
        for model in ("pipeline", "classify", "prepare"):
            row = client.get_inference_statistics(model)["model_stats"][0]
            assert row["inference_count"] == 4 and row["execution_count"] == 2, model
            assert row["inference_stats"]["success"]["count"] == 2, model
        index = {row["name"]: row["state"] for row in client.get_model_repository_index()}
        assert index == dict.fromkeys(("pipeline", "classify", "prepare"), "READY")
        values, _ = server.metrics()
        assert values["nv_inference_request_success", "pipeline"] == 2


def index_of(client):
    return {row["name"]: (row["state"], row.get("reason", "")) for row in client.get_model_repository_index()}


def test_models_come_and_go_under_an_ensemble(lagoon, tmp_path):
    add_all(tmp_path)
    words = ("--model-control", "explicit", "--allow-admin-on-http")
    raw = pixels()
    with serving(lagoon, tmp_path, *words) as server, client_of(triton_http, server) as client:
        assert not client.is_model_ready("pipeline")
        # Folders that have come since the start; one of them has an ensemble as a step.
        add_ensemble(tmp_path, name="newcomer")
        add_ensemble(tmp_path, CONFIG.replace('"prepare"', '"newcomer"'), name="outer")
        assert index_of(client)["newcomer"] == index_of(client)["outer"] == ("UNAVAILABLE", "unloaded")
        with pytest.raises(InferenceServerException):
            client.load_model("outer")
        assert "which cannot be a step" in index_of(client)["outer"][1]
        (row,) = [row for row in client.get_model_repository_index() if row["name"] == "outer"]
        assert "ensemble" in row["reason"]
        for name in ("..", "."):
            with pytest.raises(InferenceServerException):
                client.load_model(name, config="{}", files={"file:1/model.onnx": b"x"})
        with pytest.raises(InferenceServerException, match="failed to poll from model repository.*more than 255 bytes") as long:
            client.load_model("prepare", config="{}", files={"file:" + "A" * 256: b"x"})
        assert long.value.status() == "500"
        assert not {"..", "."} & set(index_of(client))
        client.load_model("pipeline")
        assert all(client.is_model_ready(model) for model in ("pipeline", "classify", "prepare"))
        client.unload_model("classify")
        assert not client.is_model_ready("pipeline") and client.is_model_ready("prepare")
        state, reason = index_of(client)["pipeline"]
        assert state == "UNAVAILABLE" and "step[0] (model 'classify')" in reason and "not loaded" in reason
        with pytest.raises(InferenceServerException, match="'pipeline'"):
            client.infer("pipeline", input_of(triton_http, raw))
        client.load_model("classify")
        client.infer("pipeline", input_of(triton_http, raw))
        client.unload_model("classify")
        client.load_model("pipeline")
        client.infer("pipeline", input_of(triton_http, raw))
        # A step that does not fit any more.
        add_classify(tmp_path, "max_batch_size: 4")
        client.load_model("classify")
        assert "max_batch_size of the model is 4, less than the ensemble's 8" in index_of(client)["pipeline"][1]
        with pytest.raises(InferenceServerException, match="load failed for model 'pipeline'.*less than the ensemble's 8"):
            client.load_model("pipeline")
        client.load_model("pipeline", config=json.dumps(client_config(4)))
        client.infer("pipeline", input_of(triton_http, raw))
        client.unload_model("pipeline")
        assert not client.is_model_ready("pipeline") and client.is_model_ready("classify")
    with serving(lagoon, tmp_path, *words, "--load-model", "pipeline") as server, client_of(triton_http, server) as client:
        assert client.is_model_ready("classify") and not client.is_model_ready("pipeline")


@MODULES
def test_an_unload_takes_the_steps_along_that_no_other_ensemble_runs(lagoon, tmp_path, module):
    add_all(tmp_path)
    add_ensemble(tmp_path, name="half")
    words = ("--model-control", "explicit", "--allow-admin-on-http", "--load-model", "pipeline")
    with serving(lagoon, tmp_path, *words) as server, client_of(module, server) as client:
        client.load_model("half", config=json.dumps({**client_config(8), "name": "half"}))
        client.unload_model("pipeline", unload_dependents=True)
        ready = {name: client.is_model_ready(name) for name in ("pipeline", "classify", "prepare", "half")}
        assert ready == {"pipeline": False, "classify": False, "prepare": True, "half": True}
        client.unload_model("half", unload_dependents=True)
        assert not client.is_model_ready("prepare")


def client_config(rows):
    """The ensemble as JSON, with other batches."""
    return {"name": "pipeline", "platform": "ensemble", "max_batch_size": rows,
            "input": [{"name": "RAW", "data_type": "TYPE_UINT8", "dims": [4]}],
            "output": [{"name": "PICTURE", "data_type": "TYPE_FP32", "dims": [4]}],
            "ensemble_scheduling": {"step": [
                {"model_name": "prepare", "model_version": -1, "input_map": {"raw": "RAW"},
                 "output_map": {"picture": "PICTURE"}}]}}


HOSTILE = {
    "unknown_model": (('"prepare"', '"nothing"'), "'nothing' is not found"),
    "itself": (('"prepare"', '"itself"'), "cannot be a step of itself"),
    "nested": (('"prepare"', '"pipeline"'), "is an ensemble itself"),
    "old_version": (('"prepare" model_version: -1', '"prepare" model_version: 9'), "'prepare' version 9 is not found"),
    "wrong_version": (('"prepare" model_version: -1', '"prepare" model_version: -7'), "model_version is -7"),
    "unknown_input": (('"raw"', '"image"'), "input_map names input 'image'; the model takes 'raw'"),
    "unknown_output": (('key: "picture"', 'key: "image"'), "output_map names output 'image'"),
    "unwritten": (('value: "RAW"', 'value: "ROW"'), "reads tensor 'ROW'"),
    "twice": (('value: "PICTURE" } }', 'value: "SCORES" } }'), "a second time"),
    "unused": (('value: "RAW"', 'value: "SCORES"'), "is read by no step"),
    "type": (("TYPE_UINT8", "TYPE_INT64"), "its input 'raw' is UINT8 [-1,4], and tensor 'RAW'"),
    "shape": (("TYPE_FP32 dims: [ 3 ]", "TYPE_FP32 dims: [ 5 ]"), "is declared as FP32 [-1,5]"),
    "rows": (("max_batch_size: 8", "max_batch_size: 16"), "is 8, less than the ensemble's 16"),
    "class": (("max_batch_size: 8", "max_batch_size: 8 optimization { priority: PRIORITY_MAX }"),
              "the model is best-effort, the ensemble real-time"),
}


def test_check_says_why_an_ensemble_is_refused(lagoon, tmp_path):
    add_all(tmp_path)
    for name, ((old, new), _) in HOSTILE.items():
        assert old in CONFIG
        add_ensemble(tmp_path, CONFIG.replace(old, new, 1), name)
    result = lagoon.run("check", tmp_path, "--engine", "none", "--json")
    rows = {row["model"]: row for row in json.loads(result.stdout)}
    assert {name for name, row in rows.items() if row["served"]} == {"pipeline", "prepare", "classify"}
    for name, (_, reason) in HOSTILE.items():
        assert reason in rows[name]["reason"], (name, rows[name])
