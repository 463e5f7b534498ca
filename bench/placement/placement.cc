#include "bench/placement/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <thread>

#include "base/mutex.h"
#include "base/time.h"
#include "bench/measure/statistics.h"
#include "bench/placement/placement_curves.h"
#include "sim/placement/comparators.h"
#include "sim/placement/grouped_placer.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t kCoRuns = 400;

Result<RateSource> ParseRates(const std::string& name) {
  if (name == "monitor") return RateSource::kMonitor;
  if (name == "last-second") return RateSource::kLastSecond;
  if (name == "oracle") return RateSource::kOracle;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("--rates is '{}'; there are monitor, last-second, oracle", name));
}

// Measures how long the placer behind it decides.
class TimedPlacer final : public Placer {
 public:
  explicit TimedPlacer(Placer& placer) : placer_(placer) {}
  std::string_view name() const override { return placer_.name(); }
  Assignment Place(const PlacementView& view) override {
    const TimePoint start = Now();
    Assignment assignment = placer_.Place(view);
    ms.push_back(ToMilliseconds(Now() - start));
    return assignment;
  }
  std::vector<double> ms;

 private:
  Placer& placer_;
};

PlacementRun ResultOf(const SimReport& report, const std::vector<bool>& refused) {
  PlacementRun run;
  double answered = 0, late = 0, dropped = 0, of_served = 0, lost_of_served = 0;
  std::map<std::string, std::pair<double, double>> times;  // by network: sum of ms, requests
  for (std::size_t i = 0; i < report.models.size(); ++i) {
    const ModelReport& model = report.models[i];
    const auto all = static_cast<double>(model.served + model.dropped);
    answered += static_cast<double>(model.served);
    late += static_cast<double>(model.late);
    dropped += static_cast<double>(model.dropped);
    const auto count = static_cast<double>(model.requests.count());
    auto& [sum, requests] = times[NetworkOf(model.name)];
    sum += model.requests.MeanMs() * count;
    requests += count;
    if (refused[i]) continue;
    of_served += all;
    lost_of_served += static_cast<double>(model.late + model.dropped);
    run.worst_model = std::max(run.worst_model, model.ViolationRate());
  }
  run.throughput = answered / report.seconds;
  run.goodput = (answered - late) / report.seconds;
  run.violations = (late + dropped) / std::max(1.0, answered + dropped);
  run.late = late / std::max(1.0, answered + dropped);
  run.violations_of_served = lost_of_served / std::max(1.0, of_served);
  run.fragments = report.fragments;
  run.fragments_each = report.fragments_each;
  run.capacity = report.capacity;
  run.gpus_used = report.gpus_used;
  run.goodput_per_gpu = report.gpus_used > 0 ? run.goodput / report.gpus_used : 0;
  run.moves = static_cast<double>(report.relocations);
  const auto mean = [&](const char* network) {
    const auto [sum, requests] = times[network];
    return sum / std::max(1.0, requests);
  };
  run.resnet50_ms = mean("R");
  run.vgg16_ms = mean("V");
  const std::size_t seconds = report.models.empty() ? 0 : report.models[0].seconds.size();
  for (std::size_t second = 0; second < seconds; ++second) {
    double served = 0;
    for (const ModelReport& model : report.models) {
      served += static_cast<double>(model.seconds[second].served);
    }
    run.served_each_second.push_back(served);
  }
  return run;
}

std::vector<double> Absolute(const std::vector<PredictionError>& errors) {
  std::vector<double> absolute;
  for (const PredictionError& error : errors) absolute.push_back(std::abs(error.relative));
  return absolute;
}

// The same predictions, each corrected by what was measured of its model before.
std::vector<double> Corrected(const std::vector<PredictionError>& errors,
                              std::span<const MeasuredPoint> points) {
  std::map<std::string, OnlineCorrection> corrections;
  std::vector<double> absolute;
  for (const PredictionError& error : errors) {
    const MeasuredPoint& point = points[error.point];
    OnlineCorrection& correction = corrections[point.model];
    absolute.push_back(std::abs(error.predicted_ms * correction.factor() / point.latency_ms - 1));
    correction.Measured(point.latency_ms, error.predicted_ms);
  }
  return absolute;
}

void PutErrors(Report& report, const std::string& kind, const std::vector<double>& absolute) {
  report.Metric("latency_error_median." + kind, Median(absolute));
  report.Metric("latency_error_p90." + kind, Percentile(absolute, 90));
  report.Metric("latency_error_worst." + kind, *std::ranges::max_element(absolute));
}

