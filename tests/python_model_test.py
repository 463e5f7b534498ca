"""Models that are programs in Python, with the interface of Triton's Python backend."""

import contextlib
import importlib.util
import json
import os
import pathlib
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import TensorProto, helper
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from server_process import serving, triton_input

HEAD = "import ctypes, json, os, time\nimport numpy as np\nimport triton_python_backend_utils as pb_utils\n\n\n"
FLOATS = """
backend: "python"
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
BATCHED = FLOATS + "max_batch_size: 8\n"


def add_python(repository, name, code, config=FLOATS):
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(HEAD + code)
    if config is not None:
        (folder.parent / "config.pbtxt").write_text(config)


def each(line):
    """A model that answers each request with `line`, an expression of x."""
    return f"""class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", {line})]))
        return answers
"""


def add_twice(repository, name="onnx_twice"):
    """y = 2 x in ONNX."""
    graph = helper.make_graph([helper.make_node("Mul", ["x", "two"], ["y"])], "two times",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
                              [helper.make_tensor("two", TensorProto.FLOAT, [1], np.array([2], np.float32))])
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")


CALLS = """class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            target = "%s"
            call = pb_utils.InferenceRequest(model_name=target, requested_output_names=["y"],
                                             inputs=request.inputs())
            answer = call.exec()
            if answer.has_error():
                answers.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(answer.error().message())))
                continue
            y = pb_utils.get_output_tensor_by_name(answer, "y").as_numpy() + 1
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", y)]))
        return answers
"""
# The sum of all answers of "talks" or "count", or of the first ones as the last element says; -100 for an error.
SUMS = """import asyncio

class TritonPythonModel:
    async def execute(self, requests):
        calls = [pb_utils.InferenceRequest(model_name=request.request_id(), requested_output_names=["y"], inputs=[
            pb_utils.Tensor("x", request.inputs()[0].as_numpy()[:-1])]) for request in requests]
        found = []
        for request, answers in zip(requests, await asyncio.gather(*[call.async_exec(decoupled=True) for call in calls])):
            most, total = int(request.inputs()[0].as_numpy()[-1]), 0
            for count, answer in enumerate(answers):
                if answer.has_error():
                    total -= 100
                elif answer.output_tensors():
                    total += answer.output_tensors()[0].as_numpy()[0] + 1000 * json.loads(answer.parameters()).get("at", 0)
                if count + 1 == most:
                    break
            found.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([total], np.float32))]))
        return found
"""
# Answers with request.parameters() of the request, or of the call that it makes when `forward` is among them.
PARAMETERS = """class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            text = request.parameters()
            given = json.loads(text)
            if given.pop("forward", False):
                call = pb_utils.InferenceRequest(model_name="parameters", requested_output_names=["y"],
                                                 inputs=request.inputs(), parameters={**given, "added": "by the program"})
                answer = call.exec()
                text = answer.error().message() if answer.has_error() else bytes(
                    pb_utils.get_output_tensor_by_name(answer, "y").as_numpy().astype(np.uint8)).decode()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor(
                "y", np.frombuffer(text.encode(), np.uint8).astype(np.float32))]))
        return answers
"""
# Answers with the sequence of the request as JSON; where %r is a model, with its answer to a call in the same sequence.
SEQUENCE = """class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            text = json.dumps([request.correlation_id(), request.flags(), request.request_id()])
            if %r:
                answers.append(pb_utils.InferenceRequest(model_name=%r, requested_output_names=["y"], inputs=request.inputs(),
                                                         correlation_id=request.correlation_id(), flags=request.flags(),
                                                         request_id=request.request_id()).exec())
                continue
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor(
                "y", np.frombuffer(text.encode(), np.uint8).astype(np.float32))]))
        return answers
"""
COMPLETES = """class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "y", "data_type": "TYPE_FP32", "dims": [-1]})
"""
FULL = COMPLETES + """        config.set_max_batch_size(4)
        config.set_dynamic_batching()
        return config

    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.factor = float(config["parameters"]["factor"]["string_value"])
        output = pb_utils.get_output_config_by_name(config, "y")
        self.kind = pb_utils.triton_string_to_numpy(output["data_type"])
        assert args["model_name"] == "full" and args["model_version"] == "1" and output["dims"] == [-1]
        pb_utils.Logger.log_info("hello from initialize")

    async def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "y", (request.inputs()[0].as_numpy() * self.factor).astype(self.kind))]) for request in requests]

    def finalize(self):
        pb_utils.Logger.log_warn("goodbye from finalize")
"""
STRINGS = """class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "y", np.array([b"<" + text + b">" for text in request.inputs()[0].as_numpy().ravel()], dtype=object))])
            for request in requests]
