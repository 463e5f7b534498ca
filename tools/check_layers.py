#!/usr/bin/env python3
"""Checks includes, header guards, clocks, and that types have one definition and JSON has one writer.

Includes may only point downwards (docs/design/architecture.md): a file in src/X may include "X/..." and the layers listed for
X. Two definitions of one name outside of anonymous namespaces break the one-definition rule, and neither compiler nor
linker reports it. Lists every violation and exits with status 1 if there is one.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = {
    "base": [],
    "simt": ["base"],
    "device": ["base", "simt"],
    "plan": ["base", "device"],
    "kernels": ["base", "simt", "device", "plan"],
    "graph": ["base", "plan"],
    "program": ["base", "device", "plan", "kernels", "graph"],
    "sched": ["base", "device", "plan"],
    "policies": ["base", "sched"],
    "trace": ["base", "device", "plan", "sched", "policies"],
    "serving": ["base", "device", "plan", "graph", "program", "sched", "policies", "trace"],
    "server": ["base", "plan", "sched", "serving", "device"],
}
# Real clocks belong to base, the devices and the edges: policies and the mechanism take time from the device.
NO_CLOCK = {"sched", "policies", "plan", "graph", "kernels", "simt"}
CLOCK = re.compile(r"\b(?:steady_clock|system_clock|high_resolution_clock)::now|(?<![\w.>:])Now\(\)")
# dump() throws on a string that is not UTF-8: base/json.h has DumpJson(), which does not.
DUMP = re.compile(r"[.>]dump\(")
INCLUDE = re.compile(r'^#include "([^"/]+)/[^"]+"', re.M)


def violations():
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in {".h", ".cc", ".cuh", ".cu"}:
            continue
        layer = path.relative_to(ROOT / "src").parts[0]
        text = path.read_text()
        allowed = {layer, *LAYERS[layer]}
        # Generated protobuf headers are at the top of their layer's build folder.
        for target in INCLUDE.findall(text):
            if target in LAYERS and target not in allowed:
                yield f"{path.relative_to(ROOT)}: src/{layer} must not include from src/{target}"
        is_test = path.stem.endswith(("_test", "_bench")) or "testing" in path.parts
        if "HWY_DYNAMIC_DISPATCH" in text and path.name != "cpu_level.h":
            yield f"{path.relative_to(ROOT)}: LAGOON_DISPATCH chooses a body; Highway's macro does not know LAGOON_CPU"
        if layer in NO_CLOCK and not is_test and CLOCK.search(text):
            yield f"{path.relative_to(ROOT)}: src/{layer} must not read a real clock"
        # Highway includes an -inl.h once per target: such a file has guards of its own.
        if path.suffix in {".h", ".cuh"} and not path.stem.endswith("-inl") and "#pragma once" not in text:
            yield f"{path.relative_to(ROOT)}: no #pragma once"


NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
SCOPE = re.compile(r"\bnamespace(?:\s+([\w:]+))?\s*\{|\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)"
                   r"(?:\s+[A-Z_]+\([^)]*\))?\s+(\w+)(?:\s+final)?\s*(?::(?!:)[^{};()]*)?\{|([{}])")


def types(text):
    """Qualified names of the types that `text` defines in named namespaces; not templates' specialisations."""
    scopes = []  # for each open brace the name of its namespace; None: anonymous, or no namespace
    for found in SCOPE.finditer(NOISE.sub(" ", text)):
        namespace, name, brace = found.groups()
        if brace == "}":
            if scopes:
                scopes.pop()
        elif brace == "{":
            scopes.append(None)
        elif name is None:
            scopes.append(namespace)
        else:
            if None not in scopes:
                yield "::".join([*scopes, name])
            scopes.append(None)


def duplicate_types():
    homes = {}
    for folder in ("src", "apps", "bench"):
        for path in sorted((ROOT / folder).rglob("*")):
            # Types of test programs are left out: types of different programs cannot clash.
            if path.suffix in {".h", ".cc", ".cuh"} and not path.stem.endswith(("_test", "_bench")):
                for name in types(path.read_text()):
                    homes.setdefault(name, []).append(str(path.relative_to(ROOT)))
    for name, paths in sorted(homes.items()):
        if len(paths) > 1:
            yield f"{name} is defined more than once: {', '.join(paths)}"


def throwing_dumps():
    for folder in ("src", "apps", "bench"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix in {".h", ".cc"} and not path.stem.endswith("_test") and name != "src/base/json.h":
                if DUMP.search(NOISE.sub(" ", path.read_text())):
                    yield f"{name}: dump() throws on what is not UTF-8; use DumpJson of base/json.h"


def self_test():
    assert DUMP.search(NOISE.sub(" ", "x = json.dump(2);")) and not DUMP.search(NOISE.sub(" ", "// json.dump()"))
    text = """namespace a { struct X { struct In {}; }; namespace { class Y {}; } enum class E : int { k }; class X;
        // class Z {};
        void f() { struct Local {}; } class W final : public X { }; const char* s = "struct Q {"; }"""
    assert list(types(text)) == ["a::X", "a::E", "a::W"], list(types(text))


def main():
    self_test()
    found = [*violations(), *duplicate_types(), *throwing_dumps()]
    print("\n".join(found) or f"layers: {len(LAYERS)} layers, no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
