"""The `lagoon` command: help, version, inspect, infer's own errors, and bad words."""

import json
import os
import re
import resource
import socket
import subprocess
import sys

import numpy as np
import onnx
import pytest
from PIL import Image
from onnx import TensorProto, helper, numpy_helper

from conftest import DIGITS, ROOT, relative_error
from server_process import serving

sys.path.insert(0, str(ROOT / "bench" / "comparators"))
MODEL = DIGITS / "1" / "model.onnx"
COMMANDS = ("serve", "infer", "inspect", "profile", "split", "train", "devices", "schedulers", "bench",
            "version")


@pytest.fixture(name="digit", scope="module")
def fixture_digit(test_split, digit_scores, tmp_path_factory):
    """(file of a test image, its expected scores)."""
    path = tmp_path_factory.mktemp("digit") / "image.npy"
    np.save(path, test_split[0][0][None])
    return path, digit_scores[:1]


def test_help_lists_and_explains_every_command(lagoon):
    result = lagoon.run("--help")
    assert result.returncode == 0
    for command in COMMANDS:
        assert re.search(rf"^\s+{command}\b.*\w+ \w+", result.stdout, re.M), command


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(lagoon, command):
    result = lagoon.run(command, "--help")
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) >= 2
    assert not result.stderr


def test_openai_says_that_it_is_a_module(lagoon):
    result = lagoon.run("openai", "--model", "a=b")
    assert result.returncode == 1 and "python3 -m lagoon.openai" in result.stderr
    assert result.stderr.count("\n") == 1


def test_serve_help_names_flags_and_their_choices(lagoon):
    text = lagoon.run("serve", "--help").stdout
    for word in ("--models", "--scheduler", "--workers", "--http-port", "--grpc-port",
                 "--metrics-port",
                 "8000", "8001", "8002", "sequential", "streams", "wait", "reset"):
        assert word in text, word


def test_help_names_choices_and_not_their_types(lagoon):
    text = lagoon.run("--help-all").stdout
    assert "ENUM" not in text and "->" not in text
    assert "--precision bf16|fp32" in text and "--normalize imagenet|raw|unit" in text


def test_a_system_that_starts_no_threads_is_named(lagoon):
    def leave_no_room_for_stacks():
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 30, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        resource.setrlimit(resource.RLIMIT_AS, (32 << 30, 32 << 30))

    result = subprocess.run([lagoon.binary, "inspect", MODEL], capture_output=True, text=True, check=False,
                            preexec_fn=leave_no_room_for_stacks)
    assert result.returncode == 1 and "the system starts no more threads" in result.stderr, result.stderr


@pytest.mark.parametrize("word", ("version", "--version"))
def test_version_is_a_number(lagoon, word):
    result = lagoon.run(word)
    assert result.returncode == 0
    assert re.search(r"\b\d+\.\d+\.\d+\b", result.stdout)


@pytest.mark.parametrize("words, expected", [
    ((), "subcommand"),
    (("frobnicate",), "subcommand"),
    (("serve", "--models", ".", "--frobnicate"), "--frobnicate"),
    (("serve",), "--models"),
    (("serve", "--models", ".", "--workers", "many"), "--workers"),
    (("serve", "--models", ".", "--max-wait", "nan"), "--max-wait"),
    (("serve", "--models", ".", "--best-effort-minimum", "nan"), "--best-effort-minimum"),
    (("serve", "--models", ".", "--gpu-silence", "nan"), "--gpu-silence"),
    (("serve", "--models", ".", "--http-port", "0", "--allow-host", "http://a.example"), "'http://a.example'"),
    (("serve", "--models", ".", "--http-port", "0", "--allow-host", "*.example"), "--allow-host"),
    (("infer",), "MODEL"),
    (("inspect",), "MODEL"),
    (("inspect", MODEL, "--worst", "5"), "--profile"),
    (("version", "extra"), "extra"),
    (("bench", "fleet", "--load", "nan"), "--load"),
    (("bench", "fleet", "--load", "inf"), "--load"),
    (("split", "model.onnx", "--bubble-us", "nan"), "--bubble-us"),
], ids=str)
def test_bad_words_are_named(lagoon, words, expected):
    result = lagoon.run(*words)
    assert 0 < result.returncode < 128
    assert expected in result.stderr


