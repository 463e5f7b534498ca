#include "kernels/conv/int8/byte_conv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "kernels/checks.h"
#include "kernels/conv/int8/byte_conv_args.h"
#include "kernels/conv/int8/byte_strips.h"
#include "kernels/window.h"

namespace lagoon {
namespace {

constexpr char kByteConv[] = "byte_conv";

/// Planned times of a block. A block writes only at its end, so it may take longer than a stretch
/// between two guard checks.
constexpr double kByteBlockNs = 30'000, kMaxByteBlockNs = 60'000;
constexpr double kCheckNs = 7'000;
/// Bytes that a block writes at its end, in less than 11 us.
constexpr std::size_t kMaxResultBytes = 96 << 10;
constexpr double kAddRowNs = 4;  // of the residual of a row of a panel
constexpr std::size_t kLargeWeights = 1 << 20;
constexpr double kPointerNs = 0.6;                    // of a tap of a pixel
constexpr double kCopyByteNs = 0.08, kCopyRowNs = 2;  // of a copied window: a byte, a kernel row
/// Fewer channels are copied: a tap of few quads has too little work.
constexpr std::uint32_t kFewestDirectChannels = 16;
/// With a larger pitch the copies of two groups would not stay in the first cache.
constexpr std::uint32_t kMostPitchOfTwo = 320;

/// How many of ONNX's groups are a part. The weights between them are 0: those products take the
/// room that would be empty in a panel of each group.
std::uint32_t GroupsOfPart(const ByteConvSpec& spec) {
  const std::size_t columns = spec.out_channels / spec.groups;
  const std::size_t depth = WindowTaps(spec.window) * (spec.in_channels / spec.groups);
  std::uint32_t most = 1;
  for (std::uint32_t i = 2; i <= spec.groups && i * columns <= kBytePanel; ++i) {
    if (spec.groups % i == 0 && i * depth <= kMaxByteDepth) most = i;
  }
  return most;
}

std::uint32_t PartsOf(const ByteConvSpec& spec) { return spec.groups / GroupsOfPart(spec); }

std::size_t DepthOf(const ByteConvSpec& spec) {
  return WindowTaps(spec.window) * (spec.in_channels / PartsOf(spec));
}

bool IsFlatWindow(const ImageWindow& w) {
  return w.kernel_h == 1 && w.kernel_w == 1 && w.stride_h == 1 && w.stride_w == 1 &&
         w.pad_top == 0 && w.pad_left == 0 && w.height == w.out_height && w.width == w.out_width;
}

Status CheckSpec(const ByteConvSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const ImageElements elements,
                          CheckImages(kByteConv, spec.window, {"in_channels", spec.in_channels},
                                      {"out_channels", spec.out_channels}));
  static_cast<void>(elements);
  const std::uint32_t groups = spec.groups;
  if (groups == 0 || spec.in_channels % groups != 0 || spec.out_channels % groups != 0 ||
      (PartsOf(spec) > 1 && spec.in_channels / PartsOf(spec) % kByteQuad != 0)) {
    return Invalid(
        kByteConv,
        fmt::format("{} groups of {} input and {} output channels: the groups must divide "
                    "both, and leave a multiple of {} input channels for a panel",
                    groups, spec.in_channels, spec.out_channels, kByteQuad));
  }
  LAGOON_RETURN_IF_ERROR(CheckElements(kByteConv, "the weights of a channel",
                                       {{"kernel_h", spec.window.kernel_h},
                                        {"kernel_w", spec.window.kernel_w},
                                        {"in_channels", spec.in_channels}}));
  LAGOON_RETURN_IF_ERROR(CheckElements(
      kByteConv, "the weights",
      {{"depth", DepthOf(spec)},
       {"out_channels",
        PartsOf(spec) * CeilDivide(spec.out_channels / PartsOf(spec), kBytePanel) * kBytePanel}}));
  if (DepthOf(spec) > kMaxByteDepth) {
    return Invalid(kByteConv, fmt::format("a sum has {} products, more than {}", DepthOf(spec),
                                          kMaxByteDepth));
  }
  if (spec.grid != 0 && !(spec.floats && spec.limits && spec.grid > 0)) {
    return Invalid(kByteConv, fmt::format("a grid of {} needs limited floats", spec.grid));
  }
  if (spec.residual && spec.floats) {
    return Invalid(kByteConv, "a residual is added to bytes, and the result is floats");
  }
  if (spec.limits && !(spec.low <= spec.high)) {
    return Invalid(kByteConv, fmt::format("the limits [{}, {}] are none", spec.low, spec.high));
  }
  return {};
}

ByteConvArgs ShapeOf(const ByteConvSpec& spec, const ByteUnit& unit) {
  ByteConvArgs a{};
  a.unit = &unit;
  a.window = spec.window;
  LayDownColumn(a.window);
  a.channels = spec.in_channels;
  a.out_channels = spec.out_channels;
  a.pixels = static_cast<std::uint32_t>(OutputPixels(spec.window));
  a.groups = static_cast<std::uint32_t>(CeilDivide(a.pixels, unit.rows));
  const std::uint32_t parts = PartsOf(spec);
  a.part_channels = a.channels / parts;
  a.part_columns = a.out_channels / parts;
  a.part_panels = static_cast<std::uint32_t>(CeilDivide(a.part_columns, kBytePanel));
  a.panels = parts * a.part_panels;
  a.flat = IsFlatWindow(a.window);
  const bool few = a.channels < kFewestDirectChannels && !a.flat && parts == 1;
  // Rows at even distance that end with a whole step lie so already.
  constexpr std::size_t kStep = kByteTileQuads * kByteQuad;
  const bool lies_evenly = a.flat && a.channels % kStep == 0;
  const bool copied = unit.even ? !lies_evenly : a.channels % kByteQuad != 0 || few;
  const std::size_t taps = WindowTaps(spec.window);
  a.taps = static_cast<std::uint32_t>(copied ? 1 : taps);
  a.quads = static_cast<std::uint32_t>(copied ? CeilDivide(DepthOf(spec), kByteQuad)
                                              : a.part_channels / kByteQuad);
  const std::size_t steps_bytes = CeilDivide(std::size_t{a.quads} * kByteQuad, kStep) * kStep;
  a.pitch = static_cast<std::uint32_t>(!copied     ? a.channels
                                       : unit.even ? steps_bytes
                                                   : a.quads * kByteQuad);
  a.copies = !copied ? 0 : a.pitch <= kMostPitchOfTwo ? 2 : 1;
  a.row_taps = a.taps;
  UseStrips(a);
  const std::uint32_t quads_at_once = unit.even ? kByteTileQuads : 1;
  const auto checked = static_cast<std::uint32_t>(kCheckNs / unit.quad_ns);
  a.chunk_quads = std::max<std::uint32_t>(1, checked / quads_at_once) * quads_at_once;
  a.floats = spec.floats;
  a.grid = spec.grid;
  if (spec.residual) a.add = FindByteAdd();
  a.limits = spec.limits;
  a.low = spec.low;
  a.high = spec.high;
  a.x_zero = spec.x_zero;
  a.y_zero = spec.y_zero;
  const PackedByteConv packed(std::size_t{a.taps} * a.quads, a.panels);
  a.bias_offset = packed.bias;
  a.scale_offset = packed.scale;
  a.wide_offset = packed.wide;
  return a;
}

/// For the first of `units` that suits the shape. Windows of parts are not copied: a unit that
/// reads rows at even distance needs strips there.
ByteConvArgs ArgsOf(const ByteConvSpec& spec, std::span<const ByteUnit* const> units) {
  const std::size_t pixels = OutputPixels(spec.window);
  const ByteConvArgs a = ShapeOf(spec, PickByteUnit(units, pixels, true));
  const bool parts = a.part_channels != a.channels;
  if (!a.unit->even || !parts || a.piece > 0) return a;
  return ShapeOf(spec, PickByteUnit(units, pixels, false));
}

/// Time of the copies, or of the pointers, for an output pixel.
double ReadNs(const ByteConvArgs& a) {
  const ImageWindow& w = a.window;
  if (a.copies > 0) return a.quads * kByteQuad * kCopyByteNs + w.kernel_h * kCopyRowNs;
  if (a.piece > 0) return std::size_t{w.stride_h} * w.stride_w * a.channels * kCopyByteNs;
  return a.taps * kPointerNs;
}

/// Time of one group in one panel, and of what all panels of a group share.
struct GroupNs {
  double panel, shared;

