#!/usr/bin/env python3
"""Draws a short trace of `lagoon ... --trace` as a picture: compute units as rows, blocks in their job's colour.

Blocks that left without a result are hatched, padding has a dashed frame. Arrivals are marks below the rows,
revocations are lines. This is for pictures in docs; to explore a trace, open the file in https://ui.perfetto.dev.

Usage: plot_trace.py TRACE.json --out FILE.svg|png [--unit-us 100] [--title TEXT]
"""

import argparse
import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

UNITS, JOBS = 1, 2  # pids in the file
MOST_BLOCKS = 5000
INK, FAINT, GRID, ALARM = "#1d2b36", "#6b7a86", "#dfe5ea", "#c0392b"
REAL_TIME = ["#0a7d8c", "#065863", "#3aa7b5"]
BEST_EFFORT = ["#d9a441", "#b3592b", "#8a9a5b", "#7d6b91", "#c98b6b", "#6f8fae"]


class TraceError(Exception):
    """The file cannot be drawn; the text says why."""


class Trace:
    def __init__(self, path):
        try:
            events = json.loads(path.read_text())["traceEvents"]
            self.rows = {event["tid"]: event["args"]["name"] for event in events
                         if event["ph"] == "M" and event["name"] == "thread_name" and event["pid"] == UNITS}
            slices = [event for event in events if event["ph"] == "X"]
            self.blocks = [event for event in slices if event["pid"] == UNITS and event["cat"].startswith("block")]
            self.jobs = {(event["args"]["run"], event["args"]["job"]): event for event in slices if event["pid"] == JOBS}
            instants = [event for event in events if event["ph"] == "i"]
            self.arrivals = [event for event in instants if event["name"] == "arrival"]
            self.revocations = [event for event in instants if event["name"] == "revocation"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TraceError(f"{path}: not a trace of Lagoon: {error!r}") from error
        # Leaves out copies, and with them rows that have only copies.
        self.blocks = [block for block in self.blocks if not block["name"].startswith(("input", "output"))]
        if not 0 < len(self.blocks) <= MOST_BLOCKS:
            raise TraceError(f"{path}: {len(self.blocks)} blocks; a picture takes 1 to {MOST_BLOCKS}")

    def job(self, block):
        return self.jobs[block["args"]["run"], block["args"]["job"]]


def colours(trace):
    """{model: colour} in order of arrival. Each job class has its own range of colours."""
    found, left = {}, {"real-time": list(REAL_TIME), "best-effort": list(BEST_EFFORT)}
    for job in sorted(trace.jobs.values(), key=lambda job: job["ts"]):
        shades = left[job["args"]["class"]]
        if job["args"]["model"] not in found:
            found[job["args"]["model"]] = shades[0]
            shades.append(shades.pop(0))
    return found


def draw_block(axes, block, job, place, colour):
    y, unit = place
    left = not block["args"]["committed"]
    x, width = block["ts"] / unit, block["dur"] / unit
    axes.barh(y, width, left=x, height=0.86, facecolor="white" if left else colour, edgecolor=colour if left else "white",
              hatch="////" if left else None, linewidth=1.0)
    part = width / (axes.get_xlim()[1] - axes.get_xlim()[0])
    if part < 0.03:
        return
    padding = block["args"]["padding"]
    if padding:
        inset = 0.0025 * width / part
        axes.add_patch(plt.Rectangle((x + inset, y - 0.37), width - 2 * inset, 0.74, facecolor="none", zorder=3,
                                     edgecolor=colour if left else "white", linestyle=(0, (3, 2)), linewidth=1.1))
    label = job["args"]["model"] + (" " if part > 0.06 else "\n") + block["name"].split(" ")[0]
    if padding and part > 0.06:
        label += "\npadding"
    axes.text(x + width / 2, y, label, ha="center", va="center", fontsize=8, color=INK if left else "white", zorder=4,
              bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0} if left else None)


def draw(trace, unit, title):
    used = {block["tid"] for block in trace.blocks}
    rows = [tid for tid in sorted(trace.rows) if tid in used]
    end = max(block["ts"] + block["dur"] for block in trace.blocks) / unit
    figure, axes = plt.subplots(figsize=(10.5, 0.62 * len(rows) + 1.75))
    axes.set_xlim(0, end * 1.005)
    axes.set_ylim(len(rows) + 0.2, -0.68)
    shades = colours(trace)
    for block in trace.blocks:
        job = trace.job(block)
        draw_block(axes, block, job, (rows.index(block["tid"]), unit), shades[job["args"]["model"]])
    for event in trace.revocations:
        axes.axvline(event["ts"] / unit, color=ALARM, linewidth=1.4)
        axes.text(event["ts"] / unit + 0.06, -0.57, "revocation", color=ALARM, fontsize=8.5, va="center")
    together = {}
    for event in trace.arrivals:
        together.setdefault(round(event["ts"] / unit, 3), []).append(event["args"]["model"])
    for x, models in together.items():
        axes.plot([x], [len(rows) - 0.32], marker="^", markersize=6, color=INK, clip_on=False)
        axes.text(x + 0.09, len(rows) - 0.03, ", ".join(models) + (" arrives" if len(models) == 1 else " arrive"),
                  fontsize=8.5, color=INK, va="center")
    axes.set_yticks(range(len(rows)), [trace.rows[tid] for tid in rows])
    axes.set_xlabel("time" if unit == 1 else f"time, in units of {unit:g} us")
    axes.grid(axis="x", color=GRID)
    axes.set_title(title)
    keys = [plt.Rectangle((0, 0), 1, 1, facecolor=shade) for shade in shades.values()]
    names = [f"{model} (real-time)" if shade in REAL_TIME else model for model, shade in shades.items()]
    keys.append(plt.Rectangle((0, 0), 1, 1, facecolor="white", edgecolor=FAINT, hatch="////"))
    names.append("left without result")
    axes.legend(keys, names, ncols=len(names), loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False, fontsize=8.5,
                handlelength=1.4, columnspacing=1.4)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--unit-us", type=float, default=1, help="unit of the time axis in us")
    parser.add_argument("--title", default="")
    words = parser.parse_args()
    plt.rcParams.update({
        "font.family": "DejaVu Sans", "font.size": 9, "text.color": INK, "axes.labelcolor": INK, "axes.titlesize": 10,
        "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.edgecolor": GRID, "axes.spines.top": False,
        "axes.spines.right": False, "axes.spines.left": False, "axes.axisbelow": True, "xtick.color": FAINT,
        "ytick.color": INK,
        "ytick.left": False, "xtick.bottom": False, "svg.fonttype": "none", "svg.hashsalt": "lagoon",
        "hatch.linewidth": 0.7, "figure.dpi": 130})
    try:
        figure = draw(Trace(words.trace), words.unit_us, words.title)
    except TraceError as error:
        print(f"plot_trace.py: {error}", file=sys.stderr)
        return 1
    metadata = {"Date": None} if words.out.suffix == ".svg" else {}
    figure.savefig(words.out, bbox_inches="tight", metadata=metadata)
    return 0


if __name__ == "__main__":
    sys.exit(main())