def test_a_taken_port_is_found_before_models_are_loaded(lagoon):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = lagoon.run("serve", "--models", "/nowhere", "--http-port", "0", "--grpc-port", port,
                            "--metrics-port", "0")
    assert result.returncode == 1
    assert f"gRPC 127.0.0.1:{port}: the port is taken" in result.stderr and "/nowhere" not in result.stderr


def test_devices_lists_the_cpu_and_says_why_there_is_no_gpu(lagoon):
    result = lagoon.run("devices", "--json", "--cuda-driver", "libno-such-driver.so.1")
    assert result.returncode == 0, result.stderr
    devices = json.loads(result.stdout)
    cpu, = devices["devices"]
    assert cpu["name"] == "cpu" and cpu["units"] > 0 and cpu["description"]
    assert "libno-such-driver.so.1" in devices["no_cuda"]
    text = lagoon.run("devices", "--cuda-driver", "libno-such-driver.so.1").stdout
    assert re.match(r"cpu\t.+, \d+ units, level \w+ of .+\nno cuda\t.*install NVIDIA's driver", text), text


def test_schedulers_lists_what_each_does_and_its_parameters(lagoon):
    schedulers = json.loads(lagoon.run("schedulers", "--json").stdout)["schedulers"]
    text = lagoon.run("schedulers").stdout
    for scheduler in schedulers:
        values = [f"{parameter['name']}={parameter['default']}" for parameter in scheduler["parameters"]]
        lines = [scheduler["name"], f"  {scheduler['summary']}", *(["  " + " ".join(values)] if values else [])]
        assert "\n".join(lines) + "\n" in text
        one = lagoon.run("schedulers", scheduler["name"])
        assert one.returncode == 0 and one.stdout.startswith(f"{scheduler['name']}\n  {scheduler['summary']}\n")
        for parameter in scheduler["parameters"]:
            assert parameter["least"] <= parameter["default"] <= parameter["most"]
            assert parameter["meaning"] in text and parameter["meaning"] in one.stdout
    assert len({scheduler["summary"] for scheduler in schedulers}) == len(schedulers) > 20
    only = json.loads(lagoon.run("schedulers", "paella", "--json").stdout)["schedulers"]
    assert only == [scheduler for scheduler in schedulers if scheduler["name"] == "paella"]


def test_the_docs_list_the_schedulers_and_their_parameters(lagoon, tmp_path):
    page = ROOT / "docs" / "guide" / "schedulers.md"
    renewed = tmp_path / "schedulers.md"
    renewed.write_text(page.read_text())
    assert lagoon.run("schedulers", "--docs", renewed).returncode == 0
    assert renewed.read_text() == page.read_text(), (
        "run `lagoon schedulers --docs docs/guide/schedulers.md` and look at the change")


