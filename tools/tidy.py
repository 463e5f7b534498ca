#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over our sources with the compile commands of a build folder.

Usage: tidy.py [--build DIR] [FILE...]. A file whose result is known (same content of the file, of every header of ours
and of .clang-tidy) is not looked at again.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def digest(paths):
    state = hashlib.sha256()
    for path in paths:
        state.update(str(path).encode() + b"\0" + path.read_bytes())
    return state.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/asan")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    build = ROOT / arguments.build
    commands = json.loads((build / "compile_commands.json").read_text())
    folders = [ROOT / name for name in ("src", "apps", "bench")]
    headers = sorted(path for folder in folders for path in folder.rglob("*.h"))
    common = digest([ROOT / ".clang-tidy", *headers])
    cache = build / "tidy"
    cache.mkdir(exist_ok=True)
    wanted = {(ROOT / name).resolve() for name in arguments.files}
    files = sorted({pathlib.Path(entry["file"]) for entry in commands})
    # Tests have their own idioms, and generated code is not ours.
    files = [path for path in files if any(folder in path.parents for folder in folders)
             and not path.stem.endswith(("_test", "_bench")) and (not wanted or path in wanted)]

    def check(path):
        stamp = cache / hashlib.sha256((common + digest([path])).encode()).hexdigest()
        if stamp.exists():
            return path, 0, ""
        result = subprocess.run(["clang-tidy", "-p", str(build), "--quiet", str(path)],
                                capture_output=True, text=True)
        if result.returncode == 0:
            stamp.touch()
        return path, result.returncode, result.stdout
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (path, code, output) in enumerate(pool.map(check, files), 1):
            print(f"\r[{number}/{len(files)}] {path.relative_to(ROOT)}\033[K", end="", flush=True)
            if code != 0:
                failed += 1
                print(f"\n{output}")
    print(f"\r{len(files)} files, {failed} with findings\033[K")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
