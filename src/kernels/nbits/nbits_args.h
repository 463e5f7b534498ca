#pragma once

// Shared by the bodies of nbits and their factories.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "device/block.h"
#include "kernels/nbits/nbits.h"
#include "kernels/nbits/nbits_unit.h"
#include "kernels/tiling.h"

namespace lagoon {

/// Where x lies in the form of its own: groups of up to kNbitsGroup rows one after the other.
struct NbitsX {
  std::size_t blocks, block;
  bool bytes;

  /// A group of `rows` rows: floats; or bytes, then scales, then sums.
  constexpr std::size_t scales_at(std::size_t rows) const { return blocks * block * rows; }
  constexpr std::size_t sums_at(std::size_t rows) const {
    return scales_at(rows) + blocks * rows * sizeof(float);
  }
  constexpr std::size_t GroupBytes(std::size_t rows) const {
    return bytes ? sums_at(rows) + blocks * rows * sizeof(std::int32_t)
                 : blocks * block * rows * sizeof(float);
  }
};

/// A tile is some panels of some groups of rows.
struct NbitsArgs {
  const std::byte* x;  // as NbitsX
  const std::byte* weights;
  const float* bias;  // may be null
  float* y;
  const NbitsUnit* unit;
  NbitsBlock block;
  NbitsX x_form;
  std::size_t rows, columns;
  std::size_t groups, panels;
  std::size_t group_tiles, panel_tiles;
  std::size_t chunk_blocks;  // between two guard checks
};

struct NbitsXArgs {
  const float* x;
  std::byte* y;
  const NbitsUnit* unit;
  NbitsX form;
  std::size_t rows, depth, groups;
  std::size_t parts;  // of the depth of a group
  std::size_t blocks;
};

/// The kernels on a unit of choice.
Result<Kernel> MakeNbitsX(const NbitsSpec& spec, const NbitsUnit& unit);
Result<Kernel> MakeNbits(const NbitsSpec& spec, const NbitsUnit& unit);

/// Both take their args.
bool NbitsBody(const void* raw, std::uint32_t block, BlockContext& ctx);
bool NbitsXBody(const void* raw, std::uint32_t block, BlockContext& ctx);

/// Scratch of NbitsXBody: a row as bytes with scales and sums, then a padded block of x.
constexpr std::size_t NbitsXScratch(const NbitsX& form) {
  return form.GroupBytes(1) + kNbitsMaxBlock * sizeof(float);
}

}  // namespace lagoon
