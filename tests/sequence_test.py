"""Sequences of requests (sequence_batching) with Triton's stock clients, as its example programs send them."""

import queue
import threading

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import TensorProto, helper

from server_process import serving, triton_input
from tiny_model import add_model

VALUES = [11, 7, 5, 3, 2, 0, 1]


def accumulator():
    """OUTPUT: the sum of all INPUTs of the sequence, times its id where it ends."""
    def tensor(name, kind):
        return helper.make_tensor_value_info(name, kind, ["n", 1])
    node = helper.make_node
    nodes = [node("Add", ["INPUT", "SUM"], ["total"]), node("Identity", ["total"], ["NEXT"]),
             node("Cast", ["ID"], ["factor"], to=TensorProto.INT32), node("Mul", ["total", "factor"], ["last"]),
             node("Where", ["END", "last", "total"], ["OUTPUT"])]
    inputs = [tensor("INPUT", TensorProto.INT32), tensor("SUM", TensorProto.INT32), tensor("END", TensorProto.BOOL),
              tensor("ID", TensorProto.UINT64)]
    outputs = [tensor("OUTPUT", TensorProto.INT32), tensor("NEXT", TensorProto.INT32)]
    graph = helper.make_graph(nodes, "accumulator", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


CONFIG = """
max_batch_size: 8
input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
sequence_batching {
  max_sequence_idle_microseconds: 5000000
  control_input [
    { name: "END" control [ { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } ] },
    { name: "ID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] } ]
  state [ { input_name: "SUM" output_name: "NEXT" data_type: TYPE_INT32 dims: [ 1 ]
            initial_state: { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true name: "zero" } } ]
  %s
}
"""


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    add_model(repository, "direct", accumulator(), CONFIG % "direct { }")
    add_model(repository, "oldest", accumulator(), CONFIG % "oldest { max_candidate_sequences: 4 }")
    with serving(lagoon, repository, "--engine", "none") as running:
        yield running


def expected(number):
    sums = np.cumsum(VALUES)
    sums[-1] *= number
    return sums.tolist()


def words(index, number):
    return {"sequence_id": number, "sequence_start": index == 0, "sequence_end": index == len(VALUES) - 1}


def value(module, number):
    return [triton_input(module, "INPUT", np.full((1, 1), number, np.int32), "INT32")]


@pytest.mark.parametrize("model", ("direct", "oldest"))
@pytest.mark.parametrize("protocol", ("http", "grpc"))
def test_clients_at_a_time_each_get_their_own_sums(server, protocol, model):
    module = triton_http if protocol == "http" else triton_grpc
    got = {}

    def run(number):
        with getattr(server, protocol)() as client:
            got[number] = [int(client.infer(model, value(module, number_of), **words(index, number)).as_numpy("OUTPUT"))
                           for index, number_of in enumerate(VALUES)]
    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {number: expected(number) for number in range(1, 7)}


def test_sequences_on_one_stream(server):
    answers = queue.Queue()
    with server.grpc() as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for index, number_of in enumerate(VALUES):
            for number in (1001, 1002):
                client.async_stream_infer("direct", value(triton_grpc, number_of), request_id=f"{number}",
                                          **words(index, number))
        got = {"1001": [], "1002": []}
        for _ in range(2 * len(VALUES)):
            result, error = answers.get(timeout=60)
            assert error is None, error
            got[result.get_response().id].append(int(result.as_numpy("OUTPUT")))
        client.stop_stream()
    assert got == {"1001": expected(1001), "1002": expected(1002)}


def test_an_id_may_be_a_text_for_clients(server):
    with server.http() as client:
        client.infer("oldest", value(triton_http, 5), sequence_id="camera", sequence_start=True)
        answer = client.infer("oldest", value(triton_http, 6), sequence_id="camera")
        assert int(answer.as_numpy("OUTPUT")) == 11


def test_what_a_sequence_lacks_is_named(server):
    with server.http() as client:
        for wrong, says in (({}, "correlation ID"), ({"sequence_id": 77}, "START flag")):
            with pytest.raises(triton_http.InferenceServerException, match=says):
                client.infer("direct", value(triton_http, 1), **wrong)
    body = b'{"parameters":{"sequence_id":%s},"inputs":[{"name":"INPUT","datatype":"INT32","shape":[1,1],"data":[1]}]}'
    for wrong in (b"-1", b"1.5", b"true", b"99999999999999999999"):
        status, reply = server.post("/v2/models/direct/infer", body % wrong)
        assert status == 400 and "sequence_id" in reply["error"], reply


def test_clients_see_neither_controls_nor_states(server):
    with server.http() as client:
        metadata = client.get_model_metadata("direct")
        assert [tensor["name"] for tensor in metadata["inputs"] + metadata["outputs"]] == ["INPUT", "OUTPUT"]
        assert "sequence_batching" in client.get_model_config("direct")
