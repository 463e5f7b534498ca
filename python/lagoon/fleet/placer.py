"""The placers of the C++ library, through a process `lagoon place`."""

import json
import select
import subprocess
import time

from lagoon import binary


class PlacerFailed(Exception):
    """The placer refused the view, did not answer in time, or ended."""


class PlacerProcess:
    """One placer. A process that fails is ended, and the next decision starts another. Not thread-safe."""

    def __init__(self, name="lagoon", path=None):
        self._words = [path or binary.find(), "place", "--placer", name]
        self._process = None

    def decide(self, view, seconds):
        """The assignment for `view` (apps/serving/place_json.h has both formats). PlacerFailed: none within `seconds`."""
        if self._process is None:
            self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL)
        try:
            self._process.stdin.write(json.dumps(view).encode() + b"\n")
            self._process.stdin.flush()
            line = self._read_line(time.monotonic() + seconds)
        except OSError as error:
            self.close()
            raise PlacerFailed(f"lagoon place ended: {error}") from error
        except PlacerFailed:
            self.close()
            raise
        answer = json.loads(line)
        if "error" in answer:
            raise PlacerFailed(answer["error"])
        return answer

    def _read_line(self, deadline):
        parts = []
        pipe = self._process.stdout
        while True:
            if not select.select([pipe], [], [], max(0, deadline - time.monotonic()))[0]:
                raise PlacerFailed("lagoon place did not answer in time")
            part = pipe.read1(1 << 16)
            if not part:
                raise PlacerFailed(f"lagoon place ended with {self._process.wait()}")
            parts.append(part)
            if part.endswith(b"\n"):
                return b"".join(parts)

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            self._process = None
