// How conv2d in bf16 is cut into blocks.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/conv/bf16/conv2d_bf16.h"
#include "kernels/conv/bf16/conv2d_bf16_args.h"
#include "kernels/conv/conv2d_tiling.h"
#include "kernels/spread.h"
#include "kernels/window.h"

namespace lagoon {
namespace {

// A block's planned time, and of that the time from the first visible write to the end, in us. Half
// of what the protocol allows, because memory may be slower than planned.
constexpr double kMaxBlockUs = 68;
constexpr double kCommitUs = 11;
constexpr double kChunkUs = 7;
constexpr double kClaimUs = 0.7;  // cost of a block besides its work
// Bytes per us.
constexpr double kStoreRate = 12e3;     // from scratch to memory
constexpr double kFarRate = 15e3;       // weights that are not in this unit's cache
constexpr double kCopyNs = 0.08;        // per element of the input, read and converted
constexpr double kCopyRowNs = 8;        // per kernel row of an output pixel
constexpr double kNearBytes = 1 << 20;  // bytes that stay in the second-level cache
constexpr std::size_t kMaxWidePanels = 64;
constexpr std::size_t kMaxPixels = 1024;

class Candidate {
 public:
  Candidate(const Bf16ConvArgs& shape, double finish_ns) : a(shape), finish_ns_(finish_ns) {}

  void Cut(std::size_t pixel_tiles, std::size_t panel_tiles) {
    a.pixel_tiles = static_cast<std::uint32_t>(pixel_tiles);
    a.panel_tiles = static_cast<std::uint32_t>(panel_tiles);
  }

  std::size_t blocks() const { return std::size_t{a.pixel_tiles} * a.panel_tiles; }
  std::size_t pixels() const { return CeilDivide(a.pixels, a.pixel_tiles); }
  std::size_t panels() const { return CeilDivide(a.panels, a.panel_tiles); }
  std::size_t groups() const { return CeilDivide(pixels(), kBf16Rows); }
  std::size_t SumsOffset() const { return pixels() * a.row_bytes; }
  std::size_t ScratchBytes() const {
    return SumsOffset() + groups() * panels() * kBf16ItemFloats * sizeof(float);
  }

  double store_us() const {
    const double values = static_cast<double>(pixels() * panels() * kBf16Panel);
    return values * sizeof(float) / kStoreRate;
  }
  double block_us() const {
    const double steps = a.steps, rows = static_cast<double>(pixels());
    const double copy_ns = rows * (steps * kBf16Step * kCopyNs + a.window.kernel_h * kCopyRowNs);
    const double multiply_ns =
        static_cast<double>(panels()) * steps *
        (rows * a.unit->row_ns + static_cast<double>(groups()) * a.unit->step_ns);
    const double finish_ns = rows * static_cast<double>(panels() * kBf16Panel) * finish_ns_;
    return (copy_ns + multiply_ns + finish_ns) / 1e3 + store_us() + FarUs();
  }
  bool Fits() const {
    return store_us() <= kCommitUs && block_us() <= kMaxBlockUs &&
           static_cast<double>(SumsOffset()) <= kNearBytes;
  }
  /// Estimated time on two units. The fewer blocks there are, the more an odd number of them costs.
  double Score() const {
    const double work = static_cast<double>(blocks()) * (block_us() + kClaimUs);
    return work / 2 + (blocks() % 2 == 1 ? 0.5 : 0.05) * block_us();
  }

  double WeightBytes(std::size_t panels) const {
    return static_cast<double>(panels) * a.steps * kBf16Panel * kBf16Step * sizeof(Bf16);
  }
  bool PanelsFirst() const { return WeightBytes(a.panels) <= kNearBytes; }

  Bf16ConvArgs a;

 private:
  // Weights that stay in the cache from block to block are fetched once by each unit.
  double FarUs() const {
    const bool stay = WeightBytes(panels()) <= kNearBytes;
    const double share = stay ? 2.0 / std::max<double>(2, a.pixel_tiles) : 1;
    return WeightBytes(panels()) * share / kFarRate;
  }