def test_schedulers_names_what_is_wrong(lagoon, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("no marks")
    for words, expected in ((("pella",), "there is no scheduler 'pella'; there are: sequential,"),
                            (("paella:depth=2",), "there is no scheduler 'paella:depth=2'"),
                            (("--docs", page), "has no lines"), (("--docs", tmp_path / "absent"), "cannot read")):
        result = lagoon.run("schedulers", *words)
        assert result.returncode == 1 and expected in result.stderr and not result.stdout
    assert page.read_text() == "no marks"


LEVELS = ["portable", "avx2", "avx512", "avx512bf16", "amx"]


def describe_cpu(lagoon):
    return json.loads(lagoon.run("devices", "--json").stdout)["devices"][0]


def test_devices_shows_the_level_of_every_value_of_lagoon_cpu(lagoon, monkeypatch):
    monkeypatch.delenv("LAGOON_CPU", raising=False)
    cpu = describe_cpu(lagoon)
    levels = cpu["levels"]
    assert levels == [level for level in LEVELS if level in levels] and cpu["level"] == levels[-1]
    monkeypatch.setenv("LAGOON_CPU", "")
    assert describe_cpu(lagoon) == cpu
    for level in levels:
        monkeypatch.setenv("LAGOON_CPU", level)
        assert describe_cpu(lagoon) == {**cpu, "level": level}
        assert f"level {level} of {', '.join(levels)}\n" in lagoon.run("devices").stdout


@pytest.mark.parametrize("words", (("devices",), ("infer", MODEL), ("serve", "--models", "."), ("version",)),
                         ids=lambda words: words[0])
@pytest.mark.parametrize("level", ("avx", "AVX2", "amx"))
def test_a_level_that_there_is_not_is_refused_by_every_command(lagoon, monkeypatch, words, level):
    monkeypatch.delenv("LAGOON_CPU", raising=False)
    levels = describe_cpu(lagoon)["levels"]
    if level in levels:
        pytest.skip("this machine has every level")
    monkeypatch.setenv("LAGOON_CPU", level)
    result = lagoon.run(*words)
    assert result.returncode == 1 and not result.stdout
    assert result.stderr.startswith(f"lagoon: LAGOON_CPU is '{level}', which "), result.stderr
    assert result.stderr.endswith(f"are {', '.join(levels)}\n")


def test_profiles_of_two_levels_are_kept_apart(lagoon, monkeypatch, tmp_path):
    monkeypatch.delenv("LAGOON_CPU", raising=False)
    levels = describe_cpu(lagoon)["levels"]
    for level in levels:
        monkeypatch.setenv("LAGOON_CPU", level)
        result = lagoon.run("profile", MODEL, "--profiles", tmp_path, "--runs", "1")
        assert result.returncode == 0, result.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == len(levels)
    for level in levels:
        assert any(f"-{level}-" in name for name in names), (level, names)


@pytest.mark.parametrize("command", ("infer", "serve", "inspect", "profile"))
@pytest.mark.parametrize("device, driver, expected", [
    ("cuda:0", "libno-such-driver.so.1", "install NVIDIA's driver"),
    ("cuda:7", "fake", "there is no GPU 7: the driver has 1"),
    ("gpu", "fake", "there is no device 'gpu'"),
    ("cuda:", "fake", "there is no device 'cuda:'"),
], ids=str)
def test_a_device_that_cannot_be_opened_says_why(lagoon, command, device, driver, expected):
    words = {"infer": (MODEL, "--input", ROOT / "models/digits/samples/digit-3.npy"),
             "serve": ("--models", DIGITS.parent), "inspect": (MODEL,), "profile": (MODEL,)}[command]
    if driver == "fake":
        driver = os.environ["LAGOON_FAKE_CUDA"]  # a driver library without a GPU
    result = lagoon.run(command, *words, "--device", device, "--cuda-driver", driver)
    assert result.returncode == 1
    assert result.stderr.startswith("lagoon: ") and expected in result.stderr, result.stderr


def test_inspect_shows_kernels_for_people(lagoon):
    result = lagoon.run("inspect", MODEL)
    assert result.returncode == 0, result.stderr
    assert "conv2d" in result.stdout and "softmax" in result.stdout


def test_inspect_json_describes_the_plan(lagoon):
    result = lagoon.run("inspect", MODEL, "--json")
    assert result.returncode == 0, result.stderr
    plan = json.loads(result.stdout)
    text = json.dumps(plan)
    for word in ("conv2d", "image", "scores", "blocks", "reads", "writes", "buffers"):
        assert word in text, word


def test_inspect_ranks_kernels_by_lost_time(lagoon):
    result = lagoon.run("inspect", MODEL, "--profile", "1", "--worst", "5", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    lost = [kernel["excess_us"] for kernel in report["worst"]]
    assert lost == sorted(lost, reverse=True) and len(lost) <= 5
    assert all(kernel["kernel_us"] > 2 * kernel["bound_us"] for kernel in report["worst"])
    assert report["flops_per_us"] > 0 and report["far_bytes_per_us"] > 0


def test_inspect_counts_idempotent_kernels(lagoon):
    result = lagoon.run("inspect", "--idempotence", MODEL, "--json")
    assert result.returncode == 0, result.stderr
    digits, = json.loads(result.stdout).values()
    assert digits["kernels"] == digits["idempotent"] > 3
    assert digits["largest_group"] == 1 and not digits["not_idempotent"]


def test_inspect_finds_the_group_in_an_access_trace(lagoon, tmp_path):
    """REEF's Figure 9."""
    trace = tmp_path / "figure9.json"
    trace.write_text(json.dumps({"operations": [
        {"name": "K0", "reads": [[0, 2]], "writes": [[2, 1]]},
        {"name": "K1", "reads": [[2, 2]], "writes": [[4, 1]]},
        {"name": "K2", "reads": [[4, 1]], "writes": [[5, 1]]},
        {"name": "K3", "reads": [[2, 1], [4, 1]], "writes": [[4, 1]]}]}))
    result = lagoon.run("inspect", "--idempotence", trace)
    assert result.returncode == 0, result.stderr
    assert "operation 3 'K3' restarts from 1" in result.stdout


def test_inspect_says_which_kernel_of_a_trace_lies(lagoon, tmp_path):
    trace = tmp_path / "engine.json"
    trace.write_text(json.dumps({"operations": [
        {"name": "memset", "writes": [[0, 64]]},
        {"name": "add in place", "reads": [[0, 128]], "writes": [[0, 64]], "restarts_from": 1}]}))
    result = lagoon.run("inspect", "--idempotence", trace)
    assert result.returncode == 1 and not result.stdout.count("restarts from")
    for part in ("engine.json", "operation 1 'add in place'", "bytes 0 to 63", "restarts from operation 0"):
        assert part in result.stderr


def test_a_trace_of_pytorch_shows_the_kernel_that_overwrites_its_input(lagoon, tmp_path):
    import torch
    import torch_trace
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 2))
    operations = torch_trace.trace(network, [torch.zeros(2, 4)])
    first, relu, last = operations
    assert (first["name"], relu["name"], last["name"]) == ("aten::addmm", "aten::relu_", "aten::addmm")
    assert relu["reads"] == relu["writes"] == first["writes"] and first["writes"][0] in last["reads"]
    assert [size for _, size in first["reads"]] == [32, 32, 128] and last["writes"][0][1] == 16
    trace = tmp_path / "torch.json"
    trace.write_text(json.dumps({"operations": operations}))
    report, = json.loads(lagoon.run("inspect", "--idempotence", trace, "--json").stdout).values()
    assert report["not_idempotent"] == [{"operation": 1, "name": "aten::relu_", "first": 0}] and report["largest_group"] == 2
    relu["restarts_from"] = 1
    trace.write_text(json.dumps({"operations": operations}))
    result = lagoon.run("inspect", "--idempotence", trace)
    assert result.returncode == 1 and "operation 1 'aten::relu_' says that it restarts from operation 1" in result.stderr


