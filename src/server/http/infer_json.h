#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"
#include "serving/core/request.h"

namespace lagoon {

/// From this magnitude on, a double cannot hold every whole number.
inline constexpr std::uint64_t kFirstInexact = std::uint64_t{1} << 53;

/// A whole number of kFirstInexact or more, or of -kFirstInexact or less.
struct JsonWhole {
  std::size_t index = 0;   // in JsonInput::data
  std::uint64_t bits = 0;  // the value; as an int64 when `negative`
  bool negative = false;
};

/// The parameters "shared_memory_...". Present if `region` is.
struct JsonShared {
  std::string region;
  std::optional<std::uint64_t> bytes;
  std::uint64_t offset = 0;
};

/// One entry of "inputs".
struct JsonInput {
  std::string name;
  std::string datatype;
  bool has_shape = false;
  Dims shape;
  std::optional<std::uint64_t> binary_bytes;  // parameters.binary_data_size
  JsonShared shared = {};
  // "data", flattened: every number as the nearest double. Whole numbers that a double may not hold
  // exactly are in `wholes` too.
  bool has_data = false;
  std::vector<double> data;
  std::vector<JsonWhole> wholes;  // ascending by index
  bool has_bools = false;         // true or false occurred; stored as 1 and 0
  bool has_numbers = false;
  bool has_texts = false;        // strings occurred; stored as 0
  std::vector<std::byte> texts;  // the strings as a tensor of BYTES
  Dims nesting;                  // lengths of the nested arrays, outermost first
};

/// One entry of "outputs".
struct JsonOutput {
  std::string name;
  std::optional<bool> binary;  // parameters.binary_data
  std::uint32_t classes = 0;   // parameters.classification
  JsonShared shared = {};
};

/// The JSON part of an infer request. Absent members keep their defaults.
struct JsonInfer {
  std::string id;
  std::uint64_t priority = 0;
  std::uint64_t timeout_us = 0;
  bool binary_outputs = false;  // parameters.binary_data_output
  bool stages = false;          // parameters.lagoon_stages
  SequencePart sequence;        // parameters.sequence_id, sequence_start and sequence_end
  std::string via;              // parameters.lagoon_via (InferRequest::via)
  std::string tenant;           // parameters.lagoon_tenant
  std::vector<RequestParameter> parameters;  // the others that are text, number, true or false
  std::vector<JsonInput> inputs;
  std::vector<JsonOutput> outputs;
};

/// The most that a request for the model can need. A request with more is refused at the first
/// element too many.
struct JsonBounds {
  /// Number of elements of all inputs together. Unlimited for a model that takes any size.
  std::size_t max_elements = std::numeric_limits<std::size_t>::max();
};

/// Parses without building a document, so that memory stays within a small multiple of `text` at
/// any nesting. Unknown members are ignored. Refused are: unsupported parameters that would change
/// the answer, known members that occur twice, and text after the request. kInvalidArgument says
/// where; kUnimplemented names the feature.
Result<JsonInfer> ParseInferJson(std::span<const std::byte> text, const JsonBounds& bounds = {});

}  // namespace lagoon
