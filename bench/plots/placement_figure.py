"""The figure of `lagoon bench placement`: goodput and violations over the load, a line for each placer. plot.py draws
it."""

import matplotlib.pyplot as plt

SHADES = {"lagoon": "#0a7d8c", "inss": "#b3592b", "inss-ni": "#c29a2b", "inss-net": "#d98a6a", "inss-guess": "#e3b8a0",
          "usher": "#5b6ea8", "igniter": "#7a9a3a", "gslice": "#8a5a8c", "gpulet": "#4a4a4a"}
OTHER = "#3a9ad9"


def curves_of(content):
    """{(number of GPUs, block): curves}; ValueError says what is wrong."""
    rows = {}
    for curve in content["curves"]:
        if not curve["points"]:
            raise ValueError(f"placer {curve['placer']} has no points")
        rows.setdefault((int(curve["gpus"]), curve.get("block", "fair")), []).append(curve)
    return rows


def draw_placement(report, finish):
    """For each number of GPUs and block two panels: requests in time per second, and the part that is not in time."""
    drawn = curves_of(report.content)
    figure, rows = plt.subplots(len(drawn), 2, figsize=(9.6, 0.6 + 3.6 * len(drawn)), squeeze=False)
    for (left, right), ((gpus, block), curves) in zip(rows, drawn.items(), strict=True):
        for curve in curves:
            loads = [point["load"] for point in curve["points"]]
            style = {"color": SHADES.get(curve["placer"], OTHER), "linewidth": 1.6, "markersize": 4}
            left.plot(loads, [point["goodput"] for point in curve["points"]], "o-", label=curve["placer"], **style)
            right.plot(loads, [max(100 * point["violations"], 0.001) for point in curve["points"]], "o-", **style)
        left.set_title(f"Requests answered in time per second, {gpus} GPUs, {block}", fontsize=9)
        left.set_ylim(bottom=0)
        left.legend(frameon=False, fontsize=8)
        right.set_title("Late or dropped, %", fontsize=9)
        right.set_yscale("log")
        right.axhline(1, color="#999999", linewidth=0.8, linestyle="--")
        for axes in (left, right):
            axes.set_xlabel("load (1: the models' knees fill 60 % of the GPUs)")
            axes.grid(axis="y")
    finish(figure, "Placers on simulated A100s", f"means over {report.content['configuration']['seeds']} seeds", 0.04)
    return figure
