"""Models inside this process: lagoon.local over liblagoon.so, beside ONNX Runtime's answers, with bad input, many threads, a
fork and an exit while runs are under way."""

import concurrent.futures
import copy
import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import onnx
import pytest
from conftest import DIGITS, ROOT, TOLERANCE, relative_error, run_onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(ROOT / "python"))
from lagoon import Device, liblagoon, local  # noqa: E402

DIGITS_FILE = DIGITS / "1" / "model.onnx"
pytestmark = pytest.mark.skipif(not os.path.exists(local.library_path()), reason="there is no liblagoon.so: LAGOON_LIBRARY")


@pytest.fixture(name="device")
def fixture_device():
    with Device(workers=2, trace_events=10000) as device:
        yield device


@pytest.fixture(name="image", scope="module")
def fixture_image():
    return np.load(ROOT / "models" / "digits" / "samples" / "digit-3.npy").astype(np.float32)


def model_of(nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(value, name) for name, value in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def floats(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def adds():
    """y = x [rows, 4] + 1"""
    return model_of([helper.make_node("Add", ["x", "one"], ["y"])], [floats("x", ["rows", 4])], [floats("y", ["rows", 4])],
                    [("one", np.ones(4, np.float32))])


def slow():
    """Some hundred milliseconds of work."""
    nodes = [helper.make_node("Sin", ["x" if i == 0 else f"v{i - 1}"], ["y" if i == 99 else f"v{i}"]) for i in range(100)]
    return model_of(nodes, [floats("x", [256, 1024])], [floats("y", [256, 1024])])


def refused(code, call, *words, **more):
    with pytest.raises(local.Failed) as failed:
        call(*words, **more)
    assert failed.value.code == code, failed.value
    return str(failed.value)


def test_answers_are_those_of_onnx_runtime(device, image):
    model = device.load(DIGITS_FILE, job_class="real-time", deadline_ms=10000)
    assert [(tensor.name, tensor.shape) for tensor in model.inputs] == [("image", (1, 1, 8, 8))]
    scores = model.run({"image": image})["scores"]
    assert scores.argmax() == 3
    assert relative_error(scores, run_onnxruntime(DIGITS_FILE, {"image": image})["scores"]) < TOLERANCE
    assert model.statistics()["done"] == 1


def test_arrays_are_borrowed(device):
    model = device.load(adds())
    x, y = np.zeros((2, 4), np.float32), np.empty((2, 4), np.float32)
    run = model.prepare({"x": x}, outputs={"y": y})
    for value in range(3):
        x[:] = value
        assert run.sync()["y"] is y
        assert (y == value + 1).all()
    strided = np.zeros((4, 2), np.float32).T  # copied
    assert (model.run({"x": strided})["y"] == 1).all()
    assert model.run({"x": np.zeros((5, 4), np.float32)})["y"].shape == (5, 4)


def misaligned(shape):
    """A float32 array that begins one byte behind an address that is a multiple of four."""
    bytes_ = np.zeros(4 * int(np.prod(shape)) + 1, np.uint8)
    return bytes_[1:].view(np.float32).reshape(shape)


@pytest.mark.parametrize("array, fault", [
    (misaligned((2, 4)), "not aligned"), (np.zeros((2, 8), np.float32)[:, ::2], "not C-contiguous"),
    (np.zeros((4, 2), np.float32).T, "not C-contiguous"), (np.broadcast_to(np.zeros(4, np.float32), (2, 4)), "read-only"),
    (np.zeros((2, 4), ">f4"), "of >f4"), (np.zeros((2, 4)), "of float64"), (np.ma.zeros((2, 4), np.float32), "a masked array"),
    ([[0.0] * 4] * 2, "a list"), (np.float32(3), "a float32, not an array")])
def test_an_output_that_the_library_could_not_write_itself_is_refused(device, array, fault):
    model = device.load(adds())
    x = np.zeros((2, 4), np.float32)
    for call in (model.run, model.prepare, model.run_async):
        message = refused("invalid argument", call, {"x": x}, outputs={"y": array})
        assert "output 'y'" in message and fault in message
    assert (model.run({"x": x})["y"] == 1).all()


def test_outputs_in_a_file_and_without_elements(device, tmp_path):
    model = device.load(adds())
    file = np.memmap(tmp_path / "y", np.float32, "w+", shape=(2, 4))
    assert model.run({"x": np.zeros((2, 4), np.float32)}, outputs={"y": file})["y"] is file
    assert (np.fromfile(tmp_path / "y", np.float32) == 1).all()
    odd = np.memmap(tmp_path / "z", np.float32, "w+", offset=1, shape=(2, 4))
    assert "not aligned" in refused("invalid argument", model.run, {"x": odd}, outputs={"y": odd})
    assert (model.run({"x": odd})["y"] == 1).all()
    none = np.empty((0, 4), np.float32)
    assert model.run({"x": none}, outputs={"y": np.empty((0, 4), np.float32)})["y"].shape == (0, 4)


def test_inputs_of_a_wrong_type_are_named(device):
    model = device.load(adds())
    takes = ", the model takes float32"
    for array, dtype in ((np.zeros((2, 4), ">f4"), ">f4"), (np.zeros((2, 4), complex), "complex128"),
                         (np.zeros((2, 4), "M8[s]"), "datetime64[s]"), ([[1.0] * 4], "float64"), (np.array([["a"] * 4]), "<U1"),
                         (np.full((2, 4), None), "object"), (3, "int64")):
        message = refused("invalid argument", model.run, {"x": array})
        assert f"input 'x' has dtype {dtype}{takes}" in message
        assert ("astype('float32')" in message) == (dtype in (">f4", "float64", "int64"))
    assert "input 'x' is None" in refused("invalid argument", model.run, {"x": None})
    assert "input 'x' is a masked array" in refused("invalid argument", model.run, {"x": np.ma.zeros((2, 4), np.float32)})
    assert "input 'x' is a list, not an array" in refused("invalid argument", model.run, {"x": [[1], [1, 2]]})
    assert "inputs is a list" in refused("invalid argument", model.run, [np.zeros((2, 4), np.float32)])


def test_a_prepared_run_refuses_arrays_that_it_would_copy(device):
    model = device.load(adds())
    for array, what in ((np.zeros((4, 2), np.float32).T, "copy(order='C')"), (misaligned((2, 4)), "copy(order='C')"),
                        (np.broadcast_to(np.float32(0), (2, 4)), "copy(order='C')")):
        assert what in refused("invalid argument", model.prepare, {"x": array})
        assert (model.run({"x": array})["y"] == 1).all()
    run = model.prepare({"x": np.zeros((2, 4), np.float32)})
    assert "copy(order='C')" in refused("invalid argument", run.bind, {"x": misaligned((2, 4))})
    scalar = device.load(model_of([helper.make_node("Add", ["x", "x"], ["y"])], [floats("x", [])], [floats("y", [])]))
    assert "np.array()" in refused("invalid argument", scalar.prepare, {"x": np.float32(2)})
    place = np.array(2, np.float32)
    run = scalar.prepare({"x": place}, outputs={"y": np.empty((), np.float32)})
    for value in (2, 3):
        place[()] = value
        assert run.sync()["y"] == 2 * value


def test_a_run_without_its_arrays_says_so(device):
    model = device.load(adds())
    run = model.prepare({"x": np.zeros((2, 4), np.float32)})
    run.release()
    assert "no arrays" in refused("invalid argument", run.sync)
    assert "no arrays" in refused("invalid argument", run.start)
    run.bind({"x": np.zeros((2, 4), np.float32)})
    assert (run.sync()["y"] == 1).all()
    refused("invalid argument", run.bind, {"x": np.zeros((2, 3), np.float32)})
    assert "no arrays" in refused("invalid argument", run.sync)


def test_arrays_of_a_run_under_way_stay(device):
    long = device.load(slow())
    run = long.prepare({"x": np.ones((256, 1024), np.float32)})
    future = run.start()
    assert "under way" in refused("invalid argument", run.bind, {"x": np.ones((256, 1024), np.float32)})
    assert "under way" in refused("invalid argument", run.release)
    future.result(60)


def test_outputs_whose_size_depends_on_data(device):
    places = model_of([helper.make_node("NonZero", ["x"], ["where"])], [floats("x", [6])],
                      [helper.make_tensor_value_info("where", TensorProto.INT64, [1, None])])
    model = device.load(places)
    for x in ([0, 1, 0, 2, 0, 3], [0] * 6, [1] * 6):
        found = model.run({"x": np.array(x, np.float32)})["where"]
        np.testing.assert_array_equal(found, np.array([np.flatnonzero(x)]))


def test_futures_end_in_any_order_and_can_be_cancelled(device):
    model = device.load(adds(), concurrency=2, max_pending=1000)
    futures = [model.run_async({"x": np.full((1, 4), i, np.float32)}) for i in range(100)]
    assert [future.result(30)["y"][0, 0] for future in futures] == [i + 1 for i in range(100)]
    long = device.load(slow())
    running = long.run_async({"x": np.ones((256, 1024), np.float32)})
    waiting = long.run_async({"x": np.ones((256, 1024), np.float32)})
    assert waiting.cancel() and running.cancel()
    for future in (running, waiting):
        with pytest.raises(local.Failed) as failed:
            future.result(30)
        assert failed.value.code == "cancelled"
    assert not running.cancel()


def test_callbacks_come_on_one_thread_that_is_no_worker(device):
    model, names, ended = device.load(adds(), max_pending=100), set(), threading.Semaphore(0)

    def note(_):
        names.add(threading.current_thread().name)
        ended.release()
        raise ValueError("of a callback")  # concurrent.futures logs it
    for _ in range(20):
        model.run_async({"x": np.zeros((1, 4), np.float32)}).add_done_callback(note)
    for _ in range(20):
        assert ended.acquire(timeout=30)
    assert names <= {"lagoon-futures", threading.current_thread().name}


def test_a_callback_must_not_wait_for_a_future(device):
    model, told, kept = device.load(adds(), max_pending=100), concurrent.futures.Future(), []
    x = {"x": np.zeros((1, 4), np.float32)}

    def wait(_):
        try:
            kept.append(long.run_async({"x": np.ones((256, 1024), np.float32)}))
            kept[0].result()
        except local.Failed as failed:
            told.set_result((failed.code, str(failed)))
    long = device.load(slow())
    first = long.run_async({"x": np.ones((256, 1024), np.float32)})
    first.add_done_callback(wait)
    code, message = told.result(60)
    assert code == "invalid argument" and "a callback of a future waits" in message
    assert kept[0].result(60)["y"].shape == (256, 1024)
    assert (model.run_async(x).result(60)["y"] == 1).all()


def test_a_callback_that_exits_loses_no_future(device, caplog):
    long, model = device.load(slow()), device.load(adds())
    running = long.run_async({"x": np.ones((256, 1024), np.float32)})
    running.add_done_callback(lambda _: sys.exit(3))
    running.result(60)
    assert model.run_async({"x": np.zeros((1, 4), np.float32)}).result(30)["y"].shape == (1, 4)
    assert "SystemExit" in caplog.text


def test_a_device_is_collected_behind_a_future():
    device = Device(workers=1)
    device.load(adds()).run_async({"x": np.zeros((1, 4), np.float32)}).result(30)
    gone = weakref.ref(device)
    del device
    for _ in range(1000):
        if gone() is None:
            return
        time.sleep(0.01)
    raise AssertionError("the thread of the futures keeps the device")


BIG = 2**32


@pytest.mark.parametrize("name, value", [
    ("concurrency", BIG + 7), ("concurrency", 0), ("concurrency", 1.5), ("concurrency", "2"), ("max_pending", BIG + 1),
    ("max_pending", 0), ("max_pending", -1), ("deadline_ms", 1e300), ("deadline_ms", float("nan")), ("deadline_ms", float("inf")),
    ("deadline_ms", 1e13), ("deadline_ms", -1), ("deadline_ms", "2"), ("deadline_ms", 10**400), ("weight", float("nan")),
    ("weight", float("inf")), ("weight", 0), ("weight", -1), ("share", float("nan")), ("share", 1.5), ("share", -0.5),
    ("concurrency", 257), ("profile_runs", BIG)])
def test_numbers_that_do_not_fit_are_named(device, name, value):
    message = refused("invalid argument", device.load, adds(), **{name: value})
    assert f"{name} is {value!r}: it is a " in message and " from " in message


@pytest.mark.parametrize("name, value", [("workers", BIG + 1), ("worker_nice", BIG), ("worker_fifo", BIG + 1), ("spin_us", BIG),
                                         ("spin_us", -1), ("trace_events", BIG + 5), ("workers", 0.5)])
def test_numbers_of_a_device_that_do_not_fit_are_named(name, value):
    assert f"{name} is {value!r}: it is a whole number from " in refused("invalid argument", Device, **{name: value})


def test_cores_due_times_and_texts_that_do_not_fit_are_named(device):
    assert "cores[1] is 4294967296" in refused("invalid argument", Device, cores=[0, BIG])
    assert "core 0 is named twice" in refused("invalid argument", Device, cores=[0, 1, 0])
    assert "concurrency is 257: it is a whole number from 1 to 256" in refused("invalid argument", device.load, adds(), concurrency=257)
    assert device.load(adds(), concurrency=256).statistics()["done"] == 0
    model = device.load(adds())
    x = {"x": np.zeros((1, 4), np.float32)}
    for due in (1e13, 1e300, float("inf"), float("nan"), -1e13):
        for call in (model.run, model.run_async):
            assert f"due_ms is {due!r}" in refused("invalid argument", call, x, due_ms=due)
    for due in (9e12, 1e4, None):
        assert (model.run(x, due_ms=due)["y"] == 1).all()
    assert "zero byte" in refused("invalid argument", device.load, str(DIGITS_FILE) + "\0.other")


def test_handles_are_not_copied(device):
    model = device.load(adds())
    run = model.prepare({"x": np.zeros((1, 4), np.float32)})
    for one, hint in ((device, "any thread may use"), (model, "any thread may use"), (run, "Model.prepare()")):
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled") as failed:
                way(one)
            assert hint in str(failed.value)
    assert (run.sync()["y"] == 1).all()


def test_deadlines_and_the_newest_run(device):
    long = device.load(slow(), newest_wins=True, max_pending=1)
    x = {"x": np.ones((256, 1024), np.float32)}
    assert "due time" in refused("deadline exceeded", long.run, x, due_ms=1)
    running = long.run_async(x)
    while device.statistics()["under_way"] == 0:
        time.sleep(0.001)
    old = long.run_async(x)
    newest = long.run_async(x)
    with pytest.raises(local.Failed) as failed:
        old.result(30)
    assert failed.value.code == "superseded"
    assert running.result(60)["y"].shape == newest.result(60)["y"].shape


def test_a_late_run_says_what_ran_instead(device):
    long = device.load(slow(), name="long", max_pending=10)
    x = {"x": np.ones((256, 1024), np.float32)}
    long.run(x)
    running = [long.run_async(x) for _ in range(3)]
    late = long.prepare(x)
    assert "; runs that had the device meanwhile: " in refused("deadline exceeded", late.sync, due_ms=1)
    told = late.result()
    assert told["behind"] >= 1 and told["behind_model"] == "long" and told["behind_ns"] > 0 and told["stolen_ns"] >= 0
    for run in running:
        run.result(60)
    late.sync()
    assert late.result()["behind"] == 0 and late.result()["behind_model"] == ""


def test_urgent_runs_do_not_wait_for_others(device):
    long, urgent = device.load(slow()), device.load(adds(), job_class="real-time")
    run = urgent.prepare({"x": np.zeros((1, 4), np.float32)})
    busy = long.run_async({"x": np.ones((256, 1024), np.float32)})
    runs = 0
    while not busy.done():
        run.sync()
        runs += 1
    assert busy.result()["y"].shape == (256, 1024)
    assert runs >= 3


def test_bad_input_is_named(device, image):
    model = device.load(DIGITS_FILE)
    assert "'image' has dtype float64, the model takes float32: convert it with np.asarray(x).astype('float32')" in refused("invalid argument", model.run, {"image": image.astype(float)})
    assert "has 2 dimensions, the model takes [1,1,8,8]" in refused("invalid argument", model.run, {"image": image.reshape(1, 64)})
    assert "missing: ['image']" in refused("invalid argument", model.run, {"imag": image})
    assert "C-contiguous" in refused("invalid argument", model.run, {"image": image},
                                     outputs={"scores": np.empty((1, 20), np.float32)[:, ::2]})
    assert "[1,10]" in refused("invalid argument", model.run, {"image": image}, outputs={"scores": np.empty((2, 5), np.float32)})
    assert model.run({"image": image})["scores"].argmax() == 3
    assert "reset" in refused("not found", Device, scheduler="best")
    assert "'tpu'" in refused("invalid argument", Device, device="tpu")
    assert "concurrency" in refused("invalid argument", device.load, DIGITS_FILE, concurrency=10**6)
    refused("invalid argument", device.load, DIGITS_FILE, precision="fp7")
    refused("not found", device.load, "/nowhere.onnx")
    refused("not found", model.set, "color", "red")
    refused("not found", device.scheduler, "best")
    with pytest.raises(ValueError):
        device.load(DIGITS_FILE, job_class="urgent")
    for other in (None, 3, np.frombuffer(DIGITS_FILE.read_bytes(), np.uint8)[::2]):
        assert f"model is a {type(other).__name__}: it is a path, or the bytes" in refused("invalid argument", device.load, other)
    for rubbish in (b"", b"rubbish", DIGITS_FILE.read_bytes()[:1000]):
        with pytest.raises(local.Failed):
            device.load(rubbish)
    class OnAGpu:  # as arrays of CuPy, Numba and PyTorch say it
        __cuda_array_interface__ = {"shape": image.shape, "typestr": "<f4", "data": (4096, False), "version": 3}

    class OnAnother:
        def __dlpack_device__(self):
            return (2, 0)

    for other in (OnAGpu(), OnAnother()):
        assert "'image' lies in memory of another device" in refused("invalid argument", model.run, {"image": other})
        assert "'scores' lies in memory of another device" in refused("invalid argument", model.run, {"image": image},
                                                                      outputs={"scores": other})
    unaligned = np.frombuffer(b"\0" + image.tobytes(), np.uint8)[1:].view(np.float32).reshape(image.shape)
    np.testing.assert_array_equal(model.run({"image": unaligned})["scores"], model.run({"image": image})["scores"])


def test_strings(device):
    same = model_of([helper.make_node("Identity", ["x"], ["y"])], [helper.make_tensor_value_info("x", TensorProto.STRING, [2])],
                    [helper.make_tensor_value_info("y", TensorProto.STRING, [2])])
    try:
        model = device.load(same)
    except local.Failed as failed:
        assert failed.code == "unimplemented"
        return
    assert model.run({"x": np.array(["", "Grüße"])})["y"].tolist() == [b"", "Grüße".encode()]
    assert "output 'y' has strings" in refused("invalid argument", model.run, {"x": np.array(["a", "b"])},
                                               outputs={"y": np.array(["", ""], object)})
    assert "element None" in refused("invalid argument", model.run, {"x": np.array(["a", None])})
    assert "surrogates" in refused("invalid argument", model.run, {"x": ["a", "\ud800"]})
    assert "has dtype int64, the model takes strings" in refused("invalid argument", model.run, {"x": np.zeros(2, np.int64)})


def test_models_are_made_and_dropped_on_many_threads(device, image):
    wrong = []

    def work():
        for _ in range(5):
            model = device.load(DIGITS_FILE, job_class="real-time")
            if model.run({"image": image})["scores"].argmax() != 3:
                wrong.append(1)
            future = model.run_async({"image": image})
            if future.result(30)["scores"].argmax() != 3:
                wrong.append(2)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert wrong == []


def test_a_dropped_model_is_freed_at_once(device, tmp_path):
    """Without a collection: no object that is left refers in a circle to the model and its runs."""
    x = {"x": np.zeros((1, 4), np.float32)}
    gc.collect()
    gc.disable()
    try:
        model = device.load(adds())
        for _ in range(3):
            assert (model.run(x)["y"] == 1).all()
        assert (model.run_async(x).result(30)["y"] == 1).all()
        try:
            model.run(x, due_ms=-1)
            raise AssertionError("the run is not late")
        except local.Failed as failed:  # not refused(), whose frame and error refer to each other
            assert failed.code == "deadline exceeded"
        assert model.run_async(x, due_ms=-1).exception(30).code == "deadline exceeded"
        prepared = model.prepare(x)
        assert device.statistics()["done"] == 4
        gone = weakref.ref(model)
        del model
        assert gone() is prepared.model and (prepared.sync()["y"] == 1).all()
        del prepared
        for _ in range(1000):  # the thread of the futures may still hold the last one
            if gone() is None:
                break
            time.sleep(0.01)
        assert gone() is None and len(device._children) == 0
        assert device.statistics()["done"] == 0, "the library has the model still"
    finally:
        gc.enable()


def test_a_model_in_a_circle_of_the_caller_is_collected(device):
    model = device.load(adds())
    assert (model.run({"x": np.zeros((1, 4), np.float32)})["y"] == 1).all()
    model.own = model
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None and device.statistics()["done"] == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda raw: np.frombuffer(raw, np.uint8)])
def test_bytes_of_a_model_come_in_any_buffer(device, kind):
    assert (device.load(kind(adds())).run({"x": np.zeros((1, 4), np.float32)})["y"] == 1).all()


