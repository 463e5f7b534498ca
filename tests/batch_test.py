"""Models with a batch: over every edge, the rows of a batch equal the answers to single requests."""

import queue

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from conftest import DIGITS, TOLERANCE, relative_error, run_onnxruntime
from server_process import serving, triton_input

MAX_BATCH = 5
LARGE_BATCH = 256
SAME = 1e-5
MODELS = ("digits", "squeezenet1_1", "mobilenet_v2", "gnmt_tiny")


def open_batch(source, path):
    """Copies a model; the first dimension of all inputs and outputs becomes the batch."""
    model = onnx.load(str(source))
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]
    path.parent.mkdir(parents=True)
    onnx.save(model, str(path))
    return path


def make_rows(path, rows):
    """{input name: array} of `rows` different rows."""
    random = np.random.default_rng(17)
    inputs = {}
    for value in onnx.load(str(path), load_external_data=False).graph.input:
        shape = [rows, *(dim.dim_value for dim in value.type.tensor_type.shape.dim[1:])]
        is_float = value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        inputs[value.name] = (random.standard_normal(shape).astype(np.float32) if is_float
                              else random.integers(0, 100, shape))
    return inputs


@pytest.fixture(scope="module", name="repository")
def fixture_repository(zoo, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batches")
    for name in MODELS:
        source = DIGITS / "1" / "model.onnx" if name == "digits" else zoo(name)
        open_batch(source, folder / name / "1" / "model.onnx")
        (folder / name / "config.pbtxt").write_text(f"max_batch_size: {MAX_BATCH}\n")
    fixed = folder / "fixed" / "1"
    fixed.mkdir(parents=True)
    (fixed / "model.onnx").write_bytes((DIGITS / "1" / "model.onnx").read_bytes())
    (folder / "fixed" / "config.pbtxt").write_text("max_batch_size: 2\n")
    return folder


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, repository):
    with serving(lagoon, repository) as server:
        yield server


def tensors(module, inputs):
    return [triton_input(module, name, array, "INT64" if array.dtype == np.int64 else "FP32")
            for name, array in inputs.items()]


def infer_http(server, model, inputs):
    client = server.http()
    try:
        return client.infer(model, tensors(triton_http, inputs))
    finally:
        client.close()


def infer_grpc(server, model, inputs):
    with server.grpc() as client:
        return client.infer(model, tensors(triton_grpc, inputs))


EDGES = pytest.mark.parametrize("infer", (infer_http, infer_grpc), ids=("http", "grpc"))


def first(inputs, count):
    return {name: array[:count] for name, array in inputs.items()}


@EDGES
@pytest.mark.parametrize("name", MODELS)
def test_every_batch_is_answered_row_by_row(server, repository, infer, name):
    path = repository / name / "1" / "model.onnx"
    inputs = make_rows(path, MAX_BATCH)
    expected = run_onnxruntime(path, inputs)
    alone = [infer(server, name, {key: array[row:row + 1] for key, array in inputs.items()})
             for row in range(MAX_BATCH)]
    for batch in (MAX_BATCH, 1, 3, 2, 4):
        result = infer(server, name, first(inputs, batch))
        for output, array in expected.items():
            actual = result.as_numpy(output)
            assert relative_error(actual, array[:batch]) <= TOLERANCE, output
            rows = np.concatenate([one.as_numpy(output) for one in alone[:batch]])
            assert relative_error(actual, rows) <= SAME, output


@pytest.mark.parametrize("name", MODELS)
def test_infer_takes_a_batch_from_a_file(lagoon, repository, name, tmp_path):
    path = repository / name / "1" / "model.onnx"
    inputs = make_rows(path, 3)
    expected = run_onnxruntime(path, inputs)
    actual = lagoon.infer(path, inputs, tmp_path)
    assert actual.keys() == expected.keys()
    for output, array in expected.items():
        assert relative_error(actual[output], array) <= TOLERANCE, output


def test_metadata_and_config_say_the_batch(server):
    client = server.http()
    metadata = client.get_model_metadata("digits")
    assert metadata["inputs"][0]["shape"] == [-1, 1, 8, 8]
    assert metadata["outputs"][0]["shape"] == [-1, 10]
    config = client.get_model_config("digits")
    assert config["max_batch_size"] == MAX_BATCH
    assert [int(size) for size in config["input"][0]["dims"]] == [1, 8, 8]
    client.close()


