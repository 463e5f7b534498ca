"""`lagoon serve --fleet` in front of real servers: answers, lost members, members that stop answering, join and leave."""

import contextlib
import json
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from conftest import DIGITS, ROOT
from server_process import triton_input

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench" / "fleet")]

from lagoon import Client, LagoonProcess, RequestFailed  # noqa: E402
from traffic import Traffic  # noqa: E402

START_SECONDS = 60


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A repository with the digit classifier alone, which loads fast."""
    folder = tmp_path_factory.mktemp("digits")
    (folder / "digits").symlink_to(DIGITS)
    return folder


class Fleet:
    """Members and a server in front of them."""

    def __init__(self, lagoon, digits, members, *words):
        self.lagoon = lagoon
        self.digits = digits
        self.members = [self.start_member() for _ in range(members)]
        addresses = ",".join(f"127.0.0.1:{member.ports['grpc']}" for member in self.members)
        self.front = LagoonProcess("serve", "--fleet", addresses or "open", *words,
                                   path=lagoon.binary).wait_ready(START_SECONDS)

    def start_member(self, port=0):
        words = ["--models", self.digits, "--workers", 1, "--grpc-port", port]
        return LagoonProcess("serve", *words, path=self.lagoon.binary).wait_ready(START_SECONDS)

    def url(self, name):
        return f"127.0.0.1:{self.front.ports[name]}"

    def state(self, path="/v2/fleet", body=None):
        request = urllib.request.Request(f"http://{self.url('metrics')}{path}",
                                         data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.loads(reply.read())

    def join(self, name, member, **words):
        address = f"127.0.0.1:{member.ports['grpc']}"
        return self.state("/v2/fleet/members", {"name": name, "address": address, **words})

    def serving(self):
        """Members that are there and get requests."""
        state = self.state()
        ready = {device["name"] for device in state["devices"] if device["ready"]}
        return {replica["device"] for replica in state["replicas"] if replica["state"] == "serving"} & ready

    def wait_ready(self, count):
        deadline = time.monotonic() + START_SECONDS
        while len(self.serving()) != count:
            assert time.monotonic() < deadline, self.state()
            time.sleep(0.02)
        return self

    def traffic(self, **words):
        body = json.loads((ROOT / "models" / "digits" / "samples" / "digit-3.json").read_text())
        return Traffic("127.0.0.1", self.front.ports["http"], "digits", body,
                       lambda answer: int(np.argmax(answer["outputs"][0]["data"])) == 3, **words)

    def close(self):
        for process in [self.front, *self.members]:
            process.kill()


@contextlib.contextmanager
def fleet_of(*words):
    fleet = Fleet(*words)
    try:
        yield fleet
    finally:
        fleet.close()


@pytest.fixture
def two(lagoon, digits):
    # A busy machine may not look like a lost member.
    with fleet_of(lagoon, digits, 2, "--lost-after-ms", 30_000) as fleet:
        yield fleet.wait_ready(2)


def test_answers_are_those_of_the_members(two, test_split, digit_scores):
    images = test_split[0]
    http = triton_http.InferenceServerClient(two.url("http"))
    grpc = triton_grpc.InferenceServerClient(two.url("grpc"))
    thin = Client(f"http://{two.url('http')}")
    assert http.is_server_ready() and grpc.is_model_ready("digits")
    assert grpc.get_model_metadata("digits").inputs[0].name == "image"
    assert http.get_model_config("digits")["name"] == "digits"
    for index in range(20):
        image = images[index][None]
        expected = digit_scores[index][None]
        for client, module in ((http, triton_http), (grpc, triton_grpc)):
            answer = client.infer("digits", [triton_input(module, "image", image)])
            assert np.allclose(answer.as_numpy("scores"), expected, atol=1e-4)
        assert np.allclose(thin.infer("digits", {"image": image})["scores"], expected, atol=1e-4)
    with pytest.raises(RequestFailed, match="HTTP 404: .*'nothing'"):
        thin.infer("nothing", {"image": images[0][None]})
    with pytest.raises(RequestFailed, match="HTTP 400: .*image"):
        thin.infer("digits", {"image": images[0]})
    rows = thin.get("/v2/models/stats")["model_stats"]
    assert [row["name"] for row in rows] == ["digits"]
    assert rows[0]["inference_stats"]["success"]["count"] == 60


def test_both_members_serve(two):
    with two.traffic() as traffic:
        traffic.wait(200)
    counts = []
    for member in two.members:
        rows = Client(f"http://127.0.0.1:{member.ports['http']}").get("/v2/models/stats")["model_stats"]
        counts.append(rows[0]["inference_stats"]["success"]["count"])
    assert sum(counts) >= 200 and min(counts) > 0
    assert traffic.counts() == {"sent": sum(counts), "answered": sum(counts), "unavailable": 0, "unknown": 0, "wrong": 0,
                                "doubled": 0, "lost": 0}


def test_a_killed_member_costs_no_answer(two):
    with two.traffic() as traffic:
        traffic.wait(50)
        port = two.members[0].ports["grpc"]
        two.members[0].kill()
        two.wait_ready(1)
        traffic.wait(50)
        two.members[0] = two.start_member(port)
        two.wait_ready(2)
        traffic.wait(50)
    counts = traffic.counts()
    assert counts["sent"] == counts["answered"], traffic.problems
    assert counts["wrong"] == counts["doubled"] == counts["lost"] == counts["unavailable"] == 0, traffic.problems


def test_a_member_that_hangs_is_left_and_found_again(lagoon, digits):
    with fleet_of(lagoon, digits, 2, "--lost-after-ms", 1000) as two:
        two.wait_ready(2)
        counts = run_beside_a_hanging_member(two)
        assert counts["sent"] == counts["answered"]
        assert counts["wrong"] == counts["doubled"] == counts["lost"] == 0
        assert two.state()["retries"] > 0


def run_beside_a_hanging_member(two):
    hanging = two.members[0]
    with two.traffic() as traffic:
        traffic.wait(50)
        # Stopped as a whole: its connections stay open, and nothing is answered.
        os.kill(hanging.pid, signal.SIGSTOP)
        two.wait_ready(1)
        traffic.wait(50)
        os.kill(hanging.pid, signal.SIGCONT)
        two.wait_ready(2)
        traffic.wait(50)
    return traffic.counts()


def test_without_members_requests_are_answered_unavailable(two):
    for member in two.members:
        member.kill()
    two.wait_ready(0)
    thin = Client(f"http://{two.url('http')}")
    with pytest.raises(RequestFailed, match="HTTP 503: member 127.0.0.1:.*not connected"):
        thin.infer("digits", {"image": np.zeros((1, 1, 8, 8), np.float32)})


def test_members_join_and_leave_while_requests_run(lagoon, digits):
    with fleet_of(lagoon, digits, 0) as fleet:
        first, second = fleet.start_member(), fleet.start_member()
        fleet.members += [first, second]
        assert fleet.state()["devices"] == []
        fleet.join("first", first)
        fleet.wait_ready(1)
        with fleet.traffic() as traffic:
            traffic.wait(20)
            fleet.join("second", second)
            fleet.wait_ready(2)
            traffic.wait(20)
            fleet.state("/v2/fleet/leave", {"name": "first"})
            fleet.wait_ready(1)
            traffic.wait(20)
        assert traffic.counts()["answered"] == traffic.counts()["sent"] == len(traffic.milliseconds)
        with pytest.raises(urllib.error.HTTPError) as refused:
            fleet.join("second", second)
        assert refused.value.code == 409
        assert "'second' is of the fleet already" in refused.value.read().decode()


def problem_of(fleet, name, part):
    """Waits until the member has a problem with this part."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        found = [device["problem"] for device in fleet.state()["devices"] if device["name"] == name]
        if found and part in found[0]:
            return found[0]
        assert time.monotonic() < deadline, fleet.state()
        time.sleep(0.02)


