#include "kernels/conv/conv2d_tiling.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/conv/conv2d_list.h"
#include "kernels/conv/conv2d_walk.h"
#include "kernels/spread.h"
#include "kernels/window.h"

namespace lagoon {
namespace {

// A block's planned time, in us. Large kernels get blocks near each of kIdealBlockUs.
constexpr double kMaxBlockUs = 68;
constexpr double kIdealBlockUs[] = {4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 45, 50, 55, 60, 65};
// Time from the first visible write to the end, in us. Half the limit of 20 us, because memory may
// be slower than planned.
constexpr double kCommitUs = 11;
constexpr double kChunkUs = 7;
// Set, not tuned.
constexpr std::uint32_t kMaxCallSegments = 64;
constexpr double kClaimUs = 0.7;  // cost of a block besides its work
// A little more is better than a second pass over the accumulators.
constexpr std::uint32_t kGoodChunkDepth = kMaxChunkDepth - kMaxChunkDepth / 5;
// Bytes per us for writing results to memory, copying a patch, and reading data that is not in this
// unit's cache.
constexpr double kStoreRate = 15e3;
constexpr double kDetourRate = 30e3;  // through scratch instead of from registers
constexpr double kPatchRate = 25e3;
constexpr double kFarRate = 40e3;       // most of the time hides behind the arithmetic
constexpr double kNearBytes = 1 << 20;  // bytes that stay in the second-level cache
constexpr double kInnerPanelBytes = 512 << 10;
// From this many channels on, a tap is long enough to read padding by pointer instead of copying
// the input.
constexpr std::uint32_t kMinTapChannels = 16;
// A list must take this much less to be worth its pointers.
constexpr double kWorthList = 0.9;

std::uint32_t CeilDiv32(std::size_t value, std::size_t by) {
  return static_cast<std::uint32_t>(CeilDivide(value, by));
}

bool ReadsColumnPadding(const ImageWindow& w) {
  const std::int64_t last = (std::int64_t{w.out_width} - 1) * w.stride_w - w.pad_left +
                            (std::int64_t{w.kernel_w} - 1) * w.dilation_w;
  return w.pad_left > 0 || last >= w.width;
}

// True if every pixel between the first and the last of an output row has all its columns inside.
bool OnlyEndsReadPadding(const ImageWindow& w) {
  if (w.out_width < 3) return w.out_width == 1;
  const std::int64_t second = std::int64_t{w.stride_w} - w.pad_left;
  const std::int64_t before_last = (std::int64_t{w.out_width} - 2) * w.stride_w - w.pad_left +
                                   (std::int64_t{w.kernel_w} - 1) * w.dilation_w;
  return second >= 0 && before_last < w.width;
}

// Where a segment is a part of an output row.
ConvInput RowInputOf(const Conv2dArgs& a) {
  if (!ReadsColumnPadding(a.window)) return ConvInput::kDirect;
  const bool edge = a.channels >= kMinTapChannels && a.window.kernel_w <= kMaxListKernel &&
                    OnlyEndsReadPadding(a.window);
  return edge ? ConvInput::kEdge : ConvInput::kPatch;
}

bool MayList(const Conv2dArgs& a) {
  return a.channels >= kMinTapChannels && a.window.kernel_h <= kMaxListKernel &&
         a.window.kernel_w <= kMaxListKernel;
}

void SetTaps(ConvInput input, Conv2dArgs& a) {
  const ImageWindow& w = a.window;
  a.input = input;
  const bool padded = input == ConvInput::kList && ReadsColumnPadding(w);
  const bool joined =
      input != ConvInput::kEdge && !padded && (w.dilation_w == 1 || w.kernel_w == 1);
  a.taps_w = joined ? 1 : w.kernel_w;
  a.tap_depth = joined ? w.kernel_w * a.channels : a.channels;
  a.depth = w.kernel_h * a.taps_w * a.tap_depth;
}

// Segments that are parts of output rows.
void SetRows(ConvInput input, std::uint32_t max_rows, Conv2dArgs& a) {
  SetTaps(input, a);
  a.images = a.window.batch;
  a.rows = a.window.out_height;
  a.segments = CeilDiv32(a.window.out_width, max_rows);
  a.segment_pixels = a.window.out_width / a.segments;
}

// Micro-tiles of single rows times their depth, up to a factor.
double RowCost(const Conv2dArgs& a) {
  std::size_t kernel_rows = 0;
  for (std::uint32_t row = 0; row < a.rows; ++row) {
    const KernelRows inside = KernelRowsOf(a, row);
    kernel_rows += inside.end - inside.begin;
  }
  return SegmentCost(a.window.out_width, a.segments) * a.images * kernel_rows * a.window.kernel_w;
}

Conv2dArgs ShapeOf(const Conv2dSpec& s, std::uint32_t max_rows) {
  Conv2dArgs a{};
  ImageWindow& w = a.window;
  w = s.window;
  if (IsFlat(s)) {
    w.width = w.out_width = w.batch * w.height * w.width;
    w.batch = w.height = w.out_height = 1;
  } else {
    LayDownColumn(w);
  }
  a.channels = s.in_channels;
  a.out_channels = s.out_channels;
  SetRows(RowInputOf(a), max_rows, a);
  if (IsFlat(s) || !MayList(a)) return a;
  Conv2dArgs list = a;
  SetTaps(ConvInput::kList, list);
  SetClasses(max_rows, list);
  const double taps = static_cast<double>(w.kernel_h) * w.kernel_w * TapShareOf(list).average;
  const double cost = SegmentCost(OutputPixels(w), list.segments) * taps;
  return a.input == ConvInput::kPatch || cost < kWorthList * RowCost(a) ? list : a;
}

void SetChunks(const ConvTarget& target, Conv2dArgs& a) {
  const double per_depth = 2.0 * target.max_rows * 2 * target.lanes;
  const auto limit = static_cast<std::uint32_t>(
      std::clamp(kChunkUs * target.flops_per_us / per_depth, 8.0, double{kGoodChunkDepth}));
  const std::uint32_t taps = a.window.kernel_h * a.taps_w;
  a.tap_pieces = 1, a.chunk_taps = taps, a.chunks = 1;
  if (a.depth <= limit + limit / 4) return;
  if (a.tap_depth > limit) {
    a.tap_pieces = CeilDiv32(a.tap_depth, limit);
    a.chunk_taps = 1;
    a.chunks = taps * a.tap_pieces;
    return;
  }
  a.chunks = CeilDiv32(taps, limit / a.tap_depth);
  a.chunk_taps = CeilDiv32(taps, a.chunks);
  a.chunks = CeilDiv32(taps, a.chunk_taps);
}

// One way to cut the output, and what it costs.
class Candidate {
 public:
  Candidate(const Conv2dArgs& shape, const ConvTarget& target, double finish_ns) : a(shape) {
    const bool list = a.input == ConvInput::kList;
    const TapShare taps = list ? TapShareOf(a) : TapShare();
    const std::size_t pixels = list ? OutputPixels(a.window) : a.window.out_width;
    const double rows = static_cast<double>(pixels) / a.segments;
    const double width = 2.0 * a.lanes;
    const double whole_us = 2 * rows * width * a.depth / target.flops_per_us;
    item_us_ = taps.average * whole_us;
    longest_item_us_ = taps.most * whole_us;
    limit_us_ =
        std::max(kMaxBlockUs, 2 * 2 * target.max_rows * width * a.depth / target.flops_per_us);
    store_us_ = rows * width * (sizeof(float) / kStoreRate + finish_ns / 1e3);
    detour_us_ = rows * width * sizeof(float) / kDetourRate;
  }

