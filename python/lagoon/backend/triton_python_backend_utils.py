"""What a model.py of a server of Lagoon imports: the interface of Triton's Python backend, written anew.

The server puts this module into the process of the model. It talks to the server through `_connection`, which
worker.py sets."""
import asyncio
import dataclasses
import enum
import json
import math
import struct
import threading

import numpy as np

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2
TRITONSERVER_MEMORY_CPU = 0
TRITONSERVER_MEMORY_GPU = 1

_connection = None  # worker.Connection
MOST_WORDS, MOST_LINE = 4096, 8192  # characters of an error and of a line for the log; the server cuts there too
_NUMPY = {"FP32": np.float32, "FP16": np.float16, "FP64": np.float64, "INT8": np.int8, "INT16": np.int16,
          "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32,
          "UINT64": np.uint64, "BOOL": np.bool_, "BYTES": np.object_}
_NAMES = {np.dtype(kind): name for name, kind in _NUMPY.items()}
TRITON_TO_NUMPY_TYPE = dict(enumerate((np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32,
                                       np.int64, np.float16, np.float32, np.float64, np.object_), start=1))
NUMPY_TO_TRITON_TYPE = {kind: number for number, kind in TRITON_TO_NUMPY_TYPE.items()}


class TritonModelException(Exception):
    """An error of this module or of the server."""


class _ErrorCode(enum.IntEnum):
    """Triton's numbers of errors."""
    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)


class TritonError:
    """An error as the answer to a request."""
    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = _ErrorCode

    def __init__(self, message, code=INTERNAL):
        try:
            self._message, self._code = str(message), _ErrorCode(code)
        except ValueError:
            raise TritonModelException(f"TritonError takes a code as TritonError.INTERNAL, not {code!r}") from None

    def message(self):
        return self._message

    def code(self):
        return self._code

    def __str__(self):
        return self._message


def serialize_byte_tensor(array):
    """The protocol's bytes of an array of bytes or texts: each element behind its length. Others are their texts."""
    pieces = []
    for element in np.asarray(array).ravel():
        element = bytes(element) if isinstance(element, (bytes, bytearray)) else str(element).encode()
        pieces += [struct.pack("<I", len(element)), element]
    return b"".join(pieces)


def deserialize_bytes_tensor(data):
    """The opposite: an array of bytes, in one dimension."""
    elements, at, data = [], 0, bytes(data)
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        elements.append(data[at + 4:at + 4 + length])
        at += 4 + length
    return np.array(elements, dtype=np.object_)


class _Capsule:
    """What torch.utils.dlpack.to_dlpack() gives, as numpy takes it: numpy reads the device in it, and takes it once."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return 1, 0


class Tensor:
    """A tensor in host memory."""

    def __init__(self, name, array):
        if not isinstance(name, str):
            raise TritonModelException(f"the name of a tensor is a text, not {type(name).__name__}")
        if not isinstance(array, np.ndarray):
            raise TritonModelException(f"tensor '{name}': takes a numpy array, not {type(array).__name__}")
        if array.dtype.kind in "SU":
            array = array.astype(np.object_)
        kind = _NAMES.get(array.dtype)
        if kind is None:
            raise TritonModelException(f"tensor '{name}': no tensor has numpy's type {array.dtype}")
        self._name, self._kind, self._dims, self._array, self._data = name, kind, array.shape, array, None

    @classmethod
    def _received(cls, name, kind, dims, data):
        tensor = cls.__new__(cls)
        tensor._name, tensor._kind, tensor._dims, tensor._array, tensor._data = name, kind, tuple(dims), None, data
        return tensor

    def name(self):
        return self._name

    def shape(self):
        return list(self._dims)

    def triton_dtype(self):
        return self._kind

    def is_cpu(self):
        return True

    def as_numpy(self):
        """The elements."""
        if self._array is None:
            if self._kind == "BYTES":
                self._array = deserialize_bytes_tensor(self._data).reshape(self._dims)
            elif self._kind in _NUMPY:
                array = np.frombuffer(self._data, _NUMPY[self._kind]).reshape(self._dims)
                self._array = array if array.flags.aligned else array.copy()
            else:
                raise TritonModelException(f"tensor '{self._name}': numpy has no type for {self._kind}")
        return self._array

    def __dlpack__(self, *_, **words):
        array = self.as_numpy()
        # numpy exports no array that is read-only, as those of from_dlpack are.
        return (array if array.flags.writeable else array.copy()).__dlpack__(**words)

    def __dlpack_device__(self):
        return 1, 0

    def to_dlpack(self):
        return self.__dlpack__()

    @staticmethod
    def from_dlpack(name, tensor):
        """Takes an object with __dlpack__(), or a capsule that it returned. The tensor must be in the host's memory."""
        if type(tensor).__name__ == "PyCapsule":
            if "used_dltensor" in repr(tensor):
                raise TritonModelException(f"tensor '{name}': from_dlpack(): the capsule was taken before, and can be once")
            tensor = _Capsule(tensor)
        if not hasattr(tensor, "__dlpack__"):
            raise TritonModelException(f"tensor '{name}': from_dlpack() takes an object with __dlpack__ or its capsule, "
                                       f"not a {type(tensor).__name__}")
        if hasattr(tensor, "__dlpack_device__") and tensor.__dlpack_device__()[0] not in (1, 3):
            raise TritonModelException(f"tensor '{name}': memory of a GPU is not implemented; copy it to the host")
        try:
            return Tensor(name, np.ascontiguousarray(np.from_dlpack(tensor)))
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TritonModelException(f"tensor '{name}': from_dlpack(): {error}") from error

    def _bytes(self):
        if self._array is None:
            return self._data
        if self._kind == "BYTES":
            return serialize_byte_tensor(self._array)
        return memoryview(np.ascontiguousarray(self._array).reshape(-1)).cast("B") if self._array.size else b""

    def _object(self, size):
        return {"name": self._name, "type": self._kind, "dims": [int(dim) for dim in self._dims], "bytes": size}


