#pragma once

// Reductions and scans along one axis for all element types; MakeReduce covers fp32 with vectors.

#include <cstdint>
#include <vector>

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

/// Input x [outer, axis, inner], output y [outer, inner] of the same type. fp16 and bf16 are
/// accumulated in fp32, integers wrap around, and a mean of integers is truncated. kMax and kMin of
/// a NaN are NaN. kUnimplemented if the op is not defined on the type.
Result<Kernel> MakeFold(const AxisSpec& spec, FoldOp op);

/// Input x; output y [outer, inner] of kInt64: the index of the greatest (or least) element. Of
/// equal elements the first one, or the last one. A NaN counts as greatest, and as least.
struct ArgSpec {
  AxisSpec axis = {};
  bool least = false, last = false;
  /// Above 1: so many lines of `axis` follow each other in a longer line, and MakeArgAmong() then
  /// chooses among their results.
  std::size_t pieces = 1;
};
Result<Kernel> MakeArg(const ArgSpec& spec);
/// Inputs: x [outer, axis, inner] and the output of MakeArg() for `pieces` equal pieces of each
/// line, [outer, pieces, inner]. Output: as that of MakeArg() for the whole lines.
Result<Kernel> MakeArgAmong(const ArgSpec& spec);

/// Running sums, or products. Input x and output y, both [outer, axis, inner]. A long axis is cut
/// into pieces, and each piece needs the sum of all elements before it. Either every block computes
/// that sum itself, which takes a time that grows with the square of the axis, or the sums of all
/// pieces are a second input, the output of MakeScanSums(). The two are the same to the last bit
/// for integers.
struct ScanSpec {
  AxisSpec axis = {};
  bool exclusive = false, reverse = false;
  bool sums_given = false;
  bool product = false;  // in all that follows "sum" then means product
};
Result<Kernel> MakeScan(const ScanSpec& spec);
/// Number of pieces of the axis.
std::size_t ScanPieces(const ScanSpec& spec);
/// Input x; output: ScanSumsBytes() bytes for MakeScan() of the same spec.
Result<Kernel> MakeScanSums(const ScanSpec& spec);
std::size_t ScanSumsBytes(const ScanSpec& spec);

/// Input x; outputs: values [outer, k, inner] of x's type and their indices (kInt64), sorted. Equal
/// values are in the order of their indices.
struct TopKSpec {
  AxisSpec axis = {};
  std::size_t k = 1;
  bool largest = true;
  /// k is the most. The actual k is a second input, one INT64, and is brought into [0, k]. There is
  /// a third output, sizes (INT64): the dims of the results, `dims` with the actual k as axis
  /// `dims_axis`. The results lie at the start of their memory.
  bool computed_k = false;
  std::vector<std::int64_t> dims = {};
  std::size_t dims_axis = 0;
};
Result<Kernel> MakeTopK(const TopKSpec& spec);

}  // namespace lagoon