def test_a_trace_of_pytorch_has_no_views():
    import torch
    import torch_trace

    class Views(torch.nn.Module):
        def forward(self, x):
            unsafe = torch.ops.aten._unsafe_view(x, [8])  # its schema does not say that it is a view
            total = (unsafe.reshape(2, 4).t() + 1).sum()
            return x.clone().relu_(), total.item()

    operations = torch_trace.trace(Views(), [torch.zeros(2, 4)])
    names = ["aten::add", "aten::sum", "aten::clone", "aten::relu_", "aten::_local_scalar_dense"]
    assert sorted(one["name"] for one in operations) == sorted(names)


def test_inspect_of_a_broken_trace_fails(lagoon, tmp_path):
    trace = tmp_path / "broken.json"
    trace.write_text('{"operations": [{"reads": [[4]]}]}')
    result = lagoon.run("inspect", "--idempotence", trace)
    assert result.returncode == 1
    assert "broken.json" in result.stderr and "entry 0" in result.stderr


def test_profile_tunes_once_and_keeps_the_result(lagoon, tmp_path):
    words = ("profile", MODEL, "--profiles", tmp_path / "p", "--runs", "1")
    first = lagoon.run(*words, "--json", tmp_path / "profile.json")
    assert first.returncode == 0, first.stderr
    assert "Conv" in first.stdout and "kernel us" in first.stdout
    kept, = (tmp_path / "p").iterdir()
    assert json.loads(kept.read_text())["tuned"]
    metrics = json.loads((tmp_path / "profile.json").read_text())["metrics"]
    measured = [name for name in metrics if name.startswith("kernel_us.")]
    kept_versions = [name for name in metrics if name.startswith("kept.")]
    assert metrics["standalone_us"] > 0 and len(measured) >= len(kept_versions) > 0
    stamp = kept.stat().st_mtime_ns
    again = lagoon.run(*words)
    assert again.stdout == first.stdout and kept.stat().st_mtime_ns == stamp
    forced = lagoon.run(*words, "--force")
    assert forced.returncode == 0 and kept.stat().st_mtime_ns != stamp


