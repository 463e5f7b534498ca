#include "apps/serving/place_json.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace lagoon {
namespace {

using nlohmann::json;

// Milliseconds that a duration in nanoseconds can hold, with room.
constexpr double kMostMs = 1e9;

tl::unexpected<Error> Bad(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, "view: " + std::move(message));
}

/// Reads numbers of one object. The first error stays, and then the reads do nothing.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) Refuse("is no object");
  }

  /// `value` keeps its default where the object has no such field.
  void Read(const char* field, double& value) {
    const json* found = Find(field);
    if (found == nullptr) return;
    if (!found->is_number()) return Refuse(fmt::format("'{}' is no number", field));
    value = found->get<double>();
  }
  template <typename Whole>
  void ReadWhole(const char* field, Whole& value) {
    const json* found = Find(field);
    if (found == nullptr) return;
    if (!found->is_number_unsigned() ||
        !std::in_range<Whole>(found->template get<std::uint64_t>())) {
      return Refuse(
          fmt::format("'{}' is {}, not a whole number from 0", field, Quoted(DumpJson(*found))));
    }
    value = static_cast<Whole>(found->template get<std::uint64_t>());
  }
  void Read(const char* field, std::string& value) {
    const json* found = Find(field);
    if (found == nullptr || !found->is_string()) {
      return Refuse(fmt::format("needs the text '{}'", field));
    }
    value = found->get<std::string>();
  }

  Status status() const {
    if (problem_) return Bad(fmt::format("{} {}", where_, *problem_));
    return {};
  }

 private:
  const json* Find(const char* field) const {
    if (problem_) return nullptr;
    const auto found = object_.find(field);
    return found == object_.end() ? nullptr : &*found;
  }
  void Refuse(std::string problem) {
    if (!problem_) problem_ = std::move(problem);
  }

  const json& object_;
  const std::string where_;
  std::optional<std::string> problem_;
};

Result<const LatencyModel*> ParseLatency(const json& value, const std::string& model,
                                         LatencyStore& latencies) {
  SurfaceFormula formula;
  Reader reader(value, fmt::format("model {}: 'latency'", Quoted(model)));
  reader.Read("base_ms", formula.base_ms);
  reader.Read("row_ms", formula.row_ms);
  reader.Read("fixed", formula.fixed);
  reader.Read("knee", formula.knee);
  reader.Read("growth", formula.growth);
  LAGOON_RETURN_IF_ERROR(reader.status());
  return latencies.Get(model, formula);
}

Result<ModelView> ParseModel(const json& value, LatencyStore& latencies) {
  ModelView model;
  double slo_ms = 0;
  Reader reader(value, "a model");
  reader.Read("name", model.name);
  reader.Read("slo_ms", slo_ms);
  reader.Read("rate", model.rate);
  reader.Read("rate_error", model.rate_error);
  reader.Read("queued", model.queued);
  reader.ReadWhole("memory_bytes", model.memory_bytes);
  reader.ReadWhole("row_bytes", model.row_bytes);
  reader.ReadWhole("most_rows", model.most_rows);
  LAGOON_RETURN_IF_ERROR(reader.status());
  if (!(slo_ms > 0 && slo_ms <= kMostMs)) {
    return Bad(fmt::format("model {}: 'slo_ms' is {}, not above 0", Quoted(model.name), slo_ms));
  }
  model.slo = Nanoseconds(std::llround(slo_ms * 1e6));
  LAGOON_ASSIGN_OR_RETURN(model.latency,
                          ParseLatency(value.value("latency", json()), model.name, latencies));
  return model;
}

Result<GpuView> ParseGpu(const json& value) {
  GpuView gpu;
  Reader reader(value, "a GPU");
  reader.ReadWhole("granules", gpu.granules);
  reader.ReadWhole("memory_bytes", gpu.memory_bytes);
  LAGOON_RETURN_IF_ERROR(reader.status());
  return gpu;
}

