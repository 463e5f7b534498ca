"""The process of a model of Python: reads messages of the server, and calls the model. src/serving/python/channel.h says
how messages look. The server runs this file with `FILES`, the texts of this folder, among its globals."""
import asyncio
import ctypes
import importlib.util
import inspect
import itertools
import json
import mmap
import os
import queue
import signal
import socket
import struct
import sys
import threading
import traceback
import types

PREFIX = struct.Struct("<IIQ")
MOST_INLINE = 32 << 10
MOST_ERROR = 4000
MOST_TEXT = 8 << 20  # of a message, without the bytes of its tensors
SOCKET = 3
PR_SET_PDEATHSIG = 1


class Connection:
    """The channel to the server. Any thread may send."""

    calls_allowed = False
    is_child = False

    def __init__(self):
        self.socket = socket.socket(fileno=SOCKET)
        os.set_inheritable(SOCKET, False)
        self.model_dir = ""
        self.jobs = queue.SimpleQueue()  # messages for the main thread
        self.calls, self.numbers = {}, itertools.count(1)
        self.senders = {}
        self.sending = threading.Lock()
        self.left = queue.SimpleQueue()  # calls of which no more answers are wanted

    def forked(self):
        """In a process that the model has forked: the server sees the end of the model's own process, and hears nothing
        of this one."""
        self.is_child = True
        self.socket.close()

    def send(self, message, parts=()):
        if self.is_child:
            return
        # The texts of a program may hold halves of characters, as json.loads() makes them, which no UTF-8 has.
        text = json.dumps(message, ensure_ascii=False).encode(errors="replace")
        if len(text) > MOST_TEXT:
            raise utils.TritonModelException(f"{len(text)} bytes of names and parameters are more than {MOST_TEXT}")
        size = sum(len(part) for part in parts)
        file = -1
        try:
            if size > MOST_INLINE:
                file = os.memfd_create("lagoon-tensors")
                for part in parts:
                    view = memoryview(part)
                    while len(view):
                        view = view[os.write(file, view):]
            else:
                text += b"".join(parts)
            with self.sending:
                prefix = PREFIX.pack(len(text) - (0 if file >= 0 else size), int(file >= 0), size)
                if file >= 0:
                    socket.send_fds(self.socket, [prefix], [file])
                else:
                    self.socket.sendall(prefix)
                self.socket.sendall(text)
        finally:
            if file >= 0:
                os.close(file)
        while not self.left.empty():
            number = self.left.get()
            if self.calls.pop(number, None) is not None:
                self.send({"op": "leave", "call": number})

    def receive_all(self, size, files=None):
        data = bytearray()
        while len(data) < size:
            if files is None:
                piece = self.socket.recv(size - len(data))
            else:
                piece, got, _, _ = socket.recv_fds(self.socket, size - len(data), 1)
                files += got
            if not piece:
                os._exit(0)  # the server has gone
            data += piece
        return data

    def receive(self):
        """(message, bytes of its tensors)."""
        files = []
        length, in_file, size = PREFIX.unpack(self.receive_all(PREFIX.size, files))
        message = json.loads(self.receive_all(length))
        if not in_file:
            return message, memoryview(self.receive_all(size))
        # A copy where the model writes. Lives as long as an array of it.
        mapped = mmap.mmap(files[0], size, access=mmap.ACCESS_COPY)
        os.close(files[0])
        return message, memoryview(mapped)

    def call(self, message, parts):
        """Sends a call of another model. Returns its number, and the queue of its answers: (message, bytes) each."""
        if self.is_child:
            raise utils.TritonModelException("models are called from the model's own process, not from one that it has forked")
        if not self.calls_allowed:
            raise utils.TritonModelException("models can be called from execute() on, not in initialize()")
        number, answer = next(self.numbers), queue.SimpleQueue()
        self.calls[number] = answer
        try:
            self.send({"op": "call", "call": number, **message}, parts)
        except BaseException:  # it was not sent
            self.calls.pop(number, None)
            raise
        return number, answer

    def forget(self, identifier):
        self.senders.pop(identifier, None)

    def read(self):
        """Runs in a thread of its own, so that calls and cancellations get through while the model works."""
        while True:
            message, data = self.receive()
            kind = message["op"]
            if kind == "result":
                answer = self.calls.get(message["call"]) if message["more"] else self.calls.pop(message["call"], None)
                if answer is not None:
                    answer.put((message, data))
            elif kind in ("taken", "cancel"):
                sender = self.senders.get(message["id"])
                if sender is not None and kind == "taken":
                    sender._taken()
                elif sender is not None:
                    sender._cancel()
            else:
                self.jobs.put((message, data))


