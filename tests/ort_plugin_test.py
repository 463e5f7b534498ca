"""The plug-in for ONNX Runtime. Every test is a process of its own, so that one that ends badly is seen as such."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
from conftest import DIGITS, ROOT

LIBRARY = os.environ.get("LAGOON_ORT_LIBRARY", "")
pytestmark = pytest.mark.skipif(not LIBRARY, reason="LAGOON_ORT_LIBRARY names no plug-in: it is built without sanitizers")

# What the programs below share.
COMMON = """
import ctypes, os, sys, threading, time
import numpy as np
import onnx, onnxruntime as ort
from onnx import TensorProto as T, helper as h, numpy_helper as nh
import lagoon_ort
ort.set_default_logger_severity(3)
RANDOM = np.random.default_rng(33)

def runs():
    totals = (ctypes.c_uint64 * 3)()
    ctypes.CDLL(lagoon_ort.library_path()).LagoonOrtTotals(totals)
    return totals[0]

def model(nodes, inputs, outputs, weights=None):
    info = lambda named: [h.make_tensor_value_info(name, *of) for name, of in named.items()]
    graph = h.make_graph(nodes, "g", info(inputs), info(outputs), [nh.from_array(v, k) for k, v in (weights or {}).items()])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString()

def weight(*shape):
    return (RANDOM.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

def mlp(layers=4, size=64, rows=1):
    nodes, weights, value = [], {}, "x"
    for i in range(layers):
        weights[f"w{i}"] = weight(size, size)
        nodes += [h.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]), h.make_node("Relu", [f"m{i}"], [f"r{i}"])]
        value = f"r{i}"
    return model(nodes, {"x": (T.FLOAT, [rows, size])}, {value: (T.FLOAT, [rows, size])}, weights)

def add():
    return model([h.make_node("Add", ["x", "y"], ["z"])], {"x": (T.FLOAT, ["n"]), "y": (T.FLOAT, ["n"])}, {"z": (T.FLOAT, ["n"])})

def lagoon(bytes_, **settings):
    return lagoon_ort.session(bytes_, settings)

def cpu(bytes_):
    return ort.InferenceSession(bytes_, providers=["CPUExecutionProvider"])

def agree(bytes_, feeds, expected_runs=1, **settings):
    own, other = lagoon(bytes_, **settings), cpu(bytes_)
    for feed in feeds:
        before = runs()
        got, want = own.run(None, feed), other.run(None, feed)
        assert expected_runs is None or runs() - before == expected_runs, (runs() - before, expected_runs)
        for a, b in zip(got, want):
            assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    return own

def fails(part, call):
    try:
        call()
    except Exception as error:
        assert part in str(error), error
        return
    raise AssertionError(f"no error, wanted: {part}")

