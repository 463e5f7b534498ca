#pragma once

// The parameters of a request or an answer (RequestParameter) as JSON, and back.

#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "serving/core/request.h"

namespace lagoon {

nlohmann::json ParametersObject(std::span<const RequestParameter> parameters);
/// The same as members of an object, with a comma before each: `,"a":1,"b":true`. A number that
/// JSON does not have is null.
std::string ParameterMembers(std::span<const RequestParameter> parameters);

/// Left out are those that the server reads (IsServerParameter()). kInvalidArgument: `object` is no
/// object, has more than kMostRequestParameters, or a value that is no text, number, true or false.
Result<std::vector<RequestParameter>> ReadRequestParameters(const nlohmann::json& object);

/// The same for an answer. Left out are those that the server writes: triton_... and lagoon_...
Result<std::vector<RequestParameter>> ReadAnswerParameters(const nlohmann::json& object);

}  // namespace lagoon