def test_statistics_count_rows_and_executions(server):
    client = server.http()
    read = lambda: client.get_inference_statistics("digits")["model_stats"][0]
    executions = lambda stats, batch: sum(entry["compute_infer"]["count"]
                                          for entry in stats["batch_stats"]
                                          if entry["batch_size"] == batch)
    before = read()
    for batch in (2, 4, 4):
        infer_http(server, "digits", {"image": np.zeros((batch, 1, 8, 8), np.float32)})
    after = read()
    client.close()
    assert after["inference_count"] - before["inference_count"] == 10
    assert after["execution_count"] - before["execution_count"] == 3
    assert executions(after, 4) - executions(before, 4) == 2
    assert executions(after, 2) - executions(before, 2) == 1


@EDGES
@pytest.mark.parametrize("model, inputs, expected", [
    ("digits", {"image": np.zeros((6, 1, 8, 8), np.float32)},
     ["image", "[6,1,8,8]", "a batch of 6", "1 to 5"]),
    ("digits", {"image": np.zeros((0, 1, 8, 8), np.float32)}, ["image", "[0,1,8,8]"]),
    ("digits", {"image": np.zeros((2, 8, 8), np.float32)}, ["image", "[2,8,8]", "[-1,1,8,8]"]),
    ("gnmt_tiny", {"source": np.zeros((2, 32), np.int64), "target": np.zeros((3, 16), np.int64)},
     ["source", "target", "2", "3"]),
], ids=("above", "zero", "rank", "mixed"))
def test_wrong_batch_is_named(server, infer, model, inputs, expected):
    with pytest.raises(InferenceServerException) as error:
        infer(server, model, inputs)
    assert error.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    for word in [model, *expected]:
        assert word in error.value.message().replace(", ", ","), error.value.message()


def test_model_of_a_fixed_batch_refuses_a_larger_one(server):
    client = server.http()
    assert not client.is_model_ready("fixed")
    with pytest.raises(InferenceServerException) as error:
        infer_http(server, "fixed", {"image": np.zeros((1, 1, 8, 8), np.float32)})
    client.close()
    # The answer has only the name. The reason, which may have paths of the server, is in the log.
    assert "model 'fixed'" in error.value.message(), error.value.message()
    for word in ("max_batch_size is 2", "input 'image' has shape [1,1,8,8]", "fixed"):
        assert word in server.log(), server.log()


@pytest.fixture(scope="module", name="large")
def fixture_large(lagoon, tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    open_batch(DIGITS / "1" / "model.onnx", folder / "digits" / "1" / "model.onnx")
    (folder / "digits" / "config.pbtxt").write_text(
        f"max_batch_size: {LARGE_BATCH}\n"
        "dynamic_batching { preferred_batch_size: [ 4, 128 ] }\n")
    with serving(lagoon, folder) as server:
        yield server, folder / "digits" / "1" / "model.onnx"


def digits_stats(server):
    """The statistics of the model, and the executions by batch size."""
    client = server.http()
    stats = client.get_inference_statistics("digits")["model_stats"][0]
    client.close()
    sizes = [entry["batch_size"] for entry in stats["batch_stats"]]
    assert sizes == sorted(set(sizes))
    return stats, {entry["batch_size"]: entry["compute_infer"]["count"]
                   for entry in stats["batch_stats"]}


def test_a_large_batch_and_as_many_single_rows_have_the_same_answers(large):
    server, path = large
    inputs = make_rows(path, LARGE_BATCH)
    (output, expected), = run_onnxruntime(path, inputs).items()
    for infer in (infer_http, infer_grpc):
        for rows in (LARGE_BATCH, 65):
            whole = infer(server, "digits", first(inputs, rows)).as_numpy(output)
            assert relative_error(whole, expected[:rows]) <= TOLERANCE
    answers = queue.Queue()
    with server.grpc() as client:
        for row in range(LARGE_BATCH):
            one = {name: array[row:row + 1] for name, array in inputs.items()}
            client.async_infer("digits", tensors(triton_grpc, one), callback=lambda
                               result, error, row=row: answers.put((row, result, error)))
        for _ in range(LARGE_BATCH):
            row, result, error = answers.get(timeout=60)
            assert error is None, error
            assert relative_error(result.as_numpy(output), expected[row:row + 1]) <= TOLERANCE
    stats, executions = digits_stats(server)
    assert executions[LARGE_BATCH] >= 2 and executions[65] >= 2
    assert stats["inference_count"] == 2 * (LARGE_BATCH + 65) + LARGE_BATCH
    assert sum(rows * count for rows, count in executions.items()) == stats["inference_count"]
    assert sum(executions.values()) == stats["execution_count"]


def test_a_batch_size_above_the_limit_is_named(lagoon, tmp_path):
    open_batch(DIGITS / "1" / "model.onnx", tmp_path / "digits" / "1" / "model.onnx")
    (tmp_path / "digits" / "config.pbtxt").write_text("max_batch_size: 5000\n")
    with serving(lagoon, tmp_path) as server:
        assert "max_batch_size is 5000; it takes 0 to 4096" in server.log(), server.log()
