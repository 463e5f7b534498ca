#pragma once

#include <cstdint>

namespace lagoon {

/// Functions of one number. `alpha` and `beta` are parameters.
enum class UnaryOp : std::uint8_t {
  kRelu,
  kClip,  // min(beta, max(alpha, x))
  kSigmoid,
  kTanh,
  kExp,
  kLog,
  kSqrt,
  kAbs,
  kNeg,
  kLeakyRelu,    // x < 0 ? alpha * x : x
  kHardSwish,    // x * min(1, max(0, x / 6 + 0.5))
  kHardSigmoid,  // min(1, max(0, alpha * x + beta))
  kCopy,
  kReciprocal,
  kErf,
  kGelu,      // with erf
  kGeluTanh,  // with tanh
  kSwish,     // x * sigmoid(x)
  kSoftplus,
  kMish,
  kElu,  // x < 0 ? alpha * (exp(x) - 1) : x
  kFloor,
  kCeil,
  kRound,  // halves to even
  // From here on there is no vector body.
  kSign,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kSoftsign,
  kCelu,             // max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
  kSelu,             // beta * (x > 0 ? x : alpha * (exp(x) - 1))
  kThresholdedRelu,  // x > alpha ? x : 0
  kShrink,           // x < -alpha ? x + beta : x > alpha ? x - beta : 0
  kNot,
  kBitwiseNot,
  kIsNan,
  kIsInf,  // alpha, beta: whether the negative, the positive one counts
};

}  // namespace lagoon
