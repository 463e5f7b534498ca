#include "plan/precision.h"

#include <string>

namespace lagoon {

std::string_view Name(Precision precision) {
  return precision == Precision::kBf16 ? "bf16" : "fp32";
}

Result<Precision> ParsePrecision(std::string_view word) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    if (word == Name(precision)) return precision;
  }
  return Fail(ErrorCode::kInvalidArgument,
              "precision is '" + std::string(word) + "'; it takes 'fp32' or 'bf16'");
}

}  // namespace lagoon
