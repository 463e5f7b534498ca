"""The controller: which node serves which model. Names the ingress's routes and the nodes' models, again and again."""

import json
import logging
import threading
import time
import urllib.error
import urllib.request

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from lagoon import binary
from lagoon.fleet import models, plan
from lagoon.fleet.actors import NAMESPACE, Agent, Ingress, agent_name
from lagoon.fleet.placer import PlacerFailed, PlacerProcess

NAME = "lagoon-controller"
INGRESS = "lagoon-ingress"
STEP_SECONDS = 0.5
ANSWER_SECONDS = 1.0  # of an agent; one that misses MOST_MISSED answers in a row is lost
MOST_MISSED = 3
PLACER_SECONDS = 1.0
log = logging.getLogger("lagoon.fleet")


class NotLeading(Exception):
    """Another controller has the lead."""


class NodeState:
    """A node and its agent, as the controller sees them."""

    def __init__(self, name, agent):
        self.name = name
        self.agent = agent
        self.about = None  # Agent.describe()
        self.status = {}  # of the last step
        self.missed = 0
        self.pending = None  # the step that has not been answered
        self.has = set()  # names of the models that were sent to the node


class Fleet:
    """One step after another of the controller; no thread of its own."""

    def __init__(self, settings):
        """`settings`: "repository", "copy" (send models through Ray), "slo_ms", "placer", "serve_words", "address",
        "ports", "skip" (start no server on this node)."""
        self._settings = settings
        self._here = ray.get_runtime_context().get_node_id()
        self._version = binary.version()
        self._models = models.scan(settings["repository"], settings["slo_ms"])
        self._archives = {}
        if settings["copy"]:
            self._archives = {m.name: ray.put(models.pack(settings["repository"], m.name)) for m in self._models}
        self._placer = PlacerProcess(settings["placer"])
        self._rates = plan.Rates()
        self._hysteresis = plan.Hysteresis()
        self._nodes = {}
        self._refused = {}  # node: why it is not used
        self._assignment = []
        self._routed = None  # the addresses in the routes; None: this controller has set none
        self._snapshot = {}
        self._epoch = 0
        self._problem = ""
        self._ingress = Ingress.options(
            name=INGRESS, namespace=NAMESPACE, lifetime="detached", get_if_exists=True,
            scheduling_strategy=NodeAffinitySchedulingStrategy(self._here, soft=False),
        ).remote(settings["address"], settings["ports"])
        self._edge = {}

    # ---- Nodes.

    def _find_nodes(self):
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        if self._settings["skip"]:
            alive.discard(self._here)
        for name in list(self._nodes):
            if name not in alive:
                self._lose(name, "Ray says that it is gone")
        for name in sorted(alive - set(self._nodes) - set(self._refused)):
            where = NodeAffinitySchedulingStrategy(name, soft=False)
            try:
                agent = Agent.options(name=agent_name(name), namespace=NAMESPACE, lifetime="detached",
                                      get_if_exists=True, scheduling_strategy=where).remote(self._agent_settings())
            except (ValueError, ray.exceptions.RayError) as error:
                log.warning("node %s: no agent yet: %s", name, error)  # the agent before it is still ending
                continue
            self._nodes[name] = NodeState(name, agent)

    def _agent_settings(self):
        shared = None if self._settings["copy"] else self._settings["repository"]
        return {"shared": shared, "words": self._settings["serve_words"]}

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
        wanted = plan.models_by_node(self._assignment, self._usable())
        for node in self._nodes.values():
            if node.pending is None:
                node.pending = (node.agent.describe.remote() if node.about is None else
                                self._step(node, wanted.get(node.name, [])))
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

    def _step(self, node, wanted):
        for model in wanted:
            if model in self._archives and model not in node.has:
                node.agent.add_model.remote(model, self._archives[model])  # runs before the step
                node.has.add(model)
        return node.agent.step.remote(wanted, self._routed)

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
            return
        if answer["version"] != self._version:
            self._refuse(node.name, f"it has lagoon {answer['version']}, the fleet has {self._version}: "
                                    "install the same wheel there")
            return
        node.about = answer

    def _usable(self):
        return [plan.Node(node.name, node.about["memory_bytes"])
                for _, node in sorted(self._nodes.items()) if node.about is not None]

    # ---- Decisions.

    def _decide(self):
        nodes = self._usable()
        if not nodes:
            self._assignment = []
            return
        before = plan.models_by_node(self._assignment, nodes) if self._all_placed(nodes) else None
        self._assignment = plan.mend(self._assignment, self._models, nodes)
        try:
            decision = self._placer.decide(plan.view(self._models, nodes, self._assignment), PLACER_SECONDS)
        except PlacerFailed as error:
            self._problem = f"placer {self._settings['placer']}: {error}; the last placement stays"
            log.warning("%s", self._problem)
            return
        refused = {entry["model"]: entry["reason"] for entry in decision["refused"]}
        self._problem = "; ".join(f"model {model} is refused: {why}" for model, why in refused.items())
        kept = [replica for replica in self._assignment if replica["model"] in refused]
        wanted = plan.assignment_of(decision, nodes) + kept
        same = plan.models_by_node(wanted, nodes) == plan.models_by_node(self._assignment, nodes)
        if before is None or same or self._hysteresis.accept(before, plan.models_by_node(wanted, nodes)):
            self._assignment = wanted

    def _all_placed(self, nodes):
        """Whether each model has a replica and no replica's node is gone."""
        names = {node.name for node in nodes}
        return ({replica["model"] for replica in self._assignment} == {model.name for model in self._models} and
                all(replica["node"] in names for replica in self._assignment))

    def _learn(self):
        """Rates from the ingress, and the times alone from the servers."""
        for model in self._models:
            model.rate = self._rates.rates.get(model.name, 0.0)
            model.rate_error = self._rates.error(model.name)
            times = [node.status["models"][model.name] for node in self._nodes.values()
                     if model.name in node.status.get("models", {})]
            if times and max(times) > 0:
                model.standalone_ms = max(times)

    # ---- The ingress.

    def _http(self, port, path, body=None):
        url = f"http://{self._edge['address']}:{self._edge['ports'][port]}{path}"
        with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=2) as reply:
            return json.loads(reply.read())

    def _ask_ingress(self):
        try:
            self._edge = ray.get(self._ingress.step.remote(), timeout=2)
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
            log.warning("the ingress does not answer: %s", error)
            self._edge = {}
        if not self._edge.get("ports"):
            return False
        if self._epoch == 0:
            # Above that of the controller before, whatever this node's clock says.
            before = self._http("metrics", "/v2/fleet/routes")["epoch"]
            self._epoch = max(int(time.time() * 1000), before + 1) % 2**64
        rows = self._http("http", "/v2/models/stats")["model_stats"]
        counts = {row["name"]: row["inference_stats"]["success"]["count"] + row["inference_stats"]["fail"]["count"]
                  for row in rows}
        self._rates.update(counts, time.monotonic())
        return True

    def _set_routes(self):
        serving = {node.name: (node.status["address"], node.status["models"]) for node in self._nodes.values()
                   if node.status.get("address") and node.about is not None}
        body = plan.routes(self._epoch, self._assignment, serving, [model.name for model in self._models])
        try:
            self._http("metrics", "/v2/fleet/routes", json.dumps(body).encode())
        except urllib.error.HTTPError as error:
            message = error.read().decode(errors="replace")
            if error.code == 409:
                raise NotLeading(message) from error
            raise
        self._routed = [member["address"] for member in body["members"]]

    # ---- All together.

    def step(self):
        """One round. NotLeading: stop."""
        self._find_nodes()
        self._ask_nodes()
        self._learn()
        self._decide()
        try:
            if self._ask_ingress():
                self._set_routes()
        except (OSError, ValueError, KeyError) as error:
            log.warning("the ingress does not answer: %s", error)
        self._snapshot = self._describe()

    def status(self):
        """The state after the last step. Any thread."""
        return {"version": self._version, "nodes": {}, "assignment": [], "ingress": {}, "refused": {}, **self._snapshot}

    def _describe(self):
        return {"version": self._version, "epoch": self._epoch, "problem": self._problem, "ingress": self._edge,
                "refused": dict(self._refused), "assignment": list(self._assignment),
                "rates": dict(self._rates.rates),
                "nodes": {name: node.status for name, node in self._nodes.items()}}

    def close(self):
        self._placer.close()
        for node in self._nodes.values():
            try:
                ray.get(node.agent.close.remote(), timeout=5)
            except ray.exceptions.RayError:
                pass
            ray.kill(node.agent)
        try:
            ray.get(self._ingress.close.remote(), timeout=5)
        except ray.exceptions.RayError:
            pass
        ray.kill(self._ingress)


