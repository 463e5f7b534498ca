#!/usr/bin/env python3
"""Draws the figures of `lagoon bench` from the JSON files that it writes.

A file has a flat map "metrics": name with unit -> number. The names decide which figure is drawn:
- contention.*: from realtime_latency_normalized_p50.* of `lagoon bench contention`
- disb.*: from throughput_normalized.* (disb_figure.py)
- models.*: from latency_ratio_vs_onnxruntime.*
- versions.* (a file of `lagoon profile --json`): from kernel_us.*
- placement.*: from goodput_at_99.* and the list "curves" (placement_figure.py)
- batching.*: from batching_gain.* (batching_figure.py)
- robot.*: from robot_background_work.* (robot_figure.py)
- in-process.*: from missed_deadlines.* (in_process_figure.py)
- share-tuning.*: from share_percent.* (tune_figure.py)
- split-*.* : from violation_rate.* and jitter_ms.* (split_figures.py)

A file of `lagoon split --scan --json` has a field "scan" in their place. All scans become one picture, split-scan.*: the
overhead and the deviation of three parts, for each pair of cuts.

It is an error if a metric that a figure needs is missing or not a number; then the figure is not
drawn. The file of `lagoon bench figures` has its figures as series in the list "figures"; each
becomes a picture with the figure's name. The file of `lagoon profile --shares --json` is a surface, which becomes
surface-MODEL.* (surface_figure.py).

Usage: plot.py FILE.json... [--out DIR] [--format svg|png]
"""

import argparse
import json
import math
import pathlib
import re
import sys

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

import batching_figure  # noqa: E402
import disb_figure  # noqa: E402
import in_process_figure  # noqa: E402
import load_figure  # noqa: E402
import split_figures  # noqa: E402
import placement_figure  # noqa: E402
import robot_figure  # noqa: E402
import surface_figure  # noqa: E402
import tune_figure  # noqa: E402

# A report compares systems: schedulers of Lagoon, and comparators. The name of a comparator begins with COMPARATOR.
COMPARATOR = "onnxruntime"
# The schedulers that a plot shows first, in this order.
ORDER = ("sequential", "streams", "wait", "reset")
INK, FAINT, GRID = "#1d2b36", "#6b7a86", "#dfe5ea"
LAGOON, LAGOON_PALE = "#0a7d8c", "#8fcbd2"
OTHER, OTHER_PALE = "#b3592b", "#e3b79f"
STYLE = {
    "font.family": "DejaVu Sans", "font.size": 9, "text.color": INK, "axes.labelcolor": INK,
    "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "axes.titlepad": 10, "axes.edgecolor": GRID, "axes.spines.top": False,
    "axes.spines.right": False, "axes.spines.left": False, "axes.axisbelow": True,
    "xtick.color": FAINT, "ytick.color": INK, "ytick.left": False, "xtick.bottom": False,
    "grid.color": GRID, "svg.fonttype": "none", "svg.hashsalt": "lagoon", "figure.dpi": 130,
}


class PlotError(Exception):
    """The file cannot be drawn; the text says why."""


class Report:
    """One JSON file of the bench."""

    def __init__(self, path):
        self.path = path
        try:
            self.content = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise PlotError(f"{path}: {error}") from error
        self.metrics = self.content.get("metrics") if isinstance(self.content, dict) else None
        if isinstance(self.content, dict) and "points" in self.content:
            self.metrics = {}
            return
        if not isinstance(self.metrics, dict) or not self.metrics:
            raise PlotError(f"{path}: has no map 'metrics'")

    def suffixes(self, prefix):
        """The parts after "PREFIX." of the metrics' names, in the order of the file."""
        start = prefix + "."
        return [name[len(start):] for name in self.metrics if name.startswith(start)]

    def has(self, pattern):
        """Whether the name of a metric begins with what `pattern` describes."""
        return any(re.match(pattern, name) for name in self.metrics)

    def number(self, name, needed=True):
        value = self.metrics.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        if needed or value is not None:
            raise PlotError(f"{self.path}: metric '{name}' is {value!r}, a number is needed")
        return None

    def interval(self, name):
        """(low, high) of a metric, or None: reports before 2026-11-22 have no intervals."""
        intervals = self.content.get("intervals")
        bounds = intervals.get(name) if isinstance(intervals, dict) else None
        if bounds is None:
            return None
        values = [bounds.get(key) if isinstance(bounds, dict) else None for key in ("low", "high")]
        for value in values:
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
                raise PlotError(f"{self.path}: interval '{name}' is {bounds!r}, numbers low and high are needed")
        return tuple(values)

    def host(self):
        """The report's facts about disturbed windows in words; empty if it has none."""
        host = self.content.get("host")
        if not isinstance(host, dict) or not host.get("windows"):
            return ""
        return f"{host.get('disturbed')} of {host['windows']} windows disturbed"

    def caption(self):
        """Machine and version, as far as the file has them."""
        machine = self.content.get("machine")
        machine = machine if isinstance(machine, dict) else {}
        parts = [machine.get("processor"), machine.get("instruction_set"), self.content.get("version")]
        if machine.get("cores"):
            parts.insert(1, f"{machine['cores']} cores")
        parts.append(self.host())
        return " · ".join(str(part) for part in parts if part)


