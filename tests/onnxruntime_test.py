"""Outputs of `lagoon infer` against ONNX Runtime, and models that must be refused clearly."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import onnx_cases
import onnx_formulas
from conftest import DIGITS, ROOT, TOLERANCE, relative_error, run_onnxruntime

ALWAYS = ("resnet18", "mobilenet_v2", "squeezenet1_1")
IF_THERE = ("resnet50", "vgg19")  # 700 MB: only tested if they are made already


def compare(lagoon, model, inputs, folder):
    """Runs both and compares every output. Returns (Lagoon's outputs, ONNX Runtime's)."""
    expected = run_onnxruntime(model, inputs)
    actual = lagoon.infer(model, inputs, folder)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        error = relative_error(actual[name], array)
        assert error <= TOLERANCE, f"output '{name}': relative error {error:.2e}"
    return actual, expected


@pytest.mark.parametrize("case", [*onnx_cases.all_cases(), *onnx_formulas.formulas()], ids=lambda case: case.name)
def test_case_agrees_with_onnxruntime(lagoon, case, tmp_path):
    model = tmp_path / "model.onnx"
    onnx.save(case.model(), str(model))
    compare(lagoon, model, case.feed(), tmp_path)


def test_digits_agree_with_onnxruntime(lagoon, test_split, tmp_path):
    actual, _ = compare(lagoon, DIGITS / "1" / "model.onnx", {"image": test_split[0][0][None]},
                        tmp_path)
    assert actual["scores"].argmax() == test_split[1][0]


def check_zoo_model(lagoon, path, folder):
    import zoo
    for index, image in enumerate(zoo.make_images(2, seed=4711)):
        run = folder / str(index)
        run.mkdir()
        actual, expected = compare(lagoon, path, {"input": image[None]}, run)
        assert actual["output"].argmax() == expected["output"].argmax()


@pytest.mark.parametrize("name", ALWAYS)
def test_cnn_agrees_with_onnxruntime(lagoon, zoo, name, tmp_path):
    check_zoo_model(lagoon, zoo(name), tmp_path)


@pytest.mark.parametrize("name", IF_THERE)
def test_large_cnn_agrees_with_onnxruntime(lagoon, name, tmp_path):
    path = ROOT / "models" / "zoo" / name / "1" / "model.onnx"
    if not path.exists():
        pytest.skip(f"{name} is not generated: ./run models {name}")
    check_zoo_model(lagoon, path, tmp_path)


def text_inputs(path):
    """Ids of words, and a mask that leaves out the last ones. A batch dimension is 1."""
    random = np.random.default_rng(4711)
    inputs = {}
    for value in onnx.load(str(path), load_external_data=False).graph.input:
        shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        ids = random.integers(0, 100, shape)
        if "mask" in value.name:
            ids = (np.arange(shape[-1]) < shape[-1] - 9).astype(np.int64) * np.ones(shape, np.int64)
        inputs[value.name] = ids if "type" not in value.name else np.zeros(shape, np.int64)
    return inputs


@pytest.mark.parametrize("name", ("bert_tiny", "gnmt_tiny"))
def test_text_model_agrees_with_onnxruntime(lagoon, zoo, name, tmp_path):
    path = zoo(name)
    compare(lagoon, path, text_inputs(path), tmp_path)


def save_with_external_data(folder):
    """A model with its weights in a file beside it."""
    case = next(case for case in onnx_cases.all_cases() if case.name == "gemm_relu_residual")
    path = folder / "model.onnx"
    onnx.save_model(case.model(), str(path), save_as_external_data=True,
                    all_tensors_to_one_file=True,
                    location="weights.bin", size_threshold=0)
    assert (folder / "weights.bin").stat().st_size >= 440
    return case, path


def test_external_data_is_read(lagoon, tmp_path):
    case, path = save_with_external_data(tmp_path)
    compare(lagoon, path, case.feed(), tmp_path)


def expect_refusal(lagoon, model, tmp_path, *words):
    """Checks that `lagoon infer` fails cleanly, with all `words` in its message."""
    np.save(tmp_path / "x.npy", np.zeros((4, 4, 3, 3), np.float32))
    result = lagoon.run("infer", model, "--engine", "none", "--input", f"x={tmp_path / 'x.npy'}",
                        "--output-dir", tmp_path / "out")
    assert result.returncode == 1, f"exit {result.returncode}\n{result.stderr}"
    # The message names the file, or the model, which has the name of its folder.
    assert model.name in result.stderr or f"'{model.parent.name}'" in result.stderr
    for word in words:
        assert word in result.stderr, f"no {word!r} in: {result.stderr}"
    assert not list(tmp_path.glob("out/*.npy"))


@pytest.mark.parametrize("name", onnx_cases.REFUSED)
def test_unsupported_model_is_refused_by_node_op_and_opset(lagoon, name, tmp_path):
    nodes, op, opset = onnx_cases.REFUSED[name]
    model = tmp_path / "model.onnx"
    onnx.save(onnx_cases.refused_model(name), str(model))
    names = [node.name for node in nodes if node.op_type == op]
    expect_refusal(lagoon, model, tmp_path, op, str(opset), *names)


def test_outputs_may_be_constants_and_inputs(lagoon, tmp_path):
    case = onnx_cases.Case(
        "constant", 13, [onnx_cases.node("Relu", "x"), onnx_cases.node("Add", "k k", "z")],
        {"x": [4, 4, 3, 3]}, {"k": (2, 3)}, ("y", "z", "x"))
    model = tmp_path / "model.onnx"
    onnx.save(case.model(), str(model))
    compare(lagoon, model, case.feed(), tmp_path)


def test_ids_and_masks(lagoon, tmp_path):
    """INT64 and BOOL inputs, INT64 and BOOL outputs, fp16 in between."""
    nodes = [onnx_cases.node("Gather", "table ids", "e"),
             onnx_cases.node("Cast", "e", "h", to=onnx.TensorProto.FLOAT16),
             onnx_cases.node("Where", "mask h zero", "w"),
             onnx_cases.node("ReduceSum", "w axes", "s", keepdims=0),
             onnx_cases.node("ArgMax", "s", "best", axis=0),
             onnx_cases.node("Not", "mask", "dropped")]
    ids = np.array([3, 0, -1, 5])
    mask = np.array([[True], [False], [True], [True]])
    values = {"table": np.arange(24, dtype=np.float32).reshape(6, 4),
              "zero": np.float16(0), "axes": np.array([1])}
    described = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "typed", [described("ids", onnx.TensorProto.INT64, [4]),
                         described("mask", onnx.TensorProto.BOOL, [4, 1])],
        [described("s", onnx.TensorProto.FLOAT16, None),
         described("best", onnx.TensorProto.INT64, None),
         described("dropped", onnx.TensorProto.BOOL, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    model.ir_version = 8
    path = tmp_path / "model.onnx"
    onnx.save(model, str(path))
    actual, expected = compare(lagoon, path, {"ids": ids, "mask": mask}, tmp_path)
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype, name


@pytest.mark.parametrize("keep", (0, 1, 100, 0.5, 0.999), ids=str)
def test_truncated_model_is_refused(lagoon, keep, tmp_path):
    data = (DIGITS / "1" / "model.onnx").read_bytes()
    model = tmp_path / "cut.onnx"
    model.write_bytes(data[:keep if isinstance(keep, int) else int(keep * len(data))])
    expect_refusal(lagoon, model, tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_model_never_crashes(lagoon, seed, tmp_path):
    """64 random bytes of the digit model are overwritten: an answer or a clean error, but no signal."""
    random = np.random.default_rng(seed)
    data = np.frombuffer((DIGITS / "1" / "model.onnx").read_bytes(), np.uint8).copy()
    data[random.integers(0, data.size, 32)] = random.integers(0, 256, 32)
    data[random.integers(0, 4000, 32)] = random.integers(0, 256, 32)  # the graph is at the front
    model = tmp_path / "damaged.onnx"
    model.write_bytes(data.tobytes())
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    result = lagoon.run("infer", model, "--engine", "none", "--input", f"image={tmp_path / 'x.npy'}",
                        "--output-dir", tmp_path)
    assert result.returncode in (0, 1), f"exit {result.returncode}\n{result.stderr}"
    assert result.returncode == 0 or result.stderr.strip()


@pytest.mark.parametrize("location", ("../secret.bin", "/etc/passwd", "missing.bin"))
def test_external_data_outside_the_folder_is_refused(lagoon, location, tmp_path):
    (tmp_path / "secret.bin").write_bytes(bytes(1000))
    folder = tmp_path / "model"
    folder.mkdir()
    _, path = save_with_external_data(folder)
    model = onnx.load(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path.write_bytes(model.SerializeToString())
    expect_refusal(lagoon, path, tmp_path, location)


def test_external_data_that_is_too_short_is_refused(lagoon, tmp_path):
    _, path = save_with_external_data(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"short")
    expect_refusal(lagoon, path, tmp_path, "weights.bin")


def test_tensor_that_claims_more_than_it_holds_is_refused(lagoon, tmp_path):
    model = onnx_cases.refused_model("unknown_op")
    del model.graph.node[:]
    model.graph.node.append(onnx_cases.node("Add", "x w"))
    weight = numpy_helper.from_array(np.ones(4, np.float32), "w")
    weight.dims[:] = [1 << 40, 1 << 20]
    del model.graph.initializer[:]
    model.graph.initializer.append(weight)
    path = tmp_path / "huge.onnx"
    path.write_bytes(model.SerializeToString())
    expect_refusal(lagoon, path, tmp_path, "'w'")


def test_not_a_model_is_refused(lagoon, tmp_path):
    path = tmp_path / "text.onnx"
    path.write_text("this is not a model\n" * 100)
    expect_refusal(lagoon, path, tmp_path)
    expect_refusal(lagoon, tmp_path / "absent.onnx", tmp_path)
