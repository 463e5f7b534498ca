#include "kernels/nbits/nbits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/checks.h"
#include "kernels/nbits/nbits_args.h"

namespace lagoon {
namespace {

constexpr char kNbits[] = "nbits", kNbitsX[] = "nbits_x";

/// Planned times. A block writes only at its end, so it may take longer than a stretch between two
/// guard checks.
constexpr double kNbitsBlockNs = 20'000, kNbitsCheckNs = 7'000;
/// Bytes that a block writes at its end, in less than 11 us.
constexpr std::size_t kMaxNbitsResult = 96 << 10;
/// To read weights from memory; twice as fast from a cache.
constexpr double kStreamNs = 0.035;
constexpr double kRoundNs = 0.3, kPlaceNs = 0.5;  // an element of x
/// Groups that share the weights of a panel in the cache.
constexpr std::size_t kTileGroups = 4;

Status CheckSpec(const NbitsSpec& spec) {
  for (const auto& [tensor, rows, columns] : {std::tuple{"x", spec.rows, spec.depth},
                                              {"the weights", spec.depth, spec.columns},
                                              {"y", spec.rows, spec.columns}}) {
    LAGOON_RETURN_IF_ERROR(CheckElements(kNbits, tensor, {{"rows", rows}, {"columns", columns}}));
  }
  const bool bits = spec.bits == 2 || spec.bits == 4 || spec.bits == 8;
  if (!bits || spec.block < 16 || spec.block > kNbitsMaxBlock || spec.block % 16 != 0) {
    return Invalid(kNbits, fmt::format("{} bits in blocks of {}; it takes 2, 4 or 8 in blocks of "
                                       "16 to {}, a multiple of 16",
                                       spec.bits, spec.block, kNbitsMaxBlock));
  }
  return {};
}

NbitsBlock BlockOf(const NbitsSpec& spec) {
  return {static_cast<std::uint32_t>(spec.block), static_cast<std::uint32_t>(spec.bits),
          spec.half_scales, spec.zeros};
}

NbitsX FormOf(const NbitsSpec& spec) {
  return {CeilDivide(spec.depth, spec.block), spec.block, spec.bytes};
}

/// Time of one block of weights of one panel with a group of rows.
double GroupNs(const NbitsArgs& args, std::size_t rows) {
  const NbitsUnit& unit = *args.unit;
  const double fields = static_cast<double>(args.block.depth) / 4;
  const double of_row = args.x_form.bytes ? unit.bytes_ns : 4 * unit.floats_ns;
  const double levels = args.x_form.bytes ? unit.field_ns : 2 * unit.field_ns;
  const auto r = static_cast<double>(rows);
  return std::max(fields * (levels + r * of_row) + r * unit.scale_ns,
                  kStreamNs * static_cast<double>(args.block.bytes()));
}

void Cut(NbitsArgs& args) {
  const std::size_t rows = NbitsGroupRows(std::min(args.rows, kNbitsGroup));
  const double block_ns = GroupNs(args, rows);
  args.chunk_blocks = static_cast<std::size_t>(std::max(1.0, kNbitsCheckNs / block_ns));
  const double panel_ns = block_ns * static_cast<double>(args.x_form.blocks);
  const double total =
      panel_ns * static_cast<double>(args.groups) * static_cast<double>(args.panels);
  std::size_t blocks = 1;
  if (total > kSingleBlockNs) {
    blocks = static_cast<std::size_t>(std::ceil(total / kNbitsBlockNs));
    if (blocks < 16) blocks += blocks % 2;
  }
  const auto groups = static_cast<std::size_t>(std::max(1.0, kNbitsBlockNs / panel_ns));
  args.group_tiles = CeilDivide(args.groups, std::min(groups, kTileGroups));
  const std::size_t most = kMaxNbitsResult / (kTileGroups * kNbitsGroup * kNbitsPanel * 4);
  args.panel_tiles = std::clamp(CeilDivide(blocks, args.group_tiles),
                                args.rows == 1 ? 1 : CeilDivide(args.panels, most), args.panels);
}

NbitsArgs ArgsOf(const NbitsSpec& spec, const NbitsUnit& unit) {
  NbitsArgs args{};
  args.unit = &unit;
  args.block = BlockOf(spec);
  args.x_form = FormOf(spec);
  args.rows = spec.rows;
  args.columns = spec.columns;
  args.groups = CeilDivide(spec.rows, kNbitsGroup);
  args.panels = CeilDivide(spec.columns, kNbitsPanel);
  Cut(args);
  return args;
}

std::size_t ScratchBytes(const NbitsArgs& args) {
  const std::size_t rows = CeilDivide(args.groups, args.group_tiles) * kNbitsGroup;
  const std::size_t columns = CeilDivide(args.panels, args.panel_tiles) * kNbitsPanel;
  return (rows * columns + kNbitsGroup * kNbitsPanel) * sizeof(float);
}

}  // namespace

bool NeedsNbitsX(const NbitsSpec& spec) {
  return spec.bytes || spec.rows > 1 || spec.depth % spec.block != 0;
}

std::size_t NbitsXBytes(const NbitsSpec& spec) {
  const NbitsX form = FormOf(spec);
  const std::size_t whole = spec.rows / kNbitsGroup, rest = spec.rows % kNbitsGroup;
  return whole * form.GroupBytes(kNbitsGroup) +
         (rest == 0 ? 0 : form.GroupBytes(NbitsGroupRows(rest)));
}

Result<Kernel> MakeNbitsX(const NbitsSpec& spec) { return MakeNbitsX(spec, *NbitsUnits().front()); }

Result<Kernel> MakeNbits(const NbitsSpec& spec) { return MakeNbits(spec, *NbitsUnits().front()); }

Result<Kernel> MakeNbitsX(const NbitsSpec& spec, const NbitsUnit& unit) {
  LAGOON_RETURN_IF_ERROR(CheckSpec(spec));
  NbitsXArgs args{};
  args.unit = &unit;
  args.form = FormOf(spec);
  args.rows = spec.rows;
  args.depth = spec.depth;
  args.groups = CeilDivide(spec.rows, kNbitsGroup);
  const double elements = static_cast<double>(spec.rows) * static_cast<double>(spec.depth);
  const double ns =
      elements * ((spec.bytes ? kRoundNs : 0) + (spec.rows > 1 || !spec.bytes ? kPlaceNs : 0));
  const double parts = ns / static_cast<double>(args.groups) / kBlockNs;
  args.parts = std::clamp(static_cast<std::size_t>(parts) + 1, std::size_t{1}, args.form.blocks);
  args.blocks = BlocksFor(ns, args.groups * args.parts);
  Kernel kernel;
  kernel.name = kNbitsX;
  kernel.body = &NbitsXBody;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.scratch_bytes = NbitsXScratch(args.form);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(NbitsXArgs, x)};
  kernel.outputs = {offsetof(NbitsXArgs, y)};
  kernel.bytes_moved = elements * sizeof(float) + static_cast<double>(NbitsXBytes(spec));
  return kernel;
}

