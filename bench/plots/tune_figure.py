"""The figure of `lagoon bench shares --tune`: shares over time, and what tuning brings. plot.py draws it."""

import re

import matplotlib.pyplot as plt

COLOURS = ("#0a7d8c", "#b3592b", "#5b6ea8", "#8a8f2e", "#7d4a86", "#1d2b36")
SIDES = (("tuned", "tuned"), ("tuned-lent", "tuned, units lent"), ("equal", "equal, fixed"), ("no-shares", "no shares"))


def seconds_of(report, model):
    """The seconds of the metrics share_percent.MODEL.tN, ascending."""
    found = (re.fullmatch(r"t(\d+)", name) for name in report.suffixes(f"share_percent.{model}"))
    return sorted(int(match[1]) for match in found if match)


def draw_tune(report, finish):
    """Above: a line for each model, from a second to the next. Below: a group of bars for each model."""
    models = list(dict.fromkeys(name.rsplit(".t", 1)[0] for name in report.suffixes("share_percent")))
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 6))
    for model, colour in zip(models, COLOURS):
        seconds = seconds_of(report, model)
        shares = [report.number(f"share_percent.{model}.t{second}") for second in seconds]
        above.step(seconds, shares, where="post", color=colour, linewidth=1.6, label=model)
    phases = report.content.get("phases", [])
    for phase in phases:
        above.axvline(phase["begin_s"], color="#6b7a86", linewidth=0.8, linestyle=(0, (3, 3)))
        above.text(phase["begin_s"], 101, f" {phase['hot']} is hot", fontsize=7, color="#6b7a86", va="bottom")
    above.set_ylim(0, 100)
    above.set_xlim(left=0)
    above.set_xlabel("time, s")
    above.set_ylabel("share, %")
    above.grid(axis="y")
    above.legend(loc="upper right", frameon=False, fontsize=8, ncol=len(models))
    width = 0.8 / len(SIDES)
    for index, ((side, label), colour) in enumerate(zip(SIDES, COLOURS)):
        kept = [report.number(f"slo_kept.{side}.{model}") for model in models]
        places = [place + (index - (len(SIDES) - 1) / 2) * width for place in range(len(models))]
        below.bar(places, kept, 0.92 * width, color=colour, label=label)
        for place, value in zip(places, kept):
            below.text(place, value, f"{value:.2f}", ha="center", va="bottom", fontsize=6.5)
    below.set_xticks(range(len(models)), models)
    below.set_ylim(0, 1.12)
    below.set_ylabel("answered within the SLO")
    below.legend(loc="lower right", fontsize=7, ncol=len(SIDES), framealpha=0.9)
    finish(figure, "Shares that follow the load", report.caption(), 0.05)
    return figure
