#!/usr/bin/env python3
"""Measures what a fleet costs and what it bears. Prints one JSON object, as `lagoon bench` writes it.

    measure.py link [--requests 2000]        what a server in front adds to a request, beside direct requests in turns
    measure.py ray [--seconds 300]           a Ray cluster on this machine, one node killed every 20 s, clients all the time

LAGOON_BINARY names the program; PYTHONPATH has the folder python/ of this repository.

link: `link_overhead_us_p50`, the difference of the medians; `direct_us_p50`, `front_us_p50`, and p99 of both.
ray: `ray_lost_answers`, `ray_doubled_answers`, `ray_wrong_answers`, `ray_unavailable_answers`, `ray_answers`,
`ray_recovery_s_p50`, `ray_recovery_s_p99` (from a kill until the models of the node serve on another), `ray_kills`.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import socket
import statistics
import sys
import tempfile
import time

import numpy as np

from lagoon import LagoonProcess
from traffic import Traffic, percentile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILL_SECONDS = 20
SPARE_NODES = 2
TURN = 50  # requests of one side before the other's turn


@contextlib.contextmanager
def digits_repository():
    with tempfile.TemporaryDirectory(prefix="lagoon-models-") as folder:
        os.symlink(ROOT / "models" / "repository" / "digits", f"{folder}/digits")
        yield folder


def digit():
    return json.loads((ROOT / "models" / "digits" / "samples" / "digit-3.json").read_text())


class RawClient:
    """One connection that sends the same bytes again and again: the least that a client can do."""

    def __init__(self, port):
        image = np.load(ROOT / "models" / "digits" / "samples" / "digit-3.npy").astype(np.float32)
        text = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": list(image.shape),
                                       "parameters": {"binary_data_size": image.nbytes}}],
                           "parameters": {"binary_data_output": True}}).encode()
        self._request = (f"POST /v2/models/digits/infer HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(text) + image.nbytes}"
                         f"\r\nInference-Header-Content-Length: {len(text)}\r\n\r\n").encode() + text + image.tobytes()
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self):
        """Microseconds of one request."""
        begin = time.perf_counter()
        self._socket.sendall(self._request)
        answer = b""
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self._socket.recv(1 << 16)
        head = answer[:end].lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(answer.decode(errors="replace"))
        size = end + 4 + int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        while len(answer) < size:
            answer += self._socket.recv(1 << 16)
        return (time.perf_counter() - begin) * 1e6


def measure_link(words):
    with digits_repository() as models:
        member = LagoonProcess("serve", "--models", models, "--workers", 1).wait_ready()
        front = LagoonProcess("serve", "--fleet", f"127.0.0.1:{member.ports['grpc']}").wait_ready()
        time.sleep(2)
        sides = {"direct": RawClient(member.ports["http"]), "front": RawClient(front.ports["http"])}
        times = {name: [] for name in sides}
        for turn in range(2 + words.requests // TURN):
            for name, client in sides.items():
                taken = [client.ask() for _ in range(TURN)]
                if turn >= 2:  # the first two warm up
                    times[name] += taken
        front.kill()
        member.kill()
    medians = {name: statistics.median(values) for name, values in times.items()}
    result = {"link_overhead_us_p50": medians["front"] - medians["direct"], "requests": len(times["direct"])}
    for name, values in times.items():
        result[f"{name}_us_p50"] = medians[name]
        result[f"{name}_us_p99"] = percentile(values, 0.99)
    return result


def wait_for(condition, what, seconds=120):
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > seconds:
            raise TimeoutError(what)
        time.sleep(0.02)
    return time.monotonic() - begin


def kill_and_recover(cluster, nodes, state):
    """Kills the node that serves, adds another, and returns the seconds until the model serves elsewhere."""
    serving = [name for name, node in state()["nodes"].items() if node.get("models")]
    victim = next((node for node in nodes if node.node_id in serving), nodes[0])
    cluster.remove_node(victim, allow_graceful=False)
    nodes.remove(victim)

    def recovered():
        now = state()
        served = {model for name, node in now["nodes"].items() if name != victim.node_id for model in node["models"]}
        return now["models"] and set(now["models"]) <= served

    seconds = wait_for(recovered, "the models do not come back")
    nodes.append(cluster.add_node(num_cpus=1))
    return seconds


def measure_ray(words):
    import ray
    from ray.cluster_utils import Cluster
    from lagoon.fleet import command, controller

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    ray.init(address=cluster.address, namespace="lagoon", log_to_driver=False)
    nodes = [cluster.add_node(num_cpus=1) for _ in range(SPARE_NODES)]
    recoveries = []
    with digits_repository() as models:
        actor = controller.start({"repository": models, "copy": False, "placer": "lagoon",
                                  "serve_words": ["--workers=1"], "address": "127.0.0.1", "skip": True,
                                  "ports": {"http": 0, "grpc": 0, "metrics": 0}})
        state = lambda: ray.get(actor.status.remote(), timeout=60)  # noqa: E731
        port = command.wait_ready(actor)["front"]["ports"]["http"]
        end = time.monotonic() + words.seconds
        with Traffic("127.0.0.1", port, "digits", digit(),
                     lambda answer: int(np.argmax(answer["outputs"][0]["data"])) == 3, clients=2) as traffic:
            while time.monotonic() < end:
                begin = time.monotonic()
                recoveries.append(kill_and_recover(cluster, nodes, state))
                print(f"kill {len(recoveries)}: {recoveries[-1]:.2f} s", file=sys.stderr, flush=True)
                time.sleep(max(0.0, begin + KILL_SECONDS - time.monotonic()))
        ray.get(actor.close.remote(), timeout=60)
    ray.shutdown()
    cluster.shutdown()
    counts = traffic.counts()
    return {"ray_lost_answers": counts["sent"] - counts["answered"], "ray_doubled_answers": counts["doubled"],
            "ray_wrong_answers": counts["wrong"], "ray_unavailable_answers": counts["unavailable"],
            "ray_answers": counts["answered"], "ray_kills": len(recoveries),
            "ray_recovery_s_p50": statistics.median(recoveries), "ray_recovery_s_p99": percentile(recoveries, 0.99),
            "problems": traffic.problems[-5:]}


def report(words):
    metrics = words.run(words)
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"benchmark": words.run.__name__.replace("measure_", "fleet-"),
            "configuration": {name: value for name, value in vars(words).items() if name != "run"},
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "processor": found[1] if found else ""},
            "problems": metrics.pop("problems", []),
            "metrics": metrics}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    link = commands.add_parser("link")
    link.set_defaults(run=measure_link)
    link.add_argument("--requests", type=int, default=2000)
    on_ray = commands.add_parser("ray")
    on_ray.set_defaults(run=measure_ray)
    on_ray.add_argument("--seconds", type=float, default=300)
    words = parser.parse_args()
    print(json.dumps(report(words), indent=2))


if __name__ == "__main__":
    main()