ONES = np.ones((1, 64), np.float32)
"""


def child(code, library=None, expected=0, timeout=120, python=sys.executable, **environment):
    """Runs a program with the plug-in. Returns what it printed."""
    done = subprocess.run(
        [python, "-c", COMMON + textwrap.dedent(code)], capture_output=True, text=True, timeout=timeout, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python" / "ort"), "LAGOON_ORT_LIBRARY": str(library or LIBRARY),
             **environment})
    assert done.returncode == expected, f"{done.returncode}: {done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_a_whole_model_runs_and_agrees():
    child(f"""
        path = {str(DIGITS / "1" / "model.onnx")!r}
        bytes_ = open(path, "rb").read()
        name = cpu(bytes_).get_inputs()[0]
        shape = [d if isinstance(d, int) else 1 for d in name.shape]
        session = agree(bytes_, [{{name.name: RANDOM.standard_normal(shape).astype(np.float32)}} for _ in range(3)])
        assert session.get_providers()[0] == lagoon_ort.ep_name()
        agree(mlp(), [{{"x": ONES}}], **{{"class": "real-time"}})
    """)


def test_open_dims_take_any_size():
    child("""
        agree(add(), [{"x": np.arange(n, dtype=np.float32), "y": np.ones(n, np.float32)} for n in (1, 7, 4096, 7, 0, 3)])
    """)


def test_shapes_that_change_at_each_run_agree_and_cause_one_warning():
    printed = child("""
        import os; os.dup2(1, 2)
        # Two layers over a sequence of any length, of which the rows of a table depend on the length.
        weights = {"table": weight(512, 32), "zero": np.array([0]), "axis": np.array([1]), "w": weight(32, 32)}
        nodes = [h.make_node("Shape", ["x"], ["shape"]), h.make_node("Slice", ["shape", "axis", "two"], ["length"]),
                 h.make_node("Slice", ["table", "zero", "length", "zero"], ["rows"]), h.make_node("Add", ["x", "rows"], ["a"]),
                 h.make_node("MatMul", ["a", "w"], ["b"]), h.make_node("Transpose", ["b"], ["t"], perm=[0, 2, 1]),
                 h.make_node("MatMul", ["b", "t"], ["scores"]), h.make_node("Softmax", ["scores"], ["s"], axis=-1),
                 h.make_node("MatMul", ["s", "b"], ["y"])]
        bytes_ = model(nodes, {"x": (T.FLOAT, [1, "n", 32])}, {"y": (T.FLOAT, [1, "n", 32])}, {**weights, "two": np.array([2])})
        feeds = [{"x": RANDOM.standard_normal((1, n, 32)).astype(np.float32)} for n in RANDOM.permutation(np.arange(1, 257))]
        ort.set_default_logger_severity(2)
        session = agree(bytes_, feeds)
        for feed in feeds:
            session.run(None, feed)
    """)
    assert printed.count("8 runs one after the other each had new shapes") == 1, printed


def test_outputs_of_unknown_size_and_contents_that_decide_shapes():
    child("""
        nonzero = model([h.make_node("NonZero", ["x"], ["y"])], {"x": (T.FLOAT, [3, 5])}, {"y": (T.INT64, [2, "k"])})
        some = (RANDOM.random((3, 5)) > 0.5).astype(np.float32)
        agree(nonzero, [{"x": some}, {"x": np.zeros((3, 5), np.float32)}, {"x": np.ones((3, 5), np.float32)}])
        reshape = model([h.make_node("Reshape", ["x", "s"], ["r"]), h.make_node("Neg", ["r"], ["y"])],
                        {"x": (T.FLOAT, [4, 6]), "s": (T.INT64, [2])}, {"y": (T.FLOAT, ["a", "b"])})
        x = RANDOM.random((4, 6)).astype(np.float32)
        agree(reshape, [{"x": x, "s": np.array(s)} for s in ([3, 8], [-1, 2], [24, 1], [3, 8])])
        own = lagoon(reshape)
        fails("lagoon: ", lambda: own.run(None, {"x": x, "s": np.array([5, 5])}))
        own.run(None, {"x": x, "s": np.array([12, 2])})
    """)


PARTS = """
def steps(value, to):
    names = [value] + [f"{to}{i}" for i in range(3)] + [to]
    ops = ["Relu", "Sigmoid", "Tanh", "Neg"]
    return [h.make_node(op, [a], [b]) for op, a, b in zip(ops, names, names[1:])]
# Lagoon has no MaxRoiPool.
pool = h.make_node("MaxRoiPool", ["a", "rois"], ["b"], pooled_shape=[4, 4])
parts = model(steps("x", "a") + [pool] + steps("b", "y"), {"x": (T.FLOAT, [1, 2, 4, 4])}, {"y": (T.FLOAT, [1, 2, 4, 4])},
              {"rois": np.array([[0, 0, 0, 3, 3]], np.float32)})
