"""The figure of `lagoon bench batching`: the latency over the throughput of each model, with and without batches.
plot.py draws it."""

import re

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

# Side in metrics, label, colour, marker.
SIDES = (
    ("single", "one request at a time", "#b3592b", "s"),
    ("batched", "joined into batches", "#0a7d8c", "o"),
)


def loads_of(report, model):
    """The loads in percent of the metrics throughput_ips.MODEL.single.lN, ascending, without the overload."""
    found = {re.fullmatch(r"l(\d+)", name) for name in report.suffixes(f"throughput_ips.{model}.single")}
    loads = sorted(int(match[1]) for match in found if match)
    return [load for load in loads if load <= 300] or loads


def draw_batching(report, finish):
    """A panel for each model, a line for each side, a point for each load."""
    models = list(report.suffixes("batching_gain"))
    columns = min(3, len(models))
    rows = -(-len(models) // columns)
    figure, places = plt.subplots(rows, columns, squeeze=False, figsize=(max(6, 3.3 * columns), 1.6 + 2.6 * rows))
    for axes, model in zip(places.flat, models):
        loads = loads_of(report, model)
        for side, label, colour, marker in SIDES:
            points = []
            for load in loads:
                of = f"{model}.{side}.l{load}"
                tail = report.number(f"latency_ms_p99.{of}", False)
                points.append((report.number(f"throughput_ips.{of}"), report.number(f"latency_ms_p50.{of}"),
                               tail if tail is not None else report.number(f"latency_ms_p90.{of}")))
            throughput, middle, tails = zip(*points)
            axes.plot(throughput, middle, color=colour, marker=marker, markersize=4, linewidth=1.4, label=f"{label}, p50")
            axes.plot(throughput, tails, color=colour, marker=marker, markersize=3, linewidth=0.9, linestyle=(0, (4, 2)),
                      label=f"{label}, p99")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(left=0)
        axes.set_title(f"{model}: {report.number(f'batching_gain.{model}'):.2f} times the throughput", fontsize=9)
        axes.grid(axis="y")
    for axes in list(places.flat)[len(models):]:
        axes.set_visible(False)
    for row in places:
        row[0].set_ylabel("latency, ms")
    for axes in list(places.flat)[:len(models)]:
        axes.set_xlabel("answered in time, requests/s")
    handles, labels = places[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower left", ncol=4 if columns > 2 else 2, frameon=False, fontsize=8,
                  bbox_to_anchor=(0.01, 0.03))
    finish(figure, "Latency over throughput, with and without batches", report.caption(), 0.8 / figure.get_figheight())
    return figure
