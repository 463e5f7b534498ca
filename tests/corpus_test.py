"""The corpus: its list, its inputs, the comparison of answers, the report, and its small models."""

import argparse
import json
import math
import os
import pathlib
import sys

import numpy as np
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "comparators"))
from corpus import CorpusError  # pylint: disable=wrong-import-position
from corpus.catalogue import read  # pylint: disable=wrong-import-position
from corpus.inputs import FILLERS, make_inputs, size_of  # pylint: disable=wrong-import-position
from corpus.make import FILES, choose, make_all  # pylint: disable=wrong-import-position
from corpus_answers import compare  # pylint: disable=wrong-import-position
from corpus_engines import Lagoon, OnnxRuntime  # pylint: disable=wrong-import-position
from corpus_report import Case, Result, metrics, reason, report  # pylint: disable=wrong-import-position
from run_corpus import run_all, run_model  # pylint: disable=wrong-import-position

MODELS = read()
SMALL = [name for name, model in MODELS.items() if model.small]
TOLERANCE = {"absolute": 1e-4, "relative": 1e-3}
OBJECTS = {**TOLERANCE,
           "objects": {"score": 0.01, "overlap": 0.9, "matched": 0.9, "extras": 0.01}}

WORDS = {"seconds": 0, "revocations": 0, "threads": 1, "openvino": False}


# The list.

def test_list_has_what_it_promises():
    kinds = [model.kind for model in MODELS.values()]
    assert len(MODELS) >= 60
    assert kinds.count("trained") == 10
    assert 5 <= len(SMALL) <= 8
    for model in MODELS.values():
        if model.kind == "trained":
            assert len(model.sha256) == 64, model.id


@pytest.mark.parametrize("name", MODELS)
def test_cases_say_the_size_of_every_open_dim(name):
    model = MODELS[name]
    assert all(spec["fill"] in FILLERS for spec in model.inputs.values())
    words = {part for spec in model.inputs.values() for dim in [*spec["dims"], spec.get("value", 0)]
             if isinstance(dim, str) for part in dim.split("+") if not part.isdigit()}
    assert len(model.cases) >= (2 if words else 1)
    for sizes in model.cases:
        assert set(sizes) == words


def test_quantised_model_inherits_from_its_base_but_not_small_or_hash(tmp_path):
    base = {"id": "a", "source": {"family": "once", "arguments": {}}, "opset": 14, "small": True,
            "sha256": "0" * 64, "inputs": {"x": {"fill": "ones", "dims": [1]}}, "cases": [{}]}
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"tolerance": TOLERANCE, "models": [
        base, {"id": "a.q", "source": {"quantised": "a", "how": "dynamic"},
               "tolerance": {"absolute": 0.5}}]}))
    model = read(path)["a.q"]
    assert model.inputs == base["inputs"] and model.opset == 14
    assert not model.small and not model.sha256
    assert model.tolerance == {"absolute": 0.5, "relative": 1e-3}


def test_list_with_a_model_before_its_base_is_refused(tmp_path):
    path = tmp_path / "list.json"
    path.write_text(json.dumps({"tolerance": TOLERANCE, "models": [
        {"id": "a.q", "source": {"quantised": "a", "how": "dynamic"}}]}))
    with pytest.raises(CorpusError, match="'a', which must stand before"):
        read(path)


def test_pattern_without_a_model_is_refused():
    assert choose(MODELS, "gpt2,ber?") == ["bert", "gpt2"]
    with pytest.raises(CorpusError, match="no model matches 'nonsense'"):
        choose(MODELS, "nonsense")


def test_sizes_add_up():
    assert size_of("past+sequence", {"past": 3, "sequence": 4}) == 7
    assert size_of("past+1", {"past": 3}) == 4
    assert size_of(5, {}) == 5


@pytest.mark.parametrize("name", ["bert", "gpt2_with_past", "ssdlite", "ppocr_v4_rec", "silero_vad",
                                  "magika", "wav2vec2"])
