"""Models through the plug-in for ONNX Runtime, beside ONNX Runtime alone: do they agree, and how long does a run take?

    ort_plugin.py MODEL.onnx... [--threads N] [--seconds S] [--json FILE]

LAGOON_ORT_LIBRARY names the plug-in. Each model runs in a process of its own, in turns: one run with ONNX Runtime as it
comes, one with its best setting (as many threads, without spinning), one with the plug-in. Open dims are 1; contents are
made up. The report is a table: milliseconds, medians.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "ort"))

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8, "tensor(bool)": np.bool_}
WARM_UP = 3


def feed(session):
    random = np.random.default_rng(0)
    inputs = {}
    for info in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in info.shape]
        kind = TYPES[info.type]
        values = random.standard_normal(shape) if np.issubdtype(kind, np.floating) else np.ones(shape)
        inputs[info.name] = values.astype(kind)
    return inputs


def session_of(path, kind, threads):
    import onnxruntime  # pylint: disable=import-outside-toplevel

    import lagoon_ort  # pylint: disable=import-outside-toplevel

    if kind == "plug-in":
        options = lagoon_ort.options({"class": "real-time", "workers": threads})
    else:
        options = onnxruntime.SessionOptions()
        if kind == "best":
            options.intra_op_num_threads = threads
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return onnxruntime.InferenceSession(str(path), options)


def measure(path, threads, seconds):
    sessions = {kind: session_of(path, kind, threads) for kind in ("default", "best", "plug-in")}
    inputs = feed(sessions["best"])
    outputs = {kind: session.run(None, inputs) for kind, session in sessions.items()}
    error = 0.0
    for got, want in zip(outputs["plug-in"], outputs["best"]):
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        assert got.shape == want.shape, (got.shape, want.shape)
        if want.size:
            error = max(error, float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30)))
    nodes = {True: 0, False: 0}
    for part in sessions["plug-in"].get_provider_graph_assignment_info():
        nodes[part.ep_name == "LagoonExecutionProvider"] += len(part.get_nodes())
    times = {kind: [] for kind in sessions}
    for session in sessions.values():
        for _ in range(WARM_UP):
            session.run(None, inputs)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for kind, session in sessions.items():
            begin = time.perf_counter()
            session.run(None, inputs)
            times[kind].append((time.perf_counter() - begin) * 1e3)
    return {"error": error, "claimed": nodes[True], "nodes": nodes[True] + nodes[False], "runs": len(times["best"]),
            **{kind: float(np.median(values)) for kind, values in times.items()}}


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("models", nargs="+", type=pathlib.Path)
    words.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    words.add_argument("--seconds", type=float, default=3)
    words.add_argument("--json", type=pathlib.Path)
    words.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    words = words.parse_args()
    if words.one:
        print(json.dumps(measure(words.models[0], words.threads, words.seconds)))
        return 0
    report = {}
    print(f"{'model':<28} {'nodes':>11} {'error':>8} {'default':>9} {'best':>9} {'plug-in':>9} {'/best':>6}")
    for path in words.models:
        done = subprocess.run([sys.executable, __file__, str(path), "--one", "--threads", str(words.threads), "--seconds",
                               str(words.seconds)], capture_output=True, text=True, timeout=600, check=False)
        name = path.stem if path.stem != "model" else path.parts[-3]
        if done.returncode != 0:
            report[name] = {"failed": done.stderr[-1000:]}
            print(f"{name:<28} failed: {done.stderr.strip().splitlines()[-1][:200] if done.stderr else done.returncode}")
            continue
        row = report[name] = json.loads(done.stdout.splitlines()[-1])
        print(f"{name:<28} {row['claimed']:>5}/{row['nodes']:<5} {row['error']:>8.1e} {row['default']:>9.3f} {row['best']:>9.3f} "
              f"{row['plug-in']:>9.3f} {row['plug-in'] / row['best']:>6.2f}", flush=True)
    if words.json:
        words.json.write_text(json.dumps({"threads": words.threads, "load": os.getloadavg()[0], "models": report}, indent=1))
    return 1 if any("failed" in row for row in report.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
