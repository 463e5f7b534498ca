#include "sim/cluster/cluster_spec.h"

#include <fmt/format.h>

#include <set>

#include "base/text.h"
#include "cluster/checks.h"

namespace lagoon {
namespace {

tl::unexpected<Error> Wrong(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Status CheckModel(const ModelSpec& model) {
  if (model.surface == nullptr) return Wrong("it has no surface");
  LAGOON_RETURN_IF_ERROR(CheckArrivals(model.arrivals));
  LAGOON_RETURN_IF_ERROR(
      CheckBounds("batching.rows", static_cast<double>(model.batching.rows), {1, 1024}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("slo in ms", ToMilliseconds(model.slo), {0.001, 3.6e6}));
  if (!model.batching.limiter.empty()) {
    const BatchLimiter::Options options{
        .slo = model.slo, .slo_of = model.slo_of, .most = model.batching.rows};
    if (auto made = MakeBatchLimiter(model.batching.limiter, options); !made) {
      return tl::unexpected<Error>(std::move(made).error());
    }
  }
  if (model.batching.drop && model.slo_of != SloOf::kRequest) {
    return Wrong("batching.drop is set, but slo_of is not kRequest: then requests cannot be late");
  }
  LAGOON_RETURN_IF_ERROR(CheckBounds("cache", model.cache, {0, 1}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("dram", model.dram, {0, 1}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("queue", static_cast<double>(model.queue), {1, 1 << 24}));
  LAGOON_RETURN_IF_ERROR(
      CheckBounds("memory_bytes", static_cast<double>(model.memory_bytes), {0, 1e15}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("load in ms", ToMilliseconds(model.load), {0, 3.6e6}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("resize in ms", ToMilliseconds(model.resize), {0, 3.6e6}));
  if (model.start < Nanoseconds(0) || model.stop <= model.start) {
    return Wrong(
        fmt::format("it starts at {} ms and stops at {} ms; it must start at 0 or later, "
                    "and stop after that",
                    ToMilliseconds(model.start), ToMilliseconds(model.stop)));
  }
  return {};
}

Status CheckModels(const std::vector<ModelSpec>& models) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("models", static_cast<double>(models.size()), {1, 4096}));
  std::set<std::string> names;
  for (const ModelSpec& model : models) {
    if (model.name.empty() || !names.insert(model.name).second) {
      return Wrong(fmt::format("model {}: the name is empty or there twice", Quoted(model.name)));
    }
    if (auto status = CheckModel(model); !status) {
      return Annotate(fmt::format("model {}", Quoted(model.name)), std::move(status).error());
    }
  }
  return {};
}

Status CheckTruth(const TruthSpec& truth) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("truth.noise", truth.noise, {0, 0.2}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("truth.speed", truth.speed, {0, 0.2}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("truth.cache", truth.cache, {0, 10}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("truth.dram", truth.dram, {0, 10}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("truth.product", truth.product, {0, 10}));
  if (truth.limit > 10) return {};  // TruthSpec::Exact has no limit
  return CheckBounds("truth.limit", truth.limit, {1e-3, 10});
}

Status CheckReplicas(const ClusterSpec& spec) {
  std::vector<std::uint64_t> granules(spec.gpus.size());
  std::vector<std::int64_t> memory(spec.gpus.size());
  for (std::size_t i = 0; i < spec.replicas.size(); ++i) {
    const ReplicaSpec& replica = spec.replicas[i];
    if (replica.model >= spec.models.size() || replica.gpu >= spec.gpus.size()) {
      return Wrong(
          fmt::format("replicas[{}] is of model {} on device {}; there are {} models and "
                      "{} devices",
                      i, replica.model, replica.gpu, spec.models.size(), spec.gpus.size()));
    }
    LAGOON_RETURN_IF_ERROR(
        CheckBounds(fmt::format("replicas[{}].places", i), replica.places, {1, 2}));
    LAGOON_RETURN_IF_ERROR(
        CheckBounds(fmt::format("replicas[{}].fraction", i), replica.fraction, {1e-6, 1e6}));
    const auto rows = static_cast<double>(replica.rows);
    LAGOON_RETURN_IF_ERROR(CheckBounds(fmt::format("replicas[{}].rows", i), rows, {0, 1024}));
    const ModelSpec& model = spec.models[replica.model];
    if (spec.mode == ShareMode::kShares && replica.granules == 0) {
      return Wrong(fmt::format("replicas[{}] has no granules, must have at least 1", i));
    }
    if (model.start > Nanoseconds(0)) continue;  // the controller makes room for it
    granules[replica.gpu] += replica.granules;
    memory[replica.gpu] += model.memory_bytes;
  }
  for (std::size_t gpu = 0; gpu < spec.gpus.size(); ++gpu) {
    if (spec.mode == ShareMode::kShares && granules[gpu] > spec.gpus[gpu].granules) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("device {} has {} granules, its replicas need {}", gpu,
                              spec.gpus[gpu].granules, granules[gpu]));
    }
    if (memory[gpu] <= spec.gpus[gpu].memory_bytes) continue;
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("device {} has {} bytes, its replicas need {}", gpu,
                            spec.gpus[gpu].memory_bytes, memory[gpu]));
  }
  return {};
}

}  // namespace

TruthSpec TruthSpec::Exact() {
  TruthSpec truth;
  truth.noise = truth.speed = truth.product = 0;
  truth.limit = 1e12;
  return truth;
}

TruthSpec TruthSpec::Published() {
  constexpr double kOfPublished = 2;
  TruthSpec truth;
  truth.cache *= kOfPublished;
  truth.dram *= kOfPublished;
  truth.product *= kOfPublished;
  return truth;
}

Status CheckCluster(const ClusterSpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("gpus", static_cast<double>(spec.gpus.size()), {1, 1024}));
  for (const GpuSpec& gpu : spec.gpus) {
    LAGOON_RETURN_IF_ERROR(CheckBounds("granules of a device", gpu.granules, {1, 4096}));
    LAGOON_RETURN_IF_ERROR(
        CheckBounds("memory of a device", static_cast<double>(gpu.memory_bytes), {0, 1e15}));
  }
  LAGOON_RETURN_IF_ERROR(CheckModels(spec.models));
  LAGOON_RETURN_IF_ERROR(CheckTruth(spec.truth));
  LAGOON_RETURN_IF_ERROR(
      CheckBounds("switch_idle in ms", ToMilliseconds(spec.costs.switch_idle), {0, 1e6}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("length in ms", ToMilliseconds(spec.length), {1, 8.64e7}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("warmup in ms", ToMilliseconds(spec.warmup),
                                     {0, ToMilliseconds(spec.length) - 1e-6}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("decision in ms", ToMilliseconds(spec.decision), {1, 3.6e6}));
  return CheckReplicas(spec);
}

}  // namespace lagoon
