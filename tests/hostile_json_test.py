#!/usr/bin/env python3
"""Attacks with JSON by hostile clients. Each attack has a control with as much network traffic.

Under pytest every attack is short, and the assertions hold on any machine: about answers, memory, and that a neighbour
is served. As a command this measures, during the attack and during its control, the latency of a real-time neighbour,
memory, and the time of an attacker's request, and writes JSON to standard output. It needs only Python's own library.

Usage: LAGOON_BINARY=build/release/apps/lagoon tests/hostile_json_test.py [ATTACK ...]
  LAGOON_HOSTILE_SECONDS  length of every attack and every control (3; under pytest 1)
  LAGOON_HOSTILE_MB       size of a large body (62; under pytest 16)
  LAGOON_HOSTILE_JSON     under pytest: append the figures to this file, a line for each attack
"""

import contextlib
import json
import multiprocessing
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = ROOT / "models" / "repository" / "digits"
START_SECONDS = 120
SOCKET_SECONDS = 60
WIDE = 1_000_000  # elements of the answer of model 'wide'
MIB = 1 << 20


# --- a model with a large answer ---

def field(number, value):
    """A field of a protobuf message: a number, or bytes."""
    def varint(rest):
        out = b""
        while rest > 127:
            out += bytes([rest & 127 | 128])
            rest >>= 7
        return out + bytes([rest])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def float_value(name, dims):
    shape = b"".join(field(1, field(1, dim)) for dim in dims)
    tensor = field(1, 1) + field(2, shape)
    return field(1, name) + field(2, field(1, tensor))


def wide_model():
    """x FP32 [1,1] -> y FP32 [1,WIDE], every element is x."""
    shape = field(1, 2) + field(2, 7) + field(8, b"shape") + field(9, struct.pack("<2q", 1, WIDE))
    node = field(1, b"x") + field(1, b"shape") + field(2, b"y") + field(4, b"Expand")
    graph = (field(1, node) + field(2, b"wide") + field(5, shape) + field(11, float_value(b"x", (1, 1))) +
             field(12, float_value(b"y", (1, WIDE))))
    return field(1, 7) + field(8, field(2, 13)) + field(7, graph)


WIDE_CONFIG = f"""name: "wide"
platform: "onnxruntime_onnx"
max_batch_size: 0
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ 1, 1 ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ 1, {WIDE} ] }} ]
"""


def make_repository(folder):
    (folder / "digits").symlink_to(DIGITS)
    (folder / "wide" / "1").mkdir(parents=True)
    (folder / "wide" / "1" / "model.onnx").write_bytes(wide_model())
    (folder / "wide" / "config.pbtxt").write_text(WIDE_CONFIG)


# --- the server ---