  explicit GroupNs(const ByteConvArgs& a)
      : panel(a.taps * a.quads * a.unit->quad_ns +
              static_cast<double>(a.unit->rows) *
                  (a.unit->row_ns + (a.add == nullptr ? 0 : kAddRowNs))),
        shared(static_cast<double>(a.unit->rows) * ReadNs(a)) {}
};

std::size_t ResultBytes(const ByteConvArgs& a) {
  const std::size_t pixels = CeilDivide(a.groups, a.group_tiles) * a.unit->rows;
  const std::size_t columns = CeilDivide(a.panels, a.panel_tiles) * kBytePanel;
  return pixels * std::min<std::size_t>(columns, a.out_channels) * (a.floats ? sizeof(float) : 1);
}

void Cut(ByteConvArgs& a) {
  const GroupNs ns(a);
  const double total = a.groups * (a.panels * ns.panel + ns.shared);
  std::size_t blocks = 1;
  if (total > kSingleBlockNs) {
    blocks = static_cast<std::size_t>(std::ceil(total / kByteBlockNs));
    if (blocks < 16) blocks += blocks % 2;
  }
  // A group's share of all panels is one block at least, so that its pointers serve many panels.
  const double group_ns = a.panels * ns.panel + ns.shared;
  std::size_t panel_tiles = static_cast<std::size_t>(std::ceil(group_ns / kMaxByteBlockNs));
  if (a.groups * panel_tiles < blocks) panel_tiles = CeilDivide(blocks, a.groups);
  // Weights that do not stay in the second cache are read by one block each, where that costs no
  // copies.
  const std::size_t weight_bytes = std::size_t{a.taps} * a.quads * a.panels * kByteQuadBytes;
  const bool in_place = a.unit->even && a.copies == 0;
  if (in_place && weight_bytes >= kLargeWeights) panel_tiles = std::max(panel_tiles, blocks);
  a.panel_tiles = static_cast<std::uint32_t>(std::min<std::size_t>(panel_tiles, a.panels));
  const std::size_t group_tiles = CeilDivide(blocks, a.panel_tiles);
  a.group_tiles = static_cast<std::uint32_t>(std::min<std::size_t>(group_tiles, a.groups));
  while (ResultBytes(a) > kMaxResultBytes && a.group_tiles < a.groups) {
    a.group_tiles = std::min(a.groups, 2 * a.group_tiles);
  }
}

std::size_t Aligned(std::size_t bytes) { return CeilDivide(bytes, 64) * 64; }

/// Places the parts of the scratch memory; returns its size.
std::size_t PlaceScratch(ByteConvArgs& a) {
  // Padding, as much as is copied at once.
  const std::size_t zeros =
      Aligned(std::size_t{a.channels} * (a.copies > 0 ? a.window.kernel_w : 1));
  a.pointers_offset = zeros;
  a.sums_offset = zeros + Aligned(a.taps * a.unit->rows * sizeof(void*));
  a.copies_offset = a.sums_offset + Aligned(a.unit->rows * kBytePanel * sizeof(std::int32_t));
  a.result_offset =
      a.copies_offset + Aligned(a.piece > 0 ? StripBytes(a) : a.copies * a.unit->rows * a.pitch);
  return a.result_offset + Aligned(ResultBytes(a));
}

/// Pieces of a constant length, which compilers turn into vectors.
constexpr std::size_t kLoopPiece = 64;

/// True if products of neighbours may need more than 16 bits. `w`: the quads of one column.
bool NeedsWideSums(std::span<const std::int8_t> w) {
  // Neighbours of different signs are never too large together.
  constexpr int kMostOfPair = 32767 / 255;
  const auto is_wide = [](const std::int8_t* pair) {
    return pair[0] + pair[1] > kMostOfPair || pair[0] + pair[1] < -kMostOfPair;
  };
  for (; w.size() >= kLoopPiece; w = w.subspan(kLoopPiece)) {
    int wide = 0;
    for (std::size_t i = 0; i < kLoopPiece; i += 2) wide += is_wide(w.data() + i) ? 1 : 0;
    if (wide > 0) return true;
  }
  for (std::size_t i = 0; i < w.size(); i += 2) {
    if (is_wide(w.data() + i)) return true;
  }
  return false;
}

std::int64_t SumOf(std::span<const std::int8_t> weights) {
  std::int64_t sum = 0;
  for (; weights.size() >= kLoopPiece; weights = weights.subspan(kLoopPiece)) {
    int piece = 0;
    for (std::size_t i = 0; i < kLoopPiece; ++i) piece += weights[i];
    sum += piece;
  }
  return std::accumulate(weights.begin(), weights.end(), sum);
}

/// The weights of an output channel in the order of the depth. `group`: of its part.
void ReadColumn(const ByteConvSpec& spec, const ByteConvArgs& args, const std::int8_t* filter,
                std::size_t group, std::int8_t* column) {
  const std::size_t taps = WindowTaps(spec.window);
  const std::size_t channels = spec.in_channels / spec.groups;
  column += group * channels;
  if (taps == 1) {
    std::copy_n(filter, channels, column);
    return;
  }
  // What the args call a tap is some of the window's, and in strips zeros to the last step.
  const std::size_t piece = taps / args.taps;
  for (std::size_t tap = 0; tap < taps; ++tap) {
    std::int8_t* const to =
        column + tap / piece * args.quads * kByteQuad + tap % piece * args.part_channels;
    for (std::size_t c = 0; c < channels; ++c) to[c] = filter[c * taps + tap];
  }
}

}  // namespace

