"""The table of docs/results/numbers.md: what matters, from the reports, with machine, date and commit. page.py writes it."""

import re

import grids

XEON, EPYC = "2026-11-21-xeon-2core", "epyc-2core"
CORPUS = f"2026-11-27-{EPYC}-corpus"
INT8_AMX = "2026-11-30-xeon-2core-zoo-int8"
FP32_AMX = "2026-11-30-xeon-2core-zoo-fp32"
GENERATE_AMX = "2026-11-30-xeon-2core-generate"
DISB = grids.DISB_OS
H200 = "2026-11-27-h200"
CONTROLLER = f"2026-11-26-{EPYC}-robot-controller"
CAMERA, IN_PROCESS = f"2026-11-26-{EPYC}-robot-grpc", f"2026-11-26-{EPYC}-robot-process"


class Row:
    """A line: what it is, the report, its cell (as in grids.py, or a function of the results), the target and the outcome."""

    def __init__(self, what, report, cell, target=""):
        self.what, self.report, self.cell, self.target = what, report, cell, target

    def cells(self, results):
        if callable(self.cell):
            text = self.cell(results)
        else:
            text = grids.Grid(self.report, {}, {}).cell(results, self.cell, "")
        if not text:
            raise KeyError(f"no metric of '{self.what}' in {self.report}")
        return [self.what, text, self.target, where(results[f"{self.report}.json"], self.report), f"`{self.report}`"]


def where(report, name):
    """Machine, date and commit. A commit with a plus had changes that were not committed."""
    machine = report["machine"]
    kind = "H200" if "-h200-" in name else "Xeon" if "Xeon" in machine["processor"] else "EPYC"
    level = {"avx512bf16": ", AVX512-BF16", "avx2": ", AVX2", "AVX3": ", AMX"}.get(machine.get("instruction_set"), "")
    commit = re.search(r"\b([0-9a-f]{7})[0-9a-f]*(-dirty)?", report.get("version", ""))
    return f"{kind}{level}; {report['date'][:10]}" + (f"; {commit[1]}{'+' * bool(commit[2])}" if commit else "")


def worst_by_threads(report):
    """The largest ratio over the better engine with one thread, and with two."""
    def cell(results):
        metrics = results[f"{report}.json"]["metrics"]
        ratios = {threads: [value for name, value in metrics.items()
                            if name.startswith("latency_ratio_vs_best.") and f".w{threads}." in name] for threads in (1, 2)}
        return "; ".join(f"{max(values):.2f}" for values in ratios.values())
    return cell


def span(report, metric, form, choose=None):
    """The smallest and the largest of the metrics that begin with `metric`."""
    def cell(results):
        values = [value for name, value in results[f"{report}.json"]["metrics"].items() if name.startswith(metric)]
        if not values:
            return ""
        return format(choose(values), form) if choose else f"{min(values):{form}} to {max(values):{form}}"
    return cell


def join(*cells):
    """Several cells as one."""
    return lambda results: "; ".join(cell(results) for cell in cells)


def disb(metric, system, others, form):
    """A metric of DISB A to E: of a system, and of PyTorch's streams."""
    def cell(results):
        def value(report, name):
            return format(results[f"{H200}-{report}.json"]["metrics"][f"{metric}.{name}"], form)
        return "; ".join(f"{value(f'disb-{load}', system)}, {value(f'{others}-{load}', 'torch-streams')}" for load in "ABCDE")
    return cell


def against_torch(precision, batch):
    """Latency over that of PyTorch's best way (eager, CUDA graph or compiled), by model."""
    ours = {"fp32": "lagoon", "bf16": "bf16"}[precision]
    def cell(results):
        mine, theirs = (results[f"{H200}-{name}.json"]["metrics"] for name in (f"latency-{precision}", "torch"))
        return "; ".join(f"{mine[f'latency_ms_p50.{model}.{batch}.{ours}'] / theirs[f'latency_ms_p50.{model}.{precision}.{batch}.torch_best']:.2f}"
                         for model in ("resnet18", "resnet50", "mobilenet_v2", "bert_base"))
    return cell


def of_models(metric, form):
    """A metric of two models, or the ratio of two of its values."""
    def cell(results):
        found = results[f"{H200}-machinery.json"]["metrics"]
        return "; ".join(format(metric(found, model), form) for model in ("resnet18", "bert_base"))
    return cell


