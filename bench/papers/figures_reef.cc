// Figures 15, 16, 23 and 24: latency, throughput and use of the units.

#include "bench/papers/figures_reef.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "bench/measure/statistics.h"
#include "bench/papers/disb_paper.h"
#include "bench/sim/disb_sim.h"
#include "bench/sim/sim_jobs.h"

namespace lagoon::bench {
namespace {

using std::chrono::milliseconds;
using Json = nlohmann::json;

constexpr std::array<std::string_view, 6> kWorkloads{"A", "B", "C", "D", "E", "REAL"};

constexpr int kDisbRequests = 1000;

// From the intended arrival, what `streams` makes requests wait; in C, what each model gets.
void FindWhatClientsGet(const std::string& workload, const Json& metrics, Figure& figure) {
  const std::string waited = "realtime_from_arrival_normalized_mean.streams";
  if (metrics.contains(waited)) {
    figure.Find(fmt::format("{}.{}", waited, workload), metrics.at(waited));
    figure.Find(fmt::format("realtime_dropped.streams.{}", workload),
                metrics.at("realtime_dropped.streams"));
  }
  figure.Find(fmt::format("throughput_normalized.lagoon.{}", workload),
              metrics.at("throughput_normalized.lagoon"));
  if (workload != "C") return;
  const Result<DisbWorkload> known = NamedDisbWorkload(workload, DisbScale::kSimulated, 1);
  for (const std::string scheduler : {"reef", "lagoon"}) {
    for (const DisbClient& client : known->clients) {
      const double per_second = metrics.at(fmt::format("per_second.{}.{}", scheduler, client.name));
      const double alone_ms = metrics.at("standalone_ms." + client.model);
      figure.Find(fmt::format("throughput_normalized.{}.C.{}", scheduler, client.name),
                  per_second * alone_ms / 1000);
    }
  }
}

Result<Figure> Disb(const std::string& device, const FigureOptions& options) {
  const std::vector<std::string> schedulers = {"sequential", "streams", "reef", "lagoon"};
  Figure figure;
  figure.Input("requests", options.Scaled(kDisbRequests));
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
      figure.CompareGainRange(fmt::format("{}.{}", metric, workload), {number.least, number.most},
                              metrics.at(metric), std::string(number.source));
      if (number.set) figure.Set("a constant was calibrated on it");
    }
    FindWhatClientsGet(workload, metrics, figure);
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
  std::size_t best_effort_ended = 0;
  double units_busy = 0;
};

constexpr double kLeastEffort = 0.05;  // below it, figures are for tests only

class PairRuns {
 public:
  static Result<PairRuns> Open(const FigureOptions& options) {
    PairRuns runs;
    LAGOON_ASSIGN_OR_RETURN(runs.gpu_, LoadGpuModel("mi50"));
    // 40 times the longest request, which takes 13.2 ms. Shorter ones only for tests.
    const int least_ms = options.effort < kLeastEffort ? 100 : 530;
    runs.span_ = milliseconds(std::max(least_ms, options.Scaled(800)));
    for (std::size_t i = 0; i < kModels.size(); ++i) {
      LAGOON_ASSIGN_OR_RETURN(runs.models_.emplace_back(), MakeSimModel("mi50", kModels[i]));
      LAGOON_ASSIGN_OR_RETURN(runs.alone_.emplace_back(), runs.Run("sequential", i, {}));
    }
    return runs;
  }

  const Pair& alone(std::size_t model) const { return alone_[model]; }
  double span_ms() const { return ToMilliseconds(span_); }

