"""Own simulated devices and kernels: `lagoon bench disb` with files of a user, and `lagoon.sim`."""

import csv
import json
import pathlib
import re
import shutil
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
from lagoon import sim  # noqa: E402

NSIGHT = """Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Name
1000,40000,1,40,1,1,256,1,1,32,0.000,0.000,"conv<int, 3>"
60000,20000,2,160,2,1,128,1,1,16,0.001,0.000,relu
"""
PROFILER = {"traceEvents": [
    {"ph": "X", "cat": "kernel", "name": f"gemm_{i}", "ts": 50 * i, "dur": 30 + i,
     "args": {"grid": [20 + i, 2, 1], "block": [128, 1, 1], "registers per thread": 64, "shared memory": 1024}}
    for i in range(20)]}
WORKLOAD = {"time": 1, "tasks": [
    {"id": "camera", "load": {"type": "periodic", "frequency": 500}, "client": {"name": "c", "model_name": "cam", "priority": 0}},
    {"id": "batch", "load": {"type": "continuous"}, "client": {"name": "b", "model_name": "big", "priority": 1}}]}


@pytest.fixture
def own(lagoon, tmp_path, monkeypatch):
    """(device, workload, kernels): files that name nothing built-in."""
    monkeypatch.setenv("LAGOON_BINARY", str(lagoon.binary))
    gpu = sim.gpu_model("t4")
    gpu["name"] = "mine"
    gpu["constants"]["units"] = {"value": 20, "source": "a test"}
    files = {"gpu.json": json.dumps(gpu), "cam.csv": NSIGHT, "big.json": json.dumps(PROFILER), "work.json": json.dumps(WORKLOAD)}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return str(tmp_path / "gpu.json"), str(tmp_path / "work.json"), {"cam": tmp_path / "cam.csv", "big": tmp_path / "big.json"}


def test_an_own_device_runs_traced_kernels_under_any_scheduler(own, tmp_path):
    device, workload, kernels = own
    result = sim.disb(device, workload, ["reef", "lagoon:padding_kernels=4,depth=2"], kernels=kernels, requests=40, windows=1,
                      clients="queue", trace=tmp_path / "trace.json")
    assert result.report["configuration"]["profile"]["name"] == "mine"
    # The camera's kernels: 40 and 20 us, and a gap of 1 us.
    assert result.report["metrics"]["standalone_ms.cam"] == pytest.approx(0.061, rel=0.2)
    assert {row["scheduler"] for row in result.rows} == {"", "reef", "lagoon:padding_kernels=4,depth=2"}
    assert result.value("standalone_ms.cam") == result.report["metrics"]["standalone_ms.cam"]
    assert result.value("throughput_normalized", "reef") == result.report["metrics"]["throughput_normalized.reef"]
    assert result.value("per_second", "reef", "camera") == pytest.approx(500, rel=0.2)
    with pytest.raises(KeyError, match="0 values"):
        result.value("throughput_normalized", "edf")
    camera = [sample for sample in result.samples if sample["client"] == "camera" and not sample["alone"]]
    assert len(camera) >= 40 and all(0.05 < sample["latency_ms"] < 5 for sample in camera)
    assert {sample["class"] for sample in result.samples} == {"real-time", "best-effort"}
    # A file for each scheduler.
    for scheduler in ("reef", "lagoon:padding_kernels=4,depth=2"):
        events = json.loads((tmp_path / f"trace.{scheduler}.json").read_text())["traceEvents"]
        assert any("camera" in json.dumps(event) for event in events)
    assert not (tmp_path / "trace.json").exists()


def test_results_are_frames_where_pandas_is(own, monkeypatch):
    device, workload, kernels = own
    result = sim.disb(device, workload, ["reef"], kernels=kernels, requests=10, windows=1, clients="queue")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        result.frame()
    monkeypatch.undo()
    pandas = pytest.importorskip("pandas")
    assert list(result.frame().columns) == ["metric", "scheduler", "clients", "workload", "client", "value"]
    assert isinstance(result.sample_frame(), pandas.DataFrame)


