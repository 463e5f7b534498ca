"""Effects of hostile gRPC clients, in raw frames of HTTP/2, on other clients and on the server's memory.

Each attack runs over four connections, which it opens again when they are closed, for
LAGOON_HOSTILE_SECONDS (default 1). The figures are appended to LAGOON_HOSTILE_JSON, as those of
hostile_test.py are.
"""

import contextlib
import socket
import struct
import threading
import time

import pytest

from conftest import DIGITS
from hostile_test import MIB, SECONDS, connect, report, resident
from server_process import serving

CONNECTIONS = 4
# The attack's streams until the connections are shut down, heaps of the threads.
MOST_GROWTH = 100 * MIB
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
CANCEL = struct.pack(">I", 8)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    """One field of a header without compression."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(method):
    return (field(b":method", b"POST") + field(b":scheme", b"http") +
            field(b":path", b"/inference.GRPCInferenceService/" + method) + field(b":authority", b"a") +
            field(b"content-type", b"application/grpc") + field(b"te", b"trailers"))


def message(body=b""):
    return b"\0" + struct.pack(">I", len(body)) + body


def resets(method, body):
    def piece(stream):
        return b"".join(frame(HEADERS, END_HEADERS, s, head(method)) + frame(DATA, END_STREAM, s, message(body)) +
                        frame(RST_STREAM, 0, s, CANCEL) for s in range(stream, stream + 512, 2)), stream + 512
    return piece


def never_ended(stream):
    return b"".join(frame(HEADERS, END_HEADERS, s, head(b"ServerLive"))
                    for s in range(stream, stream + 512, 2)), stream + 512


def endless_header(stream):
    begin = frame(HEADERS, 0, 1, head(b"ServerLive")) if stream == 1 else b""
    return begin + frame(CONTINUATION, 0, 1, 8 * field(b"x-a", b"v" * 100)) * 64, 3


def pings(stream):
    return frame(PING, 0, 0, b"01234567") * 4000, stream


def window_updates(stream):
    return frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) * 5000, stream


def reset_by_the_server(stream):
    """Each call has more data than it says, for which the server must reset it (CVE-2025-8671)."""
    short = head(b"ServerLive") + field(b"content-length", b"1")
    return b"".join(frame(HEADERS, END_HEADERS, s, short) + frame(DATA, 0, s, message())
                    for s in range(stream, stream + 512, 2)), stream + 512


def settings(stream):
    return frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 2000, stream


def priorities(stream):
    return frame(PRIORITY, 0, 1, bytes(5)) * 4000, stream


def empty_data(stream):
    begin = frame(HEADERS, END_HEADERS, 1, head(b"ModelStreamInfer")) if stream == 1 else b""
    return begin + frame(DATA, 0, 1) * 5000, 3


ATTACKS = {"calls that the server resets": reset_by_the_server, "settings": settings, "priorities": priorities,
           "data without bytes": empty_data, "resets of ServerLive": resets(b"ServerLive", b""),
           "resets of ModelInfer": resets(b"ModelInfer", b"\x0a\x06digits"),
           "calls that never end": never_ended, "a header that never ends": endless_header,
           "pings": pings, "window updates": window_updates}


class Client:
    """A gRPC client of one connection, fast enough to be suspicious."""

    def __init__(self, server):
        self.socket, self.buffer, self.stream = connect(server, "grpc"), bytearray(), 1
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0))

    def _frame(self):
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionError("the server closed the connection")
            self.buffer += more
        size = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big")
        payload = bytes(self.buffer[9:9 + size])
        del self.buffer[:9 + size]
        return kind, flags, stream, payload

    def calls(self, count, method=b"ServerLive"):
        """Makes `count` calls at once and waits for their answers. None may fail."""
        last, waiting, requests = self.stream + 2 * count, set(), []
        for stream in range(self.stream, last, 2):
            requests.append(frame(HEADERS, END_HEADERS, stream, head(method)) +
                            frame(DATA, END_STREAM, stream, message()))
            waiting.add(stream)
        self.stream = last
        self.socket.sendall(b"".join(requests))
        while waiting:
            kind, flags, stream, payload = self._frame()
            if kind == SETTINGS and not flags & ACK:
                self.socket.sendall(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self.socket.sendall(frame(PING, ACK, 0, payload))
            elif kind == RST_STREAM:
                raise ConnectionError(f"stream {stream} was reset: {payload.hex()}")
            elif kind == DATA and payload:
                self.socket.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload))))
            elif kind == HEADERS and flags & END_STREAM:
                waiting.discard(stream)

    def close(self):
        self.socket.close()


def attack(server, piece, end, cut):
    while not end.is_set():
        with contextlib.suppress(OSError), contextlib.closing(connect(server, "grpc")) as connection:
            connection.settimeout(1)
            connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
            stream = 1
            while not end.is_set() and stream < 1 << 30:
                data, stream = piece(stream)
                connection.sendall(data)
            continue
        cut.append(1)
        end.wait(0.05)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_connection_whose_frames_outrun_its_calls_is_shut_down(lagoon, tmp_path, name):
    (tmp_path / "digits").symlink_to(DIGITS)
    with serving(lagoon, tmp_path, "--engine", "none") as server:
        neighbour = Client(server)
        neighbour.calls(1)
        before, peak = resident(server), 0
        end, cut, latencies, shut_out = threading.Event(), [], [], False
        attackers = [threading.Thread(target=attack, args=(server, ATTACKS[name], end, cut))
                     for _ in range(CONNECTIONS)]
        for attacker in attackers:
            attacker.start()
        until = time.monotonic() + max(SECONDS, 1)
        try:
            while time.monotonic() < until:
                begin = time.monotonic()
                try:
                    neighbour.calls(1)
                finally:  # a call that is shut out counts with the time that it has waited
                    latencies.append(time.monotonic() - begin)
                    peak = max(peak, resident(server))
                time.sleep(0.01)
        except OSError:
            shut_out = True
        finally:
            end.set()
            for attacker in attackers:
                attacker.join()
        if not shut_out:
            neighbour.calls(1)
        neighbour.close()
        peak = max(peak, resident(server))
        latencies.sort()
        report(f"gRPC: {name}", before_rss_mb=before // MIB, peak_rss_mb=peak // MIB, cut=len(cut),
               shut_out=shut_out, requests=len(latencies), p50_ms=round(1000 * latencies[len(latencies) // 2], 3),
               max_ms=round(1000 * latencies[-1], 3))
        assert not shut_out, "the neighbour's call was not answered"
        assert cut, "no connection of the attack was shut down"
        assert peak - before < MOST_GROWTH


def test_a_fast_client_is_never_shut_down(lagoon, tmp_path):
    """Thousands of calls a second over one connection."""
    (tmp_path / "digits").symlink_to(DIGITS)
    with serving(lagoon, tmp_path, "--engine", "none") as server:
        client = Client(server)
        begin, count = time.monotonic(), 0
        while count < 20_000 or time.monotonic() < begin + SECONDS:
            client.calls(200)
            count += 200
        client.close()
        report("gRPC: a fast client", calls=count, seconds=round(time.monotonic() - begin, 3))
        assert "is closed" not in server.log()