  void Cut(std::uint32_t row_tiles, std::uint32_t segment_tiles, std::uint32_t panel_tiles) {
    a.row_tiles = row_tiles, a.segment_tiles = segment_tiles, a.panel_tiles = panel_tiles;
    rows_ = CeilDivide(a.rows, row_tiles);
    segments_ = CeilDivide(a.segments, segment_tiles);
    panels_ = CeilDivide(a.panels, panel_tiles);
  }

  std::size_t blocks() const {
    return std::size_t{a.images} * a.row_tiles * a.segment_tiles * a.panel_tiles;
  }
  std::size_t items() const { return rows_ * segments_ * panels_; }
  double limit_us() const { return limit_us_; }
  double store_us() const { return static_cast<double>(items()) * store_us_; }
  double block_us() const {
    return static_cast<double>(items()) * (item_us_ + store_us_) +
           static_cast<double>(PatchBytes()) / kPatchRate;
  }
  bool Fits() const {
    const double more_us = static_cast<double>(items()) * (longest_item_us_ - item_us_);
    return store_us() <= kCommitUs && block_us() + more_us <= limit_us_ &&
           PatchBytes() <= static_cast<std::size_t>(kNearBytes);
  }

  // Bytes that a block copies in kPatch mode.
  std::size_t PatchBytes() const {
    if (a.input != ConvInput::kPatch) return 0;
    const ImageWindow& w = a.window;
    const std::size_t pixels = segments_ * CeilDivide(w.out_width, a.segments);
    const std::size_t height =
        (rows_ - 1) * w.stride_h + std::size_t{w.kernel_h - 1} * w.dilation_h + 1;
    const std::size_t width = (std::min<std::size_t>(pixels, w.out_width) - 1) * w.stride_w +
                              std::size_t{w.kernel_w - 1} * w.dilation_w + 1;
    return std::min<std::size_t>(height, w.height) * width * a.channels * sizeof(float);
  }