feeds = [{"x": RANDOM.standard_normal((1, 2, 4, 4)).astype(np.float32)} for _ in range(3)]
"""


def test_what_lagoon_lacks_stays_with_onnx_runtime():
    child(PARTS + textwrap.dedent("""
        agree(parts, feeds, expected_runs=2, min_us=0)
        agree(parts, feeds, expected_runs=0, min_us=0, partition=0)
        agree(parts, feeds, expected_runs=1, min_us=0, max_parts=1)
        agree(parts, feeds, expected_runs=0, min_us=0, min_nodes=5)
        # A path that leaves Lagoon and comes back beside one that does not.
        around = model(steps("x", "a") + [pool, h.make_node("Add", ["a", "b"], ["c"])] + steps("c", "y"),
                       {"x": (T.FLOAT, [1, 2, 4, 4])}, {"y": (T.FLOAT, [1, 2, 4, 4])},
                       {"rois": np.array([[0, 0, 0, 3, 3]], np.float32)})
        agree(around, feeds, expected_runs=2, min_us=0)
    """))


@pytest.mark.parametrize("code, warns", [("lagoon_ort.session(parts, {'min_us': 0})", False), ("lagoon_ort.session(mlp(), None, spins)", False),
                                         ("lagoon_ort.session(parts, None, spins)", True)])
def test_threads_of_onnx_runtime_that_spin_beside_lagoon_cause_a_warning(code, warns):
    printed = child("import os; os.dup2(1, 2)\n" + PARTS + textwrap.dedent(f"""
        ort.set_default_logger_severity(2)
        spins = lagoon_ort.options({{"min_us": 0}})
        spins.add_session_config_entry("session.intra_op.allow_spinning", "1")
        {code}
    """))
    assert ("session.intra_op.allow_spinning to 0" in printed) == warns, printed


def test_parts_too_short_to_pay_for_themselves_stay_with_onnx_runtime():
    child(PARTS + textwrap.dedent("""
        agree(parts, feeds, expected_runs=0)
        # A single node that computes for long goes to Lagoon, and the short ones behind the pool do not.
        long = model([h.make_node("MatMul", ["x", "w"], ["a"]), pool] + steps("b", "y"), {"x": (T.FLOAT, [1, 2, 64, 1024])},
                     {"y": (T.FLOAT, [1, 2, 4, 4])}, {"w": weight(1024, 256), "rois": np.array([[0, 0, 0, 3, 3]], np.float32)})
        agree(long, [{"x": RANDOM.standard_normal((1, 2, 64, 1024)).astype(np.float32)}], expected_runs=1)
        agree(long, [{"x": RANDOM.standard_normal((1, 2, 64, 1024)).astype(np.float32)}], expected_runs=0, min_us=1000000)
    """))


def test_options_that_do_not_exist_and_bad_values_are_errors():
    child("""
        fails("there is no option 'clas'; the options are class, deadline_us", lambda: lagoon(mlp(), clas="real-time"))
        fails("option 'class' is 'urgent', but takes real-time or best-effort", lambda: lagoon(mlp(), **{"class": "urgent"}))
        fails("option 'deadline_us' is '1ms'", lambda: lagoon(mlp(), deadline_us="1ms"))
        fails("scheduler", lambda: lagoon(mlp(), scheduler="nonsense"))
        fails("option 'cores' is '1-0', but takes cores, such as 0-3,6", lambda: lagoon(mlp(), cores="1-0"))
        fails("this process may not use core 1000", lambda: lagoon(mlp(), cores="1000"))
        fails("option 'worker_nice' is 'low', but takes a whole number from -39 to 39", lambda: lagoon(mlp(), worker_nice="low"))
        fails("option 'worker_fifo' is '100'", lambda: lagoon(mlp(), worker_fifo="100"))
        session = lagoon(mlp(), workers=1)
        fails("option 'workers' is '2', but the first session of this process has decided '1'", lambda: lagoon(mlp(), workers=2))
        fails("there is no dynamic option 'lagoon.clas'", lambda: session.set_ep_dynamic_options({"lagoon.clas": "x"}))
        fails("takes real-time or best-effort", lambda: session.set_ep_dynamic_options({"lagoon.class": "x"}))
        run = ort.RunOptions()
        run.add_run_config_entry("lagoon.deadline_us", "soon")
        fails("option 'lagoon.deadline_us' is 'soon'", lambda: session.run(None, {"x": ONES}, run))
        options = lagoon_ort.options()
        options.add_session_config_entry("ep.context_enable", "1")
        fails("ep.context_enable", lambda: ort.InferenceSession(mlp(), options, enable_fallback=False))
        before = runs()
        session.run(None, {"x": ONES})
        assert runs() == before + 1
    """)


def test_a_session_without_lagoon_is_no_silent_one():
    child("""
        import warnings
        fails("there is no option 'clas'", lambda: lagoon_ort.session(mlp(), {"clas": 1}))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            session = lagoon_ort.session(mlp(), {"clas": 1}, enable_fallback=True)
            assert lagoon_ort.ep_name() not in session.get_providers()
            assert "runs without LagoonExecutionProvider" in str(seen[-1].message), seen
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lagoon_ort.session(mlp(), sess_options=lagoon_ort.options({"class": "real-time"})).run(None, {"x": ONES})
        fails("not both", lambda: lagoon_ort.session(mlp(), {}, lagoon_ort.options()))
        assert runs() == 1
    """)


def test_weights_are_in_memory_once():
    child("""
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        bytes_, x = mlp(12, 1024), np.ones((1, 1024), np.float32)
        lagoon_ort.session(mlp()).run(None, {"x": ONES})  # what the first session takes
        before = resident()
        session = lagoon_ort.session(bytes_)
        session.run(None, {"x": x})
        until = time.monotonic() + 20
        while (taken := resident() - before) > 1.5 * 48 and time.monotonic() < until:
            time.sleep(0.05)  # freed memory goes back on another thread
        assert taken < 1.5 * 48, f"{taken:.0f} MiB for weights of 48 MiB"
        again = lagoon_ort.session(bytes_, {"class": "real-time"})
        again.run(None, {"x": x})
        until = time.monotonic() + 20
        while (taken := resident() - before) > 1.8 * 48 and time.monotonic() < until:
            time.sleep(0.05)
        assert taken < 1.8 * 48, f"{taken:.0f} MiB for two sessions with the same weights of 48 MiB"
        del session
        np.testing.assert_array_equal(again.run(None, {"x": x})[0], (session := lagoon_ort.session(bytes_)).run(None, {"x": x})[0])
        np.testing.assert_allclose(session.run(None, {"x": x})[0], cpu(bytes_).run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
    """)


def test_open_shapes_take_weights_that_are_read_again():
    child("""
        bytes_ = mlp(3, 512, "n")
        agree(bytes_, [{"x": RANDOM.standard_normal((n, 512)).astype(np.float32)} for n in (1, 40, 3, 300, 1)])
    """)


def test_a_profile_leaves_to_onnx_runtime_what_it_computes_faster():
    child(PARTS + textwrap.dedent("""
        def right(bytes_, feed, **settings):
            before = runs()
            session = lagoon_ort.session(bytes_, {"profile": 5, **settings})
            assert runs() > before, "both are tried"
            for a, b in zip(session.run(None, feed), cpu(bytes_).run(None, feed)):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        right(mlp(), {"x": ONES})
        right(mlp(4, 64, "n"), {"x": np.ones((7, 64), np.float32)})
        right(parts, feeds[0], min_us=0)
    """))


def test_tensors_of_wrong_type_shape_alignment_and_device():
    child("""
        session = lagoon(add())
        def feed(x):
            return lambda: session.run(None, {"x": x, "y": np.ones(4, np.float32)})
        fails("nexpected input data type", feed(np.ones(4, np.float64)))
        fails("nvalid rank", feed(np.ones((2, 2), np.float32)))
        fails("lagoon: ", feed(np.ones(3, np.float32)))  # the dims have one name
        # An address between two elements: it is copied.
        bytes_ = np.zeros(4 * 4 + 1, np.uint8)
        odd = bytes_[1:].view(np.float32)
        odd[:] = [1, 2, 3, 4]
        bound = session.io_binding()
        bound.bind_input("x", "cpu", 0, np.float32, [4], odd.ctypes.data)
        bound.bind_cpu_input("y", np.ones(4, np.float32))
        bound.bind_output("z")
        session.run_with_iobinding(bound)
        assert bound.copy_outputs_to_cpu()[0].tolist() == [2, 3, 4, 5]
        # ONNX Runtime copies tensors of other devices before Lagoon sees them, or cannot.
        fails("data transfer", lambda: session.io_binding().bind_input("x", "cuda", 0, np.float32, [4], odd.ctypes.data))
        assert feed(np.ones(4, np.float32))()[0].tolist() == [2, 2, 2, 2]
    """)


@pytest.mark.skipif("LAGOON_LIBRARY" not in os.environ, reason="LAGOON_LIBRARY names no library")
def test_liblagoon_and_the_plug_in_in_one_process():
    child(f"""
        sys.path.insert(0, {str(ROOT / "python")!r})
        from lagoon.local import Device
        device = Device(workers=1)
        bytes_ = mlp()
        wanted = cpu(bytes_).run(None, {{"x": ONES}})[0]
        own, other = device.load(bytes_), lagoon_ort.session(bytes_)
        for _ in range(20):
            np.testing.assert_allclose(next(iter(own.run({{"x": ONES}}).values())), wanted, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(other.run(None, {{"x": ONES}})[0], wanted, rtol=1e-4, atol=1e-5)
        assert runs() == 20 and device.statistics()["done"] == 20
        own.close()
        device.close()
        other.run(None, {{"x": ONES}})
    """)


def test_why_a_run_was_late_is_in_the_error():
    child("""
        heavy = mlp(12, 1024, 512)
        x = np.ones((512, 1024), np.float32)
        session = lagoon_ort.session(heavy, {"class": "real-time"})
        session.run(None, {"x": x})
        threading.Thread(target=lambda: [session.run(None, {"x": x}) for _ in range(5)]).start()
        while runs() < 2:
            time.sleep(0.001)
        late, texts = ort.RunOptions(), []
        late.add_run_config_entry("lagoon.deadline_us", "2000")
        for _ in range(3):
            try:
                session.run(None, {"x": x}, late)
            except Exception as error:
                texts.append(str(error))
        assert any("; runs that had the device meanwhile: 1, the longest of 'g'" in text for text in texts), texts
    """)


def test_errors_name_the_model_by_its_file(tmp_path):
    child(f"""
        path = {str(tmp_path / "detector.onnx")!r}
        open(path, "wb").write(mlp(12, 1024, 512))
        late = ort.RunOptions()
        late.add_run_config_entry("lagoon.deadline_us", "1")
        feed = {{"x": np.ones((512, 1024), np.float32)}}
        fails("model 'detector'", lambda: lagoon_ort.session(path).run(None, feed, late))
    """)


def test_workers_keep_to_their_cores_and_priority():
    child("""
        def workers():
            for thread in os.listdir("/proc/self/task"):
                name = open(f"/proc/self/task/{thread}/comm").read().strip()
                if name.startswith("lagoon-") or name.startswith("cpu-"):
                    yield int(thread), name
        mine = sorted(os.sched_getaffinity(0))
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        session = lagoon(mlp(), cores=str(mine[-1]), worker_nice=3)
        session.run(None, {"x": ONES})
        found = [t for t, _ in workers()]
        assert found, os.listdir("/proc/self/task")
        for thread in found:
            assert os.sched_getaffinity(thread) == {mine[-1]}, (thread, os.sched_getaffinity(thread))
        assert any(os.getpriority(os.PRIO_PROCESS, t) == min(nice + 3, 19) for t in found)
        assert sorted(os.sched_getaffinity(0)) == mine and os.getpriority(os.PRIO_PROCESS, 0) == nice
        fails("'worker_nice' is '4', but the first session of this process has decided '3'", lambda: lagoon(mlp(), worker_nice=4))
    """)


def test_the_environment_gives_defaults():
    child("""
        fails("LAGOON_ORT_WORKERS", lambda: lagoon(mlp()))
    """, LAGOON_ORT_WORKERS="many")
    child("""
        lagoon(mlp())
        fails("the first session of this process has decided '1'", lambda: lagoon(mlp(), workers=2))
    """, LAGOON_ORT_WORKERS="1")


def test_deadlines_classes_and_cancels_come_with_the_run():
    child("""
        heavy = mlp(12, 1024, 512)
        x = np.ones((512, 1024), np.float32)
        # Without disable_fallback(): an error must not make the session anew without Lagoon.
        session = ort.InferenceSession(heavy, lagoon_ort.options())
        session.run(None, {"x": x})
        late = ort.RunOptions()
        late.add_run_config_entry("lagoon.deadline_us", "1")
        for _ in range(3):
            fails("lagoon: deadline exceeded", lambda: session.run(None, {"x": x}, late))
        before = runs()
        session.run(None, {"x": x})
        assert runs() == before + 1 and session.get_providers()[0] == lagoon_ort.ep_name()
        tagged = ort.RunOptions()
        tagged.add_run_config_entry("lagoon.tag", "camera")
        errors = []
        def go():
            try:
                for _ in range(100):
                    session.run(None, {"x": x}, tagged)
            except Exception as error:
                errors.append(str(error))
        thread = threading.Thread(target=go)
        thread.start()
        while thread.is_alive():
            session.set_ep_dynamic_options({"lagoon.cancel": "camera"})
            time.sleep(0.001)
        assert "lagoon: cancelled" in errors[0], errors
        session.set_ep_dynamic_options({"ep.dynamic.workload_type": "Default", "lagoon.weight": "2"})
        fails("lagoon: invalid argument: option 'ep.dynamic.workload_type' is 'real-time', but takes Default (real-time) or",
              lambda: session.set_ep_dynamic_options({"ep.dynamic.workload_type": "real-time"}))
        fails("option 'lagoon.class' is 'Default', but takes real-time or best-effort",
              lambda: session.set_ep_dynamic_options({"lagoon.class": "Default"}))
        session.set_ep_dynamic_options({"lagoon.scheduler": "edf"})
        session.run(None, {"x": x})
    """)


def test_registering_again_and_again():
    child("""
        for i in range(3):
            ort.register_execution_provider_library(f"lagoon{i}", lagoon_ort.library_path())
            devices = [d for d in ort.get_ep_devices() if d.ep_name == lagoon_ort.ep_name()]
            assert len(devices) == 1
            options = ort.SessionOptions()
            options.add_provider_for_devices(devices, {})
            session = ort.InferenceSession(mlp(), options)
            session.run(None, {"x": ONES})
            del session, options, devices
            ort.unregister_execution_provider_library(f"lagoon{i}")
        assert runs() == 3
        assert not [d for d in ort.get_ep_devices() if d.ep_name == lagoon_ort.ep_name()]
    """)


def test_two_copies_in_one_process(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in ("liblagoon_ort.so", "liblagoon_ort_core.so"):
        shutil.copy(pathlib.Path(LIBRARY).parent / name, other)
    child(f"""
        first = lagoon(mlp())
        ort.register_execution_provider_library("other", {str(other / "liblagoon_ort.so")!r})
        devices = [d for d in ort.get_ep_devices() if d.ep_name == lagoon_ort.ep_name()]
        assert len(devices) == 2, devices
        options = ort.SessionOptions()
        options.add_provider_for_devices(devices[1:], {{"class": "real-time"}})
        second = ort.InferenceSession(mlp(), options)
        totals = (ctypes.c_uint64 * 3)()
        copy = ctypes.CDLL({str(other / "liblagoon_ort.so")!r})
        for _ in range(20):
            first.run(None, {{"x": ONES}})
            second.run(None, {{"x": ONES}})
        copy.LagoonOrtTotals(totals)
        assert (runs(), totals[0]) == (20, 20), (runs(), totals[0])
    """)


def test_without_its_core_the_library_says_so(tmp_path):
    shutil.copy(LIBRARY, tmp_path)
    child("""
        fails("lagoon: cannot load liblagoon_ort_core.so", lambda: lagoon(mlp()))
        cpu(mlp()).run(None, {"x": ONES})
    """, library=tmp_path / "liblagoon_ort.so")


def test_a_program_with_another_protobuf(tmp_path):
    """Global symbols of the program do not replace those that the plug-in's libraries use."""
    (tmp_path / "other.c").write_text("""
#include <stdlib.h>
void* _ZTVN6google8protobuf11MessageLiteE[20];
void _ZN6google8protobuf11MessageLite15ParseFromStringERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(void) { abort(); }
void _ZNK6google8protobuf11MessageLite17SerializeToStringEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(void) { abort(); }
void _ZN6google8protobuf8internal14ArenaStringPtr3SetENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPNS0_5ArenaE(void) { abort(); }
void _ZN6google8protobuf8internal14ArenaStringPtr7MutableEPNS0_5ArenaE(void) { abort(); }
void _ZN6google8protobuf8internal18RepeatedPtrFieldBase20AddOutOfLineHelperEPv(void) { abort(); }
""")
    other = tmp_path / "other.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", other, tmp_path / "other.c"], check=True)
    child("agree(mlp(), [{'x': ONES}])", LD_PRELOAD=str(other))


