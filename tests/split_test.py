"""`lagoon split`: the parts that it finds, keeps and writes as ONNX files."""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import zoo as generator
from conftest import DIGITS, ROOT, relative_error, run_onnxruntime

FLOAT = onnx.TensorProto.FLOAT
SMALL = ("resnet18", "mobilenet_v2", "squeezenet1_1", "bert_tiny", "gnmt_tiny")


def inputs_for(path):
    """Seeded inputs for a model of the zoo."""
    random = np.random.default_rng(5)
    inputs = {}
    for one in onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs():
        dims = [size if isinstance(size, int) else 1 for size in one.shape]
        if "int64" in one.type:
            inputs[one.name] = np.ones(dims, np.int64) if "mask" in one.name else random.integers(0, 2, dims)
        else:
            inputs[one.name] = random.standard_normal(dims).astype(np.float32)
    return inputs


def run_plainly(path, inputs):
    """{output name: array} from ONNX Runtime without its fusions, which depend on where a file ends."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def run_chain(folder, inputs, run):
    """{name: array} of all that the parts in `folder` compute, one after the other."""
    values = dict(inputs)
    parts = json.loads((folder / "parts.json").read_text())["parts"]
    for part in parts:
        onnx.checker.check_model(str(folder / part["file"]))
        results = run(folder / part["file"], {name: values[name] for name in part["inputs"]})
        assert list(results) == part["outputs"]
        values.update(results)
    return values, len(parts)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("parts", (2, 4))
def test_parts_chained_in_onnxruntime_compute_the_same(lagoon, zoo, name, parts, tmp_path):
    model = zoo(name)
    result = lagoon.run("split", model, "--parts", parts, "--onnx", tmp_path / "parts", "--runs", 1)
    assert result.returncode == 0, result.stderr
    inputs = inputs_for(model)
    for run, tolerance in ((run_plainly, 0), (run_onnxruntime, 1e-5)):
        values, count = run_chain(tmp_path / "parts", inputs, run)
        assert count == parts
        for output, expected in run(model, inputs).items():
            assert relative_error(values[output], expected) <= tolerance, output


def save(path, nodes, weights=(), inputs=("x",)):
    def info(name):
        return helper.make_tensor_value_info(name, FLOAT, [4])
    graph = helper.make_graph(nodes, "g", [info(name) for name in inputs], [info("y")], list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, str(path))
    return path


def chain(path, nodes):
    names = ["x", *(f"v{i}" for i in range(nodes - 1)), "y"]
    return save(path, [helper.make_node("CumSum", [names[i], "axis"], [names[i + 1]]) for i in range(nodes)],
                [numpy_helper.from_array(np.array(0), "axis")])


def test_it_prints_why_and_writes_the_numbers(lagoon, tmp_path):
    file = tmp_path / "split.json"
    result = lagoon.run("split", chain(tmp_path / "deep.onnx", 12), "--runs", 1, "--json", file)
    assert result.returncode == 0, result.stderr
    for word in ("fitness", "optimum", "generations", "predicted and measured", "Between two parts"):
        assert word in result.stdout, word
    metrics = json.loads(file.read_text())["metrics"]
    assert 2 <= metrics["split_parts.deep"] <= 4
    for parts in (2, 3, 4):
        name = f"deep.{parts}.plan"
        assert metrics[f"split_generations.{name}"] <= 15
        assert metrics[f"split_fitness.{name}"] <= metrics[f"split_fitness_optimal.{name}"] + 1e-9
        assert metrics[f"split_sigma_us_measured.{name}"] >= 0


def test_saved_parts_are_kept_with_the_profile(lagoon, tmp_path):
    profiles = tmp_path / "profiles"
    result = lagoon.run("split", chain(tmp_path / "deep.onnx", 12), "--parts", 3, "--runs", 1, "--save",
                        "--profiles", profiles)
    assert result.returncode == 0, result.stderr
    profile, = profiles.iterdir()
    ends = json.loads(profile.read_text())["part_ends"]
    assert len(ends) == 3 and ends == sorted(set(ends)) and ends[-1] == 12
    result = lagoon.run("split", tmp_path / "deep.onnx", "--parts", 1, "--runs", 1, "--save", "--profiles", profiles)
    assert result.returncode == 0, result.stderr
    assert "part_ends" not in json.loads(profile.read_text())


def test_the_same_seed_gives_the_same_parts(lagoon, tmp_path):
    found = []
    for seed in (3, 3):
        result = lagoon.run("split", chain(tmp_path / "deep.onnx", 30), "--cost", "onnx", "--seed", seed, "--json",
                            tmp_path / "split.json", "--profiles", tmp_path / "profiles")
        assert result.returncode == 0, result.stderr
        found.append(json.loads((tmp_path / "split.json").read_text())["part_ends"])
    assert found[0] == found[1]


def test_scan_has_all_pairs_of_cuts(lagoon, tmp_path):
    file = tmp_path / "scan.json"
    result = lagoon.run("split", chain(tmp_path / "deep.onnx", 6), "--scan", "--json", file)
    assert result.returncode == 0, result.stderr
    scan = json.loads(file.read_text())["scan"]
    assert scan["positions"] == [1, 2, 3, 4, 5] and scan["mode"] == "onnx"
    for name in ("overhead", "sigma"):
        for first, row in enumerate(scan[name]):
            for second, value in enumerate(row):
                assert (value is None) == (second <= first), name


def make_loop(path):
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["v2"]), helper.make_node("Identity", ["c"], ["again"])], "body",
        [helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
         helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", FLOAT, [4])],
        [helper.make_tensor_value_info("again", onnx.TensorProto.BOOL, []),
         helper.make_tensor_value_info("v2", FLOAT, [4])])
    return save(path, [helper.make_node("Loop", ["three", "", "x"], ["r"], body=body, name="steps"),
                       helper.make_node("Exp", ["r"], ["y"])],
                [numpy_helper.from_array(np.array(3), "three")])


def make_data_dependent(path):
    return save(path, [helper.make_node("NonZero", ["x"], ["at"]), helper.make_node("Cast", ["at"], ["f"], to=FLOAT),
                       helper.make_node("ReduceMax", ["f"], ["m"]), helper.make_node("Add", ["x", "m"], ["y"])])


@pytest.mark.parametrize("words, expected", [
    (("--parts", "0"), "--parts is '0'; it takes auto or a number from 1 to 64"),
    (("--parts=-2",), "--parts is '-2'"),
    (("--parts", "many"), "--parts is 'many'"),
    (("--parts", "65"), "--parts is '65'"),
    (("--parts", "13"), "13 parts, but the model has 12 ops"),
    (("--generations", "0"), "--generations"),
    (("--generations=-1",), "--generations"),
    (("--bandwidth", "0"), "--bandwidth"),
    (("--onnx", "/proc/lagoon"), "cannot write to '/proc/lagoon'"),
    (("--scan",), "--json FILE or --plot DIR"),
    (("--scan", "--plot", "/proc/lagoon"), "cannot write to '/proc/lagoon'"),
    (("--plot", "."), "add --scan"),
    (("--save", "--cost", "onnx"), "--cost plan"),
    (("--save", "--profiles", ""), "names no folder"),
    (("--json", "/proc/lagoon.json"), "'/proc/lagoon.json' cannot be written"),
], ids=str)
def test_bad_words_are_named_with_their_values(lagoon, words, expected, tmp_path):
    result = lagoon.run("split", chain(tmp_path / "deep.onnx", 12), "--runs", 1, *words)
    assert 0 < result.returncode < 128
    assert expected in result.stderr


@pytest.mark.parametrize("make, words, expected", [
    (lambda path: chain(path, 1), (), "a model of 1 op cannot be cut"),
    (make_data_dependent, (), "data decide its shapes"),
    (make_loop, ("--onnx", "parts"), "node 'steps' (Loop, opset 13) has a body"),
], ids=("one-op", "data", "loop"))
def test_models_that_cannot_be_cut_are_named(lagoon, make, words, expected, tmp_path):
    result = lagoon.run("split", make(tmp_path / "odd.onnx"), "--runs", 1, *words, folder=tmp_path)
    assert 0 < result.returncode < 128
    assert expected in result.stderr and "odd" in result.stderr


def run_table(*words):
    return subprocess.run([sys.executable, ROOT / "bench" / "comparators" / "split_parts.py", *words],
                          capture_output=True, text=True, check=False)


def test_parts_are_timed_in_onnxruntime_beside_what_the_search_expects(lagoon, tmp_path):
    model = chain(tmp_path / "deep.onnx", 12)
    result = run_table(lagoon.binary, model, "--parts", "2,3", "--rounds", "3")
    assert result.returncode == 0, result.stderr
    metrics = json.loads(result.stdout)["metrics"]
    assert metrics["split_whole_ms_measured.deep"] > 0
    for parts in ("p2", "p3"):
        assert metrics[f"split_overhead_measured.deep.{parts}"] > -1
        assert metrics[f"split_overhead_predicted.deep.{parts}"] > 0
        assert metrics[f"split_sigma_ms_measured.deep.{parts}"] >= 0
        assert metrics[f"split_sigma_ms_predicted.deep.{parts}"] >= 0
    assert metrics["split_overheads_rise.deep"] in (0, 1)


@pytest.mark.parametrize("words, expected", [
    (("--parts", "1"), "--parts is '1'"),
    (("--parts", "two"), "--parts is 'two'"),
    (("--rounds", "0"), "--rounds 0"),
    (("--parts", "13"), "deep.onnx in 13 parts: "),
], ids=str)
def test_wrong_words_of_the_table_are_named(lagoon, words, expected, tmp_path):
    result = run_table(lagoon.binary, chain(tmp_path / "deep.onnx", 12), *words)
    assert result.returncode != 0 and expected in result.stderr
    result = run_table(lagoon.binary, tmp_path)
    assert result.returncode != 0 and "neither a file nor a folder with VERSION/model.onnx" in result.stderr
