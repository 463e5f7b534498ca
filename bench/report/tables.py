"""Tables of docs/results that are neither figures nor grids. Each returns (head, rows); page.py writes them."""

import collections
import math
import statistics
import textwrap

import grids

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


WORKLOADS = ("A", "B", "C", "D", "E", "REAL")
SHARING = "sim-disb-sharing.json"
TAIL = ("realtime_latency_vs_alone_p99", "realtime_latency_vs_alone_p90")  # a p90 of few requests


def of_newest(metrics, system, workload, *names):
    """The first of these metrics that there is, of clients that take the newest request where the workload has open loops."""
    ends = [f"{name}.{system}{newest}.{workload}" for name in names for newest in (".newest", "")]
    return next(metrics[end] for end in ends if end in metrics)


def sharing(results, _words):
    """Systems that share a GPU between real-time and best-effort work, and ours, on gv100."""
    metrics, rows = results[SHARING]["metrics"], []
    for workload in WORKLOADS:
        for system in ("streams", "wait", "lithos", "tally", "hummingbird", "reset"):
            rows.append([workload, f"`{system}`",
                         *(f"{of_newest(metrics, system, workload, *names):.{digits}f}" for names, digits in (
                             (("realtime_latency_vs_alone_mean",), 3), (TAIL, 3), (("best_effort_throughput_normalized",), 2),
                             (("throughput_normalized",), 2)))])
    return ["workload", "scheduler", "latency / alone, mean", "tail", "best-effort work", "throughput"], rows


def verdict(paper, got):
    """As lagoon bench figures judges a gain or a slow-down (docs/results/reproduction.md)."""
    off = abs((got - 1) / (paper - 1) - 1)
    if abs(got / paper - 1) <= 0.01:
        return "reproduced within 1 %"
    if off <= 0.25:
        return f"reproduced within {math.ceil(100 * off)} %"
    return "direction only" if (got - 1) * (paper - 1) > 0 and abs(got - 1) > 0.001 else "not reproduced"


def claims(results, _words):
    """What these systems' papers claim beside what their rows give: the mean over the workloads."""
    metrics = results[SHARING]["metrics"]
    of = lambda system, *names: [of_newest(metrics, system, workload, *names) for workload in WORKLOADS]
    work = lambda system: sum(of(system, "best_effort_throughput_normalized"))
    faster = [mps / ours for mps, ours in zip(of("streams", *TAIL), of("lithos", *TAIL))]
    rows = [[name, claim, source, f"{paper:g}", f"{got:.3f}", verdict(paper, got)] for name, claim, source, paper, got in (
        ("Tally", "real-time tail over alone", "arXiv 2410.07381, abstract", 1.072, statistics.mean(of("tally", *TAIL))),
        ("LithOS", "real-time tail under MPS (`streams`) over its own", "arXiv 2504.15465, abstract", 4.7,
         statistics.geometric_mean(faster)),
        ("Hummingbird", "best-effort work over that under temporal sharing (`wait`)", "arXiv 2601.04071, abstract", 2.4,
         work("hummingbird") / work("wait")))]
    rows.append(["GPreempt", "preemption in us", "USENIX ATC '25, abstract", "40", "", "not built"])
    return ["system", "claim", "source", "paper", "we", "verdict"], rows


LIVE = f"{grids.DISB_OS}.json"


def cpu(results, _words):
    """DISB on simulated CPUs: real-time tail over alone, and best-effort work, under each scheduler that the files have."""
    of_all = [results[f"sim-disb-cpu{cores}.json"]["metrics"] for cores in (2, 4, 8)]
    systems = [system for system in ("lagoon", "lagoon:padding_ahead=1", "reset", "streams")
               if all(f"best_effort_throughput_normalized.{system}.A" in metrics for metrics in of_all)]
    names = [f"`{system.removeprefix('lagoon:')}`" for system in systems]
    rows = []
    for workload in WORKLOADS:
        for cores in (2, 4, 8):
            metrics = results[f"sim-disb-cpu{cores}.json"]["metrics"]
            rows.append([workload, cores, *(f"{metrics[f'{metric}.{system}.{workload}']:.{digits}f}"
                                            for metric, digits in (("realtime_latency_vs_alone_p99", 3),
                                                                   ("best_effort_throughput_normalized", 2))
                                            for system in systems)])
    return (["workload", "cores", f"p99 / alone, {names[0]}", *names[1:], f"best-effort work, {names[0]}",
             *names[1:]], rows)


def cpu_check(results, words):
    """Two simulated cores beside two real ones. words: the workloads."""
    simulated, measured = results["sim-disb-cpu2.json"]["metrics"], results[LIVE]["metrics"]
    rows = []
    for workload in words:
        for system in ("lagoon", "reset"):
            cells = []
            for metric in ("realtime_latency_normalized_mean", "best_effort_throughput_normalized"):
                pair = [metrics[f"{metric}.{system}.{workload}"] for metrics in (simulated, measured)]
                cells += [*(f"{value:.2f}" for value in pair), f"{pair[0] / pair[1]:.2f}"]
            rows.append([workload, f"`{system}`", *cells])
    return (["workload", "scheduler", "latency / standalone, `cpu2`", "two cores", "ratio", "best-effort work, `cpu2`",
             "two cores ", "ratio "], rows)


