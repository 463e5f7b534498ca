#!/usr/bin/env python3
"""DISB in PyTorch, as a user would do it today: one process with a CUDA stream for every client.

Usage: torch_disb.py --report FILE --json FILE [--device cuda:0] [--windows 2] [--seconds 3] [--eager]

The clients and their loads come from FILE, a report of `lagoon bench disb`. Each client has a thread, an instance of
its model, a stream (real-time: the highest priority) and a CUDA graph. A request takes its input from pinned memory
and copies its output back. Windows take turns: real-time clients alone, then all clients, with the same arrivals. No
request is dropped; latency counts from the intended arrival (in a closed loop: from the post). Requests count in the
throughput if they end within the window. A relative load is a part of the model's standalone maximum in PyTorch. The
metrics are those of `lagoon bench disb`, for the system
torch-streams:
  realtime_latency_normalized_mean, _p50, _p99 (from 1,000 requests on, else _p90); realtime_latency_vs_alone_...;
  best_effort_throughput_normalized, throughput_normalized, realtime_requests, standalone_ms.MODEL
On a CPU there are no streams and graphs: clients only share its cores.
"""

import argparse
import datetime
import json
import random
import statistics
import sys
import threading
import time

import torch

from torch_models import make, make_input

SYSTEM = "torch-streams"
SETTLE_S = 0.25  # run before a window begins


class Client:
    def __init__(self, words, device, graphs):
        self.name, self.model, self.load = words["name"], words["model"], words["load"]
        self.real_time = words["class"] == "real-time"
        self.device = device
        module = make(self.model).to(device)
        self.host = make_input(self.model, 1)
        self.stream = None
        if device.type != "cuda":
            self.call = lambda: module(self.host)
            return
        self.host = self.host.pin_memory()
        greatest = torch.cuda.Stream.priority_range()[1] if hasattr(torch.cuda.Stream, "priority_range") else -5
        self.stream = torch.cuda.Stream(device, priority=greatest if self.real_time else 0)
        with torch.cuda.stream(self.stream):
            x = self.host.to(device)
            for _ in range(3):
                y = module(x)
            self.output = torch.empty(y.shape, dtype=y.dtype, pin_memory=True)
            self.stream.synchronize()
            graph = None
            if graphs:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=self.stream):
                    y = module(x)
        done = torch.cuda.Event()

        def call():
            with torch.cuda.stream(self.stream):
                x.copy_(self.host, non_blocking=True)
                if graph is not None:
                    graph.replay()
                    result = y
                else:
                    result = module(x)
                self.output.copy_(result, non_blocking=True)
                done.record(self.stream)
            done.synchronize()

        self.call = call

    def run(self):
        with torch.inference_mode():
            self.call()

    def standalone_s(self, runs=30):
        for _ in range(5):
            self.run()
        seconds = []
        for _ in range(runs):
            begin = time.perf_counter()
            self.run()
            seconds.append(time.perf_counter() - begin)
        return statistics.median(seconds)

    def closed_loop(self):
        return self.load["kind"] == "continuous"

    def arrivals(self, standalone_s, span_s, chance):
        """Arrivals in [0, span_s) as ascending offsets in seconds. Not for closed loops."""
        kind = self.load["kind"]
        if kind == "trace":
            times, period = [t / 1e3 for t in self.load["trace_ms"]], self.load["period_ms"] / 1e3
            return [t + n * period for n in range(int(span_s / period) + 1) for t in times if t + n * period < span_s]
        rate = self.load.get("per_second") or self.load["fraction"] / standalone_s
        times, at = [], chance.uniform(0, 1 / rate) if kind == "uniform" else chance.expovariate(rate)
        while at < span_s:
            times.append(at)
            at += 1 / rate if kind == "uniform" else chance.expovariate(rate)
        return times


def play(client, begin, span_s, arrivals, latencies, ended):
    """A client's thread for one window: appends the latencies, in seconds, that count, and the ends of requests in
    the window."""
    if client.closed_loop():
        while (post := time.perf_counter()) < begin + span_s:
            client.run()
            end = time.perf_counter()
            if begin <= end < begin + span_s:
                latencies.append(end - post)
                ended.append(end)
        return
    for offset in arrivals:
        wait = begin + offset - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        client.run()
        end = time.perf_counter()
        latencies.append(end - begin - offset)
        if end < begin + span_s:
            ended.append(end)


