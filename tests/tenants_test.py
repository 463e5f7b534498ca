"""Tenants: whose requests are, as a parameter or a header says (`lagoon serve --tenants`)."""

import json
import re

import pytest
from conftest import DIGITS
from server_process import serving

BODY = {"inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0] * 64}]}


@pytest.fixture(name="digits_only")
def fixture_digits_only(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "digits").symlink_to(DIGITS)
    return folder


def ask(server, parameter=None, header=None):
    body = dict(BODY, parameters={"lagoon_tenant": parameter}) if parameter else BODY
    headers = {"lagoon-tenant": header} if header else {}
    return server.post("/v2/models/digits/infer", json.dumps(body).encode(), headers)


def kernels(server):
    """The kernels of each tenant, of the metrics."""
    _, text = server.metrics()
    return {name: float(count) for name, count in re.findall(r'^lagoon_tenant_kernels_total{tenant="(.*)"} (\S+)$', text, re.M)}


@pytest.mark.parametrize("source", ["parameter", "header"])
def test_kernels_count_for_the_tenant_that_the_source_names(lagoon, digits_only, source):
    with serving(lagoon, digits_only, "--scheduler", "paella", "--tenants", source) as server:
        for _ in range(3):
            assert ask(server, "of parameter", "of header")[0] == 200
        assert ask(server, **{source: "b"})[0] == 200
        assert ask(server)[0] == 200
        counts = kernels(server)
        assert set(counts) == {f"of {source}", "b"}
        assert counts[f"of {source}"] == 3 * counts["b"] > 0


def test_without_the_option_names_do_not_count(lagoon, digits_only):
    with serving(lagoon, digits_only, "--scheduler", "paella") as server:
        assert ask(server, "a" * 100, "b" * 100)[0] == 200
        assert kernels(server) == {}


def test_hostile_names_are_refused_and_many_take_no_more_room(lagoon, digits_only):
    with serving(lagoon, digits_only, "--scheduler", "lagoon", "--tenants", "parameter") as server:
        for name, words in (("a" * 65, "65 bytes, the limit is 64"), ("a\nb", "printable ASCII"),
                            ("\u00e9", "printable ASCII"), (7, "'lagoon_tenant' is not a text")):
            status, body = ask(server, name)
            assert status == 400 and words in body["error"], name
        for i in range(1100):
            assert ask(server, f'quote "{i}\\')[0] == 200
        assert len(kernels(server)) == 1024