def test_the_kernels_of_a_built_in_device_run_on_an_own_one(own):
    device, _, _ = own
    result = sim.disb(device, "A", ["reef"], kernels_of="mi50", requests=10, windows=1, clients="queue")
    assert result.value("throughput_normalized", "reef") > 0.5
    with pytest.raises(sim.SimulationFailed, match="'mine' has no model.*--kernels MODEL=FILE"):
        sim.disb(device, "A", ["reef"], requests=10, windows=1)


@pytest.mark.parametrize("kernels,named", [
    ({"cam": "missing.csv"}, "'missing.csv'"), ({"nobody": "x.csv"}, "'nobody=x.csv'.*big, cam"), ({"cam": ""}, "MODEL=FILE"),
])
def test_kernels_that_do_not_fit_are_named(own, kernels, named):
    device, workload, files = own
    with pytest.raises(sim.SimulationFailed, match=named):
        sim.disb(device, workload, ["reef"], kernels={**files, **kernels}, requests=10, windows=1)


def test_a_lying_trace_is_refused_with_its_line(own):
    device, workload, kernels = own
    kernels["cam"].write_text(NSIGHT + "70000,-5,3,1,1,1,1,1,1,1,0,0,back\n")
    with pytest.raises(sim.SimulationFailed, match="cam.csv.*line 4.*time in ns is -5"):
        sim.disb(device, workload, ["reef"], kernels=kernels, requests=10, windows=1)


@pytest.mark.parametrize("load,named", [
    ({"type": "periodic", "frequency": -3}, "frequency"), ({"type": "poisson", "frequency": "nan"}, "frequency"),
    ({"type": "poisson", "frequency": 1e300}, "frequency"),
])
def test_rates_that_are_none_are_refused(own, tmp_path, load, named):
    device, _, kernels = own
    (tmp_path / "work.json").write_text(json.dumps({"time": 1, "tasks": [{**WORKLOAD["tasks"][0], "load": load}, WORKLOAD["tasks"][1]]}))
    with pytest.raises(sim.SimulationFailed, match=named):
        sim.disb(device, tmp_path / "work.json", ["reef"], kernels=kernels, requests=10, windows=1)


def test_the_program_is_named_or_missed_by_name(monkeypatch, lagoon, tmp_path):
    monkeypatch.setenv("LAGOON_BINARY", "/nowhere/lagoon")
    with pytest.raises(FileNotFoundError, match="/nowhere/lagoon"):
        sim.gpu_models()
    alone = shutil.copy(lagoon.binary, tmp_path)  # without the program of the benchmarks
    monkeypatch.setenv("LAGOON_BINARY", str(alone))
    with pytest.raises(sim.SimulationFailed, match="lagoon-bench"):
        sim.gpu_models()


def test_random_load_runs_own_kernels_on_an_own_device(own, tmp_path):
    device, _, kernels = own
    result = sim.run("load", device, kernels=kernels, schedulers=["paella", "fifo"], loads=[0.5, 0.2], sigmas=[0], jobs=50,
                     windows=1, trace=tmp_path / "t.json")
    assert set(result.report["configuration"]["models"]) == {"cam", "big"}
    assert result.value("per_second", "fifo", workload="sigma0.load0.5") > result.value("per_second", "fifo", workload="sigma0.load0.2")
    assert len(result.samples) == 2 * 2 * 50  # schedulers, loads, jobs
    assert {sample["client"] for sample in result.samples} == {"cam", "big"}
    for scheduler in ("paella", "fifo"):
        assert json.loads((tmp_path / f"t.{scheduler}.json").read_text())["traceEvents"]


