#!/usr/bin/env python3
"""SPLIT's Table 3 on this machine: the parts that `lagoon split --onnx` cuts, run by ONNX Runtime one after the other.

    split_parts.py LAGOON MODEL... [--parts 2,3,4] [--rounds 50] [--json FILE]

MODEL is an .onnx file or a model's folder. All runs are on one thread. Metrics for model M and number of parts N, as
medians over the rounds, in which the whole model and the parts of each N take turns:
  split_whole_ms_measured.M            the model in one file
  split_overhead_measured.M.pN         time of all parts over that of the whole, less 1
  split_sigma_ms_measured.M.pN         standard deviation of the parts' times, each the median of its rounds
  split_overhead_predicted.M.pN, split_sigma_ms_predicted.M.pN     by the costs of `lagoon split --cost onnx`
  split_overheads_rise.M               1: the measured overheads rise with the number of parts, as the paper's do for ResNet-50
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime


class Refused(Exception):
    """A model that cannot be measured, and why."""


def open_session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def made_up(session):
    """{input name: array}. Open dimensions are 1."""
    random = np.random.default_rng(1)
    inputs = {}
    for one in session.get_inputs():
        dims = [size if isinstance(size, int) else 1 for size in one.shape]
        if one.type == "tensor(float)":
            inputs[one.name] = random.standard_normal(dims).astype(np.float32)
        elif one.type in ("tensor(int64)", "tensor(int32)"):
            inputs[one.name] = np.ones(dims, one.type[len("tensor("):-1])
        else:
            raise Refused(f"input '{one.name}' is of type {one.type}; split_parts.py makes float, int64 and int32")
    return inputs


class Chain:
    """Files that are run in turn, each with values of the model's inputs and of files before."""

    def __init__(self, files, inputs):
        self.parts = [(open_session(path), names) for path, names in files]
        self.inputs = inputs
        self.rounds = []  # of each the milliseconds of all parts

    def run(self):
        values = dict(self.inputs)
        times = []
        for session, names in self.parts:
            begin = time.perf_counter()
            results = session.run(None, {name: values[name] for name in names})
            values.update(zip((output.name for output in session.get_outputs()), results))
            times.append((time.perf_counter() - begin) * 1e3)
        self.rounds.append(times)

    def total_ms(self):
        return statistics.median(map(sum, self.rounds))

    def sigma_ms(self):
        return statistics.pstdev(map(statistics.median, zip(*self.rounds)))


def split(lagoon, model, parts, folder):
    """Cuts the model. Returns the files with the names of their inputs, and the report's metrics."""
    report = folder / "report.json"
    done = subprocess.run([lagoon, "split", model, "--parts", str(parts), "--onnx", folder, "--json", report],
                          capture_output=True, text=True)
    if done.returncode != 0 or not report.is_file():
        raise Refused(f"{model} in {parts} parts: {done.stderr.strip() or f'{lagoon} has written no report'}")
    files = json.loads((folder / "parts.json").read_text())["parts"]
    return [(folder / part["file"], part["inputs"]) for part in files], json.loads(report.read_text())["metrics"]


def measure(lagoon, model, numbers, rounds, metrics):
    path = pathlib.Path(model)
    file = path if path.is_file() else next(iter(sorted(path.glob("*/model.onnx"))), None)
    if file is None:
        raise Refused(f"{model}: neither a file nor a folder with VERSION/model.onnx")
    name = path.stem if path.is_file() else path.name
    with tempfile.TemporaryDirectory(prefix="lagoon-split-") as folder:
        session = open_session(file)
        inputs = made_up(session)
        whole = Chain([(file, list(inputs))], inputs)
        chains = {}
        for parts in numbers:
            into = pathlib.Path(folder) / str(parts)
            into.mkdir()
            files, predicted = split(lagoon, model, parts, into)
            chains[parts] = Chain(files, inputs)
            for kind in ("overhead", "sigma_us"):
                value = next(value for key, value in predicted.items()
                             if key.startswith(f"split_{kind}.") and key.endswith(f".{parts}.onnx"))
                key = "sigma_ms" if kind == "sigma_us" else kind
                metrics[f"split_{key}_predicted.{name}.p{parts}"] = value / 1e3 if kind == "sigma_us" else value
        for turn in range(rounds + 1):
            for chain in (whole, *chains.values()):
                chain.run()
            if turn == 0:  # the first run of a session prepares it
                for chain in (whole, *chains.values()):
                    chain.rounds.clear()
    metrics[f"split_whole_ms_measured.{name}"] = whole.total_ms()
    for parts, chain in chains.items():
        metrics[f"split_overhead_measured.{name}.p{parts}"] = chain.total_ms() / whole.total_ms() - 1
        metrics[f"split_sigma_ms_measured.{name}.p{parts}"] = chain.sigma_ms()
    if len(numbers) < 2:
        return
    overheads = [metrics[f"split_overhead_measured.{name}.p{parts}"] for parts in numbers]
    metrics[f"split_overheads_rise.{name}"] = int(overheads == sorted(overheads))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lagoon")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--parts", default="2,3,4", help="numbers of parts")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", help="write the report to this file instead of stdout")
    words = parser.parse_args()
    try:
        numbers = sorted({int(word) for word in words.parts.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 2 or words.rounds < 1:
        parser.error(f"--parts is '{words.parts}' and --rounds {words.rounds}; they take numbers from 2, and from 1")
    if shutil.which(words.lagoon) is None:
        parser.error(f"there is no program '{words.lagoon}'")
    if words.json and not os.access(pathlib.Path(words.json).resolve().parent, os.W_OK):
        parser.error(f"--json: '{words.json}' cannot be written")
    metrics, failures = {}, []
    for at, model in enumerate(words.models, 1):
        print(f"split_parts: {model} ({at} of {len(words.models)})", file=sys.stderr)
        try:
            measure(words.lagoon, model, numbers, words.rounds, metrics)
        except Refused as refused:
            failures.append(str(refused))
            print(f"split_parts: {refused}", file=sys.stderr)
    report = {"benchmark": "split-parts", "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
              "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "configuration": {"models": words.models, "parts": numbers, "rounds": words.rounds, "threads": 1,
                                "onnxruntime": onnxruntime.__version__},
              "metrics": metrics, "failures": failures}
    text = json.dumps(report, indent=1) + "\n"
    if words.json:
        pathlib.Path(words.json).write_text(text)
    else:
        print(text, end="")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