def sensitivity(results, words):
    """The constants of a simulated GPU that change a result of workload C by more than 1 %."""
    report = results[f"sim-{words[0]}-sensitivity.json"]
    usual, rows = report["metrics"], []
    columns = ("realtime_latency_normalized_mean.reef", "throughput_normalized.reef", "throughput_normalized.streams")
    for one in report["sensitivity"]:
        changes = [one["metrics"][name] / usual[name] - 1 for name in columns]
        if max(map(abs, changes)) > 0.01:
            rows.append([f"`{one['constant']}`", one["factor"], *(f"{100 * change:+.1f} %" for change in changes)])
    return ["constant", "", "`reef` latency", "`reef` throughput", "`streams` throughput"], rows


FCFS = "clockwork:admit_by_deadline=0"
LIVELINES = ((FCFS, "ClockWork", (-0.553, -0.560)), ("prema", "PREMA, which waits for what runs", (-0.468, -0.503)),
             ("prema-kernel", "PREMA, which preempts what runs", (-0.468, -0.503)), ("rt-a", "RT-A, which answers a round at its end", (-0.689, -0.693)),
             ("rt-a:together=0", "RT-A, which answers each request at its end", (-0.689, -0.693)))


def split_jitter(results, _words):
    report, rows = results["sim-split.json"], []
    for system, name, published in LIVELINES:
        for scenario, paper in zip(("s1", "s6"), published):
            metric = f"jitter_short_vs.{system}.{scenario}"
            if metric not in report["intervals"]:
                continue
            interval = report["intervals"][metric]
            got = interval["median"]
            verdict = ("reproduced" if got <= paper else f"{100 * (got - paper):.1f} points short"
                       if got <= 0.75 * paper else "not reproduced")
            rows.append([f"{name}, scenario {scenario[1]}", percent(paper), f"{percent(got)} "
                         f"[{100 * interval['low']:.1f}, {100 * interval['high']:.1f}]", verdict])
    return ["short models' jitter, `split` against", "paper", "we [95 % interval]", "verdict"], rows


def split_saved(results, _words):
    """Percentage points by which `split` has fewer late requests, at most over all targets and scenarios."""
    metrics, rows = results["sim-split.json"]["metrics"], []
    for system, name, _ in LIVELINES:
        if f"jitter_short_vs.{system}.s1" not in metrics:
            continue
        most = [max(100 * (metrics[f"violation_rate.{system}.{cell}"] - metrics[f"violation_rate.split.{cell}"])
                    for cell in (f"s{scenario}.a{alpha}{suffix}" for scenario in (1, 3, 6) for alpha in range(2, 21)))
                for suffix in ("", ".overload")]
        rows.append([name, *(f"{value:.1f}" for value in most)])
    return ["points saved at most, against", "one process", "a process for each model"], rows


SYSTEMS = (("rt-a", "RT-A, together"), ("rt-a:together=0", "RT-A, each at its end"),
           (FCFS, "ClockWork, nothing refused"), ("clockwork", "ClockWork, which refuses"),
           ("prema", "PREMA, waits"), ("prema-kernel", "PREMA, preempts"), ("split", "`split`"),
           ("split:elastic=0", "`split:elastic=0`"), ("split-whole", "`split-whole`"), ("split.plan", "`split.plan`"),
           ("lagoon-ratio", "`lagoon-ratio`"), ("lagoon.classes", "`lagoon.classes`"), ("lagoon", "`lagoon`"))
# SPLIT, Table 1: time alone in ms.
SHORT, LONG = {"yolov2": 10.8, "googlenet": 13.2, "gpt2": 20.4}, {"resnet50": 28.35, "vgg19": 67.5}


def split_systems(results, words):
    """Scenarios 1 and 6 under all systems. words: [overload] for a process for each model."""
    metrics, suffix = results["sim-split.json"]["metrics"], "." + words[0] if words else ""
    rows = []
    for system, name in SYSTEMS:
        if f"jitter_ms.{system}.s1.short{suffix}" not in metrics:
            continue
        of = lambda metric, cell: metrics[f"{metric}.{system}.{cell}{suffix}"]
        ratio_jitter = lambda cell, models: sum(of("jitter_ms", f"{cell}.{model}") / alone
                                                for model, alone in models.items()) / len(models)
        cells = [percent(of("violation_rate", f"{cell}.a{alpha}")) for alpha in (2, 4) for cell in ("s1", "s6")]
        cells += [f"{of('jitter_ms', f'{cell}.short'):.1f}" for cell in ("s1", "s6")]
        cells += [f"{ratio_jitter(cell, models):.2f}" for models in (SHORT, LONG) for cell in ("s1", "s6")]
        rows.append([name, *cells])
    return (["", "late at 2, s1", "s6", "late at 4, s1", "s6", "jitter of short models ms, s1", "s6",
             "of their response ratio, s1", "s6", "the same of long models, s1", "s6"], rows)


