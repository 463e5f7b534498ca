"""Models with ops that Lagoon does not have, which ONNX Runtime's library runs as an engine."""

import json

import numpy as np
import onnx
from onnx import helper, numpy_helper

from conftest import relative_error, run_onnxruntime
from server_process import serving

FLOAT = onnx.TensorProto.FLOAT


def info(name, dims):
    return helper.make_tensor_value_info(name, FLOAT, dims)


def save(path, nodes, inputs, outputs, initialisers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initialisers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13),
                                                    helper.make_opsetid("ai.onnx.ml", 2)])
    model.ir_version = 8
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))
    return path


def make_mixed(path):
    """x [rows, 4] -> MatMul -> two ops of ai.onnx.ml -> Exp."""
    weights = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32) / 4
    return save(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["a"]),
         helper.make_node("Scaler", ["a"], ["b"], domain="ai.onnx.ml", offset=[0.5], scale=[0.25]),
         helper.make_node("Normalizer", ["b"], ["c"], domain="ai.onnx.ml", norm="L2"),
         helper.make_node("Exp", ["c"], ["y"])],
        [info("x", ["rows", 4])], [info("y", ["rows", 4])], [numpy_helper.from_array(weights, "w")])


def make_loop(path):
    """x is doubled until its sum exceeds `limit`, so that the data decide the number of steps."""
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["v2"]),
         helper.make_node("ReduceSum", ["v2"], ["sum"], keepdims=0),
         helper.make_node("Less", ["sum", "limit"], ["again"])], "body",
        [helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
         helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []), info("v", [3])],
        [helper.make_tensor_value_info("again", onnx.TensorProto.BOOL, []), info("v2", [3])])
    return save(path, [helper.make_node("Abs", ["x"], ["a"]),
                       helper.make_node("Loop", ["", "true", "a"], ["r"], body=body),
                       helper.make_node("Neg", ["r"], ["y"])],
                [info("x", [3]), info("limit", [])], [info("y", [3])],
                [numpy_helper.from_array(np.array(True), "true")])


def infer(lagoon, model, folder, requests, *words):
    for index, inputs in enumerate(requests):
        request = folder / f"{index:03}"
        request.mkdir(parents=True)
        for name, array in inputs.items():
            np.save(request / f"{name}.npy", array)
    result = lagoon.run("infer", model, "--requests", folder, *words)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def check(model, folder, requests, lines):
    for index, (inputs, line) in enumerate(zip(requests, lines)):
        assert "error" not in line, line
        expected = run_onnxruntime(model, inputs)["y"]
        actual = np.load(folder / f"{index:03}" / "outputs" / "y.npy")
        assert actual.shape == expected.shape and relative_error(actual, expected) < 1e-5


def test_ops_that_lagoon_lacks_run_between_its_own(lagoon, tmp_path):
    model = make_mixed(tmp_path / "mixed.onnx")
    random = np.random.default_rng(2)
    requests = [{"x": random.standard_normal((rows, 4)).astype(np.float32)} for rows in (1, 5, 2)]
    lines = infer(lagoon, model, tmp_path / "requests", requests, "--revocations", "20")
    check(model, tmp_path / "requests", requests, lines)
    for line in lines:
        assert line["opaque"] == ["ai.onnx.ml.Normalizer", "ai.onnx.ml.Scaler"]
        assert line["revoked_identical"]


def test_loop_whose_steps_the_data_decide_needs_no_engine(lagoon, tmp_path):
    model = make_loop(tmp_path / "loop.onnx")
    requests = [{"x": np.array([1, -2, 3], np.float32), "limit": np.array(limit, np.float32)}
                for limit in (10, 100)]
    lines = infer(lagoon, model, tmp_path / "requests", requests)
    check(model, tmp_path / "requests", requests, lines)
    assert all(line["opaque"] == [] for line in lines)
    assert 2 <= lines[0]["parts"] < lines[1]["parts"]


def test_without_an_engine_the_error_says_what_to_install(lagoon, tmp_path):
    model = make_mixed(tmp_path / "mixed.onnx")
    np.save(tmp_path / "x.npy", np.zeros((1, 4), np.float32))
    result = lagoon.run("infer", model, "--input", tmp_path / "x.npy", "--engine", "none")
    assert result.returncode == 1
    assert "Scaler" in result.stderr and "pip install onnxruntime" in result.stderr


def test_engine_that_is_missing_is_named(lagoon, tmp_path):
    model = make_mixed(tmp_path / "mixed.onnx")
    result = lagoon.run("inspect", model, "--engine", tmp_path / "no.so")
    assert result.returncode == 1 and f"engine {tmp_path}/no.so" in result.stderr


def test_inspect_shows_the_engine_s_kernel(lagoon, tmp_path):
    model = make_mixed(tmp_path / "mixed.onnx")
    result = lagoon.run("inspect", model, "--profile", "3", "--json")
    assert result.returncode == 0, result.stderr
    kernels = [kernel for kernel in json.loads(result.stdout)["kernels"] if "opaque" in kernel]
    assert len(kernels) == 1 and kernels[0]["blocks"] == 1
    assert kernels[0]["opaque"]["ops"] == ["ai.onnx.ml.Normalizer", "ai.onnx.ml.Scaler"]
    assert kernels[0]["opaque"]["longest_us"] > 0 and kernels[0]["kernel_us"] > 0


def test_server_warns_and_has_the_longest_run_as_a_metric(lagoon, tmp_path):
    model = make_mixed(tmp_path / "models" / "mixed" / "1" / "model.onnx")
    with serving(lagoon, tmp_path / "models") as server:
        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4],
                            "data": x.flatten().tolist()}]}
        status, answer = server.post("/v2/models/mixed/infer", json.dumps(body).encode())
        assert status == 200, answer
        outputs = answer["outputs"]
        expected = run_onnxruntime(model, {"x": x})["y"]
        assert relative_error(np.array(outputs[0]["data"]).reshape(2, 4), expected) < 1e-5
        values, _ = server.metrics()
        assert values["lagoon_opaque_us_max", "mixed"] > 0
        assert "cannot be interrupted" in server.log()


def make_picker(path):
    """y = the column `i` of x [2, 4]; the engine fails if there is no such column."""
    return save(path, [helper.make_node("Relu", ["x"], ["a"]),
                       helper.make_node("ArrayFeatureExtractor", ["a", "i"], ["y"],
                                        domain="ai.onnx.ml")],
                [info("x", [2, 4]), helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [1])],
                [info("y", [2, 1])])


def test_run_that_the_engine_fails_is_one_failed_request(lagoon, tmp_path):
    make_picker(tmp_path / "models" / "picker" / "1" / "model.onnx")
    with serving(lagoon, tmp_path / "models") as server:
        def pick(column):
            body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4],
                                "data": list(range(8))},
                               {"name": "i", "datatype": "INT64", "shape": [1], "data": [column]}]}
            return server.post("/v2/models/picker/infer", json.dumps(body).encode())

        assert pick(3)[1]["outputs"][0]["data"] == [3, 7]
        status, answer = pick(99)
        assert status == 500, answer
        assert "model 'picker'" in answer["error"] and "ArrayFeatureExtractor" in answer["error"]
        assert pick(1)[1]["outputs"][0]["data"] == [1, 5]  # the next request is not affected
