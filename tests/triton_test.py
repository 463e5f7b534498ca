"""What users of Triton's clients rely on beyond plain inference."""

import asyncio
import contextlib
import inspect
import itertools
import json
import os
import queue
import subprocess
import time

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
import tritonclient.utils.shared_memory as shared_memory
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from server_process import serving

MODULES = pytest.mark.parametrize("module", (triton_http, triton_grpc), ids=("http", "grpc"))
KEYS = itertools.count()


def add_sum(repository, name, config="max_batch_size: 8"):
    """A model with total = left + right, FP32 [batch, open]."""
    def row(value):
        return helper.make_tensor_value_info(value, TensorProto.FLOAT, ["batch", "columns"])
    graph = helper.make_graph([helper.make_node("Add", ["left", "right"], ["total"])], name,
                              [row("left"), row("right")], [row("total")])
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "model.onnx")
    (folder.parent / "config.pbtxt").write_text(f'name: "{name}"\nbackend: "onnxruntime"\n{config}\n')


@pytest.fixture(scope="module", name="repository")
def fixture_repository(tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    add_sum(repository, "sum")
    return repository


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, repository):
    with serving(lagoon, repository) as server:
        yield server


def client_of(module, server):
    return contextlib.closing(server.http() if module is triton_http else server.grpc())


@contextlib.contextmanager
def region(size):
    """(key, handle) of a shared memory object of a client."""
    key = f"/lagoon-python-{os.getpid()}-{next(KEYS)}"
    handle = shared_memory.create_shared_memory_region("region", key, size)
    try:
        yield key, handle
    finally:
        shared_memory.destroy_shared_memory_region(handle)


def shared_tensors(module, shape, size):
    """Inputs at 0 and `size` of region 'data', output at 2 * `size`."""
    inputs = [module.InferInput(name, shape, "FP32") for name in ("left", "right")]
    for index, tensor in enumerate(inputs):
        tensor.set_shared_memory("data", size, offset=index * size)
    output = module.InferRequestedOutput("total")
    output.set_shared_memory("data", size, offset=2 * size)
    return inputs, [output]


# ---- Shared memory

@MODULES
@pytest.mark.parametrize("columns", (4, 500_000))
def test_tensors_may_lie_in_shared_memory(server, module, columns):
    left, right = np.random.default_rng(1).standard_normal((2, 2, columns)).astype(np.float32)
    size = left.nbytes
    with region(3 * size) as (key, handle), client_of(module, server) as client:
        client.unregister_system_shared_memory()
        client.register_system_shared_memory("data", key, 3 * size)
        shared_memory.set_shared_memory_region(handle, [left, right])
        inputs, outputs = shared_tensors(module, left.shape, size)
        result = client.infer("sum", inputs, outputs=outputs)
        assert result.get_output("total") is not None
        total = shared_memory.get_contents_as_numpy(handle, np.float32, left.shape, offset=2 * size)
        np.testing.assert_array_equal(total, left + right)
        # One input in shared memory, the other in the request, the output in the answer.
        inputs[1] = module.InferInput("right", right.shape, "FP32")
        inputs[1].set_data_from_numpy(right)
        np.testing.assert_array_equal(client.infer("sum", inputs).as_numpy("total"), left + right)
        client.unregister_system_shared_memory("data")
        with pytest.raises(InferenceServerException, match="Unable to find shared memory region: 'data'"):
            client.infer("sum", inputs)


def test_a_stream_takes_tensors_from_shared_memory(server):
    left, right = np.random.default_rng(3).standard_normal((2, 2, 4)).astype(np.float32)
    size = left.nbytes
    answers = queue.Queue()
    with region(3 * size) as (key, handle), client_of(triton_grpc, server) as client:
        client.unregister_system_shared_memory()
        client.register_system_shared_memory("data", key, 3 * size)
        shared_memory.set_shared_memory_region(handle, [left, right])
        inputs, outputs = shared_tensors(triton_grpc, left.shape, size)
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        client.async_stream_infer("sum", inputs, outputs=outputs)
        result, error = answers.get(timeout=60)
        assert error is None and result.get_output("total").parameters["shared_memory_byte_size"].int64_param == size
        total = shared_memory.get_contents_as_numpy(handle, np.float32, left.shape, offset=2 * size)
        np.testing.assert_array_equal(total, left + right)
        client.unregister_system_shared_memory()
        client.async_stream_infer("sum", inputs, outputs=outputs)
        assert "Unable to find shared memory region" in str(answers.get(timeout=60)[1])
        client.stop_stream()


