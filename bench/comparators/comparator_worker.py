#!/usr/bin/env python3
"""Runs one ONNX model with ONNX Runtime or OpenVINO, driven line by line: the comparator of `lagoon bench`.

One process has one session, as if a user ran two models side by side. The process reads one JSON
object per line from stdin and answers each with one line on stdout; everything else that is printed
goes to stderr. The answer to a failure is {"ok": false, "error": TEXT}, and the process goes on. If
the session cannot be made, the process gives this answer once and exits with 1. The end of stdin or
{"cmd": "quit"} ends the process with 0.

  {"cmd": "info"}
      -> settings, model, versions, load_ms, rss_kib now, peak_rss_kib so far
  {"cmd": "run", "n": N, "warmup": K}
      closed loop of K untimed and N timed runs -> latencies_us: N numbers
  {"cmd": "open_loop", "arrivals_us": [...], "start_ns": T, "newest": false, "give_up_ns": U}
      one run for each intended arrival (ascending offsets from T); a late one begins at once
      -> for each arrival latencies_us, from the intended arrival to the end of its run, and
         starts_us, to the beginning of its run; ends_us, the ends of the runs as offsets from T
      With "newest", arrivals that a newer one has overtaken have no run, as with DISB's client, and
      latencies_us count from the beginning of a run; from_arrival_us is as without "newest"
      No run begins from U on, where it is given: the arrivals that are left are in no list
  {"cmd": "loop", "start_ns": T, "end_ns": U}
      closed loop from T until U; a run in progress at U is finished
      -> count, runs that ended by U; completions_us, the ends of all runs as offsets from T
  {"cmd": "values", "folder": FOLDER}
      one run; writes inputs and outputs as raw numbers in C order to FOLDER/input-0 and so on
      -> inputs, outputs: name and file of each

Times are CLOCK_MONOTONIC in ns, like std::chrono::steady_clock on Linux. A T that is left out means
now. The engine is as fast as it can be in fp32: all graph optimisations, inputs and outputs
preallocated and bound, one stream.
"""

import argparse
import ctypes
import dataclasses
import gc
import json
import os
import sys
import time

import numpy as np

MAX_RUNS = 1_000_000
MAX_WINDOW_NS = 3_600_000_000_000
NEVER_NS = 2**63 - 1
PR_SET_TIMERSLACK = 29
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
         "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8,
         "tensor(int8)": np.int8, "tensor(bool)": np.bool_}
# The same by the numbers of onnx.TensorProto.
ONNX_TYPES = {1: "float", 11: "double", 10: "float16", 7: "int64", 6: "int32", 2: "uint8", 3: "int8", 9: "bool"}
POLICIES = {"normal": (os.SCHED_OTHER, 0), "idle": (os.SCHED_IDLE, 0), "fifo": (os.SCHED_FIFO, 1)}


class RequestError(Exception):
    """The caller's request is wrong; the text says why."""


class OnnxRuntime:
    """A session with its inputs and outputs bound once. Only run() is timed."""

    def __init__(self, arguments):
        import onnxruntime
        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = arguments.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        spinning = "1" if arguments.spinning else "0"
        options.add_session_config_entry("session.intra_op.allow_spinning", spinning)
        begin = time.perf_counter_ns()
        self.session = onnxruntime.InferenceSession(
            arguments.model, options, providers=["CPUExecutionProvider"])
        self.load_ms = (time.perf_counter_ns() - begin) / 1e6
        self.value_of = onnxruntime.OrtValue.ortvalue_from_numpy
        self.binding = self.session.io_binding()
        self.inputs_of_file = [Spec(spec.name, spec.shape, spec.type) for spec in self.session.get_inputs()]
        self.outputs_of_file = [Spec(spec.name, spec.shape, spec.type) for spec in self.session.get_outputs()]

    def bind(self, feed):
        names = [spec.name for spec in self.outputs_of_file]
        # One plain run gives the shapes of outputs without fixed dimensions.
        results = self.session.run(names, feed)
        # Kept here, because the binding does not keep them alive.
        self.inputs = {name: self.value_of(array) for name, array in feed.items()}
        self.outputs = {name: self.value_of(array) for name, array in zip(names, results)}
        for name, value in self.inputs.items():
            self.binding.bind_ortvalue_input(name, value)
        for name, value in self.outputs.items():
            self.binding.bind_ortvalue_output(name, value)

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def values(self):
        arrays = lambda values: {name: value.numpy() for name, value in values.items()}
        return arrays(self.inputs), arrays(self.outputs)


