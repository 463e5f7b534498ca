"""The figure of `lagoon bench load`: the tail of all jobs over the load, by system. plot.py draws it."""

import re

import matplotlib.pyplot as plt

SHADES = ("#b3592b", "#6b7a86", "#8fcbd2", "#d9a441", "#7a5ea8", "#0a7d8c", "#1d2b36", "#4c8c4a")
POINT = re.compile(r"(latency_ms_p9[09])\.(.+)\.(sigma[\d.]+)\.load([\d.e+-]+)$")


def curves_of(report):
    """{sigma: {system: [(load, milliseconds)]}}, of all models together, in order of the load."""
    curves = {}
    for percent in (99, 90):
        for suffix in report.suffixes(f"latency_ms_p{percent}"):
            if found := POINT.fullmatch(f"latency_ms_p{percent}.{suffix}"):
                points = curves.setdefault(found[3], {}).setdefault(found[2], {})
                points.setdefault(float(found[4]), report.number(found[0]))
    return {sigma: {system: sorted(points.items()) for system, points in systems.items()} for sigma, systems in curves.items()}


def draw_load(report, finish):
    """A panel for each sigma."""
    curves = curves_of(report)
    figure, panels = plt.subplots(1, len(curves), figsize=(5.5 * len(curves), 4.2), squeeze=False)
    systems = sorted({system for of_sigma in curves.values() for system in of_sigma})
    for axes, (sigma, of_sigma) in zip(panels[0], curves.items()):
        for system, points in of_sigma.items():
            axes.plot(*zip(*points), "o-", markersize=3, color=SHADES[systems.index(system) % len(SHADES)], label=system)
        axes.set_yscale("log")
        axes.set_title(f"lognormal gaps, sigma {sigma.removeprefix('sigma')}", fontsize=8)
        axes.set_xlabel("load, of what the device does one job after the other")
        axes.set_ylabel("p99 of all jobs (p90 of fewer than 1,000), ms")
        axes.grid()
        axes.legend(frameon=False, fontsize=7)
    finish(figure, "Models under random load", report.caption(), 0.02)
    return figure
