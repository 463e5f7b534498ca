"""Tables of bench/results/tables.md: rows of a report's metrics. page.py writes them.

A cell is a text with fields {METRIC:FORM}. In METRIC, $ stands for the row's key. FORM is a format of Python, % and the
number of digits (for a fraction as a percentage), or i and a format (for a median with its interval).
"""

import re

FIELD = re.compile(r"\{([^{}]+):([^{}:]+)\}")


class Grid:
    """A table of rows {label: key} and columns {title: cell} from reports; the first report that has a metric counts.
    Columns of `later` are left out as long as no report has their metrics."""

    def __init__(self, reports, rows, columns, later=None):
        self.reports = [reports] if isinstance(reports, str) else reports
        self.rows, self.columns, self.later = rows, columns, later or {}

    def find(self, results, part, metric):
        for report in self.reports:
            values = results[f"{report}.json"].get(part) or {}
            if metric in values:
                return values[metric]
        return None

    def field(self, results, metric, form):
        value = self.find(results, "intervals" if form[0] == "i" else "metrics", metric)
        if value is None:
            return None
        if form[0] == "i":
            median, low, high = (format(value[name], form[1:]) for name in ("median", "low", "high"))
            return f"{median} [{low}, {high}]"
        if form[0] == "%":
            return f"{100 * value:.{form[1:]}f} %"
        return format(value, form)

    def cell(self, results, text, key):
        """The text with its fields filled in; empty if a metric is not there."""
        fields = [self.field(results, metric.replace("$", key), form) for metric, form in FIELD.findall(text)]
        if None in fields:
            return ""
        filled = iter(fields)
        return FIELD.sub(lambda _: next(filled), text)

    def table(self, results):
        columns = self.columns | {title: text for title, text in self.later.items()
                                  if any(self.cell(results, text, key) for key in self.rows.values())}
        rows = [[label, *(self.cell(results, text, key) for text in columns.values())]
                for label, key in self.rows.items()]
        for row in rows:
            if not any(row[1:]):
                raise KeyError(f"no metric of row '{row[0]}' in {', '.join(self.reports)}")
        return ["", *columns], rows


def same(*names):
    return {name: name for name in names}


def quoted(*names):
    return {f"`{name}`": name for name in names}


XEON, EPYC = "2026-11-21-xeon-2core", "epyc-2core"
DISB_OS = f"2026-11-29-{EPYC}-disb-os"  # on a CPU, beside the settings of the operating system
OS_SYSTEMS = {"`lagoon`": "lagoon", "`reset`": "reset", "nice 19": "onnxruntime-nice19", "`SCHED_IDLE`": "onnxruntime-idle",
              "control groups": "onnxruntime-cgroup"}
ZOO = ("alexnet", "bert_base", "bert_tiny", "densenet121", "densenet201", "distilbert", "efficientnet_b0", "gnmt", "gnmt_tiny",
       "googlenet", "gpt2_decode", "gpt2_prefill", "inception_v3", "jasper", "llama_2layer", "mnasnet1_0", "mobilenet_v1",
       "mobilenet_v2", "resnet152", "resnet18", "resnet34", "resnet50", "resnext50_32x4d", "shufflenet_v2_x1_0", "squeezenet1_1",
       "vgg16", "vgg19", "vit_b_16", "yolov2", "yolov3")
SIDES = {"`reset`": "reset", "`lagoon`": "lagoon", "`wait`": "wait"}
ROBOT = {"`lagoon`": "lagoon:lagoon", "`reset`": "lagoon:reset", "ONNX Runtime, `SCHED_IDLE`": "onnxruntime:idle",
         "ONNX Runtime, control groups": "onnxruntime:cgroup"}
BESIDE = {"alone, p50 / p90 / p99 ms": "{robot_latency_ms_p50.$.alone:.1f} / {robot_latency_ms_p90.$.alone:.1f} / "
                                       "{robot_latency_ms_p99.$.alone:.1f}",
          "with the background": "{robot_latency_ms_p50.$.both:.1f} / {robot_latency_ms_p90.$.both:.1f} / "
                                 "{robot_latency_ms_p99.$.both:.1f}",
          "p99 / alone": "{robot_latency_normalized_p99.$:i.2f}", "background work": "{robot_background_work.$:.2f}"}
