"""lagoon.h for ctypes: its structs, functions and errors. lagoon.local uses it."""

import ctypes
import operator
import os
import pathlib
import sys
import threading

import numpy as np

PACKAGED = pathlib.Path(__file__).resolve().parent / "native" / "liblagoon.so.1"
NO_SPIN, NEVER = 2**32 - 1, 2**63 - 1
OK = 0
STRING, BFLOAT16 = 8, 16
# ONNX's numbers of types. numpy has no bfloat16: such a tensor is an array of uint16 with its bits.
TYPES = {1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 8: "O", 9: "?", 10: "f2", 11: "f8", 12: "u4", 13: "u8",
         16: "u2"}
DTYPES = {number: np.dtype(name) for number, name in TYPES.items()}
CLASSES = {"real-time": 1, "best-effort": 2}
STRING_DTYPE = np.dtype([("data", "u8"), ("size", "u8")])

c_text, c_code = ctypes.c_char_p, ctypes.c_int
LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


class Failed(RuntimeError):
    """What the library refuses, or how a run has ended. `code`: "deadline exceeded", "cancelled", "superseded", "unavailable",
    "invalid argument", and others (lagoon_code_name)."""

    def __init__(self, code, message):
        super().__init__(message or code)
        self.code = code


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 512)]


def number_of(name, value, low, high, whole=True):
    """The parameter `name` as an int, or as a float unless `whole`. ctypes would cut what does not fit, without an error."""
    try:
        number = operator.index(value) if whole else float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, (str, bytes)) or not low <= number <= high:
        raise Failed("invalid argument", f"{name} is {value!r}: it is a {'whole ' if whole else ''}number from {low} to {high}")
    return number


# Zero would silently mean the default.
LEAST = {"concurrency": 1, "max_pending": 1, "weight": sys.float_info.min, "share": 0}
MOST = {"concurrency": 256, "share": 1}  # of the library


def _fit(name, value, kind):
    """`value` for a struct's field of the type `kind`."""
    code = getattr(kind, "_type_", None)
    if code == "d":
        return number_of(name, value, LEAST.get(name, -sys.float_info.max), MOST.get(name, sys.float_info.max), whole=False)
    if not isinstance(code, str) or code not in "iIlLqQ":
        return value  # no number
    bits = 8 * ctypes.sizeof(kind)
    low, high = (0, 2**bits - 1) if code.isupper() else (-2**(bits - 1), 2**(bits - 1) - 1)
    return number_of(name, value, LEAST.get(name, low), MOST.get(name, high))


class Sized(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **values):
        kinds = dict(self._fields_) if values else {}
        super().__init__(size=ctypes.sizeof(self), **{name: _fit(name, value, kinds[name]) for name, value in values.items()})


class DeviceOptions(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("device", c_text), ("workers", ctypes.c_uint32), ("cores", ctypes.POINTER(ctypes.c_int)),
                ("core_count", ctypes.c_size_t), ("scheduler", c_text), ("worker_nice", ctypes.c_int), ("worker_fifo", ctypes.c_int),
                ("spin_us", ctypes.c_uint32), ("trace_events", ctypes.c_uint32), ("log", LOG), ("log_arg", ctypes.c_void_p)]


class ModelOptions(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("name", c_text), ("job_class", ctypes.c_int), ("deadline_us", ctypes.c_int64),
                ("weight", ctypes.c_double), ("share", ctypes.c_double), ("concurrency", ctypes.c_uint32),
                ("max_pending", ctypes.c_uint32), ("newest_wins", ctypes.c_int), ("precision", c_text), ("profile_runs", ctypes.c_int),
                ("engine", c_text)]


