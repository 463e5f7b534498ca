"""The figure of `lagoon bench robot`: latency alone and beside the background, and the background's work, of each
system. plot.py draws it."""

import matplotlib.pyplot as plt

LAGOON, OTHER, FAINT = "#0a7d8c", "#b3592b", "#9aa7b1"


def label_of(system):
    name = system.replace("onnxruntime:", "ONNX Runtime, ").replace("lagoon:", "Lagoon, ")
    return name.replace("@", " over ")


def draw_latency(axes, report, systems):
    """A line from p50 to p99 for each system; alone in grey above it. Short runs have no p99, but a p90."""
    tail = 99 if report.has(r"robot_latency_ms_p99\.") else 90
    for row, system in enumerate(systems):
        for window, offset, colour in (("alone", -0.16, FAINT), ("both", 0.12, colour_of(system))):
            low, high = (report.number(f"robot_latency_ms_p{percent}.{system}.{window}") for percent in (50, tail))
            axes.plot([low, high], [row + offset] * 2, color=colour, linewidth=3, alpha=0.5)
            axes.plot(low, row + offset, "o", color="white", markeredgecolor=colour, markersize=5)
            axes.plot(high, row + offset, "o", color=colour, markersize=6)
        late = 100 * report.number(f"robot_late_fraction.{system}")
        axes.annotate(f"{high:.1f} ms, {late:.1f} % late", (high, row + 0.12), xytext=(6, 0), va="center", fontsize=7,
                      textcoords="offset points")
    axes.margins(x=0.25)
    axes.set_xlim(left=0)
    deadline = report.content.get("configuration", {}).get("deadline_ms")
    if deadline:
        axes.axvline(deadline, color="#1d2b36", linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_xlim(right=max(axes.get_xlim()[1], 1.1 * deadline))
    axes.set_title(f"Real-time latency, ms: p50 (ring) to p{tail};\ngrey: alone; line: deadline", fontsize=9)


def draw_background(axes, report, systems):
    for row, system in enumerate(systems):
        work = report.number(f"robot_background_work.{system}")
        axes.barh(row, work, 0.5, color=colour_of(system))
        models = report.suffixes(f"robot_background_per_second.{system}")
        rates = " + ".join(f"{report.number(f'robot_background_per_second.{system}.{model}'):.1f}" for model in models)
        axes.annotate(f"{rates} /s", (work, row), xytext=(4, 0), va="center", fontsize=7, textcoords="offset points")
    axes.margins(x=0.35)
    axes.set_xlim(left=0)
    axes.set_title("Background work; 1: as much as\na background model alone", fontsize=9)


def colour_of(system):
    return OTHER if system.startswith("onnxruntime") else LAGOON


def draw_robot(report, finish):
    systems = report.suffixes("robot_failed_requests")
    figure, (left, right) = plt.subplots(1, 2, sharey=True, figsize=(9.6, 1.7 + 0.5 * len(systems)),
                                         gridspec_kw={"width_ratios": (3, 2)})
    draw_latency(left, report, systems)
    draw_background(right, report, systems)
    left.set_yticks(range(len(systems)), [label_of(system) for system in systems])
    left.set_ylim(len(systems) - 0.5, -0.6)
    for axes in (left, right):
        axes.grid(axis="x")
    scenario = report.content.get("configuration", {}).get("case", "")
    finish(figure, f"A robot's cores ({scenario})" if scenario else "A robot's cores", report.caption(), 0.04)
    return figure
