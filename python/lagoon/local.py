"""Lagoon inside this process, without a server: one scheduler runs the models of a device, and real-time ones preempt the others.

    device = lagoon.local.Device()
    policy = device.load("policy.onnx", job_class="real-time", deadline_ms=2)
    detector = device.load("detector.onnx")
    boxes = detector.run_async({"image": image})
    action = policy.run({"observation": observation})["action"]

Arrays that are C-contiguous and aligned are not copied. Any thread may use a device or a model, and close it while other threads
use it: their runs end as "cancelled" or "unavailable". A Run belongs to one thread at a time. The library is liblagoon.so of the wheel, or the one that LAGOON_LIBRARY names.
"""

import concurrent.futures
import contextlib
import ctypes
import logging
import os
import threading
import time

import numpy as np

from lagoon.handle import Handle
from lagoon.liblagoon import (CLASSES, LOG, NEVER, NO_SPIN, OK, STRING, STRING_DTYPE, CTensorInfo, DeviceOptions, Error, Failed,
                              ModelOptions, Result, Stats, Tensor, check, library, library_path, name_of, number_of, text_of, version)
from lagoon.tensors import TensorInfo, as_tensor, input_array, named, output_array, tensor_of

__all__ = ["Device", "Failed", "Model", "Run", "RunFuture", "TensorInfo", "library_path", "version"]


class Device(Handle):
    """A device with its scheduler. `spin_us`: how long a waiting thread looks before it sleeps (0: not at all). `trace_events`: how
    many events trace() can show. `log`: called with (level, message), level 0 for debug to 3 for errors."""

    _CLOSED = "the device is closed"

    def __init__(self, device="cpu", workers=0, scheduler="reset", cores=None, worker_nice=0, worker_fifo=0, spin_us=None,
                 trace_events=0, log=None):
        lib = library()
        cores = [number_of(f"cores[{i}]", core, 0, 2**31 - 1) for i, core in enumerate([] if cores is None else cores)]
        # What the library keeps; the callback must live as long as the device.
        self._log = LOG(lambda _, level, message: log(level, message.decode(errors="replace"))) if log else LOG()
        options = DeviceOptions(
            device=text_of(device), workers=workers, cores=(ctypes.c_int * len(cores))(*cores) if cores else None,
            core_count=len(cores), scheduler=text_of(scheduler), worker_nice=worker_nice, worker_fifo=worker_fifo,
            spin_us=0 if spin_us is None else number_of("spin_us", spin_us, 0, NO_SPIN - 1) or NO_SPIN, trace_events=trace_events, log=self._log)
        handle, error = ctypes.c_void_p(), Error()
        check(lib.lagoon_device_open(ctypes.byref(options), ctypes.byref(handle), ctypes.byref(error)), error)
        self._waiter = None
        super().__init__(handle)

    def load(self, model, *, name=None, job_class="best-effort", deadline_ms=0, weight=1, share=0, concurrency=1, max_pending=64,
             newest_wins=False, precision="fp32", profile_runs=0, engine=None, folder=None):
        """Loads an ONNX file, or what has its bytes (bytes, an array of numpy, ...) with `folder` for external weights. `deadline_ms`: of runs without a due time of their own,
        0 for none. `weight`: under the scheduler "weighted". `share`: part of the device's units, 0 for all together with others.
        `concurrency`: runs at once. `max_pending`: runs that wait; one more is "unavailable". `engine`: the path of ONNX Runtime's
        library, for ops that Lagoon lacks."""
        if job_class not in CLASSES:
            raise ValueError(f"job_class is {job_class!r}: it is one of {', '.join(map(repr, CLASSES))}")
        options = ModelOptions(
            name=text_of(name), job_class=CLASSES[job_class],
            deadline_us=round(number_of("deadline_ms", deadline_ms, 0, 9e12, whole=False) * 1000), weight=weight, share=share,
            concurrency=concurrency, max_pending=max_pending, newest_wins=bool(newest_wins), precision=text_of(precision),
            profile_runs=profile_runs, engine=text_of(engine))
        handle, error = ctypes.c_void_p(), Error()
        out = ctypes.byref(handle), ctypes.byref(error)
        with self._use() as device:
            if isinstance(model, (str, os.PathLike)):
                code = library().lagoon_model_load_file(device, text_of(model), ctypes.byref(options), *out)
            else:
                data = _bytes_of(model)
                code = library().lagoon_model_load_bytes(device, data.ctypes.data, data.size, text_of(folder), ctypes.byref(options), *out)
            check(code, error)
            return Model(self, handle)

    def scheduler(self, name):
        """Changes the scheduler, such as "reset" or "weighted". Waits for the runs under way."""
        error = Error()
        with self._use() as device:
            check(library().lagoon_device_scheduler(device, text_of(name), ctypes.byref(error)), error)

    def statistics(self, model=None):
        """Counts of runs since the start, of one model or of all, and of the device."""
        stats = Stats()
        with self._use() as device, model._use() if model else contextlib.nullcontext() as of:
            code = library().lagoon_statistics(device, of, ctypes.byref(stats))
        if code != OK:
            raise Failed(name_of(code), "no statistics: the device was forked, or the model is of another device")
        return {name: getattr(stats, name) for name, *_ in stats._fields_[1:]}

    def trace(self, path):
        """Writes what the device did lately, for https://ui.perfetto.dev. Waits for the runs under way."""
        error = Error()
        with self._use() as device:
            check(library().lagoon_trace_write(device, text_of(path), ctypes.byref(error)), error)

    def close(self):
        """Cancels all runs, waits for their ends, and frees the models and the device. Futures have their results then, unless a
        callback of a future calls it. Twice does nothing."""
        if os.getpid() != self._pid:
            return
        super().close()
        with self._lock:
            waiter = self._waiter
        if waiter is not None:
            waiter.stop()

    def _free_handle(self, handle):
        library().lagoon_device_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _ends(self):
        with self._lock:
            if self._closed:
                raise Failed("unavailable", self._CLOSED)
            if self._waiter is None:
                self._waiter = _Ends()
            return self._waiter