class Tensor(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("rank", ctypes.c_uint32), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class CTensorInfo(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("name", c_text), ("type", ctypes.c_int), ("rank", ctypes.c_uint32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("shape_known", ctypes.c_int)]


class Result(Sized):
    _fields_ = [("size", ctypes.c_size_t), ("code", ctypes.c_int), ("under_way", ctypes.c_int), ("called_ns", ctypes.c_int64),
                ("posted_ns", ctypes.c_int64), ("started_ns", ctypes.c_int64), ("first_block_ns", ctypes.c_int64),
                ("inputs_copied_ns", ctypes.c_int64), ("computed_ns", ctypes.c_int64), ("finished_ns", ctypes.c_int64),
                ("due_ns", ctypes.c_int64), ("revocations", ctypes.c_uint32), ("parts", ctypes.c_uint32),
                ("resumed_blocks", ctypes.c_uint64), ("compiling_ns", ctypes.c_int64), ("why", ctypes.c_int), ("why_name", c_text),
                ("behind", ctypes.c_uint32), ("behind_model", ctypes.c_char * 48), ("behind_ns", ctypes.c_int64),
                ("stolen_ns", ctypes.c_int64)]


class Stats(Sized):
    _fields_ = [("size", ctypes.c_size_t),
                *((name, ctypes.c_uint64) for name in ("done", "expired", "cancelled", "superseded", "too_late", "failed", "late",
                                                       "revocations", "compiled")),
                ("queued_ns", ctypes.c_int64), ("computed_ns", ctypes.c_int64), ("pending", ctypes.c_uint64),
                ("device_revocations", ctypes.c_uint64), ("launches", ctypes.c_uint64), ("under_way", ctypes.c_uint64),
                ("workers", ctypes.c_uint32)]


PROTOTYPES = {
    "lagoon_version": (c_text,), "lagoon_abi": (ctypes.c_uint32,), "lagoon_code_name": (c_text, c_code),
    "lagoon_device_open": (c_code, "*", "*", "*"), "lagoon_device_close": (None, "*"),
    "lagoon_device_scheduler": (c_code, "*", c_text, "*"),
    "lagoon_model_load_file": (c_code, "*", c_text, "*", "*", "*"),
    "lagoon_model_load_bytes": (c_code, "*", "*", ctypes.c_size_t, c_text, "*", "*", "*"), "lagoon_model_free": (None, "*"),
    "lagoon_model_input_count": (ctypes.c_size_t, "*"), "lagoon_model_output_count": (ctypes.c_size_t, "*"),
    "lagoon_model_input": (c_code, "*", ctypes.c_size_t, "*"), "lagoon_model_output": (c_code, "*", ctypes.c_size_t, "*"),
    "lagoon_model_set": (c_code, "*", c_text, c_text, "*"),
    "lagoon_run_create": (c_code, "*", "*", "*"), "lagoon_run_input": (c_code, "*", ctypes.c_size_t, "*"),
    "lagoon_run_output": (c_code, "*", ctypes.c_size_t, "*"), "lagoon_run_prepare": (c_code, "*", "*"),
    "lagoon_run_sync": (c_code, "*", ctypes.c_int64), "lagoon_run_start": (c_code, "*", ctypes.c_int64, "*", "*"),
    "lagoon_run_wait": (c_code, "*", ctypes.c_int64), "lagoon_run_cancel": (None, "*"), "lagoon_run_result": (c_code, "*", "*"),
    "lagoon_run_error": (None, "*", "*"),
    "lagoon_run_output_dims": (ctypes.POINTER(ctypes.c_int64), "*", ctypes.c_size_t, "*"),
    "lagoon_run_made_output": ("*", "*", ctypes.c_size_t, "*"), "lagoon_run_free": (None, "*"),
    "lagoon_statistics": (c_code, "*", "*", "*"), "lagoon_trace_write": (c_code, "*", c_text, "*"),
}
_library_lock = threading.Lock()
_library = None


def library_path():
    """The path of liblagoon.so: that of LAGOON_LIBRARY if it is set, else the wheel's own."""
    return os.environ.get("LAGOON_LIBRARY") or str(PACKAGED)


def library():
    global _library
    with _library_lock:
        if _library is None:
            path = library_path()
            if not os.path.exists(path):
                raise FileNotFoundError(f"{path} is missing: install a wheel that `./run wheel` made, or set LAGOON_LIBRARY")
            loaded = ctypes.CDLL(path)
            for name, (result, *arguments) in PROTOTYPES.items():
                function = getattr(loaded, name)
                function.restype = ctypes.c_void_p if result == "*" else result
                function.argtypes = [ctypes.c_void_p if argument == "*" else argument for argument in arguments]
            _library = loaded
        return _library


def version():
    """The version of the library, such as "0.1.0"."""
    return library().lagoon_version().decode()


def name_of(code):
    return library().lagoon_code_name(code).decode()


def check(code, error):
    if code != OK:
        raise Failed(name_of(code), error.message.decode(errors="replace"))


def text_of(value):
    if value is None:
        return None
    text = os.fsencode(value)
    if b"\0" in text:
        raise Failed("invalid argument", f"{value!r} has a zero byte, where the library would end it")
    return text
