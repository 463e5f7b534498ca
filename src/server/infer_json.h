#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"

namespace lagoon {

/// One entry of "inputs".
struct JsonInput {
  std::string name;
  std::string datatype;
  bool has_shape = false;
  Dims shape;
  std::optional<std::uint64_t> binary_bytes;  // parameters.binary_data_size
  // "data", flattened. Whole numbers are exact up to 2^53.
  bool has_data = false;
  std::vector<double> data;
  bool has_bools = false;  // true or false occurred; stored as 1 and 0
  bool has_numbers = false;
  Dims nesting;  // lengths of the nested arrays, outermost first
};

/// One entry of "outputs".
struct JsonOutput {
  std::string name;
  std::optional<bool> binary;  // parameters.binary_data
};

/// The JSON part of an infer request; what is absent keeps its default.
struct JsonInfer {
  std::string id;
  std::uint64_t priority = 0;
  std::uint64_t timeout_us = 0;
  bool binary_outputs = false;  // parameters.binary_data_output
  bool stages = false;          // parameters.lagoon_stages
  std::vector<JsonInput> inputs;
  std::vector<JsonOutput> outputs;
};

/// Parses without building a document: memory stays within a small multiple of `text`, whatever it
/// nests. Unknown members are ignored; parameters that would change the answer and are not
/// supported are refused. kInvalidArgument says where; kUnimplemented names the feature.
Result<JsonInfer> ParseInferJson(std::span<const std::byte> text);

}  // namespace lagoon
