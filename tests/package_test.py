"""`./run package`: the installed programs run from any folder, and its scripts report what went wrong."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper
import pytest
from conftest import ROOT, Lagoon, relative_error, run_onnxruntime

GLIBC = ("libc", "libm", "libdl", "librt", "libpthread", "libresolv", "ld-linux-x86-64", "linux-vdso")
SCRIPTS = ROOT / "tools" / "package"


@pytest.fixture(scope="module")
def package(lagoon, tmp_path_factory):
    """An installed package, moved to another folder after the installation."""
    build = pathlib.Path(lagoon.binary).parent.parent
    folder = tmp_path_factory.mktemp("package")
    subprocess.run(["cmake", "--install", build, "--component", "package", "--prefix", folder / "made", "--strip"],
                   check=True, stdout=subprocess.DEVNULL)
    (folder / "made").rename(folder / "moved")
    return folder / "moved"


def test_the_binary_brings_all_libraries_but_glibc(package):
    result = subprocess.run([package / "bin" / "lagoon"], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True,
                            text=True, check=True)
    libraries = re.findall(r"^\s*(\S+) => (\S+)", result.stdout, re.M)
    assert len(libraries) > 10
    for name, path in libraries:
        if not name.startswith(GLIBC):
            assert pathlib.Path(path).resolve().parent == (package / "lib").resolve(), f"{name} is from {path}"


def test_nothing_needs_a_newer_glibc_than_promised(package):
    for path in [*(package / "bin").iterdir(), *(package / "lib").iterdir()]:
        symbols = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
        newest = max((tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", symbols)),
                     default=(0,))
        assert newest <= (2, 36), f"{path.name} needs glibc {newest}"


def test_the_binary_runs_in_an_empty_environment(package, tmp_path):
    result = subprocess.run([package / "bin" / "lagoon", "devices", "--json"], env={}, cwd=tmp_path,
                            capture_output=True, text=True, check=True)
    assert json.loads(result.stdout)["devices"][0]["name"] == "cpu"


def test_the_measuring_program_is_in_the_package(package, tmp_path):
    result = subprocess.run([package / "bin" / "lagoon", "bench", "--help"], env={}, cwd=tmp_path, capture_output=True,
                            text=True, check=True)
    assert "latency" in result.stdout.lower()


@pytest.fixture(scope="module")
def skeleton(zoo, tmp_path_factory):
    """A model of the zoo without its weights."""
    folder = tmp_path_factory.mktemp("skeleton")
    zoo("squeezenet1_1")
    subprocess.run([sys.executable, ROOT / "models" / "skeleton.py", "--out", folder, "squeezenet1_1"], check=True)
    return folder


def test_a_model_without_weights_gets_some_like_its_own(lagoon, zoo, skeleton, tmp_path):
    model = skeleton / "squeezenet1_1" / "1" / "model.onnx"
    assert model.stat().st_size < 200_000
    result = lagoon.run("make-weights", skeleton)
    assert result.returncode == 0, result.stderr
    assert "squeezenet1_1" in result.stdout

    def weights(path):
        tensors = onnx.load(path, load_external_data=False).graph.initializer
        arrays = {tensor.name: numpy_helper.to_array(tensor, str(path.parent)) for tensor in tensors}
        return {name: array for name, array in arrays.items() if array.ndim >= 2 and array.nbytes >= 100_000}
    ours, original = weights(model), weights(zoo("squeezenet1_1"))
    assert len(original) > 5 and ours.keys() == original.keys()
    for name, array in original.items():
        assert ours[name].shape == array.shape
        assert abs(ours[name].mean() - array.mean()) < 0.1 * array.std()
        assert ours[name].std() == pytest.approx(array.std(), rel=0.1)

    image = np.random.default_rng(1).random((1, 3, 224, 224), np.float32)
    name = onnx.load(model, load_external_data=False).graph.input[0].name
    (expected,) = run_onnxruntime(model, {name: image}).values()
    (actual,) = lagoon.infer(model, {name: image}, tmp_path).values()
    assert relative_error(actual, expected) < 1e-4


def test_make_weights_says_what_it_cannot_fill(lagoon, skeleton, tmp_path):
    model = onnx.load(skeleton / "squeezenet1_1" / "1" / "model.onnx", load_external_data=False)
    broken = next(tensor for tensor in model.graph.initializer if tensor.external_data)
    broken.doc_string = ""
    folder = tmp_path / "models" / "broken" / "1"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    result = lagoon.run("make-weights", tmp_path / "models")
    assert result.returncode == 1
    assert "broken" in result.stderr and broken.name in result.stderr
    result = lagoon.run("make-weights", tmp_path / "nothing")
    assert result.returncode == 1 and "nothing'" in result.stderr


FAKE_LAGOON = """#!/bin/sh
case "$1 $2" in
  "devices ") printf 'cpu\\tA processor\\ncuda:0\\tA GPU, 132 units\\n' ;;
  "version ") echo 'lagoon 0 "quoted"' ;;
  "make-weights "*) ;;
  *) case "$*" in
       *bad*) echo "lagoon: outputs differ" >&2; exit 1 ;;
       *) echo "wrote it" ;;
     esac ;;
