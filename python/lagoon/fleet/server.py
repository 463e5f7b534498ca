"""The servers of one node: the one that serves, the one that loads other models, and those that drain. Without Ray."""

import shutil
import time

from lagoon.process import LagoonProcess, NotStarted

RESTART_SECONDS = 1.0  # between two tries to start a server
DRAIN_SECONDS = 30


class _Server:
    """A `lagoon serve` with a fixed set of models, in a view of the repository."""

    def __init__(self, store, models, words):
        self.models = models
        self._stopping = False
        self._view = store.view(models)
        try:
            self.process = LagoonProcess("serve", "--models", self._view, "--drain-seconds", DRAIN_SECONDS, *words)
        except BaseException:
            shutil.rmtree(self._view, ignore_errors=True)
            raise

    def ready_models(self):
        """{model: milliseconds of a row alone}, of those that loaded."""
        return {name: model["standalone_ms"] for name, model in self.process.ports.get("models", {}).items()
                if model["ready"]}

    def stop(self):
        """Asks the server to answer what is in flight and to end. Asks once: a second signal would end it at once."""
        if not self._stopping:
            self._stopping = True
            self.process.stop()

    def close(self):
        self.process.kill()
        shutil.rmtree(self._view, ignore_errors=True)


class NodeServers:
    """Changes the models of a node without a failed request: another server loads them beside the one that serves. The
    old server drains when the ingress sends it nothing more. step() does all the work and does not wait."""

    def __init__(self, store, address, words):
        """`address`: where the servers listen; `words`: more words of `lagoon serve`."""
        self._store = store
        self._address = address
        self._words = ["--address", address, *words]
        self._serving = None
        self._loading = None
        self._draining = []
        self._next_start = 0.0
        self.problem = ""  # why the last start failed

    def step(self, wanted, routed):
        """`wanted`: the node's models, sorted; `routed`: addresses that the ingress uses, or None: not known, so that
        no server is stopped. The state: "address" of gRPC
        (empty: nothing serves), "models" {name: ms alone}, "wanted" as it serves now, "problem"."""
        self._reap(routed)
        self._finish_loading()
        if self._serving is not None and not self._serving.process.running():
            self.problem = f"the server ended: {self._serving.process.log_tail()}"
            self._serving.close()
            self._serving = None
        aim = self._loading or self._serving
        if (aim.models if aim else []) != wanted:
            self._start(wanted)
        serving = self._serving
        return {"address": f"{self._address}:{serving.process.ports['grpc']}" if serving else "",
                "models": serving.ready_models() if serving else {},
                "settled": (serving.models if serving else []) == wanted, "problem": self.problem,
                "pid": serving.process.pid if serving else 0}

    def _start(self, wanted):
        if self._loading is not None:
            self._loading.close()
            self._loading = None
        if not wanted:
            self._retire()
            return
        if time.monotonic() < self._next_start:
            return
        self._next_start = time.monotonic() + RESTART_SECONDS
        try:
            self._loading = _Server(self._store, wanted, self._words)
        except OSError as error:
            self.problem = str(error)

    def _finish_loading(self):
        if self._loading is None:
            return
        try:
            if not self._loading.process.poll_ready():
                return
        except NotStarted as error:
            self.problem = str(error)
            self._loading.close()
            self._loading = None
            return
        self._retire()
        self._serving, self._loading, self.problem = self._loading, None, ""

    def _retire(self):
        if self._serving is not None:
            self._draining.append(self._serving)
            self._serving = None

    def _reap(self, routed):
        for server in list(self._draining):
            if not server.process.running():
                server.close()
                self._draining.remove(server)
            elif routed is not None and f"{self._address}:{server.process.ports['grpc']}" not in routed:
                server.stop()

    def close(self):
        for server in [self._serving, self._loading, *self._draining]:
            if server is not None:
                server.close()
        self._store.close()
