#!/usr/bin/env python3
"""Checks how the code is cut into folders, and what a file of a folder may include.

FOLDERS below is the one place that says what each folder may include. src/README.md is the one place that
says what each folder is for. A check here is a function that takes the sources below a root folder and yields violations.
self_test() breaks every check on purpose. The script lists all violations and exits with status 1 if there is one.

`tools/check_layers.py --folders` prints every folder with its number of files and its sentence.
"""
import argparse
import dataclasses
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "src/README.md"
CODE = {".h", ".cc", ".cuh", ".cu"}
TOPS = ("src", "sim", "bench", "apps")
MAX_FILES = 40

# Files that lie in a folder together with files that stand above its sub-folders: the sub-folders include only these.
KERNEL = ("kernels/activation.h kernels/checks.h kernels/cpu_level.h kernels/image_window.h kernels/kernel.h "
          "kernels/spread.h kernels/strided.h kernels/tiling.h kernels/window.h")
EDGE = "server/telemetry/traceparent.h server/descriptors.h server/error_map.h server/io_pool.h server/memory_budget.h server/stages.h server/regions server/tensors"
# What the host and the GPU share: code for the host includes no other header of CUDA C++.
HOST_CUDA = "device/cuda/gpu/types.cuh device/cuda/gpu/grid_params.cuh"
HOST_BODIES = "kernels/cuda/bodies/args.cuh"
# The specs of the ops, which both the CPU's and the GPU's kernels are made from.
SPECS = ("kernels/conv kernels/elementwise kernels/lines kernels/move kernels/nbits kernels/select kernels/sequence "
         "kernels/window")

