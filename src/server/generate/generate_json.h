#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/http/http_infer_codec.h"
#include "serving/core/models.h"
#include "serving/core/request.h"

namespace lagoon {

/// Reads a request of Triton's generate extension: a JSON object with a member for each input, a
/// number or a list. `id` is the request's own. Other members, and those of the object
/// `parameters`, are parameters of the request. A list without nested ones takes the shape that the
/// model declares, where that is possible. Errors: kInvalidArgument or kUnimplemented.
Result<HttpInfer> ParseGenerate(std::string_view body, const ModelMetadata& model);

/// One answer: a member for each output, a number if the output has one element, else a list.
/// kUnimplemented: more elements than an edge writes.
Result<std::string> RenderGenerate(const InferResponse& response);

}  // namespace lagoon
