// One block of conv2d. Compiled for the plainest instruction set, because vector instructions
// between two calls of the micro-kernel would queue behind its arithmetic.

#include "kernels/conv/conv2d_block.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/conv/conv2d_args.h"
#include "kernels/conv/conv2d_body.h"
#include "kernels/conv/conv2d_list.h"
#include "kernels/conv/conv2d_walk.h"

namespace lagoon {
namespace {

/// Read as padding, and as the bias of a kernel without one.
alignas(64) constexpr float kZeros[kMaxChunkDepth] = {};

constexpr std::size_t kMaxPanelWidth = 32;

/// Runs one block. The steps of the depth are chunks. Each step visits all micro-tiles, so that all
/// of them use a chunk of weights while it is in the cache.
class ConvBlock {
 public:
  ConvBlock(const Conv2dArgs& args, std::uint32_t block, BlockContext& ctx)
      : args_(args),
        tile_(TileOf(args, block)),
        panel_width_(std::size_t{2} * args.lanes),
        acc_(reinterpret_cast<float*>(ctx.scratch().data())),
        input_(ReadInput(ctx.scratch().data())),
        lists_(args) {
    micro_.pitch = std::size_t{args.window.stride_w} * args.channels * sizeof(float);
    micro_.columns = args.taps_w;
    micro_.next_column =
        std::int64_t{args.window.dilation_w} * args.channels * std::int64_t{sizeof(float)};
    micro_.next_row = args.window.dilation_h * input_.row_pitch * std::int64_t{sizeof(float)} -
                      (args.taps_w - 1) * micro_.next_column;
    micro_.zeros = reinterpret_cast<const std::byte*>(kZeros);
    micro_.store.low = args.low;
    micro_.store.high = args.high;
    micro_.store.pitch = args.out_channels;
  }

  bool Run(BlockContext& ctx) {
    const std::size_t items = tile_.items();
    const std::size_t direct = std::min<std::size_t>(items, args_.direct_items);
    for (std::uint32_t index = 0; index < args_.chunks; ++index) {
      const Chunk chunk = ChunkOf(args_, index);
      const std::size_t end = chunk.last ? items - direct : items;
      for (Cursor at = Begin(0); at.item < end;) {
        if (ctx.ShouldLeave()) return false;
        Accumulate(at, end, chunk, /*finish=*/false);
      }
    }
    if (ctx.ShouldLeave()) return false;
    // The first visible write: no guard check from here to the end.
    for (Cursor at = Begin(0); at.item < items - direct; at.Next()) Store(at);
    const Chunk last = ChunkOf(args_, args_.chunks - 1);
    for (Cursor at = Begin(items - direct); at.item < items;) {
      Accumulate(at, items, last, /*finish=*/true);
    }
    if (args_.finish.row != nullptr) FinishTile();
    return true;
  }

 private:
  Cursor Begin(std::size_t item) const { return Cursor(tile_, args_.panels_inner, item); }
  // Values that depend on the row and the segment only. Several calls in turn need them; to compute
  // them each time would take as long as the arithmetic of a shallow convolution.
  struct Spot {
    std::size_t place = kNowhere;
    std::uint32_t pixels = 0;
    std::size_t offset = 0;  // offset in y of the first pixel's first channel
    bool neighbours = true;  // whether the pixels are neighbours in y
    // Without a list:
    KernelRows kernel_rows{};
    std::int64_t column = 0;  // image column of kernel column 0 for the first pixel
    // With kList:
    PixelList list;
  };
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  bool listed() const { return args_.input == ConvInput::kList; }