def test_sessions_made_and_dropped_on_many_threads():
    child("""
        bytes_ = [mlp(2, 32 + 16 * i) for i in range(3)]
        wanted = [cpu(b).run(None, {"x": np.ones((1, 32 + 16 * i), np.float32)})[0] for i, b in enumerate(bytes_)]
        # A real-time session stays throughout.
        stays = lagoon(mlp(), **{"class": "real-time"})
        stays.run(None, {"x": ONES})
        wrong = []
        def go(i):
            x = np.ones((1, 32 + 16 * i), np.float32)
            for k in range(12):
                session = lagoon(bytes_[i], **{"class": "real-time" if k % 2 else "best-effort"})
                for _ in range(5):
                    if not np.allclose(session.run(None, {"x": x})[0], wanted[i], rtol=1e-4, atol=1e-5):
                        wrong.append(i)
        threads = [threading.Thread(target=go, args=(t % 3,)) for t in range(6)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not wrong and runs() == 6 * 12 * 5 + 1, (wrong, runs())
    """, timeout=300)


def test_one_session_on_many_threads():
    child("""
        session = lagoon(mlp(), concurrency=2)
        want = session.run(None, {"x": ONES})[0]
        wrong = []
        def go():
            for _ in range(200):
                if not np.array_equal(session.run(None, {"x": ONES})[0], want):
                    wrong.append(1)
        threads = [threading.Thread(target=go) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not wrong and runs() == 801
    """)


