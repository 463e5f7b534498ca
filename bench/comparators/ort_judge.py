#!/usr/bin/env python3
"""Judges the plug-in for ONNX Runtime by others' tests: the corpus of tests/corpus.json and ONNX's own node tests, each beside ONNX
Runtime's CPU provider. Driven line by line by `lagoon bench in-process`.

    ort_judge.py [--files DIR] [--threads N] [--seconds S]

LAGOON_ORT_LIBRARY names the plug-in. The process reads one JSON object per line from stdin and answers each with one line on
stdout; the answer to a failure is {"ok": false, "error": TEXT}.

  {"cmd": "models", "only": PATTERN}
      -> models: ids of the corpus that match and whose file is in DIR; missing: how many have no file
  {"cmd": "model", "id": ID}
      all shapes of a model, in a process of its own -> status ("right", "undecided", "wrong" or "refused"), detail, ratio: the
      plug-in's latency over that of ONNX Runtime, the median over the shapes (null: not known), on_lagoon: [nodes on Lagoon, nodes]
  {"cmd": "nodes", "match": TEXT}
      the node tests with TEXT in their name -> cases, right_and_whole, ..., failed: the names of those that are right without the
      plug-in, and not with it
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python" / "ort")]

from corpus import CorpusError  # noqa: E402
from corpus.catalogue import read  # noqa: E402
from corpus.inputs import make_inputs  # noqa: E402
from corpus.make import FILES, choose  # noqa: E402
import corpus_report  # noqa: E402
import ort_nodes  # noqa: E402
from corpus_engines import MOST_RUNS, OnnxRuntime, Run  # noqa: E402
from run_corpus import judge, moved_a_little  # noqa: E402

SECONDS = 600  # the limit for all shapes of a model


def open_plugin(path, threads):
    import lagoon_ort  # pylint: disable=import-outside-toplevel
    import onnxruntime  # pylint: disable=import-outside-toplevel

    options = lagoon_ort.options({"class": "real-time", "workers": threads})
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return onnxruntime.InferenceSession(str(path), options, enable_fallback=0)


def time_in_turns(runs, seconds):
    """The median of each of `runs`, in milliseconds: one run of each, again and again."""
    times = [[] for _ in runs]
    until = time.perf_counter() + seconds * len(runs)
    while not times[0] or (time.perf_counter() < until and len(times[0]) < MOST_RUNS):
        for run, taken in zip(runs, times):
            begin = time.perf_counter()
            run()
            taken.append((time.perf_counter() - begin) * 1e3)
    return [float(np.median(taken)) for taken in times]


def run_case(model, sizes, theirs, ours, seconds):
    inputs = make_inputs(model.inputs, sizes)
    reference, plain = theirs.answer(inputs), theirs.answer(inputs, optimised=False)
    try:
        answer = dict(zip(theirs.names, ours.run(theirs.names, inputs)))
    except Exception as error:  # ONNX Runtime's have no common base class
        return corpus_report.Case(sizes, "refused", str(error).strip().splitlines()[0][:300])
    their_ms, our_ms = time_in_turns([lambda: theirs.session.run(theirs.names, inputs), lambda: ours.run(theirs.names, inputs)], seconds)
    moved = lambda seed: theirs.answer(moved_a_little(inputs, seed), optimised=False)
    return judge(model, sizes, Run(reference, latency_ms=their_ms), plain, Run(answer, latency_ms=our_ms), moved, math.nan)


def run_model(name, words):
    model = read()[name]
    path = words.files / model.file
    theirs = OnnxRuntime(path, words.threads)
    ours = open_plugin(path, words.threads)
    cases = [run_case(model, sizes, theirs, ours, words.seconds) for sizes in model.cases]
    result = corpus_report.Result(model.id, model.kind, 0, cases)
    parts = [(part.ep_name, len(part.get_nodes())) for part in ours.get_provider_graph_assignment_info()]
    return corpus_report.without_nan({
        "status": result.status, "detail": next((case.detail for case in cases if case.status == result.status), ""),
        "ratio": corpus_report.ratio(result),
        "on_lagoon": [sum(count for part, count in parts if part == "LagoonExecutionProvider"), sum(count for _, count in parts)]})


def in_a_process(name, words):
    """run_model() in a process of its own: a crash is found, and the others still run."""
    line = [sys.executable, "-W", "ignore", __file__, "--one", name, "--files", str(words.files), "--threads", str(words.threads),
            "--seconds", str(words.seconds)]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"status": "refused", "detail": f"no answer in {SECONDS} s", "ratio": None, "on_lagoon": [0, 0]}
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1][:300]
        return {"status": "refused", "detail": f"exit {done.returncode}: {said}", "ratio": None, "on_lagoon": [0, 0]}
    return json.loads(done.stdout.splitlines()[-1])


def list_models(request, words):
    models = read()
    names = choose(models, request.get("only"))
    made = [name for name in names if (words.files / models[name].file).exists()]
    return {"models": made, "missing": len(names) - len(made)}


def judge_nodes(request):
    counts, worse = ort_nodes.summary(ort_nodes.run_all(request.get("match", "")))
    return {**counts, "failed": {name: str(own)[:300] for name, own in worse.items()}}


def answer(line, words):
    try:
        request = json.loads(line)
        command = request.get("cmd") if isinstance(request, dict) else None
        if command == "models":
            return {"ok": True, **list_models(request, words)}
        if command == "model":
            return {"ok": True, **in_a_process(request["id"], words)}
        if command == "nodes":
            return {"ok": True, **judge_nodes(request)}
        raise ValueError(f"unknown cmd {command!r}, known: models, model, nodes")
    except (CorpusError, RuntimeError, ValueError, KeyError) as error:
        return {"ok": False, "error": f"{type(error).__name__}: {error}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=pathlib.Path, default=FILES, help="folder of the corpus' files")
    parser.add_argument("--threads", type=int, default=1, help="of each engine (default: 1)")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long a shape is measured on each engine (default: 0.3)")
    parser.add_argument("--library", help="the plug-in, in place of that of LAGOON_ORT_LIBRARY")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.library:
        os.environ["LAGOON_ORT_LIBRARY"] = words.library
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of libraries must not get between the replies
    if words.one:
        print(json.dumps(run_model(words.one, words)), file=replies, flush=True)
        return 0
    for line in sys.stdin:
        print(json.dumps(answer(line, words)), file=replies, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
