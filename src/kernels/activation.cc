#include "kernels/activation.h"

#include <fmt/format.h>

#include <limits>

#include "kernels/checks.h"

namespace lagoon {

Result<Limits> LimitsOf(std::string_view op, const Epilogue& epilogue) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (epilogue.residual) return Invalid(op, "epilogue.residual is not supported");
  switch (epilogue.activation) {
    case Activation::kNone:
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

}  // namespace lagoon