@MODULES
def test_regions_are_listed_and_their_errors_named(server, module):
    with region(64) as (key, _), client_of(module, server) as client:
        client.unregister_system_shared_memory()
        client.register_system_shared_memory("data", key, 32, offset=8)
        regions = client.get_system_shared_memory_status()
        rows = list(regions.regions.values()) if module is triton_grpc else regions
        row = rows[0] if module is triton_http else {name: getattr(rows[0], name)
                                                    for name in ("name", "key", "offset", "byte_size")}
        assert len(rows) == 1 and row == {"name": "data", "key": key, "offset": 8, "byte_size": 32}
        for words, message in (
                (("data", key, 32), "region 'data' already in manager"),
                (("more", key, 65), "Invalid offset .* 'more'"),
                (("more", "/lagoon-nothing", 1), "Unable to open shared memory region: 'more'")):
            with pytest.raises(InferenceServerException, match=message) as error:
                client.register_system_shared_memory(*words)
            assert key not in str(error.value) and "lagoon-nothing" not in str(error.value)
        client.unregister_system_shared_memory("nothing")
        client.unregister_system_shared_memory()
        with pytest.raises(InferenceServerException, match="Unable to find system shared memory region"):
            client.get_system_shared_memory_status("data")


@MODULES
def test_an_object_that_shrinks_or_goes_hurts_nobody(server, module):
    size = 2 * 4096 * 4
    ones = np.ones((2, 4096), np.float32)
    with region(3 * size) as (key, handle), client_of(module, server) as client:
        client.unregister_system_shared_memory()
        client.register_system_shared_memory("data", key, 3 * size)
        shared_memory.set_shared_memory_region(handle, [ones, ones])
        inputs, outputs = shared_tensors(module, ones.shape, size)
        os.unlink(f"/dev/shm{key}")
        client.infer("sum", inputs, outputs=outputs)
        with open(f"/dev/shm{key}", "xb"):
            pass  # for tritonclient, which unlinks it
        for length in (2 * size, 2 * size - 1, 100, 0):
            os.ftruncate(handle._mpsm_handle._fd, length)
            with pytest.raises(InferenceServerException, match="smaller than when it was registered"):
                client.infer("sum", inputs, outputs=outputs)
        client.unregister_system_shared_memory()
        assert client.is_server_live()


@MODULES
def test_memory_of_gpus_cannot_be_registered(server, module):
    with client_of(module, server) as client:
        status = client.get_cuda_shared_memory_status()
        assert not (status if module is triton_http else status.regions)
        client.unregister_cuda_shared_memory()
        client.unregister_cuda_shared_memory("data")
        with pytest.raises(InferenceServerException, match="failed to register CUDA shared memory"):
            client.register_cuda_shared_memory("data", b"aGFuZGxl", 0, 64)


@MODULES
def test_shared_memory_can_be_off(lagoon, repository, module):
    with region(64) as (key, _), serving(lagoon, repository, "--shared-memory", "off") as server, \
            client_of(module, server) as client:
        with pytest.raises(InferenceServerException, match="--shared-memory on"):
            client.register_system_shared_memory("data", key, 64)
        client.unregister_system_shared_memory()
        assert "system_shared_memory" not in str(client.get_server_metadata())


# ---- Messages and states that clients compare

def refusal(call, *words, **named):
    """The error's message, without the status."""
    with pytest.raises(InferenceServerException) as error:
        call(*words, **named)
    return error.value.message()


def tensors(module, *names, shape=(1, 4)):
    made = [module.InferInput(name, list(shape), "FP32") for name in names]
    for tensor in made:
        tensor.set_data_from_numpy(np.ones(shape, np.float32))
    return made