esac
"""


# Like a GoogleTest program. Some of its tests do not pass if $FAULTY is set.
FAKE_TESTS = """#!/bin/sh
case "$1" in
  --gtest_list_tests) printf 'Gpu/Suite.\\n  Hangs/Gpu  # GetParam() = Gpu\\n  Crashes/Gpu\\n  Good/Gpu\\nOther.\\n  Fails\\n' ;;
  --gtest_filter=Gpu/Suite.Hangs/Gpu) [ -z "$FAULTY" ] || exec sleep 600 ;;
  --gtest_filter=Gpu/Suite.Crashes/Gpu) [ -z "$FAULTY" ] || kill -SEGV $$ ;;
  --gtest_filter=Other.Fails) [ -z "$FAULTY" ] || exit 1 ;;
  --gtest_filter=Gpu/Suite.Good/Gpu) ;;
  *) echo "wrong words $*"; exit 1 ;;
esac
"""


@pytest.fixture
def scripts(tmp_path):
    """The package's scripts with fake programs."""
    for path in SCRIPTS.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "bin").mkdir()
    for name, text in (("lagoon", FAKE_LAGOON), ("lagoon_gpu_conformance", FAKE_TESTS),
                       ("lagoon_kernels_cuda_tests", "#!/bin/sh\necho all passed\n")):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    for model in ("good", "bad"):
        (tmp_path / "models" / model / "1").mkdir(parents=True)
        (tmp_path / "models" / model / "1" / "model.onnx").touch()

    def run(script, *words, **variables):
        return subprocess.run([tmp_path / script, *words], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": "/usr/bin:/bin", **variables})
    return run


def test_gpu_check_goes_on_after_a_failure_and_reports_it(scripts, tmp_path):
    result = scripts("gpu-check", "--out", str(tmp_path / "out"))
    assert result.returncode == 1, result.stderr
    report = json.loads((tmp_path / "out" / "check.json").read_text())
    assert report["gpu"].startswith("cuda:0") and report["lagoon"] == 'lagoon 0 "quoted"'
    assert {step["name"]: step["status"] for step in report["steps"]} == {
        "conformance": "ok", "ops": "ok", "bad": "FAILED", "good": "ok"}
    assert "exit 1: lagoon: outputs differ" in result.stdout
    assert "3 ok, 1 failed, 0 skipped" in result.stdout
    assert scripts("gpu-check", "--out", str(tmp_path / "out"), "good").returncode == 0


def test_a_test_that_hangs_or_crashes_takes_no_other_with_it(scripts, tmp_path):
    program = tmp_path / "bin" / "lagoon_gpu_conformance"
    result = scripts("each-test", "3", program, FAULTY="1")
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "FAILED Gpu/Suite.Hangs/Gpu: took longer than 3 s", "FAILED Gpu/Suite.Crashes/Gpu: exit 139",
        "FAILED Other.Fails: exit 1",
        "3 of 4 tests failed: Gpu/Suite.Hangs/Gpu Gpu/Suite.Crashes/Gpu Other.Fails"]
    result = scripts("each-test", "60", program)
    assert result.returncode == 0 and result.stdout == "4 tests passed\n"


def test_a_program_without_tests_has_not_passed(scripts, tmp_path):
    program = tmp_path / "bin" / "none"
    program.write_text("#!/bin/sh\necho 'gpu_conformance: no CUDA driver' >&2\nexit 1\n")
    program.chmod(0o755)
    result = scripts("each-test", "60", program)
    assert result.returncode == 1
    assert "no CUDA driver" in result.stdout and "names no tests" in result.stdout


def test_gpu_bench_says_what_was_not_measured(scripts, tmp_path):
    result = scripts("gpu-bench", "--out", str(tmp_path / "out"), "good")
    assert result.returncode == 0, result.stderr
    assert re.search(r"good, batch 1, fp32: Lagoon ms +not measured", result.stdout)
    names = [step["name"] for step in json.loads((tmp_path / "out" / "bench.json").read_text())["steps"]]
    assert names[:4] == ["guards", "isolation", "preemption", "machinery"] and names[-1] == "disb-E"


def test_no_step_begins_when_the_time_is_over(scripts, tmp_path):
    result = scripts("gpu-bench", "--out", str(tmp_path / "out"), "--seconds", "4", "good")
    assert result.returncode == 0, result.stderr
    steps = json.loads((tmp_path / "out" / "bench.json").read_text())["steps"]
    assert {step["status"] for step in steps} == {"skipped"}
    assert "of the 4 s for all steps" in result.stdout


def test_gpu_bench_reads_its_summary_from_the_reports(scripts, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "latency-fp32.json").write_text(
        json.dumps({"metrics": {"latency_ms_p50.good.b1.lagoon": 1.23456}}, indent=2))
    result = scripts("gpu-bench", "--out", str(tmp_path / "out"), "good")
    assert re.search(r"good, batch 1, fp32: Lagoon ms +1\.235$", result.stdout, re.M), result.stdout


