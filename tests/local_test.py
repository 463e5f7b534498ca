"""Models inside this process: lagoon.local over liblagoon.so, beside ONNX Runtime's answers, with bad input, many threads, a
fork and an exit while runs are under way."""

import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import DIGITS, ROOT, TOLERANCE, relative_error, run_onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(ROOT / "python"))
from lagoon import Device, local  # noqa: E402

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
    assert "'image' has type FP64, the model takes FP32" in refused("invalid argument", model.run, {"image": image.astype(float)})
    assert "[1,64]" in refused("invalid argument", model.run, {"image": image.reshape(1, 64)})
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
    assert names >= set(local._PROTOTYPES)
