"""The actors on the nodes: an agent on each, and the ingress on one."""

import os

import ray

from lagoon import binary
from lagoon.fleet.models import ModelStore
from lagoon.fleet.server import NodeServers
from lagoon.process import LagoonProcess, NotStarted

NAMESPACE = "lagoon"


def agent_name(node):
    return f"lagoon-agent-{node}"


@ray.remote(num_cpus=0, max_restarts=0)
class Agent:
    """The servers of one node. Ends with the node, and its servers end with it."""

    def __init__(self, settings):
        """`settings`: "shared" (path of the repository, or None) and "words" (more words of `lagoon serve`)."""
        self._servers = None
        self._settings = settings
        self._store = ModelStore(settings["shared"])

    def describe(self):
        """{"version", "memory_bytes"} of the node."""
        return {"version": binary.version(),
                "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}

    def add_model(self, model, archive):
        self._store.add(model, archive)

    def step(self, wanted, routed):
        """NodeServers.step()."""
        if self._servers is None:
            self._servers = NodeServers(self._store, ray.util.get_node_ip_address(), self._settings["words"])
        return self._servers.step(wanted, routed)

    def close(self):
        if self._servers is not None:
            self._servers.close()


@ray.remote(num_cpus=0, max_restarts=-1)
class Ingress:
    """Owns `lagoon ingress`. Ray starts this actor again when it is lost, and step() the process."""

    def __init__(self, address, ports):
        """`ports`: {"http", "grpc", "metrics"}; 0: any free port, and the same one after a restart of the process."""
        self._address = address
        self._ports = dict(ports)
        self._process = None

    def step(self):
        """The state: "address", the ports, and "problem", why nothing serves."""
        problem = ""
        if self._process is not None and not self._process.running():
            problem = f"the ingress ended: {self._process.log_tail()}"
            self._process.kill()
            self._process = None
        if self._process is None:
            words = [word for name, port in self._ports.items() for word in (f"--{name}-port", port)]
            self._process = LagoonProcess("ingress", "--address", self._address, *words)
        try:
            if self._process.poll_ready():
                self._ports = {name: self._process.ports[name] for name in self._ports}
        except NotStarted as error:
            problem = str(error)
        host = ray.util.get_node_ip_address() if self._address == "0.0.0.0" else self._address
        return {"address": host, "ports": self._process.ports, "problem": problem, "pid": self._process.pid}

    def close(self):
        if self._process is not None:
            self._process.kill()
