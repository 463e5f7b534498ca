"""bench/plots/plot.py: draws the JSON of a benchmark, and refuses a file without the metrics that it needs."""

import json
import sys

import pytest
from PIL import Image

from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "plots"))
import load_figure  # noqa: E402
import plot  # noqa: E402

SCHEDULERS = {  # normalised p50, p99, share, preemption p50, p99
    "reset": (1.02, 1.07, 0.93, 9, 44),
    "wait": (1.06, 1.61, 0.95, 80, 390),
    "streams": (1.9, 2.6, 1.02, None, None),
    "sequential": (1.8, 4.4, 0.98, None, None),
    "onnxruntime-default": (3.5, 6.6, 0.42, None, None),
    "onnxruntime-pinned": (1.9, 2.1, 0.7, None, None),
}
MODELS = ("resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1", "vgg19")


def contention(tail=99):
    metrics = {}
    for name, (p50, p99, share, quick, slow) in SCHEDULERS.items():
        metrics[f"realtime_latency_normalized_p50.{name}"] = p50
        metrics[f"realtime_latency_normalized_p{tail}.{name}"] = p99
        metrics[f"best_effort_share_of_leftover.{name}"] = share
        if quick:
            metrics[f"preemption_us_p50.{name}"] = quick
            metrics[f"preemption_us_p{tail}.{name}"] = slow
    machine = {"processor": "Test CPU", "cores": 2, "instruction_set": "AVX2"}
    return {"version": "0.1.0-0123456", "machine": machine, "metrics": metrics}


def models():
    metrics = {}
    for index, model in enumerate(MODELS):
        metrics[f"latency_ratio_vs_onnxruntime.{model}.w1.b1"] = 1.0 + index * 0.07
        metrics[f"latency_ratio_vs_onnxruntime.{model}.w2.b1"] = 1.22 - index * 0.05
        metrics[f"kernel_gap_us_p50.{model}"] = 0.5 + index * 0.4
    return {"metrics": metrics}


def run_plot(folder, content, *words):
    """Draws a file with `content` into folder/out. Returns the exit code."""
    file = folder / "report.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return plot.main([str(file), "--out", str(folder / "out"), *words])


@pytest.mark.parametrize("content, name, texts", [
    (contention(), "contention", [*SCHEDULERS, "6.60", "0.42", "Test CPU · 2 cores · AVX2 · 0.1.0",
                                 "p50 (ring) to p99"]),
    (contention(90), "contention", [*SCHEDULERS, "p50 (ring) to p90"]),
    (models(), "models", [*MODELS, "1.28", "2.10"]),
], ids=("contention", "short-run", "models"))
def test_figure_shows_every_row_and_its_numbers(content, name, texts, tmp_path, capsys):
    assert run_plot(tmp_path, content) == 0
    target = tmp_path / "out" / f"{name}.svg"
    assert capsys.readouterr().out.split() == [str(target)]
    svg = target.read_text()
    for text in texts:
        shown = text.removeprefix("onnxruntime-")
        assert f">{shown}" in svg or f" {shown}" in svg, text
    assert target.stat().st_size < 200_000


@pytest.mark.parametrize("content", (contention(), models()), ids=("contention", "models"))
def test_png_is_small_and_not_blank(content, tmp_path):
    assert run_plot(tmp_path, content, "--format", "png") == 0
    path, = (tmp_path / "out").iterdir()
    assert path.stat().st_size < 200_000
    image = Image.open(path).convert("L")
    assert image.width >= 800
    dark = sum(image.histogram()[:128])
    assert 0.005 < dark / (image.width * image.height) < 0.5


def test_same_numbers_give_the_same_bytes(tmp_path):
    drawn = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        assert run_plot(folder, contention()) == 0
        drawn.append((folder / "out" / "contention.svg").read_bytes())
    assert drawn[0] == drawn[1]


def test_one_file_with_both_gives_both_figures(tmp_path):
    both = contention()
    both["metrics"].update(models()["metrics"])
    assert run_plot(tmp_path, both) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"contention.svg", "models.svg"}


def with_intervals(content):
    content["intervals"] = {name: {"median": value, "low": value * 0.9, "high": value * 1.2, "pairs": 10}
                            for name, value in content["metrics"].items()}
    content["host"] = {"windows": 40, "disturbed": 7}
    return content


