"""A `lagoon serve` that is started again when it ends. Without Ray."""

import time

from lagoon.process import LagoonProcess, NotStarted

RESTART_SECONDS = 1.0  # between two tries to start it


class KeptServer:
    """step() does all the work and does not wait. A server that is started again has the ports that it had."""

    def __init__(self, words, ports=None):
        """`words` of `lagoon serve`. `ports`: {"http", "grpc", "metrics"}; 0, and those not named: any free port."""
        self._words = list(words)
        self._ports = {"http": 0, "grpc": 0, "metrics": 0, **(ports or {})}
        self._process = None
        self._next_start = 0.0
        self._problem = ""  # why the last start failed, or the server ended

    def step(self):
        """The state: "ports" (None: it does not serve), "pid" and "problem"."""
        if self._process is not None and not self._process.running():
            self._end(f"the server ended: {self._process.log_tail()}")
        if self._process is None and time.monotonic() >= self._next_start:
            self._start()
        try:
            if self._process is not None and self._process.poll_ready():
                self._ports = {name: self._process.ports[name] for name in self._ports}
                self._problem = ""
        except NotStarted as error:
            self._end(str(error))
        process = self._process
        return {"ports": process.ports if process else None, "pid": process.pid if process else 0,
                "problem": self._problem}

    def _start(self):
        self._next_start = time.monotonic() + RESTART_SECONDS
        ports = [word for name, port in self._ports.items() for word in (f"--{name}-port", port)]
        try:
            self._process = LagoonProcess("serve", *self._words, *ports)
        except OSError as error:
            self._problem = str(error)

    def _end(self, problem):
        self._problem = problem
        self._process.kill()
        self._process = None

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process = None