/// Nothing: the replica is not in the view any more.
Result<std::optional<PlacedReplica>> ParseReplica(const json& value, const PlacementView& view) {
  PlacedReplica replica;
  std::string model;
  Reader reader(value, "a replica of 'current'");
  reader.Read("model", model);
  reader.ReadWhole("gpu", replica.gpu);
  reader.ReadWhole("granules", replica.granules);
  reader.ReadWhole("rows", replica.rows);
  reader.Read("fraction", replica.fraction);
  LAGOON_RETURN_IF_ERROR(reader.status());
  while (replica.model < view.models.size() && view.models[replica.model].name != model) {
    ++replica.model;
  }
  if (replica.model == view.models.size() || replica.gpu >= view.gpus.size()) {
    return std::optional<PlacedReplica>();
  }
  return std::optional(replica);
}

/// The entries of a list, each given to `parse`, which returns a Status.
template <typename Parse>
Status ForEach(const json& body, const char* field, Parse parse) {
  const auto list = body.find(field);
  if (list == body.end()) return {};
  if (!list->is_array()) return Bad(fmt::format("'{}' is no list", field));
  for (const json& entry : *list) LAGOON_RETURN_IF_ERROR(parse(entry));
  return {};
}

}  // namespace

Result<const LatencyModel*> LatencyStore::Get(const std::string& model,
                                              const SurfaceFormula& formula) {
  const std::string key = fmt::format("{}\n{} {} {} {} {}", model, formula.base_ms, formula.row_ms,
                                      formula.fixed, formula.knee, formula.growth);
  std::unique_ptr<LatencyModel>& known = models_[key];
  if (known != nullptr) return known.get();
  auto surface = Surface::FromFormula(formula);
  if (!surface) {
    models_.erase(key);
    return Annotate(fmt::format("model {}: 'latency'", Quoted(model)), std::move(surface).error());
  }
  known =
      std::make_unique<LatencyModel>(*std::move(surface), LoadLine{}, LoadLine{}, SlowdownTerms{});
  return known.get();
}

Result<PlacementView> ParseView(std::string_view text, LatencyStore& latencies) {
  const json body = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return Bad("the line is no JSON object");
  PlacementView view;
  LAGOON_RETURN_IF_ERROR(ForEach(body, "models", [&](const json& entry) -> Status {
    LAGOON_ASSIGN_OR_RETURN(ModelView model, ParseModel(entry, latencies));
    view.models.push_back(std::move(model));
    return {};
  }));
  LAGOON_RETURN_IF_ERROR(ForEach(body, "gpus", [&](const json& entry) -> Status {
    LAGOON_ASSIGN_OR_RETURN(const GpuView gpu, ParseGpu(entry));
    view.gpus.push_back(gpu);
    return {};
  }));
  LAGOON_RETURN_IF_ERROR(ForEach(body, "current", [&](const json& entry) -> Status {
    LAGOON_ASSIGN_OR_RETURN(const auto replica, ParseReplica(entry, view));
    if (replica) view.current.replicas.push_back(*replica);
    return {};
  }));
  SortReplicas(view.current);
  LAGOON_RETURN_IF_ERROR(CheckView(view));
  return view;
}

std::string AssignmentJson(const PlacementView& view, const Assignment& assignment) {
  json body = {{"replicas", json::array()}, {"refused", json::array()}};
  for (const PlacedReplica& replica : assignment.replicas) {
    body["replicas"].push_back({{"model", view.models[replica.model].name},
                                {"gpu", replica.gpu},
                                {"granules", replica.granules},
                                {"rows", replica.rows},
                                {"fraction", replica.fraction}});
  }
  for (const RefusedModel& refused : assignment.refused) {
    body["refused"].push_back(
        {{"model", view.models[refused.model].name}, {"reason", refused.reason}});
  }
  return DumpJson(body);
}

}  // namespace lagoon