def test_intervals_are_drawn_and_the_host_is_told(tmp_path):
    assert run_plot(tmp_path, contention()) == 0
    plain = (tmp_path / "out" / "contention.svg").read_text()
    assert run_plot(tmp_path, with_intervals(contention())) == 0
    drawn = (tmp_path / "out" / "contention.svg").read_text()
    assert "7 of 40 windows disturbed" in drawn and "windows disturbed" not in plain
    assert drawn.count("<path") + drawn.count("<use") > plain.count("<path") + plain.count("<use")


def test_a_bad_interval_is_refused_by_name(tmp_path, capsys):
    content = with_intervals(contention())
    content["intervals"]["best_effort_share_of_leftover.reset"] = {"low": "much", "high": 1}
    assert run_plot(tmp_path, content) == 1
    assert "best_effort_share_of_leftover.reset" in capsys.readouterr().err


def test_a_system_that_leaves_nothing_over_has_no_bar(tmp_path):
    content = without(contention(), "best_effort_share_of_leftover.streams")
    content["no_leftover"] = ["streams"]
    assert run_plot(tmp_path, content) == 0
    assert "nothing left over" in (tmp_path / "out" / "contention.svg").read_text()


def without(content, metric, value=None):
    if value is None:
        del content["metrics"][metric]
    else:
        content["metrics"][metric] = value
    return content


@pytest.mark.parametrize("content, expected", [
    ("no json", "report.json"),
    ("[]", "metrics"),
    ({"metrics": {}}, "metrics"),
    ({"metrics": {"other": 1}}, "no metric"),
    (without(contention(), "best_effort_share_of_leftover.reset"),
     "best_effort_share_of_leftover.reset"),
    (without(contention(), "realtime_latency_normalized_p50.wait", "fast"), "'fast'"),
    (without(contention(), "realtime_latency_normalized_p99.wait"), "neither"),
    (without(contention(), "realtime_latency_normalized_p99.wait", float("inf")), "p99.wait"),
    (without(contention(), "preemption_us_p50.reset", True), "preemption_us_p50.reset"),
    ({"metrics": {"latency_ratio_vs_onnxruntime.resnet18": 1.0}}, "MODEL.wN.bN"),
])
def test_incomplete_report_is_refused_by_name(content, expected, tmp_path, capsys):
    assert run_plot(tmp_path, content) == 1
    assert expected in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*"))


def test_versions_are_drawn_with_what_was_kept_and_what_is_used(tmp_path):
    metrics = {"standalone_us": 900.0}
    for op in ("/conv1/Conv", "/fc/Gemm"):
        for index in range(5):
            metrics[f"kernel_us.{op}.{index}x1x1"] = 100.0 + index
            metrics[f"block_us.{op}.{index}x1x1"] = 60.0 / (index + 1)
        metrics[f"kept.{op}.0x1x1"] = metrics[f"kept.{op}.3x1x1"] = metrics[f"used.{op}.0x1x1"] = 1
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"metrics": metrics}))
    assert plot.main([str(file), "--out", str(tmp_path)]) == 0
    text = (tmp_path / "versions.svg").read_text()
    for word in ("/conv1/Conv", "/fc/Gemm", "pruned", "kept", "used"):
        assert word in text, word
    del metrics["block_us./fc/Gemm.2x1x1"]
    file.write_text(json.dumps({"metrics": metrics}))
    assert plot.main([str(file), "--out", str(tmp_path)]) == 1


def scan(model="deep", **changes):
    positions = [1, 4, 7]
    matrix = [[None, 0.1, 0.2], [None, None, 0.3], [None, None, None]]
    content = {"model": model, "mode": "onnx", "ops": 9, "positions": positions, "overhead": matrix,
               "sigma": matrix, "best": [4, 7, 9], **changes}
    return {"metrics": {f"split_parts.{model}": 3}, "scan": content}


@pytest.mark.parametrize("count", (1, 3))
def test_scans_become_one_picture(count, tmp_path, capsys):
    files = []
    for index in range(count):
        files.append(tmp_path / f"{index}.json")
        files[-1].write_text(json.dumps(scan(f"model{index}")))
    assert plot.main([*map(str, files), "--out", str(tmp_path / "out")]) == 0
    target = tmp_path / "out" / "split-scan.svg"
    assert capsys.readouterr().out.split() == [str(target)]
    svg = target.read_text()
    for index in range(count):
        assert f"model{index}: overhead, %" in svg and f"model{index}: deviation" in svg
    assert target.stat().st_size < 200_000


