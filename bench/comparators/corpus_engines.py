"""ONNX Runtime and Lagoon, as the corpus runs them: arrays in, arrays and times out."""

import dataclasses
import json
import math
import re
import statistics
import subprocess
import time

import numpy as np
import onnxruntime

from comparator_worker import openvino_settings

SECONDS = 300  # the limit for all cases of a model
MOST_RUNS = 50


@dataclasses.dataclass
class Run:
    """One case on one engine. Times in milliseconds; not a number if they were not measured."""

    outputs: dict = dataclasses.field(default_factory=dict)
    refused: str = ""  # why there is no answer
    new_shape_ms: float = math.nan  # what the first request of a shape waited for its plan
    latency_ms: float = math.nan  # the median of later requests
    identical: bool = True  # whether revoked runs gave the same bits


def time_runs(run, seconds):
    """The median of runs, in milliseconds."""
    times = []
    while len(times) < MOST_RUNS and (not times or sum(times) < seconds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def open_onnxruntime(path, threads, optimised=True):
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL)
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class OnnxRuntime:
    """Two sessions: as fast as ONNX Runtime can be, and without its optimisations. What these two
    differ by is what a user cannot call wrong."""

    def __init__(self, path, threads):
        self.session = open_onnxruntime(path, threads)
        self.plain = open_onnxruntime(path, threads, optimised=False)
        self.names = [output.name for output in self.session.get_outputs()]

    def answer(self, inputs, optimised=True):
        session = self.session if optimised else self.plain
        return dict(zip(self.names, session.run(self.names, inputs)))

    def run(self, inputs, seconds):
        outputs = self.answer(inputs)
        return Run(outputs, latency_ms=time_runs(lambda: self.session.run(self.names, inputs), seconds))


class OpenVino:
    """Only its times count: a model is compiled for each shape, in fp32 as the others."""

    def __init__(self, path, threads):
        import openvino  # `pip install openvino`
        self.core, self.tensor = openvino.Core(), openvino.Tensor
        self.model = self.core.read_model(str(path))
        self.settings = openvino_settings(threads)

    def latency_ms(self, inputs, seconds):
        """Not a number if it cannot run the model."""
        try:
            self.model.reshape({name: list(array.shape) for name, array in inputs.items()})
            request = self.core.compile_model(self.model, "CPU", self.settings).create_infer_request()
            for name, array in inputs.items():
                request.set_tensor(name, self.tensor(np.ascontiguousarray(array)))
            request.infer()
            return time_runs(request.infer, seconds)
        except RuntimeError:
            return math.nan


def file_name(name):
    return name.replace("/", "_") + ".npy"


class Lagoon:
    """The `lagoon` command."""

    def __init__(self, binary, workers=1):
        self.binary, self.workers = binary, workers

    def command(self, *words):
        return subprocess.run([str(self.binary), *map(str, words)], capture_output=True, text=True,
                              timeout=SECONDS, check=False)

    def version(self):
        return self.command("version").stdout.strip().removeprefix("lagoon ")

    def level(self):
        """The instruction-set level, such as "avx2"."""
        found = re.search(r", level (\w+)", self.command("devices").stdout)
        return found[1] if found else "unknown"

    def run(self, path, cases, names, folder, words):
        """([Run for each of `cases`], [op that runs in an opaque kernel]). One process runs all
        cases, so that a shape after the first shows what a new shape costs. `words`: more options of
        `lagoon infer`."""
        for index, inputs in enumerate(cases):
            request = folder / f"{index:03}"
            request.mkdir(parents=True)
            for name, array in inputs.items():
                np.save(request / file_name(name), array)
        try:
            result = self.command("infer", path, "--workers", self.workers, "--requests", folder, *words)
        except subprocess.TimeoutExpired:
            return [Run(refused=f"no answer in {SECONDS} s")] * len(cases), []
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        runs = [read_run(line, folder / f"{index:03}" / "outputs", names)
                for index, line in enumerate(lines[:len(cases)])]
        # A crash, or a file that cannot be read, ends the process: the rest has no answer.
        runs += [Run(refused=refusal(result, path))] * (len(cases) - len(runs))
        return runs, sorted({op for line in lines for op in line.get("opaque", [])})


def read_run(line, outputs, names):
    """The Run that `lagoon infer --requests` printed as one line."""
    if "error" in line:
        return Run(refused=without_path(line["error"]))
    found = {name: np.load(outputs / file_name(name)) for name in names
             if (outputs / file_name(name)).exists()}
    return Run(found, "", line["new_shape_ms"], line["latency_ms"],
               line.get("revoked_identical", True))


def without_path(text):
    """A message without the path of the model's file."""
    return re.sub(r"\S+\.onnx: ", "", text.removeprefix("lagoon: "))


def refusal(result, path):
    """The last line that a failed command said; a signal is a crash."""
    lines = result.stderr.strip().splitlines() or ["no message"]
    text = without_path(lines[-1]).replace(str(path), path.name)
    return f"CRASH (signal {-result.returncode}): {text}" if result.returncode < 0 else text
