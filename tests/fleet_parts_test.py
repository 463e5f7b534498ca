"""What the nodes of a fleet on Ray do, without Ray and without servers."""

import math
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from lagoon.fleet import models, server  # noqa: E402


def make_model(folder, name, text="x"):
    (folder / name / "1").mkdir(parents=True)
    (folder / name / "1" / "model.onnx").write_text(text)


def test_a_repository_is_scanned_by_folders(tmp_path):
    make_model(tmp_path, "b")
    make_model(tmp_path, "a")
    (tmp_path / "notes").mkdir()
    assert models.names(tmp_path) == ["a", "b"]


def test_a_repository_without_models_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no model in"):
        models.names(tmp_path)


def test_archives_give_the_same_files(tmp_path):
    make_model(tmp_path / "from", "a", "weights")
    (tmp_path / "from" / "link").symlink_to(tmp_path / "from" / "a")
    store = models.ModelStore()
    archive = models.pack(tmp_path / "from", "link")
    store.add(archive)
    store.add(archive)
    assert (store.folder / "link" / "1" / "model.onnx").read_text() == "weights"
    store.close()
    assert not store.folder.exists()


def test_a_shared_path_is_used_as_it_is(tmp_path):
    make_model(tmp_path, "a")
    store = models.ModelStore(tmp_path)
    assert store.folder == tmp_path
    store.close()
    assert (tmp_path / "a").is_dir()


class FakeProcess:
    """A `lagoon serve` that the test ends."""

    made = []

    def __init__(self, *words):
        self.words, self.ready, self.ended, self.killed = words, False, False, False
        self.pid = 1000 + len(self.made)
        self.ports = None
        self.made.append(self)

    def running(self):
        return not self.ended and not self.killed

    def poll_ready(self):
        if self.ended:
            raise server.NotStarted("it ended")
        if self.ready:
            self.ports = {"http": 1, "grpc": 2, "metrics": 3, "models": {}}
        return self.ready

    def log_tail(self):
        return "the end of the log"

    def kill(self):
        self.killed = True


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(FakeProcess, "made", [])
    monkeypatch.setattr(server, "LagoonProcess", FakeProcess)
    return FakeProcess.made


def test_a_server_that_ends_is_started_again_with_its_ports(made, monkeypatch):
    kept = server.KeptServer(["--models", "m"], {"http": 8000})
    assert kept.step() == {"ports": None, "pid": 1000, "problem": ""}
    assert made[0].words[3:5] == ("--http-port", 8000)
    made[0].ready = True
    assert kept.step()["ports"]["grpc"] == 2
    made[0].ended = True
    state = kept.step()
    assert state["ports"] is None and "the end of the log" in state["problem"]
    assert made[0].killed, "its files are removed"
    assert len(made) == 1, "not at once"
    monkeypatch.setattr(server.time, "monotonic", lambda: math.inf)
    kept.step()
    assert made[1].words[3:] == ("--http-port", 1, "--grpc-port", 2, "--metrics-port", 3)
    made[1].ready = True
    assert kept.step()["problem"] == ""
    kept.close()
    assert made[1].killed


def test_a_server_that_does_not_start_says_why(made):
    kept = server.KeptServer([])
    kept.step()
    made[0].running = lambda: True
    made[0].ended = True
    assert kept.step() == {"ports": None, "pid": 0, "problem": "it ended"}