def test_inputs_have_their_shapes_and_are_the_same_every_time(name):
    model = MODELS[name]
    for sizes in model.cases:
        arrays, again = make_inputs(model.inputs, sizes), make_inputs(model.inputs, sizes)
        other = make_inputs(model.inputs, sizes, seed=1)
        for key, spec in model.inputs.items():
            assert arrays[key].shape == tuple(size_of(dim, sizes) for dim in spec["dims"])
            np.testing.assert_array_equal(arrays[key], again[key])
        assert any((arrays[key] != other[key]).any() for key in arrays)


# The comparison of answers.

def test_equal_answers_agree():
    answer = {"y": np.array([1, np.inf, np.nan, -2], np.float32), "n": np.array([3, 4])}
    assert compare(answer, answer, TOLERANCE).wrong == ""


@pytest.mark.parametrize("actual, words", [
    (np.float32([1, 2, 3.5]), "1 of 3 values differ"),
    (np.float32([1, 2, np.nan]), "1 of 3 values differ"),
    (np.float64([1, 2, 3]), "is float64, expected float32"),
    (np.float32([[1, 2, 3]]), r"shape [1, 3], expected [3]"),
])
def test_wrong_tensor_is_named(actual, words):
    verdict = compare({"y": actual}, {"y": np.float32([1, 2, 3])}, TOLERANCE)
    assert "'y'" in verdict.wrong and words in verdict.wrong
    assert verdict.error > 0


def test_small_difference_is_allowed_and_reported():
    verdict = compare({"y": np.float32([1, 100.005])}, {"y": np.float32([1, 100])}, TOLERANCE)
    assert verdict.wrong == ""
    assert verdict.error == pytest.approx(5e-5, rel=0.1)


def test_integers_must_be_the_same():
    assert "1 of 2" in compare({"y": np.array([1, 3])}, {"y": np.array([1, 2])}, TOLERANCE).wrong


def test_quantised_models_are_compared_on_average():
    expected, average = np.float32([1, 1, 1, 1]), {**TOLERANCE, "mean": 0.02}
    one_off = compare({"y": np.float32([1, 1, 1.04, 1])}, {"y": expected}, average)
    assert one_off.wrong == "" and one_off.error == pytest.approx(0.01)
    assert "on average" in compare({"y": expected + np.float32(0.04)}, {"y": expected},
                                   average).wrong
    assert compare({"y": expected * np.nan}, {"y": expected}, average).wrong


def test_missing_output_is_wrong():
    assert "no output y" in compare({}, {"y": np.ones(1)}, TOLERANCE).wrong


def objects(order, shift=0.0, score=0.0):
    boxes = np.float32([[0, 0, 10, 10], [20, 20, 40, 40], [5, 50, 9, 90]])
    return {"boxes": boxes[order] + np.float32(shift), "labels": np.array([1, 2, 1])[order],
            "scores": np.float32([0.9, 0.8, 0.7])[order] + np.float32(score)}


def test_objects_may_be_in_another_order():
    assert compare(objects([1, 0, 2]), objects([0, 1, 2]), OBJECTS).wrong == ""
    assert compare(objects([1, 0, 2]), objects([0, 1, 2]), TOLERANCE).wrong != ""


@pytest.mark.parametrize("actual", [objects([0, 1]), objects([0, 0, 2]), objects([0, 1, 2], 5),
                                    objects([0, 1, 2], 0, 0.05)], ids="missing twice moved score".split())
def test_other_objects_are_wrong(actual):
    assert "objects agree" in compare(actual, objects([0, 1, 2]), OBJECTS).wrong


def test_no_objects_on_both_sides_agree_and_on_one_side_do_not():
    none = objects([])
    assert compare(none, none, OBJECTS).wrong == ""
    assert "0 objects agree" in compare(none, objects([0]), OBJECTS).wrong


# The report.

