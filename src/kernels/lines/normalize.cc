#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lines/normalize.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>
#include <cmath>

#include "kernels/lines/normalize.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_NORMALIZE_ARGS_
#define LAGOON_KERNELS_NORMALIZE_ARGS_
namespace lagoon {
namespace {

struct NormalizeArgs {
  const float* x = nullptr;
  const float* moments = nullptr;  // null: of the row's own
  const float* scale = nullptr;    // null: ones
  const float* bias = nullptr;     // null: zeros
  float* y = nullptr;
  std::size_t rows = 1, row = 1, pieces = 1, period = 1, per_row = 1, inner = 1, blocks = 1;
  float epsilon = 0;
  bool center = true;
};

struct MomentsArgs {
  const float* x = nullptr;
  float* y = nullptr;
  std::size_t rows = 1, row = 1, pieces = 1, blocks = 1;
  bool center = true;
};

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE float Mean(const float* x, size_t count) {
  const size_t lanes = simd::Lanes();
  V a = hn::Zero(D()), b = hn::Zero(D());
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Add(a, hn::LoadU(D(), x + i));
    b = hn::Add(b, hn::LoadU(D(), x + i + lanes));
  }
  float sum = hn::GetLane(hn::SumOfLanes(D(), hn::Add(a, b)));
  for (; i < count; ++i) sum += x[i];
  return sum / static_cast<float>(count);
}

/// Sum of the squares of the differences from `mean`.
HWY_INLINE float Squares(const float* x, float mean, size_t count) {
  const size_t lanes = simd::Lanes();
  const V shift = hn::Set(D(), mean);
  V a = hn::Zero(D()), b = hn::Zero(D());
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const V low = hn::Sub(hn::LoadU(D(), x + i), shift);
    const V high = hn::Sub(hn::LoadU(D(), x + i + lanes), shift);
    a = hn::MulAdd(low, low, a);
    b = hn::MulAdd(high, high, b);
  }
  float sum = hn::GetLane(hn::SumOfLanes(D(), hn::Add(a, b)));
  for (; i < count; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

/// y = (x - mean) * factor * scale[j] + bias[j]
HWY_INLINE void WriteScaled(const float* x, float mean, float factor, const float* scale,
                            const float* bias, size_t count, float* y) {
  const size_t lanes = simd::Lanes();
  const V shift = hn::Set(D(), mean), by = hn::Set(D(), factor);
  const auto write = [&](const auto& io, size_t i) HWY_ATTR {
    V v = hn::Mul(hn::Sub(io.Load(x + i), shift), by);
    if (scale != nullptr) v = hn::Mul(v, io.Load(scale + i));
    if (bias != nullptr) v = hn::Add(v, io.Load(bias + i));
    io.Store(v, y + i);
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) write(simd::Whole(), i);
  if (i < count) write(simd::Part(count - i), i);
}

/// y = x * factor + shift
HWY_INLINE void WriteAffine(const float* x, float factor, float shift, size_t count, float* y) {
  const size_t lanes = simd::Lanes();
  const V by = hn::Set(D(), factor), add = hn::Set(D(), shift);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(D(), x + i), by, add), D(), y + i);
  }
  for (; i < count; ++i) y[i] = x[i] * factor + shift;
}

/// y = (x - mean) * factor.
struct Norm {
  float mean = 0, factor = 1;
};

Norm NormOf(double mean, double squares, const NormalizeArgs& args) {
  const double variance = squares / static_cast<double>(args.row);
  const auto root = std::sqrt(static_cast<float>(variance) + args.epsilon);
  return {static_cast<float>(mean), 1 / root};
}

/// From the moments of the row's pieces, as Chan, Golub and LeVeque add them.
Norm GivenNorm(const NormalizeArgs& args, size_t row) {
  const float* moments = args.moments + 2 * row * args.pieces;
  double count = 0, mean = 0, squares = 0;
  for (size_t piece = 0; piece < args.pieces; ++piece, moments += 2) {
    const auto more = static_cast<double>(Share(args.row, args.pieces, piece).size());
    const double apart = moments[0] - mean, part = more / (count + more);
    mean += apart * part;
    squares += moments[1] + apart * apart * count * part;
    count += more;
  }
  return NormOf(mean, squares, args);
}

HWY_INLINE Norm OwnNorm(const NormalizeArgs& args, const float* x) {
  const float mean = args.center ? Mean(x, args.row) : 0;
  return NormOf(mean, Squares(x, mean, args.row), args);
}

/// Elements `part` of the row.
HWY_INLINE void WriteRow(const NormalizeArgs& args, size_t row, Range part, Norm norm) {
  const float* const x = args.x + row * args.row;
  float* const y = args.y + row * args.row;
  const size_t first = row % args.period * args.per_row;
  if (args.inner == 1) {
    const float* const scale = args.scale == nullptr ? nullptr : args.scale + first + part.begin;
    const float* const bias = args.bias == nullptr ? nullptr : args.bias + first + part.begin;
    return WriteScaled(x + part.begin, norm.mean, norm.factor, scale, bias, part.size(),
                       y + part.begin);
  }
  for (size_t at = part.begin; at < part.end;) {
    const size_t channel = at / args.inner, end = std::min(part.end, (channel + 1) * args.inner);
    const float by =
        args.scale == nullptr ? norm.factor : norm.factor * args.scale[first + channel];
    const float bias = args.bias == nullptr ? 0 : args.bias[first + channel];
    WriteAffine(x + at, by, bias - norm.mean * by, end - at, y + at);
    at = end;
  }
}

