#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace lagoon {

/// The type of the factors in convolutions and in products with weights. Sums, and values in memory
/// between kernels, are always fp32.
enum class Precision : std::uint8_t { kFp32, kBf16 };

/// "fp32", "bf16".
std::string_view Name(Precision precision);

/// kInvalidArgument names the word and the valid words.
Result<Precision> ParsePrecision(std::string_view word);

}  // namespace lagoon