# What the files of each folder may include besides files of their own folder: folders, without their sub-folders, or
# single files. Names are as in an include. A folder that is not here may not have sources.
FOLDERS = {
    "base": "",
    "base/compress": "base",
    "base/net": "base",
    "simt": "base",
    "learn": "base",
    "device": "base",
    "device/host": "base device",
    "device/cpu": "base device device/host",
    "device/cuda": f"base device device/host device/cuda/driver {HOST_CUDA}",
    "device/cuda/driver": "base device",
    "device/cuda/gpu": "base/time.h simt",
    "device/conformance": "base device",
    "plan": "base device",
    "kernels": f"base device plan {SPECS} kernels/conv/bf16/bf16_unit.h",
    "kernels/simd": "kernels/cpu_level.h kernels/tiling.h",
    "kernels/conv": f"base device plan {KERNEL} kernels/simd kernels/conv/bf16/conv2d_bf16.h "
                    "kernels/window/window_ops.h",
    "kernels/conv/bf16": f"base device plan {KERNEL} kernels/simd kernels/conv",
    "kernels/conv/int8": f"base device plan {KERNEL} kernels/simd kernels/conv/bf16/tiles_x86.h kernels/elementwise/byte_add.h",
    "kernels/elementwise": f"base plan {KERNEL} kernels/simd",
    "kernels/lines": f"base plan {KERNEL} kernels/simd kernels/elementwise",
    "kernels/select": f"base plan {KERNEL} kernels/simd kernels/elementwise",
    "kernels/move": f"base device plan {KERNEL} kernels/simd kernels/elementwise",
    "kernels/nbits": f"base device plan {KERNEL} kernels/simd",
    "kernels/sequence": f"base plan {KERNEL} kernels/simd kernels/conv/int8",
    "kernels/window": f"base device plan {KERNEL} kernels/simd",
    "kernels/cuda": f"base device/cuda/driver plan kernels {SPECS} kernels/cuda/make {HOST_BODIES}",
    "kernels/cuda/bodies": "device/cuda/gpu kernels/image_window.h kernels/elementwise/unary_functions.h plan/elementwise_list.h",
    "kernels/cuda/make": f"base plan {KERNEL} {SPECS} kernels/cuda/kernel.h {HOST_BODIES}",
    "engine": "base device/block.h plan",
    "graph": "base engine plan",
    "graph/opaque": "base engine graph graph/import/tensor_import.h plan",
    "graph/import": "base engine plan graph graph/functions graph/opaque graph/ops graph/fuse/normalize_softmax.h",
    "graph/functions": "base graph",
    "graph/ops": "base plan graph graph/control/walk.h graph/expand/expand.h graph/import/attributes.h graph/import/tensor_import.h "
                 "graph/fold/evaluate.h",
    "graph/expand": "base plan graph graph/ops graph/import/tensor_import.h",
    "graph/control": "base plan graph graph/opaque graph/ops",
    "graph/cut": "base plan graph graph/import",
    "graph/fold": "base plan graph graph/ops",
    "graph/fuse": "base plan graph graph/ops",
    "program": "base engine device device/cpu device/cuda plan graph kernels kernels/cuda program/lower program/link",
    "program/lower": "base engine plan graph graph/opaque graph/ops/einsum.h kernels kernels/conv "
                     "kernels/conv/int8 kernels/elementwise/byte_add.h kernels/elementwise/byte_table.h kernels/move/transpose.h "
                     "kernels/nbits kernels/sequence kernels/window/byte_pool.h",
    "program/link": "base device plan graph program/lower",
    "program/profile": "base device plan kernels/cpu_level.h kernels/peak.h program program/link program/split",
    "program/split": "base plan",
    "sched": "base device plan sched/late sched/minimum",
    "sched/caller": "base device plan sched",
    "sched/late": "base sched",
    "sched/minimum": "base device plan sched",
    "sched/programs": "base device plan sched",
    "policies": "base sched",
    "cluster": "base",
    "cluster/interference": "base cluster",
    "cluster/placement": "base cluster cluster/interference cluster/learned/learned_placer.h",
    "cluster/learned": "base learn cluster cluster/interference cluster/placement",
    "sim/device": "base device device/host",
    "sim/surfaces": "base cluster",
    "sim/interference": "base cluster cluster/interference",
    "sim/placement": "base cluster cluster/interference cluster/learned cluster/placement",
    "sim/cluster": "base cluster cluster/interference cluster/placement sim/interference sim/placement sim/surfaces",
    "sim/learn": "base learn",
    "sim/training": "base learn cluster cluster/interference cluster/learned cluster/placement sim/learn sim/surfaces",
    "trace": "base device plan sched",
    "local": "base device engine graph plan policies program program/profile sched sched/caller trace local/plans",
    "capi": "base local plan sched",
    "local/plans": "base device plan program program/profile sched",
    "ort": "base graph local plan program sched",
    "ort/loader": "ort",
    "serving": "base device engine plan policies program program/profile sched trace serving/config serving/core serving/late serving/model "
               "local/plans serving/python serving/request serving/shares",
    "serving/config": "base cluster plan sched",
    "serving/core": "base cluster device plan policies sched",
    "serving/late": "base sched serving/core trace",
    "serving/batch": "base cluster serving/config serving/core",
    "serving/python": "base plan serving/core",
    "serving/model": "base cluster device engine plan program program/profile program/split sched sched/programs serving/batch "
                     "serving/config serving/core local/plans serving/python",
    "serving/request": "base cluster plan program sched serving/batch serving/config serving/core serving/late "
                       "serving/model local/plans serving/python serving/shares",
    "serving/shares": "base cluster device device/host serving/config serving/core trace",
    "serving/fleet": "base base/net cluster cluster/interference cluster/placement policies program serving serving/config serving/core "
                     "serving/fleet/routes serving/model",
    "serving/fleet/routes": "base serving/core",
    "client": "",
    "server": "base plan policies sched serving/config serving/core server/telemetry server/tensors server/regions server/extensions server/edge server/http server/fleet server/generate server/shares "
              "server/channel/channel_edge.h server/grpc/grpc_edge.h",
    "server/channel": f"base client plan serving/core {EDGE} server/http/http_infer_codec.h",
    "server/tensors": "base plan serving/core",
    "server/regions": "base plan serving/core server/tensors",
    "server/extensions": "base serving/core server server/http server/regions",
    "server/fleet": "base serving/config serving/core server server/http",
    "server/generate": "base plan serving/core server server/edge server/http server/tensors",
    "server/telemetry": "base base/net plan sched serving/config serving/core",
    "server/shares": "base cluster serving/core server server/http",
    "server/remote": f"base base/net plan serving/config serving/core {EDGE} server/edge server/http server/grpc server/shares",
    "server/edge": f"base base/compress serving/core {EDGE}",
    "server/http": f"base base/compress plan serving/core {EDGE} server/edge",
    "server/grpc": f"base plan serving/core {EDGE} server/edge server/extensions/server_settings.h server/fleet/repository.h server/oip_json.h server/unserved.h",
    "bench": "base sched bench/measure bench/report",
    "bench/report": "base kernels/cpu_level.h",
    "bench/measure": "base bench/report",
    "bench/client": "base client device graph plan program program/link program/profile program/split sched server/grpc serving serving/core",
    "bench/fleet": "base cluster/placement program serving serving/core serving/fleet sim/cluster sim/placement bench/client bench/measure bench/report",
    "bench/live": "base client device plan policies program program/profile/machine_rates.h server serving serving/core trace bench bench/client bench/measure bench/process bench/report",
    "bench/process": "base device plan program bench/client bench/measure bench/report",
    "bench/reload": "base plan server/grpc bench/client bench/measure bench/report",
    "bench/robot": "base graph plan serving/core bench/client bench/measure bench/report",
    "bench/in_process": "base bench/client bench/measure bench/report bench/robot",
    "bench/host": "base device device/cpu plan policies sched bench/measure bench/report",
    "bench/sim": "base cluster device plan policies sched sim/cluster sim/device sim/surfaces bench bench/measure bench/report",
    "bench/import": "base device sim/device bench/sim",
    "bench/placement": "base cluster/interference cluster/placement sim/cluster sim/interference sim/placement bench/measure bench/report",
    "bench/papers": "base bench/placement cluster cluster/interference cluster/placement device policies sim/cluster sim/interference sim/placement sim/surfaces bench/measure bench/report bench/shares bench/sim",
    "bench/shares": "base cluster device plan policies program sched serving serving/shares sim/cluster sim/device sim/interference sim/surfaces trace bench "
                    "bench/client bench/measure bench/report bench/sim",
    "bench/split": "base device plan policies program program/split sched sim/device bench/client bench/measure bench/report bench/sim",
    "bench/gpu": f"base device device/cuda device/cuda/driver {HOST_CUDA} device/cuda/gpu/entry.cuh plan program kernels/cuda "
                 "bench/client bench/measure bench/report",
    "apps/serving": "base apps cluster/interference cluster/placement policies program server server/remote serving serving/core serving/fleet "
                    "serving/late server/telemetry",
    "apps/reference": "apps program/profile server serving/config",
    "apps/bench": "base apps apps/reference device kernels/cpu_level.h learn/weights.h plan policies program cluster bench/client bench/fleet bench/gpu bench/host bench/in_process bench/live bench/papers bench/process "
                  "bench/import bench/placement bench/reload bench/report bench/robot bench/shares bench/sim bench/split sim/device sim/placement sim/training",
    "apps/inspect": "base kernels/cpu_level.h plan program/profile/machine_rates.h",
    "apps": "base cluster engine device device/host device/cuda/driver plan kernels/cpu_level.h graph graph/cut graph/import program "
            "program/link/host_tensors.h program/profile program/split policies trace serving/core serving/model/repository.h serving/fleet server "
            "apps/inspect apps/reference apps/serving bench/report",
}
# Besides, the tests of a folder may include the folders above and below their own, every testing/ and conformance/, the
# layers that their folder stands on, and these folders.
TESTS = {
    "apps/inspect": "device engine/testing graph/testing policies program program/link program/testing sched",
    "cluster": "sim/surfaces",
    "cluster/learned": "sim/training",
    "cluster/placement": "sim/cluster sim/placement",
    "learn": "sim/learn",
    "sched": "sim/device sim/device/testing",
    "device/cuda": "simt",
    "kernels/cuda": "simt",
    "trace": "policies",
    "bench/sim": "bench/papers",
}