// The errors of all kinds on co-runs that are drawn in the simulator.
Status ReportErrors(const InssOptions& cluster, Report& report) {
  const ClusterSpec spec = InssCluster(cluster);
  const auto points = MeasureInSimulator(spec.models, spec.truth, cluster.seed);
  const auto drawn = DrawCoRuns(spec.models, spec.truth, kCoRuns, cluster.seed + 1);
  for (const InterferenceKind kind : kInterferenceKinds) {
    LAGOON_ASSIGN_OR_RETURN(const LatencyModels models, FitLatencyModels(points, kind));
    LAGOON_ASSIGN_OR_RETURN(const auto errors, PredictAll(models, drawn));
    PutErrors(report, std::string(Name(kind)), Absolute(errors));
    if (kind == InterferenceKind::kRidge) {
      PutErrors(report, "ridge+online", Corrected(errors, drawn));
    }
  }
  return {};
}

InssOptions ClusterOf(const PlacementOptions& options, std::size_t gpus) {
  InssOptions cluster;
  cluster.gpus = gpus;
  cluster.fill = options.fill;
  if (options.exact) cluster.truth = TruthSpec::Exact();
  cluster.length = Nanoseconds(static_cast<std::int64_t>(options.seconds * 1e9));
  // GSLICE first tunes its shares after ten seconds, and then doubles them at most: long enough for
  // every system to settle.
  cluster.warmup = cluster.length / 3;
  cluster.seed = options.seed;
  return cluster;
}

}  // namespace

Result<LatencyModels> FitToSimulator(const InssOptions& cluster, InterferenceKind kind) {
  const ClusterSpec spec = InssCluster(cluster);
  return FitLatencyModels(MeasureInSimulator(spec.models, spec.truth, cluster.seed), kind);
}

Result<PlacementRun> RunPlacer(const std::string& name, const InssOptions& cluster,
                               const LatencyModels& models, const PlacementOptions& options) {
  const BaselineOptions baseline{.busy = options.paper ? 1 : options.busy,
                                 .paper = options.paper,
                                 .every_decision = options.every_decision};
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<Placer> placer, MakeAnyPlacer(name, baseline));
  if (options.groups > 0) {
    const auto make = [&] { return *MakeAnyPlacer(name, baseline); };
    placer = std::make_unique<GroupedPlacer>(options.groups, make);
  }
  TimedPlacer timed(*placer);
  ClusterSpec spec = InssCluster(cluster);
  if (options.paper) spec.costs.resize = ResizeKind::kShadow;
  lagoon::PlacementOptions of_controller;
  for (const ModelSpec& model : spec.models) {
    const auto found = models.find(NetworkOf(model.name));
    if (found == models.end()) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("there is no latency model of '{}'", NetworkOf(model.name)));
    }
    of_controller.latency.push_back(&found->second);
  }
  LAGOON_ASSIGN_OR_RETURN(of_controller.rates, ParseRates(options.rates));
  of_controller.margin = options.margin;
  of_controller.online = options.online;
  PlacementController controller(timed, of_controller);
  LAGOON_RETURN_IF_ERROR(controller.Start(spec));
  LAGOON_RETURN_IF_ERROR(CheckCluster(spec));
  std::vector<bool> refused(spec.models.size(), true);
  for (const ReplicaSpec& replica : spec.replicas) refused[replica.model] = false;
  timed.ms.clear();  // the first decision makes the tables of all models
  const SimReport report = ClusterSim(spec).Run(controller);
  PlacementRun run = ResultOf(report, refused);
  run.busy = static_cast<double>(controller.busy_decisions()) /
             static_cast<double>(std::max<std::uint64_t>(1, controller.decisions()));
  if (!timed.ms.empty()) {
    run.mean_decision_ms = Mean(timed.ms);
    run.longest_decision_ms = *std::ranges::max_element(timed.ms);
  }
  return run;
}

namespace {

// Runs all that `curves` have room for, in some threads. The first error ends all.
Status RunCurves(const PlacementOptions& options,
                 const std::map<std::size_t, LatencyModels>& models,
                 std::vector<PlacementCurve>& curves) {
  struct Task {
    PlacementCurve* curve = nullptr;
    std::size_t load = 0, seed = 0;
  };
  std::vector<Task> tasks;
  for (PlacementCurve& curve : curves) {
    for (std::size_t load = 0; load < options.loads.size(); ++load) {
      for (std::size_t seed = 0; seed < curve.runs[load].size(); ++seed) {
        tasks.push_back({&curve, load, seed});
      }
    }
  }
  ProgressBar progress("bench placement", static_cast<int>(tasks.size()));
  std::atomic<std::size_t> next{0};
  Mutex mutex;
  Status first;
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < tasks.size();) {
      const Task& task = tasks[i];
      PlacementCurve& curve = *task.curve;
      InssOptions cluster = ClusterOf(options, curve.gpus);
      cluster.load = curve.loads[task.load];
      cluster.seed = options.seed + static_cast<std::uint32_t>(task.seed);
      PlacementOptions of_run = options;
      of_run.paper = curve.block == "paper";
      auto run = RunPlacer(curve.placer, cluster, models.at(curve.gpus), of_run);
      const MutexLock lock(mutex);
      if (run) {
        curve.runs[task.load][task.seed] = *std::move(run);
        progress.Step(fmt::format("{}, {} on {} GPUs, load {}", curve.block, curve.placer,
                                  curve.gpus, cluster.load));
      } else if (first) {
        first = Annotate(curve.placer, run.error());
        next.store(tasks.size());
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < options.threads; ++i) others.emplace_back(work);
    work();
  }
  return first;
}

}  // namespace

