"""The corpus' results as metrics and as the JSON of `lagoon bench`; bench/report/page.py makes a page of it."""

import collections
import dataclasses
import datetime
import json
import math
import os
import platform
import re
import statistics

import onnxruntime


@dataclasses.dataclass
class Case:
    """One model with one shape. `error` and `noise` are relative to an output's largest value.
    `noise`: how much ONNX Runtime differs from itself without its optimisations."""

    sizes: dict
    status: str  # right, undecided, wrong or refused
    detail: str = ""
    error: float = math.nan
    noise: float = math.nan
    new_shape_ms: float = math.nan  # what the first request of this shape waited for its plan
    latency_ms: float = math.nan
    onnxruntime_ms: float = math.nan
    openvino_ms: float = math.nan


@dataclasses.dataclass
class Result:
    """One model. `opaque`: the ops that an engine runs, in opaque kernels of the plan."""

    id: str
    kind: str
    megabytes: float
    cases: list
    opaque: list = dataclasses.field(default_factory=list)

    @property
    def status(self):
        """The worst of the cases."""
        return max((case.status for case in self.cases), 
                   key=["right", "undecided", "refused", "wrong"].index)

    @property
    def verdict(self):
        """One word for the table: native, opaque, refused or wrong."""
        if self.status in ("refused", "wrong"):
            return self.status
        return "opaque" if self.opaque else "native"


def known(values):
    return [value for value in values if not math.isnan(value)]


def median(values):
    return statistics.median(known(values)) if known(values) else math.nan


def ratio(result, of=lambda case: case.onnxruntime_ms):
    """Lagoon's latency over ONNX Runtime's, or over `of`: the median over the cases."""
    return median([case.latency_ms / of(case) for case in result.cases
                   if case.status in ("right", "undecided")])


def best_ms(case):
    """The faster of ONNX Runtime and OpenVINO, if that was measured and runs the model."""
    return case.onnxruntime_ms if math.isnan(case.openvino_ms) else min(case.onnxruntime_ms, case.openvino_ms)


def quantised(name):
    return name.endswith((".qdq", ".qoperator", ".dynamic"))


def geometric_mean(values):
    return math.exp(statistics.mean(map(math.log, known(values)))) if known(values) else math.nan


def new_shape_ms(result):
    """The median over the shapes after the first. The first one also reads the file."""
    return median([case.new_shape_ms for case in result.cases[1:] if case.status in ("right", "undecided")])


def metrics(results):
    verdicts = collections.Counter(result.verdict for result in results)
    count = max(len(results), 1)
    values = {
        "corpus_models": len(results),
        "corpus_served_fraction": (verdicts["native"] + verdicts["opaque"]) / count,
        "corpus_native_fraction": verdicts["native"] / count,
        "corpus_wrong_answers": sum(
            case.status == "wrong" for result in results for case in result.cases),
        "corpus_undecided_answers": sum(
            case.status == "undecided" for result in results for case in result.cases),
        "corpus_latency_ratio_p50": median([ratio(result) for result in results]),
    }
    for kind in ("fp32", "int8"):
        chosen = [result for result in results if quantised(result.id) == (kind == "int8")]
        values[f"latency_ratio_geomean.{kind}"] = geometric_mean([ratio(one) for one in chosen])
        values[f"latency_ratio_vs_best_geomean.{kind}"] = geometric_mean(
            [ratio(one, best_ms) for one in chosen])
    for result in results:
        values[f"latency_ratio_vs_best.{result.id}"] = ratio(result, best_ms)
        values[f"new_shape_ms.{result.id}"] = new_shape_ms(result)
        values[f"latency_ratio.{result.id}"] = ratio(result)
    return {name: value for name, value in values.items() if not math.isnan(value)}


def processor():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        found = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
    return found[1] if found else "unknown"


def without_nan(value):
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def report(results, unmade, configuration, version, level):
    """The JSON of one run, in the form of `lagoon bench`. `unmade`: {id: why there is no file}."""
    return without_nan({
        "benchmark": "corpus",
        "version": version,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": {"processor": processor(), "cores": os.cpu_count(),
                    "kernel": platform.release(), "instruction_set": level},
        "configuration": {**configuration, "onnxruntime": onnxruntime.__version__},
        "metrics": metrics(results),
        "models": {result.id: {**dataclasses.asdict(result), "verdict": result.verdict}
                   for result in results},
        "not_made": unmade,
    })


def reason(result):
    """Why a model is not served, or which ops are opaque."""
    bad = [case for case in result.cases if case.status == result.status != "right"]
    if bad:
        text = f"{len(bad)} of {len(result.cases)} shapes: {bad[0].detail}"
        text = text if len(text) <= 160 else text[:157] + "..."
        return text
    return ", ".join(f"`{op}`" for op in result.opaque)


def write_json(path, content):
    path.write_text(json.dumps(content, indent=2) + "\n")