@MODULES
def test_errors_have_the_words_that_clients_compare(server, module):
    both = tensors(module, "left", "right")
    with client_of(module, server) as client:
        unknown = "Request for unknown model: 'nobody' is not found"
        for call, words in ((client.infer, ("nobody", both)), (client.get_model_metadata, ("nobody",)),
                            (client.get_model_config, ("nobody",))):
            assert refusal(call, *words) == unknown
        assert refusal(client.infer, "sum", both, model_version="7") == \
            "Request for unknown model: 'sum' version 7 is not found"
        assert "whole numbers" in refusal(client.infer, "sum", both, model_version="one")
        assert not client.is_model_ready("nobody")
        assert not client.is_model_ready("sum", "7")
        assert refusal(client.infer, "sum", both[:1]).startswith(
            "expected 2 inputs but got 1 inputs for model 'sum'")
        assert refusal(client.infer, "sum", tensors(module, "left", "right", "more")).startswith(
            "expected 2 inputs but got 3 inputs for model 'sum'")


def test_sizes_of_tensors_have_the_words_that_clients_compare(server):
    tensor = tensors(triton_grpc, "left")[0]
    tensor._raw_content = tensor._raw_content[:-4]
    with client_of(triton_grpc, server) as client:
        assert "got unexpected byte size 12, expected 16" in refusal(client.infer, "sum", [tensor])
    body = b'{"inputs":[{"name":"left","datatype":"FP32","shape":[1,4],"data":[1,2,3]}]}'
    status, answer = server.post("/v2/models/sum/infer", body)
    assert status == 400 and "expected 4 elements" in answer["error"] and "got 3" in answer["error"]


@MODULES
def test_models_that_are_not_there_load_and_unload_as_with_triton(lagoon, tmp_path, module):
    add_sum(tmp_path, "sum")
    add_sum(tmp_path, "broken", "max_batch_size: 8\ninput { name: 'wrong' data_type: TYPE_FP32 dims: [ -1 ] }")
    with serving(lagoon, tmp_path, "--model-control", "explicit", "--allow-admin-on-http") as server, \
            client_of(module, server) as client:
        assert refusal(client.load_model, "nobody").startswith(
            "failed to load 'nobody', failed to poll from model repository")
        assert refusal(client.load_model, "broken").startswith("load failed for model 'broken': ")
        for config in ("no JSON", "{", '{"no_such_field": 1}'):
            assert refusal(client.load_model, "broken", config=config).startswith(
                "failed to load 'broken', failed to poll from model repository")
        client.unload_model("nobody")
        client.unload_model("sum")
        client.load_model("sum")
        assert client.is_model_ready("sum")
        for _ in range(2):
            client.unload_model("sum", unload_dependents=True)
            assert not client.is_model_ready("sum")
            message = refusal(client.infer, "sum", tensors(module, "left", "right"))
            assert message.startswith("Request for unknown model: 'sum' has no available versions")
    status, index = 200, None
    with serving(lagoon, tmp_path) as server:
        status, index = server.post("/v2/repository/index", b"")
    rows = {row["name"]: row for row in index}
    assert status == 200 and "reason" not in rows["sum"] and rows["broken"]["reason"]


@MODULES
def test_the_refusal_to_change_models_names_the_flag(lagoon, repository, module):
    with serving(lagoon, repository, "--model-control", "explicit", "--load-model", "sum") as server, \
            client_of(module, server) as client:
        for call in (client.load_model, client.unload_model):
            assert "--allow-admin-on-http" in refusal(call, "sum")
        assert client.is_model_ready("sum")
        assert server.post("/v2/repository/models/sum/load", b"", port="metrics")[0] == 200


ENSEMBLE_OF_OTHER = """
platform: "ensemble"
max_batch_size: 2
input [ { name: "left" data_type: TYPE_FP32 dims: -1 }, { name: "right" data_type: TYPE_FP32 dims: -1 } ]
output { name: "total" data_type: TYPE_FP32 dims: -1 }
ensemble_scheduling { step {
  model_name: "other" model_version: -1
  input_map [ { key: "left" value: "left" }, { key: "right" value: "right" } ]
  output_map { key: "total" value: "total" } } }
"""


