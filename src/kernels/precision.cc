#include <string>

#include "kernels/bf16_unit.h"
#include "kernels/kernel.h"

namespace lagoon {

std::string_view PrecisionName(Precision precision) {
  return precision == Precision::kBf16 ? "bf16" : "fp32";
}

Result<Precision> ParsePrecision(std::string_view word) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    if (word == PrecisionName(precision)) return precision;
  }
  return Fail(ErrorCode::kInvalidArgument,
              "precision is '" + std::string(word) + "'; it takes 'fp32' or 'bf16'");
}

Status CheckPrecision(Precision precision) {
  if (precision == Precision::kFp32) return {};
  LAGOON_RETURN_IF_ERROR(FindBf16Unit());
  return {};
}

}  // namespace lagoon
