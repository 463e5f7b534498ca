#include "bench/placement/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/time.h"
#include "bench/measure/interval.h"
#include "bench/measure/statistics.h"
#include "sim/placement/comparators.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;
using Seconds = std::chrono::duration<double>;

constexpr double kGood = 0.01;  // most violations that count as good
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

// The goodput at which the violations reach 1 %, between the loads that were measured. 0: they are
// above it at the least load. The most of all if they never reach it.
double GoodputAt99(const std::vector<double>& goodputs, const std::vector<double>& violations) {
  double best = 0;
  for (std::size_t i = 0; i < goodputs.size(); ++i) {
    if (violations[i] <= kGood) {
      best = std::max(best, goodputs[i]);
      continue;
    }
    if (i == 0 || violations[i - 1] > kGood) continue;
    const double part = (kGood - violations[i - 1]) / (violations[i] - violations[i - 1]);
    best = std::max(best, goodputs[i - 1] + part * (goodputs[i] - goodputs[i - 1]));
  }
  return best;
}

struct Curve {
  std::string placer;
  std::size_t gpus = 4;
  std::vector<std::vector<PlacementRun>> runs;  // [load][seed]

  std::vector<double> Of(std::size_t load, double PlacementRun::*field) const {
    std::vector<double> values;
    for (const PlacementRun& run : runs[load]) values.push_back(run.*field);
    return values;
  }
  // A value for each seed.
  std::vector<double> At99(double PlacementRun::*violations) const {
    std::vector<double> values;
    for (std::size_t seed = 0; seed < runs[0].size(); ++seed) {
      std::vector<double> goodputs, lost;
      for (const auto& of_load : runs) {
        goodputs.push_back(of_load[seed].goodput);
        lost.push_back(of_load[seed].*violations);
      }
      values.push_back(GoodputAt99(goodputs, lost));
    }
    return values;
  }
};

void Put(Report& report, const std::string& name, const std::vector<double>& values,
         std::uint32_t seed) {
  const Interval interval = MedianInterval(values, seed);
  report.Metric(name, interval.median);
  report.Metric(name + ".low", interval.low);
  report.Metric(name + ".high", interval.high);
}

Json JsonOf(const Curve& curve, const std::vector<double>& loads) {
  Json list = Json::array();
  for (std::size_t load = 0; load < loads.size(); ++load) {
    const auto mean = [&](double PlacementRun::*field) { return Mean(curve.Of(load, field)); };
    list.push_back({{"load", loads[load]},
                    {"goodput", mean(&PlacementRun::goodput)},
                    {"goodput_each", curve.Of(load, &PlacementRun::goodput)},
                    {"throughput", mean(&PlacementRun::throughput)},
                    {"violations", mean(&PlacementRun::violations)},
                    {"violations_each", curve.Of(load, &PlacementRun::violations)},
                    {"violations_of_served", mean(&PlacementRun::violations_of_served)},
                    {"worst_model", mean(&PlacementRun::worst_model)},
                    {"late", mean(&PlacementRun::late)},
                    {"fragments", mean(&PlacementRun::fragments)},
                    {"moves", mean(&PlacementRun::moves)},
                    {"resnet50_ms", mean(&PlacementRun::resnet50_ms)},
                    {"vgg16_ms", mean(&PlacementRun::vgg16_ms)}});
  }
  return {{"placer", curve.placer}, {"gpus", curve.gpus}, {"points", std::move(list)}};
}

void Report1(const Curve& curve, const PlacementOptions& options, Report& report) {
  const std::string of = fmt::format("{}.gpus{}", curve.placer, curve.gpus);
  Put(report, "goodput_at_99." + of, curve.At99(&PlacementRun::violations), options.seed);
  Put(report, "goodput_at_99_of_served." + of, curve.At99(&PlacementRun::violations_of_served),
      options.seed);
  double longest = 0;
  std::vector<double> means;
  for (std::size_t load = 0; load < options.loads.size(); ++load) {
    const std::string at = fmt::format("{}.load{:.2f}", of, options.loads[load]);
    Put(report, "violation_rate." + at, curve.Of(load, &PlacementRun::violations), options.seed);
    for (const PlacementRun& run : curve.runs[load]) {
      longest = std::max(longest, run.longest_decision_ms);
      means.push_back(run.mean_decision_ms);
    }
  }
  report.Metric("placement_decision_ms." + of, Mean(means));
  report.Metric("placement_decision_ms_max." + of, longest);
}

