"""Simulated GPUs from Python: runs `lagoon-bench` and gives its results as rows, or as frames of pandas.

    from lagoon import sim
    result = sim.disb("my-gpu.json", "my-workload.json", ["reef", "lagoon"], kernels={"resnet": "trace.csv"})
    result.frame().query("metric == 'throughput_normalized'")

A wheel does not hold `lagoon-bench`: LAGOON_BENCH names it, or it lies beside the program `lagoon` of LAGOON_BINARY, as
`./run build` leaves it. pandas is needed for frames only.
"""

import csv
import json
import os
import pathlib
import subprocess
import tempfile


class SimulationFailed(RuntimeError):
    """The program refused its input or failed; the text is what it said."""


def find_bench():
    """The path of `lagoon-bench`: LAGOON_BENCH, else beside the program that LAGOON_BINARY names."""
    named = os.environ.get("LAGOON_BENCH")
    beside = os.environ.get("LAGOON_BINARY")
    path = named or (beside and str(pathlib.Path(beside).resolve().parent / "lagoon-bench"))
    if path and os.access(path, os.X_OK):
        return path
    if path:
        raise FileNotFoundError(f"there is no program {path!r}: ./run build makes lagoon-bench")
    raise FileNotFoundError("lagoon-bench is not part of the wheel: build it with ./run build, and set LAGOON_BENCH to its path")


def _message(stderr):
    """The last line that is not empty and not the hint to --help that follows a message about options."""
    lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith("Run with --help")]
    return lines[-1] if lines else None


def _run(words, timeout):
    done = subprocess.run([find_bench(), *words], capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise SimulationFailed(_message(done.stderr) or f"lagoon-bench ended with {done.returncode}")
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
    workload, client (empty: all) and value. samples: a dict for each request of a client, with scheduler, clients,
    workload, client, class, alone (whether best-effort clients were left out) and latency_ms.
    """

    def __init__(self, report, rows, samples):
        self.report = report
        self.rows = [{**row, "value": float(row["value"])} for row in rows]
        self.samples = [{**row, "alone": row["alone"] == "1", "latency_ms": float(row["latency_ms"])} for row in samples]

    def value(self, metric, scheduler, client="", clients=None, workload=None):
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


def disb(device, workload, schedulers, *, kernels=None, kernels_of=None, requests=None, windows=None, seed=None,
         clients=None, trace=None, timeout=None):
    """Runs `lagoon bench disb` on a simulated device, and returns a Result. Its --help explains the options.

    device: a built-in name (`gpu_models()`) or the path of a file. workload: A to E, REAL, all, or the path of a file.
    kernels: files of kernel lists or traces, by model. trace: a file for the timeline; with several schedulers, kinds of
    clients or workloads a file for each, named after it. timeout: seconds.
    Raises SimulationFailed for what the program refuses, and subprocess.TimeoutExpired.
    """
    words = ["disb", "--device", f"sim:{device}", "--workload", str(workload), "--schedulers", ",".join(schedulers)]
    for model, path in (kernels or {}).items():
        words += ["--kernels", f"{model}={path}"]
    for name, value in (("--kernels-of", kernels_of), ("--requests", requests), ("--windows", windows), ("--seed", seed),
                        ("--clients", clients), ("--trace", trace)):
        if value is not None:
            words += [name, str(value)]
    with tempfile.TemporaryDirectory() as folder:
        files = [str(pathlib.Path(folder) / name) for name in ("report.json", "rows.csv", "samples.csv")]
        _run([*words, "--json", files[0], "--csv", files[1], "--samples", files[2]], timeout)
        return Result(json.loads(pathlib.Path(files[0]).read_text()), _rows(files[1]), _rows(files[2]))


def gpu_models():
    """The names of the built-in simulated devices."""
    return [line.split()[0] for line in _run(["gpu-model"], 60).splitlines()]


def gpu_model(name):
    """A built-in simulated device as a dict, to change and to write to a file for `device`."""
    return json.loads(_run(["gpu-model", name], 60))
