#pragma once

// The rows of an image that a block of byte_conv reads, padded and one behind the other, each part
// by itself. There the windows of neighbours in a row of y lie at even distance, so that a unit of
// tiles reads them without a copy of each. It reads whole steps of a tap: what lies behind that
// counts for nothing, since its weights are 0. A group is two halves, each a piece of a row of y.

#include <cstddef>
#include <cstdint>

#include "kernels/conv/int8/byte_conv_args.h"

namespace lagoon {

/// Sets how `args` computes with strips, if that is faster than with copies of windows: everything
/// but the place in scratch memory. Else changes nothing.
void UseStrips(ByteConvArgs& args);

/// The most bytes of the strips of a block. Call after the cut into tiles.
std::size_t StripBytes(const ByteConvArgs& args);

/// The strips of a block, `memory`: StripBytes().
class ByteStrips {
 public:
  ByteStrips(const ByteConvArgs& args, Range groups, Range parts, std::uint8_t* memory);

  /// Copies the rows, if `args` computes with strips. False if the block left.
  bool Fill(BlockContext& ctx) const;

  /// Halves of all images.
  static std::size_t Halves(const ByteConvArgs& args);
  /// The first output pixel of a half; of all pixels for the half behind the last.
  static std::size_t PixelOf(const ByteConvArgs& args, std::size_t half);
  /// Where the first window of a half begins.
  const std::uint8_t* At(std::size_t half, std::size_t part) const;

 private:
  /// The first row of the strips of the image of an output row, counted through all images.
  std::size_t FirstRow(std::size_t image) const;
  void FillRow(std::size_t image, std::ptrdiff_t y, std::uint8_t* to) const;

  const ByteConvArgs& args_;
  const Range parts_;
  const std::size_t first_, last_;  // rows of y, counted through all images
  const std::size_t part_bytes_;    // of the strips of a part
  std::uint8_t* const memory_;
};

}  // namespace lagoon
