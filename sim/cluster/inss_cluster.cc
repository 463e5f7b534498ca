#include "sim/cluster/inss_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/random.h"
#include "cluster/knee.h"
#include "sim/cluster/cluster_sim.h"
#include "sim/surfaces/a100_models.h"

namespace lagoon {
namespace {

constexpr std::int64_t kGpuBytes = 40'000'000'000;
// The memory of a replica besides its weights: a process that shares parameters needs so much on a
// GPU (GSLICE Table 1).
constexpr std::int64_t kReplicaBytes = 800'000'000;
constexpr std::int64_t kMostRows = 32;
constexpr std::int64_t kKneeRows = 8;
constexpr double kUsedAtLoad1 = 0.6;
constexpr std::size_t kModelsOfFourGpus = 10;
constexpr std::size_t kTwice[] = {1, 2};  // R and V

ModelSpec SpecOf(const A100Model& model, std::size_t copy) {
  ModelSpec spec;
  spec.name = copy == 0 ? model.name : fmt::format("{}.{}", model.name, copy + 1);
  spec.surface = &A100Surface(model.name);
  spec.slo = model.slo;
  spec.slo_of = SloOf::kRequest;
  spec.batching = {.rows = kMostRows, .drop = true};
  spec.memory_bytes = kReplicaBytes + model.weights_bytes + kMostRows * model.row_bytes;
  spec.cache = model.cache;
  spec.dram = model.dram;
  return spec;
}

// The rates of each second: a random walk of the logarithm would need a function of the C library;
// the product of small factors is as good.
std::vector<RateStep> WalkOf(double mean, const InssOptions& options, Random& random) {
  std::vector<RateStep> steps;
  double factor = 1;
  for (Nanoseconds from{0}; from < options.length; from += std::chrono::seconds(1)) {
    steps.push_back({from, mean * factor});
    factor = std::clamp(factor * (1 + options.drift * random.Normal()), 0.5, 1.5);
  }
  return steps;
}

struct CoRun {
  std::size_t model = 0;
  std::int64_t rows = 1;
  double share = 1;
};

// Runs models at once, each in a closed loop of full batches; the mean time of the first one's.
MeasuredPoint RunTogether(const std::vector<ModelSpec>& models, const TruthSpec& truth,
                          const std::vector<CoRun>& runs, std::uint32_t seed) {
  ClusterSpec spec;
  constexpr std::uint32_t kGranules = 1000;
  spec.gpus.push_back({.granules = kGranules, .memory_bytes = std::int64_t{1} << 49});
  spec.truth = truth;
  spec.truth.speed = 0;  // all is measured on one GPU
  spec.seed = seed;
  MeasuredPoint point;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ModelSpec model = models[runs[i].model];
    const std::string network = NetworkOf(model.name);
    model.name = fmt::format("{}", i);
    model.arrivals = ClosedLoop(runs[i].rows);
    model.batching = {.rows = kMostRows};
    spec.models.push_back(std::move(model));
    const auto granules = static_cast<std::uint32_t>(std::lround(runs[i].share * kGranules));
    spec.replicas.push_back({.model = i, .gpu = 0, .granules = granules, .rows = runs[i].rows});
    if (i > 0) {
      point.neighbours.push_back({network, runs[i].rows, runs[i].share});
      continue;
    }
    point.model = network;
    point.rows = runs[i].rows;
    point.share = runs[i].share;
  }
  constexpr double kBatches = 40;
  const double ms = spec.models[0].surface->LatencyMs(point.rows, point.share) * kBatches;
  spec.length = Nanoseconds(static_cast<std::int64_t>(std::max(ms, 2.0) * 1e6));
  SimController none;
  LAGOON_CHECK(CheckCluster(spec).has_value());
  const SimReport report = ClusterSim(spec).Run(none);
  point.latency_ms = report.models[0].batch_time.MeanMs();
  if (runs.size() == 1) {
    const ModelSpec& model = models[runs[0].model];
    const double part = static_cast<double>(point.rows) / point.latency_ms * 1e3 /
                        model.surface->Throughput(kMostRows, 1);
    point.load = {model.cache * part, model.dram * part};
  }
  return point;
}

// The first model of each network.
std::vector<std::size_t> FirstOfEach(const std::vector<ModelSpec>& models) {
  std::vector<std::size_t> first;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models[i].name == NetworkOf(models[i].name)) first.push_back(i);
  }
  return first;
}

}  // namespace

std::string NetworkOf(const std::string& model) { return model.substr(0, model.find('.')); }

ClusterSpec InssCluster(const InssOptions& options) {
  ClusterSpec spec;
  spec.gpus.assign(options.gpus, {.granules = kA100Granules, .memory_bytes = kGpuBytes});
  spec.truth = options.truth;
  spec.seed = options.seed;
  spec.length = options.length;
  spec.warmup = options.warmup;
  const std::span<const A100Model> all = A100Models();
  std::vector<std::size_t> copies(all.size());
  const std::size_t count = std::max<std::size_t>(1, options.gpus * kModelsOfFourGpus / 4);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = i % kModelsOfFourGpus;
    const std::size_t model = place < all.size() ? place : kTwice[place - all.size()];
    spec.models.push_back(SpecOf(all[model], copies[model]++));
    spec.models.back().batching.fill = options.fill;
  }
  const std::vector<double> rates = InssBaseRates(spec);
  Random random(options.seed * 7919U + 17);
  for (std::size_t i = 0; i < count; ++i) {
    spec.models[i].arrivals = PoissonArrivals(0);
    spec.models[i].arrivals.rates = WalkOf(rates[i] * options.load, options, random);
  }
  return spec;
}