def openvino_settings(threads):
    """For the shortest latency in fp32; 0 threads: its own choice."""
    settings = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
                "INFERENCE_PRECISION_HINT": "f32"}  # its default is bf16 where the CPU has that
    return {**settings, "INFERENCE_NUM_THREADS": str(threads)} if threads else settings


class OpenVino:
    """A model compiled for the shapes of its inputs, which are set once. Only run() is timed."""

    def __init__(self, arguments):
        import onnx
        import openvino
        self.openvino, self.version = openvino, openvino.get_version()
        self.core = openvino.Core()
        begin = time.perf_counter_ns()
        self.model = self.core.read_model(arguments.model)
        self.load_ms = (time.perf_counter_ns() - begin) / 1e6
        self.settings = openvino_settings(arguments.threads)
        # OpenVINO forgets the names of open sizes, the file does not.
        graph = onnx.load(arguments.model, load_external_data=False).graph
        weights = {tensor.name for tensor in graph.initializer}
        self.inputs_of_file = [self.spec(value) for value in graph.input if value.name not in weights]
        self.outputs_of_file = [self.spec(value) for value in graph.output]

    def spec(self, value):
        tensor = value.type.tensor_type
        shape = [size.dim_param or size.dim_value or -1 for size in tensor.shape.dim]
        return Spec(value.name, shape, f"tensor({ONNX_TYPES.get(tensor.elem_type, tensor.elem_type)})")

    def bind(self, feed):
        self.inputs = {name: np.ascontiguousarray(array) for name, array in feed.items()}
        self.model.reshape({name: list(array.shape) for name, array in feed.items()})
        begin = time.perf_counter_ns()
        self.request = self.core.compile_model(self.model, "CPU", self.settings).create_infer_request()
        self.load_ms += (time.perf_counter_ns() - begin) / 1e6
        for name, array in self.inputs.items():
            self.request.set_tensor(name, self.openvino.Tensor(array))
        self.run()

    def run(self):
        self.request.infer()

    def values(self):
        return self.inputs, {spec.name: self.request.get_tensor(spec.name).data
                             for spec in self.outputs_of_file}


ENGINES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}


@dataclasses.dataclass
class Spec:
    """An input or output as the file describes it; `type` in ONNX Runtime's words."""

    name: str
    shape: list
    type: str


class Model:
    """The model on one engine, with random inputs or those of files."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.engine = ENGINES[arguments.engine](arguments)
        random = np.random.default_rng(arguments.seed)
        files = {name: (sizes, file) for name, sizes, file in arguments.input}
        specs = {spec.name: spec for spec in self.engine.inputs_of_file}
        if unknown := files.keys() - specs.keys():
            raise RequestError(f"no inputs {sorted(unknown)}, the model has {sorted(specs)}")
        self.engine.bind({
            name: read_input(spec, *files[name]) if name in files
            else make_input(spec, random, arguments.batch) for name, spec in specs.items()})
        self.load_ms = self.engine.load_ms

    def run(self):
        self.engine.run()

    def info(self):
        describe = lambda specs: [dataclasses.asdict(spec) for spec in specs]
        return {
            "model": self.arguments.model, self.arguments.engine: self.engine.version,
            "threads": self.arguments.threads, "spinning": self.arguments.spinning,
            "cpus": sorted(os.sched_getaffinity(0)), "nice": os.getpriority(os.PRIO_PROCESS, 0),
            "policy": {policy: name for name, (policy, _) in POLICIES.items()}.get(os.sched_getscheduler(0), "other"),
            "inputs": describe(self.engine.inputs_of_file),
            "outputs": describe(self.engine.outputs_of_file),
            "load_ms": self.load_ms, "rss_kib": memory_kib("VmRSS"), "peak_rss_kib": memory_kib("VmHWM"),
            "pid": os.getpid()}


def make_input(spec, random, batch):
    if spec.type not in TYPES:
        raise RequestError(f"input '{spec.name}' has type {spec.type}; the worker cannot fill it")
    shape = [size if isinstance(size, int) and size > 0 else batch if size == "batch" else 1
             for size in spec.shape]
    kind = TYPES[spec.type]
    if np.issubdtype(kind, np.floating):
        return random.standard_normal(shape).astype(kind)
    flags = any(word in spec.name for word in ("mask", "type"))
    return random.integers(0, 2 if flags else 100, shape).astype(kind)


def read_input(spec, sizes, file):
    return np.fromfile(file, TYPES[spec.type]).reshape([int(size) for size in sizes.split("x") if size])


def memory_kib(field):
    """VmHWM is the peak: ru_maxrss starts with the peak of the process that forked this one."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def get_integer(request, key, default, limit):
    value = request.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= limit:
        raise RequestError(f"'{key}' is {value!r}, must be an integer from 0 to {limit}")
    return value


