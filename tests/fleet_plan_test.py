"""What the controller of a fleet computes, without Ray and without servers."""

import math
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from lagoon.fleet import models, plan, server  # noqa: E402

MODELS = [plan.Model("a", 100, 50.0), plan.Model("b", 200, 20.0)]
NODES = [plan.Node("n1", 1000), plan.Node("n2", 2000)]


def replica(model, node, fraction=1.0):
    return {"model": model, "node": node, "fraction": fraction}


def test_view_names_devices_by_their_order():
    view = plan.view(MODELS, NODES, [replica("a", "n2"), replica("b", "gone")])
    assert [gpu["memory_bytes"] for gpu in view["gpus"]] == [1000, 2000]
    assert [model["slo_ms"] for model in view["models"]] == [50.0, 20.0]
    assert [(entry["model"], entry["gpu"]) for entry in view["current"]] == [("a", 1)]
    latency = view["models"][0]["latency"]
    assert latency["base_ms"] + latency["row_ms"] == pytest.approx(plan.DEFAULT_STANDALONE_MS)
    decision = {"replicas": [{"model": "a", "gpu": 1, "fraction": 0.5}], "refused": []}
    assert plan.assignment_of(decision, NODES) == [replica("a", "n2", 0.5)]


def test_mend_moves_replicas_of_lost_nodes_to_the_emptiest_node():
    mended = plan.mend([replica("a", "n1"), replica("b", "gone")], MODELS, NODES)
    assert sorted((entry["model"], entry["node"]) for entry in mended) == [("a", "n1"), ("b", "n2")]


def test_mend_shares_the_fraction_of_a_lost_replica():
    mended = plan.mend([replica("a", "n1", 0.2), replica("a", "n2", 0.2), replica("a", "gone", 0.6),
                        replica("b", "n1")], MODELS, NODES)
    assert [entry["fraction"] for entry in mended if entry["model"] == "a"] == [0.5, 0.5]


def test_mend_without_nodes_places_nothing():
    assert plan.mend([replica("a", "n1")], MODELS, []) == []


def test_models_by_node_has_every_node():
    assert plan.models_by_node([replica("b", "n1"), replica("a", "n1"), replica("a", "gone")], NODES) == {
        "n1": ["a", "b"], "n2": []}


def test_routes_use_the_replicas_that_serve():
    assignment = [replica("a", "n1", 0.25), replica("a", "n2", 0.75), replica("b", "n2")]
    routes = plan.routes(7, assignment, {"n1": ("h:1", {"a": 1.0}), "n2": ("h:2", {"a": 1.0, "b": 2.0})})
    assert routes["epoch"] == 7
    assert routes["members"] == [{"name": "n1", "address": "h:1"}, {"name": "n2", "address": "h:2"}]
    assert routes["models"]["a"] == [{"member": "n1", "fraction": 0.25}, {"member": "n2", "fraction": 0.75}]
    # n2 is gone: n1 gets all.
    alone = plan.routes(7, assignment, {"n1": ("h:1", {"a": 1.0})})
    assert alone["models"] == {"a": [{"member": "n1", "fraction": 1.0}]}


def test_routes_keep_a_replica_that_leaves_until_the_new_one_serves():
    moving = [replica("a", "n2")]
    before = plan.routes(1, moving, {"n1": ("h:1", {"a": 1.0})})
    assert before["models"]["a"] == [{"member": "n1", "fraction": 1.0}]
    after = plan.routes(1, moving, {"n1": ("h:1", {"a": 1.0}), "n2": ("h:2", {"a": 1.0})})
    assert after["models"]["a"] == [{"member": "n1", "fraction": 0.0}, {"member": "n2", "fraction": 1.0}]


def test_rates_approach_what_arrives():
    rates = plan.Rates()
    rates.update({"a": 100}, 10.0)
    assert not rates.rates  # one reading has no rate
    for second in range(1, 30):
        rates.update({"a": 100 + 20 * second}, 10.0 + second)
    assert rates.rates["a"] == pytest.approx(20)
    assert rates.error("a") == pytest.approx(math.sqrt(20))
    for second in range(30, 33):
        rates.update({"a": 100 + 20 * 29 + 40 * (second - 29)}, 10.0 + second)
    assert 30 < rates.rates["a"] < 40