class Model(Handle):
    """A loaded model. `inputs` and `outputs`: lists of TensorInfo."""

    _CLOSED = "the model is closed"

    def __init__(self, device, handle):
        self._free = []  # runs that run() and run_async() use again; they do not refer to this model, so that no cycle keeps it
        super().__init__(handle, device)
        self.device = device
        lib = library()
        with self._use():
            self.inputs = self._describe(handle, lib.lagoon_model_input_count(handle), lib.lagoon_model_input)
            self.outputs = self._describe(handle, lib.lagoon_model_output_count(handle), lib.lagoon_model_output)
        self._input_index = {tensor.name: index for index, tensor in enumerate(self.inputs)}
        self._output_index = {tensor.name: index for index, tensor in enumerate(self.outputs)}

    def run(self, inputs, *, outputs=None, due_ms=None):
        """{name: array}. `outputs`: arrays to write to, by name. `due_ms`: when the run must have ended, from now on; else the
        model's deadline holds. Raises Failed, with code "deadline exceeded" where it did not."""
        run = self._take()
        try:
            run._bind(inputs, outputs, copies=True)
            return run.sync(due_ms)
        finally:
            self._give(run)

    def run_async(self, inputs, *, outputs=None, due_ms=None):
        """A concurrent.futures.Future of what run() returns. Its cancel() cancels the run, also one that has begun. The arrays must
        not change meanwhile. Callbacks of the device's futures come one after the other on one thread, which is not a worker: they
        must not wait for a future of the same device."""
        run = self._take()
        try:
            run._bind(inputs, outputs, copies=True)
            return run.start(due_ms, on_end=self._give)
        except Exception:
            self._give(run)
            raise

    def prepare(self, inputs, *, outputs=None):
        """A Run with these arrays bound, to be run again and again: write to the arrays in between. Refuses arrays that it would have
        to copy, as the copy would not change with them; only strings are copied, so bind them again when they change."""
        run = Run(self)
        run.bind(inputs, outputs)
        return run

    def set(self, key, value):
        """Changes "class", "deadline_us", "weight" or "share" for runs that start from now on."""
        error = Error()
        with self._use() as model:
            check(library().lagoon_model_set(model, text_of(key), text_of(str(value)), ctypes.byref(error)), error)

    def statistics(self):
        return self.device.statistics(self)

    def _free_handle(self, handle):
        for run in self._free:
            run.close()
        library().lagoon_model_free(handle)

    @staticmethod
    def _describe(handle, count, get):
        tensors = []
        for index in range(count):
            info = CTensorInfo()
            code = get(handle, index, ctypes.byref(info))
            if code != OK:
                raise Failed(name_of(code), f"tensor {index} of a model")
            tensors.append(TensorInfo(info))
        return tensors

    def _take(self):
        with self._lock:
            if self._free:
                run = self._free.pop()
                run._join(self)
                return run
        return Run(self)

    def _give(self, run):
        run._let_go()
        with self._lock:
            if not self._closed:
                run._part()
                self._free.append(run)


