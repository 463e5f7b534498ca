"""Clients that send requests without a pause and account for every answer."""

import json
import math
import socket
import threading
import time


class Connection:
    """HTTP/1.1 over one socket. Unlike http.client, it keeps bytes that come after an answer, so that they are seen."""

    def __init__(self, host, port, timeout):
        self._socket = socket.create_connection((host, port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def ask(self, path, body):
        """(status, body) of a POST. OSError: there is no whole answer."""
        self._socket.sendall(f"POST {path} HTTP/1.1\r\nHost: fleet\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        while (end := self._rest.find(b"\r\n\r\n")) < 0:
            self._receive()
        head = self._rest[:end].decode(errors="replace").lower()
        lengths = [line.split(":")[1] for line in head.split("\r\n") if line.startswith("content-length:")]
        size = end + 4 + int(lengths[0])
        while len(self._rest) < size:
            self._receive()
        text, self._rest = self._rest[end + 4:size], self._rest[size:]
        return int(head.split()[1]), text

    def has_more(self):
        """Whether bytes came that belong to no answer asked for."""
        self._socket.settimeout(0.05)
        try:
            self._receive()
        except OSError:
            pass
        return len(self._rest) > 0

    def close(self):
        self._socket.close()

    def _receive(self):
        part = self._socket.recv(1 << 16)
        if not part:
            raise ConnectionError("the server closed the connection")
        self._rest += part


class Traffic:
    """`clients` threads, each with one connection and one request at a time. Each request has an id of its own.

    After stop(): `sent`, `answered` (with any HTTP status), `unavailable` (503), `unknown` (404: no server
    knows the model), `wrong` (another status, or another output than expected), `doubled` (an answer with the id of another request, or after the last one), `lost` (no answer within `timeout`, or the
    connection ended before the answer), and `milliseconds` of each answer 200."""

    def __init__(self, host, port, model, body, expected, clients=4, timeout=30):
        """`body`: a request as JSON without an id; `expected`: a function from the answer's JSON to true or false."""
        self._host, self._port, self._model = host, port, model
        self._body, self._expected, self._timeout = body, expected, timeout
        self.sent = self.answered = self.unavailable = self.unknown = self.wrong = self.doubled = self.lost = 0
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
        return {name: getattr(self, name) for name in ("sent", "answered", "unavailable", "unknown", "wrong", "doubled", "lost")}

    def _run(self, index):
        connection = None
        number = 0
        while not self._end.is_set():
            if connection is None:
                connection = self._connect()
                continue
            number += 1
            if not self._ask(connection, f"{index}-{number}"):
                connection.close()
                connection = None
        if connection is not None:
            self._note(doubled=int(connection.has_more()))
            connection.close()

    def _connect(self):
        try:
            return Connection(self._host, self._port, self._timeout)
        except OSError:
            self._end.wait(0.05)  # nothing was sent: the server is not there
            return None

    def _ask(self, connection, name):
        """Sends one request. False: the connection cannot be used any more."""
        begin = time.monotonic()
        self._note(sent=1)
        try:
            status, text = connection.ask(f"/v2/models/{self._model}/infer", json.dumps({**self._body, "id": name}).encode())
        except (OSError, ValueError, IndexError) as error:
            self._note(lost=1, problem=f"{name}: {error!r}")
            return False
        return self._judge(name, status, text, begin)

    def _judge(self, name, status, text, begin):
        """Counts an answer. False: the connection is out of step with the requests."""
        problem = f"{name}: HTTP {status}: {text[:200]!r}"
        answer = json.loads(text) if status == 200 else {}
        if status == 503:
            self._note(answered=1, unavailable=1, problem=problem)
        elif status == 404:
            self._note(answered=1, unknown=1, problem=problem)
        elif status == 200 and answer.get("id") != name:
            self._note(answered=1, doubled=1, problem=problem)
            return False
        elif status != 200 or not self._expected(answer):
            self._note(answered=1, wrong=1, problem=problem)
        else:
            self._good(begin)
        return True

    def _good(self, begin):
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


def percentile(values, part):
    """The value below which `part` (0 to 1) of `values` lie; by the nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]
