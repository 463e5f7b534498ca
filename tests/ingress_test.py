"""`lagoon ingress` in front of real servers: answers, lost members, members that stop answering, routes."""

import contextlib
import json
import os
import signal
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
    """Members and an ingress in front of them."""

    def __init__(self, lagoon, digits, members, *words):
        self.lagoon = lagoon
        self.digits = digits
        self.members = [self.start_member() for _ in range(members)]
        addresses = ",".join(f"127.0.0.1:{member.ports['grpc']}" for member in self.members)
        self.ingress = LagoonProcess("ingress", *(["--members", addresses] if members else []), *words,
                                     path=lagoon.binary).wait_ready(START_SECONDS)

    def start_member(self, port=0):
        words = ["--models", self.digits, "--workers", 1, "--grpc-port", port]
        return LagoonProcess("serve", *words, path=self.lagoon.binary).wait_ready(START_SECONDS)

    def url(self, name):
        return f"127.0.0.1:{self.ingress.ports[name]}"

    def routes(self, body=None):
        request = urllib.request.Request(f"http://{self.url('metrics')}/v2/fleet/routes",
                                         data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.loads(reply.read())

    def wait_ready(self, count):
        deadline = time.monotonic() + START_SECONDS
        while sum(member["ready"] for member in self.routes()["members"]) != count:
            assert time.monotonic() < deadline, self.routes()
            time.sleep(0.02)
        return self

    def traffic(self, **words):
        body = json.loads((ROOT / "models" / "digits" / "samples" / "digit-3.json").read_text())
        return Traffic("127.0.0.1", self.ingress.ports["http"], "digits", body,
                       lambda answer: int(np.argmax(answer["outputs"][0]["data"])) == 3, **words)

    def close(self):
        for process in [self.ingress, *self.members]:
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
        assert two.routes()["retries"] > 0


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
    with pytest.raises(RequestFailed, match="HTTP 503: model 'digits'.*none of its 2 members has it ready"):
        thin.infer("digits", {"image": np.zeros((1, 1, 8, 8), np.float32)})


def test_routes_are_set_while_requests_run(lagoon, digits):
    with fleet_of(lagoon, digits, 0) as fleet:
        member = fleet.start_member()
        fleet.members.append(member)
        assert fleet.routes() == {"epoch": 0, "retries": 0, "members": []}
        body = {"epoch": 2, "members": [{"name": "n", "address": f"127.0.0.1:{member.ports['grpc']}"}],
                "models": {"digits": [{"member": "n", "fraction": 1}]}}
        fleet.routes(body)
        fleet.wait_ready(1)
        with fleet.traffic() as traffic:
            traffic.wait(20)
            for epoch in range(3, 8):
                fleet.routes({**body, "epoch": epoch})
            traffic.wait(20)
        assert traffic.counts()["answered"] == traffic.counts()["sent"] == len(traffic.milliseconds)
        with pytest.raises(urllib.error.HTTPError) as refused:
            fleet.routes(body)
        assert refused.value.code == 409
        assert "epoch 7 are in use" in refused.value.read().decode()


@pytest.mark.parametrize("members, message", [
    ("localhost", "'localhost' is not host:port"), ("h:1,h:1", "two members have the name"),
    ("BAD", "routes: 'members' is missing")])
def test_bad_members_end_the_command(lagoon, tmp_path, members, message):
    if members == "BAD":
        members = tmp_path / "routes.json"
        members.write_text("{}")
    result = lagoon.run("ingress", "--members", members, "--http-port", 0, "--grpc-port", 0, "--metrics-port", 0)
    assert result.returncode == 1
    assert message in result.stderr