def sleep_until(when_ns):
    """Sleeps until an absolute time. With main()'s timer slack it wakes up within tens of us on an idle CPU."""
    while (left := when_ns - time.perf_counter_ns()) > 0:
        time.sleep(left / 1e9)


def get_start(request):
    now = time.perf_counter_ns()
    start = get_integer(request, "start_ns", now, NEVER_NS)
    if start - now > MAX_WINDOW_NS:
        ahead = (start - now) / 1e9
        raise RequestError(f"'start_ns' is {ahead:.0f} s ahead; the limit is one hour")
    return start


def run_closed(model, request):
    count = get_integer(request, "n", 1, MAX_RUNS)
    for _ in range(get_integer(request, "warmup", 0, MAX_RUNS)):
        model.run()
    latencies = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        model.run()
        latencies.append((time.perf_counter_ns() - begin) / 1e3)
    return {"latencies_us": latencies}


def get_arrivals(request):
    arrivals = request.get("arrivals_us")
    number = lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)
    if not isinstance(arrivals, list) or len(arrivals) > MAX_RUNS or not all(map(number, arrivals)):
        raise RequestError(f"'arrivals_us' must be a list of at most {MAX_RUNS} numbers")
    # This form of the condition is false for NaN too.
    if not all(after >= before for before, after in zip([0, *arrivals], arrivals)):
        raise RequestError("'arrivals_us' must ascend from 0 or more")
    if arrivals and arrivals[-1] * 1e3 > MAX_WINDOW_NS:
        last = arrivals[-1] / 1e6
        raise RequestError(f"the last arrival is at {last:.0f} s; the limit is one hour")
    return arrivals


def run_open_loop(model, request):
    arrivals = [round(offset_us * 1e3) for offset_us in get_arrivals(request)]
    start = get_start(request)
    newest = request.get("newest", False)
    if not isinstance(newest, bool):
        raise RequestError(f"'newest' is {newest!r}, must be true or false")
    give_up = get_integer(request, "give_up_ns", NEVER_NS, NEVER_NS)
    runs = []  # of each run: intended arrival, begin, end
    at = 0
    while at < len(arrivals):
        sleep_until(start + arrivals[at])
        while newest and at + 1 < len(arrivals) and start + arrivals[at + 1] <= time.perf_counter_ns():
            at += 1
        begin = time.perf_counter_ns()
        if begin >= give_up:
            break
        model.run()
        runs.append((start + arrivals[at], begin, time.perf_counter_ns()))
        at += 1
    return {"latencies_us": [(end - (begin if newest else intended)) / 1e3 for intended, begin, end in runs],
            "from_arrival_us": [(end - intended) / 1e3 for intended, _, end in runs],
            "starts_us": [(begin - intended) / 1e3 for intended, begin, _ in runs],
            "ends_us": [(end - start) / 1e3 for _, _, end in runs]}


def run_loop(model, request):
    start = get_start(request)
    end = get_integer(request, "end_ns", None, NEVER_NS)
    if not start <= end <= start + MAX_WINDOW_NS:
        raise RequestError(f"'end_ns' {end} is not within an hour after 'start_ns' {start}")
    sleep_until(start)
    ends = []
    while time.perf_counter_ns() < end:
        model.run()
        ends.append(time.perf_counter_ns())
    return {"count": sum(stamp <= end for stamp in ends),
            "completions_us": [(stamp - start) / 1e3 for stamp in ends]}


