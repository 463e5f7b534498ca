#include "kernels/conv/int8/byte_depthwise.h"

#include <algorithm>
#include <cstring>

#include "device/block.h"
#include "kernels/checks.h"
#include "kernels/tiling.h"
#include "kernels/window.h"

namespace lagoon {
namespace {

constexpr char kByteDepthwise[] = "byte_depthwise";

// Most padding that a block writes before it begins, if not that of a pixel.
constexpr std::size_t kMostZeros = std::size_t{16} << 10;

/// Where the parts of the packed weights begin.
struct PackedParts {
  std::size_t bias = 0, scale = 0, size = 0;

  PackedParts(std::size_t channels, std::size_t quads) {
    const std::size_t places = CeilDivide(channels, kByteGroup) * kByteGroup;
    bias = places * quads * kByteQuad;
    scale = bias + places * sizeof(std::int32_t);
    size = scale + places * sizeof(float);
  }
};

/// How many neighbours are computed as one pixel of more channels: these lie in one piece, if there
/// is no stride.
std::size_t RepeatsOf(const ByteConvSpec& spec) {
  if (spec.window.stride_w != 1) return 1;
  return std::max<std::size_t>(1, kByteGroup / spec.in_channels);
}

/// How the taps of a filter are distributed over quads.
struct TapOrder {
  std::size_t kernel_w = 1;
  std::size_t columns = 0;  // ByteDepthwise::columns
  std::size_t column_quads = 1;
  std::size_t quads = 1;

  /// The place among the quads' taps of a filter's row and column.
  std::size_t PlaceOf(std::size_t row, std::size_t column) const {
    return columns > 0 ? column * column_quads * kByteQuad + row : row * kernel_w + column;
  }
};

/// The best unit of the process decides, so that all its units read the same weights.
TapOrder TapOrderOf(const ByteConvSpec& spec) {
  const ImageWindow& w = spec.window;
  // Neighbours then share more than the quads that are not full add.
  const bool columns_pay = w.kernel_h >= 3 && (w.kernel_w == 3 || w.kernel_w == 5) &&
                           w.stride_w <= 2 && w.dilation_w == 1 && RepeatsOf(spec) == 1;
  TapOrder order{.kernel_w = w.kernel_w, .quads = CeilDivide(WindowTaps(w), kByteQuad)};
  if (columns_pay && ByteUnits().front()->shares_columns) {
    order.columns = w.kernel_w;
    order.column_quads = CeilDivide(w.kernel_h, kByteQuad);
    order.quads = order.columns * order.column_quads;
  }
  return order;
}

struct ByteDepthwiseArgs {
  const std::uint8_t* x;
  const std::byte* weights;
  std::uint8_t* y;
  const ByteUnit* unit;
  ImageWindow window;
  TapOrder order;
  std::uint32_t channels, pixels, blocks;
  std::uint32_t repeats;                  // neighbours that are computed as one pixel
  std::size_t bias_offset, scale_offset;  // in the packed weights
  std::size_t zeros_bytes;                // of scratch memory; pointers to taps come behind
  std::uint8_t x_zero, y_zero;
  bool limits;
  float low, high;
};

/// Computes the pixels of a block from left to right.
class DepthwiseWalk {
 public:
  DepthwiseWalk(const ByteDepthwiseArgs& args, std::byte* scratch)
      : args_(args),
        zero_rows_(args.zeros_bytes >= std::size_t{args.window.width} * args.channels),
        inside_(InsideColumns(args.window)),
        zeros_(reinterpret_cast<const std::uint8_t*>(scratch)),
        taps_(reinterpret_cast<const std::uint8_t**>(scratch + args.zeros_bytes)) {
    std::memset(scratch, args.x_zero, args.zeros_bytes);
    run_.taps = taps_;
    run_.quads = args.order.quads;
    run_.step = std::size_t{args.window.stride_w} * args.channels * args.repeats;
    run_.weights = reinterpret_cast<const std::int8_t*>(args.weights);
    run_.bias = reinterpret_cast<const std::int32_t*>(args.weights + args.bias_offset);
    run_.scale = reinterpret_cast<const float*>(args.weights + args.scale_offset);
    run_.low = args.low;
    run_.high = args.high;
    run_.limits = args.limits;
    run_.zero = args.y_zero;
    run_.stride = args.window.stride_w;
    run_.width = args.window.width;
    run_.x_zero = args.x_zero;
  }

  void Compute(Range pixels) {
    const std::size_t width = args_.window.out_width;
    const bool shares = args_.order.columns > 0 && args_.unit->shares_columns;
    std::size_t taken = 0;
    for (std::size_t pixel = pixels.begin; pixel < pixels.end; pixel += taken) {
      const std::size_t row = pixel / width, column = pixel % width;
      const std::size_t most = std::min(pixels.end - pixel, width - column);
      const bool whole_rows = zero_rows_ || HasAllRows(row);
      run_.y = args_.y + pixel * args_.channels;
      taken = shares && whole_rows ? ComputeRow(row, column, most)
                                   : ComputeRun(row, column, whole_rows ? most : 1);
    }
  }

