"""What the server answers to calls of gRPC whose frames of HTTP/2 are unusual, wrong or hostile."""

import contextlib
import struct
import time

import pytest

from conftest import DIGITS
from hostile_grpc_test import (ACK, CANCEL, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM,
                               SETTINGS, WINDOW_UPDATE, Client, field, frame, head, message)
from hostile_test import MIB, connect, resident
from server_process import serving

PADDED = 8
INITIAL_WINDOW_SIZE = 4
OK, DEADLINE, EXHAUSTED, UNIMPLEMENTED, INTERNAL = 0, 4, 8, 12, 13
# The codes of RFC 7541 for the letters of the two names.
CODES = {"-": "010110", "a": "00011", "c": "00100", "e": "00101", "g": "100110", "m": "101001", "p": "101011",
         "r": "101100", "s": "01000", "t": "01001", "u": "101101"}


def huffman(text):
    bits = "".join(CODES[letter] for letter in text)
    bits += "1" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def status_in(block):
    """The value of grpc-status in a block of HPACK that has the name for the first time."""
    name = huffman("grpc-status")
    at = block.index(name) + len(name)
    size = block[at]
    assert size < 3, "a number of two digits, not compressed"
    return int(block[at + 1:at + 1 + size])


def tag(number, data):
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def inference(raw=None):
    """A ModelInferRequest for the digits."""
    image = tag(1, b"image") + tag(2, b"FP32") + tag(3, b"\x01\x01\x08\x08")
    return tag(1, b"digits") + tag(5, image) + tag(7, raw if raw is not None else bytes(256))


class Connection(Client):
    """Sends what the test says, and collects what each stream is answered."""

    def __init__(self, server):
        super().__init__(server)
        self.socket.settimeout(20)
        self.socket.sendall(frame(SETTINGS, 0, 0, struct.pack(">HI", 1, 0)))  # no table of HPACK
        self.blocks, self.data, self.resets, self.ended, self.pongs = {}, {}, {}, set(), []
        self.take()  # the server's settings: the windows are those of the server from now on

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def begin(self, stream, method=b"ModelInfer", extra=b"", flags=END_HEADERS):
        self.send(frame(HEADERS, flags, stream, head(method) + extra))

    def take(self):
        kind, flags, stream, payload = self._frame()
        if kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and flags & ACK:
            self.pongs.append(payload)
        elif kind == HEADERS:
            self.blocks[stream] = self.blocks.get(stream, b"") + payload
        elif kind == DATA:
            self.data[stream] = self.data.get(stream, b"") + payload
        elif kind == RST_STREAM:
            self.resets[stream] = int.from_bytes(payload, "big")
            self.ended.add(stream)
        elif kind == GOAWAY:
            self.ended.add(0)
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            self.ended.add(stream)

    def until(self, condition):
        while not condition():
            self.take()

    def status(self, stream):
        self.until(lambda: stream in self.ended)
        assert stream in self.blocks, f"reset with {self.resets.get(stream)}"
        return status_in(self.blocks[stream])

    def closed(self):
        """Waits for the end of the connection."""
        with contextlib.suppress(ConnectionError):
            while True:
                self.take()
        return True


@pytest.fixture(scope="module", name="server")
def fixture_server(lagoon, tmp_path_factory):
    folder = tmp_path_factory.mktemp("frames")
    (folder / "digits").symlink_to(DIGITS)
    with serving(lagoon, folder) as server:
        yield server


@pytest.fixture(autouse=True)
def others_are_served(server):
    """After each test, and on a connection that was there before it, a call is answered."""
    neighbour = Client(server)
    neighbour.calls(1)
    yield
    neighbour.calls(1)
    neighbour.close()
    assert server.process.poll() is None


@pytest.fixture(name="client")
def fixture_client(server):
    client = Connection(server)
    yield client
    client.close()


def body_of(client, stream):
    assert client.status(stream) == OK
    body = client.data[stream]
    assert len(body) == 5 + int.from_bytes(body[1:5], "big")
    return body[5:]


def test_pieces_of_any_size_are_one_message(client):
    text = message(inference(raw=bytes(range(256))))
    answers = []
    for stream, size in ((1, 1), (3, 4), (5, 100), (7, 5), (9, len(text))):
        client.begin(stream)
        for at in range(0, len(text), size):
            client.send(frame(DATA, 0, stream, text[at:at + size]))
        client.send(frame(DATA, END_STREAM, stream))
        client.until(lambda stream=stream: stream in client.ended)
        answers.append(client.data[stream])
    assert len(set(answers)) == 1 and len(answers[0]) > 40


def test_padding_is_no_data(client):
    text = message(inference())
    client.begin(1)
    client.send(*(frame(DATA, PADDED, 1, bytes([9]) + text[at:at + 50] + bytes(9)) for at in range(0, len(text), 50)),
                frame(DATA, END_STREAM, 1))
    assert body_of(client, 1)


def test_a_large_message_in_frames_between_those_of_other_calls(client):
    # Larger than its tensor: read to its end, and refused for its size.
    text = message(inference(raw=bytes(600_000)))
    client.begin(1)
    for at in range(0, len(text), 16384):
        client.send(frame(DATA, 0, 1, text[at:at + 16384]))
        if at == 16384 * 20:
            client.begin(3)
            client.send(frame(DATA, END_STREAM, 3, message(inference())))
    client.send(frame(DATA, END_STREAM, 1))
    assert body_of(client, 3)
    client.until(lambda: 1 in client.ended)
    assert 1 not in client.data and 1 in client.blocks  # trailers only


