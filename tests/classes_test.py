"""Outputs as classes with labels, and tensors that clients see in another shape, with Triton's stock clients."""

import json

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import TensorProto, helper

from server_process import serving, triton_input
from tiny_model import add_model

LABELS = ["cat", "dog", "small fox", "pig"]  # the classes 4 and 5 have none


def doubling(shape):
    """y = 2 x, of this shape."""
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "doubling",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    tensor = '{ name: "%s" data_type: TYPE_FP32 dims: [ %s ] %s }'
    add_model(repository, "batched", doubling(["rows", 6]), "max_batch_size: 4\ninput [ %s ]\noutput [ %s ]" % (
        tensor % ("x", "6", ""), tensor % ("y", "6", 'label_filename: "labels.txt"')))
    (repository / "batched" / "labels.txt").write_text("\n".join(LABELS) + "\n")
    add_model(repository, "whole", doubling([2, 3]))
    # Triton's quick start: a picture without a batch, and scores that are a row.
    add_model(repository, "reshaped", doubling([1, "h", 3, 1]), "input [ %s ]\noutput [ %s ]" % (
        tensor % ("x", "-1, 3", "reshape { shape: [ 1, -1, 3, 1 ] } format: FORMAT_NONE"),
        tensor % ("y", "3, -1", "reshape { shape: [ 3, -1, 1, 1 ] }")))
    add_model(repository, "row", doubling([1, 6, 1, 1]), "input [ %s ]\noutput [ %s ]" % (
        tensor % ("x", "2, 3", "reshape { shape: [ 1, 6, 1, 1 ] }"),
        tensor % ("y", "6", 'reshape { shape: [ 1, 6, 1, 1 ] } label_filename: "labels.txt"')))
    (repository / "row" / "labels.txt").write_text("\n".join(LABELS))
    add_model(repository, "lost", doubling([2]), 'output [ { name: "y" label_filename: "../row/labels.txt" } ]')
    with serving(lagoon, repository) as running:
        yield running


def ask(edge, server, model, array, classes=0):
    if edge == "grpc":
        with server.grpc() as client:
            outputs = [triton_grpc.InferRequestedOutput("y", class_count=classes)]
            return client.infer(model, [triton_input(triton_grpc, "x", array)], outputs=outputs).as_numpy("y")
    with server.http() as client:
        outputs = [triton_http.InferRequestedOutput("y", binary_data=edge == "binary", class_count=classes)]
        return client.infer(model, [triton_input(triton_http, "x", array)], outputs=outputs).as_numpy("y")


EDGES = pytest.mark.parametrize("edge", ("json", "binary", "grpc"))


def texts(answer):
    return [[text.decode() if isinstance(text, bytes) else text for text in row] for row in answer.tolist()]


@EDGES
def test_the_largest_of_each_row_come_with_their_labels(server, edge):
    rows = np.array([[0, 1, 2, 3, 4, 5], [9, 8, 7, -1, -2, -3]], np.float32)
    answer = ask(edge, server, "batched", rows, classes=3)
    assert answer.shape == (2, 3)
    assert texts(answer) == [["10.000000:5", "8.000000:4", "6.000000:3:pig"],
                             ["18.000000:0:cat", "16.000000:1:dog", "14.000000:2:small fox"]]


@EDGES
def test_more_classes_than_there_are_give_all(server, edge):
    assert ask(edge, server, "batched", np.zeros((1, 6), np.float32), classes=1000).shape == (1, 6)


@EDGES
def test_without_a_batch_all_elements_are_one_row(server, edge):
    answer = ask(edge, server, "whole", np.arange(6, dtype=np.float32).reshape(2, 3), classes=2)
    assert texts(answer[None]) == [["10.000000:5", "8.000000:4"]]


@EDGES
def test_no_classes_are_the_output_itself(server, edge):
    rows = np.ones((3, 6), np.float32)
    assert np.array_equal(ask(edge, server, "batched", rows), 2 * rows)


@EDGES
def test_clients_see_the_shapes_of_the_configuration(server, edge):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(ask(edge, server, "row", values), 2 * values.reshape(6))
    assert texts(ask(edge, server, "row", values, classes=1)[None]) == [["10.000000:5"]]
    with server.http() as client:
        metadata = client.get_model_metadata("row")
        shapes = [[int(size) for size in metadata[side][0]["shape"]] for side in ("inputs", "outputs")]
        assert shapes == [[2, 3], [6]]
        assert client.get_model_config("row")["input"][0]["reshape"]["shape"]
        with pytest.raises(triton_http.InferenceServerException, match=r"\[1,6,1,1\].*takes \[2,3\]"):
            client.infer("row", [triton_input(triton_http, "x", values.reshape(1, 6, 1, 1))])


def test_a_reshape_and_a_label_file_that_cannot_be_served_are_named(server):
    with server.http() as client:
        assert not client.is_model_ready("reshaped")
        assert not client.is_model_ready("lost")
    log = server.log()
    assert "'y' has the reshape [3,-1,1,1]" in log
    assert "output 'y': label_filename: '../row/labels.txt' is not a file in the model's folder" in log


@pytest.mark.parametrize("value", ("-1", '"3"', "true", "1.5", "99999999999"))
def test_a_wrong_number_of_classes_is_refused(server, value):
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [0] * 6}],
                       "outputs": [{"name": "y", "parameters": {"classification": "VALUE"}}]})
    status, reply = server.post("/v2/models/whole/infer", body.replace('"VALUE"', value).encode())
    assert status == 400 and "'classification'" in reply["error"]


def test_the_models_are_as_they_are_meant():
    onnx.checker.check_model(doubling(["rows", 6]))
