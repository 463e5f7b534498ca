"""Lagoon inside this process, without a server: one scheduler runs the models of a device, and real-time ones preempt the others.

    device = lagoon.local.Device()
    policy = device.load("policy.onnx", job_class="real-time", deadline_ms=2)
    detector = device.load("detector.onnx")
    boxes = detector.run_async({"image": image})
    action = policy.run({"observation": observation})["action"]

Arrays that are C-contiguous and aligned are not copied. Any thread may use a device or a model; a Run belongs to one thread at
a time. The library is liblagoon.so of the wheel, or the one that LAGOON_LIBRARY names.
"""

import concurrent.futures
import ctypes
import os
import pathlib
import threading
import time
import weakref

import numpy as np

PACKAGED = pathlib.Path(__file__).resolve().parent / "native" / "liblagoon.so.1"
NO_SPIN, NEVER = 2**32 - 1, 2**63 - 1
OK, DEADLINE_EXCEEDED = 0, 5
STRING, BFLOAT16 = 8, 16
# ONNX's numbers of types. numpy has no bfloat16: such a tensor is an array of uint16 with its bits.
TYPES = {1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 8: "O", 9: "?", 10: "f2", 11: "f8", 12: "u4", 13: "u8",
         16: "u2"}
DTYPES = {number: np.dtype(name) for number, name in TYPES.items()}
NUMBERS = {dtype: number for number, dtype in reversed(DTYPES.items())}
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


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 512)]


class _Sized(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **values):
        super().__init__(size=ctypes.sizeof(self), **values)


class _DeviceOptions(_Sized):
    _fields_ = [("size", ctypes.c_size_t), ("device", c_text), ("workers", ctypes.c_uint32), ("cores", ctypes.POINTER(ctypes.c_int)),
                ("core_count", ctypes.c_size_t), ("scheduler", c_text), ("worker_nice", ctypes.c_int), ("worker_fifo", ctypes.c_int),
                ("spin_us", ctypes.c_uint32), ("trace_events", ctypes.c_uint32), ("log", LOG), ("log_arg", ctypes.c_void_p)]


class _ModelOptions(_Sized):
    _fields_ = [("size", ctypes.c_size_t), ("name", c_text), ("job_class", ctypes.c_int), ("deadline_us", ctypes.c_int64),
                ("weight", ctypes.c_double), ("share", ctypes.c_double), ("concurrency", ctypes.c_uint32),
                ("max_pending", ctypes.c_uint32), ("newest_wins", ctypes.c_int), ("precision", c_text), ("profile_runs", ctypes.c_int),
                ("engine", c_text)]


