#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lines/softmax.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <cmath>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/lines/softmax.h"
#include "kernels/simd/functions-inl.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_SOFTMAX_ARGS_
#define LAGOON_KERNELS_SOFTMAX_ARGS_
namespace lagoon {
namespace {

/// A line is what one vector normalises: a row if inner is 1, otherwise one vector of neighbouring
/// columns.
struct SoftmaxArgs {
  const float* x = nullptr;
  float* y = nullptr;
  std::size_t axis = 1, inner = 1;
  std::size_t lines = 1, lines_per_outer = 1;
  std::size_t line_blocks = 1;  // shares of the lines
  /// Parts per line. More than 1 if a line is too long for a block; then each block has one part of
  /// one line.
  std::size_t parts = 1;
  bool log = false;
};

struct SoftmaxBodies {
  Body rows = nullptr, columns = nullptr;
  std::size_t lanes = 0;
};

/// Vectors between two guard checks of a long line.
constexpr std::size_t kSoftmaxVectorsPerCheck = 256;

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

/// Per lane for columns. For rows, folded over the lanes after the whole line is read.
struct Stats {
  V max, sum;

  static HWY_INLINE Stats Start() {
    return {hn::Set(D(), -std::numeric_limits<float>::infinity()), hn::Zero(D())};
  }
};

/// A line whose vectors lie `step` elements apart. Only the last vector may be partial (rows), or
/// all may be (columns). kLog: subtracts the logarithm of the sum instead of dividing by the sum.
template <bool kRows>
class Line {
 public:
  HWY_INLINE Line(const SoftmaxArgs& args, size_t index) : log_(args.log) {
    const size_t lanes = simd::Lanes();
    const size_t outer = index / args.lines_per_outer;
    const size_t column = index % args.lines_per_outer * lanes;
    const size_t start = outer * args.axis * args.inner + column;
    x_ = args.x + start;
    y_ = args.y + start;
    step_ = kRows ? lanes : args.inner;
    whole_ = kRows ? args.axis / lanes : args.axis;
    part_ = kRows ? args.axis % lanes : std::min(lanes, args.inner - column);
    if (!kRows && part_ == lanes) part_ = 0;
  }

  /// Number of steps of the line; a partial vector of a row counts as one.
  HWY_INLINE size_t steps() const { return whole_ + (kRows && part_ != 0 ? 1 : 0); }

  HWY_INLINE void Max(Range steps, Stats& stats) const {
    V max = stats.max;
    ForEach(steps, [&](const auto& io, size_t offset, bool masked) HWY_ATTR {
      V v = io.Load(x_ + offset);
      if (masked) v = hn::IfThenElse(hn::FirstN(D(), part_), v, Lowest());
      max = simd::MaxOrNan(max, v);
    });
    stats.max = max;
  }

  HWY_INLINE void Sum(Range steps, Stats& stats) const {
    V sum = hn::Zero(D());
    ForEach(steps, [&](const auto& io, size_t offset, bool masked) HWY_ATTR {
      V e = ExpOrZero(hn::Sub(io.Load(x_ + offset), stats.max));
      if (masked) e = hn::IfThenElseZero(hn::FirstN(D(), part_), e);
      sum = hn::Add(sum, e);
    });
    stats.sum = hn::Add(stats.sum, sum);
  }

  HWY_INLINE void Write(Range steps, const Stats& stats) const {
    if (log_) {
      const V shift = hn::Add(stats.max, hn::Log(D(), stats.sum));
      ForEach(steps, [&](const auto& io, size_t offset, bool)
                         HWY_ATTR { io.Store(hn::Sub(io.Load(x_ + offset), shift), y_ + offset); });
      return;
    }
    const V scale = hn::Div(hn::Set(D(), 1), stats.sum);
    ForEach(steps, [&](const auto& io, size_t offset, bool) HWY_ATTR {
      const V e = ExpOrZero(hn::Sub(io.Load(x_ + offset), stats.max));
      io.Store(hn::Mul(e, scale), y_ + offset);
    });
  }

  /// Call after Max over the whole line; FoldSum after Sum.
  static HWY_INLINE void FoldMax(Stats& stats) {
    if (kRows) stats.max = simd::MaxOfLanesOrNan(stats.max);
  }
  static HWY_INLINE void FoldSum(Stats& stats) {
    if (kRows) stats.sum = hn::SumOfLanes(D(), stats.sum);
  }

 private:
  static HWY_INLINE V Lowest() { return hn::Set(D(), -std::numeric_limits<float>::infinity()); }

