#!/usr/bin/env python3
"""Runs several models in this one process, each on a thread of its own, as a program does that has no server: driven line by line
by `lagoon bench in-process`.

    in_process_worker.py ENGINE --model NAME FILE CLASS... [--input MODEL NAME AxBxC FILE]...

ENGINE: "ort" (ONNX Runtime's own CPU provider), "plugin" (ONNX Runtime with Lagoon's plug-in), or "lagoon" (liblagoon). The
process reads one JSON object per line from stdin and answers each with one line on stdout; everything else that is printed goes
to stderr. The answer to a failure is {"ok": false, "error": TEXT}. The end of stdin ends the process.

  {"cmd": "info"}
      -> engine, version, load_ms by model; "plugin" also on_lagoon: [nodes that run on Lagoon, nodes] by model
  {"cmd": "window", "start_ns": T, "end_ns": U, "loops": [NAME...], "control": NAME or null, "period_ns": P}
      every model of `loops` in a closed loop from T to U; `control` once in each period, with the end of the period as deadline
      -> loops: {NAME: latencies_us} of the runs that began until U, or of one run
         control: "latencies_us" from the beginning of the period and "runs_us" from the call, of runs that ended; how many periods
         had none in time: "late" (the run ended later), "given_up" (the engine ended it at its deadline), "skipped" (an earlier
         run lasted until the end of the period)
  {"cmd": "in_turn", "end_ns": U}
      one thread runs the models one after the other until U -> latencies_us by model
  {"cmd": "empty", "runs": N, "apart_ns": A}
      N runs of a model that adds four numbers to four others, each A after the end of the one before -> latencies_us

Times are CLOCK_MONOTONIC in ns.
"""

import argparse
import json
import os
import pathlib
import sys
import threading
import time

import numpy as np

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "python" / part) for part in ("", "ort")]
from comparator_worker import TYPES, RequestError, get_integer, prepare_process, read_input, serve, sleep_until  # noqa: E402

WARM_UP = 5
CLASSES = ("real-time", "best-effort")
NEVER_NS = 2**63 - 1


class Late(Exception):
    """The engine has ended a run at its deadline."""


class OrtModel:
    def __init__(self, session, feed):
        self.session, self.feed = session, feed

    def run(self, due_ns=None):  # pylint: disable=unused-argument
        """With the plug-in, the session's own deadline holds."""
        try:
            return self.session.run(None, self.feed)
        except Exception as error:
            if "deadline exceeded" in str(error):
                raise Late from error
            raise


class Ort:
    """ONNX Runtime with a session for each model: its own provider, or the plug-in."""

    def __init__(self, words):
        import onnxruntime
        self.runtime, self.words = onnxruntime, words
        self.version = onnxruntime.__version__
        self.plugin = words.engine == "plugin"
        onnxruntime.set_default_logger_severity(4)

    def options(self, job_class, deadline_us):
        if self.plugin:
            import lagoon_ort
            settings = {"class": job_class, "workers": self.words.threads, "deadline_us": deadline_us}
            return lagoon_ort.options({key: value for key, value in settings.items() if value})
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = self.words.threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if self.words.spinning else "0")
        return options

    def load(self, file, job_class, inputs, deadline_us=0):
        options = self.options(job_class, deadline_us)
        options.log_severity_level = 4  # a run that is ended at its deadline is logged as an error
        if self.plugin:
            options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        session = self.runtime.InferenceSession(
            file, options, providers=None if self.plugin else ["CPUExecutionProvider"], enable_fallback=0)
        return OrtModel(session, inputs({info.name: info.type for info in session.get_inputs()}))

    @staticmethod
    def on_lagoon(model):
        """[nodes that run on Lagoon, nodes]"""
        parts = [(part.ep_name, len(part.get_nodes())) for part in model.session.get_provider_graph_assignment_info()]
        return [sum(count for name, count in parts if name == "LagoonExecutionProvider"), sum(count for _, count in parts)]


