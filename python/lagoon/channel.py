"""A client of `lagoon serve --channel PATH`: requests and tensors in memory that it shares with the server. The protocol is
that of src/client/channel_layout.h; Linux on x86-64."""

import array
import contextlib
import ctypes
import json
import mmap
import os
import select
import socket
import threading
import time

import numpy as np

from lagoon.client import NAMES

SLOTS, ALIGNMENT, MOST_DIMS = 64, 64, 8
SUBMISSION = np.dtype([("tag", "u8"), ("kind", "u4"), ("call", "u4"), ("base", "u8"), ("timeout_us", "u8"), ("priority", "u4"),
                       ("unused", "u4", 7)])
OUTPUT = np.dtype([("bytes", "u8"), ("rank", "u4"), ("unused", "u4"), ("dims", "i8", MOST_DIMS)])
HEAD = np.dtype([("tag", "u8"), ("code", "u4"), ("outputs", "u4"), ("text_bytes", "u4"), ("unused", "u4"), ("total_ns", "u8"),
                 ("compute_ns", "u8"), ("unused_too", "u8", 3)])
COMPLETION_BYTES = 2048
SUBMISSIONS_AT = 4096
COMPLETIONS_AT = SUBMISSIONS_AT + SLOTS * SUBMISSION.itemsize
DATA_AT = COMPLETIONS_AT + SLOTS * COMPLETION_BYTES
# The words of the head, of 4 bytes each.
SUBMITTED, READ, CLIENT_SLEEPS, TAKEN, COMPLETED, SERVER_SLEEPS, BELL = (16 * line for line in range(7))
ALMOST = BELL + 1

CANCEL = 1
CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE = 1, 4, 14
SPIN_SECONDS, GLANCE_SECONDS = 200e-6, 0.1
FUTEX, FUTEX_WAIT = 202, 0
WRAP = 2**32


class ChannelFailed(Exception):
    """The server refused or could not answer, or is gone. `code`: as in gRPC; 14 may pass when the request is sent again."""

    def __init__(self, code, message):
        super().__init__(f"{message} (code {code})")
        self.code = code


class _TimeSpec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_int64)]


class Call:
    """A request that is sent many times. `inputs` and `outputs`: {name: array in the channel's memory}. What `run()` returns
    lies in the arrays of `outputs`."""

    def __init__(self, number, inputs, outputs):
        self.number = number
        self.inputs = inputs
        self.outputs = outputs


