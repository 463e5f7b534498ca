#!/usr/bin/env python3
"""Compiles the CUDA entry kernels and holds them to their budget of registers and spills.

Usage: cuda_budget.py [--nvcc PATH] [--write] [--nvrtc PATH]
The budget is src/kernels/cuda/budget.json. For each architecture and entry it has the largest number of registers, and
of bytes of spill stores and loads, that the compiler may report; --write replaces the budget by the present report.
--nvrtc compiles the same source with that library instead, as the server does on a machine with a GPU, with no headers
but ours. Errors (exit status 1): the compiler fails, an entry exceeds the budget, is missing, or is not in the budget.
"""
import argparse
import ctypes
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/kernels/cuda/bodies/entries.cu"
SUITE = ROOT / "src/device/cuda/testing/suite_bodies.cuh"  # the conformance suite's bodies, for a GPU
BUDGET = ROOT / "src/kernels/cuda/budget.json"
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\d+)\w?'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
# The parts of the standard library that our plain-data headers use, for a compiler without a standard library.
SHIMS = {"cstdint": "#pragma once\nnamespace std { using uint8_t = unsigned char; using uint32_t = unsigned int; }\n"}


def parse(report):
    """{architecture: {entry: {registers, spill_stores, spill_loads}}}. An entry's spills come before its line "Used ...
    registers"; the lines of functions that the entry calls come after it."""
    found, current = {}, None
    for line in report.splitlines():
        if match := ENTRY.search(line):
            current = found.setdefault(match[2], {}).setdefault(match[1], {})
        elif (match := SPILLS.search(line)) and current is not None and not current:
            current.update(spill_stores=int(match[1]), spill_loads=int(match[2]))
        elif (match := REGISTERS.search(line)) and current is not None:
            current.setdefault("registers", int(match[1]))
    return found


def compile_with_nvcc(nvcc):
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for name in ARCHITECTURES:
            command = [nvcc, f"-arch={name}", "-std=c++20", "-cubin", "-Xptxas", "-v", "-Werror", "all-warnings",
                       "-I", str(ROOT / "src"), "-o", f"{folder}/{name}.cubin", str(SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(command)}\n{done.stderr[-4000:]}")
            found.update(parse(done.stderr))
        return found


def over(found, budget):
    for name in sorted({*found, *budget}):
        for entry in sorted({*found.get(name, {}), *budget.get(name, {})}):
            got, most = found.get(name, {}).get(entry), budget.get(name, {}).get(entry)
            if got is None or most is None:
                yield f"{name} {entry}: {'not compiled' if got is None else 'not in the budget'}"
                continue
            for what in sorted({*got, *most}):
                if what not in got or what not in most or got[what] > most[what]:
                    yield f"{name} {entry}: {what} {got.get(what)}, the budget is {most.get(what)}"


def headers(source):
    """{name in the #include: text} of every header that the source includes, directly or not."""
    found = dict(SHIMS)
    queue = [source.read_text()]
    while queue:
        for name in re.findall(r'^#include ["<]([^">]+)[">]', queue.pop(), re.M):
            path = ROOT / "src" / name
            if name in found or not path.exists() or name.startswith("simt/"):
                continue
            found[name] = path.read_text()
            queue.append(found[name])
    return found


def compile_with_nvrtc(library, source):
    nvrtc = ctypes.CDLL(library)
    included = headers(source)
    count = len(included)
    names = (ctypes.c_char_p * count)(*(name.encode() for name in included))
    texts = (ctypes.c_char_p * count)(*(text.encode() for text in included.values()))
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), source.name.encode(), count, texts, names) == 0
    options = [b"-arch=sm_90", b"-std=c++20"]
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    cubin = ctypes.c_size_t()
    if status == 0:
        assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(cubin)) == 0
    return status, cubin.value, log.value.decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--nvrtc")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.nvrtc:
        wrong = 0
        for source in (SUITE, SOURCE):
            status, size, log = compile_with_nvrtc(arguments.nvrtc, source)
            print(log[-4000:], f"nvrtc: {source.name}: status {status}, {size} bytes for sm_90")
            wrong += status != 0 or size == 0
        return 1 if wrong else 0
    found = compile_with_nvcc(arguments.nvcc)
    if arguments.write:
        BUDGET.write_text(json.dumps(found, indent=2) + "\n")
    problems = list(over(found, json.loads(BUDGET.read_text())))
    for name, entries in found.items():
        for entry, got in entries.items():
            print(f"{name:7} {entry:15} {got}")
    print("\n".join(problems) or "budget: held")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