def _pack(tensors):
    """(objects for a message, their bytes)."""
    objects, parts = [], []
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TritonModelException(f"takes pb_utils.Tensor, not {type(tensor).__name__}")
        data = tensor._bytes()
        parts.append(data)
        objects.append(tensor._object(len(data)))
    return objects, parts


def _unpack(objects, data):
    tensors, at = [], 0
    for one in objects:
        tensors.append(Tensor._received(one["name"], one["type"], one["dims"], data[at:at + one["bytes"]]))
        at += one["bytes"]
    return tensors


def _check_parameters(parameters):
    for name, value in parameters.items():
        if not isinstance(name, str) or not isinstance(value, (str, int, float)):
            raise TritonModelException(f"parameter {name!r} is {value!r}: names are str, values str, int, float or bool")
        if isinstance(value, float) and not math.isfinite(value):
            raise TritonModelException(f"parameter {name!r} is {value!r}: numbers are finite")


class InferenceResponse:
    """The answer to a request: tensors, or an error."""

    def __init__(self, output_tensors=(), error=None, parameters=None):
        self._tensors, self._error = list(output_tensors), error
        self._parameters = dict(parameters or {})
        for tensor in self._tensors:
            if not isinstance(tensor, Tensor):
                raise TritonModelException(f"InferenceResponse takes pb_utils.Tensor, not {type(tensor).__name__}")
        if isinstance(error, str):
            self._error = TritonError(error)
        _check_parameters(self._parameters)

    def output_tensors(self):
        return self._tensors

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error

    def parameters(self):
        return json.dumps(self._parameters)