class RunFuture(concurrent.futures.Future):
    """The future of Run.start(). A callback must not wait for a future of the same device: result() and exception() raise there."""

    def __init__(self, run, thread):
        super().__init__()
        self._run = run
        self._thread = thread  # calls the callbacks
        self.set_running_or_notify_cancel()

    def cancel(self):
        """Cancels the run. The future then raises Failed with code "cancelled", unless the run ends otherwise before. False: it has
        ended."""
        run = self._run
        if run is None or self.done():
            return False
        run.cancel()
        return True

    def result(self, timeout=None):
        self._check_thread(timeout)
        return super().result(timeout)

    def exception(self, timeout=None):
        self._check_thread(timeout)
        return super().exception(timeout)

    def _check_thread(self, timeout):
        if timeout != 0 and threading.current_thread() is self._thread and not self.done():
            raise Failed("invalid argument", "a callback of a future waits for another future of the device, which gets its result on "
                         "the same thread, behind the callback: use add_done_callback(), or wait on another thread")

    def _end(self, outcome, failed):
        self._run = None
        try:
            if failed is None:
                self.set_result(outcome)
            else:
                self.set_exception(failed)
        except BaseException:  # such as SystemExit of a callback: other futures still need this thread
            logging.getLogger("lagoon").exception("a callback of a future has raised")