# Layers whose folders have an order: none may include, straight or by way of others, a folder that includes it.
ORDERED = ("serving",)

# Real clocks belong to base, the devices and the edges: policies and the mechanism take time from the device, cluster
# from its callers.
NO_CLOCK = {"sched", "policies", "cluster", "plan", "graph", "kernels", "simt", "sim"}
CLOCK = re.compile(r"\b(?:steady_clock|system_clock|high_resolution_clock)::now|(?<![\w.>:])Now\(\)")
# dump() throws on a string that is not UTF-8: base/json.h has DumpJson(), which does not.
DUMP = re.compile(r"[.>]dump\(")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include "([^"]+)"', re.M)
TEST_LIBRARY = re.compile(r"^[ \t]*#[ \t]*include <(gtest|gmock|benchmark)/", re.M)
TEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P|INSTANTIATE_TEST_SUITE_P)\(", re.M)
ROW = re.compile(r"^\| `([\w/]+?)/?` \| (.+?) \|$", re.M)
HELPERS = {"testing", "conformance"}


@dataclasses.dataclass(frozen=True)
class Source:
    """A file of C++ and its place."""
    path: str  # from the root
    text: str

    @property
    def name(self):
        """The file as an include names it."""
        return self.path.removeprefix("src/")

    @property
    def folder(self):
        return parent(self.name)

    @property
    def layer(self):
        return layer(self.folder)

    @property
    def suffix(self):
        return pathlib.PurePosixPath(self.path).suffix

    @property
    def is_test(self):
        """A test or benchmark program, or a helper of tests."""
        return is_program_of_tests(self.path) or is_helper_of_tests(self.path)


def parent(name):
    return name.rpartition("/")[0]


def layer(name):
    return name.split("/")[0]


def is_program_of_tests(path):
    return pathlib.PurePosixPath(path).stem.endswith(("_test", "_bench"))


def is_helper_of_tests(path):
    return bool(HELPERS & set(parent(path).split("/")))


def sources(root):
    """The sources below TOPS of `root`."""
    found = (path for top in TOPS for path in sorted((root / top).rglob("*")) if path.suffix in CODE)
    return [Source(str(path.relative_to(root)), path.read_text()) for path in found]


def folders(root):
    """Every folder of TOPS that has files, and the number of files directly in it."""
    counts = {}
    for top in TOPS:
        for path in (root / top).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and not is_result(path.relative_to(root)):
                folder = str(path.parent.relative_to(root))
                counts[folder] = counts.get(folder, 0) + 1
    return dict(sorted(counts.items()))


def is_result(path):
    """Results have a folder for each machine. These folders hold data, so no rule is about them."""
    return path.parts[:2] == ("bench", "results") and len(path.parts) > 3


# ---- What a file may include.

def owner(folder):
    """The folder whose entries hold for `folder`: a testing/ belongs to the folder around it."""
    parts = folder.split("/")
    return "/".join(parts[:parts.index("testing")]) if "testing" in parts else folder


def allowed(source, target):
    """Whether `source` may include the file `target`."""
    home = owner(source.folder)
    places = {home, *FOLDERS.get(home, "").split()}
    if {target, parent(target)} & places:
        return True
    return source.is_test and allowed_in_a_test(home, parent(target), places)


def allowed_in_a_test(home, folder, places):
    """Whether the tests of folder `home` may include from `folder`. `places`: where the folder's other files include from."""
    below = {layer(place) for place in places} - {layer(home)} | set(TESTS.get(home, "").split())
    if layer(folder) in below or folder in below:
        return True
    inside = layer(folder) == layer(home)
    return inside and (f"{folder}/".startswith(f"{home}/") or f"{home}/".startswith(f"{folder}/") or is_helper_of_tests(f"{folder}/x"))


def includes(files):
    """Each source with each include of a file of this repository."""
    layers = {layer(folder) for folder in FOLDERS}
    for source in files:
        for target in INCLUDE.findall(source.text):
            if layer(target) in layers or "/" not in target or target.startswith("."):
                yield source, target


def wrong_includes(files):
    for source, target in includes(files):
        if "/" not in target or target.startswith("."):
            yield f'{source.path} includes "{target}": includes name the path from src/ or from the root; write that path'
        elif not allowed(source, target):
            rule = ", ".join(FOLDERS.get(owner(source.folder), "").split()) or "no other folder"
            yield (f'{source.path} includes "{target}": {owner(source.folder)} may include only {rule}. Move what both need '
                   "into one of these, or pass it in from above; FOLDERS in tools/check_layers.py has the rules")


def test_helpers_in_production(files):
    for source, target in includes(files):
        if is_helper_of_tests(target) and not source.is_test:
            yield (f'{source.path} includes "{target}": only tests and helpers of tests include from testing/ and '
                   "conformance/. Move the header out of there if the product needs it")


def simulators_in_the_server(files):
    for source, target in includes(files):
        serves = source.path.startswith("src/") or source.layer == "apps" and source.folder != "apps/bench"
        if serves and not source.is_test and layer(target) == "sim":
            yield (f'{source.path} includes "{target}": no product code of src, and no command but those of lagoon-bench (apps/bench), '
                   "includes from sim/. Move what both need into src")


def cuda_in_host_code(files):
    shared = {*HOST_CUDA.split(), *HOST_BODIES.split()}
    for source, target in includes(files):
        of_host = source.suffix in {".h", ".cc"} and not source.is_test
        if of_host and target.endswith((".cuh", ".cu")) and target not in shared and parent(target) != source.folder:
            yield (f'{source.path} includes "{target}": code for the host includes of CUDA C++ only {", ".join(sorted(shared))}. '
                   "Move what host and GPU share into one of these")


# ---- What stands in a file.

def clocks(files):
    for source in files:
        of_no_clock = source.layer in NO_CLOCK and source.folder != "sim/device"  # which is a clock itself
        if of_no_clock and not source.is_test and CLOCK.search(source.text):
            yield f"{source.path}: {source.layer} must not read a real clock; take the time from the device"


def foreign_dispatch(files):
    for source in files:
        if "HWY_DYNAMIC_DISPATCH" in source.text and source.name != "kernels/cpu_level.h":
            yield f"{source.path}: Highway's macro does not know LAGOON_CPU; choose a body with LAGOON_DISPATCH"


def unguarded_headers(files):
    for source in files:
        # Highway includes an -inl.h once per target: such a file has guards of its own.
        is_header = source.suffix in {".h", ".cuh"} and not source.path.endswith("-inl.h")
        if is_header and "#pragma once" not in source.text:
            yield f"{source.path}: no #pragma once; add it at the top"


def throwing_dumps(files):
    for source in files:
        in_scope = source.suffix in {".h", ".cc"} and not source.path.endswith("_test.cc") and source.name != "base/json.h"
        if in_scope and DUMP.search(NOISE.sub(" ", source.text)):
            yield f"{source.path}: dump() throws on what is not UTF-8; use DumpJson of base/json.h"


def empty_tests(files):
    for source in files:
        if source.path.endswith("_test.cc") and not TEST.search(source.text):
            yield f"{source.path}: no TEST in it; a helper of tests has another name and lies in testing/"


def homeless_helpers(files):
    for source in files:
        if TEST_LIBRARY.search(source.text) and not source.is_test:
            yield f"{source.path}: includes a library for tests; a helper of tests lies in testing/ or conformance/"


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


def duplicate_types(files):
    """Two definitions of one name break the one-definition rule, and neither compiler nor linker reports it."""
    homes = {}
    for source in files:
        # Types of test programs are left out: types of different programs cannot clash.
        if source.suffix != ".cu" and not is_program_of_tests(source.path):
            for name in types(source.text):
                homes.setdefault(name, []).append(source.path)
    for name, paths in sorted(homes.items()):
        if len(paths) > 1:
            yield f"{name} is defined more than once: {', '.join(paths)}; rename one, or share one definition"


# ---- The folders and the page about them.

def unknown_folders(files, root):
    """Folders of sources without an entry in FOLDERS, and entries without a folder or file."""
    homes = {source.folder for source in files}
    for home in sorted({owner(folder) for folder in homes} - set(FOLDERS)):
        yield f"{home}: the folder has sources, but no entry in FOLDERS of tools/check_layers.py; add what it may include"
    for folder, rule in FOLDERS.items():
        if folder not in homes:
            yield f"FOLDERS has {folder}, which is no folder of sources; remove the entry or write the right name"
        for place in rule.split():
            known = place in FOLDERS if "." not in place else (root / "src" / place).is_file()
            if not known:
                yield f"FOLDERS lets {folder} include {place}, which does not exist; remove the name or write the right one"


def circles(rules):
    """Folders of an ordered layer from which the rules lead back to the folder itself."""
    for folder in rules:
        if layer(folder) not in ORDERED:
            continue
        reached, left = set(), [folder]
        while left:
            for place in rules[left.pop()].split():
                place = parent(place) if "." in place else place
                if layer(place) == layer(folder) and place not in reached:
                    reached.add(place)
                    left.append(place)
        if folder in reached:
            yield f"FOLDERS leads from {folder} back to {folder}; take out of the circle what both sides need, into a folder below"


def full_folders(counts):
    for folder, count in counts.items():
        if count > MAX_FILES and folder != "bench/results":
            yield f"{folder}: {count} files directly in it, more than {MAX_FILES}; cut the folder by what its files are for"


def sentences(page):
    """The rows of the page's tables of folders: name and sentence."""
    return ROW.findall(page)


def wrong_rows(root, counts, page):
    rows = sentences(page)
    names = [name for name, _ in rows]
    for folder in counts:
        if folder != "src" and folder not in names:
            yield f"{PAGE}: no row for the folder {folder}; add one with its sentence"
    for name in sorted(set(names)):
        if not (root / name).is_dir():
            yield f"{PAGE}: the row {name} names no folder; remove it or write the right name"
        if names.count(name) > 1:
            yield f"{PAGE}: the folder {name} has {names.count(name)} rows; leave one"


def unlisted_python_tests(root):
    listed = set(re.findall(r"lagoon_python_test\((\w+)", (root / "tests/CMakeLists.txt").read_text()))
    for path in sorted((root / "tests").glob("*_test.py")):
        if path.name.removesuffix("_test.py") not in listed:
            yield f"tests/{path.name}: never runs; add a lagoon_python_test for it to tests/CMakeLists.txt"


# ---- All checks, and the proof that each of them can fail.

FILE_CHECKS = [wrong_includes, test_helpers_in_production, simulators_in_the_server, cuda_in_host_code, clocks, foreign_dispatch, unguarded_headers,
               throwing_dumps, empty_tests, homeless_helpers, duplicate_types]


def violations(root):
    files, counts = sources(root), folders(root)
    for check in FILE_CHECKS:
        yield from check(files)
    yield from unknown_folders(files, root)
    yield from circles(FOLDERS)
    yield from full_folders(counts)
    yield from wrong_rows(root, counts, (root / PAGE).read_text())
    yield from unlisted_python_tests(root)


# For each check files that break it, and files that do not. A file is its path and its text; an include alone is written
# as its path in quotes.
CASES = [
    (wrong_includes, {"src/base/a.cc": '"plan/plan.h"'}, {"src/plan/a.cc": '"base/a.h"'}),
    (wrong_includes, {"src/plan/a.cc": '"plan.h"'}, {"src/plan/a.cc": '"plan/plan.h"'}),
    (wrong_includes, {"src/plan/a.cc": '"../base/a.h"'}, {"src/plan/a.cc": '"onnx/onnx_pb.h"'}),
    (wrong_includes, {"src/device/host/a.h": '"device/cpu/cpu_device.h"'}, {"src/device/cpu/a.h": '"device/host/a.h"'}),
    (wrong_includes, {"src/device/host/a.h": '"sim/device/a.h"'}, {"sim/device/a.h": '"device/host/a.h"'}),
    (wrong_includes, {"src/device/host/a.h": '"device/cuda/driver/a.h"'}, {"src/device/cuda/a.h": '"device/cuda/driver/a.h"'}),
    (wrong_includes, {"src/device/cuda/a.h": '"device/cpu/cpu_device.h"'}, {"src/device/cuda/a.h": '"device/device.h"'}),
    (wrong_includes, {"src/device/cuda/a_test.cc": '"device/cpu/cpu_device.h"'}, {"src/device/cuda/a_test.cc": '"simt/emulator.h"'}),
    (wrong_includes, {"src/device/cuda/a.h": '"simt/emulator.h"'}, {"src/device/cuda/testing/a.h": '"simt/emulator.h"'}),
    (wrong_includes, {"sim/device/a.h": '"device/cuda/cuda_device.h"'}, {"sim/device/a.h": '"device/observer.h"'}),
    (wrong_includes, {"src/device/cuda/driver/a.h": '"device/cuda/cuda_device.h"'}, {"src/device/cuda/driver/a.h": '"base/a.h"'}),
    (wrong_includes, {"src/device/cuda/gpu/a.cuh": '"device/block.h"'}, {"src/device/cuda/gpu/a.cuh": '"device/cuda/gpu/isa.cuh"'}),
    (wrong_includes, {"src/device/cuda/a.h": '"device/cuda/gpu/entry.cuh"'}, {"src/device/cuda/a.h": '"device/cuda/gpu/types.cuh"'}),
    (wrong_includes, {"src/device/conformance/a.h": '"device/cpu/a.h"'}, {"src/device/cpu/a_test.cc": '"device/conformance/a.h"'}),
    (wrong_includes, {"src/kernels/simd/a.h": '"kernels/kernel.h"'}, {"src/kernels/simd/a.h": '"kernels/tiling.h"'}),
    (wrong_includes, {"src/kernels/conv/a.h": '"kernels/kernel_maker.h"'}, {"src/kernels/conv/a.h": '"kernels/kernel.h"'}),
    (wrong_includes, {"src/kernels/elementwise/a.h": '"kernels/move/a.h"'}, {"src/kernels/move/a.h": '"kernels/elementwise/a.h"'}),
    (wrong_includes, {"src/kernels/lines/a.h": '"kernels/sequence/a.h"'}, {"src/kernels/sequence/a.h": '"kernels/simd/a.h"'}),
    (wrong_includes, {"src/kernels/window/a.h": '"kernels/conv/a.h"'}, {"src/kernels/conv/a.h": '"kernels/window/window_ops.h"'}),
    (wrong_includes, {"src/kernels/conv/a.h": '"kernels/cuda/a.h"'}, {"src/kernels/cuda/a.h": '"kernels/conv/a.h"'}),
    (wrong_includes, {"src/kernels/cuda/bodies/a.cuh": '"kernels/kernel.h"'}, {"src/kernels/cuda/bodies/a.cuh": '"device/cuda/gpu/isa.cuh"'}),
    (wrong_includes, {"src/kernels/cuda/make/a.h": '"kernels/cuda/op_program.h"'}, {"src/kernels/cuda/a.h": '"kernels/cuda/make/a.h"'}),
    (wrong_includes, {"src/graph/fuse/a.h": '"graph/fold/evaluate.h"'}, {"src/graph/ops/a.h": '"graph/fold/evaluate.h"'}),
    (wrong_includes, {"src/graph/a.h": '"graph/ops/infer.h"'}, {"src/graph/ops/a.h": '"graph/graph.h"'}),
    (wrong_includes, {"src/graph/fuse/a.h": '"kernels/kernel.h"'}, {"src/graph/fuse/a.h": '"plan/tensor.h"'}),
    (wrong_includes, {"src/program/lower/a.h": '"program/link/a.h"'}, {"src/program/link/a.h": '"program/lower/a.h"'}),
    (wrong_includes, {"src/program/lower/a.h": '"kernels/cuda/kernel.h"'}, {"src/program/a.h": '"kernels/cuda/a.h"'}),
    (wrong_includes, {"src/program/a.h": '"program/profile/a.h"'}, {"src/program/a_test.cc": '"program/profile/a.h"'}),
    (wrong_includes, {"apps/inspect/a.h": '"program/link/a.h"'}, {"apps/inspect/a.h": '"plan/plan.h"'}),
    (wrong_includes, {"src/sched/a.h": '"sched/programs/waitlist.h"'}, {"src/sched/programs/a.h": '"sched/job.h"'}),
    (wrong_includes, {"src/sched/a_test.cc": '"policies/registry.h"'}, {"src/trace/a_test.cc": '"policies/registry.h"'}),
    (wrong_includes, {"src/serving/config/a.h": '"serving/core/inference.h"'}, {"src/serving/a.h": '"serving/config/model_config.pb.h"'}),
    (wrong_includes, {"src/serving/core/a.h": '"serving/model/a.h"'}, {"src/serving/model/a.h": '"serving/core/inference.h"'}),
    (wrong_includes, {"src/server/a.h": '"serving/open_core.h"'}, {"src/server/a.h": '"serving/core/inference.h"'}),
    (wrong_includes, {"src/server/http/a.h": '"server/grpc/grpc_edge.h"'}, {"src/server/a.h": '"server/grpc/grpc_edge.h"'}),
    (wrong_includes, {"src/server/grpc/a.h": '"server/http/http_message.h"'}, {"src/server/a.h": '"server/http/http_message.h"'}),
    (wrong_includes, {"src/server/http/a.h": '"server/server.h"'}, {"src/server/http/a.h": '"server/stages.h"'}),
    (wrong_includes, {"bench/report/a.h": '"bench/measure/a.h"'}, {"bench/measure/a.h": '"bench/report/a.h"'}),
    (wrong_includes, {"bench/live/a.h": '"bench/sim/a.h"'}, {"bench/live/a.h": '"bench/client/a.h"'}),
    (wrong_includes, {"bench/sim/a.h": '"bench/papers/a.h"'}, {"bench/papers/a.h": '"bench/sim/a.h"'}),
    (wrong_includes, {"bench/client/a.h": '"bench/gpu/a.h"'}, {"bench/gpu/a.h": '"bench/client/a.h"'}),
    (wrong_includes, {"src/serving/a.h": '"bench/report/a.h"'}, {"apps/a.h": '"bench/report/a.h"'}),
    (test_helpers_in_production, {"src/plan/a.h": '"base/testing/a.h"'}, {"src/plan/a_test.cc": '"base/testing/a.h"'}),
    (test_helpers_in_production, {"src/device/cpu/a.cc": '"device/conformance/suite.h"'}, {"src/device/testing/a.h": '"device/testing/b.h"'}),
    (simulators_in_the_server, {"src/cluster/a.h": '"sim/cluster/a.h"'}, {"src/cluster/a_test.cc": '"sim/cluster/a.h"'}),
    (simulators_in_the_server, {"apps/a.cc": '"sim/device/a.h"'}, {"apps/bench/a.cc": '"sim/device/a.h"'}),
    (cuda_in_host_code, {"bench/gpu/a.h": '"device/cuda/gpu/entry.cuh"'}, {"bench/gpu/a.cuh": '"device/cuda/gpu/entry.cuh"'}),
    (cuda_in_host_code, {"src/kernels/cuda/a.cc": '"kernels/cuda/bodies/conv.cuh"'}, {"src/kernels/cuda/a.cc": f'"{HOST_BODIES.split()[0]}"'}),
    (clocks, {"src/sched/a.cc": "auto t = std::chrono::steady_clock::now();"}, {"src/sched/a_test.cc": "auto t = Now();"}),
    (clocks, {"src/graph/fuse/a.cc": "x = Now();"}, {"src/device/cpu/a.cc": "x = Now();"}),
    (foreign_dispatch, {"src/kernels/a.cc": "HWY_DYNAMIC_DISPATCH(F)();"}, {"src/kernels/a.cc": "LAGOON_DISPATCH(F)();"}),
    (unguarded_headers, {"src/base/a.h": "int a;"}, {"src/base/a.h": "#pragma once\nint a;", "src/base/a-inl.h": "int a;"}),
    (throwing_dumps, {"apps/a.cc": "x = json.dump(2);"}, {"apps/a.cc": "// json.dump()", "apps/a_test.cc": "x = json.dump();"}),
    (empty_tests, {"src/base/a_test.cc": "int x;"}, {"src/base/a_test.cc": "TEST_P(A, B) {}"}),
    (homeless_helpers, {"src/base/a.h": "#include <gtest/gtest.h>"}, {"src/base/testing/a.h": "#include <gtest/gtest.h>"}),
    (homeless_helpers, {"bench/sim/a.cc": "#include <benchmark/benchmark.h>"}, {"bench/sim/a_bench.cc": "#include <benchmark/benchmark.h>"}),
    (duplicate_types, {"src/base/a.h": "namespace n { struct A {}; }", "apps/b.cc": "namespace n { class A {}; }"},
     {"src/base/a.h": "namespace n { struct A {}; }", "apps/b.cc": "namespace n { namespace { class A {}; } }"}),
]


def in_folder(files, check):
    """The result of `check` for a temporary root with `files`: from their path to their text."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"#include {text}\n" if text.startswith('"') else text)
        return list(check(root))


def self_test():
    self_test_types()
    for check, bad, good in CASES:
        found = in_folder(bad, lambda root: check(sources(root)))
        assert len(found) == 1, (check.__name__, bad, found)
        assert not in_folder(good, lambda root: check(sources(root))), (check.__name__, good)
    assert {check for check, _, _ in CASES} == set(FILE_CHECKS), "a check has no case that breaks it"
    self_test_circles()
    self_test_folders()
    self_test_rows()
    self_test_python_tests()


def self_test_types():
    text = """namespace a { struct X { struct In {}; }; namespace { class Y {}; } enum class E : int { k }; class X;
        // class Z {};
        void f() { struct Local {}; } class W final : public X { }; const char* s = "struct Q {"; }"""
    assert list(types(text)) == ["a::X", "a::E", "a::W"], list(types(text))


def self_test_circles():
    rules = {"serving": "base serving/a", "serving/a": "serving/b", "serving/b": "base", "base": "", "graph": "graph/x", "graph/x": "graph"}
    assert not list(circles(rules)), list(circles(rules))
    assert len(list(circles({**rules, "serving/b": "serving/c.h"}))) == 3


def self_test_folders():
    def check(root):
        return unknown_folders(sources(root), root)

    whole = {f"{'' if layer(folder) in TOPS else 'src/'}{folder}/a.h": "" for folder in FOLDERS}
    whole |= {f"src/{place}": "" for rule in FOLDERS.values() for place in rule.split() if "." in place}
    assert not in_folder(whole, check), in_folder(whole, check)
    assert len(in_folder({**whole, "src/base/extra/a.h": ""}, check)) == 1  # a folder without an entry
    lone = {path: text for path, text in whole.items() if parent(path) != "src/policies"}
    assert any("FOLDERS has policies" in line for line in in_folder(lone, check))  # an entry without a folder
    less = {path: text for path, text in whole.items() if path != "src/graph/fold/evaluate.h"}
    assert any("include graph/fold/evaluate.h" in line for line in in_folder(less, check))  # a file that is not there

    files = {f"src/base/{number}.txt": "" for number in range(MAX_FILES)}
    assert not in_folder(files, lambda root: full_folders(folders(root)))
    assert len(in_folder({**files, "src/base/a.h": ""}, lambda root: full_folders(folders(root)))) == 1


def self_test_rows():
    files = {"src/base/a.h": "", "src/base/testing/a.h": "", "bench/a.h": "", "bench/results/x/y.json": ""}
    page = "| `src/base` | a |\n| `src/base/testing` | b |\n| `bench/` | c |\n| `bench/results` | e |\n| `bench/results/x` | f |\n"

    def rows(page):
        return in_folder(files, lambda root: wrong_rows(root, folders(root), page))

    assert not rows(page), rows(page)
    assert ["no row for the folder bench" in line for line in rows(page.replace("| `bench/` | c |\n", ""))] == [True]
    assert ["src/none names no folder" in line for line in rows(page + "| `src/none` | d |\n")] == [True]
    assert ["has 2 rows" in line for line in rows(page + "| `src/base` | d |\n")] == [True]


def self_test_python_tests():
    files = {"tests/CMakeLists.txt": "lagoon_python_test(a 300 e2e)\n", "tests/a_test.py": ""}
    assert not in_folder(files, unlisted_python_tests)
    lines = in_folder({**files, "tests/b_test.py": ""}, unlisted_python_tests)
    assert len(lines) == 1 and lines[0].startswith("tests/b_test.py: never runs"), lines


def print_folders():
    said = dict(sentences((ROOT / PAGE).read_text()))
    for folder, count in folders(ROOT).items():
        if folder in said:
            print(f"{folder:26} {count:3}  {said[folder]}")


def main():
    parser = argparse.ArgumentParser(description="Checks folders and includes.")
    parser.add_argument("--folders", action="store_true", help="print every folder with its sentence and its number of files")
    words = parser.parse_args()
    self_test()
    found = list(violations(ROOT))
    if words.folders and not found:
        print_folders()
    print("\n".join(found) or f"layers: {len(FOLDERS)} folders, no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