@pytest.mark.parametrize("batch", (1, "batch"))
@pytest.mark.parametrize("command", (("profile", "--runs", 1), ("split", "--runs", 1, "--parts", 2, "--save")))
def test_serve_uses_what_profile_and_split_have_kept(lagoon, tmp_path, batch, command):
    def info(name, *dims):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, *dims])
    random = np.random.default_rng(1)
    weights = [numpy_helper.from_array(random.standard_normal(dims, np.float32), name)
               for name, dims in (("a", (8, 3, 3, 3)), ("b", (8, 64)))]
    nodes = [helper.make_node("Conv", ["x", "a"], ["channels"], strides=[2, 2]),
             helper.make_node("GlobalAveragePool", ["channels"], ["means"]),
             helper.make_node("Flatten", ["means"], ["row"]),
             helper.make_node("MatMul", ["row", "b"], ["y"])]
    graph = helper.make_graph(nodes, "two", [info("x", 3, 16, 16)], [info("y", 64)], weights)
    file = tmp_path / "models" / "two" / "1" / "model.onnx"
    file.parent.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(file))
    profiles = tmp_path / "profiles"
    result = lagoon.run(command[0], file.parent.parent, *command[1:], "--profiles", profiles)
    assert result.returncode == 0, result.stderr
    kept = {path.name: path.stat().st_mtime_ns for path in profiles.iterdir()}
    assert len(kept) == 1
    with serving(lagoon, tmp_path / "models", "--profiles", profiles):
        assert {path.name: path.stat().st_mtime_ns for path in profiles.iterdir()} == kept


def test_profile_names_a_folder_that_cannot_be_written(lagoon):
    result = lagoon.run("profile", MODEL, "--profiles", "/proc/lagoon", "--runs", "1")
    assert result.returncode == 1 and "/proc/lagoon" in result.stderr


def test_profile_measures_shares_and_writes_a_surface(lagoon, tmp_path):
    path = tmp_path / "surface.json"
    result = lagoon.run("profile", DIGITS, "--shares", "--runs", "2", "--workers", "4", "--json", path)
    assert result.returncode == 0, result.stderr
    assert "only 4 shares" in result.stderr and "knee at 1 rows" in result.stdout
    points = json.loads(path.read_text())["points"]
    assert points["rows"] == [1] and points["shares"] == [0.25, 0.5, 0.75, 1]
    assert all(ms > 0 for line in points["latency_ms"] for ms in line)


