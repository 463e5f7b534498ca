#!/usr/bin/env python3
"""Breaks the block protocol, the scheduling and the limits of the server on purpose and checks that the tests notice.

Each mutant of tools/mutant_list.py is one exact replacement in one source file. It is applied to a copy
under build/mutants, the first test group named for it (with --every-group: each of them) is built there and
run, and must fail (or hang). A mutant whose text is no longer in the source is an error, so that the list follows
the code. Objects that a mutation does not change are compiled once and linked into all mutants. Several mutants
are built and run in parallel.

Usage: tools/mutants.py [--list | --check] [--every-group] [--sample N [--seed S]] [--jobs N] [NAME ...]      (names: only these)
Exit code: 0 when every mutant is caught, 1 when one survives, 2 when the tests fail without a mutant or a
replacement does not match.
"""

import argparse
import concurrent.futures
import os
import pathlib
import queue
import random
import shutil
import subprocess
import sys
import threading
import time

from mutant_list import GROUPS, MUTANTS, TREE_GROUPS
from source_finder import SourceFinder

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build" / "mutants"
COMPILER = os.environ.get("CXX", "c++")
# The tests compare CUDA's bodies with the CPU's: one instruction set of those is enough.
FLAGS = ["-std=c++20", "-O1", "-pthread", "-w", "-DHWY_COMPILE_ONLY_STATIC", "-isystem", "/usr/include/eigen3"]
# Those that no object needs are not linked.
LIBRARIES = ["-Wl,--as-needed", "-lgmock", "-lgtest", "-lgtest_main", "-lfmt", "-lspdlog", "-lhwy", "-lz", "-lxxhash", "-lboost_context",
             "-lgrpc++"]
# A mutant counts as hanging after this many times the time of the tests without a mutant, and at least
# MIN_TIMEOUT_SECONDS.
TIMEOUT_FACTOR = 10
MIN_TIMEOUT_SECONDS = 20
# Left out: tests whose outcome depends on how busy the machine is.
NOISY = "-*FiftyMicroseconds*"


class Builder:
    """Compiles the test programs without a mutant, and keeps their objects for the mutants."""

    def __init__(self, jobs):
        self.jobs = jobs
        self.base = SCRATCH / "base"
        self.tree = Tree(self, SCRATCH / "tree")
        self.dependencies = {}
        self.sources = {}  # of each group
        self.ccache = [path] if (path := shutil.which("ccache")) else []

    def prepare(self):
        """A fresh copy of the sources, and the test framework's header compiled once."""
        shutil.rmtree(SCRATCH, ignore_errors=True)
        self.tree.copy_sources()
        self.base.mkdir(parents=True)
        header = SCRATCH / "tests.h"
        header.write_text("#include <gtest/gtest.h>\n#include <array>\n#include <functional>\n"
                          "#include <map>\n#include <random>\n#include <thread>\n")
        check([COMPILER, *FLAGS, "-x", "c++-header", str(header), "-o", f"{header}.gch"])

    def build_base(self, groups):
        """Compiles the sources of all groups; each source once. Returns {group: program}."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            def compile_all(names):
                targets = dict(zip(names, pool.map(lambda name: self.tree.compile(name, self.base), names)))
                for name, target in targets.items():
                    self.dependencies[name] = self.tree.read_dependencies(target)

            finder = SourceFinder(compile_all, lambda name: self.object_of(name, self.base), self.dependencies.get)
            self.sources = finder.find({group: GROUPS[group] for group in groups})
            return dict(zip(groups, pool.map(lambda group: self.link(group, self.base, {}), groups)))

    def object_of(self, name, folder):
        return folder / (name.replace("/", "_") + ".o")

    def link(self, group, folder, changed):
        """Links the group's program. `changed`: {source: object} for the sources that a mutant changes."""
        objects = [str(changed.get(name, self.object_of(name, self.base))) for name in self.sources[group]]
        program = folder / group
        check([COMPILER, "-pthread", *objects, *LIBRARIES, "-o", str(program)])
        return program


