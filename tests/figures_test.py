"""`lagoon bench figures`: the same numbers on any machine, and those that are committed."""

import json
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "report"))
import redraw  # noqa: E402

COMMITTED = ROOT / "bench" / "results" / "sim-figures-quick.json"


def test_the_figures_are_the_committed_ones_bit_by_bit(lagoon, tmp_path):
    """A change of a scheduler, a simulator or a benchmark that moves a number must write the results anew:
    bench/report/redraw.py. Numbers have four digits, so that the last bit of a logarithm decides nothing."""
    names = [json.loads(line.rstrip(","))["name"] for line in COMMITTED.read_text().splitlines()[1:-1]]
    words = redraw.RUNS["sim-figures-quick.json"]
    result = lagoon.run("bench", *words, "--only", ",".join(names), "--json", tmp_path / "report.json", timeout=600)
    assert result.returncode == 0, result.stderr
    figures = redraw.quick(json.loads((tmp_path / "report.json").read_text()))["figures"]
    committed = json.loads(COMMITTED.read_text())["figures"]
    assert [figure["name"] for figure in figures] == [figure["name"] for figure in committed]
    for figure, expected in zip(figures, committed):
        assert figure == expected, f"{figure['name']} differs; if it should, run bench/report/redraw.py"
