"""Tables of docs/results/reproduction.md that are not figures. Each returns (head, rows); page.py writes them."""

SCHEDULERS = ("reef", "lagoon")


def percent(value, digits=1):
    return f"{100 * value:.{digits}f} %"


def disb(results, _words):
    """`lagoon` beside `reef`, with clients that take the newest request where the workload has open loops."""
    rows = []
    for device in ("mi50", "gv100"):
        metrics = results[f"sim-disb-{device}.json"]["metrics"]
        for workload in ("A", "B", "C", "D", "E", "REAL"):
            def of(metric, system):
                newest = f"{metric}.{system}.newest.{workload}"
                return metrics[newest if newest in metrics else f"{metric}.{system}.{workload}"]
            tail = "p99" if any(f"realtime_latency_vs_alone_p99.reef{kind}.{workload}" in metrics
                                for kind in ("", ".newest")) else "p90"
            reef, lagoon = (of("throughput_normalized", system) for system in SCHEDULERS)
            rows.append([device, workload, f"{reef:.2f}", f"{lagoon:.2f}", f"{100 * (lagoon / reef - 1):+.1f} %",
                         *(f"{of('realtime_latency_vs_alone_' + kind, system):.3f}"
                           for kind in ("mean", tail) for system in SCHEDULERS), tail])
    return (["", "workload", "throughput `reef`", "`lagoon`", "", "latency / alone, mean `reef`", "`lagoon`",
             "tail `reef`", "`lagoon`", "tail"], rows)


def sensitivity(results, _words):
    """The constants that change a result of workload C by more than 1 %."""
    report = results["sim-gv100-sensitivity.json"]
    usual, rows = report["metrics"], []
    columns = ("realtime_latency_normalized_mean.reef", "throughput_normalized.reef", "throughput_normalized.streams")
    for one in report["sensitivity"]:
        changes = [one["metrics"][name] / usual[name] - 1 for name in columns]
        if max(map(abs, changes)) > 0.01:
            rows.append([f"`{one['constant']}`", one["factor"], *(f"{100 * change:+.1f} %" for change in changes)])
    return ["constant", "", "`reef` latency", "`reef` throughput", "`streams` throughput"], rows


FCFS = "clockwork:admit_by_deadline=0"
BASELINES = ((FCFS, "ClockWork", (-0.553, -0.560)), ("prema", "PREMA, which waits for what runs", (-0.468, -0.503)),
             ("prema-kernel", "PREMA, which preempts what runs", (-0.468, -0.503)), ("rt-a", "RT-A", (-0.689, -0.693)))


def split_jitter(results, _words):
    report, rows = results["sim-split.json"], []
    for system, name, published in BASELINES:
        for scenario, paper in zip(("s1", "s6"), published):
            metric = f"jitter_short_vs.{system}.{scenario}"
            interval = report["intervals"][metric]
            got = interval["median"]
            verdict = ("reproduced" if got <= paper else f"{100 * (got - paper):.1f} points short"
                       if got <= 0.75 * paper else "not reproduced")
            rows.append([f"{name}, scenario {scenario[1]}", percent(paper), f"{percent(got)} "
                         f"[{100 * interval['low']:.1f}, {100 * interval['high']:.1f}]", verdict])
    return ["short models' jitter, `split` against", "paper", "we [95 % interval]", "verdict"], rows


def split_saved(results, _words):
    """Percentage points by which `split` has fewer late requests, over all targets and scenarios."""
    metrics, rows = results["sim-split.json"]["metrics"], []
    for system, name, _ in BASELINES:
        most = [max(metrics[f"violation_saved_points_max.{system}.s{number}{suffix}"] for number in (1, 3, 6))
                for suffix in ("", ".overload")]
        rows.append([name, "43" if system == "rt-a" else "", *(f"{value:.1f}" for value in most)])
    return ["points saved at most, against", "paper (of no named baseline)", "one process", "a process for each model"], rows


SYSTEMS = (("rt-a", "RT-A"), (FCFS, "ClockWork, nothing refused"), ("clockwork", "ClockWork, which refuses"),
           ("prema", "PREMA, waits"), ("prema-kernel", "PREMA, preempts"), ("split", "`split`"),
           ("split:elastic=0", "`split:elastic=0`"), ("split.plan", "`split.plan`"), ("lagoon-ratio", "`lagoon-ratio`"),
           ("lagoon.classes", "`lagoon.classes`"), ("lagoon", "`lagoon`"))


def split_systems(results, words):
    """Both scenarios under all systems. words: [overload] for a process for each model."""
    metrics, suffix = results["sim-split.json"]["metrics"], "." + words[0] if words else ""
    rows = []
    for system, name in SYSTEMS:
        of = lambda metric, cell, part="": metrics[f"{metric}.{system}.{cell}{part}{suffix}"]
        cells = [percent(of("violation_rate", cell, f".a{alpha}")) for alpha in (2, 4) for cell in ("s1", "s6")]
        cells += [f"{of('jitter_ms', cell, '.short'):.1f}" for cell in ("s1", "s6")]
        cells += [f"{of('response_ratio_jitter', cell, part):.2f}" for part in (".short", ".long") for cell in ("s1", "s6")]
        rows.append([name, *cells])
    return (["", "late at 2, s1", "s6", "late at 4, s1", "s6", "jitter of short models ms, s1", "s6",
             "of their response ratio, s1", "s6", "the same of long models, s1", "s6"], rows)


PLACERS = ("lagoon", "inss", "inss-ni", "usher", "igniter", "gslice", "gpulet")


def placement(results, words):
    """words: the file, then violations or goodput. Means over the seeds."""
    curves = {curve["placer"]: curve["points"] for curve in results[words[0]]["curves"]}
    loads = [point["load"] for point in curves["lagoon"]]
    show = (lambda value: f"{100 * value:.2f}") if words[1] == "violations" else (lambda value: f"{value:,.0f}")
    rows = [[f"{load:g}", *(show(curves[placer][index][words[1]]) for placer in PLACERS)]
            for index, load in enumerate(loads)]
    return ["load", *PLACERS], rows


TABLES = {"disb": disb, "sensitivity": sensitivity, "split-jitter": split_jitter, "split-saved": split_saved,
          "split-systems": split_systems, "placement": placement}
