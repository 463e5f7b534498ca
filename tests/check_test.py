"""`lagoon check`: what becomes of a repository that was made for Triton."""

import json
import sys

import numpy as np
from onnx import TensorProto, helper

from conftest import DIGITS
from tiny_model import add_model


def two_times(shape):
    graph = helper.make_graph([helper.make_node("Mul", ["x", "two"], ["y"])], "two times",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                              [helper.make_tensor("two", TensorProto.FLOAT, [1], np.array([2], np.float32))])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def repository_of_a_team(folder):
    """Eight models: five are served, and each of the others needs another word in its configuration."""
    (folder / "digits").symlink_to(DIGITS)
    add_model(folder, "batched", two_times(["n", 3]), """
platform: "onnxruntime_onnx" max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }
model_warmup [ { name: "w" batch_size: 1 } ]
""")
    (folder / "batched" / "labels.txt").write_text("cat\ndog\nfox\n")
    add_model(folder, "picture", two_times([1, 3, 2, 2]), """
input [ { name: "x" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 2, 2 ] reshape { shape: [ 1, 3, 2, 2 ] } } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 12 ] reshape { shape: [ 1, 3, 2, 2 ] } } ]
""")
    add_model(folder, "urgent", two_times([3]), "optimization { priority: PRIORITY_MAX }")
    add_model(folder, "plain", two_times([3]))
    add_model(folder, "wrong", two_times([3]), 'input [ { name: "image" } ]')
    add_model(folder, "pipeline", two_times([3]), "ensemble_scheduling { }")
    (folder / "script" / "1").mkdir(parents=True)
    (folder / "script" / "1" / "model.py").write_text("class TritonPythonModel: pass\n")
    (folder / "script" / "config.pbtxt").write_text('backend: "python"')


def test_every_model_is_served_or_refused_with_its_reason(lagoon, tmp_path):
    repository_of_a_team(tmp_path)
    result = lagoon.run("check", tmp_path, "--engine", "none", "--json", "--python", sys.executable)
    assert result.returncode == 1, result.stderr
    rows = {row["model"]: row for row in json.loads(result.stdout)}
    assert {name for name, row in rows.items() if row["served"]} == {"digits", "batched", "picture", "urgent", "plain"}
    assert any("model_warmup" in note for note in rows["batched"]["notes"])
    assert not rows["plain"]["notes"]
    for model, reason in (("wrong", "'image'"), ("pipeline", "ensemble_scheduling"), ("script", "no method execute")):
        assert reason in rows[model]["reason"] and not rows[model]["served"]
    text = lagoon.run("check", tmp_path, "--engine", "none").stdout
    assert "5 served, 3 refused" in text and "why: " in text and "note: " in text


def test_a_repository_that_is_served_whole_ends_with_success(lagoon, tmp_path):
    (tmp_path / "digits").symlink_to(DIGITS)
    result = lagoon.run("check", tmp_path)
    assert result.returncode == 0 and "1 served, 0 refused" in result.stdout, result.stderr


def test_a_repository_that_is_not_there_is_named(lagoon, tmp_path):
    result = lagoon.run("check", tmp_path / "none")
    assert result.returncode == 1 and "does not exist" in result.stderr
