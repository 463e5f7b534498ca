#pragma once

// The ops beside conv2d: factories, one per body. All fp32, dense row-major; images NHWC.
// Every factory checks its spec and names the offending field (kInvalidArgument).
// Blocks are sized so that the longest stretch between two guard checks, commit included, is under 20 us.

#include <span>
#include <vector>

#include "kernels/kernel.h"

namespace lagoon {

/// Depthwise convolution (groups == in_channels == out_channels). Inputs: x NHWC, packed weights, bias [channels] if
/// `bias`. Output y NHWC. No residual.
struct DepthwiseSpec {
  std::uint32_t batch = 1, height = 1, width = 1, channels = 1, out_height = 1, out_width = 1;
  std::uint32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  std::uint32_t dilation_h = 1, dilation_w = 1, pad_top = 0, pad_left = 0;
  bool bias = false;
  Epilogue epilogue;
};
Result<Kernel> MakeDepthwise(const DepthwiseSpec& spec);
std::size_t PackedDepthwiseWeightBytes(const DepthwiseSpec& spec);
/// `weights`: [channels][1][kernel_h][kernel_w].
void PackDepthwiseWeights(const DepthwiseSpec& spec, const float* weights, void* packed);

/// Max and average pooling. Input x NHWC, output y NHWC.
struct PoolSpec {
  enum class Kind : std::uint8_t { kMax, kAverage, kAverageCountPadding } kind = Kind::kMax;
  std::uint32_t batch = 1, height = 1, width = 1, channels = 1, out_height = 1, out_width = 1;
  std::uint32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_top = 0, pad_left = 0;
  std::uint32_t pad_bottom = 0, pad_right = 0;  // kAverageCountPadding counts these too, as ONNX says
  std::uint32_t dilation_h = 1, dilation_w = 1;
};
Result<Kernel> MakePool(const PoolSpec& spec);

/// Unary elementwise over `count` elements. Input x, output y.
enum class UnaryOp : std::uint8_t { kRelu, kClip, kSigmoid, kTanh, kExp, kLog, kSqrt, kAbs, kNeg, kLeakyRelu, kHardSwish, kHardSigmoid, kCopy };
struct UnarySpec {
  UnaryOp op = UnaryOp::kRelu;
  std::size_t count = 0;
  float alpha = 0;  // kClip: low; kLeakyRelu: slope; kHardSigmoid: slope
  float beta = 0;   // kClip: high; kHardSigmoid: offset
};
Result<Kernel> MakeUnary(const UnarySpec& spec);

/// Binary elementwise with numpy broadcasting. Inputs a, b of shapes that broadcast to `out`; output y of shape `out`.
enum class BinaryOp : std::uint8_t { kAdd, kSub, kMul, kDiv, kPow, kMin, kMax };
struct BinarySpec {
  BinaryOp op = BinaryOp::kAdd;
  std::vector<std::int64_t> a, b, out;
  Epilogue epilogue;  // activation only
};
Result<Kernel> MakeBinary(const BinarySpec& spec);

/// Softmax or log-softmax over the middle axis of [outer, axis, inner]. Input x, output y.
struct SoftmaxSpec {
  std::size_t outer = 1, axis = 1, inner = 1;
  bool log = false;
};
Result<Kernel> MakeSoftmax(const SoftmaxSpec& spec);

/// Reduction of the middle axis of [outer, axis, inner] to [outer, inner]; global pooling of NHWC is
/// outer = batch, axis = height*width, inner = channels. Input x, output y.
enum class ReduceOp : std::uint8_t { kSum, kMean, kMax, kMin };
struct ReduceSpec {
  ReduceOp op = ReduceOp::kMean;
  std::size_t outer = 1, axis = 1, inner = 1;
};
Result<Kernel> MakeReduce(const ReduceSpec& spec);

/// Permutes axes: y.dims[i] == x.dims[permutation[i]]. Rank at most 6. Input x, output y.
Result<Kernel> MakeTranspose(std::span<const std::int64_t> dims,
                             std::span<const std::int64_t> permutation);

/// Joins inputs [outer, axis_i, inner] into [outer, sum(axis_i), inner]. At most 16 inputs. Inputs x_0..., output y.
Result<Kernel> MakeConcat(std::size_t outer, std::span<const std::size_t> axes, std::size_t inner);

/// Constant padding of x (rank at most 6): `before` and `after` elements per axis, all >= 0. Input x, output y.
Result<Kernel> MakePad(std::span<const std::int64_t> dims, std::span<const std::int64_t> before,
                       std::span<const std::int64_t> after, float value);

/// Takes x[start + i*step] along every axis (steps >= 1). Rank at most 6. Input x, output y.
Result<Kernel> MakeSlice(std::span<const std::int64_t> dims, std::span<const std::int64_t> starts,
                         std::span<const std::int64_t> out_dims, std::span<const std::int64_t> steps);

}  // namespace lagoon