MARGINS = (("gpulet", 1.528), ("gslice", 1.264), ("igniter", 1.861))
PLACERS = ("lagoon", "inss", "inss-net", "inss-guess", "inss-ni", "usher", "gslice", "igniter", "gpulet")


def placement_blocks(results, _words):
    """InSS over the paper's baselines in three readings: medians over the seeds, all loads together."""
    metrics, rows = results["sim-placement.json"]["metrics"], []
    for placer, paper in MARGINS:
        cells = []
        for ratio in ("goodput_ratio.fair", "goodput_ratio.paper", "capacity_ratio"):
            of = lambda end, metric=f"{ratio}.inss_over_{placer}": metrics[metric + end]
            cells.append(f"{of(''):.3f} [{of('.low'):.3f}, {of('.high'):.3f}], mean {of('.mean'):.3f}")
        rows.append([f"`{placer}`", f"{paper:.3f}", *cells])
    return ["`inss` over", "paper", "goodput, fair", "goodput, the paper's baselines", "Eq. 1, the paper's baselines"], rows


def placement_loads(results, words):
    """Late or dropped requests of each placer over the load. words: [paper] for the block of the paper's baselines."""
    report, block = results["sim-placement.json"], words[0] if words else "fair"
    prefix = "" if block == "fair" else block + "."
    loads = report["configuration"]["loads"]
    rows = []
    for placer in PLACERS:
        of = lambda metric, name=prefix + placer: report["metrics"][f"{metric}.{name}"]
        rows.append([f"`{placer}`", *(percent(of("violation_rate") if load is None else
                                              report["metrics"][f"violation_rate.{prefix}{placer}.load{load:.2f}"], 2)
                                      for load in (*loads, None)),
                     f"{of('moves') / len(loads):.0f}", f"{of('gpus_used'):.1f}", percent(of("busy"))])
    return ["", *(f"load {load:g}" for load in loads), "all", "moves a run", "GPUs used", "decisions that wait"], rows


def series(results, words):
    """The lines of a panel of a figure as columns. words: the figure, the panel's number, digits."""
    panel = results.figure(words[0])["panels"][int(words[1])]
    points = sorted({x for one in panel["series"] for x in one["x"]})
    lines = [dict(zip(one["x"], one["y"])) for one in panel["series"]]
    rows = [[f"{x:g}", *(f"{line[x]:,.{words[2]}f}" if x in line else "" for line in lines)] for x in points]
    return [panel["x"], *(one["name"] for one in panel["series"])], rows


def corpus(results, words):
    """The models of the corpus by kind, with their latency ratios; then those that need a word more, each with its words.
    words: reports, of which the later ones measured some models again."""
    last = {}
    for word in words:
        last |= {model["id"]: model for model in results[f"{word}.json"]["models"].values()}
    models = last.values()
    verdicts = collections.Counter(model["verdict"] for model in models)
    lines = [f"{len(models)} models: " + ", ".join(f"{verdicts[name]} {name}" for name in ("native", "opaque", "refused", "wrong"))
             + "."]
    kinds = {}
    for model in models:
        suffix = model["id"].rpartition(".")[2] if "." in model["id"] else ""
        kinds.setdefault(f"{model['kind']}, `.{suffix}`" if suffix else model["kind"], []).append(model)
    for kind, members in kinds.items():
        errors = [case["error"] for model in members if not notes(model) for case in model["cases"] if case["error"] is not None]
        text = ", ".join(f"{model['id'].removesuffix(kind.rpartition(', `')[2].strip('`'))} {ratio(model):.2f}"
                         + "*" * bool(notes(model)) for model in members)
        lines += ["", *textwrap.wrap(f"**{kind}** (largest error {max(errors, default=0):.0e}): {text}.", 100,
                                     break_on_hyphens=False, break_long_words=False)]
    marked = [f"- `{model['id']}`: {notes(model)}." for model in models if notes(model)]
    return [*lines, "", *(line for one in marked for line in textwrap.wrap(one, 100, subsequent_indent="  "))]


def ratio(model):
    """Lagoon's latency over that of the fastest other engine that was measured: the median over the shapes that are
    answered."""
    known = [case["latency_ms"] / min(time for time in (case["onnxruntime_ms"], case.get("openvino_ms")) if time)
             for case in model["cases"] if case["status"] in ("right", "undecided")]
    return statistics.median(known) if known else float("nan")


def notes(model):
    """What there is to say about a model that is not native and right in all its shapes."""
    counts = collections.Counter(case["status"] for case in model["cases"] if case["status"] != "right")
    said = [f"{count} of {len(model['cases'])} shapes {status}" for status, count in counts.items()]
    if model["opaque"]:
        said.append("an engine runs " + ", ".join(model["opaque"]))
    return "; ".join(said)


TABLES = {"disb": disb, "sharing": sharing, "claims": claims, "cpu": cpu, "cpu-check": cpu_check, "sensitivity": sensitivity, "split-jitter": split_jitter,
          "split-saved": split_saved, "split-systems": split_systems, "series": series,
          "placement-blocks": placement_blocks, "placement-loads": placement_loads}