  // Sets here_ and next_->
  void Enter(const Cursor& at) {
    if (at.place == here_->place) return;
    if (at.place == next_->place) {
      std::swap(here_, next_);
    } else {
      SetSpot(at.place, at.row, at.segment, *here_);
    }
    const bool last_in_row = at.segment + 1 == tile_.segments.end;
    if (last_in_row && at.row + 1 == tile_.rows.end) {
      next_->place = kNowhere;
    } else {
      SetSpot(at.place + 1, at.row + last_in_row,
              last_in_row ? tile_.segments.begin : at.segment + 1, *next_);
    }
  }
  void SetSpot(std::size_t place, std::size_t row, std::size_t segment, Spot& spot) const;
  std::size_t WidthAt(const Cursor& at) const {
    return PanelWidth(args_.lanes, args_.out_channels, at.panel);
  }
  std::size_t ColumnsAt(const Cursor& at) const {
    return std::min<std::size_t>(WidthAt(at), args_.out_channels - at.panel * panel_width_);
  }
  // Number of panels from `at` on that one call takes; items stop before `end`.
  std::uint32_t PanelsPerCall(const Cursor& at, std::size_t end) const {
    if (at.panel >= args_.whole_panels) return 1;
    const std::size_t whole = std::min<std::size_t>(tile_.panels.end, args_.whole_panels);
    const std::size_t count = std::min(whole - at.panel, end - at.item);
    return static_cast<std::uint32_t>(std::min<std::size_t>(count, args_.call_panels));
  }
  // Number of segments, from `at` on, that AccumulateSegments() may take at once. They have equally
  // many pixels, lie in one row, and all their items come before `end`.
  std::uint32_t SegmentsPerCall(const Cursor& at, std::size_t end) const {
    if (args_.call_segments < 2 || at.panel != tile_.panels.begin) return 1;
    const std::size_t longer =
        args_.window.out_width - std::size_t{args_.segment_pixels} * args_.segments;
    const std::size_t alike = at.segment < longer ? longer : args_.segments;
    const std::size_t count = std::min<std::size_t>(tile_.segments.end, alike) - at.segment;
    const std::size_t items = (end - at.item) / tile_.panels.size();
    return static_cast<std::uint32_t>(std::min({count, items, std::size_t{args_.call_segments}}));
  }
  const float* BiasAt(const Cursor& at) {
    if (args_.bias == nullptr) return kZeros;
    const float* bias = args_.bias + at.panel * panel_width_;
    const std::size_t columns = ColumnsAt(at);
    if (columns == WidthAt(at)) return bias;
    std::copy_n(bias, columns, part_bias_);
    return part_bias_;
  }
  float* AccAt(const Cursor& at) const { return acc_ + at.item * args_.item_floats; }

  InputView ReadInput(std::byte* scratch) const;
  void SetStore(const Cursor& at);
  void SetPrefetch(const Cursor& at, std::uint32_t panels, const Chunk& chunk, bool finish);
  PrefetchStream* AddStoreStream(std::size_t offset, std::uint32_t count,
                                 PrefetchStream* stream) const;
  std::uint32_t WeightBurst(const Chunk& chunk) const;
  std::size_t NextOffset(const Cursor& at, std::uint32_t panels) const;
  const std::byte* InputAhead(const Cursor& at, std::size_t steps) const;
  const std::byte* WeightsAhead(const Cursor& at, const Chunk& chunk, std::size_t steps) const;
  void Accumulate(Cursor& at, std::size_t end, const Chunk& chunk, bool finish);
  void AccumulatePanels(const Cursor& at, std::uint32_t panels, const Chunk& chunk, bool finish);
  void AccumulateSegments(Cursor at, std::uint32_t segments, const Chunk& chunk, bool finish);
  void Multiply(const Cursor& at) {
    args_.target->multiply[listed()][WidthAt(at) / args_.lanes - 1][here_->pixels - 1](micro_);
  }
  bool SetTaps(const Cursor& at, const Chunk& chunk);
  bool SetListTaps(const Cursor& at, const Chunk& chunk);
  void NextPanel();
  void Store(const Cursor& at);
  void FinishTile() const;
  void FinishListTile() const;

