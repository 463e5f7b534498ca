#include "serving/core/parameters.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>

#include "base/text.h"

namespace lagoon {
namespace {

/// Whole numbers up to here are std::int64_t, as Triton's clients have them.
constexpr std::uint64_t kMostSigned = std::numeric_limits<std::int64_t>::max();

Result<std::vector<RequestParameter>> Read(const nlohmann::json& object, std::string_view what,
                                           bool (*is_servers)(std::string_view)) {
  const auto refuse = [what](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} {}", what, why));
  };
  std::vector<RequestParameter> parameters;
  if (!object.is_object()) return refuse("are no object");
  if (object.size() > kMostRequestParameters) {
    return refuse(
        fmt::format("are {}; at most {} are taken", object.size(), kMostRequestParameters));
  }
  for (const auto& [name, value] : object.items()) {
    if (is_servers(name)) continue;
    if (value.is_boolean()) {
      parameters.push_back({name, value.get<bool>()});
    } else if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMostSigned) {
      parameters.push_back({name, value.get<std::uint64_t>()});
    } else if (value.is_number_integer()) {
      parameters.push_back({name, value.get<std::int64_t>()});
    } else if (value.is_number()) {
      parameters.push_back({name, value.get<double>()});
    } else if (value.is_string()) {
      parameters.push_back({name, value.get<std::string>()});
    } else {
      return refuse(fmt::format("have {}, which is no text, number, true or false", Quoted(name)));
    }
  }
  return parameters;
}

}  // namespace

nlohmann::json ParametersObject(std::span<const RequestParameter> parameters) {
  nlohmann::json object = nlohmann::json::object();
  for (const RequestParameter& parameter : parameters) {
    std::visit([&](const auto& value) { object[parameter.name] = value; }, parameter.value);
  }
  return object;
}

std::string ParameterMembers(std::span<const RequestParameter> parameters) {
  std::string text;
  const nlohmann::json object = ParametersObject(parameters);
  for (const auto& [name, value] : object.items()) {
    text += fmt::format(",{}:{}", JsonString(name), DumpJson(value));
  }
  return text;
}

Result<std::vector<RequestParameter>> ReadRequestParameters(const nlohmann::json& object) {
  return Read(object, "the call's parameters", IsServerParameter);
}

Result<std::vector<RequestParameter>> ReadAnswerParameters(const nlohmann::json& object) {
  return Read(object, "the answer's parameters", HasServerPrefix);
}

}  // namespace lagoon