Result<Kernel> MakeByteConv(const ByteConvSpec& spec, std::span<const ByteUnit* const> units) {
  LAGOON_RETURN_IF_ERROR(CheckSpec(spec));
  ByteConvArgs args = ArgsOf(spec, units);
  Cut(args);
  Kernel kernel;
  kernel.name = kByteConv;
  kernel.body = &ByteConvBody;
  kernel.scratch_bytes = PlaceScratch(args);
  kernel.blocks = args.group_tiles * args.panel_tiles;
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ByteConvArgs, x), offsetof(ByteConvArgs, weights)};
  if (spec.residual) {
    kernel.inputs.push_back(offsetof(ByteConvArgs, residual));
    kernel.inputs.push_back(offsetof(ByteConvArgs, scales));
  }
  kernel.outputs = {offsetof(ByteConvArgs, y)};
  const double results = static_cast<double>(args.pixels) * spec.out_channels;
  const std::size_t channels = spec.in_channels / spec.groups;
  const auto depth = static_cast<double>(WindowTaps(spec.window) * channels);
  kernel.flops = 2 * results * depth;
  kernel.bytes_moved = static_cast<double>(InputPixels(spec.window)) * spec.in_channels +
                       depth * spec.out_channels +
                       results * (spec.floats     ? 4
                                  : spec.residual ? 2
                                                  : 1);
  return kernel;
}