class WholeTree:
    """A copy of the whole checkout for groups whose program links most of it: CMake builds them, as in the tree asan, so
    that the compiler cache has all objects that a mutation does not change. One mutant at a time."""

    def __init__(self):
        self.source = SCRATCH / "whole"
        self.lock = threading.Lock()

    def prepare(self):
        done = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=True)
        for name in done.stdout.splitlines():
            target = self.source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)

    def build(self, group):
        """Returns the group's command."""
        target, program, words = TREE_GROUPS[group]
        build = self.source / "build" / "asan"
        environment = dict(os.environ, CCACHE_BASEDIR=str(self.source), CCACHE_NOHASHDIR="1")
        check(["cmake", "-S", str(self.source), "-B", str(build), "-G", "Ninja", "-Wno-dev",
               "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_C_COMPILER=clang", "-DLAGOON_SANITIZE=address,undefined",
               "-DLAGOON_UNITY=ON", "-DLAGOON_PYTHON="], environment)
        check(["cmake", "--build", str(build), "--target", target], environment)
        return [str(build / program), *words]

    def attempt(self, mutant, group):
        _, _, file, before, after, _ = mutant
        path = self.source / file
        with self.lock:
            original = path.read_text()
            path.write_text(original.replace(before, after, 1))
            try:
                passed, how, seconds = run_command(self.build(group))
            finally:
                path.write_text(original)
        return group, not passed, how, seconds


class Tree:
    """A copy of the sources that one mutant at a time changes."""

    def __init__(self, builder, source):
        self.builder = builder
        self.source = source
        self.objects = source.with_name(source.name + "-objects")

    def copy_sources(self):
        for folder in ("src", "sim", "bench", "apps"):
            shutil.copytree(ROOT / folder, self.source / folder, ignore=shutil.ignore_patterns("results"))

    def compile(self, name, folder):
        target = self.builder.object_of(name, folder)
        # The compiler cache does not work with a precompiled header.
        test = name.endswith("_test.cc")
        words = ["-include", str(SCRATCH / "tests.h")] if test else []
        check([*([] if test else self.builder.ccache), COMPILER, *FLAGS, *words, "-I", str(self.source / "src"),
               "-I", str(self.source), "-MD", "-c", str(self.source / name), "-o", str(target)])
        return target

    def build(self, group, changed):
        """The group's program; objects that depend on the file `changed` are compiled from this tree."""
        shutil.rmtree(self.objects, ignore_errors=True)
        self.objects.mkdir()
        needed = [name for name in self.builder.sources[group] if changed in self.builder.dependencies[name]]
        return self.builder.link(group, self.objects, {name: self.compile(name, self.objects) for name in needed})

    def read_dependencies(self, target):
        words = target.with_suffix(".d").read_text().replace("\\\n", " ").split()
        marker = f"/{self.source.name}/"  # a compiler cache may have made the path a relative one
        return {word.split(marker, 1)[1] for word in words if marker in word}


def check(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}")


def run_command(command, timeout=900):
    """As run_tests(), for the program of a group of TREE_GROUPS: it says itself what fails."""
    begin = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return False, "hangs", time.monotonic() - begin
    seconds = time.monotonic() - begin
    said = [line for line in done.stdout.splitlines() if " fails: " in line]
    return done.returncode == 0, said[0][:100] if said else f"exit {done.returncode}", seconds


def run_tests(program, timeout=300):
    """(True if all tests passed, the outcome in a few words, seconds)."""
    begin = time.monotonic()
    command = [str(program), "--gtest_fail_fast", f"--gtest_filter={NOISY}"]
    environment = dict(os.environ, LAGOON_TEST_PATIENCE_SECONDS="6")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                              env=environment)
    except subprocess.TimeoutExpired:
        return False, "hangs", time.monotonic() - begin
    seconds = time.monotonic() - begin
    if done.returncode == 0:
        return True, "passes", seconds
    if done.returncode < 0:
        return False, f"killed by signal {-done.returncode}", seconds
    failed = [line.split()[3] for line in done.stdout.splitlines() if line.startswith("[  FAILED  ]")]
    return False, failed[0].split("/Cpu")[0] if failed else f"exit {done.returncode}", seconds


def try_mutant(tree, whole, mutant, timeouts):
    """Applies and tests one mutant. Rows (group, caught, how, seconds)."""
    _, _, file, before, after, groups = mutant
    if groups[0] in TREE_GROUPS:
        return [whole.attempt(mutant, group) for group in groups]
    path = tree.source / file
    original = path.read_text()
    path.write_text(original.replace(before, after, 1))
    rows = []
    try:
        for group in groups:
            passed, how, seconds = run_tests(tree.build(group, file), timeouts[group])
            rows.append((group, not passed, how, seconds))
    finally:
        path.write_text(original)
    return rows


