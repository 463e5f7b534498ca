"""Whether two engines gave the same answer, for the corpus."""

import dataclasses
import math

import numpy as np


@dataclasses.dataclass
class Verdict:
    """`error`: the largest difference, relative to the largest value of its output.
    `wrong`: what is wrong, naming the output; "" if the answers agree."""

    error: float = 0.0
    wrong: str = ""


def differences(actual, expected):
    """|a - b| as float64, 0 where both are the same infinity or not a number."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(actual - expected)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


def scale_of(expected):
    """The largest finite value; 1 if there is none or all are 0."""
    values = np.abs(np.asarray(expected, np.float64))
    return float(values[np.isfinite(values)].max(initial=0)) or 1.0


def same_form(name, actual, expected):
    """"" or how the type or shape differs."""
    if actual.dtype != expected.dtype:
        return f"output '{name}' is {actual.dtype}, expected {expected.dtype}"
    if actual.shape != expected.shape:
        return f"output '{name}' has shape {list(actual.shape)}, expected {list(expected.shape)}"
    return ""


def compare_tensor(name, actual, expected, tolerance):
    """Integers and bools must be the same. A float may differ by `absolute` of the largest value of
    its output, and by `relative` of itself. With `mean`, the floats of an output may differ by so
    much of the largest value on average: for quantised models, in which one rounding the other way
    changes what all later layers round."""
    if wrong := same_form(name, actual, expected):
        return Verdict(math.inf, wrong)
    if expected.dtype.kind != "f":
        count = int((actual != expected).sum())
        return Verdict(math.inf, f"output '{name}': {count} of {expected.size} values differ") \
            if count else Verdict()
    gap, scale = differences(actual, expected), scale_of(expected)
    if "mean" in tolerance:
        error = float(gap.mean()) / scale if gap.size else 0.0
        return Verdict(error, f"output '{name}' differs by {error:.1e} of the largest value on "
                              "average" if error > tolerance["mean"] else "")
    error = float(gap.max(initial=0)) / scale
    allowed = tolerance["absolute"] * scale + tolerance["relative"] * np.abs(
        np.asarray(expected, np.float64))
    with np.errstate(invalid="ignore"):
        bad = gap > allowed
    if not bad.any():
        return Verdict(error)
    return Verdict(error, f"output '{name}': {int(bad.sum())} of {expected.size} values differ, "
                          f"by up to {error:.1e} of the largest")


def overlap(box, boxes):
    """Intersection over union of one box [4] with boxes [n, 4]."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    inside = np.prod(np.clip(high - low, 0, None), axis=1)
    area = lambda b: np.prod(np.clip(b[..., 2:] - b[..., :2], 0, None), axis=-1)
    return inside / np.maximum(area(box) + area(boxes) - inside, 1e-9)


def match(actual, expected, tolerance):
    """[(index in expected, index in actual)] of the same objects: label, score and place agree.
    Each object is used once."""
    free = np.ones(len(actual["boxes"]), bool)
    pairs = []
    for index, box in enumerate(expected["boxes"]):
        candidates = free & (actual["labels"] == expected["labels"][index])
        near = np.abs(actual["scores"] - expected["scores"][index]) <= tolerance["score"]
        quality = np.where(candidates & near, overlap(box, actual["boxes"]), 0)
        best = int(quality.argmax()) if len(quality) else 0
        if len(quality) and quality[best] >= tolerance["overlap"]:
            free[best] = False
            pairs.append((index, best))
    return pairs


def compare_objects(actual, expected, tolerance):
    """Detections as sets: `matched` of the objects must be in both answers. Two orders of the same
    sums may swap objects of nearly the same score, or move one across a threshold."""
    for name, array in expected.items():
        if actual[name].dtype != array.dtype or actual[name].shape[1:] != array.shape[1:]:
            return Verdict(math.inf, same_form(name, actual[name], array))
    pairs = match(actual, expected, tolerance)
    largest = max(len(actual["boxes"]), len(expected["boxes"]))
    if len(pairs) < tolerance["matched"] * largest:
        return Verdict(math.inf, f"{len(pairs)} objects agree, of {len(expected['boxes'])} expected "
                                 f"and {len(actual['boxes'])} given")
    error = 0.0
    ours, theirs = [b for _, b in pairs], [a for a, _ in pairs]
    for name, array in expected.items():
        gap = differences(actual[name][ours], array[theirs])
        error = max(error, float(gap.mean()) / scale_of(array) if gap.size else 0.0)
    if error > tolerance["extras"]:
        return Verdict(error, f"the objects' values differ by {error:.1e} of the largest on average")
    return Verdict(error)


def compare(actual, expected, tolerance):
    """The worst Verdict over all outputs, {name: array}. `tolerance`: the field of the list; with
    "objects", outputs that are boxes, labels and scores are compared as sets."""
    missing = sorted(set(expected) - set(actual))
    if missing:
        return Verdict(math.inf, f"there is no output {', '.join(missing)}")
    verdicts = [compare_tensor(name, actual[name], expected[name], tolerance)
                for name in expected]
    worst = max(verdicts, key=lambda verdict: (bool(verdict.wrong), verdict.error))
    if worst.wrong and "objects" in tolerance:
        return compare_objects(actual, expected, tolerance["objects"])
    return worst
