"""The models that ship and the generator of the zoo, without Lagoon."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from PIL import Image

import zoo as zoo_command
from conftest import DIGITS, ROOT, run_onnxruntime
from generators import ModelError
from generators.catalogue import CATALOGUE, DEFAULT, REALTIME, SMALL, TEN

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
    assert stamp["answers"] >= 4 and stamp["set"] == "zoo"
    written, content = model.stat().st_mtime_ns, model.read_bytes()

    assert "up to date" in run_zoo("squeezenet1_1", "--out", tmp_path).stdout
    assert model.stat().st_mtime_ns == written

    os.truncate(model, 1000)
    assert run_zoo("squeezenet1_1", "--out", tmp_path).returncode == 0
    assert model.read_bytes() == content  # the same seed gives the same bytes


def test_the_int8_version_of_a_model_lies_beside_it(tmp_path):
    first = run_zoo("squeezenet1_1", "--qdq", "--out", tmp_path)
    assert first.returncode == 0, first.stderr
    folder = tmp_path / "squeezenet1_1.qdq"
    stamp = json.loads((folder / "zoo.json").read_text())
    assert stamp["answers"] >= 4 and stamp["set"] == "zoo"
    assert 'name: "squeezenet1_1.qdq"' in (folder / "config.pbtxt").read_text()
    ops = [node.op_type for node in onnx.load(str(folder / "1" / "model.onnx")).graph.node]
    assert ops.count("QuantizeLinear") > 20 and ops.count("DequantizeLinear") > 40
    again = run_zoo("squeezenet1_1", "--qdq", "--out", tmp_path)
    assert again.stdout.count("up to date") == 2


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


def test_zoo_model_that_lagoon_cannot_compile_fails_the_command(zoo):
    zoo("squeezenet1_1")
    assert run_zoo("squeezenet1_1", "--lagoon", "true").returncode == 0
    result = run_zoo("squeezenet1_1", "--lagoon", "false")
    assert result.returncode == 1
    assert "false does not compile it" in result.stderr
    assert "1 of 1 models failed: squeezenet1_1" in result.stderr


def test_catalogue_is_sound():
    families = {path.stem for path in (ROOT / "models" / "generators").glob("*.py")}
    for name, entry in CATALOGUE.items():
        assert entry.family in families, name
        assert entry.megabytes > 0 and entry.description, name
        # With fewer inputs the statistics would be those of single inputs.
        assert entry.calibration >= 8 or entry.calibration == 0, name
    assert set(DEFAULT) | set(SMALL) | REALTIME <= set(CATALOGUE)
    assert len(TEN) == 10 and {name for name, entry in CATALOGUE.items() if entry.set == "ten"} == set(TEN)
    assert sum(CATALOGUE[name].megabytes for name in SMALL) < 100


def test_weights_have_seeds_of_their_own():
    pairs = [(entry.family, entry.seed) for entry in CATALOGUE.values()]
    shared = {name for name, pair in zip(CATALOGUE, pairs) if pairs.count(pair) > 1}
    assert shared == {"gpt2_prefill", "gpt2_decode"}  # two graphs of one model


def test_key_follows_what_a_model_is_made_from(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "models" / "generators", tmp_path / "generators")
    monkeypatch.setattr(zoo_command, "HERE", tmp_path)
    keys = {name: zoo_command.make_key(name) for name in CATALOGUE}
    assert len(set(keys.values())) == len(CATALOGUE)

    with (tmp_path / "generators" / "text.py").open("a") as file:
        file.write("# other tokens\n")
    changed = {name for name in CATALOGUE if zoo_command.make_key(name) != keys[name]}
    assert changed == {name for name, entry in CATALOGUE.items()
                       if entry.family in ("bert", "gpt2", "gnmt", "llama")}


def tiny_network(module):
    """A classifier of four numbers into eight classes."""
    from generators.network import Network

    def sample(count, seed):
        random = np.random.default_rng(seed)
        return {"input": random.standard_normal((count, 4)).astype(np.float32)}
    return Network(module.eval(), sample)


def export_and_check(module, path):
    from generators import exporting
    network = tiny_network(module)
    exporting.export(network, path)
    return exporting.check(network, path, seed=1)


@pytest.mark.parametrize("name", ["gpt2_prefill", "gpt2_decode"])
def test_gpt2_computes_the_same_after_its_export(name, tmp_path, monkeypatch):
    from transformers import GPT2Config
    from generators import exporting, gpt2
    monkeypatch.setattr(gpt2, "GPT2Config", lambda **options: GPT2Config(
        n_layer=2, n_embd=64, n_head=2, vocab_size=500, **options))
    network = exporting.build(name, CATALOGUE[name])
    path = tmp_path / "model.onnx"
    exporting.export(network, path)
    sample = network.sample(1, 5)
    answers, error = exporting.check(network, path, seed=1)
    assert answers >= 4
    assert error < 1e-5
    assert all(np.array_equal(array, again)  # with dropout the cache for decode would differ
               for array, again in zip(sample.values(), network.sample(1, 5).values()))


def test_check_counts_answers(tmp_path):
    import torch
    torch.manual_seed(0)
    answers, error = export_and_check(torch.nn.Linear(4, 8), tmp_path / "model.onnx")
    assert answers >= 4
    assert error < 1e-5


def test_check_refuses_a_model_that_always_answers_the_same(tmp_path):
    import torch
    module = torch.nn.Linear(4, 8)
    module.weight.data.zero_()
    with pytest.raises(ModelError, match="16 inputs give 1 different answers, at least 4"):
        export_and_check(module, tmp_path / "model.onnx")


def test_check_refuses_a_file_that_computes_something_else(tmp_path):
    import torch
    from generators import exporting
    network = tiny_network(torch.nn.Linear(4, 8))
    exporting.export(network, tmp_path / "model.onnx")
    network.module.bias.data.add_(0.01)
    with pytest.raises(ModelError, match="output 'output' of input 0 differs by"):
        exporting.check(network, tmp_path / "model.onnx", seed=1)


def test_check_refuses_a_batch_that_mixes_its_rows(tmp_path):
    import torch

    class Mixing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 8)

        def forward(self, x):
            return self.layer(x) + x.sum()
    with pytest.raises(ModelError, match="output 'output' of a batch of 3 differs by"):
        export_and_check(Mixing(), tmp_path / "model.onnx")
