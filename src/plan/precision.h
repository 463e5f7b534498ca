#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace lagoon {

/// What convolutions and products with weights multiply; sums, and what lies in memory between
/// kernels, are fp32 always.
enum class Precision : std::uint8_t { kFp32, kBf16 };

/// "fp32", "bf16".
std::string_view Name(Precision precision);

/// kInvalidArgument naming the word and what there is.
Result<Precision> ParsePrecision(std::string_view word);

}  // namespace lagoon
