"""The example models of `./run serve`, which are committed without large weights: `lagoon make-weights` makes them."""

import hashlib
import shutil

import numpy as np
import onnx
import pytest
from conftest import DIGITS, ROOT, relative_error, run_onnxruntime
from generators.images import make_images
from generators.made_up import made_up
from onnx import numpy_helper
from server_process import serving, triton_http, triton_input

EXAMPLES = ROOT / "models" / "examples"
NAMES = ("resnet18", "mobilenet_v2")
MOST_BYTES = 1 << 20  # size limit of a committed file
IMAGES = 8
LEAST_ANSWERS = 3  # different classes for IMAGES images
IMAGE_SEED = 4000  # gives other images than those of the calibration


@pytest.fixture(scope="module")
def examples(lagoon, tmp_path_factory):
    """The repository that `./run serve` serves."""
    folder = tmp_path_factory.mktemp("examples") / "repository"
    shutil.copytree(EXAMPLES, folder)
    result = lagoon.run("make-weights", folder)
    assert result.returncode == 0, result.stderr
    assert all(name in result.stdout for name in NAMES)
    (folder / "digits").symlink_to(DIGITS)
    return folder


def file_of(repository, name):
    return repository / name / "1" / "model.onnx"


def test_the_committed_files_are_small():
    assert sorted(path.name for path in EXAMPLES.iterdir()) == sorted(NAMES)
    for name in NAMES:
        files = [path for path in (EXAMPLES / name).rglob("*") if path.is_file()]
        assert {path.name for path in files} == {"config.pbtxt", "model.onnx"}
        assert all(path.stat().st_size < MOST_BYTES for path in files)


@pytest.mark.parametrize("name", NAMES)
def test_made_up_weights_are_the_same_bytes_as_in_python(examples, name):
    """lagoon and numpy compute weights with integers: every machine and compiler gives the same bytes."""
    path = file_of(examples, name)
    tensors = onnx.load(path, load_external_data=False).graph.initializer
    external = [tensor for tensor in tensors if tensor.external_data]
    assert len(external) > 15
    for number, tensor in enumerate(external):
        kind, mean, deviation = tensor.doc_string.split()
        assert kind == "normal" and float(deviation) > 0
        expected = made_up(number, float(mean), float(deviation), tuple(tensor.dims))
        assert np.array_equal(numpy_helper.to_array(tensor, str(path.parent)), expected), tensor.name


def test_weights_made_again_are_the_same_bytes(lagoon, examples):
    def digests():
        return [hashlib.sha256((examples / name / "1" / "weights.bin").read_bytes()).hexdigest() for name in NAMES]
    before = digests()
    assert lagoon.run("make-weights", examples).returncode == 0
    assert digests() == before


@pytest.mark.parametrize("name", NAMES)
def test_answers_differ_between_inputs(lagoon, examples, name, tmp_path):
    """A model with weights that do not fit its batch-norms would give one class for all images, or NaN."""
    images = make_images(IMAGES, IMAGE_SEED)
    scores = [run_onnxruntime(file_of(examples, name), {"input": image[None]})["output"][0] for image in images]
    assert np.isfinite(scores).all()
    assert len({int(row.argmax()) for row in scores}) >= LEAST_ANSWERS
    for index, row in enumerate(scores):
        others = [np.abs(row - other).max() for at, other in enumerate(scores) if at != index]
        assert min(others) > 0.5 * row.std(), f"image {index} has the scores of another one"
    first = next(index for index in range(1, IMAGES) if scores[index].argmax() != scores[0].argmax())
    for index in (0, first):
        (ours,) = lagoon.infer(file_of(examples, name), {"input": images[index][None]}, tmp_path).values()
        assert relative_error(ours[0], scores[index]) < 1e-4
        assert ours[0].argmax() == scores[index].argmax()


def test_the_server_answers_with_the_example_models(lagoon, examples):
    sample = (ROOT / "models" / "digits" / "samples" / "digit-3.json").read_bytes()
    with serving(lagoon, examples) as server:
        assert {name: model["ready"] for name, model in server.ports["models"].items()} == {
            "digits": True, "mobilenet_v2": True, "resnet18": True}
        status, digit = server.post("/v2/models/digits/infer", sample)
        assert status == 200 and int(np.argmax(digit["outputs"][0]["data"])) == 3
        answers = []
        for image in make_images(2, IMAGE_SEED + 1):
            tensor = triton_input(triton_http, "input", image[None])
            answers.append(server.http().infer("resnet18", [tensor]).as_numpy("output")[0])
        assert np.isfinite(answers).all()
        assert np.abs(answers[0] - answers[1]).max() > 0.5 * answers[0].std()


def test_a_folder_without_models_is_refused(lagoon, tmp_path):
    result = lagoon.run("make-weights", tmp_path)
    assert result.returncode == 1 and f"no model in '{tmp_path}'" in result.stderr
    result = lagoon.run("make-weights", tmp_path / "nothing")
    assert result.returncode == 1 and "nothing" in result.stderr
    (tmp_path / "empty").mkdir()
    result = lagoon.run("make-weights", tmp_path)
    assert result.returncode == 1 and "empty" in result.stderr