def colours(name):
    return (OTHER, OTHER_PALE) if name.startswith(COMPARATOR) else (LAGOON, LAGOON_PALE)


def label_of(name):
    """The name of a scheduler or comparator for readers."""
    if not name.startswith(COMPARATOR):
        return name
    setting = name[len(COMPARATOR):].strip("._-").replace("_", " ").replace("-", " ")
    return f"ONNX Runtime x2\n{setting or 'default'}"


def sort_schedulers(names):
    """Schedulers in ORDER first, then the other schedulers, then the comparators."""
    def key(name):
        known = ORDER.index(name) if name in ORDER else len(ORDER)
        return name.startswith(COMPARATOR), known, name
    return sorted(names, key=key)


def format_number(value):
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if value >= 10 else f"{value:.2f}"


def add_value(axes, value, row):
    """Writes the number beside a mark, readable even if a line crosses it."""
    axes.annotate(format_number(value), (value, row), xytext=(7, 0), va="center", fontsize=8,
                  textcoords="offset points", zorder=4,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})


def add_limit(axes, value, text):
    axes.axvline(value, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(text, (value, 1), xycoords=("data", "axes fraction"), xytext=(3, 2), fontsize=7,
                  textcoords="offset points", color=FAINT)


def draw_rows(axes, names):
    """Labels rows from the top, with a gap before the comparators. Returns the row of each name."""
    rows, row = {}, 0.0
    for previous, name in zip([None, *names], names):
        if previous and name.startswith(COMPARATOR) and not previous.startswith(COMPARATOR):
            row += 0.5
        rows[name] = row
        row += 1
    axes.set_yticks(list(rows.values()), [label_of(name) for name in names])
    axes.set_ylim(row - 0.4, -0.6)
    axes.grid(axis="x")
    return rows


def draw_pairs(axes, names, low, high):
    """p50 and p99 of each name as two points with a line between, on a logarithmic axis."""
    rows = draw_rows(axes, names)
    axes.set_xscale("log")
    for name, row in rows.items():
        if low.get(name) is None:
            axes.annotate("not measured", (0, row), xycoords=("axes fraction", "data"),
                          fontsize=7.5, color=FAINT, va="center", xytext=(4, 0),
                          textcoords="offset points")
            continue
        strong, pale = colours(name)
        axes.plot([low[name], high[name]], [row, row], color=pale, linewidth=3, zorder=2)
        axes.plot(low[name], row, "o", color="white", markeredgecolor=strong, markersize=6,
                  zorder=3)
        axes.plot(high[name], row, "o", color=strong, markersize=7, zorder=3)
        add_value(axes, high[name], row)
    values = [value for values in (low, high) for value in values.values() if value is not None]
    axes.set_xlim(min(values) / 1.25, max(values) * 2)
    wide = max(values) > 1000 * min(values)
    axes.xaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1,) if wide else (1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())


def draw_interval(axes, interval, row):
    """Draws the bounds of a 95 % interval as a thin line with ends."""
    if interval is not None:
        axes.plot(interval, [row, row], "|-", color=INK, linewidth=0.9, markersize=5, zorder=5)


