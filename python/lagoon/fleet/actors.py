"""The actors on the nodes: an agent on each, and the front on one."""

import os

import ray

from lagoon import binary
from lagoon.fleet.models import ModelStore
from lagoon.fleet.server import KeptServer

NAMESPACE = "lagoon"


def agent_name(node):
    return f"lagoon-agent-{node}"


@ray.remote(num_cpus=0, max_restarts=0)
class Agent:
    """The server of one node, which loads what the front tells it. Ends with the node, and its server ends with it."""

    def __init__(self, settings):
        """`settings`: "shared" (path of the repository, or None) and "words" (more words of `lagoon serve`)."""
        self._store = ModelStore(settings["shared"])
        self._address = ray.util.get_node_ip_address()
        self._server = KeptServer(["--models", self._store.folder, "--model-control", "explicit",
                                   "--allow-admin-on-http", "--address", self._address, *settings["words"]])

    def describe(self):
        """{"version", "memory_bytes"} of the node."""
        return {"version": binary.version(),
                "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}

    def add_model(self, archive):
        self._store.add(archive)

    def step(self):
        """The state: "address" of gRPC (empty: it does not serve), "pid" and "problem"."""
        state = self._server.step()
        ports = state.pop("ports")
        return {**state, "address": f"{self._address}:{ports['grpc']}" if ports else ""}

    def close(self):
        self._server.close()
        self._store.close()


@ray.remote(num_cpus=0, max_restarts=-1)
class Front:
    """Owns the `lagoon serve --fleet open` that decides and that clients ask. Ray starts this actor again when it is
    lost, and step() the server."""

    def __init__(self, settings):
        """`settings` as of controller.Fleet."""
        self._address = settings["address"]
        self._server = KeptServer(["--fleet", "open", "--models", settings["repository"], "--placer", settings["placer"],
                                   "--address", self._address], settings["ports"])

    def step(self):
        """The state: "address", "ports" (None: it does not serve), "pid" and "problem"."""
        host = ray.util.get_node_ip_address() if self._address == "0.0.0.0" else self._address
        return {**self._server.step(), "address": host}

    def close(self):
        self._server.close()
