"""The figure of `lagoon bench disb`: latency and throughput by workload and system. plot.py draws it."""

import matplotlib.pyplot as plt

SHADES = ("#b3592b", "#6b7a86", "#8fcbd2", "#d9a441", "#7a5ea8", "#0a7d8c", "#1d2b36", "#4c8c4a")
LATENCY, THROUGHPUT = "realtime_latency_normalized_mean", "throughput_normalized"
WORKLOADS = ("A", "B", "C", "D", "E", "REAL")


def cells_of(report, metric):
    """{(system, workload): value}; the workload is "" in a report of one workload."""
    cells = {}
    for suffix in report.suffixes(metric):
        system, dot, workload = suffix.rpartition(".")
        if not dot or workload not in WORKLOADS:
            system, workload = suffix, ""
        cells[system, workload] = report.number(f"{metric}.{suffix}")
    return cells


def published_of(report):
    """{(metric, system, workload): (least, most)} of the list "paper", which reports of simulated GPUs have."""
    published = {}
    for number in report.content.get("paper", []):
        for metric in (LATENCY, THROUGHPUT):
            if not number["metric"].startswith(metric + "."):
                continue
            system, dot, workload = number["metric"][len(metric) + 1:].rpartition(".")
            if not dot or workload not in WORKLOADS:
                system, workload = number["metric"][len(metric) + 1:], ""
            paper = number["paper"]
            published[metric, system, workload] = tuple(paper) if isinstance(paper, list) else (paper, paper)
    return published


def draw_panel(axes, metric, cells, published):
    """A group of bars for each workload, a bar for each system, and a mark where the paper has a number."""
    systems = list(dict.fromkeys(system for system, _ in cells))
    workloads = list(dict.fromkeys(workload for _, workload in cells))
    width = 0.84 / len(systems)
    for index, system in enumerate(systems):
        places = [(x + (index - (len(systems) - 1) / 2) * width, workload) for x, workload in enumerate(workloads)
                  if (system, workload) in cells]
        axes.bar([x for x, _ in places], [cells[system, workload] for _, workload in places], 0.92 * width,
                 color=SHADES[index % len(SHADES)], label=system)
        for x, workload in places:
            if bounds := published.get((metric, system, workload)):
                axes.plot([x, x], bounds, "_-", color="#1d2b36", markersize=6, linewidth=1, zorder=5)
    axes.set_xticks(range(len(workloads)), workloads)
    axes.grid(axis="y")
    axes.legend(frameon=False, fontsize=7, ncol=2)


def draw_disb(report, finish):
    """To the left latency over the time alone, to the right throughput."""
    published = published_of(report)
    workload = report.content.get("configuration", {}).get("workload", "")
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    draw_panel(left, LATENCY, cells_of(report, LATENCY), published)
    left.set_yscale("log")
    left.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    left.set_title("Real-time latency / standalone, mean")
    draw_panel(right, THROUGHPUT, cells_of(report, THROUGHPUT), published)
    right.set_title("Throughput of all clients / standalone")
    marks = "; the lines are the paper's" if published else ""
    kind = "simulated" if report.content.get("predicted") else "measured"
    name = "workloads A to E, REAL" if workload == "all" else f"workload {workload}"
    finish(figure, f"DISB, {name} ({kind}{marks})", report.caption(), 0.03)
    return figure
