#!/usr/bin/env python3
"""Runs the corpus of tests/corpus.json with ONNX Runtime and with `lagoon infer`, and compares.

All engines have as many threads, one unless --threads says more. Each model runs with several shapes. An answer of Lagoon is right or
wrong, or the request is refused with a message. `./run corpus` calls this program.
"""

import argparse
import importlib.util
import json
import math
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models"))

from corpus import CorpusError  # pylint: disable=wrong-import-position
from corpus.catalogue import read  # pylint: disable=wrong-import-position
from corpus.inputs import make_inputs  # pylint: disable=wrong-import-position
from corpus.make import FILES, choose, make_all  # pylint: disable=wrong-import-position
import corpus_report  # pylint: disable=wrong-import-position
from corpus_answers import compare  # pylint: disable=wrong-import-position
from corpus_engines import Lagoon, OnnxRuntime, OpenVino  # pylint: disable=wrong-import-position
from corpus_report import Case, Result  # pylint: disable=wrong-import-position


def moved_a_little(arrays, seed):
    """The same tensors with every fp32 element larger or smaller by a millionth of itself."""
    random = np.random.default_rng(seed)
    return {name: array * (1 + 1e-6 * random.choice([-1, 1], array.shape)).astype(np.float32)
            if array.dtype == np.float32 else array for name, array in arrays.items()}


def judge(model, sizes, reference, plain, run, moved, openvino_ms):
    """`reference`: ONNX Runtime's Run; `plain`: its outputs without optimisations; `moved`: a
    function of a seed that gives the same for inputs that differ by a millionth."""
    noise = compare(plain, reference.outputs, model.tolerance).error
    times = {"new_shape_ms": run.new_shape_ms, "latency_ms": run.latency_ms,
             "onnxruntime_ms": reference.latency_ms, "openvino_ms": openvino_ms}
    if run.refused:
        return Case(sizes, "refused", run.refused, noise=noise, **times)
    if not run.identical:
        return Case(sizes, "wrong", "revoked runs gave other bits", noise=noise, **times)
    verdict = compare(run.outputs, reference.outputs, model.tolerance)
    if verdict.wrong:
        # Without its optimisations ONNX Runtime computes what the file says, op by op.
        literal = compare(run.outputs, plain, model.tolerance)
        verdict = verdict if literal.wrong else literal
    if verdict.wrong and any(compare(moved(seed), plain, model.tolerance).wrong
                             for seed in range(5)):
        return Case(sizes, "undecided", "ONNX Runtime's own answers to inputs that differ by a "
                    "millionth differ as much", verdict.error, noise, **times)
    return Case(sizes, "wrong" if verdict.wrong else "right", verdict.wrong, verdict.error, noise,
                **times)


def measure_openvino(path, inputs, threads, seconds):
    engine = OpenVino(path, threads)
    return [engine.latency_ms(arrays, seconds) for arrays in inputs]


def openvino_latencies(path, inputs, words):
    """A time for each of `inputs`; not a number where OpenVINO does not run the model. OpenVINO has a
    process of its own, because it crashes on some models."""
    if not words.openvino:
        return [math.nan] * len(inputs)
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        try:
            return pool.submit(measure_openvino, path, inputs, words.threads, words.seconds).result()
        except RuntimeError:  # OpenVINO's own errors, and a pool whose process is gone
            return [math.nan] * len(inputs)


def run_model(model, path, lagoon, words):
    inputs = [make_inputs(model.inputs, sizes) for sizes in model.cases]
    theirs = OnnxRuntime(path, words.threads)
    references = [theirs.run(arrays, words.seconds) for arrays in inputs]
    openvino = openvino_latencies(path, inputs, words)
    plains = [theirs.answer(arrays, optimised=False) for arrays in inputs]
    with tempfile.TemporaryDirectory() as folder:
        runs, opaque = lagoon.run(path, inputs, theirs.names, pathlib.Path(folder),
                                  ["--seconds", words.seconds, "--revocations", words.revocations])
    moved = [lambda seed, arrays=arrays: theirs.answer(moved_a_little(arrays, seed),
                                                       optimised=False) for arrays in inputs]
    cases = [judge(model, *parts)
             for parts in zip(model.cases, references, plains, runs, moved, openvino)]
    return Result(model.id, model.kind, path.stat().st_size / 1e6, cases, opaque)