def whole_numbers(config):
    """protobuf's JSON has 64-bit numbers as texts; a model expects numbers."""
    if isinstance(config, dict):
        return {key: [int(dim) for dim in value] if key in ("dims", "shape") and isinstance(value, list)
                else whole_numbers(value) for key, value in config.items()}
    return [whole_numbers(entry) for entry in config] if isinstance(config, list) else config


def error_text(error):
    """The message with the last line of the model's own code. Clients do not see folders of the server."""
    places = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not frame.filename.startswith("lagoon/backend/")]
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception as second:
        text = f"{type(error).__name__} (its __str__() raised {type(second).__name__})"
    if isinstance(error, SyntaxError) and error.filename:
        text = f"SyntaxError: {error.msg} ({os.path.basename(error.filename)}:{error.lineno})"
    elif places:
        text += f" ({os.path.basename(places[-1].filename)}:{places[-1].lineno}, in {places[-1].name})"
    return text[:MOST_ERROR]


def refusal(error, code="INTERNAL"):
    return {"code": code, "message": error if isinstance(error, str) else error_text(error)}


class Program:
    """The model."""

    def __init__(self, message):
        self.name, self.decoupled = message["name"], message["decoupled"]
        self.loop = None  # of coroutines of a decoupled model
        path = message["path"]
        sys.path.insert(0, os.path.dirname(path))
        if not os.path.isfile(path):
            raise FileNotFoundError(f"{path} does not exist")
        spec = importlib.util.spec_from_file_location("model", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["model"] = module
        spec.loader.exec_module(module)
        kind = getattr(module, "TritonPythonModel", None)
        if not inspect.isclass(kind):
            raise AttributeError(f"{path} has no class TritonPythonModel")
        if not callable(getattr(kind, "execute", None)):
            raise AttributeError(f"TritonPythonModel in {path} has no method execute(self, requests)")
        config = whole_numbers(json.loads(message["config"]))
        self.completed = None
        if hasattr(kind, "auto_complete_config"):
            completed = kind.auto_complete_config(utils.ModelConfig(config))
            if not isinstance(completed, utils.ModelConfig):
                raise TypeError("auto_complete_config() must return the configuration that it got")
            self.completed = completed._added
            config = completed.as_dict()
            self.decoupled = self.decoupled or bool(completed._added.get("decoupled"))
        self.model = kind()
        if hasattr(self.model, "initialize"):
            self.model.initialize({
                "model_config": json.dumps(config), "model_instance_kind": "CPU", "model_instance_device_id": "0",
                "model_instance_name": message["instance"], "model_repository": message["folder"],
                "model_version": message["version"], "model_name": self.name})

    def execute(self, message, data):
        requests, at = [], 0
        for one in message["requests"]:
            size = sum(tensor["bytes"] for tensor in one["inputs"])
            requests.append(utils.InferenceRequest._received(one, data[at:at + size], self.name, self.decoupled))
            at += size
            connection.senders[one["id"]] = requests[-1]._sender
        try:
            responses = self.model.execute(requests)
            if inspect.iscoroutine(responses) and self.decoupled:
                self.go_on(responses, message["requests"])
                responses = None
            elif inspect.iscoroutine(responses):
                responses = asyncio.run(responses)
            if not self.decoupled:
                self.answer(message["requests"], responses)
            elif responses is not None:
                raise TypeError("execute() of a decoupled model returns None, and answers by its response senders")
        except (Exception, SystemExit) as error:  # of the model: its requests are answered with it
            self.give_up(message["requests"])
            connection.send({"op": "done", "error": refusal(error)})
            return
        connection.send({"op": "done"})

    @staticmethod
    def give_up(requests):
        """Threads that wait in send() go on."""
        for one in requests:
            sender = connection.senders.pop(one["id"], None)
            if sender is not None:
                sender._cancel()

    def go_on(self, coroutine, requests):
        """Runs execute() of a decoupled model beside other executions."""
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            threading.Thread(target=self.loop.run_forever, daemon=True).start()

        def ended(future):
            error = future.exception()
            if error is None and future.result() is not None:
                error = TypeError("execute() of a decoupled model returns None, and answers by its response senders")
            if error is not None:
                self.give_up(requests)
                for one in requests:
                    connection.send({"op": "answer", "id": one["id"], "final": True, "error": refusal(error)})
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).add_done_callback(ended)

    @staticmethod
    def answer(requests, responses):
        count = len(responses) if isinstance(responses, (list, tuple)) else None
        if count != len(requests):
            given = f"a list of {count}" if count is not None else type(responses).__name__
            raise TypeError(f"execute() got {len(requests)} request(s) and must return a list of as many responses; "
                            f"it returned {given}")
        for one, response in zip(requests, responses):
            message, parts = {"op": "answer", "id": one["id"], "final": True}, []
            try:
                if not isinstance(response, utils.InferenceResponse):
                    raise TypeError(f"execute() returned {type(response).__name__} as the response to a request, not "
                                    "pb_utils.InferenceResponse")
                if response.has_error():
                    message["error"] = utils._error_of(response)
                else:
                    message["outputs"], parts = utils._pack(response.output_tensors())
                    message["parameters"] = response._parameters
                connection.forget(one["id"])
                connection.send(message, parts)
            except (TypeError, ValueError, MemoryError, OSError, utils.TritonModelException) as error:
                connection.forget(one["id"])
                connection.send({"op": "answer", "id": one["id"], "final": True, "error": refusal(error)})

    def finalize(self):
        if hasattr(self.model, "finalize"):
            self.model.finalize()


