#include "server/shares/share_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json_fields.h"

namespace lagoon {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::string_view NameOf(Bottleneck bottleneck) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "host", "device"};
  return kNames[static_cast<std::size_t>(bottleneck)];
}

std::string_view NameOf(DemandFrom from) {
  constexpr std::array<std::string_view, 4> kNames = {"fixed", "surface", "default", "load"};
  return kNames[static_cast<std::size_t>(from)];
}

Json ModelJson(const ModelShare& model, TimePoint now) {
  const bool shared = model.share.has_value();
  Json json = {
      {"model", model.model},
      {"version", model.version},
      {"share_percent", shared ? Json(100 * *model.share) : Json(nullptr)},
      {"fixed", model.fixed},
      {"demand_percent", shared ? Json(100 * model.demand) : Json(nullptr)},
      {"demand_from", shared ? Json(NameOf(model.demand_from)) : Json(nullptr)},
      {"units", model.units.count == 0
                    ? Json(nullptr)
                    : Json{{"first", model.units.first}, {"count", model.units.count}}},
      {"weight", model.weight},
      {"slo_ms", model.slo > Nanoseconds(0) ? Json(ToMilliseconds(model.slo)) : Json(nullptr)},
      {"slo_of", model.slo_of == SloOf::kBatch ? "batch" : "request"},
      {"batch_rows_limit", model.most_rows},
      {"batch_rows_ceiling", model.ceiling > 0 ? Json(model.ceiling) : Json(nullptr)},
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

tl::unexpected<Error> OfBody(const Error& error) { return Annotate("the body", error); }

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
  SharesRules rules;
  const auto hold_down = [&](double seconds) {
    rules.hold_down = std::chrono::round<Nanoseconds>(std::chrono::duration<double>(seconds));
  };
  const Status read =
      ReadJson(body, {},
               {JsonField::Flag("tuning", [&](bool on) { rules.tuning = on; }),
                JsonField::Number("trigger_percent", 0, 100,
                                  [&](double percent) { rules.trigger = percent / 100; }),
                JsonField::Number("hold_down_s", 0, 1e6, hold_down)});
  if (!read) return OfBody(read.error());
  if (rules.tuning || rules.trigger || rules.hold_down) return rules;
  return Fail(ErrorCode::kInvalidArgument,
              "the body must have tuning, trigger_percent or hold_down_s");
}

Result<ShareWanted> ParseResizeJson(std::string_view body) {
  ShareWanted wanted;
  const auto share = [&](const nlohmann::json& value) -> Status {
    if (value != "auto" && value != "none") return JsonField::Misfit();
    (value == "auto" ? wanted.automatic : wanted.none) = true;
    return {};
  };
  const auto rows = [&](std::uint64_t count) { wanted.rows = static_cast<std::int64_t>(count); };
  const auto units = [&](std::uint64_t count) { wanted.units = static_cast<std::uint32_t>(count); };
  const Status read =
      ReadJson(body, {},
               {JsonField::Whole("units", 1, 1'000'000, units),
                JsonField::Number("percent", 0.01, 100,
                                  [&](double percent) { wanted.part = percent / 100; }),
                JsonField::Whole("rows", 1, 1'000'000, rows),
                {"share", R"("auto" or "none")", share}});
  if (!read) return OfBody(read.error());
  const bool by_share = wanted.automatic || wanted.none;
  if (wanted.units.has_value() + wanted.part.has_value() + by_share == 1) return wanted;
  return Fail(ErrorCode::kInvalidArgument, "the body must have either units, percent or share");
}

}  // namespace lagoon
