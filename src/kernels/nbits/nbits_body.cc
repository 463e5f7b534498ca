#include <algorithm>
#include <cstring>

#include "kernels/nbits/nbits_args.h"

namespace lagoon {
namespace {

/// The rows of x that group `group` has.
std::size_t RowsIn(std::size_t rows, std::size_t group) {
  return std::min(kNbitsGroup, rows - group * kNbitsGroup);
}

/// The sums of a tile of results, [row][panel][column].
struct NbitsResult {
  Range groups, panels;
  float* sums;

  std::size_t pitch() const { return panels.size() * kNbitsPanel; }
};

/// The sums of one panel and one group. False if the block left.
bool MultiplyGroup(const NbitsArgs& args, std::size_t panel, std::size_t group, float* sums,
                   BlockContext& ctx) {
  NbitsTile tile{};
  tile.block = args.block;
  tile.rows = NbitsGroupRows(RowsIn(args.rows, group));
  tile.sums = sums;
  const std::byte* const x = args.x + group * args.x_form.GroupBytes(kNbitsGroup);
  const std::byte* const weights = args.weights + panel * args.x_form.blocks * args.block.bytes();
  const std::size_t blocks = args.x_form.blocks;
  for (std::size_t b = 0; b < blocks; b += args.chunk_blocks) {
    if (ctx.ShouldLeave()) return false;
    tile.resume = b > 0;
    tile.blocks = std::min(args.chunk_blocks, blocks - b);
    tile.weights = weights + b * args.block.bytes();
    const std::size_t first = b * args.block.depth * tile.rows;
    if (args.x_form.bytes) {
      tile.x_bytes = reinterpret_cast<const std::int8_t*>(x) + first;
      tile.x_scale =
          reinterpret_cast<const float*>(x + args.x_form.scales_at(tile.rows)) + b * tile.rows;
      tile.x_sum =
          reinterpret_cast<const std::int32_t*>(x + args.x_form.sums_at(tile.rows)) + b * tile.rows;
      args.unit->multiply_bytes(tile);
    } else {
      tile.x = reinterpret_cast<const float*>(x) + first;
      args.unit->multiply_floats(tile);
    }
  }
  return true;
}

void WriteResult(const NbitsArgs& args, const NbitsResult& result) {
  const std::size_t first = result.panels.begin * kNbitsPanel;
  const std::size_t columns = std::min(result.pitch(), args.columns - first);
  const std::size_t row_end = std::min(args.rows, result.groups.end * kNbitsGroup);
  const float* from = result.sums;
  for (std::size_t row = result.groups.begin * kNbitsGroup; row < row_end; ++row) {
    float* const y = args.y + row * args.columns + first;
    if (args.bias == nullptr) {
      std::memcpy(y, from, columns * sizeof(float));
    } else {
      for (std::size_t j = 0; j < columns; ++j) y[j] = from[j] + args.bias[first + j];
    }
    from += result.pitch();
  }
}

/// Some blocks of a row as bytes, with what the last block lacks as zeros. `row`: where their
/// results go.
void RoundRow(const NbitsXArgs& args, const float* x, const Range& blocks, NbitsRow row,
              float* padded) {
  const std::size_t block = args.form.block, whole = args.depth / block;
  row.x = x + blocks.begin * block;
  row.block = block;
  row.blocks = std::min(blocks.end, whole) - blocks.begin;
  args.unit->round(row);
  if (blocks.end <= whole) return;
  std::fill(std::copy(x + whole * block, x + args.depth, padded), padded + block, 0.0F);
  args.unit->round({padded, 1, block, row.bytes + row.blocks * block, row.scale + row.blocks,
                    row.sum + row.blocks});
}

/// Some blocks of row `r` of a group of `rows`, of which x has this one.
void PlaceBytes(const NbitsXArgs& args, const float* x, const Range& blocks, std::size_t r,
                std::size_t rows, std::byte* to, std::byte* scratch) {
  const NbitsX& form = args.form;
  auto* const padded = reinterpret_cast<float*>(scratch + form.GroupBytes(1));
  auto* const scales = reinterpret_cast<float*>(to + form.scales_at(rows));
  auto* const sums = reinterpret_cast<std::int32_t*>(to + form.sums_at(rows));
  if (rows == 1) {
    auto* const bytes = reinterpret_cast<std::int8_t*>(to) + blocks.begin * form.block;
    return RoundRow(args, x, blocks, {x, 0, 0, bytes, scales + blocks.begin, sums + blocks.begin},
                    padded);
  }
  auto* const scale = reinterpret_cast<float*>(scratch + form.scales_at(1));
  auto* const sum = reinterpret_cast<std::int32_t*>(scratch + form.sums_at(1));
  RoundRow(args, x, blocks, {x, 0, 0, reinterpret_cast<std::int8_t*>(scratch), scale, sum}, padded);
  const std::size_t first = blocks.begin * form.block / 4;
  for (std::size_t quad = 0; quad < blocks.size() * form.block / 4; ++quad) {
    std::memcpy(to + ((first + quad) * rows + r) * 4, scratch + quad * 4, 4);
  }
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    scales[(blocks.begin + b) * rows + r] = scale[b];
    sums[(blocks.begin + b) * rows + r] = sum[b];
  }
}

/// The same for floats.
void PlaceFloats(const NbitsXArgs& args, const float* x, const Range& blocks, std::size_t r,
                 std::size_t rows, float* to) {
  const std::size_t padded = blocks.end * args.form.block, end = std::min(padded, args.depth);
  std::size_t p = blocks.begin * args.form.block;
  for (; p < end; ++p) to[p * rows + r] = x[p];
  for (; p < padded; ++p) to[p * rows + r] = 0;
}

/// Rows of a group that are not there.
void ClearRows(const NbitsX& form, const Range& blocks, const Range& absent, std::size_t rows,
               std::byte* to) {
  const std::size_t words = form.bytes ? form.block / 4 : form.block;  // of a block and row
  const auto clear = [&](std::byte* from, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      std::memset(from + (i * rows + absent.begin) * 4, 0, absent.size() * 4);
    }
  };
  clear(to, blocks.begin * words, blocks.end * words);
  if (!form.bytes) return;
  clear(to + form.scales_at(rows), blocks.begin, blocks.end);
  clear(to + form.sums_at(rows), blocks.begin, blocks.end);
}

}  // namespace

