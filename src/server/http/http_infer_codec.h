#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/http/http_message.h"
#include "server/http/infer_json.h"
#include "server/regions/shared_regions.h"
#include "server/stages.h"
#include "serving/core/models.h"
#include "serving/core/request.h"

namespace lagoon {

/// How an answer is compressed: Content-Encoding.
enum class HttpCoding : std::uint8_t { kNone, kGzip, kDeflate };

/// The coding that `accept`, the request's Accept-Encoding, asks for: gzip or deflate where it is
/// the only one. Lists are what HTTP libraries send for every request; to compress for them would
/// slow clients that never asked.
HttpCoding CodingFor(std::string_view accept);

/// Compresses the body; the header says how.
void Compress(HttpResponse& response, HttpCoding coding);

/// The form of the answer that the client asked for.
struct HttpAnswerFormat {
  bool binary = false;              // for outputs that `outputs` does not name or leaves open
  std::vector<JsonOutput> outputs;  // empty: all
  bool stages = false;              // report Stages() as parameters
  OutputRegions regions = {};       // outputs that are not part of the answer
};

struct HttpInfer {
  InferRequest request;  // the caller sets model, version and arrival
  HttpAnswerFormat format;
  /// Tensors that lie in shared memory: the caller binds them (SharedRegions::Bind).
  SharedTensors shared = {};
};

/// How much the model's inputs can hold in its largest batch. A model with an open dimension takes
/// any number of elements; the size of the body and the request's own shapes bound them then.
JsonBounds BoundsOf(const ModelMetadata& model);

/// Reads a body of `json_bytes` bytes of JSON (nullopt: all of the body) and then the binary
/// tensors in the order of the inputs. Binary tensors stay where they are: the request's payload
/// keeps `payload` alive. Errors: kInvalidArgument or kUnimplemented, naming the input.
Result<HttpInfer> ParseHttpInfer(std::span<const std::byte> body,
                                 std::optional<std::size_t> json_bytes,
                                 std::shared_ptr<const void> payload,
                                 const JsonBounds& bounds = {});

/// Reads a body that is one tensor and nothing else (Inference-Header-Content-Length: 0); outputs
/// are binary. A batch is 1, and one other dimension that is open follows from the body's size.
/// kInvalidArgument unless the model has exactly one input, and the body's size fits its shape.
Result<HttpInfer> ParseRawInfer(std::span<const std::byte> body, const ModelMetadata& model,
                                std::shared_ptr<const void> payload);

/// The number of elements of `response` that an answer in `format` carries as text.
std::size_t TextElements(const InferResponse& response, const HttpAnswerFormat& format);

/// Appends an output's elements as JSON, separated by commas.
void AppendElements(std::string& out, const OutputTensor& output);

/// The answer; outputs that have a region are there already. Values that JSON does not have are
/// written as NaN, Infinity and -Infinity.
HttpResponse RenderHttpInfer(InferResponse response, const HttpAnswerFormat& format,
                             const EdgeStamps& stamps);

}  // namespace lagoon
