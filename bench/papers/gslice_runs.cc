#include "bench/papers/gslice_runs.h"

#include "sim/surfaces/v100_surfaces.h"

namespace lagoon::bench {
namespace {

constexpr std::int64_t kMostRows = 32;

}  // namespace

const char* Name(GsliceSystem system) {
  switch (system) {
    case GsliceSystem::kMps:
      return "default-mps";
    case GsliceSystem::kMpsSlab:
      return "mps-slab";
    case GsliceSystem::kGslice:
      return "gslice";
  }
  return "";
}

ClusterSpec GsliceSpec(std::span<const GsliceModel> models, GsliceSystem system, double slo_ms,
                       const FigureOptions& options) {
  ClusterSpec spec;
  spec.gpus = {GpuSpec{}};
  const bool shares = system == GsliceSystem::kGslice;
  spec.mode = shares ? ShareMode::kShares : ShareMode::kDefaultMps;
  spec.mps = MpsRule::kKnee;
  spec.costs.resize = ResizeKind::kShadow;
  spec.truth.speed = 0;
  spec.seed = options.seed;
  spec.warmup = std::chrono::seconds(30);
  spec.length = spec.warmup + std::chrono::seconds(options.Scaled(60));
  std::vector<double> demands;
  for (const GsliceModel& model : models) {
    ModelSpec& made = spec.models.emplace_back();
    made.name = model.name;
    made.surface = &V100Surface(model.name);
    made.arrivals = ClosedLoop(4 * kMostRows);
    made.slo = Nanoseconds(static_cast<std::int64_t>(slo_ms * 1e6));
    made.memory_bytes = 800'000'000;  // with shared parameters (Table 1)
    made.batching.limiter = system == GsliceSystem::kMps ? "" : "slab";
    made.batching.rows = system == GsliceSystem::kMps ? 1 : kMostRows;
    demands.push_back(model.knee * 100);
  }
  const auto exact = MaxMin(demands, 100, {.surplus = MaxMinRules::Surplus::kProportional});
  const auto granules = exact ? ToGranules(*exact, 100) : Result<std::vector<std::uint32_t>>{};
  for (std::size_t i = 0; i < models.size(); ++i) {
    spec.replicas.push_back({.model = i,
                             .gpu = 0,
                             .granules = granules ? (*granules)[i] : 1,
                             .places = shares && models[i].light ? 2U : 1U});
  }
  return spec;
}

void AddInputs(const ClusterSpec& spec, Figure& figure) {
  const auto seconds = [](Nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  figure.Input("slo_ms", ToMilliseconds(spec.models.front().slo));
  figure.Input("warmup_s", seconds(spec.warmup));
  figure.Input("seconds", seconds(spec.length));
  figure.Input("granules", spec.gpus.front().granules);
}

Result<SimReport> RunGslice(const ClusterSpec& spec, std::span<const GsliceModel> models) {
  LAGOON_RETURN_IF_ERROR(CheckCluster(spec));
  if (spec.mode != ShareMode::kShares) {
    SimController none;
    return ClusterSim(spec).Run(none);
  }
  GsliceOptions options;
  options.tuner.max_min.surplus = MaxMinRules::Surplus::kProportional;
  for (const GsliceModel& model : models) options.demands.push_back(model.knee);
  GsliceController controller(options);
  return ClusterSim(spec).Run(controller);
}

}  // namespace lagoon::bench
