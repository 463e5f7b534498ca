#pragma once

// Reductions and scans of one axis, of any element type: those that MakeReduce (fp32, vectors) does
// not cover.

#include <cstdint>

#include "kernels/kernel.h"
#include "plan/tensor.h"

namespace lagoon {

enum class FoldOp : std::uint8_t {
  kSum,
  kProd,
  kMax,
  kMin,
  kMean,
  kL1,
  kL2,
  kSumSquare,
  kLogSumExp,
};

/// The middle axis of [outer, axis, inner].
struct AxisSpec {
  std::size_t outer = 1, axis = 1, inner = 1;
  DataType type = DataType::kFloat32;
};

/// Input x [outer, axis, inner], output y [outer, inner] of the same type. Fp16 and bf16 are
/// accumulated in fp32, integers wrap around, a mean of integers is cut. NaN wins in kMax and kMin.
/// kUnimplemented when the op is not defined on the type.
Result<Kernel> MakeFold(const AxisSpec& spec, FoldOp op);

/// Input x, output y [outer, inner] of kInt64: where the greatest (least) element lies; of equals
/// the first, or the last.
struct ArgSpec {
  AxisSpec axis = {};
  bool least = false, last = false;
};
Result<Kernel> MakeArg(const ArgSpec& spec);

/// Input x, output y, both [outer, axis, inner]: running sums.
struct ScanSpec {
  AxisSpec axis = {};
  bool exclusive = false, reverse = false;
};
Result<Kernel> MakeScan(const ScanSpec& spec);

/// Input x; outputs values [outer, k, inner] of its type and their indices (kInt64), sorted; equals
/// in the order of their indices.
struct TopKSpec {
  AxisSpec axis = {};
  std::size_t k = 1;
  bool largest = true;
};
Result<Kernel> MakeTopK(const TopKSpec& spec);

}  // namespace lagoon
