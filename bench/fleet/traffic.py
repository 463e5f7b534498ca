"""Clients that send requests without a pause and account for every answer."""

import http.client
import json
import socket
import threading
import time


class Traffic:
    """`clients` threads, each with one connection and one request at a time. Each request has an id of its own.

    After stop(): `sent`, `answered` (with any HTTP status), `unavailable` (503), `wrong` (another status, another id, or
    another output than expected), `doubled` (bytes that nobody asked for), `lost` (no answer within `timeout`, or the
    connection ended before the answer), and `milliseconds` of each answer 200."""

    def __init__(self, host, port, model, body, expected, clients=4, timeout=30):
        """`body`: a request as JSON without an id; `expected`: a function from the answer's JSON to true or false."""
        self._host, self._port, self._model = host, port, model
        self._body, self._expected, self._timeout = body, expected, timeout
        self.sent = self.answered = self.unavailable = self.wrong = self.doubled = self.lost = 0
        self.milliseconds = []
        self.problems = []
        self.last_good = time.monotonic()
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(index,)) for index in range(clients)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._end.set()
        for thread in self._threads:
            thread.join()

    def wait(self, answers, seconds=60):
        """Waits until so many more answers are good. TimeoutError: they did not come."""
        aim = len(self.milliseconds) + answers
        deadline = time.monotonic() + seconds
        while len(self.milliseconds) < aim:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.milliseconds)} of {aim} good answers within {seconds} s; {self.problems[-3:]}")
            time.sleep(0.01)

    def counts(self):
        return {name: getattr(self, name) for name in ("sent", "answered", "unavailable", "wrong", "doubled", "lost")}

    def _run(self, index):
        connection = None
        number = 0
        while not self._end.is_set():
            if connection is None:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
            number += 1
            if not self._ask(connection, f"{index}-{number}"):
                connection.close()
                connection = None
                self._end.wait(0.05)
        if connection is not None:
            self._note(doubled=int(self._has_more(connection)))
            connection.close()

    def _ask(self, connection, name):
        """Sends one request. False: the connection cannot be used any more."""
        try:
            if connection.sock is None:
                connection.connect()
        except OSError:
            return False  # nothing was sent: the ingress is not there
        begin = time.monotonic()
        self._note(sent=1)
        try:
            connection.request("POST", f"/v2/models/{self._model}/infer", json.dumps({**self._body, "id": name}))
            reply = connection.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException) as error:
            self._note(lost=1, problem=f"{name}: {error!r}")
            return False
        self._judge(name, reply.status, text, begin)
        return not reply.will_close

    def _judge(self, name, status, text, begin):
        if status == 503:
            self._note(answered=1, unavailable=1, problem=f"{name}: {text[:200]!r}")
            return
        answer = json.loads(text) if status == 200 else {}
        if status != 200 or answer.get("id") != name or not self._expected(answer):
            self._note(answered=1, wrong=1, problem=f"{name}: HTTP {status}: {text[:200]!r}")
            return
        with self._lock:
            self.answered += 1
            self.last_good = time.monotonic()
            self.milliseconds.append((self.last_good - begin) * 1000)

    def _note(self, problem=None, **counts):
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)
            if problem:
                self.problems = [*self.problems[-20:], problem]

    @staticmethod
    def _has_more(connection):
        if connection.sock is None:
            return False
        connection.sock.setblocking(False)
        try:
            return len(connection.sock.recv(1)) > 0
        except (BlockingIOError, socket.timeout, OSError):
            return False


def percentile(values, part):
    """The value below which `part` (0 to 1) of `values` lie; by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(part * len(ordered) + 0.5) - 1))]