def test_weights_behind_links_of_a_cache(device, tmp_path):
    """As Hugging Face keeps a model: both files are links to files in blobs/, which have other names."""
    weights = np.arange(4, dtype=np.float32)
    model = onnx.load_from_string(model_of([helper.make_node("Add", ["x", "w"], ["y"])], [floats("x", [4])], [floats("y", [4])],
                                           [("w", weights)]))
    onnx.save_model(model, str(tmp_path / "model.onnx"), save_as_external_data=True, location="model.onnx_data", size_threshold=0)
    (tmp_path / "blobs").mkdir()
    snapshot = tmp_path / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    for number, name in enumerate(("model.onnx", "model.onnx_data")):
        (tmp_path / name).rename(tmp_path / "blobs" / f"blob{number}")
        (snapshot / name).symlink_to(f"../../blobs/blob{number}")
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(device.load(snapshot / "model.onnx").run({"x": x})["y"], x + weights)
    np.testing.assert_array_equal(run_onnxruntime(snapshot / "model.onnx", {"x": x})["y"], x + weights)
    (snapshot / "model.onnx_data").unlink()
    (snapshot / "model.onnx_data").symlink_to("/etc/passwd")
    assert "leaves the model's folder" in refused("invalid argument", device.load, snapshot / "model.onnx")