@pytest.mark.parametrize("changes", ({"overhead": [[1]]}, {"sigma": None}, {"positions": "many"}))
def test_a_scan_that_lacks_something_is_named(changes, tmp_path, capsys):
    assert run_plot(tmp_path, scan(**changes)) == 1
    assert "report.json: scan lacks" in capsys.readouterr().err


def papers(**changes):
    bars = {"title": "Ends", "x": "", "y": "time", "groups": ["one", "two"], "log_x": False, "log_y": False,
            "series": [{"name": "task A", "x": [0, 1], "y": [3, 5]}]}
    lines = {**bars, "groups": [], "log_x": True, "log_y": True, "title": "Load",
             "series": [{"name": "paella", "x": [1, 10], "y": [2, 20]}]}
    figure = {"name": "paella-1", "title": "Paella Figure 1", "panels": [bars, lines], "paper": [], **changes}
    return {"metrics": {"paella-1.x": 1}, "figures": [figure]}


def test_a_papers_figure_has_all_panels(tmp_path, capsys):
    assert run_plot(tmp_path, papers()) == 0
    target = tmp_path / "out" / "paella-1.svg"
    assert capsys.readouterr().out.split() == [str(target)]
    svg = target.read_text()
    for text in ("Paella Figure 1 (simulated)", "Ends", "Load", "task A", "paella", "two"):
        assert f">{text}<" in svg


@pytest.mark.parametrize("changes, named", [
    ({"name": "../x"}, "'../x'"), ({"panels": [{}]}, "'paella-1'"), ({"panels": []}, "'paella-1'")])
def test_a_papers_figure_that_lacks_something_is_named(changes, named, tmp_path, capsys):
    assert run_plot(tmp_path, papers(**changes)) == 1
    assert named in capsys.readouterr().err


SPLIT_SYSTEMS = {"split": "SPLIT", "clockwork:admit_by_deadline=0": "ClockWork (FCFS)", "prema": "PREMA", "rt-a": "RT-A",
                 "lagoon-ratio": "Lagoon, by response ratio", "onnxruntime": "ONNX Runtime, FCFS"}


def split():
    metrics = {}
    for place, system in enumerate([*SPLIT_SYSTEMS, "edf"]):
        for case in ("s1", "s3", "s6"):
            for suffix in ("", ".overload"):
                for alpha in range(2, 21):
                    metrics[f"violation_rate.{system}.{case}.a{alpha}{suffix}"] = (place + 1) / 20 / alpha
            for model in ("yolov2", "vgg19", "short"):
                metrics[f"jitter_ms.{system}.{case}.{model}"] = 3.0 + place
                metrics[f"jitter_ms.{system}.{case}.{model}.overload"] = 30.0
        for load in (20, 120):
            metrics[f"violation_rate.{system}.load{load}.a4"] = load / 200
            metrics[f"jitter_ms.{system}.load{load}.short"] = load / 2
    metrics.update({"load.s1": 0.175, "load.s6": 0.255})
    return {"metrics": metrics}


def test_splits_figures_have_a_panel_for_each_scenario_and_a_line_for_each_system(tmp_path, capsys):
    assert run_plot(tmp_path, split()) == 0
    names = ("split-violations", "split-overload", "split-jitter", "split-load")
    assert capsys.readouterr().out.split() == [str(tmp_path / "out" / f"{name}.svg") for name in names]
    for name in names:
        svg = (tmp_path / "out" / f"{name}.svg").read_text()
        for label in SPLIT_SYSTEMS.values():
            assert f">{label}<" in svg, (name, label)
        assert "edf" not in svg  # the paper's systems and Lagoon's only
    assert ">overload<" not in (tmp_path / "out" / "split-jitter.svg").read_text()  # no model
    for text in ("Scenario 1, load 0.17", "Scenario 3", "Scenario 6"):
        assert text in (tmp_path / "out" / "split-violations.svg").read_text()
    content = split()
    del content["metrics"]["violation_rate.prema.s3.a7"]
    assert run_plot(tmp_path, content) == 1
    assert "violation_rate.prema.s3.a7" in capsys.readouterr().err


