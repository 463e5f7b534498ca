#!/usr/bin/env python3
"""DISB in PyTorch, as a user would do it today: one process with a CUDA stream for every client.

Usage: torch_disb.py --report FILE --json FILE [--device cuda:0] [--windows 2] [--seconds 3] [--eager]
                     [--clients queue,newest]

The clients and their loads come from FILE, a report of `lagoon bench disb`. Each client has a thread, an instance of
its model, a stream (real-time: the highest priority) and a CUDA graph. A request takes its input from pinned memory
and copies its output back. Windows take turns: real-time clients alone, then all clients, with the same arrivals.
Clients of open loops are of two kinds. `queue`: no request is dropped, and latency counts from the intended arrival, so
that under overload it grows for as long as the window lasts. `newest`, as DISB's: a client waits for its answer, then
sends the newest request that is due and drops the older ones; latency counts from the post, as in a closed loop.
Requests count in the throughput if they end within the window. A relative load is a part of the model's standalone
maximum in PyTorch. The metrics are those of `lagoon bench disb`, for the systems torch-streams and
torch-streams.newest:
  realtime_latency_normalized_mean, _p50, _p99 (from 1,000 requests on, else _p90); realtime_latency_vs_alone_...;
  best_effort_throughput_normalized, throughput_normalized, realtime_requests, standalone_ms.MODEL;
  of clients that take the newest request: realtime_from_arrival_normalized_mean, realtime_dropped
On a CPU there are no streams and graphs: clients only share its cores.
"""

import argparse
import dataclasses
import datetime
import json
import random
import statistics
import sys
import threading
import time

import torch

from torch_models import make, make_input

# By what clients do with requests that are due while another one of theirs runs.
SYSTEMS = {"queue": "torch-streams", "newest": "torch-streams.newest"}
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


@dataclasses.dataclass
class Seen:
    """What a client did in some windows. Times in seconds."""

    latencies: list = dataclasses.field(default_factory=list)
    from_arrival: list = dataclasses.field(default_factory=list)  # of clients that take the newest request
    ended: int = 0  # requests that ended in a window
    dropped: int = 0  # requests that a newer one took the place of

    def add(self, other):
        self.latencies += other.latencies
        self.from_arrival += other.from_arrival
        self.ended += other.ended
        self.dropped += other.dropped


def newest_due(arrivals, following, now):
    """The request that a client of DISB sends next, an index from `following` on: the newest that is due, else the next."""
    while following + 1 < len(arrivals) and arrivals[following + 1] <= now:
        following += 1
    return following


def play(client, begin, span_s, arrivals, newest, seen):
    """A client's thread for one window."""
    if client.closed_loop():
        while (post := time.perf_counter()) < begin + span_s:
            client.run()
            end = time.perf_counter()
            if begin <= end < begin + span_s:
                seen.latencies.append(end - post)
                seen.ended += 1
        return
    following = 0
    while following < len(arrivals):
        if newest:
            chosen = newest_due(arrivals, following, time.perf_counter() - begin)
            seen.dropped += chosen - following
            following = chosen
        arrival = begin + arrivals[following]
        wait = arrival - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        post = time.perf_counter() if newest else arrival
        client.run()
        end = time.perf_counter()
        seen.latencies.append(end - post)
        if newest:
            seen.from_arrival.append(end - arrival)
        if end < begin + span_s:
            seen.ended += 1
        following += 1