SECTIONS = {
    "beside": [
        Row("a camera (SSDlite, 20 a second, 50 ms) beside two closed loops, all clients on the same cores: late under `lagoon`, "
            "`reset`", CAMERA, "{robot_late_fraction.lagoon:lagoon:%1}, {robot_late_fraction.lagoon:reset:%1}", "0: met"),
        Row("the same: p99 over that alone, `lagoon`; `reset`", CAMERA,
            "{robot_latency_normalized_p99.lagoon:lagoon:i.2f}; {robot_latency_normalized_p99.lagoon:reset:i.2f}",
            "1.10: **undecided**"),
        Row("the same: background work, of that in the best control groups, whose answers do not travel", CAMERA,
            "{robot_background_vs_best_os.lagoon:lagoon:.2f}, {robot_background_vs_best_os.lagoon:reset:.2f}", "1: **missed**"),
        Row("the same camera in one process with the models: p99 over that alone, `lagoon`; `reset`", IN_PROCESS,
            "{robot_latency_normalized_p99.lagoon:lagoon:i.2f}; {robot_latency_normalized_p99.lagoon:reset:i.2f}",
            "1.10: **undecided**"),
        Row("the same: background work, of that under the best setting of the operating system", IN_PROCESS,
            "{robot_background_vs_best_os.lagoon:lagoon:i.2f}; {robot_background_vs_best_os.lagoon:reset:i.2f}",
            "1: **undecided**"),
        Row("a control loop of 500 Hz in one process with the models: p99 beside the background under `lagoon`, `reset`; ONNX "
            "Runtime, `SCHED_IDLE`, control groups, ms", CONTROLLER,
            "{robot_latency_ms_p99.lagoon:lagoon@process.both:.1f}, {robot_latency_ms_p99.lagoon:reset@process.both:.1f}; "
            "{robot_latency_ms_p99.onnxruntime:idle.both:.1f}, {robot_latency_ms_p99.onnxruntime:cgroup.both:.1f}"),
        Row("the same: later than 2 ms, of all, in one process", CONTROLLER,
            "{robot_late_fraction.lagoon:lagoon@process:%1}, {robot_late_fraction.lagoon:reset@process:%1}", "0: **missed**"),
        Row("the same over gRPC; p99, ms", f"{CONTROLLER}-grpc",
            "{robot_late_fraction.lagoon:lagoon:%1}, {robot_late_fraction.lagoon:reset:%1}; "
            "{robot_latency_ms_p99.lagoon:lagoon.both:.1f}, {robot_latency_ms_p99.lagoon:reset.both:.1f}", "0: **missed**"),
        Row("DISB A; E; REAL: work of all clients, of that under the best setting of the operating system, `lagoon`", DISB,
            "{throughput_vs_best_os.A:i.2f}; {throughput_vs_best_os.E:i.2f}; {throughput_vs_best_os.REAL:i.2f}",
            "1: **undecided**"),
        Row("the same: real-time tail over alone (A and REAL p90, E p99)", DISB,
            "{realtime_latency_vs_alone_p90.lagoon.A:i.2f}; {realtime_latency_vs_alone_p99.lagoon.E:i.2f}; "
            "{realtime_latency_vs_alone_p90.lagoon.REAL:i.2f}", "1.10 for a p99: **undecided**"),
        Row("eight simulated cores, DISB A; C; E: p99 over alone, `lagoon`", "sim-disb-cpu8",
            "{realtime_latency_vs_alone_p99.lagoon.A:.2f}; {realtime_latency_vs_alone_p99.lagoon.C:.2f}; "
            "{realtime_latency_vs_alone_p99.lagoon.E:.2f}", "1.10: predicted"),
        Row("the same: best-effort work in A; B; C; E", "sim-disb-cpu8",
            "; ".join(f"{{best_effort_throughput_normalized.lagoon.{one}:.2f}}" for one in "ABCE"), "over 0: predicted, **missed** in B"),
        Row("ResNet-18 at 50 % load beside ResNet-50 that never stops: p99 over alone, `reset`", f"{XEON}-contention",
            "{realtime_latency_normalized_p99.reset:.2f}", "1.10: met"),
        Row("two ONNX Runtimes instead, best of four settings", f"{XEON}-contention",
            span(f"{XEON}-contention", "realtime_latency_normalized_p99.onnxruntime", ".2f", min)),
        Row("the same pair: p90 over alone, `reset`; `lagoon`", "2026-11-30-xeon-2core-contention",
            "{realtime_latency_normalized_p90.reset:.2f}; {realtime_latency_normalized_p90.lagoon:.2f}"),
        Row("first real-time block after the request, p50 / p90 us, `reset`; `lagoon`", "2026-11-30-xeon-2core-contention",
            "{preemption_us_p50.reset:.0f} / {preemption_us_p90.reset:.0f}; {preemption_us_p50.lagoon:.0f} / {preemption_us_p90.lagoon:.0f}",
            "60 for a p99: **undecided**"),
    ],
    "single": [
        Row("models as users bring them; wrong answers, undecided answers", f"2026-11-26-{EPYC}-corpus",
            "{corpus_models:.0f}; {corpus_wrong_answers:.0f}, {corpus_undecided_answers:.0f}", "0 wrong: met"),
        Row("the same, 1 thread: geometric mean of fp32; int8", f"2026-11-26-{EPYC}-corpus",
            "{latency_ratio_geomean.fp32:.2f}; {latency_ratio_geomean.int8:.2f}", "1.0: **missed**; met"),
        Row("the same on a slow host, over the better of ONNX Runtime and OpenVINO; the worst", CORPUS,
            join(span(CORPUS, "latency_ratio_vs_best_geomean.fp32", ".2f", max),
                 span(CORPUS, "latency_ratio_vs_best_geomean.int8", ".2f", max),
                 span(CORPUS, "latency_ratio_vs_best.", ".2f", max)), "1.0: met; met; 1.3: **missed**"),
        Row("zoo and ten more models, over the better of both: geometric mean of 1 thread, 2; batch 8 of 1, 2", f"2026-11-30-{EPYC}-zoo-best",
            "{latency_ratio_vs_best_geomean.w1.b1:.2f}, {latency_ratio_vs_best_geomean.w2.b1:.2f}; "
            "{latency_ratio_vs_best_geomean.w1.b8:.2f}, {latency_ratio_vs_best_geomean.w2.b8:.2f}", "1.0: **missed**"),
        Row("the same, the worst model of 1 thread; of 2", f"2026-11-30-{EPYC}-zoo-best",
            worst_by_threads(f"2026-11-30-{EPYC}-zoo-best"), "1.15: **missed**"),
        Row("the same: time to load; memory of a process", f"2026-11-30-{EPYC}-zoo-best",
            join(span(f"2026-11-30-{EPYC}-zoo-best", "load_ratio_vs_best.", ".2f"),
                 span(f"2026-11-30-{EPYC}-zoo-best", "memory_ratio_vs_best.", ".2f")), "1.0: **missed**"),
        Row("38 in int8 on AMX: batch 1 of 1 thread, 2; batch 8; the worst", INT8_AMX,
            join(*(span(INT8_AMX, f"latency_ratio_vs_best_geomean.{one}", ".2f", max) for one in ("w1.b1", "w2.b1", "w1.b8", "w2.b8")),
                 span(INT8_AMX, "latency_ratio_vs_best.", ".2f", max)), "1.0: met; 1.15: **missed**"),
        Row("the same: time to load; memory of a process", INT8_AMX,
            join(span(INT8_AMX, "load_ratio_vs_best.", ".2f"), span(INT8_AMX, "memory_ratio_vs_best.", ".2f")), "1.0: **missed**"),
        Row("31 in fp32 there, 2 threads, one round: batch 1; 8; the worst", FP32_AMX,
            join(span(FP32_AMX, "latency_ratio_vs_best_geomean.w2.b1", ".2f", max),
                 span(FP32_AMX, "latency_ratio_vs_best_geomean.w2.b8", ".2f", max),
                 span(FP32_AMX, "latency_ratio_vs_best.", ".2f", max)), "1.0: met; 1.15: **missed**"),
        Row("bf16 on AMX: speed-up over Lagoon's fp32", f"{XEON}-bf16", span(f"{XEON}-bf16", "bf16_speedup", ".1f"), "2.5: met"),
        Row("largest difference of an output of the zoo", f"{XEON}-outputs", span(f"{XEON}-outputs", "output_error.", ".1e", max),
            "1e-4: met"),
        Row("peak memory of a model, largest ratio", f"{XEON}-memory", span(f"{XEON}-memory", "memory_ratio", ".2f", max),
            "1.25: met"),
        Row("a new input shape, five models: median ms", f"2026-11-24-{EPYC}-shapes",
            span(f"2026-11-24-{EPYC}-shapes", "new_shape_ms.", ".1f"), "30, 60: met"),
        Row("a decoder of the shape of Qwen2-0.5B, 4 bits, room for 8192 tokens: tokens a second of one client, of two; of what memory "
            "allows to one", f"2026-11-27-{EPYC}-generate",
            "{tokens_per_second.qwen2_0_5b.c1:.0f}, {tokens_per_second.qwen2_0_5b.c2:.0f}; {tokens_of_bound.qwen2_0_5b:.2f}",
            "0.85: **missed**"),
        Row("the same: first token of a real-time request beside a best-effort prompt of 8,000 tokens, p99 over alone",
            f"2026-11-27-{EPYC}-generate", "{first_token_ratio_p99.qwen2_0_5b:.2f}", "1.1: **undecided**, few requests"),
        Row("the same and TinyLlama's on AMX: over onnxruntime-genai; of the bound", GENERATE_AMX,
            join(span(GENERATE_AMX, "tokens_ratio_vs_genai.", ".2f"), span(GENERATE_AMX, "tokens_of_bound.", ".2f")), "0.85: **missed**"),
        Row("what the server adds to a request, p50 us: HTTP; gRPC; small: gRPC; channel", f"2026-11-29-{EPYC}-overhead",
            "{overhead_us_p50.http:.0f}; {overhead_us_p50.grpc:.0f}; {overhead_us_p50.grpc.small:.0f}; {overhead_us_p50.channel.small:.0f}",
            "200: **missed**; 300: met; 80, 5: **missed**"),
    ],
    "gpu": [
        Row("12 models beside the CPU, each revoked 50 times or more: largest difference of an output", f"{H200}-outputs",
            "{output_error_max:.1e}", "1e-4: met"),
        Row("DISB A; B; C; D; E at the paper's scale: p90 over alone, `lagoon`, PyTorch's streams with priorities "
            "(open loop: in C its queue grows throughout)", f"{H200}-disb-A",
            disb("realtime_latency_vs_alone_p90", "lagoon", "torch-disb", ".2f"), "1.05 for a p99: **not judged**, too few requests"),
        Row("the same: best-effort work, of that alone", f"{H200}-disb-A",
            disb("best_effort_throughput_normalized", "lagoon", "torch-disb", ".2f")),
        Row("ResNet-18 at 50 % load beside ResNet-152 that never stops: p99 over alone, `lagoon`; `reset`; `reef`; `streams`",
            f"{H200}-contention", "{realtime_latency_normalized_p99.lagoon:.2f}; {realtime_latency_normalized_p99.reset:.2f}; "
            "{realtime_latency_normalized_p99.reef:.2f}; {realtime_latency_normalized_p99.streams:.2f}", "1.10: **undecided**, one window"),
        Row("the same: best-effort work, of what is left over, `lagoon`; `reset`; `reef`", f"{H200}-contention",
            "{best_effort_share_of_leftover.lagoon:.2f}; {best_effort_share_of_leftover.reset:.2f}; {best_effort_share_of_leftover.reef:.2f}"),
        Row("the same: a unit idles while work is ready, of the time", f"{H200}-contention",
            "{idle_while_ready_fraction.lagoon:.2f}; {idle_while_ready_fraction.reset:.2f}; {idle_while_ready_fraction.reef:.2f}",
            "0.02: **missed**"),
        Row("the same: until a best-effort kernel has left, p50 / p99 us, `reef`; `wait`", f"{H200}-contention",
            "{preemption_us_p50.reef:.0f} / {preemption_us_p99.reef:.0f}; {preemption_us_p50.wait:.0f} / {preemption_us_p99.wait:.0f}"),
        Row("first real-time block after the request, p50 / p99 us: on an idle GPU; beside work that leaves; on a share", f"{H200}-isolation",
            "{isolation_placed_us_p50.alone:.0f} / {isolation_placed_us_p99.alone:.0f}; {isolation_placed_us_p50.guard:.0f} / "
            "{isolation_placed_us_p99.guard:.0f}; {isolation_placed_us_p50.share:.0f} / {isolation_placed_us_p99.share:.0f}",
            "6 / 10: **missed**"),
        Row("a guard word is seen, p50 us: by copy, by stream write; beside work that fills the memory", f"{H200}-guards",
            "{guard_us_p50.memcpy_async.idle:.1f}, {guard_us_p50.write_value32.idle:.1f}; {guard_us_p50.memcpy_async.saturated:.1f}, "
            "{guard_us_p50.write_value32.saturated:.1f}"),
        Row("fp32, batch 1: latency over PyTorch's best of ResNet-18; ResNet-50; MobileNetV2; BERT-base", f"{H200}-latency-fp32",
            against_torch("fp32", "b1"), "1.0: met; met; met; **missed**"),
        Row("the same, batch 8", f"{H200}-latency-fp32", against_torch("fp32", "b8"), "1.0: **missed**; met; **missed**; **missed**"),
        Row("bf16, batch 1", f"{H200}-latency-bf16", against_torch("bf16", "b1"), "1.3: met; met; met; **missed**"),
        Row("bf16, batch 8", f"{H200}-latency-bf16", against_torch("bf16", "b8"), "1.3: **missed**"),
        Row("what the block protocol adds to the kernels' time, ResNet-18; BERT-base", f"{H200}-machinery",
            of_models(lambda found, model: found[f"protocol_cost.{model}"], ".0%")),
        Row("the same, with notes to the host", f"{H200}-machinery",
            of_models(lambda found, model: found[f"kernels_us.{model}.notes"] / found[f"kernels_us.{model}.plain"] - 1, ".0%")),
        Row("all kernels launched one by one, over one CUDA graph", f"{H200}-machinery",
            of_models(lambda found, model: found[f"chain_us.{model}.notes.launches"] / found[f"chain_us.{model}.notes.graph"], ".2f")),
    ],
    "load": [
        Row("45 minutes of mixed load: lost, doubled, wrong, of how many", f"2026-11-26-{EPYC}-reload",
            "{soak_lost:.0f}, {soak_doubled:.0f}, {soak_wrong:.0f} of {soak_requests:,.0f}", "0: met"),
        Row("half an hour of 5.3 times what the machine answered", f"2026-11-26-{EPYC}-soak-400-clients",
            "{soak_lost:.0f}, {soak_doubled:.0f}, {soak_wrong:.0f} of {soak_requests:,.0f}", "0: met"),
        Row("memory that a load and unload leaves, of 6,000", f"2026-11-26-{EPYC}-reload-6000", "{reload_rss_kib_per_load:.2f} KiB"),
        Row("ten times the load, with batches: answers, of the most", f"2026-11-24-{EPYC}-batching",
            span(f"2026-11-24-{EPYC}-batching", "overload_goodput_fraction.", ".2f"), "0.95: **one missed, three undecided**"),
        Row("10 nodes killed in 200 s: answers lost, doubled, wrong, of how many", f"2026-11-26-{EPYC}-fleet-ray",
            "{ray_lost_answers:.0f}, {ray_doubled_answers:.0f}, {ray_wrong_answers:.0f} of {ray_answers:,.0f}", "0: met"),
        Row("until a killed node's models are served elsewhere, p99", f"2026-11-26-{EPYC}-fleet-ray", "{ray_recovery_s_p99:.2f} s",
            "10 s: met"),
        Row("what a server in front adds to a request of 256 bytes, p50, HTTP; gRPC", f"2026-11-27-{EPYC}-fleet-link-http",
            "{link_overhead_us_p50.http.small:.0f}; {link_overhead_us_p50.grpc.small:.0f} us", "150 us: **missed**; **undecided**"),
        Row("twice the load, and clients that give up: work in vain, of all; answers in time a second, `lagoon`; "
            "a server that does not notice", f"2026-11-27-{EPYC}-giving-up",
            "{wasted_work_fraction.lagoon:.2f}, {goodput_ips.lagoon:.0f}; {wasted_work_fraction.deaf:.2f}, {goodput_ips.deaf:.0f}"),
    ],
}


def numbers(results, words):
    return ["what", "measured", "target", "machine; date; commit", "file"], [row.cells(results) for row in SECTIONS[words[0]]]