def test_a_session_takes_runs_of_more_threads_than_a_server_would():
    child("""
        session = lagoon(mlp(8, 256, 64), concurrency=1)
        x, wrong, start = np.ones((64, 256), np.float32), [], threading.Barrier(200)
        def go():
            start.wait()
            for _ in range(3):
                try:
                    session.run(None, {"x": x})
                except Exception as error:
                    wrong.append(error)
        threads = [threading.Thread(target=go) for _ in range(200)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not wrong and runs() == 600, (len(wrong), wrong[:1])
    """)


# A model's nodes may leave outputs out, and their bodies may read what nothing else reads. ONNX Runtime before 1.27 hands
# over such nodes in other ways than later ones.
def test_outputs_that_are_left_out_and_values_that_only_bodies_read():
    child("""
        unique = model([h.make_node("Unique", ["x"], ["y", "", "at"], sorted=1)], {"x": (T.FLOAT, [6])},
                       {"y": (T.FLOAT, ["n"]), "at": (T.INT64, [6])})
        x = np.array([3, 1, 3, 2, 1, 1], np.float32)
        agree(unique, [{"x": x}], expected_runs=None)
        branch = lambda op: h.make_graph([h.make_node(op, ["x", "w"], ["t"])], op, [],
                                         [h.make_tensor_value_info("t", T.FLOAT, [6])])
        both = model([h.make_node("If", ["c"], ["y"], then_branch=branch("Add"), else_branch=branch("Mul"))],
                     {"c": (T.BOOL, []), "x": (T.FLOAT, [6])}, {"y": (T.FLOAT, [6])}, {"w": weight(6)})
        agree(both, [{"c": np.array(c), "x": x} for c in (True, False)], expected_runs=None)
    """)