Result<Kernel> MakeNbits(const NbitsSpec& spec, const NbitsUnit& unit) {
  LAGOON_RETURN_IF_ERROR(CheckSpec(spec));
  const NbitsArgs args = ArgsOf(spec, unit);
  Kernel kernel;
  kernel.name = kNbits;
  kernel.body = &NbitsBody;
  kernel.blocks = static_cast<std::uint32_t>(args.group_tiles * args.panel_tiles);
  kernel.scratch_bytes = ScratchBytes(args);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(NbitsArgs, x), offsetof(NbitsArgs, weights)};
  if (spec.bias) kernel.inputs.push_back(offsetof(NbitsArgs, bias));
  kernel.outputs = {offsetof(NbitsArgs, y)};
  const auto rows = static_cast<double>(spec.rows), depth = static_cast<double>(spec.depth),
             columns = static_cast<double>(spec.columns);
  kernel.flops = 2 * rows * depth * columns;
  kernel.bytes_moved = static_cast<double>(PackedNbitsBytes(spec)) +
                       rows * (depth * (spec.bytes ? 1 : 4) + 4 * columns);
  return kernel;
}

std::size_t PackedNbitsBytes(const NbitsSpec& spec) {
  return CeilDivide(spec.columns, kNbitsPanel) * CeilDivide(spec.depth, spec.block) *
         BlockOf(spec).bytes();
}

}  // namespace lagoon