  template <class Visit>
  HWY_INLINE void ForEach(Range steps, const Visit& visit) const {
    if (!kRows && part_ != 0) {
      const simd::Part part(part_);
      for (size_t i = steps.begin; i < steps.end; ++i) visit(part, i * step_, false);
      return;
    }
    const size_t whole = std::min(steps.end, whole_);
    for (size_t i = steps.begin; i < whole; ++i) visit(simd::Whole(), i * step_, false);
    if (kRows && steps.end > whole_) visit(simd::Part(part_), whole_ * step_, true);
  }

  const float* x_;
  float* y_;
  size_t step_, whole_, part_;
  bool log_;
};

/// One part of a line that is too long for a block. Every part computes the maximum and the sum of
/// the whole line for itself.
template <bool kRows>
bool LongLine(const Line<kRows>& line, Range part, BlockContext& ctx) {
  Stats stats = Stats::Start();
  const size_t steps = line.steps();
  for (size_t i = 0; i < steps; i += kSoftmaxVectorsPerCheck) {
    if (ctx.ShouldLeave()) return false;
    line.Max({i, std::min(steps, i + kSoftmaxVectorsPerCheck)}, stats);
  }
  line.FoldMax(stats);
  for (size_t i = 0; i < steps; i += kSoftmaxVectorsPerCheck) {
    if (ctx.ShouldLeave()) return false;
    line.Sum({i, std::min(steps, i + kSoftmaxVectorsPerCheck)}, stats);
  }
  line.FoldSum(stats);
  if (ctx.ShouldLeave()) return false;
  line.Write(part, stats);
  return true;
}

template <bool kRows>
bool SoftmaxBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const SoftmaxArgs*>(raw);
  const Range lines = Share(args.lines, args.line_blocks, block / args.parts);
  if (args.parts > 1) {
    const Line<kRows> line(args, lines.begin);
    return LongLine(line, Share(line.steps(), args.parts, block % args.parts), ctx);
  }
  for (size_t index = lines.begin; index < lines.end; ++index) {
    const Line<kRows> line(args, index);
    const Range all{0, line.steps()};
    Stats stats = Stats::Start();
    line.Max(all, stats);
    line.FoldMax(stats);
    line.Sum(all, stats);
    line.FoldSum(stats);
    line.Write(all, stats);
  }
  return true;
}

}  // namespace

SoftmaxBodies PickSoftmaxBodies() {
  return {.rows = &SoftmaxBody<true>, .columns = &SoftmaxBody<false>, .lanes = simd::Lanes()};
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickSoftmaxBodies);

constexpr char kName[] = "softmax";

// Measured on a Xeon at 2 GHz, one thread: two exponentials of a vector, the same for both vector
// widths; columns from the third-level cache.
constexpr double kNsPerVector = 16;
constexpr double kNsPerLine = 40;

}  // namespace

Result<Kernel> MakeSoftmax(const SoftmaxSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(
      const std::size_t count,
      CheckElements(kName, "x",
                    {{"outer", spec.outer}, {"axis", spec.axis}, {"inner", spec.inner}}));
  const SoftmaxBodies bodies = LAGOON_DISPATCH(PickSoftmaxBodies)();
  const bool rows = spec.inner == 1;
  SoftmaxArgs args;
  args.axis = spec.axis;
  args.inner = spec.inner;
  args.log = spec.log;
  args.lines_per_outer = CeilDivide(spec.inner, bodies.lanes);
  args.lines = spec.outer * args.lines_per_outer;
  const std::size_t steps = rows ? CeilDivide(spec.axis, bodies.lanes) : spec.axis;
  const double line_ns = kNsPerLine + kNsPerVector * static_cast<double>(steps);
  args.line_blocks = args.lines;
  if (line_ns > kSingleBlockNs) {
    args.parts = CeilDivide(steps, kSoftmaxVectorsPerCheck);
  } else {
    args.line_blocks = BlocksFor(line_ns * static_cast<double>(args.lines), args.lines);
  }
  Kernel kernel;
  kernel.name = kName;
  kernel.body = rows ? bodies.rows : bodies.columns;
  kernel.blocks = static_cast<std::uint32_t>(args.line_blocks * args.parts);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(SoftmaxArgs, x)};
  kernel.outputs = {offsetof(SoftmaxArgs, y)};
  kernel.flops = 5 * static_cast<double>(count);
  kernel.bytes_moved = 2 * sizeof(float) * static_cast<double>(count);
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