def test_parallel_sessions_and_run_async():
    child("""
        options = lagoon_ort.options()
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 2
        session = ort.InferenceSession(mlp(), options)
        session.run(None, {"x": ONES})
        options = lagoon_ort.options()
        options.intra_op_num_threads = 2
        other = ort.InferenceSession(mlp(), options)
        done, got = threading.Event(), []
        other.run_async(None, {"x": ONES}, lambda results, data, error: (got.append((results, error)), done.set()), None)
        assert done.wait(30)
        assert got[0][1] == "" and runs() == 2, got
    """)


def test_a_forked_child_gets_errors_and_its_parent_goes_on():
    # The child ends by _exit(): exit() hangs in ONNX Runtime 1.31.1, with its own CPU provider too.
    child("""
        session = lagoon(mlp())
        session.run(None, {"x": ONES})
        pid = os.fork()
        if pid == 0:
            try:
                fails("'spawn'", lambda: session.run(None, {"x": ONES}))
                fails("'spawn'", lambda: lagoon(mlp()))
                fails("lagoon: ", lambda: session.set_ep_dynamic_options({"lagoon.scheduler": "edf"}))
                del session
                code = 0
            except BaseException as error:
                print(error, file=sys.stderr)
                code = 1
            os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        session.run(None, {"x": ONES})
    """)


