#pragma once

// Evaluators that the op table refers to: they compute the contents of constant nodes. Plain loops,
// because they run once, when a model is loaded, on shapes and weights.

#include "base/status.h"
#include "graph/ops/op_context.h"

namespace lagoon {

// evaluate_move.cc: move elements of any type unchanged.
Result<ConstantBytes> EvaluateAlias(const OpContext& context, std::size_t output);  // same bytes
Result<ConstantBytes> EvaluateTranspose(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateSlice(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateSplit(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateExpand(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateConcat(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateGather(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateWhere(const OpContext& context, std::size_t output);

// evaluate_make.cc: compute from shapes and attributes.
Result<ConstantBytes> EvaluateShape(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateSize(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateConstant(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateConstantOfShape(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateRange(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateCast(const OpContext& context, std::size_t output);

// evaluate_random.cc: numbers that depend on the node alone.
Result<ConstantBytes> EvaluateRandom(const OpContext& context, std::size_t output);

// evaluate_arithmetic.cc: fp32, fp64, int32 and int64; integer overflow wraps around.
Result<ConstantBytes> EvaluateUnary(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateBinary(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateReduce(const OpContext& context, std::size_t output);

// evaluate_quantize.cc: 8-, 16- and 32-bit integers, FP16 (for 8-bit floats) and weights in packed
// blocks.
Result<ConstantBytes> EvaluateDequantize(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateQuantize(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateDecodeBlocks(const OpContext& context, std::size_t output);

// evaluate_select.cc
Result<ConstantBytes> EvaluateNonZero(const OpContext& context, std::size_t output);
/// The number of elements that are not zero.
std::int64_t CountNonZero(const Constant& constant);

// evaluate_logic.cc: all types but 16-bit floats, at most kMaxEvaluatedElements (elements.h).
Result<ConstantBytes> EvaluateCompare(const OpContext& context,
                                      std::size_t output);  // And, Less ..
Result<ConstantBytes> EvaluateNot(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateMod(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluatePow(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateClip(const OpContext& context, std::size_t output);

// evaluate_lines.cc: as above.
Result<ConstantBytes> EvaluateCumSum(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateArg(const OpContext& context, std::size_t output);  // ArgMax, ArgMin
Result<ConstantBytes> EvaluateTopK(const OpContext& context, std::size_t output);

// evaluate_index.cc: as above.
Result<ConstantBytes> EvaluateTile(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateGatherElements(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateGatherND(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateScatterElements(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateScatterND(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateTrilu(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateOneHot(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateEyeLike(const OpContext& context, std::size_t output);
Result<ConstantBytes> EvaluateCompress(const OpContext& context, std::size_t output);

/// Copies elements of `element_bytes` each in row-major order of `dims`: the element at index i is
/// read at `from` + (offset + sum(i[d] * strides[d])) elements. Strides may be 0 or negative.
struct StridedView {
  const std::byte* from = nullptr;
  std::size_t element_bytes = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;  // as many as dims
};
void CopyStrided(const StridedView& view, const Dims& dims, std::byte* to);

/// Row-major strides of `dims`, in elements.
std::vector<std::int64_t> RowMajorStrides(const Dims& dims);

/// The bytes of input `i` broadcast to `dims`; input `i`'s own buffer if broadcasting changes
/// nothing.
ConstantBytes BroadcastBytes(const OpContext& context, std::size_t i, const Dims& dims);

}  // namespace lagoon