def draw_bars(axes, names, values, intervals):
    rows = draw_rows(axes, names)
    for name, row in rows.items():
        if values[name] is None:
            axes.annotate("nothing left over", (0, row), fontsize=7.5, color=FAINT, va="center",
                          xytext=(4, 0), textcoords="offset points")
            continue
        axes.barh(row, values[name], height=0.55, color=colours(name)[0])
        draw_interval(axes, intervals[name], row + 0.18)
        add_value(axes, values[name], row)
    axes.set_xlim(0, max([1.0, *(value for value in values.values() if value is not None)]) * 1.15)


def finish(figure, title, caption, bottom):
    figure.text(0.012, 0.985, title, fontsize=12, weight="bold", va="top")
    figure.text(0.012, 0.012, caption, fontsize=7, color=FAINT)
    figure.tight_layout(rect=(0, bottom, 1, 0.93), w_pad=2.5)


def choose_tail(report, names):
    """The upper percentile that the file has: p99, or p90 if the run was too short for a p99."""
    for percentile in (99, 90):
        if set(report.suffixes(f"realtime_latency_normalized_p{percentile}")) >= set(names):
            return percentile
    raise PlotError(f"{report.path}: neither realtime_latency_normalized_p99 nor _p90 is there for "
                    f"each of {', '.join(names)}")


def draw_contention(report):
    """One row per scheduler and comparator; columns: latency, share, time to preempt."""
    names = sort_schedulers(report.suffixes("realtime_latency_normalized_p50"))
    tail = choose_tail(report, names)
    def read(prefix, needed=True):
        return {name: report.number(f"{prefix}.{name}", needed) for name in names}

    low, high = (read(f"realtime_latency_normalized_p{percent}") for percent in (50, tail))
    nothing_left = set(report.content.get("no_leftover") or ())
    share = {name: report.number(f"best_effort_share_of_leftover.{name}", name not in nothing_left)
             for name in names}
    quick, slow = (read(f"preemption_us_p{percent}", False) for percent in (50, tail))
    measured = {name for name in names if quick[name] is not None and slow[name] is not None}
    columns = 3 if measured else 2
    figure, axes = plt.subplots(1, columns, figsize=(3.7 * columns, 1.5 + 0.42 * len(names)),
                                sharey=True)
    draw_pairs(axes[0], names, low, high)
    bounds = {name: report.interval(f"realtime_latency_normalized_p{tail}.{name}") for name in names}
    for name, row in draw_rows(axes[0], names).items():
        draw_interval(axes[0], bounds[name], row + 0.22)
    add_limit(axes[0], 1.1, "goal: p99 1.10")
    axes[0].set_title("Real-time latency, contended / alone")
    axes[0].set_xlabel(f"p50 (ring) to p{tail} (dot), logarithmic; left is better")
    draw_bars(axes[1], names, share,
              {name: report.interval(f"best_effort_share_of_leftover.{name}") for name in names})
    axes[1].set_title("Best-effort share of the leftover")
    axes[1].set_xlabel("throughput / what idle time allows; right is better")
    add_limit(axes[1], 0.9, "goal: 0.90")
    if measured:
        only = lambda values: {name: values[name] for name in measured}
        draw_pairs(axes[2], names, only(quick), only(slow))
        axes[2].set_title("Arrival to first real-time block")
        axes[2].set_xlabel(f"us, p50 (ring) to p{tail} (dot), logarithmic")
        add_limit(axes[2], 60, "goal: p99 60 us")
    finish(figure, "A real-time model beside a best-effort model", report.caption(), 0.03)
    return figure


def read_ratios(report):
    """(models in order, {"wW.bB": {model: ratio}})."""
    ratios = {}
    for suffix in report.suffixes("latency_ratio_vs_onnxruntime"):
        match = re.fullmatch(r"(.+)\.(w\d+)(\.b\d+)?", suffix)  # reports before 2026-11-21 have no b
        if not match:
            raise PlotError(f"{report.path}: metric 'latency_ratio_vs_onnxruntime.{suffix}' does "
                            f"not end in '.MODEL.wN.bN'")
        value = report.number(f"latency_ratio_vs_onnxruntime.{suffix}")
        ratios.setdefault(match[2] + (match[3] or ".b1"), {})[match[1]] = value
    models = list(dict.fromkeys(model for values in ratios.values() for model in values))
    return models, dict(sorted(ratios.items()))