class Run(Handle):
    """Arrays that are bound to a model, and run again and again. One thread at a time; cancel() and close() from any."""

    _CLOSED = "the run, its model or its device is closed"
    _SHARE = "make another one with Model.prepare()"

    def __init__(self, model):
        handle, error = ctypes.c_void_p(), Error()
        with model._use() as of:
            check(library().lagoon_run_create(of, ctypes.byref(handle), ctypes.byref(error)), error)
            super().__init__(handle, model)
        self._kept = {}  # what the library reads
        self._arrays = {}  # and writes
        self._key = None
        self._bound = False
        self._sum = Result()

    def bind(self, inputs, outputs=None):
        """Binds all inputs, and memory for the outputs. Refuses arrays that it would have to copy. Each later run overwrites the
        arrays in `outputs`, and those that sync() or the future has returned: copy what must last. Where `outputs` is not given
        and the inputs have the shapes of the bind before, the outputs' arrays stay the same; else there are new ones."""
        self._bind(inputs, outputs, copies=False)

    def _bind(self, inputs, outputs, copies):
        model, lib = self.model, library()
        inputs, outputs = named("inputs", inputs), named("outputs", outputs or {})
        missing = model._input_index.keys() - inputs.keys()
        unknown = inputs.keys() - model._input_index.keys() | outputs.keys() - model._output_index.keys()
        if missing or unknown:
            raise Failed("invalid argument", f"the model has inputs {sorted(model._input_index)} and outputs "
                         f"{sorted(model._output_index)}; missing: {sorted(missing)}, unknown: {sorted(unknown)}")
        given = {name: input_array(name, array, model.inputs[model._input_index[name]], copies) for name, array in inputs.items()}
        written = {name: output_array(name, array, model.outputs[model._output_index[name]])
                   for name, array in outputs.items() if array is not None}
        with self._use() as handle:
            self._bound = False
            for name, array in given.items():
                index = model._input_index[name]
                tensor, kept = as_tensor(array, model.inputs[index])
                self._check(lib.lagoon_run_input(handle, index, ctypes.byref(tensor)), handle)
                self._kept[name] = kept  # the array before was bound until now
            key = tuple((name, array.dtype, array.shape) for name, array in given.items())
            if key != self._key or written or not self._arrays:
                self._key = None
                self._bind_outputs(handle, written)
                self._key = key
            self._bound = True

    def sync(self, due_ms=None):
        """Runs and waits: {name: array}. The next run overwrites the arrays. Raises Failed."""
        due = _due(due_ms)
        with self._use() as handle:
            self._check_bound()
            self._check(library().lagoon_run_sync(handle, due), handle)
            return self._answer(handle)

    def start(self, due_ms=None, on_end=None):
        """Runs: a RunFuture. `on_end`: called with the run when it has ended, after the future has its result; not where this
        raises."""
        due, ends = _due(due_ms), self.model.device._ends()
        future = RunFuture(self, ends.thread)
        handle = self._enter(ends.thread.ident)  # until that thread has seen the end
        try:
            self._check_bound()
            ends.add(self, handle, future, on_end)
            code = library().lagoon_run_start(handle, due, ends.post, ends.semaphore_address)
            if code != OK:
                ends.remove(self)
                raise self._failure(code, handle)
        except Exception:
            self._leave(ends.thread.ident)
            raise
        ends.started(self)
        return future

    def cancel(self):
        """Any thread. The run ends with code "cancelled" soon, unless it ends otherwise before."""
        self._cancel_handle()

    def result(self):
        """Of the last run: its stamps in ns of time.monotonic_ns(), revocations, `why_name` if it was late, and what kept it
        (`behind`, `stolen_ns`), as lagoon.h says."""
        with self._use() as handle:
            library().lagoon_run_result(handle, ctypes.byref(self._sum))
        values = {name: getattr(self._sum, name) for name, *_ in Result._fields_[1:]}
        values["code"] = name_of(values["code"])
        values["why_name"] = values["why_name"].decode()
        values["behind_model"] = values["behind_model"].decode(errors="replace")
        if values["due_ns"] == NEVER:
            values["due_ns"] = None
        del values["why"]
        return values

    def _join(self, parent):
        super()._join(parent)
        self.model = parent

    def _part(self):
        super()._part()
        self.model = None

    def release(self):
        """Lets the arrays go; the run stays ready for others of the same shapes."""
        with self._use() as handle:
            result = Result()
            library().lagoon_run_result(handle, ctypes.byref(result))
            if result.under_way:
                raise Failed("invalid argument", "this run is under way: its arrays are in use")
            self._let_go()

    def _let_go(self):
        self._bound = False
        self._kept, self._arrays = {}, {}

    def _cancel_handle(self):
        with self._lock:
            if self._handle is not None:
                library().lagoon_run_cancel(self._handle)

    def _free_handle(self, handle):
        library().lagoon_run_free(handle)

    def _check_bound(self):
        if not self._bound:
            raise Failed("invalid argument", "the run has no arrays: bind() has failed, or release() let them go")

    @staticmethod
    def _failure(code, handle):
        error = Error()
        library().lagoon_run_error(handle, ctypes.byref(error))
        return Failed(name_of(code), error.message.decode(errors="replace"))

    def _check(self, code, handle):
        if code != OK:
            raise self._failure(code, handle)

    def _bind_outputs(self, handle, outputs):
        lib = library()
        for index in range(len(self.model.outputs)):  # those of the call before must not be checked against these shapes
            lib.lagoon_run_output(handle, index, ctypes.byref(Tensor(type=self.model.outputs[index].type)))
        error = Error()
        check(lib.lagoon_run_prepare(handle, ctypes.byref(error)), error)
        self._arrays = {}
        for index, info in enumerate(self.model.outputs):
            rank = ctypes.c_uint32()
            dims = lib.lagoon_run_output_dims(handle, index, ctypes.byref(rank))
            array = outputs.get(info.name)
            if array is None:
                if not dims or info.type == STRING:
                    continue
                array = np.empty([dims[i] for i in range(rank.value)], info.dtype)
            self._arrays[info.name] = array
            self._check(lib.lagoon_run_output(handle, index, ctypes.byref(tensor_of(array, info.type))), handle)

    def _answer(self, handle):
        lib, answer = library(), {}
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
        self._lock = threading.RLock()  # a collection within may close the device
        self._pending, self._begun = {}, set()
        self._stopping = False
        self.thread = threading.Thread(target=self._work, name="lagoon-futures", daemon=True)
        self.thread.start()

    def add(self, run, handle, future, on_end):
        with self._lock:
            if self._stopping:
                raise Failed("unavailable", "the device is closed")
            if run in self._pending:
                raise Failed("invalid argument", "this run is under way")
            self._pending[run] = (handle, future, on_end)

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
        if threading.current_thread() is not self.thread:
            self.thread.join()

    def _work(self):
        while True:
            self._libc.sem_wait(self.semaphore_address)
            with self._lock:
                waiting = [(run, entry) for run, entry in self._pending.items() if run in self._begun]
                if self._stopping and not self._pending:
                    return
            for run, entry in waiting:
                self._look(run, *entry)
            waiting = run = entry = None  # an idle thread keeps no run, and so no device
            with self._lock:
                if self._stopping and not self._pending:
                    return

    def _look(self, run, handle, future, on_end):
        result = Result()
        library().lagoon_run_result(handle, ctypes.byref(result))
        if result.under_way:
            return
        code = library().lagoon_run_wait(handle, 0)  # it is over; also its `done` now
        outcome = failed = None
        try:
            run._check(code, handle)
            outcome = run._answer(handle)
        except BaseException as error:  # nothing may be lost: a thread waits for the future
            failed = error
        with self._lock:
            del self._pending[run]
            self._begun.discard(run)
        run._leave(self.thread.ident)  # before callbacks, which may close the run
        future._end(outcome, failed)
        if on_end is not None:
            on_end(run)
        run = future = on_end = failed = None  # the traceback of an error keeps this frame: no cycle


def _bytes_of(model):
    try:
        return np.frombuffer(model, dtype=np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        raise Failed("invalid argument", f"model is a {type(model).__name__}: it is a path, or the bytes of a file in one piece "
                     f"({error})") from None


def _due(due_ms):
    """In ns of time.monotonic_ns(); 0: the model decides."""
    if due_ms is None:
        return 0
    return max(1, time.monotonic_ns() + round(number_of("due_ms", due_ms, -9e12, 9e12, whole=False) * 1e6))