def tuning():
    metrics = {}
    for model, shares in (("vgg19", (30, 60, 20)), ("net.of-dots", (30, 10, 45))):
        for second, share in enumerate(shares, 1):
            metrics[f"share_percent.{model}.t{second}"] = share
        for side in ("tuned", "tuned-lent", "equal", "no-shares"):
            metrics[f"slo_kept.{side}.{model}"] = 0.87
    return {"metrics": metrics, "phases": [{"begin_s": 0, "hot": "vgg19"}, {"begin_s": 2, "hot": "net.of-dots"}]}


def test_tuning_has_a_line_for_each_model_and_a_bar_for_each_side(tmp_path, capsys):
    assert run_plot(tmp_path, tuning()) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "out" / "share-tuning.svg")]
    svg = (tmp_path / "out" / "share-tuning.svg").read_text()
    for text in (">vgg19<", ">net.of-dots<", "vgg19 is hot", ">0.87<", "equal, fixed"):
        assert text in svg, text
    content = tuning()
    del content["metrics"]["slo_kept.equal.vgg19"]
    assert run_plot(tmp_path, content) == 1
    assert "slo_kept.equal.vgg19" in capsys.readouterr().err


def disb(**changes):
    """Of a simulated GPU, with the two kinds of clients."""
    metrics = {}
    for index, workload in enumerate(("A", "C")):
        for system in ("streams", "reef", "streams.newest", "reef.newest"):
            metrics[f"realtime_latency_normalized_mean.{system}.{workload}"] = 1.5 + index
            metrics[f"realtime_latency_normalized_p50.{system}.{workload}"] = 1.4
            metrics[f"throughput_normalized.{system}.{workload}"] = 1.2 + index
    paper = [{"metric": "realtime_latency_normalized_mean.streams.newest.C", "paper": 8.1},
             {"metric": "throughput_normalized.reef.newest.A", "paper": [1.1, 1.3]}]
    return {"configuration": {"workload": "all"}, "predicted": True, "metrics": metrics, "paper": paper, **changes}


def test_disb_has_a_bar_for_each_system_and_the_papers_numbers(tmp_path, capsys):
    assert run_plot(tmp_path, disb()) == 0, capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["disb.svg"]
    text = (tmp_path / "out" / "disb.svg").read_text()
    for words in ("streams.newest", "reef", "A to E, REAL (simulated; the lines are the paper", "standalone"):
        assert words in text


def test_disb_of_one_workload_without_a_paper_is_drawn(tmp_path, capsys):
    metrics = {f"{metric}.{system}": 1.5 for system in ("reset", "lagoon")
               for metric in ("realtime_latency_normalized_mean", "realtime_latency_normalized_p50", "throughput_normalized")}
    content = {"configuration": {"workload": "C"}, "metrics": metrics}
    assert run_plot(tmp_path, content) == 0, capsys.readouterr().err
    text = (tmp_path / "out" / "disb.svg").read_text()
    assert "workload C (measured)" in text and "lagoon" in text


def test_load_has_a_panel_for_each_sigma_and_a_line_for_each_system(tmp_path, capsys):
    metrics = {}
    for sigma in ("1.5", "2"):
        for system in ("paella", "lagoon:depth=2"):
            metrics[f"load_at_ten_times_alone.{system}.sigma{sigma}"] = 0.9
            for load, percent in ((0.3, 90), (1.2, 99)):
                metrics[f"latency_ms_p{percent}.{system}.sigma{sigma}.load{load}"] = 10 * load
                metrics[f"latency_ms_p{percent}.{system}.sigma{sigma}.load{load}.resnet18"] = 1000  # of one model: not drawn
    report = {"configuration": {}, "metrics": metrics}
    (tmp_path / "report.json").write_text(json.dumps(report))
    curves = load_figure.curves_of(plot.Report(tmp_path / "report.json"))
    assert curves["sigma2"] == {"paella": [(0.3, 3), (1.2, 12)], "lagoon:depth=2": [(0.3, 3), (1.2, 12)]}
    assert run_plot(tmp_path, report) == 0, capsys.readouterr().err
    text = (tmp_path / "out" / "load.svg").read_text()
    assert "sigma 1.5" in text and "sigma 2" in text and "paella" in text and "lagoon:depth=2" in text


