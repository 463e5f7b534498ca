#!/usr/bin/env python3
"""Writes the tables of the pages of results from the JSON files of the benchmarks.

Usage: page.py [--page FILE]... [--results DIR] [--check]

A table stands between a line "<!-- table NAME [WORDS] -->" and a line "<!-- end -->"; what stands between them is
replaced, everything else is kept. Tables:
- figure NAME [GLOB...]: the numbers of a figure beside the paper's (sim-figures.json), and the findings that fit a glob
- counts [figures]: how many numbers of each paper, or of each figure, are reproduced, and how many are inputs
- series NAME PANEL DIGITS: the lines of a panel of a figure
- disb, sharing, claims, cpu, cpu-check, sensitivity, split-jitter, split-systems, split-saved, placement-blocks, placement-loads: tables.py
- grid NAME, fleet: grids.py
- matters SECTION: matters.py
- corpus FILE...: the models of the corpus, each from the last file that has it
With --check nothing is written, and the exit status is 1 if the page is not what would be written.
"""

import argparse
import collections
import fnmatch
import json
import pathlib
import re
import sys

import grids
import matters
import tables

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*(ROOT / "docs" / "results" / name for name in ("numbers.md", "reproduction.md")),
         *(ROOT / "bench" / "results" / name for name in ("figures.md", "tables.md"))]
BEGIN, END = re.compile(r"<!-- table (\S+)((?: \S+)*) -->"), "<!-- end -->"


class PageError(Exception):
    """The page or a file of results cannot be used; the text says why."""


class Results:
    """The JSON files of a folder, each read once."""

    def __init__(self, folder):
        self.folder, self.read = folder, {}

    def __getitem__(self, name):
        if name not in self.read:
            path = self.folder / name
            try:
                self.read[name] = json.loads(path.read_text())
            except (OSError, ValueError) as error:
                raise PageError(f"{path}: {error}") from error
        return self.read[name]

    def figure(self, name):
        for figure in self["sim-figures.json"]["figures"]:
            if figure["name"] == name:
                return figure
        raise PageError(f"sim-figures.json has no figure '{name}'")


def number(value):
    """Four digits, without an exponent."""
    if value is None:
        return ""
    if isinstance(value, list):
        return " to ".join(map(number, value))
    return f"{value:.0f}" if abs(value) >= 1000 else f"{float(value):.4g}"


def off(entry):
    if entry["off_percent"] is None:
        return "–" if entry["verdict"] == "not reproduced" else "0 %"
    if entry["off_percent"] == 0:
        return "0 %"
    return f"{entry['off_percent']:+.0f} %"


def table_of(head, rows):
    """A table. Columns of numbers are aligned to the right, the first column and words to the left."""
    words = {"verdict", "paper's text", "measured", "target", "machine; date; commit", "file"}
    ruler = ["---" if index == 0 or name in words else "---:" for index, name in enumerate(head)]
    return ["| " + " | ".join(map(str, line)) + " |" for line in (head, ruler, *rows)]


def figure_table(results, words):
    figure = results.figure(words[0])
    rows = [[entry["metric"], number(entry["paper"]), number(entry["got"]), off(entry), entry["verdict"]]
            for entry in figure["paper"]]
    for metric, got in figure["findings"]:
        if any(fnmatch.fnmatchcase(metric.replace(" ", "_"), glob) for glob in words[1:]):
            rows.append([metric, "", number(got), "", ""])
    if not rows:
        raise PageError(f"figure '{words[0]}' has no number and no finding that fits {words[1:]}")
    return table_of(["", "paper", "we", "off", "verdict"], rows)


KINDS = (("set", "set"), ("reproduced", "reproduced within 25 %"), ("direction only", "direction only"),
         ("not reproduced", "not reproduced"))


PAPERS = {"reef": "REEF", "paella": "Paella", "gslice": "GSLICE", "inss": "InSS"}


def counts_table(results, words):
    """How many numbers have which verdict: of each paper, or with the word `figures` of each figure."""
    counts = {}
    for figure in results["sim-figures.json"]["figures"]:
        paper, _, name = figure["name"].partition("-")
        row = " ".join([PAPERS[paper], *([name.replace("table-", "Table ")] if words else [])])
        for entry in figure["paper"]:
            kind = next((name for name, _ in KINDS if entry["verdict"].startswith(name)), None)
            if kind is None:
                raise PageError(f"{figure['name']}: '{entry['metric']}' has the verdict '{entry['verdict']}'")
            counts.setdefault(row, collections.Counter())[kind] += 1
    rows = [[row, *(kinds[name] for name, _ in KINDS)] for row, kinds in counts.items()]
    return table_of(["", *(title for _, title in KINDS)], rows)


TABLES = {"figure": figure_table, "counts": counts_table, "corpus": tables.corpus,
          **{name: lambda results, words, make=make: table_of(*make(results, words))
             for name, make in {**tables.TABLES, "grid": grids.grid, "fleet": grids.fleet,
                               "matters": matters.numbers}.items()}}


def write_page(text, results):
    """The page with its tables written anew."""
    lines, out = iter(text.split("\n")), []
    for line in lines:
        out.append(line)
        match = BEGIN.fullmatch(line)
        if not match:
            continue
        if match[1] not in TABLES:
            raise PageError(f"there is no table '{match[1]}'; there are {', '.join(TABLES)}")
        try:
            out += TABLES[match[1]](results, match[2].split())
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise PageError(f"table '{match[1]}{match[2]}' lacks something: {error!r}") from error
        if END not in lines:  # skips the lines up to it
            raise PageError(f"after '{line}' there is no line '{END}'")
        out.append(END)
    return "\n".join(out)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", type=pathlib.Path, action="append", help="by default all pages of results")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page would change")
    arguments = parser.parse_args(words)
    results = Results(arguments.results)
    try:
        for page in arguments.page or PAGES:
            before = page.read_text()
            after = write_page(before, results)
            if arguments.check and before != after:
                raise PageError(f"{page} is not what its results say; bench/report/page.py writes it")
            if not arguments.check:
                page.write_text(after)
    except (PageError, OSError) as error:
        print(f"page.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
