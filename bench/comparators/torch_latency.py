#!/usr/bin/env python3
"""Latency of models in PyTorch, run in the ways that a user would try: eager, as a CUDA graph, and compiled.

Usage: torch_latency.py --json FILE [--device cuda:0] [--batches 1,8] [--seconds 0.5] [--limit 110] MODEL...

A run takes its input from pinned memory and copies its output back, like a request to Lagoon. Metrics for model M,
precision P (fp32: true fp32, no TF32; bf16: weights and activations) and batch B:
  latency_ms_p50.M.P.bB.torch_eager, .torch_graph, .torch_compile, and the best of them as .torch_best
After --limit seconds the remaining measurements are left out; compiling comes last. On a CPU there is only the eager
way.
"""

import argparse
import datetime
import json
import statistics
import sys
import time

import torch

from torch_models import make, make_input, reads_tokens


class Case:
    """A model, with its input on the host and on the device."""

    def __init__(self, name, precision, batch, device):
        model = make(name).to(device)
        self.host = make_input(name, batch)
        if precision == "bf16":
            model = model.bfloat16()
            self.host = self.host if reads_tokens(name) else self.host.bfloat16()
        if device.type == "cuda":
            self.host = self.host.pin_memory()
        self.model = model if reads_tokens(name) else model.to(memory_format=torch.channels_last)
        self.input = self.host.to(device)

    def run(self, call):
        self.input.copy_(self.host, non_blocking=True)
        output = call()
        return output.cpu()  # waits for the GPU

    def eager(self):
        return lambda: self.model(self.input)

    def graph(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.input)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = self.model(self.input)

        def replay():
            graph.replay()
            return output
        return replay

    def compile(self):
        compiled = torch.compile(self.model, mode="reduce-overhead")
        return lambda: compiled(self.input)


def measure(case, way, seconds):
    call = getattr(case, way)()
    for _ in range(5):
        case.run(call)
    latencies = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(latencies) < 5:
        begin = time.perf_counter()
        case.run(call)
        latencies.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(latencies)


def write(path, device, metrics, failures):
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    report = {"benchmark": "torch", "date": datetime.datetime.now(datetime.timezone.utc).strftime("%FT%TZ"),
              "torch": torch.__version__, "failures": failures, "metrics": metrics, "device": name}
    with open(path, "w") as file:
        json.dump(report, file, indent=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--json", required=True, metavar="FILE")
    parser.add_argument("--device", default="cuda:0", type=torch.device)
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--seconds", default=0.5, type=float)
    parser.add_argument("--limit", default=110, type=float)
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    begin = time.monotonic()
    metrics, failures = {}, []
    ways = ["eager"] if arguments.device.type == "cpu" else ["eager", "graph", "compile"]
    for way in ways:
        for name in arguments.models:
            for precision in ("fp32", "bf16"):
                for batch in map(int, arguments.batches.split(",")):
                    if time.monotonic() - begin > arguments.limit:
                        continue
                    label = f"{name}.{precision}.b{batch}"
                    try:
                        with torch.inference_mode():
                            case = Case(name, precision, batch, arguments.device)
                            ms = measure(case, way, arguments.seconds)
                    except Exception as error:  # a way that fails for this model must not hide the other ways
                        failures.append(f"{label}, {way}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
                        continue
                    metrics[f"latency_ms_p50.{label}.torch_{way}"] = ms
                    best = f"latency_ms_p50.{label}.torch_best"
                    metrics[best] = min(metrics.get(best, ms), ms)
                    # Writes after each result, because the process may be ended while it compiles.
                    write(arguments.json, arguments.device, metrics, failures)
    write(arguments.json, arguments.device, metrics, failures)
    print(f"{len(metrics)} metrics, {len(failures)} failures" + "".join(f"; {failure}" for failure in failures[:1]))
    return 0 if metrics else 1


if __name__ == "__main__":
    sys.exit(main())