@pytest.mark.parametrize("options,named", [
    ({"models": ["vgg19"]}, "no model 'vgg19'.*--kernels MODEL=FILE"), ({"kernels": {"a": "missing.csv"}}, "'missing.csv'"),
    ({"zoo": "models"}, "--zoo has no effect on device 'sim:t4'"), ({"workers": 2}, "--workers has no effect"),
    ({"models": ["resnet18", "resnet18"]}, "--models has 'resnet18' twice"), ({"loads": [0.5, 0.1, 0.5]}, "--loads has '0.5' twice"),
    ({"sigmas": [1, 1]}, "--sigmas has '1' twice"), ({"kernels_of": "nothing"}, "--kernels-of 'nothing'.*mi50, gv100, t4"),
    ({"loads": [-1]}, "--loads"), ({"schedulers": ["fifo", "nothing"]}, "'nothing'"),
])
def test_a_load_that_cannot_run_is_refused(own, options, named):
    with pytest.raises(sim.SimulationFailed, match=named):
        sim.run("load", "t4", **{"schedulers": ["fifo"], "jobs": 10, "windows": 1, "loads": [0.1], "sigmas": [0], **options})


def test_a_device_without_kernels_asks_for_some(own):
    with pytest.raises(sim.SimulationFailed, match="'mine' has no models: add --kernels MODEL=FILE or --kernels-of DEVICE"):
        sim.run("load", own[0], schedulers=["fifo"])


def test_figures_are_points_and_numbers(own, monkeypatch):
    result = sim.run("figures", only=["reef-21"], effort=0.01)
    number = result.report["figures"][0]["paper"][0]
    assert result.value("reef-21." + number["metric"]) == pytest.approx(number["got"], rel=1e-3)
    assert result.samples == []
    frames = []
    monkeypatch.setattr(sim, "_frame", frames.append)
    result.figure_frame()
    assert {point["figure"] for point in frames[0]} == {"reef-21"}
    assert sum(len(series["x"]) for panel in result.report["figures"][0]["panels"] for series in panel["series"]) == len(frames[0])


def test_an_option_that_is_refused_gives_its_message(own):
    device, workload, kernels = own
    with pytest.raises(sim.SimulationFailed, match="--schedulers.*'reeef'"):
        sim.disb(device, workload, ["reeef"], kernels=kernels)
    with pytest.raises(sim.SimulationFailed, match="--schedulers.*'reef' twice"):
        sim.disb(device, workload, ["reef", "lagoon", "reef"], kernels=kernels)
    with pytest.raises(sim.SimulationFailed, match="--clients has 'newest' twice"):
        sim.disb(device, workload, ["reef"], kernels=kernels, clients=["newest", "queue", "newest"])
    with pytest.raises(sim.SimulationFailed, match="--windows.*0"):
        sim.disb(device, workload, ["reef"], kernels=kernels, windows=0)


def test_models_of_devices_are_listed_and_unknown_ones_named(own):
    assert {"mi50", "gv100", "t4"} <= set(sim.gpu_models())
    with pytest.raises(sim.SimulationFailed, match="'tpu'"):
        sim.gpu_model("tpu")


def test_files_of_rows_are_refused_where_they_cannot_be_written(lagoon, tmp_path):
    result = lagoon.run("bench", "disb", "--device", "sim:mi50", "--requests", "10", "--windows", "1", "--schedulers", "reef",
                        "--json", tmp_path / "r.json", "--csv", "/nowhere/rows.csv")
    assert result.returncode == 1 and "--csv: '/nowhere/rows.csv' cannot be written" in result.stderr
    assert not (tmp_path / "r.json").exists(), "it is refused before the run"
    result = lagoon.run("bench", "disb", "--kernels", "a=b.csv")
    assert result.returncode == 1 and "--kernels needs a simulated device" in result.stderr


DISB = ("bench", "disb", "--requests", "10", "--windows", "1", "--schedulers", "reef")


