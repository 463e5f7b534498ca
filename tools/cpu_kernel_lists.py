#!/usr/bin/env python3
"""Measures models of the zoo on one worker and writes the kernel lists of simulated CPUs (bench/sim/cpu_kernel_lists.cc).

Usage: cpu_kernel_lists.py [--lagoon PROGRAM] [--zoo FOLDER] [--rounds N] [--add MODEL,...]

A kernel's time is the least of the rounds' medians, so that what disturbs one round does not count. Every later figure of a
simulated CPU changes with the lists: write them only to replace them for good. --add keeps the lists that there are.
"""

import argparse
import json
import pathlib
import re
import subprocess
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "bench" / "sim" / "cpu_kernel_lists.cc"
MODELS = ("resnet18", "googlenet", "squeezenet1_1", "bert_tiny", "mobilenet_v2", "vgg19", "resnet152")


def measure(lagoon, folder, rounds):
    """The kernels of a model: blocks, dependencies, and the least time of a block in ns."""
    kernels, best = None, None
    for _ in range(rounds):
        line = [lagoon, "inspect", folder, "--profile", "15", "--workers", "1", "--json"]
        kernels = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)["kernels"]
        times = [max(1, round(1e3 * kernel["block_us"])) for kernel in kernels]
        best = times if best is None else list(map(min, best, times))
    return [(kernel["blocks"], time, kernel["deps"]) for kernel, time in zip(kernels, best)]


def written(model, kernels):
    words = []
    for index, (blocks, time, deps) in enumerate(kernels):
        usual = deps == ([index - 1] if index else [])
        words.append(f"{blocks}x{time}" + ("" if usual else ":" + ",".join(map(str, deps))))
    lines = textwrap.wrap(" ".join(words), 90)
    return f'    CpuList{{"{model}",\n' + " \"\n".join(f'        "{line}' for line in lines) + '"},\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lagoon", default=ROOT / "build" / "release" / "apps" / "lagoon")
    parser.add_argument("--zoo", type=pathlib.Path, default=ROOT / "models" / "zoo")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--add", default="", help="measure only these models, and add them to the lists")
    arguments = parser.parse_args()
    added = [model for model in arguments.add.split(",") if model]
    text = TABLE.read_text()
    if again := [model for model in added if f'CpuList{{"{model}"' in text]:
        parser.error(f"there is a list of {', '.join(again)}")
    lists = "".join(written(model, measure(arguments.lagoon, arguments.zoo / model, arguments.rounds)) for model in added or MODELS)
    text = re.sub(r"(constexpr std::array kCpuLists\{\n)(.*?)(\};\n)",
                  lambda match: match[1] + (match[2] if added else "") + lists + match[3], text, flags=re.DOTALL)
    TABLE.write_text(text)


if __name__ == "__main__":
    main()
