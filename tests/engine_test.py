"""Models with ops that Lagoon does not have, which ONNX Runtime's library runs as an engine."""

import json
import time

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from conftest import relative_error, run_onnxruntime
from server_process import serving

FLOAT = onnx.TensorProto.FLOAT


def info(name, dims):
    return helper.make_tensor_value_info(name, FLOAT, dims)


def save(path, nodes, inputs, outputs, initialisers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initialisers))
    domains = (("", 13), ("ai.onnx.ml", 2), ("com.microsoft", 1))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*one) for one in domains])
    model.ir_version = 8
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))
    return path


def imputer(source, target):
    """Zeros become 0.25."""
    return helper.make_node("Imputer", [source], [target], domain="ai.onnx.ml", imputed_value_floats=[0.25],
                            replaced_value_float=0.0)


def make_mixed(path):
    """x [rows, 4] -> MatMul -> two ops of ai.onnx.ml -> Exp."""
    weights = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32) / 4
    return save(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["a"]),
         helper.make_node("FeatureVectorizer", ["a"], ["b"], domain="ai.onnx.ml", inputdimensions=[4]),
         imputer("b", "c"),
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
    assert len(lines) == len(requests)
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
        assert line["opaque"] == ["ai.onnx.ml.FeatureVectorizer", "ai.onnx.ml.Imputer"]
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
    assert "FeatureVectorizer" in result.stderr and "pip install onnxruntime" in result.stderr


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
    assert kernels[0]["opaque"]["ops"] == ["ai.onnx.ml.FeatureVectorizer", "ai.onnx.ml.Imputer"]
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


def make_unique(path):
    """The different elements of x [8], as com.microsoft.Unique finds them, and then twice these."""
    return save(path, [helper.make_node("Relu", ["x"], ["a"]),
                       helper.make_node("Unique", ["a"], ["u", "i", "n"], domain="com.microsoft"),
                       helper.make_node("Add", ["u", "u"], ["y"])],
                [info("x", [8])], [info("y", ["count"])])


def make_chosen(path):
    """The columns of x [8] that are not 0, with 0.25 in place of 0, which the engine sets in the second part."""
    return save(path, [helper.make_node("NonZero", ["x"], ["where"]),
                       helper.make_node("Cast", ["where"], ["places"], to=FLOAT),
                       imputer("places", "b"),
                       helper.make_node("Exp", ["b"], ["y"])],
                [info("x", [8])], [info("y", [1, "count"])])


def make_branches(path):
    """The engine's branch is taken if the sum of x [2, 4] is above 0."""
    then = helper.make_graph([imputer("x", "t")], "then", [], [info("t", [2, 4])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [],
                              [info("e", [2, 4])])
    return save(path, [helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
                       helper.make_node("Greater", ["sum", "zero"], ["up"]),
                       helper.make_node("If", ["up"], ["r"], then_branch=then, else_branch=other),
                       helper.make_node("Abs", ["r"], ["y"])],
                [info("x", [2, 4])], [info("y", [2, 4])],
                [numpy_helper.from_array(np.array(0, np.float32), "zero")])


def make_steps(path):
    """x [1, 3] is passed through the engine and tripled until its sum exceeds `limit`."""
    body = helper.make_graph(
        [imputer("v", "v1"), helper.make_node("Sum", ["v1", "v1", "v1"], ["v2"]),
         helper.make_node("ReduceSum", ["v2"], ["sum"], keepdims=0),
         helper.make_node("Less", ["sum", "limit"], ["again"])], "body",
        [helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
         helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []), info("v", [1, 3])],
        [helper.make_tensor_value_info("again", onnx.TensorProto.BOOL, []), info("v2", [1, 3])])
    return save(path, [helper.make_node("Loop", ["", "true", "x"], ["y"], body=body)],
                [info("x", [1, 3]), info("limit", [])], [info("y", [1, 3])],
                [numpy_helper.from_array(np.array(True), "true")])


def draw(shape, seed):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


@pytest.mark.parametrize("make, requests", [
    (make_unique, [{"x": draw(8, seed)} for seed in range(6)]),
    (make_chosen, [{"x": draw(8, seed)} for seed in range(6)]),
    (make_branches, [{"x": draw((2, 4), seed) + sign} for seed in range(2) for sign in (-2, 2)]),
    (make_steps, [{"x": np.ones((1, 3), np.float32), "limit": np.array(limit, np.float32)}
                  for limit in (5, 500)]),
])
def test_engine_s_ops_whose_shapes_or_steps_depend_on_data(lagoon, tmp_path, make, requests):
    model = make(tmp_path / "model.onnx")
    lines = infer(lagoon, model, tmp_path / "requests", requests, "--revocations", "5")
    check(model, tmp_path / "requests", requests, lines)
    assert any(line["opaque"] for line in lines)
    assert all(line["parts"] > 1 for line in lines)
    assert all(line["revoked_identical"] for line in lines)


