#pragma once

#include <cstdint>

namespace lagoon {

/// Functions of two numbers. Integers wrap around; an integer division by zero gives 0. Fp16 and
/// bf16 are computed in fp32.
enum class BinaryOp : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kPow,
  kMin,
  kMax,
  // The ops from here on have no vector body.
  kMod,    // result has the sign of b
  kFmod,   // result has the sign of a
  kPRelu,  // a < 0 ? a * b : a
  kAnd,
  kOr,
  kXor,
  kBitAnd,
  kBitOr,
  kBitXor,
  kShiftLeft,
  kShiftRight,
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
};

}  // namespace lagoon
