"""Shapes that clients choose, over every edge: sizes of 0, rows, and sizes that contents decide."""

import json

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import TensorProto, helper

from server_process import serving, triton_input

GIB = 1 << 30


def save(folder, name, node, inputs, output):
    graph = helper.make_graph([node], name, [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(*output)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    file = folder / name / "1" / "model.onnx"
    file.parent.mkdir(parents=True)
    onnx.save(model, str(file))


@pytest.fixture(scope="module", name="repository")
def fixture_repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    for rank in (1, 2, 4):
        dims = [f"d{i}" for i in range(rank)]
        save(folder, f"open{rank}", helper.make_node("Relu", ["x"], ["y"]),
             [("x", TensorProto.FLOAT, dims)], ("y", TensorProto.FLOAT, dims))
    save(folder, "image", helper.make_node("Relu", ["x"], ["y"]),
         [("x", TensorProto.FLOAT, [3, 4, 5])], ("y", TensorProto.FLOAT, [3, 4, 5]))
    save(folder, "range", helper.make_node("Range", ["from", "to", "step"], ["y"]),
         [(name, TensorProto.INT64, []) for name in ("from", "to", "step")],
         ("y", TensorProto.INT64, ["n"]))
    return folder


@pytest.fixture(scope="module", name="server", params=("reset", "lagoon", "fleet"))
def fixture_server(lagoon, repository, request):
    words = ("--fleet", "cpu:1,cpu:1") if request.param == "fleet" else ("--scheduler", request.param)
    with serving(lagoon, repository, *words) as server:
        yield server


SHAPES = ([0], [5], [0, 5], [0, 0], [1, 0], [3, 0], [0, 3, 8, 8])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_json(server, shape):
    elements = int(np.prod(shape))
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": shape, "data": [1.5] * elements}]}
    status, answer = server.post(f"/v2/models/open{len(shape)}/infer", json.dumps(body).encode())
    assert status == 200, answer
    assert answer["outputs"][0]["shape"] == shape
    assert answer["outputs"][0]["data"] == [1.5] * elements
    assert server.process.poll() is None, server.log()


@pytest.mark.parametrize("module", (triton_http, triton_grpc), ids=("http", "grpc"))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_binary(server, module, shape):
    client = server.http() if module is triton_http else server.grpc()
    x = np.full(shape, 1.5, np.float32)
    result = client.infer(f"open{len(shape)}", [triton_input(module, "x", x)])
    client.close()
    assert result.as_numpy("y").shape == tuple(shape)
    np.testing.assert_array_equal(result.as_numpy("y"), x)
    assert server.process.poll() is None, server.log()


def test_a_request_without_a_batch_dimension_is_one_inference(server):
    with server.grpc() as client:
        for _ in range(2):
            client.infer("image", [triton_input(triton_grpc, "x", np.ones((3, 4, 5), np.float32))])
        statistics = client.get_inference_statistics("image").model_stats[0]
    assert statistics.inference_count == 2
    assert statistics.execution_count == 2


def test_a_small_request_cannot_make_much_constant(server):
    def numbers(to):
        return json.dumps({"inputs": [
            {"name": name, "datatype": "INT64", "shape": [], "data": [number]}
            for name, number in (("from", 0), ("to", to), ("step", 1))]}).encode()

    status, answer = server.post("/v2/models/range/infer", numbers(GIB))
    assert status == 413, answer
    assert "the request's shapes and values make a constant" in answer["error"]
    status, answer = server.post("/v2/models/range/infer", numbers(4))
    assert status == 200, answer
    assert answer["outputs"][0]["data"] == [0, 1, 2, 3]