ByteConvPacking ByteConvPackingOf(const ByteConvSpec& spec,
                                  std::span<const ByteUnit* const> units) {
  const ByteConvArgs args = ArgsOf(spec, units);
  return {PackedByteConv(std::size_t{args.taps} * args.quads, args.panels).size, args.taps};
}

void PackByteConv(const ByteConvSpec& spec, const ByteConvWeights& from, std::byte* packed,
                  std::span<const ByteUnit* const> units) {
  const ByteConvArgs args = ArgsOf(spec, units);
  const std::size_t quads = std::size_t{args.taps} * args.quads;
  const PackedByteConv parts(quads, args.panels);
  std::memset(packed + parts.bias, 0, parts.size - parts.bias);
  auto* weights = reinterpret_cast<std::int8_t*>(packed);
  auto* const bias = reinterpret_cast<std::int32_t*>(packed + parts.bias);
  auto* const scale = reinterpret_cast<float*>(packed + parts.scale);
  const std::size_t group_columns = spec.out_channels / spec.groups;
  const std::size_t group_depth = WindowTaps(spec.window) * (spec.in_channels / spec.groups);
  const std::size_t pitch = quads * kByteQuad;
  std::vector<std::int8_t> panel_columns;  // of a panel, with zeros to the last quad
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    panel_columns.assign(kBytePanel * pitch, 0);
    for (std::size_t i = 0; i < kBytePanel; ++i) {
      const std::size_t in_part = panel % args.part_panels * kBytePanel + ByteColumn(i);
      if (in_part >= args.part_columns) continue;
      const std::size_t c = panel / args.part_panels * args.part_columns + in_part;
      std::int8_t* const column = panel_columns.data() + i * pitch;
      ReadColumn(spec, args, from.weights.data() + c * group_depth, in_part / group_columns,
                 column);
      std::byte& wide = packed[parts.wide + panel];
      if (wide == std::byte{0} && NeedsWideSums({column, pitch})) wide = std::byte{1};
      const std::int64_t sum = SumOf({column, pitch});
      const std::size_t place = panel * kBytePanel + i;
      bias[place] = static_cast<std::int32_t>(from.bias[c] - spec.x_zero * sum);
      scale[place] = from.scale[c];
    }
    for (std::size_t quad = 0; quad < quads; ++quad) {
      for (std::size_t i = 0; i < kBytePanel; ++i, weights += kByteQuad) {
        std::memcpy(weights, panel_columns.data() + i * pitch + quad * kByteQuad, kByteQuad);
      }
    }
  }
}

}  // namespace lagoon
