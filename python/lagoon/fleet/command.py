"""The command `lagoon fleet`."""

import argparse
import json
import os
import pathlib
import sys
import time

import ray

from lagoon.fleet import controller
from lagoon.fleet.actors import NAMESPACE

READY_SECONDS = 120


def _connect(address):
    if address == "local":
        ray.init(namespace=NAMESPACE, include_dashboard=False, log_to_driver=False)
    else:
        try:
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False)
        except ConnectionError as error:
            sys.exit(f"lagoon fleet: no Ray cluster at {address!r} ({error}): `ray start --head` starts one, and "
                     "`lagoon fleet up --address local` needs none")


def _controller():
    try:
        return ray.get_actor(controller.NAME, namespace=NAMESPACE)
    except ValueError:
        sys.exit("lagoon fleet: there is no fleet on this cluster; `lagoon fleet up` starts one")


def _settings(words):
    repository = pathlib.Path(words.models).resolve()
    if not repository.is_dir():
        sys.exit(f"lagoon fleet: --models: {repository} is no folder")
    serve = [f"--workers={words.workers}"] if words.workers else []
    return {"repository": str(repository), "copy": words.copy, "placer": words.placer,
            "serve_words": serve, "address": words.listen, "skip": words.skip_this_node,
            "ports": {"http": words.http_port, "grpc": words.grpc_port, "metrics": words.metrics_port}}


def wait_ready(actor, seconds=READY_SECONDS):
    """The status when every model of the fleet serves somewhere. TimeoutError has the last one."""
    deadline = time.monotonic() + seconds
    while True:
        status = ray.get(actor.status.remote())
        served = {model for node in status["nodes"].values() for model in node["models"]}
        if status["models"] and set(status["models"]) <= served:
            return status
        if time.monotonic() > deadline:
            raise TimeoutError(json.dumps(status))
        time.sleep(0.1)


def up(words):
    _connect(words.address)
    actor = controller.start(_settings(words))
    try:
        status = wait_ready(actor)
    except TimeoutError as error:
        sys.exit(f"lagoon fleet: not all models serve after {READY_SECONDS} s: {error}")
    edge = status["front"]
    print(f"Fleet of {len(status['nodes'])} nodes, Lagoon {status['version']}")
    for node, why in status["refused"].items():
        print(f"  node {node} gets no requests: {why}")
    print(f"  HTTP     http://{edge['address']}:{edge['ports']['http']}/v2")
    print(f"  gRPC     {edge['address']}:{edge['ports']['grpc']}")
    print(f"  metrics  http://{edge['address']}:{edge['ports']['metrics']}/metrics", flush=True)
    if words.address != "local":
        return 0
    print("The cluster is this process's own: Ctrl-C ends it.", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        ray.get(actor.close.remote())
    return 0


def down(words):
    _connect(words.address)
    actor = _controller()
    ray.get(actor.close.remote())
    ray.kill(actor)
    return 0


def status(words):
    _connect(words.address)
    print(json.dumps(ray.get(_controller().status.remote()), indent=2))
    return 0


def _parser():
    parser = argparse.ArgumentParser("lagoon fleet", description="Lagoon on the nodes of a Ray cluster")
    commands = parser.add_subparsers(required=True)
    for run, text in ((up, "start a fleet: one server on each node, and one in front of them on this one"),
                      (down, "end the fleet"), (status, "print the fleet's state as JSON")):
        command = commands.add_parser(run.__name__, help=text)
        command.set_defaults(run=run)
        command.add_argument("--address", default=os.environ.get("RAY_ADDRESS", "auto"),
                             help="the Ray cluster, or `local`: one of this process's own (default: %(default)s)")
        if run is not up:
            continue
        command.add_argument("--models", required=True, help="the model repository, a path that all nodes see")
        command.add_argument("--copy", action="store_true",
                             help="only this node sees the path: send the models through Ray's object store")
        command.add_argument("--placer", default="lagoon", help="which node serves which model, as of `lagoon serve --placer`")
        command.add_argument("--workers", type=int, default=0, help="workers of each node's server (0: all cores)")
        command.add_argument("--skip-this-node", action="store_true", help="start no server on this node")
        command.add_argument("--listen", default="127.0.0.1", help="address of the front")
        for name, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
            command.add_argument(f"--{name}-port", type=int, default=port)
    return parser


def main(words):
    parsed = _parser().parse_args(words)
    return parsed.run(parsed)