def check_matches(mutants):
    """Checks that the text of every replacement is in its source exactly once."""
    stale = [f"{name}: found {count} times in {file}: {before!r}"
             for name, _, file, before, _, _ in mutants
             if (count := (ROOT / file).read_text().count(before)) != 1]
    for line in stale:
        print(f"replacement does not match: {line}", file=sys.stderr)
    return not stale


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    parser.add_argument("--check", action="store_true",
                        help="only check that every replacement matches its source")
    parser.add_argument("--every-group", action="store_true",
                        help="every group named for a mutant must catch it, not only the first")
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants, drawn by the seed")
    parser.add_argument("--seed", help="seed of the sample (default: the last commit, so that each commit draws others)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at once")
    parser.add_argument("--count", type=pathlib.Path, metavar="FILE",
                        help="write the numbers of caught and of surviving mutants here")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {mutant[0] for mutant in MUTANTS}
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    mutants = [m for m in MUTANTS if not arguments.names or m[0] in arguments.names]
    if arguments.list:
        for name, what, file, _, _, groups in mutants:
            print(f"{name:40} {what} ({file}; caught by {', '.join(groups)})")
        return 0
    if not check_matches(mutants):
        return 2
    if arguments.check:
        return 0
    if not arguments.every_group:
        mutants = [(*mutant[:5], mutant[5][:1]) for mutant in mutants]
    if arguments.sample:  # those of a whole tree take minutes each
        mutants = [mutant for mutant in mutants if mutant[5][0] not in TREE_GROUPS]
    if arguments.sample and arguments.sample < len(mutants):
        seed = arguments.seed or last_commit()
        print(f"{arguments.sample} of {len(mutants)} mutants, drawn by the seed {seed} (the same again: --seed {seed}; "
              "all: ./run mutants)", flush=True)
        mutants = random.Random(seed).sample(mutants, arguments.sample)
    groups = sorted({group for mutant in mutants for group in mutant[5]})
    if arguments.sample:
        groups = sorted({*groups, *GROUPS})  # a group that no longer links fails at the commit that breaks it, not when it is drawn
    survivors = run_all(Builder(arguments.jobs), mutants, groups)
    if survivors is None:
        return 2
    if arguments.count:
        arguments.count.write_text(f"{len(mutants) - len(survivors)} {len(survivors)}\n")
    return 1 if survivors else 0


def last_commit():
    done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    return done.stdout.strip() or "0"


def run_all(builder, mutants, groups):
    """Builds and tests `groups` without a mutant, then tries the mutants. The names of the mutants that survive; None
    when the tests fail without a mutant."""
    begin = time.monotonic()
    builder.prepare()
    timeouts = {}
    whole = WholeTree()
    if any(group in TREE_GROUPS for group in groups):
        whole.prepare()
    for group in (group for group in groups if group in TREE_GROUPS):
        passed, how, seconds = run_command(whole.build(group))
        print(f"{'(no mutant)':40} {group:12} {how} ({seconds:.1f} s)", flush=True)
        if not passed:
            return None
    groups = [group for group in groups if group in GROUPS]
    for group, program in builder.build_base(groups).items():
        passed, how, seconds = run_tests(program)
        print(f"{'(no mutant)':40} {group:12} {how} ({seconds:.1f} s)", flush=True)
        if not passed:
            return None
        timeouts[group] = max(MIN_TIMEOUT_SECONDS, TIMEOUT_FACTOR * seconds)

    trees = queue.SimpleQueue()
    for i in range(builder.jobs):
        tree = Tree(builder, SCRATCH / f"tree-{i}")
        tree.copy_sources()
        trees.put(tree)

    def attempt(mutant):
        tree = trees.get()
        try:
            return try_mutant(tree, whole, mutant, timeouts)
        finally:
            trees.put(tree)

    survivors = []
    with concurrent.futures.ThreadPoolExecutor(builder.jobs) as pool:
        for done, (mutant, rows) in enumerate(zip(mutants, pool.map(attempt, mutants)), start=1):
            for group, caught, how, seconds in rows:
                print(f"[{done}/{len(mutants)}] {mutant[0]:40} {group:12} {'caught' if caught else 'SURVIVED'}: {how} "
                      f"({seconds:.1f} s)", flush=True)
            if not all(caught for _, caught, _, _ in rows):
                survivors.append(mutant[0])
    print(f"{len(mutants)} mutants, {len(survivors)} survived, {time.monotonic() - begin:.0f} s")
    for survivor in survivors:
        print(f"survived: {survivor}", file=sys.stderr)
    return survivors


if __name__ == "__main__":
    sys.exit(main())