class LagoonModel:
    def __init__(self, prepared, failed):
        self.prepared, self.failed = prepared, failed

    def run(self, due_ns=None):
        try:
            due_ms = None if due_ns is None else max(due_ns - time.perf_counter_ns(), 1) / 1e6
            return list(self.prepared.sync(due_ms).values())
        except self.failed as error:
            if error.code == "deadline exceeded":
                raise Late from error
            raise


class Lagoon:
    """Runs the models with liblagoon, on one device. Each model has its class."""

    def __init__(self, words):
        from lagoon import local
        self.local = local
        self.version = local.version()
        self.device = local.Device(workers=words.threads)

    def load(self, file, job_class, inputs, deadline_us=0):  # pylint: disable=unused-argument
        """Each run says its own deadline."""
        model = self.device.load(file, job_class=job_class)
        types = {np.dtype(kind): name for name, kind in TYPES.items()}
        feed = inputs({info.name: types.get(info.dtype, str(info.dtype)) for info in model.inputs})
        return LagoonModel(model.prepare(feed), self.local.Failed)


ENGINES = {"ort": Ort, "plugin": Ort, "lagoon": Lagoon}


def addition():
    """The bytes of a model: z = x + y, four floats each."""
    from onnx import TensorProto, helper
    floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xyz"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "empty", floats[:2], floats[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


class Spec:
    """An input, as read_input() takes it."""

    def __init__(self, kind):
        self.type = kind


class Worker:
    def __init__(self, words):
        self.words = words
        self.engine = ENGINES[words.engine](words)
        self.models, self.load_ms = {}, {}
        given = {}
        for model, name, sizes, file in words.input:
            given.setdefault(model, {})[name] = (sizes, file)
        for name, file, job_class in words.model:
            if job_class not in CLASSES:
                raise RequestError(f"model '{name}' has class '{job_class}', which is one of {', '.join(CLASSES)}")

            def inputs(types, model=name):
                if missing := types.keys() - given.get(model, {}).keys():
                    raise RequestError(f"model '{model}': no --input for {sorted(missing)}")
                return {one: read_input(Spec(kind), *given[model][one]) for one, kind in types.items()}

            begin = time.perf_counter_ns()
            self.models[name] = self.engine.load(file, job_class, inputs, words.deadline_us if job_class == "real-time" else 0)
            self.load_ms[name] = (time.perf_counter_ns() - begin) / 1e6
        numbers = {name: np.arange(4, dtype=np.float32) for name in "xy"}
        self.empty = self.engine.load(addition(), "real-time", lambda _: numbers)
        for model in (*self.models.values(), self.empty):
            for _ in range(WARM_UP):
                try:
                    answer = model.run()
                except Late:
                    continue
        if not np.array_equal(answer[0], 2 * numbers["x"]):
            raise RequestError(f"{numbers['x']} + {numbers['y']} is said to be {answer[0]}")

    def info(self, _):
        found = {"engine": self.words.engine, "version": self.engine.version, "load_ms": self.load_ms,
                 "nice": os.getpriority(os.PRIO_PROCESS, 0)}
        if self.words.engine == "plugin":
            found["on_lagoon"] = {name: self.engine.on_lagoon(model) for name, model in self.models.items()}
        return found

    def named(self, name):
        if name not in self.models:
            raise RequestError(f"there is no model {name!r}; there are {sorted(self.models)}")
        return self.models[name]

    def window(self, request):
        start, end = (get_integer(request, key, None, NEVER_NS) for key in ("start_ns", "end_ns"))
        found, threads = {}, []
        for name in request.get("loops", []):
            threads.append(Caller(found, name, closed_loop, self.named(name), start, end))
        control = request.get("control")
        if control is not None:
            period = get_integer(request, "period_ns", None, NEVER_NS)
            threads.append(Caller(found, None, control_loop, self.named(control), start, end, period))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for thread in threads:
            if thread.failed is not None:
                raise thread.failed
        return {"control": found.pop(None, None), "loops": found}

    def in_turn(self, request):
        end = get_integer(request, "end_ns", None, NEVER_NS)
        latencies = {name: [] for name in self.models}
        while time.perf_counter_ns() < end:
            for name, model in self.models.items():
                begin = time.perf_counter_ns()
                try:
                    model.run()
                except Late:
                    continue
                latencies[name].append((time.perf_counter_ns() - begin) / 1e3)
        return {"latencies_us": latencies}

    def empty_runs(self, request):
        apart = get_integer(request, "apart_ns", 0, NEVER_NS)
        latencies = []
        for _ in range(get_integer(request, "runs", 1, 1_000_000)):
            if apart:
                sleep_until(time.perf_counter_ns() + apart)
            begin = time.perf_counter_ns()
            self.empty.run()
            latencies.append((time.perf_counter_ns() - begin) / 1e3)
        return {"latencies_us": latencies}

    def answer(self, line):
        try:
            request = json.loads(line)
            commands = {"info": self.info, "window": self.window, "in_turn": self.in_turn, "empty": self.empty_runs}
            command = request.get("cmd") if isinstance(request, dict) else None
            if command not in commands:
                raise RequestError(f"unknown cmd {command!r}, known: {', '.join(commands)}")
            return {"ok": True, **commands[command](request)}
        except Exception as error:  # the engines have no common base class
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}