std::vector<double> InssBaseRates(const ClusterSpec& spec) {
  std::vector<double> capacities, rates;
  double knees = 0;
  for (const ModelSpec& model : spec.models) {
    const std::uint32_t granules = spec.gpus.front().granules;
    const double knee = static_cast<double>(Knee(*model.surface, kKneeRows, granules)) / granules;
    knees += knee;
    capacities.push_back(model.surface->Throughput(kKneeRows, knee));
  }
  for (const double capacity : capacities) {
    rates.push_back(capacity * kUsedAtLoad1 * static_cast<double>(spec.gpus.size()) / knees);
  }
  return rates;
}

MeasuringPlan MeasuringPlan::Narrow() {
  return {.rows = {1, 4, 16, 32},
          .shares = {0.2, 0.4, 0.6, 0.8},
          .light = {4, 0.2},
          .medium = {16, 0.4},
          .heavy = {32, 0.6}};
}

MeasuringPlan MeasuringPlan::Wide() {
  return {.rows = {1, 4, 12, 32},
          .shares = {0.1, 0.25, 0.5, 1},
          .own_rows = 12,
          .own_share = 0.25,
          .light = {4, 0.1},
          .medium = {12, 0.25},
          .heavy = {32, 0.4},
          .nested = true};
}

std::vector<MeasuredPoint> MeasureInSimulator(const std::vector<ModelSpec>& models,
                                              const TruthSpec& truth, std::uint32_t seed,
                                              const MeasuringPlan& plan) {
  std::vector<MeasuredPoint> points;
  const std::vector<std::size_t> first = FirstOfEach(models);
  std::vector<std::size_t> by_load = first;
  std::ranges::stable_sort(by_load, {}, [&](std::size_t i) { return models[i].dram; });
  const CoRun others[] = {{by_load.front(), plan.light.rows, plan.light.share},
                          {by_load[by_load.size() / 2], plan.medium.rows, plan.medium.share},
                          {by_load.back(), plan.heavy.rows, plan.heavy.share}};
  for (const std::size_t model : first) {
    for (const std::int64_t rows : plan.rows) {
      for (const double share : plan.shares) {
        points.push_back(RunTogether(models, truth, {{model, rows, share}}, ++seed));
      }
    }
    // The model itself has been measured alone like this, too.
    std::vector<CoRun> runs = {{model, plan.own_rows, plan.own_share}};
    for (const CoRun& other : others) {
      if (!plan.nested) runs.resize(1);
      runs.push_back(other);
      points.push_back(RunTogether(models, truth, runs, ++seed));
    }
  }
  return points;
}

Result<MeasuredPoint> MeasureRuns(const std::vector<ModelSpec>& models, const TruthSpec& truth,
                                  const std::vector<SimulatedRun>& runs, std::uint32_t seed) {
  std::vector<CoRun> together;
  for (const SimulatedRun& run : runs) {
    const auto found = std::ranges::find(models, run.network, &ModelSpec::name);
    if (found == models.end()) {
      return Fail(ErrorCode::kNotFound, fmt::format("there is no model '{}'", run.network));
    }
    together.push_back({static_cast<std::size_t>(found - models.begin()), run.rows, run.share});
  }
  return RunTogether(models, truth, together, seed);
}

Result<double> SlowdownInSimulator(const std::vector<ModelSpec>& models,
                                   const std::vector<SimulatedRun>& runs, std::uint32_t seed,
                                   const TruthSpec& truth) {
  LAGOON_ASSIGN_OR_RETURN(const MeasuredPoint alone,
                          MeasureRuns(models, truth, {runs.front()}, seed));
  LAGOON_ASSIGN_OR_RETURN(const MeasuredPoint together, MeasureRuns(models, truth, runs, seed + 1));
  return together.latency_ms / alone.latency_ms - 1;
}

std::vector<MeasuredPoint> DrawCoRuns(const std::vector<ModelSpec>& models, const TruthSpec& truth,
                                      std::size_t count, std::uint32_t seed) {
  std::vector<MeasuredPoint> points;
  const std::vector<std::size_t> first = FirstOfEach(models);
  Random random(seed);
  const auto draw = [&](double most) {
    const std::size_t model = first[random.Below(static_cast<std::uint32_t>(first.size()))];
    const auto rows = std::int64_t{1} + random.Below(32);
    return CoRun{model, rows, std::max(0.1, std::round(random.Uniform(0.15, most) * 100) / 100)};
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t neighbours = 1 + random.Below(3);
    std::vector<CoRun> runs;
    for (std::uint32_t j = 0; j <= neighbours; ++j) runs.push_back(draw(1.0 / (1 + neighbours)));
    points.push_back(RunTogether(models, truth, runs, seed * 1000 + static_cast<std::uint32_t>(i)));
  }
  return points;
}

}  // namespace lagoon
