#!/usr/bin/env python3
"""Runs all simulated benchmarks at one revision, and writes bench/results, docs/images and the pages of results from them.

Usage: redraw.py LAGOON [--python FILE] [--only GLOB] [--jobs N]

LAGOON is a program that was built from a clean revision: the files name it. Takes some an hour of core time. The
numbers are the same on any machine, but for reef-26, inss-19 and the times of decisions, which are real ones.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import page

ROOT = page.ROOT
DISB = ("disb", "--workload", "all", "--schedulers", "reef,lagoon,streams", "--clients", "newest")
CPU_DISB = ("disb", "--workload", "all", "--schedulers", "lagoon,lagoon:padding_ahead=1,reset,streams", "--requests",
            "2000")
SPLIT = ("split", "--schedulers",
         "split,split:elastic=0,split-whole,clockwork,clockwork:admit_by_deadline=0,prema,prema-kernel,rt-a,rt-a:together=0,"
         "lagoon,lagoon-ratio")
# The files of bench/results, each with the words of `lagoon bench` that write it.
RUNS = {
    "sim-figures.json": ("figures",),
    "sim-figures-quick.json": ("figures", "--effort", "0.02"),
    "sim-disb-mi50.json": (*DISB, "--device", "sim:mi50"),
    "sim-disb-gv100.json": (*DISB, "--device", "sim:gv100"),
    "sim-disb-sharing.json": ("disb", "--workload", "all", "--schedulers", "streams,wait,tally,hummingbird,lithos,reset", "--clients",
                              "newest", "--device", "sim:gv100"),
    **{f"sim-disb-cpu{cores}.json": (*CPU_DISB, "--device", f"sim:cpu{cores}") for cores in (2, 4, 8)},
    **{f"sim-{gpu}-sensitivity.json": ("disb", "--device", f"sim:{gpu}", "--sensitivity", "--requests", "300")
       for gpu in ("gv100", "mi50")},
    "sim-split.json": (*SPLIT, "--seeds", "6", "--scenarios", "1,3,6"),
    "sim-split-sweep.json": (*SPLIT, "--seeds", "1", "--scenarios", "1", "--reading", "one-process", "--sweep"),
    "sim-placement.json": ("placement", "--paper-baselines", "--threads", "2"),
    "sim-share-tuning.json": ("shares", "--tune"),
    "sim-share-tuning-hold-1.json": ("shares", "--tune", "--hold-down", "1"),
}
# Files with figures that the pages show.
DRAWN = ("sim-figures.json", "sim-split-sweep.json", "sim-split.json", "sim-share-tuning.json")


def quick(report):
    """What CI compares: the figures without what is measured in real time (tests/figures_test.py)."""
    return {"figures": [figure for figure in report["figures"] if figure["name"] not in REAL_TIME]}


REAL_TIME = ("reef-26", "inss-19")


def check(lagoon):
    """Refuses a program that was built from sources which are not committed: nobody else could repeat its figures."""
    version = subprocess.run([lagoon, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    if "-dirty" in version:
        raise page.PageError(f"{lagoon} was built from a revision with changes ({version}): commit them, build again")


def run(lagoon, name, words):
    """Runs one benchmark; returns its report."""
    path = ROOT / "bench" / "results" / name
    result = subprocess.run([lagoon, "bench", *words, "--json", path], stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        raise page.PageError(f"{name}: {result.stderr.strip().splitlines()[-1]}")
    if name == "sim-figures-quick.json":
        report = json.loads(path.read_text())
        # A line for each figure: short, and a difference shows where it is.
        lines = ",\n".join(json.dumps(figure, sort_keys=True) for figure in quick(report)["figures"])
        path.write_text(f'{{"figures": [\n{lines}\n]}}\n')
    return name


def draw(python, reports):
    """Draws the reports, and keeps the pictures that a page shows."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *page.PAGES]
    shown = set(re.findall(r"images/([\w.-]+\.svg)", "\n".join(page.read_text() for page in pages)))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, str(ROOT / "bench" / "plots" / "plot.py"), *reports, "--out", folder], check=True)
        for picture in pathlib.Path(folder).iterdir():
            if picture.name in shown:
                shutil.copy(picture, ROOT / "docs" / "images")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lagoon")
    parser.add_argument("--python", default=sys.executable, help="with matplotlib")
    parser.add_argument("--only", default="*", help="files of bench/results to write")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    chosen = {name: words for name, words in RUNS.items() if fnmatch.fnmatch(name, arguments.only)}
    try:
        check(arguments.lagoon)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for name in pool.map(lambda item: run(arguments.lagoon, *item), chosen.items()):
                print(name, flush=True)
        drawn = [str(ROOT / "bench" / "results" / name) for name in DRAWN if name in chosen]
        if drawn:
            draw(arguments.python, drawn)
    except (page.PageError, subprocess.CalledProcessError) as error:
        print(f"redraw.py: {error}", file=sys.stderr)
        return 1
    return page.main([])


if __name__ == "__main__":
    sys.exit(main())