class Channel:
    """Requests to the server at `path`. `size`: bytes of memory for tensors. Not thread-safe."""

    def __init__(self, path, size=64 << 20):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._memory, self._doorbell = None, -1
        try:
            self._socket.connect(os.fspath(path))
            self._open(size)
        except BaseException:
            self.close()
            raise
        self._submitted = self._sent = self._read = self._almost = self._last_tag = self._allocated = 0
        self._arrived = {}  # answers that a later run() or read() takes
        self._given_up = set()  # tags whose answers no one takes
        self._fence = threading.Lock()
        self._libc = ctypes.CDLL(None, use_errno=True)

    def _open(self, size):
        reply, descriptors = self._ask(f"open {size}".encode())
        slots, self.size = map(int, reply.split()[1:])
        if slots != SLOTS or len(descriptors) != 2:
            raise ChannelFailed(12, f"a channel of another version: {reply}")
        memory, self._doorbell = descriptors
        self._memory = mmap.mmap(memory, DATA_AT + self.size)
        os.close(memory)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._words = self._bytes[:SUBMISSIONS_AT].view(np.uint32)
        self._submissions = self._bytes[SUBMISSIONS_AT:COMPLETIONS_AT].view(SUBMISSION)
        self._base = self._bytes.ctypes.data + DATA_AT

    def close(self):
        """Ends the channel; requests in flight are cancelled. Arrays of the channel stay valid."""
        self._socket.close()
        if self._doorbell >= 0:
            os.close(self._doorbell)
            self._doorbell = -1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def array(self, shape, dtype=np.float32):
        """An array in the channel's memory, which has no other user until the channel ends."""
        wanted = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        begin = self._allocated
        if begin + wanted > self.size:
            raise MemoryError(f"an array of {wanted} bytes: the channel has {self.size - begin} left of {self.size}")
        self._allocated += -(-wanted // ALIGNMENT) * ALIGNMENT
        return self._bytes[DATA_AT + begin:DATA_AT + begin + wanted].view(dtype).reshape(shape)

    def call(self, model, inputs, outputs, *, version="", priority=0, timeout_us=0):
        """A Call of `model` with these arrays, which are arrays of this channel or parts of such that are contiguous and begin at
        a multiple of 64 bytes. The arrays of outputs may be larger than the answer."""
        def place(tensor):
            offset = tensor.ctypes.data - self._base
            if not tensor.flags.c_contiguous or not 0 <= offset <= self.size:
                raise ValueError("the array is not in the channel's memory: Channel.array() makes such")
            return {"shared_memory_region": "channel", "shared_memory_byte_size": tensor.nbytes, "shared_memory_offset": offset}

        words = {"model": model, "version": version, "parameters": {"priority": priority, "timeout": timeout_us},
                 "inputs": [{"name": name, "datatype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                             "parameters": place(tensor)} for name, tensor in inputs.items()],
                 "outputs": [{"name": name, "parameters": place(tensor)} for name, tensor in outputs.items()]}
        reply, _ = self._ask(b"call " + json.dumps(words).encode())
        return Call(int(reply.split()[1]), inputs, outputs)

    def submit(self, call, *, timeout_us=0, priority=0):
        """Sends the request and returns its tag. `timeout_us` and `priority`: 0: those of the call."""
        if self.in_flight >= SLOTS:
            raise ChannelFailed(UNAVAILABLE, f"{SLOTS} requests are in flight, the limit: read answers first")
        self._last_tag += 1
        self._push(self._last_tag, call=call.number, timeout_us=timeout_us, priority=priority)
        return self._last_tag

    def cancel(self, tag):
        """Ends a request, which is answered with code 1."""
        self._push(tag, kind=CANCEL)

    def read(self, call, tag, timeout=60):
        """{output: array} of a request: parts of the call's arrays. Raises ChannelFailed."""
        while tag not in self._arrived:
            self._wait(timeout)
        head, body = self._arrived.pop(tag)
        if head["code"] != 0:
            raise ChannelFailed(int(head["code"]), body.tobytes().decode(errors="replace"))
        answer = {}
        for (name, place), output in zip(call.outputs.items(), body):
            shape = output["dims"][:output["rank"]]
            flat = place.reshape(-1).view(np.uint8)[:int(output["bytes"])]
            answer[name] = flat.view(place.dtype).reshape(shape)
        return answer

    def run(self, call, *, timeout_us=0, priority=0, timeout=60):
        """{output: array} of one request. `timeout`: seconds that this client waits; the request is cancelled then."""
        tag = self.submit(call, timeout_us=timeout_us, priority=priority)
        try:
            return self.read(call, tag, timeout)
        except TimeoutError:
            self._given_up.add(tag)
            self.cancel(tag)
            raise

    @property
    def in_flight(self):
        """Requests that were sent and whose answers have not arrived."""
        return self._sent - self._read

    # ---- The protocol

    def _ask(self, message):
        try:
            with contextlib.suppress(BrokenPipeError):  # a server that has refused this client has said why
                self._socket.send(message)
            try:
                reply, control, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(8))
            except ConnectionResetError:  # the server has closed without reading; the refusal comes behind
                reply, control, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(8))
        except OSError as error:
            raise ChannelFailed(UNAVAILABLE, f"the server has closed the channel: {error}") from error
        descriptors = array.array("i")
        for level, kind, data in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(data)
        text = reply.decode()
        if text.startswith("error "):
            _, code, why = text.split(" ", 2)
            raise ChannelFailed(int(code), why)
        if not text:
            raise ChannelFailed(UNAVAILABLE, "the server has closed the channel")
        return text, list(descriptors)

    def _push(self, tag, kind=0, call=0, timeout_us=0, priority=0):
        if (self._submitted - int(self._words[TAKEN])) % WRAP >= SLOTS:
            raise ChannelFailed(UNAVAILABLE, f"the server has not taken {SLOTS} requests yet")
        self._submissions[self._submitted % SLOTS] = (tag, kind, call, 0, timeout_us, priority, 0)
        self._submitted = (self._submitted + 1) % WRAP
        self._words[SUBMITTED] = self._submitted
        self._sent += kind != CANCEL
        self._order()
        if self._words[SERVER_SLEEPS]:
            os.eventfd_write(self._doorbell, 1)

    def _order(self):
        """What was written is visible before anything is read: taking a lock is a full barrier on x86-64."""
        with self._fence:
            pass

    def _take(self):
        """Moves all answers that are there to `_arrived`. False: there was none."""
        some = False
        while int(self._words[COMPLETED]) != self._read % WRAP:
            begin = COMPLETIONS_AT + self._read % SLOTS * COMPLETION_BYTES
            entry = self._bytes[begin:begin + COMPLETION_BYTES]
            head = entry[:HEAD.itemsize].view(HEAD)[0].copy()
            body = entry[HEAD.itemsize:]
            if head["code"] == 0:
                body = body[:int(head["outputs"]) * OUTPUT.itemsize].view(OUTPUT).copy()
            else:
                body = body[:int(head["text_bytes"])].copy()
            tag = int(head["tag"])
            if tag in self._given_up:
                self._given_up.remove(tag)
            else:
                self._arrived[tag] = (head, body)
            self._read += 1
            self._words[READ] = self._read % WRAP
            self._almost = int(self._words[ALMOST])
            some = True
        return some

    def _wait(self, timeout):
        """Until an answer arrives: asleep until the server says that one is there or almost, then awake for SPIN_SECONDS."""
        until = time.monotonic() + timeout
        while not self._take():
            almost = int(self._words[ALMOST])
            if almost != self._almost:
                self._almost = almost
                spin_until = time.monotonic() + SPIN_SECONDS
                while time.monotonic() < spin_until:
                    if self._take():
                        return
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no answer within {timeout} s")
            if select.select([self._socket], [], [], 0)[0] and not self._take():
                raise ChannelFailed(UNAVAILABLE, "the server has closed the channel")
            self._sleep(min(left, GLANCE_SECONDS))

    def _sleep(self, seconds):
        self._words[CLIENT_SLEEPS] = 1
        self._order()
        bell = int(self._words[BELL])
        if int(self._words[COMPLETED]) == self._read % WRAP and int(self._words[ALMOST]) == self._almost:
            most = _TimeSpec(int(seconds), int(seconds % 1 * 1e9))
            self._libc.syscall(ctypes.c_long(FUTEX), ctypes.c_void_p(self._bytes.ctypes.data + 4 * BELL), ctypes.c_long(FUTEX_WAIT),
                               ctypes.c_uint32(bell), ctypes.byref(most), None, ctypes.c_long(0))
        self._words[CLIENT_SLEEPS] = 0
