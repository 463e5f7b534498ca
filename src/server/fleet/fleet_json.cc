#include "server/fleet/fleet_json.h"

#include <fmt/format.h>

#include <boost/beast/core/detail/base64.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_fields.h"
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
  const auto& batches = replica.batches;
  return {{"model", replica.model},
          {"device", report.devices[replica.device].name},
          {"state", serves ? "serving" : "retiring"},
          {"fraction", replica.fraction},
          {"requests", replica.requests},
          {"in_flight", replica.in_flight},
          {"batch_ms", batches ? Json(batches->measured_ms) : Json(nullptr)},
          {"expected_batch_ms", batches ? Json(batches->expected_ms) : Json(nullptr)}};
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

/// The text of an object's only field.
Result<std::string> ParseOneText(std::string_view body, std::string_view field) {
  std::string text;
  const Status read = ReadJson(body, {JsonField::Text(field, text)});
  if (!read) return Annotate("the body", read.error());
  return text;
}

// 1 PB: what placers take.
constexpr std::uint64_t kMostMemory = 1'000'000'000'000'000;

}  // namespace

std::string FleetJson(const FleetReport& report, TimePoint now) {
  Json devices = Json::array(), models = Json::array(), replicas = Json::array();
  for (const FleetDeviceReport& device : report.devices) {
    devices.push_back({{"name", device.name},
                       {"description", device.description},
                       {"ready", device.ready},
                       {"units", device.units},
                       {"memory_bytes", device.memory_bytes},
                       {"address", device.address},
                       {"problem", device.problem}});
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
                       {"failed_loads", report.failed_loads},
                       {"retries", report.retries}});
}

Result<std::string> ParsePlacerJson(std::string_view body) { return ParseOneText(body, "placer"); }

Result<std::string> ParseLeaveJson(std::string_view body) { return ParseOneText(body, "name"); }

Result<FleetJoin> ParseJoinJson(std::string_view body) {
  FleetJoin join;
  const auto memory = [&](std::uint64_t bytes) {
    join.memory_bytes = static_cast<std::int64_t>(bytes);
  };
  // CheckJoin() says which texts are names and addresses.
  const Status read = ReadJson(
      body, {JsonField::Text("name", join.name, 0), JsonField::Text("address", join.address, 0)},
      {JsonField::Whole("memory_bytes", 0, kMostMemory, memory)});
  if (!read) return Annotate("the body", read.error());
  return join;
}

std::string RepositoryIndexJson(Inference& core, bool ready_only) {
  Json list = Json::array();
  for (const RepositoryRow& row : RepositoryIndex(core, ready_only)) {
    Json& json =
        list.emplace_back(Json{{"name", row.name}, {"version", row.version}, {"state", row.state}});
    if (!row.reason.empty()) json["reason"] = row.reason;
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

Result<std::string> FromBase64(std::string_view text) {
  namespace base64 = boost::beast::detail::base64;
  std::string_view digits = text;
  for (int i = 0; i < 2 && digits.ends_with('='); ++i) digits.remove_suffix(1);
  std::string bytes(base64::decoded_size(text.size()) + 3, '\0');
  const auto [written, read] = base64::decode(bytes.data(), digits.data(), digits.size());
  bytes.resize(written);
  if (read == digits.size() && text.size() % 4 == 0) return bytes;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("is not base64: wrong at character {} of {}", read, text.size()));
}

Result<ChangeWords> ParseRepositoryBody(std::string_view body) {
  ChangeWords with;
  LAGOON_ASSIGN_OR_RETURN(const Json json, ParseObject(body, "a JSON object, or empty"));
  if (!json.contains("parameters") || json["parameters"].is_null()) return with;
  if (!json["parameters"].is_object()) {
    return Fail(ErrorCode::kInvalidArgument, "'parameters' is no JSON object");
  }
  for (const auto& [key, value] : json["parameters"].items()) {
    const bool file = key.starts_with(kFileParameter);
    if (!file && key != kConfigParameter) {
      if (key != kStepsParameter) return tl::unexpected<Error>(UnknownParameter(key));
      if (!value.is_boolean()) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("parameter {} must be true or false", Quoted(key)));
      }
      with.with_steps = value.get<bool>();
      continue;
    }
    if (!value.is_string()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("parameter {} must be a string", Quoted(key)));
    }
    const auto& text = value.get_ref<const std::string&>();
    if (!file) {
      with.config = text;
      continue;
    }
    auto contents = FromBase64(text);
    if (!contents) return Annotate(fmt::format("parameter {}", Quoted(key)), contents.error());
    with.files[key.substr(kFileParameter.size())] = *std::move(contents);
  }
  return with;
}

}  // namespace lagoon