def load_utils():
    """The module that model.py imports. numpy is needed for it."""
    module = types.ModuleType("triton_python_backend_utils")
    sys.modules[module.__name__] = module
    source = FILES[module.__name__ + ".py"]  # noqa: F821
    exec(compile(source, f"lagoon/backend/{module.__name__}.py", "exec"), module.__dict__)
    module._connection = connection
    return module


def die_with_server(parent):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def main():
    global utils
    die_with_server(int(sys.argv[1]))
    sys.argv = ["model.py"]
    message, _ = connection.receive()
    if message["gives_way"]:
        os.nice(10)  # best-effort work leaves the cores to real-time work
    try:
        utils = load_utils()
    except ImportError as error:
        connection.send({"op": "failed", "error": refusal(
            f"backend 'python' needs numpy in {sys.executable or 'the interpreter'} (--python names another one): "
            f"{error}")})
        return
    connection.model_dir = os.path.dirname(message["path"])
    try:
        program = Program(message)
    except BaseException as error:  # whatever model.py does, the server hears of it
        connection.send({"op": "failed", "error": refusal(error)})
        return
    ready = {"op": "ready"}
    if program.completed is not None:
        ready["completed"] = program.completed
    connection.send(ready)
    connection.calls_allowed = True
    threading.Thread(target=connection.read, daemon=True).start()
    while True:
        message, data = connection.jobs.get()
        if message["op"] == "end":
            break
        program.execute(message, data)
        if connection.is_child:  # execute() has forked and returned twice
            os._exit(0)
    try:
        program.finalize()
    except Exception as error:
        connection.send({"op": "log", "level": "error", "text": "finalize(): " + error_text(error)})


connection = Connection()
os.register_at_fork(after_in_child=connection.forked)
utils = None
main()
sys.stdout.flush()
os._exit(0)