class Caller(threading.Thread):
    """Calls a function on a thread of its own and keeps what it returns in `found[key]`."""

    def __init__(self, found, key, function, *words):
        super().__init__()
        self.found, self.key, self.function, self.words = found, key, function, words
        self.failed = None

    def run(self):
        try:
            self.found[self.key] = self.function(*self.words)
        except Exception as error:  # raised again by the thread that answers
            self.failed = error


def closed_loop(model, start, end):
    latencies = []
    sleep_until(start)
    while (begin := time.perf_counter_ns()) < end or not latencies:
        try:
            model.run()
        except Late:  # a real-time model in a closed loop: it took as long as its deadline
            pass
        latencies.append((time.perf_counter_ns() - begin) / 1e3)
    return latencies


def control_loop(model, start, end, period):
    latencies, runs = [], []
    missed = {"late": 0, "given_up": 0, "skipped": 0}
    for tick in range(start, end - period + 1, period):
        due = tick + period
        sleep_until(tick)
        begin = time.perf_counter_ns()
        if begin >= due:
            missed["skipped"] += 1
            continue
        try:
            model.run(due)
        except Late:
            missed["given_up"] += 1
            continue
        now = time.perf_counter_ns()
        latencies.append((now - tick) / 1e3)
        runs.append((now - begin) / 1e3)
        missed["late"] += now > due
    return {"latencies_us": latencies, "runs_us": runs, **missed}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--model", nargs=3, action="append", default=[], metavar=("NAME", "FILE", "CLASS"), help=f"CLASS: {', '.join(CLASSES)}")
    parser.add_argument("--input", nargs=4, action="append", default=[], metavar=("MODEL", "NAME", "AxBxC", "FILE"),
                        help="values of an input, as raw numbers")
    parser.add_argument("--threads", type=int, default=0, help="of a session, or of Lagoon's device; 0: the engine's default")
    parser.add_argument("--spinning", action=argparse.BooleanOptionalAction, default=True, help="of ONNX Runtime's idle threads")
    parser.add_argument("--deadline-us", type=int, default=0, help="of the plug-in's real-time sessions; 0: none")
    parser.add_argument("--nice", type=int, default=0, help="of this process; 19 is the weakest")
    parser.add_argument("--library", help="liblagoon.so, or with \"plugin\" liblagoon_ort.so")
    words = parser.parse_args()
    words.cpus, words.policy = None, "normal"
    return words


def main():
    words = parse_arguments()
    if words.library:
        os.environ["LAGOON_ORT_LIBRARY" if words.engine == "plugin" else "LAGOON_LIBRARY"] = words.library

    def open_models():
        prepare_process(words)
        return Worker(words).answer

    return serve(open_models)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(0)
