"""bench/report/page.py: the tables of the pages of results are those of the committed results."""

import json
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench" / "report"))
import grids  # noqa: E402
import matters  # noqa: E402
import page  # noqa: E402

NUMBERS = [{"metric": "gain.a", "paper": 1.5, "got": 1.1, "off_percent": -80.0, "verdict": "direction only"},
           {"metric": "time_ms", "paper": [20, 30], "got": 31.234, "off_percent": 4.1, "verdict": "reproduced within 5 %"},
           {"metric": "input", "paper": 2, "got": 2.001, "off_percent": 0.05, "verdict": "set: calibrated"}]


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    panel = {"x": "load", "series": [{"name": "a", "x": [1, 2], "y": [0.5, 1234.5]}, {"name": "b", "x": [2], "y": [3]}]}
    figures = [{"name": "reef-1", "paper": NUMBERS, "findings": [["jobs a second", 12345.6], ["other", 1]], "panels": [panel]}]
    (tmp_path / "sim-figures.json").write_text(json.dumps({"figures": figures}))
    return tmp_path


def write(folder, text, *words):
    """(exit status, the page afterwards)."""
    file = folder / "page.md"
    file.write_text(text)
    status = page.main(["--page", str(file), "--results", str(folder), *words])
    return status, file.read_text()


def test_the_pages_of_the_repository_say_what_their_results_say():
    assert page.main(["--check"]) == 0


def test_a_table_has_the_numbers_and_the_findings_that_fit(folder):
    status, text = write(folder, "before\n<!-- table figure reef-1 jobs_* -->\nold\n<!-- end -->\nafter")
    assert status == 0
    assert text.split("\n") == [
        "before", "<!-- table figure reef-1 jobs_* -->", "|  | paper | we | off | verdict |",
        "| --- | ---: | ---: | ---: | --- |", "| gain.a | 1.5 | 1.1 | -80 % | direction only |",
        "| time_ms | 20 to 30 | 31.23 | +4 % | reproduced within 5 % |", "| input | 2 | 2.001 | +0 % | set: calibrated |",
        "| jobs a second |  | 12346 |  |  |", "<!-- end -->", "after"]
    assert write(folder, text)[1] == text, "writing again changes nothing"


def test_numbers_are_counted_by_verdict(folder):
    _, text = write(folder, "<!-- table counts -->\n<!-- end -->")
    assert "| REEF | 1 | 1 | 1 | 0 |" in text
    _, text = write(folder, "<!-- table counts figures -->\n<!-- end -->")
    assert "| REEF 1 | 1 | 1 | 1 | 0 |" in text


def test_a_grid_has_the_first_report_that_knows_a_metric(folder):
    intervals = {"ratio.a": {"median": 1.234, "low": 1, "high": 2}}
    (folder / "new.json").write_text(json.dumps({"metrics": {"ms.a": 2.345}, "intervals": intervals}))
    (folder / "old.json").write_text(json.dumps({"metrics": {"ms.a": 9, "late.a": 0.021, "ms.b": 7}}))
    one = grids.Grid(["new", "old"], {"A": "a", "B": "b"}, {
        "ms / late": "{ms.$:.1f} / {late.$:%1}", "ms": "{ms.$:.0f}", "ratio": "{ratio.$:i.2f}"})
    assert one.table(page.Results(folder)) == (
        ["", "ms / late", "ms", "ratio"], [["A", "2.3 / 2.1 %", "2", "1.23 [1.00, 2.00]"], ["B", "", "7", ""]])
    with pytest.raises(KeyError, match="row 'C' in new, old"):
        grids.Grid(["new", "old"], {"C": "c"}, {"ms": "{ms.$:.0f}"}).table(page.Results(folder))


def test_a_grid_leaves_out_later_columns_until_a_report_has_them(folder):
    (folder / "new.json").write_text(json.dumps({"metrics": {"ms.a": 1, "ms.b": 2, "ms.newest.b": 3}}))
    one = grids.Grid("new", {"A": "a", "B": "b"}, {"ms": "{ms.$:.0f}"},
                     later={"newest": "{ms.newest.$:.0f}", "never": "{ms.never.$:.0f}"})
    assert one.table(page.Results(folder)) == (["", "ms", "newest"], [["A", "1", ""], ["B", "2", "3"]])


def test_a_number_that_matters_has_its_machine_date_and_commit(folder):
    report = {"date": "2026-11-26T01:02:03Z", "version": "0.1.0 1234567890ab-dirty", "metrics": {"late": 0.5, "p.a": 1, "p.b": 3},
              "machine": {"processor": "AMD EPYC", "instruction_set": "avx2"}}
    (folder / "new.json").write_text(json.dumps(report))
    results = page.Results(folder)
    where = "EPYC, AVX2; 2026-11-26; 1234567+"
    assert matters.Row("late", "new", "{late:%0}", "0: missed").cells(results) == ["late", "50 %", "0: missed", where, "`new`"]
    assert matters.Row("p", "new", matters.span("new", "p.", ".0f")).cells(results)[1] == "1 to 3"
    with pytest.raises(KeyError, match="no metric of 'lost'"):
        matters.Row("lost", "new", "{lost:.0f}").cells(results)


def test_the_corpus_has_a_line_for_what_is_not_native_and_right(folder):
    case = {"status": "right", "error": 1e-6, "latency_ms": 3.0, "onnxruntime_ms": 2.0}
    model = {"kind": "quantised", "verdict": "native", "opaque": [], "cases": [case]}
    (folder / "corpus.json").write_text(json.dumps({"models": {
        "a": {**model, "id": "a.qdq"}, "b": {**model, "id": "b.qdq", "cases": [{**case, "openvino_ms": 1.5}, {**case, "status": "undecided", "openvino_ms": 4.0},
                                                {**case, "openvino_ms": None}]}}}))
    _, text = write(folder, "<!-- table corpus corpus -->\n<!-- end -->")
    assert "2 models: 2 native, 0 opaque, 0 refused, 0 wrong." in text
    assert "**quantised, `.qdq`** (largest error 1e-06): a 1.50, b 1.50*." in text
    assert "- `b.qdq`: 1 of 3 shapes undecided." in text


def test_the_lines_of_a_panel_are_columns(folder):
    _, text = write(folder, "<!-- table series reef-1 0 1 -->\n<!-- end -->")
    assert text.split("\n")[1:-1] == ["| load | a | b |", "| --- | ---: | ---: |", "| 1 | 0.5 |  |", "| 2 | 1,234.5 | 3.0 |"]


def test_check_writes_nothing_and_fails_where_the_page_differs(folder, capsys):
    text = "<!-- table counts -->\nold\n<!-- end -->"
    assert write(folder, text, "--check") == (1, text)
    assert "bench/report/page.py writes it" in capsys.readouterr().err


@pytest.mark.parametrize("text, expected", [
    ("<!-- table nothing -->\n<!-- end -->", "no table 'nothing'; there are figure"),
    ("<!-- table figure reef-2 -->\n<!-- end -->", "no figure 'reef-2'"),
    ("<!-- table counts -->\nno end", "no line '<!-- end -->'"),
    ("<!-- table sensitivity gv100 -->\n<!-- end -->", "sim-gv100-sensitivity.json"),
    ("<!-- table grid nothing -->\n<!-- end -->", "no grid 'nothing'; there are contention"),
    ("<!-- table figure -->\n<!-- end -->", "lacks something"),
])
def test_what_is_wrong_is_named_and_the_page_kept(folder, text, expected, capsys):
    assert write(folder, text) == (1, text)
    assert expected in capsys.readouterr().err
