// One block of conv2d in bf16.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "device/block.h"
#include "kernels/conv/bf16/conv2d_bf16.h"
#include "kernels/conv/bf16/conv2d_bf16_args.h"
#include "kernels/window.h"

namespace lagoon {
namespace {

/// Elements copied between two guard checks, 4 us. Each kernel row costs as much as kCopiedPerRow
/// more elements.
constexpr std::size_t kCopiedPerCheck = 48 << 10;
constexpr std::size_t kCopiedPerRow = 96;

alignas(64) constexpr float kNoBias[kBf16Panel] = {};

/// The unit's state on this thread. The destructor releases the state, however the multiplication
/// ends.
class UnitState {
 public:
  explicit UnitState(const Bf16Unit& unit) : unit_(unit) {}
  UnitState(const UnitState&) = delete;
  UnitState& operator=(const UnitState&) = delete;
  ~UnitState() { unit_.leave(); }

  void SetRows(std::uint32_t rows) {
    if (rows == rows_) return;
    unit_.enter(rows);
    rows_ = rows;
  }

 private:
  const Bf16Unit& unit_;
  std::uint32_t rows_ = 0;
};

/// Copies the input of one output pixel, over the whole depth, as bf16.
class PixelCopy {
 public:
  PixelCopy(const Bf16ConvArgs& args, std::size_t pixel) : args_(args), first_(pixel) {
    const std::size_t image_pixels = std::size_t{args.window.out_height} * args.window.out_width;
    image_ = pixel / image_pixels;
    row_ = pixel % image_pixels / args.window.out_width;
    column_ = pixel % args.window.out_width;
  }
  void CopyTo(Bf16* to) {
    if (args_.flat) {
      args_.unit->convert(args_.x + first_ * args_.channels, args_.channels, to);
      to += args_.channels;
    } else {
      for (std::uint32_t row = 0; row < args_.window.kernel_h; ++row) to = CopyKernelRow(row, to);
    }
    // Zeros the rest of the last step: zero times stale memory could be NaN.
    const std::size_t depth = WindowTaps(args_.window) * args_.channels;
    std::fill_n(to, std::size_t{args_.steps} * kBf16Step - depth, Bf16{});
  }
  void Next() {
    ++first_;
    if (++column_ < args_.window.out_width) return;
    column_ = 0;
    if (++row_ < args_.window.out_height) return;
    row_ = 0;
    ++image_;
  }

 private:
  Bf16* CopyKernelRow(std::uint32_t kernel_row, Bf16* to) const {
    const ImageWindow& w = args_.window;
    const std::size_t channels = args_.channels;
    const std::int64_t y = static_cast<std::int64_t>(row_) * w.stride_h - w.pad_top +
                           std::int64_t{kernel_row} * w.dilation_h;
    const std::int64_t x = static_cast<std::int64_t>(column_) * w.stride_w - w.pad_left;
    if (y < 0 || y >= w.height) return std::fill_n(to, w.kernel_w * channels, Bf16{});
    const float* const row = args_.x + (static_cast<std::int64_t>(image_) * w.height + y) *
                                           w.width * static_cast<std::int64_t>(channels);
    if (w.dilation_w > 1) return CopyDilated(row, x, to);
    // Neighbouring pixels lie one behind the other.
    const std::int64_t end = x + w.kernel_w;
    const std::int64_t begin_inside = std::clamp<std::int64_t>(0, x, end);
    const std::int64_t end_inside = std::clamp<std::int64_t>(w.width, begin_inside, end);
    const std::size_t inside = static_cast<std::size_t>(end_inside - begin_inside) * channels;
    to = std::fill_n(to, static_cast<std::size_t>(begin_inside - x) * channels, Bf16{});
    if (inside > 0) {
      args_.unit->convert(row + begin_inside * static_cast<std::int64_t>(channels), inside, to);
    }
    return std::fill_n(to + inside, static_cast<std::size_t>(end - end_inside) * channels, Bf16{});
  }
  Bf16* CopyDilated(const float* row, std::int64_t x, Bf16* to) const {
    const std::size_t channels = args_.channels;
    for (std::uint32_t column = 0; column < args_.window.kernel_w;
         ++column, x += args_.window.dilation_w) {
      if (x < 0 || x >= args_.window.width) {
        std::fill_n(to, channels, Bf16{});
      } else {
        args_.unit->convert(row + x * static_cast<std::int64_t>(channels), channels, to);
      }
      to += channels;
    }
    return to;
  }

  const Bf16ConvArgs& args_;
  std::size_t first_;
  std::size_t image_, row_, column_;
};

class Bf16Block {
 public:
  Bf16Block(const Bf16ConvArgs& args, std::uint32_t block, BlockContext& ctx)
      : args_(args),
        ctx_(ctx),
        tile_(Bf16TileOf(args, block)),
        groups_(CeilDivide(tile_.pixels.size(), kBf16Rows)),
        input_(ctx.scratch().data()),
        sums_(reinterpret_cast<float*>(ctx.scratch().data() + args.sums_offset)) {}

  bool Run() {
    if (!CopyInput() || !Multiply() || ctx_.ShouldLeave()) return false;
    // The first visible write: no guard check from here to the end.
    for (std::size_t group = 0; group < groups_; ++group) {
      for (std::size_t panel = tile_.panels.begin; panel < tile_.panels.end; ++panel) {
        Store(group, panel);
      }
    }
    return true;
  }