class Server:
    """A server with the models `digits` (real-time) and `wide`."""

    def __init__(self, binary):
        self.folder = tempfile.TemporaryDirectory(prefix="lagoon-hostile-")
        folder = pathlib.Path(self.folder.name)
        (folder / "models").mkdir()
        make_repository(folder / "models")
        ports = folder / "ports.json"
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [binary, "serve", "--models", str(folder / "models"), "--address", "127.0.0.1", "--http-port", "0",
                 "--grpc-port", "0", "--metrics-port", "0", "--profiles", "", "--ports-file", str(ports)],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while not ports.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"the server did not start:\n{self.log.read_text(errors='replace')}")
            time.sleep(0.02)
        self.ports = json.loads(ports.read_text())
        assert all(model["ready"] for model in self.ports["models"].values()), self.log.read_text()

    def memory(self):
        """(resident memory now, its maximum since the last call) in MiB."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        values = dict(line.split(":", 1) for line in status.splitlines())
        now, peak = (int(values[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
        with contextlib.suppress(OSError):  # 5 resets the maximum
            pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return now, peak

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(SOCKET_SECONDS)
            assert code == 0, f"the server ended with {code}:\n{self.log.read_text(errors='replace')}"
        finally:
            self.process.kill()
            self.process.wait()
            self.folder.cleanup()


class Client:
    """One connection, which is opened again when the server closes it."""

    def __init__(self, port):
        self.port = port
        self.socket = None
        self.received = b""

    def ask(self, method, path, body=b"", more=""):
        """(status, body); status 0 if the connection ended without an answer. An error may come before all is sent."""
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=SOCKET_SECONDS)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.received = b""
        head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n{more}\r\n"
        with contextlib.suppress(OSError):
            self.socket.sendall(head.encode())
            self.socket.sendall(body)
        try:
            return self.answer()
        except (OSError, EOFError):
            self.close()
            return 0, b""

    def answer(self):
        while b"\r\n\r\n" not in self.received:
            self.more()
        head, self.received = self.received.split(b"\r\n\r\n", 1)
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields[b"content-length"])
        pieces = [self.received]
        have = len(self.received)
        while have < length:
            piece = self.socket.recv(MIB)
            if not piece:
                raise EOFError
            pieces.append(piece)
            have += len(piece)
        whole = b"".join(pieces)
        body, self.received = whole[:length], whole[length:]
        if fields[b"connection"] == b"close":
            self.close()
        return int(head.split(b" ", 2)[1]), body

    def more(self):
        piece = self.socket.recv(65536)
        if not piece:
            raise EOFError
        self.received += piece

    def close(self):
        if self.socket is not None:
            self.socket.close()
        self.socket = None


# --- attacks ---

INFER = "/v2/models/digits/infer"
DIGIT = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8],
                                "data": [0.5] * 64}]}).encode()


def numbers(size):
    return b'{"inputs":[{"name":"image","datatype":"FP32","data":[' + b"1," * (size // 2)


def long_text(size):
    return b'{"future":"' + b"x" * size + b'",' + DIGIT[1:]


def brackets(size):
    return b"[" * size


def wide(binary):
    parameters = b',"parameters":{"binary_data_output":true}' if binary else b""
    return b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[0.1234567]}]' + parameters + b"}"


def switches(_):
    return b'{"scheduler":"lagoon"}'


# Name -> (number of clients, attack, control). Attack and control are (method, path, function that makes a body of a
# size). The control sends as many bytes, and is refused or answered without the work that the attack causes.
ATTACKS = {
    "scheduler_body": (2, ("POST", "/v2/scheduler", brackets), ("POST", INFER, brackets)),
    "numbers": (3, ("POST", INFER, numbers), ("POST", INFER, lambda size: b"x" + numbers(size))),
    "long_text": (3, ("POST", INFER, long_text), ("POST", INFER, lambda size: b"x" + long_text(size))),
    "json_answers": (4, ("POST", "/v2/models/wide/infer", lambda _: wide(False)),
                     ("POST", "/v2/models/wide/infer", lambda _: wide(True))),
    "switching": (2, ("POST", "/v2/scheduler", switches), ("GET", "/v2/scheduler", lambda _: b"")),
}


def attack(port, words, size, until, results):
    """One attacker, in a process of its own: puts (statuses, milliseconds, answers' sizes) into `results`."""
    method, path, make = words
    body = make(size)
    client = Client(port)
    statuses, times, sizes = {}, [], []
    while not times or time.monotonic() < until:
        begin = time.monotonic()
        status, answer = client.ask(method, path, body)
        times.append((time.monotonic() - begin) * 1000)
        sizes.append(len(answer))
        statuses[status] = statuses.get(status, 0) + 1
    results.put((statuses, times, sizes))


def neighbour(port, done, latencies, failures):
    """One request after the other, as a real-time client sends them."""
    client = Client(port)
    while not done.is_set():
        begin = time.monotonic()
        status, _ = client.ask("POST", INFER, DIGIT)
        latencies.append((time.monotonic() - begin) * 1000)
        if status != 200:
            failures.append(status)


def quantile(values, part):
    ordered = sorted(values)
    return round(ordered[min(int(part * len(ordered)), len(ordered) - 1)], 3)


def measure(server, clients, words, size, seconds):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    done, latencies, failures = threading.Event(), [], []
    before, _ = server.memory()
    attackers = [context.Process(target=attack, args=(server.ports["http"], words, size, time.monotonic() + seconds,
                                                      results)) for _ in range(clients)]
    for process in attackers:
        process.start()
    beside = threading.Thread(target=neighbour, args=(server.ports["http"], done, latencies, failures))
    beside.start()
    got = [results.get(timeout=10 * SOCKET_SECONDS) for _ in attackers]
    done.set()
    beside.join()
    for process in attackers:
        process.join()
    after, peak = server.memory()
    statuses = {}
    for each, _, _ in got:
        for status, count in each.items():
            statuses[str(status)] = statuses.get(str(status), 0) + count
    times = [milliseconds for _, each, _ in got for milliseconds in each]
    return {"neighbour_requests": len(latencies), "neighbour_failures": failures,
            "neighbour_p50_ms": quantile(latencies, 0.5), "neighbour_p99_ms": quantile(latencies, 0.99),
            "neighbour_max_ms": quantile(latencies, 1), "attack_statuses": statuses,
            "attack_p50_ms": quantile(times, 0.5), "attack_max_ms": quantile(times, 1),
            "largest_answer_bytes": max(size for _, _, sizes in got for size in sizes),
            "memory_before_mib": round(before, 1), "memory_peak_mib": round(peak, 1),
            "memory_after_mib": round(after, 1)}


def run(binary, name, size, seconds):
    """{"attack": figures, "control": figures}. Each runs with a server of its own, the control first."""
    clients, attacking, control = ATTACKS[name]
    figures = {}
    for side, words in (("control", control), ("attack", attacking)):
        server = Server(binary)
        try:
            figures[side] = measure(server, clients, words, size, seconds)
        finally:
            server.close()
    return figures


# --- under pytest ---

SHORT_SECONDS = 1
SHORT_BYTES = 16 * MIB


def check(name):
    binary = os.environ.get("LAGOON_BINARY", "")
    assert os.access(binary, os.X_OK), f"LAGOON_BINARY must name the lagoon command; it is {binary!r}"
    seconds = float(os.environ.get("LAGOON_HOSTILE_SECONDS", SHORT_SECONDS))
    figures = run(binary, name, SHORT_BYTES, seconds)
    if file := os.environ.get("LAGOON_HOSTILE_JSON"):
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps({name: figures}) + "\n")
    for side in figures.values():
        assert side["neighbour_failures"] == []
        assert side["neighbour_requests"] > 0
    return figures["attack"]