"""
MOODS = """class TritonPythonModel:
    def execute(self, requests):
        x = requests[0].inputs()[0].as_numpy()
        mood = int(x[0])
        good = pb_utils.InferenceResponse([pb_utils.Tensor("y", x)])
        if mood == 1:
            raise ValueError("mood is bad")
        if mood == 2:
            time.sleep(1000)
        if mood == 3:
            os.kill(os.getpid(), 9)
        if mood == 4:
            os._exit(7)
        if mood == 5:
            return [pb_utils.InferenceResponse([pb_utils.Tensor("z", x)])]
        if mood == 6:
            return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x.astype(np.int64))])]
        if mood == 7:
            return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x.reshape(1, -1))])]
        if mood == 8:
            return [good, good]
        if mood == 9:
            return None
        if mood == 10:
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError("no such thing", pb_utils.TritonError.NOT_FOUND))]
        if mood == 11:
            return [3]
        if mood == 12:
            return [pb_utils.InferenceResponse([])]
        if mood == 13:
            time.sleep(0.3)
        if mood == 14:
            return [pb_utils.InferenceResponse([pb_utils.Tensor("y", np.zeros(100_000_000, np.float32))])]
        if mood == 20 and os.fork() != 0:
            os._exit(7)
        if mood == 21:
            os.fork()
        if mood == 23:  # beside Python's own fork(), which closes the channel in the child
            if ctypes.CDLL(None).fork() != 0:
                os._exit(7)
            time.sleep(1000)
        if mood == 25:
            raise SystemExit("enough")
        if mood == 26:
            pb_utils.Logger.log_info("long " * 4_000_000)
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError("long " * 4_000_000))]
        if mood == 27:
            return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x)], parameters={"long": "x" * 9_000_000})]
        if mood == 28:
            pb_utils.InferenceRequest(model_name="plus_one", requested_output_names=["y"], inputs=requests[0].inputs(),
                                      parameters={"long": "x" * 9_000_000}).exec()
        if mood == 29:
            return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x)], parameters={str(i): i for i in range(65)})]
        if mood == 24:
            return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x)], parameters={
                "flag": True, "count": 3, "most": 2**64 - 1, "least": -2**63, "part": 0.5, "text": 'a"é', "priority": 7})]
        if mood == 22:
            return [pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([len(pb_utils.serialize_byte_tensor(
                np.array([[5, 0.25, True, "é", b"b"]], dtype=object)))], np.float32))])]
        half = json.loads('"\\\\ud800"')
        if mood == 15:
            raise ValueError("half " + half)
        if mood == 16:
            pb_utils.Logger.log_warn("half " + half)
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError("half " + half))]
        if mood in (17, 18):
            parameters = {"t": float("nan")} if mood == 18 else {"t": half}
            pb_utils.InferenceRequest(model_name="no" + half, requested_output_names=["y"], inputs=requests[0].inputs(),
                                      request_id=half, parameters=parameters).exec()
            raise ValueError("it was called")
        if mood == 19:
            class Silent(Exception):
                def __str__(self):
                    raise KeyError("no text")
            raise Silent
        return [good]
"""
COUNT_WITH_END = COMPLETES + """        config.set_max_batch_size(0)
        config.set_model_transaction_policy({"decoupled": True})
        return config

    def execute(self, requests):
        for request in requests:
            count = int(request.inputs()[0].as_numpy()[0])
            for number in range(count):
                request.get_response_sender().send(
                    pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([number], np.float32))]),
                    flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if number == count - 1 else 0)
"""
# The input has what is sent, one after the other: a number, or an error for a negative one; 0 is an answer without outputs.
TALKS = """class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for at, number in enumerate(request.inputs()[0].as_numpy()):
                if number < 0:
                    answer = pb_utils.InferenceResponse(error=pb_utils.TritonError(json.dumps({"no": int(-number)})))
                else:
                    answer = pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([number]))] if number else [],
                                                        parameters={"at": at})
                sender.send(answer)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