# Not sys.exit(): it ends threads that are inside of ONNX Runtime, which then aborts, with its own CPU provider too.
@pytest.mark.parametrize("end", ["os._exit(0)", "ctypes.CDLL(None).exit(0)"])
def test_a_process_may_end_while_jobs_run(end):
    for _ in range(3):
        child(f"""
            session = lagoon(mlp(12, 1024, 256))
            x = np.ones((256, 1024), np.float32)
            def go():
                while True:
                    try:
                        session.run(None, {{"x": x}})
                    except Exception:
                        return
            for _ in range(3):
                threading.Thread(target=go, daemon=True).start()
            time.sleep(0.2)
            {end}
        """, timeout=60)


def test_a_run_in_a_handler_of_exit_is_refused():
    # The handler is registered behind ONNX Runtime's own static objects, so that they are there, and before Lagoon's
    # first session, so that Lagoon has ended.
    output = child("""
        cpu(mlp()).run(None, {"x": ONES})
        libc, sessions = ctypes.CDLL(None), []
        @ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)
        def late(_status, _argument):
            fails("the process is ending", lambda: sessions[0].run(None, {"x": ONES}))
            os.write(1, b"refused")
        libc.on_exit(late, None)
        sessions.append(lagoon(mlp()))
        sessions[0].run(None, {"x": ONES})
        libc.exit(0)
    """, timeout=60)
    assert "refused" in output


