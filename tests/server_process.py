"""Starts `lagoon serve` on free ports, finds them, and ends it."""

import contextlib
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

START_SECONDS = 120
STOP_SECONDS = 60


class ServerProcess:
    """A running server. Keeps the server's log, for messages of failed tests."""

    def __init__(self, lagoon, models, *words):
        self.folder = tempfile.TemporaryDirectory(prefix="lagoon-serve-")
        self.ports_file = pathlib.Path(self.folder.name) / "ports.json"
        self.log_file = pathlib.Path(self.folder.name) / "log"
        ports = [word for flag in ("--http-port", "--grpc-port", "--metrics-port")
                 if flag not in words for word in (flag, "0")]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [lagoon.binary, "serve", "--models", str(models), "--address", "127.0.0.1", *ports,
                 "--ports-file", str(self.ports_file), *map(str, words)],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.ports = None

    def wait_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                self.ports = json.loads(self.ports_file.read_text())
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        state = self.process.poll()
        self.process.kill()
        raise AssertionError(f"the server did not start (exit code {state}):\n{self.log()}")

    def log(self):
        return self.log_file.read_text(errors="replace")

    def url(self, protocol):
        return f"127.0.0.1:{self.ports[protocol]}"

    def http(self, **words):
        words = {"network_timeout": 60, "connection_timeout": 60, **words}
        return triton_http.InferenceServerClient(self.url("http"), **words)

    def grpc(self):
        return triton_grpc.InferenceServerClient(self.url("grpc"))

    def post(self, path, body, headers=None, port="http", raw=False):
        """(status, JSON body; `raw`: its bytes) of a plain HTTP request."""
        read = (lambda text: text) if raw else (lambda text: json.loads(text or b"null"))
        request = urllib.request.Request(f"http://{self.url(port)}{path}", data=body,
                                         headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, read(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, read(error.read())

    def metrics(self):
        """{(name, model or ''): sum over other labels}, and the text of the metrics."""
        with urllib.request.urlopen(f"http://{self.url('metrics')}/metrics", timeout=60) as reply:
            text = reply.read().decode()
        values = {}
        for name, labels, value in re.findall(r"^([a-z_:]\w*)(\{.*\})? (\S+)$", text, re.M):
            model = re.search(r'model="([^"]*)"', labels)
            key = (name, model.group(1) if model else "")
            values[key] = values.get(key, 0) + float(value)
        return values, text

    def terminate(self, how=signal.SIGTERM):
        self.process.send_signal(how)

    def wait(self):
        return self.process.wait(STOP_SECONDS)

    def close(self):
        """Ends the server. A crash or an unclean end fails the test."""
        try:
            if self.process.poll() is None:
                self.terminate()
            code = self.wait()
            assert code == 0, f"the server ended with {code}:\n{self.log()}"
        finally:
            self.process.kill()
            self.process.wait()
            self.folder.cleanup()


@contextlib.contextmanager
def serving(lagoon, models, *words):
    server = ServerProcess(lagoon, models, *words)
    try:
        yield server.wait_ready()
    finally:
        server.close()


def triton_input(module, name, array, datatype="FP32", **words):
    """An input tensor. `module`: triton_http or triton_grpc; `words`: for HTTP, binary_data."""
    tensor = module.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array, **words)
    return tensor