  Result<Pair> Run(const std::string& scheduler, std::size_t realtime,
                   std::optional<std::size_t> best_effort) const {
    std::vector<DisbClient> clients{{"rt", "rt", JobClass::kRealTime, {}}};
    std::vector<SimStageQueue> queues{{"rt", JobClass::kRealTime, &models_[realtime]}};
    if (best_effort) {
      clients.push_back({"be", "be", JobClass::kBestEffort, {}});
      queues.push_back({"be", JobClass::kBestEffort, &models_[*best_effort]});
    }
    LAGOON_ASSIGN_OR_RETURN(Scheduler made, MakeScheduler(scheduler));
    const SimAbort abort = AbortOf(made.config);
    LAGOON_ASSIGN_OR_RETURN(SimStage stage,
                            SimStage::Open({.gpu = gpu_, .abort = abort}, std::move(made), queues));
    const DisbWindow window{span_, std::vector<std::vector<Nanoseconds>>(clients.size())};
    const std::vector<VirtualRun> runs = stage.Run(clients, window, milliseconds(50));
    const double seconds = std::chrono::duration<double>(span_).count();
    Pair pair;
    pair.realtime_ms = Mean(runs[0].latencies_ms);
    pair.realtime = runs[0].completed / seconds;
    pair.best_effort = best_effort ? runs[1].completed / seconds : 0;
    pair.best_effort_ended = best_effort ? runs[1].ended : 0;
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
  int starved = 0;                                    // pairs in which no best-effort request ended
};

void ReportPairs(const std::string& scheduler, const PairTotals& totals, Figure& figure) {
  const auto most = [](const std::vector<double>& values) {
    return *std::max_element(values.begin(), values.end());
  };
  const std::string source = "REEF 6.5";
  const double latency = Mean(totals.latency), throughput = Mean(totals.throughput);
  if (scheduler == "streams") {
    figure.CompareGain("latency_normalized_mean.streams", 1.34, latency, source);
    figure.CompareGain("latency_normalized_max.streams", 1.62, most(totals.latency), source);
    figure.CompareGain("throughput_normalized_mean.streams", 1.50, throughput, source);
    figure.Compare("realtime_throughput_mean.streams", 0.753, Mean(totals.realtime), source);
    return;
  }
  if (scheduler == "reef-mv") {
    figure.CompareGain("throughput_normalized_mean.reef-mv", 1.18, throughput, source);
    figure.CompareGain("throughput_normalized_max.reef-mv", 1.57, most(totals.throughput), source);
    figure.CompareGain("throughput_normalized_mean_of_resnet152.reef-mv", 1.29,
                       Mean(totals.with_resnet), source);
    figure.Compare("starved_pairs.reef-mv", 0, totals.starved, source);
    figure.Find("latency_normalized_mean.reef-mv", latency);
    figure.Find("latency_normalized_max.reef-mv", most(totals.latency));
    return;
  }
  figure.CompareGain("latency_normalized_mean.reef", 1.010, latency, source);
  figure.CompareGain("latency_normalized_max.reef", 1.029, most(totals.latency), source);
  figure.CompareGain("throughput_normalized_mean.reef", 1.12, throughput, source);
  figure.CompareGain("throughput_normalized_max.reef", 1.34, most(totals.throughput), source);
  figure.CompareGain("throughput_normalized_mean_of_resnet152.reef", 1.16, Mean(totals.with_resnet),
                     source);
  figure.Compare("starved_pairs", 4, totals.starved, source);
}

}  // namespace

Result<Json> DisbMetrics(const std::string& device, std::string_view workload,
                         const std::vector<std::string>& schedulers, const FigureOptions& options,
                         std::string_view prefix) {
  SimDisbOptions run;
  LAGOON_ASSIGN_OR_RETURN(run.gpu, LoadGpuModel(device));
  LAGOON_ASSIGN_OR_RETURN(run.workload,
                          NamedDisbWorkload(workload, DisbScale::kSimulated, options.seed));
  for (DisbClient& client : run.workload.clients) client.model.insert(0, prefix);
  run.schedulers = schedulers;
  run.requests = options.Scaled(kDisbRequests);
  run.clients = {DisbLoad::Late::kNewest};
  run.windows = options.effort < 1 ? 1 : 5;
  run.seed = options.seed;
  Report report("disb", {}, "");
  LAGOON_RETURN_IF_ERROR(RunDisbOnSim(run, report));
  constexpr std::string_view kNewest = ".newest";
  Json metrics;
  for (const auto& [metric, value] : report.json().at("metrics").items()) {
    std::string name = metric;
    if (const auto at = name.find(kNewest); at != std::string::npos) name.erase(at, kNewest.size());
    metrics[name] = value;
  }
  return metrics;
}

Result<Figure> ReefFigure15(const FigureOptions& options) { return Disb("mi50", options); }
Result<Figure> ReefFigure16(const FigureOptions& options) { return Disb("gv100", options); }

namespace {

// The pairs that the paper names: two throughputs, and the four pairs that starve (6.5).
void ComparePair(std::size_t realtime, std::size_t best_effort, double throughput, const Pair& pair,
                 Figure& figure) {
  const std::string name = fmt::format("{}+{}", kModels[realtime], kModels[best_effort]);
  if (name == "resnet152+vgg19" || name == "yolov3+vgg19") {
    figure.CompareGain("throughput_normalized.reef." + name,
                       name == "resnet152+vgg19" ? 1.198 : 1.081, throughput, "REEF 6.5");
  }
  constexpr std::array<std::string_view, 4> kStarved{"bert+resnet152", "bert+vgg19", "gpt2+yolov3",
                                                     "yolov3+gpt2"};
  if (std::ranges::find(kStarved, name) == kStarved.end()) return;
  figure.Compare("best_effort_requests_that_ended.reef." + name, 0,
                 static_cast<double>(pair.best_effort_ended), "REEF 6.5");
}

}  // namespace

Result<Figure> ReefFigure23(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const PairRuns runs, PairRuns::Open(options));
  Figure figure;
  FigurePanel latency{"Real-time latency / standalone", "real-time + best-effort model", "", {}};
  FigurePanel throughput{"Throughput of both / standalone", latency.x, "", {}};
  figure.Input("window_ms", runs.span_ms());
  for (const std::string scheduler : {"streams", "reef", "reef-mv"}) {
    PairTotals totals;
    for (std::size_t i = 0; i < kModels.size(); ++i) {
      for (std::size_t j = 0; j < kModels.size(); ++j) {
        LAGOON_ASSIGN_OR_RETURN(const Pair pair, runs.Run(scheduler, i, j));
        const double realtime = pair.realtime / runs.alone(i).realtime;
        const double best_effort = pair.best_effort / runs.alone(j).realtime;
        totals.latency.push_back(pair.realtime_ms / runs.alone(i).realtime_ms);
        totals.throughput.push_back(realtime + best_effort);
        totals.realtime.push_back(realtime);
        totals.starved += pair.best_effort_ended == 0 ? 1 : 0;
        if (scheduler == "reef") ComparePair(i, j, realtime + best_effort, pair, figure);
        if (i == 0) totals.with_resnet.push_back(totals.throughput.back());
        const auto at = static_cast<double>(i * kModels.size() + j);
        latency.Add(scheduler, at, totals.latency.back());
        throughput.Add(scheduler, at, totals.throughput.back());
        if (scheduler != "streams") continue;
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
    double sum = 0, with_versions = 0;
    for (std::size_t j = 0; j < kModels.size(); ++j) {
      LAGOON_ASSIGN_OR_RETURN(const Pair pair, runs.Run("reef", i, j));
      panel.Add(fmt::format("+ {}", kModels[j]), static_cast<double>(i), pair.units_busy);
      sum += pair.units_busy;
      if (i > 0) continue;
      LAGOON_ASSIGN_OR_RETURN(const Pair versions, runs.Run("reef-mv", i, j));
      with_versions += versions.units_busy;
    }
    if (i == 0) {
      const auto pairs = static_cast<double>(kModels.size());
      figure.Compare("units_busy_mean.resnet152_with_each", 0.49, sum / pairs,
                     "REEF 6.5 (without versions)");
      figure.Compare("units_busy_mean.resnet152_with_each.reef-mv", 0.72, with_versions / pairs,
                     "REEF 6.5 (with versions)");
    }
  }
  for (const auto& [name, model, paper] :
       {std::tuple{"resnet152", 0U, 0.34}, std::tuple{"yolov3", 2U, 0.87}}) {
    figure.Compare(fmt::format("units_busy.{}_alone", name), paper, runs.alone(model).units_busy,
                   "REEF 6.5");
    figure.Set("the kernel list uses so many units");
  }
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace lagoon::bench
