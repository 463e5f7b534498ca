#!/usr/bin/env python3
"""Measures what a fleet costs and what it bears. Prints one JSON object, as `lagoon bench` writes it.

    measure.py link [--requests 2000] [--before LAGOON]  what a server in front adds to a request, in turns with direct ones
    measure.py ray [--seconds 300]           a Ray cluster on this machine, one node killed every 20 s, clients all the time

LAGOON_BINARY names the program; PYTHONPATH has the folder python/ of this repository.

link, for `http` and `grpc`, `small` (256 bytes) and `602kb`: `link_overhead_us_p50`, the difference of the medians;
`link_overhead_us_low` and `_high`, between which lie 80 % of the differences of two turns' medians; `direct_us_p50`,
`front_us_p50`, and p99 of both. `--before` measures another build too, in the same turns, as `before.http.small`.
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


class HttpClient:
    """One connection that sends the same bytes again and again: the least that a client can do."""

    def __init__(self, ports, model, tensor):
        text = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": list(tensor.shape),
                                       "parameters": {"binary_data_size": tensor.nbytes}}],
                           "parameters": {"binary_data_output": True}}).encode()
        length = len(text) + tensor.nbytes
        self._request = (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: bench\r\nContent-Length: {length}"
                         f"\r\nInference-Header-Content-Length: {len(text)}\r\n\r\n").encode() + text + tensor.tobytes()
        self._socket = socket.create_connection(("127.0.0.1", ports["http"]))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self):
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


class GrpcClient:
    """The same over gRPC."""

    def __init__(self, ports, model, tensor):
        import grpc
        from tritonclient.grpc import service_pb2
        request = service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[tensor.tobytes()])
        request.inputs.add(name="image", datatype="FP32", shape=tensor.shape)
        self._request = request.SerializeToString()
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._call = grpc.insecure_channel(f"127.0.0.1:{ports['grpc']}", options=options).unary_unary(
            "/inference.GRPCInferenceService/ModelInfer")

    def ask(self):
        self._call(self._request)


CLIENTS = {"http": HttpClient, "grpc": GrpcClient}


def add_channel_means(folder):
    """A model that does next to nothing with an image of 602 KB."""
    import onnx
    from onnx import TensorProto, helper
    graph = helper.make_graph(
        [helper.make_node("GlobalAveragePool", ["image"], ["means"])], "channel_means",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])],
        [helper.make_tensor_value_info("means", TensorProto.FLOAT, [1, 3, 1, 1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    version = pathlib.Path(folder) / "channel_means" / "1"
    version.mkdir(parents=True)
    onnx.save(model, version / "model.onnx")
    # Real-time, as `digits`: other models run where no other process wants the core.
    (version.parent / "config.pbtxt").write_text(
        'platform: "onnxruntime_onnx"\noptimization { priority: PRIORITY_MAX }\n')


def tensors():
    small = np.load(ROOT / "models" / "digits" / "samples" / "digit-3.npy").astype(np.float32)
    large = np.random.default_rng(1).standard_normal((1, 3, 224, 224), np.float32)
    return {"small": ("digits", small), "602kb": ("channel_means", large)}


def timed_turn(client):
    """Microseconds of each request of a turn."""
    times = []
    for _ in range(TURN):
        begin = time.perf_counter()
        client.ask()
        times.append((time.perf_counter() - begin) * 1e6)
    return times


@contextlib.contextmanager
def links(words, models):
    """By the program's name: the ports of a member, and of a server in front."""
    with contextlib.ExitStack() as stack:
        def serve(*arguments, path):
            process = LagoonProcess("serve", *arguments, path=path).wait_ready()
            stack.callback(process.kill)
            return process.ports
        programs = {"": None, **({"before.": words.before} if words.before else {})}
        servers = {}
        for name, path in programs.items():
            member = serve("--models", models, "--workers", 1, path=path)
            front = serve("--fleet", f"127.0.0.1:{member['grpc']}", path=path)
            servers[name] = {"direct": member, "front": front}
        time.sleep(2)  # the fronts learn what the members have
        yield servers


def measure_link(words):
    sides = {}
    with digits_repository() as models, contextlib.ExitStack() as stack:
        add_channel_means(models)
        servers = stack.enter_context(links(words, models))
        for protocol, kind in CLIENTS.items():
            for size, (model, tensor) in tensors().items():
                for program, ways in servers.items():
                    for way, ports in ways.items():
                        sides[f"{program}{protocol}.{size}", way] = kind(ports, model, tensor)
        turns = {side: [] for side in sides}  # medians
        times = {side: [] for side in sides}
        for turn in range(2 + words.requests // TURN):
            for side, client in sides.items():
                taken = timed_turn(client)
                if turn < 2:
                    continue  # warms up
                times[side] += taken
                turns[side].append(statistics.median(taken))
    result = {"requests": words.requests}
    for side in sorted({name for name, _ in sides}):
        direct, front = (statistics.median(times[side, way]) for way in ("direct", "front"))
        added = [after - before for before, after in zip(turns[side, "direct"], turns[side, "front"])]
        result[f"link_overhead_us_p50.{side}"] = front - direct
        result[f"link_overhead_us_low.{side}"] = percentile(added, 0.1)
        result[f"link_overhead_us_high.{side}"] = percentile(added, 0.9)
        for way in ("direct", "front"):
            result[f"{way}_us_p50.{side}"] = statistics.median(times[side, way])
            result[f"{way}_us_p99.{side}"] = percentile(times[side, way], 0.99)
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
    link.add_argument("--before", default="")
    on_ray = commands.add_parser("ray")
    on_ray.set_defaults(run=measure_ray)
    on_ray.add_argument("--seconds", type=float, default=300)
    words = parser.parse_args()
    print(json.dumps(report(words), indent=2))


if __name__ == "__main__":
    main()