  double finish_ns_;
};

Bf16ConvArgs ShapeOf(const Conv2dSpec& s, const Bf16Unit& unit) {
  Bf16ConvArgs a{};
  a.unit = &unit;
  a.target = &ChosenConvTarget();
  a.window = s.window;
  a.channels = s.in_channels;
  a.out_channels = s.out_channels;
  a.flat = IsFlat(s);
  a.pixels = static_cast<std::uint32_t>(OutputPixels(s.window));
  const std::size_t depth = WindowTaps(s.window) * s.in_channels;
  a.steps = static_cast<std::uint32_t>(Bf16Steps(depth));
  a.panels = static_cast<std::uint32_t>(CeilDivide(s.out_channels, kBf16Panel));
  const double step_ns = kBf16Rows * unit.row_ns + unit.step_ns;
  a.chunk_steps = static_cast<std::uint32_t>(std::max(1.0, kChunkUs * 1e3 / step_ns));
  // An odd number of lines, so that rows lie in different sets of the cache.
  const std::size_t lines = CeilDivide(a.steps * kBf16Step * sizeof(Bf16), 64);
  a.row_bytes = (lines | 1) * 64;
  return a;
}

// Calls `visit` once for every cut that may be good.
template <typename Visit>
void ForEveryCut(const Candidate& whole, Visit&& visit) {
  Candidate next = whole;
  std::size_t last_panel_tiles = 0;
  for (std::size_t wide = 1; wide <= std::min<std::size_t>(whole.a.panels, kMaxWidePanels);
       ++wide) {
    const std::size_t panel_tiles = CeilDivide(whole.a.panels, wide);
    if (panel_tiles == last_panel_tiles) continue;
    last_panel_tiles = panel_tiles;
    std::size_t last_pixel_tiles = 0;
    for (std::size_t pixels = 8; pixels <= kMaxPixels; pixels += pixels < 32 ? 8 : 16) {
      const std::size_t pixel_tiles = CeilDivide(whole.a.pixels, pixels);
      if (pixel_tiles == last_pixel_tiles) continue;
      last_pixel_tiles = pixel_tiles;
      next.Cut(pixel_tiles, panel_tiles);
      visit(next);
    }
  }
}

// The cut to use if no other one fits.
Candidate FinestCut(const Candidate& whole) {
  Candidate finest = whole;
  finest.Cut(whole.a.pixels, whole.a.panels);
  return finest;
}

Bf16ConvTiling TilingOf(const Candidate& cut) {
  Bf16ConvTiling tiling{cut.a, static_cast<std::uint32_t>(cut.blocks()), cut.ScratchBytes()};
  tiling.args.sums_offset = cut.SumsOffset();
  tiling.args.panels_first = cut.PanelsFirst();
  return tiling;
}

}  // namespace

std::vector<Bf16ConvTiling> TileBf16Conv2d(const Conv2dSpec& spec, const Bf16Unit& unit,
                                           std::size_t count) {
  const Candidate whole(ShapeOf(spec, unit), FinishNs(spec.epilogue));
  std::vector<Candidate> cuts;
  ForEveryCut(whole, [&](const Candidate& next) {
    if (next.Fits()) cuts.push_back(next);
  });
  if (cuts.empty()) cuts.push_back(FinestCut(whole));
  const auto best = std::min_element(
      cuts.begin(), cuts.end(),
      [](const Candidate& a, const Candidate& b) { return a.Score() < b.Score(); });
  std::vector<Bf16ConvTiling> tilings{TilingOf(*best)};
  cuts.erase(best);
  for (const Candidate& cut : SpreadCuts(std::move(cuts), count - 1)) {
    tilings.push_back(TilingOf(cut));
  }
  return tilings;
}

}  // namespace lagoon