def test_random_numbers_in_the_shape_of_what_the_data_decide(lagoon, tmp_path):
    """As in VITS: noise for a sequence whose length the model has computed."""
    model = save(tmp_path / "model.onnx",
                 [helper.make_node("NonZero", ["x"], ["where"]),
                  helper.make_node("Cast", ["where"], ["places"], to=FLOAT),
                  helper.make_node("RandomNormalLike", ["places"], ["noise"], seed=1.0),
                  helper.make_node("Mul", ["noise", "zero"], ["none"]),
                  helper.make_node("Add", ["places", "none"], ["y"])],
                 [info("x", [8])], [info("y", [1, "count"])],
                 [numpy_helper.from_array(np.array(0, np.float32), "zero")])
    requests = [{"x": draw(8, seed)} for seed in range(3)]
    lines = infer(lagoon, model, tmp_path / "requests", requests)
    check(model, tmp_path / "requests", requests, lines)


def infer_x(model, name, array):
    return json.dumps({"inputs": [{"name": name, "datatype": "FP32", "shape": list(array.shape),
                                   "data": array.flatten().tolist()}]}).encode()


def test_later_plans_warn_once_and_the_first_request_does_not_open_the_engine(lagoon, tmp_path):
    make_chosen(tmp_path / "models" / "chosen" / "1" / "model.onnx")
    with serving(lagoon, tmp_path / "models") as server:
        assert "cannot be interrupted" not in server.log()  # no plan has the op yet
        for count in (3, 5, 3):
            x = np.array([1] * count + [0] * (8 - count), np.float32)
            body = json.loads(infer_x("chosen", "x", x))
            body["parameters"] = {"lagoon_stages": True}
            begin = time.monotonic()
            status, answer = server.post("/v2/models/chosen/infer", json.dumps(body).encode())
            took = (time.monotonic() - begin) * 1e6
            assert status == 200, answer
            assert answer["outputs"][0]["shape"] == [1, count]
            times = {key: value for key, value in answer["parameters"].items()
                     if key.startswith("lagoon_") and key.endswith("_us")}
            assert all(value >= 0 for value in times.values()), times
            del times["lagoon_off_core_us"]  # no stage: a sum over worker threads
            assert sum(times.values()) <= took
        assert server.log().count("cannot be interrupted") == 1
        values, _ = server.metrics()
        assert values["lagoon_opaque_us_max", "chosen"] > 0


def make_classifier(path, outputs, zipmap):
    """A tree of one leaf over x [rows, 2]; ZipMap makes a sequence of maps of its scores."""
    nodes = [helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0],
        nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        nodes_missing_value_tracks_true=[0, 0, 0], nodes_hitrates=[1.0, 1.0, 1.0],
        class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 1], class_weights=[1.0, 1.0],
        classlabels_int64s=[4, 7, 9], post_transform="NONE")]
    if zipmap:
        nodes.append(helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml",
                                      classlabels_int64s=[4, 7, 9]))
    return save(path, nodes, [info("x", ["rows", 2])], outputs)


def test_classifier_is_served_by_its_tensors(lagoon, tmp_path):
    label = helper.make_tensor_value_info("label", onnx.TensorProto.INT64, ["rows"])
    model = make_classifier(tmp_path / "trees.onnx", [label, info("scores", ["rows", 3])], False)
    requests = [{"x": np.array([[0, 1], [1, 0], [0.2, 3]], np.float32)}]
    lines = infer(lagoon, model, tmp_path / "requests", requests)
    assert "error" not in lines[0], lines
    expected = run_onnxruntime(model, requests[0])
    for name in ("label", "scores"):
        actual = np.load(tmp_path / "requests" / "000" / "outputs" / f"{name}.npy")
        assert np.array_equal(actual, expected[name]), name


def test_outputs_that_are_no_tensors_are_refused(lagoon, tmp_path):
    maps = onnx.ValueInfoProto(name="maps")
    of_map = maps.type.sequence_type.elem_type.map_type
    of_map.key_type = onnx.TensorProto.INT64
    of_map.value_type.tensor_type.elem_type = FLOAT
    model = make_classifier(tmp_path / "maps.onnx", [maps], True)
    result = lagoon.run("inspect", model)
    assert result.returncode == 1 and "zipmap=False" in result.stderr, result.stderr
    assert "'maps' is no tensor" in result.stderr  # what the engine says