def batching():
    metrics = {}
    for model in ("resnet18", "gnmt_tiny"):
        metrics[f"batching_gain.{model}"] = 1.25
        for side in ("batched", "single"):
            for load in (30, 90, 1000):
                for name in ("throughput_ips", "latency_ms_p50", "latency_ms_p99" if load > 30 else "latency_ms_p90"):
                    metrics[f"{name}.{model}.{side}.l{load}"] = float(load)
    return {"metrics": metrics}


def test_batching_has_a_panel_for_each_model_and_a_line_for_each_side(tmp_path, capsys):
    assert run_plot(tmp_path, batching()) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "out" / "batching.svg")]
    svg = (tmp_path / "out" / "batching.svg").read_text()
    for text in ("resnet18: 1.25 times", "gnmt_tiny", ">joined into batches, p99<", ">one request at a time, p50<"):
        assert text in svg, text
    content = batching()
    del content["metrics"]["throughput_ips.resnet18.single.l90"], content["metrics"]["latency_ms_p50.gnmt_tiny.batched.l30"]
    assert run_plot(tmp_path, content) == 1
    assert "latency_ms_p50.gnmt_tiny.batched.l30" in capsys.readouterr().err


def robot(*tails):
    metrics = {}
    for place, system in enumerate(("lagoon:reset", "lagoon:lagoon@http", "onnxruntime:idle")):
        for window in ("alone", "both"):
            for percent in (50, 90, *tails):
                metrics[f"robot_latency_ms_p{percent}.{system}.{window}"] = 20.0 + percent / 10 + place
        for name in ("robot_failed_requests", "robot_late_fraction", "robot_background_per_second"):
            metrics[f"{name}.{system}"] = 0.0
        metrics[f"robot_background_work.{system}"] = metrics[f"robot_background_work.{system}_low"] = 0.5 + place
        for model in ("lraspp", "minilm"):
            metrics[f"robot_background_per_second.{system}.{model}"] = 4.0 + place
    return {"configuration": {"case": "camera", "deadline_ms": 50}, "metrics": metrics}


@pytest.mark.parametrize("tails", ((), (99,)))
def test_robot_has_a_row_for_each_system(tails, tmp_path, capsys):
    assert run_plot(tmp_path, robot(*tails)) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.split() == [str(tmp_path / "out" / "robot.svg")]
    svg = (tmp_path / "out" / "robot.svg").read_text()
    for text in (">Lagoon, reset<", ">Lagoon, lagoon over http<", ">ONNX Runtime, idle<", "(camera)", "6.0 + 6.0 /s",
                 f"to p{99 if tails else 90}"):
        assert text in svg, text
    content = robot()
    del content["metrics"]["robot_background_work.onnxruntime:idle"]
    assert run_plot(tmp_path, content) == 1
    assert "robot_background_work.onnxruntime:idle" in capsys.readouterr().err


def in_process(*ways):
    metrics = {}
    for place, way in enumerate(ways):
        metrics |= {f"missed_deadlines.{way}": 7.0 * place, f"control_steps.{way}": 5000.0, f"work.{way}": 0.5 + place,
                    f"added_us_p50.{way}": 6.0 + place}
        for suffix in ("", ".alone"):
            metrics |= {f"control_us_p50.{way}{suffix}": 100.0 + place, f"control_us_max.{way}{suffix}": 900.0 + place}
    return {"configuration": {"rate": 500}, "metrics": metrics}


def test_in_process_has_a_row_for_each_way(tmp_path, capsys):
    content = in_process("ort", "ort_nice19", "plugin", "lagoon")
    for name in ("p50", "max"):
        del content["metrics"][f"control_us_{name}.ort"]  # no step was in time
    assert run_plot(tmp_path, content) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.split() == [str(tmp_path / "out" / "in-process.svg")]
    svg = (tmp_path / "out" / "in-process.svg").read_text()
    for text in ("ONNX Runtime", "neighbours at nice 19", "with the plug-in", "liblagoon", "21 of 5000 missed", ">8.0<", ">3.50<"):
        assert text in svg, text


@pytest.mark.parametrize("metric", ("work.plugin", "added_us_p50.plugin", "control_steps.plugin"))
def test_in_process_needs_its_metrics(metric, tmp_path, capsys):
    assert run_plot(tmp_path, without(in_process("ort", "plugin"), metric)) == 1
    assert metric in capsys.readouterr().err
