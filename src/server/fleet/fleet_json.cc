#include "server/fleet/fleet_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "server/fleet/repository.h"

namespace lagoon {
namespace {

using Json = nlohmann::ordered_json;

Json MillisecondsOrNull(Nanoseconds time) {
  return time > Nanoseconds(0) ? Json(ToMilliseconds(time)) : Json(nullptr);
}

Json DecisionJson(const FleetReport& report, TimePoint now) {
  if (!report.last) return nullptr;
  const FleetDecisionReport& last = *report.last;
  return {{"placer", last.placer},
          {"applied", last.applied},
          {"reason", last.reason},
          {"took_ms", ToMilliseconds(last.took)},
          {"seconds_ago", ToMilliseconds(now - last.at) / 1000}};
}

Json ReplicaJson(const FleetReplicaReport& replica, const FleetReport& report) {
  const bool serves = replica.state == FleetReplicaReport::State::kServing;
  return {{"model", replica.model},
          {"device", report.devices[replica.device].name},
          {"state", serves ? "serving" : "retiring"},
          {"fraction", replica.fraction},
          {"requests", replica.requests},
          {"in_flight", replica.in_flight}};
}

/// An object; the empty body is one without fields.
Result<Json> ParseObject(std::string_view body, std::string_view form) {
  if (body.empty()) return Json::object();
  // The parser takes a NUL byte for the end of the text.
  Json json = body.find('\0') == body.npos ? Json::parse(body, nullptr, /*allow_exceptions=*/false)
                                           : Json(Json::value_t::discarded);
  if (json.is_discarded() || !json.is_object()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the body must be {}, it is {}", form, Quoted(body)));
  }
  return json;
}

}  // namespace

std::string FleetJson(const FleetReport& report, TimePoint now) {
  Json devices = Json::array(), models = Json::array(), replicas = Json::array();
  for (const FleetDeviceReport& device : report.devices) {
    devices.push_back({{"name", device.name},
                       {"description", device.description},
                       {"ready", device.ready},
                       {"units", device.units},
                       {"memory_bytes", device.memory_bytes}});
  }
  for (const FleetModelReport& model : report.models) {
    models.push_back({{"model", model.model},
                      {"rows_per_s", model.rows_per_s ? Json(*model.rows_per_s) : Json(nullptr)},
                      {"slo_ms", MillisecondsOrNull(model.slo)},
                      {"standalone_ms", MillisecondsOrNull(model.standalone)},
                      {"memory_bytes", model.memory_bytes}});
  }
  for (const FleetReplicaReport& replica : report.replicas) {
    replicas.push_back(ReplicaJson(replica, report));
  }
  return DumpJson(Json{{"placer", report.placer},
                       {"devices", std::move(devices)},
                       {"models", std::move(models)},
                       {"replicas", std::move(replicas)},
                       {"last_decision", DecisionJson(report, now)},
                       {"decisions", report.decisions},
                       {"loads", report.loads},
                       {"unloads", report.unloads},
                       {"failed_loads", report.failed_loads}});
}

Result<std::string> ParsePlacerJson(std::string_view body) {
  constexpr std::string_view kForm = R"({"placer": NAME})";
  LAGOON_ASSIGN_OR_RETURN(const Json json, ParseObject(body, kForm));
  if (json.size() != 1 || !json.contains("placer") || !json["placer"].is_string()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the body must be {}, it is {}", kForm, Quoted(body)));
  }
  return json["placer"].get<std::string>();
}

std::string RepositoryIndexJson(std::span<const ModelStatus> models, bool ready_only) {
  Json list = Json::array();
  for (const RepositoryRow& row : RepositoryIndex(models, ready_only)) {
    list.push_back({{"name", row.name},
                    {"version", row.version},
                    {"state", row.state},
                    {"reason", row.reason}});
  }
  return DumpJson(list);
}

Result<bool> ParseIndexJson(std::string_view body) {
  LAGOON_ASSIGN_OR_RETURN(const Json json, ParseObject(body, R"({"ready": true or false})"));
  if (!json.contains("ready")) return false;
  if (json["ready"].is_boolean()) return json["ready"].get<bool>();
  return Fail(ErrorCode::kInvalidArgument, fmt::format("'ready' is {}; it takes true or false",
                                                       Quoted(DumpJson(json["ready"]))));
}

Status CheckRepositoryBody(std::string_view body) {
  LAGOON_ASSIGN_OR_RETURN(const Json json, ParseObject(body, "a JSON object, or empty"));
  if (!json.contains("parameters") || !json["parameters"].is_object()) return {};
  for (const auto& [key, value] : json["parameters"].items()) {
    LAGOON_RETURN_IF_ERROR(CheckRepositoryParameter(key));
  }
  return {};
}

}  // namespace lagoon