bool NormalizeBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const NormalizeArgs*>(raw);
  const Range pieces = Share(args.rows * args.pieces, args.blocks, block);
  for (size_t i = pieces.begin; i < pieces.end; ++i) {
    const size_t row = i / args.pieces;
    const Norm norm =
        args.moments == nullptr ? OwnNorm(args, args.x + row * args.row) : GivenNorm(args, row);
    WriteRow(args, row, Share(args.row, args.pieces, i % args.pieces), norm);
  }
  return true;
}

bool MomentsBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const MomentsArgs*>(raw);
  const Range pieces = Share(args.rows * args.pieces, args.blocks, block);
  for (size_t i = pieces.begin; i < pieces.end; ++i) {
    const Range part = Share(args.row, args.pieces, i % args.pieces);
    const float* const x = args.x + i / args.pieces * args.row + part.begin;
    const float mean = args.center ? Mean(x, part.size()) : 0;
    args.y[2 * i] = mean;
    args.y[2 * i + 1] = Squares(x, mean, part.size());
  }
  return true;
}

}  // namespace

Body PickNormalizeBody() { return &NormalizeBody; }
Body PickMomentsBody() { return &MomentsBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickNormalizeBody);
HWY_EXPORT(PickMomentsBody);

constexpr char kName[] = "normalize", kMoments[] = "moments";

// Measured on a Xeon at 2 GHz, one thread: three passes over a row in the first-level cache.
constexpr double kNsPerElement = 0.5;
constexpr double kNsPerRow = 40;
// Two passes, and the last one, which adds up the moments of the row's pieces too.
constexpr double kMomentsNs = 0.25;
constexpr double kPieceNs = 0.25, kGivenNs = 10;

/// For `passes` over memory and `ns` of arithmetic.
std::size_t BlocksOfPieces(const NormalizeSpec& spec, double passes, double ns) {
  const double count = static_cast<double>(spec.rows) * static_cast<double>(spec.row);
  const std::size_t pieces = spec.rows * spec.pieces();
  return BlocksFor(std::max(MoveNs(passes * sizeof(float) * count), ns), pieces);
}

Result<std::size_t> CheckRows(const char* name, const NormalizeSpec& spec) {
  return CheckElements(name, "x", {{"rows", spec.rows}, {"row", spec.row}});
}

}  // namespace

Result<Kernel> MakeNormalize(const NormalizeSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t count, CheckRows(kName, spec));
  LAGOON_RETURN_IF_ERROR(CheckPositive(kName, {{"period", spec.period}, {"inner", spec.inner}}));
  if ((spec.row > kMaxNormalizeRow && !spec.moments) || spec.row % spec.inner != 0) {
    return Invalid(kName, fmt::format("row {} of channels of {}; the most is {}", spec.row,
                                      spec.inner, kMaxNormalizeRow));
  }
  NormalizeArgs args;
  args.rows = spec.rows;
  args.row = spec.row;
  args.pieces = spec.pieces();
  args.period = spec.period;
  args.per_row = spec.row / spec.inner;
  args.inner = spec.inner;
  args.epsilon = spec.epsilon;
  args.center = spec.center;
  const double bytes = 2 * sizeof(float) * static_cast<double>(count);
  const double elements = static_cast<double>(count);
  if (spec.moments) {
    const auto pieces = static_cast<double>(spec.pieces());
    args.blocks = BlocksOfPieces(
        spec, 2, kPieceNs * elements + kGivenNs * static_cast<double>(spec.rows) * pieces * pieces);
  } else {
    args.blocks = BlocksFor(std::max(MoveNs(bytes), kNsPerElement * elements) +
                                kNsPerRow * static_cast<double>(spec.rows),
                            spec.rows);
  }
  Kernel kernel;
  kernel.name = kName;
  kernel.body = LAGOON_DISPATCH(PickNormalizeBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(NormalizeArgs, x)};
  if (spec.moments) kernel.inputs.push_back(offsetof(NormalizeArgs, moments));
  if (spec.scale) kernel.inputs.push_back(offsetof(NormalizeArgs, scale));
  if (spec.bias) kernel.inputs.push_back(offsetof(NormalizeArgs, bias));
  kernel.outputs = {offsetof(NormalizeArgs, y)};
  kernel.flops = 6 * elements;
  kernel.bytes_moved = bytes;
  return kernel;
}

Result<Kernel> MakeMoments(const NormalizeSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t count, CheckRows(kMoments, spec));
  MomentsArgs args;
  args.rows = spec.rows;
  args.row = spec.row;
  args.pieces = spec.pieces();
  args.center = spec.center;
  args.blocks = BlocksOfPieces(spec, 1, kMomentsNs * static_cast<double>(count));
  Kernel kernel;
  kernel.name = kMoments;
  kernel.body = LAGOON_DISPATCH(PickMomentsBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(MomentsArgs, x)};
  kernel.outputs = {offsetof(MomentsArgs, y)};
  kernel.flops = 4 * static_cast<double>(count);
  kernel.bytes_moved = sizeof(float) * static_cast<double>(count);
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