def grown(figures):
    return figures["memory_peak_mib"] - figures["memory_before_mib"]


def test_a_body_for_the_scheduler_is_refused_before_it_is_read():
    figures = check("scheduler_body")
    assert set(figures["attack_statuses"]) <= {"413", "0"} and figures["attack_statuses"]["413"] > 0
    assert grown(figures) < SHORT_BYTES / MIB  # was 75 times the body's size before the fix


def test_more_numbers_than_the_model_takes_are_refused():
    figures = check("numbers")
    assert set(figures["attack_statuses"]) == {"400"}
    # Room for three bodies and some that were just freed, but not for lists of their numbers, which once took eight
    # times as much.
    assert grown(figures) < 6 * SHORT_BYTES / MIB + 64


def test_a_long_text_is_read_beside_the_others():
    assert set(check("long_text")["attack_statuses"]) == {"200"}


def test_large_answers_are_written_beside_the_others():
    figures = check("json_answers")
    assert set(figures["attack_statuses"]) == {"200"}
    assert figures["largest_answer_bytes"] > 9 * WIDE


def test_clients_do_not_switch_the_scheduler():
    assert set(check("switching")["attack_statuses"]) == {"403"}


def main():
    binary = os.environ.get("LAGOON_BINARY", "")
    if not os.access(binary, os.X_OK):
        sys.exit(f"LAGOON_BINARY must name the lagoon command; it is {binary!r}")
    names = sys.argv[1:] or list(ATTACKS)
    if set(names) - set(ATTACKS):
        sys.exit(f"unknown attack; there are: {', '.join(ATTACKS)}")
    size = int(os.environ.get("LAGOON_HOSTILE_MB", 62)) * MIB
    seconds = float(os.environ.get("LAGOON_HOSTILE_SECONDS", 3))
    print(json.dumps({name: run(binary, name, size, seconds) for name in names}, indent=2))


if __name__ == "__main__":
    main()
