#include "server/scheduler_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json.h"
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

// Ends the parse at the first event that does not fit.
class SchedulerSax {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;
  using Parameters = std::vector<std::pair<std::string, double>>;

  // Valid after a whole parse.
  std::string& name() { return *name_; }
  std::optional<Parameters>& parameters() { return parameters_; }
  // The parameter that the body sets a second time; empty: there is none.
  const std::string& twice() const { return twice_; }

  bool start_object(std::size_t) {
    if (Follows(At::kBegin, At::kObject)) return true;
    if (!Follows(At::kParameters, At::kParameter)) return false;
    parameters_.emplace();
    return true;
  }
  bool key(string_t& key) {
    if (at_ == At::kParameter) return Set(std::move(key));
    if (key == "scheduler" && !name_) return Follows(At::kObject, At::kName);
    return key == "parameters" && !parameters_ && Follows(At::kObject, At::kParameters);
  }
  bool string(string_t& value) {
    name_ = std::move(value);
    return Follows(At::kName, At::kObject);
  }
  bool end_object() {
    return Follows(At::kParameter, At::kObject) || (name_ && Follows(At::kObject, At::kEnd));
  }
  bool number_integer(number_integer_t value) { return Value(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) { return Value(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) { return Value(value); }
  bool start_array(std::size_t) { return false; }
  bool end_array() { return false; }
  bool null() { return false; }
  bool boolean(bool) { return false; }
  bool binary(binary_t&) { return false; }
  template <typename Exception>
  bool parse_error(std::size_t, const std::string&, const Exception&) {
    return false;
  }

 private:
  // What comes next: a key of the body, the value of one of its two keys, a key of "parameters", or
  // the value of that.
  enum class At : std::uint8_t { kBegin, kObject, kName, kParameters, kParameter, kValue, kEnd };

  bool Follows(At before, At now) {
    if (at_ != before) return false;
    at_ = now;
    return true;
  }
  bool Set(std::string parameter) {
    for (const auto& [name, value] : *parameters_) {
      if (name == parameter) twice_ = name;
    }
    parameters_->emplace_back(std::move(parameter), 0);
    return twice_.empty() && Follows(At::kParameter, At::kValue);
  }
  bool Value(double value) {
    if (!Follows(At::kValue, At::kParameter)) return false;
    parameters_->back().second = value;
    return true;
  }

  At at_ = At::kBegin;
  std::optional<std::string> name_;
  std::optional<Parameters> parameters_;
  std::string twice_;
};

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
  SchedulerSax sax;
  // The parser takes a NUL byte for the end of the text.
  const bool whole = Json::sax_parse(body, &sax) && body.find('\0') == std::string_view::npos;
  if (!sax.twice().empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("parameter {} is set twice", Quoted(sax.twice())));
  }
  if (!whole) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format(R"(the body must be {{"scheduler": NAME}} or {{"scheduler": NAME, )"
                            R"("parameters": {{PARAMETER: NUMBER}}}}, it is {})",
                            Quoted(body)));
  }
  if (!sax.parameters()) return SchedulerChoice::Parse(sax.name());
  if (sax.name().find(':') != std::string::npos) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("scheduler {}: the parameters stand in the name or in \"parameters\", "
                            "not in both",
                            Quoted(sax.name())));
  }
  return SchedulerChoice{std::move(sax.name()), *std::move(sax.parameters())};
}

}  // namespace lagoon
