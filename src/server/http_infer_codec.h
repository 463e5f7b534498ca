#pragma once

#include <memory>
#include <optional>
#include <span>

#include "server/http_message.h"
#include "server/infer_json.h"
#include "server/stages.h"
#include "serving/core.h"

namespace lagoon {

/// How the client wants its answer.
struct HttpAnswerFormat {
  bool binary = false;              // of outputs that `outputs` does not name or decide
  std::vector<JsonOutput> outputs;  // empty: all
  bool stages = false;              // report Stages() as parameters
};

struct HttpInfer {
  InferRequest request;  // model, version and arrival are left to the caller
  HttpAnswerFormat format;
};

/// Reads a body whose first `json_bytes` bytes are JSON (all of it: nullopt) and whose rest holds
/// the binary tensors in the order of the inputs. Binary tensors stay where they are: the request's
/// payload keeps `payload` alive. kInvalidArgument or kUnimplemented, naming the input.
Result<HttpInfer> ParseHttpInfer(std::span<const std::byte> body,
                                 std::optional<std::size_t> json_bytes,
                                 std::shared_ptr<const void> payload,
                                 const JsonBounds& bounds = {});

/// Reads a body that is one tensor and nothing else (Inference-Header-Content-Length: 0); outputs
/// are binary. kInvalidArgument when the model has not exactly one input of that size.
Result<HttpInfer> ParseRawInfer(std::span<const std::byte> body, const ModelMetadata& model,
                                std::shared_ptr<const void> payload);

/// How many elements of `response` an answer in `format` carries as text.
std::size_t TextElements(const InferResponse& response, const HttpAnswerFormat& format);

/// Status 422, naming the output, when one that is to be JSON holds NaN or infinity.
HttpResponse RenderHttpInfer(InferResponse response, const HttpAnswerFormat& format,
                             const EdgeStamps& stamps);

}  // namespace lagoon