SLEEPS = """import asyncio

class TritonPythonModel:
    async def execute(self, requests):
        for request in requests:
            seconds = float(request.inputs()[0].as_numpy()[0])
            if seconds < 0:
                raise ValueError("sleep length")
            await asyncio.sleep(seconds)
            request.get_response_sender().send(pb_utils.InferenceResponse([pb_utils.Tensor("y", request.inputs()[0].as_numpy())]),
                                               flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
COUNT = """class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(int(request.inputs()[0].as_numpy()[0])):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([number], np.float32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
SIZES = each("np.full(x.shape, len(requests), np.float32)").replace(
    "        answers = []", "        time.sleep(0.05)\n        answers = []", 1)
ENSEMBLE = """
platform: "ensemble"
input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
ensemble_scheduling { step [
  { model_name: "plus_one" model_version: -1 input_map { key: "x" value: "IN" } output_map { key: "y" value: "a" } },
  { model_name: "onnx_twice" model_version: -1 input_map { key: "x" value: "a" } output_map { key: "y" value: "b" } },
  { model_name: "minus_three" model_version: -1 input_map { key: "x" value: "b" } output_map { key: "y" value: "OUT" } }
] }
"""


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    add_twice(repository)
    add_python(repository, "plus_one", each("x + 1"))
    add_python(repository, "minus_three", each("x - 3"))
    add_python(repository, "in_place", each("np.subtract(x, 1, out=x)"))
    add_python(repository, "full", FULL, 'backend: "python"\n'
               'parameters { key: "factor" value { string_value: "2.5" } }\ninstance_group { count: 2 }\n')
    add_python(repository, "strings", STRINGS, FLOATS.replace("FP32", "STRING"))
    add_python(repository, "moods", MOODS, FLOATS
               + 'parameters { key: "lagoon.python_timeout_ms" value { string_value: "1500" } }')
    add_python(repository, "parameters", PARAMETERS)
    add_python(repository, "asks_parameters", PARAMETERS)
    add_python(repository, "sequence", SEQUENCE % ("", ""))
    add_python(repository, "asks_sequence", SEQUENCE % ("sequence", "sequence"))
    add_python(repository, "calls", CALLS % "onnx_twice")
    add_python(repository, "sums", SUMS)
    add_python(repository, "calls_pipeline", (CALLS % "pipeline").replace('["y"]', '["OUT"]').replace(
        'inputs=request.inputs()', 'inputs=[pb_utils.Tensor("IN", request.inputs()[0].as_numpy())]').replace(
        'answer, "y"', 'answer, "OUT"'))
    add_python(repository, "circle_a", CALLS % "circle_b")
    add_python(repository, "circle_b", CALLS % "circle_a")
    add_python(repository, "myself", CALLS % "myself")
    add_python(repository, "count", COUNT, FLOATS + "model_transaction_policy { decoupled: true }")
    add_python(repository, "talks", TALKS, FLOATS + "model_transaction_policy { decoupled: true }")
    add_python(repository, "sleeps", SLEEPS, FLOATS + "model_transaction_policy { decoupled: true }")
    add_python(repository, "some", """class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("z", request.inputs()[0].as_numpy())]) for request in requests]
""", FLOATS + 'output [ { name: "z" data_type: TYPE_FP32 dims: [ -1 ] } ]')
    (repository / "needs_all" / "1").mkdir(parents=True)
    (repository / "needs_all" / "config.pbtxt").write_text(ENSEMBLE.split("step [")[0] + """step [
      { model_name: "some" model_version: -1 input_map { key: "x" value: "IN" }
        output_map { key: "y" value: "OUT" } } ] }""")
    add_python(repository, "count_with_end", COUNT_WITH_END, None)
    add_python(repository, "sizes", SIZES, BATCHED + "dynamic_batching { max_queue_delay_microseconds: 200000 }")
    add_python(repository, "alone", SIZES, BATCHED)
    add_python(repository, "syntax", "def x(:\n")
    add_python(repository, "nothing", "pass\n")
    add_python(repository, "raises", "class TritonPythonModel:\n    def initialize(self, args):\n        1 / 0\n"
               "    def execute(self, requests):\n        return []\n")
    add_python(repository, "leaves", "os._exit(5)\n")
    add_python(repository, "silent", each("x"), 'backend: "python"')
    (repository / "missing" / "1").mkdir(parents=True)
    (repository / "missing" / "config.pbtxt").write_text(FLOATS)
    (repository / "parameters_in_a_step" / "1").mkdir(parents=True)
    (repository / "parameters_in_a_step" / "config.pbtxt").write_text(
        FLOATS.replace('backend: "python"', 'platform: "ensemble"') + 'ensemble_scheduling { step [ { model_name: "parameters" '
        'model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } ] }')
    (repository / "sequence_in_a_step" / "1").mkdir(parents=True)
    (repository / "sequence_in_a_step" / "config.pbtxt").write_text(
        (repository / "parameters_in_a_step" / "config.pbtxt").read_text().replace('"parameters"', '"sequence"'))
    (repository / "pipeline" / "1").mkdir(parents=True)
    (repository / "pipeline" / "config.pbtxt").write_text(ENSEMBLE)
    with serving(lagoon, repository, "--python", sys.executable, "--workers", "2", "--allow-admin-on-http") as running:
        yield running


def ask(server, model, values, name="x", output="y", **words):
    tensor = triton_input(triton_grpc, name, np.asarray(values, np.float32))
    with contextlib.closing(server.grpc()) as client:
        return client.infer(model, [tensor], **words).as_numpy(output)


def error_of(server, model, values, **words):
    with pytest.raises(InferenceServerException) as caught:
        ask(server, model, values, **words)
    return caught.value


@pytest.mark.parametrize("module", (triton_http, triton_grpc), ids=("http", "grpc"))
@pytest.mark.parametrize("size", (1, 5, 300_000))
def test_values(server, module, size):
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    with contextlib.closing(server.http() if module is triton_http else server.grpc()) as client:
        for model, expected in (("plus_one", x + 1), ("in_place", x - 1)):
            result = client.infer(model, [triton_input(module, "x", x)], request_id="mine")
            np.testing.assert_array_equal(result.as_numpy("y"), expected)


def test_initialize_complete_finalize_and_the_log(server):
    np.testing.assert_array_equal(ask(server, "full", [[2, 4]]), [[5, 10]])
    assert "model 'full': hello from initialize" in server.log()
    config = server.grpc().get_model_config("full", as_json=True)["config"]
    assert config["max_batch_size"] == 4 and config["backend"] == "python" and "dynamic_batching" in config
    assert server.grpc().get_model_metadata("full").platform == "python"


def test_strings(server):
    texts = np.array([b"", b"a", "ü".encode(), b"\x00\xff", b"long" * 30_000], dtype=object)
    with contextlib.closing(server.grpc()) as client:
        result = client.infer("strings", [triton_input(triton_grpc, "x", texts, "BYTES")]).as_numpy("y")
    assert list(result) == [b"<" + text + b">" for text in texts]


def test_requests_that_wait_come_as_a_list(server):
    sizes = []

    def one():
        sizes.append(int(ask(server, "sizes", [[0.0]])[0, 0]))
    threads = [threading.Thread(target=one) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sizes) == 16 and max(sizes) > 1 and max(sizes) <= 8
    assert ask(server, "alone", [[0.0], [0.0]]).tolist() == [[1], [1]]


def test_statistics_count_rows_and_executions(server):
    ask(server, "alone", [[0.0], [0.0]])
    statistics = server.grpc().get_inference_statistics("alone").model_stats[0]
    assert statistics.inference_count >= 2 and statistics.execution_count >= 1
    assert statistics.inference_stats.compute_infer.ns > 10_000_000


def test_a_throw_names_its_place(server):
    message = error_of(server, "moods", [1]).message()
    assert "model 'moods': ValueError: mood is bad" in message and "model.py:" in message and "in execute" in message
    assert ask(server, "moods", [0]).tolist() == [0]


@pytest.mark.parametrize(("mood", "words"), [
    (5, "output 'z'"), (6, "'y' is INT64 [1], config.pbtxt has FP32 [-1]"), (7, "'y' is FP32 [1,1]"),
    (8, "returned a list of 2"), (9, "returned NoneType"), (10, "no such thing"), (11, "returned int"),
    (25, "SystemExit: enough"), (26, "long long long"), (27, "9000"), (28, "bytes of names and parameters are more than 8388608"),
    (29, "the answer's parameters are 65; at most 64 are taken")])
def test_wrong_answers_are_errors_of_their_request(server, mood, words):
    error = error_of(server, "moods", [mood])
    assert words in error.message() and "its Python process" not in error.message()
    assert mood == 10 or "INTERNAL" in error.status()
    assert ask(server, "moods", [0]).tolist() == [0]


@pytest.mark.parametrize(("mood", "words"), [
    (15, "ValueError: half ?"), (16, "half ?"), (17, "it was called"), (18, "parameter 't' is nan: numbers are finite"),
    (19, "Silent (its __str__() raised KeyError)")])
def test_no_text_or_number_of_a_program_ends_it(server, mood, words):
    assert words in error_of(server, "moods", [mood]).message()
    assert ask(server, "moods", [0]).tolist() == [0]
    assert "no JSON object" not in server.log()


def test_a_large_output_arrives_or_is_refused_and_the_model_goes_on(server):
    with contextlib.suppress(InferenceServerException):
        assert ask(server, "moods", [14]).shape == (100_000_000,)
    assert ask(server, "moods", [0]).tolist() == [0]


@pytest.mark.parametrize(("mood", "words"), [(3, "killed by signal 9"), (4, "exited with 7"),
                                             (20, "exited with 7"), (23, "exited with 7"), (2, "lagoon.python_timeout_ms")])
def test_a_program_that_ends_or_hangs_is_started_again(server, mood, words):
    error = error_of(server, "moods", [mood])
    assert words in error.message() and "model 'moods'" in error.message()
    assert "INTERNAL" in error.status()  # a front does not send it to another member, which it might end too
    assert ask(server, "moods", [0]).tolist() == [0]
    assert ask(server, "plus_one", [0]).tolist() == [1]


def test_a_process_that_a_program_forks_does_not_answer_for_it(server):
    for _ in range(3):
        assert ask(server, "moods", [21]).tolist() == [21]
    assert ask(server, "moods", [0]).tolist() == [0]


def test_elements_of_strings_that_are_no_texts_are_written_as_texts(server):
    assert ask(server, "moods", [22]).tolist() == [5 * 4 + len("50.25Trueéb".encode())]


def test_a_deadline_answers_while_the_program_works(server):
    began = time.monotonic()
    error = error_of(server, "moods", [13], timeout=100_000)
    assert "DEADLINE" in error.status() and time.monotonic() - began < 5
    assert ask(server, "moods", [0]).tolist() == [0]


def parameters_of(client, module, model, parameters, **words):
    """What the program of `model` sees as request.parameters()."""
    answer = client.infer(model, [triton_input(module, "x", np.array([0], np.float32), "FP32")], parameters=parameters,
                          **words)
    return json.loads(bytes(answer.as_numpy("y").astype(np.uint8)).decode())


@pytest.mark.parametrize("module", [triton_grpc, triton_http])
def test_programs_read_the_parameters_of_requests_and_give_some_to_calls(server, module):
    given = {"text": 'ü "quoted"', "yes": True, "whole": -7, "large": 2 ** 60, "part": 0.25}
    if module is triton_grpc:
        given.pop("part")  # the client sends none
    with contextlib.closing(server.grpc() if module is triton_grpc else server.http()) as client:
        assert parameters_of(client, module, "parameters", None) == {}
        assert parameters_of(client, module, "parameters", given, priority=1, timeout=50_000_000) == given
        forwarded = parameters_of(client, module, "asks_parameters", {**given, "forward": True})
        assert forwarded == {**given, "added": "by the program"}
        assert parameters_of(client, module, "parameters_in_a_step", given) == given
        with pytest.raises(InferenceServerException, match="more than 64 parameters"):
            parameters_of(client, module, "parameters", {f"p{i}": i for i in range(65)})


@pytest.mark.parametrize("model", ("sequence", "asks_sequence", "sequence_in_a_step"))
def test_programs_see_the_sequence_of_a_request_and_call_within_it(server, model):
    for identifier, start, end in ((7, True, False), ("camera", False, True), (2 ** 62, True, True), (0, False, False)):
        words = {"sequence_id": identifier, "sequence_start": start, "sequence_end": end} if identifier else {}
        seen = bytes(ask(server, model, [0], request_id="mine", **words).astype(np.uint8)).decode()
        assert json.loads(seen) == [identifier, start + 2 * end, "mine"]


def test_generate_passes_parameters_on(server):
    body = {"x": [0.0], "top": 0.5, "parameters": {"text": "a", "x_like": 2, "priority": 0, "none": None}}
    status, answer = server.post("/v2/models/parameters/generate", json.dumps(body).encode())
    assert status == 200
    assert json.loads(bytes(int(code) for code in answer["y"]).decode()) == {"text": "a", "x_like": 2, "top": 0.5}


def test_calls_of_other_models(server):
    np.testing.assert_array_equal(ask(server, "calls", [1, 2]), [3, 5])
    big = np.arange(200_000, dtype=np.float32)
    np.testing.assert_array_equal(ask(server, "calls", big), 2 * big + 1)
    np.testing.assert_array_equal(ask(server, "calls_pipeline", [1, 2]), [2, 4])


@pytest.mark.parametrize(("callee", "values", "most", "total"), [
    ("talks", [4, -5, 0, 6], 0, 4 - 100 + 3006), ("talks", [7], 0, 7), ("talks", [-1], 0, -100), ("count", [0], 0, 0),
    ("count", [50], 0, sum(range(50))), ("count", [5000], 30, sum(range(30))), ("onnx_twice", [8], 0, 16),
    ("nobody", [8], 0, -100)])
def test_calls_of_models_with_several_answers(server, callee, values, most, total):
    for _ in range(2):
        assert ask(server, "sums", values + [most], request_id=callee).tolist() == [total]
    assert ask(server, "plus_one", [0]).tolist() == [1]


def test_circles_of_calls_are_refused(server):
    assert "circle" in error_of(server, "myself", [1]).message()
    messages = []

    def one(model):
        messages.append(error_of(server, model, [1]).message())
    threads = [threading.Thread(target=one, args=(model,)) for model in ("circle_a", "circle_b") * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(messages) == 8 and all("circle" in message for message in messages)


def test_an_ensemble_of_python_onnx_and_python(server):
    np.testing.assert_array_equal(ask(server, "pipeline", [1, 2, 3], "IN", "OUT"), [1, 3, 5])


@pytest.mark.parametrize("count", (0, 1, 40))
def test_decoupled_answers_stream(server, count):
    answers = queue.Queue()
    with contextlib.closing(server.grpc()) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("count", [triton_input(triton_grpc, "x", np.array([count], np.float32))],
                                  enable_empty_final_response=True)
        numbers = []
        while True:
            result, error = answers.get(timeout=60)
            assert error is None, error
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
            numbers.append(int(result.as_numpy("y")[0]))
        client.stop_stream()
    assert numbers == list(range(count))


def test_errors_and_parameters_are_among_the_answers_of_a_stream(server):
    answers = queue.Queue()
    with contextlib.closing(server.grpc()) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("talks", [triton_input(triton_grpc, "x", np.array([4, -5, 0, 6], np.float32))],
                                  enable_empty_final_response=True)
        come = [answers.get(timeout=60) for _ in range(5)]
        client.stop_stream()
    assert come[1][1].message() == '{"no": 5}' and come[1][0] is None
    rest = [result for result, error in come if error is None]
    assert [result.get_response().parameters["triton_final_response"].bool_param for result in rest] == [False] * 3 + [True]
    assert [result.get_response().parameters["at"].int64_param for result in rest[:3]] == [0, 2, 3]
    assert [None if (y := result.as_numpy("y")) is None else y.tolist() for result in rest] == [[4], None, [6], None]
    with contextlib.closing(server.grpc()) as client:  # twenty errors: a client that reads gets all
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("talks", [triton_input(triton_grpc, "x", np.arange(-20, 0, dtype=np.float32))])
        assert [json.loads(answers.get(timeout=60)[1].message())["no"] for _ in range(20)] == list(range(20, 0, -1))
        client.stop_stream()
    status, text = server.post("/v2/models/talks/generate_stream", b'{"x": [4, -5, 6]}', raw=True)
    events = [json.loads(event[6:]) for event in text.decode().strip().split("\n\n")]
    assert (status, [event.get("y") for event in events], [event.get("at") for event in events]) == (200, [4, None, 6], [0, None, 2])
    assert events[1] == {"error": '{"no": 5}'}
    status, answer = server.post("/v2/models/talks/generate", b'{"x": [-5]}')
    assert (status, answer) == (500, {"error": '{"no": 5}'})


def test_an_error_of_a_stream_says_whether_it_is_the_last_answer(server):
    channel = grpc.insecure_channel(server.url("grpc"))
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    tensor = triton_input(triton_grpc, "x", np.array([-1, -2], np.float32))
    request = service_pb2.ModelInferRequest(model_name="talks", id="7", inputs=[tensor._get_tensor()],
                                            raw_input_contents=[tensor._get_content()])
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    unknown = service_pb2.ModelInferRequest(model_name="nobody", id="8")
    for sent, ends in ((request, [False, False, True]), (unknown, [True])):
        come = [answer.infer_response for answer in stub.ModelStreamInfer(iter([sent]), timeout=60)]
        assert [answer.parameters["triton_final_response"].bool_param for answer in come] == ends
        assert {answer.id for answer in come} == {sent.id}
    channel.close()


def test_coroutines_of_a_decoupled_model_run_beside_each_other(server):
    answers = queue.Queue()
    with contextlib.closing(server.grpc()) as client:
        began = time.monotonic()
        client.start_stream(lambda result, error: answers.put((result, error)))
        for seconds in (1.0, 1.0, 1.0, -1.0):
            client.async_stream_infer("sleeps", [triton_input(triton_grpc, "x", np.array([seconds], np.float32))])
        come = [answers.get(timeout=60) for _ in range(4)]
        client.stop_stream()
    assert time.monotonic() - began < 2.9
    errors = [str(error) for _, error in come if error is not None]
    assert len(errors) == 1 and "sleep length" in errors[0] and "model.py" in errors[0]


def test_parameters_of_an_answer_reach_the_client(server):
    want = {"flag": True, "count": 3, "most": 2**64 - 1, "least": -2**63, "part": 0.5, "text": 'a"é', "priority": 7}
    x = np.array([24], np.float32)
    with contextlib.closing(server.http()) as client:
        answer = client.infer("moods", [triton_input(triton_http, "x", x)]).get_response()
    assert answer["parameters"] == want
    with contextlib.closing(server.grpc()) as client:
        parameters = client.infer("moods", [triton_input(triton_grpc, "x", x)]).get_response().parameters
    assert {name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in parameters.items()} == want
    assert parameters["count"].WhichOneof("parameter_choice") == "int64_param"
    status, answer = server.post("/v2/models/moods/generate", b'{"x": 24}')
    assert status == 200 and {name: answer[name] for name in want} == want
    assert answer["y"] == 24


def test_an_answer_may_leave_out_outputs(server):
    with contextlib.closing(server.http()) as client:
        answer = client.infer("moods", [triton_input(triton_http, "x", np.array([12], np.float32))])
        assert answer.get_response()["outputs"] == [] and answer.as_numpy("y") is None
        answer = client.infer("some", [triton_input(triton_http, "x", np.array([3], np.float32))])
        assert [output["name"] for output in answer.get_response()["outputs"]] == ["z"]
        assert answer.as_numpy("z").tolist() == [3]
    message = error_of(server, "needs_all", [1], name="IN", output="OUT").message()
    assert "step[0] (model 'some') gives no output 'y', which the ensemble needs" in message


def test_an_error_of_a_program_has_its_own_words(server):
    assert error_of(server, "moods", [10]).message() == "no such thing"


@pytest.mark.parametrize("count", (1, 3, 20))
def test_the_last_answer_of_a_model_without_a_config_says_that_it_is_the_last(server, count):
    answers = queue.Queue()
    with contextlib.closing(server.grpc()) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("count_with_end", [triton_input(triton_grpc, "x", np.array([count], np.float32))])
        ends = []
        while not any(ends):
            result, error = answers.get(timeout=60)
            assert error is None, error
            assert result.as_numpy("y").tolist() == [len(ends)]
            ends.append(result.get_response().parameters["triton_final_response"].bool_param)
        client.stop_stream()
    assert ends == [False] * (count - 1) + [True]
    status, answer = server.post("/v2/models/count_with_end/generate", json.dumps({"x": [float(count)]}).encode())
    assert (status, answer.get("y")) == (200, 0) if count == 1 else status == 400
    status, text = server.post("/v2/models/count_with_end/generate_stream", json.dumps({"x": [float(count)]}).encode(), raw=True)
    assert status == 200 and text.count(b"data: ") == count


def test_models_that_do_not_load_say_why(server):
    reasons = {row["name"]: row.get("reason", "") for row in
               server.post("/v2/repository/index", b"{}")[1]}
    for model, words in (("syntax", "SyntaxError"), ("nothing", "no class TritonPythonModel"),
                         ("raises", "ZeroDivisionError"), ("leaves", "exited with 5"),
                         ("silent", "neither declares an output"), ("missing", "does not exist")):
        assert words in reasons[model], (model, reasons[model])
        assert not server.grpc().is_model_ready(model)


def test_a_client_that_leaves_frees_the_program(server):
    with contextlib.closing(server.grpc()) as client:
        call = client.async_infer("moods", [triton_input(triton_grpc, "x", np.array([13], np.float32))],
                                  lambda result, error: None)
        time.sleep(0.05)
        call.cancel()
    assert ask(server, "moods", [0]).tolist() == [0]


ENDLESS = """import threading


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.work, args=(request.get_response_sender(),), daemon=True).start()

    def work(self, sender):
        for i in range(6000):  # whatever the client does
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([i], np.float32))]))
            time.sleep(0.02)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@pytest.mark.parametrize("protocol", ("grpc", "http"))
def test_a_program_that_answers_without_end_does_not_keep_the_server(lagoon, tmp_path, protocol):
    add_python(tmp_path, "endless", ENDLESS, FLOATS + "model_transaction_policy { decoupled: true }")
    with serving(lagoon, tmp_path, "--python", sys.executable, "--drain-seconds", "1") as server:
        if protocol == "grpc":
            client = server.grpc()
            answers = queue.Queue()
            client.start_stream(lambda result, error: answers.put((result, error)))
            client.async_stream_infer("endless", [triton_input(triton_grpc, "x", np.zeros(1, np.float32))])
            assert answers.get(timeout=60)[1] is None
            client.stop_stream(cancel_requests=True)
        else:
            body = json.dumps({"x": [0]}).encode()
            client = socket.create_connection(("127.0.0.1", server.ports["http"]))
            client.sendall(b"POST /v2/models/endless/generate_stream HTTP/1.1\r\nHost: a\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert client.recv(100)
        client.close()
        server.terminate()
        assert server.process.wait(20) == 0


def test_a_program_that_answers_without_end_is_unloaded_when_its_client_has_left(lagoon, tmp_path):
    add_python(tmp_path, "endless", ENDLESS, FLOATS + "model_transaction_policy { decoupled: true }")
    with serving(lagoon, tmp_path, "--python", sys.executable, "--model-control", "explicit", "--allow-admin-on-http",
                 "--load-model", "endless") as server:
        answers = queue.Queue()
        with contextlib.closing(server.grpc()) as client:
            client.start_stream(lambda result, error: answers.put((result, error)))
            client.async_stream_infer("endless", [triton_input(triton_grpc, "x", np.zeros(1, np.float32))])
            assert answers.get(timeout=60)[1] is None
            client.stop_stream(cancel_requests=True)
        with contextlib.closing(server.http(network_timeout=20)) as client:
            client.unload_model("endless")
            assert not client.is_model_ready("endless")


def processes_of(server):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server.process.pid)], capture_output=True, text=True,
                           check=False).stdout.split()
    return [int(pid) for pid in found]


def test_the_programs_end_with_the_server_also_where_it_is_killed(lagoon, tmp_path):
    add_python(tmp_path, "plus_one", each("x + 1"), FLOATS + "instance_group { count: 3 }")
    with serving(lagoon, tmp_path, "--python", sys.executable) as server:
        assert ask(server, "plus_one", [1]).tolist() == [2]
        programs = processes_of(server)
        assert len(programs) == 3
        server.terminate(signal.SIGKILL)
        server.process.wait(30)
        deadline = time.monotonic() + 30
        while any(pathlib.Path(f"/proc/{pid}").exists() for pid in programs) and time.monotonic() < deadline:
            time.sleep(0.02)
        left = [pid for pid in programs if pathlib.Path(f"/proc/{pid}/cmdline").exists()
                and pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
        server.process.returncode = 0  # for close()
    assert not left


def test_finalize_runs_and_models_are_loaded_and_unloaded(lagoon, tmp_path):
    add_python(tmp_path, "full", FULL, 'backend: "python"\nparameters { key: "factor" value { string_value: "2" } }')
    with serving(lagoon, tmp_path, "--python", sys.executable, "--model-control", "explicit",
                 "--allow-admin-on-http", "--load-model", "full") as server:
        with contextlib.closing(server.http()) as client:
            for _ in range(3):
                client.unload_model("full")
                assert not processes_of(server)
                client.load_model("full")
                np.testing.assert_array_equal(ask(server, "full", [[2]]), [[4]])
            with pytest.raises(InferenceServerException, match="only the repository"):
                client.load_model("full", config=json.dumps({"backend": "python"}),
                                  files={"file:1/model.py": b"import os; os._exit(1)"})
            np.testing.assert_array_equal(ask(server, "full", [[2]]), [[4]])
        assert server.log().count("goodbye from finalize") == 3


def test_without_numpy_or_without_python_the_reason_says_so(lagoon, tmp_path):
    add_python(tmp_path / "models", "plus_one", each("x + 1"))
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    for interpreter, words in ((bare, "needs numpy"), (tmp_path / "none", "cannot be started")):
        result = lagoon.run("check", tmp_path / "models", "--python", interpreter, "--json")
        assert result.returncode == 1
        assert words in json.loads(result.stdout)[0]["reason"]


# ---- The module that programs import, by itself

@pytest.fixture(name="pb_utils", scope="module")
def fixture_pb_utils():
    path = pathlib.Path(__file__).parents[1] / "python/lagoon/backend/triton_python_backend_utils.py"
    spec = importlib.util.spec_from_file_location("pb_utils_alone", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ("<f4", "<i8", "u1"))
def test_tensors_come_and_go_by_dlpack_as_objects_and_as_capsules(pb_utils, kind):
    values = np.arange(6, dtype=kind).reshape(2, 3)
    for given in (values, values.__dlpack__()):
        tensor = pb_utils.Tensor.from_dlpack("x", given)
        assert tensor.shape() == [2, 3] and (tensor.as_numpy() == values).all()
        again = pb_utils.Tensor.from_dlpack("y", tensor.to_dlpack())
        assert again.triton_dtype() == tensor.triton_dtype() and (again.as_numpy() == values).all()
    values.flags.writeable = False
    assert (np.from_dlpack(pb_utils.Tensor("x", values)) == values).all()


def test_types_and_errors_have_tritons_numbers(pb_utils):
    for kind, number in ((np.float32, 11), (np.bool_, 1), (np.object_, 13), (np.dtype("int64"), 9)):
        assert pb_utils.numpy_to_triton_type(kind) == number and pb_utils.triton_to_numpy_type(number) == np.dtype(kind).type
    assert pb_utils.TritonError("m").code() == pb_utils.TritonError.INTERNAL == 1
    assert pb_utils.TritonError("m", pb_utils.TritonError.CANCELLED).code() == 7
    for wrong in (99, "NOWHERE"):
        with pytest.raises(pb_utils.TritonModelException, match="takes a code"):
            pb_utils.TritonError("m", wrong)
    with pytest.raises(pb_utils.TritonModelException, match="correlation_id is -1"):
        pb_utils.InferenceRequest(correlation_id=-1)


def test_what_dlpack_cannot_give_names_the_tensor(pb_utils):
    used = np.ones(3).__dlpack__()
    pb_utils.Tensor.from_dlpack("x", used)
    for wrong, words in ((used, "was taken before"), ([1.0], "not a list"), (None, "not a NoneType")):
        with pytest.raises(pb_utils.TritonModelException, match=f"tensor 'late'.*{words}"):
            pb_utils.Tensor.from_dlpack("late", wrong)
