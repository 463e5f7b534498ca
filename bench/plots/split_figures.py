"""The figures of `lagoon bench split`: violations over the latency target (like SPLIT's Figure 6),
jitter (Figure 7), and both over the load. plot.py draws them."""

import re

import matplotlib.pyplot as plt

# What the figures show of a report, in this order: name in metrics, label, colour (Okabe and Ito's, which colour-blind
# readers can tell apart), marker, line. Other systems are in the file only.
SYSTEMS = (
    ("rt-a", "RT-A", "#E69F00", "s", (0, (4, 2))),
    ("clockwork:admit_by_deadline=0", "ClockWork (FCFS)", "#56B4E9", "^", (0, (4, 2))),
    ("onnxruntime", "ONNX Runtime, FCFS", "#7f7f7f", "x", (0, (4, 2))),
    ("prema", "PREMA", "#CC79A7", "v", (0, (4, 2))),
    ("split", "SPLIT", "#D55E00", "o", "-"),
    ("split.plan", "SPLIT, cuts free", "#F0C9AE", "o", "-"),
    ("lagoon-ratio", "Lagoon, by response ratio", "#0072B2", "P", "-"),
    ("lagoon.classes", "Lagoon, short models real-time", "#009E73", "D", "-"),
)
FAINT = "#6b7a86"


def cases(report, prefix, suffix):
    """The cases (s1, load40) that metrics "PREFIX.SYSTEM.CASE.REST" + suffix have, in their numbers' order."""
    found = set()
    for name in report.suffixes(prefix):
        match = re.search(r"\.((?:s|load)\d+)\.\w+" + re.escape(suffix) + r"$", "." + name)
        if match:
            found.add(match[1])
    return sorted(found, key=lambda case: int(re.sub(r"\D", "", case)))


def systems(report, case, rest):
    """The rows of SYSTEMS that the report has."""
    return [row for row in SYSTEMS if f"{rest[0]}.{row[0]}.{case}.{rest[1]}" in report.metrics]


def legend(figure, axes):
    handles, labels = axes.get_legend_handles_labels()
    columns = 4 if figure.get_figwidth() > 9.5 else 3
    figure.legend(handles, labels, loc="lower left", ncol=columns, frameon=False, fontsize=8,
                  bbox_to_anchor=(0.01, 0.035), columnspacing=1.6, handlelength=2.6)


def where(report):
    """Ends the title of a figure from a simulated device."""
    return " (simulated)" if report.content.get("predicted") else ""


def title_of(report, case, suffix):
    load = report.number(f"load.{case}{suffix}", False)
    return f"Scenario {case[1:]}" + (f", load {load:.2f}" if load is not None else "")


def draw_violations(report, finish, suffix=""):
    """A panel for each scenario, a line for each system."""
    names = [case for case in cases(report, "violation_rate", suffix) if case.startswith("s")]
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure, places = plt.subplots(rows, columns, sharex=True, sharey=True, squeeze=False,
                                  figsize=(max(7.5, 3.3 * columns), 2 + 2.35 * rows))
    for axes, case in zip(places.flat, names):
        for name, label, colour, marker, line in systems(report, case, ("violation_rate", "a2" + suffix)):
            alphas = list(range(2, 21))
            rates = [100 * report.number(f"violation_rate.{name}.{case}.a{alpha}{suffix}")
                     for alpha in alphas]
            axes.plot(alphas, rates, color=colour, marker=marker, markersize=3.6, linewidth=1.4,
                      linestyle=line, markevery=2, label=label)
        axes.set_title(title_of(report, case, suffix), fontsize=9)
        axes.set_xticks(range(2, 21, 6))
        axes.grid(axis="y")
        axes.tick_params(labelbottom=True)
    places[0][0].set_ylim(bottom=0)  # of all panels
    for axes in list(places.flat)[len(names):]:
        axes.set_visible(False)
    for row in places:
        row[0].set_ylabel("late requests, %")
    for axes in places[-1]:
        axes.set_xlabel("latency target / time alone")
    legend(figure, places[0][0])
    overload = ", a process for each model" if suffix else ""
    finish(figure, f"Requests that miss their latency target{overload}{where(report)}", report.caption(),
           0.75 / figure.get_figheight())
    return figure


def draw_jitter(report, finish):
    """Bars for each model; panels for the first and the last scenario."""
    names = [case for case in cases(report, "jitter_ms", "") if case.startswith("s")]
    names = names[:1] + names[1:][-1:]
    figure, places = plt.subplots(len(names), 1, squeeze=False, figsize=(9.6, 1.6 + 2.5 * len(names)))
    for axes, case in zip(places.flat, names):
        shown = systems(report, case, ("jitter_ms", "short"))
        names_of = report.suffixes(f"jitter_ms.{shown[0][0]}.{case}")
        models = [name for name in names_of if name != "short" and not name.endswith(".overload")]
        order = [*models, "short"]
        width = 0.84 / len(shown)
        for index, (name, label, colour, _, _) in enumerate(shown):
            values = [report.number(f"jitter_ms.{name}.{case}.{model}", False) for model in order]
            spots = [place + (index - (len(shown) - 1) / 2) * width for place in range(len(order))]
            axes.bar(spots, [value or 0 for value in values], width * 0.92, color=colour, label=label)
            for spot, value in zip(spots, values):
                if value is not None:
                    axes.annotate(f"{value:.0f}" if value >= 9.95 else f"{value:.1f}", (spot, value),
                                  ha="center", va="bottom", fontsize=5.5, color=FAINT,
                                  xytext=(0, 1), textcoords="offset points")
        axes.set_xticks(range(len(order)), [*models, "mean of the\nshort models"])
        axes.axvline(len(order) - 1.5, color=FAINT, linewidth=0.6)
        axes.set_title(title_of(report, case, ""), fontsize=9)
        axes.set_ylabel("standard deviation, ms")
        axes.grid(axis="y")
    legend(figure, places[0][0])
    finish(figure, f"Jitter: standard deviation of the latency{where(report)}", report.caption(), 0.11)
    return figure


def draw_load(report, finish):
    """Late requests and jitter over the load of a sweep."""
    names = [case for case in cases(report, "violation_rate", "") if case.startswith("load")]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2))
    for name, label, colour, marker, line in systems(report, names[0], ("violation_rate", "a4")):
        look = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.4, "linestyle": line}
        loads = [int(case[4:]) / 100 for case in names]
        left.plot(loads, [100 * report.number(f"violation_rate.{name}.{case}.a4") for case in names],
                  label=label, **look)
        right.plot(loads, [report.number(f"jitter_ms.{name}.{case}.short") for case in names], **look)
    left.set_title("Later than 4 times the time alone", fontsize=9)
    left.set_ylabel("late requests, %")
    left.set_ylim(bottom=0)
    right.set_title("Jitter of short requests", fontsize=9)
    right.set_ylabel("standard deviation, ms")
    right.set_yscale("log")
    right.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for axes in (left, right):
        axes.set_xlabel("load, requests' time alone / time")
        axes.grid(axis="y")
    legend(figure, left)
    finish(figure, f"From a low load to an overload{where(report)}", report.caption(), 0.17)
    return figure
