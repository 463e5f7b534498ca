#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over our sources with the compile commands of a build folder.

Usage: tidy.py [--build DIR] [FILE...]

Most of clang-tidy's time goes to the headers of libraries. Sources are therefore checked in batches, each included by
one file: sources with the same compile command that do not declare the same name. If a batch has findings, the sources
that they name are checked alone. A clean file is not checked again until its content, a header of ours that it
includes, its flags, .clang-tidy or clang-tidy itself changes. Clean results are kept in the user's cache folder, so
that other checkouts use them too.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH = 12
# Names that a file defines at the start of a line: functions and constants, then types, aliases and macros.
NAMES = re.compile(r"^(?!return|using|namespace|class|struct|enum|#|//)[\w][\w:<>,*&\[\]() ]*?[ *&](\w+)(?:\(|\{| =|\[|;)", re.M)
TYPES = re.compile(r"^(?:struct|class|enum class|using|#define) (\w+)", re.M)
# The file of a finding in clang-tidy's output.
FINDING = re.compile(r"^(/[^:\n]+):\d+:\d+: (?:error|warning):", re.M)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def cache_folder():
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "lagoon" / "tidy"


def closure(path, roots, known):
    """The file and our headers that it includes, directly or not. `known` caches results."""
    if path not in known:
        known[path] = {path}  # set first, as headers may include each other
        for name in INCLUDE.findall(path.read_text()):
            for root in (path.parent, *roots):
                if (root / name).is_file():
                    known[path] = known[path] | closure(root / name, roots, known)
                    break
    return known[path]


def digest(words, paths):
    state = hashlib.sha256("\0".join(words).encode())
    for path in sorted(paths):
        state.update(b"\0" + str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return state.hexdigest()


def flags_of(entry):
    """The compile command without the source and its output."""
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if "clang++" in word) + 1:]
    kept, skip = [], False
    for word in words:
        if skip or word in ("-o", "-MF", "-MT"):
            skip = not skip
        elif word not in ("-c", "-MD") and word != entry["file"]:
            kept.append(word)
    return tuple(kept)


def names_in(text):
    return set(NAMES.findall(text)) | set(TYPES.findall(text)) - {"lagoon"}


def batches_of(files, flags):
    """Lists of files that can be compiled together."""
    batches = []
    for path in files:
        text = path.read_text()
        alone = "foreach_target.h" in text  # includes itself
        names = names_in(text)
        for batch in batches:
            if (not alone and not batch["alone"] and batch["flags"] == flags[path] and
                    len(batch["files"]) < BATCH and not names & batch["names"]):
                break
        else:
            batch = {"files": [], "names": set(), "flags": flags[path], "alone": alone}
            batches.append(batch)
        batch["files"].append(path)
        batch["names"] |= names
    return [batch["files"] for batch in batches]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/tidy")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    build = ROOT / arguments.build
    commands = json.loads((build / "compile_commands.json").read_text())
    flags = {pathlib.Path(entry["file"]): flags_of(entry) for entry in commands}
    folders = [ROOT / name for name in ("src", "sim", "apps", "bench")]
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True).stdout
    common = digest([version], [ROOT / ".clang-tidy"])
    scratch = build / "batches"
    scratch.mkdir(exist_ok=True)
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    known = {}
    wanted = {(ROOT / name).resolve() for name in arguments.files}

    def stamp(path):
        # Without this checkout's path in the flags, so that other checkouts get the same stamp.
        words = [common, *(word.replace(str(ROOT), "") for word in flags[path])]
        return cache / digest(words, closure(path, (ROOT / "src", ROOT), known))

    # Tests have their own idioms, and generated code is not ours.
    files = [path for path in sorted(flags) if any(folder in path.parents for folder in folders)
             and not path.stem.endswith(("_test", "_bench")) and (not wanted or path in wanted)]
    unknown = [path for path in files if not stamp(path).exists()]

    def tidy(path, *words):
        return subprocess.run(["clang-tidy", "--quiet", str(path), "--", *flags[path], *words],
                              capture_output=True, text=True, cwd=build)

    def check(batch):
        """[(file, findings)] for the files with findings."""
        if len(batch) == 1:
            result = tidy(batch[0])
            if result.returncode != 0:
                return [(batch[0], result.stdout)]
        else:
            together = scratch / f"batch-{digest([], batch)[:16]}.cc"
            together.write_text("// NOLINTBEGIN(bugprone-suspicious-include)\n" +
                                "".join(f'#include "{path}"\n' for path in batch) +
                                "// NOLINTEND(bugprone-suspicious-include)\n")
            flags[together] = flags[batch[0]]
            result = tidy(together, "-w")  # -w: compiler warnings come from the builds
            together.unlink()
            if result.returncode != 0:
                named = {pathlib.Path(name) for name in FINDING.findall(result.stdout)}
                suspects = [path for path in batch if path in named]
                if named <= set(batch) and suspects:
                    for path in set(batch) - named:
                        stamp(path).touch()
                    return [finding for path in suspects for finding in check([path])]
                half = len(batch) // 2  # a header, or sources that do not compile together
                return check(batch[:half]) + check(batch[half:])
        for path in batch:
            stamp(path).touch()
        return []

    batches = batches_of(unknown, flags)
    done = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for batch, findings in zip(batches, pool.map(check, batches)):
            done += len(batch)
            print(f"\r[{done}/{len(unknown)}] {batch[-1].relative_to(ROOT)}\033[K", end="", flush=True)
            failed += len(findings)
            for path, output in findings:
                print(f"\n{path.relative_to(ROOT)}:\n{output}")
    print(f"\r{len(files)} files, {len(files) - len(unknown)} known, {len(batches)} batches, {failed} with findings\033[K")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
