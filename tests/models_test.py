"""The models that ship and the generator of the zoo, without Lagoon."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from PIL import Image

from conftest import DIGITS, ROOT, run_onnxruntime

SAMPLES = sorted((ROOT / "models" / "digits" / "samples").glob("*.json"))


def run_zoo(*words):
    return subprocess.run([sys.executable, "-W", "ignore", ROOT / "models" / "zoo.py",
                           *map(str, words)],
                          capture_output=True, text=True, check=False, timeout=300)


def test_digits_are_read_as_well_as_the_readme_says(test_split, digit_scores):
    accuracy = float((digit_scores.argmax(axis=1) == test_split[1]).mean())
    assert accuracy >= 0.97
    assert f"{accuracy:.4f}" in (ROOT / "models" / "digits" / "README.md").read_text()


def test_test_split_is_a_fifth_with_every_digit_in_proportion(test_split):
    images, labels = test_split
    assert images.shape == (360, 1, 8, 8)
    assert images.min() == 0 and images.max() == 1
    assert np.bincount(labels, minlength=10).min() >= 34


def test_digit_model_keeps_its_batch_norms_and_is_small():
    path = DIGITS / "1" / "model.onnx"
    model = onnx.load(str(path))
    assert sum(node.op_type == "BatchNormalization" for node in model.graph.node) == 3
    assert model.opset_import[0].version == 13
    assert path.stat().st_size < 200 * 1024


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_sample_is_read_and_its_forms_agree(sample):
    request = json.loads(sample.read_text())["inputs"][0]
    image = np.array(request["data"], np.float32).reshape(request["shape"])
    scores = run_onnxruntime(DIGITS / "1" / "model.onnx", {request["name"]: image})["scores"]
    assert scores.argmax() == int(sample.stem.removeprefix("digit-"))
    assert np.array_equal(np.load(sample.with_suffix(".npy")), image)
    pixels = np.asarray(Image.open(sample.with_suffix(".png")), np.float32)
    assert np.abs(pixels / 255 - image[0, 0]).max() <= 0.5 / 255 + 1e-6


def test_there_are_samples():
    assert len(SAMPLES) >= 3


def test_zoo_generates_once_and_again_when_a_file_is_damaged(tmp_path):
    first = run_zoo("squeezenet1_1", "--out", tmp_path)
    assert first.returncode == 0, first.stderr
    model = tmp_path / "squeezenet1_1" / "1" / "model.onnx"
    stamp = json.loads((tmp_path / "squeezenet1_1" / "zoo.json").read_text())
    assert stamp["classes"] >= 4
    written, content = model.stat().st_mtime_ns, model.read_bytes()

    assert "up to date" in run_zoo("squeezenet1_1", "--out", tmp_path).stdout
    assert model.stat().st_mtime_ns == written

    os.truncate(model, 1000)
    assert run_zoo("squeezenet1_1", "--out", tmp_path).returncode == 0
    assert model.read_bytes() == content  # the same seed gives the same bytes


def test_zoo_refuses_an_unknown_name(tmp_path):
    result = run_zoo("resnet19", "--out", tmp_path)
    assert result.returncode == 2
    assert "resnet19" in result.stderr and "resnet18" in result.stderr
    assert not list(tmp_path.iterdir())


def test_zoo_leaves_batch_norms_for_fusion(zoo):
    model = onnx.load(str(zoo("resnet18")))
    operators = [node.op_type for node in model.graph.node]
    assert operators.count("BatchNormalization") == operators.count("Conv") == 20
    assert "PRIORITY_MAX" in (ROOT / "models" / "zoo" / "resnet18" / "config.pbtxt").read_text()
