"""What the controller computes, without Ray: the placer's view, its decision, and the routes of the ingress.

An assignment is a list of replicas {"model", "node", "fraction"}; the fractions of a model add up to 1.
"""

import dataclasses
import math

GRANULES = 100
DEFAULT_STANDALONE_MS = 10.0  # of a model that no node has loaded yet
ROW_PART = 0.8  # the part of a batch's time that grows with its rows: a guess that errs on the slow side


@dataclasses.dataclass
class Model:
    """What the fleet knows about a model."""
    name: str
    memory_bytes: int
    slo_ms: float
    standalone_ms: float = DEFAULT_STANDALONE_MS  # of one row, alone; measured by the server when it loads the model
    rate: float = 0.0  # requests per second
    rate_error: float = 0.0


@dataclasses.dataclass
class Node:
    """A node that may serve: its agent answers, and its version is that of the fleet."""
    name: str
    memory_bytes: int


def view(models, nodes, assignment):
    """The view for `lagoon place`; its GPUs are `nodes` in their order."""
    index = {node.name: i for i, node in enumerate(nodes)}
    return {
        "models": [{"name": model.name, "slo_ms": model.slo_ms, "rate": model.rate, "rate_error": model.rate_error,
                    "memory_bytes": model.memory_bytes, "most_rows": 1,
                    "latency": {"base_ms": model.standalone_ms * (1 - ROW_PART), "row_ms": model.standalone_ms * ROW_PART}}
                   for model in models],
        "gpus": [{"granules": GRANULES, "memory_bytes": node.memory_bytes} for node in nodes],
        "current": [{"model": replica["model"], "gpu": index[replica["node"]], "granules": 1, "rows": 1,
                     "fraction": replica["fraction"]} for replica in assignment if replica["node"] in index],
    }


def assignment_of(decision, nodes):
    """The replicas of the placer's answer, with names of nodes."""
    return [{"model": replica["model"], "node": nodes[replica["gpu"]].name, "fraction": replica["fraction"]}
            for replica in decision["replicas"]]


def mend(assignment, models, nodes):
    """`assignment` without the nodes that are gone, and with a replica of each model that has none left, on the node
    with the fewest. What holds until the placer has decided, and if it cannot."""
    names = [node.name for node in nodes]
    kept = [dict(replica) for replica in assignment if replica["node"] in names]
    count = {name: 0 for name in names}
    for replica in kept:
        count[replica["node"]] += 1
    for model in models:
        own = [replica for replica in kept if replica["model"] == model.name]
        if not own and names:
            node = min(names, key=lambda name: (count[name], name))
            count[node] += 1
            own = [{"model": model.name, "node": node, "fraction": 1.0}]
            kept += own
        total = sum(replica["fraction"] for replica in own)
        for replica in own:
            replica["fraction"] = replica["fraction"] / total if total > 0 else 1 / len(own)
    return kept


def models_by_node(assignment, nodes):
    """{node: sorted models} for each of `nodes`; replicas elsewhere are left out."""
    sets = {node.name: set() for node in nodes}
    for replica in assignment:
        if replica["node"] in sets:
            sets[replica["node"]].add(replica["model"])
    return {node: sorted(models) for node, models in sets.items()}


def routes(epoch, assignment, serving, names=()):
    """The body of POST /v2/fleet/routes. `serving`: {node: (address of gRPC, models that it serves)}.
    `names`: of all models; one that no node serves is unavailable, not unknown.

    Only replicas that serve get requests. Replicas that the assignment does not have any more get none, unless no other
    one of the model serves: then they all share the requests."""
    wanted = {(replica["model"], replica["node"]): replica["fraction"] for replica in assignment}
    models = {name: [] for name in names}
    for node, (_, served) in sorted(serving.items()):
        for model in served:
            models.setdefault(model, []).append({"member": node, "fraction": wanted.get((model, node), 0.0)})
    for replicas in models.values():
        total = sum(replica["fraction"] for replica in replicas)
        for replica in replicas:
            replica["fraction"] = replica["fraction"] / total if total > 0 else 1 / len(replicas)
    return {"epoch": epoch, "models": models,
            "members": [{"name": node, "address": address} for node, (address, _) in sorted(serving.items())]}


class Rates:
    """Requests per second of each model, from counters that only rise, smoothed over a few seconds."""

    WEIGHT = 0.3  # of the newest second

    def __init__(self):
        self._counts = {}
        self._at = None
        self.rates = {}

    def update(self, counts, now):
        """`counts`: {model: requests so far}; `now`: seconds of a clock that does not jump."""
        seconds = None if self._at is None else now - self._at
        if seconds is not None and seconds > 0:
            for model, count in counts.items():
                before = self._counts.get(model, 0)
                arrived = count - before if count >= before else count  # the ingress began anew
                weight = 1 - (1 - self.WEIGHT) ** seconds
                old = self.rates.get(model, arrived / seconds)
                self.rates[model] = old + weight * (arrived / seconds - old)
        self._counts, self._at = dict(counts), now

    def error(self, model):
        """The standard error of a Poisson rate that is seen for about a second."""
        return math.sqrt(max(self.rates.get(model, 0.0), 0.0))


class Hysteresis:
    """Moves no replica for a whim: another placement is taken when the placer has said it several times in a row."""

    def __init__(self, times=3):
        self._times = times
        self._wanted = None
        self._count = 0

    def accept(self, now, wanted):
        """Whether to go from placement `now` to `wanted`, both {node: models}. False while they are the same."""
        if wanted == now:
            self._wanted, self._count = None, 0
            return False
        self._count = self._count + 1 if wanted == self._wanted else 1
        self._wanted = wanted
        return self._count >= self._times