def test_a_header_over_the_limit_is_answered(client):
    client.begin(1, extra=b"".join(field(b"x-%d" % i, b"v" * 100) for i in range(150)))
    assert client.status(1) == EXHAUSTED


def test_a_header_far_over_the_limit_ends_the_connection(client):
    client.begin(1, extra=b"".join(field(b"x-%d" % i, b"v" * 100) for i in range(600)), flags=0)
    assert client.closed()


def test_a_length_over_the_limit_is_refused_before_it_arrives(client):
    client.begin(1)
    client.send(frame(DATA, 0, 1, b"\0" + struct.pack(">I", 0xFFFFFFFF) + bytes(100)))
    assert client.status(1) == EXHAUSTED


def test_lengths_that_lie_take_no_memory(server, client):
    before = resident(server)
    for stream in range(1, 201, 2):
        client.begin(stream)
        client.send(frame(DATA, 0, stream, b"\0" + struct.pack(">I", 200 * MIB) + bytes(100)))
    client.send(frame(PING, 0, 0, b"01234567"))
    client.until(lambda: client.pongs)
    assert resident(server) - before < 50 * MIB


def test_a_call_that_ends_within_its_message(client):
    client.begin(1)
    client.send(frame(DATA, END_STREAM, 1, b"\0" + struct.pack(">I", 100) + bytes(50)))
    assert client.status(1) == INTERNAL


@pytest.mark.parametrize("flag", [1, 7, 255])
def test_a_compressed_message_without_an_encoding(client, flag):
    client.begin(1)
    client.send(frame(DATA, END_STREAM, 1, bytes([flag]) + struct.pack(">I", 10) + bytes(10)))
    assert client.status(1) == INTERNAL


def test_an_encoding_that_is_not_served(client):
    client.begin(1, extra=field(b"grpc-encoding", b"snappy"))
    assert client.status(1) == UNIMPLEMENTED


def test_a_second_message_changes_nothing(client):
    client.begin(1)
    client.send(frame(DATA, END_STREAM, 1, message(inference()) * 3))
    assert body_of(client, 1)


def test_data_after_the_end_of_a_call_is_an_error_of_the_connection(client):
    client.begin(1, method=b"ModelStreamInfer")
    client.send(frame(DATA, END_STREAM, 1), frame(DATA, 0, 1, b"more"))
    client.until(lambda: 0 in client.ended or 1 in client.ended)


def test_data_beyond_the_window_ends_the_stream_or_the_connection(server):
    """The window is that of before the settings, as they are not acknowledged."""
    with contextlib.closing(connect(server, "grpc")) as raw:
        raw.settimeout(10)
        raw.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, head(b"ModelStreamInfer")))
        raw.sendall(b"".join(frame(DATA, 0, 1, bytes(16384)) for _ in range(5)))
        received = b""
        while True:
            more = raw.recv(65536)
            received += more
            kinds = [k for k, _ in frames_of(received)]
            if RST_STREAM in kinds or GOAWAY in kinds or not more:
                break
        assert RST_STREAM in kinds or GOAWAY in kinds


def frames_of(received):
    while len(received) >= 9:
        size = int.from_bytes(received[:3], "big")
        yield received[3], received[9:9 + size]
        received = received[9 + size:]


def test_answers_wait_for_a_window_and_leave_byte_by_byte(client):
    client.send(frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 0)))
    client.begin(1)
    client.send(frame(DATA, END_STREAM, 1, message(inference())), frame(PING, 0, 0, b"01234567"))
    client.until(lambda: client.pongs and 1 in client.blocks)
    assert 1 not in client.data
    for _ in range(1000):
        client.send(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)))
        client.take()
        if 1 in client.ended:
            break
    assert 10 < len(client.data[1]) < 1000


def test_a_window_that_overflows_ends_the_connection(client):
    for _ in range(3):
        client.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFFFFFF)))
    assert client.closed()


def test_a_reset_call_is_not_answered_and_the_next_one_is(client):
    client.begin(1)
    client.send(frame(DATA, 0, 1, message(inference())[:50]), frame(RST_STREAM, 0, 1, CANCEL))
    client.begin(3)
    client.send(frame(DATA, END_STREAM, 3, message(inference())))
    assert body_of(client, 3)
    assert 1 not in client.blocks


def test_a_goaway_of_the_client_lets_its_calls_finish(client):
    client.begin(1)
    client.send(frame(GOAWAY, 0, 0, bytes(8)), frame(DATA, END_STREAM, 1, message(inference())))
    assert body_of(client, 1)
    assert client.closed()


def test_requests_of_http_that_are_no_calls(client):
    other = (field(b":method", b"POST") + field(b":scheme", b"http") + field(b":path", b"/v2") +
             field(b":authority", b"a") + field(b"content-type", b"application/json"))
    get = (field(b":method", b"GET") + field(b":scheme", b"http") + field(b":path", b"/v2") + field(b":authority", b"a"))
    client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, other), frame(HEADERS, END_HEADERS | END_STREAM, 3, get))
    client.until(lambda: {1, 3} <= client.ended)
    assert b"415" in client.blocks[1] and b"405" in client.blocks[3]


def test_http_1_is_closed(server):
    with contextlib.closing(connect(server, "grpc")) as raw:
        raw.settimeout(10)
        raw.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        while raw.recv(65536):
            pass


def test_a_timeout_that_is_none(client):
    client.begin(1, extra=field(b"grpc-timeout", b"soon"))
    assert client.status(1) == 3


def test_a_call_without_a_message(client):
    client.begin(1, method=b"ServerLive", flags=END_HEADERS | END_STREAM)
    assert client.status(1) == 3