BOTH_WAYS = {"`lagoon`, in one process": "lagoon:lagoon@process", "`reset`, in one process": "lagoon:reset@process",
             "`lagoon`, gRPC": "lagoon:lagoon@grpc", "`reset`, gRPC": "lagoon:reset@grpc",
             "ONNX Runtime, `SCHED_IDLE`": "onnxruntime:idle", "ONNX Runtime, control groups": "onnxruntime:cgroup"}
FREQUENT = {"p50 / p90 ms, alone": "{robot_latency_ms_p50.$.alone:.1f} / {robot_latency_ms_p90.$.alone:.1f}",
            "with the background": "{robot_latency_ms_p50.$.both:.1f} / {robot_latency_ms_p90.$.both:.1f}",
            "p90 / alone": "{robot_latency_normalized_p90.$:i.2f}", "background work": "{robot_background_work.$:.2f}"}
OTHERS = {"ONNX Runtime, defaults": "onnxruntime-default", "spinning off": "onnxruntime-no-spinning",
          "a pinned thread each": "onnxruntime-pinned", "best-effort at nice 19": "onnxruntime-nice19"}
CONTENTION = {"latency / alone, p50": "{realtime_latency_normalized_p50.$:i.2f}",
              "p90": "{realtime_latency_normalized_p90.$:i.2f}",
              "share of leftover": "{best_effort_share_of_leftover.$:i.2f}"}
ALL_SHARES = ("time-slice", "streams", "streams+slab", "shares+slab", "lagoon+slab")


def shares(report, models, systems):
    """Two or three models beside each other: closed loops, then Poisson arrivals."""
    every = lambda metric, form: ", ".join(f"{{{metric.replace('MODEL', model)}:{form}}}" for model in models.split("+"))
    return Grid(report, quoted(*systems), {
        "closed: answers/s": every(f"throughput_ips.$.{models}.MODEL", ".0f"),
        "within SLO": every(f"slo_kept.$.{models}.MODEL", ".2f"),
        "at 70 %: p90 ms": every(f"latency_ms_p90.$.{models}-load.MODEL", ".0f"),
        "within SLO ": every(f"slo_kept.$.{models}-load.MODEL", ".2f")})