def window(clients, arrivals, span_s, newest):
    seen = {client.name: Seen() for client in clients}
    begin = time.perf_counter() + SETTLE_S
    threads = [threading.Thread(target=play, args=(client, begin, span_s, arrivals[client.name], newest, seen[client.name]))
               for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def percentile(samples, percent):
    samples = sorted(samples)
    return samples[max(0, -(-len(samples) * percent // 100) - 1)]


def summarise(clients, standalone, system, alone, contended, seconds):
    """The metrics of a system. alone, contended: Seen by client, without and with best-effort clients."""
    normalised = {True: [], False: []}  # True: all clients, False: real-time clients alone
    throughput = {True: 0.0, False: 0.0}  # True: real-time clients, False: the others
    from_arrival = []
    for client in clients:
        for kind, seen in ((True, contended), (False, alone)):
            if client.real_time:
                normalised[kind] += [s / standalone[client.model] for s in seen[client.name].latencies]
        if client.real_time:
            from_arrival += [s / standalone[client.model] for s in contended[client.name].from_arrival]
        throughput[client.real_time] += contended[client.name].ended / seconds * standalone[client.model]
    metrics = {f"best_effort_throughput_normalized.{system}": throughput[False],
               f"throughput_normalized.{system}": throughput[False] + throughput[True],
               f"realtime_requests.{system}": len(normalised[True])}
    if normalised[True] and normalised[False]:
        for name, of in (("mean", statistics.mean), ("p50", lambda s: percentile(s, 50)),
                         ("p99", lambda s: percentile(s, 99)) if len(normalised[True]) >= 1000 else
                         ("p90", lambda s: percentile(s, 90))):
            metrics[f"realtime_latency_normalized_{name}.{system}"] = of(normalised[True])
            metrics[f"realtime_latency_vs_alone_{name}.{system}"] = of(normalised[True]) / of(normalised[False])
    if from_arrival:
        metrics[f"realtime_from_arrival_normalized_mean.{system}"] = statistics.mean(from_arrival)
        metrics[f"realtime_dropped.{system}"] = sum(contended[client.name].dropped for client in clients if client.real_time)
    return metrics


def ways(clients, kinds):
    """The kinds of clients that differ: where all loops are closed, there is one."""
    return kinds[:1] if all(client.closed_loop() for client in clients) else kinds


def kinds_of(text):
    kinds = text.split(",")
    if unknown := set(kinds) - set(SYSTEMS):
        raise argparse.ArgumentTypeError(f"{sorted(unknown)[0]!r} is neither queue nor newest")
    return list(dict.fromkeys(kinds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", required=True, metavar="FILE", help="of `lagoon bench disb`: its field \"clients\"")
    parser.add_argument("--json", required=True, metavar="FILE")
    parser.add_argument("--device", default="cuda:0", type=torch.device)
    parser.add_argument("--windows", default=2, type=int)
    parser.add_argument("--seconds", default=3, type=float, help="of each window")
    parser.add_argument("--clients", default="queue,newest", type=kinds_of, help="as those of `lagoon bench disb --clients`")
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
    metrics = {f"standalone_ms.{model}": 1e3 * value for model, value in standalone.items()}
    for kind in ways(clients, arguments.clients):
        alone, contended = ({client.name: Seen() for client in clients} for _ in range(2))
        chance = random.Random(arguments.seed)  # each kind of clients has the same arrivals
        for _ in range(arguments.windows):
            arrivals = {client.name: [] if client.closed_loop() else
                        client.arrivals(standalone[client.model], arguments.seconds, chance) for client in clients}
            for running, into in (([c for c in clients if c.real_time], alone), (clients, contended)):
                for name, seen in window(running, arrivals, arguments.seconds, kind == "newest").items():
                    into[name].add(seen)
        metrics.update(summarise(clients, standalone, SYSTEMS[kind], alone, contended, arguments.windows * arguments.seconds))
    cuda = arguments.device.type == "cuda"
    with open(arguments.json, "w") as file:
        json.dump({"benchmark": "disb", "date": datetime.datetime.now(datetime.timezone.utc).strftime("%FT%TZ"),
                   "torch": torch.__version__, "graphs": cuda and not arguments.eager,
                   "device": torch.cuda.get_device_name(arguments.device) if cuda else "cpu",
                   "windows": arguments.windows, "seconds": arguments.seconds, "metrics": metrics}, file, indent=2)
    for system in SYSTEMS.values():
        if f"realtime_requests.{system}" in metrics:
            print(f"{system}: {metrics[f'realtime_requests.{system}']} real-time requests, "
                  f"throughput {metrics[f'throughput_normalized.{system}']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