 private:
  bool HasAllRows(std::size_t row) const {
    return TapsOf(RowAxis(args_.window), row % args_.window.out_height).count ==
           args_.window.kernel_h;
  }
  bool HasAllColumns(std::size_t column) const {
    return column >= inside_.begin && column < inside_.end;
  }
  /// Computes `pixels` neighbours, which share columns, and returns their number.
  std::size_t ComputeRow(std::size_t row, std::size_t column, std::size_t pixels) {
    const ImageWindow& w = args_.window;
    const std::size_t image = row / w.out_height;
    const AxisTaps rows = TapsOf(RowAxis(w), row % w.out_height);
    for (std::size_t r = 0; r < args_.order.column_quads * kByteQuad; ++r) {
      const bool there = r >= rows.first && r < rows.first + rows.count;
      // The weights of rows behind the filter's last one are zeros: any row will do.
      const std::size_t y =
          there ? static_cast<std::size_t>(rows.origin) + r * w.dilation_h : std::size_t{0};
      taps_[r] = !there && r < w.kernel_h
                     ? zeros_
                     : args_.x + (image * w.height + y) * w.width * args_.channels;
    }
    run_.columns = args_.order.columns;
    run_.origin =
        static_cast<std::ptrdiff_t>(column * w.stride_w) - static_cast<std::ptrdiff_t>(w.pad_left);
    run_.channels = args_.channels;
    run_.pixels = pixels;
    args_.unit->depthwise(run_);
    return pixels;
  }
  /// Computes one pixel, or up to `most` neighbours that read no padding left or right of the
  /// image, and returns their number.
  std::size_t ComputeRun(std::size_t row, std::size_t column, std::size_t most) {
    std::size_t taken = 1;
    Point(row, column);
    if (!HasAllColumns(column)) most = 1;
    while (taken < most && HasAllColumns(column + taken)) ++taken;
    const std::size_t joined = std::min<std::size_t>(taken, args_.repeats);
    run_.columns = 0;
    run_.channels = joined * args_.channels;
    run_.pixels = taken / joined;
    args_.unit->depthwise(run_);
    return run_.pixels * joined;
  }
  /// The output columns that read no padding.
  static Range InsideColumns(const ImageWindow& w) {
    const std::size_t extent = std::size_t{w.kernel_w - 1} * w.dilation_w;
    const std::size_t padded = std::size_t{w.width} + w.pad_left;
    const std::size_t begin = CeilDivide(w.pad_left, w.stride_w);
    return {begin, padded <= extent ? 0 : (padded - extent - 1) / w.stride_w + 1};
  }
  void Point(std::size_t row, std::size_t column) {
    const ImageWindow& w = args_.window;
    const std::size_t image = row / w.out_height;
    const AxisTaps rows = TapsOf(RowAxis(w), row % w.out_height);
    const AxisTaps columns = TapsOf(ColumnAxis(w), column);
    std::fill(taps_, taps_ + args_.order.quads * kByteQuad, nullptr);
    for (std::size_t r = 0; r < w.kernel_h; ++r) {
      const bool row_there = r >= rows.first && r < rows.first + rows.count;
      const std::size_t y = static_cast<std::size_t>(rows.origin) + r * w.dilation_h;
      for (std::size_t s = 0; s < w.kernel_w; ++s) {
        const bool there = row_there && s >= columns.first && s < columns.first + columns.count;
        const std::size_t x = static_cast<std::size_t>(columns.origin) + s * w.dilation_w;
        taps_[args_.order.PlaceOf(r, s)] =
            there ? args_.x + ((image * w.height + y) * w.width + x) * args_.channels : zeros_;
      }
    }
    // Their weights are zeros.
    std::replace(taps_, taps_ + args_.order.quads * kByteQuad, {}, taps_[0]);
  }

  const ByteDepthwiseArgs& args_;
  const bool zero_rows_;  // the scratch memory has a whole row of padding
  const Range inside_;
  const std::uint8_t* const zeros_;
  const std::uint8_t** const taps_;
  ByteDepthwise run_{};
};

bool ByteDepthwiseBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const ByteDepthwiseArgs*>(raw);
  DepthwiseWalk(args, ctx.scratch().data()).Compute(Share(args.pixels, args.blocks, block));
  return true;
}

std::size_t AlignedTo64(std::size_t bytes) { return CeilDivide(bytes, 64) * 64; }

}  // namespace

