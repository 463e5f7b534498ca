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

struct ByteDepthwiseArgs {
  const std::uint8_t* x;
  const std::byte* weights;
  std::uint8_t* y;
  const ByteUnit* unit;
  ImageWindow window;
  std::uint32_t channels, quads, pixels, blocks;
  std::uint32_t repeats;                  // neighbours that are computed as one pixel
  std::size_t bias_offset, scale_offset;  // in the packed weights
  std::size_t zeros_bytes;                // of scratch memory; pointers to taps come behind
  std::uint8_t x_zero, y_zero;
  bool limits;
  float low, high;
};

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

std::size_t QuadsOf(const ByteConvSpec& spec) {
  return CeilDivide(WindowTaps(spec.window), kByteQuad);
}

/// Computes the pixels of a block from left to right.
class DepthwiseWalk {
 public:
  DepthwiseWalk(const ByteDepthwiseArgs& args, std::byte* scratch)
      : args_(args),
        inside_(InsideColumns(args.window)),
        zeros_(reinterpret_cast<const std::uint8_t*>(scratch)),
        taps_(reinterpret_cast<const std::uint8_t**>(scratch + args.zeros_bytes)) {
    std::memset(scratch, args.x_zero, args.zeros_bytes);
    run_.taps = taps_;
    run_.quads = args.quads;
    run_.step = std::size_t{args.window.stride_w} * args.channels * args.repeats;
    run_.weights = reinterpret_cast<const std::int8_t*>(args.weights);
    run_.bias = reinterpret_cast<const std::int32_t*>(args.weights + args.bias_offset);
    run_.scale = reinterpret_cast<const float*>(args.weights + args.scale_offset);
    run_.low = args.low;
    run_.high = args.high;
    run_.limits = args.limits;
    run_.zero = args.y_zero;
  }

  void Compute(Range pixels) {
    const std::size_t width = args_.window.out_width;
    std::size_t taken = 0;
    for (std::size_t pixel = pixels.begin; pixel < pixels.end; pixel += taken) {
      const std::size_t column = pixel % width;
      taken = 1;
      Point(pixel / width, column);
      // Neighbours that read no padding, which does not move along, are one run.
      const bool inside = HasAllRows(pixel / width) && HasAllColumns(column);
      const std::size_t most = inside ? std::min(pixels.end - pixel, width - column) : 1;
      while (taken < most && HasAllColumns(column + taken)) ++taken;
      const std::size_t joined = std::min<std::size_t>(taken, args_.repeats);
      run_.channels = joined * args_.channels;
      run_.pixels = taken / joined;
      taken = run_.pixels * joined;
      run_.y = args_.y + pixel * args_.channels;
      args_.unit->depthwise(run_);
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
    std::size_t tap = 0;
    for (std::size_t r = 0; r < w.kernel_h; ++r) {
      const bool row_there = r >= rows.first && r < rows.first + rows.count;
      const std::size_t y = static_cast<std::size_t>(rows.origin) + r * w.dilation_h;
      for (std::size_t s = 0; s < w.kernel_w; ++s, ++tap) {
        const bool there = row_there && s >= columns.first && s < columns.first + columns.count;
        const std::size_t x = static_cast<std::size_t>(columns.origin) + s * w.dilation_w;
        taps_[tap] =
            there ? args_.x + ((image * w.height + y) * w.width + x) * args_.channels : zeros_;
      }
    }
    // The weights of the taps behind the last one are zeros.
    std::fill(taps_ + tap, taps_ + args_.quads * kByteQuad, taps_[0]);
  }

  const ByteDepthwiseArgs& args_;
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
  a.unit = &unit;
  a.window = spec.window;
  a.channels = spec.in_channels;
  a.quads = static_cast<std::uint32_t>(QuadsOf(spec));
  a.pixels = static_cast<std::uint32_t>(OutputPixels(spec.window));
  a.repeats = static_cast<std::uint32_t>(RepeatsOf(spec));
  const PackedParts parts(std::size_t{a.channels} * a.repeats, a.quads);
  a.bias_offset = parts.bias;
  a.scale_offset = parts.scale;
  a.x_zero = spec.x_zero;
  a.y_zero = spec.y_zero;
  a.limits = spec.limits;
  a.low = spec.low;
  a.high = spec.high;
  a.zeros_bytes = AlignedTo64(a.channels);
  constexpr double kPixelNs = 4;
  const double groups = static_cast<double>(CeilDivide(a.channels, kByteGroup));
  const double pixel_ns =
      groups * (a.quads * unit.depthwise_quad_ns + unit.group_ns) / a.repeats + kPixelNs;
  a.blocks = BlocksFor(pixel_ns * a.pixels, a.pixels);
  Kernel kernel;
  kernel.name = kByteDepthwise;
  kernel.body = &ByteDepthwiseBody;
  kernel.blocks = a.blocks;
  kernel.scratch_bytes = a.zeros_bytes + a.quads * kByteQuad * sizeof(void*);
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
  return PackedParts(spec.in_channels * RepeatsOf(spec), QuadsOf(spec)).size;
}

void PackByteDepthwise(const ByteConvSpec& spec, const ByteConvWeights& from, std::byte* packed) {
  const std::size_t taps = WindowTaps(spec.window), quads = QuadsOf(spec);
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
      const std::size_t quad = group * quads + tap / kByteQuad;
      weights[(quad * kByteGroup + place) * kByteQuad + tap % kByteQuad] = w;
      sum += w;
    }
    bias[i] = static_cast<std::int32_t>(from.bias[c] - spec.x_zero * sum);
    scale[i] = from.scale[c];
  }
}

}  // namespace lagoon