class _Tensor(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("rank", ctypes.c_uint32), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class _TensorInfo(_Sized):
    _fields_ = [("size", ctypes.c_size_t), ("name", c_text), ("type", ctypes.c_int), ("rank", ctypes.c_uint32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("shape_known", ctypes.c_int)]


class _Result(_Sized):
    _fields_ = [("size", ctypes.c_size_t), ("code", ctypes.c_int), ("under_way", ctypes.c_int), ("called_ns", ctypes.c_int64),
                ("posted_ns", ctypes.c_int64), ("started_ns", ctypes.c_int64), ("first_block_ns", ctypes.c_int64),
                ("inputs_copied_ns", ctypes.c_int64), ("computed_ns", ctypes.c_int64), ("finished_ns", ctypes.c_int64),
                ("due_ns", ctypes.c_int64), ("revocations", ctypes.c_uint32), ("parts", ctypes.c_uint32),
                ("resumed_blocks", ctypes.c_uint64), ("compiling_ns", ctypes.c_int64), ("why", ctypes.c_int), ("why_name", c_text),
                ("behind", ctypes.c_uint32), ("behind_model", ctypes.c_char * 48), ("behind_ns", ctypes.c_int64),
                ("stolen_ns", ctypes.c_int64)]


class _Stats(_Sized):
    _fields_ = [("size", ctypes.c_size_t),
                *((name, ctypes.c_uint64) for name in ("done", "expired", "cancelled", "superseded", "too_late", "failed", "late",
                                                       "revocations", "compiled")),
                ("queued_ns", ctypes.c_int64), ("computed_ns", ctypes.c_int64), ("pending", ctypes.c_uint64),
                ("device_revocations", ctypes.c_uint64), ("launches", ctypes.c_uint64), ("under_way", ctypes.c_uint64),
                ("workers", ctypes.c_uint32)]


_PROTOTYPES = {
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


def _lib():
    global _library
    with _library_lock:
        if _library is None:
            path = library_path()
            if not os.path.exists(path):
                raise FileNotFoundError(f"{path} is missing: install a wheel that `./run wheel` made, or set LAGOON_LIBRARY")
            loaded = ctypes.CDLL(path)
            for name, (result, *arguments) in _PROTOTYPES.items():
                function = getattr(loaded, name)
                function.restype = ctypes.c_void_p if result == "*" else result
                function.argtypes = [ctypes.c_void_p if argument == "*" else argument for argument in arguments]
            _library = loaded
        return _library


def version():
    """The version of the library, such as "0.1.0"."""
    return _lib().lagoon_version().decode()


def _name_of(code):
    return _lib().lagoon_code_name(code).decode()


def _check(code, error):
    if code != OK:
        raise Failed(_name_of(code), error.message.decode(errors="replace"))


def _text(value):
    return None if value is None else os.fsencode(value)


class TensorInfo:
    """An input or output of a model. `shape`: a dim of -1 is open; None: any rank fits."""

    def __init__(self, info):
        self.name = info.name.decode()
        self.type = info.type
        self.dtype = DTYPES[info.type]
        self.shape = tuple(info.dims[i] for i in range(info.rank)) if info.shape_known else None

    def __repr__(self):
        return f"TensorInfo({self.name!r}, {self.dtype}, {self.shape})"


class _Handle:
    """What owns a handle of the library, None once it is closed. Closed at the latest when it is collected."""

    _CLOSED = ""  # what to say of one that is closed
    _handle = None

    def __del__(self):
        if self._handle is not None:
            self.close()

    def _open(self):
        handle = self._handle
        if handle is None:
            raise Failed("unavailable", self._CLOSED)
        return handle


class Device(_Handle):
    """A device with its scheduler. `spin_us`: how long a waiting thread looks before it sleeps (0: not at all). `trace_events`: how
    many events trace() can show. `log`: called with (level, message), level 0 for debug to 3 for errors."""

    _CLOSED = "the device is closed"

    def __init__(self, device="cpu", workers=0, scheduler="reset", cores=None, worker_nice=0, worker_fifo=0, spin_us=None,
                 trace_events=0, log=None):
        lib = _lib()
        cores = list(cores or [])
        # What the library keeps; the callback must live as long as the device.
        self._log = LOG(lambda _, level, message: log(level, message.decode(errors="replace"))) if log else LOG()
        options = _DeviceOptions(
            device=_text(device), workers=workers, cores=(ctypes.c_int * len(cores))(*cores) if cores else None,
            core_count=len(cores), scheduler=_text(scheduler), worker_nice=worker_nice, worker_fifo=worker_fifo,
            spin_us=0 if spin_us is None else spin_us or NO_SPIN, trace_events=trace_events, log=self._log)
        handle, error = ctypes.c_void_p(), _Error()
        _check(lib.lagoon_device_open(ctypes.byref(options), ctypes.byref(handle), ctypes.byref(error)), error)
        self._handle = handle
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._models = weakref.WeakSet()
        self._waiter = None

    def load(self, model, *, name=None, job_class="best-effort", deadline_ms=0, weight=1, share=0, concurrency=1, max_pending=64,
             newest_wins=False, precision="fp32", profile_runs=0, engine=None, folder=None):
        """Loads an ONNX file, or bytes with `folder` for external weights. `deadline_ms`: of runs without a due time of their own,
        0 for none. `share`: part of the device's units, 0 for all together with others. `concurrency`: runs at once."""
        if job_class not in CLASSES:
            raise ValueError(f"job_class is {job_class!r}: it is one of {', '.join(map(repr, CLASSES))}")
        options = _ModelOptions(
            name=_text(name), job_class=CLASSES[job_class], deadline_us=round(deadline_ms * 1000), weight=weight, share=share,
            concurrency=concurrency, max_pending=max_pending, newest_wins=newest_wins, precision=_text(precision),
            profile_runs=profile_runs, engine=_text(engine))
        handle, error = ctypes.c_void_p(), _Error()
        out = ctypes.byref(handle), ctypes.byref(error)
        if isinstance(model, (bytes, bytearray, memoryview)):
            data = np.frombuffer(model, dtype=np.uint8)
            code = _lib().lagoon_model_load_bytes(self._open(), data.ctypes.data, data.size, _text(folder), ctypes.byref(options), *out)
        else:
            code = _lib().lagoon_model_load_file(self._open(), _text(model), ctypes.byref(options), *out)
        _check(code, error)
        return Model(self, handle)

    def scheduler(self, name):
        """Changes the scheduler, such as "reset" or "weighted". Waits for the runs under way."""
        error = _Error()
        _check(_lib().lagoon_device_scheduler(self._open(), _text(name), ctypes.byref(error)), error)

    def statistics(self, model=None):
        """Counts of runs since the start, of one model or of all, and of the device."""
        stats = _Stats()
        code = _lib().lagoon_statistics(self._open(), model._open() if model else None, ctypes.byref(stats))
        if code != OK:
            raise Failed(_name_of(code), "no statistics: the device was forked, or the model is of another device")
        return {name: getattr(stats, name) for name, *_ in stats._fields_[1:]}

    def trace(self, path):
        """Writes what the device did lately, for https://ui.perfetto.dev. Waits for the runs under way."""
        error = _Error()
        _check(_lib().lagoon_trace_write(self._open(), _text(path), ctypes.byref(error)), error)

    def close(self):
        """Cancels all runs, waits for their ends, and frees the models and the device. Twice does nothing."""
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is None:
            return
        for model in list(self._models):
            model._cancel_all()
        if self._waiter is not None and os.getpid() == self._pid:
            self._waiter.stop()
        for model in list(self._models):
            model.close()
        _lib().lagoon_device_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _ends(self):
        with self._lock:
            if self._waiter is None:
                self._waiter = _Ends()
            return self._waiter


class Model(_Handle):
    """A loaded model. `inputs` and `outputs`: lists of TensorInfo."""

    _CLOSED = "the model is closed"

    def __init__(self, device, handle):
        self.device = device
        self._handle = handle
        self._lock = threading.Lock()
        self._free = []
        self._runs = weakref.WeakSet()
        lib = _lib()
        self.inputs = self._describe(lib.lagoon_model_input_count(handle), lib.lagoon_model_input)
        self.outputs = self._describe(lib.lagoon_model_output_count(handle), lib.lagoon_model_output)
        self._input_index = {tensor.name: index for index, tensor in enumerate(self.inputs)}
        self._output_index = {tensor.name: index for index, tensor in enumerate(self.outputs)}
        device._models.add(self)

    def run(self, inputs, *, outputs=None, due_ms=None):
        """{name: array}. `outputs`: arrays to write to, by name. `due_ms`: when the run must have ended, from now on; else the
        model's deadline holds. Raises Failed, with code "deadline exceeded" where it did not."""
        run = self._take()
        try:
            run.bind(inputs, outputs)
            return run.sync(due_ms)
        finally:
            self._give(run)

    def run_async(self, inputs, *, outputs=None, due_ms=None):
        """A concurrent.futures.Future of what run() returns. Its cancel() cancels the run, also one that has begun. The arrays must
        not change meanwhile. Callbacks of the future come on one thread of the device's, which is not a worker."""
        run = self._take()
        run.bind(inputs, outputs)
        return run.start(due_ms, on_end=self._give)

    def prepare(self, inputs, *, outputs=None):
        """A Run with these arrays bound, to be run again and again: write to the arrays in between."""
        run = Run(self)
        run.bind(inputs, outputs)
        return run

    def set(self, key, value):
        """Changes "class", "deadline_us", "weight" or "share" for runs that start from now on."""
        error = _Error()
        _check(_lib().lagoon_model_set(self._open(), _text(key), _text(str(value)), ctypes.byref(error)), error)

    def statistics(self):
        return self.device.statistics(self)

    def close(self):
        """Cancels the model's runs and frees it. Twice does nothing."""
        with self._lock:
            handle, self._handle = self._handle, None
            self._free = []
        if handle is None:
            return
        for run in list(self._runs):
            run.close()
        _lib().lagoon_model_free(handle)

    def _describe(self, count, get):
        tensors = []
        for index in range(count):
            info = _TensorInfo()
            code = get(self._handle, index, ctypes.byref(info))
            if code != OK:
                raise Failed(_name_of(code), f"tensor {index} of a model")
            tensors.append(TensorInfo(info))
        return tensors

    def _take(self):
        with self._lock:
            if self._free:
                return self._free.pop()
        return Run(self)

    def _give(self, run):
        run.release()
        with self._lock:
            if self._handle is not None:
                self._free.append(run)

    def _cancel_all(self):
        for run in list(self._runs):
            run.cancel()


class RunFuture(concurrent.futures.Future):
    """The future of Run.start()."""

    def __init__(self, run):
        super().__init__()
        self._run = run
        self.set_running_or_notify_cancel()

    def cancel(self):
        """Cancels the run. The future then raises Failed with code "cancelled", unless the run ends otherwise before. False: it has
        ended."""
        run = self._run
        if run is None or self.done():
            return False
        run.cancel()
        return True

    def _end(self, outcome):
        self._run = None
        try:
            self.set_result(outcome())
        except Failed as failed:
            self.set_exception(failed)
        except BaseException as failed:  # nothing may be lost: a thread waits for the future
            self.set_exception(failed)


class Run(_Handle):
    """Arrays that are bound to a model, and run again and again. One thread at a time; cancel() from any."""

    _CLOSED = "the run, its model or its device is closed"

    def __init__(self, model):
        handle, error = ctypes.c_void_p(), _Error()
        _check(_lib().lagoon_run_create(model._open(), ctypes.byref(handle), ctypes.byref(error)), error)
        self.model = model
        self._handle = handle
        self._lock = threading.Lock()
        self._kept = {}  # what the library reads and writes
        self._arrays = {}
        self._key = None
        self._sum = _Result()
        model._runs.add(self)

    def bind(self, inputs, outputs=None):
        """Binds all inputs, and memory for the outputs: that of `outputs`, or new arrays."""
        model, lib, handle = self.model, _lib(), self._open()
        for name, array in (*inputs.items(), *(outputs or {}).items()):
            _check_place(name, array)
        given = {name: np.asanyarray(array) for name, array in inputs.items()}
        missing = model._input_index.keys() - given.keys()
        unknown = given.keys() - model._input_index.keys() | (outputs or {}).keys() - model._output_index.keys()
        if missing or unknown:
            raise Failed("invalid argument", f"the model has inputs {sorted(model._input_index)} and outputs "
                         f"{sorted(model._output_index)}; missing: {sorted(missing)}, unknown: {sorted(unknown)}")
        for name, array in given.items():
            index = model._input_index[name]
            tensor, kept = _as_tensor(array, model.inputs[index])
            self._kept[name] = kept
            self._check(lib.lagoon_run_input(handle, index, ctypes.byref(tensor)))
        key = tuple((name, array.dtype, array.shape) for name, array in given.items())
        if key != self._key or outputs or not self._arrays:
            self._key = key
            self._bind_outputs(outputs or {})

    def sync(self, due_ms=None):
        """Runs and waits: {name: array}. Raises Failed."""
        self._check(_lib().lagoon_run_sync(self._open(), _due(due_ms)))
        return self._answer()

    def start(self, due_ms=None, on_end=None):
        """Runs: a RunFuture. `on_end`: called with the run when it has ended, after the future has its result."""
        ends = self.model.device._ends()
        future = RunFuture(self)
        ends.add(self, future, on_end)
        code = _lib().lagoon_run_start(self._open(), _due(due_ms), ends.post, ends.semaphore_address)
        if code != OK:
            ends.remove(self)
            failed = self._failure(code)
            if on_end is not None:
                on_end(self)
            raise failed
        ends.started(self)
        return future

    def cancel(self):
        """Any thread. The run ends with code "cancelled" soon, unless it ends otherwise before."""
        with self._lock:
            if self._handle is not None:
                _lib().lagoon_run_cancel(self._handle)

    def result(self):
        """Of the last run: its stamps in ns of time.monotonic_ns(), revocations, `why_name` if it was late, and what kept it
        (`behind`, `stolen_ns`), as lagoon.h says."""
        _lib().lagoon_run_result(self._open(), ctypes.byref(self._sum))
        values = {name: getattr(self._sum, name) for name, *_ in _Result._fields_[1:]}
        values["code"] = _name_of(values["code"])
        values["why_name"] = values["why_name"].decode()
        values["behind_model"] = values["behind_model"].decode(errors="replace")
        if values["due_ns"] == NEVER:
            values["due_ns"] = None
        del values["why"]
        return values

    def close(self):
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            _lib().lagoon_run_free(handle)

    def release(self):
        """Lets the arrays go; the run stays ready for others of the same shapes."""
        self._kept, self._arrays = {}, {}

    def _failure(self, code):
        error = _Error()
        _lib().lagoon_run_error(self._open(), ctypes.byref(error))
        return Failed(_name_of(code), error.message.decode(errors="replace"))

    def _check(self, code):
        if code != OK:
            raise self._failure(code)

    def _bind_outputs(self, outputs):
        lib, handle = _lib(), self._open()
        for index in range(len(self.model.outputs)):  # those of the call before must not be checked against these shapes
            lib.lagoon_run_output(handle, index, ctypes.byref(_Tensor(type=self.model.outputs[index].type)))
        error = _Error()
        _check(lib.lagoon_run_prepare(handle, ctypes.byref(error)), error)
        self._arrays = {}
        for index, info in enumerate(self.model.outputs):
            rank = ctypes.c_uint32()
            dims = lib.lagoon_run_output_dims(handle, index, ctypes.byref(rank))
            array = outputs.get(info.name)
            if array is None:
                if not dims or info.type == STRING:
                    continue
                array = np.empty([dims[i] for i in range(rank.value)], info.dtype)
            elif not (isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable
                      and array.dtype == info.dtype):
                raise Failed("invalid argument", f"output {info.name!r}: the array must be C-contiguous and writeable, of {info.dtype}")
            tensor, _ = _as_tensor(array, info)
            self._check(lib.lagoon_run_output(handle, index, ctypes.byref(tensor)))
            self._arrays[info.name] = array

    def _answer(self):
        lib, handle, answer = _lib(), self._open(), {}
        for index, info in enumerate(self.model.outputs):
            array = self._arrays.get(info.name)
            answer[info.name] = self._made(lib, handle, index, info) if array is None else array
        return answer

    @staticmethod
    def _made(lib, handle, index, info):
        """A copy of an output in the library's memory."""
        rank, size = ctypes.c_uint32(), ctypes.c_size_t()
        dims = lib.lagoon_run_output_dims(handle, index, ctypes.byref(rank))
        shape = [dims[i] for i in range(rank.value)]
        data = lib.lagoon_run_made_output(handle, index, ctypes.byref(size))
        raw = np.frombuffer(ctypes.string_at(data, size.value) if data else b"", dtype=np.uint8)
        if info.type != STRING:
            return raw.view(info.dtype).reshape(shape).copy()
        table = raw.view(STRING_DTYPE)
        texts = np.empty(len(table), dtype=object)
        for i, (at, length) in enumerate(table.tolist()):
            texts[i] = ctypes.string_at(at, length) if at else b"0"
        return texts.reshape(shape)


class _Ends:
    """The thread that gives futures their results. A worker that ends a run posts a semaphore of the C library, no more: the
    interpreter's lock is nothing for it."""

    def __init__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        self._libc = libc
        libc.sem_wait.argtypes = libc.sem_post.argtypes = [ctypes.c_void_p]
        self._semaphore = ctypes.create_string_buffer(64)  # more than a sem_t takes
        libc.sem_init(ctypes.byref(self._semaphore), 0, 0)
        self.semaphore_address = ctypes.addressof(self._semaphore)
        # done(arg, run): the semaphore is the first argument, and the second one is not read.
        self.post = ctypes.cast(libc.sem_post, ctypes.c_void_p)
        self._lock = threading.Lock()
        self._pending, self._begun = {}, set()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="lagoon-futures", daemon=True)
        self._thread.start()

    def add(self, run, future, on_end):
        with self._lock:
            if self._stopping:
                raise Failed("unavailable", "the device is closed")
            if run in self._pending:
                raise Failed("invalid argument", "this run is under way")
            self._pending[run] = (future, on_end)

    def started(self, run):
        """From now on the run may be found to be over: before, it has not begun."""
        with self._lock:
            self._begun.add(run)
        self._libc.sem_post(self.semaphore_address)

    def remove(self, run):
        with self._lock:
            self._pending.pop(run, None)

    def stop(self):
        """Returns when all pending runs have ended."""
        with self._lock:
            self._stopping = True
        self._libc.sem_post(self.semaphore_address)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self):
        while True:
            self._libc.sem_wait(self.semaphore_address)
            with self._lock:
                waiting = [(run, entry) for run, entry in self._pending.items() if run in self._begun]
                if self._stopping and not self._pending:
                    return
            for run, (future, on_end) in waiting:
                self._look(run, future, on_end)
            with self._lock:
                if self._stopping and not self._pending:
                    return

    def _look(self, run, future, on_end):
        result = _Result()
        handle = run._handle
        if handle is not None:
            _lib().lagoon_run_result(handle, ctypes.byref(result))
            if result.under_way:
                return
            code = _lib().lagoon_run_wait(handle, 0)  # it is over; also its `done` now
        with self._lock:
            if self._pending.pop(run, None) is None:
                return
            self._begun.discard(run)

        def outcome():
            if handle is None:
                raise Failed("cancelled", "the run was closed")
            run._check(code)
            return run._answer()

        future._end(outcome)
        if on_end is not None:
            on_end(run)


def _due(due_ms):
    return 0 if due_ms is None else max(1, time.monotonic_ns() + round(due_ms * 1e6))


def _check_place(name, array):
    """Arrays of other libraries may lie in memory of a GPU."""
    if isinstance(array, np.ndarray):
        return
    cpu = 1  # DLPack's number
    if hasattr(array, "__cuda_array_interface__") or (hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] != cpu):
        raise Failed("invalid argument", f"tensor '{name}' lies in memory of another device: copy it to the CPU first")


def _as_tensor(array, info):
    """The array for the library, and what must stay alive meanwhile."""
    kept = array
    if info.type == STRING or array.dtype.kind in "OSU":
        kept, data = _as_strings(array)
        number = STRING
    else:
        if not (array.flags.c_contiguous and array.flags.aligned):
            kept = np.require(array, requirements=["C", "A"])
        data = kept
        number = NUMBERS.get(kept.dtype, 0)
        if info.type == BFLOAT16 and number == NUMBERS[np.dtype("u2")]:
            number = BFLOAT16
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    return _Tensor(type=number, rank=array.ndim, dims=dims, data=data.ctypes.data, bytes=data.nbytes), (kept, data, dims)


def _as_strings(array):
    texts = [text if isinstance(text, bytes) else str(text).encode() for text in array.ravel().tolist()]
    buffers = [ctypes.create_string_buffer(text, len(text)) if text else ctypes.create_string_buffer(1) for text in texts]
    table = np.array([(ctypes.addressof(buffer), len(text)) for buffer, text in zip(buffers, texts)], dtype=STRING_DTYPE)
    return buffers, table