def window(clients, arrivals, span_s):
    latencies, ended = [[] for _ in clients], [[] for _ in clients]
    begin = time.perf_counter() + SETTLE_S
    threads = [threading.Thread(target=play, args=(client, begin, span_s, arrivals[client.name], seen, ends))
               for client, seen, ends in zip(clients, latencies, ended)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {client.name: (seen, len(ends)) for client, seen, ends in zip(clients, latencies, ended)}


def percentile(samples, percent):
    samples = sorted(samples)
    return samples[max(0, -(-len(samples) * percent // 100) - 1)]


def summarise(clients, standalone, alone, contended, ended, seconds):
    metrics = {f"standalone_ms.{model}": 1e3 * value for model, value in standalone.items()}
    normalised = {True: [], False: []}  # True: all clients, False: real-time clients alone
    throughput = {True: 0.0, False: 0.0}  # True: real-time clients, False: the others
    for client in clients:
        for kind, seen in ((True, contended), (False, alone)):
            if client.real_time:
                normalised[kind] += [s / standalone[client.model] for s in seen[client.name]]
        throughput[client.real_time] += ended[client.name] / seconds * standalone[client.model]
    metrics[f"best_effort_throughput_normalized.{SYSTEM}"] = throughput[False]
    metrics[f"throughput_normalized.{SYSTEM}"] = throughput[False] + throughput[True]
    metrics[f"realtime_requests.{SYSTEM}"] = len(normalised[True])
    if normalised[True] and normalised[False]:
        for name, of in (("mean", statistics.mean), ("p50", lambda s: percentile(s, 50)),
                         ("p99", lambda s: percentile(s, 99)) if len(normalised[True]) >= 1000 else
                         ("p90", lambda s: percentile(s, 90))):
            metrics[f"realtime_latency_normalized_{name}.{SYSTEM}"] = of(normalised[True])
            metrics[f"realtime_latency_vs_alone_{name}.{SYSTEM}"] = of(normalised[True]) / of(normalised[False])
    return metrics


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", required=True, metavar="FILE", help="of `lagoon bench disb`: its field \"clients\"")
    parser.add_argument("--json", required=True, metavar="FILE")
    parser.add_argument("--device", default="cuda:0", type=torch.device)
    parser.add_argument("--windows", default=2, type=int)
    parser.add_argument("--seconds", default=3, type=float, help="of each window")
    parser.add_argument("--eager", action="store_true", help="without CUDA graphs")
    parser.add_argument("--seed", default=1, type=int)
    arguments = parser.parse_args()
    with open(arguments.report) as file:
        report = json.load(file)
    if "clients" not in report:
        parser.error(f"{arguments.report} has no field 'clients': it is no report of `lagoon bench disb`")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    with torch.inference_mode():
        clients = [Client(words, arguments.device, not arguments.eager) for words in report["clients"]]
    standalone = {}
    for client in clients:
        if client.model not in standalone:
            standalone[client.model] = client.standalone_s()
    chance = random.Random(arguments.seed)
    alone, contended = ({client.name: [] for client in clients} for _ in range(2))
    ended = {client.name: 0 for client in clients}  # in windows with all clients
    for _ in range(arguments.windows):
        arrivals = {client.name: [] if client.closed_loop() else
                    client.arrivals(standalone[client.model], arguments.seconds, chance) for client in clients}
        for running, into in (([c for c in clients if c.real_time], alone), (clients, contended)):
            for name, (seen, count) in window(running, arrivals, arguments.seconds).items():
                into[name] += seen
                ended[name] += count if into is contended else 0
    metrics = summarise(clients, standalone, alone, contended, ended, arguments.windows * arguments.seconds)
    cuda = arguments.device.type == "cuda"
    with open(arguments.json, "w") as file:
        json.dump({"benchmark": "disb", "date": datetime.datetime.now(datetime.timezone.utc).strftime("%FT%TZ"),
                   "torch": torch.__version__, "graphs": cuda and not arguments.eager,
                   "device": torch.cuda.get_device_name(arguments.device) if cuda else "cpu",
                   "windows": arguments.windows, "seconds": arguments.seconds, "metrics": metrics}, file, indent=2)
    print(f"{metrics[f'realtime_requests.{SYSTEM}']} real-time requests, "
          f"throughput {metrics[f'throughput_normalized.{SYSTEM}']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
