"""`lagoon place`: views in, assignments out, line by line."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))

from lagoon.fleet.placer import PlacerFailed, PlacerProcess  # noqa: E402

LATENCY = {"base_ms": 1.0, "row_ms": 4.0}


def view(models=3, gpus=2, **words):
    return {"models": [{"name": f"m{index}", "slo_ms": 100, "rate": 10, "memory_bytes": 1000, "most_rows": 4,
                        "latency": LATENCY, **words} for index in range(models)],
            "gpus": [{"granules": 100, "memory_bytes": 1 << 30}] * gpus}


@pytest.fixture
def placer(lagoon):
    process = PlacerProcess("lagoon", lagoon.binary)
    yield process
    process.close()


def test_every_model_is_placed_with_fractions_of_one(placer):
    decision = placer.decide(view(), 10)
    assert decision["refused"] == []
    for name in ("m0", "m1", "m2"):
        own = [replica for replica in decision["replicas"] if replica["model"] == name]
        assert sum(replica["fraction"] for replica in own) == pytest.approx(1)
        assert all(0 <= replica["gpu"] < 2 and replica["granules"] >= 1 for replica in own)


def test_the_same_views_give_the_same_answers(lagoon, placer):
    other = PlacerProcess("lagoon", lagoon.binary)
    current = []
    for rate in (10, 50, 100):
        words = {**view(rate=rate), "current": current}
        decision = placer.decide(words, 10)
        assert other.decide(words, 10) == decision
        current = decision["replicas"]
    other.close()


def test_replicas_on_a_lost_device_do_not_matter(placer):
    lost = [{"model": "m0", "gpu": 7, "granules": 10, "rows": 1, "fraction": 0.5},
            {"model": "gone", "gpu": 0, "granules": 10, "rows": 1, "fraction": 1}]
    assert placer.decide({**view(), "current": lost}, 10)["refused"] == []


def test_a_model_that_fits_nowhere_is_refused_with_the_reason(placer):
    decision = placer.decide(view(models=1, memory_bytes=1 << 40), 10)
    assert [entry["model"] for entry in decision["refused"]] == ["m0"]
    assert decision["refused"][0]["reason"]


@pytest.mark.parametrize("change, message", [
    ({"gpus": []}, "number of GPUs"), ({"gpus": 3}, "'gpus' is no list"),
    ({"models": [{}]}, "a model needs the text 'name'"),
    ({"models": [{"name": "m", "latency": LATENCY}]}, "'slo_ms' is 0"),
    ({"models": [{"name": "m", "slo_ms": 1}]}, "model 'm': 'latency' is no object"),
    ({"models": [{"name": "m", "slo_ms": 1, "latency": {"base_ms": -1}}]}, "model 'm': 'latency'"),
    ({"models": [{"name": "m", "slo_ms": 1, "rate": "x", "latency": LATENCY}]}, "'rate' is no number"),
    ({"models": [{"name": "m", "slo_ms": 1, "rate": -5, "latency": LATENCY}]}, "rate"),
    ({"models": [{"name": "m", "slo_ms": 1, "most_rows": -1, "latency": LATENCY}]}, "'most_rows' is '-1'"),
    ({"current": [{"model": "m0", "gpu": 1.5}]}, "'gpu' is '1.5'")])
def test_bad_views_are_errors_and_the_placer_goes_on(placer, change, message):
    with pytest.raises(PlacerFailed, match=message):
        placer.decide({**view(), **change}, 10)
    assert placer.decide(view(), 10)["replicas"]


def test_a_placer_that_ended_is_started_again(placer):
    assert placer.decide(view(), 10)["replicas"]
    placer._process.kill()  # pylint: disable=protected-access
    with pytest.raises(PlacerFailed, match="lagoon place ended"):
        placer.decide(view(), 10)
    assert placer.decide(view(), 10)["replicas"]


def test_a_placer_that_overruns_its_time_is_ended(tmp_path):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    with pytest.raises(PlacerFailed, match="did not answer in time"):
        PlacerProcess("lagoon", str(slow)).decide(view(), 0.1)


def test_lines_that_are_no_json_are_errors(lagoon):
    done = subprocess.run([lagoon.binary, "place"], input="no json\n[]\n", capture_output=True, text=True, check=True,
                          timeout=60)
    errors = [json.loads(line)["error"] for line in done.stdout.splitlines()]
    assert errors == ["view: the line is no JSON object"] * 2


def test_the_placers_are_listed_and_others_refused(lagoon):
    listed = lagoon.run("place", "--list")
    assert listed.returncode == 0 and "lagoon " in listed.stdout
    unknown = lagoon.run("place", "--placer", "nothing")
    assert unknown.returncode == 1 and "'nothing'" in unknown.stderr