@ray.remote(num_cpus=0, max_restarts=-1)
class Controller:
    """Steps a Fleet. A name that Ray holds once makes sure that there is one; should there be another all the same,
    the ingress takes routes of the later one only, and the earlier one stops."""

    def __init__(self, settings):
        logging.basicConfig(level=logging.INFO)
        self._fleet = Fleet(settings)
        self._stop = threading.Event()
        self._leading = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.is_set():
            begin = time.monotonic()
            try:
                self._fleet.step()
            except NotLeading as error:
                log.error("this controller stops, another one leads: %s", error)
                self._leading = False
                return
            except Exception:  # pylint: disable=broad-except
                log.exception("a step failed; the next one follows")
            self._stop.wait(max(0.0, begin + STEP_SECONDS - time.monotonic()))

    def status(self):
        return {"leading": self._leading, **self._fleet.status()}

    def close(self):
        """Ends the fleet, if this controller leads."""
        self._stop.set()
        self._thread.join()
        if self._leading:
            self._fleet.close()


def start(settings, name=NAME):
    """The controller of the cluster that ray.init() has connected to; a new one if there is none."""
    where = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return Controller.options(name=name, namespace=NAMESPACE, lifetime="detached", get_if_exists=True,
                              scheduling_strategy=where).remote(settings)
