#include "kernels/activation.h"

#include <fmt/format.h>

#include <limits>

#include "kernels/checks.h"

namespace lagoon {

Result<Limits> LimitsOf(std::string_view op, const Epilogue& epilogue) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (epilogue.activation) {
    case Activation::kNone:
    case Activation::kUnary:
      return Limits{-kInfinity, kInfinity};
    case Activation::kRelu:
      return Limits{0, kInfinity};
    case Activation::kClip:
      break;
  }
  if (!(epilogue.low <= epilogue.high)) {
    return Invalid(op, fmt::format("epilogue.low {} is not at most epilogue.high {}", epilogue.low,
                                   epilogue.high));
  }
  return Limits{epilogue.low, epilogue.high};
}

Status CheckOnlyLimits(std::string_view op, const Epilogue& epilogue) {
  if (epilogue.residual) return Invalid(op, "epilogue.residual is not supported");
  if (epilogue.activation == Activation::kUnary) {
    return Invalid(op, "an epilogue with a function is not supported");
  }
  return {};
}

}  // namespace lagoon