class InferenceResponseSender:
    """Sends the answers to one request of a decoupled model. Any thread."""
    MOST_UNTAKEN = 8

    def __init__(self, identifier):
        self._id, self._ended, self._order = identifier, False, threading.Lock()
        self._changed, self._untaken, self._cancelled = threading.Condition(), 0, False

    def send(self, response=None, flags=0):
        """Waits while the client has not taken eight answers. Answers to a client that has gone are dropped."""
        final = bool(flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        if response is None and not final:
            raise TritonModelException("send() takes a response, or the flag TRITONSERVER_RESPONSE_COMPLETE_FINAL")
        message = {"op": "answer", "id": self._id, "final": final}
        parts = []
        if response is not None and response.has_error():
            message["error"] = _error_of(response)
        elif response is not None:
            message["outputs"], parts = _pack(response.output_tensors())
            message["parameters"] = response._parameters
        with self._order:
            if self._ended:
                raise TritonModelException("send() after TRITONSERVER_RESPONSE_COMPLETE_FINAL")
            with self._changed:
                if response is not None:
                    self._changed.wait_for(lambda: self._untaken < self.MOST_UNTAKEN or self._cancelled)
                    self._untaken += 1
                if self._cancelled:
                    message, parts = {"op": "answer", "id": self._id, "final": final}, []
            self._ended = final
            if final:
                _connection.forget(self._id)
            _connection.send(message, parts)

    def is_cancelled(self):
        return self._cancelled

    def _taken(self):
        with self._changed:
            self._untaken -= 1
            self._changed.notify_all()

    def _cancel(self):
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()


def _error_of(response):
    error = response.error()
    code = error.code() if isinstance(error, TritonError) else TritonError.INTERNAL
    return {"code": code.name, "message": str(error)[:MOST_WORDS], "own": True}


@dataclasses.dataclass(frozen=True)
class PreferredMemory:
    """Where a caller wants outputs: always the host's memory."""
    preferred_memory_type: int = TRITONSERVER_MEMORY_CPU
    preferred_device_id: int = 0


class InferenceRequest:
    """A request: one that the server gives, or one that exec() sends to another model."""

    def __init__(self, model_name="", requested_output_names=(), inputs=(), request_id="", model_version=-1,
                 correlation_id=0, flags=0, timeout=0, trace=None, preferred_memory=None, parameters=None):
        self._model, self._outputs, self._inputs = model_name, list(requested_output_names), list(inputs)
        self._request_id, self._version, self._timeout = request_id, model_version, timeout
        self._correlation_id, self._flags, self._priority = correlation_id, flags, 0
        self._parameters, self._sender, self._trace = dict(parameters or {}), None, trace
        _check_parameters(self._parameters)
        if not isinstance(correlation_id, str) and int(correlation_id) < 0:
            raise TritonModelException(f"correlation_id is {correlation_id!r}: it is a text, or a number from 0")
        self._preferred_memory = preferred_memory

    @classmethod
    def _received(cls, message, data, name, decoupled):
        request = cls(name, message["outputs"], _unpack(message["inputs"], data), message["request_id"],
                      correlation_id=message["sequence"], flags=message["flags"], timeout=message["timeout_us"],
                      parameters=message.get("parameters"))
        request._priority = message["priority"]
        request._sender = InferenceResponseSender(message["id"])
        request._decoupled = decoupled
        return request

    def inputs(self):
        return self._inputs

    def request_id(self):
        return self._request_id

    def correlation_id(self):
        return self._correlation_id

    def model_name(self):
        return self._model

    def model_version(self):
        return self._version

    def requested_output_names(self):
        return self._outputs

    def flags(self):
        return self._flags

    def timeout(self):
        return self._timeout

    def priority(self):
        return self._priority

    def parameters(self):
        """The parameters that the server does not read itself, as JSON."""
        return json.dumps(self._parameters)

    def trace(self):
        return self._trace

    def preferred_memory(self):
        return self._preferred_memory

    def set_release_flags(self, flags):
        if flags != TRITONSERVER_REQUEST_RELEASE_ALL:
            raise TritonModelException(
                f"set_release_flags({flags!r}) is not implemented: a request is given once (TRITONSERVER_REQUEST_RELEASE_ALL)")

    def get_response_sender(self):
        if self._sender is None or not self._decoupled:
            raise TritonModelException("get_response_sender() is for requests of a decoupled model "
                                       "(model_transaction_policy)")
        return self._sender

    def is_cancelled(self):
        return self._sender is not None and self._sender.is_cancelled()

    def exec(self, decoupled=False):
        """Sends the request to the model, and waits for the answer, which may be an error. `decoupled`: returns an iterator
        of the answers, which come while it is read."""
        message = {"model": self._model, "version": "" if int(self._version) < 0 else str(int(self._version)),
                   "id": str(self._request_id), "timeout_us": int(self._timeout), "outputs": self._outputs,
                   "sequence": self._correlation_id if isinstance(self._correlation_id, str) else int(self._correlation_id),
                   "flags": int(self._flags), "parameters": self._parameters, "decoupled": bool(decoupled)}
        message["inputs"], parts = _pack(self._inputs)
        number, answers = _connection.call(message, parts)
        return _Answers(number, answers) if decoupled else _response(*answers.get())

    async def async_exec(self, decoupled=False):
        return await asyncio.get_running_loop().run_in_executor(None, self.exec, decoupled)


def _response(answer, data):
    if "error" in answer:
        return InferenceResponse(error=TritonError(answer["error"]["message"], _ErrorCode[answer["error"]["code"]]))
    return InferenceResponse(_unpack(answer["outputs"], data), parameters=answer["parameters"])


class _Answers:
    """The answers to a call, of which the model makes eight ahead at most. One that is no longer read ends."""

    def __init__(self, number, answers):
        self._number, self._answers, self._ended = number, answers, False

    def __iter__(self):
        return self

    def __next__(self):
        if self._ended:
            raise StopIteration
        answer, data = self._answers.get()
        if answer["more"]:
            _connection.send({"op": "took", "call": self._number})
            return _response(answer, data)
        self._ended = True
        if not answer.get("outputs") and not answer.get("parameters") and "error" not in answer:
            raise StopIteration
        return _response(answer, data)

    def __del__(self):
        if not self._ended:  # said with the next message: the thread may be sending one now
            _connection.left.put(self._number)


class ModelConfig:
    """What auto_complete_config() completes."""

    def __init__(self, config):
        self._config = config
        self._added = {}

    def as_dict(self):
        return {**self._config, **{key: value for key, value in self._added.items() if key != "decoupled"}}

    def _add(self, side, properties):
        missing = {"name", "data_type", "dims"} - set(properties)
        unknown = set(properties) - {"name", "data_type", "dims", "optional"}
        if missing or unknown:
            raise ValueError(f"a tensor takes 'name', 'data_type' and 'dims'; missing: {sorted(missing)}, "
                             f"unknown: {sorted(unknown)}")
        if properties.get("optional"):
            raise ValueError(f"{side} '{properties['name']}': optional inputs are not implemented")
        tensors = self._added.setdefault(side, list(self._config.get(side) or []))
        for tensor in tensors:
            if tensor["name"] == properties["name"]:
                if tensor["data_type"] != properties["data_type"] or \
                        [int(dim) for dim in tensor["dims"]] != list(properties["dims"]):
                    raise ValueError(f"{side} '{tensor['name']}' is declared otherwise in config.pbtxt")
                return
        tensors.append({"name": properties["name"], "data_type": properties["data_type"],
                        "dims": [int(dim) for dim in properties["dims"]]})

    def add_input(self, properties):
        self._add("input", properties)

    def add_output(self, properties):
        self._add("output", properties)

    def set_max_batch_size(self, rows):
        if self._config.get("max_batch_size"):
            if self._config["max_batch_size"] < rows:
                raise ValueError(f"max_batch_size is {self._config['max_batch_size']} in config.pbtxt")
            return
        self._added["max_batch_size"] = int(rows)

    def set_dynamic_batching(self):
        if not self._config.get("dynamic_batching") and not self._config.get("sequence_batching"):
            self._added["dynamic_batching"] = {}

    def set_model_transaction_policy(self, policy):
        unknown = set(policy) - {"decoupled"}
        if unknown:
            raise ValueError(f"model_transaction_policy takes 'decoupled', not {sorted(unknown)}")
        self._added["decoupled"] = bool(policy.get("decoupled", False))
        self._added["model_transaction_policy"] = {"decoupled": self._added["decoupled"]}


class Logger:
    """Lines in the server's log."""

    @staticmethod
    def log(message, level=2):
        words = {0: "error", 1: "warning", 2: "info", 3: "verbose"}
        _connection.send({"op": "log", "level": words.get(level, "info"), "text": str(message)[:MOST_LINE]})

    @classmethod
    def log_info(cls, message):
        cls.log(message, cls.INFO)

    @classmethod
    def log_warn(cls, message):
        cls.log(message, cls.WARNING)

    @classmethod
    def log_error(cls, message):
        cls.log(message, cls.ERROR)

    @classmethod
    def log_verbose(cls, message):
        cls.log(message, cls.VERBOSE)

    ERROR, WARNING, INFO, VERBOSE = 0, 1, 2, 3


def get_input_tensor_by_name(request, name):
    return next((tensor for tensor in request.inputs() if tensor.name() == name), None)


def get_output_tensor_by_name(response, name):
    return next((tensor for tensor in response.output_tensors() if tensor.name() == name), None)


def _by_name(config, side, name):
    return next((tensor for tensor in config.get(side) or [] if tensor["name"] == name), None)


def get_input_config_by_name(model_config, name):
    return _by_name(model_config, "input", name)


def get_output_config_by_name(model_config, name):
    return _by_name(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config):
    return bool((model_config.get("model_transaction_policy") or {}).get("decoupled"))


def triton_to_numpy_type(kind):
    """numpy's type of Triton's number of a type."""
    return TRITON_TO_NUMPY_TYPE[kind]


def numpy_to_triton_type(kind):
    """Triton's number of numpy's type."""
    return NUMPY_TO_TRITON_TYPE[np.dtype(kind).type]


def triton_string_to_numpy(word):
    """numpy's type of a type of config.pbtxt ("TYPE_FP32")."""
    kind = str(word).removeprefix("TYPE_")
    return _NUMPY.get("BYTES" if kind == "STRING" else kind)


def get_model_dir():
    return _connection.model_dir


def __getattr__(name):
    raise AttributeError(f"triton_python_backend_utils of Lagoon has no '{name}'")