def test_profile_measures_shares_of_a_kernel_list_on_a_simulated_gpu(lagoon, tmp_path):
    path = tmp_path / "surface.json"
    result = lagoon.run("profile", "alexnet", "--device", "sim:v100", "--shares", "25,50,100", "--rows", "1,8", "--json", path)
    assert result.returncode == 0, result.stderr
    assert "interpolated" in result.stdout and "knee at 8 rows" in result.stdout
    for line in json.loads(path.read_text())["points"]["latency_ms"]:
        assert line[0] > 1.2 * line[1] and line[1] > 0.999 * line[2]  # AlexNet with one row needs half of it
    result = lagoon.run("profile", "nothing", "--device", "sim:v100", "--shares")
    assert result.returncode == 1 and "'nothing'" in result.stderr and "vgg19" in result.stderr


@pytest.mark.parametrize("words, named", [
    (("--shares", "--rows", "0"), "0 rows"),
    (("--shares", "--rows", "4097"), "4097 rows"),
    (("--shares", "150"), "'150'"),
    (("--shares", "half"), "'half'"),
    (("--shares", "--rows", ",".join(str(n) for n in range(1, 200)), "--workers", "4"), "796 points"),
    (("--shares", "--batches", "2"), "--batches"),
    (("--shares", "--plot", "."), "--json"),
    (("--rows", "2"), "--shares"),
])
def test_profile_of_shares_names_what_is_wrong(lagoon, words, named):
    result = lagoon.run("profile", DIGITS, *words)
    assert result.returncode == 1 and named in result.stderr