def draw_grouped_bars(axes, models, groups, shades):
    height = 0.7 / len(groups)
    for index, (group, values) in enumerate(groups.items()):
        for row, model in enumerate(models):
            if model not in values:
                continue
            y = row + (index - (len(groups) - 1) / 2) * height
            axes.barh(y, values[model], height * 0.9, color=shades[index % len(shades)],
                      label=group if row == 0 else None)
            add_value(axes, values[model], y)
    axes.set_yticks(range(len(models)), models)
    axes.set_ylim(len(models) - 0.4, -0.6)
    axes.set_xlim(0, max(value for values in groups.values() for value in values.values()) * 1.2)
    axes.grid(axis="x")


def group_label(group):
    """"w2.b8" in words; batch 1 is not mentioned."""
    workers, batch = group[1:].split(".b")
    label = f"{workers} worker{'s' if workers != '1' else ''}"
    return label if batch == "1" else f"{label}, batch {batch}"


def draw_models(report):
    """Latency beside ONNX Runtime for each model and number of workers; the gap between kernels."""
    models, ratios = read_ratios(report)
    gaps = {model: report.number(f"kernel_gap_us_p50.{model}", False) for model in models}
    gaps = {model: gap for model, gap in gaps.items() if gap is not None}
    columns = 2 if gaps else 1
    figure, axes = plt.subplots(1, columns, figsize=(5.2 * columns, 1.7 + 0.45 * len(models)),
                                sharey=True,
                                squeeze=False)
    left = axes[0][0]
    named = {group_label(group): values for group, values in ratios.items()}
    draw_grouped_bars(left, models, named, (LAGOON, LAGOON_PALE))
    left.set_xlim(0, max(1.4, left.get_xlim()[1]))
    left.set_title("Latency, Lagoon / ONNX Runtime")
    left.set_xlabel("fp32, same threads; left is better")
    left.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(-0.02, -0.15), ncol=4)
    add_limit(left, 1.0, "equal")
    add_limit(left, 1.25, "goal: 1.25")
    if gaps:
        draw_grouped_bars(axes[0][1], models, {"gap": gaps}, (LAGOON,))
        axes[0][1].set_title("Gap between kernels, p50")
        axes[0][1].set_xlabel("us from the last commit to the successor's first block")
        axes[0][1].set_xlim(0, max(3.6, axes[0][1].get_xlim()[1]))
        add_limit(axes[0][1], 3, "goal: 3 us")
    finish(figure, "Latency of CNNs beside ONNX Runtime", report.caption(), 0.02)
    return figure


def read_versions(report):
    """{op: {version: (kernel us, block us)}}, the ops whose kernels take longest first."""
    ops = {}
    for suffix in report.suffixes("kernel_us"):
        op, _, version = suffix.rpartition(".")
        ops.setdefault(op, {})[version] = (report.number(f"kernel_us.{suffix}"),
                                           report.number(f"block_us.{suffix}"))
    return dict(sorted(ops.items(), key=lambda item: -min(k for k, _ in item[1].values())))


def draw_versions(report):
    """Like REEF's Figure 14: the measured, the kept (after pruning) and the used versions of the heaviest ops."""
    ops = dict(list(read_versions(report).items())[:6])
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.2), squeeze=False)
    for place, (op, versions) in zip(axes.flat, ops.items()):
        points = {"pruned": [], "kept": [], "used": []}
        for version, point in versions.items():
            kept = report.number(f"kept.{op}.{version}", False)
            used = report.number(f"used.{op}.{version}", False)
            points["used" if used else "kept" if kept else "pruned"].append(point)
        for name, colour in (("pruned", GRID), ("kept", LAGOON_PALE), ("used", OTHER)):
            if points[name]:
                place.plot(*zip(*points[name]), "o", color=colour, markersize=6, label=name)
        place.set_title(op if len(op) < 34 else "..." + op[-32:], fontsize=8)
        place.set_xlabel("kernel us")
        place.set_ylabel("block us")
        place.grid(True)
    for place in list(axes.flat)[len(ops):]:
        place.set_visible(False)
    axes.flat[0].legend(frameon=False, fontsize=8)
    finish(figure, "Versions of the heaviest kernels", report.caption(), 0.03)
    return figure


SHADES = (OTHER, FAINT, LAGOON_PALE, "#d9a441", "#7a5ea8", LAGOON, INK, "#4c8c4a")


