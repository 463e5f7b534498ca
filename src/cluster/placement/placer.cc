#include "cluster/placement/placer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "cluster/checks.h"

namespace lagoon {
namespace {

constexpr double kMostRate = 1e9;
constexpr std::size_t kMostModels = 4096, kMostGpus = 4096;

Status CheckModel(const ModelView& model) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("slo in ms", ToMilliseconds(model.slo), {1e-3, 3.6e6}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("rate", model.rate, {0, kMostRate}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("rate_error", model.rate_error, {0, kMostRate}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("queued", model.queued, {0, kMostRate}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("slowdown", model.slowdown, {0.01, 100}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("measured_ms", model.measured_ms, {0, 1e9}));
  const auto memory = static_cast<double>(model.memory_bytes);
  LAGOON_RETURN_IF_ERROR(CheckBounds("memory_bytes", memory, {0, 1e15}));
  const auto row = static_cast<double>(model.row_bytes);
  LAGOON_RETURN_IF_ERROR(CheckBounds("row_bytes", row, {0, 1e12}));
  const auto rows = static_cast<double>(model.most_rows);
  LAGOON_RETURN_IF_ERROR(CheckBounds("most_rows", rows, {1, 1024}));
  if (model.latency != nullptr) return {};
  return Fail(ErrorCode::kInvalidArgument, "has no latency model");
}

Status CheckReplica(const PlacementView& view, const PlacedReplica& replica) {
  if (replica.model >= view.models.size() || replica.gpu >= view.gpus.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a replica of model {} on GPU {}; there are {} models and {} GPUs",
                            replica.model, replica.gpu, view.models.size(), view.gpus.size()));
  }
  const ModelView& model = view.models[replica.model];
  const double granules = view.gpus[replica.gpu].granules;
  const auto check = [&]() -> Status {
    LAGOON_RETURN_IF_ERROR(CheckBounds("granules", replica.granules, {1, granules}));
    const auto most = static_cast<double>(model.most_rows);
    LAGOON_RETURN_IF_ERROR(CheckBounds("rows", static_cast<double>(replica.rows), {1, most}));
    return CheckBounds("fraction", replica.fraction, {1e-6, 1 + 1e-6});
  };
  if (Status checked = check(); !checked) {
    return Annotate(fmt::format("model {} on {}", Quoted(model.name), NameOf(view, replica.gpu)),
                    checked.error());
  }
  return {};
}

Status CheckRoomOfGpus(const PlacementView& view, const Assignment& assignment) {
  std::vector<std::uint64_t> granules(view.gpus.size());
  std::vector<std::int64_t> memory(view.gpus.size());
  for (const PlacedReplica& replica : assignment.replicas) {
    granules[replica.gpu] += replica.granules;
    memory[replica.gpu] += MemoryOf(view.models[replica.model], replica.rows);
  }
  for (std::size_t gpu = 0; gpu < view.gpus.size(); ++gpu) {
    if (granules[gpu] > view.gpus[gpu].granules) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("{}: the shares are {} granules of {}", NameOf(view, gpu),
                              granules[gpu], view.gpus[gpu].granules));
    }
    if (memory[gpu] > view.gpus[gpu].memory_bytes) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("{}: the replicas need {} bytes of {}", NameOf(view, gpu),
                              memory[gpu], view.gpus[gpu].memory_bytes));
    }
  }
  return {};
}

// Each model is refused, or placed with fractions that add up to 1.
Status CheckModels(const PlacementView& view, const Assignment& assignment) {
  std::vector<double> fractions(view.models.size());
  std::vector<bool> refused(view.models.size());
  for (const PlacedReplica& replica : assignment.replicas) {
    fractions[replica.model] += replica.fraction;
  }
  for (const RefusedModel& model : assignment.refused) {
    if (model.model >= view.models.size()) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("model {} is refused; there are {} models", model.model, view.models.size()));
    }
    refused[model.model] = true;
  }
  for (std::size_t i = 0; i < view.models.size(); ++i) {
    const bool placed = fractions[i] > 0;
    if (placed != refused[i] && (!placed || std::abs(fractions[i] - 1) <= 1e-6)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model {} is {}, and its replicas get {} of its arrivals: a model is "
                            "refused, or its replicas get 1",
                            Quoted(view.models[i].name), refused[i] ? "refused" : "not refused",
                            fractions[i]));
  }
  return {};
}

}  // namespace

Status CheckView(const PlacementView& view) {
  LAGOON_RETURN_IF_ERROR(
      CheckBounds("number of models", static_cast<double>(view.models.size()), {0, kMostModels}));
  LAGOON_RETURN_IF_ERROR(
      CheckBounds("number of GPUs", static_cast<double>(view.gpus.size()), {1, kMostGpus}));
  for (const ModelView& model : view.models) {
    if (Status checked = CheckModel(model); !checked) {
      return Annotate(fmt::format("model {}", Quoted(model.name)), checked.error());
    }
  }
  for (std::size_t i = 0; i < view.gpus.size(); ++i) {
    const auto check = [&]() -> Status {
      LAGOON_RETURN_IF_ERROR(CheckBounds("granules", view.gpus[i].granules, {1, 4096}));
      const auto memory = static_cast<double>(view.gpus[i].memory_bytes);
      return CheckBounds("memory_bytes", memory, {0, 1e15});
    };
    if (Status checked = check(); !checked) {
      return Annotate(NameOf(view, i), checked.error());
    }
  }
  return {};
}

std::string NameOf(const PlacementView& view, std::size_t gpu) {
  const std::string& name = view.gpus[gpu].name;
  return name.empty() ? fmt::format("GPU {}", gpu) : Quoted(name);
}

std::int64_t MemoryOf(const ModelView& model, std::int64_t rows) {
  return model.memory_bytes + (rows - 1) * model.row_bytes;
}

Status CheckAssignment(const PlacementView& view, const Assignment& assignment) {
  for (const PlacedReplica& replica : assignment.replicas) {
    LAGOON_RETURN_IF_ERROR(CheckReplica(view, replica));
  }
  const auto places = PlacesOf(assignment);
  const auto twice = std::ranges::adjacent_find(places);
  if (twice != places.end()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model {} has two replicas on {}",
                            Quoted(view.models[twice->first].name), NameOf(view, twice->second)));
  }
  LAGOON_RETURN_IF_ERROR(CheckRoomOfGpus(view, assignment));
  return CheckModels(view, assignment);
}

std::vector<std::pair<std::size_t, std::size_t>> PlacesOf(const Assignment& assignment) {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (const PlacedReplica& replica : assignment.replicas) {
    places.emplace_back(replica.model, replica.gpu);
  }
  std::ranges::sort(places);
  return places;
}

void SortReplicas(Assignment& assignment) {
  std::ranges::sort(assignment.replicas, {}, [](const PlacedReplica& replica) {
    return std::pair(replica.model, replica.gpu);
  });
}

}  // namespace lagoon
