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

Status CheckOnlyFunction(std::string_view op, const Epilogue& epilogue, std::size_t element_bytes) {
  if (epilogue.residual || epilogue.residual_last)
    return Invalid(op, "a residual is not supported");
  if (epilogue.activation == Activation::kNone) return {};
  if (epilogue.activation != Activation::kUnary) return Invalid(op, "limits are not supported");
  if (element_bytes == sizeof(float)) return {};
  return Invalid(op, fmt::format("a function of elements of {} bytes", element_bytes));
}

}  // namespace lagoon