def draw_panel_bars(axes, panel):
    """Draws groups of bars; each series has one bar in a group."""
    groups, series = panel["groups"], panel["series"]
    width = 0.8 / max(1, len(series))
    for index, one in enumerate(series):
        places = [x + (index - (len(series) - 1) / 2) * width for x in one["x"]]
        axes.bar(places, one["y"], width * 0.92, color=SHADES[index % len(SHADES)],
                 label=one["name"])
    many = len(groups) > 8 or max(map(len, groups)) > 12
    axes.set_xticks(range(len(groups)), groups, rotation=60 if many else 0,
                    ha="right" if many else "center", fontsize=7 if many else 8)


def draw_panel_lines(axes, panel):
    for index, one in enumerate(panel["series"]):
        axes.plot(one["x"], one["y"], "o-", color=SHADES[index % len(SHADES)], linewidth=1.4,
                  markersize=3.5, label=one["name"])
    if panel["log_x"]:
        axes.set_xscale("log")


def draw_paper_figure(report, content):
    """Draws a figure of a paper: panels side by side, in one or two rows."""
    try:
        panels = content["panels"]
        if not panels:
            raise ValueError("no panels")
        columns = min(2, len(panels))
        rows = math.ceil(len(panels) / columns)
        figure, places = plt.subplots(rows, columns, squeeze=False,
                                      figsize=(5.4 * columns, 0.9 + 3.1 * rows))
        for axes, panel in zip(places.flat, panels):
            (draw_panel_bars if panel["groups"] else draw_panel_lines)(axes, panel)
            if panel["log_y"]:
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.set_title(panel["title"], fontsize=9)
            axes.set_xlabel(panel["x"])
            axes.set_ylabel(panel["y"])
            axes.grid(axis="y")
            axes.legend(frameon=False, fontsize=7)
        for axes in list(places.flat)[len(panels):]:
            axes.set_visible(False)
        finish(figure, f"{content['title']} (simulated)", report.caption(), 0.02)
        return figure
    except (KeyError, TypeError, ValueError, IndexError) as error:
        name = content.get("name") if isinstance(content, dict) else content
        raise PlotError(f"{report.path}: figure {name!r} lacks something: {error!r}") from error


def scan_of(report):
    """The report's (scan, positions, {name: matrix}); None if it has none."""
    scan = report.content.get("scan")
    if scan is None:
        return None
    try:
        matrices = {name: np.array(scan[name], dtype=float) for name in ("overhead", "sigma")}
        positions = [float(position) for position in scan["positions"]]
        if any(matrix.shape != (len(positions),) * 2 for matrix in matrices.values()):
            raise ValueError("a matrix does not have a row and a column for each position")
        return scan, positions, matrices
    except (KeyError, TypeError, ValueError) as error:
        raise PlotError(f"{report.path}: scan lacks something: {error!r}") from error


def draw_scan_map(axes, positions, matrix, best):
    """One heat map: the first cut to the right, the second cut upwards. Returns the mesh."""
    mesh = axes.pcolormesh(positions, positions, 100 * matrix.T, cmap="viridis", shading="nearest",
                           rasterized=True)
    if isinstance(best, list) and len(best) == 3:
        axes.plot(best[0], best[1], "x", color=OTHER, markersize=7, markeredgewidth=2)
    axes.set_aspect("equal")
    axes.tick_params(labelsize=7)
    return mesh