 private:
  std::size_t WidthOf(std::size_t panel) const { return Bf16PanelWidth(args_.out_channels, panel); }
  std::size_t ColumnsOf(std::size_t panel) const {
    return std::min<std::size_t>(WidthOf(panel), args_.out_channels - panel * kBf16Panel);
  }
  // A share of the tile's pixels.
  Range GroupOf(std::size_t group) const { return Share(tile_.pixels.size(), groups_, group); }
  const Bf16* WeightsOf(std::size_t panel) const {
    return args_.weights + panel * args_.steps * kBf16Panel * kBf16Step;
  }
  float* SumsAt(std::size_t group, std::size_t panel) const {
    return sums_ + ((panel - tile_.panels.begin) * groups_ + group) * kBf16ItemFloats;
  }
  // Returns room for a whole panel, because the kernel's own bias may end within the panel.
  const float* BiasAt(std::size_t panel) {
    if (args_.bias == nullptr) return kNoBias;
    const float* const bias = args_.bias + panel * kBf16Panel;
    if (ColumnsOf(panel) == WidthOf(panel)) return bias;
    std::copy_n(bias, ColumnsOf(panel), part_bias_);
    return part_bias_;
  }

  // Offset of the first value of item (group, panel) in y and in tensors of y's shape.
  std::size_t OffsetOf(std::size_t group, std::size_t panel) const {
    return (tile_.pixels.begin + GroupOf(group).begin) * args_.out_channels + panel * kBf16Panel;
  }

  bool CopyInput();
  bool Multiply();
  bool MultiplyItem(std::size_t group, std::size_t panel, UnitState& state);
  void FinishItem(std::size_t group, std::size_t panel) const;
  void Store(std::size_t group, std::size_t panel) const;

  const Bf16ConvArgs& args_;
  BlockContext& ctx_;
  const Bf16ConvTile tile_;
  const std::size_t groups_;
  std::byte* const input_;
  float* const sums_;
  float part_bias_[kBf16Panel] = {};
};

bool Bf16Block::CopyInput() {
  const std::size_t work =
      std::size_t{args_.steps} * kBf16Step + args_.window.kernel_h * kCopiedPerRow;
  PixelCopy copy(args_, tile_.pixels.begin);
  std::size_t unchecked = kCopiedPerCheck;
  for (std::size_t row = 0; row < tile_.pixels.size(); ++row, copy.Next()) {
    unchecked += work;
    if (unchecked > kCopiedPerCheck) {
      if (ctx_.ShouldLeave()) return false;
      unchecked = work;
    }
    copy.CopyTo(reinterpret_cast<Bf16*>(input_ + row * args_.row_bytes));
  }
  return true;
}

bool Bf16Block::Multiply() {
  UnitState state(*args_.unit);
  for (std::size_t panel = tile_.panels.begin; panel < tile_.panels.end; ++panel) {
    for (std::size_t group = 0; group < groups_; ++group) {
      if (!MultiplyItem(group, panel, state)) return false;
      if (args_.finish.row != nullptr) FinishItem(group, panel);
    }
  }
  return true;
}

bool Bf16Block::MultiplyItem(std::size_t group, std::size_t panel, UnitState& state) {
  const Range rows = GroupOf(group);
  const std::size_t halves = WidthOf(panel) / kBf16Vector;
  const std::size_t step_elements = halves * kBf16Vector * kBf16Step;
  Bf16Tile tile{};
  tile.rows = static_cast<std::uint32_t>(rows.size());
  tile.a_pitch = args_.row_bytes;
  tile.bias = BiasAt(panel);
  tile.sums = SumsAt(group, panel);
  state.SetRows(tile.rows);
  for (std::uint32_t step = 0; step < args_.steps; step += tile.steps) {
    if (ctx_.ShouldLeave()) return false;
    tile.steps = std::min(args_.chunk_steps, args_.steps - step);
    tile.a = reinterpret_cast<const Bf16*>(input_ + rows.begin * args_.row_bytes) +
             std::size_t{step} * kBf16Step;
    tile.weights = WeightsOf(panel) + step * step_elements;
    tile.resume = step > 0;
    args_.unit->multiply[halves - 1](tile);
  }
  return true;
}

// Finishes an item in scratch memory: finishing a whole tile in y would take longer than a block
// may write.
void Bf16Block::FinishItem(std::size_t group, std::size_t panel) const {
  const std::size_t rows = GroupOf(group).size(), width = WidthOf(panel);
  float* const sums = SumsAt(group, panel);
  ConvStore store{};
  store.low = args_.low;
  store.high = args_.high;
  for (std::size_t row = 0; row < rows; ++row) {
    store.y = sums + row * width;
    if (args_.residual != nullptr) {
      store.residual = args_.residual + OffsetOf(group, panel) + row * args_.out_channels;
    }
    args_.target->store(store.y, 1, width / kBf16Vector, ColumnsOf(panel), store);
  }
  args_.finish(sums, nullptr, rows * width);
}

void Bf16Block::Store(std::size_t group, std::size_t panel) const {
  const bool finished = args_.finish.row != nullptr;
  const float* const residual = finished ? args_.finish_residual : args_.residual;
  const std::size_t offset = OffsetOf(group, panel);
  ConvStore store{};
  store.y = args_.y + offset;
  store.residual = residual != nullptr ? residual + offset : nullptr;
  store.pitch = args_.out_channels;
  store.low = finished ? -std::numeric_limits<float>::infinity() : args_.low;
  store.high = finished ? std::numeric_limits<float>::infinity() : args_.high;
  args_.target->store(SumsAt(group, panel), GroupOf(group).size(), WidthOf(panel) / kBf16Vector,
                      ColumnsOf(panel), store);
}

}  // namespace

bool Bf16Conv2dBody(const void* args, std::uint32_t block, BlockContext& ctx) {
  return Bf16Block(*static_cast<const Bf16ConvArgs*>(args), block, ctx).Run();
}

}  // namespace lagoon
