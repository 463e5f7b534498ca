// InSS Eq. 3 and the forecast of Lagoon's placers, beside the batch-level simulator.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/papers/figures_inss.h"
#include "cluster/knee.h"
#include "cluster/placement/forecast.h"
#include "sim/cluster/cluster_sim.h"
#include "sim/cluster/inss_cluster.h"
#include "sim/cluster/task_latency.h"

namespace lagoon::bench {
namespace {

constexpr std::int64_t kRows = 8;
constexpr double kLoads[] = {0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1};
constexpr int kSeconds = 200, kLeastSeconds = 20;
constexpr Nanoseconds kBetweenLooks{1'370'000};

// Looks at one replica again and again. Poisson arrivals find it in a state as often as looks do.
class Observer final : public SimController {
 public:
  void Decide(ClusterSim& sim) override {
    if (sim.now() < sim.spec().warmup) return;
    const SimCounts counts = sim.Counts(0);
    looks_.push_back({sim.now(), static_cast<std::int64_t>(counts.waiting), counts.running > 0});
  }
  void OnBatch(ClusterSim& sim, const BatchEnded& /*batch*/) override {
    ends_.push_back(sim.now());
  }

  // What Eq. 3 says of a request that comes at each look.
  std::vector<double> LatenciesMs(double batch_ms, double rate) const {
    std::vector<double> latencies;
    auto end = ends_.begin();
    for (const Look& look : looks_) {
      while (end != ends_.end() && *end <= look.at) ++end;
      if (end == ends_.end()) break;
      const double left_ms = look.running ? ToMilliseconds(*end - look.at) : 0;
      latencies.push_back(TaskLatencyMs({.waiting = look.waiting,
                                         .rows = kRows,
                                         .running_ms = left_ms,
                                         .batch_ms = batch_ms,
                                         .rate = rate}));
    }
    return latencies;
  }

 private:
  struct Look {
    Nanoseconds at;
    std::int64_t waiting = 0;
    bool running = false;
  };
  std::vector<Look> looks_;
  std::vector<Nanoseconds> ends_;
};

struct Compared {
  double mean_over_simulated = 0;               // of requests that are in time
  double simulated = 0, eq3 = 0, forecast = 0;  // parts that are late or dropped
};

Result<Compared> Compare(const InssOptions& cluster, double load) {
  ClusterSpec spec = InssCluster(cluster);
  spec.truth = TruthSpec::Exact();
  spec.decision = kBetweenLooks;
  spec.models.resize(1);
  ModelSpec& model = spec.models.front();
  const std::uint32_t granules = Knee(*model.surface, kRows, spec.gpus.front().granules);
  const double share = static_cast<double>(granules) / spec.gpus.front().granules;
  const double batch_ms = model.surface->LatencyMs(kRows, share);
  const double rate = load * 1e3 * static_cast<double>(kRows) / batch_ms;
  model.arrivals = PoissonArrivals(rate);
  model.batching.rows = kRows;
  spec.replicas = {{.model = 0, .gpu = 0, .granules = granules}};
  LAGOON_RETURN_IF_ERROR(CheckCluster(spec));
  Observer observer;
  const double slo_ms = ToMilliseconds(model.slo);
  const ReplicaLoad replica = {.rate = rate,
                               .rows = kRows,
                               .batch_ms = batch_ms,
                               .single_ms = model.surface->LatencyMs(1, share),
                               .slo_ms = slo_ms};
  const SimReport report = ClusterSim(std::move(spec)).Run(observer);
  Compared compared;
  compared.simulated = report.models.front().ViolationRate();
  compared.forecast = ViolationRate(replica);
  double in_time = 0, sum_ms = 0;
  const std::vector<double> latencies = observer.LatenciesMs(batch_ms, rate);
  for (const double ms : latencies) {
    if (ms > slo_ms) continue;
    ++in_time;
    sum_ms += ms;
  }
  compared.eq3 = 1 - in_time / static_cast<double>(latencies.size());
  compared.mean_over_simulated =
      sum_ms / std::max(in_time, 1.0) / report.models.front().requests.MeanMs();
  return compared;
}

}  // namespace

Result<Figure> InssEquation3(const FigureOptions& options) {
  Figure figure;
  FigurePanel mean{"Mean latency by Eq. 3 / simulated", "load", "", {}};
  FigurePanel late{"Late or dropped", "load", "%", {}};
  for (const bool fill : {true, false}) {
    const std::string way = fill ? "full" : "waiting";
    InssOptions cluster;
    cluster.gpus = 1;
    cluster.seed = options.seed;
    cluster.fill = fill;
    cluster.length = std::chrono::seconds(std::max(options.Scaled(kSeconds), kLeastSeconds));
    cluster.warmup = std::chrono::seconds(2);
    for (const double load : kLoads) {
      LAGOON_ASSIGN_OR_RETURN(const Compared compared, Compare(cluster, load));
      mean.Add(way, load, compared.mean_over_simulated);
      late.Add(way + ", simulated", load, 100 * compared.simulated);
      late.Add(way + ", Eq. 3", load, 100 * compared.eq3);
      if (!fill) late.Add(way + ", forecast", load, 100 * compared.forecast);
      const std::string at = fmt::format("{}.l{:.0f}", way, 100 * load);
      figure.Find("mean_over_simulated." + at, compared.mean_over_simulated);
      figure.Find("late_fraction.simulated." + at, compared.simulated);
      figure.Find("late_fraction.eq3." + at, compared.eq3);
      figure.Find("late_fraction.forecast." + at, compared.forecast);
    }
  }
  figure.Input("rows", static_cast<double>(kRows));
  figure.panels = {std::move(mean), std::move(late)};
  return figure;
}

}  // namespace lagoon::bench
