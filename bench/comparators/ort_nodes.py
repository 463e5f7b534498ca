"""The ONNX project's own backend node tests through ONNX Runtime, with the plug-in and without.

    ort_nodes.py [--json FILE] [--match TEXT]

LAGOON_ORT_LIBRARY names the plug-in. Cases run in processes of some hundred each, so that one that ends a process badly
is found and the others still run.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import warnings

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "ort"))
warnings.filterwarnings("ignore")

# The cases of onnx 1.12 use aliases of types that newer versions of numpy no longer have.
for _alias, _type in (("float", float), ("int", int), ("bool", bool), ("object", object)):
    if _alias not in vars(np):
        setattr(np, _alias, _type)

SLICE = 400
SECONDS = 300  # a slice may take


def cases(match=""):
    from onnx.backend.test.case.node import collect_testcases  # pylint: disable=import-outside-toplevel

    return sorted((case for case in collect_testcases(None) if match in case.name), key=lambda case: case.name)


def random_op(case):
    return any(node.op_type in ("Bernoulli", "Multinomial") or node.op_type.startswith("Random")
               for node in case.model.graph.node)


def same(got, want, case):
    if isinstance(want, (list, type(None))):
        return True  # sequences and optionals: Lagoon claims none
    want = np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if random_op(case):
        return True
    if want.dtype.kind in "fc":
        return bool(np.allclose(got, want, rtol=max(case.rtol, 1e-3), atol=max(case.atol, 1e-5), equal_nan=True))
    return bool(np.array_equal(got, want))


def run(case, devices):
    """[right, nodes on Lagoon, other nodes]. Without devices: the CPU provider."""
    import onnxruntime  # pylint: disable=import-outside-toplevel

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    model = case.model.SerializeToString()
    if devices:
        options.add_provider_for_devices(devices, {})
        session = onnxruntime.InferenceSession(model, options)
    else:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    session.disable_fallback()
    nodes = collections.Counter()
    for part in session.get_provider_graph_assignment_info():
        nodes[part.ep_name == "LagoonExecutionProvider"] += len(part.get_nodes())
    right = True
    for inputs, outputs in case.data_sets:
        got = session.run(None, {info.name: value for info, value in zip(session.get_inputs(), inputs)})
        right &= all(same(a, b, case) for a, b in zip(got, outputs))
    return [right, nodes[True], nodes[False]]


def run_slice(first, last, match):
    """Prints a line for each case that begins and one for each that ends."""
    import onnxruntime  # pylint: disable=import-outside-toplevel

    import lagoon_ort  # pylint: disable=import-outside-toplevel

    onnxruntime.set_default_logger_severity(4)
    devices = lagoon_ort.register()
    for index, case in list(enumerate(cases(match)))[first:last]:
        print(json.dumps(["begins", index, case.name]), flush=True)
        results = []
        for used in ([], devices):
            try:
                results.append(run(case, used))
            except Exception as error:  # pylint: disable=broad-except
                results.append(["error", str(error)[:400], 0])
        print(json.dumps(["ends", index, case.name, *results]), flush=True)


def run_all(match=""):
    """name -> [result of the CPU provider, result with the plug-in]. A case that ends its process: "crash"."""
    count, results, at = len(cases(match)), {}, 0
    while at < count:
        done = subprocess.run([sys.executable, __file__, "--slice", str(at), str(min(count, at + SLICE)), "--match", match],
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        last = None
        for line in done.stdout.splitlines():
            last = json.loads(line)
            if last[0] == "ends":
                results[last[2]] = last[3:]
        if last is None:
            raise RuntimeError(done.stderr[-2000:])
        if last[0] == "begins":
            results[last[2]] = [[None, 0, 0], ["crash", f"exit {done.returncode}: {done.stderr[-400:]}", 0]]
        at = last[1] + 1
    return results


def summary(results):
    """The counts, and the cases that are right on the CPU and not with the plug-in."""
    worse = {name: own for name, (other, own) in results.items()
             if own[0] == "crash" or (other[0] is True and own[0] is not True)}
    right = [own for _, own in results.values() if own[0] is True]
    return {
        "cases": len(results),
        "right_and_whole": sum(1 for own in right if own[1] > 0 and own[2] == 0),
        "right_in_part": sum(1 for own in right if own[1] > 0 and own[2] > 0),
        "right_and_not_claimed": sum(1 for own in right if own[1] == 0),
        "right_only_with_the_plug_in": sum(
            1 for other, own in results.values() if own[0] is True and own[1] > 0 and other[0] is not True),
    }, worse


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--json")
    words.add_argument("--match", default="")
    words.add_argument("--slice", nargs=2, type=int, help=argparse.SUPPRESS)
    words = words.parse_args()
    if words.slice:
        run_slice(*words.slice, words.match)
        return 0
    results = run_all(words.match)
    counts, worse = summary(results)
    for name, value in counts.items():
        print(name, value)
    for name, own in worse.items():
        print(f"{name}: {own}")
    if words.json:
        with open(words.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=0)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
