"""`lagoon bench`: the contents of its reports, and errors that name what is missing."""

import csv
import json
import re
import shutil
import sys

import onnx
import pytest
from conftest import ROOT
from corpus import genai
from generators import catalogue

REPOSITORY = ROOT / "models" / "repository"


def run_bench(lagoon, tmp_path, *words):
    """(finished process, the report's metrics or None)."""
    path = tmp_path / "report.json"
    result = lagoon.run("bench", *words, "--json", path)
    return result, json.loads(path.read_text())["metrics"] if path.exists() else None


def test_the_measuring_program_is_found_beside_the_command_or_named(lagoon, tmp_path):
    result = lagoon.run("bench", "--help", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "contention" in result.stdout and "admission" in result.stdout
    result = lagoon.run("bench", "models", "--help")
    assert result.returncode == 0 and "--batches" in result.stdout
    result = lagoon.run("bench", "contention", "--frobnicate")
    assert 0 < result.returncode < 128 and "--frobnicate" in result.stderr
    alone = type(lagoon)(shutil.copy(lagoon.binary, tmp_path))
    result = alone.run("bench", "models")
    assert result.returncode == 1
    for words in (str(tmp_path / "lagoon-bench"), "./run build", "./run bench"):
        assert words in result.stderr
    assert alone.run("devices").returncode == 0


def test_memory_compares_peaks_of_fresh_processes(lagoon, tmp_path):
    result, metrics = run_bench(
        lagoon, tmp_path, "memory", "--zoo", REPOSITORY, "--models", "digits", "--python", sys.executable,
        "--comparator-worker", ROOT / "bench" / "comparators" / "comparator_worker.py")
    assert result.returncode == 0, result.stderr
    for side in ("lagoon", "onnxruntime"):
        assert 1 < metrics[f"peak_base_mib.{side}"] < 1000
        assert metrics[f"peak_mib.digits.{side}"] < 100  # the model has some thousand weights
    assert "memory_ratio_vs_onnxruntime.digits" in metrics


def test_instances_compares_shared_weights_with_a_second_load(lagoon, zoo, tmp_path):
    folder = zoo("bert_tiny").parent.parent.parent
    result, metrics = run_bench(lagoon, tmp_path, "instances", "--zoo", folder, "--models", "bert_tiny", "--rounds", "3")
    assert result.returncode == 0, result.stderr
    for way in ("shared", "alone"):
        assert metrics[f"load_ms.bert_tiny.{way}"] > 0 and metrics[f"instances_in_16_gib.bert_tiny.{way}"] > 1
    # The file has 16 MB of weights, of which an instance that shares them adds nothing.
    assert metrics["instance_mib.bert_tiny.alone"] > metrics["instance_mib.bert_tiny.shared"] + 8
    assert metrics["first_mib.bert_tiny"] > 8 and metrics["file_mib.bert_tiny"] > 8
    assert metrics["memory_ratio.bert_tiny"] > 1


@pytest.mark.parametrize("words, models", [
    (("models", "--models", "a,digits,b"), "a b"), (("contention", "--realtime", "a", "--best-effort", "b"), "a b"),
    (("overhead", "--model", "a"), "a"), (("footprint", "--models", "a,b"), "a b"), (("memory", "--models", "a,b"), "a b"),
    (("instances", "--models", "b,a"), "b a"), (("outputs", "--models", "a,b"), "a b"),
    (("shapes", "--realtime", "a"), "a"), (("batching", "--models", "digits,a", "--slo-model", "b"), "a b"),
    (("disb", "--workload", "A"), "resnet18 googlenet"), (("load", "--models", "a,b"), "a b"), (("fleet", "--models", "a,b"), "a b"),
    (("interference", "--models", "a,b"), "a b"), (("shares", "a+digits", "b+a"), "a b"),
    (("shares", "--switch", "--models", "a,b"), "a b"),
    (("split", "--device", "cpu", "--scale", "small"), "mobilenet_v2 squeezenet1_1 resnet18 gnmt_tiny bert_tiny"),
], ids=lambda value: value[0] if isinstance(value, tuple) else None)
def test_all_missing_models_are_named_at_once_with_the_command_that_makes_them(words, models, lagoon, tmp_path):
    """At the start, before anything is measured."""
    result, metrics = run_bench(lagoon, tmp_path, *words, "--zoo", REPOSITORY)
    assert result.returncode == 1 and metrics is None
    assert f"`./run models {models} --out {REPOSITORY}` makes what is missing" in result.stderr
    assert result.stderr.count("\n") == 1, result.stderr


@pytest.mark.parametrize("word,device", [("contention", "sim:t4"), ("contention", "gpu"), ("load", "gpu")])
def test_a_device_that_is_not_there_is_named_before_missing_models(word, device, lagoon, tmp_path):
    result, _ = run_bench(lagoon, tmp_path, word, "--device", device, "--zoo", tmp_path)
    assert result.returncode == 1 and f"there is no device '{device}'" in result.stderr
    if device == "sim:t4":
        assert "`lagoon bench disb` and `load` take simulated devices" in result.stderr
    assert "./run models" not in result.stderr


def test_models_of_disbs_files_have_the_names_of_the_zoo(lagoon, tmp_path):
    tasks = [{"id": f"{name}_be", "load": {"type": "continuous"}, "client": {"name": name, "model_name": name}}
             for name in ("densenet201-imagenet", "inceptionv3-imagenet", "distilbert")]
    (tmp_path / "C.json").write_text(json.dumps({"time": 1, "tasks": tasks}))
    result, _ = run_bench(lagoon, tmp_path, "disb", "--workload", tmp_path / "C.json", "--zoo", tmp_path)
    names = re.search("`./run models (.*) --out", result.stderr)[1].split()
    assert names == ["densenet201", "inception_v3", "distilbert"]
    assert set(names) <= set(catalogue.CATALOGUE)
    # On a simulated GPU they keep their names; all that are missing are named, and the lists that there are.
    result, _ = run_bench(lagoon, tmp_path, "disb", "--device", "sim:mi50", "--workload", tmp_path / "C.json")
    assert ("'mi50' has no model 'densenet201', 'inceptionv3', 'distilbert': it has resnet152, vgg19, yolov3, bert, gpt2; "
            "--kernels MODEL=FILE") in result.stderr
    # The lists of simulated CPUs have the zoo's names.
    result, _ = run_bench(lagoon, tmp_path, "disb", "--device", "sim:cpu2", "--workload", tmp_path / "C.json")
    assert "'inception_v3'" in result.stderr or result.returncode == 0
    # Own lists make them run.
    (tmp_path / "own.csv").write_text("blocks,time_us\n60,500\n")
    given = [word for name in ("densenet201", "inceptionv3", "distilbert") for word in ("--kernels", f"{name}={tmp_path / 'own.csv'}")]
    result, metrics = run_bench(lagoon, tmp_path, "disb", "--device", "sim:mi50", "--workload", tmp_path / "C.json", *given,
                                "--schedulers", "reef", "--windows", "1", "--seconds", "1")
    assert result.returncode == 0, result.stderr
    assert metrics["per_second.reef.distilbert_be"] > 0


def test_missing_files_of_the_corpus_are_named_at_once(lagoon, tmp_path):
    result, _ = run_bench(lagoon, tmp_path, "shapes", "--zoo", REPOSITORY, "--realtime", "digits", "--files", tmp_path,
                          "--models", "b,a", "--detector", "c")
    assert result.returncode == 1
    assert "has no file of a, b, c: `./run corpus --make --only 'a,b,c'` makes what is missing" in result.stderr


def test_generate_measures_a_decoder(lagoon, tmp_path):
    onnx.save(genai.decoder(genai.SHAPES["small"]), tmp_path / "small.onnx")
    result, metrics = run_bench(lagoon, tmp_path, "generate", "--folder", tmp_path, "--models", "small", "--context", 64,
                                "--prompt", 2, "--tokens", 8, "--background", 60, "--requests", 10, "--windows", 1)
    assert result.returncode == 0, result.stderr
    for name in ("tokens_per_second.small.c1", "tokens_per_second.small.c2", "tokens_of_bound.small",
                 "first_token_ratio_p99.small", "read_gbps.small"):
        assert metrics[name] > 0, name
    # 4.5 bits for each weight of 2 layers and the head, and less than the half of that for keys and values.
    weights = 2 * (64 * 128 + 64 * 64 + 3 * 64 * 96) + 64 * 96
    assert 4.5 / 8 * weights < metrics["bytes_per_token.small"] - metrics["cache_bytes_per_token.small"] < 2 * weights


def test_generate_names_the_command_that_makes_a_file(lagoon, tmp_path):
    result, _ = run_bench(lagoon, tmp_path, "generate", "--folder", tmp_path, "--models", "qwen2_0_5b")
    assert result.returncode == 1 and f"genai.py qwen2_0_5b {tmp_path}/qwen2_0_5b.onnx" in result.stderr


def test_overhead_takes_a_model_with_an_open_batch(lagoon, zoo, tmp_path):
    folder = zoo("mobilenet_v2").parent.parent.parent
    result, metrics = run_bench(lagoon, tmp_path, "overhead", "--zoo", folder, "--model", "mobilenet_v2", "--requests", "10")
    assert result.returncode == 0, result.stderr
    for name in (way + model for way in ("http", "grpc", "grpc_shm", "channel", "process") for model in ("", ".small", ".mobilenet_v2")):
        assert metrics[f"overhead_us_p50.{name}"] > 0
    assert 0 < metrics["channel_client_cpu_fraction"] <= 1 and metrics["channel_requests_per_s"] > 0


def test_footprint_opens_models_one_by_one_and_at_once(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "footprint", "--zoo", REPOSITORY, "--models", "digits")
    assert result.returncode == 0, result.stderr
    for way in ("one_by_one", "at_once"):
        assert 0 < metrics[f"open_ms.{way}"] < 60_000


def test_disb_draws_its_report_of_a_simulated_gpu(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "disb", "--device", "sim:mi50", "--workload", "A", "--requests", "10",
                                "--windows", "1", "--schedulers", "streams,reef", "--plot", tmp_path / "plots",
                                "--python", sys.executable)
    assert result.returncode == 0, result.stderr
    assert metrics["realtime_latency_normalized_mean.streams.newest"] > 1
    assert "streams" in (tmp_path / "plots" / "disb.svg").read_text()


def test_models_reports_latency_and_blocks(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "models", "--zoo", REPOSITORY, "--models", "digits",
                                "--rounds", "1", "--seconds", "0.01", "--no-onnxruntime")
    assert result.returncode == 0, result.stderr
    assert metrics["kernels.digits"] >= 1
    for workers in (1, 2):
        assert metrics[f"latency_ms_p50.digits.w{workers}.b1.lagoon"] > 0
    assert 0 < metrics["block_us_p99.digits"] < 10_000


COMPARATOR = ("--python", sys.executable, "--comparator-worker", ROOT / "bench" / "comparators" / "comparator_worker.py")


def test_models_measures_processes_and_tells_what_is_undecided(lagoon, tmp_path):
    """One round decides nothing. The better of two engines is a worker that answers as OpenVINO's would."""
    result, metrics = run_bench(lagoon, tmp_path, "models", "--zoo", quantised_zoo(tmp_path), "--models", "digits,digits.qdq",
                                "--workers", 1, "--rounds", 1, "--seconds", "0.01", "--openvino", *two_engines(tmp_path))
    assert result.returncode == 0, result.stderr
    for model in ("digits", "digits.qdq"):
        for side in ("lagoon", "onnxruntime", "openvino"):
            assert metrics[f"load_ms.{model}.{side}"] > 0 and f"resident_mib.{model}.{side}" in metrics
        for name in ("load_ratio_vs_best", "memory_ratio_vs_best", "resident_ratio_vs_best"):
            assert metrics[f"{name}.{model}"] > 0
        assert metrics[f"latency_ratio_vs_best.{model}.w1.b1"] > 0
    assert "int8_ratio_vs_best.digits" not in metrics
    for one, other in (("int8_ratio_vs_best.digits.qdq", "latency_ratio_vs_best.digits.qdq.w1.b1"),
                       ("latency_ratio_vs_best_geomean.zoo_int8.w1.b1", "latency_ratio_vs_best.digits.qdq.w1.b1"),
                       ("latency_ratio_vs_best_geomean.ten.w1.b1", "latency_ratio_vs_best.digits.w1.b1")):
        assert metrics[one] == pytest.approx(metrics[other])
    report = json.loads((tmp_path / "report.json").read_text())
    assert {"latency_ratio_vs_best.digits.w1.b1", "load_ratio_vs_best.digits"} <= set(report["undecided"])
    assert report["not_run"] == {}


def test_models_compares_with_the_engines_that_run_a_model(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "models", "--zoo", REPOSITORY, "--models", "digits", "--workers", 1, "--rounds", 1,
                                "--seconds", "0.01", "--openvino", *two_engines(tmp_path, fails=True))
    assert result.returncode == 0, result.stderr
    assert "latency_ratio_vs_openvino.digits.w1.b1" not in metrics and "load_ms.digits.openvino" not in metrics
    assert metrics["latency_ratio_vs_best.digits.w1.b1"] == metrics["latency_ratio_vs_onnxruntime.digits.w1.b1"]
    assert "does not know digits" in json.loads((tmp_path / "report.json").read_text())["not_run"]["digits.openvino"]


def test_models_measures_every_level_of_the_machine(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "models", "--levels", "--zoo", REPOSITORY, "--models", "digits", "--workers", 1,
                                "--rounds", 1, "--seconds", "0.01", *COMPARATOR)
    assert result.returncode == 0, result.stderr
    levels = json.loads((tmp_path / "report.json").read_text())["configuration"]["levels"]
    assert levels[0] == "portable"
    for level in levels:
        assert metrics[f"latency_ms_p50.digits.w1.b1.{level}"] > 0
    assert metrics[f"level_ratio.digits.w1.b1.{levels[-1]}"] == 1
    assert metrics["latency_ms_p50.digits.w1.b1.onnxruntime"] > 0
    result, _ = run_bench(lagoon, tmp_path, "models", "--levels", "--tune")
    assert 0 < result.returncode < 128 and "--tune" in result.stderr


def quantised_zoo(tmp_path):
    """`digits` of the set "ten", and the same model under the name of a quantised one."""
    for name in ("digits", "digits.qdq"):
        shutil.copytree(REPOSITORY / "digits", tmp_path / "zoo" / name)
    (tmp_path / "zoo" / "digits" / "zoo.json").write_text('{"set": "ten"}')
    return tmp_path / "zoo"


def two_engines(tmp_path, fails=False):
    """Options for a worker that runs ONNX Runtime under the name of OpenVINO, or refuses `digits` under that name."""
    script = tmp_path / "worker.py"
    refuse = "print('{\"ok\": false, \"error\": \"does not know digits\"}') or sys.exit(1)" if fails else "None"
    script.write_text(f"""import runpy, sys
at = sys.argv.index("--engine") + 1
if sys.argv[at] == "openvino":
    if "digits" in sys.argv[1]:
        {refuse}
    sys.argv[at] = "onnxruntime"
runpy.run_path({str(COMPARATOR[-1])!r}, run_name="__main__")
""")
    return "--python", sys.executable, "--comparator-worker", script


def test_contention_reports_intervals_targets_and_the_host(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "contention", "--zoo", REPOSITORY, "--realtime", "digits",
                                "--best-effort", "digits", "--schedulers", "reset,streams", "--requests", "20",
                                "--windows", "2", "--no-onnxruntime", "--csv", tmp_path / "rows.csv", "--samples",
                                tmp_path / "samples.csv")
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    with open(tmp_path / "rows.csv", newline="") as file:
        rows = {(row["metric"], row["scheduler"], row["workload"]): float(row["value"]) for row in csv.DictReader(file)}
    assert len(rows) == len(metrics)
    assert rows["best_effort_per_s", "reset", "alone"] == metrics["best_effort_per_s.reset.alone"]
    with open(tmp_path / "samples.csv", newline="") as file:
        samples = [(row["scheduler"], row["class"], row["alone"]) for row in csv.DictReader(file)]
    assert set(samples) == {(name, "real-time", alone) for name in ("reset", "streams") for alone in "01"}
    assert samples.count(("reset", "real-time", "0")) == metrics["realtime_requests.reset"]
    for name in ("reset", "streams"):
        metric = f"realtime_latency_normalized_p50.{name}"
        interval = report["intervals"][metric]
        assert interval["low"] <= interval["median"] == metrics[metric] <= interval["high"]
        assert 1 <= interval["pairs"] <= 4
    host = report["host"]
    assert 12 <= host["windows"] <= 18  # two systems, two windows of three kinds; at most half of them again
    assert host["disturbed"] >= host["trials_thrown_out"]
    assert 0 <= host["probe_fraction"] < 1
    assert {target["metric"]: target["outcome"] for target in report["targets"]}[
        "idle_while_ready_fraction.reset"] == "undecided"  # fewer than six pairs
    assert "windows disturbed" in result.stderr
    assert report["machine"]["processor"] and report["machine"]["cores"] >= 1 and report["machine"]["instruction_set"]


def test_isolation_measures_every_mode_of_a_cpu(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "isolation", "--workers", "2", "--rounds", "20", "--windows", "2")
    assert result.returncode == 0, result.stderr
    for mode in ("alone", "priority", "guard", "abort", "share"):
        assert 0 < metrics[f"isolation_placed_us_p50.{mode}"] <= metrics[f"isolation_complete_us_p50.{mode}"]


def test_load_compares_schedulers_with_onnx_runtime_up_to_saturation(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "load", "--zoo", REPOSITORY, "--models", "digits", "--schedulers", "paella,lagoon",
                                "--loads", "0.001,0.002", "--sigmas", "1.5", "--jobs", 60, "--windows", 1, *COMPARATOR)
    assert result.returncode == 0, result.stderr
    for system in ("paella", "lagoon", "onnxruntime"):
        for load in ("0.001", "0.002"):
            assert metrics[f"latency_ms_p90.{system}.sigma1.5.load{load}"] > 0
            assert metrics[f"per_second.{system}.sigma1.5.load{load}"] > 0
        assert 0.001 <= metrics[f"load_at_ten_times_alone.{system}.sigma1.5"] <= 0.002
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["saturated"] == {} and report["host"]["windows"] >= 6


def test_depth_and_block_events_measure_the_host_and_a_kernel(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "depth", "--depths", "1,256", "--windows", 1, "--window-seconds", 0.1)
    assert result.returncode == 0, result.stderr
    for depth in (1, 256):
        assert metrics[f"host_us_per_kernel.depth{depth}"] > 0
        assert metrics[f"kernel_gap_us.depth{depth}"] > 0
    result, metrics = run_bench(lagoon, tmp_path, "block-events", "--workers", 2, "--rounds", 20, "--windows", 2)
    assert result.returncode == 0, result.stderr
    assert metrics["events_per_launch.b16.none"] == 3 < metrics["events_per_launch.b16.often"]
    assert metrics["seen_us_p90.b160.every16"] > 0


@pytest.mark.parametrize("name", ("guards", "machinery"))
def test_what_is_about_a_gpu_says_so(lagoon, tmp_path, name):
    result, _ = run_bench(lagoon, tmp_path, name, "--device", "cpu")
    assert result.returncode == 1 and "this measures a GPU" in result.stderr


WORKLOAD = {"time": 1, "tasks": [
    {"id": "camera_rt", "load": {"type": "periodic", "frequency": 100}, "client": {"model_name": "digits"}},
    {"id": "other_be", "load": {"type": "continuous"}, "client": {"model_name": "digits"}}]}


def test_disb_runs_a_workload_of_a_file_under_several_schedulers(lagoon, tmp_path):
    (tmp_path / "pair.json").write_text(json.dumps(WORKLOAD))
    result, metrics = run_bench(lagoon, tmp_path, "disb", "--zoo", REPOSITORY, "--workload",
                                tmp_path / "pair.json", "--schedulers", "sequential,lagoon", "--requests",
                                "40", "--windows", "2", "--no-onnxruntime", "--clients", "queue,newest")
    assert result.returncode == 0, result.stderr
    intervals = json.loads((tmp_path / "report.json").read_text())["intervals"]
    for name in ("sequential", "lagoon"):
        trials = intervals[f"realtime_latency_vs_alone_p50.{name}"]["pairs"]  # trials that the host did not disturb
        assert 15 <= metrics[f"realtime_requests.{name}"] / trials <= 25
        assert metrics[f"realtime_latency_normalized_p50.{name}"] > 0  # the model takes 10 us: the value is noise
        assert metrics[f"best_effort_throughput_normalized.{name}"] > 0.05
        assert metrics[f"throughput_normalized.{name}"] > metrics[f"best_effort_throughput_normalized.{name}"]
        assert metrics[f"realtime_from_arrival_normalized_mean.{name}.newest"] > 0
        assert f"realtime_from_arrival_normalized_mean.{name}" not in metrics


def test_disb_names_what_is_wrong_with_a_workload(lagoon, tmp_path):
    (tmp_path / "bad.json").write_text(json.dumps({"tasks": [{"id": "x_rt"}]}))
    for workload, word in ((tmp_path / "bad.json", "x_rt"), (tmp_path / "absent.json", "absent.json"), ("Z", "'Z'")):
        result, _ = run_bench(lagoon, tmp_path, "disb", "--zoo", REPOSITORY, "--workload", workload)
        assert result.returncode == 1 and word in result.stderr


def test_schedulers_with_parameters_are_compared(lagoon, tmp_path):
    simulated = ("disb", "--device", "sim:gv100", "--workload", "A", "--requests", "10", "--windows", "1")
    names = ["fifo", "paella:depth=2,extra_blocks=4", "edf", "lagoon-ratio"]
    result, metrics = run_bench(lagoon, tmp_path, *simulated, "--schedulers", ",".join(names[:3]), names[3])
    assert result.returncode == 0, result.stderr
    for name in names:
        assert metrics[f"throughput_normalized.{name}"] > 0
    configuration = json.loads((tmp_path / "report.json").read_text())["configuration"]["schedulers"]
    assert set(configuration) == set(names)
    assert configuration[names[1]]["parameters"] == {"block_events": 16, "depth": 2, "extra_blocks": 4, "fairness_threshold": 1000}
    for words, expected in (("fifo,paella:dept=2", "'dept'"), ("fifo,,edf", "NAME:PARAMETER=NUMBER"),
                            ("depth=2", "'depth=2'"), ("fifo,rr:quantum_us=-1", "quantum_us = -1")):
        result = lagoon.run("bench", *simulated, "--schedulers", words)
        assert 0 < result.returncode < 128 and expected in result.stderr
    result, _ = run_bench(lagoon, tmp_path, "admission", "--scheduler", "paella:depth=65")
    assert 0 < result.returncode < 128 and "from 1 to 64" in result.stderr


SIMULATED = ("disb", "--device", "sim:mi50", "--requests", "20", "--windows", "1", "--schedulers", "reef,lagoon")


def test_disb_on_a_simulated_device_is_predicted_and_the_same_twice(lagoon, tmp_path):
    reports = []
    for path in (tmp_path / "one.json", tmp_path / "two.json"):
        result = lagoon.run("bench", *SIMULATED, "--workload", "all", "--json", path)
        assert result.returncode == 0, result.stderr
        reports.append(json.loads(path.read_text()))
        assert reports[-1].pop("date")
    assert reports[0] == reports[1]
    assert reports[0]["predicted"] is True
    assert reports[0]["configuration"]["profile"]["name"] == "mi50"
    assert reports[0]["configuration"]["profile"]["constants"]["units"] == 60
    for workload in ("A", "B", "C", "D", "E", "REAL"):
        assert reports[0]["metrics"][f"throughput_normalized.lagoon.{workload}"] > 0.9
    assert "paper says" in result.stderr
    compared = {number["metric"] for number in reports[0]["paper"]}
    assert "throughput_normalized.reef.newest.C" in compared


def test_sensitivity_tabulates_what_each_assumed_constant_changes(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "disb", "--device", "sim:gv100", "--sensitivity",
                                "--requests", "10", "--windows", "1", "--schedulers", "streams")
    assert result.returncode == 0, result.stderr
    assert "dependent_gap_ns" in result.stderr
    assert metrics["throughput_normalized.streams.unit_use_permille.half"] > metrics["throughput_normalized.streams"]


def test_the_simulator_and_a_decision_are_measured(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "sim", "--rounds", "1", "--seconds", "0.01")
    assert result.returncode == 0, result.stderr
    assert metrics["sim_block_events_per_second"] > 10_000
    result, metrics = run_bench(lagoon, tmp_path, "decision", "--rounds", "1", "--seconds", "0.01")
    assert result.returncode == 0, result.stderr
    for case in ("five_best_effort", "thousand_ready"):
        assert 0 < metrics[f"decision_us_median.{case}"] < 100


def test_admission_measures_posts_alone_and_beside_short_kernels(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "admission", "--workers", "2", "--requests", "20", "--rounds", "2")
    assert result.returncode == 0, result.stderr
    for case in ("alone", "beside"):
        for name in ("post_to_admit", "finish_to_answer", "computed_to_finished"):
            assert 0 <= metrics[f"{name}_us_p50.{case}"] <= metrics[f"{name}_us_p99.{case}"]
    assert metrics["best_effort_kernels_per_second.beside"] > 0


def test_figures_are_drawn_and_compared(lagoon, tmp_path):
    path, out = tmp_path / "it's $HOME.json", tmp_path / "plots; true"
    result = lagoon.run("bench", "figures", "--only", "paella-1,reef-22", "--effort", "0.02", "--json", path,
                        "--plot", out, "--python", sys.executable)
    assert result.returncode == 0, result.stderr
    report = json.loads(path.read_text())
    assert report["predicted"] is True
    assert report["metrics"]["paella-1.mean_end.one queue"] == 6
    assert "paper says" in result.stderr
    assert sorted(file.name for file in out.iterdir()) == ["paella-1.svg", "reef-22.svg"]


@pytest.mark.parametrize("words, named", [
    (("figures", "--only", "reef-99"), "'reef-99'"),
    (("figures", "--only", "reef-25"), "cannot run on a simulated device"),
    (("disb", "--sensitivity"), "--sensitivity"),
    (("disb", "--sensitivity", "--device", "sim:mi50", "--workload", "all"), "'all'"),
])
def test_what_a_simulation_cannot_do_is_said(lagoon, tmp_path, words, named):
    result, metrics = run_bench(lagoon, tmp_path, *words)
    assert result.returncode == 1
    assert metrics is None
    assert named in result.stderr


@pytest.mark.parametrize("words, named", [
    (("--device", "gpu0"), "'gpu0'"),
    (("--device", "sim:mi51"), "mi51"),
    (("--device", "sim:absent.json"), "absent.json"),
    (("--device", "sim:t4"), "'t4' has no model 'vgg19'"),
    (("--device", "sim:mi50", "--workload", "Z"), "'Z'"),
    (("--device", "sim:mi50", "--workers", "2"), "--workers"),
    (("--device", "sim:mi50", "--scale", "small"), "--scale"),
    (("--device", "sim:cpu8", "--scale", "paper", "--workload", "C"), "'cpu8' has no model 'yolov3'"),
    (("--device", "sim:mi50", "--no-onnxruntime"), "--no-onnxruntime"),
])
def test_disb_names_what_does_not_go_with_a_simulated_device(lagoon, tmp_path, words, named):
    result, metrics = run_bench(lagoon, tmp_path, "disb", *words)
    assert result.returncode == 1
    assert metrics is None
    assert named in result.stderr


def test_batching_compares_sides_at_every_load_and_limiters_at_every_slo(lagoon, zoo, tmp_path):
    folder = zoo("gnmt_tiny").parent.parent.parent
    result, metrics = run_bench(
        lagoon, tmp_path, "batching", "--models", "gnmt_tiny", "--zoo", folder, "--loads", "0.5,8", "--windows", "2",
        "--window-seconds", "0.2", "--slos", "20", "--slo-model", "gnmt_tiny", "--slo-seconds", "0.5")
    assert result.returncode == 0, result.stderr
    for side in ("batched", "single"):
        assert metrics[f"throughput_ips.gnmt_tiny.{side}.l50"] > 0
        assert 0 < metrics[f"refused_fraction.gnmt_tiny.{side}.l800"] < 1
    assert metrics["rows_per_batch.gnmt_tiny.l50"] >= 1
    assert metrics["overload_goodput_fraction.gnmt_tiny"] > 0
    assert metrics["overload_refusal_ms_p99.gnmt_tiny"] < 20
    assert -50 < metrics["batcher_added_us_p50"] < 1000
    for limiter in ("slab", "aimd", "clipper"):
        assert 1 <= metrics[f"{limiter}_rows.20"] <= 32
    courses = json.loads((tmp_path / "report.json").read_text())["batch_limits"]
    assert courses["slab.20"][0][1] == 1  # it begins with one row


SPLIT = ("split", "--schedulers", "split,clockwork:admit_by_deadline=0,lagoon-ratio")


def test_split_on_a_simulated_device_has_both_readings_and_is_drawn(lagoon, tmp_path):
    path, out = tmp_path / "split.json", tmp_path / "plots"
    result = lagoon.run("bench", *SPLIT, "--scenarios", "1,6", "--requests", "60", "--seeds", "2", "--sweep", "--json",
                        path, "--plot", out, "--python", sys.executable)
    assert result.returncode == 0, result.stderr
    report = json.loads(path.read_text())
    metrics = report["metrics"]
    assert report["predicted"] is True and report["configuration"]["profile"]["name"] == "nano"
    for system in ("split", "split.plan", "clockwork:admit_by_deadline=0", "lagoon-ratio"):
        for suffix in ("", ".overload"):
            rates = [metrics[f"violation_rate.{system}.s6.a{alpha}{suffix}"] for alpha in range(2, 21)]
            assert rates == sorted(rates, reverse=True) and 0 <= rates[-1] <= rates[0] <= 1
        assert metrics[f"jitter_ms.{system}.load120.short"] > metrics[f"jitter_ms.{system}.load20.short"] > 0
    assert 0.17 < metrics["load.s1"] < 0.18 and 0.87 < metrics["load.s1.overload"] < 0.88
    assert (metrics["split_parts.resnet50"], metrics["split_parts.vgg19"]) == (2, 3)
    judged = {target["metric"] for target in report["targets"]}
    assert "jitter_short_vs.clockwork:admit_by_deadline=0.s6" in judged and "preemption_decision_us.1000" in judged
    assert sorted(file.stem for file in out.iterdir()) == ["split-jitter", "split-load", "split-overload",
                                                           "split-violations"]


def test_split_on_the_cpu_measures_schedulers_in_turns(lagoon, zoo, tmp_path):
    for name in ("mobilenet_v2", "squeezenet1_1", "resnet18", "gnmt_tiny", "bert_tiny"):
        folder = zoo(name).parent.parent.parent
    result, metrics = run_bench(lagoon, tmp_path, *SPLIT, "--device", "cpu", "--scale", "small", "--zoo", folder,
                                "--scenarios", "6", "--requests", "20", "--windows", "2", "--no-onnxruntime")
    assert result.returncode == 0, result.stderr
    assert metrics["load.s6"] == pytest.approx(0.255, abs=0.001)
    for system in ("split", "lagoon-ratio"):
        assert 0 <= metrics[f"violation_rate.{system}.s6.a2"] <= 1
        assert metrics[f"response_ratio_mean.{system}.s6"] > 0.3
    assert any(name.startswith("split_overhead.") for name in metrics)
    host = json.loads((tmp_path / "report.json").read_text())["host"]
    assert host["windows"] >= 6  # two windows of each system


@pytest.mark.parametrize("words, named", [
    (("--scenarios", "7"), "no scenario 7"),
    (("--device", "sim:mi51"), "mi51"),
    (("--device", "sim:t4"), "'t4' has no model 'yolov2'"),
    (("--device", "gpu0"), "'gpu0'"),
    (("--schedulers", "split:elastc=1"), "'elastc'"),
    (("--schedulers", "fast"), "'fast'"),
    (("--reading", "both"), "'both'"),
    (("--windows", "3"), "--windows"),
    (("--scale", "small"), "--scale"),
    (("--device", "cpu", "--seeds", "3"), "--seeds"),
])
def test_split_names_what_is_wrong(lagoon, tmp_path, words, named):
    result, metrics = run_bench(lagoon, tmp_path, "split", *words)
    assert result.returncode == 1
    assert metrics is None
    assert named in result.stderr


@pytest.mark.parametrize("words", [("models", "--models", "absent"), ("memory", "--models", "absent")])
def test_a_missing_model_is_named(lagoon, tmp_path, words):
    result, metrics = run_bench(lagoon, tmp_path, *words, "--zoo", REPOSITORY, "--no-onnxruntime")
    assert result.returncode == 1
    assert metrics is None
    assert "`./run models absent --out " in result.stderr


def test_outputs_are_onnxruntimes_also_when_revoked(lagoon, zoo, tmp_path):
    names = ("mobilenet_v2", "bert_tiny")
    folder = zoo(names[0]).parent.parent.parent
    for name in names:
        zoo(name)
    result, metrics = run_bench(
        lagoon, tmp_path, "outputs", "--zoo", folder, "--models", ",".join(names), "--revocations", "100",
        "--python", sys.executable, "--comparator-worker", ROOT / "bench" / "comparators" / "comparator_worker.py")
    assert result.returncode == 0, result.stderr
    assert 0 < metrics["output_error_max"] < 1e-4  # two libraries never agree to the bit
    for name in names:
        assert metrics[f"output_error_revoked.{name}"] == metrics[f"output_error.{name}"]
        assert metrics[f"revocations.{name}"] >= 100
        assert metrics[f"revoked_launches.{name}"] > 0
        assert metrics[f"revoked_runs_identical.{name}"] == 1


def test_moves_of_shares_lose_no_job_and_change_no_bit(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "shares", "--switch", "--zoo", REPOSITORY, "--models", "digits,digits",
                                "--moves", "20", "--restarts", "1")
    assert result.returncode == 0, result.stderr
    for device in ("cpu", "sim-v100"):
        for kind in ("resize", "swap"):
            of = f"{device}.{kind}"
            assert metrics[f"jobs.{of}"] > 0 and metrics[f"jobs_lost.{of}"] == 0
            assert metrics[f"share_evicted_kernels.{of}"] > 0
            assert metrics[f"moves.{of}"] + metrics[f"moves_without_block.{of}"] == 20
            assert 0 <= metrics[f"share_switch_idle_us_p50.{of}"] <= metrics[f"share_switch_idle_us_p99.{of}"]
            assert metrics[f"service_gap_us_p99.{of}"] >= 0
    assert metrics["results_wrong.cpu.resize"] == metrics["results_wrong.cpu.swap"] == 0
    assert metrics["restart_gap_ms"] > 0


def test_shares_follow_the_load_and_every_decision_has_a_reason(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "shares", "--tune", "--gpu-models", "resnet50,alexnet", "--seconds", "8",
                                "--hold-down", "1")
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [phase["hot"] for phase in report["phases"]] == ["resnet50", "alexnet"]
    for side in ("tuned", "tuned-lent", "paper", "headroom", "surplus", "growth", "knee", "equal", "no-shares"):
        assert metrics[f"requests_lost.{side}"] == 0 and 0 < metrics[f"slo_kept.{side}"] <= 1
        for model in ("resnet50", "alexnet"):
            assert metrics[f"throughput_ips.{side}.{model}"] > 0 and metrics[f"latency_ms_p50.{side}.{model}"] > 0
    for second in range(1, 9):
        assert sum(metrics[f"share_percent.{model}.t{second}"] for model in ("resnet50", "alexnet")) < 100.1
    assert metrics["moves.tuned"] > 0 == metrics["moves.equal"]
    assert 0 <= metrics["settle_s.p1"] < 4 and 0 <= metrics["settle_s.p2"] <= 4
    assert len(report["decisions"]) == 2 + metrics["moves.tuned"]
    assert all(decision["why"] and decision["to_percent"] > 0 for decision in report["decisions"])


def test_the_help_of_shares_points_to_the_benchmark_of_batching(lagoon):
    result = lagoon.run("bench", "shares", "--help")
    assert result.returncode == 0 and "lagoon bench batching" in result.stdout


@pytest.mark.parametrize("words, named", [
    (("nothing+digits",), "nothing"),
    (("--tune", "--switch"), "--switch"),
    (("--tune", "--gpu-models", "vgg19"), "at least two"),
    (("--tune", "--gpu-models", "vgg19,nothing"), "'nothing'"),
    (("--tune", "--gpu", "nano"), "'nano'"),
    (("--tune", "--seconds", "0"), "--seconds"),
    (("--tune", "--hot", "0"), "--hot"),
    (("digits+",), "'digits+'"),
    (("--clients", "0"), "--clients"),
    (("--switch", "--workers", "2"), "2 units"),
    (("--switch", "--gpu", "nano"), "1 units"),
    (("--switch", "--gpu-models", "vgg19"), "must be two"),
    (("--switch", "--gpu-models", "vgg19,nothing"), "'nothing'"),
    (("--switch", "--moves", "1"), "--moves"),
])
def test_shares_names_what_is_wrong(lagoon, tmp_path, words, named):
    result, metrics = run_bench(lagoon, tmp_path, "shares", *words, "--zoo", REPOSITORY, "--models", "digits,digits")
    assert 0 < result.returncode < 128 and metrics is None
    assert named in result.stderr


def test_the_figures_of_one_paper_are_chosen_by_its_name(lagoon, tmp_path):
    result, _ = run_bench(lagoon, tmp_path, "figures", "--paper", "frob")
    assert result.returncode == 1 and "'frob'" in result.stderr and "gslice" in result.stderr
    result, metrics = run_bench(lagoon, tmp_path, "figures", "--only", "gslice-1", "--effort", "0.02")
    assert result.returncode == 0, result.stderr
    assert metrics["gslice-1.latency_ms.vgg19.time-slice"] > 2 * metrics["gslice-1.latency_ms.resnet50.alone"]
    paper = json.loads((tmp_path / "report.json").read_text())["figures"][0]["paper"]
    assert all(row["verdict"] and (row["set"] or row["device"]) for row in paper)


def test_reload_measures_what_a_server_keeps_and_compares_all_answers(lagoon, tmp_path):
    result, metrics = run_bench(lagoon, tmp_path, "reload", "--loads", "8", "--shapes", "40", "--minutes", "0.05",
                                "--clients", "16")
    assert result.returncode == 0, result.stderr
    for name in ("reload_rss_kib_per_load", "shapes_rss_kib_per_shape", "soak_rss_mib_per_hour"):
        assert name in metrics
    problems = json.loads((tmp_path / "report.json").read_text()).get("problems")
    assert metrics["soak_lost"] == metrics["soak_doubled"] == metrics["soak_wrong"] == 0, problems
    assert metrics["soak_pending_at_end"] == metrics["soak_failed_reloads"] == 0
    assert metrics["soak_reloads"] >= 1 and metrics["soak_right"] > 0
    fates = ("right", "wrong", "refused", "expired", "cancelled", "lost", "doubled")
    assert metrics["soak_requests"] == sum(metrics[f"soak_{fate}"] for fate in fates)
