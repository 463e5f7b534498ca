"""Runs the ONNX project's own backend node tests with `lagoon infer`, and counts the results.

    onnx_nodes.py LAGOON [--json FILE] [--docs FILE] [--match TEXT]

(`lagoon bench onnx-nodes` calls it.)

Each case has one of three results:
- passed: each output has the expected type and shape and is close (rtol 1e-3 and atol 1e-7 as in ONNX's runner,
  or the case's own tolerances);
- unsupported: Lagoon refuses to load the model, with a message that names the reason;
- failed: anything else. There must be none.

Lagoon fixes shapes when it loads a model, but many cases have shapes, axes and the like as graph inputs. If the
refusal says that such an input "must be constant", the case runs again with the test's value fixed at load
(`--constant`).
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

import numpy as np
import onnx
from onnx import numpy_helper

# The cases of onnx 1.12 use aliases of types that newer versions of numpy no longer have.
for _alias, _type in (("float", float), ("int", int), ("bool", bool), ("object", object)):
    if _alias not in vars(np):
        setattr(np, _alias, _type)

from onnx.backend.test.case.node import collect_testcases  # pylint: disable=wrong-import-position

MUST_BE_CONSTANT = re.compile(r"'([^']*)' must be constant")
REFUSED = re.compile(r"^lagoon: model '")
MOST_FIXED = 8
SECONDS = 60

# Cases that ONNX Runtime does not pass either, and why Lagoon follows ONNX Runtime and torch.
_CORNERS = "ONNX Runtime and torch divide by the rounded length, the case does not"
OTHER_ANSWER = {
    "test_resize_downsample_scales_linear_align_corners": _CORNERS,
    "test_resize_downsample_scales_cubic_align_corners": _CORNERS,
}
RANDOM = "random numbers: the case compares with those of another generator"

Result = collections.namedtuple("Result", "name op status detail fixed")


def op_of(case):
    """The op of a case with one node; "" for a case with more nodes."""
    nodes = case.model.graph.node
    return nodes[0].op_type if len(nodes) == 1 and nodes[0].domain in ("", "ai.onnx") else ""


def from_bfloat16(value_info, array):
    """The array as numpy has it. numpy has no bfloat16: these become float32, which Lagoon converts. onnx 1.12 keeps
    them as bits, newer releases in a type of their own."""
    array = np.asarray(array)
    if value_info.type.tensor_type.elem_type != onnx.TensorProto.BFLOAT16:
        return array
    if array.dtype != np.uint16:
        return array.astype(np.float32)
    return (array.astype(np.uint32) << 16).view(np.float32)


def has_declared_shape(value_info, array):
    dims = [dim.dim_value for dim in value_info.type.tensor_type.shape.dim]
    return len(dims) == np.ndim(array) and all(
        dim in (0, size) for dim, size in zip(dims, np.shape(array)))


def file_name(name):
    return name.replace("/", "_") + ".npy"


class Runner:
    """Runs cases with one `lagoon` binary."""

    def __init__(self, binary):
        self.binary = binary

    def _infer(self, folder, names, fixed):
        words = [self.binary, "infer", folder / "model.onnx", "--engine", "none", "--workers", "1",
                 "--output-dir", folder / "out"]
        for index, name in enumerate(names):
            option = "--constant" if name in fixed else "--input"
            words += [option, f"{name}={folder / f'{index}.npy'}"]
        return subprocess.run(list(map(str, words)), capture_output=True, text=True,
                              timeout=SECONDS, check=False)

    def _run(self, case, folder):
        """(status, detail, names of inputs fixed at load)"""
        if case.name in OTHER_ANSWER:
            return "unsupported", OTHER_ANSWER[case.name], ()
        if any(node.op_type == "Bernoulli" or node.op_type.startswith("Random") for node in case.model.graph.node):
            return "unsupported", RANDOM, ()
        inputs, outputs = ([numpy_helper.to_array(array) if isinstance(array, onnx.TensorProto) else array
                            for array in arrays] for arrays in case.data_sets[0])
        if not all(isinstance(array, (np.ndarray, np.generic)) for array in [*inputs, *outputs]):
            return "unsupported", "sequences and optional values", ()
        if any(np.asarray(array).dtype == object for array in [*inputs, *outputs]):
            return "unsupported", "strings", ()
        onnx.save(case.model, str(folder / "model.onnx"))
        declared = case.model.graph.input
        names = [value.name for value in declared]
        if not all(map(has_declared_shape, declared, inputs)):
            return "unsupported", "the case's data do not have the shapes that it declares", ()
        for index, array in enumerate(inputs):
            np.save(folder / f"{index}.npy", np.ascontiguousarray(
                from_bfloat16(declared[index], array)).reshape(np.shape(array)))
        fixed = []
        while True:
            result = self._infer(folder, names, fixed)
            if result.returncode == 0:
                return (*self._compare(case, folder, outputs), tuple(fixed))
            if result.returncode != 1 or not result.stderr.strip():
                return "failed", f"exit {result.returncode}: {result.stderr[-500:]}", tuple(fixed)
            asked = MUST_BE_CONSTANT.search(result.stderr)
            if not asked or asked[1] not in names or asked[1] in fixed or len(fixed) == MOST_FIXED:
                break
            fixed.append(asked[1])
        message = result.stderr.strip().replace(str(folder), "").split("; an engine could run")[0]
        if any(np.asarray(array).size == 0 for array in inputs):
            return "unsupported", "empty tensors", tuple(fixed)
        return "unsupported" if REFUSED.match(message) else "failed", message, tuple(fixed)

    @staticmethod
    def _compare(case, folder, outputs):
        for value, expected in zip(case.model.graph.output, outputs):
            name = value.name
            actual = np.load(folder / "out" / file_name(name))
            expected = from_bfloat16(value, expected)
            if actual.dtype != expected.dtype or actual.shape != expected.shape:
                return "failed", (f"output '{name}' is {actual.dtype} {actual.shape}, expected "
                                  f"{expected.dtype} {expected.shape}")
            # ONNX's own runner allows two steps of the 8 bits of bfloat16.
            half = value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
            rtol = max(case.rtol, 2**-6 if half else 0)
            try:
                np.testing.assert_allclose(actual, expected, rtol=rtol, atol=case.atol)
            except AssertionError as error:
                return "failed", f"output '{name}': {str(error)[:600]}"
        return "passed", ""

    def run(self, case):
        with tempfile.TemporaryDirectory() as folder:
            try:
                status, detail, fixed = self._run(case, pathlib.Path(folder))
            except subprocess.TimeoutExpired:
                status, detail, fixed = "failed", f"no answer in {SECONDS} s", ()
        return Result(case.name, op_of(case), status, detail, list(fixed))


def run_all(binary, match=""):
    """Runs every case with `match` in its name. Results in the order of the names."""
    cases = sorted((case for case in collect_testcases(None) if match in case.name),
                   key=lambda case: case.name)
    # Cases are small: two processes at a time hide the time that a process takes to start.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(Runner(binary).run, cases))


def by_op(results):
    """op -> Counter of statuses, for the claimed ops: those with at least one passed case."""
    counts = collections.defaultdict(collections.Counter)
    for result in results:
        if result.op:
            counts[result.op][result.status] += 1
    return {op: count for op, count in sorted(counts.items()) if count["passed"]}


def metrics(results):
    status = collections.Counter(result.status for result in results)
    claimed = by_op(results)
    cases = sum(sum(count.values()) for count in claimed.values())
    passed = sum(count["passed"] for count in claimed.values())
    return {
        "onnx_nodes_passed": status["passed"],
        "onnx_nodes_failed": status["failed"],
        "onnx_nodes_unsupported": status["unsupported"],
        "onnx_nodes_passed_fixed_at_load": sum(
            1 for result in results if result.status == "passed" and result.fixed),
        "onnx_ops_supported": len(claimed),
        "onnx_claimed_op_cases_passed_ratio": passed / cases if cases else 0,
        "onnx_nodes_passed_ratio": status["passed"] / len(results) if results else 0,
    }


def reason(result):
    """The reason why a case is unsupported, without the names of its model and node."""
    text = re.sub(r".*?opset \d+\): ", "", result.detail.splitlines()[0])
    text = re.sub(r"^lagoon: (model '[^']*': )?(/model\.onnx: )?", "", text)
    return text if len(text) <= 90 else text[:87] + "..."


def table(results):
    """What docs/guide/ops.md says: how many ops pass all cases, a row for each op that passes some, a list of the rest."""
    claimed = by_op(results)
    why = collections.defaultdict(dict)  # op -> reasons in the order of their cases
    for result in results:
        if result.op and result.status == "unsupported":
            why[result.op][reason(result)] = None
    whole = sum(op not in why for op in claimed)
    lines = [f"All cases pass of {whole} ops. The other ops have these:", "",
             "| op | cases that pass | what keeps the others |", "| --- | --- | --- |"]
    for op, count in claimed.items():
        if op in why:
            reasons = "; ".join(text.replace("|", "\\|") for text in why[op])
            lines.append(f"| `{op}` | {count['passed']} of {sum(count.values())} | {reasons} |")
    refused = sorted(op for op in why if op not in claimed)
    lines += ["", *paragraph("No case passes of: " + ", ".join(f"`{op}`" for op in refused) + ".")]
    return "\n".join(lines)


def paragraph(text):
    return textwrap.wrap(text, 100, break_on_hyphens=False)


BEGIN = "<!-- written by `lagoon bench onnx-nodes --docs docs/guide/ops.md` -->"
END = "<!-- end -->"


def with_table(text, results):
    """The page `text` with the table of these results between its two marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page has no lines '{BEGIN}' and '{END}'")
    return f"{before}{BEGIN}\n{table(results)}\n{END}{after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lagoon", help="the lagoon command")
    parser.add_argument("--json", help="write metrics and every case to this file")
    parser.add_argument("--docs", help="renew the table of ops in this page")
    parser.add_argument("--match", default="", help="only cases whose name has this text")
    words = parser.parse_args()
    results = run_all(os.path.abspath(words.lagoon), words.match)
    report = {"what": "onnx-nodes", "onnx": onnx.__version__, "metrics": metrics(results),
              "ops": {op: dict(count) for op, count in by_op(results).items()},
              "cases": [result._asdict() for result in results]}
    if words.json:
        pathlib.Path(words.json).write_text(json.dumps(report, indent=1) + "\n")
    if words.docs:
        page = pathlib.Path(words.docs)
        page.write_text(with_table(page.read_text(), results))
    for result in results:
        if result.status == "failed":
            print(f"FAILED {result.name}: {result.detail}")
    for name, value in report["metrics"].items():
        print(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    return 1 if report["metrics"]["onnx_nodes_failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