  const Conv2dArgs& args_;
  const ConvTile tile_;
  const std::size_t panel_width_;  // width of all panels, perhaps except the last
  float* const acc_;
  const InputView input_;
  const ListMaker lists_;
  Spot spots_[2];
  Spot *here_ = &spots_[0], *next_ = &spots_[1];  // next_: kNowhere at the end of the tile
  MicroTile micro_{};
  alignas(64) float part_bias_[kMaxPanelWidth] = {};
  PrefetchStream prefetch_[2 * kMaxCallPanels + 1];
};

InputView ConvBlock::ReadInput(std::byte* scratch) const {
  const std::int64_t row_pitch = std::int64_t{args_.window.width} * args_.channels;
  const float* image = args_.x + std::int64_t{tile_.image} * args_.window.height * row_pitch;
  if (args_.input != ConvInput::kPatch) return {image, 0, 0, row_pitch};
  return CopyPatch(args_, tile_, image, reinterpret_cast<float*>(scratch + args_.patch_offset));
}

void ConvBlock::SetSpot(std::size_t place, std::size_t row, std::size_t segment, Spot& spot) const {
  spot.place = place;
  if (listed()) {
    lists_.Make(segment, spot.list);
    spot.pixels = spot.list.count;
    spot.offset = spot.list.places[0];
    spot.neighbours = spot.list.neighbours;
    return;
  }
  const std::size_t y_row = std::size_t{tile_.image} * args_.window.out_height + row;
  const Pixels pixels = PixelsOf(args_, static_cast<std::uint32_t>(segment));
  spot.pixels = pixels.count;
  spot.kernel_rows = KernelRowsOf(args_, row);
  spot.column = ColumnOf(args_, pixels.first);
  spot.offset = (y_row * args_.window.out_width + pixels.first) * args_.out_channels;
}

void ConvBlock::SetStore(const Cursor& at) {
  micro_.store.rows = listed() ? here_->list.places : nullptr;
  const std::size_t offset = (listed() ? 0 : here_->offset) + at.panel * panel_width_;
  micro_.store.y = args_.y + offset;
  micro_.store.residual = args_.residual != nullptr ? args_.residual + offset : nullptr;
}

void ConvBlock::Store(const Cursor& at) {
  Enter(at);
  SetStore(at);
  args_.target->store(AccAt(at), here_->pixels, WidthAt(at) / args_.lanes, ColumnsAt(at),
                      micro_.store);
}

// Called while the tile is still in the cache.
void ConvBlock::FinishTile() const {
  if (listed()) return FinishListTile();
  const std::size_t channel = tile_.panels.begin * panel_width_;
  const std::size_t channels =
      std::min<std::size_t>(args_.out_channels, tile_.panels.end * panel_width_) - channel;
  const Pixels first = PixelsOf(args_, static_cast<std::uint32_t>(tile_.segments.begin));
  const Pixels last = PixelsOf(args_, static_cast<std::uint32_t>(tile_.segments.end - 1));
  const std::size_t pixels = last.first + last.count - first.first;
  const bool dense = channels == args_.out_channels;
  for (std::size_t row = tile_.rows.begin; row < tile_.rows.end; ++row) {
    const std::size_t y_row = std::size_t{tile_.image} * args_.window.out_height + row;
    std::size_t at = (y_row * args_.window.out_width + first.first) * args_.out_channels + channel;
    for (std::size_t run = 0; run < (dense ? 1 : pixels); ++run, at += args_.out_channels) {
      const float* const residual = args_.finish_residual;
      args_.finish(args_.y + at, residual == nullptr ? nullptr : residual + at,
                   dense ? pixels * channels : channels);
    }
  }
}

void ConvBlock::FinishListTile() const {
  const std::size_t channel = tile_.panels.begin * panel_width_;
  const std::size_t channels =
      std::min<std::size_t>(args_.out_channels, tile_.panels.end * panel_width_) - channel;
  PixelList list;
  for (std::size_t segment = tile_.segments.begin; segment < tile_.segments.end; ++segment) {
    lists_.Make(segment, list);
    const bool dense = list.neighbours && channels == args_.out_channels;
    for (std::uint32_t pixel = 0; pixel < (dense ? 1 : list.count); ++pixel) {
      const std::size_t at = list.places[pixel] + channel;
      const float* const residual = args_.finish_residual;
      args_.finish(args_.y + at, residual == nullptr ? nullptr : residual + at,
                   dense ? list.count * channels : channels);
    }
  }
}

// Sets what the micro-kernel prefetches while it computes. A store that misses the cache would
// delay all later stores, and the processor's own prefetcher does not recognise the many rows.
void ConvBlock::SetPrefetch(const Cursor& at, std::uint32_t panels, const Chunk& chunk,
                            bool finish) {
  const std::uint32_t steps = std::max(1u, micro_.taps * (micro_.tap_depth / kDepthStep));
  PrefetchStream* stream = prefetch_;
  micro_.prefetch_burst = WeightBurst(chunk);
  if (chunk.last && here_->neighbours) {
    const std::uint32_t rows = here_->pixels;
    if (steps < rows) micro_.prefetch_burst = (rows + steps - 1) / steps;
    const std::uint32_t count =
        steps < rows ? (rows + micro_.prefetch_burst - 1) / micro_.prefetch_burst : rows;
    // For values stored at once, prefetch the next micro-tile's place: for this one a prefetch
    // would come too late.
    const std::size_t offset = here_->offset + (at.panel + (finish ? 1 : 0)) * panel_width_;
    for (std::uint32_t panel = 0; panel + 1 < panels; ++panel) {
      stream = AddStoreStream(offset + panel * panel_width_, count, stream);
    }
    const std::size_t next = finish ? NextOffset(at, panels) : offset + (panels - 1) * panel_width_;
    if (next != kNowhere) stream = AddStoreStream(next, count, stream);
  }
  const std::byte* ahead =
      args_.panels_inner ? InputAhead(at, steps) : WeightsAhead(at, chunk, steps);
  const bool nothing = ahead == nullptr;
  stream->next = nothing ? reinterpret_cast<const std::byte*>(micro_.weights) : ahead;
  stream->stride = nothing ? 0 : kPrefetchBytes;
  stream->steps = ~std::uint32_t{0};
  micro_.prefetch = prefetch_;
}

// Offset in y of the micro-tile that follows `panels` panels from `at` on.
std::size_t ConvBlock::NextOffset(const Cursor& at, std::uint32_t panels) const {
  const bool same_place = args_.panels_inner && at.panel + panels < tile_.panels.end;
  if (same_place) return here_->offset + (at.panel + panels) * panel_width_;
  if (next_->place == kNowhere || !next_->neighbours) return kNowhere;
  return next_->offset + (args_.panels_inner ? tile_.panels.begin : at.panel) * panel_width_;
}

PrefetchStream* ConvBlock::AddStoreStream(std::size_t offset, std::uint32_t count,
                                          PrefetchStream* stream) const {
  const std::size_t pitch = args_.out_channels * sizeof(float);
  const auto add = [&](const float* from) {
    stream->next = reinterpret_cast<const std::byte*>(from + offset);
    stream->stride = pitch;
    stream->steps = count;
    ++stream;
  };
  add(args_.y);
  if (args_.residual != nullptr) add(args_.residual);
  return stream;
}

// The input that the next segment does not share with this one: the last kernel row of its pixels.
// Each panel prefetches a share. Null: nothing to prefetch.
const std::byte* ConvBlock::InputAhead(const Cursor& at, std::size_t steps) const {
  if (next_->place == kNowhere) return nullptr;
  const std::size_t begin = (at.panel - tile_.panels.begin) * steps * kPrefetchBytes;
  if (begin >= next_->pixels * micro_.pitch) return nullptr;
  const std::int64_t last_row = std::int64_t{args_.window.kernel_h - 1} * args_.window.dilation_h;
  if (listed()) {
    const PixelList& list = next_->list;
    if ((list.inside_rows[args_.window.kernel_h - 1] & 1) == 0) return nullptr;
    return input_.At(last_row, 0, args_.channels) + list.from[0] + begin;
  }
  const std::int64_t row = next_->kernel_rows.y + last_row;
  if (row < 0 || row >= args_.window.height) return nullptr;
  return input_.At(row, std::max<std::int64_t>(0, next_->column), args_.channels) + begin;
}

// Requests per step so that the segments of the tile prefetch the next weights together. Narrow
// panels have less than one.
std::uint32_t ConvBlock::WeightBurst(const Chunk& chunk) const {
  if (args_.panels_inner || chunk.last) return 1;
  const std::size_t places = tile_.rows.size() * tile_.segments.size();
  const std::size_t requests = kDepthStep * panel_width_ * sizeof(float) / kPrefetchBytes;
  return static_cast<std::uint32_t>(std::max<std::size_t>(1, CeilDivide(requests, places)));
}

// The weights that come after this chunk of this panel. Each segment prefetches a share.
const std::byte* ConvBlock::WeightsAhead(const Cursor& at, const Chunk& chunk,
                                         std::size_t steps) const {
  const bool next_panel = at.panel + 1 < tile_.panels.end;
  if (!next_panel && chunk.last) return nullptr;
  const std::size_t floats = std::size_t{chunk.taps} * chunk.depth;
  const std::size_t begin = at.place * steps * kPrefetchBytes * micro_.prefetch_burst;
  if (begin >= floats * panel_width_ * sizeof(float)) return nullptr;
  const std::size_t panel = next_panel ? at.panel + 1 : tile_.panels.begin;
  const std::size_t depth =
      std::size_t{chunk.tap} * args_.tap_depth + chunk.begin + (next_panel ? 0 : floats);
  const float* weights = args_.weights + (panel * args_.depth + depth) * panel_width_;
  return reinterpret_cast<const std::byte*>(weights) + begin;
}

void ConvBlock::NextPanel() {
  micro_.weights += args_.depth * panel_width_;
  micro_.acc += args_.item_floats;
  if (args_.bias != nullptr) micro_.bias += panel_width_;
  if (!micro_.finish) return;
  micro_.store.y += panel_width_;
  if (args_.residual != nullptr) micro_.store.residual += panel_width_;
}

// The same for a list. Taps in the padding are left to the micro-kernel.
bool ConvBlock::SetListTaps(const Cursor& at, const Chunk& chunk) {
  const PixelList& list = here_->list;
  micro_.a = input_.At(std::int64_t{chunk.row} * args_.window.dilation_h,
                       std::int64_t{chunk.column} * args_.window.dilation_w, args_.channels) +
             chunk.begin * sizeof(float);
  micro_.rows = list.from;
  micro_.inside_rows = list.inside_rows;
  micro_.inside_columns = list.inside_columns;
  micro_.row = chunk.row;
  micro_.column = chunk.column;
  micro_.weights = args_.weights + at.panel * args_.depth * panel_width_ +
                   (std::size_t{chunk.tap} * args_.tap_depth + chunk.begin) * WidthAt(at);
  micro_.taps = chunk.taps;
  micro_.tap_depth = chunk.depth;
  micro_.resume = list.first_tap < chunk.tap || (list.first_tap == chunk.tap && chunk.begin > 0);
  std::uint32_t row = chunk.row, column = chunk.column;
  for (std::uint32_t tap = 0; tap < chunk.taps; ++tap) {
    if (list.Needs(row, column)) return true;
    if (++column < args_.taps_w) continue;
    column = 0;
    ++row;
  }
  return false;
}

// Points the micro-kernel to `chunk` of the input and of the weights. False: the whole chunk is
// padding.
bool ConvBlock::SetTaps(const Cursor& at, const Chunk& chunk) {
  if (listed()) return SetListTaps(at, chunk);
  const std::uint32_t first_tap = here_->kernel_rows.begin * args_.taps_w;
  const std::uint32_t end_tap = here_->kernel_rows.end * args_.taps_w;
  const std::uint32_t begin = std::clamp(chunk.tap, first_tap, end_tap);
  const std::uint32_t end = std::clamp(chunk.tap + chunk.taps, begin, end_tap);
  const bool cut = begin != chunk.tap;  // true: starts at the start of a kernel row
  const std::int64_t kernel_row = cut ? here_->kernel_rows.begin : chunk.row;
  micro_.column = cut ? 0 : chunk.column;
  const std::int64_t column = here_->column + std::int64_t{micro_.column} * args_.window.dilation_w;
  micro_.a = input_.At(here_->kernel_rows.y + kernel_row * args_.window.dilation_h, column,
                       args_.channels) +
             chunk.begin * sizeof(float);
  micro_.weights = args_.weights + at.panel * args_.depth * panel_width_ +
                   (std::size_t{begin} * args_.tap_depth + chunk.begin) * WidthAt(at);
  micro_.taps = end - begin;
  micro_.tap_depth = chunk.depth;
  const bool later = chunk.tap > first_tap || (chunk.tap == first_tap && chunk.begin > 0);
  micro_.resume = later && first_tap < end_tap;
  if (args_.input == ConvInput::kEdge) {
    micro_.zero_first = at.segment == 0 ? PaddingMask(args_, 0) : 0;
    const bool last = at.segment + 1 == args_.segments;
    micro_.zero_last = last ? PaddingMask(args_, args_.window.out_width - 1) : 0;
  }
  return begin < end;
}

// Takes one or more micro-tiles from `at` on, before `end`, and moves `at` behind them.
void ConvBlock::Accumulate(Cursor& at, std::size_t end, const Chunk& chunk, bool finish) {
  const std::uint32_t segments = SegmentsPerCall(at, end);
  if (segments > 1) {
    AccumulateSegments(at, segments, chunk, finish);
    return at.SkipSegments(segments);
  }
  const std::uint32_t panels = PanelsPerCall(at, end);
  AccumulatePanels(at, panels, chunk, finish);
  at.Advance(panels);
}

void ConvBlock::AccumulatePanels(const Cursor& at, std::uint32_t panels, const Chunk& chunk,
                                 bool finish) {
  Enter(at);
  // The last chunk is needed even if it is padding: the sums must exist to be stored.
  if (!SetTaps(at, chunk) && !chunk.last) return;
  micro_.bias = BiasAt(at);
  micro_.acc = AccAt(at);
  micro_.finish = finish;
  micro_.store_columns = static_cast<std::uint32_t>(ColumnsAt(at));
  micro_.repeats = 1;
  if (finish) SetStore(at);
  SetPrefetch(at, panels, chunk, finish);
  Multiply(at);
  for (std::uint32_t panel = 1; panel < panels; ++panel) {
    NextPanel();
    Multiply(at);
  }
}

// All panels of neighbouring segments of a shallow convolution. What is computed once per call of
// the micro-kernel would else take as long as the arithmetic.
void ConvBlock::AccumulateSegments(Cursor at, std::uint32_t segments, const Chunk& chunk,
                                   bool finish) {
  if (at.place != here_->place) SetSpot(at.place, at.row, at.segment, *here_);
  SetTaps(at, chunk);
  micro_.finish = finish;
  micro_.repeats = segments;
  micro_.acc_pitch = tile_.panels.size() * args_.item_floats;
  // Prefetches the place of the next micro-tile, as SetPrefetch() does.
  const std::size_t pitch = args_.out_channels * sizeof(float);
  const std::size_t ahead = here_->pixels * pitch;
  const std::size_t stride = std::max(pitch, kPrefetchBytes);
  const std::uint32_t steps = std::max(1u, micro_.tap_depth / kDepthStep);
  micro_.prefetch_burst = static_cast<std::uint32_t>(CeilDivide(CeilDivide(ahead, stride), steps));
  for (; at.panel < tile_.panels.end; ++at.panel, ++at.item) {
    micro_.weights = args_.weights + at.panel * args_.depth * panel_width_;
    micro_.bias = BiasAt(at);
    micro_.acc = AccAt(at);
    micro_.store_columns = static_cast<std::uint32_t>(ColumnsAt(at));
    SetStore(at);
    const auto* const y = reinterpret_cast<const std::byte*>(micro_.store.y);
    prefetch_[0] = {y + ahead, stride, steps * segments};
    prefetch_[1] = {y, 0, ~std::uint32_t{0}};
    micro_.prefetch = prefetch_;
    Multiply(at);
  }
}

}  // namespace

bool Conv2dBody(const void* args, std::uint32_t block, BlockContext& ctx) {
  return ConvBlock(*static_cast<const Conv2dArgs*>(args), block, ctx).Run(ctx);
}

}  // namespace lagoon