GRIDS = {
    "contention": Grid(f"2026-11-22-{EPYC}-contention", SIDES, {
        **CONTENTION, "preemption us, p50 / p90": "{preemption_us_p50.$:.0f} / {preemption_us_p90.$:.0f}",
        "idle while ready": "{idle_while_ready_fraction.$:i.3f}"}),
    "contention-onnxruntime": Grid(f"2026-11-22-{EPYC}-contention-onnxruntime", {"`lagoon`": "lagoon", **OTHERS}, CONTENTION),
    "contention-p99": Grid(f"{XEON}-contention", {**quoted("reset", "wait", "streams", "sequential"), **OTHERS}, {
        "latency / alone, p50": "{realtime_latency_normalized_p50.$:.2f}",
        "p99": "{realtime_latency_normalized_p99.$:.2f}",
        "share of leftover": "{best_effort_share_of_leftover.$:.2f}",
        "preemption us, p50 / p99": "{preemption_us_p50.$:,.0f} / {preemption_us_p99.$:,.0f}"}),
    "disb-c": Grid(f"2026-11-22-{EPYC}-disb-C", quoted("reset", "lagoon"), {
        "latency / alone, p50": "{realtime_latency_vs_alone_p50.$:i.2f}", "mean": "{realtime_latency_vs_alone_mean.$:i.2f}",
        "p99": "{realtime_latency_vs_alone_p99.$:i.2f}",
        "best-effort throughput": "{best_effort_throughput_normalized.$:.2f}",
        "idle while ready": "{idle_while_ready_fraction.$:i.3f}"}),
    "disb-os-mean": Grid(DISB_OS, same("A", "B", "C", "D", "E", "REAL"), {
        label: f"{{realtime_latency_normalized_mean.{key}.$:.2f}}" for label, key in OS_SYSTEMS.items()
    }, later={f"newest: {label}": f"{{realtime_latency_normalized_mean.{key}.newest.$:.2f}}" for label, key in OS_SYSTEMS.items()}),
    "disb-os": Grid(DISB_OS, same("A", "B", "C", "D", "E", "REAL"), {
        label: f"{{realtime_latency_vs_alone_p90.{key}.$:i.2f}}" for label, key in OS_SYSTEMS.items()
    } | {
        "work, `lagoon`": "{throughput_vs_best_os.$:i.2f}", "work, `reset`": "{throughput_vs_best_os.$.reset:i.2f}"}),
    "robot": Grid(f"2026-11-26-{EPYC}-robot-grpc", ROBOT, BESIDE),
    "robot-process": Grid(f"2026-11-26-{EPYC}-robot-process", ROBOT, BESIDE),
    "robot-controller": Grid(f"2026-11-26-{EPYC}-robot-controller", BOTH_WAYS | {
        "ONNX Runtime, `SCHED_FIFO`": "onnxruntime:fifo"}, BESIDE | {"late": "{robot_late_fraction.$:%1}"}),
    "robot-cameras": Grid(f"2026-11-26-{EPYC}-robot-cameras", BOTH_WAYS, FREQUENT),
    "robot-burst": Grid(f"2026-11-26-{EPYC}-robot-burst", BOTH_WAYS, FREQUENT),
    "in-process": Grid("2026-11-28-xeon-2core-in-process", {
        "`liblagoon`": "lagoon", "ONNX Runtime with the plug-in": "plugin", "ONNX Runtime, defaults": "ort",
        "a thread each, spinning off": "ort_one_thread", "others at nice 19, spinning off": "ort_nice19"}, {
            "control step alone, p50 / p99 us": "{control_us_p50.$.alone:.0f} / {control_us_p99.$.alone:.0f}",
            "beside the others": "{control_us_p50.$:.0f} / {control_us_p99.$:,.0f}",
            "missed": "{missed_deadlines.$:,.0f} of {control_steps.$:,.0f}",
            "detector, encoder, a second": "{per_second.$.ssdlite:.1f}, {per_second.$.minilm_sentences:.1f}",
            "added to a run, p50 us": "{added_us_p50.$:.1f}"}),
    "isolation": Grid("2026-11-22-xeon-2core-isolation", {
        "none": "alone", "has a worse rank, nothing else": "priority", "blocks that have not begun leave": "guard",
        "blocks that run leave too": "abort"}, {
            "first real-time block begins, p50 / p99 us": "{isolation_placed_us_p50.$:.0f} / {isolation_placed_us_p99.$:.0f}",
            "best-effort blocks, of those alone": "{isolation_best_effort_share.$:.2f}"}),
    "zoo": Grid([f"{XEON}-gnmt", f"{XEON}-zoo-again", f"{XEON}-zoo", f"{XEON}-memory"], same(*ZOO), {
        **{f"{workers} thread{'s' * (workers > 1)}, batch {batch}": f"{{latency_ratio_vs_onnxruntime.$.w{workers}.b{batch}:.2f}}"
           for batch in (1, 8) for workers in (1, 2)},
        "memory": "{memory_ratio_vs_onnxruntime.$:.2f}"}),
    "bf16": Grid(f"{XEON}-bf16", same("resnet50", "bert_base"), {
        "1 worker, ms": "{latency_ms_p50.$.w1.b1.bf16:.1f}", "speedup": "{bf16_speedup.$.w1.b1:.2f}",
        "2 workers, ms": "{latency_ms_p50.$.w2.b1.bf16:.1f}", "speedup ": "{bf16_speedup.$.w2.b1:.2f}",
        "cosine": "{bf16_cosine.$:.4f}", "weights MiB": "{weights_mib.$.bf16:.0f}"}),
    "levels": Grid("2026-12-01-xeon-2core-levels", {
        label: model for name in ("resnet18", "mobilenet_v2", "squeezenet1_1", "efficientnet_b0", "bert_tiny")
        for label, model in ((name, name), (f"{name}, int8", f"{name}.qdq"))}, {
            level: f"{{latency_ms_p50.$.w1.b1.{level}:.1f}}"
            for level in ("portable", "avx2", "avx512", "avx512bf16", "amx")} | {
                "ONNX Runtime": "{latency_ms_p50.$.w1.b1.onnxruntime:.1f}"}),
    "overhead": Grid(f"2026-11-29-{EPYC}-overhead", {"HTTP": "http", "gRPC": "grpc", "HTTP, behind ResNet-18": "http.resnet18",
                                          "gRPC, behind ResNet-18": "grpc.resnet18"}, {
        "p50 us": "{overhead_us_p50.$:.0f}", "p99 us": "{overhead_us_p99.$:.0f}", "read": "{stage_us_p50.$.read:.0f}",
        "parse": "{stage_us_p50.$.parse:.0f}", "input copy": "{stage_us_p50.$.compute_input:.0f}",
        "wire": "{stage_us_p50.$.wire:.0f}"}),
    "batching": Grid(f"2026-11-24-{EPYC}-batching", {"GNMT (quarter)": "gnmt_tiny", "ResNet-18": "resnet18",
                                                      "BERT (two layers)": "bert_tiny", "SqueezeNet 1.1": "squeezenet1_1"}, {
        "alone, ms": "{latency_ms_alone.$:.1f}", "gain": "{batching_gain.$:.2f}",
        "answers/s at a load of 10, one at a time / batches":
            "{throughput_ips.$.single.l1000:,.0f} / {throughput_ips.$.batched.l1000:,.0f}",
        "of the most answers": "{overload_goodput_fraction.$:i.2f}"}),
    "shares-resnet18-bert": shares(f"2026-11-24-{EPYC}-shares", "resnet18+bert_tiny", (*ALL_SHARES, "onnxruntime-1-spin")),
    "shares-squeezenet-mobilenet": shares(f"2026-11-24-{EPYC}-shares", "squeezenet1_1+mobilenet_v2",
                                          (*ALL_SHARES, "onnxruntime-1-spin")),
    "shares-three": shares(f"2026-11-25-{EPYC}-shares-three", "resnet18+squeezenet1_1+bert_tiny",
                           ("streams", "shares+slab", "lagoon+slab")),
    "tuning": Grid("sim-share-tuning", {"fixed equal shares": "equal", "tuned by GSLICE's rule": "paper",
                                        "tuned by ours": "tuned", "tuned, units lent (`lagoon`)": "tuned-lent", "no shares": "no-shares"}, {
        "requests within the SLO": "{slo_kept.$:.2f}", "moves": "{moves.$:.0f}"}),
    "instances": Grid(f"2026-11-25-{EPYC}-instances", {"AlexNet": "alexnet", "ResNet-50": "resnet50", "ResNet-152": "resnet152",
                                                       "VGG-19": "vgg19"}, {
        "load in ms: shared / alone": "{load_ms.$.shared:.1f} / {load_ms.$.alone:,.0f}",
        "memory in MiB: shared / alone": "{instance_mib.$.shared:.1f} / {instance_mib.$.alone:.0f}"}),
    "interference": Grid(f"2026-11-25-{EPYC}-interference", quoted("none", "paper", "constant", "ridge", "ridge+online"), {
        "median": "{latency_error_median.$:%1}", "90 % are below": "{latency_error_p90.$:%1}",
        "worst": "{latency_error_worst.$:%1}"}),
    "shapes": Grid(f"2026-11-24-{EPYC}-shapes", {"ResNet-50": "resnet50", "BERT-base": "bert_base",
                                                 "PP-OCRv4 detection": "ppocr_v4_det", "DETR (narrow)": "detr",
                                                 "SSDLite (narrow)": "ssdlite"}, {
        "a new shape, median ms": "{new_shape_ms.$:.1f}",
        "MiB after the first / all": "{memory_mib.$.first:.0f} / {memory_mib.$.all:.0f}", "ratio": "{memory_ratio.$:.2f}"}),
    "decision": Grid(f"2026-11-29-{EPYC}-decision", quoted("five_best_effort", "five_best_effort.reef", "five_best_effort.reset",
                                                       "thousand_ready"), {
        "decision us, median": "{decision_us_median.$:.3f}", "p99": "{decision_us_p99.$:.2f}",
        "dispatcher a kernel us, mean": "{dispatcher_us_per_kernel.$:.2f}"}),
    "load": Grid(f"2026-11-29-{EPYC}-load", quoted("single-stream", "job-streams", "paella", "lagoon") | {"ONNX Runtime": "onnxruntime"}, {
        f"load {load}: p50 / p90 ms; jobs a second": f"{{latency_ms_p50.$.sigma2.load{load}:.0f}} / {{latency_ms_p90.$.sigma2.load{load}:,.0f}}; "
                                                     f"{{per_second.$.sigma2.load{load}:.0f}}" for load in ("0.5", "0.85", "1.2")}),
    "depth": Grid(f"2026-11-29-{EPYC}-depth", {str(depth): f"depth{depth}" for depth in (1, 4, 16, 64, 256)}, {
        "host us a kernel": "{host_us_per_kernel.$:.2f}", "host's part of a processor": "{host_cpu_fraction.$:%1}",
        "between kernels us": "{kernel_gap_us.$:.2f}"}),
    "block-events": Grid(f"2026-11-29-{EPYC}-block-events", {
        f"{blocks} blocks, {label}": f"b{blocks}.{key}" for blocks in (16, 160)
        for label, key in (("none told", "none"), ("every 16", "every16"), ("as often as possible", "often"))}, {
            "reports": "{events_per_launch.$:.0f}", "kernel us, p50": "{kernel_us_p50.$:.2f}", "p90": "{kernel_us_p90.$:.2f}",
            "seen by the host us, p50": "{seen_us_p50.$:.2f}"}),
    "simulator": Grid(f"2026-11-29-{EPYC}-sim-speed", quoted("lagoon.gv100", "paella.t4", "paella.gtx1660s"), {
        "block events a second": "{sim_block_events_per_second.$:,.0f}", "kernels a second": "{sim_kernels_per_second.$:,.0f}",
        "virtual / real time": "{sim_speedup.$:.1f}"}),
    "split-cpu": Grid(f"2026-11-24-{EPYC}-split", {
        "ONNX Runtime, in order of arrival": "onnxruntime", "`rt-a`": "rt-a",
        "`clockwork`, nothing refused": "clockwork:admit_by_deadline=0", "`prema`": "prema", "`split`": "split",
        "`lagoon`": "lagoon", "`lagoon-ratio`": "lagoon-ratio", "`lagoon.classes`": "lagoon.classes"}, {
            "late, scenarios 1 / 3 / 6": "{violation_rate.$.s1.a2:%1} / {violation_rate.$.s3.a2:%1} / {violation_rate.$.s6.a2:%1}",
            "jitter ms": "{jitter_ms.$.s1.short:.1f} / {jitter_ms.$.s3.short:.1f} / {jitter_ms.$.s6.short:.1f}"}),
}


def grid(results, words):
    if words[0] not in GRIDS:
        raise KeyError(f"no grid '{words[0]}'; there are {', '.join(GRIDS)}")
    return GRIDS[words[0]].table(results)


def fleet(results, _words):
    """Four runs of each placer on two CPU devices."""
    runs = [results[f"2026-11-25-{EPYC}-fleet-{run}.json"]["metrics"] for run in (1, 2, 3, 4)]
    rows = []
    for placer in ("static", "least-loaded", "lagoon", "inss"):
        late = [100 * run[f"violation_rate.{placer}"] for run in runs]
        p99, moves = ([run[f"{name}.{placer}"] for run in runs] for name in ("latency_ms_p99", "moves"))
        middle = sorted(late)
        rows.append([f"`{placer}`", ", ".join(f"{one:.1f}" for one in late), f"{(middle[1] + middle[2]) / 2:.1f}",
                     f"{min(p99):,.0f} to {max(p99):,.0f}", f"{min(moves):.0f} to {max(moves):.0f}"])
    return ["placer", "late or failed in four runs, %", "median", "latency p99, ms", "moves"], rows