def draw_scans(reports):
    """Like SPLIT's Figure 2: a row of two maps for each model, or two such rows side by side."""
    scans = [scan_of(report) for report in reports]
    across = 2 if len(scans) > 2 else 1
    rows = math.ceil(len(scans) / across)
    figure, places = plt.subplots(rows, 2 * across, squeeze=False,
                                  figsize=(3.2 * 2 * across, 1.1 + 2.7 * rows))
    for index, (scan, positions, matrices) in enumerate(scans):
        pair = places[index // across][2 * (index % across):][:2]
        for axes, (name, matrix) in zip(pair, matrices.items()):
            mesh = draw_scan_map(axes, positions, matrix, scan.get("best"))
            bar = figure.colorbar(mesh, ax=axes, shrink=0.85)
            bar.ax.tick_params(labelsize=7)
            bar.outline.set_visible(False)
            words = {"overhead": "overhead, %", "sigma": "deviation, % of its time"}
            axes.set_title(f"{scan.get('model')}: {words[name]}", fontsize=8)
            axes.set_xlabel("first cut, before kernel", fontsize=7)
            axes.set_ylabel("second cut", fontsize=7)
    for axes in list(places.flat)[2 * len(scans):]:
        axes.set_visible(False)
    modes = sorted({str(scan.get("mode")) for scan, _, _ in scans})
    finish(figure, f"Three parts by their two cuts (cost: {', '.join(modes)}; x: the best found)",
           reports[0].caption(), 0.02)
    return figure


# Figures, each with the pattern of a metric's name that says whether a file has the figure.
FIGURES = {
    "contention": (r"best_effort_share_of_leftover\.", draw_contention),
    "disb": (r"throughput_normalized\.", lambda report: disb_figure.draw_disb(report, finish)),
    "load": (r"load_at_ten_times_alone\.", lambda report: load_figure.draw_load(report, finish)),
    "models": (r"latency_ratio_vs_onnxruntime\.", draw_models),
    "versions": (r"kernel_us\.", draw_versions),
    "batching": (r"batching_gain\.", lambda report: batching_figure.draw_batching(report, finish)),
    "placement": (r"goodput_at_99\.", lambda report: placement_figure.draw_placement(report, finish)),
    "robot": (r"robot_background_work\.", lambda report: robot_figure.draw_robot(report, finish)),
    "in-process": (r"missed_deadlines\.", lambda report: in_process_figure.draw_in_process(report, finish)),
    "share-tuning": (r"share_percent\.", lambda report: tune_figure.draw_tune(report, finish)),
    "split-violations": (r"violation_rate\.[^ ]*\.s\d\.a2$",
                         lambda report: split_figures.draw_violations(report, finish)),
    "split-overload": (r"violation_rate\.[^ ]*\.s\d\.a2\.overload$",
                       lambda report: split_figures.draw_violations(report, finish, ".overload")),
    "split-jitter": (r"jitter_ms\.[^ ]*\.s\d\.short$",
                     lambda report: split_figures.draw_jitter(report, finish)),
    "split-load": (r"violation_rate\.[^ ]*\.load\d+\.a4$",
                   lambda report: split_figures.draw_load(report, finish)),
}


def save(draw, target, kind):
    with plt.rc_context(STYLE):
        figure = draw()
        # Without a date the same numbers give the same bytes.
        figure.savefig(target, metadata={"Date": None} if kind == "svg" else None)
        plt.close(figure)
    return target


def draw_file(report, out, kind):
    """Writes the figures of one file; returns their paths."""
    path = report.path
    if "points" in report.content:
        try:
            name = re.sub(r"[^\w-]", "_", report.content["model"])
            return [save(lambda: surface_figure.draw_surface(report.content, finish), out / f"surface-{name}.{kind}", kind)]
        except (KeyError, TypeError, ValueError) as error:
            raise PlotError(f"{path}: the surface lacks something: {error!r}") from error
    of_papers = report.content.get("figures")
    if isinstance(of_papers, list):
        written = []
        for content in of_papers:
            name = content.get("name") if isinstance(content, dict) else None
            if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
                raise PlotError(f"{path}: a figure's name is {name!r}")
            written.append(save(lambda: draw_paper_figure(report, content), out / f"{name}.{kind}",
                                kind))
        return written
    written = [save(lambda: draw(report), out / f"{name}.{kind}", kind)
               for name, (pattern, draw) in FIGURES.items() if report.has(pattern)]
    if not written:
        raise PlotError(f"{path}: no metric that a figure is drawn from: "
                        f"{', '.join(pattern for pattern, _ in FIGURES.values())}")
    return written


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE.json")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."),
                        help="folder (default: here)")
    parser.add_argument("--format", choices=("svg", "png"), default="svg")
    arguments = parser.parse_args(words)
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        reports = [Report(file) for file in arguments.files]
        scans = [report for report in reports if scan_of(report) is not None]
        if scans:
            print(save(lambda: draw_scans(scans), arguments.out / f"split-scan.{arguments.format}",
                       arguments.format))
        for report in reports:
            for path in draw_file(report, arguments.out, arguments.format) if report not in scans else ():
                print(path)
    except (PlotError, OSError) as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
