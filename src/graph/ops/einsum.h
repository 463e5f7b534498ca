#pragma once

// The equation of an Einsum node.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"

namespace lagoon {

/// A label is a letter. The axes behind an ellipsis have the digits '0' to '7', counted from the
/// last axis.
struct Einsum {
  std::vector<std::string> inputs;  // one label per axis of each operand
  std::string output;
  std::map<char, std::int64_t> sizes;

  Dims OutputDims() const;
};

/// Parses `equation` for operands of these XX
Result<Einsum> ParseEinsum(std::string_view equation, const std::vector<Dims>& shapes);

}  // namespace lagoon