def test_rates_bear_counters_that_begin_anew_and_a_clock_that_stands():
    rates = plan.Rates()
    rates.update({"a": 1000}, 1.0)
    rates.update({"a": 1010}, 2.0)
    rates.update({"a": 10}, 3.0)  # the ingress began anew
    assert rates.rates["a"] == pytest.approx(10)
    rates.update({"a": 500}, 3.0)
    assert rates.rates["a"] == pytest.approx(10)
    assert rates.error("unknown") == 0


def test_hysteresis_takes_what_is_said_again_and_again():
    hysteresis = plan.Hysteresis(times=3)
    now, first, second = {"n1": ["a"]}, {"n1": [], "n2": ["a"]}, {"n1": ["a"], "n2": ["a"]}
    assert [hysteresis.accept(now, wanted) for wanted in (first, second, first, first)] == [False] * 4
    assert hysteresis.accept(now, first)
    assert not hysteresis.accept(first, first)
    assert [hysteresis.accept(first, wanted) for wanted in (second, first, second, second)] == [False] * 4


def make_model(folder, name, text="x"):
    (folder / name / "1").mkdir(parents=True)
    (folder / name / "1" / "model.onnx").write_text(text)


def test_a_repository_is_scanned_by_folders(tmp_path):
    make_model(tmp_path, "a", "1234")
    make_model(tmp_path, "b")
    (tmp_path / "notes").mkdir()
    found = models.scan(tmp_path, 30.0)
    assert [(model.name, model.memory_bytes, model.slo_ms) for model in found] == [("a", 8, 30.0), ("b", 2, 30.0)]


def test_a_repository_without_models_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no model in"):
        models.scan(tmp_path, 30.0)


def test_archives_give_the_same_files(tmp_path):
    make_model(tmp_path / "from", "a", "weights")
    (tmp_path / "from" / "link").symlink_to(tmp_path / "from" / "a")
    store = models.ModelStore()
    assert store.missing(["link"]) == ["link"]
    archive = models.pack(tmp_path / "from", "link")
    store.add("link", archive)
    store.add("link", archive)
    view = pathlib.Path(store.view(["link"]))
    assert (view / "link" / "1" / "model.onnx").read_text() == "weights"
    with pytest.raises(FileNotFoundError, match="models other are not in the archives of this node"):
        store.view(["link", "other"])
    store.close()


def test_views_of_a_shared_path_have_only_the_models_named(tmp_path):
    make_model(tmp_path, "a")
    make_model(tmp_path, "b")
    view = pathlib.Path(models.ModelStore(tmp_path).view(["b"]))
    assert [entry.name for entry in view.iterdir()] == ["b"]
    with pytest.raises(FileNotFoundError, match=f"models c are not in {tmp_path}"):
        models.ModelStore(tmp_path).view(["c"])


class FakeProcess:
    """A `lagoon serve` that the test ends. A second signal to stop kills it, as it does a real one."""

    made = []

    def __init__(self, *words):
        self.words, self.stops, self.killed, self.ended = words, 0, False, False
        self.pid = 1000 + len(self.made)
        self.ports = {"grpc": 2000 + len(self.made), "models": {}}
        self.made.append(self)

    def running(self):
        return not self.ended and not self.killed

    def poll_ready(self):
        return True

    def log_tail(self):
        return ""

    def stop(self):
        self.stops += 1
        self.killed |= self.stops > 1

    def kill(self):
        self.killed = True


def test_a_server_that_drains_answers_what_it_has(tmp_path, monkeypatch):
    make_model(tmp_path, "a")
    make_model(tmp_path, "b")
    monkeypatch.setattr(FakeProcess, "made", [])
    monkeypatch.setattr(server, "LagoonProcess", FakeProcess)
    servers = server.NodeServers(models.ModelStore(tmp_path), "127.0.0.1", [])
    for _ in range(2):
        servers.step(["a"], None)
    monkeypatch.setattr(server.time, "monotonic", lambda: math.inf)  # no pause between two starts
    for _ in range(2):
        servers.step(["a", "b"], ["127.0.0.1:2000"])
    old, new = FakeProcess.made
    assert old.stops == 0, "the ingress still sends it requests"
    for _ in range(5):  # a request of 2 s, and a step every half second
        servers.step(["a", "b"], ["127.0.0.1:2001"])
    assert old.stops == 1 and not old.killed and new.stops == 0
    old.ended = True
    servers.step(["a", "b"], ["127.0.0.1:2001"])
    assert old.killed, "its files are removed"
    servers.close()