def test_a_trace(device, image, tmp_path):
    model = device.load(DIGITS_FILE, name="traced-digits")
    model.run({"image": image})
    device.trace(tmp_path / "trace.json")
    assert "traced-digits" in json.dumps(json.loads((tmp_path / "trace.json").read_text()))


def test_what_is_closed_says_so(device, image):
    model = device.load(DIGITS_FILE)
    run = model.prepare({"image": image})
    model.close()
    refused("unavailable", run.sync)
    refused("unavailable", model.run, {"image": image})
    device.close()
    device.close()
    refused("unavailable", device.load, DIGITS_FILE)


# In a process of its own, as a fault would end the tests.
CLOSES = """
import faulthandler, sys, threading, time
import numpy as np
faulthandler.dump_traceback_later(100, exit=True)
sys.path.insert(0, {python!r})
from lagoon import local
x = {{"x": np.ones((64, 1024), np.float32)}}
model_bytes = open({model!r}, "rb").read()
what, how = sys.argv[1:3]
ends = set()
for turn in range(int(sys.argv[3])):
    device = local.Device(workers=2)
    model = device.load(model_bytes, max_pending=100)
    shared = model.prepare(x)
    def waits():
        while True:
            model.run(x)
    def futures():
        while True:
            model.run_async(x).result(60)
    def prepares():
        run = model.prepare(x)
        while True:
            run.sync()
    def starts():
        run = model.prepare(x)
        while True:
            run.start().result(60)
    def loads():
        while True:
            device.load(model_bytes).statistics()
    def closes():
        run = model.prepare(x)
        run.start().add_done_callback(lambda _: (model if what == "model" else device).close())
        while True:
            run.cancel()
            run.result()
            time.sleep(0.001)
    def until_closed(work):
        try:
            work()
        except local.Failed as failed:
            ends.add(failed.code)
        except BaseException as failed:
            ends.add(repr(failed))
    works = [waits, waits, futures, futures, prepares, starts, loads, closes][:7 if how == "thread" else 8]
    if what == "model":
        works.remove(loads)
    threads = [threading.Thread(target=until_closed, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    time.sleep(0.0005 * (turn % 20))
    {{"model": model, "device": device}}[what].close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    try:
        shared.sync()
    except local.Failed as failed:
        assert failed.code == "unavailable"
    if how == "thread":
        device.close()
        assert device._handle is None and model._handle is None and shared._handle is None
        assert not any(thread.name == "lagoon-futures" for thread in threading.enumerate())
assert ends <= {{"cancelled", "unavailable"}}, ends
print("held", sorted(ends))
"""


