#pragma once

// Elementwise ops: one operand, or two with broadcasting.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel.h"

namespace lagoon {

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
};

struct UnarySpec {
  UnaryOp op = UnaryOp::kRelu;
  std::size_t count = 0;
  float alpha = 0;
  float beta = 0;
};

/// Input: x [count]. Output: y [count]; y may be x, no other overlap. NaN stays NaN.
/// kInvalidArgument when count is zero or too large, or kClip's alpha is above beta.
Result<Kernel> MakeUnary(const UnarySpec& spec);

enum class BinaryOp : std::uint8_t { kAdd, kSub, kMul, kDiv, kPow, kMin, kMax };

struct BinarySpec {
  BinaryOp op = BinaryOp::kAdd;
  std::vector<std::int64_t> a = {}, b = {}, out = {};
  Epilogue epilogue = {};  // activation only
};

/// Inputs: a, b of shapes that broadcast to `out` as numpy does. Output: y of shape `out`; it may
/// be an input of the same shape, no other overlap. kInvalidArgument names the shapes when they do
/// not broadcast to `out`, or need more than kMaxBroadcastAxes axes after axes that broadcast alike
/// are joined.
Result<Kernel> MakeBinary(const BinarySpec& spec);

inline constexpr std::size_t kMaxBroadcastAxes = 6;

}  // namespace lagoon