@pytest.mark.parametrize("script", ("gpu-check", "gpu-bench"))
@pytest.mark.parametrize("words, expected", [
    (("--gpu", "1"), "there is no cuda:1"), (("--gpu", "x"), "--gpu x: the number"),
    (("--seconds", "soon"), "--seconds soon: how long"), (("--fast",), "there is no option '--fast'"), (("nosuch",), "there is no model 'nosuch'"),
], ids=str)
def test_wrong_words_are_refused(scripts, script, words, expected):
    result = scripts(script, *words)
    assert result.returncode == 2 and expected in result.stderr


def test_torch_latency_reports_its_medians(tmp_path):
    result = subprocess.run([sys.executable, ROOT / "bench" / "comparators" / "torch_latency.py", "--device", "cpu",
                             "--json", tmp_path / "torch.json", "--batches", "1", "--seconds", "0.1", "mobilenet_v2",
                             "nosuch"], capture_output=True, text=True, check=True)
    report = json.loads((tmp_path / "torch.json").read_text())
    best = report["metrics"]["latency_ms_p50.mobilenet_v2.fp32.b1.torch_best"]
    assert best == report["metrics"]["latency_ms_p50.mobilenet_v2.fp32.b1.torch_eager"] > 0
    assert any("nosuch" in failure for failure in report["failures"]), result.stdout


def run_torch_disb(tmp_path, report, *words):
    (tmp_path / "disb.json").write_text(json.dumps(report))
    return subprocess.run([sys.executable, ROOT / "bench" / "comparators" / "torch_disb.py", "--device", "cpu", "--report",
                           tmp_path / "disb.json", "--json", tmp_path / "torch.json", "--windows", "1", "--seconds", "2", *words],
                          capture_output=True, text=True, check=False)


def test_torch_disb_plays_the_clients_of_a_report(tmp_path):
    result = run_torch_disb(tmp_path, {"clients": [
        {"name": "urgent", "model": "mobilenet_v2", "class": "real-time", "load": {"kind": "uniform", "fraction": 0.3}},
        {"name": "late", "model": "mobilenet_v2", "class": "best-effort", "load": {"kind": "continuous"}}]})
    assert result.returncode == 0, result.stderr
    metrics = json.loads((tmp_path / "torch.json").read_text())["metrics"]
    expected = 0.3 * 2 / (metrics["standalone_ms.mobilenet_v2"] / 1e3)
    assert abs(metrics["realtime_requests.torch-streams"] - expected) <= 1
    assert metrics["realtime_latency_normalized_p50.torch-streams"] > 0.3
    assert 0 < metrics["best_effort_throughput_normalized.torch-streams"] < metrics["throughput_normalized.torch-streams"]


def test_torch_disb_has_clients_that_take_the_newest_request(tmp_path):
    """Twice what the model does: the queue grows for as long as the window lasts, clients of DISB drop requests."""
    result = run_torch_disb(tmp_path, {"clients": [
        {"name": "urgent", "model": "mobilenet_v2", "class": "real-time", "load": {"kind": "uniform", "fraction": 2}}]})
    assert result.returncode == 0, result.stderr
    metrics = json.loads((tmp_path / "torch.json").read_text())["metrics"]
    queue, newest = (metrics[f"realtime_latency_normalized_mean.torch-streams{end}"] for end in ("", ".newest"))
    assert newest < queue / 2
    dropped = metrics["realtime_dropped.torch-streams.newest"]
    requests = metrics["realtime_requests.torch-streams.newest"]
    assert dropped > 0.2 * requests and dropped + requests == metrics["realtime_requests.torch-streams"]
    assert "realtime_dropped.torch-streams" not in metrics
    assert metrics["realtime_from_arrival_normalized_mean.torch-streams.newest"] >= newest


@pytest.mark.parametrize("now,following,expected", [(0, 0, 0), (2.5, 0, 2), (2, 0, 2), (2.5, 2, 2), (9, 1, 3), (9, 3, 3)])
def test_a_client_of_torch_disb_takes_the_newest_that_is_due(now, following, expected, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench" / "comparators")
    import torch_disb
    assert torch_disb.newest_due([0, 1, 2, 3], following, now) == expected


@pytest.mark.parametrize("words,named", [(("--clients", "oldest"), "'oldest' is neither queue nor newest")])
def test_torch_disb_refuses_unknown_clients(tmp_path, words, named):
    result = run_torch_disb(tmp_path, {"clients": []}, *words)
    assert result.returncode == 2 and named in result.stderr


def test_torch_disb_refuses_what_is_no_report_of_disb(tmp_path):
    result = run_torch_disb(tmp_path, {"metrics": {}})
    assert result.returncode == 2 and "no field 'clients'" in result.stderr


def test_lagoon_of_the_package_infers(package, zoo, tmp_path):
    image = np.random.default_rng(1).random((1, 1, 8, 8), np.float32)
    scores = Lagoon(package / "bin" / "lagoon").infer(package / "models" / "digits", {"image": image}, tmp_path)
    assert scores["scores"].shape == (1, 10)