bool NbitsBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const NbitsArgs*>(raw);
  const NbitsResult result{Share(args.groups, args.group_tiles, block / args.panel_tiles),
                           Share(args.panels, args.panel_tiles, block % args.panel_tiles),
                           reinterpret_cast<float*>(ctx.scratch().data())};
  float* const group_sums = result.sums + result.groups.size() * kNbitsGroup * result.pitch();
  for (std::size_t panel = result.panels.begin; panel < result.panels.end; ++panel) {
    for (std::size_t group = result.groups.begin; group < result.groups.end; ++group) {
      if (!MultiplyGroup(args, panel, group, group_sums, ctx)) return false;
      const std::size_t first = (group - result.groups.begin) * kNbitsGroup;
      for (std::size_t row = 0; row < RowsIn(args.rows, group); ++row) {
        std::memcpy(result.sums + (first + row) * result.pitch() +
                        (panel - result.panels.begin) * kNbitsPanel,
                    group_sums + row * kNbitsPanel, kNbitsPanel * sizeof(float));
      }
    }
  }
  if (ctx.ShouldLeave()) return false;
  WriteResult(args, result);
  return true;
}

bool NbitsXBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const NbitsXArgs*>(raw);
  const Range tasks = Share(args.groups * args.parts, args.blocks, block);
  for (std::size_t task = tasks.begin; task < tasks.end; ++task) {
    const std::size_t group = task / args.parts, there = RowsIn(args.rows, group);
    const Range blocks = Share(args.form.blocks, args.parts, task % args.parts);
    const std::size_t rows = NbitsGroupRows(there);
    std::byte* const to = args.y + group * args.form.GroupBytes(kNbitsGroup);
    const float* x = args.x + group * kNbitsGroup * args.depth;
    for (std::size_t r = 0; r < there; ++r, x += args.depth) {
      if (args.form.bytes) {
        PlaceBytes(args, x, blocks, r, rows, to, ctx.scratch().data());
      } else {
        PlaceFloats(args, x, blocks, r, rows, reinterpret_cast<float*>(to));
      }
    }
    if (there < rows) ClearRows(args.form, blocks, {there, rows}, rows, to);
  }
  return true;
}

}  // namespace lagoon
