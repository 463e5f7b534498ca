#include "server/shares/share_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "base/json_fields.h"
#include "base/text.h"
#include "cluster/surface_file.h"
#include "serving/core/models.h"

namespace lagoon {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

// In the order of the values.
constexpr std::array<std::string_view, 3> kBottlenecks = {"none", "host", "device"};
constexpr std::array<std::string_view, 4> kDemandsFrom = {"fixed", "surface", "default", "load"};
constexpr std::array<std::string_view, 2> kKinds = {"units", "weight"};

std::string_view NameOf(Bottleneck bottleneck) {
  return kBottlenecks[static_cast<std::size_t>(bottleneck)];
}

std::string_view NameOf(DemandFrom from) { return kDemandsFrom[static_cast<std::size_t>(from)]; }

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
      {"surface", model.surface == nullptr ? Json(nullptr) : Json(SurfaceJson(*model.surface))},
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

/// A field that may be null, and then sets nothing.
JsonField Nullable(JsonField field) {
  field.takes += ", or null";
  field.read = [read = std::move(field.read)](const nlohmann::json& value) -> Status {
    return value.is_null() ? Status() : read(value);
  };
  return field;
}

/// A number that is not negative.
JsonField Amount(std::string_view name, std::optional<double>& to) {
  return Nullable(JsonField::Number(name, 0, 1e15, [&to](double value) { to = value; }));
}

/// A part of the device, in percent. Sums of parts may be above it by a rounding error.
JsonField Percent(std::string_view name, std::function<void(double)> set) {
  return JsonField::Number(name, 0, 100.001, [set = std::move(set)](double percent) {
    set(std::min(percent / 100, 1.0));
  });
}

template <typename Enum, std::size_t kCount>
JsonField OneOf(std::string_view name, const std::array<std::string_view, kCount>& names,
                Enum& to) {
  return {name, fmt::format("one of {}", fmt::join(names, ", ")),
          [&names, &to](const nlohmann::json& value) -> Status {
            if (!value.is_string()) return JsonField::Misfit();
            const auto found = std::ranges::find(names, value.get_ref<const std::string&>());
            if (found == names.end()) return JsonField::Misfit();
            to = static_cast<Enum>(found - names.begin());
            return {};
          }};
}

JsonField Ignored(std::string_view name) {
  return {name, "anything", [](const nlohmann::json&) { return Status(); }};
}

/// Sets the surface of `value`, that of `before` if it is the same.
Status ReadSurface(const nlohmann::json& value, const ModelShare* before,
                   std::shared_ptr<const Surface>& surface) {
  if (before != nullptr && before->surface != nullptr && SurfaceJson(*before->surface) == value) {
    surface = before->surface;
    return {};
  }
  LAGOON_ASSIGN_OR_RETURN(Surface read, SurfaceFrom(value));
  surface = std::make_shared<const Surface>(std::move(read));
  return {};
}

/// `before`: the model in an earlier report; null: it was not there.
Status ReadModel(const nlohmann::json& json, const ModelShare* before, ModelShare& model) {
  constexpr std::uint64_t kMostRows = std::numeric_limits<std::int32_t>::max();
  const auto ceiling = [&](std::uint64_t rows) { model.ceiling = static_cast<std::int64_t>(rows); };
  LAGOON_RETURN_IF_ERROR(ReadFields(
      json,
      {JsonField::Text("model", model.model), JsonField::Text("version", model.version),
       Nullable(Percent("share_percent", [&](double part) { model.share = part; })),
       JsonField::Flag("fixed", [&](bool fixed) { model.fixed = fixed; }),
       Nullable(Percent("demand_percent", [&](double part) { model.demand = part; })),
       Nullable(OneOf("demand_from", kDemandsFrom, model.demand_from)),
       JsonField::Number("weight", 0, 1e6, model.weight),
       JsonField::Whole(
           "batch_rows_limit", 0, kMostRows,
           [&](std::uint64_t rows) { model.most_rows = static_cast<std::int64_t>(rows); }),
       Nullable(JsonField::Whole("batch_rows_ceiling", 0, kMostRows, ceiling)),
       Amount("arrivals_per_s", model.load.arrivals_per_s),
       Amount("rows_per_s", model.load.rows_per_s), Amount("batch_ms", model.load.batch_ms),
       Amount("request_p95_ms", model.load.request_p95_ms),
       OneOf("bottleneck", kBottlenecks, model.load.bottleneck),
       JsonField::Whole("moves", model.moves),
       Nullable({"surface", "an object",
                 [&](const nlohmann::json& value) {
                   return ReadSurface(value, before, model.surface);
                 }})},
      {Ignored("units"), Ignored("slo_ms"), Ignored("slo_of"), Ignored("last_change")}));
  if (model.fixed && !model.share) {
    return Fail(ErrorCode::kInvalidArgument, "'fixed' is true without a 'share_percent'");
  }
  if (IsModelName(model.model) && IsVersion(model.version)) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("no model can have the name {} and the version {}", Quoted(model.model),
                          Quoted(model.version)));
}

}  // namespace

std::string SharesJson(const SharesReport& report, TimePoint now) {
  Json models = Json::array();
  for (const ModelShare& model : report.models) models.push_back(ModelJson(model, now));
  return DumpJson(Json{{"shares", kKinds[static_cast<std::size_t>(report.kind)]},
                       {"tuning", report.tuning},
                       {"trigger_percent", 100 * report.trigger},
                       {"hold_down_s", ToMilliseconds(report.hold_down) / 1000},
                       {"units", report.units},
                       {"granule", report.granule},
                       {"models", std::move(models)}});
}

Result<SharesReport> ParseSharesReport(std::string_view body, const SharesReport& before) {
  SharesReport report;
  double hold_down = 0;
  const auto model = [&](const nlohmann::json& json) -> Status {
    if (report.models.size() == kMostTold) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("there are more than {} models", kMostTold));
    }
    // Servers tell their models in one order.
    const std::size_t at = report.models.size();
    const ModelShare* const same = at < before.models.size() ? &before.models[at] : nullptr;
    return ReadModel(json, same, report.models.emplace_back());
  };
  const Status read = ReadJson(
      body,
      {OneOf("shares", kKinds, report.kind),
       JsonField::Flag("tuning", [&](bool on) { report.tuning = on; }),
       Percent("trigger_percent", [&](double part) { report.trigger = part; }),
       JsonField::Number("hold_down_s", 0, 1e6, hold_down), JsonField::Whole("units", report.units),
       JsonField::Whole(
           "granule", 1, 1'000'000,
           [&](std::uint64_t units) { report.granule = static_cast<std::uint32_t>(units); }),
       JsonField::List("models", "models", model)});
  if (!read) return OfBody(read.error());
  report.hold_down = std::chrono::round<Nanoseconds>(std::chrono::duration<double>(hold_down));
  return report;
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

std::string ResizeJson(const ShareWanted& wanted) {
  Json json;
  if (wanted.units) json["units"] = *wanted.units;
  if (wanted.part) json["percent"] = 100 * *wanted.part;
  if (wanted.automatic) json["share"] = "auto";
  if (wanted.none) json["share"] = "none";
  if (wanted.rows > 0) json["rows"] = wanted.rows;
  return DumpJson(json);
}

}  // namespace lagoon