def test_profile_of_shares_refuses_rows_that_the_model_does_not_take(lagoon, tmp_path):
    model = helper.make_model(helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "fixed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])]), opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, tmp_path / "fixed.onnx")
    result = lagoon.run("profile", tmp_path / "fixed.onnx", "--shares", "--rows", "1,2", "--runs", "1")
    assert result.returncode == 1 and "fixed: the model cannot take a batch of 2" in result.stderr


def test_inspect_of_no_model_fails(lagoon, tmp_path):
    result = lagoon.run("inspect", tmp_path / "absent.onnx", "--json")
    assert result.returncode == 1
    assert "absent.onnx" in result.stderr and not result.stdout


def test_infer_reads_npy_json_and_picture(lagoon, tmp_path):
    """The three forms of a sample give the same digit."""
    samples = ROOT / "models" / "digits" / "samples"
    scores = {}
    for form in ("npy", "json", "png"):
        out = tmp_path / form
        result = lagoon.run("infer", MODEL, "--input", f"image={samples / f'digit-5.{form}'}",
                            "--output-dir", out)
        assert result.returncode == 0, f"{form}: {result.stderr}"
        scores[form] = np.load(out / "scores.npy")
        assert scores[form].argmax() == 5
    assert np.array_equal(scores["npy"], scores["json"])
    assert relative_error(scores["png"], scores["npy"]) < 0.01  # 8-bit grey


def test_infer_takes_a_picture_of_the_size_of_the_model_as_it_is(lagoon, tmp_path):
    """A picture of noise, which a filter would blur."""
    grey = np.random.default_rng(3).integers(0, 256, (8, 8), np.uint8)
    Image.fromarray(grey).save(tmp_path / "noise.png")
    np.save(tmp_path / "noise.npy", (grey.astype(np.float32) / np.float32(255))[None, None])
    scores = []
    for form in ("png", "npy"):
        result = lagoon.run("infer", MODEL, "--input", tmp_path / f"noise.{form}", "--output-dir", tmp_path / form)
        assert result.returncode == 0, result.stderr
        scores.append(np.load(tmp_path / form / "scores.npy"))
    assert np.array_equal(*scores)


def test_infer_prints_its_answer_without_output_dir(lagoon, digit):
    path, expected = digit
    result = lagoon.run("infer", MODEL, "--input", f"image={path}")
    assert result.returncode == 0, result.stderr
    assert "scores" in result.stdout
    assert str(int(expected.argmax())) in result.stdout


def save_npy(folder, array):
    path = folder / "tensor.npy"
    np.save(path, array)
    return path


@pytest.mark.parametrize("array, expected", [
    (np.zeros((1, 1, 9, 9), np.float32), ["image", "81", "[1,1,8,8]"]),
    (np.zeros(0, np.float32), ["image", "has 0"]),
    (np.zeros((1, 1, 8, 8), np.complex64), ["tensor.npy", "c8"]),
    (np.asfortranarray(np.zeros((1, 1, 8, 8), np.float32)), ["tensor.npy", "C order"]),
], ids=("shape", "empty", "complex", "fortran"))
def test_infer_names_a_tensor_that_does_not_fit(lagoon, array, expected, tmp_path):
    result = lagoon.run("infer", MODEL, "--input", f"image={save_npy(tmp_path, array)}")
    assert result.returncode == 1
    for word in expected:
        assert word in result.stderr.replace(", ", ","), result.stderr


def test_infer_reads_whole_numbers_as_what_the_model_takes(lagoon, tmp_path):
    result = lagoon.run("infer", MODEL, "--input",
                        f"image={save_npy(tmp_path, np.zeros((1, 1, 8, 8), np.int32))}")
    assert result.returncode == 0, result.stderr


def test_infer_reads_other_number_types_of_npy(lagoon, test_split, digit_scores, tmp_path):
    path = save_npy(tmp_path, test_split[0][0][None].astype(np.float64))
    result = lagoon.run("infer", MODEL, "--input", path, "--output-dir", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert relative_error(np.load(tmp_path / "out" / "scores.npy"), digit_scores[:1]) < 1e-4


@pytest.mark.parametrize("words, expected", [
    (("infer", "models/zoo/nobody"), "./run models nobody makes it"),
    (("infer", "models/zoo/nobody/1/model.onnx"), "./run models nobody makes it"),
    (("inspect", "models/zoo/nobody"), "./run models nobody makes it"),
    (("serve", "--models", "models/zoo"), "./run models makes some"),
])
def test_a_missing_model_of_the_zoo_names_the_command_that_makes_it(lagoon, tmp_path, words, expected):
    result = lagoon.run(*words, folder=tmp_path)
    assert result.returncode == 1
    assert expected in result.stderr


def test_infer_takes_a_model_folder_of_a_repository(lagoon, digit):
    result = lagoon.run("infer", DIGITS, "--input", digit[0])
    assert result.returncode == 0, result.stderr
    assert f"[{digit[1].argmax()}]" in result.stdout.splitlines()[1]


@pytest.mark.parametrize("words, expected", [
    (["--input", "image"], "image"),
    (["--input", "picture={file}"], "'image'"),
    (["--input", "image={file}", "--input", "picture={file}"], "picture"),
    (["--input", "image=absent.npy"], "absent.npy"),
    ([], "--input"),
    (["--input", "image={text}"], "broken.npy"),
    (["--input", "image={short}"], "short.npy"),
    (["--constant", "image={short}"], "short.npy"),
    (["--constant", "image={long}"], "long.npy"),
])
def test_infer_names_bad_input_words(lagoon, digit, words, expected, tmp_path):
    (tmp_path / "broken.npy").write_text("not an array")
    (tmp_path / "short.npy").write_bytes(digit[0].read_bytes()[:-1])
    (tmp_path / "long.npy").write_bytes(digit[0].read_bytes() + b"x")
    files = {name: tmp_path / f"{name}.npy" for name in ("short", "long")}
    files |= {"file": digit[0], "text": tmp_path / "broken.npy"}
    result = lagoon.run("infer", MODEL, *(word.format(**files) for word in words))
    assert 0 < result.returncode < 128, f"exit {result.returncode}\n{result.stderr}"
    assert expected in result.stderr