def write_values(model, request):
    folder = request.get("folder")
    if not isinstance(folder, str) or not os.path.isdir(folder):
        raise RequestError(f"'folder' is {folder!r}, must be a folder")
    model.run()

    def write(kind, values):
        described = []
        for index, (name, value) in enumerate(values.items()):
            file = os.path.join(folder, f"{kind}-{index}")
            np.ascontiguousarray(value).tofile(file)
            described.append({"name": name, "file": file})
        return described

    inputs, outputs = model.engine.values()
    return {"inputs": write("input", inputs), "outputs": write("output", outputs)}


COMMANDS = {"info": lambda model, _: model.info(), "run": run_closed, "open_loop": run_open_loop,
            "loop": run_loop, "values": write_values}


def answer(model, line):
    """The reply to one line; None ends the process."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {"ok": False, "error": f"not JSON: {error}"}
    try:
        if not isinstance(request, dict):
            raise RequestError("a request is a JSON object")
        command = request.get("cmd")
        if command == "quit":
            return None
        if not isinstance(command, str) or command not in COMMANDS:
            raise RequestError(f"unknown cmd {command!r}, known: {', '.join(COMMANDS)}, quit")
        return {"ok": True, **COMMANDS[command](model, request)}
    except RequestError as error:
        return {"ok": False, "error": str(error)}
    except Exception as error:  # the engines have no common base class
        return {"ok": False, "error": f"{type(error).__name__}: {error}"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="ONNX file")
    parser.add_argument("--engine", choices=ENGINES, default="onnxruntime")
    parser.add_argument("--threads", type=int, default=0,
                        help="of one run; 0: the engine's default, or one per CPU of --cpus")
    parser.add_argument("--spinning", action=argparse.BooleanOptionalAction, default=True,
                        help="let idle threads spin (ONNX Runtime's default)")
    parser.add_argument("--cpus", help="run on these CPUs only, such as 0 or 0,1")
    parser.add_argument("--nice", type=int, default=0, help="19 is the weakest")
    parser.add_argument("--policy", choices=POLICIES, default="normal",
                        help="idle: SCHED_IDLE; fifo: SCHED_FIFO, which needs a permission")
    parser.add_argument("--input", nargs=3, action="append", default=[], metavar=("NAME", "AxBxC", "FILE"),
                        help="values of an input, as raw numbers; the others are random")
    parser.add_argument("--batch", type=int, default=1,
                        help="size of dimensions that the file calls 'batch'; other open ones are 1")
    parser.add_argument("--seed", type=int, default=1, help="of the input's values")
    return parser.parse_args()


def prepare_process(arguments):
    if arguments.cpus is not None:
        cpus = {int(cpu) for cpu in arguments.cpus.split(",")}
        os.sched_setaffinity(0, cpus)
        arguments.threads = arguments.threads or len(cpus)
    if arguments.nice:
        os.setpriority(os.PRIO_PROCESS, 0, arguments.nice)
    if arguments.policy != "normal":
        policy, priority = POLICIES[arguments.policy]
        os.sched_setscheduler(0, policy, os.sched_param(priority))
    # The default slack adds 50 us to every sleep, and so to every open-loop latency.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)


def serve(open_models, name=""):
    """Answers each line of standard input with one line, until a reply is None. `open_models` makes the models and returns
    the function from a line to its reply; `name` begins the message if that fails. Returns the exit code."""
    # Output of libraries must not get between the replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def reply(message):
        print(json.dumps(message), file=replies, flush=True)

    try:
        answer_line = open_models()
    except Exception as error:
        reply({"ok": False, "error": f"{name}{type(error).__name__}: {error}"})
        return 1
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection in a window would count as latency of a model
    for line in sys.stdin:
        message = answer_line(line)
        if message is None:
            break
        reply(message)
    return 0


def main():
    arguments = parse_arguments()

    def open_model():
        prepare_process(arguments)
        model = Model(arguments)
        return lambda line: answer(model, line)

    return serve(open_model, f"{arguments.model}: ")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(0)