def test_a_trace_is_written(tmp_path):
    child(f"""
        session = lagoon(mlp(), trace_events=10000)
        session.run(None, {{"x": ONES}})
        session.set_ep_dynamic_options({{"lagoon.trace": {str(tmp_path / "trace")!r}}})
        other = lagoon(mlp())
        fails("lagoon: ", lambda: other.set_ep_dynamic_options({{"lagoon.trace": "/no/such/folder/trace"}}))
    """)
    assert (tmp_path / "trace").stat().st_size > 100


class ApiBase(ctypes.Structure):
    GET = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
    VERSION = ctypes.CFUNCTYPE(ctypes.c_char_p)
    _fields_ = [("get_api", GET), ("version", VERSION)]


def refusal(version, oldest_works):
    """The plug-in's answer to an ONNX Runtime that has no version 23 of its ABI."""
    said = []
    make = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(
        lambda code, text: said.append((code, text.decode())) or 1)
    table = (ctypes.c_void_p * 400)(ctypes.cast(make, ctypes.c_void_p))
    base = ApiBase(ApiBase.GET(lambda n: ctypes.addressof(table) if n < 23 and oldest_works else None),
                   ApiBase.VERSION(lambda: version))
    create = ctypes.CDLL(LIBRARY).CreateEpFactories
    create.restype = ctypes.c_void_p
    factories, made = (ctypes.c_void_p * 1)(), ctypes.c_size_t(7)
    create(b"lagoon", ctypes.byref(base), None, factories, ctypes.c_size_t(1), ctypes.byref(made))
    assert made.value == 0 and not factories[0]
    return said


def test_an_onnx_runtime_that_is_too_old_is_refused_by_name():
    ((code, text),) = refusal(b"1.22.1", True)
    assert code == 9 and "needs version 23" in text and "this is ONNX Runtime 1.22.1" in text


def test_an_onnx_runtime_that_has_neither_version_gets_no_factory():
    assert not refusal(b"9.0.0", False)
