#include "server/scheduler_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json_fields.h"
#include "base/text.h"
#include "policies/registry.h"

namespace lagoon {
namespace {

using Json = nlohmann::ordered_json;

// Whole numbers without a decimal point, as clients write them.
Json Number(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

Json ParameterJson(const ParameterValue& value) {
  const SchedulerParameter& parameter = *value.parameter;
  return {{"name", parameter.name},           {"default", Number(value.value)},
          {"least", Number(parameter.least)}, {"most", Number(parameter.most)},
          {"whole", parameter.whole},         {"meaning", parameter.meaning}};
}

}  // namespace

std::string SchedulerJson(const SchedulerConfig& config) {
  Json parameters = Json::object();
  for (const auto& [parameter, value] : ParametersOf(config)) {
    parameters[std::string(parameter->name)] = Number(value);
  }
  return DumpJson(Json{{"scheduler", config.name},
                       {"parameters", std::move(parameters)},
                       {"schedulers", SchedulerNames()}});
}

std::string SchedulersJson(std::span<const std::string_view> names, int indent) {
  Json schedulers = Json::array();
  for (const std::string_view name : names) {
    Json parameters = Json::array();
    for (const ParameterValue& value : ParametersOf(MakeScheduler(name)->config)) {
      parameters.push_back(ParameterJson(value));
    }
    schedulers.push_back(
        {{"name", name}, {"summary", SummaryOf(name)}, {"parameters", std::move(parameters)}});
  }
  return DumpJson(Json{{"schedulers", std::move(schedulers)}}, indent);
}

Result<SchedulerChoice> ParseSchedulerJson(std::string_view body) {
  std::string name;
  std::optional<std::vector<std::pair<std::string, double>>> parameters;
  const auto read_parameters = [&](const nlohmann::json& object) -> Status {
    if (!object.is_object()) return JsonField::Misfit();
    parameters.emplace();
    for (const auto& [parameter, value] : object.items()) {
      if (!value.is_number()) return JsonField::Misfit();
      parameters->emplace_back(parameter, value.get<double>());
    }
    return {};
  };
  const Status read = ReadJson(body, {JsonField::Text("scheduler", name)},
                               {{"parameters", "{PARAMETER: NUMBER}", read_parameters}});
  if (!read) return Annotate("the body", read.error());
  if (!parameters) return SchedulerChoice::Parse(name);
  if (name.find(':') != std::string::npos) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("scheduler {}: the parameters stand in the name or in \"parameters\", "
                            "not in both",
                            Quoted(name)));
  }
  return SchedulerChoice{std::move(name), *std::move(parameters)};
}

}  // namespace lagoon
