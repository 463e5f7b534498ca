"""docs/reference: the committed pages are what the code says, on every machine."""

import os
import re
import subprocess

import pytest

from conftest import ROOT

FOLDER = ROOT / "docs" / "reference"


@pytest.fixture(name="pages", scope="module")
def fixture_pages(lagoon, tmp_path_factory):
    """The pages as the programs write them, in another home and at another level than usual: {name: text}."""
    folder = tmp_path_factory.mktemp("reference")
    environment = {**os.environ, "HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache"),
                   "LAGOON_CPU": "portable"}
    for words in (["reference"], ["bench", "reference"]):
        subprocess.run([lagoon.binary, *words, "--docs", folder], check=True, env=environment)
    return {path.name: path.read_text() for path in folder.glob("*.md")}


def test_the_committed_pages_are_what_the_code_says(pages):
    committed = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    assert sorted(pages) == sorted(committed)
    for name, text in pages.items():
        assert text == committed[name], f"run `./run reference` and look at the change of {name}"


def test_every_command_and_option_of_the_help_is_on_the_page(lagoon, pages):
    help_of_all = lagoon.run("--help-all").stdout
    for option in set(re.findall(r"^\s+(?:-\w,)?(--[\w-]+)", help_of_all, re.M)) - {"--help", "--help-all", "--version"}:
        assert re.search(rf"`(?:-\w,)?{option}[`,]", pages["command-line.md"]), option
    for command in re.findall(r"^  lagoon ([\w-]+)", help_of_all, re.M):
        assert re.search(rf"^## lagoon {command}\b", pages["command-line.md"], re.M), command


def test_no_page_names_this_machine(pages):
    for name, text in pages.items():
        assert str(ROOT) not in text and "/tmp/" not in text and os.path.expanduser("~/") not in text, name


def test_the_command_is_for_developers_and_says_why_it_fails(lagoon, tmp_path):
    assert "reference" not in lagoon.run("--help").stdout
    result = lagoon.run("reference", "--docs", tmp_path / "missing")
    assert result.returncode == 1 and "cannot write" in result.stderr and "missing" in result.stderr
