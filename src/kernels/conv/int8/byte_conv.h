#pragma once

// Convolutions and products of quantised activations and weights: bytes in, exact sums in 32 bits,
// bytes or floats out.

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/conv/int8/byte_unit.h"
#include "kernels/image_window.h"
#include "kernels/kernel.h"

namespace lagoon {

/// y = limit((sum of (x - x_zero) * w + bias) * scale), and for bytes rounded, with halves to even,
/// plus y_zero. Padding counts as x_zero. A product of matrices is a window of one tap.
struct ByteConvSpec {
  ImageWindow window = {};
  std::uint32_t in_channels = 1, out_channels = 1;
  /// ONNX's: each output channel reads the input channels of its group. More than one must divide
  /// the channels, and leave a part (byte_conv_args.h) with a multiple of kByteQuad input channels.
  std::uint32_t groups = 1;
  std::uint8_t x_zero = 0, y_zero = 0;
  bool floats = false;  // y is fp32
  float grid = 0;       // y is the bytes without their zero point, limited, times this; 0: is not
  bool limits = false;  // y before rounding and y_zero lies in [low, high]
  float low = 0, high = 0;
  /// y = the bytes of the sums + a residual, as MakeByteAdd() adds; y_zero, low and high are those
  /// of the bytes before.
  bool residual = false;
};

/// The parameters of every output channel. `weights`: [out_channels][in_channels / groups]
/// [kernel_h][kernel_w]; `bias` is in units of the sums.
struct ByteConvWeights {
  std::span<const std::int8_t> weights;
  std::span<const std::int32_t> bias;
  std::span<const float> scale;
};

/// The most products of one sum, and the largest bias: no sum then exceeds 31 bits.
inline constexpr std::size_t kMaxByteDepth = 1 << 15;
inline constexpr std::int64_t kMaxByteBias = (std::int64_t{1} << 30) - (std::int64_t{1} << 22);

/// Inputs: x [batch,height,width,in_channels] (UINT8), packed weights, and with `residual` the
/// residual (UINT8, as y) and one ByteAddScales. Output: y (UINT8 or fp32).
/// kInvalidArgument names the field that is zero or too large.
/// Computes on the first of `units` that suits the shape.
Result<Kernel> MakeByteConv(const ByteConvSpec& spec,
                            std::span<const ByteUnit* const> units = ByteUnits());

/// How weights are packed: equal weights, of equal channels, groups and kernels, alike if this is
/// equal, whatever the rest of the window and the units are.
struct ByteConvPacking {
  std::size_t bytes = 0;
  std::size_t taps = 1;  // stretches of the depth, each with zeros to the last step
};

/// For the same units as the kernel.
ByteConvPacking ByteConvPackingOf(const ByteConvSpec& spec,
                                  std::span<const ByteUnit* const> units = ByteUnits());
void PackByteConv(const ByteConvSpec& spec, const ByteConvWeights& from, std::byte* packed,
                  std::span<const ByteUnit* const> units = ByteUnits());

}  // namespace lagoon