@pytest.mark.parametrize("what", ["model", "device"])
@pytest.mark.parametrize("how", ["thread", "callback"])
def test_closing_while_other_threads_run(what, how, tmp_path):
    nodes = [helper.make_node("Sin", ["x" if i == 0 else f"v{i - 1}"], ["y" if i == 9 else f"v{i}"]) for i in range(10)]
    (tmp_path / "m.onnx").write_bytes(model_of(nodes, [floats("x", [64, 1024])], [floats("y", [64, 1024])]))
    program = CLOSES.format(python=str(ROOT / "python"), model=str(tmp_path / "m.onnx"))
    done = subprocess.run([sys.executable, "-c", program, what, how, os.environ.get("LAGOON_TEST_ROUNDS", "25")],
                          capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("held [") and "cancelled" in done.stdout, done.stdout


PROGRAM = """
import os, sys, threading
import numpy as np
sys.path.insert(0, {python!r})
from lagoon import local
device = local.Device(workers=2)
model = device.load({model!r}, max_pending=1000)
image = np.zeros((1, 1, 8, 8), np.float32)
model.run({{"image": image}})
how = sys.argv[1]
if how == "fork":
    if os.fork() == 0:
        try:
            model.run({{"image": image}})
        except local.Failed as failed:
            os._exit(7 if failed.code == "unavailable" and "forked" in str(failed) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
    model.run({{"image": image}})
elif how == "exit":
    futures = [model.run_async({{"image": image}}) for _ in range(500)]
    sys.exit(3)
elif how == "quit":
    futures = [model.run_async({{"image": image}}) for _ in range(500)]
    os._exit(3)
"""


@pytest.mark.parametrize("how, code", [("fork", 0), ("exit", 3), ("quit", 3)])
def test_processes_that_fork_or_end_meanwhile(how, code):
    program = PROGRAM.format(python=str(ROOT / "python"), model=str(DIGITS_FILE))
    done = subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert done.stderr == ""


def test_the_library_exports_its_interface_only():
    symbols = subprocess.run(["nm", "-D", "--defined-only", local.library_path()], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].partition("@")[0] for line in symbols.splitlines()}
    header = (ROOT / "include" / "lagoon" / "lagoon.h").read_text()
    assert {name for name in names if name != "LAGOON_1"} == {name for name in names if f" {name}(" in header or f"*{name}(" in header}
    assert names >= set(liblagoon.PROTOTYPES)
