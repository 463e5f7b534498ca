#include "bench/sim/cluster_speed.h"

#include <fmt/format.h>

#include "sim/cluster/cluster_sim.h"
#include "sim/surfaces/v100_surfaces.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;

ClusterSpec SpecOf(const ClusterSpeedOptions& options) {
  constexpr std::size_t kModels = 5;  // of a device
  ClusterSpec spec;
  spec.gpus.resize(static_cast<std::size_t>(options.gpus));
  spec.seed = options.seed;
  spec.length = std::chrono::duration_cast<Nanoseconds>(Seconds(options.seconds));
  for (std::size_t i = 0; i < kModels * spec.gpus.size(); ++i) {
    ModelSpec& model = spec.models.emplace_back();
    model.name = fmt::format("model{}", i);
    model.surface = &V100Surface(i % 2 == 0 ? "alexnet" : "mobilenet");
    model.arrivals = PoissonArrivals(400);
    model.slo = std::chrono::milliseconds(50);
    model.slo_of = SloOf::kRequest;
    model.batching = {.limiter = "slab", .rows = 32, .drop = true};
    model.cache = model.dram = 0.5;
    spec.replicas.push_back({.model = i, .gpu = i / kModels, .granules = 20});
  }
  return spec;
}

}  // namespace

Status RunClusterSpeed(const ClusterSpeedOptions& options, Report& report) {
  const ClusterSpec spec = SpecOf(options);
  LAGOON_RETURN_IF_ERROR(CheckCluster(spec));
  SimController none;
  ClusterSim sim(spec);
  const TimePoint start = Now();
  const SimReport seen = sim.Run(none);
  const double took = Seconds(Now() - start).count();
  double tasks = 0, batches = 0;
  for (const ModelReport& model : seen.models) {
    tasks += static_cast<double>(model.arrived);
    batches += static_cast<double>(model.batches);
  }
  report.Metric(fmt::format("cluster_sim_seconds.gpus{}", options.gpus), took);
  report.Metric("cluster_sim_tasks_per_s", tasks / took);
  report.Metric("cluster_sim_tasks", tasks);
  report.Metric("cluster_sim_batches", batches);
  report.Metric("cluster_sim_events", static_cast<double>(seen.events));
  return {};
}

}  // namespace lagoon::bench
