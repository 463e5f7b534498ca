#pragma once

// The equation of an Einsum node.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"

namespace lagoon {

/// Labels are letters, and for the axes behind an ellipsis the digits '0' to '7', counted from the
/// back.
struct Einsum {
  std::vector<std::string> inputs;  // one label per axis of each operand
  std::string output;
  std::map<char, std::int64_t> sizes;

  Dims OutputDims() const;
};

/// Reads `equation` for operands of these shapes. kInvalidArgument says what does not fit,
/// kUnimplemented names a label that stands twice in one operand.
Result<Einsum> ParseEinsum(std::string_view equation, const std::vector<Dims>& shapes);

}  // namespace lagoon