// Ratios of `lagoon` and `inss` to the other placers, seed by seed.
void ReportRatios(const std::vector<Curve>& curves, const PlacementOptions& options,
                  Report& report) {
  for (const Curve& best : curves) {
    if (best.placer != "lagoon" && best.placer != "inss") continue;
    for (const Curve& other : curves) {
      if (other.gpus != best.gpus || other.placer == best.placer) continue;
      const std::string of = fmt::format("{}_over_{}.gpus{}", best.placer, other.placer, best.gpus);
      std::vector<double> ratios;
      const auto ours = best.At99(&PlacementRun::violations);
      const auto theirs = other.At99(&PlacementRun::violations);
      for (std::size_t i = 0; i < ours.size(); ++i) {
        if (theirs[i] > 0) ratios.push_back(ours[i] / theirs[i]);
      }
      // Without a load at which the other one is good there is no ratio.
      if (ratios.size() == ours.size()) Put(report, "goodput_ratio." + of, ratios, options.seed);
      for (std::size_t load = 0; load < options.loads.size(); ++load) {
        std::vector<double> at;
        const auto mine = best.Of(load, &PlacementRun::goodput);
        const auto others = other.Of(load, &PlacementRun::goodput);
        for (std::size_t i = 0; i < mine.size(); ++i) at.push_back(mine[i] / others[i]);
        Put(report, fmt::format("goodput_ratio.{}.load{:.2f}", of, options.loads[load]), at,
            options.seed);
      }
    }
  }
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
  // GSLICE first tunes its shares after ten seconds: before that no placer of shares can be judged.
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
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Placer> placer, MakeAnyPlacer(name, options.busy));
  TimedPlacer timed(*placer);
  ClusterSpec spec = InssCluster(cluster);
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
  if (!timed.ms.empty()) {
    run.mean_decision_ms = Mean(timed.ms);
    run.longest_decision_ms = *std::ranges::max_element(timed.ms);
  }
  return run;
}

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
  const auto steps = placers.size() * options.gpus.size() * options.loads.size();
  ProgressBar progress("bench placement", static_cast<int>(steps));
  std::vector<Curve> curves;
  for (const std::size_t gpus : options.gpus) {
    InssOptions cluster = ClusterOf(options, gpus);
    LAGOON_ASSIGN_OR_RETURN(const LatencyModels models, FitToSimulator(cluster, kind));
    for (const std::string& placer : placers) {
      Curve& curve = curves.emplace_back();
      curve.placer = placer;
      curve.gpus = gpus;
      for (const double load : options.loads) {
        auto& runs = curve.runs.emplace_back();
        for (int seed = 0; seed < options.seeds; ++seed) {
          cluster.load = load;
          cluster.seed = options.seed + static_cast<std::uint32_t>(seed);
          LAGOON_ASSIGN_OR_RETURN(PlacementRun run, RunPlacer(placer, cluster, models, options));
          runs.push_back(std::move(run));
        }
        progress.Step(fmt::format("{} on {} GPUs, load {}", placer, gpus, load));
      }
      Report1(curve, options, report);
    }
  }
  ReportRatios(curves, options, report);
  Json list = Json::array();
  for (const Curve& curve : curves) list.push_back(JsonOf(curve, options.loads));
  report.Field("curves", std::move(list));
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
    table += fmt::format("\n{:<40} {:>8} {:>10}\n", "ridge, held out", "points", "mean error");
    for (const auto& [pair, relative] : by_pair) {
      table +=
          fmt::format("{:<40} {:>8} {:>+9.2f}%\n", pair, relative.size(), 100 * Mean(relative));
      pairs.push_back({{"pair", pair}, {"points", relative.size()}, {"mean", Mean(relative)}});
    }
    table += '\n';
  }
  report.Metric("points", static_cast<double>(points.size()));
  report.Metric("points_together", static_cast<double>(together));
  report.Field("pairs", std::move(pairs));
  return {};
}

}  // namespace lagoon::bench