class Progress:
    """A bar on a terminal; elsewhere a line for each model."""

    def __init__(self, steps):
        self.steps, self.done = steps, 0
        self.terminal = sys.stderr.isatty()

    def step(self, text):
        self.done += 1
        filled = 30 * self.done // self.steps
        bar = f"corpus [{'#' * filled}{'.' * (30 - filled)}] {self.done}/{self.steps} {text}"
        print(f"\r\033[K{bar}" if self.terminal else bar, end="" if self.terminal else "\n",
              file=sys.stderr, flush=True)

    def close(self):
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def run_all(models, names, words, unmade):
    """A Result for each model, in order. A model that ONNX Runtime does not run goes to `unmade`."""
    lagoon = Lagoon(words.lagoon, words.threads)
    results, progress = [], Progress(len(names))
    for name in names:
        path = words.files / models[name].file
        try:
            results.append(run_model(models[name], path, lagoon, words))
            progress.step(f"{name}: {results[-1].verdict}")
        except Exception as error:  # ONNX Runtime's have no common base class
            unmade[name] = str(error).strip().splitlines()[0]
            progress.step(f"{name}: {unmade[name]}")
    progress.close()
    return results


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run corpus", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="PATTERN", help="ids with * and ?, such as 'bert*,gpt2'")
    parser.add_argument("--list", action="store_true", help="list the models and stop")
    parser.add_argument("--small", action="store_true", help="only the models that the tests run")
    parser.add_argument("--make", action="store_true", help="make the files and stop")
    parser.add_argument("--force", action="store_true", help="make the files even if they are there")
    parser.add_argument("--files", type=pathlib.Path, metavar="DIR",
                        default=pathlib.Path(os.environ.get("LAGOON_CORPUS", FILES)),
                        help="folder of the files (default: $LAGOON_CORPUS, or models/corpus/files)")
    parser.add_argument("--lagoon", type=pathlib.Path, default=ROOT / "build/release/apps/lagoon",
                        metavar="FILE", help="the lagoon command (default: that of build/release)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the report to FILE")
    parser.add_argument("--seconds", type=float, default=0.3,
                        help="how long a shape is measured on each engine (default: 0.3)")
    parser.add_argument("--threads", type=int, default=1, help="of each engine (default: 1)")
    parser.add_argument("--openvino", action="store_true",
                        help="measure OpenVINO too (`.venv/bin/pip install openvino`)")
    parser.add_argument("--revocations", type=int, default=0,
                        help="also revoke each case so often at random, which must not change a bit "
                        "(default: 0)")
    return parser.parse_args()


def print_list(models, names):
    for name in names:
        model = models[name]
        print(f"{name:40} {model.kind:13} {len(model.cases)} shapes  {json.dumps(model.source)}")


def write(results, unmade, words):
    lagoon = Lagoon(words.lagoon)
    content = corpus_report.report(
        results, unmade, {"only": words.only, "small": words.small, "seconds": words.seconds,
                          "revocations": words.revocations, "threads": words.threads, "openvino": words.openvino}, lagoon.version(), lagoon.level())
    if words.json:
        corpus_report.write_json(words.json, content)
    for result in results:
        if result.status != "right":
            print(f"{result.verdict} {result.id}: {corpus_report.reason(result)}")
    for name, value in content["metrics"].items():
        if "." not in name:
            print(f"{name} {value:.4g}")


def main():
    words = parse_arguments()
    if words.openvino and importlib.util.find_spec("openvino") is None:
        raise CorpusError("--openvino needs OpenVINO: `.venv/bin/pip install openvino`")
    models = read()
    names = [name for name in choose(models, words.only) if models[name].small or not words.small]
    if words.list:
        print_list(models, names)
        return 0
    unmade = make_all(names, models, words.files, words.force)
    if words.make:
        return 1 if unmade else 0
    if not os.access(words.lagoon, os.X_OK):
        raise CorpusError(f"there is no command '{words.lagoon}'; ./run build makes it")
    results = run_all(models, [name for name in names if name not in unmade], words, unmade)
    write(results, unmade, words)
    return 1 if unmade or any(result.status == "wrong" for result in results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CorpusError as error:
        sys.exit(f"corpus: {error}")
