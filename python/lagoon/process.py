"""`lagoon serve` as a process of this one."""

import contextlib
import ctypes
import json
import pathlib
import signal
import subprocess
import tempfile
import time

from lagoon import binary

PR_SET_PDEATHSIG = 1
LOG_TAIL_BYTES = 2000
LIBC = ctypes.CDLL(None, use_errno=True)


def _die_with_parent():
    """In the child: the kernel kills it when the thread that started it ends, however that ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class NotStarted(Exception):
    """The process ended before it served. The message has the end of its log."""


class LagoonProcess:
    """A server on this machine. Not thread-safe. The process ends with the thread that made this object."""

    def __init__(self, command, *words, path=None):
        """Starts `lagoon COMMAND WORDS...` and returns at once. Ports that the words do not name are free ones."""
        self._folder = tempfile.TemporaryDirectory(prefix="lagoon-")
        self._ports_file = pathlib.Path(self._folder.name) / "ports.json"
        self.log_file = pathlib.Path(self._folder.name) / "log"
        self.ports = None
        ports = [word for flag in ("--http-port", "--grpc-port", "--metrics-port") if flag not in words
                 for word in (flag, "0")]
        self.words = [path or binary.find(), command, *map(str, words), *ports, "--ports-file", str(self._ports_file)]
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                             preexec_fn=_die_with_parent)

    @property
    def pid(self):
        return self._process.pid

    def running(self):
        return self._process.poll() is None

    def poll_ready(self):
        """True when the process serves; then `ports` has its ports and models. NotStarted: it ended before."""
        if self.ports is not None:
            return True
        with contextlib.suppress(OSError, ValueError):
            self.ports = json.loads(self._ports_file.read_text())
            return True
        if not self.running():
            raise NotStarted(f"{' '.join(self.words[:4])} ... ended with {self._process.returncode}: {self.log_tail()}")
        return False

    def wait_ready(self, seconds=120):
        """Returns this object when the process serves. NotStarted: it ended, or did not serve within `seconds`."""
        deadline = time.monotonic() + seconds
        while not self.poll_ready():
            if time.monotonic() > deadline:
                self.kill()
                raise NotStarted(f"{' '.join(self.words[:4])} ... did not serve within {seconds} s: {self.log_tail()}")
            time.sleep(0.01)
        return self

    def log_tail(self):
        with contextlib.suppress(OSError):
            return self.log_file.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
        return ""

    def stop(self):
        """Asks the process to answer what is in flight and to end. Returns at once."""
        if self.running():
            self._process.send_signal(signal.SIGTERM)

    def kill(self):
        """Ends the process at once and frees its files."""
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()