def test_a_server_that_polls_follows_its_repository(lagoon, tmp_path):
    """Models come, change, are damaged, mended and go while a client asks one of them all the time."""
    add_sum(tmp_path, "sum")
    words = ("--model-control-mode=poll", "--repository-poll-secs=0.1")
    with serving(lagoon, tmp_path, *words) as server, client_of(triton_http, server) as client:
        def wait(condition):
            until = time.monotonic() + 60
            while not condition():
                assert time.monotonic() < until
                client.infer("sum", tensors(triton_http, "left", "right"))

        def batch_of(model):
            return client.get_model_config(model)["max_batch_size"] if client.is_model_ready(model) else None
        (tmp_path / "pair" / "1").mkdir(parents=True)
        (tmp_path / "pair" / "config.pbtxt").write_text(ENSEMBLE_OF_OTHER)
        add_sum(tmp_path, "other")
        wait(lambda: batch_of("other") == 8 and client.is_model_ready("pair"))
        config = tmp_path / "other" / "config.pbtxt"
        config.write_text("max_batch_size: 4")
        wait(lambda: batch_of("other") == 4)
        config.write_text("max_batch_size: no number")
        wait(lambda: "Expected integer" in server.log())
        assert batch_of("other") == 4, "what was loaded before stays"
        config.write_text("max_batch_size: 2")
        wait(lambda: batch_of("other") == 2)
        (tmp_path / "other").rename(tmp_path / ".aside")
        wait(lambda: not client.is_model_ready("other") and not client.is_model_ready("pair"))
        assert "--model-control explicit" in refusal(client.load_model, "other")


def test_statistics_have_the_members_that_clients_look_for(server):
    with client_of(triton_http, server) as client:
        row = client.get_inference_statistics("sum")["model_stats"][0]
    assert row["memory_usage"] == [] and row["response_stats"] == {}


# ---- Settings of log and trace

def settings_of(answer):
    """{name: value or list of values} of a client's answer."""
    if isinstance(answer, dict):
        return answer
    return {name: list(value.value) if hasattr(value, "value") else getattr(value, value.WhichOneof("parameter_choice"))
            for name, value in answer.settings.items()}


@MODULES
def test_settings_are_read_and_restored_and_operators_set_the_log(lagoon, repository, module):
    with serving(lagoon, repository, "--allow-admin-on-http") as server, client_of(module, server) as client:
        before = settings_of(client.get_log_settings())
        assert before["log_info"] and before["log_verbose_level"] == 0
        client.update_log_settings({"log_verbose_level": 1})
        assert settings_of(client.get_log_settings())["log_verbose_level"] == 1
        client.update_log_settings(before)
        assert settings_of(client.get_log_settings()) == before
        assert "log_loud" in refusal(client.update_log_settings, {"log_loud": True})
        for model in (None, "sum"):
            trace = settings_of(client.get_trace_settings(model))
            assert trace["trace_level"] == ["OFF"]
            client.update_trace_settings(model, trace)
            assert "--trace FILE" in refusal(client.update_trace_settings, model, {"trace_level": ["TIMESTAMPS"]})


@MODULES
def test_the_refusal_to_set_the_log_names_the_flag(server, module):
    with client_of(module, server) as client:
        assert "--allow-admin-on-http" in refusal(client.update_log_settings, {"log_info": False})


# ---- Compressed answers

@pytest.mark.parametrize("coding", ("gzip", "deflate"))
@pytest.mark.parametrize("columns", (4, 200_000))
@pytest.mark.parametrize("binary", (True, False), ids=("binary", "json"))
def test_answers_are_compressed_for_clients_that_ask(server, coding, columns, binary):
    left, right = np.random.default_rng(2).standard_normal((2, 1, columns)).astype(np.float32)
    inputs = [module_input(name, array) for name, array in (("left", left), ("right", right))]
    with client_of(triton_http, server) as client:
        result = client.infer("sum", inputs, request_compression_algorithm=coding, response_compression_algorithm=coding,
                              outputs=[triton_http.InferRequestedOutput("total", binary_data=binary)])
    np.testing.assert_array_equal(result.as_numpy("total"), left + right)


