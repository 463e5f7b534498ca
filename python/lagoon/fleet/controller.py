"""The controller: starts a server on each node, registers it at the front, and watches both. It decides nothing: the
front places models and sends requests."""

import json
import logging
import threading
import time
import urllib.error
import urllib.request

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from lagoon import binary
from lagoon.fleet import models
from lagoon.fleet.actors import NAMESPACE, Agent, Front, agent_name

NAME = "lagoon-controller"
FRONT = "lagoon-front"
STEP_SECONDS = 0.5
ANSWER_SECONDS = 1.0  # of an agent; one that misses MOST_MISSED answers in a row is lost
MOST_MISSED = 3
log = logging.getLogger("lagoon.fleet")


class NodeState:
    """A node and its agent, as the controller sees them."""

    def __init__(self, name, agent):
        self.name = name
        self.agent = agent
        self.about = None  # Agent.describe()
        self.status = {}  # of the last step
        self.missed = 0
        self.pending = None  # the step that has not been answered


class Fleet:
    """One step after another of the controller; no thread of its own."""

    def __init__(self, settings):
        """`settings`: "repository", "copy" (send models through Ray), "placer", "serve_words", "address", "ports",
        "skip" (start no server on this node)."""
        self._settings = settings
        self._here = ray.get_runtime_context().get_node_id()
        self._version = binary.version()
        names = models.names(settings["repository"])
        self._archives = [ray.put(models.pack(settings["repository"], name)) for name in names] if settings["copy"] else []
        self._nodes = {}
        self._refused = {}  # node: why it is not used
        self._front_state = {}
        self._seen = {}  # GET /v2/fleet of the last step
        self._snapshot = {}
        self._front = Front.options(
            name=FRONT, namespace=NAMESPACE, lifetime="detached", get_if_exists=True,
            scheduling_strategy=NodeAffinitySchedulingStrategy(self._here, soft=False)).remote(settings)

    # ---- Nodes.

    def _find_nodes(self):
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        if self._settings["skip"]:
            alive.discard(self._here)
        for name in list(self._nodes):
            if name not in alive:
                self._lose(name, "Ray says that it is gone")
        shared = None if self._settings["copy"] else self._settings["repository"]
        for name in sorted(alive - set(self._nodes) - set(self._refused)):
            where = NodeAffinitySchedulingStrategy(name, soft=False)
            try:
                agent = Agent.options(name=agent_name(name), namespace=NAMESPACE, lifetime="detached", get_if_exists=True,
                                      scheduling_strategy=where).remote(
                                          {"shared": shared, "words": self._settings["serve_words"]})
            except (ValueError, ray.exceptions.RayError) as error:
                log.warning("node %s: no agent yet: %s", name, error)  # the agent before it is still ending
                continue
            self._nodes[name] = NodeState(name, agent)

    def _lose(self, name, why):
        log.warning("node %s is lost: %s", name, why)
        del self._nodes[name]

    def _refuse(self, name, why):
        log.warning("node %s is refused: %s", name, why)
        self._refused[name] = why
        ray.kill(self._nodes.pop(name).agent)

    def _ask_nodes(self):
        """One step of each agent, and a description of the new ones. An agent that does not answer in time keeps its
        last state; later it is lost."""
        for node in self._nodes.values():
            if node.pending is None:
                node.pending = node.agent.describe.remote() if node.about is None else node.agent.step.remote()
        waiting = {node.pending: node for node in self._nodes.values()}
        done, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=ANSWER_SECONDS) if waiting else ([], [])
        for reference in done:
            self._take(waiting[reference])
        for reference in set(waiting) - set(done):
            node = waiting[reference]
            node.missed += 1
            if node.missed >= MOST_MISSED and node.about is not None:
                ray.kill(node.agent)
                self._lose(node.name, f"its agent missed {node.missed} answers")

    def _take(self, node):
        reference, node.pending, node.missed = node.pending, None, 0
        try:
            answer = ray.get(reference)
        except ray.exceptions.RayActorError as error:
            self._lose(node.name, f"its agent ended: {str(error).splitlines()[0]}")
            return
        except ray.exceptions.RayTaskError as error:
            node.status = {**node.status, "problem": str(error.cause)}
            if node.about is None:
                self._refuse(node.name, f"its agent cannot tell its version: {error.cause}")
            return
        if node.about is not None:
            node.status = answer
        elif answer["version"] != self._version:
            self._refuse(node.name, f"it has lagoon {answer['version']}, the fleet has {self._version}: "
                                    "install the same wheel there")
        else:
            node.about = answer
            for archive in self._archives:
                node.agent.add_model.remote(archive)  # runs before the first step

    # ---- The front.

    def _http(self, path, body=None):
        url = f"http://{self._front_state['address']}:{self._front_state['ports']['metrics']}{path}"
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=2) as reply:
            return json.loads(reply.read())

    def _tell(self, path, body):
        """What the front says of one member does not keep the others from it."""
        try:
            self._http(path, body)
        except urllib.error.HTTPError as error:
            log.warning("the front refuses a member: %s", error.read().decode(errors="replace"))

    def _register(self):
        """Servers that the front does not have join, and those whose node is gone leave."""
        self._seen = self._http("/v2/fleet")
        members = {device["name"]: device["address"] for device in self._seen["devices"]}
        for name, address in members.items():
            node = self._nodes.get(name)
            if node is None or node.status.get("address") not in ("", None, address):
                self._tell("/v2/fleet/leave", {"name": name})
        for node in self._nodes.values():
            if node.status.get("address") and node.name not in members:
                self._tell("/v2/fleet/members", {"name": node.name, "address": node.status["address"],
                                                 "memory_bytes": node.about["memory_bytes"]})

    def _ask_front(self):
        try:
            self._front_state = ray.get(self._front.step.remote(), timeout=2)
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
            log.warning("the front does not answer: %s", error)
            self._front_state = {}
        self._seen = {}
        if not self._front_state.get("ports"):
            return
        try:
            self._register()
        except (OSError, ValueError, KeyError) as error:
            log.warning("the front does not answer: %s", error)

    # ---- All together.

    def step(self):
        self._find_nodes()
        self._ask_nodes()
        self._ask_front()
        self._snapshot = self._describe()

    def status(self):
        """The state after the last step. Any thread."""
        return {"version": self._version, "nodes": {}, "front": {}, "models": [], "refused": {}, **self._snapshot}

    def _describe(self):
        devices = {device["name"]: device for device in self._seen.get("devices", [])}
        serve = {name: [replica["model"] for replica in self._seen["replicas"]
                        if replica["device"] == name and replica["state"] == "serving" and device["ready"]]
                 for name, device in devices.items()}
        refused = {name: device["problem"] for name, device in devices.items() if device["problem"]}
        return {"front": self._front_state, "refused": {**refused, **self._refused},
                "models": [model["model"] for model in self._seen.get("models", [])],
                "nodes": {name: {**node.status, "models": serve.get(name, [])} for name, node in self._nodes.items()}}

    def close(self):
        for actor in [node.agent for node in self._nodes.values()] + [self._front]:
            try:
                ray.get(actor.close.remote(), timeout=5)
            except ray.exceptions.RayError:
                pass
            ray.kill(actor)


@ray.remote(num_cpus=0, max_restarts=-1)
class Controller:
    """Steps a Fleet. Ray holds its name once. A second one under another name finds the same agents and the same front,
    and does no harm."""

    def __init__(self, settings):
        logging.basicConfig(level=logging.INFO)
        self._fleet = Fleet(settings)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.is_set():
            begin = time.monotonic()
            try:
                self._fleet.step()
            except Exception:  # pylint: disable=broad-except
                log.exception("a step failed; the next one follows")
            self._stop.wait(max(0.0, begin + STEP_SECONDS - time.monotonic()))

    def status(self):
        return self._fleet.status()

    def stop(self):
        """Ends the controller's work; the fleet serves on."""
        self._stop.set()
        self._thread.join()

    def close(self):
        """Ends the fleet."""
        self.stop()
        self._fleet.close()


def start(settings, name=NAME):
    """The controller of the cluster that ray.init() has connected to; a new one if there is none."""
    where = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return Controller.options(name=name, namespace=NAMESPACE, lifetime="detached", get_if_exists=True,
                              scheduling_strategy=where).remote(settings)
