"""Every command that README and docs name exists and has the options that they give it; the benchmarks of
docs/results/benchmarks.md run at their shortest settings."""

import functools
import re
import shlex
import sys

import pytest

from conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
REPOSITORY = ROOT / "models" / "repository"
# `lagoon` of the Python package, which has a command more than the program.
OF_THE_WHEEL = {"fleet"}
WORKER = ("--python", sys.executable, "--comparator-worker", ROOT / "bench" / "comparators" / "comparator_worker.py")
DIGITS_FILE = REPOSITORY / "digits" / "1" / "model.onnx"
DIGITS = {"--zoo": REPOSITORY, "--models": "digits"}
# What makes each benchmark as short as it can be: options that replace those of the page, and flags (None).
SHORT = {
    "models": {**DIGITS, "--rounds": 1, "--seconds": 0.01, "--no-onnxruntime": None, "--batches": 1},
    "contention": {"--zoo": REPOSITORY, "--realtime": "digits", "--best-effort": "digits", "--requests": 10, "--windows": 1,
                   "--schedulers": "lagoon", "--no-onnxruntime": None},
    "overhead": {"--zoo": REPOSITORY, "--model": "digits", "--requests": 10},
    "footprint": DIGITS,
    "memory": {**DIGITS, "--no-onnxruntime": None},
    "outputs": {**DIGITS, "--revocations": 1, "--no-onnxruntime": None, "--device": "cpu"},
    "figures": {"--only": "paella-1"},
    "sim": {"--rounds": 1, "--seconds": 0.01},
    "decision": {"--rounds": 1, "--seconds": 0.05},
    "admission": {"--rounds": 1, "--requests": 10, "--clients": 1},
    "reload": {"--loads": 3, "--shapes": 5, "--minutes": 0.02, "--clients": 8},
    "robot": {"--realtime": DIGITS_FILE, "--background": DIGITS_FILE, "--systems": "lagoon:reset", "--rate": 200, "--seconds": 0.3,
              "--trials": 1},
    "isolation": {"--rounds": 20, "--windows": 1, "--workers": 2},
    "cluster-sim": {"--gpus": 4, "--seconds": 1},
    "placement": {"--gpus": 4, "--loads": 1, "--seeds": 1, "--seconds": 3, "--placers": "lagoon"},
}
# On simulated GPUs.
SHORT_SIM = {
    "disb": {"--requests": 10, "--windows": 1, "--schedulers": "reef", "--workload": "A"},
    "shares": {"--seconds": 3},
    "split": {"--requests": 10, "--seeds": 1, "--scenarios": 1, "--schedulers": "split"},
}
# Benchmarks of models that take minutes at any setting: bench_test.py runs them, with small models. Here they end by the
# models that are missing, which they say after they have checked all options.
LONG = {"batching", "shares", "instances", "disb", "split", "interference", "fleet", "shapes"}
# Benchmarks that need what this test does not have, and what runs them.
ELSEWHERE = {"generate": "bench_test.py", "onnx-nodes": "onnx_nodes_test.py", "in-process": "bench_in_process_test.py", "guards": "gpu_bench_test.cc", "machinery": "gpu_bench_test.cc"}


def commands_of(text):
    """The commands of a page: lines of code blocks, and code between backticks, that begin with `lagoon` or `./run`."""
    blocks = re.findall(r"^```.*?\n(.*?)^```", text, re.M | re.S) + re.findall(r"(?:^ {4,}\S.*\n)+", text, re.M)
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").split("\n")]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    lines += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    found = []
    for line in lines:
        line = re.split(r"\s#|\s[|>&]|;", line.removeprefix("$ "))[0].strip()
        if re.match(r"(lagoon|\./run) [a-z]", line):
            found.append(line)
    return found


def all_commands():
    return sorted({(str(page.relative_to(ROOT)), command) for page in PAGES for command in commands_of(page.read_text())})


def words_of(command):
    try:
        return shlex.split(command)
    except ValueError:  # a quote that ends on another line of the page
        return command.split()


def options_in(words):
    return {match[1] for word in words if (match := re.match(r"\[?(--[a-z][a-z0-9-]*)", word))}


@functools.cache
def run_commands():
    text = (ROOT / "run").read_text()
    return set(re.findall(r"^run_([a-z_]+)\(\)", text, re.M))


@functools.cache
def help_of(binary, words):
    import subprocess
    result = subprocess.run([binary, *words, "--help"], capture_output=True, text=True, check=False, timeout=60)
    return result.stdout if result.returncode == 0 else None


def lagoon_words(command):
    """The words after `lagoon` of a command of `lagoon` or of `./run`; None if `./run` does not start lagoon."""
    words = words_of(command)
    if words[0] == "lagoon":
        return words[1:]
    return words[1:] if words[1] in ("bench", "serve", "infer") else None


def test_commands_are_found():
    text = "a `lagoon bench\nsim` b\n```sh\n./run models  # the five\nlagoon serve --models D | head\n```\n\n    lagoon infer m\n"
    assert commands_of(text) == ["./run models", "lagoon serve --models D", "lagoon infer m", "lagoon bench sim"]
    assert len(all_commands()) > 80


@pytest.mark.parametrize("page, command", all_commands())
def test_a_command_exists_and_has_its_options(page, command, lagoon):
    words = lagoon_words(command)
    if words is None:
        name = words_of(command)[1]
        assert name.replace("-", "_") in run_commands(), f"{page}: ./run has no command '{name}'"
        return
    if words[0] in OF_THE_WHEEL:
        return
    depth = 2 if words[0] in ("bench", "train") and len(words) > 1 and re.fullmatch("[a-z][a-z-]*", words[1]) else 1
    text = help_of(lagoon.binary, tuple(words[:depth]))
    assert text is not None, f"{page}: there is no command 'lagoon {' '.join(words[:depth])}'"
    for option in options_in(words[depth:]):
        assert re.search(rf"{re.escape(option)}\b(?!-)", text), f"{page}: '{command}': there is no {option}"


def benchmarks():
    text = (ROOT / "docs" / "results" / "benchmarks.md").read_text()
    return sorted({command for command in commands_of(text) if command.startswith(("lagoon bench ", "./run bench "))})


def shortened(words, options):
    """The words with the options in place of their own; the report and the plot are left out."""
    kept, skip = [], False
    for index, word in enumerate(words):
        if skip:
            skip = False
        elif word in ("--json", "--plot") or word in options:
            skip = index + 1 < len(words) and not words[index + 1].startswith("--") and options.get(word, "") is not None
        elif word not in ("--all", "--sweep"):
            kept.append(word)
    for option, value in options.items():
        kept += [option] if value is None else [option, str(value)]
    return kept


@pytest.mark.parametrize("command", benchmarks())
def test_a_benchmark_of_the_page_runs(command, lagoon, tmp_path):
    words = lagoon_words(command)
    name = words[1]
    simulated = any(word.startswith("sim:") or word in ("--tune", "--sweep") for word in words)
    if name in ELSEWHERE:
        pytest.skip(f"only its options are checked here; it runs in {ELSEWHERE[name]}")
    if name in LONG and not simulated:
        result = lagoon.run(*words, "--zoo", tmp_path)
        assert result.returncode == 1 and "makes what is missing" in result.stderr, result.stderr
        return
    short = (SHORT_SIM if simulated else SHORT).get(name)
    assert short is not None, f"'{command}': say in this test how to run it quickly, or where it runs"
    result = lagoon.run(*shortened(words, short), "--json", tmp_path / "report.json")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "report.json").exists()