Result<Kernel> MakeByteDepthwise(const ByteConvSpec& spec, std::span<const ByteUnit* const> units) {
  const ByteUnit& unit = *units.front();
  LAGOON_RETURN_IF_ERROR(CheckImages(kByteDepthwise, spec.window, {"in_channels", spec.in_channels},
                                     {"out_channels", spec.out_channels}));
  LAGOON_RETURN_IF_ERROR(CheckPositive(
      kByteDepthwise, {{"kernel_h", spec.window.kernel_h}, {"kernel_w", spec.window.kernel_w}}));
  if (spec.in_channels != spec.out_channels || spec.floats ||
      WindowTaps(spec.window) > kMaxByteDepth) {
    return Invalid(kByteDepthwise,
                   "channels differ, the result is not bytes, or the window is too "
                   "large");
  }
  ByteDepthwiseArgs a{};
  a.order = TapOrderOf(spec);
  a.unit = &unit;
  a.window = spec.window;
  a.channels = spec.in_channels;
  a.pixels = static_cast<std::uint32_t>(OutputPixels(spec.window));
  a.repeats = static_cast<std::uint32_t>(RepeatsOf(spec));
  const PackedParts parts(std::size_t{a.channels} * a.repeats, a.order.quads);
  a.bias_offset = parts.bias;
  a.scale_offset = parts.scale;
  a.x_zero = spec.x_zero;
  a.y_zero = spec.y_zero;
  a.limits = spec.limits;
  a.low = spec.low;
  a.high = spec.high;
  const std::size_t row = std::size_t{a.window.width} * a.channels;
  a.zeros_bytes = AlignedTo64(row <= kMostZeros ? row : a.channels);
  constexpr double kPixelNs = 4;
  const double groups = static_cast<double>(CeilDivide(a.channels, kByteGroup));
  const double pixel_ns =
      groups * (a.order.quads * unit.depthwise_quad_ns + unit.group_ns) / a.repeats + kPixelNs;
  a.blocks = BlocksFor(pixel_ns * a.pixels, a.pixels);
  Kernel kernel;
  kernel.name = kByteDepthwise;
  kernel.body = &ByteDepthwiseBody;
  kernel.blocks = a.blocks;
  kernel.scratch_bytes = a.zeros_bytes + a.order.quads * kByteQuad * sizeof(void*);
  kernel.args = ArgsImage(a);
  kernel.inputs = {offsetof(ByteDepthwiseArgs, x), offsetof(ByteDepthwiseArgs, weights)};
  kernel.outputs = {offsetof(ByteDepthwiseArgs, y)};
  const double results = static_cast<double>(a.pixels) * a.channels;
  kernel.flops = 2 * results * static_cast<double>(WindowTaps(spec.window));
  kernel.bytes_moved = static_cast<double>(InputPixels(spec.window)) * a.channels + results +
                       static_cast<double>(parts.size);
  return kernel;
}

std::size_t PackedByteDepthwiseBytes(const ByteConvSpec& spec) {
  return PackedParts(spec.in_channels * RepeatsOf(spec), TapOrderOf(spec).quads).size;
}

void PackByteDepthwise(const ByteConvSpec& spec, const ByteConvWeights& from, std::byte* packed) {
  const TapOrder order = TapOrderOf(spec);
  const std::size_t taps = WindowTaps(spec.window), quads = order.quads;
  const std::size_t channels = spec.in_channels * RepeatsOf(spec);
  const PackedParts parts(channels, quads);
  std::memset(packed, 0, parts.size);
  auto* const weights = reinterpret_cast<std::int8_t*>(packed);
  auto* const bias = reinterpret_cast<std::int32_t*>(packed + parts.bias);
  auto* const scale = reinterpret_cast<float*>(packed + parts.scale);
  const std::size_t places = CeilDivide(channels, kByteGroup) * kByteGroup;
  for (std::size_t i = 0; i < places; ++i) {
    const std::size_t group = i / kByteGroup, place = i % kByteGroup;
    const std::size_t channel = group * kByteGroup + ByteChannel(place);
    if (channel >= channels) continue;
    const std::size_t c = channel % spec.in_channels;
    std::int64_t sum = 0;
    for (std::size_t tap = 0; tap < taps; ++tap) {
      const std::int8_t w = from.weights[c * taps + tap];
      const std::size_t to = order.PlaceOf(tap / spec.window.kernel_w, tap % spec.window.kernel_w);
      const std::size_t quad = group * quads + to / kByteQuad;
      weights[(quad * kByteGroup + place) * kByteQuad + to % kByteQuad] = w;
      sum += w;
    }
    bias[i] = static_cast<std::int32_t>(from.bias[c] - spec.x_zero * sum);
    scale[i] = from.scale[c];
  }
}

}  // namespace lagoon