  // Bytes of the weights of one block.
  double TileWeightBytes() const {
    return static_cast<double>(panels_) * 2 * a.lanes * a.depth * sizeof(float);
  }

  // Bytes that all blocks fetch from outside their unit's cache, if consecutive blocks differ in
  // their panels and share input (`panels_first`), or else share weights.
  double FarBytes(bool panels_first) const {
    const double input = static_cast<double>(InputPixels(a.window)) * a.channels * sizeof(float);
    const double weights = static_cast<double>(a.panels) * 2 * a.lanes * a.depth * sizeof(float);
    const double spatial = static_cast<double>(a.images) * a.row_tiles * a.segment_tiles;
    const double shared_input = input / spatial > kNearBytes ? input * a.panel_tiles : input;
    const double shared_weights = TileWeightBytes() > kNearBytes ? weights * spatial : weights;
    return panels_first ? shared_input + weights * (weights > kNearBytes ? spatial : 1)
                        : shared_weights + input * (input > kNearBytes ? a.panel_tiles : 1);
  }

  // Estimated time on two units. The fewer blocks there are, the more an odd number of them costs.
  double Score() const {
    const double count = static_cast<double>(blocks());
    const double items_in_all = static_cast<double>(a.images) * a.rows * a.segments * a.panels;
    const double work = items_in_all * (item_us_ + store_us_) +
                        count * (kClaimUs + static_cast<double>(PatchBytes()) / kPatchRate) +
                        count * (static_cast<double>(items()) - DirectItems()) * detour_us_ +
                        std::min(FarBytes(true), FarBytes(false)) / kFarRate;
    const double odd = blocks() % 2 == 1 ? 0.5 : 0.05;
    return work / 2 + odd * block_us();
  }

  std::uint32_t DirectItems() const {
    // n of all items accumulate and store within the commit time; the others only store.
    const double n = (kCommitUs - store_us()) / (longest_item_us_ / a.chunks);
    return static_cast<std::uint32_t>(std::clamp(n, 0.0, static_cast<double>(items())));
  }

  std::uint32_t CallPanels() const {
    if (!a.panels_inner) return 1;
    return static_cast<std::uint32_t>(
        std::clamp(kChunkUs / longest_item_us_, 1.0, double{kMaxCallPanels}));
  }

