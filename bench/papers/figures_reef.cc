// Figures 15, 16, 23 and 24: latency, throughput and use of the units.

#include "bench/papers/figures_reef.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/measure/statistics.h"
#include "bench/papers/disb_paper.h"
#include "bench/sim/disb_sim.h"
#include "bench/sim/sim_jobs.h"

namespace lagoon::bench {
namespace {

using std::chrono::milliseconds;
using Json = nlohmann::json;

constexpr std::array<std::string_view, 6> kWorkloads{"A", "B", "C", "D", "E", "REAL"};

Result<Figure> Disb(const std::string& device, const FigureOptions& options) {
  const std::vector<std::string> schedulers = {"sequential", "streams", "reef", "lagoon"};
  Figure figure;
  FigurePanel latency{"Real-time latency / standalone, mean", "workload", "", {}};
  FigurePanel throughput{"Throughput of all clients / standalone", "workload", "", {}};
  latency.log_y = true;
  for (std::size_t i = 0; i < kWorkloads.size(); ++i) {
    const std::string workload(kWorkloads[i]);
    LAGOON_ASSIGN_OR_RETURN(const Json metrics, DisbMetrics(device, workload, schedulers, options));
    const auto at = static_cast<double>(i);
    latency.groups.push_back(workload);
    throughput.groups.push_back(workload);
    for (const std::string& scheduler : schedulers) {
      latency.Add(scheduler, at, metrics.at("realtime_latency_normalized_mean." + scheduler));
      throughput.Add(scheduler, at, metrics.at("throughput_normalized." + scheduler));
    }
    for (const DisbPaperNumber& number : DisbPaperNumbers()) {
      const std::string metric = fmt::format("{}.{}", number.metric, number.scheduler);
      if (number.device != device || number.workload != workload || !metrics.contains(metric)) {
        continue;
      }
      figure.CompareRange(fmt::format("{}.{}", metric, workload), {number.least, number.most},
                          metrics.at(metric), std::string(number.source));
    }
  }
  figure.panels = {std::move(latency), std::move(throughput)};
  return figure;
}

constexpr std::array<std::string_view, 5> kModels{"resnet152", "vgg19", "yolov3", "bert", "gpt2"};
constexpr std::string_view kLetters = "RVYBG";

// Two clients in closed loops, or the real-time one alone.
struct Pair {
  double realtime_ms = 0;                // mean latency
  double realtime = 0, best_effort = 0;  // requests a second
  double units_busy = 0;
};

class PairRuns {
 public:
  static Result<PairRuns> Open(const FigureOptions& options) {
    PairRuns runs;
    LAGOON_ASSIGN_OR_RETURN(runs.gpu_, LoadGpuModel("mi50"));
    // The longest request takes 13 ms.
    runs.span_ = milliseconds(std::max(100, options.Scaled(800)));
    for (std::size_t i = 0; i < kModels.size(); ++i) {
      LAGOON_ASSIGN_OR_RETURN(runs.models_.emplace_back(), MakeSimModel("mi50", kModels[i]));
      LAGOON_ASSIGN_OR_RETURN(runs.alone_.emplace_back(), runs.Run("sequential", i, {}));
    }
    return runs;
  }

  const Pair& alone(std::size_t model) const { return alone_[model]; }

  Result<Pair> Run(const std::string& scheduler, std::size_t realtime,
                   std::optional<std::size_t> best_effort) const {
    std::vector<DisbClient> clients{{"rt", "rt", JobClass::kRealTime, {}}};
    std::vector<SimStageQueue> queues{{"rt", JobClass::kRealTime, &models_[realtime]}};
    if (best_effort) {
      clients.push_back({"be", "be", JobClass::kBestEffort, {}});
      queues.push_back({"be", JobClass::kBestEffort, &models_[*best_effort]});
    }
    LAGOON_ASSIGN_OR_RETURN(Scheduler made, MakeScheduler(scheduler));
    LAGOON_ASSIGN_OR_RETURN(SimStage stage, SimStage::Open({.gpu = gpu_}, std::move(made), queues));
    const DisbWindow window{span_, std::vector<std::vector<Nanoseconds>>(clients.size())};
    const std::vector<VirtualRun> runs = stage.Run(clients, window, milliseconds(50));
    const double seconds = std::chrono::duration<double>(span_).count();
    Pair pair;
    pair.realtime_ms = Mean(runs[0].latencies_ms);
    pair.realtime = runs[0].completed / seconds;
    pair.best_effort = best_effort ? runs[1].completed / seconds : 0;
    pair.units_busy = stage.UnitsBusy();
    return pair;
  }

