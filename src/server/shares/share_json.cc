#include "server/shares/share_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace lagoon {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::string_view NameOf(Bottleneck bottleneck) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "host", "device"};
  return kNames[static_cast<std::size_t>(bottleneck)];
}

Json ModelJson(const ModelShare& model, TimePoint now) {
  const bool shared = model.share.has_value();
  Json json = {
      {"model", model.model},
      {"version", model.version},
      {"share_percent", shared ? Json(100 * *model.share) : Json(nullptr)},
      {"fixed", model.fixed},
      {"demand_percent", shared ? Json(100 * model.demand) : Json(nullptr)},
      {"units", model.units.count == 0
                    ? Json(nullptr)
                    : Json{{"first", model.units.first}, {"count", model.units.count}}},
      {"weight", model.weight},
      {"slo_ms", model.slo > Nanoseconds(0) ? Json(ToMilliseconds(model.slo)) : Json(nullptr)},
      {"slo_of", model.slo_of == SloOf::kBatch ? "batch" : "request"},
      {"batch_rows_limit", model.most_rows},
      {"arrivals_per_s", OrNull(model.load.arrivals_per_s)},
      {"rows_per_s", OrNull(model.load.rows_per_s)},
      {"batch_ms", OrNull(model.load.batch_ms)},
      {"request_p95_ms", OrNull(model.load.request_p95_ms)},
      {"bottleneck", NameOf(model.load.bottleneck)},
      {"moves", model.moves},
      {"last_change", nullptr}};
  if (model.last) {
    json["last_change"] = {{"from_percent", 100 * model.last->from},
                           {"to_percent", 100 * model.last->to},
                           {"why", model.last->why},
                           {"seconds_ago", ToMilliseconds(now - model.last->at) / 1000}};
  }
  return json;
}

/// The fields of a small object, whose values are neither objects nor lists.
Result<Json> ParseFlat(std::string_view body, std::string_view form) {
  // The parser takes a NUL byte for the end of the text.
  Json json = body.find('\0') == body.npos ? Json::parse(body, nullptr, /*allow_exceptions=*/false)
                                           : Json(Json::value_t::discarded);
  if (json.is_discarded() || !json.is_object() || json.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the body must be {}, it is {}", form, Quoted(body)));
  }
  return json;
}

tl::unexpected<Error> Wrong(std::string_view key, const Json& value, std::string_view takes) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is {}; it takes {}", Quoted(key), Quoted(DumpJson(value)), takes));
}

tl::unexpected<Error> Unknown(std::string_view key, std::string_view form) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is unknown; the body must be {}", Quoted(key), form));
}

}  // namespace

std::string SharesJson(const SharesReport& report, TimePoint now) {
  Json models = Json::array();
  for (const ModelShare& model : report.models) models.push_back(ModelJson(model, now));
  return DumpJson(Json{{"shares", report.kind == ShareKind::kUnits ? "units" : "weight"},
                       {"tuning", report.tuning},
                       {"trigger_percent", 100 * report.trigger},
                       {"hold_down_s", ToMilliseconds(report.hold_down) / 1000},
                       {"units", report.units},
                       {"granule", report.granule},
                       {"models", std::move(models)}});
}

Result<SharesRules> ParseSharesJson(std::string_view body) {
  constexpr std::string_view kForm =
      R"({"tuning": true or false, "trigger_percent": NUMBER, "hold_down_s": NUMBER}, each optional)";
  LAGOON_ASSIGN_OR_RETURN(const Json json, ParseFlat(body, kForm));
  SharesRules rules;
  for (const auto& [key, value] : json.items()) {
    if (key == "tuning") {
      if (!value.is_boolean()) return Wrong(key, value, "true or false");
      rules.tuning = value.get<bool>();
    } else if (key == "trigger_percent") {
      const double percent = value.is_number() ? value.get<double>() : -1;
      if (!(percent >= 0 && percent <= 100)) return Wrong(key, value, "a number from 0 to 100");
      rules.trigger = percent / 100;
    } else if (key == "hold_down_s") {
      const double seconds = value.is_number() ? value.get<double>() : -1;
      if (!(seconds >= 0 && seconds <= 1e6)) return Wrong(key, value, "seconds from 0 to 1000000");
      rules.hold_down = std::chrono::round<Nanoseconds>(std::chrono::duration<double>(seconds));
    } else {
      return Unknown(key, kForm);
    }
  }
  return rules;
}

Result<ShareWanted> ParseResizeJson(std::string_view body) {
  constexpr std::string_view kForm =
      R"({"units": NUMBER}, {"percent": NUMBER} or {"share": "auto"})";
  LAGOON_ASSIGN_OR_RETURN(const Json json, ParseFlat(body, kForm));
  const std::string& key = json.begin().key();
  const Json& value = json.begin().value();
  if (json.size() != 1) return Unknown(std::next(json.begin()).key(), kForm);
  ShareWanted wanted;
  if (key == "units") {
    const double units = value.is_number() ? value.get<double>() : -1;
    if (!(units >= 1 && units <= 1e6) || units != std::floor(units)) {
      return Wrong(key, value, "a whole number of the device's units");
    }
    wanted.units = static_cast<std::uint32_t>(units);
  } else if (key == "percent") {
    const double percent = value.is_number() ? value.get<double>() : -1;
    if (!(percent > 0 && percent <= 100)) return Wrong(key, value, "percent above 0, at most 100");
    wanted.part = percent / 100;
  } else if (key == "share") {
    if (value != "auto") return Wrong(key, value, R"("auto")");
    wanted.automatic = true;
  } else {
    return Unknown(key, kForm);
  }
  return wanted;
}

}  // namespace lagoon