  // Several segments can go together where their inputs and their places in y follow each other.
  std::uint32_t CallSegments() const {
    const bool in_order = a.input == ConvInput::kDirect && a.window.kernel_h == 1 && a.taps_w == 1;
    if (!a.panels_inner || !in_order) return 1;
    const double most = kChunkUs / (longest_item_us_ * static_cast<double>(panels_));
    return static_cast<std::uint32_t>(std::clamp(most, 1.0, double{kMaxCallSegments}));
  }

  Conv2dArgs a;

 private:
  double item_us_, longest_item_us_, store_us_, detour_us_;
  // Two full micro-tiles of very many inputs may take longer than kMaxBlockUs, because the weights
  // of one alone come from memory more slowly than it multiplies.
  double limit_us_;
  std::size_t rows_ = 1, segments_ = 1, panels_ = 1;
};

// Cuts the rows of the product into about `tiles` parts per image: whole output rows, or parts of
// one row.
void CutSpatially(std::size_t tiles, std::uint32_t panel_tiles, Candidate& candidate) {
  const std::size_t rows = candidate.a.rows;
  if (tiles <= rows) {
    // The fewest tiles with at most this many rows.
    const std::size_t tall = CeilDivide(rows, std::max<std::size_t>(tiles, 1));
    return candidate.Cut(CeilDiv32(rows, tall), 1, panel_tiles);
  }
  const std::size_t parts = std::min<std::size_t>(CeilDivide(tiles, rows), candidate.a.segments);
  candidate.Cut(static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(parts), panel_tiles);
}

// Calls `visit` for every cut that may be good, for some of them more than once.
template <typename Visit>
void ForEachCut(const Candidate& whole, Visit&& visit) {
  const Conv2dArgs& shape = whole.a;
  Candidate next = whole;
  next.Cut(1, 1, 1);
  const double image_us = next.block_us();
  std::uint32_t last_panel_tiles = 0;
  for (std::uint32_t wide = 1; wide <= std::min<std::uint32_t>(shape.panels, 64); ++wide) {
    const std::uint32_t panel_tiles = CeilDiv32(shape.panels, wide);
    if (panel_tiles == last_panel_tiles) continue;
    last_panel_tiles = panel_tiles;
    for (const double ideal : kIdealBlockUs) {
      const double ideal_us = ideal * whole.limit_us() / kMaxBlockUs;
      CutSpatially(static_cast<std::size_t>(std::max(1.0, image_us / (ideal_us * panel_tiles))),
                   panel_tiles, next);
      visit(next);
    }
    next.Cut(shape.rows, 1, panel_tiles);
    visit(next);
  }
}

Candidate FinestCut(const Candidate& whole) {
  Candidate finest = whole;
  finest.Cut(whole.a.rows, whole.a.segments, whole.a.panels);
  return finest;
}

Candidate BestCut(const Candidate& whole) {
  Candidate best = FinestCut(whole);
  double best_score = best.Score();
  ForEachCut(whole, [&](const Candidate& next) {
    if (next.Fits() && next.Score() < best_score) {
      best = next;
      best_score = next.Score();
    }
  });
  return best;
}

// The output as one tile, before it is cut.
Candidate WholeOf(const Conv2dSpec& spec, const ConvTarget& target) {
  Conv2dArgs shape = ShapeOf(spec, target.max_rows);
  shape.target = &target;
  shape.lanes = target.lanes;
  shape.panels = CeilDiv32(shape.out_channels, 2 * target.lanes);
  shape.item_floats = target.max_rows * 2 * target.lanes;
  SetChunks(target, shape);
  return {shape, target, FinishNs(spec.epilogue)};
}

ConvTiling TilingOf(Candidate cut) {
  // With few weights, the input of a segment stays in the first-level cache and y is written in
  // order.
  cut.a.panels_inner = cut.a.chunks == 1 && cut.TileWeightBytes() <= kInnerPanelBytes;
  ConvTiling tiling{cut.a, static_cast<std::uint32_t>(cut.blocks()), 0};
  tiling.args.panels_first = cut.FarBytes(true) < cut.FarBytes(false);
  tiling.args.whole_panels = cut.a.out_channels / (2 * cut.a.lanes);
  tiling.args.call_panels = cut.CallPanels();
  tiling.args.call_segments = cut.CallSegments();
  tiling.args.direct_items = cut.DirectItems();
  tiling.args.patch_offset = cut.items() * cut.a.item_floats * sizeof(float);
  tiling.scratch_bytes = tiling.args.patch_offset + cut.PatchBytes();
  return tiling;
}

// Calls `visit` once for every cut into equal parts.
template <typename Visit>
void ForEveryCut(const Candidate& whole, Visit&& visit) {
  const Conv2dArgs& shape = whole.a;
  Candidate next = whole;
  std::uint32_t last_panel_tiles = 0;
  for (std::uint32_t wide = 1; wide <= std::min<std::uint32_t>(shape.panels, 64); ++wide) {
    const std::uint32_t panel_tiles = CeilDiv32(shape.panels, wide);
    if (panel_tiles == last_panel_tiles) continue;
    last_panel_tiles = panel_tiles;
    std::uint32_t last_row_tiles = 0;
    for (std::uint32_t tall = 1; tall <= shape.rows; ++tall) {
      const std::uint32_t row_tiles = CeilDiv32(shape.rows, tall);
      if (row_tiles == last_row_tiles) continue;
      last_row_tiles = row_tiles;
      next.Cut(row_tiles, 1, panel_tiles);
      visit(next);
    }
    // Enough sizes of parts, where a row has very many segments.
    const std::uint32_t step = 1 + shape.segments / 256;
    std::uint32_t last_parts = 1;
    for (std::uint32_t size = shape.segments - 1; size >= step; size -= step) {
      const std::uint32_t parts = CeilDiv32(shape.segments, size);
      if (parts == last_parts) continue;
      last_parts = parts;
      next.Cut(shape.rows, parts, panel_tiles);
      visit(next);
    }
  }
}

bool SameCut(const Candidate& a, const Candidate& b) {
  return a.a.row_tiles == b.a.row_tiles && a.a.segment_tiles == b.a.segment_tiles &&
         a.a.panel_tiles == b.a.panel_tiles;
}

}  // namespace

bool IsFlat(const Conv2dSpec& spec) {
  const ImageWindow& w = spec.window;
  return WindowTaps(w) == 1 && w.stride_h == 1 && w.stride_w == 1 && w.pad_top == 0 &&
         w.pad_left == 0 && w.out_height == w.height && w.out_width == w.width;
}

bool IsGemv(const Conv2dSpec& spec) {
  return !spec.any_rows && IsFlat(spec) && InputPixels(spec.window) == 1;
}

ConvTiling TileConv2d(const Conv2dSpec& spec, const ConvTarget& target) {
  return TilingOf(BestCut(WholeOf(spec, target)));
}

std::vector<ConvTiling> TileConv2dVersions(const Conv2dSpec& spec, const ConvTarget& target,
                                           std::size_t count) {
  const Candidate whole = WholeOf(spec, target);
  const Candidate best = BestCut(whole);
  std::vector<Candidate> cuts;
  ForEveryCut(whole, [&](const Candidate& next) {
    if (next.Fits() && !SameCut(next, best)) cuts.push_back(next);
  });
  std::vector<ConvTiling> tilings{TilingOf(best)};
  for (const Candidate& cut : SpreadCuts(std::move(cuts), count - 1))
    tilings.push_back(TilingOf(cut));
  // The same cuts with their blocks in the other order.
  const std::size_t cut_count = tilings.size();
  for (std::size_t i = 0; i < cut_count && tilings.size() < count; ++i) {
    if (tilings[i].args.panel_tiles == 1) continue;
    ConvTiling other = tilings[i];
    other.args.panels_first = !other.args.panels_first;
    tilings.push_back(other);
  }
  return tilings;
}

}  // namespace lagoon