Status RunPlacement(const PlacementOptions& options, Report& report) {
  std::vector<std::string> placers = options.placers;
  if (placers.empty()) {
    for (const PlacerInfo& info : AllPlacers()) placers.push_back(info.name);
  }
  for (const std::string& name : placers) {
    if (auto made = MakeAnyPlacer(name); !made) return Annotate("--placers", made.error());
  }
  LAGOON_ASSIGN_OR_RETURN(const InterferenceKind kind, ParseInterferenceKind(options.interference));
  LAGOON_RETURN_IF_ERROR(ReportErrors(ClusterOf(options, 4), report));
  std::vector<PlacementCurve> curves;
  for (const std::string block : {"fair", "paper"}) {
    if (block == "paper" && !options.paper_too) continue;
    for (const std::size_t gpus : options.gpus) {
      for (const std::string& placer : placers) {
        curves.push_back({block, placer, gpus, options.loads, {}});
        const std::vector<PlacementRun> of_load(static_cast<std::size_t>(options.seeds));
        curves.back().runs.assign(options.loads.size(), of_load);
      }
    }
  }
  std::map<std::size_t, LatencyModels> models;
  for (const std::size_t gpus : options.gpus) {
    LAGOON_ASSIGN_OR_RETURN(models[gpus], FitToSimulator(ClusterOf(options, gpus), kind));
  }
  LAGOON_RETURN_IF_ERROR(RunCurves(options, models, curves));
  WritePlacementCurves(curves, options.seed, report);
  return {};
}

Status ReportPoints(const std::string& name, const std::vector<MeasuredPoint>& points,
                    Report& report, std::string& table) {
  const auto together = std::ranges::count_if(
      points, [](const MeasuredPoint& point) { return !point.neighbours.empty(); });
  if (together == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: no point has neighbours, so there is nothing to predict", name));
  }
  table = fmt::format("{:<14} {:>10} {:>10} {:>10}\n", "kind", "median", "p90", "worst");
  const auto row = [&](const std::string& kind, const std::vector<double>& absolute) {
    PutErrors(report, kind, absolute);
    table += fmt::format("{:<14} {:>9.2f}% {:>9.2f}% {:>9.2f}%\n", kind, 100 * Median(absolute),
                         100 * Percentile(absolute, 90), 100 * *std::ranges::max_element(absolute));
  };
  Json pairs = Json::array();
  std::string of_pairs;
  for (const InterferenceKind kind : kInterferenceKinds) {
    LAGOON_ASSIGN_OR_RETURN(const auto errors, PredictHeldOut(points, kind));
    row(std::string(Name(kind)), Absolute(errors));
    if (kind != InterferenceKind::kRidge) continue;
    row("ridge+online", Corrected(errors, points));
    std::map<std::string, std::vector<double>> by_pair;
    for (const PredictionError& error : errors) {
      std::string pair = points[error.point].model + " beside";
      for (const MeasuredNeighbour& neighbour : points[error.point].neighbours) {
        pair += " " + neighbour.model;
      }
      by_pair[pair].push_back(error.relative);
    }
    of_pairs = fmt::format("\n{:<40} {:>8} {:>10}\n", "ridge, held out", "points", "mean error");
    for (const auto& [pair, relative] : by_pair) {
      of_pairs +=
          fmt::format("{:<40} {:>8} {:>+9.2f}%\n", pair, relative.size(), 100 * Mean(relative));
      pairs.push_back({{"pair", pair}, {"points", relative.size()}, {"mean", Mean(relative)}});
    }
  }
  table += of_pairs + '\n';
  report.Metric("points", static_cast<double>(points.size()));
  report.Metric("points_together", static_cast<double>(together));
  report.Field("pairs", std::move(pairs));
  return {};
}

}  // namespace lagoon::bench