def module_input(name, array):
    tensor = triton_http.InferInput(name, list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    return tensor


# ---- The command line of tritonserver

def test_the_command_line_of_tritonserver_starts_the_server(lagoon, repository, tmp_path):
    ports = tmp_path / "ports.json"
    words = ("--model-store", repository, "--model-control-mode=explicit", "--load-model=sum", "--http-address=127.0.0.1",
             "--grpc-address=127.0.0.2", "--http-port=0", "--grpc-port=0", "--metrics-port=0", "--exit-timeout-secs=5",
             "--strict-readiness=true", "--log-verbose=1", "--allow-http=true", "--allow-metrics", "true",
             "--pinned-memory-pool-byte-size=1000", "--disable-auto-complete-config", "--log-info=true", "--log-error", "1",
             "--grpc-use-ssl=false", "--allow-sagemaker=0", "--reuse-grpc-port=False", "--grpc-keepalive-time=10000",
             "--metrics-interval-ms=2000", "--log-format=default", "--rate-limit=off", "--ports-file", ports)
    with subprocess.Popen([lagoon.binary, "serve", *map(str, words)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        try:
            until = time.monotonic() + 60
            while not ports.exists() and process.poll() is None and time.monotonic() < until:
                time.sleep(0.02)
            bound = json.loads(ports.read_text())
            with contextlib.closing(triton_grpc.InferenceServerClient(f"127.0.0.2:{bound['grpc']}")) as client:
                assert client.is_model_ready("sum")
                assert settings_of(client.get_log_settings())["log_verbose_level"] == 1
        finally:
            process.terminate()
            log = process.communicate(timeout=60)[0]
    assert process.returncode == 0, log
    assert "--pinned-memory-pool-byte-size has no effect" in log
    assert "--disable-auto-complete-config has no effect" in log
    assert "--grpc-keepalive-time has no effect" in log


@pytest.mark.parametrize("words, message", (
    (("--model-control-mode", "all"), "all not in {none,poll,explicit}"),
    (("--model-control-mode", "poll", "--repository-poll-secs", "0"), "--repository-poll-secs"),
    (("--model-control-mode", "poll", "--fleet", "cpu:1,cpu:1"), "--model-control poll cannot"),
    (("--rate-limit=execution_count",), "--rate-limit: it cannot be other than off"),
    (("--model-repository", "/elsewhere"), "is given twice: a server has one repository"),
    (("--trace-config", "level=TIMESTAMPS"), "there is no collector"),
    (("--trace-config", "mode=triton"), "mode is opentelemetry"),
    (("--trace-config", "opentelemetry,url=https://there"), "does not speak TLS"),
    (("--trace-config", "triton,file=/tmp/trace.json"), "write --trace FILE"),
    (("--trace-config", "opentelemetry,color=red"), "the settings are mode, url, rate"),
    (("--allow-grpc=false",), "--allow-grpc: it cannot be false"),
    (("--grpc-use-ssl=1",), "there is no TLS"),
    (("--reuse-http-port", "true"), "--reuse-http-port: it cannot be true"),
    (("--allow-sagemaker",), "--allow-sagemaker: it cannot be true"),
    (("--log-info=false",), "write --log-level warning"),
    (("--http-max-input-size=1000",), "write --max-body-mib"),
    (("--model-config-name=large",), "--model-config-name: an option of tritonserver"),
    (("--exit-timeout-secs=-1",), "--drain-seconds"),
))
def test_an_option_of_tritonserver_that_is_missing_is_named(lagoon, repository, words, message):
    result = lagoon.run("serve", "--model-repository", repository, *words, timeout=60)
    assert 0 < result.returncode < 128 and message in result.stderr, result.stderr


# ---- Every method of the clients

# Documented refusals, by what their messages say.
REFUSALS = ("memory of a GPU cannot be registered",)
# Without a request to the server.
LOCAL = {"close", "plugin", "register_plugin", "unregister_plugin", "generate_request_body", "parse_response_body",
         "stop_stream"}


async def settled(value):
    return await value if inspect.isawaitable(value) else value


async def one_answer(module, client, inputs):
    """What the asynchronous method of the client gives for one request."""
    if module is triton_http:
        return client.async_infer("sum", inputs).get_result()
    answers = queue.Queue()
    if module is triton_grpc:
        client.async_infer("sum", inputs, callback=lambda result, error: answers.put((result, error)))
        result, error = answers.get(timeout=60)
        if error:
            raise error
        return result
    raise AssertionError(module)


async def streamed(module, client, inputs):
    if module is triton_grpc_aio:
        async def requests():
            yield {"model_name": "sum", "inputs": inputs}
        return [(result, error) async for result, error in client.stream_infer(requests())]
    answers = queue.Queue()
    client.start_stream(callback=lambda result, error: answers.put((result, error)))
    client.async_stream_infer("sum", inputs)
    result, error = answers.get(timeout=60)
    client.stop_stream()
    if error:
        raise error
    return [(result, error)]


def calls_of(module, client, key):
    """{method: a call that a user could make}"""
    both = tensors(module, "left", "right")
    def stream():
        return streamed(module, client, both)
    return {
        "is_server_live": client.is_server_live, "is_server_ready": client.is_server_ready,
        "is_model_ready": lambda: client.is_model_ready("sum"),
        "get_server_metadata": client.get_server_metadata,
        "get_model_metadata": lambda: client.get_model_metadata("sum"),
        "get_model_config": lambda: client.get_model_config("sum"),
        "get_model_repository_index": client.get_model_repository_index,
        "get_inference_statistics": client.get_inference_statistics,
        "infer": lambda: client.infer("sum", both),
        "async_infer": lambda: one_answer(module, client, both),
        "stream_infer": stream, "start_stream": stream, "async_stream_infer": stream,
        "unload_model": lambda: client.unload_model("sum"), "load_model": lambda: client.load_model("sum"),
        "get_trace_settings": client.get_trace_settings,
        "update_trace_settings": lambda: client.update_trace_settings(None, {"trace_level": ["OFF"]}),
        "get_log_settings": client.get_log_settings,
        "update_log_settings": lambda: client.update_log_settings({"log_info": True}),
        "register_system_shared_memory": lambda: client.register_system_shared_memory("data", key, 64),
        "get_system_shared_memory_status": client.get_system_shared_memory_status,
        "unregister_system_shared_memory": client.unregister_system_shared_memory,
        "register_cuda_shared_memory": lambda: client.register_cuda_shared_memory("data", b"aGFuZGxl", 0, 64),
        "get_cuda_shared_memory_status": client.get_cuda_shared_memory_status,
        "unregister_cuda_shared_memory": client.unregister_cuda_shared_memory,
    }


async def try_methods(module, server, key):
    """{method: 'working', 'refused' or what went wrong}"""
    made = module.InferenceServerClient(server.url("http" if module in (triton_http, triton_http_aio) else "grpc"))
    calls = calls_of(module, made, key)
    public = {name for name in dir(made) if not name.startswith("_")} - LOCAL
    assert public <= calls.keys(), f"methods that no test knows: {public - calls.keys()}"
    outcomes = {}
    for name, call in calls.items():
        if name not in public:
            continue
        try:
            answer = await settled(call())
            good = answer is not False
            outcomes[name] = "working" if good else "false"
        except InferenceServerException as error:
            outcomes[name] = "refused" if any(text in str(error) for text in REFUSALS) else str(error)
    await settled(made.close())
    return outcomes


def test_every_method_of_the_clients_works_or_is_refused_by_name(lagoon, repository):
    counts = {"working": 0, "refused": 0, "wrong": 0}
    wrong = {}
    words = ("--model-control", "explicit", "--load-model", "*", "--allow-admin-on-http")
    with region(64) as (key, _), serving(lagoon, repository, *words) as server:
        for module in (triton_http, triton_grpc, triton_http_aio, triton_grpc_aio):
            for name, outcome in asyncio.run(try_methods(module, server, key)).items():
                counts[outcome if outcome in counts else "wrong"] += 1
                if outcome not in counts:
                    wrong[f"{module.__name__}.{name}"] = outcome
    for outcome, count in counts.items():
        print(f"client_methods_{outcome} {count}")
    assert not wrong
    assert counts["working"] > 70 and counts["refused"] == 4