 private:
  GpuModel gpu_;
  Nanoseconds span_{0};
  std::vector<SimModel> models_;
  std::vector<Pair> alone_;
};

// The results of a scheduler for all pairs.
struct PairTotals {
  std::vector<double> latency, throughput, realtime;  // by pair, relative to standalone
  std::vector<double> with_resnet;                    // throughput if ResNet is real-time
  int starved = 0;                                    // pairs without best-effort throughput
};

void ReportPairs(const std::string& scheduler, const PairTotals& totals, Figure& figure) {
  const auto most = [](const std::vector<double>& values) {
    return *std::max_element(values.begin(), values.end());
  };
  const std::string source = "REEF 6.5";
  const double latency = Mean(totals.latency), throughput = Mean(totals.throughput);
  if (scheduler == "streams") {
    figure.Compare("latency_normalized_mean.streams", 1.34, latency, source);
    figure.Compare("latency_normalized_max.streams", 1.62, most(totals.latency), source);
    figure.Compare("throughput_normalized_mean.streams", 1.50, throughput, source);
    figure.Compare("realtime_throughput_mean.streams", 0.753, Mean(totals.realtime), source);
    return;
  }
  figure.Compare("latency_normalized_mean.reef", 1.010, latency, source);
  figure.Compare("latency_normalized_max.reef", 1.029, most(totals.latency), source);
  figure.Compare("throughput_normalized_mean.reef", 1.12, throughput, source);
  figure.Compare("throughput_normalized_max.reef", 1.34, most(totals.throughput), source);
  figure.Compare("throughput_normalized_mean_of_resnet152.reef", 1.16, Mean(totals.with_resnet),
                 source);
  figure.Compare("pairs_without_best_effort.reef", 4, totals.starved, source);
}

}  // namespace

Result<Json> DisbMetrics(const std::string& device, std::string_view workload,
                         const std::vector<std::string>& schedulers, const FigureOptions& options) {
  SimDisbOptions run;
  LAGOON_ASSIGN_OR_RETURN(run.gpu, LoadGpuModel(device));
  LAGOON_ASSIGN_OR_RETURN(run.workload,
                          NamedDisbWorkload(workload, DisbScale::kSimulated, options.seed));
  run.schedulers = schedulers;
  run.requests = options.Scaled(1000);
  run.windows = options.effort < 1 ? 1 : 5;
  run.seed = options.seed;
  Report report("disb", {}, "");
  LAGOON_RETURN_IF_ERROR(RunDisbOnSim(run, report));
  return report.json().at("metrics");
}

Result<Figure> ReefFigure15(const FigureOptions& options) { return Disb("mi50", options); }
Result<Figure> ReefFigure16(const FigureOptions& options) { return Disb("gv100", options); }

Result<Figure> ReefFigure23(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const PairRuns runs, PairRuns::Open(options));
  Figure figure;
  FigurePanel latency{"Real-time latency / standalone", "real-time + best-effort model", "", {}};
  FigurePanel throughput{"Throughput of both / standalone", latency.x, "", {}};
  for (const std::string scheduler : {"streams", "reef"}) {
    PairTotals totals;
    for (std::size_t i = 0; i < kModels.size(); ++i) {
      for (std::size_t j = 0; j < kModels.size(); ++j) {
        LAGOON_ASSIGN_OR_RETURN(const Pair pair, runs.Run(scheduler, i, j));
        const double realtime = pair.realtime / runs.alone(i).realtime;
        const double best_effort = pair.best_effort / runs.alone(j).realtime;
        totals.latency.push_back(pair.realtime_ms / runs.alone(i).realtime_ms);
        totals.throughput.push_back(realtime + best_effort);
        totals.realtime.push_back(realtime);
        totals.starved += best_effort < 0.005 ? 1 : 0;
        if (i == 0) totals.with_resnet.push_back(totals.throughput.back());
        const auto at = static_cast<double>(i * kModels.size() + j);
        latency.Add(scheduler, at, totals.latency.back());
        throughput.Add(scheduler, at, totals.throughput.back());
        if (scheduler == "reef") continue;
        latency.groups.push_back(fmt::format("{}+{}", kLetters[i], kLetters[j]));
      }
    }
    ReportPairs(scheduler, totals, figure);
  }
  throughput.groups = latency.groups;
  figure.panels = {std::move(latency), std::move(throughput)};
  return figure;
}

Result<Figure> ReefFigure24(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const PairRuns runs, PairRuns::Open(options));
  Figure figure;
  FigurePanel panel{"Units with blocks, of all", "real-time model", "", {}};
  for (std::size_t i = 0; i < kModels.size(); ++i) {
    panel.groups.emplace_back(kModels[i]);
    panel.Add("alone", static_cast<double>(i), runs.alone(i).units_busy);
    double sum = 0;
    for (std::size_t j = 0; j < kModels.size(); ++j) {
      LAGOON_ASSIGN_OR_RETURN(const Pair pair, runs.Run("reef", i, j));
      panel.Add(fmt::format("+ {}", kModels[j]), static_cast<double>(i), pair.units_busy);
      sum += pair.units_busy;
    }
    if (i == 0) {
      figure.Compare("units_busy_mean.resnet152_with_each", 0.49,
                     sum / static_cast<double>(kModels.size()), "REEF 6.5 (without versions)");
    }
  }
  figure.Compare("units_busy.resnet152_alone", 0.34, runs.alone(0).units_busy, "REEF 6.5");
  figure.Compare("units_busy.yolov3_alone", 0.87, runs.alone(2).units_busy, "REEF 6.5");
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace lagoon::bench
