#!/usr/bin/env python3
"""Checks that includes point only downwards (docs/architecture.md) and that a header is self-named.

A file in src/X may include "X/..." and the layers listed for X. Exit status 1 lists every violation.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = {
    "base": [],
    "device": ["base"],
    "plan": ["base", "device"],
    "kernels": ["base", "device"],
    "graph": ["base", "plan"],
    "program": ["base", "device", "plan", "kernels", "graph"],
    "sched": ["base", "device", "plan"],
    "policies": ["base", "sched"],
    "serving": ["base", "device", "plan", "graph", "program", "sched", "policies"],
    "server": ["base", "plan", "sched", "serving", "device"],
}
# Real clocks belong to base, the devices and the edges: policies and the mechanism take time from the device.
NO_CLOCK = {"sched", "policies", "plan", "graph", "kernels"}
CLOCK = re.compile(r"\b(?:steady_clock|system_clock|high_resolution_clock)::now|(?<![\w.>:])Now\(\)")
INCLUDE = re.compile(r'^#include "([^"/]+)/[^"]+"', re.M)


def violations():
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in {".h", ".cc"}:
            continue
        layer = path.relative_to(ROOT / "src").parts[0]
        text = path.read_text()
        allowed = {layer, *LAYERS[layer]}
        # Generated protobuf headers lie at the top of their layer's build folder.
        for target in INCLUDE.findall(text):
            if target in LAYERS and target not in allowed:
                yield f"{path.relative_to(ROOT)}: src/{layer} must not include from src/{target}"
        is_test = path.stem.endswith(("_test", "_bench")) or "testing" in path.parts
        if layer in NO_CLOCK and not is_test and CLOCK.search(text):
            yield f"{path.relative_to(ROOT)}: src/{layer} must not read a real clock"
        # Highway includes its -inl.h once per target, with guards of its own.
        if path.suffix == ".h" and not path.stem.endswith("-inl") and "#pragma once" not in text:
            yield f"{path.relative_to(ROOT)}: no #pragma once"


def main():
    found = list(violations())
    print("\n".join(found) or f"layers: {len(LAYERS)} layers, no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
