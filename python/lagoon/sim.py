"""Simulated GPUs from Python: runs `lagoon bench` and gives its results as rows, or as frames of pandas.

    from lagoon import sim
    result = sim.disb("my-gpu.json", "my-workload.json", ["reef", "lagoon"], kernels={"resnet": "trace.csv"})
    result.frame().query("metric == 'throughput_normalized'")
    sim.run("load", "t4", schedulers=["paella", "fifo"], loads=[0.5, 0.9]).sample_frame()
    sim.run("figures", only="reef-15").figure_frame()

The program is the wheel's own, or that of LAGOON_BINARY. pandas is needed for frames only.
"""

import csv
import json
import pathlib
import subprocess
import tempfile

from lagoon import binary


class SimulationFailed(RuntimeError):
    """The program refused its input or failed; the text is what it said."""


def _message(stderr):
    """The last line that is not empty and not the hint to --help that follows a message about options."""
    lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith("Run with --help")]
    return lines[-1] if lines else None


def _run(words, timeout):
    done = subprocess.run([binary.find(), "bench", *words], capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise SimulationFailed(_message(done.stderr) or f"lagoon bench ended with {done.returncode}")
    return done.stdout


def _rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def _frame(rows):
    try:
        import pandas
    except ImportError as error:
        raise ImportError("frames need pandas: `pip install pandas`, or use rows and samples, which are plain lists") from error
    return pandas.DataFrame(rows)


class Result:
    """What one run measured.

    report: the JSON report. rows: a dict for each metric, with the keys metric, scheduler, clients (queue or newest),
    workload, client (empty: all) and value; metrics of no scheduler have a name alone. samples: a dict for each request of
    `disb` and `load`, with scheduler, clients, workload, client, class, alone (whether best-effort clients were left out)
    and latency_ms.
    """

    def __init__(self, report, rows, samples):
        self.report = report
        self.rows = [{**row, "value": float(row["value"])} for row in rows]
        self.samples = [{**row, "alone": row["alone"] == "1", "latency_ms": float(row["latency_ms"])} for row in samples]

    def value(self, metric, scheduler="", client="", clients=None, workload=None):
        """The one value of this metric. KeyError: there is none, or more than one."""
        found = [row["value"] for row in self.rows
                 if (row["metric"], row["scheduler"], row["client"]) == (metric, scheduler, client)
                 and clients in (None, row["clients"]) and workload in (None, row["workload"])]
        if len(found) != 1:
            raise KeyError(f"{metric!r} of {scheduler!r} has {len(found)} values: name clients and workload, or see rows")
        return found[0]

    def frame(self):
        """rows as a frame of pandas."""
        return _frame(self.rows)

    def sample_frame(self):
        """samples as a frame of pandas."""
        return _frame(self.samples)

    def figure_frame(self):
        """The points of all curves and bars of `figures`: figure, panel, series, x (or the bar's group) and y."""
        return _frame([{"figure": figure["name"], "panel": panel["title"], "series": series["name"],
                        "x": panel["groups"][int(x)] if panel.get("groups") else x, "y": y}
                       for figure in self.report["figures"] for panel in figure["panels"] for series in panel["series"]
                       for x, y in zip(series["x"], series["y"])])


# The benchmarks that write single requests.
_SAMPLED = ("disb", "load")


def _words(options):
    """The options of a command line: {"kernels_of": "mi50"} becomes --kernels-of mi50."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, dict):
            words += [word for key, one in value.items() for word in (option, f"{key}={one}")]
        elif isinstance(value, (list, tuple)):
            words += [option, ",".join(map(str, value))]
        else:
            words += [option, str(value)]
    return words


def run(command, device=None, *, timeout=None, **options):
    """Runs `lagoon bench COMMAND`, one that has --csv, in virtual time, and returns a Result.

    device: a built-in name (`gpu_models()`) or the path of a file, where the benchmark takes one. options: those of
    `lagoon bench COMMAND --help`, with _ for -: lists are joined by commas, True is a flag, a dict is one NAME=VALUE each.
    timeout: seconds. Raises SimulationFailed for what the program refuses, and subprocess.TimeoutExpired.
    """
    if device is not None:
        options["device"] = f"sim:{device}"
    with tempfile.TemporaryDirectory() as folder:
        files = {name: pathlib.Path(folder) / name for name in ("json", "csv", "samples")}
        if command not in _SAMPLED or options.get("sensitivity"):
            del files["samples"]
        _run([command, *_words({**options, **files})], timeout)
        return Result(json.loads(files["json"].read_text()), _rows(files["csv"]),
                      _rows(files["samples"]) if "samples" in files else [])


def disb(device, workload, schedulers, **options):
    """`run("disb", ...)`. workload: A to E, REAL, all, or the path of a file. kernels: files of kernel lists or traces, by
    model. trace: a file for the timeline; with several schedulers, kinds of clients or workloads a file for each, named
    after it.
    """
    return run("disb", device, workload=workload, schedulers=schedulers, **options)


def gpu_models():
    """The names of the built-in simulated devices."""
    return [line.split()[0] for line in _run(["gpu-model"], 60).splitlines()]


def gpu_model(name):
    """A built-in simulated device as a dict, to change and to write to a file for `device`."""
    return json.loads(_run(["gpu-model", name], 60))
