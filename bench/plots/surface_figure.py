"""The figure of a surface that `lagoon profile --shares --json` wrote: throughput and latency over the share of the
device. plot.py draws it."""

import matplotlib.pyplot as plt

SHADES = ("#0a7d8c", "#b3592b", "#5b6ea8", "#7a9a3a", "#8a5a8c", "#c29a2b", "#4a4a4a", "#3a9ad9")


def points_of(content):
    """(shares in percent, {rows: milliseconds by share}) of the measured points; ValueError says what is wrong."""
    points = content["points"]
    shares = [100 * float(share) for share in points["shares"]]
    latency = {int(rows): [float(ms) for ms in line] for rows, line in zip(points["rows"], points["latency_ms"], strict=True)}
    if not shares or not latency or any(len(line) != len(shares) or min(line) <= 0 for line in latency.values()):
        raise ValueError("the points have no time above 0 for each number of rows and each share")
    return shares, latency


def draw_surface(content, finish):
    """Two panels; a line for each number of rows, a mark for each measured point."""
    shares, latency = points_of(content)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.9))
    for index, (rows, line) in enumerate(latency.items()):
        style = {"color": SHADES[index % len(SHADES)], "linewidth": 1.4, "markersize": 4}
        label = "1 row" if rows == 1 else f"{rows} rows"
        left.plot(shares, [1000 * rows / ms for ms in line], "o-", label=label, **style)
        right.plot(shares, line, "o-", label=label, **style)
    for axes, title in ((left, "Throughput, rows/s"), (right, "Latency, ms")):
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("share of the device, %")
        axes.set_xlim(0, 104)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
    left.legend(frameon=False, fontsize=8)
    finish(figure, f"{content['model']} over its share", f"{content['device']} · {content['source']} · marks are measured", 0.04)
    return figure