def test_fleets_may_not_lead_back_to_themselves(lagoon, digits):
    with fleet_of(lagoon, digits, 1) as back, fleet_of(lagoon, digits, 0) as front:
        back.wait_ready(1)
        front.join("back", back.front)
        front.wait_ready(1)
        front.join("own", front.front)
        assert "is this server itself" in problem_of(front, "own", "itself")
        back.join("front", front.front)
        problem_of(back, "front", "round in circles")
        assert front.serving() == {"back"} and len(back.serving()) == 1
        with front.traffic() as traffic:
            traffic.wait(50)
        counts = traffic.counts()
        assert counts["sent"] == counts["answered"], traffic.problems
        member = Client(f"http://127.0.0.1:{back.members[0].ports['http']}").get("/v2/models/stats")["model_stats"]
        assert member[0]["inference_stats"]["success"]["count"] == counts["sent"], "each request reached the member once"
        rows = Client(f"http://{front.url('http')}").get("/v2/models/stats")["model_stats"]
        assert [(row["name"], row["version"]) for row in rows] == [("digits", "1")]


def test_a_server_is_one_member_whatever_its_address(lagoon, digits):
    with fleet_of(lagoon, digits, 1) as fleet:
        fleet.wait_ready(1)
        port = fleet.members[0].ports["grpc"]
        for name in ("localhost", "0.0.0.0", "[::ffff:127.0.0.1]"):
            fleet.state("/v2/fleet/members", {"name": name, "address": f"{name}:{port}"})
            problem_of(fleet, name, f"is the server of member '127.0.0.1:{port}'")
        assert fleet.serving() == {f"127.0.0.1:{port}"}


def test_the_ports_file_of_a_front_comes_when_it_can_answer_for_its_members(lagoon, digits):
    with fleet_of(lagoon, digits, 2) as fleet:
        assert fleet.front.ports["models"]["digits"]["ready"] is True
        image = np.zeros((1, 1, 8, 8), np.float32)
        assert Client(f"http://{fleet.url('http')}").infer("digits", {"image": image})["scores"].shape == (1, 10)
        assert len(fleet.serving()) == 2


