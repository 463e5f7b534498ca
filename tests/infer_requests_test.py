"""`lagoon infer --requests`: many requests on one model, with times, and revoked at random."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from conftest import relative_error, run_onnxruntime

FLOAT = onnx.TensorProto.FLOAT


@pytest.fixture(name="model", scope="module")
def fixture_model(tmp_path_factory):
    """Two layers, for any number of rows of 64 values: "in/x" [rows, 64] to "out/y" [rows, 8]."""
    random = np.random.default_rng(1)
    weights = [numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
               for name, shape in (("a", (64, 256)), ("b", (256, 8)))]
    nodes = [helper.make_node("MatMul", ["in/x", "a"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("MatMul", ["r", "b"], ["out/y"])]
    graph = helper.make_graph(
        nodes, "layers", [helper.make_tensor_value_info("in/x", FLOAT, ["rows", 64])],
        [helper.make_tensor_value_info("out/y", FLOAT, ["rows", 8])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    path = tmp_path_factory.mktemp("model") / "layers.onnx"
    onnx.save(model, str(path))
    return path


def write_requests(folder, *shapes):
    """A request for each shape, in folders that are named by their number."""
    random = np.random.default_rng(2)
    for index, shape in enumerate(shapes):
        request = folder / f"{index:03}"
        request.mkdir(parents=True)
        np.save(request / "in_x.npy", random.standard_normal(shape).astype(np.float32))
    return folder


def run(lagoon, model, folder, *words, failed=0):
    result = lagoon.run("infer", model, "--requests", folder, *words)
    assert result.returncode == (1 if failed else 0), result.stderr
    assert not failed or f"{failed} of the requests failed" in result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_request_has_its_outputs_and_times(lagoon, model, tmp_path):
    folder = write_requests(tmp_path, (1, 64), (7, 64), (1, 64))
    lines = run(lagoon, model, folder)
    assert [line["request"] for line in lines] == ["000", "001", "002"]
    for line in lines:
        assert "error" not in line and line["new_shape_ms"] > 0 and line["latency_ms"] > 0
        request = folder / line["request"]
        expected = run_onnxruntime(model, {"in/x": np.load(request / "in_x.npy")})["out/y"]
        assert relative_error(np.load(request / "outputs" / "out_y.npy"), expected) < 1e-5


def test_refused_request_is_named_and_does_not_stop_the_others(lagoon, model, tmp_path):
    folder = write_requests(tmp_path, (1, 64), (1, 63), (2, 64))
    (folder / "003").mkdir()  # without a file for the input
    lines = run(lagoon, model, folder, failed=2)
    assert "'in/x'" in lines[1]["error"] and "latency_ms" not in lines[1]
    assert not (folder / "001" / "outputs").exists()
    assert "error" not in lines[2] and (folder / "002" / "outputs" / "out_y.npy").exists()
    assert "in_x.npy" in lines[3]["error"]


def test_revoked_requests_give_the_same_bits(lagoon, model, tmp_path):
    folder = write_requests(tmp_path, (1, 64), (50, 64))
    lines = run(lagoon, model, folder, "--revocations", 20, "--workers", 2)
    assert [line["revoked_identical"] for line in lines] == [True, True]


def test_latency_is_measured_for_as_long_as_asked(lagoon, model, tmp_path):
    line, = run(lagoon, model, write_requests(tmp_path, (1, 64)), "--seconds", 0.05)
    assert line["latency_ms"] > 0


@pytest.mark.parametrize("make", [lambda folder: None, lambda folder: (folder / "file").touch()],
                         ids=["empty", "without folders"])
def test_folder_without_requests_is_refused(lagoon, model, make, tmp_path):
    make(tmp_path)
    result = lagoon.run("infer", model, "--requests", tmp_path)
    assert result.returncode == 1
    assert "no folder with a request" in result.stderr and str(tmp_path) in result.stderr
