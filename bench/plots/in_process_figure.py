"""The figure of `lagoon bench in-process`: the control loop's steps alone and beside the others, the neighbours' work, and what a
run costs that computes nothing, for each way. plot.py draws it."""

import matplotlib.pyplot as plt

LAGOON, OTHER, FAINT = "#0a7d8c", "#b3592b", "#9aa7b1"
LABELS = {"ort": "ONNX Runtime", "ort_one_thread": "one thread each", "ort_nice19": "neighbours at nice 19", "plugin": "with the plug-in",
          "lagoon": "liblagoon"}


def colour_of(way):
    return OTHER if way.startswith("ort") else LAGOON


def draw_control(axes, report, ways):
    """A line from p50 to the largest for each way; alone in grey above it."""
    for row, way in enumerate(ways):
        for suffix, offset, colour in ((".alone", -0.18, FAINT), ("", 0.12, colour_of(way))):
            low, high = (report.number(f"control_us_{name}.{way}{suffix}", needed=False) for name in ("p50", "max"))
            if low is None or high is None:  # no step was in time
                continue
            axes.plot([low / 1e3, high / 1e3], [row + offset] * 2, color=colour, linewidth=3, alpha=0.5)
            axes.plot(low / 1e3, row + offset, "o", color="white", markeredgecolor=colour, markersize=5)
            axes.plot(high / 1e3, row + offset, "o", color=colour, markersize=6)
        missed, steps = report.number(f"missed_deadlines.{way}"), report.number(f"control_steps.{way}")
        axes.annotate(f"{missed:.0f} of {steps:.0f} missed", (1.02, row + 0.12), xycoords=("axes fraction", "data"), va="center", fontsize=7)
    rate = report.content.get("configuration", {}).get("rate")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if rate:
        axes.axvline(1e3 / rate, color="#1d2b36", linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_title("A step, ms: p50 (ring) to the largest;\ngrey: alone; line: deadline", fontsize=9)


def draw_bars(axes, report, ways, metric, title, form):
    for row, way in enumerate(ways):
        value = report.number(f"{metric}.{way}")
        axes.barh(row, value, 0.5, color=colour_of(way))
        axes.annotate(form.format(value), (value, row), xytext=(4, 0), va="center", fontsize=7, textcoords="offset points")
    axes.margins(x=0.35)
    axes.set_xlim(left=0)
    axes.set_title(title, fontsize=9)


def draw_in_process(report, finish):
    ways = report.suffixes("missed_deadlines")
    figure, (left, middle, right) = plt.subplots(1, 3, sharey=True, figsize=(10.6, 1.7 + 0.5 * len(ways)),
                                                 gridspec_kw={"width_ratios": (3, 2, 2)})
    draw_control(left, report, ways)
    draw_bars(middle, report, ways, "work", "The neighbours' work meanwhile;\n1: a model alone", "{:.2f}")
    draw_bars(right, report, ways, "added_us_p50", "A run that computes nothing,\nus", "{:.1f}")
    left.set_yticks(range(len(ways)), [LABELS.get(way, way) for way in ways])
    left.set_ylim(len(ways) - 0.5, -0.6)
    for axes in (left, middle, right):
        axes.grid(axis="x")
    finish(figure, "Models in one program", report.caption(), 0.04)
    return figure