def made_up_results():
    right = Case({"batch": 1}, "right", "", 1e-6, 1e-7, 900.0, 4.0, 2.0)
    second = Case({"batch": 2}, "right", "", 1e-6, 1e-7, 12.0, 6.0, 2.0)
    return [Result("native", "architecture", 1.0, [right, second]),
            Result("opaque", "quantised", 1.0, [right], ["QAttention"]),
            Result("refused", "trained", 1.0, [right, Case({}, "refused", "node 'x' | If")]),
            Result("wrong", "trained", 1.0, [Case({}, "refused", "no"), Case({}, "wrong", "bad")])]


def test_metrics_count_models_by_their_worst_case():
    values = metrics(made_up_results())
    assert values["corpus_served_fraction"] == 0.5
    assert values["corpus_native_fraction"] == 0.25
    assert values["corpus_wrong_answers"] == 1
    assert values["new_shape_ms.native"] == 12.0
    assert values["latency_ratio.native"] == 2.5
    assert "new_shape_ms.wrong" not in values


def test_report_is_json_without_nan():
    text = json.dumps(report(made_up_results(), {"lost": "no wheel"}, {"threads": 1}, "1", "avx2"),
                      allow_nan=False)
    assert json.loads(text)["models"]["opaque"]["verdict"] == "opaque"
    assert json.loads(text)["not_made"] == {"lost": "no wheel"}


def test_reason_says_why_a_model_is_refused_and_which_ops_are_opaque():
    _, opaque, refused, wrong = map(reason, made_up_results())
    assert opaque == "`QAttention`"
    assert refused == "1 of 2 shapes: node 'x' | If"
    assert wrong == "1 of 2 shapes: bad"


# Making and running.

def test_model_that_cannot_be_made_does_not_stop_the_others(tmp_path, capsys):
    models = {"broken": MODELS["bert"].__class__(**{
        **vars(MODELS["bert"]), "id": "broken", "source": {"family": "nothing", "arguments": {}}})}
    failed = make_all(["broken"], models, tmp_path)
    assert "nothing.py" in failed["broken"]
    assert "FAILED" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.onnx"))


def test_file_that_onnxruntime_does_not_take_is_reported(tmp_path):
    (tmp_path / MODELS["bert"].file).write_bytes(b"not a model")
    words = argparse.Namespace(**WORDS, lagoon="lagoon", files=tmp_path)
    unmade = {}
    assert not run_all(MODELS, ["bert"], words, unmade)
    assert "ONNXRuntimeError" in unmade["bert"]


def test_the_ratio_is_to_the_faster_engine_that_runs_the_model():
    case = lambda **times: Case({}, "right", **times)
    both = case(latency_ms=3, onnxruntime_ms=2, openvino_ms=1)
    one = case(latency_ms=3, onnxruntime_ms=2)
    results = [Result("a", "k", 1, [both]), Result("b", "k", 1, [one]), Result("a.qdq", "k", 1, [both])]
    found = metrics(results)
    assert [found[f"latency_ratio.{name}"] for name in ("a", "b", "a.qdq")] == [1.5, 1.5, 1.5]
    assert [found[f"latency_ratio_vs_best.{name}"] for name in ("a", "b", "a.qdq")] == [3, 1.5, 3]
    assert found["latency_ratio_vs_best_geomean.fp32"] == pytest.approx((3 * 1.5) ** 0.5)
    assert found["latency_ratio_vs_best_geomean.int8"] == pytest.approx(3)
    assert found["latency_ratio_geomean.fp32"] == pytest.approx(1.5)


@pytest.mark.parametrize("name", SMALL)
def test_small_model_gives_the_answers_of_onnxruntime(name, lagoon, tmp_path_factory):
    files = pathlib.Path(os.environ.get("LAGOON_CORPUS", FILES))
    assert not make_all([name], MODELS, files)
    result = run_model(MODELS[name], files / MODELS[name].file, Lagoon(lagoon.binary), argparse.Namespace(**WORDS))
    for case in result.cases:
        assert case.status == "right", f"{name} {case.sizes}: {case.detail}"
