"""`lagoon fleet` on a Ray cluster of several nodes on this machine: nodes are killed, join with another version, and a
second controller comes."""

import contextlib
import json
import os
import sys
import time

import numpy as np
import pytest
from conftest import DIGITS, ROOT

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench" / "fleet")]
# The actors run in processes of their own, which find the package and the program by these.
os.environ["PYTHONPATH"] = f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}"
os.environ["RAY_DEDUP_LOGS"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -r requirements.txt")
from ray.cluster_utils import Cluster  # noqa: E402

from lagoon.fleet import command, controller  # noqa: E402
from traffic import Traffic  # noqa: E402

SETTLE_SECONDS = 120


def wait_for(condition, what, seconds=SETTLE_SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.1)


class RayFleet:
    """A cluster with a head node, a fleet on it, and clients."""

    def __init__(self, binary, repository, **settings):
        os.environ["LAGOON_BINARY"] = binary
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        ray.init(address=self.cluster.address, namespace="lagoon", log_to_driver=False)
        self.settings = {"repository": str(repository), "copy": False, "placer": "lagoon",
                         "serve_words": ["--workers=1"], "address": "127.0.0.1", "skip": False,
                         "ports": {"http": 0, "grpc": 0, "metrics": 0}, **settings}
        self.actor = None

    def start(self):
        self.actor = controller.start(self.settings)
        command.wait_ready(self.actor, SETTLE_SECONDS)
        return self

    def status(self):
        return ray.get(self.actor.status.remote(), timeout=30)

    def serving(self):
        """{node: models that serve there}."""
        return {name: sorted(node["models"]) for name, node in self.status()["nodes"].items() if node.get("models")}

    def traffic(self, **words):
        body = json.loads((ROOT / "models" / "digits" / "samples" / "digit-3.json").read_text())
        port = self.status()["front"]["ports"]["http"]
        return Traffic("127.0.0.1", port, "digits", body,
                       lambda answer: int(np.argmax(answer["outputs"][0]["data"])) == 3, **words)

    def close(self):
        with contextlib.suppress(ray.exceptions.RayError):
            if self.actor is not None:
                ray.get(self.actor.close.remote(), timeout=30)
        ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture
def fleet(lagoon, tmp_path, request):
    (tmp_path / "digits").symlink_to(DIGITS)
    made = RayFleet(lagoon.binary, tmp_path, **getattr(request, "param", {}))
    yield made
    made.close()


@pytest.mark.parametrize("fleet", [{"skip": True}], indirect=True)
def test_a_killed_node_costs_no_answer_and_its_models_come_back_elsewhere(fleet):
    nodes = {node.node_id: node for node in (fleet.cluster.add_node(num_cpus=1) for _ in range(2))}
    fleet.start()
    wait_for(lambda: len(fleet.status()["nodes"]) == 2, "not all nodes have an agent")
    with fleet.traffic() as traffic:
        traffic.wait(20)
        victim = next(iter(fleet.serving()))
        fleet.cluster.remove_node(nodes.pop(victim), allow_graceful=False)
        (left,) = nodes
        wait_for(lambda: list(fleet.serving()) == [left], lambda: json.dumps(fleet.status()))
        traffic.wait(20, SETTLE_SECONDS)
    counts = traffic.counts()
    assert counts["sent"] == counts["answered"], traffic.problems
    # While no node has the model, answers are 503.
    assert counts["wrong"] == counts["unknown"] == counts["doubled"] == counts["lost"] == 0, (counts, traffic.problems[-3:])


def test_a_crashed_server_is_started_again(fleet):
    fleet.start()
    (before,) = fleet.status()["nodes"].values()
    with fleet.traffic(clients=1) as traffic:
        traffic.wait(10)
        os.kill(before["pid"], 9)
        wait_for(lambda: [node["pid"] for node in fleet.status()["nodes"].values() if node["pid"] not in (0, before["pid"])],
                 lambda: json.dumps(fleet.status()))
        traffic.wait(10)
    assert traffic.counts()["sent"] == traffic.counts()["answered"], traffic.problems


@pytest.mark.parametrize("fleet", [{"copy": True}], indirect=True)
def test_models_travel_through_the_object_store_and_a_crashed_front_comes_back(fleet):
    fleet.start()
    with fleet.traffic(clients=1) as traffic:
        traffic.wait(10)
    before = fleet.status()["front"]
    os.kill(before["pid"], 9)
    wait_for(lambda: fleet.status()["front"].get("pid") not in (None, before["pid"]), "no new front")
    wait_for(lambda: fleet.status()["front"].get("ports"), "the new front does not serve")
    assert fleet.status()["front"]["ports"] == before["ports"]
    command.wait_ready(fleet.actor, SETTLE_SECONDS)
    with fleet.traffic(clients=1) as traffic:
        traffic.wait(10)


def test_a_node_of_another_version_is_refused_by_name(fleet, lagoon, tmp_path):
    other = tmp_path / "other-lagoon"
    other.write_text("#!/bin/sh\necho 'lagoon 9.9.9 (commit abc, amx)'\n")
    other.chmod(0o755)
    fleet.start()
    node = fleet.cluster.add_node(num_cpus=1, env_vars={"LAGOON_BINARY": str(other)})
    wait_for(lambda: node.node_id in fleet.status()["refused"], "the node was not refused")
    why = fleet.status()["refused"][node.node_id]
    assert "9.9.9 (commit abc)" in why and fleet.status()["version"] in why
    assert node.node_id not in fleet.serving()


def test_two_controllers_do_no_harm(fleet):
    fleet.start()
    second = controller.start(fleet.settings, name="another-controller")
    with fleet.traffic(clients=1) as traffic:
        command.wait_ready(second, SETTLE_SECONDS)
        traffic.wait(50)
    assert traffic.counts()["sent"] == traffic.counts()["answered"] == len(traffic.milliseconds), traffic.problems
    states = [ray.get(actor.status.remote(), timeout=30) for actor in (fleet.actor, second)]
    assert states[0]["front"]["pid"] == states[1]["front"]["pid"]
    ray.get(second.stop.remote(), timeout=30)