@pytest.mark.parametrize("options,named", [
    (("--csv", "{0}/r.csv", "--samples", "{0}/r.csv"), "--csv and --samples name the same file"),
    (("--csv", "{0}/r.csv", "--samples", "{0}/./r.csv"), "--csv and --samples name the same file"),
    (("--json", "{0}/r.csv", "--csv", "{0}/r.csv"), "--json and --csv name the same file"),
    (("--csv", "{0}/r.csv", "--trace", "{0}/r.csv"), "--csv and --trace name the same file"),
    (("--trace", "{0}/t.json", "--json", "{0}/t.reef.newest.json"), "could be one of the traces of --trace"),
    (("--csv", "{0}"), "cannot be written"), (("--samples", "{0}/no/s.csv"), "--samples: .* cannot be written"),
    (("--json", "{0}/no/r.json"), "--json: .* cannot be written"),
    *((("--sensitivity", option, value), f"{option} has no effect with --sensitivity") for option, value in
      (("--samples", "{0}/r.csv"), ("--trace", "{0}/t.json"), ("--clients", "newest"))),
])
def test_files_of_results_are_refused_before_the_run(lagoon, tmp_path, options, named):
    result = lagoon.run(*DISB, "--device", "sim:mi50", *(word.format(tmp_path) for word in options))
    assert result.returncode == 1 and re.search(named, result.stderr), result.stderr
    assert not list(tmp_path.iterdir())


def test_files_that_a_run_reads_are_not_overwritten(lagoon, own, tmp_path):
    device, kernels = tmp_path / "d.json", tmp_path / "k.csv"
    device.write_text(json.dumps(sim.gpu_model("mi50")))
    kernels.write_text(pathlib.Path(own[2]["cam"]).read_text())
    for words, named in ((("--csv", kernels), f"--csv would overwrite '{kernels}', which --kernels reads"),
                         (("--json", device), f"--json would overwrite '{device}', which --device reads"),
                         (("--trace", f"{tmp_path}/./k.csv"), f"--trace would overwrite '{kernels}', which --kernels reads")):
        before = device.read_text(), kernels.read_text()
        result = lagoon.run(*DISB, "--device", f"sim:{device}", "--kernels", f"vgg19={kernels}", "--kernels-of", "mi50", *words)
        assert result.returncode == 1 and named in result.stderr, result.stderr
        assert before == (device.read_text(), kernels.read_text())


def test_devices_may_be_named_twice_and_a_file_again(lagoon, tmp_path):
    (tmp_path / "r.json").write_text("from an earlier run")
    result = lagoon.run(*DISB, "--device", "sim:mi50", "--json", tmp_path / "r.json", "--csv", "/dev/null", "--samples", "/dev/null")
    assert result.returncode == 0, result.stderr
    assert "metrics" in json.loads((tmp_path / "r.json").read_text())


def test_an_own_device_of_a_known_name_is_not_compared_with_the_paper(lagoon, own, tmp_path):
    gpu = sim.gpu_model("mi50")
    same = tmp_path / "same.json"
    same.write_text(json.dumps(gpu))
    gpu["constants"]["units"] = {"value": 30, "source": "a test"}
    other = tmp_path / "other.json"
    other.write_text(json.dumps(gpu))
    for device, words, compared in ((same, (), True), (other, (), False), (same, ("--kernels", f"vgg19={own[2]['cam']}"), False),
                                    (same, ("--kernels-of", "gv100"), False)):
        result = lagoon.run(*DISB, "--device", f"sim:{device}", *words, "--json", tmp_path / "r.json")
        assert result.returncode == 0, result.stderr
        assert ("paper says" in result.stderr) == compared == ("paper" in json.loads((tmp_path / "r.json").read_text()))


def test_a_table_of_all_schedulers_is_printed(lagoon, tmp_path):
    result = lagoon.run("bench", "disb", "--device", "sim:mi50", "--requests", "10", "--windows", "1", "--schedulers", "paella,edf",
                        "--json", tmp_path / "r.json", "--csv", tmp_path / "rows.csv")
    assert result.returncode == 0, result.stderr
    lines = [line.split() for line in result.stderr.splitlines() if line.startswith(("paella", "edf"))]
    assert [line[0] for line in lines] == ["paella", "edf", "paella.newest", "edf.newest"] and all(len(line) == 6 for line in lines)
    with open(tmp_path / "rows.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    metrics = json.loads((tmp_path / "r.json").read_text())["metrics"]
    assert [float(row["value"]) for row in rows if row["metric"] == "throughput_normalized"] == [
        metrics[f"throughput_normalized.{line[0]}"] for line in lines]
    assert len(rows) == len(metrics)