def test_a_member_that_does_not_tell_delays_the_ports_file_for_seconds_only(lagoon):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        front = LagoonProcess("serve", "--fleet", address, "--lost-after-ms", 600_000, path=lagoon.binary)
        try:
            front.wait_ready(START_SECONDS)
            assert f"what '{address}' serve is not known after 5 s" in front.log_file.read_text()
        finally:
            front.kill()


def test_a_server_that_is_not_there_is_told_and_logged(lagoon, digits):
    with fleet_of(lagoon, digits, 0) as fleet:
        fleet.state("/v2/fleet/members", {"name": "nobody", "address": "127.0.0.1:9"})
        problem_of(fleet, "nobody", "does not answer")
        assert "member 'nobody' at 127.0.0.1:9: not there" in fleet.front.log_file.read_text()


@pytest.mark.parametrize("body, message", [
    ({"name": "a"}, "has no 'address'"), ({"name": "", "address": "h:1"}, "names have 1 to"),
    ({"name": "a\nb", "address": "h:1"}, "control characters"),
    ({"name": "a", "address": "h:0"}, "not host:port"), ({"name": "a", "address": "h:1", "x": 1}, "'x'"),
    ({"name": "a", "address": "h:1", "memory_bytes": -1}, "'memory_bytes'"), ([], "not an object")])
def test_bad_members_are_refused(two, body, message):
    with pytest.raises(urllib.error.HTTPError) as refused:
        two.state("/v2/fleet/members", body)
    assert refused.value.code == 400
    assert message in refused.value.read().decode()
    assert len(two.state()["devices"]) == 2


def test_a_placer_loads_models_at_servers(lagoon, digits):
    with fleet_of(lagoon, digits, 0, "--models", digits, "--placer", "lagoon") as fleet:
        words = ["--models", digits, "--workers", 1, "--model-control", "explicit",
                 "--allow-admin-on-http"]
        fleet.members += [LagoonProcess("serve", *words, path=lagoon.binary).wait_ready(START_SECONDS) for _ in range(2)]
        fleet.join("first", fleet.members[0])
        fleet.wait_ready(1)
        assert fleet.serving() == {"first"}
        fleet.join("second", fleet.members[1])
        with fleet.traffic() as traffic:
            traffic.wait(20)
            fleet.members[0].kill()
            deadline = time.monotonic() + START_SECONDS
            while fleet.serving() != {"second"}:
                assert time.monotonic() < deadline, fleet.state()
                time.sleep(0.02)
            traffic.wait(20)
        counts = traffic.counts()
        assert counts["sent"] == counts["answered"], traffic.problems
        assert counts["wrong"] == counts["doubled"] == counts["lost"] == 0, traffic.problems


def test_a_placer_sets_shares_at_servers(lagoon, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1").symlink_to(DIGITS / "1")
        (tmp_path / name / "config.pbtxt").write_text(
            'parameters { key: "lagoon.share" value { string_value: "auto" } }\n'
            'parameters { key: "lagoon.slo_ms" value { string_value: "50" } }\n')
    def shares(member):
        with urllib.request.urlopen(f"http://127.0.0.1:{member.ports['http']}/v2/shares", timeout=10) as reply:
            return {model["model"]: model for model in json.loads(reply.read())["models"]}
    with fleet_of(lagoon, tmp_path, 0, "--models", tmp_path, "--placer", "lagoon") as fleet:
        words = ["--models", tmp_path, "--workers", 1, "--shares", "weight", "--scheduler", "weighted",
                 "--model-control", "explicit", "--allow-admin-on-http"]
        fleet.members += [LagoonProcess("serve", *words, path=lagoon.binary).wait_ready(START_SECONDS) for _ in range(2)]
        room = 3 * fleet.state()["models"][0]["memory_bytes"] // 2  # for one of both models
        for name, member in zip("ab", fleet.members):
            fleet.join(name, member, memory_bytes=room)
        fleet.wait_ready(2)
        deadline = time.monotonic() + 5
        while [[model["demand_from"] for model in shares(member).values()] for member in fleet.members] != [["fixed"]] * 2:
            assert time.monotonic() < deadline, [shares(member) for member in fleet.members]
            time.sleep(0.1)
        # Another placer leaves shares to the servers again.
        fleet.state("/v2/fleet/placer", {"placer": "static"})
        deadline = time.monotonic() + 5
        while any(model["fixed"] for member in fleet.members for model in shares(member).values()):
            assert time.monotonic() < deadline, [shares(member) for member in fleet.members]
            time.sleep(0.1)


@pytest.mark.parametrize("fleet, message", [
    ("localhost", "no device 'localhost'"), ("h:1,h:1", "names 'h:1' twice"), ("h:0", "no device 'h:0'"),
    ("", "no device ''"), ("cpu,h:1", "--models, which is missing"),
    ("h:1 --scheduler reef", "--scheduler: is for a device"), ("open --late-file x", "--late-file: is for a device")])
def test_bad_fleets_end_the_command(lagoon, fleet, message):
    result = lagoon.run("serve", "--fleet", *fleet.split(" "), "--http-port", 0, "--grpc-port", 0, "--metrics-port", 0)
    assert result.returncode == 1
    assert message in result.stderr
