#pragma once

// 2-D convolution (groups == 1) and GEMM as one implicit-GEMM body with packed weights.

#include "kernels/image_window.h"
#include "kernels/kernel.h"
#include "plan/precision.h"

namespace lagoon {

/// GEMM [M,K]x[K,N] is a 1x1 convolution with batch 1, height M, width 1, in_channels K,
/// out_channels N.
struct Conv2dSpec {
  ImageWindow window = {};
  std::uint32_t in_channels = 1, out_channels = 1;
  bool bias = false;
  /// Whether the weights are packed in the general form, for any number of output pixels. If not, a
  /// spec with a single output pixel uses a faster form, which other specs cannot read.
  bool any_rows = false;
  /// Whether the kernel gets all its versions (Kernel::versions), to be measured: most of the time
  /// that making it takes. If not, it is the best one by estimate.
  bool all_versions = true;
  Epilogue epilogue;
  /// kBf16: x and the weights are rounded to bf16 (with a single output pixel only the weights);
  /// sums are fp32. In memory x, y, bias and residual are fp32.
  Precision precision = Precision::kFp32;
};

/// Inputs: x [batch,height,width,in_channels], packed weights, bias [out_channels] if `bias`,
/// residual [batch,out_height,out_width,out_channels] if `epilogue.residual`. Output: y, of the
/// residual's shape. kInvalidArgument names the field if a dimension is zero or the sizes overflow;
/// kUnimplemented says what this CPU lacks for the precision.
Result<Kernel> MakeConv2d(const Conv2dSpec& spec);

/// Packed weights: their size, and the function that makes them. `weights`:
/// [out_channels][in_channels][kernel_h][kernel_w] (ONNX's OIHW).
std::size_t PackedConv2dWeightBytes(const Conv2dSpec& spec);
void PackConv2dWeights(const Conv2dSpec& spec, const float* weights, void* packed);
/// The same from weights [in_channels][out_channels]. Only where PacksFlipped().
void PackFlippedConv2dWeights(const Conv2dSpec& spec, const float* weights, void* packed);
bool PacksFlipped(const Conv2dSpec& spec);

}  // namespace lagoon
